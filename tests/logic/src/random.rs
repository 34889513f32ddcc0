// SPDX-License-Identifier: GPL-2.0
//! Random input for what reads frames and descriptors.

use crate::ravb_frame::{can_checksum, checksum_is_good};
use crate::specification::{check_frame, check_word};
use proptest::collection::vec;
use proptest::prelude::*;

/// A frame whose headers mean something more often than random bytes do.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let ethertype = prop_oneof![
        Just(0x0800u16),
        Just(0x86dd),
        Just(0x8100),
        Just(0x88a8),
        any::<u16>(),
    ];
    (vec(ethertype, 3), vec(any::<u8>(), 0..100)).prop_map(|(types, mut bytes)| {
        for (n, ethertype) in types.into_iter().enumerate() {
            let at = 12 + 4 * n;
            if let Some(place) = bytes.get_mut(at..at + 2) {
                place.copy_from_slice(&ethertype.to_be_bytes());
            }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn any_bytes_are_judged(bytes in vec(any::<u8>(), 0..200)) {
        check_frame(&bytes);
    }

    #[test]
    fn any_headers_are_judged(bytes in frame()) {
        check_frame(&bytes);
    }

    /// No frame that ends before the protocol is given to the engine.
    #[test]
    fn what_is_cut_off_is_never_taken_for_a_yes(bytes in frame(), at in 0usize..100) {
        let cut = &bytes[..at.min(bytes.len())];
        prop_assert!(!can_checksum(cut) || can_checksum(&bytes));
    }

    /// Whatever the hardware leaves.
    #[test]
    fn any_word_is_read(word in any::<u32>()) {
        check_word(word);
    }

    /// Good means: the payload was checked and found right, and so was the header if it was.
    #[test]
    fn a_trailer_is_good_in_two_cases_only(trailer in any::<[u8; 4]>()) {
        let good = [[0, 0, 0, 0], [0xff, 0xff, 0, 0]].contains(&trailer);
        prop_assert_eq!(checksum_is_good(trailer), good);
    }
}
