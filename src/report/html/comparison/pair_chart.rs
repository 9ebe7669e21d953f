//! The pairs of one percentile as points: their positions on the drawing.

use serde::Serialize;

use crate::document as model;
use crate::pairs::PairDocument;
use crate::pairs::text;
use crate::words::{known_ratio, ratio};
use verdict::paired::PercentileSeriesRow;

/// The drawing's height, and its margins at the top and the bottom.
const HEIGHT: f64 = 220.0;
const MARGIN: f64 = 14.0;
/// The smallest distance between ticks.
const TICK_GAP: f64 = 18.0;
/// Round ratios for ticks.
const TICKS: [f64; 33] = [
    0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 1.0, 1.005, 1.01, 1.02,
    1.05, 1.1, 1.15, 1.2, 1.3, 1.5, 1.7, 2.0, 3.0, 5.0, 7.0, 10.0, 20.0, 50.0, 100.0,
];
/// More pairs than this are drawn smaller.
const MANY_PAIRS: usize = 60;

/// One percentile's pairs.
#[derive(Serialize)]
pub(super) struct ChartView {
    title: String,
    word: &'static str,
    class: &'static str,
    described: String,
    height: f64,
    radius: f64,
    ticks: Vec<Tick>,
    /// Top and height of the ratio between its bounds.
    band: Option<[String; 2]>,
    mean: Option<String>,
    neutral: String,
    limit: String,
    points: Vec<PairMarker>,
    /// The labels under the first and the last pair.
    first: String,
    last: String,
}

#[derive(Serialize)]
struct Tick {
    y: String,
    text: String,
    strong: bool,
}

#[derive(Serialize)]
struct PairMarker {
    /// In percent of the width.
    x: String,
    y: String,
    b_first: bool,
    /// It has no ratio, because it falls among the failed iterations.
    failed: bool,
    described: String,
}

/// The chart of one percentile that is judged.
pub(super) fn view(row: &PercentileSeriesRow, paired: &PairDocument) -> ChartView {
    let limit = 1.0 + paired.margin_percent / 100.0;
    let scale = Scale::of(row, limit);
    let badge = model::Badge::verdict(row.outcome);
    // Pairs that were left out have no figures.
    let numbers = paired.pairs.iter().enumerate().filter(|(_, pair)| pair.left_out.is_none());
    let numbers: Vec<(usize, bool)> = numbers.map(|(index, pair)| (index + 1, pair.b_first)).collect();
    let count = row.pairs.len();
    let points = row.pairs.iter().enumerate().map(|(at, pair)| {
        let (number, b_first) = numbers.get(at).copied().unwrap_or((at + 1, false));
        point(*pair, number, b_first, (at, count), &scale)
    });
    let subject = text::subject(&row.series, &paired.workloads);
    ChartView {
        described: format!(
            "{subject}: B/A of {count} pairs; the mean is {}, from {} to {}; the margin is {}.",
            known_ratio(row.ratio),
            known_ratio(row.low),
            known_ratio(row.high),
            ratio(limit)
        ),
        title: subject,
        word: badge.word,
        class: badge.tone.class(),
        height: HEIGHT,
        radius: if count > MANY_PAIRS { 2.5 } else { 4.5 },
        ticks: scale.ticks(limit),
        band: row.low.zip(row.high).map(|(low, high)| {
            let (top, bottom) = (scale.y(high), scale.y(low));
            [format!("{top:.1}"), format!("{:.1}", (bottom - top).max(1.0))]
        }),
        mean: row.ratio.map(|mean| format!("{:.1}", scale.y(mean))),
        neutral: format!("{:.1}", scale.y(1.0)),
        limit: format!("{:.1}", scale.y(limit)),
        points: points.collect(),
        first: numbers.first().map_or_else(String::new, |(number, _)| format!("pair {number}")),
        last: numbers
            .get(count.wrapping_sub(1))
            .filter(|_| count > 1)
            .map_or_else(String::new, |(number, _)| format!("pair {number}")),
    }
}

fn point(
    pair: (Option<f64>, Option<f64>),
    number: usize,
    b_first: bool,
    (at, count): (usize, usize),
    scale: &Scale,
) -> PairMarker {
    let x = (at as f64 + 0.5) / count as f64 * 100.0;
    let of_both = pair.0.zip(pair.1).map(|(a, b)| b / a);
    let y = match (of_both, pair) {
        (Some(ratio), _) => scale.y(ratio),
        // If B has no time it counts as slowest, if A has none as fastest.
        (None, (Some(_), None)) => MARGIN / 2.0,
        (None, (None, Some(_))) => HEIGHT - MARGIN / 2.0,
        (None, _) => scale.y(1.0),
    };
    let times = format!("{} against {}", text::time(pair.1), text::time(pair.0));
    let first = if b_first { "B" } else { "A" };
    PairMarker {
        x: format!("{x:.2}"),
        y: format!("{y:.1}"),
        b_first,
        failed: of_both.is_none(),
        described: match of_both {
            Some(seen) => format!("Pair {number}: B/A {}, {times}; {first} ran first", ratio(seen)),
            None => format!("Pair {number}: no ratio, {times}; {first} ran first"),
        },
    }
}

/// Logarithms of ratios on the drawing's height.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn of(row: &PercentileSeriesRow, limit: f64) -> Self {
        let pairs = row.pairs.iter().filter_map(|(a, b)| a.zip(*b)).map(|(a, b)| b / a);
        let known = pairs.chain(row.low).chain(row.high).chain([1.0, limit]);
        let known: Vec<f64> = known
            .filter(|ratio| ratio.is_finite() && *ratio > 0.0)
            .map(|ratio| ratio.clamp(0.01, 100.0).ln())
            .collect();
        let low = known.iter().copied().fold(0.0, f64::min);
        let high = known.iter().copied().fold(0.0, f64::max);
        // Equal builds at a margin of nothing would have no height.
        let room = ((high - low) * 0.06).max(0.01);
        Self { low: low - room, high: high + room }
    }

    fn y(&self, ratio: f64) -> f64 {
        let share = ((ratio.clamp(0.01, 100.0).ln() - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        HEIGHT - MARGIN - share * (HEIGHT - 2.0 * MARGIN)
    }

    /// The limit and 1 come first; others only where there is room.
    fn ticks(&self, limit: f64) -> Vec<Tick> {
        let mut placed: Vec<(f64, f64)> = Vec::new();
        let inside = |tick: &f64| (self.low..=self.high).contains(&tick.ln());
        for tick in [1.0, limit].into_iter().chain(TICKS.into_iter().filter(inside)) {
            let y = self.y(tick);
            if placed.iter().all(|(_, other)| (other - y).abs() >= TICK_GAP) {
                placed.push((tick, y));
            }
        }
        let tick = |(at, y): (f64, f64)| Tick {
            y: format!("{y:.1}"),
            text: ratio(at).trim_end_matches('0').trim_end_matches('.').to_owned(),
            strong: at == limit && limit > 1.0,
        };
        placed.into_iter().map(tick).collect()
    }
}
