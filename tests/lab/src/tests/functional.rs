// SPDX-License-Identifier: GPL-2.0
//! What a driver of the device must be able to do. Runs with both drivers: with the stock one it
//! is evidence for the model, with ours for the driver.

use super::{Run, Test};
use crate::check::Bench;
use crate::env::Driver;
use crate::net::{self, Direction, Iperf, IFACE};
use crate::vm::{Machine, Net};
use crate::wire::{self, LAB_MAC};
use anyhow::{bail, ensure, Context, Result};
use std::time::Duration;

pub(super) type Function = fn(&mut Bench<'_>) -> Result<()>;

/// Tests on the user network.
pub(super) const USER: &[(&str, Function)] = &[
    ("probe", probe),
    ("autoneg", autoneg),
    ("ping", ping),
    ("dhcp", dhcp),
    ("iperf-tcp", iperf_tcp),
    ("iperf-udp", iperf_udp),
    ("ethtool-stats", ethtool_stats),
    ("ethtool-ring", ethtool_ring),
    ("ethtool-features", ethtool_features),
    ("cable", cable),
    ("down-up", down_up),
    ("unbind-bind", unbind_bind),
    ("rmmod-insmod", rmmod_insmod),
];

/// Tests on the frame wire.
pub(super) const FRAMES: &[(&str, Function)] = &[
    ("frames-receive", frames_receive),
    ("frames-echo", frames_echo),
    ("frames-jumbo", frames_jumbo),
    ("filter-unicast", filter_unicast),
    ("filter-multicast", filter_multicast),
    ("filter-promiscuous", filter_promiscuous),
];

pub(crate) fn tests(driver: Driver, group: &str) -> Vec<Test> {
    let mut tests = Vec::new();
    let mut add = |name: &str, machine: Machine, run: Function| {
        let run = Run::Guest {
            driver,
            machine,
            run,
        };
        tests.push(Test {
            name: format!("{group}-{name}"),
            long: false,
            run,
        });
    };
    for &(name, run) in USER {
        add(name, Machine::rzg2l(Net::User), run);
    }
    for &(name, run) in FRAMES {
        add(name, Machine::rzg2l(Net::Frames), run);
    }
    let fixed = Machine {
        flavours: vec!["FIXED_LINK"],
        ..Machine::rzg2l(Net::User)
    };
    add("fixed-link", fixed, fixed_link);
    tests
}

/// Our driver on machines that differ from the usual one.
pub(crate) fn variations() -> Vec<Test> {
    let user = || Machine::rzg2l(Net::User);
    let frames = || Machine::rzg2l(Net::Frames);
    // Bounce buffers: what the CPU does not sync, it does not see.
    let bounced = || Machine {
        append: "swiotlb=16384,force".to_string(),
        ..frames()
    };
    // Memory that 32-bit DMA does not reach.
    let high = || Machine {
        memory: 6144,
        ..frames()
    };
    // The model looks at each store to a descriptor, and fetches as early as it may.
    let watched = |machine: Machine| Machine {
        properties: vec!["watch=on".to_string(), "eager-fetch=on".to_string()],
        ..machine
    };
    // Each access to a register while the clock is off ends in an abort.
    let strict = || Machine {
        properties: vec!["clk-off=abort".to_string()],
        ..user()
    };
    let one_cpu = || Machine { cpus: 1, ..user() };
    let table: Vec<(&str, bool, Machine, Function)> = vec![
        ("rust-both-drivers", false, user(), both_drivers),
        ("rust-speeds", false, user(), speeds),
        (
            "rust-status-in-all-parts",
            false,
            frames(),
            status_in_all_parts,
        ),
        ("rust-one-cpu-iperf-tcp", false, one_cpu(), iperf_tcp),
        ("rust-one-cpu-ping", false, one_cpu(), ping),
        ("rust-bounced-receive", false, bounced(), frames_receive),
        ("rust-bounced-echo", false, bounced(), frames_echo),
        ("rust-bounced-jumbo", false, bounced(), frames_jumbo),
        ("rust-high-memory-receive", true, high(), frames_receive),
        ("rust-high-memory-echo", true, high(), frames_echo),
        ("rust-watched-echo", false, watched(frames()), frames_echo),
        ("rust-watched-jumbo", false, watched(frames()), frames_jumbo),
        ("rust-watched-iperf-tcp", true, watched(user()), iperf_tcp),
        ("rust-clock-off-aborts", false, strict(), clock_off_aborts),
    ];
    let driver = Driver::Rust;
    table
        .into_iter()
        .map(|(name, long, machine, run)| Test {
            name: name.to_string(),
            long,
            run: Run::Guest {
                driver,
                machine,
                run,
            },
        })
        .collect()
}

/// The driver binds, and its interface names it.
fn probe(bench: &mut Bench<'_>) -> Result<()> {
    net::load(bench.vm, bench.driver)?;
    let text = bench.vm.ok(&format!("ethtool -i {IFACE}"))?;
    let expected = format!("driver: {}", bench.driver.module());
    ensure!(
        text.lines().any(|line| line == expected),
        "ethtool -i says {text}"
    );
    Ok(())
}

/// Both ends agree on the fastest mode.
fn autoneg(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let text = bench.vm.ok(&format!("ethtool {IFACE}"))?;
    for expected in [
        "Speed: 1000Mb/s",
        "Duplex: Full",
        "Auto-negotiation: on",
        "Link detected: yes",
    ] {
        ensure!(text.contains(expected), "no {expected:?} in {text}");
    }
    Ok(())
}

/// Pings of all interesting sizes are answered: padded ones, full ones, fragmented ones.
fn ping(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    for (count, size) in [(20, 56), (5, 0), (5, 17), (5, 18), (5, 19), (10, 1472)] {
        bench.ping(count, size)?;
    }
    Ok(())
}

fn dhcp(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    bench.vm.ok(&format!("ip addr flush dev {IFACE}"))?;
    let address = net::dhcp(bench.vm)?;
    ensure!(address == net::ADDRESS, "the address is {address}");
    Ok(())
}

/// A rate below which something is broken rather than slow, in Mbit/s.
const SLOW: f64 = 0.5;

fn iperf_tcp(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let iperf = Iperf::start(&bench.parts.root)?;
    for direction in [Direction::Receive, Direction::Transmit] {
        let rate = iperf.tcp(bench.vm, direction, 2)?;
        ensure!(rate > SLOW, "{direction:?}: only {rate:.1} Mbit/s");
    }
    Ok(())
}

/// UDP flows both ways, and the driver loses none of it: it has seen what the device stored, and
/// what it sent has left. A busy host loses datagrams in other places.
fn iperf_udp(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let iperf = Iperf::start(&bench.parts.root)?;
    let before = passed(bench)?;
    for direction in [Direction::Receive, Direction::Transmit] {
        let udp = iperf.udp(bench.vm, direction, 2, 20)?;
        ensure!(
            udp.mbps > SLOW,
            "{direction:?}: only {:.1} Mbit/s",
            udp.mbps
        );
    }
    bench.vm.ok("sleep 0.5")?;
    let after = passed(bench)?;
    for (name, old, new) in [
        ("received", before[0], after[0]),
        ("sent", before[1], after[1]),
    ] {
        let (device, driver) = (new.0 - old.0, new.1 - old.1);
        ensure!(
            device == driver,
            "the device counts {device} frames {name}, the driver {driver}"
        );
    }
    Ok(())
}

/// Frames received and sent, each as the device and as the driver counts them.
pub(super) fn passed(bench: &mut Bench<'_>) -> Result<[(u64, u64); 2]> {
    let frames = bench.vm.property("counters")?["frames"].clone();
    let device = |direction: &str| -> u64 {
        let queues = frames.as_object().into_iter().flatten();
        queues
            .filter(|(name, _)| name.starts_with(direction))
            .filter_map(|(_, count)| count.as_u64())
            .sum()
    };
    Ok([
        (device("rx"), bench.counter("rx_packets")?),
        (device("tx"), bench.counter("tx_packets")?),
    ])
}

/// Counters rise with traffic, those of ethtool and those of the interface.
fn ethtool_stats(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let total = |text: &str, word: &str| -> u64 {
        text.lines()
            .filter(|line| line.contains(word))
            .filter_map(|line| line.rsplit(':').next())
            .filter_map(|value| value.trim().parse::<u64>().ok())
            .sum()
    };
    let read = format!("ethtool -S {IFACE}");
    let before = bench.vm.ok(&read)?;
    let rx_before = bench.counter("rx_packets")?;
    bench.ping(10, 56)?;
    let after = bench.vm.ok(&read)?;
    let rx_after = bench.counter("rx_packets")?;
    for word in [
        "rx_queue_0_packets",
        "tx_queue_0_packets",
        "rx_queue_0_bytes",
        "tx_queue_0_bytes",
    ] {
        let (old, new) = (total(&before, word), total(&after, word));
        ensure!(
            new >= old + 10,
            "ethtool -S: {word} went from {old} to {new} over ten pings"
        );
    }
    ensure!(
        rx_after >= rx_before + 10,
        "rx_packets went from {rx_before} to {rx_after}"
    );
    Ok(())
}

/// Current ring sizes (receive, transmit) of `ethtool -g`.
fn rings(bench: &mut Bench<'_>) -> Result<(u32, u32)> {
    let text = bench.vm.ok(&format!("ethtool -g {IFACE}"))?;
    let current = text
        .split("Current hardware settings")
        .nth(1)
        .context("no current settings")?;
    let value = |name: &str| -> Option<u32> {
        let line = current
            .lines()
            .find(|line| line.trim_start().starts_with(name))?;
        line.rsplit(':').next()?.trim().parse().ok()
    };
    value("RX:")
        .zip(value("TX:"))
        .with_context(|| format!("ethtool -g printed {text}"))
}

/// Rings can be made smaller and larger while traffic flows, and nonsense is refused.
fn ethtool_ring(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let original = rings(bench)?;
    for (rx, tx) in [(128, 64), (512, 128), original] {
        bench
            .vm
            .ok(&format!("ethtool -G {IFACE} rx {rx} tx {tx}"))?;
        let now = rings(bench)?;
        ensure!(now == (rx, tx), "asked for {:?}, got {now:?}", (rx, tx));
        net::wait_for_link(bench.vm)?;
        bench.ping(5, 1000)?;
    }
    let output = bench
        .vm
        .run(&format!("ethtool -G {IFACE} rx 1000000"), 10)?;
    ensure!(
        output.status != 0,
        "a ring of a million descriptors was accepted"
    );
    ensure!(rings(bench)? == original, "a refused change had an effect");
    bench.ping(5, 56)
}

fn ethtool_features(bench: &mut Bench<'_>) -> Result<()> {
    features(
        bench,
        &[("rx", "rx-checksumming"), ("tx", "tx-checksumming")],
    )
}

/// Offloads can be switched, and traffic is right with and without. Each goes by two names, that
/// of the option and that of the feature.
pub(super) fn features(bench: &mut Bench<'_>, offloads: &[(&str, &str)]) -> Result<()> {
    bench.up()?;
    for (name, feature) in offloads {
        for state in ["off", "on"] {
            bench.vm.ok(&format!("ethtool -K {IFACE} {name} {state}"))?;
            let text = bench.vm.ok(&format!("ethtool -k {IFACE}"))?;
            let line = format!("{feature}: {state}");
            ensure!(
                text.lines().any(|found| found.trim() == line),
                "no {line:?} in {text}"
            );
            bench.ping(5, 1000)?;
            // TCP and UDP carry checksums that ping has not.
            net::dhcp(bench.vm)?;
        }
    }
    Ok(())
}

/// Pulling the cable takes the carrier away, plugging it in brings it back.
pub(super) fn cable(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    bench.vm.set_property("cable", "off")?;
    let gone = format!(
        "for i in $(seq 100); do [ $(cat /sys/class/net/{IFACE}/carrier) = 0 ] && exit 0; \
         sleep 0.05; done; exit 1"
    );
    let result = bench
        .vm
        .ok(&gone)
        .context("the carrier stays without a cable");
    bench.vm.set_property("cable", "on")?;
    result?;
    net::wait_for_link(bench.vm)?;
    bench.ping(5, 56)
}

fn down_up(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    bench.vm.ok(&format!("ip link set {IFACE} down"))?;
    bench.up()?;
    bench.ping(5, 56)
}

fn unbind_bind(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let device = bench.platform_device()?;
    let driver = format!("/sys/bus/platform/drivers/{}", bench.driver.module());
    bench.vm.ok(&format!("echo {device} > {driver}/unbind"))?;
    bench
        .vm
        .ok(&format!("[ ! -e /sys/class/net/{IFACE} ]"))
        .context("the interface stays")?;
    bench.vm.ok(&format!("echo {device} > {driver}/bind"))?;
    bench.up()?;
    bench.ping(5, 56)
}

fn rmmod_insmod(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    if bench.driver == Driver::C {
        // The bit-bang library takes a reference to the module for as long as the stock driver is
        // bound.
        let device = bench.platform_device()?;
        bench.vm.ok(&format!(
            "echo {device} > /sys/bus/platform/drivers/ravb/unbind"
        ))?;
    }
    bench.vm.ok(&format!("rmmod {}", bench.driver.module()))?;
    bench.up()?;
    bench.ping(5, 56)
}

/// With both drivers loaded one has the device, and the user decides which.
fn both_drivers(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let device = bench.platform_device()?;
    let bus = "/sys/bus/platform";
    let at = format!("{bus}/devices/{device}");
    bench.vm.ok("modprobe ravb")?;
    // It is taken: loading another driver changes nothing.
    bench.ping(5, 56)?;
    for (from, to) in [("ravb_rs", "ravb"), ("ravb", "ravb_rs")] {
        bench.vm.ok(&format!(
            "echo {to} > {at}/driver_override
             echo {device} > {bus}/drivers/{from}/unbind"
        ))?;
        // What the stock driver did up to here is not ours.
        bench.vm.set_property("violations-reset", "")?;
        bench
            .vm
            .ok(&format!("echo {device} > {bus}/drivers_probe"))?;
        let text = bench.vm.ok(&format!("ethtool -i {IFACE}"))?;
        let line = format!("driver: {to}");
        ensure!(
            text.lines().any(|found| found == line),
            "wanted {to}: {text}"
        );
        bench.up()?;
        bench.ping(5, 56)?;
    }
    bench
        .vm
        .ok(&format!("echo > {at}/driver_override; rmmod ravb"))?;
    Ok(())
}

/// Every mode a partner can offer, agreed on and forced, carries frames.
fn speeds(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let modes = [
        ("100-full", 100, "Full"),
        ("100-half", 100, "Half"),
        ("10-full", 10, "Full"),
        ("10-half", 10, "Half"),
        ("1000-full", 1000, "Full"),
    ];
    for (mode, speed, duplex) in modes {
        bench.vm.set_property("cable", "off")?;
        bench.vm.ok("sleep 0.2")?;
        bench.vm.set_property("partner", mode)?;
        bench.vm.set_property("cable", "on")?;
        let now = net::wait_for_link(bench.vm).context(mode)?;
        ensure!(now == speed, "{mode}: the link has {now} Mbit/s");
        let text = bench.vm.ok(&format!("ethtool {IFACE}"))?;
        // The MAC knows half duplex in no mode it advertises: then the best common mode counts.
        ensure!(
            text.contains(&format!("Duplex: {duplex}")) || duplex == "Half",
            "{mode}: {text}"
        );
        bench.ping(5, 1400).context(mode)?;
    }
    Ok(())
}

/// The sources do not say whether only the last part of a frame has a status: both must do.
fn status_in_all_parts(bench: &mut Bench<'_>) -> Result<()> {
    bench.vm.set_property("rx-status-in-all-parts", "on")?;
    let result = frames_jumbo(bench);
    bench.vm.set_property("rx-status-in-all-parts", "off")?;
    result
}

/// What touches registers in all states of the interface.
fn clock_off_aborts(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let look = format!(
        "ethtool {IFACE}; ethtool -i {IFACE}; ethtool -S {IFACE}; ethtool -g {IFACE}
         ethtool -k {IFACE}; ethtool -T {IFACE}; ethtool -d {IFACE}; ethtool -a {IFACE}
         ethtool --show-eee {IFACE}; ip -s link show {IFACE}; cat /proc/net/dev"
    );
    for _ in 0..2 {
        // Not all of these are supported; none may crash.
        bench.vm.run(&look, 30)?;
        bench.ping(3, 56)?;
        bench.vm.ok(&format!("ip link set {IFACE} down"))?;
        bench.vm.run(&look, 30)?;
        bench.vm.run(
            &format!(
                "ethtool -G {IFACE} rx 256; ethtool -K {IFACE} rx off; ethtool -K {IFACE} rx on
                 ip link set {IFACE} promisc on; ip link set {IFACE} promisc off
                 ip link set {IFACE} mtu 1400; ip link set {IFACE} mtu 1500
                 ip link set {IFACE} address 02:00:00:00:00:07; ethtool -r {IFACE}"
            ),
            30,
        )?;
        bench.up()?;
    }
    bench.vm.ok(&format!("rmmod {}", bench.driver.module()))?;
    Ok(())
}

/// A link without a PHY: speed and duplex come from the device tree.
pub(super) fn fixed_link(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let text = bench.vm.ok(&format!("ethtool {IFACE}"))?;
    ensure!(text.contains("Speed: 1000Mb/s"), "ethtool says {text}");
    bench.ping(10, 1000)
}

/// EtherType for local experiments: no protocol of the guest reacts to it.
pub(super) const EXPERIMENT: u16 = 0x88b5;

/// Text of the frame that ends a capture.
const LAST_FRAME: &str = "last frame of a capture";

/// Sends frames to the device while the guest captures, and returns what the guest saw. A broadcast
/// frame behind them tells when all have been received or dropped.
pub(super) fn capture(
    bench: &mut Bench<'_>,
    frames: &[Vec<u8>],
    promiscuous: bool,
) -> Result<Vec<Vec<u8>>> {
    let mode = if promiscuous {
        ""
    } else {
        "--no-promiscuous-mode"
    };
    bench.vm.ok(&format!(
        "rm -f /tmp/pcap /tmp/tcpdump
         tcpdump -Z root -i {IFACE} {mode} -s 0 --immediate-mode -U -Q in -w /tmp/pcap \
             ether proto {EXPERIMENT} > /tmp/tcpdump 2>&1 &
         echo $! > /tmp/tcpdump.pid
         for i in $(seq 500); do grep -q 'listening on' /tmp/tcpdump && exit 0; sleep 0.02; done
         cat /tmp/tcpdump; exit 1"
    ))?;
    let mut last = wire::frame([0xff; 6], EXPERIMENT, 100, 0);
    last[14..14 + LAST_FRAME.len()].copy_from_slice(LAST_FRAME.as_bytes());
    for frame in frames.iter().chain([&last]) {
        bench.wire()?.send(frame)?;
        // The emulated FIFO is as small as the real one: do not overrun it.
        std::thread::sleep(Duration::from_millis(2));
    }
    let text = bench.vm.ok(&format!(
        "for i in $(seq 500); do grep -q '{LAST_FRAME}' /tmp/pcap && break; sleep 0.02; done
         kill -INT $(cat /tmp/tcpdump.pid)
         while kill -0 $(cat /tmp/tcpdump.pid) 2>/dev/null; do sleep 0.02; done
         base64 -w 0 /tmp/pcap"
    ))?;
    use base64::Engine;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text.trim())?;
    let mut got = packets(&bytes).context("the capture is damaged")?;
    let end = got.pop().context("nothing arrived")?;
    ensure!(
        end == last,
        "the last frame did not arrive, {} others did",
        got.len() + 1
    );
    Ok(got)
}

/// The packets of a capture file (pcap, little-endian).
fn packets(file: &[u8]) -> Option<Vec<Vec<u8>>> {
    const FILE_HEADER: usize = 24;
    const PACKET_HEADER: usize = 16;
    let mut rest = file.get(FILE_HEADER..)?;
    let mut packets = Vec::new();
    while !rest.is_empty() {
        let length = u32::from_le_bytes(rest.get(8..12)?.try_into().ok()?) as usize;
        packets.push(rest.get(PACKET_HEADER..PACKET_HEADER + length)?.to_vec());
        rest = &rest[PACKET_HEADER + length..];
    }
    Some(packets)
}

/// Compares what arrived with what was sent; frames shorter than the minimum arrive padded.
pub(super) fn same_frames(sent: &[Vec<u8>], got: &[Vec<u8>]) -> Result<()> {
    ensure!(
        got.len() == sent.len(),
        "{} of {} frames arrived",
        got.len(),
        sent.len()
    );
    for (sent, got) in sent.iter().zip(got) {
        let mut expected = sent.clone();
        expected.resize(sent.len().max(60), 0);
        if *got != expected {
            let at = got.iter().zip(&expected).position(|(a, b)| a != b);
            bail!(
                "a frame of {} bytes arrived as {} bytes, first difference at {at:?}",
                expected.len(),
                got.len()
            );
        }
    }
    Ok(())
}

/// Frames of every length arrive byte by byte.
pub(super) fn frames_receive(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let mac = bench.mac()?;
    let lengths = (60..=1514).step_by(13).chain([1511, 1512, 1513, 1514]);
    let frames: Vec<Vec<u8>> = lengths
        .enumerate()
        .map(|(seed, length)| wire::frame(mac, EXPERIMENT, length, seed as u8))
        .collect();
    let got = capture(bench, &frames, false)?;
    same_frames(&frames, &got)
}

/// Frames of 8000 bytes need several descriptors and arrive whole.
///
/// The stock driver takes the four-byte checksum trailer off the last fragment of such a frame but
/// not off the length of the packet, so what it delivers is longer by these bytes.
fn frames_jumbo(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let mac = bench.mac()?;
    let frames: Vec<Vec<u8>> = [1600, 2048, 4000, 8000, 8000, 1514, 8000]
        .iter()
        .enumerate()
        .map(|(seed, &length)| wire::frame(mac, EXPERIMENT, length, seed as u8))
        .collect();
    let mut got = capture(bench, &frames, false)?;
    if bench.driver == Driver::C {
        for (sent, got) in frames.iter().zip(&mut got) {
            if got.len() == sent.len() + 4 {
                got.truncate(sent.len());
            }
        }
    }
    same_frames(&frames, &got)
}

/// Payloads of every length come back unchanged: both directions, checksums, all alignments.
fn frames_echo(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let mac = bench.mac()?;
    bench.wire()?.drain()?;
    for length in (0..=64)
        .chain((65..=1472).step_by(37))
        .chain([1469, 1470, 1471, 1472])
    {
        let payload = &wire::frame([0; 6], 0, 14 + length, length as u8)[14..];
        bench.wire()?.send(&echo_request(mac, payload))?;
        let answer = bench
            .wire()?
            .expect(Duration::from_secs(3), is_echo_reply)?
            .with_context(|| format!("no answer to {length} bytes"))?;
        let got = &answer[42..];
        ensure!(
            got.len() >= length,
            "{} of {length} bytes came back",
            got.len()
        );
        ensure!(
            &got[..length] == payload,
            "{length} bytes came back changed"
        );
        ensure!(
            checksum(&answer[14..34]) == 0,
            "{length} bytes: bad IP checksum"
        );
        ensure!(
            checksum(&answer[34..42 + length]) == 0,
            "{length} bytes: bad ICMP checksum"
        );
    }
    Ok(())
}

/// The internet checksum: zero over anything that contains its own.
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair.get(1).copied().unwrap_or(0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// An ICMP echo request from the gateway to the guest.
fn echo_request(to: [u8; 6], payload: &[u8]) -> Vec<u8> {
    let gateway: [u8; 4] = [10, 0, 2, 2];
    let guest: [u8; 4] = [10, 0, 2, 15];
    let mut icmp = vec![8, 0, 0, 0, 0x12, 0x34, 0, 1];
    icmp.extend_from_slice(payload);
    let sum = checksum(&icmp);
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());

    let total = (20 + icmp.len()) as u16;
    let mut ip = vec![0x45, 0];
    ip.extend_from_slice(&total.to_be_bytes());
    ip.extend_from_slice(&[0, 1, 0, 0, 64, 1, 0, 0]);
    ip.extend_from_slice(&gateway);
    ip.extend_from_slice(&guest);
    let sum = checksum(&ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());

    let mut frame = Vec::new();
    frame.extend_from_slice(&to);
    frame.extend_from_slice(&LAB_MAC);
    frame.extend_from_slice(&[0x08, 0x00]);
    frame.extend_from_slice(&ip);
    frame.extend_from_slice(&icmp);
    frame.resize(frame.len().max(60), 0);
    frame
}

fn is_echo_reply(frame: &[u8]) -> bool {
    frame.len() >= 42 && frame[12..14] == [0x08, 0x00] && frame[23] == 1 && frame[34] == 0
}

/// Frames for others do not get past the device's address filter.
fn filter_unicast(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let mac = bench.mac()?;
    let mut other = mac;
    other[5] ^= 1;
    let frames: Vec<Vec<u8>> = [mac, other, [0xff; 6], mac]
        .iter()
        .enumerate()
        .map(|(seed, &to)| wire::frame(to, EXPERIMENT, 200, seed as u8))
        .collect();
    let got = capture(bench, &frames, false)?;
    same_frames(
        &[frames[0].clone(), frames[2].clone(), frames[3].clone()],
        &got,
    )
}

/// A group that was joined is heard.
fn filter_multicast(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let group = [0x01, 0x00, 0x5e, 0x01, 0x02, 0x03];
    bench
        .vm
        .ok(&format!("ip maddr add 01:00:5e:01:02:03 dev {IFACE}"))?;
    let frames = [wire::frame(group, EXPERIMENT, 300, 1)];
    let got = capture(bench, &frames, false)?;
    bench
        .vm
        .ok(&format!("ip maddr del 01:00:5e:01:02:03 dev {IFACE}"))?;
    same_frames(&frames, &got)
}

/// In promiscuous mode everything is heard, and afterwards no more.
fn filter_promiscuous(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let mut other = bench.mac()?;
    other[4] ^= 1;
    let frames = [wire::frame(other, EXPERIMENT, 300, 1)];
    let got = capture(bench, &frames, true)?;
    same_frames(&frames, &got)?;
    let got = capture(bench, &frames, false)?;
    ensure!(got.is_empty(), "still promiscuous");
    Ok(())
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn requests_have_right_checksums() {
        let frame = echo_request([2; 6], b"abc");
        assert_eq!(checksum(&frame[14..34]), 0);
        assert_eq!(checksum(&frame[34..45]), 0);
        assert_eq!(frame.len(), 60);
    }

    #[test]
    fn captures_are_read() {
        let mut file = vec![0; 24];
        for packet in [&b"abc"[..], &b"d"[..]] {
            file.extend_from_slice(&[0; 8]);
            file.extend_from_slice(&(packet.len() as u32).to_le_bytes());
            file.extend_from_slice(&(packet.len() as u32).to_le_bytes());
            file.extend_from_slice(packet);
        }
        assert_eq!(packets(&file).unwrap(), [b"abc".to_vec(), b"d".to_vec()]);
        file.pop();
        assert!(packets(&file).is_none());
    }

    #[test]
    fn damage_is_noticed() {
        let sent = vec![vec![1; 20], vec![2; 80]];
        let mut padded = vec![1; 20];
        padded.resize(60, 0);
        assert!(same_frames(&sent, &[padded.clone(), vec![2; 80]]).is_ok());
        assert!(same_frames(&sent, &[padded.clone()]).is_err());
        assert!(same_frames(&sent, &[padded, vec![3; 80]]).is_err());
    }
}
