// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Clock generator `renesas,r9a07g044-cpg`, as far as the stock driver and two MACs need it.
//!
//! Three register arrays have write-enable bits in their upper half: CLK_ON at 0x500, RST at
//! 0x800, and the bus stop registers at 0xb60. Two of them have a monitor register 0x180 further
//! on, which shows the state the hardware has reached; here it is reached at once (K-drv).

/// Size of the register window, in bytes.
pub const WINDOW: u64 = 0x1_0000;

const MON: usize = 0x180;
const PLL1_CLK1: usize = 0x004;
const PLL5_STBY: usize = 0x140;
const PLL5_MON: usize = 0x15c;
const ETH_CLK_ON: usize = 0x57c;
const ETH_RST: usize = 0x87c;
const BUS_PERI_COM: usize = 0xb6c;

/// What leaves the clock generator for the two MACs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outputs {
    /// The module clock runs and the module's bus port is not stopped.
    pub clock_on: [bool; 2],
    /// The reset line is held.
    pub reset_asserted: [bool; 2],
}

/// The register file.
#[derive(Clone, Debug)]
pub struct Cpg {
    regs: Vec<u32>,
}

impl Cpg {
    /// A clock generator just powered on.
    pub fn new() -> Self {
        let mut cpg = Cpg { regs: Vec::new() };
        cpg.power_on();
        cpg
    }

    /// Back to reset values: module clocks off, module resets held (A).
    pub fn power_on(&mut self) {
        self.regs = vec![0; 0x1000 / 4];
        // 24 MHz times 50 for the CPUs, so that the clock tree shows a sane rate.
        self.regs[PLL1_CLK1 / 4] = 50 << 6 | 1;
    }

    /// Reads the 32-bit register at byte `offset`; what does not exist reads 0.
    pub fn read(&self, offset: u64) -> u32 {
        let Some(at) = usize::try_from(offset)
            .ok()
            .filter(|at| at / 4 < self.regs.len())
        else {
            return 0;
        };
        match at {
            0x680..=0x77f => self.regs[(at - MON) / 4],
            // The reset monitor shows the reset, the register shows its release.
            0x980..=0xa7f => !self.regs[(at - MON) / 4] & 0xffff,
            PLL5_MON => (self.regs[PLL5_STBY / 4] & 1) * 0x11,
            _ => self.regs[at / 4],
        }
    }

    /// Writes the 32-bit register at byte `offset`. Returns the outputs after the write.
    pub fn write(&mut self, offset: u64, val: u32) -> Outputs {
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        if let Some(reg) = self.regs.get_mut(at / 4) {
            match at {
                0x680..=0x77f | 0x980..=0xa7f | PLL5_MON => (),
                // Each low bit is written only if the bit 16 above it is set.
                PLL5_STBY | 0x200..=0x27f | 0x400..=0x5ff | 0x800..=0x8ff | 0xb60..=0xbff => {
                    let enable = val >> 16;
                    *reg = (*reg & !enable) | (val & enable);
                }
                _ => *reg = val,
            }
        }
        self.outputs()
    }

    /// The present outputs.
    pub fn outputs(&self) -> Outputs {
        let bit = |reg: usize, bit: usize| self.regs[reg / 4] >> bit & 1 != 0;
        Outputs {
            clock_on: [0, 1].map(|mac| bit(ETH_CLK_ON, mac) && !bit(BUS_PERI_COM, 2 + mac)),
            reset_asserted: [0, 1].map(|mac| !bit(ETH_RST, mac)),
        }
    }
}

impl Default for Cpg {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_stopped_and_in_reset() {
        let cpg = Cpg::new();
        let outputs = cpg.outputs();
        assert_eq!(outputs.clock_on, [false; 2]);
        assert_eq!(outputs.reset_asserted, [true; 2]);
        assert_eq!(cpg.read(0x6fc) & 3, 0);
        assert_eq!(cpg.read(0x9fc) & 3, 3);
    }

    #[test]
    fn write_enable_protects_the_other_mac() {
        let mut cpg = Cpg::new();
        assert_eq!(cpg.write(0x57c, 0x0001_0001).clock_on, [true, false]);
        assert_eq!(cpg.write(0x57c, 0x0002_0002).clock_on, [true, true]);
        assert_eq!(cpg.write(0x57c, 0x0001_0000).clock_on, [false, true]);
        assert_eq!(cpg.write(0x57c, 0x0000_0003).clock_on, [false, true]);
        assert_eq!(cpg.read(0x57c), 2);
        assert_eq!(cpg.read(0x6fc), 2);
    }

    #[test]
    fn reset_and_its_monitor() {
        let mut cpg = Cpg::new();
        assert_eq!(cpg.write(0x87c, 0x0002_0002).reset_asserted, [true, false]);
        assert_eq!(cpg.read(0x9fc) & 3, 1);
        assert_eq!(cpg.write(0x87c, 0x0002_0000).reset_asserted, [true, true]);
        assert_eq!(cpg.read(0x9fc) & 3, 3);
    }

    #[test]
    fn a_stopped_bus_port_counts_as_clock_off() {
        let mut cpg = Cpg::new();
        cpg.write(0x57c, 0x0003_0003);
        assert_eq!(cpg.write(0xb6c, 0x0004_0004).clock_on, [false, true]);
        assert_eq!(cpg.write(0xb6c, 0x0004_0000).clock_on, [true, true]);
    }

    #[test]
    fn monitors_are_read_only_and_the_window_ends() {
        let mut cpg = Cpg::new();
        cpg.write(0x6fc, 0x0003_0003);
        cpg.write(0x9fc, 0x0003_0003);
        cpg.write(u64::MAX, 1);
        assert_eq!(cpg.outputs(), Cpg::new().outputs());
        assert_eq!(cpg.read(0x1000), 0);
        assert_eq!(cpg.read(u64::MAX), 0);
    }
}
