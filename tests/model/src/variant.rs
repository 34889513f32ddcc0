// SPDX-License-Identifier: GPL-2.0
//! How the members of the family differ: one table entry per generation.
//!
//! Everything that depends on the generation is either a field of [`Variant`] or the set of
//! variants in which a register of [`crate::regs::TABLE`] exists.

/// A set of variants, one bit each; tells in which of them a register exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VariantSet(u8);

impl VariantSet {
    /// RZ/G2L family (`renesas,rzg2l-gbeth`).
    pub const GBETH: Self = Self(1 << 4);
    /// Every R-Car generation and RZ/V2M.
    pub const ETHERAVB: Self = Self(0x0f);
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
    /// What a stopped clock does.
    pub clock_off: ClockOff,
}

/// RZ/G2L, G2UL, G3S, V2L, Five.
pub static GBETH: Variant = Variant {
    name: "gbeth",
    set: VariantSet::GBETH,
    window: 0x1_0000,
    irqs: 3,
    tx_queues: 1,
    rx_queues: 1,
    tx_aligned: true,
    tx_limit: 1900,
    tx_limit_freezes: true,
    toe: true,
    error_frames: false,
    mfl_mask: 0x7fff,
    gecmr: [Some(0x00), Some(0x10), Some(0x20)],
    clock_off: ClockOff::Reset,
};

/// Every variant the model knows.
pub static VARIANTS: &[&Variant] = &[&GBETH];

/// First RX entry of the descriptor base address table (K-drv, K-uboot).
pub const RX_QUEUE_OFFSET: usize = 4;
/// TX queues the largest variant has.
pub const MAX_TX_QUEUES: usize = 4;
/// RX queues the largest variant has.
pub const MAX_RX_QUEUES: usize = 18;
