// SPDX-License-Identifier: GPL-2.0
//! The transmit ring's counts under every interleaving of producer and consumer that loom finds.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};

use loom::cell::UnsafeCell;
use loom::sync::atomic::{fence, AtomicBool, AtomicU32};
use loom::sync::Arc;
use loom::thread;

use crate::ring_index::{ring, AtomicCount, Counts, Gate};

impl AtomicCount for AtomicU32 {
    fn new(value: u32) -> Self {
        AtomicU32::new(value)
    }

    fn load_acquire(&self) -> u32 {
        self.load(Acquire)
    }

    fn store_release(&self, value: u32) {
        self.store(value, Release);
    }

    fn full_barrier() {
        fence(SeqCst);
    }
}

/// The transmit queue of the core: a flag that both sides change. A producer that is woken sees
/// what its waker did, because the core takes locks on the way.
struct Queue(AtomicBool);

impl Gate for Queue {
    fn stop(&self) {
        self.0.store(true, Relaxed);
    }

    fn start(&self) {
        self.0.store(false, Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.0.load(Relaxed)
    }

    fn wake(&self) {
        self.0.store(false, Release);
    }
}

struct Ring {
    counts: Counts<AtomicU32>,
    /// loom complains if two threads use a place at a time.
    places: Vec<UnsafeCell<u32>>,
    queue: Queue,
}

/// Sends frames that take `need` places each through a ring of `size`, while the other thread takes
/// them out. Every frame must arrive, in order. A producer that is stopped waits until it is woken:
/// one that nobody wakes waits for ever, which loom finds.
fn transfer(size: u32, need: u32, frames: u32) {
    let mut model = loom::model::Builder::new();
    // More switches than this between threads that do not wait find nothing new, and take hours.
    model.preemption_bound = Some(3);
    model.check(move || {
        let (counts, mut producer, mut end) = ring(size);
        let ring = Arc::new(Ring {
            counts,
            places: (0..size).map(|_| UnsafeCell::new(u32::MAX)).collect(),
            queue: Queue(AtomicBool::new(false)),
        });

        let consumer = {
            let ring = ring.clone();
            thread::spawn(move || {
                for frame in 0..frames {
                    while !end.has_more(&ring.counts) {
                        thread::yield_now();
                    }
                    let place = (frame * need % size) as usize;
                    ring.places[place].with(|value| {
                        // SAFETY: The place is the consumer's; loom checks that.
                        assert_eq!(unsafe { *value }, frame);
                    });
                    end.take(need);
                    end.release(&ring.counts);
                    end.wake_if_free(&ring.counts, &ring.queue, need);
                }
            })
        };

        for frame in 0..frames {
            // A wake-up that was late may find the ring full again. Then the producer must stop
            // anew, and not miss the next one.
            while ring.queue.0.load(Acquire) || !producer.has_room(&ring.counts, need) {
                if !ring.queue.is_stopped() {
                    producer.stop_if_full(&ring.counts, &ring.queue, need);
                }
                thread::yield_now();
            }
            let place = (frame * need % size) as usize;
            ring.places[place].with_mut(|value| {
                // SAFETY: The place is the producer's; loom checks that.
                unsafe { *value = frame };
            });
            producer.publish(&ring.counts, need);
            producer.stop_if_full(&ring.counts, &ring.queue, need);
        }
        consumer.join().unwrap();
    });
}

#[test]
fn one_place_at_a_time() {
    transfer(1, 1, 3);
}

#[test]
fn a_ring_that_wraps() {
    transfer(2, 1, 3);
}

#[test]
fn frames_of_two_places() {
    transfer(2, 2, 3);
}

/// Who looks from outside finds what was published, until it was taken.
#[test]
fn an_observer_misses_nothing() {
    loom::model(|| {
        let (counts, mut producer, mut end) = ring::<AtomicU32>(1);
        let counts = Arc::new(counts);
        let published = Arc::new(AtomicBool::new(false));
        let taken = Arc::new(AtomicBool::new(false));

        let sender = {
            let (counts, published) = (counts.clone(), published.clone());
            thread::spawn(move || {
                producer.publish(&counts, 1);
                published.store(true, Release);
            })
        };
        let reclaimer = {
            let (counts, taken) = (counts.clone(), taken.clone());
            thread::spawn(move || {
                if end.has_more(&counts) {
                    end.take(1);
                    taken.store(true, Relaxed);
                    end.release(&counts);
                }
            })
        };
        if published.load(Acquire) && counts.is_empty() {
            assert!(taken.load(Relaxed));
        }
        sender.join().unwrap();
        reclaimer.join().unwrap();
    });
}
