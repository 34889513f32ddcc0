// SPDX-License-Identifier: GPL-2.0
//! `make shell`: a prompt in the guest, with the driver loaded and the network up; and the same for
//! a script.

use crate::env::{Driver, DriverChoice, Env};
use crate::net::{self, Iperf, IFACE};
use crate::steps::kernel::Flavour;
use crate::vm::{Console, Machine, Net, Parts, Vm};
use anyhow::{bail, Context, Result};
use rustix::termios::{isatty, tcgetattr, tcsetattr, OptionalActions};
use std::io::stdin;

/// Boots, prepares and hands over; returns when the user leaves the shell.
pub(crate) fn run(env: &Env, choice: DriverChoice) -> Result<()> {
    let &[driver] = choice.drivers() else {
        bail!("a shell has one driver: DRIVER=c or rust")
    };
    if !isatty(stdin()) {
        bail!("a shell needs a terminal");
    }
    let parts = Parts::get(env, Flavour::Stock, &[driver])?;
    // QEMU switches the terminal to raw mode and may not get to restore it.
    let settings = tcgetattr(stdin()).context("cannot read the terminal's settings")?;
    let result = session(&parts, driver);
    tcsetattr(stdin(), OptionalActions::Now, &settings)?;
    result
}

/// Boots, prepares and runs a script; true if it exits with 0.
pub(crate) fn script(env: &Env, choice: DriverChoice, script: &str) -> Result<bool> {
    let &[driver] = choice.drivers() else {
        bail!("one driver at a time: DRIVER=c or rust")
    };
    let parts = Parts::get(env, Flavour::Stock, &[driver])?;
    let mut vm = Vm::boot(&parts, &Machine::rzg2l(Net::User), Console::Log("run"))?;
    prepare(&mut vm, driver)?;
    let iperf = Iperf::start(&parts.root)?;
    let output = vm.run(&format!("HOST={}\n{script}", iperf.port()), 300)?;
    print!("{}", output.text);
    let violations = vm.violations()?;
    if !violations.is_empty() {
        eprintln!("rules of the hardware broken: {violations:?}");
    }
    Ok(output.status == 0)
}

/// Loads the driver and brings the network up; returns speed and address.
fn prepare(vm: &mut Vm, driver: Driver) -> Result<(u64, String)> {
    net::load(vm, driver)?;
    vm.ok(&format!("ip link set {IFACE} up"))?;
    Ok((net::wait_for_link(vm)?, net::dhcp(vm)?))
}

fn session(parts: &Parts, driver: Driver) -> Result<()> {
    let mut vm = Vm::boot(parts, &Machine::rzg2l(Net::User), Console::Terminal)?;
    let (speed, address) = prepare(&mut vm, driver)?;
    vm.ok(&format!(
        "echo '{driver} drives {IFACE}: {speed} Mbit/s, {address}. \"exit\" ends the machine.' \
         > /run/greeting && mv /run/greeting /run/shell"
    ))?;
    vm.wait()
}
