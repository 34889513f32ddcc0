// SPDX-License-Identifier: GPL-2.0
//! A record of what a driver did to the registers, in order, for tests of that order.

use serde_json::{json, Value};

use crate::regs::reg;

/// Accesses that are kept; what comes later is only counted.
const LIMIT: usize = 50_000;

/// Register accesses since the property `record` was set.
#[derive(Debug, Default)]
pub(crate) struct Record {
    pub(crate) on: bool,
    accesses: Vec<(bool, String, u32)>,
    lost: u64,
}

impl Record {
    /// Starts anew, or stops.
    pub(crate) fn switch(&mut self, on: bool) {
        if on {
            *self = Self::default();
        }
        self.on = on;
    }

    /// Adds an access, unless it moved the pins of the management bus, which is all the time.
    pub(crate) fn add(&mut self, is_write: bool, offset: u64, name: String, value: u32) {
        if !self.on || offset == u64::from(reg::PIR) {
            return;
        }
        if self.accesses.len() < LIMIT {
            self.accesses.push((is_write, name, value));
        } else {
            self.lost += 1;
        }
    }

    /// JSON: the accesses, each as `["w", "CCC", 1]`, and how many are missing after them.
    pub(crate) fn json(&self) -> Value {
        let accesses: Vec<_> = self
            .accesses
            .iter()
            .map(|(is_write, name, value)| json!([if *is_write { "w" } else { "r" }, name, value]))
            .collect();
        json!({ "accesses": accesses, "lost": self.lost })
    }
}
