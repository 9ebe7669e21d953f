//! The screen: a function of a snapshot, of what its viewer has chosen, and of a size.

mod canvas;
mod charts;
#[cfg(test)]
mod picture;
mod tables;
#[cfg(test)]
mod tests;
mod view;
mod words;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

use base::units::format_ns;

use crate::snapshot::{LiveSnapshot, LoadSnapshot, LoadState};
use canvas::{Canvas, Tone};
pub use view::{KeyEffect, LiveTable, OpenedTrace, ScreenKey, ScreenView};

/// The smallest size that has room for charts and a table; on less, there are only figures.
pub const COLUMNS_MIN: u16 = 60;
pub const ROWS_MIN: u16 = 18;
/// From this size on, all tables are shown at once.
const COLUMNS_OF_ALL: u16 = 110;
const ROWS_OF_ALL: u16 = 34;
/// A chart is not higher.
const CHART_ROWS_MAX: u16 = 12;

const HELP: &[&str] = &[
    "q          stop the load; iterations under way end, then the report follows",
    "p          hide this screen and show lines; p again shows it",
    "← →        choose a workload",
    "tab        choose a table: steps, errors, criteria, slowest",
    "↑ ↓        choose a row; the charts show the chosen step",
    "enter      open the trace of a slow or failed iteration",
    "esc        close a trace",
    "?          this help",
    "Ctrl-C     as q; a second one ends the program at once",
    "",
    "The charts include the warm-up, the figures do not. Percentiles count iterations that failed",
    "as longer than all others: a percentile that falls among them has no time. They are within 3 %;",
    "the report is exact.",
    "\"holds so far\" and \"broken so far\" say what the verdict would be if the load ended now;",
    "\"is broken\" cannot change any more; \"clear in about 40 s\" expects more of the same.",
];

/// Draws the screen into an area of a buffer, which is empty before.
pub fn draw(snapshot: &LiveSnapshot, view: &ScreenView, area: Rect, buffer: &mut Buffer) {
    let mut canvas = Canvas::new(buffer, view.colours);
    let Some(load) = snapshot.loads.get(view.load()) else { return };
    if let Some((trace_id, lines)) = view.opened() {
        return opened(&mut canvas, area, &trace_id.to_string(), lines);
    }
    if view.is_helping() {
        return help(&mut canvas, area);
    }
    if area.width < COLUMNS_MIN || area.height < ROWS_MIN {
        return figures_only(&mut canvas, area, snapshot, load, view);
    }
    head(&mut canvas, rows_of(area, 0, 3), snapshot, load, view);
    let footer = rows_of(area, area.height - 2, 2);
    body(&mut canvas, rows_of(area, 3, area.height - 6), load, view);
    foot(&mut canvas, footer, snapshot, view);
}

fn rows_of(area: Rect, from: u16, height: u16) -> Rect {
    Rect::new(area.x, area.y + from, area.width, height.min(area.height.saturating_sub(from)))
}

fn columns_of(area: Rect, from: u16, width: u16) -> Rect {
    Rect::new(area.x + from, area.y, width.min(area.width.saturating_sub(from)), area.height)
}

/// What runs, how far it is, and its figures.
fn head(
    canvas: &mut Canvas<'_>,
    area: Rect,
    snapshot: &LiveSnapshot,
    load: &LoadSnapshot,
    view: &ScreenView,
) {
    let position = words::position(load);
    let mut right = position.clone();
    if let Some(part) = words::progress(load) {
        right = format!("{} {position}", bar(part, 16));
    }
    let mut title = title(snapshot);
    if snapshot.loads.len() > 1 {
        title = format!("{} ({} of {})", load.name, view.load() + 1, snapshot.loads.len());
    }
    let right_columns = u16::try_from(right.chars().count()).unwrap_or(u16::MAX);
    let left = columns_of(area, 0, area.width.saturating_sub(right_columns + 2));
    let state = match load.state {
        LoadState::Waiting => ", begins later",
        LoadState::Ended => ", has ended",
        LoadState::Running if view.is_stopping => ", stopping",
        LoadState::Running if load.warm_up > 0 && load.warm_up == load.ended => ", warming up",
        LoadState::Running => "",
    };
    canvas.line(left, 0, &[(title, Tone::Strong), (state.to_owned(), Tone::Doubtful)]);
    canvas.text_to(area, (area.width, 0), &right, Tone::Plain);
    canvas.line(area, 1, &figures_line(load, area.width));
    if let Some(cause) = &snapshot.cause {
        let (text, tone) = match cause.is_named {
            true => (format!("so far: {}. {}", cause.headline, cause.sentence), Tone::Strong),
            false => (format!("so far: no cause is certain, by {} traces", cause.traces), Tone::Faint),
        };
        canvas.text(area, (0, 2), &text, tone);
    }
}

fn title(snapshot: &LiveSnapshot) -> String {
    let mut title = snapshot.title.clone();
    if !snapshot.deployment.is_empty() {
        title = format!("{title} on {}", snapshot.deployment);
    }
    if !snapshot.part.is_empty() {
        title = format!("{title}, {}", snapshot.part);
    }
    title
}

fn bar(part: f64, columns: usize) -> String {
    let full = (part * columns as f64).floor() as usize;
    "█".repeat(full.min(columns)) + &"░".repeat(columns.saturating_sub(full))
}

/// The figures, each with a rank: where there is little room, the highest are left out first. What is wrong stays.
fn figures(load: &LoadSnapshot) -> Vec<(u8, String, Tone)> {
    let mut parts = vec![(0, words::rate(load.served_per_s), Tone::Strong)];
    let mut also = |rank: u8, text: String, tone: Tone| parts.push((rank, text, tone));
    if let Some(asked) = words::asked(load.asked) {
        also(4, asked, Tone::Plain);
    }
    also(5, format!("{} in flight", load.under_way), Tone::Plain);
    if load.queued > 0 {
        also(0, format!("{} waiting", words::count(load.queued)), Tone::Doubtful);
    }
    if load.dropped > 0 {
        also(0, format!("{} dropped", words::count(load.dropped)), Tone::Bad);
    }
    let fails = load.failed > 0;
    also(
        if fails { 0 } else { 3 },
        format!("{} failed", words::count(load.failed)),
        if fails { Tone::Bad } else { Tone::Plain },
    );
    also(1, format!("p50 {}", words::time(load.p50_ns)), Tone::Median);
    also(2, format!("p95 {}", words::time(load.p95_ns)), Tone::Upper);
    also(1, format!("p99 {}", words::time(load.p99_ns)), Tone::Top);
    if load.max_ns > 0 {
        also(6, format!("max {}", format_ns(load.max_ns)), Tone::Plain);
    }
    parts
}

/// The figures on one line of this width.
fn figures_line(load: &LoadSnapshot, width: u16) -> Vec<(String, Tone)> {
    let mut parts = figures(load);
    let columns = |parts: &[(u8, String, Tone)]| {
        parts.iter().map(|(_, text, _)| text.chars().count() + 2).sum::<usize>()
    };
    while columns(&parts) > usize::from(width) + 2 {
        let Some(least) = parts.iter().map(|(rank, ..)| *rank).max().filter(|rank| *rank > 0) else { break };
        parts.retain(|(rank, ..)| *rank != least);
    }
    parts.into_iter().map(|(_, text, tone)| (text + "  ", tone)).collect()
}

/// Charts above, tables below.
fn body(canvas: &mut Canvas<'_>, area: Rect, load: &LoadSnapshot, view: &ScreenView) {
    let shows_all = area.width >= COLUMNS_OF_ALL && area.height + 6 >= ROWS_OF_ALL;
    // A third each for the charts, the heat map and the tables; more for the tables if there are several.
    let chart_rows = if shows_all { area.height / 4 } else { area.height / 3 }.min(CHART_ROWS_MAX);
    let charts = rows_of(area, 0, chart_rows);
    let half = area.width / 2;
    charts::rates(canvas, columns_of(charts, 0, half - 1), &load.series);
    charts::percentiles(canvas, columns_of(charts, half, area.width - half), &load.series);
    let step = view.row(LiveTable::Steps).checked_sub(1).and_then(|step| load.steps.get(step));
    let subject = step.map_or("response times of iterations", |step| &step.name);
    charts::heat(canvas, rows_of(area, chart_rows, chart_rows), &load.series, subject);
    let tables = rows_of(area, chart_rows * 2 + 1, area.height - chart_rows * 2 - 1);
    if shows_all {
        let rows = tables.height / 2;
        for (place, kind) in LiveTable::EVERY.into_iter().enumerate() {
            let (x, y) = (place as u16 % 2, place as u16 / 2);
            // The last row of each is left free.
            let cell = rows_of(columns_of(tables, x * half, half - 1), y * rows, rows.saturating_sub(1));
            let is_first = view.table() == kind;
            let tone = if is_first { Tone::Strong } else { Tone::Faint };
            let mark = if is_first { "▸ " } else { "  " };
            canvas.text(cell, (0, 0), &format!("{mark}{}", kind.heading(load)), tone);
            let below = rows_of(cell, 1, cell.height.saturating_sub(1));
            tables::table(canvas, below, (kind, is_first), load, view);
        }
        return;
    }
    let mut x = 0;
    for kind in LiveTable::EVERY {
        let is_first = view.table() == kind;
        let tone = if is_first { Tone::Strong } else { Tone::Faint };
        let mark = if is_first { "▸ " } else { "  " };
        x = canvas.text(tables, (x, 0), &format!("{mark}{}", kind.heading(load)), tone) + 2;
    }
    let below = rows_of(tables, 1, tables.height.saturating_sub(1));
    tables::table(canvas, below, (view.table(), true), load, view);
}

/// The last message, and what keys do.
fn foot(canvas: &mut Canvas<'_>, area: Rect, snapshot: &LiveSnapshot, view: &ScreenView) {
    if let Some(message) = view.last_message() {
        canvas.text(area, (0, 0), message, Tone::Doubtful);
    } else if let Some(receiving) = snapshot.receiving {
        let text = format!(
            "{} spans of {} traces are kept",
            words::count(receiving.kept_spans),
            words::count(receiving.kept_traces)
        );
        canvas.text(area, (0, 0), &text, Tone::Faint);
    }
    let workloads = if snapshot.loads.len() > 1 { "  ← → workload" } else { "" };
    let keys = format!("q stop  p hide{workloads}  tab table  ↑ ↓ row  enter trace  ? help");
    canvas.text(area, (0, 1), &keys, Tone::Faint);
}

/// For a small terminal.
fn figures_only(
    canvas: &mut Canvas<'_>,
    area: Rect,
    snapshot: &LiveSnapshot,
    load: &LoadSnapshot,
    view: &ScreenView,
) {
    canvas.text(area, (0, 0), &title(snapshot), Tone::Strong);
    canvas.text(area, (0, 1), &words::position(load), Tone::Plain);
    let mut y = 2;
    for (_, text, tone) in figures(load) {
        canvas.text(area, (0, y), &text, tone);
        y += 1;
    }
    for criterion in &load.criteria {
        let (state, tone) = words::standing(criterion);
        canvas.text(area, (0, y), &format!("{state}: {}", criterion.condition), tone);
        y += 1;
    }
    if let Some(message) = view.last_message() {
        canvas.text(area, (0, y), message, Tone::Doubtful);
    }
}

fn help(canvas: &mut Canvas<'_>, area: Rect) {
    canvas.text(area, (0, 0), "Keys", Tone::Strong);
    for (y, line) in (2..).zip(HELP) {
        canvas.text(area, (2, y), line, Tone::Plain);
    }
    canvas.text(area, (0, area.height.saturating_sub(1)), "any key goes back", Tone::Faint);
}

fn opened(canvas: &mut Canvas<'_>, area: Rect, trace_id: &str, lines: &[String]) {
    // The tree begins with its id.
    let is_told = lines.first().is_some_and(|line| line.contains(trace_id));
    if !is_told {
        canvas.text(area, (0, 0), &format!("trace {trace_id}"), Tone::Strong);
    }
    let from = if is_told { 0 } else { 2 };
    let body = rows_of(area, from, area.height.saturating_sub(from + 2));
    for (y, line) in (0..body.height).zip(lines) {
        canvas.text(body, (0, y), line, Tone::Plain);
    }
    canvas.text(area, (0, area.height.saturating_sub(1)), "esc back  ↑ ↓ scroll", Tone::Faint);
}
