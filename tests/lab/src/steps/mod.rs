// SPDX-License-Identifier: GPL-2.0
//! The steps that make what a test needs. Each is a function that returns where its result is and
//! calls the steps it depends on.

pub(crate) mod built;
pub(crate) mod fuzzer;
pub(crate) mod guest;
pub(crate) mod kernel;
pub(crate) mod ksft;
pub(crate) mod module;
pub(crate) mod qemu;
pub(crate) mod root;
pub(crate) mod source;
pub(crate) mod stock;
pub(crate) mod uml;

use crate::arch;
use crate::env::Env;
use anyhow::Result;
use clap::ValueEnum;
use kernel::Flavour;
use std::process::Stdio;

/// Steps that can be built by name.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum StepName {
    /// Debian build root.
    Root,
    /// Stock kernel packages.
    Stock,
    /// Rust metadata for the stock kernel.
    Kernel,
    /// The same for the kernel with pages of 16 KiB.
    LargePages,
    /// The same for the kernel with PREEMPT_RT.
    Realtime,
    /// The kernel that notices mistakes.
    Debug,
    /// The kernel whose functions can be made to fail.
    Faults,
    /// The kernel for riscv64.
    Riscv64,
    /// The kernel for 32-bit arm.
    Arm,
    /// The lean kernels for measurements.
    Lean,
    /// The user-mode kernel for KUnit.
    Uml,
    /// QEMU with the modelled device.
    Qemu,
    /// The same for riscv64.
    QemuRiscv64,
    /// Guest userland and kernel modules.
    Guest,
    /// Selftests of the kernel, for the guest.
    Ksft,
    /// The driver.
    Module,
}

/// Builds one step and prints where the result is.
pub(crate) fn build(env: &Env, step: StepName) -> Result<()> {
    let result = match step {
        StepName::Root => root::get(env)?.dir().to_path_buf(),
        StepName::Stock => stock::get(env)?.dir,
        StepName::Kernel => kernel::get(env, Flavour::Stock)?.dir,
        StepName::LargePages => kernel::get(env, Flavour::LargePages)?.dir,
        StepName::Realtime => kernel::get(env, Flavour::Realtime)?.dir,
        StepName::Debug => kernel::get(env, Flavour::Debug)?.dir,
        StepName::Faults => kernel::get(env, Flavour::Faults)?.dir,
        StepName::Riscv64 => kernel::get(env, Flavour::Riscv64)?.dir,
        StepName::Arm => kernel::get(env, Flavour::Arm)?.dir,
        StepName::Lean => kernel::get(env, Flavour::Lean(kernel::Code::ALL[0]))?.dir,
        StepName::Uml => uml::get(env)?.dir,
        StepName::Qemu => qemu::get(env, &arch::ARM64)?.dir().to_path_buf(),
        StepName::QemuRiscv64 => qemu::get(env, &arch::RISCV64)?.dir().to_path_buf(),
        StepName::Guest => guest::get(env, &arch::ARM64, &kernel::get(env, Flavour::Stock)?)?.dir,
        StepName::Ksft => ksft::get(env)?,
        StepName::Module => module::get(env, &kernel::get(env, Flavour::Stock)?)?,
    };
    println!("{}", result.display());
    Ok(())
}

/// Removes what was taken from the archive as it is; what was built from it goes when it is no
/// longer used.
pub(crate) fn forget_packages(env: &Env) -> Result<()> {
    for step in ["root", "stock", "userland"] {
        env.cache.remove_step(step)?;
    }
    Ok(())
}

/// Runs a command in the build root, with the repository at /src and the prepared kernel at
/// /kernel. Returns whether it succeeded.
pub(crate) fn exec(env: &Env, command: &[String]) -> Result<bool> {
    let root = root::get(env)?;
    let kernel = kernel::get(env, Flavour::Stock)?;
    let binds = [
        (env.project.as_path(), "/src"),
        (kernel.dir.as_path(), "/kernel"),
    ];
    let script = format!("cd /src && {}", command.join(" "));
    let status = root
        .command(&binds, &script)
        .stdin(Stdio::inherit())
        .status()?;
    Ok(status.success())
}
