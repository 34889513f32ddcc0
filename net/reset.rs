// SPDX-License-Identifier: GPL-2.0

//! Reset lines.
//!
//! C header: [`include/linux/reset.h`](srctree/include/linux/reset.h)

use core::ptr::NonNull;

use kernel::{
    device::{
        Bound,
        Device, //
    },
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*, //
};

use super::device;
use crate::bindings;

/// An exclusive reset line of a device.
///
/// # Invariants
///
/// `ctrl` is a valid, exclusively held reset control.
pub(crate) struct Control {
    ctrl: NonNull<bindings::reset_control>,
}

// SAFETY: The reset framework has its own locks.
unsafe impl Send for Control {}
// SAFETY: As above.
unsafe impl Sync for Control {}

impl Control {
    /// Takes the only reset line of `dev` and releases the device from reset.
    ///
    /// The device is put back into reset when the driver is unbound.
    pub(crate) fn deasserted<'bound>(dev: &'bound Device<Bound>) -> Result<&'bound Self> {
        // SAFETY: `dev` is a valid device.
        let ctrl = unsafe {
            bindings::ravb_helper_reset_control_get_exclusive(
                device::as_raw(dev),
                core::ptr::null(),
            )
        };
        let ctrl = from_err_ptr(ctrl)?;
        // INVARIANT: A reset control that is not an error pointer is valid and ours.
        let control = Self {
            ctrl: NonNull::new(ctrl).ok_or(ENODEV)?,
        };
        control.deassert()?;

        // SAFETY: `Control::drop` uses the reset framework alone.
        unsafe { device::own(dev, control) }
    }

    /// Releases the device from reset.
    pub(crate) fn deassert(&self) -> Result {
        // SAFETY: `self.ctrl` is valid by the invariant.
        to_result(unsafe { bindings::reset_control_deassert(self.ctrl.as_ptr()) })
    }

    /// Puts the device into reset.
    pub(crate) fn assert(&self) -> Result {
        // SAFETY: `self.ctrl` is valid by the invariant.
        to_result(unsafe { bindings::reset_control_assert(self.ctrl.as_ptr()) })
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        // A line that cannot be asserted leaves the device running without a driver; there is
        // nobody left to tell.
        let _ = self.assert();
        // SAFETY: `self.ctrl` is valid and not used after this.
        unsafe { bindings::reset_control_put(self.ctrl.as_ptr()) };
    }
}
