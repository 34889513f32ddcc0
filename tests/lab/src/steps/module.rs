// SPDX-License-Identifier: GPL-2.0
//! The driver, built for the kernel under test.

use super::kernel::Kernel;
use crate::cache::{files_below, Key, Step};
use crate::env::Env;
use anyhow::Result;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

const VERSION: u32 = 1;

/// Endings of files that a build makes.
const MADE: &[&str] = &[
    ".o",
    ".ko",
    ".mod",
    ".mod.c",
    ".cmd",
    ".a",
    ".d",
    "_generated.rs",
    ".symvers",
    ".order",
];

/// Source files of the driver, relative to the repository: Kbuild, Kconfig, the Rust files at the
/// top, and the directories of the layers and of their modules.
pub(crate) fn sources(project: &Path) -> Vec<PathBuf> {
    let belongs = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match name.as_ref() {
            "Kbuild" | "Kconfig" | "net" | "bindings" => true,
            name if path.is_dir() => name.starts_with("ravb_"),
            name => name.ends_with(".rs"),
        }
    };
    let entries = fs::read_dir(project).into_iter().flatten();
    let top: Vec<PathBuf> = entries
        .filter_map(|entry| entry.ok())
        .map(|entry| entry.path())
        .filter(belongs)
        .collect();
    files_below(&top)
        .into_iter()
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            !name.starts_with('.') && !MADE.iter().any(|ending| name.ends_with(ending))
        })
        .filter_map(|path| path.strip_prefix(project).ok().map(Path::to_path_buf))
        .collect()
}

/// Copies the driver's sources to a directory of its own.
pub(crate) fn copy_sources(project: &Path, to: &Path) -> Result<()> {
    for file in sources(project) {
        let target = to.join(&file);
        if let Some(dir) = target.parent() {
            fs::create_dir_all(dir)?;
        }
        fs::copy(project.join(&file), target)?;
    }
    Ok(())
}

/// A fault that is put into the driver, to see whether a test notices.
pub(crate) struct Fault {
    /// The file.
    pub(crate) file: &'static str,
    /// What is in it, once.
    pub(crate) right: &'static str,
    /// What is put in its place.
    pub(crate) wrong: &'static str,
}

impl Fault {
    /// Puts it into a copy of the sources.
    fn plant(&self, dir: &Path) -> Result<()> {
        let path = dir.join(self.file);
        let text = fs::read_to_string(&path)?;
        anyhow::ensure!(
            text.matches(self.right).count() == 1,
            "{} does not have {:?} once",
            self.file,
            self.right
        );
        Ok(fs::write(path, text.replace(self.right, self.wrong))?)
    }
}

/// Builds the module for a kernel and returns its path.
pub(crate) fn get(env: &Env, kernel: &Kernel) -> Result<PathBuf> {
    build(env, kernel, None)
}

/// The same with a fault in it.
pub(crate) fn with_fault(env: &Env, kernel: &Kernel, fault: &Fault) -> Result<PathBuf> {
    build(env, kernel, Some(fault))
}

fn build(env: &Env, kernel: &Kernel, fault: Option<&Fault>) -> Result<PathBuf> {
    let files: Vec<PathBuf> = sources(&env.project)
        .into_iter()
        .map(|file| env.project.join(file))
        .collect();
    let mut key = Key::new("module", VERSION)
        .text(&kernel.id)
        .files(&env.project, &files)?;
    if let Some(fault) = fault {
        key = key.text(fault.file).text(fault.right).text(fault.wrong);
    }
    let key = key.finish();
    let step = Step {
        name: "module",
        label: "ravb-rs.ko",
        space: 256 << 20,
        keep: 8,
    };
    let dir = env.cache.get(&step, &key, |work| {
        copy_sources(&env.project, work.out)?;
        fault.map_or(Ok(()), |fault| fault.plant(work.out))?;
        work.run(&mut kernel.make(work.out, "modules"))
    })?;
    Ok(dir.join("ravb-rs.ko"))
}

/// The suites that the driver's files contain and how many cases each has.
pub(crate) fn suites(project: &Path) -> Result<BTreeMap<String, usize>> {
    let mut suites = BTreeMap::new();
    for file in sources(project) {
        if file.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(project.join(file))?;
            suites.extend(suites_of(&text));
        }
    }
    anyhow::ensure!(!suites.is_empty(), "the driver has no KUnit suite");
    Ok(suites)
}

fn suites_of(text: &str) -> Option<(String, usize)> {
    let (_, rest) = text.split_once("kunit_tests(")?;
    let (name, body) = rest.split_once(')')?;
    let cases = body.lines().filter(|line| line.trim() == "#[test]").count();
    Some((name.trim().to_string(), cases))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_found_in_the_sources() {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let suites = suites(&project).unwrap();
        assert!(suites["ravb_rs_desc"] > 0 && suites["ravb_rs_frame"] > 0);
    }

    #[test]
    fn all_layers_and_nothing_built() {
        let dir = tempfile::tempdir().unwrap();
        let files = [
            "Kbuild",
            "ravb_rs.rs",
            "ravb_hw/gbeth.rs",
            "net/mod.rs",
            "bindings/helpers.c",
            "bindings/bindings_generated.rs",
            "ravb_rs.o",
            ".ravb_rs.o.cmd",
            "tests/lab/main.rs",
            "net/.x.rs.swp",
            "README.rst",
        ];
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let found = sources(dir.path());
        let names: Vec<_> = found.iter().map(|path| path.to_string_lossy()).collect();
        let expected = [
            "Kbuild",
            "bindings/helpers.c",
            "net/mod.rs",
            "ravb_hw/gbeth.rs",
            "ravb_rs.rs",
        ];
        assert_eq!(names, expected);
    }
}
