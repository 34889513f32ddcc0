// SPDX-License-Identifier: GPL-2.0
//! What a sent frame costs: doorbells, register accesses, and accesses to descriptors.

use super::packet::{self, Packet, Way};
use super::payload::header;
use crate::check::Bench;
use crate::env::Driver;
use crate::net::{GATEWAY, IFACE};
use crate::tests::functional::EXPERIMENT;
use crate::wire::LAB_MAC;
use anyhow::{ensure, Context, Result};
use serde_json::Value;

/// What the model has counted.
struct Cost {
    frames: u64,
    doorbells: u64,
    /// Reads of registers, without those by which an interrupt handler finds out why it was called.
    reads: u64,
    /// Loads and stores of descriptors of the transmit queue.
    loads: u64,
    stores: u64,
}

impl Cost {
    fn per_frame(&self, count: u64) -> f64 {
        count as f64 / self.frames as f64
    }
}

/// Registers that tell an interrupt handler why it was called.
const CAUSES: &[&str] = &[
    "ISS", "EIS", "RIS0", "RIS1", "RIS2", "TIS", "ECSR", "GIS", "RIC0", "TIC",
];

/// Counts while `action` runs.
fn cost(bench: &mut Bench<'_>, action: impl FnOnce(&mut Bench<'_>) -> Result<()>) -> Result<Cost> {
    bench.vm.set_property("counters-reset", "")?;
    action(bench)?;
    // Until all is reclaimed.
    bench.vm.ok("sleep 0.2")?;
    let counters = bench.vm.property("counters")?;
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let reads = counters["mmio_reads"]
        .as_object()
        .context("no mmio_reads")?;
    let words = &counters["cpu_descriptors"]["tx0"];
    let cost = Cost {
        frames: number(&counters["frames"]["tx0"]),
        doorbells: number(&counters["doorbells"]),
        reads: reads
            .iter()
            .filter(|(name, _)| !CAUSES.contains(&name.as_str()))
            .map(|(_, count)| number(count))
            .sum(),
        loads: number(&words["word0_loads"]) + number(&words["other_loads"]),
        stores: number(&words["word0_stores"]) + number(&words["other_stores"]),
    };
    ensure!(cost.frames > 0, "nothing was sent");
    Ok(cost)
}

/// Runs pktgen: `count` packets of the shortest length, `burst` for each doorbell.
fn pktgen(bench: &mut Bench<'_>, count: u32, burst: u32) -> Result<()> {
    let mac = LAB_MAC.map(|byte| format!("{byte:02x}")).join(":");
    let text = bench.vm.ok_within(
        &format!(
            "modprobe pktgen || exit 1
             cd /proc/net/pktgen
             echo rem_device_all > kpktgend_0
             echo add_device {IFACE} > kpktgend_0
             for line in 'count {count}' 'clone_skb {count}' 'burst {burst}' 'pkt_size 60' \
                         'delay 0' 'dst {GATEWAY}' 'dst_mac {mac}'; do
                 echo \"$line\" > {IFACE} || exit 1
             done
             echo start > pgctrl
             cat {IFACE}"
        ),
        60,
    )?;
    // The last burst may go beyond the count.
    let sent = text
        .split_whitespace()
        .skip_while(|word| *word != "pkts-sofar:")
        .nth(1)
        .and_then(|count| count.parse().ok())
        .unwrap_or(0);
    ensure!(
        text.contains("Result: OK") && sent >= count,
        "pktgen says {text}"
    );
    Ok(())
}

/// Packets that come together share a doorbell, and none of it reads a register.
pub(super) fn burst(bench: &mut Bench<'_>) -> Result<()> {
    const COUNT: u32 = 3200;
    bench.up()?;
    let cost = cost(bench, |bench| pktgen(bench, COUNT, 32))?;
    let doorbells = cost.per_frame(cost.doorbells);
    println!(
        "\n  {}: {doorbells:.3} doorbells and {:.3} register reads per frame",
        bench.driver,
        cost.per_frame(cost.reads)
    );
    ensure!(cost.frames >= u64::from(COUNT), "{} frames", cost.frames);
    if bench.driver == Driver::Rust {
        ensure!(doorbells <= 1.0 / 16.0, "{doorbells} doorbells per frame");
        ensure!(cost.reads == 0, "{} reads of registers", cost.reads);
    }
    Ok(())
}

/// A packet that comes alone costs its doorbell and no read.
pub(super) fn single(bench: &mut Bench<'_>) -> Result<()> {
    const COUNT: u32 = 500;
    /// Frames of the network's own meanwhile.
    const SLACK: u64 = 10;
    bench.up()?;
    let packet = Packet {
        way: Way::Alone,
        count: COUNT,
        ..Packet::new(header(&[], EXPERIMENT), 60)
    };
    let cost = cost(bench, |bench| {
        packet::send(bench, std::slice::from_ref(&packet), 30).map(drop)
    })?;
    ensure!(
        cost.doorbells <= cost.frames && cost.frames <= u64::from(COUNT) + SLACK,
        "{} doorbells for {} frames",
        cost.doorbells,
        cost.frames
    );
    if bench.driver == Driver::Rust {
        ensure!(cost.reads == 0, "{} reads of registers", cost.reads);
    }
    Ok(())
}

/// How often a driver may touch the descriptors of a short frame: loads and stores.
fn descriptor_limits(driver: Driver) -> (f64, f64) {
    match driver {
        // As counted in its source; the network may send a frame of its own meanwhile.
        Driver::C => (6.1, 8.1),
        Driver::Rust => (2.0, 5.0),
    }
}

/// A short frame costs a handful of accesses to its descriptors.
pub(super) fn descriptors(bench: &mut Bench<'_>) -> Result<()> {
    const COUNT: u32 = 500;
    bench.up()?;
    let (loads, stores) = descriptor_limits(bench.driver);
    for way in [Way::Stack, Way::Alone] {
        let packet = Packet {
            way,
            count: COUNT,
            ..Packet::new(header(&[], EXPERIMENT), 60)
        };
        let cost = cost(bench, |bench| {
            packet::send(bench, std::slice::from_ref(&packet), 30).map(drop)
        })?;
        let (loaded, stored) = (cost.per_frame(cost.loads), cost.per_frame(cost.stores));
        println!(
            "\n  {} {way:?}: {loaded:.2} loads, {stored:.2} stores per frame",
            bench.driver
        );
        ensure!(stored > 0.0, "the windows were not watched");
        ensure!(
            loaded <= loads && stored <= stores,
            "{way:?}: {loaded:.2} loads and {stored:.2} stores per frame, more than {loads} and \
             {stores}"
        );
    }
    Ok(())
}
