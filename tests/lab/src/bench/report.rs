// SPDX-License-Identifier: GPL-2.0
//! What `make bench` leaves behind: tables for people, `bench.json` for programs, the part of
//! `Documentation/benchmarks.rst` that holds figures, and its plots.

use super::cost::{interval, rounded, Cost};
use super::flood::{self, Config, Experiment, Floods, Machine, Way, CONFIGS};
use super::iperf::Rates;
use super::lean;
use super::profile::{Place, PLACES};
use super::svg::{bars, lines, Bar, Line};
use super::{Measured, Pair, Results, VARIANTS};
use crate::env::Env;
use crate::report;
use anyhow::{Context, Result};
use serde_json::{json, Map, Value};
use std::fmt::Write;
use std::fs;

/// Events of a packet that the tables show, with their names for people.
const EVENTS: &[(&str, &str)] = &[
    ("mmio_reads", "MMIO reads"),
    ("mmio_writes", "MMIO writes"),
    ("doorbells", "doorbells"),
    ("interrupts", "interrupts"),
    ("polls", "polls"),
    ("ring_word0_loads", "ring loads, word 0"),
    ("ring_other_loads", "ring loads, others"),
    ("ring_word0_stores", "ring stores, word 0"),
    ("ring_other_stores", "ring stores, others"),
    ("barriers", "data barriers"),
    ("driver_barriers", "of them in the driver"),
    ("cache_operations", "cache operations"),
    ("cache_lines", "cache lines maintained"),
    ("slab_allocations", "slab allocations"),
    ("page_allocations", "page allocations"),
    ("driver_calls", "calls by the driver"),
    ("driver_divisions", "divisions by the driver"),
    ("driver_atomics", "atomics of the driver"),
];

/// Ratios of bench.json: key, case, and what of it.
const RATIOS: &[(&str, &str, Part)] = &[
    ("rx_64", "rx_64", Cost::all),
    ("rx_1518", "rx_1518", Cost::all),
    ("rx_8192", "rx_8192", Cost::all),
    ("rx_64_owned", "rx_64", Cost::owned),
    ("rx_1518_owned", "rx_1518", Cost::owned),
    ("rx_paced", "rx_paced", Cost::all),
    ("tx_64_burst", "tx_64_burst", Cost::all),
    ("tx_tcp_1514", "tx_tcp_1514", Cost::all),
    ("rx_udp", "rx_udp", Cost::all),
];

type Part = fn(&Cost) -> f64;

impl Cost {
    fn all(&self) -> f64 {
        self.total
    }
}

impl Measured {
    fn heading(&self) -> String {
        format!(
            "{}, {}, {}",
            self.case.title,
            self.variant,
            if self.coherent {
                "coherent"
            } else {
                "dma-noncoherent"
            }
        )
    }

    fn ratio(&self, of: Part) -> f64 {
        of(&self.pair.rust) / of(&self.pair.c)
    }

    /// Confidence interval of the total's ratio.
    fn interval(&self) -> (f64, f64) {
        let totals = |cost: &Cost| cost.spread.iter().map(|pair| pair.0).collect::<Vec<_>>();
        interval(&totals(&self.pair.rust), &totals(&self.pair.c))
    }

    fn json(&self) -> Value {
        let (low, high) = self.interval();
        json!({
            "case": self.case.name,
            "title": self.case.title,
            "variant": self.variant,
            "coherent": self.coherent,
            "ratio": rounded(self.ratio(Cost::all)),
            "ratio_interval": [rounded(low), rounded(high)],
            "ratio_owned": rounded(self.ratio(Cost::owned)),
            "ratio_driver": rounded(self.ratio(Cost::driver)),
            "c": self.pair.c.json(),
            "rust": self.pair.rust.json(),
        })
    }

    /// Rows of a table: what, C, Rust, Rust/C.
    fn rows(&self) -> Vec<Vec<String>> {
        let (c, rust) = (&self.pair.c, &self.pair.rust);
        let mut rows = vec![["per packet", "C", "Rust", "Rust/C"]
            .map(str::to_string)
            .to_vec()];
        let mut row = |name: &str, c: f64, rust: f64, digits: usize| {
            let ratio = if c < 0.05 {
                "".into()
            } else {
                format!("{:.3}", rust / c)
            };
            let number = |value: f64| format!("{:.digits$}", value + 0.0);
            rows.push(vec![name.to_string(), number(c), number(rust), ratio]);
        };
        row("instructions", c.total, rust.total, 0);
        row("driver-owned set", c.owned(), rust.owned(), 0);
        let (pc, pr) = (c.places(), rust.places());
        for place in PLACES {
            row(place.title(), pc[place].max(0.0), pr[place].max(0.0), 0);
        }
        for (key, title) in EVENTS {
            let get = |cost: &Cost| cost.events.get(key).copied().unwrap_or(0.0);
            if get(c).abs() >= 0.0005 || get(rust).abs() >= 0.0005 {
                row(title, get(c).max(0.0), get(rust).max(0.0), 3);
            }
        }
        rows
    }
}

/// Writes everything; the documentation only if all was measured.
pub(super) fn write(env: &Env, results: &Results, complete: bool) -> Result<()> {
    for result in &results.costs {
        println!(
            "\n{}\n\n{}",
            result.heading(),
            report::table(&result.rows())
        );
        println!("  most expensive functions of the Rust run");
        for (symbol, cost) in result.pair.rust.top(40) {
            println!(
                "  {cost:8.1}  {:9}  {}",
                symbol.place().key(),
                symbol.display()
            );
        }
        println!("  most expensive functions of the C run");
        for (symbol, cost) in result.pair.c.top(25) {
            println!(
                "  {cost:8.1}  {:9}  {}",
                symbol.place().key(),
                symbol.display()
            );
        }
    }
    if let Some(experiment) = &results.experiment {
        for (heading, rows) in experiment.tables(&results.costs)? {
            println!("\n{heading}\n\n{}", report::table(&rows));
        }
    }
    if let Some(rates) = &results.iperf {
        println!("\n{IPERF}\n\n{}", report::table(&rates.rows()));
    }
    report::write(env, "bench", &json(results)?)?;
    if complete {
        document(env, results)?;
    }
    Ok(())
}

fn json(results: &Results) -> Result<Value> {
    let mut ratios = Map::new();
    for (key, case, of) in RATIOS {
        if let Some(result) = headline(&results.costs).find(|result| result.case.name == *case) {
            ratios.insert(key.to_string(), rounded(result.ratio(*of)));
        }
    }
    if let Some(experiment) = &results.experiment {
        let (default, _) = experiment.first.ratio(Config::Both)?;
        let (overload, _) = experiment.limited.ratio(Config::Both)?;
        for (key, ratio) in [
            ("udp_goodput_1cpu", experiment.ratio()?),
            ("udp_goodput_1cpu_default", default),
            ("udp_goodput_1cpu_overload", overload),
        ] {
            ratios.insert(key.into(), rounded(ratio));
        }
    }
    Ok(json!({
        "unit": "instructions per packet, Rust / C on the stock kernel under QEMU -icount; \
                 of goodput Mbit/s, Rust / C",
        "ratios": ratios,
        "cases": results.costs.iter().map(Measured::json).collect::<Vec<_>>(),
        "experiment": results.experiment.as_ref().map(Experiment::json),
        "iperf3": results.iperf.as_ref().map(Pair::json),
    }))
}

/// What the headline figures are taken from.
fn headline(results: &[Measured]) -> impl Iterator<Item = &Measured> {
    results
        .iter()
        .filter(|result| result.variant == "gbeth" && !result.coherent)
}

/// Puts `text` between the two lines of Documentation/benchmarks.rst that name who writes there.
fn fill(env: &Env, who: &str, text: &str) -> Result<()> {
    let path = env.project.join("Documentation/benchmarks.rst");
    let old = fs::read_to_string(&path).context("Documentation/benchmarks.rst is missing")?;
    let (begin, end) = (
        format!(".. begin of what {who} writes\n"),
        format!(".. end of what {who} writes\n"),
    );
    let parts = || {
        let (head, rest) = old.split_once(&begin)?;
        Some((head, rest.split_once(&end)?.1))
    };
    let (head, tail) =
        parts().with_context(|| format!("benchmarks.rst has no place for what {who} writes"))?;
    fs::write(&path, format!("{head}{begin}\n{text}\n{end}{tail}"))?;
    Ok(())
}

fn document(env: &Env, results: &Results) -> Result<()> {
    let plots = env.project.join("Documentation/benchmarks");
    fs::create_dir_all(&plots)?;
    for variant in VARIANTS {
        let chosen: Vec<&Measured> = results
            .costs
            .iter()
            .filter(|result| result.variant == variant && !result.coherent)
            .collect();
        fs::write(
            plots.join(format!("ratios-{variant}.svg")),
            ratios(variant, &chosen),
        )?;
        fs::write(
            plots.join(format!("places-{variant}.svg")),
            places(variant, &chosen),
        )?;
    }
    if let Some(experiment) = &results.experiment {
        for (name, machine) in experiment.machines() {
            fs::write(plots.join(format!("goodput-{name}.svg")), goodput(machine))?;
        }
    }
    fill(env, "make bench", &figures(results)?)
}

/// What was measured on lean kernels.
pub(super) fn write_lean(env: &Env, all: &[lean::Measured]) -> Result<()> {
    let mut rows = vec![titles(&[
        "case", "overflow", "helpers", "C", "Rust", "Rust/C", "driver", "owned",
    ])];
    let count = all.first().map_or(0, |measured| measured.cases.len());
    for index in 0..count {
        for measured in all {
            let (case, Pair { c, rust }) = &measured.cases[index];
            let code = measured.code;
            let choose = |on: bool, yes: &str, no: &str| if on { yes } else { no }.to_string();
            rows.push(vec![
                case.title.to_string(),
                choose(code.overflow_checks, "checked", "unchecked"),
                choose(code.inline_helpers, "inlined", "called"),
                format!("{:.0}", c.total),
                format!("{:.0}", rust.total),
                format!("{:.3}", rust.total / c.total),
                format!("{:.3}", rust.driver() / c.driver()),
                format!("{:.3}", rust.owned() / c.owned()),
            ]);
        }
    }
    println!("\n{}", report::table(&rows));
    let json: Vec<Value> = all.iter().map(lean::Measured::json).collect();
    report::write(env, "bench-lean", &json)?;
    fill(env, "make bench-full", &rst(&rows))
}

fn figures(results: &Results) -> Result<String> {
    let mut summary = vec![[
        "case",
        "C",
        "Rust",
        "Rust/C",
        "95 % interval",
        "owned",
        "driver",
    ]
    .map(str::to_string)
    .to_vec()];
    for result in &results.costs {
        let (low, high) = result.interval();
        let spread = if result.coherent {
            String::new()
        } else {
            format!("{low:.3} to {high:.3}")
        };
        summary.push(vec![
            result.heading(),
            format!("{:.0}", result.pair.c.total),
            format!("{:.0}", result.pair.rust.total),
            format!("{:.3}", result.ratio(Cost::all)),
            spread,
            format!("{:.3}", result.ratio(Cost::owned)),
            format!("{:.3}", result.ratio(Cost::driver)),
        ]);
    }
    let mut text = String::new();
    for variant in VARIANTS {
        for plot in ["ratios", "places"] {
            let _ = writeln!(text, ".. figure:: benchmarks/{plot}-{variant}.svg\n");
        }
    }
    text.push_str(&rst(&summary));
    let section = |heading: &str, rows: &[Vec<String>]| {
        let line = "-".repeat(heading.chars().count());
        format!("\n{heading}\n{line}\n\n{}", rst(rows))
    };
    if let Some(experiment) = &results.experiment {
        for (heading, rows) in experiment.tables(&results.costs)? {
            text.push_str(&section(&heading, &rows));
        }
        for (name, _) in experiment.machines() {
            let _ = write!(text, "\n.. figure:: benchmarks/goodput-{name}.svg\n");
        }
    }
    if let Some(rates) = &results.iperf {
        text.push_str(&section(IPERF, &rates.rows()));
    }
    for result in results.costs.iter().filter(|result| !result.coherent) {
        text.push_str(&section(&result.heading(), &result.rows()));
    }
    Ok(text)
}

impl Experiment {
    /// Both machines, with their names in files.
    fn machines(&self) -> [(&'static str, &Machine); 2] {
        [("first-loss", &self.first), ("limited", &self.limited)]
    }

    /// Headings and tables.
    fn tables(&self, costs: &[Measured]) -> Result<Vec<(String, Vec<Vec<String>>)>> {
        let mut rows = vec![titles(&["instruction", "C loses"])];
        for (shift, lost) in self.lost.iter().enumerate() {
            rows.push(vec![format!("{} ns", 1 << shift), percent(*lost)]);
        }
        let heading = "UDP at the rate of the line: where the C driver begins to lose datagrams";
        let mut all = vec![(heading.to_string(), rows)];
        let mut rows = vec![titles(&[
            "instruction",
            "set up",
            "goodput, Rust/C",
            "95 % interval",
            "loses 0.1 % from, Rust/C",
        ])];
        for (_, machine) in self.machines() {
            for &config in CONFIGS {
                let (ratio, (low, high)) = machine.ratio(config)?;
                let from = machine.loses_from(config);
                rows.push(vec![
                    format!("{} ns", 1 << machine.shift),
                    config.title().into(),
                    format!("{ratio:.3}"),
                    format!("{low:.3} to {high:.3}"),
                    from.map_or(String::new(), |from| format!("{from:.3}")),
                ]);
            }
        }
        if let Some(udp) = headline(costs).find(|result| result.case.name == "rx_udp") {
            // What the lower cost of a datagram is worth, less 3 %.
            let wanted = 0.97 / udp.ratio(Cost::all);
            rows.push(vec![
                String::new(),
                "0.97 ÷ cost of a datagram".into(),
                format!("{wanted:.3}"),
                String::new(),
                String::new(),
            ]);
        }
        all.push((
            "UDP received at the rate of the line: the drivers compared".into(),
            rows,
        ));
        for (_, machine) in self.machines() {
            let speed = format!("an instruction takes {} ns", 1 << machine.shift);
            all.push((
                format!("UDP received at the rate of the line, {speed}"),
                machine.udp()?,
            ));
            all.push((
                format!("TCP received and UDP sent, {speed}"),
                machine.others()?,
            ));
            all.push((
                format!("64-byte frames received and rx-copybreak, {speed}"),
                machine.small()?,
            ));
        }
        Ok(all)
    }
}

const IPERF: &str = "iperf3 on two processors without -icount, median of five";

impl Pair<Rates> {
    fn rows(&self) -> Vec<Vec<String>> {
        let (receive, transmit) = self.ratios();
        vec![
            titles(&["TCP", "Rust/C"]),
            vec!["received".into(), format!("{receive:.2}")],
            vec!["sent".into(), format!("{transmit:.2}")],
        ]
    }
}

fn titles(titles: &[&str]) -> Vec<String> {
    titles.iter().map(|title| title.to_string()).collect()
}

fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}

impl Machine {
    fn drivers(&self) -> [(&'static str, &Floods); 2] {
        [("C", &self.pair.c), ("Rust", &self.pair.rust)]
    }

    /// A row for each configuration and driver.
    fn table(
        &self,
        columns: &[&str],
        row: impl Fn(&Floods, Config) -> Result<Vec<String>>,
    ) -> Result<Vec<Vec<String>>> {
        let mut rows = vec![titles(&[&["set up", "driver"], columns].concat())];
        for &config in CONFIGS {
            for (name, floods) in self.drivers() {
                let mut cells = titles(&[config.title(), name]);
                cells.extend(row(floods, config)?);
                rows.push(cells);
            }
        }
        Ok(rows)
    }

    fn udp(&self) -> Result<Vec<Vec<String>>> {
        let columns = [
            "Mbit/s",
            "CPU load",
            "lost",
            "loses 0.1 % from Mbit/s",
            "beats a second",
            "longest pause",
        ];
        self.table(&columns, |floods, config| {
            let point = floods.at_line(config)?;
            let from = floods.loses_from(config);
            Ok(vec![
                format!("{:.1}", point.goodput),
                percent(point.load),
                percent(point.lost),
                from.map_or("never".into(), |load| format!("{load:.0}")),
                format!("{:.0}", point.beats),
                format!("{:.1} ms", point.longest),
            ])
        })
    }

    fn others(&self) -> Result<Vec<Vec<String>>> {
        let columns = [
            "TCP received, Mbit/s",
            "CPU load",
            "UDP sent, Mbit/s",
            "CPU load",
        ];
        self.table(&columns, |floods, config| {
            let mut cells = Vec::new();
            for way in [Way::Tcp, Way::Send] {
                let point = floods.last(way, config)?;
                cells.push(format!("{:.1}", point.goodput));
                cells.push(percent(point.load));
            }
            Ok(cells)
        })
    }

    fn small(&self) -> Result<Vec<Vec<String>>> {
        let mut rows = vec![titles(&[
            "driver",
            "rx-copybreak",
            "thousand frames a second",
        ])];
        for (driver, copybreak, floods, way) in [
            ("C", "none", &self.pair.c, Way::Small),
            ("Rust", "0", &self.pair.rust, Way::Small),
            ("Rust", "256", &self.pair.rust, Way::SmallCopied),
        ] {
            let kpps = format!("{:.1}", floods.last(way, Config::Both)?.kpps);
            rows.push(vec![driver.into(), copybreak.into(), kpps]);
        }
        Ok(rows)
    }
}

fn goodput(machine: &Machine) -> String {
    let mut all = Vec::new();
    for (colour, &config) in CONFIGS.iter().enumerate() {
        for (name, floods) in machine.drivers() {
            let points = floods.of(Way::Udp, config);
            all.push(Line {
                label: format!("{}, {name}", config.title()),
                points: points
                    .iter()
                    .map(|point| (point.offered, point.goodput))
                    .collect(),
                colour,
                dashed: name == "C",
            });
        }
    }
    let title = format!(
        "UDP on one processor of {} ns an instruction, gbeth, dma-noncoherent",
        1 << machine.shift
    );
    let axes = ["offered, Mbit/s of data", "received, Mbit/s of data"];
    lines(&title, axes, &all, flood::line_rate())
}

/// A simple table of reStructuredText.
fn rst(rows: &[Vec<String>]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
            .max(1)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let rule = widths
        .iter()
        .map(|width| "=".repeat(*width))
        .collect::<Vec<_>>()
        .join("  ");
    let line = |row: &Vec<String>| {
        let cells = row
            .iter()
            .zip(&widths)
            .enumerate()
            .map(|(index, (cell, width))| {
                // An empty first cell would continue the row above; ours never is.
                if index == 0 {
                    format!("{cell:<width$}")
                } else {
                    format!("{cell:>width$}")
                }
            });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
    };
    let mut text = format!("{rule}\n");
    for (index, row) in rows.iter().enumerate() {
        let _ = writeln!(text, "{}", line(row));
        if index == 0 {
            let _ = writeln!(text, "{rule}");
        }
    }
    text + &rule + "\n"
}

fn ratios(variant: &str, results: &[&Measured]) -> String {
    let mut all = Vec::new();
    for result in results {
        for (index, (name, of)) in [
            ("total", Cost::all as Part),
            ("driver-owned set", Cost::owned),
        ]
        .into_iter()
        .enumerate()
        {
            let ratio = result.ratio(of);
            let mut parts = vec![0.0; 2];
            parts[index] = ratio;
            all.push(Bar {
                label: format!("{}, {name}", result.case.title),
                parts,
                note: format!("{ratio:.3}"),
                new_group: index == 0,
            });
        }
    }
    let title = format!("Instructions per packet, Rust / C: {variant}, dma-noncoherent");
    bars(&title, &["total", "driver-owned set"], &all, Some(1.0))
}

fn places(variant: &str, results: &[&Measured]) -> String {
    let mut all = Vec::new();
    for result in results {
        for (name, cost) in [("C", &result.pair.c), ("Rust", &result.pair.rust)] {
            let places = cost.places();
            all.push(Bar {
                label: format!("{}, {name}", result.case.title),
                parts: PLACES.iter().map(|place| places[place].max(0.0)).collect(),
                note: format!("{:.0}", cost.total),
                new_group: name == "C",
            });
        }
    }
    let titles: Vec<&str> = PLACES.iter().map(|place| Place::title(*place)).collect();
    let title = format!("Where a packet's instructions go: {variant}, dma-noncoherent");
    bars(&title, &titles, &all, None)
}
