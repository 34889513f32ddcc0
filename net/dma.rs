// SPDX-License-Identifier: GPL-2.0

//! What [`kernel::dma`] lacks: memory that is mapped for a device to read, and cheap access to
//! coherent memory. Receive buffers are mapped by [`super::page_pool`].
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

use super::{
    device,
    prefetch::prefetch, //
};
use crate::bindings;

/// Memory that a device may read until this is dropped.
///
/// The memory is kept by whoever has it mapped. Would it be freed too early, then the device could
/// read, but not change, what is there next.
///
/// # Invariants
///
/// `len` bytes at `address` are mapped for `dev` to read.
pub(crate) struct Mapping<'bound> {
    dev: &'bound Device<Bound>,
    address: DmaAddress,
    len: u32,
}

impl<'bound> Mapping<'bound> {
    /// Takes over a mapping that was just made; EIO if that failed.
    ///
    /// # Safety
    ///
    /// `address` must be the result of mapping `len` bytes for `dev` to read, and nobody else may
    /// undo that.
    #[inline]
    pub(super) unsafe fn from_raw(
        dev: &'bound Device<Bound>,
        address: DmaAddress,
        len: u32,
    ) -> Result<Self> {
        // SAFETY: The device is valid.
        if unsafe { bindings::ravb_helper_dma_mapping_error(device::as_raw(dev), address) } != 0 {
            return Err(EIO);
        }
        // INVARIANT: As the caller promises.
        Ok(Self { dev, address, len })
    }

    /// What the device knows the memory by, as wide as its DMA mask.
    #[inline]
    pub(crate) fn address(&self) -> DmaAddress {
        self.address
    }
}

impl Drop for Mapping<'_> {
    #[inline]
    fn drop(&mut self) {
        // What dma_unmap_single() and dma_unmap_page() are.
        //
        // SAFETY: Mapped, by the invariant.
        unsafe {
            bindings::dma_unmap_page_attrs(
                device::as_raw(self.dev),
                self.address,
                self.len as usize,
                bindings::dma_data_direction::DMA_TO_DEVICE,
                0,
            )
        };
    }
}

/// Makes what `dev` wrote to `len` bytes at `address` visible to the CPU.
///
/// This is `dma_sync_single_for_cpu()`, written out because a call is what a wrapper would cost for
/// each packet.
///
/// # Safety
///
/// The memory must be mapped for `dev` to write.
#[inline]
#[cfg_attr(not(CONFIG_DMA_NEED_SYNC), expect(unused_variables))]
pub(super) unsafe fn sync_for_cpu(dev: &Device<Bound>, address: DmaAddress, len: u32) {
    #[cfg(CONFIG_DMA_NEED_SYNC)]
    if needs_sync(dev) {
        // SAFETY: As the caller promises.
        unsafe {
            bindings::__dma_sync_single_for_cpu(
                device::as_raw(dev),
                address,
                len as usize,
                bindings::dma_data_direction::DMA_FROM_DEVICE,
            )
        };
    }
}

/// Whether mappings for `dev` are to be synchronised: `dma_dev_need_sync()`.
#[cfg(CONFIG_DMA_NEED_SYNC)]
#[inline]
fn needs_sync(dev: &Device<Bound>) -> bool {
    // SAFETY: The device is valid. The flag is cleared for ever by the first mapping that needs it.
    let flags = unsafe { (&raw const (*device::as_raw(dev)).flags[0]).read_volatile() };
    cfg!(CONFIG_DMA_API_DEBUG)
        || flags & 1 << bindings::struct_device_flags::DEV_FLAG_DMA_SKIP_SYNC == 0
}

/// Reads word `index`, once; one that does not exist reads as 0.
///
/// Unlike [`kernel::io_read`] it has one check for overflow and bounds, which matters: this is done
/// for each descriptor.
#[inline]
pub(crate) fn read_word(memory: &Coherent<[u32]>, index: usize) -> u32 {
    let words = memory.as_ptr();
    if index >= words.len() {
        return 0;
    }
    // SAFETY: The index was checked. The device may write at any time, so that the access is
    // volatile.
    unsafe { words.cast::<u32>().add(index).read_volatile() }
}

/// Asks for word `index` ahead of its use.
#[inline]
pub(crate) fn prefetch_word(memory: &Coherent<[u32]>, index: usize) {
    prefetch(memory.as_ptr().cast::<u32>().wrapping_add(index));
}

/// Writes `values`, of which there are `count` at most, to word `first` and every `stride`th one
/// from there, once each, as long as there are any. Returns how many were written; none where not
/// all of the words exist.
///
/// That they do is found out once, because values are written for each descriptor.
#[inline(always)]
pub(crate) fn write_strided(
    memory: &Coherent<[u32]>,
    first: usize,
    stride: usize,
    count: usize,
    values: impl Iterator<Item = u32>,
) -> usize {
    let words = memory.as_mut_ptr();
    let exist = |last: usize| last < words.len();
    let last = count
        .checked_sub(1)
        .and_then(|steps| steps.checked_mul(stride)?.checked_add(first));
    if !last.is_some_and(exist) {
        return 0;
    }
    let mut word = words.cast::<u32>().wrapping_add(first);
    let mut written = 0usize;
    for value in values.take(count) {
        // SAFETY: As in [`read_word`]; the last of the words was found to exist.
        unsafe { word.write_volatile(value) };
        word = word.wrapping_add(stride);
        written = written.wrapping_add(1);
    }
    written
}

/// Writes word `index`, once; nothing happens to one that does not exist.
#[inline]
pub(crate) fn write_word(memory: &Coherent<[u32]>, index: usize, value: u32) {
    let words = memory.as_mut_ptr();
    if index >= words.len() {
        return;
    }
    // SAFETY: As in [`read_word`]. CPUs that write at the same time leave one of the values.
    unsafe { words.cast::<u32>().add(index).write_volatile(value) };
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
        if data.len() < len {
            core::ptr::write_bytes(to.add(data.len()), 0, len - data.len());
        }
    }
    Ok(())
}
