// SPDX-License-Identifier: GPL-2.0
//! Settings and life cycle of our driver: what ethtool and netlink show and change, with traffic
//! going on; sleep of the device and of the system; the end of the system.

use super::cycles;
use super::functional::Function;
use super::{Run, Test};
use crate::check::Bench;
use crate::env::Driver;
use crate::net::{self, Direction, Iperf, IFACE};
use crate::vm::{Machine, Net};
use anyhow::{bail, ensure, Context, Result};
use std::time::{Duration, Instant};

/// Tests of RZ/G2L; the flag says which are long.
const GBETH: &[(&str, bool, Function)] = &[
    ("refusals", false, |bench| refusals(bench, GBETH_REFUSALS)),
    ("registers", false, registers),
    ("statistics", false, statistics),
    ("counters", false, |bench| {
        counters(
            bench,
            &["ethtool -G eth0 rx 128", "ethtool -G eth0 rx 1024"],
        )
    }),
    ("self-test", false, self_test),
    ("traffic", false, |bench| traffic(bench, GBETH_SETTINGS)),
    ("lossless", false, |bench| lossless(bench, GBETH_SETTINGS)),
    ("address", false, address),
    ("runtime-pm", false, runtime_pm),
    ("resize", false, resize),
    ("stuck", false, |bench| {
        stuck(bench, &["ethtool -G eth0 rx 128"])
    }),
    ("failed-open", false, |bench| {
        failed_open(bench, "toe-stuck", ["off", "on"])
    }),
    ("failed-open-mode", false, |bench| {
        failed_open(bench, "mode-change-delay", ["0", "1000000000"])
    }),
    ("shown", false, |bench| shown(bench, GBETH_SHOWN)),
    ("messages", false, messages),
    ("link-settings", false, link_settings),
    ("suspend", false, suspend),
    ("pm-test", false, pm_test),
    ("random", false, random),
    ("restart", false, |bench| restart(bench, "reboot -f")),
    ("poweroff", false, |bench| restart(bench, "poweroff -f")),
];

/// Tests of R-Car Gen3, which has two queues and other features.
const GEN3: &[(&str, bool, Function)] = &[
    ("refusals", false, |bench| refusals(bench, GEN3_REFUSALS)),
    ("registers", true, registers),
    ("shown", false, |bench| shown(bench, GEN3_SHOWN)),
    ("rx-all", false, rx_all),
    ("self-test", true, self_test),
    ("traffic", true, |bench| traffic(bench, GEN3_SETTINGS)),
    ("lossless", true, |bench| lossless(bench, GEN3_SETTINGS)),
    ("counters", true, |bench| {
        let one = "ethtool -L eth0 combined 1";
        counters(bench, &[one, "ethtool -L eth0 combined 2"])
    }),
    ("channels", false, channels),
    ("stuck", false, |bench| {
        stuck(
            bench,
            &["ethtool -G eth0 tx 128", "ethtool -L eth0 combined 1"],
        )
    }),
    ("failed-open-mode", true, |bench| {
        failed_open(bench, "mode-change-delay", ["0", "1000000000"])
    }),
    ("restart", true, |bench| restart(bench, "reboot -f")),
    ("suspend", true, suspend),
    ("pm-test", true, pm_test),
    ("random", true, random),
];

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    let mut add = |name: &str, long: bool, machine: Machine, run: Function| {
        tests.push(Test {
            name: format!("rust-control-{name}"),
            long,
            run: Run::Guest {
                driver: Driver::Rust,
                machine,
                run,
            },
        });
    };
    for &(name, long, run) in GBETH {
        add(name, long, Machine::rzg2l(Net::User), run);
    }
    for &(name, long, run) in GEN3 {
        let machine = Machine::with("gen3", Net::User);
        add(&format!("gen3-{name}"), long, machine, run);
    }
    let tables: &[(&str, &'static str, Function)] = &[
        ("fixed-link-suspend", "FIXED_LINK", suspend),
        ("fixed-link-again", "FIXED_LINK", fixed_link_again),
        ("phy-polled", "PHY_POLL", |bench| phy_reports(bench, false)),
        ("phy-legacy", "LEGACY_MDIO", |bench| {
            phy_reports(bench, true)
        }),
        (
            "failed-open-no-phy",
            "NO_PHY_HANDLE",
            failed_open_without_phy,
        ),
    ];
    for &(name, flavour, run) in tables {
        let machine = Machine {
            flavours: vec![flavour],
            ..Machine::rzg2l(Net::User)
        };
        add(name, false, machine, run);
    }
    for variant in ["gbeth", "gen3"] {
        let machine = Machine {
            // Room for the files that are booted, and for a file to watch.
            memory: 2048,
            ..Machine::with(variant, Net::User)
        };
        let name = match variant {
            "gbeth" => "kexec".to_string(),
            _ => format!("{variant}-kexec"),
        };
        add(&name, variant != "gbeth", machine, kexec);
    }
    add("two-devices", false, Machine::rzg2l(Net::Pair), two_devices);
    tests
}

/// What must be refused, the error, and words of the reason the user is given: there are none
/// where the kernel has no way to give one (ioctls, and operations without an extack). ip does not
/// name the error where there are words.
type Refusal = (&'static str, &'static str, &'static str);

const INVALID: &str = "Invalid argument";
const UNSUPPORTED: &str = "Operation not supported";
const RANGE: &str = "Numerical result out of range";

/// What no device takes.
const REFUSALS: &[Refusal] = &[
    ("ethtool -G eth0 rx 63", INVALID, "at least 64"),
    ("ethtool -G eth0 tx 0", INVALID, "at least 64"),
    ("ethtool -G eth0 rx 2049", INVALID, "exceeds maximum"),
    ("ethtool -G eth0 tx 1025", INVALID, "exceeds maximum"),
    ("ethtool -G eth0 rx 4294967295", INVALID, "exceeds maximum"),
    ("ethtool -G eth0 rx-mini 64", INVALID, "exceeds maximum"),
    ("ethtool -G eth0 rx-jumbo 64", INVALID, "exceeds maximum"),
    (
        "ethtool -G eth0 rx-buf-len 4096",
        UNSUPPORTED,
        "not supported",
    ),
    ("ethtool -G eth0 cqe-size 64", UNSUPPORTED, "not supported"),
    ("ethtool -G eth0 tx-push on", UNSUPPORTED, "not supported"),
    (
        "ethtool -G eth0 tcp-data-split on",
        UNSUPPORTED,
        "not supported",
    ),
    ("ethtool -L eth0 combined 0", INVALID, "no RX or TX channel"),
    ("ethtool -L eth0 combined 3", INVALID, "exceeds maximum"),
    (
        "ethtool -L eth0 combined 4294967295",
        INVALID,
        "exceeds maximum",
    ),
    ("ethtool -L eth0 rx 1", INVALID, "exceeds maximum"),
    ("ethtool -L eth0 tx 1", INVALID, "exceeds maximum"),
    ("ethtool -L eth0 other 1", INVALID, "exceeds maximum"),
    ("ethtool -A eth0 rx off", UNSUPPORTED, ""),
    ("ethtool -A eth0 tx on", UNSUPPORTED, ""),
    ("ethtool -C eth0 rx-usecs 5", UNSUPPORTED, ""),
    ("ethtool --set-eee eth0 eee on", UNSUPPORTED, ""),
    ("ethtool --set-tunable eth0 rx-copybreak 1025", RANGE, ""),
    (
        "ethtool --set-tunable eth0 rx-copybreak 4294967295",
        RANGE,
        "",
    ),
    (
        "ethtool --set-tunable eth0 tx-copybreak 64",
        UNSUPPORTED,
        "",
    ),
    (
        "ethtool --set-tunable eth0 pfc-prevention-tout 8",
        UNSUPPORTED,
        "",
    ),
    ("ethtool -s eth0 wol b", INVALID, "unsupported WoL"),
    ("ethtool -s eth0 wol umbg", INVALID, "unsupported WoL"),
    (
        "ethtool -s eth0 speed 12345 duplex full autoneg off",
        INVALID,
        "",
    ),
    ("ethtool -s eth0 advertise 0x0 autoneg on", INVALID, ""),
    ("ethtool -s eth0 phyad 31", INVALID, ""),
    ("ethtool -X eth0 equal 1", UNSUPPORTED, ""),
    ("ethtool -N eth0 flow-type ip4 action 0", UNSUPPORTED, ""),
    ("ethtool -t eth0 online", "", "FAIL"),
    ("ethtool -K eth0 rx-fcs on", "", "Could not change"),
    ("ethtool -K eth0 loopback on", "", "Could not change"),
    ("ip link set eth0 mtu 67", "", "less than device minimum"),
    (
        "ip link set eth0 mtu 65535",
        "",
        "greater than device maximum",
    ),
    (
        "ip link set eth0 address 01:00:00:00:00:01",
        "Cannot assign requested address",
        "",
    ),
    (
        "ip link set eth0 address 00:00:00:00:00:00",
        "Cannot assign requested address",
        "",
    ),
    (
        "bash -c 'echo 3 > /sys/class/net/eth0/threaded'",
        UNSUPPORTED,
        "",
    ),
    (
        "bash -c 'echo -1 > /sys/class/net/eth0/napi_defer_hard_irqs'",
        INVALID,
        "",
    ),
];

const GBETH_REFUSALS: &[Refusal] = &[
    ("ethtool -L eth0 combined 2", INVALID, "exceeds maximum"),
    ("ethtool -s eth0 wol g", INVALID, "unsupported WoL"),
    (
        "ip link set eth0 mtu 1501",
        "",
        "greater than device maximum",
    ),
    ("ethtool -K eth0 rx-all on", "", "Could not change"),
];

const GEN3_REFUSALS: &[Refusal] = &[
    (
        "ip link set eth0 mtu 2027",
        "",
        "greater than device maximum",
    ),
    ("ethtool -K eth0 tx on", "", "Could not change"),
];

/// All settings, as text.
const SETTINGS: &str = "ethtool -g eth0; ethtool -l eth0; ethtool -k eth0; ethtool -a eth0
     ethtool -c eth0; ethtool eth0 | grep -v -e MDI-X -e Link.detected
     ethtool --get-tunable eth0 rx-copybreak; ip -d link show eth0
     cd /sys/class/net/eth0; cat threaded napi_defer_hard_irqs gro_flush_timeout; true";

/// Each value out of range is refused with the right error and a reason, up and down, and changes
/// nothing.
fn refusals(bench: &mut Bench<'_>, more: &[Refusal]) -> Result<()> {
    bench.up()?;
    for state in ["up", "down"] {
        bench.vm.ok(&format!("ip link set {IFACE} {state}"))?;
        if state == "up" {
            net::wait_for_link(bench.vm)?;
        }
        let before = bench.vm.ok(SETTINGS)?;
        let mut wrong = Vec::new();
        for (command, error, reason) in REFUSALS.iter().chain(more) {
            let output = bench.vm.run(command, 10)?;
            let told = output.text.contains(error) && output.text.contains(reason)
                // There is no PHY to ask while the interface is down.
                || state == "down" && output.text.contains("No such device");
            if output.status == 0 {
                wrong.push(format!("`{command}` was accepted"));
            } else if !told {
                wrong.push(format!(
                    "`{command}` gives {:?}, not {error:?} and {reason:?}",
                    output.text
                ));
            }
        }
        ensure!(wrong.is_empty(), "{state}: {}", wrong.join("\n"));
        let after = bench.vm.ok(SETTINGS)?;
        ensure!(
            before == after,
            "{state}: refused changes had an effect:\n{before}\n{after}"
        );
    }
    bench.up()?;
    bench.ping(5, 56)
}

/// The word at an offset of the dump of the registers.
fn dumped(bench: &mut Bench<'_>, offset: usize) -> Result<u32> {
    let text = bench.vm.ok(&format!(
        "ethtool -d {IFACE} raw on | dd bs=4 skip={} count=1 2>/dev/null | base64",
        offset / 4
    ))?;
    use base64::Engine;
    let bytes = base64::engine::general_purpose::STANDARD.decode(text.trim())?;
    let bytes: [u8; 4] = bytes
        .try_into()
        .map_err(|bytes| anyhow::anyhow!("the dump has {bytes:?} at {offset:#x}"))?;
    Ok(u32::from_le_bytes(bytes))
}

/// The dump of the registers shows what they hold, up and down, and takes nothing from them.
fn registers(bench: &mut Bench<'_>) -> Result<()> {
    const CSR: usize = 0x00c;
    const MAHR: usize = 0x5c0;
    const GECMR: usize = 0x5b0;
    bench.up()?;
    let [a, b, c, d, ..] = bench.mac()?;
    ensure!(dumped(bench, MAHR)? == u32::from_be_bytes([a, b, c, d]));
    ensure!(dumped(bench, CSR)? & 0xf == 4, "not in OPERATION mode");
    let gecmr = bench.vm.property("registers")?["GECMR"].as_u64();
    ensure!(Some(dumped(bench, GECMR)?.into()) == gecmr);
    // Counters are collected by the statistics, each once.
    let before = bench.counter("rx_errors")?;
    bench
        .vm
        .set_property("emac-events", "{\"TROCR\": 3}")
        .context("no counter of the MAC")?;
    let dropped = bench.counter("tx_dropped")?;
    ensure!(bench.counter("tx_dropped")? == dropped, "counted twice");
    bench.vm.ok(&format!("ethtool -d {IFACE} > /dev/null"))?;
    ensure!(bench.counter("rx_errors")? == before);
    bench.ping(3, 56)?;
    bench
        .vm
        .ok(&format!("ip link set {IFACE} down; sleep 0.5"))?;
    ensure!(dumped(bench, CSR)? & 0xf == 1, "not in RESET mode");
    clock_stops(bench)?;
    bench.up()?;
    bench.ping(3, 56)
}

/// How many PAUSE frames were obeyed, which nothing but a counter of the hardware says.
fn obeyed_pauses(bench: &mut Bench<'_>) -> Result<u64> {
    let text = bench.vm.ok(&format!("ethtool -I -a {IFACE}"))?;
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("rx_pause_frames: "));
    line.and_then(|value| value.parse().ok())
        .with_context(|| format!("no counter in {text}"))
}

/// PAUSE frames that the device obeys are counted.
fn pauses(bench: &mut Bench<'_>) -> Result<()> {
    const COUNT: u64 = 5;
    bench.up()?;
    let before = obeyed_pauses(bench)?;
    // To the group of MAC control, for a single quantum.
    let frame = format!(
        "0180c2000001{}8808000100{:02x}{}",
        "02005e000001",
        1,
        "00".repeat(42)
    );
    super::badinput::inject(
        bench,
        serde_json::json!({ "hex": frame, "count": COUNT, "gap_ns": 1_000_000 }),
    )?;
    bench.vm.ok("sleep 0.3")?;
    let rise = obeyed_pauses(bench)? - before;
    ensure!(rise == COUNT, "{rise} of {COUNT} were counted");
    ensure!(obeyed_pauses(bench)? - before == COUNT, "counted twice");
    Ok(())
}

/// The statistics of a queue, by the names that users know: programs look for them.
const STATISTICS: &[&str] = &[
    "rx_queue_0_packets",
    "rx_queue_0_bytes",
    "rx_queue_0_mcast_packets",
    "rx_queue_0_errors",
    "rx_queue_0_crc_errors",
    "rx_queue_0_frame_errors",
    "rx_queue_0_length_errors",
    "rx_queue_0_over_errors",
    "rx_queue_0_dropped",
    "rx_queue_0_alloc_fail",
    "tx_queue_0_packets",
    "tx_queue_0_bytes",
    "tx_queue_0_dropped",
];

/// The statistics have their names, and the counters of the standard agree with those of the
/// interface.
fn statistics(bench: &mut Bench<'_>) -> Result<()> {
    pauses(bench)?;
    let text = bench.vm.ok(&format!("ethtool -S {IFACE}"))?;
    let names = text.lines().filter_map(|line| {
        let (name, value) = line.trim().split_once(": ")?;
        value.parse::<u64>().is_ok().then_some(name)
    });
    ensure!(names.eq(STATISTICS.iter().copied()), "{text}");
    bench.ping(10, 1000)?;
    let value = |text: &str, name: &str| -> Result<u64> {
        text.lines()
            .find_map(|line| line.strip_prefix(&format!("eth-mac-{name}: ")))
            .and_then(|value| value.parse().ok())
            .with_context(|| format!("no {name} in {text}"))
    };
    // Nothing may pass between the two looks.
    let mut last = String::new();
    for _ in 0..10 {
        let text = bench.vm.ok(&format!(
            "ethtool -S {IFACE} --groups eth-mac
             cd /sys/class/net/{IFACE}/statistics
             echo rx: $(cat rx_packets); echo tx: $(cat tx_packets)
             echo rxb: $(cat rx_bytes); echo txb: $(cat tx_bytes)"
        ))?;
        let counter = |name: &str| -> Result<u64> {
            text.lines()
                .find_map(|line| line.strip_prefix(&format!("{name}: ")))
                .and_then(|value| value.parse().ok())
                .with_context(|| format!("no {name} in {text}"))
        };
        let (rx, tx) = (counter("rx")?, counter("tx")?);
        if value(&text, "FramesReceivedOK")? == rx
            && value(&text, "FramesTransmittedOK")? == tx
            && value(&text, "OctetsReceivedOK")? + 14 * rx == counter("rxb")?
            && value(&text, "OctetsTransmittedOK")? + 14 * tx == counter("txb")?
            && rx >= 10
        {
            return Ok(());
        }
        last = text;
    }
    bail!("the counters do not agree: {last}")
}

/// The self-test of the kernel passes, and traffic goes on behind it; without a cable it fails.
fn self_test(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let test = format!("ethtool -t {IFACE} offline");
    // The kernel gives each frame 200 ms, in which a host that has other things to do may not come
    // to run the guest: one of three attempts must succeed.
    bench.vm.ok(&format!("{test} || {test} || {test}"))?;
    // The PHY leaves the loop by a new negotiation, which it begins a moment later.
    bench.vm.ok("sleep 1")?;
    net::wait_for_link(bench.vm)?;
    bench.ping(5, 1000)?;
    bench.vm.ok(&format!("ip link set {IFACE} down"))?;
    let output = bench.vm.run(&test, 20)?;
    ensure!(output.status != 0, "passes while the interface is down");
    bench.up()?;
    bench.ping(5, 56)
}

/// Settings that are changed under traffic, each with its way back.
const GBETH_SETTINGS: &[&str] = &[
    "ip link set eth0 mtu 1000",
    "ip link set eth0 mtu 1500",
    "ip link set eth0 promisc on",
    "ip link set eth0 allmulticast on",
    "ethtool -G eth0 rx 128 tx 64",
    "ethtool -G eth0 rx 2048 tx 1024",
    "ethtool -G eth0 rx 1024 tx 256",
    "ip link set eth0 allmulticast off",
    "ip maddr add 01:00:5e:00:00:77 dev eth0",
    "ip maddr del 01:00:5e:00:00:77 dev eth0",
    "ip link add link eth0 name v7 type vlan id 7 && ip link set v7 up && ip link del v7",
    "ethtool -K eth0 rx off",
    "ethtool -K eth0 tx off",
    "ethtool -K eth0 rx on",
    "ethtool -K eth0 tx on",
    "ethtool -K eth0 tso off",
    "ethtool -K eth0 tso on",
    "ethtool -K eth0 gro off",
    "ethtool -K eth0 gro on",
    "ethtool --set-tunable eth0 rx-copybreak 256",
    "ethtool --set-tunable eth0 rx-copybreak 0",
    "ip link set eth0 address 02:00:00:00:00:99",
    "ip link set eth0 address 02:00:00:00:00:01",
    "ethtool -d eth0 > /dev/null; ethtool -S eth0 > /dev/null; ethtool eth0 > /dev/null",
];

const GEN3_SETTINGS: &[&str] = &[
    "ip link set eth0 promisc on",
    "ethtool -L eth0 combined 1",
    "ip link set eth0 mtu 2026",
    "ethtool -L eth0 combined 2",
    "ip link set eth0 mtu 1500",
    "ethtool -G eth0 rx 128 tx 64",
    "ethtool -K eth0 rx off",
    "ethtool -G eth0 rx 1024 tx 256",
    "ethtool -K eth0 rx on",
    "ip link set eth0 address 02:00:00:00:00:99",
    "ip link set eth0 address 02:00:00:00:00:01",
    "ethtool -L eth0 combined 2 && ethtool -d eth0 > /dev/null",
];

/// Each setting can be changed while TCP flows both ways: the connections live on, the carrier does
/// not go, and promiscuous mode stays.
fn traffic(bench: &mut Bench<'_>, settings: &[&str]) -> Result<()> {
    /// Longer than it takes, however busy the host is.
    const SECONDS: u64 = 600;
    const PROMISCUOUS: u64 = 1;
    bench.up()?;
    // The network hears of a new address.
    bench
        .vm
        .ok(&format!("sysctl -q net.ipv4.conf.{IFACE}.arp_notify=1"))?;
    let changes = format!("cat /sys/class/net/{IFACE}/carrier_changes");
    let carrier = bench.vm.ok(&changes)?;
    let receive = Iperf::start(&bench.parts.root)?;
    let transmit = Iperf::start(&bench.parts.root)?;
    bench.vm.ok(&format!(
        "rm -f /tmp/traffic*
         ({}; echo $? > /tmp/traffic-rx) > /tmp/traffic-log-rx 2>&1 &
         ({}; echo $? > /tmp/traffic-tx) > /tmp/traffic-log-tx 2>&1 &
         sleep 0.5",
        receive.client(Direction::Receive, SECONDS, ""),
        transmit.client(Direction::Transmit, SECONDS, "")
    ))?;
    let mut promiscuous = false;
    for setting in settings {
        bench.vm.ok(setting).with_context(|| setting.to_string())?;
        promiscuous |= setting.ends_with("promisc on");
        let ecmr = bench.vm.property("registers")?["ECMR"]
            .as_u64()
            .context("no ECMR")?;
        ensure!(
            (ecmr & PROMISCUOUS != 0) == promiscuous,
            "`{setting}`: ECMR is {ecmr:#x}"
        );
        cycles::traffic(bench).with_context(|| format!("after `{setting}`"))?;
    }
    // A client whose connection breaks ends.
    let ended = "cat /tmp/traffic-rx /tmp/traffic-tx 2> /dev/null; true";
    let text = bench.vm.ok(ended)?;
    ensure!(
        text.is_empty(),
        "a connection broke: {}",
        bench.vm.ok("cat /tmp/traffic-log-*")?
    );
    bench.vm.ok("for i in $(seq 100); do
             killall -q iperf3 || exit 0
             sleep 0.1
         done; exit 1")?;
    ensure!(bench.vm.ok(&changes)? == carrier, "the carrier went");
    bench
        .vm
        .ok(&format!("ip link set {IFACE} promisc off mtu 1500"))?;
    bench.ping(5, 1000)
}

/// What a setting may lose, in packets 20 ms apart: those that are in rings which are replaced, or
/// on the way to an address that is no longer ours.
fn may_lose(setting: &str) -> u64 {
    let switches = ["ethtool -G", "ethtool -L", "address"];
    if switches.iter().any(|words| setting.contains(words)) {
        2
    } else {
        0
    }
}

/// Settings lose nothing but what is under way where rings are switched.
fn lossless(bench: &mut Bench<'_>, settings: &[&str]) -> Result<()> {
    bench.up()?;
    bench
        .vm
        .ok(&format!("sysctl -q net.ipv4.conf.{IFACE}.arp_notify=1"))?;
    bench.ping(5, 56)?;
    for setting in settings {
        let text = bench.vm.ok(&format!(
            "ping -i 0.02 -c 20 -W 5 {} > /tmp/lossless & ping=$!
             sleep 0.2
             {{ {setting}; }} > /dev/null || exit 1
             wait $ping
             sed -n 's/^20 packets transmitted, \\([0-9]*\\) .*/\\1/p' /tmp/lossless",
            net::GATEWAY
        ))?;
        let received: u64 = text.trim().parse().with_context(|| text.clone())?;
        ensure!(
            received + may_lose(setting) >= 20,
            "`{setting}`: {received} of 20 packets were answered"
        );
    }
    bench
        .vm
        .ok(&format!("ip link set {IFACE} promisc off mtu 1500"))
        .map(drop)
}

/// Counters never shrink, whoever changes what; and what the hardware counts, and forgets when it
/// is read, is counted once, however many ask at the same time.
fn counters(bench: &mut Bench<'_>, changes: &[&str]) -> Result<()> {
    const EVENTS: u64 = 3;
    const ROUNDS: u64 = 20;
    bench.up()?;
    let before = obeyed_pauses(bench)?;
    for round in 0..ROUNDS {
        let events = format!("{{\"PFRCR\": {EVENTS}}}");
        bench.vm.set_property("emac-events", events)?;
        if round % 5 == 4 {
            // Nobody asks before it is reset.
            bench.vm.ok(&format!("ip link set {IFACE} down"))?;
            bench.up()?;
        } else {
            bench.vm.ok(&format!(
                "cd /sys/class/net/{IFACE}/statistics
                 for i in 1 2 3 4 5 6; do cat rx_errors > /dev/null & done; wait"
            ))?;
        }
    }
    let rise = obeyed_pauses(bench)? - before;
    ensure!(
        rise == EVENTS * ROUNDS,
        "{} events were counted as {rise}",
        EVENTS * ROUNDS
    );

    let iperf = Iperf::start(&bench.parts.root)?;
    bench.vm.ok(&format!(
        "rm -f /run/counters-*
         (while [ ! -e /run/counters-end ]; do {}; sleep 0.1; done) > /dev/null 2>&1 &
         (cd /sys/class/net/{IFACE}/statistics
          rounds=0
          while [ ! -e /run/counters-end ]; do
              for name in rx_packets rx_bytes tx_packets tx_bytes tx_dropped multicast; do
                  read -r new < $name
                  eval \"old=\\${{$name:-0}}\"
                  [ $new -ge $old ] || echo $name: $old to $new
                  eval \"$name=$new\"
              done
              rounds=$((rounds + 1))
          done
          echo rounds $rounds) > /run/counters-seen 2>&1 &",
        iperf.client(Direction::Transmit, 600, "")
    ))?;
    for _ in 0..5 {
        for change in changes {
            cycles::traffic(bench)?;
            bench.vm.ok(change)?;
        }
        cycles::traffic(bench)?;
        bench.vm.ok(&format!("ip link set {IFACE} down"))?;
        bench.up()?;
    }
    let seen = bench.vm.ok("touch /run/counters-end; killall -q iperf3
         for i in $(seq 100); do grep -q rounds /run/counters-seen && break; sleep 0.1; done
         cat /run/counters-seen")?;
    let rounds = seen.trim().strip_prefix("rounds ");
    let rounds: u64 = rounds
        .and_then(|text| text.parse().ok())
        .with_context(|| format!("counters shrank: {seen}"))?;
    ensure!(rounds > 100, "looked at only {rounds} times");
    bench.ping(3, 56)
}

/// The address can be changed while the interface is up: frames to the new one arrive.
fn address(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let old = bench.mac()?.map(|byte| format!("{byte:02x}")).join(":");
    for address in ["02:00:00:00:00:77", &old] {
        bench
            .vm
            .ok(&format!("ip link set {IFACE} address {address}"))?;
        let registers = bench.vm.property("registers")?;
        let low = registers["MALR"].as_u64().context("no MALR")?;
        ensure!(address.ends_with(&format!("{:02x}:{:02x}", low >> 8, low & 0xff)));
        // The network learns the new address from what the guest sends.
        bench.ping(1, 56).or_else(|_| bench.ping(1, 56))?;
        bench.ping(5, 56)?;
    }
    Ok(())
}

/// Waits until the clock of the device is off.
fn clock_stops(bench: &mut Bench<'_>) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(2);
    while bench.vm.property("state")?["clock"] != false {
        ensure!(Instant::now() < end, "the clock runs on");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// The PHY gets its driver anew, which asks it what it can do: transfers take place and succeed.
const PHY_DRIVER_AGAIN: &str = "
    cd -P /sys/bus/mdio_bus/devices/*:07 || exit 1
    phy=${PWD##*/}
    driver=$(readlink -f driver)
    reads=$(cat ../statistics/reads_7) errors=$(cat ../statistics/errors_7)
    echo $phy > \"$driver/unbind\" && [ ! -e driver ] || exit 1
    echo $phy > \"$driver/bind\" && [ -e driver ] || exit 1
    [ $(cat ../statistics/reads_7) -gt $reads ] || { echo 'nothing was read'; exit 1; }
    [ $(cat ../statistics/errors_7) = $errors ] || { echo 'transfers failed'; exit 1; }";

/// The clock stops when the interface is down, and runs while somebody uses the device: for a
/// dump of the registers, or for the PHY.
fn runtime_pm(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    ensure!(bench.vm.property("state")?["clock"] == true);
    bench.vm.ok(&format!("ip link set {IFACE} down"))?;
    clock_stops(bench)?;
    // In the time of the machine, whose timers may be late.
    let idle = bench.vm.property("state")?["idle_ns"].as_u64();
    let idle = idle.context("no time")? / 1_000_000;
    ensure!(
        (100..1000).contains(&idle),
        "the clock stopped {idle} ms after the last access, not 100 ms"
    );
    for command in [
        "ethtool -d eth0 > /dev/null".to_string(),
        PHY_DRIVER_AGAIN.to_string(),
        format!("ethtool -S {IFACE} > /dev/null; ip -s link show {IFACE} > /dev/null"),
    ] {
        bench.vm.ok(&command)?;
        clock_stops(bench).context(command)?;
    }
    bench.up()?;
    bench.ping(5, 56)
}

/// Rings are replaced many times under traffic, and no memory goes.
fn resize(bench: &mut Bench<'_>) -> Result<()> {
    cycles::cycle_often(
        bench,
        &format!("ethtool -G {IFACE} rx 2048 tx 1024"),
        &format!("ethtool -G {IFACE} rx 256 tx 64"),
    )?;
    bench
        .vm
        .ok(&format!("ethtool -G {IFACE} rx 1024 tx 256"))
        .map(drop)
}

/// Where the hardware does not go from one mode to another while rings are switched, the interface
/// is taken down, the settings stay as they were, and the user can bring it up again.
fn stuck(bench: &mut Bench<'_>, changes: &[&str]) -> Result<()> {
    for change in changes {
        bench.up()?;
        let settings = format!("ethtool -g {IFACE}; ethtool -l {IFACE}");
        let before = bench.vm.ok(&settings)?;
        bench.vm.set_property("mode-change-delay", "1000000000")?;
        let result = bench.vm.run(change, 30);
        bench.vm.set_property("mode-change-delay", "0")?;
        ensure!(result?.status != 0, "`{change}` succeeded");
        ensure!(
            bench.vm.ok(&settings)? == before,
            "`{change}` had an effect"
        );
        bench
            .vm
            .ok(&format!("ip link show {IFACE} | grep 'state DOWN'"))
            .with_context(|| format!("`{change}` does not take it down"))?;
        clock_stops(bench)?;
        bench.up()?;
        bench.ping(5, 1000)?;
        bench.vm.ok(change)?;
        net::wait_for_link(bench.vm)?;
        bench.ping(5, 56)?;
    }
    bench
        .vm
        .ok(&format!("ethtool -G {IFACE} rx 1024 tx 256"))
        .map(drop)
}

/// The fixed link is registered by the probe and by nothing else, and goes with the device.
fn fixed_link_again(bench: &mut Bench<'_>) -> Result<()> {
    /// More than there may be at a time.
    const ROUNDS: u32 = 40;
    bench.up()?;
    let device = bench.platform_device()?;
    let driver = format!("/sys/bus/platform/drivers/{}", bench.driver.module());
    let links = "ls /sys/bus/mdio_bus/devices | wc -l";
    let before = bench.vm.ok(links)?;
    ensure!(before.trim() == "1", "{before} links");
    let address = bench.up_script();
    bench.vm.ok_within(
        &format!(
            "for i in $(seq {ROUNDS}); do
                 echo {device} > {driver}/unbind || exit 1
                 [ $({links}) = 0 ] || {{ echo 'the link stays'; exit 1; }}
                 echo {device} > {driver}/bind || exit 1
                 for j in 1 2; do
                     {address}
                     [ $({links}) = 1 ] || {{ ls /sys/bus/mdio_bus/devices; exit 1; }}
                     ip link set {IFACE} down
                 done
             done"
        ),
        120,
    )?;
    bench.up()?;
    bench.ping(5, 56)
}

/// The PHY says what becomes of the link, by its interrupt, or because it is asked each second.
fn phy_reports(bench: &mut Bench<'_>, interrupt: bool) -> Result<()> {
    let raised = |bench: &mut Bench<'_>| -> Result<Option<u64>> {
        // The last number of a line is that of the interrupt at its controller.
        let text = bench
            .vm
            .ok("awk '/ethernet:07$/ { print $2 + $3 }' /proc/interrupts")?;
        Ok(text.trim().parse().ok())
    };
    bench.up()?;
    let before = raised(bench)?;
    ensure!(before.is_some() == interrupt, "interrupts: {before:?}");
    super::functional::cable(bench)?;
    ensure!(raised(bench)? > before || !interrupt, "no interrupt");
    bench.vm.ok(&format!("rmmod {}", bench.driver.module()))?;
    bench.up()?;
    bench.ping(5, 56)
}

/// Tries to open the interface many times, which must fail each time and leak nothing.
fn tries(bench: &mut Bench<'_>) -> Result<()> {
    let tries = |bench: &mut Bench<'_>, count: u32| -> Result<()> {
        // Not all at once, because each takes a while where something is waited for.
        for _ in 0..count.div_ceil(20) {
            bench.vm.ok_within(
                &format!(
                    "for i in $(seq {}); do
                         if ip link set {IFACE} up 2> /dev/null; then echo opened; exit 1; fi
                     done",
                    count.min(20)
                ),
                300,
            )?;
        }
        Ok(())
    };
    tries(bench, 3)?;
    let count = bench.many();
    cycles::constant_memory(bench, |bench| tries(bench, count))?;
    clock_stops(bench)
}

/// An interface that cannot be opened, because something of the hardware is stuck, stays down,
/// leaks nothing, and can be opened later. `values` of the model's property: usual and stuck.
fn failed_open(bench: &mut Bench<'_>, property: &str, values: [&str; 2]) -> Result<()> {
    bench.up()?;
    bench.vm.ok(&format!("ip link set {IFACE} down"))?;
    clock_stops(bench)?;
    bench.vm.set_property(property, values[1])?;
    let result = tries(bench);
    bench.vm.set_property(property, values[0])?;
    result?;
    bench.up()?;
    bench.ping(5, 56)
}

/// The same without a PHY.
fn failed_open_without_phy(bench: &mut Bench<'_>) -> Result<()> {
    bench.load()?;
    tries(bench)
}

/// What is shown and cannot be changed: a command, and lines of what it prints.
type Shown = (&'static str, &'static [&'static str]);

const GBETH_SHOWN: &[Shown] = &[
    (
        "ethtool -i eth0",
        &["driver: ravb_rs", "bus-info: ", "supports-statistics: yes"],
    ),
    (
        "ethtool -T eth0",
        &["software-transmit", "software-receive", "Clock: none"],
    ),
    (
        "ethtool -a eth0",
        &["Autonegotiate:\toff", "RX:\t\ton", "TX:\t\toff"],
    ),
    (
        "ethtool -k eth0",
        &["rx-all: off [fixed]", "loopback: off [fixed]"],
    ),
    ("ethtool -l eth0", &["Combined:\t1"]),
    (
        "ethtool eth0",
        &["Supports Wake-on: d", "10baseT/Half", "1000baseT/Full"],
    ),
];

const GEN3_SHOWN: &[Shown] = &[
    (
        "ethtool -i eth0",
        &["driver: ravb_rs", "bus-info: ", "supports-statistics: yes"],
    ),
    (
        "ethtool -T eth0",
        &["software-transmit", "software-receive"],
    ),
    (
        "ethtool -a eth0",
        &["Autonegotiate:\toff", "RX:\t\toff", "TX:\t\toff"],
    ),
    (
        "ethtool -k eth0",
        &["rx-all: off\n", "loopback: off [fixed]"],
    ),
    ("ethtool -l eth0", &["Combined:\t2"]),
    (
        "ethtool eth0",
        &["Supports Wake-on: g", "Wake-on: d", "100baseT/Full"],
    ),
];

/// What ethtool shows of a device is what the device is.
fn shown(bench: &mut Bench<'_>, shown: &[Shown]) -> Result<()> {
    bench.up()?;
    for (command, lines) in shown {
        let text = bench.vm.ok(command)?;
        for line in *lines {
            ensure!(text.contains(line), "`{command}` lacks {line:?}: {text}");
        }
    }
    Ok(())
}

/// The log tells of the link as long as the user wants that.
fn messages(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    for (level, told) in [("off", false), ("on", true)] {
        bench
            .vm
            .ok(&format!("ethtool -s {IFACE} msglvl link {level}"))?;
        let text = bench.vm.ok(&format!("ethtool {IFACE}"))?;
        let (_, kinds) = text
            .split_once("Current message level")
            .context("no level")?;
        ensure!(
            kinds.split_whitespace().any(|kind| kind == "link") == told,
            "link {level}: the level is shown as {text}"
        );
        let mark = bench.vm.console_mark("link")?;
        bench.vm.set_property("cable", "off")?;
        bench.vm.ok("sleep 0.5")?;
        bench.vm.set_property("cable", "on")?;
        net::wait_for_link(bench.vm)?;
        bench.vm.console_mark("linked")?;
        let log = bench.vm.console_since(mark);
        ensure!(
            log.contains("Link is Down") == told && log.contains("Link is Up") == told,
            "link {level}: the log says\n{log}"
        );
    }
    bench.ping(3, 56)
}

/// A speed that is chosen, instead of negotiated, is the one that MAC and PHY use; a negotiation
/// that is asked for takes place.
fn link_settings(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let result = (|| {
        for (speed, duplex) in [(100, "full"), (100, "half"), (10, "full")] {
            bench
                .vm
                .set_property("partner", format!("{speed}-{duplex}"))?;
            bench.vm.ok(&format!(
                "ethtool -s {IFACE} autoneg off speed {speed} duplex {duplex}; sleep 0.5"
            ))?;
            ensure!(net::wait_for_link(bench.vm)? == speed);
            let text = bench.vm.ok(&format!("ethtool {IFACE}"))?.to_lowercase();
            ensure!(
                text.contains("auto-negotiation: off")
                    && text.contains(&format!("duplex: {duplex}")),
                "{text}"
            );
            bench.ping(3, 1000)?;
        }
        Ok(())
    })();
    bench.vm.set_property("partner", "1000-full")?;
    bench
        .vm
        .ok(&format!("ethtool -s {IFACE} autoneg on; sleep 0.5"))?;
    result?;
    ensure!(net::wait_for_link(bench.vm)? == 1000);
    let changes = format!("cat /sys/class/net/{IFACE}/carrier_changes");
    let before = bench.vm.ok(&changes)?;
    bench.vm.ok(&format!("ethtool -r {IFACE}; sleep 0.5"))?;
    net::wait_for_link(bench.vm)?;
    ensure!(bench.vm.ok(&changes)? != before, "nothing was negotiated");
    bench.ping(3, 56)
}

/// Damaged frames are counted and dropped, or, where the user wants them, counted and passed up,
/// with every byte that they have and nothing said of their checksums.
fn rx_all(bench: &mut Bench<'_>) -> Result<()> {
    use super::badinput::{inject, rise};
    use serde_json::json;
    const COUNT: u64 = 10;
    const SOURCE: [u8; 6] = [2, 0, 0x5e, 0, 0, 1];
    const TYPE: [u8; 2] = [0x88, 0xb5];
    let damaged = [
        (json!({ "len": 200, "bad_fcs": true }), "rx_crc_errors"),
        (json!({ "len": 40 }), "rx_length_errors"),
        (json!({ "len": 100, "msc": 2 }), "rx_frame_errors"),
    ];
    let hex = |bytes: &[u8]| -> String { bytes.iter().map(|byte| format!("{byte:02x}")).collect() };
    bench.up()?;
    let header = [&bench.mac()?[..], &SOURCE, &TYPE].concat();
    // Ends a capture.
    let last = hex(&[&header[..], b"last frame of a capture", &[0; 40]].concat());
    for (wanted, setting) in [(0, "off"), (COUNT, "on"), (0, "off")] {
        bench
            .vm
            .ok(&format!("ethtool -K {IFACE} rx-all {setting}"))?;
        for (frame, counter) in &damaged {
            bench.vm.ok(&format!(
                "rm -f /tmp/all
                 (/lab/sniff {IFACE} {}; echo end) > /tmp/all 2>&1 &
                 for i in $(seq 500); do grep -q listening /tmp/all && exit 0; sleep 0.02; done
                 cat /tmp/all; exit 1",
                hex(&SOURCE)
            ))?;
            let mut frame = frame.clone();
            frame["count"] = json!(COUNT);
            frame["gap_ns"] = json!(1_000_000);
            frame["fill"] = json!("ramp");
            let rises = rise(bench, &["rx_errors", counter], |bench| {
                inject(bench, frame.clone())
            })?;
            inject(bench, json!({ "hex": last }))?;
            let text = bench.vm.ok(
                "for i in $(seq 500); do grep -q end /tmp/all && break; sleep 0.02; done
                 sed -e 1d -e '/^end$/d' /tmp/all",
            )?;
            ensure!(rises == [COUNT, COUNT], "{frame}: errors rose by {rises:?}");
            let length = frame["len"].as_u64().context("no length")? as usize;
            let payload = (0..length - header.len()).map(|i| i as u8);
            let whole = header.iter().copied().chain(payload);
            let expected = format!("{length} {:08x} none\n", crc32(whole));
            ensure!(
                text == expected.repeat(wanted as usize),
                "rx-all {setting}: {frame} was seen as {text}, not {wanted} times {expected}"
            );
        }
        bench.ping(5, 1000)?;
    }
    Ok(())
}

/// The CRC-32 of Ethernet.
fn crc32(bytes: impl Iterator<Item = u8>) -> u32 {
    !bytes.fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            crc >> 1 ^ (0xedb8_8320 & (crc & 1).wrapping_neg())
        })
    })
}

/// Puts the system to sleep for two seconds.
fn sleep(bench: &mut Bench<'_>) -> Result<()> {
    sleep_to(bench, "none")
}

/// Puts the system to sleep as far as `/sys/power/pm_test` says.
fn sleep_to(bench: &mut Bench<'_>, level: &str) -> Result<()> {
    let mark = bench.vm.console_mark("asleep")?;
    // The answer must be out before the channel falls asleep.
    bench.vm.ok(&format!(
        "rm -f /tmp/awake; echo {level} > /sys/power/pm_test || exit 1
         echo 1 > /sys/module/suspend/parameters/pm_test_delay
         echo 0 > /sys/class/rtc/rtc0/wakealarm; echo +3 > /sys/class/rtc/rtc0/wakealarm
         (sleep 1; echo freeze > /sys/power/state; echo $? > /tmp/awake) > /dev/null 2>&1 &"
    ))?;
    let end = Instant::now() + Duration::from_secs(60);
    while !bench.vm.console_since(mark).contains("PM: suspend exit") {
        ensure!(Instant::now() < end, "the system sleeps on");
        std::thread::sleep(Duration::from_millis(50));
    }
    bench.vm.reconnect()?;
    let status = bench.vm.ok(
        "for i in $(seq 200); do [ -s /tmp/awake ] && break; sleep 0.05; done
         echo none > /sys/power/pm_test; cat /tmp/awake",
    )?;
    ensure!(status.trim() == "0", "the system did not go to sleep");
    Ok(())
}

/// A suspend that turns back at each of the stages which the kernel offers for tests: with traffic
/// going on, and with the interface down.
fn pm_test(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let iperf = Iperf::start(&bench.parts.root)?;
    bench.vm.ok(&format!(
        "rm -f /run/pm-end
         (while [ ! -e /run/pm-end ]; do {}; sleep 0.1; done) > /dev/null 2>&1 &",
        iperf.client(Direction::Receive, 600, "")
    ))?;
    for level in ["freezer", "devices", "platform"] {
        cycles::traffic(bench)?;
        let mark = bench.vm.console_mark(level)?;
        sleep_to(bench, level)?;
        ensure!(
            bench
                .vm
                .console_since(mark)
                .contains("suspend debug: Waiting"),
            "it did not turn back at {level}"
        );
        net::wait_for_link(bench.vm)?;
        cycles::traffic(bench).with_context(|| format!("after {level}"))?;
    }
    bench.vm.ok("touch /run/pm-end
         for i in $(seq 100); do killall -q iperf3 || exit 0; sleep 0.1; done; exit 1")?;
    bench.vm.ok(&format!("ip link set {IFACE} down"))?;
    for level in ["devices", "platform"] {
        sleep_to(bench, level)?;
        clock_stops(bench)?;
    }
    bench.up()?;
    bench.ping(5, 56)
}

/// The device sleeps with the system and works as before afterwards, up and down; the clock is off
/// meanwhile, and promiscuous mode stays.
fn suspend(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    bench.vm.ok(&format!(
        "ip link set {IFACE} promisc on; ethtool -G {IFACE} rx 512"
    ))?;
    let phy = format!("readlink /sys/class/net/{IFACE}/phydev; true");
    let attached = bench.vm.ok(&phy)?;
    let mark = bench.vm.console_mark("up")?;
    sleep(bench)?;
    net::wait_for_link(bench.vm)?;
    bench.ping(5, 1000)?;
    let ecmr = bench.vm.property("registers")?["ECMR"].as_u64();
    ensure!(
        ecmr.is_some_and(|ecmr| ecmr & 1 != 0),
        "not promiscuous any more: {ecmr:x?}"
    );
    ensure!(bench.vm.ok(&phy)? == attached);
    ensure!(
        !bench.vm.console_since(mark).contains("attached PHY driver"),
        "the PHY was connected anew"
    );
    bench.vm.ok(&format!(
        "ip link set {IFACE} promisc off; ip link set {IFACE} down"
    ))?;
    sleep(bench)?;
    clock_stops(bench)?;
    bench.up()?;
    bench.ping(5, 56)?;
    bench
        .vm
        .ok(&format!("ethtool -G {IFACE} rx 1024"))
        .map(drop)
}

/// When the system restarts or powers off under traffic, the device has stopped before: it does not
/// write into the memory of what runs next. A process that wants to open the interface at the last
/// moment cannot.
fn restart(bench: &mut Bench<'_>, command: &str) -> Result<()> {
    bench.up()?;
    let iperf = Iperf::start(&bench.parts.root)?;
    bench.vm.ok(&format!(
        "{} > /dev/null 2>&1 &
         (while :; do ip link set {IFACE} down; ip link set {IFACE} up; sleep 0.3; done) \
             > /dev/null 2>&1 &
         sleep 1",
        iperf.client(Direction::Receive, 60, "")
    ))?;
    bench.vm.stand_still_at_the_end()?;
    bench
        .vm
        .ok(&format!("(sleep 0.5; {command}) > /dev/null 2>&1 &"))?;
    bench.vm.wait_until_it_stands(Duration::from_secs(30))?;
    let state = bench.vm.property("state")?;
    bench.vm.boot_again()?;
    ensure!(
        state["mode"] == "reset" || state["reset"] == true,
        "the device is left in a state in which it uses memory: {state}"
    );
    bench.up()?;
    bench.ping(5, 56)
}

/// Boots the same kernel from within, while frames flow in that go on to flow: the device has
/// stopped before the next kernel runs, and touches none of its memory until its driver is loaded.
fn kexec(bench: &mut Bench<'_>) -> Result<()> {
    use serde_json::json;
    const BANNER: &str = "Booting Linux on physical CPU";
    bench.up()?;
    for (name, path) in [
        ("image", bench.parts.kernel.clone()),
        ("initramfs", bench.vm.initramfs.clone()),
    ] {
        let port = net::serve(&path)?;
        let get = format!("nc {} {port} > /tmp/{name}", net::GATEWAY);
        bench.vm.ok_within(&get, 120)?;
    }
    bench.vm.ok_within(
        "kexec -c -l /tmp/image --initrd=/tmp/initramfs --reuse-cmdline || exit 1
         rm /tmp/image /tmp/initramfs",
        120,
    )?;
    // The server sends on, whether or not anybody is there.
    let iperf = Iperf::start(&bench.parts.root)?;
    let client = iperf.client(Direction::Receive, 600, "--udp --bitrate 20M --length 1448");
    bench
        .vm
        .ok(&format!("{client} > /dev/null 2>&1 &\nsleep 2"))?;
    let frames = |bench: &mut Bench<'_>| -> Result<_> {
        let counters = bench.vm.property("counters")?;
        let lost = counters["rx_drops"]["disabled"].as_u64();
        Ok((counters["frames"].clone(), lost.context("no drops")?))
    };
    let before = frames(bench)?;
    let mark = bench.vm.console_mark("kexec")?;
    // Without closing the interface, as it would by itself.
    bench
        .vm
        .ok("(sleep 0.5; kexec --no-ifdown -e) > /dev/null 2>&1 &")?;
    bench
        .vm
        .wait_for_console(mark, BANNER, Duration::from_secs(60))?;
    let state = bench.vm.property("state")?;
    let (stored, lost) = frames(bench)?;
    ensure!(stored != before.0, "no traffic: the test tests nothing");
    bench.vm.answers_again()?;
    ensure!(
        state["mode"] == "reset" || state["reset"] == true,
        "the device is left in a state in which it uses memory: {state}"
    );
    // Most of the memory is one file, into which nobody else may write.
    bench.vm.ok_within(
        "dd if=/dev/zero of=/tmp/zeros bs=1M count=800 2> /dev/null",
        60,
    )?;
    bench.vm.set_property(
        "inject",
        json!({ "len": 1000, "fill": 0x5a, "count": 5000 }).to_string(),
    )?;
    bench.vm.ok_within(
        "sleep 1; [ $(tr -d '\\0' < /tmp/zeros | head -c 100 | wc -c) = 0 ] && rm /tmp/zeros",
        120,
    )?;
    let after = frames(bench)?;
    ensure!(after.0 == stored, "frames went to memory: {after:?}");
    ensure!(
        after.1 > lost + 5000,
        "no frames came after the kernel had started: the test tests nothing"
    );
    drop(iperf);
    bench.up()?;
    bench.ping(10, 1000)
}

/// The number of queues in use.
fn queues(bench: &mut Bench<'_>) -> Result<usize> {
    let text = bench
        .vm
        .ok(&format!("ls -d /sys/class/net/{IFACE}/queues/rx-* | wc -l"))?;
    Ok(text.trim().parse()?)
}

/// With one queue, network control frames arrive in that one; with two, in the second.
fn channels(bench: &mut Bench<'_>) -> Result<()> {
    use super::badinput::inject;
    use super::variants::{PTP_GROUP, PTP_TYPE};
    const COUNT: u64 = 5;
    bench.up()?;
    for count in [1, 2] {
        bench
            .vm
            .ok(&format!("ethtool -L {IFACE} combined {count}"))?;
        ensure!(queues(bench)? == count);
        let name = format!("rx_queue_{}_packets", count - 1);
        let before = bench.statistic(&name)?;
        inject(
            bench,
            serde_json::json!({ "len": 100, "da": PTP_GROUP, "type": PTP_TYPE, "count": COUNT }),
        )?;
        bench.vm.ok("sleep 0.3")?;
        let rise = bench.statistic(&name)? - before;
        ensure!(rise >= COUNT, "{rise} of {COUNT} in queue {}", count - 1);
        bench.ping(5, 1000)?;
        // The number outlives the interface's being down.
        bench.vm.ok(&format!("ip link set {IFACE} down"))?;
        bench.up()?;
        ensure!(queues(bench)? == count, "forgotten when it was down");
        bench.ping(3, 56)?;
    }
    Ok(())
}

/// Two devices, each other's partner: frames go both ways while one of them is taken down, resized,
/// unbound and bound.
fn two_devices(bench: &mut Bench<'_>) -> Result<()> {
    net::load(bench.vm, bench.driver)?;
    let peer = "ip netns exec peer";
    bench.vm.ok("ip netns add peer
         ip link set eth1 netns peer
         ip addr add 192.0.3.1/24 dev eth0; ip link set eth0 up
         ip -n peer addr add 192.0.3.2/24 dev eth1; ip -n peer link set eth1 up")?;
    let ping = "for i in $(seq 50); do ping -c 1 -W 1 192.0.3.2 > /dev/null && break; done
                ping -c 10 -i 0.05 -s 1400 192.0.3.2 > /tmp/ping || { cat /tmp/ping; exit 1; }
                grep ' 0% packet loss' /tmp/ping";
    bench.vm.ok(ping)?;
    let text = bench.vm.ok_within(
        &format!(
            "{peer} iperf3 -s -D -1 -I /tmp/iperf.pid; sleep 0.5
             iperf3 -c 192.0.3.2 -t 3 -f m"
        ),
        40,
    )?;
    ensure!(text.contains("receiver"), "{text}");
    let device = bench.platform_device()?;
    let driver = format!("/sys/bus/platform/drivers/{}", bench.driver.module());
    for change in [
        "ethtool -G eth0 rx 128 tx 64".to_string(),
        format!("{peer} ethtool -G eth1 rx 128 tx 64"),
        format!("{peer} ip link set eth1 down; {peer} ip link set eth1 up"),
        format!(
            "echo {device} > {driver}/unbind; echo {device} > {driver}/bind
             ip addr add 192.0.3.1/24 dev eth0; ip link set eth0 up"
        ),
    ] {
        bench.vm.ok(&change)?;
        bench.vm.ok(ping).context(change)?;
    }
    bench
        .vm
        .ok(&format!(
            "rmmod {}; ip netns del peer",
            bench.driver.module()
        ))
        .map(drop)
}

/// A generator of numbers that look random (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[(self.next() % from.len() as u64) as usize]
    }
}

/// What can be done to an interface at any time.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Up,
    Down,
    Rebind,
    Cable,
    Suspend,
    /// A command with something for the placeholder; it may be refused, but not do harm.
    Command(&'static str, &'static [&'static str]),
}

/// More often than the others: what changes rings and modes.
const OPERATIONS: &[Operation] = &[
    Operation::Up,
    Operation::Up,
    Operation::Up,
    Operation::Down,
    Operation::Rebind,
    Operation::Cable,
    Operation::Suspend,
    Operation::Command("ethtool -G eth0 rx {}", &["64", "128", "1024", "2048", "7"]),
    Operation::Command("ethtool -G eth0 tx {}", &["64", "100", "256", "1024", "1"]),
    Operation::Command("ethtool -L eth0 combined {}", &["1", "2"]),
    Operation::Command("ethtool -K eth0 rx {}", &["on", "off"]),
    Operation::Command("ethtool -K eth0 tx {}", &["on", "off"]),
    Operation::Command("ethtool -K eth0 sg {}", &["on", "off"]),
    Operation::Command("ethtool -K eth0 tso {}", &["on", "off"]),
    Operation::Command("ethtool -K eth0 rx-all {}", &["on", "off"]),
    Operation::Command("ip link set eth0 mtu {}", &["68", "1000", "1500", "2026"]),
    Operation::Command(
        "ip link set eth0 address {}",
        &["02:00:00:00:00:01", "02:00:00:00:00:99"],
    ),
    Operation::Command("ip link set eth0 promisc {}", &["on", "off"]),
    Operation::Command("echo {} > /sys/class/net/eth0/threaded", &["0", "1"]),
    Operation::Command("ethtool -r eth0; ethtool -d eth0 {}", &["> /dev/null"]),
    Operation::Command("ethtool -t eth0 {}", &["offline"]),
];

/// Random operations under traffic: after each, the device answers within five seconds or is down
/// as it should be. The first seed is the same each time; a failure names the one and the
/// operations that led to it.
fn random(bench: &mut Bench<'_>) -> Result<()> {
    // A minute in `make check`, ten in `make check-all`.
    let (seeds, seconds) = if bench.long { (10, 60) } else { (1, 60) };
    for seed in 1..=seeds {
        let mut done = Vec::new();
        random_from(bench, seed, Duration::from_secs(seconds), &mut done).with_context(|| {
            format!(
                "seed {seed}, after {} operations: {}",
                done.len(),
                done.join("; ")
            )
        })?;
    }
    Ok(())
}

fn random_from(
    bench: &mut Bench<'_>,
    seed: u64,
    duration: Duration,
    done: &mut Vec<String>,
) -> Result<()> {
    let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    bench.up()?;
    let device = bench.platform_device()?;
    let driver = format!("/sys/bus/platform/drivers/{}", bench.driver.module());
    let iperf = Iperf::start(&bench.parts.root)?;
    bench.vm.ok(&format!(
        "rm -f /run/random-end
         (while [ ! -e /run/random-end ]; do {}; sleep 0.1; done) > /dev/null 2>&1 &",
        iperf.client(Direction::Transmit, 5, "")
    ))?;
    let address = bench.up_script();
    let mut up = true;
    let end = Instant::now() + duration;
    while Instant::now() < end {
        let operation = random.pick(OPERATIONS);
        let mut name = format!("{operation:?}");
        match operation {
            Operation::Up => {
                bench.vm.ok(&address)?;
                up = true;
            }
            Operation::Down => {
                bench.vm.ok(&format!("ip link set {IFACE} down"))?;
                up = false;
            }
            Operation::Rebind => {
                bench.vm.ok(&format!(
                    "echo {device} > {driver}/unbind; echo {device} > {driver}/bind"
                ))?;
                up = false;
            }
            Operation::Cable => {
                bench.vm.set_property("cable", "off")?;
                bench.vm.ok("sleep 0.2")?;
                bench.vm.set_property("cable", "on")?;
            }
            Operation::Suspend => sleep(bench)?,
            Operation::Command(command, values) => {
                name = command.replace("{}", random.pick(values));
                bench.vm.run(&name, 20)?;
            }
        }
        done.push(name);
        let text = if up {
            // The first one may be lost to the neighbour's old address.
            bench.vm.ok(&format!(
                "for i in $(seq 10); do
                     ping -c 1 -W 1 {} > /dev/null 2>&1 && exit 0; sleep 0.4
                 done
                 ip -s -d link show {IFACE}; exit 1",
                net::GATEWAY
            ))
        } else {
            bench
                .vm
                .ok(&format!("ip link show {IFACE} | grep 'state DOWN'"))
        };
        text.context(if up { "no answer" } else { "not down" })?;
    }
    bench.vm.ok(&format!(
        "touch /run/random-end; killall -q iperf3
         echo 0 > /sys/class/net/{IFACE}/threaded
         ethtool -G {IFACE} rx 1024 tx 256; ethtool -K {IFACE} rx on tx on sg on tso on rx-all off
         ip link set {IFACE} promisc off mtu 1500 address 02:00:00:00:00:01
         [ $(ethtool -l {IFACE} | sed -n 's/^Combined:[[:space:]]*//p' | head -n 1) = 1 ] ||
             ethtool -L {IFACE} combined 2; true"
    ))?;
    bench.up()?;
    bench.ping(5, 56)
}
