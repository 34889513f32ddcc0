// SPDX-License-Identifier: GPL-2.0
//! Whatever memory holds and whatever a driver writes: the model does not panic, comes to an end,
//! and touches nothing but what descriptors name.

mod common;

use common::*;
use std::collections::BTreeSet;
use std::ops::Range;

use proptest::collection::vec;
use proptest::prelude::*;
use ravb_model::regs::{bit, reg, TABLE};
use ravb_model::testing::{Access, Machine, Memory};

/// Small memory, so that random pointers hit it.
const SIZE: u64 = 0x1000;
/// Random descriptors at its start; the rest is zero at first.
const DESCRIPTORS: u64 = 64;
/// How many of them are the base table.
const TABLE_ENTRIES: u64 = 22;

/// A machine in OPERATION with `descriptors` at the start of its memory.
fn machine(variant: &str, descriptors: &[[u8; 8]], properties: &[(&str, &str)]) -> Machine {
    let mut m = Machine::of(variant);
    for (name, value) in properties {
        m.set(name, value);
    }
    m.host.ram = descriptors.concat();
    m.host.ram.resize(SIZE as usize, 0);
    m.run(200_000_000);
    m.host.accesses = Some(Vec::new());
    if variant == "gbeth" {
        configure(&mut m);
        operate(&mut m);
    } else {
        operate_etheravb(&mut m, variant, |_| ());
    }
    m
}

fn any_variant() -> impl Strategy<Value = &'static str> {
    prop_oneof![2 => Just("gbeth"), 1 => Just("gen2"), 1 => Just("gen3"), 1 => Just("rzv2m")]
}

/// A frame for one of the queues.
fn any_frame() -> impl Strategy<Value = Vec<u8>> {
    (0..3000usize, any::<bool>()).prop_map(|(len, control)| {
        let mut frame = frame(len);
        if let (true, Some(ethertype)) = (control, frame.get_mut(12..14)) {
            ethertype.copy_from_slice(&[0x88, 0xf7]);
        }
        frame
    })
}

/// A request for all queues; those a variant does not have are its own business.
fn ring_all(m: &mut Machine) {
    m.write(reg::TCCR, bit::TCCR_TFEN | bit::TCCR_TSRQ);
}

/// A descriptor in a small memory: any type, pointers mostly to other descriptors and buffers.
fn any_descriptor() -> impl Strategy<Value = [u8; 8]> {
    let size = prop_oneof![1 => Just(0u16), 8 => 1..80u16, 1 => any::<u16>()];
    let pointer = prop_oneof![
        6 => (0..DESCRIPTORS).prop_map(|i| Memory::BASE + 8 * i),
        3 => (0..SIZE).prop_map(|i| Memory::BASE + i),
        1 => any::<u32>().prop_map(u64::from),
    ];
    let kind =
        prop_oneof![3 => 0..16u8, 1 => 4..=6u8, 2 => Just(0x7), 1 => Just(0x9), 4 => Just(0xc)];
    (size, any::<u8>(), kind, 0..16u8, pointer).prop_map(|(size, cc, kind, die, pointer)| {
        let mut bytes = descriptor(size, kind << 4 | die, pointer);
        bytes[2] = cc;
        bytes
    })
}

/// The base table, whose entries mostly are what they should be, and descriptors of any kind.
fn any_memory() -> impl Strategy<Value = Vec<[u8; 8]>> {
    let link =
        (TABLE_ENTRIES..DESCRIPTORS).prop_map(|i| descriptor(0, LINKFIX, Memory::BASE + 8 * i));
    let entry = prop_oneof![9 => link, 1 => any_descriptor()];
    let table = vec(entry, TABLE_ENTRIES as usize);
    let rings = vec(any_descriptor(), (DESCRIPTORS - TABLE_ENTRIES) as usize);
    (table, rings).prop_map(|(table, rings)| [table, rings].concat())
}

/// What happens around the device.
#[derive(Clone, Debug)]
enum Event {
    Doorbell,
    Receive(Vec<u8>),
    Run(u64),
    Store(u64, [u8; 8]),
    Write(usize, u32),
    Read(usize),
    Clock(bool),
}

fn any_event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => Just(Event::Doorbell),
        4 => any_frame().prop_map(Event::Receive),
        4 => (1..100_000u64).prop_map(Event::Run),
        4 => (0..SIZE / 8, any_descriptor())
            .prop_map(|(i, d)| Event::Store(Memory::BASE + 8 * i, d)),
        2 => (0..TABLE.len(), any::<u32>()).prop_map(|(i, value)| Event::Write(i, value)),
        1 => (0..TABLE.len()).prop_map(Event::Read),
        1 => any::<bool>().prop_map(Event::Clock),
    ]
}

fn any_properties() -> impl Strategy<Value = Vec<(&'static str, &'static str)>> {
    proptest::sample::subsequence(
        vec![
            ("watch", "on"),
            ("eager-fetch", "on"),
            ("qef-doorbell-restarts", "on"),
            ("tx-unaligned-works", "on"),
            ("rx-ring-end-open", "on"),
            ("rx-fend-total", "on"),
            ("deliver-errors", "on"),
            ("clk-off-state", "keep"),
            ("tx-part-ns", "300"),
            ("rx-part-ns", "300"),
            ("tx-completion-ns", "5000"),
        ],
        0..=11,
    )
}

fn apply(m: &mut Machine, event: Event) {
    match event {
        Event::Doorbell => ring_all(m),
        Event::Receive(frame) => m.receive(&frame),
        Event::Run(ns) => m.run(ns),
        Event::Store(addr, bytes) => m.cpu_store(addr, &bytes),
        Event::Write(i, value) => m.write(TABLE[i].offset, value),
        Event::Read(i) => {
            m.read(TABLE[i].offset);
        }
        Event::Clock(on) => m.model.set_clock(&mut m.host, on),
    }
}

/// What the engine may touch, derived from what it has read so far and from nothing else.
#[derive(Default)]
struct Permitted {
    /// Where it may look for a descriptor, transmit and receive.
    descriptors: [BTreeSet<u64>; 2],
    /// Size of their descriptors.
    strides: [u64; 2],
    /// Descriptors it may write back, by address.
    loaded: BTreeSet<u64>,
    readable: Vec<Range<u64>>,
    writable: Vec<Range<u64>>,
    /// Starts of incremental areas and what has been stored there.
    areas: BTreeSet<u64>,
}

impl Permitted {
    fn of(tx_queues: u64, rx_stride: u64) -> Self {
        let tx = (0..tx_queues).map(|q| DBAT + 8 * q).collect();
        let rx = (4..22).map(|entry| DBAT + 8 * entry).collect();
        Self {
            descriptors: [tx, rx],
            strides: [8, rx_stride],
            ..Self::default()
        }
    }

    fn is_descriptor(&self, at: u64) -> bool {
        self.descriptors.iter().any(|set| set.contains(&at))
    }

    fn check(&mut self, access: &Access) -> bool {
        let (start, end) = (access.addr, access.addr + access.data.len() as u64);
        let within =
            |ranges: &[Range<u64>]| ranges.iter().any(|r| r.start <= start && end <= r.end);
        match (access.is_write, access.data.len()) {
            (false, 1) if self.is_descriptor(start.wrapping_sub(3)) => true,
            (false, 8) if self.is_descriptor(start) => {
                self.load(start, &access.data);
                true
            }
            (false, _) => within(&self.readable),
            (true, 1) if self.loaded.contains(&start.wrapping_sub(3)) => true,
            (true, 3) if self.loaded.contains(&start) => true,
            (true, 12) if self.strides[1] == 20 && self.loaded.contains(&(start - 8)) => true,
            (true, _) if self.areas.contains(&start) => {
                self.areas.insert(end);
                true
            }
            (true, _) => within(&self.writable),
        }
    }

    fn load(&mut self, at: u64, bytes: &[u8]) {
        let pointer = u64::from(u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]));
        let size = u64::from(u16::from_le_bytes([bytes[0], bytes[1]]) & 0xfff);
        self.loaded.insert(at);
        let link = matches!(bytes[3] >> 4, 8 | 9);
        for (set, stride) in self.descriptors.iter_mut().zip(self.strides) {
            if set.contains(&at) {
                set.insert(if link { pointer } else { at + stride });
            }
        }
        match bytes[3] >> 4 {
            4..=7 => self.readable.push(pointer..pointer + size),
            0xc => self.writable.push(pointer..pointer + size),
            0xd => {
                self.areas.insert(pointer);
            }
            _ => (),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        // A quarter of what PROPTEST_CASES asks for: the default run stays below a second.
        cases: ProptestConfig::default().cases / 4,
        ..ProptestConfig::default()
    })]

    /// `run` would not return if the model asked for the timer for ever, and each timer call
    /// is bounded by itself.
    #[test]
    fn anything_goes(
        variant in any_variant(),
        descriptors in any_memory(),
        properties in any_properties(),
        events in vec(any_event(), 1..40),
    ) {
        let mut m = machine(variant, &descriptors, &properties);
        for event in events {
            apply(&mut m, event);
        }
        m.run(SETTLE);
    }

    #[test]
    fn touches_only_what_descriptors_name(
        variant in any_variant(),
        descriptors in any_memory(),
        frames in vec(any_frame(), 0..6),
    ) {
        let mut m = machine(variant, &descriptors, &[
            ("tx-unaligned-works", "on"),
            ("qef-doorbell-restarts", "on"),
            ("deliver-errors", "on"),
        ]);
        for frame in frames {
            ring_all(&mut m);
            m.receive(&frame);
            m.run(SETTLE);
        }
        let (queues, rx_stride) = if variant == "gbeth" { (1, 8) } else { (4, 20) };
        let mut permitted = Permitted::of(queues, rx_stride);
        // An area nobody has started begins at 0, which is a bus error.
        for access in m.host.accesses.take().unwrap_or_default() {
            prop_assert!(permitted.check(&access), "{access:x?}");
        }
    }
}

/// Every type in every place of a two-descriptor ring, both directions.
#[test]
fn every_pair_of_types() {
    for first in 0..16u8 {
        for second in 0..16u8 {
            let mut m = with(|m| {
                for ring in [TX_RING, RX_RING] {
                    put(m, ring, 64, first << 4 | 1, TX_BUFFERS);
                    put(m, ring + 8, 64, second << 4 | 2, TX_BUFFERS);
                    put(m, ring + 16, 0, LINKFIX, ring);
                }
            });
            doorbell(&mut m);
            m.receive(&frame(100));
            m.receive(&frame(1000));
            m.run(SETTLE);
            m.write(reg::CCC, 0);
            assert_eq!(m.read(reg::CSR) & 0xf, 1);
        }
    }
}

/// A ring of receive descriptors that are never used up: the frame ends, and so does the call.
#[test]
fn a_ring_that_swallows_for_ever() {
    let mut m = Machine::new();
    format_rings(&mut m);
    put(&mut m, rx(0), 0, FEMPTY, rx_buffer(0));
    put(&mut m, rx(1), 0, LINKFIX, RX_RING);
    m.run(200_000_000);
    configure(&mut m);
    m.write(reg::RQC0, 2);
    operate(&mut m);
    m.receive(&frame(100));
    m.run(SETTLE);
    assert_eq!(m.read(reg::CSR) & 0xf, 4);
    assert_eq!(m.read(reg::RIS2), 1);
}

/// The same in the other direction: a frame that never ends is too long at some point.
#[test]
fn a_frame_that_never_ends() {
    let mut m = with(|m| {
        put(m, tx(0), 4, FSTART, TX_BUFFERS);
        put(m, tx(1), 4, FMID, TX_BUFFERS);
        put(m, tx(2), 0, LINKFIX, tx(1));
        m.set("tx-limit", "1000000");
    });
    doorbell(&mut m);
    m.run(SETTLE);
    assert!(m.host.sent.is_empty());
    assert_ne!(violations(&m), serde_json::json!({}));
}
