// SPDX-License-Identifier: GPL-2.0
//! The kernel's trace of polls.

use crate::check::Bench;
use crate::net::IFACE;
use anyhow::{ensure, Context, Result};

/// What a poll did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::tests) struct Poll {
    /// What it returned.
    pub(super) work: u64,
    /// What it was allowed.
    pub(super) budget: u64,
}

/// A trace that is being taken.
#[must_use]
pub(in crate::tests) struct Trace(());

impl Trace {
    /// Notes polls for which `filter` holds; all, if it is empty.
    pub(in crate::tests) fn start(bench: &mut Bench<'_>, filter: &str) -> Result<Trace> {
        let filter = if filter.is_empty() { "0" } else { filter };
        bench.vm.ok(&format!(
            "cd /sys/kernel/tracing || exit 1
             echo 0 > tracing_on; echo 16384 > buffer_size_kb; echo > trace
             echo '{filter}' > events/napi/napi_poll/filter
             echo 1 > events/napi/napi_poll/enable && echo 1 > tracing_on"
        ))?;
        Ok(Trace(()))
    }

    /// Returns the polls of the interface.
    pub(in crate::tests) fn stop(self, bench: &mut Bench<'_>) -> Result<Vec<Poll>> {
        let text = bench.vm.ok(&format!(
            "cd /sys/kernel/tracing
             echo 0 > tracing_on; echo 0 > events/napi/napi_poll/enable
             grep -h '^overrun: ' per_cpu/*/stats
             grep 'device {IFACE} ' trace; echo > trace"
        ))?;
        let mut lost = text.lines().filter(|line| line.starts_with("overrun: "));
        ensure!(
            lost.all(|line| line == "overrun: 0"),
            "the trace is not complete"
        );
        let lines = text.lines().filter(|line| line.contains("napi poll on"));
        lines
            .map(|line| parse(line).with_context(|| format!("{line:?} is no poll")))
            .collect()
    }
}

/// Reads `… napi poll on napi struct 0 for device eth0 work 64 budget 64`.
fn parse(line: &str) -> Option<Poll> {
    let number = |name: &str| {
        let mut words = line.split_whitespace().skip_while(|word| *word != name);
        words.nth(1)?.parse().ok()
    };
    Some(Poll {
        work: number("work")?,
        budget: number("budget")?,
    })
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn lines_are_read() {
        let line = "<idle>-0 [001] ..s1. 4.5: napi_poll: napi poll on napi struct 000000009 for \
                    device eth0 work 3 budget 64";
        let expected = Poll {
            work: 3,
            budget: 64,
        };
        assert_eq!(parse(line), Some(expected));
        assert_eq!(parse("work x"), None);
    }
}
