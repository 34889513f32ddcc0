// SPDX-License-Identifier: GPL-2.0

//! MDIO buses that are driven bit by bit.
//!
//! The bus works through the C module `mdio-bitbang`. Each transfer runs in a session that the
//! driver opens: that is where it makes sure that the clock of the pins is on.
//!
//! C header: [`include/linux/mdio-bitbang.h`](srctree/include/linux/mdio-bitbang.h)

use core::{
    cell::UnsafeCell,
    ptr::NonNull, //
};

use kernel::{
    container_of,
    device::{
        Bound,
        Device, //
    },
    error::to_result,
    ffi::{
        c_int,
        c_void, //
    },
    prelude::*,
    str::CString,
    ThisModule, //
};

use super::{
    device,
    phy::{
        self,
        Node, //
    }, //
};
use crate::bindings;

/// The pins of a bus, ready to be used.
pub(crate) trait Pins {
    /// Drives the clock.
    fn set_clock(&self, high: bool);
    /// Makes the data pin an output or an input.
    fn set_output(&self, output: bool);
    /// Drives the data pin, while it is an output.
    fn set_data(&self, high: bool);
    /// Reads the data pin, while it is an input.
    fn data(&self) -> bool;
}

/// What makes the pins of a bus usable.
pub(crate) trait BitBang: Send + Sync {
    /// The pins, for one transfer.
    type Session<'a>: Pins
    where
        Self: 'a;

    /// Begins a transfer. May sleep. On failure the transfer fails with this error.
    fn begin(&self) -> Result<Self::Session<'_>>;
}

/// # Invariants
///
/// `bus` was allocated for `ctrl`. `session` is accessed only under the lock of the bus; it is null
/// or points to the `T::Session` of the transfer that is going on.
#[repr(C)]
struct Bus<T: BitBang> {
    ctrl: bindings::mdiobb_ctrl,
    bitbang: T,
    session: UnsafeCell<*const c_void>,
    bus: UnsafeCell<Option<NonNull<bindings::mii_bus>>>,
}

// SAFETY: The lock of the bus serialises the transfers.
unsafe impl<T: BitBang> Send for Bus<T> {}
// SAFETY: As above.
unsafe impl<T: BitBang> Sync for Bus<T> {}

/// Registers the bus of `dev` and the PHYs below its device-tree node `mdio`, or, in old device
/// trees, below the node of the device itself. A device with a fixed link may have neither.
///
/// The PHY that `phy-handle` names is left to the driver over a suspend. The bus is unregistered
/// when the driver is unbound.
pub(crate) fn register<'bound, T: BitBang + 'bound>(
    dev: &'bound Device<Bound>,
    module: &'static ThisModule,
    bitbang: T,
) -> Result {
    // SAFETY: The node of `dev` is null or valid.
    let child = unsafe {
        Node::from_raw(bindings::of_get_child_by_name(
            device::of_node(dev),
            c"mdio".as_char_ptr(),
        ))
    };
    let node = match child {
        Some(node) => node,
        None if phy::is_fixed_link(dev) => return Ok(()),
        None => Node::of_device(dev).ok_or(ENODEV)?,
    };

    let mut ctrl: bindings::mdiobb_ctrl = pin_init::zeroed();
    ctrl.ops = &Adapter::<T>::OPS;

    // SAFETY: `Bus::drop` uses the bus alone, and `bitbang` what was set up before.
    let this = unsafe {
        device::own(
            dev,
            Bus {
                ctrl,
                bitbang,
                session: UnsafeCell::new(core::ptr::null()),
                bus: UnsafeCell::new(None),
            },
        )
    }?;
    let ctrl = (&raw const this.ctrl).cast_mut();
    // SAFETY: `ctrl` stays where it is until the bus is freed.
    let bus = NonNull::new(unsafe { bindings::alloc_mdio_bitbang(ctrl) }).ok_or(ENOMEM)?;
    // INVARIANT: Allocated above.
    //
    // SAFETY: Nobody else looks at the field before the device is unbound.
    unsafe { *this.bus.get() = Some(bus) };

    let raw = bus.as_ptr();
    let id = CString::try_from_fmt(fmt!("{}", dev.name().to_str().unwrap_or("?")))?;
    // SAFETY: The bus is ours until it is registered.
    unsafe {
        (*raw).name = c"ravb_mii".as_char_ptr();
        (*raw).parent = device::as_raw(dev);
        (*raw).read = Some(Adapter::<T>::read);
        (*raw).write = Some(Adapter::<T>::write);
        (*raw).read_c45 = Some(Adapter::<T>::read_c45);
        (*raw).write_c45 = Some(Adapter::<T>::write_c45);
        // The identity is terminated, because the structure was zeroed.
        let room = (*raw).id.len() - 1;
        for (to, from) in (&mut (*raw).id)[..room].iter_mut().zip(id.to_bytes()) {
            *to = *from;
        }
    }

    // SAFETY: The bus is complete. Its owner is this module, as it is of the network device, so
    // that phylib takes no reference of the module.
    to_result(unsafe {
        bindings::__of_mdiobus_register(raw, node.as_raw(), module.as_ptr().cast())
    })?;

    if let Some(phy) = Node::phy_handle(dev) {
        // SAFETY: The node is valid; the PHY, if there is one, is held while it is changed.
        unsafe {
            let phydev = bindings::of_phy_find_device(phy.as_raw());
            if !phydev.is_null() {
                (*phydev).set_mac_managed_pm(1);
                bindings::ravb_helper_phy_device_put(phydev);
            }
        }
    }
    Ok(())
}

impl<T: BitBang> Drop for Bus<T> {
    fn drop(&mut self) {
        if let Some(bus) = *self.bus.get_mut() {
            // SAFETY: Allocated for this structure, and not used after this.
            unsafe {
                if bindings::ravb_helper_mdiobus_is_registered(bus.as_ptr()) {
                    bindings::mdiobus_unregister(bus.as_ptr());
                }
                bindings::free_mdio_bitbang(bus.as_ptr());
            }
        }
    }
}

/// The callbacks of the bus.
struct Adapter<T: BitBang>(core::marker::PhantomData<T>);

impl<T: BitBang> Adapter<T> {
    // There is no owner: the bus is unregistered before this module goes, and a reference of the
    // module to itself would keep it from ever being unloaded.
    const OPS: bindings::mdiobb_ops = bindings::mdiobb_ops {
        owner: core::ptr::null_mut(),
        set_mdc: Some(Self::set_mdc),
        set_mdio_dir: Some(Self::set_mdio_dir),
        set_mdio_data: Some(Self::set_mdio_data),
        get_mdio_data: Some(Self::get_mdio_data),
    };

    /// Runs one transfer in a session.
    ///
    /// # Safety
    ///
    /// `bus` must be one that [`register`] made, and its lock must be held.
    unsafe fn transfer(bus: *mut bindings::mii_bus, f: impl FnOnce() -> c_int) -> c_int {
        // SAFETY: The private data of the bus is `ctrl`, the first field of a `Bus<T>`.
        let this = unsafe { &*(*bus).priv_.cast::<Bus<T>>() };
        match this.bitbang.begin() {
            Ok(session) => {
                // SAFETY: The lock of the bus is held, here and below.
                unsafe { *this.session.get() = (&raw const session).cast() };
                let result = f();
                // SAFETY: As above.
                unsafe { *this.session.get() = core::ptr::null() };
                result
            }
            Err(error) => error.to_errno(),
        }
    }

    /// Returns the pins of the transfer that is going on.
    ///
    /// # Safety
    ///
    /// `ctrl` must be that of a bus that [`register`] made, and its lock must be held.
    unsafe fn pins<'a>(ctrl: *mut bindings::mdiobb_ctrl) -> Option<&'a T::Session<'a>> {
        // SAFETY: `ctrl` is embedded in a `Bus<T>`; the lock protects the session, which is of
        // this type and outlives the call.
        unsafe {
            (*(*container_of!(ctrl, Bus<T>, ctrl)).session.get())
                .cast::<T::Session<'a>>()
                .as_ref()
        }
    }

    /// # Safety
    ///
    /// Called by the MDIO core with the lock of a bus that [`register`] made, as all of these.
    unsafe extern "C" fn read(bus: *mut bindings::mii_bus, phy: c_int, reg: c_int) -> c_int {
        // SAFETY: As the core promises.
        unsafe { Self::transfer(bus, || bindings::mdiobb_read_c22(bus, phy, reg)) }
    }

    /// # Safety
    ///
    /// As [`Self::read`].
    unsafe extern "C" fn write(
        bus: *mut bindings::mii_bus,
        phy: c_int,
        reg: c_int,
        value: u16,
    ) -> c_int {
        // SAFETY: As the core promises.
        unsafe { Self::transfer(bus, || bindings::mdiobb_write_c22(bus, phy, reg, value)) }
    }

    /// # Safety
    ///
    /// As [`Self::read`].
    unsafe extern "C" fn read_c45(
        bus: *mut bindings::mii_bus,
        phy: c_int,
        device: c_int,
        reg: c_int,
    ) -> c_int {
        // SAFETY: As the core promises.
        unsafe { Self::transfer(bus, || bindings::mdiobb_read_c45(bus, phy, device, reg)) }
    }

    /// # Safety
    ///
    /// As [`Self::read`].
    unsafe extern "C" fn write_c45(
        bus: *mut bindings::mii_bus,
        phy: c_int,
        device: c_int,
        reg: c_int,
        value: u16,
    ) -> c_int {
        // SAFETY: As the core promises.
        unsafe {
            Self::transfer(bus, || {
                bindings::mdiobb_write_c45(bus, phy, device, reg, value)
            })
        }
    }

    /// # Safety
    ///
    /// Called by `mdio-bitbang` during a transfer, as all of these.
    unsafe extern "C" fn set_mdc(ctrl: *mut bindings::mdiobb_ctrl, level: c_int) {
        // SAFETY: As `mdio-bitbang` promises.
        if let Some(pins) = unsafe { Self::pins(ctrl) } {
            pins.set_clock(level != 0);
        }
    }

    /// # Safety
    ///
    /// As [`Self::set_mdc`].
    unsafe extern "C" fn set_mdio_dir(ctrl: *mut bindings::mdiobb_ctrl, output: c_int) {
        // SAFETY: As `mdio-bitbang` promises.
        if let Some(pins) = unsafe { Self::pins(ctrl) } {
            pins.set_output(output != 0);
        }
    }

    /// # Safety
    ///
    /// As [`Self::set_mdc`].
    unsafe extern "C" fn set_mdio_data(ctrl: *mut bindings::mdiobb_ctrl, value: c_int) {
        // SAFETY: As `mdio-bitbang` promises.
        if let Some(pins) = unsafe { Self::pins(ctrl) } {
            pins.set_data(value != 0);
        }
    }

    /// # Safety
    ///
    /// As [`Self::set_mdc`].
    unsafe extern "C" fn get_mdio_data(ctrl: *mut bindings::mdiobb_ctrl) -> c_int {
        // SAFETY: As `mdio-bitbang` promises. A bus without a session floats high.
        c_int::from(unsafe { Self::pins(ctrl) }.is_none_or(|pins| pins.data()))
    }
}
