// SPDX-License-Identifier: GPL-2.0
//! What the network stack asks for.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ravb_fuzz::arguments(data));
