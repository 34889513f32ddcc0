// SPDX-License-Identifier: GPL-2.0

//! Power management: at run time, and of what wakes the system.
//!
//! C headers: [`include/linux/pm_runtime.h`](srctree/include/linux/pm_runtime.h),
//! [`include/linux/pm_wakeup.h`](srctree/include/linux/pm_wakeup.h)

use kernel::{
    device::{
        Bound,
        Device, //
    },
    error::to_result,
    prelude::*,
    time::Delta, //
};

use super::device;
use crate::bindings;

/// Runtime power management of a bound device.
///
/// # Invariants
///
/// Runtime PM of `dev` is enabled, and stays so until the driver is unbound.
#[derive(Clone, Copy)]
pub(crate) struct Runtime<'bound> {
    dev: &'bound Device<Bound>,
}

/// Disables runtime PM when the driver is unbound.
struct Enabled<'bound>(&'bound Device<Bound>);

impl<'bound> Runtime<'bound> {
    /// Enables runtime PM; an unused device is suspended after `delay`, and in any case when the
    /// driver is unbound.
    pub(crate) fn enable(dev: &'bound Device<Bound>, delay: Delta) -> Result<Self> {
        let raw = device::as_raw(dev);
        let delay = i32::try_from(delay.as_millis()).map_err(|_| EINVAL)?;

        // SAFETY: `dev` is a valid device with a driver, in all three calls.
        unsafe {
            bindings::pm_runtime_set_autosuspend_delay(raw, delay);
            bindings::ravb_helper_pm_runtime_use_autosuspend(raw);
            bindings::pm_runtime_enable(raw);
        }
        // The value undoes the calls above, also where it cannot be given to the device.
        //
        // SAFETY: `Enabled::drop` uses the device alone.
        unsafe { device::own(dev, Enabled(dev)) }?;

        // INVARIANT: Enabled above.
        Ok(Self { dev })
    }

    /// Resumes the device, and keeps it running as long as the result lives. May sleep.
    pub(crate) fn resume(self) -> Result<Active<'bound>> {
        // SAFETY: `self.dev` is a valid device.
        to_result(unsafe {
            bindings::ravb_helper_pm_runtime_resume_and_get(device::as_raw(self.dev))
        })?;
        // INVARIANT: Resumed, and counted as in use.
        Ok(Active { dev: self.dev })
    }
}

impl Drop for Enabled<'_> {
    fn drop(&mut self) {
        let raw = device::as_raw(self.0);

        // A pending autosuspend is done at once: a clock must not be left on.
        //
        // SAFETY: `self.0` is a valid device that is being unbound, in all three calls.
        unsafe {
            bindings::ravb_helper_pm_runtime_suspend(raw);
            bindings::ravb_helper_pm_runtime_dont_use_autosuspend(raw);
            bindings::ravb_helper_pm_runtime_disable(raw);
        }
    }
}

/// Proof that a device is resumed: its clocks are on.
///
/// # Invariants
///
/// The device is resumed, and this value holds one count of its runtime PM usage counter.
pub(crate) struct Active<'bound> {
    dev: &'bound Device<Bound>,
}

impl Clone for Active<'_> {
    fn clone(&self) -> Self {
        // SAFETY: `self.dev` is a valid device.
        unsafe { bindings::ravb_helper_pm_runtime_get_noresume(device::as_raw(self.dev)) };
        // INVARIANT: `self` keeps the device resumed until the new count does.
        Self { dev: self.dev }
    }
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        // SAFETY: By the invariant, a count is ours to give back.
        unsafe { bindings::ravb_helper_pm_runtime_put_autosuspend(device::as_raw(self.dev)) };
    }
}

/// The ability of a device to wake the system, which the user switches on and off.
///
/// # Invariants
///
/// `dev` is known to be able to wake the system, until the driver is unbound.
#[derive(Clone, Copy)]
pub(crate) struct Wakeup<'bound> {
    dev: &'bound Device<Bound>,
}

/// Takes the ability away when the driver is unbound.
struct Capable<'bound>(&'bound Device<Bound>);

impl<'bound> Wakeup<'bound> {
    /// Tells that `dev` is able to wake the system; it is switched off at first.
    pub(crate) fn new(dev: &'bound Device<Bound>) -> Result<Self> {
        // SAFETY: `dev` is a valid device with a driver.
        unsafe { bindings::device_set_wakeup_capable(device::as_raw(dev), true) };
        // SAFETY: `Capable::drop` uses the device alone.
        unsafe { device::own(dev, Capable(dev)) }?;
        // INVARIANT: Told above.
        Ok(Self { dev })
    }

    /// Whether it is switched on.
    pub(crate) fn is_enabled(self) -> bool {
        // SAFETY: `self.dev` is a valid device.
        unsafe { bindings::ravb_helper_device_may_wakeup(device::as_raw(self.dev)) }
    }

    /// Switches it on or off. May sleep.
    pub(crate) fn set(self, enabled: bool) -> Result {
        // SAFETY: `self.dev` is a valid device.
        to_result(unsafe { bindings::device_set_wakeup_enable(device::as_raw(self.dev), enabled) })
    }
}

impl Drop for Capable<'_> {
    fn drop(&mut self) {
        let raw = device::as_raw(self.0);

        // SAFETY: `self.0` is a valid device that is being unbound, in both calls.
        unsafe {
            bindings::device_set_wakeup_enable(raw, false);
            bindings::device_set_wakeup_capable(raw, false);
        }
    }
}

/// Tells that a device noticed what is to wake the system. Callable in any context.
pub(crate) fn wakeup_event(dev: &Device<Bound>) {
    // SAFETY: `dev` is a valid device.
    unsafe { bindings::pm_wakeup_dev_event(device::as_raw(dev), 0, false) };
}

/// Suspends the device for system sleep, whatever its usage counter says.
pub(crate) fn force_suspend(dev: &Device<Bound>) -> Result {
    // SAFETY: `dev` is a valid device.
    to_result(unsafe { bindings::pm_runtime_force_suspend(device::as_raw(dev)) })
}

/// Undoes [`force_suspend`].
pub(crate) fn force_resume(dev: &Device<Bound>) -> Result {
    // SAFETY: `dev` is a valid device.
    to_result(unsafe { bindings::pm_runtime_force_resume(device::as_raw(dev)) })
}
