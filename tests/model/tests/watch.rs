// SPDX-License-Identifier: GPL-2.0
//! Watch windows: counting what CPUs do with descriptors, and provoking wrong orders.

mod common;

use common::*;
use ravb_model::regs::reg;
use ravb_model::rules::Rule;
use ravb_model::testing::{Machine, Memory};

fn watching(eager: bool) -> Machine {
    with(|m| {
        m.set("watch", "on");
        m.set("eager-fetch", if eager { "on" } else { "off" });
    })
}

fn torn(m: &Machine) -> u64 {
    m.model.violations(Rule::DescriptorTorn)
}

#[test]
fn windows_cover_the_rings_and_close() {
    let mut m = running();
    assert!(m.host.windows.is_empty());
    m.write(reg::CCC, 1);
    m.set("watch", "on");
    m.write(reg::CCC, 2);
    // The two rings lie in neighbouring pages; the base table does not count.
    assert_eq!(m.host.windows, [(TX_RING, 0x2000)]);
    m.write(reg::CCC, 1);
    assert!(m.host.windows.is_empty());
    m.write(reg::CCC, 2);
    assert_eq!(m.host.windows.len(), 1);
    m.write(reg::CCC, 0);
    assert!(m.host.windows.is_empty());
}

#[test]
fn far_rings_have_windows_of_their_own() {
    const FAR: u64 = Memory::BASE + 0x9_0ff8;
    let m = with(|m| {
        put(m, DBAT + 32, 0, LINKFIX, FAR);
        put(m, FAR, RX_SIZE, FEMPTY, rx_buffer(0));
        put(m, FAR + 8, 0, LINKFIX, FAR);
        m.set("watch", "on");
    });
    assert_eq!(m.host.windows, [(TX_RING, 0x1000), (FAR & !0xfff, 0x2000)]);
}

#[test]
fn series_of_first_words_are_counted() {
    let mut m = watching(false);
    for _ in 0..3 {
        for i in 0..4 {
            m.cpu_store(rx(i) + 4, &(rx_buffer(i) as u32).to_le_bytes());
        }
        for i in 0..4 {
            m.cpu_store(rx(i), &[0, 8, 0, FEMPTY]);
        }
    }
    assert_eq!(m.json("counters")["cpu_hand_overs"]["rx0"], 3);
}

#[test]
fn accesses_are_counted_by_word() {
    let mut m = watching(false);
    m.cpu_load(rx(0), 4);
    m.cpu_load(rx(0) + 3, 1);
    m.cpu_load(rx(1) + 4, 4);
    m.cpu_load(rx(1), 8);
    m.cpu_store(tx(0) + 4, &[0; 4]);
    m.cpu_store(tx(0), &[100, 0, 0, EEMPTY]);
    // The unused rest of a page belongs to nobody.
    m.cpu_load(RX_RING + 0x800, 4);
    let cpu = &m.json("counters")["cpu_descriptors"];
    assert_eq!(cpu["rx0"]["word0_loads"], 3);
    assert_eq!(cpu["rx0"]["other_loads"], 1);
    assert_eq!(cpu["rx0"]["word0_stores"], 0);
    assert_eq!(cpu["tx0"]["other_stores"], 1);
    assert_eq!(cpu["tx0"]["word0_stores"], 1);
    m.receive(&frame(100));
    m.run(SETTLE);
    let engine = m.json("counters")["engine_descriptors"]["rx0"].clone();
    assert_eq!(engine["word0_stores"], 2);
    assert_clean(&m);
}

/// Refills a slot the right way.
fn refill(m: &mut Machine, i: u64) {
    m.cpu_store(rx(i) + 4, &(rx_buffer(i) as u32).to_le_bytes());
    let [lo, hi] = RX_SIZE.to_le_bytes();
    m.cpu_store(rx(i), &[lo, hi, 0, FEMPTY]);
}

#[test]
fn a_correct_driver_passes() {
    for eager in [false, true] {
        let mut m = watching(eager);
        for n in 0..3 * RING {
            let len = 100 + n as usize;
            m.receive(&frame(len));
            m.run(SETTLE);
            let i = n % RING;
            assert_eq!(m.cpu_load(rx(i), 4) as u32 >> 24, u32::from(FSINGLE));
            refill(&mut m, i);

            let buffer = TX_BUFFERS + 0x1000 * i;
            m.host.store(buffer, &frame(len));
            m.cpu_store(tx(i) + 4, &(buffer as u32).to_le_bytes());
            m.cpu_store(tx(i), &(len as u16).to_le_bytes());
            m.cpu_store(tx(i) + 3, &[FSINGLE]);
            doorbell(&mut m);
            m.run(SETTLE);
            assert_eq!(m.host.sent.len() as u64, n + 1, "eager {eager}");
        }
        assert_clean(&m);
    }
}

#[test]
fn a_descriptor_changed_after_hand_over_is_torn() {
    // Receive: the pointer after the type.
    let mut m = watching(false);
    m.receive(&frame(100));
    m.run(SETTLE);
    m.cpu_store(rx(0) + 3, &[FEMPTY]);
    assert_eq!(torn(&m), 0);
    m.cpu_store(rx(0) + 4, &(rx_buffer(1) as u32).to_le_bytes());
    assert_eq!(torn(&m), 1);
    // Storing what is there already changes nothing.
    m.cpu_store(rx(0) + 4, &(rx_buffer(1) as u32).to_le_bytes());
    assert_eq!(torn(&m), 1);
    // Transmit: the size after the type.
    m.cpu_store(tx(0) + 3, &[FSINGLE]);
    m.cpu_store(tx(0), &[60, 0]);
    assert_eq!(torn(&m), 2);
    // What the engine has given back may be changed.
    m.receive(&frame(100));
    m.run(SETTLE);
    assert_eq!(seen(&m, rx(1)).2, FSINGLE);
    refill(&mut m, 1);
    assert_eq!(torn(&m), 2);
}

#[test]
fn eager_reception_uses_what_it_saw_first() {
    let mut m = watching(true);
    for _ in 0..RING {
        m.receive(&frame(100));
        m.run(SETTLE);
    }
    // Type before pointer: the frame goes to the old buffer.
    m.cpu_store(rx(0), &[0, 8, 0, FEMPTY]);
    m.cpu_store(rx(0) + 4, &(rx_buffer(20) as u32).to_le_bytes());
    m.receive(&frame(321));
    m.run(SETTLE);
    assert_eq!(m.host.at(rx_buffer(0), 321), frame(321));
    assert_eq!(torn(&m), 1);
}

#[test]
fn eager_transmission_needs_no_doorbell() {
    let mut m = watching(true);
    let buffer = TX_BUFFERS;
    m.host.store(buffer, &frame(100));
    m.cpu_store(tx(0) + 4, &(buffer as u32).to_le_bytes());
    m.cpu_store(tx(0), &[100, 0, 0, FSINGLE]);
    m.run(SETTLE);
    assert_eq!(m.host.sent.len(), 1);
}

#[test]
fn eager_transmission_shows_a_start_without_an_end() {
    let mut m = watching(true);
    for (i, offset) in [(0, 0), (1, 40)] {
        m.cpu_store(tx(i) + 4, &((TX_BUFFERS + offset) as u32).to_le_bytes());
        m.cpu_store(tx(i), &[40, 0, 0, EEMPTY]);
    }
    // The wrong way: the first part first.
    m.cpu_store(tx(0) + 3, &[FSTART]);
    assert_eq!(m.model.violations(Rule::TxSequence), 1);

    let mut m = watching(true);
    for (i, offset) in [(0, 0), (1, 40)] {
        m.cpu_store(tx(i) + 4, &((TX_BUFFERS + offset) as u32).to_le_bytes());
        m.cpu_store(tx(i), &[40, 0, 0, EEMPTY]);
    }
    m.cpu_store(tx(1) + 3, &[FEND]);
    m.cpu_store(tx(0) + 3, &[FSTART]);
    m.run(SETTLE);
    assert_eq!(m.host.sent.len(), 1);
    assert_clean(&m);
}
