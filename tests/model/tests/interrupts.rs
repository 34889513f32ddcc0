// SPDX-License-Identifier: GPL-2.0
//! Interrupt status, masks, and the line.

mod common;

use common::*;
use ravb_model::regs::{bit, reg};

#[test]
fn status_latches_whatever_the_mask_says() {
    let mut m = running();
    m.write(reg::RIC0, 0);
    m.receive(&frame(100));
    m.run(SETTLE);
    assert_eq!(m.read(reg::RIS0), 1);
    assert_eq!(m.read(reg::ISS), 0);
    assert!(!m.host.lines[0]);
    m.write(reg::RIC0, 1);
    assert!(m.host.lines[0]);
    assert_eq!(m.read(reg::ISS), bit::ISS_FRS);
    m.write(reg::RIC0, 0);
    assert!(!m.host.lines[0]);
}

#[test]
fn writing_zero_clears_and_one_keeps() {
    let mut m = running();
    m.receive(&frame(100));
    m.run(SETTLE);
    m.write(reg::RIS0, 0x3_ffff);
    assert_eq!(m.read(reg::RIS0), 1);
    m.write(reg::RIS0, 0x3_fffe);
    assert_eq!(m.read(reg::RIS0), 0);
    // A one never sets a bit.
    m.write(reg::RIS0, 0x3_ffff);
    assert_eq!(m.read(reg::RIS0), 0);
    assert_clean(&m);
}

#[test]
fn the_line_is_the_or_of_all() {
    let mut m = running();
    m.receive(&frame(100));
    queue_tx(&mut m, 0, &frame(100));
    doorbell(&mut m);
    m.run(SETTLE);
    m.write(reg::RIS0, 0x3_fffe);
    assert!(m.host.lines[0]);
    m.write(reg::TIS, 0x000f_0f0e);
    assert!(!m.host.lines[0]);
    assert_eq!(
        m.json("counters")["irq_edges"],
        serde_json::json!([1, 0, 0, 0])
    );
}

#[test]
fn edges_and_coalesced_frames_are_counted() {
    let mut m = running();
    for n in 0..5 {
        m.receive(&frame(100));
        m.run(SETTLE);
        if n % 2 == 1 {
            m.write(reg::RIS0, 0x3_fffe);
        }
    }
    let counters = m.json("counters");
    assert_eq!(counters["irq_edges"][0], 3);
    assert_eq!(counters["frames_coalesced"], 2);
    assert_eq!(counters["frames"]["rx0"], 5);
    assert_eq!(counters["bytes"]["rx0"], 500);
}

#[test]
fn the_phy_has_a_line_of_its_own() {
    let mut m = running();
    let line = m.model.irqs();
    assert_eq!(line, 3);
    assert!(!m.host.lines[line]);
    // KSZ9131 interrupt enable: link up and link down.
    mdio_write(&mut m, 7, 0x1b, 0x0500);
    mdio_read(&mut m, 7, 0x1b);
    m.set("cable", "off");
    assert!(m.host.lines[line]);
    assert_eq!(m.read(reg::ECSR) & bit::ECSR_PHYI, bit::ECSR_PHYI);
    assert_ne!(mdio_read(&mut m, 7, 0x1b) & 0xff, 0);
    assert!(!m.host.lines[line]);
    m.set("cable", "on");
    m.run(200_000_000);
    assert!(m.host.lines[line]);
}

#[test]
fn the_management_bus() {
    let mut m = running();
    assert_eq!(mdio_read(&mut m, 7, 2), 0x0022);
    assert_eq!(mdio_read(&mut m, 7, 3), 0x1640);
    assert_eq!(mdio_read(&mut m, 6, 2), 0xffff);
    // In RESET mode nobody answers.
    m.write(reg::CCC, 0);
    assert_eq!(mdio_read(&mut m, 7, 2), 0xffff);
    let mut m = ravb_model::testing::Machine::new();
    m.set("phy-address", "0");
    m.set("phy-id", "0x00221622");
    m.write(reg::CCC, 1);
    assert_eq!(mdio_read(&mut m, 0, 3), 0x1622);
    assert_clean(&m);
}
