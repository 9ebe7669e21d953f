//! Which traces there are, as a table.

use crate::document::{Block, Cell, Column, DocumentTable, ReportDocument};
use osprofiler::driver::TraceSummary;

/// One row for each trace.
#[must_use]
pub fn document(traces: &[TraceSummary]) -> ReportDocument {
    let mut table = DocumentTable::new(vec![
        Column::words("Trace id"),
        Column::words("First record (UTC)"),
        Column::figure("Records").left_out(1),
        Column::name("First point"),
        Column::words("Failed"),
    ]);
    table.rows_shown = traces.len();
    for trace in traces {
        table.row([
            Cell::code(trace.base_id.as_str()),
            seconds(&trace.timestamp).into(),
            trace.records.map_or_else(|| "?".to_owned(), |records| records.to_string()).into(),
            trace.name.as_deref().unwrap_or("?").into(),
            trace.failed.map_or("?", |failed| if failed { "yes" } else { "" }).into(),
        ]);
    }
    let mut document = ReportDocument::new(2, "");
    document.push(Block::Table(table));
    document
}

/// `2026-11-20 22:52:01`, of a time to the microsecond.
fn seconds(timestamp: &str) -> String {
    timestamp.chars().take(19).collect::<String>().replace('T', " ")
}
