//! What is fuzzed: everything that reads bytes from elsewhere. A target must not panic, take much longer than its input
//! deserves, or take much memory; some compare two ways to read the same.

use std::fs;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BufMut as _;
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, HeaderValue};

use bench::base::masking;
use bench::client::Request;
use bench::client::body::BodyContent;
use bench::client::decode;
use bench::client::decode_pieces::PieceDecoder;
use bench::client::guard::Guard;
use bench::client::headers::HeaderBlock;
use bench::client::options::{HttpOptions, Settings, Version};
use bench::client::pool::Pool;
use bench::client::simulated::{self as network, NetworkModel, Peer, PeerEvent, PeerTransmission};
use bench::client::tls::{self, TlsOptions};
use bench::client::url::BaseUrl;
use bench::client::websocket::SocketMessage;
use bench::client::websocket::extension::MessageCompression;
use bench::client::websocket::reader::{FrameArrival, MessageReader};
use bench::client::websocket::violation::Violation;
use bench::grpc::answer::{CallStatus, messages_as_json};
use bench::grpc::message;
use bench::grpc::reflection::{self, KnownFiles, ReflectionAnswer};
use bench::grpc::schema::ServiceSchema;
use bench::harness::event;
use bench::harness::files::validate_with;
use bench::harness::options::{Environment, YamlFile};
use bench::import::{ImportError, curl, har, openapi, starter};
use bench::measure::log::{LogFile, RunLog, Visitor};
use bench::measure::phases::Phases;
use bench::measure::rows::Rows;
use bench::osprofiler::functions::model::FunctionProfile;
use bench::osprofiler::functions::{carried, collapsed, pprof, speedscope};
use bench::osprofiler::profile_log;
use bench::osprofiler::record::TraceRecord;
use bench::osprofiler::report::TraceTree;
use bench::osprofiler::spans::{DecodedSpans, jaeger, json, protobuf, read, translate};
use bench::osprofiler::verifying::ServerKeys;
use bench::rally::template::{self, RenderedTask};
use bench::rally::{self, args::Arguments};
use bench::receive::links::Links;
use bench::receive::wire;
use bench::results::stored::StoredRun;
use bench::text::diagnostics::SourceText;
use bench::text::stream::{Splitter, StreamEvent, StreamFormat};
use bench::text::template::{Engine, Variables};

/// A target's name, and what it does with an input.
pub(crate) type FuzzTarget = (&'static str, fn(&[u8]));

/// All targets.
pub(crate) const TARGETS: [FuzzTarget; 18] = [
    ("log", log),
    ("results", results),
    ("scenario", scenario),
    ("deployment", deployment),
    ("rally", rally_task),
    ("records", records),
    ("spans", spans),
    ("otlp", otlp),
    ("http", http_answer),
    ("http2", http2_answer),
    ("websocket", websocket_frames),
    ("grpc", grpc_answer),
    ("stream", stream),
    ("har", har_archive),
    ("openapi", openapi_document),
    ("curl", curl_command),
    ("csv", csv),
    ("profiles", profiles),
];

/// The longest that an input may take, in a build with or without optimisation.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Runs a target on an input and fails if that takes too long.
pub(crate) fn run(target: fn(&[u8]), input: &[u8]) {
    // An input must not take longer for the secrets of those before it, nor be read in another way.
    masking::forget_all();
    let began = Instant::now();
    target(input);
    let took = began.elapsed();
    assert!(took < TIME_MAX, "{} bytes took {took:?}", input.len());
}

/// A file with these bytes, which is gone after `work`.
fn with_file<T>(bytes: &[u8], name: &str, work: impl FnOnce(&Path) -> T) -> T {
    // In memory, where there is such a place.
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() }.unwrap();
    let path = folder.path().join(name);
    fs::File::create(&path).unwrap().write_all(bytes).unwrap();
    work(&path)
}

/// Counts iterations, and adds up what can be added up.
#[derive(Default)]
struct ResponseTimeSum(u64);

impl Visitor for ResponseTimeSum {
    fn rows(&mut self, rows: &Rows) -> std::io::Result<()> {
        for row in rows.iter() {
            self.0 = self.0.wrapping_add(row.head.response_ns());
        }
        Ok(())
    }
}

/// A run log, with whole frames or not.
fn log(bytes: &[u8]) {
    with_file(bytes, "run.log", |path| {
        if let Ok(log) = RunLog::of(LogFile::at(path)) {
            let (mut one, mut two) = (ResponseTimeSum::default(), ResponseTimeSum::default());
            let first = log.visit(&mut [&mut one]).map_err(|error| error.to_string());
            let second = log.visit(&mut [&mut two]).map_err(|error| error.to_string());
            assert_eq!((one.0, first), (two.0, second), "a log is read the same twice");
        }
    });
}

fn results(bytes: &[u8]) {
    with_file(bytes, "results.json", |path| drop(StoredRun::results_of(path)));
}

const DEPLOYMENT: &str = "targets: { default: 'http://127.0.0.1:9' }\nprofiler: { hmac_key: k }\n";

fn scenario(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let (file, deployment) = (YamlFile::text("s.yaml", text), YamlFile::text("d.yaml", DEPLOYMENT));
    let nothing = Environment::new(|_| None);
    if let Err(error) = validate_with(&file, Some(&deployment), &nothing, &event::silent()) {
        assert!(!error.to_string().trim().is_empty());
    }
}

fn deployment(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let nothing = Environment::new(|_| None);
    if let Err(error) = validate_with(&YamlFile::text("d.yaml", text), None, &nothing, &event::silent()) {
        assert!(!error.to_string().trim().is_empty());
    }
    // Templates are part of the files.
    if let Ok(compiled) = Engine::new().compile(text) {
        let mut output = String::new();
        let _ = compiled.render(&Variables::new(Arc::default()), &mut output);
    }
}

fn rally_task(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let _ = rally::is_task(text);
    let files =
        rally::ArgumentFiles { read: &|name| Err(format!("no file {name}")), find: &|name| name.to_owned() };
    let missing = |name: &str| Err(format!("no file {name}"));
    let rendered = template::render(SourceText::new("t.yaml", text), &Arguments::default(), &missing);
    for rendered in rendered.into_iter().chain([RenderedTask::plain(SourceText::new("t.yaml", text))]) {
        if let Err(rejected) = rally::read(rendered, "title", &files) {
            assert!(!rejected.faults.is_empty());
        }
    }
}

/// Records of trace points, a line each; profile logs; signed headers.
fn records(bytes: &[u8]) {
    let records: Vec<TraceRecord> =
        bytes.split(|byte| *byte == b'\n').filter_map(|line| TraceRecord::decode(line).ok()).collect();
    for record in &records {
        let _ = carried::decode(&record.info);
        let _ = record.timestamp_us();
    }
    let tree = TraceTree::build(&records);
    assert!(tree.children().len() <= records.len() + 1, "more points than records");
    let _ = profile_log::each_line(bytes, |_, _| {});
    let (info, hmac) = bytes.split_at(bytes.len() / 2);
    assert!(ServerKeys::parse("SECRET_KEY").verify(info, hmac).is_err(), "signed by nobody");
}

/// Spans as collectors answer them.
fn spans(bytes: &[u8]) {
    let decoded = [
        protobuf::decode(bytes).map(|spans| DecodedSpans { spans, ..DecodedSpans::default() }),
        protobuf::decode_tempo(bytes),
        protobuf::decode_tempo_v2(bytes),
        json::decode(bytes),
        jaeger::decode(bytes),
    ];
    for DecodedSpans { spans, .. } in decoded.into_iter().flatten() {
        let _ = TraceTree::build(&read::records("b", &spans));
        for (_, records) in read::traces(&spans) {
            let _ = TraceTree::build(&records);
        }
    }
    let _ = protobuf::decode_answer(bytes);
    let _ = json::decode_search(bytes);
    let _ = jaeger::decode_services(bytes);
    let _ = jaeger::decode_listing(bytes);
}

/// Requests of exporters to the receiver, as protobuf and as JSON.
fn otlp(bytes: &[u8]) {
    let of_json = translate::to_protobuf(bytes);
    for body in [bytes, of_json.as_deref().unwrap_or_default()] {
        let mut links = Links::new();
        // Every second trace is wanted.
        let Ok(request) = wire::WireRequest::read(body, &mut links, |trace| trace % 2 == 0) else { continue };
        let mut delivered = 0;
        request.deliver(|_, spans, bytes| {
            delivered += u64::from(spans);
            let whole = protobuf::decode(&[&[0x0a][..], &length(bytes.len()), bytes].concat());
            assert!(whole.is_ok(), "what is handed over cannot be read: {:?}", whole.err());
        });
        assert!(delivered >= request.wanted(), "{delivered} of {}", request.wanted());
    }
}

/// A length as protobuf has it.
fn length(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

/// Answers a request with bytes, in pieces, and then ends the connection.
#[derive(Clone)]
struct Server {
    version: Version,
    answer: Vec<u8>,
    piece: usize,
    taken: Vec<u8>,
    has_answered: bool,
}

impl Server {
    fn new(version: Version, answer: &[u8], piece: usize) -> Self {
        let piece = piece.min(answer.len().max(1));
        Self { version, answer: answer.to_vec(), piece, taken: Vec::new(), has_answered: false }
    }

    /// Whether the head of a request is there.
    fn is_asked(&self) -> bool {
        if self.version != Version::Http2 {
            return self.taken.ends_with(b"\r\n\r\n");
        }
        // After the connection preface of 24 bytes, frames: a length, a type, flags, a stream (RFC 9113, 4.1).
        let mut rest = self.taken.get(24..).unwrap_or_default();
        while let [a, b, c, kind, ..] = *rest {
            const HEADERS: u8 = 1;
            if kind == HEADERS {
                return true;
            }
            let length = u32::from_be_bytes([0, a, b, c]) as usize;
            rest = rest.get(9 + length..).unwrap_or_default();
        }
        false
    }
}

impl NetworkModel for Server {
    fn connect(&mut self, _: &str) -> (Duration, std::io::Result<Box<dyn Peer>>) {
        (Duration::ZERO, Ok(Box::new(self.clone())))
    }
}

impl Peer for Server {
    fn take(&mut self, bytes: &[u8], sent: &mut Vec<PeerTransmission>) -> usize {
        self.taken.extend_from_slice(bytes);
        if !self.has_answered && self.is_asked() {
            self.has_answered = true;
            for piece in self.answer.chunks(self.piece) {
                sent.push(PeerTransmission { after: Duration::ZERO, what: PeerEvent::Bytes(piece.to_vec()) });
            }
            sent.push(PeerTransmission { after: Duration::ZERO, what: PeerEvent::End });
        }
        bytes.len()
    }
}

/// An answer of a server. bench and hyper must not understand it in different ways, and how it is torn must not matter.
fn http_answer(bytes: &[u8]) {
    let whole = ask_http1(bytes, usize::MAX);
    assert_eq!(whole, ask_http1(bytes, 1), "torn into bytes it is another answer");
    assert_eq!(whole, ask_http1(bytes, 7), "torn into pieces it is another answer");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let hypers = runtime.block_on(ask_hyper(bytes));
    if let (Some(whole), Some(hypers)) = (whole, hypers) {
        assert_eq!(whole, hypers, "hyper reads another answer");
    }
}

/// The frames of a server of HTTP/2, and with them HPACK, after its settings. How they are torn changes no answer, but may
/// decide whether there is one: what follows a whole answer may end the connection, if it arrives at once. The crate h2
/// must not understand another one.
fn http2_answer(bytes: &[u8]) {
    let mut seen = None;
    for piece in [usize::MAX, 1, 7] {
        let answer = ask_http2(bytes, piece);
        if let (Some(before), Some(now)) = (seen, answer) {
            assert_eq!(before, now, "in pieces of {piece} bytes it is another answer");
        }
        seen = seen.or(answer);
    }
    if let (Some(seen), Some(other)) = (seen, ask_h2(bytes)) {
        assert_eq!(seen, other, "h2 reads another answer");
    }
}

/// The largest message that [`websocket_frames`] reads.
const MESSAGE_BYTES_MAX: u64 = 100_000;

/// The frames of a WebSocket's server. The first byte says whether messages may be compressed, and know of each other. How
/// the frames are torn does not matter, and no message is longer than allowed, or a text that is none.
fn websocket_frames(bytes: &[u8]) {
    let [agreed, frames @ ..] = bytes else { return };
    let whole = socket_messages(*agreed, frames, usize::MAX);
    for piece in [1, 7, 10_000] {
        assert_eq!(
            whole,
            socket_messages(*agreed, frames, piece),
            "in pieces of {piece} bytes it is another"
        );
    }
    for message in whole.0 {
        assert!(message.content().len() as u64 <= MESSAGE_BYTES_MAX);
        assert!(!matches!(&message, SocketMessage::Text(text) if std::str::from_utf8(text).is_err()));
    }
}

/// What the frames hold, pings as bytes, and which rule they break. All but whole frames are read without a copy where there
/// is room for that.
pub(crate) fn socket_messages(
    agreed: u8,
    mut frames: &[u8],
    piece: usize,
) -> (Vec<SocketMessage>, Option<Violation>) {
    let compression = (agreed & 1 == 1)
        .then_some(MessageCompression { server_keeps_context: agreed & 2 == 2, client_window_bits: 15 });
    let (mut reader, mut messages) = (MessageReader::new(MESSAGE_BYTES_MAX, compression), Vec::new());
    while let Some(mut piece) = frames.split_off(..piece.min(frames.len())).filter(|piece| !piece.is_empty())
    {
        if let Some(mut room) = reader.room() {
            let fits = piece.split_off(..piece.len().min(room.remaining_mut())).unwrap();
            room.put_slice(fits);
            if let Err(violation) = reader.filled(fits.len()) {
                return (messages, Some(violation));
            }
        }
        loop {
            match reader.take(&mut piece) {
                Ok(Some(FrameArrival::Message(message))) => messages.push(message),
                Ok(Some(FrameArrival::Ping)) => {
                    let content = bytes::Bytes::copy_from_slice(reader.control());
                    messages.push(SocketMessage::Binary(content));
                }
                Ok(None) => break,
                Err(violation) => return (messages, Some(violation)),
            }
        }
        assert!(piece.is_empty(), "{} bytes were left", piece.len());
    }
    (messages, None)
}

/// What a gRPC service sends: a body, as messages of a known type and as what its reflection says; a status; and JSON as a
/// message. What was read as a message is the same message when it is written and read again.
fn grpc_answer(bytes: &[u8]) {
    const BYTES_MAX: u64 = 1 << 20;
    let schema = ServiceSchema::from_descriptor_set(include_bytes!("../grpc/shop.binpb")).unwrap();
    for name in ["shop.v1.Orders/Chat", "shop.v1.Orders/Get"] {
        let method = schema.method(name).unwrap();
        let Ok(json) = messages_as_json(&method, bytes, Some("gzip"), BYTES_MAX) else { continue };
        for json in json.as_array().into_iter().flatten() {
            let written = message::encode(method.output(), &json.to_string()).unwrap();
            assert_eq!(message::decode(method.output(), &written).as_ref(), Ok(json));
        }
    }
    if let Ok(ReflectionAnswer::Files(files)) = reflection::read(bytes, Some("gzip")) {
        let mut known = KnownFiles::default();
        if known.add(&files).is_ok() && known.missing().is_none() {
            let _ = known.schema();
        }
    }
    let text = String::from_utf8_lossy(bytes);
    let (status, details) = text.split_once('\n').unwrap_or((&text, ""));
    let header = |name: &http::HeaderName| match name.as_str() {
        "grpc-status" => Some(status.into()),
        _ => Some(details.into()),
    };
    if let Ok(status) = CallStatus::of(http::StatusCode::OK, header, None) {
        let _ = status.words(schema.method("shop.v1.Orders/Get").ok().as_ref());
    }
    let input = schema.method("shop.v1.Orders/Chat").unwrap().input();
    if let Err(misfit) = message::encode(input, &text) {
        let _ = misfit.to_string();
    }
}

/// A stream: its first byte says how it is compressed, its second into which pieces it is cut. The pieces do not matter, and
/// a body that is decompressed whole is decompressed to the same while it arrives.
fn stream(bytes: &[u8]) {
    let [coding, cut, body @ ..] = bytes else { return };
    let coding = ["", "gzip", "deflate", "br"][usize::from(coding % 4)];
    let headers = HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static(coding))]);
    let piece = usize::from(*cut).max(1);
    let Some(unpacked) = unpacked_in_pieces(&headers, body, piece) else {
        assert!(decode::decoded(Some(&headers), body, STREAM_BYTES_MAX).is_err());
        return;
    };
    if let Ok(whole) = decode::decoded(Some(&headers), body, STREAM_BYTES_MAX) {
        assert_eq!(whole.as_deref().unwrap_or(body), unpacked);
    }
    for format in [StreamFormat::Events, StreamFormat::Lines] {
        assert_eq!(events(format, &unpacked, piece), events(format, &unpacked, unpacked.len().max(1)));
    }
}

const STREAM_BYTES_MAX: u64 = 1 << 20;

/// `None` if a decoder refuses it, or for more than is unpacked here.
fn unpacked_in_pieces(headers: &HeaderMap, body: &[u8], piece: usize) -> Option<Vec<u8>> {
    let (mut decoder, mut all) = (PieceDecoder::new(Some(headers)).ok()?, Vec::new());
    for piece in body.chunks(piece) {
        let taken = decoder.take(piece, &mut |unpacked| {
            all.extend_from_slice(unpacked);
            let is_much = all.len() as u64 > STREAM_BYTES_MAX;
            Ok(if is_much { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        });
        if taken.ok()?.is_break() {
            return None;
        }
    }
    Some(all)
}

/// Types and data, or `None` where an event is too large.
fn events(format: StreamFormat, stream: &[u8], piece: usize) -> Option<Vec<(Vec<u8>, Vec<u8>)>> {
    let (mut splitter, mut all) = (Splitter::new(format, 1 << 10), Vec::new());
    let mut sink = |event: StreamEvent<'_>| {
        all.push((event.kind.to_vec(), event.data.to_vec()));
        ControlFlow::Continue(())
    };
    for piece in stream.chunks(piece) {
        let _ = splitter.take(piece, &mut sink).ok()?;
    }
    let _ = splitter.finish(&mut sink).ok()?;
    Some(all)
}

/// Status and length of the answer that these bytes are.
pub(crate) fn ask_http1(bytes: &[u8], piece: usize) -> Option<(u16, u64)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(ask(Version::Auto, bytes, piece))
}

/// What a server sends first: settings that change nothing.
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

/// Status and length of the answer that these frames are.
pub(crate) fn ask_http2(bytes: &[u8], piece: usize) -> Option<(u16, u64)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(ask(Version::Http2, &[SETTINGS, bytes].concat(), piece))
}

fn settings(version: Version) -> Arc<Settings> {
    let tls = tls::config(&TlsOptions { verify: false, ca: None, identity: None }, false).unwrap();
    let guard = Guard::unrestricted();
    Settings::new(&tls, HttpOptions { version, guard, ..HttpOptions::default() })
}

/// Status and length of an answer; `None` if there is none.
async fn ask(version: Version, bytes: &[u8], piece: usize) -> Option<(u16, u64)> {
    thread_local! {
        static HTTP1: Arc<Settings> = settings(Version::Auto);
        static HTTP2: Arc<Settings> = settings(Version::Http2);
    }
    let settings = if version == Version::Http2 { HTTP2.with(Arc::clone) } else { HTTP1.with(Arc::clone) };
    network::set(Some(Box::new(Server::new(version, bytes, piece))));
    let base = BaseUrl::parse("http://10.0.0.1").map_err(|_| "a URL").unwrap();
    let nothing = HeaderBlock::default();
    let request = Request {
        method: &http::Method::GET,
        origin: &base.origin,
        path: "/",
        fixed: &nothing,
        own: &nothing,
        body: &BodyContent::EMPTY,
        started: Instant::now(),
        redirects_max: 0,
        body_bytes_max: 1 << 20,
        cookies: None,
        keep_headers: true,
        keep_body: false,
        keep_trailers: false,
        reader: None,
        version: Version::Auto,
        is_refused: &|_| false,
    };
    let local = tokio::task::LocalSet::new();
    let answer =
        local.run_until(async { Pool::new(&settings).send(&request, &mut Phases::default()).await }).await;
    network::set(None);
    answer.ok().map(|answer| (answer.status.as_u16(), answer.body_bytes))
}

/// Status and length of the answer that the crate h2 takes these frames for.
pub(crate) fn ask_h2(bytes: &[u8]) -> Option<(u16, u64)> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (client, server) = tokio::io::duplex(bytes.len() + (64 << 10));
    runtime.block_on(async { tokio::join!(serve_frames(server, bytes), ask_by_h2(client)).1 })
}

/// Sends frames once a request is there, and then ends the connection.
async fn serve_frames(mut server: tokio::io::DuplexStream, bytes: &[u8]) {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let mut request = Server::new(Version::Http2, bytes, usize::MAX);
    while !request.is_asked() {
        match server.read_buf(&mut request.taken).await {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
    let _ = server.write_all(&[SETTINGS, bytes].concat()).await;
    let _ = server.shutdown().await;
}

async fn ask_by_h2(client: tokio::io::DuplexStream) -> Option<(u16, u64)> {
    let mut builder = h2::client::Builder::new();
    builder.enable_push(false).initial_window_size(1 << 20).max_header_list_size(256 << 10);
    let (sender, connection) = builder.handshake::<_, bytes::Bytes>(client).await.ok()?;
    let request = http::Request::get("http://10.0.0.1/").body(()).ok()?;
    let exchange = async {
        let (answer, _) = sender.ready().await.ok()?.send_request(request, true).ok()?;
        let answer = answer.await.ok()?;
        let (status, mut body, mut length) = (answer.status().as_u16(), answer.into_body(), 0);
        while let Some(data) = body.data().await {
            let data = data.ok()?;
            length += data.len() as u64;
            let _ = body.flow_control().release_capacity(data.len());
        }
        body.trailers().await.ok()?;
        Some((status, length))
    };
    let (mut exchange, mut connection) = (std::pin::pin!(exchange), std::pin::pin!(connection));
    tokio::select! {
        answer = &mut exchange => answer,
        _ = &mut connection => exchange.await,
    }
}

async fn ask_hyper(bytes: &[u8]) -> Option<(u16, u64)> {
    use http_body_util::BodyExt;
    let (client, mut server) = tokio::io::duplex(bytes.len() + 4096);
    let bytes = bytes.to_vec();
    let serve = async move {
        let mut head = vec![0; 4096];
        let _ = tokio::io::AsyncReadExt::read(&mut server, &mut head).await;
        let _ = tokio::io::AsyncWriteExt::write_all(&mut server, &bytes).await;
        let _ = tokio::io::AsyncWriteExt::shutdown(&mut server).await;
    };
    let ask = async {
        let io = hyper_util::rt::TokioIo::new(client);
        let (mut sender, connection) = hyper::client::conn::http1::handshake(io).await.ok()?;
        let request = http::Request::get("/").header("host", "10.0.0.1");
        let request = request.body(http_body_util::Empty::<bytes::Bytes>::new()).ok()?;
        let exchange = async {
            let answer = sender.send_request(request).await.ok()?;
            let status = answer.status().as_u16();
            let body = answer.into_body().collect().await.ok()?;
            Some((status, body.to_bytes().len() as u64))
        };
        let mut exchange = std::pin::pin!(exchange);
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            answer = &mut exchange => answer,
            _ = &mut connection => exchange.await,
        }
    };
    tokio::join!(serve, ask).1
}

fn no_file(name: &str) -> Result<String, ImportError> {
    Ok(name.to_owned())
}

/// What is imported can be written, and what is written can be read.
fn imported(draft: Result<bench::import::Draft, ImportError>) {
    let Ok(mut draft) = draft else { return };
    starter::finish(&mut draft, "1s");
    let Ok(written) = draft.write("d.yaml") else { return };
    let (file, deployment) =
        (YamlFile::text("s.yaml", written.scenario), YamlFile::text("d.yaml", written.deployment));
    // Its secrets are variables of the environment.
    let everything = Environment::new(|_| Some("x".to_owned()));
    if let Err(error) = validate_with(&file, Some(&deployment), &everything, &event::silent()) {
        let text = error.to_string();
        assert!(!text.contains("unknown key"), "written and not understood: {text}");
    }
}

fn har_archive(bytes: &[u8]) {
    imported(har::from_reader(bytes, har::Options { all: true, think: true }));
}

fn openapi_document(bytes: &[u8]) {
    let options = openapi::Options { all_methods: true, ..Default::default() };
    // The document is all the files that it names, too.
    let file = |name: &str| if name.contains('/') { Err(String::new()) } else { Ok(bytes.to_vec()) };
    imported(openapi::from_reader(bytes, &options, &file));
}

fn curl_command(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    imported(curl::from_text(text, &no_file));
}

/// A file of rows.
fn csv(bytes: &[u8]) {
    let scenario = "title: t\nrunner: { serial: { times: 3 } }\ndata: { rows: rows.csv }\n\
                    iteration: [ { action: a, get: '/{{ rows.a }}' } ]\n";
    with_file(bytes, "rows.csv", |path| {
        let file = YamlFile::text(path.with_file_name("s.yaml"), scenario);
        let deployment = YamlFile::text("d.yaml", DEPLOYMENT);
        let nothing = Environment::new(|_| None);
        let _ = validate_with(&file, Some(&deployment), &nothing, &event::silent());
    });
}

/// Profiles of functions, as other programs write them.
fn profiles(bytes: &[u8]) {
    let profiles = pprof::decode("o", bytes, &["span_id", "trace_id"]).unwrap_or_default();
    let text = String::from_utf8_lossy(bytes);
    let (of_text, _) = collapsed::decode("o", 100, &text);
    for profile in profiles.into_values().chain([of_text]) {
        let written = pprof::encode(&profile).unwrap();
        let again = pprof::decode("o", &written, &[]).unwrap_or_default();
        let samples =
            |profile: &FunctionProfile| profile.stacks.iter().map(|stack| stack.samples).sum::<u64>();
        let of_again = again.get(&None).map_or(0, samples);
        assert_eq!(of_again, samples(&profile), "samples are lost on the way through pprof's format");
        let _ = speedscope::encode(&profile);
        let _ = collapsed::encode(&profile);
    }
}
