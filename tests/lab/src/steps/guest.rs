// SPDX-License-Identifier: GPL-2.0
//! The guest: an initramfs of Debian packages, the kernel modules a test may need and the
//! scripts of `tests/guest`. Nothing of the guest runs while it is made.

use super::kernel::Kernel;
use super::root::{self, Root, SUITE};
use crate::arch::Arch;
use crate::cache::{files_below, Key, Step, Work};
use crate::cpio::Archive;
use crate::env::Env;
use anyhow::{bail, Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;

const VERSION: u32 = 2;

/// Packages of the guest's userland.
const PACKAGES: &[&str] = &[
    "bash",
    "busybox-static",
    "dash",
    "ethtool",
    "iperf3",
    "iproute2",
    "kmod",
    "linuxptp",
    "python3-minimal",
    "tcpdump",
];

/// The same, where a test boots another kernel from within: Debian does not have it for all.
const PACKAGES_OF_ARM64: &[&str] = &["kexec-tools"];

/// Modules of the stock kernel the guest carries, besides what they depend on.
const MODULES: &[&str] = &[
    // The machine: control channel, second NIC.
    "virtio_mmio",
    "virtio_net",
    // The driver and its surroundings.
    "ravb",
    "mdio_bitbang",
    "micrel",
    // Networking of the tests.
    "8021q",
    "veth",
    "dummy",
];

/// The same, where the kernel has them: one that is made for a purpose may not.
const MODULES_IF_ANY: &[&str] = &[
    "bridge",
    "netconsole",
    "pktgen",
    "sch_fq",
    "vrf",
    // A packet is given to a queue by a filter.
    "sch_ingress",
    "cls_flower",
    "cls_matchall",
    "act_skbedit",
];

/// The directory of `tests/guest` with kernel modules. Kbuild says which a kernel can have.
const OWN_MODULES: &str = "modules";

/// The program of `tests/guest` that is compiled, where it knows the architecture.
const OWN_PROGRAM: &str = "flood";

/// Parts of packages that no test needs.
const DROPPED: &[&str] = &[
    "usr/share/doc",
    "usr/share/man",
    "usr/share/locale",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/bash-completion",
    "usr/share/zoneinfo",
    "usr/share/perl",
    "usr/share/perl5",
    "usr/include",
    "var/lib",
    "var/cache",
    "usr/share/debconf",
    "usr/share/i18n",
];

/// The same, of the libraries.
const DROPPED_LIBRARIES: &[&str] = &["gconv", "perl-base"];

/// The guest's initramfs, without the driver under test.
pub(crate) struct Guest {
    /// Directory of the result.
    pub(crate) dir: PathBuf,
}

impl Guest {
    /// The archive.
    pub(crate) fn initramfs(&self) -> PathBuf {
        self.dir.join("guest.cpio")
    }
}

/// Makes the guest image for a kernel.
pub(crate) fn get(env: &Env, arch: &Arch, kernel: &Kernel) -> Result<Guest> {
    let root = root::get(env)?;
    let base = base(env, &root, arch)?;
    let scripts = env.project.join("tests/guest");
    let key = Key::new("guest", VERSION)
        .text(&base.to_string_lossy())
        .text(&MODULES.join(" "))
        .text(&MODULES_IF_ANY.join(" "))
        .text(&kernel.id)
        .files(&scripts, &files_below(std::slice::from_ref(&scripts)))?
        .finish();
    let step = Step {
        name: "guest",
        label: "guest image",
        space: 512 << 20,
        keep: 4,
    };
    let dir = env.cache.get(&step, &key, |work| {
        build(&root, arch, kernel, &base, &scripts, work)
    })?;
    Ok(Guest { dir })
}

/// The userland as a tar archive.
fn base(env: &Env, root: &Root, arch: &Arch) -> Result<PathBuf> {
    let more = match arch.debian {
        "arm64" => PACKAGES_OF_ARM64,
        _ => &[],
    };
    let packages = [PACKAGES, more].concat();
    let key = Key::new("userland", VERSION)
        .text(SUITE)
        .text(arch.debian)
        .text(&packages.join(" "))
        .finish();
    let step = Step {
        name: "userland",
        label: "guest userland",
        space: 512 << 20,
        // One for each architecture.
        keep: 3,
    };
    let dir = env.cache.get(&step, &key, |work| {
        root::need_mmdebstrap()?;
        // The suite without its updates, which mirrors have late for the rarer architectures.
        let source = root.source()?;
        work.run(
            Command::new("mmdebstrap")
                .arg("--variant=extract")
                .arg(format!("--architectures={}", arch.debian))
                .arg(format!("--include={}", packages.join(",")))
                .arg(SUITE)
                .arg(work.out.join("userland.tar"))
                .arg(source),
        )
    })?;
    Ok(dir.join("userland.tar"))
}

fn build(
    root: &Root,
    arch: &Arch,
    kernel: &Kernel,
    base: &Path,
    scripts: &Path,
    work: &Work<'_>,
) -> Result<()> {
    let tree = work.out.join("tree");
    install_modules(root, kernel, &tree, work)?;
    let modules = build_modules(kernel, &scripts.join(OWN_MODULES), work)?;
    let program = match arch.debian {
        "arm64" => Some(build_program(root, scripts, work)?),
        _ => None,
    };

    let mut archive = Archive::new(BufWriter::new(File::create(work.out.join("guest.cpio"))?));
    for dir in [
        "usr",
        "dev",
        "proc",
        "sys",
        "run",
        "tmp",
        "root",
        "mnt",
        "etc",
        "usr/local",
    ] {
        archive.dir(dir)?;
    }
    for link in ["bin", "sbin", "lib"] {
        archive.link(link, &format!("usr/{link}"))?;
    }
    let libraries = format!("usr/lib/{}/", arch.triple);
    archive.file("etc/passwd", 0o644, b"root::0:0:root:/root:/bin/sh\n")?;
    archive.tar(File::open(base)?, |name| {
        let below = |dir: &str, name: &str| {
            name.strip_prefix(dir)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let library = name.strip_prefix(&libraries);
        !DROPPED.iter().any(|dropped| below(dropped, name))
            && !library.is_some_and(|name| DROPPED_LIBRARIES.iter().any(|dir| below(dir, name)))
    })?;
    archive.tree(&tree)?;
    archive.dir("lab")?;
    for script in files_below(&[scripts.to_path_buf()]) {
        let name = script.strip_prefix(scripts)?;
        if !name.starts_with(OWN_MODULES) && name.with_extension("") != Path::new(OWN_PROGRAM) {
            archive.file(
                &format!("lab/{}", name.display()),
                0o755,
                &fs::read(&script)?,
            )?;
        }
    }
    for (name, module) in modules {
        archive.file(&format!("lab/{name}"), 0o644, &module)?;
    }
    if let Some(program) = program {
        archive.file(&format!("lab/{OWN_PROGRAM}"), 0o755, &program)?;
    }
    archive.link("init", "lab/init")?;
    archive.finish()?;
    fs::remove_dir_all(&tree)?;
    Ok(())
}

/// Builds the modules whose sources are in `from`, for the kernel they will be loaded into, and
/// returns their names and contents.
fn build_modules(kernel: &Kernel, from: &Path, work: &Work<'_>) -> Result<Vec<(String, Vec<u8>)>> {
    let dir = work.out.join(OWN_MODULES);
    fs::create_dir(&dir)?;
    for file in files_below(&[from.to_path_buf()]) {
        fs::copy(&file, dir.join(file.strip_prefix(from)?))?;
    }
    work.run(&mut kernel.make(&dir, "modules"))?;
    let mut modules = Vec::new();
    for entry in fs::read_dir(&dir)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "ko") {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            modules.push((name.into_owned(), fs::read(&path)?));
        }
    }
    modules.sort();
    fs::remove_dir_all(&dir)?;
    Ok(modules)
}

/// Compiles the program of `tests/guest`, which needs no library.
fn build_program(root: &Root, scripts: &Path, work: &Work<'_>) -> Result<Vec<u8>> {
    let script = format!(
        "clang --target=aarch64-linux-gnu -O2 -Wall -Wextra -Werror -ffreestanding \
             -fno-stack-protector -nostdlib -static -fuse-ld=lld \
             -o /out/{OWN_PROGRAM} /scripts/{OWN_PROGRAM}.c"
    );
    work.run(&mut root.command(&[(work.out, "/out"), (scripts, "/scripts")], &script))?;
    let path = work.out.join(OWN_PROGRAM);
    let program = fs::read(&path)?;
    fs::remove_file(path)?;
    Ok(program)
}

/// Installs the wanted modules and what they depend on, uncompressed, with a module index.
fn install_modules(root: &Root, kernel: &Kernel, tree: &Path, work: &Work<'_>) -> Result<()> {
    let (release, from) = (&kernel.release, &kernel.modules);
    let to = tree.join("usr/lib/modules").join(release);
    fs::create_dir_all(&to)?;
    let read = |name: &str| fs::read_to_string(from.join(name));
    let index = read("modules.dep").context("modules.dep is missing")?;
    // A kernel of the user's may have built in what Debian's has as modules.
    let builtin = read("modules.builtin").unwrap_or_default();
    fs::write(to.join("modules.builtin"), &builtin)?;
    fs::write(to.join("modules.order"), "")?;
    let mut files = closure(&index, &builtin, MODULES)?;
    for module in MODULES_IF_ANY {
        files.extend(closure(&index, &builtin, &[module]).unwrap_or_default());
    }
    for file in files {
        let target = to.join(file.trim_end_matches(".xz"));
        if let Some(dir) = target.parent() {
            fs::create_dir_all(dir)?;
        }
        fs::copy(from.join(&file), to.join(&file))?;
        if file.ends_with(".xz") {
            work.run(root.bin("xz")?.arg("--decompress").arg(to.join(&file)))?;
        }
    }
    std::os::unix::fs::symlink("usr/lib", tree.join("lib"))?;
    work.run(root.bin("depmod")?.arg("-b").arg(tree).arg(release))?;
    fs::remove_file(tree.join("lib"))?;
    Ok(())
}

/// Files of the wanted modules and of all they need, from the texts of modules.dep and
/// modules.builtin.
fn closure(index: &str, builtin: &str, wanted: &[&str]) -> Result<BTreeSet<String>> {
    let mut entries = BTreeMap::new();
    for line in index.lines() {
        if let Some((file, needs)) = line.split_once(':') {
            entries.insert(module_name(file), (file, needs));
        }
    }
    let mut files = BTreeSet::new();
    for name in wanted {
        if builtin.lines().any(|file| module_name(file) == *name) {
            continue;
        }
        let Some((file, needs)) = entries.get(*name) else {
            bail!("the kernel has no module {name}");
        };
        files.insert(file.to_string());
        files.extend(needs.split_whitespace().map(str::to_string));
    }
    Ok(files)
}

/// `kernel/drivers/net/mdio/mdio-bitbang.ko.xz` is `mdio_bitbang`.
fn module_name(file: &str) -> String {
    let base = file.rsplit('/').next().unwrap_or(file);
    base.split(".ko").next().unwrap_or(base).replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_come_with_what_they_need() {
        let index = "kernel/a/x-y.ko.xz: kernel/b/z.ko.xz\nkernel/b/z.ko.xz:\nkernel/c/w.ko.xz:\n";
        let files = closure(index, "", &["x_y"]).unwrap();
        assert_eq!(
            files.into_iter().collect::<Vec<_>>(),
            ["kernel/a/x-y.ko.xz", "kernel/b/z.ko.xz"]
        );
        assert!(closure(index, "", &["nothing"]).is_err());
        assert!(closure(index, "kernel/d/nothing.ko\n", &["nothing"])
            .unwrap()
            .is_empty());
    }
}
