// SPDX-License-Identifier: GPL-2.0
//! The C interface, called the way C does.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_void, CStr, CString};

use ravb_model::ffi::*;

/// Mirrors `struct ravb_host`.
#[repr(C)]
struct Callbacks {
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

#[derive(Default)]
struct Machine {
    now: u64,
    deadline: u64,
    log: Vec<String>,
}

fn machine<'a>(opaque: *mut c_void) -> &'a mut Machine {
    // SAFETY: every test passes its own machine and uses it nowhere else meanwhile.
    unsafe { &mut *opaque.cast() }
}

extern "C" fn now(opaque: *mut c_void) -> u64 {
    machine(opaque).now
}
extern "C" fn dma_read(_: *mut c_void, _: u64, _: *mut c_void, _: usize) -> bool {
    false
}
extern "C" fn dma_write(_: *mut c_void, _: u64, _: *const c_void, _: usize) -> bool {
    false
}
extern "C" fn set_irq(_: *mut c_void, _: u32, _: bool) {}
extern "C" fn arm_timer(opaque: *mut c_void, deadline: u64) {
    machine(opaque).deadline = deadline;
}
extern "C" fn transmit(_: *mut c_void, _: *const u8, _: usize) {}
extern "C" fn watch(_: *mut c_void, _: u64, _: u64) {}
extern "C" fn unwatch_all(_: *mut c_void) {}
extern "C" fn log(opaque: *mut c_void, line: *const c_char) {
    // SAFETY: the model passes NUL-terminated text.
    let line = unsafe { CStr::from_ptr(line) };
    machine(opaque)
        .log
        .push(line.to_string_lossy().into_owned());
}

/// Takes text from the interface.
///
/// # Safety
///
/// `text` is null or comes from the interface.
unsafe fn take(text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let owned = unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned();
    // SAFETY: the caller's promise, and the last use.
    unsafe { ravb_model_free_text(text) };
    Some(owned)
}

#[test]
fn a_life() {
    let mut machine = Box::<Machine>::default();
    let host = Callbacks {
        opaque: std::ptr::from_mut(machine.as_mut()).cast(),
        now,
        dma_read,
        dma_write,
        set_irq,
        arm_timer,
        transmit,
        watch,
        unwatch_all,
        log,
    };
    let name = |text: &str| CString::new(text).unwrap_or_default();
    // SAFETY: one thread, pointers from the interface itself, layout as in the header.
    unsafe {
        let model = ravb_model_new();
        // Properties may be set before there is a machine.
        assert_eq!(
            take(ravb_model_set(
                model,
                name("cable").as_ptr(),
                name("off").as_ptr()
            )),
            None
        );
        let message = take(ravb_model_set(
            model,
            name("cable").as_ptr(),
            name("cut").as_ptr(),
        ));
        assert!(message.is_some_and(|message| message.contains("cable")));
        assert_eq!(take(ravb_model_get(model, name("nothing").as_ptr())), None);
        ravb_model_attach(model, std::ptr::from_ref(&host).cast());
        ravb_model_power_on(model);
        assert_eq!(ravb_model_window(model), 0x10000);
        assert_eq!(ravb_model_irqs(model), 3);
        // Clock and reset come from the clock generator.
        let cpg = ravb_cpg_new();
        ravb_cpg_power_on(cpg);
        ravb_model_read(model, 0xc);
        assert_eq!(machine.log.len(), 1, "{:?}", machine.log);
        ravb_cpg_write(cpg, 0x57c, 0x0001_0001);
        assert_eq!(ravb_cpg_read(cpg, 0x57c), 1);
        ravb_model_set_clock(model, true);
        ravb_model_set_reset(model, false);
        assert_eq!(ravb_model_read(model, 0xc), 1);
        ravb_model_write(model, 0, 1);
        assert_eq!(ravb_model_read(model, 0xc), 2);
        ravb_model_bad_access(model, 1, 1, false);
        ravb_model_receive(model, [0u8; 60].as_ptr(), 60);
        assert_ne!(machine.deadline, u64::MAX);
        machine.now = machine.deadline;
        ravb_model_timer(model);
        ravb_model_watched(model, 0x1000, 4, true, 0);
        assert!(!ravb_model_access_aborts(model));
        let violations = take(ravb_model_get(model, name("violations").as_ptr()));
        assert_eq!(
            violations.as_deref(),
            Some(r#"{"bad-access":1,"clock-off-access":1}"#)
        );
        ravb_cpg_free(cpg);
        ravb_model_free(model);
    }
}

#[test]
fn the_table_of_properties() {
    let mut table = std::ptr::null();
    // SAFETY: `table` is a pointer to a pointer.
    let count = unsafe { ravb_model_properties(&mut table) };
    assert_eq!(count, ravb_model::properties::TABLE.len());
    assert!(!table.is_null());
}
