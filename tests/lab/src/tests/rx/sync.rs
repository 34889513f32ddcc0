// SPDX-License-Identifier: GPL-2.0
//! A missing synchronisation is noticed: on a machine with bounce buffers the CPU sees only what
//! was synchronised for it.

use crate::check::Bench;
use crate::env::{Driver, Env};
use crate::steps::kernel::{self, Flavour};
use crate::steps::module::{self, Fault};
use crate::tests::functional;
use crate::vm::{Console, Machine, Net, Parts, Vm};
use anyhow::{bail, ensure, Result};
use std::path::Path;

/// The driver takes nothing of a buffer over for the CPU.
const NO_SYNC: Fault = Fault {
    file: "net/dma.rs",
    right: "__dma_sync_single_for_cpu(
                device::as_raw(dev),
                address,
                len as usize,",
    wrong: "__dma_sync_single_for_cpu(
                device::as_raw(dev),
                address,
                0,",
};

/// How a test says that frames did not arrive as they were sent.
const DAMAGED: &[&str] = &[
    "first difference",
    "frames arrived",
    "nothing arrived",
    "the last frame did not arrive",
    // Where the wait for it was what took too long.
    "grep -q 'last frame of a capture'",
];

/// Every buffer is copied between where the device and where the CPU sees it.
pub(super) fn bounced() -> Machine {
    Machine {
        append: "swiotlb=16384,force".to_string(),
        ..Machine::rzg2l(Net::Frames)
    }
}

/// The test that passes on this machine fails with a driver that lacks the synchronisation, and
/// fails because of damaged frames.
pub(super) fn removed(env: &Env, _log: &Path) -> Result<()> {
    let kernel = kernel::get(env, Flavour::Stock)?;
    let module = module::with_fault(env, &kernel, &NO_SYNC)?;
    let parts = Parts::get(env, Flavour::Stock, &[Driver::Rust])?.with_module(module);
    let name = Console::Log("rust-rx-sync-removed-is-noticed");
    let machine = bounced();
    let mut vm = Vm::boot(&parts, &machine, name)?;
    let mut bench = Bench {
        parts: &parts,
        driver: Driver::Rust,
        machine: &machine,
        vm: &mut vm,
        cycles: 1,
        long: false,
        expected: Vec::new(),
    };
    bench.up()?;
    let Err(error) = functional::frames_receive(&mut bench) else {
        bail!("frames arrive unharmed although nothing is synchronised for the CPU");
    };
    let text = format!("{error:#}");
    ensure!(
        DAMAGED.iter().any(|words| text.contains(words)),
        "it failed, but not for damaged frames: {text}"
    );
    let stored = bench.vm.property("counters")?["frames"]["rx0"].as_u64();
    ensure!(
        stored > Some(50),
        "the device stored only {stored:?} frames"
    );
    Ok(())
}
