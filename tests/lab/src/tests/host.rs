// SPDX-License-Identifier: GPL-2.0
//! Tests that need no machine: unit tests, formatting, lints, and what can be read off the module.

use super::{fuzz, Run, Test};
use crate::env::Env;
use crate::proc::{self, append};
use crate::steps::kernel::{self, Flavour, MAKE};
use crate::steps::{module, root, stock};
use crate::ui::Progress;
use anyhow::{bail, ensure, Context, Result};
use serde_json::Value;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

type Function = fn(&Env, &Path) -> Result<()>;

const TESTS: &[(&str, Function)] = &[
    ("host-logic", logic),
    ("host-fuzz", fuzz::short),
    ("host-model", model),
    ("host-lab", lab),
    ("host-rustfmt", rustfmt),
    ("host-clippy-tools", clippy_tools),
    ("host-clippy-driver", clippy_driver),
    ("host-warnings", |env, log| {
        warnings(env, Flavour::Stock, log)
    }),
    ("host-sparse", sparse),
    ("host-checkpatch", checkpatch),
    ("host-spelling", spelling),
    ("host-unsafe", no_unsafe),
    ("host-tree", tree),
    ("host-aliases", aliases),
    ("host-rust-analyzer", rust_analyzer),
];

/// Those of `make check-all`.
const LONG: &[(&str, Function)] = &[
    ("host-logic-every-size", logic_every_size),
    ("host-fuzz-long", fuzz::long),
];

pub(crate) fn tests() -> Vec<Test> {
    let tests = |long| {
        let table = if long { LONG } else { TESTS };
        table.iter().map(move |&(name, run)| Test {
            name: name.to_string(),
            long,
            run: Run::Host(run),
        })
    };
    tests(false).chain(tests(true)).collect()
}

fn cargo(env: &Env, log: &Path, args: &[&str]) -> Result<()> {
    let progress = Progress::quiet();
    proc::run_logged(
        Command::new("cargo").current_dir(&env.project).args(args),
        log,
        &progress,
    )
}

fn logic(env: &Env, log: &Path) -> Result<()> {
    cargo(env, log, &["test", "--locked", "--package", "ravb-logic"])
}

/// The tests that are ignored because they take long.
fn logic_every_size(env: &Env, log: &Path) -> Result<()> {
    let test = ["test", "--locked", "--release", "--package", "ravb-logic"];
    let ignored = ["every_kind_of_every_size", "--", "--ignored"];
    cargo(env, log, &[&test[..], &ignored[..]].concat())?;
    // Cargo is content when no test has this name.
    let text = fs::read_to_string(log)?;
    ensure!(text.contains(" 1 passed;"), "the test did not run");
    Ok(())
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

/// Files of the repository, relative to it, without what builds make, and without what fuzzing
/// begins with: that is no text.
fn files(env: &Env) -> Result<Vec<PathBuf>> {
    let listed = proc::output(Command::new("git").current_dir(&env.project).args([
        "-c",
        "safe.directory=*",
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "-z",
    ]))
    .context("the files of the repository cannot be listed")?;
    let mut files: Vec<PathBuf> = listed
        .split('\0')
        .filter(|name| !name.is_empty())
        .map(PathBuf::from)
        .filter(|path| !path.starts_with(fuzz::CORPUS))
        // One that was deleted is listed until that is committed.
        .filter(|path| env.project.join(path).is_file())
        .collect();
    files.sort();
    Ok(files)
}

/// Files with one of these endings.
fn ending(env: &Env, endings: &[&str]) -> Result<Vec<PathBuf>> {
    let mut files = files(env)?;
    files.retain(|path| {
        let name = path.to_string_lossy();
        endings.iter().any(|ending| name.ends_with(ending))
    });
    Ok(files)
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
    let files = words(&ending(env, &[".rs"])?);
    in_root(
        env,
        log,
        &format!("rustfmt --check --edition 2021 --config-path .rustfmt.toml {files}"),
    )
}

/// Builds a copy of the driver with more options of kbuild, and fails on any warning. `ran` is a
/// line of kbuild's that shows that the check was made.
fn strict_build(env: &Env, flavour: Flavour, log: &Path, options: &str, ran: &str) -> Result<()> {
    let kernel = kernel::get(env, flavour)?;
    let copy = tempfile::tempdir()?;
    module::copy_sources(&env.project, copy.path())?;
    let mut command = kernel.make(copy.path(), &format!("{options} modules"));
    proc::run_logged(&mut command, log, &Progress::quiet())?;
    let text = fs::read_to_string(log)?;
    let found = warnings_in(&text);
    ensure!(
        found.is_empty(),
        "{} warnings, first: {}",
        found.len(),
        found[0]
    );
    ensure!(
        text.lines().any(|line| line.trim_start().starts_with(ran)),
        "the check was not made: kbuild printed no line {ran:?}"
    );
    Ok(())
}

fn warnings_in(log: &str) -> Vec<&str> {
    log.lines()
        .filter(|line| line.contains("warning:") || line.contains("error:"))
        .collect()
}

/// The kernel's own clippy settings.
fn clippy_driver(env: &Env, log: &Path) -> Result<()> {
    let options = "W=1 CLIPPY=1";
    strict_build(env, Flavour::Stock, log, options, "CLIPPY [M] ravb_rs.o")
}

/// Extra warnings of both compilers.
pub(super) fn warnings(env: &Env, flavour: Flavour, log: &Path) -> Result<()> {
    strict_build(env, flavour, log, "W=1", "CC [M]  bindings/helpers.o")
}

/// Sparse, on the C file. The kernel's headers use an operator that is younger than the packaged
/// sparse; the one it knows differs from it in const and volatile alone.
fn sparse(env: &Env, log: &Path) -> Result<()> {
    let options = "C=1 CF=-D__typeof_unqual__=__typeof__";
    strict_build(env, Flavour::Stock, log, options, "CHECK")
}

/// What checkpatch says of the device's glue and does not fit there: the names and types are
/// QEMU's, and its macros look like declarations.
const CHECKPATCH_QEMU: &str =
    "CAMELCASE,PREFER_KERNEL_TYPES,NEW_TYPEDEFS,SPACING,LINE_SPACING,AVOID_EXTERNS";

/// Everything checkpatch has an opinion on, in its strict mode. C keeps to 80 columns, or QEMU's
/// 90, and Rust to rustfmt's 100.
fn checkpatch(env: &Env, log: &Path) -> Result<()> {
    let (qemu, c): (Vec<_>, Vec<_>) = ending(env, &[".c", ".h"])?
        .into_iter()
        .partition(|path| path.starts_with("tests/qemu"));
    let others = ending(
        env,
        &[
            ".rs", ".rst", ".sh", ".dts", ".dtsi", ".dtso", "Kconfig", "Kbuild", "Makefile", ".mak",
        ],
    )?;
    let check = |columns: u32, more: &str, files: &[PathBuf]| {
        format!(
            "/kernel/scripts/checkpatch.pl --strict --no-tree --no-summary --terse --quiet \
             --show-types --max-line-length={columns} {more} -f {} || status=1\n",
            words(files)
        )
    };
    let script = [
        check(100, "", &others),
        check(80, "", &c),
        check(90, &format!("--ignore {CHECKPATCH_QEMU}"), &qemu),
    ]
    .concat();
    in_root(env, log, &format!("status=0\n{script}exit $status"))
}

/// What codespell takes for a mistake and is none: parts of the hardware, pieces of names.
const NO_MISTAKES: &str = "ahd,emac,ot,te";

fn spelling(env: &Env, log: &Path) -> Result<()> {
    let mut files = files(env)?;
    files.retain(|path| !UNLICENSED.contains(&path.to_string_lossy().as_ref()));
    let script = format!(
        "codespell --ignore-words-list={NO_MISTAKES} {}",
        words(&files)
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
        let text = fs::read_to_string(env.project.join(&file))?;
        for (number, line) in code_of(&text).lines().enumerate() {
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

fn is_unsafe(code: &str) -> bool {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
        .any(|word| word == "unsafe")
}

/// Rust without its comments and the contents of its literals; lines stay lines.
fn code_of(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = comment(rest).or_else(|| literal(rest));
        match skipped {
            Some(length) => {
                code.extend(rest[..length].chars().filter(|&c| c == '\n'));
                // Words on both sides stay two.
                code.push(' ');
                rest = &rest[length..];
            }
            None => {
                // A word is taken whole: an r or b within it begins no literal.
                let is_word = |c: char| c.is_alphanumeric() || c == '_';
                let length = match rest.find(|c| !is_word(c)) {
                    Some(0) => first.len_utf8(),
                    Some(length) => length,
                    None => rest.len(),
                };
                code.push_str(&rest[..length]);
                rest = &rest[length..];
            }
        }
    }
    code
}

/// Length of the comment that `text` begins with.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if !text.starts_with("/*") {
        return None;
    }
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        let here = &text.as_bytes()[at..];
        match here {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    Some(at)
}

/// Length of the string or character that `text` begins with.
fn literal(text: &str) -> Option<usize> {
    let start = text.len() - text.trim_start_matches(['b', 'c']).len();
    let start = if start > 1 { return None } else { start };
    let body = &text[start..];
    if let Some(raw) = body.strip_prefix('r') {
        let marks = raw.len() - raw.trim_start_matches('#').len();
        let inside = raw[marks..].strip_prefix('"')?;
        let end = format!("\"{}", "#".repeat(marks));
        let length = inside.find(&end).map_or(inside.len(), |at| at + end.len());
        return Some(start + 1 + marks + 1 + length);
    }
    let quote = body.chars().next().filter(|c| matches!(c, '"' | '\''))?;
    let mut chars = body.char_indices().skip(1);
    let mut count = 0;
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            c if c == quote => return Some(start + at + 1),
            // A lifetime, not a character.
            _ if quote == '\'' && count > 0 => return None,
            _ => {}
        }
        count += 1;
    }
    None
}

/// Files that can carry no licence line: the licence, what cargo writes, an entry to be copied, and
/// JSON.
const UNLICENSED: &[&str] = &[
    "COPYING",
    "Cargo.lock",
    "tests/graft/MAINTAINERS",
    "tests/lab/baseline.json",
];

/// Every file says what its licence is, and none names this machine or where packages come from.
fn tree(env: &Env, log: &Path) -> Result<()> {
    let mut out = append(log)?;
    let mut count = 0;
    let machine = machine(&env.project);
    // In pieces, lest it be taken for this file's own.
    let licence = ["SPD", "X-License-Identifier: GPL-2.0"].concat();
    for file in files(env)? {
        let name = file.to_string_lossy();
        let Ok(text) = fs::read_to_string(env.project.join(&file)) else {
            bail!("{name} is no text");
        };
        let licensed = text.lines().take(3).any(|line| line.contains(&licence));
        if !licensed && !UNLICENSED.contains(&name.as_ref()) {
            writeln!(out, "{name}: no SPDX line")?;
            count += 1;
        }
        if name == "Cargo.lock" {
            continue;
        }
        for (number, line) in text.lines().enumerate() {
            if let Some(word) = machine.iter().find(|word| line.contains(*word)) {
                writeln!(out, "{name}:{}: names {word}", number + 1)?;
                count += 1;
            }
        }
    }
    ensure!(count == 0, "{count} lines, see the log");
    Ok(())
}

/// What no file may name. In pieces, because this file is one of those that are read.
fn machine(project: &Path) -> Vec<String> {
    let mut words: Vec<String> = [
        ["/ro", "ot/"],
        ["deb.debian", ".org"],
        ["ftp.debian", ".org"],
        ["snapshot.debian", ".org"],
        ["static.crates", ".io"],
        ["index.crates", ".io"],
        ["files.python", "hosted.org"],
        ["pypi", ".org"],
    ]
    .iter()
    .map(|pieces| pieces.concat())
    .collect();
    words.push(project.to_string_lossy().into_owned());
    words
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

/// Editors get a description of the crate and all it depends on.
fn rust_analyzer(env: &Env, log: &Path) -> Result<()> {
    let kernel = kernel::get(env, Flavour::Stock)?;
    let copy = tempfile::tempdir()?;
    module::copy_sources(&env.project, copy.path())?;
    fs::copy(env.project.join("Makefile"), copy.path().join("Makefile"))?;
    let root = root::get(env)?;
    let binds = [(copy.path(), "/out"), (kernel.dir.as_path(), "/kernel")];
    let script = format!("{MAKE} -C /out KDIR=/kernel rust-analyzer");
    proc::run_logged(&mut root.command(&binds, &script), log, &Progress::quiet())?;
    let text = fs::read_to_string(copy.path().join("rust-project.json"))?;
    let project: Value = serde_json::from_str(&text)?;
    let ours = project["crates"]
        .as_array()
        .and_then(|crates| crates.iter().find(|one| one["display_name"] == "ravb_rs"))
        .context("rust-project.json does not describe ravb_rs")?;
    let bindings = ours["env"]["RAVB_RS_BINDINGS"].as_str().unwrap_or_default();
    ensure!(
        bindings.ends_with("bindings/bindings_generated.rs"),
        "rust-project.json does not say where the generated bindings are"
    );
    ensure!(
        ours["deps"]
            .as_array()
            .is_some_and(|deps| deps.iter().any(|dep| dep["name"] == "kernel")),
        "rust-project.json does not know the kernel crate"
    );
    Ok(())
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn unsafe_is_a_word_outside_comments() {
        let found = |text: &str| is_unsafe(&code_of(text));
        assert!(found("    unsafe { f() }"));
        assert!(found("unsafe impl Send for X {}"));
        assert!(found("let a = \"// \"; unsafe { f() }"));
        assert!(found("let a = '\"'; unsafe { f() } // \""));
        assert!(found("fn f<'a>(x: &'a u8) { unsafe { g(x) } }"));
        assert!(found("let a = r#\"quote \" inside\"#; unsafe { f() }"));
        assert!(found("/* a /* b */ c */ unsafe { f() }"));
        assert!(found("let a = '\\''; unsafe { f() }"));
        assert!(!found("#![deny(unsafe_code)]"));
        assert!(!found("// no unsafe here"));
        assert!(!found("/* no\nunsafe /* nor unsafe */ unsafe here */"));
        assert!(!found("let a = \"unsafe \\\" unsafe\";"));
        assert!(!found("let a = c\"unsafe\"; let b = br\"unsafe\";"));
    }

    #[test]
    fn lines_stay_lines() {
        let text = "a /* b\nc */ d // e\n\"f\ng\" h\n";
        assert_eq!(code_of(text).lines().count(), text.lines().count());
    }

    #[test]
    fn warnings_are_found() {
        assert!(warnings_in("  CC [M]  a.o\n").is_empty());
        assert_eq!(warnings_in("a.c:1:2: warning: unused\n").len(), 1);
    }
}
