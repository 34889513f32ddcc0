// SPDX-License-Identifier: GPL-2.0

//! Segments: what a packet that is too long for the wire is cut into, each with headers of its own.
//!
//! The network stack passes such a packet down whole where a device has
//! [`Features::SEGMENTATION`], which spares it the work for each segment. Here the headers are
//! made; the driver finds the payload where it lies.
//!
//! C header: [`include/net/tso.h`](srctree/include/net/tso.h)

use kernel::prelude::*;

#[cfg(doc)]
use super::netdev::Features;
use super::{
    segment_sums::Headers,
    skbuff::SkBuff, //
};
use crate::bindings;

/// The segments of a packet, one after the other.
///
/// # Invariants
///
/// `tso` was set up for the packet, whose head has `headers.payload` bytes at least.
pub(crate) struct Segments<'a> {
    packet: &'a SkBuff,
    tso: bindings::tso_t,
    headers: Headers,
    /// Bytes of payload in each segment but the last.
    size: u32,
    /// Bytes of payload in the segments that are still to come.
    rest: u32,
}

impl<'a> Segments<'a> {
    /// Begins with the first segment of a packet; EINVAL if it is not to be sent in segments, or
    /// its headers are not in its head.
    pub(crate) fn of(packet: &'a SkBuff) -> Result<Self> {
        let size = packet.segment_size().ok_or(EINVAL)?;
        let mut tso = bindings::tso_t::default();
        // SAFETY: The packet is valid, and its headers are where it says: the stack has filled them
        // in, or has checked those that somebody else did.
        let header_len = unsafe { bindings::tso_start(packet.as_raw(), &mut tso) };
        let header_len = usize::try_from(header_len)?;
        let transport = header_len.checked_sub(tso.tlen.into()).ok_or(EINVAL)?;
        if header_len > packet.head_data().len() {
            return Err(EINVAL);
        }
        // INVARIANT: Set up and checked above.
        Ok(Self {
            packet,
            tso,
            headers: Headers {
                network: packet.network_offset(),
                transport,
                payload: header_len,
                ipv6: tso.ipv6,
            },
            size,
            rest: u32::try_from(packet.len() - header_len)?,
        })
    }

    /// How many bytes of headers each segment has.
    pub(crate) fn header_len(&self) -> usize {
        self.headers.payload
    }

    /// How many bytes the longest segment has, headers included.
    pub(crate) fn max_len(&self) -> usize {
        self.headers.payload.saturating_add(self.size as usize)
    }

    /// Writes the headers of the next segment to the beginning of `to`, and returns how many bytes
    /// of payload belong behind them; `None` behind the last. ERANGE if there is too little room.
    ///
    /// The checksum of TCP or UDP is left to the device, and holds the sum of the pseudo header as
    /// in any such packet.
    pub(crate) fn next(&mut self, to: &mut [u8]) -> Result<Option<u32>> {
        let payload = self.size.min(self.rest);
        if payload == 0 {
            return Ok(None);
        }
        let header = to.get_mut(..self.headers.payload).ok_or(ERANGE)?;
        self.rest -= payload;
        // SAFETY: By the invariant there are as many bytes in the head, and `header` has room for
        // them; what is changed of them lies in there.
        unsafe {
            bindings::tso_build_hdr(
                self.packet.as_raw(),
                header.as_mut_ptr().cast(),
                &mut self.tso,
                payload as i32,
                self.rest == 0,
            )
        };
        // What tso_build_data() does beside looking for the data.
        self.tso.tcp_seq = self.tso.tcp_seq.wrapping_add(payload);
        self.headers
            .set_checksums(header, self.packet.len(), payload);
        Ok(Some(payload))
    }
}
