// SPDX-License-Identifier: GPL-2.0
//! What a measurement talks to (property `control`): a TCP peer that takes everything and
//! acknowledges every second segment, at virtual times and with nothing left to chance.
//!
//! It is what a sender needs and no more: it answers a SYN, takes data in order, closes when the
//! other side does. Nothing is lost on this wire, so nothing is repeated.

use crate::toe;

/// The partner's address.
pub(crate) const IP: [u8; 4] = [10, 0, 2, 2];

/// Between a segment and its acknowledgment, in nanoseconds.
pub(crate) const LATENCY: u64 = 20_000;

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const TCP: usize = 20;

const FIN: u8 = 1;
const SYN: u8 = 2;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// First sequence number of the partner.
const FIRST: u32 = 1;

/// One connection at a time.
#[derive(Debug, Default)]
pub(crate) struct Partner {
    /// Next byte it expects.
    expected: u32,
    /// Its own next byte.
    next: u32,
    /// Segments it has not acknowledged.
    pending: u32,
}

fn be16(bytes: &[u8], at: usize) -> usize {
    u16::from_be_bytes([bytes[at], bytes[at + 1]]).into()
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

impl Partner {
    /// A frame has left the device. Returns the answer, if there is one.
    pub(crate) fn hear(&mut self, frame: &[u8]) -> Option<Vec<u8>> {
        let tcp = ETHERNET + IPV4;
        if frame.len() < tcp + TCP
            || frame[12..15] != [0x08, 0x00, 0x45]
            || frame[23] != 6
            || frame[30..34] != IP
        {
            return None;
        }
        let end = ETHERNET + be16(frame, ETHERNET + 2);
        let data = tcp + usize::from(frame[tcp + 12] >> 4) * 4;
        let length = end.checked_sub(data)? as u32;
        let (sequence, flags) = (be32(frame, tcp + 4), frame[tcp + 13]);
        if flags & SYN != 0 {
            self.expected = sequence.wrapping_add(1);
            self.next = FIRST + 1;
            self.pending = 0;
            return Some(self.answer(frame, FIRST, SYN | ACK));
        }
        if sequence != self.expected {
            return None;
        }
        self.expected = sequence.wrapping_add(length);
        self.pending += u32::from(length > 0);
        if flags & FIN != 0 {
            self.expected = self.expected.wrapping_add(1);
            let next = self.next;
            self.next += 1;
            return Some(self.answer(frame, next, FIN | ACK));
        }
        let due = self.pending >= 2 || self.pending == 1 && flags & PSH != 0;
        due.then(|| {
            self.pending = 0;
            self.answer(frame, self.next, ACK)
        })
    }

    fn answer(&self, to: &[u8], sequence: u32, flags: u8) -> Vec<u8> {
        // Maximum segment size 1460; a window of 64 KiB shifted by 5.
        let options: &[u8] = match flags & SYN {
            0 => &[],
            _ => &[2, 4, 0x05, 0xb4, 3, 3, 5, 1],
        };
        let tcp = ETHERNET + IPV4;
        let mut frame = [&to[6..12], &to[..6], &[0x08, 0x00, 0x45, 0]].concat();
        frame.extend(((IPV4 + TCP + options.len()) as u16).to_be_bytes());
        frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        frame.extend([&to[30..34], &to[26..30]].concat());
        frame.extend([&to[tcp + 2..tcp + 4], &to[tcp..tcp + 2]].concat());
        frame.extend(sequence.to_be_bytes());
        frame.extend(self.expected.to_be_bytes());
        frame.extend([
            ((TCP + options.len()) as u8 / 4) << 4,
            flags,
            0xff,
            0xff,
            0,
            0,
            0,
            0,
        ]);
        frame.extend(options);
        frame.resize(frame.len().max(60), 0);
        toe::transmit(&mut frame, toe::csr::ALL);
        frame
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(sequence: u32, flags: u8, length: usize) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([0x08, 0x00, 0x45, 0]);
        frame.extend(((40 + length) as u16).to_be_bytes());
        frame.extend([0, 0, 0, 0, 64, 6, 0, 0, 10, 0, 2, 15]);
        frame.extend(IP);
        frame.extend([0x90, 1, 0x13, 0x89]);
        frame.extend(sequence.to_be_bytes());
        frame.extend([0, 0, 0, 0, 0x50, flags, 1, 0, 0, 0, 0, 0]);
        frame.resize(54 + length, 0);
        frame
    }

    /// Flags, sequence number and acknowledged byte of an answer.
    fn seen(answer: Option<Vec<u8>>) -> Option<(u8, u32, u32)> {
        let frame = answer?;
        assert_eq!(
            toe::receive(&frame, toe::csr::ALL),
            toe::RxResult { ip: 0, l4: 0 }
        );
        assert_eq!(frame[34..38], [0x13, 0x89, 0x90, 1]);
        Some((frame[47], be32(&frame, 38), be32(&frame, 42)))
    }

    #[test]
    fn a_connection() {
        let mut partner = Partner::default();
        let mut say =
            |sequence, flags, length| seen(partner.hear(&segment(sequence, flags, length)));
        assert_eq!(say(100, SYN, 0), Some((SYN | ACK, 1, 101)));
        assert_eq!(say(101, ACK, 0), None);
        assert_eq!(say(101, ACK, 1000), None);
        assert_eq!(say(1101, ACK, 1000), Some((ACK, 2, 2101)));
        assert_eq!(say(5000, ACK, 1000), None);
        assert_eq!(say(2101, ACK | PSH, 1), Some((ACK, 2, 2102)));
        assert_eq!(say(2102, ACK | FIN, 3), Some((FIN | ACK, 2, 2106)));
        assert_eq!(say(2106, ACK, 0), None);
        // And the next one.
        assert_eq!(say(7, SYN, 0), Some((SYN | ACK, 1, 8)));
    }

    #[test]
    fn everything_else_is_ignored() {
        let mut partner = Partner::default();
        let mut udp = segment(0, SYN, 0);
        udp[23] = 17;
        for frame in [&udp[..], &segment(0, SYN, 0)[..40], &[0; 60]] {
            assert_eq!(partner.hear(frame), None);
        }
    }
}
