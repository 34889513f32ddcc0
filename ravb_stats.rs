// SPDX-License-Identifier: GPL-2.0

//! Statistics.

use crate::{
    net::{
        netdev,
        stats::Counter, //
    },
    ravb_desc::RxError, //
};

/// What is counted for one direction of a queue. Each counter has one writer at a time: the NAPI
/// context, or for [`DeviceStats::tx`] the holder of the lock of the transmit queue.
pub(crate) struct QueueStats {
    pub(crate) packets: Counter,
    pub(crate) bytes: Counter,
    pub(crate) multicast: Counter,
    /// Lost for want of memory, or of a resource.
    pub(crate) rx_dropped: Counter,
    /// Allocations that failed.
    pub(crate) alloc_fail: Counter,
    errors: Counter,
    crc_errors: Counter,
    frame_errors: Counter,
    length_errors: Counter,
}

impl QueueStats {
    const fn new() -> Self {
        Self {
            packets: Counter::new(),
            bytes: Counter::new(),
            multicast: Counter::new(),
            rx_dropped: Counter::new(),
            alloc_fail: Counter::new(),
            errors: Counter::new(),
            crc_errors: Counter::new(),
            frame_errors: Counter::new(),
            length_errors: Counter::new(),
        }
    }

    /// Counts a frame that is not passed up.
    #[cold]
    pub(crate) fn count_rx_error(&self, error: RxError) {
        self.errors.add(1);
        match error {
            RxError::Crc => self.crc_errors.add(1),
            RxError::Frame | RxError::Carrier => self.frame_errors.add(1),
            RxError::Length | RxError::Incomplete => self.length_errors.add(1),
        }
    }
}

/// What is counted for a transmit queue.
pub(crate) struct TxStats {
    /// Transmitted; the writer is the NAPI context.
    pub(crate) packets: Counter,
    /// Transmitted; the writer is the NAPI context.
    pub(crate) bytes: Counter,
    /// Dropped; the writer is the holder of the lock of the queue.
    pub(crate) dropped: Counter,
}

/// All that is counted for a device.
pub(crate) struct DeviceStats {
    pub(crate) rx: QueueStats,
    pub(crate) tx: TxStats,
    /// Frames that were lost because the ring had no free descriptor; the writer is the interrupt
    /// handler, as it is of the two that follow.
    pub(crate) rx_over_errors: Counter,
    /// Frames that were lost because the receive FIFO was full.
    pub(crate) rx_fifo_errors: Counter,
    /// Times that the carrier was lost or false.
    pub(crate) carrier_events: Counter,
    /// Read from the hardware; the writer holds the lock of the E-MAC.
    pub(crate) hw: HwCounters,
}

/// What the hardware counts, and forgets when it is read.
pub(crate) struct HwCounters {
    pub(crate) tx_timeouts: Counter,
    pub(crate) collisions: Counter,
    pub(crate) carrier_errors: Counter,
}

impl DeviceStats {
    pub(crate) const fn new() -> Self {
        Self {
            rx: QueueStats::new(),
            tx: TxStats {
                packets: Counter::new(),
                bytes: Counter::new(),
                dropped: Counter::new(),
            },
            rx_over_errors: Counter::new(),
            rx_fifo_errors: Counter::new(),
            carrier_events: Counter::new(),
            hw: HwCounters {
                tx_timeouts: Counter::new(),
                collisions: Counter::new(),
                carrier_errors: Counter::new(),
            },
        }
    }

    /// Fills in what the core asks for.
    pub(crate) fn fill(&self, stats: &mut netdev::Stats) {
        stats.rx_packets = self.rx.packets.get();
        stats.rx_bytes = self.rx.bytes.get();
        stats.multicast = self.rx.multicast.get();
        stats.rx_dropped = self.rx.rx_dropped.get();
        stats.rx_errors = self.rx.errors.get();
        stats.rx_crc_errors = self.rx.crc_errors.get();
        stats.rx_frame_errors = self.rx.frame_errors.get();
        stats.rx_length_errors = self.rx.length_errors.get();
        stats.rx_over_errors = self.rx_over_errors.get();
        stats.rx_fifo_errors = self.rx_fifo_errors.get();
        stats.tx_packets = self.tx.packets.get();
        stats.tx_bytes = self.tx.bytes.get();
        stats.tx_dropped = self.tx.dropped.get() + self.hw.tx_timeouts.get();
        stats.tx_carrier_errors = self.carrier_events.get() + self.hw.carrier_errors.get();
        stats.collisions = self.hw.collisions.get();
    }

    /// The names of what [`DeviceStats::list`] lists.
    pub(crate) const NAMES: &'static [&'static str] = &[
        "rx_queue_0_packets",
        "rx_queue_0_bytes",
        "rx_queue_0_mcast_packets",
        "rx_queue_0_errors",
        "rx_queue_0_crc_errors",
        "rx_queue_0_frame_errors",
        "rx_queue_0_length_errors",
        "rx_queue_0_over_errors",
        "rx_queue_0_dropped",
        "rx_queue_0_alloc_fail",
        "tx_queue_0_packets",
        "tx_queue_0_bytes",
        "tx_queue_0_dropped",
    ];

    /// Lists the statistics that ethtool shows.
    pub(crate) fn list(&self) -> [u64; Self::NAMES.len()] {
        [
            self.rx.packets.get(),
            self.rx.bytes.get(),
            self.rx.multicast.get(),
            self.rx.errors.get(),
            self.rx.crc_errors.get(),
            self.rx.frame_errors.get(),
            self.rx.length_errors.get(),
            self.rx_over_errors.get(),
            self.rx.rx_dropped.get(),
            self.rx.alloc_fail.get(),
            self.tx.packets.get(),
            self.tx.bytes.get(),
            self.tx.dropped.get(),
        ]
    }
}
