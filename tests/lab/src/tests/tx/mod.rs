// SPDX-License-Identifier: GPL-2.0
//! Transmission: what leaves is what was asked for, however it lies in memory, whatever the device
//! does meanwhile, and at what cost.

mod barrier;
mod checksum;
mod cost;
mod packet;
mod paths;
mod payload;
mod segments;
mod stream;
mod trouble;

pub(super) use trouble::set_watchdog;

use super::functional::Function;
use super::{in_guest, Line, Run, Test};
use crate::check::Bench;
use crate::env::Driver;
use crate::steps::kernel::Flavour;
use crate::vm::{Machine, Net};
use anyhow::{bail, ensure, Result};

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    let mut add = |driver, lines| tests.extend(in_guest("tx", driver, lines));
    add(Driver::Rust, ours());
    add(Driver::C, theirs());
    tests.extend(checked().into_iter().map(|line| Test {
        name: format!("debug-tx-{}", line.name),
        long: true,
        run: Run::Guest {
            driver: Driver::Rust,
            machine: Machine {
                kernel: Flavour::Debug,
                ..Machine::rzg2l(Net::Frames)
            },
            run: line.run,
        },
    }));
    tests.push(Test {
        name: "host-tx-barrier".to_string(),
        long: false,
        run: Run::Host(barrier::present),
    });
    tests.push(Test {
        name: "host-tx-barrier-missing".to_string(),
        long: true,
        run: Run::Host(barrier::missing),
    });
    tests
}

/// A machine that shows if memory of the device's is freed: the kernel clears it, which the model
/// sees.
fn strict(variant: &'static str) -> Machine {
    Machine {
        properties: vec!["watch=on".to_string(), "check-tx-buffers=on".to_string()],
        append: "init_on_free=1".to_string(),
        ..Machine::with(variant, Net::Frames)
    }
}

/// A machine that counts accesses to descriptors.
fn watched(variant: &'static str) -> Machine {
    Machine {
        properties: vec!["watch=on".to_string(), "eager-fetch=on".to_string()],
        ..Machine::with(variant, Net::Frames)
    }
}

fn ours() -> Vec<Line> {
    let frames = |variant| Machine::with(variant, Net::Frames);
    let user = |variant| Machine::with(variant, Net::User);
    let line = |name, long, machine, run| Line {
        name,
        long,
        machine,
        run,
        everywhere: false,
    };
    vec![
        line(
            "payload",
            false,
            frames("gbeth"),
            payload::pairwise as Function,
        )
        .everywhere(),
        line("shared", false, frames("gbeth"), payload::shared).everywhere(),
        line("checksum", false, frames("gbeth"), checksum::right),
        line(
            "checksum-software",
            true,
            frames("gbeth"),
            checksum::software,
        ),
        line("checksum-wrong", false, frames("gbeth"), checksum::wrong),
        line("checksum-gen3", false, frames("gen3"), checksum::few_right),
        line(
            "checksum-wrong-gen3",
            false,
            frames("gen3"),
            checksum::wrong_stays,
        ),
        line("payload-wide", true, frames("gbeth"), payload::wide).everywhere(),
        line("segments", false, frames("gbeth"), segments::pairwise),
        line("segments-wide", true, frames("gbeth"), segments::wide),
        line("stream", false, user("gbeth"), stream::whole).everywhere(),
        line("at-once", false, frames("gbeth"), trouble::at_once).everywhere(),
        line("single", false, frames("gbeth"), trouble::single).everywhere(),
        line("single-many", true, frames("gbeth"), trouble::many_single),
        line("starvation", false, frames("gbeth"), trouble::starvation).everywhere(),
        line("late-mode", false, frames("gbeth"), trouble::late_mode).everywhere(),
        line("burst", false, frames("gbeth"), cost::burst).everywhere(),
        line("single-cost", false, frames("gbeth"), cost::single).everywhere(),
        line("descriptors", false, watched("gbeth"), cost::descriptors).everywhere(),
        line("consumed", false, frames("gbeth"), paths::consumed).everywhere(),
        line("netconsole", false, frames("gbeth"), paths::netconsole).everywhere(),
        line(
            "timestamps",
            false,
            frames("gbeth"),
            paths::software_timestamps,
        )
        .everywhere(),
        line("limits", false, frames("gbeth"), paths::limits).everywhere(),
        line("iperf", false, user("gbeth"), paths::iperf).everywhere(),
        line("toggles", false, user("gbeth"), paths::toggles),
        line("parts", false, strict("gbeth"), trouble::parts),
        line("full", false, strict("gbeth"), trouble::full).everywhere(),
        line(
            "unmapped",
            false,
            trouble::cramped("gbeth"),
            trouble::unmapped,
        )
        .everywhere(),
        line("stuck", false, strict("gbeth"), trouble::stuck).everywhere(),
        line(
            "stuck-unbind",
            false,
            strict("gbeth"),
            trouble::stuck_unbind,
        ),
        line(
            "stuck-changed",
            true,
            strict("gbeth"),
            trouble::stuck_and_changed,
        ),
        line("stuck-long", true, strict("gbeth"), trouble::stuck_long).everywhere(),
        line("parts-gen2", true, strict("gen2"), trouble::parts),
    ]
}

/// What the kernel that notices mistakes looks at, too.
fn checked() -> Vec<Line> {
    const NAMES: &[&str] = &[
        "payload",
        "segments",
        "shared",
        "full",
        "stuck",
        "stuck-unbind",
        "stuck-changed",
    ];
    let mut lines = ours();
    lines.retain(|line| NAMES.contains(&line.name));
    lines
}

/// What the stock driver is put to, for comparison: what it does right, and what it does not.
fn theirs() -> Vec<Line> {
    const RIGHT: &[&str] = &[
        "payload",
        "checksum-wrong",
        "at-once",
        "single",
        "starvation",
        "late-mode",
        "burst",
        "single-cost",
        "descriptors",
        "parts",
    ];
    const WRONG: &[(&str, Function)] = &[
        ("shared", |bench| {
            defect(bench, payload::shared, "changed: ")
        }),
        ("consumed", |bench| {
            defect(bench, paths::consumed, "count as lost")
        }),
        ("timestamps", |bench| {
            defect(bench, paths::software_timestamps, "0 messages")
        }),
        ("unmapped", |bench| {
            defect(bench, trouble::unmapped, "0 of 1000 packets")
        }),
        ("stuck-unbind", |bench| {
            defect(bench, stuck_unbind, "descriptor-torn")
        }),
        ("stuck-changed", |bench| {
            defect(bench, trouble::stuck_and_changed, "Connection timed out")
        }),
    ];
    let mut lines = ours();
    lines.retain_mut(|line| {
        line.long = true;
        let wrong = WRONG.iter().find(|(name, _)| *name == line.name);
        if let Some((_, run)) = wrong {
            line.run = *run;
        }
        wrong.is_some() || RIGHT.contains(&line.name)
    });
    lines
}

/// The model sees that the device goes on reading descriptors that were freed.
fn stuck_unbind(bench: &mut Bench<'_>) -> Result<()> {
    trouble::stuck_unbind(bench)?;
    let violations = bench.vm.violations()?;
    ensure!(violations.is_empty(), "{violations:?}");
    Ok(())
}

/// The driver fails the test, and what the test says of it has `words`: a defect that is known.
fn defect(bench: &mut Bench<'_>, test: Function, words: &str) -> Result<()> {
    let result = test(bench);
    // Whatever else comes of it is part of the defect.
    bench.expected.push("");
    bench.vm.set_property("violations-reset", "")?;
    match result {
        Ok(()) => bail!("the driver does right what it did wrong"),
        Err(error) if format!("{error:#}").contains(words) => Ok(()),
        Err(error) => Err(error),
    }
}
