// SPDX-License-Identifier: GPL-2.0
//! What `make bench-full` adds: the same on lean kernels that clang built, to see what checks of
//! overflow cost, and calls of the kernel's C helpers.

use super::cases::Case;
use super::cost::Cost;
use super::rig::Rig;
use super::{both, brief_cases, costs, headline, Pair};
use crate::env::Env;
use crate::steps::kernel::{Code, Flavour};
use crate::ui::Progress;
use anyhow::Result;
use serde_json::{json, Value};

/// The costs of one kind of code.
pub(super) struct Measured {
    pub(super) code: Code,
    pub(super) cases: Vec<(Case, Pair<Cost>)>,
}

/// Measures all kinds of code.
pub(super) fn measure(env: &Env) -> Result<Vec<Measured>> {
    Code::ALL.iter().map(|code| one(env, *code)).collect()
}

fn one(env: &Env, code: Code) -> Result<Measured> {
    let rig = Rig::new(env, Flavour::Lean(code))?;
    let progress = Progress::start(&format!("lean kernel, Rust {}", code.key()));
    let cases = brief_cases();
    let (c, rust) = both(|driver| costs(&rig, &headline(driver), &cases, 1))?;
    progress.done();
    let pairs = c.into_iter().zip(rust).map(|(c, rust)| Pair { c, rust });
    Ok(Measured {
        code,
        cases: cases.into_iter().zip(pairs).collect(),
    })
}

impl Measured {
    pub(super) fn json(&self) -> Value {
        let cases: Vec<Value> = self
            .cases
            .iter()
            .map(|(case, pair)| {
                json!({
                    "case": case.name,
                    "c": pair.c.json(),
                    "rust": pair.rust.json(),
                })
            })
            .collect();
        json!({
            "overflow_checks": self.code.overflow_checks,
            "inline_helpers": self.code.inline_helpers,
            "cases": cases,
        })
    }
}
