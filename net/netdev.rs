// SPDX-License-Identifier: GPL-2.0

//! Network devices.
//!
//! The private data of a device has three parts, and who may touch them is in the types:
//!
//! - the [`Operations`] value itself, which all callbacks share;
//! - its [`State`](Operations::State), for the holder of RTNL: [`Locked`];
//! - one [`TxQueue`](Operations::TxQueue) for each transmit queue, for the holder of the lock of
//!   that queue, which the core takes around [`Operations::start_xmit`].
//!
//! The core would rather hold the lock of the device alone around the operations
//! (`request_ops_lock`), but Linux 7.3 refuses to attach a PHY to a device that asks for that: the
//! topology of PHYs is protected by RTNL. So it is RTNL that [`Locked`] stands for; when phylib
//! follows, it will be the lock of the device, and no driver will notice.
//!
//! C header: [`include/linux/netdevice.h`](srctree/include/linux/netdevice.h)

use core::{
    cell::UnsafeCell,
    marker::PhantomData,
    mem::ManuallyDrop,
    ops::Deref,
    ptr::NonNull, //
};

use kernel::{
    container_of,
    device::{
        Bound,
        Device, //
    },
    error::{
        from_result,
        to_result, //
    },
    ffi::{
        c_int,
        c_void, //
    },
    prelude::*,
    types::Opaque, //
};

use super::{
    device,
    ethtool,
    qstats,
    ring_index::Gate,
    skbuff::{
        drop_reason,
        SkBuff, //
    }, //
};
use crate::bindings;

/// How many transmit queues a device may have.
pub(crate) const MAX_TX_QUEUES: usize = 2;

/// An Ethernet address.
pub(crate) type MacAddress = [u8; 6];

/// Features of a device, a subset of the C `netdev_features_t`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Features(u64);

impl Features {
    /// The device verifies checksums of received frames.
    pub(crate) const RX_CHECKSUM: Self = Self(bindings::RAVB_RS_CONST_NETIF_F_RXCSUM);
    /// The device gathers transmitted frames from several pieces of memory.
    pub(crate) const SCATTER_GATHER: Self = Self(bindings::RAVB_RS_CONST_NETIF_F_SG);
    /// The device computes checksums of transmitted frames.
    pub(crate) const TX_CHECKSUM: Self = Self(bindings::RAVB_RS_CONST_NETIF_F_HW_CSUM);
    /// The device receives damaged frames, too.
    pub(crate) const RX_ALL: Self = Self(bindings::RAVB_RS_CONST_NETIF_F_RXALL);
    /// None.
    pub(crate) const NONE: Self = Self(0);

    /// The device sends packets of TCP and UDP in [segments](super::segments).
    pub(crate) const SEGMENTATION: Self = Self(
        bindings::RAVB_RS_CONST_NETIF_F_TSO
            | bindings::RAVB_RS_CONST_NETIF_F_TSO6
            | bindings::RAVB_RS_CONST_NETIF_F_GSO_UDP_L4,
    );

    /// Both sets together.
    pub(crate) const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// What is in the set, but not in `other`.
    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all of `other` are in the set.
    pub(crate) const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// How many CPUs there are.
pub(crate) fn present_cpus() -> u32 {
    // SAFETY: No requirements.
    unsafe { bindings::ravb_helper_num_present_cpus() }
}

/// What became of a packet that the core wanted to transmit.
pub(crate) enum Xmit {
    /// It is the driver's: to be transmitted, or dropped and counted.
    Ok,
    /// There is no room; the core keeps the packet and tries again.
    Busy(SkBuff),
}

/// Device statistics, as `ip -s link` shows them. The fields are those of the C structure.
pub(crate) type Stats = bindings::rtnl_link_stats64;

/// What a network driver does.
pub(crate) trait Operations: Send + Sync + Sized {
    /// What only the holder of RTNL touches.
    type State: Send;

    /// What only the holder of the lock of a transmit queue touches.
    type TxQueue: Send;

    /// Brings the interface up.
    fn open(dev: &mut Locked<'_, Self>) -> Result;

    /// Brings the interface down.
    fn stop(dev: &mut Locked<'_, Self>);

    /// Transmits a packet. Called with softirqs off and the lock of the queue held.
    fn start_xmit(
        dev: &NetDevice<Self>,
        queue: &mut Self::TxQueue,
        txq: TxQueueRef<'_>,
        skb: SkBuff,
    ) -> Xmit;

    /// Chooses the transmit queue of a packet. Called with softirqs off.
    fn select_queue(dev: &NetDevice<Self>, skb: &SkBuff) -> u16;

    /// Which of `features` the device has for this packet; the stack does the rest in software.
    /// Called with softirqs off.
    fn features_for(dev: &NetDevice<Self>, skb: &SkBuff, features: Features) -> Features;

    /// Follows a change of the receive filters; called with the interface up.
    fn set_rx_mode(dev: &mut Locked<'_, Self>) -> Result;

    /// Follows a change of the address, which [`NetDevice::address`] gives already.
    fn address_changed(dev: &mut Locked<'_, Self>);

    /// Switches features on and off, from the present ones to `wanted`.
    fn set_features(dev: &mut Locked<'_, Self>, wanted: Features) -> Result;

    /// Transmit queue `queue` has not moved for some seconds: says so. Called in softirq context;
    /// [`Operations::recover`] follows.
    fn timed_out(dev: &NetDevice<Self>, queue: u32);

    /// Makes the device transmit again, if the interface is still up and the device attached.
    fn recover(dev: &mut Locked<'_, Self>);

    /// Adds up the statistics. May be called in any context but hard interrupts.
    fn stats(dev: &NetDevice<Self>, stats: &mut Stats);
}

/// The private area of the C net_device.
struct Private<T: Operations> {
    ops: T,
    state: UnsafeCell<T::State>,
    tx: [UnsafeCell<Option<T::TxQueue>>; MAX_TX_QUEUES],
    /// Runs [`Operations::recover`].
    recovery: Opaque<bindings::work_struct>,
}

/// A network device whose driver is `T`.
///
/// # Invariants
///
/// The device was allocated by [`register`] and has an initialised [`Private<T>`].
#[repr(transparent)]
pub(crate) struct NetDevice<T: Operations>(Opaque<bindings::net_device>, PhantomData<T>);

// SAFETY: What can be done with a shared device is safe from any thread: the driver's part is
// `Sync`, the rest has locks of its own.
unsafe impl<T: Operations> Sync for NetDevice<T> {}
// SAFETY: As above.
unsafe impl<T: Operations> Send for NetDevice<T> {}

/// The driver's part of the private data.
impl<T: Operations> Deref for NetDevice<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.private().ops
    }
}

impl<T: Operations> NetDevice<T> {
    /// # Safety
    ///
    /// `dev` must be a device whose driver is `T`, and must live as long as the result.
    #[inline]
    pub(super) unsafe fn from_raw<'a>(dev: *mut bindings::net_device) -> &'a Self {
        // SAFETY: As the caller promises; the type is transparent.
        unsafe { &*dev.cast() }
    }

    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::net_device {
        self.0.get()
    }

    #[inline]
    fn private(&self) -> &Private<T> {
        // SAFETY: By the invariant. The private area begins at the last field of the device.
        unsafe { &*(&raw const (*self.as_raw()).priv_).cast() }
    }

    /// The features that are switched on.
    #[inline]
    pub(crate) fn features(&self) -> Features {
        // SAFETY: The core writes the field under RTNL, the data path of every
        // driver reads it without.
        Features(unsafe { core::ptr::read_volatile(&raw const (*self.as_raw()).features) })
    }

    /// How many queues of each direction are in use.
    #[inline]
    pub(crate) fn queues(&self) -> u16 {
        // SAFETY: The core writes the field under RTNL, and reads it without as well.
        unsafe { core::ptr::read_volatile(&raw const (*self.as_raw()).real_num_tx_queues) as u16 }
    }

    /// How many queues of each direction there are.
    pub(crate) fn max_queues(&self) -> u16 {
        // SAFETY: The number does not change after the allocation.
        unsafe { (*self.as_raw()).num_tx_queues as u16 }
    }

    /// The transmit queue `index`, if there is one.
    #[inline]
    pub(crate) fn tx_queue(&self, index: u16) -> Option<TxQueueRef<'_>> {
        let dev = self.as_raw();
        // SAFETY: The number and the array of queues do not change after the allocation.
        unsafe {
            if u32::from(index) >= (*dev).num_tx_queues {
                return None;
            }
            // INVARIANT: One of the queues of the device.
            NonNull::new((*dev)._tx.add(usize::from(index))).map(|txq| TxQueueRef {
                txq,
                _dev: PhantomData,
            })
        }
    }

    /// Takes RTNL. May sleep.
    pub(crate) fn lock(&self) -> LockGuard<'_, T> {
        // SAFETY: RTNL may be taken in process context.
        unsafe { bindings::rtnl_lock() };
        // INVARIANT: Locked above.
        LockGuard(Locked {
            dev: self,
            _not_send: PhantomData,
        })
    }

    /// A copy of the address of the device, which a change may tear unless RTNL is held.
    fn read_address(&self) -> MacAddress {
        // SAFETY: `dev_addr` points to an Ethernet address for the life of the device.
        unsafe { (*self.as_raw()).dev_addr.cast::<MacAddress>().read() }
    }
}

/// A network device, while the caller holds RTNL.
///
/// # Invariants
///
/// RTNL is held, by the thread that has this value, as long as it lives.
pub(crate) struct Locked<'a, T: Operations> {
    dev: &'a NetDevice<T>,
    /// A lock is given back by the thread that took it.
    _not_send: PhantomData<*mut ()>,
}

impl<T: Operations> Deref for Locked<'_, T> {
    type Target = NetDevice<T>;

    #[inline]
    fn deref(&self) -> &NetDevice<T> {
        self.dev
    }
}

impl<'a, T: Operations> Locked<'a, T> {
    /// # Safety
    ///
    /// RTNL must be held as long as the result lives. Should the core have been called with another
    /// `Locked` of `dev`, that one must not be used meanwhile.
    pub(super) unsafe fn assume(dev: *mut bindings::net_device) -> Self {
        Self {
            // SAFETY: As the caller promises.
            dev: unsafe { NetDevice::from_raw(dev) },
            // INVARIANT: As the caller promises.
            _not_send: PhantomData,
        }
    }

    /// The device, for as long as RTNL is held.
    pub(crate) fn device(&self) -> &'a NetDevice<T> {
        self.dev
    }

    /// What RTNL protects.
    pub(crate) fn state(&mut self) -> &mut T::State {
        // SAFETY: By the invariant nobody else can reach the state, and `self` is borrowed.
        unsafe { &mut *self.dev.private().state.get() }
    }

    /// The address of the device.
    pub(crate) fn address(&self) -> MacAddress {
        self.dev.read_address()
    }

    /// Whether the device receives frames for any address.
    pub(crate) fn is_promiscuous(&self) -> bool {
        // SAFETY: `flags` is written under RTNL.
        unsafe { (*self.dev.as_raw()).flags & bindings::net_device_flags_IFF_PROMISC != 0 }
    }

    /// Whether the interface is up, or is being brought up or down.
    pub(crate) fn is_running(&self) -> bool {
        // SAFETY: The device is valid.
        unsafe { bindings::ravb_helper_netif_running(self.dev.as_raw()) }
    }

    /// Whether the device is attached to the core.
    fn is_present(&self) -> bool {
        // SAFETY: The device is valid.
        unsafe { bindings::ravb_helper_netif_device_present(self.dev.as_raw()) }
    }

    /// Changes how many queues are in use. They must be stopped, or the interface down.
    pub(crate) fn set_queues(&mut self, queues: u16) -> Result {
        // SAFETY: The device is valid, and RTNL is held.
        to_result(unsafe {
            bindings::netif_set_real_num_queues(self.dev.as_raw(), queues.into(), queues.into())
        })
    }

    /// Lets transmit queue `index` use `queue`; it is to be started by [`Locked::wake_tx`].
    pub(crate) fn install_tx_queue(&mut self, index: u16, queue: T::TxQueue) {
        let (Some(txq), Some(slot)) = (
            self.dev.tx_queue(index),
            self.dev.private().tx.get(usize::from(index)),
        ) else {
            return;
        };
        // SAFETY: The lock of the queue protects the slot.
        let old = unsafe {
            bindings::ravb_helper_netif_tx_lock_bh(txq.as_raw());
            let old = (*slot.get()).replace(queue);
            bindings::ravb_helper_netdev_tx_reset_queue(txq.as_raw());
            bindings::ravb_helper_netif_tx_unlock_bh(txq.as_raw());
            old
        };
        drop(old);
    }

    /// Lets the core transmit, also what waited while the queues were stopped.
    pub(crate) fn wake_tx(&mut self) {
        // SAFETY: The device is valid.
        unsafe { bindings::ravb_helper_netif_tx_wake_all_queues(self.dev.as_raw()) };
    }

    /// Stops transmission, waits until nobody transmits, and drops all transmit queues.
    pub(crate) fn remove_tx_queues(&mut self) {
        // SAFETY: The device is valid. After this, nobody calls `start_xmit` any more.
        unsafe { bindings::ravb_helper_netif_tx_disable(self.dev.as_raw()) };

        for (index, slot) in (0..).zip(&self.dev.private().tx) {
            let Some(txq) = self.dev.tx_queue(index) else {
                break;
            };
            // SAFETY: The lock of the queue protects the slot.
            let old = unsafe {
                bindings::ravb_helper_netif_tx_lock_bh(txq.as_raw());
                let old = (*slot.get()).take();
                bindings::ravb_helper_netif_tx_unlock_bh(txq.as_raw());
                old
            };
            drop(old);
        }
    }

    /// Brings the interface down, if it is up.
    pub(crate) fn close(&mut self) {
        // SAFETY: The device is valid, and RTNL is held.
        unsafe { bindings::dev_close(self.dev.as_raw()) };
    }

    /// Detaches the device from the core, for a suspend.
    pub(crate) fn detach(&mut self) {
        // SAFETY: The device is valid, and RTNL is held.
        unsafe { bindings::netif_device_detach(self.dev.as_raw()) };
    }

    /// Undoes [`Locked::detach`].
    pub(crate) fn attach(&mut self) {
        // SAFETY: The device is valid, and RTNL is held.
        unsafe { bindings::netif_device_attach(self.dev.as_raw()) };
    }
}

/// RTNL, taken for a device; dropping it releases it.
pub(crate) struct LockGuard<'a, T: Operations>(Locked<'a, T>);

impl<'a, T: Operations> Deref for LockGuard<'a, T> {
    type Target = Locked<'a, T>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl<T: Operations> core::ops::DerefMut for LockGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl<T: Operations> Drop for LockGuard<'_, T> {
    fn drop(&mut self) {
        // SAFETY: Taken by `NetDevice::lock`.
        unsafe { bindings::rtnl_unlock() };
    }
}

/// A transmit queue of a device.
///
/// # Invariants
///
/// `txq` is a queue of a device that lives as long as this value.
#[derive(Clone, Copy)]
pub(crate) struct TxQueueRef<'a> {
    txq: NonNull<bindings::netdev_queue>,
    _dev: PhantomData<&'a ()>,
}

/// A queue that is stopped is one that the core does not transmit from.
impl Gate for TxQueueRef<'_> {
    #[inline]
    fn stop(&self) {
        // SAFETY: Valid by the invariant.
        unsafe { bindings::ravb_helper_netif_tx_stop_queue(self.as_raw()) };
    }

    #[inline]
    fn start(&self) {
        // SAFETY: Valid by the invariant.
        unsafe { bindings::ravb_helper_netif_tx_start_queue(self.as_raw()) };
    }

    #[inline]
    fn is_stopped(&self) -> bool {
        // SAFETY: Valid by the invariant.
        unsafe { bindings::ravb_helper_netif_tx_queue_stopped(self.as_raw()) }
    }

    #[inline]
    fn wake(&self) {
        // SAFETY: Valid by the invariant.
        unsafe { bindings::netif_tx_wake_queue(self.as_raw()) };
    }
}

impl TxQueueRef<'_> {
    fn as_raw(self) -> *mut bindings::netdev_queue {
        self.txq.as_ptr()
    }

    /// Tells byte queue limits that a packet of `bytes` was queued.
    ///
    /// Returns whether the doorbell is to be rung: no more packets follow at once, or the limits
    /// just stopped the queue.
    #[inline]
    pub(crate) fn sent(self, bytes: u32) -> bool {
        // SAFETY: Valid by the invariant, and called under the lock of the queue.
        unsafe { bindings::ravb_helper_netdev_tx_sent_queue(self.as_raw(), bytes) }
    }

    /// Whether more packets follow at once, in the `start_xmit` that is going on.
    #[inline]
    pub(crate) fn more(self) -> bool {
        // SAFETY: Called in `start_xmit`, because there is no other use for it; elsewhere the
        // result means nothing, but reading it does no harm.
        unsafe { bindings::ravb_helper_netdev_xmit_more() }
    }

    /// Tells byte queue limits that packets were transmitted.
    #[inline]
    pub(crate) fn completed(self, packets: u32, bytes: u32) {
        // SAFETY: Valid by the invariant.
        unsafe { bindings::ravb_helper_netdev_tx_completed_queue(self.as_raw(), packets, bytes) };
    }
}

/// What the core is told about a device before it is registered.
pub(crate) struct Config {
    /// How many queues of each direction.
    pub(crate) queues: u16,
    /// What the device is able to do; all of it is switched on first.
    pub(crate) features: Features,
    /// What it is able to do when the user asks for it.
    pub(crate) optional_features: Features,
    /// The largest MTU, in bytes.
    pub(crate) max_mtu: u32,
    /// The most segments of a packet.
    pub(crate) max_segments: u32,
    /// The address, or none: a random one is chosen then.
    pub(crate) address: Option<MacAddress>,
    /// Defer interrupts in software by default.
    pub(crate) coalesce: bool,
    /// Poll in a thread by default.
    pub(crate) threaded: bool,
}

/// A device that was allocated, and is unregistered and freed when this is dropped.
///
/// # Invariants
///
/// `dev` is valid, and its private data initialised. It is registered where `registered` says so.
struct Registered<T: Operations> {
    dev: NonNull<bindings::net_device>,
    registered: bool,
    _private: PhantomData<T>,
}

// SAFETY: The device may be unregistered by any thread, and its private data is `Send`.
unsafe impl<T: Operations> Send for Registered<T> {}

impl<T: Operations> Drop for Registered<T> {
    fn drop(&mut self) {
        let dev = self.dev.as_ptr();
        // After `unregister_netdev` no callback runs any more, and nothing schedules the recovery.
        // RTNL is not held, so that waiting for it is safe. Only then is the data dropped.
        //
        // SAFETY: By the invariants; nobody uses the device after this.
        unsafe {
            if self.registered {
                bindings::unregister_netdev(dev);
            }
            let private = (&raw mut (*dev).priv_).cast::<Private<T>>();
            bindings::cancel_work_sync((*private).recovery.get());
            core::ptr::drop_in_place(private);
            bindings::free_netdev(dev);
        }
    }
}

/// Allocates and registers an Ethernet device.
///
/// It is unregistered when the driver is unbound, before anything goes that was set up earlier.
pub(crate) fn register<'bound, T: ethtool::Operations + qstats::Operations + 'bound>(
    parent: &'bound Device<Bound>,
    config: Config,
    ops: T,
    state: T::State,
) -> Result<&'bound NetDevice<T>> {
    const {
        // The private area has the alignment of a cache line at most.
        assert!(align_of::<Private<T>>() <= 32);
    }
    let queues = u32::from(config.queues);
    let size = c_int::try_from(size_of::<Private<T>>())?;
    // SAFETY: No requirements.
    let dev = NonNull::new(unsafe { bindings::alloc_etherdev_mqs(size, queues, queues) })
        .ok_or(ENOMEM)?;
    let raw = dev.as_ptr();

    let private = Private {
        ops,
        state: UnsafeCell::new(state),
        tx: [const { UnsafeCell::new(None) }; MAX_TX_QUEUES],
        recovery: Opaque::zeroed(),
    };
    // SAFETY: The private area is large enough and aligned; nobody else knows it, and it stays
    // where it is.
    unsafe {
        let to = (&raw mut (*raw).priv_).cast::<Private<T>>();
        to.write(private);
        bindings::ravb_helper_init_work((*to).recovery.get(), Some(Adapter::<T>::recover));
    }

    // INVARIANT: Allocated and initialised above.
    let mut this = Registered::<T> {
        dev,
        registered: false,
        _private: PhantomData,
    };

    // SAFETY: Nobody else knows the device before it is registered.
    unsafe {
        (*raw).features |= config.features.0;
        (*raw).hw_features |= config.features.0 | config.optional_features.0;
        (*raw).vlan_features |= config.features.0;
        (*raw).dev.parent = device::as_raw(parent);
        (*raw).netdev_ops = &Adapter::<T>::OPS;
        (*raw).ethtool_ops = &ethtool::Adapter::<T>::OPS;
        (*raw).stat_ops = &qstats::Adapter::<T>::OPS;
        (*raw).max_mtu = config.max_mtu;
        let flags = (*raw).__bindgen_anon_1.__bindgen_anon_1.priv_flags();
        (*raw)
            .__bindgen_anon_1
            .__bindgen_anon_1
            .set_priv_flags(flags | bindings::netdev_priv_flags_IFF_LIVE_ADDR_CHANGE as usize);
        match config.address {
            Some(address) => bindings::ravb_helper_eth_hw_addr_set(raw, address.as_ptr()),
            None => bindings::ravb_helper_eth_hw_addr_random(raw),
        }
        bindings::netif_set_tso_max_segs(raw, config.max_segments);
        if config.coalesce {
            bindings::netdev_sw_irq_coalesce_default_on(raw);
        }
        if config.threaded {
            bindings::netif_threaded_enable(raw);
        }
        to_result(bindings::register_netdev(raw))?;
    }
    this.registered = true;

    // SAFETY: The driver's part of the device may use what was set up before, which `'bound`
    // and the order of release guarantee.
    let this = unsafe { device::own(parent, this) }?;
    // SAFETY: The device lives until the driver is unbound.
    Ok(unsafe { NetDevice::from_raw(this.dev.as_ptr()) })
}

/// Whether an address may be that of a device: neither zero nor multicast.
pub(crate) fn is_valid_address(address: &MacAddress) -> bool {
    // SAFETY: The function reads six bytes.
    unsafe { bindings::ravb_helper_is_valid_ether_addr(address.as_ptr()) }
}

/// Reads the address that the device tree or a non-volatile memory gives `dev`.
///
/// EPROBE_DEFER where the memory has no driver yet, another error where there is no address.
pub(crate) fn address_of_device(dev: &Device<Bound>) -> Result<MacAddress> {
    let mut address = [0; 6];
    // SAFETY: The node of `dev` is null or valid, and the function writes six bytes.
    to_result(unsafe { bindings::of_get_mac_address(device::of_node(dev), address.as_mut_ptr()) })?;
    Ok(address)
}

/// The largest MTU where frames have up to `len` bytes without CRC, one VLAN tag included.
pub(crate) const fn mtu_of_frame(len: usize) -> u32 {
    const ETHERNET_HEADER: usize = 14;
    const VLAN_TAG: usize = 4;

    (len - ETHERNET_HEADER - VLAN_TAG) as u32
}

/// The callbacks of the core.
struct Adapter<T: Operations>(PhantomData<T>);

impl<T: Operations> Adapter<T> {
    const OPS: bindings::net_device_ops = bindings::net_device_ops {
        ndo_open: Some(Self::open),
        ndo_stop: Some(Self::stop),
        ndo_start_xmit: Some(Self::start_xmit),
        ndo_select_queue: Some(Self::select_queue),
        ndo_features_check: Some(Self::features_check),
        ndo_set_rx_mode_async: Some(Self::set_rx_mode),
        ndo_set_mac_address: Some(Self::set_mac_address),
        ndo_validate_addr: Some(bindings::eth_validate_addr),
        ndo_set_features: Some(Self::set_features),
        ndo_tx_timeout: Some(Self::tx_timeout),
        ndo_get_stats64: Some(Self::get_stats64),
        ndo_eth_ioctl: Some(bindings::phy_do_ioctl_running),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// Called by the core with a device that [`register`] made and with RTNL held.
    unsafe extern "C" fn open(dev: *mut bindings::net_device) -> c_int {
        // SAFETY: As the core promises.
        let mut dev = unsafe { Locked::<T>::assume(dev) };
        from_result(|| T::open(&mut dev).map(|()| 0))
    }

    /// # Safety
    ///
    /// As [`Self::open`].
    unsafe extern "C" fn stop(dev: *mut bindings::net_device) -> c_int {
        // SAFETY: As the core promises.
        let mut dev = unsafe { Locked::<T>::assume(dev) };
        T::stop(&mut dev);
        0
    }

    /// # Safety
    ///
    /// Called by the core with a device that [`register`] made, a packet whose reference it gives
    /// away, and with the lock of the packet's queue held.
    unsafe extern "C" fn start_xmit(
        skb: *mut bindings::sk_buff,
        dev: *mut bindings::net_device,
    ) -> bindings::netdev_tx {
        // SAFETY: As the core promises.
        let dev = unsafe { NetDevice::<T>::from_raw(dev) };
        // SAFETY: As the core promises; the core chose one of the queues of the device.
        let (index, skb) = unsafe {
            let index = (*skb).queue_mapping;
            (index, SkBuff::from_raw(NonNull::new_unchecked(skb)))
        };

        let queue = dev.private().tx.get(usize::from(index)).and_then(|slot| {
            // SAFETY: The lock of the queue protects the slot.
            unsafe { (*slot.get()).as_mut() }
        });
        let (Some(queue), Some(txq)) = (queue, dev.tx_queue(index)) else {
            // The interface is down.
            skb.discard(drop_reason::SKB_DROP_REASON_DEV_READY);
            return bindings::netdev_tx::NETDEV_TX_OK;
        };

        match T::start_xmit(dev, queue, txq, skb) {
            Xmit::Ok => bindings::netdev_tx::NETDEV_TX_OK,
            Xmit::Busy(skb) => {
                // The core keeps the reference that it gave.
                let _ = skb.into_raw();
                bindings::netdev_tx::NETDEV_TX_BUSY
            }
        }
    }

    /// # Safety
    ///
    /// Called by the core with a device that [`register`] made, and a packet that it keeps.
    unsafe extern "C" fn select_queue(
        dev: *mut bindings::net_device,
        skb: *mut bindings::sk_buff,
        _subordinate: *mut bindings::net_device,
    ) -> u16 {
        // SAFETY: As the core promises. The packet is not dropped, because it is not ours.
        let (dev, skb) = unsafe {
            (
                NetDevice::<T>::from_raw(dev),
                ManuallyDrop::new(SkBuff::from_raw(NonNull::new_unchecked(skb))),
            )
        };
        T::select_queue(dev, &skb)
    }

    /// # Safety
    ///
    /// As [`Self::select_queue`].
    unsafe extern "C" fn features_check(
        skb: *mut bindings::sk_buff,
        dev: *mut bindings::net_device,
        features: u64,
    ) -> u64 {
        // SAFETY: As the core promises. The packet is not dropped, because it is not ours.
        let (dev, packet, features) = unsafe {
            (
                NetDevice::<T>::from_raw(dev),
                ManuallyDrop::new(SkBuff::from_raw(NonNull::new_unchecked(skb))),
                bindings::ravb_helper_vlan_features_check(skb, features),
            )
        };
        T::features_for(dev, &packet, Features(features)).0
    }

    /// # Safety
    ///
    /// As [`Self::open`].
    unsafe extern "C" fn set_rx_mode(
        dev: *mut bindings::net_device,
        _unicast: *mut bindings::netdev_hw_addr_list,
        _multicast: *mut bindings::netdev_hw_addr_list,
    ) -> c_int {
        // SAFETY: As the core promises.
        let mut dev = unsafe { Locked::<T>::assume(dev) };
        from_result(|| T::set_rx_mode(&mut dev).map(|()| 0))
    }

    /// # Safety
    ///
    /// As [`Self::open`], and `addr` is a `struct sockaddr`.
    unsafe extern "C" fn set_mac_address(
        dev: *mut bindings::net_device,
        addr: *mut c_void,
    ) -> c_int {
        // SAFETY: As the core promises.
        let result = unsafe { bindings::eth_prepare_mac_addr_change(dev, addr) };
        if result != 0 {
            return result;
        }
        // SAFETY: The address was found good above.
        unsafe { bindings::eth_commit_mac_addr_change(dev, addr) };
        // SAFETY: As the core promises.
        T::address_changed(&mut unsafe { Locked::assume(dev) });
        0
    }

    /// # Safety
    ///
    /// As [`Self::open`].
    unsafe extern "C" fn set_features(dev: *mut bindings::net_device, features: u64) -> c_int {
        // SAFETY: As the core promises.
        let mut dev = unsafe { Locked::<T>::assume(dev) };
        from_result(|| T::set_features(&mut dev, Features(features)).map(|()| 0))
    }

    /// # Safety
    ///
    /// Called by the core with a device that [`register`] made.
    unsafe extern "C" fn tx_timeout(dev: *mut bindings::net_device, queue: u32) {
        // SAFETY: As the core promises.
        let dev = unsafe { NetDevice::<T>::from_raw(dev) };
        T::timed_out(dev, queue);
        // SAFETY: The work was initialised by `register`, and is cancelled before it goes.
        unsafe { bindings::ravb_helper_schedule_work(dev.private().recovery.get()) };
    }

    /// # Safety
    ///
    /// Called by the workqueue with the work of a device that [`register`] made.
    unsafe extern "C" fn recover(work: *mut bindings::work_struct) {
        // SAFETY: The work is part of the private area, which is part of the device.
        let dev = unsafe {
            let private = container_of!(Opaque::cast_from(work), Private<T>, recovery);
            let dev = private
                .cast::<u8>()
                .sub(core::mem::offset_of!(bindings::net_device, priv_));
            NetDevice::<T>::from_raw(dev.cast::<bindings::net_device>().cast_mut())
        };
        let mut dev = dev.lock();
        // A system that has begun to sleep meanwhile gets what it needs when it wakes up.
        if dev.is_running() && dev.is_present() {
            T::recover(&mut dev);
        }
    }

    /// # Safety
    ///
    /// Called by the core with a device that [`register`] made, and `stats` to be filled.
    unsafe extern "C" fn get_stats64(
        dev: *mut bindings::net_device,
        stats: *mut bindings::rtnl_link_stats64,
    ) {
        // SAFETY: As the core promises.
        let (dev, stats) = unsafe { (NetDevice::<T>::from_raw(dev), &mut *stats) };
        T::stats(dev, stats);
    }
}
