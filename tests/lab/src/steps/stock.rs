// SPDX-License-Identifier: GPL-2.0
//! The stock Debian arm64 kernels: image, modules, headers and source, as packaged.

use super::root::{self, Root};
use crate::cache::{Key, Step, Work};
use crate::env::Env;
use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;

const VERSION: u32 = 1;

/// The series the driver is written for; the newest 7.x serves where it left the archive.
const SERIES: (u32, u32) = (7, 3);

/// Which kernel was fetched.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Release {
    /// Release string, e.g. `7.3.4+deb13-arm64`.
    pub(crate) name: String,
    /// Series, e.g. `7.3`.
    pub(crate) series: String,
    /// Package version.
    pub(crate) package: String,
}

/// The unpacked packages.
pub(crate) struct Stock {
    /// Directory with `usr/lib/modules/<release>` and `usr/src`.
    pub(crate) dir: PathBuf,
    /// Which kernel it is.
    pub(crate) release: Release,
}

impl Stock {
    /// Directory of the modules.
    pub(crate) fn modules(&self) -> PathBuf {
        self.dir.join("usr/lib/modules").join(&self.release.name)
    }

    /// Compressed kernel image.
    pub(crate) fn image(&self) -> PathBuf {
        self.modules().join("vmlinuz")
    }

    /// Directory of the headers package.
    pub(crate) fn headers(&self) -> PathBuf {
        self.dir
            .join("usr/src")
            .join(format!("linux-headers-{}", self.release.name))
    }
}

/// The end of the name of the kernel with pages of 4 KiB.
const PLAIN: &str = "-arm64";

/// The end of the name of the kernel with pages of 16 KiB.
pub(super) const LARGE_PAGES: &str = "-arm64-16k";

/// The end of the name of the kernel with PREEMPT_RT.
pub(super) const REALTIME: &str = "-rt-arm64";

/// Fetches the stock kernel. The archive's newest one is taken once and kept until `make update`.
pub(crate) fn get(env: &Env) -> Result<Stock> {
    let key = Key::new("stock", VERSION).text(&format!("{SERIES:?}"));
    fetched(env, &key.finish(), PLAIN)
}

/// The same of another kind, by the end of its name.
pub(super) fn of(env: &Env, ending: &'static str) -> Result<Stock> {
    let key = Key::new("stock", VERSION).text(&format!("{SERIES:?}"));
    fetched(env, &key.text(ending).finish(), ending)
}

fn fetched(env: &Env, key: &str, ending: &str) -> Result<Stock> {
    let step = Step {
        name: "stock",
        label: "stock Debian kernel packages",
        space: 2 << 30,
        keep: 3,
    };
    let root = root::get(env)?;
    let dir = env
        .cache
        .get(&step, key, |work| build(&root, ending, work))?;
    let text = fs::read_to_string(dir.join("release.json"))?;
    Ok(Stock {
        release: serde_json::from_str(&text)?,
        dir,
    })
}

fn build(root: &Root, ending: &str, work: &Work<'_>) -> Result<()> {
    let binds = [(work.out, "/out")];
    root.apt(work, &binds, "apt-cache pkgnames linux- > /out/names")?;
    let names = fs::read_to_string(work.out.join("names"))?;
    let Some(found) = newest(names.lines(), ending) else {
        bail!(
            "the archive has no Debian arm64 kernel of series 7 any more: give a kernel tree \
             with KDIR="
        );
    };
    let series = format!("{}.{}", found.version.0, found.version.1);
    if (found.version.0, found.version.1) != SERIES {
        work.progress.note(&format!(
            "  Linux {}.{} left the archive; taking {}",
            SERIES.0, SERIES.1, found.release
        ));
    }
    let release = &found.release;
    let script = format!(
        "cd /out
         apt-get -q download -t {suite}-backports linux-binary-{release}:arm64 \
             linux-modules-{release}:arm64 linux-headers-{release}:arm64 linux-source-{series}
         for deb in *.deb; do dpkg-deb -x $deb .; done
         ln -s usr/lib lib
         depmod -b /out {release}",
        suite = root::SUITE
    );
    work.run(&mut root.command(&binds, &script))?;

    let mut versions = Vec::new();
    for entry in fs::read_dir(work.out)? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "deb") {
            let name = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            versions.push(
                name.split('_')
                    .nth(1)
                    .unwrap_or_default()
                    .replace("%3a", ":"),
            );
            fs::remove_file(path)?;
        }
    }
    versions.dedup();
    let [package] = versions.as_slice() else {
        bail!(
            "the archive holds different versions of the kernel's packages ({}): try again \
             later with `make update`, or give a source tree with KERNEL_SRC=",
            versions.join(", ")
        );
    };
    let record = Release {
        name: release.clone(),
        series,
        package: package.clone(),
    };
    fs::write(
        work.out.join("release.json"),
        serde_json::to_string_pretty(&record)?,
    )
    .context("cannot write release.json")
}

#[derive(PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Found {
    version: (u32, u32, u32),
    release: String,
}

/// The newest kernel of our series among package names, or the newest 7.x, whose name has this
/// ending.
fn newest<'a>(names: impl Iterator<Item = &'a str>, ending: &str) -> Option<Found> {
    let mut all: Vec<Found> = names.filter_map(|name| parse(name, ending)).collect();
    all.sort_by_key(|found| (found.version.0, found.version.1) == SERIES);
    let ours = all
        .iter()
        .any(|found| (found.version.0, found.version.1) == SERIES);
    all.into_iter()
        .filter(|found| !ours || (found.version.0, found.version.1) == SERIES)
        .max_by(|a, b| a.version.cmp(&b.version))
}

/// `linux-binary-7.3.4+deb13-arm64` with or without `:arm64`.
fn parse(name: &str, ending: &str) -> Option<Found> {
    let release = name
        .trim_end_matches(":arm64")
        .strip_prefix("linux-binary-")?;
    let (version, flavour) = release.split_once("+deb")?;
    // Only this flavour: where `13-arm64` is wanted, not `13-cloud-arm64` or `13-arm64-16k`.
    flavour
        .strip_suffix(ending)?
        .bytes()
        .all(|b| b.is_ascii_digit())
        .then_some(())?;
    let mut parts = version.split('.').map(|part| part.parse::<u32>());
    let version = (
        parts.next()?.ok()?,
        parts.next()?.ok()?,
        parts.next()?.ok()?,
    );
    (version.0 == SERIES.0).then(|| Found {
        version,
        release: release.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picks_the_newest_of_our_series() {
        let names = [
            "linux-binary-7.3.4+deb13-arm64",
            "linux-binary-7.3.10+deb13-arm64:arm64",
            "linux-binary-7.3.11+deb13-rt-arm64",
            "linux-binary-7.3.12+deb13-arm64-16k",
            "linux-binary-7.4.1+deb13-arm64",
            "linux-headers-7.3.20+deb13-arm64",
        ];
        assert_eq!(
            newest(names.into_iter(), PLAIN).unwrap().release,
            "7.3.10+deb13-arm64"
        );
        assert_eq!(
            newest(names.into_iter(), LARGE_PAGES).unwrap().release,
            "7.3.12+deb13-arm64-16k"
        );
        assert_eq!(
            newest(names.into_iter(), REALTIME).unwrap().release,
            "7.3.11+deb13-rt-arm64"
        );
    }

    #[test]
    fn falls_back_to_the_newest_seven() {
        let names = [
            "linux-binary-7.4.1+deb13-arm64",
            "linux-binary-7.5.0+deb13-arm64",
        ];
        assert_eq!(
            newest(names.into_iter(), PLAIN).unwrap().release,
            "7.5.0+deb13-arm64"
        );
        assert_eq!(
            newest(["linux-binary-6.12.1+deb13-arm64"].into_iter(), PLAIN),
            None
        );
    }
}
