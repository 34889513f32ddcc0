// SPDX-License-Identifier: GPL-2.0

//! Platform drivers with power management and shutdown.
//!
//! [`kernel::platform::Adapter`] sets neither `driver.pm` nor `shutdown`; this one does. What the
//! driver implements is [`kernel::platform::Driver`] and [`SystemOps`].
//!
//! C header: [`include/linux/platform_device.h`](srctree/include/linux/platform_device.h)

use kernel::{
    acpi,
    device::{
        Bound,
        CoreInternal, //
    },
    dma::{
        Device as _,
        DmaMask, //
    },
    driver,
    error::{
        from_result,
        to_result, //
    },
    ffi::c_int,
    of,
    platform,
    prelude::*,
    types::Opaque,
    ThisModule, //
};

use crate::bindings;

/// What the system asks of a bound device.
///
/// All of it is called in process context, and never while the device is being probed or unbound.
pub(crate) trait SystemOps: platform::Driver {
    /// How wide the addresses are that the device uses for DMA.
    const DMA_MASK: DmaMask;

    /// The system goes to sleep.
    fn suspend<'bound>(
        dev: &'bound platform::Device<Bound>,
        data: Pin<&Self::Data<'bound>>,
    ) -> Result;

    /// The system woke up.
    fn resume<'bound>(
        dev: &'bound platform::Device<Bound>,
        data: Pin<&Self::Data<'bound>>,
    ) -> Result;

    /// The system goes down or another kernel is about to run: the device must not touch memory
    /// any more when this returns.
    fn shutdown<'bound>(dev: &'bound platform::Device<Bound>, data: Pin<&Self::Data<'bound>>);
}

/// An adapter for the registration of platform drivers that implement [`SystemOps`].
pub(crate) struct Adapter<T>(T);

// SAFETY: `platform_driver` is a C type that embeds a `struct device_driver` at this offset, and
// `probe_callback` stores `T::Data` as the driver data.
unsafe impl<T: SystemOps> driver::DriverLayout for Adapter<T> {
    type DriverType = bindings::platform_driver;
    type DriverData<'bound> = T::Data<'bound>;
    const DEVICE_DRIVER_OFFSET: usize = core::mem::offset_of!(Self::DriverType, driver);
}

// SAFETY: After a successful `register`, `unregister` undoes it.
unsafe impl<T: SystemOps> driver::RegistrationOps for Adapter<T> {
    unsafe fn register(
        pdrv: &Opaque<Self::DriverType>,
        name: &'static CStr,
        module: &'static ThisModule,
    ) -> Result {
        let of_table = T::OF_ID_TABLE.map_or(core::ptr::null(), |table| table.as_ptr());

        // SAFETY: Nobody else knows `pdrv` before it is registered.
        unsafe {
            let pdrv = pdrv.get();
            (*pdrv).driver.name = name.as_char_ptr();
            (*pdrv).driver.of_match_table = of_table.cast();
            (*pdrv).driver.pm = &Self::PM_OPS;
            (*pdrv).probe = Some(Self::probe_callback);
            (*pdrv).remove = Some(Self::remove_callback);
            (*pdrv).shutdown = Some(Self::shutdown_callback);
        }

        // SAFETY: `pdrv` is initialised, and the caller keeps it in place until `unregister`.
        to_result(unsafe {
            bindings::__platform_driver_register(
                pdrv.get(),
                module.as_ptr().cast(),
                name.as_char_ptr(),
            )
        })
    }

    unsafe fn unregister(pdrv: &Opaque<Self::DriverType>) {
        // SAFETY: By the requirements of this function, `pdrv` is registered.
        unsafe { bindings::platform_driver_unregister(pdrv.get()) };
    }
}

impl<T: SystemOps> driver::Adapter for Adapter<T> {
    type IdInfo = T::IdInfo;

    fn acpi_id_table() -> Option<acpi::IdTable<Self::IdInfo>> {
        T::ACPI_ID_TABLE
    }

    fn of_id_table() -> Option<of::IdTable<Self::IdInfo>> {
        T::OF_ID_TABLE
    }
}

impl<T: SystemOps> Adapter<T> {
    const PM_OPS: bindings::dev_pm_ops = bindings::dev_pm_ops {
        suspend: Some(Self::suspend_callback),
        resume: Some(Self::resume_callback),
        freeze: Some(Self::suspend_callback),
        thaw: Some(Self::resume_callback),
        poweroff: Some(Self::suspend_callback),
        restore: Some(Self::resume_callback),
        ..pin_init::zeroed()
    };

    extern "C" fn probe_callback(pdev: *mut bindings::platform_device) -> c_int {
        // SAFETY: The platform bus passes a valid device that it holds for this call.
        let pdev = unsafe { &*pdev.cast::<platform::Device<CoreInternal<'_>>>() };
        // SAFETY: The tables that matched carry an `IdInfo` of this type.
        let info = unsafe { <Self as driver::Adapter>::id_info(pdev.as_ref()) };

        from_result(|| {
            // SAFETY: Nothing is allocated or mapped for the device before its driver is probed.
            unsafe { pdev.dma_set_mask_and_coherent(T::DMA_MASK) }?;
            pdev.as_ref().set_drvdata(T::probe(pdev, info))?;
            Ok(0)
        })
    }

    extern "C" fn remove_callback(pdev: *mut bindings::platform_device) {
        // SAFETY: The platform bus passes a valid device that it holds for this call.
        let pdev = unsafe { &*pdev.cast::<platform::Device<CoreInternal<'_>>>() };
        // SAFETY: Called after a successful probe, which stored data of this type.
        let data = unsafe { pdev.as_ref().drvdata_borrow::<T::Data<'_>>() };

        T::unbind(pdev, data);
    }

    /// Calls `f` with a bound device and its data, or returns `None` where there are none.
    ///
    /// # Safety
    ///
    /// `dev` must be the device of a platform device that this driver is or was bound to, and the
    /// caller must hold the device lock.
    unsafe fn with_data<R>(
        dev: *mut bindings::device,
        f: impl for<'b> FnOnce(&'b platform::Device<Bound>, Pin<&T::Data<'b>>) -> R,
    ) -> Option<R> {
        // SAFETY: `dev` is embedded in a platform device.
        let pdev = unsafe { kernel::container_of!(dev, bindings::platform_device, dev) };
        // SAFETY: The device is valid, and its lock keeps the driver bound.
        let pdev = unsafe { &*pdev.cast::<platform::Device<CoreInternal<'_>>>() };

        // SAFETY: The lock keeps the pointer from changing.
        if unsafe { (*dev).driver_data }.is_null() {
            return None;
        }
        // SAFETY: Data that is set is the one that `probe_callback` stored.
        let data = unsafe { pdev.as_ref().drvdata_borrow::<T::Data<'_>>() };
        Some(f(pdev, data))
    }

    extern "C" fn suspend_callback(dev: *mut bindings::device) -> c_int {
        // SAFETY: The PM core passes a bound device with its lock held.
        unsafe {
            Self::with_data(dev, |dev, data| {
                from_result(|| T::suspend(dev, data).map(|()| 0))
            })
        }
        .unwrap_or(0)
    }

    extern "C" fn resume_callback(dev: *mut bindings::device) -> c_int {
        // SAFETY: The PM core passes a bound device with its lock held.
        unsafe {
            Self::with_data(dev, |dev, data| {
                from_result(|| T::resume(dev, data).map(|()| 0))
            })
        }
        .unwrap_or(0)
    }

    extern "C" fn shutdown_callback(pdev: *mut bindings::platform_device) {
        // SAFETY: The device core passes a valid device with its lock held.
        unsafe { Self::with_data(&raw mut (*pdev).dev, T::shutdown) };
    }
}

/// Declares a kernel module that is one platform driver with [`SystemOps`].
#[macro_export]
macro_rules! module_platform_driver {
    ($($f:tt)*) => {
        ::kernel::module_driver!(<T>, $crate::net::platform::Adapter<T>, { $($f)* });
    };
}
