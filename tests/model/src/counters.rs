// SPDX-License-Identifier: GPL-2.0
//! What a driver costs: register accesses, descriptor accesses, interrupts, frames.

use serde_json::{json, Map, Value};

use crate::regs::RegisterFile;
use crate::variant::{MAX_RX_QUEUES, RX_QUEUE_OFFSET};

/// Queues by index in the descriptor base table.
pub const QUEUES: usize = RX_QUEUE_OFFSET + MAX_RX_QUEUES;

/// Name of the queue with this index in the descriptor base table.
pub fn queue_name(dbat_index: usize) -> String {
    match dbat_index.checked_sub(RX_QUEUE_OFFSET) {
        None => format!("tx{dbat_index}"),
        Some(q) => format!("rx{q}"),
    }
}

/// The queue with this name.
pub fn queue_index(name: &str) -> Option<usize> {
    (0..QUEUES).find(|index| queue_name(*index) == name)
}

/// Loads and stores by the device, or by CPUs, on the descriptors of one queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct DescriptorAccesses {
    /// Loads that touch word 0 (size, control, type).
    pub word0_loads: u64,
    /// Stores that touch word 0.
    pub word0_stores: u64,
    /// Loads of other words only.
    pub other_loads: u64,
    /// Stores of other words only.
    pub other_stores: u64,
}

impl DescriptorAccesses {
    /// Counts one access at byte `offset` of a descriptor.
    pub fn count(&mut self, offset: u64, is_write: bool) {
        let slot = match (offset < 4, is_write) {
            (true, false) => &mut self.word0_loads,
            (true, true) => &mut self.word0_stores,
            (false, false) => &mut self.other_loads,
            (false, true) => &mut self.other_stores,
        };
        *slot += 1;
    }

    fn json(&self) -> Value {
        json!({
            "word0_loads": self.word0_loads, "word0_stores": self.word0_stores,
            "other_loads": self.other_loads, "other_stores": self.other_stores,
        })
    }

    fn any(&self) -> bool {
        self.word0_loads + self.word0_stores + self.other_loads + self.other_stores != 0
    }
}

macro_rules! drops {
    ($($(#[$doc:meta])* $field:ident,)*) => {
        /// Received frames that did not reach memory, by reason.
        #[derive(Clone, Copy, Debug, Default)]
        pub struct Drops { $($(#[$doc])* pub $field: u64,)* }
        impl Drops {
            fn json(&self) -> Value { json!({ $(stringify!($field): self.$field,)* }) }
        }
    };
}

drops! {
    /// The queue in front of the wire was full (the link partner's own queue).
    backlog,
    /// No link, or MAC and link disagree about the speed.
    link,
    /// Not in OPERATION mode, receiver disabled, clock off, or frozen.
    disabled,
    /// Not addressed to this station.
    filter,
    /// Error frame while error frames are not stored.
    error,
    /// Receive FIFO full (RIS2.RFFF).
    fifo,
    /// No receive descriptor (RIS2.QFF), for the frame or for its rest.
    ring,
    /// The queue had an error (EIS.QEF).
    bus,
    /// Still in the FIFO when the device left OPERATION mode.
    stopped,
}

/// All counters of one device.
#[derive(Debug)]
pub struct Counters {
    /// Register reads by word.
    pub mmio_reads: Vec<u64>,
    /// Register writes by word.
    pub mmio_writes: Vec<u64>,
    /// Rising edges per interrupt line, the PHY's line last.
    pub irq_edges: Vec<u64>,
    /// Writes of TCCR with a transmit request.
    pub doorbells: u64,
    /// Doorbells for a queue whose request bit was still set.
    pub doorbells_redundant: u64,
    /// Frames completed while FRF or FTF of their queue was set already.
    pub frames_coalesced: u64,
    /// Frames per queue of the descriptor base table.
    pub frames: [u64; QUEUES],
    /// Bytes per queue, without FCS and checksum trailer.
    pub bytes: [u64; QUEUES],
    /// Descriptor accesses by the device, per queue.
    pub engine: [DescriptorAccesses; QUEUES],
    /// Descriptor accesses by CPUs, per queue (watch windows only).
    pub cpu: [DescriptorAccesses; QUEUES],
    /// Series of stores by CPUs to the first words of descriptors, each after stores to other
    /// words: so often, at least, the order of the two had to be made sure (watch windows only).
    pub hand_overs: [u64; QUEUES],
    /// Received frames that did not reach memory.
    pub drops: Drops,
    /// Frames sent into a dead or mismatched link.
    pub tx_lost: u64,
}

impl Counters {
    /// All zero; `lines` interrupt lines including the PHY's.
    pub fn new(lines: usize) -> Self {
        Self {
            mmio_reads: vec![0; 0x900 / 4],
            mmio_writes: vec![0; 0x900 / 4],
            irq_edges: vec![0; lines],
            doorbells: 0,
            doorbells_redundant: 0,
            frames_coalesced: 0,
            frames: [0; QUEUES],
            bytes: [0; QUEUES],
            engine: [DescriptorAccesses::default(); QUEUES],
            cpu: [DescriptorAccesses::default(); QUEUES],
            hand_overs: [0; QUEUES],
            drops: Drops::default(),
            tx_lost: 0,
        }
    }

    /// Counts one register access.
    pub fn mmio(&mut self, offset: u64, is_write: bool) {
        let table = if is_write {
            &mut self.mmio_writes
        } else {
            &mut self.mmio_reads
        };
        // What lies beyond the registers is counted together in the last word.
        let word = usize::try_from(offset / 4)
            .unwrap_or(usize::MAX)
            .min(table.len() - 1);
        table[word] += 1;
    }

    /// JSON object with everything; registers and queues that were never touched are left out.
    pub fn json(&self, regs: &RegisterFile) -> Value {
        let by_register = |table: &[u64]| -> Value {
            let used = table.iter().enumerate().filter(|(_, n)| **n != 0);
            used.map(|(word, n)| (regs.name(word as u64 * 4), (*n).into()))
                .collect::<Map<_, _>>()
                .into()
        };
        let by_queue = |table: &[DescriptorAccesses]| -> Value {
            let used = table.iter().enumerate().filter(|(_, a)| a.any());
            used.map(|(q, a)| (queue_name(q), a.json()))
                .collect::<Map<_, _>>()
                .into()
        };
        let per_queue = |table: &[u64]| -> Value {
            let used = table.iter().enumerate().filter(|(_, n)| **n != 0);
            used.map(|(q, n)| (queue_name(q), (*n).into()))
                .collect::<Map<_, _>>()
                .into()
        };
        json!({
            "mmio_reads_total": self.mmio_reads.iter().sum::<u64>(),
            "mmio_writes_total": self.mmio_writes.iter().sum::<u64>(),
            "mmio_reads": by_register(&self.mmio_reads),
            "mmio_writes": by_register(&self.mmio_writes),
            "irq_edges": self.irq_edges,
            "doorbells": self.doorbells,
            "doorbells_redundant": self.doorbells_redundant,
            "frames_coalesced": self.frames_coalesced,
            "frames": per_queue(&self.frames),
            "bytes": per_queue(&self.bytes),
            "engine_descriptors": by_queue(&self.engine),
            "cpu_descriptors": by_queue(&self.cpu),
            "cpu_hand_overs": per_queue(&self.hand_overs),
            "rx_drops": self.drops.json(),
            "tx_lost": self.tx_lost,
        })
    }
}
