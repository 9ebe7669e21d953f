//! The receiver of OpenTelemetry's spans over real sockets: both protocols, every encoding, every refusal, forwarding,
//! and senders that misbehave.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bench::client::options::DnsOptions;
use bench::client::plain::PlainClient;
use bench::client::tls::{self, TlsOptions};
use bench::osprofiler::spans::{TraceSpan, protobuf};
use bench::receive::Taker;
use bench::receive::counts::ReceiverCounts;
use bench::receive::forward::{ForwardLimits, ForwardTarget};
use bench::receive::listen;
use bench::receive::server::{Limits, Receiver, ReceiverOptions};
use bytes::Bytes;
use http::{HeaderMap, Request};
use serde_json::{Value, json};

use crate::server::{After, ScriptedServer};

const TRACES: &str = "/v1/traces";
const PROTOBUF: &str = "application/x-protobuf";
const JSON: &str = "application/json";
const EXPORT: &str = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
/// The traces that are wanted have this in their upper half.
const WANTED: u128 = 7 << 64;
/// How long a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Keeps all spans of wanted traces.
#[derive(Default)]
struct WantedSpanStore(Mutex<Vec<TraceSpan>>);

impl Taker for WantedSpanStore {
    fn wants(&self, trace_id: u128) -> bool {
        trace_id >> 64 == WANTED >> 64
    }

    fn take(&self, trace_id: u128, spans: u32, resource_spans: &[u8]) {
        let mut request = vec![0x0a];
        let mut length = resource_spans.len();
        while length >= 0x80 {
            request.push((length & 0x7f) as u8 | 0x80);
            length >>= 7;
        }
        request.push(length as u8);
        request.extend_from_slice(resource_spans);
        let decoded = protobuf::decode(&request).unwrap();
        assert_eq!(decoded.len(), spans as usize);
        assert!(decoded.iter().all(|span| span.trace_id == trace_id));
        self.0.lock().unwrap().extend(decoded);
    }
}

impl WantedSpanStore {
    /// What came since the last call, by span ids.
    fn taken(&self) -> Vec<TraceSpan> {
        let mut spans = std::mem::take(&mut *self.0.lock().unwrap());
        spans.sort_by_key(|span| span.span_id);
        spans
    }
}

fn started(options: ReceiverOptions) -> (Receiver, Arc<WantedSpanStore>) {
    let kept = Arc::new(WantedSpanStore::default());
    let any = "127.0.0.1:0".parse().unwrap();
    let listeners = listen::bind(&[any, any]).unwrap();
    (Receiver::start(listeners, Arc::clone(&kept) as Arc<dyn Taker>, options).unwrap(), kept)
}

fn limited(change: impl FnOnce(&mut Limits)) -> ReceiverOptions {
    let mut options = ReceiverOptions::default();
    change(&mut options.limits);
    options
}

/// Three spans of two wanted traces, and two of another.
fn spans() -> Vec<TraceSpan> {
    let resource = Arc::new(json!({"service.name": "orders"}).as_object().unwrap().clone());
    let span = |trace_id, span_id| TraceSpan {
        trace_id,
        span_id,
        name: format!("span {span_id}"),
        resource: Arc::clone(&resource),
        scope: Arc::from("scope"),
        ..TraceSpan::default()
    };
    vec![span(WANTED | 1, 1), span(9, 2), span(WANTED | 2, 3), span(WANTED | 1, 4), span(9, 5)]
}

fn wanted() -> Vec<TraceSpan> {
    spans().into_iter().filter(|span| span.trace_id >> 64 == WANTED >> 64).collect()
}

fn body_of(kind: &str) -> Vec<u8> {
    if kind != JSON {
        return protobuf::encode(&spans());
    }
    let span = |span: &TraceSpan| {
        json!({"traceId": format!("{:032x}", span.trace_id), "spanId": format!("{:016x}", span.span_id),
               "name": span.name})
    };
    let spans: Vec<Value> = spans().iter().map(span).collect();
    let service = json!({"key": "service.name", "value": {"stringValue": "orders"}});
    let scopes = json!([{"scope": {"name": "scope"}, "spans": spans}]);
    json!({"resourceSpans": [{"resource": {"attributes": [service]}, "scopeSpans": scopes}]})
        .to_string()
        .into_bytes()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A gRPC message.
fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    [&[flag], &(message.len() as u32).to_be_bytes()[..], message].concat()
}

/// An answer, with trailers among the headers.
#[derive(Debug)]
struct ReceiverAnswer {
    status: u16,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl ReceiverAnswer {
    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }

    /// Code and message of a `google.rpc.Status`.
    fn status_message(&self) -> (i64, String) {
        if self.header("content-type") == JSON {
            let status: Value = serde_json::from_slice(&self.body).unwrap();
            return (status["code"].as_i64().unwrap(), status["message"].as_str().unwrap().to_owned());
        }
        // Field 1 is the code; field 2 the message, which may be followed by others.
        assert_eq!((self.body[0], self.body[2]), (0x08, 0x12), "{:?}", self.body);
        let (mut length, mut at, mut shift) = (0, 3, 0);
        loop {
            length |= usize::from(self.body[at] & 0x7f) << shift;
            (at, shift) = (at + 1, shift + 7);
            if self.body[at - 1] & 0x80 == 0 {
                break;
            }
        }
        let message = String::from_utf8(self.body[at..at + length].to_vec()).unwrap();
        (i64::from(self.body[1]), message)
    }
}

fn head(method: &str, path: &str, headers: &[(&str, &str)], length: usize) -> String {
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("{method} {path} HTTP/1.1\r\nHost: h\r\nContent-Length: {length}\r\n{headers}\r\n")
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Reads a single answer.
fn read(stream: &mut TcpStream) -> ReceiverAnswer {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        let mut headers = [httparse::EMPTY_HEADER; 32];
        let mut answer = httparse::Response::new(&mut headers);
        if let Ok(httparse::Status::Complete(end)) = answer.parse(&bytes) {
            let status = answer.code.unwrap();
            let headers: HeaderMap = answer
                .headers
                .iter()
                .map(|header| (header.name.parse().unwrap(), header.value.try_into().unwrap()))
                .collect::<Vec<(http::HeaderName, http::HeaderValue)>>()
                .into_iter()
                .collect();
            let length: usize = headers["content-length"].to_str().unwrap().parse().unwrap();
            if bytes.len() >= end + length {
                return ReceiverAnswer { status, headers, body: bytes[end..end + length].to_vec() };
            }
        }
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "the connection ended: {:?}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&buffer[..read]);
    }
}

/// A request by HTTP/1.1.
fn http1(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> ReceiverAnswer {
    let mut stream = connect(address);
    stream.write_all(head(method, path, headers, body.len()).as_bytes()).unwrap();
    stream.write_all(body).unwrap();
    read(&mut stream)
}

/// A request by HTTP/2 with prior knowledge.
fn http2(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &[u8],
) -> ReceiverAnswer {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let (sender, connection) = h2::client::handshake(stream).await.unwrap();
        let driven = tokio::spawn(connection);
        let mut request = Request::builder().method(method).uri(format!("http://h{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let mut sender = sender.ready().await.unwrap();
        let (answer, mut stream) = sender.send_request(request.body(()).unwrap(), false).unwrap();
        // A refusal may come before all was sent.
        let _ = stream.send_data(Bytes::copy_from_slice(body), true);
        let answer = tokio::time::timeout(PATIENCE, answer).await.unwrap().unwrap();
        let (parts, mut incoming) = answer.into_parts();
        let (mut headers, mut body) = (parts.headers, Vec::new());
        while let Some(data) = incoming.data().await {
            let data = data.unwrap();
            incoming.flow_control().release_capacity(data.len()).unwrap();
            body.extend_from_slice(&data);
        }
        headers.extend(incoming.trailers().await.unwrap().unwrap_or_default());
        driven.abort();
        ReceiverAnswer { status: parts.status.as_u16(), headers, body }
    })
}

fn grpc(address: SocketAddr, path: &str, headers: &[(&str, &str)], body: &[u8]) -> ReceiverAnswer {
    let all = [&[("content-type", "application/grpc"), ("te", "trailers")], headers].concat();
    let answer = http2(address, "POST", path, &all, body);
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/grpc"), "{answer:?}");
    answer
}

/// Waits until the counts are as they should be.
#[track_caller]
fn wait(receiver: &Receiver, what: &str, until: impl Fn(&ReceiverCounts) -> bool) {
    let end = Instant::now() + PATIENCE;
    while !until(&receiver.counts()) {
        assert!(Instant::now() < end, "{what}: {:?}", receiver.counts());
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn client() -> PlainClient {
    let tls = tls::config(&TlsOptions { verify: true, ca: None, identity: None }, false).unwrap();
    PlainClient::new(&tls, &DnsOptions::default()).unwrap()
}

fn forwarding(url: &str, change: impl FnOnce(&mut ForwardLimits)) -> ReceiverOptions {
    let target = ForwardTarget::new(url, client()).unwrap();
    let mut limits = ForwardLimits { first_pause: Duration::from_millis(5), ..ForwardLimits::default() };
    limits.pause_max = Duration::from_millis(20);
    change(&mut limits);
    ReceiverOptions { forward: Some(target), forward_limits: limits, ..ReceiverOptions::default() }
}

#[test]
fn spans_arrive_by_every_protocol_and_encoding() {
    let (receiver, kept) = started(ReceiverOptions::default());
    let addresses = receiver.addresses().to_vec();
    assert_eq!(addresses.len(), 2);
    let mut requests = 0;
    for (by, send) in [("HTTP/1.1", http1 as fn(_, &_, &_, &[_], &[_]) -> _), ("HTTP/2", http2)] {
        for (kind, empty) in [(PROTOBUF, &b""[..]), (JSON, b"{}"), ("application/json; charset=utf-8", b"{}")]
        {
            let content_type = kind.split(';').next().unwrap();
            for encoding in ["", "identity", "gzip"] {
                let name = format!("{by} {kind} {encoding}");
                let plain = body_of(content_type);
                let body = if encoding == "gzip" { gzip(&plain) } else { plain };
                let headers = [("content-type", kind), ("content-encoding", encoding)];
                let headers = if encoding.is_empty() { &headers[..1] } else { &headers };
                let answer = send(addresses[requests % 2], "POST", TRACES, headers, &body);
                assert_eq!((answer.status, &answer.body[..]), (200, empty), "{name}");
                assert_eq!(answer.header("content-type"), content_type, "{name}");
                assert_eq!(kept.taken(), wanted(), "{name}");
                requests += 1;
            }
        }
    }
    let plain = body_of(PROTOBUF);
    for (encoding, body) in [
        (None, framed(0, &plain)),
        (Some("identity"), framed(0, &plain)),
        (Some("gzip"), framed(1, &gzip(&plain))),
        (Some("gzip"), framed(0, &plain)),
    ] {
        let headers: Vec<_> = encoding.map(|encoding| ("grpc-encoding", encoding)).into_iter().collect();
        let answer = grpc(addresses[requests % 2], EXPORT, &headers, &body);
        assert_eq!((answer.header("grpc-status"), &answer.body[..]), ("0", &[0; 5][..]), "{encoding:?}");
        assert_eq!(kept.taken(), wanted(), "gRPC {encoding:?}");
        requests += 1;
    }
    let counts = receiver.stop();
    let requests = requests as u64;
    assert_eq!((counts.requests, counts.spans, counts.foreign_spans), (requests, 3 * requests, 2 * requests));
    assert_eq!((counts.connections, counts.invalid_spans, counts.refused.total()), (requests, 0, 0));
    assert!(counts.bytes > requests * 100, "{counts:?}");
}

#[test]
fn a_connection_serves_many_requests() {
    let (receiver, kept) = started(ReceiverOptions::default());
    let mut stream = connect(receiver.addresses()[0]);
    let body = body_of(PROTOBUF);
    for (path, status) in [(TRACES, 200), ("/nothing", 404), (TRACES, 200)] {
        let head = head("POST", path, &[("content-type", PROTOBUF)], body.len());
        // In pieces, the first of which does not tell the protocol.
        stream.write_all(&head.as_bytes()[..1]).unwrap();
        std::thread::sleep(Duration::from_millis(1));
        stream.write_all(&[&head.as_bytes()[1..], &body[..9]].concat()).unwrap();
        stream.write_all(&body[9..]).unwrap();
        assert_eq!(read(&mut stream).status, status, "{path}");
    }
    assert_eq!(kept.taken().len(), 6);
    assert_eq!(receiver.stop().connections, 1);
}

#[test]
fn what_is_not_otlp_is_refused_by_http() {
    let (receiver, kept) = started(limited(|limits| {
        limits.body_bytes_max = 4_000;
        limits.decompressed_bytes_max = 10_000;
    }));
    let (protobuf, json) = (body_of(PROTOBUF), body_of(JSON));
    let bomb = gzip(&vec![0; 200 << 10]);
    assert!(bomb.len() < 4_000);
    let large = [0; 5_000];
    for (method, path, kind, encoding, body, status, code, part) in [
        ("POST", TRACES, PROTOBUF, "", &b"\x0a\x05x"[..], 400, 3, "ExportTraceServiceRequest"),
        ("POST", TRACES, PROTOBUF, "", &protobuf[..protobuf.len() - 1], 400, 3, "ends after its message"),
        ("POST", TRACES, PROTOBUF, "", &json, 400, 3, "ExportTraceServiceRequest"),
        ("POST", TRACES, JSON, "", &json[1..], 400, 3, "OTLP's JSON"),
        ("POST", TRACES, JSON, "", &protobuf, 400, 3, "OTLP's JSON"),
        ("POST", TRACES, PROTOBUF, "gzip", &protobuf, 400, 3, "not valid gzip"),
        ("POST", TRACES, JSON, "gzip", &gzip(&json)[..40], 400, 3, "not valid gzip"),
        ("POST", TRACES, PROTOBUF, "gzip", &bomb, 413, 8, "10000 bytes when decompressed"),
        ("POST", TRACES, JSON, "gzip", &bomb, 413, 8, "10000 bytes when decompressed"),
        ("POST", TRACES, PROTOBUF, "", &large, 413, 8, "larger than 4000 bytes"),
        ("POST", TRACES, PROTOBUF, "br", &protobuf, 415, 12, "gzip or none"),
        ("POST", TRACES, "text/plain", "", &protobuf, 415, 12, "application/x-protobuf"),
        ("POST", "/", PROTOBUF, "", &protobuf, 404, 12, "/v1/traces"),
        ("POST", "/v1/traces/", PROTOBUF, "", &protobuf, 404, 12, "/v1/traces"),
        ("GET", TRACES, JSON, "", b"", 405, 12, "only POST"),
        ("PUT", "/v1/logs", PROTOBUF, "", &protobuf, 405, 12, "only POST"),
        ("POST", EXPORT, PROTOBUF, "", &protobuf, 404, 12, "/v1/traces"),
    ] {
        for (by, send) in [("HTTP/1.1", http1 as fn(_, &_, &_, &[_], &[_]) -> _), ("HTTP/2", http2)] {
            let name = format!("{by} {method} {path} {kind} {encoding}: {part}");
            let headers = [("content-type", kind), ("content-encoding", encoding)];
            let headers = if encoding.is_empty() { &headers[..1] } else { &headers };
            let answer = send(receiver.addresses()[0], method, path, headers, body);
            let (told, message) = answer.status_message();
            assert_eq!((answer.status, told), (status, code), "{name}: {message}");
            assert!(message.contains(part), "{name}: {message}");
            let expected = if kind == PROTOBUF { PROTOBUF } else { JSON };
            assert_eq!(answer.header("content-type"), expected, "{name}");
            match status {
                405 => assert_eq!(answer.header("allow"), "POST"),
                415 => assert_eq!(answer.header("accept-encoding"), "gzip"),
                _ => {}
            }
        }
    }
    let answer = http1(receiver.addresses()[0], "POST", TRACES, &[], b"x");
    assert_eq!((answer.status, answer.header("content-type")), (415, JSON));
    assert!(kept.taken().is_empty());
    let counts = receiver.stop();
    let refused = counts.refused;
    assert_eq!((refused.malformed, refused.too_large, refused.unsupported), (14, 6, 15));
    assert_eq!((refused.busy, refused.incomplete, counts.requests, counts.spans), (0, 0, 0, 0));
}

/// A page of any site, one whose name was made to lead here among them, can send neither spans nor a preflight.
#[test]
fn web_pages_are_refused() {
    let (receiver, kept) = started(ReceiverOptions::default());
    let (address, json, protobuf) = (receiver.addresses()[0], body_of(JSON), body_of(PROTOBUF));
    let (origin, site) = ("origin", "sec-fetch-site");
    for (method, path, kind, body, name, value) in [
        ("POST", TRACES, JSON, &json, origin, "http://evil.example:4318"),
        ("POST", TRACES, JSON, &json, origin, "null"),
        ("POST", TRACES, PROTOBUF, &protobuf, site, "cross-site"),
        ("POST", "/v1/logs", JSON, &json, site, "same-site"),
        ("OPTIONS", TRACES, JSON, &Vec::new(), origin, "https://evil.example"),
        ("POST", EXPORT, "application/grpc", &framed(0, &protobuf), origin, "https://evil.example"),
    ] {
        for (by, send) in [("HTTP/1.1", http1 as fn(_, &_, &_, &[_], &[_]) -> _), ("HTTP/2", http2)] {
            let answer = send(address, method, path, &[("content-type", kind), (name, value)], body);
            let (_, message) = answer.status_message();
            assert_eq!(answer.status, 403, "{by} {method} {path} {name}: {value}: {message}");
            assert!(message.contains("web pages"), "{message}");
            assert_eq!(answer.header("access-control-allow-origin"), "");
        }
    }
    assert!(kept.taken().is_empty());
    // No browser sends a POST of a page without its origin.
    for value in ["none", "same-origin"] {
        let answer = http1(address, "POST", TRACES, &[("content-type", JSON), (site, value)], &json);
        assert_eq!((answer.status, kept.taken().len()), (200, wanted().len()), "{value}");
    }
    assert_eq!(receiver.stop().refused.unsupported, 12);
}

#[test]
fn what_is_not_otlp_is_refused_by_grpc() {
    let (receiver, kept) = started(limited(|limits| {
        limits.body_bytes_max = 4_000;
        limits.decompressed_bytes_max = 10_000;
    }));
    let plain = body_of(PROTOBUF);
    let bomb = framed(1, &gzip(&vec![0; 200 << 10]));
    for (path, encoding, body, status, part) in [
        (EXPORT, "identity", framed(0, b"\x0a\x05x"), "3", "ExportTraceServiceRequest"),
        (EXPORT, "identity", Vec::new(), "3", "no complete message"),
        (EXPORT, "identity", framed(0, &plain)[..50].to_vec(), "3", "a single message"),
        (EXPORT, "identity", framed(0, &plain).repeat(2), "3", "a single message"),
        (EXPORT, "identity", framed(7, &plain), "3", "unknown flag"),
        (EXPORT, "identity", framed(1, &gzip(&plain)), "3", "does not say how"),
        (EXPORT, "gzip", framed(1, &plain), "3", "not valid gzip"),
        (EXPORT, "gzip", bomb, "8", "10000 bytes when decompressed"),
        (EXPORT, "identity", framed(0, &[0; 5_000]), "8", "larger than 4000 bytes"),
        (EXPORT, "deflate", framed(1, &plain), "12", "by gzip, or not at all"),
        (TRACES, "identity", framed(0, &plain), "12", "the method Export"),
        ("/a.B/C", "identity", framed(0, &plain), "12", "the method Export"),
    ] {
        let answer = grpc(receiver.addresses()[0], path, &[("grpc-encoding", encoding)], &body);
        assert_eq!(answer.header("grpc-status"), status, "{part}: {answer:?}");
        assert!(answer.header("grpc-message").contains(part), "{part}: {answer:?}");
        assert!(
            answer.body.is_empty() && answer.headers.contains_key("grpc-status-details-bin"),
            "{answer:?}"
        );
    }
    assert!(kept.taken().is_empty());
    let refused = receiver.stop().refused;
    assert_eq!((refused.malformed, refused.too_large, refused.unsupported), (7, 2, 3));
}

#[test]
fn spans_without_valid_ids_are_a_partial_success() {
    let (receiver, kept) = started(ReceiverOptions::default());
    let mut all = spans();
    all[0].span_id = 0;
    all[1].trace_id = 0;
    let body = protobuf::encode(&all);
    let address = receiver.addresses()[0];
    let answer = http1(address, "POST", TRACES, &[("content-type", PROTOBUF)], &body);
    assert_eq!(answer.status, 200);
    let (rejected, message) = protobuf::decode_answer(&answer.body).unwrap().unwrap();
    assert_eq!(rejected, 2);
    assert!(message.contains("2 of the spans have no valid ids"), "{message}");
    let answer = grpc(address, EXPORT, &[], &framed(0, &body));
    assert_eq!(answer.header("grpc-status"), "0");
    assert_eq!(protobuf::decode_answer(&answer.body[5..]).unwrap().unwrap(), (rejected, message));
    let bad = r#"{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"0102","spanId":"00"}]}]}]}"#;
    let answer = http1(address, "POST", TRACES, &[("content-type", JSON)], bad.as_bytes());
    let told: Value = serde_json::from_slice(&answer.body).unwrap();
    assert_eq!((answer.status, &told["partialSuccess"]["rejectedSpans"]), (200, &json!("1")));
    assert_eq!(kept.taken().len(), 4);
    let counts = receiver.stop();
    assert_eq!((counts.invalid_spans, counts.spans, counts.foreign_spans), (5, 4, 2));
}

#[test]
fn metrics_and_logs_are_accepted_and_not_kept() {
    let (receiver, kept) = started(ReceiverOptions::default());
    let address = receiver.addresses()[0];
    for path in ["/v1/metrics", "/v1/logs"] {
        for (kind, body) in [(PROTOBUF, &b""[..]), (JSON, b"{}")] {
            let answer = http1(address, "POST", path, &[("content-type", kind)], b"anything");
            assert_eq!((answer.status, &answer.body[..]), (200, body), "{path} {kind}");
        }
    }
    for service in ["metrics.v1.MetricsService", "logs.v1.LogsService"] {
        let path = format!("/opentelemetry.proto.collector.{service}/Export");
        assert_eq!(grpc(address, &path, &[], &framed(0, b"anything")).header("grpc-status"), "0");
    }
    assert!(kept.taken().is_empty());
    let counts = receiver.stop();
    assert_eq!((counts.other_signals, counts.requests, counts.refused.total()), (6, 0, 0));
}

/// 200 MiB of zeros, at the usual limits.
#[test]
fn a_gzip_bomb_is_refused_and_the_next_request_is_not() {
    let (receiver, kept) = started(ReceiverOptions::default());
    let address = receiver.addresses()[0];
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for _ in 0..200 {
        encoder.write_all(&vec![0; 1 << 20]).unwrap();
    }
    let bomb = encoder.finish().unwrap();
    let headers = [("content-type", PROTOBUF), ("content-encoding", "gzip")];
    let answer = http1(address, "POST", TRACES, &headers, &bomb);
    assert_eq!(answer.status, 413);
    assert!(answer.status_message().1.contains("64 MiB when decompressed"));
    let answer = grpc(address, EXPORT, &[("grpc-encoding", "gzip")], &framed(1, &bomb));
    assert_eq!(answer.header("grpc-status"), "8");
    // 17 MiB as they are.
    let large = vec![0; 17 << 20];
    let answer = http1(address, "POST", TRACES, &headers[..1], &large);
    assert!(answer.status_message().1.contains("larger than 16 MiB"), "{answer:?}");
    let answer = http1(address, "POST", TRACES, &headers[..1], &body_of(PROTOBUF));
    assert_eq!((answer.status, kept.taken()), (200, wanted()));
    assert_eq!(receiver.stop().refused.too_large, 3);
}

#[test]
fn bodies_beyond_the_memory_for_them_must_come_again() {
    let plain = body_of(PROTOBUF);
    // An unknown field makes the body long enough.
    let long = [&[0xa2, 0x01, 0xa0, 0x06][..], &[b'x'; 800], &plain].concat();
    let (receiver, kept) = started(limited(|limits| {
        limits.bodies_bytes_max = long.len() as u64;
        limits.pause_max = PATIENCE;
        limits.body_time_max = PATIENCE;
    }));
    let address = receiver.addresses()[0];
    let mut half = connect(address);
    let (first, rest) = long.split_at(900);
    half.write_all(head("POST", TRACES, &[("content-type", PROTOBUF)], long.len()).as_bytes()).unwrap();
    half.write_all(first).unwrap();
    let second = || http1(address, "POST", TRACES, &[("content-type", PROTOBUF)], &plain);
    let end = Instant::now() + PATIENCE;
    let mut accepted = 0;
    let busy = loop {
        // The first bytes of the other body may still be on their way.
        assert!(Instant::now() < end);
        let answer = second();
        if answer.status != 200 {
            break answer;
        }
        accepted += 1;
    };
    assert_eq!((busy.status, busy.header("retry-after")), (503, "1"));
    assert_eq!(busy.status_message(), (14, "the receiver is busy; try again".to_owned()));
    let call = grpc(address, EXPORT, &[], &framed(0, &plain));
    assert_eq!(call.header("grpc-status"), "14");
    assert!(!call.header("grpc-status-details-bin").is_empty());
    half.write_all(rest).unwrap();
    assert_eq!((read(&mut half).status, second().status), (200, 200));
    assert_eq!(kept.taken().len(), 3 * (accepted + 2));
    assert_eq!(receiver.stop().refused.busy, 2);
}

#[test]
fn half_a_request_ends_at_a_limit() {
    let (receiver, _) = started(limited(|limits| {
        limits.pause_max = Duration::from_millis(50);
    }));
    let address = receiver.addresses()[0];
    // A body that stops.
    let mut half = connect(address);
    let beginning = head("POST", TRACES, &[("content-type", PROTOBUF)], 100) + "0123";
    half.write_all(beginning.as_bytes()).unwrap();
    let answer = read(&mut half);
    assert_eq!((answer.status, answer.status_message().0), (408, 4));
    wait(&receiver, "the body that stopped", |counts| counts.refused.incomplete == 1);
    // A sender that is gone.
    let mut gone = connect(address);
    gone.write_all(head("POST", TRACES, &[("content-type", PROTOBUF)], 100).as_bytes()).unwrap();
    drop(gone);
    wait(&receiver, "the sender that is gone", |counts| counts.refused.incomplete == 2);
    receiver.stop();
    let (receiver, _) = started(limited(|limits| limits.idle_max = Duration::from_millis(200)));
    let address = receiver.addresses()[0];
    // Nothing, a byte that may be of either protocol, half a head, half a preface, a preface and nothing else.
    for beginning in [&b""[..], b"P", b"POST /v1/traces HT", b"PRI * HT", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
    {
        let mut silent = connect(address);
        silent.write_all(beginning).unwrap();
        let mut rest = Vec::new();
        // An orderly end or a reset, but an end.
        let ended = silent.read_to_end(&mut rest);
        let timed_out = |error: &std::io::Error| error.kind() == std::io::ErrorKind::WouldBlock;
        assert!(!ended.as_ref().is_err_and(timed_out), "{beginning:?}: {ended:?}");
    }
    assert_eq!(receiver.stop().requests, 0);
}

#[test]
fn idle_connections_make_room_for_others() {
    let (receiver, kept) = started(limited(|limits| {
        limits.connections_max = 2;
        limits.idle_max = Duration::from_secs(3_600);
    }));
    let mut idle: Vec<TcpStream> = receiver.addresses().iter().map(|address| connect(*address)).collect();
    idle[1].write_all(b"POST /v1/traces HTTP/1.1\r\nHost:").unwrap();
    wait(&receiver, "the first connections", |counts| counts.connections == 2);
    // Places have times in milliseconds.
    std::thread::sleep(Duration::from_millis(5));
    let mut used = Vec::new();
    for address in receiver.addresses() {
        let mut stream = connect(*address);
        let (body, headers) = (body_of(PROTOBUF), [("content-type", PROTOBUF)]);
        stream.write_all(head("POST", TRACES, &headers, body.len()).as_bytes()).unwrap();
        stream.write_all(&body).unwrap();
        assert_eq!((read(&mut stream).status, kept.taken()), (200, wanted()));
        used.push(stream);
    }
    // Closed, for the two.
    let mut closed = Vec::new();
    for stream in &mut idle {
        let ended = stream.read_to_end(&mut closed);
        assert!(!ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
    }
    let counts = receiver.stop();
    assert_eq!((counts.connections, counts.connections_evicted), (4, 2));
}

#[test]
fn stopping_ends_every_connection() {
    let (receiver, _) = started(ReceiverOptions::default());
    let addresses = receiver.addresses().to_vec();
    let mut open: Vec<TcpStream> = addresses.iter().map(|address| connect(*address)).collect();
    open[0].write_all(head("POST", TRACES, &[("content-type", PROTOBUF)], 100).as_bytes()).unwrap();
    open[1].write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").unwrap();
    wait(&receiver, "connections", |counts| counts.connections == 2);
    receiver.stop();
    let mut rest = Vec::new();
    for stream in &mut open {
        let ended = stream.read_to_end(&mut rest);
        assert!(!ended.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
    }
}

#[test]
fn everything_is_forwarded_as_it_came() {
    let backend = ScriptedServer::start(|seen, wire| match seen.nth {
        0 => wire.answer("503 Service Unavailable", "text/plain", ""),
        1 => After::Reset,
        2 => wire.answer("429 Too Many Requests", "text/plain", ""),
        _ => wire.answer("200 OK", PROTOBUF, ""),
    });
    let (receiver, kept) = started(forwarding(&format!("{}/base/?key=1", backend.url()), |_| {}));
    let address = receiver.addresses()[0];
    let (plain, text) = (body_of(PROTOBUF), body_of(JSON));
    let (zipped, zipped_text) = (gzip(&plain), gzip(&text));
    let key = ("authorization", "Bearer k");
    let (kind, json, coding) =
        (("content-type", PROTOBUF), ("content-type", JSON), ("content-encoding", "gzip"));
    http1(address, "POST", TRACES, &[kind, key, ("connection", "keep-alive, x-hop"), ("x-hop", "1")], &plain);
    backend.wait_for(4);
    for (nth, send) in [
        &(|| http1(address, "POST", TRACES, &[kind, coding, key], &zipped)) as &dyn Fn() -> ReceiverAnswer,
        &|| http2(address, "POST", TRACES, &[json, key], &text),
        &|| http1(address, "POST", TRACES, &[json, coding, key], &zipped_text),
        &|| grpc(address, EXPORT, &[key], &framed(0, &plain)),
        &|| grpc(address, EXPORT, &[key, ("grpc-encoding", "gzip")], &framed(1, &zipped)),
        &|| http1(address, "POST", "/v1/metrics", &[kind, key], b"metrics"),
    ]
    .into_iter()
    .enumerate()
    {
        assert_eq!(send().status, 200);
        backend.wait_for(5 + nth);
    }
    assert_eq!(kept.taken().len(), 6 * 3);
    let counts = receiver.stop();
    let seen = backend.seen();
    let expected: [(&str, &str, &[u8]); 7] = [
        (PROTOBUF, "", &plain),
        (PROTOBUF, "gzip", &zipped),
        (JSON, "", &text),
        (JSON, "gzip", &zipped_text),
        (PROTOBUF, "", &plain),
        (PROTOBUF, "gzip", &zipped),
        (PROTOBUF, "", b"metrics"),
    ];
    assert!(seen[..4].iter().all(|again| again.body == plain));
    for (seen, (kind, encoding, body)) in seen[3..].iter().zip(expected) {
        let header = |name: &str| seen.headers.get(name).map_or("", String::as_str);
        let path = if body == b"metrics" { "/base/v1/metrics?key=1" } else { "/base/v1/traces?key=1" };
        assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", path));
        assert_eq!((header("content-type"), header("content-encoding")), (kind, encoding), "{seen:?}");
        assert!(seen.body == body && header("authorization") == "Bearer k", "{seen:?}");
        assert!(header("via").starts_with("1.1 bench-receiver-"), "{seen:?}");
        assert!(
            !["te", "x-hop", "grpc-encoding"].iter().any(|hop| seen.headers.contains_key(*hop)),
            "{seen:?}"
        );
    }
    assert_eq!((seen.len(), counts.requests, counts.spans, counts.foreign_spans), (10, 6, 18, 12));
    let forward = counts.forward;
    assert_eq!((forward.requests, forward.spans, forward.dropped_requests), (7, 30, 0));
}

#[test]
fn what_cannot_be_forwarded_is_counted() {
    // A port that is taken, and where nobody listens.
    let nobody = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    nobody.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let nowhere = format!("http://{}", nobody.local_addr().unwrap().as_socket().unwrap());
    let refusing = ScriptedServer::start(|_, wire| wire.answer("400 Bad Request", "text/plain", "no"));
    let partial = ScriptedServer::start(|_, wire| wire.answer("200 OK", PROTOBUF, [0x0a, 2, 0x08, 2]));
    let hanging = ScriptedServer::start(|_, _| After::Hang);
    let patient = |limits: &mut ForwardLimits| {
        limits.attempts_max = u32::MAX;
        limits.flush = Duration::from_millis(200);
    };
    for (name, options, expected) in [
        ("a refusal", forwarding(&refusing.url(), |_| {}), (0, 0, 6, 30)),
        ("a partial success", forwarding(&partial.url(), |_| {}), (6, 18, 0, 12)),
        ("no backend", forwarding(&nowhere, |limits| limits.attempts_max = 3), (0, 0, 6, 30)),
        ("no backend, at the end", forwarding(&nowhere, patient), (0, 0, 6, 30)),
        ("a backend that hangs, at the end", forwarding(&hanging.url(), patient), (0, 0, 6, 30)),
        ("no room", forwarding(&partial.url(), |limits| limits.bytes_max = 1), (0, 0, 6, 30)),
    ] {
        let (receiver, kept) = started(options);
        for _ in 0..6 {
            let headers = [("content-type", PROTOBUF)];
            let answer = http1(receiver.addresses()[0], "POST", TRACES, &headers, &body_of(PROTOBUF));
            assert_eq!(answer.status, 200, "{name}");
        }
        let forward = receiver.stop().forward;
        let (dropped, spans) = (forward.dropped_requests, forward.dropped_spans);
        assert_eq!((forward.requests, forward.spans, dropped, spans), expected, "{name}");
        assert_eq!(kept.taken().len(), 18, "{name}");
    }
    // Four are sent at once, and two wait.
    let (receiver, _) = started(forwarding(&hanging.url(), |limits| {
        limits.requests_max = 2;
        limits.flush = Duration::ZERO;
    }));
    let send =
        || http1(receiver.addresses()[0], "POST", TRACES, &[("content-type", PROTOBUF)], &body_of(PROTOBUF));
    for sent in 1..=20_u64 {
        send();
        assert!(receiver.counts().forward.dropped_requests >= sent.saturating_sub(6));
    }
    assert_eq!(receiver.stop().forward.dropped_spans, 100);
}

#[test]
fn a_receiver_does_not_forward_to_itself() {
    let listeners = listen::bind(&["127.0.0.1:0".parse().unwrap()]).unwrap();
    let address = listeners[0].local_addr().unwrap();
    let kept = Arc::new(WantedSpanStore::default());
    let options = forwarding(&format!("http://{address}"), |_| {});
    let receiver = Receiver::start(listeners, Arc::clone(&kept) as Arc<dyn Taker>, options).unwrap();
    let answer = http1(address, "POST", TRACES, &[("content-type", PROTOBUF)], &body_of(PROTOBUF));
    assert_eq!(answer.status, 200);
    wait(&receiver, "the loop", |counts| counts.forward.dropped_requests == 1);
    let counts = receiver.stop();
    assert_eq!((counts.requests, counts.refused.malformed, kept.taken().len()), (1, 1, 3));
}

#[test]
fn urls_to_forward_to_are_checked() {
    for (url, is_valid) in [
        ("http://h:4318", true),
        ("https://h/otlp/v1/traces/", true),
        ("h:4318", false),
        ("grpc://h:4317", false),
        ("", false),
    ] {
        let target = ForwardTarget::new(url, client()).map(|_| ());
        assert_eq!(target.is_ok(), is_valid, "{url}");
        assert!(target.err().is_none_or(|error| error.contains("write http://127.0.0.1:4318")), "{url}");
    }
}
