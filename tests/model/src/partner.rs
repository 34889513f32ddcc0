// SPDX-License-Identifier: GPL-2.0
//! What a measurement talks to (property `control`): a TCP peer, at virtual times and with nothing
//! left to chance. At most ports it takes everything and acknowledges every second segment; to who
//! connects to [`SOURCE`] it sends without an end.
//!
//! It is what the other side needs and no more: it answers a SYN, takes data in order, closes when
//! the other side does. Nothing is lost on this wire, and [`WINDOW`] fits into a receive ring, so
//! nothing is repeated.

use crate::toe;

/// The partner's address.
pub(crate) const IP: [u8; 4] = [10, 0, 2, 2];

/// Between a segment and its acknowledgment, in nanoseconds.
pub(crate) const LATENCY: u64 = 20_000;

const ETHERNET: usize = 14;
const IPV4: usize = 20;
const TCP: usize = 20;

/// The port from which it sends.
const SOURCE: usize = 5002;

/// How much it has on its way at most: 180 segments, a fifth of GbEth's ring.
const WINDOW: u32 = 256 << 10;

/// Data of a segment it sends.
const SEGMENT: u32 = 1460;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const PSH: u8 = 8;
const ACK: u8 = 16;

/// First sequence number of the partner.
const FIRST: u32 = 1;

/// One connection at a time: the one that began last.
#[derive(Debug, Default)]
pub(crate) struct Partner {
    /// Port of the other side.
    port: usize,
    /// Next byte it expects.
    expected: u32,
    /// Its own next byte.
    next: u32,
    /// Segments it has not acknowledged.
    pending: u32,
    /// By how much the other side shifts its window, while it is to be sent to.
    sends: Option<u32>,
}

fn be16(bytes: &[u8], at: usize) -> usize {
    u16::from_be_bytes([bytes[at], bytes[at + 1]]).into()
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// The factor of windows in the options of a SYN (RFC 7323), as a shift.
fn window_shift(mut options: &[u8]) -> u32 {
    loop {
        match *options {
            // No operation has no length.
            [1, ref rest @ ..] => options = rest,
            [3, 3, shift, ..] => return shift.min(14).into(),
            [kind, length, ..] if kind > 1 && length > 1 => {
                options = options.get(length.into()..).unwrap_or_default();
            }
            _ => return 0,
        }
    }
}

impl Partner {
    /// A frame has left the device. Returns the answers.
    pub(crate) fn hear(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        self.understand(frame).unwrap_or_default()
    }

    fn understand(&mut self, frame: &[u8]) -> Option<Vec<Vec<u8>>> {
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
        let port = be16(frame, tcp);
        if flags & SYN != 0 {
            self.port = port;
            self.expected = sequence.wrapping_add(1);
            self.next = FIRST + 1;
            self.pending = 0;
            self.sends = (be16(frame, tcp + 2) == SOURCE)
                .then(|| window_shift(frame.get(tcp + TCP..data).unwrap_or_default()));
            return Some(vec![self.answer(frame, FIRST, SYN | ACK)]);
        }
        // What was on its way when a connection ended is still refused during the next one.
        if port != self.port {
            return None;
        }
        if flags & RST != 0 {
            self.sends = None;
            return None;
        }
        if sequence != self.expected {
            return None;
        }
        self.expected = sequence.wrapping_add(length);
        self.pending += u32::from(length > 0);
        if flags & FIN != 0 {
            self.expected = self.expected.wrapping_add(1);
            self.sends = None;
            let next = self.next;
            self.next = next.wrapping_add(1);
            return Some(vec![self.answer(frame, next, FIN | ACK)]);
        }
        if let Some(shift) = self.sends {
            return Some(self.send(frame, shift));
        }
        let due = self.pending >= 2 || self.pending == 1 && flags & PSH != 0;
        due.then(|| {
            self.pending = 0;
            vec![self.answer(frame, self.next, ACK)]
        })
    }

    /// What the other side has room for, as it says in `frame`.
    fn send(&mut self, frame: &[u8], shift: u32) -> Vec<Vec<u8>> {
        let tcp = ETHERNET + IPV4;
        let room = (be16(frame, tcp + 14) as u32) << shift;
        let end = be32(frame, tcp + 8).wrapping_add(room.min(WINDOW));
        let mut segments = Vec::new();
        // Sequence numbers are less than half of their range apart.
        while (end.wrapping_sub(self.next) as i32) >= SEGMENT as i32 {
            segments.push(self.segment(frame, self.next, ACK, SEGMENT as usize));
            self.next = self.next.wrapping_add(SEGMENT);
        }
        segments
    }

    fn answer(&self, to: &[u8], sequence: u32, flags: u8) -> Vec<u8> {
        self.segment(to, sequence, flags, 0)
    }

    fn segment(&self, to: &[u8], sequence: u32, flags: u8, length: usize) -> Vec<u8> {
        // Maximum segment size 1460; a window of 64 KiB shifted by 5.
        let options: &[u8] = match flags & SYN {
            0 => &[],
            _ => &[2, 4, 0x05, 0xb4, 3, 3, 5, 1],
        };
        let tcp = ETHERNET + IPV4;
        let mut frame = [&to[6..12], &to[..6], &[0x08, 0x00, 0x45, 0]].concat();
        frame.extend(((IPV4 + TCP + options.len() + length) as u16).to_be_bytes());
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
        frame.resize((frame.len() + length).max(60), 0);
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
    fn seen(answers: Vec<Vec<u8>>) -> Option<(u8, u32, u32)> {
        assert!(answers.len() < 2);
        let frame = answers.into_iter().next()?;
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
            assert!(partner.hear(frame).is_empty());
        }
    }

    #[test]
    fn a_source_fills_the_window() {
        let mut partner = Partner::default();
        let mut say = |sequence, flags, acknowledged: u32, window: u16| {
            let mut frame = segment(sequence, flags, 0);
            frame[36..38].copy_from_slice(&(SOURCE as u16).to_be_bytes());
            frame[42..46].copy_from_slice(&acknowledged.to_be_bytes());
            frame[48..50].copy_from_slice(&window.to_be_bytes());
            if flags & SYN != 0 {
                frame[46] = 0x70;
                frame[16..18].copy_from_slice(&48u16.to_be_bytes());
                frame.extend([2, 4, 5, 0xb4, 1, 3, 3, 3]);
            }
            let answers = partner.hear(&frame);
            for answer in &answers {
                let verdict = toe::receive(answer, toe::csr::ALL);
                assert_eq!(verdict, toe::RxResult { ip: 0, l4: 0 });
            }
            answers
                .iter()
                .map(|answer| (be32(answer, 38), answer.len()))
                .collect::<Vec<_>>()
        };
        assert_eq!(say(100, SYN, 0, 0xffff), [(1, 62)]);
        // 2960 bytes: two segments fit.
        assert_eq!(say(101, ACK, 2, 370), [(2, 1514), (1462, 1514)]);
        assert!(say(101, ACK, 2, 370).is_empty());
        assert_eq!(say(101, ACK, 1462, 370), [(2922, 1514)]);
        // However much room there is.
        let most = say(101, ACK, 4382, 0xffff);
        assert_eq!(most.len() as u32, WINDOW / SEGMENT);
        assert!(say(101, RST, 0, 0).is_empty());
        assert!(say(101, ACK, 1_000_000, 0xffff).is_empty());
    }

    #[test]
    fn an_old_connection_does_not_end_the_new_one() {
        let mut partner = Partner::default();
        let from = |port: u16, flags, acknowledged: u32| {
            let mut frame = segment(100, flags, 0);
            frame[34..36].copy_from_slice(&port.to_be_bytes());
            frame[36..38].copy_from_slice(&(SOURCE as u16).to_be_bytes());
            frame[42..46].copy_from_slice(&acknowledged.to_be_bytes());
            frame[48..50].copy_from_slice(&2000u16.to_be_bytes());
            frame
        };
        partner.hear(&from(1000, SYN, 0));
        partner.hear(&from(1001, SYN, 0));
        assert!(partner.hear(&from(1000, RST, 0)).is_empty());
        let mut next = from(1001, ACK, 2);
        next[41] = 101;
        assert_eq!(partner.hear(&next).len(), 1);
    }
}
