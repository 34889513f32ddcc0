// SPDX-License-Identifier: GPL-2.0

//! Streaming DMA mappings, and what [`kernel::dma`] lacks for coherent memory.
//!
//! C header: [`include/linux/dma-mapping.h`](srctree/include/linux/dma-mapping.h)

use kernel::{
    device::{
        Bound,
        Device, //
    },
    dma::{
        Coherent,
        DmaAddress, //
    },
    prelude::*, //
};

use super::device;
use crate::bindings;

/// Memory that a device may read.
///
/// # Invariants
///
/// `len` bytes from `addr` are mapped for `dev`, towards the device.
pub(crate) struct ToDevice<'bound> {
    dev: &'bound Device<Bound>,
    addr: DmaAddress,
    len: usize,
}

impl<'bound> ToDevice<'bound> {
    /// Maps `data`. Callable in any context.
    ///
    /// # Safety
    ///
    /// `data` must stay allocated, and must not be written, as long as the result lives.
    pub(super) unsafe fn map(dev: &'bound Device<Bound>, data: &[u8]) -> Result<Self> {
        let raw = device::as_raw(dev);
        // SAFETY: `dev` is valid and `data` is memory that can be mapped: the direction says that
        // it is not written.
        let addr = unsafe {
            bindings::ravb_helper_dma_map_single(
                raw,
                data.as_ptr().cast_mut().cast(),
                data.len(),
                bindings::dma_data_direction::DMA_TO_DEVICE,
            )
        };
        // SAFETY: `dev` is valid, and `addr` came from a mapping function.
        if unsafe { bindings::ravb_helper_dma_mapping_error(raw, addr) } != 0 {
            return Err(ENOMEM);
        }
        // INVARIANT: Mapped above.
        Ok(Self {
            dev,
            addr,
            len: data.len(),
        })
    }

    /// What the device knows the memory by.
    ///
    /// Fits 32 bits where the mask of the device says so.
    pub(crate) fn address(&self) -> DmaAddress {
        self.addr
    }
}

impl Drop for ToDevice<'_> {
    fn drop(&mut self) {
        // SAFETY: By the invariant, this mapping is ours.
        unsafe {
            bindings::ravb_helper_dma_unmap_single(
                device::as_raw(self.dev),
                self.addr,
                self.len,
                bindings::dma_data_direction::DMA_TO_DEVICE,
            )
        };
    }
}

/// Writes `data` and then zeroes, `len` bytes in all, to `room` bytes of coherent memory from byte
/// `start`. ERANGE where it does not fit, and nothing is written then.
///
/// The device may read the bytes at any time; what it sees while they are written is for the caller
/// to rule out.
#[inline]
pub(crate) fn write_padded(
    memory: &Coherent<[u8]>,
    start: usize,
    data: &[u8],
    len: usize,
    room: usize,
) -> Result {
    let end = start.checked_add(room).ok_or(ERANGE)?;
    if end > memory.size() || data.len() > len || len > room {
        return Err(ERANGE);
    }
    // SAFETY: The range was checked above. Other CPUs do not write it: the descriptor that it
    // belongs to has one owner. That the device may read it does not matter to a raw copy.
    unsafe {
        let to = memory.as_mut_ptr().cast::<u8>().add(start);
        core::ptr::copy_nonoverlapping(data.as_ptr(), to, data.len());
        core::ptr::write_bytes(to.add(data.len()), 0, len - data.len());
    }
    Ok(())
}
