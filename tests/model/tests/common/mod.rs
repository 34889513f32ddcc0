// SPDX-License-Identifier: GPL-2.0
//! A minimal driver for tests: sets the device up as reference section 10 describes.

// Every test program uses another part of this.
#![allow(dead_code)]

use ravb_model::regs::{bit, reg};
use ravb_model::testing::{Machine, Memory};

/// Descriptor base address table.
pub(crate) const DBAT: u64 = Memory::BASE;
/// TX ring of 8 descriptors and a link.
pub(crate) const TX_RING: u64 = Memory::BASE + 0x1000;
/// RX ring of 8 descriptors and a link.
pub(crate) const RX_RING: u64 = Memory::BASE + 0x2000;
/// Descriptors in each ring.
pub(crate) const RING: u64 = 8;
/// TX buffers, 4 KiB each.
pub(crate) const TX_BUFFERS: u64 = Memory::BASE + 0x1_0000;
/// RX buffers, 4 KiB each.
pub(crate) const RX_BUFFERS: u64 = Memory::BASE + 0x2_0000;
/// Size given in RX descriptors.
pub(crate) const RX_SIZE: u16 = 2048;
/// Station address.
pub(crate) const MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 0x11];

pub(crate) const FMID: u8 = 0x40;
pub(crate) const FSTART: u8 = 0x50;
pub(crate) const FEND: u8 = 0x60;
pub(crate) const FSINGLE: u8 = 0x70;
pub(crate) const LINK: u8 = 0x80;
pub(crate) const LINKFIX: u8 = 0x90;
pub(crate) const EOS: u8 = 0xa0;
pub(crate) const FEMPTY: u8 = 0xc0;
pub(crate) const FEMPTY_IS: u8 = 0xd0;
pub(crate) const FEMPTY_IC: u8 = 0xe0;
pub(crate) const FEMPTY_ND: u8 = 0xf0;
pub(crate) const LEMPTY: u8 = 0x20;
pub(crate) const EEMPTY: u8 = 0x30;

pub(crate) fn descriptor(ds: u16, die_dt: u8, pointer: u64) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..2].copy_from_slice(&ds.to_le_bytes());
    bytes[3] = die_dt;
    bytes[4..].copy_from_slice(&(pointer as u32).to_le_bytes());
    bytes
}

pub(crate) fn put(m: &mut Machine, addr: u64, ds: u16, die_dt: u8, pointer: u64) {
    m.host.store(addr, &descriptor(ds, die_dt, pointer));
}

/// Size field, status byte and type of a descriptor.
pub(crate) fn seen(m: &Machine, addr: u64) -> (u16, u8, u8) {
    let bytes = m.host.at(addr, 8);
    (u16::from_le_bytes([bytes[0], bytes[1]]), bytes[2], bytes[3])
}

pub(crate) fn tx(i: u64) -> u64 {
    TX_RING + 8 * i
}

pub(crate) fn rx(i: u64) -> u64 {
    RX_RING + 8 * i
}

pub(crate) fn rx_buffer(i: u64) -> u64 {
    RX_BUFFERS + 0x1000 * i
}

/// Base table and rings as a driver lays them out, in memory only.
pub(crate) fn format_rings(m: &mut Machine) {
    for entry in 0..22 {
        put(m, DBAT + 8 * entry, 0, EOS, 0);
    }
    put(m, DBAT, 0, LINKFIX, TX_RING);
    put(m, DBAT + 32, 0, LINKFIX, RX_RING);
    for i in 0..RING {
        put(m, tx(i), 0, EEMPTY, 0);
        put(m, rx(i), RX_SIZE, FEMPTY, rx_buffer(i));
    }
    put(m, tx(RING), 0, LINKFIX, TX_RING);
    put(m, rx(RING), 0, LINKFIX, RX_RING);
}

/// CONFIG mode with everything set up but the rings.
pub(crate) fn configure(m: &mut Machine) {
    m.write(reg::CCC, 1);
    m.write(reg::DBAT, DBAT as u32);
    m.write(reg::RCR, 0x6000_0000);
    m.write(reg::RTC, 0x7ffc_0000 | 8192);
    m.write(reg::TGC, 0x0022_2200);
    m.write(reg::TCCR, 0);
    m.write(reg::RIC0, 1);
    m.write(reg::RIC1, 0);
    m.write(reg::RIC2, 0x8000_0001);
    m.write(reg::TIC, 1);
}

/// From CONFIG to frames flowing.
pub(crate) fn operate(m: &mut Machine) {
    m.write(reg::CCC, 2);
    m.write(reg::CXR35, 1000 << 16);
    m.write(reg::CXR31, 1);
    m.write(reg::RFLR, 8196);
    let ecmr = 0x000b_0000 | bit::ECMR_DM | bit::ECMR_TE | bit::ECMR_RE | bit::ECMR_RCPT;
    m.write(reg::ECMR, ecmr);
    m.write(reg::GECMR, 0x20);
    m.write(
        reg::MAHR,
        u32::from_be_bytes([MAC[0], MAC[1], MAC[2], MAC[3]]),
    );
    m.write(reg::MALR, u32::from_be_bytes([0, 0, MAC[4], MAC[5]]));
    m.write(reg::ECSR, 0x15);
    m.write(reg::CSR0, 0);
    m.write(reg::CSR1, 0x0030_0030);
    m.write(reg::CSR2, 0x0070_0070);
    m.write(reg::CSR0, 0x30);
    m.write(reg::ECSIPR, 1);
}

/// A machine in OPERATION with a gigabit link.
pub(crate) fn running() -> Machine {
    with(|_| ())
}

/// The same, with `prepare` called on the formatted rings before CONFIG.
pub(crate) fn with(prepare: impl FnOnce(&mut Machine)) -> Machine {
    let mut m = Machine::new();
    format_rings(&mut m);
    prepare(&mut m);
    m.run(200_000_000);
    configure(&mut m);
    operate(&mut m);
    m
}

/// A frame to this station whose payload counts up.
pub(crate) fn frame(len: usize) -> Vec<u8> {
    let mut frame = MAC.to_vec();
    frame.extend([0x02, 0, 0, 0, 0, 0x99, 0x88, 0xb5]);
    frame.extend((0..len.saturating_sub(14)).map(|i| i as u8));
    frame.truncate(len);
    frame
}

/// Queues one frame in descriptor `i` of the TX ring, without a doorbell.
pub(crate) fn queue_tx(m: &mut Machine, i: u64, frame: &[u8]) {
    let buffer = TX_BUFFERS + 0x1000 * i;
    m.host.store(buffer, frame);
    put(m, tx(i), frame.len() as u16, FSINGLE, buffer);
}

pub(crate) fn doorbell(m: &mut Machine) {
    m.write(reg::TCCR, 1);
}

/// Long enough for any frame.
pub(crate) const SETTLE: u64 = 1_000_000;

pub(crate) fn violations(m: &Machine) -> serde_json::Value {
    m.json("violations")
}

/// Panics if a rule was broken, with the log.
pub(crate) fn assert_clean(m: &Machine) {
    assert_eq!(
        violations(m),
        serde_json::json!({}),
        "{:#}",
        m.json("violation-log")
    );
}

/// One bit on the management bus; returns what the PHY drives.
fn mdio_bit(m: &mut Machine, drive: Option<bool>) -> bool {
    let pir = drive.map_or(0, |bit| 2 | u32::from(bit) << 2);
    m.write(reg::PIR, pir);
    m.write(reg::PIR, pir | 1);
    m.write(reg::PIR, pir);
    m.read(reg::PIR) & bit::PIR_MDI != 0
}

fn mdio_bits(m: &mut Machine, value: u32, count: u32) {
    for i in (0..count).rev() {
        mdio_bit(m, Some(value >> i & 1 != 0));
    }
}

/// Clause 22 read.
pub(crate) fn mdio_read(m: &mut Machine, phy: u32, register: u32) -> u16 {
    mdio_bits(m, u32::MAX, 32);
    mdio_bits(m, 0b0110 << 10 | phy << 5 | register, 14);
    if mdio_bit(m, None) {
        // Linux gives up where the turn-around bit is not 0.
        return 0xffff;
    }
    (0..16).fold(0, |value, _| value << 1 | u16::from(mdio_bit(m, None)))
}

/// Clause 22 write.
pub(crate) fn mdio_write(m: &mut Machine, phy: u32, register: u32, value: u16) {
    mdio_bits(m, u32::MAX, 32);
    mdio_bits(m, 0b0101 << 10 | phy << 5 | register, 14);
    mdio_bits(m, 0b10 << 16 | u32::from(value), 18);
}

/// Extended receive ring of queue `q`, 8 descriptors of 20 bytes and a link.
pub(crate) fn extended_ring(q: u64) -> u64 {
    Memory::BASE + 0x4000 + 0x400 * q
}

/// Descriptor `i` of the extended ring of queue `q`.
pub(crate) fn extended(q: u64, i: u64) -> u64 {
    extended_ring(q) + 20 * i
}

/// Buffer of descriptor `i` of queue `q`.
pub(crate) fn extended_buffer(q: u64, i: u64) -> u64 {
    Memory::BASE + 0x4_0000 + 0x8000 * q + 0x1000 * i
}

/// TX ring of queue `q` of the variants with several, 8 descriptors and a link.
pub(crate) fn tx_ring(q: u64) -> u64 {
    Memory::BASE + 0x3000 + 0x400 * q
}

/// An EtherAVB in OPERATION with a gigabit link, its rings for TX queues 0 to 3 and RX queues 0 to
/// 3, set up as the upstream driver does; `prepare` runs in CONFIG.
pub(crate) fn etheravb(variant: &str, prepare: impl FnOnce(&mut Machine)) -> Machine {
    let mut m = Machine::of(variant);
    for entry in 0..22 {
        put(&mut m, DBAT + 8 * entry, 0, EOS, 0);
    }
    for q in 0..4 {
        put(&mut m, DBAT + 8 * q, 0, LINKFIX, tx_ring(q));
        put(&mut m, DBAT + 32 + 8 * q, 0, LINKFIX, extended_ring(q));
        for i in 0..RING {
            put(&mut m, tx_ring(q) + 8 * i, 0, EEMPTY, 0);
            put(
                &mut m,
                extended(q, i),
                RX_SIZE,
                FEMPTY,
                extended_buffer(q, i),
            );
        }
        put(&mut m, tx_ring(q) + 8 * RING, 0, LINKFIX, tx_ring(q));
        put(&mut m, extended(q, RING), 0, LINKFIX, extended_ring(q));
    }
    m.run(200_000_000);
    operate_etheravb(&mut m, variant, prepare);
    m
}

/// The register part of [`etheravb`], from RESET to frames flowing.
pub(crate) fn operate_etheravb(m: &mut Machine, variant: &str, prepare: impl FnOnce(&mut Machine)) {
    let (gac, multi) = match variant {
        "gen3" | "gen4" => (bit::CCC_GAC | 1 << 16, true),
        "rzv2m" => (0, true),
        _ => (0, false),
    };
    m.write(reg::CCC, 1 | gac);
    if gac == 0 {
        m.write(reg::CCC, 1 | 1 << 16);
    }
    m.write(reg::DBAT, DBAT as u32);
    m.write(reg::RCR, 0x1800_003f);
    m.write(reg::TGC, 0x0011_2210);
    m.write(reg::TCCR, bit::TCCR_TFEN);
    if multi {
        m.write(reg::DIL, 0);
        m.write(reg::CIE, bit::CIE_CRIE | bit::CIE_CTIE | bit::CIE_CL0M);
    }
    m.write(reg::RIC0, 3);
    m.write(reg::RIC2, 0x8000_0003);
    m.write(reg::TIC, 0x103);
    prepare(m);
    let ccc = m.read(reg::CCC);
    m.write(reg::CCC, ccc & !3 | 2);
    m.write(reg::RFLR, 2052);
    let ecmr = 0x0008_0000 | bit::ECMR_DM | bit::ECMR_TE | bit::ECMR_RE | bit::ECMR_RCSC;
    m.write(reg::ECMR, ecmr);
    m.write(reg::GECMR, 1);
    m.write(reg::MAHR, 0x0200_0000);
    m.write(reg::MALR, 0x11);
    m.write(reg::ECSR, 3);
    m.write(reg::ECSIPR, 7);
    m.write(reg::GTI, 5 << 20);
    let gccr = m.read(reg::GCCR);
    m.write(reg::GCCR, gccr | bit::GCCR_LTI);
}
