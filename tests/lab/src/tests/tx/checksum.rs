// SPDX-License-Identifier: GPL-2.0
//! Checksums of sent frames: those left to the device are right whoever computes them, and those
//! that came with the frame are changed only where the engine is known to change them.

use super::packet::{self, Packet, Way};
use super::payload::header;
use crate::check::Bench;
use crate::net::IFACE;
use anyhow::{ensure, Result};
use std::time::Duration;

pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;
const ICMPV6: u8 = 58;

const IPV4: u16 = 0x0800;
const IPV6: u16 = 0x86dd;

/// What there is between the Ethernet addresses and the transport protocol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Network {
    V4,
    /// With options.
    V4Options,
    /// The first fragment of a datagram.
    V4Fragment,
    V6,
    /// With an extension header of this type.
    V6Behind(u8),
}

const HOP_BY_HOP: u8 = 0;
const ROUTING: u8 = 43;
const FRAGMENT: u8 = 44;
pub(super) const DESTINATION: u8 = 60;

const NETWORKS: &[Network] = &[
    Network::V4,
    Network::V4Options,
    Network::V4Fragment,
    Network::V6,
    Network::V6Behind(HOP_BY_HOP),
    Network::V6Behind(ROUTING),
    Network::V6Behind(FRAGMENT),
    Network::V6Behind(DESTINATION),
];

/// VLAN tags, outermost first.
pub(super) const TAGS: &[&[u16]] = &[
    &[],
    &[0x8100],
    &[0x88a8],
    &[0x8100, 0x8100],
    &[0x88a8, 0x8100],
];

/// What the frame has in its checksum field, and what the stack says of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Given {
    /// Sum of the pseudo header; the rest is left to the device.
    Partial,
    /// The right checksum, nothing is left to do.
    Right,
    /// A wrong one, nothing is left to do.
    Wrong,
    /// UDP's "no checksum".
    None,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Case {
    pub(super) network: Network,
    pub(super) protocol: u8,
    pub(super) tags: &'static [u16],
    pub(super) given: Given,
    /// Bytes behind the transport header.
    pub(super) payload: usize,
    /// Fragments of the packet in memory.
    pub(super) fragments: usize,
    pub(super) align: u8,
}

/// A frame and where its parts are.
pub(super) struct Frame {
    pub(super) bytes: Vec<u8>,
    /// Transport header.
    pub(super) start: usize,
    /// Checksum field.
    pub(super) field: usize,
    /// Sum of the pseudo header, not inverted.
    pseudo: u16,
    protocol: u8,
}

/// The one's complement sum of big-endian words.
fn sum(start: u32, bytes: &[u8]) -> u16 {
    let total = bytes.chunks(2).fold(start, |sum, pair| {
        sum + (u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
    });
    let folded = (total & 0xffff) + (total >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

impl Case {
    fn is_v6(self) -> bool {
        matches!(self.network, Network::V6 | Network::V6Behind(_))
    }

    /// Whether the engine knows such frames (K-ml): at most one tag, and that of 802.1Q; no
    /// fragments, no extension headers.
    fn is_known_to_the_engine(self) -> bool {
        matches!(self.tags, [] | [0x8100])
            && matches!(self.network, Network::V4 | Network::V4Options | Network::V6)
            && matches!(self.protocol, TCP | UDP)
    }

    /// Where it means the same, a checksum of all ones may stand for zero.
    fn without_negative_zero(self, mut frame: Vec<u8>) -> Vec<u8> {
        let field = self.frame().field;
        if self.protocol != UDP && frame.get(field..field + 2) == Some(&[0xff, 0xff]) {
            frame[field..field + 2].fill(0);
        }
        frame
    }

    /// Transport header and payload, the checksum field zero.
    fn segment(self) -> (Vec<u8>, usize) {
        let (mut segment, field) = match self.protocol {
            TCP => (
                vec![
                    0x14, 0x51, 0xc0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 0x20, 0, 0, 0, 0, 0,
                ],
                16,
            ),
            UDP => (vec![0x12, 0x34, 0, 53, 0, 0, 0, 0], 6),
            _ => (vec![128, 0, 0, 0, 0x12, 0x34, 0, 1], 2),
        };
        let filler = Packet {
            seed: self.payload as u8,
            ..Packet::new(Vec::new(), self.payload)
        };
        segment.extend(filler.bytes());
        if self.protocol == UDP {
            let length = segment.len() as u16;
            segment[4..6].copy_from_slice(&length.to_be_bytes());
        }
        (segment, field)
    }

    fn frame(self) -> Frame {
        let (segment, field) = self.segment();
        self.around(segment, field)
    }

    /// The frame around a transport header with its checksum at `field` and a payload.
    pub(super) fn around(self, segment: Vec<u8>, field: usize) -> Frame {
        let (kind, ip, addresses) = if self.is_v6() {
            let (ip, addresses) = self.ipv6(segment.len());
            (IPV6, ip, addresses)
        } else {
            let (ip, addresses) = self.ipv4(segment.len());
            (IPV4, ip, addresses)
        };
        let mut bytes = header(self.tags, kind);
        bytes.extend_from_slice(&ip);
        let start = bytes.len();
        bytes.extend_from_slice(&segment);

        let length = segment.len() as u32;
        let pseudo = sum(u32::from(self.protocol) + length, &addresses);
        let mut frame = Frame {
            bytes,
            start,
            field: start + field,
            pseudo,
            protocol: self.protocol,
        };
        if self.payload == ZERO_SUM {
            let end = frame.bytes.len();
            frame.bytes[end - 2..].fill(0);
            frame.set(0);
            let rest = !sum(u32::from(pseudo), &frame.bytes[start..]);
            frame.bytes[end - 2..].copy_from_slice(&rest.to_be_bytes());
        }
        let value = match self.given {
            Given::Partial => pseudo,
            Given::None => 0,
            Given::Right => frame.right(),
            Given::Wrong => frame.right() ^ 0x5a5a,
        };
        frame.set(value);
        frame
    }

    /// IPv4 header and the addresses.
    fn ipv4(self, length: usize) -> (Vec<u8>, Vec<u8>) {
        let options: &[u8] = match self.network {
            Network::V4Options => &[1, 1, 1, 0],
            _ => &[],
        };
        let words = 5 + options.len() / 4;
        let total = (words * 4 + length) as u16;
        let flags: u16 = match self.network {
            Network::V4Fragment => 0x2000,
            _ => 0x4000,
        };
        let addresses = [192, 168, 0, 1, 192, 168, 0, 2];
        let mut ip = vec![0x40 | words as u8, 0];
        ip.extend_from_slice(&total.to_be_bytes());
        ip.extend_from_slice(&[0x12, 0x34]);
        ip.extend_from_slice(&flags.to_be_bytes());
        ip.extend_from_slice(&[64, self.protocol, 0, 0]);
        ip.extend_from_slice(&addresses);
        ip.extend_from_slice(options);
        let checksum = !sum(0, &ip);
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        (ip, addresses.to_vec())
    }

    /// IPv6 header, extension header and the addresses.
    fn ipv6(self, length: usize) -> (Vec<u8>, Vec<u8>) {
        let mut extension = Vec::new();
        let mut next = self.protocol;
        if let Network::V6Behind(kind) = self.network {
            // Six bytes of padding options, a routing header that is used up, or the header of a
            // fragment that is the whole.
            extension.extend_from_slice(match kind {
                HOP_BY_HOP | DESTINATION => &[0, 0, 1, 4, 0, 0, 0, 0],
                _ => &[0, 0, 0, 0, 0, 0, 0, 0],
            });
            extension[0] = self.protocol;
            next = kind;
        }
        let mut addresses = vec![0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
        addresses.extend_from_within(..);
        addresses[31] = 2;
        let mut ip = vec![0x60, 0, 0, 0];
        ip.extend_from_slice(&((extension.len() + length) as u16).to_be_bytes());
        ip.extend_from_slice(&[next, 64]);
        ip.extend_from_slice(&addresses);
        ip.extend_from_slice(&extension);
        (ip, addresses)
    }

    fn packet(self) -> Packet {
        let mut frame = self.frame();
        let length = frame.bytes.len();
        let head = frame.start + 20;
        if self.payload != ZERO_SUM {
            // The rest is what the generator makes.
            frame.bytes.truncate(length - self.payload);
        }
        Packet {
            align: self.align,
            seed: self.payload as u8,
            checksum: (self.given == Given::Partial)
                .then_some((frame.start, frame.field - frame.start)),
            way: match self.given {
                Given::Wrong => Way::Socket,
                _ => Way::Stack,
            },
            ..Packet::new(frame.bytes, length)
        }
        .split(head, self.fragments)
    }
}

impl Frame {
    pub(super) fn set(&mut self, value: u16) {
        self.bytes[self.field..self.field + 2].copy_from_slice(&value.to_be_bytes());
    }

    /// The right checksum of the transport protocol.
    pub(super) fn right(&mut self) -> u16 {
        self.set(0);
        match !sum(u32::from(self.pseudo), &self.bytes[self.start..]) {
            // Zero would say of a datagram that it has none; the sum is the same.
            0 if self.protocol == UDP => 0xffff,
            checksum => checksum,
        }
    }

    /// Pads it to what is on the wire.
    pub(super) fn on_wire(mut self) -> Vec<u8> {
        self.bytes.resize(self.bytes.len().max(60), 0);
        self.bytes
    }
}

/// Payloads: none, odd and even, in frames that are padded and not.
const PAYLOADS: &[usize] = &[0, 1, ZERO_SUM, 1000, 1401];

/// Of these, one in a frame that is padded and one in a frame that is not.
const FEW: &[usize] = &[1, 1000];

/// The payload that is chosen so that the sum comes out as zero.
const ZERO_SUM: usize = 32;

fn cases(given: &[Given], payloads: &[usize]) -> Vec<Case> {
    let mut cases = Vec::new();
    for &network in NETWORKS {
        for protocol in [TCP, UDP, ICMPV6] {
            for &tags in TAGS {
                for &given in given {
                    for &payload in payloads {
                        let case = Case {
                            network,
                            protocol,
                            tags,
                            given,
                            payload,
                            fragments: cases.len() % 4,
                            align: (cases.len() / 4 % 4) as u8,
                        };
                        let exists = match (protocol, given) {
                            (ICMPV6, Given::None) | (TCP, Given::None) => false,
                            (ICMPV6, _) => case.is_v6(),
                            (UDP, Given::None) => !case.is_v6(),
                            _ => true,
                        };
                        if exists {
                            cases.push(case);
                        }
                    }
                }
            }
        }
    }
    cases
}

/// Sends the frames and compares what is on the wire with what `expected` makes of each.
fn exchange(
    bench: &mut Bench<'_>,
    cases: &[Case],
    expected: impl Fn(Case) -> Vec<u8>,
) -> Result<()> {
    const BATCH: usize = 100;
    bench.up()?;
    bench.vm.ok(&format!(
        "tc qdisc replace dev {IFACE} root pfifo limit 1000"
    ))?;
    bench.wire()?.drain()?;
    for batch in cases.chunks(BATCH) {
        let packets: Vec<Packet> = batch.iter().map(|case| case.packet()).collect();
        let result = packet::send(bench, &packets, 60)?;
        ensure!(result.sent == batch.len() as u64, "{result:?}");
        for &case in batch {
            let addresses = header(&[], 0);
            let frame = bench.wire()?.expect(Duration::from_secs(5), |frame| {
                frame[..12] == addresses[..12]
            })?;
            let frame = frame.map(|frame| case.without_negative_zero(frame));
            let wanted = expected(case);
            ensure!(
                frame.as_ref() == Some(&wanted),
                "{case:?}: expected\n{wanted:02x?}, on the wire is\n{frame:02x?}"
            );
        }
    }
    Ok(())
}

/// Whatever is left to the device comes out right, and what was right or is without a checksum on
/// purpose stays as it is.
pub(super) fn right(bench: &mut Bench<'_>) -> Result<()> {
    all_right(bench, PAYLOADS)
}

fn all_right(bench: &mut Bench<'_>, payloads: &[usize]) -> Result<()> {
    let cases = cases(&[Given::Partial, Given::Right, Given::None], payloads);
    exchange(bench, &cases, |case| match case.given {
        Given::None => case.frame().on_wire(),
        _ => corrected(case),
    })
}

/// The same with fewer payloads.
pub(super) fn few_right(bench: &mut Bench<'_>) -> Result<()> {
    all_right(bench, FEW)
}

/// The frame with the right checksum.
fn corrected(case: Case) -> Vec<u8> {
    let mut frame = case.frame();
    let right = frame.right();
    frame.set(right);
    frame.on_wire()
}

/// The same without offload.
pub(super) fn software(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    bench.vm.ok(&format!("ethtool -K {IFACE} tx off"))?;
    let result = few_right(bench);
    bench.vm.ok(&format!("ethtool -K {IFACE} tx on"))?;
    result
}

/// Wrong checksums from a packet socket. The engine looks at every frame it knows, whether asked to
/// or not, and puts them right; what it does not know leaves as it came. Without offload, and on a
/// device that only does what it is asked to, all leave as they came.
pub(super) fn wrong(bench: &mut Bench<'_>) -> Result<()> {
    let cases = cases(&[Given::Wrong], FEW);
    exchange(bench, &cases, |case| {
        if case.is_known_to_the_engine() {
            corrected(case)
        } else {
            case.frame().on_wire()
        }
    })?;
    bench.vm.set_property("toe-tx-every-frame", "off")?;
    let obedient = exchange(bench, &cases, |case| case.frame().on_wire());
    bench.vm.set_property("toe-tx-every-frame", "on")?;
    obedient?;
    bench.vm.ok(&format!("ethtool -K {IFACE} tx off"))?;
    let off = exchange(bench, &cases, |case| case.frame().on_wire());
    bench.vm.ok(&format!("ethtool -K {IFACE} tx on"))?;
    off
}

/// The same on a device without an engine: nothing is put right.
pub(super) fn wrong_stays(bench: &mut Bench<'_>) -> Result<()> {
    exchange(bench, &cases(&[Given::Wrong], FEW), |case| {
        case.frame().on_wire()
    })
}

#[cfg(test)]
mod unit {
    use super::*;

    const CASE: Case = Case {
        network: Network::V4,
        protocol: UDP,
        tags: &[],
        given: Given::Right,
        payload: 3,
        fragments: 0,
        align: 0,
    };

    #[test]
    fn checksums_are_those_of_the_textbook() {
        let mut frame = CASE.frame();
        frame.bytes[42..].copy_from_slice(b"abc");
        // c0a8+1+c0a8+2+11+b + 1234+35+b+6162+6300 = 2_5845 -> 5847 -> ~ = a7b8
        assert_eq!(frame.right(), 0xa7b8);
        // 4500+001f+1234+4000+4011+c0a8+0001+c0a8+0002 = 2_58b7 -> 58b9 -> ~ = a746
        assert_eq!(frame.bytes[24..26], [0xa7, 0x46]);
    }

    #[test]
    fn a_sum_of_zero_is_written_as_ones() {
        let case = Case {
            payload: ZERO_SUM,
            ..CASE
        };
        assert_eq!(case.frame().right(), 0xffff);
        let tcp = Case {
            protocol: TCP,
            ..case
        };
        assert_eq!(tcp.frame().right(), 0);
    }

    #[test]
    fn the_matrix_is_complete() {
        let cases = cases(&[Given::Partial, Given::None], FEW);
        for &tags in TAGS {
            for &network in NETWORKS {
                for protocol in [TCP, UDP] {
                    assert!(cases.iter().any(|case| case.tags == tags
                        && case.network == network
                        && case.protocol == protocol
                        && case.given == Given::Partial));
                }
            }
        }
        assert!(cases.iter().any(|case| case.given == Given::None));
    }
}
