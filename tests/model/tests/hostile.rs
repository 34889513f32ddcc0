// SPDX-License-Identifier: GPL-2.0
//! A device that lies: it is repeatable, and confined to its descriptors.

mod common;

use common::*;
use ravb_model::testing::{Access, Machine};

/// What a device with this seed writes to memory in some milliseconds.
fn writes(seed: &str, acts: &str) -> Vec<Access> {
    let mut m = running();
    m.host.accesses = Some(Vec::new());
    m.set("hostile-acts", acts);
    m.set("hostile-gap-ns", "1000");
    m.set("hostile", seed);
    for _ in 0..50 {
        m.receive(&frame(100));
        m.run(100_000);
    }
    assert!(events(&m) > 1000, "{}", events(&m));
    let mut accesses = m.host.accesses.take().unwrap_or_default();
    accesses.retain(|access| access.is_write);
    accesses
}

fn events(m: &Machine) -> u64 {
    m.model.get("hostile-events").unwrap().parse().unwrap()
}

#[test]
fn the_same_seed_does_the_same() {
    assert_eq!(writes("7", "31"), writes("7", "31"));
    assert_ne!(writes("7", "31"), writes("8", "31"));
}

#[test]
fn only_descriptors_are_written_and_none_is_given_to_the_device() {
    for access in writes("3", "3") {
        let rings = [(TX_RING, false), (RX_RING, true)];
        let ring = rings
            .iter()
            .find(|(start, _)| (*start..start + 8 * RING).contains(&access.addr));
        let Some((_, receive)) = ring else {
            // A frame that was received as it should be.
            assert!(access.addr >= RX_BUFFERS, "{access:x?}");
            continue;
        };
        if access.addr % 8 == 3 {
            let kind = access.data[0] & 0xf0;
            assert!(!matches!(kind, 0x80 | 0x90 | 0xd0..=0xf0), "{access:x?}");
            assert!(!receive || kind != 0xc0, "{access:x?}");
        } else {
            assert!(access.addr % 8 < 3, "{access:x?}");
        }
    }
}

#[test]
fn an_honest_device_keeps_still() {
    let mut m = running();
    m.set("hostile", "5");
    m.run(SETTLE);
    m.set("hostile", "0");
    let before = events(&m);
    m.run(SETTLE);
    assert_eq!(events(&m), before);
    assert_eq!(m.json("violations"), serde_json::json!({}));
}
