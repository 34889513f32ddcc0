// SPDX-License-Identifier: GPL-2.0

//! Received frames that come in parts, and what the checksum engine says of them.
//!
//! The state machine decides what becomes of each part; [`crate::ravb_rx`] does it. It relies on
//! nothing that the hardware promises: any sequence of parts leads to frames that are delivered
//! whole, or dropped and counted once.
//!
//! This file knows nothing of the kernel; it is tested on the host and by KUnit alike.

use super::ravb_desc::{
    Part,
    RxError, //
};

/// The most parts that a frame may have, the first included. A socket buffer has room for 16
/// fragments beside its head in the smallest configuration.
pub(crate) const MAX_PARTS: u32 = 16;

/// Where the reception of a frame stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum State {
    /// Between frames.
    #[default]
    Idle,
    /// This many parts of a frame have come.
    Partial(u32),
    /// The rest of a frame that is lost is still coming.
    Skipping,
}

/// What becomes of a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// It is a whole frame: pass it up.
    Deliver,
    /// It begins a frame: keep it.
    Begin,
    /// It belongs to the frame that was begun: append it.
    Append,
    /// It is the last of the frame that was begun: append it and pass the frame up.
    Finish,
    /// It is of no use: drop it.
    Drop,
}

/// The answer to a part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Step {
    /// The frame that was begun is lost, for this reason: drop it, before anything else.
    pub(crate) abort: Option<RxError>,
    /// What becomes of the part itself.
    pub(crate) action: Action,
    /// The frame that the part is all there is of is lost, for this reason.
    pub(crate) error: Option<RxError>,
}

impl State {
    /// Takes the next part.
    ///
    /// `part` is `None` for a descriptor that holds nothing that makes sense; `error` is what the
    /// hardware says of the frame, and counts where the frame ends.
    ///
    /// Each frame that is lost is mentioned once, as [`Step::abort`] or as [`Step::error`].
    #[inline(always)]
    pub(crate) fn step(&mut self, part: Option<Part>, error: Option<RxError>) -> Step {
        // What frames of several parts are made of while nothing is wrong.
        let (next, action) = match (*self, part) {
            (Self::Idle, Some(Part::Start)) => (Self::Partial(1), Action::Begin),
            (Self::Partial(parts), Some(Part::Middle)) if parts < MAX_PARTS => {
                (Self::Partial(parts + 1), Action::Append)
            }
            (Self::Partial(parts), Some(Part::End)) if parts < MAX_PARTS && error.is_none() => {
                (Self::Idle, Action::Finish)
            }
            _ => return self.step_otherwise(part, error),
        };
        *self = next;
        Step {
            abort: None,
            action,
            error: None,
        }
    }

    /// The other transitions.
    #[cold]
    fn step_otherwise(&mut self, part: Option<Part>, error: Option<RxError>) -> Step {
        let before = *self;
        let begun = matches!(before, Self::Partial(_));
        let deliver = |error: Option<RxError>| match error {
            None => Action::Deliver,
            Some(_) => Action::Drop,
        };

        let (next, abort, action, error) = match (before, part) {
            (_, Some(Part::Single)) => (
                Self::Idle,
                // The frame that was begun never ended; this one is as good as any.
                begun.then_some(RxError::Incomplete),
                deliver(error),
                error,
            ),
            (_, Some(Part::Start)) => (
                Self::Partial(1),
                begun.then_some(RxError::Incomplete),
                Action::Begin,
                None,
            ),
            // Too many parts, or a bad frame.
            (Self::Partial(_), Some(Part::Middle)) => {
                (Self::Skipping, Some(RxError::Length), Action::Drop, None)
            }
            (Self::Partial(_), Some(Part::End)) => {
                let reason = error.unwrap_or(RxError::Length);
                (Self::Idle, Some(reason), Action::Drop, None)
            }
            (Self::Partial(_), None) => (
                Self::Skipping,
                Some(RxError::Incomplete),
                Action::Drop,
                None,
            ),
            // The beginning is missing.
            (Self::Idle, Some(Part::Middle) | None) => (
                Self::Skipping,
                None,
                Action::Drop,
                Some(RxError::Incomplete),
            ),
            (Self::Idle, Some(Part::End)) => {
                (Self::Idle, None, Action::Drop, Some(RxError::Incomplete))
            }
            // Mentioned already.
            (Self::Skipping, Some(Part::Middle) | None) => {
                (Self::Skipping, None, Action::Drop, None)
            }
            (Self::Skipping, Some(Part::End)) => (Self::Idle, None, Action::Drop, None),
        };
        *self = next;
        Step {
            abort,
            action,
            error,
        }
    }

    /// The part that was to be kept or appended is lost, for want of memory for instance: so is
    /// its frame.
    pub(crate) fn lose(&mut self) {
        *self = match *self {
            Self::Partial(_) => Self::Skipping,
            other => other,
        };
    }
}

/// How many bytes the checksum engine of GbEth appends to a frame.
pub(crate) const VERDICTS_LEN: usize = 4;

/// Whether the trailer says that the checksum of TCP, UDP or ICMP is right.
///
/// The first half is about the IPv4 header: 0 is right, 0xffff is not checked, which an IPv6 frame
/// always has. The second half is about the payload: 0 is right, 0xffff is not checked, anything
/// else is wrong.
pub(crate) const fn checksum_is_good(trailer: [u8; VERDICTS_LEN]) -> bool {
    matches!(u32::from_le_bytes(trailer), 0 | 0xffff)
}

/// Whether the checksum engine of GbEth computes the checksum of a frame that is sent.
///
/// It knows TCP and UDP over IPv4 and IPv6, behind at most one 802.1Q tag, but neither fragments
/// nor IPv6 extension headers.
pub(crate) fn can_checksum(frame: &[u8]) -> bool {
    const TYPE: usize = 12;
    const TAG_LEN: usize = 4;
    const TCP: u8 = 6;
    const UDP: u8 = 17;

    let at = |offset: usize| frame.get(offset).copied();
    let word = |offset: usize| Some(u16::from_be_bytes([at(offset)?, at(offset + 1)?]));
    let network = if word(TYPE) == Some(0x8100) {
        TYPE + TAG_LEN
    } else {
        TYPE
    };
    let header = network + 2;
    let protocol = match word(network) {
        Some(0x0800) => {
            let is_fragment = word(header + 6).is_none_or(|flags| flags & 0x3fff != 0);
            if is_fragment {
                None
            } else {
                at(header + 9)
            }
        }
        Some(0x86dd) => at(header + 6),
        _ => None,
    };
    matches!(protocol, Some(TCP | UDP))
}

#[cfg(any(test, CONFIG_KUNIT))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(ravb_rs_frame))]
#[cfg_attr(test, allow(unused_imports))]
mod tests {
    use super::*;

    const GOOD: Option<RxError> = None;
    const BAD: Option<RxError> = Some(RxError::Crc);

    /// Runs a sequence of parts; counts frames that are delivered, frames that are counted as
    /// lost, and parts that are still kept, and checks that actions fit what was done before.
    fn run(parts: &[(Option<Part>, Option<RxError>)]) -> (u32, u32, bool) {
        let mut state = State::default();
        let mut begun = false;
        let mut delivered = 0;
        let mut lost = 0;

        for (part, error) in parts {
            let step = state.step(*part, *error);
            if step.abort.is_some() {
                assert!(begun);
                begun = false;
                lost += 1;
            }
            match step.action {
                Action::Deliver => {
                    assert!(!begun);
                    delivered += 1;
                }
                Action::Begin => {
                    assert!(!begun);
                    begun = true;
                }
                Action::Append => assert!(begun),
                Action::Finish => {
                    assert!(begun);
                    begun = false;
                    delivered += 1;
                }
                Action::Drop => {}
            }
            if step.error.is_some() {
                lost += 1;
            }
            assert_eq!(begun, matches!(state, State::Partial(_)));
        }
        (delivered, lost, begun)
    }

    #[test]
    fn whole_frames_are_delivered() {
        let single = (Some(Part::Single), GOOD);
        let start = (Some(Part::Start), GOOD);
        let middle = (Some(Part::Middle), GOOD);
        let end = (Some(Part::End), GOOD);

        assert_eq!(run(&[single, single]), (2, 0, false));
        assert_eq!(run(&[start, end]), (1, 0, false));
        assert_eq!(run(&[start, middle, middle, end, single]), (2, 0, false));
        assert_eq!(run(&[start, middle]), (0, 0, true));
    }

    #[test]
    fn bad_frames_are_dropped_and_counted_once() {
        let start = (Some(Part::Start), GOOD);
        let middle = (Some(Part::Middle), GOOD);

        assert_eq!(run(&[(Some(Part::Single), BAD)]), (0, 1, false));
        assert_eq!(run(&[start, (Some(Part::End), BAD)]), (0, 1, false));
        // An error in a part that does not end the frame means nothing yet.
        assert_eq!(
            run(&[(Some(Part::Start), BAD), (Some(Part::End), GOOD)]),
            (1, 0, false)
        );
        assert_eq!(run(&[start, middle, (None, GOOD)]), (0, 1, false));
        assert_eq!(
            run(&[(None, GOOD), (None, GOOD), (Some(Part::End), GOOD)]),
            (0, 1, false)
        );
    }

    #[test]
    fn a_frame_without_its_beginning_is_skipped() {
        let single = (Some(Part::Single), GOOD);
        let middle = (Some(Part::Middle), GOOD);
        let end = (Some(Part::End), GOOD);

        assert_eq!(run(&[middle, middle, end, single]), (1, 1, false));
        assert_eq!(run(&[end, single]), (1, 1, false));
    }

    #[test]
    fn a_frame_without_its_end_makes_way() {
        let single = (Some(Part::Single), GOOD);
        let start = (Some(Part::Start), GOOD);
        let end = (Some(Part::End), GOOD);

        assert_eq!(run(&[start, single]), (1, 1, false));
        assert_eq!(run(&[start, start, end]), (1, 1, false));
        // Both are lost, and both are counted.
        assert_eq!(run(&[start, (Some(Part::Single), BAD)]), (0, 2, false));
    }

    #[test]
    fn the_number_of_parts_is_bounded() {
        let mut state = State::default();
        assert_eq!(state.step(Some(Part::Start), GOOD).action, Action::Begin);
        for _ in 1..MAX_PARTS {
            assert_eq!(state.step(Some(Part::Middle), GOOD).action, Action::Append);
        }
        let step = state.step(Some(Part::Middle), GOOD);
        assert_eq!(step.abort, Some(RxError::Length));
        assert_eq!(step.error, None);
        assert_eq!(state, State::Skipping);
        assert_eq!(state.step(Some(Part::End), GOOD).error, None);
        assert_eq!(state, State::Idle);
    }

    #[test]
    fn a_lost_part_loses_its_frame() {
        let mut state = State::default();
        state.step(Some(Part::Start), GOOD);
        state.lose();
        assert_eq!(state.step(Some(Part::Middle), GOOD).action, Action::Drop);
        assert_eq!(state.step(Some(Part::End), GOOD).action, Action::Drop);
        assert_eq!(state.step(Some(Part::Single), GOOD).action, Action::Deliver);
    }

    #[test]
    fn trailers_are_read_as_the_engine_writes_them() {
        assert!(checksum_is_good([0, 0, 0, 0]));
        assert!(checksum_is_good([0xff, 0xff, 0, 0]));
        assert!(!checksum_is_good([0, 0, 0xff, 0xff]));
        assert!(!checksum_is_good([0xff, 0xff, 0xff, 0xff]));
        assert!(!checksum_is_good([0, 0, 1, 0]));
        assert!(!checksum_is_good([0x12, 0x34, 0, 0]));
    }

    /// A frame with this type, `tags` before it, and byte `protocol` at `offset` of its header.
    fn frame(tags: &[u16], ethertype: u16, offset: usize, protocol: u8, flags: u16) -> [u8; 80] {
        let mut frame = [0; 80];
        let mut at = 12;
        for tag in tags {
            frame[at..at + 2].copy_from_slice(&tag.to_be_bytes());
            at += 4;
        }
        frame[at..at + 2].copy_from_slice(&ethertype.to_be_bytes());
        if ethertype == 0x0800 {
            frame[at + 8..at + 10].copy_from_slice(&flags.to_be_bytes());
        }
        frame[at + 2 + offset] = protocol;
        frame
    }

    #[test]
    fn the_engine_is_given_what_it_knows() {
        const DONT_FRAGMENT: u16 = 0x4000;
        const MORE_FRAGMENTS: u16 = 0x2000;

        for (tags, ethertype, offset, protocol, flags, can) in [
            (&[][..], 0x0800, 9, 6, 0, true),
            (&[][..], 0x0800, 9, 17, DONT_FRAGMENT, true),
            (&[][..], 0x0800, 9, 1, 0, false),
            (&[][..], 0x0800, 9, 6, MORE_FRAGMENTS, false),
            (&[][..], 0x0800, 9, 17, 185, false),
            (&[][..], 0x86dd, 6, 6, 0, true),
            (&[][..], 0x86dd, 6, 17, 0, true),
            (&[][..], 0x86dd, 6, 0, 0, false),
            (&[][..], 0x86dd, 6, 44, 0, false),
            (&[0x8100][..], 0x0800, 9, 6, 0, true),
            (&[0x8100][..], 0x86dd, 6, 17, 0, true),
            (&[0x8100, 0x8100][..], 0x0800, 9, 6, 0, false),
            (&[0x88a8][..], 0x0800, 9, 6, 0, false),
            (&[][..], 0x0806, 9, 6, 0, false),
        ] {
            assert_eq!(
                can_checksum(&frame(tags, ethertype, offset, protocol, flags)),
                can
            );
        }
    }

    #[test]
    fn a_frame_that_ends_early_is_not_for_the_engine() {
        let whole = frame(&[0x8100], 0x0800, 9, 6, 0);
        for len in 0..28 {
            assert!(!can_checksum(&whole[..len]));
        }
        assert!(can_checksum(&whole[..28]));
    }
}
