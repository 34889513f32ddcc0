// SPDX-License-Identifier: GPL-2.0
//! Fuzzing of the logic that needs no kernel, guided by coverage: `tests/fuzz`, without cargo-fuzz.
//!
//! The host's cargo compiles the targets to a library, with the instrumentation that cargo-fuzz
//! would ask for; in the build root it is linked with libFuzzer and run. Runs are counted, not
//! timed, and begin with the same seed: they repeat as long as the code is the same.

use crate::env::Env;
use crate::proc;
use crate::steps::{fuzzer, root};
use crate::ui::Progress;
use anyhow::{bail, ensure, Context, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// A function of `tests/fuzz`, `fuzz_` and its name.
struct Target {
    name: &'static str,
    /// How many inputs are tried.
    runs: u64,
    /// How many edges of the code the corpus reaches, at least. It is more, but how many edges
    /// there are depends on the compiler.
    edges: u64,
}

const TARGETS: &[Target] = &[
    Target {
        name: "receive",
        runs: 300_000,
        edges: 150,
    },
    Target {
        name: "descriptors",
        runs: 30_000,
        edges: 150,
    },
    Target {
        name: "arguments",
        runs: 1_000_000,
        edges: 60,
    },
];

/// How many times as many inputs the long test tries.
const LONG: u64 = 50;

/// The longest input, in bytes.
const MAX_LEN: u32 = 256;

/// What cargo-fuzz would ask for.
const INSTRUMENTATION: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    // A failure ends the program at once.
    "-Cpanic=abort",
];

/// How much of what a failure says is passed on, in characters.
const SAID: usize = 300;

/// Where programs and inputs that failed are, in the repository.
const OUTPUT: &str = "target/lab/fuzz";

/// The inputs that a run begins with, in the repository.
pub(super) const CORPUS: &str = "tests/fuzz/corpus";

pub(super) fn short(env: &Env, log: &Path) -> Result<()> {
    all(env, log, 1)
}

pub(super) fn long(env: &Env, log: &Path) -> Result<()> {
    all(env, log, LONG)
}

fn all(env: &Env, log: &Path, times: u64) -> Result<()> {
    compile(env, log)?;
    for target in TARGETS {
        run(env, log, target, times)?;
    }
    Ok(())
}

fn compile(env: &Env, log: &Path) -> Result<()> {
    let mut cargo = Command::new("cargo");
    cargo
        .current_dir(&env.project)
        .args(["rustc", "--locked", "--package", "ravb-fuzz", "--lib"])
        .args(["--crate-type", "staticlib", "--target-dir", "target", "--"])
        .args(INSTRUMENTATION);
    proc::run_logged(&mut cargo, log, &Progress::quiet())
}

fn run(env: &Env, log: &Path, target: &Target, times: u64) -> Result<()> {
    let root = root::get(env)?;
    let library = fuzzer::get(env, &root)?;
    let name = target.name;
    let runs = target.runs * times;
    let script = format!(
        "mkdir -p /src/{OUTPUT}
         cd /src/{OUTPUT}
         clang++ -o {name} -Wl,--defsym=LLVMFuzzerTestOneInput=fuzz_{name} \
             /src/target/debug/libravb_fuzz.a /fuzzer/{}
         rm -rf {name}-new
         mkdir {name}-new
         cd /src
         {OUTPUT}/{name} -seed=1 -runs={runs} -max_len={MAX_LEN} -timeout=10 \
             -artifact_prefix={OUTPUT}/{name}- {OUTPUT}/{name}-new {CORPUS}/{name}",
        fuzzer::LIBRARY
    );
    let binds = [
        (env.project.as_path(), "/src"),
        (library.as_path(), "/fuzzer"),
    ];
    let before = fs::metadata(log).map_or(0, |log| log.len());
    let ended = proc::run_logged(&mut root.command(&binds, &script), log, &Progress::quiet());
    let text = fs::read(log)?;
    let text = String::from_utf8_lossy(&text[before as usize..]);
    if let Some(failure) = failure(name, &text) {
        bail!(failure);
    }
    ended?;
    ensure!(
        text.contains(&format!("Done {runs} runs")),
        "{name} did not make its {runs} runs"
    );
    let edges = edges(&text).with_context(|| format!("{name} says nothing of its coverage"))?;
    ensure!(
        edges >= target.edges,
        "the corpus of {name} reaches {edges} edges of the code, not {}: is it instrumented?",
        target.edges
    );
    Ok(())
}

/// How many edges were reached when the corpus had been read, by what libFuzzer printed.
fn edges(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.contains("INITED"))?;
    let mut words = line.split_whitespace();
    words.find(|&word| word == "cov:")?;
    words.next()?.parse().ok()
}

/// What failed, where the input is, and how to try it again; `None` if no input failed.
fn failure(name: &str, text: &str) -> Option<String> {
    let mut lines = text.lines();
    let written = "Test unit written to ";
    let input = lines.find_map(|line| Some(line.split_once(written)?.1))?;
    // Behind the line that says where are some that say what.
    let panic = text
        .lines()
        .skip_while(|line| !line.contains("panicked at"));
    let said: Vec<&str> = panic
        .skip(1)
        .take_while(|line| !line.starts_with("note:") && !line.starts_with("=="))
        .map(str::trim)
        .collect();
    let said = match said.is_empty() {
        true => "it hangs, or needs too much memory".to_string(),
        // All of an input may be in it; the log has the rest.
        false => said.join(", ").chars().take(SAID).collect(),
    };
    Some(format!(
        "{name}: {said}. Again: target/debug/ravb-lab exec {OUTPUT}/{name} {input}"
    ))
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn coverage_is_that_of_the_corpus() {
        let text = "INFO: seed corpus: files: 7\n\
                    #8\tINITED cov: 93 ft: 135 corp: 6/70b exec/s: 0 rss: 27Mb\n\
                    #50000\tDONE   cov: 118 ft: 236 corp: 12/187b\n";
        assert_eq!(edges(text), Some(93));
        assert_eq!(edges("#50000\tDONE   cov: 118\n"), None);
    }

    #[test]
    fn a_failure_says_what_and_how_to_see_it_again() {
        let text = "#8\tINITED cov: 93 ft: 135\n\n\
                    thread '<unnamed>' panicked at tests/logic/src/specification.rs:1:2:\n\
                    assertion `left == right` failed: lost\n  left: 1\n right: 2\n\
                    note: run with `RUST_BACKTRACE=1`\n\
                    ==10== ERROR: libFuzzer: deadly signal\n\
                    artifact_prefix='x/'; Test unit written to x/receive-crash-12\n";
        let said = failure("receive", text).unwrap_or_default();
        assert!(said.starts_with(
            "receive: assertion `left == right` failed: lost, left: 1, right: 2. Again: "
        ));
        assert!(said.ends_with("exec target/lab/fuzz/receive x/receive-crash-12"));
        assert_eq!(failure("receive", "Done 8 runs in 0 second(s)\n"), None);
    }
}
