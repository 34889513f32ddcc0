// SPDX-License-Identifier: GPL-2.0
//! Checksums of received frames: whatever the headers, the payload arrives byte by byte and the
//! verdict is right.

use super::{capacity, filled, heard, listen, queue_statistic, wait_until_empty, Deferral};
use crate::check::Bench;
use crate::net::IFACE;
use crate::wire::LAB_MAC;
use anyhow::{bail, ensure, Context, Result};
use ravb_frames::{crc32, pairwise, Addresses, Damage, Kind, Network, Tags, Transport};
use std::collections::BTreeMap;
use std::time::Duration;

/// Text of the frame that ends a capture; `tests/guest` knows it.
const LAST_FRAME: &[u8] = b"last frame of a capture";

/// How near to the end of a descriptor a frame shall end, in bytes.
const NEAR: usize = 6;

/// A frame of some kind and size.
type Choice = (Kind, usize);

/// What there is of a device's receiver that tests depend on.
struct Receiver {
    /// How much a descriptor takes.
    capacity: usize,
    /// The longest frame that is tried.
    longest: usize,
    /// How long the trailer is.
    trailer: usize,
    /// What a verdict is counted as where there is one.
    verified: &'static str,
}

impl Receiver {
    fn of(bench: &mut Bench<'_>) -> Result<Receiver> {
        let gbeth = bench.vm.property("variant")? == "gbeth";
        Ok(Receiver {
            capacity: capacity(bench)?,
            longest: if gbeth { 8100 } else { 2044 },
            trailer: if gbeth { 4 } else { 2 },
            verified: if gbeth {
                "rx-csum-unnecessary"
            } else {
                "rx-csum-complete"
            },
        })
    }

    /// Whether the device judges frames, instead of summing them up.
    fn judges(&self) -> bool {
        self.verified == "rx-csum-unnecessary"
    }

    /// The shortest frames, the longest of usual networks, and those that end, with or without
    /// their trailer, where a descriptor ends.
    fn sizes(&self) -> Vec<usize> {
        let near = |size: usize| {
            let rest = (size + NEAR) % self.capacity;
            size >= self.capacity - NEAR && rest <= 2 * NEAR
        };
        let wanted = |size: usize| {
            matches!(size, 60..=72 | 1500..=1522) || near(size) || near(size + self.trailer)
        };
        (60..=self.longest).filter(|&size| wanted(size)).collect()
    }
}

/// The frames that the tests of verdicts choose from. What is wrong with the header of IPv4 is
/// nobody's business but the stack's, and tested on the host.
fn kinds() -> Vec<Kind> {
    let mut kinds = Kind::all();
    kinds.retain(|kind| kind.damage != Damage::Header);
    kinds
}

/// Every kind in every size that has room for it.
fn product(kinds: &[Kind], sizes: &[usize]) -> Vec<Choice> {
    let all = kinds
        .iter()
        .flat_map(|kind| sizes.iter().map(|size| (*kind, *size)));
    all.filter(|(kind, size)| *size >= kind.min_len()).collect()
}

/// Of a product, so many that every two values of different factors meet.
fn pairwise_of(product: Vec<Choice>) -> Vec<Choice> {
    let place = |found: Option<usize>| found.unwrap_or(usize::MAX);
    let rows: Vec<Vec<usize>> = product
        .iter()
        .map(|(kind, size)| {
            vec![
                place(Network::ALL.iter().position(|x| *x == kind.network)),
                place(Transport::ALL.iter().position(|x| *x == kind.transport)),
                place(Tags::ALL.iter().position(|x| *x == kind.tags)),
                place(Damage::ALL.iter().position(|x| *x == kind.damage)),
                usize::from(kind.padded),
                *size,
            ]
        })
        .collect();
    pairwise(&rows)
        .into_iter()
        .map(|row| product[row])
        .collect()
}

/// Frames for nobody above the device: only a listener on the interface sees them.
fn for_nobody(bench: &mut Bench<'_>) -> Result<Addresses> {
    Ok(Addresses {
        mac: [bench.mac()?, LAB_MAC],
        ..Addresses::NOBODY
    })
}

/// Sends frames no faster than the driver takes them, and a last one.
fn send(bench: &mut Bench<'_>, frames: &[Vec<u8>], last: &[u8]) -> Result<()> {
    /// Much less than a ring holds.
    const BATCH: usize = 64;
    for batch in frames.chunks(BATCH) {
        for frame in batch {
            bench.wire()?.send(frame)?;
        }
        wait_until_empty(bench, "rx0")?;
    }
    bench.wire()?.send(last)
}

/// A frame that ends a capture.
fn last_frame(addresses: &Addresses) -> Vec<u8> {
    let mut last = addresses.mac.concat();
    last.extend([0x88, 0xb5]);
    last.extend(LAST_FRAME);
    last.resize(60, 0);
    last
}

/// Frames arrive byte by byte, each with the right verdict, and are counted by it.
///
/// Not by way of GRO, which checks what the device did not, and notes that it is right then.
fn judged(bench: &mut Bench<'_>, choices: &[Choice]) -> Result<()> {
    without_gro(bench, |bench| all_judged(bench, choices))
}

/// Does something while GRO is off.
fn without_gro(
    bench: &mut Bench<'_>,
    action: impl FnOnce(&mut Bench<'_>) -> Result<()>,
) -> Result<()> {
    bench.vm.ok(&format!("ethtool -K {IFACE} gro off"))?;
    let result = action(bench);
    bench.vm.ok(&format!("ethtool -K {IFACE} gro on"))?;
    result
}

fn all_judged(bench: &mut Bench<'_>, choices: &[Choice]) -> Result<()> {
    /// The guest's listener keeps its findings in memory until the end.
    const AT_ONCE: usize = 4000;
    let receiver = Receiver::of(bench)?;
    let addresses = for_nobody(bench)?;
    let source: String = LAB_MAC.iter().map(|byte| format!("{byte:02x}")).collect();
    for choices in choices.chunks(AT_ONCE) {
        let counts = ["rx-csum-none", receiver.verified];
        let mut before = Vec::new();
        for name in counts {
            before.push(queue_statistic(bench, 0, name)?);
        }
        listen(bench, &format!("/lab/sniff {IFACE} {source}"), "/tmp/sniff")?;
        let mut frames = Vec::new();
        let mut expected = BTreeMap::new();
        let mut good = 0;
        for (seed, (kind, size)) in choices.iter().enumerate() {
            let frame = kind.frame(&addresses, *size, seed as u32);
            // A sum leaves no trace in a frame that a listener sees before anybody has used it.
            let verified = receiver.judges() && kind.is_verified();
            let verdict = if verified { "verified" } else { "none" };
            good += u64::from(verified || !receiver.judges());
            let line = format!("{} {:08x} {verdict}", frame.len(), crc32(&frame));
            expected.insert(line, (*kind, *size));
            frames.push(frame);
        }
        ensure!(expected.len() == frames.len(), "two frames are alike");
        send(bench, &frames, &last_frame(&addresses))?;
        compare(&mut expected, heard(bench, "/tmp/sniff")?)?;

        // The last frame is one that no engine can judge.
        let total = frames.len() as u64 + 1;
        let good = good + u64::from(!receiver.judges());
        for (name, (old, wanted)) in counts.iter().zip(before.iter().zip([total - good, good])) {
            let rise = queue_statistic(bench, 0, name)? - old;
            ensure!(
                rise == wanted,
                "{name} rose by {rise} over {total} frames, not by {wanted}"
            );
        }
    }
    Ok(())
}

/// Every line is expected, and nothing that is expected is missing.
fn compare(expected: &mut BTreeMap<String, Choice>, got: Vec<String>) -> Result<()> {
    let mut strange = Vec::new();
    for line in got {
        if expected.remove(&line).is_none() {
            strange.push(line);
        }
    }
    if let Some((line, (kind, size))) = expected.iter().next() {
        bail!(
            "{} frames did not arrive as they should, the first {kind:?} of {size} bytes, as \
             {line:?}; {} that were not expected, such as {:?}",
            expected.len(),
            strange.len(),
            strange.first()
        );
    }
    ensure!(
        strange.is_empty(),
        "frames that nobody sent: {:?}",
        strange.first()
    );
    Ok(())
}

/// Frames around `limit`, stored with their trailer, arrive as they should.
pub(super) fn near(bench: &mut Bench<'_>, limit: usize) -> Result<()> {
    let trailer = Receiver::of(bench)?.trailer;
    let sizes = limit - trailer - NEAR..=limit + NEAR;
    let chosen = pairwise_of(product(&kinds(), &sizes.collect::<Vec<_>>()));
    judged(bench, &chosen)
}

/// Enough frames that every two properties of a frame meet in one.
pub(super) fn pairs(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let sizes = Receiver::of(bench)?.sizes();
    let chosen = pairwise_of(product(&kinds(), &sizes));
    judged(bench, &chosen)
}

/// Every kind of frame in every interesting size.
pub(super) fn all(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let sizes = Receiver::of(bench)?.sizes();
    judged(bench, &product(&kinds(), &sizes))
}

/// A port that nothing else uses.
pub(super) const PORT: u16 = 7777;

/// Frames for the guest itself.
pub(super) fn for_the_guest(bench: &mut Bench<'_>) -> Result<Addresses> {
    let mut ip6 = [[0; 16]; 2];
    for (address, last) in ip6.iter_mut().zip([0x15, 2]) {
        (address[0], address[15]) = (0xfd, last);
    }
    Ok(Addresses {
        mac: [bench.mac()?, LAB_MAC],
        ip4: [[10, 0, 2, 15], [10, 0, 2, 2]],
        ip6,
        port: [PORT, 4660],
    })
}

/// Interfaces for all tags that frames have, and an IPv6 address.
const VLANS: &str = "
    modprobe 8021q
    ip link add link eth0 name tag type vlan id 5 && ip link set tag up
    ip link add link tag name inner type vlan id 6 && ip link set inner up
    ip link add link eth0 name service type vlan proto 802.1ad id 5 && ip link set service up
    ip -6 addr replace fd00::15/64 dev eth0 nodad
    ip -6 neigh replace fd00::2 lladdr 02:00:00:00:00:fe dev eth0";

/// How often the stack has found a checksum wrong, in all protocols.
fn checksum_errors(bench: &mut Bench<'_>) -> Result<u64> {
    let text = bench.vm.ok("awk '/^(Tcp|Udp|Icmp):/ {
             if ($1 in column) print $column[$1]
             else for (i = 2; i <= NF; i++) if ($i == \"InCsumErrors\") column[$1] = i
         }' /proc/net/snmp
         awk '$1 ~ /^(Udp6|Icmp6)InCsumErrors$/ { print $2 }' /proc/net/snmp6")?;
    let counts: Vec<u64> = text.lines().filter_map(|line| line.parse().ok()).collect();
    ensure!(
        counts.len() == 5,
        "{text:?} are not the counts of five protocols"
    );
    Ok(counts.iter().sum())
}

/// The network stack, which uses what the driver says, delivers every datagram whose checksum is
/// right, and none whose checksum is wrong.
pub(super) fn stack(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    bench.vm.ok(VLANS)?;
    let addresses = for_the_guest(bench)?;
    let chosen = product(&kinds(), &[72, 100, 101, 1514]);

    let wrong = checksum_errors(bench)?;
    listen(bench, &format!("/lab/collect {PORT}"), "/tmp/collect")?;
    let mut frames = Vec::new();
    let mut expected = BTreeMap::new();
    let mut bad = 0;
    for (seed, (kind, size)) in chosen.iter().enumerate() {
        let frame = kind.frame(&addresses, *size, seed as u32);
        if kind.network != Network::Other {
            bad += u64::from(kind.is_wrong());
            let udp = matches!(kind.transport, Transport::Udp | Transport::UdpWithoutSum);
            // Who sends no checksum does not care about its data.
            if udp && !kind.is_wrong() {
                let payload = kind.payload(&frame);
                let line = format!("{} {:08x}", payload.len(), crc32(payload));
                expected.insert(line, (*kind, *size));
            }
        }
        frames.push(frame);
    }
    ensure!(
        expected.len() > 100 && bad > 100,
        "{} good, {bad} bad: too few",
        expected.len()
    );
    send(bench, &frames, &last_datagram(&addresses))?;
    let mut got = heard(bench, "/tmp/collect")?;
    got.pop();
    compare(&mut expected, got)?;
    let found = checksum_errors(bench)? - wrong;
    ensure!(
        found == bad,
        "the stack found {found} checksums wrong, of {bad}"
    );
    bench
        .vm
        .ok("ip link del inner; ip link del tag; ip link del service")?;
    Ok(())
}

const DATAGRAM: Kind = Kind {
    network: Network::Ip4,
    transport: Transport::Udp,
    tags: Tags::None,
    damage: Damage::None,
    padded: false,
};

/// A frame of `len` bytes with a datagram for the guest.
pub(super) fn datagram(addresses: &Addresses, len: usize, seed: u32) -> Vec<u8> {
    DATAGRAM.frame(addresses, len, seed)
}

/// The same, with the text that ends a collection.
pub(super) fn last_datagram(addresses: &Addresses) -> Vec<u8> {
    let kind = Kind {
        transport: Transport::UdpWithoutSum,
        ..DATAGRAM
    };
    let mut last = kind.frame(addresses, 100, 0);
    let at = kind.headers_len();
    last[at..at + LAST_FRAME.len()].copy_from_slice(LAST_FRAME);
    last
}

/// Frames that are in the ring when the offload is switched arrive unharmed, whichever setting
/// they were received under.
///
/// Interrupts stay off for a while after each poll: what arrives then waits in the ring.
pub(super) fn toggle(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    without_gro(bench, switched)
}

fn switched(bench: &mut Bench<'_>) -> Result<()> {
    let receiver = Receiver::of(bench)?;
    let addresses = for_nobody(bench)?;
    let source: String = LAB_MAC.iter().map(|byte| format!("{byte:02x}")).collect();
    let sizes = [60, 61, 600, 1514, 1513, receiver.longest];
    let good = DATAGRAM;
    let other = Kind {
        network: Network::Other,
        ..good
    };
    for setting in ["off", "on"] {
        listen(bench, &format!("/lab/sniff {IFACE} {source}"), "/tmp/sniff")?;
        let deferral = Deferral::set(bench, 1, Duration::from_secs(4))?;
        // After this one the queue is not polled for four seconds.
        let mut expected = BTreeMap::new();
        let first = other.frame(&addresses, 60, 1000);
        bench.wire()?.send(&first)?;
        wait_until_empty(bench, "rx0")?;
        let mut frames = Vec::new();
        for (seed, &size) in sizes.iter().enumerate() {
            for kind in [good, other] {
                frames.push((kind, kind.frame(&addresses, size, seed as u32)));
            }
        }
        for (_, frame) in &frames {
            bench.wire()?.send(frame)?;
        }
        std::thread::sleep(Duration::from_millis(100));
        let waiting = filled(bench, "rx0")?;
        ensure!(
            waiting >= frames.len(),
            "only {waiting} frames wait in the ring"
        );
        bench.vm.ok(&format!("ethtool -K {IFACE} rx {setting}"))?;
        ensure!(
            filled(bench, "rx0")? >= frames.len(),
            "they were taken before the switch"
        );
        wait_until_empty(bench, "rx0")?;
        deferral.undo(bench)?;
        bench.wire()?.send(&last_frame(&addresses))?;

        for (kind, frame) in frames.iter().chain([&(other, first)]) {
            let verified = setting == "on" && receiver.judges() && kind.is_verified();
            let verdict = if verified { "verified" } else { "none" };
            let line = format!("{} {:08x} {verdict}", frame.len(), crc32(frame));
            expected.insert(line, (*kind, frame.len()));
        }
        compare(&mut expected, heard(bench, "/tmp/sniff")?)
            .with_context(|| format!("switched {setting}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod unit {
    use super::*;

    const RECEIVER: Receiver = Receiver {
        capacity: 1664,
        longest: 8100,
        trailer: 4,
        verified: "rx-csum-unnecessary",
    };

    #[test]
    fn sizes_are_those_of_interest() {
        let sizes = RECEIVER.sizes();
        for size in [60, 72, 1500, 1522, 1654, 1664, 1670, 3322, 4998, 6662] {
            assert!(sizes.contains(&size), "{size}");
        }
        for size in [59, 73, 1499, 1523, 1653, 1671, 6663, 8100] {
            assert!(!sizes.contains(&size), "{size}");
        }
    }

    #[test]
    fn pairs_are_far_fewer_than_the_product() {
        let product = product(&kinds(), &RECEIVER.sizes());
        let chosen = pairwise_of(product.clone());
        assert!(
            product.len() > 20_000 && chosen.len() < 1000,
            "{}",
            chosen.len()
        );
    }

    #[test]
    fn differences_are_told() {
        let kind = kinds()[0];
        let expected = || BTreeMap::from([("60 00000000 none".to_string(), (kind, 60))]);
        assert!(compare(&mut expected(), vec!["60 00000000 none".into()]).is_ok());
        assert!(compare(&mut expected(), vec!["60 00000000 verified".into()]).is_err());
        assert!(compare(&mut expected(), vec![]).is_err());
        let twice = vec!["60 00000000 none".into(); 2];
        assert!(compare(&mut expected(), twice).is_err());
    }
}
