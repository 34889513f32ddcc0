// SPDX-License-Identifier: GPL-2.0
//! `make shell`: a prompt in the guest, with the driver loaded and the network up.

use crate::env::{DriverChoice, Env};
use crate::net::{self, IFACE};
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
    let parts = Parts::get(env, &[driver])?;
    // QEMU switches the terminal to raw mode and may not get to restore it.
    let settings = tcgetattr(stdin()).context("cannot read the terminal's settings")?;
    let result = session(&parts, driver);
    tcsetattr(stdin(), OptionalActions::Now, &settings)?;
    result
}

fn session(parts: &Parts, driver: crate::env::Driver) -> Result<()> {
    let mut vm = Vm::boot(parts, &Machine::rzg2l(Net::User), Console::Terminal)?;
    net::load(&mut vm, driver)?;
    vm.ok(&format!("ip link set {IFACE} up"))?;
    let speed = net::wait_for_link(&mut vm)?;
    let address = net::dhcp(&mut vm)?;
    vm.ok(&format!(
        "echo '{driver} drives {IFACE}: {speed} Mbit/s, {address}. \"exit\" ends the machine.' \
         > /run/greeting && mv /run/greeting /run/shell"
    ))?;
    vm.wait()
}
