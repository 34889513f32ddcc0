// SPDX-License-Identifier: GPL-2.0
//! Tests that need no machine: unit tests, formatting, lints, and what can be read off the module.

use super::{Run, Test};
use crate::cache::files_below;
use crate::env::Env;
use crate::proc::{self, append};
use crate::steps::kernel::{self, Flavour};
use crate::steps::{module, root, stock};
use crate::ui::Progress;
use anyhow::{bail, ensure, Result};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

type Function = fn(&Env, &Path) -> Result<()>;

const TESTS: &[(&str, Function)] = &[
    ("host-model", model),
    ("host-lab", lab),
    ("host-rustfmt", rustfmt),
    ("host-clippy-tools", clippy_tools),
    ("host-clippy-driver", clippy_driver),
    ("host-warnings", warnings),
    ("host-checkpatch", checkpatch),
    ("host-unsafe", no_unsafe),
    ("host-aliases", aliases),
];

pub(crate) fn tests() -> Vec<Test> {
    TESTS
        .iter()
        .map(|&(name, run)| Test {
            name: name.to_string(),
            long: false,
            run: Run::Host(run),
        })
        .collect()
}

fn cargo(env: &Env, log: &Path, args: &[&str]) -> Result<()> {
    let progress = Progress::quiet();
    proc::run_logged(
        Command::new("cargo").current_dir(&env.project).args(args),
        log,
        &progress,
    )
}

fn model(env: &Env, log: &Path) -> Result<()> {
    cargo(env, log, &["test", "--locked", "--package", "ravb-model"])
}

fn lab(env: &Env, log: &Path) -> Result<()> {
    cargo(env, log, &["test", "--locked", "--package", "ravb-lab"])
}

fn clippy_tools(env: &Env, log: &Path) -> Result<()> {
    cargo(
        env,
        log,
        &[
            "clippy",
            "--locked",
            "--all-targets",
            "--",
            "-D",
            "warnings",
        ],
    )
}

/// Rust files of the repository, relative to it.
fn rust_files(env: &Env) -> Vec<PathBuf> {
    let mut files = module::sources(&env.project);
    let tests: Vec<PathBuf> = ["model", "lab"]
        .map(|name| env.project.join("tests").join(name))
        .to_vec();
    files.extend(
        files_below(&tests)
            .into_iter()
            .filter_map(|path| path.strip_prefix(&env.project).ok().map(Path::to_path_buf)),
    );
    files.retain(|path| path.extension().is_some_and(|extension| extension == "rs"));
    files
}

/// Words of a command line.
fn words(files: &[PathBuf]) -> String {
    files
        .iter()
        .map(|path| path.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Runs a script in the build root with the repository at /src.
fn in_root(env: &Env, log: &Path, script: &str) -> Result<()> {
    let root = root::get(env)?;
    let kernel = kernel::get(env, Flavour::Stock)?;
    let binds = [
        (env.project.as_path(), "/src"),
        (kernel.dir.as_path(), "/kernel"),
    ];
    let script = format!("cd /src\n{script}");
    proc::run_logged(&mut root.command(&binds, &script), log, &Progress::quiet())
}

fn rustfmt(env: &Env, log: &Path) -> Result<()> {
    let files = words(&rust_files(env));
    in_root(
        env,
        log,
        &format!("rustfmt --check --edition 2021 --config-path .rustfmt.toml {files}"),
    )
}

/// Builds a copy of the driver with more options of kbuild, and fails on any warning in our files.
fn strict_build(env: &Env, log: &Path, options: &str) -> Result<()> {
    let kernel = kernel::get(env, Flavour::Stock)?;
    let copy = tempfile::tempdir()?;
    module::copy_sources(&env.project, copy.path())?;
    let mut command = kernel.make(copy.path(), &format!("{options} modules"));
    proc::run_logged(&mut command, log, &Progress::quiet())?;
    let text = fs::read_to_string(log)?;
    let found: Vec<&str> = text
        .lines()
        .filter(|line| line.contains("warning:") || line.contains("error:"))
        .collect();
    ensure!(
        found.is_empty(),
        "{} warnings, first: {}",
        found.len(),
        found[0]
    );
    Ok(())
}

/// The kernel's own clippy settings.
fn clippy_driver(env: &Env, log: &Path) -> Result<()> {
    strict_build(env, log, "CLIPPY=1")
}

/// Extra compiler warnings, and sparse for the C file. The stable distribution's sparse does not
/// know one keyword of the kernel's headers, so it gets a substitute.
fn warnings(env: &Env, log: &Path) -> Result<()> {
    strict_build(env, log, "W=1 C=1 CF=-D__typeof_unqual__=__typeof__")?;
    let text = fs::read_to_string(log)?;
    ensure!(text.contains("  CHECK   bindings/"), "sparse did not run");
    Ok(())
}

/// What checkpatch says that does not fit here: it expects files inside a kernel tree.
const CHECKPATCH: &str = "FILE_PATH_CHANGES,EMBEDDED_FILENAME,CONFIG_DESCRIPTION";

/// What does not fit the glue: QEMU's macros want typedefs and look like declarations.
const CHECKPATCH_QEMU: &str = "NEW_TYPEDEFS,SPACING,LINE_SPACING";

fn checkpatch(env: &Env, log: &Path) -> Result<()> {
    let below = |dir: &str| -> Vec<PathBuf> {
        let files = files_below(&[env.project.join(dir)]);
        let relative = |path: PathBuf| path.strip_prefix(&env.project).ok().map(Path::to_path_buf);
        files.into_iter().filter_map(relative).collect()
    };
    let checked = |files: Vec<PathBuf>| -> String {
        let known = [
            ".rs", ".c", ".h", ".S", ".dts", ".dtsi", ".dtso", "Kconfig", "Kbuild", ".sh",
        ];
        let is_known = |path: &PathBuf| {
            known
                .iter()
                .any(|end| path.to_string_lossy().ends_with(end))
        };
        words(&files.into_iter().filter(is_known).collect::<Vec<_>>())
    };
    let mut files = module::sources(&env.project);
    files.extend(below("tests/dts"));
    let check =
        "/kernel/scripts/checkpatch.pl --no-tree --no-summary --terse --quiet --show-types \
                 --max-line-length=100";
    let script = format!(
        "status=0
         {check} --ignore {CHECKPATCH} -f {} || status=1
         {check} --ignore {CHECKPATCH},{CHECKPATCH_QEMU} -f {} || status=1
         exit $status",
        checked(files),
        checked(below("tests/qemu")),
    );
    in_root(env, log, &script)
}

/// All unsafe code of the driver is in the two lower layers.
fn no_unsafe(env: &Env, log: &Path) -> Result<()> {
    let mut out = append(log)?;
    let mut count = 0;
    for file in module::sources(&env.project) {
        let upper = !file.starts_with("net") && !file.starts_with("bindings");
        if !upper || file.extension().is_none_or(|extension| extension != "rs") {
            continue;
        }
        for (number, line) in fs::read_to_string(env.project.join(&file))?
            .lines()
            .enumerate()
        {
            if is_unsafe(line) {
                writeln!(out, "{}:{}: {}", file.display(), number + 1, line.trim())?;
                count += 1;
            }
        }
    }
    ensure!(
        count == 0,
        "{count} lines of unsafe code outside net/ and bindings/"
    );
    Ok(())
}

fn is_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or(line);
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|word| word == "unsafe")
}

/// Both drivers match the same device-tree nodes.
fn aliases(env: &Env, log: &Path) -> Result<()> {
    let root = root::get(env)?;
    let stock = stock::get(env)?;
    let ours = module::get(env, &kernel::get(env, Flavour::Stock)?)?;
    let theirs = stock
        .modules()
        .join("kernel/drivers/net/ethernet/renesas/ravb.ko.xz");
    let read = |path: &Path| -> Result<Vec<String>> {
        let text = proc::output(root.bin("modinfo")?.args(["-F", "alias"]).arg(path))?;
        let mut all: Vec<String> = text
            .lines()
            .filter(|line| line.starts_with("of:"))
            .map(str::to_string)
            .collect();
        all.sort();
        Ok(all)
    };
    let (ours, theirs) = (read(&ours)?, read(&theirs)?);
    writeln!(
        append(log)?,
        "ours: {ours:#?}\nthe stock driver's: {theirs:#?}"
    )?;
    if ours != theirs || ours.is_empty() {
        bail!("modinfo's device-tree aliases differ from the stock driver's");
    }
    Ok(())
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn unsafe_is_a_word_outside_comments() {
        assert!(is_unsafe("    unsafe { f() }"));
        assert!(is_unsafe("unsafe impl Send for X {}"));
        assert!(!is_unsafe("#![deny(unsafe_code)]"));
        assert!(!is_unsafe("// no unsafe here"));
    }
}
