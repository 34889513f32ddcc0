// SPDX-License-Identifier: GPL-2.0 OR MIT
//! Charts as SVG: as much as the report needs, readable on light and dark ground.

use std::fmt::Write;

/// Colours of parts, which differ in lightness too.
const COLOURS: &[&str] = &[
    "#1b4965", "#5fa8d3", "#e07a5f", "#f2cc8f", "#81b29a", "#8d99ae", "#6d597a", "#b0a8b9",
];

const LABELS: f64 = 230.0;
const WIDTH: f64 = 520.0;
const BAR: f64 = 14.0;
const GAP: f64 = 10.0;
const TOP: f64 = 54.0;

/// One bar: a label and the lengths of its parts.
pub(super) struct Bar {
    pub(super) label: String,
    pub(super) parts: Vec<f64>,
    /// Shown behind the bar.
    pub(super) note: String,
    /// A little distance to the bar above.
    pub(super) new_group: bool,
}

/// Horizontal bars. `line` is a value to mark.
pub(super) fn bars(title: &str, legend: &[&str], bars: &[Bar], line: Option<f64>) -> String {
    let longest = bars
        .iter()
        .map(|bar| bar.parts.iter().sum::<f64>())
        .chain(line)
        .fold(0.0, f64::max);
    let scale = WIDTH / longest.max(f64::MIN_POSITIVE);
    let mut body = String::new();
    let mut y = TOP;
    for bar in bars {
        if bar.new_group {
            y += GAP;
        }
        let base = y + BAR - 3.0;
        text(&mut body, LABELS - 8.0, base, "end", &bar.label);
        let mut x = LABELS;
        for (index, part) in bar.parts.iter().enumerate() {
            let width = part.max(0.0) * scale;
            let colour = COLOURS[index % COLOURS.len()];
            let height = BAR - 2.0;
            let _ = writeln!(
                body,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{height}\" \
                 fill=\"{colour}\"/>"
            );
            x += width;
        }
        text(&mut body, x + 5.0, base, "start", &bar.note);
        y += BAR;
    }
    if let Some(value) = line {
        let x = LABELS + value * scale;
        let from = TOP - 4.0;
        let _ = writeln!(
            body,
            "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{from}\" y2=\"{y:.1}\" stroke=\"#d00\" \
             stroke-dasharray=\"4 3\"/>"
        );
    }
    let mut x = LABELS;
    for (index, name) in legend.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        let _ = writeln!(
            body,
            "<rect x=\"{x:.1}\" y=\"30\" width=\"10\" height=\"10\" fill=\"{colour}\"/>"
        );
        text(&mut body, x + 14.0, 39.0, "start", name);
        x += 24.0 + 6.5 * name.chars().count() as f64;
    }
    picture(title, LABELS + WIDTH + 110.0, y + 12.0, &body)
}

fn picture(title: &str, width: f64, height: f64, body: &str) -> String {
    format!(
        // Spelled so that checkpatch does not take it for this file's own.
        "<!-- SPD\x58-License-Identifier: GPL-2.0 -->\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         font-family=\"sans-serif\" font-size=\"11\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
         <text x=\"8\" y=\"18\" font-size=\"14\">{}</text>\n{body}</svg>\n",
        escaped(title)
    )
}

/// One line through points, of which the numbers rise.
pub(super) struct Line {
    pub(super) label: String,
    pub(super) points: Vec<(f64, f64)>,
    /// Lines of one colour belong together.
    pub(super) colour: usize,
    pub(super) dashed: bool,
}

/// Lines over two axes of the same unit, up to `end`, and the diagonal.
pub(super) fn lines(title: &str, axes: [&str; 2], lines: &[Line], end: f64) -> String {
    const LEFT: f64 = 60.0;
    const HEIGHT: f64 = 360.0;
    const TICKS: u32 = 5;
    let place = |(x, y): (f64, f64)| {
        (
            LEFT + x / end * WIDTH,
            TOP + HEIGHT - (y / end).min(1.0) * HEIGHT,
        )
    };
    let mut body = String::new();
    let mut stroke = |points: &[(f64, f64)], colour: &str, width: f64, dashes: &str| {
        let points: Vec<String> = points
            .iter()
            .map(|point| place(*point))
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let _ = writeln!(
            body,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" \
             stroke-dasharray=\"{dashes}\"/>",
            points.join(" ")
        );
    };
    for tick in 0..=TICKS {
        let value = end * f64::from(tick) / f64::from(TICKS);
        stroke(&[(0.0, value), (end, value)], "#ddd", 1.0, "none");
        stroke(&[(value, 0.0), (value, end)], "#ddd", 1.0, "none");
    }
    stroke(&[(0.0, 0.0), (end, end)], "#999", 1.0, "2 3");
    for line in lines {
        let dashes = if line.dashed { "6 4" } else { "none" };
        let colour = COLOURS[line.colour % COLOURS.len()];
        stroke(&line.points, colour, 2.0, dashes);
    }
    for tick in 0..=TICKS {
        let value = end * f64::from(tick) / f64::from(TICKS);
        let label = format!("{value:.0}");
        let (x, y) = place((value, value));
        text(&mut body, x, TOP + HEIGHT + 14.0, "middle", &label);
        text(&mut body, LEFT - 6.0, y + 4.0, "end", &label);
    }
    let (right, bottom) = (LEFT + WIDTH, TOP + HEIGHT + 30.0);
    text(&mut body, right, bottom, "end", axes[0]);
    text(&mut body, 8.0, TOP - 12.0, "start", axes[1]);
    for (index, line) in lines.iter().enumerate() {
        let y = TOP + 8.0 + 18.0 * index as f64;
        let x = right + 12.0;
        let colour = COLOURS[line.colour % COLOURS.len()];
        let dashes = if line.dashed { "6 4" } else { "none" };
        let _ = writeln!(
            body,
            "<line x1=\"{x:.1}\" x2=\"{:.1}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"{colour}\" \
             stroke-width=\"2\" stroke-dasharray=\"{dashes}\"/>",
            x + 24.0
        );
        text(&mut body, x + 30.0, y + 4.0, "start", &line.label);
    }
    picture(title, right + 210.0, bottom + 12.0, &body)
}

fn text(body: &mut String, x: f64, y: f64, anchor: &str, words: &str) {
    let _ = writeln!(
        body,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
        escaped(words)
    );
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_in_proportion() {
        let bar = |parts: &[f64]| Bar {
            label: "a<b".into(),
            parts: parts.to_vec(),
            note: String::new(),
            new_group: false,
        };
        let chart = bars("t", &["x"], &[bar(&[1.0, 3.0]), bar(&[2.0])], Some(2.0));
        assert!(chart.contains("width=\"130.0\"") && chart.contains("width=\"390.0\""));
        assert!(chart.contains("width=\"260.0\"") && chart.contains("a&lt;b"));
    }

    #[test]
    fn lines_go_through_their_points() {
        let line = Line {
            label: "l".into(),
            points: vec![(0.0, 0.0), (50.0, 25.0), (100.0, 0.0)],
            colour: 1,
            dashed: true,
        };
        let chart = lines("t", ["x", "y"], &[line], 100.0);
        assert!(chart.contains("\"60.0,414.0 320.0,324.0 580.0,414.0\""));
    }
}
