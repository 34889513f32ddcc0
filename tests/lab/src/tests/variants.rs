// SPDX-License-Identifier: GPL-2.0
//! The EtherAVB variants: R-Car Gen2, Gen3, Gen4 and RZ/V2M. What every variant must do is
//! `functional`'s, run here with their device trees; what GbEth has not is added: two queues,
//! PTP, Wake-on-LAN, the link pin, internal delays.

use super::badinput::{self, inject, rise};
use super::functional::{self, capture, same_frames, Function, EXPERIMENT};
use super::registers;
use super::rx::trace::Trace;
use super::{Run, Test};
use crate::check::Bench;
use crate::env::Driver;
use crate::net::{self, IFACE};
use crate::vm::{Machine, Net};
use crate::wire;
use anyhow::{bail, ensure, Context, Result};
use serde_json::json;
use std::time::{Duration, Instant};

/// Values of the device's property `variant`, which are the names of the overlays.
pub(super) const VARIANTS: &[&str] = &["gen2", "gen3", "gen4", "rzv2m"];

/// Those with one interrupt line for everything (K-dt).
const ONE_LINE: &[&str] = &["gen2", "gbeth"];

/// Shared tests that hold for GbEth only.
const GBETH_ONLY: &[&str] = &["ethtool-features", "frames-jumbo"];

/// Tests the stock driver fails: it takes the parts of a frame that needs several descriptors for
/// frames, gives up where the hardware does not stop, leaves it to the interrupt core to end what
/// it has not enabled, and with one interrupt line it forgets that the E-MAC has none of its own to
/// wake by.
fn beyond_the_stock_driver(variant: &str, name: &str) -> bool {
    matches!(
        name,
        "oversize" | "status-codes" | "registers-timeout" | "stray-irq"
    ) || name == "wake" && ONE_LINE.contains(&variant)
}

/// What our driver cannot do yet.
const MISSING: &[&str] = &["phc", "ptp-transmit"];

/// Tests of `make check`; the others belong to `make check-all`.
const SMOKE: &[&str] = &[
    "probe",
    "ping",
    "iperf-tcp",
    "ethtool-ring",
    "cable",
    "down-up",
    "unbind-bind",
    "queues",
    "mmio",
    "phc",
    "registers",
];

/// More tests on the user network.
const USER: &[(&str, Function)] = &[
    ("ethtool-features", |bench| {
        functional::features(bench, &[("rx", "rx-checksumming")])
    }),
    ("queues", queues),
    ("queues-at-once", queues_at_once),
    ("phc", phc),
    ("link-pin", link_pin),
    ("wake", wake),
];

/// Tests of the register interface, which are done with GbEth too.
pub(super) const HARDWARE: &[(&str, Function)] = &[
    ("mmio", mmio),
    ("mmio-deferred", mmio_deferred),
    ("overrun", overrun),
    ("spurious-irq", spurious_irq),
    ("stray-irq", stray_irq),
    ("emac-irq", emac_irq),
    ("clocks", clocks),
    ("registers", registers::open_and_close),
    ("registers-mode-delay", registers::mode_delay),
    ("registers-suspend", registers::suspend),
    ("registers-timeout", registers::timeout),
];

/// More tests on the frame wire.
const FRAMES: &[(&str, Function)] = &[("frames-long", frames_long), ("ptp-transmit", ptp_transmit)];

/// Tests of device trees that differ from the usual one.
const FLAVOURS: &[(&str, &str, Function)] = &[
    ("fixed-link", "FIXED_LINK", functional::fixed_link),
    ("no-ether-link", "NO_ETHER_LINK", link_pin_ignored),
    (
        "ether-link-active-low",
        "ETHER_LINK_ACTIVE_LOW",
        link_pin_active_low,
    ),
];

pub(crate) fn tests(driver: Driver, group: &str) -> Vec<Test> {
    let mut tests = Vec::new();
    for &variant in VARIANTS {
        let mut add = |name: &str, machine: Machine, run: Function| {
            let impossible = match driver {
                Driver::C => beyond_the_stock_driver(variant, name),
                Driver::Rust => MISSING.contains(&name),
            };
            if impossible {
                return;
            }
            let run = Run::Guest {
                driver,
                machine,
                run,
            };
            tests.push(Test {
                name: format!("{group}-{variant}-{name}"),
                // Our driver is tested on one EtherAVB as thoroughly as on GbEth.
                long: !(SMOKE.contains(&name) || driver == Driver::Rust && variant == "gen3"),
                run,
            });
        };
        let shared = |tests: &'static [(&'static str, Function)]| {
            tests.iter().filter(|(name, _)| !GBETH_ONLY.contains(name))
        };
        let user = shared(functional::USER).chain(shared(badinput::FRAMES));
        for &(name, run) in user.chain(USER).chain(HARDWARE) {
            add(name, Machine::with(variant, Net::User), run);
        }
        for &(name, run) in shared(functional::FRAMES).chain(FRAMES) {
            add(name, Machine::with(variant, Net::Frames), run);
        }
        for &(name, flavour, run) in FLAVOURS {
            let machine = Machine {
                flavours: vec![flavour],
                ..Machine::with(variant, Net::User)
            };
            add(name, machine, run);
        }
        // As on R-Car boards, of which few have the optional clock.
        let board = Machine {
            flavours: vec!["PHY_ADDRESS=0", "NO_REFCLK"],
            properties: vec!["phy-address=0".into(), "phy-id=0x00221622".into()],
            ..Machine::with(variant, Net::User)
        };
        add("ksz9031", board, ksz9031);
    }
    for wiring in WIRINGS {
        if driver == Driver::C && !wiring.stock {
            continue;
        }
        tests.push(Test {
            name: format!("{group}-{}-{}", wiring.variant, wiring.name),
            long: !(driver == Driver::Rust && wiring.basic),
            run: Run::Guest {
                driver,
                machine: Machine {
                    flavours: wiring.flavours.to_vec(),
                    ..Machine::with(wiring.variant, Net::User)
                },
                run: wired,
            },
        });
    }
    for &(name, run) in HARDWARE {
        if driver == Driver::C && beyond_the_stock_driver("gbeth", name) {
            continue;
        }
        tests.push(Test {
            name: format!("{group}-{name}"),
            long: !(SMOKE.contains(&name) || driver == Driver::Rust),
            run: Run::Guest {
                driver,
                machine: Machine::rzg2l(Net::User),
                run,
            },
        });
    }
    tests
}

/// Whether a test shows that a member of the family works. Of those of GbEth, which nearly all
/// tests are about, the ones that run on every member.
pub(super) fn shows_one(test: &Test) -> bool {
    match &test.run {
        Run::Guest { machine, .. } if machine.variant == "gbeth" => {
            let rest = test.name.strip_prefix(test.group());
            let name = rest.and_then(|rest| rest.strip_prefix('-'));
            name.is_some_and(|name| SMOKE.contains(&name))
        }
        Run::Guest { .. } => true,
        Run::Host(_) => false,
    }
}

/// Destination and type of PTP frames without IP.
pub(super) const PTP_GROUP: &str = "011b19000000";
pub(super) const PTP_TYPE: u16 = 0x88f7;

/// Frames a queue of the device has moved.
fn moved(bench: &mut Bench<'_>, queue: &str) -> Result<u64> {
    Ok(bench.vm.property("counters")?["frames"][queue]
        .as_u64()
        .unwrap_or(0))
}

/// Network control frames arrive in the second queue, all others in the first.
fn queues(bench: &mut Bench<'_>) -> Result<()> {
    const COUNT: u64 = 7;
    bench.up()?;
    bench.ping(1, 56)?;
    let names = ["rx_queue_0_packets", "rx_queue_1_packets"];
    let mut before = Vec::new();
    for name in names {
        before.push(bench.statistic(name)?);
    }
    let device = moved(bench, "rx1")?;
    inject(
        bench,
        json!({ "len": 100, "da": PTP_GROUP, "type": PTP_TYPE, "count": COUNT }),
    )?;
    inject(
        bench,
        json!({ "len": 100, "type": EXPERIMENT, "count": 2 * COUNT }),
    )?;
    bench.vm.ok("sleep 0.5")?;
    ensure!(
        moved(bench, "rx1")? == device + COUNT,
        "the device did not use its second queue"
    );
    let control = bench.statistic(names[1])? - before[1];
    ensure!(control == COUNT, "{control} of {COUNT} in the second queue");
    let other = bench.statistic(names[0])? - before[0];
    ensure!(
        (2 * COUNT..3 * COUNT).contains(&other),
        "{other} instead of {} in the first queue",
        2 * COUNT
    );
    bench.ping(5, 56)
}

/// Both queues raise their interrupts together, very often: no frame is forgotten, no mask is lost.
fn queues_at_once(bench: &mut Bench<'_>) -> Result<()> {
    /// Pairs of one request.
    const TURN: u64 = 1000;
    /// Between two pairs. Long enough for an interrupt each, if the host keeps up.
    const GAP_NS: u64 = 100_000;
    bench.up()?;
    let count = if bench.long { 100_000 } else { 2000 };
    let stored = |bench: &mut Bench<'_>| -> Result<[u64; 2]> {
        Ok([moved(bench, "rx0")?, moved(bench, "rx1")?])
    };
    let counted = |bench: &mut Bench<'_>| -> Result<[u64; 2]> {
        Ok([
            bench.statistic("rx_queue_0_packets")?,
            bench.statistic("rx_queue_1_packets")?,
        ])
    };
    let (device, driver) = (stored(bench)?, counted(bench)?);
    let before = costs(bench)?;
    for _ in 0..count / TURN {
        inject(
            bench,
            json!([
                { "len": 60, "da": PTP_GROUP, "type": PTP_TYPE, "count": TURN },
                { "len": 60, "da": "ffffffffffff", "type": EXPERIMENT, "gap_ns": GAP_NS },
            ]),
        )?;
        bench.vm.ok("sleep 0.1")?;
    }
    // Until everything on the wire has arrived.
    let mut last = stored(bench)?;
    loop {
        bench.vm.ok("sleep 0.5")?;
        let now = stored(bench)?;
        if now == last {
            break;
        }
        last = now;
    }
    let seen = counted(bench)?;
    for queue in [0, 1] {
        let (stored, counted) = (last[queue] - device[queue], seen[queue] - driver[queue]);
        ensure!(
            stored > count / 2,
            "queue {queue}: only {stored} of {count} frames found room"
        );
        ensure!(
            counted == stored,
            "queue {queue}: the device stored {stored} frames, the driver saw {counted}"
        );
    }
    let raised = costs(bench)?.edges - before.edges;
    ensure!(
        raised > count / 10,
        "{count} pairs raised only {raised} interrupts"
    );
    at_rest(bench)?;
    bench.ping(5, 56)
}

/// With nothing to do, all queues are unmasked and no cause is pending.
fn at_rest(bench: &mut Bench<'_>) -> Result<()> {
    bench.vm.ok("sleep 0.2")?;
    let registers = bench.vm.property("registers")?;
    let queues = if bench.machine.variant == "gbeth" {
        1
    } else {
        3
    };
    let losses = 1 << 31 | queues;
    for (register, mask, wanted) in [
        ("RIC0", queues, queues),
        ("TIC", queues, queues),
        ("RIC2", losses, losses),
        ("RIS2", losses, 0),
    ] {
        let value = registers[register]
            .as_u64()
            .with_context(|| format!("no {register}"))?;
        ensure!(
            value & mask == wanted,
            "at rest {register} is {value:#x}, of which {mask:#x} should be {wanted:#x}"
        );
    }
    Ok(())
}

/// What the driver has cost so far.
struct Costs {
    /// Interrupts of the MAC.
    edges: u64,
    reads: u64,
    writes: u64,
}

fn costs(bench: &mut Bench<'_>) -> Result<Costs> {
    let counters = bench.vm.property("counters")?;
    let total = |name: &str| {
        counters[name]
            .as_u64()
            .with_context(|| format!("no {name}"))
    };
    let lines = counters["irq_edges"].as_array().context("no irq_edges")?;
    // The last line is the PHY's.
    let mac = lines.split_last().map_or(&[][..], |(_, mac)| mac);
    Ok(Costs {
        edges: mac.iter().filter_map(|edges| edges.as_u64()).sum(),
        reads: total("mmio_reads_total")?,
        writes: total("mmio_writes_total")?,
    })
}

/// Register accesses per interrupt, if each frame has one of its own: reads and writes. The stock
/// driver's were counted in its source, ours may not grow.
fn mmio_limits(driver: Driver, variant: &str) -> (u64, u64) {
    match (driver, variant) {
        (Driver::C, "gen2") => (12, 6),
        (Driver::C, "gbeth") => (8, 6),
        (Driver::C, "rzv2m") => (6, 6),
        (Driver::C, _) => (4, 6),
        (Driver::Rust, "gen3" | "gen4") => (0, 6),
        (Driver::Rust, _) => (3, 6),
    }
}

/// Frames of a measurement.
const COUNT: u64 = 300;

/// Frames far enough from each other for an interrupt each: what they cost, and how many polls they
/// took, which is printed for those who want the figures.
fn spaced_frames(bench: &mut Bench<'_>, timeout: u64, defer: u32) -> Result<(Costs, u64)> {
    // A host with little time to spare must keep up.
    const GAP_NS: u64 = 10_000_000;
    bench.up()?;
    bench.vm.ok(&format!(
        "cd /sys/class/net/{IFACE}
         cat gro_flush_timeout napi_defer_hard_irqs > /tmp/deferral
         echo {timeout} > gro_flush_timeout; echo {defer} > napi_defer_hard_irqs"
    ))?;
    let trace = Trace::start(bench, "")?;
    let before = costs(bench)?;
    inject(
        bench,
        json!({ "len": 60, "type": EXPERIMENT, "count": COUNT, "gap_ns": GAP_NS }),
    )?;
    bench.vm.ok("sleep 4")?;
    let after = costs(bench)?;
    let polls = trace.stop(bench)?.len() as u64;
    bench.vm.ok(&format!(
        "cd /sys/class/net/{IFACE}
         {{ read -r timeout; read -r defer; }} < /tmp/deferral
         echo $timeout > gro_flush_timeout; echo $defer > napi_defer_hard_irqs"
    ))?;
    let costs = Costs {
        edges: after.edges - before.edges,
        reads: after.reads - before.reads,
        writes: after.writes - before.writes,
    };
    let each = |count: u64| count as f64 / costs.edges.max(1) as f64;
    println!(
        "\n  {} on {}: {:.2} polls, {:.2} reads and {:.2} writes for each of {} interrupts",
        bench.driver,
        bench.machine.variant,
        each(polls),
        each(costs.reads),
        each(costs.writes),
        costs.edges
    );
    Ok((costs, polls))
}

/// Register accesses of other origin, such as the interrupt of another frame.
const SLACK: u64 = 30;

/// An interrupt costs no more register accesses than it must, if its poll ends it.
fn mmio(bench: &mut Bench<'_>) -> Result<()> {
    let (reads, writes) = mmio_limits(bench.driver, bench.machine.variant);
    let (costs, _) = spaced_frames(bench, 0, 0)?;
    let Costs { edges, .. } = costs;
    // One access too many for each is more than others may have.
    ensure!(
        edges > 2 * SLACK,
        "{COUNT} frames raised only {edges} interrupts"
    );
    ensure!(
        costs.reads <= edges * reads + SLACK && costs.writes <= edges * writes + SLACK,
        "{edges} interrupts cost {} reads and {} writes, more than {reads} and {writes} each",
        costs.reads,
        costs.writes
    );
    Ok(())
}

/// Where interrupts are deferred in software, polls follow each other without one. Each costs at
/// most two writes, and no read.
fn mmio_deferred(bench: &mut Bench<'_>) -> Result<()> {
    /// Writes of a poll, which are among those of the interrupt that caused it.
    const POLL: u64 = 2;
    let (reads, writes) = mmio_limits(bench.driver, bench.machine.variant);
    // Shorter than the gap between two frames.
    let (costs, polls) = spaced_frames(bench, 200_000, 3)?;
    let Costs { edges, .. } = costs;
    ensure!(
        edges > 0 && polls > edges * 2,
        "{edges} interrupts had {polls} polls: nothing was deferred"
    );
    let writes = edges * (writes - POLL) + polls * POLL;
    ensure!(
        costs.reads <= edges * reads + SLACK && costs.writes <= writes + SLACK,
        "{edges} interrupts with {polls} polls cost {} reads and {} writes",
        costs.reads,
        costs.writes
    );
    Ok(())
}

/// Each way to lose frames raises an error interrupt, is counted, and leaves reception going: no
/// room in the ring of each queue, no room in the FIFO.
fn overrun(bench: &mut Bench<'_>) -> Result<()> {
    const COUNT: u64 = 5000;
    const COUNTERS: [&str; 3] = ["rx_over_errors", "rx_fifo_errors", "rx_missed_errors"];
    bench.up()?;
    let mut queues = vec![("ffffffffffff", EXPERIMENT)];
    if bench.machine.variant != "gbeth" {
        queues.push((PTP_GROUP, PTP_TYPE));
    }
    for (to, kind) in queues {
        // Faster than the guest can be.
        let burst = json!({ "len": 60, "da": to, "type": kind, "count": COUNT });
        let lost = dropped(bench, "ring")?;
        let rises = rise(bench, &COUNTERS, |bench| {
            inject(bench, burst)?;
            bench.vm.ok("sleep 0.5").map(drop)
        })?;
        let lost = dropped(bench, "ring")? - lost;
        ensure!(
            lost > 0,
            "{kind:#x}: nothing was lost: the test tests nothing"
        );
        ensure!(
            rises.iter().any(|&rise| rise > 0),
            "{kind:#x}: {lost} frames had no room in the ring, which nothing counts"
        );
        bench.ping(5, 56)?;
        // What was signalled has been cleared, and may be signalled again: losses once a queue
        // has been polled to its end, which the answers to the ping see to.
        at_rest(bench)?;
    }
    let lost = dropped(bench, "fifo")?;
    let rises = rise(bench, &COUNTERS, |bench| {
        bench.vm.set_property("rx-hold", "on")?;
        let held = inject(bench, json!({ "len": 1500, "count": 100 }))
            .and_then(|()| bench.vm.ok("sleep 0.5"));
        bench.vm.set_property("rx-hold", "off")?;
        held.map(drop)
    })?;
    let lost = dropped(bench, "fifo")? - lost;
    ensure!(lost > 0, "nothing was lost: the test tests nothing");
    ensure!(
        rises.iter().any(|&rise| rise > 0),
        "{lost} frames had no room in the FIFO, which nothing counts"
    );
    bench.ping(5, 56)?;
    at_rest(bench)
}

/// Received frames the device had to drop for a reason.
fn dropped(bench: &mut Bench<'_>, reason: &str) -> Result<u64> {
    bench.vm.property("counters")?["rx_drops"][reason]
        .as_u64()
        .with_context(|| format!("the device does not count drops by {reason}"))
}

/// An interrupt without a cause, as from the other user of a shared line, while the interface is up
/// and while the device sleeps without its clock: nobody touches registers that do not answer, and
/// where the line tells of everything it is said to be somebody else's.
fn spurious_irq(bench: &mut Bench<'_>) -> Result<()> {
    // A level that stays makes one interrupt after another: of too many the kernel tires.
    const PULSES: u64 = 3;
    // The processor may see none of them, if the host is busy.
    const TRIES: u64 = 50;
    bench.up()?;
    let pulse = |bench: &mut Bench<'_>| -> Result<()> {
        for _ in 0..PULSES {
            bench.vm.set_property("spurious-irq", "on")?;
            bench.vm.set_property("spurious-irq", "off")?;
        }
        bench.vm.ok("true").map(drop)
    };
    if ONE_LINE.contains(&bench.machine.variant) {
        let before = last_unhandled(bench)?;
        let mut tries = 0;
        while last_unhandled(bench)? == before {
            ensure!(
                tries < TRIES,
                "the driver took the interrupt of another device for its own"
            );
            pulse(bench)?;
            tries += 1;
        }
    } else {
        pulse(bench)?;
    }
    bench.ping(5, 56)?;
    // Longer than the delay of runtime suspend.
    bench
        .vm
        .ok(&format!("ip link set {IFACE} down; sleep 0.5"))?;
    let state = bench.vm.property("state")?;
    ensure!(state["clock"] == false, "the clock runs: {state}");
    pulse(bench)?;
    bench.up()?;
    bench.ping(5, 56)
}

/// An interrupt that nobody asked for is enabled, and its cause stays: it is masked before it does
/// any harm.
fn stray_irq(bench: &mut Bench<'_>) -> Result<()> {
    /// Masks and their status registers, and a bit of both.
    const STRAYS: &[(&str, &str, u64)] = &[
        ("DIC", "DIS", 1 << 1),
        ("EIC", "EIS", 1 << 0),
        ("RIC1", "RIS1", 1 << 0),
        ("RIC1", "RIS1", 1 << 31),
        ("RIC3", "RIS3", 1 << 0),
        ("TIC", "TIS", 1 << 8),
        ("TIC", "TIS", 1 << 16),
        ("GIC", "GIS", 1 << 2),
    ];
    /// More than three pings raise, and what it takes to see that something is wrong.
    const FEW: u64 = 300;
    bench.up()?;
    for &(mask, status, bit) in STRAYS {
        let registers = bench.vm.property("registers")?;
        let (Some(enabled), Some(pending)) = (registers[mask].as_u64(), registers[status].as_u64())
        else {
            continue;
        };
        let before = interrupts(bench)?;
        let stray = json!({ mask: enabled | bit, status: pending | bit });
        bench.vm.set_property("registers", stray.to_string())?;
        bench
            .ping(3, 56)
            .with_context(|| format!("bit {bit:#x} of {mask}"))?;
        let raised = interrupts(bench)? - before;
        ensure!(
            raised < FEW,
            "bit {bit:#x} of {mask} raised {raised} interrupts"
        );
        let left = bench.vm.property("registers")?[mask].as_u64();
        let left = left.with_context(|| format!("no {mask}"))?;
        ensure!(left & bit == 0, "{mask} is {left:#x}");
    }
    Ok(())
}

/// How often all lines of the interface were served.
fn interrupts(bench: &mut Bench<'_>) -> Result<u64> {
    let text = bench.vm.ok(&format!(
        "awk '/{IFACE}|ethernet/ {{ for (i = 2; $i ~ /^[0-9]+$/; i++) n += $i }}
              END {{ print n }}' /proc/interrupts"
    ))?;
    text.trim()
        .parse()
        .with_context(|| format!("{text:?} is no number"))
}

/// When the handler last did not take an interrupt on the line of the interface for its own, in ms.
fn last_unhandled(bench: &mut Bench<'_>) -> Result<u64> {
    let text = bench.vm.ok(&format!(
        "line='^ *\\([0-9]*\\):.*\\({IFACE}\\|ethernet\\)$'
         irq=$(sed -n \"s/$line/\\1/p\" /proc/interrupts | head -n 1)
         sed -n 's/^last_unhandled \\([0-9]*\\) ms$/\\1/p' /proc/irq/$irq/spurious"
    ))?;
    text.trim()
        .parse()
        .with_context(|| format!("{text:?} is no number"))
}

/// An event of the MAC raises its interrupt, is counted where there is a counter, and is over.
fn emac_irq(bench: &mut Bench<'_>) -> Result<()> {
    /// Illegal carrier, and the limit of PAUSE frames, which is not enabled.
    const EVENTS: u64 = 0x11;
    bench.up()?;
    let before = bench.counter("tx_carrier_errors")?;
    let edges = costs(bench)?.edges;
    for _ in 0..3 {
        bench.vm.set_property("emac-status", EVENTS.to_string())?;
        bench.vm.ok("sleep 0.1")?;
    }
    let raised = costs(bench)?.edges - edges;
    ensure!(raised >= 3, "three events raised {raised} interrupts");
    let events = bench.vm.property("registers")?["ECSR"]
        .as_u64()
        .context("no ECSR")?;
    ensure!(events & EVENTS == 0, "ECSR is {events:#x}");
    let counted = bench.counter("tx_carrier_errors")? - before;
    ensure!(
        counted == 3,
        "three events of the carrier, {counted} counted"
    );
    bench.ping(3, 56)
}

/// The clocks run while the interface is up and not otherwise: those of the module by the power
/// domain, and the optional one by the driver, where the device tree has it.
fn clocks(bench: &mut Bench<'_>) -> Result<()> {
    let held: &[(&str, u64)] = match bench.machine.variant {
        "gbeth" => &[("eth0_axi", 1), ("eth0_chi", 1), ("HP", 1)],
        "rzv2m" => &[("eth0_axi", 1), ("eth0_chi", 1)],
        // The second one is of the domain, too.
        _ => &[("eth0_axi", 1), ("eth0_chi", 2)],
    };
    for _ in 0..2 {
        bench.up()?;
        for up in [true, false] {
            if !up {
                // Longer than the delay of runtime suspend.
                let script = format!("ip link set {IFACE} down; sleep 0.5");
                bench.vm.ok(&script)?;
            }
            for &(clock, count) in held {
                let path = format!("/sys/kernel/debug/clk/{clock}/clk_enable_count");
                let text = bench.vm.ok(&format!("cat {path}"))?;
                let wanted = if up { count } else { 0 };
                ensure!(
                    text.trim() == wanted.to_string(),
                    "{clock} is held {} times instead of {wanted}, with the interface {}",
                    text.trim(),
                    if up { "up" } else { "down" }
                );
            }
        }
    }
    Ok(())
}

/// The PHY of R-Car boards, at its address.
fn ksz9031(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let name = bench
        .vm
        .ok(&format!("readlink -f /sys/class/net/{IFACE}/phydev/driver"))?;
    ensure!(name.contains("KSZ9031"), "the PHY's driver is {name}");
    functional::cable(bench)
}

/// Times, in seconds, that a run of phc_ctl shows: those of the PTP clock, and when it did so.
fn clock_times(bench: &mut Bench<'_>, commands: &str) -> Result<Vec<(f64, f64)>> {
    let text = bench
        .vm
        .ok(&format!("phc_ctl -q {IFACE} {commands}"))
        .context("phc_ctl fails")?;
    Ok(parse_times(&text))
}

/// Reads lines such as `phc_ctl[6.415]: clock time is 1000.501418989 or Thu …`.
fn parse_times(text: &str) -> Vec<(f64, f64)> {
    let parse = |line: &str| -> Option<(f64, f64)> {
        let (stamp, rest) = line.strip_prefix("phc_ctl[")?.split_once("]: ")?;
        let time = rest.strip_prefix("clock time is ")?.split(' ').next()?;
        Some((time.parse().ok()?, stamp.parse().ok()?))
    };
    text.lines().filter_map(parse).collect()
}

/// The PTP clock can be read, set, stepped and made faster.
fn phc(bench: &mut Bench<'_>) -> Result<()> {
    /// What may pass between two commands on a busy host, in seconds.
    const LATE: f64 = 2.0;
    bench.up()?;
    let times = clock_times(bench, "freq 0 set 1000.5 get adj 20 get")?;
    ensure!(times.len() == 2, "phc_ctl printed {times:?}");
    for (&(time, _), expected) in times.iter().zip([1000.5, 1020.5]) {
        ensure!(
            (expected..expected + LATE).contains(&time),
            "the clock shows {time} after it was set to {expected}"
        );
    }
    // Faster by four per cent, of five that are possible; time enough to tell it from nothing.
    for (ppb, rate) in [(0, 1.0), (40_000_000, 1.04), (-40_000_000, 0.96)] {
        // An option cannot begin with a number's sign.
        let commands = format!("-- freq {ppb} get wait 2 get");
        let times = clock_times(bench, &commands)?;
        ensure!(times.len() == 2, "phc_ctl printed {times:?}");
        let measured = (times[1].0 - times[0].0) / (times[1].1 - times[0].1);
        ensure!(
            (measured - rate).abs() < 0.015,
            "at {ppb} ppb the clock goes {measured:.4} times as fast as the system's"
        );
    }
    clock_times(bench, "freq 0 set").map(drop)
}

/// A PTP master: every Sync gets a transmit timestamp, which its Follow_Up carries.
fn ptp_transmit(bench: &mut Bench<'_>) -> Result<()> {
    const SYNC: u8 = 0;
    const FOLLOW_UP: u8 = 8;
    bench.up()?;
    bench.wire()?.drain()?;
    let sent = bench.statistic("tx_queue_1_packets")?;
    bench.vm.ok(&format!(
        "phc_ctl -q {IFACE} freq 0 set 5000
         ptp4l -i {IFACE} -2 -m -q --uds_address /run/ptp --uds_ro_address /run/ptp-ro \
             --logAnnounceInterval -2 --announceReceiptTimeout 2 --logSyncInterval -3 \
             --tx_timestamp_timeout 500 > /tmp/ptp4l 2>&1 &
         echo $! > /tmp/ptp4l.pid"
    ))?;
    let mut sequence = None;
    let mut times: Vec<f64> = Vec::new();
    for _ in 0..200 {
        let is_ptp = |frame: &[u8]| frame.len() >= 58 && frame[12..14] == PTP_TYPE.to_be_bytes();
        let Some(frame) = bench.wire()?.expect(Duration::from_secs(10), is_ptp)? else {
            break;
        };
        let number = u16::from_be_bytes([frame[44], frame[45]]);
        match frame[14] & 0xf {
            SYNC => sequence = Some(number),
            FOLLOW_UP if sequence == Some(number) => {
                let number =
                    |bytes: &[u8]| bytes.iter().fold(0.0, |n, &b| n * 256.0 + f64::from(b));
                times.push(number(&frame[48..54]) + number(&frame[54..58]) / 1e9);
            }
            _ => {}
        }
        if times.len() == 10 {
            break;
        }
    }
    let log = bench.vm.ok("kill $(cat /tmp/ptp4l.pid); cat /tmp/ptp4l")?;
    ensure!(times.len() == 10, "only {} timestamps: {log}", times.len());
    ensure!(!log.contains("timed out"), "{log}");
    ensure!(
        times.windows(2).all(|pair| pair[0] < pair[1]),
        "timestamps do not rise: {times:?}"
    );
    ensure!(
        (5000.0..5060.0).contains(&times[0]),
        "the first timestamp is {}, the clock was set to 5000",
        times[0]
    );
    let queue = bench.statistic("tx_queue_1_packets")? - sent;
    ensure!(
        queue >= 10,
        "only {queue} frames with timestamps left by the second queue"
    );
    Ok(())
}

/// Frames up to those of the largest MTU in a VLAN arrive whole; longer ones whole or not at all.
///
/// The stock driver lets the MAC accept four bytes more than its buffers hold, and takes the two
/// parts of such a frame for two frames.
fn frames_long(bench: &mut Bench<'_>) -> Result<()> {
    const LARGEST: usize = 2044;
    bench.up()?;
    let mac = bench.mac()?;
    let make = |length: usize| wire::frame(mac, EXPERIMENT, length, length as u8);
    let frames: Vec<_> = [1515, 1600, 2000, 2043, LARGEST, 60].map(make).into();
    let got = capture(bench, &frames, false)?;
    same_frames(&frames, &got)?;
    if bench.driver == Driver::C {
        return Ok(());
    }
    let frames: Vec<_> = (LARGEST + 1..LARGEST + 20)
        .map(make)
        .chain(frames)
        .collect();
    let got = capture(bench, &frames, false)?;
    if let Some(broken) = got.iter().find(|frame| !frames.contains(frame)) {
        bail!("part of a frame arrived as one of {} bytes", broken.len());
    }
    Ok(())
}

/// Sets the level of the AVB_LINK pin for good.
fn set_pin(bench: &mut Bench<'_>, level: &str) -> Result<()> {
    bench.vm.set_property("link-pin", level)?;
    bench.vm.ok("sleep 0.2").map(drop)
}

/// Without a link by the pin the MAC is off, whatever the PHY says, and on again afterwards.
fn link_pin(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    bench.ping(3, 56)?;
    set_pin(bench, "low")?;
    let answers = net::ping(bench.vm, 3, 56);
    set_pin(bench, "follow")?;
    ensure!(
        answers?.received == 0,
        "traffic flows although the link pin says there is no link"
    );
    net::wait_for_link(bench.vm)?;
    bench.ping(5, 56)
}

/// With `renesas,no-ether-link` the pin means nothing.
fn link_pin_ignored(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    for level in ["low", "high", "low"] {
        set_pin(bench, level)?;
        bench.ping(3, 56)?;
    }
    functional::cable(bench)
}

/// With `renesas,ether-link-active-low` a low pin is a link.
fn link_pin_active_low(bench: &mut Bench<'_>) -> Result<()> {
    set_pin(bench, "high")?;
    bench.up()?;
    set_pin(bench, "low")?;
    bench.ping(3, 56)?;
    set_pin(bench, "high")?;
    let answers = net::ping(bench.vm, 3, 56)?;
    ensure!(
        answers.received == 0,
        "traffic flows although the link pin says there is no link"
    );
    set_pin(bench, "low")?;
    bench.ping(3, 56)
}

/// A magic packet wakes the machine, long before the alarm that is there in case it does not.
fn wake(bench: &mut Bench<'_>) -> Result<()> {
    const ALARM: u64 = 40;
    bench.up()?;
    bench.vm.ok(&format!(
        "ethtool -s {IFACE} wol g
         ethtool {IFACE} | grep -q 'Wake-on: g' || exit 1
         cat /sys/class/rtc/rtc0/since_epoch > /tmp/asleep
         rm -f /tmp/awake
         echo +{ALARM} > /sys/class/rtc/rtc0/wakealarm
         (sleep 0.5; echo freeze > /sys/power/state; echo $? > /tmp/awake) > /dev/null 2>&1 &"
    ))?;
    let mark = bench.vm.console_mark("asleep")?;
    std::thread::sleep(Duration::from_secs(3));
    let mut packet = vec![0xff; 6];
    packet.extend(wire::LAB_MAC);
    packet.extend([0x08, 0x42]);
    packet.extend([0xff; 6]);
    // The address the overlay gives the first MAC.
    packet.extend([2, 0, 0, 0, 0, 1].repeat(16));
    let hex: String = packet.iter().map(|byte| format!("{byte:02x}")).collect();
    inject(bench, json!({ "hex": hex }))?;
    let end = Instant::now() + Duration::from_secs(ALARM + 30);
    while !bench.vm.console_since(mark).contains("PM: suspend exit") {
        ensure!(Instant::now() < end, "the machine sleeps on");
        std::thread::sleep(Duration::from_millis(50));
    }
    bench.vm.reconnect()?;
    let text = bench.vm.ok(
        "for i in $(seq 100); do [ -s /tmp/awake ] && break; sleep 0.05; done
         echo 0 > /sys/class/rtc/rtc0/wakealarm
         echo $(cat /tmp/awake) \
             $(($(cat /sys/class/rtc/rtc0/since_epoch) - $(cat /tmp/asleep)))",
    )?;
    let words: Vec<u64> = text
        .split_whitespace()
        .filter_map(|word| word.parse().ok())
        .collect();
    let [status, slept] = words[..] else {
        bail!("the guest says {text:?}");
    };
    ensure!(status == 0, "the machine did not go to sleep");
    ensure!(
        (2..ALARM - 5).contains(&slept),
        "awake after {slept} s: the magic packet did not do it"
    );
    bench.vm.ok(&format!("ethtool -s {IFACE} wol d"))?;
    net::wait_for_link(bench.vm)?;
    bench.ping(5, 56)
}

/// A device tree that says how MAC and PHY are wired, and what follows from it.
struct Wiring {
    variant: &'static str,
    name: &'static str,
    flavours: &'static [&'static str],
    /// The delays, and MII, in APSR.
    apsr: u64,
    /// What the PHY is told.
    phy: &'static str,
    /// In `make check`.
    basic: bool,
    /// The stock driver does it, too.
    stock: bool,
}

/// APSR: 1.8 ns on the receive clock, 2.0 ns on the transmit clock, MII.
const RDM: u64 = 0x2000;
const TDM: u64 = 0x4000;
const MII: u64 = 0x0100_0000;

const fn gen3(
    name: &'static str,
    flavours: &'static [&'static str],
    apsr: u64,
    phy: &'static str,
) -> Wiring {
    Wiring {
        variant: "gen3",
        name,
        flavours,
        apsr,
        phy,
        basic: false,
        stock: true,
    }
}

/// What properties ask of the MAC is the MAC's, and the PHY does what the mode says. Without
/// properties the mode asks the MAC, and the PHY does what the MAC cannot.
const WIRINGS: &[Wiring] = &[
    Wiring {
        basic: true,
        ..gen3(
            "delays",
            &["RX_DELAY=1800", "TX_DELAY=2000"],
            RDM | TDM,
            "rgmii-id",
        )
    },
    gen3("delays-none", &[], 0, "rgmii-id"),
    gen3("delays-rx", &["RX_DELAY=1800"], RDM, "rgmii-id"),
    gen3("delays-tx", &["TX_DELAY=2000"], TDM, "rgmii-id"),
    gen3(
        "delays-rx-only",
        &["RX_DELAY=1800", "NO_TX_DELAY"],
        RDM,
        "rgmii-id",
    ),
    gen3(
        "delays-tx-only",
        &["TX_DELAY=2000", "NO_RX_DELAY"],
        TDM,
        "rgmii-id",
    ),
    gen3(
        "delays-rgmii",
        &["RX_DELAY=1800", "TX_DELAY=2000", r#"PHY_MODE='"rgmii"'"#],
        RDM | TDM,
        "rgmii",
    ),
    Wiring {
        basic: true,
        ..gen3(
            "mode-id",
            &["NO_RX_DELAY", "NO_TX_DELAY"],
            RDM | TDM,
            "rgmii",
        )
    },
    gen3(
        "mode-rxid",
        &["NO_RX_DELAY", "NO_TX_DELAY", r#"PHY_MODE='"rgmii-rxid"'"#],
        RDM,
        "rgmii",
    ),
    gen3(
        "mode-txid",
        &["NO_RX_DELAY", "NO_TX_DELAY", r#"PHY_MODE='"rgmii-txid"'"#],
        TDM,
        "rgmii",
    ),
    gen3(
        "mode-rgmii",
        &["NO_RX_DELAY", "NO_TX_DELAY", r#"PHY_MODE='"rgmii"'"#],
        0,
        "rgmii",
    ),
    // R-Car E3 cannot delay the transmit clock, which the stock driver does not know.
    Wiring {
        basic: true,
        stock: false,
        ..gen3(
            "e3-mode-id",
            &["E3", "NO_RX_DELAY", "NO_TX_DELAY"],
            RDM,
            "rgmii-txid",
        )
    },
    Wiring {
        stock: false,
        ..gen3(
            "e3-delays",
            &["E3", "RX_DELAY=1800", "TX_DELAY=2000"],
            RDM,
            "rgmii-id",
        )
    },
    Wiring {
        variant: "gen4",
        ..gen3(
            "delays",
            &["RX_DELAY=1800", "TX_DELAY=2000"],
            RDM | TDM,
            "rgmii-id",
        )
    },
    Wiring {
        variant: "gen4",
        basic: true,
        ..gen3("mii", &[r#"PHY_MODE='"mii"'"#], MII, "mii")
    },
    // What has no APSR leaves it to the PHY.
    Wiring {
        variant: "gen2",
        ..gen3("mode-id", &[], 0, "rgmii-id")
    },
    Wiring {
        variant: "rzv2m",
        ..gen3("mode-id", &[], 0, "rgmii-id")
    },
];

/// MAC and PHY do what the device tree says, again after the interface was down.
fn wired(bench: &mut Bench<'_>) -> Result<()> {
    let machine = bench.machine;
    let wiring = WIRINGS
        .iter()
        .find(|wiring| wiring.variant == machine.variant && machine.flavours == wiring.flavours)
        .context("no such wiring")?;
    for _ in 0..2 {
        bench.up()?;
        let registers = bench.vm.property("registers")?;
        let apsr = registers["APSR"].as_u64().unwrap_or(0) & (RDM | TDM | MII);
        ensure!(
            apsr == wiring.apsr,
            "{}: APSR is {apsr:#x}, should be {:#x}",
            wiring.name,
            wiring.apsr
        );
        let path = format!("/sys/class/net/{IFACE}/phydev/phy_interface");
        let mode = bench.vm.ok(&format!("cat {path}"))?;
        ensure!(
            mode.trim() == wiring.phy,
            "{}: the PHY is told {mode}, should be {}",
            wiring.name,
            wiring.phy
        );
        bench.ping(3, 56)?;
        bench
            .vm
            .ok(&format!("ip link set {IFACE} down; sleep 0.5"))?;
    }
    Ok(())
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn clock_times_are_read() {
        let text = "phc_ctl[6.414]: set clock time to 1000.500000000 or Thu Jan  1 1970\n\n\
                    phc_ctl[6.415]: clock time is 1000.501418989 or Thu Jan  1 1970\n";
        assert_eq!(parse_times(text), [(1000.501418989, 6.415)]);
        assert!(parse_times("phc_ctl: unknown clock\n").is_empty());
    }

    #[test]
    fn the_smoke_tests_exist() {
        let tests = tests(Driver::C, "model-c");
        for name in SMOKE.iter().chain(GBETH_ONLY) {
            let found = tests
                .iter()
                .any(|test| test.name.ends_with(&format!("-{name}")));
            assert!(found || *name == "frames-jumbo", "{name}");
        }
    }
}
