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
        on_debug("debug-faults-probe", true, faults_in_probe),
        on_debug("debug-faults-open", true, faults_in_open),
        on_debug("debug-faults-resize", true, faults_in_resize),
        Test {
            name: "debug-faults-channels-gen3".to_string(),
            long: true,
            run: Run::Guest {
                driver: Driver::Rust,
                machine: Machine {
                    variant: "gen3",
                    ..machine.clone()
                },
                run: faults_in_channels,
            },
        },
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
    leaks(bench)?;
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
    bench.vm.ok(&format!("rmmod {}", bench.driver.module()))?;
    let found = leaks(bench)?;
    ensure!(
        found.is_empty(),
        "kmemleak found memory that nothing points to:\n{found}"
    );
    bench.up()
}

/// Probe fails at each of its allocations in turn, and gives everything back.
fn faults_in_probe(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let device = bench.platform_device()?;
    let driver = format!("/sys/bus/platform/drivers/{}", bench.driver.module());
    bench.vm.ok(&format!("echo {device} > {driver}/unbind"))?;
    let once = format!("echo {device} > {driver}/bind");
    let undo = format!("[ ! -e {driver}/{device} ] || echo {device} > {driver}/unbind");
    fail_each(bench, &once, &undo)?;
    bench.vm.ok(&once)?;
    bench.up()?;
    bench.ping(5, 56)
}

/// Open fails at each of its allocations in turn, and works afterwards.
fn faults_in_open(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    // Short rings: a buffer that cannot be allocated is like the next one.
    bench.vm.ok(&format!(
        "ip link set {IFACE} down && ethtool -G {IFACE} rx 64 tx 64"
    ))?;
    // As `ip link set up` and `down`, but by the shell itself, whose allocations it is that fail.
    let flags = format!("/sys/class/net/{IFACE}/flags");
    let once = format!("echo 0x1003 > {flags}");
    fail_each(bench, &once, &format!("echo 0x1002 > {flags}"))?;
    bench.vm.ok(&format!("ethtool -G {IFACE} rx 1024 tx 256"))?;
    bench.up()?;
    bench.ping(5, 56)
}

/// A change of the rings fails at each of its allocations in turn, and has no effect then.
fn faults_in_resize(bench: &mut Bench<'_>) -> Result<()> {
    // ETHTOOL_GRINGPARAM and ETHTOOL_SRINGPARAM: maxima of four sizes, then the sizes.
    faults_in_setting(bench, [0x10, 0x11], "{5: 64, 8: 64}", "{5: 80, 8: 80}")
}

/// The same with the number of queues.
fn faults_in_channels(bench: &mut Bench<'_>) -> Result<()> {
    // ETHTOOL_GCHANNELS and ETHTOOL_SCHANNELS, of the same form: the last is of both directions.
    faults_in_setting(bench, [0x3c, 0x3d], "{8: 2}", "{8: 1}")
}

/// Changes a setting that ethtool reads and writes with `commands`, by words of their structure,
/// while one allocation after the other fails. Each time the setting is the new one and nobody was
/// told of an error, or the old one and somebody was; in both cases the interface is up and frames
/// go both ways.
fn faults_in_setting(
    bench: &mut Bench<'_>,
    [get, set]: [u32; 2],
    old: &str,
    new: &str,
) -> Result<()> {
    bench.up()?;
    // Short rings: a buffer that cannot be allocated is like the next one.
    bench.vm.ok(&format!("ethtool -G {IFACE} rx 64 tx 64"))?;
    leaks(bench)?;
    let script = format!(
        "for f in failslab fail_page_alloc; do
             cd /sys/kernel/debug/$f && echo N > ignore-gfp-wait && echo 0 > verbose || exit 1
         done
         echo 0 > min-order
         exec python3 -ISu - << 'END'
import array, fcntl, os, struct, sys
import _socket as socket

INTERFACE = b'{IFACE}'
OLD, NEW = {old}, {new}
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
nth = os.open('/proc/self/fail-nth', os.O_RDWR)

def ioctl(command, values):
    data = array.array('I', [command] + [0] * 8)
    for at, value in values.items():
        data[at] = value
    address, _ = data.buffer_info()
    fcntl.ioctl(sock, 0x8946, struct.pack('16sP16x', INTERFACE, address))
    return data

def shown():
    data = ioctl({get}, {{}})
    return {{at: data[at] for at in OLD}}

for n in range(1, {ALLOCATIONS}):
    error = None
    os.pwrite(nth, str(n).encode(), 0)
    try:
        ioctl({set}, NEW)
    except OSError as failure:
        error = failure
    left = int(os.pread(nth, 16, 0))
    os.pwrite(nth, b'0', 0)
    if shown() != (OLD if error else NEW):
        sys.exit(f'{{n}}: {{error}}, and the setting is {{shown()}}')
    if os.system('[ $(cat /sys/class/net/{IFACE}/carrier) = 1 ] &&'
                 'ping -c 1 -W 5 {GATEWAY} > /dev/null'):
        sys.exit(f'{{n}}: {{error}}, and no answer')
    ioctl({set}, OLD)
    if left:
        print('faults', n)
        sys.exit()
sys.exit('it never gets through')
END",
        GATEWAY = net::GATEWAY
    );
    judge_faults(bench, &script)?;
    bench
        .vm
        .ok(&format!("ethtool -G {IFACE} rx 1024 tx 256"))
        .map(drop)
}

/// The most allocations that one operation is expected to make, with a wide margin.
const ALLOCATIONS: u32 = 2000;

/// Runs `once`, a command built into the shell, again and again: each time one allocation further
/// down fails, until none is left that could. After each, `undo` runs without faults. Memory must
/// not get lost.
fn fail_each(bench: &mut Bench<'_>, once: &str, undo: &str) -> Result<()> {
    leaks(bench)?;
    let script = format!(
        "cd /sys/kernel/debug
         for f in failslab fail_page_alloc; do
             echo N > $f/ignore-gfp-wait && echo 0 > $f/verbose || exit 1
         done
         echo 0 > fail_page_alloc/min-order
         exec 3> /proc/self/fail-nth
         n=1
         while [ $n -lt {ALLOCATIONS} ]; do
             echo $n >&3
             {once}
             left=
             read left < /proc/self/fail-nth
             echo 0 >&3
             {undo}
             [ \"${{left:-0}}\" -gt 0 ] && echo faults $n && exit 0
             n=$((n + 1))
         done
         echo 'it never gets through'
         exit 1"
    );
    judge_faults(bench, &script)
}

/// Runs a script that says how many faults there were: enough, and nothing got lost.
fn judge_faults(bench: &mut Bench<'_>, script: &str) -> Result<()> {
    let text = bench.vm.ok_within(script, 900)?;
    let count: u32 = text
        .lines()
        .find_map(|line| line.strip_prefix("faults "))
        .and_then(|count| count.parse().ok())
        .with_context(|| format!("{text:?} is no count"))?;
    ensure!(
        count > 10,
        "only {count} allocations could fail: faults are not injected"
    );
    let found = leaks(bench)?;
    ensure!(
        found.is_empty(),
        "kmemleak found memory that nothing points to:\n{found}"
    );
    Ok(())
}

/// Memory that nothing points to any more, as kmemleak tells it, which forgets it then.
pub(super) fn leaks(bench: &mut Bench<'_>) -> Result<String> {
    // What was freed by RCU a moment ago, or is young, does not count: hence two scans.
    bench.vm.ok_within(
        "cd /sys/kernel/debug; sleep 6; echo scan > kmemleak; sleep 1; echo scan > kmemleak
         cat kmemleak; echo clear > kmemleak",
        60,
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
