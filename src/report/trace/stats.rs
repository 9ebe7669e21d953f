//! Calls of trace points as Python's `pstats` prints functions: the same columns, in seconds.

use std::io::{self, Write};

use crate::analysis::call_stats::{CallStats, Calls, Function, SortKey};
use crate::report::words::visible;

/// Writes the table, at most `limit` rows.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(stats: &CallStats, by: SortKey, limit: usize, out: &mut dyn Write) -> io::Result<()> {
    let (total, primitive) = stats.calls();
    let nested = if primitive == total { String::new() } else { format!(" ({primitive} of them primitive)") };
    let own_s = seconds(stats.own_us());
    let traces = if stats.traces == 1 { "1 trace".to_owned() } else { format!("{} traces", stats.traces) };
    writeln!(out, "{total} trace points{nested} in {traces}, {own_s} s of their own in all")?;
    if stats.incomplete > 0 {
        writeln!(out, "{} more lack their start or their stop and are left out", stats.incomplete)?;
    }
    let order = match by {
        SortKey::Cumulative => "cumulative time",
        SortKey::Own => "time of their own",
        SortKey::Calls => "number of calls",
        SortKey::Name => "name",
    };
    writeln!(out, "\n   Ordered by: {order}\n")?;
    writeln!(
        out,
        "{:>12} {:>11} {:>11} {:>11} {:>11} service(point)",
        "ncalls", "tottime", "percall", "cumtime", "percall"
    )?;
    let rows = stats.rows(by);
    for (function, row) in rows.iter().take(limit) {
        writeln!(out, "{}", line(function, &row.calls))?;
    }
    if rows.len() > limit {
        writeln!(out, "\n{} more rows; see them with --limit {}", rows.len() - limit, rows.len())?;
    }
    Ok(())
}

fn line(function: &Function, calls: &Calls) -> String {
    let count = if calls.primitive == calls.total {
        calls.total.to_string()
    } else {
        format!("{}/{}", calls.total, calls.primitive)
    };
    let per = |us: u64, calls: u64| us.checked_div(calls).map_or_else(String::new, seconds);
    format!(
        "{count:>12} {:>11} {:>11} {:>11} {:>11} {}({})",
        seconds(calls.own_us),
        per(calls.own_us, calls.total),
        seconds(calls.cumulative_us),
        per(calls.cumulative_us, calls.primitive),
        visible(&function.place),
        visible(&function.name),
    )
}

fn seconds(us: u64) -> String {
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}
