// SPDX-License-Identifier: GPL-2.0
//! The ring, whatever is received: what is wrong is counted once and where it belongs, and every
//! slot is armed again, with a buffer of its own.

use super::{checksum, filled, ring, statistics, wait_until_empty, Deferral};
use crate::check::Bench;
use crate::net::IFACE;
use crate::tests::badinput::inject;
use crate::tests::functional::EXPERIMENT;
use anyhow::{ensure, Context, Result};
use serde_json::{json, Value};
use std::collections::BTreeSet;
use std::time::Duration;

/// Counters of the interface that an error may raise. Not those of dropped packets: the core counts
/// what no protocol wants as such.
const COUNTERS: &[&str] = &[
    "rx_packets",
    "rx_errors",
    "rx_crc_errors",
    "rx_frame_errors",
    "rx_length_errors",
    "rx_over_errors",
    "rx_fifo_errors",
    "rx_missed_errors",
];

/// The same of the first queue, as `ethtool -S` shows them.
const QUEUE_COUNTERS: &[&str] = &[
    "rx_queue_0_packets",
    "rx_queue_0_errors",
    "rx_queue_0_crc_errors",
    "rx_queue_0_frame_errors",
    "rx_queue_0_length_errors",
    "rx_queue_0_over_errors",
    "rx_queue_0_dropped",
];

/// Every slot is the device's, and no two have the same buffer.
pub(super) fn intact(bench: &mut Bench<'_>, queue: &str, size: usize) -> Result<()> {
    wait_until_empty(bench, queue)?;
    let slots = ring(bench, queue)?;
    ensure!(
        slots.len() == size,
        "the ring has {} slots, not {size}",
        slots.len()
    );
    let mut buffers: Vec<_> = slots.iter().map(|slot| (slot.pointer, slot.size)).collect();
    buffers.sort_unstable();
    for pair in buffers.windows(2) {
        let end = pair[0].0 + pair[0].1;
        ensure!(
            end <= pair[1].0,
            "two slots share the memory at {:#x}",
            pair[1].0
        );
    }
    let sizes: BTreeSet<u64> = buffers.iter().map(|buffer| buffer.1).collect();
    ensure!(sizes.len() == 1, "slots have room for {sizes:?} bytes");
    Ok(())
}

/// A frame counts with its Ethernet header, and without what the device appends, in one part or in
/// several.
pub(super) fn bytes(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let gbeth = bench.vm.property("variant")? == "gbeth";
    let lengths: &[u64] = if gbeth {
        &[60, 1514, 7000]
    } else {
        &[60, 1514]
    };
    for &len in lengths {
        let of_queue = "rx_queue_0_bytes";
        let before = statistics(bench, &["rx_bytes"], &[of_queue])?;
        inject(bench, json!({ "len": len, "type": EXPERIMENT }))?;
        wait_until_empty(bench, "rx0")?;
        // The poll counts when it has passed all up.
        bench.vm.ok("sleep 0.1")?;
        let after = statistics(bench, &["rx_bytes"], &[of_queue])?;
        for name in ["rx_bytes", of_queue] {
            let rise = after[name] - before[name];
            ensure!(rise == len, "{name} rose by {rise} over a frame of {len}");
        }
    }
    Ok(())
}

/// Frames up to the limit of `rx-copybreak` are copied, right to the byte, and their buffers stay
/// in their slots; longer ones are not.
pub(super) fn copied(bench: &mut Bench<'_>) -> Result<()> {
    const LIMIT: usize = 256;
    const COUNT: usize = 32;
    bench.up()?;
    let set = |bench: &mut Bench<'_>, limit| {
        let command = format!("ethtool --set-tunable {IFACE} rx-copybreak {limit}");
        bench.vm.ok(&command).map(drop)
    };
    // How many slots have another buffer after frames of this length.
    let moved = |bench: &mut Bench<'_>, len: usize| -> Result<usize> {
        let size = ring(bench, "rx0")?.len();
        let before = ring(bench, "rx0")?;
        inject(
            bench,
            json!({ "len": len, "type": EXPERIMENT, "count": COUNT }),
        )?;
        intact(bench, "rx0", size)?;
        let after = ring(bench, "rx0")?;
        let pairs = before.iter().zip(&after);
        Ok(pairs.filter(|(a, b)| a.pointer != b.pointer).count())
    };
    let expect = |bench: &mut Bench<'_>, limit: usize, len: usize, copies: bool| -> Result<()> {
        let moved = moved(bench, len)?;
        // Buffers that were passed up may come back to their old slots.
        ensure!(
            if copies { moved == 0 } else { moved > COUNT / 4 },
            "with a limit of {limit}, {moved} of {COUNT} slots have another buffer after frames of \
             {len} bytes"
        );
        Ok(())
    };

    set(bench, LIMIT)?;
    for (len, copies) in [(60, true), (LIMIT - 4, true), (LIMIT, false), (1000, false)] {
        expect(bench, LIMIT, len, copies)?;
    }
    let judged = checksum::near(bench, LIMIT);
    set(bench, 0)?;
    judged?;
    expect(bench, 0, 60, false)
}

/// A way for a frame to be bad.
struct Fault {
    /// What is injected.
    frame: Value,
    /// The counter, without the beginning of its name.
    counter: &'static str,
    /// The MAC counts it by itself, where it has counters.
    by_mac: bool,
    /// How many such frames follow each other.
    count: u64,
}

fn faults(several_parts: bool) -> Vec<Fault> {
    let mut table = vec![
        (json!({ "len": 200, "bad_fcs": true }), "crc_errors", true),
        (json!({ "len": 1500, "msc": 0x02 }), "frame_errors", true),
        (json!({ "len": 40 }), "length_errors", true),
        (json!({ "len": 9000 }), "length_errors", true),
        (json!({ "len": 100, "msc": 0x10 }), "frame_errors", true),
        (json!({ "len": 100, "msc": 0x40 }), "frame_errors", false),
        (
            json!({ "len": 1514, "truncated": true }),
            "length_errors",
            false,
        ),
        // No data at all, less than a trailer, and less than an Ethernet header.
        (json!({ "len": 100, "stored": 0 }), "length_errors", false),
        (json!({ "len": 100, "stored": 1 }), "length_errors", false),
        (json!({ "len": 100, "stored": 15 }), "length_errors", false),
    ];
    if several_parts {
        // Only the last part says that something is wrong.
        table.push((json!({ "len": 5000, "bad_fcs": true }), "crc_errors", true));
        table.push((
            json!({ "len": 7000, "truncated": true }),
            "length_errors",
            false,
        ));
    }
    let fault = |(frame, counter, by_mac): (Value, _, _)| Fault {
        // A series of descriptors without data could be one frame, and is taken for one.
        count: if frame["stored"] == 0 { 1 } else { 10 },
        frame,
        counter,
        by_mac,
    };
    table.into_iter().map(fault).collect()
}

/// Each fault is counted once per frame, in its counter and in that of all errors, of the
/// interface and, unless the MAC has counted it, of the queue; and in no other. The slots of the
/// bad frames are armed again, and what is received next is none the worse for it.
pub(super) fn errors(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let gbeth = bench.vm.property("variant")? == "gbeth";
    bench.vm.set_property("deliver-errors", "on")?;
    let result = faults(gbeth)
        .into_iter()
        .try_for_each(|fault| counted(bench, &fault, gbeth).context(fault.frame.to_string()));
    bench.vm.set_property("deliver-errors", "off")?;
    result
}

fn counted(bench: &mut Bench<'_>, fault: &Fault, mac_counts: bool) -> Result<()> {
    let count = fault.count;
    let size = ring(bench, "rx0")?.len();
    let mut frame = fault.frame.clone();
    frame["count"] = json!(count);
    let before = statistics(bench, COUNTERS, QUEUE_COUNTERS)?;
    inject(bench, frame)?;
    inject(bench, json!({ "len": 100, "type": EXPERIMENT }))?;
    intact(bench, "rx0", size)?;
    let after = statistics(bench, COUNTERS, QUEUE_COUNTERS)?;
    for (name, old) in &before {
        let of_queue = name.strip_prefix("rx_queue_0_");
        let short = of_queue
            .or_else(|| name.strip_prefix("rx_"))
            .unwrap_or(name);
        let silent = of_queue.is_some() && fault.by_mac && mac_counts;
        let expected = match short {
            "packets" => 1,
            "errors" if !silent => count,
            _ if short == fault.counter && !silent => count,
            _ => 0,
        };
        let rise = after[name] - old;
        ensure!(
            rise == expected,
            "{name} rose by {rise} over {count} bad frames and a good one, not by {expected}"
        );
    }
    Ok(())
}

/// More frames than the ring has slots while nobody polls: as many as fit are received, without
/// another frame to remind the driver of them; the loss of the others is counted as such.
pub(super) fn full(bench: &mut Bench<'_>) -> Result<()> {
    const MORE: u64 = 50;
    bench.up()?;
    let size = ring(bench, "rx0")?.len() as u64;
    let frame = |count| json!({ "len": 60, "type": EXPERIMENT, "count": count });
    let lost = lost(bench, "ring")?;
    let before = statistics(bench, COUNTERS, &[])?;
    let deferral = Deferral::set(bench, 1, Duration::from_secs(3))?;
    inject(bench, frame(1))?;
    wait_until_empty(bench, "rx0")?;
    inject(bench, frame(size + MORE))?;
    std::thread::sleep(Duration::from_millis(200));
    let waiting = filled(bench, "rx0")? as u64;
    ensure!(waiting == size, "{waiting} of {size} slots are filled");
    intact(bench, "rx0", size as usize)?;
    deferral.undo(bench)?;
    let lost = self::lost(bench, "ring")? - lost;
    ensure!(lost == MORE, "{lost} frames found no slot, not {MORE}");
    let after = statistics(bench, COUNTERS, &[])?;
    let rise = |name: &str| after[name] - before[name];
    ensure!(
        rise("rx_packets") == size + 1,
        "{} of {} received",
        rise("rx_packets"),
        size + 1
    );
    only_counted(&rise, "rx_over_errors", lost)
}

/// More than the FIFO holds while the device may not store anything.
pub(super) fn fifo(bench: &mut Bench<'_>) -> Result<()> {
    const COUNT: u64 = 100;
    bench.up()?;
    let size = ring(bench, "rx0")?.len();
    let lost = lost(bench, "fifo")?;
    let before = statistics(bench, COUNTERS, &[])?;
    bench.vm.set_property("rx-hold", "on")?;
    let burst = json!({ "len": 1500, "type": EXPERIMENT, "count": COUNT });
    let held = inject(bench, burst);
    std::thread::sleep(Duration::from_millis(100));
    bench.vm.set_property("rx-hold", "off")?;
    held?;
    intact(bench, "rx0", size)?;
    let lost = self::lost(bench, "fifo")? - lost;
    let after = statistics(bench, COUNTERS, &[])?;
    let rise = |name: &str| after[name] - before[name];
    ensure!(lost > 0, "nothing was lost: the test tests nothing");
    ensure!(
        rise("rx_packets") == COUNT - lost,
        "{} received, {lost} of {COUNT} lost",
        rise("rx_packets")
    );
    only_counted(&rise, "rx_fifo_errors", lost)
}

/// A loss is counted in its counter, as often as the device tells of it, and in no other.
fn only_counted(rise: &impl Fn(&str) -> u64, counter: &str, lost: u64) -> Result<()> {
    ensure!(
        (1..=lost).contains(&rise(counter)),
        "{lost} frames were lost, {counter} rose by {}",
        rise(counter)
    );
    for name in COUNTERS {
        let other = *name != counter && *name != "rx_packets";
        ensure!(!other || rise(name) == 0, "{name} rose by {}", rise(name));
    }
    Ok(())
}

/// Received frames the device had to drop for a reason.
fn lost(bench: &mut Bench<'_>, reason: &str) -> Result<u64> {
    bench.vm.property("counters")?["rx_drops"][reason]
        .as_u64()
        .with_context(|| format!("the device does not count drops by {reason}"))
}

/// A frame that ends where the ring ends is one frame, or none: in each way the device may report
/// that, and for every number of free slots.
pub(super) fn cut_off(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    for open in ["off", "on"] {
        bench.vm.set_property("rx-ring-end-open", open)?;
        let result = (0..=PARTS).try_for_each(|free| cut_off_after(bench, free));
        bench.vm.set_property("rx-ring-end-open", "off")?;
        result.with_context(|| format!("rx-ring-end-open={open}"))?;
    }
    Ok(())
}

/// A frame of this length takes so many slots.
const LEN: u64 = 5000;
const PARTS: u64 = 4;

fn cut_off_after(bench: &mut Bench<'_>, free: u64) -> Result<()> {
    let size = ring(bench, "rx0")?.len() as u64;
    let before = statistics(bench, COUNTERS, &[])?;
    let deferral = Deferral::set(bench, 1, Duration::from_secs(1))?;
    let short = |count| json!({ "len": 60, "type": EXPERIMENT, "count": count });
    let long = json!({ "len": LEN, "type": EXPERIMENT });
    inject(bench, short(1))?;
    wait_until_empty(bench, "rx0")?;
    inject(bench, short(size - free))?;
    inject(bench, long.clone())?;
    intact(bench, "rx0", size as usize)?;
    deferral.undo(bench)?;
    inject(bench, long)?;
    intact(bench, "rx0", size as usize)?;
    let after = statistics(bench, COUNTERS, &[])?;
    let rise = |name: &str| after[name] - before[name];
    let expected = 1 + size - free + u64::from(free == PARTS) + 1;
    ensure!(
        rise("rx_packets") == expected,
        "{free} slots were free: {} frames, not {expected}",
        rise("rx_packets")
    );
    // A frame of which something was stored is an error; one that found no slot is none.
    let errors = u64::from(free != 0 && free != PARTS);
    ensure!(
        rise("rx_length_errors") == errors && rise("rx_errors") == errors,
        "{free} slots were free: {} errors, {} of length, not {errors}",
        rise("rx_errors"),
        rise("rx_length_errors")
    );
    Ok(())
}
