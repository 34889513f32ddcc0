// SPDX-License-Identifier: GPL-2.0
//! Packets of a chosen layout in memory, sent by the guest's module `lab_tx`.

use crate::check::Bench;
use anyhow::{ensure, Context, Result};
use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use std::time::Duration;

/// How a packet is sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Way {
    /// Through the device's queueing discipline.
    Stack,
    /// The same, the next one when the device is done with this one.
    Alone,
    /// One packet many times straight to the driver, as pktgen does it.
    Shared,
    /// Through a packet socket.
    Socket,
}

/// A fragment: bytes of a page of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Fragment {
    pub(super) length: usize,
    /// Where in the page it begins.
    pub(super) offset: usize,
}

/// A packet and how it lies in memory.
#[derive(Clone, Debug)]
pub(super) struct Packet {
    /// Its first bytes; a generator makes the others.
    pub(super) given: Vec<u8>,
    /// Start of the generator.
    pub(super) seed: u8,
    /// Bytes in the head.
    pub(super) head: usize,
    /// Address of the head, modulo 64.
    pub(super) align: u8,
    /// What is behind the head.
    pub(super) fragments: Vec<Fragment>,
    /// Where the sum that is left to the device starts, and where behind that it belongs.
    pub(super) checksum: Option<(usize, usize)>,
    /// Bytes of payload in each segment, if it is to be sent in segments. The checksum says which
    /// protocol it is.
    pub(super) segment: Option<usize>,
    /// How it is sent.
    pub(super) way: Way,
    /// How often it is sent.
    pub(super) count: u32,
}

impl Packet {
    /// A packet of `length` bytes all in its head, aligned to 64 bytes, that begins with `given`.
    pub(super) fn new(given: Vec<u8>, length: usize) -> Packet {
        Packet {
            head: length.max(given.len()),
            given,
            seed: 0,
            align: 0,
            fragments: Vec::new(),
            checksum: None,
            segment: None,
            way: Way::Stack,
            count: 1,
        }
    }

    /// How long it is.
    pub(super) fn length(&self) -> usize {
        self.head
            + self
                .fragments
                .iter()
                .map(|fragment| fragment.length)
                .sum::<usize>()
    }

    /// Moves all but the first `head` bytes into `count` fragments, as far as there is a byte for
    /// each. Every second fragment is shorter than the hardware's alignment, and they begin at all
    /// offsets.
    pub(super) fn split(mut self, head: usize, count: usize) -> Packet {
        let length = self.length();
        if count == 0 || head >= length {
            return self;
        }
        self.head = head;
        let mut rest = length - head;
        let count = count.min(rest);
        for index in 0..count {
            let left = count - index - 1;
            let room = rest - left;
            let share = match (left, index % 2) {
                (0, _) => room,
                (_, 0) => (rest / count).clamp(1, room),
                (_, _) => (1 + index / 2 % 3).min(room),
            };
            self.fragments.push(Fragment {
                length: share,
                offset: (usize::from(self.seed) + index * 5) % 8,
            });
            rest -= share;
        }
        self
    }

    /// What must be on the wire, but for padding and checksum.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut bytes = self.given.clone();
        let mut state = u32::from(self.seed) | 0x100;
        while bytes.len() < self.length() {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            bytes.push((state >> 24) as u8);
        }
        bytes
    }

    /// The request for the module.
    fn encode(&self, out: &mut Vec<u8>) {
        let (start, offset) = self.checksum.unwrap_or_default();
        out.extend_from_slice(&self.count.to_le_bytes());
        let segment = self.segment.unwrap_or_default();
        for word in [
            self.length(),
            self.given.len(),
            self.head,
            start,
            offset,
            segment,
        ] {
            out.extend_from_slice(&(word as u16).to_le_bytes());
        }
        out.extend_from_slice(&[
            self.align,
            self.seed,
            self.way as u8,
            self.fragments.len() as u8,
        ]);
        for fragment in &self.fragments {
            out.extend_from_slice(&(fragment.length as u16).to_le_bytes());
            out.extend_from_slice(&(fragment.offset as u16).to_le_bytes());
        }
        out.extend_from_slice(&self.given);
    }
}

/// What became of packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sent {
    /// Taken by the device or its queue.
    pub(super) sent: u64,
    /// Refused by the stack.
    pub(super) refused: u64,
    /// Given back by the driver although its queue was not stopped.
    pub(super) busy: u64,
    /// Shared packets that the driver wrote to.
    pub(super) changed: u64,
    /// The longest that one took on its way.
    pub(super) slowest: Duration,
}

/// Loads the module.
pub(super) fn load(bench: &mut Bench<'_>) -> Result<()> {
    let script = "[ -e /sys/kernel/debug/lab_tx ] || insmod /lab/lab_tx.ko";
    bench.vm.ok(script).map(drop)
}

/// Sends packets and waits until the device is done with them, for at most `seconds` seconds.
pub(super) fn send(bench: &mut Bench<'_>, packets: &[Packet], seconds: u64) -> Result<Sent> {
    let mut requests = Vec::new();
    packets
        .iter()
        .for_each(|packet| packet.encode(&mut requests));
    load(bench)?;
    // The module takes all requests in one write.
    let script = format!(
        "file=/sys/kernel/debug/lab_tx
         base64 -d > /tmp/lab_tx << END || exit 1\n{}\nEND
         dd if=/tmp/lab_tx of=$file bs=64M 2>/dev/null || {{ echo 'lab_tx: failed'; exit 1; }}
         cat $file",
        STANDARD.encode(requests)
    );
    let text = bench.vm.ok_within(&script, seconds)?;
    let numbers: Vec<u64> = text
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .with_context(|| format!("lab_tx says {text:?}"))?;
    let [sent, refused, busy, changed, slowest] = numbers[..] else {
        anyhow::bail!("lab_tx says {text:?}");
    };
    Ok(Sent {
        sent,
        refused,
        busy,
        changed,
        slowest: Duration::from_nanos(slowest),
    })
}

/// Takes `count` frames of the EtherType `kind`, behind any VLAN tags, off the wire.
pub(super) fn receive(bench: &Bench<'_>, kind: u16, count: usize) -> Result<Vec<Vec<u8>>> {
    const PATIENCE: Duration = Duration::from_secs(5);
    let mut frames = Vec::with_capacity(count);
    while frames.len() < count {
        match bench
            .wire()?
            .expect(PATIENCE, |frame| inner_type(frame) == Some(kind))?
        {
            Some(frame) => frames.push(frame),
            None => break,
        }
    }
    ensure!(
        frames.len() == count,
        "{} of {count} frames were on the wire",
        frames.len()
    );
    Ok(frames)
}

/// The EtherType behind any VLAN tags.
pub(super) fn inner_type(frame: &[u8]) -> Option<u16> {
    const TAGS: [u16; 2] = [0x8100, 0x88a8];
    let mut words = frame
        .get(12..)?
        .chunks_exact(2)
        .map(|word| u16::from_be_bytes([word[0], word[1]]));
    let mut kind = words.next()?;
    while TAGS.contains(&kind) {
        kind = words.nth(1)?;
    }
    Some(kind)
}

/// Sends packets, a manageable number at a time, and compares each frame on the wire byte by byte
/// with what was asked for: padded with zeroes to the minimum and not a byte more.
pub(super) fn exchange(bench: &mut Bench<'_>, kind: u16, packets: &[Packet]) -> Result<()> {
    const BATCH: usize = 500;
    bench.wire()?.drain()?;
    for batch in packets.chunks(BATCH) {
        let result = send(bench, batch, 60)?;
        ensure!(
            result.sent == batch.len() as u64 && result.busy == 0 && result.changed == 0,
            "of {} packets: {result:?}",
            batch.len()
        );
        let frames = receive(bench, kind, batch.len())?;
        for (packet, frame) in batch.iter().zip(&frames) {
            same(packet, frame)?;
        }
    }
    let more = bench.wire()?.expect(Duration::from_millis(20), |frame| {
        inner_type(frame) == Some(kind)
    })?;
    ensure!(more.is_none(), "a frame was sent that nobody asked for");
    Ok(())
}

/// Whether a frame is the packet with its padding.
pub(super) fn same(packet: &Packet, frame: &[u8]) -> Result<()> {
    let mut expected = packet.bytes();
    expected.resize(expected.len().max(60), 0);
    let differs = expected.iter().zip(frame).position(|(a, b)| a != b);
    ensure!(
        frame == expected,
        "{packet:?}: {} bytes came out as {}, first difference at {differs:?}",
        expected.len(),
        frame.len()
    );
    Ok(())
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn splitting_keeps_every_byte() {
        for length in 15..200 {
            for count in 0..=17 {
                let whole = Packet::new(vec![0; 14], length);
                let split = whole.clone().split(14, count);
                assert_eq!(split.length(), length);
                assert_eq!(split.bytes(), whole.bytes());
                assert_eq!(split.fragments.len(), count.min(length - 14));
                assert!(split.fragments.iter().all(|fragment| fragment.length > 0));
            }
        }
    }

    #[test]
    fn tags_are_looked_behind() {
        let mut frame = vec![0; 12];
        frame.extend_from_slice(&[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 0x88, 0xb5]);
        assert_eq!(inner_type(&frame), Some(0x88b5));
        assert_eq!(inner_type(&frame[..14]), None);
    }
}
