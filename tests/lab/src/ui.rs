// SPDX-License-Identifier: GPL-2.0
//! What the user sees while something takes time.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// Progress of one step: a spinner on a terminal, two plain lines elsewhere.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    label: String,
    start: Instant,
}

impl Progress {
    /// Announces the step.
    pub(crate) fn start(label: &str) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new_spinner();
            if let Ok(style) =
                ProgressStyle::with_template("{spinner} {prefix} {elapsed:.dim} {wide_msg:.dim}")
            {
                bar.set_style(style);
            }
            bar.set_prefix(label.to_string());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        if bar.is_none() {
            eprintln!("  {label} ...");
        }
        Progress {
            bar,
            label: label.to_string(),
            start: Instant::now(),
        }
    }

    /// Progress of something short: nothing is shown.
    pub(crate) fn quiet() -> Progress {
        Progress {
            bar: None,
            label: String::new(),
            start: Instant::now(),
        }
    }

    /// Shows what the step does at the moment.
    pub(crate) fn say(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_string());
        }
    }

    /// Prints a line that stays.
    pub(crate) fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| eprintln!("{text}")),
            None => eprintln!("{text}"),
        }
    }

    /// The step is done.
    pub(crate) fn done(self) {
        let line = format!(
            "  {} [{:.1} s]",
            self.label,
            self.start.elapsed().as_secs_f64()
        );
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        eprintln!("{line}");
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
