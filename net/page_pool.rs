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
    ffi::c_long,
    prelude::*,
    sync::Arc, //
};

use super::{
    device,
    dma,
    napi::{
        self,
        Napi,
        Poll, //
    },
    netdev::Locked,
    skbuff::{
        self,
        SkBuff, //
    }, //
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
    size: u32,
    /// What is left free in front of the data.
    headroom: u32,
    /// How much the device may write, a multiple of 16.
    capacity: u32,
}

impl Layout {
    /// A buffer of `size` with room for `wanted` behind the headroom, or for as much as fits with
    /// what `build_skb()` needs behind it.
    pub(crate) const fn new(size: u32, headroom: u32, wanted: u32) -> Self {
        let room = size - headroom - SHARED_INFO_SIZE as u32;
        Self {
            size,
            headroom,
            capacity: if wanted < room { wanted } else { room } / 16 * 16,
        }
    }

    /// How many buffers a page has room for.
    const fn buffers(&self) -> u32 {
        bindings::RAVB_RS_CONST_PAGE_SIZE as u32 / self.size
    }
}

/// The pool of one receive queue.
///
/// # Invariants
///
/// `raw` is valid. Its pages are mapped for `dev` and are cut as `layout` says.
pub(crate) struct PagePool<'bound, P: Poll> {
    /// What is left of the page that buffers are cut off. Goes before the pool does.
    rest: Rest,
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
            // A page is synchronised as a whole, but for what is before the first and behind the
            // last byte that the device can write.
            fast.offset = layout.headroom;
            fast.max_len = layout.buffers() * layout.size - (layout.size - layout.capacity);
            let slow = &mut params.__bindgen_anon_2.slow;
            slow.netdev = netdev.as_raw();
            slow.queue_idx = u32::from(napi.queue());
            slow.flags = bindings::RAVB_RS_CONST_PP_FLAG_DMA_MAP
                | bindings::RAVB_RS_CONST_PP_FLAG_DMA_SYNC_DEV;
        }

        // SAFETY: The parameters are complete, and what they point to lives longer than the pool.
        let raw = from_err_ptr(unsafe { bindings::page_pool_create(&raw const params) })?;
        let raw = NonNull::new(raw).ok_or(ENOMEM)?;
        // INVARIANT: Created with these parameters.
        Ok(Self {
            rest: Rest {
                // INVARIANT: Nothing is left.
                left: 0,
                pool: raw,
                page: NonNull::dangling(),
                start: NonNull::dangling(),
                address: 0,
            },
            raw,
            dev,
            layout,
            _napi: napi.clone(),
        })
    }

    /// Takes a buffer out of the pool, for the device to fill.
    #[inline]
    pub(crate) fn alloc(&mut self, gfp: Gfp) -> Option<DeviceBuffer> {
        if self.rest.left == 0 {
            self.divide_page(gfp)?;
        }
        let rest = &mut self.rest;
        let fragment = Fragment {
            pool: self.raw,
            page: rest.page,
            start: rest.start,
        };
        let data = rest
            .address
            .wrapping_add(DmaAddress::from(self.layout.headroom));

        // INVARIANT: One fragment less; behind the last one, nothing is cut off any more.
        rest.left = rest.left.wrapping_sub(1);
        rest.start = NonNull::new(rest.start.as_ptr().wrapping_add(self.layout.size as usize))?;
        rest.address = rest
            .address
            .wrapping_add(DmaAddress::from(self.layout.size));
        // INVARIANT: One fragment of the page is ours; the pool synchronised it for the device.
        Some(DeviceBuffer { fragment, data })
    }

    /// Takes a page out of the pool and divides it, when nothing is left of the last one.
    ///
    /// `page_pool_alloc_frag()` does the same, but takes longer for each buffer than all of
    /// [`PagePool::alloc`]; pages whose buffers have one size need none of what it can do.
    #[inline(never)]
    fn divide_page(&mut self, gfp: Gfp) -> Option<()> {
        let count = self.layout.buffers();
        // SAFETY: `raw` is valid, and this is called either in the NAPI context of the pool or
        // while that is disabled, because the pool is owned by what NAPI polls.
        let page = NonNull::new(unsafe {
            bindings::page_pool_alloc_pages(self.raw.as_ptr(), gfp.as_raw())
        })?;
        let rest = &mut self.rest;
        // SAFETY: The page is new and all of it is ours. The pool maps its pages, and allocates
        // them without high memory, so that they have addresses of both kinds.
        unsafe {
            let raw = page.as_ptr();
            bindings::ravb_helper_page_pool_fragment_page(raw, count as c_long);
            rest.start = NonNull::new(bindings::ravb_helper_page_address(raw).cast())?;
            rest.address = bindings::ravb_helper_page_pool_get_dma_addr(raw);
        }
        // INVARIANT: `count` references are ours, one for each buffer that fits the page.
        rest.page = page;
        rest.left = count;
        Some(())
    }

    /// The device has written `len` bytes: the buffer is the CPU's now.
    ///
    /// A length that the buffer cannot hold, or none, is an error; the buffer goes back to the
    /// pool.
    #[inline]
    pub(crate) fn received(&self, buffer: DeviceBuffer, len: u32) -> Option<CpuBuffer> {
        if !self.holds(len) {
            return None;
        }
        // SAFETY: The page is mapped for this device, and the range is inside it.
        unsafe { dma::sync_for_cpu(self.dev, buffer.data, len) };
        let data = buffer.fragment.data(&self.layout);
        // SAFETY: Prefetching changes nothing.
        unsafe { bindings::ravb_helper_net_prefetch(data.cast()) };
        // INVARIANT: `len` was checked above.
        Some(CpuBuffer {
            fragment: buffer.fragment,
            layout: self.layout,
            len,
        })
    }

    /// Copies the `len` bytes that the device has written into a small packet; the device may have
    /// the buffer again.
    ///
    /// `None` where there is no memory for the packet, or the length makes no sense.
    #[inline]
    pub(crate) fn copy<T: super::netdev::Operations>(
        &self,
        buffer: &DeviceBuffer,
        len: u32,
        cx: &napi::Context<'_, T>,
    ) -> Option<SkBuff> {
        if !self.holds(len) {
            return None;
        }
        let dev = device::as_raw(self.dev);
        let address = buffer.data;
        // SAFETY: The context is that of a poll.
        let skb = NonNull::new(unsafe { bindings::napi_alloc_skb(cx.as_raw(), len) })?;

        // SAFETY: The range is inside the buffer, which is mapped for this device, and inside the
        // packet, which is new. The device does not write the buffer: it has given it back, and
        // gets it again after this.
        unsafe {
            dma::sync_for_cpu(self.dev, address, len);
            let to = bindings::skb_put(skb.as_ptr(), len).cast::<u8>();
            core::ptr::copy_nonoverlapping(buffer.fragment.data(&self.layout), to, len as usize);
            bindings::ravb_helper_dma_sync_single_for_device(
                dev,
                address,
                len as usize,
                bindings::dma_data_direction::DMA_FROM_DEVICE,
            );
            Some(SkBuff::from_raw(skb))
        }
    }

    /// Whether the device can have written `len` bytes into a buffer.
    #[inline]
    pub(crate) fn holds(&self, len: u32) -> bool {
        len != 0 && len <= self.layout.capacity
    }

    /// How much the device may write into a buffer, in bytes.
    pub(crate) fn capacity(&self) -> u32 {
        self.layout.capacity
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

/// The rest of a page that buffers are cut off; it goes back to the pool when it is dropped.
///
/// # Invariants
///
/// `left` references of `page`, which belongs to `pool`, are ours, and so is the memory from
/// `start` on, which the device knows by `address`: one buffer for each reference.
struct Rest {
    pool: NonNull<bindings::page_pool>,
    page: NonNull<bindings::page>,
    start: NonNull<u8>,
    address: DmaAddress,
    left: u32,
}

impl Drop for Rest {
    #[inline]
    fn drop(&mut self) {
        for _ in 0..self.left {
            drop(Fragment {
                pool: self.pool,
                page: self.page,
                start: self.start,
            });
        }
    }
}

// SAFETY: The rest of a page is memory that is not tied to a thread.
unsafe impl Send for Rest {}

/// A fragment of a page of a pool; it goes back there when it is dropped.
///
/// # Invariants
///
/// One reference of `page`, which belongs to `pool`, is ours, and so is the memory of the buffer at
/// `start`. The pool exists as long as it has pages out.
struct Fragment {
    pool: NonNull<bindings::page_pool>,
    page: NonNull<bindings::page>,
    start: NonNull<u8>,
}

impl Fragment {
    /// Where the data area begins.
    #[inline]
    fn data(&self, layout: &Layout) -> *mut u8 {
        self.start.as_ptr().wrapping_add(layout.headroom as usize)
    }
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
///
/// # Invariants
///
/// The device reaches the data area of `fragment` at `data`.
pub(crate) struct DeviceBuffer {
    fragment: Fragment,
    data: DmaAddress,
}

impl DeviceBuffer {
    /// What the device knows the data area by, as wide as its DMA mask.
    #[inline]
    pub(crate) fn dma_address(&self) -> DmaAddress {
        self.data
    }
}

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
        // SAFETY: The buffer has this size, and nobody else uses it.
        let skb = unsafe {
            bindings::napi_build_skb(self.fragment.start.as_ptr().cast(), self.layout.size)
        };
        let Some(skb) = NonNull::new(skb) else {
            return Err(self);
        };

        // SAFETY: The packet is new and nobody else knows it; headroom and data fit the head, by
        // the invariant. From here on its head is the reference that this buffer had.
        unsafe {
            skbuff::fill_head(skb, self.layout.headroom, self.len);
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
            offset: (this.fragment.data(&this.layout).addr() % bindings::RAVB_RS_CONST_PAGE_SIZE)
                as u32,
            len: this.len,
            truesize: this.layout.size,
        }
    }
}
