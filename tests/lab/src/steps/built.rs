// SPDX-License-Identifier: GPL-2.0
//! Kernels that are built here, from the stock kernel's source: the debug kernel, with the checkers
//! of tests/kernel/debug.config, and lean ones for other architectures: the source allows Rust on
//! riscv64 with clang only, and the RZ/G2L clock generator on 32-bit arm only with COMPILE_TEST.
//!
//! clang builds them, so that KASAN sees Rust too.

use super::kernel::{Kernel, Tools};
use super::root::{self, Root};
use super::{source, stock};
use crate::cache::{Key, Step, Work};
use crate::env::Env;
use anyhow::{ensure, Result};
use std::fs;
use std::path::PathBuf;

const VERSION: u32 = 1;

/// How a kernel is built.
pub(super) struct Recipe {
    /// Name of the step.
    name: &'static str,
    /// What the user reads.
    label: &'static str,
    /// Command line of make for this tree.
    make: &'static str,
    /// What is set beyond the smallest configuration, by files of tests/kernel.
    configs: &'static [&'static str],
    /// What is booted, in the tree.
    image: &'static str,
}

/// The debug kernel.
pub(super) const DEBUG: Recipe = Recipe {
    name: "debug",
    label: "debug kernel",
    make: "make -j$(nproc) ARCH=arm64 LLVM=1",
    configs: &["debug.config"],
    image: "arch/arm64/boot/Image",
};

/// The kernel for riscv64.
pub(super) const RISCV64: Recipe = Recipe {
    name: "riscv64",
    label: "kernel for riscv64",
    make: "make -j$(nproc) ARCH=riscv LLVM=1",
    configs: &["lean.config", "riscv64.config"],
    image: "arch/riscv/boot/Image",
};

/// The kernel for 32-bit arm.
pub(super) const ARM: Recipe = Recipe {
    name: "arm",
    label: "kernel for 32-bit arm",
    make: "make -j$(nproc) ARCH=arm LLVM=1",
    configs: &["lean.config", "arm.config"],
    image: "arch/arm/boot/zImage",
};

/// Builds one.
pub(super) fn get(env: &Env, recipe: &Recipe) -> Result<Kernel> {
    let root = root::get(env)?;
    let stock = stock::get(env)?;
    let dir = env.project.join("tests/kernel");
    let configs: Vec<_> = recipe.configs.iter().map(|name| dir.join(name)).collect();
    let key = Key::new(recipe.name, VERSION)
        .text(&source::id(env, &root, &stock)?)
        .files(&env.project, &configs)?
        .text(recipe.make)
        .finish();
    let step = Step {
        name: recipe.name,
        label: recipe.label,
        space: 8 << 30,
        keep: 1,
    };
    let dir = env.cache.get(&step, &key, |work| {
        let tree = work.out.join("tree");
        fs::create_dir(&tree)?;
        source::unpack(env, &stock, &root, work, &tree)?;
        build(&root, recipe, &configs, work)
    })?;
    let tree = dir.join("tree");
    let release = fs::read_to_string(tree.join("include/config/kernel.release"))?
        .trim()
        .to_string();
    Ok(Kernel {
        image: tree.join(recipe.image),
        modules: dir.join("usr/lib/modules").join(&release),
        dir: tree,
        release,
        id: key,
        tools: Tools::Root(root, recipe.make),
    })
}

fn build(root: &Root, recipe: &Recipe, configs: &[PathBuf], work: &Work<'_>) -> Result<()> {
    let make = recipe.make;
    let wanted: String = configs
        .iter()
        .map(fs::read_to_string)
        .collect::<Result<_, _>>()?;
    fs::write(work.out.join("wanted.config"), &wanted)?;
    let binds = [(work.out, "/out")];
    let script = format!("{make} -C /out/tree KCONFIG_ALLCONFIG=/out/wanted.config allnoconfig");
    work.run(&mut root.command(&binds, &script))?;
    let made = fs::read_to_string(work.out.join("tree/.config"))?;
    let lost = lost(&wanted, &made);
    ensure!(
        lost.is_empty(),
        "this kernel does not take these options of {}: {}",
        recipe.configs.join(", "),
        lost.join(", ")
    );
    let image = recipe.image.rsplit('/').next().unwrap_or_default();
    let script = format!(
        "{make} -C /out/tree {image} modules
         {make} -C /out/tree INSTALL_MOD_PATH=/out/usr INSTALL_MOD_STRIP=1 modules_install
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
