// SPDX-License-Identifier: GPL-2.0

//! Segments: what a packet that is too long for the wire is cut into, each with headers of its own.
//!
//! The network stack passes such a packet down whole where a device has
//! [`Features::SEGMENTATION`], which spares it the work for each segment. Here the headers are
//! made; the driver finds the payload where it lies.
//!
//! C header: [`include/net/tso.h`](srctree/include/net/tso.h)

use kernel::prelude::*;

#[cfg(doc)]
use super::netdev::Features;
use super::skbuff::SkBuff;
use crate::bindings;

/// Where the checksum is in an IPv4 header, in bytes.
const IPV4_CHECKSUM: usize = 10;
/// Where the checksum is in a TCP header, in bytes.
const TCP_CHECKSUM: usize = 16;
/// Where the checksum is in a UDP header, in bytes.
const UDP_CHECKSUM: usize = 6;
/// How long a UDP header is, in bytes. A TCP header is longer.
const UDP_HEADER_LEN: usize = 8;

/// The segments of a packet, one after the other.
///
/// # Invariants
///
/// `tso` was set up for the packet, whose head has `header_len` bytes at least; so many are the
/// headers. That of the network begins at `network`, that of TCP or UDP at `transport`.
pub(crate) struct Segments<'a> {
    packet: &'a SkBuff,
    tso: bindings::tso_t,
    header_len: usize,
    network: usize,
    transport: usize,
    /// Bytes of payload in each segment but the last.
    size: u32,
    /// Bytes of payload in the segments that are still to come.
    rest: u32,
}

impl<'a> Segments<'a> {
    /// Begins with the first segment of a packet; EINVAL if it is not to be sent in segments, or
    /// its headers are not in its head.
    pub(crate) fn of(packet: &'a SkBuff) -> Result<Self> {
        let size = packet.segment_size().ok_or(EINVAL)?;
        let mut tso = bindings::tso_t::default();
        // SAFETY: The packet is valid, and its headers are where it says: the stack has filled them
        // in, or has checked those that somebody else did.
        let header_len = unsafe { bindings::tso_start(packet.as_raw(), &mut tso) };
        let header_len = usize::try_from(header_len)?;
        let transport = header_len.checked_sub(tso.tlen.into()).ok_or(EINVAL)?;
        if header_len > packet.head_data().len() {
            return Err(EINVAL);
        }
        // INVARIANT: Set up and checked above.
        Ok(Self {
            packet,
            tso,
            header_len,
            network: packet.network_offset(),
            transport,
            size,
            rest: u32::try_from(packet.len() - header_len)?,
        })
    }

    /// How many bytes of headers each segment has.
    pub(crate) fn header_len(&self) -> usize {
        self.header_len
    }

    /// How many bytes the longest segment has, headers included.
    pub(crate) fn max_len(&self) -> usize {
        self.header_len.saturating_add(self.size as usize)
    }

    /// Writes the headers of the next segment to the beginning of `to`, and returns how many bytes
    /// of payload belong behind them; `None` behind the last. ERANGE if there is too little room.
    ///
    /// The checksum of TCP or UDP is left to the device, and holds the sum of the pseudo header as
    /// in any such packet.
    pub(crate) fn next(&mut self, to: &mut [u8]) -> Result<Option<u32>> {
        let payload = self.size.min(self.rest);
        if payload == 0 {
            return Ok(None);
        }
        let header = to.get_mut(..self.header_len).ok_or(ERANGE)?;
        self.rest -= payload;
        // SAFETY: By the invariant there are as many bytes in the head, and `header` has room for
        // them; what is changed of them lies in there.
        unsafe {
            bindings::tso_build_hdr(
                self.packet.as_raw(),
                header.as_mut_ptr().cast(),
                &mut self.tso,
                payload as i32,
                self.rest == 0,
            )
        };
        // What tso_build_data() does beside looking for the data.
        self.tso.tcp_seq = self.tso.tcp_seq.wrapping_add(payload);
        self.set_checksums(header, payload);
        Ok(Some(payload))
    }

    /// Sets the checksums to what goes with a segment of this length.
    fn set_checksums(&self, header: &mut [u8], payload: u32) {
        if !self.tso.ipv6 {
            if let Some(header) = header.get_mut(self.network..self.transport) {
                set_ipv4_checksum(header);
            }
        }
        let transport_len = self.header_len - self.transport;
        let field = match transport_len {
            UDP_HEADER_LEN => UDP_CHECKSUM,
            _ => TCP_CHECKSUM,
        };
        // The pseudo header has a length, which in that of the packet is that of all payload.
        if let Some(field) = word(header, self.transport + field) {
            let whole = (self.packet.len() - self.transport) as u32;
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

#[kunit_tests(ravb_rs_segments)]
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
