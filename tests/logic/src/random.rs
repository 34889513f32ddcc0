// SPDX-License-Identifier: GPL-2.0
//! Random input for what reads frames and descriptors.

use crate::ravb_desc::{empty, is_transmitted, transmit, Part, RxWord};
use crate::ravb_frame::{can_checksum, checksum_is_good};
use proptest::collection::vec;
use proptest::prelude::*;

const EMPTY: u32 = 0xc;

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        Just(Part::Single),
        Just(Part::Start),
        Just(Part::Middle),
        Just(Part::End),
    ]
}

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

/// What [`can_checksum`] promises, written from the formats of the headers.
fn is_plain_tcp_or_udp(frame: &[u8]) -> bool {
    let Some((_addresses, mut rest)) = frame.split_at_checked(12) else {
        return false;
    };
    if let [0x81, 0x00, _, _, inner @ ..] = rest {
        rest = inner;
    }
    match rest {
        [0x08, 0x00, ip @ ..] if ip.len() >= 10 => {
            let more_fragments = ip[6] & 0x20 != 0;
            let offset = u16::from_be_bytes([ip[6] & 0x1f, ip[7]]);
            !more_fragments && offset == 0 && matches!(ip[9], 6 | 17)
        }
        [0x86, 0xdd, ip @ ..] if ip.len() >= 7 => matches!(ip[6], 6 | 17),
        _ => false,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    #[test]
    fn any_bytes_are_judged(bytes in vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(can_checksum(&bytes), is_plain_tcp_or_udp(&bytes));
    }

    #[test]
    fn any_headers_are_judged(bytes in frame()) {
        prop_assert_eq!(can_checksum(&bytes), is_plain_tcp_or_udp(&bytes));
    }

    /// No frame that ends before the protocol is given to the engine.
    #[test]
    fn what_is_cut_off_is_never_taken_for_a_yes(bytes in frame(), at in 0usize..100) {
        let cut = &bytes[..at.min(bytes.len())];
        prop_assert!(!can_checksum(cut) || can_checksum(&bytes));
    }

    #[test]
    fn transmit_words_read_back(part in part(), size in 0u32..0x1000) {
        let word = transmit(part, size);
        prop_assert!(!is_transmitted(word));
        // Both directions use the same types and the same size field.
        let read = RxWord::new(word).unwrap();
        prop_assert_eq!(read.part(), Some(part));
        prop_assert_eq!(read.size(), size);
    }

    #[test]
    fn an_empty_descriptor_is_the_hardwares(size in 0u32..0x1000) {
        let word = empty(size);
        prop_assert!(RxWord::new(word).is_none());
        prop_assert_eq!(word & 0xfff, size);
        prop_assert_eq!(word >> 28, EMPTY);
    }

    /// Whatever the hardware leaves, its size fits a descriptor, and its status is read without
    /// regard to its type.
    #[test]
    fn any_word_is_read(word in any::<u32>()) {
        let Some(read) = RxWord::new(word) else {
            prop_assert_eq!(word >> 28, EMPTY);
            return Ok(());
        };
        prop_assert!(read.size() < 0x1000);
        prop_assert_eq!(read.part().is_some(), (4..=7).contains(&(word >> 28)));
        let status = read.status();
        prop_assert_eq!(status.is_multicast(), word & 1 << 23 != 0);
        let faults = word & (0x5f << 16 | 0x3 << 12);
        prop_assert_eq!(status.error().is_some(), faults != 0);
    }

    /// Good means: the payload was checked and found right, and so was the header if it was.
    #[test]
    fn a_trailer_is_good_in_two_cases_only(trailer in any::<[u8; 4]>()) {
        let good = [[0, 0, 0, 0], [0xff, 0xff, 0, 0]].contains(&trailer);
        prop_assert_eq!(checksum_is_good(trailer), good);
    }
}
