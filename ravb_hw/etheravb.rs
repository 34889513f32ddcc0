// SPDX-License-Identifier: GPL-2.0

//! EtherAVB: R-Car Gen2, Gen3, Gen4, and RZ/V2M.
//!
//! Two queues, descriptors with timestamps on reception, 100 and 1000 Mbit/s full duplex, and the
//! sum of a received frame instead of a verdict.

use kernel::{
    io::Io,
    prelude::*, //
};

use super::*;

/// R-Car Gen2: one interrupt line, and data to transmit must be aligned.
pub(crate) const GEN2: Variant = Variant {
    tx_alignment: 4,
    ..OLDEST
};

/// R-Car Gen3 and RZ/G2.
pub(crate) const GEN3: Variant = Variant {
    generation: &GEN3_WAYS,
    delays: Delays { rx: true, tx: true },
    lines: &[
        line(c"ch22", ":ch22:multi", Cause::Errors),
        line(c"ch24", ":ch24:emac", Cause::Emac),
        RX_BE,
        RX_NC,
        TX_BE,
        TX_NC,
    ],
    // RZ/G2E, R-Car E3 and D3.
    no_tx_delay: &[
        c"renesas,etheravb-r8a774c0",
        c"renesas,etheravb-r8a77990",
        c"renesas,etheravb-r8a77995",
    ],
    ..OLDEST
};

/// R-Car Gen4: MII, too.
pub(crate) const GEN4: Variant = Variant {
    generation: &EtherAvb {
        mii_select: true,
        ..GEN3_WAYS
    },
    no_tx_delay: &[],
    ..GEN3
};

/// RZ/V2M: Gen3 with parts of Gen2, and lines of its own for errors and management.
pub(crate) const RZV2M: Variant = Variant {
    generation: &EtherAvb {
        lines_of_queues: true,
        ..OLDEST_WAYS
    },
    gptp_clock: Some(c"gptp"),
    lines: &[
        line(c"dia", ":dia", Cause::Errors),
        line(c"line3", ":line3", Cause::Emac),
        line(c"err_a", ":err_a", Cause::Errors),
        line(c"mgmt_a", ":mgmt_a", Cause::Errors),
        RX_BE,
        RX_NC,
        TX_BE,
        TX_NC,
    ],
    ..OLDEST
};

/// What the family began with; the others say what has changed.
const OLDEST: Variant = Variant {
    generation: &OLDEST_WAYS,
    queues: 2,
    max_tx_frame: 2044,
    max_rx_frame: 2048,
    rx: RxFormat {
        words: 5,
        // The longest frame and its sum, with headroom and what `build_skb` needs, take a page.
        layout: Layout::new(4096, 128, 2064),
        trailer: Trailer::Sum,
        // Frames with errors are stored, and their status says what is wrong.
        errors_counted: false,
    },
    tx_alignment: 1,
    features: Features::RX_CHECKSUM.and(Features::SCATTER_GATHER),
    phy_restriction: phy::Restriction::FastFullDuplex,
    magic_packets: true,
    coalesce: false,
    delays: Delays::NONE,
    no_tx_delay: &[],
    link_pin: true,
    gptp_clock: None,
    lines: ONE_LINE,
};

/// The same, of what the hardware does.
const OLDEST_WAYS: EtherAvb = EtherAvb {
    clock: GptpClock::AfterConfig,
    masks: QueueMaskAccess::Shared,
    lines_of_queues: false,
    mii_select: false,
    counts_timeouts: false,
};

const GEN3_WAYS: EtherAvb = EtherAvb {
    clock: GptpClock::WithConfig,
    masks: QueueMaskAccess::SetAndClear,
    lines_of_queues: true,
    counts_timeouts: true,
    ..OLDEST_WAYS
};

// Where each queue has lines of its own, they are these.
const RX_BE: Line = queue_line(c"ch0", ":ch0:rx_be", QueueId::BestEffort);
const RX_NC: Line = queue_line(c"ch1", ":ch1:rx_nc", QueueId::NetworkControl);
const TX_BE: Line = queue_line(c"ch18", ":ch18:tx_be", QueueId::BestEffort);
const TX_NC: Line = queue_line(c"ch19", ":ch19:tx_nc", QueueId::NetworkControl);

const fn queue_line(name: &'static CStr, label: &'static str, queue: QueueId) -> Line {
    line(name, label, Cause::Queue(queue))
}

const fn line(name: &'static CStr, label: &'static str, cause: Cause) -> Line {
    Line {
        name: Some(name),
        label,
        cause,
    }
}

/// When the clock of the gPTP timer is chosen.
enum GptpClock {
    /// In CONFIG mode; the timer runs in OPERATION mode only.
    AfterConfig,
    /// In the access that enters CONFIG mode, where the timer runs already.
    WithConfig,
}

/// How the masks of a queue are changed.
enum QueueMaskAccess {
    /// In registers that all queues share.
    Shared,
    /// By registers that set and clear single bits.
    SetAndClear,
}

/// The ways of a member of the family.
struct EtherAvb {
    clock: GptpClock,
    masks: QueueMaskAccess,
    /// Each queue has interrupt lines of its own.
    lines_of_queues: bool,
    /// The MAC can do MII.
    mii_select: bool,
    /// There is a counter of frames that were not transmitted in time.
    counts_timeouts: bool,
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

    fn collect(&self, regs: &Regs<'_>, counters: &HwCounters) {
        if self.counts_timeouts {
            collect!(regs.io(), TROCR, counters.tx_timeouts);
        }
    }
}
