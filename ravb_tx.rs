// SPDX-License-Identifier: GPL-2.0

//! Transmission: from the network stack to a descriptor, and back when it was sent.
//!
//! [`TxQueue`] runs under the lock of the transmit queue, [`TxReclaim`] in NAPI context
//! ([`TxPoll`]) under a lock of its own. They share the ring and what belongs to its slots
//! ([`spsc`]), but no lock: only a sender that finds the ring full takes frames back itself, unless
//! NAPI is doing that already. Else a sender on the only CPU would wait for a NAPI thread that
//! waits for the sender.

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
            Features,
            TxQueueRef,
            Xmit, //
        },
        segments::Segments,
        skbuff::{
            drop_reason,
            DropReason,
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
        Regs,
        Variant, //
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

/// The most segments of a packet that is sent in segments. With more, less would be saved by each,
/// and more of the ring would have to be kept free.
pub(crate) const MAX_SEGMENTS: u32 = 16;

/// The most slots that a packet takes; while there are fewer, the queue is stopped. It is enough
/// for packets in as many segments, and for those in as many fragments as the stack makes.
const MAX_SLOTS: u32 = 48;

/// How many slots a packet takes at most: for each segment one for its headers and one for its
/// payload, and for each further piece of memory that the payload lies in one for what is before
/// its first aligned byte, and one for the rest.
const fn slots(segments: u32, pieces: u32) -> u32 {
    2 * (segments + pieces.saturating_sub(1))
}

/// What belongs to a slot of the ring.
#[derive(Default)]
struct Slot<'bound> {
    /// What the hardware reads where it is, and not from the bounce area. It keeps the memory
    /// mapped, and goes before the packet does.
    mapping: Option<Mapping<'bound>>,
    /// The packet that begins in this slot.
    queued: Option<Queued>,
}

/// A packet in the ring.
struct Queued {
    packet: SkBuff,
    size: WireSize,
    /// How many slots it takes beside the first.
    more: u32,
}

/// What a packet is on the wire.
#[derive(Clone, Copy)]
struct WireSize {
    /// As many as it has segments.
    frames: u32,
    /// All of them, without CRC and padding.
    bytes: u32,
}

/// The first slot of a packet, still to be handed over.
struct FirstSlot {
    slot: u32,
    word: u32,
}

/// What [`TxQueue::fill`] has done.
struct Filled {
    first: FirstSlot,
    size: WireSize,
    /// How many slots were filled beside the first.
    more: u32,
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

/// What NAPI has of a transmit queue.
pub(crate) struct TxPoll<'bound> {
    id: QueueId,
    reclaim: Arc<TxReclaimLock<'bound>>,
    slots: spsc::Observer<Slot<'bound>>,
}

/// Creates both sides of a transmit queue of `size` slots.
pub(crate) fn queue<'bound>(
    id: QueueId,
    regs: &Arc<Regs<'bound>>,
    stats: &Arc<DeviceStats>,
    size: u32,
) -> Result<(TxQueue<'bound>, TxPoll<'bound>)> {
    let dev = regs.hw().dev();
    let variant = regs.hw().variant;
    let ring = Arc::new(TxRing::new(dev, size)?, GFP_KERNEL)?;
    let (producer, consumer) = spsc::ring(size)?;
    let observer = consumer.observer();

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
    let poll = TxPoll {
        id,
        reclaim,
        slots: observer,
    };
    Ok((queue, poll))
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

        let (first, bytes) = match self.queue(skb) {
            Ok(queued) => queued,
            Err(skb) => return self.lose(txq, skb, drop_reason::SKB_DROP_REASON_NOMEM),
        };
        if !self.slots.has_room(MAX_SLOTS) {
            if let Some(mut reclaim) = self.reclaim.try_lock() {
                reclaim.reclaim(txq, 0);
            }
        }
        // The limits must know of the packet before it can be completed. They say what a stopped
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

    /// Makes sure that the hardware can send the packet.
    fn prepare(&self, skb: &mut SkBuff) -> Result<(), DropReason> {
        let longest = match skb.segment_size() {
            None => skb.len(),
            Some(_) => Segments::of(skb)
                .map_err(|_| drop_reason::SKB_DROP_REASON_DEV_HDR)?
                .max_len(),
        };
        if longest > self.max_frame {
            return Err(drop_reason::SKB_DROP_REASON_PKT_TOO_BIG);
        }
        if skb.wants_checksum() && !can_checksum(skb.head_data()) {
            skb.checksum_in_software()
                .map_err(|_| drop_reason::SKB_DROP_REASON_SKB_CSUM)?;
        }
        Ok(())
    }

    /// Puts the packet into the ring, all but its first slot handed over; gives it back if it
    /// cannot be mapped. Returns how many bytes it has on the wire, too.
    ///
    /// From here on [`TxReclaim::reclaim`] finds the packet. Its last slot does not look
    /// transmitted, and will not before the first slot is handed over, because the hardware stops
    /// there.
    #[inline]
    fn queue(&mut self, skb: SkBuff) -> Result<(FirstSlot, u32), SkBuff> {
        let filled = if skb.is_nonlinear() || skb.segment_size().is_some() {
            self.fill(&skb)
        } else if skb.len() <= BOUNCE_SIZE {
            self.fill_short(&skb)
        } else {
            self.fill_linear(&skb)
        };
        let (Ok(filled), Some(slot)) = (filled, self.slots.place(0)) else {
            self.clear();
            return Err(skb);
        };
        slot.queued = Some(Queued {
            packet: skb,
            size: filled.size,
            more: filled.more,
        });
        self.slots.publish(filled.more + 1);
        Ok((filled.first, filled.size.bytes))
    }

    /// Fills the next slot with a frame that is copied. For a short one that is cheaper than a
    /// mapping, and the packet, which may be shared, is not written to when it is padded.
    #[inline]
    fn fill_short(&mut self, skb: &SkBuff) -> Result<Filled> {
        let len = skb.len().max(MIN_FRAME);
        let address = self.ring.copy(self.slots.index(0), skb.head_data(), len)?;
        Ok(Filled {
            first: self.begin(address, Part::Single, len as u32),
            size: WireSize {
                frames: 1,
                bytes: skb.len() as u32,
            },
            more: 0,
        })
    }

    /// Fills the next slots with a longer frame that lies in one piece of memory. The hardware
    /// reads it where it is, but for what is before the first aligned byte.
    ///
    /// [`TxQueue::fill`] would do the same, and take longer.
    #[inline]
    fn fill_linear(&mut self, skb: &SkBuff) -> Result<Filled> {
        let data = skb.head_data();
        let unaligned = data.as_ptr().addr().wrapping_neg() & (self.alignment - 1);
        let (head, rest) = data.split_at_checked(unaligned).ok_or(EINVAL)?;
        let mapping = skb.map_piece(self.dev, 0, unaligned as u32)?;
        let address = u32::try_from(mapping.address())?;
        let rest = rest.len() as u32;

        let first = if head.is_empty() {
            self.begin(address, Part::Single, rest)
        } else {
            let copied = self.ring.copy(self.slots.index(0), head, unaligned)?;
            let first = self.begin(copied, Part::Start, unaligned as u32);
            let slot = self.slots.index(1);
            self.ring.set_pointer(slot, address);
            self.ring
                .prepare(slot, ravb_desc::transmit(Part::End, rest));
            first
        };
        let more = u32::from(!head.is_empty());
        self.slots.place(more).ok_or(ENOSPC)?.mapping = Some(mapping);
        Ok(Filled {
            first,
            size: WireSize {
                frames: 1,
                bytes: data.len() as u32,
            },
            more,
        })
    }

    /// Fills the next slots with the frame or the segments that a packet is.
    fn fill(&mut self, skb: &SkBuff) -> Result<Filled> {
        let mut filler = Filler::new(self, skb);
        let size = if skb.segment_size().is_some() {
            filler.segments()?
        } else {
            filler.frame(skb.len() as u32)?;
            WireSize {
                frames: 1,
                bytes: skb.len() as u32,
            }
        };
        filler.finish(size)
    }

    /// Fills the first slot of a packet, all but the word that hands it over.
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

    /// Clears the slots of a packet that came to nothing: parts without a beginning would upset the
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

/// Fills the slots of one packet.
///
/// The hardware reads the packet where it is, but for what it cannot: headers that the packet does
/// not have, and what lies before an aligned address. That is copied, and so is what is short.
struct Filler<'a, 'bound> {
    queue: &'a mut TxQueue<'bound>,
    skb: &'a SkBuff,
    /// The piece of the packet that comes next, and how much of it has been dealt with.
    piece: u32,
    at: u32,
    /// What of the packet has been dealt with, over all pieces.
    offset: usize,
    /// The piece, from this byte on, for the hardware to read.
    mapping: Option<(Mapping<'bound>, u32)>,
    /// What is copied to the next slot.
    copied: [u8; BOUNCE_SIZE],
    copied_len: usize,
    /// How many slots were filled.
    slots: u32,
    /// Whether the next slot is the first of a frame.
    begins: bool,
    first: Option<FirstSlot>,
}

impl<'a, 'bound> Filler<'a, 'bound> {
    fn new(queue: &'a mut TxQueue<'bound>, skb: &'a SkBuff) -> Self {
        Self {
            queue,
            skb,
            piece: 0,
            at: 0,
            offset: 0,
            mapping: None,
            copied: [0; BOUNCE_SIZE],
            copied_len: 0,
            slots: 0,
            begins: true,
            first: None,
        }
    }

    /// Fills slots with all segments of the packet.
    fn segments(&mut self) -> Result<WireSize> {
        let mut segments = Segments::of(self.skb)?;
        let header_len = segments.header_len();
        let mut size = WireSize {
            frames: 0,
            bytes: 0,
        };

        // They are in the first piece.
        self.advance(header_len as u32);
        while let Some(payload) = segments.next(&mut self.copied)? {
            self.copied_len = header_len;
            self.frame(payload)?;
            size.frames += 1;
            size.bytes += header_len as u32 + payload;
        }
        Ok(size)
    }

    /// Fills slots with one frame: what is to be copied already, and the next `rest` bytes of the
    /// packet.
    fn frame(&mut self, mut rest: u32) -> Result {
        self.begins = true;
        while rest != 0 {
            let Run { len, copy } = self.run(rest)?;
            rest -= len;
            if !copy {
                self.put_copied(false)?;
                self.put_mapped(len, rest == 0)?;
                continue;
            }
            if self.copied_len + len as usize > BOUNCE_SIZE {
                self.put_copied(false)?;
            }
            self.copy(len)?;
        }
        self.put_copied(true)
    }

    /// Of the next `rest` bytes of the packet, those that lie together and are treated alike.
    fn run(&mut self, rest: u32) -> Result<Run> {
        let mut piece = self.skb.piece(self.piece);
        while self.at >= piece.len {
            self.leave_piece();
            if self.piece >= self.skb.pieces() {
                return Err(EINVAL);
            }
            piece = self.skb.piece(self.piece);
        }
        let len = rest.min(piece.len - self.at);
        if len as usize <= BOUNCE_SIZE && self.mapping.is_none() {
            return Ok(Run { len, copy: true });
        }
        let start = piece.start.wrapping_add(self.at as usize);
        let unaligned = (start.wrapping_neg() & (self.queue.alignment - 1)) as u32;
        Ok(match unaligned {
            0 => Run { len, copy: false },
            _ => Run {
                len: len.min(unaligned),
                copy: true,
            },
        })
    }

    /// Copies the next `len` bytes of the packet.
    fn copy(&mut self, len: u32) -> Result {
        let end = self.copied_len + len as usize;
        let to = self.copied.get_mut(self.copied_len..end).ok_or(ERANGE)?;
        self.skb.copy_to(self.offset, to)?;
        self.copied_len = end;
        self.advance(len);
        Ok(())
    }

    fn advance(&mut self, len: u32) {
        self.at += len;
        self.offset += len as usize;
    }

    /// Goes on to the next piece. What this one was mapped for is all in slots by now; the last of
    /// them keeps the mapping.
    fn leave_piece(&mut self) {
        if let Some((mapping, _)) = self.mapping.take() {
            if let Some(slot) = self.queue.slots.place(self.slots.wrapping_sub(1)) {
                slot.mapping = Some(mapping);
            }
        }
        self.piece += 1;
        self.at = 0;
    }

    /// Fills a slot with what was copied, if anything was.
    fn put_copied(&mut self, last: bool) -> Result {
        if self.copied_len == 0 {
            return Ok(());
        }
        let bytes = self.copied.get(..self.copied_len).ok_or(ERANGE)?;
        // A frame that is too short has been copied as a whole.
        let len = if self.begins && last {
            bytes.len().max(MIN_FRAME)
        } else {
            bytes.len()
        };
        let slot = self.queue.slots.index(self.slots);
        let address = self.queue.ring.copy(slot, bytes, len)?;
        self.copied_len = 0;
        self.put(address, len as u32, last)
    }

    /// Fills a slot with the next `len` bytes of the packet, where they are.
    fn put_mapped(&mut self, len: u32, last: bool) -> Result {
        let (mapping, from) = match self.mapping.take() {
            Some(mapped) => mapped,
            None => {
                let dev = self.queue.dev;
                (self.skb.map_piece(dev, self.piece, self.at)?, self.at)
            }
        };
        let address = u32::try_from(mapping.address())?.wrapping_add(self.at - from);
        self.mapping = Some((mapping, from));
        self.put(address, len, last)?;
        self.advance(len);
        Ok(())
    }

    /// Fills the next slot.
    #[inline]
    fn put(&mut self, address: u32, size: u32, last: bool) -> Result {
        let part = match (self.begins, last) {
            (true, true) => Part::Single,
            (true, false) => Part::Start,
            (false, false) => Part::Middle,
            (false, true) => Part::End,
        };
        if self.slots >= MAX_SLOTS {
            return Err(EMSGSIZE);
        }
        if self.slots == 0 {
            self.first = Some(self.queue.begin(address, part, size));
        } else {
            let slot = self.queue.slots.index(self.slots);
            self.queue.ring.set_pointer(slot, address);
            self.queue
                .ring
                .prepare(slot, ravb_desc::transmit(part, size));
        }
        self.begins = false;
        self.slots += 1;
        Ok(())
    }

    /// The packet is all in slots.
    fn finish(mut self, size: WireSize) -> Result<Filled> {
        self.leave_piece();
        Ok(Filled {
            first: self.first.ok_or(EINVAL)?,
            size,
            more: self.slots - 1,
        })
    }
}

/// Bytes of a packet that lie together.
struct Run {
    len: u32,
    /// They are to be copied.
    copy: bool,
}

/// Which of `features` a device of this variant has for a packet.
pub(crate) fn features_for(variant: &Variant, skb: &SkBuff, features: Features) -> Features {
    if skb.segment_size().is_some() && !can_segment(variant, skb) {
        return features.without(Features::SEGMENTATION);
    }
    features
}

/// Whether a packet can be sent in segments: each of them can be sent, the engine makes their
/// checksums, their headers can be copied, and there is room for all of them.
fn can_segment(variant: &Variant, skb: &SkBuff) -> bool {
    let segments = skb.segment_count();
    let fits = |headers: Segments<'_>| {
        headers.max_len() <= variant.max_tx_frame
            && headers.header_len() + variant.tx_alignment <= BOUNCE_SIZE
    };
    segments != 0
        && slots(segments, skb.pieces()) <= MAX_SLOTS
        && can_checksum(skb.head_data())
        && Segments::of(skb).is_ok_and(fits)
}

impl<'bound> TxPoll<'bound> {
    /// Whether no frame is in the ring.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.slots.is_empty()
    }

    /// Takes back the frames that were sent.
    #[inline]
    pub(crate) fn poll(&self, cx: &napi::Context<'_, Ravb<'bound>>) {
        // The lock is not worth its while, then.
        if self.is_idle() {
            return;
        }
        let guard = match cx.budget() {
            0 => self.reclaim.try_lock(),
            _ => Some(self.reclaim.lock()),
        };
        if let (Some(mut reclaim), Some(txq)) = (guard, cx.dev().tx_queue(self.id.index())) {
            reclaim.reclaim(txq, cx.budget());
        }
    }
}

impl TxReclaim<'_> {
    /// Takes back the frames that were sent, one lap of the ring at most.
    ///
    /// `budget` is that of the poll in which this is called, and 0 elsewhere.
    fn reclaim(&mut self, txq: TxQueueRef<'_>, budget: usize) {
        let mut frames = 0;
        let mut bytes = 0;

        for _ in 0..self.size {
            let Some(queued) = self.take(true) else {
                break;
            };
            frames += queued.size.frames;
            bytes += queued.size.bytes;
            queued.packet.consume(budget);
        }
        if frames == 0 {
            return;
        }
        self.slots.release();
        let stats = self.stats.tx(self.id);
        stats.packets.add(u64::from(frames));
        stats.bytes.add(u64::from(bytes));

        txq.completed(frames, bytes);
        if self.slots.wake_if_free(&txq, self.wake_at) {
            stats.wakes.add(1);
        }
    }

    /// Takes the oldest packet out of the ring, unmapped; if `sent`, only once it was transmitted.
    #[inline(always)]
    fn take(&mut self, sent: bool) -> Option<Queued> {
        let (first, index) = self.slots.front()?;
        // The hardware returns the slots of a packet one by one: the last one counts.
        let more = first.queued.as_ref()?.more;
        let last = spsc::after(index, more, self.size);
        if sent && !self.ring.is_transmitted(last) {
            return None;
        }
        first.mapping = None;
        let queued = first.queued.take();
        self.slots.take();
        for _ in 0..more {
            let (slot, _) = self.slots.front()?;
            slot.mapping = None;
            self.slots.take();
        }
        queued
    }
}

impl Drop for TxReclaim<'_> {
    /// Drops what was not sent. The hardware has been stopped before.
    fn drop(&mut self) {
        while let Some(queued) = self.take(false) {
            let frames = queued.size.frames;
            self.stats.tx(self.id).dropped.add(frames.into());
            queued
                .packet
                .discard(drop_reason::SKB_DROP_REASON_DEV_READY);
        }
    }
}
