// SPDX-License-Identifier: GPL-2.0
//! Transmission: the descriptor engine and the way to the wire.

mod common;

use common::*;
use ravb_model::regs::{bit, reg};
use ravb_model::rules::Rule;
use ravb_model::testing::Machine;

fn esr(m: &mut Machine) -> (u32, u32) {
    let esr = m.read(reg::ESR);
    (esr >> 8 & 0xf, esr & 0x1f)
}

/// Sends what is queued and lets time pass.
fn send(m: &mut Machine) {
    doorbell(m);
    m.run(SETTLE);
}

#[test]
fn gathers_parts_of_a_frame() {
    let mut m = running();
    let frame = frame(300);
    for (i, (range, die_dt)) in [(0..4, FSTART), (4..200, FMID), (200..300, FEND)]
        .into_iter()
        .enumerate()
    {
        let buffer = TX_BUFFERS + 0x1000 * i as u64;
        m.host.store(buffer, &frame[range.clone()]);
        put(&mut m, tx(i as u64), range.len() as u16, die_dt, buffer);
    }
    send(&mut m);
    assert_eq!(m.host.sent[0].1, frame);
    for (i, size) in [4, 196, 100].into_iter().enumerate() {
        // Size and pointer survive: drivers read them again.
        assert_eq!(seen(&m, tx(i as u64)), (size, 0, FEMPTY));
        assert_eq!(
            m.host.at(tx(i as u64) + 4, 4),
            descriptor(0, 0, TX_BUFFERS + 0x1000 * i as u64)[4..].to_vec()
        );
    }
    assert_clean(&m);
}

#[test]
fn a_ring_goes_round_for_ever() {
    let mut m = running();
    for n in 0..50u64 {
        queue_tx(&mut m, n % RING, &frame(60 + n as usize));
        send(&mut m);
        assert_eq!(m.host.sent.len(), n as usize + 1);
        assert_eq!(m.host.sent[n as usize].1, frame(60 + n as usize));
    }
    assert_eq!(seen(&m, tx(RING)).2, LINKFIX);
    assert_clean(&m);
}

#[test]
fn a_frame_may_straddle_the_link() {
    let mut m = running();
    for n in 0..RING - 1 {
        queue_tx(&mut m, n, &frame(60));
    }
    send(&mut m);
    let frame = frame(100);
    m.host.store(TX_BUFFERS, &frame);
    put(&mut m, tx(RING - 1), 40, FSTART, TX_BUFFERS);
    put(&mut m, tx(0), 60, FEND, TX_BUFFERS + 40);
    send(&mut m);
    assert_eq!(m.host.sent.last().map(|(_, f)| f.clone()), Some(frame));
    assert_clean(&m);
}

#[test]
fn links_and_ends_that_are_used_once() {
    let mut m = running();
    queue_tx(&mut m, 0, &frame(60));
    put(&mut m, tx(1), 0, LINK, tx(3));
    queue_tx(&mut m, 3, &frame(70));
    put(&mut m, tx(4), 0, EOS, 0);
    send(&mut m);
    assert_eq!(m.host.sent.len(), 2);
    assert_eq!(seen(&m, tx(1)).2, LEMPTY);
    assert_eq!(seen(&m, tx(4)).2, EEMPTY);
    assert_eq!(m.read(reg::CDAR0), tx(4) as u32);
    // The table itself is not written to.
    assert_eq!(seen(&m, DBAT).2, LINKFIX);
    assert_clean(&m);
}

#[test]
fn a_running_queue_sees_new_frames_without_a_doorbell() {
    let mut m = running();
    queue_tx(&mut m, 0, &frame(1000));
    doorbell(&mut m);
    m.run(2000);
    queue_tx(&mut m, 1, &frame(60));
    m.run(SETTLE);
    assert_eq!(m.host.sent.len(), 2);
    // An idle one does not.
    queue_tx(&mut m, 2, &frame(60));
    m.run(SETTLE);
    assert_eq!(m.host.sent.len(), 2);
}

#[test]
fn frames_take_their_time_on_the_wire() {
    for (partner, gecmr, per_byte) in [
        ("1000-full", 0x20, 8),
        ("100-full", 0x10, 80),
        ("10-full", 0x00, 800),
    ] {
        let mut m = Machine::new();
        m.set("partner", partner);
        format_rings(&mut m);
        m.run(200_000_000);
        configure(&mut m);
        operate(&mut m);
        m.write(reg::GECMR, gecmr);
        for i in 0..3 {
            queue_tx(&mut m, i, &frame(1000));
        }
        doorbell(&mut m);
        m.run(100 * SETTLE);
        let times: Vec<u64> = m.host.sent.iter().map(|(at, _)| *at).collect();
        assert_eq!(times.len(), 3, "{partner}");
        // Preamble, FCS and gap included, back to back.
        assert_eq!(times[1] - times[0], 1024 * per_byte, "{partner}");
        assert_eq!(times[2] - times[1], 1024 * per_byte, "{partner}");
        assert_clean(&m);
    }
}

#[test]
fn short_frames_are_padded_unless_dpad() {
    let mut m = running();
    queue_tx(&mut m, 0, &frame(20));
    send(&mut m);
    let mut padded = frame(20);
    padded.resize(60, 0);
    assert_eq!(m.host.sent[0].1, padded);
    let ecmr = m.read(reg::ECMR);
    m.write(reg::ECMR, ecmr | bit::ECMR_DPAD);
    queue_tx(&mut m, 1, &frame(20));
    send(&mut m);
    assert_eq!(m.host.sent[1].1, frame(20));
}

#[test]
fn checksums_are_written_on_the_way() {
    let mut m = running();
    // IPv4, UDP, 4 bytes of payload, checksum field not 0.
    let mut frame = frame(14);
    frame[12..].copy_from_slice(&[0x08, 0x00]);
    frame.extend([
        0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
    ]);
    frame.extend([0, 1, 0, 2, 0, 12, 0xaa, 0xaa, 1, 2, 3, 4]);
    queue_tx(&mut m, 0, &frame);
    send(&mut m);
    let sent = m.host.sent[0].1.clone();
    // 0a00+0001+0a00+0002+0011+000c + 0001+0002+000c+0102+0304 = 1835, inverted.
    assert_eq!(sent[40..42], [0xe7, 0xca]);
    // And received with a good result for UDP (CSR2 does not ask for the IPv4 header).
    m.receive(&sent);
    m.run(SETTLE);
    assert_eq!(seen(&m, rx(0)).0, 64);
    assert_eq!(m.host.at(rx_buffer(0) + 60, 4), [0xff, 0xff, 0, 0]);
    m.write(reg::CSR0, bit::CSR0_RPE);
    m.write(reg::CSR1, 0);
    m.write(reg::CSR0, bit::CSR0_RPE | bit::CSR0_TPE);
    queue_tx(&mut m, 1, &frame);
    send(&mut m);
    assert_eq!(m.host.sent[1].1[40..42], [0xaa, 0xaa]);
    assert_clean(&m);
}

#[test]
fn an_unfinished_frame_is_an_error() {
    for successor in [EEMPTY, FSINGLE, FSTART, FEMPTY] {
        let mut m = running();
        m.host.store(TX_BUFFERS, &frame(100));
        put(&mut m, tx(0), 60, FSTART, TX_BUFFERS);
        put(&mut m, tx(1), 60, successor, TX_BUFFERS);
        send(&mut m);
        assert!(m.host.sent.is_empty());
        assert_eq!(m.read(reg::EIS) & bit::EIS_QEF, bit::EIS_QEF);
        assert_eq!(esr(&mut m), (2, 0));
        assert_eq!(m.model.violations(Rule::TxSequence), 1, "{successor:#x}");
        // Stuck until the mode changes, whatever the driver does with the ring.
        assert_eq!(m.read(reg::TCCR) & 1, 1);
        queue_tx(&mut m, 0, &frame(100));
        send(&mut m);
        assert!(m.host.sent.is_empty());
        m.write(reg::CCC, 1);
        assert_eq!(m.read(reg::CSR) & 0xf, 4);
        // No interrupt: EIC is 0. QFS is not set either.
        assert_eq!(m.read(reg::ISS) & bit::ISS_ES, 0);
    }
}

#[test]
fn a_frame_does_not_begin_in_the_middle() {
    for first in [FMID, FEND] {
        let mut m = running();
        put(&mut m, tx(0), 60, first, TX_BUFFERS);
        send(&mut m);
        assert_eq!(m.model.violations(Rule::TxSequence), 1);
        assert_eq!(esr(&mut m), (2, 0));
    }
}

#[test]
fn a_queue_error_interrupts_if_enabled_and_clears() {
    let mut m = running();
    m.write(reg::EIC, bit::EIS_QEF);
    put(&mut m, tx(0), 60, FEND, TX_BUFFERS);
    send(&mut m);
    assert_eq!(m.read(reg::ISS) & bit::ISS_ES, bit::ISS_ES);
    assert!(m.host.lines[0]);
    m.write(reg::EIS, 0x7ff & !bit::EIS_QEF);
    assert!(!m.host.lines[0]);
    assert_eq!(m.read(reg::ESR), 0);
}

#[test]
fn a_stopped_queue_may_restart() {
    // By a doorbell, as one reading of the sources has it.
    let mut m = running();
    m.set("qef-doorbell-restarts", "on");
    put(&mut m, tx(0), 60, FEND, TX_BUFFERS);
    send(&mut m);
    queue_tx(&mut m, 0, &frame(100));
    send(&mut m);
    assert_eq!(m.host.sent.len(), 1);
    // By reloading its base.
    let mut m = running();
    put(&mut m, tx(0), 60, FEND, TX_BUFFERS);
    send(&mut m);
    assert_eq!(m.read(reg::DLR), 0);
    m.write(reg::DLR, 1);
    assert_eq!(m.read(reg::DLR), 0);
    assert_eq!(m.read(reg::TCCR) & 1, 0);
    assert_eq!(m.read(reg::CDAR0), DBAT as u32);
    queue_tx(&mut m, 0, &frame(100));
    send(&mut m);
    assert_eq!(m.host.sent.len(), 1);
    // By RESET.
    let mut m = running();
    put(&mut m, tx(0), 60, FEND, TX_BUFFERS);
    send(&mut m);
    m.write(reg::CCC, 0);
    configure(&mut m);
    operate(&mut m);
    queue_tx(&mut m, 0, &frame(100));
    send(&mut m);
    assert_eq!(m.host.sent.len(), 1);
}

#[test]
fn a_descriptor_without_data_stalls_the_queue() {
    let mut m = running();
    put(&mut m, tx(0), 0, FSTART, TX_BUFFERS);
    put(&mut m, tx(1), 60, FEND, TX_BUFFERS);
    send(&mut m);
    assert!(m.host.sent.is_empty());
    assert_eq!(m.model.violations(Rule::TxZeroLength), 1);
    assert_eq!(m.read(reg::EIS), 0);
    assert_eq!(m.read(reg::CSR) & bit::CSR_TPO0, bit::CSR_TPO0);
}

#[test]
fn buffers_are_aligned() {
    for offset in 0..4 {
        let mut m = running();
        put(&mut m, tx(0), 60, FSINGLE, TX_BUFFERS + offset);
        send(&mut m);
        assert_eq!(m.host.sent.is_empty(), offset != 0);
        assert_eq!(
            m.model.violations(Rule::TxUnaligned),
            u64::from(offset != 0)
        );
        if offset != 0 {
            assert_eq!(esr(&mut m), (4, 0));
        }
    }
    let mut m = running();
    m.set("tx-unaligned-works", "on");
    put(&mut m, tx(0), 60, FSINGLE, TX_BUFFERS + 1);
    send(&mut m);
    assert_eq!(m.host.sent.len(), 1);
    assert_eq!(m.model.violations(Rule::TxUnaligned), 1);
}

#[test]
fn an_over_long_frame_freezes_the_device() {
    let mut m = running();
    queue_tx(&mut m, 0, &frame(1900));
    send(&mut m);
    assert_clean(&m);
    queue_tx(&mut m, 1, &frame(1901));
    queue_tx(&mut m, 2, &frame(60));
    send(&mut m);
    m.receive(&frame(100));
    m.run(SETTLE);
    assert_eq!(m.host.sent.len(), 1);
    assert_eq!(seen(&m, rx(0)).2, FEMPTY);
    assert_eq!(m.read(reg::EIS), 0);
    assert_eq!(m.model.violations(Rule::TxTooLong), 1);
    // CONFIG is out of reach, RESET is not.
    m.write(reg::CCC, 1);
    assert_eq!(m.read(reg::CSR) & 0xf, 4);
    m.write(reg::CCC, 0);
    format_rings(&mut m);
    configure(&mut m);
    operate(&mut m);
    m.receive(&frame(100));
    m.run(SETTLE);
    assert_eq!(seen(&m, rx(0)).2, FSINGLE);
}

#[test]
fn the_limit_is_a_property_and_counts_all_parts() {
    let mut m = running();
    m.set("tx-limit", "100");
    put(&mut m, tx(0), 60, FSTART, TX_BUFFERS);
    put(&mut m, tx(1), 41, FEND, TX_BUFFERS);
    send(&mut m);
    assert_eq!(m.model.violations(Rule::TxTooLong), 1);
}

#[test]
fn a_disabled_transmitter_holds_the_frame() {
    for (register, on, off) in [
        (reg::ECMR, 0x020b_0062, 0x020b_0042),
        (reg::CSR0, bit::CSR0_TPE | bit::CSR0_RPE, bit::CSR0_RPE),
    ] {
        let mut m = running();
        m.write(register, off);
        queue_tx(&mut m, 0, &frame(100));
        send(&mut m);
        assert!(m.host.sent.is_empty());
        assert_eq!(m.read(reg::CSR) & bit::CSR_TPO0, bit::CSR_TPO0);
        m.write(register, on);
        m.run(SETTLE);
        assert_eq!(m.host.sent.len(), 1);
        assert_eq!(m.read(reg::CSR) & bit::CSR_TPO0, 0);
    }
}

#[test]
fn the_checksum_engine_stops_after_the_frame() {
    let mut m = running();
    queue_tx(&mut m, 0, &frame(1000));
    doorbell(&mut m);
    m.run(2000);
    m.write(reg::CSR0, bit::CSR0_RPE);
    assert_eq!(m.read(reg::CSR0), bit::CSR0_RPE | bit::CSR0_TPE);
    m.run(10_000);
    assert_eq!(m.read(reg::CSR0), bit::CSR0_RPE);
    assert_eq!(m.host.sent.len(), 1);
}

#[test]
fn descriptor_interrupts() {
    let mut m = running();
    m.write(reg::DIC, 1 << 5);
    put(&mut m, tx(0), 40, FSTART | 3, TX_BUFFERS);
    put(&mut m, tx(1), 40, FEND | 5, TX_BUFFERS);
    send(&mut m);
    assert_eq!(m.read(reg::DIS), 1 << 3 | 1 << 5);
    assert_eq!(m.read(reg::TIS), 1 | 1 << 16);
    // DPS is masked by DIC.
    assert_eq!(m.read(reg::ISS) >> 16, 1 << 5);
    // The number is not written back.
    assert_eq!(seen(&m, tx(0)).2, FEMPTY);
    m.write(reg::DIS, !(1 << 5) & 0xfffe);
    assert_eq!(m.read(reg::DIS), 1 << 3);
}

#[test]
fn memory_that_is_not_there() {
    let mut m = running();
    put(&mut m, tx(0), 60, FSINGLE, 0x1000);
    send(&mut m);
    assert_eq!(esr(&mut m), (4, 0));
    assert_eq!(m.model.violations(Rule::DmaBusError), 1);
    let mut m = running();
    put(&mut m, tx(0), 0, LINKFIX, 0x1000);
    send(&mut m);
    assert_eq!(esr(&mut m), (0, 0));
}

#[test]
fn links_in_a_circle_end() {
    let mut m = running();
    put(&mut m, tx(0), 0, LINKFIX, tx(1));
    put(&mut m, tx(1), 0, LINKFIX, tx(0));
    send(&mut m);
    assert_eq!(m.model.violations(Rule::LinkLoop), 1);
    assert_eq!(esr(&mut m), (2, 0));
}

#[test]
fn unused_queues() {
    let mut m = running();
    m.write(reg::TCCR, 2);
    assert_eq!(m.model.violations(Rule::DoorbellUnusedQueue), 1);
    assert_eq!(m.read(reg::TCCR), 0);
}

#[test]
fn frames_are_lost_where_mac_and_link_disagree() {
    let mut m = running();
    m.write(reg::GECMR, 0x10);
    queue_tx(&mut m, 0, &frame(100));
    send(&mut m);
    // The descriptor completes all the same: the MAC does not know.
    assert_eq!(seen(&m, tx(0)).2, FEMPTY);
    assert!(m.host.sent.is_empty());
    assert_eq!(m.model.violations(Rule::SpeedMismatch), 1);
    m.write(reg::GECMR, 0x20);
    m.set("cable", "off");
    queue_tx(&mut m, 1, &frame(100));
    send(&mut m);
    assert!(m.host.sent.is_empty());
    assert_eq!(m.model.violations(Rule::SpeedMismatch), 1);
    assert_eq!(m.json("counters")["tx_lost"], 2);
}

#[test]
fn half_duplex_collides() {
    let mut m = Machine::new();
    m.set("partner", "100-half");
    m.set("collide-every", "2");
    format_rings(&mut m);
    m.run(200_000_000);
    configure(&mut m);
    operate(&mut m);
    m.write(reg::GECMR, 0x10);
    queue_tx(&mut m, 0, &frame(100));
    send(&mut m);
    assert_eq!(m.model.violations(Rule::DuplexMismatch), 1);
    assert_eq!(m.read(reg::CXR41), 0);
    let ecmr = m.read(reg::ECMR);
    m.write(reg::ECMR, ecmr & !bit::ECMR_DM);
    for i in 1..5 {
        queue_tx(&mut m, i, &frame(100));
    }
    send(&mut m);
    assert_eq!(m.host.sent.len(), 5);
    assert_eq!(m.read(reg::CXR41), 2);
    assert_eq!(m.model.violations(Rule::DuplexMismatch), 1);
    // One slot of 512 bits more than the frame takes.
    let times: Vec<u64> = m.host.sent.iter().map(|(at, _)| *at).collect();
    let gaps = [times[3] - times[2], times[4] - times[3]];
    assert_eq!(gaps.iter().min(), Some(&9920));
    assert_eq!(gaps.iter().max(), Some(&(9920 + 5120)));
    // Nobody there: the carrier is missing.
    m.set("cable", "off");
    queue_tx(&mut m, 5, &frame(100));
    send(&mut m);
    assert_eq!(m.read(reg::CXR42), 1);
}

#[test]
fn half_duplex_defers_to_the_other_side() {
    let mut m = Machine::new();
    m.set("partner", "100-half");
    format_rings(&mut m);
    m.run(200_000_000);
    configure(&mut m);
    operate(&mut m);
    m.write(reg::GECMR, 0x10);
    let ecmr = m.read(reg::ECMR);
    m.write(reg::ECMR, ecmr & !bit::ECMR_DM);
    let start = m.host.now;
    m.receive(&frame(1000));
    queue_tx(&mut m, 0, &frame(1000));
    doorbell(&mut m);
    m.run(SETTLE);
    assert_eq!(m.host.sent[0].0 - start, 2 * 1024 * 80);
}

#[test]
fn loops_back_inside() {
    let mut m = running();
    m.write(reg::CCC, 2 | bit::CCC_LBME);
    let mut frame = frame(100);
    frame[..6].fill(0x04);
    queue_tx(&mut m, 0, &frame);
    send(&mut m);
    assert!(m.host.sent.is_empty());
    assert_eq!(seen(&m, rx(0)), (104, 0, FSINGLE));
    assert_eq!(m.host.at(rx_buffer(0), 100), frame);
}

#[test]
fn a_pause_frame_holds_transmission() {
    let mut pause = vec![
        0x01, 0x80, 0xc2, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x88, 0x08, 0, 1, 0, 100,
    ];
    pause.resize(60, 0);
    let mut m = running();
    m.receive(&pause);
    m.run(700);
    assert_eq!(m.read(reg::PFRCR), 1);
    let start = m.host.now;
    queue_tx(&mut m, 0, &frame(60));
    doorbell(&mut m);
    m.run(SETTLE);
    // 100 quanta of 512 bits from the end of the frame; then the frame itself.
    let waited = m.host.sent[0].0 - start;
    assert!((51_000..52_300).contains(&waited), "{waited}");
    // It does not reach memory unless PFR asks for it.
    assert_eq!(m.json("counters")["rx_drops"]["filter"], 1);
    let ecmr = m.read(reg::ECMR);
    m.write(reg::ECMR, ecmr & !bit::ECMR_RXF | bit::ECMR_PFR);
    m.receive(&pause);
    m.run(SETTLE);
    assert_eq!(seen(&m, rx(0)), (64, 0x80, FSINGLE));
    assert_eq!(m.read(reg::PFRCR), 1);
}
