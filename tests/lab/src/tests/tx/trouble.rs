// SPDX-License-Identifier: GPL-2.0
//! Transmission while the device is slow, stuck, or busy receiving.

use super::packet::{self, Fragment, Packet, Way};
use super::payload::header;
use crate::check::Bench;
use crate::net::{self, IFACE};
use crate::tests::badinput::inject;
use crate::tests::functional::{capture, same_frames, EXPERIMENT};
use crate::vm::{Machine, Net};
use crate::wire;
use anyhow::{ensure, Context, Result};
use serde_json::json;
use std::time::{Duration, Instant};

/// What the kernel says of a queue that is stuck.
const WATCHDOG: &str = "NETDEV WATCHDOG";

/// After what time a queue counts as stuck, in ms, where a test does not want to wait for long.
const SHORT: u32 = 500;

/// Runs `test` with properties of the device set, and sets them back.
fn with<T>(
    bench: &mut Bench<'_>,
    properties: &[(&str, &str, &str)],
    test: impl FnOnce(&mut Bench<'_>) -> Result<T>,
) -> Result<T> {
    for (name, value, _) in properties {
        bench.vm.set_property(name, *value)?;
    }
    let result = test(bench);
    for (name, _, value) in properties {
        bench.vm.set_property(name, *value)?;
    }
    result
}

/// Packets of several sizes in many layouts.
fn packets(count: usize) -> Vec<Packet> {
    (0..count)
        .map(|number| {
            Packet {
                seed: number as u8,
                align: (number % 4) as u8,
                ..Packet::new(header(&[], EXPERIMENT), 20 + number * 37 % 1480)
            }
            .split(14 + number % 5, number % 4)
        })
        .collect()
}

/// Frames in the order they were sent.
fn in_order(bench: &mut Bench<'_>) -> Result<()> {
    let script = format!("tc qdisc replace dev {IFACE} root pfifo limit 1000");
    bench.vm.ok(&script).map(drop)
}

/// The device gives back the parts of a frame one by one and late: no buffer may be freed before
/// the last.
pub(super) fn parts(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    in_order(bench)?;
    let slow = [
        ("tx-completion-ns", "200000", "0"),
        ("tx-part-ns", "2000000", "0"),
    ];
    with(bench, &slow, |bench| {
        // The device says nothing of a part. Frames that are received make the driver look in
        // between.
        let between = json!({ "len": 60, "type": EXPERIMENT, "count": 8000, "gap_ns": 300_000 });
        inject(bench, between)?;
        packet::exchange(bench, EXPERIMENT, &packets(300))
    })
}

/// A ring that is full most of the time: the queue is stopped and woken, the driver never gives a
/// packet back, and none is lost or changed.
pub(super) fn full(bench: &mut Bench<'_>) -> Result<()> {
    const COUNT: usize = 2000;
    bench.up()?;
    bench.vm.ok(&format!("ethtool -G {IFACE} tx 64"))?;
    bench.up()?;
    let stops = bench.statistic("tx_queue_0_stops").ok();
    // Slower than the guest can send, with all parts of a frame given back at different times.
    let slow = [
        ("tx-completion-ns", "1000000", "0"),
        ("tx-part-ns", "200000", "0"),
    ];
    let result = with(bench, &slow, |bench| {
        bench.wire()?.drain()?;
        let kinds: Vec<Packet> = packets(COUNT / 100)
            .into_iter()
            .map(|packet| Packet {
                way: Way::Shared,
                count: 100,
                ..packet
            })
            .collect();
        let result = packet::send(bench, &kinds, 60)?;
        ensure!(
            result.sent == COUNT as u64 && result.busy == 0 && result.changed == 0,
            "{result:?}"
        );
        let frames = packet::receive(bench, EXPERIMENT, COUNT)?;
        for (packet, frames) in kinds.iter().zip(frames.chunks(100)) {
            for frame in frames {
                packet::same(packet, frame)?;
            }
        }
        Ok(())
    });
    let stopped = match stops {
        Some(before) => Some(bench.statistic("tx_queue_0_stops")? - before),
        None => None,
    };
    bench.vm.ok(&format!("ethtool -G {IFACE} tx 256"))?;
    bench.up()?;
    result?;
    ensure!(
        stopped.is_none_or(|stopped| stopped > 0),
        "the queue was never stopped: the test tests nothing"
    );
    Ok(())
}

/// A machine whose every mapping is a copy, with room for fewer than the ring has slots.
pub(super) fn cramped(variant: &'static str) -> Machine {
    Machine {
        append: "swiotlb=512,force".to_string(),
        ..Machine::with(variant, Net::Frames)
    }
}

/// What mappings use, in units of the kernel's.
fn mapped(bench: &mut Bench<'_>) -> Result<u64> {
    let text = bench.vm.ok("cat /sys/kernel/debug/swiotlb/io_tlb_used")?;
    text.trim().parse().context("no number")
}

/// A packet that cannot be mapped, all or only some of its pieces, is dropped and counted, and not
/// given back; what was mapped of it is not any more. All others are sent as they are.
pub(super) fn unmapped(bench: &mut Bench<'_>) -> Result<()> {
    const COUNT: u32 = 1000;
    bench.load()?;
    // Few buffers to receive, many slots to send from.
    bench.vm.ok(&format!("ethtool -G {IFACE} rx 64 tx 1024"))?;
    bench.up()?;
    bench.expected.push("swiotlb buffer is full");
    let before = mapped(bench)?;
    // Fragments of what is mapped. Fives do not divide what there is room for, so that one packet
    // is mapped in part.
    for fragments in [0, 1, 5, 6] {
        bench.wire()?.drain()?;
        let dropped = bench.counter("tx_dropped")?;
        let fragment = Fragment {
            length: 200,
            offset: 2,
        };
        let packet = Packet {
            way: Way::Shared,
            count: COUNT,
            fragments: vec![fragment; fragments],
            ..Packet::new(
                header(&[], EXPERIMENT),
                if fragments == 0 { 1500 } else { 14 },
            )
        };
        // All are under way at a time.
        let slow = [("tx-completion-ns", "500000000", "0")];
        let result = with(bench, &slow, |bench| {
            packet::send(bench, std::slice::from_ref(&packet), 60)
        })?;
        ensure!(
            result.sent == u64::from(COUNT) && result.busy == 0 && result.changed == 0,
            "{result:?}"
        );
        let dropped = bench.counter("tx_dropped")? - dropped;
        ensure!(
            (1..u64::from(COUNT)).contains(&dropped),
            "{dropped} of {COUNT} packets in {fragments} fragments were dropped: the test tests \
             nothing"
        );
        let frames = packet::receive(bench, EXPERIMENT, (u64::from(COUNT) - dropped) as usize)?;
        for frame in &frames {
            packet::same(&packet, frame)?;
        }
        let after = mapped(bench)?;
        ensure!(
            after == before,
            "{fragments} fragments: {before} were mapped before, {after} after it"
        );
    }
    works(bench, false)
}

/// The frame is sent and given back before the write to the doorbell returns.
pub(super) fn at_once(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    in_order(bench)?;
    with(bench, &[("tx-at-once", "on", "off")], |bench| {
        packet::exchange(bench, EXPERIMENT, &packets(500))?;
        let burst = Packet {
            way: Way::Shared,
            count: 1000,
            ..Packet::new(header(&[], EXPERIMENT), 200)
        };
        let result = packet::send(bench, std::slice::from_ref(&burst), 30)?;
        ensure!(
            result.sent == 1000 && result.busy == 0 && result.changed == 0,
            "{result:?}"
        );
        packet::receive(bench, EXPERIMENT, 1000).map(drop)
    })
}

/// Received frames for `seconds` seconds, more than the guest can take.
fn flood(bench: &mut Bench<'_>, seconds: f64) -> Result<()> {
    const TURN: u64 = 5000;
    const GAP_NS: u64 = 20_000;
    let end = Instant::now() + Duration::from_secs_f64(seconds);
    while Instant::now() < end {
        inject(
            bench,
            json!({ "len": 60, "type": EXPERIMENT, "count": TURN, "gap_ns": GAP_NS }),
        )?;
        std::thread::sleep(Duration::from_nanos(TURN * GAP_NS));
    }
    Ok(())
}

/// Many frames in a row, each when the one before has been given back.
fn alone(count: u32) -> Packet {
    Packet {
        way: Way::Alone,
        count,
        ..Packet::new(header(&[], EXPERIMENT), 60)
    }
}

/// Each of many single frames is sent by its own doorbell: none waits for the next one.
pub(super) fn single(bench: &mut Bench<'_>) -> Result<()> {
    singles(bench, 2000)
}

pub(super) fn many_single(bench: &mut Bench<'_>) -> Result<()> {
    singles(bench, 100_000)
}

fn singles(bench: &mut Bench<'_>, count: u32) -> Result<()> {
    const TURN: u32 = 1000;
    bench.up()?;
    bench.wire()?.drain()?;
    for _ in 0..count / TURN {
        // Frames that are never given back fail it.
        let result = packet::send(bench, &[alone(TURN)], 60)?;
        ensure!(
            result.sent == u64::from(TURN) && result.slowest < Duration::from_secs(1),
            "{result:?}"
        );
        packet::receive(bench, EXPERIMENT, TURN as usize)?;
    }
    Ok(())
}

/// While more is received than one poll can take, sent frames are still given back.
pub(super) fn starvation(bench: &mut Bench<'_>) -> Result<()> {
    /// As many as a poll takes, so that it is never done.
    const WAITING: u64 = 64;
    bench.up()?;
    bench.wire()?.drain()?;
    packet::load(bench)?;
    let before = bench.counter("rx_packets")?;
    let start = Instant::now();
    // As many frames as the link can carry, ahead of what is sent.
    for _ in 0..4 {
        inject(
            bench,
            json!({ "len": 60, "type": EXPERIMENT, "count": 8000 }),
        )?;
    }
    let result = packet::send(bench, &[alone(200)], 60)?;
    flood(bench, 0.1)?;
    let received = bench.counter("rx_packets")? - before;
    ensure!(
        received > 10 * WAITING,
        "only {received} frames were received meanwhile: the test tests nothing"
    );
    ensure!(
        result.sent == 200 && result.slowest < Duration::from_secs(1),
        "{result:?}, {received} frames received in {:?}",
        start.elapsed()
    );
    packet::receive(bench, EXPERIMENT, 200).map(drop)
}

/// More to send than queues and sockets hold, for as long as `/run/chatter` exists, with pauses
/// that leave the guest time for other things.
fn chatter(bench: &mut Bench<'_>) -> Result<()> {
    const SENDERS: usize = 2;
    const BURST: usize = 100;
    let bytes = "x".repeat(1000);
    bench.vm.ok(&format!(
        "touch /run/chatter
         for i in $(seq {SENDERS}); do
             bash -c 'while [ -e /run/chatter ]; do
                 exec 3> /dev/udp/{}/9
                 for ((i = 0; i < {BURST}; i++)); do echo {bytes} >&3 || break; done
                 sleep 0.1
             done' > /dev/null 2>&1 &
         done",
        net::GATEWAY
    ))?;
    Ok(())
}

fn quiet(bench: &mut Bench<'_>) -> Result<()> {
    bench.vm.ok("rm -f /run/chatter; sleep 0.5").map(drop)
}

/// Makes the watchdog bite after `ms` milliseconds.
pub(in crate::tests) fn set_watchdog(bench: &mut Bench<'_>, ms: u32) -> Result<()> {
    packet::load(bench)?;
    let parameter = "/sys/module/lab_tx/parameters/watchdog_ms";
    bench.vm.ok(&format!("echo {ms} > {parameter}"))?;
    // It takes effect with the next packet: one that no test looks for.
    const OTHER: u16 = 0x88b6;
    packet::send(bench, &[Packet::new(header(&[], OTHER), 60)], 20)?;
    Ok(())
}

/// Waits until the kernel has said since `mark` that a queue is stuck. A time that
/// was set counts from the end of the one before, which is five seconds.
fn wait_for_watchdog(bench: &mut Bench<'_>, mark: u64) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(20);
    while !bench.vm.console_since(mark).contains(WATCHDOG) {
        ensure!(Instant::now() < end, "no queue was ever stuck");
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// How often the carrier was lost.
fn carrier_changes(bench: &mut Bench<'_>) -> Result<String> {
    let script = format!("cat /sys/class/net/{IFACE}/carrier_changes");
    bench.vm.ok(&script)
}

/// Transmission works as ever, and so does reception, of foreign frames if the interface is
/// promiscuous.
fn works(bench: &mut Bench<'_>, promiscuous: bool) -> Result<()> {
    net::wait_for_link(bench.vm)?;
    in_order(bench)?;
    packet::exchange(bench, EXPERIMENT, &packets(50))?;
    let mut other = bench.mac()?;
    other[5] ^= 0x55;
    let frames = [wire::frame(other, EXPERIMENT, 300, 1)];
    let got = capture(bench, &frames, false)?;
    let expected: &[Vec<u8>] = if promiscuous { &frames } else { &[] };
    same_frames(expected, &got)
}

/// The device does not finish a frame for a while, under reception, and then it does: the link
/// stays, nothing is freed that the device can reach, and afterwards all is as before.
fn stuck_for(bench: &mut Bench<'_>, seconds: f64) -> Result<()> {
    bench.up()?;
    bench.expected.push(WATCHDOG);
    bench.vm.ok(&format!("ip link set {IFACE} promisc on"))?;
    let mark = bench.vm.console_mark("stuck")?;
    chatter(bench)?;
    let carrier = carrier_changes(bench)?;
    let held = with(bench, &[("tx-hold", "on", "off")], |bench| {
        wait_for_watchdog(bench, mark)?;
        flood(bench, seconds)
    });
    quiet(bench)?;
    held?;
    let result = works(bench, true);
    bench.vm.ok(&format!("ip link set {IFACE} promisc off"))?;
    result?;
    let now = carrier_changes(bench)?;
    ensure!(carrier == now, "the carrier changed: {carrier} to {now}");
    works(bench, false)
}

pub(super) fn stuck(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    set_watchdog(bench, SHORT)?;
    stuck_for(bench, 2.0)
}

/// With the kernel's own idea of how long is too long.
pub(super) fn stuck_long(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    set_watchdog(bench, 5000)?;
    stuck_for(bench, 12.0)
}

/// As soon as a queue counts as stuck, the guest runs `script`.
fn stuck_and(bench: &mut Bench<'_>, script: &str) -> Result<()> {
    bench.up()?;
    bench.expected.push(WATCHDOG);
    set_watchdog(bench, SHORT)?;
    chatter(bench)?;
    let mark = bench.vm.console_mark("stuck")?;
    let result = with(bench, &[("tx-hold", "on", "off")], |bench| {
        wait_for_watchdog(bench, mark)?;
        bench.vm.ok(script).map(drop)
    });
    quiet(bench)?;
    result.with_context(|| script.to_string())
}

/// The device is unbound while recovery is due or under way.
pub(super) fn stuck_unbind(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let device = bench.platform_device()?;
    let driver = format!("/sys/bus/platform/drivers/{}", bench.driver.module());
    for _ in 0..bench.cycles.div_ceil(20) {
        stuck_and(bench, &format!("echo {device} > {driver}/unbind"))?;
        bench.vm.ok(&format!("echo {device} > {driver}/bind"))?;
        bench.up()?;
    }
    works(bench, false)
}

/// What rebuilds or uses the rings meets the recovery that does the same.
pub(super) fn stuck_and_changed(bench: &mut Bench<'_>) -> Result<()> {
    let scripts = [
        format!("ip link set {IFACE} down; ip link set {IFACE} up"),
        format!("ethtool -G {IFACE} tx 128; ethtool -G {IFACE} tx 256"),
        format!("ip link set {IFACE} mtu 1000; ip link set {IFACE} mtu 1500"),
    ];
    for script in &scripts {
        for times in 0..bench.cycles.div_ceil(20) {
            stuck_and(
                bench,
                &format!("for i in $(seq {}); do {script}; done", times + 1),
            )?;
        }
    }
    bench.up()?;
    works(bench, false)
}

/// The mode changes late: no doorbell rings before the device is in OPERATION, which the model
/// watches over.
pub(super) fn late_mode(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    chatter(bench)?;
    let address = bench.up_script();
    with(bench, &[("mode-change-delay", "20", "0")], |bench| {
        for _ in 0..bench.cycles.div_ceil(10) {
            bench
                .vm
                .ok(&format!("ip link set {IFACE} down\n{address}"))?;
            net::wait_for_link(bench.vm)?;
            bench.vm.ok("sleep 0.1")?;
        }
        Ok(())
    })?;
    quiet(bench)?;
    works(bench, false)
}
