// SPDX-License-Identifier: GPL-2.0
//! The kernel's own network selftests, with what they need to run in the guest: an archive that is
//! unpacked over the guest's. The tests are those of the kernel's source, unchanged, in a directory
//! laid out as a source tree, which they know how to run in.

use super::root::{self, SUITE};
use super::{source, stock};
use crate::cache::{Key, Step, Work};
use crate::cpio::Archive;
use crate::env::Env;
use anyhow::Result;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;

const VERSION: u32 = 1;

/// Packages for the guest, and at the end the files to compile the helpers of the tests with.
const PACKAGES: &[&str] = &[
    "python3",
    "python3-yaml",
    "socat",
    "iputils-ping",
    "jq",
    "coreutils",
    "libbpf-dev",
    "libc6-dev",
    "libgcc-14-dev",
    "linux-libc-dev",
];

/// What of the source is used.
const SOURCES: &[&str] = &[
    "tools/net/ynl/pyynl",
    "Documentation/netlink/specs",
    "tools/testing/selftests/kselftest.h",
    "tools/testing/selftests/kselftest",
    "tools/testing/selftests/drivers/net",
    "tools/testing/selftests/net/lib.sh",
    "tools/testing/selftests/net/netdevice.sh",
    "tools/testing/selftests/net/lib",
    "tools/testing/selftests/net/forwarding/lib.sh",
    "tools/testing/selftests/net/forwarding/min_max_mtu.sh",
    "tools/testing/selftests/lib.mk",
];

/// Programs of the tests, relative to the directory of the selftests.
const PROGRAMS: &[&str] = &[
    "drivers/net/napi_id_helper",
    "net/lib/csum",
    "net/lib/xdp_helper",
];

/// The same for BPF.
const BPF_PROGRAMS: &[&str] = &["net/lib/xdp_dummy.bpf"];

/// Programs that the tests call, and that are ours.
const STAND_INS: &[(&str, &str)] = &[
    ("bpftrace", include_str!("../../../ksft/bpftrace")),
    ("ethtool", include_str!("../../../ksft/ethtool")),
];

/// Parts of the packages that only the compiler needs, or nobody.
const DROPPED: &[&str] = &[
    "usr/include",
    "usr/share",
    "usr/lib/gcc",
    "usr/lib/python3/dist-packages/yaml/__pycache__",
    "var",
    "etc/perl",
];

/// Makes the archive.
pub(crate) fn get(env: &Env) -> Result<PathBuf> {
    let root = root::get(env)?;
    let stock = stock::get(env)?;
    let key = Key::new("ksft", VERSION)
        .text(SUITE)
        .text(&PACKAGES.join(" "))
        .text(&SOURCES.join(" "))
        .text(&PROGRAMS.join(" "))
        .text(&BPF_PROGRAMS.join(" "))
        .text(&format!("{STAND_INS:?}"))
        .text(&source::id(env, &root, &stock)?)
        .finish();
    let step = Step {
        name: "ksft",
        label: "selftests of the kernel",
        space: 3 << 30,
        keep: 1,
    };
    let dir = env.cache.get(&step, &key, |work| {
        let tree = work.out.join("source");
        fs::create_dir(&tree)?;
        source::unpack(env, &stock, &root, work, &tree)?;
        build(&root, &tree, work)?;
        fs::remove_dir_all(&tree)?;
        Ok(())
    })?;
    Ok(dir.join("ksft.cpio"))
}

fn build(root: &root::Root, source: &Path, work: &Work<'_>) -> Result<()> {
    let tar = work.out.join("packages.tar");
    let sysroot = work.out.join("sysroot");
    let tree = work.out.join("tree");
    root::need_mmdebstrap()?;
    work.run(
        Command::new("mmdebstrap")
            .args(["--variant=extract", "--architectures=arm64"])
            .arg(format!("--include={}", PACKAGES.join(",")))
            .arg(SUITE)
            .arg(&tar),
    )?;
    for dir in [&sysroot, &tree] {
        fs::create_dir(dir)?;
    }
    let binds = [
        (source, "/source"),
        (sysroot.as_path(), "/sysroot"),
        (tree.as_path(), "/tree"),
        (work.out, "/out"),
    ];
    let compile: String = PROGRAMS
        .iter()
        .map(|program| {
            format!(
                "clang --target=aarch64-linux-gnu --sysroot=/sysroot -fuse-ld=lld -O2 -w \
                     -I$selftests -I$selftests/net/lib -o $selftests/{program} \
                     $selftests/{program}.c\n"
            )
        })
        .collect();
    let compile_bpf: String = BPF_PROGRAMS
        .iter()
        .map(|program| {
            format!(
                "clang --target=bpf -O2 -g -isystem /sysroot/usr/include \
                     -isystem /sysroot/usr/include/aarch64-linux-gnu \
                     -c -o $selftests/{program}.o $selftests/{program}.c\n"
            )
        })
        .collect();
    let script = format!(
        "tar -C /sysroot --exclude=./dev -xf /out/packages.tar
         for link in lib bin sbin; do [ -e /sysroot/$link ] || ln -s usr/$link /sysroot/$link; done
         mkdir /tree/ksft
         cd /source && cp -a --parents {} /tree/ksft/
         selftests=/tree/ksft/tools/testing/selftests
         set -e
         {compile}{compile_bpf}",
        SOURCES.join(" ")
    );
    work.run(&mut root.command(&binds, &script))?;

    let mut archive = Archive::new(BufWriter::new(File::create(work.out.join("ksft.cpio"))?));
    archive.tar(File::open(&tar)?, |name| {
        !DROPPED.iter().any(|dropped| {
            name.strip_prefix(dropped)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    })?;
    archive.tree(&tree)?;
    archive.dir("ksft/bin")?;
    for (name, program) in STAND_INS {
        archive.file(&format!("ksft/bin/{name}"), 0o755, program.as_bytes())?;
    }
    archive.finish()?;
    for path in [&sysroot, &tree] {
        fs::remove_dir_all(path)?;
    }
    fs::remove_file(&tar)?;
    Ok(())
}
