// SPDX-License-Identifier: GPL-2.0
//! E-MAC and TOE: what happens between the FIFOs and the wire.

use std::collections::BTreeMap;

use crate::host::Host;
use crate::model::Model;
use crate::modes::Mode;
use crate::phy::Link;
use crate::regs::{bit, reg, Access, TABLE};
use crate::toe;

/// Bytes of the frame check sequence.
pub(crate) const FCS: usize = 4;
/// Shortest frame without FCS.
pub(crate) const MIN_FRAME: usize = 60;
/// Gap between frames in bytes.
const GAP: u64 = 12;
/// Preamble, start delimiter and gap between frames, in bytes.
const OVERHEAD: u64 = 8 + GAP;

/// MAC status code of a received frame (K-drv).
#[allow(missing_docs)]
pub mod msc {
    pub const CRC: u8 = 0x01;
    pub const RFE: u8 = 0x02;
    pub const TOO_SHORT: u8 = 0x04;
    pub const TOO_LONG: u8 = 0x08;
    pub const FRACTION: u8 = 0x10;
    pub const CARRIER_LOST: u8 = 0x20;
    pub const CARRIER_EXTENSION: u8 = 0x40;
    pub const MULTICAST: u8 = 0x80;
    /// Everything that makes a frame an error frame.
    pub const ERRORS: u8 = 0x7f;
}

/// What drives the AVB_LINK pin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkPin {
    /// High while the PHY has a link.
    #[default]
    Follow,
    /// Always high.
    High,
    /// Always low.
    Low,
}

const PAUSE_ADDRESS: [u8; 6] = [0x01, 0x80, 0xc2, 0x00, 0x00, 0x01];

fn is_pause(frame: &[u8]) -> bool {
    frame.len() >= 18 && frame[..6] == PAUSE_ADDRESS && frame[12..16] == [0x88, 0x08, 0, 1]
}

/// True for six bytes of ones followed by the station address sixteen times.
fn is_magic(frame: &[u8], address: [u8; 6]) -> bool {
    let mut pattern = vec![0xff; 6];
    pattern.extend(address.repeat(16));
    frame.windows(pattern.len()).any(|window| window == pattern)
}

impl Model {
    /// Magic packet detection, in CONFIG too. While it is on nothing is stored (A).
    pub(crate) fn detect_magic(&mut self, frame: &[u8]) -> bool {
        if self.regs.get(reg::ECMR) & bit::ECMR_MPDE == 0 || !self.modes.clock {
            return false;
        }
        if is_magic(frame, self.mac_address()) {
            self.regs.raise(reg::ECSR, bit::ECSR_MPD);
        }
        true
    }

    /// Speed the MAC is set to, in Mbit/s.
    fn mac_mbps(&self) -> u32 {
        let gecmr = self.regs.get(reg::GECMR);
        let speeds = self.variant.gecmr.iter().zip([10, 100, 1000]);
        let mut found = speeds.filter(|(code, _)| **code == Some(gecmr));
        found.next().map_or(10, |(_, mbps)| mbps)
    }

    /// The link, provided MAC and PHY agree about its speed.
    pub(crate) fn usable_link(&self) -> Option<Link> {
        let mbps = self.mac_mbps();
        let phy = self.mdio.phy();
        let looped = phy.loopback().then_some(Link {
            mbps,
            full_duplex: true,
        });
        looped.or(phy.link()).filter(|link| link.mbps == mbps)
    }

    pub(crate) fn full_duplex(&self) -> bool {
        self.regs.get(reg::ECMR) & bit::ECMR_DM != 0
    }

    /// Time for `bits` on the wire in nanoseconds.
    pub(crate) fn bit_time(&self, bits: u64) -> u64 {
        let mbps = match self.settings.wire_mbps {
            0 => self.mac_mbps(),
            mbps => mbps,
        };
        bits * 1000 / u64::from(mbps)
    }

    /// Time a frame of `len` bytes without FCS takes, with everything around it.
    pub(crate) fn wire_time(&self, len: usize) -> u64 {
        self.bit_time((len.max(MIN_FRAME) as u64 + FCS as u64 + OVERHEAD) * 8)
    }

    /// Time from the start delimiter of a frame to the end of the gap that follows it.
    pub(crate) fn after_start(&self, len: usize) -> u64 {
        self.bit_time((len.max(MIN_FRAME) as u64 + FCS as u64 + GAP) * 8)
    }

    /// Level of the AVB_LINK pin.
    fn link_pin(&self) -> bool {
        match self.faults.link_pin {
            LinkPin::Follow => self.mdio.phy().link().is_some(),
            LinkPin::High => true,
            LinkPin::Low => false,
        }
    }

    pub(crate) fn read_psr(&self) -> u32 {
        u32::from(self.link_pin())
    }

    /// Latches the edges of the two pins from the PHY into ECSR.
    pub(crate) fn sample_pins(&mut self) {
        let pins = (self.link_pin(), self.mdio.phy().irq());
        let before = std::mem::replace(&mut self.pins, pins);
        // The E-MAC has no clock or is held in reset otherwise.
        if !self.modes.clock || self.modes.current == Mode::Reset {
            return;
        }
        if pins.0 != before.0 {
            self.regs.raise(reg::ECSR, bit::ECSR_LCHNG);
        }
        if pins.1 && !before.1 {
            self.regs.raise(reg::ECSR, bit::ECSR_PHYI);
        }
    }

    pub(crate) fn read_pir(&mut self, h: &mut dyn Host) -> u32 {
        self.mdio.phy_mut().tick(h.now());
        // In RESET the pin is not looked at and reads 1, as with no PHY (A).
        let mdi = self.modes.current == Mode::Reset || self.mdio.mdi();
        self.regs.get(reg::PIR) | if mdi { bit::PIR_MDI } else { 0 }
    }

    pub(crate) fn write_pir(&mut self, h: &mut dyn Host, value: u32) {
        self.mdio.phy_mut().tick(h.now());
        self.regs.set(reg::PIR, value);
        self.mdio.write_pir(value);
    }

    /// CSR0 as read: an enable bit reads 1 until the engine is idle (K-ml, A).
    pub(crate) fn read_csr0(&self) -> u32 {
        let mut csr0 = self.regs.get(reg::CSR0);
        if self.faults.toe_stuck || self.dmac.transmitting() {
            csr0 |= bit::CSR0_TPE;
        }
        if self.faults.toe_stuck || self.dmac.rx_in_progress() {
            csr0 |= bit::CSR0_RPE;
        }
        csr0
    }

    pub(crate) fn tx_enabled(&self) -> bool {
        self.regs.get(reg::ECMR) & bit::ECMR_TE != 0
            && (!self.variant.toe || self.regs.get(reg::CSR0) & bit::CSR0_TPE != 0)
    }

    pub(crate) fn rx_engine_enabled(&self) -> bool {
        !self.variant.toe || self.regs.get(reg::CSR0) & bit::CSR0_RPE != 0
    }

    /// What the MAC makes of a frame on its way out: checksums, then padding.
    pub(crate) fn prepare_transmit(&mut self, frame: &mut Vec<u8>) {
        if self.variant.toe {
            let csr1 = self.regs.get(reg::CSR1);
            if self.settings.toe_tx_every_frame || toe::is_left_to_engine(frame, csr1) {
                toe::transmit(frame, csr1);
            }
        }
        if self.regs.get(reg::ECMR) & bit::ECMR_DPAD == 0 && frame.len() < MIN_FRAME {
            frame.resize(MIN_FRAME, 0);
        }
    }

    /// Adds to the E-MAC counters named in a JSON object, as if that many events had occurred.
    pub(crate) fn add_emac_events(&mut self, text: &str) -> Result<(), String> {
        let events: BTreeMap<String, u32> =
            serde_json::from_str(text).map_err(|error| error.to_string())?;
        for (name, events) in events {
            let counter = TABLE.iter().find(|register| {
                register.access == Access::Counter
                    && register.name == name
                    && register.on.intersects(self.variant.set)
            });
            let counter = counter.ok_or_else(|| format!("{name}: no such counter"))?;
            self.regs.count(counter.offset, events);
        }
        Ok(())
    }

    /// Address filter (K-qnx, K-ml: no multicast filter in hardware).
    pub(crate) fn accepts(&self, frame: &[u8]) -> bool {
        let ecmr = self.regs.get(reg::ECMR);
        let Some(da) = frame.get(..6) else {
            return false;
        };
        if is_pause(frame) {
            return ecmr & bit::ECMR_PFR != 0;
        }
        if ecmr & bit::ECMR_PRM != 0 {
            return true;
        }
        if da == [0xff; 6] {
            return !self.variant.error_frames || self.regs.get(reg::RCR) & bit::RCR_SBFS == 0;
        }
        da[0] & 1 != 0 || da == self.mac_address()
    }

    /// The station address.
    pub(crate) fn mac_address(&self) -> [u8; 6] {
        let hi = self.regs.get(reg::MAHR).to_be_bytes();
        let lo = self.regs.get(reg::MALR).to_be_bytes();
        [hi[0], hi[1], hi[2], hi[3], lo[2], lo[3]]
    }

    /// Counts a frame the MAC has seen and returns its status code, which may be given.
    pub(crate) fn classify(&mut self, frame: &[u8], bad_fcs: bool, given: Option<u8>) -> u8 {
        let length = frame.len() + FCS;
        // Values below the standard maximum mean the standard maximum (A).
        let limit = self.regs.get(reg::RFLR).max(1518) as usize;
        let group = frame.first().is_some_and(|byte| byte & 1 != 0);
        let found = [
            (length > limit, msc::TOO_LONG),
            (length < MIN_FRAME + FCS, msc::TOO_SHORT),
            (bad_fcs, msc::CRC),
            (group, msc::MULTICAST),
        ];
        let status = given.unwrap_or_else(|| {
            let bits = found.iter().filter(|(is_so, _)| *is_so);
            bits.fold(0, |status, (_, bit)| status | bit)
        });
        for (bit, counter) in [
            (msc::CRC, reg::CEFCR),
            (msc::RFE, reg::FRECR),
            (msc::TOO_SHORT, reg::TSFRCR),
            (msc::TOO_LONG, reg::TLFRCR),
            (msc::FRACTION, reg::RFCR),
            (msc::MULTICAST, reg::MAFCR),
        ] {
            if status & bit != 0 {
                self.regs.count(counter, 1);
            }
        }
        status
    }

    /// Obeys a PAUSE frame if ECMR.RXF asks for it; returns until when transmission rests.
    pub(crate) fn pause(&mut self, frame: &[u8], now: u64) -> Option<u64> {
        let ecmr = self.regs.get(reg::ECMR);
        if ecmr & bit::ECMR_RXF == 0 || !self.full_duplex() || !is_pause(frame) {
            return None;
        }
        let quanta = u64::from(u16::from_be_bytes([frame[16], frame[17]]));
        if quanta == 0 && ecmr & bit::ECMR_RZPF == 0 {
            return None;
        }
        self.regs.count(reg::PFRCR, 1);
        self.regs.raise(reg::ECSR, bit::ECSR_PFRI);
        Some(now + self.bit_time(512 * quanta))
    }

    /// Bytes the checksum engines append to a received frame (reference section 5).
    pub(crate) fn trailer(&self, frame: &[u8]) -> Vec<u8> {
        let ecmr = self.regs.get(reg::ECMR);
        if self.variant.toe && ecmr & bit::ECMR_RCPT != 0 {
            let csr2 = self.regs.get(reg::CSR2);
            if csr2 == 0 && !self.settings.toe_trailer_always {
                return Vec::new();
            }
            let result = toe::receive(frame, csr2);
            return [result.ip.to_le_bytes(), result.l4.to_le_bytes()].concat();
        }
        if ecmr & bit::ECMR_RCSC != 0 {
            let payload = frame.get(14..).unwrap_or(&[]);
            return toe::ones_complement_sum(payload).to_le_bytes().to_vec();
        }
        Vec::new()
    }
}
