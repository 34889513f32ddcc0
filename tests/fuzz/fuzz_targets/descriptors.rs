// SPDX-License-Identifier: GPL-2.0
//! What descriptors say.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| ravb_fuzz::descriptors(data));
