// SPDX-License-Identifier: GPL-2.0

//! Statistics of queues, as netlink shows them (`qstats-get` of the family netdev).
//!
//! C header: [`include/net/netdev_queues.h`](srctree/include/net/netdev_queues.h)

use core::marker::PhantomData;

use kernel::ffi::c_int;

use super::netdev::{
    self,
    Locked, //
};
use crate::bindings;

/// Statistics of a receive queue, since the device was registered.
#[derive(Default)]
pub(crate) struct Rx {
    /// Of the frames passed up.
    pub(crate) bytes: u64,
    /// Passed up.
    pub(crate) packets: u64,
    /// Allocations that failed.
    pub(crate) alloc_fail: u64,
    /// Frames that the hardware summed up.
    pub(crate) csum_complete: u64,
    /// Frames whose checksum the hardware found right.
    pub(crate) csum_unnecessary: u64,
    /// Frames that it says nothing about.
    pub(crate) csum_none: u64,
}

/// Statistics of a transmit queue, since the device was registered.
#[derive(Default)]
pub(crate) struct Tx {
    /// Transmitted.
    pub(crate) bytes: u64,
    /// Transmitted.
    pub(crate) packets: u64,
    /// Times that the queue was stopped because it was full.
    pub(crate) stop: u64,
    /// Times that it was woken.
    pub(crate) wake: u64,
}

/// A device that keeps statistics of its queues. Called with RTNL held.
pub(crate) trait Operations: netdev::Operations {
    /// Those of a receive queue.
    fn rx(dev: &Locked<'_, Self>, queue: u16) -> Rx;

    /// Those of a transmit queue.
    fn tx(dev: &Locked<'_, Self>, queue: u16) -> Tx;
}

impl Rx {
    fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            packets: self.packets + other.packets,
            alloc_fail: self.alloc_fail + other.alloc_fail,
            csum_complete: self.csum_complete + other.csum_complete,
            csum_unnecessary: self.csum_unnecessary + other.csum_unnecessary,
            csum_none: self.csum_none + other.csum_none,
        }
    }

    fn write(&self, stats: &mut bindings::netdev_queue_stats_rx) {
        stats.bytes = self.bytes;
        stats.packets = self.packets;
        stats.alloc_fail = self.alloc_fail;
        stats.csum_complete = self.csum_complete;
        stats.csum_unnecessary = self.csum_unnecessary;
        stats.csum_none = self.csum_none;
    }
}

impl Tx {
    fn plus(self, other: Self) -> Self {
        Self {
            bytes: self.bytes + other.bytes,
            packets: self.packets + other.packets,
            stop: self.stop + other.stop,
            wake: self.wake + other.wake,
        }
    }

    fn write(&self, stats: &mut bindings::netdev_queue_stats_tx) {
        stats.bytes = self.bytes;
        stats.packets = self.packets;
        stats.stop = self.stop;
        stats.wake = self.wake;
    }
}

/// The callbacks of the core.
pub(super) struct Adapter<T: Operations>(PhantomData<T>);

impl<T: Operations> Adapter<T> {
    pub(super) const OPS: bindings::netdev_stat_ops = bindings::netdev_stat_ops {
        get_queue_stats_rx: Some(Self::get_queue_stats_rx),
        get_queue_stats_tx: Some(Self::get_queue_stats_tx),
        get_base_stats: Some(Self::get_base_stats),
    };

    /// # Safety
    ///
    /// Called by the core with RTNL held, for a device of type `T`, as all of these; `stats` is to
    /// be filled.
    unsafe extern "C" fn get_queue_stats_rx(
        dev: *mut bindings::net_device,
        queue: c_int,
        stats: *mut bindings::netdev_queue_stats_rx,
    ) {
        // SAFETY: As the core promises.
        let (dev, stats) = unsafe { (Locked::<T>::assume(dev), &mut *stats) };
        T::rx(&dev, queue.unsigned_abs() as u16).write(stats);
    }

    /// # Safety
    ///
    /// As [`Self::get_queue_stats_rx`].
    unsafe extern "C" fn get_queue_stats_tx(
        dev: *mut bindings::net_device,
        queue: c_int,
        stats: *mut bindings::netdev_queue_stats_tx,
    ) {
        // SAFETY: As the core promises.
        let (dev, stats) = unsafe { (Locked::<T>::assume(dev), &mut *stats) };
        T::tx(&dev, queue.unsigned_abs() as u16).write(stats);
    }

    /// What queues counted that are not in use any more.
    ///
    /// # Safety
    ///
    /// As [`Self::get_queue_stats_rx`].
    unsafe extern "C" fn get_base_stats(
        dev: *mut bindings::net_device,
        rx: *mut bindings::netdev_queue_stats_rx,
        tx: *mut bindings::netdev_queue_stats_tx,
    ) {
        // SAFETY: As the core promises.
        let (dev, rx, tx) = unsafe { (Locked::<T>::assume(dev), &mut *rx, &mut *tx) };
        let unused = dev.queues()..dev.max_queues();
        unused
            .clone()
            .fold(Rx::default(), |sum, queue| sum.plus(T::rx(&dev, queue)))
            .write(rx);
        unused
            .fold(Tx::default(), |sum, queue| sum.plus(T::tx(&dev, queue)))
            .write(tx);
    }
}
