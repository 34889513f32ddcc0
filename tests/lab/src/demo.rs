// SPDX-License-Identifier: GPL-2.0
//! `make demo`: the driver in the stock kernel carries real traffic.

use crate::env::{Driver, DriverChoice, Env};
use crate::net::{self, Direction, Iperf, Ping, Udp, IFACE};
use crate::report;
use crate::steps::kernel::Flavour;
use crate::ui::Progress;
use crate::vm::{Console, Machine, Net, Parts, Vm};
use anyhow::{bail, Context, Result};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Instant;

/// Seconds of each measurement.
const SECONDS: u64 = 2;

/// TCP runs per direction; the median counts.
const TCP_RUNS: usize = 3;

/// Largest offered UDP load in Mbit/s.
const UDP_RATE: f64 = 50.0;

/// Offered UDP load for a direction in which TCP reached `tcp`: far enough below that loss means a
/// fault and not a host that is too slow to emulate more.
fn udp_rate(tcp: f64) -> u32 {
    (tcp / 3.0).clamp(1.0, UDP_RATE) as u32
}

/// What one driver achieved: an object of demo.json.
#[derive(Serialize)]
struct Measured {
    driver: String,
    kernel_release: String,
    link_mbps: u64,
    address: String,
    ping_sent: u64,
    ping_received: u64,
    tcp_rx_mbps: f64,
    tcp_tx_mbps: f64,
    udp_rx_mbps: f64,
    udp_rx_loss_percent: f64,
    udp_tx_mbps: f64,
    udp_tx_loss_percent: f64,
    rule_violations: u64,
    violations: BTreeMap<String, u64>,
    kernel_complaints: Vec<String>,
    wall_seconds: f64,
}

/// Runs the demo and writes demo.json. An error says what did not work.
pub(crate) fn run(env: &Env, choice: DriverChoice) -> Result<()> {
    let parts = Parts::get(env, Flavour::Stock, choice.drivers())?;
    let mut results = BTreeMap::new();
    for &driver in choice.drivers() {
        eprintln!("\n{driver}:");
        results.insert(driver.key(), one(&parts, driver)?);
    }
    report::write(env, "demo", &results)?;
    println!("\n{}", report::table(&rows(results.values())));
    judge(&results)
}

fn one(parts: &Parts, driver: Driver) -> Result<Measured> {
    let start = Instant::now();
    let progress = Progress::start("boot");
    let machine = Machine::rzg2l(Net::User);
    let mut vm = Vm::boot(
        parts,
        &machine,
        Console::Log(&format!("demo-{}", driver.key())),
    )?;
    progress.done();
    let mark = vm.console_mark("demo")?;

    let progress = Progress::start("load the driver, wait for the link, get an address");
    net::load(&mut vm, driver)?;
    vm.ok(&format!("ip link set {IFACE} up"))?;
    let link_mbps = net::wait_for_link(&mut vm)?;
    let address = net::dhcp(&mut vm)?;
    progress.done();

    let progress = Progress::start("ping");
    let Ping { sent, received, .. } = net::ping(&mut vm, 20, 56)?;
    progress.done();

    let progress = Progress::start("iperf3, TCP and UDP, both ways");
    let iperf = Iperf::start(&parts.root)?;
    let tcp_rx_mbps = median(&iperf, &mut vm, Direction::Receive)?;
    let tcp_tx_mbps = median(&iperf, &mut vm, Direction::Transmit)?;
    let Udp {
        mbps: udp_rx_mbps,
        loss: udp_rx_loss_percent,
    } = iperf.udp(&mut vm, Direction::Receive, SECONDS, udp_rate(tcp_rx_mbps))?;
    let Udp {
        mbps: udp_tx_mbps,
        loss: udp_tx_loss_percent,
    } = iperf.udp(&mut vm, Direction::Transmit, SECONDS, udp_rate(tcp_tx_mbps))?;
    progress.done();

    for command in [
        format!("ethtool -i {IFACE}"),
        format!("ip -s link show dev {IFACE}"),
    ] {
        println!("\nguest# {command}\n{}", vm.ok(&command)?.trim_end());
    }
    let log = vm.console_since(mark);
    println!("\nlog of the driver:");
    for line in log.lines().filter(|line| about(line, driver)) {
        println!("{line}");
    }
    let violations = vm.violations()?;
    Ok(Measured {
        driver: vm
            .ok(&format!("ethtool -i {IFACE} | sed -n 's/^driver: //p'"))?
            .trim()
            .to_string(),
        kernel_release: vm.ok("uname -r")?.trim().to_string(),
        link_mbps,
        address,
        ping_sent: sent,
        ping_received: received,
        tcp_rx_mbps,
        tcp_tx_mbps,
        udp_rx_mbps,
        udp_rx_loss_percent,
        udp_tx_mbps,
        udp_tx_loss_percent,
        rule_violations: violations.values().sum(),
        violations,
        kernel_complaints: crate::check::complaints(&log),
        wall_seconds: start.elapsed().as_secs_f64(),
    })
}

fn median(iperf: &Iperf, vm: &mut Vm, direction: Direction) -> Result<f64> {
    let mut rates = Vec::new();
    for _ in 0..TCP_RUNS {
        rates.push(iperf.tcp(vm, direction, SECONDS)?);
    }
    Ok(net::median(rates))
}

/// Whether a line of the console comes from the driver, its PHY or its interface.
fn about(line: &str, driver: Driver) -> bool {
    [driver.module(), IFACE, "mdio", "PHY", "Phy"]
        .iter()
        .any(|word| line.contains(word))
}

fn rows<'a>(results: impl Iterator<Item = &'a Measured>) -> Vec<Vec<String>> {
    let all: Vec<&Measured> = results.collect();
    let row = |name: &str, value: &dyn Fn(&Measured) -> String| {
        let mut row = vec![name.to_string()];
        row.extend(all.iter().map(|measured| value(measured)));
        row
    };
    let rate = |value: f64| format!("{value:.0} Mbit/s");
    vec![
        row("", &|m| m.driver.clone()),
        row("kernel", &|m| m.kernel_release.clone()),
        row("link", &|m| format!("{} Mbit/s", m.link_mbps)),
        row("address", &|m| m.address.clone()),
        row("ping", &|m| {
            format!("{} of {}", m.ping_received, m.ping_sent)
        }),
        row("TCP receive", &|m| rate(m.tcp_rx_mbps)),
        row("TCP transmit", &|m| rate(m.tcp_tx_mbps)),
        row("UDP receive", &|m| rate(m.udp_rx_mbps)),
        row("UDP receive, lost", &|m| {
            format!("{:.2} %", m.udp_rx_loss_percent)
        }),
        row("UDP transmit", &|m| rate(m.udp_tx_mbps)),
        row("hardware rules broken", &|m| m.rule_violations.to_string()),
        row("wall clock", &|m| format!("{:.0} s", m.wall_seconds)),
    ]
}

/// The demo fails where traffic got lost or our driver broke a rule, however nice the table looks.
fn judge(results: &BTreeMap<&str, Measured>) -> Result<()> {
    for measured in results.values() {
        if measured.ping_received != measured.ping_sent {
            bail!("{}: pings were lost", measured.driver);
        }
        if let Some(line) = measured.kernel_complaints.first() {
            bail!("{}: the kernel complained: {line}", measured.driver);
        }
    }
    let ours = results.get(Driver::Rust.key());
    if let Some(measured) = ours.filter(|measured| measured.rule_violations > 0) {
        let list = serde_json::to_string(&measured.violations).context("cannot show them")?;
        bail!("{}: broke rules of the hardware: {list}", measured.driver);
    }
    Ok(())
}
