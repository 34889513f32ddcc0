// SPDX-License-Identifier: GPL-2.0
//! Operating modes, clock and reset.

mod common;

use common::*;
use ravb_model::regs::{bit, reg};
use ravb_model::rules::Rule;
use ravb_model::testing::Machine;
use ravb_model::Mode;

fn ops(m: &mut Machine) -> u32 {
    m.read(reg::CSR) & 0xf
}

#[test]
fn csr_follows_ccc() {
    let mut m = Machine::new();
    assert_eq!(ops(&mut m), 1);
    for (opc, expected) in [(1, 2), (2, 4)] {
        m.write(reg::CCC, opc);
        assert_eq!(ops(&mut m), expected);
    }
    // The checksum engine is off: OPERATION cannot be left but for RESET.
    m.write(reg::CCC, 1);
    assert_eq!(ops(&mut m), 4);
    m.write(reg::CCC, 0);
    assert_eq!(ops(&mut m), 1);
    m.write(reg::CCC, 3);
    assert_eq!(ops(&mut m), 8);
}

#[test]
fn config_is_not_to_be_skipped() {
    let mut m = Machine::new();
    m.write(reg::CCC, 2);
    assert_eq!(m.model.violations(Rule::ModeTransition), 1);
    let mut m = Machine::new();
    m.write(reg::CCC, 1);
    m.write(reg::CCC, 2);
    assert_clean(&m);
}

#[test]
fn leaving_operation_waits_for_transmission() {
    let mut m = running();
    queue_tx(&mut m, 0, &frame(1000));
    doorbell(&mut m);
    assert_eq!(m.read(reg::CSR) & bit::CSR_TPO0, bit::CSR_TPO0);
    m.write(reg::CCC, 1);
    assert_eq!(ops(&mut m), 4);
    m.run(SETTLE);
    assert_eq!(ops(&mut m), 2);
    assert_eq!(m.host.sent.len(), 1);
    assert_eq!(m.read(reg::CSR) & bit::CSR_TPO0, 0);
}

#[test]
fn leaving_operation_waits_for_the_checksum_engine() {
    let mut m = running();
    m.write(reg::CSR0, bit::CSR0_TPE);
    m.write(reg::CCC, 1);
    m.run(SETTLE);
    assert_eq!(ops(&mut m), 4);
    m.write(reg::CSR0, bit::CSR0_TPE | bit::CSR0_RPE);
    assert_eq!(ops(&mut m), 2);

    let mut m = running();
    m.set("toe-blocks-config", "off");
    m.write(reg::CSR0, 0);
    m.write(reg::CCC, 1);
    assert_eq!(ops(&mut m), 2);
}

#[test]
fn reset_mode_is_entered_at_any_time() {
    let mut m = running();
    queue_tx(&mut m, 0, &frame(1000));
    doorbell(&mut m);
    m.write(reg::CCC, 0);
    assert_eq!(ops(&mut m), 1);
    m.run(SETTLE);
    assert!(m.host.sent.is_empty());
    assert_eq!(seen(&m, tx(0)).2, FSINGLE);
}

#[test]
fn no_dma_outside_operation() {
    for ccc in [0, 1] {
        let mut m = running();
        m.write(reg::CCC, ccc);
        m.host.accesses = Some(Vec::new());
        m.receive(&frame(100));
        doorbell(&mut m);
        m.run(SETTLE);
        assert_eq!(m.host.accesses, Some(Vec::new()));
        assert_eq!(m.json("counters")["rx_drops"]["disabled"], 1);
    }
}

#[test]
fn a_doorbell_outside_operation_is_lost() {
    let mut m = Machine::new();
    format_rings(&mut m);
    m.run(200_000_000);
    configure(&mut m);
    queue_tx(&mut m, 0, &frame(100));
    doorbell(&mut m);
    assert_eq!(m.model.violations(Rule::DoorbellOutsideOperation), 1);
    operate(&mut m);
    m.run(SETTLE);
    assert!(m.host.sent.is_empty());
    doorbell(&mut m);
    m.run(SETTLE);
    assert_eq!(m.host.sent.len(), 1);
}

#[test]
fn registers_survive_config_but_not_reset() {
    let mut m = running();
    m.write(reg::CCC, 1);
    assert_eq!(m.read(reg::RFLR), 8196);
    assert_eq!(m.read(reg::DBAT), DBAT as u32);
    m.write(reg::CCC, 0);
    m.write(reg::CCC, 1);
    for offset in [
        reg::RFLR,
        reg::DBAT,
        reg::ECMR,
        reg::CSR0,
        reg::MAHR,
        reg::RIC0,
    ] {
        assert_eq!(m.read(offset), 0, "{offset:#x}");
    }
}

#[test]
fn the_address_may_survive_reset() {
    let mut m = running();
    m.set("mac-survives-reset", "on");
    m.write(reg::CCC, 0);
    m.write(reg::CCC, 1);
    assert_eq!(m.read(reg::MAHR), 0x0200_0000);
    assert_eq!(m.read(reg::MALR), 0x11);
    assert_eq!(m.read(reg::ECMR), 0);
}

#[test]
fn a_boot_loader_leaves_an_address() {
    let mut m = Machine::new();
    m.set("boot-mac", "02:11:22:33:44:55");
    m.model.power_on(&mut m.host);
    m.write(reg::CCC, 1);
    assert_eq!(m.read(reg::MAHR), 0x0211_2233);
    assert_eq!(m.read(reg::MALR), 0x4455);
}

#[test]
fn entering_operation_rewinds_the_rings() {
    let mut m = running();
    for i in 0..3 {
        queue_tx(&mut m, i, &frame(100));
    }
    doorbell(&mut m);
    m.receive(&frame(100));
    m.run(SETTLE);
    assert_eq!(m.read(reg::CDAR0), tx(3) as u32);
    assert_eq!(m.read(reg::CDAR0 + 16), rx(1) as u32);
    m.write(reg::CCC, 1);
    format_rings(&mut m);
    m.write(reg::CCC, 2);
    // Before first use the table entry itself is the current descriptor.
    assert_eq!(m.read(reg::CDAR0), DBAT as u32);
    assert_eq!(m.read(reg::CDAR0 + 16), DBAT as u32 + 32);
    queue_tx(&mut m, 0, &frame(100));
    doorbell(&mut m);
    m.receive(&frame(100));
    m.run(SETTLE);
    assert_eq!(m.host.sent.len(), 4);
    assert_eq!(seen(&m, rx(0)).2, FSINGLE);
}

#[test]
fn transmission_can_be_suspended() {
    let mut m = running();
    m.write(reg::CCC, 2 | bit::CCC_DTSR);
    assert_eq!(m.read(reg::CSR) & bit::CSR_DTS, bit::CSR_DTS);
    queue_tx(&mut m, 0, &frame(100));
    doorbell(&mut m);
    m.receive(&frame(100));
    m.run(SETTLE);
    assert!(m.host.sent.is_empty());
    assert_eq!(seen(&m, rx(0)).2, FEMPTY);
    m.write(reg::CCC, 2);
    assert_eq!(m.read(reg::CSR) & bit::CSR_DTS, 0);
    m.run(SETTLE);
    assert_eq!(m.host.sent.len(), 1);
    assert_eq!(seen(&m, rx(0)).2, FSINGLE);
}

#[test]
fn a_mode_change_can_take_its_time() {
    let mut m = Machine::new();
    m.set("mode-change-delay", "3");
    m.write(reg::CCC, 1);
    let seen: Vec<u32> = (0..4).map(|_| ops(&mut m)).collect();
    assert_eq!(seen, [1, 1, 2, 2]);
    // Writing before the mode is reached is what a driver must not do.
    m.write(reg::CCC, 0);
    m.write(reg::CCC, 1);
    m.write(reg::DBAT, 0);
    assert_eq!(m.model.mode(), Mode::Config);
}

#[test]
fn registers_need_the_clock() {
    let mut m = running();
    m.model.set_clock(&mut m.host, false);
    assert_eq!(m.model.violations(Rule::ClockOffInOperation), 1);
    assert_eq!(m.read(reg::CSR), 0);
    m.write(reg::CCC, 1);
    assert_eq!(m.model.violations(Rule::ClockOffAccess), 2);
    assert!(!m.model.access_aborts());
    m.set("clk-off", "abort");
    assert!(m.model.access_aborts());
    m.model.set_clock(&mut m.host, true);
    assert!(!m.model.access_aborts());
    assert_eq!(ops(&mut m), 1);
}

#[test]
fn a_stopped_clock_can_keep_the_state() {
    for (state, expected) in [("reset", 1), ("standby", 8), ("keep", 2), ("variant", 1)] {
        let mut m = Machine::new();
        m.set("clk-off-state", state);
        m.write(reg::CCC, 1);
        m.model.set_clock(&mut m.host, false);
        m.model.set_clock(&mut m.host, true);
        assert_eq!(ops(&mut m), expected, "{state}");
        assert_clean(&m);
    }
}

#[test]
fn the_reset_line() {
    let mut m = running();
    m.receive(&frame(100));
    m.run(SETTLE);
    assert!(m.host.lines[0]);
    m.model.set_reset(&mut m.host, true);
    assert!(!m.host.lines[0]);
    assert_eq!(m.read(reg::CSR), 0);
    assert_eq!(m.model.violations(Rule::InResetAccess), 1);
    m.model.set_reset(&mut m.host, false);
    assert_eq!(ops(&mut m), 1);
}

#[test]
fn a_stopped_clock_stops_traffic_and_lines() {
    let mut m = running();
    m.set("clk-off-state", "keep");
    m.receive(&frame(100));
    m.run(SETTLE);
    assert!(m.host.lines[0]);
    queue_tx(&mut m, 0, &frame(1000));
    doorbell(&mut m);
    m.run(1000);
    m.model.set_clock(&mut m.host, false);
    assert!(!m.host.lines[0]);
    m.run(SETTLE);
    assert!(m.host.sent.is_empty());
    m.model.set_clock(&mut m.host, true);
    assert!(m.host.lines[0]);
    m.run(SETTLE);
    assert_eq!(m.host.sent.len(), 1);
}

#[test]
fn a_change_of_the_mode_is_to_be_awaited() {
    let mut m = Machine::new();
    m.set("mode-change-delay", "2");
    m.write(reg::CCC, 1);
    m.write(reg::TCCR, 0);
    assert_eq!(m.model.violations(Rule::ModeChangeNotAwaited), 1);
    assert_eq!([0; 2].map(|_| ops(&mut m)), [1, 2]);
    m.write(reg::RTC, 0x7ffc_2000);
    assert_eq!(m.model.violations(Rule::ModeChangeNotAwaited), 1);
}
