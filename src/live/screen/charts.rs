//! The charts: rates as bars, percentiles as lines, response times as a heat map. Each is as wide as its place; columns of
//! the load are put together, or repeated, to fill it.

use std::ops::Range;

use ratatui_core::layout::Rect;

use base::clock::Nanos;
use base::units::format_ns;

use super::canvas::{Canvas, Tone, filled_before};
use super::words;
use crate::counts::{row_from_ns, row_of};
use crate::snapshot::{ColumnSnapshot, SeriesSnapshot};

/// Labels of the axis at the left.
const GUTTER: u16 = 8;
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const SHADES: [char; 6] = ['·', '░', '░', '▒', '▓', '█'];
/// The dots of a braille character: two columns of four, from above.
const DOTS: [[u32; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

/// The columns that are drawn at a place of many.
fn columns_at(columns: &[ColumnSnapshot], at: usize, places: usize) -> Range<usize> {
    let (count, places) = (columns.len(), places.max(1));
    let from = at * count / places;
    from..((at + 1) * count / places).max(from + 1).min(count)
}

fn plot_area(area: Rect) -> Rect {
    let gutter = GUTTER.min(area.width);
    Rect::new(area.x + gutter, area.y + 1, area.width - gutter, area.height.saturating_sub(1))
}

/// Labels at the top and at the bottom of the axis.
fn axis(canvas: &mut Canvas<'_>, area: Rect, top: &str, bottom: &str) {
    let room = usize::from(GUTTER) - 1;
    canvas.text(area, (0, 1), &filled_before(top, room), Tone::Faint);
    if area.height > 2 {
        canvas.text(area, (0, area.height - 1), &filled_before(bottom, room), Tone::Faint);
    }
}

/// Rates asked for and served, per second.
pub(super) fn rates(canvas: &mut Canvas<'_>, area: Rect, series: &SeriesSnapshot) {
    let asks = series.columns.iter().any(|column| column.asked_per_s.is_some());
    canvas.line(
        area,
        0,
        &[
            ("rate ".to_owned(), Tone::Strong),
            ("▇ served".to_owned(), Tone::Median),
            (if asks { "  ─ asked for" } else { "" }.to_owned(), Tone::Upper),
        ],
    );
    let plot = plot_area(area);
    let of = |column: &ColumnSnapshot| column.served_per_s.max(column.asked_per_s.unwrap_or(0.0));
    let most = series.columns.iter().map(of).fold(0.0, f64::max);
    if most <= 0.0 || plot.width == 0 {
        return;
    }
    axis(canvas, area, &words::rate(most), "0/s");
    let height = f64::from(plot.height) * 8.0;
    for x in 0..plot.width {
        let part = &series.columns[columns_at(&series.columns, usize::from(x), usize::from(plot.width))];
        let mean =
            |of: &dyn Fn(&ColumnSnapshot) -> f64| part.iter().map(of).sum::<f64>() / part.len().max(1) as f64;
        let eighths = (mean(&|column| column.served_per_s) / most * height).round() as u16;
        let fails = part.iter().any(|column| column.failed_per_s > 0.0);
        for y in 0..plot.height {
            let bar = BARS[usize::from(eighths.saturating_sub((plot.height - 1 - y) * 8).min(8))];
            canvas.mark(plot, (x, y), bar, if fails { Tone::Bad } else { Tone::Median });
        }
        if part.iter().any(|column| column.asked_per_s.is_some()) {
            let asked = mean(&|column| column.asked_per_s.unwrap_or(0.0)) / most * f64::from(plot.height);
            let y = (f64::from(plot.height) - asked).floor().clamp(0.0, f64::from(plot.height - 1)) as u16;
            // Where the bar is as high, what was asked for was served.
            if eighths < (plot.height - y) * 8 - 4 {
                canvas.mark(plot, (x, y), '─', Tone::Upper);
            }
        }
    }
}

/// A range of durations on a logarithmic axis.
struct LogAxis {
    low: f64,
    high: f64,
}

impl LogAxis {
    fn of(values: impl Iterator<Item = Nanos>) -> Option<Self> {
        let (low, high) = values.fold((Nanos::MAX, 0), |(low, high), ns| (low.min(ns), high.max(ns)));
        (low <= high).then(|| {
            // At least half a power of two, so that noise does not look like a mountain.
            let (low, high) = (low.max(1) as f64, high.max(1) as f64);
            let high = high.max(low * std::f64::consts::SQRT_2);
            Self { low: low.ln(), high: high.ln() }
        })
    }

    /// The step of a value, counted from above.
    fn step(&self, ns: Nanos, steps: u16) -> u16 {
        let part = ((ns.max(1) as f64).ln() - self.low) / (self.high - self.low);
        let last = f64::from(steps.saturating_sub(1));
        (last - (part * last).round()).clamp(0.0, last) as u16
    }
}

type Percentile = fn(&ColumnSnapshot) -> Option<Nanos>;

/// Three percentiles over time.
pub(super) fn percentiles(canvas: &mut Canvas<'_>, area: Rect, series: &SeriesSnapshot) {
    let parts =
        [("response ", Tone::Strong), ("p50 ", Tone::Median), ("p95 ", Tone::Upper), ("p99", Tone::Top)];
    canvas.line(area, 0, &parts.map(|(text, tone)| (text.to_owned(), tone)));
    let plot = plot_area(area);
    let lines: [(Percentile, Tone); 3] = [
        (|column| column.p99_ns, Tone::Top),
        (|column| column.p95_ns, Tone::Upper),
        (|column| column.p50_ns, Tone::Median),
    ];
    let values = series.columns.iter().flat_map(|column| lines.iter().filter_map(|(of, _)| of(column)));
    let Some(axis_of) = LogAxis::of(values) else { return };
    let label = |ln: f64| format_ns(ln.exp().round() as Nanos);
    axis(canvas, area, &label(axis_of.high), &label(axis_of.low));
    let (steps, wide) = (plot.height * 4, usize::from(plot.width) * 2);
    let mut cells = vec![0_u32; usize::from(plot.width) * usize::from(plot.height)];
    for (of, tone) in lines {
        let mut before: Option<u16> = None;
        for x in 0..wide {
            let part = &series.columns[columns_at(&series.columns, x, wide)];
            // The worst of the time, so that nothing is smoothed away.
            let step = part.iter().filter_map(of).max().map(|ns| axis_of.step(ns, steps));
            let Some(step) = step else {
                before = None;
                continue;
            };
            let from = before.unwrap_or(step);
            for y in from.min(step)..=from.max(step) {
                let at = usize::from(y / 4) * usize::from(plot.width) + x / 2;
                cells[at] |= DOTS[x % 2][usize::from(y % 4)];
                let braille = char::from_u32(0x2800 + cells[at]).unwrap_or(' ');
                canvas.mark(plot, ((x / 2) as u16, y / 4), braille, tone);
            }
            before = Some(step);
        }
    }
}

/// How many response times there were of each length, over time.
pub(super) fn heat(canvas: &mut Canvas<'_>, area: Rect, series: &SeriesSnapshot, subject: &str) {
    let column = format_ns(series.column_ns);
    canvas.line(
        area,
        0,
        &[("heat map ".to_owned(), Tone::Strong), (format!("{subject}, each {column}"), Tone::Faint)],
    );
    let plot = plot_area(area);
    let rows = || series.columns.iter().flat_map(|column| column.rows.iter());
    let (Some(low), Some(high)) = (rows().map(|(row, _)| *row).min(), rows().map(|(row, _)| *row).max())
    else {
        return;
    };
    if plot.height == 0 || plot.width == 0 {
        return;
    }
    // Each line of the screen is the same number of rows high.
    let per_line = (high - low + 1).div_ceil(plot.height).max(1);
    let lines = (high - low + 1).div_ceil(per_line);
    let line_of = |row: u16| (lines - 1) - (row - low) / per_line;
    let mut cells = vec![0_u64; usize::from(plot.width) * usize::from(plot.height)];
    for x in 0..usize::from(plot.width) {
        let part = &series.columns[columns_at(&series.columns, x, usize::from(plot.width))];
        for (row, count) in part.iter().flat_map(|column| &column.rows) {
            cells[usize::from(line_of(*row)) * usize::from(plot.width) + x] += u64::from(*count);
        }
    }
    let most = cells.iter().max().map_or(1.0, |most| (*most as f64).ln_1p());
    for (at, count) in cells.iter().enumerate().filter(|(_, count)| **count > 0) {
        let (x, y) = ((at % usize::from(plot.width)) as u16, (at / usize::from(plot.width)) as u16);
        let last = (SHADES.len() - 1) as f64;
        let level = ((*count as f64).ln_1p() / most * last).round() as u8;
        canvas.mark(plot, (x, y), SHADES[usize::from(level)], Tone::Heat(level));
    }
    for line in 0..lines {
        let row = low + (lines - 1 - line) * per_line;
        debug_assert_eq!(row_of(row_from_ns(row)), row);
        let label = filled_before(&format_ns(row_from_ns(row)), usize::from(GUTTER) - 1);
        canvas.text(area, (0, line + 1), &label, Tone::Faint);
    }
}
