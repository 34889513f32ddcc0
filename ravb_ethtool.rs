// SPDX-License-Identifier: GPL-2.0

//! What `ethtool` shows and changes.

use kernel::prelude::*;

use crate::{
    net::{
        ethtool::{
            Extack,
            Operations,
            RingSizes, //
        },
        netdev::Locked, //
    },
    ravb_stats,
    Ravb, //
};

/// The smallest rings: fewer slots are not enough for a burst.
const MIN_RING_SIZES: RingSizes = RingSizes { rx: 64, tx: 64 };

impl Operations for Ravb<'_> {
    const MAX_RING_SIZES: RingSizes = RingSizes { rx: 2048, tx: 1024 };

    fn ring_sizes(dev: &mut Locked<'_, Self>) -> RingSizes {
        dev.state().ring_sizes
    }

    fn set_ring_sizes(dev: &mut Locked<'_, Self>, sizes: RingSizes, extack: &mut Extack) -> Result {
        if sizes.rx < MIN_RING_SIZES.rx || sizes.tx < MIN_RING_SIZES.tx {
            extack.set(c"rings need at least 64 descriptors");
            return Err(EINVAL);
        }
        crate::resize_rings(dev, sizes)
            .inspect_err(|_| extack.set(c"the new rings could not be set up"))
    }

    fn statistic_names(dev: &Locked<'_, Self>) -> &'static [&'static str] {
        ravb_stats::names(dev.hw.variant.queues)
    }

    fn statistics(dev: &mut Locked<'_, Self>, values: &mut [u64]) {
        dev.stats.list_all(values);
    }
}
