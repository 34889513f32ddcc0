// SPDX-License-Identifier: GPL-2.0
//! Our driver on other architectures: RZ/Five, the GbEth of riscv64, and R-Car Gen2, whose
//! processors have 32 bits. The same source is built without a warning, and drives the device.

use super::functional::{self, Function};
use super::{host, variants, Run, Test};
use crate::env::{Driver, Env};
use crate::steps::kernel::Flavour;
use crate::vm::{Machine, Net};
use anyhow::Result;
use std::path::Path;

/// A kernel of another architecture, and the device it drives.
struct Place {
    name: &'static str,
    kernel: Flavour,
    variant: &'static str,
    warnings: fn(&Env, &Path) -> Result<()>,
}

const PLACES: &[Place] = &[
    Place {
        name: "riscv64",
        kernel: Flavour::Riscv64,
        variant: "gbeth",
        warnings: |env, log| host::warnings(env, Flavour::Riscv64, log),
    },
    Place {
        name: "arm",
        kernel: Flavour::Arm,
        variant: "gen2",
        warnings: |env, log| host::warnings(env, Flavour::Arm, log),
    },
];

/// What is enough to see that widths and byte order are right.
const CHOSEN: &[&str] = &[
    "probe",
    "ping",
    "iperf-tcp",
    "iperf-udp",
    "ethtool-stats",
    "ethtool-ring",
    "cable",
    "down-up",
    "unbind-bind",
    "rmmod-insmod",
    "registers",
    "frames-receive",
    "frames-echo",
];

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    for place in PLACES {
        let mut add = |name: &str, run: Run| {
            tests.push(Test {
                name: format!("arch-{}-{name}", place.name),
                long: true,
                run,
            });
        };
        add("warnings", Run::Host(place.warnings));
        let on = |net: Net, run: Function| Run::Guest {
            driver: Driver::Rust,
            machine: Machine {
                kernel: place.kernel,
                ..Machine::with(place.variant, net)
            },
            run,
        };
        let user = functional::USER.iter().chain(variants::HARDWARE);
        let user = user.map(|test| (test, Net::User));
        let frames = functional::FRAMES.iter().map(|test| (test, Net::Frames));
        for (&(name, run), net) in user.chain(frames) {
            if CHOSEN.contains(&name) {
                add(name, on(net, run));
            }
        }
    }
    tests
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn what_is_chosen_exists() {
        let tests = tests();
        assert_eq!(tests.len(), PLACES.len() * (CHOSEN.len() + 1));
    }
}
