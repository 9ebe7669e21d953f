//! OTLP traces as JSON: as the specification has it, and as Tempo answers.
//!
//! Tempo's first API names the list `batches`, its second puts all under `trace`; both write ids in
//! base64, where the specification has hexadecimal digits, and old ones name scopes
//! `instrumentationLibrary`. All of it is read. Numbers of 64 bits may be texts.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::{Event, Few, Kind, Link, SPANS_MAX, Span, SpanError};
use crate::record::Info;

/// More attributes or events than this of one span are refused.
const PARTS_OF_A_SPAN_MAX: usize = 100_000;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Traces {
    trace: Option<Box<Traces>>,
    /// `PARTIAL` for a trace that Tempo cut.
    #[serde(default)]
    status: Option<String>,
    #[serde(default, alias = "batches")]
    resource_spans: Few<ResourceSpans, SPANS_MAX>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans {
    #[serde(default)]
    resource: Attributes,
    #[serde(default, alias = "instrumentationLibrarySpans")]
    scope_spans: Few<ScopeSpans, SPANS_MAX>,
}

#[derive(Default, Deserialize)]
struct Attributes {
    #[serde(default)]
    attributes: Few<KeyValue, PARTS_OF_A_SPAN_MAX>,
}

#[derive(Deserialize)]
struct ScopeSpans {
    #[serde(default, alias = "instrumentationLibrary")]
    scope: Scope,
    #[serde(default)]
    spans: Few<OtlpSpan, SPANS_MAX>,
}

#[derive(Default, Deserialize)]
struct Scope {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OtlpSpan {
    trace_id: String,
    span_id: String,
    #[serde(default)]
    parent_span_id: Option<String>,
    #[serde(default)]
    name: String,
    #[serde(default)]
    kind: Value,
    #[serde(default)]
    start_time_unix_nano: Value,
    #[serde(default)]
    end_time_unix_nano: Value,
    #[serde(default)]
    attributes: Few<KeyValue, PARTS_OF_A_SPAN_MAX>,
    #[serde(default)]
    events: Few<OtlpEvent, PARTS_OF_A_SPAN_MAX>,
    #[serde(default)]
    links: Few<OtlpLink, PARTS_OF_A_SPAN_MAX>,
    #[serde(default)]
    status: Option<Status>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OtlpEvent {
    #[serde(default)]
    time_unix_nano: Value,
    name: String,
    #[serde(default)]
    attributes: Few<KeyValue, PARTS_OF_A_SPAN_MAX>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct OtlpLink {
    #[serde(default)]
    trace_id: String,
    #[serde(default)]
    span_id: String,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    message: String,
    #[serde(default)]
    code: Value,
}

#[derive(Deserialize)]
struct KeyValue {
    key: String,
    #[serde(default)]
    value: Value,
}

/// The spans of an answer; none if it holds none.
///
/// # Errors
/// No JSON of that shape, an id that is none, or too many spans.
pub fn decode(body: &[u8]) -> Result<Vec<Span>, SpanError> {
    let mut traces: Traces = serde_json::from_slice(body).map_err(SpanError::Json)?;
    if traces.status.as_deref() == Some("PARTIAL") {
        return Err(SpanError::TooMany);
    }
    if let Some(inner) = traces.trace.take() {
        traces = *inner;
    }
    let mut spans = Vec::new();
    for group in traces.resource_spans.0 {
        let resource = Arc::new(object(group.resource.attributes.0));
        for scoped in group.scope_spans.0 {
            let scope: Arc<str> = Arc::from(scoped.scope.name);
            for span in scoped.spans.0 {
                if spans.len() == SPANS_MAX {
                    return Err(SpanError::TooMany);
                }
                spans.push(decode_span(span, &resource, &scope)?);
            }
        }
    }
    Ok(spans)
}

fn decode_span(span: OtlpSpan, resource: &Arc<Info>, scope: &Arc<str>) -> Result<Span, SpanError> {
    let events = span.events.0.into_iter().map(|event| Event {
        name: event.name,
        time_ns: unsigned(&event.time_unix_nano),
        attributes: object(event.attributes.0),
    });
    // A link that is no link costs nothing else.
    let links = span.links.0.iter().filter_map(|link| {
        Some(Link { trace_id: id(&link.trace_id, 16).ok()?, span_id: id(&link.span_id, 8).ok()? as u64 })
    });
    let links = links.collect();
    let failed = |status: &Status| status.code == 2 || status.code == "STATUS_CODE_ERROR";
    let parent = span.parent_span_id.as_deref().filter(|parent| !parent.is_empty());
    let parent = parent.map(|parent| id(parent, 8)).transpose()?.map(|id| id as u64);
    Ok(Span {
        trace_id: id(&span.trace_id, 16)?,
        span_id: id(&span.span_id, 8)? as u64,
        parent_id: parent.filter(|parent| *parent != 0),
        name: span.name,
        kind: span
            .kind
            .as_str()
            .map_or_else(|| Kind::from_number(span.kind.as_i64().unwrap_or(0)), Kind::from_name),
        start_ns: unsigned(&span.start_time_unix_nano),
        end_ns: unsigned(&span.end_time_unix_nano),
        attributes: object(span.attributes.0),
        events: events.collect(),
        links,
        error: span.status.filter(failed).map(|status| status.message),
        resource: Arc::clone(resource),
        scope: Arc::clone(scope),
    })
}

/// An id of this many bytes, in hexadecimal digits or in base64.
fn id(text: &str, bytes: usize) -> Result<u128, SpanError> {
    let fault = || SpanError::Id(text.chars().take(40).collect());
    if text.len() == bytes * 2 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return u128::from_str_radix(text, 16).map_err(|_| fault());
    }
    let decoded = STANDARD.decode(text).ok().filter(|decoded| decoded.len() == bytes).ok_or_else(fault)?;
    Ok(decoded.iter().fold(0, |id, byte| (id << 8) | u128::from(*byte)))
}

fn unsigned(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0)
}

fn object(pairs: Vec<KeyValue>) -> Map<String, Value> {
    pairs.into_iter().map(|pair| (pair.key, any(&pair.value))).collect()
}

/// An `AnyValue`: an object whose only key says the type.
fn any(value: &Value) -> Value {
    let Some((kind, value)) = value.as_object().and_then(|object| object.iter().next()) else {
        return Value::Null;
    };
    let values = || value.get("values").and_then(Value::as_array).into_iter().flatten();
    match kind.as_str() {
        "intValue" => match value {
            Value::String(number) => number.parse::<i64>().map_or(Value::Null, Value::from),
            number => number.clone(),
        },
        "arrayValue" => values().map(any).collect(),
        "kvlistValue" => values()
            .filter_map(|pair| Some((pair.get("key")?.as_str()?.to_owned(), any(pair.get("value")?))))
            .collect::<Map<_, _>>()
            .into(),
        _ => value.clone(),
    }
}

/// What a search of Tempo found.
#[derive(Debug, Default, Deserialize)]
pub struct Found {
    #[serde(default)]
    traces: Few<FoundTrace, SPANS_MAX>,
}

/// A trace that a search of Tempo found.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FoundTrace {
    #[serde(rename = "traceID")]
    trace_id: String,
    #[serde(default)]
    root_trace_name: String,
    #[serde(default)]
    start_time_unix_nano: Value,
}

/// The traces of an answer to a search: id, start in nanoseconds, and the root's name if known.
///
/// # Errors
/// No JSON of that shape, or an id that is none.
pub fn decode_search(body: &[u8]) -> Result<Vec<(u128, u64, Option<String>)>, SpanError> {
    let found: Found = serde_json::from_slice(body).map_err(SpanError::Json)?;
    let traces = found.traces.0.into_iter().map(|trace| {
        // Tempo leaves leading zeros out.
        let id = super::jaeger::hex_id(&trace.trace_id)?;
        // This text marks a root that has not arrived.
        let known = |name: &String| !name.is_empty() && name != "<root span not yet received>";
        Ok((id, unsigned(&trace.start_time_unix_nano), Some(trace.root_trace_name).filter(known)))
    });
    traces.collect()
}
