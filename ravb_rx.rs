// SPDX-License-Identifier: GPL-2.0

//! Reception: from a filled descriptor to the network stack.
//!
//! [`RxQueue::poll`] runs in NAPI context. It takes filled slots off the ring, one load each
//! ([`RxRing::take_filled`]), turns their buffers into the CPU's ([`PagePool::received`]), lets the
//! state machine of [`crate::ravb_frame`] say what they are parts of, and passes whole frames up
//! ([`SkBuff::receive`]). Then it arms the empty slots with new buffers.

use core::mem::forget;

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
            SkBuff,
            Tail, //
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
        Step,
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

/// An Ethernet header and the longest trailer, in bytes.
const SHORTEST: u32 = 18;

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

    /// The NAPI context of the queue is about to be enabled, with this queue and no other.
    pub(crate) fn will_be_polled(&self) {
        self.pool.bind();
    }

    /// Whether a poll would find nothing to do. Costs one load of a descriptor.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.ring.vacant() == 0 && !self.ring.has_filled()
    }

    /// Arms all empty slots that there are buffers for, and returns their number.
    #[inline]
    fn refill(&mut self, gfp: Gfp) -> u32 {
        let Self {
            ring,
            buffers,
            pool,
            ..
        } = self;

        ring.refill(pool.capacity(), buffers, |place| {
            Some(match place {
                // A buffer that was not passed up is still there.
                Some(buffer) => buffer.dma_address(),
                empty => {
                    let buffer = pool.alloc(gfp)?;
                    let address = buffer.dma_address();
                    // There is nothing to drop, which a compiler does not see.
                    forget(empty.replace(buffer));
                    address
                }
            })
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
        let pass = Pass {
            cx,
            stats,
            copybreak: dev.rx_copybreak.load(Relaxed),
            all,
            trailer: self.trailer,
            // What the hardware says of a damaged frame is not known to be right.
            believed: (features.contains(Features::RX_CHECKSUM) && !all).then_some(self.trailer),
        };
        let mut passed = RxPassed::default();
        let mut done = 0;

        while done < cx.budget() {
            let Some((slot, word)) = self.ring.take_filled() else {
                break;
            };
            // What nearly all frames are needs no state machine.
            let plain = self.state == State::Idle
                && word.is_good_frame()
                && self.pool.holds(word.size())
                && word.size() > pass.copybreak
                // All of them; said here, it is not asked again below.
                && word.size() >= SHORTEST;
            let multicast = word.status().is_multicast();
            // Two calls that are inlined: a frame of the first kind stays in registers.
            if plain {
                if let Some(frame) = self.take_frame(&pass, slot, word) {
                    pass.up(frame, multicast, &mut passed);
                    done += 1;
                }
            } else if let Some(frame) = self.take_part(&pass, slot, word) {
                pass.up(frame, multicast, &mut passed);
                done += 1;
            }
        }
        stats.count_passed(done as u64, &passed, self.trailer);

        let vacant = self.ring.vacant();
        if vacant != 0 && self.refill(Gfp::Atomic) < vacant {
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
            Some(self.ring.pointer(slot) == buffer.dma_address())
        });
        addresses.all(|found| found == Some(true))
    }

    /// Takes a good frame that is whole in its slot, and not to be copied.
    #[inline(always)]
    fn take_frame(&mut self, pass: &Pass<'_, 'bound>, slot: u32, word: RxWord) -> Option<Frame> {
        let mut buffer = self.take_buffer(slot, word.size())?;
        let trailer = pass.take_trailer(&mut buffer);
        let skb = self.build(pass, buffer)?;
        Some(Frame { skb, trailer })
    }

    /// Copies a short frame. The buffer stays in its slot.
    fn copy_frame(&mut self, pass: &Pass<'_, 'bound>, slot: u32, size: u32) -> Option<Frame> {
        let buffer = self.buffers.get_mut(slot as usize)?.as_mut()?;
        let mut lent = self.pool.lend(buffer, size)?;
        let trailer = pass.take_trailer(&mut lent);
        let Some(skb) = lent.copy(pass.cx) else {
            pass.stats.alloc_fail.add(1);
            pass.stats.dropped.add(1);
            return None;
        };
        Some(Frame { skb, trailer })
    }

    /// Takes the next part of a frame; returns the frame if it is whole with it.
    #[inline(always)]
    fn take_part(&mut self, pass: &Pass<'_, 'bound>, slot: u32, word: RxWord) -> Option<Frame> {
        // A length that makes no sense makes the part useless, whatever its type.
        let part = word.part().filter(|_| self.pool.holds(word.size()));
        let error = word.error();
        // Damage that the MAC found counts, but where the user wants such frames, it is no reason
        // to drop one.
        let excused = error.filter(|_| pass.all && word.status().is_damaged());
        let step = self.state.step(part, error.xor(excused));
        let excused = excused.filter(|_| !matches!(step.action, Action::Drop));

        if step.abort.is_some() || step.error.is_some() || excused.is_some() {
            self.account(pass.stats, word, step, excused);
        }
        match step.action {
            Action::Deliver => return self.deliver(pass, slot, word),
            Action::Drop => return None,
            Action::Begin | Action::Append | Action::Finish => {}
        }
        let mut buffer = self.take_buffer(slot, word.size())?;
        if step.action == Action::Begin {
            self.partial = self.build(pass, buffer);
            return None;
        }
        if step.action == Action::Append {
            self.append(pass.stats, buffer);
            return None;
        }
        let trailer = pass.take_trailer(&mut buffer);
        self.append(pass.stats, buffer);
        let mut skb = self.partial.take()?;
        // It may begin in the part before.
        let trailer = trailer.or_else(|| pass.take_trailer(&mut skb));
        Some(Frame { skb, trailer })
    }

    /// Takes a good frame that is whole in its slot, but not what nearly all are.
    #[inline(never)]
    fn deliver(&mut self, pass: &Pass<'_, 'bound>, slot: u32, word: RxWord) -> Option<Frame> {
        if word.size() <= pass.copybreak {
            self.copy_frame(pass, slot, word.size())
        } else {
            self.take_frame(pass, slot, word)
        }
    }

    /// A frame is lost, or two; or it is passed up in spite of what is wrong with it.
    #[cold]
    fn account(&mut self, stats: &RxStats, word: RxWord, step: Step, excused: Option<RxError>) {
        for error in [step.abort, step.error, excused].into_iter().flatten() {
            // What the MAC found wrong it may have counted itself.
            if !self.errors_counted || word.status().mac_error() != Some(error) {
                stats.count_error(error);
            }
        }
        if step.abort.is_some() {
            self.abort();
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
    #[inline(always)]
    fn append(&mut self, stats: &RxStats, buffer: CpuBuffer) {
        let Some(skb) = &mut self.partial else {
            return;
        };
        if skb.add_fragment(buffer).is_err() {
            self.refuse(stats);
        }
    }

    /// The frame that was begun has too many parts.
    #[cold]
    fn refuse(&mut self, stats: &RxStats) {
        stats.count_error(RxError::Length);
        self.state.lose();
        self.abort();
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

/// A frame without its trailer.
struct Frame {
    skb: SkBuff,
    /// As it was found; `None` where there was none, as in what is no frame.
    trailer: Option<u32>,
}

/// What stays the same during a poll.
struct Pass<'a, 'bound> {
    cx: &'a napi::Context<'a, Ravb<'bound>>,
    stats: &'a RxStats,
    /// Frames up to this length are copied, in bytes.
    copybreak: u32,
    /// Whether damaged frames are passed up.
    all: bool,
    /// What frames end in.
    trailer: Trailer,
    /// What of it the stack is told of.
    believed: Option<Trailer>,
}

impl Pass<'_, '_> {
    /// Takes the trailer off; `None` where there is no room for one.
    #[inline(always)]
    fn take_trailer(&self, data: &mut impl Tail) -> Option<u32> {
        Some(match self.trailer {
            Trailer::Verdicts => u32::from_le_bytes(data.take_trailer::<VERDICTS_LEN>()?),
            Trailer::Sum => u16::from_le_bytes(data.take_trailer()?).into(),
        })
    }

    /// Tells the stack what the trailer says of the checksum.
    #[inline(always)]
    fn pass_checksum(&self, skb: &mut SkBuff, trailer: u32, passed: &mut RxPassed) {
        match self.believed {
            Some(Trailer::Verdicts) if checksum_is_good(trailer.to_le_bytes()) => {
                skb.checksum_verified();
            }
            Some(Trailer::Sum) => skb.checksum_complete(trailer as u16),
            _ => return,
        }
        passed.count_checksum();
    }

    /// Passes a frame up.
    #[inline(always)]
    fn up(&self, frame: Frame, multicast: bool, passed: &mut RxPassed) {
        let Frame { mut skb, trailer } = frame;
        let bytes = skb.len() as u64;
        let received = match trailer {
            Some(trailer) => {
                self.pass_checksum(&mut skb, trailer, passed);
                skb.receive(self.cx)
            }
            None => Err(skb),
        };
        match received {
            Ok(()) => passed.count(bytes, multicast),
            Err(skb) => self.refuse(skb, passed),
        }
    }

    /// It is no frame at all.
    #[cold]
    fn refuse(&self, skb: SkBuff, passed: &mut RxPassed) {
        passed.refuse();
        self.stats.count_error(RxError::Length);
        skb.discard(drop_reason::SKB_DROP_REASON_DEV_HDR);
    }
}
