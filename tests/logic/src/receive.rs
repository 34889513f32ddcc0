// SPDX-License-Identifier: GPL-2.0
//! The receive state machine against a specification, over every sequence of parts up to a length.

use crate::ravb_desc::{Part, RxError, RxWord};
use crate::ravb_frame::{Action, State, MAX_PARTS};
use proptest::collection::vec;
use proptest::prelude::*;

/// What the ring holds next: a part, or nothing that makes sense, and what the hardware says of it.
type Input = (Option<Part>, Option<RxError>);

const PARTS: [Option<Part>; 5] = [
    Some(Part::Single),
    Some(Part::Start),
    Some(Part::Middle),
    Some(Part::End),
    None,
];

/// The longest sequence that is tried.
const LONGEST: usize = 6;

/// Frames, each by the indices of its parts.
type Frames = Vec<Vec<usize>>;

/// What became of a sequence.
#[derive(PartialEq, Eq, Debug, Default)]
struct Outcome {
    /// Frames that were passed up, whole.
    delivered: Frames,
    /// How many frames were counted as lost.
    lost: usize,
    /// Parts that are kept for a frame whose end has not come.
    kept: Vec<usize>,
}

/// The specification. It cuts the sequence into frames first, and judges each by itself: a frame
/// ends with a `Single` or `End`, or where the next one begins with a `Single` or `Start`.
fn specified(inputs: &[Input]) -> Outcome {
    let mut frames: Frames = Vec::new();
    let mut open = false;
    for (i, (part, _)) in inputs.iter().enumerate() {
        let begins = matches!(part, Some(Part::Single | Part::Start));
        match frames.last_mut() {
            Some(frame) if open && !begins => frame.push(i),
            _ => frames.push(vec![i]),
        }
        open = !matches!(part, Some(Part::Single | Part::End));
    }

    let mut outcome = Outcome::default();
    let count = frames.len();
    for (n, frame) in frames.into_iter().enumerate() {
        let part = |place: usize| inputs[frame[place]].0;
        let last = frame.len() - 1;
        let good = inputs[frame[last]].1.is_none();
        let fits = frame.len() <= MAX_PARTS as usize;
        let middles = |to: usize| (1..to).all(|place| part(place) == Some(Part::Middle));

        if part(0) == Some(Part::Start) && middles(last + 1) && fits && n + 1 == count {
            outcome.kept = frame;
            continue;
        }
        let whole = match part(0) {
            Some(Part::Single) => true,
            Some(Part::Start) => last > 0 && middles(last) && part(last) == Some(Part::End),
            _ => false,
        };
        if whole && good && fits {
            outcome.delivered.push(frame);
        } else {
            outcome.lost += 1;
        }
    }
    outcome
}

/// Does what the state machine says. `refuse` says for which inputs there is no memory. Every
/// buffer is accounted for: it is in a frame, or its slot has it again.
fn obeyed(inputs: &[Input], refuse: impl Fn(usize) -> bool) -> Outcome {
    let mut outcome = Outcome::default();
    let mut state = State::default();
    let mut returned = Vec::new();

    for (i, &(part, error)) in inputs.iter().enumerate() {
        let step = state.step(part, error);
        if step.abort.is_some() {
            assert!(!outcome.kept.is_empty(), "abort of nothing: {inputs:?}");
            returned.append(&mut outcome.kept);
            outcome.lost += 1;
        }
        if step.error.is_some() {
            outcome.lost += 1;
        }
        let refused = refuse(i);
        match step.action {
            Action::Deliver | Action::Begin => {
                assert!(outcome.kept.is_empty(), "two frames at once: {inputs:?}");
                if refused {
                    returned.push(i);
                    outcome.lost += 1;
                    state.lose();
                } else if step.action == Action::Deliver {
                    outcome.delivered.push(vec![i]);
                } else {
                    outcome.kept.push(i);
                }
            }
            Action::Append | Action::Finish => {
                assert!(!outcome.kept.is_empty(), "append to nothing: {inputs:?}");
                outcome.kept.push(i);
                if refused {
                    outcome.lost += 1;
                    returned.append(&mut outcome.kept);
                    state.lose();
                } else if step.action == Action::Finish {
                    outcome.delivered.push(std::mem::take(&mut outcome.kept));
                }
            }
            Action::Drop => returned.push(i),
        }
        assert_eq!(
            !outcome.kept.is_empty(),
            matches!(state, State::Partial(_)),
            "what is kept and the state disagree: {inputs:?}"
        );
    }
    let frames = outcome.delivered.iter().flatten().chain(&outcome.kept);
    let mut buffers: Vec<usize> = frames.chain(&returned).copied().collect();
    buffers.sort_unstable();
    assert!(
        buffers.iter().copied().eq(0..inputs.len()),
        "buffers are lost, or used twice: {inputs:?}"
    );
    outcome
}

/// How much a slot takes.
const CAPACITY: u32 = 1664;

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

/// What the driver's poll makes of a word.
fn input(word: u32) -> Input {
    let word = RxWord::new(word).expect("the hardware has left it");
    let makes_sense = (1..=CAPACITY).contains(&word.size());
    (word.part().filter(|_| makes_sense), word.error())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// Rings of whatever the hardware may leave in them, with memory that runs out at any place:
    /// what can be delivered is, each loss is counted once, and no buffer is lost.
    #[test]
    fn whatever_is_in_the_ring(slots in vec((word(), prop::bool::weighted(0.1)), 0..200)) {
        let inputs: Vec<Input> = slots.iter().map(|&(word, _)| input(word)).collect();
        let refuse = |i: usize| slots[i].1;
        let refused_in = |frame: &Vec<usize>| frame.iter().any(|&i| refuse(i));
        let calm = specified(&inputs);
        let outcome = obeyed(&inputs, refuse);

        let (hit, expected): (Frames, Frames) =
            calm.delivered.into_iter().partition(|frame| refused_in(frame));
        prop_assert_eq!(outcome.delivered, expected);
        let kept_hit = usize::from(refused_in(&calm.kept));
        prop_assert_eq!(outcome.lost, calm.lost + hit.len() + kept_hit);
        let kept = if kept_hit == 0 { calm.kept } else { Vec::new() };
        prop_assert_eq!(outcome.kept, kept);
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
