// SPDX-License-Identifier: GPL-2.0
//! Interrupt lines (reference section 6). Status latches regardless of the enable bits; a line is
//! high while an enabled status bit routed to it is set.

use crate::host::Host;
use crate::model::Model;
use crate::regs::{bit, reg};
use crate::variant::{Lines, MAX_RX_QUEUES, MAX_TX_QUEUES};

/// Status register and its enable register.
const SOURCES: &[(u16, u16)] = &[
    (reg::DIS, reg::DIC),
    (reg::EIS, reg::EIC),
    (reg::RIS0, reg::RIC0),
    (reg::RIS1, reg::RIC1),
    (reg::RIS2, reg::RIC2),
    (reg::RIS3, reg::RIC3),
    (reg::TIS, reg::TIC),
    (reg::GIS, reg::GIC),
    (reg::ECSR, reg::ECSIPR),
];

/// First transmit line where every queue has its own.
const TX_LINES: usize = MAX_RX_QUEUES;
/// Line of descriptor interrupts where every queue has its own.
const COMMON_LINE: usize = TX_LINES + MAX_TX_QUEUES;

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
        summary(self.pending(reg::GIS, reg::GIC), bit::ISS_CGIS);
        // DPF1-15 are b1-15 in DIS and DPS1-15 are b17-31 here.
        iss | tis & 0x0f00 | self.pending(reg::DIS, reg::DIC) << 16
    }

    /// Lines with an enabled cause where every queue has its own.
    fn queue_lines(&self, split: bool) -> u32 {
        let cie = self.regs.get(reg::CIE);
        let on = |bit: u32| cie & bit != 0;
        let ris0 = self.pending(reg::RIS0, reg::RIC0);
        let ris1 = self.pending(reg::RIS1, reg::RIC1);
        let ris2 = self.pending(reg::RIS2, reg::RIC2);
        let tis = self.pending(reg::TIS, reg::TIC);
        let queue_full = ris2 & !bit::RIS2_RFFF;
        let fifo_full = ris2 & bit::RIS2_RFFF;
        let fifo_warning = ris1 & bit::RIS1_RFWF;

        let mut rx = self.pending(reg::RIS3, reg::RIC3);
        let mut tx = tis >> 16;
        if on(bit::CIE_CRIE) {
            rx |= ris0;
        }
        if on(bit::CIE_RQFM) {
            rx |= queue_full;
        }
        if on(bit::CIE_CTIE) {
            tx |= tis & 0xf;
        }
        let mut levels = rx | (tx & 0xf) << TX_LINES;

        // Descriptor interrupts, errors, management: first the A set, then the B set.
        let mut causes = [[false; 2]; 3];
        let mut route = |group: usize, bits: u32, to_b: u32| {
            causes[group][0] |= bits & !to_b != 0;
            causes[group][1] |= bits & to_b != 0;
        };
        let all = |bit: u32| if on(bit) { u32::MAX } else { 0 };
        route(0, self.pending(reg::DIS, reg::DIC), self.regs.get(reg::DIL));
        route(1, self.pending(reg::EIS, reg::EIC), self.regs.get(reg::EIL));
        route(1, fifo_full, all(bit::CIE_RFFL));
        if !on(bit::CIE_RQFM) {
            route(1, queue_full, 0);
        }
        route(2, tis & 0x0f00, self.regs.get(reg::TIL));
        route(2, fifo_warning, all(bit::CIE_RFWL));
        route(2, ris1 & !bit::RIS1_RFWF, 0);
        route(2, self.pending(reg::GIS, reg::GIC), self.regs.get(reg::GIL));
        if !on(bit::CIE_CL0M) {
            route(0, ris0 | tis & 0xf, 0);
        }
        for (group, halves) in causes.into_iter().enumerate() {
            for (half, cause) in halves.into_iter().enumerate() {
                let group = if split { group } else { 0 };
                levels |= u32::from(cause) << (COMMON_LINE + 2 * group + half);
            }
        }
        let emac = self.pending(reg::ECSR, reg::ECSIPR) != 0;
        levels | u32::from(emac) << (self.variant.irqs - 1)
    }

    /// Level of every line, the PHY's line last.
    fn line_levels(&self) -> u32 {
        let mac = match self.variant.lines {
            _ if !self.modes.clock => 0,
            Lines::Single => u32::from(SOURCES.iter().any(|(s, e)| self.pending(*s, *e) != 0)),
            Lines::PerQueue => self.queue_lines(false),
            Lines::PerQueueSplit => self.queue_lines(true),
        };
        let phy = u32::from(self.mdio.phy().irq()) << self.variant.irqs;
        mac | u32::from(self.faults.spurious_irq) | phy
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
