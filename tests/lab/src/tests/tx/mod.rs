// SPDX-License-Identifier: GPL-2.0
//! Transmission: what leaves is what was asked for, however it lies in memory, whatever the device
//! does meanwhile, and at what cost.

mod checksum;
mod packet;
mod payload;

use super::functional::Function;
use super::{Run, Test};
use crate::env::Driver;
use crate::vm::{Machine, Net};

/// A line of the table of tests.
struct Line {
    name: &'static str,
    /// Only in `make check-all`.
    long: bool,
    machine: Machine,
    run: Function,
}

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    let mut add = |driver: Driver, lines: Vec<Line>| {
        let group = match driver {
            Driver::C => "model-c",
            Driver::Rust => "rust",
        };
        tests.extend(lines.into_iter().map(|line| Test {
            name: format!("{group}-tx-{}", line.name),
            long: line.long,
            run: Run::Guest {
                driver,
                machine: line.machine,
                run: line.run,
            },
        }));
    };
    add(Driver::Rust, ours());
    tests
}

fn ours() -> Vec<Line> {
    let frames = |variant| Machine::with(variant, Net::Frames);
    let line = |name, long, machine, run| Line {
        name,
        long,
        machine,
        run,
    };
    vec![
        line(
            "payload",
            false,
            frames("gbeth"),
            payload::pairwise as Function,
        ),
        line("payload-gen3", false, frames("gen3"), payload::pairwise),
        line("shared", false, frames("gbeth"), payload::shared),
        line("shared-gen3", false, frames("gen3"), payload::shared),
        line("checksum", false, frames("gbeth"), checksum::right),
        line(
            "checksum-software",
            false,
            frames("gbeth"),
            checksum::software,
        ),
        line("checksum-wrong", false, frames("gbeth"), checksum::wrong),
        line("checksum-gen3", false, frames("gen3"), checksum::few_right),
        line(
            "checksum-wrong-gen3",
            false,
            frames("gen3"),
            checksum::wrong_stays,
        ),
        line("payload-wide", true, frames("gbeth"), payload::wide),
        line("payload-wide-gen3", true, frames("gen3"), payload::wide),
    ]
}
