//! Exports the run log as a table for other programs, with a row per iteration or per action.
//!
//! This needs a single pass, in memory that does not grow with the run. Every figure is exact: times are
//! whole nanoseconds, as recorded. Nothing may be aggregated here.

mod csv;
mod jsonl;
#[cfg(feature = "parquet")]
mod parquet;

use std::collections::HashMap;
use std::io::{self, Write};
use std::path::Path;

use uuid::Uuid;

use measure::errors::{Failure, NumberedFailure};
use measure::ids::RunIds;
use measure::log::{Header, LogError, RunLog, Visitor};
use measure::protocol::is_http2;
use measure::rows::{Row, Rows};
use measure::sample::Ended;

use super::record;

/// A format of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values with a header line (RFC 4180).
    Csv,
    /// A JSON object per line.
    Jsonl,
    /// Apache Parquet.
    Parquet,
}

impl Format {
    /// False for Parquet in a build without the feature `parquet`.
    #[must_use]
    pub fn is_built(self) -> bool {
        self != Self::Parquet || cfg!(feature = "parquet")
    }
}

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Table {
    /// An iteration.
    Iterations,
    /// An action of an iteration: a request.
    Actions,
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An iteration's trace id, as text.
    Id,
    /// Text, the same in many rows.
    Text,
    /// The same, but absent in some rows.
    OptionalText,
    /// A whole number.
    Integer,
    /// The same, but absent in some rows.
    OptionalInteger,
    /// True or false.
    Flag,
}

/// A cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// A trace id.
    Id(Uuid),
    /// Text; absent in a column of [`Kind::OptionalText`].
    Text(Option<&'a str>),
    /// A whole number.
    Integer(u64),
    /// No whole number, in a column of [`Kind::OptionalInteger`].
    NoInteger,
    /// True or false.
    Flag(bool),
}

/// A column's name and kind.
pub type Column = (&'static str, Kind);

const ITERATIONS: [Column; 16] = [
    ("trace_id", Kind::Id),
    ("workload", Kind::Text),
    ("number", Kind::Integer),
    ("warm_up", Kind::Flag),
    ("outcome", Kind::Text),
    ("due_ns", Kind::Integer),
    ("start_ns", Kind::OptionalInteger),
    ("start_lag_ns", Kind::OptionalInteger),
    ("service_time_ns", Kind::OptionalInteger),
    ("response_time_ns", Kind::OptionalInteger),
    ("actions", Kind::Integer),
    ("error_class", Kind::OptionalText),
    ("error_action", Kind::OptionalText),
    ("error_message", Kind::OptionalText),
    ("profiled", Kind::Flag),
    ("resent", Kind::Flag),
];

const ACTIONS: [Column; 28] = [
    ("trace_id", Kind::Id),
    ("workload", Kind::Text),
    ("number", Kind::Integer),
    ("warm_up", Kind::Flag),
    ("position", Kind::Integer),
    ("action", Kind::Text),
    ("outcome", Kind::Text),
    ("due_ns", Kind::Integer),
    ("start_ns", Kind::Integer),
    ("start_lag_ns", Kind::Integer),
    ("service_time_ns", Kind::Integer),
    ("response_time_ns", Kind::Integer),
    ("resolve_ns", Kind::Integer),
    ("connect_ns", Kind::Integer),
    ("tls_ns", Kind::Integer),
    ("send_ns", Kind::Integer),
    ("wait_ns", Kind::Integer),
    ("receive_ns", Kind::Integer),
    ("redirect_ns", Kind::Integer),
    ("connection_opened", Kind::Flag),
    ("http2", Kind::Flag),
    ("status", Kind::Integer),
    ("body_bytes", Kind::Integer),
    ("profiled", Kind::Flag),
    ("resent", Kind::Flag),
    ("syns_resent", Kind::Integer),
    ("segments_resent", Kind::Integer),
    ("segments_out_of_order", Kind::Integer),
];

impl Table {
    /// Its columns; offsets (`due_ns`, `start_ns`) count from the run's start.
    #[must_use]
    pub fn columns(self) -> &'static [Column] {
        match self {
            Self::Iterations => &ITERATIONS,
            Self::Actions => &ACTIONS,
        }
    }
}

/// Accepts rows one by one.
trait RowWriter {
    fn row(&mut self, cells: &[Cell<'_>]) -> io::Result<()>;
    /// Writes the remaining rows.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Rows.
    pub rows: u64,
    /// What the log lacks, as sentences; empty if it is complete.
    pub missing: Vec<String>,
}

/// Writes a table of a run's log.
///
/// # Errors
/// No log, or [`LogError::Visitor`] if the output cannot be written.
pub fn export(
    log: &Path,
    table: Table,
    format: Format,
    output: &mut (dyn Write + Send),
) -> Result<Exported, LogError> {
    let log = RunLog::open(log)?;
    let columns = table.columns();
    let writer: io::Result<Box<dyn RowWriter + '_>> = match format {
        Format::Csv => csv::CsvWriter::new(columns, output).map(|writer| Box::new(writer) as _),
        Format::Jsonl => Ok(Box::new(jsonl::JsonlWriter::new(columns, output))),
        #[cfg(feature = "parquet")]
        Format::Parquet => parquet::ParquetWriter::new(columns, output).map(|writer| Box::new(writer) as _),
        #[cfg(not(feature = "parquet"))]
        Format::Parquet => Err(io::ErrorKind::Unsupported.into()),
    };
    let mut source = Source {
        table,
        ids: log.ids(),
        header: &log.header,
        failures: HashMap::new(),
        writer: writer.map_err(LogError::Visitor)?,
        iterations: 0,
        rows: 0,
    };
    let ending = log.visit(&mut [&mut source])?;
    let Source { writer, iterations, rows, .. } = source;
    writer.finish().map_err(LogError::Visitor)?;
    let expected = ending.end.as_ref().and_then(|end| end.rows);
    let mut missing = record::damage(ending.flaws, iterations, expected);
    if ending.end.is_none() {
        missing.push("the run log has no end: what ran after its last whole frame is unknown".to_owned());
    }
    Ok(Exported { rows, missing })
}

/// The visitor that writes the rows of a table.
struct Source<'a> {
    table: Table,
    ids: RunIds,
    header: &'a Header,
    failures: HashMap<u32, Failure>,
    writer: Box<dyn RowWriter + 'a>,
    /// How many rows the log has.
    iterations: u64,
    /// How many rows were written.
    rows: u64,
}

impl Visitor for Source<'_> {
    fn failures(&mut self, failures: &[NumberedFailure]) {
        self.failures.extend(failures.iter().map(|entry| (entry.number, entry.failure.clone())));
    }

    fn rows(&mut self, rows: &Rows) -> io::Result<()> {
        self.iterations += rows.len() as u64;
        rows.iter().try_for_each(|row| self.add(row))
    }
}

impl Source<'_> {
    fn add(&mut self, row: Row<'_>) -> io::Result<()> {
        match self.table {
            Table::Iterations => {
                self.rows += 1;
                self.iteration(row)
            }
            Table::Actions => {
                self.rows += row.actions.len() as u64;
                self.actions(row)
            }
        }
    }

    /// Whether its requests carried trace headers.
    fn profiled(&self, row: Row<'_>) -> bool {
        self.header.profiling_off.is_none() && !self.ids.is_control(row.head)
    }

    fn iteration(&mut self, row: Row<'_>) -> io::Result<()> {
        let head = row.head;
        let profiled = self.profiled(row);
        // An arrival that never started has none of these times, and 0 would be a very good one.
        let of_started = |ns| if head.has_started() { Cell::Integer(ns) } else { Cell::NoInteger };
        let failure = self.failures.get(&head.error);
        let workload = workload_of(self.header, row);
        self.writer.row(&[
            Cell::Id(self.ids.trace_id(head)),
            Cell::Text(Some(workload)),
            Cell::Integer(head.number),
            Cell::Flag(head.warm_up),
            Cell::Text(Some(word(head.ended))),
            Cell::Integer(head.due_ns),
            of_started(head.start_ns),
            of_started(head.lag_ns()),
            of_started(head.duration_ns),
            of_started(head.response_ns()),
            Cell::Integer(u64::from(head.actions)),
            Cell::Text(failure.map(|failure| failure.class.as_str())),
            Cell::Text(failure.and_then(|failure| failure.action.as_deref())),
            Cell::Text(failure.map(|failure| failure.message.as_str())),
            Cell::Flag(profiled),
            Cell::Flag(head.resent),
        ])
    }

    fn actions(&mut self, row: Row<'_>) -> io::Result<()> {
        let head = row.head;
        let names = self.header.workloads.get(usize::from(head.workload)).map(|names| &names.actions);
        let workload = workload_of(self.header, row);
        let (trace_id, profiled) = (self.ids.trace_id(head), self.profiled(row));
        for (position, action) in (0..).zip(row.actions) {
            let name = names.and_then(|names| names.get(usize::from(action.action)));
            let phases = &action.phases;
            self.writer.row(&[
                Cell::Id(trace_id),
                Cell::Text(Some(workload)),
                Cell::Integer(head.number),
                Cell::Flag(head.warm_up),
                Cell::Integer(position),
                Cell::Text(Some(name.map_or("", |(name, _)| name))),
                Cell::Text(Some(word(action.ended))),
                Cell::Integer(head.due_ns.saturating_add(action.offset_ns)),
                Cell::Integer(head.start_ns.saturating_add(action.offset_ns)),
                Cell::Integer(head.lag_ns()),
                Cell::Integer(action.duration_ns),
                Cell::Integer(action.duration_ns.saturating_add(head.lag_ns())),
                Cell::Integer(phases.resolve_ns),
                Cell::Integer(phases.connect_ns),
                Cell::Integer(phases.tls_ns),
                Cell::Integer(phases.send_ns),
                Cell::Integer(phases.wait_ns),
                Cell::Integer(phases.receive_ns),
                Cell::Integer(phases.before_ns),
                Cell::Flag(phases.opened),
                Cell::Flag(is_http2(action)),
                Cell::Integer(action.outcome.unwrap_or(0).into()),
                Cell::Integer(action.body_bytes),
                Cell::Flag(profiled),
                Cell::Flag(phases.resent),
                Cell::Integer(phases.retransmits.syns.into()),
                Cell::Integer(phases.retransmits.segments.into()),
                Cell::Integer(phases.retransmits.out_of_order.into()),
            ])?;
        }
        Ok(())
    }
}

fn workload_of<'a>(header: &'a Header, row: Row<'_>) -> &'a str {
    header.workloads.get(usize::from(row.head.workload)).map_or("", |workload| &workload.name)
}

/// The outcomes, as in `results.json`.
fn word(ended: Ended) -> &'static str {
    match ended {
        Ended::Ok => "ok",
        Ended::Failed => "failed",
        Ended::Aborted => "aborted",
        Ended::Dropped => "dropped",
    }
}
