// SPDX-License-Identifier: GPL-2.0
//! `make bench`: what a packet costs, our driver beside the stock one, counted in instructions.
//!
//! `rig.rs` boots a machine whose runs repeat, `cases.rs` says what traffic it gets, `profile.rs`
//! reads what was executed, `cost.rs` makes costs per packet of it, `report.rs` tells them.

mod cases;
mod cost;
mod flood;
mod iperf;
mod lean;
mod profile;
mod report;
mod rig;
mod svg;

use crate::env::{Driver, Env};
use crate::steps::kernel::Flavour;
use crate::ui::Progress;
use anyhow::{bail, ensure, Context, Result};
use cases::{Case, Series};
use cost::Cost;
use rig::{Outcome, Rig, Setup, ARM};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::resume_unwind;
use std::path::Path;

/// Variants that are measured: both formats of the receive path.
const VARIANTS: [&str; 2] = ["gbeth", "gen3"];

/// Shifted runs of each case, for the spread.
const PHASES: u32 = 5;

/// By how much a ratio may worsen against the baseline.
const TOLERANCE: f64 = 0.02;

/// Ratios of which more is better: not costs.
const GAINS: &[&str] = &["udp_goodput_1cpu"];

/// The shift of the flood of `bench-baseline`: the C driver loses a few datagrams. Where there are
/// many to lose, it depends a little on chance how many are.
const FLOOD_SHIFT: u32 = 1;

/// How long a program that only counts may have to wait in this flood, in milliseconds.
const PAUSE: f64 = 20.0;

/// The baseline of `bench-baseline`, relative to the repository.
const BASELINE: &str = "tests/lab/baseline.json";

/// The same of both drivers.
#[derive(Debug)]
struct Pair<T> {
    c: T,
    rust: T,
}

/// One case on one machine.
struct Measured {
    variant: &'static str,
    coherent: bool,
    case: Case,
    pair: Pair<Cost>,
}

/// All that one run of `make bench` measured.
struct Results {
    costs: Vec<Measured>,
    experiment: Option<flood::Experiment>,
    iperf: Option<Pair<iperf::Rates>>,
}

fn name_of(setup: &Setup, what: &str) -> String {
    format!(
        "bench-{}-{}-{}{what}",
        setup.variant,
        if setup.coherent {
            "coherent"
        } else {
            "noncoherent"
        },
        setup.driver.key()
    )
}

/// Runs the cases on one machine.
fn run_cases(
    rig: &Rig,
    setup: &Setup,
    cases: &[Case],
    phases: u32,
    what: &str,
) -> Result<(Outcome, Vec<Vec<Series>>)> {
    let mut script = format!("mark {ARM}\n{}", cases::WARM_UP);
    let mut mark = 0;
    let mut all = Vec::new();
    for case in cases {
        let series = case.series(phases, &mut mark);
        write!(script, "{}", case.script(&series))?;
        all.push(series);
    }
    Ok((rig.run(setup, &name_of(setup, what), &script)?, all))
}

fn costs(rig: &Rig, setup: &Setup, cases: &[Case], phases: u32) -> Result<Vec<Cost>> {
    each_cost(rig, setup, cases, phases, "")?
        .into_iter()
        .collect()
}

/// The cost of each case, or why it has none.
fn each_cost(
    rig: &Rig,
    setup: &Setup,
    cases: &[Case],
    phases: u32,
    what: &str,
) -> Result<Vec<Result<Cost>>> {
    let (outcome, series) = run_cases(rig, setup, cases, phases, what)?;
    Ok(cases
        .iter()
        .zip(&series)
        .map(|(case, series)| Cost::new(case, series, &outcome))
        .collect())
}

/// Adds to the cost of a case what the processor does with the rings: from a run of its own, in
/// which each such access is seen.
fn with_ring_accesses(cost: Result<Cost>, watched: Result<Cost>) -> Result<Cost> {
    let mut cost = cost?;
    let ring = |name: &&'static str| name.starts_with("ring_");
    let watched = watched?.events;
    cost.events
        .extend(watched.into_iter().filter(|(name, _)| ring(name)));
    Ok(cost)
}

/// `make bench`.
pub(crate) fn run(env: &Env, filter: &str) -> Result<()> {
    let rig = Rig::new(env, Flavour::Stock)?;
    let chosen =
        |name: &str| filter.is_empty() || filter.split(',').any(|word| name.contains(word));
    let mut measured = Vec::new();
    // One case that fails does not take the others with it.
    let mut failures: Vec<String> = Vec::new();
    for variant in VARIANTS {
        for coherent in [false, true] {
            let kind = if coherent { "coherent" } else { "noncoherent" };
            let cases: Vec<Case> = cases::of(variant)
                .into_iter()
                .filter(|case| chosen(&format!("{}-{variant}-{kind}", case.name)))
                .collect();
            if cases.is_empty() {
                continue;
            }
            let progress = Progress::start(&format!("{variant}, {kind}"));
            let measure = |driver: Driver| -> Result<Vec<Result<Cost>>> {
                let setup = Setup::costs(variant, coherent, driver);
                if coherent {
                    return each_cost(&rig, &setup, &cases, 1, "");
                }
                let costs = each_cost(&rig, &setup, &cases, PHASES, "")?;
                let setup = Setup {
                    watch: true,
                    ..setup
                };
                let brief: Vec<Case> = cases.iter().cloned().map(Case::brief).collect();
                let watched = each_cost(&rig, &setup, &brief, 1, "-watched")?;
                let pairs = costs.into_iter().zip(watched);
                Ok(pairs
                    .map(|(cost, watched)| with_ring_accesses(cost, watched))
                    .collect())
            };
            let (c, rust) = both(measure)?;
            for ((case, c), rust) in cases.into_iter().zip(c).zip(rust) {
                match (c, rust) {
                    (Ok(c), Ok(rust)) => measured.push(Measured {
                        variant,
                        coherent,
                        case,
                        pair: Pair { c, rust },
                    }),
                    (c, rust) => {
                        let errors = [c.err(), rust.err()].into_iter().flatten();
                        failures
                            .extend(errors.map(|error| format!("{variant}, {kind}: {error:#}")));
                    }
                }
            }
            progress.done();
        }
    }
    let experiment = match chosen("flood-gbeth-noncoherent") {
        false => None,
        true => {
            let progress = Progress::start("one processor at the rate of the line");
            let experiment = flood::measure(&rig)?;
            progress.done();
            Some(experiment)
        }
    };
    let iperf = match chosen("iperf3-gbeth-noncoherent") {
        false => None,
        true => iperf_rates(&rig),
    };
    if measured.is_empty() && experiment.is_none() && iperf.is_none() && failures.is_empty() {
        bail!("nothing has {filter:?} in its name");
    }
    let results = Results {
        costs: measured,
        experiment,
        iperf,
    };
    report::write(env, &results, filter.is_empty() && failures.is_empty())?;
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

/// Real time is at the mercy of the host: where that has too little of it, all that was counted is
/// kept all the same.
fn iperf_rates(rig: &Rig) -> Option<Pair<iperf::Rates>> {
    let progress = Progress::start("iperf3 both ways, for comparison");
    match iperf::measure(&rig.parts) {
        Ok(rates) => {
            progress.done();
            Some(rates)
        }
        Err(error) => {
            progress.note(&format!("  iperf3 was not measured: {error:#}"));
            None
        }
    }
}

/// Does the same with both drivers, at the same time.
fn both<T: Send>(run: impl Fn(Driver) -> Result<T> + Sync) -> Result<(T, T)> {
    std::thread::scope(|scope| {
        let c = scope.spawn(|| run(Driver::C));
        let rust = run(Driver::Rust);
        let c = c.join().unwrap_or_else(|panic| resume_unwind(panic));
        Ok((c?, rust?))
    })
}

/// What `make bench-full` does beyond `make bench`.
pub(crate) fn run_lean(env: &Env) -> Result<()> {
    report::write_lean(env, &lean::measure(env)?)
}

/// The machine of the tests below.
fn headline(driver: Driver) -> Setup {
    Setup::costs("gbeth", false, driver)
}

/// The cases of the tests below.
fn brief_cases() -> Vec<Case> {
    let wanted = ["rx_64", "rx_1518", "rx_paced", "tx_64_burst"];
    cases::of("gbeth")
        .into_iter()
        .filter(|case| wanted.contains(&case.name))
        .map(Case::brief)
        .collect()
}

/// Test: equal runs agree to the instruction, in every function and every counter.
pub(crate) fn repeats(env: &Env, _log: &Path) -> Result<()> {
    let rig = Rig::new(env, Flavour::Stock)?;
    let cases = brief_cases();
    let run = || run_cases(&rig, &headline(Driver::Rust), &cases[..1], 1, "-repeat");
    let (first, _) = run()?;
    for number in 2..=3 {
        let (again, _) = run()?;
        for (mark, a) in &first.marks {
            let b = again
                .marks
                .get(mark)
                .with_context(|| format!("run {number} lacks mark {mark}"))?;
            ensure!(
                a == b,
                "run {number} differs from the first before mark {mark}"
            );
        }
    }
    // On a machine that has too much to do: little is enough to change who gets its time.
    let flood = || flood::brief(&rig, Driver::Rust, FLOOD_SHIFT + 1);
    let first = flood()?;
    for number in 2..=3 {
        let again = flood()?;
        ensure!(
            again == first,
            "run {number} of a flood: {again:?} instead of {first:?}"
        );
    }
    Ok(())
}

/// Test: no ratio is worse than the committed one.
pub(crate) fn baseline(env: &Env, log: &Path) -> Result<()> {
    let ratios = brief_ratios(env)?;
    let text = serde_json::to_string_pretty(&ratios)? + "\n";
    std::fs::write(log, &text)?;
    let path = env.project.join(BASELINE);
    let known: BTreeMap<String, Value> = serde_json::from_str(
        &std::fs::read_to_string(&path).with_context(|| format!("{BASELINE} is missing"))?,
    )?;
    let mut worse = Vec::new();
    for (name, ratio) in &ratios {
        let known = known
            .get(name)
            .and_then(Value::as_f64)
            .with_context(|| format!("{BASELINE} lacks {name}"))?;
        let worse_by = match GAINS.contains(&name.as_str()) {
            true => known / ratio,
            false => ratio / known,
        };
        if worse_by > 1.0 + TOLERANCE {
            worse.push(format!("{name}: {ratio:.3} instead of {known:.3}"));
        }
    }
    ensure!(worse.is_empty(), "worse than before: {}", worse.join("; "));
    Ok(())
}

/// Rust ÷ C of the brief cases, in total and of what the driver answers for.
fn brief_ratios(env: &Env) -> Result<BTreeMap<String, f64>> {
    let rig = Rig::new(env, Flavour::Stock)?;
    let cases = brief_cases();
    let (c, rust) = both(|driver| costs(&rig, &headline(driver), &cases, 1))?;
    let mut ratios = BTreeMap::new();
    for ((case, c), rust) in cases.iter().zip(c).zip(rust) {
        ratios.insert(case.name.to_string(), rust.total / c.total);
        ratios.insert(format!("{}_owned", case.name), rust.owned() / c.owned());
    }
    let (c, rust) = both(|driver| flood::brief(&rig, driver, FLOOD_SHIFT))?;
    let pause = rust.at_line(flood::Config::Both)?.longest;
    ensure!(
        pause <= PAUSE,
        "a flood stops other programs for {pause:.1} ms"
    );
    let goodput = flood::goodput_ratio(&Pair { c, rust }, flood::Config::Both)?;
    ratios.insert("udp_goodput_1cpu".into(), goodput);
    Ok(ratios)
}

/// Writes the baseline anew.
pub(crate) fn set_baseline(env: &Env) -> Result<()> {
    let ratios: BTreeMap<String, f64> = brief_ratios(env)?
        .into_iter()
        .map(|(name, ratio)| (name, (ratio * 1000.0).round() / 1000.0))
        .collect();
    let text = serde_json::to_string_pretty(&ratios)? + "\n";
    std::fs::write(env.project.join(BASELINE), &text)?;
    print!("{text}");
    Ok(())
}
