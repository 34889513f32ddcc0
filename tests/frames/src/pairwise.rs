// SPDX-License-Identifier: GPL-2.0
//! A choice of combinations in which every two values of different factors meet.

use std::collections::HashSet;

/// Two values of two factors: factor, value, factor, value.
type Pair = (usize, usize, usize, usize);

fn pairs(row: &[usize]) -> impl Iterator<Item = Pair> + '_ {
    let count = row.len();
    (0..count).flat_map(move |a| (a + 1..count).map(move |b| (a, row[a], b, row[b])))
}

/// Chooses some of `rows`, each of which has a value for each factor, so that every pair of values
/// that occurs in a row occurs in a chosen one. Returns the indices of the chosen.
///
/// It takes, of the rows that have the first pair still missing, the one with most of what is
/// missing. Combinations that cannot be are simply not among the rows.
pub fn pairwise(rows: &[Vec<usize>]) -> Vec<usize> {
    let mut missing: HashSet<Pair> = rows.iter().flat_map(|row| pairs(row)).collect();
    let mut order: Vec<Pair> = missing.iter().copied().collect();
    order.sort_unstable();
    let mut chosen = Vec::new();
    for wanted in order {
        if !missing.contains(&wanted) {
            continue;
        }
        let (a, x, b, y) = wanted;
        let best = (0..rows.len())
            .filter(|&row| rows[row][a] == x && rows[row][b] == y)
            .max_by_key(|&row| pairs(&rows[row]).filter(|p| missing.contains(p)).count());
        if let Some(row) = best {
            pairs(&rows[row]).for_each(|pair| {
                missing.remove(&pair);
            });
            chosen.push(row);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_possible_pair_occurs() {
        let mut rows = Vec::new();
        for i in 0..3 * 4 * 5 * 2 {
            let row = vec![i % 3, i / 3 % 4, i / 12 % 5, i / 60];
            // Not everything is possible.
            if row[0] + row[1] != 2 {
                rows.push(row);
            }
        }
        let chosen = pairwise(&rows);
        let all: HashSet<Pair> = rows.iter().flat_map(|row| pairs(row)).collect();
        let met: HashSet<Pair> = chosen.iter().flat_map(|&row| pairs(&rows[row])).collect();
        assert_eq!(all, met);
        // The largest two factors alone need 20; a poor choice takes many more.
        assert!(chosen.len() >= 20 && chosen.len() < 30, "{}", chosen.len());
    }

    #[test]
    fn nothing_of_nothing() {
        assert!(pairwise(&[]).is_empty());
    }
}
