// SPDX-License-Identifier: GPL-2.0

//! Safe abstractions that the `kernel` crate lacks.
//!
//! Each file wraps one C interface and is shaped so that it could become a file of
//! `rust/kernel/` on its own. All `unsafe` code of the driver lives here and in
//! [`crate::bindings`]; the files of the driver proper use only what is safe.

pub(crate) mod device;
pub(crate) mod dma;
pub(crate) mod ethtool;
pub(crate) mod irq;
pub(crate) mod mdio;
pub(crate) mod napi;
pub(crate) mod netdev;
pub(crate) mod page_pool;
pub(crate) mod phy;
pub(crate) mod platform;
pub(crate) mod pm;
mod prefetch;
pub(crate) mod qstats;
pub(crate) mod reset;
pub(crate) mod ring_index;
mod segment_sums;
pub(crate) mod segments;
pub(crate) mod skbuff;
pub(crate) mod spsc;
pub(crate) mod stats;
