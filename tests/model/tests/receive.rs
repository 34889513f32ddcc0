// SPDX-License-Identifier: GPL-2.0
//! Reception: the way from the wire, and the descriptor engine.

mod common;

use common::*;
use ravb_model::regs::{bit, reg};
use ravb_model::rules::Rule;
use ravb_model::testing::Machine;

const EI: u16 = 1 << 13;
const TR: u16 = 1 << 12;
const MC: u8 = 0x80;

fn receive(m: &mut Machine, frame: &[u8]) {
    m.receive(frame);
    m.run(SETTLE);
}

/// A machine whose RX descriptors take `size` bytes each.
fn with_buffers_of(size: u16) -> Machine {
    with(|m| {
        for i in 0..RING {
            put(m, rx(i), size, FEMPTY, rx_buffer(i));
        }
    })
}

fn drops(m: &Machine, reason: &str) -> u64 {
    m.json("counters")["rx_drops"][reason]
        .as_u64()
        .unwrap_or(u64::MAX)
}

#[test]
fn long_frames_take_several_descriptors() {
    let mut m = with_buffers_of(1000);
    let frame = frame(2500);
    receive(&mut m, &frame);
    assert_eq!(seen(&m, rx(0)), (1000, 0, FSTART));
    assert_eq!(seen(&m, rx(1)), (1000, 0, FMID));
    assert_eq!(seen(&m, rx(2)), (504, 0, FEND));
    assert_eq!(seen(&m, rx(3)), (1000, 0, FEMPTY));
    let stored = [0, 1, 2].map(|i| {
        m.host
            .at(rx_buffer(i), [1000, 1000, 500][i as usize])
            .to_vec()
    });
    assert_eq!(stored.concat(), frame);
    assert_eq!(m.read(reg::RIS0), 1);
    assert_eq!(m.json("counters")["frames"]["rx0"], 1);
    assert_clean(&m);
}

#[test]
fn the_trailer_straddles_descriptors() {
    // Sizes that leave 0 to 4 bytes of the trailer for the second descriptor.
    for cut in 0..=4u16 {
        let mut m = with_buffers_of(100 + cut);
        receive(&mut m, &frame(100));
        if cut == 4 {
            assert_eq!(seen(&m, rx(0)), (104, 0, FSINGLE));
        } else {
            assert_eq!(seen(&m, rx(0)), (100 + cut, 0, FSTART));
            assert_eq!(seen(&m, rx(1)), (4 - cut, 0, FEND));
            assert_eq!(
                m.host.at(rx_buffer(1), usize::from(4 - cut)),
                vec![0xff; 4 - usize::from(cut)]
            );
        }
    }
}

#[test]
fn the_last_part_may_carry_the_total() {
    let mut m = with_buffers_of(1000);
    m.set("rx-fend-total", "on");
    receive(&mut m, &frame(2500));
    assert_eq!(seen(&m, rx(1)), (1000, 0, FMID));
    assert_eq!(seen(&m, rx(2)), (2504, 0, FEND));
}

#[test]
fn status_is_in_the_last_part_or_in_all() {
    for (all, expected) in [("off", [0, 0, MC]), ("on", [MC, MC, MC])] {
        let mut m = with_buffers_of(1000);
        m.set("rx-status-in-all-parts", all);
        let mut frame = frame(2500);
        frame[0] = 0x01;
        receive(&mut m, &frame);
        assert_eq!([0, 1, 2].map(|i| seen(&m, rx(i)).1), expected);
    }
}

#[test]
fn a_full_ring_drops_and_recovers_without_a_doorbell() {
    let mut m = running();
    for i in 0..RING + 2 {
        receive(&mut m, &frame(100 + i as usize));
    }
    assert_eq!(m.read(reg::RIS2), 1);
    assert_eq!(m.read(reg::EIS), bit::EIS_QFS);
    assert_eq!(m.read(reg::ISS) & bit::ISS_ES, bit::ISS_ES);
    assert_eq!(drops(&m, "ring"), 2);
    assert_eq!(m.read(reg::CDAR0 + 16), rx(RING) as u32);
    // QFS is a summary: it goes with RIS2.
    m.write(reg::EIS, 0);
    assert_eq!(m.read(reg::EIS), bit::EIS_QFS);
    m.write(reg::RIS2, !(1 | 0x7ffc_0000));
    assert_eq!(m.read(reg::EIS), 0);
    put(&mut m, rx(0), RX_SIZE, FEMPTY, rx_buffer(0));
    receive(&mut m, &frame(77));
    assert_eq!(seen(&m, rx(0)), (81, 0, FSINGLE));
    assert_eq!(m.read(reg::RIS2), 0);
    assert_clean(&m);
}

#[test]
fn a_ring_that_ends_in_mid_frame() {
    let short = |m: &mut Machine| {
        for i in 0..RING {
            put(
                m,
                rx(i),
                1000,
                if i < 2 { FEMPTY } else { FSINGLE },
                rx_buffer(i),
            );
        }
    };
    let mut m = with(short);
    receive(&mut m, &frame(2500));
    assert_eq!(seen(&m, rx(0)), (1000, 0, FSTART));
    assert_eq!(seen(&m, rx(1)), (1000 | EI, 0, FEND));
    assert_eq!(m.read(reg::RIS2), 1);
    // The worst case for a driver: a start without an end.
    let mut m = with(short);
    m.set("rx-ring-end-open", "on");
    receive(&mut m, &frame(2500));
    assert_eq!(seen(&m, rx(0)), (1000, 0, FSTART));
    assert_eq!(seen(&m, rx(1)), (1000, 0, FMID));
    assert_eq!(m.read(reg::RIS2), 1);
    put(&mut m, rx(2), 1000, FEMPTY, rx_buffer(2));
    receive(&mut m, &frame(100));
    assert_eq!(seen(&m, rx(2)), (104, 0, FSINGLE));
}

#[test]
fn descriptors_without_room_are_passed_over() {
    let mut m = with(|m| {
        put(m, rx(0), 0, FEMPTY, rx_buffer(0));
    });
    receive(&mut m, &frame(100));
    assert_eq!(seen(&m, rx(0)), (0, 0, FSTART));
    assert_eq!(seen(&m, rx(1)), (104, 0, FEND));
}

#[test]
fn links_used_once_are_followed_once() {
    let mut m = with(|m| {
        put(m, rx(0), 1000, FEMPTY, rx_buffer(0));
        put(m, rx(1), 0, LINK, rx(3));
        put(m, rx(3), 1000, FEMPTY, rx_buffer(3));
    });
    // Looking ahead from the first part must not use the link up.
    receive(&mut m, &frame(1500));
    assert_eq!(seen(&m, rx(0)), (1000, 0, FSTART));
    assert_eq!(seen(&m, rx(1)).2, LEMPTY);
    assert_eq!(seen(&m, rx(3)), (504, 0, FEND));
    assert_eq!(m.read(reg::RIS2), 0);
}

#[test]
fn incremental_areas() {
    let area = rx_buffer(0);
    let mut m = with(|m| {
        put(m, rx(0), 2048, FEMPTY_IS, area);
        put(m, rx(1), 2048, FEMPTY_IC, 0);
        put(m, rx(2), 2048, FEMPTY_ND, 0);
    });
    receive(&mut m, &frame(100));
    assert_eq!(m.read(reg::CIAR0), area as u32 + 104);
    receive(&mut m, &frame(200));
    assert_eq!(m.read(reg::CIAR0), area as u32 + 308);
    assert_eq!(m.host.at(area + 104, 200), frame(200));
    receive(&mut m, &frame(300));
    assert_eq!(seen(&m, rx(2)), (304, 0, FSINGLE));
    assert_clean(&m);
}

#[test]
fn write_back_modes() {
    for (rsm, expected) in [
        (0, (104, FSINGLE)),
        (1, (104, FEMPTY)),
        (2, (RX_SIZE, FEMPTY)),
    ] {
        let mut m = Machine::new();
        format_rings(&mut m);
        m.run(200_000_000);
        configure(&mut m);
        m.write(reg::RQC0, rsm);
        operate(&mut m);
        receive(&mut m, &frame(100));
        let (size, _, die_dt) = seen(&m, rx(0));
        assert_eq!((size, die_dt), expected);
        assert_eq!(m.host.at(rx_buffer(0), 100), frame(100));
    }
}

#[test]
fn truncation() {
    for (tsel, limit) in [(0x0, 200), (0x4, 300)] {
        let mut m = Machine::new();
        format_rings(&mut m);
        m.run(200_000_000);
        configure(&mut m);
        m.write(reg::RTC, 300 << 16 | 200);
        m.write(reg::RQC0, tsel);
        operate(&mut m);
        receive(&mut m, &frame(limit));
        assert_eq!(seen(&m, rx(0)), (limit as u16 + 4, 0, FSINGLE));
        receive(&mut m, &frame(limit + 1));
        assert_eq!(seen(&m, rx(1)), ((limit as u16 + 4) | TR, 0, FSINGLE));
    }
}

#[test]
fn descriptor_interrupts() {
    let mut m = with(|m| put(m, rx(0), RX_SIZE, FEMPTY | 7, rx_buffer(0)));
    receive(&mut m, &frame(100));
    assert_eq!(m.read(reg::DIS), 1 << 7);
    assert_eq!(m.read(reg::RIS3), 1);
    assert_eq!(seen(&m, rx(0)).2, FSINGLE);
}

#[test]
fn address_filter() {
    let to = |da: [u8; 6]| {
        let mut frame = frame(100);
        frame[..6].copy_from_slice(&da);
        frame
    };
    let stranger = to([0x02, 0, 0, 0, 0, 0x77]);
    let mut m = running();
    receive(&mut m, &stranger);
    assert_eq!(drops(&m, "filter"), 1);
    receive(&mut m, &to(MAC));
    receive(&mut m, &to([0xff; 6]));
    receive(&mut m, &to([0x33, 0x33, 0, 0, 0, 1]));
    let status: Vec<_> = (0..4).map(|i| seen(&m, rx(i))).collect();
    assert_eq!(status[0], (104, 0, FSINGLE));
    assert_eq!(status[1], (104, MC, FSINGLE));
    assert_eq!(status[2], (104, MC, FSINGLE));
    assert_eq!(status[3].2, FEMPTY);
    assert_eq!(m.read(reg::MAFCR), 2);
    let ecmr = m.read(reg::ECMR);
    m.write(reg::ECMR, ecmr | bit::ECMR_PRM);
    receive(&mut m, &stranger);
    assert_eq!(seen(&m, rx(3)).2, FSINGLE);
    // A new address takes effect at once.
    m.write(reg::ECMR, ecmr);
    m.write(reg::MALR, 0x77);
    receive(&mut m, &stranger);
    assert_eq!(seen(&m, rx(4)).2, FSINGLE);
}

#[test]
fn lengths_and_bad_frames_are_counted_and_dropped() {
    let mut m = running();
    m.write(reg::RFLR, 1522);
    for len in [59, 60, 1518, 1519] {
        receive(&mut m, &frame(len));
    }
    m.set("inject", r#"{"len": 100, "bad_fcs": true}"#);
    m.run(SETTLE);
    assert_eq!(m.read(reg::TSFRCR), 1);
    assert_eq!(m.read(reg::TLFRCR), 1);
    assert_eq!(m.read(reg::CEFCR), 1);
    assert_eq!(drops(&m, "error"), 3);
    assert_eq!(seen(&m, rx(0)), (64, 0, FSINGLE));
    assert_eq!(seen(&m, rx(1)), (1522, 0, FSINGLE));
    assert_eq!(seen(&m, rx(2)).2, FEMPTY);
}

#[test]
fn error_frames_can_be_delivered() {
    let mut m = running();
    m.set("deliver-errors", "on");
    m.write(reg::RFLR, 1522);
    receive(&mut m, &frame(59));
    receive(&mut m, &frame(1600));
    m.set("inject", r#"{"len": 100, "bad_fcs": true}"#);
    m.run(SETTLE);
    assert_eq!(seen(&m, rx(0)), (63 | EI, 0x04, FSINGLE));
    // What is beyond the limit is not stored.
    assert_eq!(seen(&m, rx(1)), (1522 | EI, 0x08, FSINGLE));
    assert_eq!(seen(&m, rx(2)), (104 | EI, 0x01, FSINGLE));
}

#[test]
fn any_status_can_be_injected() {
    let mut m = running();
    m.set("deliver-errors", "on");
    for msc in [0x02, 0x10, 0x20, 0x40, 0xff] {
        let i = m.json("counters")["frames"]["rx0"].as_u64().unwrap_or(0);
        m.set("inject", &format!(r#"{{"len": 64, "msc": {msc}}}"#));
        m.run(SETTLE);
        assert_eq!(seen(&m, rx(i)), (68 | EI, msc, FSINGLE));
    }
    // 0x20 and 0x40 have no counter.
    let counters = [
        (reg::CEFCR, 1),
        (reg::FRECR, 2),
        (reg::TSFRCR, 1),
        (reg::TLFRCR, 1),
        (reg::RFCR, 2),
    ];
    for (counter, expected) in counters {
        assert_eq!(m.read(counter), expected, "{counter:#x}");
    }
}

#[test]
fn truncation_and_short_stores_can_be_injected() {
    let mut m = running();
    m.set("inject", r#"{"len": 64, "truncated": true}"#);
    m.set("inject", r#"{"len": 64, "stored": 0}"#);
    m.set("inject", r#"{"len": 64, "stored": 3}"#);
    m.run(SETTLE);
    assert_eq!(seen(&m, rx(0)), (68 | TR, 0, FSINGLE));
    assert_eq!(seen(&m, rx(1)), (0, 0, FSINGLE));
    assert_eq!(seen(&m, rx(2)), (3, 0, FSINGLE));
}

#[test]
fn rings_can_be_walked() {
    let mut m = running();
    receive(&mut m, &frame(100));
    m.set("walk", "rx0");
    let ring = m.json("ring");
    let list = ring.as_array().unwrap();
    // The link at the end is not a slot.
    assert_eq!(list.len() as u64, RING);
    assert_eq!(list[0], serde_json::json!(["Single", 104, rx_buffer(0)]));
    assert_eq!(list[7], serde_json::json!(["Empty", RX_SIZE, rx_buffer(7)]));
    assert!(m.model.set(&mut m.host, "walk", "rx1").is_err());
    assert!(m.model.set(&mut m.host, "walk", "nonsense").is_err());
}

#[test]
fn jumbo_frames() {
    let mut m = running();
    let frame = frame(8192);
    receive(&mut m, &frame);
    let sizes: Vec<_> = (0..5).map(|i| seen(&m, rx(i))).collect();
    assert_eq!(sizes[0], (2048, 0, FSTART));
    assert_eq!(sizes[3], (2048, 0, FMID));
    assert_eq!(sizes[4], (4, 0, FEND));
    receive(&mut m, &frame[..8000]);
    assert_eq!(m.read(reg::RIS2), 1);
}

#[test]
fn the_trailer_is_optional() {
    let mut m = running();
    m.write(reg::CSR0, bit::CSR0_TPE);
    m.write(reg::CSR2, 0);
    m.write(reg::CSR0, bit::CSR0_TPE | bit::CSR0_RPE);
    receive(&mut m, &frame(100));
    assert_eq!(seen(&m, rx(0)).0, 104);
    m.set("toe-trailer-always", "off");
    receive(&mut m, &frame(100));
    assert_eq!(seen(&m, rx(1)).0, 100);
    // Without pass-through of the FCS there is none, or the sum of EtherAVB.
    let ecmr = m.read(reg::ECMR);
    m.write(reg::ECMR, ecmr & !bit::ECMR_RCPT);
    receive(&mut m, &frame(100));
    assert_eq!(seen(&m, rx(2)).0, 100);
    m.write(reg::ECMR, ecmr & !bit::ECMR_RCPT | bit::ECMR_RCSC);
    receive(&mut m, &frame(100));
    assert_eq!(seen(&m, rx(3)).0, 102);
}

#[test]
fn frames_arrive_at_the_speed_of_the_wire() {
    let mut m = running();
    for _ in 0..3 {
        m.receive(&frame(1000));
    }
    m.run(1024 * 8 - 1);
    assert_eq!(seen(&m, rx(0)).2, FEMPTY);
    m.run(1);
    assert_eq!(seen(&m, rx(0)).2, FSINGLE);
    m.run(1024 * 8 - 1);
    assert_eq!(seen(&m, rx(1)).2, FEMPTY);
    m.run(1024 * 8 + 1);
    assert_eq!(seen(&m, rx(2)).2, FSINGLE);
}

#[test]
fn a_late_timer_loses_no_time() {
    let mut m = running();
    for _ in 0..3 {
        m.receive(&frame(1000));
    }
    m.host.now += SETTLE;
    m.model.timer(&mut m.host);
    assert_eq!([0, 1, 2].map(|i| seen(&m, rx(i)).2), [FSINGLE; 3]);
}

#[test]
fn nothing_arrives_without_link_or_receiver() {
    let mut m = running();
    let ecmr = m.read(reg::ECMR);
    m.write(reg::ECMR, ecmr & !bit::ECMR_RE);
    receive(&mut m, &frame(100));
    assert_eq!(drops(&m, "disabled"), 1);
    m.write(reg::ECMR, ecmr);
    m.write(reg::GECMR, 0x10);
    receive(&mut m, &frame(100));
    assert_eq!(drops(&m, "link"), 1);
    m.write(reg::GECMR, 0x20);
    m.set("cable", "off");
    receive(&mut m, &frame(100));
    assert_eq!(drops(&m, "link"), 2);
    m.set("cable", "on");
    m.run(200_000_000);
    receive(&mut m, &frame(100));
    assert_eq!(seen(&m, rx(0)).2, FSINGLE);
}

#[test]
fn the_fifo_fills_while_the_engine_is_held() {
    let stop = |m: &mut Machine| m.write(reg::CSR0, bit::CSR0_TPE);
    let go = |m: &mut Machine| m.write(reg::CSR0, bit::CSR0_TPE | bit::CSR0_RPE);
    let mut m = running();
    m.set("rx-fifo", "2500");
    stop(&mut m);
    for _ in 0..3 {
        receive(&mut m, &frame(1000));
    }
    assert_eq!(m.read(reg::CSR) & bit::CSR_RPO, bit::CSR_RPO);
    assert_eq!(m.read(reg::RIS2), bit::RIS2_RFFF);
    assert_eq!(m.read(reg::EIS), bit::EIS_QFS);
    assert_eq!(drops(&m, "fifo"), 1);
    go(&mut m);
    m.run(SETTLE);
    assert_eq!(m.read(reg::CSR) & bit::CSR_RPO, 0);
    assert_eq!(seen(&m, rx(1)).2, FSINGLE);
    assert_eq!(seen(&m, rx(2)).2, FEMPTY);
}

#[test]
fn the_sender_has_a_queue_too() {
    let mut m = running();
    m.set("wire-backlog", "2500");
    for _ in 0..3 {
        m.receive(&frame(1000));
    }
    assert_eq!(drops(&m, "backlog"), 1);
    m.run(SETTLE);
    m.receive(&frame(1000));
    assert_eq!(drops(&m, "backlog"), 1);
}

#[test]
fn unread_frames_are_counted() {
    let mut m = running();
    for _ in 0..3 {
        receive(&mut m, &frame(100));
    }
    assert_eq!(m.read(reg::UFCV0), 3);
    m.write(reg::UFCD0, 2);
    assert_eq!(m.read(reg::UFCV0), 1);
    m.write(reg::UFCD0, 2);
    assert_eq!(m.read(reg::UFCV0), 0);
    assert_eq!(m.read(reg::UFCD0), 0);
}

#[test]
fn memory_that_is_not_there() {
    let mut m = with(|m| put(m, rx(0), RX_SIZE, FEMPTY, 0x1000));
    receive(&mut m, &frame(100));
    assert_eq!(m.read(reg::EIS) & bit::EIS_QEF, bit::EIS_QEF);
    assert_eq!(m.read(reg::ESR), 5 << 8 | 4);
    assert_eq!(m.model.violations(Rule::DmaBusError), 1);
    assert_eq!(drops(&m, "bus"), 1);
    receive(&mut m, &frame(100));
    assert_eq!(m.read(reg::ESR), 5 << 8 | 4 | bit::ESR_EIL);
}

#[test]
fn buffers_are_not_descriptors() {
    let mut m = with(|m| put(m, rx(0), RX_SIZE, FEMPTY, TX_RING));
    receive(&mut m, &frame(60));
    assert_eq!(m.model.violations(Rule::DmaOutsideDescriptor), 1);
}

#[test]
fn reserved_types_stop_the_ring() {
    for die_dt in [0x00, 0x10, 0xb0] {
        let mut m = with(|m| put(m, rx(0), RX_SIZE, die_dt, rx_buffer(0)));
        receive(&mut m, &frame(60));
        assert_eq!(m.model.violations(Rule::ReservedType), 1);
        assert_eq!(m.read(reg::RIS2), 1);
    }
}

#[test]
fn injected_series() {
    let mut m = running();
    let start = m.host.now;
    m.set(
        "inject",
        r#"{"len": 60, "count": 4, "gap_ns": 10000, "seq_at": 20, "fill": 255}"#,
    );
    m.run(SETTLE);
    for i in 0..4 {
        let stored = m.host.at(rx_buffer(i), 60);
        assert_eq!(stored[20..24], (i as u32).to_be_bytes());
        assert_eq!(stored[24], 0xff);
        assert_eq!(stored[..6], MAC);
    }
    m.set(
        "inject",
        r#"{"hex": "ffffffffffff 020000000099 88b5 0102"}"#,
    );
    m.run(SETTLE);
    assert_eq!(drops(&m, "error"), 1);
    m.set(
        "inject",
        r#"{"len": 60, "da": "02:00:00:00:00:77", "filter": false}"#,
    );
    m.run(SETTLE);
    assert_eq!(seen(&m, rx(4)).2, FSINGLE);
    assert!(m.host.now > start);
}

#[test]
fn injection_refuses_nonsense() {
    let mut m = running();
    for text in [
        "",
        "[]",
        "{}",
        r#"{"len": 70000}"#,
        r#"{"len": 60, "msc": 256}"#,
        r#"{"hex": "abc"}"#,
        r#"{"len": 60, "colour": 1}"#,
        r#"{"len": "sixty"}"#,
        r#"{"len": 60, "count": 99999999}"#,
        r#"{"len": 60, "bad_fcs": 1}"#,
    ] {
        assert!(m.model.set(&mut m.host, "inject", text).is_err(), "{text}");
    }
}

#[test]
fn injected_in_turns() {
    let mut m = running();
    m.set(
        "inject",
        r#"[{"len": 60, "fill": 1, "count": 2}, {"len": 61, "fill": 2, "gap_ns": 5000}]"#,
    );
    m.run(SETTLE);
    let fills = [0, 1, 2, 3].map(|i| m.host.at(rx_buffer(i), 60)[50]);
    assert_eq!(fills, [1, 2, 1, 2]);
}
