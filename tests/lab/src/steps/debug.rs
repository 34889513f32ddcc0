// SPDX-License-Identifier: GPL-2.0
//! The debug kernel: built with the checkers of tests/kernel/debug.config, from the stock kernel's
//! source, with clang, so that KASAN sees Rust too.

use super::kernel::{Kernel, Tools};
use super::{root, source, stock};
use crate::cache::{Key, Step, Work};
use crate::env::Env;
use anyhow::{ensure, Context, Result};
use std::fs;
use std::path::Path;

const VERSION: u32 = 1;

/// Arguments of make for this tree.
const MAKE: &str = "make -j$(nproc) ARCH=arm64 LLVM=1";

/// Its configuration, relative to the repository.
const CONFIG: &str = "tests/kernel/debug.config";

/// Builds it.
pub(super) fn get(env: &Env) -> Result<Kernel> {
    let root = root::get(env)?;
    let stock = stock::get(env)?;
    let config = env.project.join(CONFIG);
    let key = Key::new("debug", VERSION)
        .text(&source::id(env, &root, &stock)?)
        .file(&env.project, &config)?
        .text(MAKE)
        .finish();
    let step = Step {
        name: "debug",
        label: "debug kernel",
        space: 8 << 30,
        keep: 1,
    };
    let dir = env.cache.get(&step, &key, |work| {
        let tree = work.out.join("tree");
        fs::create_dir(&tree)?;
        source::unpack(env, &stock, &root, work, &tree)?;
        build(&root, &config, work)
    })?;
    let tree = dir.join("tree");
    let release = fs::read_to_string(tree.join("include/config/kernel.release"))?
        .trim()
        .to_string();
    Ok(Kernel {
        image: tree.join("arch/arm64/boot/Image"),
        modules: dir.join("usr/lib/modules").join(&release),
        dir: tree,
        release,
        id: key,
        tools: Tools::Root(root, MAKE),
    })
}

fn build(root: &root::Root, config: &Path, work: &Work<'_>) -> Result<()> {
    let name = config.file_name().unwrap_or_default().to_string_lossy();
    let dir = config.parent().context("the configuration has no place")?;
    let binds = [(work.out, "/out"), (dir, "/config")];
    let script = format!("{MAKE} -C /out/tree KCONFIG_ALLCONFIG=/config/{name} allnoconfig");
    work.run(&mut root.command(&binds, &script))?;
    let made = fs::read_to_string(work.out.join("tree/.config"))?;
    let lost = lost(&fs::read_to_string(config)?, &made);
    ensure!(
        lost.is_empty(),
        "this kernel does not take these options of {CONFIG}: {}",
        lost.join(", ")
    );
    let script = format!(
        "{MAKE} -C /out/tree Image modules
         {MAKE} -C /out/tree INSTALL_MOD_PATH=/out/usr INSTALL_MOD_STRIP=1 modules_install
         cd /out/tree
         find . -name '*.o' -not -path './scripts/*' -not -path './tools/*' -delete
         find . -name '*.a' -delete"
    );
    work.run(&mut root.command(&binds, &script))
}

/// Options that were asked for and that Kconfig did not grant.
fn lost(wanted: &str, made: &str) -> Vec<String> {
    wanted
        .lines()
        .filter(|line| line.starts_with("CONFIG_"))
        .filter(|line| !made.lines().any(|other| other == *line))
        .map(str::to_string)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_are_not_granted_are_found() {
        let wanted = "# comment\nCONFIG_A=y\nCONFIG_B=y\nCONFIG_C=m\n";
        let made = "CONFIG_A=y\n# CONFIG_B is not set\nCONFIG_C=y\n";
        assert_eq!(lost(wanted, made), ["CONFIG_B=y", "CONFIG_C=m"]);
        assert!(lost("CONFIG_A=y\n", made).is_empty());
    }
}
