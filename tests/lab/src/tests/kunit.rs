// SPDX-License-Identifier: GPL-2.0
//! The KUnit suites in the driver's files, run the kernel's own ways, and the driver's work on the
//! kernel that notices mistakes.

use super::{Run, Test};
use crate::check::Bench;
use crate::env::{Driver, Env};
use crate::net::{self, Direction, Iperf, IFACE};
use crate::proc::append;
use crate::steps::kernel::Flavour;
use crate::steps::{module, uml};
use crate::vm::{Machine, Net};
use anyhow::{bail, ensure, Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

/// Results of suites: the names of their cases, and whether they passed.
type Results = BTreeMap<String, Vec<(String, bool)>>;

pub(crate) fn tests() -> Vec<Test> {
    let machine = Machine {
        kernel: Flavour::Debug,
        ..Machine::rzg2l(Net::User)
    };
    let on_debug = |name: &str, long: bool, run: fn(&mut Bench<'_>) -> Result<()>| Test {
        name: name.to_string(),
        long,
        run: Run::Guest {
            driver: Driver::Rust,
            machine: machine.clone(),
            run,
        },
    };
    vec![
        Test {
            name: "kunit-uml".to_string(),
            long: false,
            run: Run::Host(user_mode),
        },
        on_debug("kunit-arm64", false, at_insmod),
        on_debug("debug-smoke", false, smoke),
    ]
}

/// kunit.py in user mode.
fn user_mode(env: &Env, log: &Path) -> Result<()> {
    let text = uml::get(env)?.run(env, log)?;
    let results = from_json(&text).context("kunit.py's results are not understood")?;
    judge(&results, &module::suites(&env.project)?)?;
    write!(append(log)?, "{}", show(&results))?;
    Ok(())
}

/// The suites that run when the module is loaded.
fn at_insmod(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let text = bench
        .vm
        .ok("for f in /sys/kernel/debug/kunit/*/results; do cat $f || exit 1; done")?;
    let results = from_ktap(&text);
    judge(&results, &bench.parts.suites)
}

/// Link, traffic, and every way to stop and start again: what the checkers find fails the test by
/// its complaint. Then nothing may be left over.
fn smoke(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    forget_leaks(bench)?;
    bench.ping(20, 56)?;
    bench.ping(10, 1400)?;
    let iperf = Iperf::start(&bench.parts.root)?;
    for direction in [Direction::Receive, Direction::Transmit] {
        iperf.tcp(bench.vm, direction, 3)?;
        iperf.udp(bench.vm, direction, 2, 20)?;
    }
    bench.vm.ok(&format!(
        "ethtool -S {IFACE}; ethtool -i {IFACE}; ip -s link show {IFACE}"
    ))?;

    for _ in 0..5 {
        bench.vm.ok(&format!("ip link set {IFACE} down"))?;
        bench.up()?;
        bench.ping(3, 56)?;
    }
    let device = bench.platform_device()?;
    let driver = format!("/sys/bus/platform/drivers/{}", bench.driver.module());
    for _ in 0..5 {
        bench.vm.ok(&format!(
            "echo {device} > {driver}/unbind && echo {device} > {driver}/bind"
        ))?;
        bench.up()?;
        bench.ping(3, 56)?;
    }
    for _ in 0..3 {
        bench.vm.ok(&format!("rmmod {}", bench.driver.module()))?;
        net::load(bench.vm, bench.driver)?;
        bench.up()?;
        bench.ping(3, 56)?;
    }
    no_leaks(bench)?;
    bench.up()
}

/// Lets kmemleak forget what it finds before a test, unless a test before has done so: a scan takes
/// long.
pub(super) fn forget_leaks(bench: &mut Bench<'_>) -> Result<()> {
    if bench.vm.run("[ -e /run/leaks-forgotten ]", 10)?.status != 0 {
        leaks(bench)?;
        bench.vm.ok("touch /run/leaks-forgotten")?;
    }
    Ok(())
}

/// Nothing is lost since [`forget_leaks`]: when the device is unbound, no page pool waits for its
/// pages, and kmemleak finds nothing. Then it is bound again, if it was.
pub(super) fn no_leaks(bench: &mut Bench<'_>) -> Result<()> {
    let driver = format!("/sys/bus/platform/drivers/{}", bench.driver.module());
    let bound = bench.vm.ok(&format!(
        "cd {driver} || exit 1
         for device in *.ethernet; do
             [ -e $device ] || continue
             echo $device > unbind && echo $device || exit 1
         done"
    ))?;
    net::wait_for_pools(bench.vm)?;
    let found = leaks(bench)?;
    ensure!(
        found.is_empty(),
        "kmemleak found memory that nothing points to:\n{found}"
    );
    for device in bound.lines() {
        bench.vm.ok(&format!("echo {device} > {driver}/bind"))?;
    }
    Ok(())
}

/// Memory that nothing points to any more, as kmemleak tells it, which forgets it then.
pub(super) fn leaks(bench: &mut Bench<'_>) -> Result<String> {
    // What was freed by RCU a moment ago, or is young, does not count: hence two scans.
    bench.vm.ok_within(
        "cd /sys/kernel/debug; sleep 6; echo scan > kmemleak; sleep 1; echo scan > kmemleak
         cat kmemleak; echo clear > kmemleak",
        300,
    )
}

/// All suites that are wanted ran, with all cases, and all passed.
fn judge(results: &Results, wanted: &BTreeMap<String, usize>) -> Result<()> {
    for (suite, cases) in wanted {
        let Some(ran) = results.get(suite) else {
            bail!("suite {suite} did not run");
        };
        ensure!(
            ran.len() == *cases,
            "{} of {cases} cases of {suite} ran",
            ran.len()
        );
    }
    for (suite, cases) in results {
        if let Some((case, _)) = cases.iter().find(|(_, passed)| !passed) {
            bail!("case {case} of suite {suite} failed");
        }
    }
    Ok(())
}

fn show(results: &Results) -> String {
    let mut text = String::new();
    for (suite, cases) in results {
        let passed = cases.iter().filter(|(_, passed)| *passed).count();
        text.push_str(&format!("{suite}: {passed} of {} passed\n", cases.len()));
        for (case, passed) in cases {
            let verdict = if *passed { "ok" } else { "not ok" };
            text.push_str(&format!("  {verdict} {case}\n"));
        }
    }
    text
}

/// Reads what kunit.py writes with --json: groups in groups, with cases in the innermost.
fn from_json(text: &str) -> Option<Results> {
    fn visit(group: &Value, results: &mut Results) -> Option<()> {
        let cases = group["test_cases"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        if !cases.is_empty() {
            let list = results
                .entry(group["name"].as_str()?.to_string())
                .or_default();
            for case in cases {
                list.push((case["name"].as_str()?.to_string(), case["status"] == "PASS"));
            }
        }
        let inner = group["sub_groups"]
            .as_array()
            .map_or(&[][..], Vec::as_slice);
        inner.iter().try_for_each(|group| visit(group, results))
    }
    let mut results = Results::new();
    visit(&serde_json::from_str(text).ok()?, &mut results)?;
    Some(results)
}

/// Reads KTAP: of each suite a line with its name, and one for each of its cases.
fn from_ktap(text: &str) -> Results {
    let mut results = Results::new();
    let mut suite = String::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("# Subtest: ") {
            suite = name.to_string();
            results.entry(suite.clone()).or_default();
            continue;
        }
        let (passed, rest) = match (line.strip_prefix("ok "), line.strip_prefix("not ok ")) {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => continue,
        };
        let Some((_number, name)) = rest.split_once(' ') else {
            continue;
        };
        let name = name.trim_start_matches("- ");
        // The line about the suite itself comes last.
        match results.get_mut(&suite) {
            Some(cases) if name != suite => cases.push((name.to_string(), passed)),
            _ => {}
        }
    }
    results
}

#[cfg(test)]
mod unit {
    use super::*;

    fn one_of(name: &str, cases: &[(&str, bool)]) -> Results {
        let cases = cases
            .iter()
            .map(|&(case, passed)| (case.to_string(), passed));
        BTreeMap::from([(name.to_string(), cases.collect())])
    }

    #[test]
    fn ktap_is_read() {
        let text = "KTAP version 1\n1..1\n    KTAP version 1\n    # Subtest: a\n    1..2\n    \
                    ok 1 x\n    # y: EXPECTATION FAILED at f.rs:1\n    not ok 2 y\n# a: pass:1\n\
                    not ok 1 a\n";
        assert_eq!(from_ktap(text), one_of("a", &[("x", true), ("y", false)]));
    }

    #[test]
    fn json_is_read() {
        let text = r#"{"name":"KUnit Test Group","sub_groups":[{"name":"a","sub_groups":[],
            "test_cases":[{"name":"x","status":"PASS"},{"name":"y","status":"FAIL"}]}]}"#;
        let results = from_json(text).unwrap();
        assert_eq!(results, one_of("a", &[("x", true), ("y", false)]));
    }

    #[test]
    fn what_failed_or_is_missing_is_noticed() {
        let wanted = BTreeMap::from([("a".to_string(), 2)]);
        let check = |results: Results| judge(&results, &wanted).is_ok();
        assert!(check(one_of("a", &[("x", true), ("y", true)])));
        assert!(!check(one_of("a", &[("x", true), ("y", false)])));
        assert!(!check(one_of("a", &[("x", true)])));
        assert!(!check(one_of("b", &[("x", true), ("y", true)])));
        assert!(!check(Results::new()));
    }
}
