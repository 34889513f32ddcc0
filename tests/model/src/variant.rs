// SPDX-License-Identifier: GPL-2.0
//! How the members of the family differ: one table entry per generation.
//!
//! Everything that depends on the generation is either a field of [`Variant`] or the set of
//! variants in which a register of [`crate::regs::TABLE`] exists.

/// A set of variants, one bit each; tells in which of them a register exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VariantSet(u8);

impl VariantSet {
    /// R-Car Gen2.
    pub const GEN2: Self = Self(1 << 0);
    /// R-Car Gen3.
    pub const GEN3: Self = Self(1 << 1);
    /// R-Car Gen4.
    pub const GEN4: Self = Self(1 << 2);
    /// RZ/V2M.
    pub const RZV2M: Self = Self(1 << 3);
    /// RZ/G2L family.
    pub const GBETH: Self = Self(1 << 4);
    /// Every EtherAVB: with gPTP and several queues.
    pub const ETHERAVB: Self = Self(0x0f);
    /// The EtherAVB variants that keep more than one interrupt line.
    pub const MULTI_IRQ: Self = Self(0x0e);
    /// Gen3 and Gen4.
    pub const GEN3_GEN4: Self = Self(0x06);
    /// The EtherAVB variants without GAC.
    pub const GEN2_RZV2M: Self = Self(0x09);
    /// Everything but Gen2.
    pub const NOT_GEN2: Self = Self(0x1e);
    /// The whole family.
    pub const ALL: Self = Self(0x1f);

    /// True if both sets share a variant.
    pub const fn intersects(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

/// What the device does to its state when its clock stops (K-ml).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockOff {
    /// Falls back to RESET mode, registers at reset values.
    Reset,
    /// Reports STANDBY and keeps its registers.
    Standby,
    /// Keeps mode and registers (RZ/G3S).
    Keep,
}

/// How interrupt causes reach lines (reference section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// One line for everything.
    Single,
    /// A line per queue, one for descriptor interrupts, errors and management, each with its
    /// second half, and one for the E-MAC (Gen3, Gen4).
    PerQueue,
    /// As before, but descriptor interrupts, errors and management have lines of their own
    /// (RZ/V2M).
    PerQueueSplit,
}

/// One generation of the device.
#[derive(Debug)]
pub struct Variant {
    /// Value of the property `variant`.
    pub name: &'static str,
    /// Membership bit used by the register table.
    pub set: VariantSet,
    /// Size of the register window in bytes (K-dt).
    pub window: u64,
    /// MAC interrupt lines as the binding lists them (K-dt).
    pub irqs: usize,
    /// How causes are routed to them.
    pub lines: Lines,
    /// TX queues of the IP; DBAT entries `0..tx_queues`.
    pub tx_queues: usize,
    /// RX queues of the IP; DBAT entries `4..4 + rx_queues`.
    pub rx_queues: usize,
    /// TX buffers must be 4-byte aligned (K-drv).
    pub tx_aligned: bool,
    /// Longest frame, without FCS, the transmitter takes.
    pub tx_limit: u32,
    /// A frame over the limit freezes the device instead of raising QEF (K-ml).
    pub tx_limit_freezes: bool,
    /// Has the checksum engine TOE (K-drv).
    pub toe: bool,
    /// Error frames may reach memory (RCR.EFFS exists, K-ml).
    pub error_frames: bool,
    /// Mask of RTC.MFL0.
    pub mfl_mask: u32,
    /// GECMR values for 10, 100 and 1000 Mbit/s; `None` where the speed does not exist (K-drv).
    pub gecmr: [Option<u32>; 3],
    /// CCC.GAC exists: the gPTP timer can run in CONFIG, and GAC and CSEL are taken over only
    /// together with a change of mode (K-drv).
    pub gac: bool,
    /// Has the gPTP timer, timestamps and extended receive descriptors.
    pub gptp: bool,
    /// Rate of the gPTP timer's clock in Hz, as the device trees of this project have it.
    pub gptp_clock: u64,
    /// What a stopped clock does.
    pub clock_off: ClockOff,
}

const fn etheravb(name: &'static str, set: VariantSet) -> Variant {
    Variant {
        name,
        set,
        window: 0x800,
        irqs: 25,
        lines: Lines::PerQueue,
        tx_queues: MAX_TX_QUEUES,
        rx_queues: MAX_RX_QUEUES,
        tx_aligned: false,
        tx_limit: 2047,
        tx_limit_freezes: false,
        toe: false,
        error_frames: true,
        mfl_mask: 0xfff,
        gecmr: [None, Some(0), Some(1)],
        gac: false,
        gptp: true,
        gptp_clock: 200_000_000,
        clock_off: ClockOff::Reset,
    }
}

/// R-Car Gen2.
pub static GEN2: Variant = Variant {
    irqs: 1,
    lines: Lines::Single,
    tx_aligned: true,
    ..etheravb("gen2", VariantSet::GEN2)
};

/// R-Car Gen3.
pub static GEN3: Variant = Variant {
    gac: true,
    clock_off: ClockOff::Standby,
    ..etheravb("gen3", VariantSet::GEN3)
};

/// R-Car Gen4.
pub static GEN4: Variant = Variant {
    window: 0x1000,
    gac: true,
    clock_off: ClockOff::Standby,
    ..etheravb("gen4", VariantSet::GEN4)
};

/// RZ/V2M.
pub static RZV2M: Variant = Variant {
    irqs: 29,
    lines: Lines::PerQueueSplit,
    gptp_clock: 250_000_000,
    ..etheravb("rzv2m", VariantSet::RZV2M)
};

/// RZ/G2L, G2UL, G3S, V2L, Five.
pub static GBETH: Variant = Variant {
    name: "gbeth",
    set: VariantSet::GBETH,
    window: 0x1_0000,
    irqs: 3,
    lines: Lines::Single,
    tx_queues: 1,
    rx_queues: 1,
    tx_aligned: true,
    tx_limit: 1900,
    tx_limit_freezes: true,
    toe: true,
    error_frames: false,
    mfl_mask: 0x7fff,
    gecmr: [Some(0x00), Some(0x10), Some(0x20)],
    gac: false,
    gptp: false,
    gptp_clock: 0,
    clock_off: ClockOff::Reset,
};

/// Every variant the model knows.
pub static VARIANTS: &[&Variant] = &[&GBETH, &GEN2, &GEN3, &GEN4, &RZV2M];

/// First RX entry of the descriptor base address table (K-drv, K-uboot).
pub const RX_QUEUE_OFFSET: usize = 4;
/// TX queues the largest variant has.
pub const MAX_TX_QUEUES: usize = 4;
/// RX queues the largest variant has.
pub const MAX_RX_QUEUES: usize = 18;
