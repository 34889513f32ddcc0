// SPDX-License-Identifier: GPL-2.0
//! AVB-DMAC: the engine that moves frames between memory and the MAC (reference section 4).
//!
//! A frame takes its time: a doorbell is followed by a fetch, the fetch by the time on the wire,
//! that by the write-back of the descriptors; a received frame arrives when its last bit has. All
//! these steps happen in [`crate::Model::timer`], at virtual times known beforehand, so that runs
//! under QEMU's instruction counter repeat. Register writes only let such a step be scheduled.

pub mod descriptor;
mod filter;
mod rx;
mod tx;

use crate::counters::QUEUES;
use crate::host::{BusError, Host};
use crate::model::Model;
use crate::regs::{bit, reg};
use crate::rules::Rule;
use crate::variant::RX_QUEUE_OFFSET;

use descriptor::{Descriptor, Kind, DIE_DT};

pub(crate) use rx::{Arrival, Receiver};
pub(crate) use tx::Transmitter;

/// Link descriptors followed in a row before the engine gives up.
const MAX_LINKS: usize = 16;
/// Descriptors one frame may take.
const MAX_PARTS: usize = 4096;
/// Size of an entry of the descriptor base address table, and of the common descriptor format.
pub(crate) const ENTRY: u64 = 8;
/// Size of an extended receive descriptor.
const EXTENDED: u64 = 20;

/// Why the engine cannot go on with a queue (ESR.ET; K-qnx).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum QueueError {
    ReadDescriptor = 0,
    WriteDescriptor = 1,
    Interpret = 2,
    ReadData = 4,
    WriteData = 5,
    TxFrameSize = 9,
}

/// State of the engine.
#[derive(Debug, Default)]
pub(crate) struct Dmac {
    pub(crate) tx: Transmitter,
    pub(crate) rx: Receiver,
    /// Current descriptor address per queue (CDAR), index as in the descriptor base table.
    current: [u64; QUEUES],
    /// Next free byte of the incremental area per queue (CIAR).
    incremental: [u64; QUEUES],
    /// An over-long frame has wedged the device; only RESET helps (K-ml).
    pub(crate) frozen: bool,
}

impl Dmac {
    /// Forgets all frames and queues; frames still on the wire outside are not ours to forget.
    pub(crate) fn reset(&mut self) {
        self.tx.reset();
        self.rx.reset();
        self.current = [0; QUEUES];
        self.incremental = [0; QUEUES];
        self.frozen = false;
    }

    pub(crate) fn current_descriptor(&self, queue: usize) -> u32 {
        self.current.get(queue).map_or(0, |addr| *addr as u32)
    }

    pub(crate) fn incremental_address(&self, rx_queue: usize) -> u32 {
        self.incremental
            .get(RX_QUEUE_OFFSET + rx_queue)
            .map_or(0, |addr| *addr as u32)
    }

    pub(crate) fn tx_pending(&self, q: usize) -> bool {
        self.tx.pending(q)
    }

    pub(crate) fn transmitting(&self) -> bool {
        self.tx.on_wire()
    }

    pub(crate) fn rx_in_progress(&self) -> bool {
        self.rx.in_progress()
    }
}

impl Model {
    /// DBAT indices of the queues this variant has.
    pub(crate) fn queues(&self) -> impl Iterator<Item = usize> {
        let rx = RX_QUEUE_OFFSET..RX_QUEUE_OFFSET + self.variant.rx_queues;
        (0..self.variant.tx_queues).chain(rx)
    }

    /// Entering OPERATION points every queue at its entry in the table (K-qnx, K-drv).
    pub(crate) fn start_dma(&mut self, h: &mut dyn Host) {
        for queue in self.queues() {
            self.load_queue(queue);
        }
        self.regs.set(reg::DLR, 0);
        self.open_watch_windows(h);
    }

    /// Leaving OPERATION: what has not reached memory is lost.
    pub(crate) fn stop_dma(&mut self, h: &mut dyn Host) {
        self.counters.drops.stopped += self.dmac.rx.stored_frames();
        self.dmac.tx.reset();
        self.dmac.rx.reset();
        self.close_watch_windows(h);
    }

    fn load_queue(&mut self, queue: usize) {
        let base = u64::from(self.regs.get(reg::DBAT));
        self.dmac.current[queue] = base + ENTRY * queue as u64;
        self.watch.forget_prefetched(queue);
    }

    /// DLR: reload the base of the given queues (K-qnx). A halted queue starts afresh (A).
    pub(crate) fn write_dlr(&mut self, value: u32) {
        for queue in self.queues().filter(|queue| value >> queue & 1 != 0) {
            self.load_queue(queue);
            if queue < RX_QUEUE_OFFSET {
                self.dmac.tx.restart(queue);
            }
        }
    }

    /// Bytes from one descriptor of a queue to the next: extended ones carry a timestamp. Queue 1
    /// has the format of queue 0 (A: the C driver uses one size for both).
    pub(crate) fn stride(&self, queue: usize) -> u64 {
        let extended = match queue.checked_sub(RX_QUEUE_OFFSET) {
            None => 0,
            Some(0 | 1) => bit::RCR_ETS0,
            Some(_) => bit::RCR_ETS2,
        };
        match self.variant.gptp && self.regs.get(reg::RCR) & extended != 0 {
            true => EXTENDED,
            false => ENTRY,
        }
    }

    /// Address of the descriptor after `descriptor`, or of the first one if that was in the table.
    fn successor(&self, queue: usize, descriptor: &Descriptor) -> u64 {
        descriptor.addr + self.stride(queue)
    }

    fn load_descriptor(
        &mut self,
        h: &mut dyn Host,
        queue: usize,
        addr: u64,
    ) -> Result<Descriptor, BusError> {
        self.counters.engine[queue].count(0, false);
        if let Some(bytes) = self.watch.prefetched(addr) {
            return Ok(Descriptor { addr, bytes });
        }
        // The owner first, the rest afterwards: as a device would see a CPU's stores.
        let mut die_dt = [0];
        let mut bytes = [0; ENTRY as usize];
        h.dma_read(addr + DIE_DT, &mut die_dt)?;
        h.dma_read(addr, &mut bytes)?;
        bytes[DIE_DT as usize] = die_dt[0];
        Ok(Descriptor { addr, bytes })
    }

    /// Changes the type of a descriptor, which hands it over.
    fn store_type(
        &mut self,
        h: &mut dyn Host,
        queue: usize,
        addr: u64,
        kind: Kind,
    ) -> Result<(), BusError> {
        self.counters.engine[queue].count(DIE_DT, true);
        self.watch.engine_stores(addr + DIE_DT, &[kind.die_dt()]);
        h.dma_write(addr + DIE_DT, &[kind.die_dt()])
    }

    /// Follows links from `addr` to a descriptor that is none, without changing the queue. Used
    /// links are marked.
    fn follow_links(
        &mut self,
        h: &mut dyn Host,
        queue: usize,
        mut addr: u64,
    ) -> Result<Descriptor, QueueError> {
        for _ in 0..MAX_LINKS {
            let descriptor = self
                .load_descriptor(h, queue, addr)
                .map_err(|_| QueueError::ReadDescriptor)?;
            match descriptor.kind() {
                Kind::LinkFix => (),
                Kind::Link => self
                    .store_type(h, queue, addr, Kind::LinkEmpty)
                    .map_err(|_| QueueError::WriteDescriptor)?,
                Kind::Reserved => {
                    let detail = format!("die_dt {:#04x} at {addr:#x}", descriptor.bytes[3]);
                    self.broken(h, Rule::ReservedType, &detail);
                    return Ok(descriptor);
                }
                _ => return Ok(descriptor),
            }
            addr = descriptor.pointer();
        }
        self.broken(
            h,
            Rule::LinkLoop,
            &format!("more than {MAX_LINKS} links, now at {addr:#x}"),
        );
        Err(QueueError::Interpret)
    }

    /// Latches a queue error (EIS.QEF, ESR).
    fn queue_error(&mut self, h: &mut dyn Host, queue: usize, error: QueueError) {
        use QueueError::{ReadData, ReadDescriptor, WriteData, WriteDescriptor};
        if matches!(
            error,
            ReadDescriptor | WriteDescriptor | ReadData | WriteData
        ) {
            let at = self.dmac.current[queue];
            let name = crate::counters::queue_name(queue);
            self.broken(
                h,
                Rule::DmaBusError,
                &format!("{error:?} of {name}, descriptor {at:#x}"),
            );
        }
        if self.regs.raise(reg::EIS, bit::EIS_QEF) {
            self.regs.raise(reg::ESR, bit::ESR_EIL);
        } else {
            self.regs.set(reg::ESR, (error as u32) << 8 | queue as u32);
        }
    }

    /// Latches a descriptor interrupt.
    fn descriptor_interrupt(&mut self, number: u8) {
        if number != 0 {
            self.regs.raise(reg::DIS, 1 << number);
        }
    }

    /// Next virtual time at which the engine has something to do.
    pub(crate) fn dmac_deadline(&self) -> u64 {
        self.tx_deadline().min(self.rx_deadline())
    }
}
