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
    prelude::*, //
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
    /// The interrupt line `index` of a platform device.
    pub(crate) fn by_index(
        pdev: &'bound kernel::platform::Device<Bound>,
        index: u32,
    ) -> Result<Self> {
        // CAST: `platform::Device` is a transparent wrapper of `struct platform_device`.
        let raw = core::ptr::from_ref(pdev).cast_mut().cast();
        // SAFETY: `pdev` is a valid platform device.
        let number = unsafe { bindings::platform_get_irq(raw, index) };
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

    /// Requests the line, which other devices may share. May sleep.
    ///
    /// `handler` is called in hard interrupt context, from now on until the result is dropped.
    pub(crate) fn request_shared<H: Handler + Send + 'bound>(
        self,
        handler: H,
    ) -> Result<Line<'bound, H>> {
        let handler = KBox::new(handler, GFP_KERNEL)?;
        let cookie = (&raw const *handler).cast_mut().cast::<c_void>();

        // SAFETY: By the invariant of `Number`, the line is one of `dev`. The handler stays where
        // it is until the line is released: by `Line::drop`, or, were the line forgotten and the
        // handler thus leaked, by the device core.
        to_result(unsafe {
            bindings::devm_request_threaded_irq(
                device::as_raw(self.dev),
                self.number,
                Some(handle::<H>),
                None,
                bindings::IRQF_SHARED as usize,
                self.dev.name().as_char_ptr(),
                cookie,
            )
        })?;

        // INVARIANT: Requested above, with this cookie.
        Ok(Line {
            number: self,
            handler,
        })
    }
}

/// Calls the handler of a line.
///
/// # Safety
///
/// Must only be called by the interrupt core for a line that [`Number::request_shared`] requested.
unsafe extern "C" fn handle<H: Handler>(_irq: c_int, cookie: *mut c_void) -> bindings::irqreturn {
    // SAFETY: The cookie is a handler of this type, alive as long as the line is requested.
    let handler = unsafe { &*cookie.cast::<H>() };

    match handler.handle() {
        IrqReturn::None => bindings::irqreturn::IRQ_NONE,
        IrqReturn::Handled => bindings::irqreturn::IRQ_HANDLED,
    }
}

/// An interrupt line that is being handled; dropping it releases the line and may sleep.
///
/// # Invariants
///
/// The line is requested with the address of `handler` as its cookie.
pub(crate) struct Line<'bound, H> {
    number: Number<'bound>,
    handler: KBox<H>,
}

impl<H> Drop for Line<'_, H> {
    fn drop(&mut self) {
        // SAFETY: By the invariant. When this returns no handler runs any more.
        unsafe {
            bindings::devm_free_irq(
                device::as_raw(self.number.dev),
                self.number.number,
                (&raw const *self.handler).cast_mut().cast(),
            )
        };
    }
}
