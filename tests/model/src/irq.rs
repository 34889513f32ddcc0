// SPDX-License-Identifier: GPL-2.0
//! Interrupt lines (reference section 6). Status latches regardless of the enable bits; a line is
//! high while an enabled status bit routed to it is set.

use crate::host::Host;
use crate::model::Model;
use crate::regs::{bit, reg};

/// Status register and its enable register.
const SOURCES: &[(u16, u16)] = &[
    (reg::DIS, reg::DIC),
    (reg::EIS, reg::EIC),
    (reg::RIS0, reg::RIC0),
    (reg::RIS1, reg::RIC1),
    (reg::RIS2, reg::RIC2),
    (reg::RIS3, reg::RIC3),
    (reg::TIS, reg::TIC),
    (reg::ECSR, reg::ECSIPR),
];

impl Model {
    fn pending(&self, status: u16, enable: u16) -> u32 {
        self.regs.get(status) & self.regs.get(enable)
    }

    /// EIS with its summary bit: QFS is not stored, it follows RIS2 (A).
    pub(crate) fn read_eis(&self) -> u32 {
        let queue_full = if self.regs.get(reg::RIS2) != 0 {
            bit::EIS_QFS
        } else {
            0
        };
        self.regs.get(reg::EIS) | queue_full
    }

    /// ISS: summary of the enabled causes (A; "mirror" in K-qnx).
    pub(crate) fn read_iss(&self) -> u32 {
        let ris1 = self.pending(reg::RIS1, reg::RIC1);
        let tis = self.pending(reg::TIS, reg::TIC);
        let errors = self.pending(reg::EIS, reg::EIC) | self.pending(reg::RIS2, reg::RIC2);
        let mut iss = 0;
        let mut summary = |bits: u32, summary: u32| {
            if bits != 0 {
                iss |= summary;
            }
        };
        summary(self.pending(reg::RIS0, reg::RIC0), bit::ISS_FRS);
        summary(ris1 & !bit::RIS1_RFWF, bit::ISS_RWS);
        summary(ris1 & bit::RIS1_RFWF, bit::ISS_RFWS);
        summary(tis & 0xf, bit::ISS_FTS);
        summary(errors, bit::ISS_ES);
        summary(self.pending(reg::ECSR, reg::ECSIPR), bit::ISS_MS);
        // DPF1-15 are b1-15 in DIS and DPS1-15 are b17-31 here.
        iss | tis & 0x0f00 | self.pending(reg::DIS, reg::DIC) << 16
    }

    /// Level of every line, the PHY's line last.
    fn line_levels(&self) -> u32 {
        let any = SOURCES
            .iter()
            .any(|(status, enable)| self.pending(*status, *enable) != 0);
        let mac = any && self.modes.clock || self.faults.spurious_irq;
        u32::from(mac) | u32::from(self.mdio.phy().irq()) << self.variant.irqs
    }

    pub(crate) fn update_irqs(&mut self, h: &mut dyn Host) {
        let levels = self.line_levels();
        let changed = levels ^ self.irq_levels;
        self.irq_levels = levels;
        for line in (0..=self.variant.irqs).filter(|line| changed >> line & 1 != 0) {
            let level = levels >> line & 1 != 0;
            if level {
                self.counters.irq_edges[line] += 1;
            }
            h.set_irq(line, level);
        }
    }
}
