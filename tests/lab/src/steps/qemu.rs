// SPDX-License-Identifier: GPL-2.0
//! QEMU with the modelled device. Its recipe is `tests/qemu/Makefile`: QEMU proper is built once
//! from Debian's source package, the device is linked in anew after each change.

use super::root::{self, Root, SUITE};
use crate::arch::{Arch, Emulator};
use crate::cache::{files_below, Key, Step, Work};
use crate::env::Env;
use crate::vm::{Machine, Net};
use anyhow::{bail, Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const VERSION: u32 = 1;

/// Firmware of the machines that need some: the package and the file in it.
const FIRMWARE: (&str, &str) = (
    "opensbi",
    "usr/lib/riscv64-linux-gnu/opensbi/generic/fw_dynamic.bin",
);

/// Path of the device in QEMU's object tree.
pub(crate) const DEVICE_PATH: &str = "/machine/peripheral/mac0";

/// The machine type that takes the device.
const MACHINE: &str = "ravb-virt";

/// The program, relative to a step's result.
const PROGRAM: &str = "qemu-system-ravb";

/// QEMU with the device in it.
pub(crate) struct Qemu {
    arch: &'static Arch,
    /// What the machine runs before the kernel, if anything.
    firmware: Option<PathBuf>,
    dir: PathBuf,
    overlays: PathBuf,
}

/// Builds it.
pub(crate) fn get(env: &Env, arch: &'static Arch) -> Result<Qemu> {
    let root = root::get(env)?;
    let base = base(env, &root, arch.emulator)?;
    let model = env.project.join("tests/model");
    let glue = env.project.join("tests/qemu");
    let mut inputs: Vec<PathBuf> = ["Cargo.toml", "src"].map(|name| model.join(name)).to_vec();
    inputs.extend(["Makefile", "ravb.c", "ravb_model.h", "profile.c"].map(|name| glue.join(name)));
    inputs.push(env.project.join("Cargo.lock"));
    let key = Key::new("qemu", VERSION)
        .text(&base.to_string_lossy())
        .files(&env.project, &files_below(&inputs))?
        .finish();
    let step = Step {
        name: "qemu",
        label: "device model in QEMU",
        space: 512 << 20,
        keep: 4,
    };
    let dir = env.cache.get(&step, &key, |work| {
        link(env, &root, &base, arch.emulator, work)
    })?;
    Ok(Qemu {
        arch,
        firmware: match arch.emulator {
            Emulator::Aarch64 => None,
            Emulator::Riscv64 => Some(base.join(FIRMWARE.1)),
        },
        dir,
        overlays: env.project.join("tests/dts"),
    })
}

/// QEMU as Debian has it.
fn base(env: &Env, root: &Root, emulator: Emulator) -> Result<PathBuf> {
    let target = emulator.target();
    let glue = env.project.join("tests/qemu");
    let key = Key::new("qemu-base", VERSION)
        .text(SUITE)
        .file(&glue, &glue.join(format!("{target}.mak")))?
        .text(&section(&fs::read_to_string(glue.join("Makefile"))?))
        .finish();
    let (name, label) = match emulator {
        Emulator::Aarch64 => ("qemu-base", "QEMU"),
        Emulator::Riscv64 => ("qemu-base-riscv64", "QEMU for riscv64"),
    };
    let step = Step {
        name,
        label,
        space: 4 << 30,
        keep: 1,
    };
    env.cache.get(&step, &key, |work| {
        recipe(&glue, work.out)?;
        // The suite is named because a newer version elsewhere may lack its source.
        let script = format!(
            "mkdir /out/orig && cd /out/orig
             apt-get -q source --download-only qemu/{SUITE}"
        );
        root.apt(work, &[(work.out, "/out")], &script)?;
        if emulator == Emulator::Riscv64 {
            let package = FIRMWARE.0;
            let script = format!(
                "cd /out && apt-get -q download {package}/{SUITE}
                 dpkg-deb -x {package}_*.deb . && rm {package}_*.deb"
            );
            work.run(&mut root.command(&[(work.out, "/out")], &script))?;
        }
        let script = format!(
            "make -C /out/recipe TARGET={target} SOURCE=/out/orig BUILD=/out MODEL=/nowhere \
             /out/build/qemu-system-{target}"
        );
        work.run(&mut root.command(&[(work.out, "/out")], &script))
    })
}

/// The part of the recipe that makes QEMU proper: a change below does not rebuild it.
fn section(makefile: &str) -> String {
    makefile
        .split("$(BUILD)/ravb.o:")
        .next()
        .unwrap_or(makefile)
        .to_string()
}

/// Copies the recipe with old time stamps: how fresh the checkout is must not cause a rebuild.
fn recipe(glue: &Path, out: &Path) -> Result<()> {
    let to = out.join("recipe");
    fs::create_dir(&to)?;
    for file in files_below(&[glue.to_path_buf()]) {
        let copy = to.join(file.file_name().unwrap_or_default());
        fs::copy(&file, &copy)?;
        let old = std::time::SystemTime::UNIX_EPOCH;
        fs::File::options()
            .write(true)
            .open(&copy)?
            .set_modified(old)?;
    }
    Ok(())
}

fn link(env: &Env, root: &Root, base: &Path, emulator: Emulator, work: &Work<'_>) -> Result<()> {
    let target = env.project.join("target");
    work.run(
        Command::new("cargo")
            .current_dir(&env.project)
            .args([
                "build",
                "--release",
                "--locked",
                "--package",
                "ravb-model",
                "--target-dir",
            ])
            .arg(&target),
    )?;
    fs::copy(
        target.join("release/libravb_model.a"),
        work.out.join("libravb_model.a"),
    )
    .context("cargo made no libravb_model.a")?;
    recipe(&env.project.join("tests/qemu"), work.out)?;
    let (source, build) = (base.join("source"), base.join("build"));
    let binds = [
        (work.out, "/out"),
        (source.as_path(), "/out/source"),
        (build.as_path(), "/out/build"),
    ];
    let script = format!(
        "make -C /out/recipe TARGET={} SOURCE=/nowhere BUILD=/out MODEL=/out/libravb_model.a",
        emulator.target()
    );
    work.run(&mut root.command(&binds, &script))
}

impl Qemu {
    /// Directory of the result.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The plugin that counts what the guest executes.
    pub(crate) fn profiler(&self) -> PathBuf {
        self.dir.join("profile.so")
    }

    fn program(&self) -> PathBuf {
        self.dir.join(PROGRAM)
    }

    /// The start of a command line for `machine`, with its device tree made in `scratch`. The
    /// caller adds the netdev `wire0`.
    pub(crate) fn command(
        &self,
        root: &Root,
        machine: &Machine,
        scratch: &Path,
    ) -> Result<Command> {
        let mut dump = self.board(
            root,
            machine,
            &format!(",dumpdtb={}/base.dtb", scratch.display()),
        )?;
        crate::proc::output(&mut dump).context("QEMU cannot describe its machine")?;
        let macs = if machine.net == Net::Pair { 2 } else { 1 };
        let flavours: String = machine
            .flavours
            .iter()
            .copied()
            .chain((macs > 1).then_some("TWO_MACS"))
            .map(|flavour| format!(" -D{flavour}"))
            .collect();
        let script = format!(
            "sh /dts/overlay.sh /out/base.dtb /out/machine.dtb {} {}{flavours}",
            self.arch.emulator.target(),
            machine.variant
        );
        let binds = [(scratch, "/out"), (self.overlays.as_path(), "/dts")];
        crate::proc::output(&mut root.command(&binds, &script))
            .context("the device tree cannot be made")?;

        let mut command = self.board(root, machine, "")?;
        command.arg("-dtb").arg(scratch.join("machine.dtb"));
        command.args(["-device", "renesas-r9a07g044-cpg,id=cpg0"]);
        for mac in 0..macs {
            let mut device = format!(
                "renesas-ravb,id=mac{mac},cpg=cpg0,cpg-output={mac},netdev=wire{mac},variant={}",
                machine.variant
            );
            for property in &machine.properties {
                if property.contains(',') {
                    bail!("a device property with a comma: {property}");
                }
                device.push_str(&format!(",{property}"));
            }
            command.arg("-device").arg(device);
        }
        Ok(command)
    }

    /// Processor and memory: what the dumped device tree depends on.
    fn board(&self, root: &Root, machine: &Machine, more: &str) -> Result<Command> {
        let mut command = root.tool(&self.program())?;
        command
            .arg("-machine")
            .arg(format!("{MACHINE}{}{more}", self.arch.machine));
        if let Some(firmware) = &self.firmware {
            command.arg("-bios").arg(firmware);
        }
        command.args(["-cpu", self.arch.cpu, "-nodefaults", "-display", "none"]);
        command.arg("-smp").arg(machine.cpus.to_string());
        command.arg("-m").arg(machine.memory.to_string());
        Ok(command)
    }
}
