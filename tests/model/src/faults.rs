// SPDX-License-Identifier: GPL-2.0
//! Misbehaviour on purpose (reference section 12). Every field is a property that may be set
//! while the machine runs.

use crate::emac::LinkPin;

/// Faults in force.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    /// Reads of CSR before a mode change takes effect.
    pub(crate) mode_change_delay: u32,
    /// The frame on the wire never ends: TPO and TSRQ stay set.
    pub(crate) tx_hold: bool,
    /// Nothing leaves the receive FIFO: RPO stays set.
    pub(crate) rx_hold: bool,
    /// CSR0.TPE and CSR0.RPE never read 0.
    pub(crate) toe_stuck: bool,
    /// The first MAC line is high with no status bit set, even with the clock off.
    pub(crate) spurious_irq: bool,
    /// What the AVB_LINK pin shows.
    pub(crate) link_pin: LinkPin,
    /// A doorbell returns after the frames have been sent.
    pub(crate) tx_at_once: bool,
    /// Time from the end of a frame to its first write-back.
    pub(crate) tx_completion_ns: u64,
    /// Time between the write-backs of the parts of one frame.
    pub(crate) tx_part_ns: u64,
    /// Time between the parts of one received frame.
    pub(crate) rx_part_ns: u64,
    /// Requests in GCCR are never performed.
    pub(crate) gccr_stuck: bool,
    /// One transmit timestamp in so many is lost; 0 for none.
    pub(crate) drop_timestamp_every: u32,
    /// Time from the end of a sent frame to its timestamp.
    pub(crate) tx_timestamp_ns: u64,
    /// In half duplex every so manieth frame collides once; 0 for none.
    pub(crate) collide_every: u32,
}
