// SPDX-License-Identifier: GPL-2.0
//! Packets that the driver is to send in segments come out as the frames that the stack would have
//! made of them, byte by byte.

use super::checksum::{Case, Frame, Given, Network, DESTINATION, TAGS, TCP, UDP};
use super::packet::{self, Fragment, Packet};
use super::paths;
use super::payload::header;
use crate::check::Bench;
use crate::net::IFACE;
use anyhow::{bail, ensure, Result};
use ravb_frames::{pairwise as choose, sum};
use std::time::Duration;

/// Longest frame with a VLAN tag.
const LONGEST: usize = 1518;

const NETWORKS: &[Network] = &[
    Network::V4,
    Network::V4Options,
    Network::V6,
    Network::V6Behind(DESTINATION),
];

/// What is behind the network header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Transport {
    Tcp,
    /// With options, as Linux sends it.
    TcpTimestamps,
    /// With all the options that there can be, so that the headers are not copied.
    TcpLong,
    Udp,
}

const TRANSPORTS: &[Transport] = &[
    Transport::Tcp,
    Transport::TcpTimestamps,
    Transport::TcpLong,
    Transport::Udp,
];

/// How the payload lies in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Layout {
    /// Behind the headers, in the head.
    Head,
    /// In whole pages.
    Pages,
    /// A little of it in the head, and pieces shorter and longer than what is copied.
    Uneven,
    /// In as many fragments as there can be.
    Many,
}

const LAYOUTS: &[Layout] = &[Layout::Head, Layout::Pages, Layout::Uneven, Layout::Many];

/// Payload of a segment: the least, what leads to unaligned segments, what TCP uses.
const SIZES: &[usize] = &[1, 101, 536, 1446, 1447, 1448, 1460];

/// How many segments, and how many bytes the last one lacks; it has one at least.
const COUNTS: &[(usize, usize)] = &[(2, 0), (2, LONGEST), (7, 3), (16, 0), (16, 100), (17, 0)];

const ALIGNMENTS: usize = 4;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cut {
    network: Network,
    transport: Transport,
    tags: &'static [u16],
    size: usize,
    payload: usize,
    layout: Layout,
    align: u8,
}

impl Transport {
    /// A header, and where its checksum is.
    fn header(self, payload: usize) -> (Vec<u8>, usize) {
        // The last segment has FIN and PSH.
        let tcp = |options: &[u8]| {
            let words = 5 + options.len() / 4;
            let mut header = vec![
                0x14,
                0x51,
                0xc0,
                1,
                0xff,
                0xff,
                0xf8,
                0,
                0,
                0,
                0,
                2,
                (words << 4) as u8,
                0x19,
                0x20,
                0,
                0,
                0,
                0,
                0,
            ];
            header.extend_from_slice(options);
            (header, 16)
        };
        match self {
            Transport::Tcp => tcp(&[]),
            Transport::TcpTimestamps => tcp(&[1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]),
            Transport::TcpLong => tcp(&[1; 40]),
            Transport::Udp => {
                let mut header = vec![0x12, 0x34, 0, 53, 0, 0, 0, 0];
                header[4..6].copy_from_slice(&((8 + payload) as u16).to_be_bytes());
                (header, 6)
            }
        }
    }

    fn protocol(self) -> u8 {
        match self {
            Transport::Udp => UDP,
            _ => TCP,
        }
    }
}

impl Cut {
    /// The packet as a frame that is too long, with the sum of the pseudo header.
    fn whole(self, given: Given) -> Frame {
        let (mut segment, field) = self.transport.header(self.payload);
        segment.resize(segment.len() + self.payload, 0);
        Case {
            network: self.network,
            protocol: self.transport.protocol(),
            tags: self.tags,
            given,
            payload: 0,
            fragments: 0,
            align: 0,
        }
        .around(segment, field)
    }

    /// Length of all headers.
    fn headers(self) -> usize {
        self.whole(Given::Partial).bytes.len() - self.payload
    }

    fn packet(self, seed: u8) -> Packet {
        let mut frame = self.whole(Given::Partial);
        let length = frame.bytes.len();
        let headers = length - self.payload;
        frame.bytes.truncate(headers);
        let mut packet = Packet {
            align: self.align,
            seed,
            checksum: Some((frame.start, frame.field - frame.start)),
            segment: Some(self.size),
            ..Packet::new(frame.bytes, length)
        };
        self.lay_out(&mut packet, headers);
        packet
    }

    /// Moves the payload from the head into fragments.
    fn lay_out(self, packet: &mut Packet, headers: usize) {
        const MOST: usize = 17;
        const PAGE: usize = 4096;
        const UNEVEN: &[usize] = &[1, 3000, 3, 4000, 127, 3300, 128, 4090, 129, 4001];
        let share = [self.payload.div_ceil(MOST).max(1)];
        let (kept, lengths): (usize, &[usize]) = match self.layout {
            Layout::Head => return,
            Layout::Pages => (0, &[PAGE]),
            Layout::Uneven => (5, UNEVEN),
            Layout::Many => (0, &share),
        };
        packet.head = (headers + kept).min(packet.head);
        let mut rest = headers + self.payload - packet.head;
        for &length in lengths.iter().cycle() {
            if rest == 0 {
                break;
            }
            let length = length.min(rest);
            packet.fragments.push(Fragment {
                length,
                offset: (PAGE - length).min(usize::from(packet.seed) + packet.fragments.len() * 3),
            });
            rest -= length;
        }
        assert!(packet.fragments.len() <= MOST, "{self:?}");
    }

    /// The frames that must be on the wire.
    fn frames(self, packet: &Packet) -> Vec<Vec<u8>> {
        const FIN_PSH: u8 = 0x09;
        let bytes = packet.bytes();
        let headers = self.headers();
        let count = self.payload.div_ceil(self.size);
        bytes[headers..]
            .chunks(self.size)
            .enumerate()
            .map(|(number, payload)| {
                let cut = Cut {
                    payload: payload.len(),
                    ..self
                };
                let mut frame = cut.whole(Given::Partial);
                frame.bytes[headers..].copy_from_slice(payload);
                let network = 14 + 4 * self.tags.len();
                if matches!(self.network, Network::V4 | Network::V4Options) {
                    let header = &mut frame.bytes[network..frame.start];
                    add(&mut header[4..6], number as u32);
                    header[10..12].fill(0);
                    let checksum = !sum(header);
                    header[10..12].copy_from_slice(&checksum.to_be_bytes());
                }
                if self.transport != Transport::Udp {
                    let at = frame.start;
                    add(
                        &mut frame.bytes[at + 4..at + 8],
                        (number * self.size) as u32,
                    );
                    if number + 1 != count {
                        frame.bytes[at + 13] &= !FIN_PSH;
                    }
                }
                let right = frame.right();
                frame.set(right);
                frame.on_wire()
            })
            .collect()
    }

    /// In TCP a checksum of all ones means the same as zero.
    fn without_negative_zero(self, mut frame: Vec<u8>) -> Vec<u8> {
        let field = self.whole(Given::Partial).field;
        if self.transport != Transport::Udp && frame.get(field..field + 2) == Some(&[0xff, 0xff]) {
            frame[field..field + 2].fill(0);
        }
        frame
    }

    /// Whether the driver makes the segments: those that it leaves to the stack have headers that
    /// the checksum engine does not know, or that are long, or take too much of the ring.
    fn is_for_driver(self, packet: &Packet) -> bool {
        const COPIED: usize = 128;
        const ALIGNMENT: usize = 4;
        const SLOTS: usize = 48;
        let segments = self.payload.div_ceil(self.size);
        matches!(self.tags, [] | [0x8100])
            && !matches!(self.network, Network::V6Behind(_))
            && self.headers() + ALIGNMENT <= COPIED
            && segments <= 16
            && 2 * (segments + packet.fragments.len()) <= SLOTS
    }
}

/// Adds to a number in network order.
fn add(bytes: &mut [u8], by: u32) {
    let old = bytes
        .iter()
        .fold(0, |old, &byte| old << 8 | u32::from(byte));
    let new = old.wrapping_add(by).to_be_bytes();
    bytes.copy_from_slice(&new[4 - bytes.len()..]);
}

/// All cases, and for each the indices of its values.
fn all() -> (Vec<Cut>, Vec<Vec<usize>>) {
    let mut cuts = Vec::new();
    let mut rows = Vec::new();
    for (n, &network) in NETWORKS.iter().enumerate() {
        for (t, &transport) in TRANSPORTS.iter().enumerate() {
            for (g, &tags) in TAGS.iter().enumerate() {
                for (s, &size) in SIZES.iter().enumerate() {
                    for (c, &(count, less)) in COUNTS.iter().enumerate() {
                        for (l, &layout) in LAYOUTS.iter().enumerate() {
                            let align = cuts.len() % ALIGNMENTS;
                            let mut cut = Cut {
                                network,
                                transport,
                                tags,
                                size,
                                payload: 0,
                                layout,
                                align: align as u8,
                            };
                            cut.size = size.min(LONGEST - cut.headers());
                            cut.payload = count * cut.size - less.min(cut.size - 1);
                            cuts.push(cut);
                            rows.push(vec![n, t, g, s, c, l, align]);
                        }
                    }
                }
            }
        }
    }
    (cuts, rows)
}

/// Sends the packets, looks at the frames, and that the driver was given whole what it can send.
fn exchange(bench: &mut Bench<'_>, cuts: &[Cut]) -> Result<()> {
    const BATCH: usize = 40;
    bench.up()?;
    bench.vm.ok(&format!(
        "tc qdisc replace dev {IFACE} root pfifo limit 1000"
    ))?;
    bench.wire()?.drain()?;
    let addresses = header(&[], 0);
    for batch in cuts.chunks(BATCH) {
        let packets: Vec<(Cut, Packet)> = (0..)
            .zip(batch)
            .map(|(seed, &cut)| (cut, cut.packet(seed)))
            .collect();
        let expected = packets
            .iter()
            .filter(|(cut, packet)| cut.is_for_driver(packet))
            .count() as u64;
        let requests: Vec<Packet> = packets.iter().map(|(_, packet)| packet.clone()).collect();
        let whole = paths::events(bench, "net/net_dev_start_xmit", "gso_size > 0", |bench| {
            let result = packet::send(bench, &requests, 60)?;
            ensure!(
                result.sent == batch.len() as u64 && result.busy == 0,
                "{result:?}"
            );
            for (cut, packet) in &packets {
                for (number, wanted) in cut.frames(packet).iter().enumerate() {
                    let frame = bench.wire()?.expect(Duration::from_secs(5), |frame| {
                        frame[..12] == addresses[..12]
                    })?;
                    let Some(frame) = frame else {
                        bail!("{cut:?}: segment {number} is not on the wire");
                    };
                    let frame = cut.without_negative_zero(frame);
                    let differs = wanted.iter().zip(&frame).position(|(a, b)| a != b);
                    ensure!(
                        frame == *wanted,
                        "{cut:?}: segment {number} has {} bytes, not {}, first difference at \
                         {differs:?}; it begins with {:02x?}",
                        frame.len(),
                        wanted.len(),
                        &frame[..60]
                    );
                }
            }
            Ok(())
        })?;
        ensure!(
            whole == expected,
            "the driver was given {whole} packets to segment, not {expected}"
        );
    }
    Ok(())
}

/// Cases in which every pair of values occurs, with an engine that computes the checksum of every
/// frame and with one that only does so for frames with the sum of the pseudo header.
pub(super) fn pairwise(bench: &mut Bench<'_>) -> Result<()> {
    let cuts = pairs();
    exchange(bench, &cuts)?;
    bench.vm.set_property("toe-tx-every-frame", "off")?;
    let obedient = exchange(bench, &cuts);
    bench.vm.set_property("toe-tx-every-frame", "on")?;
    obedient
}

/// Of all cases, and once more of those in which the driver makes the segments.
fn pairs() -> Vec<Cut> {
    let (cuts, rows) = all();
    let ours: Vec<usize> = (0..cuts.len())
        .filter(|&index| cuts[index].is_for_driver(&cuts[index].packet(0)))
        .collect();
    let our_rows: Vec<Vec<usize>> = ours.iter().map(|&index| rows[index].clone()).collect();
    let again = choose(&our_rows).into_iter().map(|index| ours[index]);
    choose(&rows)
        .into_iter()
        .chain(again)
        .map(|index| cuts[index])
        .collect()
}

/// All cases.
pub(super) fn wide(bench: &mut Bench<'_>) -> Result<()> {
    exchange(bench, &all().0)
}

#[cfg(test)]
mod unit {
    use super::*;

    const CUT: Cut = Cut {
        network: Network::V4,
        transport: Transport::Tcp,
        tags: &[],
        size: 100,
        payload: 250,
        layout: Layout::Head,
        align: 0,
    };

    #[test]
    fn segments_are_those_of_the_textbook() {
        let frames = CUT.frames(&CUT.packet(0));
        assert_eq!(frames.len(), 3);
        for (number, frame) in frames.iter().enumerate() {
            let last = number == 2;
            assert_eq!(frame.len(), if last { 104 } else { 154 });
            // Total length, identification.
            assert_eq!(frame[16..18], (frame.len() as u16 - 14).to_be_bytes());
            assert_eq!(frame[18..20], (0x1234 + number as u16).to_be_bytes());
            // Sequence number, flags.
            let sequence = 0xffff_f800 + 100 * number as u32;
            assert_eq!(frame[38..42], sequence.to_be_bytes());
            assert_eq!(frame[47], if last { 0x19 } else { 0x10 });
            // A header with its checksum sums up to all ones.
            assert_eq!(sum(&frame[14..34]), 0xffff);
        }
    }

    #[test]
    fn no_frame_is_too_long_and_no_byte_gets_lost() {
        let (cuts, rows) = all();
        assert_eq!(cuts.len(), rows.len());
        for cut in cuts {
            let packet = cut.packet(3);
            assert_eq!(packet.length(), cut.headers() + cut.payload);
            assert!(cut.headers() + cut.size <= LONGEST, "{cut:?}");
        }
    }

    #[test]
    fn the_chosen_cases_are_many_of_both_kinds() {
        let cuts = pairs();
        let ours = cuts
            .iter()
            .filter(|cut| cut.is_for_driver(&cut.packet(0)))
            .count();
        assert!(ours > 20 && cuts.len() - ours > 20, "{ours}");
    }
}
