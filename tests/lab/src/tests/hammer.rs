// SPDX-License-Identifier: GPL-2.0
//! Everything at the same time, on four processors, with the stock kernel and with the one that
//! notices mistakes.

use super::kunit::{forget_leaks, no_leaks};
use super::tx::set_watchdog;
use super::{Run, Test};
use crate::check::Bench;
use crate::env::Driver;
use crate::net::{Direction, Iperf, IFACE};
use crate::steps::kernel::Flavour;
use crate::vm::{Machine, Net};
use anyhow::{ensure, Context, Result};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

pub(crate) fn tests() -> Vec<Test> {
    let test = |name: &str, variant, kernel| Test {
        name: name.to_string(),
        long: true,
        run: Run::Guest {
            driver: Driver::Rust,
            machine: Machine {
                kernel,
                cpus: 4,
                ..Machine::with(variant, Net::User)
            },
            run: hammer,
        },
    };
    vec![
        test("rust-hammer", "gbeth", Flavour::Stock),
        test("rust-hammer-gen3", "gen3", Flavour::Stock),
        test("debug-hammer", "gbeth", Flavour::Debug),
        test("debug-hammer-gen3", "gen3", Flavour::Debug),
    ]
}

/// What is done to the interface over and over, all at the same time: a name, and a script for
/// turn `$i`.
const BLOWS: &[(&str, &str)] = &[
    (
        "resize",
        "ethtool -G eth0 rx $((64 << i % 4)) tx $((64 << i % 3)); sleep 0.$((i % 10))",
    ),
    (
        "reopen",
        "ip link set eth0 down; sleep 0.0$((i % 10)); ip link set eth0 up; sleep $((i % 3))",
    ),
    (
        "threaded",
        "echo $((i % 2)) > /sys/class/net/eth0/threaded; sleep 0.05",
    ),
    (
        "read",
        "ethtool -S eth0; ethtool -d eth0; cat /sys/class/net/eth0/statistics/*",
    ),
    (
        "set",
        "[ $((i % 2)) = 0 ] && set off || set on
         ethtool -K eth0 rx $1 tx $1; ip link set eth0 promisc $1",
    ),
    (
        "move",
        "for irq in $(awk '/eth0|ethernet/ { sub(\":\", \"\", $1); print $1 }' /proc/interrupts)
         do echo $((1 + (i + irq) % 15)) > /proc/irq/$irq/smp_affinity; done; sleep 0.05",
    ),
    (
        "send",
        "for n in 1 2 3 4 5 6 7 8; do echo $n > /dev/udp/10.0.2.2/9; done
         ping -c 10 -i 0.01 -W 1 -s 1400 10.0.2.2",
    ),
];

/// The same, where there is a second queue.
const BLOWS_TO_TWO: &[(&str, &str)] = &[(
    "channels",
    "ethtool -L eth0 combined $((1 + i % 2)); sleep 0.$((3 * i % 10))",
)];

/// Everything at once on four processors: senders, polls, interrupts that move, new rings, a stuck
/// queue, polls by threads or not, close and open, another number of queues, and who reads what
/// there is to read. Afterwards it works, and nothing is lost.
fn hammer(bench: &mut Bench<'_>) -> Result<()> {
    const WATCHDOG_MS: u32 = 200;
    /// How often each is done, at least.
    const LEAST: u64 = 5;
    const DURATION: Duration = Duration::from_secs(60);
    const PATIENCE: Duration = Duration::from_secs(300);
    bench.expected.push("NETDEV WATCHDOG");
    bench.up()?;
    let debug = bench.machine.kernel == Flavour::Debug;
    if debug {
        forget_leaks(bench)?;
    }
    set_watchdog(bench, WATCHDOG_MS)?;
    let iperf = Iperf::start(&bench.parts.root)?;
    let stuck = bench.counter("tx_errors")?;

    let two: &[_] = match bench.machine.variant {
        "gen3" => BLOWS_TO_TWO,
        _ => &[],
    };
    let both = format!(
        "timeout 5 {}; sleep 0.1",
        iperf.client(Direction::Transmit, 2, "--bidir")
    );
    let blows: Vec<(&str, &str)> = BLOWS
        .iter()
        .chain(two)
        .copied()
        .chain([("stream", both.as_str())])
        .collect();
    let mut script = "rm -rf /run/hammer; mkdir /run/hammer; cd /run/hammer || exit 1
        beat() {
            bash -c \"i=0; while [ ! -e end ]; do i=\\$((i + 1)); $2
            echo \\$i > $1.count; done\" > $1.out 2>&1 < /dev/null &
            echo $! > $1.pid
        }
        turn() { cat > $1.turn; }\n"
        .to_string();
    for (name, turn) in &blows {
        script.push_str(&format!("turn {name} << 'END'\n{turn}\nEND\n"));
    }
    for (name, _) in &blows {
        script.push_str(&format!("beat {name} '. ./{name}.turn'\n"));
    }
    bench.vm.ok_within(&script, 120)?;

    let end = Instant::now() + DURATION;
    let result = loop {
        for (hold, ms) in [("on", 1000), ("off", 2000)] {
            bench.vm.set_property("tx-hold", hold)?;
            std::thread::sleep(Duration::from_millis(ms));
        }
        let turns = turns(bench, &blows)?;
        let stuck = bench.counter("tx_errors")? - stuck;
        let seen = format!("{turns:?}, stuck {stuck}");
        // Where the host is busy, it takes longer until it was worth the effort.
        if Instant::now() < end {
            continue;
        }
        if stuck > 0 && turns.values().all(|&turns| turns >= LEAST) {
            break Ok(seen);
        }
        if Instant::now() > end + PATIENCE {
            break Err(anyhow::anyhow!("too little was done: {seen}"));
        }
    };
    bench.vm.set_property("tx-hold", "off")?;
    println!("\n  {}", result?);
    bench.vm.ok_within(
        "cd /run/hammer; touch end
         for i in $(seq 600); do
             killall -q iperf3 ping
             running=
             for pid in $(cat *.pid); do
                 grep -q end /proc/$pid/cmdline 2> /dev/null && running=1
             done
             [ $running ] || exit 0
             sleep 0.2
         done
         echo 'it does not end'; exit 1",
        180,
    )?;

    bench.vm.ok(&format!(
        "echo 0 > /sys/class/net/{IFACE}/threaded; ip link set {IFACE} promisc off
         ethtool -K {IFACE} rx on tx on; true"
    ))?;
    bench.up()?;
    bench.ping(5, 1000)?;
    let both = [Direction::Receive, Direction::Transmit];
    for direction in both {
        let rate = iperf.tcp(bench.vm, direction, 2)?;
        ensure!(rate > 0.5, "{direction:?}: only {rate:.1} Mbit/s");
    }
    if debug {
        no_leaks(bench)?;
    }
    bench.up()?;
    bench.ping(3, 56)
}

/// How many turns there were of each.
fn turns(bench: &mut Bench<'_>, blows: &[(&str, &str)]) -> Result<BTreeMap<String, u64>> {
    let names: Vec<&str> = blows.iter().map(|(name, _)| *name).collect();
    let text = bench
        .vm
        .ok_within(
            &format!(
                "cd /run/hammer
                 for name in {}; do
                     turns=0; [ -s $name.count ] && read turns < $name.count; echo $name $turns
                 done",
                names.join(" ")
            ),
            60,
        )
        .context("the guest hangs")?;
    text.lines()
        .map(|line| {
            let (name, turns) = line.split_once(' ').context("no count")?;
            // One that is being written.
            Ok((name.to_string(), turns.parse().unwrap_or(0)))
        })
        .collect()
}
