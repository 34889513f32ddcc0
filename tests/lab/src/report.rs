// SPDX-License-Identifier: GPL-2.0
//! What a command leaves behind: a table for the user, JSON for programs.

use crate::env::Env;
use anyhow::{Context, Result};
use serde::Serialize;
use std::fs;

/// Writes `target/lab/<command>.json`.
pub(crate) fn write(env: &Env, command: &str, content: &impl Serialize) -> Result<()> {
    let path = env.output()?.join(format!("{command}.json"));
    let text = serde_json::to_string_pretty(content)? + "\n";
    // Whoever reads it never sees half a file.
    let partial = path.with_extension("json.tmp");
    fs::write(&partial, text).with_context(|| format!("cannot write {}", partial.display()))?;
    fs::rename(&partial, &path)?;
    Ok(())
}

/// Lines up columns: the first to the left, the others to the right. The first row is a heading.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..columns)
        .map(|column| width(column).unwrap_or(0))
        .collect();
    let mut text = String::new();
    for (index, row) in rows.iter().enumerate() {
        let mut line = String::from("  ");
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            if column == 0 {
                line.push_str(&format!("{cell:<width$}"));
            } else {
                line.push_str(&format!("  {cell:>width$}"));
            }
        }
        text.push_str(line.trim_end());
        text.push('\n');
        if index == 0 {
            let total = widths.iter().sum::<usize>() + 2 * columns.saturating_sub(1);
            text.push_str(&format!("  {}\n", "-".repeat(total)));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [["what", "c"], ["ping", "10"]].map(|row| row.map(str::to_string).to_vec());
        assert_eq!(table(&rows), "  what   c\n  --------\n  ping  10\n");
    }
}
