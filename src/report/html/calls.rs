//! The table of calls, as Python's `pstats` has it, over all stored traces of a run.
//!
//! `analysis::call_stats` counts; this file only formats.

use serde::Serialize;

use super::text;
use crate::words::{duration_us, shown_name};
use analysis::call_stats::{CallStats, Function, FunctionStats, SortKey};
use analysis::statement;
use results::trace::StoredTrace;

/// Rows of the table.
const ROWS_MAX: usize = 200;

#[derive(Serialize)]
pub(super) struct CallsView {
    about: String,
    rows: Vec<RowView>,
    left: usize,
}

#[derive(Serialize)]
struct RowView {
    name: String,
    place: String,
    calls: String,
    own: String,
    own_each: String,
    cumulative: String,
    cumulative_each: String,
    /// Calls, own and cumulative microseconds: the sort keys of the columns.
    keys: [u64; 3],
}

/// `None` when no trace is stored.
pub(super) fn view(stored: &[StoredTrace]) -> Option<CallsView> {
    let mut stats = CallStats::default();
    for trace in super::refs::shown(stored) {
        let tree = &trace.tree;
        stats.add(tree, |index| {
            let point = &tree.points[index];
            Function { place: point.reporter(), name: statement::name_and_kind(point) }
        });
    }
    if stats.functions.is_empty() {
        return None;
    }
    let rows = stats.rows(SortKey::Own);
    let (total, primitive) = stats.calls();
    let primitive =
        if primitive == total { String::new() } else { format!(" ({} primitive)", text::count(primitive)) };
    let incomplete = match stats.incomplete {
        0 => String::new(),
        points => format!(" {} without a start or a stop left out.", text::counted(points, "point")),
    };
    Some(CallsView {
        about: format!(
            "{} calls{primitive} in {} over {}: slow, failed and typical iterations, not the whole run.{incomplete}",
            text::count(total),
            duration_us(stats.own_us()),
            text::counted(stats.traces, "stored trace"),
        ),
        left: rows.len().saturating_sub(ROWS_MAX),
        rows: rows.into_iter().take(ROWS_MAX).map(row).collect(),
    })
}

fn row((function, stats): (&Function, &FunctionStats)) -> RowView {
    let calls = &stats.calls;
    let each = |us: u64, calls: u64| duration_us(us / calls.max(1));
    RowView {
        name: shown_name(&function.name).to_owned(),
        place: function.place.clone(),
        // As pstats does: all calls, and those not made by a call of the same kind.
        calls: if calls.total == calls.primitive {
            text::count(calls.total)
        } else {
            format!("{}/{}", text::count(calls.total), text::count(calls.primitive))
        },
        own: duration_us(calls.own_us),
        own_each: each(calls.own_us, calls.total),
        cumulative: duration_us(calls.cumulative_us),
        cumulative_each: each(calls.cumulative_us, calls.primitive),
        keys: [calls.total, calls.own_us, calls.cumulative_us],
    }
}
