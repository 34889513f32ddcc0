// SPDX-License-Identifier: GPL-2.0

//! Descriptors: what they say, and how they say it.
//!
//! A descriptor begins with a word that holds sizes, status, and, in its top byte, the type, by
//! which it changes hands between driver and hardware. A second word points to the data. Reading
//! or writing the first word as one is what makes the hot path cheap, and what makes it right.
//!
//! This file knows nothing of the kernel; it is tested on the host and by KUnit alike.

/// Entries of the descriptor base address table: 4 transmit and 18 receive queues.
pub(crate) const DBAT_ENTRIES: usize = 22;

/// The entry of transmit queue `queue` in the table.
pub(crate) const fn dbat_tx(queue: usize) -> usize {
    queue
}

/// The entry of receive queue `queue` in the table.
pub(crate) const fn dbat_rx(queue: usize) -> usize {
    4 + queue
}

/// Types of descriptors, as they stand in the upper half of the top byte.
mod kind {
    pub(super) const EEMPTY: u32 = 0x3;
    pub(super) const FMID: u32 = 0x4;
    pub(super) const FSTART: u32 = 0x5;
    pub(super) const FEND: u32 = 0x6;
    pub(super) const FSINGLE: u32 = 0x7;
    pub(super) const LINKFIX: u32 = 0x9;
    pub(super) const EOS: u32 = 0xa;
    pub(super) const FEMPTY: u32 = 0xc;
}

/// Where the type begins in the first word.
const KIND_SHIFT: u32 = 28;
/// The size of the data in the first word.
const SIZE_MASK: u32 = 0xfff;
/// The frame was longer than the truncation length.
const TRUNCATED: u32 = 1 << 12;
/// The ring ended within the frame.
const INCOMPLETE: u32 = 1 << 13;
/// Where the status of the MAC begins in the first word.
const MAC_SHIFT: u32 = 16;

/// The part of a frame that a descriptor holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    /// All of it.
    Single,
    /// The first of several.
    Start,
    /// Neither the first nor the last.
    Middle,
    /// The last of several.
    End,
}

impl Part {
    const fn kind(self) -> u32 {
        match self {
            Self::Single => kind::FSINGLE,
            Self::Start => kind::FSTART,
            Self::Middle => kind::FMID,
            Self::End => kind::FEND,
        }
    }
}

/// The first word of a link to another place, which is followed for ever.
pub(crate) const LINK: u32 = kind::LINKFIX << KIND_SHIFT;

/// The first word of the entry of a queue that is not used.
pub(crate) const UNUSED: u32 = kind::EOS << KIND_SHIFT;

/// The first word of a descriptor that is nobody's turn: the hardware stops there.
pub(crate) const RESERVED: u32 = kind::EEMPTY << KIND_SHIFT;

/// The first word of a receive descriptor with room for `size` bytes, given to the hardware.
pub(crate) const fn empty(size: u32) -> u32 {
    kind::FEMPTY << KIND_SHIFT | size & SIZE_MASK
}

/// The first word of a transmit descriptor with `size` bytes, given to the hardware.
pub(crate) const fn transmit(part: Part, size: u32) -> u32 {
    part.kind() << KIND_SHIFT | size & SIZE_MASK
}

/// Whether the hardware has finished with a transmit descriptor.
pub(crate) const fn is_transmitted(word: u32) -> bool {
    word >> KIND_SHIFT == kind::FEMPTY
}

/// The first word of a receive descriptor, as the hardware left it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RxWord(u32);

impl RxWord {
    /// Interprets the word; `None` while the hardware may still fill the descriptor.
    pub(crate) const fn new(word: u32) -> Option<Self> {
        if word >> KIND_SHIFT == kind::FEMPTY {
            None
        } else {
            Some(Self(word))
        }
    }

    /// The part of a frame; `None` for a type that the hardware never writes.
    pub(crate) const fn part(self) -> Option<Part> {
        match self.0 >> KIND_SHIFT {
            kind::FSINGLE => Some(Part::Single),
            kind::FSTART => Some(Part::Start),
            kind::FMID => Some(Part::Middle),
            kind::FEND => Some(Part::End),
            _ => None,
        }
    }

    /// Whether the descriptor holds a whole frame that nothing is wrong with, as nearly all do: one
    /// comparison in place of [`RxWord::part`] and [`RxStatus::error`].
    #[inline]
    pub(crate) const fn is_good_frame(self) -> bool {
        const MASK: u32 =
            0xf << KIND_SHIFT | (RxStatus::ERRORS as u32) << MAC_SHIFT | TRUNCATED | INCOMPLETE;

        self.0 & MASK == kind::FSINGLE << KIND_SHIFT
    }

    /// What is wrong with the frame: [`RxStatus::error`], with one comparison where nothing is.
    #[inline]
    pub(crate) fn error(self) -> Option<RxError> {
        const MASK: u32 = (RxStatus::ERRORS as u32) << MAC_SHIFT | TRUNCATED | INCOMPLETE;

        if self.0 & MASK == 0 {
            None
        } else {
            self.status().error()
        }
    }

    /// How many bytes were stored.
    pub(crate) const fn size(self) -> u32 {
        self.0 & SIZE_MASK
    }

    /// The status of the frame, valid in its last descriptor.
    pub(crate) const fn status(self) -> RxStatus {
        RxStatus {
            mac: (self.0 >> MAC_SHIFT) as u8,
            truncated: self.0 & TRUNCATED != 0,
            incomplete: self.0 & INCOMPLETE != 0,
        }
    }
}

/// How a frame was received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RxStatus {
    /// The MAC status code.
    mac: u8,
    /// The frame was longer than the truncation length.
    truncated: bool,
    /// The ring ended within the frame.
    incomplete: bool,
}

impl RxStatus {
    const CRC: u8 = 0x01;
    const FRAME: u8 = 0x02;
    const SHORT: u8 = 0x04;
    const LONG: u8 = 0x08;
    const FRACTION: u8 = 0x10;
    const EXTENSION: u8 = 0x40;
    const MULTICAST: u8 = 0x80;
    /// All that is wrong with a frame.
    const ERRORS: u8 =
        Self::CRC | Self::FRAME | Self::SHORT | Self::LONG | Self::FRACTION | Self::EXTENSION;

    /// What the MAC found wrong with the frame, and has counters for.
    pub(crate) const fn mac_error(self) -> Option<RxError> {
        if self.mac & Self::CRC != 0 {
            Some(RxError::Crc)
        } else if self.mac & (Self::FRAME | Self::FRACTION) != 0 {
            Some(RxError::Frame)
        } else if self.mac & (Self::SHORT | Self::LONG) != 0 {
            Some(RxError::Length)
        } else {
            None
        }
    }

    /// What is wrong with the frame.
    #[cold]
    pub(crate) const fn error(self) -> Option<RxError> {
        if let Some(error) = self.mac_error() {
            Some(error)
        } else if self.mac & Self::EXTENSION != 0 {
            Some(RxError::Carrier)
        } else if self.truncated {
            Some(RxError::Length)
        } else if self.incomplete {
            Some(RxError::Incomplete)
        } else {
            None
        }
    }

    /// Whether the frame was stored as it came, which was damaged. That it is incomplete the
    /// hardware may say of any damaged frame.
    pub(crate) const fn is_damaged(self) -> bool {
        self.mac & Self::ERRORS != 0 && !self.truncated
    }

    /// Whether the frame was sent to a group.
    pub(crate) const fn is_multicast(self) -> bool {
        self.mac & Self::MULTICAST != 0
    }
}

/// Why a received frame is not passed up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RxError {
    /// Its checksum is wrong.
    Crc,
    /// The PHY flagged it, or it does not end on a byte.
    Frame,
    /// It is too short or too long.
    Length,
    /// Its carrier extension is wrong.
    Carrier,
    /// The ring ended within it, or its parts do not fit together.
    Incomplete,
}

#[cfg(any(test, CONFIG_KUNIT))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(ravb_rs_desc))]
#[cfg_attr(test, allow(unused_imports))]
mod tests {
    use super::*;

    #[test]
    fn words_have_the_layout_of_the_hardware() {
        assert_eq!(empty(1600), 0xc000_0640);
        assert_eq!(transmit(Part::Single, 60), 0x7000_003c);
        assert_eq!(transmit(Part::Start, 2), 0x5000_0002);
        assert_eq!(transmit(Part::Middle, 3), 0x4000_0003);
        assert_eq!(transmit(Part::End, 1514), 0x6000_05ea);
        assert_eq!(LINK, 0x9000_0000);
        assert_eq!(UNUSED, 0xa000_0000);
        assert_eq!((dbat_tx(0), dbat_rx(0)), (0, 4));
        assert_eq!((dbat_tx(1), dbat_rx(1)), (1, 5));
    }

    #[test]
    fn a_size_never_reaches_into_the_type() {
        assert_eq!(empty(0xf_ffff) >> KIND_SHIFT, 0xc);
        assert_eq!(transmit(Part::End, u32::MAX) >> KIND_SHIFT, 0x6);
    }

    #[test]
    fn only_what_the_hardware_has_left_is_looked_at() {
        assert!(RxWord::new(empty(1600)).is_none());
        // The lower half of the top byte is the number of a descriptor interrupt.
        assert!(RxWord::new(0xc100_0000).is_none());
        assert!(is_transmitted(0xc000_003c));
        for kind in [0x2u32, 0x3, 0x4, 0x5, 0x6, 0x7, 0x8, 0x9, 0xa] {
            assert!(!is_transmitted(kind << 28));
            assert!(RxWord::new(kind << 28).is_some());
        }
    }

    #[test]
    fn parts_are_told_apart() {
        for (word, part) in [
            (0x7000_0000, Some(Part::Single)),
            (0x5100_0000, Some(Part::Start)),
            (0x4000_0000, Some(Part::Middle)),
            (0x6f00_0000, Some(Part::End)),
            (0x0000_0000, None),
            (0xd000_0000, None),
        ] {
            assert_eq!(RxWord::new(word).and_then(RxWord::part), part);
        }
    }

    #[test]
    fn the_first_error_is_the_one_that_counts() {
        for (word, error, multicast) in [
            (0x7000_003c, None, false),
            (0x7080_003c, None, true),
            (0x7001_003c, Some(RxError::Crc), false),
            (0x7003_003c, Some(RxError::Crc), false),
            (0x7002_003c, Some(RxError::Frame), false),
            (0x7010_003c, Some(RxError::Frame), false),
            (0x7004_003c, Some(RxError::Length), false),
            (0x7008_003c, Some(RxError::Length), false),
            (0x7000_103c, Some(RxError::Length), false),
            (0x7040_003c, Some(RxError::Carrier), false),
            (0x7000_203c, Some(RxError::Incomplete), false),
        ] {
            let status = RxWord(word).status();
            assert_eq!(status.error(), error);
            assert_eq!(RxWord(word).error(), error);
            assert_eq!(status.is_multicast(), multicast);
            assert_eq!(status.is_damaged(), word & 0x5f_0000 != 0);
            assert_eq!(RxWord(word).size(), 60);
            assert_eq!(RxWord(word).is_good_frame(), error.is_none());
        }
    }

    #[test]
    fn what_is_found_with_one_comparison_is_what_part_and_status_say() {
        for upper in 0..=u16::MAX {
            let word = RxWord(u32::from(upper) << 16 | 60);
            for word in [
                word,
                RxWord(word.0 | TRUNCATED),
                RxWord(word.0 | INCOMPLETE),
            ] {
                let single = matches!(word.part(), Some(Part::Single));
                let good = single && word.status().error().is_none();
                assert_eq!(word.is_good_frame(), good);
                assert_eq!(word.error(), word.status().error());
            }
        }
    }
}
