// SPDX-License-Identifier: GPL-2.0
//! Kernel source: the stock kernel's package, or the user's tree.

use super::root::Root;
use super::stock::Stock;
use crate::cache::{Key, Work};
use crate::env::Env;
use anyhow::Result;
use std::path::Path;
use std::process::Command;

/// What identifies the source, and the packages it is built with, in the key of a step.
pub(super) fn id(env: &Env, root: &Root, stock: &Stock) -> Result<String> {
    let mut id = root.packages();
    match &env.kernel_src {
        None => id.push_str(&stock.release.package),
        Some(source) => {
            let key = Key::new("source", 1)
                .text(&source.to_string_lossy())
                .file(source, &source.join("Makefile"))?
                .text(&revision(source));
            id.push_str(&key.finish());
        }
    }
    Ok(id)
}

/// Puts a clean copy into the empty directory `tree`.
pub(super) fn unpack(
    env: &Env,
    stock: &Stock,
    root: &Root,
    work: &Work<'_>,
    tree: &Path,
) -> Result<()> {
    let mut binds = vec![(tree, "/tree"), (stock.dir.as_path(), "/stock")];
    let script = match &env.kernel_src {
        Some(source) => {
            binds.push((source, "/source"));
            "rsync -a --exclude=.git /source/ /tree/ && make -C /tree mrproper".to_string()
        }
        None => format!(
            "tar -C /tree --strip-components=1 -xf /stock/usr/src/linux-source-{}.tar.xz",
            stock.release.series
        ),
    };
    work.run(&mut root.command(&binds, &script))
}

/// What git says about a source tree, empty if it is none of git's.
fn revision(source: &Path) -> String {
    let mut command = Command::new("git");
    command
        .arg("-C")
        .arg(source)
        .args(["describe", "--always", "--dirty", "--abbrev=40"]);
    crate::proc::output(&mut command).unwrap_or_default()
}
