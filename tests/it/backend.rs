//! An OpenTelemetry backend in this process: accepts spans over OTLP, and serves them like Jaeger and Tempo.
//!
//! Its answers have the form of Jaeger 1 and 2, and of Tempo 2 before and after its second API. The path selects one:
//! `/jaeger`, `/tempo` (second API, protobuf), `/tempo-json`, `/tempo-old` (first API only, JSON) and
//! `/tempo-old-protobuf`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bench::osprofiler::record::Info;
use bench::osprofiler::spans::{SpanKind, TraceSpan, protobuf};
use serde_json::{Value, json};

use crate::rewind;

/// The backend; it ends with the process.
#[derive(Clone)]
pub(crate) struct Backend {
    pub(crate) address: String,
    state: Arc<Mutex<TraceBackendState>>,
}

#[derive(Clone, Default)]
struct TraceBackendState {
    spans: Vec<TraceSpan>,
    requests: Vec<BackendRequest>,
    /// Statuses of the next requests to `/v1/traces`.
    refusals: Vec<u16>,
    /// The body of the next ones' answers.
    answer: Vec<u8>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct BackendRequest {
    pub(crate) method: String,
    pub(crate) target: String,
    /// Lowercase names.
    pub(crate) headers: Vec<(String, String)>,
    body: Vec<u8>,
}

type BackendAnswer = (u16, &'static str, Vec<u8>);

const JSON: &str = "application/json";

impl Backend {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let backend = Self {
            address: listener.local_addr().unwrap().to_string(),
            state: rewind::state(TraceBackendState::default()),
        };
        let state = Arc::clone(&backend.state);
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let state = Arc::clone(&state);
                std::thread::spawn(move || serve(connection, &state));
            }
        });
        backend
    }

    pub(crate) fn spans(&self) -> Vec<TraceSpan> {
        self.state.lock().unwrap().spans.clone()
    }

    pub(crate) fn requests(&self) -> Vec<BackendRequest> {
        self.state.lock().unwrap().requests.clone()
    }

    /// Answers the next requests with spans so.
    pub(crate) fn refuse(&self, statuses: &[u16], answer: &[u8]) {
        let mut state = self.state.lock().unwrap();
        state.refusals = statuses.to_vec();
        state.answer = answer.to_vec();
    }
}

impl BackendRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }
}

fn serve(connection: TcpStream, state: &Mutex<TraceBackendState>) {
    let mut reader = BufReader::new(connection.try_clone().unwrap());
    let mut writer = connection;
    while let Some(request) = read(&mut reader) {
        let (status, kind, body) = answer(&request, &mut state.lock().unwrap());
        let head =
            format!("HTTP/1.1 {status} x\r\ncontent-type: {kind}\r\ncontent-length: {}\r\n\r\n", body.len());
        if writer.write_all(&[head.as_bytes(), &body].concat()).is_err() {
            return;
        }
    }
}

fn read(reader: &mut BufReader<TcpStream>) -> Option<BackendRequest> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|len| *len > 0)?;
    let mut words = line.split_whitespace().map(str::to_owned);
    let mut request =
        BackendRequest { method: words.next()?, target: words.next()?, ..BackendRequest::default() };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        request.headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let len = request.header("content-length").map_or(0, |len| len.parse().unwrap());
    request.body = vec![0; len];
    reader.read_exact(&mut request.body).ok()?;
    Some(request)
}

fn answer(request: &BackendRequest, state: &mut TraceBackendState) -> BackendAnswer {
    state.requests.push(request.clone());
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    if request.method == "POST" && path.ends_with("/v1/traces") {
        let spans = protobuf::decode(&request.body).unwrap();
        if spans.is_empty() {
            return (200, protobuf::CONTENT_TYPE, Vec::new());
        }
        if !state.refusals.is_empty() {
            return (state.refusals.remove(0), protobuf::CONTENT_TYPE, state.answer.clone());
        }
        state.spans.extend(spans);
        return (200, protobuf::CONTENT_TYPE, Vec::new());
    }
    let Some((mode, path)) = path.trim_start_matches('/').split_once('/') else {
        return (404, "text/plain", b"page not found".to_vec());
    };
    if mode == "jaeger" { jaeger(path, query, &state.spans) } else { tempo(mode, path, query, &state.spans) }
}

fn jaeger(path: &str, query: &str, spans: &[TraceSpan]) -> BackendAnswer {
    let service = |span: &TraceSpan| span.resource["service.name"].clone();
    let done =
        |data: Value| (200, JSON, json!({"data": data, "total": 0, "errors": null}).to_string().into_bytes());
    if path == "api/services" {
        let mut services: Vec<String> =
            spans.iter().map(|span| service(span).as_str().unwrap().to_owned()).collect();
        services.sort();
        services.dedup();
        return done(json!(services));
    }
    if path == "api/traces" {
        let option = |key: &str| query.split('&').find_map(|pair| pair.strip_prefix(key));
        let wanted = option("service=").unwrap();
        let limit: usize = option("limit=").unwrap().parse().unwrap();
        let end_us: u64 = option("end=").map_or(u64::MAX, |end| end.parse().unwrap());
        let failed = |span: &&TraceSpan| !query.contains("tags=") || span.error.is_some();
        let mut found: Vec<&TraceSpan> = spans
            .iter()
            .filter(failed)
            .filter(|span| service(span) == wanted && span.start_ns / 1_000 <= end_us)
            .collect();
        found.sort_by_key(|span| std::cmp::Reverse(span.start_ns));
        let mut ids: Vec<u128> = Vec::new();
        for span in found {
            if !ids.contains(&span.trace_id) && ids.len() < limit {
                ids.push(span.trace_id);
            }
        }
        return done(ids.into_iter().map(|id| jaeger_trace(&of(spans, id))).collect());
    }
    let id = path.strip_prefix("api/traces/").and_then(|id| u128::from_str_radix(id, 16).ok()).unwrap();
    match of(spans, id) {
        found if found.is_empty() => {
            let body = json!({"data": null, "total": 0, "errors": [{"code": 404, "msg": "trace not found"}]});
            (404, JSON, body.to_string().into_bytes())
        }
        found => done(json!([jaeger_trace(&found)])),
    }
}

fn tempo(mode: &str, path: &str, query: &str, spans: &[TraceSpan]) -> BackendAnswer {
    if path == "api/echo" {
        return (200, "text/plain", b"echo".to_vec());
    }
    if path == "api/search" {
        let failed = |span: &&TraceSpan| !query.contains("error") || span.error.is_some();
        let roots = spans.iter().filter(failed).map(|span| {
            json!({"traceID": format!("{:x}", span.trace_id), "rootServiceName": "s", "durationMs": 5,
                "rootTraceName": span.name, "startTimeUnixNano": span.start_ns.to_string()})
        });
        return (
            200,
            JSON,
            json!({"traces": roots.collect::<Vec<_>>(), "metrics": {}}).to_string().into_bytes(),
        );
    }
    let old = mode.starts_with("tempo-old");
    let prefix = if old { "api/traces/" } else { "api/v2/traces/" };
    let Some(id) = path.strip_prefix(prefix).and_then(|id| u128::from_str_radix(id, 16).ok()) else {
        return (404, "text/plain", b"404 page not found".to_vec());
    };
    let found = of(spans, id);
    match mode {
        _ if found.is_empty() => (404, "text/plain", Vec::new()),
        "tempo" => {
            // TraceByIDResponse: the trace is its first field.
            let trace = protobuf::encode(&found);
            let mut body = vec![0x0a];
            let mut len = trace.len();
            while len > 0x7f {
                body.push(len as u8 & 0x7f | 0x80);
                len >>= 7;
            }
            body.push(len as u8);
            (200, "application/protobuf", [body, trace].concat())
        }
        "tempo-old-protobuf" => (200, "application/protobuf", protobuf::encode(&found)),
        "tempo-json" => {
            let trace = json!({"trace": {"resourceSpans": tempo_batches(&found)}, "metrics": {}});
            (200, JSON, trace.to_string().into_bytes())
        }
        _ => (200, "text/plain", json!({"batches": tempo_batches(&found)}).to_string().into_bytes()),
    }
}

fn of(spans: &[TraceSpan], id: u128) -> Vec<TraceSpan> {
    spans.iter().filter(|span| span.trace_id == id).cloned().collect()
}

/// Every span with its own process: allowed, if wasteful.
fn jaeger_trace(spans: &[TraceSpan]) -> Value {
    let mut processes = serde_json::Map::new();
    let mut shown = Vec::new();
    for (index, span) in spans.iter().enumerate() {
        let process = format!("p{index}");
        let trace_id = format!("{:032x}", span.trace_id);
        let references: Vec<Value> = (span.parent_id.iter())
            .map(|id| json!({"refType": "CHILD_OF", "traceID": trace_id, "spanID": format!("{id:016x}")}))
            .collect();
        let mut own = span.attributes.clone();
        if span.kind != SpanKind::Unspecified {
            own.insert("span.kind".into(), format!("{:?}", span.kind).to_lowercase().into());
        }
        own.insert("otel.scope.name".into(), span.scope.to_string().into());
        if let Some(message) = &span.error {
            own.insert("otel.status_code".into(), "ERROR".into());
            own.insert("otel.status_description".into(), message.clone().into());
            own.insert("error".into(), true.into());
        }
        let logs: Vec<Value> = (span.events.iter())
            .map(|event| {
                let mut fields = event.attributes.clone();
                fields.insert("event".into(), event.name.clone().into());
                json!({"timestamp": event.time_ns / 1_000, "fields": tags(&fields)})
            })
            .collect();
        shown.push(json!({
            "traceID": trace_id, "spanID": format!("{:016x}", span.span_id), "operationName": span.name,
            "references": references, "startTime": span.start_ns / 1_000,
            "duration": (span.end_ns - span.start_ns) / 1_000, "tags": tags(&own), "logs": logs,
            "processID": process, "warnings": null,
        }));
        let mut resource = span.resource.as_ref().clone();
        let service = resource.swap_remove("service.name");
        processes.insert(process, json!({"serviceName": service, "tags": tags(&resource)}));
    }
    json!({"traceID": format!("{:032x}", spans[0].trace_id), "spans": shown, "processes": processes, "warnings": null})
}

fn tags(attributes: &Info) -> Vec<Value> {
    let kind = |value: &Value| match value {
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        _ => "string",
    };
    attributes.iter().map(|(key, value)| json!({"key": key, "type": kind(value), "value": value})).collect()
}

fn tempo_batches(spans: &[TraceSpan]) -> Vec<Value> {
    let batch = |span: &TraceSpan| {
        let parent = span.parent_id.map(|id| STANDARD.encode(id.to_be_bytes()));
        let events: Vec<Value> = (span.events.iter())
            .map(|event| {
                json!({"name": event.name, "timeUnixNano": event.time_ns.to_string(),
                    "attributes": pairs(&event.attributes)})
            })
            .collect();
        let status = match &span.error {
            Some(message) => json!({"code": "STATUS_CODE_ERROR", "message": message}),
            None => json!({}),
        };
        let mut shown = json!({
            "traceId": STANDARD.encode(span.trace_id.to_be_bytes()),
            "spanId": STANDARD.encode(span.span_id.to_be_bytes()), "name": span.name,
            "kind": format!("SPAN_KIND_{}", format!("{:?}", span.kind).to_uppercase()),
            "startTimeUnixNano": span.start_ns.to_string(), "endTimeUnixNano": span.end_ns.to_string(),
            "attributes": pairs(&span.attributes), "events": events, "status": status,
        });
        if let Some(parent) = parent {
            shown["parentSpanId"] = parent.into();
        }
        json!({"resource": {"attributes": pairs(&span.resource)},
            "scopeSpans": [{"scope": {"name": &*span.scope}, "spans": [shown]}]})
    };
    spans.iter().map(batch).collect()
}

fn pairs(attributes: &Info) -> Vec<Value> {
    let typed = |value: &Value| match value {
        Value::Bool(value) => json!({"boolValue": value}),
        Value::Number(number) if number.is_f64() => json!({"doubleValue": number}),
        Value::Number(number) => json!({"intValue": number.to_string()}),
        Value::String(text) => json!({"stringValue": text}),
        _ => json!({}),
    };
    attributes.iter().map(|(key, value)| json!({"key": key, "value": typed(value)})).collect()
}
