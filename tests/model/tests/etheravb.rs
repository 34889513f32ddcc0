// SPDX-License-Identifier: GPL-2.0
//! What EtherAVB has and GbEth has not: queues, extended descriptors, interrupt lines.

mod common;

use common::*;
use ravb_model::regs::{bit, reg};
use ravb_model::rules::Rule;
use ravb_model::testing::Machine;

const EVERY: [&str; 4] = ["gen2", "gen3", "gen4", "rzv2m"];

fn of_type(ethertype: u16, len: usize) -> Vec<u8> {
    let mut frame = frame(len);
    frame[12..14].copy_from_slice(&ethertype.to_be_bytes());
    frame
}

fn receive(m: &mut Machine, frame: &[u8]) {
    m.receive(frame);
    m.run(SETTLE);
}

fn send_on(m: &mut Machine, q: u64, i: u64, frame: &[u8]) {
    let buffer = TX_BUFFERS + 0x4000 * q + 0x800 * i;
    m.host.store(buffer, frame);
    put(m, tx_ring(q) + 8 * i, frame.len() as u16, FSINGLE, buffer);
}

/// Lines that are high.
fn lines(m: &Machine) -> Vec<usize> {
    (0..32).filter(|line| m.host.lines[*line]).collect()
}

#[test]
fn frames_in_and_out() {
    for variant in EVERY {
        let mut m = etheravb(variant, |_| ());
        send_on(&mut m, 0, 0, &frame(100));
        m.write(reg::TCCR, bit::TCCR_TFEN | 1);
        receive(&mut m, &frame(200));
        assert_eq!(m.host.sent[0].1, frame(100), "{variant}");
        // The sum over everything after the Ethernet header follows the frame.
        assert_eq!(seen(&m, extended(0, 0)), (202, 0, FSINGLE), "{variant}");
        assert_eq!(m.host.at(extended_buffer(0, 0), 200), frame(200));
        let expected = ravb_model::toe::ones_complement_sum(&frame(200)[14..]).to_le_bytes();
        assert_eq!(m.host.at(extended_buffer(0, 0) + 200, 2), expected);
        assert_eq!(m.read(reg::TIS) & 1, 1);
        assert_eq!(m.read(reg::RIS0), 1);
        assert_clean(&m);
    }
}

#[test]
fn network_control_has_a_queue() {
    let mut m = etheravb("gen3", |_| ());
    for ethertype in [0x88f7, 0x22ea, 0x88f5, 0x88f6] {
        receive(&mut m, &of_type(ethertype, 100));
    }
    receive(&mut m, &frame(100));
    assert_eq!(
        m.json("counters")["frames"],
        serde_json::json!({ "rx1": 4, "rx0": 1 })
    );
    assert_eq!(m.read(reg::RIS0), 3);
    m.set("control-frames-ptp-only", "on");
    receive(&mut m, &of_type(0x22ea, 100));
    assert_eq!(m.json("counters")["frames"]["rx0"], 2);
    // Without ENCF all are alike.
    let mut m = etheravb("gen3", |m| m.write(reg::RCR, 0x1800_003d));
    receive(&mut m, &of_type(0x88f7, 100));
    assert_eq!(
        m.json("counters")["frames"],
        serde_json::json!({ "rx0": 1 })
    );
}

#[test]
fn streams_have_queues() {
    let stream = |n: u8| {
        let mut frame = of_type(0x22f0, 100);
        frame[22..30].copy_from_slice(&[0x02, 0, 0, 0, 0, 1, 0, n]);
        frame
    };
    let mut m = etheravb("gen3", |m| {
        m.write(reg::SFO, 22);
        for (n, id) in [(0, 5), (1, 6)] {
            m.write(reg::SFP0 + 8 * n, 0x0200_0000);
            m.write(reg::SFP0 + 8 * n + 4, 0x0001_0000 | id);
        }
        m.write(reg::SFM0, !0);
        m.write(reg::SFM0 + 4, !0);
    });
    receive(&mut m, &stream(5));
    receive(&mut m, &stream(6));
    receive(&mut m, &stream(7));
    let frames = serde_json::json!({ "rx2": 1, "rx3": 1, "rx0": 1 });
    assert_eq!(m.json("counters")["frames"], frames);
    // A pattern can be loaded at run time.
    m.write(reg::SFV0, 0x0200_0000);
    m.write(reg::SFV0 + 4, 0x0001_0007);
    m.write(reg::SFL, 1);
    assert_eq!(m.read(reg::SFL), 0x1f);
    receive(&mut m, &stream(7));
    assert_eq!(m.json("counters")["frames"]["rx3"], 2);
    assert_clean(&m);
}

#[test]
fn an_unused_queue_is_full() {
    let mut m = etheravb("gen3", |m| put(m, DBAT + 40, 0, EOS, 0));
    receive(&mut m, &of_type(0x88f7, 100));
    assert_eq!(m.read(reg::RIS2), 2);
}

#[test]
fn higher_queues_go_first() {
    let mut m = etheravb("gen3", |_| ());
    for q in 0..4 {
        send_on(&mut m, q, 0, &frame(100 + q as usize));
    }
    m.write(reg::TCCR, bit::TCCR_TFEN | 0xf);
    assert_eq!(m.read(reg::CSR) & 0xf_0000, 0xf_0000);
    m.run(SETTLE);
    let lengths: Vec<usize> = m.host.sent.iter().map(|(_, frame)| frame.len()).collect();
    assert_eq!(lengths, [103, 102, 101, 100]);
    assert_eq!(m.read(reg::TIS) & 0xf, 0xf);
    assert_eq!(m.read(reg::CSR) & 0xf_0000, 0);
}

#[test]
fn alignment_and_limit_differ() {
    for (variant, aligned) in [
        ("gen2", true),
        ("gen3", false),
        ("gen4", false),
        ("rzv2m", false),
    ] {
        let mut m = etheravb(variant, |_| ());
        put(&mut m, tx_ring(0), 60, FSINGLE, TX_BUFFERS + 1);
        m.write(reg::TCCR, bit::TCCR_TFEN | 1);
        m.run(SETTLE);
        assert_eq!(m.host.sent.is_empty(), aligned, "{variant}");
        // Too long is an error here, not the end of the world.
        let mut m = etheravb(variant, |_| ());
        put(&mut m, tx_ring(0), 2048, FSINGLE, TX_BUFFERS);
        m.write(reg::TCCR, bit::TCCR_TFEN | 1);
        m.run(SETTLE);
        assert_eq!(m.read(reg::ESR), 9 << 8);
        receive(&mut m, &frame(100));
        assert_eq!(seen(&m, extended(0, 0)).2, FSINGLE);
    }
}

#[test]
fn error_frames_are_delivered_if_effs() {
    let mut m = etheravb("gen3", |_| ());
    m.set("inject", r#"{"len": 100, "bad_fcs": true}"#);
    m.run(SETTLE);
    assert_eq!(seen(&m, extended(0, 0)), (102 | 1 << 13, 1, FSINGLE));
    let mut m = etheravb("gen3", |m| m.write(reg::RCR, 0x1800_003e));
    m.set("inject", r#"{"len": 100, "bad_fcs": true}"#);
    m.run(SETTLE);
    assert_eq!(seen(&m, extended(0, 0)).2, FEMPTY);
}

#[test]
fn broadcasts_can_be_left_out() {
    let mut broadcast = frame(100);
    broadcast[..6].fill(0xff);
    let mut m = etheravb("gen3", |m| m.write(reg::RCR, 0x1800_00bf));
    receive(&mut m, &broadcast);
    assert_eq!(m.json("counters")["rx_drops"]["filter"], 1);
}

#[test]
fn plain_descriptors_without_ets() {
    let mut m = etheravb("gen2", |m| {
        m.write(reg::RCR, 0x1800_000f);
        for i in 0..RING {
            put(
                m,
                extended_ring(0) + 8 * i,
                RX_SIZE,
                FEMPTY,
                extended_buffer(0, i),
            );
        }
    });
    receive(&mut m, &frame(100));
    receive(&mut m, &frame(101));
    assert_eq!(seen(&m, extended_ring(0)).0, 102);
    assert_eq!(seen(&m, extended_ring(0) + 8).0, 103);
}

#[test]
fn every_queue_has_its_line() {
    for variant in ["gen3", "gen4", "rzv2m"] {
        let mut m = etheravb(variant, |_| ());
        receive(&mut m, &of_type(0x88f7, 100));
        assert_eq!(lines(&m), [1], "{variant}");
        receive(&mut m, &frame(100));
        assert_eq!(lines(&m), [0, 1]);
        m.write(reg::RIS0, 0x3_fffc);
        for q in 0..2 {
            send_on(&mut m, q, 0, &frame(100));
            m.write(reg::TCCR, bit::TCCR_TFEN | 1 << q);
        }
        m.run(SETTLE);
        assert_eq!(lines(&m), [18, 19]);
        m.write(reg::TIS, 0x000f_0f0c);
        assert!(lines(&m).is_empty());
        assert_clean(&m);
    }
}

#[test]
fn common_causes() {
    // Descriptor interrupts, errors, gPTP, E-MAC; A and B set.
    for (variant, a, b, emac) in [
        ("gen3", [22, 22, 22], [23, 23, 23], 24),
        ("rzv2m", [22, 24, 26], [23, 25, 27], 28),
    ] {
        let mut m = etheravb(variant, |m| {
            put(
                m,
                extended(0, 0),
                RX_SIZE,
                FEMPTY | 4,
                extended_buffer(0, 0),
            );
            m.write(reg::RIC0, 0);
        });
        m.write(reg::DIC, 1 << 4);
        receive(&mut m, &frame(100));
        assert_eq!(lines(&m), [a[0]], "{variant}");
        m.write(reg::DIL, 1 << 4);
        assert_eq!(lines(&m), [b[0]]);
        m.write(reg::DIC, 0);

        m.write(reg::EIC, bit::EIS_QEF);
        put(&mut m, tx_ring(0), 60, FEND, TX_BUFFERS);
        m.write(reg::TCCR, bit::TCCR_TFEN | 1);
        m.run(SETTLE);
        assert_eq!(lines(&m), [a[1]]);
        m.write(reg::EIL, bit::EIS_QEF);
        assert_eq!(lines(&m), [b[1]]);
        m.write(reg::EIC, 0);

        m.write(reg::GIC, bit::GIS_PTCF);
        m.set("external-event", "1");
        assert_eq!(lines(&m), [a[2]]);
        m.write(reg::GIL, bit::GIS_PTCF);
        assert_eq!(lines(&m), [b[2]]);
        m.write(reg::GIC, 0);

        m.set("link-pin", "low");
        assert_eq!(lines(&m), [emac]);
    }
}

#[test]
fn cie_routes_queues() {
    let mut m = etheravb("gen3", |_| ());
    receive(&mut m, &frame(100));
    assert_eq!(lines(&m), [0]);
    // The common line as well.
    m.write(reg::CIE, bit::CIE_CRIE);
    assert_eq!(lines(&m), [0, 22]);
    m.write(reg::CIE, 0);
    assert_eq!(lines(&m), [22]);
    // Queue full: common, or the queue's.
    m.write(reg::CIE, bit::CIE_CRIE | bit::CIE_CL0M);
    m.write(reg::RIC0, 0);
    for _ in 0..RING {
        receive(&mut m, &frame(100));
    }
    assert_eq!(m.read(reg::RIS2), 1);
    assert_eq!(lines(&m), [22]);
    m.write(reg::CIE, bit::CIE_RQFM);
    assert_eq!(lines(&m), [0]);
}

#[test]
fn masks_have_set_and_clear_registers() {
    let mut m = etheravb("gen3", |_| ());
    receive(&mut m, &frame(100));
    m.write(reg::RID0, 1);
    assert_eq!(m.read(reg::RIC0), 2);
    assert!(lines(&m).is_empty());
    m.write(reg::RIE0, 1);
    assert_eq!(m.read(reg::RIC0), 3);
    assert_eq!(lines(&m), [0]);
}

#[test]
fn gac_goes_with_the_mode() {
    let mut m = Machine::of("gen3");
    m.write(reg::CCC, 1);
    m.write(reg::CCC, 1 | bit::CCC_GAC | 1 << 16);
    assert_eq!(m.model.violations(Rule::GacWithoutMode), 1);
    assert_eq!(m.read(reg::CCC), 1);
    m.write(reg::CCC, 0);
    m.write(reg::CCC, 1 | bit::CCC_GAC | 1 << 16);
    assert_eq!(m.read(reg::CCC), 1 | bit::CCC_GAC | 1 << 16);
    assert_eq!(m.model.violations(Rule::GacWithoutMode), 1);
    // Variants without GAC choose the clock afterwards.
    let mut m = Machine::of("gen2");
    m.write(reg::CCC, 1);
    m.write(reg::CCC, 1 | 1 << 16);
    assert_eq!(m.read(reg::CCC), 1 | 1 << 16);
    assert_clean(&m);
}

#[test]
fn a_stopped_clock_reads_standby_on_gen3() {
    for (variant, ops) in [("gen2", 1), ("gen3", 8), ("gen4", 8), ("rzv2m", 1)] {
        let mut m = Machine::of(variant);
        m.write(reg::CCC, 1);
        m.model.set_clock(&mut m.host, false);
        m.model.set_clock(&mut m.host, true);
        assert_eq!(m.read(reg::CSR) & 0xf, ops, "{variant}");
    }
}

#[test]
fn magic_packets_wake() {
    let mut magic = frame(14);
    magic.extend([0xff; 6]);
    magic.extend(MAC.repeat(16));
    let mut m = etheravb("gen3", |_| ());
    receive(&mut m, &magic);
    assert_eq!(m.read(reg::ECSR) & bit::ECSR_MPD, 0);
    assert_eq!(m.json("counters")["frames"]["rx0"], 1);
    let ecmr = m.read(reg::ECMR);
    m.write(reg::ECMR, ecmr | bit::ECMR_MPDE);
    receive(&mut m, &frame(120));
    assert_eq!(m.read(reg::ECSR) & bit::ECSR_MPD, 0);
    receive(&mut m, &magic);
    assert_eq!(m.read(reg::ECSR) & bit::ECSR_MPD, bit::ECSR_MPD);
    assert_eq!(lines(&m), [0, 24]);
    assert_eq!(m.json("counters")["frames"]["rx0"], 1);
    // In CONFIG too.
    m.write(reg::RIS0, 0);
    m.write(reg::ECSR, bit::ECSR_MPD);
    m.write(reg::CCC, 1 | bit::CCC_GAC | 1 << 16);
    receive(&mut m, &magic);
    assert_eq!(lines(&m), [24]);
}
