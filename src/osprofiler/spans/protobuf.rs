//! OTLP traces, version 1, as protobuf: only the fields that are used here.
//!
//! One shape serves three: the request of `/v1/traces`, Tempo's `Trace` (the same fields under other
//! names) and, one level down, the answer of Tempo's `/api/v2/traces`. Bytes are counted before they
//! are decoded: two bytes of an empty message would become hundreds in memory.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use prost::Message;
use serde_json::{Map, Value};

use super::otlp::{
    AnyValue, ExportAnswer, KeyValue, OtlpList, OtlpObject, OtlpResource, OtlpScope, OtlpValue, varint,
};
use super::{DecodedSpans, PARTS_MAX, SPANS_MAX, SpanError, SpanEvent, SpanKind, SpanLink, TraceSpan};
use crate::record::Info;
use base::hex;
use base::parallel;

/// The content type.
pub const CONTENT_TYPE: &str = "application/x-protobuf";

/// Sampled, and known whether the parent is remote.
const FLAGS: u32 = 0x101;
const STATUS_ERROR: i32 = 2;

#[derive(Clone, PartialEq, Message)]
struct OtlpTraces {
    #[prost(message, repeated, tag = "1")]
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ResourceSpans {
    #[prost(message, optional, tag = "1")]
    resource: Option<OtlpResource>,
    #[prost(message, repeated, tag = "2")]
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Clone, PartialEq, Message)]
struct ScopeSpans {
    #[prost(message, optional, tag = "1")]
    scope: Option<OtlpScope>,
    #[prost(message, repeated, tag = "2")]
    spans: Vec<OtlpSpan>,
}

#[derive(Clone, PartialEq, Message)]
struct OtlpSpan {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "4")]
    parent_span_id: Vec<u8>,
    #[prost(string, tag = "5")]
    name: String,
    #[prost(int32, tag = "6")]
    kind: i32,
    #[prost(fixed64, tag = "7")]
    start_ns: u64,
    #[prost(fixed64, tag = "8")]
    end_ns: u64,
    #[prost(message, repeated, tag = "9")]
    attributes: Vec<KeyValue>,
    #[prost(message, repeated, tag = "11")]
    events: Vec<OtlpEvent>,
    #[prost(message, repeated, tag = "13")]
    links: Vec<OtlpLink>,
    #[prost(message, optional, tag = "15")]
    status: Option<OtlpStatus>,
    #[prost(fixed32, tag = "16")]
    flags: u32,
}

#[derive(Clone, PartialEq, Message)]
struct OtlpEvent {
    #[prost(fixed64, tag = "1")]
    time_ns: u64,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(message, repeated, tag = "3")]
    attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
struct OtlpLink {
    #[prost(bytes = "vec", tag = "1")]
    trace_id: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    span_id: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct OtlpStatus {
    #[prost(string, tag = "2")]
    message: String,
    #[prost(int32, tag = "3")]
    code: i32,
}

/// `TraceByIDResponse`.
#[derive(Clone, PartialEq, Message)]
struct TempoAnswer {
    #[prost(bytes = "vec", optional, tag = "1")]
    trace: Option<Vec<u8>>,
    /// 1 if this is only a part of a trace.
    #[prost(int32, tag = "3")]
    status: i32,
    /// Why it is a part.
    #[prost(string, tag = "4")]
    message: String,
}

/// The body of a request to `/v1/traces`.
#[must_use]
pub fn encode(spans: &[TraceSpan]) -> Vec<u8> {
    let mut groups: Vec<(&Arc<Info>, &str, Vec<OtlpSpan>)> = Vec::new();
    for span in spans {
        let known = groups.iter_mut().find(|(resource, scope, _)| {
            *scope == &*span.scope && (Arc::ptr_eq(resource, &span.resource) || **resource == span.resource)
        });
        match known {
            Some((_, _, spans)) => spans.push(encode_span(span)),
            None => groups.push((&span.resource, &span.scope, vec![encode_span(span)])),
        }
    }
    let resource_spans = groups.into_iter().map(|(resource, scope, spans)| ResourceSpans {
        resource: Some(OtlpResource { attributes: encode_object(resource) }),
        scope_spans: vec![ScopeSpans {
            scope: Some(OtlpScope { name: scope.to_owned(), version: String::new() }),
            spans,
        }],
    });
    OtlpTraces { resource_spans: resource_spans.collect() }.encode_to_vec()
}

/// How many spans a backend refused, and why, by its answer to a request.
///
/// # Errors
/// No protobuf.
pub fn decode_answer(body: &[u8]) -> Result<Option<(i64, String)>, SpanError> {
    let answer = ExportAnswer::decode(body).map_err(SpanError::Protobuf)?;
    Ok(answer
        .partial_success
        .filter(|partial| partial.rejected_spans > 0)
        .map(|partial| (partial.rejected_spans, partial.error_message)))
}

/// The spans of a request to `/v1/traces`, or of Tempo's `Trace`.
///
/// # Errors
/// No protobuf of that shape, an id that is none, or too many spans.
pub fn decode(body: &[u8]) -> Result<Vec<TraceSpan>, SpanError> {
    let mut spans = Vec::new();
    each_span(body, |span| {
        spans.push(span?);
        Ok(())
    })?;
    Ok(spans)
}

/// Adds the spans of such a request, and counts those whose ids are none.
///
/// # Errors
/// No protobuf of that shape, or too many spans.
pub(super) fn decode_into(body: &[u8], decoded: &mut DecodedSpans) -> Result<(), SpanError> {
    let mut take = |span: Result<TraceSpan, SpanError>| match span {
        Ok(span) => decoded.spans.push(span),
        Err(error) => decoded.faults.add(|| error.to_string()),
    };
    for (spans, resource, scope) in groups(body)? {
        if spans.len() < SPANS_AT_ONCE_MIN {
            spans.into_iter().for_each(|span| take(decode_span(span, &resource, &scope)));
            continue;
        }
        let mut spans = spans.into_iter();
        let parts = parallel::ranges(spans.len(), SPANS_OF_THREAD_MIN);
        let parts: Vec<Vec<OtlpSpan>> =
            parts.into_iter().map(|range| spans.by_ref().take(range.len()).collect()).collect();
        let of_part = |part: Vec<OtlpSpan>| -> Vec<_> {
            part.into_iter().map(|span| decode_span(span, &resource, &scope)).collect()
        };
        parallel::map(parts, of_part).into_iter().flatten().for_each(&mut take);
    }
    Ok(())
}

/// Fewer spans than these are not worth a thread.
const SPANS_AT_ONCE_MIN: usize = 8_000;
const SPANS_OF_THREAD_MIN: usize = 1_000;

fn each_span(
    body: &[u8],
    mut take: impl FnMut(Result<TraceSpan, SpanError>) -> Result<(), SpanError>,
) -> Result<(), SpanError> {
    for (spans, resource, scope) in groups(body)? {
        spans.into_iter().try_for_each(|span| take(decode_span(span, &resource, &scope)))?;
    }
    Ok(())
}

/// Spans of one scope of one resource.
type Group = (Vec<OtlpSpan>, Arc<Info>, Arc<str>);

fn groups(body: &[u8]) -> Result<impl Iterator<Item = Group>, SpanError> {
    let mut counts = MessageCounts::default();
    counts.add(body, MessageLevel::Traces)?;
    let traces = OtlpTraces::decode(body).map_err(SpanError::Protobuf)?;
    Ok(traces.resource_spans.into_iter().flat_map(|group| {
        let resource = Arc::new(decode_object(group.resource.unwrap_or_default().attributes));
        group.scope_spans.into_iter().map(move |scoped| {
            let scope: Arc<str> = Arc::from(scoped.scope.unwrap_or_default().name);
            (scoped.spans, Arc::clone(&resource), scope)
        })
    }))
}

/// The spans of Tempo's `Trace`.
///
/// # Errors
/// No protobuf of that shape, or too many spans.
pub fn decode_tempo(body: &[u8]) -> Result<DecodedSpans, SpanError> {
    let mut decoded = DecodedSpans::default();
    decode_into(body, &mut decoded)?;
    Ok(decoded)
}

/// The spans of an answer of Tempo's `/api/v2/traces`; none if it does not know the trace.
///
/// # Errors
/// As [`decode_tempo`].
pub fn decode_tempo_v2(body: &[u8]) -> Result<DecodedSpans, SpanError> {
    let answer = TempoAnswer::decode(body).map_err(SpanError::Protobuf)?;
    let mut decoded = decode_tempo(answer.trace.as_deref().unwrap_or_default())?;
    decoded.partial = (answer.status == 1).then_some(answer.message);
    Ok(decoded)
}

fn encode_span(span: &TraceSpan) -> OtlpSpan {
    let events = span.events.iter().map(|event| OtlpEvent {
        time_ns: event.time_ns,
        name: event.name.clone(),
        attributes: encode_object(&event.attributes),
    });
    let links = span.links.iter().map(|link| OtlpLink {
        trace_id: link.trace_id.to_be_bytes().to_vec(),
        span_id: link.span_id.to_be_bytes().to_vec(),
    });
    let error = span.error.as_ref();
    OtlpSpan {
        trace_id: span.trace_id.to_be_bytes().to_vec(),
        span_id: span.span_id.to_be_bytes().to_vec(),
        parent_span_id: span.parent_id.map(|id| id.to_be_bytes().to_vec()).unwrap_or_default(),
        name: span.name.clone(),
        kind: span.kind as i32,
        start_ns: span.start_ns,
        end_ns: span.end_ns,
        attributes: encode_object(&span.attributes),
        events: events.collect(),
        links: links.collect(),
        status: error.map(|message| OtlpStatus { message: message.clone(), code: STATUS_ERROR }),
        flags: FLAGS,
    }
}

fn encode_object(object: &Info) -> Vec<KeyValue> {
    let pairs =
        object.iter().map(|(key, value)| KeyValue { key: key.clone(), value: Some(encode_value(value)) });
    pairs.collect()
}

fn encode_value(value: &Value) -> AnyValue {
    let value = match value {
        Value::Null => None,
        Value::Bool(value) => Some(OtlpValue::Bool(*value)),
        Value::String(text) => Some(OtlpValue::Text(text.clone())),
        Value::Number(number) => Some(match number.as_i64() {
            Some(number) => OtlpValue::Int(number),
            None => OtlpValue::Double(number.as_f64().unwrap_or_default()),
        }),
        Value::Array(values) => {
            Some(OtlpValue::List(OtlpList { values: values.iter().map(encode_value).collect() }))
        }
        Value::Object(object) => Some(OtlpValue::Object(OtlpObject { values: encode_object(object) })),
    };
    AnyValue { value }
}

fn decode_span(span: OtlpSpan, resource: &Arc<Info>, scope: &Arc<str>) -> Result<TraceSpan, SpanError> {
    let events = span.events.into_iter().map(|event| SpanEvent {
        name: event.name,
        time_ns: event.time_ns,
        attributes: decode_object(event.attributes),
    });
    let status = span.status.filter(|status| status.code == STATUS_ERROR);
    let id =
        |bytes: &[u8]| <[u8; 8]>::try_from(bytes).map(u64::from_be_bytes).map_err(|_| malformed_id(bytes));
    let parent = &span.parent_span_id;
    // A link that is no link costs nothing else.
    let links = span.links.iter().filter_map(|link| {
        let trace_id = u128::from_be_bytes(<[u8; 16]>::try_from(&*link.trace_id).ok()?);
        Some(SpanLink { trace_id, span_id: id(&link.span_id).ok()? })
    });
    let no_parent = parent.iter().all(|byte| *byte == 0);
    Ok(TraceSpan {
        trace_id: <[u8; 16]>::try_from(&*span.trace_id)
            .map(u128::from_be_bytes)
            .map_err(|_| malformed_id(&span.trace_id))?,
        span_id: id(&span.span_id)?,
        parent_id: if no_parent { None } else { Some(id(parent)?) },
        name: span.name,
        kind: SpanKind::from_number(i64::from(span.kind)),
        start_ns: span.start_ns,
        end_ns: span.end_ns,
        attributes: decode_object(span.attributes),
        events: events.collect(),
        links: links.collect(),
        error: status.map(|status| status.message),
        resource: Arc::clone(resource),
        scope: Arc::clone(scope),
    })
}

fn malformed_id(bytes: &[u8]) -> SpanError {
    let is_text = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_graphic);
    SpanError::Id(match std::str::from_utf8(bytes) {
        Ok(text) if is_text => text.chars().take(40).collect(),
        _ => hex::encode(&bytes[..bytes.len().min(20)]),
    })
}

fn decode_object(pairs: Vec<KeyValue>) -> Map<String, Value> {
    pairs.into_iter().map(|KeyValue { key, value }| (key, value.map_or(Value::Null, decode_value))).collect()
}

fn decode_value(value: AnyValue) -> Value {
    match value.value {
        None => Value::Null,
        Some(OtlpValue::Text(text)) => Value::String(text),
        Some(OtlpValue::Bool(value)) => Value::Bool(value),
        Some(OtlpValue::Int(number)) => number.into(),
        Some(OtlpValue::Double(number)) => number.into(),
        Some(OtlpValue::List(list)) => list.values.into_iter().map(decode_value).collect(),
        Some(OtlpValue::Object(object)) => Value::Object(decode_object(object.values)),
        Some(OtlpValue::Bytes(bytes)) => Value::String(STANDARD.encode(bytes)),
    }
}

/// The place of a field in the messages.
#[derive(Clone, Copy)]
enum MessageLevel {
    Traces,
    Resource,
    Scope,
    Span,
    Part,
}

/// How many messages a body has, counted without keeping any.
#[derive(Default)]
struct MessageCounts {
    spans: usize,
    parts: usize,
}

impl MessageCounts {
    /// Counts the messages below `body`. The decoder reports bytes that are not protobuf.
    fn add(&mut self, mut body: &[u8], level: MessageLevel) -> Result<(), SpanError> {
        while let Some((number, content)) = field(&mut body) {
            let below = match (level, number) {
                (MessageLevel::Traces, 1) => MessageLevel::Resource,
                (MessageLevel::Resource, 2) => MessageLevel::Scope,
                (MessageLevel::Scope, 2) => MessageLevel::Span,
                (MessageLevel::Part, _) => continue,
                _ => MessageLevel::Part,
            };
            match below {
                MessageLevel::Span => self.spans += 1,
                // Every element of a list may be as small as a field of an attribute.
                MessageLevel::Part => self.parts += 1 + content.len() / 8,
                _ => self.parts += 1,
            }
            if self.spans > SPANS_MAX || self.parts > PARTS_MAX.saturating_mul(4) {
                return Err(SpanError::TooMany);
            }
            self.add(content, below)?;
        }
        Ok(())
    }
}

/// Takes the next field: its number, and its bytes if it has a length.
fn field<'a>(body: &mut &'a [u8]) -> Option<(u64, &'a [u8])> {
    let key = varint(body)?;
    let len = match key & 7 {
        0 => {
            varint(body)?;
            return Some((key >> 3, &[]));
        }
        1 => 8,
        2 => usize::try_from(varint(body)?).ok()?,
        5 => 4,
        _ => return None,
    };
    let (content, rest) = body.split_at_checked(len)?;
    *body = rest;
    Some((key >> 3, if key & 7 == 2 { content } else { &[] }))
}
