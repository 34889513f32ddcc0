// SPDX-License-Identifier: GPL-2.0
//! Watch windows: what CPUs do with the descriptors while the device is in OPERATION.
//!
//! Memory accesses of a CPU never reach a device. Where the property `watch` is on, the host is
//! asked to report accesses to the pages that hold the rings. The model counts them, keeps a copy
//! of the pages to see when a CPU changes a descriptor it has given away, and can make the engine
//! look at the rings after every store (`eager-fetch`), which exposes a wrong order of stores.

use std::collections::HashMap;

use crate::counters::QUEUES;
use crate::dmac::descriptor::{Descriptor, Kind, DIE_DT};
use crate::dmac::ENTRY;
use crate::host::Host;
use crate::model::Model;
use crate::regs::reg;
use crate::rules::Rule;
use crate::variant::RX_QUEUE_OFFSET;

const PAGE: u64 = 4096;
/// Longest ring looked for, in descriptors.
const MAX_RING: u64 = 8192;

/// Descriptors of one queue.
#[derive(Clone, Copy, Debug)]
struct Ring {
    queue: usize,
    start: u64,
    end: u64,
    stride: u64,
}

impl Ring {
    /// Address of the descriptor that holds `addr`.
    fn descriptor(&self, addr: u64) -> u64 {
        addr - (addr - self.start) % self.stride
    }
}

/// Everything known about the rings in memory.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    rings: Vec<Ring>,
    /// Copy of each ring's memory, in the order of `rings`; empty unless watched.
    shadow: Vec<Vec<u8>>,
    /// Receive descriptors as they were when they were handed over (property `eager-fetch`).
    prefetched: HashMap<u64, [u8; 8]>,
    /// Queues whose last store by a CPU was to another word than the first.
    filling: [bool; QUEUES],
    /// What the last walk along a ring found (property `ring`).
    pub(crate) walked: Vec<Descriptor>,
}

impl Watch {
    /// Queue, address, number of descriptors and their size of each ring, the link not counted.
    pub(crate) fn rings(&self) -> impl Iterator<Item = (usize, u64, u64, u64)> + '_ {
        self.rings.iter().map(|ring| {
            let count = (ring.end - ring.start) / ring.stride - 1;
            (ring.queue, ring.start, count, ring.stride)
        })
    }

    pub(crate) fn prefetched(&self, addr: u64) -> Option<[u8; 8]> {
        self.prefetched.get(&addr).copied()
    }

    pub(crate) fn consumed(&mut self, addr: u64) {
        self.prefetched.remove(&addr);
    }

    pub(crate) fn forget_prefetched(&mut self, queue: usize) {
        if queue >= RX_QUEUE_OFFSET {
            self.prefetched.clear();
        }
    }

    /// The engine's own stores change what counts as the present content.
    pub(crate) fn engine_stores(&mut self, addr: u64, data: &[u8]) {
        for (ring, shadow) in self.rings.iter().zip(&mut self.shadow) {
            for (byte, at) in data.iter().zip(addr..) {
                if (ring.start..ring.end).contains(&at) {
                    shadow[(at - ring.start) as usize] = *byte;
                }
            }
        }
    }
}

impl Model {
    pub(crate) fn in_base_table(&self, addr: u64) -> bool {
        let base = u64::from(self.regs.get(reg::DBAT));
        let entries = (RX_QUEUE_OFFSET + self.variant.rx_queues) as u64;
        (base..base + ENTRY * entries).contains(&addr)
    }

    /// Finds the rings and, where asked, opens the windows.
    pub(crate) fn open_watch_windows(&mut self, h: &mut dyn Host) {
        let rings: Vec<Ring> = self
            .queues()
            .filter_map(|queue| self.find_ring(h, queue))
            .collect();
        self.watch = Watch {
            rings,
            ..Watch::default()
        };
        if !self.settings.watch {
            return;
        }
        let mut pages: Vec<(u64, u64)> = Vec::new();
        for ring in &self.watch.rings {
            let mut content = vec![0; (ring.end - ring.start) as usize];
            // What cannot be read stays zero and is of no type that is given away.
            let _ = h.dma_read(ring.start, &mut content);
            self.watch.shadow.push(content);
            pages.push((
                ring.start & !(PAGE - 1),
                (ring.end + PAGE - 1) & !(PAGE - 1),
            ));
        }
        pages.sort_unstable();
        pages.dedup_by(|later, earlier| {
            let touch = later.0 <= earlier.1;
            if touch {
                earlier.1 = earlier.1.max(later.1);
            }
            touch
        });
        for (start, end) in pages {
            h.watch(start, end - start);
        }
    }

    pub(crate) fn close_watch_windows(&mut self, h: &mut dyn Host) {
        if !self.watch.shadow.is_empty() {
            h.unwatch_all();
        }
        self.watch = Watch::default();
    }

    /// A ring ends at the link that leads back to its start.
    fn find_ring(&self, h: &mut dyn Host, queue: usize) -> Option<Ring> {
        let read = |h: &mut dyn Host, addr: u64| {
            let mut bytes = [0; ENTRY as usize];
            h.dma_read(addr, &mut bytes).ok()?;
            Some(Descriptor { addr, bytes })
        };
        let entry = read(
            h,
            u64::from(self.regs.get(reg::DBAT)) + ENTRY * queue as u64,
        )?;
        if !matches!(entry.kind(), Kind::Link | Kind::LinkFix) {
            return None;
        }
        let (start, stride) = (entry.pointer(), self.stride(queue));
        let is_end = |d: Descriptor| matches!(d.kind(), Kind::Link | Kind::LinkFix | Kind::Eos);
        let last = (0..MAX_RING)
            .map(|i| start + i * stride)
            .find(|addr| read(h, *addr).is_none_or(is_end))?;
        Some(Ring {
            queue,
            start,
            end: last + stride,
            stride,
        })
    }

    /// Property `walk`: reads the ring of a queue as it is in memory, without its link.
    pub(crate) fn walk_ring(&mut self, h: &mut dyn Host, queue: usize) -> Result<(), String> {
        let ring = self.watch.rings.iter().find(|ring| ring.queue == queue);
        let ring = *ring.ok_or("the queue has no ring")?;
        let mut walked = Vec::new();
        for addr in (ring.start..ring.end - ring.stride).step_by(ring.stride as usize) {
            let mut bytes = [0; ENTRY as usize];
            h.dma_read(addr, &mut bytes)
                .map_err(|_| format!("no memory at {addr:#x}"))?;
            walked.push(Descriptor { addr, bytes });
        }
        self.watch.walked = walked;
        Ok(())
    }

    /// Rule check: no data buffer may overlap the descriptors.
    pub(crate) fn check_buffer(&mut self, h: &mut dyn Host, descriptor: &Descriptor) {
        let (start, end) = (
            descriptor.pointer(),
            descriptor.pointer() + descriptor.size() as u64,
        );
        if self
            .watch
            .rings
            .iter()
            .any(|ring| start < ring.end && ring.start < end)
        {
            let detail = format!(
                "descriptor {:#x} names {start:#x}-{end:#x}",
                descriptor.addr
            );
            self.broken(h, Rule::DmaOutsideDescriptor, &detail);
        }
    }

    /// A CPU has accessed `size` bytes at `addr` in a watch window; memory holds the result.
    pub fn watched(&mut self, h: &mut dyn Host, addr: u64, size: u32, is_write: bool, value: u64) {
        let found = self
            .watch
            .rings
            .iter()
            .position(|r| (r.start..r.end).contains(&addr));
        let Some(index) = found.filter(|index| *index < self.watch.shadow.len()) else {
            return;
        };
        let ring = self.watch.rings[index];
        let descriptor = ring.descriptor(addr);
        self.counters.cpu[ring.queue].count(addr - descriptor, is_write);
        if !is_write {
            return;
        }
        let filling = addr - descriptor >= 4;
        if self.watch.filling[ring.queue] && !filling {
            self.counters.hand_overs[ring.queue] += 1;
        }
        self.watch.filling[ring.queue] = filling;
        let shadow = &mut self.watch.shadow[index];
        let owner = Kind::of(shadow[(descriptor - ring.start + DIE_DT) as usize]);
        let given_away = match ring.queue < RX_QUEUE_OFFSET {
            true => owner.has_data(),
            false => owner.can_receive(),
        };
        let mut changed = false;
        for (byte, at) in value
            .to_le_bytes()
            .into_iter()
            .zip(addr..addr + u64::from(size.min(8)))
        {
            if let Some(old) = shadow.get_mut((at - ring.start) as usize) {
                changed |= *old != byte;
                *old = byte;
            }
        }
        if given_away && changed {
            let detail = format!("store of {size} bytes {value:#x} to {addr:#x} ({owner:?})");
            self.broken(h, Rule::DescriptorTorn, &detail);
        }
        if self.settings.eager_fetch {
            self.look_at(h, &ring, index, descriptor);
        }
        self.settle(h);
    }

    /// Property `eager-fetch`: the engine reads what it may use as soon as it may.
    fn look_at(&mut self, h: &mut dyn Host, ring: &Ring, index: usize, descriptor: u64) {
        if ring.queue < RX_QUEUE_OFFSET {
            self.fetch_eagerly(h, ring.queue);
            return;
        }
        let at = (descriptor - ring.start) as usize;
        let Some(content) = self.watch.shadow[index].get(at..at + ENTRY as usize) else {
            return;
        };
        let mut bytes = [0; ENTRY as usize];
        bytes.copy_from_slice(content);
        if Kind::of(bytes[DIE_DT as usize]).can_receive() {
            self.watch.prefetched.entry(descriptor).or_insert(bytes);
        }
    }
}
