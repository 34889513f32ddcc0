// SPDX-License-Identifier: GPL-2.0
//! The device as a whole: its state and its entry points.

use crate::control::Control;
use crate::counters::Counters;
use crate::dmac::Dmac;
use crate::faults::Faults;
use crate::gptp::Gptp;
use crate::host::Host;
use crate::hostile::Hostile;
use crate::modes::{Mode, Modes};
use crate::phy::{Mdio, Phy, PhyConfig};
use crate::record::Record;
use crate::regs::{bit, reg, Access, RegisterFile, When};
use crate::rules::{Rule, Rules};
use crate::variant::{ClockOff, Variant, GBETH};
use crate::watch::Watch;

/// Steps of the engine one timer call may take; the rest follows in the next call.
const MAX_STEPS: usize = 4096;

/// Behaviour on which sources disagree or are silent; each field is a property of that name.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) clk_off_abort: bool,
    pub(crate) clock_off: Option<ClockOff>,
    pub(crate) boot_mac: [u8; 6],
    pub(crate) mac_survives_reset: bool,
    pub(crate) tx_limit: Option<u32>,
    pub(crate) tx_fetch_ns: u64,
    pub(crate) tx_unaligned_works: bool,
    pub(crate) qef_doorbell_restarts: bool,
    pub(crate) rx_fifo: u32,
    pub(crate) wire_backlog: u32,
    pub(crate) rx_fend_total: bool,
    pub(crate) rx_status_in_all_parts: bool,
    pub(crate) rx_ring_end_open: bool,
    pub(crate) deliver_errors: bool,
    pub(crate) control_frames_ptp_only: bool,
    pub(crate) gptp_clock: Option<u64>,
    pub(crate) timestamp_fifo: u32,
    pub(crate) timestamp_fifo_keeps_new: bool,
    pub(crate) toe_trailer_always: bool,
    pub(crate) toe_tx_every_frame: bool,
    pub(crate) toe_blocks_config: bool,
    pub(crate) watch: bool,
    pub(crate) check_tx_buffers: bool,
    pub(crate) eager_fetch: bool,
    pub(crate) trace: bool,
    pub(crate) control: bool,
    pub(crate) wire_mbps: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            clk_off_abort: false,
            clock_off: None,
            boot_mac: [0; 6],
            mac_survives_reset: false,
            tx_limit: None,
            tx_fetch_ns: 400,
            tx_unaligned_works: false,
            qef_doorbell_restarts: false,
            rx_fifo: 32 << 10,
            wire_backlog: 512 << 10,
            rx_fend_total: false,
            rx_status_in_all_parts: false,
            rx_ring_end_open: false,
            deliver_errors: false,
            control_frames_ptp_only: false,
            gptp_clock: None,
            timestamp_fifo: 7,
            timestamp_fifo_keeps_new: false,
            toe_trailer_always: true,
            toe_tx_every_frame: true,
            toe_blocks_config: true,
            watch: false,
            check_tx_buffers: false,
            eager_fetch: false,
            trace: false,
            control: false,
            wire_mbps: 0,
        }
    }
}

/// One network controller with its PHY.
#[derive(Debug)]
pub struct Model {
    pub(crate) variant: &'static Variant,
    pub(crate) regs: RegisterFile,
    pub(crate) modes: Modes,
    pub(crate) dmac: Dmac,
    pub(crate) gptp: Gptp,
    pub(crate) mdio: Mdio,
    /// Last seen levels of AVB_LINK and PHY_INT.
    pub(crate) pins: (bool, bool),
    pub(crate) irq_levels: u32,
    pub(crate) settings: Settings,
    pub(crate) faults: Faults,
    pub(crate) hostile: Hostile,
    pub(crate) rules: Rules,
    pub(crate) counters: Counters,
    pub(crate) watch: Watch,
    pub(crate) record: Record,
    pub(crate) control: Control,
    deadline: u64,
}

impl Default for Model {
    fn default() -> Self {
        Self::new()
    }
}

impl Model {
    /// A GbEth with its clock stopped and its reset asserted, as after power-on.
    pub fn new() -> Self {
        let variant = &GBETH;
        Self {
            variant,
            regs: RegisterFile::new(variant),
            modes: Modes::default(),
            dmac: Dmac::default(),
            gptp: Gptp::default(),
            mdio: Mdio::new(Phy::new(PhyConfig::default())),
            pins: (false, false),
            irq_levels: 0,
            settings: Settings::default(),
            faults: Faults::default(),
            hostile: Hostile::default(),
            rules: Rules::default(),
            counters: Counters::new(variant.irqs + 1),
            watch: Watch::default(),
            record: Record::default(),
            control: Control::default(),
            deadline: u64::MAX,
        }
    }

    /// Turns the device into another member of the family. Only before the machine runs.
    pub(crate) fn set_variant(&mut self, variant: &'static Variant) {
        self.variant = variant;
        self.regs = RegisterFile::new(variant);
        self.counters = Counters::new(variant.irqs + 1);
    }

    /// Size of the register window in bytes.
    pub fn window(&self) -> u64 {
        self.variant.window
    }

    /// Number of MAC interrupt lines. The PHY's interrupt is the line with this number.
    pub fn irqs(&self) -> usize {
        self.variant.irqs
    }

    /// True if a register access would now end in a bus error (property `clk-off=abort`).
    pub fn access_aborts(&self) -> bool {
        self.settings.clk_off_abort && !self.modes.clock
    }

    /// Present operating mode.
    pub fn mode(&self) -> Mode {
        self.modes.current
    }

    /// Breaches of one rule so far.
    pub fn violations(&self, rule: Rule) -> u64 {
        self.rules.count(rule)
    }

    /// Counts and logs a broken rule; not while the device itself keeps none.
    pub(crate) fn broken(&mut self, h: &mut dyn Host, rule: Rule, detail: &str) {
        if self.hostile.is_on() {
            return;
        }
        if let Some(line) = self.rules.broken(rule, detail) {
            h.log(&line);
        }
    }

    /// A host is there now (or another one): it has not yet heard of lines and deadlines.
    pub fn attached(&mut self, h: &mut dyn Host) {
        self.irq_levels = 0;
        self.deadline = u64::MAX;
        self.settle(h);
    }

    /// Common end of every entry point: what follows from the new state.
    pub(crate) fn settle(&mut self, h: &mut dyn Host) {
        let now = h.now();
        if self.mdio.phy().next_deadline() == Some(0) {
            self.mdio.phy_mut().tick(now);
        }
        self.start_tx(now);
        self.sample_pins();
        self.try_mode_change(h);
        self.update_irqs(h);
        let deadline = self.next_deadline();
        if deadline != self.deadline {
            self.deadline = deadline;
            h.arm_timer(deadline);
        }
    }

    fn next_deadline(&self) -> u64 {
        let phy = self.mdio.phy().next_deadline().unwrap_or(u64::MAX);
        self.dmac_deadline()
            .min(self.gptp_deadline())
            .min(phy)
            .min(self.stream_deadline())
            .min(self.hostile_deadline())
    }

    /// The time asked for has come.
    pub fn timer(&mut self, h: &mut dyn Host) {
        let now = h.now();
        self.deadline = u64::MAX;
        for _ in 0..MAX_STEPS {
            let due = self.next_deadline();
            if due > now {
                break;
            }
            // A step happens at its own time, however late the call: the wire never idles.
            let t = if due == 0 { now } else { due };
            self.mdio.phy_mut().tick(t);
            self.run_gptp(t);
            self.run_rx(h, t);
            self.run_stream(h, t);
            self.run_tx(h, t);
            self.run_hostile(h, t);
            self.sample_pins();
            self.try_mode_change(h);
        }
        self.settle(h);
    }

    /// False if the access is lost because clock or reset do not allow it.
    fn access_allowed(&mut self, h: &mut dyn Host, what: &str, offset: u64) -> bool {
        let rule = if !self.modes.clock {
            Rule::ClockOffAccess
        } else if self.modes.in_reset {
            Rule::InResetAccess
        } else {
            self.modes.accessed = h.now();
            return true;
        };
        let detail = format!("{what} {}", self.regs.name(offset));
        self.broken(h, rule, &detail);
        false
    }

    /// Notes an access where a user asked for it.
    fn observe(&mut self, h: &mut dyn Host, is_write: bool, offset: u64, value: u32) {
        if !self.record.on && !self.settings.trace {
            return;
        }
        let name = self.regs.name(offset);
        if self.settings.trace {
            let what = if is_write { "write" } else { "read" };
            let now = h.now();
            h.log(&format!("{now} {what} {name} = {value:#x}"));
        }
        self.record.add(is_write, offset, name, value);
    }

    /// A 32-bit read at byte offset `offset` of the window.
    pub fn read(&mut self, h: &mut dyn Host, offset: u64) -> u32 {
        self.counters.mmio(offset, false);
        if !self.access_allowed(h, "read", offset) {
            return 0;
        }
        let Some(register) = self.regs.lookup(offset) else {
            self.broken(h, Rule::UnmappedAccess, &format!("read {offset:#x}"));
            return 0;
        };
        let offset = offset as u16;
        let index = (offset - register.offset) / 4;
        let value = match register.offset {
            reg::CSR => {
                let value = self.read_csr(h);
                self.settle(h);
                value
            }
            reg::CDAR0 => self.dmac.current_descriptor(index.into()),
            reg::CIAR0 => self.dmac.incremental_address(index.into()),
            reg::UFCD0 => 0,
            reg::TCCR => self.regs.get(offset) | self.dmac.tx.requests(),
            reg::TSR => self.read_tsr(),
            reg::TFA0 => self.read_tfa(index),
            reg::EIS => self.read_eis(),
            reg::ISS => self.read_iss(),
            reg::PIR => self.read_pir(h),
            reg::PSR => self.read_psr(),
            reg::CSR0 => self.read_csr0(),
            _ => self.regs.get(offset),
        };
        if register.access == Access::Counter && self.counters_clear_on_read() {
            self.regs.set(offset, 0);
        }
        self.observe(h, false, offset.into(), value);
        value
    }

    fn counters_clear_on_read(&self) -> bool {
        self.regs.get(reg::ECMR) & bit::ECMR_TRCCM != 0
    }

    /// A 32-bit write at byte offset `offset` of the window.
    pub fn write(&mut self, h: &mut dyn Host, offset: u64, value: u32) {
        self.counters.mmio(offset, true);
        if !self.access_allowed(h, "write", offset) {
            return;
        }
        self.observe(h, true, offset, value);
        let Some(register) = self.regs.lookup(offset) else {
            self.broken(
                h,
                Rule::UnmappedAccess,
                &format!("write {offset:#x} value {value:#x}"),
            );
            return;
        };
        let offset = offset as u16;
        if self.modes.pending() && offset != reg::CCC {
            let name = self.regs.name(offset.into());
            self.broken(
                h,
                Rule::ModeChangeNotAwaited,
                &format!("{name} = {value:#x}"),
            );
        }
        if let Some(rule) = self.write_breaks(offset, value) {
            let mode = self.modes.current;
            let name = self.regs.name(offset.into());
            self.broken(h, rule, &format!("{name} = {value:#x} in {mode:?}"));
            if rule != Rule::ReservedBit && rule != Rule::Cxr35NotFirst {
                return;
            }
        }
        self.modes.cxr35_written |= offset == reg::CXR35;
        let masked = value & register.writable;
        let old = self.regs.get(offset);
        match register.access {
            Access::ReadOnly => (),
            Access::ReadWrite => self.write_plain(h, offset, masked),
            Access::WriteZeroClears => self.regs.set(offset, old & value),
            Access::WriteOneClears => self.regs.set(offset, old & !masked),
            Access::Sets(target) => {
                self.regs.raise(target, masked);
            }
            Access::Clears(target) => self.regs.set(target, self.regs.get(target) & !masked),
            Access::Counter if !self.counters_clear_on_read() => self.regs.set(offset, 0),
            Access::Counter => (),
        }
        if offset == reg::EIS && self.regs.get(reg::EIS) & bit::EIS_QEF == 0 {
            // The details go with the error they belong to (A).
            self.regs.set(reg::ESR, 0);
        }
        self.settle(h);
    }

    /// The rule a write breaks, if any; the first in order of weight.
    fn write_breaks(&self, offset: u16, value: u32) -> Option<Rule> {
        let register = self.regs.lookup(offset.into())?;
        let emac = (0x500..0x800).contains(&offset) && offset != reg::PIR;
        let has_cxr35 = self.regs.lookup(reg::CXR35.into()).is_some();
        let engine_on = |bit| self.read_csr0() & bit != 0;
        let allowed = match register.when {
            When::Always => true,
            When::Running => self.modes.current != Mode::Reset,
            When::Config => self.modes.current == Mode::Config,
        };
        if register.access == Access::ReadOnly {
            Some(Rule::ReadOnlyWrite)
        } else if !allowed {
            Some(Rule::WrongModeWrite)
        } else if offset == reg::CSR1 && engine_on(bit::CSR0_TPE) {
            Some(Rule::Csr1WhileTpe)
        } else if offset == reg::CSR2 && engine_on(bit::CSR0_RPE) {
            Some(Rule::Csr2WhileRpe)
        } else if emac && has_cxr35 && offset != reg::CXR35 && !self.modes.cxr35_written {
            Some(Rule::Cxr35NotFirst)
        } else if value & register.reserved() != 0 {
            Some(Rule::ReservedBit)
        } else {
            None
        }
    }

    fn write_plain(&mut self, h: &mut dyn Host, offset: u16, value: u32) {
        match offset {
            reg::CCC => self.write_ccc(h, value),
            reg::DLR => self.write_dlr(value),
            reg::TCCR => self.write_tccr(h, value),
            reg::GCCR => self.write_gccr(h, value),
            reg::SFL => self.load_stream_filter(value),
            reg::PIR => self.write_pir(h, value),
            _ if (reg::UFCD0..reg::UFCD0 + 20).contains(&offset) => {
                self.write_ufcd((offset - reg::UFCD0) / 4, value);
            }
            _ => self.regs.set(offset, value),
        }
    }

    /// An access that is not 32 bits wide or not aligned.
    pub fn bad_access(&mut self, h: &mut dyn Host, offset: u64, size: u32, is_write: bool) {
        let what = if is_write { "write" } else { "read" };
        self.broken(
            h,
            Rule::BadAccess,
            &format!("{what} of {size} bytes at {offset:#x}"),
        );
    }
}
