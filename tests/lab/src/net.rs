// SPDX-License-Identifier: GPL-2.0
//! What demo and tests do with a network interface in the guest.

use crate::env::Driver;
use crate::proc::Running;
use crate::steps::root::Root;
use crate::vm::Vm;
use anyhow::{bail, Context, Result};
use serde_json::Value;
use std::fs::File;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// Name of the device's interface in the guest.
pub(crate) const IFACE: &str = "eth0";

/// The other end of QEMU's user network: answers pings, forwards to the host's loopback.
pub(crate) const GATEWAY: &str = "10.0.2.2";

/// Address the user network expects the guest to have.
pub(crate) const ADDRESS: &str = "10.0.2.15/24";

/// How long autonegotiation may take.
const LINK_SECONDS: u64 = 15;

/// Loads a driver and returns the shell script's output.
pub(crate) fn load(vm: &mut Vm, driver: Driver) -> Result<()> {
    vm.ok(&load_script(driver))
        .with_context(|| format!("cannot load {driver}"))?;
    Ok(())
}

/// Shell script that loads a driver: ours as its user would, from a file.
pub(crate) fn load_script(driver: Driver) -> String {
    // Without udev nothing loads the PHY's driver before the MAC looks for it.
    let common = "modprobe micrel || exit 1\n";
    match driver {
        Driver::C => format!("{common}modprobe ravb"),
        Driver::Rust => format!(
            "{common}for m in $(modinfo -F depends /lab/ravb-rs.ko | tr , ' '); do \
             modprobe $m || exit 1; done\ninsmod /lab/ravb-rs.ko"
        ),
    }
}

/// Waits until no page pool of an interface that is gone has pages out.
pub(crate) fn wait_for_pools(vm: &mut Vm) -> Result<()> {
    vm.ok(&format!(
        "for i in $(seq 100); do [ -z \"$(/lab/netdev pools {IFACE})\" ] && exit 0; sleep 0.1
         done; /lab/netdev pools {IFACE}; exit 1"
    ))
    .context("pages do not come back after rmmod")?;
    Ok(())
}

/// Waits for the link and returns its speed in Mbit/s.
///
/// The carrier alone does not do: until the core has heard of it, the interface has no queueing
/// discipline, and what is sent is dropped without a count. Nor does the state, as the core hears
/// late of a carrier that is lost. `ip` waits for the lock under which it hears.
pub(crate) fn wait_for_link(vm: &mut Vm) -> Result<u64> {
    let script = format!(
        "cd /sys/class/net/{IFACE} || exit 1
         for i in $(seq {}); do
             [ \"$(cat operstate)\" = up ] && [ \"$(cat carrier 2> /dev/null)\" = 1 ] &&
                 ip link show {IFACE} > /dev/null && exec cat speed
             sleep 0.05
         done
         echo 'no link'; exit 1",
        LINK_SECONDS * 20
    );
    let text = vm
        .ok_within(&script, LINK_SECONDS + 10)
        .context("the link does not come up")?;
    text.trim()
        .parse()
        .with_context(|| format!("{text:?} is no speed"))
}

/// Asks the user network for an address and returns it.
pub(crate) fn dhcp(vm: &mut Vm) -> Result<String> {
    vm.ok(&format!(
        "udhcpc -i {IFACE} -s /lab/udhcpc -n -q -f -t 5 -T 1"
    ))
    .context("no address from DHCP")?;
    let text = vm.ok(&format!("ip -4 -o addr show dev {IFACE} scope global"))?;
    let address = text
        .split_whitespace()
        .skip_while(|word| *word != "inet")
        .nth(1);
    address
        .map(str::to_string)
        .with_context(|| format!("no address on {IFACE}: {text}"))
}

/// Result of ping.
#[derive(Debug, PartialEq)]
pub(crate) struct Ping {
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// What it printed.
    pub(crate) text: String,
}

/// Pings the gateway with `size` bytes of payload.
pub(crate) fn ping(vm: &mut Vm, count: u32, size: u32) -> Result<Ping> {
    let script = format!("ping -c {count} -i 0.05 -W 2 -s {size} {GATEWAY}");
    let output = vm.run(&script, u64::from(count) * 3 + 10)?;
    parse_ping(&output.text).with_context(|| format!("ping printed {:?}", output.text))
}

/// Script that prints the statistics of the interface that are not zero.
pub(crate) fn nonzero_statistics() -> String {
    format!(
        "cd /sys/class/net/{IFACE}/statistics && grep -v '^0$' *
         ethtool -S {IFACE} | grep -v ': 0$'"
    )
}

fn parse_ping(text: &str) -> Option<Ping> {
    let line = text
        .lines()
        .find(|line| line.contains("packets transmitted"))?;
    let mut numbers = line.split(',').map(|part| part.split_whitespace().next());
    let sent = numbers.next()??.parse().ok()?;
    let received = numbers.next()??.parse().ok()?;
    Some(Ping {
        sent,
        received,
        text: text.to_string(),
    })
}

/// Direction of a measurement, seen from the guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Direction {
    Receive,
    Transmit,
}

/// Result of a UDP measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Udp {
    /// What arrived, in Mbit/s of payload.
    pub(crate) mbps: f64,
    /// What did not, in percent.
    pub(crate) loss: f64,
}

/// An iperf3 server on the host, where the guest reaches it through the user network.
pub(crate) struct Iperf {
    port: u16,
    _server: Running,
}

impl Iperf {
    /// Starts one on a free port of the loopback interface.
    pub(crate) fn start(root: &Root) -> Result<Iperf> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?
            .local_addr()?
            .port();
        let mut command = root.bin("iperf3")?;
        command.args([
            "--server",
            "--bind",
            "127.0.0.1",
            "--port",
            &port.to_string(),
        ]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let server = Running::start(&mut command)?;
        let end = Instant::now() + Duration::from_secs(10);
        while TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_err() {
            if Instant::now() >= end {
                bail!("iperf3 does not start on the host");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(Iperf {
            port,
            _server: server,
        })
    }

    /// Its port.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Command line of a client in the guest.
    pub(crate) fn client(&self, direction: Direction, seconds: u64, more: &str) -> String {
        let reverse = if direction == Direction::Receive {
            "--reverse"
        } else {
            ""
        };
        format!(
            "iperf3 --client {GATEWAY} --port {} --connect-timeout 10000 --time {seconds} \
             {reverse} {more}",
            self.port
        )
    }

    fn measure(
        &self,
        vm: &mut Vm,
        direction: Direction,
        seconds: u64,
        more: &str,
    ) -> Result<Value> {
        let script = self.client(direction, seconds, &format!("--json {more}"));
        let output = vm.run(&script, seconds + 30)?;
        let report: Value = serde_json::from_str(&output.text)
            .with_context(|| format!("iperf3 printed {:?}", output.text))?;
        if let Some(error) = report["error"].as_str() {
            bail!("iperf3: {error}");
        }
        Ok(report)
    }

    /// TCP throughput in Mbit/s of payload, as the receiver saw it.
    pub(crate) fn tcp(&self, vm: &mut Vm, direction: Direction, seconds: u64) -> Result<f64> {
        let report = self.measure(vm, direction, seconds, "")?;
        mbps(&report["end"]["sum_received"])
    }

    /// UDP throughput and loss at `rate` Mbit/s.
    pub(crate) fn udp(
        &self,
        vm: &mut Vm,
        direction: Direction,
        seconds: u64,
        rate: u32,
    ) -> Result<Udp> {
        let more = format!("--udp --bitrate {rate}M --length 1448");
        let report = self.measure(vm, direction, seconds, &more)?;
        let received = &report["end"]["sum_received"];
        let loss = received["lost_percent"]
            .as_f64()
            .context("iperf3 reports no loss")?;
        Ok(Udp {
            mbps: mbps(received)?,
            loss,
        })
    }
}

/// Gives a file to the guest that connects to the returned port of [`GATEWAY`], once.
pub(crate) fn serve(path: &Path) -> Result<u16> {
    let mut file = File::open(path)?;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept()?;
        std::io::copy(&mut file, &mut stream)
    });
    Ok(port)
}

/// The one in the middle.
pub(crate) fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

fn mbps(sum: &Value) -> Result<f64> {
    let rate = sum["bits_per_second"]
        .as_f64()
        .context("iperf3 reports no rate")?;
    Ok(rate / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ping_summaries() {
        let text = "20 packets transmitted, 19 packets received, 5% packet loss\n";
        assert_eq!(
            parse_ping(text),
            Some(Ping {
                sent: 20,
                received: 19,
                text: text.to_string(),
            })
        );
        assert_eq!(parse_ping("ping: bad address"), None);
    }
}
