// SPDX-License-Identifier: GPL-2.0
//! What the logic has to do, said a second time and in another way: from the formats, or by asking
//! the device model. Each `check` fails where the driver's answer is another.
//!
//! `tests/fuzz` checks its inputs by the same functions.

use crate::ravb_desc::{empty, is_transmitted, transmit, Part, RxError, RxWord};
use crate::ravb_frame::{can_checksum, Action, State, MAX_PARTS};
use crate::segment_sums::Headers;
use ravb_model::dmac::descriptor::{Descriptor, Kind, RX_EI, RX_TR};
use ravb_model::emac::msc;
use ravb_model::toe::{self, csr};

/// What the ring holds next: a part, or nothing that makes sense, and what the hardware says of it.
pub(crate) type Input = (Option<Part>, Option<RxError>);

/// Frames, each by the indices of its parts.
pub(crate) type Frames = Vec<Vec<usize>>;

/// What became of a sequence.
#[derive(PartialEq, Eq, Debug, Default)]
pub(crate) struct Outcome {
    /// Frames that were passed up, whole.
    pub(crate) delivered: Frames,
    /// How many frames were counted as lost.
    pub(crate) lost: usize,
    /// Parts that are kept for a frame whose end has not come.
    pub(crate) kept: Vec<usize>,
}

/// The specification. It cuts the sequence into frames first, and judges each by itself: a frame
/// ends with a `Single` or `End`, or where the next one begins with a `Single` or `Start`.
pub(crate) fn specified(inputs: &[Input]) -> Outcome {
    let mut frames: Frames = Vec::new();
    let mut open = false;
    for (i, (part, _)) in inputs.iter().enumerate() {
        let begins = matches!(part, Some(Part::Single | Part::Start));
        match frames.last_mut() {
            Some(frame) if open && !begins => frame.push(i),
            _ => frames.push(vec![i]),
        }
        open = !matches!(part, Some(Part::Single | Part::End));
    }

    let mut outcome = Outcome::default();
    let count = frames.len();
    for (n, frame) in frames.into_iter().enumerate() {
        let part = |place: usize| inputs[frame[place]].0;
        let last = frame.len() - 1;
        let good = inputs[frame[last]].1.is_none();
        let fits = frame.len() <= MAX_PARTS as usize;
        let middles = |to: usize| (1..to).all(|place| part(place) == Some(Part::Middle));

        if part(0) == Some(Part::Start) && middles(last + 1) && fits && n + 1 == count {
            outcome.kept = frame;
            continue;
        }
        let whole = match part(0) {
            Some(Part::Single) => true,
            Some(Part::Start) => last > 0 && middles(last) && part(last) == Some(Part::End),
            _ => false,
        };
        if whole && good && fits {
            outcome.delivered.push(frame);
        } else {
            outcome.lost += 1;
        }
    }
    outcome
}

/// Does what the state machine says. `refuse` says for which inputs there is no memory. Every
/// buffer is accounted for: it is in a frame, or its slot has it again.
pub(crate) fn obeyed(inputs: &[Input], refuse: impl Fn(usize) -> bool) -> Outcome {
    let mut outcome = Outcome::default();
    let mut state = State::default();
    let mut returned = Vec::new();

    for (i, &(part, error)) in inputs.iter().enumerate() {
        let step = state.step(part, error);
        if step.abort.is_some() {
            assert!(!outcome.kept.is_empty(), "abort of nothing: {inputs:?}");
            returned.append(&mut outcome.kept);
            outcome.lost += 1;
        }
        if step.error.is_some() {
            outcome.lost += 1;
        }
        let refused = refuse(i);
        match step.action {
            Action::Deliver | Action::Begin => {
                assert!(outcome.kept.is_empty(), "two frames at once: {inputs:?}");
                if refused {
                    returned.push(i);
                    outcome.lost += 1;
                    state.lose();
                } else if step.action == Action::Deliver {
                    outcome.delivered.push(vec![i]);
                } else {
                    outcome.kept.push(i);
                }
            }
            Action::Append | Action::Finish => {
                assert!(!outcome.kept.is_empty(), "append to nothing: {inputs:?}");
                outcome.kept.push(i);
                if refused {
                    outcome.lost += 1;
                    returned.append(&mut outcome.kept);
                    state.lose();
                } else if step.action == Action::Finish {
                    outcome.delivered.push(std::mem::take(&mut outcome.kept));
                }
            }
            Action::Drop => returned.push(i),
        }
        assert_eq!(
            !outcome.kept.is_empty(),
            matches!(state, State::Partial(_)),
            "what is kept and the state disagree: {inputs:?}"
        );
    }
    let frames = outcome.delivered.iter().flatten().chain(&outcome.kept);
    let mut buffers: Vec<usize> = frames.chain(&returned).copied().collect();
    buffers.sort_unstable();
    assert!(
        buffers.iter().copied().eq(0..inputs.len()),
        "buffers are lost, or used twice: {inputs:?}"
    );
    outcome
}

/// How much a slot takes.
pub(crate) const CAPACITY: u32 = 1664;

/// What the driver's poll makes of a word.
fn input(word: u32) -> Input {
    let word = RxWord::new(word).expect("the hardware has left it");
    let makes_sense = (1..=CAPACITY).contains(&word.size());
    (word.part().filter(|_| makes_sense), word.error())
}

/// A ring of whatever the hardware may leave in it, with memory that runs out at any place: each of
/// `slots` is the first word of a descriptor, and whether there is no memory for it. What can be
/// delivered is, each loss is counted once, and no buffer is lost.
pub(crate) fn check_ring(slots: &[(u32, bool)]) {
    let inputs: Vec<Input> = slots.iter().map(|&(word, _)| input(word)).collect();
    let refuse = |i: usize| slots[i].1;
    let refused_in = |frame: &Vec<usize>| frame.iter().any(|&i| refuse(i));
    let calm = specified(&inputs);
    let outcome = obeyed(&inputs, refuse);

    let (hit, expected): (Frames, Frames) = calm
        .delivered
        .into_iter()
        .partition(|frame| refused_in(frame));
    assert_eq!(outcome.delivered, expected, "delivered of {inputs:?}");
    let kept_hit = usize::from(refused_in(&calm.kept));
    let lost = calm.lost + hit.len() + kept_hit;
    assert_eq!(outcome.lost, lost, "lost of {inputs:?}");
    let kept = if kept_hit == 0 { calm.kept } else { Vec::new() };
    assert_eq!(outcome.kept, kept, "kept of {inputs:?}");
}

/// A word as the device reads it.
fn descriptor(word: u32) -> Descriptor {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&word.to_le_bytes());
    Descriptor { addr: 0, bytes }
}

/// What the MAC says is wrong with a frame; of several things the first.
fn mac_error(status: u8) -> Option<RxError> {
    let causes = [
        (msc::CRC, RxError::Crc),
        (msc::RFE | msc::FRACTION, RxError::Frame),
        (msc::TOO_SHORT | msc::TOO_LONG, RxError::Length),
    ];
    let found = causes.iter().find(|(bits, _)| status & bits != 0);
    found.map(|&(_, error)| error)
}

/// Why a frame with this status is lost.
pub(crate) fn expected_error(status: u8, truncated: bool, incomplete: bool) -> Option<RxError> {
    mac_error(status)
        .or((status & msc::CARRIER_EXTENSION != 0).then_some(RxError::Carrier))
        .or(truncated.then_some(RxError::Length))
        .or(incomplete.then_some(RxError::Incomplete))
}

/// What is neither type nor size in the first word of a descriptor.
const CONTROL: u32 = 0x0fff_f000;

/// The first word of any descriptor means the same to the driver and the device.
pub(crate) fn check_word(word: u32) {
    let device = descriptor(word);
    let is_empty = device.kind() == Kind::Empty;
    assert_eq!(is_transmitted(word), is_empty, "{word:#010x}");

    // In both directions, whatever is beside the size; and nothing else is asked for.
    let given = descriptor(empty(word));
    assert_eq!((given.kind(), given.size()), (Kind::Empty, device.size()));
    assert_eq!(empty(word) & CONTROL, 0, "{word:#010x}");
    assert!(RxWord::new(empty(word)).is_none(), "{word:#010x}");

    let Some(read) = RxWord::new(word) else {
        assert!(is_empty, "{word:#010x}");
        return;
    };
    assert!(!is_empty, "{word:#010x}");
    assert_eq!(read.size() as usize, device.size(), "{word:#010x}");
    let part = match device.kind() {
        Kind::Single => Some(Part::Single),
        Kind::Start => Some(Part::Start),
        Kind::Mid => Some(Part::Middle),
        Kind::End => Some(Part::End),
        _ => None,
    };
    assert_eq!(read.part(), part, "{word:#010x}");
    if let Some(part) = part {
        let word = transmit(part, word);
        let sent = descriptor(word);
        assert!(!is_transmitted(word));
        assert_eq!((sent.kind(), sent.size()), (device.kind(), device.size()));
        assert_eq!(word & CONTROL, 0, "{word:#010x}");
    }

    let [low, high, mac, _] = word.to_le_bytes();
    let flags = u16::from_le_bytes([low, high]);
    let (truncated, incomplete) = (flags & RX_TR != 0, flags & RX_EI != 0);
    let error = expected_error(mac, truncated, incomplete);
    let status = read.status();
    assert_eq!(status.mac_error(), mac_error(mac), "{word:#010x}");
    assert_eq!(status.error(), error, "{word:#010x}");
    assert_eq!(read.error(), error, "{word:#010x}");
    let good = part == Some(Part::Single) && error.is_none();
    assert_eq!(read.is_good_frame(), good, "{word:#010x}");
    let damaged = mac & msc::ERRORS & !msc::CARRIER_LOST != 0 && !truncated;
    assert_eq!(status.is_damaged(), damaged, "{word:#010x}");
    let multicast = mac & msc::MULTICAST != 0;
    assert_eq!(status.is_multicast(), multicast, "{word:#010x}");
}

/// What [`can_checksum`] promises, written from the formats of the headers.
fn is_plain_tcp_or_udp(frame: &[u8]) -> bool {
    let Some((_addresses, mut rest)) = frame.split_at_checked(12) else {
        return false;
    };
    if let [0x81, 0x00, _, _, inner @ ..] = rest {
        rest = inner;
    }
    match rest {
        [0x08, 0x00, ip @ ..] if ip.len() >= 10 => {
            let more_fragments = ip[6] & 0x20 != 0;
            let offset = u16::from_be_bytes([ip[6] & 0x1f, ip[7]]);
            !more_fragments && offset == 0 && matches!(ip[9], 6 | 17)
        }
        [0x86, 0xdd, ip @ ..] if ip.len() >= 7 => matches!(ip[6], 6 | 17),
        _ => false,
    }
}

/// What the driver has the engine compute.
const CSR1: u32 = csr::TCP4 | csr::UDP4 | csr::TCP6 | csr::UDP6;

/// A frame that looks like TCP or UDP, with all that is not looked at made right: version, lengths,
/// and a checksum that is not the one that stands for none. And where its headers are.
fn mended(frame: &[u8]) -> (Vec<u8>, Headers) {
    let mut frame = frame.to_vec();
    let network = if frame[12..14] == [0x81, 0x00] {
        18
    } else {
        14
    };
    let ipv6 = frame[network - 2..network] == [0x86, 0xdd];
    // Room for headers of all lengths.
    frame.resize(frame.len().max(network + 60 + 20), 0);
    let len = (frame.len() - network) as u16;
    let ip = &mut frame[network..];
    let (protocol, header_len) = if ipv6 {
        ip[0] = 0x60 | ip[0] & 0xf;
        ip[4..6].copy_from_slice(&(len - 40).to_be_bytes());
        (ip[6], 40)
    } else {
        let words = (ip[0] & 0xf).max(5);
        ip[0] = 0x40 | words;
        ip[2..4].copy_from_slice(&len.to_be_bytes());
        (ip[9], usize::from(words) * 4)
    };
    let segment = &mut ip[header_len..];
    let transport_len = if protocol == UDP {
        let len = segment.len() as u16;
        segment[4..6].copy_from_slice(&len.to_be_bytes());
        segment[6] |= 1;
        8
    } else {
        segment[16] |= 1;
        20
    };
    let transport = network + header_len;
    let headers = Headers {
        network,
        transport,
        payload: transport + transport_len,
        ipv6,
    };
    (frame, headers)
}

/// The protocol's number.
const UDP: u8 = 17;

/// A frame that is one segment of a packet which was `more` bytes longer: its headers have the
/// checksums of that, until they are set to those of the segment. The device tells whether they
/// are right.
fn check_segment(mut frame: Vec<u8>, headers: Headers, more: usize) {
    let Headers {
        network,
        transport,
        payload,
        ipv6,
    } = headers;
    let (addresses, protocol) = match ipv6 {
        true => (network + 8..network + 40, frame[network + 6]),
        false => (network + 12..network + 20, frame[network + 9]),
    };
    let packet_len = frame.len() + more;
    let whole = (packet_len - transport) as u32;
    let pseudo = [&frame[addresses], &[0, protocol], &whole.to_be_bytes()].concat();
    let field = transport + if protocol == UDP { 6 } else { 16 };
    // It is in the order of the wire in memory.
    let seed = toe::ones_complement_sum(&pseudo).to_le_bytes();
    frame[field..field + 2].copy_from_slice(&seed);

    let part = (frame.len() - payload) as u32;
    let before = frame.clone();
    headers.set_checksums(&mut frame[..payload], packet_len, part);
    assert!(
        toe::is_left_to_engine(&frame, CSR1),
        "of {whole}: {frame:02x?}"
    );
    if !ipv6 {
        let result = toe::receive(&frame, csr::IP4);
        assert_eq!(result.ip, toe::GOOD, "{frame:02x?}");
    }
    let checksums = [network + 10..network + 12, field..field + 2];
    for (at, (old, new)) in before.iter().zip(&frame).enumerate() {
        let of_ipv4 = !ipv6 && checksums[0].contains(&at);
        assert!(
            old == new || of_ipv4 || checksums[1].contains(&at),
            "byte {at}: {frame:02x?}"
        );
    }
}

/// The driver leaves to the checksum engine what that computes, and what it does not leave to the
/// engine stays as it is; the headers of a segment are what the engine needs.
pub(crate) fn check_frame(frame: &[u8]) {
    let can = can_checksum(frame);
    assert_eq!(can, is_plain_tcp_or_udp(frame), "{frame:02x?}");
    let mut sent = frame.to_vec();
    let computed = toe::transmit(&mut sent, CSR1);
    assert!(can || !computed, "changed by the engine: {frame:02x?}");
    if can {
        let (mut whole, headers) = mended(frame);
        assert!(can_checksum(&whole), "{whole:02x?}");
        // The first bytes are addresses of no meaning.
        let more = u32::from_le_bytes([frame[0], frame[1], frame[2] & 0xf, 0]);
        check_segment(whole.clone(), headers, more as usize);
        assert!(toe::transmit(&mut whole, CSR1), "{whole:02x?}");
        assert_eq!(toe::receive(&whole, CSR1).l4, toe::GOOD, "{whole:02x?}");
    }
}
