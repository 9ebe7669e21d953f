//! The stored traces of a run, longest first, each with the reason why it was fetched; and what weighted sums are of.

use std::path::Path;

use crate::document::{Block, Cell, Column, DocumentTable, ReportDocument, StyledLine};
use crate::words::duration_us;
use results::strata::Weighting;
use text::shell;

/// A stored trace.
#[derive(Clone, Debug, PartialEq)]
pub struct FetchedTrace {
    pub trace_id: String,
    /// The response time of its iteration, in microseconds; the trace's length where that is not known.
    pub took_us: u64,
    /// Why it was fetched.
    pub reason: &'static str,
    /// How many points it has.
    pub points: usize,
    /// How many of them failed.
    pub errors: usize,
    /// What made it slow; empty where that is not known.
    pub cause: StyledLine,
}

/// The list, with a title that says how to see one.
#[must_use]
pub fn document(traces: &[FetchedTrace], run: &str) -> ReportDocument {
    let mut document = ReportDocument::new(2, "");
    let run = shell::path(Path::new(run));
    let title = format!(
        "{} traces, longest response time first; see one with: bench trace show {run} ID",
        traces.len()
    );
    document.push(Block::Paragraph(title.into()));
    let mut table = DocumentTable::new(vec![
        Column::figure("took"),
        Column::words("trace id"),
        Column::figure("points").left_out(2),
        Column::words("why it was fetched"),
        Column::name("what made it slow").left_out(1),
    ]);
    table.rows_shown = traces.len();
    for trace in traces {
        let errors = match trace.errors {
            0 => String::new(),
            1 => ", with an error".to_owned(),
            errors => format!(", with {errors} errors"),
        };
        table.row([
            duration_us(trace.took_us).into(),
            Cell::code(trace.trace_id.as_str()),
            trace.points.to_string().into(),
            format!("{}{errors}", trace.reason).into(),
            trace.cause.clone().into(),
        ]);
    }
    document.push(Block::Table(table));
    document
}

/// What weighted sums are of, in sentences.
#[must_use]
pub fn weighting(seen: &Weighting) -> String {
    let Weighting { iterations, slow, rest, failed, without } = seen;
    let failed = if *failed == 0 { String::new() } else { format!(", {failed} of failed ones") };
    let without = match without {
        0 => String::new(),
        some => format!("; of {some} iterations no trace is like them"),
    };
    format!(
        "Weighted to all {iterations} iterations, from {} traces: {slow} of the slow 5 %, {rest} of others{failed}\
         {without}. Each counts for the iterations like it; --unweighted counts each once.",
        seen.traces()
    )
}
