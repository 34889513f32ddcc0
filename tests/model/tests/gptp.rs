// SPDX-License-Identifier: GPL-2.0
//! The gPTP timer, timestamps, capture and compare.

mod common;

use common::*;
use ravb_model::regs::{bit, reg};
use ravb_model::testing::Machine;

const SECOND: u64 = 1_000_000_000;

fn gccr(m: &mut Machine, bits: u32) {
    let old = m.read(reg::GCCR);
    m.write(reg::GCCR, old | bits);
}

/// Adjusted time as the C driver reads it.
fn time(m: &mut Machine) -> u64 {
    m.write(reg::GCCR, 1 << 8 | bit::GCCR_TCR_CAPTURE);
    assert_eq!(m.read(reg::GCCR) & bit::GCCR_TCR, 0);
    let [ns, lo, hi] = [0, 4, 8].map(|i| u64::from(m.read(reg::GCT0 + i)));
    (hi << 32 | lo) * SECOND + ns
}

fn set_time(m: &mut Machine, seconds: u64, ns: u32) {
    gccr(m, bit::GCCR_TCR_RESET);
    m.write(reg::GTO0, ns);
    m.write(reg::GTO0 + 4, seconds as u32);
    m.write(reg::GTO0 + 8, (seconds >> 32) as u32);
    gccr(m, bit::GCCR_LTO);
}

#[test]
fn time_passes_at_the_rate_of_gti() {
    for variant in ["gen2", "gen3", "gen4"] {
        // 200 MHz and 5 ns per clock.
        let mut m = etheravb(variant, |_| ());
        let start = time(&mut m);
        m.run(SECOND);
        assert_eq!(time(&mut m) - start, SECOND, "{variant}");
        // 100 ppm faster.
        m.write(reg::GTI, (5 << 20) + 524);
        m.run(SECOND);
        assert_eq!(time(&mut m) - start, 2 * SECOND, "not loaded yet");
        gccr(&mut m, bit::GCCR_LTI);
        m.run(SECOND);
        let gained = time(&mut m) - start - 3 * SECOND;
        assert!((99_000..101_000).contains(&gained), "{gained}");
        assert_clean(&m);
    }
}

#[test]
fn the_time_can_be_set() {
    let mut m = etheravb("gen3", |_| ());
    m.run(12_345);
    set_time(&mut m, 0x1_0000_0002, 7);
    assert_eq!(time(&mut m), 0x1_0000_0002 * SECOND + 7);
    m.run(100);
    assert_eq!(time(&mut m), 0x1_0000_0002 * SECOND + 107);
    // The raw timer knows nothing of the offset; AVTP time is its low word.
    m.write(reg::GCCR, bit::GCCR_TCR_CAPTURE);
    assert_eq!([0, 4].map(|i| m.read(reg::GCT0 + i)), [100, 0]);
    m.write(reg::GCCR, 2 << 8 | bit::GCCR_TCR_CAPTURE);
    assert_eq!(m.read(reg::GCT0), (0x1_0000_0002 * SECOND + 107) as u32);
}

#[test]
fn the_timer_runs_in_operation_and_with_gac_in_config() {
    for (variant, runs) in [
        ("gen2", false),
        ("rzv2m", false),
        ("gen3", true),
        ("gen4", true),
    ] {
        let mut m = etheravb(variant, |_| ());
        let ccc = m.read(reg::CCC);
        m.write(reg::CCC, ccc & !3 | 1);
        let start = m.json("state")["mode"].clone();
        assert_eq!(start, "config");
        m.write(reg::GCCR, bit::GCCR_TCR_CAPTURE);
        assert_eq!(m.read(reg::GCCR) & 3 == 0, runs, "{variant}");
    }
}

#[test]
fn requests_wait_for_the_clock() {
    let mut m = Machine::of("gen3");
    m.write(reg::CCC, 1);
    assert_eq!(m.read(reg::GCCR), 0x2c);
    m.write(reg::GCCR, 0);
    assert_eq!(m.read(reg::GCCR), 0x2c);
    m.write(reg::CCC, 0);
    m.write(reg::CCC, 1 | bit::CCC_GAC | 1 << 16);
    assert_eq!(m.read(reg::GCCR), 0);
}

#[test]
fn reset_forgets_the_time() {
    let mut m = etheravb("gen3", |_| ());
    set_time(&mut m, 1000, 0);
    m.write(reg::CCC, 0);
    m.write(reg::CCC, 1 | bit::CCC_GAC | 1 << 16);
    assert!(time(&mut m) < 1000);
}

#[test]
fn stuck_requests() {
    let mut m = etheravb("gen3", |_| ());
    m.set("gccr-stuck", "on");
    gccr(&mut m, bit::GCCR_LTO);
    assert_eq!(m.read(reg::GCCR) & bit::GCCR_LTO, bit::GCCR_LTO);
    m.set("gccr-stuck", "off");
    assert_eq!(m.read(reg::GCCR) & bit::GCCR_LTO, 0);
}

#[test]
fn received_frames_are_stamped_at_their_start() {
    let mut m = etheravb("gen3", |_| ());
    set_time(&mut m, 0x1_0000_0005, 0);
    m.receive(&frame(1000));
    m.run(SETTLE);
    let stamp = m.host.at(extended(0, 0) + 8, 12).to_vec();
    // After eight bytes of preamble and delimiter at one gigabit.
    assert_eq!(stamp[..4], 64u32.to_le_bytes());
    assert_eq!(stamp[4..8], 5u32.to_le_bytes());
    assert_eq!(stamp[8..], [1, 0, 0, 0]);
}

/// Sends a frame with a timestamp request.
fn send_stamped(m: &mut Machine, i: u64, tag: u16) {
    let at = tx_ring(1) + 8 * i;
    m.host.store(TX_BUFFERS, &frame(100));
    put(m, at, 100 | tag << 12, FSINGLE, TX_BUFFERS);
    m.host.store(at + 2, &[0x40 | (tag >> 4) as u8]);
    m.write(reg::TCCR, bit::TCCR_TFEN | 2);
    m.run(SETTLE);
}

#[test]
fn sent_frames_are_stamped() {
    let mut m = etheravb("gen3", |_| ());
    set_time(&mut m, 9, 0);
    let start = m.host.now;
    send_stamped(&mut m, 0, 0x2a5);
    assert_eq!(m.read(reg::TIS) & bit::TIS_TFUF, bit::TIS_TFUF);
    assert!(m.host.lines[22]);
    assert_eq!(m.read(reg::TSR), 1 << 8);
    let sent = m.host.sent[0].0 - start - (100 + 4 + 12) * 8;
    assert_eq!(u64::from(m.read(reg::TFA0)), sent);
    assert_eq!(m.read(reg::TFA0 + 4), 9);
    assert_eq!(m.read(reg::TFA0 + 8), 0x2a5 << 16);
    m.write(reg::TCCR, bit::TCCR_TFEN | bit::TCCR_TFR);
    assert_eq!(m.read(reg::TSR), 0);
    assert_eq!(m.read(reg::TFA0), 0);
    assert_clean(&m);
}

#[test]
fn the_request_may_be_in_the_last_part() {
    let mut m = etheravb("gen2", |_| ());
    put(&mut m, tx_ring(1), 4, FSTART, TX_BUFFERS);
    put(&mut m, tx_ring(1) + 8, 96 | 5 << 12, FEND, TX_BUFFERS + 4);
    m.host.store(tx_ring(1) + 10, &[0x40]);
    m.write(reg::TCCR, bit::TCCR_TFEN | 2);
    m.run(SETTLE);
    assert_eq!(m.read(reg::TFA0 + 8), 5 << 16);
}

#[test]
fn no_stamp_unless_asked_for() {
    let mut m = etheravb("gen3", |_| ());
    m.host.store(TX_BUFFERS, &frame(100));
    put(&mut m, tx_ring(1), 100, FSINGLE, TX_BUFFERS);
    m.write(reg::TCCR, bit::TCCR_TFEN | 2);
    m.run(SETTLE);
    send_off(&mut m);
    assert_eq!(m.read(reg::TSR), 0);
}

/// With TFEN off even a request is ignored.
fn send_off(m: &mut Machine) {
    put(m, tx_ring(1) + 8, 100, FSINGLE, TX_BUFFERS);
    m.host.store(tx_ring(1) + 10, &[0x40]);
    m.write(reg::TCCR, 2);
    m.run(SETTLE);
    assert_eq!(m.host.sent.len(), 2);
}

#[test]
fn the_stamp_fifo_overflows() {
    for (keeps_new, oldest) in [("off", 0), ("on", 1)] {
        let mut m = etheravb("gen3", |_| ());
        m.set("timestamp-fifo-keeps-new", keeps_new);
        for tag in 0..8 {
            send_stamped(&mut m, tag.into(), tag);
            assert_eq!(m.read(reg::EIS) & bit::EIS_TFFF != 0, tag == 7);
            assert_eq!(m.read(reg::TIS) & bit::TIS_TFWF != 0, tag >= 5);
        }
        assert_eq!(m.read(reg::TSR), 7 << 8);
        assert_eq!(m.read(reg::TFA0 + 8) >> 16, oldest);
    }
}

#[test]
fn stamps_get_lost_and_come_late() {
    let mut m = etheravb("gen3", |_| ());
    m.set("tx-drop-timestamp", "3");
    for tag in 0..6 {
        send_stamped(&mut m, tag.into(), tag);
    }
    assert_eq!(m.read(reg::TSR), 4 << 8);
    let mut m = etheravb("gen3", |_| ());
    m.set("tx-timestamp-ns", "5000000");
    send_stamped(&mut m, 0, 1);
    assert_eq!(m.read(reg::TSR), 0);
    m.run(5_000_000);
    assert_eq!(m.read(reg::TSR), 1 << 8);
}

#[test]
fn external_events_are_captured() {
    let mut m = etheravb("gen3", |_| ());
    set_time(&mut m, 5, 0);
    m.run(1000);
    m.set("external-event", "1");
    assert_eq!(m.read(reg::GCPT), (5 * SECOND + 1000) as u32);
    assert_eq!(m.read(reg::GIS), bit::GIS_PTCF);
    m.run(1000);
    m.set("external-event", "1");
    assert_eq!(m.read(reg::GIS), bit::GIS_PTCF | bit::GIS_PTOF);
    assert_eq!(m.read(reg::GCPT), (5 * SECOND + 1000) as u32);
    m.write(reg::GIS, 0xffff_03fc);
    assert_eq!(m.read(reg::GIS), 0);
    assert_clean(&m);
}

#[test]
fn the_compare_unit_matches() {
    let mut m = etheravb("gen2", |_| ());
    m.write(reg::GIC, bit::GIS_PTMF);
    set_time(&mut m, 0, 0);
    m.write(reg::GPTC, 1_000_000);
    gccr(&mut m, bit::GCCR_LPTC);
    m.run(999_999);
    assert!(!m.host.lines[0]);
    m.run(1);
    assert!(m.host.lines[0]);
    assert_eq!(m.read(reg::ISS), bit::ISS_CGIS);
    m.write(reg::GIS, 0xffff_03fb);
    assert!(!m.host.lines[0]);
    // The next one, as the C driver does it; then the clock is stepped past it.
    m.write(reg::GPTC, 3_000_000);
    gccr(&mut m, bit::GCCR_LPTC);
    set_time(&mut m, 0, 2_900_000);
    m.run(100_000);
    assert!(m.host.lines[0]);
}

#[test]
fn the_compare_unit_may_miss_values_at_the_wrap() {
    for value in [0, 5, u32::MAX - 4] {
        let mut m = etheravb("gen3", |_| ());
        m.write(reg::GPTC, value);
        gccr(&mut m, bit::GCCR_LPTC);
        m.run(10 * SECOND);
        assert_eq!(m.read(reg::GIS), 0, "{value}");
    }
}
