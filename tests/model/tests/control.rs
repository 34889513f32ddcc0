// SPDX-License-Identifier: GPL-2.0
//! The control page: streams that the guest starts by itself.

mod common;

use common::*;
use ravb_model::testing::Machine;

fn control(m: &mut Machine, offset: u64, value: u32) -> bool {
    m.model.control_write(&mut m.host, offset, value, 1234)
}

fn stream(m: &mut Machine, size: u32, count: u32, burst: u32, gap: u32, hold: bool) {
    for (offset, value) in [
        (0x04, size),
        (0x08, count),
        (0x0c, burst),
        (0x10, gap),
        (0x14, 0x88b5),
        (0x18, 1),
        (0x1c, hold.into()),
    ] {
        control(m, offset, value);
    }
    control(m, 0x20, 1000);
}

fn received(m: &Machine) -> usize {
    (0..RING).filter(|i| seen(m, rx(*i)).2 == FSINGLE).count()
}

#[test]
fn bursts_keep_their_distance() {
    let mut m = running();
    stream(&mut m, 100, 4, 2, 1_000_000, false);
    assert_eq!(m.model.control_read(0x20), 4);
    m.run(100_000);
    assert_eq!(received(&m), 2);
    assert_eq!(m.model.control_read(0x20), 2);
    m.run(800_000);
    assert_eq!(received(&m), 2);
    m.run(200_000);
    assert_eq!(received(&m), 4);
    assert_eq!(m.host.at(rx_buffer(3) + 12, 2), [0x88, 0xb5]);
    assert_eq!(m.model.control_read(0x20), 0);
    assert_clean(&m);
}

#[test]
fn a_stream_that_holds_waits_for_room() {
    let mut m = running();
    stream(&mut m, 100, 20, 1, 0, true);
    m.run(1_000_000);
    assert_eq!(received(&m) as u64, RING);
    assert_eq!(m.model.control_read(0x20), 20 - RING as u32);
    // Two descriptors are given back.
    for i in 0..2 {
        put(&mut m, rx(i), RX_SIZE, FEMPTY, rx_buffer(i));
    }
    m.run(1_000_000);
    assert_eq!(received(&m) as u64, RING);
    assert_eq!(m.model.control_read(0x20), 18 - RING as u32);
    assert!(m.json("counters")["rx_drops"]
        .as_object()
        .unwrap()
        .values()
        .all(|n| n == 0));
}

#[test]
fn a_stream_that_does_not_hold_loses_frames() {
    let mut m = running();
    stream(&mut m, 100, 20, 20, 0, false);
    m.run(1_000_000);
    assert_eq!(m.model.control_read(0x20), 0);
    assert_eq!(m.json("counters")["rx_drops"]["ring"], 20 - RING);
}

#[test]
fn udp_flows_take_turns_with_valid_checksums() {
    let mut m = running();
    for (offset, value) in [(0x04, 90), (0x08, 4), (0x0c, 4), (0x14, 0x0800), (0x18, 2)] {
        control(&mut m, offset, value);
    }
    control(&mut m, 0x20, 0);
    m.run(SETTLE);
    for i in 0..4 {
        let frame = m.host.at(rx_buffer(i), 90).to_vec();
        let result = ravb_model::toe::receive(&frame, ravb_model::toe::csr::ALL);
        assert_eq!((result.ip, result.l4), (0, 0));
        assert_eq!(frame[34..36], (5001 + i as u16 % 2).to_be_bytes());
    }
}

#[test]
fn marks_are_logged() {
    let mut m = running();
    assert!(!control(&mut m, 0x04, 60));
    assert!(control(&mut m, 0x24, 7));
    let line = m.host.log.pop().unwrap();
    assert!(
        line.contains("\"mark\":7") && line.contains("\"executed\":1234"),
        "{line}"
    );
    assert_eq!(m.model.control_read(0), u32::from_le_bytes(*b"RAVB"));
}
