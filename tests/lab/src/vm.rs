// SPDX-License-Identifier: GPL-2.0
//! A virtual machine with the modelled device: starting it, talking to the guest and to the model.

use crate::cpio::Archive;
use crate::diagnose::indent;
use crate::env::{Driver, Env};
use crate::proc::{tail, Running, Scratch};
use crate::qmp::Qmp;
use crate::steps::kernel::{self, Flavour};
use crate::steps::{guest, ksft, module, qemu, root};
use crate::wire::Wire;
use anyhow::{bail, Context, Result};
use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, BufWriter, ErrorKind, Seek, SeekFrom, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long the guest may take to boot: the debug kernel is slow.
const BOOT: Duration = Duration::from_secs(180);

/// How much longer than a command's own limit its answer may take.
const GRACE: Duration = Duration::from_secs(15);

/// What the device hangs on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Net {
    /// QEMU's user network: DHCP, a gateway that answers pings, the host's services.
    User,
    /// A socket: the lab is the other end of the cable.
    Frames,
    /// A second device of the same kind.
    Pair,
}

/// Description of a machine. Equal descriptions can share one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Machine {
    /// The kernel it runs.
    pub(crate) kernel: Flavour,
    /// Variant of the device: an overlay in tests/dts.
    pub(crate) variant: &'static str,
    /// Flavours of the overlay, e.g. `FIXED_LINK`.
    pub(crate) flavours: Vec<&'static str>,
    /// What the device hangs on.
    pub(crate) net: Net,
    /// Properties of the device, as `name=value`.
    pub(crate) properties: Vec<String>,
    /// Processors.
    pub(crate) cpus: u32,
    /// Memory in MiB.
    pub(crate) memory: u32,
    /// More of the kernel's command line.
    pub(crate) append: String,
    /// The guest has the kernel's selftests.
    pub(crate) selftests: bool,
}

impl Machine {
    /// The RZ/G2L device on two processors.
    pub(crate) fn rzg2l(net: Net) -> Machine {
        Machine::with("gbeth", net)
    }

    /// A variant of the device on two processors.
    pub(crate) fn with(variant: &'static str, net: Net) -> Machine {
        Machine {
            kernel: Flavour::Stock,
            variant,
            flavours: Vec::new(),
            net,
            properties: Vec::new(),
            cpus: 2,
            memory: 1024,
            append: String::new(),
            selftests: false,
        }
    }
}

/// What all machines of one invocation are made of.
pub(crate) struct Parts {
    pub(crate) root: root::Root,
    pub(crate) qemu: qemu::Qemu,
    pub(crate) kernel: PathBuf,
    pub(crate) initramfs: PathBuf,
    /// Our driver, where it is wanted.
    pub(crate) module: Option<PathBuf>,
    /// The kernel's selftests, where they are wanted.
    selftests: Option<PathBuf>,
    /// The KUnit suites of our driver and how many cases each has.
    pub(crate) suites: BTreeMap<String, usize>,
    pub(crate) logs: PathBuf,
}

impl Parts {
    /// The same with the kernel's selftests for the guest.
    pub(crate) fn with_selftests(self, env: &Env) -> Result<Parts> {
        Ok(Parts {
            selftests: Some(ksft::get(env)?),
            ..self
        })
    }

    /// Makes everything machines with this kernel and these drivers need.
    pub(crate) fn get(env: &Env, flavour: Flavour, drivers: &[Driver]) -> Result<Parts> {
        let logs = env.output()?.join("log");
        fs::create_dir_all(&logs)?;
        let kernel = kernel::get(env, flavour)?;
        Ok(Parts {
            root: root::get(env)?,
            initramfs: guest::get(env, flavour.arch(), &kernel)?.initramfs(),
            module: drivers
                .contains(&Driver::Rust)
                .then(|| module::get(env, &kernel))
                .transpose()?,
            selftests: None,
            kernel: kernel.image,
            suites: module::suites(&env.project)?,
            qemu: qemu::get(env, flavour.arch())?,
            logs,
        })
    }
}

impl Parts {
    /// The same with another build of our driver.
    pub(crate) fn with_module(self, module: PathBuf) -> Parts {
        Parts {
            module: Some(module),
            ..self
        }
    }
}

/// What a command in the guest printed and how it ended.
#[derive(Debug)]
pub(crate) struct Output {
    /// Exit status; 137 if it was killed at its time limit.
    pub(crate) status: i32,
    /// Standard output and error.
    pub(crate) text: String,
}

/// How the console is used.
pub(crate) enum Console<'a> {
    /// Written to a log of this name.
    Log(&'a str),
    /// Connected to the user's terminal.
    Terminal,
}

/// A running machine.
pub(crate) struct Vm {
    process: Running,
    qmp: Qmp,
    reader: BufReader<UnixStream>,
    writer: UnixStream,
    number: u64,
    channel: PathBuf,
    console: PathBuf,
    /// What it was booted with, beside the kernel.
    pub(crate) initramfs: PathBuf,
    /// Raw frames to and from the device, for `Net::Frames`.
    pub(crate) wire: Option<Wire>,
    _scratch: Scratch,
}

impl Vm {
    /// Boots a machine up to the point where the guest answers.
    pub(crate) fn boot(parts: &Parts, machine: &Machine, console: Console<'_>) -> Result<Vm> {
        let scratch = Scratch::new()?;
        let at = |name: &str| scratch.path().join(name);
        let initramfs = at("initramfs");
        pack(parts, &initramfs)?;

        let mut command = parts.qemu.command(&parts.root, machine, scratch.path())?;
        command.arg("-no-reboot");
        command
            .arg("-kernel")
            .arg(&parts.kernel)
            .arg("-initrd")
            .arg(&initramfs);
        let shell = matches!(console, Console::Terminal);
        command.arg("-append").arg(format!(
            "console={} loglevel=7 panic=-1 oops=panic {} {}",
            machine.kernel.arch().console,
            if shell { "lab.shell quiet" } else { "" },
            machine.append
        ));
        command
            .arg("-qmp")
            .arg(format!("unix:{},server=on,wait=off", at("qmp").display()));
        command.args(["-device", "virtio-serial-device", "-chardev"]);
        command.arg(format!(
            "socket,id=lab,path={},server=on,wait=off",
            at("channel").display()
        ));
        command.args(["-device", "virtserialport,chardev=lab,name=ravb.lab"]);
        let wire = match machine.net {
            Net::User => {
                command.args(["-netdev", "user,id=wire0"]);
                None
            }
            Net::Pair => {
                for end in ["wire0", "wire1"] {
                    command
                        .arg("-netdev")
                        .arg(format!("hubport,id={end},hubid=0"));
                }
                None
            }
            Net::Frames => {
                let wire = Wire::new(&at("lab"), &at("device"))?;
                command.arg("-netdev").arg(format!(
                    "dgram,id=wire0,local.type=unix,local.path={},remote.type=unix,remote.path={}",
                    at("device").display(),
                    at("lab").display()
                ));
                Some(wire)
            }
        };
        let (console, process) = match console {
            Console::Log(name) => {
                let console = parts.logs.join(format!("{name}.console"));
                File::create(&console)?;
                let log = File::create(parts.logs.join(format!("{name}.qemu")))?;
                command
                    .arg("-serial")
                    .arg(format!("file:{}", console.display()));
                command.stdout(log.try_clone()?).stderr(log);
                (console, Running::start(&mut command)?)
            }
            Console::Terminal => {
                // Ctrl-C is the guest's.
                command.args([
                    "-chardev",
                    "stdio,id=tty,signal=off",
                    "-serial",
                    "chardev:tty",
                ]);
                (at("console"), Running::start_in_foreground(&mut command)?)
            }
        };
        let mut process = process;
        let qmp = connect(&at("qmp"), &mut process, &console)?;
        let channel = connect(&at("channel"), &mut process, &console)?;
        let mut vm = Vm {
            process,
            qmp: Qmp::new(qmp)?,
            writer: channel.try_clone()?,
            reader: BufReader::new(channel),
            number: 0,
            channel: at("channel"),
            console,
            initramfs,
            wire,
            _scratch: scratch,
        };
        vm.run("true", BOOT.as_secs())
            .context("the guest did not boot")?;
        Ok(vm)
    }

    /// Runs a shell script in the guest, for at most `seconds` seconds.
    pub(crate) fn run(&mut self, script: &str, seconds: u64) -> Result<Output> {
        self.number += 1;
        let number = self.number;
        writeln!(
            self.writer,
            "{number} {seconds} {}",
            STANDARD.encode(script)
        )
        .map_err(|error| self.lost(&error.to_string()))?;
        let end = Instant::now() + Duration::from_secs(seconds) + GRACE;
        loop {
            let line = self.read_line(end)?;
            let mut parts = line.trim_end().split(' ');
            // The answer to a command that was given up earlier.
            if parts.next() != Some(&number.to_string()) {
                continue;
            }
            let status = parts
                .next()
                .and_then(|text| text.parse().ok())
                .unwrap_or(-1);
            let bytes = STANDARD.decode(parts.next().unwrap_or_default())?;
            return Ok(Output {
                status,
                text: String::from_utf8_lossy(&bytes).into_owned(),
            });
        }
    }

    /// Opens the channel to the guest anew. The kernel learns that its port has a peer when the
    /// peer comes, and after it slept it is not ready to be told in time.
    pub(crate) fn reconnect(&mut self) -> Result<()> {
        self.writer.shutdown(Shutdown::Both)?;
        let channel = connect(&self.channel, &mut self.process, &self.console)?;
        self.writer = channel.try_clone()?;
        self.reader = BufReader::new(channel);
        Ok(())
    }

    /// Runs a script that must succeed and returns what it printed. It may take a minute: the debug
    /// kernel is slow, and hosts can be busy.
    pub(crate) fn ok(&mut self, script: &str) -> Result<String> {
        self.ok_within(script, 60)
    }

    /// Like `ok` with a time limit of its own.
    pub(crate) fn ok_within(&mut self, script: &str, seconds: u64) -> Result<String> {
        let output = self.run(script, seconds)?;
        match output.status {
            0 => Ok(output.text),
            137 => bail!(
                "`{script}` took more than {seconds} s\n{}",
                indent(&output.text)
            ),
            status => bail!("`{script}` exited with {status}\n{}", indent(&output.text)),
        }
    }

    /// Reads a line of the channel, watching for the machine's end.
    fn read_line(&mut self, end: Instant) -> Result<String> {
        let mut line = String::new();
        self.reader
            .get_ref()
            .set_read_timeout(Some(Duration::from_millis(200)))?;
        loop {
            match self.reader.read_line(&mut line) {
                Ok(0) => return Err(self.lost("the machine stopped")),
                Ok(_) if line.ends_with('\n') => return Ok(line),
                Ok(_) => {}
                // What was read so far stays in `line`.
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    if self.process.status()?.is_some() {
                        return Err(self.lost("the machine stopped"));
                    }
                    if Instant::now() >= end {
                        return Err(self.lost("the guest does not answer"));
                    }
                }
                Err(error) => return Err(self.lost(&error.to_string())),
            }
        }
    }

    /// An error about a machine that is gone or hangs, with the end of its console.
    fn lost(&self, what: &str) -> anyhow::Error {
        gone(what, &self.console)
    }

    /// Whether the guest still answers.
    pub(crate) fn alive(&mut self) -> bool {
        matches!(self.run("true", 5), Ok(Output { status: 0, .. }))
    }

    /// Path of the device in QEMU's object tree.
    fn device(&self) -> &'static str {
        qemu::DEVICE_PATH
    }

    /// A property of the modelled device.
    pub(crate) fn property(&mut self, name: &str) -> Result<Value> {
        let arguments = json!({ "path": self.device(), "property": name });
        let value = self.qmp.execute("qom-get", arguments)?;
        // Structured results come as JSON text.
        Ok(match value.as_str().map(serde_json::from_str) {
            Some(Ok(parsed)) => parsed,
            _ => value,
        })
    }

    /// Sets a property of the modelled device.
    pub(crate) fn set_property(&mut self, name: &str, value: impl Into<Value>) -> Result<()> {
        let arguments = json!({ "path": self.device(), "property": name, "value": value.into() });
        self.qmp.execute("qom-set", arguments).map(|_| ())
    }

    /// The machine stands still when the guest restarts or powers off, instead of ending.
    pub(crate) fn stand_still_at_the_end(&mut self) -> Result<()> {
        self.qmp
            .execute("set-action", json!({ "shutdown": "pause" }))
            .map(drop)
    }

    /// Waits until the machine stands still.
    pub(crate) fn wait_until_it_stands(&mut self, limit: Duration) -> Result<()> {
        let end = Instant::now() + limit;
        while self.qmp.execute("query-status", json!({}))?["running"] == true {
            if Instant::now() >= end {
                bail!("the guest runs on");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }

    /// Boots a machine that stands still anew.
    pub(crate) fn boot_again(&mut self) -> Result<()> {
        for (command, arguments) in [
            (
                "set-action",
                json!({ "shutdown": "poweroff", "reboot": "reset" }),
            ),
            ("system_reset", json!({})),
            ("cont", json!({})),
        ] {
            self.qmp.execute(command, arguments)?;
        }
        self.answers_again()?;
        self.qmp
            .execute("set-action", json!({ "reboot": "shutdown" }))
            .map(drop)
    }

    /// Waits until a guest that boots anew answers.
    pub(crate) fn answers_again(&mut self) -> Result<()> {
        self.reconnect()?;
        self.run("true", BOOT.as_secs())
            .context("the guest did not boot again")
            .map(drop)
    }

    /// Waits until the console has printed `text` since a mark.
    pub(crate) fn wait_for_console(&self, mark: u64, text: &str, limit: Duration) -> Result<()> {
        let end = Instant::now() + limit;
        while !self.console_since(mark).contains(text) {
            if Instant::now() >= end {
                bail!("the console does not say {text:?}");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Rules of the hardware the driver broke so far, and how often.
    pub(crate) fn violations(&mut self) -> Result<BTreeMap<String, u64>> {
        serde_json::from_value(self.property("violations")?)
            .context("the model's property `violations` is not a map of counts")
    }

    /// Length of the console's log: where a later look at it starts.
    pub(crate) fn console_mark(&mut self, label: &str) -> Result<u64> {
        let position = self.console_length();
        // The line shows in the log what follows, and that all before it has been written.
        let line = format!("lab: {label} ({position})");
        self.ok(&format!("echo '<5>{line}' > /dev/kmsg"))?;
        let end = Instant::now() + Duration::from_secs(30);
        while !self.console_since(position).contains(&line) {
            if Instant::now() >= end {
                return Err(self.lost("the console does not follow"));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(position)
    }

    /// File with everything the console printed.
    pub(crate) fn console_path(&self) -> &Path {
        &self.console
    }

    fn console_length(&self) -> u64 {
        fs::metadata(&self.console).map_or(0, |data| data.len())
    }

    /// What the console printed since a mark.
    pub(crate) fn console_since(&self, position: u64) -> String {
        let read = || -> std::io::Result<String> {
            let mut file = File::open(&self.console)?;
            file.seek(SeekFrom::Start(position))?;
            let mut bytes = Vec::new();
            std::io::Read::read_to_end(&mut file, &mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).replace('\r', ""))
        };
        read().unwrap_or_default()
    }

    /// Waits until the machine ends by itself.
    pub(crate) fn wait(&mut self) -> Result<()> {
        while self.process.wait(Duration::from_secs(3600))?.is_none() {}
        Ok(())
    }
}

fn gone(what: &str, console: &Path) -> anyhow::Error {
    let qemu = tail(&console.with_extension("qemu"), 5);
    anyhow::anyhow!(
        "{what}\nconsole: {}\n{}{}",
        console.display(),
        indent(&tail(console, 15)),
        indent(&qemu)
    )
}

/// Connects to a socket QEMU makes soon.
fn connect(path: &Path, process: &mut Running, console: &Path) -> Result<UnixStream> {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        match UnixStream::connect(path) {
            Ok(stream) => return Ok(stream),
            Err(error) if Instant::now() >= end => {
                return Err(error).context("QEMU does not open its sockets");
            }
            Err(_) => {}
        }
        if process.status()?.is_some() {
            return Err(gone("QEMU did not start", console));
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The initramfs: the guest's, followed by an archive with the driver under test.
fn pack(parts: &Parts, to: &Path) -> Result<()> {
    let mut out = BufWriter::new(File::create(to)?);
    let archives = [Some(&parts.initramfs), parts.selftests.as_ref()];
    for archive in archives.into_iter().flatten() {
        std::io::copy(&mut File::open(archive)?, &mut out)?;
    }
    if let Some(module) = &parts.module {
        let mut archive = Archive::new(out);
        archive.file("lab/ravb-rs.ko", 0o644, &fs::read(module)?)?;
        out = archive.finish()?;
    }
    out.flush()?;
    Ok(())
}
