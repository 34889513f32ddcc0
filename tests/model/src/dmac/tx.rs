// SPDX-License-Identifier: GPL-2.0
//! Transmission (reference section 4.4).

use std::collections::VecDeque;

use super::descriptor::{Descriptor, Kind};
use super::{Arrival, QueueError, MAX_PARTS};
use crate::host::Host;
use crate::model::Model;
use crate::regs::{bit, reg};
use crate::rules::Rule;
use crate::variant::MAX_TX_QUEUES;

/// Frames the transmit FIFO holds when the engine looks ahead (property `eager-fetch`).
const EAGER_FRAMES: usize = 16;

/// A descriptor to be written back.
#[derive(Clone, Debug)]
struct Part {
    addr: u64,
    interrupt: u8,
    /// Where its data is, and what was read there (property `check-tx-buffers`).
    buffer: Option<(u64, Vec<u8>)>,
}

/// A frame on its way out.
#[derive(Debug)]
struct Outgoing {
    queue: usize,
    frame: Vec<u8>,
    parts: VecDeque<Part>,
    /// Tag of the timestamp asked for.
    tag: Option<u16>,
}

#[derive(Debug, Default)]
struct Queue {
    /// TCCR.TSRQ.
    requested: bool,
    /// Stopped by an error (QEF) or by a descriptor without data.
    halted: bool,
}

/// The transmit side of the engine.
#[derive(Debug, Default)]
pub(crate) struct Transmitter {
    queues: [Queue; MAX_TX_QUEUES],
    /// When to look at the rings next.
    fetch_at: Option<u64>,
    /// Fetched, not yet on the wire.
    fifo: VecDeque<Outgoing>,
    /// On the wire, and when its last bit has left.
    on_wire: Option<(u64, Outgoing)>,
    /// Sent, descriptors not yet all written back, and when the next one will be.
    completing: VecDeque<(u64, Outgoing)>,
    /// A PAUSE frame holds transmission until then.
    paused_until: u64,
    /// End of the last frame on the wire, for half duplex.
    pub(super) wire_free: u64,
    /// Frames since the last provoked collision (fault hook).
    since_collision: u32,
}

/// Result of looking at a ring.
enum Fetched {
    /// Frame and the address after its last descriptor.
    Frame(Outgoing, u64),
    /// Nothing to send.
    Nothing,
    /// The next descriptor still waits for its write-back.
    Busy,
    /// The queue stops until the mode changes; with an error code where the device reports it.
    Halt(Option<QueueError>),
    /// The whole device stops.
    Freeze,
}

impl Transmitter {
    pub(super) fn reset(&mut self) {
        *self = Self {
            wire_free: self.wire_free,
            ..Self::default()
        };
    }

    pub(super) fn restart(&mut self, q: usize) {
        self.queues[q] = Queue::default();
    }

    pub(super) fn on_wire(&self) -> bool {
        self.on_wire.is_some()
    }

    /// TCCR.TSRQ of all queues.
    pub(crate) fn requests(&self) -> u32 {
        self.queues
            .iter()
            .enumerate()
            .map(|(q, queue)| u32::from(queue.requested) << q)
            .sum()
    }

    /// CSR.TPO: a request or a descriptor is not finished.
    pub(super) fn pending(&self, q: usize) -> bool {
        self.queues[q].requested || self.in_flight().any(|out| out.queue == q)
    }

    fn in_flight(&self) -> impl Iterator<Item = &Outgoing> {
        let on_wire = self.on_wire.iter().map(|(_, out)| out);
        let completing = self.completing.iter().map(|(_, out)| out);
        self.fifo.iter().chain(on_wire).chain(completing)
    }

    fn idle(&self) -> bool {
        self.fifo.is_empty() && self.on_wire.is_none()
    }

    fn awaits_write_back(&self, addr: u64) -> bool {
        self.in_flight()
            .any(|out| out.parts.iter().any(|part| part.addr == addr))
    }
}

impl Model {
    pub(crate) fn tx_deadline(&self) -> u64 {
        let tx = &self.dmac.tx;
        let mut next = u64::MAX;
        if let Some((at, _)) = tx.on_wire.as_ref().filter(|_| self.wire_runs()) {
            next = next.min(*at);
        }
        if self.bus_enabled() {
            if let Some((at, _)) = tx.completing.front() {
                next = next.min(*at);
            }
            if tx.idle() {
                next = next.min(tx.fetch_at.unwrap_or(u64::MAX));
            }
        }
        if self.operating() && self.tx_enabled() && tx.on_wire.is_none() && !tx.fifo.is_empty() {
            // Only a PAUSE frame keeps a fetched frame from starting at once.
            next = next.min(tx.paused_until);
        }
        next
    }

    /// A frame on the wire makes progress.
    fn wire_runs(&self) -> bool {
        self.modes.clock && !self.faults.tx_hold
    }

    /// Write to TCCR.
    pub(crate) fn write_tccr(&mut self, h: &mut dyn Host, value: u32) {
        self.regs
            .set(reg::TCCR, value & (bit::TCCR_TFEN | bit::TCCR_MFEN));
        if value & bit::TCCR_TFR != 0 {
            self.release_timestamp();
        }
        self.ring_doorbell(h, value);
    }

    fn ring_doorbell(&mut self, h: &mut dyn Host, requests: u32) {
        let requests = requests & bit::TCCR_TSRQ;
        if requests == 0 {
            return;
        }
        self.counters.doorbells += 1;
        if !self.operating() {
            self.broken(
                h,
                Rule::DoorbellOutsideOperation,
                &format!("TCCR {requests:#x}"),
            );
            return;
        }
        if requests >> self.variant.tx_queues != 0 {
            self.broken(h, Rule::DoorbellUnusedQueue, &format!("TCCR {requests:#x}"));
        }
        let now = h.now();
        for q in (0..self.variant.tx_queues).filter(|q| requests >> q & 1 != 0) {
            if self.dmac.tx.queues[q].requested {
                self.counters.doorbells_redundant += 1;
            }
            self.dmac.tx.queues[q].requested = true;
            if self.settings.qef_doorbell_restarts {
                self.dmac.tx.queues[q].halted = false;
            }
            let wait = match self.faults.tx_at_once {
                true => 0,
                false => self.settings.tx_fetch_ns.max(1),
            };
            let at = now.saturating_add(wait);
            self.dmac.tx.fetch_at = Some(self.dmac.tx.fetch_at.map_or(at, |old| old.min(at)));
        }
        while self.faults.tx_at_once && self.tx_deadline() <= now {
            self.run_tx(h, now);
        }
    }

    /// Does what is due at time `t`.
    pub(crate) fn run_tx(&mut self, h: &mut dyn Host, t: u64) {
        self.write_back_tx(h, t);
        if self.wire_runs() {
            if let Some((at, out)) = self.dmac.tx.on_wire.take_if(|(at, _)| *at <= t) {
                self.leave(h, at, out);
                self.write_back_tx(h, t);
            }
        }
        let due = self.dmac.tx.fetch_at.is_some_and(|at| at <= t);
        if due && self.bus_enabled() && self.dmac.tx.idle() {
            self.dmac.tx.fetch_at = None;
            self.fetch_tx(h, t);
        }
        self.start_tx(t);
    }

    /// Puts the next fetched frame on the wire if nothing is in its way.
    pub(crate) fn start_tx(&mut self, now: u64) {
        if !self.operating() || !self.tx_enabled() || self.dmac.tx.on_wire.is_some() {
            return;
        }
        if self.dmac.tx.paused_until > now {
            return;
        }
        let Some(mut out) = self.dmac.tx.fifo.pop_front() else {
            return;
        };
        self.prepare_transmit(&mut out.frame);
        let mut start = now;
        if !self.full_duplex() {
            start = start.max(self.dmac.rx.wire_free) + self.collisions();
        }
        let end = match self.faults.tx_at_once {
            true => start,
            false => start.saturating_add(self.wire_time(out.frame.len())),
        };
        self.dmac.tx.wire_free = end;
        self.dmac.tx.on_wire = Some((end, out));
    }

    /// Half duplex: time lost to a provoked collision.
    fn collisions(&mut self) -> u64 {
        self.dmac.tx.since_collision += 1;
        let every = self.faults.collide_every;
        if every == 0 || self.dmac.tx.since_collision < every {
            return 0;
        }
        self.dmac.tx.since_collision = 0;
        self.regs.count(reg::CXR41, 1);
        // One slot of 512 bits until the next attempt.
        self.bit_time(512)
    }

    pub(super) fn pause_tx(&mut self, until: u64) {
        self.dmac.tx.paused_until = until;
    }

    /// The last bit of a frame has left.
    fn leave(&mut self, h: &mut dyn Host, t: u64, out: Outgoing) {
        if self.regs.get(reg::CCC) & bit::CCC_LBME != 0 {
            self.loop_back(h, t, &out.frame);
        } else if self.mdio.phy().loopback() {
            self.enqueue_arrival(t, 0, Arrival::plain(&out.frame));
        } else if let Some(link) = self.usable_link() {
            if link.full_duplex != self.full_duplex() {
                self.broken(h, Rule::DuplexMismatch, &format!("link {link:?}"));
            }
            h.transmit(&out.frame);
            self.partner_hears(t, &out.frame);
        } else {
            if let Some(link) = self.mdio.phy().link() {
                let gecmr = self.regs.get(reg::GECMR);
                self.broken(
                    h,
                    Rule::SpeedMismatch,
                    &format!("GECMR {gecmr:#x}, link {link:?}"),
                );
            }
            if !self.full_duplex() {
                self.regs.count(reg::CXR42, 1);
            }
            self.counters.tx_lost += 1;
        }
        if let Some(tag) = out.tag {
            let start = t.saturating_sub(self.after_start(out.frame.len()));
            self.stamp_transmission(tag, start, t);
        }
        self.counters.frames[out.queue] += 1;
        self.counters.bytes[out.queue] += out.frame.len() as u64;
        self.dmac
            .tx
            .completing
            .push_back((t.saturating_add(self.faults.tx_completion_ns), out));
        // A running queue looks for more before it goes idle (K-ml, K-qnx).
        self.dmac.tx.fetch_at = Some(t);
    }

    /// Gives descriptors back, one at a time and in order (K-ml 5cb099902b6b).
    fn write_back_tx(&mut self, h: &mut dyn Host, t: u64) {
        while self.bus_enabled() {
            let gap = self.faults.tx_part_ns;
            let Some((at, out)) = self
                .dmac
                .tx
                .completing
                .front_mut()
                .filter(|(at, _)| *at <= t)
            else {
                return;
            };
            let queue = out.queue;
            let part = out.parts.pop_front();
            let done = out.parts.is_empty();
            *at = at.saturating_add(gap);
            if let Some(part) = part {
                self.check_unchanged(h, &part);
                if self.store_type(h, queue, part.addr, Kind::Empty).is_err() {
                    self.queue_error(h, queue, QueueError::WriteDescriptor);
                }
                self.descriptor_interrupt(part.interrupt);
                if part.interrupt != 0 {
                    self.regs.raise(reg::TIS, bit::TIS_TDPF0 << queue);
                }
            }
            if done {
                self.dmac.tx.completing.pop_front();
                if self.regs.raise(reg::TIS, 1 << queue) {
                    self.counters.frames_coalesced += 1;
                }
            }
        }
    }

    /// Rule check: until its descriptor is given back, a buffer is the device's.
    fn check_unchanged(&mut self, h: &mut dyn Host, part: &Part) {
        let Some((addr, data)) = &part.buffer else {
            return;
        };
        let mut now = vec![0; data.len()];
        if h.dma_read(*addr, &mut now).is_err() || now != *data {
            let detail = format!(
                "{} bytes at {addr:#x}, descriptor {:#x}",
                data.len(),
                part.addr
            );
            self.broken(h, Rule::TxBufferChanged, &detail);
        }
    }

    /// Looks at the rings, highest priority first.
    fn fetch_tx(&mut self, h: &mut dyn Host, t: u64) {
        for q in (0..self.variant.tx_queues).rev() {
            if !self.dmac.tx.queues[q].requested || self.dmac.tx.queues[q].halted {
                continue;
            }
            match self.fetch_frame(h, q) {
                Fetched::Frame(out, next) => {
                    self.dmac.current[q] = next;
                    self.dmac.tx.fifo.push_back(out);
                    return;
                }
                Fetched::Nothing => self.dmac.tx.queues[q].requested = false,
                Fetched::Busy => {
                    let at = self.dmac.tx.completing.front().map_or(t, |(at, _)| *at);
                    self.dmac.tx.fetch_at = Some(at.max(t + 1));
                }
                Fetched::Halt(error) => self.halt_tx(h, q, error),
                Fetched::Freeze => {
                    self.dmac.frozen = true;
                    return;
                }
            }
        }
    }

    fn halt_tx(&mut self, h: &mut dyn Host, q: usize, error: Option<QueueError>) {
        self.dmac.tx.queues[q].halted = true;
        if let Some(error) = error {
            self.queue_error(h, q, error);
        }
    }

    /// Property `eager-fetch`: looks at the ring after a store of the CPU, as a running queue may
    /// at any moment.
    pub(crate) fn fetch_eagerly(&mut self, h: &mut dyn Host, q: usize) {
        if !self.bus_enabled() || self.dmac.tx.queues[q].halted {
            return;
        }
        while self.dmac.tx.fifo.len() < EAGER_FRAMES {
            match self.fetch_frame(h, q) {
                Fetched::Frame(out, next) => {
                    self.dmac.current[q] = next;
                    self.dmac.tx.fifo.push_back(out);
                }
                Fetched::Nothing | Fetched::Busy => break,
                Fetched::Halt(error) => {
                    self.dmac.tx.queues[q].requested = true;
                    self.halt_tx(h, q, error);
                    break;
                }
                Fetched::Freeze => {
                    self.dmac.frozen = true;
                    break;
                }
            }
        }
        self.start_tx(h.now());
    }

    /// Gathers the frame at the current descriptor of queue `q`.
    fn fetch_frame(&mut self, h: &mut dyn Host, q: usize) -> Fetched {
        let mut addr = self.dmac.current[q];
        let mut frame = Vec::new();
        let mut parts = VecDeque::new();
        let mut tag = None;
        while parts.len() < MAX_PARTS {
            let descriptor = match self.follow_links(h, q, addr) {
                Ok(descriptor) => descriptor,
                Err(error) => return Fetched::Halt(Some(error)),
            };
            let kind = descriptor.kind();
            let first = parts.is_empty();
            if self.dmac.tx.awaits_write_back(descriptor.addr) {
                return Fetched::Busy;
            }
            if first && !kind.has_data() {
                if kind == Kind::Eos && !self.in_base_table(descriptor.addr) {
                    // The mark stays where a store fails; the next look reports the bus error.
                    let _ = self.store_type(h, q, descriptor.addr, Kind::EosEmpty);
                }
                self.dmac.current[q] = descriptor.addr;
                return Fetched::Nothing;
            }
            let in_order = matches!(
                (first, kind),
                (true, Kind::Single | Kind::Start) | (false, Kind::Mid | Kind::End)
            );
            if !in_order {
                let detail = format!("{kind:?} at {:#x} as part {}", descriptor.addr, parts.len());
                self.broken(h, Rule::TxSequence, &detail);
                return Fetched::Halt(Some(QueueError::Interpret));
            }
            let start = frame.len();
            if let Err(halt) = self.gather(h, &descriptor, &mut frame) {
                return halt;
            }
            let kept = self.settings.check_tx_buffers;
            parts.push_back(Part {
                addr: descriptor.addr,
                interrupt: descriptor.interrupt(),
                buffer: kept.then(|| (descriptor.pointer(), frame[start..].to_vec())),
            });
            tag = descriptor.timestamp_tag().or(tag);
            addr = self.successor(q, &descriptor);
            if matches!(kind, Kind::Single | Kind::End) {
                return Fetched::Frame(
                    Outgoing {
                        queue: q,
                        frame,
                        parts,
                        tag,
                    },
                    addr,
                );
            }
        }
        self.broken(
            h,
            Rule::TxSequence,
            &format!("frame of more than {MAX_PARTS} parts"),
        );
        Fetched::Halt(Some(QueueError::Interpret))
    }

    /// Reads the data of one descriptor.
    fn gather(
        &mut self,
        h: &mut dyn Host,
        descriptor: &Descriptor,
        frame: &mut Vec<u8>,
    ) -> Result<(), Fetched> {
        let at = descriptor.addr;
        let (buffer, size) = (descriptor.pointer(), descriptor.size());
        if size == 0 {
            self.broken(h, Rule::TxZeroLength, &format!("descriptor {at:#x}"));
            return Err(Fetched::Halt(None));
        }
        if self.variant.tx_aligned && buffer % 4 != 0 {
            self.broken(
                h,
                Rule::TxUnaligned,
                &format!("buffer {buffer:#x} descriptor {at:#x}"),
            );
            if !self.settings.tx_unaligned_works {
                return Err(Fetched::Halt(Some(QueueError::ReadData)));
            }
        }
        let limit = self.settings.tx_limit.unwrap_or(self.variant.tx_limit) as usize;
        if frame.len() + size > limit {
            let total = frame.len() + size;
            self.broken(
                h,
                Rule::TxTooLong,
                &format!("{total} bytes or more, limit {limit}"),
            );
            return Err(if self.variant.tx_limit_freezes {
                Fetched::Freeze
            } else {
                Fetched::Halt(Some(QueueError::TxFrameSize))
            });
        }
        self.check_buffer(h, descriptor);
        let start = frame.len();
        frame.resize(start + size, 0);
        h.dma_read(buffer, &mut frame[start..])
            .map_err(|_| Fetched::Halt(Some(QueueError::ReadData)))
    }
}
