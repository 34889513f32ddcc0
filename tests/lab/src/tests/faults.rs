// SPDX-License-Identifier: GPL-2.0
//! Allocations and mappings that fail, one after the other or by chance, in whatever the driver
//! does: on the kernel that notices mistakes.
//!
//! Where a process asks for it, `/proc/self/fail-nth` makes its next, second, third … allocation
//! fail, until it gets through without: then each was made to fail once. What the kernel does
//! elsewhere is served likewise by the guest's module `lab_faults`, within one function of the
//! driver. The same module tells who asked for what failed. `make check` takes only some of the
//! allocations; `make check-all` takes all and writes `target/lab/faults.json` and `faults.rst`.

mod table;

use super::kunit::{forget_leaks, no_leaks};
use super::tx::set_watchdog;
use super::{cycles, Run, Test};
use crate::check::Bench;
use crate::env::Driver;
use crate::net::{Direction, Iperf, GATEWAY, IFACE};
use crate::steps::kernel::Flavour;
use crate::vm::{Machine, Net};
use anyhow::{bail, ensure, Context, Result};
use std::time::Duration;
use table::Fault;

type Function = fn(&mut Bench<'_>) -> Result<()>;

/// Tests, whether they are long, and their variant.
const TESTS: &[(&str, bool, &str, Function)] = &[
    ("probe", true, "gbeth", probe),
    ("open", false, "gbeth", open),
    ("resize", true, "gbeth", resize),
    ("suspend", true, "gbeth", |bench| asleep(bench, "suspend")),
    ("resume", true, "gbeth", |bench| asleep(bench, "resume")),
    ("recovery", true, "gbeth", recovery),
    ("poll", true, "gbeth", poll),
    ("chance", false, "gbeth", chance),
    ("page-pool", true, "gbeth", page_pool),
    ("mapping", true, "gbeth", mapping),
    ("open-gen3", true, "gen3", open),
    ("channels-gen3", true, "gen3", channels),
    ("mapping-gen3", true, "gen3", mapping),
];

pub(crate) fn tests() -> Vec<Test> {
    TESTS
        .iter()
        .map(|&(name, long, variant, run)| Test {
            name: format!("debug-faults-{name}"),
            long,
            run: Run::Guest {
                driver: Driver::Rust,
                machine: Machine {
                    kernel: Flavour::Debug,
                    ..Machine::with(variant, Net::User)
                },
                run,
            },
        })
        .collect()
}

/// The most allocations that one operation is expected to make, with a wide margin.
const ALLOCATIONS: u32 = 2000;

/// How long it may take, in seconds, until all of them have failed.
const PATIENCE: u64 = 3600;

/// Of how many allocations one fails in `make check`.
const STRIDE: u32 = 20;

fn stride(bench: &Bench<'_>) -> u32 {
    if bench.long {
        1
    } else {
        STRIDE
    }
}

/// Shell: every allocation may fail, and `$faults` is where that is told.
const PRELUDE: &str = "faults=/sys/kernel/debug/lab_faults
    cd /sys/kernel/debug || exit 1
    for f in failslab fail_page_alloc; do
        echo N > $f/ignore-gfp-wait && echo 0 > $f/verbose || exit 1
    done
    echo 0 > fail_page_alloc/min-order
    echo N > fail_page_alloc/ignore-gfp-highmem";

/// Shell: the interface has a carrier and somebody answers.
fn answers() -> String {
    format!(
        "for i in $(seq 300); do
             [ \"$(cat /sys/class/net/{IFACE}/carrier 2> /dev/null)\" = 1 ] && break
             sleep 0.05
         done
         for i in 1 2 3 4 5; do ping -c 1 -W 2 {GATEWAY} > /dev/null && break; done"
    )
}

/// Runs `test` while failures are recorded, in the function of the driver whose symbol ends so, if
/// one is named. Memory must not get lost.
fn recorded<T>(
    bench: &mut Bench<'_>,
    function: Option<&str>,
    test: impl FnOnce(&mut Bench<'_>) -> Result<T>,
) -> Result<T> {
    forget_leaks(bench)?;
    let find = function.map_or(String::new(), |function| {
        format!(
            "function=$(awk '$4 == \"[ravb_rs]\" && $3 ~ /{function}/ {{ print $3; exit }}' \
                 /proc/kallsyms)
             [ -n \"$function\" ] || {{ echo 'no such function'; exit 1; }}"
        )
    });
    bench.vm.ok(&format!(
        "rmmod lab_faults 2> /dev/null
         {find}
         insmod /lab/lab_faults.ko ${{function:+function=$function}}"
    ))?;
    let result = test(bench)?;
    bench.vm.ok("rmmod lab_faults")?;
    no_leaks(bench)?;
    Ok(result)
}

/// What a script says of the faults that it made, of which there must be enough.
fn told(bench: &Bench<'_>, operation: &str, text: &str, enough: usize) -> Result<()> {
    let faults = Fault::parse(text)?;
    ensure!(
        faults.len() > enough,
        "only {} allocations could fail: faults are not injected",
        faults.len()
    );
    if bench.long {
        let by = format!("{operation} ({})", bench.machine.variant);
        table::write(&bench.parts.logs, &by, &faults)?;
    }
    Ok(())
}

/// Runs `once`, a command built into the shell, again and again: each time one allocation further
/// down fails, until none is left that could. After each, `undo` runs without faults.
fn fail_each(bench: &mut Bench<'_>, operation: &str, once: &str, undo: &str) -> Result<()> {
    let stride = stride(bench);
    let script = format!(
        "{PRELUDE}
         exec 3> /proc/self/fail-nth 2> /dev/null
         n=1
         while [ $n -lt {ALLOCATIONS} ]; do
             echo > $faults/sites
             echo $n >&3
             result=refused
             {once} && result=done
             left=
             read left < /proc/self/fail-nth
             echo 0 >&3
             # One line, and no process for it.
             if [ \"${{left:-0}}\" = 0 ]; then
                 site=
                 read -r site < $faults/sites
                 echo fault $result
                 echo \"$site\"
             fi
             {{ {undo}; }} || exit 1
             [ \"${{left:-0}}\" -gt 0 ] && exit 0
             n=$((n + {stride}))
         done
         echo 'it never gets through'
         exit 1"
    );
    let text = recorded(bench, None, |bench| bench.vm.ok_within(&script, PATIENCE))?;
    told(bench, operation, &text, 10 / stride as usize)
}

/// Probe fails at each of its allocations in turn, and gives everything back.
fn probe(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let device = bench.platform_device()?;
    let driver = format!("/sys/bus/platform/drivers/{}", bench.driver.module());
    bench.vm.ok(&format!("echo {device} > {driver}/unbind"))?;
    let once = format!("echo {device} > {driver}/bind");
    let undo = format!("[ ! -e {driver}/{device} ] || echo {device} > {driver}/unbind");
    fail_each(bench, "probe", &once, &undo)?;
    bench.vm.ok(&once)?;
    works(bench)
}

/// Short rings: a buffer that cannot be allocated is like the next one.
fn short_rings(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    let script = format!("ethtool -G {IFACE} rx 64 tx 64");
    bench.vm.ok(&script).map(drop)
}

/// The device, which was bound anew, works.
fn works(bench: &mut Bench<'_>) -> Result<()> {
    bench.up()?;
    bench.ping(5, 1000)
}

/// Open fails at each of its allocations in turn, and works afterwards.
fn open(bench: &mut Bench<'_>) -> Result<()> {
    short_rings(bench)?;
    bench.vm.ok(&format!("ip link set {IFACE} down"))?;
    // As `ip link set up` and `down`, but by the shell itself, whose allocations it is that fail.
    let flags = format!("/sys/class/net/{IFACE}/flags");
    let once = format!("echo 0x1003 > {flags}");
    fail_each(bench, "open", &once, &format!("echo 0x1002 > {flags}"))?;
    works(bench)
}

/// A change of the rings fails at each of its allocations in turn, and has no effect then.
fn resize(bench: &mut Bench<'_>) -> Result<()> {
    // ETHTOOL_GRINGPARAM and ETHTOOL_SRINGPARAM: maxima of four sizes, then the sizes.
    setting(
        bench,
        "resize",
        [0x10, 0x11],
        "{5: 64, 8: 64}",
        "{5: 80, 8: 80}",
    )
}

/// The same with the number of queues.
fn channels(bench: &mut Bench<'_>) -> Result<()> {
    // ETHTOOL_GCHANNELS and ETHTOOL_SCHANNELS, of the same form: the last is of both directions.
    setting(bench, "channels", [0x3c, 0x3d], "{8: 2}", "{8: 1}")
}

/// Changes a setting that ethtool reads and writes with `commands`, by words of their structure,
/// while one allocation after the other fails. Each time the setting is the new one and nobody was
/// told of an error, or the old one and somebody was; in both cases the interface is up and frames
/// go both ways.
fn setting(
    bench: &mut Bench<'_>,
    operation: &str,
    [get, set]: [u32; 2],
    old: &str,
    new: &str,
) -> Result<()> {
    short_rings(bench)?;
    let stride = stride(bench);
    let script = format!(
        "{PRELUDE}
         exec python3 -ISu - << 'END'
import array, fcntl, os, struct, sys
import _socket as socket

INTERFACE = b'{IFACE}'
OLD, NEW = {old}, {new}
SITES = '/sys/kernel/debug/lab_faults/sites'
sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
nth = os.open('/proc/self/fail-nth', os.O_RDWR)

def ioctl(command, values):
    data = array.array('I', [command] + [0] * 8)
    for at, value in values.items():
        data[at] = value
    address, _ = data.buffer_info()
    fcntl.ioctl(sock, 0x8946, struct.pack('16sP16x', INTERFACE, address))
    return data

def shown():
    data = ioctl({get}, {{}})
    return {{at: data[at] for at in OLD}}

for n in range(1, {ALLOCATIONS}, {stride}):
    error = None
    open(SITES, 'w').write('\\n')
    os.pwrite(nth, str(n).encode(), 0)
    try:
        ioctl({set}, NEW)
    except OSError as failure:
        error = failure
    left = int(os.pread(nth, 16, 0))
    os.pwrite(nth, b'0', 0)
    if not left:
        print('fault', 'refused' if error else 'done')
        print(open(SITES).read(), end='')
    if shown() != (OLD if error else NEW):
        sys.exit(f'{{n}}: {{error}}, and the setting is {{shown()}}')
    if os.system('[ $(cat /sys/class/net/{IFACE}/carrier) = 1 ] &&'
                 'ping -c 1 -W 5 {GATEWAY} > /dev/null'):
        sys.exit(f'{{n}}: {{error}}, and no answer')
    ioctl({set}, OLD)
    if left:
        sys.exit()
sys.exit('it never gets through')
END"
    );
    let text = recorded(bench, None, |bench| bench.vm.ok_within(&script, PATIENCE))?;
    told(bench, operation, &text, 10 / stride as usize)?;
    works(bench)
}

/// The system goes to sleep as far as its devices do, and wakes up again, while one allocation
/// after the other fails that the driver's callback makes. The interface works then, or it is down
/// and can be brought up.
fn asleep(bench: &mut Bench<'_>, operation: &str) -> Result<()> {
    const DONE: &str = "lab: the last allocation has failed";
    short_rings(bench)?;
    let up = bench.up_script();
    let answers = answers();
    let stride = stride(bench);
    let function = format!(
        "{}{operation}_callback",
        operation.len() + "_callback".len()
    );
    let text = recorded(bench, Some(&format!("7AdapterN.*{function}")), |bench| {
        let mark = bench.vm.console_mark("asleep")?;
        // The channel sleeps with the system.
        bench.vm.ok(&format!(
            "cat > /run/asleep << 'END'
             {PRELUDE}
             echo devices > /sys/power/pm_test
             echo 0 > /sys/module/suspend/parameters/pm_test_delay
             n=1
             while [ $n -lt {ALLOCATIONS} ]; do
                 echo > $faults/sites
                 echo $n > $faults/nth
                 result=done
                 echo freeze > /sys/power/state 2> /dev/null || result=refused
                 read left < $faults/nth
                 echo 0 > $faults/nth
                 read flags < /sys/class/net/{IFACE}/flags
                 [ $((flags & 1)) = 1 ] || {{ result='taken-down'; ({up}) || break; }}
                 [ $left = 0 ] && echo fault $result && cat $faults/sites
                 ({answers}) || {{ echo no answer after $n; break; }}
                 [ $left -gt 0 ] && echo through && break
                 n=$((n + {stride}))
             done
             echo none > /sys/power/pm_test
             echo '<5>{DONE}' > /dev/kmsg\nEND
             dash /run/asleep > /run/asleep.out 2>&1 < /dev/null &"
        ))?;
        bench
            .vm
            .wait_for_console(mark, DONE, Duration::from_secs(PATIENCE))?;
        bench.vm.reconnect()?;
        bench.vm.ok("cat /run/asleep.out")
    })?;
    let text = text
        .strip_suffix("through\n")
        .with_context(|| format!("it does not get through: {text}"))?;
    told(bench, operation, text, 0)?;
    works(bench)
}

/// A queue is stuck, and one allocation of its recovery after the other fails: the next recovery,
/// or the device itself, makes it go on.
fn recovery(bench: &mut Bench<'_>) -> Result<()> {
    const WATCHDOG_MS: u32 = 300;
    bench.expected.extend(["NETDEV WATCHDOG"]);
    short_rings(bench)?;
    set_watchdog(bench, WATCHDOG_MS)?;
    let answers = answers();
    let stride = stride(bench);
    let text = recorded(bench, Some("7AdapterN.*7recover"), |bench| {
        let mut text = String::new();
        for n in (1..ALLOCATIONS).step_by(stride as usize) {
            bench.vm.ok(&format!(
                "{PRELUDE}; echo > $faults/sites; echo {n} > $faults/nth"
            ))?;
            bench.vm.set_property("tx-hold", "on")?;
            let result = bench.vm.ok_within(
                &format!(
                    "faults=/sys/kernel/debug/lab_faults
                     for i in 1 2 3 4 5; do ping -c 1 -W 1 {GATEWAY} > /dev/null & done
                     for i in $(seq 400); do
                         read left < $faults/nth
                         [ $left != {n} ] && echo left $left && cat $faults/sites && exit 0
                         sleep 0.05
                     done
                     echo 'it was not recovered'; exit 1"
                ),
                60,
            );
            bench.vm.set_property("tx-hold", "off")?;
            let result = result?;
            bench
                .vm
                .ok_within(
                    &format!("echo 0 > /sys/kernel/debug/lab_faults/nth; {answers}"),
                    60,
                )
                .with_context(|| format!("no answer after allocation {n} had failed"))?;
            match result.strip_prefix("left 0\n") {
                Some(sites) => text.push_str(&format!("fault recovered-later\n{sites}")),
                None => return Ok(text),
            }
        }
        bail!("it never gets through")
    })?;
    told(bench, "recovery", &text, 10 / stride as usize)?;
    works(bench)
}

/// Polls of a thread, one allocation of which after the other fails: packets are lost, and no more.
fn poll(bench: &mut Bench<'_>) -> Result<()> {
    let faults = if bench.long { 400 } else { 40 };
    bench.up()?;
    let threaded = format!("/sys/class/net/{IFACE}/threaded");
    bench.vm.ok(&format!(
        "echo 1 > {threaded}; ethtool --set-tunable {IFACE} rx-copybreak 256"
    ))?;
    let iperf = Iperf::start(&bench.parts.root)?;
    let traffic = background(&iperf);
    let text = recorded(bench, Some("4Poll4poll"), |bench| {
        bench.vm.ok(&traffic)?;
        let text = bench.vm.ok_within(
            &format!(
                "{PRELUDE}
                 for n in $(seq {faults}); do
                     echo > $faults/sites
                     # Not always the first of a poll.
                     echo $((1 + n % 7)) > $faults/nth
                     for i in $(seq 400); do
                         read left < $faults/nth
                         [ $left = 0 ] && break
                         sleep 0.02
                     done
                     [ $left = 0 ] || {{ echo 'nothing is polled'; exit 1; }}
                     echo fault lost; cat $faults/sites
                 done"
            ),
            900,
        )?;
        cycles::traffic(bench)?;
        quiet(bench)?;
        Ok(text)
    })?;
    told(bench, "poll", &text, 10)?;
    works(bench)
}

/// Shell: traffic both ways at once in the background, until [`quiet`].
fn background(iperf: &Iperf) -> String {
    let client = iperf.client(Direction::Transmit, 5, "--bidir");
    format!(
        "rm -f /run/traffic-end
         (while [ ! -e /run/traffic-end ]; do {client}; sleep 0.1; done) > /dev/null 2>&1 &
         ping -i 0.02 -s 200 {GATEWAY} > /dev/null 2>&1 &"
    )
}

fn quiet(bench: &mut Bench<'_>) -> Result<()> {
    bench
        .vm
        .ok("touch /run/traffic-end
             for i in $(seq 100); do killall -q iperf3 ping || exit 0; sleep 0.1; done; exit 1")
        .map(drop)
}

/// Of all allocations that may not sleep, many fail by chance, under traffic both ways: wherever
/// they are made, it goes on afterwards.
fn chance(bench: &mut Bench<'_>) -> Result<()> {
    const PERCENT: u32 = 5;
    let seconds = if bench.long { 60 } else { 10 };
    // It wants memory, too, and gives up.
    bench.expected.push("dma-debug disabled");
    bench.up()?;
    bench
        .vm
        .ok(&format!("ethtool --set-tunable {IFACE} rx-copybreak 256"))?;
    let iperf = Iperf::start(&bench.parts.root)?;
    let traffic = background(&iperf);
    let text = recorded(bench, None, |bench| {
        bench.vm.ok(&traffic)?;
        let text = bench.vm.ok_within(
            &format!(
                "{PRELUDE}
                 echo > $faults/sites
                 for f in failslab fail_page_alloc; do
                     echo Y > $f/ignore-gfp-wait; echo -1 > $f/times; echo 1 > $f/interval
                     echo {PERCENT} > $f/probability
                 done
                 sleep {seconds}
                 for f in failslab fail_page_alloc; do echo 0 > $f/probability; done
                 cat $faults/sites"
            ),
            seconds + 60,
        )?;
        cycles::traffic(bench)?;
        quiet(bench)?;
        Ok(text)
    })?;
    // Sites of the driver, each as often as it failed.
    let mut faults = String::new();
    for line in text.lines().filter(|line| line.contains("[ravb_rs]")) {
        let (count, callers) = line.split_once(';').context("no count")?;
        for _ in 0..count.parse::<u32>()? {
            faults.push_str(&format!("fault lost\n1;{callers}\n"));
        }
    }
    told(bench, "softirq, by chance", &faults, 10)?;
    works(bench)
}

/// Shell: functions that can be made to fail do so, each returning its value, as often as is said.
fn fail_functions(functions: &[(&str, &str)], percent: u32) -> String {
    let mut script = "cd /sys/kernel/debug/fail_function || exit 1
        echo 0 > verbose; echo 1 > interval; echo 0 > space; echo -1 > times; echo > inject\n"
        .to_string();
    for (function, value) in functions {
        script.push_str(&format!(
            "echo {function} > inject && echo {value} > {function}/retval || exit 1\n"
        ));
    }
    script.push_str(&format!("echo {percent} > probability"));
    script
}

/// Shell: they do not any more.
const FAIL_NO_FUNCTION: &str =
    "cd /sys/kernel/debug/fail_function && echo 0 > probability && echo > inject";

/// The pool has no page to give: for some frames, and for a while for none; new rings are refused
/// then.
fn page_pool(bench: &mut Bench<'_>) -> Result<()> {
    const POOL: &[(&str, &str)] = &[("page_pool_alloc_netmems", "0")];
    bench.up()?;
    forget_leaks(bench)?;
    let failed = |bench: &mut Bench<'_>| bench.statistic("rx_queue_0_alloc_fail");
    let before = failed(bench)?;
    let iperf = Iperf::start(&bench.parts.root)?;
    bench.vm.ok(&background(&iperf))?;
    for percent in [30, 100] {
        let script = fail_functions(POOL, percent);
        bench.vm.ok(&format!("{script}; sleep 2"))?;
        if percent == 100 {
            let refused = format!("ethtool -G {IFACE} rx 128");
            ensure!(
                bench.vm.run(&refused, 10)?.status != 0,
                "rings without buffers were made"
            );
        }
        bench.vm.ok(FAIL_NO_FUNCTION)?;
        cycles::traffic(bench).with_context(|| format!("after {percent} % had failed"))?;
    }
    quiet(bench)?;
    let rise = failed(bench)? - before;
    ensure!(rise > 10, "only {rise} failures are counted");
    if bench.long {
        let fault = Fault::new("lost", "page_pool_alloc_netmems", "PagePool::divide_page");
        let by = format!("page pool ({})", bench.machine.variant);
        table::write(&bench.parts.logs, &by, &vec![fault; rise as usize])?;
    }
    no_leaks(bench)?;
    works(bench)
}

/// Frames that are sent cannot be mapped, some of them, or none: they are dropped and counted, the
/// others are sent, and nothing stays mapped.
fn mapping(bench: &mut Bench<'_>) -> Result<()> {
    // What dma_mapping_error() knows as a failure.
    const NONE: &str = "0xffffffffffffffff";
    const MAPPERS: &[(&str, &str)] = &[
        ("ravb_helper_dma_map_single", NONE),
        ("ravb_helper_skb_frag_dma_map", NONE),
    ];
    bench.up()?;
    forget_leaks(bench)?;
    let iperf = Iperf::start(&bench.parts.root)?;
    let mut faults = Vec::new();
    for (function, _) in MAPPERS {
        for percent in [30, 100] {
            let one: Vec<_> = MAPPERS
                .iter()
                .copied()
                .filter(|(name, _)| name == function)
                .collect();
            bench.vm.ok(&background(&iperf))?;
            let before = bench.counter("tx_dropped")?;
            let script = fail_functions(&one, percent);
            bench.vm.ok(&format!("{script}; sleep 3"))?;
            let dropped = bench.counter("tx_dropped")? - before;
            bench.vm.ok(FAIL_NO_FUNCTION)?;
            cycles::traffic(bench)
                .with_context(|| format!("after {percent} % of {function} had failed"))?;
            quiet(bench)?;
            ensure!(
                dropped > 0,
                "{function}: nothing was dropped when {percent} % failed"
            );
            let driver = "SkBuff::map_piece";
            faults.extend(vec![
                Fault::new("dropped", function, driver);
                dropped as usize
            ]);
        }
    }
    if bench.long {
        let by = format!("transmit, mapping ({})", bench.machine.variant);
        table::write(&bench.parts.logs, &by, &faults)?;
    }
    no_leaks(bench)?;
    works(bench)
}
