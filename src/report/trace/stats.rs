//! Calls of trace points as Python's `pstats` shows functions: the same columns, in seconds.

use super::fetched;
use crate::document::{Block, Column, DocumentTable, ReportDocument};
use analysis::call_stats::{CallStats, Calls, SortKey};
use results::strata::Weighting;

/// The table, at most `limit` rows. Weighted counts are of all iterations, not of the traces.
#[must_use]
pub fn document(
    stats: &CallStats,
    weighted: Option<&Weighting>,
    by: SortKey,
    limit: usize,
) -> ReportDocument {
    let mut document = ReportDocument::new(2, "");
    let (total, primitive) = stats.calls();
    let nested = if primitive == total { String::new() } else { format!(" ({primitive} of them primitive)") };
    let own_s = seconds(stats.own_us());
    let traces = if stats.traces == 1 { "1 trace".to_owned() } else { format!("{} traces", stats.traces) };
    let of = weighted.map_or(traces, |seen| format!("{} iterations", seen.iterations));
    let about = if weighted.is_some() { "about " } else { "" };
    let mut head =
        vec![format!("{about}{total} trace points{nested} in {of}, {own_s} s own time in total").into()];
    head.extend(weighted.map(|seen| fetched::weighting(seen).into()));
    if stats.incomplete > 0 {
        let left_out = format!("{} more lack their start or their stop and are left out", stats.incomplete);
        head.push(left_out.into());
    }
    document.push(Block::List(head));
    let order = match by {
        SortKey::Cumulative => "cumulative time",
        SortKey::Own => "own time",
        SortKey::Calls => "number of calls",
        SortKey::Name => "name",
    };
    document.push(Block::Paragraph(format!("Ordered by: {order}").into()));
    let rows = stats.rows(by);
    let mut table = DocumentTable::new(vec![
        Column::figure("ncalls"),
        Column::figure("tottime"),
        Column::figure("percall"),
        Column::figure("cumtime"),
        Column::figure("percall"),
        Column::words("service(point)"),
    ]);
    table.rows_shown = limit;
    for (function, row) in rows.iter().take(limit) {
        let Calls { total, primitive, own_us, cumulative_us, .. } = row.calls;
        let count = if primitive == total { total.to_string() } else { format!("{total}/{primitive}") };
        let per = |us: u64, calls: u64| us.checked_div(calls).map_or_else(String::new, seconds);
        table.row([
            count.into(),
            seconds(own_us).into(),
            per(own_us, total).into(),
            seconds(cumulative_us).into(),
            per(cumulative_us, primitive).into(),
            format!("{}({})", function.place, function.name).into(),
        ]);
    }
    document.push(Block::Table(table));
    if let Some(left) = rows.len().checked_sub(limit).filter(|left| *left > 0) {
        let text = format!("{left} more rows; see them with --limit {}", rows.len());
        document.push(Block::Paragraph(text.into()));
    }
    document
}

fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}
