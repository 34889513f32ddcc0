// SPDX-License-Identifier: GPL-2.0
//! Targets to fuzz the logic of ravb_rs that needs no kernel, guided by coverage.
//!
//! The driver's own files are compiled here as they are, and instrumented. A target makes a case of
//! any bytes and checks what the driver makes of it, by what `tests/logic` knows or by the device
//! model. Its corpus is in `corpus`, under its name.
//!
//! `Documentation/testing.rst` says how to run them.

use std::ffi::c_int;

// What only the rings use.
#[allow(dead_code)]
#[path = "../../../ravb_desc.rs"]
mod ravb_desc;

// What only reception uses.
#[allow(dead_code)]
#[path = "../../../ravb_frame.rs"]
mod ravb_frame;

#[path = "../../../net/segment_sums.rs"]
mod segment_sums;

#[path = "../../logic/src/specification.rs"]
mod specification;

#[path = "../../model/tests/common/mod.rs"]
mod machine;

mod descriptors;

pub use descriptors::descriptors;
use ravb_desc::RxWord;

/// The words that the bytes are, four each.
fn words(data: &[u8]) -> impl Iterator<Item = u32> + '_ {
    data.chunks_exact(4).map(|word| {
        word.iter()
            .rev()
            .fold(0, |word, &byte| word << 8 | u32::from(byte))
    })
}

/// The receive state machine, for whatever may be in the ring.
///
/// Four bytes are the first word of a descriptor. The number of an interrupt in it, which the
/// driver does not look at, says here whether there is memory: there is none if it is 15.
pub fn receive(data: &[u8]) {
    let slots: Vec<(u32, bool)> = words(data)
        // The poll waits at one that is the hardware's.
        .filter(|&word| RxWord::new(word).is_some())
        .map(|word| (word, word >> 24 & 0xf == 0xf))
        .collect();
    specification::check_ring(&slots);
}

/// What the driver looks at in frames that the network stack gives it: whether the engine computes
/// their checksums, and the headers of segments. The bytes are a frame.
pub fn arguments(data: &[u8]) {
    specification::check_frame(data);
}

/// What libFuzzer calls, by another name for each target: the lab makes a program of each.
macro_rules! entry {
    ($name:ident, $target:path) => {
        /// Runs one case. A failure ends the program.
        ///
        /// # Safety
        ///
        /// There are `size` bytes at `data`.
        #[no_mangle]
        pub unsafe extern "C" fn $name(data: *const u8, size: usize) -> c_int {
            // SAFETY: As the caller promises.
            $target(unsafe { std::slice::from_raw_parts(data, size) });
            0
        }
    };
}

entry!(fuzz_receive, receive);
entry!(fuzz_descriptors, descriptors);
entry!(fuzz_arguments, arguments);
