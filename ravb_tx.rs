// SPDX-License-Identifier: GPL-2.0

//! Transmission: from the network stack to a descriptor, and back when it was sent.
//!
//! [`TxQueue`] runs under the lock of the transmit queue, [`TxReclaim`] in NAPI context under a
//! lock of its own. They share the ring and what belongs to its slots ([`spsc`]), but no lock: only
//! a sender that finds the ring full takes frames back itself, unless NAPI is doing that already.
//! Else a sender on the only CPU would wait for a NAPI thread that waits for the sender.

use kernel::{
    device::{
        Bound,
        Device, //
    },
    prelude::*,
    sync::{
        new_spinlock,
        Arc,
        SpinLock, //
    }, //
};

use crate::{
    net::{
        dma::Mapping,
        napi,
        netdev::{
            TxQueueRef,
            Xmit, //
        },
        skbuff::{
            drop_reason,
            DropReason,
            Piece,
            SkBuff, //
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
        TxRing,
        BOUNCE_SIZE, //
    },
    ravb_stats::DeviceStats,
    Ravb, //
};

/// The shortest frame without CRC, in bytes; shorter ones are padded.
const MIN_FRAME: usize = 60;

/// The largest alignment that any hardware wants, in bytes.
const MAX_ALIGNMENT: usize = 4;

/// How many pieces of memory a frame may be in: its head, and the fragments that a TCP segment of
/// the usual size lies in.
const MAX_PIECES: u32 = 4;

/// The most slots that a frame takes: for each piece of memory one for what is before its first
/// aligned byte, and one for the rest.
const MAX_SLOTS: u32 = 2 * MAX_PIECES;

/// What belongs to a slot of the ring.
#[derive(Default)]
struct Slot<'bound> {
    /// What the hardware reads where it is, and not from the bounce area. It keeps the memory
    /// mapped, and goes before the packet does.
    mapping: Option<Mapping<'bound>>,
    /// The frame that begins in this slot.
    frame: Option<Frame>,
}

/// A frame in the ring.
struct Frame {
    packet: SkBuff,
    bytes: u32,
    /// How many slots it takes beside the first.
    more: u32,
}

/// The first slot of a frame, still to be handed over.
struct FirstSlot {
    slot: u32,
    word: u32,
}

/// The side of a transmit queue that queues frames.
pub(crate) struct TxQueue<'bound> {
    ring: Arc<TxRing>,
    slots: spsc::Producer<Slot<'bound>>,
    id: QueueId,
    dev: &'bound Device<Bound>,
    /// What the address of data must be a multiple of, in bytes; a power of two.
    alignment: usize,
    /// The longest frame without CRC, in bytes.
    max_frame: usize,
    reclaim: Arc<TxReclaimLock<'bound>>,
    regs: Arc<Regs<'bound>>,
    stats: Arc<DeviceStats>,
    /// Frames are in the ring that the doorbell was not rung for.
    unannounced: bool,
}

/// The lock of a [`TxReclaim`].
///
/// Netpoll may come in any context, so that it must only try to take it, and so must a sender, for
/// netpoll sends, too. NAPI waits: a completion that nobody looks at is not announced again.
pub(crate) type TxReclaimLock<'bound> = SpinLock<TxReclaim<'bound>>;

/// The side of a transmit queue that takes frames back.
pub(crate) struct TxReclaim<'bound> {
    ring: Arc<TxRing>,
    slots: spsc::Consumer<Slot<'bound>>,
    id: QueueId,
    stats: Arc<DeviceStats>,
    /// How many slots the ring has.
    size: u32,
    /// How many slots must be free before a stopped queue is woken.
    wake_at: u32,
}

/// Creates both sides of a transmit queue of `size` slots.
pub(crate) fn queue<'bound>(
    id: QueueId,
    regs: &Arc<Regs<'bound>>,
    stats: &Arc<DeviceStats>,
    size: u32,
) -> Result<(TxQueue<'bound>, Arc<TxReclaimLock<'bound>>)> {
    let dev = regs.hw().dev();
    let variant = regs.hw().variant;
    let ring = Arc::new(TxRing::new(dev, size)?, GFP_KERNEL)?;
    let (producer, consumer) = spsc::ring(size)?;

    let reclaim = TxReclaim {
        ring: ring.clone(),
        slots: consumer,
        id,
        stats: stats.clone(),
        size,
        wake_at: (size / 4).max(MAX_SLOTS),
    };
    let reclaim = Arc::pin_init(new_spinlock!(reclaim), GFP_KERNEL)?;
    let queue = TxQueue {
        ring,
        slots: producer,
        id,
        dev,
        alignment: variant.tx_alignment,
        max_frame: variant.max_tx_frame,
        reclaim: reclaim.clone(),
        regs: regs.clone(),
        stats: stats.clone(),
        unannounced: false,
    };
    Ok((queue, reclaim))
}

impl<'bound> TxQueue<'bound> {
    /// The ring, for the table of base addresses.
    pub(crate) fn ring(&self) -> &TxRing {
        &self.ring
    }

    /// Queues a frame, or drops it.
    pub(crate) fn transmit(&mut self, txq: TxQueueRef<'_>, mut skb: SkBuff) -> Xmit {
        // The queue is stopped before it comes to this, but a wake-up can be late and find the ring
        // full again.
        if !self.slots.has_room(MAX_SLOTS) {
            self.slots.stop_if_full(&txq, MAX_SLOTS);
            if !self.slots.has_room(MAX_SLOTS) {
                return Xmit::Busy(skb);
            }
        }
        if let Err(reason) = self.prepare(&mut skb) {
            return self.lose(txq, skb, reason);
        }
        skb.tx_timestamp();

        let bytes = skb.len() as u32;
        let first = match self.queue(skb) {
            Ok(first) => first,
            Err(skb) => return self.lose(txq, skb, drop_reason::SKB_DROP_REASON_NOMEM),
        };
        if !self.slots.has_room(MAX_SLOTS) {
            if let Some(mut reclaim) = self.reclaim.try_lock() {
                reclaim.reclaim(txq, 0);
            }
        }
        // The limits must know of the frame before it can be completed. They say what a stopped
        // queue means for the doorbell, so that it is stopped before they are asked.
        if self.slots.stop_if_full(&txq, MAX_SLOTS) {
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
        if skb.len() > self.max_frame {
            return Err(drop_reason::SKB_DROP_REASON_PKT_TOO_BIG);
        }
        // A frame in more pieces is rare; one that is as short as to be copied must be in one.
        if skb.pieces() > MAX_PIECES || skb.is_nonlinear() && skb.len() <= BOUNCE_SIZE {
            skb.unshare()
                .and_then(|()| skb.linearize())
                .map_err(|_| drop_reason::SKB_DROP_REASON_NOMEM)?;
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
    #[inline]
    fn queue(&mut self, skb: SkBuff) -> Result<FirstSlot, SkBuff> {
        let filled = if skb.len() <= BOUNCE_SIZE {
            self.fill_short(&skb)
        } else {
            self.fill(&skb)
        };
        let (Ok((first, more)), Some(slot)) = (filled, self.slots.place(0)) else {
            self.clear();
            return Err(skb);
        };
        slot.frame = Some(Frame {
            bytes: skb.len() as u32,
            packet: skb,
            more,
        });
        self.slots.publish(more + 1);
        Ok(first)
    }

    /// Fills the next slot with a frame that is copied. For a short one that is cheaper than a
    /// mapping, and the packet, which may be shared, is not written to when it is padded.
    #[inline]
    fn fill_short(&mut self, skb: &SkBuff) -> Result<(FirstSlot, u32)> {
        let len = skb.len().max(MIN_FRAME);
        let address = self.ring.copy(self.slots.index(0), skb.head_data(), len)?;
        Ok((self.begin(address, Part::Single, len as u32), 0))
    }

    /// Fills the next slots with a frame that the hardware reads where it is, but for what lies
    /// before an aligned address. Returns how many slots it takes beside the first.
    fn fill(&mut self, skb: &SkBuff) -> Result<(FirstSlot, u32)> {
        let pieces = skb.pieces();
        let count = (0..pieces)
            .map(|index| skb.piece_aligned(index, self.alignment))
            .map(|piece| u32::from(piece.unaligned != 0) + u32::from(piece.len > piece.unaligned))
            .sum();
        let mut first = None;
        let mut n = 0;
        let mut offset = 0;

        for index in 0..pieces {
            let Piece { unaligned, len } = skb.piece_aligned(index, self.alignment);
            if unaligned != 0 {
                let mut bytes = [0; MAX_ALIGNMENT];
                let bytes = bytes.get_mut(..unaligned as usize).ok_or(EINVAL)?;
                skb.copy_to(offset, bytes)?;
                let address = self.ring.copy(self.slots.index(n), bytes, bytes.len())?;
                self.fill_slot(&mut first, n, count, address, unaligned);
                n += 1;
            }
            if len > unaligned {
                let mapping = skb.map_piece(self.dev, index, unaligned)?;
                let address = u32::try_from(mapping.address())?;
                self.slots.place(n).ok_or(EINVAL)?.mapping = Some(mapping);
                self.fill_slot(&mut first, n, count, address, len - unaligned);
                n += 1;
            }
            offset += len as usize;
        }
        Ok((first.ok_or(EINVAL)?, n - 1))
    }

    /// Fills slot `n` of the `count` slots of a frame.
    #[inline]
    fn fill_slot(
        &mut self,
        first: &mut Option<FirstSlot>,
        n: u32,
        count: u32,
        address: u32,
        size: u32,
    ) {
        let last = n + 1 == count;
        if n == 0 {
            let part = if last { Part::Single } else { Part::Start };
            *first = Some(self.begin(address, part, size));
            return;
        }
        let slot = self.slots.index(n);
        let part = if last { Part::End } else { Part::Middle };
        self.ring.set_pointer(slot, address);
        self.ring.prepare(slot, ravb_desc::transmit(part, size));
    }

    /// Fills the first slot of a frame, all but the word that hands it over.
    #[inline]
    fn begin(&mut self, address: u32, part: Part, size: u32) -> FirstSlot {
        let slot = self.slots.index(0);
        self.ring.set_pointer(slot, address);
        self.ring.reserve(slot);
        FirstSlot {
            slot,
            word: ravb_desc::transmit(part, size),
        }
    }

    /// Clears the slots of a frame that came to nothing: parts without a beginning would upset the
    /// hardware when it comes by.
    #[cold]
    fn clear(&mut self) {
        for n in 0..MAX_SLOTS {
            self.ring.reserve(self.slots.index(n));
            if let Some(slot) = self.slots.place(n) {
                slot.mapping = None;
            }
        }
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

/// Takes back the frames of queue `id` that were sent; called in a poll.
pub(crate) fn poll<'bound>(
    id: QueueId,
    reclaim: &TxReclaimLock<'bound>,
    cx: &napi::Context<'_, Ravb<'bound>>,
) {
    let guard = match cx.budget() {
        0 => reclaim.try_lock(),
        _ => Some(reclaim.lock()),
    };
    if let (Some(mut reclaim), Some(txq)) = (guard, cx.dev().tx_queue(id.index())) {
        reclaim.reclaim(txq, cx.budget());
    }
}

impl TxReclaim<'_> {
    /// Takes back the frames that were sent, one lap of the ring at most.
    ///
    /// `budget` is that of the poll in which this is called, and 0 elsewhere.
    fn reclaim(&mut self, txq: TxQueueRef<'_>, budget: usize) {
        let mut packets = 0;
        let mut bytes = 0;

        for _ in 0..self.size {
            let Some(frame) = self.take(true) else {
                break;
            };
            packets += 1;
            bytes += frame.bytes;
            frame.packet.consume(budget);
        }
        if packets == 0 {
            return;
        }
        self.slots.release();
        let stats = self.stats.tx(self.id);
        stats.packets.add(u64::from(packets));
        stats.bytes.add(u64::from(bytes));

        txq.completed(packets, bytes);
        if self.slots.wake_if_free(&txq, self.wake_at) {
            stats.wakes.add(1);
        }
    }

    /// Takes the oldest frame out of the ring, unmapped; if `sent`, only once it was transmitted.
    #[inline(always)]
    fn take(&mut self, sent: bool) -> Option<Frame> {
        let (first, index) = self.slots.front()?;
        // The hardware returns the slots of a frame one by one: the last one counts.
        let more = first.frame.as_ref()?.more;
        let last = spsc::after(index, more, self.size);
        if sent && !self.ring.is_transmitted(last) {
            return None;
        }
        first.mapping = None;
        let frame = first.frame.take();
        self.slots.take();
        for _ in 0..more {
            let (slot, _) = self.slots.front()?;
            slot.mapping = None;
            self.slots.take();
        }
        frame
    }
}

impl Drop for TxReclaim<'_> {
    /// Drops what was not sent. The hardware has been stopped before.
    fn drop(&mut self) {
        while let Some(frame) = self.take(false) {
            self.stats.tx(self.id).dropped.add(1);
            frame.packet.discard(drop_reason::SKB_DROP_REASON_DEV_READY);
        }
    }
}
