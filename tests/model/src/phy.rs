// SPDX-License-Identifier: GPL-2.0 OR MIT
//! The management bus and the one PHY on it: a KSZ9131 as the stock `micrel` driver sees it,
//! which also satisfies the generic PHY driver.

use std::collections::BTreeMap;

/// What two link partners agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// 10, 100 or 1000 Mbit/s.
    pub mbps: u32,
    /// Full duplex.
    pub full_duplex: bool,
}

/// The other end of the cable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partner {
    /// It negotiates, and offers every mode up to the one below; otherwise it is forced to it.
    pub autoneg: bool,
    /// 10, 100 or 1000 Mbit/s.
    pub mbps: u32,
    /// Full duplex; without it, no full-duplex mode is offered.
    pub full_duplex: bool,
    /// Offers symmetric pause.
    pub pause: bool,
    /// Offers asymmetric pause.
    pub asym_pause: bool,
}

/// How the PHY is strapped and what it is connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhyConfig {
    /// Without a PHY the bus reads all ones, and the link (to a switch, say) follows the cable.
    pub present: bool,
    /// Registers 2 and 3.
    pub id: u32,
    /// Address on the bus, 0 to 31.
    pub address: u8,
    /// How long it takes to bring a link up, in nanoseconds.
    pub autoneg_ns: u64,
    /// The cable is plugged in.
    pub cable: bool,
    /// The other end.
    pub partner: Partner,
}

impl Default for PhyConfig {
    /// KSZ9131 at address 7, as on the RZ SMARC boards (K-dt), at a gigabit switch.
    fn default() -> Self {
        PhyConfig {
            present: true,
            id: 0x0022_1640,
            address: 7,
            autoneg_ns: 100_000_000,
            cable: true,
            partner: Partner {
                autoneg: true,
                mbps: 1000,
                full_duplex: true,
                pause: true,
                asym_pause: false,
            },
        }
    }
}

// Registers and bits of IEEE 802.3 clause 22.
const BMCR: u8 = 0;
const BMCR_RESET: u16 = 1 << 15;
const BMCR_LOOPBACK: u16 = 1 << 14;
const BMCR_SPEED100: u16 = 1 << 13;
const BMCR_ANENABLE: u16 = 1 << 12;
const BMCR_PDOWN: u16 = 1 << 11;
const BMCR_ANRESTART: u16 = 1 << 9;
const BMCR_FULLDPLX: u16 = 1 << 8;
const BMCR_SPEED1000: u16 = 1 << 6;
const BMSR: u8 = 1;
/// 10 and 100 Mbit/s in both duplex modes, extended status, preamble not needed, negotiates.
const BMSR_ABILITIES: u16 = 0x7949;
const BMSR_ANEGCOMPLETE: u16 = 1 << 5;
const BMSR_LSTATUS: u16 = 1 << 2;
const PHYSID1: u8 = 2;
const PHYSID2: u8 = 3;
const ADVERTISE: u8 = 4;
const LPA: u8 = 5;
const ADVERTISE_CSMA: u16 = 1;
const ADVERTISE_10HALF: u16 = 1 << 5;
const ADVERTISE_10FULL: u16 = 1 << 6;
const ADVERTISE_100HALF: u16 = 1 << 7;
const ADVERTISE_100FULL: u16 = 1 << 8;
const ADVERTISE_PAUSE: u16 = 1 << 10;
const ADVERTISE_ASYM: u16 = 1 << 11;
const LPA_ACK: u16 = 1 << 14;
const EXPANSION: u8 = 6;
const CTRL1000: u8 = 9;
const CTRL1000_FULL: u16 = 1 << 9;
const CTRL1000_HALF: u16 = 1 << 8;
const STAT1000: u8 = 10;
const STAT1000_RX_OK: u16 = 3 << 12;
const STAT1000_LP_FULL: u16 = 1 << 11;
const STAT1000_LP_HALF: u16 = 1 << 10;
const MMD_CONTROL: u8 = 13;
const MMD_DATA: u8 = 14;
const ESTATUS: u8 = 15;
const ESTATUS_1000T: u16 = 3 << 12;
// Registers of the KSZ9131, as the stock driver uses them.
const AXAN_STATUS: u8 = 0x14;
/// Link detected, pairs not swapped.
const AXAN_LINK_MDI: u16 = 1 << 14 | 1 << 12;
/// Interrupt enables in the upper half, their causes 8 bits below; reading clears the causes.
const INTCS: u8 = 0x1b;
const INT_LINK_UP: u16 = 1 << 0;
const INT_LINK_DOWN: u16 = 1 << 2;

/// A mode as a bit, so that abilities are sets. Higher bits are preferred.
type Modes = u8;
const M10_HALF: Modes = 1 << 0;
const M10_FULL: Modes = 1 << 1;
const M100_HALF: Modes = 1 << 2;
const M100_FULL: Modes = 1 << 3;
const M1000_HALF: Modes = 1 << 4;
const M1000_FULL: Modes = 1 << 5;
const FULL: Modes = M10_FULL | M100_FULL | M1000_FULL;

const BASE_PAGE: [(u16, Modes); 4] = [
    (ADVERTISE_10HALF, M10_HALF),
    (ADVERTISE_10FULL, M10_FULL),
    (ADVERTISE_100HALF, M100_HALF),
    (ADVERTISE_100FULL, M100_FULL),
];

fn mode(link: Link) -> Modes {
    let half = match link.mbps {
        1000 => M1000_HALF,
        100 => M100_HALF,
        _ => M10_HALF,
    };
    half << u8::from(link.full_duplex)
}

fn best(modes: Modes) -> Option<Link> {
    let top = 7u32.checked_sub(modes.leading_zeros())?;
    Some(Link {
        mbps: 10u32.pow(1 + top / 2),
        full_duplex: top % 2 == 1,
    })
}

impl Partner {
    fn link(self) -> Link {
        Link {
            mbps: self.mbps,
            full_duplex: self.full_duplex,
        }
    }

    fn modes(self) -> Modes {
        let top = mode(Link {
            mbps: self.mbps,
            full_duplex: true,
        });
        let up_to = top | (top - 1);
        if self.full_duplex {
            up_to
        } else {
            up_to & !FULL
        }
    }

    fn base_page(self) -> u16 {
        let modes = BASE_PAGE.iter().filter(|(_, m)| self.modes() & m != 0);
        let pause = [
            (self.pause, ADVERTISE_PAUSE),
            (self.asym_pause, ADVERTISE_ASYM),
        ];
        modes.fold(ADVERTISE_CSMA | LPA_ACK, |page, (bit, _)| page | bit)
            | pause
                .iter()
                .filter(|(on, _)| *on)
                .fold(0, |page, (_, bit)| page | bit)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// No cable, or powered down.
    Down,
    /// A register write started negotiation; the next tick knows the time.
    Starting,
    Negotiating {
        until: u64,
    },
    /// Nothing in common. Stays so until something changes.
    Failed,
    Up(Link),
}

/// The PHY.
#[derive(Clone, Debug)]
pub struct Phy {
    config: PhyConfig,
    regs: [u16; 32],
    mmd: BTreeMap<(u16, u16), u16>,
    mmd_addr: u16,
    state: State,
    /// BMSR.LSTATUS reads 0 once after the link was lost.
    link_lost: bool,
}

impl Phy {
    /// A PHY just powered on.
    pub fn new(config: PhyConfig) -> Self {
        let mut phy = Phy {
            config,
            regs: [0; 32],
            mmd: BTreeMap::new(),
            mmd_addr: 0,
            state: State::Down,
            link_lost: false,
        };
        phy.power_on();
        phy
    }

    /// Back to reset values, as by power or by its reset pin.
    pub fn power_on(&mut self) {
        self.soft_reset();
        self.regs[usize::from(INTCS)] = 0;
        self.mmd.clear();
    }

    /// How it is strapped and connected.
    pub fn config(&self) -> &PhyConfig {
        &self.config
    }

    fn reg(&mut self, reg: u8) -> &mut u16 {
        &mut self.regs[usize::from(reg)]
    }

    fn soft_reset(&mut self) {
        let intcs = self.regs[usize::from(INTCS)];
        self.regs = [0; 32];
        *self.reg(INTCS) = intcs;
        *self.reg(BMCR) = BMCR_ANENABLE | BMCR_FULLDPLX | BMCR_SPEED1000;
        *self.reg(ADVERTISE) = BASE_PAGE
            .iter()
            .fold(ADVERTISE_CSMA, |page, (bit, _)| page | bit);
        *self.reg(CTRL1000) = CTRL1000_FULL | CTRL1000_HALF;
        self.restart();
    }

    /// Drops the link and starts over.
    fn restart(&mut self) {
        if matches!(self.state, State::Up(_)) {
            self.link_lost = true;
            *self.reg(INTCS) |= INT_LINK_DOWN;
        }
        let powered = *self.reg(BMCR) & BMCR_PDOWN == 0;
        self.state = if self.config.cable && powered {
            State::Starting
        } else {
            State::Down
        };
    }

    fn advertised(&self) -> Modes {
        let base = self.regs[usize::from(ADVERTISE)];
        let gigabit = self.regs[usize::from(CTRL1000)];
        [(CTRL1000_HALF, M1000_HALF), (CTRL1000_FULL, M1000_FULL)]
            .iter()
            .filter(|(bit, _)| gigabit & bit != 0)
            .chain(BASE_PAGE.iter().filter(|(bit, _)| base & bit != 0))
            .fold(0, |modes, (_, m)| modes | m)
    }

    fn negotiates(&self) -> bool {
        self.regs[usize::from(BMCR)] & BMCR_ANENABLE != 0
    }

    fn forced(&self) -> Link {
        let bmcr = self.regs[usize::from(BMCR)];
        let mbps = match (bmcr & BMCR_SPEED1000 != 0, bmcr & BMCR_SPEED100 != 0) {
            (true, _) => 1000,
            (false, true) => 100,
            (false, false) => 10,
        };
        Link {
            mbps,
            full_duplex: bmcr & BMCR_FULLDPLX != 0,
        }
    }

    /// What this end ends up with.
    fn resolve(&self) -> Option<Link> {
        let partner = self.config.partner;
        match (self.negotiates(), partner.autoneg) {
            (true, true) => best(self.advertised() & partner.modes()),
            // Parallel detection finds the speed of a forced partner and assumes half duplex.
            (true, false) => {
                let seen = Link {
                    mbps: partner.mbps,
                    full_duplex: false,
                };
                (partner.mbps < 1000 && self.advertised() & mode(seen) != 0).then_some(seen)
            }
            // A negotiating partner detects us the same way; 1000BASE-T needs negotiation.
            (false, true) => {
                let forced = self.forced();
                let detected = Link {
                    full_duplex: false,
                    ..forced
                };
                (forced.mbps < 1000 && partner.modes() & mode(detected) != 0).then_some(forced)
            }
            (false, false) => {
                let forced = self.forced();
                (forced.mbps < 1000 && forced.mbps == partner.mbps).then_some(forced)
            }
        }
    }

    /// Lets virtual time (nanoseconds) pass up to `now`.
    pub fn tick(&mut self, now: u64) {
        match self.state {
            State::Starting => {
                self.state = State::Negotiating {
                    until: now.saturating_add(self.config.autoneg_ns),
                };
            }
            State::Negotiating { until } if until <= now => match self.resolve() {
                Some(link) => {
                    self.state = State::Up(link);
                    *self.reg(INTCS) |= INT_LINK_UP;
                }
                None => self.state = State::Failed,
            },
            _ => (),
        }
    }

    /// When [`Phy::tick`] has something to do. 0 means at once: a register write started
    /// something, and the PHY has yet to learn what time it is.
    pub fn next_deadline(&self) -> Option<u64> {
        match self.state {
            State::Starting => Some(0),
            State::Negotiating { until } => Some(until),
            _ => None,
        }
    }

    /// Plugs the cable in or out.
    pub fn set_cable(&mut self, now: u64, up: bool) {
        if self.config.cable != up {
            self.config.cable = up;
            self.restart();
            self.tick(now);
        }
    }

    /// Changes the other end, which drops the link.
    pub fn set_partner(&mut self, now: u64, partner: Partner) {
        self.config.partner = partner;
        self.restart();
        self.tick(now);
    }

    /// The link between this PHY and its partner. Without a PHY, what is wired instead.
    pub fn link(&self) -> Option<Link> {
        match self.state {
            _ if !self.config.present => self.config.cable.then(|| self.config.partner.link()),
            State::Up(link) => Some(link),
            _ => None,
        }
    }

    /// BMCR.LOOPBACK: what the MAC sends comes back to it, and nothing reaches the cable.
    pub fn loopback(&self) -> bool {
        self.config.present && self.regs[usize::from(BMCR)] & BMCR_LOOPBACK != 0
    }

    /// The interrupt output is asserted.
    pub fn irq(&self) -> bool {
        let intcs = self.regs[usize::from(INTCS)];
        self.config.present && intcs >> 8 & intcs & 0xff != 0
    }

    /// Reads register `reg` (0 to 31) as the bus does: some reads have effects.
    pub fn read(&mut self, reg: u8) -> u16 {
        // In loopback the PHY is its own partner (K-drv: micrel waits for the link).
        let up = matches!(self.state, State::Up(_)) || self.loopback();
        let negotiated = up && self.negotiates() && self.config.partner.autoneg;
        let partner = self.config.partner;
        match reg {
            BMSR => {
                let mut bmsr = BMSR_ABILITIES;
                if up && !std::mem::take(&mut self.link_lost) {
                    bmsr |= BMSR_LSTATUS;
                }
                if up && self.negotiates() {
                    bmsr |= BMSR_ANEGCOMPLETE;
                }
                bmsr
            }
            PHYSID1 => (self.config.id >> 16) as u16,
            PHYSID2 => self.config.id as u16,
            LPA if negotiated => partner.base_page(),
            LPA if up && self.negotiates() => BASE_PAGE
                .iter()
                .find(|(_, m)| Some(*m) == self.resolve().map(mode))
                .map_or(0, |(bit, _)| *bit),
            EXPANSION => u16::from(negotiated),
            STAT1000 if negotiated => {
                let modes = partner.modes();
                let offers = [
                    (M1000_HALF, STAT1000_LP_HALF),
                    (M1000_FULL, STAT1000_LP_FULL),
                ];
                let base = if partner.mbps == 1000 {
                    STAT1000_RX_OK
                } else {
                    0
                };
                offers
                    .iter()
                    .filter(|(m, _)| modes & m != 0)
                    .fold(base, |stat, (_, bit)| stat | bit)
            }
            LPA | STAT1000 => 0,
            ESTATUS => ESTATUS_1000T,
            AXAN_STATUS if up => AXAN_LINK_MDI,
            AXAN_STATUS => 0,
            INTCS => {
                let intcs = *self.reg(INTCS);
                *self.reg(INTCS) &= 0xff00;
                intcs
            }
            MMD_DATA => {
                let key = (*self.reg(MMD_CONTROL) & 0x1f, self.mmd_addr);
                match *self.reg(MMD_CONTROL) >> 14 {
                    0 => self.mmd_addr,
                    function => {
                        if function == 2 {
                            self.mmd_addr = self.mmd_addr.wrapping_add(1);
                        }
                        self.mmd.get(&key).copied().unwrap_or(0)
                    }
                }
            }
            _ => self.regs.get(usize::from(reg)).copied().unwrap_or(0xffff),
        }
    }

    /// Writes register `reg` (0 to 31) as the bus does.
    pub fn write(&mut self, reg: u8, val: u16) {
        match reg {
            BMCR if val & BMCR_RESET != 0 => self.soft_reset(),
            BMCR => {
                let old = std::mem::replace(self.reg(BMCR), val & !BMCR_ANRESTART);
                let link_bits =
                    BMCR_ANENABLE | BMCR_PDOWN | BMCR_SPEED100 | BMCR_SPEED1000 | BMCR_FULLDPLX;
                let changed = if val & old & BMCR_ANENABLE != 0 {
                    // Speed and duplex bits mean nothing while the PHY negotiates.
                    (old ^ val) & BMCR_PDOWN
                } else {
                    (old ^ val) & link_bits
                };
                if changed != 0 || val & BMCR_ANRESTART != 0 {
                    self.restart();
                }
            }
            BMSR | PHYSID1 | PHYSID2 | LPA | EXPANSION | STAT1000 | ESTATUS | AXAN_STATUS => (),
            INTCS => *self.reg(INTCS) = (*self.reg(INTCS) & 0x00ff) | (val & 0xff00),
            MMD_DATA => match *self.reg(MMD_CONTROL) >> 14 {
                0 => self.mmd_addr = val,
                function => {
                    let key = (*self.reg(MMD_CONTROL) & 0x1f, self.mmd_addr);
                    self.mmd.insert(key, val);
                    if function >= 2 {
                        self.mmd_addr = self.mmd_addr.wrapping_add(1);
                    }
                }
            },
            _ => {
                if let Some(reg) = self.regs.get_mut(usize::from(reg)) {
                    *reg = val;
                }
            }
        }
    }
}

// Bits of the MAC's PHY interface register PIR (K-drv).
const PIR_MDC: u32 = 1 << 0;
const PIR_MMD: u32 = 1 << 1;
const PIR_MDO: u32 = 1 << 2;

/// Where the slave is in a management frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Frame {
    /// Between frames; the flag says that the start bit 0 was seen.
    Idle { started: bool },
    /// Operation, PHY and register address: 12 bits, collected from the left.
    Header { bits: u16, left: u8 },
    /// Turn-around, then data from the PHY, most significant bit first.
    Read { data: u32, left: u8 },
    /// Turn-around and data to the PHY: 18 bits.
    Write { reg: u8, bits: u32, left: u8 },
    /// Somebody else's frame.
    Skip { left: u8 },
}

/// The slave side of the bit-banged bus behind PIR.
#[derive(Clone, Debug)]
pub struct Mdio {
    phy: Phy,
    frame: Frame,
    pir: u32,
    /// What the PHY puts on the line; a pull-up holds it otherwise.
    driven: Option<bool>,
}

impl Mdio {
    /// A bus with one PHY.
    pub fn new(phy: Phy) -> Self {
        Mdio {
            phy,
            frame: Frame::Idle { started: false },
            pir: 0,
            driven: None,
        }
    }

    /// The PHY.
    pub fn phy(&self) -> &Phy {
        &self.phy
    }

    /// The PHY, to change it.
    pub fn phy_mut(&mut self) -> &mut Phy {
        &mut self.phy
    }

    /// The MAC wrote PIR. The PHY samples the line at the rising edge of MDC, and drives its next
    /// bit from then on.
    pub fn write_pir(&mut self, pir: u32) {
        let rising = pir & !self.pir & PIR_MDC != 0;
        self.pir = pir;
        if rising {
            let sampled = if pir & PIR_MMD != 0 {
                pir & PIR_MDO != 0
            } else {
                self.driven.unwrap_or(true)
            };
            self.clock(sampled);
        }
    }

    /// The level of the line, PIR.MDI.
    pub fn mdi(&self) -> bool {
        if self.pir & PIR_MMD != 0 {
            self.pir & PIR_MDO != 0
        } else {
            self.driven.unwrap_or(true)
        }
    }

    fn clock(&mut self, bit: bool) {
        self.driven = None;
        self.frame = match self.frame {
            Frame::Idle { started: false } => Frame::Idle { started: !bit },
            Frame::Idle { started: true } if bit => Frame::Header { bits: 0, left: 12 },
            // Clause 45: the same length, nothing this PHY answers.
            Frame::Idle { started: true } => Frame::Skip { left: 30 },
            Frame::Header { bits, left } => {
                let bits = bits << 1 | u16::from(bit);
                if left > 1 {
                    Frame::Header {
                        bits,
                        left: left - 1,
                    }
                } else {
                    self.header(bits)
                }
            }
            Frame::Read { left: 0, .. } => Frame::Idle { started: false },
            Frame::Read { data, left } => {
                self.driven = Some(data >> (left - 1) & 1 != 0);
                Frame::Read {
                    data,
                    left: left - 1,
                }
            }
            Frame::Write { reg, bits, left } => {
                let bits = bits << 1 | u32::from(bit);
                if left > 1 {
                    Frame::Write {
                        reg,
                        bits,
                        left: left - 1,
                    }
                } else {
                    self.phy.write(reg, bits as u16);
                    Frame::Idle { started: false }
                }
            }
            Frame::Skip { left } if left > 1 => Frame::Skip { left: left - 1 },
            Frame::Skip { .. } => Frame::Idle { started: false },
        };
    }

    fn header(&mut self, bits: u16) -> Frame {
        let operation = bits >> 10;
        let address = (bits >> 5 & 0x1f) as u8;
        let reg = (bits & 0x1f) as u8;
        let config = self.phy.config();
        if !config.present || address != config.address {
            return Frame::Skip { left: 18 };
        }
        match operation {
            // The first of 17 bits is the 0 of the turn-around.
            0b10 => Frame::Read {
                data: u32::from(self.phy.read(reg)),
                left: 17,
            },
            0b01 => Frame::Write {
                reg,
                bits: 0,
                left: 18,
            },
            _ => Frame::Skip { left: 18 },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A bit-bang master with the timing of the stock kernel's.
    struct Master(Mdio);

    impl Master {
        fn new(config: PhyConfig) -> Self {
            Master(Mdio::new(Phy::new(config)))
        }

        fn send(&mut self, value: u32, bits: u32) {
            for i in (0..bits).rev() {
                let data = PIR_MMD | if value >> i & 1 != 0 { PIR_MDO } else { 0 };
                self.0.write_pir(data);
                self.0.write_pir(data | PIR_MDC);
                self.0.write_pir(data);
            }
        }

        fn get(&mut self) -> u32 {
            self.0.write_pir(0);
            self.0.write_pir(PIR_MDC);
            self.0.write_pir(0);
            u32::from(self.0.mdi())
        }

        fn read(&mut self, phy: u32, reg: u8) -> Option<u16> {
            self.send(u32::MAX, 32);
            self.send(0b0110 << 10 | phy << 5 | u32::from(reg), 14);
            if self.get() != 0 {
                for _ in 0..32 {
                    self.get();
                }
                return None;
            }
            let value = (0..16).fold(0, |v, _| v << 1 | self.get());
            self.get();
            Some(value as u16)
        }

        fn write(&mut self, phy: u32, reg: u8, value: u16) {
            self.send(u32::MAX, 32);
            self.send(0b0101 << 10 | phy << 5 | u32::from(reg), 14);
            self.send(0b10 << 16 | u32::from(value), 18);
            self.get();
        }

        fn r(&mut self, reg: u8) -> u16 {
            self.read(7, reg).expect("the PHY answers")
        }

        fn w(&mut self, reg: u8, value: u16) {
            self.write(7, reg, value);
        }

        fn run_to(&mut self, now: u64) {
            let phy = self.0.phy_mut();
            phy.tick(now);
            while phy.next_deadline().is_some_and(|at| at <= now) {
                phy.tick(now);
            }
        }
    }

    const DELAY: u64 = 100_000_000;

    fn up() -> Master {
        let mut m = Master::new(PhyConfig::default());
        m.run_to(0);
        m.run_to(DELAY);
        m
    }

    fn gigabit() -> Option<Link> {
        Some(Link {
            mbps: 1000,
            full_duplex: true,
        })
    }

    #[test]
    fn answers_at_its_address_only() {
        let mut m = up();
        for phy in 0..32 {
            let id = m.read(phy, PHYSID1);
            assert_eq!(id, (phy == 7).then_some(0x0022), "address {phy}");
        }
        assert_eq!(m.r(PHYSID2), 0x1640);
        m.write(6, ADVERTISE, 0);
        assert_ne!(m.r(ADVERTISE), 0);
    }

    #[test]
    fn an_absent_phy_reads_ones_and_its_link_is_wired() {
        let mut m = Master::new(PhyConfig {
            present: false,
            ..PhyConfig::default()
        });
        assert_eq!(m.read(7, PHYSID1), None);
        assert!(m.0.mdi());
        assert_eq!(m.0.phy().link(), gigabit());
        m.0.phy_mut().set_cable(0, false);
        assert_eq!(m.0.phy().link(), None);
    }

    #[test]
    fn every_value_survives_the_bus() {
        let mut m = up();
        for value in [0, 1, 0x8000, 0xa5a5, 0x5a5a, 0xfffe, 0xffff] {
            m.w(0x1e, value);
            assert_eq!(m.r(0x1e), value);
        }
    }

    #[test]
    fn clause_45_frames_are_ignored() {
        let mut m = up();
        m.send(u32::MAX, 32);
        m.send(7 << 5 | 3, 14);
        // Data that looks like a clause-22 frame writing BMCR.
        m.send(0b10 << 16 | 0b0101_0011_1000_0010, 18);
        m.get();
        assert_eq!(m.r(BMCR), 0x1140);
        assert_eq!(m.r(PHYSID1), 0x0022);
    }

    #[test]
    fn a_broken_frame_is_forgotten() {
        let mut m = up();
        m.send(u32::MAX, 32);
        m.send(0b01_01_00, 6);
        // A preamble completes whatever was begun: it reads as an access to address 15.
        assert_eq!(m.r(PHYSID1), 0x0022);
    }

    #[test]
    fn negotiation_takes_its_time() {
        let mut m = Master::new(PhyConfig::default());
        assert_eq!(m.0.phy().next_deadline(), Some(0));
        m.run_to(1000);
        assert_eq!(m.0.phy().next_deadline(), Some(1000 + DELAY));
        m.run_to(1000 + DELAY - 1);
        assert_eq!(m.r(BMSR), BMSR_ABILITIES);
        assert_eq!(m.0.phy().link(), None);
        m.run_to(1000 + DELAY);
        assert_eq!(m.r(BMSR), BMSR_ABILITIES | BMSR_LSTATUS | BMSR_ANEGCOMPLETE);
        assert_eq!(m.0.phy().link(), gigabit());
        assert_eq!(m.r(LPA), 0x45e1);
        assert_eq!(m.r(STAT1000), 0x3c00);
        assert_eq!(m.0.phy().next_deadline(), None);
    }

    #[test]
    fn a_lost_link_is_seen_once_even_if_it_is_back() {
        let mut m = up();
        m.r(BMSR);
        m.0.phy_mut().set_cable(DELAY, false);
        m.0.phy_mut().set_cable(DELAY, true);
        m.run_to(2 * DELAY);
        assert_eq!(m.r(BMSR) & BMSR_LSTATUS, 0);
        assert_ne!(m.r(BMSR) & BMSR_LSTATUS, 0);
    }

    #[test]
    fn the_best_common_mode_wins() {
        let mut m = up();
        for (advertise, ctrl1000, want) in [
            (0x01e1, 0x0300, Some((1000, true))),
            (0x01e1, 0x0100, Some((1000, false))),
            (0x01e1, 0, Some((100, true))),
            (0x00e1, 0, Some((100, false))),
            (0x0061, 0, Some((10, true))),
            (0x0021, 0, Some((10, false))),
            (0x0001, 0, None),
        ] {
            m.w(ADVERTISE, advertise);
            m.w(CTRL1000, ctrl1000);
            m.w(BMCR, BMCR_ANENABLE | BMCR_ANRESTART);
            assert_eq!(m.0.phy().link(), None);
            m.run_to(0);
            m.run_to(DELAY);
            let link = m.0.phy().link().map(|l| (l.mbps, l.full_duplex));
            assert_eq!(link, want);
        }
    }

    #[test]
    fn the_partner_limits_too() {
        let partner = Partner {
            autoneg: true,
            mbps: 100,
            full_duplex: false,
            pause: false,
            asym_pause: true,
        };
        let mut m = up();
        m.0.phy_mut().set_partner(DELAY, partner);
        assert_eq!(m.0.phy().link(), None);
        m.run_to(2 * DELAY);
        let want = Link {
            mbps: 100,
            full_duplex: false,
        };
        assert_eq!(m.0.phy().link(), Some(want));
        assert_eq!(m.r(LPA), 0x48a1);
        assert_eq!(m.r(STAT1000), 0);
    }

    #[test]
    fn forced_modes() {
        let mut m = up();
        let forced = |mbps, full_duplex| Partner {
            autoneg: false,
            mbps,
            full_duplex,
            pause: false,
            asym_pause: false,
        };
        let link = |m: &mut Master| {
            m.run_to(0);
            m.run_to(DELAY);
            m.0.phy().link().map(|l| (l.mbps, l.full_duplex))
        };
        // Duplex mismatch, as in real life.
        m.0.phy_mut().set_partner(0, forced(100, true));
        assert_eq!(link(&mut m), Some((100, false)));
        assert_eq!(m.r(LPA), ADVERTISE_100HALF);
        m.w(BMCR, BMCR_SPEED100 | BMCR_FULLDPLX);
        assert_eq!(link(&mut m), Some((100, true)));
        m.w(BMCR, BMCR_FULLDPLX);
        assert_eq!(link(&mut m), None);
        m.w(BMCR, BMCR_SPEED1000 | BMCR_FULLDPLX);
        m.0.phy_mut().set_partner(0, forced(1000, true));
        assert_eq!(link(&mut m), None);
    }

    #[test]
    fn power_down_and_reset() {
        let mut m = up();
        m.w(BMCR, 0x1140 | BMCR_PDOWN);
        assert_eq!(m.0.phy().link(), None);
        assert_eq!(m.0.phy().next_deadline(), None);
        m.w(BMCR, 0x1140);
        m.run_to(DELAY);
        m.run_to(2 * DELAY);
        assert_eq!(m.0.phy().link(), gigabit());
        m.w(CTRL1000, 0);
        m.w(BMCR, BMCR_RESET);
        assert_eq!(m.r(BMCR), 0x1140);
        assert_eq!(m.r(CTRL1000), 0x0300);
        assert_eq!(m.0.phy().link(), None);
    }

    #[test]
    fn speed_bits_do_not_disturb_a_negotiated_link() {
        let mut m = up();
        m.w(BMCR, BMCR_ANENABLE);
        assert_eq!(m.0.phy().link(), gigabit());
        m.w(BMCR, BMCR_ANENABLE | BMCR_LOOPBACK);
        assert!(m.0.phy().loopback());
        assert_eq!(m.0.phy().link(), gigabit());
    }

    #[test]
    fn a_loop_is_a_link() {
        let mut m = up();
        m.0.phy_mut().set_cable(DELAY, false);
        m.r(BMSR);
        assert_eq!(m.r(BMSR) & BMSR_LSTATUS, 0);
        m.w(BMCR, BMCR_LOOPBACK | 0x140);
        m.r(BMSR);
        assert_ne!(m.r(BMSR) & BMSR_LSTATUS, 0);
    }

    #[test]
    fn the_interrupt_needs_an_enable_and_clears_on_read() {
        let mut m = up();
        assert!(!m.0.phy().irq());
        assert_eq!(m.r(INTCS) & 0xff, INT_LINK_UP);
        m.w(INTCS, 0x0500);
        assert!(!m.0.phy().irq());
        m.0.phy_mut().set_cable(DELAY, false);
        assert!(m.0.phy().irq());
        assert_eq!(m.r(INTCS), 0x0500 | INT_LINK_DOWN);
        assert!(!m.0.phy().irq());
        m.0.phy_mut().set_cable(DELAY, true);
        m.run_to(2 * DELAY);
        assert!(m.0.phy().irq());
        m.w(INTCS, 0);
        assert!(!m.0.phy().irq());
    }

    #[test]
    fn mmd_registers_are_reached_indirectly() {
        let mut m = up();
        for (devad, reg, value) in [(2, 0x4c, 0x1234), (0x1c, 0x15, 0xeeee)] {
            m.w(MMD_CONTROL, devad);
            m.w(MMD_DATA, reg);
            m.w(MMD_CONTROL, 1 << 14 | devad);
            assert_eq!(m.r(MMD_DATA), 0);
            m.w(MMD_DATA, value);
            assert_eq!(m.r(MMD_DATA), value);
        }
        m.w(MMD_CONTROL, 2);
        m.w(MMD_DATA, 0x4b);
        m.w(MMD_CONTROL, 2 << 14 | 2);
        assert_eq!(m.r(MMD_DATA), 0);
        assert_eq!(m.r(MMD_DATA), 0x1234);
    }
}
