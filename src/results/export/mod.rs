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
use measure::rows::{Rows, SampleRow};
use measure::sample::{ActionSample, CompletionStatus};
use serde_json::{Map, Value};

use super::record;

/// A format of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// Comma-separated values with a header line (RFC 4180).
    Csv,
    /// A JSON object per line.
    Jsonl,
    /// Apache Parquet.
    Parquet,
}

impl ExportFormat {
    /// False for Parquet in a build without the feature `parquet`.
    #[must_use]
    pub fn is_built(self) -> bool {
        self != Self::Parquet || cfg!(feature = "parquet")
    }
}

/// What a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportTable {
    Iterations,
    /// An action of an iteration: a request.
    Actions,
}

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportColumnKind {
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

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ExportCell<'a> {
    /// A trace id.
    Id(Uuid),
    /// Text; absent in a column of [`ExportColumnKind::OptionalText`].
    Text(Option<&'a str>),
    /// A whole number.
    Integer(u64),
    /// No whole number, in a column of [`ExportColumnKind::OptionalInteger`].
    NoInteger,
    /// True or false.
    Flag(bool),
}

/// A column's name and kind.
pub type Column = (&'static str, ExportColumnKind);

const ITERATIONS: [Column; 16] = [
    ("trace_id", ExportColumnKind::Id),
    ("workload", ExportColumnKind::Text),
    ("number", ExportColumnKind::Integer),
    ("warm_up", ExportColumnKind::Flag),
    ("outcome", ExportColumnKind::Text),
    ("due_ns", ExportColumnKind::Integer),
    ("start_ns", ExportColumnKind::OptionalInteger),
    ("start_lag_ns", ExportColumnKind::OptionalInteger),
    ("service_time_ns", ExportColumnKind::OptionalInteger),
    ("response_time_ns", ExportColumnKind::OptionalInteger),
    ("actions", ExportColumnKind::Integer),
    ("error_class", ExportColumnKind::OptionalText),
    ("error_action", ExportColumnKind::OptionalText),
    ("error_message", ExportColumnKind::OptionalText),
    ("profiled", ExportColumnKind::Flag),
    ("resent", ExportColumnKind::Flag),
];

const ACTIONS: [Column; 33] = [
    ("trace_id", ExportColumnKind::Id),
    ("workload", ExportColumnKind::Text),
    ("number", ExportColumnKind::Integer),
    ("warm_up", ExportColumnKind::Flag),
    ("position", ExportColumnKind::Integer),
    ("action", ExportColumnKind::Text),
    ("outcome", ExportColumnKind::Text),
    ("due_ns", ExportColumnKind::Integer),
    ("start_ns", ExportColumnKind::Integer),
    ("start_lag_ns", ExportColumnKind::Integer),
    ("service_time_ns", ExportColumnKind::Integer),
    ("response_time_ns", ExportColumnKind::Integer),
    ("resolve_ns", ExportColumnKind::Integer),
    ("connect_ns", ExportColumnKind::Integer),
    ("tls_ns", ExportColumnKind::Integer),
    ("send_ns", ExportColumnKind::Integer),
    ("wait_ns", ExportColumnKind::Integer),
    ("receive_ns", ExportColumnKind::Integer),
    ("redirect_ns", ExportColumnKind::Integer),
    ("connection_opened", ExportColumnKind::Flag),
    ("http2", ExportColumnKind::Flag),
    ("status", ExportColumnKind::Integer),
    ("body_bytes", ExportColumnKind::Integer),
    ("profiled", ExportColumnKind::Flag),
    ("resent", ExportColumnKind::Flag),
    ("syns_resent", ExportColumnKind::Integer),
    ("segments_resent", ExportColumnKind::Integer),
    ("segments_out_of_order", ExportColumnKind::Integer),
    ("messages", ExportColumnKind::OptionalInteger),
    ("first_message_ns", ExportColumnKind::OptionalInteger),
    ("longest_gap_ns", ExportColumnKind::OptionalInteger),
    ("tokens", ExportColumnKind::OptionalInteger),
    ("measured", ExportColumnKind::OptionalText),
];

impl ExportTable {
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
    fn row(&mut self, cells: &[ExportCell<'_>]) -> io::Result<()>;
    /// Writes the remaining rows.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// What was written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExportSummary {
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
    table: ExportTable,
    format: ExportFormat,
    output: &mut (dyn Write + Send),
) -> Result<ExportSummary, LogError> {
    let log = RunLog::open(log)?;
    let columns = table.columns();
    let writer: io::Result<Box<dyn RowWriter + '_>> = match format {
        ExportFormat::Csv => csv::CsvWriter::new(columns, output).map(|writer| Box::new(writer) as _),
        ExportFormat::Jsonl => Ok(Box::new(jsonl::JsonlWriter::new(columns, output))),
        #[cfg(feature = "parquet")]
        ExportFormat::Parquet => {
            parquet::ParquetWriter::new(columns, output).map(|writer| Box::new(writer) as _)
        }
        #[cfg(not(feature = "parquet"))]
        ExportFormat::Parquet => Err(io::ErrorKind::Unsupported.into()),
    };
    let mut source = RowExporter {
        table,
        ids: log.ids(),
        header: &log.header,
        failures: HashMap::new(),
        writer: writer.map_err(LogError::Visitor)?,
        iterations: 0,
        rows: 0,
    };
    let ending = log.visit(&mut [&mut source])?;
    let RowExporter { writer, iterations, rows, .. } = source;
    writer.finish().map_err(LogError::Visitor)?;
    let expected = ending.end.as_ref().and_then(|end| end.rows);
    let mut missing = record::damage(ending.flaws, iterations, expected);
    if ending.end.is_none() {
        missing.push("the run log has no end: what ran after its last whole frame is unknown".to_owned());
    }
    Ok(ExportSummary { rows, missing })
}

/// The visitor that writes the rows of a table.
struct RowExporter<'a> {
    table: ExportTable,
    ids: RunIds,
    header: &'a Header,
    failures: HashMap<u32, Failure>,
    writer: Box<dyn RowWriter + 'a>,
    /// How many rows the log has.
    iterations: u64,
    /// How many rows were written.
    rows: u64,
}

impl Visitor for RowExporter<'_> {
    fn failures(&mut self, failures: &[NumberedFailure]) {
        self.failures.extend(failures.iter().map(|entry| (entry.number, entry.failure.clone())));
    }

    fn rows(&mut self, rows: &Rows) -> io::Result<()> {
        self.iterations += rows.len() as u64;
        rows.iter().try_for_each(|row| self.add(row))
    }
}

impl RowExporter<'_> {
    fn add(&mut self, row: SampleRow<'_>) -> io::Result<()> {
        match self.table {
            ExportTable::Iterations => {
                self.rows += 1;
                self.iteration(row)
            }
            ExportTable::Actions => {
                self.rows += row.actions.len() as u64;
                self.actions(row)
            }
        }
    }

    /// Whether its requests carried trace headers.
    fn profiled(&self, row: SampleRow<'_>) -> bool {
        self.header.profiling_off.is_none() && !self.ids.is_control(row.head)
    }

    fn iteration(&mut self, row: SampleRow<'_>) -> io::Result<()> {
        let head = row.head;
        let profiled = self.profiled(row);
        // An arrival that never started has none of these times, and 0 would be a very good one.
        let of_started =
            |ns| if head.has_started() { ExportCell::Integer(ns) } else { ExportCell::NoInteger };
        let failure = self.failures.get(&head.error);
        let workload = workload_of(self.header, row);
        self.writer.row(&[
            ExportCell::Id(self.ids.trace_id(head)),
            ExportCell::Text(Some(workload)),
            ExportCell::Integer(head.number),
            ExportCell::Flag(head.warm_up),
            ExportCell::Text(Some(word(head.ended))),
            ExportCell::Integer(head.due_ns),
            of_started(head.start_ns),
            of_started(head.queue_time_ns()),
            of_started(head.duration_ns),
            of_started(head.response_ns()),
            ExportCell::Integer(u64::from(head.actions)),
            ExportCell::Text(failure.map(|failure| failure.class.as_str())),
            ExportCell::Text(failure.and_then(|failure| failure.action.as_deref())),
            ExportCell::Text(failure.map(|failure| failure.message.as_str())),
            ExportCell::Flag(profiled),
            ExportCell::Flag(head.resent),
        ])
    }

    fn actions(&mut self, row: SampleRow<'_>) -> io::Result<()> {
        let head = row.head;
        let names = self.header.workloads.get(usize::from(head.workload)).map(|names| &names.actions);
        let workload = workload_of(self.header, row);
        let (trace_id, profiled) = (self.ids.trace_id(head), self.profiled(row));
        for (position, action) in (0..).zip(row.actions) {
            let name = names.and_then(|names| names.get(usize::from(action.action)));
            let (phases, stream) = (&action.phases, row.stream_of(action));
            let measured = self.measured(row, action);
            let of_stream = |number: Option<u64>| number.map_or(ExportCell::NoInteger, ExportCell::Integer);
            self.writer.row(&[
                ExportCell::Id(trace_id),
                ExportCell::Text(Some(workload)),
                ExportCell::Integer(head.number),
                ExportCell::Flag(head.warm_up),
                ExportCell::Integer(position),
                ExportCell::Text(Some(name.map_or("", |(name, _)| name))),
                ExportCell::Text(Some(word(action.ended))),
                ExportCell::Integer(head.due_ns.saturating_add(action.offset_ns)),
                ExportCell::Integer(head.start_ns.saturating_add(action.offset_ns)),
                ExportCell::Integer(head.queue_time_ns()),
                ExportCell::Integer(action.duration_ns),
                ExportCell::Integer(action.duration_ns.saturating_add(head.queue_time_ns())),
                ExportCell::Integer(phases.resolve_ns),
                ExportCell::Integer(phases.connect_ns),
                ExportCell::Integer(phases.tls_ns),
                ExportCell::Integer(phases.send_ns),
                ExportCell::Integer(phases.wait_ns),
                ExportCell::Integer(phases.receive_ns),
                ExportCell::Integer(phases.before_ns),
                ExportCell::Flag(phases.opened),
                ExportCell::Flag(action.protocol.is_http2(action.phases.version)),
                ExportCell::Integer(action.outcome.unwrap_or(0).into()),
                ExportCell::Integer(action.body_bytes),
                ExportCell::Flag(profiled),
                ExportCell::Flag(phases.resent),
                ExportCell::Integer(phases.retransmits.syns.into()),
                ExportCell::Integer(phases.retransmits.segments.into()),
                ExportCell::Integer(phases.retransmits.out_of_order.into()),
                of_stream(stream.map(|stream| stream.messages)),
                of_stream(stream.filter(|stream| stream.messages > 0).map(|stream| stream.first_ns)),
                of_stream(stream.and_then(|stream| stream.gaps.iter().last()).map(|(gap_ns, _)| gap_ns)),
                of_stream(stream.map(|stream| stream.tokens).filter(|tokens| *tokens > 0)),
                ExportCell::Text(measured.as_deref()),
            ])?;
        }
        Ok(())
    }
}

impl RowExporter<'_> {
    /// The numbers that an action took from its answer, as a JSON object; `null` where there was none.
    fn measured(&self, row: SampleRow<'_>, action: &ActionSample) -> Option<String> {
        let names = &self.header.workloads.get(usize::from(row.head.workload))?.measures;
        let own = row.numbers.iter().filter(|number| number.point == action.point);
        let named = own.filter_map(|number| {
            Some((names.get(usize::from(number.measure))?.clone(), Value::from(number.value())))
        });
        let named: Map<String, Value> = named.collect();
        (!named.is_empty()).then(|| Value::Object(named).to_string())
    }
}

fn workload_of<'a>(header: &'a Header, row: SampleRow<'_>) -> &'a str {
    header.workloads.get(usize::from(row.head.workload)).map_or("", |workload| &workload.name)
}

/// The outcomes, as in `results.json`.
fn word(ended: CompletionStatus) -> &'static str {
    match ended {
        CompletionStatus::Ok => "ok",
        CompletionStatus::Failed => "failed",
        CompletionStatus::Aborted => "aborted",
        CompletionStatus::Dropped => "dropped",
    }
}
