// SPDX-License-Identifier: GPL-2.0
//! C interface, as declared in `tests/qemu/ravb_model.h`. The only place with unsafe code.
//!
//! A panic must not unwind into C: it is printed with its backtrace by the default hook, and the
//! process ends, so that no test can pass over it.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_void, CStr, CString};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::OnceLock;

use crate::cpg::{Cpg, Outputs};
use crate::host::{BusError, Host, NoHost};
use crate::model::Model;
use crate::properties;

/// `struct ravb_host`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RavbHost {
    opaque: *mut c_void,
    now: extern "C" fn(*mut c_void) -> u64,
    dma_read: extern "C" fn(*mut c_void, u64, *mut c_void, usize) -> bool,
    dma_write: extern "C" fn(*mut c_void, u64, *const c_void, usize) -> bool,
    set_irq: extern "C" fn(*mut c_void, u32, bool),
    arm_timer: extern "C" fn(*mut c_void, u64),
    transmit: extern "C" fn(*mut c_void, *const u8, usize),
    watch: extern "C" fn(*mut c_void, u64, u64),
    unwatch_all: extern "C" fn(*mut c_void),
    log: extern "C" fn(*mut c_void, *const c_char),
}

impl Host for RavbHost {
    fn now(&mut self) -> u64 {
        (self.now)(self.opaque)
    }
    fn dma_read(&mut self, addr: u64, buf: &mut [u8]) -> Result<(), BusError> {
        let done = (self.dma_read)(self.opaque, addr, buf.as_mut_ptr().cast(), buf.len());
        done.then_some(()).ok_or(BusError)
    }
    fn dma_write(&mut self, addr: u64, data: &[u8]) -> Result<(), BusError> {
        let done = (self.dma_write)(self.opaque, addr, data.as_ptr().cast(), data.len());
        done.then_some(()).ok_or(BusError)
    }
    fn set_irq(&mut self, line: usize, level: bool) {
        (self.set_irq)(self.opaque, line as u32, level);
    }
    fn arm_timer(&mut self, deadline: u64) {
        (self.arm_timer)(self.opaque, deadline);
    }
    fn transmit(&mut self, frame: &[u8]) {
        (self.transmit)(self.opaque, frame.as_ptr(), frame.len());
    }
    fn watch(&mut self, addr: u64, len: u64) {
        (self.watch)(self.opaque, addr, len);
    }
    fn unwatch_all(&mut self) {
        (self.unwatch_all)(self.opaque);
    }
    fn log(&mut self, line: &str) {
        (self.log)(self.opaque, text(line).as_ptr());
    }
}

/// `struct ravb_model`: a model and the machine it is attached to.
pub struct RavbModel {
    model: Model,
    host: Box<dyn Host>,
}

/// `struct ravb_cpg`.
#[derive(Debug)]
pub struct RavbCpg(Cpg);

/// `struct ravb_cpg_outputs`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct RavbCpgOutputs {
    clock_on: [bool; 2],
    reset_asserted: [bool; 2],
}

impl From<Outputs> for RavbCpgOutputs {
    fn from(outputs: Outputs) -> Self {
        Self {
            clock_on: outputs.clock_on,
            reset_asserted: outputs.reset_asserted,
        }
    }
}

/// `struct ravb_property`.
#[repr(C)]
#[derive(Debug)]
pub struct RavbProperty {
    name: *const c_char,
    description: *const c_char,
    settable: bool,
    at_runtime: bool,
}

/// The table is built once and never changes.
struct PropertyTable(Vec<RavbProperty>);
// SAFETY: the pointers lead to leaked, immutable text.
unsafe impl Sync for PropertyTable {}
// SAFETY: as above.
unsafe impl Send for PropertyTable {}

/// Text for C; what follows a NUL byte, of which we have none, would be lost.
fn text(line: &str) -> CString {
    CString::new(line.split('\0').next().unwrap_or_default()).unwrap_or_default()
}

/// Runs `body`; a panic ends the process after the default hook has printed it.
fn guard<T>(body: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| std::process::abort())
}

/// Runs `body` on a model and its host.
///
/// # Safety
///
/// `model` comes from [`ravb_model_new`], has not been freed, and no other call on it is running.
unsafe fn with<T>(model: *mut RavbModel, body: impl FnOnce(&mut Model, &mut dyn Host) -> T) -> T {
    guard(|| {
        // SAFETY: the caller's promise.
        let model = unsafe { &mut *model };
        body(&mut model.model, model.host.as_mut())
    })
}

/// Table of all properties; returns their number.
///
/// # Safety
///
/// `table` points to a pointer.
#[no_mangle]
pub unsafe extern "C" fn ravb_model_properties(table: *mut *const RavbProperty) -> usize {
    static TABLE: OnceLock<PropertyTable> = OnceLock::new();
    guard(|| {
        let built = TABLE.get_or_init(|| {
            let leak = |line: &str| text(line).into_raw().cast_const();
            let entries = properties::TABLE.iter().map(|property| RavbProperty {
                name: leak(property.name),
                description: leak(property.description),
                settable: property.settable(),
                at_runtime: property.at_runtime,
            });
            PropertyTable(entries.collect())
        });
        // SAFETY: the caller's promise.
        unsafe { *table = built.0.as_ptr() };
        built.0.len()
    })
}

/// A new model, not attached to a machine.
#[no_mangle]
pub extern "C" fn ravb_model_new() -> *mut RavbModel {
    guard(|| {
        Box::into_raw(Box::new(RavbModel {
            model: Model::new(),
            host: Box::new(NoHost),
        }))
    })
}

/// Frees a model; null is fine.
///
/// # Safety
///
/// `model` comes from [`ravb_model_new`] and is not used again.
#[no_mangle]
pub unsafe extern "C" fn ravb_model_free(model: *mut RavbModel) {
    if !model.is_null() {
        // SAFETY: the caller's promise.
        guard(|| drop(unsafe { Box::from_raw(model) }));
    }
}

/// Attaches a model to the machine around it.
///
/// # Safety
///
/// As [`ravb_model_read`]; `host` and what its members need outlive the model.
#[no_mangle]
pub unsafe extern "C" fn ravb_model_attach(model: *mut RavbModel, host: *const RavbHost) {
    guard(|| {
        // SAFETY: the caller's promise.
        let (model, host) = unsafe { (&mut *model, *host) };
        model.host = Box::new(host);
        model.model.attached(model.host.as_mut());
    });
}

/// Sets a property. Returns null or a message to be freed with [`ravb_model_free_text`].
///
/// # Safety
///
/// As [`ravb_model_read`]; `name` and `value` are NUL-terminated.
#[no_mangle]
pub unsafe extern "C" fn ravb_model_set(
    model: *mut RavbModel,
    name: *const c_char,
    value: *const c_char,
) -> *mut c_char {
    // SAFETY: the caller's promise.
    let (name, value) = unsafe { (CStr::from_ptr(name), CStr::from_ptr(value)) };
    let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
    // SAFETY: the caller's promise.
    match unsafe { with(model, |m, h| m.set(h, &name, &value)) } {
        Ok(()) => std::ptr::null_mut(),
        Err(message) => text(&message).into_raw(),
    }
}

/// Reads a property. Returns null for an unknown name, else text to be freed.
///
/// # Safety
///
/// As [`ravb_model_set`].
#[no_mangle]
pub unsafe extern "C" fn ravb_model_get(model: *mut RavbModel, name: *const c_char) -> *mut c_char {
    // SAFETY: the caller's promise.
    let name = unsafe { CStr::from_ptr(name) }.to_string_lossy();
    // SAFETY: the caller's promise.
    let value = unsafe { with(model, |m, _| m.get(&name)) };
    value.map_or(std::ptr::null_mut(), |value| text(&value).into_raw())
}

/// Frees text this interface has returned; null is fine.
///
/// # Safety
///
/// `text` comes from this interface and is not used again.
#[no_mangle]
pub unsafe extern "C" fn ravb_model_free_text(text: *mut c_char) {
    if !text.is_null() {
        // SAFETY: the caller's promise.
        drop(unsafe { CString::from_raw(text) });
    }
}

/// Size of the register window in bytes.
///
/// # Safety
///
/// As [`ravb_model_read`].
#[no_mangle]
pub unsafe extern "C" fn ravb_model_window(model: *const RavbModel) -> u64 {
    // SAFETY: the caller's promise.
    unsafe { &*model }.model.window()
}

/// Number of MAC interrupt lines; the PHY's line has this number.
///
/// # Safety
///
/// As [`ravb_model_read`].
#[no_mangle]
pub unsafe extern "C" fn ravb_model_irqs(model: *const RavbModel) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { &*model }.model.irqs() as u32
}

/// True if a register access would now end in a bus error.
///
/// # Safety
///
/// As [`ravb_model_read`].
#[no_mangle]
pub unsafe extern "C" fn ravb_model_access_aborts(model: *const RavbModel) -> bool {
    // SAFETY: the caller's promise.
    unsafe { &*model }.model.access_aborts()
}

/// A 32-bit register read.
///
/// # Safety
///
/// `model` comes from [`ravb_model_new`], has not been freed, and no other call on it is running.
#[no_mangle]
pub unsafe extern "C" fn ravb_model_read(model: *mut RavbModel, offset: u64) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { with(model, |m, h| m.read(h, offset)) }
}

/// A 32-bit register write.
///
/// # Safety
///
/// As [`ravb_model_read`].
#[no_mangle]
pub unsafe extern "C" fn ravb_model_write(model: *mut RavbModel, offset: u64, val: u32) {
    // SAFETY: the caller's promise.
    unsafe { with(model, |m, h| m.write(h, offset, val)) }
}

/// An access of another width or alignment.
///
/// # Safety
///
/// As [`ravb_model_read`].
#[no_mangle]
pub unsafe extern "C" fn ravb_model_bad_access(
    model: *mut RavbModel,
    offset: u64,
    size: u32,
    is_write: bool,
) {
    // SAFETY: the caller's promise.
    unsafe { with(model, |m, h| m.bad_access(h, offset, size, is_write)) }
}

/// The deadline has come.
///
/// # Safety
///
/// As [`ravb_model_read`].
#[no_mangle]
pub unsafe extern "C" fn ravb_model_timer(model: *mut RavbModel) {
    // SAFETY: the caller's promise.
    unsafe { with(model, |m, h| m.timer(h)) }
}

/// A frame arrives from the wire.
///
/// # Safety
///
/// As [`ravb_model_read`]; `frame` points to `len` bytes.
#[no_mangle]
pub unsafe extern "C" fn ravb_model_receive(model: *mut RavbModel, frame: *const u8, len: usize) {
    // SAFETY: the caller's promise.
    let frame = unsafe { std::slice::from_raw_parts(frame, len) };
    // SAFETY: the caller's promise.
    unsafe { with(model, |m, h| m.receive(h, frame)) }
}

/// A CPU has accessed a watched page.
///
/// # Safety
///
/// As [`ravb_model_read`].
#[no_mangle]
pub unsafe extern "C" fn ravb_model_watched(
    model: *mut RavbModel,
    addr: u64,
    size: u32,
    is_write: bool,
    value: u64,
) {
    // SAFETY: the caller's promise.
    unsafe { with(model, |m, h| m.watched(h, addr, size, is_write, value)) }
}

/// Whether the guest finds a control page.
///
/// # Safety
///
/// As [`ravb_model_read`].
#[no_mangle]
pub unsafe extern "C" fn ravb_model_has_control(model: *const RavbModel) -> bool {
    // SAFETY: the caller's promise.
    unsafe { &*model }.model.has_control()
}

/// A read of the control page.
///
/// # Safety
///
/// As [`ravb_model_read`].
#[no_mangle]
pub unsafe extern "C" fn ravb_model_control_read(model: *mut RavbModel, offset: u64) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { with(model, |m, _| m.control_read(offset)) }
}

/// A write of the control page; true if it was a mark.
///
/// # Safety
///
/// As [`ravb_model_read`].
#[no_mangle]
pub unsafe extern "C" fn ravb_model_control_write(
    model: *mut RavbModel,
    offset: u64,
    val: u32,
    executed: u64,
) -> bool {
    // SAFETY: the caller's promise.
    unsafe { with(model, |m, h| m.control_write(h, offset, val, executed)) }
}

/// Power-on reset of the machine.
///
/// # Safety
///
/// As [`ravb_model_read`].
#[no_mangle]
pub unsafe extern "C" fn ravb_model_power_on(model: *mut RavbModel) {
    // SAFETY: the caller's promise.
    unsafe { with(model, |m, h| m.power_on(h)) }
}

/// Level of the module clock.
///
/// # Safety
///
/// As [`ravb_model_read`].
#[no_mangle]
pub unsafe extern "C" fn ravb_model_set_clock(model: *mut RavbModel, on: bool) {
    // SAFETY: the caller's promise.
    unsafe { with(model, |m, h| m.set_clock(h, on)) }
}

/// Level of the reset line.
///
/// # Safety
///
/// As [`ravb_model_read`].
#[no_mangle]
pub unsafe extern "C" fn ravb_model_set_reset(model: *mut RavbModel, asserted: bool) {
    // SAFETY: the caller's promise.
    unsafe { with(model, |m, h| m.set_reset(h, asserted)) }
}

/// A new clock generator.
#[no_mangle]
pub extern "C" fn ravb_cpg_new() -> *mut RavbCpg {
    guard(|| Box::into_raw(Box::new(RavbCpg(Cpg::new()))))
}

/// Frees a clock generator; null is fine.
///
/// # Safety
///
/// `cpg` comes from [`ravb_cpg_new`] and is not used again.
#[no_mangle]
pub unsafe extern "C" fn ravb_cpg_free(cpg: *mut RavbCpg) {
    if !cpg.is_null() {
        // SAFETY: the caller's promise.
        guard(|| drop(unsafe { Box::from_raw(cpg) }));
    }
}

/// Power-on reset of the clock generator.
///
/// # Safety
///
/// `cpg` comes from [`ravb_cpg_new`], has not been freed, and no other call on it is running.
#[no_mangle]
pub unsafe extern "C" fn ravb_cpg_power_on(cpg: *mut RavbCpg) {
    // SAFETY: the caller's promise.
    guard(|| unsafe { &mut *cpg }.0.power_on());
}

/// A 32-bit register read.
///
/// # Safety
///
/// As [`ravb_cpg_power_on`].
#[no_mangle]
pub unsafe extern "C" fn ravb_cpg_read(cpg: *mut RavbCpg, offset: u64) -> u32 {
    // SAFETY: the caller's promise.
    guard(|| unsafe { &*cpg }.0.read(offset))
}

/// A 32-bit register write. Returns the outputs after it.
///
/// # Safety
///
/// As [`ravb_cpg_power_on`].
#[no_mangle]
pub unsafe extern "C" fn ravb_cpg_write(
    cpg: *mut RavbCpg,
    offset: u64,
    val: u32,
) -> RavbCpgOutputs {
    // SAFETY: the caller's promise.
    guard(|| unsafe { &mut *cpg }.0.write(offset, val)).into()
}
