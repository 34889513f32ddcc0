// SPDX-License-Identifier: GPL-2.0
//! Child processes: logged, timed, and never left behind.
//!
//! Every child leads its own process group. The group is killed when its owner is dropped, and
//! all groups are killed on SIGINT, SIGTERM and SIGHUP. Commands in the build root also run in a
//! PID namespace of their own, so whatever they started dies with them.

use crate::diagnose;
use crate::ui::Progress;
use anyhow::{bail, Context, Result};
use rustix::process::{kill_process_group, Pid, Signal};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

static GROUPS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());
static SCRATCH: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// No single command takes longer, not even a kernel build on a busy host.
const LIMIT: Duration = Duration::from_secs(45 * 60);

/// Exit status of a shell for a command ended by SIGINT.
const INTERRUPTED: i32 = 130;

/// Kills all children and removes scratch directories when the user interrupts the lab.
pub(crate) fn handle_interrupts() {
    let installed = ctrlc::set_handler(|| {
        // The locks stay held: nothing may start any more.
        let groups = GROUPS.lock();
        let scratch = SCRATCH.lock();
        if let Ok(groups) = &groups {
            groups.iter().for_each(|&group| kill_group(group));
        }
        if let Ok(scratch) = &scratch {
            for dir in scratch.iter() {
                let _ = std::fs::remove_dir_all(dir);
            }
        }
        eprintln!("\nravb-lab: interrupted");
        std::process::exit(INTERRUPTED);
    });
    // A second handler is a bug of ours; without one the lab still works.
    debug_assert!(installed.is_ok());
}

fn kill_group(group: i32) {
    if let Some(pid) = Pid::from_raw(group) {
        // The group may have ended by itself.
        let _ = kill_process_group(pid, Signal::KILL);
    }
}

/// A directory for sockets and images of a running machine, removed on drop and on interrupt.
pub(crate) struct Scratch(tempfile::TempDir);

impl Scratch {
    /// Makes one. It lives under the system's temporary directory because the path of a unix
    /// socket may only have 107 bytes.
    pub(crate) fn new() -> Result<Scratch> {
        let dir = tempfile::Builder::new()
            .prefix("ravb-lab-")
            .tempdir()
            .context("cannot make a temporary directory")?;
        if let Ok(mut scratch) = SCRATCH.lock() {
            scratch.insert(dir.path().to_path_buf());
        }
        Ok(Scratch(dir))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Ok(mut scratch) = SCRATCH.lock() {
            scratch.remove(self.0.path());
        }
    }
}

/// A running child that dies with this value.
pub(crate) struct Running {
    child: Child,
    group: Option<i32>,
}

impl Running {
    /// Starts `command` as leader of a process group, without standard input.
    pub(crate) fn start(command: &mut Command) -> Result<Running> {
        command.stdin(Stdio::null()).process_group(0);
        // Hold the lock while starting, so that an interrupt sees every child.
        let mut groups = GROUPS
            .lock()
            .map_err(|_| anyhow::anyhow!("the lab is stopping"))?;
        let child = command
            .spawn()
            .map_err(|error| diagnose::cannot_start(command, &error))?;
        let group = i32::try_from(child.id()).context("process id out of range")?;
        groups.insert(group);
        Ok(Running {
            child,
            group: Some(group),
        })
    }

    /// Starts `command` in the lab's own process group, with the user's terminal.
    pub(crate) fn start_in_foreground(command: &mut Command) -> Result<Running> {
        let child = command
            .spawn()
            .map_err(|error| diagnose::cannot_start(command, &error))?;
        // No group to kill: the terminal's signals reach the child as they reach the lab.
        Ok(Running { child, group: None })
    }

    /// The exit status, if the child has ended.
    pub(crate) fn status(&mut self) -> Result<Option<ExitStatus>> {
        self.child
            .try_wait()
            .context("cannot wait for a child process")
    }

    /// Waits until the child ends; `None` if that took longer than `limit`.
    pub(crate) fn wait(&mut self, limit: Duration) -> Result<Option<ExitStatus>> {
        let end = Instant::now() + limit;
        loop {
            if let Some(status) = self.status()? {
                return Ok(Some(status));
            }
            if Instant::now() >= end {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        match self.group {
            Some(group) => kill_group(group),
            None => drop(self.child.kill()),
        }
        let _ = self.child.wait();
        if let (Some(group), Ok(mut groups)) = (self.group, GROUPS.lock()) {
            groups.remove(&group);
        }
    }
}

/// Runs `command` to its end with its output in `log`; a failure carries the log's last lines.
pub(crate) fn run_logged(command: &mut Command, log: &Path, progress: &Progress) -> Result<()> {
    let file = append(log)?;
    command.stdout(file.try_clone()?).stderr(file);
    let mut child = Running::start(command)?;
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.wait(Duration::from_millis(200))? {
            break status;
        }
        if start.elapsed() > LIMIT {
            bail!(diagnose::hangs(log, LIMIT));
        }
        progress.say(tail(log, 1).trim_end());
    };
    if !status.success() {
        bail!(diagnose::failed(log, status));
    }
    Ok(())
}

/// Runs `command` and returns its standard output; a failure carries its standard error.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    command.stdin(Stdio::null());
    let result = command
        .output()
        .map_err(|error| diagnose::cannot_start(command, &error))?;
    if !result.status.success() {
        bail!(
            "{} failed ({}): {}",
            command.get_program().to_string_lossy(),
            result.status,
            String::from_utf8_lossy(&result.stderr).trim()
        );
    }
    Ok(String::from_utf8_lossy(&result.stdout).into_owned())
}

/// Opens a log for appending, making its directory.
pub(crate) fn append(log: &Path) -> Result<File> {
    if let Some(dir) = log.parent() {
        std::fs::create_dir_all(dir)?;
    }
    File::options()
        .create(true)
        .append(true)
        .open(log)
        .with_context(|| format!("cannot write {}", log.display()))
}

/// The last `lines` lines of a file, empty if there are none.
pub(crate) fn tail(path: &Path, lines: usize) -> String {
    const WINDOW: u64 = 32 * 1024;
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = File::open(path)?;
        let start = file.metadata()?.len().saturating_sub(WINDOW);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let text = String::from_utf8_lossy(&read().unwrap_or_default()).replace('\r', "\n");
    let all: Vec<&str> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .collect();
    all[all.len().saturating_sub(lines)..]
        .iter()
        .map(|line| format!("{line}\n"))
        .collect()
}
