// SPDX-License-Identifier: GPL-2.0

//! Counters.
//!
//! C drivers protect 64-bit counters with `u64_stats_sync`, because a 32-bit CPU reads them in two
//! halves. An atomic 64-bit integer needs no such protocol: it is never torn on any architecture,
//! and a plain addition where the CPU has 64 bits.

use kernel::sync::atomic::{
    Atomic,
    Relaxed, //
};

/// A counter that one context writes at a time, and that anybody may read.
pub(crate) struct Counter(Atomic<u64>);

impl Counter {
    /// A counter that starts at 0.
    pub(crate) const fn new() -> Self {
        Self(Atomic::new(0))
    }

    /// Adds `n`. Two contexts that add at the same time may lose one of the additions, but never
    /// tear the value: keep to one writer, or to one lock.
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    /// The present value.
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}
