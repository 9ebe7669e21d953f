//! Comparisons of stored runs for people: at a terminal, and in Markdown.

use super::{AgainstHistory, RunRef, TracePoints, TwoRuns};
use crate::report::grid::{Grid, ratio};
use crate::report::markdown::text as markdown_text;
use crate::report::terminal::clean;
use crate::report::words::duration;
use crate::results::model::{Counts, Outcome};

const POINTS_SHOWN: usize = 8;
const ROWS_SHOWN: usize = 100;

/// One run cannot tell a build from an hour.
const CAVEAT: &str = "This describes these two runs. Whether the builds differ cannot be told from one run of each: what \
    else the machine and the network did at the time is in it as well. `bench ab` can tell.";

/// Two runs, for a terminal.
#[must_use]
pub fn terminal(compared: &TwoRuns) -> String {
    parts(compared, "", Grid::plain, str::to_owned).join("\n\n")
}

/// Two runs, for a step summary or a comment.
#[must_use]
pub fn markdown(compared: &TwoRuns) -> String {
    parts(compared, "### ", Grid::markdown, markdown_text).join("\n\n") + "\n"
}

fn parts(compared: &TwoRuns, head: &str, grid: fn(&Grid) -> String, text: fn(&str) -> String) -> Vec<String> {
    let title = text(&clean(&compared.new.scenario));
    let mut parts = vec![
        format!("{head}{title}: {} against {}", named(&compared.new, text), named(&compared.base, text)),
        CAVEAT.to_owned(),
    ];
    parts.extend(
        compared.differences.iter().map(|difference| format!("differs: {}", text(&clean(difference)))),
    );
    parts.push(format!("Response times\n\n{}", grid(&ratios(compared))));
    parts.push(format!("Failures\n\n{}", grid(&failures(compared))));
    for (choice, points) in [("typical", &compared.typical_points), ("slow", &compared.slow_points)] {
        if !points.kinds.is_empty() {
            parts.push(format!(
                "Trace points of {choice} iterations: time of their own and calls in a trace, of {} and {} traces that \
                 were fetched\n\n{}",
                points.base_traces,
                points.new_traces,
                grid(&point_grid(points))
            ));
        }
    }
    parts.extend(compared.notes.iter().map(|note| format!("note: {}", text(&clean(note)))));
    parts
}

fn named(run: &RunRef, text: fn(&str) -> String) -> String {
    let time: String = run.started_at.chars().take(19).collect();
    format!("{} ({time})", text(&clean(&run.path)))
}

fn ratios(compared: &TwoRuns) -> Grid {
    let mut grid = Grid::new(&["", "base", "new", "new/base", "at least", "at most", ""]);
    let several = compared.failures.len() > 1;
    for row in compared.rows.iter().take(ROWS_SHOWN) {
        let mut subject = Vec::new();
        if several {
            subject.push(clean(&row.workload));
        }
        subject.extend(row.action.as_deref().map(clean));
        subject.push(format!("p{}", row.percentile));
        let shown = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), ratio);
        let told = match (row.low, row.high) {
            (Some(low), _) if low > 1.0 => "longer",
            (_, Some(high)) if high < 1.0 => "shorter",
            (Some(_), Some(_)) => "not clear",
            _ => "too few samples",
        };
        grid.add(vec![
            subject.join(" "),
            duration(row.base_ms),
            duration(row.new_ms),
            shown(row.ratio),
            shown(row.low),
            shown(row.high),
            told.to_owned(),
        ]);
    }
    grid
}

fn failures(compared: &TwoRuns) -> Grid {
    let mut grid = Grid::new(&["", "base", "new"]);
    let shown = |counts: &Counts| format!("{} of {}", counts.failed + counts.dropped, counts.total);
    for row in &compared.failures {
        grid.add(vec![clean(&row.workload), shown(&row.base), shown(&row.new)]);
    }
    grid
}

fn point_grid(points: &TracePoints) -> Grid {
    let mut grid = Grid::new(&["", "base", "new", "at least", "at most", "calls base", "calls new"]);
    for kind in points.kinds.iter().take(POINTS_SHOWN) {
        let signed = |ms: Option<f64>| ms.map_or_else(|| "–".to_owned(), |ms| format!("{ms:+.3} ms"));
        grid.add(vec![
            format!("{} {}", clean(&kind.service), clean(&kind.name)),
            duration(kind.base_self_ms),
            duration(kind.new_self_ms),
            signed(kind.low_ms),
            signed(kind.high_ms),
            format!("{:.2}", kind.base_calls),
            format!("{:.2}", kind.new_calls),
        ]);
    }
    grid
}

/// A run against its history, for a terminal.
#[must_use]
pub fn history_terminal(judged: &AgainstHistory) -> String {
    history_parts(judged, "", Grid::plain, str::to_owned).join("\n\n")
}

/// The same in Markdown.
#[must_use]
pub fn history_markdown(judged: &AgainstHistory) -> String {
    history_parts(judged, "### ", Grid::markdown, markdown_text).join("\n\n") + "\n"
}

fn history_parts(
    judged: &AgainstHistory,
    head: &str,
    grid: fn(&Grid) -> String,
    text: fn(&str) -> String,
) -> Vec<String> {
    let outcome = match judged.outcome {
        Outcome::Pass => "PASS",
        Outcome::Fail => "FAIL",
        Outcome::Invalid => "INVALID",
        Outcome::Inconclusive | Outcome::None => "INCONCLUSIVE",
    };
    let title = text(&clean(&judged.new.scenario));
    let new = named(&judged.new, text);
    let mut parts = vec![
        format!("{head}{outcome} · {title}: {new} against {} past runs", judged.past.len()),
        grid(&history_grid(judged)),
        grid(&history_failures(judged)),
    ];
    parts.extend(judged.notes.iter().map(|note| format!("note: {}", text(&clean(note)))));
    parts
}

fn history_failures(judged: &AgainstHistory) -> Grid {
    let percent = |share: f64| format!("{:.3} %", share * 100.0);
    let mut grid = Grid::new(&["", "past runs", "new", "past runs fail at most", "told"]);
    for row in &judged.failures {
        grid.add(vec![
            format!("{} failed", clean(&row.workload)),
            percent(row.past_share),
            percent(row.new_share),
            percent(row.bound_share),
            clean(&row.reason),
        ]);
    }
    grid
}

/// One row for each metric.
#[must_use]
pub fn history_grid(judged: &AgainstHistory) -> Grid {
    let mut grid = Grid::new(&["", "past runs", "vary by", "new", "99 % of runs stay below", "told"]);
    for row in &judged.rows {
        let action = row.action.as_deref().map(|action| format!("{} ", clean(action))).unwrap_or_default();
        grid.add(vec![
            format!("{} {action}p{}", clean(&row.workload), row.percentile),
            duration(row.past_ms),
            format!("{:.1} %", row.sd * 100.0),
            duration(row.new_ms),
            duration(row.bound_ms),
            clean(&row.reason),
        ]);
    }
    grid
}
