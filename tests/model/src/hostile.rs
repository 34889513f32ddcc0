// SPDX-License-Identifier: GPL-2.0
//! A device that lies (property `hostile`).
//!
//! At random times it writes what it likes into descriptors, raises interrupts without a cause,
//! changes registers, delays or drops answers. The same seed does the same things in the same
//! order. What it does to memory is confined to what a driver can defend itself against without an
//! IOMMU: it writes to no place that is not a descriptor of its rings, and gives no descriptor back
//! to itself, so that it never stores a frame where the driver did not ask for one.

use crate::faults::Faults;
use crate::host::Host;
use crate::model::Model;
use crate::regs::{reg, Access};
use crate::variant::RX_QUEUE_OFFSET;

/// What it may do: bits of the property `hostile-acts`.
pub(crate) mod act {
    /// Writes to receive descriptors.
    pub(crate) const RECEIVE: u32 = 1 << 0;
    /// Writes to transmit descriptors.
    pub(crate) const TRANSMIT: u32 = 1 << 1;
    /// Raises status bits.
    pub(crate) const STATUS: u32 = 1 << 2;
    /// Changes registers.
    pub(crate) const REGISTER: u32 = 1 << 3;
    /// Delays and stops answers.
    pub(crate) const DELAY: u32 = 1 << 4;
    /// All of it.
    pub(crate) const ALL: u32 = (1 << 5) - 1;
}

/// How often each is done, out of the sum.
const WEIGHTS: &[(u32, u32)] = &[
    (act::RECEIVE, 600),
    (act::TRANSMIT, 200),
    (act::STATUS, 180),
    (act::REGISTER, 15),
    (act::DELAY, 5),
];

/// Types that make a descriptor the driver's, of which the first four mean something to it.
const FOR_DRIVER: &[u8] = &[0x70, 0x50, 0x40, 0x60, 0x00, 0x10, 0x20, 0x30, 0xa0, 0xb0];
/// Finished transmission, beside the above.
const FINISHED: u8 = 0xc0;

/// Status registers.
const STATUS: &[u16] = &[
    reg::DIS,
    reg::EIS,
    reg::RIS0,
    reg::RIS1,
    reg::RIS2,
    reg::RIS3,
    reg::TIS,
    reg::GIS,
    reg::ECSR,
];

/// Registers by which the engine finds its way in memory, and the mode.
const KEPT: &[u16] = &[reg::CCC, reg::DBAT, reg::DLR, reg::CSR, reg::RCR];

/// How far ahead of the device it writes, in descriptors.
const AHEAD: u64 = 8;

/// Its state.
#[derive(Debug)]
pub(crate) struct Hostile {
    /// Start of the sequence; 0 for an honest device.
    pub(crate) seed: u64,
    /// Time between two acts, on the average.
    pub(crate) gap_ns: u64,
    /// Which acts it may do.
    pub(crate) acts: u32,
    /// Descriptors written so far, since the start of the machine.
    pub(crate) events: u64,
    rng: fastrand::Rng,
    next: u64,
}

impl Default for Hostile {
    fn default() -> Self {
        Self {
            seed: 0,
            gap_ns: 100_000,
            acts: act::ALL,
            events: 0,
            rng: fastrand::Rng::with_seed(0),
            next: u64::MAX,
        }
    }
}

impl Hostile {
    pub(crate) fn is_on(&self) -> bool {
        self.seed != 0
    }

    fn schedule(&mut self, t: u64) {
        let gap = self.rng.u64(1..=2 * self.gap_ns.max(1));
        self.next = t.saturating_add(gap);
    }

    /// One of the acts it may do.
    fn choose(&mut self) -> Option<u32> {
        let allowed = || WEIGHTS.iter().filter(|(act, _)| self.acts & act != 0);
        let total: u32 = allowed().map(|(_, weight)| weight).sum();
        if total == 0 {
            return None;
        }
        let mut left = self.rng.u32(0..total);
        for &(act, weight) in WEIGHTS {
            if self.acts & act == 0 {
                continue;
            }
            if left < weight {
                return Some(act);
            }
            left -= weight;
        }
        None
    }
}

impl Model {
    /// Starts the sequence of `seed`, or makes an honest device of it again. Registers stay as they
    /// are: only a reset mends them.
    pub(crate) fn set_hostile(&mut self, h: &mut dyn Host, seed: u64) {
        self.hostile.seed = seed;
        self.hostile.rng = fastrand::Rng::with_seed(seed);
        self.faults = Faults::default();
        if seed == 0 {
            self.hostile.next = u64::MAX;
        } else {
            self.hostile.schedule(h.now());
        }
        self.settle(h);
    }

    pub(crate) fn hostile_deadline(&self) -> u64 {
        if self.modes.clock {
            self.hostile.next
        } else {
            u64::MAX
        }
    }

    /// Does what it likes at time `t`.
    pub(crate) fn run_hostile(&mut self, h: &mut dyn Host, t: u64) {
        if self.hostile_deadline() > t {
            return;
        }
        // Time that has passed, for want of a clock, is not made up for.
        self.hostile.schedule(h.now());
        match self.hostile.choose() {
            Some(act::RECEIVE) => self.write_any_descriptor(h, true),
            Some(act::TRANSMIT) => self.write_any_descriptor(h, false),
            Some(act::STATUS) => self.raise_any_status(),
            Some(act::REGISTER) => self.change_any_register(),
            Some(act::DELAY) => self.answer_differently(),
            _ => (),
        }
    }

    /// Writes to a descriptor of some ring, half the time to one that the driver looks at next, and
    /// mostly tells of it.
    fn write_any_descriptor(&mut self, h: &mut dyn Host, receive: bool) {
        let rings: Vec<(usize, u64, u64, u64)> = self
            .watch
            .rings()
            .filter(|(queue, ..)| (*queue >= RX_QUEUE_OFFSET) == receive)
            .collect();
        if rings.is_empty() {
            return;
        }
        let rng = &mut self.hostile.rng;
        let (queue, start, count, stride) = rings[rng.usize(0..rings.len())];
        let index = if rng.bool() {
            let here = self.dmac.current_descriptor(queue);
            let here = u64::from(here).saturating_sub(start) / stride;
            (here + count + rng.u64(0..2 * AHEAD) - AHEAD) % count
        } else {
            rng.u64(0..count)
        };
        let kinds = FOR_DRIVER.len() + usize::from(!receive);
        let chosen = if rng.u8(0..4) == 0 {
            rng.usize(0..kinds)
        } else {
            // What means something.
            rng.usize(0..4) + if receive { 0 } else { kinds - 4 }
        };
        let kind = FOR_DRIVER.get(chosen).copied().unwrap_or(FINISHED);
        let size = match rng.u8(0..4) {
            0 => rng.u16(..),
            1 => rng.u16(0..64),
            _ => rng.u16(60..1600),
        };
        let status = if rng.bool() { 0 } else { rng.u8(..) };
        let [low, high] = size.to_le_bytes();
        let addr = start + index * stride;
        let stamp: Vec<u8> = (8..stride).map(|_| rng.u8(..)).collect();
        let number = rng.u8(0..16);
        // What cannot be written is not there.
        let _ = h.dma_write(addr, &[low, high, status]);
        if !stamp.is_empty() {
            let _ = h.dma_write(addr + 8, &stamp);
        }
        let _ = h.dma_write(addr + 3, &[kind | number]);
        self.hostile.events += 1;
        if receive {
            self.regs.raise(reg::RIS0, 1 << (queue - RX_QUEUE_OFFSET));
        } else {
            self.regs.raise(reg::TIS, 1 << queue);
        }
    }

    fn raise_any_status(&mut self) {
        let rng = &mut self.hostile.rng;
        let register = STATUS[rng.usize(0..STATUS.len())];
        let bits = 1 << rng.u32(0..32) | if rng.bool() { 0 } else { rng.u32(..) };
        if let Some(known) = self.regs.lookup(register.into()) {
            self.regs.raise(register, bits & known.writable);
        }
    }

    fn change_any_register(&mut self) {
        let rng = &mut self.hostile.rng;
        let offset = 4 * rng.u16(0..0x203);
        let value = rng.u32(..);
        let Some(register) = self.regs.lookup(offset.into()) else {
            return;
        };
        let plain = matches!(
            register.access,
            Access::ReadWrite | Access::ReadOnly | Access::Counter
        );
        if plain && !KEPT.contains(&offset) {
            let bits = match register.access {
                Access::ReadWrite => register.writable,
                _ => u32::MAX,
            };
            self.regs.set(offset, value & bits);
        }
    }

    fn answer_differently(&mut self) {
        const SOON_NS: u64 = 2_000_000;
        let rng = &mut self.hostile.rng;
        self.faults = Faults {
            mode_change_delay: rng.u32(0..200),
            tx_hold: rng.bool(),
            rx_hold: rng.u8(0..4) == 0,
            toe_stuck: rng.u8(0..4) == 0,
            tx_at_once: rng.bool(),
            tx_completion_ns: rng.u64(0..SOON_NS),
            tx_part_ns: rng.u64(0..SOON_NS),
            rx_part_ns: rng.u64(0..SOON_NS),
            ..Faults::default()
        };
    }
}
