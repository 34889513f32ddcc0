// SPDX-License-Identifier: GPL-2.0
//! Operating modes (reference section 3): CCC, CSR, reset line and clock.

use crate::host::Host;
use crate::model::Model;
use crate::regs::{bit, reg};
use crate::rules::Rule;
use crate::variant::ClockOff;

/// Operating mode; the value is CCC.OPC, and `1 << value` is CSR.OPS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Everything but CCC is held at its reset value.
    Reset = 0,
    /// Registers can be set up, no DMA.
    Config = 1,
    /// Frames flow.
    Operation = 2,
    /// Module stop.
    Standby = 3,
}

impl Mode {
    fn of(ccc: u32) -> Self {
        match ccc & bit::CCC_OPC {
            0 => Self::Reset,
            1 => Self::Config,
            2 => Self::Operation,
            _ => Self::Standby,
        }
    }
}

/// Present mode, requested mode, and the two inputs from the clock generator.
#[derive(Debug)]
pub(crate) struct Modes {
    pub(crate) current: Mode,
    target: Mode,
    /// Reads of CSR until a requested change may take effect (fault hook).
    delay_reads: u32,
    pub(crate) clock: bool,
    /// When a register was last accessed.
    pub(crate) accessed: u64,
    /// How long before the clock last stopped that was, in nanoseconds.
    pub(crate) idle: u64,
    pub(crate) in_reset: bool,
    /// CXR35 has been written since the E-MAC was reset.
    pub(crate) cxr35_written: bool,
}

impl Default for Modes {
    fn default() -> Self {
        Self {
            current: Mode::Reset,
            target: Mode::Reset,
            delay_reads: 0,
            clock: false,
            accessed: 0,
            idle: 0,
            in_reset: true,
            cxr35_written: false,
        }
    }
}

impl Modes {
    /// A mode was asked for that is not there yet.
    pub(crate) fn pending(&self) -> bool {
        self.current != self.target
    }
}

impl Model {
    /// True while frames flow.
    pub(crate) fn operating(&self) -> bool {
        let m = &self.modes;
        m.current == Mode::Operation && m.clock && !m.in_reset && !self.dmac.frozen
    }

    /// The DMA engine may use the bus.
    pub(crate) fn bus_enabled(&self) -> bool {
        self.operating() && self.regs.get(reg::CCC) & bit::CCC_DTSR == 0
    }

    pub(crate) fn read_csr(&mut self, h: &mut dyn Host) -> u32 {
        if self.modes.pending() && self.modes.delay_reads > 0 {
            self.modes.delay_reads -= 1;
            self.try_mode_change(h);
        }
        let suspended = self.regs.get(reg::CCC) & bit::CCC_DTSR != 0 && !self.dmac.rx_in_progress();
        let mut csr = 1 << self.modes.current as u32;
        if suspended {
            csr |= bit::CSR_DTS;
        }
        for q in 0..self.variant.tx_queues {
            if self.dmac.tx_pending(q) {
                csr |= bit::CSR_TPO0 << q;
            }
        }
        if self.rx_pending() {
            csr |= bit::CSR_RPO;
        }
        csr
    }

    pub(crate) fn write_ccc(&mut self, h: &mut dyn Host, value: u32) {
        let target = Mode::of(value);
        let old = self.regs.get(reg::CCC);
        let together = bit::CCC_GAC | bit::CCC_CSEL;
        if target == self.modes.target {
            if self.variant.gac && (old ^ value) & together != 0 {
                self.broken(h, Rule::GacWithoutMode, &format!("CCC = {value:#x}"));
                self.regs.set(reg::CCC, value & !together | old & together);
            } else {
                self.regs.set(reg::CCC, value);
            }
            return;
        }
        self.regs.set(reg::CCC, value);
        let skips = matches!(
            (self.modes.target, target),
            (Mode::Reset, Mode::Operation) | (Mode::Standby, Mode::Operation)
        );
        if skips {
            self.broken(
                h,
                Rule::ModeTransition,
                &format!("{:?} to {target:?}", self.modes.target),
            );
        }
        self.modes.target = target;
        self.modes.delay_reads = self.faults.mode_change_delay;
        self.try_mode_change(h);
    }

    /// Completes a requested mode change if nothing holds it back.
    pub(crate) fn try_mode_change(&mut self, h: &mut dyn Host) {
        let Modes {
            current,
            target,
            delay_reads,
            ..
        } = self.modes;
        if current == target || delay_reads > 0 {
            return;
        }
        // Leaving OPERATION for CONFIG waits for the queues (K-ml); RESET never waits (K-qnx).
        if current == Mode::Operation && target == Mode::Config && !self.quiescent() {
            return;
        }
        self.enter(h, target);
    }

    fn quiescent(&self) -> bool {
        let toe = bit::CSR0_TPE | bit::CSR0_RPE;
        let toe_stalls = self.variant.toe
            && self.settings.toe_blocks_config
            && self.regs.get(reg::CSR0) & toe != toe;
        !toe_stalls
            && !self.rx_pending()
            && (0..self.variant.tx_queues).all(|q| !self.dmac.tx_pending(q))
    }

    fn enter(&mut self, h: &mut dyn Host, mode: Mode) {
        if self.modes.current == Mode::Operation {
            self.stop_dma(h);
        }
        self.modes.current = mode;
        self.modes.target = mode;
        match mode {
            Mode::Reset => self.reset_registers(),
            Mode::Operation => self.start_dma(h),
            Mode::Config | Mode::Standby => (),
        }
        self.update_gptp(h.now());
    }

    /// What RESET mode and the reset line do to the registers (A for MAHR and MALR).
    fn reset_registers(&mut self) {
        let mac = [reg::MAHR, reg::MALR].map(|r| self.regs.get(r));
        self.regs.reset();
        if self.settings.mac_survives_reset {
            self.regs.set(reg::MAHR, mac[0]);
            self.regs.set(reg::MALR, mac[1]);
        }
        self.modes.cxr35_written = false;
        self.dmac.reset();
    }

    /// Power-on reset. The clock and reset inputs keep the level the clock generator drives.
    pub fn power_on(&mut self, h: &mut dyn Host) {
        self.enter(h, Mode::Reset);
        let m = self.settings.boot_mac;
        self.regs
            .set(reg::MAHR, u32::from_be_bytes([m[0], m[1], m[2], m[3]]));
        self.regs
            .set(reg::MALR, u32::from_be_bytes([0, 0, m[4], m[5]]));
        self.mdio.phy_mut().power_on();
        self.settle(h);
    }

    /// Level of the module clock.
    pub fn set_clock(&mut self, h: &mut dyn Host, on: bool) {
        if self.modes.clock == on {
            return;
        }
        self.modes.clock = on;
        if !on {
            self.modes.idle = h.now() - self.modes.accessed;
            if self.modes.current == Mode::Operation {
                self.broken(h, Rule::ClockOffInOperation, "module clock stopped");
            }
            match self.settings.clock_off.unwrap_or(self.variant.clock_off) {
                ClockOff::Reset => self.enter(h, Mode::Reset),
                ClockOff::Standby => self.enter(h, Mode::Standby),
                ClockOff::Keep => (),
            }
        }
        self.update_gptp(h.now());
        self.settle(h);
    }

    /// Level of the reset line.
    pub fn set_reset(&mut self, h: &mut dyn Host, asserted: bool) {
        self.modes.in_reset = asserted;
        if asserted {
            self.enter(h, Mode::Reset);
        }
        self.settle(h);
    }
}
