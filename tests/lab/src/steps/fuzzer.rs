// SPDX-License-Identifier: GPL-2.0
//! libFuzzer, as Debian has it for the build root's clang. It is linked in there, so that the host
//! needs no C++.

use super::root::{Root, SUITE};
use crate::cache::{Key, Step};
use crate::env::Env;
use anyhow::Result;
use std::path::PathBuf;

const VERSION: u32 = 1;

/// The library, in the step's result.
pub(crate) const LIBRARY: &str = "libFuzzer.a";

/// Fetches it; returns the directory of [`LIBRARY`].
pub(crate) fn get(env: &Env, root: &Root) -> Result<PathBuf> {
    let key = Key::new("fuzzer", VERSION)
        .text(SUITE)
        .text(&root.packages())
        .finish();
    let step = Step {
        name: "fuzzer",
        label: "libFuzzer",
        space: 16 << 20,
        keep: 1,
    };
    env.cache.get(&step, &key, |work| {
        let script = format!(
            "cd /out
             version=$(clang -dumpversion | cut -d. -f1)
             apt-get -q download libfuzzer-$version-dev/{SUITE}
             dpkg-deb -x libfuzzer-*.deb package
             mv package/usr/lib/llvm-$version/lib/{LIBRARY} .
             rm -r package libfuzzer-*.deb"
        );
        root.apt(work, &[(work.out, "/out")], &script)
    })
}
