// SPDX-License-Identifier: GPL-2.0

//! Reception: from a filled descriptor to the network stack.
//!
//! [`RxQueue::poll`] runs in NAPI context. It takes filled slots off the ring, one load each
//! ([`RxRing::take_filled`]), turns their buffers into the CPU's ([`PagePool::received`]), lets the
//! state machine of [`crate::ravb_frame`] say what they are parts of, and passes whole frames up
//! ([`SkBuff::receive`]). Then it arms the empty slots with new buffers.

use kernel::{
    prelude::*,
    sync::{
        atomic::Relaxed,
        Arc, //
    }, //
};

use crate::{
    net::{
        napi::{
            self,
            Napi,
            Poll, //
        },
        netdev::{
            Features,
            Locked, //
        },
        page_pool::{
            CpuBuffer,
            DeviceBuffer,
            Gfp,
            PagePool, //
        },
        skbuff::{
            drop_reason,
            SkBuff, //
        }, //
    },
    ravb_desc::{
        RxError,
        RxWord, //
    },
    ravb_frame::{
        checksum_is_good,
        Action,
        State,
        VERDICTS_LEN, //
    },
    ravb_hw::{
        QueueId,
        Trailer, //
    },
    ravb_ring::RxRing,
    ravb_stats::{
        RxPassed,
        RxStats, //
    },
    Ravb, //
};

/// The receive side of a queue.
pub(crate) struct RxQueue<'bound, P: Poll> {
    id: QueueId,
    ring: RxRing,
    /// The buffers of the slots that are the hardware's.
    buffers: KVec<Option<DeviceBuffer>>,
    pool: PagePool<'bound, P>,
    trailer: Trailer,
    errors_counted: bool,
    state: State,
    /// The frame that was begun, where the state says so.
    partial: Option<SkBuff>,
}

impl<'bound, P: Poll<Device = Ravb<'bound>>> RxQueue<'bound, P> {
    /// Creates the queue with all slots armed.
    pub(crate) fn new(
        dev: &Locked<'_, Ravb<'bound>>,
        napi: &Arc<Napi<P>>,
        id: QueueId,
        size: u32,
    ) -> Result<Self> {
        let parent = dev.hw.dev();
        let format = &dev.hw.variant.rx;
        let mut buffers = KVec::with_capacity(size as usize, GFP_KERNEL)?;
        for _ in 0..size {
            buffers.push(None, GFP_KERNEL)?;
        }
        let mut this = Self {
            id,
            ring: RxRing::new(parent, size, format.words)?,
            buffers,
            pool: PagePool::new(parent, dev, napi, size as usize, format.layout)?,
            trailer: format.trailer,
            errors_counted: format.errors_counted,
            state: State::default(),
            partial: None,
        };
        if this.refill(Gfp::Kernel) < size {
            return Err(ENOMEM);
        }
        Ok(this)
    }

    /// The ring, for the table of base addresses.
    pub(crate) fn ring(&self) -> &RxRing {
        &self.ring
    }

    /// Arms all empty slots that there are buffers for, and returns their number.
    fn refill(&mut self, gfp: Gfp) -> u32 {
        let Self {
            ring,
            buffers,
            pool,
            ..
        } = self;

        ring.refill(pool.capacity(), |slot| {
            // A buffer that was not passed up is still there.
            let buffer = match buffers.get_mut(slot as usize)? {
                Some(buffer) => buffer,
                empty => empty.insert(pool.alloc(gfp)?),
            };
            u32::try_from(buffer.dma_address()).ok()
        })
    }

    /// Receives up to the budget of frames, and returns their number.
    ///
    /// Should there be no memory to arm a single slot, it returns the whole budget: the poll is
    /// repeated then, because no frame would ever raise another interrupt.
    pub(crate) fn poll(&mut self, cx: &napi::Context<'_, Ravb<'bound>>) -> usize {
        let dev = cx.dev();
        let stats = dev.stats.rx(self.id);
        let features = dev.features();
        let all = features.contains(Features::RX_ALL);
        let mut pass = Pass {
            cx,
            stats,
            copybreak: dev.rx_copybreak.load(Relaxed),
            // What the hardware says of a damaged frame is not known to be right.
            checksum: features.contains(Features::RX_CHECKSUM) && !all,
            all,
            trailer: self.trailer,
            passed: RxPassed::default(),
        };
        let mut done = 0;

        while done < cx.budget() {
            let Some((slot, word)) = self.ring.take_filled() else {
                break;
            };
            // What nearly all frames are needs no state machine.
            let plain = word.is_good_frame() && self.pool.holds(word.size());
            let skb = if plain && self.state == State::Idle {
                self.take_frame(&mut pass, slot, word)
            } else {
                self.take_part(&mut pass, slot, word)
            };
            if let Some(skb) = skb {
                pass.up(skb);
                done += 1;
            }
        }
        stats.count_passed(&pass.passed);

        let vacant = self.ring.vacant();
        if self.refill(Gfp::Atomic) < vacant {
            stats.alloc_fail.add(1);
        }
        debug_assert!(self.every_armed_slot_has_its_buffer());
        if self.ring.is_exhausted() {
            return cx.budget();
        }
        done
    }

    /// Whether no slot was lost or handed out twice. Kernels with `CONFIG_RUST_DEBUG_ASSERTIONS`
    /// look after each poll.
    fn every_armed_slot_has_its_buffer(&self) -> bool {
        let mut addresses = self.ring.armed().map(|slot| {
            let buffer = self.buffers.get(slot as usize)?.as_ref()?;
            let address = u32::try_from(buffer.dma_address()).ok()?;
            Some(self.ring.pointer(slot) == address)
        });
        addresses.all(|found| found == Some(true))
    }

    /// Takes a good frame that is whole in its slot.
    #[inline(always)]
    fn take_frame(
        &mut self,
        pass: &mut Pass<'_, 'bound>,
        slot: u32,
        word: RxWord,
    ) -> Option<SkBuff> {
        if word.status().is_multicast() {
            pass.passed.multicast += 1;
        }
        if word.size() <= pass.copybreak {
            return self.copy_frame(pass, slot, word.size());
        }
        let buffer = self.take_buffer(slot, word.size())?;
        self.build(pass, buffer)
    }

    /// Copies a short frame. The buffer stays in its slot.
    #[inline(never)]
    fn copy_frame(&mut self, pass: &Pass<'_, 'bound>, slot: u32, size: u32) -> Option<SkBuff> {
        let buffer = self.buffers.get(slot as usize)?.as_ref()?;
        let skb = self.pool.copy(buffer, size, pass.cx);
        if skb.is_none() {
            pass.stats.alloc_fail.add(1);
            pass.stats.dropped.add(1);
        }
        skb
    }

    /// Takes the next part of a frame; returns the frame if it is whole with it.
    #[cold]
    fn take_part(
        &mut self,
        pass: &mut Pass<'_, 'bound>,
        slot: u32,
        word: RxWord,
    ) -> Option<SkBuff> {
        let stats = pass.stats;
        let status = word.status();
        // A length that makes no sense makes the part useless, whatever its type.
        let part = word.part().filter(|_| self.pool.holds(word.size()));
        let error = status.error();
        // Damage that the MAC found counts, but where the user wants such frames, it is no reason
        // to drop one.
        let excused = error.filter(|_| pass.all && status.is_damaged());
        let step = self.state.step(part, error.xor(excused));
        let excused = excused.filter(|_| !matches!(step.action, Action::Drop));

        for error in [step.abort, step.error, excused].into_iter().flatten() {
            // What the MAC found wrong it may have counted itself.
            if !self.errors_counted || status.mac_error() != Some(error) {
                stats.count_error(error);
            }
        }
        if step.abort.is_some() {
            self.abort();
        }
        match step.action {
            Action::Deliver => self.take_frame(pass, slot, word),
            Action::Begin => {
                let buffer = self.take_buffer(slot, word.size())?;
                self.partial = self.build(pass, buffer);
                None
            }
            Action::Append => {
                let buffer = self.take_buffer(slot, word.size())?;
                self.append(stats, buffer);
                None
            }
            Action::Finish => {
                let buffer = self.take_buffer(slot, word.size())?;
                self.append(stats, buffer);
                // The status is that of the frame where it ends.
                if status.is_multicast() {
                    pass.passed.multicast += 1;
                }
                self.partial.take()
            }
            Action::Drop => None,
        }
    }

    /// Takes the buffer out of a slot, with the `len` bytes that the hardware wrote.
    #[inline]
    fn take_buffer(&mut self, slot: u32, len: u32) -> Option<CpuBuffer> {
        let buffer = self.buffers.get_mut(slot as usize)?.take()?;
        self.pool.received(buffer, len)
    }

    /// Makes a packet of the first, or only, part of a frame.
    #[inline(always)]
    fn build(&mut self, pass: &Pass<'_, 'bound>, buffer: CpuBuffer) -> Option<SkBuff> {
        match buffer.build_skb(pass.cx) {
            Ok(skb) => Some(skb),
            Err(_buffer) => {
                self.lose(pass.stats);
                None
            }
        }
    }

    /// A part is lost, for want of memory.
    #[cold]
    fn lose(&mut self, stats: &RxStats) {
        stats.alloc_fail.add(1);
        stats.dropped.add(1);
        self.state.lose();
    }

    /// Appends a part to the frame that was begun.
    fn append(&mut self, stats: &RxStats, buffer: CpuBuffer) {
        let Some(skb) = &mut self.partial else {
            return;
        };
        if skb.add_fragment(buffer).is_err() {
            stats.count_error(RxError::Length);
            self.state.lose();
            self.abort();
        }
    }

    /// Drops the frame that was begun.
    fn abort(&mut self) {
        if let Some(skb) = self.partial.take() {
            skb.discard(drop_reason::SKB_DROP_REASON_DEV_HDR);
        }
    }
}

impl<P: Poll> Drop for RxQueue<'_, P> {
    fn drop(&mut self) {
        if let Some(skb) = self.partial.take() {
            skb.discard(drop_reason::SKB_DROP_REASON_DEV_READY);
        }
    }
}

/// What stays the same during a poll, and what it passes up.
struct Pass<'a, 'bound> {
    cx: &'a napi::Context<'a, Ravb<'bound>>,
    stats: &'a RxStats,
    /// Frames up to this length are copied, in bytes.
    copybreak: u32,
    /// Whether the stack wants to know what the hardware says of checksums.
    checksum: bool,
    /// Whether damaged frames are passed up.
    all: bool,
    trailer: Trailer,
    passed: RxPassed,
}

impl Pass<'_, '_> {
    /// Passes a frame up, without the trailer that tells of its checksum.
    #[inline]
    fn up(&mut self, mut skb: SkBuff) {
        let passed = &mut self.passed;
        let has_trailer = match self.trailer {
            Trailer::Verdicts => skb.take_trailer::<VERDICTS_LEN>().map(|verdicts| {
                if self.checksum && checksum_is_good(verdicts) {
                    skb.checksum_verified();
                    passed.csum_unnecessary += 1;
                } else {
                    passed.csum_none += 1;
                }
            }),
            Trailer::Sum => skb.take_trailer().map(|sum| {
                if self.checksum {
                    skb.checksum_complete(u16::from_le_bytes(sum));
                    passed.csum_complete += 1;
                } else {
                    passed.csum_none += 1;
                }
            }),
        };
        let bytes = skb.len() as u64;
        let received = match has_trailer {
            Some(()) => skb.receive(self.cx),
            None => Err(skb),
        };
        match received {
            Ok(()) => {
                passed.packets += 1;
                passed.bytes += bytes;
            }
            Err(skb) => {
                self.stats.count_error(RxError::Length);
                skb.discard(drop_reason::SKB_DROP_REASON_DEV_HDR);
            }
        }
    }
}
