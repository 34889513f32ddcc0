// SPDX-License-Identifier: GPL-2.0
//! A device that lies, on the kernel that notices mistakes. The driver may lose frames, count
//! errors and reset the device; it may not touch memory that is not its own, hang, storm or leak.
//!
//! `HOSTILE=SEED` or `HOSTILE=SEED,ACTS` in the environment replays one seed, with those acts only
//! (the model's property `hostile-acts`).

use super::badinput::inject;
use super::functional::{Function, EXPERIMENT};
use super::kunit::leaks;
use super::{in_guest, Line, Test};
use crate::check::{complaints, Bench};
use crate::env::Driver;
use crate::net::{self, GATEWAY, IFACE};
use crate::steps::kernel::Flavour;
use crate::vm::{Console, Machine, Net, Vm};
use anyhow::{bail, ensure, Context, Result};
use serde_json::json;
use std::env;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

/// Seeds of the short campaign and of the long one.
const SHORT: RangeInclusive<u64> = 1..=3;
const LONG: RangeInclusive<u64> = 1..=100;
/// Seeds that the stock driver is put to, each on a machine of its own.
const OTHERS: RangeInclusive<u64> = 1..=5;

/// Descriptors that a seed writes to, at least.
const EVENTS: u64 = 10_000;

/// What a lying device may do: all of it, and each act.
const ALL_ACTS: u32 = 31;
const ACTS: [u32; 5] = [1, 2, 4, 8, 16];

/// After what time without an answer the guest counts as hung, in seconds.
const HUNG: u64 = 10;

/// What the kernel may say: the device stops transmitting, and its checksums are wrong.
const ALLOWED: &[&str] = &["NETDEV WATCHDOG", "hw csum failure", "Call trace:"];

pub(crate) fn tests() -> Vec<Test> {
    let line = |name, long, variant, run: Function| Line {
        name,
        long,
        machine: Machine {
            kernel: Flavour::Debug,
            ..Machine::with(variant, Net::User)
        },
        run,
        everywhere: false,
    };
    let ours = vec![
        line("short", false, "gbeth", short),
        line("short-gen3", false, "gen3", short),
        line("campaign", true, "gbeth", campaign),
        line("campaign-gen3", true, "gen3", campaign),
    ];
    let theirs = vec![
        line("seeds", true, "gbeth", stock),
        line("seeds-gen3", true, "gen3", stock),
    ];
    let mut tests: Vec<Test> = in_guest("hostile", Driver::Rust, ours)
        .into_iter()
        .map(|test| Test {
            name: test.name.replace("rust-", "debug-"),
            ..test
        })
        .collect();
    tests.extend(in_guest("hostile", Driver::C, theirs));
    tests
}

fn short(bench: &mut Bench<'_>) -> Result<()> {
    run(bench, SHORT)
}

fn campaign(bench: &mut Bench<'_>) -> Result<()> {
    run(bench, LONG)
}

/// Runs all seeds on one machine, and the first that fails again with fewer acts on others.
fn run(bench: &mut Bench<'_>, seeds: RangeInclusive<u64>) -> Result<()> {
    bench.expected.extend(ALLOWED);
    if let Some((seed, acts)) = asked()? {
        return one(bench, seed, acts).with_context(|| format!("seed {seed}, acts {acts}"));
    }
    for seed in seeds {
        if let Err(error) = one(bench, seed, ALL_ACTS) {
            let acts = fewest(bench, seed)?;
            return Err(error.context(format!(
                "seed {seed}; acts {acts} are enough: HOSTILE={seed},{acts} replays it"
            )));
        }
    }
    bench
        .vm
        .ok_within(&format!("rmmod {}", bench.driver.module()), 30)?;
    net::wait_for_pools(bench.vm)?;
    let found = leaks(bench)?;
    ensure!(
        found.is_empty(),
        "kmemleak found memory that nothing points to:\n{found}"
    );
    Ok(())
}

/// The seed and acts that the user asks for.
fn asked() -> Result<Option<(u64, u32)>> {
    let Ok(text) = env::var("HOSTILE") else {
        return Ok(None);
    };
    let (seed, acts) = text.split_once(',').unwrap_or((&text, "31"));
    let parse = || anyhow::Ok((seed.parse()?, acts.parse()?));
    parse()
        .map(Some)
        .with_context(|| format!("HOSTILE={text}: not SEED or SEED,ACTS"))
}

/// One seed: traffic in both directions while the device lies, until it has written to enough
/// descriptors; then the interface goes down and up, and all works.
fn one(bench: &mut Bench<'_>, seed: u64, acts: u32) -> Result<()> {
    const PATIENCE: Duration = Duration::from_secs(120);
    const GAP_NS: u64 = 20_000;
    bench.up()?;
    let mark = bench
        .vm
        .console_mark(&format!("seed {seed}, acts {acts}"))?;
    bench.vm.ok(&format!(
        "touch /run/hostile
         ping -i 0.01 {GATEWAY} > /dev/null 2>&1 &
         while [ -e /run/hostile ]; do
             for i in 1 2 3 4 5 6 7 8; do echo {} > /dev/udp/{GATEWAY}/9; done
             sleep 0.01
         done > /dev/null 2>&1 &",
        "x".repeat(1000)
    ))?;
    let before = events(bench)?;
    bench
        .vm
        .set_property("hostile-gap-ns", GAP_NS.to_string())?;
    bench.vm.set_property("hostile-acts", acts.to_string())?;
    bench.vm.set_property("hostile", seed.to_string())?;
    let end = Instant::now() + PATIENCE;
    let result = loop {
        for len in [60, 1400, 6000] {
            let frames = json!({ "len": len, "type": EXPERIMENT, "count": 20, "gap_ns": 30_000 });
            inject(bench, frames)?;
        }
        if let Err(error) = bench.vm.ok_within("true", HUNG) {
            break Err(error.context("the guest hangs"));
        }
        // Acts that write to no descriptor take as much time.
        if events(bench)? - before >= EVENTS || acts & 3 == 0 && end - Instant::now() < PATIENCE / 2
        {
            break Ok(());
        }
        if Instant::now() > end {
            break Err(anyhow::anyhow!("too few descriptors were written to"));
        }
    };
    bench.vm.set_property("hostile", "0")?;
    result?;
    bench.vm.ok_within(
        &format!("rm -f /run/hostile; pkill ping; ip link set {IFACE} down"),
        30,
    )?;
    // What the driver did to a device that did not keep the rules means nothing.
    bench.vm.set_property("violations-reset", "")?;
    bench.up()?;
    bench.ping(3, 56)?;
    let mut complaints = complaints(&bench.vm.console_since(mark));
    complaints.retain(|line| !ALLOWED.iter().any(|words| line.contains(words)));
    match complaints.first() {
        Some(first) => bail!("the kernel complained: {first}"),
        None => Ok(()),
    }
}

fn events(bench: &mut Bench<'_>) -> Result<u64> {
    let value = bench.vm.property("hostile-events")?;
    value.as_u64().with_context(|| format!("{value} events"))
}

/// What comes of a seed on a machine of its own.
fn alone(bench: &Bench<'_>, seed: u64, acts: u32) -> Result<Result<()>> {
    let name = format!("hostile-{}-{seed}-{acts}", bench.driver.module());
    let mut vm = Vm::boot(bench.parts, bench.machine, Console::Log(&name))?;
    let mut bench = Bench {
        parts: bench.parts,
        driver: bench.driver,
        machine: bench.machine,
        vm: &mut vm,
        cycles: bench.cycles,
        long: bench.long,
        expected: Vec::new(),
    };
    Ok(one(&mut bench, seed, acts))
}

/// The fewest acts with which the seed still fails, as far as leaving out one after the other
/// finds them.
fn fewest(bench: &Bench<'_>, seed: u64) -> Result<u32> {
    let mut acts = ALL_ACTS;
    for act in ACTS {
        if acts != act && alone(bench, seed, acts & !act)?.is_err() {
            acts &= !act;
        }
    }
    Ok(acts)
}

/// The stock driver with a few seeds, for comparison: what became of each is printed.
fn stock(bench: &mut Bench<'_>) -> Result<()> {
    let mut survived = 0;
    for seed in OTHERS {
        match alone(bench, seed, ALL_ACTS)? {
            Ok(()) => survived += 1,
            Err(error) => println!("\n  ravb, seed {seed}: {error:#}"),
        }
    }
    println!("\n  ravb survived {survived} of {} seeds", OTHERS.count());
    Ok(())
}
