// SPDX-License-Identifier: GPL-2.0
//! Tests, on the host, of the logic of ravb_rs that needs no kernel.
//!
//! The driver's own files are compiled here as they are, for tests only: each brings the tests
//! that KUnit also runs in the kernel. The modules beside them add what only a host has the time
//! and the tools for: every sequence up to a length, and random input.

#[cfg(test)]
// What only the rings use.
#[allow(dead_code)]
#[path = "../../../ravb_desc.rs"]
mod ravb_desc;

#[cfg(test)]
#[path = "../../../ravb_frame.rs"]
mod ravb_frame;

#[cfg(test)]
#[path = "../../../net/segment_sums.rs"]
mod segment_sums;

#[cfg(test)]
mod specification;

#[cfg(test)]
mod receive;

#[cfg(test)]
mod checksum;

#[cfg(test)]
mod random;

#[cfg(test)]
#[path = "../../../net/ring_index.rs"]
mod ring_index;

#[cfg(test)]
mod interleaving;
