// SPDX-License-Identifier: GPL-2.0
//! Puts the driver into a kernel tree, the way it would be submitted.
//!
//! Its files go to a directory of their own below drivers/net/ethernet/renesas, with the lines in
//! Kconfig and Makefile that make kbuild go there, an entry in MAINTAINERS, and the .kunitconfig
//! with which kunit.py runs its suites. Doing it again replaces what was there.

use crate::env::Env;
use crate::steps::module;
use anyhow::{bail, Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// Where the driver goes, relative to the tree.
pub(crate) const DIRECTORY: &str = "drivers/net/ethernet/renesas/ravb_rs";

/// What goes in beside the sources, relative to the repository.
const DATA: &str = "tests/graft";

/// Lines in files of the tree.
const MAKEFILE_LINE: &str = "obj-$(CONFIG_RAVB_RS) += ravb_rs/";
const KCONFIG_LINE: &str = "source \"drivers/net/ethernet/renesas/ravb_rs/Kconfig\"";
/// The end of the vendor's menu, before which its drivers stand.
const KCONFIG_END: &str = "endif # NET_VENDOR_RENESAS";

/// The command: grafts onto the tree given, or the one of `KERNEL_SRC=`.
pub(crate) fn run(env: &Env, tree: Option<PathBuf>) -> Result<()> {
    let Some(tree) = tree.or_else(|| env.kernel_src.clone()) else {
        bail!("say which kernel tree with KERNEL_SRC=; the driver is copied into it");
    };
    graft(&env.project, &tree)?;
    println!(
        "{}: run its tests in that tree with\n  ./tools/testing/kunit/kunit.py run --make_options \
         LLVM=1 --kunitconfig={DIRECTORY}",
        tree.join(DIRECTORY).display()
    );
    Ok(())
}

/// Grafts the driver of `project` onto `tree`.
pub(crate) fn graft(project: &Path, tree: &Path) -> Result<()> {
    let vendor = tree.join("drivers/net/ethernet/renesas");
    if !tree.join("MAINTAINERS").is_file() || !vendor.join("Kconfig").is_file() {
        bail!(
            "{} is no Linux source tree: it lacks MAINTAINERS or drivers/net/ethernet/renesas",
            tree.display()
        );
    }
    let data = project.join(DATA);

    let to = tree.join(DIRECTORY);
    if to.exists() {
        fs::remove_dir_all(&to).with_context(|| format!("cannot replace {}", to.display()))?;
    }
    module::copy_sources(project, &to)?;
    fs::copy(data.join("kunitconfig"), to.join(".kunitconfig"))?;

    edit(&vendor.join("Makefile"), |text| {
        Ok(with_line_at_end(text, MAKEFILE_LINE))
    })?;
    edit(&vendor.join("Kconfig"), |text| {
        with_line_before(text, KCONFIG_LINE, KCONFIG_END)
    })?;
    let entry = fs::read_to_string(data.join("MAINTAINERS"))?;
    edit(&tree.join("MAINTAINERS"), |text| with_entry(text, &entry))
}

/// Replaces the file rather than writing into it: it may be a hard link of another tree's.
fn edit(path: &Path, change: impl FnOnce(&str) -> Result<String>) -> Result<()> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let changed = change(&text).with_context(|| format!("cannot extend {}", path.display()))?;
    if changed != text {
        let temporary = path.with_extension("ravb_rs.tmp");
        fs::write(&temporary, changed)?;
        fs::rename(&temporary, path)?;
    }
    Ok(())
}

fn has_line(text: &str, line: &str) -> bool {
    text.lines().any(|other| other == line)
}

fn with_line_at_end(text: &str, line: &str) -> String {
    if has_line(text, line) {
        return text.to_string();
    }
    format!("{}\n\n{line}\n", text.trim_end())
}

fn with_line_before(text: &str, line: &str, end: &str) -> Result<String> {
    if has_line(text, line) {
        return Ok(text.to_string());
    }
    match text.rsplit_once(end) {
        Some((before, after)) => Ok(format!("{before}{line}\n\n{end}{after}")),
        None => bail!("it has no line {end:?}"),
    }
}

/// MAINTAINERS with `entry` at its place in the alphabet, instead of one of the same title.
fn with_entry(text: &str, entry: &str) -> Result<String> {
    let entry = entry.trim_end();
    let title = entry.lines().next().unwrap_or_default();
    // Paragraphs before the first entry explain the format.
    let is_entry = |paragraph: &str| {
        let mut lines = paragraph.trim_start().lines();
        let name = lines.next().unwrap_or_default();
        !name.is_empty()
            && !name.starts_with(char::is_whitespace)
            && lines.next().is_some_and(|line| {
                line.as_bytes().get(1) == Some(&b':') && line.as_bytes().get(2) == Some(&b'\t')
            })
    };
    let mut paragraphs: Vec<&str> = text.trim_end().split("\n\n").collect();
    paragraphs.retain(|paragraph| paragraph.lines().next() != Some(title));
    // The file is not sorted throughout, so look for the closest neighbour.
    let name = |place: usize| paragraphs[place].lines().next();
    let before = (0..paragraphs.len())
        .filter(|&place| is_entry(paragraphs[place]) && name(place) < Some(title))
        .max_by_key(|&place| name(place));
    match before {
        Some(place) => paragraphs.insert(place + 1, entry),
        None => bail!("it has no entry before {title:?}"),
    }
    Ok(format!("{}\n", paragraphs.join("\n\n")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAINTAINERS: &str = "Format\n======\n\n\tM: *Mail* of a person\n\n3C59X\nM:\tA <a@a>\n\n\
                               RENESAS A\nM:\tB <b@b>\nF:\tx/\n\nRENESAS SUPERH\nM:\tC <c@c>\n\n\
                               THE REST\nM:\tD <d@d>\n";

    #[test]
    fn an_entry_finds_its_place_once() {
        let once = with_entry(MAINTAINERS, "RENESAS ETHER\nM:\tE <e@e>\n").unwrap();
        assert!(once.contains("F:\tx/\n\nRENESAS ETHER\nM:\tE <e@e>\n\nRENESAS SUPERH"));
        assert_eq!(
            with_entry(&once, "RENESAS ETHER\nM:\tE <e@e>\n").unwrap(),
            once
        );
        let other = with_entry(&once, "RENESAS ETHER\nM:\tF <f@f>\n").unwrap();
        assert!(other.contains("M:\tF <f@f>") && !other.contains("M:\tE <e@e>"));
    }

    #[test]
    fn lines_are_added_once() {
        let makefile = with_line_at_end("obj-y += a.o\n", MAKEFILE_LINE);
        assert_eq!(makefile, format!("obj-y += a.o\n\n{MAKEFILE_LINE}\n"));
        assert_eq!(with_line_at_end(&makefile, MAKEFILE_LINE), makefile);

        let kconfig = format!("config A\n\n{KCONFIG_END}\n");
        let once = with_line_before(&kconfig, KCONFIG_LINE, KCONFIG_END).unwrap();
        assert_eq!(
            once,
            format!("config A\n\n{KCONFIG_LINE}\n\n{KCONFIG_END}\n")
        );
        assert_eq!(
            with_line_before(&once, KCONFIG_LINE, KCONFIG_END).unwrap(),
            once
        );
        assert!(with_line_before("config A\n", KCONFIG_LINE, KCONFIG_END).is_err());
    }

    #[test]
    fn a_tree_gets_everything_and_its_links_stay() {
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let dir = tempfile::tempdir().unwrap();
        let tree = dir.path().join("linux");
        let vendor = tree.join("drivers/net/ethernet/renesas");
        assert!(graft(&project, dir.path()).is_err(), "no kernel tree");
        fs::create_dir_all(&vendor).unwrap();
        fs::write(tree.join("MAINTAINERS"), MAINTAINERS).unwrap();
        fs::write(vendor.join("Kconfig"), format!("{KCONFIG_END}\n")).unwrap();
        fs::write(vendor.join("Makefile"), "obj-y += a.o\n").unwrap();
        let original = dir.path().join("original");
        fs::hard_link(vendor.join("Makefile"), &original).unwrap();

        graft(&project, &tree).unwrap();
        graft(&project, &tree).unwrap();
        for file in [
            "Kbuild",
            "Kconfig",
            "ravb_rs.rs",
            "net/mod.rs",
            ".kunitconfig",
        ] {
            assert!(tree.join(DIRECTORY).join(file).is_file(), "{file}");
        }
        let makefile = fs::read_to_string(vendor.join("Makefile")).unwrap();
        assert_eq!(makefile.matches("ravb_rs/").count(), 1);
        assert_eq!(fs::read_to_string(original).unwrap(), "obj-y += a.o\n");
        let maintainers = fs::read_to_string(tree.join("MAINTAINERS")).unwrap();
        assert_eq!(maintainers.matches("RENESAS ETHERNET AVB").count(), 1);
    }
}
