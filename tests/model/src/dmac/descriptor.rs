// SPDX-License-Identifier: GPL-2.0
//! Descriptor format (reference section 4).
//!
//! Every descriptor begins with the same eight bytes, little endian: size and control bits in 16
//! bits, control bits in 8, type and interrupt number in 8, buffer pointer in 32.

/// Byte of a descriptor that says who owns it: read first, written last.
pub const DIE_DT: u64 = 3;
/// Largest buffer a descriptor can name.
pub const DS_MASK: u16 = 0x0fff;
/// RX: the frame was truncated to RTC.MFL.
pub const RX_TR: u16 = 1 << 12;
/// TX: a timestamp is asked for (third byte).
const TX_TSR: u8 = 1 << 6;
/// RX: the frame is incomplete.
pub const RX_EI: u16 = 1 << 13;

/// Descriptor type (upper nibble of `die_dt`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// 0x0, 0x1 or 0xb (K-gen2).
    Reserved,
    /// Consumed link.
    LinkEmpty,
    /// Consumed end of set; software's mark for an unused TX descriptor.
    EosEmpty,
    /// Middle part of a frame.
    Mid,
    /// First of several parts.
    Start,
    /// Last of several parts.
    End,
    /// A whole frame.
    Single,
    /// Link, used once.
    Link,
    /// Link, used for ever.
    LinkFix,
    /// End of set.
    Eos,
    /// RX: may be filled; TX: done.
    Empty,
    /// RX: start of an incremental area.
    EmptyStart,
    /// RX: continue the incremental area.
    EmptyContinue,
    /// RX: take data of this size without storing it.
    EmptyDiscard,
}

impl Kind {
    /// Decodes `die_dt`.
    pub const fn of(die_dt: u8) -> Self {
        match die_dt >> 4 {
            0x2 => Self::LinkEmpty,
            0x3 => Self::EosEmpty,
            0x4 => Self::Mid,
            0x5 => Self::Start,
            0x6 => Self::End,
            0x7 => Self::Single,
            0x8 => Self::Link,
            0x9 => Self::LinkFix,
            0xa => Self::Eos,
            0xc => Self::Empty,
            0xd => Self::EmptyStart,
            0xe => Self::EmptyContinue,
            0xf => Self::EmptyDiscard,
            _ => Self::Reserved,
        }
    }

    /// `die_dt` for this type without descriptor interrupt.
    pub const fn die_dt(self) -> u8 {
        match self {
            Self::Reserved => 0x00,
            Self::LinkEmpty => 0x20,
            Self::EosEmpty => 0x30,
            Self::Mid => 0x40,
            Self::Start => 0x50,
            Self::End => 0x60,
            Self::Single => 0x70,
            Self::Link => 0x80,
            Self::LinkFix => 0x90,
            Self::Eos => 0xa0,
            Self::Empty => 0xc0,
            Self::EmptyStart => 0xd0,
            Self::EmptyContinue => 0xe0,
            Self::EmptyDiscard => 0xf0,
        }
    }

    /// RX: the descriptor can take data.
    pub const fn can_receive(self) -> bool {
        matches!(
            self,
            Self::Empty | Self::EmptyStart | Self::EmptyContinue | Self::EmptyDiscard
        )
    }

    /// TX: the descriptor is data to be sent.
    pub const fn has_data(self) -> bool {
        matches!(self, Self::Mid | Self::Start | Self::End | Self::Single)
    }
}

/// A descriptor as the engine has read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Where it is.
    pub addr: u64,
    /// Its first eight bytes.
    pub bytes: [u8; 8],
}

impl Descriptor {
    /// Type.
    pub const fn kind(&self) -> Kind {
        Kind::of(self.bytes[3])
    }
    /// Descriptor interrupt number, 0 for none.
    pub const fn interrupt(&self) -> u8 {
        self.bytes[3] & 0x0f
    }
    /// Size in bytes.
    pub const fn size(&self) -> usize {
        (u16::from_le_bytes([self.bytes[0], self.bytes[1]]) & DS_MASK) as usize
    }
    /// TX: tag of the timestamp asked for (TSR), if one is.
    pub const fn timestamp_tag(&self) -> Option<u16> {
        if self.bytes[2] & TX_TSR == 0 {
            return None;
        }
        Some((self.bytes[1] >> 4) as u16 | ((self.bytes[2] & 0x3f) as u16) << 4)
    }
    /// Address of the buffer, or of the next descriptor.
    pub const fn pointer(&self) -> u64 {
        let b = &self.bytes;
        u32::from_le_bytes([b[4], b[5], b[6], b[7]]) as u64
    }
}
