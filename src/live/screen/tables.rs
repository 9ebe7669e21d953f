//! The tables: steps, errors, criteria, slowest iterations.

use ratatui_core::layout::Rect;

use base::clock::Nanos;
use base::units::format_ns;
use verdict::standing::CriterionStanding;

use super::canvas::{Canvas, Tone, filled, filled_before};
use super::view::{LiveTable, ScreenView};
use super::words;
use crate::snapshot::{LoadSnapshot, SlowIteration, StepSnapshot};

/// The columns of a number.
const NUMBER: usize = 9;
/// The columns of a step's name.
const NAME_MIN: usize = 12;
const NAME_MAX: usize = 40;
/// The columns of how a criterion stands, and of its condition.
const STATE: usize = 15;
const CONDITION_MIN: usize = 20;
/// A trace id is shortened where there is less room than this.
const WIDE: u16 = 72;
const ID_CHARS: usize = 8;

/// A row as parts with their tones.
type TextParts = Vec<(String, Tone)>;

impl LiveTable {
    /// Its heading, with how many rows there are.
    pub(super) fn heading(self, load: &LoadSnapshot) -> String {
        match self {
            Self::Steps => "steps".to_owned(),
            Self::Errors if load.errors.is_empty() => "errors".to_owned(),
            Self::Errors => {
                format!("errors {}", words::count(load.errors.iter().map(|error| error.count).sum()))
            }
            Self::Criteria => "criteria".to_owned(),
            Self::Slowest => "slowest".to_owned(),
        }
    }
}

/// Draws a table, with the chosen row in sight.
pub(super) fn table(
    canvas: &mut Canvas<'_>,
    area: Rect,
    (kind, is_first): (LiveTable, bool),
    load: &LoadSnapshot,
    view: &ScreenView,
) {
    let wide = area.width >= WIDE;
    let (head, rows) = match kind {
        LiveTable::Steps => steps(load, area.width),
        LiveTable::Errors => errors(load),
        LiveTable::Criteria => criteria(load, area.width),
        LiveTable::Slowest => slowest(load, wide),
    };
    let mut body = area;
    if let Some(head) = head {
        canvas.text(area, (0, 0), &head, Tone::Faint);
        body = Rect::new(area.x, area.y + 1, area.width, area.height.saturating_sub(1));
    }
    let (chosen, room) = (view.row(kind), usize::from(body.height));
    let from = (chosen + 1).saturating_sub(room);
    for (y, parts) in (0..body.height).zip(rows.iter().skip(from)) {
        canvas.line(body, y, parts);
        if is_first && from + usize::from(y) == chosen {
            canvas.choose(body, y);
        }
    }
    if rows.is_empty() {
        let nothing = match kind {
            LiveTable::Errors => "none so far",
            LiveTable::Criteria => "the scenario has none",
            LiveTable::Steps | LiveTable::Slowest => "nothing has ended yet",
        };
        canvas.text(body, (0, 0), nothing, Tone::Faint);
    }
}

fn steps(load: &LoadSnapshot, width: u16) -> (Option<String>, Vec<TextParts>) {
    let all = StepSnapshot {
        name: "iteration".to_owned(),
        count: load.ended.saturating_sub(load.warm_up),
        failed: load.failed,
        p50_ns: load.p50_ns,
        p95_ns: load.p95_ns,
        p99_ns: load.p99_ns,
        max_ns: load.max_ns,
    };
    // Where there is little room, the last columns are left out.
    let heads = ["count", "failed", "p50", "p95", "p99", "max"];
    let numbers = (usize::from(width).saturating_sub(NAME_MIN) / NUMBER).min(heads.len());
    let name = usize::from(width).saturating_sub(numbers * NUMBER).min(NAME_MAX);
    let shown = heads[..numbers].iter().map(|head| filled_before(head, NUMBER));
    let head = filled("", name) + &shown.collect::<String>();
    let row = |(number, step): (usize, &StepSnapshot)| {
        let indent = if number == 0 { "" } else { "  " };
        let time = |ns: Option<Nanos>| filled_before(&words::time(ns), NUMBER);
        let mut parts = vec![
            (filled(&format!("{indent}{}", step.name), name), Tone::Plain),
            (filled_before(&words::count(step.count), NUMBER), Tone::Plain),
            (
                filled_before(&words::count(step.failed), NUMBER),
                if step.failed > 0 { Tone::Bad } else { Tone::Faint },
            ),
            (time(step.p50_ns), Tone::Median),
            (time(step.p95_ns), Tone::Upper),
            (time(step.p99_ns), Tone::Top),
            (time(Some(step.max_ns).filter(|_| step.count > 0)), Tone::Plain),
        ];
        parts.truncate(numbers + 1);
        parts
    };
    (Some(head), std::iter::once(&all).chain(&load.steps).enumerate().map(row).collect())
}

fn errors(load: &LoadSnapshot) -> (Option<String>, Vec<TextParts>) {
    let row = |error: &crate::snapshot::ErrorSnapshot| {
        vec![
            (filled_before(&words::count(error.count), 7), Tone::Bad),
            (format!("  {}", filled(&error.class, 10)), Tone::Strong),
            (format!("  {}", error.example), Tone::Plain),
        ]
    };
    (None, load.errors.iter().map(row).collect())
}

fn criteria(load: &LoadSnapshot, width: u16) -> (Option<String>, Vec<TextParts>) {
    let also = |criterion: &CriterionStanding| {
        let forecast = words::forecast(criterion);
        let separator = if criterion.observed.is_empty() || forecast.is_empty() { "" } else { "; " };
        format!("{}{separator}{forecast}", criterion.observed)
    };
    let longest = |of: &dyn Fn(&CriterionStanding) -> usize| load.criteria.iter().map(of).max().unwrap_or(0);
    let behind = longest(&|criterion| also(criterion).chars().count());
    let room = usize::from(width).saturating_sub(STATE + 2 + behind).max(CONDITION_MIN);
    let condition = longest(&|criterion| criterion.condition.chars().count()).min(room);
    let row = |criterion: &CriterionStanding| {
        let (state, tone) = words::standing(criterion);
        vec![
            (filled(&state, STATE), tone),
            (filled(&criterion.condition, condition), Tone::Plain),
            (format!("  {}", also(criterion)), Tone::Faint),
        ]
    };
    (None, load.criteria.iter().map(row).collect())
}

fn slowest(load: &LoadSnapshot, wide: bool) -> (Option<String>, Vec<TextParts>) {
    let row = |slow: &SlowIteration| {
        let id = slow.trace_id.to_string();
        let id = if wide { id } else { id.chars().take(ID_CHARS).collect() };
        let mut also = vec![words::since(slow.at_ns)];
        if slow.failed {
            also.push("failed".to_owned());
        }
        also.extend(slow.spans.map(|spans| match spans {
            0 => "no spans yet".to_owned(),
            1 => "1 span".to_owned(),
            spans => format!("{spans} spans"),
        }));
        also.extend(largest(slow));
        vec![
            (filled_before(&format_ns(slow.response_ns), NUMBER), Tone::Top),
            (format!("  {id}"), Tone::Plain),
            (format!("  {}", also.join(", ")), Tone::Faint),
        ]
    };
    (None, load.slowest.iter().map(row).collect())
}

/// What took most of it, as far as the client can tell.
fn largest(slow: &SlowIteration) -> Option<String> {
    let share = |ns: Nanos| 100.0 * ns as f64 / slow.response_ns.max(1) as f64;
    let step = slow.longest_step.as_ref().filter(|(_, ns)| *ns > slow.queue_ns);
    match step {
        Some((name, ns)) => Some(format!("{name} {} ({:.0} %)", format_ns(*ns), share(*ns))),
        None if slow.queue_ns > 0 => {
            Some(format!("waited for its start {} ({:.0} %)", format_ns(slow.queue_ns), share(slow.queue_ns)))
        }
        None => None,
    }
}
