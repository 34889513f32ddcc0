// SPDX-License-Identifier: GPL-2.0
//! What goes into a TCP socket comes out at the peer, and nothing is sent twice.

use crate::check::Bench;
use crate::net::{GATEWAY, IFACE};
use anyhow::{ensure, Context, Result};
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
            let text = bench.vm.ok_within(
                &format!(
                    "nstat -n; /lab/stream {GATEWAY} {port} {way} || exit 1
                     nstat -sz TcpRetransSegs | tail -n 1"
                ),
                60,
            )?;
            let (length, crc) = peer.join().expect("the peer does not panic")?;
            let words: Vec<&str> = text.split_whitespace().collect();
            let [sent, sum, "TcpRetransSegs", again, _] = words[..] else {
                anyhow::bail!("{way}: {text:?}");
            };
            ensure!(
                sent == length.to_string() && sum == format!("{crc:08x}"),
                "{way}, segmentation {segmentation}: {sent} bytes with CRC {sum} went in, {length} \
                 with {crc:08x} came out"
            );
            let again: u64 = again.parse().context("nstat prints a number")?;
            ensure!(
                again == 0,
                "{way}, segmentation {segmentation}: {again} segments were sent again"
            );
        }
    }
    Ok(())
}
