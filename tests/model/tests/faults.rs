// SPDX-License-Identifier: GPL-2.0
//! Misbehaviour on purpose.

mod common;

use common::*;
use ravb_model::regs::{bit, reg};
use ravb_model::rules::Rule;

#[test]
fn transmission_held() {
    let mut m = running();
    m.set("tx-hold", "on");
    queue_tx(&mut m, 0, &frame(100));
    queue_tx(&mut m, 1, &frame(100));
    doorbell(&mut m);
    m.run(SETTLE);
    assert!(m.host.sent.is_empty());
    assert_eq!(m.read(reg::TCCR), 1);
    assert_eq!(m.read(reg::CSR) & bit::CSR_TPO0, bit::CSR_TPO0);
    m.write(reg::CCC, 1);
    assert_eq!(m.read(reg::CSR) & 0xf, 4);
    m.set("tx-hold", "off");
    m.run(SETTLE);
    assert_eq!(m.host.sent.len(), 2);
    assert_eq!(m.read(reg::CSR) & 0xf, 2);
}

#[test]
fn reception_held() {
    let mut m = running();
    m.set("rx-hold", "on");
    m.receive(&frame(100));
    m.run(SETTLE);
    assert_eq!(seen(&m, rx(0)).2, FEMPTY);
    assert_eq!(m.read(reg::CSR) & bit::CSR_RPO, bit::CSR_RPO);
    m.write(reg::CCC, 1);
    assert_eq!(m.read(reg::CSR) & 0xf, 4);
    m.set("rx-hold", "off");
    m.run(SETTLE);
    assert_eq!(seen(&m, rx(0)).2, FSINGLE);
    assert_eq!(m.read(reg::CSR) & 0xf, 2);
}

#[test]
fn parts_come_back_one_by_one() {
    let mut m = running();
    m.set("tx-completion-ns", "10000");
    m.set("tx-part-ns", "50000");
    put(&mut m, tx(0), 60, FSTART, TX_BUFFERS);
    put(&mut m, tx(1), 60, FEND, TX_BUFFERS);
    doorbell(&mut m);
    let parts = |m: &ravb_model::testing::Machine| [seen(m, tx(0)).2, seen(m, tx(1)).2];
    m.run(5_000);
    assert_eq!(m.host.sent.len(), 1);
    assert_eq!(parts(&m), [FSTART, FEND]);
    m.run(20_000);
    assert_eq!(parts(&m), [FEMPTY, FEND]);
    assert_eq!(m.read(reg::TIS), 0);
    assert_eq!(m.read(reg::CSR) & bit::CSR_TPO0, bit::CSR_TPO0);
    m.run(50_000);
    assert_eq!(parts(&m), [FEMPTY, FEMPTY]);
    assert_eq!(m.read(reg::TIS), 1);
    assert_eq!(m.read(reg::CSR) & bit::CSR_TPO0, 0);
}

#[test]
fn a_ring_full_of_late_completions_is_not_sent_twice() {
    let mut m = running();
    m.set("tx-completion-ns", "500000");
    for i in 0..RING {
        queue_tx(&mut m, i, &frame(60));
    }
    doorbell(&mut m);
    m.run(10 * SETTLE);
    assert_eq!(m.host.sent.len(), RING as usize);
    assert_eq!(m.read(reg::TCCR), 0);
}

#[test]
fn received_parts_come_one_by_one() {
    let mut m = running();
    m.set("rx-part-ns", "50000");
    m.receive(&frame(3000));
    m.run(30_000);
    assert_eq!([0, 1].map(|i| seen(&m, rx(i)).2), [FSTART, FEMPTY]);
    assert_eq!(m.read(reg::RIS0), 0);
    assert_eq!(m.read(reg::CSR) & bit::CSR_RPO, bit::CSR_RPO);
    assert_eq!(m.read(reg::CSR0) & bit::CSR0_RPE, bit::CSR0_RPE);
    m.run(50_000);
    assert_eq!([0, 1].map(|i| seen(&m, rx(i)).2), [FSTART, FEND]);
    assert_eq!(m.read(reg::RIS0), 1);
}

#[test]
fn checksum_engines_that_never_stop() {
    let mut m = running();
    m.set("toe-stuck", "on");
    m.write(reg::CSR0, 0);
    m.run(SETTLE);
    assert_eq!(m.read(reg::CSR0), 0x30);
    m.set("toe-stuck", "off");
    assert_eq!(m.read(reg::CSR0), 0);
}

#[test]
fn an_interrupt_nobody_asked_for() {
    let mut m = running();
    m.set("spurious-irq", "on");
    assert!(m.host.lines[0]);
    assert_eq!(m.read(reg::ISS), 0);
    m.model.set_clock(&mut m.host, false);
    assert!(m.host.lines[0]);
    m.set("spurious-irq", "off");
    assert!(!m.host.lines[0]);
}

#[test]
fn an_interrupt_that_enables_itself() {
    let mut m = running();
    m.set("registers", r#"{"RIC3": 1, "RIS3": 1}"#);
    assert!(m.host.lines[0]);
    m.write(reg::RIC3, 0);
    assert!(!m.host.lines[0]);
    assert!(m
        .model
        .set(&mut m.host, "registers", r#"{"RIC9": 1}"#)
        .is_err());
}

#[test]
fn the_link_pin() {
    let mut m = running();
    assert_eq!(m.read(reg::PSR), 1);
    m.write(reg::ECSR, 0x1f);
    m.set("link-pin", "low");
    assert_eq!(m.read(reg::PSR), 0);
    assert_eq!(m.read(reg::ECSR), bit::ECSR_LCHNG);
    assert!(!m.host.lines[0]);
    m.write(reg::ECSIPR, bit::ECSR_LCHNG);
    assert!(m.host.lines[0]);
    assert_eq!(m.read(reg::ISS), bit::ISS_MS);
    m.write(reg::ECSR, bit::ECSR_LCHNG);
    assert!(!m.host.lines[0]);
    m.set("link-pin", "high");
    assert_eq!(m.read(reg::ECSR), bit::ECSR_LCHNG);
    // The pin follows the PHY otherwise.
    m.set("link-pin", "follow");
    m.write(reg::ECSR, bit::ECSR_LCHNG);
    m.set("cable", "off");
    assert_eq!(m.read(reg::PSR), 0);
    assert_eq!(m.read(reg::ECSR) & bit::ECSR_LCHNG, bit::ECSR_LCHNG);
}

#[test]
fn frames_are_sent_inside_the_doorbell() {
    let mut m = running();
    m.set("tx-at-once", "on");
    for n in 0..3 {
        queue_tx(&mut m, n, &frame(100 + n as usize));
    }
    doorbell(&mut m);
    // No time has passed.
    assert_eq!(m.host.sent.len(), 3);
    assert_eq!(seen(&m, tx(2)).2, FEMPTY);
    assert_eq!(m.read(reg::TCCR), 0);
    assert_eq!(m.read(reg::TIS) & 1, 1);
    assert!(m.host.lines[0]);
    assert_clean(&m);

    // The write-back can still be late.
    m.set("tx-completion-ns", "10000");
    queue_tx(&mut m, 3, &frame(60));
    doorbell(&mut m);
    assert_eq!(m.host.sent.len(), 4);
    assert_eq!(seen(&m, tx(3)).2, FSINGLE);
    m.run(10_000);
    assert_eq!(seen(&m, tx(3)).2, FEMPTY);
}

#[test]
fn data_must_stay_until_it_is_given_back() {
    let mut m = running();
    m.set("check-tx-buffers", "on");
    m.set("tx-part-ns", "50000");
    let parts = |m: &mut ravb_model::testing::Machine| {
        m.host.store(TX_BUFFERS, &frame(200));
        put(m, tx(0), 100, FSTART, TX_BUFFERS);
        put(m, tx(1), 100, FEND, TX_BUFFERS + 100);
        doorbell(m);
        m.run(5_000);
        assert_eq!([seen(m, tx(0)).2, seen(m, tx(1)).2], [FEMPTY, FEND]);
    };
    // The part that is back may change.
    parts(&mut m);
    m.host.store(TX_BUFFERS, &[0xff; 100]);
    m.run(SETTLE);
    assert_clean(&m);

    let mut m = running();
    m.set("check-tx-buffers", "on");
    m.set("tx-part-ns", "50000");
    parts(&mut m);
    m.host.store(TX_BUFFERS + 150, &[0xff]);
    m.run(SETTLE);
    assert_eq!(m.model.violations(Rule::TxBufferChanged), 1);
    // What was sent had been read before.
    assert_eq!(m.host.sent[0].1, frame(200));
}

#[test]
fn an_engine_may_do_only_what_it_is_asked_to() {
    let mut m = running();
    // UDP over IPv4 with a wrong checksum.
    let mut udp = vec![2; 12];
    udp.extend([
        0x08, 0x00, 0x45, 0, 0, 31, 0x12, 0x34, 0x40, 0, 64, 17, 0xa7, 0x46,
    ]);
    udp.extend([192, 168, 0, 1, 192, 168, 0, 2]);
    udp.extend([0x12, 0x34, 0, 53, 0, 11, 0xff, 0xee]);
    udp.extend(*b"abc");
    let sent = |m: &mut ravb_model::testing::Machine, slot, frame: &[u8]| {
        queue_tx(m, slot, frame);
        doorbell(m);
        m.run(SETTLE);
        m.host.sent[slot as usize].1[40..42].to_vec()
    };
    assert_eq!(sent(&mut m, 0, &udp), [0xa7, 0xb8]);
    m.set("toe-tx-every-frame", "off");
    assert_eq!(sent(&mut m, 1, &udp), [0xff, 0xee]);
    // The sum of the pseudo header asks for it.
    udp[40..42].copy_from_slice(&[0x81, 0x70]);
    assert_eq!(sent(&mut m, 2, &udp), [0xa7, 0xb8]);
}
