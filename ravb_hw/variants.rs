// SPDX-License-Identifier: GPL-2.0

//! Which hardware there is: the compatibles, and what is constant about each.
//!
//! Hardware that differs from some other in constants is a [`Variant`] here that says in which, and
//! a line of the table. What takes code is in the files beside this one.

use kernel::{
    of,
    prelude::*, //
};

use super::{
    etheravb::{
        EtherAvb,
        GptpClock,
        QueueMaskAccess, //
    },
    gbeth::GbEth,
    *, //
};
use crate::net::page_pool::HEADROOM;

kernel::of_device_table!(
    OF_TABLE,
    Variant,
    [
        (of::DeviceId::new(c"renesas,etheravb-r8a7790"), GEN2),
        (of::DeviceId::new(c"renesas,etheravb-r8a7794"), GEN2),
        (of::DeviceId::new(c"renesas,etheravb-rcar-gen2"), GEN2),
        (of::DeviceId::new(c"renesas,etheravb-r8a7795"), GEN3),
        (of::DeviceId::new(c"renesas,etheravb-rcar-gen3"), GEN3),
        (of::DeviceId::new(c"renesas,etheravb-rcar-gen4"), GEN4),
        (of::DeviceId::new(c"renesas,etheravb-rzv2m"), RZV2M),
        (of::DeviceId::new(c"renesas,rzg2l-gbeth"), GBETH),
    ]
);

/// The hardware that the driver serves.
pub(crate) const TABLE: of::IdTable<Variant> = &OF_TABLE;

/// GbEth.
const GBETH: Variant = Variant {
    generation: &GbEth,
    queues: 1,
    // Longer frames block both directions for good.
    max_tx_frame: 1518,
    max_rx_frame: 8192,
    rx: RxFormat {
        words: 2,
        // Two to a page of 4 KiB. A frame that is longer takes several, of 8 KiB five.
        layout: Layout::new(2048, HEADROOM, u32::MAX),
        trailer: Trailer::Verdicts,
        errors_counted: true,
    },
    tx_alignment: 4,
    features: Features::RX_CHECKSUM
        .and(Features::TX_CHECKSUM)
        .and(Features::SCATTER_GATHER)
        .and(Features::SEGMENTATION),
    // The MAC keeps damaged frames to itself: RCR.EFFS does not exist.
    optional_features: Features::NONE,
    phy_restriction: phy::Restriction::None,
    magic_packets: false,
    coalesce: true,
    delays: Delays::NONE,
    no_tx_delay: &[],
    // There is a pin for each PHY, which the E-MAC does not report.
    link_pin: false,
    gptp_clock: None,
    lines: ONE_LINE,
};

/// R-Car Gen2: one interrupt line, and data to transmit must be aligned.
const GEN2: Variant = Variant {
    tx_alignment: 4,
    ..OLDEST
};

/// R-Car Gen3 and RZ/G2.
const GEN3: Variant = Variant {
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
const GEN4: Variant = Variant {
    generation: &EtherAvb {
        mii_select: true,
        ..GEN3_WAYS
    },
    no_tx_delay: &[],
    ..GEN3
};

/// RZ/V2M: Gen3 with parts of Gen2, and lines of its own for errors and management.
const RZV2M: Variant = Variant {
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

/// What EtherAVB began with; the others say what has changed.
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
    optional_features: Features::RX_ALL,
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

/// The one line of a device whose line tells of everything.
const ONE_LINE: &[Line] = &[Line {
    name: None,
    label: "",
    cause: Cause::All,
}];

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
