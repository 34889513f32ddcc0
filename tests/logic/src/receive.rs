// SPDX-License-Identifier: GPL-2.0
//! The receive state machine against a specification, over every sequence of parts up to a length.

use crate::ravb_desc::{Part, RxError};
use crate::ravb_frame::MAX_PARTS;
use crate::specification::{check_ring, obeyed, specified, Input, CAPACITY};
use proptest::collection::vec;
use proptest::prelude::*;

const PARTS: [Option<Part>; 5] = [
    Some(Part::Single),
    Some(Part::Start),
    Some(Part::Middle),
    Some(Part::End),
    None,
];

/// The longest sequence that is tried.
const LONGEST: usize = 6;

/// The first word of a descriptor that the hardware has left: any type but "empty", with a length
/// that may be none, or more than there is room for, whole, truncated, or cut off by the end of the
/// ring, and whatever the MAC says of it, which is nothing most of the time.
fn word() -> impl Strategy<Value = u32> {
    let kind = prop_oneof![4 => 4u32..=7, 1 => (0u32..15).prop_map(|n| (n + 13) % 16)];
    let size = prop_oneof![
        6 => 1..=CAPACITY,
        1 => Just(0),
        1 => CAPACITY + 1..0x1000,
    ];
    let flags = prop_oneof![8 => Just(0u32), 1 => Just(1), 1 => Just(2), 1 => Just(3)];
    let status = prop_oneof![8 => Just(0u32), 1 => Just(0x80), 2 => 0u32..0x100];
    (kind, size, flags, status)
        .prop_map(|(kind, size, flags, status)| kind << 28 | status << 16 | flags << 12 | size)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// Rings of whatever the hardware may leave in them, with memory that runs out at any place:
    /// what can be delivered is, each loss is counted once, and no buffer is lost.
    #[test]
    fn whatever_is_in_the_ring(slots in vec((word(), prop::bool::weighted(0.1)), 0..200)) {
        check_ring(&slots);
    }
}

/// Calls `check` with every sequence of up to `longest` inputs.
fn for_all(longest: usize, mut check: impl FnMut(&[Input])) -> usize {
    let alphabet: Vec<Input> = PARTS
        .iter()
        .flat_map(|&part| [(part, None), (part, Some(RxError::Crc))])
        .collect();
    let mut count = 0;
    for length in 0..=longest {
        let mut digits = vec![0; length];
        loop {
            let inputs: Vec<Input> = digits.iter().map(|&digit| alphabet[digit]).collect();
            check(&inputs);
            count += 1;
            let Some(place) = digits.iter().rposition(|&digit| digit + 1 < alphabet.len()) else {
                break;
            };
            digits[place] += 1;
            digits[place + 1..].fill(0);
        }
    }
    count
}

#[test]
fn every_sequence_has_the_specified_outcome() {
    let count = for_all(LONGEST, |inputs| {
        assert_eq!(obeyed(inputs, |_| false), specified(inputs), "{inputs:?}");
    });
    assert_eq!(count, 1_111_111);
}

/// What is lost for want of memory is counted once, and takes nothing else with it.
#[test]
fn a_refusal_costs_one_frame() {
    for_all(4, |inputs| {
        let calm = specified(inputs);
        for refused in 0..inputs.len() {
            let outcome = obeyed(inputs, |i| i == refused);
            // A refusal hits a frame that would be delivered, one that is lost anyway (and may
            // then be counted for either reason), or one whose end has not come.
            let mut expected = calm.delivered.clone();
            expected.retain(|frame| !frame.contains(&refused));
            assert_eq!(outcome.delivered, expected, "{inputs:?} without {refused}");
            let hit =
                calm.delivered.len() - expected.len() + usize::from(calm.kept.contains(&refused));
            assert_eq!(
                outcome.lost,
                calm.lost + hit,
                "{inputs:?} without {refused}"
            );
        }
    });
}

/// The bound on the number of parts lies beyond the length of the exhaustive test.
#[test]
fn frames_of_every_number_of_parts() {
    for middles in 0..2 * MAX_PARTS as usize {
        let mut inputs = vec![(Some(Part::Start), None)];
        inputs.resize(1 + middles, (Some(Part::Middle), None));
        inputs.push((Some(Part::End), None));
        inputs.push((Some(Part::Single), None));
        let outcome = obeyed(&inputs, |_| false);
        assert_eq!(
            outcome,
            specified(&inputs),
            "{middles} between start and end"
        );
        let fits = middles + 2 <= MAX_PARTS as usize;
        assert_eq!(outcome.delivered.len(), if fits { 2 } else { 1 });
    }
}

/// A machine that counts twice, or delivers what it should not, does not pass.
#[test]
fn the_specification_tells_right_from_wrong() {
    let start = (Some(Part::Start), None);
    let end = (Some(Part::End), None);
    let bad_end = (Some(Part::End), Some(RxError::Crc));

    assert_eq!(specified(&[start, end]).delivered, [[0, 1]]);
    assert_eq!(specified(&[start, bad_end]).lost, 1);
    assert_eq!(specified(&[end, end]).lost, 2);
    assert_eq!(specified(&[(None, None), (None, None), end]).lost, 1);
    assert_eq!(specified(&[start, start]).kept, [1]);
    assert_eq!(specified(&[start, (None, None), start, end]).lost, 1);
}
