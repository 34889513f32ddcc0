// SPDX-License-Identifier: GPL-2.0
//! Kernel build tree for the stock kernel, with the Rust metadata its headers package lacks.
//!
//! The packaged configuration and the packaged Module.symvers are taken over and the metadata is
//! made anew. That is only right with the same compilers and the same source, so both are
//! compared and any difference stops the lab.

use super::root::{self, Root};
use super::{built, source, stock};
use crate::arch::{self, Arch};
use crate::cache::{Key, Step, Work};
use crate::env::Env;
use anyhow::{bail, Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const VERSION: u32 = 2;

/// Arguments of make for this tree.
pub(crate) const MAKE: &str =
    "make -j$(nproc) ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu- CC=aarch64-linux-gnu-gcc-14";

/// Options that depend on what else is installed and change nothing a module can see: whether the
/// compiler can link a user program, and the 32-bit vDSO, which needs a second cross compiler.
const HARMLESS: &[&str] = &[
    "CONFIG_CC_CAN_LINK",
    "CONFIG_COMPAT_VDSO",
    "CONFIG_THUMB2_COMPAT_VDSO",
];

/// The kernels that tests run on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Flavour {
    /// The stock kernel, or the user's.
    Stock,
    /// The stock kernel with pages of 16 KiB.
    LargePages,
    /// The stock kernel with PREEMPT_RT.
    Realtime,
    /// One that is built to notice mistakes.
    Debug,
    /// One whose functions can be made to fail, and that is not slow.
    Faults,
    /// One for riscv64.
    Riscv64,
    /// One for 32-bit arm.
    Arm,
    /// A lean one, to measure on.
    Lean(Code),
}

/// How the Rust of a kernel is compiled, and of its modules.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Code {
    /// Overflow of integers is found when it happens.
    pub(crate) overflow_checks: bool,
    /// The kernel's C helpers become part of the functions that call them.
    pub(crate) inline_helpers: bool,
}

impl Code {
    /// All there are; the one that is Kconfig's default comes first.
    pub(crate) const ALL: [Code; 4] = [
        Code::new(true, false),
        Code::new(true, true),
        Code::new(false, false),
        Code::new(false, true),
    ];

    const fn new(overflow_checks: bool, inline_helpers: bool) -> Code {
        Code {
            overflow_checks,
            inline_helpers,
        }
    }

    /// Name of its directory and in reports.
    pub(crate) fn key(self) -> &'static str {
        match (self.overflow_checks, self.inline_helpers) {
            (true, false) => "checked",
            (true, true) => "checked-inlined",
            (false, false) => "unchecked",
            (false, true) => "unchecked-inlined",
        }
    }

    /// Lines of its configuration.
    pub(super) fn options(self) -> String {
        let line = |name: &str, on| match on {
            true => format!("CONFIG_{name}=y\n"),
            false => format!("# CONFIG_{name} is not set\n"),
        };
        line("RUST_OVERFLOW_CHECKS", self.overflow_checks)
            + &line("RUST_INLINE_HELPERS", self.inline_helpers)
    }
}

impl Flavour {
    /// What it runs on.
    pub(crate) fn arch(self) -> &'static Arch {
        match self {
            Flavour::Stock
            | Flavour::LargePages
            | Flavour::Realtime
            | Flavour::Debug
            | Flavour::Faults
            | Flavour::Lean(_) => &arch::ARM64,
            Flavour::Riscv64 => &arch::RISCV64,
            Flavour::Arm => &arch::ARM,
        }
    }
}

/// A kernel to build for and to boot.
pub(crate) struct Kernel {
    /// Build tree with Rust metadata.
    pub(crate) dir: PathBuf,
    /// Release string.
    pub(crate) release: String,
    /// Image to boot.
    pub(crate) image: PathBuf,
    /// Directory with its modules and modules.dep.
    pub(crate) modules: PathBuf,
    /// What identifies it in the key of a step that uses it.
    pub(crate) id: String,
    /// Where its compilers are.
    pub(super) tools: Tools,
}

/// Where the compilers are that built a kernel.
pub(super) enum Tools {
    /// In the build root, called with this command line.
    Root(Root, &'static str),
    /// On the host, with these arguments of make.
    Host(&'static str),
}

impl Kernel {
    /// Runs make for the module in `dir`.
    pub(crate) fn make(&self, dir: &Path, arguments: &str) -> Command {
        match &self.tools {
            Tools::Root(root, make) => {
                let binds = [(dir, "/out"), (self.dir.as_path(), "/kernel")];
                root.command(&binds, &format!("{make} -C /kernel M=/out {arguments}"))
            }
            Tools::Host(options) => {
                let mut command = Command::new("make");
                command
                    .arg("-C")
                    .arg(&self.dir)
                    .arg(format!("M={}", dir.display()));
                command
                    .args(options.split_whitespace())
                    .args(arguments.split_whitespace());
                command
            }
        }
    }
}

/// A kernel to test with.
pub(crate) fn get(env: &Env, flavour: Flavour) -> Result<Kernel> {
    match (flavour, &env.kdir) {
        (Flavour::Debug, _) => built::get(env, &built::DEBUG),
        (Flavour::Faults, _) => built::get(env, &built::FAULTS),
        (Flavour::Riscv64, _) => built::get(env, &built::RISCV64),
        (Flavour::Arm, _) => built::get(env, &built::ARM),
        (Flavour::Lean(code), _) => built::lean(env, code),
        (Flavour::Stock, Some(kdir)) => given(env, kdir),
        (Flavour::Stock, None) => prepared(env, stock::get(env)?),
        (Flavour::LargePages, _) => prepared(env, stock::of(env, stock::LARGE_PAGES)?),
        (Flavour::Realtime, _) => prepared(env, stock::of(env, stock::REALTIME)?),
    }
}

/// The user's build tree. Its compilers are the host's, except where it names the very ones of
/// the build root.
fn given(env: &Env, kdir: &Path) -> Result<Kernel> {
    let config = read_config(&kdir.join(".config"))
        .with_context(|| format!("KDIR={} is no kernel build tree", kdir.display()))?;
    if config.get("CONFIG_ARM64").map(String::as_str) != Some("y") {
        bail!("KDIR={} is not a tree for arm64", kdir.display());
    }
    if !kdir.join("rust/libkernel.rmeta").exists() {
        bail!(
            "KDIR={} has no Rust metadata (rust/libkernel.rmeta): build it with CONFIG_RUST=y",
            kdir.display()
        );
    }
    let release = fs::read_to_string(kdir.join("include/config/kernel.release"))
        .with_context(|| format!("KDIR={} is not built", kdir.display()))?;
    let image = ["Image", "Image.gz"]
        .iter()
        .map(|name| kdir.join("arch/arm64/boot").join(name))
        .find(|path| path.exists())
        .with_context(|| format!("KDIR={} has no kernel image: build it", kdir.display()))?;
    let root = root::get(env)?;
    let tools = match (built_with_ours(&root, &config)?, config.contains_key(CLANG)) {
        (true, true) => Tools::Root(root::get(env)?, "make -j$(nproc) ARCH=arm64 LLVM=1"),
        (true, false) => Tools::Root(root::get(env)?, MAKE),
        (false, true) => Tools::Host("ARCH=arm64 LLVM=1"),
        (false, false) => Tools::Host("ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-"),
    };

    let release = release.trim().to_string();
    let symvers = kdir.join("Module.symvers");
    let built = fs::metadata(&image)?
        .modified()?
        .duration_since(std::time::UNIX_EPOCH)?;
    let key = Key::new("kdir", VERSION)
        .text(&kdir.to_string_lossy())
        .text(&format!("{built:?}"))
        .file(kdir, &symvers)?
        .finish();
    let step = Step {
        name: "kdir",
        label: "modules of KDIR",
        space: 1 << 30,
        keep: 1,
    };
    let modules = env.cache.get(&step, &key, |work| {
        let script = "make -C /kernel ARCH=arm64 INSTALL_MOD_PATH=/out/usr modules_install";
        work.run(&mut root.command(&[(work.out, "/out"), (kdir, "/kernel")], script))
    })?;
    Ok(Kernel {
        dir: kdir.to_path_buf(),
        modules: modules.join("usr/lib/modules").join(&release),
        release,
        image,
        id: key,
        tools,
    })
}

/// The option of a kernel built with clang.
const CLANG: &str = "CONFIG_CC_IS_CLANG";

/// Whether a configuration names the compilers of the build root.
fn built_with_ours(root: &Root, config: &BTreeMap<String, String>) -> Result<bool> {
    let script = "rustc --version; clang --version | head -n 1
                  aarch64-linux-gnu-gcc-14 --version | head -n 1";
    let ours = crate::proc::output(&mut root.command(&[], script))?;
    let known = |name: &str| {
        config
            .get(name)
            .is_some_and(|text| ours.lines().any(|line| line == text.trim_matches('"')))
    };
    Ok(known("CONFIG_RUSTC_VERSION_TEXT") && known("CONFIG_CC_VERSION_TEXT"))
}

/// Prepares the build tree of a stock kernel.
fn prepared(env: &Env, stock: stock::Stock) -> Result<Kernel> {
    let root = root::get(env)?;
    let key = Key::new("kernel", VERSION)
        .text(&stock.release.name)
        .text(&source::id(env, &root, &stock)?)
        .text(MAKE)
        .finish();
    let step = Step {
        name: "kernel",
        label: "Rust metadata of the stock kernel",
        space: 4 << 30,
        keep: 4,
    };
    let dir = env
        .cache
        .get(&step, &key, |work| build(env, &root, &stock, work))?;
    Ok(Kernel {
        dir: dir.join("tree"),
        image: stock.image(),
        modules: stock.modules(),
        release: stock.release.name,
        id: key,
        tools: Tools::Root(root, MAKE),
    })
}

fn build(env: &Env, root: &Root, stock: &stock::Stock, work: &Work<'_>) -> Result<()> {
    let release = &stock.release.name;
    let tree = work.out.join("tree");
    fs::create_dir(&tree)?;
    source::unpack(env, stock, root, work, &tree)?;
    let binds = [(work.out, "/out"), (stock.dir.as_path(), "/stock")];

    let headers = format!("/stock/usr/src/linux-headers-{release}");
    let configure = format!(
        "cd /out/tree
         cp {headers}/.config .config
         {MAKE} olddefconfig"
    );
    work.run(&mut root.command(&binds, &configure))?;
    let packaged = read_config(&stock.headers().join(".config"))?;
    let ours = read_config(&tree.join(".config"))?;
    same_compilers(&packaged, &ours)?;
    same_options(&packaged, &ours)?;

    // The distribution's suffix of the release string, in the file kbuild reads for this purpose.
    let mut version = root.command(&binds, "make -s -C /out/tree kernelversion");
    let version = crate::proc::output(&mut version)?;
    let Some(suffix) = release.strip_prefix(version.trim()) else {
        bail!(
            "the source is Linux {} but the packaged kernel is {release}: give the matching tree \
             with KERNEL_SRC=",
            version.trim()
        );
    };
    let prepare = format!(
        "cd /out/tree
         rm -f localversion*
         printf %s '{suffix}' > localversion
         cp {headers}/Module.symvers .
         {MAKE} prepare modules_prepare"
    );
    work.run(&mut root.command(&binds, &prepare))?;
    let made = fs::read_to_string(tree.join("include/config/kernel.release"))?;
    if made.trim() != release {
        bail!(
            "kbuild arrives at the release string {}, not at {release}",
            made.trim()
        );
    }
    same_symbols(&tree)
}

/// Options of a .config; one that is not set is absent.
fn read_config(path: &Path) -> Result<BTreeMap<String, String>> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(parse_config(&text))
}

fn parse_config(text: &str) -> BTreeMap<String, String> {
    text.lines()
        .filter_map(|line| line.split_once('='))
        .filter(|(name, _)| name.starts_with("CONFIG_"))
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .collect()
}

/// The metadata of one compiler cannot be read by another.
fn same_compilers(
    packaged: &BTreeMap<String, String>,
    ours: &BTreeMap<String, String>,
) -> Result<()> {
    for name in ["CONFIG_RUSTC_VERSION_TEXT", "CONFIG_CC_VERSION_TEXT"] {
        let (theirs, own) = (packaged.get(name), ours.get(name));
        if theirs.is_none() || theirs != own {
            let show = |value: Option<&String>| value.map_or("none", String::as_str).to_string();
            bail!(
                "toolchain mismatch: the stock kernel was built with {} but the build root has \
                 {}; give a kernel tree of your own with KDIR=, or wait for the archive to catch \
                 up and run `make update`",
                show(theirs),
                show(own)
            );
        }
    }
    Ok(())
}

/// A different option may mean different structures.
fn same_options(
    packaged: &BTreeMap<String, String>,
    ours: &BTreeMap<String, String>,
) -> Result<()> {
    let names: BTreeSet<&String> = packaged.keys().chain(ours.keys()).collect();
    let different: Vec<String> = names
        .into_iter()
        .filter(|name| packaged.get(*name) != ours.get(*name))
        .filter(|name| !HARMLESS.contains(&name.as_str()))
        .cloned()
        .collect();
    if !different.is_empty() {
        bail!(
            "the packaged kernel configuration cannot be reproduced, {} differ: the build root \
             lacks a tool or the source does not match the package (KERNEL_SRC= gives another)",
            different.join(", ")
        );
    }
    Ok(())
}

/// Names of exported Rust symbols contain hashes of the compiler and the source: equal names mean
/// equal crates.
fn same_symbols(tree: &Path) -> Result<()> {
    let mut generated = BTreeSet::new();
    for part in ["core", "helpers", "bindings", "kernel"] {
        let path = tree.join(format!("rust/exports_{part}_generated.h"));
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        generated.extend(exports(&text));
    }
    let symvers = fs::read_to_string(tree.join("Module.symvers"))?;
    let packaged: BTreeSet<String> = symbols(&symvers).collect();
    let missing = generated.difference(&packaged).count();
    // The other way round only what has a Rust name can be told apart from C's exports.
    let extra = packaged
        .iter()
        .filter(|name| is_rust(name) && !generated.contains(*name))
        .count();
    if generated.is_empty() || missing + extra > 0 {
        bail!(
            "toolchain mismatch: of {} exported Rust symbols, {missing} are missing in the stock \
             kernel's Module.symvers and {extra} are only there; the build root's rustc or the \
             source differs from what built the package",
            generated.len()
        );
    }
    Ok(())
}

fn exports(text: &str) -> impl Iterator<Item = String> + '_ {
    text.lines()
        .filter_map(|line| line.strip_prefix("EXPORT_SYMBOL_RUST_GPL("))
        .filter_map(|rest| rest.split(')').next())
        .map(str::to_string)
}

/// All symbols of a Module.symvers.
fn symbols(symvers: &str) -> impl Iterator<Item = String> + '_ {
    symvers
        .lines()
        .filter_map(|line| line.split('\t').nth(1))
        .map(str::to_string)
}

fn is_rust(name: &str) -> bool {
    name.starts_with("_R") || name.starts_with("rust_helper_")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(extra: &str) -> BTreeMap<String, String> {
        let text =
            "CONFIG_RUSTC_VERSION_TEXT=\"rustc 1.85.1\"\nCONFIG_CC_VERSION_TEXT=\"gcc 14\"\n";
        parse_config(&format!("{text}{extra}"))
    }

    #[test]
    fn another_compiler_stops() {
        let other = parse_config("CONFIG_RUSTC_VERSION_TEXT=\"rustc 1.90.0\"\n");
        assert!(same_compilers(&config(""), &config("")).is_ok());
        let error = same_compilers(&config(""), &other).unwrap_err().to_string();
        assert!(error.contains("1.85.1") && error.contains("1.90.0") && error.contains("KDIR="));
        assert!(
            same_compilers(&other, &other).is_err(),
            "a missing text is no match"
        );
    }

    #[test]
    fn only_harmless_options_may_differ() {
        assert!(same_options(&config("CONFIG_CC_CAN_LINK=y\n"), &config("")).is_ok());
        let error = same_options(&config("CONFIG_DEBUG_INFO_BTF=y\n"), &config("")).unwrap_err();
        assert!(error.to_string().contains("CONFIG_DEBUG_INFO_BTF"));
    }

    #[test]
    fn symbols_are_found() {
        let symvers = "0x0\t_RNv1a\tvmlinux\tEXPORT_SYMBOL_GPL\t\n\
                       0x0\tprintk\tvmlinux\tEXPORT_SYMBOL\t\n";
        let names: Vec<String> = symbols(symvers).filter(|name| is_rust(name)).collect();
        assert_eq!(names, ["_RNv1a"]);
        let text = "EXPORT_SYMBOL_RUST_GPL(_RNv1a);\n";
        assert_eq!(exports(text).collect::<Vec<_>>(), ["_RNv1a"]);
    }
}
