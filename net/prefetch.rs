// SPDX-License-Identifier: GPL-2.0

//! Asking for memory ahead of its use.
//!
//! C header: [`include/linux/prefetch.h`](srctree/include/linux/prefetch.h)

use crate::bindings;

/// Asks for the cache line of `address`, which may be any: `prefetch()`.
///
/// This is done for each packet, so it is written out where it is one instruction.
#[inline(always)]
pub(super) fn prefetch<T>(address: *const T) {
    #[cfg(CONFIG_ARM64)]
    // SAFETY: A prefetch changes nothing and does not fault.
    unsafe {
        core::arch::asm!(
            "prfm pldl1keep, [{address}]",
            address = in(reg) address,
            options(readonly, nostack, preserves_flags),
        )
    };
    #[cfg(not(CONFIG_ARM64))]
    // SAFETY: As above.
    unsafe {
        bindings::ravb_helper_prefetch(address.cast())
    };
}

/// Asks for what the network stack looks at first in a packet that begins at `start`:
/// `net_prefetch()`.
#[inline(always)]
pub(super) fn net_prefetch(start: *const u8) {
    const LINE: usize = bindings::RAVB_RS_CONST_L1_CACHE_BYTES;

    prefetch(start);
    if LINE < 128 {
        prefetch(start.wrapping_add(LINE));
    }
}
