// SPDX-License-Identifier: GPL-2.0
//! Reception (reference sections 4.5 and 13).
//!
//! A frame passes four places: the wire (and the queue of whoever sends), the receive FIFO, the
//! store in progress, memory.

use std::collections::VecDeque;
use std::rc::Rc;

use super::descriptor::{Descriptor, Kind, DS_MASK, RX_EI, RX_TR};
use super::{QueueError, ENTRY, MAX_PARTS};
use crate::emac::msc;
use crate::host::{BusError, Host};
use crate::model::{Model, Settings};
use crate::regs::{bit, reg};
use crate::variant::RX_QUEUE_OFFSET;

/// Longest checksum trailer.
const MAX_TRAILER: usize = 4;

/// A frame on the wire.
#[derive(Clone, Debug)]
pub(crate) struct Arrival {
    /// When its last bit arrives.
    pub(crate) at: u64,
    /// The frame without FCS.
    pub(crate) frame: Rc<[u8]>,
    /// Replaces the MAC's own verdict (injection).
    pub(crate) status: Option<u8>,
    /// Marked as cut short, whatever its length (injection).
    pub(crate) truncated: bool,
    /// How many bytes reach memory, instead of frame and trailer (injection).
    pub(crate) stored: Option<usize>,
    /// The FCS does not match.
    pub(crate) bad_fcs: bool,
    /// Passes whatever the address filter says (injection).
    pub(crate) unfiltered: bool,
    /// Where in the frame to put which sequence number (injection).
    pub(crate) sequence: Option<(usize, u32)>,
    /// Bytes it counts in the sender's queue.
    pub(crate) backlog: usize,
}

impl Arrival {
    /// An ordinary frame that counts in nobody's queue.
    pub(crate) fn plain(frame: &[u8]) -> Self {
        Self::of(frame.into())
    }

    /// The same of a frame that others share.
    pub(crate) fn of(frame: Rc<[u8]>) -> Self {
        Self {
            at: 0,
            frame,
            status: None,
            truncated: false,
            stored: None,
            bad_fcs: false,
            unfiltered: false,
            sequence: None,
            backlog: 0,
        }
    }
}

/// A frame in the FIFO.
#[derive(Debug)]
struct Stored {
    queue: usize,
    /// What is to be stored: frame data and trailer.
    data: Vec<u8>,
    /// Length of the frame itself.
    frame_len: usize,
    status: u8,
    truncated: bool,
    /// Adjusted gPTP time of its start delimiter.
    timestamp: u128,
}

/// A frame of which some parts are in memory.
#[derive(Debug)]
struct Storing {
    frame: Stored,
    done: usize,
    parts: usize,
    /// When the next part follows.
    at: u64,
}

/// The receive side of the engine.
#[derive(Debug, Default)]
pub(crate) struct Receiver {
    wire: VecDeque<Arrival>,
    /// Bytes from the outside world that wait for their turn on the wire.
    backlog: usize,
    /// End of the last frame on the wire.
    pub(super) wire_free: u64,
    fifo: VecDeque<Stored>,
    storing: Option<Storing>,
}

impl Receiver {
    pub(super) fn reset(&mut self) {
        self.fifo.clear();
        self.storing = None;
    }

    pub(super) fn in_progress(&self) -> bool {
        self.storing.is_some()
    }

    pub(super) fn stored_frames(&self) -> u64 {
        self.fifo.len() as u64 + u64::from(self.storing.is_some())
    }

    fn fifo_bytes(&self) -> usize {
        self.fifo.iter().map(|frame| frame.data.len()).sum()
    }
}

/// What became of one part of a frame that was stored.
enum Part {
    /// More to come.
    More,
    /// The frame is complete.
    Last,
    /// The rest of the frame is lost, and marked as such.
    Cut,
}

/// Why a part was not stored.
enum Lost {
    RingFull,
    Error(QueueError),
}

impl Storing {
    /// Size, control bits and MAC status of a descriptor that took `size` bytes.
    fn verdict(&self, size: usize, last: bool, cut: bool, settings: &Settings) -> [u8; 3] {
        let total = last && settings.rx_fend_total;
        let mut ds = if total { self.done } else { size } as u16 & DS_MASK;
        let mut status = 0;
        if last || settings.rx_status_in_all_parts {
            status = self.frame.status;
            ds |= if self.frame.truncated { RX_TR } else { 0 };
            // Set for an incomplete frame (A) and for an error frame (A).
            ds |= if cut || status & msc::ERRORS != 0 {
                RX_EI
            } else {
                0
            };
        }
        let [lo, hi] = ds.to_le_bytes();
        [lo, hi, status]
    }
}

impl Model {
    pub(crate) fn rx_deadline(&self) -> u64 {
        let rx = &self.dmac.rx;
        let arrival = rx.wire.front().map_or(u64::MAX, |arrival| arrival.at);
        if !self.rx_dma_enabled() {
            return arrival;
        }
        match &rx.storing {
            Some(storing) => arrival.min(storing.at),
            // Due at once: something held the engine back and no longer does.
            None if !rx.fifo.is_empty() => 0,
            None => arrival,
        }
    }

    fn rx_dma_enabled(&self) -> bool {
        self.bus_enabled() && self.rx_engine_enabled() && !self.faults.rx_hold
    }

    /// CSR.RPO.
    pub(crate) fn rx_pending(&self) -> bool {
        self.dmac.rx.storing.is_some() || !self.dmac.rx.fifo.is_empty()
    }

    /// One frame from the outside world. It waits for its turn on the wire.
    pub(crate) fn enqueue_arrival(&mut self, now: u64, earliest: u64, mut arrival: Arrival) -> u64 {
        let mut start = now.max(earliest).max(self.dmac.rx.wire_free);
        if !self.full_duplex() {
            start = start.max(self.dmac.tx.wire_free);
        }
        arrival.at = start.saturating_add(self.wire_time(arrival.frame.len()));
        self.dmac.rx.wire_free = arrival.at;
        self.dmac.rx.backlog += arrival.backlog;
        self.dmac.rx.wire.push_back(arrival);
        start
    }

    /// When the wire has carried all that was given to it.
    pub(crate) fn wire_end(&self) -> u64 {
        self.dmac.rx.wire_free
    }

    /// Whether a frame of `len` bytes given to the wire now would find room in the ring of the
    /// best-effort queue: nothing is before it, and there are descriptors for it. Looks without
    /// leaving a trace.
    pub(crate) fn has_room(&self, h: &mut dyn Host, len: usize) -> bool {
        let rx = &self.dmac.rx;
        if !rx.wire.is_empty() || !rx.fifo.is_empty() || rx.storing.is_some() {
            return false;
        }
        let mut addr = self.dmac.current[RX_QUEUE_OFFSET];
        let mut rest = len + MAX_TRAILER;
        for _ in 0..MAX_PARTS {
            let mut bytes = [0; ENTRY as usize];
            if h.dma_read(addr, &mut bytes).is_err() {
                return false;
            }
            let descriptor = Descriptor { addr, bytes };
            if matches!(descriptor.kind(), Kind::Link | Kind::LinkFix) {
                addr = descriptor.pointer();
                continue;
            }
            if !descriptor.kind().can_receive() {
                return false;
            }
            rest = rest.saturating_sub(descriptor.size());
            if rest == 0 {
                return true;
            }
            addr = self.successor(RX_QUEUE_OFFSET, &descriptor);
        }
        false
    }

    /// One frame from the network backend, without FCS.
    pub fn receive(&mut self, h: &mut dyn Host, frame: &[u8]) {
        if self.dmac.rx.backlog + frame.len() > self.settings.wire_backlog as usize {
            self.counters.drops.backlog += 1;
            return;
        }
        let arrival = Arrival {
            backlog: frame.len(),
            ..Arrival::plain(frame)
        };
        self.enqueue_arrival(h.now(), 0, arrival);
        self.settle(h);
    }

    /// Does what is due at time `t`.
    pub(crate) fn run_rx(&mut self, h: &mut dyn Host, t: u64) {
        if self
            .dmac
            .rx
            .wire
            .front()
            .is_some_and(|arrival| arrival.at <= t)
        {
            if let Some(arrival) = self.dmac.rx.wire.pop_front() {
                self.dmac.rx.backlog -= arrival.backlog;
                self.arrive(t, arrival);
            }
        }
        self.store_frames(h, t);
    }

    /// The last bit of a frame has arrived at the MAC.
    fn arrive(&mut self, t: u64, arrival: Arrival) {
        if self.usable_link().is_some() && self.detect_magic(&arrival.frame) {
            self.counters.drops.disabled += 1;
            return;
        }
        if !self.operating() || self.regs.get(reg::ECMR) & bit::ECMR_RE == 0 {
            self.counters.drops.disabled += 1;
            return;
        }
        if self.usable_link().is_none() {
            self.counters.drops.link += 1;
            return;
        }
        let mut frame = arrival.frame.to_vec();
        if let Some((at, number)) = arrival.sequence {
            if let Some(place) = frame.get_mut(at..at + 4) {
                place.copy_from_slice(&number.to_be_bytes());
            }
        }
        let seen = self.classify(&frame, arrival.bad_fcs, arrival.status);
        if seen & msc::ERRORS == 0 {
            if let Some(until) = self.pause(&frame, t) {
                self.pause_tx(until);
            }
        }
        if !arrival.unfiltered && !self.accepts(&frame) {
            self.counters.drops.filter += 1;
            return;
        }
        let limit = self.regs.get(reg::RFLR).max(1518) as usize - crate::emac::FCS;
        frame.truncate(limit);
        let start = t.saturating_sub(self.after_start(arrival.frame.len()));
        self.take_in(&frame, start, seen, &arrival);
    }

    /// CCC.LBME: a frame turns round inside the DMAC (A: as received, without the filter).
    pub(super) fn loop_back(&mut self, h: &mut dyn Host, t: u64, frame: &[u8]) {
        let multicast = frame.first().is_some_and(|byte| byte & 1 != 0);
        let status = if multicast { msc::MULTICAST } else { 0 };
        self.take_in(frame, t, status, &Arrival::plain(frame));
        self.store_frames(h, t);
    }

    /// From the MAC into the FIFO. The frame began at virtual time `start`; it is what the MAC made
    /// of `arrival`.
    fn take_in(&mut self, frame: &[u8], start: u64, status: u8, arrival: &Arrival) {
        let error = status & msc::ERRORS != 0;
        let effs = self.variant.error_frames && self.regs.get(reg::RCR) & bit::RCR_EFFS != 0;
        if error && !effs && !self.settings.deliver_errors {
            self.counters.drops.error += 1;
            return;
        }
        let queue = self.rx_queue(frame);
        // RQC.TSEL chooses between the two limits (K-qnx).
        let rtc = self.regs.get(reg::RTC);
        let mfl = if self.rqc(queue) & 0xc == 0 {
            rtc
        } else {
            rtc >> 16
        } & self.variant.mfl_mask;
        let truncated = arrival.truncated || frame.len() > mfl as usize;
        let mut data = frame[..frame.len().min(mfl as usize)].to_vec();
        let frame_len = data.len();
        data.extend(self.trailer(frame));
        data.resize(arrival.stored.unwrap_or(data.len()), 0);
        if self.dmac.rx.fifo_bytes() + data.len() > self.settings.rx_fifo as usize {
            self.regs.raise(reg::RIS2, bit::RIS2_RFFF);
            self.counters.drops.fifo += 1;
            return;
        }
        self.dmac.rx.fifo.push_back(Stored {
            queue,
            data,
            frame_len,
            status,
            truncated,
            timestamp: self.adjusted_time(start),
        });
    }

    /// The RQC byte of an RX queue.
    fn rqc(&self, queue: usize) -> u8 {
        self.regs.get(reg::RQC0 + (queue & !3) as u16).to_le_bytes()[queue & 3]
    }

    /// From the FIFO into memory, as far as time has come.
    fn store_frames(&mut self, h: &mut dyn Host, t: u64) {
        while self.rx_dma_enabled() {
            let rx = &mut self.dmac.rx;
            let Some(mut storing) = rx.storing.take().or_else(|| {
                let frame = rx.fifo.pop_front()?;
                Some(Storing {
                    frame,
                    done: 0,
                    parts: 0,
                    at: t,
                })
            }) else {
                return;
            };
            if storing.at > t {
                rx.storing = Some(storing);
                return;
            }
            match self.store_part(h, &mut storing) {
                Ok(Part::More) => {
                    storing.at = t.saturating_add(self.faults.rx_part_ns);
                    self.dmac.rx.storing = Some(storing);
                }
                Ok(Part::Last) => self.complete(&storing.frame),
                Ok(Part::Cut) => {
                    self.regs.raise(reg::RIS0, 1 << storing.frame.queue);
                    self.ring_full(storing.frame.queue);
                }
                Err(Lost::RingFull) => self.ring_full(storing.frame.queue),
                Err(Lost::Error(error)) => {
                    self.counters.drops.bus += 1;
                    self.queue_error(h, RX_QUEUE_OFFSET + storing.frame.queue, error);
                }
            }
        }
    }

    fn ring_full(&mut self, queue: usize) {
        self.regs.raise(reg::RIS2, 1 << queue);
        self.counters.drops.ring += 1;
    }

    fn complete(&mut self, frame: &Stored) {
        let queue = RX_QUEUE_OFFSET + frame.queue;
        self.counters.frames[queue] += 1;
        self.counters.bytes[queue] += frame.frame_len as u64;
        if self.regs.raise(reg::RIS0, 1 << frame.queue) {
            self.counters.frames_coalesced += 1;
        }
        // Unread frame counter: one byte per queue, six bits (K-drv).
        let (ufcv, shift) = (
            reg::UFCV0 + (frame.queue & !3) as u16,
            8 * (frame.queue & 3),
        );
        let counters = self.regs.get(ufcv);
        if counters >> shift & 0x3f != 0x3f {
            self.regs.set(ufcv, counters + (1 << shift));
        }
    }

    /// UFCD: takes read frames off the unread counters.
    pub(crate) fn write_ufcd(&mut self, index: u16, value: u32) {
        let ufcv = reg::UFCV0 + index * 4;
        let left = self.regs.get(ufcv).to_le_bytes();
        let read = value.to_le_bytes();
        let new: Vec<u8> = left
            .iter()
            .zip(read)
            .map(|(l, r)| l.saturating_sub(r))
            .collect();
        self.regs
            .set(ufcv, u32::from_le_bytes([new[0], new[1], new[2], new[3]]));
    }

    /// Finds a descriptor that can take data.
    fn receivable(
        &mut self,
        h: &mut dyn Host,
        queue: usize,
        addr: u64,
    ) -> Result<Descriptor, Lost> {
        let descriptor = self.follow_links(h, queue, addr).map_err(Lost::Error)?;
        let usable = descriptor.kind().can_receive();
        usable.then_some(descriptor).ok_or(Lost::RingFull)
    }

    /// Stores what one descriptor takes.
    fn store_part(&mut self, h: &mut dyn Host, storing: &mut Storing) -> Result<Part, Lost> {
        let queue = RX_QUEUE_OFFSET + storing.frame.queue;
        let descriptor = self.receivable(h, queue, self.dmac.current[queue])?;
        let first = storing.parts == 0;
        let rest = storing.frame.data.len() - storing.done;
        let size = descriptor.size().min(rest);
        let complete = size == rest;
        let mut next = self.successor(queue, &descriptor);
        let mut cut = false;
        if !complete && storing.parts + 1 >= MAX_PARTS {
            cut = true;
        } else if !complete && !self.settings.rx_ring_end_open {
            // Look ahead, so that a frame the ring cannot hold ends in the last part it has (A).
            match self.receivable(h, queue, next) {
                Ok(following) => next = following.addr,
                Err(_) => cut = true,
            }
        }
        let kind = match (first, complete || cut) {
            (true, true) => Kind::Single,
            (true, false) => Kind::Start,
            (false, false) => Kind::Mid,
            (false, true) => Kind::End,
        };
        self.check_buffer(h, &descriptor);
        let data = &storing.frame.data[storing.done..storing.done + size];
        let buffer = match descriptor.kind() {
            Kind::EmptyContinue => self.dmac.incremental[queue],
            _ => descriptor.pointer(),
        };
        if descriptor.kind() != Kind::EmptyDiscard && size > 0 {
            let stored = h.dma_write(buffer, data);
            stored.map_err(|_| Lost::Error(QueueError::WriteData))?;
        }
        if matches!(descriptor.kind(), Kind::EmptyStart | Kind::EmptyContinue) {
            self.dmac.incremental[queue] = buffer + size as u64;
        }
        storing.done += size;
        storing.parts += 1;
        let status = storing.verdict(size, complete || cut, cut, &self.settings);
        self.store_timestamp(h, queue, &descriptor, storing.frame.timestamp)
            .and_then(|()| self.give_back(h, queue, &descriptor, status, kind))
            .map_err(|_| Lost::Error(QueueError::WriteDescriptor))?;
        self.dmac.current[queue] = next;
        self.watch.consumed(descriptor.addr);
        Ok(match (complete, cut) {
            (true, _) => Part::Last,
            (false, true) => Part::Cut,
            (false, false) => Part::More,
        })
    }

    /// Fills the second half of an extended descriptor, before the type hands it over.
    fn store_timestamp(
        &mut self,
        h: &mut dyn Host,
        queue: usize,
        descriptor: &Descriptor,
        timestamp: u128,
    ) -> Result<(), BusError> {
        if self.stride(queue) == ENTRY {
            return Ok(());
        }
        let bytes = crate::gptp::words(timestamp).map(u32::to_le_bytes).concat();
        let addr = descriptor.addr + ENTRY;
        self.counters.engine[queue].count(ENTRY, true);
        self.watch.engine_stores(addr, &bytes);
        h.dma_write(addr, &bytes)
    }

    /// Writes a descriptor back as RQC.RSM asks, the type last.
    fn give_back(
        &mut self,
        h: &mut dyn Host,
        queue: usize,
        descriptor: &Descriptor,
        status: [u8; 3],
        kind: Kind,
    ) -> Result<(), BusError> {
        let mode = self.rqc(queue - RX_QUEUE_OFFSET) & 3;
        if mode <= 1 {
            self.counters.engine[queue].count(0, true);
            self.watch.engine_stores(descriptor.addr, &status);
            h.dma_write(descriptor.addr, &status)?;
        }
        if mode == 0 {
            self.store_type(h, queue, descriptor.addr, kind)?;
        }
        self.descriptor_interrupt(descriptor.interrupt());
        if descriptor.interrupt() != 0 {
            self.regs.raise(reg::RIS3, 1 << (queue - RX_QUEUE_OFFSET));
        }
        Ok(())
    }
}
