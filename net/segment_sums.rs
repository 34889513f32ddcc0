// SPDX-License-Identifier: GPL-2.0

//! Checksums in the headers of segments that a packet is cut into.
//!
//! This file knows nothing of the kernel; it is tested on the host and by KUnit alike.

/// Where the checksum is in an IPv4 header, in bytes.
const IPV4_CHECKSUM: usize = 10;
/// Where the checksum is in a TCP header, in bytes.
const TCP_CHECKSUM: usize = 16;
/// Where the checksum is in a UDP header, in bytes.
const UDP_CHECKSUM: usize = 6;
/// How long a UDP header is, in bytes. A TCP header is longer.
const UDP_HEADER_LEN: usize = 8;

/// Where the headers of a packet are, in bytes from its beginning. They are in this order.
#[derive(Clone, Copy)]
pub(crate) struct Headers {
    /// The header of IPv4 or IPv6.
    pub(crate) network: usize,
    /// The header of TCP or UDP.
    pub(crate) transport: usize,
    /// What follows it.
    pub(crate) payload: usize,
    /// It is IPv6.
    pub(crate) ipv6: bool,
}

impl Headers {
    /// Sets the checksums in `header`, a copy of the headers of a packet of `packet_len` bytes, to
    /// what goes with a segment with `payload` bytes behind its headers.
    ///
    /// That of TCP or UDP is left to the device, and holds the sum of the pseudo header, before and
    /// after.
    pub(crate) fn set_checksums(&self, header: &mut [u8], packet_len: usize, payload: u32) {
        if !self.ipv6 {
            if let Some(header) = header.get_mut(self.network..self.transport) {
                set_ipv4_checksum(header);
            }
        }
        let transport_len = self.payload - self.transport;
        let field = match transport_len {
            UDP_HEADER_LEN => UDP_CHECKSUM,
            _ => TCP_CHECKSUM,
        };
        // The pseudo header has a length, which in that of the packet is that of all payload.
        if let Some(field) = word(header, self.transport + field) {
            let whole = (packet_len - self.transport) as u32;
            let part = transport_len as u32 + payload;
            let seed = exchange(u16::from_be_bytes(*field), whole, part);
            *field = seed.to_be_bytes();
        }
    }
}

/// The word in network order at byte `at`.
fn word(bytes: &mut [u8], at: usize) -> Option<&mut [u8; 2]> {
    bytes.get_mut(at..)?.first_chunk_mut()
}

/// Computes the checksum of an IPv4 header.
fn set_ipv4_checksum(header: &mut [u8]) {
    if let Some(field) = word(header, IPV4_CHECKSUM) {
        *field = [0; 2];
    }
    let sum = header.chunks_exact(2).map(|word| match *word {
        [high, low] => u32::from(u16::from_be_bytes([high, low])),
        _ => 0,
    });
    let checksum = !fold(sum.sum());
    if let Some(field) = word(header, IPV4_CHECKSUM) {
        *field = checksum.to_be_bytes();
    }
}

/// A one's complement sum that has `new` in it in place of `old`.
fn exchange(sum: u16, old: u32, new: u32) -> u16 {
    fold(u32::from(sum) + u32::from(!fold(old)) + u32::from(fold(new)))
}

/// The one's complement sum of both halves.
fn fold(sum: u32) -> u16 {
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

#[cfg(any(test, CONFIG_KUNIT))]
#[cfg_attr(not(test), kernel::prelude::kunit_tests(ravb_rs_segment_sums))]
#[cfg_attr(test, allow(unused_imports))]
mod tests {
    use super::*;

    /// The sum over the words of something, one of them 32 bits wide.
    fn sum(words: &[u16], wide: u32) -> u16 {
        fold(words.iter().copied().map(u32::from).sum::<u32>() + u32::from(fold(wide)))
    }

    #[test]
    fn a_length_is_exchanged_for_another() {
        const WORDS: &[u16] = &[0x0a00, 0x020f, 0x0a00, 0x0202, 0x0006];
        for old in [28, 1468, 65_535, 65_536, 100_000] {
            for new in [9, 21, 1468, 65_535] {
                assert_eq!(exchange(sum(WORDS, old), old, new), sum(WORDS, new));
            }
        }
    }

    #[test]
    fn an_ipv4_header_gets_its_checksum() {
        // The example of Wikipedia, "Internet checksum".
        let mut header = [
            0x45, 0x00, 0x00, 0x73, 0x00, 0x00, 0x40, 0x00, 0x40, 0x11, 0xff, 0xff, 0xc0, 0xa8,
            0x00, 0x01, 0xc0, 0xa8, 0x00, 0xc7,
        ];
        set_ipv4_checksum(&mut header);
        assert_eq!(word(&mut header, IPV4_CHECKSUM), Some(&mut [0xb8, 0x61]));
    }

    #[test]
    fn a_sum_that_is_not_zero_stays_so() {
        for sum in [1, 0x8000, 0xfffe, 0xffff] {
            for (old, new) in [(65_535, 1), (1, 65_535), (1468, 1468), (1, 65_534)] {
                assert_ne!(exchange(sum, old, new), 0);
            }
        }
    }
}
