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
    prelude::*,
    sync::atomic::{
        Atomic,
        Relaxed, //
    }, //
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

/// Kinds of messages that the log gets, as the user chooses them: the C `msg_enable`.
pub(crate) struct Messages(Atomic<u32>);

impl Messages {
    /// What becomes of the link.
    pub(crate) const LINK: u32 = bindings::RAVB_RS_CONST_NETIF_MSG_LINK;
    /// Errors of transmission.
    pub(crate) const TX_ERR: u32 = bindings::RAVB_RS_CONST_NETIF_MSG_TX_ERR;

    /// Those that the log gets to begin with.
    pub(crate) const fn new(kinds: u32) -> Self {
        Self(Atomic::new(kinds))
    }

    /// Whether the log gets messages of this kind.
    pub(crate) fn has(&self, kind: u32) -> bool {
        self.0.load(Relaxed) & kind != 0
    }
}

/// What the MAC counts, by the names of IEEE 802.3 (30.3.1.1).
#[derive(Default)]
pub(crate) struct MacStatistics {
    pub(crate) frames_transmitted_ok: u64,
    pub(crate) octets_transmitted_ok: u64,
    pub(crate) frames_received_ok: u64,
    pub(crate) octets_received_ok: u64,
    pub(crate) multicast_frames_received_ok: u64,
    pub(crate) frame_check_sequence_errors: u64,
    pub(crate) carrier_sense_errors: u64,
}

/// The operations, each of them called with RTNL held.
pub(crate) trait Operations: netdev::Operations {
    /// The largest rings.
    const MAX_RING_SIZES: RingSizes;

    /// What the log gets.
    fn messages<'a>(dev: &'a Locked<'_, Self>) -> &'a Messages;

    /// The present sizes.
    fn ring_sizes(dev: &mut Locked<'_, Self>) -> RingSizes;

    /// Changes the sizes. On failure the old ones stay in force.
    fn set_ring_sizes(dev: &mut Locked<'_, Self>, sizes: RingSizes, extack: &mut Extack) -> Result;

    /// Changes how many queues of each direction are in use, of those that there are. On failure
    /// it stays as it was.
    fn set_queues(dev: &mut Locked<'_, Self>, queues: u16) -> Result;

    /// How many registers there are to dump.
    fn register_count(dev: &Locked<'_, Self>) -> usize;

    /// Dumps registers into `values`, which is zeroed.
    fn registers(dev: &mut Locked<'_, Self>, values: &mut [u32]);

    /// Whether the device wakes the system when it receives a magic packet; `None` if it cannot.
    fn wake_on_magic(dev: &Locked<'_, Self>) -> Option<bool>;

    /// Changes that; called only where it can.
    fn set_wake_on_magic(dev: &mut Locked<'_, Self>, wake: bool) -> Result;

    /// Whether PAUSE frames from the wire are obeyed; none are sent, and nothing is negotiated.
    fn obeys_pause(dev: &Locked<'_, Self>) -> bool;

    /// How many PAUSE frames were obeyed.
    fn obeyed_pauses(dev: &mut Locked<'_, Self>) -> u64;

    /// What the MAC counts.
    fn mac_statistics(dev: &mut Locked<'_, Self>) -> MacStatistics;

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
        get_msglevel: Some(Self::get_msglevel),
        set_msglevel: Some(Self::set_msglevel),
        get_ringparam: Some(Self::get_ringparam),
        set_ringparam: Some(Self::set_ringparam),
        get_channels: Some(Self::get_channels),
        set_channels: Some(Self::set_channels),
        get_regs_len: Some(Self::get_regs_len),
        get_regs: Some(Self::get_regs),
        get_wol: Some(Self::get_wol),
        set_wol: Some(Self::set_wol),
        get_pauseparam: Some(Self::get_pauseparam),
        get_pause_stats: Some(Self::get_pause_stats),
        get_eth_mac_stats: Some(Self::get_eth_mac_stats),
        self_test: Some(Self::self_test),
        get_tunable: Some(Self::get_tunable),
        set_tunable: Some(Self::set_tunable),
        get_sset_count: Some(Self::get_sset_count),
        get_strings: Some(Self::get_strings),
        get_ethtool_stats: Some(Self::get_ethtool_stats),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// As [`Self::get_ringparam`].
    unsafe extern "C" fn get_msglevel(dev: *mut bindings::net_device) -> u32 {
        // SAFETY: As the core promises.
        let dev = unsafe { Locked::<T>::assume(dev) };
        T::messages(&dev).0.load(Relaxed)
    }

    /// # Safety
    ///
    /// As [`Self::get_ringparam`].
    unsafe extern "C" fn set_msglevel(dev: *mut bindings::net_device, kinds: u32) {
        // SAFETY: As the core promises.
        let dev = unsafe { Locked::<T>::assume(dev) };
        T::messages(&dev).0.store(kinds, Relaxed);
    }

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
    /// As [`Self::get_ringparam`]; `channels` is to be filled.
    unsafe extern "C" fn get_channels(
        dev: *mut bindings::net_device,
        channels: *mut bindings::ethtool_channels,
    ) {
        // SAFETY: As the core promises.
        let (dev, channels) = unsafe { (Locked::<T>::assume(dev), &mut *channels) };
        channels.max_combined = dev.max_queues().into();
        channels.combined_count = dev.queues().into();
    }

    /// # Safety
    ///
    /// As [`Self::get_ringparam`], and `channels` is what the user asked for.
    unsafe extern "C" fn set_channels(
        dev: *mut bindings::net_device,
        channels: *mut bindings::ethtool_channels,
    ) -> c_int {
        // SAFETY: As the core promises. It has checked the maxima, of which only that of combined
        // channels is not 0, and that there is at least one.
        let (mut dev, queues) = unsafe { (Locked::<T>::assume(dev), (*channels).combined_count) };
        from_result(|| T::set_queues(&mut dev, u16::try_from(queues)?).map(|()| 0))
    }

    /// # Safety
    ///
    /// As [`Self::get_ringparam`].
    unsafe extern "C" fn get_regs_len(dev: *mut bindings::net_device) -> c_int {
        // SAFETY: As the core promises.
        let dev = unsafe { Locked::<T>::assume(dev) };
        (T::register_count(&dev) * size_of::<u32>()) as c_int
    }

    /// # Safety
    ///
    /// As [`Self::get_ringparam`], and `data` has room for `regs.len` bytes, which are not more
    /// than `get_regs_len` said, and zeroed.
    unsafe extern "C" fn get_regs(
        dev: *mut bindings::net_device,
        regs: *mut bindings::ethtool_regs,
        data: *mut c_void,
    ) {
        // SAFETY: As the core promises. Its buffer has the alignment of a page.
        let (mut dev, values) = unsafe {
            (*regs).version = 1;
            let count = (*regs).len as usize / size_of::<u32>();
            let values = core::slice::from_raw_parts_mut(data.cast::<u32>(), count);
            (Locked::<T>::assume(dev), values)
        };
        T::registers(&mut dev, values);
    }

    /// # Safety
    ///
    /// As [`Self::get_ringparam`]; `wol` is to be filled.
    unsafe extern "C" fn get_wol(
        dev: *mut bindings::net_device,
        wol: *mut bindings::ethtool_wolinfo,
    ) {
        // SAFETY: As the core promises.
        let (dev, wol) = unsafe { (Locked::<T>::assume(dev), &mut *wol) };
        if let Some(wake) = T::wake_on_magic(&dev) {
            wol.supported = bindings::WAKE_MAGIC;
            wol.wolopts = if wake { bindings::WAKE_MAGIC } else { 0 };
        }
    }

    /// # Safety
    ///
    /// As [`Self::get_ringparam`], and `wol` is what the user asked for.
    unsafe extern "C" fn set_wol(
        dev: *mut bindings::net_device,
        wol: *mut bindings::ethtool_wolinfo,
    ) -> c_int {
        // SAFETY: As the core promises.
        let (mut dev, wanted) = unsafe { (Locked::<T>::assume(dev), (*wol).wolopts) };
        from_result(|| {
            // The ioctl does not check.
            let supported = T::wake_on_magic(&dev).map_or(0, |_| bindings::WAKE_MAGIC);
            if wanted & !supported != 0 {
                return Err(EOPNOTSUPP);
            }
            T::set_wake_on_magic(&mut dev, wanted != 0).map(|()| 0)
        })
    }

    /// # Safety
    ///
    /// As [`Self::get_ringparam`]; `pause` is to be filled.
    unsafe extern "C" fn get_pauseparam(
        dev: *mut bindings::net_device,
        pause: *mut bindings::ethtool_pauseparam,
    ) {
        // SAFETY: As the core promises.
        let (dev, pause) = unsafe { (Locked::<T>::assume(dev), &mut *pause) };
        pause.rx_pause = T::obeys_pause(&dev).into();
    }

    /// # Safety
    ///
    /// As [`Self::get_ringparam`]; `stats` is to be filled.
    unsafe extern "C" fn get_pause_stats(
        dev: *mut bindings::net_device,
        stats: *mut bindings::ethtool_pause_stats,
    ) {
        // SAFETY: As the core promises.
        let mut dev = unsafe { Locked::<T>::assume(dev) };
        // SAFETY: As the core promises; the group of fields is in a union with itself.
        let to = unsafe { &mut (*stats).__bindgen_anon_1.__bindgen_anon_1 };
        to.rx_pause_frames = T::obeyed_pauses(&mut dev);
    }

    /// # Safety
    ///
    /// As [`Self::get_ringparam`]; `stats` is to be filled.
    unsafe extern "C" fn get_eth_mac_stats(
        dev: *mut bindings::net_device,
        stats: *mut bindings::ethtool_eth_mac_stats,
    ) {
        // SAFETY: As the core promises.
        let mut dev = unsafe { Locked::<T>::assume(dev) };
        // SAFETY: As the core promises; the group of fields is in a union with itself.
        let to = unsafe { &mut (*stats).__bindgen_anon_1.__bindgen_anon_1 };
        let from = T::mac_statistics(&mut dev);
        to.FramesTransmittedOK = from.frames_transmitted_ok;
        to.OctetsTransmittedOK = from.octets_transmitted_ok;
        to.FramesReceivedOK = from.frames_received_ok;
        to.OctetsReceivedOK = from.octets_received_ok;
        to.MulticastFramesReceivedOK = from.multicast_frames_received_ok;
        to.FrameCheckSequenceErrors = from.frame_check_sequence_errors;
        to.CarrierSenseErrors = from.carrier_sense_errors;
    }

    /// Sends frames in a loop through the PHY.
    ///
    /// One of them has a wrong checksum, which a device that computes checksums would repair: it
    /// computes none meanwhile.
    ///
    /// # Safety
    ///
    /// As [`Self::get_ringparam`]; `test` is what the user asked for, and `values` has room for as
    /// many results as `get_sset_count` said.
    unsafe extern "C" fn self_test(
        dev: *mut bindings::net_device,
        test: *mut bindings::ethtool_test,
        values: *mut u64,
    ) {
        // SAFETY: As the core promises; RTNL protects the features.
        unsafe {
            let wanted = (*dev).wanted_features;
            (*dev).wanted_features &= !bindings::RAVB_RS_CONST_NETIF_F_HW_CSUM;
            bindings::netdev_update_features(dev);
            bindings::ravb_helper_net_selftest(dev, test, values);
            (*dev).wanted_features = wanted;
            bindings::netdev_update_features(dev);
        }
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
        match set.unsigned_abs() {
            bindings::ethtool_stringset::ETH_SS_STATS => {
                // SAFETY: As the core promises.
                T::statistic_names(&unsafe { Locked::assume(dev) }).len() as c_int
            }
            // SAFETY: No requirements.
            bindings::ethtool_stringset::ETH_SS_TEST => unsafe {
                bindings::ravb_helper_net_selftest_get_count()
            },
            _ => EOPNOTSUPP.to_errno(),
        }
    }

    /// # Safety
    ///
    /// As [`Self::get_ringparam`], and `names` has room for as many as `get_sset_count` said.
    unsafe extern "C" fn get_strings(dev: *mut bindings::net_device, set: u32, names: *mut u8) {
        if set == bindings::ethtool_stringset::ETH_SS_TEST {
            // SAFETY: Room for as many names as the function before said.
            return unsafe { bindings::ravb_helper_net_selftest_get_strings(names) };
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
