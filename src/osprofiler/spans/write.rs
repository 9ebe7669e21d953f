//! From the records of a point to its span.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::Arc;

use serde::Serialize;
use serde_json::Value;
use serde_json::ser::Formatter;
use uuid::Uuid;

use super::meaning::{
    BASE_ID, HOST, MISSING, NAME, PARENT_ID, PROJECT, SERVICE, START_INFO, STOP_INFO, TRACE_ID,
    UNKNOWN_SERVICE, meaning, verb,
};
use super::{SpanEvent, SpanKind, TraceSpan, span_id, trace_id};
use crate::record::{Info, TraceRecord, point_name};
use crate::text::Text;

/// The scope of the spans made here.
pub const SCOPE: &str = "osprofiler";

/// The span of a point; `None` without any record, or without a readable timestamp.
///
/// Of a point without a stop (or without a start) the span has no duration, and the attribute
/// `osprofiler.missing` names the record that is missing.
#[must_use]
pub fn span(start: Option<&TraceRecord>, stop: Option<&TraceRecord>) -> Option<TraceSpan> {
    let first = start.or(stop)?;
    let start_ns = time_ns(start.or(stop)?)?;
    let end_ns = time_ns(stop.or(start)?)?.max(start_ns);
    let empty = Info::new();
    let info = start.map_or(Cow::Borrowed(&empty), |record| record.info.read());
    let info = &*info;
    let point = point_name(&first.name);
    let mut span = TraceSpan {
        trace_id: trace_id(&first.base_id),
        span_id: span_id(&first.trace_id),
        parent_id: (first.parent_id != first.base_id).then(|| span_id(&first.parent_id)),
        name: span_name(point, info),
        kind: kind(point),
        start_ns,
        end_ns,
        attributes: start_attributes(info),
        events: Vec::new(),
        links: Vec::new(),
        error: None,
        resource: Arc::new(resource(first, stop)),
        scope: Arc::from(SCOPE),
    };
    if let Some(stop) = stop {
        add_stop(&mut span, &stop.info.read(), end_ns);
    }
    add_ids(&mut span, first);
    let missing = [("start", start), ("stop", stop)].into_iter().find(|(_, record)| record.is_none());
    if let Some((which, _)) = missing {
        span.attributes.insert(MISSING.to_owned(), which.into());
    }
    add_what_is_lost(&mut span, point, start, stop);
    Some(span)
}

fn time_ns(record: &TraceRecord) -> Option<u64> {
    Some(u64::try_from(record.timestamp_us()?).unwrap_or(0).saturating_mul(1_000))
}

fn kind(point: &str) -> SpanKind {
    if point.contains("wsgi") {
        SpanKind::Server
    } else if ["db", "http", "api"].iter().any(|part| point.contains(part)) {
        SpanKind::Client
    } else {
        SpanKind::Internal
    }
}

fn span_name(point: &str, info: &Info) -> String {
    let says = |what: &str, key: &str| info.get(what)?.get(key)?.as_str();
    if let (Some(method), Some(path)) = (says("request", "method"), says("request", "path")) {
        return format!("WSGI_{method}_{path}");
    }
    if let Some(statement) = says("db", "statement") {
        return format!("SQL_{}", verb(statement));
    }
    if let (Some(method), Some(host)) = (says("requests", "method"), says("requests", "hostname")) {
        return format!("REQUESTS_{method}_{host}");
    }
    point.to_owned()
}

fn start_attributes(info: &Info) -> Info {
    let mut attributes = Info::new();
    let mut tell = |name: &str, value: Option<&Value>| {
        value.and_then(scalar).map(|value| attributes.insert(name.to_owned(), value));
    };
    if let Some(db) = content(info, "db") {
        tell("db.statement", db.get("statement"));
        let params = db.get("params").map(|params| Value::String(pythons_json(params)));
        tell("db.params", params.as_ref());
    } else if let Some(request) = content(info, "request") {
        for key in ["path", "query", "method", "scheme"] {
            tell(&format!("http.{key}"), request.get(key));
        }
    } else if let Some(request) = content(info, "requests") {
        for key in ["path", "query", "method", "scheme", "hostname", "port"] {
            tell(&format!("http.{key}"), request.get(key));
        }
    } else if let Some(function) = content(info, "function") {
        for key in ["args", "kwargs", "name"] {
            tell(key, function.get(key));
        }
    }
    attributes
}

fn add_stop(span: &mut TraceSpan, info: &Info, end_ns: u64) {
    let said = |what: &str, key: &str| info.get(what)?.get(key).and_then(scalar);
    let result = said("db", "result").or_else(|| said("function", "result"));
    result.map(|result| span.attributes.insert("result".to_owned(), result));
    let status = said("requests", "status_code");
    status.map(|status| span.attributes.insert("status_code".to_owned(), status));
    let Some(etype) = info.get("etype").and_then(scalar) else { return };
    span.attributes.insert("error".to_owned(), true.into());
    let message = info.get("message").and_then(scalar);
    let mut attributes = Info::new();
    attributes.insert("error.kind".to_owned(), etype);
    span.error =
        Some(message.as_ref().map(|message| super::meaning::text(message.clone())).unwrap_or_default());
    message.map(|message| attributes.insert("message".to_owned(), message));
    span.events.push(SpanEvent { name: "log".to_owned(), time_ns: end_ns, attributes });
}

fn add_ids(span: &mut TraceSpan, record: &TraceRecord) {
    let mut keep = |name: &str, id: &str| span.attributes.insert(name.to_owned(), id.into());
    if Uuid::parse_str(&record.base_id).map_or(true, |id| id.is_nil() || id.to_string() != record.base_id) {
        keep(BASE_ID, &record.base_id);
    }
    keep(TRACE_ID, &record.trace_id);
    if record.parent_id != record.base_id {
        keep(PARENT_ID, &record.parent_id);
    }
}

/// Keeps what reading the span would not give back.
fn add_what_is_lost(
    span: &mut TraceSpan,
    point: &str,
    start: Option<&TraceRecord>,
    stop: Option<&TraceRecord>,
) {
    let read = meaning(span);
    let mut keep = |name: &str, value: String| span.attributes.insert(name.to_owned(), value.into());
    if read.name != point {
        keep(NAME, point.to_owned());
    }
    let whole = |info: &Info| Value::Object(info.clone()).to_string();
    if let Some(start) = start.filter(|start| *start.info.read() != read.start) {
        keep(START_INFO, whole(&start.info.read()));
    }
    if let Some(stop) = stop.filter(|stop| *stop.info.read() != read.stop) {
        keep(STOP_INFO, whole(&stop.info.read()));
    }
}

fn resource(record: &TraceRecord, stop: Option<&TraceRecord>) -> Info {
    let parts: Vec<&str> =
        [&record.project, &record.service].into_iter().flatten().map(Text::as_str).collect();
    let name = if parts.is_empty() { UNKNOWN_SERVICE.to_owned() } else { parts.join("-") };
    let mut resource = Info::new();
    resource.insert("service.name".to_owned(), name.into());
    let host = record.host().or_else(|| stop.and_then(TraceRecord::host));
    let host = host.as_deref();
    for (key, value) in
        [(PROJECT, record.project.as_deref()), (SERVICE, record.service.as_deref()), (HOST, host)]
    {
        value.map(|value| resource.insert(key.to_owned(), value.into()));
    }
    resource
}

/// JSON with Python's blanks and escapes.
fn pythons_json(value: &Value) -> String {
    let mut json = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut json, Pythons);
    match value.serialize(&mut serializer) {
        Ok(()) => String::from_utf8(json).unwrap_or_default(),
        Err(_) => value.to_string(),
    }
}

struct Pythons;

impl Formatter for Pythons {
    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b": ")
    }

    fn write_string_fragment<W: ?Sized + Write>(&mut self, writer: &mut W, fragment: &str) -> io::Result<()> {
        for character in fragment.chars() {
            if character.is_ascii() {
                write!(writer, "{character}")?;
            } else {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(writer, "\\u{unit:04x}")?;
                }
            }
        }
        Ok(())
    }
}

/// An object that holds something.
fn content<'a>(info: &'a Info, key: &str) -> Option<&'a Info> {
    info.get(key)?.as_object().filter(|object| !object.is_empty())
}

/// A value as an attribute. A value other than a string, number or boolean becomes its JSON text.
fn scalar(value: &Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Array(_) | Value::Object(_) => Some(value.to_string().into()),
        Value::Number(number) if number.is_u64() && !number.is_i64() => Some(value.to_string().into()),
        other => Some(other.clone()),
    }
}
