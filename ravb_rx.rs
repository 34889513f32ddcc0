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
    ravb_stats::RxStats,
    Ravb, //
};

/// What of a frame must be in the head of its packet, in bytes.
const ETHERNET_HEADER_LEN: usize = 14;

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

        ring.refill(u32::MAX, pool.capacity(), |slot| {
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
        let mut done = 0;

        while done < cx.budget() {
            let Some((slot, word)) = self.ring.take_filled() else {
                break;
            };
            if let Some(skb) = self.take_part(cx, stats, slot, word) {
                pass_up(cx, stats, self.trailer, skb);
                done += 1;
            }
        }

        let vacant = self.ring.vacant();
        if self.refill(Gfp::Atomic) < vacant {
            stats.alloc_fail.add(1);
        }
        if self.ring.is_exhausted() {
            return cx.budget();
        }
        done
    }

    /// Takes the next part of a frame; returns the frame if it is whole with it.
    ///
    /// The buffer stays in its slot unless it becomes part of a packet.
    fn take_part(
        &mut self,
        cx: &napi::Context<'_, Ravb<'bound>>,
        stats: &RxStats,
        slot: u32,
        word: RxWord,
    ) -> Option<SkBuff> {
        let status = word.status();
        // A length that makes no sense makes the part useless, whatever its type.
        let part = word.part().filter(|_| self.pool.holds(word.size()));
        let step = self.state.step(part, status.error());

        for error in [step.abort, step.error].into_iter().flatten() {
            // What the MAC found wrong it may have counted itself.
            if !self.errors_counted || status.mac_error() != Some(error) {
                stats.count_error(error);
            }
        }
        if step.abort.is_some() {
            self.abort();
        }
        if step.action == Action::Drop {
            return None;
        }
        // The status is that of the frame where it ends.
        if matches!(step.action, Action::Deliver | Action::Finish) && status.is_multicast() {
            stats.multicast.add(1);
        }

        if step.action == Action::Deliver && word.size() <= cx.dev().rx_copybreak.load(Relaxed) {
            let buffer = self.buffers.get(slot as usize)?.as_ref()?;
            let skb = self.pool.copy(buffer, word.size(), cx);
            if skb.is_none() {
                stats.alloc_fail.add(1);
                stats.dropped.add(1);
            }
            return skb;
        }

        let buffer = self.buffers.get_mut(slot as usize)?.take()?;
        let buffer = self.pool.received(buffer, word.size())?;
        match step.action {
            Action::Deliver => self.build(cx, stats, buffer),
            Action::Begin => {
                self.partial = self.build(cx, stats, buffer);
                None
            }
            Action::Append => {
                self.append(stats, buffer);
                None
            }
            Action::Finish => {
                self.append(stats, buffer);
                self.partial.take()
            }
            Action::Drop => None,
        }
    }

    /// Makes a packet of the first, or only, part of a frame.
    fn build(
        &mut self,
        cx: &napi::Context<'_, Ravb<'bound>>,
        stats: &RxStats,
        buffer: CpuBuffer,
    ) -> Option<SkBuff> {
        match buffer.build_skb(cx) {
            Ok(skb) => Some(skb),
            Err(_buffer) => {
                stats.alloc_fail.add(1);
                stats.dropped.add(1);
                self.state.lose();
                None
            }
        }
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

/// Passes a frame up, without the trailer that tells of its checksum.
fn pass_up(cx: &napi::Context<'_, Ravb<'_>>, stats: &RxStats, trailer: Trailer, mut skb: SkBuff) {
    let wanted = cx.dev().features().contains(Features::RX_CHECKSUM);
    let complete = match trailer {
        Trailer::Verdicts => skb.take_trailer::<VERDICTS_LEN>().map(|verdicts| {
            if wanted && checksum_is_good(verdicts) {
                skb.checksum_verified();
                stats.csum_unnecessary.add(1);
            } else {
                stats.csum_none.add(1);
            }
        }),
        Trailer::Sum => skb.take_trailer().map(|sum| {
            if wanted {
                skb.checksum_complete(u16::from_le_bytes(sum));
                stats.csum_complete.add(1);
            } else {
                stats.csum_none.add(1);
            }
        }),
    };
    // The header must be in the head, whatever the parts are cut like.
    if complete.is_none() || skb.head_data().len() < ETHERNET_HEADER_LEN {
        stats.count_error(RxError::Length);
        skb.discard(drop_reason::SKB_DROP_REASON_DEV_HDR);
        return;
    }

    stats.packets.add(1);
    stats.bytes.add(skb.len() as u64);
    skb.receive(cx);
}
