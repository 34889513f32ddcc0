// SPDX-License-Identifier: GPL-2.0

//! What [`kernel::dma`] lacks for coherent memory. Streaming mappings are made in
//! [`super::skbuff`] and [`super::page_pool`], by what owns the memory.
//!
//! C header: [`include/linux/dma-mapping.h`](srctree/include/linux/dma-mapping.h)

use kernel::{
    dma::Coherent,
    prelude::*, //
};

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
