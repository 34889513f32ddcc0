// SPDX-License-Identifier: GPL-2.0

//! Transmission: from the network stack to a descriptor, and back when it was sent.
//!
//! [`TxQueue`] runs under the lock of the transmit queue, [`TxReclaim`] in NAPI context. They share
//! the ring and a queue of the frames in it ([`spsc`]), but no lock.

use kernel::{
    prelude::*,
    sync::Arc, //
};

use crate::{
    net::{
        napi,
        netdev::{
            TxQueueRef,
            Xmit, //
        },
        skbuff::{
            drop_reason,
            DropReason,
            MappedSkb,
            SkBuff,
            MAX_PIECES, //
        },
        spsc, //
    },
    ravb_desc::{
        self,
        Part, //
    },
    ravb_frame::can_checksum,
    ravb_hw::{
        QueueId,
        Regs, //
    },
    ravb_ring::{
        BounceArea,
        TxRing, //
    },
    ravb_stats::DeviceStats,
    Ravb, //
};

/// The shortest frame without CRC, in bytes; shorter ones are padded.
const MIN_FRAME: usize = 60;

/// The largest alignment that any hardware wants, in bytes.
const MAX_ALIGNMENT: usize = 4;

/// The most slots that a frame takes: for each piece of memory one for what is before its first
/// aligned byte, and one for the rest.
const MAX_SLOTS: u32 = 2 * MAX_PIECES as u32;

/// A frame that is the hardware's.
struct Frame<'bound> {
    packet: MappedSkb<'bound>,
    bytes: u32,
}

/// The first slot of a frame, still to be handed over.
struct FirstSlot {
    slot: u32,
    word: u32,
}

/// The side of a transmit queue that queues frames.
pub(crate) struct TxQueue<'bound> {
    ring: Arc<TxRing>,
    bounce: BounceArea,
    frames: spsc::Producer<Frame<'bound>>,
    id: QueueId,
    /// What the address of data must be a multiple of, in bytes; a power of two.
    alignment: usize,
    regs: Arc<Regs<'bound>>,
    stats: Arc<DeviceStats>,
    /// Frames are in the ring that the doorbell was not rung for.
    unannounced: bool,
}

/// The side of a transmit queue that takes frames back.
pub(crate) struct TxReclaim<'bound> {
    ring: Arc<TxRing>,
    frames: spsc::Consumer<Frame<'bound>>,
    id: QueueId,
    stats: Arc<DeviceStats>,
    /// How many slots must be free before a stopped queue is woken.
    wake_at: u32,
}

/// Creates both sides of a transmit queue of `size` slots.
pub(crate) fn queue<'bound>(
    id: QueueId,
    regs: &Arc<Regs<'bound>>,
    stats: &Arc<DeviceStats>,
    size: u32,
) -> Result<(TxQueue<'bound>, TxReclaim<'bound>)> {
    let dev = regs.hw().dev();
    let ring = Arc::new(TxRing::new(dev, size)?, GFP_KERNEL)?;
    let (producer, consumer) = spsc::queue(size)?;

    Ok((
        TxQueue {
            ring: ring.clone(),
            bounce: BounceArea::new(dev, size)?,
            frames: producer,
            id,
            alignment: regs.hw().variant.tx_alignment,
            regs: regs.clone(),
            stats: stats.clone(),
            unannounced: false,
        },
        TxReclaim {
            ring,
            frames: consumer,
            id,
            stats: stats.clone(),
            wake_at: (size / 4).max(MAX_SLOTS),
        },
    ))
}

impl<'bound> TxQueue<'bound> {
    /// Queues a frame, or drops it.
    pub(crate) fn transmit(&mut self, txq: TxQueueRef<'_>, mut skb: SkBuff) -> Xmit {
        // The queue is stopped before it comes to this, but a wake-up can be late and find the ring
        // full again.
        if self.frames.free() < MAX_SLOTS {
            self.frames.stop_if_full(&txq, MAX_SLOTS);
            if self.frames.free() < MAX_SLOTS {
                return Xmit::Busy(skb);
            }
        }
        if let Err(reason) = self.prepare(&mut skb) {
            return self.lose(txq, skb, reason);
        }
        skb.tx_timestamp();

        let bytes = skb.len();
        let first = match self.queue(skb) {
            Ok(first) => first,
            Err(skb) => return self.lose(txq, skb, drop_reason::SKB_DROP_REASON_NOMEM),
        };
        // The limits must know of the frame before it can be completed. They say what a stopped
        // queue means for the doorbell, so that it is stopped before they are asked.
        if self.frames.stop_if_full(&txq, MAX_SLOTS) {
            self.stats.tx(self.id).stops.add(1);
        }
        let announce = txq.sent(bytes);
        self.ring.hand_over(first.slot, first.word);
        self.unannounced = true;
        if announce {
            self.announce();
        }
        Xmit::Ok
    }

    /// Makes sure that the hardware can send the frame.
    fn prepare(&self, skb: &mut SkBuff) -> Result<(), DropReason> {
        if skb.len() > self.regs.hw().variant.max_tx_frame {
            return Err(drop_reason::SKB_DROP_REASON_PKT_TOO_BIG);
        }
        // A frame in more pieces is rare; one that is as short as to be copied must be in one.
        if skb.pieces() > MAX_PIECES || skb.is_nonlinear() && skb.len() <= BounceArea::PIECE {
            if skb.is_shared() || skb.linearize().is_err() {
                return Err(drop_reason::SKB_DROP_REASON_NOMEM);
            }
        }
        if skb.wants_checksum() && !can_checksum(skb.head_data()) {
            skb.checksum_in_software()
                .map_err(|_| drop_reason::SKB_DROP_REASON_SKB_CSUM)?;
        }
        Ok(())
    }

    /// Puts the frame into the ring, all but its first slot handed over; gives it back if it cannot
    /// be mapped.
    ///
    /// From here on [`TxReclaim::poll`] finds the frame. Its last slot does not look transmitted,
    /// and will not before the first slot is handed over, because the hardware stops there.
    fn queue(&mut self, skb: SkBuff) -> Result<FirstSlot, SkBuff> {
        let slot = self.frames.index();
        let len = skb.len();
        let bytes = len as u32;

        if len <= BounceArea::PIECE {
            // Short frames are copied: that is cheaper than a mapping, and the packet, which may
            // be shared, is not written to when it is padded.
            let padded = len.max(MIN_FRAME);
            let Ok(address) = self.bounce.put(slot, skb.head_data(), padded) else {
                return Err(skb);
            };
            let packet = skb.unmapped();
            return self.queue_single(address, padded as u32, Frame { packet, bytes });
        }

        let packet = skb.map(self.regs.hw().dev(), self.alignment)?;
        if let [piece] = packet.pieces() {
            if piece.unaligned == 0 {
                let Ok(address) = u32::try_from(piece.address) else {
                    return Err(packet.unmap());
                };
                return self.queue_single(address, bytes, Frame { packet, bytes });
            }
        }
        self.queue_pieces(Frame { packet, bytes })
    }

    /// The part of [`TxQueue::queue`] for a frame that takes several slots.
    fn queue_pieces(&mut self, frame: Frame<'bound>) -> Result<FirstSlot, SkBuff> {
        match self.fill_slots(&frame.packet) {
            Ok((first, slots)) => {
                self.frames
                    .push(frame, slots)
                    .map_err(|frame| frame.packet.unmap())?;
                Ok(first)
            }
            Err(_) => {
                // Parts without a beginning would upset the hardware when it comes by.
                for n in 0..MAX_SLOTS {
                    self.ring.reserve(self.frames.index_after(n));
                }
                Err(frame.packet.unmap())
            }
        }
    }

    /// Writes the slots of a frame, and hands over all but the first.
    ///
    /// The hardware stops at the first, which does not look as if it were to be transmitted.
    fn fill_slots(&self, packet: &MappedSkb<'_>) -> Result<(FirstSlot, u32)> {
        let count: u32 = packet
            .pieces()
            .iter()
            .map(|piece| u32::from(piece.unaligned != 0) + u32::from(piece.len != 0))
            .sum();
        let mut first = None;
        let mut n = 0;
        let mut fill = |slot, address, size| {
            let part = match n + 1 {
                1 if count == 1 => Part::Single,
                1 => Part::Start,
                n if n == count => Part::End,
                _ => Part::Middle,
            };
            let word = ravb_desc::transmit(part, size);

            self.ring.set_pointer(slot, address);
            if n == 0 {
                self.ring.reserve(slot);
                first = Some(FirstSlot { slot, word });
            } else {
                self.ring.hand_over(slot, word);
            }
            n += 1;
            self.frames.index_after(n)
        };

        let mut slot = self.frames.index();
        for piece in packet.pieces() {
            if piece.unaligned != 0 {
                // What is before the first aligned byte goes into a slot of its own.
                let mut bytes = [0; MAX_ALIGNMENT];
                let bytes = bytes.get_mut(..piece.unaligned as usize).ok_or(EINVAL)?;
                packet.skb().copy_to(piece.offset as usize, bytes)?;
                let address = self.bounce.put(slot, bytes, bytes.len())?;
                slot = fill(slot, address, piece.unaligned);
            }
            if piece.len != 0 {
                slot = fill(slot, u32::try_from(piece.address)?, piece.len);
            }
        }
        Ok((first.ok_or(EINVAL)?, count))
    }

    /// The part of [`TxQueue::queue`] for a frame that takes one slot.
    #[inline]
    fn queue_single(
        &mut self,
        address: u32,
        size: u32,
        frame: Frame<'bound>,
    ) -> Result<FirstSlot, SkBuff> {
        let slot = self.frames.index();
        self.ring.set_pointer(slot, address);
        self.ring.reserve(slot);
        self.frames
            .push(frame, 1)
            .map_err(|frame| frame.packet.unmap())?;
        Ok(FirstSlot {
            slot,
            word: ravb_desc::transmit(Part::Single, size),
        })
    }

    /// Rings the doorbell. The register write is ordered after what was handed over.
    fn announce(&mut self) {
        self.unannounced = false;
        self.regs.ring_doorbell(self.id);
    }

    /// Drops a packet. Those before it may have relied on its doorbell.
    #[cold]
    fn lose(&mut self, txq: TxQueueRef<'_>, skb: SkBuff, reason: DropReason) -> Xmit {
        self.stats.tx(self.id).dropped.add(1);
        skb.discard(reason);
        if self.unannounced && !txq.more() {
            self.announce();
        }
        Xmit::Ok
    }
}

impl<'bound> TxReclaim<'bound> {
    /// The ring, for the table of base addresses.
    pub(crate) fn ring(&self) -> &TxRing {
        &self.ring
    }

    /// Takes back all frames that were sent.
    pub(crate) fn poll(&mut self, cx: &napi::Context<'_, Ravb<'bound>>) {
        let mut packets = 0;
        let mut bytes = 0;

        while let Some((_, first, slots)) = self.frames.front() {
            // The hardware returns the slots of a frame one by one: the last one counts.
            let last = self.frames.index_after(first, slots - 1);
            if !self.ring.is_transmitted(last) {
                break;
            }
            let Some(frame) = self.frames.pop() else {
                break;
            };
            packets += 1;
            bytes += frame.bytes;
            frame.packet.unmap().consume(cx.budget());
        }
        if packets == 0 {
            return;
        }
        let stats = self.stats.tx(self.id);
        stats.packets.add(u64::from(packets));
        stats.bytes.add(u64::from(bytes));

        let Some(txq) = cx.dev().tx_queue(self.id.index()) else {
            return;
        };
        txq.completed(packets, bytes);
        if self.frames.wake_if_free(&txq, self.wake_at) {
            stats.wakes.add(1);
        }
    }
}

impl Drop for TxReclaim<'_> {
    /// Drops what was not sent. The hardware has been stopped before.
    fn drop(&mut self) {
        while let Some(frame) = self.frames.pop() {
            self.stats.tx(self.id).dropped.add(1);
            frame
                .packet
                .unmap()
                .discard(drop_reason::SKB_DROP_REASON_DEV_READY);
        }
    }
}
