// SPDX-License-Identifier: GPL-2.0

//! A bounded queue with one producer and one consumer, that tracks a ring of descriptors.
//!
//! An entry occupies as many places as the frame it stands for has descriptors, and lies at the
//! place of its first descriptor, so that both sides find descriptor and entry by the same index.
//! How the two sides keep out of each other's way is in [`super::ring_index`].

use core::{
    cell::UnsafeCell,
    mem::MaybeUninit, //
};

use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Relaxed,
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
    AtomicCount,
    Counts,
    Gate, //
};

impl AtomicCount for Atomic<u32> {
    fn new(value: u32) -> Self {
        Atomic::new(value)
    }

    #[inline]
    fn load_relaxed(&self) -> u32 {
        self.load(Relaxed)
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

struct Entry<T> {
    value: T,
    places: u32,
}

/// # Invariants
///
/// The entries that `counts` says are between producer and consumer are initialised and belong to
/// the consumer, all other places belong to the producer.
struct Shared<T> {
    places: KVec<UnsafeCell<MaybeUninit<Entry<T>>>>,
    counts: Counts<Atomic<u32>>,
}

// SAFETY: By the invariant each place has one owner at a time, which may be on another CPU.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: As above.
unsafe impl<T: Send> Send for Shared<T> {}

/// Where one side is in the ring.
struct Position {
    index: u32,
    size: u32,
}

impl Position {
    /// Goes `places` on, which are at most one lap. No division: the hot path has none.
    fn advance(&mut self, places: u32) {
        self.index += places;
        if self.index >= self.size {
            self.index -= self.size;
        }
    }
}

/// The side that adds entries.
pub(crate) struct Producer<T> {
    shared: Arc<Shared<T>>,
    position: Position,
}

/// The side that takes them out.
pub(crate) struct Consumer<T> {
    shared: Arc<Shared<T>>,
    position: Position,
}

/// Creates a queue of `size` places.
pub(crate) fn queue<T: Send>(size: u32) -> Result<(Producer<T>, Consumer<T>)> {
    let mut places = KVec::with_capacity(size as usize, GFP_KERNEL)?;
    for _ in 0..size {
        places.push(UnsafeCell::new(MaybeUninit::uninit()), GFP_KERNEL)?;
    }
    // INVARIANT: Empty.
    let shared = Arc::new(
        Shared {
            places,
            counts: Counts::new(size),
        },
        GFP_KERNEL,
    )?;
    let position = || Position { index: 0, size };
    Ok((
        Producer {
            shared: shared.clone(),
            position: position(),
        },
        Consumer {
            shared,
            position: position(),
        },
    ))
}

impl<T> Producer<T> {
    /// How many places are free. The consumer may free more at any time.
    pub(crate) fn free(&self) -> u32 {
        self.shared.counts.free()
    }

    /// Closes the gate unless there are `room` free places; see [`Counts::stop_if_full`].
    pub(crate) fn stop_if_full(&self, gate: &impl Gate, room: u32) -> bool {
        self.shared.counts.stop_if_full(gate, room)
    }

    /// The place that the next entry gets.
    pub(crate) fn index(&self) -> u32 {
        self.position.index
    }

    /// The place `n` places after the next one, which is at most one lap away.
    pub(crate) fn index_after(&self, n: u32) -> u32 {
        let mut position = Position { ..self.position };
        position.advance(n);
        position.index
    }

    /// Adds an entry that occupies `places` places.
    ///
    /// Gives it back where there are not as many.
    pub(crate) fn push(&mut self, value: T, places: u32) -> Result<(), T> {
        if places == 0 || places > self.free() {
            return Err(value);
        }
        let Some(place) = self.shared.places.get(self.position.index as usize) else {
            return Err(value);
        };
        // SAFETY: By the invariant of `Shared`, a free place is the producer's alone.
        unsafe { (*place.get()).write(Entry { value, places }) };
        self.position.advance(places);

        // INVARIANT: The entry is initialised and becomes the consumer's.
        self.shared.counts.produce(places);
        Ok(())
    }
}

impl<T> Consumer<T> {
    /// The oldest entry, its place, and how many places it occupies.
    pub(crate) fn front(&mut self) -> Option<(&mut T, u32, u32)> {
        if self.shared.counts.is_empty() {
            return None;
        }
        let index = self.position.index;
        let place = self.shared.places.get(index as usize)?;
        // SAFETY: By the invariant of `Shared`, the entry is initialised and ours.
        let entry = unsafe { (*place.get()).assume_init_mut() };
        Some((&mut entry.value, index, entry.places))
    }

    /// Takes the oldest entry out.
    pub(crate) fn pop(&mut self) -> Option<T> {
        self.front()?;
        let place = self.shared.places.get(self.position.index as usize)?;
        // SAFETY: `front` found an entry there. It is moved out before its places are given back.
        let entry = unsafe { (*place.get()).assume_init_read() };
        self.position.advance(entry.places);

        // INVARIANT: The places hold nothing any more and become the producer's.
        self.shared.counts.consume(entry.places);
        Some(entry.value)
    }

    /// Opens the gate if it is closed and there are `room` free places; see
    /// [`Counts::wake_if_free`].
    pub(crate) fn wake_if_free(&self, gate: &impl Gate, room: u32) -> bool {
        self.shared.counts.wake_if_free(gate, room)
    }

    /// The place `n` places after `index`, which is at most one lap away.
    pub(crate) fn index_after(&self, index: u32, n: u32) -> u32 {
        let mut position = Position {
            index,
            ..self.position
        };
        position.advance(n);
        position.index
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        while self.pop().is_some() {}
    }
}
