// SPDX-License-Identifier: GPL-2.0
//! Control page: registers through which the guest itself drives a measurement (property
//! `control`).
//!
//! A command from outside would come at a moment the host decides. Here the guest sets up a stream
//! of frames, starts it, and marks where a measurement begins and ends; all of it happens at
//! virtual times, so that runs under QEMU's instruction counter repeat. At each mark the counters
//! are logged as one line of JSON.
//!
//! | offset | register | meaning |
//! |---|---|---|
//! | 0x00 | ID | reads `RAVB` |
//! | 0x04 | SIZE | length of a frame without FCS |
//! | 0x08 | COUNT | frames in the stream |
//! | 0x0c | BURST | frames in a row |
//! | 0x10 | GAP | nanoseconds from the start of one burst to that of the next |
//! | 0x14 | TYPE | Ethernet type; 0x0800 makes UDP over IPv4 |
//! | 0x18 | FLOWS | UDP: number of ports that take turns |
//! | 0x1c | HOLD | 1: a frame waits until the receive ring has room for it |
//! | 0x20 | START | write: the stream starts so many nanoseconds from now; read: frames left |
//! | 0x24 | MARK | write: a mark of this number |

use crate::dmac::Arrival;
use crate::host::Host;
use crate::model::Model;
use crate::partner::{self, Partner};
use crate::toe;
use serde_json::json;
use std::rc::Rc;

/// `RAVB`, little endian.
const ID: u32 = u32::from_le_bytes(*b"RAVB");

/// How long a stream that waits for room waits before it looks again.
const RETRY_NS: u64 = 500;

const HEADER: usize = 14;
const IPV4: u16 = 0x0800;
/// First port of the flows, on both sides.
const PORT: u16 = 5001;
const PARTNER_MAC: [u8; 6] = [0x02, 0, 0x5e, 0, 0, 1];
const GUEST_IP: [u8; 4] = [10, 0, 2, 15];

/// What the stream looks like: the writable registers, in their order.
#[derive(Clone, Copy, Debug, Default)]
struct Shape {
    size: u32,
    count: u32,
    burst: u32,
    gap: u32,
    ethertype: u32,
    flows: u32,
    hold: u32,
}

/// The control page and its stream.
#[derive(Debug, Default)]
pub(crate) struct Control {
    shape: Shape,
    /// One frame of each flow.
    frames: Vec<Rc<[u8]>>,
    /// Frames sent and still to send.
    sent: u32,
    left: u32,
    /// When the present burst began, and when the next frame is due.
    burst_began: u64,
    due: u64,
    partner: Partner,
}

impl Shape {
    fn register(&mut self, offset: u64) -> Option<&mut u32> {
        Some(match offset {
            0x04 => &mut self.size,
            0x08 => &mut self.count,
            0x0c => &mut self.burst,
            0x10 => &mut self.gap,
            0x14 => &mut self.ethertype,
            0x18 => &mut self.flows,
            0x1c => &mut self.hold,
            _ => return None,
        })
    }

    fn frame(&self, mac: [u8; 6], flow: u16) -> Rc<[u8]> {
        let ethertype = self.ethertype as u16;
        let mut frame = mac.to_vec();
        frame.extend(PARTNER_MAC);
        frame.extend(ethertype.to_be_bytes());
        if ethertype == IPV4 {
            let length = (self.size as usize).saturating_sub(HEADER) as u16;
            frame.extend([0x45, 0]);
            frame.extend(length.to_be_bytes());
            frame.extend([0, 0, 0x40, 0, 64, 17, 0, 0]);
            frame.extend(partner::IP);
            frame.extend(GUEST_IP);
            frame.extend((PORT + flow).to_be_bytes());
            frame.extend((PORT + flow).to_be_bytes());
            frame.extend(length.saturating_sub(20).to_be_bytes());
            frame.extend([0xff, 0xff]);
        }
        frame.resize((self.size as usize).max(frame.len()), 0);
        toe::transmit(&mut frame, toe::csr::ALL);
        frame.into()
    }
}

impl Model {
    /// Whether the guest finds a control page.
    pub fn has_control(&self) -> bool {
        self.settings.control
    }

    /// A read of the control page.
    pub fn control_read(&mut self, offset: u64) -> u32 {
        match offset {
            0x00 => ID,
            0x20 => self.control.left,
            _ => self
                .control
                .shape
                .register(offset)
                .map_or(0, |value| *value),
        }
    }

    /// A write of the control page, after the guest has executed so many instructions. True if it
    /// was a mark.
    pub fn control_write(
        &mut self,
        h: &mut dyn Host,
        offset: u64,
        value: u32,
        executed: u64,
    ) -> bool {
        match offset {
            0x20 => self.start_stream(h, value),
            0x24 => {
                let line = json!({
                    "mark": value,
                    "executed": executed,
                    "now": h.now(),
                    "left": self.control.left,
                    "counters": self.counters.json(&self.regs),
                });
                h.log(&line.to_string());
                return true;
            }
            _ => {
                if let Some(register) = self.control.shape.register(offset) {
                    *register = value;
                }
            }
        }
        false
    }

    fn start_stream(&mut self, h: &mut dyn Host, delay: u32) {
        let mac = self.mac_address();
        let control = &mut self.control;
        let shape = &control.shape;
        control.frames = (0..shape.flows.clamp(1, 1024) as u16)
            .map(|flow| shape.frame(mac, flow))
            .collect();
        control.sent = 0;
        control.left = shape.count;
        control.due = h.now() + u64::from(delay);
        control.burst_began = control.due;
        self.settle(h);
    }

    /// A frame has left at time `t`: whoever the guest talks to may answer.
    pub(crate) fn partner_hears(&mut self, t: u64, frame: &[u8]) {
        if !self.settings.control {
            return;
        }
        for answer in self.control.partner.hear(frame) {
            self.enqueue_arrival(t, t + partner::LATENCY, Arrival::of(answer.into()));
        }
    }

    /// When the stream has its next frame to send.
    pub(crate) fn stream_deadline(&self) -> u64 {
        match self.control.left {
            0 => u64::MAX,
            _ => self.control.due,
        }
    }

    /// Sends what is due at time `t`.
    pub(crate) fn run_stream(&mut self, h: &mut dyn Host, t: u64) {
        if self.control.left == 0 || self.control.due > t {
            return;
        }
        let control = &self.control;
        let frame = control.frames[control.sent as usize % control.frames.len()].clone();
        if control.shape.hold != 0 && !self.has_room(h, frame.len()) {
            self.control.due = t + RETRY_NS;
            return;
        }
        let arrival = Arrival {
            unfiltered: true,
            ..Arrival::of(frame)
        };
        self.enqueue_arrival(t, t, arrival);
        let end = self.wire_end();
        let control = &mut self.control;
        control.sent += 1;
        control.left -= 1;
        control.due = end;
        if control.sent % control.shape.burst.max(1) == 0 {
            control.burst_began += u64::from(control.shape.gap);
            control.due = end.max(control.burst_began);
        }
    }
}
