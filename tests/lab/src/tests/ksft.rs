// SPDX-License-Identifier: GPL-2.0
//! The kernel's own selftests, with both drivers: what they say must be what `tests/ksft/expected`
//! says. The device's partner is a second one of its kind, in a network namespace.

use super::{Run, Test};
use crate::check::Bench;
use crate::env::Driver;
use crate::net;
use crate::steps::kernel::Flavour;
use crate::vm::{Machine, Net};
use anyhow::{bail, ensure, Context, Result};
use std::collections::BTreeMap;
use std::fs;

/// Variants whose results are kept: one queue and two.
const VARIANTS: &[&str] = &["gbeth", "gen3"];

/// Programs below tools/testing/selftests, how long each may take in seconds, and how it is run.
const PROGRAMS: &[(&str, u64, Kind)] = &[
    ("drivers/net/ping.py", 120, Kind::Python),
    ("drivers/net/stats.py", 300, Kind::Python),
    ("drivers/net/queues.py", 120, Kind::Python),
    ("drivers/net/napi_id.py", 60, Kind::Python),
    ("drivers/net/napi_threaded.py", 120, Kind::Python),
    ("drivers/net/ring_reconfig.py", 300, Kind::Python),
    ("drivers/net/netpoll_basic.py", 240, Kind::Python),
    ("drivers/net/hw/irq.py", 120, Kind::Python),
    ("drivers/net/hw/nic_timestamp.py", 120, Kind::Python),
    ("drivers/net/hw/csum.py", 300, Kind::Python),
    ("drivers/net/hw/pp_alloc_fail.py", 120, Kind::Faults),
    ("net/netdevice.sh", 120, Kind::Alone),
    ("net/forwarding/min_max_mtu.sh", 300, Kind::Together),
];

/// What a program needs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Python: a partner in a namespace; tells the result of each case.
    Python,
    /// The same, on a kernel whose functions can be made to fail.
    Faults,
    /// Shell: the interface alone, down.
    Alone,
    /// Shell: both interfaces in one namespace; tells the result of each case.
    Together,
}

/// In which programs, and on which variants, our driver is still worse than the stock one.
#[cfg(test)]
const WORSE: &[(&str, &str)] = &[
    // There is no PTP clock.
    ("gen3", "nic_timestamp"),
];

/// What must come out.
const EXPECTED: &str = include_str!("../../../ksft/expected");

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for (driver, group) in [(Driver::C, "ksft-c"), (Driver::Rust, "ksft-rust")] {
        for &variant in VARIANTS {
            for index in 0..PROGRAMS.len() {
                let machine = Machine {
                    kernel: match PROGRAMS[index].2 {
                        Kind::Faults => Flavour::Faults,
                        _ => Flavour::Stock,
                    },
                    selftests: true,
                    // Interrupts are moved to the third.
                    cpus: 4,
                    memory: 1536,
                    ..Machine::with(variant, Net::Pair)
                };
                tests.push(Test {
                    name: format!("{group}-{variant}-{}", short(PROGRAMS[index].0)),
                    long: true,
                    run: Run::Guest {
                        driver,
                        machine,
                        run: RUN[index],
                    },
                });
            }
        }
    }
    tests
}

/// A test function for each program: functions carry no data.
const RUN: [fn(&mut Bench<'_>) -> Result<()>; PROGRAMS.len()] = [
    run::<0>, run::<1>, run::<2>, run::<3>, run::<4>, run::<5>, run::<6>, run::<7>, run::<8>,
    run::<9>, run::<10>, run::<11>, run::<12>,
];

/// `drivers/net/hw/irq.py` is `irq`.
fn short(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    name.split('.').next().unwrap_or(name)
}

/// Both interfaces as the tests want them, whatever the last one left.
const SET_UP: &str = "
    ip netns exec ns-remote ip link set eth1 netns 1 2> /dev/null
    ip netns del ns-remote 2> /dev/null
    for i in eth0 eth1; do ip link set $i down; ip addr flush dev $i; done
    sysctl -q -w net.ipv6.conf.eth0.keep_addr_on_down=1 net.ipv6.conf.all.disable_ipv6=0";

/// The partner must be able to send wrong checksums, which the engine would put right.
const PARTNER: &str = "
    if modprobe -q netconsole && [ ! -e /sys/kernel/config/netconsole ]; then
        mount -t configfs none /sys/kernel/config
    fi
    ip netns add ns-remote && ip link set eth1 netns ns-remote || exit 1
    ip addr add 192.0.3.1/24 dev eth0; ip addr add 2001:db8:1::1/64 dev eth0 nodad
    ip -n ns-remote addr add 192.0.3.2/24 dev eth1
    ip -n ns-remote addr add 2001:db8:1::2/64 dev eth1 nodad
    ip netns exec ns-remote ethtool -K eth1 tx off 2> /dev/null
    ip link set eth0 up; ip -n ns-remote link set eth1 up; ip -n ns-remote link set lo up
    for i in $(seq 100); do ping -c 1 -W 1 192.0.3.2 > /dev/null 2>&1 && break; done
    export PATH=/ksft/bin:$PATH NETIF=eth0 LOCAL_V4=192.0.3.1 REMOTE_V4=192.0.3.2
    export LOCAL_V6=2001:db8:1::1 REMOTE_V6=2001:db8:1::2 LOCAL_PREFIX_V6=2001:db8:2::0/64
    export REMOTE_TYPE=netns REMOTE_ARGS=ns-remote KSFT_MACHINE_SLOW=yes DISRUPTIVE=True";

fn run<const INDEX: usize>(bench: &mut Bench<'_>) -> Result<()> {
    let (path, seconds, kind) = PROGRAMS[INDEX];
    // The tests of the kernel's network subsystem get a second try, too: some wait for a fixed time
    // only, however busy the host is. That it was needed is told.
    if let Ok(()) = attempt(bench, path, seconds, kind, "output") {
        return Ok(());
    }
    print!("(second try) ");
    attempt(bench, path, seconds, kind, "output-again")
}

/// Where packets may have been lost: in the devices, before them, or behind.
const COUNTED: &str = "
    for at in '' 'ip netns exec ns-remote'; do
        $at ip -s -s link show; $at tc -s qdisc show
        $at grep -e Ip: -e Tcp: -e Udp: /proc/net/snmp
    done
    cat /proc/net/softnet_stat";

/// Runs a program once and keeps what it printed in a file with this extension.
fn attempt(
    bench: &mut Bench<'_>,
    path: &str,
    seconds: u64,
    kind: Kind,
    extension: &str,
) -> Result<()> {
    let (dir, file) = path.rsplit_once('/').context("no directory")?;
    if bench.vm.run("[ -e /sys/class/net/eth0 ]", 10)?.status != 0 {
        net::load(bench.vm, bench.driver)?;
    }
    let command = match kind {
        Kind::Python | Kind::Faults => format!("{PARTNER}\npython3 {file}"),
        Kind::Alone => format!("bash {file}"),
        Kind::Together => format!(
            "modprobe vrf; modprobe 8021q
             NETIF_CREATE=no REQUIRE_MZ=no bash {file} eth0 eth1"
        ),
    };
    let output = bench.vm.run(
        &format!("{SET_UP}\ncd /ksft/tools/testing/selftests/{dir} || exit 1\n{command}"),
        seconds,
    )?;
    let variant = bench.machine.variant;
    let name = format!("ksft-{}-{variant}-{}", bench.driver, short(path));
    let counted = bench.vm.run(COUNTED, 10)?.text;
    fs::write(
        bench.parts.logs.join(name).with_extension(extension),
        format!("{}\n{counted}", output.text),
    )?;
    let results = match kind {
        Kind::Alone => BTreeMap::from([(
            short(path).to_string(),
            match output.status {
                0 => "pass",
                4 => "skip",
                _ => "fail",
            },
        )]),
        _ => parse(&output.text),
    };
    ensure!(
        output.status != 137,
        "not done after {seconds} s:\n{}",
        output.text
    );
    ensure!(!results.is_empty(), "no result:\n{}", output.text);
    let differences = differences(bench.driver, variant, short(path), &results);
    if !differences.is_empty() {
        bail!("{}\n{}\n{counted}", differences.join("\n"), output.text);
    }
    Ok(())
}

/// The results of cases, from KTAP lines (`ok 1 ping.test_v4 # SKIP why`) and from those of the
/// tests in shell (`TEST: ping [ OK ]`).
fn parse(text: &str) -> BTreeMap<String, &'static str> {
    let mut results = BTreeMap::new();
    for line in text.lines() {
        let line = line.trim();
        let (good, rest) = if let Some(rest) = line.strip_prefix("ok ") {
            (true, rest)
        } else if let Some(rest) = line.strip_prefix("not ok ") {
            (false, rest)
        } else if let Some(rest) = line.strip_prefix("TEST: ") {
            let Some((name, result)) = rest.rsplit_once('[') else {
                continue;
            };
            let result = match result.trim_end_matches(']').trim() {
                "OK" => "pass",
                "SKIP" => "skip",
                "XFAIL" => "xfail",
                _ => "fail",
            };
            results.insert(name.trim().replace(' ', "-"), result);
            continue;
        } else {
            continue;
        };
        let name = rest.split_whitespace().nth(1).unwrap_or_default();
        let result = match (good, rest) {
            (false, _) => "fail",
            (_, rest) if rest.contains("# SKIP") => "skip",
            (_, rest) if rest.contains("# XFAIL") => "xfail",
            _ => "pass",
        };
        results.insert(name.to_string(), result);
    }
    results
}

/// A line of the file of expectations: what does not pass.
#[derive(Debug)]
struct Line {
    driver: &'static str,
    variant: &'static str,
    program: &'static str,
    case: &'static str,
    result: &'static str,
}

fn expectations() -> impl Iterator<Item = Line> {
    EXPECTED
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .filter_map(|line| {
            let mut words = line.split_whitespace();
            Some(Line {
                driver: words.next()?,
                variant: words.next()?,
                program: words.next()?,
                case: words.next()?,
                result: words.next()?,
            })
        })
}

fn differences(
    driver: Driver,
    variant: &str,
    program: &str,
    results: &BTreeMap<String, &'static str>,
) -> Vec<String> {
    let expected: BTreeMap<_, _> = expectations()
        .filter(|line| {
            line.driver == driver.module() && line.variant == variant && line.program == program
        })
        .map(|line| (line.case, line.result))
        .collect();
    let mut differences = Vec::new();
    for (case, result) in results {
        let wanted = expected.get(case.as_str()).copied().unwrap_or("pass");
        if *result != wanted {
            differences.push(format!(
                "{} {variant} {program} {case} {result} (expected: {wanted})",
                driver.module()
            ));
        }
    }
    for case in expected.keys().filter(|case| !results.contains_key(**case)) {
        differences.push(format!("{program} {case} did not run"));
    }
    differences
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn results_are_read() {
        let text = "TAP version 13\n1..3\nok 1 ping.test_v4\nok 2 ping.test_v6 # SKIP no\n\
                    # Exception\nnot ok 3 ping.test_tcp\nok 4 a.b # XFAIL c\n\
                    TEST: ping ipv4     [ OK ]\nTEST: max MTU config [FAIL]\n";
        let results = parse(text);
        let expected = [
            ("a.b", "xfail"),
            ("max-MTU-config", "fail"),
            ("ping-ipv4", "pass"),
            ("ping.test_tcp", "fail"),
            ("ping.test_v4", "pass"),
            ("ping.test_v6", "skip"),
        ];
        assert!(results.iter().map(|(k, v)| (k.as_str(), *v)).eq(expected));
    }

    #[test]
    fn expectations_have_a_reason_and_we_are_never_worse() {
        let rank = |result: &str| match result {
            "pass" => 0,
            "xfail" | "skip" => 1,
            _ => 2,
        };
        for line in EXPECTED.lines().filter(|line| !line.starts_with('#')) {
            assert!(
                line.is_empty() || line.split_whitespace().count() > 5,
                "{line}"
            );
        }
        for ours in expectations().filter(|line| line.driver == Driver::Rust.module()) {
            let theirs = expectations().find(|line| {
                line.driver == Driver::C.module()
                    && line.variant == ours.variant
                    && line.program == ours.program
                    && line.case == ours.case
            });
            let theirs = theirs.map_or("pass", |line| line.result);
            // What is still missing is said, and nothing else may be worse.
            let known = WORSE.contains(&(ours.variant, ours.program));
            let worse = rank(ours.result) > rank(theirs);
            assert!(worse == known, "compared with C: {ours:?}, {theirs}");
        }
    }
}
