// SPDX-License-Identifier: GPL-2.0

//! Small additions to [`kernel::device`].
//!
//! C header: [`include/linux/device.h`](srctree/include/linux/device.h)

use kernel::{
    device::{
        Bound,
        Device,
        DeviceContext, //
    },
    error::to_result,
    fmt,
    prelude::*, //
};

use crate::bindings;

/// Returns the C device, as our own bindings call its type.
#[inline]
pub(super) fn as_raw<Ctx: DeviceContext>(dev: &Device<Ctx>) -> *mut bindings::device {
    // CAST: `Device` is a transparent wrapper of `struct device`.
    core::ptr::from_ref(dev).cast_mut().cast()
}

/// Returns the device-tree node of `dev`, or null.
pub(super) fn of_node<Ctx: DeviceContext>(dev: &Device<Ctx>) -> *mut bindings::device_node {
    // SAFETY: A `Device` is a valid `struct device`, whose `of_node` does not change while it has
    // a driver.
    unsafe { (*as_raw(dev)).of_node }
}

/// Gives `value` to the device: it is dropped when the driver is unbound, after everything that is
/// given to the device later.
///
/// Registrations live there and not in the hands of the driver, because then safe code cannot
/// forget them, and a registration that outlives what its callbacks use would be unsound.
///
/// # Safety
///
/// `drop` of `value` must not use anything that was given to the device after it.
pub(super) unsafe fn own<'bound, T: Send + 'bound>(
    dev: &'bound Device<Bound>,
    value: T,
) -> Result<&'bound T> {
    /// # Safety
    ///
    /// `data` must come from `KBox::into_raw` in [`own`], and is gone afterwards.
    unsafe extern "C" fn release<T>(data: *mut kernel::ffi::c_void) {
        // SAFETY: By the requirement above.
        drop(unsafe { KBox::from_raw(data.cast::<T>()) });
    }

    let value = KBox::into_raw(KBox::new(value, GFP_KERNEL)?);

    // SAFETY: `dev` is bound; `release` and `value` belong together.
    to_result(unsafe {
        bindings::__devm_add_action(
            as_raw(dev),
            Some(release::<T>),
            value.cast(),
            c"net::device::own".as_char_ptr(),
        )
    })
    .inspect_err(|_| {
        // SAFETY: The action was not added, so that `value` is still ours.
        unsafe { release::<T>(value.cast()) }
    })?;

    // SAFETY: The box is freed only when the device is being unbound.
    Ok(unsafe { &*value })
}

/// The function behind [`dev_err_probe!`](crate::dev_err_probe).
pub(crate) fn err_probe<Ctx: DeviceContext>(
    dev: &Device<Ctx>,
    error: Error,
    args: fmt::Arguments<'_>,
) -> Error {
    // SAFETY: `dev` is valid, and `%pA` is what the kernel prints `fmt::Arguments` with.
    unsafe {
        bindings::dev_err_probe(
            as_raw(dev),
            error.to_errno(),
            c"%pA\n".as_char_ptr(),
            core::ptr::from_ref(&args).cast::<kernel::ffi::c_void>(),
        )
    };
    error
}

/// Says why a probe failed and returns the error.
///
/// A deferred probe is not logged as an error; the reason shows in debugfs (`devices_deferred`).
#[macro_export]
macro_rules! dev_err_probe {
    ($dev:expr, $error:expr, $($arg:tt)+) => {
        $crate::net::device::err_probe($dev, $error, ::kernel::prelude::fmt!($($arg)+))
    };
}
