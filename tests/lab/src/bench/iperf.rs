// SPDX-License-Identifier: GPL-2.0
//! A look at something real beside the counts: iperf3 both ways, on two processors that run as fast
//! as the host lets them. Rates say nothing by themselves, and their ratio little.

use super::Pair;
use crate::env::Driver;
use crate::net::{self, median, Direction, Iperf, IFACE};
use crate::vm::{Console, Machine, Net, Parts, Vm};
use anyhow::Result;
use serde_json::{json, Value};

/// Seconds of each run.
const SECONDS: u64 = 2;

/// Runs in each direction, of which the median counts.
const RUNS: usize = 5;

/// TCP in Mbit/s.
#[derive(Debug)]
pub(super) struct Rates {
    receive: f64,
    transmit: f64,
}

/// A machine with a driver, and the iperf3 it talks to.
struct Side {
    vm: Vm,
    iperf: Iperf,
    receive: Vec<f64>,
    transmit: Vec<f64>,
}

/// Measures both drivers in turn, so that what else the host does meets both.
pub(super) fn measure(parts: &Parts) -> Result<Pair<Rates>> {
    let mut sides = [side(parts, Driver::C)?, side(parts, Driver::Rust)?];
    for _ in 0..RUNS {
        for Side {
            vm,
            iperf,
            receive,
            transmit,
        } in &mut sides
        {
            receive.push(iperf.tcp(vm, Direction::Receive, SECONDS)?);
            transmit.push(iperf.tcp(vm, Direction::Transmit, SECONDS)?);
        }
    }
    let [c, rust] = sides.map(|side| Rates {
        receive: median(side.receive),
        transmit: median(side.transmit),
    });
    Ok(Pair { c, rust })
}

fn side(parts: &Parts, driver: Driver) -> Result<Side> {
    let name = format!("bench-iperf-{}", driver.key());
    let mut vm = Vm::boot(parts, &Machine::rzg2l(Net::User), Console::Log(&name))?;
    net::load(&mut vm, driver)?;
    vm.ok(&format!("ip link set {IFACE} up"))?;
    net::wait_for_link(&mut vm)?;
    net::dhcp(&mut vm)?;
    Ok(Side {
        vm,
        iperf: Iperf::start(&parts.root)?,
        receive: Vec::new(),
        transmit: Vec::new(),
    })
}

impl Pair<Rates> {
    /// Rust ÷ C: received, sent.
    pub(super) fn ratios(&self) -> (f64, f64) {
        (
            self.rust.receive / self.c.receive,
            self.rust.transmit / self.c.transmit,
        )
    }

    pub(super) fn json(&self) -> Value {
        let (receive, transmit) = self.ratios();
        json!({ "tcp_receive": receive, "tcp_transmit": transmit })
    }
}
