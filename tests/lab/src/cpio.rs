// SPDX-License-Identifier: GPL-2.0
//! Writer of initramfs archives (cpio "newc", as in the kernel's
//! Documentation/driver-api/early-userspace/buffer-format.rst).

use anyhow::{bail, Result};
use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use walkdir::WalkDir;

const TYPE_DIR: u32 = 0o040000;
const TYPE_FILE: u32 = 0o100000;
const TYPE_LINK: u32 = 0o120000;

/// One archive; several written one after the other unpack as one.
pub(crate) struct Archive<W: Write> {
    out: W,
    inode: u32,
}

impl<W: Write> Archive<W> {
    pub(crate) fn new(out: W) -> Archive<W> {
        Archive { out, inode: 0 }
    }

    fn entry(&mut self, name: &str, mode: u32, data: &[u8]) -> Result<()> {
        self.inode += 1;
        let size = u32::try_from(data.len())?;
        let name_size = u32::try_from(name.len() + 1)?;
        // Magic, inode, mode, uid, gid, links, mtime, size, device and rdev (major, minor each),
        // name size, checksum (unused).
        let fields = [self.inode, mode, 0, 0, 1, 0, size, 0, 0, 0, 0, name_size, 0];
        let mut header = String::from("070701");
        for field in fields {
            header.push_str(&format!("{field:08x}"));
        }
        self.out.write_all(header.as_bytes())?;
        self.out.write_all(name.as_bytes())?;
        self.out.write_all(&[0])?;
        self.pad(header.len() + name.len() + 1)?;
        self.out.write_all(data)?;
        self.pad(data.len())
    }

    fn pad(&mut self, written: usize) -> Result<()> {
        let missing = written.next_multiple_of(4) - written;
        self.out.write_all(&[0; 3][..missing])?;
        Ok(())
    }

    /// Adds a directory.
    pub(crate) fn dir(&mut self, name: &str) -> Result<()> {
        self.entry(name, TYPE_DIR | 0o755, &[])
    }

    /// Adds a file with permission bits `mode`.
    pub(crate) fn file(&mut self, name: &str, mode: u32, data: &[u8]) -> Result<()> {
        self.entry(name, TYPE_FILE | (mode & 0o777), data)
    }

    /// Adds a symbolic link.
    pub(crate) fn link(&mut self, name: &str, target: &str) -> Result<()> {
        self.entry(name, TYPE_LINK | 0o777, target.as_bytes())
    }

    /// Adds everything below a directory.
    pub(crate) fn tree(&mut self, base: &Path) -> Result<()> {
        for entry in WalkDir::new(base).min_depth(1).sort_by_file_name() {
            let entry = entry?;
            let name = entry
                .path()
                .strip_prefix(base)?
                .to_string_lossy()
                .into_owned();
            let kind = entry.file_type();
            if kind.is_dir() {
                self.dir(&name)?;
            } else if kind.is_symlink() {
                self.link(&name, &fs::read_link(entry.path())?.to_string_lossy())?;
            } else if kind.is_file() {
                let mode = entry.metadata()?.permissions().mode();
                self.file(&name, mode, &fs::read(entry.path())?)?;
            }
        }
        Ok(())
    }

    /// Adds the members of a tar archive that `wanted` accepts; device nodes are left to devtmpfs.
    pub(crate) fn tar(&mut self, tar: impl Read, wanted: impl Fn(&str) -> bool) -> Result<()> {
        let mut archive = tar::Archive::new(tar);
        // A hard link repeats the content: simpler than cpio's own way, and they are few.
        let mut contents: HashMap<String, (u32, Vec<u8>)> = HashMap::new();
        for member in archive.entries()? {
            let mut member = member?;
            let path = member.path()?.to_string_lossy().into_owned();
            let name = path
                .trim_start_matches("./")
                .trim_end_matches('/')
                .to_string();
            if name.is_empty() || !wanted(&name) {
                continue;
            }
            let mode = member.header().mode()?;
            let target = member
                .link_name()?
                .map(|path| path.to_string_lossy().into_owned());
            match (member.header().entry_type(), target) {
                (tar::EntryType::Directory, _) => self.dir(&name)?,
                (tar::EntryType::Symlink, Some(target)) => self.link(&name, &target)?,
                (tar::EntryType::Link, Some(target)) => {
                    let target = target.trim_start_matches("./").to_string();
                    let Some((mode, data)) = contents.get(&target) else {
                        bail!("{name} is a hard link to {target}, which is not in the archive");
                    };
                    let (mode, data) = (*mode, data.clone());
                    self.file(&name, mode, &data)?;
                }
                (tar::EntryType::Regular, _) => {
                    let mut data = Vec::new();
                    member.read_to_end(&mut data)?;
                    self.file(&name, mode, &data)?;
                    contents.insert(name, (mode, data));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Ends the archive.
    pub(crate) fn finish(mut self) -> Result<W> {
        self.entry("TRAILER!!!", 0, &[])?;
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_and_padding() {
        let mut archive = Archive::new(Vec::new());
        archive.file("ab", 0o644, b"12345").unwrap();
        let bytes = archive.finish().unwrap();
        assert!(bytes.starts_with(b"07070100000001000081a4"));
        // 110 bytes of header, the name with its zero padded to 116, then the content.
        assert_eq!(&bytes[110..113], b"ab\0");
        assert_eq!(&bytes[116..121], b"12345");
        assert_eq!(&bytes[124..130], b"070701");
        assert_eq!(bytes.len() % 4, 0);
    }

    #[test]
    fn tar_members_are_filtered() {
        let mut builder = tar::Builder::new(Vec::new());
        for name in ["./usr/bin/tool", "./usr/share/doc/tool"] {
            let mut header = tar::Header::new_ustar();
            header.set_size(1);
            header.set_mode(0o755);
            builder.append_data(&mut header, name, &b"x"[..]).unwrap();
        }
        let tar = builder.into_inner().unwrap();
        let mut archive = Archive::new(Vec::new());
        archive.tar(&tar[..], |name| !name.contains("doc")).unwrap();
        let text = String::from_utf8_lossy(&archive.finish().unwrap()).into_owned();
        assert!(text.contains("usr/bin/tool") && !text.contains("usr/share/doc"));
    }
}
