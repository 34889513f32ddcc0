// SPDX-License-Identifier: GPL-2.0

//! The counts of a ring with one producer and one consumer, and when the producer is stopped and
//! woken.
//!
//! Neither side takes a lock. Each keeps its own count and what it last saw of the other's, and
//! looks again only when that is not enough. The producer publishes what it put into the ring by
//! the release store in [`Producer::publish`], which pairs with the acquire load in
//! [`Consumer::has_more`]; the consumer publishes the places that it freed by the release store in
//! [`Consumer::release`], which pairs with the acquire load in [`Producer::has_room`].
//!
//! A producer that finds the ring full is stopped at a [`Gate`]. The consumer may free places
//! between the producer's look and its stop, and then find nobody to wake. So both do their part
//! before they look at the other's, with a full barrier between: [`Producer::stop_if_full`] stops
//! and then looks again, [`Consumer::wake_if_free`] is called after places were released and then
//! looks whether the gate is closed.
//!
//! This file knows nothing of the kernel; `tests/logic` lets loom try the ways in which the two
//! sides can interleave.

/// A 32-bit atomic integer.
pub(crate) trait AtomicCount {
    /// A new one.
    fn new(value: u32) -> Self;
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

/// How many places were ever published and released. Both counts wrap.
///
/// # Invariants
///
/// Only the one [`Producer`] writes `produced`, only the one [`Consumer`] writes `consumed`, and
/// neither gets ahead of the other by more than the size of the ring.
pub(crate) struct Counts<A> {
    produced: A,
    consumed: A,
}

/// The producer's end of a ring of `size` places.
///
/// # Invariants
///
/// `free` places, at least, are free.
pub(crate) struct Producer {
    produced: u32,
    free: u32,
    size: u32,
}

/// The consumer's end of a ring of `size` places.
///
/// # Invariants
///
/// `ready` places, at least, are published and not taken.
pub(crate) struct Consumer {
    taken: u32,
    ready: u32,
    size: u32,
}

/// The counts of an empty ring of `size` places, and its two ends.
pub(crate) fn ring<A: AtomicCount>(size: u32) -> (Counts<A>, Producer, Consumer) {
    (
        Counts {
            produced: A::new(0),
            consumed: A::new(0),
        },
        Producer {
            produced: 0,
            free: size,
            size,
        },
        Consumer {
            taken: 0,
            ready: 0,
            size,
        },
    )
}

impl<A: AtomicCount> Counts<A> {
    /// Whether all that was published has been released. Either side may go on at any time.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.consumed.load_acquire() == self.produced.load_acquire()
    }
}

impl Producer {
    /// Whether there are `room` free places. The consumer may free more at any time.
    #[inline]
    pub(crate) fn has_room<A: AtomicCount>(&mut self, counts: &Counts<A>, room: u32) -> bool {
        if self.free < room {
            let used = self.produced.wrapping_sub(counts.consumed.load_acquire());
            self.free = self.size.saturating_sub(used);
        }
        self.free >= room
    }

    /// Hands the next `places` places, which are free and were filled, to the consumer.
    #[inline]
    pub(crate) fn publish<A: AtomicCount>(&mut self, counts: &Counts<A>, places: u32) {
        self.produced = self.produced.wrapping_add(places);
        self.free = self.free.saturating_sub(places);
        counts.produced.store_release(self.produced);
    }

    /// Stops the producer, who calls this, unless there is room for `room` places more.
    ///
    /// Returns whether the gate was closed, be it only for a moment.
    #[inline]
    pub(crate) fn stop_if_full<A: AtomicCount>(
        &mut self,
        counts: &Counts<A>,
        gate: &impl Gate,
        room: u32,
    ) -> bool {
        if self.has_room(counts, room) {
            return false;
        }
        gate.stop();
        A::full_barrier();
        if self.has_room(counts, room) {
            gate.start();
        }
        true
    }
}

impl Consumer {
    /// Whether there is something to take. The producer may publish more at any time.
    #[inline]
    pub(crate) fn has_more<A: AtomicCount>(&mut self, counts: &Counts<A>) -> bool {
        if self.ready == 0 {
            self.ready = counts.produced.load_acquire().wrapping_sub(self.taken);
        }
        self.ready != 0
    }

    /// Takes the next `places` places, which are published. They stay the consumer's until
    /// [`Consumer::release`].
    #[inline]
    pub(crate) fn take(&mut self, places: u32) {
        self.taken = self.taken.wrapping_add(places);
        self.ready = self.ready.saturating_sub(places);
    }

    /// Gives all places that were taken back to the producer.
    #[inline]
    pub(crate) fn release<A: AtomicCount>(&self, counts: &Counts<A>) {
        counts.consumed.store_release(self.taken);
    }

    /// Wakes the producer if it is stopped and has room for `room` places now. The consumer calls
    /// this after it released places.
    ///
    /// Returns whether it did.
    #[inline]
    pub(crate) fn wake_if_free<A: AtomicCount>(
        &self,
        counts: &Counts<A>,
        gate: &impl Gate,
        room: u32,
    ) -> bool {
        A::full_barrier();
        if !gate.is_stopped() {
            return false;
        }
        let used = counts.produced.load_acquire().wrapping_sub(self.taken);
        let wake = self.size.saturating_sub(used) >= room;
        if wake {
            gate.wake();
        }
        wake
    }
}
