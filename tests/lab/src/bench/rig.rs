// SPDX-License-Identifier: GPL-2.0
//! A machine whose runs repeat to the instruction: one processor, time counted in instructions,
//! and no way for the host's timing to get in. The guest drives the measurement by itself, through
//! the model's control page (`tests/model/src/control.rs`).

use super::profile::{self, Profile, Symbols};
use crate::cache::{Key, Step};
use crate::cpio::Archive;
use crate::env::{Driver, Env};
use crate::net::{load_script, IFACE};
use crate::proc::{tail, Running, Scratch};
use crate::steps::kernel::{self, Flavour, Kernel};
use crate::vm::{Console, Machine, Net, Parts, Vm};
use anyhow::{bail, ensure, Context, Result};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::time::Duration;

/// How long one run may take on the host.
const LIMIT: Duration = Duration::from_secs(1800);

/// What a run needs.
pub(super) struct Rig {
    pub(super) parts: Parts,
    /// Text of /proc/kallsyms without modules.
    symbols: String,
    /// Symbol tables of modules, as objdump prints them.
    modules: BTreeMap<&'static str, String>,
}

/// What to run on.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Setup {
    /// Variant of the device.
    pub(super) variant: &'static str,
    /// The device is coherent.
    pub(super) coherent: bool,
    /// The driver.
    pub(super) driver: Driver,
    /// An instruction takes 2^shift nanoseconds.
    pub(super) shift: u32,
    /// Rate of the wire in Mbit/s; 0 is that of the link.
    pub(super) wire_mbps: u32,
    /// Count instructions by function.
    pub(super) profile: bool,
    /// Watch what the processor does with the descriptors.
    pub(super) watch: bool,
}

impl Setup {
    /// To count what packets cost.
    pub(super) fn costs(variant: &'static str, coherent: bool, driver: Driver) -> Setup {
        Setup {
            variant,
            coherent,
            driver,
            shift: 0,
            wire_mbps: WIRE_MBPS,
            profile: true,
            watch: false,
        }
    }
}

/// What the model logs at a mark.
#[derive(Clone, PartialEq, Deserialize, Debug)]
pub(super) struct ModelMark {
    pub(super) mark: u32,
    /// Instructions executed so far, as QEMU counts them.
    pub(super) executed: u64,
    /// Virtual time in nanoseconds.
    pub(super) now: u64,
    /// Frames of the stream still to be sent.
    pub(super) left: u32,
    /// The model's counters.
    pub(super) counters: Value,
}

/// What a mark of the guest left behind.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Mark {
    /// From the model.
    pub(super) model: ModelMark,
    /// What was executed since the mark before; nothing if that is not counted.
    pub(super) profile: Profile,
}

/// One run.
#[derive(Debug)]
pub(super) struct Outcome {
    /// What the script printed, without the word `measure:` of its lines.
    pub(super) lines: Vec<String>,
    /// Marks by number.
    pub(super) marks: BTreeMap<u32, Mark>,
}

/// Start of every script: functions, the driver, the link.
fn prelude(driver: Driver) -> String {
    format!(
        "ctl() {{ devmem $((0x0b000000 + $1)) 32 $2; }}
         mark() {{ ctl 0x24 $1; }}
         fail() {{ echo \"measure: failed: $*\"; exit 1; }}
         {}
         [ $? = 0 ] || fail driver
         sysctl -qw net.ipv6.conf.all.disable_ipv6=1
         ip link set {IFACE} up || fail up
         ip addr add 10.0.2.15/24 dev {IFACE}
         ip neigh replace 10.0.2.2 lladdr 02:00:5e:00:00:01 dev {IFACE} nud permanent
         for i in $(seq 200); do
             [ \"$(cat /sys/class/net/{IFACE}/carrier)\" = 1 ] && break
             sleep 0.1
         done
         [ \"$(cat /sys/class/net/{IFACE}/carrier)\" = 1 ] || fail link
        ",
        load_script(driver).replace("exit 1", "fail load")
    )
}

/// End of every script: where the modules are.
const EPILOGUE: &str = "
for file in /sys/module/*/sections/.*text*; do
    rest=${file#/sys/module/}
    echo measure: section ${rest%%/*} ${file##*/} $(cat $file)
done
echo measure: end
";

/// Modules whose functions are told apart, besides ours.
const MODULES: &[&str] = &["ravb", "pktgen"];

impl Rig {
    /// Makes what runs on a kernel for arm64 need.
    pub(super) fn new(env: &Env, flavour: Flavour) -> Result<Rig> {
        let parts = Parts::get(env, flavour, &[Driver::Rust])?;
        let kernel = kernel::get(env, flavour)?;
        let symbols = symbols(env, &parts, &kernel)?;
        let modules = modules(&parts, &kernel)?;
        Ok(Rig {
            parts,
            symbols,
            modules,
        })
    }

    /// Boots, runs `script` and reads what it left.
    pub(super) fn run(&self, setup: &Setup, name: &str, script: &str) -> Result<Outcome> {
        let scratch = Scratch::new()?;
        let at = |name: &str| scratch.path().join(name);
        let machine = Machine {
            cpus: 1,
            flavours: if setup.coherent {
                vec!["COHERENT"]
            } else {
                Vec::new()
            },
            properties: vec![
                "control=on".into(),
                format!("wire-mbps={}", setup.wire_mbps),
                format!("watch={}", if setup.watch { "on" } else { "off" }),
            ],
            ..Machine::with(setup.variant, Net::User)
        };
        let script = format!("{}{script}{EPILOGUE}", prelude(setup.driver));
        let initramfs = at("initramfs");
        self.pack(&initramfs, &script)?;

        let mut command = self
            .parts
            .qemu
            .command(&self.parts.root, &machine, scratch.path())?;
        command.arg("-no-reboot");
        command.arg("-kernel").arg(&self.parts.kernel);
        command.arg("-initrd").arg(&initramfs);
        command.args([
            "-append",
            "console=ttyAMA0 loglevel=4 panic=-1 oops=panic nokaslr nowatchdog lab.measure",
        ]);
        command
            .arg("-icount")
            .arg(format!("shift={},sleep=off", setup.shift));
        command.args(["-rtc", "base=2026-01-01,clock=vm"]);
        // A wire that leads nowhere.
        command.args(["-netdev", "hubport,id=wire0,hubid=0"]);
        if setup.profile {
            command.arg("-plugin").arg(format!(
                "{},out={}",
                self.parts.qemu.profiler().display(),
                at("profile").display()
            ));
        }
        let console = self.parts.logs.join(format!("{name}.console"));
        let log = self.parts.logs.join(format!("{name}.qemu"));
        command
            .arg("-serial")
            .arg(format!("file:{}", console.display()));
        let output = File::create(&log)?;
        command.stdout(output.try_clone()?).stderr(output);
        let mut process = Running::start(&mut command)?;
        let status = process.wait(LIMIT)?;
        let text = fs::read(&console).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).replace('\r', "");
        let failure = |what: &str| {
            anyhow::anyhow!(
                "{what}\nconsole: {}\n{}\n{}",
                console.display(),
                tail(&console, 10),
                tail(&log, 5)
            )
        };
        match status {
            None => return Err(failure("the measurement takes too long")),
            Some(status) if !status.success() => {
                return Err(failure(&format!("QEMU ended with {status}")))
            }
            Some(_) => {}
        }
        if !text.contains("\nmeasure: end") {
            return Err(failure("the measurement did not come to its end"));
        }
        let marks = fs::read_to_string(&log)?
            .lines()
            .filter_map(model_mark)
            .map(|model| {
                let profile = Profile::default();
                (model.mark, Mark { model, profile })
            })
            .collect::<BTreeMap<_, _>>();
        ensure!(
            !marks.is_empty(),
            "the model saw no mark: {}",
            log.display()
        );
        let mut outcome = Outcome {
            lines: text
                .lines()
                .filter_map(|line| line.strip_prefix("measure: "))
                .map(str::to_string)
                .collect(),
            marks,
        };
        if setup.profile {
            self.add_profiles(&mut outcome, &fs::read_to_string(at("profile"))?)
                .with_context(|| format!("log: {}", log.display()))?;
        }
        Ok(outcome)
    }

    /// Adds what was executed before each mark.
    fn add_profiles(&self, outcome: &mut Outcome, profile: &str) -> Result<()> {
        let mut symbols = Symbols::parse(&self.symbols);
        for line in &outcome.lines {
            let Some(rest) = line.strip_prefix("section ") else {
                continue;
            };
            let [module, section, address] = rest.split(' ').collect::<Vec<_>>()[..] else {
                bail!("the guest printed {line:?}")
            };
            let address = u64::from_str_radix(address.trim_start_matches("0x"), 16)?;
            if let Some(table) = self.modules.get(module) {
                symbols.add_module(module, table, section, address);
            }
        }
        let mut profiles = profile::read(profile, &symbols)?;
        let mut marks: Vec<&mut Mark> = outcome.marks.values_mut().collect();
        marks.sort_by_key(|mark| mark.model.executed);
        let mut executed = 0;
        for Mark { model, profile } in marks {
            *profile = profiles
                .remove(&model.mark)
                .with_context(|| format!("no profile of mark {}", model.mark))?;
            // An instruction that faults is counted by the plugin each time it is tried.
            let between = model.executed - executed;
            ensure!(
                model.mark == ARM || profile.total.abs_diff(between) <= between / 1000,
                "before mark {} QEMU counts {between} instructions, the plugin {}",
                model.mark,
                profile.total
            );
            executed = model.executed;
        }
        Ok(())
    }

    fn pack(&self, to: &std::path::Path, script: &str) -> Result<()> {
        let mut out = BufWriter::new(File::create(to)?);
        std::io::copy(&mut File::open(&self.parts.initramfs)?, &mut out)?;
        let mut archive = Archive::new(out);
        let module = self.parts.module.as_ref().context("no module")?;
        archive.file("lab/ravb-rs.ko", 0o644, &fs::read(module)?)?;
        archive.file("lab/measure", 0o644, script.as_bytes())?;
        archive.finish()?.flush()?;
        Ok(())
    }
}

/// The first mark, with which counting begins.
pub(super) const ARM: u32 = u32::MAX;

/// Rate of the wire: fast enough that the processor is what limits.
const WIRE_MBPS: u32 = 100_000;

/// A line of the model's log that tells of a mark: `mac0: {…}`.
fn model_mark(line: &str) -> Option<ModelMark> {
    serde_json::from_str(line.split_once(": ")?.1).ok()
}

/// Symbol tables of our driver and of those modules of the kernel that matter.
fn modules(parts: &Parts, kernel: &Kernel) -> Result<BTreeMap<&'static str, String>> {
    let scratch = Scratch::new()?;
    let module = parts.module.as_ref().context("no module")?;
    let mut files = vec![("ravb_rs", module.clone())];
    let index = fs::read_to_string(kernel.modules.join("modules.dep"))?;
    for &name in MODULES {
        let file = index
            .lines()
            .filter_map(|line| line.split_once(':'))
            .map(|(file, _)| file)
            .find(|file| {
                file.rsplit('/')
                    .next()
                    .is_some_and(|base| base.starts_with(&format!("{name}.ko")))
            });
        let Some(file) = file else { continue };
        let copy = scratch.path().join(file.rsplit('/').next().unwrap_or(file));
        fs::copy(kernel.modules.join(file), &copy)?;
        if file.ends_with(".xz") {
            crate::proc::output(parts.root.bin("xz")?.arg("--decompress").arg(&copy))?;
        }
        files.push((name, copy.with_extension("").with_extension("ko")));
    }
    let mut tables = BTreeMap::new();
    for (name, file) in files {
        let mut command = parts.root.bin("aarch64-linux-gnu-objdump")?;
        tables.insert(name, crate::proc::output(command.arg("--syms").arg(file))?);
    }
    Ok(tables)
}

/// Addresses of the kernel's functions without address randomisation: from a boot of its own,
/// because a run that is measured would take long to print them.
fn symbols(env: &Env, parts: &Parts, kernel: &Kernel) -> Result<String> {
    let key = Key::new("symbols", 1).text(&kernel.id).finish();
    let step = Step {
        name: "symbols",
        label: "addresses of the kernel's functions",
        space: 64 << 20,
        keep: 6,
    };
    let dir = env.cache.get(&step, &key, |work| {
        let machine = Machine {
            append: "nokaslr".into(),
            ..Machine::rzg2l(Net::User)
        };
        let mut vm = Vm::boot(parts, &machine, Console::Log("symbols"))?;
        let text = vm.ok_within("grep -v '\\[' /proc/kallsyms | grep -i ' [tw] '", 120)?;
        fs::write(work.out.join("symbols"), text)?;
        Ok(())
    })?;
    Ok(fs::read_to_string(dir.join("symbols"))?)
}
