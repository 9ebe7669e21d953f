//! Servers that never finish an answer: every request ends at its deadline, or at a limit before it.
//!
//! One round of each; `BENCH_SLOW_TESTS=1` runs fifty.

use std::io::{Read as _, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::http_faults::{Sockets, errors_of, read_head};
use crate::server::{After, ScriptedRequest, ScriptedServer, Wire, tls_config};
use crate::support::{Bench, ChildGuard};

const DEADLINE_MS: u64 = 400;
/// The deadline where a limit must end the request before it, on a busy machine too.
const FAR_DEADLINE_MS: u64 = 60_000;
/// How long a busy machine may take beyond the deadline.
const SLACK: Duration = Duration::from_secs(20);

fn rounds() -> u64 {
    if std::env::var("BENCH_SLOW_TESTS").is_ok() { 50 } else { 1 }
}

type Act = fn(&mut TcpStream);

/// Sends a beginning, and then a piece again and again with pauses, until the client is gone.
fn drip(stream: &mut impl Write, beginning: &[u8], piece: &[u8], pause: Duration) {
    let mut sent = stream.write_all(beginning);
    while sent.is_ok() {
        std::thread::sleep(pause);
        sent = stream.write_all(piece);
    }
}

/// Says nothing until the client is gone.
fn silent(stream: &mut TcpStream) {
    let mut buffer = [0; 4096];
    while stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
}

const MS: Duration = Duration::from_millis(1);
const HEAD: &[u8] = b"HTTP/1.1 200 OK\r\n";

/// Each with the classes that its failure may have.
const HTTP1: &[(&str, Act, &[&str])] = &[
    ("never answers", |stream| silent(stream), &["timeout"]),
    ("a head byte by byte", |stream| drip(stream, b"HTTP/1.1 200 OK\r\nA: ", b"b", 20 * MS), &["timeout"]),
    ("a status line byte by byte", |stream| drip(stream, b"HTTP/1.1 200 ", b"O", 20 * MS), &["timeout"]),
    ("endless headers", |stream| drip(stream, HEAD, &b"A: b\r\n".repeat(1000), Duration::ZERO), &["client"]),
    (
        "an endless header",
        |stream| drip(stream, b"HTTP/1.1 200 OK\r\nA: ", &[b'b'; 9000], Duration::ZERO),
        &["client"],
    ),
    (
        "endless interim answers",
        |stream| drip(stream, b"", &b"HTTP/1.1 103 Early Hints\r\n\r\n".repeat(1000), MS),
        &["client"],
    ),
    (
        "a body byte by byte",
        |stream| drip(stream, b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n", b"b", 100 * MS),
        &["timeout"],
    ),
    (
        "an endless body",
        |stream| drip(stream, b"HTTP/1.1 200 OK\r\n\r\n", &[b'b'; 60_000], Duration::ZERO),
        &["timeout", "body_limit"],
    ),
    (
        "a body that stops",
        |stream| {
            drop(stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"));
            silent(stream);
        },
        &["timeout"],
    ),
    (
        "chunks without end",
        |stream| {
            drip(stream, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nb\r\n", 5 * MS)
        },
        &["timeout"],
    ),
    (
        "a chunk extension without end",
        |stream| drip(stream, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", &[b'x'; 1000], MS),
        &["client"],
    ),
    (
        "a chunk extension byte by byte",
        |stream| drip(stream, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"x", 20 * MS),
        &["timeout"],
    ),
    (
        "trailers without end",
        |stream| {
            drip(
                stream,
                b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
                &b"a: b\r\n".repeat(100),
                MS,
            )
        },
        &["client"],
    ),
    (
        "redirects without end",
        |stream| {
            drop(stream.write_all(b"HTTP/1.1 302 Go\r\nLocation: /x/?n\r\nContent-Length: 100\r\n\r\n"));
            silent(stream);
        },
        &["timeout"],
    ),
];

/// A frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

/// The server's settings, and `:status: 200`.
fn answered(end_of_headers: u8) -> Vec<u8> {
    [frame(SETTINGS, 0, 0, &[]), frame(HEADERS, end_of_headers, 1, &[0x88])].concat()
}

const HTTP2: &[(&str, Act, &[&str])] = &[
    ("never answers", |stream| silent(stream), &["timeout"]),
    (
        "settings and nothing more",
        |stream| {
            drop(stream.write_all(&frame(SETTINGS, 0, 0, &[])));
            silent(stream);
        },
        &["timeout"],
    ),
    (
        "endless CONTINUATION",
        |stream| drip(stream, &answered(0), &frame(CONTINUATION, 0, 1, &b"\0\x01a\x01b".repeat(100)), MS),
        &["timeout", "client", "closed"],
    ),
    (
        "empty CONTINUATION without end",
        |stream| drip(stream, &answered(0), &frame(CONTINUATION, 0, 1, b""), MS),
        &["timeout", "client", "closed"],
    ),
    (
        "a stream that never ends",
        |stream| drip(stream, &answered(END_HEADERS), &frame(DATA, 0, 1, b"b"), 10 * MS),
        &["timeout"],
    ),
    (
        "empty DATA without end",
        |stream| drip(stream, &answered(END_HEADERS), &frame(DATA, 0, 1, b""), MS),
        &["timeout", "client", "closed"],
    ),
    (
        "a flood of PING",
        |stream| drip(stream, &frame(SETTINGS, 0, 0, &[]), &frame(PING, 0, 0, &[0; 8]).repeat(50), MS),
        &["timeout", "client", "closed"],
    ),
    (
        "a flood of SETTINGS",
        |stream| drip(stream, &[], &frame(SETTINGS, 0, 0, &[]).repeat(50), MS),
        &["timeout", "client", "closed"],
    ),
    // As fast as the client reads: nothing but its own limits gets a turn.
    (
        "endless 103",
        |stream| {
            let hints = frame(HEADERS, END_HEADERS, 1, b"\x08\x03103").repeat(20_000);
            drip(stream, &frame(SETTINGS, 0, 0, &[]), &hints, Duration::ZERO);
        },
        &["timeout", "client"],
    ),
    (
        "endless WINDOW_UPDATE",
        |stream| {
            let windows = frame(WINDOW_UPDATE, 0, 1, &[0, 0, 0, 1]).repeat(20_000);
            drip(stream, &frame(SETTINGS, 0, 0, &[]), &windows, Duration::ZERO);
        },
        &["timeout", "client"],
    ),
    (
        "endless PING",
        |stream| {
            let pings = frame(PING, 0, 0, &[0; 8]).repeat(20_000);
            drip(stream, &frame(SETTINGS, 0, 0, &[]), &pings, Duration::ZERO);
        },
        &["timeout", "client", "closed"],
    ),
    (
        "endless frames of no kind",
        |stream| {
            let unknown = frame(0xbb, 0, 1, b"").repeat(20_000);
            drip(stream, &frame(SETTINGS, 0, 0, &[]), &unknown, Duration::ZERO);
        },
        &["timeout", "client"],
    ),
    (
        "endless empty DATA",
        |stream| drip(stream, &answered(END_HEADERS), &frame(DATA, 0, 1, b"").repeat(20_000), Duration::ZERO),
        &["timeout", "client"],
    ),
    // INITIAL_WINDOW_SIZE 0: no byte of a body may be sent.
    (
        "no window",
        |stream| {
            drop(stream.write_all(&frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0])));
            silent(stream);
        },
        &["timeout"],
    ),
];

fn check(cases: &[(&str, Act, &[&str])], deployment: &str, speaks: fn(&mut TcpStream)) {
    let rounds = rounds();
    for (name, act, classes) in cases {
        let act = *act;
        let deadline_ms = if classes.contains(&"timeout") { DEADLINE_MS } else { FAR_DEADLINE_MS };
        let server = Sockets::start(move |mut stream| {
            // A client that is gone must not keep the next one waiting.
            let _ = stream.set_write_timeout(Some(Duration::from_secs(5)));
            speaks(&mut stream);
            act(&mut stream);
        });
        let scenario = format!(
            "http: {{ redirects: 20 }}\nrunner: {{ serial: {{ times: {rounds} }} }}\niteration: [ {{ action: a, post: /x, body: hello, timeout: {deadline_ms}ms }} ]"
        );
        let started = Instant::now();
        let errors = errors_of(&format!("http://{}", server.address), deployment, &scenario);
        let elapsed = started.elapsed();
        let count: u64 = errors.iter().map(|error| error["count"].as_u64().unwrap()).sum();
        assert_eq!(count, rounds, "{name}: {errors:?}");
        let class = |error: &serde_json::Value| classes.contains(&error["class"].as_str().unwrap());
        assert!(errors.iter().all(class), "{name}: {errors:?}");
        let most = Duration::from_millis(rounds * (deadline_ms + 1000)) + SLACK;
        assert!(elapsed < most, "{name}: {elapsed:?}");
    }
}

#[test]
fn every_request_of_http1_ends_by_its_deadline() {
    check(HTTP1, "", read_head);
}

#[test]
fn every_request_of_http2_ends_by_its_deadline() {
    check(HTTP2, "http: { version: 2 }", |stream| {
        // The client's preface and its settings; what comes later is left to the script.
        let mut preface = [0; 24];
        let _ = stream.read_exact(&mut preface);
    });
}

/// HTTP/2 over TLS, whose server sends interim answers without end.
fn hints_over_tls(ca: &Path) -> Sockets {
    let mut config = tls_config(ca);
    config.alpn_protocols = vec![b"h2".to_vec()];
    let config = Arc::new(config);
    // The first connection, which brings no request, is answered, too.
    Sockets::after(0, move |mut stream| {
        let _ = stream.set_write_timeout(Some(Duration::from_secs(5)));
        let mut session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
        let mut stream = rustls::Stream::new(&mut session, &mut stream);
        let _ = stream.read_exact(&mut [0; 24]);
        let hints = frame(HEADERS, END_HEADERS, 1, b"\x08\x03103").repeat(2_000);
        drip(&mut stream, &frame(SETTINGS, 0, 0, &[]), &hints, Duration::ZERO);
    })
}

/// Runs the scenario against a server that never lets go, interrupts it, and expects its end. A flood may meet a limit
/// before, which fails the request.
fn ends_by_a_signal(bench: &Bench, options: &[&str], is_flood: bool) {
    let mut command = bench.command(&["run", "scenario.yaml"]);
    let running = ChildGuard::start(command.args(options).stdout(Stdio::null()).stderr(Stdio::null()));
    std::thread::sleep(Duration::from_millis(1500));
    let began = Instant::now();
    let ended = running.interrupt();
    let file = |name: &str| std::fs::read_to_string(bench.path().join(name)).unwrap();
    let what = || format!("{options:?} {} {}", file("deployment.yaml"), file("scenario.yaml"));
    let at_a_limit = is_flood && matches!(ended.code, Some(0 | 1));
    assert!(ended.code == Some(105) || at_a_limit, "{ended:?} {}", what());
    assert!(began.elapsed() < SLACK + Duration::from_secs(1), "{:?} {}", began.elapsed(), what());
}

/// Chunks as fast as the client reads.
fn endless(_: &ScriptedRequest, wire: &mut Wire<'_>) -> After {
    let chunks = "1\r\nb\r\n".repeat(10_000);
    let mut sent = wire.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    while sent {
        sent = wire.send(&chunks);
    }
    After::Close
}

const ONE: &str = "graceful_stop: 1s\nrunner: { serial: { times: 1 } }";

/// Whatever a server sends without end, and at whatever moment: a signal ends the run.
#[test]
fn a_server_that_never_lets_go_holds_up_no_signal() {
    let folder = tempfile::tempdir().unwrap();
    let (ca, ca2) = (folder.path().join("ca.pem"), folder.path().join("ca2.pem"));
    let (clear, tls) = (ScriptedServer::start(endless), ScriptedServer::tls(&ca, endless));
    let flood = Sockets::start(|mut stream| {
        let _ = stream.set_write_timeout(Some(Duration::from_secs(5)));
        let _ = stream.read_exact(&mut [0; 24]);
        let pings = frame(PING, 0, 0, &[0; 8]).repeat(20_000);
        drip(&mut stream, &frame(SETTINGS, 0, 0, &[]), &pings, Duration::ZERO);
    });
    let hints = hints_over_tls(&ca2);
    let step = "[ { action: a, get: /x, timeout: 300s, max_body: 1000GB } ]";
    for (url, deployment) in [
        (clear.url(), String::new()),
        (tls.url(), format!("http: {{ version: 1.1 }}\ntls: {{ ca: \"{}\" }}", ca.display())),
        (format!("http://{}", flood.address), "http: { version: 2 }".to_owned()),
        (
            format!("https://{}", hints.address),
            format!("http: {{ version: 2 }}\ntls: {{ ca: \"{}\" }}", ca2.display()),
        ),
    ] {
        for (steps, option) in [
            (format!("iteration: {step}"), "--no-probe"),
            (format!("setup: {step}\niteration: [ {{ action: b, get: /y }} ]"), "--no-probe"),
            (format!("iteration: {step}"), "--once"),
        ] {
            let bench = Bench::new();
            bench.load(&url, &deployment, &format!("{ONE}\n{steps}"));
            ends_by_a_signal(&bench, &[option], deployment.contains("version: 2"));
        }
    }
}

/// The same of what is asked before the load: for a token, for a catalog and in the probe.
#[test]
fn a_server_that_never_lets_go_before_the_load_holds_up_no_signal() {
    let (clear, good) = (ScriptedServer::start(endless), ScriptedServer::answering_after(Duration::ZERO));
    let url = clear.url();
    let user = "username: u, password: P4ssw0rd-x, project_name: p";
    for (target, deployment) in [
        (&good, format!("auth: {{ keystone: {{ auth_url: '{url}/identity', {user} }} }}")),
        (&good, format!("auth: {{ oauth2: {{ token_url: '{url}/t', client_id: a, client_secret: b }} }}")),
        (
            &good,
            format!("auth: {{ keystone: {{ auth_url: '{url}/identity', token: T0ken }} }}\ncatalog: {{}}"),
        ),
        (&clear, "profiler: { hmac_key: k, connection_string: 'sqlite:///traces.db' }".to_owned()),
    ] {
        let bench = Bench::new();
        let steps = "iteration: [ { action: a, get: /x, timeout: 300s, max_body: 1000GB } ]";
        bench.load(&target.url(), &deployment, &format!("{ONE}\n{steps}"));
        ends_by_a_signal(&bench, &[], false);
    }
}
