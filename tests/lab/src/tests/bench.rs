// SPDX-License-Identifier: GPL-2.0
//! Of the measurement: that it repeats, and that our driver got no more expensive.

use super::{Run, Test};
use crate::bench;

/// The tests.
pub(super) fn tests() -> Vec<Test> {
    let test = |name: &str, run| Test {
        name: name.into(),
        long: false,
        run: Run::Host(run),
    };
    vec![
        test("bench-repeats", bench::repeats),
        test("bench-baseline", bench::baseline),
    ]
}
