// SPDX-License-Identifier: GPL-2.0

//! Statistics.

use crate::{
    net::{
        ethtool::MacStatistics,
        netdev,
        stats::Counter, //
    },
    ravb_desc::RxError,
    ravb_hw::{
        QueueId,
        Trailer,
        MAX_QUEUES, //
    }, //
};

/// What is counted for a receive queue. The writer is the NAPI context, but for one.
pub(crate) struct RxStats {
    /// Passed up.
    pub(crate) packets: Counter,
    /// Of the frames passed up, with their Ethernet headers.
    pub(crate) bytes: Counter,
    pub(crate) multicast: Counter,
    /// Lost for want of memory.
    pub(crate) dropped: Counter,
    /// Allocations that failed.
    pub(crate) alloc_fail: Counter,
    /// Frames lost because the ring had no free descriptor, or rather the times that happened; the
    /// writer is an interrupt handler.
    pub(crate) over_errors: Counter,
    /// Passed up with the sum of the hardware.
    pub(crate) csum_complete: Counter,
    /// Passed up as verified by the hardware.
    pub(crate) csum_unnecessary: Counter,
    /// Passed up without a word of the hardware.
    pub(crate) csum_none: Counter,
    errors: Counter,
    crc_errors: Counter,
    frame_errors: Counter,
    length_errors: Counter,
}

impl RxStats {
    const fn new() -> Self {
        Self {
            packets: Counter::new(),
            bytes: Counter::new(),
            multicast: Counter::new(),
            dropped: Counter::new(),
            alloc_fail: Counter::new(),
            over_errors: Counter::new(),
            csum_complete: Counter::new(),
            csum_unnecessary: Counter::new(),
            csum_none: Counter::new(),
            errors: Counter::new(),
            crc_errors: Counter::new(),
            frame_errors: Counter::new(),
            length_errors: Counter::new(),
        }
    }

    /// Counts what a poll passed up, of `frames` that it found.
    #[inline]
    pub(crate) fn count_passed(&self, frames: u64, passed: &RxPassed, trailer: Trailer) {
        // Polls without frames are many, and some counters seldom change.
        let packets = frames.saturating_sub(passed.refused);
        if packets == 0 {
            return;
        }
        self.packets.add(packets);
        self.bytes.add(passed.sums & RxPassed::BYTES);
        let multicast = passed.sums >> RxPassed::MULTICAST_SHIFT;
        if multicast != 0 {
            self.multicast.add(multicast);
        }
        let checksums = match trailer {
            Trailer::Verdicts => &self.csum_unnecessary,
            Trailer::Sum => &self.csum_complete,
        };
        if passed.checksums != 0 {
            checksums.add(passed.checksums);
        }
        let none = packets.saturating_sub(passed.checksums);
        if none != 0 {
            self.csum_none.add(none);
        }
    }

    /// Counts a frame that is not passed up.
    #[cold]
    pub(crate) fn count_error(&self, error: RxError) {
        self.errors.add(1);
        match error {
            RxError::Crc => self.crc_errors.add(1),
            RxError::Frame | RxError::Carrier => self.frame_errors.add(1),
            RxError::Length | RxError::Incomplete => self.length_errors.add(1),
        }
    }
}

/// What one poll of a receive queue passed up, as in [`RxStats`]. Adding that up first spares the
/// atomic counters an access for each frame.
#[derive(Default)]
pub(crate) struct RxPassed {
    /// Frames that were not passed up.
    refused: u64,
    /// Of the others, the bytes, and above them the number that were multicast: one sum is kept in
    /// memory, not two. No poll has so many frames that they meet.
    sums: u64,
    /// Of the frames, those with a word of the hardware.
    checksums: u64,
}

// These additions cannot overflow, and are not checked for it: they are made for each frame.
impl RxPassed {
    const MULTICAST_SHIFT: u32 = 40;
    const BYTES: u64 = (1 << Self::MULTICAST_SHIFT) - 1;

    /// A frame was passed up.
    #[inline]
    pub(crate) fn count(&mut self, bytes: u64, multicast: bool) {
        let multicast = u64::from(multicast) << Self::MULTICAST_SHIFT;
        self.sums = self.sums.wrapping_add(bytes).wrapping_add(multicast);
    }

    /// A frame was not passed up.
    pub(crate) fn refuse(&mut self) {
        self.refused = self.refused.wrapping_add(1);
    }

    /// The hardware had something to say of its checksum.
    #[inline]
    pub(crate) fn count_checksum(&mut self) {
        self.checksums = self.checksums.wrapping_add(1);
    }
}

/// What is counted for a transmit queue.
pub(crate) struct TxStats {
    /// Transmitted; the writer holds the lock of the reclaimer.
    pub(crate) packets: Counter,
    /// Transmitted; the writer holds the lock of the reclaimer.
    pub(crate) bytes: Counter,
    /// Dropped; the writer holds the lock of the queue.
    pub(crate) dropped: Counter,
    /// Stopped because it was full; the writer holds the lock of the queue.
    pub(crate) stops: Counter,
    /// Woken; the writer holds the lock of the reclaimer.
    pub(crate) wakes: Counter,
}

impl TxStats {
    const fn new() -> Self {
        Self {
            packets: Counter::new(),
            bytes: Counter::new(),
            dropped: Counter::new(),
            stops: Counter::new(),
            wakes: Counter::new(),
        }
    }
}

/// What the hardware counts, and forgets when it is read; the writer holds the lock of the E-MAC.
pub(crate) struct HwCounters {
    pub(crate) tx_timeouts: Counter,
    pub(crate) collisions: Counter,
    pub(crate) carrier_errors: Counter,
    pub(crate) rx_crc_errors: Counter,
    pub(crate) rx_frame_errors: Counter,
    pub(crate) rx_length_errors: Counter,
    pub(crate) rx_pause: Counter,
}

/// All that is counted for a device.
pub(crate) struct DeviceStats {
    rx: [RxStats; MAX_QUEUES],
    tx: [TxStats; MAX_QUEUES],
    /// Times that frames were lost because the receive FIFO was full; the writer is an interrupt
    /// handler.
    pub(crate) rx_fifo_errors: Counter,
    /// Times that a transmit queue was stuck; the writer is the watchdog.
    pub(crate) tx_errors: Counter,
    /// Times that the carrier was lost or false; the writer is an interrupt handler.
    pub(crate) carrier_events: Counter,
    pub(crate) hw: HwCounters,
}

impl DeviceStats {
    pub(crate) const fn new() -> Self {
        Self {
            rx: [const { RxStats::new() }; MAX_QUEUES],
            tx: [const { TxStats::new() }; MAX_QUEUES],
            rx_fifo_errors: Counter::new(),
            tx_errors: Counter::new(),
            carrier_events: Counter::new(),
            hw: HwCounters {
                tx_timeouts: Counter::new(),
                collisions: Counter::new(),
                carrier_errors: Counter::new(),
                rx_crc_errors: Counter::new(),
                rx_frame_errors: Counter::new(),
                rx_length_errors: Counter::new(),
                rx_pause: Counter::new(),
            },
        }
    }

    /// Those of a receive queue.
    #[inline]
    pub(crate) fn rx(&self, queue: QueueId) -> &RxStats {
        &self.rx[queue.slot()]
    }

    /// Those of a transmit queue.
    #[inline]
    pub(crate) fn tx(&self, queue: QueueId) -> &TxStats {
        &self.tx[queue.slot()]
    }

    /// Fills in what the core asks for.
    pub(crate) fn fill(&self, stats: &mut netdev::Stats) {
        for rx in &self.rx {
            stats.rx_packets += rx.packets.get();
            stats.rx_bytes += rx.bytes.get();
            stats.multicast += rx.multicast.get();
            stats.rx_dropped += rx.dropped.get();
            stats.rx_errors += rx.errors.get();
            stats.rx_crc_errors += rx.crc_errors.get();
            stats.rx_frame_errors += rx.frame_errors.get();
            stats.rx_length_errors += rx.length_errors.get();
            stats.rx_over_errors += rx.over_errors.get();
        }
        for tx in &self.tx {
            stats.tx_packets += tx.packets.get();
            stats.tx_bytes += tx.bytes.get();
            stats.tx_dropped += tx.dropped.get();
        }
        let hw = &self.hw;
        stats.rx_crc_errors += hw.rx_crc_errors.get();
        stats.rx_frame_errors += hw.rx_frame_errors.get();
        stats.rx_length_errors += hw.rx_length_errors.get();
        stats.rx_errors +=
            hw.rx_crc_errors.get() + hw.rx_frame_errors.get() + hw.rx_length_errors.get();
        stats.rx_fifo_errors = self.rx_fifo_errors.get();
        stats.tx_errors = self.tx_errors.get();
        stats.tx_dropped += hw.tx_timeouts.get();
        stats.tx_carrier_errors = self.carrier_events.get() + hw.carrier_errors.get();
        stats.collisions = hw.collisions.get();
    }

    /// What the MAC counts. Octets are those behind the Ethernet header, as the standard has it.
    pub(crate) fn of_mac(&self) -> MacStatistics {
        const HEADER: u64 = 14;
        let mut stats = MacStatistics {
            frame_check_sequence_errors: self.hw.rx_crc_errors.get(),
            carrier_sense_errors: self.hw.carrier_errors.get(),
            ..MacStatistics::default()
        };

        for rx in &self.rx {
            let packets = rx.packets.get();
            stats.frames_received_ok += packets;
            stats.octets_received_ok += rx.bytes.get().saturating_sub(HEADER * packets);
            stats.multicast_frames_received_ok += rx.multicast.get();
            stats.frame_check_sequence_errors += rx.crc_errors.get();
        }
        for tx in &self.tx {
            let packets = tx.packets.get();
            stats.frames_transmitted_ok += packets;
            stats.octets_transmitted_ok += tx.bytes.get().saturating_sub(HEADER * packets);
        }
        stats
    }

    /// Lists what ethtool shows of a queue, in the order of [`NAMES`].
    fn list(&self, queue: QueueId) -> [u64; COUNT] {
        let rx = self.rx(queue);
        let tx = self.tx(queue);
        [
            rx.packets.get(),
            rx.bytes.get(),
            rx.multicast.get(),
            rx.errors.get(),
            rx.crc_errors.get(),
            rx.frame_errors.get(),
            rx.length_errors.get(),
            rx.over_errors.get(),
            rx.dropped.get(),
            rx.alloc_fail.get(),
            tx.packets.get(),
            tx.bytes.get(),
            tx.dropped.get(),
        ]
    }

    /// Fills in what ethtool shows, one value for each of [`names`].
    pub(crate) fn list_all(&self, values: &mut [u64]) {
        for (queue, values) in QueueId::all().zip(values.chunks_mut(COUNT)) {
            for (value, counter) in values.iter_mut().zip(self.list(queue)) {
                *value = counter;
            }
        }
    }
}

/// How many statistics ethtool shows of a queue.
const COUNT: usize = 13;

/// The names of the statistics of all queues.
const NAMES: [&str; COUNT * MAX_QUEUES] = [
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
    "rx_queue_1_packets",
    "rx_queue_1_bytes",
    "rx_queue_1_mcast_packets",
    "rx_queue_1_errors",
    "rx_queue_1_crc_errors",
    "rx_queue_1_frame_errors",
    "rx_queue_1_length_errors",
    "rx_queue_1_over_errors",
    "rx_queue_1_dropped",
    "rx_queue_1_alloc_fail",
    "tx_queue_1_packets",
    "tx_queue_1_bytes",
    "tx_queue_1_dropped",
];

/// The names of the statistics of a device with this many queues.
pub(crate) fn names(queues: u16) -> &'static [&'static str] {
    let count = COUNT * usize::from(queues);
    NAMES.get(..count).unwrap_or(&NAMES)
}
