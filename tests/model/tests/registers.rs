// SPDX-License-Identifier: GPL-2.0
//! The register table, and what reading and writing registers means in general.

mod common;

use common::*;
use ravb_model::regs::{bit, reg, Access, Register, When, TABLE};
use ravb_model::rules::Rule;
use ravb_model::testing::Machine;
use ravb_model::variant::{Variant, VARIANTS};

/// A machine in CONFIG mode.
fn config() -> Machine {
    config_of("gbeth")
}

fn config_of(variant: &str) -> Machine {
    let mut m = Machine::of(variant);
    m.write(reg::CCC, 1);
    if variant == "gbeth" {
        m.write(reg::CXR35, 0);
    }
    m
}

/// Every register of every variant.
fn every_register() -> impl Iterator<Item = (&'static str, &'static Register)> {
    let registers = |variant: &'static Variant| {
        let registers = TABLE.iter().filter(|r| r.on.intersects(variant.set));
        registers.map(move |register| (variant.name, register))
    };
    VARIANTS.iter().flat_map(move |variant| registers(variant))
}

#[test]
fn no_two_registers_share_an_offset() {
    for variant in VARIANTS {
        let mut used = std::collections::BTreeMap::new();
        for r in TABLE.iter().filter(|r| r.on.intersects(variant.set)) {
            assert_eq!(r.offset % 4, 0, "{}", r.name);
            for n in 0..r.count {
                let other = used.insert(r.offset + 4 * n, r.name);
                assert_eq!(other, None, "{} of {}", r.name, variant.name);
            }
        }
    }
}

#[test]
fn masks_do_not_contradict() {
    for r in TABLE {
        assert_eq!(r.writable & r.ignored, 0, "{}", r.name);
        let plain = matches!(r.access, Access::ReadOnly | Access::Counter);
        assert_eq!(plain, r.writable == 0, "{}", r.name);
        assert!(!r.source.is_empty(), "{}", r.name);
    }
}

#[test]
fn reset_values() {
    let mut m = config();
    for (offset, value) in [
        (reg::RCR, 0x1800_0000),
        (reg::RPC, 0x100),
        (reg::RTC, 0x0ffc_0ffc),
        (reg::TGC, 0x0022_2200),
        (reg::VRR, 0xe300),
        (reg::CSR, 2),
        (reg::DLR, 0x3f_ffff),
        (reg::RIC3, 0),
        (reg::ECMR, 0),
    ] {
        assert_eq!(m.read(offset), value, "{offset:#x}");
    }
    assert_clean(&m);
}

/// Registers whose writes do more than store.
const SPECIAL: &[u16] = &[
    reg::CCC,
    reg::DLR,
    reg::TCCR,
    reg::PIR,
    reg::UFCD0,
    reg::SFL,
    reg::GCCR,
    reg::CSR0,
];

#[test]
fn plain_registers_keep_their_writable_bits() {
    for (variant, r) in every_register().filter(|(_, r)| r.access == Access::ReadWrite) {
        if SPECIAL.contains(&r.offset) {
            continue;
        }
        let mut m = config_of(variant);
        for n in 0..r.count {
            m.write(r.offset + 4 * n, r.writable);
            assert_eq!(
                m.read(r.offset + 4 * n),
                r.writable,
                "{variant} {}{n}",
                r.name
            );
        }
        assert_clean(&m);
        m.write(r.offset, 0);
        assert_eq!(m.read(r.offset), 0, "{variant} {}", r.name);
    }
}

#[test]
fn reserved_bits_are_reported_and_lost() {
    for (variant, r) in every_register().filter(|(_, r)| r.reserved() != 0) {
        let mut m = config_of(variant);
        let value = 1 << r.reserved().trailing_zeros();
        m.write(r.offset, value);
        assert_eq!(
            m.model.violations(Rule::ReservedBit),
            1,
            "{variant} {}",
            r.name
        );
        let log = m.json("violation-log").to_string();
        let (name, value) = (r.name, format!("{value:#x}"));
        assert!(log.contains(name) && log.contains(&value), "{log}");
        assert_eq!(m.host.log.len(), 1);
    }
}

#[test]
fn registers_that_set_and_clear_bits_of_others() {
    for (variant, r) in every_register() {
        let (target, set) = match r.access {
            Access::Sets(target) => (target, true),
            Access::Clears(target) => (target, false),
            _ => continue,
        };
        let mut m = config_of(variant);
        let some = r.writable & 0x5555_5555;
        let before = if set {
            some << 1 & r.writable
        } else {
            r.writable
        };
        m.write(target, before);
        m.write(r.offset, some);
        let expected = if set { before | some } else { before & !some };
        assert_eq!(m.read(target), expected, "{variant} {}", r.name);
        assert_eq!(m.read(r.offset), 0, "{variant} {}", r.name);
        assert_clean(&m);
    }
}

#[test]
fn masks_of_the_c_driver_pass() {
    let mut m = config();
    // What the C driver writes to acknowledge queue 0.
    m.write(reg::EIS, !(1 << 16 | 0xfffe_0000 | 0xf800));
    m.write(reg::RIS0, !(1 | 0xfffc_0000));
    m.write(reg::RIS2, !(3 | 1 << 31 | 0x7ffc_0000));
    m.write(reg::TIS, !(1 | 0xfff0_f0f0));
    assert_clean(&m);
}

#[test]
fn read_only_registers() {
    for (variant, r) in every_register().filter(|(_, r)| r.access == Access::ReadOnly) {
        let mut m = config_of(variant);
        let before = m.read(r.offset);
        m.write(r.offset, !before);
        assert_eq!(m.read(r.offset), before, "{variant} {}", r.name);
        assert_eq!(m.model.violations(Rule::ReadOnlyWrite), 1);
    }
}

#[test]
fn dmac_setup_belongs_in_config_mode() {
    for (variant, r) in every_register().filter(|(_, r)| r.when == When::Config) {
        let mut m = config_of(variant);
        m.write(reg::CCC, 2);
        let before = m.read(r.offset);
        m.write(r.offset, before ^ r.writable);
        assert_eq!(m.read(r.offset), before, "{variant} {}", r.name);
        assert_eq!(m.model.violations(Rule::WrongModeWrite), 1, "{}", r.name);
    }
}

#[test]
fn reset_mode_takes_nothing_but_ccc() {
    for (variant, r) in every_register() {
        if r.when != When::Running || r.writable == 0 {
            continue;
        }
        let mut m = Machine::of(variant);
        let before = m.read(r.offset);
        m.write(r.offset, r.writable);
        assert_eq!(m.read(r.offset), before, "{variant} {}", r.name);
        assert_eq!(m.model.violations(Rule::WrongModeWrite), 1, "{}", r.name);
    }
}

#[test]
fn emac_and_toe_are_writable_in_operation() {
    let mut m = running();
    m.write(reg::RFLR, 1600);
    m.write(reg::MAHR, 0x0200_0000);
    let ecmr = m.read(reg::ECMR);
    m.write(reg::ECMR, ecmr | bit::ECMR_PRM);
    assert_eq!(m.read(reg::RFLR), 1600);
    assert_eq!(m.read(reg::ECMR), ecmr | bit::ECMR_PRM);
    assert_clean(&m);
}

#[test]
fn what_is_not_there_reads_zero_and_is_reported() {
    let mut m = config();
    // CIE, GCCR and RIE0 exist on other members of the family only.
    for (n, offset) in [0x384, 0x390, 0x460, 0x57c, 0x80c, 0xfffc]
        .into_iter()
        .enumerate()
    {
        assert_eq!(m.read(offset), 0);
        m.write(offset, 0);
        assert_eq!(
            m.model.violations(Rule::UnmappedAccess),
            2 * n as u64 + 2,
            "{offset:#x}"
        );
    }
    m.model.bad_access(&mut m.host, 0x504, 2, true);
    assert_eq!(m.model.violations(Rule::BadAccess), 1);
}

#[test]
fn cxr35_comes_first() {
    let mut m = Machine::new();
    m.write(reg::CCC, 1);
    // The management pins are no E-MAC set-up.
    m.write(reg::PIR, 1);
    assert_clean(&m);
    m.write(reg::RFLR, 1600);
    assert_eq!(m.model.violations(Rule::Cxr35NotFirst), 1);
    m.write(reg::CXR35, 1000 << 16);
    m.write(reg::RFLR, 1600);
    assert_eq!(m.model.violations(Rule::Cxr35NotFirst), 1);
    // CONFIG keeps the E-MAC, RESET does not.
    m.write(reg::CCC, 2);
    m.write(reg::CCC, 1);
    m.write(reg::CCC, 0);
    m.write(reg::CCC, 1);
    m.write(reg::RFLR, 1600);
    assert_eq!(m.model.violations(Rule::Cxr35NotFirst), 2);
}

#[test]
fn checksum_control_needs_its_engine_stopped() {
    let mut m = running();
    let before = (m.read(reg::CSR1), m.read(reg::CSR2));
    m.write(reg::CSR1, 0);
    m.write(reg::CSR2, 0);
    assert_eq!((m.read(reg::CSR1), m.read(reg::CSR2)), before);
    assert_eq!(m.model.violations(Rule::Csr1WhileTpe), 1);
    assert_eq!(m.model.violations(Rule::Csr2WhileRpe), 1);
    // Each needs only its own.
    m.write(reg::CSR0, bit::CSR0_RPE);
    m.write(reg::CSR1, 0);
    m.write(reg::CSR0, bit::CSR0_TPE);
    m.write(reg::CSR2, 0);
    assert_eq!((m.read(reg::CSR1), m.read(reg::CSR2)), (0, 0));
    assert_eq!(m.model.violations(Rule::Csr1WhileTpe), 1);
    assert_eq!(m.model.violations(Rule::Csr2WhileRpe), 1);
}

#[test]
fn emac_counters_clear_as_trccm_says() {
    let mut m = running();
    m.set("emac-events", r#"{"TROCR": 3, "CXR41": 5}"#);
    assert_eq!(m.read(reg::TROCR), 3);
    assert_eq!(m.read(reg::TROCR), 3);
    m.write(reg::TROCR, 0xffff_ffff);
    assert_eq!(m.read(reg::TROCR), 0);
    let ecmr = m.read(reg::ECMR);
    m.write(reg::ECMR, ecmr | bit::ECMR_TRCCM);
    m.write(reg::CXR41, 0);
    assert_eq!(m.read(reg::CXR41), 5);
    assert_eq!(m.read(reg::CXR41), 0);
    m.set("emac-events", r#"{"TROCR": 4294967295}"#);
    m.set("emac-events", r#"{"TROCR": 1}"#);
    assert_eq!(m.read(reg::TROCR), u32::MAX);
}
