// SPDX-License-Identifier: GPL-2.0
//! The tests. A test is an entry of a table: its name, where it runs, its function.
//!
//! Functions that exercise a driver are written once and run with both. Names start with the
//! group: `host-`, `model-c-` (stock driver: evidence for the model), `rust-` (our driver),
//! `badinput-` (our driver with broken machines and frames), `kunit-` (the suites in the driver's
//! files), `debug-` (our driver on the kernel that notices mistakes), `bench-` (what a packet
//! costs), `ksft-` (the kernel's own selftests), `arch-` (our driver on other architectures).

mod arch;
mod badinput;
mod bench;
mod control;
mod cycles;
mod faults;
mod functional;
mod fuzz;
mod hammer;
mod host;
mod hostile;
mod ksft;
mod kunit;
mod registers;
mod rx;
mod tx;
mod variants;

use crate::check::Bench;
use crate::env::{Driver, Env};
use crate::steps::kernel::Flavour;
use crate::vm::Machine;
use anyhow::Result;
use std::path::Path;

/// Where and how a test runs.
pub(crate) enum Run {
    /// On the host; gets a log file to write to.
    Host(fn(&Env, &Path) -> Result<()>),
    /// On a machine, which tests with an equal description share.
    Guest {
        /// The driver under test.
        driver: Driver,
        /// The machine it needs.
        machine: Machine,
        /// The test.
        run: fn(&mut Bench<'_>) -> Result<()>,
    },
}

/// A test.
pub(crate) struct Test {
    /// Unique name, beginning with its group.
    pub(crate) name: String,
    /// Only in `make check-all`.
    pub(crate) long: bool,
    /// Where and how it runs.
    pub(crate) run: Run,
}

/// A line of a table of tests that run in the guest.
pub(crate) struct Line {
    pub(crate) name: &'static str,
    /// Only in `make check-all`.
    pub(crate) long: bool,
    pub(crate) machine: Machine,
    pub(crate) run: functional::Function,
    /// Our driver does it on EtherAVB as well.
    pub(crate) everywhere: bool,
}

impl Line {
    /// The same, which our driver does on EtherAVB as well.
    pub(crate) fn everywhere(self) -> Line {
        Line {
            everywhere: true,
            ..self
        }
    }
}

/// The tests of a table, with a driver: their names say which, and what `area` they are about.
///
/// What our driver does on Gen3, the EtherAVB of `make check`, it does on the others in
/// `make check-all`.
fn in_guest(area: &str, driver: Driver, lines: Vec<Line>) -> Vec<Test> {
    let group = match driver {
        Driver::C => "model-c",
        Driver::Rust => "rust",
    };
    let mut tests = Vec::new();
    for line in lines {
        let mut add = |name: &str, long: bool, machine: Machine| {
            tests.push(Test {
                name: format!("{group}-{area}-{name}"),
                long,
                run: Run::Guest {
                    driver,
                    machine,
                    run: line.run,
                },
            });
        };
        let machine = line.machine;
        let others =
            driver == Driver::Rust && machine.variant == "gen3" && machine.kernel == Flavour::Stock;
        add(line.name, line.long, machine.clone());
        for &variant in variants::VARIANTS {
            let long = line.long || variant != "gen3";
            let machine = Machine {
                variant,
                ..machine.clone()
            };
            if driver == Driver::Rust && line.everywhere {
                add(&format!("{}-{variant}", line.name), long, machine);
            } else if others && variant != "gen3" {
                add(&line.name.replace("gen3", variant), long, machine);
            }
        }
    }
    tests
}

impl Test {
    /// The group, as the name says.
    pub(crate) fn group(&self) -> &'static str {
        GROUPS
            .iter()
            .find(|group| self.name.starts_with(*group))
            .copied()
            .unwrap_or_default()
    }

    /// Whether a word of `FILTER` chooses it: a part of its name, or `variant` for what shows that
    /// each member of the family works.
    pub(crate) fn is_chosen_by(&self, word: &str) -> bool {
        self.name.contains(word) || word == "variant" && variants::shows_one(self)
    }

    /// The kernel and the driver it needs, if any, and whether the kernel's selftests.
    pub(crate) fn needs(&self) -> Option<(Flavour, Driver, bool)> {
        match &self.run {
            Run::Guest {
                driver, machine, ..
            } => Some((machine.kernel, *driver, machine.selftests)),
            Run::Host(_) => None,
        }
    }

    /// Whether two tests may run on one machine after each other.
    pub(crate) fn shares_machine_with(&self, other: &Test) -> bool {
        match (&self.run, &other.run) {
            (
                Run::Guest {
                    driver: a,
                    machine: x,
                    ..
                },
                Run::Guest {
                    driver: b,
                    machine: y,
                    ..
                },
            ) => a == b && x == y,
            (Run::Host(_), Run::Host(_)) => true,
            _ => false,
        }
    }
}

/// All groups.
const GROUPS: &[&str] = &[
    "host", "kunit", "model-c", "rust", "badinput", "bench", "debug", "ksft", "arch",
];

/// All tests.
pub(crate) fn all() -> Vec<Test> {
    let mut tests = host::tests();
    tests.extend(kunit::tests());
    tests.extend(functional::tests(Driver::C, "model-c"));
    tests.extend(functional::tests(Driver::Rust, "rust"));
    tests.extend(variants::tests(Driver::C, "model-c"));
    tests.extend(variants::tests(Driver::Rust, "rust"));
    tests.extend(functional::variations());
    tests.extend(control::tests());
    tests.extend(cycles::tests());
    tests.extend(badinput::tests());
    tests.extend(rx::tests());
    tests.extend(ksft::tests());
    tests.extend(arch::tests());
    tests.extend(tx::tests());
    tests.extend(bench::tests());
    tests.extend(faults::tests());
    tests.extend(hostile::tests());
    tests.extend(hammer::tests());
    tests
}
