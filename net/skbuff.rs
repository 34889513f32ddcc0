// SPDX-License-Identifier: GPL-2.0

//! Socket buffers.
//!
//! C header: [`include/linux/skbuff.h`](srctree/include/linux/skbuff.h)

use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};

use kernel::{
    device::{
        Bound,
        Device, //
    },
    prelude::*, //
};

use super::{
    device,
    dma::Mapping,
    napi,
    page_pool::CpuBuffer, //
};
use crate::bindings;

pub(crate) use bindings::skb_drop_reason as drop_reason;
pub(crate) use bindings::skb_drop_reason::Type as DropReason;

/// A socket buffer that nobody else uses the data of.
///
/// It ends in one of the methods that take it by value, each of which says what became of the
/// packet. Dropping it instead frees it, and warns: a packet must not vanish without a reason.
///
/// # Invariants
///
/// `skb` is valid and this value holds one reference of it.
#[repr(transparent)]
pub(crate) struct SkBuff {
    skb: NonNull<bindings::sk_buff>,
}

// SAFETY: A socket buffer is not tied to the thread that owns it.
unsafe impl Send for SkBuff {}

impl SkBuff {
    /// Takes over a C socket buffer.
    ///
    /// # Safety
    ///
    /// `skb` must be valid, and one reference of it is given to the result.
    #[inline]
    pub(super) unsafe fn from_raw(skb: NonNull<bindings::sk_buff>) -> Self {
        // INVARIANT: As the caller promises.
        Self { skb }
    }

    /// Hands the reference to C.
    #[inline]
    pub(super) fn into_raw(self) -> *mut bindings::sk_buff {
        ManuallyDrop::new(self).skb.as_ptr()
    }

    /// Returns the C socket buffer.
    #[inline]
    pub(super) fn as_raw(&self) -> *mut bindings::sk_buff {
        self.skb.as_ptr()
    }

    /// How many bytes the packet has, fragments included.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        // SAFETY: Valid by the invariant.
        unsafe { (*self.as_raw()).len as usize }
    }

    /// The part of the packet that is in the head.
    #[inline]
    pub(crate) fn head_data(&self) -> &[u8] {
        let skb = self.as_raw();
        // SAFETY: Valid by the invariant; `data` points to `headlen` bytes of the head.
        unsafe { core::slice::from_raw_parts((*skb).data, head_len(skb)) }
    }

    /// Whether a part of the packet is outside the head.
    #[inline]
    pub(crate) fn is_nonlinear(&self) -> bool {
        // SAFETY: Valid by the invariant.
        unsafe { (*self.as_raw()).data_len != 0 }
    }

    /// Whether the sender leaves the checksum to the device.
    #[inline]
    pub(crate) fn wants_checksum(&self) -> bool {
        // SAFETY: Valid by the invariant.
        unsafe {
            let headers = (*self.as_raw()).__bindgen_anon_4.headers.as_ref();
            u32::from(headers.ip_summed()) == bindings::CHECKSUM_PARTIAL
        }
    }

    /// Whether the sender wants to know when the device transmitted the packet.
    #[inline]
    pub(crate) fn wants_hardware_timestamp(&self) -> bool {
        // SAFETY: Valid by the invariant.
        let flags = unsafe { (*shared_info(self.as_raw())).tx_flags };
        u32::from(flags) & bindings::RAVB_RS_CONST_SKBTX_HW_TSTAMP != 0
    }

    /// Where the network header begins, counted from the first byte of the packet.
    #[inline]
    pub(super) fn network_offset(&self) -> usize {
        let skb = self.as_raw();
        // SAFETY: Valid by the invariant.
        unsafe {
            let headers = (*skb).__bindgen_anon_4.headers.as_ref();
            let header = (*skb).head.addr() + usize::from(headers.network_header);
            header.wrapping_sub((*skb).data.addr())
        }
    }

    /// Computes the checksum in software, where the device cannot.
    pub(crate) fn checksum_in_software(&mut self) -> Result {
        // SAFETY: Valid by the invariant.
        kernel::error::to_result(unsafe { bindings::skb_checksum_help(self.as_raw()) })
    }

    /// Takes the software transmit timestamp, if it is wanted.
    #[inline]
    pub(crate) fn tx_timestamp(&mut self) {
        // SAFETY: Valid by the invariant.
        unsafe { bindings::ravb_helper_skb_tx_timestamp(self.as_raw()) };
    }

    /// In how many pieces of memory the packet is.
    #[inline]
    pub(crate) fn pieces(&self) -> u32 {
        // SAFETY: Valid by the invariant.
        1 + u32::from(unsafe { (*shared_info(self.as_raw())).nr_frags })
    }

    /// How many bytes of payload a segment of the packet has, if it is to be sent in segments: see
    /// [`super::segments`].
    #[inline]
    pub(crate) fn segment_size(&self) -> Option<u32> {
        // SAFETY: Valid by the invariant.
        let size = unsafe { (*shared_info(self.as_raw())).gso_size };
        (size != 0).then_some(size.into())
    }

    /// In how many segments the packet is to be sent; 0 where nobody has counted them yet.
    #[inline]
    pub(crate) fn segment_count(&self) -> u32 {
        // SAFETY: Valid by the invariant.
        u32::from(unsafe { (*shared_info(self.as_raw())).gso_segs })
    }

    /// Copies bytes of the packet from byte `from` on, wherever they are. EFAULT if it has fewer.
    #[inline]
    pub(crate) fn copy_to(&self, from: usize, to: &mut [u8]) -> Result {
        // SAFETY: The function checks the range, and `to` has room for what it is asked for.
        kernel::error::to_result(unsafe {
            bindings::skb_copy_bits(
                self.as_raw(),
                from as i32,
                to.as_mut_ptr().cast(),
                to.len() as i32,
            )
        })
    }

    /// How piece `index` lies in memory: 0 is the head, the others are fragments. A piece that does
    /// not exist is empty.
    #[inline]
    pub(crate) fn piece(&self, index: u32) -> Piece {
        let skb = self.as_raw();
        let Some(fragment) = index.checked_sub(1) else {
            // SAFETY: Valid by the invariant.
            return unsafe {
                Piece {
                    start: (*skb).data.addr(),
                    len: head_len(skb) as u32,
                }
            };
        };
        // SAFETY: Valid by the invariant, and only fragments that exist are looked at.
        unsafe {
            let info = shared_info(skb);
            if fragment >= u32::from((*info).nr_frags) {
                return Piece { start: 0, len: 0 };
            }
            let fragment = (&raw const (*info).frags)
                .cast::<bindings::skb_frag>()
                .add(fragment as usize);
            Piece {
                start: (*fragment).offset as usize,
                len: (*fragment).len,
            }
        }
    }

    /// Maps piece `index` for `dev` to read, from byte `skip` on.
    ///
    /// EINVAL if nothing is left behind that byte, EIO if it cannot be mapped. The packet must be
    /// kept as long as the mapping.
    #[inline]
    pub(crate) fn map_piece<'bound>(
        &self,
        dev: &'bound Device<Bound>,
        index: u32,
        skip: u32,
    ) -> Result<Mapping<'bound>> {
        let skb = self.as_raw();
        let raw = device::as_raw(dev);
        let len = self.piece(index).len.saturating_sub(skip);
        if len == 0 {
            return Err(EINVAL);
        }
        // SAFETY: The range is inside the piece, which is mapped to be read only: nobody writes the
        // data of a packet that is being transmitted.
        unsafe {
            let address = match index.checked_sub(1) {
                None => bindings::ravb_helper_dma_map_single(
                    raw,
                    (*skb).data.add(skip as usize).cast(),
                    len as usize,
                    bindings::dma_data_direction::DMA_TO_DEVICE,
                ),
                Some(fragment) => bindings::ravb_helper_skb_frag_dma_map(
                    raw,
                    skb,
                    fragment as i32,
                    skip as usize,
                    len as usize,
                    bindings::dma_data_direction::DMA_TO_DEVICE,
                ),
            };
            Mapping::from_raw(dev, address, len)
        }
    }

    /// The packet was transmitted. `budget` is that of the poll in which it is found.
    #[inline]
    pub(crate) fn consume(self, budget: usize) {
        // SAFETY: The reference is given away. A budget of 0 says that this is no NAPI context.
        unsafe { bindings::napi_consume_skb(self.into_raw(), budget as i32) };
    }

    /// The packet is lost, for this reason. Callable in any context.
    #[cold]
    pub(crate) fn discard(self, reason: DropReason) {
        // SAFETY: The reference is given away.
        unsafe { bindings::ravb_helper_dev_kfree_skb_any_reason(self.into_raw(), reason) };
    }

    /// Appends the contents of `buffer` as a fragment. The caller bounds their number.
    ///
    /// Gives the buffer back where there is no room.
    #[inline]
    pub(crate) fn add_fragment(&mut self, buffer: CpuBuffer) -> Result<(), CpuBuffer> {
        let skb = self.as_raw();
        // SAFETY: Valid by the invariant.
        let count = u32::from(unsafe { (*shared_info(skb)).nr_frags });
        if count >= bindings::RAVB_RS_CONST_MAX_SKB_FRAGS {
            return Err(buffer);
        }
        let parts = buffer.into_parts();
        // What skb_add_rx_frag() does, without a call for each fragment.
        //
        // SAFETY: There is room for another fragment, and the page comes from the same kind of
        // pool as the head, with the reference that is given away.
        unsafe {
            let info = shared_info(skb);
            let fragment = bindings::skb_frag {
                netmem: parts.page.as_ptr().expose_provenance(),
                len: parts.len,
                offset: parts.offset,
            };
            (&raw mut (*info).frags)
                .cast::<bindings::skb_frag>()
                .add(count as usize)
                .write(fragment);
            (*info).nr_frags = count as u8 + 1;
            (*skb).len = (*skb).len.wrapping_add(parts.len);
            (*skb).data_len = (*skb).data_len.wrapping_add(parts.len);
            (*skb).truesize = (*skb).truesize.wrapping_add(parts.truesize);
            if parts.is_reserve {
                (*skb).set_pfmemalloc(1);
            }
        }
        Ok(())
    }

    /// The device has verified the checksum of the packet.
    #[inline]
    pub(crate) fn checksum_verified(&mut self) {
        // SAFETY: Valid by the invariant.
        unsafe {
            let headers = (*self.as_raw()).__bindgen_anon_4.headers.as_mut();
            headers.set_ip_summed(bindings::CHECKSUM_UNNECESSARY as u8);
        }
    }

    /// The device has summed up the packet behind its Ethernet header.
    #[inline]
    pub(crate) fn checksum_complete(&mut self, sum: u16) {
        // SAFETY: Valid by the invariant.
        unsafe {
            let headers = (*self.as_raw()).__bindgen_anon_4.headers.as_mut();
            headers.__bindgen_anon_1.csum = u32::from(sum);
            headers.set_ip_summed(bindings::CHECKSUM_COMPLETE as u8);
        }
    }

    /// Finds the protocol of a received frame and passes it up.
    ///
    /// Gives it back unless its Ethernet header is in the head.
    #[inline]
    pub(crate) fn receive<T: super::netdev::Operations>(
        self,
        cx: &napi::Context<'_, T>,
    ) -> Result<(), Self> {
        const ETHERNET_HEADER_LEN: usize = 14;

        if self.head_data().len() < ETHERNET_HEADER_LEN {
            return Err(self);
        }
        let skb = self.into_raw();
        // SAFETY: The context is that of a poll of this device; the reference is given away. The
        // last call is what napi_gro_receive() is.
        unsafe {
            let protocol = bindings::eth_type_trans(skb, cx.dev().as_raw());
            (*skb).__bindgen_anon_4.headers.as_mut().protocol = protocol;
            (*skb).queue_mapping = cx.queue().wrapping_add(1);
            bindings::gro_receive_skb(&raw mut (*cx.as_raw()).gro, skb);
        }
        Ok(())
    }
}

/// What ends in bytes that are not part of the packet.
pub(crate) trait Tail {
    /// Reads and removes the last `N` bytes, wherever they lie.
    ///
    /// `None` if nothing is before them, or if they cannot be removed; nothing is changed then.
    fn take_trailer<const N: usize>(&mut self) -> Option<[u8; N]>;
}

impl Tail for SkBuff {
    /// Not for the hot path: what is only a buffer yet loses its trailer at less cost.
    #[cold]
    fn take_trailer<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut trailer = [0u8; N];
        let rest = self.len().checked_sub(N).filter(|&rest| rest != 0)?;
        let skb = self.as_raw();

        // SAFETY: The bytes are inside the packet and fit the array; the packet is ours to shorten,
        // and may be written: it was received and nobody else has seen it.
        unsafe {
            if bindings::skb_copy_bits(skb, rest as i32, trailer.as_mut_ptr().cast(), N as i32) != 0
                || bindings::___pskb_trim(skb, rest as u32) != 0
            {
                return None;
            }
        }
        Some(trailer)
    }
}

// The functions below are static inline functions in C that change a field or two. They are
// written out here, because a call per packet and field is what a wrapper would cost.

/// Makes the first `len` bytes behind `headroom` the data of a packet that was just built around a
/// buffer of a page pool, and lets the buffer go back there: `skb_reserve()`, `skb_put()` and
/// `skb_mark_for_recycle()`.
///
/// # Safety
///
/// `skb` must be new, linear and empty, and headroom and data must fit its head.
#[inline]
pub(super) unsafe fn fill_head(skb: NonNull<bindings::sk_buff>, headroom: u32, len: u32) {
    let skb = skb.as_ptr();
    // SAFETY: As the caller promises.
    unsafe {
        let data = (*skb).head.add(headroom as usize);
        (*skb).data = data;
        (*skb).len = len;
        #[cfg(CONFIG_64BIT)]
        {
            (*skb).tail = headroom.wrapping_add(len);
        }
        #[cfg(not(CONFIG_64BIT))]
        {
            (*skb).tail = data.add(len as usize);
        }
        (*skb).set_pp_recycle(1);
    }
}

/// What is behind the head of a packet, `skb_shinfo()`: how many fragments there are, and more. It
/// is valid as long as the packet.
///
/// # Safety
///
/// `skb` must be valid.
#[inline]
unsafe fn shared_info(skb: *const bindings::sk_buff) -> *mut bindings::skb_shared_info {
    // SAFETY: Valid, as the caller promises.
    unsafe {
        #[cfg(CONFIG_64BIT)]
        {
            (*skb).head.add((*skb).end as usize).cast()
        }
        #[cfg(not(CONFIG_64BIT))]
        {
            (*skb).end.cast()
        }
    }
}

/// How many bytes of the packet are in the head.
///
/// # Safety
///
/// `skb` must be valid.
#[inline]
unsafe fn head_len(skb: *const bindings::sk_buff) -> usize {
    // SAFETY: Valid, as the caller promises.
    unsafe { (*skb).len.wrapping_sub((*skb).data_len) as usize }
}

impl Drop for SkBuff {
    #[cold]
    fn drop(&mut self) {
        kernel::warn_on!(true);
        // SAFETY: Valid by the invariant, and not used after this.
        unsafe {
            bindings::ravb_helper_dev_kfree_skb_any_reason(
                self.as_raw(),
                drop_reason::SKB_DROP_REASON_NOT_SPECIFIED,
            )
        };
    }
}

/// How a piece of a packet lies in memory.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    /// Where it begins; for a fragment that is the address within its page.
    pub(crate) start: usize,
    /// How many bytes it has.
    pub(crate) len: u32,
}
