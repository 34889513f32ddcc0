// SPDX-License-Identifier: GPL-2.0
//! A user-mode kernel with the driver grafted in, built as kunit.py builds it, to run the
//! driver's KUnit suites.
//!
//! The whole build is cached. A run builds what changed in the driver since, in a copy of the
//! build directory and with the driver's directory laid over the tree, so the cached one stays as
//! it was made.

use super::root::{self, Root};
use super::{source, stock};
use crate::cache::{files_below, Key, Step, Work};
use crate::env::Env;
use crate::graft;
use crate::proc;
use crate::ui::Progress;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

const VERSION: u32 = 1;

/// How kunit.py is called, in the tree.
const KUNIT: &str = "./tools/testing/kunit/kunit.py";
const OPTIONS: &str = "--build_dir=/out/build --make_options LLVM=1";

/// The directory of the tree in which grafting changes files that matter here.
const VENDOR: &str = "drivers/net/ethernet/renesas";

/// The user-mode kernel.
pub(crate) struct Uml {
    /// Directory with its source in `tree` and what was built in `build`.
    pub(crate) dir: PathBuf,
    root: Root,
}

/// Builds it.
pub(crate) fn get(env: &Env) -> Result<Uml> {
    let root = root::get(env)?;
    let stock = stock::get(env)?;
    let inputs = ["Kconfig", "tests/graft/kunitconfig"].map(|name| env.project.join(name));
    let key = Key::new("uml", VERSION)
        .text(&source::id(env, &root, &stock)?)
        .files(&env.project, &inputs)?
        .text(OPTIONS)
        .finish();
    let step = Step {
        name: "uml",
        label: "user-mode kernel",
        space: 6 << 30,
        keep: 1,
    };
    let dir = env.cache.get(&step, &key, |work| {
        let tree = work.out.join("tree");
        fs::create_dir(&tree)?;
        source::unpack(env, &stock, &root, work, &tree)?;
        graft::graft(&env.project, &tree)?;
        build(&root, work)
    })?;
    Ok(Uml { dir, root })
}

/// A driver that does not compile must not make the rest of the kernel be built again and again:
/// the run will say so.
fn build(root: &Root, work: &Work<'_>) -> Result<()> {
    let script = format!(
        "cd /out/tree
         {KUNIT} config {OPTIONS} --kunitconfig={}
         make -k -j$(nproc) ARCH=um O=/out/build LLVM=1 all || [ -e /out/build/net/built-in.a ]",
        graft::DIRECTORY
    );
    work.run(&mut root.command(&[(work.out, "/out")], &script))
}

impl Uml {
    /// Runs the suites of the driver as it is now and returns kunit.py's results, as JSON.
    pub(crate) fn run(&self, env: &Env, log: &Path) -> Result<String> {
        let scratch = tempfile::tempdir_in(env.output()?)?;
        let tree = scratch.path().join("tree");
        let vendor = self.dir.join("tree").join(VENDOR);
        for file in files_below(&[vendor, self.dir.join("tree/MAINTAINERS")]) {
            let to = tree.join(file.strip_prefix(self.dir.join("tree"))?);
            fs::create_dir_all(to.parent().context("a file has no directory")?)?;
            fs::copy(&file, to)?;
        }
        graft::graft(&env.project, &tree)?;

        let build = scratch.path().join("build");
        fs::create_dir(&build)?;
        let script = format!(
            "cp -a /base/build/. /out/build
             cd /out/tree
             {KUNIT} run --jobs=$(nproc) {OPTIONS} --kunitconfig={} --json=/out/build/results",
            graft::DIRECTORY
        );
        let over = format!("/out/tree/{VENDOR}");
        let binds = [
            (self.dir.as_path(), "/base"),
            (self.dir.as_path(), "/out"),
            (build.as_path(), "/out/build"),
            (&tree.join(VENDOR), over.as_str()),
        ];
        let mut command = self.root.command(&binds, &script);
        let result = proc::run_logged(&mut command, log, &Progress::quiet());
        // A failed case makes kunit.py fail as well, but its results say which.
        match fs::read_to_string(build.join("results")) {
            Ok(results) => Ok(results),
            Err(_) => result.and_then(|()| Err(anyhow::anyhow!("kunit.py wrote no results"))),
        }
    }
}
