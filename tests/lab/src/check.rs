// SPDX-License-Identifier: GPL-2.0
//! `make check`: runs tests, shares machines between them, and says how many passed.

use crate::env::{Driver, Env};
use crate::net::{self, ADDRESS, GATEWAY, IFACE};
use crate::report;
use crate::steps::kernel::Flavour;
use crate::tests::{self, Run, Test};
use crate::vm::{Console, Machine, Parts, Vm};
use crate::wire::{Wire, LAB_MAC};
use anyhow::{bail, Context, Result};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

/// Lines of the kernel's log that fail the test during which they appear.
const COMPLAINTS: &[&str] = &[
    "WARNING:",
    "BUG:",
    "kernel BUG at",
    "Oops",
    "Internal error",
    "Unable to handle kernel",
    "Call trace:",
    "refcount_t:",
    "stalled pool shutdown",
    "unregister_netdevice: waiting for",
    "KASAN",
    "UBSAN",
    "DMA-API:",
    "possible circular locking",
    "suspicious RCU usage",
    "NETDEV WATCHDOG",
    "scheduling while atomic",
    "inconsistent lock state",
    "possible irq lock inversion",
    "possible recursive locking",
    "ODEBUG:",
    "blocked for more than",
    "detected stall",
    "Bad page state",
    "rust_kernel: panicked",
    // A checksum from the device that is wrong, where that of the sender is right.
    "hw csum failure",
];

/// Rules of the hardware the stock C driver is known to break; our driver may break none.
const KNOWN_OF_C: &[&str] = &[
    // Statistics are read, and cleared by writing 0, outside OPERATION mode.
    "wrong-mode-write",
];

/// Faults of the kernel itself, which no driver can avoid: the words of the complaint, and
/// functions in the trace that follows it.
const KNOWN_OF_KERNEL: &[(&str, &[&str])] = &[
    // A page pool's table of mappings is allocated from with bottom halves off, by a caller that
    // may sleep, but is not marked as one whose lock turns them off. It shows where memory is
    // short: XA_FLAGS_LOCK_BH is missing in page_pool_init().
    (
        "sleeping function called from invalid context",
        &["__xas_nomem", "page_pool_dma_map"],
    ),
];

/// The last line of a trace of a task on arm64.
const TRACE_END: &str = " el0t_64_sync+";

/// How many lines after a complaint belong to it, at most.
const TRACE_LINES: usize = 80;

/// Lines of `log` that complain.
pub(crate) fn complaints(log: &str) -> Vec<String> {
    let lines: Vec<&str> = log.lines().collect();
    let mut found = Vec::new();
    let mut at = 0;
    while at < lines.len() {
        let rest = &lines[at..];
        if let Some(length) = known(rest) {
            at += length;
            continue;
        }
        if COMPLAINTS.iter().any(|pattern| rest[0].contains(pattern)) {
            found.push(rest[0].to_string());
        }
        at += 1;
    }
    found
}

/// How many of the lines are a known fault of the kernel's, if they begin with one.
fn known(lines: &[&str]) -> Option<usize> {
    let (_, functions) = KNOWN_OF_KERNEL
        .iter()
        .find(|(words, _)| lines[0].contains(words))?;
    let lines = &lines[..lines.len().min(TRACE_LINES)];
    let end = lines.iter().position(|line| line.contains(TRACE_END))?;
    let named = |function: &&str| {
        let name = format!(" {function}+");
        lines[..end].iter().any(|line| line.contains(&name))
    };
    functions.iter().all(named).then_some(end + 1)
}

/// What a test on a machine works with.
pub(crate) struct Bench<'a> {
    /// What machines are made of.
    pub(crate) parts: &'a Parts,
    /// The driver under test.
    pub(crate) driver: Driver,
    /// What was asked for of the machine.
    pub(crate) machine: &'a Machine,
    /// The machine.
    pub(crate) vm: &'a mut Vm,
    /// Repetitions of a test that cycles something.
    pub(crate) cycles: u32,
    /// There is time for many repetitions.
    pub(crate) long: bool,
    /// Parts of complaints that the test provokes.
    pub(crate) expected: Vec<&'static str>,
}

impl Bench<'_> {
    /// Repetitions of what must not leak at all: in the long run, what leaks seldom shows too.
    pub(crate) fn many(&self) -> u32 {
        if self.long {
            1000
        } else {
            20
        }
    }

    /// Loads the driver, unless a test before has left it loaded.
    pub(crate) fn load(&mut self) -> Result<()> {
        let script = format!("[ -d /sys/module/{} ]", self.driver.module());
        if self.vm.run(&script, 10)?.status == 0 {
            return Ok(());
        }
        net::load(self.vm, self.driver)
    }

    /// The usual state: driver loaded, interface up with an address, carrier.
    pub(crate) fn up(&mut self) -> Result<()> {
        self.load()?;
        self.vm
            .ok(&self.up_script())
            .context("the interface does not come up")?;
        net::wait_for_link(self.vm)?;
        Ok(())
    }

    /// Script that brings the interface up with the address the wire expects.
    pub(crate) fn up_script(&self) -> String {
        let mac = LAB_MAC.map(|byte| format!("{byte:02x}")).join(":");
        let neighbour = match self.vm.wire {
            // The lab answers no ARP requests.
            Some(_) => format!("ip neigh replace {GATEWAY} lladdr {mac} dev {IFACE} || exit 1"),
            None => String::new(),
        };
        format!(
            "ip link set {IFACE} up || exit 1
             ip addr replace {ADDRESS} dev {IFACE} || exit 1
             {neighbour}"
        )
    }

    /// The lab's end of the cable.
    pub(crate) fn wire(&self) -> Result<&Wire> {
        self.vm
            .wire
            .as_ref()
            .context("this machine has no frame wire")
    }

    /// MAC address of the interface.
    pub(crate) fn mac(&mut self) -> Result<[u8; 6]> {
        let text = self.vm.ok(&format!("cat /sys/class/net/{IFACE}/address"))?;
        let bytes: Vec<u8> = text
            .trim()
            .split(':')
            .map(|byte| u8::from_str_radix(byte, 16))
            .collect::<Result<_, _>>()?;
        bytes
            .try_into()
            .map_err(|_| anyhow::anyhow!("{text:?} is no MAC address"))
    }

    /// Name of the platform device behind the interface.
    pub(crate) fn platform_device(&mut self) -> Result<String> {
        let script = format!("basename $(readlink -f /sys/class/net/{IFACE}/device)");
        Ok(self.vm.ok(&script)?.trim().to_string())
    }

    /// A counter of `ip -s link`, by its name in sysfs.
    pub(crate) fn counter(&mut self, name: &str) -> Result<u64> {
        let text = self
            .vm
            .ok(&format!("cat /sys/class/net/{IFACE}/statistics/{name}"))?;
        text.trim()
            .parse()
            .with_context(|| format!("{text:?} is no number"))
    }

    /// A statistic of `ethtool -S`.
    pub(crate) fn statistic(&mut self, name: &str) -> Result<u64> {
        let text = self.vm.ok(&format!("ethtool -S {IFACE}"))?;
        let value = text.lines().find_map(|line| {
            let (key, value) = line.trim().split_once(": ")?;
            (key == name).then(|| value.parse().ok())?
        });
        value.with_context(|| format!("no statistic {name} in {text}"))
    }

    /// Pings the gateway; any loss is an error.
    pub(crate) fn ping(&mut self, count: u32, size: u32) -> Result<()> {
        let ping = net::ping(self.vm, count, size)?;
        if ping.received != ping.sent || ping.sent != u64::from(count) {
            // What the device and the driver counted says where the others were lost.
            let counters = self.vm.property("counters")?;
            let statistics = self.vm.run(&net::nonzero_statistics(), 10)?;
            bail!(
                "{} of {} pings of {size} bytes were answered\n{}\n{}\n{counters}",
                ping.received,
                ping.sent,
                ping.text.trim(),
                statistics.text.trim(),
            );
        }
        Ok(())
    }
}

/// One test's entry in check.json.
#[derive(Serialize)]
struct Entry {
    name: String,
    group: String,
    passed: bool,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    violations: BTreeMap<String, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log: Option<PathBuf>,
}

/// check.json.
#[derive(Serialize)]
struct Report {
    passed: usize,
    failed: usize,
    seconds: f64,
    tests: Vec<Entry>,
}

/// Runs the tests whose names match; true if all passed.
pub(crate) fn run(env: &Env, filter: &str, all: bool, list: bool) -> Result<bool> {
    let start = Instant::now();
    let words: Vec<&str> = filter.split(',').filter(|word| !word.is_empty()).collect();
    let chosen: Vec<Test> = tests::all()
        .into_iter()
        .filter(|test| all || !test.long)
        .filter(|test| words.is_empty() || words.iter().any(|word| test.is_chosen_by(word)))
        .collect();
    if list {
        chosen.iter().for_each(|test| println!("{}", test.name));
        return Ok(true);
    }
    if chosen.is_empty() {
        bail!("no test has {filter:?} in its name; `make check-list` shows all");
    }

    let mut entries = Vec::new();
    let mut runner = Runner {
        env,
        parts: BTreeMap::new(),
        machine: None,
        cycles: cycles(all),
        long: all,
    };
    // First what takes long, so that its progress does not mix with the list of results.
    let mut needs: Vec<_> = chosen.iter().filter_map(Test::needs).collect();
    needs.sort_unstable();
    needs.dedup();
    for (flavour, driver, selftests) in needs {
        let parts = Parts::get(env, flavour, &[driver])
            .and_then(|parts| match selftests {
                true => parts.with_selftests(env),
                false => Ok(parts),
            })
            .map_err(|error| format!("{error:#}"));
        runner.parts.insert((flavour, driver, selftests), parts);
    }
    for test in &in_order(chosen) {
        entries.push(runner.run(test));
    }
    drop(runner);

    let passed = entries.iter().filter(|entry| entry.passed).count();
    let failed = entries.len() - passed;
    let seconds = start.elapsed().as_secs_f64();
    let report = Report {
        passed,
        failed,
        seconds,
        tests: entries,
    };
    report::write(env, if all { "check-all" } else { "check" }, &report)?;
    let mut told = BTreeSet::new();
    for entry in report.tests.iter().filter(|entry| !entry.passed) {
        let message = entry.message.as_deref().unwrap_or_default();
        if !told.insert(message) {
            println!("FAIL {}: the same", entry.name);
            continue;
        }
        println!("\nFAIL {}: {message}", entry.name);
        if let Some(log) = &entry.log {
            println!("  log: {}", log.display());
        }
    }
    println!("\n{passed} passed, {failed} failed");
    Ok(failed == 0)
}

fn cycles(all: bool) -> u32 {
    if all {
        100
    } else {
        20
    }
}

/// Tests of one machine after each other, otherwise in the order they are listed.
fn in_order(tests: Vec<Test>) -> Vec<Test> {
    let mut groups: Vec<Vec<Test>> = Vec::new();
    for test in tests {
        match groups
            .iter_mut()
            .find(|group| group[0].shares_machine_with(&test))
        {
            Some(group) => group.push(test),
            None => groups.push(vec![test]),
        }
    }
    groups.into_iter().flatten().collect()
}

/// A machine and what it was booted for.
struct Booted {
    machine: Machine,
    driver: Driver,
    vm: Vm,
    log: PathBuf,
}

struct Runner<'a> {
    env: &'a Env,
    /// Parts for each kernel and driver; a failure to make them fails the tests that need them.
    parts: BTreeMap<(Flavour, Driver, bool), Result<Parts, String>>,
    machine: Option<Booted>,
    cycles: u32,
    long: bool,
}

impl Runner<'_> {
    fn run(&mut self, test: &Test) -> Entry {
        print!("{} ... ", test.name);
        // Progress goes to standard error, so the order matters.
        let _ = std::io::stdout().flush();
        let start = Instant::now();
        let mut violations = BTreeMap::new();
        let mut log = None;
        let result = match &test.run {
            Run::Host(run) => {
                let path = self.log_path(&test.name);
                path.and_then(|path| {
                    log = Some(path.clone());
                    run(self.env, &path)
                })
            }
            Run::Guest {
                driver,
                machine,
                run,
            } => {
                let result = self.on_machine(test, *driver, machine, *run, &mut violations);
                log = self.machine.as_ref().map(|booted| booted.log.clone());
                if result.is_err() {
                    // The next test must not suffer from this one.
                    self.machine = None;
                }
                result
            }
        };
        let seconds = start.elapsed().as_secs_f64();
        println!(
            "{} [{seconds:.1} s]",
            if result.is_ok() { "ok" } else { "FAIL" }
        );
        Entry {
            name: test.name.clone(),
            group: test.group().to_string(),
            passed: result.is_ok(),
            seconds,
            message: result.err().map(|error| format!("{error:#}")),
            violations,
            log,
        }
    }

    fn log_path(&self, name: &str) -> Result<PathBuf> {
        let dir = self.env.output()?.join("log");
        std::fs::create_dir_all(&dir)?;
        let path = dir.join(format!("{name}.log"));
        std::fs::write(&path, "")?;
        Ok(path)
    }

    fn on_machine(
        &mut self,
        test: &Test,
        driver: Driver,
        machine: &Machine,
        run: fn(&mut Bench<'_>) -> Result<()>,
        violations: &mut BTreeMap<String, u64>,
    ) -> Result<()> {
        let needs = (machine.kernel, driver, machine.selftests);
        let parts = match self.parts.get(&needs) {
            Some(Ok(parts)) => parts,
            Some(Err(message)) => bail!("{message}"),
            None => bail!("nothing was made for {driver}"),
        };
        let fits = |booted: &Booted| booted.machine == *machine && booted.driver == driver;
        if !self.machine.as_ref().is_some_and(fits) {
            // Two machines at once would share the host's processors.
            self.machine = None;
            let vm = Vm::boot(parts, machine, Console::Log(&test.name))?;
            let log = vm.console_path().to_path_buf();
            self.machine = Some(Booted {
                machine: machine.clone(),
                driver,
                vm,
                log,
            });
        }
        let booted = self.machine.as_mut().context("no machine")?;
        let vm = &mut booted.vm;

        let before = vm.violations()?;
        let mark = vm.console_mark(&test.name)?;
        let (cycles, long) = (self.cycles, self.long);
        let mut bench = Bench {
            parts,
            driver,
            machine,
            vm: &mut *vm,
            cycles,
            long,
            expected: Vec::new(),
        };
        let result = run(&mut bench);
        let expected = bench.expected;
        let alive = vm.alive();
        if alive {
            // Everything the test caused is in the log after this.
            vm.console_mark(&format!("{} ends", test.name))?;
        }
        let mut complaints = complaints(&vm.console_since(mark));
        complaints.retain(|line| !expected.iter().any(|words| line.contains(words)));
        *violations = difference(&before, &vm.violations().unwrap_or_default());
        result?;
        if let Some(first) = complaints.first() {
            bail!(
                "the kernel complained {} times, first: {first}",
                complaints.len()
            );
        }
        if !alive {
            bail!("the guest does not answer any more");
        }
        let unexpected: BTreeMap<_, _> = violations
            .iter()
            .filter(|(name, _)| driver == Driver::Rust || !KNOWN_OF_C.contains(&name.as_str()))
            .collect();
        if !unexpected.is_empty() {
            bail!("broke rules of the hardware: {unexpected:?}");
        }
        Ok(())
    }
}

/// Counts that rose between two looks.
fn difference(
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
) -> BTreeMap<String, u64> {
    after
        .iter()
        .map(|(name, count)| {
            (
                name.clone(),
                count.saturating_sub(before.get(name).copied().unwrap_or(0)),
            )
        })
        .filter(|(_, count)| *count > 0)
        .collect()
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn complaints_are_found() {
        let log = "[    1.0] ravb: probed\n[    2.0] WARNING: CPU: 0 PID: 1 at net/core/dev.c\n";
        assert_eq!(complaints(log).len(), 1);
        assert!(complaints("[    1.0] eth0: Link is Up\n").is_empty());
    }

    #[test]
    fn only_known_faults_of_the_kernel_are_passed_over() {
        let splat = |function: &str| {
            format!(
                "[ 1.0] BUG: sleeping function called from invalid context at mm.h:322\n\
                 [ 1.0] Call trace:\n[ 1.0]  __xas_nomem+0x1bc/0x228\n\
                 [ 1.0]  {function}+0x34c/0x478\n[ 1.0]  el0t_64_sync+0x154/0x158\n"
            )
        };
        let known = splat("page_pool_dma_map");
        assert!(complaints(&known).is_empty());
        assert_eq!(complaints(&splat("ravb_open")).len(), 2);
        // What follows a known one counts, and a trace without an end is none.
        assert_eq!(complaints(&format!("{known}[ 2.0] WARNING: x\n")).len(), 1);
        assert_eq!(complaints(known.rsplit_once(" el0t").unwrap().0).len(), 2);
    }

    #[test]
    fn violations_are_charged_to_the_test_that_caused_them() {
        let map = |pairs: &[(&str, u64)]| {
            pairs
                .iter()
                .map(|(name, count)| (name.to_string(), *count))
                .collect()
        };
        let before: BTreeMap<_, _> = map(&[("a", 1), ("b", 2)]);
        let after = map(&[("a", 1), ("b", 5), ("c", 1)]);
        assert_eq!(difference(&before, &after), map(&[("b", 3), ("c", 1)]));
    }

    #[test]
    fn names_are_unique_and_machines_adjacent() {
        let tests = in_order(tests::all());
        let mut names: Vec<&str> = tests.iter().map(|test| test.name.as_str()).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
        // Of two tests that share a machine, all between them share it too.
        for (i, test) in tests.iter().enumerate() {
            if let Some(last) = tests
                .iter()
                .rposition(|other| other.shares_machine_with(test))
            {
                assert!(tests[i..=last.max(i)].iter().all(
                    |other| other.shares_machine_with(test) || matches!(test.run, Run::Host(_))
                ));
            }
        }
    }
}
