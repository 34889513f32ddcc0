// SPDX-License-Identifier: GPL-2.0
//! The driver taken down and up again under traffic, many times: no oops, no warning, no leak.

use super::{Run, Test};
use crate::check::Bench;
use crate::env::Driver;
use crate::net::{self, Direction, Iperf, IFACE};
use crate::vm::{Machine, Net};
use anyhow::{bail, Context, Result};
use std::collections::BTreeMap;

type Function = fn(&mut Bench<'_>) -> Result<()>;

const TESTS: &[(&str, Function)] = &[
    ("rust-cycle-down-up", down_up),
    ("rust-cycle-unbind-bind", unbind_bind),
    ("rust-cycle-rmmod-insmod", rmmod_insmod),
    // Last: it waits for what the ones before may have left behind.
    ("rust-cycle-no-leak", no_leak),
];

pub(crate) fn tests() -> Vec<Test> {
    TESTS
        .iter()
        .map(|&(name, run)| Test {
            name: name.to_string(),
            long: false,
            run: Run::Guest {
                driver: Driver::Rust,
                machine: Machine::rzg2l(Net::User),
                run,
            },
        })
        .collect()
}

/// Memory a run may leave in use, in KiB: sockets that were closed with data in them. Runs that
/// leak nothing were seen to differ by 1 MiB. A receive ring has 2 MiB of buffers, so losing one in
/// five of 20 cycles shows.
const SLACK_KIB: u64 = 8 * 1024;

/// Rounds before memory is measured first: they fill the kernel's caches.
const WARM_UP: u32 = 3;

/// Runs `down` and `up` alternately while TCP flows both ways, and checks each time that traffic
/// went through in between, and in the end that no memory is gone.
fn cycle(bench: &mut Bench<'_>, down: &str, up: &str) -> Result<()> {
    let count = bench.cycles;
    cycle_times(bench, down, up, count, 1)
}

/// The same, 1000 times in `make check-all`: there a few rounds are run before traffic is waited
/// for, so that the next one also comes before the link or in the middle of a burst.
pub(super) fn cycle_often(bench: &mut Bench<'_>, down: &str, up: &str) -> Result<()> {
    let count = bench.many();
    cycle_times(bench, down, up, count, if bench.long { 10 } else { 1 })
}

fn cycle_times(
    bench: &mut Bench<'_>,
    down: &str,
    up: &str,
    count: u32,
    at_once: u32,
) -> Result<()> {
    rounds(bench, down, up, WARM_UP * at_once, at_once)?;
    constant_memory(bench, |bench| rounds(bench, down, up, count, at_once))?;
    bench.ping(5, 56)
}

/// No memory is gone after `action`.
pub(super) fn constant_memory(
    bench: &mut Bench<'_>,
    action: impl FnOnce(&mut Bench<'_>) -> Result<()>,
) -> Result<()> {
    let before = memory(bench)?;
    action(bench)?;
    let after = memory(bench)?;
    let (free, now) = (before["free"], after["free"]);
    if now + SLACK_KIB < free {
        let mut message = format!("{} KiB of memory are gone", free - now);
        for (name, value) in &before {
            let gone = after.get(name).unwrap_or(&0).abs_diff(*value);
            if gone >= 1024 {
                message.push_str(&format!("\n{name} was {value} KiB, differs by {gone} KiB"));
            }
        }
        bail!(message);
    }
    Ok(())
}

fn rounds(bench: &mut Bench<'_>, down: &str, up: &str, count: u32, at_once: u32) -> Result<()> {
    bench.up()?;
    let receive = Iperf::start(&bench.parts.root)?;
    let transmit = Iperf::start(&bench.parts.root)?;
    let mut script = String::from("rm -f /run/traffic-end\n");
    for client in [
        receive.client(Direction::Receive, 600, ""),
        transmit.client(Direction::Transmit, 600, ""),
    ] {
        script.push_str(&format!(
            "while [ ! -e /run/traffic-end ]; do {client}; sleep 0.1; done > /dev/null 2>&1 &\n"
        ));
    }
    bench.vm.ok(&script)?;
    let address = bench.up_script();
    let round = format!("{{ {down}; }} || exit 1\n{{ {up}; }} || exit 1\n{address}");
    let script = format!("for i in $(seq {at_once}); do\n{round}\ndone");
    for done in (0..count).step_by(at_once as usize) {
        traffic(bench)
            .and_then(|()| bench.vm.ok_within(&script, 30 + 3 * u64::from(at_once)))
            .and_then(|_| net::wait_for_link(bench.vm))
            .with_context(|| format!("after {done} cycles"))?;
    }
    traffic(bench)?;
    bench.vm.ok("touch /run/traffic-end
         for i in $(seq 100); do killall -q iperf3 || exit 0; sleep 0.1; done; exit 1")?;
    Ok(())
}

/// Waits until both directions carry frames.
pub(super) fn traffic(bench: &mut Bench<'_>) -> Result<()> {
    let script = format!(
        "cd /sys/class/net/{IFACE}/statistics
         rx=$(cat rx_packets) tx=$(cat tx_packets)
         for i in $(seq 400); do
             sleep 0.05
             [ $(cat rx_packets) -gt $((rx + 100)) ] && [ $(cat tx_packets) -gt $((tx + 100)) ] &&
                 exit 0
         done
         echo \"received $rx to $(cat rx_packets), sent $tx to $(cat tx_packets)\"; exit 1"
    );
    bench.vm.ok(&script).context("no traffic")?;
    Ok(())
}

/// /proc/meminfo in KiB with caches dropped, and what is `free`: with the pages in the lists of the
/// CPUs, which MemFree leaves out, and which hold as much as an eighth of the memory each.
fn memory(bench: &mut Bench<'_>) -> Result<BTreeMap<String, u64>> {
    let text = bench
        .vm
        .ok("sleep 1; sync; echo 3 > /proc/sys/vm/drop_caches; sleep 0.2
         awk '
             $1 == \"KernelPageSize:\" { page = $2; next }
             FILENAME == \"/proc/meminfo\" { sub(\":\", \"\", $1); print $1, $2 }
             $1 == \"MemFree\" { free = $2 }
             $1 == \"count:\" { lists += $2 }
             END { print \"lists\", lists * page; print \"free\", free + lists * page }
         ' /proc/self/smaps /proc/meminfo /proc/zoneinfo")?;
    text.lines()
        .map(|line| {
            let (name, value) = line.split_once(' ').with_context(|| line.to_string())?;
            Ok((name.to_string(), value.parse()?))
        })
        .collect()
}

fn down_up(bench: &mut Bench<'_>) -> Result<()> {
    let down = format!("ip link set {IFACE} down");
    cycle(bench, &down, "true")
}

fn unbind_bind(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let device = bench.platform_device()?;
    let driver = format!("/sys/bus/platform/drivers/{}", bench.driver.module());
    let down = format!("echo {device} > {driver}/unbind");
    let up = format!("echo {device} > {driver}/bind");
    cycle_often(bench, &down, &up)
}

fn rmmod_insmod(bench: &mut Bench<'_>) -> Result<()> {
    let down = format!("rmmod {}", bench.driver.module());
    let up = net::load_script(bench.driver);
    cycle(bench, &down, &up)
}

/// With the module gone, no page pool waits for pages, and nobody refers to the device: else
/// `rmmod` would not return, and the kernel would complain after ten seconds.
fn no_leak(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let rmmod = format!("rmmod {}", bench.driver.module());
    bench.vm.ok_within(&rmmod, 9)?;
    net::wait_for_pools(bench.vm)?;
    bench.up()?;
    bench.ping(5, 56)
}
