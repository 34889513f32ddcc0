// SPDX-License-Identifier: GPL-2.0

//! The MAC as it follows the link, and the bus to the PHY.

use kernel::{
    io::Io,
    prelude::*,
    sync::{
        Arc,
        MutexGuard,
        SpinLockIrq, //
    }, //
};

use crate::{
    net::{
        mdio::{
            BitBang,
            Pins, //
        },
        phy::Link, //
    },
    ravb_hw::{
        Hw,
        Mode,
        Regs,
        PIR, //
    },
    ravb_stats::HwCounters, //
};

/// The E-MAC, as the link, the receive mode and the interrupt handler change it.
pub(crate) type EmacLock<'bound> = SpinLockIrq<Emac<'bound>>;

/// How the E-MAC is set. What its mode register holds follows from this, so that it is never read.
pub(crate) struct Emac<'bound> {
    /// The registers, while the interface is up.
    regs: Option<Arc<Regs<'bound>>>,
    /// What the PHY says.
    link: Option<Link>,
    /// What the link pin says, if it is wired and has changed.
    link_pin: bool,
    promiscuous: bool,
    /// Magic packets are looked for, and frames are not received.
    magic: bool,
}

impl<'bound> Emac<'bound> {
    /// An E-MAC that is down.
    pub(crate) const fn new() -> Self {
        Self {
            regs: None,
            link: None,
            link_pin: true,
            promiscuous: false,
            magic: false,
        }
    }

    /// Switches the E-MAC on; [`Regs::init_emac`] was called before.
    pub(crate) fn start(&mut self, regs: Arc<Regs<'bound>>, promiscuous: bool) {
        self.promiscuous = promiscuous;
        self.magic = false;
        self.link_pin = true;
        self.regs = Some(regs);
        self.apply_link();
    }

    /// Whether there is a link.
    pub(crate) fn has_link(&self) -> bool {
        self.link.is_some() && self.link_pin
    }

    /// The E-MAC is off. The result is to be dropped without the lock of the E-MAC.
    pub(crate) fn stop(&mut self) -> Option<Arc<Regs<'bound>>> {
        self.regs.take()
    }

    /// Receives frames for any address, or not.
    pub(crate) fn set_promiscuous(&mut self, promiscuous: bool) {
        self.promiscuous = promiscuous;
        self.apply();
    }

    /// Looks for magic packets only, until it is started anew.
    pub(crate) fn look_for_magic(&mut self) {
        self.magic = true;
        self.apply();
    }

    /// Follows the PHY; returns whether the link changed.
    pub(crate) fn set_link(&mut self, link: Option<Link>) -> bool {
        let changed = self.link != link;
        self.link = link;
        if changed {
            self.apply_link();
        }
        changed
    }

    /// Follows the link pin.
    pub(crate) fn set_link_pin(&mut self, up: bool) {
        self.link_pin = up;
        self.apply();
    }

    fn apply_link(&self) {
        if let (Some(regs), Some(link)) = (&self.regs, self.link) {
            regs.set_speed(link.speed);
        }
        self.apply();
    }

    fn apply(&self) {
        if let Some(regs) = &self.regs {
            // Transmitter and receiver are off while there is no link. The core may transmit as
            // soon as there is one, which is before the speed is known here; frames wait until
            // then.
            regs.set_emac_mode(self.link, self.has_link(), self.promiscuous, self.magic);
        }
    }

    /// Adds what the hardware counted since the last time.
    pub(crate) fn collect(&self, counters: &HwCounters) {
        if let Some(regs) = &self.regs {
            regs.collect(counters);
        }
    }
}

/// The MDIO bus, usable whether the interface is up or down.
pub(crate) struct MdioPins<'bound>(pub(crate) Arc<Hw<'bound>>);

/// The pins for the time of one transfer, during which the operating mode does not change.
pub(crate) struct MdioSession<'a, 'bound> {
    regs: Regs<'bound>,
    up: MutexGuard<'a, bool>,
}

impl<'bound> BitBang for MdioPins<'bound> {
    type Session<'a>
        = MdioSession<'a, 'bound>
    where
        Self: 'a;

    fn begin(&self) -> Result<Self::Session<'_>> {
        let up = self.0.up.lock();
        let regs = Regs::new(&self.0)?;
        if !*up {
            // The pins are dead in RESET mode.
            regs.set_mode(Mode::Config)?;
        }
        Ok(MdioSession { regs, up })
    }
}

impl Drop for MdioSession<'_, '_> {
    fn drop(&mut self) {
        if !*self.up {
            // A mode that does not change was reported, and nothing else can be done.
            let _ = self.regs.set_mode(Mode::Reset);
        }
    }
}

impl MdioSession<'_, '_> {
    fn update(&self, f: impl FnOnce(PIR) -> PIR) {
        self.regs.io().update(PIR, f);
    }
}

impl Pins for MdioSession<'_, '_> {
    fn set_clock(&self, high: bool) {
        self.update(|pir| pir.with_mdc(high));
    }

    fn set_output(&self, output: bool) {
        self.update(|pir| pir.with_mmd(output));
    }

    fn set_data(&self, high: bool) {
        self.update(|pir| pir.with_mdo(high));
    }

    fn data(&self) -> bool {
        self.regs.io().read(PIR).mdi()
    }
}
