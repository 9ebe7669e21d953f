//! What a span's attributes say, in OSProfiler's words: its own spans', and any OpenTelemetry
//! service's.
//!
//! Attribute names are those of the Python driver and of OpenTelemetry's semantic conventions, the
//! stable ones (`http.request.method`, `db.query.text`) and those before (`http.method`,
//! `db.statement`). Other attributes are kept under `attributes`.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{SpanEvent, SpanKind, TraceSpan};
use crate::record::Info;

/// The name of a point, where it does not follow from the span's.
pub(super) const NAME: &str = "osprofiler.name";
/// The base_id, where it is no UUID.
pub(super) const BASE_ID: &str = "osprofiler.base_id";
/// The point's whole id.
pub(super) const TRACE_ID: &str = "osprofiler.trace_id";
/// The whole id of the enclosing point, where it is not base_id.
pub(super) const PARENT_ID: &str = "osprofiler.parent_id";
/// JSON of what the start says, where it does not follow from the attributes.
pub(super) const START_INFO: &str = "osprofiler.info";
/// JSON of what the stop says, where it does not follow from the attributes.
pub(super) const STOP_INFO: &str = "osprofiler.stop_info";
/// `start` or `stop`: that record never came.
pub(super) const MISSING: &str = "osprofiler.missing";
/// The reporter's project, of a resource.
pub(super) const PROJECT: &str = "osprofiler.project";
/// The reporter's service, of a resource.
pub(super) const SERVICE: &str = "osprofiler.service";
/// The reporter's host, of a resource.
pub(super) const HOST: &str = "host.name";
/// The scope of the Python driver's spans.
pub(super) const PYTHON_SCOPE: &str = "osprofiler.drivers.otlp";
/// The service of a resource that names none.
pub(super) const UNKNOWN_SERVICE: &str = "unknown_service";

/// The key of a start's info for the kind of a span that sends or receives: a message, or a request. Points of OSProfiler's
/// own have the first only.
pub const KIND: &str = "kind";
/// The [`KIND`] of a span that sends a request and waits for its answer.
pub const CLIENT: &str = "client";
/// The [`KIND`] of a span that answers a request.
pub const SERVER: &str = "server";
/// The [`KIND`] of a span that sends a message.
pub const PRODUCER: &str = "producer";
/// The [`KIND`] of a span that receives or processes messages.
pub const CONSUMER: &str = "consumer";
/// The key of a start's info that has the attributes of the resource that reports. Only the first point
/// of a resource in each branch of a trace has it.
pub const RESOURCE: &str = "resource";
/// At most this many attributes of a resource are kept, and this many looked at.
const RESOURCE_ATTRIBUTES_MAX: usize = 32;
const RESOURCE_LOOKED_AT_MAX: usize = 256;
/// Longer keys and values of a resource are left out (bytes).
const RESOURCE_TEXT_MAX: usize = 256;
/// Attributes of a resource that say nothing about where a point ran, or that a record has elsewhere.
const RESOURCE_LEFT_OUT: [&str; 8] = [
    HOST,
    PROJECT,
    SERVICE,
    "service.name",
    "service.namespace",
    "process.command_line",
    "process.runtime.description",
    "process.executable.path",
];

/// A point as its span tells it.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Meaning {
    /// The point's name, without `-start` and `-stop`.
    pub(super) name: String,
    /// What its start says.
    pub(super) start: Info,
    /// What its stop says.
    pub(super) stop: Info,
    /// The reporter's project.
    pub(super) project: Option<String>,
    /// The reporter's service.
    pub(super) service: Option<String>,
}

/// Attributes, each to be understood once. A span has few: to compare their keys takes less than to hash one.
struct Attributes<'s>(Vec<(&'s String, &'s Value)>);

impl Attributes<'_> {
    fn get(&self, key: &str) -> Option<&Value> {
        self.0.iter().find(|(own, _)| *own == key).map(|(_, value)| *value)
    }

    fn take(&mut self, keys: &[&str]) -> Option<Value> {
        keys.iter().find_map(|key| {
            let at = self.0.iter().position(|(own, _)| own == key)?;
            Some(self.0.swap_remove(at).1.clone())
        })
    }

    fn take_text(&mut self, keys: &[&str]) -> Option<String> {
        self.take(keys).map(text)
    }
}

/// Reads a span.
pub(super) fn meaning(span: &TraceSpan) -> Meaning {
    let mut attributes = Attributes(span.attributes.iter().collect());
    let own_name = attributes.take_text(&[NAME]);
    let whole_start = attributes.take(&[START_INFO]).and_then(object);
    let whole_stop = attributes.take(&[STOP_INFO]).and_then(object);
    attributes.take(&[BASE_ID]);
    attributes.take(&[TRACE_ID]);
    attributes.take(&[PARENT_ID]);
    attributes.take(&[MISSING]);

    let (mut start, mut stop) = (Info::new(), Info::new());
    let failed = failure(span, &mut attributes, &mut stop);
    let known_name = work(span, &mut attributes, &mut start, &mut stop);
    // What no caller waits for.
    match span.kind {
        SpanKind::Producer => drop(start.insert(KIND.to_owned(), PRODUCER.into())),
        SpanKind::Consumer => drop(start.insert(KIND.to_owned(), CONSUMER.into())),
        // OSProfiler gives kinds by names of points.
        SpanKind::Server if !is_of_osprofiler(span) => drop(start.insert(KIND.to_owned(), SERVER.into())),
        SpanKind::Client if !is_of_osprofiler(span) => drop(start.insert(KIND.to_owned(), CLIENT.into())),
        _ => {}
    }
    keep_the_rest(span, attributes, failed, &mut start);
    if let Some(host) = host(&span.resource) {
        start.insert("host".to_owned(), host.clone());
        stop.insert("host".to_owned(), host);
    }
    let (project, service) = origin(span, known_name.is_some());
    Meaning {
        name: own_name.or(known_name).unwrap_or_else(|| span.name.clone()),
        start: whole_start.unwrap_or(start),
        stop: whole_stop.unwrap_or(stop),
        project,
        service,
    }
}

/// The base_id that a span names, if it names one.
pub(super) fn named_base_id(span: &TraceSpan) -> Option<&str> {
    span.attributes.get(BASE_ID)?.as_str()
}

/// The error of a span, in the form of a stop record, and the event that reported it.
fn failure(span: &TraceSpan, attributes: &mut Attributes<'_>, stop: &mut Info) -> Option<usize> {
    let marked = matches!(attributes.take(&["error"]), Some(Value::Bool(true)))
        || span.attributes.get("error").is_some_and(|error| error == "true");
    let error_type = attributes.get("error.type").cloned();
    for (index, event) in span.events.iter().enumerate() {
        let says = |key: &str| event.attributes.get(key).filter(|value| !value.is_null()).cloned();
        let (etype, message) = match event.name.as_str() {
            "log" | "" => (says("error.kind"), says("message")),
            "exception" if marked || span.error.is_some() => {
                (says("exception.type").or(error_type.clone()), says("exception.message"))
            }
            _ => continue,
        };
        if let Some(etype) = etype {
            stop.insert("etype".to_owned(), etype);
            message.and_then(|message| stop.insert("message".to_owned(), message));
            return Some(index);
        }
    }
    if marked || span.error.is_some() {
        stop.insert("etype".to_owned(), error_type.unwrap_or_else(|| "ERROR".into()));
        let message = span.error.clone().unwrap_or_default();
        stop.insert("message".to_owned(), message.into());
    }
    None
}

/// What the span did. Returns the point's name, if OSProfiler named the span.
fn work(
    span: &TraceSpan,
    attributes: &mut Attributes<'_>,
    start: &mut Info,
    stop: &mut Info,
) -> Option<String> {
    let result = attributes.take(&["result"]);
    let status = attributes.take(&["status_code", "http.response.status_code", "http.status_code"]);
    if let Some(db) = database(attributes) {
        let verb = db.get("statement").and_then(Value::as_str).map(verb);
        let known = verb.is_some_and(|verb| span.name == format!("SQL_{verb}"));
        start.insert("db".to_owned(), Value::Object(db));
        tell(stop, "db", "result", result);
        tell(stop, "request", "status_code", status);
        return known.then(|| "db".to_owned());
    }
    if let Some((key, http)) = http(span, attributes) {
        let says = |key: &str| http.get(key).and_then(Value::as_str).unwrap_or_default();
        let known = if key == "request" {
            (span.name == format!("WSGI_{}_{}", says("method"), says("path"))).then(|| "wsgi".to_owned())
        } else {
            // OSProfiler names these points by their scheme.
            (span.name == format!("REQUESTS_{}_{}", says("method"), says("hostname")))
                .then(|| says("scheme").to_owned())
        };
        start.insert(key.to_owned(), Value::Object(http));
        tell(stop, "function", "result", result);
        tell(stop, key, "status_code", status);
        return known.filter(|name| !name.is_empty());
    }
    if let Some(function) = function(attributes) {
        start.insert("function".to_owned(), Value::Object(function));
    }
    tell(stop, "function", "result", result);
    tell(stop, "requests", "status_code", status);
    None
}

fn database(attributes: &mut Attributes<'_>) -> Option<Map<String, Value>> {
    let mut db = Map::new();
    let mut says = |attributes: &mut Attributes<'_>, key: &str, names: &[&str]| {
        attributes.take(names).map(|value| db.insert(key.to_owned(), value));
    };
    says(attributes, "statement", &["db.query.text", "db.statement"]);
    says(attributes, "system", &["db.system.name", "db.system"]);
    says(attributes, "operation", &["db.operation.name", "db.operation"]);
    says(attributes, "collection", &["db.collection.name", "db.sql.table", "db.mongodb.collection"]);
    says(attributes, "name", &["db.namespace", "db.name"]);
    if let Some(params) = attributes.take(&["db.params"]) {
        let parsed = params.as_str().and_then(|params| serde_json::from_str(params).ok());
        db.insert("params".to_owned(), parsed.unwrap_or(params));
    }
    if db.is_empty() {
        return None;
    }
    if !db.contains_key("statement") {
        let parts = ["operation", "collection"].map(|key| db.get(key).and_then(Value::as_str));
        let statement: Vec<&str> = parts.into_iter().flatten().collect();
        if !statement.is_empty() {
            db.insert("statement".to_owned(), statement.join(" ").into());
        }
    }
    Some(db)
}

fn http(span: &TraceSpan, attributes: &mut Attributes<'_>) -> Option<(&'static str, Map<String, Value>)> {
    let of_a_client = attributes.get("http.hostname").is_some()
        || matches!(span.kind, SpanKind::Client | SpanKind::Producer);
    let method = attributes.take(&["http.request.method", "http.method"]);
    let mut path = attributes.take_text(&["http.path", "url.path"]);
    if method.is_none() && path.is_none() {
        return None;
    }
    let mut query = attributes.take(&["http.query", "url.query"]);
    if let Some(target) = attributes.take_text(&["http.target"]) {
        let (target_path, target_query) =
            target.split_once('?').map_or((target.as_str(), None), |(path, query)| (path, Some(query)));
        path.get_or_insert_with(|| target_path.to_owned());
        query = query.or_else(|| target_query.map(Value::from));
    }
    // Some instrumentations of Node keep the question mark.
    if let Some(Value::String(query)) = &mut query
        && query.starts_with('?')
    {
        query.remove(0);
    }
    let mut scheme = attributes.take(&["http.scheme", "url.scheme"]);
    let host_names =
        ["http.hostname", "server.address", "net.peer.name", "http.host", "net.host.name", "peer.hostname"];
    let mut hostname = attributes.take(&host_names);
    let mut port = attributes.take(&["http.port", "server.port", "net.peer.port", "net.host.port"]);
    let address = attributes.take_text(&["url.full", "http.url"]);
    if let Some(url) = address.and_then(|address| url::Url::parse(&address).ok()) {
        path.get_or_insert_with(|| url.path().to_owned());
        query = query.or_else(|| url.query().map(Value::from));
        scheme = scheme.or_else(|| Some(url.scheme().into()));
        hostname = hostname.or_else(|| url.host_str().map(Value::from));
        port = port.or_else(|| url.port_or_known_default().map(Value::from));
    }
    if path.is_none() {
        path = attributes.take_text(&["http.route"]);
    }
    let key = if of_a_client { "requests" } else { "request" };
    let path = path.map(Value::from);
    let parts = [
        ("path", path),
        ("query", query),
        ("method", method),
        ("scheme", scheme),
        ("hostname", hostname),
        ("port", port),
    ];
    let http = parts.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect();
    Some((key, http))
}

fn function(attributes: &mut Attributes<'_>) -> Option<Map<String, Value>> {
    let mut function = Map::new();
    let name = attributes.take(&["name", "code.function.name", "code.function"]);
    let name = name.or_else(|| {
        let method = attributes.take_text(&["rpc.method"])?;
        let service = attributes.take_text(&["rpc.service"]);
        Some(service.map_or_else(|| method.clone(), |service| format!("{service}/{method}")).into())
    });
    function.insert("name".to_owned(), name?);
    for key in ["args", "kwargs"] {
        attributes.take(&[key]).map(|value| function.insert(key.to_owned(), value));
    }
    Some(function)
}

fn tell(stop: &mut Info, what: &str, key: &str, value: Option<Value>) {
    if let Some(value) = value {
        let inner = stop.entry(what.to_owned()).or_insert_with(|| json!({}));
        if let Value::Object(inner) = inner {
            inner.insert(key.to_owned(), value);
        }
    }
}

fn keep_the_rest(span: &TraceSpan, Attributes(rest): Attributes<'_>, told: Option<usize>, start: &mut Info) {
    if !rest.is_empty() {
        let rest = rest.into_iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        start.insert("attributes".to_owned(), Value::Object(rest));
    }
    let events: Vec<Value> = (span.events.iter().enumerate())
        .filter(|(index, _)| Some(*index) != told)
        .map(|(_, SpanEvent { name, attributes, .. })| json!({"name": name, "attributes": attributes}))
        .collect();
    if !events.is_empty() {
        start.insert("events".to_owned(), Value::Array(events));
    }
}

fn host(resource: &Info) -> Option<Value> {
    [HOST, "hostname", "k8s.pod.name"].iter().find_map(|key| resource.get(*key)).cloned()
}

/// The attributes of a span's resource that are worth keeping, bounded; `None` without any, and for a span of
/// OSProfiler's, whose record has all that was reported.
pub(super) fn resource(span: &TraceSpan) -> Option<Value> {
    if is_of_osprofiler(span) {
        return None;
    }
    let short = |value: &Value| match value {
        Value::String(text) => text.len() <= RESOURCE_TEXT_MAX,
        other => other.is_number() || other.is_boolean(),
    };
    let kept: Map<String, Value> = (span.resource.iter())
        .take(RESOURCE_LOOKED_AT_MAX)
        .filter(|(key, value)| {
            let known = RESOURCE_LEFT_OUT.contains(&key.as_str()) || key.starts_with("telemetry.");
            !known && key.len() <= RESOURCE_TEXT_MAX && short(value)
        })
        .take(RESOURCE_ATTRIBUTES_MAX)
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect();
    (!kept.is_empty()).then_some(Value::Object(kept))
}

/// Whether OSProfiler's driver, or ours, made this span of a record.
fn is_of_osprofiler(span: &TraceSpan) -> bool {
    span.resource.contains_key(PROJECT)
        || span.resource.contains_key(SERVICE)
        || &*span.scope == PYTHON_SCOPE
        || [TRACE_ID, NAME].iter().any(|key| span.attributes.contains_key(*key))
}

/// Whether two spans have the same reporter, with the same attributes that are kept.
pub(super) fn is_same_resource(one: &TraceSpan, other: &TraceSpan) -> bool {
    let reporter = |span: &TraceSpan| {
        let of = |key: &str| span.resource.get(key).cloned();
        (of("service.name"), of("service.namespace"), host(&span.resource))
    };
    Arc::ptr_eq(&one.resource, &other.resource)
        || (reporter(one) == reporter(other) && resource(one) == resource(other))
}

/// The reporter's project and service.
fn origin(span: &TraceSpan, named_by_osprofiler: bool) -> (Option<String>, Option<String>) {
    let says = |key: &str| span.resource.get(key).cloned().map(text);
    if span.resource.contains_key(PROJECT) || span.resource.contains_key(SERVICE) {
        return (says(PROJECT), says(SERVICE));
    }
    let service = says("service.name").filter(|service| service != UNKNOWN_SERVICE);
    if &*span.scope != PYTHON_SCOPE && !named_by_osprofiler {
        return (says("service.namespace"), service);
    }
    // The Python driver joins project and service; either may be None.
    let told = |part: &str| (part != "None").then(|| part.to_owned());
    match service.as_deref().map(|service| service.split_once('-').ok_or(service)) {
        Some(Ok((project, service))) => (told(project), told(service)),
        Some(Err(service)) => (None, told(service)),
        None => (None, None),
    }
}

/// The first word of a statement, in capitals.
pub(super) fn verb(statement: &str) -> String {
    statement.split_whitespace().next().unwrap_or_default().to_uppercase()
}

pub(super) fn text(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

fn object(value: Value) -> Option<Info> {
    serde_json::from_str(value.as_str()?).ok()
}
