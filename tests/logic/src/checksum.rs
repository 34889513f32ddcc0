// SPDX-License-Identifier: GPL-2.0
//! What the driver makes of the results of the checksum engines, for every kind of frame: the
//! model's engine checks it as the driver has set it up, the driver's functions read the result.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::ravb_desc::RxWord;
use crate::ravb_frame::{checksum_is_good, Action, State, VERDICTS_LEN};
use ravb_frames::{Addresses, Damage, Kind, Network};
use ravb_model::toe::{self, csr};

/// What the driver asks the engine for.
const CSR2: u32 = csr::TCP4 | csr::UDP4 | csr::ICMP4 | csr::TCP6 | csr::UDP6 | csr::ICMP6;

/// How much a descriptor of GbEth takes.
const CAPACITY: usize = 1664;

fn trailer(frame: &[u8], csr2: u32) -> [u8; VERDICTS_LEN] {
    let result = toe::receive(frame, csr2);
    let [a, b] = result.ip.to_le_bytes();
    let [c, d] = result.l4.to_le_bytes();
    [a, b, c, d]
}

/// Cuts what the device stores into parts, as the first words of descriptors and their data.
fn parts(stored: &[u8]) -> impl Iterator<Item = (RxWord, &[u8])> {
    let last = stored.len().div_ceil(CAPACITY) - 1;
    stored.chunks(CAPACITY).enumerate().map(move |(n, data)| {
        let kind = match (n == 0, n == last) {
            (true, true) => 0x7,
            (true, false) => 0x5,
            (false, true) => 0x6,
            (false, false) => 0x4,
        };
        let word = RxWord::new(kind << 28 | data.len() as u32);
        (word.expect("none of these is an empty one"), data)
    })
}

/// Puts parts together as the state machine says. Returns the frame and its trailer.
fn assembled(stored: &[u8]) -> Option<(Vec<u8>, [u8; VERDICTS_LEN])> {
    let mut state = State::default();
    let mut frame = Vec::new();
    let mut whole = false;
    for (word, data) in parts(stored) {
        assert!(!whole && word.size() as usize == data.len());
        let step = state.step(word.part(), word.status().error());
        whole = matches!(step.action, Action::Deliver | Action::Finish);
        let kept = whole || matches!(step.action, Action::Begin | Action::Append);
        assert!(kept && step.error.or(step.abort).is_none());
        frame.extend_from_slice(data);
    }
    let trailer = *frame.last_chunk()?;
    frame.truncate(frame.len() - VERDICTS_LEN);
    (whole && state == State::Idle).then_some((frame, trailer))
}

/// Frames of one kind in all `sizes` get the right verdict, and come out as they went in.
fn judged(kind: Kind, sizes: impl Iterator<Item = usize>) -> usize {
    let mut count = 0;
    for size in sizes.filter(|&size| size >= kind.min_len()) {
        let frame = kind.frame(&Addresses::NOBODY, size, size as u32);
        let trailer = trailer(&frame, CSR2);
        assert_eq!(
            checksum_is_good(trailer),
            kind.is_verified(),
            "{kind:?} of {size} bytes: {trailer:02x?}"
        );
        // An engine that also checks the header can only find more that is wrong.
        let wrong_header = kind.network == Network::Ip4 && kind.damage == Damage::Header;
        assert_eq!(
            checksum_is_good(self::trailer(&frame, CSR2 | csr::IP4)),
            kind.is_verified() && !wrong_header,
            "{kind:?} of {size} bytes, with its header"
        );

        let stored = [&frame[..], &trailer].concat();
        let got = assembled(&stored).expect("a whole frame");
        assert!(got == (frame, trailer), "{kind:?} of {size} bytes changed");
        count += 1;
    }
    count
}

/// Runs `judged` for every kind on all processors, and returns the number of frames.
fn every_kind(sizes: impl Fn() -> Box<dyn Iterator<Item = usize>> + Sync) -> usize {
    let kinds = Kind::all();
    let next = AtomicUsize::new(0);
    let count = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(&kind) = kinds.get(next.fetch_add(1, Relaxed)) {
                    count.fetch_add(judged(kind, sizes()), Relaxed);
                }
            });
        }
    });
    count.into_inner()
}

/// Where the end of a frame, or of its trailer, is near the end of a descriptor.
fn near_a_boundary(size: usize) -> bool {
    let off = |length: usize| (length + 6) % CAPACITY <= 12;
    size > 1500 && (off(size) || off(size + VERDICTS_LEN))
}

#[test]
fn every_kind_of_every_usual_size_and_at_boundaries() {
    let count = every_kind(|| {
        let long = (1523..=8192).filter(|&size| near_a_boundary(size));
        Box::new((60..=1522).chain(long))
    });
    // Only what has no room for its headers is left out.
    assert!(count > 540_000, "{count}");
}

/// Twelve gigabytes of frames: `host-logic-every-size`, of `make check-all`.
#[test]
#[ignore = "takes a minute"]
fn every_kind_of_every_size() {
    let count = every_kind(|| Box::new(60..=8192));
    assert!(count > 2_900_000, "{count}");
}

/// The sum that EtherAVB appends is the one that the network stack would compute.
#[test]
fn sums_are_those_of_the_formats() {
    for kind in Kind::all() {
        for size in kind.min_len()..kind.min_len() + 70 {
            let frame = kind.frame(&Addresses::NOBODY, size, size as u32);
            // In memory the bytes are in the order of the wire.
            let sum = toe::ones_complement_sum(&frame[14..]).to_le_bytes();
            assert_eq!(
                u16::from_be_bytes(sum),
                ravb_frames::sum(&frame[14..]),
                "{kind:?} of {size} bytes"
            );
        }
    }
}

/// The comparison above can fail.
#[test]
fn a_changed_frame_is_not_taken_for_good() {
    let kind = Kind::all().into_iter().find(Kind::is_verified).unwrap();
    let mut frame = kind.frame(&Addresses::NOBODY, 200, 1);
    assert!(checksum_is_good(trailer(&frame, CSR2)));
    frame[150] ^= 1;
    assert!(!checksum_is_good(trailer(&frame, CSR2)));
}
