// SPDX-License-Identifier: GPL-2.0

//! What `ethtool` shows and changes, and what netlink shows of the queues.

use kernel::{
    prelude::*,
    sync::atomic::Relaxed, //
};

use crate::{
    net::{
        ethtool::{
            Extack,
            MacStatistics,
            Messages,
            Operations,
            RingSizes, //
        },
        netdev::Locked,
        pm,
        qstats, //
    },
    ravb_hw::{
        QueueId,
        Regs, //
    },
    ravb_stats,
    Ravb, //
};

/// The smallest rings: fewer slots are not enough for a burst.
const MIN_RING_SIZES: RingSizes = RingSizes { rx: 64, tx: 64 };

/// Longer frames are never copied, in bytes.
const MAX_RX_COPYBREAK: u32 = 1024;

impl Operations for Ravb<'_> {
    const MAX_RING_SIZES: RingSizes = RingSizes { rx: 2048, tx: 1024 };

    fn messages<'a>(dev: &'a Locked<'_, Self>) -> &'a Messages {
        &dev.messages
    }

    fn ring_sizes(dev: &mut Locked<'_, Self>) -> RingSizes {
        dev.state().ring_sizes
    }

    fn set_ring_sizes(dev: &mut Locked<'_, Self>, sizes: RingSizes, extack: &mut Extack) -> Result {
        if sizes.rx < MIN_RING_SIZES.rx || sizes.tx < MIN_RING_SIZES.tx {
            extack.set(c"rings need at least 64 descriptors");
            return Err(EINVAL);
        }
        crate::replace_rings(dev, sizes)
            .inspect_err(|_| extack.set(c"the new rings could not be set up"))
    }

    fn set_queues(dev: &mut Locked<'_, Self>, queues: u16) -> Result {
        crate::set_queues(dev, queues)
    }

    fn register_count(dev: &Locked<'_, Self>) -> usize {
        dev.hw.words()
    }

    fn registers(dev: &mut Locked<'_, Self>, values: &mut [u32]) {
        // Also while the interface is down. Where the device cannot be resumed, there is nothing to
        // show.
        if let Ok(regs) = Regs::new(&dev.hw) {
            regs.dump(values);
        }
    }

    fn wake_on_magic(dev: &Locked<'_, Self>) -> Option<bool> {
        dev.wakeup.map(pm::Wakeup::is_enabled)
    }

    fn set_wake_on_magic(dev: &mut Locked<'_, Self>, wake: bool) -> Result {
        dev.wakeup.map_or(Ok(()), |wakeup| wakeup.set(wake))
    }

    fn obeys_pause(dev: &Locked<'_, Self>) -> bool {
        dev.hw.obeys_pause()
    }

    fn obeyed_pauses(dev: &mut Locked<'_, Self>) -> u64 {
        dev.stats().hw.rx_pause.get()
    }

    fn mac_statistics(dev: &mut Locked<'_, Self>) -> MacStatistics {
        dev.stats().of_mac()
    }

    fn rx_copybreak(dev: &Locked<'_, Self>) -> u32 {
        dev.rx_copybreak.load(Relaxed)
    }

    fn set_rx_copybreak(dev: &mut Locked<'_, Self>, len: u32) -> Result {
        if len > MAX_RX_COPYBREAK {
            return Err(ERANGE);
        }
        dev.rx_copybreak.store(len, Relaxed);
        Ok(())
    }

    fn statistic_names(dev: &Locked<'_, Self>) -> &'static [&'static str] {
        ravb_stats::names(dev.hw.variant.queues)
    }

    fn statistics(dev: &mut Locked<'_, Self>, values: &mut [u64]) {
        dev.stats.list_all(values);
    }
}

impl qstats::Operations for Ravb<'_> {
    fn rx(dev: &Locked<'_, Self>, queue: u16) -> qstats::Rx {
        let Some(queue) = QueueId::all().nth(usize::from(queue)) else {
            return qstats::Rx::default();
        };
        let stats = dev.stats.rx(queue);
        qstats::Rx {
            bytes: stats.bytes.get(),
            packets: stats.packets.get(),
            alloc_fail: stats.alloc_fail.get(),
            csum_complete: stats.csum_complete.get(),
            csum_unnecessary: stats.csum_unnecessary.get(),
            csum_none: stats.csum_none.get(),
        }
    }

    fn tx(dev: &Locked<'_, Self>, queue: u16) -> qstats::Tx {
        let Some(queue) = QueueId::all().nth(usize::from(queue)) else {
            return qstats::Tx::default();
        };
        let stats = dev.stats.tx(queue);
        qstats::Tx {
            bytes: stats.bytes.get(),
            packets: stats.packets.get(),
            stop: stats.stops.get(),
            wake: stats.wakes.get(),
        }
    }
}
