// SPDX-License-Identifier: GPL-2.0
//! The receive state machine against a specification, over every sequence of parts up to a length.

use crate::ravb_desc::{Part, RxError};
use crate::ravb_frame::{Action, State, MAX_PARTS};

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

/// Does what the state machine says. `refuse` says for which inputs there is no memory.
fn obeyed(inputs: &[Input], refuse: impl Fn(usize) -> bool) -> Outcome {
    let mut outcome = Outcome::default();
    let mut state = State::default();

    for (i, &(part, error)) in inputs.iter().enumerate() {
        let step = state.step(part, error);
        if step.abort.is_some() {
            assert!(!outcome.kept.is_empty(), "abort of nothing: {inputs:?}");
            outcome.kept.clear();
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
                    outcome.kept.clear();
                    state.lose();
                } else if step.action == Action::Finish {
                    outcome.delivered.push(std::mem::take(&mut outcome.kept));
                }
            }
            Action::Drop => {}
        }
        assert_eq!(
            !outcome.kept.is_empty(),
            matches!(state, State::Partial(_)),
            "what is kept and the state disagree: {inputs:?}"
        );
    }
    outcome
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
