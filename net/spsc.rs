// SPDX-License-Identifier: GPL-2.0

//! The places of a ring that one producer fills and one consumer empties, each a `T` that stays
//! where it is: what belongs to a slot of a descriptor ring lies at the place with its index.
//!
//! How the two sides keep out of each other's way is in [`super::ring_index`].

use core::cell::UnsafeCell;

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        barrier::{
            smp_mb,
            Full, //
        },
        Arc, //
    }, //
};

use super::ring_index::{
    self,
    AtomicCount,
    Counts,
    Gate, //
};

impl AtomicCount for Atomic<u32> {
    fn new(value: u32) -> Self {
        Atomic::new(value)
    }

    #[inline]
    fn load_acquire(&self) -> u32 {
        self.load(Acquire)
    }

    #[inline]
    fn store_release(&self, value: u32) {
        self.store(value, Release);
    }

    #[inline]
    fn full_barrier() {
        smp_mb(Full);
    }
}

/// # Invariants
///
/// The places that `counts` says are between producer and consumer belong to the consumer, all
/// others belong to the producer.
struct Shared<T> {
    places: KVec<UnsafeCell<T>>,
    counts: Counts<Atomic<u32>>,
}

// SAFETY: By the invariant each place has one owner at a time, which may be on another CPU.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: As above.
unsafe impl<T: Send> Send for Shared<T> {}

/// Goes on from `index` by `n` places, at most one lap, in a ring of `size`; no division.
#[inline]
pub(crate) fn after(index: u32, n: u32, size: u32) -> u32 {
    let index = index.wrapping_add(n);
    if index >= size {
        index.wrapping_sub(size)
    } else {
        index
    }
}

/// The side that fills places.
///
/// # Invariants
///
/// `next` is the index of the first place that `end` has not published.
pub(crate) struct Producer<T> {
    shared: Arc<Shared<T>>,
    end: ring_index::Producer,
    next: u32,
    size: u32,
}

/// The side that empties them.
///
/// # Invariants
///
/// `next` is the index of the first place that `end` has not taken.
pub(crate) struct Consumer<T> {
    shared: Arc<Shared<T>>,
    end: ring_index::Consumer,
    next: u32,
    size: u32,
}

/// Looks at a ring from outside.
pub(crate) struct Observer<T>(Arc<Shared<T>>);

/// Creates a ring of `size` places.
pub(crate) fn ring<T: Default + Send>(size: u32) -> Result<(Producer<T>, Consumer<T>)> {
    let mut places = KVec::with_capacity(size as usize, GFP_KERNEL)?;
    for _ in 0..size {
        places.push(UnsafeCell::new(T::default()), GFP_KERNEL)?;
    }
    // INVARIANT: All places are the producer's.
    let (counts, producer, consumer) = ring_index::ring(size);
    let shared = Arc::new(Shared { places, counts }, GFP_KERNEL)?;
    Ok((
        Producer {
            shared: shared.clone(),
            end: producer,
            next: 0,
            size,
        },
        Consumer {
            shared,
            end: consumer,
            next: 0,
            size,
        },
    ))
}

impl<T> Producer<T> {
    /// Whether `room` places are free. The consumer may free more at any time.
    #[inline]
    pub(crate) fn has_room(&mut self, room: u32) -> bool {
        self.end.has_room(&self.shared.counts, room)
    }

    /// The index of the place `n` places after the next one, at most one lap away.
    #[inline]
    pub(crate) fn index(&self, n: u32) -> u32 {
        after(self.next, n, self.size)
    }

    /// The place `n` places after the next one, if it is free.
    #[inline]
    pub(crate) fn place(&mut self, n: u32) -> Option<&mut T> {
        if !self.has_room(n.wrapping_add(1)) {
            return None;
        }
        let place = self.shared.places.get(self.index(n) as usize)?;
        // SAFETY: By the invariant of `Shared`, a free place is the producer's alone.
        Some(unsafe { &mut *place.get() })
    }

    /// Hands the next `places` places to the consumer; they were filled.
    ///
    /// Those that are not free stay where they are.
    #[inline]
    pub(crate) fn publish(&mut self, places: u32) {
        if !self.has_room(places) {
            return;
        }
        self.next = self.index(places);
        // INVARIANT: They become the consumer's.
        self.end.publish(&self.shared.counts, places);
    }

    /// Closes the gate unless `room` places are free; see [`ring_index::Producer::stop_if_full`].
    #[inline]
    pub(crate) fn stop_if_full(&mut self, gate: &impl Gate, room: u32) -> bool {
        self.end.stop_if_full(&self.shared.counts, gate, room)
    }
}

impl<T> Observer<T> {
    /// Whether all places are the producer's. Either side may go on at any time.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.0.counts.is_empty()
    }
}

impl<T> Consumer<T> {
    /// What looks at the ring without taking part.
    pub(crate) fn observer(&self) -> Observer<T> {
        Observer(self.shared.clone())
    }

    /// The oldest place that was published and not taken, and its index.
    #[inline]
    pub(crate) fn front(&mut self) -> Option<(&mut T, u32)> {
        if !self.end.has_more(&self.shared.counts) {
            return None;
        }
        let place = self.shared.places.get(self.next as usize)?;
        // SAFETY: By the invariant of `Shared`, a published place is the consumer's alone.
        Some((unsafe { &mut *place.get() }, self.next))
    }

    /// Takes the oldest place, which [`Consumer::front`] showed. It is the consumer's until
    /// [`Consumer::release`].
    #[inline]
    pub(crate) fn take(&mut self) {
        if self.end.has_more(&self.shared.counts) {
            self.end.take(1);
            self.next = after(self.next, 1, self.size);
        }
    }

    /// Gives the places that were taken back to the producer.
    #[inline]
    pub(crate) fn release(&mut self) {
        // INVARIANT: No reference to a place is left, because they borrow `self`.
        self.end.release(&self.shared.counts);
    }

    /// Opens the gate if it is closed and `room` places are free; see
    /// [`ring_index::Consumer::wake_if_free`].
    #[inline]
    pub(crate) fn wake_if_free(&self, gate: &impl Gate, room: u32) -> bool {
        self.end.wake_if_free(&self.shared.counts, gate, room)
    }
}
