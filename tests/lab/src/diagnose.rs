// SPDX-License-Identifier: GPL-2.0
//! Turns what went wrong into one sentence that says what to do.

use crate::proc::tail;
use anyhow::anyhow;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::Duration;

/// How many lines of a failed step's log are shown.
const LOG_LINES: usize = 15;

/// Patterns in the log of a failed step, and what they mean.
const CAUSES: &[(&[&str], &str)] = &[
    (
        &["No space left on device"],
        "the disk is full: free some space, or set XDG_CACHE_HOME to a larger disk",
    ),
    (
        &[
            "Temporary failure resolving",
            "Could not resolve",
            "Could not connect",
            "Network is unreachable",
            "Connection timed out",
            "Connection failed",
        ],
        "apt cannot reach the Debian archive: check the network (and the proxy in apt's \
         configuration), then run the same command again",
    ),
    (
        &[
            "Unable to locate package",
            "has no installation candidate",
            "404  Not Found",
        ],
        "a package left the archive: run `make update` to take the newest ones, or give another \
         kernel tree with KERNEL_SRC= or KDIR=",
    ),
    (
        &[
            "is not signed",
            "NO_PUBKEY",
            "signatures couldn't be verified",
        ],
        "the signature of the Debian archive could not be verified: install \
         debian-archive-keyring in its newest version",
    ),
    (
        &[
            "unshare failed: Operation not permitted",
            "unshare: unshare failed",
        ],
        "namespaces are not allowed here: run as root, or allow unprivileged user namespaces and \
         give the user a range in /etc/subuid and /etc/subgid",
    ),
];

/// Packages of the tools the lab calls on the host.
const TOOLS: &[(&str, &str)] = &[
    ("mmdebstrap", "mmdebstrap"),
    ("unshare", "util-linux"),
    ("make", "make"),
    ("cargo", "cargo (1.85 or newer)"),
    ("git", "git"),
    ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
];

/// The cause a log shows, if it is one we know.
fn cause(log: &str) -> Option<&'static str> {
    CAUSES
        .iter()
        .find(|(patterns, _)| patterns.iter().any(|pattern| log.contains(pattern)))
        .map(|&(_, meaning)| meaning)
}

/// A command ended with `status`: known cause, path of the log, its last lines.
pub(crate) fn failed(log: &Path, status: ExitStatus) -> anyhow::Error {
    let lines = tail(log, 60);
    let why = match cause(&lines) {
        Some(cause) => cause.to_string(),
        None => format!("a command failed ({status})"),
    };
    with_log(&why, log)
}

/// A command was killed because it did not come to an end.
pub(crate) fn hangs(log: &Path, limit: Duration) -> anyhow::Error {
    with_log(
        &format!("a command took more than {} min", limit.as_secs() / 60),
        log,
    )
}

fn with_log(why: &str, log: &Path) -> anyhow::Error {
    let shown = tail(log, LOG_LINES);
    anyhow!("{why}\nlog: {}\n{}", log.display(), indent(&shown))
}

/// Fails unless the host has a program that is called through another one.
pub(crate) fn need_tool(program: &str) -> anyhow::Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|dir| dir.join(program).is_file()) {
        return Ok(());
    }
    Err(cannot_start(
        &Command::new(program),
        &ErrorKind::NotFound.into(),
    ))
}

/// A command could not be started at all.
pub(crate) fn cannot_start(command: &Command, error: &std::io::Error) -> anyhow::Error {
    let program = command.get_program().to_string_lossy().into_owned();
    if error.kind() == ErrorKind::NotFound {
        let package = TOOLS
            .iter()
            .find(|(tool, _)| *tool == program)
            .map(|&(_, package)| package);
        return match package {
            Some(package) => {
                anyhow!("{program} is missing: install it (apt-get install {package})")
            }
            None => anyhow!("{program} is missing"),
        };
    }
    anyhow!("cannot start {program}: {error}")
}

/// Fails unless the filesystem of `path` has `needed` bytes left.
pub(crate) fn need_space(path: &Path, needed: u64) -> anyhow::Result<()> {
    let stat = rustix::fs::statvfs(path)?;
    let free = stat.f_bavail.saturating_mul(stat.f_frsize);
    if free < needed {
        anyhow::bail!(
            "{} has {} MB left and this step needs {} MB: free some space, or set \
             XDG_CACHE_HOME to a larger disk",
            path.display(),
            free >> 20,
            needed >> 20
        );
    }
    Ok(())
}

/// Puts four spaces before every line.
pub(crate) fn indent(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_causes_are_recognised() {
        let sentence = cause("E: Unable to locate package linux-source-7.3").unwrap();
        assert!(sentence.contains("KERNEL_SRC="));
        assert!(cause("Err:1 Temporary failure resolving 'archive'")
            .unwrap()
            .contains("network"));
        assert!(cause("tar: write: No space left on device")
            .unwrap()
            .contains("disk"));
        assert_eq!(cause("undefined reference to `foo'"), None);
    }

    #[test]
    fn missing_tool_names_its_package() {
        let error = std::io::Error::from(ErrorKind::NotFound);
        let text = cannot_start(&Command::new("mmdebstrap"), &error).to_string();
        assert_eq!(
            text,
            "mmdebstrap is missing: install it (apt-get install mmdebstrap)"
        );
    }

    #[test]
    fn tools_are_looked_for() {
        assert!(need_tool("sh").is_ok());
        assert!(need_tool("no-such-tool").is_err());
    }

    #[test]
    fn space_is_checked() {
        assert!(need_space(Path::new("/"), 1).is_ok());
        assert!(need_space(Path::new("/"), u64::MAX).is_err());
    }
}
