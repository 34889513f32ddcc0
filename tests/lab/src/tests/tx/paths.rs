// SPDX-License-Identifier: GPL-2.0
//! The ways by which packets come to the driver: TCP and UDP, sendfile, netconsole, VLANs, bridge,
//! forwarding; and what the kernel is told of packets that were sent.

use super::packet::{self, Packet, Way};
use super::payload::{header, longest};
use crate::check::Bench;
use crate::net::{self, Direction, Iperf, ADDRESS, GATEWAY, IFACE};
use crate::tests::functional::{passed, EXPERIMENT};
use crate::wire::LAB_MAC;
use anyhow::{ensure, Context, Result};
use std::time::{Duration, Instant};

/// Slower is broken, in Mbit/s.
const SLOW: f64 = 0.5;

/// TCP and UDP out, in and both at once, copied and with sendfile; what the driver counts is what
/// the device has sent.
pub(super) fn iperf(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let iperf = Iperf::start(&bench.parts.root)?;
    // Device and driver are not asked at the same time: nothing may be sent in between.
    let mut before = passed(bench)?[1];
    loop {
        bench.vm.ok("sleep 0.5")?;
        let now = passed(bench)?[1];
        if now == before {
            break;
        }
        before = now;
    }
    for more in ["", "--zerocopy", "--bidir", "--reverse"] {
        let script = format!(
            "{} --json > /tmp/iperf || {{ cat /tmp/iperf; exit 1; }}
             grep -o '\"bits_per_second\":[^,]*' /tmp/iperf | tail -n 1 | cut -d: -f2",
            iperf.client(Direction::Transmit, 2, more)
        );
        let text = bench
            .vm
            .ok_within(&script, 40)
            .with_context(|| format!("iperf3 {more}"))?;
        let rate: f64 = text
            .trim()
            .parse()
            .with_context(|| format!("iperf3 printed {text:?}"))?;
        ensure!(rate > SLOW * 1e6, "iperf3 {more}: {rate} bit/s");
    }
    let udp = iperf.udp(bench.vm, Direction::Transmit, 2, 20)?;
    ensure!(udp.mbps > SLOW, "UDP: {:.1} Mbit/s", udp.mbps);
    // The last frame may still be on its way back when the host is busy.
    let deadline = Instant::now() + Duration::from_secs(10);
    let (device, driver) = loop {
        bench.vm.ok("sleep 0.5")?;
        let after = passed(bench)?[1];
        let counts = (after.0 - before.0, after.1 - before.1);
        if counts.0 == counts.1 || Instant::now() > deadline {
            break counts;
        }
    };
    ensure!(
        device == driver && device > 0,
        "the device counts {device} frames sent, the driver {driver}"
    );
    Ok(())
}

/// Where the kernel's events are.
const TRACING: &str = "/sys/kernel/tracing";

/// Counts events while `action` runs.
pub(super) fn events(
    bench: &mut Bench<'_>,
    event: &str,
    filter: &str,
    action: impl FnOnce(&mut Bench<'_>) -> Result<()>,
) -> Result<u64> {
    bench.vm.ok(&format!(
        "cd {TRACING} && echo > trace && echo '{filter}' > events/{event}/filter &&
         echo 1 > events/{event}/enable && echo 1 > tracing_on"
    ))?;
    let result = action(bench);
    let name = event.rsplit('/').next().unwrap_or(event);
    let text = bench.vm.ok(&format!(
        "cd {TRACING}; echo 0 > events/{event}/enable; echo 0 > events/{event}/filter
         grep -c ' {name}: ' trace || true"
    ))?;
    result?;
    text.trim()
        .parse()
        .with_context(|| format!("{text:?} is no number"))
}

/// What was sent is consumed, not dropped: nothing of it is reported as lost. What is too long is
/// dropped, and reported.
pub(super) fn consumed(bench: &mut Bench<'_>) -> Result<()> {
    const COUNT: u32 = 200;
    bench.up()?;
    packet::load(bench)?;
    // One that drops nothing, however slow the host is; the default one does after 100 ms.
    bench.vm.ok(&format!(
        "tc qdisc replace dev {IFACE} root pfifo limit 2000"
    ))?;
    let ours = format!("protocol == {EXPERIMENT:#x}");
    let packets: Vec<Packet> = [60, 300, 1500]
        .map(|length| Packet {
            count: COUNT,
            ..Packet::new(header(&[], EXPERIMENT), length).split(14, length / 150)
        })
        .to_vec();
    let dropped = events(bench, "skb/kfree_skb", &ours, |bench| {
        packet::send(bench, &packets, 30).map(drop)
    })?;
    ensure!(
        dropped == 0,
        "{dropped} packets that were sent count as lost"
    );
    let long = [Packet::new(header(&[], EXPERIMENT), 3000)];
    let dropped = events(bench, "skb/kfree_skb", &ours, |bench| {
        packet::send(bench, &long, 30).map(drop)
    })?;
    ensure!(
        dropped == 1,
        "a packet that is too long was reported {dropped} times"
    );
    Ok(())
}

/// The kernel's log goes out through netpoll, which reclaims with a budget of 0: every line
/// arrives, in order, although there are more than the ring holds.
pub(super) fn netconsole(bench: &mut Bench<'_>) -> Result<()> {
    const LINES: usize = 300;
    bench.up()?;
    bench.vm.ok(&format!("ethtool -G {IFACE} tx 64"))?;
    bench.up()?;
    bench.wire()?.drain()?;
    let mac = LAB_MAC.map(|byte| format!("{byte:02x}")).join(":");
    let address = ADDRESS.split('/').next().unwrap_or(ADDRESS);
    let polls = events(bench, "napi/napi_poll", "budget == 0", |bench| {
        bench
            .vm
            .ok_within(
                &format!(
                    "echo on > /proc/sys/kernel/printk_devkmsg
                     from=6665@{address}/{IFACE} to=6666@{GATEWAY}/{mac}
                     modprobe netconsole netconsole=$from,$to || exit 1
                     for i in $(seq {LINES}); do
                         echo \"<5>netconsole line $i of the test\" > /dev/kmsg
                     done
                     sleep 1"
                ),
                60,
            )
            .map(drop)
    });
    let mut next = 1;
    let end = Instant::now() + Duration::from_secs(10);
    while next <= LINES && Instant::now() < end {
        let wanted = format!("netconsole line {next} of the test");
        let found = bench.wire()?.expect(Duration::from_secs(2), |frame| {
            String::from_utf8_lossy(frame).contains("netconsole line")
        })?;
        let Some(frame) = found else { break };
        ensure!(
            String::from_utf8_lossy(&frame).contains(&wanted),
            "not {wanted:?} but {:?}",
            String::from_utf8_lossy(&frame)
        );
        next += 1;
    }
    bench.vm.ok(&format!(
        "rmmod netconsole; ethtool -G {IFACE} tx 256
         echo ratelimit > /proc/sys/kernel/printk_devkmsg"
    ))?;
    bench.up()?;
    ensure!(next > LINES, "line {next} of {LINES} did not come");
    println!("\n  {} polls without a budget", polls?);
    Ok(())
}

/// A PTP master with software timestamps tells the network when its messages left, which it can
/// only if the driver took the time.
pub(super) fn software_timestamps(bench: &mut Bench<'_>) -> Result<()> {
    const FOLLOW_UP: u8 = 8;
    const COUNT: usize = 3;
    bench.up()?;
    bench.wire()?.drain()?;
    bench.vm.ok(&format!(
        "ptp4l -S -2 -i {IFACE} -m --serverOnly=1 --announceReceiptTimeout=2 \
             --logAnnounceInterval=-2 --logSyncInterval=-3 --tx_timestamp_timeout=50 \
             > /tmp/ptp4l 2>&1 &
         echo $! > /tmp/ptp4l.pid"
    ))?;
    let mut times = Vec::new();
    while times.len() < COUNT {
        let frame = bench.wire()?.expect(Duration::from_secs(15), |frame| {
            packet::inner_type(frame) == Some(0x88f7)
                && frame.get(14).map(|b| b & 0xf) == Some(FOLLOW_UP)
        })?;
        let Some(frame) = frame else { break };
        let time = frame.get(48..58).context("a short message")?;
        let seconds =
            u64::from_be_bytes([0, 0, time[0], time[1], time[2], time[3], time[4], time[5]]);
        let nanoseconds = u32::from_be_bytes([time[6], time[7], time[8], time[9]]);
        times.push((seconds, nanoseconds));
    }
    let now: u64 = bench.vm.ok("date +%s")?.trim().parse()?;
    let said = bench.vm.ok("kill $(cat /tmp/ptp4l.pid); cat /tmp/ptp4l")?;
    ensure!(
        times.len() == COUNT,
        "{} messages; ptp4l says {said}",
        times.len()
    );
    ensure!(
        times.is_sorted()
            && times
                .iter()
                .all(|(seconds, _)| now.abs_diff(*seconds) < 60 + 40),
        "messages left at {times:?}, and it is {now}"
    );
    Ok(())
}

/// Whatever way a packet comes, the device never gets a frame that is longer than it can send.
pub(super) fn limits(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let longest = longest(bench)?;
    // What was seen to work is the limit, not what the device was seen to survive (K-ml).
    let tolerated = bench.vm.property("tx-limit")?;
    bench.vm.set_property("tx-limit", longest.to_string())?;
    let result = too_long(bench, longest)
        .and_then(|()| stacked_tags(bench))
        .and_then(|()| largest_mtu(bench, longest))
        .and_then(|()| bridged_and_routed(bench));
    bench.vm.ok(&format!(
        "for dev in tagged2 tagged1 bridge0 inner0; do ip link del $dev 2>/dev/null; done
         echo 0 > /proc/sys/net/ipv4/ip_forward
         echo {IFACE} > /sys/module/lab_tx/parameters/dev
         ip link set {IFACE} mtu 1500; ip link set {IFACE} up"
    ))?;
    bench
        .vm
        .set_property("tx-limit", tolerated.to_string().trim_matches('"'))?;
    result
}

/// The length of frames on the wire is within the limit; returns how many there were.
fn lengths(bench: &Bench<'_>, limit: usize) -> Result<Vec<usize>> {
    let mut lengths = Vec::new();
    while let Some(frame) = bench.wire()?.receive(Duration::from_millis(300))? {
        ensure!(frame.len() <= limit, "a frame of {} bytes", frame.len());
        lengths.push(frame.len());
    }
    Ok(lengths)
}

/// Frames that nobody checked the length of.
fn too_long(bench: &mut Bench<'_>, longest: usize) -> Result<()> {
    let over = [longest + 1, longest + 4, 2047, 2048, 4095, 4096, 9000];
    let packet = |length: usize, way| Packet {
        way,
        ..Packet::new(header(&[], EXPERIMENT), length)
    };
    let packets: Vec<Packet> = over
        .iter()
        .filter(|&&length| length > longest)
        .flat_map(|&length| {
            let whole = packet(length, Way::Stack);
            // A fragment is at most a page.
            let split = (length <= 4096).then(|| whole.clone().split(14, 3));
            std::iter::once(whole).chain(split)
        })
        .collect();
    bench.wire()?.drain()?;
    let before = bench.counter("tx_dropped")?;
    packet::send(bench, &packets, 30)?;
    let dropped = bench.counter("tx_dropped")? - before;
    ensure!(
        dropped == packets.len() as u64,
        "{dropped} of {} packets that are too long were counted as dropped",
        packets.len()
    );
    let sockets: Vec<Packet> = over
        .iter()
        .map(|&length| packet(length, Way::Socket))
        .collect();
    let result = packet::send(bench, &sockets, 30)?;
    ensure!(
        result.refused == over.len() as u64,
        "from a socket: {result:?}"
    );
    ensure!(lengths(bench, longest)?.iter().all(|&length| length < 200));
    packet::exchange(bench, EXPERIMENT, &[packet(longest, Way::Stack)])
}

/// Tags on tags on a packet of the full MTU.
fn stacked_tags(bench: &mut Bench<'_>) -> Result<()> {
    bench.vm.ok(&format!(
        "ip link add link {IFACE} name tagged1 type vlan id 5
         ip link add link tagged1 name tagged2 type vlan id 6
         ip link set tagged1 up; ip link set tagged2 up
         mtu=$(cat /sys/class/net/{IFACE}/mtu)
         for dev in tagged1 tagged2; do
             echo $dev > /sys/module/lab_tx/parameters/dev; cat /sys/module/lab_tx/parameters/dev
         done"
    ))?;
    let limit: usize = bench
        .vm
        .property("tx-limit")?
        .to_string()
        .trim_matches('"')
        .parse()?;
    for dev in ["tagged1", "tagged2"] {
        bench.vm.ok(&format!(
            "echo -n {dev} > /sys/module/lab_tx/parameters/dev"
        ))?;
        let packets: Vec<Packet> = (1500..=1514)
            .map(|length| Packet::new(header(&[], EXPERIMENT), length))
            .collect();
        bench.wire()?.drain()?;
        packet::send(bench, &packets, 30)?;
        let seen = lengths(bench, limit)?;
        ensure!(
            seen.iter().any(|&length| length > 1500),
            "nothing came through {dev}: the test tests nothing"
        );
    }
    bench
        .vm
        .ok(&format!(
            "echo -n {IFACE} > /sys/module/lab_tx/parameters/dev"
        ))
        .map(drop)
}

/// The largest MTU the interface accepts, used up to the last byte.
fn largest_mtu(bench: &mut Bench<'_>, longest: usize) -> Result<()> {
    let mtu = longest - 18;
    let output = bench
        .vm
        .run(&format!("ip link set {IFACE} mtu {}", mtu + 1), 10)?;
    ensure!(output.status != 0, "an MTU of {} was accepted", mtu + 1);
    bench.vm.ok(&format!("ip link set {IFACE} mtu {mtu}"))?;
    bench.up()?;
    bench.wire()?.drain()?;
    bench
        .vm
        .run(&format!("ping -c 1 -W 1 -s {} {GATEWAY}", mtu - 28), 10)?;
    let seen = lengths(bench, longest)?;
    ensure!(seen.contains(&(mtu + 14)), "no full frame among {seen:?}");
    Ok(())
}

/// Frames and packets from an interface with a larger MTU.
fn bridged_and_routed(bench: &mut Bench<'_>) -> Result<()> {
    let longest = longest(bench)?;
    bench.vm.ok(&format!(
        "ip link set {IFACE} mtu 1500
         modprobe veth
         ip link add inner0 mtu 4000 type veth peer name inner1 mtu 4000
         ip link set inner0 up; ip link set inner1 up
         ip addr add 10.9.0.1/24 dev inner1
         echo 1 > /proc/sys/net/ipv4/ip_forward
         echo -n inner0 > /sys/module/lab_tx/parameters/dev"
    ))?;
    bench.up()?;
    // To be routed: a packet of 3000 bytes that may be fragmented.
    let inner: Vec<u8> = bench
        .vm
        .ok("cat /sys/class/net/inner1/address")?
        .trim()
        .split(':')
        .map(|byte| u8::from_str_radix(byte, 16))
        .collect::<Result<_, _>>()?;
    let mut ip = vec![
        0x45, 0, 0, 0, 0, 1, 0, 0, 64, 253, 0, 0, 10, 9, 0, 2, 10, 0, 2, 2,
    ];
    ip[2..4].copy_from_slice(&3000u16.to_be_bytes());
    let sum: u32 = ip
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]))
        .sum();
    let sum = !((sum & 0xffff) + (sum >> 16)) as u16;
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut bytes = inner;
    bytes.extend_from_slice(&[2, 0, 0, 0, 0, 9, 0x08, 0x00]);
    bytes.extend_from_slice(&ip);
    bench.wire()?.drain()?;
    packet::send(bench, &[Packet::new(bytes, 3014)], 30)?;
    let seen = lengths(bench, longest)?;
    ensure!(
        seen.iter().filter(|&&length| length > 500).count() == 3 - 1 || seen.contains(&1514),
        "not fragmented: {seen:?}"
    );

    bench.vm.ok(&format!(
        "modprobe bridge
         ip addr flush dev {IFACE}
         ip link add bridge0 type bridge
         ip link set {IFACE} master bridge0; ip link set inner1 master bridge0
         ip link set bridge0 up"
    ))?;
    // Until the bridge forwards.
    let packets: Vec<Packet> = [1000, 1514, 1515, 1518, 1519, 2000, 3000]
        .map(|length| Packet::new(header(&[], EXPERIMENT), length))
        .to_vec();
    let end = Instant::now() + Duration::from_secs(40);
    loop {
        packet::send(bench, &packets, 30)?;
        let seen = lengths(bench, longest)?;
        if seen.contains(&1514) {
            break;
        }
        ensure!(
            Instant::now() < end,
            "the bridge forwards nothing but {seen:?}"
        );
    }
    Ok(())
}

/// Offloads switched while TCP flows both ways: traffic goes on, whatever the engine says.
pub(super) fn toggles(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let iperf = [
        Iperf::start(&bench.parts.root)?,
        Iperf::start(&bench.parts.root)?,
    ];
    // Two switches a round, each off and on: 40 of them in make check, 1000 in make check-all.
    let rounds = match bench.cycles {
        cycles if cycles >= 100 => 250,
        cycles => cycles / 2,
    };
    let mut script = String::from("rm -f /run/toggles-end\n");
    for (iperf, direction) in iperf.iter().zip([Direction::Receive, Direction::Transmit]) {
        script.push_str(&format!(
            "while [ ! -e /run/toggles-end ]; do {}; sleep 0.1; done > /dev/null 2>&1 &\n",
            iperf.client(direction, 600, "")
        ));
    }
    bench.vm.ok(&script)?;
    let toggled = bench.vm.ok_within(
        &format!(
            "cd /sys/class/net/{IFACE}/statistics
             for i in $(seq {rounds}); do
                 rx=$(cat rx_packets) tx=$(cat tx_packets)
                 ethtool -K {IFACE} tx off && ethtool -K {IFACE} rx off &&
                 ethtool -K {IFACE} tx on && ethtool -K {IFACE} rx on || exit 1
                 for j in $(seq 200); do
                     [ $(cat rx_packets) -gt $((rx + 10)) ] &&
                         [ $(cat tx_packets) -gt $((tx + 10)) ] && continue 2
                     sleep 0.05
                 done
                 echo \"no traffic in round $i\"; exit 1
             done"
        ),
        20 + 5 * u64::from(rounds),
    );
    bench.vm.ok("touch /run/toggles-end
         for i in $(seq 100); do killall -q iperf3 || exit 0; sleep 0.1; done; exit 1")?;
    toggled?;
    // An engine that does not stop: the switch may fail, but frames flow.
    for feature in ["tx", "rx"] {
        bench.vm.set_property("toe-stuck", "on")?;
        let output = bench
            .vm
            .run(&format!("ethtool -K {IFACE} {feature} off"), 10);
        bench.vm.set_property("toe-stuck", "off")?;
        output?;
        net::dhcp(bench.vm).with_context(|| format!("after {feature} could not be switched"))?;
        bench.vm.ok(&format!("ethtool -K {IFACE} {feature} on"))?;
        bench.ping(5, 1000)?;
    }
    Ok(())
}
