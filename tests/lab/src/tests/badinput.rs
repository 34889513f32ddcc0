// SPDX-License-Identifier: GPL-2.0
//! Broken device trees, a missing PHY, and frames that no driver should believe.

use super::{Run, Test};
use crate::check::Bench;
use crate::env::Driver;
use crate::net::{self, IFACE};
use crate::vm::{Machine, Net};
use anyhow::{ensure, Context, Result};
use serde_json::json;

type Function = fn(&mut Bench<'_>) -> Result<()>;

/// Device trees that lack something: probe fails and says what.
const BROKEN: &[(&str, &str, Function)] = &[
    ("no-clock", "NO_CLOCKS", |bench| {
        probe_fails(bench, &["clock", "clk"], &["ENOENT"])
    }),
    ("no-reset", "NO_RESETS", |bench| {
        probe_fails(bench, &["reset"], &["ENOENT"])
    }),
    ("no-irq", "NO_INTERRUPTS", |bench| {
        probe_fails(
            bench,
            &["irq", "interrupt"],
            &["ENXIO", "EINVAL", "ENODATA"],
        )
    }),
    ("no-reg", "NO_REG", |bench| {
        probe_fails(
            bench,
            &["register", "resource", "reg "],
            &["EINVAL", "ENODEV", "ENXIO"],
        )
    }),
    ("no-phy-mode", "NO_PHY_MODE", |bench| {
        probe_fails(bench, &["phy-mode"], &["ENODEV", "EINVAL"])
    }),
    ("no-phy", "NO_PHY_HANDLE", open_fails),
];

/// Frames that are wrong.
pub(super) const FRAMES: &[(&str, Function)] = &[
    ("crc", crc),
    ("runt", runt),
    ("oversize", oversize),
    ("status-codes", status_codes),
    ("ring-empty", ring_empty),
];

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    let mut add = |name: &str, machine: Machine, run: Function| {
        let run = Run::Guest {
            driver: Driver::Rust,
            machine,
            run,
        };
        tests.push(Test {
            name: format!("badinput-{name}"),
            long: false,
            run,
        });
    };
    for &(name, flavour, run) in BROKEN {
        add(
            name,
            Machine {
                flavours: vec![flavour],
                ..Machine::rzg2l(Net::User)
            },
            run,
        );
    }
    let absent = Machine {
        properties: vec!["phy-present=off".to_string()],
        ..Machine::rzg2l(Net::User)
    };
    add("phy-silent", absent, phy_silent);
    for &(name, run) in FRAMES {
        add(name, Machine::rzg2l(Net::User), run);
    }
    tests
}

/// Loads the driver twice; each time the probe must fail with a message that has one of `words`
/// and one of `errors`, and leave nothing behind.
fn probe_fails(bench: &mut Bench<'_>, words: &[&str], errors: &[&str]) -> Result<()> {
    let module = bench.driver.module();
    for attempt in 1..=2 {
        let mark = bench.vm.console_mark("probe")?;
        net::load(bench.vm, bench.driver)?;
        bench
            .vm
            .ok(&format!("[ ! -e /sys/class/net/{IFACE} ]"))
            .context("the probe succeeded")?;
        bench.vm.console_mark("probed")?;
        let log = bench.vm.console_since(mark);
        let told = log.lines().any(|line| {
            let low = line.to_lowercase();
            line.contains(module)
                && words.iter().any(|word| low.contains(word))
                && errors
                    .iter()
                    .any(|error| line.contains(&format!("-{error}")))
        });
        ensure!(
            told,
            "attempt {attempt}: no message with one of {words:?}, {errors:?} in\n{log}"
        );
        nothing_held(bench)?;
        bench.vm.ok(&format!("rmmod {module}"))?;
    }
    Ok(())
}

/// Neither register window nor interrupt nor clock is in use by the device.
fn nothing_held(bench: &mut Bench<'_>) -> Result<()> {
    bench.vm.ok("for f in /proc/iomem /proc/interrupts; do
             if grep -i ethernet $f; then echo \"still in $f\"; exit 1; fi
         done
         awk '/eth[0-9]_(axi|chi)/ && $2 > 0 { print; bad = 1 } END { exit bad }' \
             /sys/kernel/debug/clk/clk_summary")?;
    Ok(())
}

/// Without a PHY the interface exists but does not open; it says so, and can be tried again.
fn open_fails(bench: &mut Bench<'_>) -> Result<()> {
    bench.load()?;
    for attempt in 1..=3 {
        let mark = bench.vm.console_mark("open")?;
        let output = bench.vm.run(&format!("ip link set {IFACE} up"), 20)?;
        ensure!(
            output.status != 0,
            "attempt {attempt}: open succeeded without a PHY"
        );
        bench.vm.console_mark("opened")?;
        let log = bench.vm.console_since(mark).to_lowercase();
        ensure!(
            log.contains("phy"),
            "attempt {attempt}: no message about the PHY in\n{log}"
        );
    }
    bench.vm.ok(&format!("rmmod {}", bench.driver.module()))?;
    nothing_held(bench)
}

/// The device tree promises a PHY that does not answer: open fails or there is no link, and the
/// interface can be closed.
fn phy_silent(bench: &mut Bench<'_>) -> Result<()> {
    bench.load()?;
    for _ in 0..2 {
        let output = bench.vm.run(&format!("ip link set {IFACE} up"), 20)?;
        if output.status == 0 {
            let carrier = format!("sleep 2; cat /sys/class/net/{IFACE}/carrier");
            ensure!(
                bench.vm.ok(&carrier)?.trim() == "0",
                "carrier without a PHY"
            );
        }
        bench.vm.ok(&format!("ip link set {IFACE} down"))?;
    }
    bench.vm.ok(&format!("rmmod {}", bench.driver.module()))?;
    nothing_held(bench)
}

/// Puts frames on the wire.
pub(super) fn inject(bench: &mut Bench<'_>, what: serde_json::Value) -> Result<()> {
    bench.vm.set_property("inject", what.to_string())
}

/// How much a counter rises while `action` runs and a moment after.
pub(super) fn rise(
    bench: &mut Bench<'_>,
    counters: &[&str],
    action: impl FnOnce(&mut Bench<'_>) -> Result<()>,
) -> Result<Vec<u64>> {
    let read = |bench: &mut Bench<'_>| -> Result<Vec<u64>> {
        counters.iter().map(|name| bench.counter(name)).collect()
    };
    let before = read(bench)?;
    action(bench)?;
    bench.vm.ok("sleep 0.5")?;
    let after = read(bench)?;
    Ok(before
        .iter()
        .zip(&after)
        .map(|(old, new)| new - old)
        .collect())
}

/// Ten frames with a fault are counted and dropped, and reception goes on: where the MAC keeps
/// them to itself and only counts, and where it hands them over with a status (the sources do not
/// agree on which it is).
fn dropped(bench: &mut Bench<'_>, frame: serde_json::Value, counter: &str) -> Result<()> {
    const COUNT: u64 = 10;
    bench.up()?;
    let mut frame = frame;
    frame["count"] = json!(COUNT);
    frame["gap_ns"] = json!(1_000_000);
    for delivered in ["off", "on"] {
        bench.vm.set_property("deliver-errors", delivered)?;
        let counters = ["rx_errors", counter, "rx_packets"];
        let rises = rise(bench, &counters, |bench| inject(bench, frame.clone()));
        bench.vm.set_property("deliver-errors", "off")?;
        let rises = rises?;
        // The network may have something to say of its own.
        ensure!(
            rises[..2] == [COUNT, COUNT] && rises[2] < COUNT,
            "deliver-errors={delivered}: {counters:?} rose by {rises:?}"
        );
        bench.ping(5, 56)?;
    }
    Ok(())
}

fn crc(bench: &mut Bench<'_>) -> Result<()> {
    dropped(
        bench,
        json!({ "len": 200, "bad_fcs": true }),
        "rx_crc_errors",
    )
}

/// Below the minimum.
fn runt(bench: &mut Bench<'_>) -> Result<()> {
    dropped(bench, json!({ "len": 40 }), "rx_length_errors")
}

/// Longer than the device was told to accept.
fn oversize(bench: &mut Bench<'_>) -> Result<()> {
    dropped(bench, json!({ "len": 10000 }), "rx_length_errors")
}

/// Whatever status the device reports, reception goes on.
fn status_codes(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    for code in 0..=255 {
        inject(bench, json!({ "len": 100, "msc": code }))?;
        inject(bench, json!({ "len": 5000, "msc": code }))?;
    }
    bench.ping(10, 1400)
}

/// More frames than the ring and the FIFO hold: what is lost is counted, reception goes on.
fn ring_empty(bench: &mut Bench<'_>) -> Result<()> {
    const COUNT: u64 = 20_000;
    bench.up()?;
    let counters = [
        "rx_packets",
        "rx_over_errors",
        "rx_fifo_errors",
        "rx_missed_errors",
        "rx_dropped",
    ];
    let rises = rise(bench, &counters, |bench| {
        // A guest that is busy elsewhere with interrupts off cannot refill.
        inject(bench, json!({ "len": 60, "count": COUNT }))?;
        bench.vm.ok("sleep 1")?;
        Ok(())
    })?;
    ensure!(rises[0] < COUNT, "nothing was lost: the test tests nothing");
    ensure!(
        rises[1..].iter().any(|&rise| rise > 0),
        "losses are not counted: {rises:?}"
    );
    bench.ping(10, 56)
}
