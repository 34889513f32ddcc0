// SPDX-License-Identifier: GPL-2.0
//! Results of expensive steps, found again by a hash of everything that went into them.
//!
//! A result is a directory `<cache>/<step>/<key>`. It is made under a temporary name and renamed
//! when complete, so whatever has the final name is whole. A lock file per result makes
//! concurrent invocations wait for each other; a leftover of an interrupted one is removed by the
//! next that takes the lock.

use crate::diagnose;
use crate::proc;
use crate::ui::Progress;
use anyhow::{bail, Context, Result};
use rustix::fs::{flock, FlockOperation};
use sha2::{Digest, Sha256};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::SystemTime;
use walkdir::WalkDir;

/// Hash of a step's inputs.
pub(crate) struct Key(Sha256);

impl Key {
    /// Starts with the recipe: its name and a version that is raised when its code changes.
    pub(crate) fn new(step: &str, version: u32) -> Key {
        Key(Sha256::new()).text(step).text(&version.to_string())
    }

    /// Adds a text.
    pub(crate) fn text(mut self, text: &str) -> Key {
        self.0.update((text.len() as u64).to_le_bytes());
        self.0.update(text);
        self
    }

    /// Adds the content and relative name of a file.
    pub(crate) fn file(self, base: &Path, path: &Path) -> Result<Key> {
        let name = path
            .strip_prefix(base)
            .unwrap_or(path)
            .to_string_lossy()
            .into_owned();
        let content = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut key = self.text(&name);
        key.0.update((content.len() as u64).to_le_bytes());
        key.0.update(content);
        Ok(key)
    }

    /// Adds all files.
    pub(crate) fn files(mut self, base: &Path, paths: &[PathBuf]) -> Result<Key> {
        for path in paths {
            self = self.file(base, path)?;
        }
        Ok(self)
    }

    /// The key as text: enough of the hash never to collide in practice.
    pub(crate) fn finish(self) -> String {
        self.0
            .finalize()
            .iter()
            .take(10)
            .map(|byte| format!("{byte:02x}"))
            .collect()
    }
}

/// All regular files below `paths` (files or directories), sorted, for a key or a copy.
pub(crate) fn files_below(paths: &[PathBuf]) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = paths
        .iter()
        .flat_map(WalkDir::new)
        .filter_map(|entry| entry.ok())
        .filter(|entry| entry.file_type().is_file())
        .map(|entry| entry.into_path())
        .collect();
    files.sort();
    files
}

/// What a step's recipe gets to work with.
pub(crate) struct Work<'a> {
    /// Directory to fill; it becomes the result.
    pub(crate) out: &'a Path,
    /// Log of the step.
    pub(crate) log: &'a Path,
    /// Where to say what is going on.
    pub(crate) progress: &'a Progress,
}

impl Work<'_> {
    /// Runs a command with its output in the step's log.
    pub(crate) fn run(&self, command: &mut Command) -> Result<()> {
        proc::run_logged(command, self.log, self.progress)
    }
}

/// A step as the cache sees it.
pub(crate) struct Step<'a> {
    /// Directory name of the step.
    pub(crate) name: &'a str,
    /// What the user reads.
    pub(crate) label: &'a str,
    /// Bytes of disk it needs.
    pub(crate) space: u64,
    /// How many results stay when a new one was made.
    pub(crate) keep: usize,
}

/// The directory of results.
pub(crate) struct Cache {
    dir: PathBuf,
    /// Shared locks on the results this invocation uses.
    held: Mutex<Vec<File>>,
}

impl Cache {
    fn at(dir: PathBuf) -> Cache {
        Cache {
            dir,
            held: Mutex::new(Vec::new()),
        }
    }

    /// Opens `${XDG_CACHE_HOME:-~/.cache}/ravb_rs`.
    pub(crate) fn open() -> Result<Cache> {
        let base = match std::env::var_os("XDG_CACHE_HOME").filter(|value| !value.is_empty()) {
            Some(dir) => PathBuf::from(dir),
            None => match std::env::var_os("HOME") {
                Some(home) => PathBuf::from(home).join(".cache"),
                None => bail!("neither XDG_CACHE_HOME nor HOME is set"),
            },
        };
        let cache = Cache::at(base.join("ravb_rs"));
        fs::create_dir_all(&cache.dir)
            .with_context(|| format!("cannot make {}", cache.dir.display()))?;
        Ok(cache)
    }

    /// The result of a step for `key`, made by `build` where it does not exist yet. It cannot be
    /// removed by another invocation while this one runs.
    pub(crate) fn get(
        &self,
        step: &Step<'_>,
        key: &str,
        build: impl FnOnce(&Work<'_>) -> Result<()>,
    ) -> Result<PathBuf> {
        let dir = self.dir.join(step.name);
        fs::create_dir_all(&dir)?;
        let result = dir.join(key);
        let lock = lock_file(&dir, key)?;
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
            // Somebody builds it, or has built it and uses it.
            if flock(&lock, FlockOperation::NonBlockingLockShared).is_err() {
                let progress = Progress::start(&format!("waiting for another run: {}", step.label));
                flock(&lock, FlockOperation::LockShared)?;
                progress.done();
            }
            if !result.is_dir() {
                // The other one failed or was interrupted: our turn.
                flock(&lock, FlockOperation::LockExclusive)?;
            }
        }
        if !result.is_dir() {
            self.make(step, key, &result, build)?;
        }
        touch(&result)?;
        flock(&lock, FlockOperation::LockShared)?;
        if let Ok(mut held) = self.held.lock() {
            held.push(lock);
        }
        self.trim(&dir, step.keep)?;
        Ok(result)
    }

    /// Makes a result; the caller holds its lock.
    fn make(
        &self,
        step: &Step<'_>,
        key: &str,
        result: &Path,
        build: impl FnOnce(&Work<'_>) -> Result<()>,
    ) -> Result<()> {
        let dir = self.dir.join(step.name);
        let out = dir.join(format!("{key}.tmp"));
        remove_tree(&out)?;
        diagnose::need_space(&dir, step.space)?;
        fs::create_dir_all(&out)?;
        let log = self
            .dir
            .join("log")
            .join(format!("{}-{key}.log", step.name));
        if log.exists() {
            fs::remove_file(&log)?;
        }
        let progress = Progress::start(step.label);
        build(&Work {
            out: &out,
            log: &log,
            progress: &progress,
        })
        .with_context(|| format!("{} failed", step.label))?;
        fs::rename(&out, result)?;
        progress.done();
        Ok(())
    }

    /// Removes all results of a step, so that it runs again.
    pub(crate) fn remove_step(&self, name: &str) -> Result<()> {
        self.trim(&self.dir.join(name), 0)
    }

    /// Removes results of all steps but the `keep` last used of each.
    pub(crate) fn clean(&self, keep: usize) -> Result<()> {
        for entry in fs::read_dir(&self.dir)? {
            let path = entry?.path();
            if path.is_dir() && path.file_name().is_some_and(|name| name != "log") {
                self.trim(&path, keep)?;
            }
        }
        Ok(())
    }

    /// Removes the least recently used results of one step; one in use by somebody stays.
    fn trim(&self, dir: &Path, keep: usize) -> Result<()> {
        let mut results: Vec<(SystemTime, PathBuf)> = Vec::new();
        let Ok(entries) = fs::read_dir(dir) else {
            return Ok(());
        };
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                let used = fs::metadata(stamp(&path)).and_then(|data| data.modified());
                results.push((used.unwrap_or(SystemTime::UNIX_EPOCH), path));
            }
        }
        results.sort();
        results.reverse();
        for (_, path) in results.into_iter().skip(keep) {
            let name = path
                .file_stem()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            let lock = lock_file(dir, &name)?;
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_err() {
                continue;
            }
            remove_tree(&path)?;
            let _ = fs::remove_file(stamp(&path));
        }
        Ok(())
    }
}

/// When a result was last used is the time stamp of this file beside it.
fn stamp(result: &Path) -> PathBuf {
    result.with_extension("used")
}

fn touch(result: &Path) -> Result<()> {
    File::create(stamp(result))?;
    Ok(())
}

fn lock_file(dir: &Path, key: &str) -> Result<File> {
    let path = dir.join(format!("{key}.lock"));
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .with_context(|| format!("cannot open {}", path.display()))
}

/// Removes a directory, also one whose files belong to a user namespace's subordinate users.
fn remove_tree(path: &Path) -> Result<()> {
    if !path.exists() {
        return Ok(());
    }
    // Never reach through a mount into the host.
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let prefix = format!("{}/", path.display());
    if mounts.lines().any(|line| {
        line.split(' ')
            .nth(4)
            .is_some_and(|at| at.starts_with(&prefix))
    }) {
        bail!(
            "something is mounted below {}: unmount it first",
            path.display()
        );
    }
    if fs::remove_dir_all(path).is_ok() {
        return Ok(());
    }
    proc::output(
        Command::new("unshare")
            .args(["--map-root-user", "--map-auto", "rm", "-rf", "--"])
            .arg(path),
    )
    .with_context(|| format!("cannot remove {}", path.display()))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(keep: usize) -> Step<'static> {
        Step {
            name: "s",
            label: "step",
            space: 1,
            keep,
        }
    }

    #[test]
    fn builds_once_and_again_after_a_failure() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().to_path_buf());
        let failed = cache.get(&step(2), "k", |work| {
            fs::write(work.out.join("half"), "x")?;
            bail!("broken")
        });
        assert!(failed.is_err());
        let built = cache
            .get(&step(2), "k", |work| {
                assert!(!work.out.join("half").exists(), "leftovers must be gone");
                fs::write(work.out.join("file"), "x")?;
                Ok(())
            })
            .unwrap();
        assert!(built.join("file").exists());
        cache
            .get(&step(2), "k", |_| panic!("must not build twice"))
            .unwrap();
    }

    #[test]
    fn concurrent_builders_wait_for_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let count = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let cache = Cache::at(dir.path().to_path_buf());
                    cache
                        .get(&step(2), "k", |_| {
                            count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                            std::thread::sleep(std::time::Duration::from_millis(50));
                            Ok(())
                        })
                        .unwrap();
                });
            }
        });
        assert_eq!(count.into_inner(), 1);
    }

    #[test]
    fn trims_the_least_recently_used() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::at(dir.path().to_path_buf());
        let exists = |key: &str| dir.path().join("s").join(key).is_dir();
        for key in ["a", "b", "c"] {
            cache.get(&step(2), key, |_| Ok(())).unwrap();
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        assert!(
            exists("a") && exists("b") && exists("c"),
            "what is in use stays"
        );
        let next = Cache::at(dir.path().to_path_buf());
        next.clean(2).unwrap();
        assert!(exists("a"), "also for another invocation");
        drop(cache);
        next.clean(2).unwrap();
        assert!(!exists("a") && exists("b") && exists("c"));
    }

    #[test]
    fn keys_depend_on_every_input() {
        let key = |a: &str, b: &str| Key::new("s", 1).text(a).text(b).finish();
        assert_eq!(key("a", "b"), key("a", "b"));
        assert_ne!(key("ab", ""), key("a", "b"));
        assert_ne!(Key::new("s", 1).finish(), Key::new("s", 2).finish());
    }
}
