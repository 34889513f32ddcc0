// SPDX-License-Identifier: GPL-2.0
//! Frames in and out, as the upstream driver programs the device.

mod common;

use common::*;
use ravb_model::regs::reg;

#[test]
fn one_frame_out() {
    let mut m = running();
    let frame = frame(100);
    queue_tx(&mut m, 0, &frame);
    doorbell(&mut m);
    // Nothing happens inside the register write.
    assert!(m.host.sent.is_empty());
    assert_eq!(m.read(reg::TCCR) & 1, 1);
    m.run(SETTLE);
    assert_eq!(m.host.sent.len(), 1);
    assert_eq!(m.host.sent[0].1, frame);
    assert_eq!(seen(&m, tx(0)), (100, 0, FEMPTY));
    assert_eq!(m.read(reg::TIS), 1);
    assert_eq!(m.read(reg::ISS), 4);
    assert!(m.host.lines[0]);
    assert_eq!(m.read(reg::TCCR) & 1, 0);
    m.write(reg::TIS, !(1 | 0xfff0_f0f0));
    assert!(!m.host.lines[0]);
    assert_clean(&m);
}

#[test]
fn one_frame_in() {
    let mut m = running();
    let frame = frame(200);
    m.receive(&frame);
    assert_eq!(seen(&m, rx(0)).2, FEMPTY);
    m.run(SETTLE);
    // Four bytes of checksum status follow the frame.
    assert_eq!(seen(&m, rx(0)), (204, 0, FSINGLE));
    assert_eq!(m.host.at(rx_buffer(0), 200), frame);
    assert_eq!(m.host.at(rx_buffer(0) + 200, 4), [0xff; 4]);
    assert_eq!(m.read(reg::RIS0), 1);
    assert_eq!(m.read(reg::ISS), 1);
    assert!(m.host.lines[0]);
    assert_clean(&m);
}
