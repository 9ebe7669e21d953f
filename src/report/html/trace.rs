//! The page of one trace: waterfall, search, details of a point, and the table of calls.
//!
//! It shares style and waterfall with the run's report, and is as safe against the contents of a trace: text is
//! escaped or packed, never markup. Nothing here may read a collector.

use std::io::{self, Write};

use minijinja::{Value, context};
use serde::Serialize;

use super::{STYLE, content_policy, fill, flames, points, script, text};
use crate::trace::reported;
use crate::words::duration_us;
use ::text::times::rfc3339;
use analysis::call_stats::{CallStats, Function, SortKey};
use analysis::statement;
use osprofiler::report::{Point, TraceTree};
use results::functions::Functions;
use results::model::Explanation;
use results::trace::state;

pub(super) const PAGE: &str = include_str!("trace.html");
pub(super) const SCRIPT: &str = include_str!("trace.js");
/// The largest length of the first point's statement or path in the page's title.
const TITLE_CHARS_MAX: usize = 200;
/// The largest length of a point's name in the table of calls.
const NAME_CHARS_MAX: usize = 300;
/// The largest number of rows in the table of calls.
const CALLS_MAX: usize = 40;

#[derive(Serialize)]
struct TracePage {
    title: String,
    summary: String,
    base_id: String,
    started_at: String,
    places: String,
    notes: Vec<String>,
    failed: usize,
    calls: Vec<CallTableRow>,
    calls_left: usize,
}

#[derive(Serialize)]
struct CallTableRow {
    name: String,
    place: String,
    calls: String,
    own: String,
    share: String,
    cumulative: String,
}

/// Writes the page. Of a trace of a run, `seen` explains it, and `report` is the relative URL of the run's report.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(
    base_id: &str,
    tree: &TraceTree,
    seen: Option<&Explanation>,
    functions: &Functions,
    report: Option<&str>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let script = script(SCRIPT);
    let safe = Value::from_safe_string;
    let values = context! {
        policy => safe(content_policy(&script)),
        style => safe(STYLE.to_owned()),
        script => safe(script),
        traces => safe(points::trace(base_id, state(tree), tree, seen)?),
        page => page(base_id, tree),
        functions => safe(flames::of_trace(functions)),
        functions_header => functions.sum(false).header(),
        report,
    };
    fill(PAGE, values, out)
}

fn page(base_id: &str, tree: &TraceTree) -> TracePage {
    let failed = tree.points.iter().filter(|point| point.error.is_some()).count();
    let first = tree.points.first();
    let title = first.map_or_else(String::new, |point| {
        let detail = point.detail();
        if detail.is_empty() { point.name.to_string() } else { detail }
    });
    let mut notes = Vec::new();
    if tree.incomplete() > 0 {
        let points = text::counted(tree.incomplete() as u64, "point");
        let what = "without a start or a stop, or that ends before it starts";
        notes.push(format!("{points} {what}: how long they took is not known."));
    }
    if tree.unreadable > 0 {
        let records = text::counted(tree.unreadable, "record");
        notes.push(format!("{records} of this trace cannot be read: points may be missing."));
    }
    notes.extend(tree.gaps.texts().into_iter().map(|text| format!("Of this trace, {text}.")));
    let broken = match failed {
        0 => String::new(),
        failed => format!(", {failed} with an error"),
    };
    let points = text::counted(reported(tree) as u64, "point");
    let (calls, calls_left) = calls(tree);
    TracePage {
        title: if title.is_empty() {
            "Trace".to_owned()
        } else {
            text::shortened(&title, TITLE_CHARS_MAX).into_owned()
        },
        summary: format!("{} in {points}{broken}", duration_us(tree.length_us())),
        base_id: base_id.to_owned(),
        started_at: rfc3339(tree.first_unix_us.max(0).unsigned_abs().saturating_mul(1_000)),
        places: places(tree),
        notes,
        failed,
        calls,
        calls_left,
    }
}

/// The services that reported the trace, with their hosts.
fn places(tree: &TraceTree) -> String {
    let place = |point: &Point| {
        let service = point.reporter();
        match (&point.host, service.is_empty()) {
            (None, _) => service,
            (Some(host), true) => host.to_string(),
            (Some(host), false) => format!("{service} on {host}"),
        }
    };
    let mut places: Vec<String> = Vec::new();
    for place in tree.points.iter().map(place).filter(|place| !place.is_empty()) {
        if !places.contains(&place) && places.len() < 12 {
            places.push(place);
        }
    }
    places.join(", ")
}

fn calls(tree: &TraceTree) -> (Vec<CallTableRow>, usize) {
    let mut stats = CallStats::default();
    stats.add(tree, |index| {
        let point = &tree.points[index];
        let name = statement::name_and_kind(point);
        Function { place: point.reporter(), name }
    });
    let rows = stats.rows(SortKey::Own);
    let left = rows.len().saturating_sub(CALLS_MAX);
    let whole_us = stats.own_us().max(1);
    let call = |(function, row): &(&Function, &analysis::call_stats::FunctionStats)| CallTableRow {
        name: text::shortened(&function.name, NAME_CHARS_MAX).into_owned(),
        place: text::shortened(&function.place, NAME_CHARS_MAX).into_owned(),
        calls: text::count(row.calls.total),
        own: duration_us(row.calls.own_us),
        share: text::percent(row.calls.own_us as f64 / whole_us as f64),
        cumulative: duration_us(row.calls.cumulative_us),
    };
    (rows.iter().take(CALLS_MAX).map(call).collect(), left)
}
