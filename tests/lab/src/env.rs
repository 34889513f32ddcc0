// SPDX-License-Identifier: GPL-2.0
//! What every command needs to know: where things are and what the user chose.

use crate::cache::Cache;
use anyhow::{bail, Context, Result};
use clap::ValueEnum;
use std::fmt;
use std::path::{Path, PathBuf};

/// One of the two drivers of the device.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
pub(crate) enum Driver {
    /// The stock `ravb.ko`.
    C,
    /// Our `ravb-rs.ko`.
    Rust,
}

impl Driver {
    /// Name of the driver's module as `lsmod` shows it, which is also the platform driver's.
    pub(crate) fn module(self) -> &'static str {
        match self {
            Driver::C => "ravb",
            Driver::Rust => "ravb_rs",
        }
    }

    /// Key of the driver in reports.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Driver::C => "c",
            Driver::Rust => "rust",
        }
    }
}

impl fmt::Display for Driver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.module())
    }
}

/// What the user may ask for with `DRIVER=`.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum, Debug)]
pub(crate) enum DriverChoice {
    /// The stock `ravb.ko`.
    C,
    /// Our `ravb-rs.ko`.
    Rust,
    /// One after the other.
    Both,
}

impl DriverChoice {
    /// The drivers chosen, in the order they run.
    pub(crate) fn drivers(self) -> &'static [Driver] {
        match self {
            DriverChoice::C => &[Driver::C],
            DriverChoice::Rust => &[Driver::Rust],
            DriverChoice::Both => &[Driver::C, Driver::Rust],
        }
    }
}

/// Paths and choices of one invocation.
pub(crate) struct Env {
    /// The repository.
    pub(crate) project: PathBuf,
    /// Cached steps.
    pub(crate) cache: Cache,
    /// Kernel build tree given by the user.
    pub(crate) kdir: Option<PathBuf>,
    /// Kernel source tree given by the user.
    pub(crate) kernel_src: Option<PathBuf>,
}

impl Env {
    pub(crate) fn new(kdir: Option<PathBuf>, kernel_src: Option<PathBuf>) -> Result<Env> {
        let project = find_project()?;
        let kdir = kdir.map(|path| existing(&path, "KDIR")).transpose()?;
        let kernel_src = kernel_src
            .map(|path| existing(&path, "KERNEL_SRC"))
            .transpose()?;
        Ok(Env {
            project,
            cache: Cache::open()?,
            kdir,
            kernel_src,
        })
    }

    /// Directory for reports and logs of this checkout.
    pub(crate) fn output(&self) -> Result<PathBuf> {
        let dir = self.project.join("target/lab");
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        Ok(dir)
    }
}

fn existing(path: &Path, name: &str) -> Result<PathBuf> {
    path.canonicalize()
        .with_context(|| format!("{name}={} does not exist", path.display()))
}

/// The repository is the directory above the current one that holds this crate; a moved binary
/// still finds it.
fn find_project() -> Result<PathBuf> {
    let start = std::env::current_dir().context("the current directory is gone")?;
    for dir in start.ancestors() {
        if dir.join("tests/lab/Cargo.toml").is_file() {
            return Ok(dir.to_path_buf());
        }
    }
    bail!("run this inside the ravb_rs repository")
}
