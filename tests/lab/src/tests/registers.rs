// SPDX-License-Identifier: GPL-2.0
//! The order and the values in which a driver programs the registers, as far as they matter: the
//! model keeps a record, which is compared with what the hardware reference says (section 10, from
//! the stock driver). So the stock driver must pass, too.
//!
//! Much of what matters is a rule of the model itself, which fails every test in which it is
//! broken: clocks, modes, CXR35, reserved bits, changes of the mode that are not awaited.

use crate::check::Bench;
use crate::env::Driver;
use crate::net::{self, IFACE};
use anyhow::{bail, ensure, Context, Result};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// An access of a driver to a register.
#[derive(Debug)]
struct Access {
    write: bool,
    register: String,
    value: u32,
}

/// What an access must be.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    /// A write whose bits below the mask have this value.
    Write(&'static str, u32, u32),
    /// A read that returns this.
    Read(&'static str, u32, u32),
}
use Wanted::{Read, Write};

impl Wanted {
    fn fits(self, access: &Access) -> bool {
        let (write, register, mask, value) = match self {
            Write(register, mask, value) => (true, register, mask, value),
            Read(register, mask, value) => (false, register, mask, value),
        };
        access.write == write && access.register == register && access.value & mask == value
    }
}

/// All bits.
const ALL: u32 = !0;
const CCC_OPC: u32 = 3;
const CSR_OPS: u32 = 0xf;
const TE_RE: u32 = 0x60;

/// Runs something and returns what the driver did to the registers meanwhile.
fn record(
    bench: &mut Bench<'_>,
    run: impl FnOnce(&mut Bench<'_>) -> Result<()>,
) -> Result<Vec<Access>> {
    bench.vm.set_property("record", "on")?;
    let result = run(bench);
    bench.vm.set_property("record", "off")?;
    result?;
    let record = bench.vm.property("accesses")?;
    ensure!(record["lost"] == 0, "the record is too short");
    let parse = |access: &serde_json::Value| {
        Some(Access {
            write: access[0].as_str()? == "w",
            register: access[1].as_str()?.to_string(),
            value: u32::try_from(access[2].as_u64()?).ok()?,
        })
    };
    let accesses = record["accesses"].as_array().context("no accesses")?;
    accesses
        .iter()
        .map(|access| parse(access).context("an access is no access"))
        .collect()
}

/// Checks that the wanted accesses occur in this order, whatever lies between, and returns where
/// the last one is.
fn in_order(accesses: &[Access], wanted: &[Wanted]) -> Result<usize> {
    let mut at = 0;
    for (number, &step) in wanted.iter().enumerate() {
        let Some(found) = accesses[at..].iter().position(|access| step.fits(access)) else {
            let after = number.checked_sub(1).map(|before| wanted[before]);
            bail!(
                "no {step:x?} after {after:x?} in {:x?}",
                brief(&accesses[at..])
            );
        };
        at += found + 1;
    }
    Ok(at.saturating_sub(1))
}

/// The beginning of a record.
fn brief(accesses: &[Access]) -> Vec<String> {
    let show = |access: &Access| {
        let what = if access.write { "=" } else { "->" };
        format!("{}{what}{:x}", access.register, access.value)
    };
    accesses.iter().take(60).map(show).collect()
}

/// The last value written to each register.
fn written(accesses: &[Access]) -> BTreeMap<&str, u32> {
    accesses
        .iter()
        .filter(|access| access.write)
        .map(|access| (access.register.as_str(), access.value))
        .collect()
}

/// Checks last values written: register, mask, value.
fn check_values(accesses: &[Access], wanted: &[(&str, u32, u32)]) -> Result<()> {
    let written = written(accesses);
    for &(register, mask, value) in wanted {
        let last = written.get(register);
        let last = last.with_context(|| format!("{register} was not written"))?;
        ensure!(
            last & mask == value,
            "{register} is {last:#x}, of which {mask:#x} should be {value:#x}"
        );
    }
    Ok(())
}

/// What a variant's registers must hold when CONFIG mode is left.
fn configuration(variant: &str) -> Vec<(&'static str, u32, u32)> {
    // Bit 8 of CCC suspends transfers.
    let mut values = vec![("DBAT", 7, 0), ("RIC1", ALL, 0), ("CCC", 0x100, 0)];
    if variant == "gbeth" {
        values.extend([
            ("RCR", ALL, 0x6000_0000),
            ("RTC", ALL, 0x7ffc_2000),
            ("TGC", ALL, 0x0022_2200),
            ("TCCR", ALL, 0),
            ("RIC0", ALL, 1),
            ("RIC2", ALL, 0x8000_0001),
            ("TIC", 0xf, 1),
        ]);
        return values;
    }
    values.extend([
        ("RCR", ALL, 0x1800_001f),
        ("TGC", ALL, 0x0011_2210),
        ("TCCR", ALL, 0x100),
        ("RIC0", ALL, 3),
        ("RIC2", ALL, 0x8000_0003),
        ("TIC", 0xf, 3),
    ]);
    if variant != "gen2" {
        values.extend([("DIL", ALL, 0), ("CIE", ALL, 0x0002_0101)]);
    }
    values
}

/// What the registers must hold when the interface is up with a link of 1000 Mbit/s.
fn operation(variant: &str) -> Vec<(&'static str, u32, u32)> {
    // The address that the device tree gives.
    let mut values = vec![("MAHR", ALL, 0x0200_0000), ("MALR", ALL, 1)];
    if variant == "gbeth" {
        values.extend([
            ("CXR35", ALL, 1000 << 16),
            ("CXR31", 9, 1),
            ("RFLR", ALL, 8196),
            // ZPF, DM, TE, RE, RCPT, RXF.
            ("ECMR", 0x020a_0063, 0x020a_0062),
            ("GECMR", ALL, 0x20),
            ("CSR0", ALL, 0x30),
            ("CSR1", ALL, 0x0030_0030),
            ("CSR2", ALL, 0x0070_0070),
            ("ECSIPR", 1, 1),
        ]);
    } else {
        values.extend([
            ("RFLR", ALL, 2052),
            // ZPF, DM, TE, RE, RCSC.
            ("ECMR", 0x0088_0063, 0x0088_0062),
            ("GECMR", ALL, 1),
            // Illegal carrier, and the link pin.
            ("ECSIPR", 5, 5),
        ]);
    }
    values
}

/// Checks how the device was set up.
fn check_open(variant: &str, accesses: &[Access]) -> Result<()> {
    // The clock of the gPTP timer is HPB; on Gen3 and Gen4 the timer runs in CONFIG mode, for which
    // both are chosen in the access that enters it.
    let config = match variant {
        "gen3" | "gen4" => Write("CCC", 0x0003_0083, 0x0001_0081),
        _ => Write("CCC", CCC_OPC, 1),
    };
    let begin = in_order(accesses, &[config, Read("CSR", CSR_OPS, 2)])?;
    let accesses = &accesses[begin..];
    let end = in_order(accesses, &[Write("CCC", CCC_OPC, 2)])?;
    let (configured, operating) = accesses.split_at(end);

    let mut values = configuration(variant);
    match variant {
        "gen2" | "rzv2m" => values.push(("CCC", 0x0003_0000, 0x0001_0000)),
        _ => {}
    }
    check_values(configured, &values).context("in CONFIG mode")?;
    ensure!(
        written(configured)["DBAT"] != 0,
        "in CONFIG mode: DBAT is 0"
    );
    in_order(
        operating,
        &[Write("CCC", CCC_OPC, 2), Read("CSR", CSR_OPS, 4)],
    )?;
    check_values(operating, &operation(variant)).context("in OPERATION mode")?;
    // The limit is there before the receiver is on, old causes are gone before new ones count.
    for order in [
        [Write("RFLR", 0, 0), Write("ECMR", TE_RE, TE_RE)],
        [Write("ECSR", 1, 1), Write("ECSIPR", 1, 1)],
    ] {
        in_order(operating, &order)?;
        let early = operating.iter().position(|access| order[1].fits(access));
        let first = operating.iter().position(|access| order[0].fits(access));
        ensure!(first < early, "{:x?} before {:x?}", order[1], order[0]);
    }
    if variant == "gbeth" {
        let emac = |access: &&Access| {
            access.write
                && operation(variant)
                    .iter()
                    .any(|(name, ..)| *name == access.register && !name.starts_with("CSR"))
        };
        let first = operating.iter().find(emac).context("no E-MAC register")?;
        ensure!(
            first.register == "CXR35",
            "the first register of the E-MAC is {}",
            first.register
        );
        in_order(
            operating,
            &[
                Write("CSR0", ALL, 0),
                Read("CSR0", 0x30, 0),
                Write("CSR1", 0, 0),
                Write("CSR0", ALL, 0x30),
            ],
        )?;
        let stopped = in_order(operating, &[Read("CSR0", 0x30, 0)])?;
        in_order(
            &operating[stopped..],
            &[Write("CSR2", 0, 0), Write("CSR0", ALL, 0x30)],
        )?;
    }
    Ok(())
}

/// Checks how the device was taken down; returns what comes after.
fn check_close(accesses: &[Access]) -> Result<&[Access]> {
    let end = in_order(
        accesses,
        &[
            // Nothing is left to be sent, nothing is on its way.
            Read("TCCR", 0xf, 0),
            Read("CSR", 0x000f_0000, 0),
            Write("ECMR", TE_RE, 0),
            Read("CSR", 0x0010_0000, 0),
            // Transfers are suspended.
            Write("CCC", 0x100, 0x100),
            Read("CSR", 0x100, 0x100),
            Write("CCC", CCC_OPC, 1),
            Read("CSR", CSR_OPS, 2),
            Write("CCC", CCC_OPC, 0),
            Read("CSR", CSR_OPS, 1),
        ],
    )?;
    let suspended = in_order(accesses, &[Write("CCC", 0x100, 0x100)])?;
    check_values(
        &accesses[..suspended],
        &[("RIC0", ALL, 0), ("RIC2", ALL, 0), ("TIC", ALL, 0)],
    )
    .context("when transfers are suspended")?;
    Ok(&accesses[end + 1..])
}

/// Takes the interface down and waits until the clock is off.
fn down(bench: &mut Bench<'_>) -> Result<()> {
    bench.vm.ok(&format!("ip link set {IFACE} down"))?;
    let end = Instant::now() + Duration::from_secs(10);
    while bench.vm.property("state")?["clock"] == true {
        ensure!(Instant::now() < end, "the clock runs on");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

/// Open, close, other ring sizes, another MTU.
pub(super) fn open_and_close(bench: &mut Bench<'_>) -> Result<()> {
    let variant = bench.machine.variant;
    bench.up()?;
    down(bench)?;
    let accesses = record(bench, |bench| bench.up())?;
    check_open(variant, &accesses).context("open")?;

    // What has no register of its own must not stop the traffic.
    let accesses = record(bench, |bench| {
        bench
            .vm
            .ok(&format!(
                "ip link set {IFACE} mtu 1400; ip link set {IFACE} mtu 1500"
            ))
            .map(drop)
    })?;
    let mode = accesses
        .iter()
        .find(|access| access.write && access.register == "CCC");
    ensure!(mode.is_none(), "another MTU: {mode:x?}");

    let accesses = record(bench, |bench| {
        bench.vm.ok(&format!("ethtool -G {IFACE} rx 512 tx 128"))?;
        net::wait_for_link(bench.vm).map(drop)
    })?;
    match bench.driver {
        Driver::Rust => {
            let rest = check_close(&accesses).context("other ring sizes, down")?;
            check_open(variant, rest)
        }
        // It leaves masks as they are, and stays in CONFIG mode, in which much is set already.
        Driver::C => check_values(&accesses, &operation(variant)),
    }
    .context("other ring sizes, up")?;
    bench.ping(3, 56)?;

    let accesses = record(bench, down)?;
    let rest = check_close(&accesses).context("close")?;
    if bench.driver == Driver::Rust {
        // The PHY is still told to sleep, for which the mode changes.
        let other = rest
            .iter()
            .find(|access| access.write && access.register != "CCC");
        ensure!(other.is_none(), "after the end: {other:x?}");
    }
    bench.up()?;
    bench.ping(3, 56)
}

/// Modes that take their time are awaited: the model has a rule for that.
pub(super) fn mode_delay(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    bench.vm.set_property("mode-change-delay", "20")?;
    let result = (|| {
        down(bench)?;
        let accesses = record(bench, |bench| bench.up())?;
        // The hook is in force: a single look is not enough.
        let polls = in_order(
            &accesses,
            &[Write("CCC", CCC_OPC, 2), Read("CSR", CSR_OPS, 4)],
        )?;
        ensure!(
            accesses[..polls]
                .iter()
                .filter(|access| access.register == "CSR")
                .count()
                > 20,
            "modes change at once: the test tests nothing"
        );
        bench.ping(3, 56)?;
        bench.vm.ok(&format!("ethtool -G {IFACE} rx 256 tx 64"))?;
        net::wait_for_link(bench.vm)?;
        down(bench)
    })();
    bench.vm.set_property("mode-change-delay", "0")?;
    result?;
    bench.up()?;
    bench.ping(3, 56)
}

/// Sleep and wake: as close and open, with the clock off and the reset line held in between.
pub(super) fn suspend(bench: &mut Bench<'_>) -> Result<()> {
    let variant = bench.machine.variant;
    bench.up()?;
    bench.ping(3, 56)?;
    let accesses = record(bench, |bench| {
        sleep(bench)?;
        net::wait_for_link(bench.vm).map(drop)
    })?;
    let rest = check_close(&accesses).context("suspend")?;
    check_open(variant, rest).context("resume")?;
    bench.ping(3, 56)
}

/// Suspends the machine until an alarm.
fn sleep(bench: &mut Bench<'_>) -> Result<()> {
    let mark = bench.vm.console_mark("asleep")?;
    bench.vm.ok("rm -f /tmp/awake
         echo +2 > /sys/class/rtc/rtc0/wakealarm
         (sleep 0.2; echo freeze > /sys/power/state; echo $? > /tmp/awake) > /dev/null 2>&1 &")?;
    let end = Instant::now() + Duration::from_secs(40);
    while !bench.vm.console_since(mark).contains("PM: suspend exit") {
        ensure!(Instant::now() < end, "the machine sleeps on");
        std::thread::sleep(Duration::from_millis(50));
    }
    bench.vm.reconnect()?;
    let status = bench.vm.ok(
        "for i in $(seq 100); do [ -s /tmp/awake ] && break; sleep 0.05; done
             cat /tmp/awake",
    )?;
    ensure!(status.trim() == "0", "the machine did not go to sleep");
    Ok(())
}

/// A transmission that never ends: transfers are suspended, RESET mode is entered from where the
/// device is, and it is set up anew.
pub(super) fn timeout(bench: &mut Bench<'_>) -> Result<()> {
    let variant = bench.machine.variant;
    bench.expected.push("NETDEV WATCHDOG");
    bench.up()?;
    bench.ping(3, 56)?;
    let accesses = record(bench, |bench| {
        let mark = bench.vm.console_mark("stuck")?;
        bench.vm.set_property("tx-hold", "on")?;
        // As much as it takes to stop the queue: only then somebody watches it.
        let script = format!("ping -c 60 -i 0.02 -s 1400 -W 1 {}; true", net::GATEWAY);
        let result = bench.vm.ok(&script).and_then(|_| {
            let end = Instant::now() + Duration::from_secs(90);
            while !bench
                .vm
                .console_since(mark)
                .contains("is stuck, restarting")
            {
                ensure!(Instant::now() < end, "nobody notices that nothing is sent");
                std::thread::sleep(Duration::from_millis(50));
            }
            // The restart follows at once, and finds the hardware still stuck.
            std::thread::sleep(Duration::from_secs(1));
            Ok(())
        });
        bench.vm.set_property("tx-hold", "off")?;
        result?;
        net::wait_for_link(bench.vm).map(drop)
    })?;
    let end = in_order(
        &accesses,
        &[
            Read("TCCR", 0xf, 1),
            Write("CCC", 0x103, 0x102),
            Read("CSR", 0x100, 0x100),
            Write("CCC", CCC_OPC, 0),
            Read("CSR", CSR_OPS, 1),
        ],
    )
    .context("down")?;
    check_open(variant, &accesses[end..]).context("up")?;
    bench.ping(5, 56)
}

#[cfg(test)]
mod unit {
    use super::*;

    fn access(write: bool, register: &str, value: u32) -> Access {
        Access {
            write,
            register: register.to_string(),
            value,
        }
    }

    #[test]
    fn order_matters() {
        let accesses = [
            access(true, "CCC", 0x1_0081),
            access(false, "CSR", 2),
            access(true, "DBAT", 0x1000),
        ];
        let wanted = [Write("CCC", CCC_OPC, 1), Write("DBAT", 0, 0)];
        assert_eq!(in_order(&accesses, &wanted).unwrap(), 2);
        let wanted = [Write("DBAT", 0, 0), Write("CCC", CCC_OPC, 1)];
        assert!(in_order(&accesses, &wanted).is_err());
        let wanted = [Write("CSR", CSR_OPS, 2)];
        assert!(in_order(&accesses, &wanted).is_err(), "that was a read");
        assert!(check_values(&accesses, &[("DBAT", 7, 0)]).is_ok());
        assert!(check_values(&accesses, &[("RIC1", ALL, 0)]).is_err());
    }
}
