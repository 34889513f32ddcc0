// SPDX-License-Identifier: GPL-2.0
//! gPTP timer of the EtherAVB variants (reference section 7): one 80-bit timer, an offset, a
//! compare unit, a capture of external events, and the FIFO of transmit timestamps.
//!
//! The AVTP capture units, the presentation time FIFO and the further compare units of Gen3 are
//! not modelled; their registers do not exist here.

use std::collections::VecDeque;

use crate::host::Host;
use crate::model::Model;
use crate::modes::Mode;
use crate::regs::{bit, reg};

/// Nanoseconds per second.
const SECOND: u128 = 1_000_000_000;
/// Fraction bits of the timer and of GTI.TIV.
const FRACTION: u32 = 20;

/// A transmit timestamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    tag: u16,
    ns: u128,
}

/// The timer and what hangs on it.
#[derive(Debug, Default)]
pub(crate) struct Gptp {
    running: bool,
    /// Timer at virtual time `since`, in 2^-20 ns.
    raw: u128,
    since: u64,
    /// Loaded GTI.TIV: 2^-20 ns per clock.
    increment: u32,
    /// Loaded GTO, in nanoseconds.
    offset: u128,
    /// Virtual time at which the loaded GPTC will match.
    compare_at: Option<u64>,
    fifo: VecDeque<Stamp>,
    /// Stamps on their way into the FIFO (fault hook), and when they get there.
    delayed: VecDeque<(u64, Stamp)>,
    /// Stamps since the last one that was dropped (fault hook).
    since_drop: u32,
}

impl Model {
    fn gptp_should_run(&self) -> bool {
        let gac = self.regs.get(reg::CCC) & bit::CCC_GAC != 0;
        self.variant.gptp
            && self.modes.clock
            && match self.modes.current {
                Mode::Operation => true,
                Mode::Config => gac,
                Mode::Reset | Mode::Standby => false,
            }
    }

    /// Starts or stops the timer as mode and clock ask for.
    pub(crate) fn update_gptp(&mut self, now: u64) {
        if self.modes.current == Mode::Reset {
            self.gptp = Gptp::default();
        }
        let run = self.gptp_should_run();
        if run == self.gptp.running {
            return;
        }
        if !run {
            self.gptp.raw = self.raw_time(now);
        }
        self.gptp.running = run;
        self.gptp.since = now;
        self.perform_gccr(now);
    }

    /// Timer at virtual time `t`, in 2^-20 ns.
    fn raw_time(&self, t: u64) -> u128 {
        let gptp = &self.gptp;
        if !gptp.running {
            return gptp.raw;
        }
        let clocks = u128::from(t.saturating_sub(gptp.since)) * u128::from(self.gptp_clock());
        gptp.raw + clocks * u128::from(gptp.increment) / SECOND
    }

    /// Rate of the timer's clock in Hz.
    pub(crate) fn gptp_clock(&self) -> u64 {
        self.settings.gptp_clock.unwrap_or(self.variant.gptp_clock)
    }

    /// Adjusted time (timer plus offset) in nanoseconds at virtual time `t`.
    pub(crate) fn adjusted_time(&self, t: u64) -> u128 {
        ((self.raw_time(t) >> FRACTION) + self.gptp.offset) % (SECOND << 48)
    }

    /// Write to GCCR: requests stay set until they are performed.
    pub(crate) fn write_gccr(&mut self, h: &mut dyn Host, value: u32) {
        let requests = bit::GCCR_REQUESTS;
        let pending = self.regs.get(reg::GCCR) & requests;
        self.regs.set(reg::GCCR, value | pending);
        self.perform_gccr(h.now());
    }

    /// Performs what GCCR requests, which needs a running clock.
    pub(crate) fn perform_gccr(&mut self, now: u64) {
        if !self.gptp.running || self.faults.gccr_stuck {
            return;
        }
        let gccr = self.regs.get(reg::GCCR);
        self.regs.set(reg::GCCR, gccr & !bit::GCCR_REQUESTS);
        let raw = self.raw_time(now);
        if gccr & bit::GCCR_TCR == bit::GCCR_TCR_RESET {
            (self.gptp.raw, self.gptp.since) = (0, now);
        }
        if gccr & bit::GCCR_LTI != 0 {
            if gccr & bit::GCCR_TCR != bit::GCCR_TCR_RESET {
                (self.gptp.raw, self.gptp.since) = (raw, now);
            }
            self.gptp.increment = self.regs.get(reg::GTI);
        }
        if gccr & bit::GCCR_LTO != 0 {
            let [ns, lo, hi] = [0, 4, 8].map(|i| u128::from(self.regs.get(reg::GTO0 + i)));
            self.gptp.offset = (hi << 32 | lo) * SECOND + ns;
        }
        if gccr & bit::GCCR_TCR == bit::GCCR_TCR_CAPTURE {
            self.capture(gccr, now);
        }
        if gccr & bit::GCCR_LPTC != 0 {
            self.gptp.compare_at = Some(now);
        }
        if self.gptp.compare_at.is_some() {
            self.gptp.compare_at = self.next_match(now);
        }
    }

    /// TCR=3: the chosen time goes to GCT0-2.
    fn capture(&mut self, gccr: u32, now: u64) {
        let adjusted = self.adjusted_time(now);
        let [ns, lo, hi] = match gccr & bit::GCCR_TCSS {
            bit::GCCR_TCSS_RAW => words(self.raw_time(now) >> FRACTION),
            bit::GCCR_TCSS_AVTP => [adjusted as u32, 0, 0],
            _ => words(adjusted),
        };
        self.regs.set(reg::GCT0, ns);
        self.regs.set(reg::GCT0 + 4, lo);
        self.regs.set(reg::GCT0 + 8, hi);
    }

    /// Virtual time at which the low word of the adjusted time reaches GPTC next. Values within
    /// one increment of the wrap are missed, as the C driver warns.
    fn next_match(&self, now: u64) -> Option<u64> {
        let rate = u128::from(self.gptp_clock()) * u128::from(self.gptp.increment);
        let compare = self.regs.get(reg::GPTC);
        let margin = (self.gptp.increment >> FRACTION) + 1;
        if rate == 0 || compare < margin || compare > 0u32.wrapping_sub(margin) {
            return None;
        }
        let ahead = compare.wrapping_sub(self.adjusted_time(now) as u32);
        let ahead = if ahead == 0 {
            1 << 32
        } else {
            u128::from(ahead)
        };
        let wait = ((ahead << FRACTION) * SECOND).div_ceil(rate);
        Some(now.saturating_add(u64::try_from(wait).unwrap_or(u64::MAX)))
    }

    pub(crate) fn gptp_deadline(&self) -> u64 {
        if !self.gptp.running {
            return u64::MAX;
        }
        let delayed = self.gptp.delayed.front().map_or(u64::MAX, |(at, _)| *at);
        self.gptp.compare_at.unwrap_or(u64::MAX).min(delayed)
    }

    /// Does what is due at time `t`.
    pub(crate) fn run_gptp(&mut self, t: u64) {
        if self.gptp.compare_at.is_some_and(|at| at <= t) {
            self.regs.raise(reg::GIS, bit::GIS_PTMF);
            // And again when the low word has come round (A).
            self.gptp.compare_at = self.next_match(t);
        }
        while self.gptp.delayed.front().is_some_and(|(at, _)| *at <= t) {
            if let Some((_, stamp)) = self.gptp.delayed.pop_front() {
                self.push_stamp(stamp);
            }
        }
    }

    /// An edge on the external capture pin.
    pub(crate) fn external_event(&mut self, h: &mut dyn Host) {
        if !self.gptp.running {
            return;
        }
        if self.regs.get(reg::GIS) & bit::GIS_PTCF != 0 {
            self.regs.raise(reg::GIS, bit::GIS_PTOF);
        } else {
            let time = self.adjusted_time(h.now()) as u32;
            self.regs.set(reg::GCPT, time);
            self.regs.raise(reg::GIS, bit::GIS_PTCF);
        }
        self.settle(h);
    }

    /// A frame with TSR set has left; its start was at virtual time `start`.
    pub(crate) fn stamp_transmission(&mut self, tag: u16, start: u64, end: u64) {
        if !self.gptp.running || self.regs.get(reg::TCCR) & bit::TCCR_TFEN == 0 {
            return;
        }
        self.gptp.since_drop += 1;
        let every = self.faults.drop_timestamp_every;
        if every != 0 && self.gptp.since_drop >= every {
            self.gptp.since_drop = 0;
            return;
        }
        let stamp = Stamp {
            tag,
            ns: self.adjusted_time(start),
        };
        match self.faults.tx_timestamp_ns {
            0 => self.push_stamp(stamp),
            delay => self
                .gptp
                .delayed
                .push_back((end.saturating_add(delay), stamp)),
        }
    }

    fn push_stamp(&mut self, stamp: Stamp) {
        let depth = self.settings.timestamp_fifo as usize;
        if self.gptp.fifo.len() >= depth {
            self.regs.raise(reg::EIS, bit::EIS_TFFF);
            if !self.settings.timestamp_fifo_keeps_new {
                return;
            }
            self.gptp.fifo.pop_front();
        }
        self.gptp.fifo.push_back(stamp);
        self.regs.raise(reg::TIS, bit::TIS_TFUF);
        if self.gptp.fifo.len() + 1 >= depth {
            self.regs.raise(reg::TIS, bit::TIS_TFWF);
        }
    }

    /// TCCR.TFR: the oldest timestamp has been read.
    pub(crate) fn release_timestamp(&mut self) {
        self.gptp.fifo.pop_front();
    }

    /// TSR: fill level of the timestamp FIFO.
    pub(crate) fn read_tsr(&self) -> u32 {
        (self.gptp.fifo.len() as u32 & 7) << 8
    }

    /// TFA0-2: the oldest timestamp.
    pub(crate) fn read_tfa(&self, index: u16) -> u32 {
        let Some(stamp) = self.gptp.fifo.front() else {
            return 0;
        };
        let [ns, lo, hi] = words(stamp.ns);
        [ns, lo, hi & 0xffff | u32::from(stamp.tag) << 16][usize::from(index)]
    }
}

/// Nanoseconds, low and high word of the seconds.
pub(crate) fn words(ns: u128) -> [u32; 3] {
    let seconds = ns / SECOND;
    [
        (ns % SECOND) as u32,
        seconds as u32,
        (seconds >> 32) as u32 & 0xffff,
    ]
}
