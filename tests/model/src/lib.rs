// SPDX-License-Identifier: GPL-2.0
//! Behavioural model of the Renesas Ethernet AVB family: GbEth (RZ/G2L and relatives) and EtherAVB
//! (R-Car Gen2 to Gen4, RZ/V2M).
//!
//! Nobody here has the board: the model is written from a compilation of public facts, each with
//! its source, and the upstream C driver is its acceptance test. Where sources disagree or are
//! silent, the behaviour is a [property](properties). A model cannot prove that a driver works on
//! hardware; it proves that the driver keeps the rules we know of, and what it costs.
//!
//! The model needs a [`Host`]: virtual time, memory, interrupt lines, a wire. Under QEMU that is
//! the C glue in `tests/qemu` (through [`ffi`]), in tests it is [`testing::Machine`].
//!
//! | module | what it holds |
//! |---|---|
//! | [`regs`] | the register table |
//! | `modes` | operating modes, clock and reset |
//! | [`dmac`] | descriptor engine, transmit and receive |
//! | `gptp` | gPTP timer and timestamps |
//! | [`variant`] | how the members of the family differ |
//! | [`emac`] | address filter, lengths, checksum trailers, pins |
//! | [`toe`] | checksum arithmetic |
//! | [`phy`] | management bus and PHY |
//! | `irq` | interrupt lines |
//! | [`cpg`] | the clock generator the device hangs on |
//! | [`rules`], [`counters`], `record` | what a driver does wrong, what it costs, in which order |
//! | `control`, `partner` | control page, by which a guest drives a measurement; its TCP peer |
//! | `faults`, `inject`, `watch` | misbehaviour and frames on demand, watch windows |
//! | `hostile` | a device that lies at random |
//! | [`properties`] | everything that can be set or read by name |
#![deny(unsafe_code)]

mod control;
pub mod counters;
pub mod cpg;
pub mod dmac;
pub mod emac;
mod faults;
pub mod ffi;
mod gptp;
mod host;
mod hostile;
mod inject;
mod irq;
mod model;
mod modes;
mod partner;
pub mod phy;
pub mod properties;
mod record;
pub mod regs;
pub mod rules;
pub mod testing;
pub mod toe;
pub mod variant;
mod watch;

pub use host::{BusError, Host, NoHost};
pub use model::Model;
pub use modes::Mode;
