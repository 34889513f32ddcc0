// SPDX-License-Identifier: GPL-2.0
//! What reception costs: loads and stores of descriptors, as the model's watch windows count them,
//! and register accesses.

use super::trace::{Poll, Trace};
use super::{wait_until_empty, Deferral};
use crate::check::Bench;
use crate::env::Driver;
use crate::tests::badinput::inject;
use crate::tests::functional::EXPERIMENT;
use anyhow::{ensure, Context, Result};
use serde_json::{json, Value};
use std::time::Duration;

/// What happened while frames came faster than the driver can take them.
struct Cost {
    /// Frames that the device stored.
    frames: u64,
    /// Descriptors that it filled with them, and with the beginnings of such that found no room for
    /// their end.
    descriptors: u64,
    /// Loads of first words.
    loads: u64,
    /// Loads of other words.
    other_loads: u64,
    /// Stores of whatever words.
    stores: u64,
    /// Series of first words that were stored behind other words.
    hand_overs: u64,
    /// Register accesses.
    mmio: u64,
    /// Interrupts.
    edges: u64,
    polls: Vec<Poll>,
}

/// Receives `count` frames of `len` bytes, each of which takes `parts` descriptors. They come
/// faster than the driver takes them, however fast the host is, because it looks for them now and
/// then only.
fn cost(bench: &mut Bench<'_>, len: u64, parts: u64, count: u64) -> Result<Cost> {
    let deferral = Deferral::set(bench, 1, Duration::from_millis(20))?;
    let trace = Trace::start(bench, "")?;
    bench.vm.set_property("counters-reset", "")?;
    inject(
        bench,
        json!({ "len": len, "type": EXPERIMENT, "count": count }),
    )?;
    std::thread::sleep(Duration::from_millis(500));
    wait_until_empty(bench, "rx0")?;
    bench.vm.ok("sleep 0.2")?;
    let counters = bench.vm.property("counters")?;
    let polls = trace.stop(bench)?;
    deferral.undo(bench)?;
    let number = |value: &Value| value.as_u64().unwrap_or(0);
    let cpu = &counters["cpu_descriptors"]["rx0"];
    let frames = number(&counters["frames"]["rx0"]);
    // It stores the status of each first, and then its type.
    let descriptors = number(&counters["engine_descriptors"]["rx0"]["word0_stores"]) / 2;
    ensure!(
        descriptors >= frames * parts,
        "{descriptors} descriptors were filled with {frames} frames"
    );
    let lines = counters["irq_edges"].as_array().context("no interrupts")?;
    Ok(Cost {
        frames,
        descriptors,
        loads: number(&cpu["word0_loads"]),
        other_loads: number(&cpu["other_loads"]),
        stores: number(&cpu["word0_stores"]) + number(&cpu["other_stores"]),
        hand_overs: number(&counters["cpu_hand_overs"]["rx0"]),
        mmio: number(&counters["mmio_reads_total"]) + number(&counters["mmio_writes_total"]),
        edges: lines.iter().map(number).sum(),
        polls,
    })
}

/// Under saturation a descriptor costs one load of its first word and two stores, and a poll one
/// load more; a packet costs no register access; the order of stores is made sure once for many
/// packets.
pub(super) fn descriptors(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    check(bench, 60, 1, 20_000)?;
    let several_parts = bench.vm.property("variant")? == "gbeth";
    if bench.driver == Driver::Rust && several_parts {
        check(bench, 5000, 4, 2000)?;
    }
    Ok(())
}

fn check(bench: &mut Bench<'_>, len: u64, parts: u64, count: u64) -> Result<()> {
    let Cost {
        frames,
        descriptors,
        loads,
        other_loads,
        stores,
        hand_overs,
        mmio,
        edges,
        polls,
    } = cost(bench, len, parts, count)?;
    let full = polls.iter().filter(|poll| poll.work == poll.budget);
    let busy: u64 = full.map(|poll| poll.work).sum();
    ensure!(
        2 * busy > frames,
        "{busy} of {frames} frames came in polls that used up their budget: not saturated"
    );
    let polls = polls.len() as u64;
    if bench.driver == Driver::C {
        // As was counted in its source: what is asked of ours can tell drivers apart.
        ensure!(
            loads > 3 * descriptors && stores >= 3 * descriptors,
            "the stock driver takes {loads} loads and {stores} stores for {descriptors} descriptors"
        );
        return Ok(());
    }
    // A poll ends with a descriptor that is empty. One that follows another without an interrupt
    // looks first whether there is anything to do.
    ensure!(
        loads <= descriptors + 2 * polls && other_loads == 0,
        "{loads} loads, and {other_loads} of other words, for {descriptors} descriptors in {polls} \
         polls"
    );
    ensure!(
        stores <= 2 * descriptors,
        "{stores} stores for {descriptors} descriptors"
    );
    // Interrupts touch registers, also those that tell of a full ring; one access for each packet
    // would be many more.
    ensure!(
        8 * mmio <= frames,
        "{mmio} register accesses for {frames} frames and {edges} interrupts"
    );
    ensure!(
        16 * hand_overs <= frames,
        "{hand_overs} series of first words, each behind a barrier, for {frames} frames"
    );
    Ok(())
}
