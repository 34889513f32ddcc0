// SPDX-License-Identifier: GPL-2.0

//! Page pools, as the source of receive buffers.
//!
//! A [`Buffer`] is a part of a page that the pool keeps mapped for the device. Who may touch it is
//! in its type: the device owns a [`DeviceBuffer`], the CPU a [`CpuBuffer`], and the way from one
//! to the other does the DMA synchronisation. The way back leads through the pool.
//!
//! C header: [`include/net/page_pool/helpers.h`](srctree/include/net/page_pool/helpers.h)

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
    error::from_err_ptr,
    prelude::*,
    sync::Arc, //
};

use super::{
    device,
    napi::{
        self,
        Napi,
        Poll, //
    },
    netdev::Locked,
    skbuff::SkBuff, //
};
use crate::bindings;

/// What `build_skb()` needs behind the data, in bytes.
pub(crate) const SHARED_INFO_SIZE: usize = bindings::RAVB_RS_CONST_SHARED_INFO_SIZE;

/// Where memory may come from.
#[derive(Clone, Copy)]
pub(crate) enum Gfp {
    /// From wherever it is to be had; may sleep.
    Kernel,
    /// From what is free; does not sleep, and a failure is not logged.
    Atomic,
}

impl Gfp {
    const fn as_raw(self) -> bindings::gfp_t {
        match self {
            Self::Kernel => bindings::RAVB_RS_CONST_GFP_KERNEL,
            Self::Atomic => bindings::RAVB_RS_CONST_GFP_ATOMIC,
        }
    }
}

/// How a buffer is divided, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    /// The whole buffer; pages are cut into pieces of this size.
    pub(crate) size: u32,
    /// What is left free in front of the data.
    pub(crate) headroom: u32,
}

impl Layout {
    /// How much the device may write, a multiple of 16.
    pub(crate) const fn capacity(&self) -> u32 {
        (self.size - self.headroom - SHARED_INFO_SIZE as u32) / 16 * 16
    }
}

/// The pool of one receive queue.
///
/// # Invariants
///
/// `raw` is valid. Its pages are mapped for `dev` and are cut as `layout` says.
pub(crate) struct PagePool<'bound, P: Poll> {
    raw: NonNull<bindings::page_pool>,
    dev: &'bound Device<Bound>,
    layout: Layout,
    /// The C pool points to it.
    _napi: Arc<Napi<P>>,
}

// SAFETY: The pool has its own locks, except that direct recycling needs the NAPI context that it
// is bound to, which the C code checks itself.
unsafe impl<P: Poll> Send for PagePool<'_, P> {}

impl<'bound, P: Poll> PagePool<'bound, P> {
    /// Creates the pool of the receive queue that `napi` serves, for `count` buffers.
    ///
    /// The pool must be dropped only when `napi` is disabled: see [`Napi::disable`].
    pub(crate) fn new(
        dev: &'bound Device<Bound>,
        netdev: &Locked<'_, P::Device>,
        napi: &Arc<Napi<P>>,
        count: usize,
        layout: Layout,
    ) -> Result<Self> {
        let mut params: bindings::page_pool_params = pin_init::zeroed();
        // SAFETY: Writing plain fields of a union of two views of the same structure.
        unsafe {
            let fast = &mut params.__bindgen_anon_1.fast;
            fast.pool_size = u32::try_from(count)?;
            fast.nid = bindings::NUMA_NO_NODE;
            fast.dev = device::as_raw(dev);
            fast.napi = napi.as_raw();
            fast.dma_dir = bindings::dma_data_direction::DMA_FROM_DEVICE;
            // Fragmented pages are synchronised as a whole.
            fast.max_len = bindings::RAVB_RS_CONST_PAGE_SIZE as u32;
            fast.offset = 0;
            let slow = &mut params.__bindgen_anon_2.slow;
            slow.netdev = netdev.as_raw();
            slow.queue_idx = u32::from(napi.queue());
            slow.flags = bindings::RAVB_RS_CONST_PP_FLAG_DMA_MAP
                | bindings::RAVB_RS_CONST_PP_FLAG_DMA_SYNC_DEV;
        }

        // SAFETY: The parameters are complete, and what they point to lives longer than the pool.
        let raw = from_err_ptr(unsafe { bindings::page_pool_create(&raw const params) })?;
        // INVARIANT: Created with these parameters.
        Ok(Self {
            raw: NonNull::new(raw).ok_or(ENOMEM)?,
            dev,
            layout,
            _napi: napi.clone(),
        })
    }

    /// Takes a buffer out of the pool, for the device to fill.
    #[inline]
    pub(crate) fn alloc(&self, gfp: Gfp) -> Option<DeviceBuffer> {
        let mut offset = 0;
        // SAFETY: `raw` is valid, and `alloc` is called either in the NAPI context of the pool or
        // while that is disabled, because the pool is owned by what NAPI polls.
        let page = NonNull::new(unsafe {
            bindings::page_pool_alloc_frag(
                self.raw.as_ptr(),
                &raw mut offset,
                self.layout.size,
                gfp.as_raw(),
            )
        })?;
        // INVARIANT: One fragment of the page is ours; the pool synchronised it for the device.
        Some(DeviceBuffer(Fragment {
            pool: self.raw,
            page,
            offset,
        }))
    }

    /// What the device knows the data area of `buffer` by, as wide as its DMA mask.
    #[inline]
    pub(crate) fn dma_address(&self, buffer: &DeviceBuffer) -> DmaAddress {
        // SAFETY: The page is mapped, by the invariant.
        let page = unsafe { bindings::ravb_helper_page_pool_get_dma_addr(buffer.0.page.as_ptr()) };
        page + DmaAddress::from(buffer.0.offset + self.layout.headroom)
    }

    /// The device has written `len` bytes: the buffer is the CPU's now.
    ///
    /// A length that the buffer cannot hold, or none, is an error; the buffer goes back to the
    /// pool.
    #[inline]
    pub(crate) fn received(&self, buffer: DeviceBuffer, len: u32) -> Option<CpuBuffer> {
        if len == 0 || len > self.layout.capacity() {
            return None;
        }
        // SAFETY: The page is mapped for this device, and the range is inside it.
        unsafe {
            bindings::ravb_helper_dma_sync_single_for_cpu(
                device::as_raw(self.dev),
                self.dma_address(&buffer),
                len as usize,
                bindings::dma_data_direction::DMA_FROM_DEVICE,
            )
        };
        // INVARIANT: `len` was checked above.
        Some(CpuBuffer {
            fragment: buffer.0,
            layout: self.layout,
            len,
        })
    }

    /// How much the device may write into a buffer, in bytes.
    pub(crate) fn capacity(&self) -> u32 {
        self.layout.capacity()
    }
}

impl<P: Poll> Drop for PagePool<'_, P> {
    fn drop(&mut self) {
        // Pages that are still out, in socket queues for instance, keep the C pool alive.
        //
        // SAFETY: `raw` is valid and not used through this value any more.
        unsafe { bindings::page_pool_destroy(self.raw.as_ptr()) };
    }
}

/// A fragment of a page of a pool; it goes back there when it is dropped.
///
/// # Invariants
///
/// One reference of `page`, which belongs to `pool`, is ours. The pool exists as long as it has
/// pages out.
struct Fragment {
    pool: NonNull<bindings::page_pool>,
    page: NonNull<bindings::page>,
    offset: u32,
}

// SAFETY: A fragment is memory that is not tied to a thread.
unsafe impl Send for Fragment {}

impl Drop for Fragment {
    fn drop(&mut self) {
        // SAFETY: By the invariant, the reference is ours to give back.
        unsafe {
            bindings::ravb_helper_page_pool_put_full_page(
                self.pool.as_ptr(),
                self.page.as_ptr(),
                false,
            )
        };
    }
}

/// A buffer that the device may write at any time; the CPU must not look at it.
pub(crate) struct DeviceBuffer(Fragment);

/// A buffer that the device has written, and does not touch any more.
///
/// # Invariants
///
/// `fragment` is cut as `layout` says and holds `len` bytes, which fit its capacity and are
/// synchronised for the CPU.
pub(crate) struct CpuBuffer {
    fragment: Fragment,
    layout: Layout,
    len: u32,
}

/// What a socket buffer keeps of a [`CpuBuffer`].
pub(super) struct Parts {
    pub(super) page: NonNull<bindings::page>,
    pub(super) offset: u32,
    pub(super) len: u32,
    pub(super) truesize: u32,
}

impl CpuBuffer {
    /// Makes a packet of the buffer, which becomes its head.
    ///
    /// Gives the buffer back where there is no memory for the packet.
    #[inline]
    pub(crate) fn build_skb<T: super::netdev::Operations>(
        self,
        _cx: &napi::Context<'_, T>,
    ) -> Result<SkBuff, Self> {
        // SAFETY: The page has an address, because it was allocated without high memory; the
        // fragment lies inside it, and nobody else uses it.
        let skb = unsafe {
            let start = bindings::ravb_helper_page_address(self.fragment.page.as_ptr())
                .cast::<u8>()
                .add(self.fragment.offset as usize);
            bindings::napi_build_skb(start.cast(), self.layout.size)
        };
        let Some(skb) = NonNull::new(skb) else {
            return Err(self);
        };

        // SAFETY: The packet is new and nobody else knows it; headroom and data fit the head, by
        // the invariant. From here on its head is the reference that this buffer had.
        unsafe {
            bindings::ravb_helper_skb_mark_for_recycle(skb.as_ptr());
            bindings::ravb_helper_skb_reserve(skb.as_ptr(), self.layout.headroom as i32);
            bindings::skb_put(skb.as_ptr(), self.len);
        }
        let _ = self.into_parts();
        // SAFETY: The only reference is given to the result.
        Ok(unsafe { SkBuff::from_raw(skb) })
    }

    /// Gives the reference of the page away.
    #[inline]
    pub(super) fn into_parts(self) -> Parts {
        let this = ManuallyDrop::new(self);
        Parts {
            page: this.fragment.page,
            offset: this.fragment.offset + this.layout.headroom,
            len: this.len,
            truesize: this.layout.size,
        }
    }
}
