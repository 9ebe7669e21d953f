//! The data for the report's script: JSON, and packed blocks of numbers and traces.
//!
//! Two encodings, both harmless inside a `<script>` element whatever the strings hold: JSON without
//! `<`, `>`, `&`, U+2028 and U+2029, and gzip in base64. Nothing here may emit markup.

use std::path::Path;

use ::text::shell;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};
use uuid::Uuid;

use super::marks::{Mark, Marks};
use super::refs::{self, LinkableTraces, TraceDisplay};
use super::text;
use crate::words::point_name;
use analysis::mean_tree::own_shares;
use measure::generator::ProcessSeries;
use results::IterationColumns;
use results::model::{
    Bucket, ComparedNode, Criterion, Distribution, OfferedLoad, Percentile, PercentilesOfDue, Results,
    Series, TraceState,
};

/// The data for the charts, except the iterations.
#[derive(Serialize)]
struct Island<'a> {
    total: u64,
    profiled: bool,
    /// True if some iterations were left unprofiled: they have no trace.
    some_unprofiled: bool,
    /// What `bench trace show` needs to ask the collector.
    source: String,
    traces: TracesData<'a>,
    process: Option<&'a ProcessSeries>,
    /// The kinds of points that make the difference; points and traces name them by their index.
    marks: &'a [Mark<'a>],
    workloads: Vec<WorkloadData<'a>>,
}

/// Which traces can be seen, and how.
#[derive(Serialize)]
struct TracesData<'a> {
    mode: &'static str,
    before: &'a str,
    /// With their states, and the mark that explains them.
    ids: Vec<(Uuid, TraceState, Option<usize>)>,
    /// Those that are not in this file, because it would be too large.
    left_out: Vec<Uuid>,
}

#[derive(Serialize)]
struct WorkloadData<'a> {
    name: &'a str,
    start_s: f64,
    duration_s: f64,
    total: u64,
    response: DistributionShape<'a>,
    service: DistributionShape<'a>,
    series: Option<&'a Series>,
    offered: Option<&'a OfferedLoad>,
    /// What its criteria allow an iteration's response time: the condition, and the limit in ms.
    limits: Vec<(&'a str, f64)>,
    tree: Vec<NodeData<'a>>,
}

/// A node of the mean tree.
#[derive(Serialize)]
struct NodeData<'a> {
    short: String,
    #[serde(flatten)]
    node: &'a ComparedNode,
    /// The part that none of its children explains, as a share of the whole difference.
    own: f64,
}

#[derive(Serialize)]
struct DistributionShape<'a> {
    count: u64,
    max_ms: f64,
    percentiles: &'a [Percentile],
    /// The percentiles of all iterations that were due; `None` if all of them were served.
    of_all: Option<&'a PercentilesOfDue>,
    buckets: &'a [Bucket],
}

impl<'a> From<&'a Distribution> for DistributionShape<'a> {
    fn from(distribution: &'a Distribution) -> Self {
        Self {
            count: distribution.count,
            max_ms: distribution.max_ms,
            percentiles: &distribution.percentiles,
            of_all: distribution.of_all.as_ref(),
            buckets: &distribution.buckets,
        }
    }
}

/// The distributions of all workloads as JSON.
pub(super) fn charts(
    results: &Results,
    iterations: &IterationColumns,
    traces: &LinkableTraces<'_>,
) -> io::Result<String> {
    let workloads = results.workloads.iter().map(|workload| WorkloadData {
        name: &workload.name,
        start_s: workload.start_s,
        duration_s: workload.duration_s,
        total: workload.iterations.total,
        response: (&workload.response_time).into(),
        service: (&workload.service_time).into(),
        series: workload.series.as_ref(),
        offered: workload.offered.as_ref(),
        limits: limits(results, &workload.name),
        tree: workload.comparison.as_ref().map(|comparison| tree(&comparison.tree)).unwrap_or_default(),
    });
    let (mode, before) = match traces.all.shown {
        TraceDisplay::Text => ("text", ""),
        TraceDisplay::Embed => ("embed", ""),
        TraceDisplay::Pages(before) => ("pages", before.as_str()),
    };
    let marks = Marks::of(results);
    let ids = refs::shown(traces.all.stored).map(|trace| (trace.trace_id, trace.state, marks.cause(trace)));
    let island = Island {
        total: iterations.total,
        profiled: results.profiling.enabled,
        some_unprofiled: results.workloads.iter().any(|workload| workload.unprofiled > 0),
        source: source(results),
        traces: TracesData { mode, before, ids: ids.collect(), left_out: traces.left_out() },
        process: results.generator.as_ref().and_then(|seen| seen.process.as_ref()),
        marks: &marks.all,
        workloads: workloads.collect(),
    };
    let mut json = Vec::new();
    write_json(&island, &mut json)?;
    String::from_utf8(json).map_err(io::Error::other)
}

/// The limits of criteria on the response time of whole iterations.
fn limits<'a>(results: &'a Results, workload: &str) -> Vec<(&'a str, f64)> {
    let of_iterations = |one: &&Criterion| {
        let other = ["action", "tag", "trace", "service", "asynchronous", "overhead"];
        one.workload == workload && !other.iter().any(|word| one.criterion.contains(word))
    };
    let known = results.verdict.criteria.iter().filter(of_iterations);
    let known = known.filter_map(|one| {
        let measured = one.measured.as_ref().filter(|measured| measured.unit == "ms")?;
        Some((one.condition.as_str(), measured.limit))
    });
    known.collect()
}

/// The collector as an argument: the embedded demo has a new one in each run, which no deployment names.
fn source(results: &Results) -> String {
    let (option, value) = match (&results.deployment.demo, &results.profiling.collector) {
        (Some(_), Some(collector)) => ("--connection-string", collector),
        _ => ("-d", &results.deployment.file),
    };
    format!("{option} {}", shell::path(Path::new(value)))
}

fn tree(nodes: &[ComparedNode]) -> Vec<NodeData<'_>> {
    let own = own_shares(nodes);
    nodes
        .iter()
        .zip(own)
        .map(|(node, own)| NodeData { short: point_name(&node.name, &node.detail), node, own })
        .collect()
}

pub(super) fn write_json(value: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, ScriptSafeFormatter)).map_err(io::Error::from)
}

/// JSON that is safe inside `<script>`, with deceptive characters written out.
struct ScriptSafeFormatter;

impl Formatter for ScriptSafeFormatter {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        let is_plain = |byte: u8| matches!(byte, b' '..=b'~') && !matches!(byte, b'<' | b'>' | b'&');
        if fragment.bytes().all(is_plain) {
            return out.write_all(fragment.as_bytes());
        }
        let mut rest = fragment;
        while let Some(at) = rest.find(|c| matches!(c, '<' | '>' | '&') || text::is_deceptive(c)) {
            out.write_all(&rest.as_bytes()[..at])?;
            let mut tail = rest[at..].chars();
            match tail.next() {
                Some(c @ ('<' | '>' | '&')) => write!(out, "\\u{:04x}", u32::from(c))?,
                Some(c) => out.write_all(text::code_point(c).as_bytes())?,
                None => {}
            }
            rest = tail.as_str();
        }
        out.write_all(rest.as_bytes())
    }

    fn write_char_escape<W: ?Sized + Write>(&mut self, out: &mut W, escape: CharEscape) -> io::Result<()> {
        let control = match escape {
            CharEscape::AsciiControl(byte) => byte,
            CharEscape::Backspace => 8,
            CharEscape::FormFeed => 12,
            CharEscape::CarriageReturn => 13,
            visible => return CompactFormatter.write_char_escape(out, visible),
        };
        out.write_all(text::code_point(char::from(control)).as_bytes())
    }
}
