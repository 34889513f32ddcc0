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
    dma::DmaAddress,
    prelude::*, //
};

use super::{
    device,
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
        let flags = unsafe { bindings::ravb_helper_skb_tx_flags(self.as_raw()) };
        u32::from(flags) & bindings::RAVB_RS_CONST_SKBTX_HW_TSTAMP != 0
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

    /// Whether somebody else has a reference, too: then nothing of the packet may be changed.
    pub(crate) fn is_shared(&self) -> bool {
        // SAFETY: Valid by the invariant.
        unsafe { bindings::ravb_helper_skb_shared(self.as_raw()) }
    }

    /// Moves the whole packet into its head. It must not be shared.
    #[cold]
    pub(crate) fn linearize(&mut self) -> Result {
        // SAFETY: Valid by the invariant.
        kernel::error::to_result(unsafe { bindings::ravb_helper_skb_linearize(self.as_raw()) })
    }

    /// In how many pieces of memory the packet is.
    #[inline]
    pub(crate) fn pieces(&self) -> usize {
        if !self.is_nonlinear() {
            return 1;
        }
        // SAFETY: Valid by the invariant.
        1 + unsafe { bindings::ravb_helper_skb_nr_frags(self.as_raw()) } as usize
    }

    /// Copies the first bytes of the packet, wherever they are; the packet has at least as many.
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

    /// Maps the packet for `dev` to read, each piece of it from the first byte on whose address is
    /// a multiple of `alignment`.
    ///
    /// The packet has at most [`MAX_PIECES`] pieces. It is given back where it cannot be mapped.
    pub(crate) fn map(self, dev: &Device<Bound>, alignment: usize) -> Result<MappedSkb<'_>, Self> {
        let skb = self.as_raw();
        let mut packet = MappedSkb {
            pieces: [const { Piece::NONE }; MAX_PIECES],
            count: 0,
            dev: Some(dev),
            skb: self,
        };
        let mut offset = 0;

        for index in 0..packet.skb.pieces() {
            let Some(piece) = packet.pieces.get_mut(index) else {
                return Err(packet.unmap());
            };
            let fragment = index as i32 - 1;
            // SAFETY: The head and as many fragments as `pieces` says are there.
            let (start, len) = unsafe {
                if index == 0 {
                    ((*skb).data.addr(), head_len(skb))
                } else {
                    (
                        bindings::ravb_helper_skb_frag_off(skb, fragment) as usize,
                        bindings::ravb_helper_skb_frag_size(skb, fragment) as usize,
                    )
                }
            };
            let unaligned = (start.wrapping_neg() & (alignment - 1)).min(len);
            *piece = Piece {
                offset,
                unaligned: unaligned as u32,
                len: (len - unaligned) as u32,
                address: 0,
            };
            offset += len as u32;
            if piece.len == 0 {
                packet.count += 1;
                continue;
            }

            let raw = device::as_raw(dev);
            // SAFETY: The piece is mapped to be read only, and the packet keeps it until it is
            // unmapped. Nobody writes the data of a packet that is being transmitted.
            let error = unsafe {
                piece.address = if index == 0 {
                    bindings::ravb_helper_dma_map_single(
                        raw,
                        (*skb).data.add(unaligned).cast(),
                        piece.len as usize,
                        bindings::dma_data_direction::DMA_TO_DEVICE,
                    )
                } else {
                    bindings::ravb_helper_skb_frag_dma_map(
                        raw,
                        skb,
                        fragment,
                        unaligned,
                        piece.len as usize,
                        bindings::dma_data_direction::DMA_TO_DEVICE,
                    )
                };
                bindings::ravb_helper_dma_mapping_error(raw, piece.address)
            };
            if error != 0 {
                // What was mapped so far is unmapped.
                return Err(packet.unmap());
            }
            packet.count += 1;
        }
        Ok(packet)
    }

    /// A packet that needs no mapping, because the device does not read it from where it is.
    #[inline]
    pub(crate) fn unmapped<'bound>(self) -> MappedSkb<'bound> {
        MappedSkb {
            pieces: [const { Piece::NONE }; MAX_PIECES],
            count: 0,
            dev: None,
            skb: self,
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
    pub(crate) fn add_fragment(&mut self, buffer: CpuBuffer) -> Result<(), CpuBuffer> {
        let skb = self.as_raw();
        // SAFETY: Valid by the invariant.
        let count = unsafe { bindings::ravb_helper_skb_nr_frags(skb) };
        if count >= bindings::RAVB_RS_CONST_MAX_SKB_FRAGS {
            return Err(buffer);
        }
        let parts = buffer.into_parts();
        // SAFETY: There is room for another fragment, and the page comes from the same kind of
        // pool as the head, with the reference that is given away.
        unsafe {
            bindings::ravb_helper_skb_add_rx_frag(
                skb,
                count as i32,
                parts.page.as_ptr(),
                parts.offset as i32,
                parts.len as i32,
                parts.truesize,
            )
        };
        Ok(())
    }

    /// Reads and removes the last `N` bytes, wherever they lie.
    ///
    /// `None` if there are fewer, or if they cannot be removed; the packet is unchanged then.
    pub(crate) fn take_trailer<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut trailer = [0u8; N];
        let rest = self.len().checked_sub(N)?;

        if self.is_nonlinear() {
            let skb = self.as_raw();
            // SAFETY: The bytes are inside the packet and fit the array; the packet is ours to
            // shorten.
            unsafe {
                if bindings::skb_copy_bits(skb, rest as i32, trailer.as_mut_ptr().cast(), N as i32)
                    != 0
                    || bindings::___pskb_trim(skb, rest as u32) != 0
                {
                    return None;
                }
            }
        } else {
            trailer.copy_from_slice(self.head_data().get(rest..)?);
            // SAFETY: A linear packet is shortened by its length and tail; `rest` is less.
            unsafe {
                (*self.as_raw()).len = rest as u32;
                set_tail(self.as_raw());
            }
        }
        Some(trailer)
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
    /// A frame whose Ethernet header is not in the head is dropped.
    #[inline]
    pub(crate) fn receive<T: super::netdev::Operations>(self, cx: &napi::Context<'_, T>) {
        const ETHERNET_HEADER_LEN: usize = 14;

        if self.head_data().len() < ETHERNET_HEADER_LEN {
            return self.discard(drop_reason::SKB_DROP_REASON_DEV_HDR);
        }
        let skb = self.into_raw();
        // SAFETY: The context is that of a poll of this device; the reference is given away.
        unsafe {
            let protocol = bindings::eth_type_trans(skb, cx.dev().as_raw());
            (*skb).__bindgen_anon_4.headers.as_mut().protocol = protocol;
            (*skb).queue_mapping = cx.queue() + 1;
            bindings::ravb_helper_napi_gro_receive(cx.as_raw(), skb);
        }
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
        (*skb).data = (*skb).data.add(headroom as usize);
        (*skb).len = len;
        set_tail(skb);
        (*skb).set_pp_recycle(1);
    }
}

/// Puts the tail of a linear packet where its data ends.
///
/// # Safety
///
/// `skb` must be valid and linear, and its length must fit its head.
#[inline]
unsafe fn set_tail(skb: *mut bindings::sk_buff) {
    // SAFETY: As the caller promises.
    unsafe {
        let end = (*skb).data.add((*skb).len as usize);
        #[cfg(CONFIG_64BIT)]
        {
            (*skb).tail = end.offset_from((*skb).head) as u32;
        }
        #[cfg(not(CONFIG_64BIT))]
        {
            (*skb).tail = end;
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
    unsafe { ((*skb).len - (*skb).data_len) as usize }
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

/// How many pieces of memory a packet may have that is mapped: its head, and the fragments that a
/// TCP segment of the usual size lies in.
pub(crate) const MAX_PIECES: usize = 4;

/// A piece of a packet that is mapped.
#[derive(Clone, Copy)]
pub(crate) struct Piece {
    /// Where in the packet it begins.
    pub(crate) offset: u32,
    /// How many bytes there are before the first aligned one; they are not mapped.
    pub(crate) unaligned: u32,
    /// How many bytes are mapped; may be none.
    pub(crate) len: u32,
    /// What the device knows them by.
    pub(crate) address: DmaAddress,
}

impl Piece {
    const NONE: Self = Self {
        offset: 0,
        unaligned: 0,
        len: 0,
        address: 0,
    };
}

/// A packet that is being transmitted, with the pieces of it that the device reads in place.
///
/// # Invariants
///
/// The first `count` of `pieces` are mapped for `dev`, as far as they have a length: the first of
/// them is in the head of `skb`, the others are its fragments.
pub(crate) struct MappedSkb<'bound> {
    pieces: [Piece; MAX_PIECES],
    count: u32,
    dev: Option<&'bound Device<Bound>>,
    skb: SkBuff,
}

impl MappedSkb<'_> {
    /// The pieces.
    #[inline]
    pub(crate) fn pieces(&self) -> &[Piece] {
        self.pieces.get(..self.count as usize).unwrap_or(&[])
    }

    /// The packet.
    #[inline]
    pub(crate) fn skb(&self) -> &SkBuff {
        &self.skb
    }

    /// Unmaps the packet.
    #[inline]
    pub(crate) fn unmap(self) -> SkBuff {
        if let Some(dev) = self.dev {
            let raw = device::as_raw(dev);
            for (index, piece) in self.pieces().iter().enumerate() {
                if piece.len == 0 {
                    continue;
                }
                // SAFETY: By the invariant, the piece is mapped.
                unsafe {
                    if index == 0 {
                        bindings::ravb_helper_dma_unmap_single(
                            raw,
                            piece.address,
                            piece.len as usize,
                            bindings::dma_data_direction::DMA_TO_DEVICE,
                        );
                    } else {
                        bindings::ravb_helper_dma_unmap_page(
                            raw,
                            piece.address,
                            piece.len as usize,
                            bindings::dma_data_direction::DMA_TO_DEVICE,
                        );
                    }
                }
            }
        }
        self.skb
    }
}
