// SPDX-License-Identifier: GPL-2.0
//! What descriptors say: to the device that reads them, and to the driver.

use ravb_model::emac::msc;
use ravb_model::testing::Machine;

use crate::machine::{put, rx, rx_buffer, with, FEMPTY, RING, SETTLE};
use crate::ravb_desc::{empty, RxError, RxWord};
use crate::ravb_frame::{Action, State, VERDICTS_LEN};
use crate::specification::{check_word, expected_error};
use crate::words;

/// Where the payload of frames begins.
const HEADER: usize = 14;

/// The receive side of a driver, on the ring of [`crate::machine`].
struct Driver {
    machine: Machine,
    /// What a descriptor has room for, in bytes.
    room: u16,
    slot: u64,
    state: State,
    partial: Vec<u8>,
}

/// What a driver has to say of frames that it found.
#[derive(PartialEq, Eq, Debug, Default)]
struct Found {
    /// With their trailers, and whether they were sent to a group.
    delivered: Vec<(Vec<u8>, bool)>,
    lost: Vec<RxError>,
}

impl Driver {
    fn new(room: u16, status_in_all_parts: bool) -> Self {
        let mut machine = with(|m| {
            for slot in 0..RING {
                put(m, rx(slot), room, FEMPTY, rx_buffer(slot));
            }
        });
        // What other members of the family pass on by themselves.
        machine.set("deliver-errors", "on");
        if status_in_all_parts {
            machine.set("rx-status-in-all-parts", "on");
        }
        Self {
            machine,
            room,
            slot: 0,
            state: State::Idle,
            partial: Vec::new(),
        }
    }

    /// Takes what the device has stored, and gives the descriptors back.
    fn poll(&mut self) -> Found {
        let mut found = Found::default();
        loop {
            let at = rx(self.slot);
            let word = self.machine.host.at(at, 4).first_chunk().copied();
            let word = u32::from_le_bytes(word.unwrap_or_default());
            let Some(read) = RxWord::new(word) else {
                break;
            };
            check_word(word);
            assert!(
                read.size() <= self.room.into(),
                "more than there is room for"
            );
            let data = self
                .machine
                .host
                .at(rx_buffer(self.slot), read.size() as usize)
                .to_vec();
            let step = self.state.step(read.part(), read.error());
            if step.abort.is_some() {
                self.partial.clear();
            }
            found.lost.extend(step.abort.into_iter().chain(step.error));
            if step.action != Action::Drop {
                self.partial.extend(data);
            }
            if matches!(step.action, Action::Deliver | Action::Finish) {
                let frame = std::mem::take(&mut self.partial);
                found.delivered.push((frame, read.status().is_multicast()));
            }
            let given = empty(self.room.into());
            self.machine.host.store(at, &given.to_le_bytes());
            self.slot = (self.slot + 1) % RING;
        }
        found
    }

    /// A frame of the length and the status in `word` arrives whole, or is lost for the right
    /// reason.
    fn receive(&mut self, word: u32) {
        let [low, high, status, _] = word.to_le_bytes();
        let flags = u16::from_le_bytes([low, high]);
        let len = usize::from(flags & 0xfff);
        let truncated = flags & 1 << 12 != 0;
        let frame = serde_json::json!({
            "len": len, "fill": "ramp", "filter": false, "msc": status, "truncated": truncated,
        });
        self.machine.set("inject", &frame.to_string());
        self.machine.run(SETTLE);
        let found = self.poll();

        let parts = (len + VERDICTS_LEN).div_ceil(self.room.into());
        // The device says so of all that are wrong, and of one that the ring is too short for.
        let incomplete = status & msc::ERRORS != 0 || parts > RING as usize;
        if let Some(error) = expected_error(status, truncated, incomplete) {
            let lost = vec![error];
            assert_eq!(
                found,
                Found {
                    lost,
                    ..Found::default()
                },
                "{word:#010x}"
            );
            return;
        }
        assert_eq!(found.lost, [], "{word:#010x}");
        let [(frame, multicast)] = &found.delivered[..] else {
            panic!("{} frames of one, {word:#010x}", found.delivered.len());
        };
        assert_eq!(frame.len(), len + VERDICTS_LEN, "{word:#010x}");
        let payload = frame[..len].iter().skip(HEADER);
        assert!(payload.copied().eq((0..)
            .map(|n: usize| n as u8)
            .take(len.saturating_sub(HEADER))));
        assert_eq!(*multicast, status & msc::MULTICAST != 0, "{word:#010x}");
    }
}

/// First words of descriptors mean the same to the driver and the device.
///
/// The first byte is how much room the device is given, and where it puts the status. Four bytes
/// each are a word, which is read as it is; then the device is asked for a frame with that length
/// and status.
pub fn descriptors(data: &[u8]) {
    let Some((&first, rest)) = data.split_first() else {
        return;
    };
    words(rest).for_each(check_word);
    let room = 64 + 16 * u16::from(first >> 1);
    let mut driver = Driver::new(room, first & 1 != 0);
    words(rest).for_each(|word| driver.receive(word));
}
