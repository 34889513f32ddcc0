// SPDX-License-Identifier: GPL-2.0

//! Interrupt lines that are requested when an interface is opened.
//!
//! [`kernel::irq::Registration`] wants a name that lives for ever and a promise not to be
//! forgotten. This one is named after the device, and is released by the device core at the
//! latest, so that requesting it is safe.
//!
//! C header: [`include/linux/interrupt.h`](srctree/include/linux/interrupt.h)

use kernel::{
    device::{
        Bound,
        Device, //
    },
    error::to_result,
    ffi::{
        c_int,
        c_void, //
    },
    irq::{
        Handler,
        IrqReturn, //
    },
    prelude::*,
    str::CString, //
};

use super::device;
use crate::bindings;

/// A number that stands for an interrupt line of a bound device.
///
/// # Invariants
///
/// The number is valid as long as `'bound` lives.
#[derive(Clone, Copy)]
pub(crate) struct Number<'bound> {
    dev: &'bound Device<Bound>,
    number: u32,
}

impl<'bound> Number<'bound> {
    /// The interrupt line of a platform device that has this name in the device tree, or the first.
    pub(crate) fn of_device(
        pdev: &'bound kernel::platform::Device<Bound>,
        name: Option<&CStr>,
    ) -> Result<Self> {
        // CAST: `platform::Device` is a transparent wrapper of `struct platform_device`.
        let raw = core::ptr::from_ref(pdev).cast_mut().cast();
        // SAFETY: `pdev` is a valid platform device, and the name a string.
        let number = unsafe {
            match name {
                Some(name) => bindings::platform_get_irq_byname(raw, name.as_char_ptr()),
                None => bindings::platform_get_irq(raw, 0),
            }
        };
        if number < 0 {
            return Err(Error::from_errno(number));
        }
        // INVARIANT: The lines of a device stay the same while it has a driver.
        Ok(Self {
            dev: pdev.as_ref(),
            number: number.unsigned_abs(),
        })
    }

    /// The number that the kernel knows the line by.
    pub(crate) fn get(self) -> u32 {
        self.number
    }

    /// Requests the line, which other devices may share if `shared` says so. May sleep.
    ///
    /// It is called as the device is, with `label` behind. `handler` is called in hard interrupt
    /// context, from now on until the result is dropped.
    pub(crate) fn request<H: Handler + Send + 'bound>(
        self,
        shared: bool,
        label: &str,
        handler: H,
    ) -> Result<Line<'bound, H>> {
        let device = self.dev.name().to_str().map_err(|_| EINVAL)?;
        let flags = if shared { bindings::IRQF_SHARED } else { 0 };
        let action = KBox::into_raw(KBox::new(
            Requested {
                number: self.number,
                name: CString::try_from_fmt(fmt!("{device}{label}"))?,
                handler,
            },
            GFP_KERNEL,
        )?);

        // SAFETY: By the invariant of `Number`, the line is one of `dev`. Handler and name stay
        // where they are until the line is released.
        to_result(unsafe {
            bindings::request_threaded_irq(
                self.number,
                Some(handle::<H>),
                None,
                flags as usize,
                (*action).name.as_char_ptr(),
                (&raw mut (*action).handler).cast(),
            )
        })
        .inspect_err(|_| {
            // SAFETY: Nobody else knows the box.
            drop(unsafe { KBox::from_raw(action) });
        })?;

        // SAFETY: `dev` is bound; `release` and `action` belong together.
        to_result(unsafe {
            bindings::__devm_add_action(
                device::as_raw(self.dev),
                Some(Requested::<H>::release),
                action.cast(),
                c"net::irq::Line".as_char_ptr(),
            )
        })
        .inspect_err(|_| {
            // SAFETY: The action was not added, so that the line is still ours to release.
            unsafe { Requested::<H>::release(action.cast()) };
        })?;

        // INVARIANT: Requested above, and given to the device core.
        Ok(Line {
            dev: self.dev,
            action,
        })
    }
}

/// Calls the handler of a line.
///
/// # Safety
///
/// Must only be called by the interrupt core for a line that [`Number::request`] requested.
unsafe extern "C" fn handle<H: Handler>(_irq: c_int, cookie: *mut c_void) -> bindings::irqreturn {
    // SAFETY: The cookie is a handler of this type, alive as long as the line is requested.
    let handler = unsafe { &*cookie.cast::<H>() };

    match handler.handle() {
        IrqReturn::None => bindings::irqreturn::IRQ_NONE,
        IrqReturn::Handled => bindings::irqreturn::IRQ_HANDLED,
    }
}

/// A line that was requested with the address of `handler` as its cookie.
struct Requested<H> {
    number: u32,
    name: CString,
    handler: H,
}

impl<H> Requested<H> {
    /// Releases the line; no handler runs any more when this returns.
    ///
    /// # Safety
    ///
    /// `action` must come from [`Number::request`], and is gone afterwards.
    unsafe extern "C" fn release(action: *mut c_void) {
        let action = action.cast::<Self>();
        // SAFETY: As the caller promises.
        unsafe {
            bindings::free_irq((*action).number, (&raw mut (*action).handler).cast());
            drop(KBox::from_raw(action));
        }
    }
}

/// An interrupt line that is being handled; dropping it releases the line and may sleep.
///
/// # Invariants
///
/// The device core has `action` until it is taken from it, and calls [`Requested::release`] with it
/// when the driver is unbound: a line that is forgotten is released then.
pub(crate) struct Line<'bound, H> {
    dev: &'bound Device<Bound>,
    action: *mut Requested<H>,
}

// SAFETY: A line may be released by any thread, if its handler may be dropped there.
unsafe impl<H: Send> Send for Line<'_, H> {}

impl<H> Line<'_, H> {
    /// Lets the line wake the system, or does not any more; undo it before the line is dropped. May
    /// sleep.
    pub(crate) fn set_wake(&self, wake: bool) -> Result {
        // SAFETY: The line is requested, by the invariant.
        to_result(unsafe { bindings::irq_set_irq_wake((*self.action).number, wake.into()) })
    }
}

impl<H> Drop for Line<'_, H> {
    fn drop(&mut self) {
        // SAFETY: `dev` is valid; the arguments are those of `request`.
        let taken = unsafe {
            bindings::devm_remove_action_nowarn(
                device::as_raw(self.dev),
                Some(Requested::<H>::release),
                self.action.cast(),
            )
        };
        // Otherwise the driver is being unbound, and the device core released the line.
        if taken == 0 {
            // SAFETY: By the invariant, and the device core does not call it any more.
            unsafe { Requested::<H>::release(self.action.cast()) };
        }
    }
}
