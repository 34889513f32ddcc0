// SPDX-License-Identifier: GPL-2.0
//! The other end of the cable: whole Ethernet frames (without FCS) over a datagram socket.

use anyhow::{Context, Result};
use std::io::ErrorKind;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Largest frame either side sends.
const LARGEST: usize = 64 * 1024;

/// MAC address of the lab's end.
pub(crate) const LAB_MAC: [u8; 6] = [0x02, 0x00, 0x00, 0x00, 0x00, 0xfe];

/// One end of a cable.
pub(crate) struct Wire {
    socket: UnixDatagram,
    peer: PathBuf,
}

impl Wire {
    /// Makes the lab's end at `ours`; QEMU makes the device's at `peer`.
    pub(crate) fn new(ours: &Path, peer: &Path) -> Result<Wire> {
        let socket = UnixDatagram::bind(ours).context("cannot make a socket")?;
        Ok(Wire {
            socket,
            peer: peer.to_path_buf(),
        })
    }

    /// Sends a frame to the device.
    pub(crate) fn send(&self, frame: &[u8]) -> Result<()> {
        self.socket
            .send_to(frame, &self.peer)
            .context("cannot send a frame to QEMU")?;
        Ok(())
    }

    /// The next frame from the device, if one comes within `limit`.
    pub(crate) fn receive(&self, limit: Duration) -> Result<Option<Vec<u8>>> {
        self.socket
            .set_read_timeout(Some(limit.max(Duration::from_millis(1))))?;
        let mut buffer = vec![0; LARGEST];
        match self.socket.recv(&mut buffer) {
            Ok(length) => {
                buffer.truncate(length);
                Ok(Some(buffer))
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Ok(None)
            }
            Err(error) => Err(error).context("cannot receive from QEMU"),
        }
    }

    /// The first frame from the device that `wanted` accepts within `limit`.
    pub(crate) fn expect(
        &self,
        limit: Duration,
        mut wanted: impl FnMut(&[u8]) -> bool,
    ) -> Result<Option<Vec<u8>>> {
        let end = Instant::now() + limit;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            match self.receive(left)? {
                Some(frame) if wanted(&frame) => return Ok(Some(frame)),
                Some(_) => {}
                None => break,
            }
        }
        Ok(None)
    }

    /// Throws away what has arrived.
    pub(crate) fn drain(&self) -> Result<()> {
        while self.receive(Duration::from_millis(1))?.is_some() {}
        Ok(())
    }
}

/// An Ethernet frame of `length` bytes with a payload that is different at every place.
pub(crate) fn frame(to: [u8; 6], ether_type: u16, length: usize, seed: u8) -> Vec<u8> {
    let mut frame = Vec::with_capacity(length);
    frame.extend_from_slice(&to);
    frame.extend_from_slice(&LAB_MAC);
    frame.extend_from_slice(&ether_type.to_be_bytes());
    let mut state = u32::from(seed) | 0x100;
    while frame.len() < length {
        // A linear congruential generator: no two windows of a frame look alike.
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        frame.push((state >> 24) as u8);
    }
    frame.truncate(length);
    frame
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_cross_both_ways() {
        let dir = tempfile::tempdir().unwrap();
        let (a, b) = (dir.path().join("a"), dir.path().join("b"));
        let (left, right) = (Wire::new(&a, &b).unwrap(), Wire::new(&b, &a).unwrap());
        let sent = frame([1, 2, 3, 4, 5, 6], 0x88b5, 8000, 3);
        assert_eq!(sent.len(), 8000);
        left.send(&frame([0xff; 6], 0x0806, 60, 0)).unwrap();
        left.send(&sent).unwrap();
        let got = right
            .expect(Duration::from_secs(1), |frame| {
                frame[12..14] == [0x88, 0xb5]
            })
            .unwrap()
            .unwrap();
        assert_eq!(got, sent);
        assert_eq!(left.receive(Duration::from_millis(1)).unwrap(), None);
    }
}
