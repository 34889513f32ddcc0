// SPDX-License-Identifier: GPL-2.0
//! Frames of every length, from every layout in memory, come out byte by byte.

use super::packet::{self, Packet, Way};
use crate::check::Bench;
use crate::net::IFACE;
use crate::tests::functional::EXPERIMENT;
use crate::wire::LAB_MAC;
use anyhow::{ensure, Context, Result};

/// Most fragments of a packet.
const FRAGMENTS: usize = 17;

/// Head alignments that matter: the largest alignment a member of the family wants is four.
const ALIGNMENTS: usize = 4;

/// Most VLAN tags.
const TAGS: usize = 2;

/// What is varied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Case {
    length: usize,
    align: usize,
    fragments: usize,
    tags: usize,
}

/// Addresses, VLAN tags and type of a frame.
pub(super) fn header(tags: &[u16], kind: u16) -> Vec<u8> {
    let mut bytes = LAB_MAC.to_vec();
    bytes.extend_from_slice(&[2, 0, 0, 0, 0, 1]);
    for (number, tag) in tags.iter().enumerate() {
        bytes.extend_from_slice(&tag.to_be_bytes());
        bytes.extend_from_slice(&(100 + number as u16).to_be_bytes());
    }
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes
}

impl Case {
    fn packet(self, seed: u8) -> Packet {
        let header = header(&[0x8100; TAGS][..self.tags], EXPERIMENT);
        // The head has the header at least, and sometimes a little more.
        let head = header.len() + usize::from(seed) % 7;
        Packet {
            seed,
            align: self.align as u8,
            ..Packet::new(header, self.length)
        }
        .split(head, self.fragments)
    }
}

/// Longest frame the interface takes.
pub(super) fn longest(bench: &mut Bench<'_>) -> Result<usize> {
    let text = bench.vm.ok(&format!("ip -d link show {IFACE}"))?;
    let mut words = text.split_whitespace().skip_while(|word| *word != "maxmtu");
    let mtu: usize = words.nth(1).context("no maxmtu")?.parse()?;
    // Ethernet header and a tag.
    Ok(mtu + 18)
}

/// Lengths at which something changes: the minimum, the size up to which frames are copied, a
/// cache line, the most.
fn corners(longest: usize) -> Vec<usize> {
    let mut lengths: Vec<usize> = (14..=26).chain(56..=72).collect();
    lengths.extend([127, 128, 129, 255, 256, 511, 512, 513, 1023, 1024, 1025]);
    lengths.extend(1510..=1518);
    lengths.extend(longest - 8..=longest);
    lengths.sort_unstable();
    lengths.dedup();
    lengths.retain(|&length| length <= longest);
    lengths
}

/// Cases in which every pair of values of two parameters occurs, with the lengths at which
/// something changes; and every length once.
fn pairs(longest: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    for length in corners(longest) {
        for fragments in 0..=FRAGMENTS {
            cases.push(Case {
                length,
                align: (length + fragments) % ALIGNMENTS,
                fragments,
                tags: (length / ALIGNMENTS + fragments) % (TAGS + 1),
            });
        }
    }
    for length in 14..=longest {
        cases.push(Case {
            length,
            align: length % ALIGNMENTS,
            fragments: length % (FRAGMENTS + 1),
            tags: length / 3 % (TAGS + 1),
        });
    }
    cases
}

/// Every length with every alignment, and with every number of fragments.
fn all(longest: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    for length in 14..=longest {
        for fragments in 0..=FRAGMENTS {
            for half in 0..2 {
                let number = cases.len();
                cases.push(Case {
                    length,
                    align: (number / 2 + 2 * half + length) % ALIGNMENTS,
                    fragments,
                    tags: (number / 3 + length) % (TAGS + 1),
                });
            }
        }
    }
    cases
}

fn check(bench: &mut Bench<'_>, cases: fn(usize) -> Vec<Case>) -> Result<()> {
    bench.up()?;
    // Frames in the order they were sent.
    bench.vm.ok(&format!(
        "tc qdisc replace dev {IFACE} root pfifo limit 1000"
    ))?;
    let longest = longest(bench)?;
    let packets: Vec<Packet> = cases(longest)
        .into_iter()
        .filter(|case| case.length >= 14 + 4 * case.tags)
        .enumerate()
        .map(|(number, case)| case.packet(number as u8))
        .collect();
    packet::exchange(bench, EXPERIMENT, &packets)
}

pub(super) fn pairwise(bench: &mut Bench<'_>) -> Result<()> {
    check(bench, pairs)
}

pub(super) fn wide(bench: &mut Bench<'_>) -> Result<()> {
    check(bench, all)
}

/// A packet that is sent many times at once, as pktgen does it, comes out each time and is not
/// written to, neither to pad it nor else.
pub(super) fn shared(bench: &mut Bench<'_>) -> Result<()> {
    const COUNT: u32 = 32;
    const LENGTHS: [usize; 13] = [14, 15, 42, 59, 60, 61, 63, 64, 65, 66, 100, 1000, 1514];
    bench.up()?;
    bench.wire()?.drain()?;
    let packets: Vec<Packet> = LENGTHS
        .into_iter()
        .flat_map(|length| (0..ALIGNMENTS as u8).map(move |align| (length, align)))
        .map(|(length, align)| Packet {
            align,
            seed: length as u8,
            way: Way::Shared,
            count: COUNT,
            ..Packet::new(header(&[], EXPERIMENT), length)
        })
        .collect();
    let result = packet::send(bench, &packets, 60)?;
    let count = packets.len() * COUNT as usize;
    ensure!(
        result.sent == count as u64 && result.changed == 0 && result.busy == 0,
        "of {count} packets: {result:?}"
    );
    let frames = packet::receive(bench, EXPERIMENT, count)?;
    for (packet, frames) in packets.iter().zip(frames.chunks(COUNT as usize)) {
        for frame in frames {
            packet::same(packet, frame)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod unit {
    use super::*;
    use std::collections::BTreeSet;

    /// How many pairs of values occur.
    fn count<A: Ord, B: Ord>(cases: &[Case], pair: impl Fn(&Case) -> (A, B)) -> usize {
        cases.iter().map(pair).collect::<BTreeSet<_>>().len()
    }

    #[test]
    fn every_pair_occurs() {
        let (longest, fragments) = (1518, FRAGMENTS + 1);
        let cases = pairs(longest);
        let lengths = corners(longest);
        let corner: Vec<Case> = cases
            .iter()
            .copied()
            .filter(|case| lengths.contains(&case.length))
            .collect();
        assert_eq!(
            count(&corner, |c| (c.length, c.align)),
            lengths.len() * ALIGNMENTS
        );
        assert_eq!(
            count(&corner, |c| (c.length, c.fragments)),
            lengths.len() * fragments
        );
        assert_eq!(
            count(&corner, |c| (c.length, c.tags)),
            lengths.len() * (TAGS + 1)
        );
        assert_eq!(
            count(&cases, |c| (c.align, c.fragments)),
            ALIGNMENTS * fragments
        );
        assert_eq!(
            count(&cases, |c| (c.align, c.tags)),
            ALIGNMENTS * (TAGS + 1)
        );
        assert_eq!(
            count(&cases, |c| (c.fragments, c.tags)),
            fragments * (TAGS + 1)
        );
        assert_eq!(count(&cases, |c| (c.length, 0)), longest - 13);
    }

    #[test]
    fn the_wide_test_has_every_length_with_everything() {
        let cases = all(1518);
        let lengths = 1518 - 13;
        assert_eq!(count(&cases, |c| (c.length, c.align)), lengths * ALIGNMENTS);
        assert_eq!(
            count(&cases, |c| (c.length, c.fragments)),
            lengths * (FRAGMENTS + 1)
        );
        assert_eq!(count(&cases, |c| (c.length, c.tags)), lengths * (TAGS + 1));
        assert_eq!(
            count(&cases, |c| (c.fragments, c.align)),
            (FRAGMENTS + 1) * ALIGNMENTS
        );
    }
}
