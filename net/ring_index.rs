// SPDX-License-Identifier: GPL-2.0

//! The counts of a ring with one producer and one consumer, and when the producer is stopped and
//! woken.
//!
//! Neither side takes a lock. The producer publishes what it put into the ring by the release store
//! in [`Counts::produce`], which pairs with the acquire load in [`Counts::is_empty`]; the consumer
//! publishes the places that it freed by the release store in [`Counts::consume`], which pairs with
//! the acquire load in [`Counts::free`].
//!
//! A producer that finds the ring full is stopped at a [`Gate`]. The consumer may free places
//! between the producer's look and its stop, and then find nobody to wake. So both do their part
//! before they look at the other's, with a full barrier between: [`Counts::stop_if_full`] stops and
//! then counts again, [`Counts::wake_if_free`] is called after places were freed and then looks
//! whether the gate is closed.
//!
//! This file knows nothing of the kernel; `tests/logic` lets loom try the ways in which the two
//! sides can interleave.

/// A 32-bit atomic integer.
pub(crate) trait AtomicCount {
    /// A new one.
    fn new(value: u32) -> Self;
    /// Reads it, in no order.
    fn load_relaxed(&self) -> u32;
    /// Reads it, before whatever follows.
    fn load_acquire(&self) -> u32;
    /// Writes it, after whatever came before.
    fn store_release(&self, value: u32);
    /// Orders whatever came before, before whatever follows, on all CPUs.
    fn full_barrier();
}

/// What keeps a producer from running.
pub(crate) trait Gate {
    /// Closes it; only the producer does.
    fn stop(&self);
    /// Opens it again in the very call of the producer that closed it.
    fn start(&self);
    /// Whether it is closed.
    fn is_stopped(&self) -> bool;
    /// Opens it and lets the producer run.
    fn wake(&self);
}

/// How many places were ever filled and freed. Both counts wrap.
///
/// # Invariants
///
/// Only the producer writes `produced`, only the consumer writes `consumed`, and neither gets ahead
/// of the other by more than the size of the ring.
pub(crate) struct Counts<A> {
    produced: A,
    consumed: A,
    size: u32,
}

impl<A: AtomicCount> Counts<A> {
    /// The counts of an empty ring of `size` places.
    pub(crate) fn new(size: u32) -> Self {
        Self {
            produced: A::new(0),
            consumed: A::new(0),
            size,
        }
    }

    /// How many places the producer may fill. The consumer may free more at any time.
    #[inline]
    pub(crate) fn free(&self) -> u32 {
        let used = self
            .produced
            .load_relaxed()
            .wrapping_sub(self.consumed.load_acquire());
        self.size - used
    }

    /// The producer has filled `places` places.
    #[inline]
    pub(crate) fn produce(&self, places: u32) {
        self.produced
            .store_release(self.produced.load_relaxed().wrapping_add(places));
    }

    /// Whether there is nothing for the consumer. The producer may add something at any time.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.produced.load_acquire() == self.consumed.load_relaxed()
    }

    /// The consumer has emptied `places` places.
    #[inline]
    pub(crate) fn consume(&self, places: u32) {
        self.consumed
            .store_release(self.consumed.load_relaxed().wrapping_add(places));
    }

    /// Stops the producer, who calls this, unless it has room for `room` places more.
    ///
    /// Returns whether the gate was closed, be it only for a moment.
    #[inline]
    pub(crate) fn stop_if_full(&self, gate: &impl Gate, room: u32) -> bool {
        if self.free() >= room {
            return false;
        }
        gate.stop();
        A::full_barrier();
        if self.free() >= room {
            gate.start();
        }
        true
    }

    /// Wakes the producer if it is stopped and has room for `room` places now. The consumer calls
    /// this after it freed places.
    ///
    /// Returns whether it did.
    #[inline]
    pub(crate) fn wake_if_free(&self, gate: &impl Gate, room: u32) -> bool {
        A::full_barrier();
        if !gate.is_stopped() {
            return false;
        }
        let used = self
            .produced
            .load_acquire()
            .wrapping_sub(self.consumed.load_relaxed());
        let wake = self.size - used >= room;
        if wake {
            gate.wake();
        }
        wake
    }
}
