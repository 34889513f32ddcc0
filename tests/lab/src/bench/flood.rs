// SPDX-License-Identifier: GPL-2.0
//! The published experiment in virtual time: what one processor receives at the rate of the line,
//! and where it begins to lose frames.
//!
//! The processor is made slower, by powers of two, until the C driver loses frames. A program in
//! the guest (`tests/guest/flood.c`) takes the datagrams out of a socket, while the model sends
//! them at a rate that a script chooses, which also looks for the highest without a loss.

use super::cost::interval;
use super::rig::{Mark, Outcome, Rig, Setup};
use super::{both, Pair};
use crate::env::Driver;
use anyhow::{ensure, Context, Result};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::fmt::Write;

/// How interrupts and polls are set up, in the order they are measured: that of the driver comes
/// first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Config {
    /// Coalescing in software, and polls in a thread: what both drivers choose on one processor.
    Both,
    /// Coalescing alone.
    Coalescing,
    /// Neither.
    Neither,
}

/// All of them.
pub(super) const CONFIGS: &[Config] = &[Config::Both, Config::Coalescing, Config::Neither];

impl Config {
    /// Key in reports.
    pub(super) fn key(self) -> &'static str {
        match self {
            Config::Both => "both",
            Config::Coalescing => "coalescing",
            Config::Neither => "neither",
        }
    }

    /// Name for people.
    pub(super) fn title(self) -> &'static str {
        match self {
            Config::Both => "coalescing and threads",
            Config::Coalescing => "coalescing",
            Config::Neither => "neither",
        }
    }

    /// What the script does to come here from the one before.
    fn script(self) -> &'static str {
        match self {
            // Whoever compares must know that both do the same.
            Config::Both => {
                "[ \"$(cat $N/threaded)\" = 1 ] || fail not threaded
                 [ \"$(cat $N/napi_defer_hard_irqs)\" = 1 ] || fail not deferred
                 [ \"$(cat $N/gro_flush_timeout)\" = 20000 ] || fail no flush timeout\n"
            }
            Config::Coalescing => "echo 0 > $N/threaded || fail threaded\n",
            Config::Neither => {
                "echo 0 > $N/napi_defer_hard_irqs || fail defer
                 echo 0 > $N/gro_flush_timeout || fail timeout\n"
            }
        }
    }
}

/// What is done.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Way {
    /// UDP to a socket.
    Udp,
    /// TCP to a socket, from a peer that keeps a window full.
    Tcp,
    /// UDP from a socket.
    Send,
    /// Frames of 64 bytes that nobody waits for.
    Small,
    /// The same, and the driver copies frames up to 256 bytes.
    SmallCopied,
}

const WAYS: &[(Way, &str)] = &[
    (Way::Udp, "udp"),
    (Way::Tcp, "tcp"),
    (Way::Send, "send"),
    (Way::Small, "small"),
    (Way::SmallCopied, "copied"),
];

/// Length of a frame that carries a full datagram, without its FCS, and of the datagram.
const FRAME: u32 = 1514;
const DATAGRAM: u32 = 1472;

/// Nanoseconds such a frame takes on the line, with everything around it.
const LINE_GAP: u32 = (FRAME + 24) * 8;

/// The same of the shortest frame.
const SMALL_GAP: u32 = (60 + 24) * 8;

/// What the line carries of datagrams in Mbit/s.
pub(super) fn line_rate() -> f64 {
    rate(LINE_GAP)
}

fn rate(gap: u32) -> f64 {
    f64::from(DATAGRAM) * 8e3 / f64::from(gap)
}

/// Microseconds between the marks. A stream lasts [`AFTER`] longer.
const WINDOW: u32 = 150_000;
const AFTER: u32 = 10_000;

/// How often it is measured what a processor does that has too much to do: who gets its time in
/// turn depends on what was before.
const REPEATS: u32 = 6;

/// The processor is not made slower than this.
const SLOWEST: u32 = 6;

/// One measurement.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Point {
    way: Way,
    pub(super) config: Config,
    /// Offered load in Mbit/s of datagrams.
    pub(super) offered: f64,
    /// Mbit/s of what the program received or sent between the marks.
    pub(super) goodput: f64,
    /// Frames that the device received or sent between the marks, in thousands a second.
    pub(super) kpps: f64,
    /// Instructions executed between the marks, of those there was time for.
    pub(super) load: f64,
    /// Datagrams lost, of the whole stream.
    pub(super) lost: f64,
    /// Beats of another program in a second between the marks; a thousand are all.
    pub(super) beats: f64,
    /// The longest time without one, in milliseconds.
    pub(super) longest: f64,
}

/// What one driver did.
#[derive(PartialEq, Debug)]
pub(super) struct Floods {
    points: Vec<Point>,
}

/// What the experiment found.
#[derive(Debug)]
pub(super) struct Experiment {
    /// What the C driver lost of UDP at the rate of the line, at shifts from 0 on; of the last one
    /// it lost something.
    pub(super) lost: Vec<f64>,
    /// What both did on that machine. It may be that ours loses nothing on it, and the line is what
    /// limits it.
    pub(super) first: Machine,
    /// The same on the fastest machine on which both lose: there the processor limits both.
    pub(super) limited: Machine,
}

/// What both drivers did on a machine of which an instruction takes 2^shift nanoseconds.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) shift: u32,
    pub(super) pair: Pair<Floods>,
}

/// What share of the datagrams must be lost to count as a load at which losses begin. Fewer get
/// lost now and then at any load, when the program that reads is late once.
const LOSSES: f64 = 1e-3;

/// Shell functions of all scripts. `point` measures one load; `loses` tells whether losses have
/// begun; `highest` narrows down where they do, between a load without and one with, both in
/// thousandths of the line's rate.
fn functions() -> String {
    format!(
        "N=/sys/class/net/eth0
         m=0
         window={WINDOW}
         sleep 30
         shape() {{
             gap=$3 count=$(((window + {AFTER}) * 1000 / $3))
             ctl 0x04 $1; ctl 0x08 $count; ctl 0x0c 1; ctl 0x10 $gap
             ctl 0x14 $2; ctl 0x18 1; ctl 0x1c 0
         }}
         run() {{
             out=$(/lab/flood $1 $m $window) || fail \"$out\"
             echo measure: point way ${{2:-$1}} config $config gap $gap count $count \\
                 ${{out#flood }}
             m=$((m + 2))
         }}
         point() {{
             shape {FRAME} 0x0800 $(({LINE_GAP} * 1000 / $1))
             run udp
             set -- $out
             lost=$((count - $9))
         }}
         often() {{
             all=0
             for i in $(seq {REPEATS}); do \"$@\"; all=$((all + lost)); done
             lost=$((all / {REPEATS}))
         }}
         loses() {{ [ $((lost * {per})) -ge $count ]; }}
         highest() {{
             low=$1 high=$2
             for i in 1 2 3 4; do
                 middle=$(((low + high) / 2))
                 point $middle
                 if loses; then high=$middle; else low=$middle; fi
             done
         }}
         other() {{ gap=0 count=0 lost=0; run $1; }}
         small() {{ shape 60 0x88b5 {SMALL_GAP}; run udp $1; }}
        ",
        per = (1.0 / LOSSES) as u32
    )
}

/// Everything that is measured with one driver. It begins as the brief one does, so that both find
/// the same.
fn script(driver: Driver) -> String {
    let mut script = functions();
    for config in CONFIGS {
        let _ = write!(
            script,
            "config={}
             {}
             often point 1000
             high=
             ! loses || high=10
             for k in 1 2 3 4 5 6 7 8 9; do
                 point $((k * 100))
                 if loses && [ $k -lt ${{high:-10}} ]; then high=$k; fi
             done
             [ -z \"$high\" ] || highest $((high * 100 - 100)) $((high * 100))
             often other tcp
             often other send\n",
            config.key(),
            config.script()
        );
        if *config == Config::Both {
            script.push_str("small small\n");
            if driver == Driver::Rust {
                script.push_str(
                    "ethtool --set-tunable eth0 rx-copybreak 256 || fail copybreak
                     small copied
                     ethtool --set-tunable eth0 rx-copybreak 0 || fail copybreak\n",
                );
            }
        }
    }
    script
}

/// UDP at the rate of the line, set up as the driver does it.
fn brief_script() -> String {
    let config = Config::Both;
    let (key, check) = (config.key(), config.script());
    format!("{}config={key}\n{check}often point 1000\n", functions())
}

fn setup(driver: Driver, shift: u32) -> Setup {
    Setup {
        shift,
        wire_mbps: 0,
        profile: false,
        ..Setup::costs("gbeth", false, driver)
    }
}

fn run(rig: &Rig, driver: Driver, shift: u32, script: &str, what: &str) -> Result<Floods> {
    let name = format!("bench-flood{what}-{}", driver.key());
    Floods::read(&rig.run(&setup(driver, shift), &name, script)?, shift)
}

/// UDP at the rate of the line.
pub(super) fn brief(rig: &Rig, driver: Driver, shift: u32) -> Result<Floods> {
    run(rig, driver, shift, &brief_script(), "-brief")
}

/// Everything.
pub(super) fn measure(rig: &Rig) -> Result<Experiment> {
    // The first machine on which a driver loses datagrams at the rate of the line.
    let first = |driver: Driver| -> Result<Vec<f64>> {
        let mut lost = Vec::new();
        while lost.last().is_none_or(|lost| *lost == 0.0) {
            let shift = lost.len() as u32;
            ensure!(shift <= SLOWEST, "{driver} loses nothing on any machine");
            lost.push(brief(rig, driver, shift)?.at_line(Config::Both)?.lost);
        }
        Ok(lost)
    };
    let machine = |shift| -> Result<Machine> {
        let (c, rust) = both(|driver| run(rig, driver, shift, &script(driver), ""))?;
        let pair = Pair { c, rust };
        Ok(Machine { shift, pair })
    };
    let (c, rust) = both(first)?;
    let shift = c.len() - 1;
    // Also where both lose on the same: a second machine says more.
    let limited = shift.max(rust.len() - 1).max(shift + 1);
    Ok(Experiment {
        lost: c,
        first: machine(shift as u32)?,
        limited: machine(limited as u32)?,
    })
}

/// The words of a line, in pairs of a name and a value.
fn pairs(line: &str) -> BTreeMap<&str, &str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    words
        .chunks_exact(2)
        .map(|pair| (pair[0], pair[1]))
        .collect()
}

impl Point {
    fn read(line: &str, marks: &BTreeMap<u32, Mark>, shift: u32) -> Result<Point> {
        let values = pairs(line);
        let text = |name: &str| {
            let value = values.get(name).copied();
            value.with_context(|| format!("{line:?} lacks {name}"))
        };
        let number = |name: &str| -> Result<u64> { Ok(text(name)?.parse()?) };
        let (way, config) = (text("way")?, text("config")?);
        let way = WAYS.iter().find(|(_, key)| *key == way);
        let (way, _) = *way.context("no such way")?;
        let config = CONFIGS.iter().find(|known| known.key() == config);
        let mark = number("mark")? as u32;
        let get = |mark| {
            let mark: Option<&Mark> = marks.get(&mark);
            mark.map(|mark| &mark.model)
                .with_context(|| format!("{line:?}: no mark"))
        };
        let (before, after) = (get(mark)?, get(mark + 1)?);
        let time = (after.now - before.now) as f64;
        let executed = after.executed - before.executed;
        let queue = if way == Way::Send { "tx0" } else { "rx0" };
        let frames = |mark: &super::rig::ModelMark| {
            let path = format!("/frames/{queue}");
            mark.counters
                .pointer(&path)
                .and_then(Value::as_u64)
                .unwrap_or(0)
        };
        let (count, total) = (number("count")?, number("total")?);
        // Its peer repeats nothing, as nothing is to be lost.
        ensure!(
            way != Way::Tcp || number("bytes")? > 0,
            "TCP came to a halt: {line:?}"
        );
        Ok(Point {
            way,
            config: *config.context("no such configuration")?,
            offered: match number("gap")? as u32 {
                0 => 0.0,
                gap => rate(gap),
            },
            goodput: number("bytes")? as f64 * 8e3 / time,
            kpps: (frames(after) - frames(before)) as f64 * 1e6 / time,
            load: (executed << shift) as f64 / time,
            lost: match way {
                Way::Udp => count.saturating_sub(total) as f64 / count as f64,
                _ => 0.0,
            },
            beats: number("beats")? as f64 * 1e9 / time,
            longest: number("longest")? as f64 / 1e6,
        })
    }

    /// The mean of several, and the longest pause.
    fn mean(points: &[&Point]) -> Point {
        let mean = |of: fn(&Point) -> f64| {
            points.iter().map(|point| of(point)).sum::<f64>() / points.len() as f64
        };
        Point {
            way: points[0].way,
            config: points[0].config,
            offered: points[0].offered,
            goodput: mean(|point| point.goodput),
            kpps: mean(|point| point.kpps),
            load: mean(|point| point.load),
            lost: mean(|point| point.lost),
            beats: mean(|point| point.beats),
            longest: points.iter().map(|point| point.longest).fold(0.0, f64::max),
        }
    }

    fn json(&self) -> Value {
        let way = WAYS.iter().find(|(way, _)| *way == self.way);
        json!({
            "way": way.map(|(_, key)| *key),
            "config": self.config.key(),
            "offered_mbps": self.offered,
            "goodput_mbps": self.goodput,
            "kpps": self.kpps,
            "load": self.load,
            "lost": self.lost,
            "beats_per_second": self.beats,
            "longest_ms": self.longest,
        })
    }
}

impl Floods {
    fn read(outcome: &Outcome, shift: u32) -> Result<Floods> {
        let points = outcome
            .lines
            .iter()
            .filter_map(|line| line.strip_prefix("point "))
            .map(|line| Point::read(line, &outcome.marks, shift))
            .collect::<Result<_>>()?;
        Ok(Floods { points })
    }

    /// Points of a way and a configuration, in the order of what was offered: means of those that
    /// were measured more than once.
    pub(super) fn of(&self, way: Way, config: Config) -> Vec<Point> {
        let chosen = |point: &&Point| point.way == way && point.config == config;
        let mut points: Vec<&Point> = self.points.iter().filter(chosen).collect();
        points.sort_by(|a, b| a.offered.total_cmp(&b.offered));
        points
            .chunk_by(|a, b| a.offered == b.offered)
            .map(Point::mean)
            .collect()
    }

    /// The last of them: of UDP the rate of the line.
    pub(super) fn last(&self, way: Way, config: Config) -> Result<Point> {
        let last = self.of(way, config).pop();
        last.with_context(|| format!("{way:?}, {config:?}: not measured"))
    }

    /// UDP at the rate of the line.
    pub(super) fn at_line(&self, config: Config) -> Result<Point> {
        self.last(Way::Udp, config)
    }

    /// Goodput of UDP at the rate of the line, of each time.
    fn goodputs(&self, config: Config) -> Vec<f64> {
        self.points
            .iter()
            .filter(|point| point.way == Way::Udp && point.config == config)
            .filter(|point| point.offered >= line_rate())
            .map(|point| point.goodput)
            .collect()
    }

    /// The lowest load of which [`LOSSES`] were lost, in Mbit/s.
    pub(super) fn loses_from(&self, config: Config) -> Option<f64> {
        let points = self.of(Way::Udp, config);
        let first = points.iter().find(|point| point.lost >= LOSSES);
        first.map(|point| point.offered)
    }

    fn json(&self) -> Value {
        let drops: BTreeMap<_, _> = CONFIGS
            .iter()
            .map(|config| (config.key(), self.loses_from(*config)))
            .collect();
        let points: Vec<_> = self.points.iter().map(Point::json).collect();
        json!({ "loses_from_mbps": drops, "points": points })
    }
}

impl Experiment {
    /// Goodput, Rust ÷ C, on the first machine on which the C driver loses datagrams: the lowest
    /// of the configurations in which it is the processor that limits it.
    pub(super) fn ratio(&self) -> Result<f64> {
        let mut lowest = f64::INFINITY;
        for &config in CONFIGS {
            if self.first.limits_c(config)? {
                lowest = lowest.min(self.first.ratio(config)?.0);
            }
        }
        ensure!(lowest.is_finite(), "the line limits the C driver always");
        Ok(lowest)
    }

    pub(super) fn json(&self) -> Value {
        json!({
            "line_rate_mbps": line_rate(),
            "lost_by_c_at_shift": self.lost,
            "first": self.first.json(),
            "limited": self.limited.json(),
        })
    }
}

impl Machine {
    fn json(&self) -> Value {
        json!({
            "shift": self.shift,
            "c": self.pair.c.json(),
            "rust": self.pair.rust.json(),
        })
    }

    /// Goodput of UDP at the rate of the line, Rust ÷ C, and its confidence interval.
    pub(super) fn ratio(&self, config: Config) -> Result<(f64, (f64, f64))> {
        let (c, rust) = (
            self.pair.c.goodputs(config),
            self.pair.rust.goodputs(config),
        );
        Ok((goodput_ratio(&self.pair, config)?, interval(&rust, &c)))
    }

    /// The load at which losses begin, Rust ÷ C, if they do with both.
    pub(super) fn loses_from(&self, config: Config) -> Option<f64> {
        let (c, rust) = (&self.pair.c, &self.pair.rust);
        Some(rust.loses_from(config)? / c.loses_from(config)?)
    }

    /// Whether it is the processor that limits the C driver, and not the line.
    fn limits_c(&self, config: Config) -> Result<bool> {
        Ok(self.pair.c.at_line(config)?.lost > 0.01)
    }
}

/// Goodput of UDP at the rate of the line, Rust ÷ C.
pub(super) fn goodput_ratio(pair: &Pair<Floods>, config: Config) -> Result<f64> {
    let goodput = |floods: &Floods| Ok(floods.at_line(config)?.goodput);
    let (c, rust): (Result<f64>, Result<f64>) = (goodput(&pair.c), goodput(&pair.rust));
    Ok(rust? / c?)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line of the script, and the marks it names.
    fn point(gap: u32, count: u64, total: u64) -> Point {
        let mark = |mark: u32, executed: u64, now: u64, frames: u64| {
            let model = json!({
                "mark": mark, "executed": executed, "now": now, "left": 0,
                "counters": { "frames": { "rx0": frames } },
            });
            let mark = Mark {
                model: serde_json::from_value(model).unwrap(),
                profile: Default::default(),
            };
            (mark.model.mark, mark)
        };
        let marks = BTreeMap::from([mark(4, 100, 1000, 10), mark(5, 50_100, 1_001_000, 90)]);
        let line = format!(
            "way udp config coalescing gap {gap} count {count} mark 4 bytes 14720 packets 10 \
             total {total} beats 1 longest 2000000"
        );
        Point::read(&line, &marks, 3).unwrap()
    }

    #[test]
    fn a_line_becomes_a_point() {
        let point = point(12304, 40, 30);
        assert_eq!(point.config, Config::Coalescing);
        assert!((point.offered - 957.087).abs() < 0.001);
        assert!((point.goodput - 117.76).abs() < 0.001);
        assert!((point.kpps - 80.0).abs() < 0.001);
        // 50000 instructions of 8 ns in a millisecond.
        assert!((point.load - 0.4).abs() < 0.001);
        assert!((point.lost - 0.25).abs() < 0.001);
        assert!((point.beats - 1000.0).abs() < 0.001);
        assert!((point.longest - 2.0).abs() < 0.001);
        assert!(Point::read("way udp", &BTreeMap::new(), 0).is_err());
    }

    #[test]
    fn equal_loads_are_averaged() {
        let floods = Floods {
            points: vec![
                point(12304, 40, 30),
                point(24608, 40, 40),
                point(12304, 40, 20),
            ],
        };
        let points = floods.of(Way::Udp, Config::Coalescing);
        assert_eq!(points.len(), 2);
        assert!((points[1].lost - 0.375).abs() < 0.001);
        assert!((points[1].goodput - 117.76).abs() < 0.001);
    }

    #[test]
    fn losses_begin_at_the_lowest_load_with_one() {
        let floods = Floods {
            points: vec![point(12304, 9, 3), point(24608, 9, 9), point(18456, 9, 8)],
        };
        let from = floods.loses_from(Config::Coalescing).unwrap();
        assert!((from - rate(18456)).abs() < 0.001);
        let line = floods.at_line(Config::Coalescing).unwrap();
        assert!((line.offered - line_rate()).abs() < 0.001);
        assert_eq!(floods.loses_from(Config::Both), None);
    }
}
