// SPDX-License-Identifier: GPL-2.0
//! What goes into a TCP socket comes out at the peer.

use crate::check::Bench;
use crate::net::{GATEWAY, IFACE};
use anyhow::{ensure, Result};
use std::io::Read;
use std::net::TcpListener;
use std::thread;

/// Reads all that the next client sends; returns how much it was, and its CRC-32.
fn take(listener: &TcpListener) -> Result<(usize, u32)> {
    let (mut client, _) = listener.accept()?;
    let mut bytes = Vec::new();
    client.read_to_end(&mut bytes)?;
    Ok((bytes.len(), ravb_frames::crc32(&bytes)))
}

/// Data written in pieces of any size, sent from a file, and read by the device from the memory of
/// the program, without and with segmentation by the driver.
pub(super) fn whole(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    for segmentation in ["off", "on"] {
        bench.vm.ok(&format!(
            "ethtool -K {IFACE} tso {segmentation} tx-udp-segmentation {segmentation} || true"
        ))?;
        for way in ["write", "file", "zerocopy"] {
            let listener = listener.try_clone()?;
            let peer = thread::spawn(move || take(&listener));
            let script = format!("/lab/stream {GATEWAY} {port} {way}");
            let text = bench.vm.ok_within(&script, 60)?;
            let (length, crc) = peer.join().expect("the peer does not panic")?;
            let received = format!("{length} {crc:08x}");
            ensure!(
                text.trim() == received,
                "{way}, segmentation {segmentation}: {text} went in, {received} came out"
            );
        }
    }
    Ok(())
}
