// SPDX-License-Identifier: GPL-2.0

//! Page pools, as the source of receive buffers.
//!
//! A [`Buffer`] is a part of a page that the pool keeps mapped for the device. Who may touch it is
//! in its type: the device owns a [`DeviceBuffer`], the CPU a [`CpuBuffer`], and the way from one
//! to the other does the DMA synchronisation. The way back leads through the pool.
//!
//! C header: [`include/net/page_pool/helpers.h`](srctree/include/net/page_pool/helpers.h)

use core::{
    hint::assert_unchecked,
    marker::PhantomData,
    mem::{
        forget,
        replace,
        ManuallyDrop, //
    },
    ptr::NonNull, //
};

use kernel::{
    device::{
        Bound,
        Device, //
    },
    dma::DmaAddress,
    error::from_err_ptr,
    ffi::c_ulong,
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
    prefetch::net_prefetch,
    skbuff::{
        self,
        SkBuff,
        Tail, //
    }, //
};
use crate::bindings;

/// What `build_skb()` needs behind the data, in bytes.
pub(crate) const SHARED_INFO_SIZE: usize = bindings::RAVB_RS_CONST_SHARED_INFO_SIZE;

/// What the network stack wants to find free in front of the data, in bytes: `NET_SKB_PAD`, whose
/// definition bindgen does not understand.
pub(crate) const HEADROOM: u32 = {
    let line = bindings::RAVB_RS_CONST_L1_CACHE_BYTES as u32;
    if line > 32 {
        line
    } else {
        32
    }
};

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
    /// How many of them a page has room for.
    per_page: u16,
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
            per_page: (bindings::RAVB_RS_CONST_PAGE_SIZE as u32 / size) as u16,
        }
    }
}

/// The pool of one receive queue, of a device that addresses 32 bits.
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
    /// The C pool points to it when it is bound.
    napi: Arc<Napi<P>>,
}

// SAFETY: The pool has its own locks, except that direct recycling needs the NAPI context that it
// is bound to, which the C code checks itself.
unsafe impl<P: Poll> Send for PagePool<'_, P> {}

impl<'bound, P: Poll> PagePool<'bound, P> {
    /// Creates a pool for the receive queue that `napi` serves, for `count` buffers. It may have
    /// another pool until this one is [bound](Self::bind) to it.
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
            fast.dma_dir = bindings::dma_data_direction::DMA_FROM_DEVICE;
            // A page is synchronised as a whole, but for what is before the first and behind the
            // last byte that the device can write.
            fast.offset = layout.headroom;
            fast.max_len =
                u32::from(layout.per_page) * layout.size - (layout.size - layout.capacity);
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
                size: layout.size,
                page: NonNull::dangling(),
                start: core::ptr::null_mut(),
                address: 0,
            },
            raw,
            dev,
            layout,
            napi: napi.clone(),
        })
    }

    /// The NAPI context of the pool is about to poll what uses it, and may give pages back without
    /// a lock. From then on the pool must be dropped only while that is disabled: see
    /// [`Napi::disable`].
    pub(crate) fn bind(&self) {
        // SAFETY: The pool is valid, and holds the context.
        unsafe {
            bindings::page_pool_enable_direct_recycling(self.raw.as_ptr(), self.napi.as_raw())
        };
    }

    /// Takes a buffer out of the pool, for the device to fill.
    #[inline]
    pub(crate) fn alloc(&mut self, gfp: Gfp) -> Option<DeviceBuffer> {
        if self.rest.left == 0 {
            self.divide_page(gfp)?;
        }
        let rest = &mut self.rest;
        // INVARIANT: The last fragment that was left is cut off.
        let offset = rest.left.wrapping_sub(self.layout.size);
        rest.left = offset;
        let fragment = Fragment {
            page: rest.page,
            start: rest.start.wrapping_add(offset as usize),
        };
        // INVARIANT: One fragment of the page is ours; the pool synchronised it for the device.
        Some(DeviceBuffer {
            fragment,
            data: rest.address.wrapping_add(offset),
        })
    }

    /// Takes a page out of the pool and divides it, when nothing is left of the last one.
    ///
    /// `page_pool_alloc_frag()` does the same, but takes longer for each buffer than all of
    /// [`PagePool::alloc`]; pages whose buffers have one size need none of what it can do.
    /// `page_pool_alloc_pages()` is a shell of the function below, which is the one that the
    /// kernel's fault injection knows.
    #[inline(never)]
    fn divide_page(&mut self, gfp: Gfp) -> Option<()> {
        let layout = &self.layout;
        // SAFETY: `raw` is valid, and this is called either in the NAPI context of the pool or
        // while that is disabled, because the pool is owned by what NAPI polls.
        let netmem = unsafe { bindings::page_pool_alloc_netmems(self.raw.as_ptr(), gfp.as_raw()) };
        // Memory of a device, which is not pages, is only given to pools that ask for it.
        let page = NonNull::new(netmem as *mut bindings::page)?;
        let raw = page.as_ptr();
        // SAFETY: The pool maps its pages, and allocates them without high memory, so that they
        // have addresses of both kinds.
        let (start, address) = unsafe {
            (
                bindings::ravb_helper_page_address(raw).cast(),
                dma_address(raw),
            )
        };
        // INVARIANT: The page is new and all of it is ours.
        let whole = Fragment { page, start };
        let address = u32::try_from(address).ok()?;
        // SAFETY: All of the page is ours.
        unsafe { fragment_page(raw, layout.per_page) };
        forget(whole);
        // INVARIANT: A reference is ours for each buffer that fits the page.
        let rest = Rest {
            page,
            start,
            address: address.wrapping_add(layout.headroom),
            left: layout.size.wrapping_mul(layout.per_page.into()),
            size: layout.size,
        };
        // Nothing is left to be dropped, which a compiler does not see.
        forget(replace(&mut self.rest, rest));
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
        unsafe { dma::sync_for_cpu(self.dev, buffer.data.into(), len) };
        net_prefetch(buffer.fragment.data(&self.layout));
        // INVARIANT: `len` was checked above.
        Some(CpuBuffer {
            fragment: buffer.fragment,
            layout: self.layout,
            len,
        })
    }

    /// The device has written `len` bytes, and will be given the buffer again when the CPU has
    /// looked at them.
    ///
    /// `None` where the length makes no sense.
    #[inline]
    pub(crate) fn lend<'a>(&'a self, buffer: &'a mut DeviceBuffer, len: u32) -> Option<Lent<'a>> {
        if !self.holds(len) {
            return None;
        }
        // SAFETY: The page is mapped for this device, and the range is inside it.
        unsafe { dma::sync_for_cpu(self.dev, buffer.data.into(), len) };
        // INVARIANT: `len` was checked above.
        Some(Lent {
            dev: self.dev,
            address: buffer.data.into(),
            start: buffer.fragment.data(&self.layout),
            written: len,
            len,
            _buffer: PhantomData,
        })
    }

    /// Whether the device can have written `len` bytes into a buffer.
    #[inline]
    pub(crate) fn holds(&self, len: u32) -> bool {
        // Neither none nor too much.
        len.wrapping_sub(1) < self.layout.capacity
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

// What page pools keep in a page. The functions are static inline functions in C, written out here
// because calls are what they would cost for each page.

/// Lets `count` users give a page back: `page_pool_fragment_page()`.
///
/// # Safety
///
/// The page must come from a page pool, and all of it must be the caller's.
#[inline]
unsafe fn fragment_page(page: *mut bindings::page, count: u16) {
    let page = page.cast::<bindings::netmem_desc>();
    // SAFETY: A page of a page pool is described in this way. Nobody else looks at its count.
    unsafe { (*page).pp_ref_count.counter = count.into() };
}

/// Whether a page is of the reserve: `page_is_pfmemalloc()`. That is a bit of the word in which
/// page pools keep their mark, and which they leave alone.
///
/// # Safety
///
/// The page must come from a page pool.
#[inline]
unsafe fn is_pfmemalloc(page: *const bindings::page) -> bool {
    const PFMEMALLOC: c_ulong = 1 << 1;

    let page = page.cast::<bindings::netmem_desc>();
    // SAFETY: A page of a page pool is described in this way.
    unsafe { (*page).pp_magic & PFMEMALLOC != 0 }
}

/// What the device knows a page by: `page_pool_get_dma_addr()`.
///
/// # Safety
///
/// The page must come from a page pool that maps its pages.
#[inline]
unsafe fn dma_address(page: *const bindings::page) -> DmaAddress {
    const IS_SHIFTED: bool = size_of::<DmaAddress>() > size_of::<c_ulong>();

    let page = page.cast::<bindings::netmem_desc>();
    // SAFETY: A page of a page pool is described in this way.
    let address = unsafe { (*page).dma_addr } as DmaAddress;
    if IS_SHIFTED {
        address * bindings::RAVB_RS_CONST_PAGE_SIZE as DmaAddress
    } else {
        address
    }
}

/// The rest of a page that buffers are cut off; it goes back to the pool when it is dropped.
///
/// # Invariants
///
/// `left` bytes from `start` on are ours, where `page` begins, which belongs to a pool. They are
/// buffers of `size`, for each of which a reference of the page is ours. The device knows the data
/// area of the first of them by `address`.
struct Rest {
    page: NonNull<bindings::page>,
    start: *mut u8,
    address: u32,
    left: u32,
    size: u32,
}

impl Drop for Rest {
    #[inline]
    fn drop(&mut self) {
        while self.left != 0 {
            self.left = self.left.saturating_sub(self.size);
            drop(Fragment {
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
/// One reference of `page`, which belongs to a pool, is ours, and so is the memory of the buffer at
/// `start`. The pool exists as long as it has pages out.
struct Fragment {
    page: NonNull<bindings::page>,
    start: *mut u8,
}

impl Fragment {
    /// Where the data area begins.
    #[inline]
    fn data(&self, layout: &Layout) -> *mut u8 {
        self.start.wrapping_add(layout.headroom as usize)
    }
}

// SAFETY: A fragment is memory that is not tied to a thread.
unsafe impl Send for Fragment {}

impl Drop for Fragment {
    fn drop(&mut self) {
        let page = self.page.as_ptr();
        // SAFETY: By the invariant, the page is one of a pool, and the reference is ours to give
        // back.
        unsafe {
            let pool = (*page.cast::<bindings::netmem_desc>()).pp;
            bindings::ravb_helper_page_pool_put_full_page(pool, page, false);
        };
    }
}

/// A buffer that the device may write at any time; the CPU must not look at it.
///
/// # Invariants
///
/// The device reaches the data area of `fragment` at `data`.
// In an array, of which there is one for each ring, an index is turned into an address by a shift.
#[repr(align(32))]
pub(crate) struct DeviceBuffer {
    fragment: Fragment,
    data: u32,
}

impl DeviceBuffer {
    /// What the device knows the data area by.
    #[inline]
    pub(crate) fn dma_address(&self) -> u32 {
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

/// What the device has written to a buffer that stays its own.
///
/// # Invariants
///
/// The buffer, which the device reaches at `address` and the CPU at `start`, holds `written` bytes
/// that are synchronised for the CPU. The device does not write them before this is dropped. Of
/// them `len` are left.
pub(crate) struct Lent<'a> {
    dev: &'a Device<Bound>,
    address: DmaAddress,
    start: *const u8,
    written: u32,
    len: u32,
    _buffer: PhantomData<&'a mut DeviceBuffer>,
}

impl Lent<'_> {
    /// Makes a small packet of a copy.
    ///
    /// `None` where there is no memory for the packet.
    #[inline]
    pub(crate) fn copy<T: super::netdev::Operations>(
        &self,
        cx: &napi::Context<'_, T>,
    ) -> Option<SkBuff> {
        // SAFETY: The context is that of a poll.
        let skb = NonNull::new(unsafe { bindings::napi_alloc_skb(cx.as_raw(), self.len) })?;

        // SAFETY: The range is inside the buffer, by the invariant, and inside the packet, which is
        // new.
        unsafe {
            let to = bindings::skb_put(skb.as_ptr(), self.len).cast::<u8>();
            core::ptr::copy_nonoverlapping(self.start, to, self.len as usize);
            Some(SkBuff::from_raw(skb))
        }
    }
}

impl Tail for Lent<'_> {
    #[inline]
    fn take_trailer<const N: usize>(&mut self) -> Option<[u8; N]> {
        // SAFETY: By the invariant.
        let trailer = unsafe { last(self.start, self.len) }?;
        // INVARIANT: Less than it was.
        self.len -= N as u32;
        Some(trailer)
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        // SAFETY: The buffer is mapped for this device, and the range is inside it.
        unsafe {
            bindings::ravb_helper_dma_sync_single_for_device(
                device::as_raw(self.dev),
                self.address,
                self.written as usize,
                bindings::dma_data_direction::DMA_FROM_DEVICE,
            )
        };
    }
}

/// Reads the last `N` of `len` bytes from `start` on; `None` where nothing is before them.
///
/// # Safety
///
/// The bytes must be there, and nobody may write them meanwhile.
#[inline]
unsafe fn last<const N: usize>(start: *const u8, len: u32) -> Option<[u8; N]> {
    let len = len as usize;
    // SAFETY: As the caller promises.
    (len > N).then(|| unsafe { read_bytes(start.add(len).sub(N)) })
}

/// Reads `N` bytes.
///
/// What is in most trailers takes one instruction, as `get_unaligned()` does, but not if the
/// compiler may choose: for Rust, the kernel tells it that addresses must be aligned.
///
/// # Safety
///
/// The bytes must be there, in normal memory, and nobody may write them meanwhile.
#[inline(always)]
unsafe fn read_bytes<const N: usize>(from: *const u8) -> [u8; N] {
    #[cfg(CONFIG_ARM64)]
    if N == size_of::<u32>() {
        let word: u32;
        // SAFETY: As the caller promises. The processor takes any address of normal memory.
        unsafe {
            core::arch::asm!(
                "ldr {word:w}, [{from}]",
                word = out(reg) word,
                from = in(reg) from,
                options(pure, readonly, nostack, preserves_flags),
            )
        };
        let mut bytes = [0; N];
        bytes.copy_from_slice(&word.to_ne_bytes());
        return bytes;
    }
    // SAFETY: As the caller promises. An array of bytes has no alignment.
    unsafe { from.cast::<[u8; N]>().read() }
}

/// What a socket buffer keeps of a [`CpuBuffer`].
pub(super) struct Parts {
    pub(super) page: NonNull<bindings::page>,
    pub(super) offset: u32,
    pub(super) len: u32,
    pub(super) truesize: u32,
    /// The page is of the reserve that is kept for getting memory free.
    pub(super) is_reserve: bool,
}

impl Tail for CpuBuffer {
    #[inline]
    fn take_trailer<const N: usize>(&mut self) -> Option<[u8; N]> {
        // SAFETY: By the invariant, the buffer holds `len` bytes; nobody writes them.
        let trailer = unsafe { last(self.fragment.data(&self.layout), self.len) }?;
        // INVARIANT: Less than it was.
        self.len -= N as u32;
        Some(trailer)
    }
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
        let skb = unsafe { bindings::napi_build_skb(self.fragment.start.cast(), self.layout.size) };
        let Some(skb) = NonNull::new(skb) else {
            return Err(self);
        };

        // SAFETY: The packet is new and nobody else knows it; headroom and data fit the head, by
        // the invariant. From here on its head is the reference that this buffer had.
        unsafe {
            skbuff::fill_head(skb, self.layout.headroom, self.len);
            // What is asked for when it is passed up.
            assert_unchecked((*skb.as_ptr()).data_len == 0);
        }
        let _ = ManuallyDrop::new(self);
        // SAFETY: The only reference is given to the result.
        Ok(unsafe { SkBuff::from_raw(skb) })
    }

    /// Gives the reference of the page away.
    #[inline]
    pub(super) fn into_parts(self) -> Parts {
        let this = ManuallyDrop::new(self);
        let page = this.fragment.page;
        Parts {
            page,
            // SAFETY: The page comes from a page pool, and one reference of it is ours.
            is_reserve: unsafe { is_pfmemalloc(page.as_ptr()) },
            offset: (this.fragment.data(&this.layout).addr() % bindings::RAVB_RS_CONST_PAGE_SIZE)
                as u32,
            len: this.len,
            truesize: this.layout.size,
        }
    }
}
