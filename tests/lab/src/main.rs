// SPDX-License-Identifier: GPL-2.0
//! `ravb-lab`: makes everything a test of ravb_rs needs, and runs it.
//!
//! From nothing but Debian packages and this repository it makes a build root, the Rust
//! metadata of the stock Debian kernel, QEMU with the modelled device, a guest image and the
//! kernel module (`steps/`), each cached by a hash of its inputs (`cache.rs`). On top of that it
//! boots machines (`vm.rs`), talks to them (`qmp.rs`, the guest channel in `vm.rs`, raw frames
//! in `wire.rs`) and judges what they do (`demo.rs`, `check.rs`, `tests/`).

mod arch;
mod bench;
mod cache;
mod check;
mod cpio;
mod demo;
mod diagnose;
mod env;
mod graft;
mod net;
mod proc;
mod qmp;
mod report;
mod shell;
mod steps;
mod tests;
mod ui;
mod vm;
mod wire;

use anyhow::Result;
use clap::{Parser, Subcommand};
use env::{DriverChoice, Env};
use std::path::PathBuf;
use std::process::ExitCode;

/// The test lab of ravb_rs.
#[derive(Parser)]
#[command(name = "ravb-lab", version)]
struct Cli {
    /// Kernel build tree (arm64, built, with Rust) to use instead of the stock Debian kernel.
    #[arg(long, env = "KDIR", global = true)]
    kdir: Option<PathBuf>,

    /// Kernel source tree to use instead of Debian's linux-source package.
    #[arg(long, env = "KERNEL_SRC", global = true)]
    kernel_src: Option<PathBuf>,

    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Boot the stock kernel with the device and carry real traffic.
    Demo {
        /// Which driver to load.
        #[arg(long, env = "DRIVER", default_value = "rust")]
        driver: DriverChoice,
    },
    /// Boot the same machine and leave the user in it.
    Shell {
        /// Which driver to load.
        #[arg(long, env = "DRIVER", default_value = "rust")]
        driver: DriverChoice,
    },
    /// Boot the same machine, run a shell script in it and print what it says.
    Run {
        /// Which driver to load.
        #[arg(long, env = "DRIVER", default_value = "rust")]
        driver: DriverChoice,
        /// The script; $HOST is the port of an iperf3 server at 10.0.2.2.
        script: String,
    },
    /// Run the tests.
    Check {
        /// Only tests whose name contains this text (several: separated by commas).
        #[arg(long, env = "FILTER", default_value = "")]
        filter: String,
        /// Also the long and wide tests.
        #[arg(long)]
        all: bool,
        /// Print the names of the tests and stop.
        #[arg(long)]
        list: bool,
    },
    /// Measure what a packet costs, our driver beside the stock one.
    Bench {
        /// Only cases whose name, such as rx_64-gbeth-noncoherent, contains this text (several:
        /// separated by commas).
        #[arg(long, env = "FILTER", default_value = "")]
        filter: String,
        /// Only measure on lean kernels with Rust compiled in different ways.
        #[arg(long)]
        lean: bool,
        /// Only measure the few cases of the test `bench-baseline`, and write its baseline anew.
        #[arg(long)]
        set_baseline: bool,
    },
    /// Build one step, and what it needs, without running anything.
    Build {
        /// root, stock, kernel, qemu, guest or module.
        step: steps::StepName,
    },
    /// Run a command in the build root with the repository at /src.
    Exec {
        /// The command line.
        #[arg(trailing_var_arg = true, required = true)]
        command: Vec<String>,
    },
    /// Put the driver into a kernel source tree.
    Graft {
        /// The tree; the one of KERNEL_SRC= where it is not given.
        tree: Option<PathBuf>,
    },
    /// Forget the packages that were fetched, so that the next run takes the archive's newest.
    Update,
    /// Remove cached results that were not used lately.
    Clean {
        /// Remove everything.
        #[arg(long)]
        all: bool,
        /// Keep this many of the last used results of each step.
        #[arg(long, default_value_t = 1)]
        keep: usize,
    },
}

fn run(cli: Cli) -> Result<bool> {
    let env = Env::new(cli.kdir, cli.kernel_src)?;
    match cli.command {
        Command::Demo { driver } => demo::run(&env, driver).map(|()| true),
        Command::Shell { driver } => shell::run(&env, driver).map(|()| true),
        Command::Run { driver, script } => shell::script(&env, driver, &script),
        Command::Check { filter, all, list } => check::run(&env, &filter, all, list),
        Command::Bench { set_baseline, .. } if set_baseline => {
            bench::set_baseline(&env).map(|()| true)
        }
        Command::Bench { lean: true, .. } => bench::run_lean(&env).map(|()| true),
        Command::Bench { filter, .. } => bench::run(&env, &filter).map(|()| true),
        Command::Build { step } => steps::build(&env, step).map(|()| true),
        Command::Exec { command } => steps::exec(&env, &command),
        Command::Graft { tree } => graft::run(&env, tree).map(|()| true),
        Command::Update => steps::forget_packages(&env).map(|()| true),
        Command::Clean { all, keep } => env.cache.clean(if all { 0 } else { keep }).map(|()| true),
    }
}

/// What the environment may choose. An empty variable is what `make KDIR=` leaves behind.
const VARIABLES: &[&str] = &["KDIR", "KERNEL_SRC", "DRIVER", "FILTER"];

fn main() -> ExitCode {
    for name in VARIABLES {
        if std::env::var_os(name).is_some_and(|value| value.is_empty()) {
            std::env::remove_var(name);
        }
    }
    proc::handle_interrupts();
    match run(Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("ravb-lab: {error:#}");
            ExitCode::FAILURE
        }
    }
}
