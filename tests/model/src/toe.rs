// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The checksum engines: TOE of GbEth, and the receive sum of EtherAVB.
//!
//! Everything here is a pure function of a frame (without FCS) and of one control register, so
//! that the rules of the engine can be read and tested without a device around them.

/// Bits that CSR1 (transmit) and CSR2 (receive) have in common (K-drv).
pub mod csr {
    /// IPv4 header.
    pub const IP4: u32 = 1 << 0;
    /// TCP over IPv4.
    pub const TCP4: u32 = 1 << 4;
    /// UDP over IPv4.
    pub const UDP4: u32 = 1 << 5;
    /// ICMP.
    pub const ICMP4: u32 = 1 << 6;
    /// TCP over IPv6.
    pub const TCP6: u32 = 1 << 20;
    /// UDP over IPv6.
    pub const UDP6: u32 = 1 << 21;
    /// ICMPv6.
    pub const ICMP6: u32 = 1 << 22;
    /// Look behind a hop-by-hop options header.
    pub const HOP: u32 = 1 << 24;
    /// Look behind a routing header.
    pub const ROUT: u32 = 1 << 25;
    /// Look behind an authentication header.
    pub const AHD: u32 = 1 << 26;
    /// Look behind a destination options header.
    pub const DHD: u32 = 1 << 27;
    /// Every bit that exists; the others are reserved.
    pub const ALL: u32 = IP4 | TCP4 | UDP4 | ICMP4 | TCP6 | UDP6 | ICMP6 | HOP | ROUT | AHD | DHD;
}

/// Field value of a checksum that was not looked at (K-ml).
pub const NOT_CHECKED: u16 = 0xffff;
/// Field value of a correct checksum (K-ml).
pub const GOOD: u16 = 0;

/// The two fields that the engine appends to a received frame, each stored little endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RxResult {
    /// IPv4 header: [`GOOD`], [`NOT_CHECKED`], or anything else for a wrong checksum.
    pub ip: u16,
    /// TCP, UDP or ICMP: the same.
    pub l4: u16,
}

const ETH_HLEN: usize = 14;
const VLAN_HLEN: usize = 4;
const TPID_8021Q: u16 = 0x8100;
const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;

const PROTO_HOP: u8 = 0;
const PROTO_ICMP: u8 = 1;
const PROTO_TCP: u8 = 6;
const PROTO_UDP: u8 = 17;
const PROTO_ROUTING: u8 = 43;
const PROTO_AH: u8 = 51;
const PROTO_ICMP6: u8 = 58;
const PROTO_DSTOPTS: u8 = 60;

/// A transport segment that the engine understands, as byte ranges of the frame.
struct Segment {
    start: usize,
    end: usize,
    /// Offset of the checksum field from `start`.
    field: usize,
    /// Sum of the pseudo header, 0 for ICMP over IPv4.
    pseudo: u32,
    protocol: u8,
    v6: bool,
}

/// What the parser found. Each part is present only where the engine would look at it.
#[derive(Default)]
struct Parsed {
    /// Byte range of the IPv4 header.
    ip4: Option<(usize, usize)>,
    segment: Option<Segment>,
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*bytes.get(at)?, *bytes.get(at + 1)?]))
}

/// Adds `bytes` as big-endian words to a running sum; an odd last byte is padded with 0.
fn add(mut sum: u32, bytes: &[u8]) -> u32 {
    for pair in bytes.chunks(2) {
        let word = u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]);
        sum += u32::from(word);
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum
}

fn fold(sum: u32) -> u16 {
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    sum as u16
}

/// The sum that EtherAVB appends to a received frame with ECMR.RCSC set: over `bytes` as 16-bit
/// little-endian words, one's complement, not inverted (K-drv). Store it little endian.
///
/// The two little-endian halves cancel out: the bytes in memory are those of the internet
/// checksum in network order, which is what a CPU of either endianness can use.
pub fn ones_complement_sum(bytes: &[u8]) -> u16 {
    fold(add(0, bytes)).swap_bytes()
}

/// Finds what the engine can check: at most one 802.1Q tag, IPv4 or IPv6, no fragments, IPv6
/// extension headers only where `control` asks for them (K-ml).
fn parse(frame: &[u8], control: u32) -> Option<Parsed> {
    let mut at = ETH_HLEN;
    let mut ethertype = be16(frame, 12)?;
    if ethertype == TPID_8021Q {
        ethertype = be16(frame, 12 + VLAN_HLEN)?;
        at += VLAN_HLEN;
    }
    match ethertype {
        ETHERTYPE_IPV4 => parse_ip4(frame, at),
        ETHERTYPE_IPV6 => parse_ip6(frame, at, control),
        _ => None,
    }
}

fn parse_ip4(frame: &[u8], at: usize) -> Option<Parsed> {
    let first = *frame.get(at)?;
    let header_len = usize::from(first & 0xf) * 4;
    let start = at + header_len;
    if first >> 4 != 4 || header_len < 20 || start > frame.len() {
        return None;
    }
    let mut parsed = Parsed {
        ip4: Some((at, start)),
        segment: None,
    };
    let end = at + usize::from(be16(frame, at + 2)?);
    let more_fragments_or_offset = be16(frame, at + 6)? & 0x3fff != 0;
    if !more_fragments_or_offset && start <= end && end <= frame.len() {
        let addresses = &frame[at + 12..at + 20];
        parsed.segment = segment(frame, start, end, frame[at + 9], addresses, false);
    }
    Some(parsed)
}

fn parse_ip6(frame: &[u8], at: usize, control: u32) -> Option<Parsed> {
    let mut start = at + 40;
    if *frame.get(at)? >> 4 != 6 || start > frame.len() {
        return None;
    }
    let end = start + usize::from(be16(frame, at + 4)?);
    if end > frame.len() {
        return None;
    }
    let mut protocol = frame[at + 6];
    loop {
        let (wanted, unit, extra) = match protocol {
            PROTO_HOP => (csr::HOP, 8, 1),
            PROTO_ROUTING => (csr::ROUT, 8, 1),
            PROTO_AH => (csr::AHD, 4, 2),
            PROTO_DSTOPTS => (csr::DHD, 8, 1),
            _ => break,
        };
        let header = frame.get(start..end)?;
        // A routing header that is not yet used up hides the final destination (A).
        if control & wanted == 0
            || header.len() < 8
            || (protocol == PROTO_ROUTING && header[3] != 0)
        {
            return None;
        }
        protocol = header[0];
        start += (usize::from(header[1]) + extra) * unit;
        if start > end {
            return None;
        }
    }
    let addresses = &frame[at + 8..at + 40];
    Some(Parsed {
        ip4: None,
        segment: segment(frame, start, end, protocol, addresses, true),
    })
}

fn segment(
    frame: &[u8],
    start: usize,
    end: usize,
    protocol: u8,
    addresses: &[u8],
    v6: bool,
) -> Option<Segment> {
    let len = end - start;
    let (field, header_len) = match (protocol, v6) {
        (PROTO_TCP, _) => (16, 20),
        (PROTO_UDP, _) => (6, 8),
        (PROTO_ICMP, false) | (PROTO_ICMP6, true) => (2, 4),
        _ => return None,
    };
    if len < header_len {
        return None;
    }
    // UDP carries its own length; a sender may pad behind it.
    let end = if protocol == PROTO_UDP {
        let udp_len = usize::from(be16(frame, start + 4)?);
        if udp_len < header_len || udp_len > len {
            return None;
        }
        start + udp_len
    } else {
        end
    };
    let pseudo = if protocol == PROTO_ICMP {
        0
    } else {
        let sum = add(0, addresses) + u32::from(protocol) + (end - start) as u32;
        u32::from(fold(sum))
    };
    Some(Segment {
        start,
        end,
        field,
        pseudo,
        protocol,
        v6,
    })
}

impl Segment {
    fn enabled(&self, control: u32) -> bool {
        let bit = match (self.protocol, self.v6) {
            (PROTO_TCP, false) => csr::TCP4,
            (PROTO_UDP, false) => csr::UDP4,
            (PROTO_ICMP, _) => csr::ICMP4,
            (PROTO_TCP, true) => csr::TCP6,
            (PROTO_UDP, true) => csr::UDP6,
            _ => csr::ICMP6,
        };
        control & bit != 0
    }

    /// UDP over IPv4 may go without a checksum; the engine leaves such a frame alone (K-ml).
    fn without_checksum(&self, frame: &[u8]) -> bool {
        let at = self.start + self.field;
        self.protocol == PROTO_UDP && !self.v6 && frame[at..at + 2] == [0, 0]
    }
}

/// Checks a received frame as CSR2 asks. The value of a wrong checksum is the inverted sum (A),
/// which is neither [`GOOD`] nor, since no header is all zeroes, [`NOT_CHECKED`].
///
/// A frame that ends early (wrong IP or UDP length) is not checked (A).
pub fn receive(frame: &[u8], csr2: u32) -> RxResult {
    let parsed = parse(frame, csr2).unwrap_or_default();
    let ip = match parsed.ip4 {
        Some((start, end)) if csr2 & csr::IP4 != 0 => !fold(add(0, &frame[start..end])),
        _ => NOT_CHECKED,
    };
    let l4 = match parsed.segment {
        Some(s) if s.enabled(csr2) && !s.without_checksum(frame) => {
            !fold(add(s.pseudo, &frame[s.start..s.end]))
        }
        _ => NOT_CHECKED,
    };
    RxResult { ip, l4 }
}

/// Whether the checksum field of a frame holds the sum of the pseudo header: a network stack leaves
/// it there where it leaves the rest to the device.
pub fn is_left_to_engine(frame: &[u8], csr1: u32) -> bool {
    let segment = parse(frame, csr1).and_then(|parsed| parsed.segment);
    segment.is_some_and(|s| {
        let field = be16(frame, s.start + s.field);
        field.is_some_and(|field| u32::from(field) == s.pseudo)
    })
}

/// Recomputes the checksums of a frame about to be sent, as CSR1 asks. The engine looks at every
/// frame, whether or not the network stack wanted it (K-ml). Returns whether it wrote one.
pub fn transmit(frame: &mut [u8], csr1: u32) -> bool {
    let Some(parsed) = parse(frame, csr1) else {
        return false;
    };
    let mut written = false;
    if let Some((start, end)) = parsed.ip4.filter(|_| csr1 & csr::IP4 != 0) {
        frame[start + 10..start + 12].fill(0);
        let sum = !fold(add(0, &frame[start..end]));
        frame[start + 10..start + 12].copy_from_slice(&sum.to_be_bytes());
        written = true;
    }
    if let Some(s) = parsed.segment {
        if s.enabled(csr1) && !s.without_checksum(frame) {
            let at = s.start + s.field;
            frame[at..at + 2].fill(0);
            let mut sum = !fold(add(s.pseudo, &frame[s.start..s.end]));
            if s.protocol == PROTO_UDP && sum == 0 {
                sum = 0xffff;
            }
            frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
            written = true;
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A DNS query from a textbook-like exchange, checksums computed by hand:
    /// 192.168.0.1:4660 -> 192.168.0.2:53, payload "abc".
    fn udp4() -> Vec<u8> {
        let mut f = vec![0x02; 12];
        f.extend([0x08, 0x00]);
        f.extend([0x45, 0, 0, 31, 0x12, 0x34, 0x40, 0, 64, 17, 0, 0]);
        f.extend([192, 168, 0, 1, 192, 168, 0, 2]);
        f.extend([0x12, 0x34, 0, 53, 0, 11, 0xff, 0xee]);
        f.extend(*b"abc");
        f
    }

    fn tcp4(payload: &[u8]) -> Vec<u8> {
        let mut f = vec![0x02; 12];
        f.extend([0x08, 0x00]);
        let len = (40 + payload.len()) as u16;
        f.extend([0x45, 0]);
        f.extend(len.to_be_bytes());
        f.extend([0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 2, 15, 10, 0, 2, 2]);
        f.extend([0x14, 0x51, 0xc0, 0x01, 0, 0, 0, 1, 0, 0, 0, 2]);
        f.extend([0x50, 0x10, 0x20, 0, 0, 0, 0, 0]);
        f.extend(payload);
        f
    }

    fn ip6(next: u8, body: &[u8]) -> Vec<u8> {
        let mut f = vec![0x02; 12];
        f.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        f.extend((body.len() as u16).to_be_bytes());
        f.extend([next, 64]);
        f.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
        f.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
        f.extend(body);
        f
    }

    fn with_tag(frame: &[u8], tpid: u16) -> Vec<u8> {
        let mut f = frame[..12].to_vec();
        f.extend(tpid.to_be_bytes());
        f.extend([0x00, 0x05]);
        f.extend(&frame[12..]);
        f
    }

    const UDP6_BODY: [u8; 12] = [0x12, 0x34, 0, 53, 0, 12, 0, 1, b'a', b'b', b'c', b'd'];

    #[test]
    fn known_values() {
        // Sums worked out on paper, so that the engine is not only compared with itself.
        let mut f = udp4();
        assert!(transmit(&mut f, csr::IP4 | csr::UDP4));
        // 4500+001f+1234+4000+4011+c0a8+0001+c0a8+0002 = 2_58b7 -> 58b9 -> ~ = a746
        assert_eq!(f[24..26], [0xa7, 0x46]);
        // c0a8+1+c0a8+2+11+b + 1234+35+b+6162+6300 = 2_5845 -> 5847 -> ~ = a7b8
        assert_eq!(f[40..42], [0xa7, 0xb8]);
    }

    #[test]
    fn sent_is_received_good() {
        for payload in [&b""[..], b"x", b"even", &[0xff; 1460], &[0; 1459]] {
            let mut f = tcp4(payload);
            assert!(transmit(&mut f, csr::ALL));
            assert_eq!(receive(&f, csr::ALL), RxResult { ip: 0, l4: 0 });
            // Padding behind the packet does not count.
            f.extend([0xa5; 9]);
            assert_eq!(receive(&f, csr::ALL), RxResult { ip: 0, l4: 0 });
        }
    }

    #[test]
    fn every_single_bit_error_is_seen() {
        let mut good = tcp4(b"payload");
        transmit(&mut good, csr::ALL);
        // Behind the checksummed lengths and the protocol, in addresses, ports, flags and data.
        for at in (26..good.len()).filter(|at| *at != 33) {
            for bit in 0..8 {
                let mut f = good.clone();
                f[at] ^= 1 << bit;
                let l4 = receive(&f, csr::ALL).l4;
                assert!(
                    l4 != GOOD && l4 != NOT_CHECKED,
                    "byte {at} bit {bit}: {l4:#x}"
                );
            }
        }
        let mut f = good;
        f[22] ^= 1;
        let r = receive(&f, csr::ALL);
        assert!(r.ip != GOOD && r.ip != NOT_CHECKED);
        assert_eq!(r.l4, GOOD);
    }

    #[test]
    fn control_bits_select() {
        let mut f = tcp4(b"x");
        transmit(&mut f, csr::ALL);
        let others = csr::ALL & !csr::TCP4;
        assert_eq!(
            receive(&f, others),
            RxResult {
                ip: 0,
                l4: NOT_CHECKED
            }
        );
        let not_checked = RxResult {
            ip: NOT_CHECKED,
            l4: NOT_CHECKED,
        };
        assert_eq!(receive(&f, 0), not_checked);
        assert_eq!(
            receive(&f, csr::TCP4),
            RxResult {
                ip: NOT_CHECKED,
                l4: 0
            }
        );

        let before = tcp4(b"x");
        let mut f = before.clone();
        assert!(!transmit(&mut f, csr::ALL & !csr::TCP4 & !csr::IP4));
        assert_eq!(f, before);
    }

    #[test]
    fn one_tag_is_understood_two_are_not() {
        let mut f = with_tag(&udp4(), 0x8100);
        assert!(transmit(&mut f, csr::UDP4));
        assert_eq!(f[44..46], [0xa7, 0xb8]);
        assert_eq!(receive(&f, csr::UDP4).l4, GOOD);

        for bad in [
            with_tag(&with_tag(&udp4(), 0x8100), 0x8100),
            with_tag(&udp4(), 0x88a8),
        ] {
            let mut f = bad.clone();
            assert!(!transmit(&mut f, csr::ALL));
            assert_eq!(f, bad);
            assert_eq!(receive(&f, csr::ALL).l4, NOT_CHECKED);
        }
    }

    #[test]
    fn what_is_left_to_the_engine_shows() {
        let mut f = udp4();
        assert!(!is_left_to_engine(&f, csr::ALL));
        // c0a8+1+c0a8+2+11+b = 1_816f -> 8170
        f[40..42].copy_from_slice(&[0x81, 0x70]);
        assert!(is_left_to_engine(&f, csr::ALL));
        assert!(is_left_to_engine(&with_tag(&f, 0x8100), csr::ALL));
        assert!(!is_left_to_engine(&with_tag(&f, 0x88a8), csr::ALL));
    }

    #[test]
    fn udp4_without_checksum_passes() {
        let mut f = udp4();
        f[40..42].fill(0);
        assert!(!transmit(&mut f, csr::UDP4));
        assert_eq!(f[40..42], [0, 0]);
        assert_eq!(receive(&f, csr::UDP4).l4, NOT_CHECKED);
    }

    #[test]
    fn udp_never_sends_a_zero_checksum() {
        let mut f = udp4();
        transmit(&mut f, csr::UDP4);
        // Move what the sum lacks into the payload: the checksum would then be 0.
        let sum = [f[40], f[41]];
        f[29 + 16..].fill(0);
        f[40..42].copy_from_slice(&[0, 1]);
        f[42..44].fill(0);
        transmit(&mut f, csr::UDP4);
        let rest = [f[40], f[41]];
        assert_ne!(sum, rest);
        f[42..44].copy_from_slice(&rest);
        transmit(&mut f, csr::UDP4);
        assert_eq!(f[40..42], [0xff, 0xff]);
        assert_eq!(receive(&f, csr::UDP4).l4, GOOD);
    }

    #[test]
    fn fragments_are_left_alone() {
        for flags in [[0x20, 0x00], [0x00, 0x01]] {
            let mut f = udp4();
            f[20..22].copy_from_slice(&flags);
            let l4 = f[40..42].to_vec();
            transmit(&mut f, csr::ALL);
            assert_eq!(f[40..42], l4);
            assert_eq!(
                receive(&f, csr::ALL),
                RxResult {
                    ip: 0,
                    l4: NOT_CHECKED
                }
            );
        }
    }

    #[test]
    fn ipv6() {
        let mut f = ip6(PROTO_UDP, &UDP6_BODY);
        assert!(transmit(&mut f, csr::UDP6));
        // The pseudo header and the datagram, word by word.
        let sum: u32 = 0xfe80 + 1 + 0xfe80 + 2 + 0x11 + 0xc + 0x1234 + 0x35 + 0xc + 0x6162 + 0x6364;
        assert_eq!(f[60..62], (!fold(sum)).to_be_bytes());
        assert_eq!(
            receive(&f, csr::UDP6),
            RxResult {
                ip: NOT_CHECKED,
                l4: GOOD
            }
        );
        assert_eq!(receive(&f, csr::ALL & !csr::UDP6).l4, NOT_CHECKED);
        // Without a checksum it is wrong, unlike over IPv4.
        f[60..62].fill(0);
        let l4 = receive(&f, csr::UDP6).l4;
        assert!(l4 != GOOD && l4 != NOT_CHECKED);
    }

    #[test]
    fn ipv6_extension_headers_need_their_bit() {
        for (next, bit) in [
            (PROTO_HOP, csr::HOP),
            (PROTO_ROUTING, csr::ROUT),
            (PROTO_DSTOPTS, csr::DHD),
        ] {
            let mut body = vec![PROTO_UDP, 0, 0, 0, 0, 0, 0, 0];
            body.extend(UDP6_BODY);
            let before = ip6(next, &body);
            let mut f = before.clone();
            assert!(!transmit(&mut f, csr::ALL & !bit));
            assert_eq!(f, before);
            assert!(transmit(&mut f, csr::UDP6 | bit));
            assert_eq!(receive(&f, csr::UDP6 | bit).l4, GOOD);
            assert_eq!(receive(&f, csr::ALL & !bit).l4, NOT_CHECKED);
        }
        // A fragment header is never looked behind.
        let mut body = vec![PROTO_UDP, 0, 0, 0, 0, 0, 0, 0];
        body.extend(UDP6_BODY);
        assert_eq!(receive(&ip6(44, &body), csr::ALL).l4, NOT_CHECKED);
    }

    #[test]
    fn icmp_has_no_pseudo_header_over_ipv4_only() {
        let mut f = udp4();
        f[23] = PROTO_ICMP;
        assert!(transmit(&mut f, csr::ICMP4));
        assert_eq!(fold(add(0, &f[34..])), 0xffff);
        assert_eq!(receive(&f, csr::ICMP4).l4, GOOD);

        let mut f = ip6(PROTO_ICMP6, &UDP6_BODY);
        assert!(transmit(&mut f, csr::ICMP6));
        assert_ne!(fold(add(0, &f[54..])), 0xffff);
        assert_eq!(receive(&f, csr::ICMP6).l4, GOOD);
    }

    #[test]
    fn damaged_lengths_never_panic() {
        let mut seed = 0x1234_5678_u32;
        for template in [
            udp4(),
            tcp4(b"abcdef"),
            ip6(0, &UDP6_BODY),
            with_tag(&udp4(), 0x8100),
        ] {
            for _ in 0..20_000 {
                let mut f = template.clone();
                for _ in 0..3 {
                    seed ^= seed << 13;
                    seed ^= seed >> 17;
                    seed ^= seed << 5;
                    let at = seed as usize % f.len();
                    f[at] = (seed >> 16) as u8;
                }
                f.truncate((seed >> 8) as usize % (f.len() + 1));
                receive(&f, csr::ALL);
                transmit(&mut f, csr::ALL);
            }
        }
    }

    #[test]
    fn receive_sum_is_in_memory_order() {
        assert_eq!(ones_complement_sum(&[0x01, 0x02]), 0x0201);
        assert_eq!(ones_complement_sum(&[0x01]), 0x0001);
        assert_eq!(ones_complement_sum(&[0xff, 0xff, 0x00, 0x01]), 0x0100);
        assert_eq!(ones_complement_sum(&[]), 0);
    }
}
