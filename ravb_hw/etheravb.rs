// SPDX-License-Identifier: GPL-2.0

//! The ways of EtherAVB: R-Car Gen2, Gen3, Gen4, and RZ/V2M.
//!
//! Two queues, descriptors with timestamps on reception, 100 and 1000 Mbit/s full duplex, and the
//! sum of a received frame instead of a verdict.

use kernel::{
    io::Io,
    prelude::*, //
};

use super::*;

/// When the clock of the gPTP timer is chosen.
pub(super) enum GptpClock {
    /// In CONFIG mode; the timer runs in OPERATION mode only.
    AfterConfig,
    /// In the access that enters CONFIG mode, where the timer runs already.
    WithConfig,
}

/// How the masks of a queue are changed.
pub(super) enum QueueMaskAccess {
    /// In registers that all queues share.
    Shared,
    /// By registers that set and clear single bits.
    SetAndClear,
}

/// The ways of a member of the family.
pub(super) struct EtherAvb {
    pub(super) clock: GptpClock,
    pub(super) masks: QueueMaskAccess,
    /// Each queue has interrupt lines of its own.
    pub(super) lines_of_queues: bool,
    /// The MAC can do MII.
    pub(super) mii_select: bool,
    /// There is a counter of frames that were not transmitted in time.
    pub(super) counts_timeouts: bool,
}

impl Generation for EtherAvb {
    fn readable(&self) -> &'static [usize] {
        match self.masks {
            QueueMaskAccess::SetAndClear => &[CIE::OFFSET, DIL::OFFSET, APSR::OFFSET],
            QueueMaskAccess::Shared if self.lines_of_queues => &[CIE::OFFSET, DIL::OFFSET],
            QueueMaskAccess::Shared => &[],
        }
    }

    fn enter_config(&self, regs: &Regs<'_>) -> Result {
        match self.clock {
            GptpClock::AfterConfig => {
                regs.set_mode(Mode::Config)?;
                regs.io().update(CCC, |ccc| ccc.with_const_csel::<1>());
            }
            GptpClock::WithConfig => regs.change_mode(Mode::Config, |ccc| {
                ccc.with_gac(true).with_const_csel::<1>()
            })?,
        }
        if regs.hw.variant.delays != Delays::NONE {
            let delays = regs.hw.wiring.delays;
            regs.io()
                .update(APSR, |apsr| apsr.with_rdm(delays.rx).with_tdm(delays.tx));
        }
        Ok(())
    }

    fn init_dmac(&self, regs: &Regs<'_>) {
        let io = regs.io();

        io.write_reg(
            RCR::zeroed()
                .with_effs(true)
                .with_encf(regs.uses(QueueId::NetworkControl))
                .with_const_esf::<3>()
                .with_ets0(true)
                .with_const_rfcl::<0x1800>(),
        );
        io.write_reg(
            TGC::zeroed()
                .with_const_tqp::<1>()
                .with_const_tbd::<0x1122>(),
        );
        io.write_reg(TCCR::zeroed().with_tfen(true));
    }

    fn init_emac_first(&self, regs: &Regs<'_>) {
        if self.mii_select {
            let mii = regs.hw.wiring.interface == Interface::MII;
            regs.io().update(APSR, |apsr| apsr.with_miiselect(mii));
        }
    }

    fn init_emac_last(&self, _regs: &Regs<'_>, _tx_checksum: bool) -> Result {
        Ok(())
    }

    /// The sum is always appended: whether it is used is decided when a frame is passed up, so that
    /// nothing depends on which setting a frame was received under.
    fn emac_mode(&self, _full_duplex: bool) -> ECMR {
        ECMR::zeroed().with_dm(true).with_zpf(true).with_rcsc(true)
    }

    fn speed(&self, speed: u32) -> GECMR {
        GECMR::zeroed().with_gigabit(speed == 1000)
    }

    fn mask_queue(&self, regs: &Regs<'_>, queue: QueueId) {
        match self.masks {
            QueueMaskAccess::Shared => regs.update_masks(|masks| masks & !queue.bit()),
            QueueMaskAccess::SetAndClear => {
                regs.io().write(RID0, queue.bit().into());
                regs.io().write(TID, queue.bit().into());
            }
        }
    }

    fn unmask_queue(&self, regs: &Regs<'_>, queue: QueueId) {
        match self.masks {
            QueueMaskAccess::Shared => regs.update_masks(|masks| masks | queue.bit()),
            QueueMaskAccess::SetAndClear => {
                regs.io().write(RIE0, queue.bit().into());
                regs.io().write(TIE, queue.bit().into());
            }
        }
    }

    fn mask_strays(&self, regs: &Regs<'_>) {
        let io = regs.io();

        io.write_reg(GIC::zeroed());
        if matches!(self.masks, QueueMaskAccess::SetAndClear) {
            io.write(RID0, (RIS0_BITS & !regs.all_queues()).into());
            io.write(TID, (TIS_BITS & !regs.all_queues()).into());
        }
        if self.lines_of_queues {
            io.write_reg(DIL::zeroed());
            io.write_reg(
                CIE::zeroed()
                    .with_crie(true)
                    .with_ctie(true)
                    .with_cl0m(true),
            );
        }
    }

    fn collect(&self, regs: &Regs<'_>, counters: &HwCounters) {
        if self.counts_timeouts {
            collect!(regs.io(), TROCR, counters.tx_timeouts);
        }
    }
}
