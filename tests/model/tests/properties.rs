// SPDX-License-Identifier: GPL-2.0
//! Properties by name, counters, and the log.

mod common;

use common::*;
use ravb_model::properties::TABLE;
use ravb_model::regs::reg;
use ravb_model::rules::Rule;
use ravb_model::testing::Machine;
use serde_json::json;

#[test]
fn names_are_unique_and_documented() {
    let mut names: Vec<_> = TABLE.iter().map(|p| p.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), TABLE.len());
    for property in TABLE {
        assert!(!property.description.is_empty());
        let plain = |c: char| c.is_ascii_lowercase() || c == '-';
        assert!(property.name.chars().all(plain), "{}", property.name);
    }
}

#[test]
fn every_value_read_can_be_set() {
    for property in TABLE.iter().filter(|p| p.settable()) {
        let mut m = Machine::new();
        let value = m.model.get(property.name).unwrap_or_default();
        if !value.is_empty() {
            m.set(property.name, &value);
            assert_eq!(
                m.model.get(property.name).as_ref(),
                Some(&value),
                "{}",
                property.name
            );
        }
    }
}

#[test]
fn values_change() {
    let mut m = Machine::new();
    for (name, value) in [
        ("clk-off", "abort"),
        ("clk-off-state", "keep"),
        ("boot-mac", "02:00:5e:10:20:30"),
        ("tx-limit", "2000"),
        ("phy-address", "31"),
        ("phy-id", "0x00221622"),
        ("partner", "100-half"),
        ("partner-autoneg", "off"),
        ("partner-pause", "on"),
        ("cable", "off"),
        ("link-pin", "low"),
        ("rx-fend-total", "on"),
        ("mode-change-delay", "5"),
    ] {
        m.set(name, value);
        assert_eq!(m.model.get(name).as_deref(), Some(value), "{name}");
    }
    m.set("tx-limit", "0x100");
    assert_eq!(m.model.get("tx-limit").as_deref(), Some("256"));
}

#[test]
fn nonsense_is_refused() {
    let mut m = Machine::new();
    for (name, value) in [
        ("no-such-thing", "1"),
        ("variant", "gen9"),
        ("violations", "{}"),
        ("tx-hold", "maybe"),
        ("tx-limit", "many"),
        ("tx-limit", "0x100000000"),
        ("phy-address", "32"),
        ("boot-mac", "02:00"),
        ("partner", "2500-full"),
        ("emac-events", r#"{"ECMR": 1}"#),
    ] {
        let refused = m.model.set(&mut m.host, name, value);
        assert!(
            refused.is_err_and(|message| message.contains(name)),
            "{name}"
        );
    }
    assert_eq!(m.model.get("no-such-thing"), None);
}

#[test]
fn violations_have_name_register_and_value() {
    let mut m = running();
    m.write(reg::RCR, 0x1800_0001);
    m.write(reg::RCR, 0x1800_0001);
    assert_eq!(violations(&m), json!({ "wrong-mode-write": 2 }));
    let line = m.json("violation-log")[0]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    assert_eq!(line, "rule wrong-mode-write: RCR = 0x18000001 in Operation");
    assert_eq!(m.host.log, [line.clone(), line]);
    m.set("violations-reset", "1");
    assert_clean(&m);
}

#[test]
fn the_log_is_bounded_and_the_count_is_not() {
    let mut m = running();
    for _ in 0..1000 {
        m.write(reg::DBAT, 0);
    }
    assert_eq!(m.model.violations(Rule::WrongModeWrite), 1000);
    assert_eq!(m.host.log.len(), 50);
}

#[test]
fn costs_are_counted() {
    let mut m = running();
    m.set("counters-reset", "1");
    queue_tx(&mut m, 0, &frame(100));
    doorbell(&mut m);
    doorbell(&mut m);
    m.run(SETTLE);
    m.read(reg::ISS);
    m.read(reg::CDAR0 + 16);
    m.read(reg::ISS);
    let counters = m.json("counters");
    assert_eq!(counters["mmio_reads"], json!({ "ISS": 2, "CDAR4": 1 }));
    assert_eq!(counters["mmio_writes"], json!({ "TCCR": 2 }));
    assert_eq!(counters["mmio_reads_total"], 3);
    assert_eq!(counters["doorbells"], 2);
    assert_eq!(counters["doorbells_redundant"], 1);
    assert_eq!(counters["frames"], json!({ "tx0": 1 }));
    assert_eq!(counters["bytes"], json!({ "tx0": 100 }));
    assert_eq!(counters["engine_descriptors"]["tx0"]["word0_stores"], 1);
}

#[test]
fn state_and_trace() {
    let mut m = running();
    let state = m.json("state");
    assert_eq!(state["mode"], "operation");
    assert_eq!(state["link"], json!({ "mbps": 1000, "full": true }));
    m.set("trace", "on");
    m.read(reg::CSR);
    m.write(reg::RIC0, 1);
    assert!(
        m.host.log[0].ends_with("read CSR = 0x4"),
        "{}",
        m.host.log[0]
    );
    assert!(
        m.host.log[1].ends_with("write RIC0 = 0x1"),
        "{}",
        m.host.log[1]
    );
}

#[test]
fn registers_are_shown_by_name() {
    let mut m = running();
    m.write(reg::RIC0, 1);
    let registers = m.json("registers");
    assert_eq!(registers["RIC0"], 1);
    assert_eq!(registers["CDAR21"], 0);
    // An EtherAVB register that GbEth has not.
    assert_eq!(registers.get("APSR"), None);
    m.set("variant", "gen3");
    assert_eq!(m.json("registers")["APSR"], 0);
}

#[test]
fn accesses_are_recorded_in_order() {
    let mut m = Machine::new();
    m.write(reg::CCC, 1);
    m.set("record", "on");
    m.write(reg::RTC, 7);
    m.write(reg::PIR, 1);
    m.read(reg::CSR);
    m.set("record", "off");
    m.write(reg::RTC, 8);
    let expected = json!({ "accesses": [["w", "RTC", 7], ["r", "CSR", 2]], "lost": 0 });
    assert_eq!(m.json("accesses"), expected);
}
