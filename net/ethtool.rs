// SPDX-License-Identifier: GPL-2.0

//! What `ethtool` asks of a network device.
//!
//! C header: [`include/linux/ethtool.h`](srctree/include/linux/ethtool.h)

use core::marker::PhantomData;

use kernel::{
    error::from_result,
    ffi::{
        c_int,
        c_void, //
    },
    prelude::*, //
};

use super::netdev::{
    self,
    Locked, //
};
use crate::bindings;

/// Numbers of descriptors, or of frames, that the rings hold.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct RingSizes {
    /// Receive ring of each queue.
    pub(crate) rx: u32,
    /// Transmit ring of each queue.
    pub(crate) tx: u32,
}

/// The length of the name of a statistic, with its terminator.
const NAME_LEN: usize = 32;

/// Why a request was refused, for the user to read.
pub(crate) struct Extack(*mut bindings::netlink_ext_ack);

impl Extack {
    /// Sets the message.
    pub(crate) fn set(&mut self, message: &'static CStr) {
        // SAFETY: The pointer is null or valid for the request; messages live for ever.
        if let Some(extack) = unsafe { self.0.as_mut() } {
            extack._msg = message.as_char_ptr();
        }
    }
}

/// The operations, each of them called with RTNL held.
pub(crate) trait Operations: netdev::Operations {
    /// The largest rings.
    const MAX_RING_SIZES: RingSizes;

    /// The present sizes.
    fn ring_sizes(dev: &mut Locked<'_, Self>) -> RingSizes;

    /// Changes the sizes. On failure the old ones stay in force.
    fn set_ring_sizes(dev: &mut Locked<'_, Self>, sizes: RingSizes, extack: &mut Extack) -> Result;

    /// The longest frame that is copied when it is received, in bytes; 0 copies none.
    fn rx_copybreak(dev: &Locked<'_, Self>) -> u32;

    /// Changes it.
    fn set_rx_copybreak(dev: &mut Locked<'_, Self>, len: u32) -> Result;

    /// The names of the statistics of [`Operations::statistics`], in its order. The number of them
    /// never changes.
    fn statistic_names(dev: &Locked<'_, Self>) -> &'static [&'static str];

    /// Fills in the statistics, one for each name.
    fn statistics(dev: &mut Locked<'_, Self>, values: &mut [u64]);
}

/// The callbacks of the core.
pub(super) struct Adapter<T: Operations>(PhantomData<T>);

impl<T: Operations> Adapter<T> {
    pub(super) const OPS: bindings::ethtool_ops = bindings::ethtool_ops {
        get_link: Some(bindings::ethtool_op_get_link),
        get_link_ksettings: Some(bindings::phy_ethtool_get_link_ksettings),
        set_link_ksettings: Some(bindings::phy_ethtool_set_link_ksettings),
        nway_reset: Some(bindings::phy_ethtool_nway_reset),
        get_ts_info: Some(bindings::ethtool_op_get_ts_info),
        get_ringparam: Some(Self::get_ringparam),
        set_ringparam: Some(Self::set_ringparam),
        get_tunable: Some(Self::get_tunable),
        set_tunable: Some(Self::set_tunable),
        get_sset_count: Some(Self::get_sset_count),
        get_strings: Some(Self::get_strings),
        get_ethtool_stats: Some(Self::get_ethtool_stats),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// Called by the core with RTNL held, for a device of type `T`, as all callbacks here; `ring`
    /// is to be filled.
    unsafe extern "C" fn get_ringparam(
        dev: *mut bindings::net_device,
        ring: *mut bindings::ethtool_ringparam,
        _kernel: *mut bindings::kernel_ethtool_ringparam,
        _extack: *mut bindings::netlink_ext_ack,
    ) {
        // SAFETY: As the core promises.
        let (mut dev, ring) = unsafe { (Locked::<T>::assume(dev), &mut *ring) };
        let sizes = T::ring_sizes(&mut dev);
        ring.rx_max_pending = T::MAX_RING_SIZES.rx;
        ring.tx_max_pending = T::MAX_RING_SIZES.tx;
        ring.rx_pending = sizes.rx;
        ring.tx_pending = sizes.tx;
    }

    /// # Safety
    ///
    /// As [`Self::get_ringparam`], and `ring` is what the user asked for.
    unsafe extern "C" fn set_ringparam(
        dev: *mut bindings::net_device,
        ring: *mut bindings::ethtool_ringparam,
        _kernel: *mut bindings::kernel_ethtool_ringparam,
        extack: *mut bindings::netlink_ext_ack,
    ) -> c_int {
        // SAFETY: As the core promises. It has checked the maxima, and that only the two sizes
        // that the device has are asked for.
        let (mut dev, ring) = unsafe { (Locked::<T>::assume(dev), &*ring) };
        let sizes = RingSizes {
            rx: ring.rx_pending,
            tx: ring.tx_pending,
        };
        from_result(|| T::set_ring_sizes(&mut dev, sizes, &mut Extack(extack)).map(|()| 0))
    }

    /// # Safety
    ///
    /// As [`Self::get_ringparam`], and `value` has room for a tunable of the type that `tunable`
    /// says.
    unsafe extern "C" fn get_tunable(
        dev: *mut bindings::net_device,
        tunable: *const bindings::ethtool_tunable,
        value: *mut c_void,
    ) -> c_int {
        // SAFETY: As the core promises; it has checked that the type goes with the tunable.
        let (dev, id) = unsafe { (Locked::<T>::assume(dev), (*tunable).id) };
        if id != bindings::tunable_id::ETHTOOL_RX_COPYBREAK {
            return EOPNOTSUPP.to_errno();
        }
        // SAFETY: This tunable is a `u32`.
        unsafe { value.cast::<u32>().write_unaligned(T::rx_copybreak(&dev)) };
        0
    }

    /// # Safety
    ///
    /// As [`Self::get_tunable`], and `value` holds what the user wants.
    unsafe extern "C" fn set_tunable(
        dev: *mut bindings::net_device,
        tunable: *const bindings::ethtool_tunable,
        value: *const c_void,
    ) -> c_int {
        // SAFETY: As the core promises; it has checked that the type goes with the tunable.
        let (mut dev, id) = unsafe { (Locked::<T>::assume(dev), (*tunable).id) };
        if id != bindings::tunable_id::ETHTOOL_RX_COPYBREAK {
            return EOPNOTSUPP.to_errno();
        }
        // SAFETY: This tunable is a `u32`.
        let len = unsafe { value.cast::<u32>().read_unaligned() };
        from_result(|| T::set_rx_copybreak(&mut dev, len).map(|()| 0))
    }

    /// # Safety
    ///
    /// As [`Self::get_ringparam`].
    unsafe extern "C" fn get_sset_count(dev: *mut bindings::net_device, set: c_int) -> c_int {
        if set.unsigned_abs() == bindings::ethtool_stringset::ETH_SS_STATS {
            // SAFETY: As the core promises.
            T::statistic_names(&unsafe { Locked::assume(dev) }).len() as c_int
        } else {
            EOPNOTSUPP.to_errno()
        }
    }

    /// # Safety
    ///
    /// As [`Self::get_ringparam`], and `names` has room for as many as `get_sset_count` said.
    unsafe extern "C" fn get_strings(dev: *mut bindings::net_device, set: u32, names: *mut u8) {
        if set != bindings::ethtool_stringset::ETH_SS_STATS {
            return;
        }
        // SAFETY: As the core promises.
        let dev = unsafe { Locked::<T>::assume(dev) };
        for (i, name) in T::statistic_names(&dev).iter().enumerate() {
            let len = name.len().min(NAME_LEN - 1);
            // SAFETY: Room for this many names; the core zeroed it, which terminates the name.
            unsafe { core::ptr::copy_nonoverlapping(name.as_ptr(), names.add(i * NAME_LEN), len) };
        }
    }

    /// # Safety
    ///
    /// As [`Self::get_ringparam`], and `values` has room for as many as `get_sset_count` said.
    unsafe extern "C" fn get_ethtool_stats(
        dev: *mut bindings::net_device,
        _stats: *mut bindings::ethtool_stats,
        values: *mut u64,
    ) {
        // SAFETY: As the core promises.
        let mut dev = unsafe { Locked::<T>::assume(dev) };
        let count = T::statistic_names(&dev).len();
        // SAFETY: As the core promises.
        T::statistics(&mut dev, unsafe {
            core::slice::from_raw_parts_mut(values, count)
        });
    }
}
