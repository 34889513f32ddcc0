// SPDX-License-Identifier: GPL-2.0
//! What a packet costs: slopes over the number of packets.

use super::cases::{Case, Series};
use super::profile::{Class, Place, Profile, Symbol, CLASSES, PLACES};
use super::rig::{Mark, Outcome};
use anyhow::{ensure, Context, Result};
use serde_json::{json, Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Functions whose calls are counted, by the prefixes of their names.
const CALLS: &[(&str, &[&str])] = &[
    (
        "slab_allocations",
        &["kmem_cache_alloc", "__kmalloc", "kmalloc_node"],
    ),
    (
        "page_allocations",
        &["__alloc_frozen_pages_noprof", "alloc_pages_bulk_noprof"],
    ),
    ("polls", &["__napi_poll"]),
    (
        "cache_operations",
        &["dcache_clean_poc", "dcache_inval_poc"],
    ),
];

/// What one packet costs.
#[derive(Clone, Debug)]
pub(super) struct Cost {
    /// Instructions, without those of the packet generator.
    pub(super) total: f64,
    /// Instructions by function.
    pub(super) functions: BTreeMap<Symbol, f64>,
    /// Other things that are counted, by name.
    pub(super) events: BTreeMap<&'static str, f64>,
    /// Instructions in total and of the driver-owned set, for each phase.
    pub(super) spread: Vec<(f64, f64)>,
}

impl Cost {
    /// From the marks of a case: the mean over its series.
    pub(super) fn new(case: &Case, series: &[Series], outcome: &Outcome) -> Result<Cost> {
        let all = series
            .iter()
            .map(|series| Cost::of_series(case, series, outcome))
            .collect::<Result<Vec<_>>>()?;
        ensure!(!all.is_empty(), "no series");
        let share = 1.0 / all.len() as f64;
        let mut mean = Cost {
            total: 0.0,
            functions: BTreeMap::new(),
            events: BTreeMap::new(),
            spread: Vec::new(),
        };
        for cost in all {
            mean.total += cost.total * share;
            for (symbol, value) in cost.functions {
                *mean.functions.entry(symbol).or_default() += value * share;
            }
            for (name, value) in cost.events {
                *mean.events.entry(name).or_default() += value * share;
            }
            mean.spread.extend(cost.spread);
        }
        Ok(mean)
    }

    fn of_series(case: &Case, series: &Series, outcome: &Outcome) -> Result<Cost> {
        let samples = Sample::all(case, series, outcome)?;
        let total = slope(&samples, |profile, _| counted(profile));
        let functions = functions(&samples);
        Ok(Cost {
            spread: vec![(total, owned(&functions))],
            total,
            functions,
            events: events(case, &samples),
        })
    }

    /// Instructions by place.
    pub(super) fn places(&self) -> BTreeMap<Place, f64> {
        let mut places: BTreeMap<_, _> = PLACES.iter().map(|place| (*place, 0.0)).collect();
        for (symbol, cost) in &self.functions {
            *places.entry(symbol.place()).or_default() += cost;
        }
        places
    }

    /// Instructions of what the driver answers for.
    pub(super) fn owned(&self) -> f64 {
        owned(&self.functions)
    }

    /// Instructions of the driver and its wrappers.
    pub(super) fn driver(&self) -> f64 {
        let places = self.places();
        places[&Place::Driver] + places[&Place::Wrappers]
    }

    /// The functions that cost most.
    pub(super) fn top(&self, count: usize) -> Vec<(&Symbol, f64)> {
        let mut all: Vec<_> = self.functions.iter().map(|(s, cost)| (s, *cost)).collect();
        all.sort_by(|a, b| b.1.total_cmp(&a.1));
        all.truncate(count);
        all
    }

    /// For bench.json.
    pub(super) fn json(&self) -> Value {
        let places: Map<String, Value> = self
            .places()
            .iter()
            .map(|(place, cost)| (place.key().to_string(), rounded(*cost)))
            .collect();
        let events: Map<String, Value> = self
            .events
            .iter()
            .map(|(name, cost)| (name.to_string(), rounded(*cost)))
            .collect();
        let functions: Map<String, Value> = self
            .top(40)
            .into_iter()
            .map(|(symbol, cost)| (symbol.display(), rounded(cost)))
            .collect();
        json!({
            "instructions": rounded(self.total),
            "owned": rounded(self.owned()),
            "places": places,
            "events": events,
            "functions": functions,
        })
    }
}

fn owned(functions: &BTreeMap<Symbol, f64>) -> f64 {
    functions
        .iter()
        .filter(|(symbol, _)| symbol.place().is_owned())
        .map(|(_, cost)| cost)
        .sum()
}

/// Instructions of a profile without the packet generator's own: at its end it spins until the
/// last packet has been freed, for as long as the scheduler pleases.
fn counted(profile: &Profile) -> f64 {
    let source: u64 = profile
        .functions
        .iter()
        .filter(|(symbol, _)| symbol.place() == Place::Source)
        .map(|(_, count)| count)
        .sum();
    (profile.total - source) as f64
}

/// Three decimals: what is less is rounding of the slope.
pub(super) fn rounded(value: f64) -> Value {
    // Also turns -0.0 into 0.0.
    json!((value * 1000.0).round() / 1000.0 + 0.0)
}

/// What one point gave.
struct Sample<'a> {
    /// Packets.
    packets: f64,
    before: &'a Mark,
    after: &'a Mark,
}

impl<'a> Sample<'a> {
    fn all(case: &Case, series: &Series, outcome: &'a Outcome) -> Result<Vec<Sample<'a>>> {
        let mut samples = Vec::new();
        for point in &series.points {
            let get = |number| {
                let mark = outcome.marks.get(&number);
                mark.with_context(|| format!("no mark {number}"))
            };
            let mut sample = Sample {
                packets: 0.0,
                before: get(point.mark)?,
                after: get(point.mark + 1)?,
            };
            sample.packets = sample.counted(&format!("/frames/{}", case.queue()));
            ensure!(
                sample.packets >= f64::from(point.count)
                    && sample.packets < f64::from(point.count + case.overshoot(point.count))
                    && sample.after.model.left == 0,
                "{}: {} of {} frames passed, {} left; drops {}",
                case.name,
                sample.packets,
                point.count,
                sample.after.model.left,
                sample.after.model.counters["rx_drops"]
            );
            samples.push(sample);
        }
        Ok(samples)
    }

    /// By how much a counter of the model rose; of an array or object the sum.
    fn counted(&self, path: &str) -> f64 {
        fn sum(value: &Value) -> f64 {
            match value {
                Value::Array(all) => all.iter().map(sum).sum(),
                Value::Object(all) => all.values().map(sum).sum(),
                value => value.as_f64().unwrap_or(0.0),
            }
        }
        let value = |mark: &Mark| mark.model.counters.pointer(path).map_or(0.0, sum);
        value(self.after) - value(self.before)
    }
}

/// Slope of the least-squares line through a value of each sample over its packets.
fn slope(samples: &[Sample<'_>], value: impl Fn(&Profile, &Sample<'_>) -> f64) -> f64 {
    let points: Vec<_> = samples
        .iter()
        .map(|sample| (sample.packets, value(&sample.after.profile, sample)))
        .collect();
    line(&points)
}

fn line(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let mean = |value: fn(&(f64, f64)) -> f64| points.iter().map(value).sum::<f64>() / n;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let covariance: f64 = points.iter().map(|(a, b)| (a - x) * (b - y)).sum();
    let variance: f64 = points.iter().map(|(a, _)| (a - x) * (a - x)).sum();
    covariance / variance
}

fn functions(samples: &[Sample<'_>]) -> BTreeMap<Symbol, f64> {
    let names: BTreeSet<&Symbol> = samples
        .iter()
        .flat_map(|sample| sample.after.profile.functions.keys())
        .collect();
    names
        .into_iter()
        .map(|symbol| {
            let count = |profile: &Profile, _: &Sample<'_>| {
                profile.functions.get(symbol).copied().unwrap_or(0) as f64
            };
            (symbol.clone(), slope(samples, count))
        })
        .collect()
}

fn events(case: &Case, samples: &[Sample<'_>]) -> BTreeMap<&'static str, f64> {
    let queue = case.queue();
    let mut events = BTreeMap::new();
    for (name, path) in [
        ("mmio_reads", "/mmio_reads_total".to_string()),
        ("mmio_writes", "/mmio_writes_total".to_string()),
        ("interrupts", "/irq_edges".to_string()),
        ("doorbells", "/doorbells".to_string()),
        (
            "ring_word0_loads",
            format!("/cpu_descriptors/{queue}/word0_loads"),
        ),
        (
            "ring_other_loads",
            format!("/cpu_descriptors/{queue}/other_loads"),
        ),
        (
            "ring_word0_stores",
            format!("/cpu_descriptors/{queue}/word0_stores"),
        ),
        (
            "ring_other_stores",
            format!("/cpu_descriptors/{queue}/other_stores"),
        ),
    ] {
        events.insert(name, slope(samples, |_, sample| sample.counted(&path)));
    }
    for (name, prefixes) in CALLS {
        let calls = |profile: &Profile, _: &Sample<'_>| {
            profile
                .calls
                .iter()
                .filter(|(symbol, _)| prefixes.iter().any(|p| symbol.name.starts_with(p)))
                .map(|(_, count)| *count as f64)
                .sum()
        };
        events.insert(name, slope(samples, calls));
    }
    for class in CLASSES {
        let count = |map: &BTreeMap<Class, u64>| map.get(class).copied().unwrap_or(0) as f64;
        events.insert(class.key(), slope(samples, |p, _| count(&p.classes)));
        events.insert(
            class.driver_key(),
            slope(samples, |p, _| count(&p.driver_classes)),
        );
    }
    events
}

/// 95 % confidence interval of the ratio of two means, by bootstrap.
pub(super) fn interval(over: &[f64], under: &[f64]) -> (f64, f64) {
    const ROUNDS: usize = 2000;
    // Numerical Recipes' generator: the same interval each time.
    let mut state = 1u32;
    let mut pick = |values: &[f64]| -> f64 {
        (0..values.len())
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                values[(state >> 8) as usize % values.len()]
            })
            .sum::<f64>()
            / values.len() as f64
    };
    let mut ratios: Vec<f64> = (0..ROUNDS).map(|_| pick(over) / pick(under)).collect();
    ratios.sort_by(f64::total_cmp);
    (ratios[ROUNDS / 40], ratios[ROUNDS - 1 - ROUNDS / 40])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slope_of_a_line() {
        assert_eq!(line(&[(1.0, 5.0), (2.0, 7.0), (4.0, 11.0)]), 2.0);
    }

    #[test]
    fn intervals_contain_the_ratio() {
        assert_eq!(interval(&[2.0, 2.0], &[4.0, 4.0]), (0.5, 0.5));
        let (low, high) = interval(&[2.0, 2.2, 1.8], &[4.0, 4.1, 3.9]);
        assert!(low < 0.5 && 0.5 < high && low > 0.4 && high < 0.6);
    }

    #[test]
    fn rounding() {
        assert_eq!(rounded(-0.0001).to_string(), "0.0");
        assert_eq!(rounded(1.23456).to_string(), "1.235");
    }
}
