// SPDX-License-Identifier: GPL-2.0
//! Kernels that are built here, from the stock kernel's source: the debug kernel, with the checkers
//! of tests/kernel/debug.config, a lean one whose functions can be made to fail, and lean ones for
//! other architectures: the source allows Rust on riscv64 with clang only, and the RZ/G2L clock
//! generator on 32-bit arm only with COMPILE_TEST. And lean ones for arm64 that differ in how Rust
//! is compiled, to measure what that costs.
//!
//! clang builds them, so that KASAN sees Rust too.

use super::kernel::{Code, Kernel, Tools};
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

/// The lean kernel with fault injection.
pub(super) const FAULTS: Recipe = Recipe {
    name: "faults",
    label: "kernel with fault injection",
    make: "make -j$(nproc) ARCH=arm64 LLVM=1",
    configs: &["lean.config", "faults.config"],
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

/// Lean kernels for arm64.
const LEAN: Recipe = Recipe {
    name: "lean",
    label: "lean kernels for arm64",
    make: "make -j$(nproc) ARCH=arm64 LLVM=1",
    configs: &["lean.config", "measure.config"],
    image: "arch/arm64/boot/Image",
};

/// One of several kernels of a recipe, which are built one after the other in the same tree, so
/// that the later ones take little: where its result is, and its options beyond the recipe's.
struct Variant {
    place: String,
    options: String,
}

/// Builds one.
pub(super) fn get(env: &Env, recipe: &Recipe) -> Result<Kernel> {
    let only = Variant {
        place: ".".into(),
        options: String::new(),
    };
    one_of(env, recipe, std::slice::from_ref(&only), &only)
}

/// Builds the lean kernels and returns one.
pub(super) fn lean(env: &Env, code: Code) -> Result<Kernel> {
    let variant = |code: Code| Variant {
        place: code.key().into(),
        options: code.options(),
    };
    one_of(env, &LEAN, &Code::ALL.map(variant), &variant(code))
}

fn one_of(env: &Env, recipe: &Recipe, all: &[Variant], one: &Variant) -> Result<Kernel> {
    let root = root::get(env)?;
    let stock = stock::get(env)?;
    let dir = env.project.join("tests/kernel");
    let configs: Vec<_> = recipe.configs.iter().map(|name| dir.join(name)).collect();
    let mut key = Key::new(recipe.name, VERSION)
        .text(&source::id(env, &root, &stock)?)
        .files(&env.project, &configs)?
        .text(recipe.make);
    for variant in all.iter().filter(|variant| !variant.options.is_empty()) {
        key = key.text(&variant.place).text(&variant.options);
    }
    let key = key.finish();
    let step = Step {
        name: recipe.name,
        label: recipe.label,
        space: (6 + 2 * all.len() as u64) << 30,
        keep: 1,
    };
    let dir = env.cache.get(&step, &key, |work| {
        let tree = work.out.join("tree");
        fs::create_dir(&tree)?;
        source::unpack(env, &stock, &root, work, &tree)?;
        for variant in all {
            build(&root, recipe, &configs, variant, work)?;
        }
        // Where it is not the result itself.
        if all.iter().all(|variant| variant.place != ".") {
            fs::remove_dir_all(&tree)?;
        }
        Ok(())
    })?;
    let dir = dir.join(&one.place);
    let tree = dir.join("tree");
    let release = fs::read_to_string(tree.join("include/config/kernel.release"))?
        .trim()
        .to_string();
    Ok(Kernel {
        image: tree.join(recipe.image),
        modules: dir.join("usr/lib/modules").join(&release),
        dir: tree,
        release,
        id: key + &one.options,
        tools: Tools::Root(root, recipe.make),
    })
}

fn build(
    root: &Root,
    recipe: &Recipe,
    configs: &[PathBuf],
    variant: &Variant,
    work: &Work<'_>,
) -> Result<()> {
    let make = recipe.make;
    let wanted: String = configs
        .iter()
        .map(fs::read_to_string)
        .chain([Ok(variant.options.clone())])
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
    let place = &variant.place;
    let script = format!(
        "{make} -C /out/tree {image} modules
         mkdir -p /out/{place}
         {make} -C /out/tree INSTALL_MOD_PATH=/out/{place}/usr INSTALL_MOD_STRIP=1 modules_install
         [ {place} = . ] || cp -a /out/tree /out/{place}/tree
         cd /out/{place}/tree
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
