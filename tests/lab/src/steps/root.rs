// SPDX-License-Identifier: GPL-2.0
//! Build root: a Debian stable with every tool the other steps need, the same on every host.
//!
//! As root the lab enters it by chroot; otherwise by user namespaces. Mounts are made in a private
//! mount namespace, so nothing stays mounted. Simple programs of the root (QEMU, iperf3, dtc) run
//! on the host directly, through the root's own dynamic loader.

use crate::cache::{Key, Step, Work};
use crate::diagnose::need_tool;
use crate::env::Env;
use crate::proc;
use anyhow::{bail, Context, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const VERSION: u32 = 1;

/// Suite of the root. Its rustc built the kernel of its backports.
pub(crate) const SUITE: &str = "trixie";

/// Everything that is installed, by what needs it.
const PACKAGES: &[&str] = &[
    // Kernel, C side; pahole decides about BTF and with it the layout of struct module.
    "make gcc gcc-14-aarch64-linux-gnu libc6-dev bc bison flex libssl-dev libelf-dev pahole cpio",
    "kmod rsync xz-utils python3 perl",
    // Kernel, Rust side.
    "rustc rustfmt rust-clippy rust-src bindgen clang lld llvm",
    // Kernel, checkers.
    "sparse codespell python3-ply python3-git git gettext-base file",
    // QEMU.
    "dpkg-dev meson ninja-build bzip2 patch pkgconf python3-venv python3-pycotap zlib1g-dev",
    "libslirp-dev libfdt-dev libglib2.0-dev",
    // Running machines.
    "device-tree-compiler iperf3",
    "ca-certificates",
];

/// File in the root that lists the packages and their versions: the archive may move on between two
/// roots made by one recipe.
const PACKAGE_LIST: &str = "packages";

/// Enters the root given as first argument. Then come pairs of host directory and mount point up
/// to "--", then the script to run inside.
const ENTER: &str = r#"
set -e
root=$1; shift
mount --rbind /dev "$root/dev"
mount -t proc none "$root/proc"
while [ "$1" != -- ]; do
    mkdir -p "$root$2"
    mount --rbind "$1" "$root$2"
    shift 2
done
exec chroot "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 \
    DEBIAN_FRONTEND=noninteractive ${http_proxy:+"http_proxy=$http_proxy"} \
    ${https_proxy:+"https_proxy=$https_proxy"} sh -ec "$2"
"#;

/// Sources beyond those mmdebstrap wrote: backports, the source packages, and arm64.
const ADD_SOURCES: &str = concat!(
    r#"
sed -n "s/^deb \(\[[^]]*\] \)\?\([^ ]*\) $1 main.*"#,
    r#"/deb \1\2 $1-backports main\ndeb-src \1\2 $1 main/p" \
    /etc/apt/sources.list > /etc/apt/sources.list.d/lab.list
grep -q . /etc/apt/sources.list.d/lab.list
dpkg --add-architecture arm64
"#
);

/// What of the host's apt configuration says how to reach the archive.
const APT_NETWORK: &[&str] = &[
    "Acquire::http::",
    "Acquire::https::",
    "Acquire::Retries",
    "Acquire::ForceIPv",
    "Acquire::Check-Valid-Until",
    "Acquire::Check-Date",
];

/// The build root.
pub(crate) struct Root {
    dir: PathBuf,
}

/// Makes the build root.
pub(crate) fn get(env: &Env) -> Result<Root> {
    let key = Key::new("root", VERSION)
        .text(SUITE)
        .text(&PACKAGES.join(" "))
        .text(ADD_SOURCES)
        .text(std::env::consts::ARCH)
        .text(if is_root() { "root" } else { "unshare" })
        .finish();
    let step = Step {
        name: "root",
        label: "build root",
        space: 4 << 30,
        keep: 1,
    };
    let dir = env.cache.get(&step, &key, build)?;
    Ok(Root {
        dir: dir.join("fs"),
    })
}

fn build(work: &Work<'_>) -> Result<()> {
    let fs = work.out.join("fs");
    need_mmdebstrap()?;
    let include = format!("--include={}", PACKAGES.join(" ").replace(' ', ","));
    if is_root() {
        work.run(
            Command::new("unshare")
                .args(NAMESPACES)
                .args([
                    "mmdebstrap",
                    "--variant=minbase",
                    "--mode=root",
                    &include,
                    SUITE,
                ])
                .arg(&fs),
        )?;
    } else {
        // mmdebstrap has a user namespace of its own, in which we are not root. Unpacked in ours,
        // the files belong to us.
        let tar = work.out.join("fs.tar");
        work.run(
            Command::new("mmdebstrap")
                .args(["--variant=minbase", "--mode=unshare", &include, SUITE])
                .arg(&tar),
        )?;
        fs::create_dir(&fs)?;
        work.run(
            namespaces()
                .args(["tar", "--exclude=./dev/*", "-C"])
                .arg(&fs)
                .arg("-xf")
                .arg(&tar),
        )?;
        fs::remove_file(&tar)?;
    }
    let root = Root { dir: fs };
    let script = format!("set -- {SUITE}\n{ADD_SOURCES}");
    work.run(&mut root.command(&[], &script))?;
    root.apt(work, &[], &format!("dpkg-query -W > /{PACKAGE_LIST}"))
}

/// Where mmdebstrap finds the keys of the Debian archive; Ubuntu does not install them by default.
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Fails unless mmdebstrap is there with the keys it verifies the archive with.
pub(crate) fn need_mmdebstrap() -> Result<()> {
    need_tool("mmdebstrap")?;
    if !Path::new(KEYRING).exists() {
        bail!(
            "the keys of the Debian archive are missing: install them (apt-get install \
             debian-archive-keyring)"
        );
    }
    Ok(())
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Mounts and processes of a command are its own, and end with it.
const NAMESPACES: &[&str] = &["--mount", "--pid", "--fork", "--kill-child"];

/// unshare(1), ready for a command that runs as root or as if.
fn namespaces() -> Command {
    let mut command = Command::new("unshare");
    command.args(NAMESPACES);
    if !is_root() {
        command.args(["--user", "--map-root-user", "--map-auto"]);
    }
    command
}

impl Root {
    /// Its directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The packages it was made of and their versions; empty for a root that did not write them
    /// down.
    pub(crate) fn packages(&self) -> String {
        fs::read_to_string(self.dir.join(PACKAGE_LIST)).unwrap_or_default()
    }

    /// Where the suite comes from, as a line of apt's sources.
    pub(crate) fn source(&self) -> Result<String> {
        let path = self.dir.join("etc/apt/sources.list");
        let list = fs::read_to_string(&path)?;
        let end = format!(" {SUITE} main");
        let is_source = |line: &&str| line.starts_with("deb ") && line.ends_with(&end);
        let line = list.lines().find(is_source);
        line.map(str::to_string)
            .with_context(|| format!("{} does not name {SUITE}", path.display()))
    }

    /// A shell script inside, with host directories bound to mount points. Everything it starts
    /// dies with it.
    pub(crate) fn command(&self, binds: &[(&Path, &str)], script: &str) -> Command {
        let mut command = namespaces();
        command.args(["sh", "-c", ENTER, "enter"]).arg(&self.dir);
        for (from, to) in binds {
            command.arg(from).arg(to);
        }
        command.arg("--").arg(script);
        command
    }

    /// Like `command`, after refreshing apt's package lists with the host's way to the network.
    pub(crate) fn apt(&self, work: &Work<'_>, binds: &[(&Path, &str)], script: &str) -> Result<()> {
        let host = tempfile::tempdir()?;
        for file in ["resolv.conf", "hosts"] {
            let content = fs::read(Path::new("/etc").join(file)).unwrap_or_default();
            fs::write(host.path().join(file), content)?;
        }
        fs::write(host.path().join("apt.conf"), apt_network())?;
        // Readable for the subordinate users too.
        proc::output(Command::new("chmod").args(["-R", "a+rX"]).arg(host.path()))?;
        let mut all = vec![(host.path(), "/host")];
        all.extend_from_slice(binds);
        let script = format!(
            "cp /host/resolv.conf /host/hosts /etc/\n\
             cp /host/apt.conf /etc/apt/apt.conf.d/90lab\n\
             apt-get -q update\n{script}"
        );
        work.run(&mut self.command(&all, &script))
    }

    /// A program of the root that runs on the host and sees the host's files.
    pub(crate) fn tool(&self, program: &Path) -> Result<Command> {
        let (loader, libraries) = self.loader()?;
        let mut command = Command::new(loader);
        command.arg("--library-path").arg(libraries).arg(program);
        Ok(command)
    }

    /// A program in /usr/bin or /usr/sbin of the root.
    pub(crate) fn bin(&self, name: &str) -> Result<Command> {
        let found = ["usr/bin", "usr/sbin"]
            .iter()
            .map(|dir| self.dir.join(dir).join(name))
            .find(|path| path.exists())
            .with_context(|| format!("{name} is not in the build root"))?;
        self.tool(&found)
    }

    /// The dynamic loader of the root and its library directory.
    fn loader(&self) -> Result<(PathBuf, PathBuf)> {
        for entry in fs::read_dir(self.dir.join("usr/lib"))? {
            let libraries = entry?.path();
            if !libraries.join("libc.so.6").exists() {
                continue;
            }
            for file in fs::read_dir(&libraries)? {
                let file = file?.path();
                let name = file
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned();
                if name.starts_with("ld-linux") {
                    return Ok((file, libraries));
                }
            }
        }
        bail!(
            "the build root {} has no dynamic loader",
            self.dir.display()
        )
    }
}

/// The lines of the host's apt configuration that concern the network.
fn apt_network() -> String {
    let dump = proc::output(Command::new("apt-config").arg("dump")).unwrap_or_default();
    dump.lines()
        .filter(|line| APT_NETWORK.iter().any(|prefix| line.starts_with(prefix)))
        .map(|line| format!("{line}\n"))
        .collect()
}
