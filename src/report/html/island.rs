//! The data for the report's script: JSON, and packed blocks of numbers and traces.
//!
//! Two encodings, both harmless inside a `<script>` element whatever the strings hold: JSON without
//! `<`, `>`, `&`, U+2028 and U+2029, and gzip in base64. Nothing here may emit markup.

use std::io::{self, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use serde_json::ser::{CharEscape, CompactFormatter, Formatter, Serializer};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::marks::{CulpritData, Mark, Marks};
use super::refs::{self, Shown, Traces};
use super::text;
use crate::analysis::mean_tree::own_shares;
use crate::report::words::point_name;
use crate::results::IterationColumns;
use crate::results::model::{
    Bucket, ComparedNode, Criterion, Distribution, Offered, Percentile, Results, Series, TraceState,
};
use crate::results::trace::StoredPoint;

/// The largest number of points of a trace in a run's report; a page with more rows is slow and unreadable.
pub(super) const POINTS_MAX: usize = 2_000;
/// The largest number of points on the page of a single trace.
pub(super) const PAGE_POINTS_MAX: usize = 10_000;
/// A point's info that is longer than this (as JSON) is cut.
const INFO_BYTES_MAX: usize = 16 * 1024;

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
}

#[derive(Serialize)]
struct WorkloadData<'a> {
    name: &'a str,
    start_s: f64,
    duration_s: f64,
    total: u64,
    response: Shape<'a>,
    service: Shape<'a>,
    series: Option<&'a Series>,
    offered: Option<&'a Offered>,
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
struct Shape<'a> {
    count: u64,
    max_ms: f64,
    percentiles: &'a [Percentile],
    buckets: &'a [Bucket],
}

impl<'a> From<&'a Distribution> for Shape<'a> {
    fn from(distribution: &'a Distribution) -> Self {
        Self {
            count: distribution.count,
            max_ms: distribution.max_ms,
            percentiles: &distribution.percentiles,
            buckets: &distribution.buckets,
        }
    }
}

#[derive(Serialize)]
struct TraceData<'a> {
    id: String,
    state: TraceState,
    total: usize,
    /// What explains it.
    culprit: Option<CulpritData<'a>>,
    points: Vec<PointData<'a>>,
}

#[derive(Serialize)]
struct PointData<'a> {
    depth: u32,
    id: &'a str,
    name: &'a str,
    detail: &'a str,
    service: &'a str,
    project: &'a str,
    host: &'a str,
    start_us: i64,
    duration_us: Option<u64>,
    self_us: u64,
    error: Option<&'a str>,
    /// The index of its mark.
    #[serde(skip_serializing_if = "Option::is_none")]
    mark: Option<usize>,
    info: Value,
    stop_info: Value,
}

/// The distributions of all workloads as JSON.
pub(super) fn charts(
    results: &Results,
    iterations: &IterationColumns,
    traces: Traces<'_>,
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
    let (mode, before) = match traces.shown {
        Shown::Text => ("text", ""),
        Shown::Embed => ("embed", ""),
        Shown::Pages(before) => ("pages", before.as_str()),
    };
    let marks = Marks::of(results);
    let ids = refs::shown(traces.stored).map(|trace| (trace.trace_id, trace.state, marks.cause(trace)));
    let island = Island {
        total: iterations.total,
        profiled: results.profiling.enabled,
        some_unprofiled: results.workloads.iter().any(|workload| workload.unprofiled > 0),
        source: source(results),
        traces: TracesData { mode, before, ids: ids.collect() },
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
    format!("{option} {}", text::argument(value))
}

fn tree(nodes: &[ComparedNode]) -> Vec<NodeData<'_>> {
    let own = own_shares(nodes);
    nodes
        .iter()
        .zip(own)
        .map(|(node, own)| NodeData { short: point_name(&node.name, &node.detail), node, own })
        .collect()
}

/// The traces that are embedded, each cut to its [`POINTS_MAX`] longest points.
pub(super) fn traces(results: &Results, traces: Traces<'_>) -> io::Result<String> {
    let marks = Marks::of(results);
    let embedded = if *traces.shown == Shown::Embed { traces.stored } else { &[] };
    let traces = refs::shown(embedded).map(|trace| TraceData {
        culprit: marks.culprit(trace),
        ..trace_data(trace.trace_id.to_string(), trace.state, &trace.points, POINTS_MAX, Some(&marks))
    });
    packed(&traces.collect::<Vec<_>>())
}

/// One trace, cut to its [`PAGE_POINTS_MAX`] longest points.
pub(super) fn trace(id: &str, state: TraceState, points: &[StoredPoint]) -> io::Result<String> {
    packed(&[trace_data(id.to_owned(), state, points, PAGE_POINTS_MAX, None)])
}

fn trace_data<'a>(
    id: String,
    state: TraceState,
    points: &'a [StoredPoint],
    points_max: usize,
    marks: Option<&Marks<'_>>,
) -> TraceData<'a> {
    let shown = shown_points(points, points_max);
    let points_shown = shown.into_iter().map(|index| point(&points[index], marks)).collect();
    TraceData { id, state, total: points.len(), culprit: None, points: points_shown }
}

fn packed(traces: &[TraceData<'_>]) -> io::Result<String> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    write_json(&traces, &mut gzip)?;
    Ok(STANDARD.encode(gzip.finish()?))
}

fn point<'a>(point: &'a StoredPoint, marks: Option<&Marks<'_>>) -> PointData<'a> {
    PointData {
        depth: point.depth,
        id: &point.trace_id,
        name: &point.name,
        detail: &point.detail,
        service: &point.service,
        project: &point.project,
        host: &point.host,
        start_us: point.start_us,
        duration_us: point.duration_us,
        self_us: point.self_us,
        error: point.error.as_deref(),
        mark: marks.and_then(|marks| marks.at(point)),
        info: bounded_info(&point.info),
        stop_info: bounded_info(&point.stop_info),
    }
}

/// The info itself, or the beginning of its JSON when it is very long.
fn bounded_info(info: &Value) -> Value {
    let json = info.to_string();
    if json.len() <= INFO_BYTES_MAX {
        return info.clone();
    }
    let mut cut = Map::new();
    cut.insert("cut from a total of bytes".to_owned(), json.len().into());
    cut.insert("beginning".to_owned(), json[..json.floor_char_boundary(INFO_BYTES_MAX)].into());
    Value::Object(cut)
}

/// The indices of the points to show: all, or those with errors and the longest, with their ancestors.
pub(super) fn shown_points(points: &[StoredPoint], points_max: usize) -> Vec<usize> {
    if points.len() <= points_max {
        return (0..points.len()).collect();
    }
    let parents = parents(points);
    let mut order: Vec<usize> = (0..points.len()).collect();
    order.sort_by_key(|index| {
        let point = &points[*index];
        (point.error.is_none(), std::cmp::Reverse(point.duration_us.unwrap_or(u64::MAX)))
    });
    let mut shown = vec![false; points.len()];
    let mut room = points_max;
    for index in order {
        let mut above = Vec::new();
        let mut next = Some(index);
        while let Some(current) = next.filter(|current| !shown[*current] && above.len() <= room) {
            above.push(current);
            next = parents[current];
        }
        if above.len() <= room {
            room -= above.len();
            above.into_iter().for_each(|kept| shown[kept] = true);
        }
    }
    (0..points.len()).filter(|index| shown[*index]).collect()
}

fn parents(points: &[StoredPoint]) -> Vec<Option<usize>> {
    let mut open: Vec<usize> = Vec::new();
    let mut parents = Vec::with_capacity(points.len());
    for (index, point) in points.iter().enumerate() {
        while open.last().is_some_and(|above| points[*above].depth >= point.depth) {
            open.pop();
        }
        parents.push(open.last().copied());
        open.push(index);
    }
    parents
}

fn write_json(value: &impl Serialize, out: &mut impl Write) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, Harmless)).map_err(io::Error::from)
}

/// JSON that is safe inside `<script>`, with deceptive characters written out.
struct Harmless;

impl Formatter for Harmless {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
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
