// SPDX-License-Identifier: GPL-2.0

//! PHYs, as a MAC driver sees them.
//!
//! C header: [`include/linux/phy.h`](srctree/include/linux/phy.h)

use core::ptr::NonNull;

use kernel::{
    device::{
        Bound,
        Device, //
    },
    error::to_result,
    prelude::*, //
};

use super::{
    device,
    netdev::{
        self,
        Locked,
        NetDevice, //
    }, //
};
use crate::bindings;

/// A device-tree node that is held.
///
/// # Invariants
///
/// One reference of the node is ours.
pub(super) struct Node(NonNull<bindings::device_node>);

impl Node {
    /// # Safety
    ///
    /// `node` must be null or valid; one reference of it is given to the result.
    pub(super) unsafe fn from_raw(node: *mut bindings::device_node) -> Option<Self> {
        // INVARIANT: As the caller promises.
        NonNull::new(node).map(Self)
    }

    pub(super) fn as_raw(&self) -> *mut bindings::device_node {
        self.0.as_ptr()
    }

    /// The node of `dev` itself.
    pub(super) fn of_device(dev: &Device<Bound>) -> Option<Self> {
        // SAFETY: The node is null or valid; `of_node_get` makes a reference that is ours.
        unsafe { Self::from_raw(bindings::ravb_helper_of_node_get(device::of_node(dev))) }
    }

    /// What the property `phy-handle` of `dev` points to.
    pub(super) fn phy_handle(dev: &Device<Bound>) -> Option<Self> {
        // SAFETY: The node of `dev` is null or valid; the result is null or a reference of ours.
        unsafe {
            Self::from_raw(bindings::ravb_helper_of_parse_phandle(
                device::of_node(dev),
                c"phy-handle".as_char_ptr(),
                0,
            ))
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // SAFETY: The reference is ours to give back.
        unsafe { bindings::ravb_helper_of_node_put(self.as_raw()) };
    }
}

/// How MAC and PHY are wired: the property `phy-mode`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Interface(bindings::phy_interface_t);

impl Interface {
    /// MII.
    pub(crate) const MII: Self = Self(bindings::phy_interface_t_PHY_INTERFACE_MODE_MII);
    /// RGMII, with the PHY delaying the receive clock, the transmit clock, both, or none. What it
    /// does not delay, the board or the MAC does.
    pub(crate) const fn rgmii(rx: bool, tx: bool) -> Self {
        Self(match (rx, tx) {
            (false, false) => bindings::phy_interface_t_PHY_INTERFACE_MODE_RGMII,
            (true, false) => bindings::phy_interface_t_PHY_INTERFACE_MODE_RGMII_RXID,
            (false, true) => bindings::phy_interface_t_PHY_INTERFACE_MODE_RGMII_TXID,
            (true, true) => bindings::phy_interface_t_PHY_INTERFACE_MODE_RGMII_ID,
        })
    }

    /// Reads the property; ENODEV where there is none.
    pub(crate) fn of_device(dev: &Device<Bound>) -> Result<Self> {
        let mut mode = bindings::phy_interface_t_PHY_INTERFACE_MODE_NA;
        // SAFETY: The node of `dev` is null or valid, and the function handles null.
        to_result(unsafe { bindings::of_get_phy_mode(device::of_node(dev), &raw mut mode) })?;
        Ok(Self(mode))
    }
}

/// A link that is described in the device tree because there is no PHY to ask.
struct FixedLink<'bound>(&'bound Device<Bound>);

impl Drop for FixedLink<'_> {
    fn drop(&mut self) {
        // SAFETY: Registered by `register_fixed_link`.
        unsafe { bindings::of_phy_deregister_fixed_link(device::of_node(self.0)) };
    }
}

/// Whether the link of `dev` is fixed.
pub(crate) fn is_fixed_link(dev: &Device<Bound>) -> bool {
    let node = device::of_node(dev);
    // SAFETY: The node is valid where it is not null.
    !node.is_null() && unsafe { bindings::of_phy_is_fixed_link(node) }
}

/// Registers the fixed link of `dev`, if it has one, until the driver is unbound.
pub(crate) fn register_fixed_link(dev: &Device<Bound>) -> Result {
    if !is_fixed_link(dev) {
        return Ok(());
    }
    // SAFETY: The node of `dev` is valid: it says that the link is fixed.
    to_result(unsafe { bindings::of_phy_register_fixed_link(device::of_node(dev)) })?;
    // SAFETY: `FixedLink::drop` uses the node alone.
    unsafe { device::own(dev, FixedLink(dev)) }?;
    Ok(())
}

/// What the PHY says about the link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Link {
    /// In Mbit/s.
    pub(crate) speed: u32,
    /// Both directions at once.
    pub(crate) full_duplex: bool,
}

/// A driver that follows the link.
pub(crate) trait LinkHandler: netdev::Operations {
    /// The link changed, or may have; `None` is no link. Called in process context, serialised.
    ///
    /// Returns whether the log is to say so, where it differs from before.
    fn adjust_link(dev: &NetDevice<Self>, link: Option<Link>) -> bool;
}

/// What a MAC cannot do and its PHY must not offer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restriction {
    /// Nothing.
    None,
    /// No 10 Mbit/s, no half duplex, no pause frames.
    FastFullDuplex,
}

/// The PHY of a network device that is up.
///
/// Dropping it stops and disconnects the PHY; may sleep.
///
/// # Invariants
///
/// `phydev` is connected to a network device.
pub(crate) struct Connection {
    phydev: NonNull<bindings::phy_device>,
}

// SAFETY: phylib has its own locks.
unsafe impl Send for Connection {}

impl Connection {
    /// Connects the PHY that the device tree of `parent` names to `dev`.
    ///
    /// ENODEV where there is none.
    pub(crate) fn connect<T: LinkHandler>(
        dev: &mut Locked<'_, T>,
        parent: &Device<Bound>,
        interface: Interface,
        restriction: Restriction,
    ) -> Result<Self> {
        // A fixed link hangs on the node of the MAC itself.
        let node = Node::phy_handle(parent)
            .or_else(|| Node::of_device(parent))
            .ok_or(ENODEV)?;
        // SAFETY: `dev` and `node` are valid, and the callback fits the device.
        let phydev = unsafe {
            bindings::of_phy_connect(
                dev.as_raw(),
                node.as_raw(),
                Some(adjust_link::<T>),
                0,
                interface.0,
            )
        };
        // INVARIANT: Connected above.
        let this = Self {
            phydev: NonNull::new(phydev).ok_or(ENODEV)?,
        };

        if restriction == Restriction::FastFullDuplex {
            use bindings::ethtool_link_mode_bit_indices::*;
            for mode in [
                ETHTOOL_LINK_MODE_10baseT_Half_BIT,
                ETHTOOL_LINK_MODE_10baseT_Full_BIT,
                ETHTOOL_LINK_MODE_100baseT_Half_BIT,
                ETHTOOL_LINK_MODE_1000baseT_Half_BIT,
                ETHTOOL_LINK_MODE_Pause_BIT,
                ETHTOOL_LINK_MODE_Asym_Pause_BIT,
            ] {
                // SAFETY: Valid by the invariant.
                unsafe { bindings::phy_remove_link_mode(this.phydev.as_ptr(), mode) };
            }
        }
        // SAFETY: Valid by the invariant, and nobody else looks at the flag now.
        unsafe {
            // The MAC stops and starts it over a suspend; phylib could not reach it then.
            (*this.phydev.as_ptr()).set_mac_managed_pm(1);
            bindings::phy_attached_info(this.phydev.as_ptr());
        }
        Ok(this)
    }

    /// Starts negotiation; the link is reported to [`LinkHandler::adjust_link`].
    pub(crate) fn start(&self) {
        // SAFETY: Valid by the invariant.
        unsafe { bindings::phy_start(self.phydev.as_ptr()) };
    }

    /// Stops the PHY, which takes the link away. May sleep.
    pub(crate) fn stop(&self) {
        // SAFETY: Valid by the invariant.
        unsafe { bindings::phy_stop(self.phydev.as_ptr()) };
    }

    /// Starts the PHY again, which may have lost its power meanwhile. May sleep.
    pub(crate) fn restart(&self) -> Result {
        // SAFETY: Valid by the invariant.
        to_result(unsafe { bindings::phy_init_hw(self.phydev.as_ptr()) })?;
        self.start();
        Ok(())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: Valid by the invariant, and not used after this.
        unsafe {
            if bindings::ravb_helper_phy_is_started(self.phydev.as_ptr()) {
                bindings::phy_stop(self.phydev.as_ptr());
            }
            bindings::phy_disconnect(self.phydev.as_ptr());
        }
    }
}

/// # Safety
///
/// Called by phylib for a device of type `T` with a PHY connected, under the lock of that PHY.
unsafe extern "C" fn adjust_link<T: LinkHandler>(dev: *mut bindings::net_device) {
    // SAFETY: As phylib promises.
    let (dev, phydev) = unsafe { (NetDevice::<T>::from_raw(dev), (*dev).phydev) };
    // SAFETY: As phylib promises.
    let link = unsafe {
        ((*phydev).link() != 0).then(|| Link {
            speed: (*phydev).speed.unsigned_abs(),
            full_duplex: (*phydev).duplex == bindings::DUPLEX_FULL as i32,
        })
    };
    if T::adjust_link(dev, link) {
        // SAFETY: As phylib promises.
        unsafe { bindings::phy_print_status(phydev) };
    }
}
