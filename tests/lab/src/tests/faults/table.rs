// SPDX-License-Identifier: GPL-2.0
//! The table of what failed: each place that asks for memory, in each operation, and what came of
//! it.

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// An allocation that failed.
#[derive(Clone)]
pub(super) struct Fault {
    /// What became of the operation.
    result: String,
    /// Who asked for it, innermost first, as the kernel names places in functions.
    callers: Vec<String>,
}

impl Fault {
    /// One of a function that has a way of its own to fail.
    pub(super) fn new(result: &str, function: &str, driver: &str) -> Fault {
        Fault {
            result: result.to_string(),
            callers: vec![function.to_string(), format!("{driver} [ravb_rs]")],
        }
    }

    /// Reads lines of the form `fault RESULT`, each followed by the one place that failed.
    pub(super) fn parse(text: &str) -> Result<Vec<Fault>> {
        let mut lines = text.lines();
        let mut faults = Vec::new();
        while let Some(line) = lines.next() {
            let result = line
                .strip_prefix("fault ")
                .with_context(|| format!("{line:?} is no result, in {text}"))?;
            let callers = lines
                .next()
                .and_then(|line| line.strip_prefix("1;"))
                .with_context(|| format!("not one place failed in {text}"))?;
            faults.push(Fault {
                result: result.to_string(),
                callers: callers.split(';').map(str::to_string).collect(),
            });
        }
        Ok(faults)
    }

    /// The place it belongs to.
    fn site(&self) -> Site {
        let own = |caller: &&String| {
            caller.ends_with("[ravb_rs]") && {
                let name = function(caller);
                !["kernel::", "<kernel::", "core::", "<core::"]
                    .iter()
                    .any(|other| name.starts_with(other))
            }
        };
        let driver = self.callers.iter().find(own);
        let allocator = self
            .callers
            .iter()
            .find(|caller| !is_allocator(&function(caller)));
        Site {
            driver: driver.cloned(),
            allocator: allocator.cloned().unwrap_or_default(),
        }
    }
}

/// A place that asks for memory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Site {
    /// Where in the driver, if it is there.
    driver: Option<String>,
    /// Where in the kernel.
    allocator: String,
}

/// The kernel's allocators, not who asks.
fn is_allocator(name: &str) -> bool {
    const PREFIXES: &[&str] = &[
        "slab_pre_alloc",
        "kmem_cache_alloc",
        "__kmalloc",
        "kmalloc",
        "krealloc",
        "__do_krealloc",
        "kvrealloc",
        "__kvmalloc",
        "kvmalloc",
        "kmemdup",
        "kstrdup",
        "kasprintf",
        "kvasprintf",
        "__alloc_frozen_pages",
        "__alloc_pages",
        "alloc_pages",
        "alloc_frozen_pages",
        "prepare_alloc_pages",
        "get_free_pages",
        "___slab_alloc",
        "__slab_alloc",
        "new_slab",
        "allocate_slab",
        "refill_objects",
        "__pcs_",
        "rust_helper_k",
        "<kernel::alloc",
        "kernel::alloc",
    ];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Name of the function of a place: `name+0x10/0x20 [module]`.
fn function(place: &str) -> String {
    let name = place.split(' ').next().unwrap_or(place);
    let name = name.split("+0x").next().unwrap_or(name);
    format!("{:#}", rustc_demangle::demangle(name)).replace("ravb_rs::", "")
}

/// Places of one pair of functions.
#[derive(Serialize, Deserialize, Default)]
struct Row {
    /// The function of the driver; none where the kernel asks by itself.
    driver: String,
    /// The function that asks.
    allocator: String,
    /// How many places there are.
    sites: usize,
    /// How often one of them failed.
    failed: usize,
    /// What became of the operation, and how often.
    results: BTreeMap<String, usize>,
}

/// What failed in an operation.
#[derive(Serialize, Deserialize)]
struct Operation {
    /// How many places there are, in all, and in what the driver does.
    sites: usize,
    driver_sites: usize,
    /// How many allocations failed.
    failed: usize,
    rows: Vec<Row>,
}

impl Operation {
    fn new(faults: &[Fault]) -> Operation {
        let mut rows: BTreeMap<(String, String), (Row, BTreeSet<Site>)> = BTreeMap::new();
        for fault in faults {
            let site = fault.site();
            let driver = site.driver.as_deref().map(function).unwrap_or_default();
            let allocator = match &site.driver {
                Some(_) => function(&site.allocator),
                // The system call itself, its files and messages.
                None => "(others)".to_string(),
            };
            let (row, sites) = rows.entry((driver.clone(), allocator.clone())).or_default();
            (row.driver, row.allocator) = (driver, allocator);
            sites.insert(site);
            row.failed += 1;
            *row.results.entry(fault.result.clone()).or_default() += 1;
        }
        let rows: Vec<Row> = rows
            .into_values()
            .map(|(row, sites)| Row {
                sites: sites.len(),
                ..row
            })
            .collect();
        let own = rows.iter().filter(|row| !row.driver.is_empty());
        Operation {
            sites: rows.iter().map(|row| row.sites).sum(),
            driver_sites: own.map(|row| row.sites).sum(),
            failed: faults.len(),
            rows,
        }
    }
}

/// Enters an operation into `faults.json` beside the directory of logs, and writes `faults.rst`
/// anew.
pub(super) fn write(logs: &Path, operation: &str, faults: &[Fault]) -> Result<()> {
    let dir = logs.parent().context("no directory")?;
    let path = dir.join("faults.json");
    let mut table: BTreeMap<String, Operation> = match fs::read_to_string(&path) {
        Ok(text) => serde_json::from_str(&text).unwrap_or_default(),
        Err(_) => BTreeMap::new(),
    };
    table.insert(operation.to_string(), Operation::new(faults));
    fs::write(&path, serde_json::to_string_pretty(&table)? + "\n")?;
    fs::write(dir.join("faults.rst"), text(&table))?;
    Ok(())
}

/// The table for people.
fn text(table: &BTreeMap<String, Operation>) -> String {
    // In two pieces: this is not the licence of this file.
    let mut text = concat!(".. SPDX", "-License-Identifier: GPL-2.0\n").to_string();
    text.push_str(
        "\
.. Made by ``make faults``; do not edit.

=======================
Allocations that failed
=======================

Each place that asked for memory in an operation on the debug kernel, and what came of
it when it got none. How they are made to fail is in :doc:`testing`.

.. list-table:: All operations
   :header-rows: 1

   * - operation
     - places
     - of them in the driver
     - allocations failed
",
    );
    for (name, operation) in table {
        text.push_str(&format!(
            "   * - {name}\n     - {}\n     - {}\n     - {}\n",
            operation.sites, operation.driver_sites, operation.failed
        ));
    }
    for (name, operation) in table {
        text.push_str(&format!(
            "\n.. list-table:: {name}\n   :header-rows: 1\n\n   * - in the driver\n     \
             - asked by\n     - places\n     - failed\n     - result\n"
        ));
        for row in &operation.rows {
            let results: Vec<String> = row
                .results
                .iter()
                .map(|(result, count)| format!("{result} {count}"))
                .collect();
            let driver = match row.driver.as_str() {
                "" => "(not in the driver)".to_string(),
                name => format!("``{name}``"),
            };
            let allocator = match row.allocator.as_str() {
                "(others)" => "(others)".to_string(),
                name => format!("``{name}``"),
            };
            text.push_str(&format!(
                "   * - {driver}\n     - {allocator}\n     - {}\n     - {}\n     - {}\n",
                row.sites,
                row.failed,
                results.join(", ")
            ));
        }
    }
    text
}

#[cfg(test)]
mod unit {
    use super::*;

    const TEXT: &str = "\
fault refused
1;__kmalloc_noprof+0x8/0x10;request_irq+0x4/0x8;\
_RNvNtCs1234_7ravb_rs9ravb_path5start+0x10/0x20 [ravb_rs];dev_open+0x1/0x2
fault done
1;__kmalloc_noprof+0x8/0x10;request_irq+0x5/0x8;\
_RNvNtCs1234_7ravb_rs9ravb_path5start+0x10/0x20 [ravb_rs];dev_open+0x1/0x2
fault done
1;kmem_cache_alloc_noprof+0x8/0x10;alloc_empty_file+0x4/0x8;do_sys_open+0x1/0x2
";

    #[test]
    fn places_are_told_apart() {
        let operation = Operation::new(&Fault::parse(TEXT).unwrap());
        assert_eq!(
            (operation.sites, operation.driver_sites, operation.failed),
            (3, 2, 3)
        );
        let row = operation.rows.last().unwrap();
        assert_eq!(row.driver, "ravb_path::start");
        assert_eq!(row.allocator, "request_irq");
        assert_eq!((row.sites, row.failed), (2, 2));
        assert_eq!((row.results["refused"], row.results["done"]), (1, 1));
    }

    #[test]
    fn a_fault_without_a_place_is_noticed() {
        assert!(Fault::parse("fault done\nfault done\n").is_err());
        assert!(Fault::parse("it never gets through\n").is_err());
        assert!(Fault::parse("").unwrap().is_empty());
    }
}
