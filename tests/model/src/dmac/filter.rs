// SPDX-License-Identifier: GPL-2.0
//! Which receive queue a frame goes to (reference section 4.5 step 4).

use crate::model::Model;
use crate::regs::{bit, reg};

/// Best effort.
const BEST_EFFORT: usize = 0;
/// Network control.
const NETWORK_CONTROL: usize = 1;
/// First queue of the stream filter.
const FIRST_STREAM: usize = 2;

/// Precision time protocol (K-drv: the C driver expects these frames in queue 1).
const PTP: u16 = 0x88f7;
/// Registration protocols (A).
const REGISTRATION: [u16; 3] = [0x22ea, 0x88f5, 0x88f6];

/// Values of SFL that load something else than a pattern (K-bsp).
const LOAD_MASK: u32 = 0x1d;
const LOAD_OFFSET: u32 = 0x1e;
const IDLE: u32 = 0x1f;

impl Model {
    /// Receive queue of a frame.
    pub(super) fn rx_queue(&self, frame: &[u8]) -> usize {
        if self.variant.rx_queues == 1 {
            return BEST_EFFORT;
        }
        let rcr = self.regs.get(reg::RCR);
        if rcr & bit::RCR_ENCF != 0 && self.is_network_control(frame) {
            return NETWORK_CONTROL;
        }
        if rcr & bit::RCR_ESF != 0 {
            if let Some(queue) = self.stream_queue(frame) {
                return queue;
            }
        }
        BEST_EFFORT
    }

    fn is_network_control(&self, frame: &[u8]) -> bool {
        let Some(ethertype) = frame.get(12..14) else {
            return false;
        };
        let ethertype = u16::from_be_bytes([ethertype[0], ethertype[1]]);
        let registration = REGISTRATION.contains(&ethertype);
        ethertype == PTP || registration && !self.settings.control_frames_ptp_only
    }

    /// Compares eight bytes of the frame with every pattern. An all-zero mask selects nothing (A:
    /// the C driver turns the filter on without ever setting it up).
    fn stream_queue(&self, frame: &[u8]) -> Option<usize> {
        let pair = |offset: u16| {
            let [hi, lo] = [0, 4].map(|i| u64::from(self.regs.get(offset + i)));
            hi << 32 | lo
        };
        let at = (self.regs.get(reg::SFO) & 0x3f) as usize;
        let mut bytes = [0; 8];
        bytes.copy_from_slice(frame.get(at..at + 8)?);
        let mask = pair(reg::SFM0);
        let value = u64::from_be_bytes(bytes) & mask;
        let streams = self.variant.rx_queues - FIRST_STREAM;
        let matches = |n: &usize| mask != 0 && pair(reg::SFP0 + 8 * *n as u16) & mask == value;
        (0..streams).find(matches).map(|n| FIRST_STREAM + n)
    }

    /// SFL: loads SFV as pattern, mask or offset at run time (K-bsp); done at once (A).
    pub(crate) fn load_stream_filter(&mut self, what: u32) {
        let value = [0, 4].map(|i| self.regs.get(reg::SFV0 + i));
        let target = match what {
            LOAD_OFFSET => {
                self.regs.set(reg::SFO, value[0] & 0x3f);
                return;
            }
            LOAD_MASK => reg::SFM0,
            n if (n as usize) < self.variant.rx_queues - FIRST_STREAM => reg::SFP0 + 8 * n as u16,
            _ => return,
        };
        self.regs.set(target, value[0]);
        self.regs.set(target + 4, value[1]);
        self.regs.set(reg::SFL, IDLE);
    }
}
