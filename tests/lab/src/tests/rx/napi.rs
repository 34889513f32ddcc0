// SPDX-License-Identifier: GPL-2.0
//! The queue as the network core drives it: budgets, deferred interrupts, busy polling, its own
//! thread; and the page pool as the core shows it.

use super::checksum::{datagram, for_the_guest, last_datagram, PORT};
use super::trace::Trace;
use super::{heard, listen, netdev, ring, statistics, wait_until_empty, Deferral};
use crate::check::Bench;
use crate::net::{self, IFACE};
use crate::steps::kernel::Flavour;
use crate::tests::badinput::inject;
use crate::tests::functional::EXPERIMENT;
use anyhow::{bail, ensure, Context, Result};
use serde_json::{json, Value};
use std::time::{Duration, Instant};

/// Rising edges of all interrupt lines.
fn edges(bench: &mut Bench<'_>) -> Result<u64> {
    let counters = bench.vm.property("counters")?;
    let lines = counters["irq_edges"].as_array().context("no interrupts")?;
    Ok(lines.iter().filter_map(Value::as_u64).sum())
}

/// Frames that the device has stored, and that the driver has received.
fn stored_and_received(bench: &mut Bench<'_>) -> Result<(u64, u64)> {
    let counters = bench.vm.property("counters")?;
    let stored = counters["frames"]["rx0"].as_u64().unwrap_or(0);
    Ok((
        stored,
        statistics(bench, &["rx_packets"], &[])?["rx_packets"],
    ))
}

/// No poll returns more than its budget, which counts packets: not their parts, and not what is
/// dropped. Good frames of five parts come between bad ones.
pub(super) fn budget(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    bench.vm.set_property("deliver-errors", "on")?;
    let (_, before) = stored_and_received(bench)?;
    let trace = Trace::start(bench, "")?;
    for _ in 0..20 {
        inject(
            bench,
            json!({ "len": 7500, "type": EXPERIMENT, "count": 25 }),
        )?;
        inject(bench, json!({ "len": 100, "bad_fcs": true, "count": 25 }))?;
        inject(bench, json!({ "len": 7500, "bad_fcs": true, "count": 5 }))?;
        inject(bench, json!({ "len": 60, "type": EXPERIMENT, "count": 25 }))?;
    }
    wait_until_empty(bench, "rx0")?;
    bench.vm.ok("sleep 0.2")?;
    let polls = trace.stop(bench)?;
    bench.vm.set_property("deliver-errors", "off")?;
    let (_, after) = stored_and_received(bench)?;
    if let Some(poll) = polls.iter().find(|poll| poll.work > poll.budget) {
        bail!(
            "a poll with a budget of {} returned {}",
            poll.budget,
            poll.work
        );
    }
    let work: u64 = polls.iter().map(|poll| poll.work).sum();
    ensure!(
        work == after - before && work > 0,
        "polls returned {work} in all, {} packets were received",
        after - before
    );
    Ok(())
}

/// With deferred interrupts, frames that follow each other closely need far fewer, and none is
/// forgotten.
pub(super) fn deferral(bench: &mut Bench<'_>) -> Result<()> {
    const COUNT: u64 = 1000;
    bench.up()?;
    let frames = json!({ "len": 60, "type": EXPERIMENT, "count": COUNT, "gap_ns": 1_000_000 });
    let mut counts = Vec::new();
    for (count, time) in [(0, 0), (20, 5_000_000)] {
        let deferral = Deferral::set(bench, count, Duration::from_nanos(time))?;
        let (edges_before, (_, before)) = (edges(bench)?, stored_and_received(bench)?);
        inject(bench, frames.clone())?;
        bench.vm.ok("sleep 1.5")?;
        wait_until_empty(bench, "rx0")?;
        let (_, after) = stored_and_received(bench)?;
        counts.push(edges(bench)? - edges_before);
        deferral.undo(bench)?;
        ensure!(
            after - before == COUNT,
            "{} of {COUNT} frames received",
            after - before
        );
    }
    ensure!(
        4 * counts[1] < counts[0],
        "{} interrupts without deferral, {} with it",
        counts[0],
        counts[1]
    );
    Ok(())
}

/// A socket that polls the queue by itself gets everything, with a budget of its own; where it
/// asks for that, without interrupts.
pub(super) fn busy_poll(bench: &mut Bench<'_>) -> Result<()> {
    const BUDGET: u64 = 8;
    const COUNT: u32 = 400;
    bench.up()?;
    let id = napi_id(bench)?;
    let deferral = Deferral::set(bench, 100, Duration::from_millis(20))?;
    listen(
        bench,
        &format!("/lab/collect {PORT} 10000 {BUDGET}"),
        "/tmp/collect",
    )?;
    let addresses = for_the_guest(bench)?;
    let trace = Trace::start(bench, "work > 0")?;
    let first = edges(bench)?;
    for seed in 0..COUNT {
        let frame = datagram(&addresses, 200 + seed as usize, seed);
        bench.wire()?.send(&frame)?;
        std::thread::sleep(Duration::from_millis(1));
    }
    wait_until_empty(bench, "rx0")?;
    bench.wire()?.send(&last_datagram(&addresses))?;
    let mut got = heard(bench, "/tmp/collect")?;
    let edges = edges(bench)? - first;
    let polls = trace.stop(bench)?;
    deferral.undo(bench)?;
    let told = got.pop().unwrap_or_default();
    ensure!(
        told == format!("napi {id}"),
        "{told:?}, but the queue's is {id}"
    );
    ensure!(
        got.len() == COUNT as usize,
        "{} of {COUNT} arrived",
        got.len()
    );
    let busy = polls.iter().filter(|poll| poll.budget == BUDGET);
    let work: u64 = busy.map(|poll| poll.work).sum();
    ensure!(
        2 * work > u64::from(COUNT),
        "only {work} of {COUNT} datagrams came by busy polling"
    );
    ensure!(
        edges < u64::from(COUNT) / 2,
        "{edges} interrupts for {COUNT} datagrams"
    );
    Ok(())
}

/// A hundred frames far apart arrive.
fn all_arrive(bench: &mut Bench<'_>) -> Result<()> {
    const COUNT: u64 = 100;
    let (_, before) = stored_and_received(bench)?;
    let frames = json!({ "len": 60, "type": EXPERIMENT, "count": COUNT, "gap_ns": 2_000_000 });
    inject(bench, frames)?;
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let received = stored_and_received(bench)?.1 - before;
        if received == COUNT {
            return Ok(());
        }
        ensure!(
            Instant::now() < end,
            "{received} of {COUNT} frames received"
        );
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Without anybody's doing, GbEth defers its interrupts, except where they are threads anyhow, and
/// is polled in a thread where it has one processor; both can be switched off, and frames arrive.
pub(super) fn defaults(bench: &mut Bench<'_>) -> Result<()> {
    let module = bench.driver.module();
    bench.vm.ok(&format!("rmmod {module} 2> /dev/null; true"))?;
    bench.up()?;
    let gbeth = bench.vm.property("variant")? == "gbeth";
    let script = format!("cd /sys/class/net/{IFACE}; cat gro_flush_timeout napi_defer_hard_irqs");
    let deferral = bench.vm.ok(&script)?;
    let deferral: Vec<&str> = deferral.split_whitespace().collect();
    let threads = bench.machine.kernel == Flavour::Realtime;
    let expected = if gbeth && !threads {
        ["20000", "1"]
    } else {
        ["0", "0"]
    };
    ensure!(
        deferral == expected,
        "interrupts are deferred by {deferral:?}, not {expected:?}"
    );
    let threaded = bench
        .vm
        .ok(&format!("cat /sys/class/net/{IFACE}/threaded"))?;
    let expected = if gbeth && bench.machine.cpus == 1 {
        "1"
    } else {
        "0"
    };
    ensure!(
        threaded.trim() == expected,
        "threaded is {threaded}, not {expected}"
    );
    all_arrive(bench)?;
    bench.vm.ok(&format!(
        "cd /sys/class/net/{IFACE} || exit 1
         echo 0 > napi_defer_hard_irqs; echo 0 > gro_flush_timeout; echo 0 > threaded
         [ \"$(cat napi_defer_hard_irqs gro_flush_timeout threaded | tr -d '\\n')\" = 000 ]"
    ))?;
    all_arrive(bench)?;
    // The defaults again, for whoever comes next.
    bench.vm.ok(&format!("rmmod {module}"))?;
    bench.up()
}

/// A socket that takes what comes and counts it, until nothing comes for two seconds.
const SINK: &str = "python3 -IS -c '
import _socket as socket
s = socket.socket(2, 2)
s.bind((\"\", PORT))
print(\"listening\", flush=True)
s.settimeout(60)
n = 0
try:
    while s.recv(2048):
        n += 1
        s.settimeout(2)
except OSError:
    print(n)'";

/// More datagrams than the guest can take, for ten seconds: a process goes on, and so does the one
/// that they are for; what the device stored is received, and nothing stalls.
pub(super) fn flood(bench: &mut Bench<'_>) -> Result<()> {
    const SECONDS: u64 = 10;
    const GAP_NS: u64 = 20_000;
    bench.up()?;
    let sink = SINK.replace("PORT", &PORT.to_string());
    listen(bench, &sink, "/tmp/sink")?;
    bench.vm.ok("rm -f /tmp/beats
         (while sleep 0.1; do echo >> /tmp/beats; done) > /dev/null 2>&1 &
         echo $! > /tmp/beats.pid")?;
    let before = stored_and_received(bench)?;
    let frame = datagram(&for_the_guest(bench)?, 60, 1);
    let hex: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
    inject(
        bench,
        json!({ "hex": hex, "count": SECONDS * 1_000_000_000 / GAP_NS, "gap_ns": GAP_NS }),
    )?;
    let beats = bench.vm.ok_within(
        &format!("sleep {SECONDS}; wc -l < /tmp/beats; kill $(cat /tmp/beats.pid)"),
        60,
    )?;
    wait_until_empty(bench, "rx0")?;
    let taken = heard(bench, "/tmp/sink")?;
    let after = stored_and_received(bench)?;
    let (stored, received) = (after.0 - before.0, after.1 - before.1);
    let number = |text: &str| text.trim().parse::<u64>().ok();
    let beats = number(&beats).context("no beats")?;
    let taken = taken.first().and_then(|line| number(line));
    let taken = taken.context("the socket has no count")?;
    ensure!(
        beats > 2 * SECONDS,
        "a process was run {beats} times in {SECONDS} seconds"
    );
    ensure!(
        stored == received && taken > 200 * SECONDS,
        "the device stored {stored} datagrams, {received} were received, {taken} reached the socket"
    );
    Ok(())
}

/// The queue gets a thread of its own and loses it again, up and down and under traffic: no frame
/// is forgotten, and nothing waits for ever.
pub(super) fn threaded(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let before = stored_and_received(bench)?;
    let frames = json!({ "len": 300, "type": EXPERIMENT, "count": 8000, "gap_ns": 500_000 });
    inject(bench, frames)?;
    let threaded = format!("/sys/class/net/{IFACE}/threaded");
    bench.vm.ok(&format!(
        "was=$(cat {threaded})
         for i in $(seq 15); do
             echo 1 > {threaded} || exit 1
             ps | grep -q '[n]api/{IFACE}' || {{ echo 'no thread'; exit 1; }}
             sleep 0.1
             echo 0 > {threaded} || exit 1
             sleep 0.1
         done
         echo $was > {threaded}; sleep 2"
    ))?;
    wait_until_empty(bench, "rx0")?;
    let after = stored_and_received(bench)?;
    let (stored, received) = (after.0 - before.0, after.1 - before.1);
    ensure!(
        stored == received && stored > 4000,
        "the device stored {stored} frames, {received} were received"
    );
    // An interface that is down may refuse, but must not wait for ever, as the stock driver does.
    bench.vm.ok(&format!(
        "ip link set {IFACE} down
         for i in 1 0 1 0; do
             timeout 5 sh -c \"echo $i > {threaded}\"; [ $? -lt 2 ] || exit 1
         done"
    ))?;
    bench.up()
}

/// Sockets that keep what arrives.
const HOLD: &str = "python3 -IS -c '
import _socket as socket, time
s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
s.setsockopt(1, 33, 64 << 20)
s.bind((\"eth0\", 3))
print(\"listening\", flush=True)
time.sleep(600)'";

/// The NAPI context of the first queue, which both of its directions name.
fn napi_id(bench: &mut Bench<'_>) -> Result<u64> {
    let queues = netdev(bench, "queues")?;
    let first = queues
        .iter()
        .filter(|queue| queue.get("id").ok() == Some(0));
    let named: Vec<u64> = first
        .map(|queue| queue.get("napi-id"))
        .collect::<Result<_>>()?;
    let [rx, tx] = named[..] else {
        bail!("the first queue has {} directions", named.len());
    };
    let napis = netdev(bench, "napis")?;
    let exists = napis.iter().any(|napi| napi.get("id").ok() == Some(rx));
    ensure!(exists && rx == tx, "a queue names no NAPI context");
    Ok(rx)
}

/// The core shows the page pool of the queue; buffers return to it without detours; those that a
/// socket holds when the module goes come back later; then nothing is left.
pub(super) fn pools(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let size = ring(bench, "rx0")?.len() as u64;
    let napi = napi_id(bench)?;
    let pools = netdev(bench, "pools")?;
    let pool = pools
        .iter()
        .find(|pool| pool.get("napi-id").ok() == Some(napi))
        .context("no page pool with the queue's NAPI context")?;
    // Two buffers in a page, and what the pool keeps at hand.
    let inflight = pool.get("inflight")?;
    ensure!(
        (1..=size + 64).contains(&inflight),
        "{inflight} pages are out for {size} slots"
    );
    let id = pool.get("id")?;
    let statistic = |bench: &mut Bench<'_>, name: &str| -> Result<u64> {
        let pools = netdev(bench, "pool-stats")?;
        let pool = pools.iter().find(|pool| pool.get("id").ok() == Some(id));
        pool.context("no statistics of the pool")?.get(name)
    };

    // Frames that the stack drops in the poll: their pages need neither the pool's shared ring nor
    // the page allocator.
    const COUNT: u64 = 5000;
    let mut before = Vec::new();
    let names = ["recycle-ring", "alloc-slow", "recycle-released-refcnt"];
    for name in names {
        before.push(statistic(bench, name)?);
    }
    let frames = json!({ "len": 1000, "type": EXPERIMENT, "count": COUNT, "gap_ns": 100_000 });
    inject(bench, frames)?;
    bench.vm.ok("sleep 1")?;
    wait_until_empty(bench, "rx0")?;
    for (name, old) in names.iter().zip(before) {
        let rise = statistic(bench, name)? - old;
        ensure!(
            rise < COUNT / 20,
            "{name} rose by {rise} over {COUNT} frames"
        );
    }

    listen(bench, HOLD, "/tmp/hold")?;
    let frames = json!({ "len": 1000, "type": EXPERIMENT, "count": 500 });
    inject(bench, frames)?;
    wait_until_empty(bench, "rx0")?;
    let module = bench.driver.module();
    bench.vm.ok(&format!("rmmod {module}"))?;
    let left = netdev(bench, "pools")?;
    // Half of what frames in buffers of 2 KiB take, since the first come from pages in use.
    let page: u64 = bench
        .vm
        .ok("awk '/KernelPageSize/ { print $2; exit }' /proc/self/smaps")?
        .trim()
        .parse()?;
    let held = left.iter().any(|pool| {
        let inflight = pool.get("inflight").unwrap_or(0);
        inflight > 500 / page && pool.get("detach-time").is_ok()
    });
    bench.vm.ok("kill $(cat /tmp/hold.pid)")?;
    ensure!(held, "no pool waits for the pages of 500 frames");
    net::wait_for_pools(bench.vm)?;
    bench.up()?;
    let size = size as usize;
    inject(
        bench,
        json!({ "len": 1000, "type": EXPERIMENT, "count": 100 }),
    )?;
    super::ring::intact(bench, "rx0", size)
}

/// How long no page can be allocated from interrupts, in seconds.
const OUTAGE: u64 = 5;

/// For five seconds no memory is to be had where frames are received, while a socket keeps every
/// frame and nothing is sent: reception is back within a second of the end, and the queue's
/// statistics tell what happened.
pub(super) fn outage(bench: &mut Bench<'_>) -> Result<()> {
    const GAP_NS: u64 = 2_000_000;
    // It wants memory, too, and gives up.
    bench.expected.push("dma-debug disabled");
    bench.up()?;
    let size = ring(bench, "rx0")?.len();
    let before = super::queue_statistic(bench, 0, "rx-alloc-fail")?;
    bench.vm.ok(&format!(
        "ethtool --set-tunable {IFACE} rx-copybreak 0 || true"
    ))?;
    listen(
        bench,
        &HOLD
            .replace("socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)", "2, 2")
            .replace("(\"eth0\", 3)", &format!("(\"\", {PORT})")),
        "/tmp/hold",
    )?;
    // Of five parts, so that it is buffers that run out.
    let frame = datagram(&for_the_guest(bench)?, 7900, 1);
    let hex: String = frame.iter().map(|byte| format!("{byte:02x}")).collect();
    let count = (OUTAGE + 20) * 1_000_000_000 / GAP_NS;
    inject(
        bench,
        json!({ "hex": hex, "count": count, "gap_ns": GAP_NS }),
    )?;
    let text = bench.vm.ok_within(
        &format!(
            "received() {{ read -r n < /sys/class/net/{IFACE}/statistics/rx_packets; echo $n; }}
             cd /sys/kernel/debug/fail_page_alloc || exit 1
             echo 0 > min-order; echo 0 > verbose; echo 1 > interval; echo -1 > times
             echo Y > ignore-gfp-wait
             received; sleep 1; received
             echo 100 > probability; sleep $(({OUTAGE} - 1)); received; sleep 1; received
             echo 0 > probability; sleep 1; received"
        ),
        60,
    )?;
    bench.vm.ok("kill $(cat /tmp/hold.pid)")?;
    let seen: Vec<u64> = text.lines().filter_map(|line| line.parse().ok()).collect();
    let [first, start, during, end, after] = seen[..] else {
        bail!("{text:?} are not five counts");
    };
    let rises = [start - first, end - during, after - end];
    ensure!(
        rises[0] > 50,
        "only {} frames in a second before it",
        rises[0]
    );
    ensure!(
        rises[1] == 0,
        "{} frames in the outage's last second",
        rises[1]
    );
    ensure!(
        4 * rises[2] > rises[0],
        "{} frames in the second after it, {} before",
        rises[2],
        rises[0]
    );
    let failed = super::queue_statistic(bench, 0, "rx-alloc-fail")? - before;
    ensure!(failed > 0, "the queue counts no failed allocation");
    super::ring::intact(bench, "rx0", size)
}
