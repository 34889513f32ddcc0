// SPDX-License-Identifier: GPL-2.0
//! What the ring may hold.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ravb_fuzz::receive(data));
