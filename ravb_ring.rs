// SPDX-License-Identifier: GPL-2.0

//! Descriptor rings in coherent memory, and the table that they hang on.
//!
//! The barriers that hand a descriptor over are part of the operations here, so that nobody can
//! forget one: what a descriptor points to, and its second word, are in memory before its first
//! word gives it away; and nothing else is read before the first word says that it came back.

use core::iter::repeat;

use kernel::{
    device::{
        Bound,
        Device, //
    },
    dma::Coherent,
    prelude::*,
    sync::barrier::{
        dma_mb,
        Read,
        Write, //
    }, //
};

use crate::{
    net::dma::{
        prefetch_word,
        read_word,
        write_padded,
        write_strided,
        write_word, //
    },
    ravb_desc::{
        self,
        RxWord, //
    }, //
};

/// Words of a descriptor without a timestamp.
const WORDS: usize = 2;

/// A table or ring of descriptors.
struct Descriptors {
    words: Coherent<[u32]>,
    /// Words of each descriptor.
    stride: usize,
}

impl Descriptors {
    fn new(dev: &Device<Bound>, count: usize, stride: usize) -> Result<Self> {
        Ok(Self {
            words: Coherent::zeroed_slice(dev, count * stride, GFP_KERNEL)?,
            stride,
        })
    }

    /// The bus address of the first descriptor. The DMA mask makes it 32 bits wide.
    fn address(&self) -> Result<u32> {
        Ok(u32::try_from(self.words.dma_address())?)
    }

    /// Reads the first word of descriptor `index`; one that does not exist reads as 0.
    #[inline]
    fn first(&self, index: u32) -> u32 {
        u32::from_le(read_word(&self.words, self.word(index)))
    }

    /// Reads the second word of descriptor `index`.
    fn pointer(&self, index: u32) -> u32 {
        let word = self.word(index).wrapping_add(1);
        u32::from_le(read_word(&self.words, word))
    }

    /// Writes the second word of descriptor `index`.
    #[inline]
    fn set_pointer(&self, index: u32, pointer: u32) {
        let word = self.word(index).wrapping_add(1);
        write_word(&self.words, word, pointer.to_le());
    }

    /// Writes the second words of `count` descriptors from `index` on, as long as there are
    /// `pointers`; returns how many.
    #[inline(always)]
    fn set_pointers(&self, index: u32, count: u32, pointers: impl Iterator<Item = u32>) -> u32 {
        let pointers = pointers.map(u32::to_le);
        let word = self.word(index).wrapping_add(1);
        write_strided(&self.words, word, self.stride, count as usize, pointers) as u32
    }

    /// Writes `first` as the first word of `count` descriptors from `index` on.
    #[inline]
    fn set_firsts(&self, index: u32, count: u32, first: u32) {
        let firsts = repeat(first.to_le());
        let word = self.word(index);
        write_strided(&self.words, word, self.stride, count as usize, firsts);
    }

    /// Asks for the descriptor that follows `index` in memory ahead of its use.
    #[inline]
    fn prefetch_after(&self, index: u32) {
        prefetch_word(&self.words, self.word(index).wrapping_add(self.stride));
    }

    /// Writes the first word of descriptor `index`.
    #[inline]
    fn set_first(&self, index: u32, first: u32) {
        write_word(&self.words, self.word(index), first.to_le());
    }

    /// The index of the first word of descriptor `index`. Whether that exists is found out where
    /// the word is accessed.
    #[inline]
    fn word(&self, index: u32) -> usize {
        (index as usize).wrapping_mul(self.stride)
    }
}

/// A ring of descriptors, closed by a link from behind its end to its beginning.
struct Ring {
    descriptors: Descriptors,
    size: u32,
}

impl Ring {
    fn new(dev: &Device<Bound>, size: u32, stride: usize) -> Result<Self> {
        let descriptors = Descriptors::new(dev, size as usize + 1, stride)?;
        descriptors.set_pointer(size, descriptors.address()?);
        descriptors.set_first(size, ravb_desc::LINK);
        Ok(Self { descriptors, size })
    }
}

/// A place to hang a ring into the table of base addresses.
pub(crate) trait Base {
    /// The bus address of the first descriptor.
    fn base(&self) -> Result<u32>;
}

/// The table of base addresses, which tells the hardware where the rings are.
pub(crate) struct BaseTable(Descriptors);

impl BaseTable {
    /// Creates the table with all queues unused.
    pub(crate) fn new(dev: &Device<Bound>) -> Result<Self> {
        let table = Descriptors::new(dev, ravb_desc::DBAT_ENTRIES, WORDS)?;
        for index in 0..ravb_desc::DBAT_ENTRIES as u32 {
            table.set_first(index, ravb_desc::UNUSED);
        }
        Ok(Self(table))
    }

    /// The bus address of the table.
    pub(crate) fn address(&self) -> Result<u32> {
        self.0.address()
    }

    /// Hangs a ring into entry `index`; see [`ravb_desc::dbat_rx`] and [`ravb_desc::dbat_tx`].
    pub(crate) fn link(&self, index: usize, ring: &impl Base) -> Result {
        self.0.set_pointer(index as u32, ring.base()?);
        self.0.set_first(index as u32, ravb_desc::LINK);
        Ok(())
    }
}

/// A receive ring.
///
/// The slots from `dirty` up to `current` are empty, those from `current` on are the hardware's.
pub(crate) struct RxRing {
    ring: Ring,
    /// The slot that the hardware fills next.
    current: u32,
    /// The slot to be armed next.
    dirty: u32,
    /// How many slots are the hardware's.
    armed: u32,
}

impl Base for RxRing {
    fn base(&self) -> Result<u32> {
        self.ring.descriptors.address()
    }
}

impl RxRing {
    /// Creates a ring of `size` slots, none of them armed. A descriptor has `words` words.
    pub(crate) fn new(dev: &Device<Bound>, size: u32, words: usize) -> Result<Self> {
        Ok(Self {
            ring: Ring::new(dev, size, words)?,
            current: 0,
            dirty: 0,
            armed: 0,
        })
    }

    /// The next slot, goes on from `index` by one; no division.
    #[inline]
    fn after(&self, index: u32) -> u32 {
        let next = index.wrapping_add(1);
        if next == self.ring.size {
            0
        } else {
            next
        }
    }

    /// The slot that was filled next, and its first word; takes it back from the hardware.
    ///
    /// Costs one load, whether there is one or not.
    #[inline]
    pub(crate) fn take_filled(&mut self) -> Option<(u32, RxWord)> {
        if self.armed == 0 {
            return None;
        }
        let slot = self.current;
        let word = RxWord::new(self.ring.descriptors.first(slot))?;
        // The data is read after the word that says that it is there.
        dma_mb(Read);

        self.ring.descriptors.prefetch_after(slot);
        self.current = self.after(slot);
        self.armed -= 1;
        Some((slot, word))
    }

    /// Whether [`RxRing::take_filled`] would find a slot. Costs one load.
    #[inline]
    pub(crate) fn has_filled(&self) -> bool {
        let word = self.ring.descriptors.first(self.current);
        self.armed != 0 && RxWord::new(word).is_some()
    }

    /// Where the data of `slot` goes. Not for the hot path, which remembers it.
    pub(crate) fn pointer(&self, slot: u32) -> u32 {
        self.ring.descriptors.pointer(slot)
    }

    /// The slots that are the hardware's, or that it has filled and that were not taken yet.
    pub(crate) fn armed(&self) -> impl Iterator<Item = u32> + '_ {
        core::iter::successors(Some(self.current), |&slot| Some(self.after(slot)))
            .take(self.armed as usize)
    }

    /// How many slots are empty.
    #[inline]
    pub(crate) fn vacant(&self) -> u32 {
        self.ring.size - self.armed
    }

    /// Whether the hardware can receive nothing.
    #[inline]
    pub(crate) fn is_exhausted(&self) -> bool {
        self.armed == 0
    }

    /// Fills the empty slots. `source` is asked for the bus address of a buffer with `room` bytes
    /// for each, until it has none; it is given what belongs to the slot, of `places` for all
    /// slots. Returns how many were filled.
    ///
    /// Pointers are written as they come; the first words, which hand the slots over, follow
    /// together behind one barrier.
    #[inline]
    pub(crate) fn refill<T>(
        &mut self,
        room: u32,
        places: &mut [T],
        source: impl FnMut(&mut T) -> Option<u32>,
    ) -> u32 {
        // Frames that come alone.
        if self.vacant() == 1 {
            return self.refill_one(room, places, source).map_or(0, |()| 1);
        }
        self.refill_all(room, places, source)
    }

    #[inline(always)]
    fn refill_one<T>(
        &mut self,
        room: u32,
        places: &mut [T],
        mut source: impl FnMut(&mut T) -> Option<u32>,
    ) -> Option<()> {
        let descriptors = &self.ring.descriptors;
        let slot = self.dirty;

        descriptors.set_pointer(slot, source(places.get_mut(slot as usize)?)?);
        dma_mb(Write);
        descriptors.set_first(slot, ravb_desc::empty(room));
        self.dirty = self.after(slot);
        self.armed += 1;
        Some(())
    }

    #[inline(never)]
    fn refill_all<T>(
        &mut self,
        room: u32,
        places: &mut [T],
        mut source: impl FnMut(&mut T) -> Option<u32>,
    ) -> u32 {
        let descriptors = &self.ring.descriptors;
        let vacant = self.vacant();
        let to_end = vacant.min(self.ring.size - self.dirty);
        // Those up to the end of the ring, and those at its beginning.
        let mut filled = 0;
        for (first, count) in [(self.dirty, to_end), (0, vacant - to_end)] {
            let Some(places) = places.get_mut(first as usize..(first + count) as usize) else {
                break;
            };
            let pointers = places.iter_mut().map_while(&mut source);
            filled += descriptors.set_pointers(first, count, pointers);
            if filled < to_end || filled == vacant {
                break;
            }
        }
        if filled == 0 {
            return 0;
        }
        dma_mb(Write);

        let word = ravb_desc::empty(room);
        let to_end = to_end.min(filled);
        descriptors.set_firsts(self.dirty, to_end, word);
        if filled > to_end {
            descriptors.set_firsts(0, filled - to_end, word);
        }
        let next = self.dirty + filled;
        self.dirty = next.checked_sub(self.ring.size).unwrap_or(next);
        self.armed += filled;
        filled
    }
}

/// A transmit ring, and memory that the hardware reads small pieces of frames from. Which slots are
/// whose is kept by [`crate::net::spsc`].
pub(crate) struct TxRing {
    ring: Ring,
    bounce: BounceArea,
}

impl Base for TxRing {
    fn base(&self) -> Result<u32> {
        self.ring.descriptors.address()
    }
}

impl TxRing {
    /// Creates a ring of `size` slots, none of them the hardware's.
    pub(crate) fn new(dev: &Device<Bound>, size: u32) -> Result<Self> {
        // The hardware stops at what it is not given.
        let ring = Ring::new(dev, size, WORDS)?;
        for slot in 0..size {
            ring.descriptors.set_first(slot, ravb_desc::RESERVED);
        }
        Ok(Self {
            ring,
            bounce: BounceArea::new(dev, size)?,
        })
    }

    /// Copies `data` to the bounce area of `slot`; see [`BounceArea::put`].
    #[inline]
    pub(crate) fn copy(&self, slot: u32, data: &[u8], len: usize) -> Result<u32> {
        self.bounce.put(slot, data, len)
    }

    /// Writes where the data of `slot` is.
    #[inline]
    pub(crate) fn set_pointer(&self, slot: u32, address: u32) {
        self.ring.descriptors.set_pointer(slot, address);
    }

    /// Writes the first word of a slot that continues a frame. The hardware comes to it when the
    /// first slot of the frame is handed over.
    #[inline]
    pub(crate) fn prepare(&self, slot: u32, word: u32) {
        self.ring.descriptors.set_first(slot, word);
    }

    /// Gives the first slot of a frame to the hardware, which may look at it at once, and with it
    /// all that was written before: data, pointers, and the other slots of the frame.
    #[inline]
    pub(crate) fn hand_over(&self, slot: u32, word: u32) {
        dma_mb(Write);
        self.ring.descriptors.set_first(slot, word);
    }

    /// Keeps `slot`, so that it looks neither transmitted nor to be transmitted.
    #[inline]
    pub(crate) fn reserve(&self, slot: u32) {
        self.ring.descriptors.set_first(slot, ravb_desc::RESERVED);
    }

    /// Whether the hardware has finished with `slot`.
    #[inline]
    pub(crate) fn is_transmitted(&self, slot: u32) -> bool {
        ravb_desc::is_transmitted(self.ring.descriptors.first(slot))
    }
}

/// How large a piece of a frame can be that is copied, in bytes: the headers of TCP over IPv6, with
/// a VLAN tag and options, or what is sooner copied than mapped.
pub(crate) const BOUNCE_SIZE: usize = 128;

/// Memory that the hardware reads small pieces of frames from, a piece for each slot.
///
/// It is coherent: nothing is mapped or cleaned for a piece.
struct BounceArea {
    memory: Coherent<[u8]>,
    address: u32,
}

impl BounceArea {
    /// Creates the area for a ring of `size` slots.
    fn new(dev: &Device<Bound>, size: u32) -> Result<Self> {
        let memory = Coherent::zeroed_slice(dev, size as usize * BOUNCE_SIZE, GFP_KERNEL)?;
        let address = u32::try_from(memory.dma_address())?;
        Ok(Self { memory, address })
    }

    /// Writes `data` to the piece of `slot`, followed by zeroes up to a length of `len`, and
    /// returns the bus address of the piece.
    ///
    /// The slot is the driver's, so that nobody reads the piece meanwhile.
    #[inline]
    fn put(&self, slot: u32, data: &[u8], len: usize) -> Result<u32> {
        let start = (slot as usize).wrapping_mul(BOUNCE_SIZE);
        write_padded(&self.memory, start, data, len, BOUNCE_SIZE)?;
        Ok(self.address.wrapping_add(start as u32))
    }
}
