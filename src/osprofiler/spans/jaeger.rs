//! The JSON of Jaeger's query service, `/api/traces` and `/api/services`.
//!
//! Times are microseconds, ids hexadecimal digits without (old releases) or with leading zeros, the
//! parent is a reference `CHILD_OF` (in old releases `parentSpanID`), and OpenTelemetry's links are references
//! `FOLLOWS_FROM`. Kind, status and scope of a
//! span that came by OTLP are tags: `span.kind`, `error`, `otel.status_code`, `otel.scope.name`.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{
    BoundedList, DecodedSpans, Faults, SPANS_MAX, SpanError, SpanEvent, SpanKind, SpanLink, TraceSpan,
    TruncatedList, read,
};
use crate::record::Info;
use crate::summary::TraceSummary;

const PARTS_OF_A_SPAN_MAX: usize = 100_000;
const SERVICES_MAX: usize = 10_000;
/// Traces of a listing; what comes after them is left out.
const LISTED_TRACES_MAX: usize = 100_000;
/// Spans of a trace that its place in a listing is made of.
const LISTED_SPANS_MAX: usize = 10_000;

#[derive(Deserialize)]
struct JaegerTraces {
    #[serde(default)]
    data: BoundedList<JaegerTrace, SPANS_MAX>,
    /// Of a file that has a single trace.
    #[serde(default)]
    spans: BoundedList<JaegerSpan, SPANS_MAX>,
    #[serde(default)]
    processes: Option<HashMap<String, Process>>,
}

#[derive(Deserialize)]
struct JaegerTrace {
    #[serde(default)]
    spans: BoundedList<JaegerSpan, SPANS_MAX>,
    #[serde(default)]
    processes: Option<HashMap<String, Process>>,
}

#[derive(Deserialize)]
struct Process {
    #[serde(rename = "serviceName", default)]
    service_name: String,
    #[serde(default)]
    tags: BoundedList<Tag, PARTS_OF_A_SPAN_MAX>,
}

#[derive(Deserialize)]
struct JaegerSpan {
    #[serde(rename = "traceID", default)]
    trace_id: String,
    #[serde(rename = "spanID", default)]
    span_id: String,
    #[serde(rename = "parentSpanID", default)]
    parent_span_id: Option<String>,
    #[serde(rename = "operationName", default)]
    operation_name: String,
    #[serde(default)]
    references: BoundedList<Reference, PARTS_OF_A_SPAN_MAX>,
    #[serde(rename = "startTime", default)]
    start_us: Value,
    #[serde(rename = "duration", default)]
    duration_us: Value,
    #[serde(default)]
    tags: BoundedList<Tag, PARTS_OF_A_SPAN_MAX>,
    #[serde(default)]
    logs: BoundedList<Log, PARTS_OF_A_SPAN_MAX>,
    #[serde(rename = "processID", default)]
    process_id: String,
    #[serde(default)]
    process: Option<Process>,
}

#[derive(Deserialize)]
struct Reference {
    #[serde(rename = "refType", default)]
    ref_type: String,
    #[serde(rename = "traceID", default)]
    trace_id: String,
    #[serde(rename = "spanID")]
    span_id: String,
}

#[derive(Deserialize)]
struct Tag {
    key: String,
    #[serde(rename = "type", default)]
    kind: String,
    #[serde(default)]
    value: Value,
}

#[derive(Deserialize)]
struct Log {
    #[serde(default)]
    timestamp: Value,
    fields: BoundedList<Tag, PARTS_OF_A_SPAN_MAX>,
}

#[derive(Deserialize)]
struct Services {
    #[serde(default)]
    data: BoundedList<String, SERVICES_MAX>,
}

/// The spans of all traces of an answer, or of a file that was saved; none if it holds none. What of it cannot be read is
/// counted.
///
/// # Errors
/// No JSON of that shape, or too many spans.
pub fn decode(body: &[u8]) -> Result<DecodedSpans, SpanError> {
    let JaegerTraces { data, spans, processes } = serde_json::from_slice(body).map_err(SpanError::Json)?;
    let mut decoded = DecodedSpans::default();
    for trace in data.0.into_iter().chain([JaegerTrace { spans, processes }]) {
        decode_spans(trace.spans.0, trace.processes, &mut decoded)?;
    }
    Ok(decoded)
}

/// Adds the spans of a trace, within the limit.
fn decode_spans(
    shown: Vec<JaegerSpan>,
    processes: Option<HashMap<String, Process>>,
    decoded: &mut DecodedSpans,
) -> Result<(), SpanError> {
    let nobody = Arc::new(Info::new());
    let processes = processes.unwrap_or_default().into_iter();
    let processes: HashMap<String, Arc<Info>> =
        processes.map(|(id, process)| (id, Arc::new(resource(process)))).collect();
    for mut span in shown {
        if decoded.spans.len() == SPANS_MAX {
            return Err(SpanError::TooMany);
        }
        let own = span.process.take().map(|process| Arc::new(resource(process)));
        let resource = own.as_ref().or_else(|| processes.get(&span.process_id)).unwrap_or(&nobody);
        match decode_span(span, resource, &mut decoded.faults) {
            Ok(span) => decoded.spans.push(span),
            Err(error) => decoded.faults.add(|| error.to_string()),
        }
    }
    Ok(())
}

#[derive(Deserialize)]
struct Listing {
    #[serde(default)]
    data: TruncatedList<ListingEntry, LISTED_TRACES_MAX>,
}

#[derive(Deserialize)]
struct ListedTrace {
    spans: TruncatedList<JaegerSpan, LISTED_SPANS_MAX>,
    #[serde(default)]
    processes: Option<HashMap<String, Process>>,
}

/// A trace of a listing, made while the listing is read: not all spans of all traces are in memory.
#[derive(Debug, Deserialize)]
#[serde(try_from = "ListedTrace")]
pub struct ListingEntry {
    /// The trace.
    pub trace_id: u128,
    /// When the last of its spans started, in nanoseconds since the Unix epoch.
    pub last_start_ns: u64,
    /// What a list shows of it; `None` if there is nothing to show.
    pub summary: Option<TraceSummary>,
}

impl TryFrom<ListedTrace> for ListingEntry {
    type Error = SpanError;

    fn try_from(trace: ListedTrace) -> Result<Self, SpanError> {
        let mut decoded = DecodedSpans::default();
        decode_spans(trace.spans.elements, trace.processes, &mut decoded)?;
        if let (Some(first), true) = (&decoded.faults.first, decoded.spans.is_empty()) {
            return Err(SpanError::Id(first.clone()));
        }
        let spans = decoded.spans;
        let trace_id = spans.first().map_or(0, |span| span.trace_id);
        let mut summary = read::summary(trace_id, &spans);
        if let (true, Some(summary)) = (trace.spans.is_cut, &mut summary) {
            summary.records = None;
            // Whether one of the others failed is not known.
            summary.failed = summary.failed.filter(|failed| *failed);
        }
        let last_start_ns = spans.iter().map(|span| span.start_ns).max().unwrap_or(0);
        Ok(Self { trace_id, last_start_ns, summary })
    }
}

/// The traces of an answer that lists them. Of more than it may hold, the first.
///
/// # Errors
/// No JSON of that shape, or an id that is none.
pub fn decode_listing(body: &[u8]) -> Result<Vec<ListingEntry>, SpanError> {
    serde_json::from_slice::<Listing>(body).map(|listing| listing.data.elements).map_err(SpanError::Json)
}

/// The names of the services that Jaeger knows.
///
/// # Errors
/// No JSON of that shape.
pub fn decode_services(body: &[u8]) -> Result<Vec<String>, SpanError> {
    serde_json::from_slice::<Services>(body).map(|services| services.data.0).map_err(SpanError::Json)
}

/// An id of up to 128 bits in hexadecimal digits.
pub(super) fn hex_id(text: &str) -> Result<u128, SpanError> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let id = if digits { u128::from_str_radix(text, 16).ok() } else { None };
    id.ok_or_else(|| SpanError::Id(text.chars().take(40).collect()))
}

fn resource(process: Process) -> Info {
    let mut resource = object(process.tags.0);
    resource.insert("service.name".to_owned(), process.service_name.into());
    resource
}

fn decode_span(span: JaegerSpan, resource: &Arc<Info>, faults: &mut Faults) -> Result<TraceSpan, SpanError> {
    let trace_id = hex_id(&span.trace_id)?;
    let span_id = hex_span_id(&span.span_id)?;
    let mut attributes = object(span.tags.0);
    let mut take = |key: &str| attributes.swap_remove(key).map(super::meaning::text);
    let kind = take("span.kind").map(|kind| SpanKind::from_name(&kind)).unwrap_or_default();
    let scope = take("otel.scope.name").or_else(|| take("otel.library.name")).unwrap_or_default();
    let status = take("otel.status_code");
    let message = take("otel.status_description");
    for key in ["otel.scope.version", "otel.library.version", "internal.span.format", "w3c.tracestate"] {
        take(key);
    }
    let start_ns = time_ns("startTime", &span.start_us, faults).map_or(0, |ns| ns.max(0).unsigned_abs());
    // Without a start, its end is not known.
    let length_ns = time_ns("duration", &span.duration_us, faults).filter(|_| start_ns > 0);
    let events = span.logs.0.into_iter().map(|log| {
        let mut attributes = object(log.fields.0);
        let name = attributes.swap_remove("event").map(super::meaning::text).unwrap_or_default();
        SpanEvent {
            name,
            time_ns: microseconds(&log.timestamp).unwrap_or(0).max(0).unsigned_abs(),
            attributes,
        }
    });
    Ok(TraceSpan {
        trace_id,
        span_id,
        parent_id: parent(&span.references.0, span.parent_span_id.as_deref(), trace_id)?,
        name: span.operation_name,
        kind,
        start_ns,
        // Not 0, which would be no end at all.
        end_ns: length_ns.map_or(0, |ns| start_ns.saturating_add_signed(ns).max(1)),
        events: events.collect(),
        links: links(&span.references.0, trace_id),
        error: (status.as_deref() == Some("ERROR")).then(|| message.unwrap_or_default()),
        attributes,
        resource: Arc::clone(resource),
        scope: Arc::from(scope),
    })
}

/// The enclosing span: the first that it is a child of, else one that it follows, in this trace.
fn parent(references: &[Reference], old: Option<&str>, trace_id: u128) -> Result<Option<u64>, SpanError> {
    let here = |reference: &&Reference| {
        reference.trace_id.is_empty() || hex_id(&reference.trace_id).is_ok_and(|id| id == trace_id)
    };
    let mut candidates = references.iter().filter(here);
    let first = candidates.clone().find(|reference| reference.ref_type == "CHILD_OF");
    let parent = first.or_else(|| candidates.next()).map(|reference| reference.span_id.as_str());
    let Some(parent) = parent.or(old).filter(|parent| !parent.is_empty()) else { return Ok(None) };
    Ok(Some(hex_span_id(parent)?).filter(|parent| *parent != 0))
}

/// The spans that it follows, in this trace or in others. References that are none cost nothing else.
fn links(references: &[Reference], trace_id: u128) -> Vec<SpanLink> {
    let follows = references.iter().filter(|reference| reference.ref_type == "FOLLOWS_FROM");
    let link = |reference: &Reference| {
        let trace_id = match reference.trace_id.as_str() {
            "" => trace_id,
            text => hex_id(text).ok()?,
        };
        Some(SpanLink { trace_id, span_id: hex_span_id(&reference.span_id).ok()? })
    };
    follows.filter_map(link).collect()
}

fn hex_span_id(text: &str) -> Result<u64, SpanError> {
    u64::try_from(hex_id(text)?).map_err(|_| SpanError::Id(text.to_owned()))
}

/// Microseconds as nanoseconds; `None` without a value, and for one that cannot be read, which is counted.
fn time_ns(name: &str, value: &Value, faults: &mut Faults) -> Option<i64> {
    let known = microseconds(value);
    if known.is_none() && !value.is_null() {
        faults.add(|| {
            let shown = crate::record::bounded_text(value, VALUE_BYTES_SHOWN);
            format!("{name} has an invalid value: {shown}")
        });
    }
    known
}

/// This much of a value that cannot be read is shown.
const VALUE_BYTES_SHOWN: usize = 60;

fn microseconds(value: &Value) -> Option<i64> {
    let us = match value {
        Value::String(text) => text.parse().ok()?,
        value => value.as_f64().filter(|us| us.is_finite())?,
    };
    match value.as_i64() {
        Some(us) => Some(us.saturating_mul(1_000)),
        // It saturates.
        None => Some((us * 1_000.0) as i64),
    }
}

fn object(tags: Vec<Tag>) -> Map<String, Value> {
    tags.into_iter().map(|tag| (tag.key, value(&tag.kind, tag.value))).collect()
}

/// Whole numbers that JavaScript cannot represent are strings.
fn value(kind: &str, value: Value) -> Value {
    match (kind, value.as_str()) {
        ("int64", Some(text)) => text.parse::<i64>().map_or(value, Value::from),
        ("bool", Some(text)) => text.parse::<bool>().map_or(value, Value::from),
        ("float64", Some(text)) => text.parse::<f64>().map_or(value, Value::from),
        _ => value,
    }
}
