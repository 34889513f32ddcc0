// SPDX-License-Identifier: GPL-2.0
//! Reception: what arrives is what was sent, with the right verdict on its checksum; what is wrong
//! is counted once; no slot of the ring is ever lost; and what it costs.

mod checksum;
mod cost;
mod napi;
mod ring;
mod sync;
pub(super) mod trace;

use super::functional::{capture, Function, EXPERIMENT};
use super::{in_guest, Line, Run, Test};
use crate::check::Bench;
use crate::env::Driver;
use crate::net::IFACE;
use crate::steps::kernel::Flavour;
use crate::vm::{Machine, Net};
use crate::wire;
use anyhow::{ensure, Context, Result};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

pub(crate) fn tests() -> Vec<Test> {
    let mut tests = Vec::new();
    let mut add = |driver, lines| tests.extend(in_guest("rx", driver, lines));
    add(Driver::C, theirs());
    add(Driver::Rust, ours());
    tests.push(Test {
        name: "rust-rx-sync-removed-is-noticed".to_string(),
        long: true,
        run: Run::Host(sync::removed),
    });
    tests
}

fn line(name: &'static str, machine: Machine, run: Function) -> Line {
    Line {
        name,
        long: false,
        machine,
        run,
        everywhere: false,
    }
}

/// A test of `make check-all`.
fn long(name: &'static str, machine: Machine, run: Function) -> Line {
    Line {
        long: true,
        ..line(name, machine, run)
    }
}

fn frames(variant: &'static str) -> Machine {
    Machine::with(variant, Net::Frames)
}

/// The model looks at each access to a descriptor.
fn watched(variant: &'static str) -> Machine {
    Machine {
        properties: vec!["watch=on".to_string(), "eager-fetch=on".to_string()],
        ..frames(variant)
    }
}

/// The kernel that can be made to fail.
fn debug() -> Machine {
    Machine {
        kernel: Flavour::Debug,
        ..Machine::with("gbeth", Net::User)
    }
}

/// The stock kernel with pages of 16 KiB.
fn large_pages(variant: &'static str) -> Machine {
    Machine {
        kernel: Flavour::LargePages,
        ..frames(variant)
    }
}

/// The stock kernel whose interrupts are threads.
fn realtime() -> Machine {
    Machine {
        kernel: Flavour::Realtime,
        ..frames("gbeth")
    }
}

/// One processor.
fn single() -> Machine {
    Machine {
        cpus: 1,
        ..frames("gbeth")
    }
}

/// Memory that 32-bit DMA does not reach.
fn high_memory() -> Machine {
    Machine {
        memory: 6144,
        ..frames("gbeth")
    }
}

/// The stock driver: what it can do, what it costs, and which tests it fails.
fn theirs() -> Vec<Line> {
    vec![
        long("cost", watched("gbeth"), cost::descriptors),
        long("ring-full", frames("gbeth"), ring::full),
        long("deferral", frames("gbeth"), napi::deferral),
        long("length", frames("gbeth"), |bench| {
            fails(bench, length, "arrived as a frame")
        }),
        long("length-gen3", frames("gen3"), |bench| {
            fails(bench, length, "arrived as a frame")
        }),
        long("checksum-toggle", frames("gbeth"), |bench| {
            fails(bench, checksum::toggle, "did not arrive as they should")
        }),
        long("checksum-toggle-gen3", frames("gen3"), |bench| {
            fails(bench, checksum::toggle, "did not arrive as they should")
        }),
        long("cut-off", frames("gbeth"), |bench| {
            fails(bench, ring::cut_off, "slots were free")
        }),
        long("bytes", frames("gbeth"), |bench| {
            fails(bench, ring::bytes, "rx_bytes rose by")
        }),
        long("bytes-gen3", frames("gen3"), |bench| {
            fails(bench, ring::bytes, "rx_bytes rose by")
        }),
        long("flood-single", single(), napi::flood),
        long("flood-realtime", realtime(), napi::flood),
    ]
}

/// A defect of the stock driver shows: it fails the test, and in the way that is expected.
fn fails(bench: &mut Bench<'_>, test: Function, how: &str) -> Result<()> {
    let Err(error) = test(bench) else {
        anyhow::bail!("the stock driver passes: Documentation/defects.rst says otherwise");
    };
    let text = format!("{error:#}");
    ensure!(text.contains(how), "it fails for another reason: {text}");
    Ok(())
}

fn ours() -> Vec<Line> {
    vec![
        line("defaults", frames("gbeth"), napi::defaults).everywhere(),
        line("checksum", frames("gbeth"), checksum::pairs).everywhere(),
        line("checksum-stack", frames("gbeth"), checksum::stack).everywhere(),
        line("checksum-toggle", frames("gbeth"), checksum::toggle).everywhere(),
        line("length", frames("gbeth"), length).everywhere(),
        line("errors", frames("gbeth"), ring::errors).everywhere(),
        line("ring-full", frames("gbeth"), ring::full).everywhere(),
        line("fifo-full", frames("gbeth"), ring::fifo).everywhere(),
        line("bytes", frames("gbeth"), ring::bytes).everywhere(),
        line("copied", frames("gbeth"), ring::copied).everywhere(),
        long("cut-off", frames("gbeth"), ring::cut_off),
        line("cost", watched("gbeth"), cost::descriptors).everywhere(),
        line("budget", frames("gbeth"), napi::budget).everywhere(),
        line("deferral", frames("gbeth"), napi::deferral).everywhere(),
        line("busy-poll", frames("gbeth"), napi::busy_poll).everywhere(),
        line("threaded", frames("gbeth"), napi::threaded).everywhere(),
        line("pools", frames("gbeth"), napi::pools).everywhere(),
        long("outage", debug(), napi::outage),
        long("copied-bounced", sync::bounced(), ring::copied),
        line("defaults-single", single(), napi::defaults),
        long("defaults-realtime", realtime(), napi::defaults),
        long("threaded-realtime", realtime(), napi::threaded),
        line("pools-single", single(), napi::pools),
        line("flood-single", single(), napi::flood),
        long("flood-realtime", realtime(), napi::flood),
        long("checksum-bounced", sync::bounced(), checksum::pairs),
        long("checksum-high-memory", high_memory(), checksum::pairs),
        long("checksum-16k", large_pages("gbeth"), checksum::pairs),
        long("errors-16k", large_pages("gbeth"), ring::errors),
        long("cut-off-16k", large_pages("gbeth"), ring::cut_off),
        long("pools-16k", large_pages("gbeth"), napi::pools),
        long("checksum-gen3-16k", large_pages("gen3"), checksum::pairs),
        long("checksum-all", frames("gbeth"), checksum::all).everywhere(),
    ]
}

/// Frames around the length that one descriptor takes, and the longest: whatever arrives is a frame
/// that was sent, and has its length.
fn length(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let mac = bench.mac()?;
    let gbeth = bench.vm.property("variant")? == "gbeth";
    let capacity = capacity(bench)?;
    let long: Vec<usize> = if gbeth {
        (capacity - 10..capacity + 10)
            .chain([3000, 5000, 8000])
            .collect()
    } else {
        (2040..2050).collect()
    };
    let frame = |(seed, length): (usize, usize)| wire::frame(mac, EXPERIMENT, length, seed as u8);
    let frames: Vec<Vec<u8>> = long.into_iter().enumerate().map(frame).collect();
    let got = capture(bench, &frames, false)?;
    for got in &got {
        let near = frames
            .iter()
            .find(|frame| frame[..60] == got[..got.len().min(60)]);
        let sent = near.map(Vec::len);
        ensure!(
            frames.contains(got),
            "{} bytes arrived as a frame, of one of {sent:?} bytes",
            got.len()
        );
    }
    let missing = frames.len() - got.len();
    ensure!(missing == 0 || !gbeth, "{missing} frames did not arrive");
    Ok(())
}

/// A slot of a receive ring, as it is in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Slot {
    /// The device may fill it.
    empty: bool,
    /// How many bytes there are, or may be.
    size: u64,
    /// Where they are.
    pointer: u64,
}

/// Looks at a receive ring as the device does.
fn ring(bench: &mut Bench<'_>, queue: &str) -> Result<Vec<Slot>> {
    bench.vm.set_property("walk", queue)?;
    let ring = bench.vm.property("ring")?;
    let slot = |entry: &serde_json::Value| {
        Some(Slot {
            empty: entry[0].as_str()? == "Empty",
            size: entry[1].as_u64()?,
            pointer: entry[2].as_u64()?,
        })
    };
    let slots: Option<Vec<Slot>> = ring
        .as_array()
        .context("no ring")?
        .iter()
        .map(slot)
        .collect();
    slots.with_context(|| format!("{ring} is no ring"))
}

/// How many bytes a descriptor takes.
fn capacity(bench: &mut Bench<'_>) -> Result<usize> {
    let slots = ring(bench, "rx0")?;
    let slot = slots.iter().find(|slot| slot.empty);
    Ok(slot.context("the ring is full")?.size as usize)
}

/// How many slots of a ring wait for the driver.
fn filled(bench: &mut Bench<'_>, queue: &str) -> Result<usize> {
    let slots = ring(bench, queue)?;
    Ok(slots.iter().filter(|slot| !slot.empty).count())
}

/// Waits until the driver has emptied a ring.
fn wait_until_empty(bench: &mut Bench<'_>, queue: &str) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        let left = filled(bench, queue)?;
        if left == 0 {
            return Ok(());
        }
        ensure!(Instant::now() < end, "{left} slots of {queue} stay filled");
        // Looking takes the machine's time.
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What the kernel says of a queue, a device, or a page pool, by name.
struct Words(Vec<(String, u64)>);

impl Words {
    fn parse(line: &str) -> Option<Words> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let pair = |pair: &[&str]| Some((pair[0].to_string(), pair.get(1)?.parse().ok()?));
        words.chunks(2).map(pair).collect::<Option<_>>().map(Words)
    }

    fn get(&self, name: &str) -> Result<u64> {
        let found = self.0.iter().find(|(word, _)| word == name);
        found
            .map(|(_, value)| *value)
            .with_context(|| format!("nothing about {name}"))
    }
}

/// What the netlink family of network devices says; see `tests/guest/netdev`.
fn netdev(bench: &mut Bench<'_>, what: &str) -> Result<Vec<Words>> {
    let text = bench.vm.ok(&format!("/lab/netdev {what} {IFACE}"))?;
    let list: Option<Vec<Words>> = text.lines().map(Words::parse).collect();
    list.with_context(|| format!("{text:?} is not understood"))
}

/// A statistic of a receive queue.
fn queue_statistic(bench: &mut Bench<'_>, queue: u64, name: &str) -> Result<u64> {
    const RECEIVE: u64 = 0;
    for words in netdev(bench, "qstats")? {
        if words.get("queue-type")? == RECEIVE && words.get("queue-id")? == queue {
            return words.get(name);
        }
    }
    anyhow::bail!("no receive queue {queue}")
}

/// Counters of the interface, and of `ethtool -S`.
fn statistics(
    bench: &mut Bench<'_>,
    counters: &[&str],
    of_ethtool: &[&str],
) -> Result<BTreeMap<String, u64>> {
    let text = bench.vm.ok(&format!(
        "cd /sys/class/net/{IFACE}/statistics; for f in {}; do echo $f: $(cat $f); done
         ethtool -S {IFACE}",
        counters.join(" ")
    ))?;
    let all: BTreeMap<&str, u64> = text
        .lines()
        .filter_map(|line| line.trim().split_once(": "))
        .filter_map(|(name, value)| Some((name, value.parse().ok()?)))
        .collect();
    let wanted = counters.iter().chain(of_ethtool);
    let found = |name: &&str| {
        let value = all
            .get(name)
            .with_context(|| format!("no {name} in {text}"))?;
        Ok((name.to_string(), *value))
    };
    wanted.map(found).collect()
}

/// Interrupts that stay off after a poll: then what arrives waits in the ring, until the time is
/// over.
#[must_use]
struct Deferral(String);

impl Deferral {
    /// Lets the queue go without an interrupt for so long, after `count` polls without work less
    /// one.
    fn set(bench: &mut Bench<'_>, count: u32, time: Duration) -> Result<Deferral> {
        let before = bench.vm.ok(&format!(
            "cd /sys/class/net/{IFACE}; cat napi_defer_hard_irqs gro_flush_timeout
             echo {count} > napi_defer_hard_irqs; echo {} > gro_flush_timeout",
            time.as_nanos()
        ))?;
        let [defer, timeout] = before.split_whitespace().collect::<Vec<_>>()[..] else {
            anyhow::bail!("{before:?} are not two numbers");
        };
        Ok(Deferral(format!(
            "cd /sys/class/net/{IFACE}
             echo {defer} > napi_defer_hard_irqs; echo {timeout} > gro_flush_timeout"
        )))
    }

    /// As it was before.
    fn undo(self, bench: &mut Bench<'_>) -> Result<()> {
        bench.vm.ok(&self.0).map(drop)
    }
}

/// Starts a program of the guest that says when it listens, and leaves its output in `file`.
fn listen(bench: &mut Bench<'_>, command: &str, file: &str) -> Result<()> {
    let script = format!(
        "rm -f {file}; {command} > {file} 2>&1 &
         echo $! > {file}.pid
         for i in $(seq 500); do grep -q listening {file} && exit 0; sleep 0.02; done
         cat {file}; exit 1"
    );
    bench.vm.ok_within(&script, 60)?;
    Ok(())
}

/// The output of a program that was started by [`listen`], when it has ended.
fn heard(bench: &mut Bench<'_>, file: &str) -> Result<Vec<String>> {
    let text = bench.vm.ok_within(
        &format!(
            "for i in $(seq 1000); do kill -0 $(cat {file}.pid) 2>/dev/null || exec cat {file}
                 sleep 0.02
             done
             echo 'the last frame does not arrive'; wc -l {file}
             kill $(cat {file}.pid); exit 1"
        ),
        40,
    )?;
    let mut lines = text.lines().map(str::to_string);
    let first = lines.next();
    ensure!(first.as_deref() == Some("listening"), "{text}");
    Ok(lines.collect())
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn words_are_read() {
        let words = Words::parse("id 3 inflight 576").unwrap();
        assert_eq!(words.get("inflight").unwrap(), 576);
        assert!(words.get("detach-time").is_err());
        assert!(Words::parse("id").is_none());
        assert!(Words::parse("id x").is_none());
    }
}
