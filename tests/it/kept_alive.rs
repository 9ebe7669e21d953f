//! Connections that are kept alive: closed at once when their end is announced, and what happens if they end while a
//! request is under way.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::h2_server::{Act, H2Server};
use crate::http_faults::Sockets;
use crate::rewind;
use crate::server::ScriptedServer;
use crate::support::Bench;

/// Reads the head of a request; false at the end of the connection.
fn read_head(stream: &mut TcpStream) -> bool {
    let (mut seen, mut buffer) = (Vec::new(), [0; 4096]);
    while memchr::memmem::find(&seen, b"\r\n\r\n").is_none() {
        match stream.read(&mut buffer) {
            Ok(read) if read > 0 => seen.extend_from_slice(&buffer[..read]),
            _ => return false,
        }
    }
    true
}

/// Reads a request of HTTP/1.1, or one of HTTP/2 up to its fields; false at the end of the connection.
fn read_request(stream: &mut TcpStream) -> bool {
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
    const HEADERS: u8 = 1;
    const PING: u8 = 6;
    let mut peeked = [0; 3];
    if !stream.peek(&mut peeked).is_ok_and(|read| read > 0) {
        return false;
    }
    if peeked != PREFACE[..3] {
        return read_head(stream);
    }
    let mut whole = vec![0; PREFACE.len()];
    // SETTINGS, and the one that the client's are acknowledged with.
    let settings = b"\0\0\0\x04\0\0\0\0\0\0\0\0\x04\x01\0\0\0\0";
    if stream.read_exact(&mut whole).and_then(|()| stream.write_all(settings)).is_err() {
        return false;
    }
    loop {
        let mut head = [0; 9];
        if stream.read_exact(&mut head).is_err() {
            return false;
        }
        let mut payload = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
        if stream.read_exact(&mut payload).is_err() {
            return false;
        }
        match head[3] {
            HEADERS => return true,
            PING if head[4] == 0 => {
                let pong = [&b"\0\0\x08\x06\x01\0\0\0\0"[..], &payload].concat();
                let _ = stream.write_all(&pong);
            }
            _ => {}
        }
    }
}

/// Connections whose end was announced and that the client has not closed.
#[derive(Clone, Default)]
struct UnclosedConnections(Arc<AtomicUsize>);

impl UnclosedConnections {
    /// True once there are none. Some servers serve nobody else until then.
    fn all_closed(&self) -> bool {
        let begun = Instant::now();
        while self.0.load(Ordering::SeqCst) > 0 && begun.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.0.load(Ordering::SeqCst) == 0
    }

    /// A server that answers one request on each connection with these bytes and shuts its side down.
    fn last(&self, answer: Vec<u8>) -> Sockets {
        let open = self.clone();
        Sockets::start(move |mut stream| {
            if !read_request(&mut stream) {
                return;
            }
            open.0.fetch_add(1, Ordering::SeqCst);
            let _ = stream.write_all(&answer).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
            let mut buffer = [0; 4096];
            while stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
            open.0.fetch_sub(1, Ordering::SeqCst);
        })
    }
}

/// The statuses of both servers' answers are 200 if the first one's connections were closed before the second one was asked.
fn closes_at_once(
    name: &str,
    version: &str,
    next: &str,
    answer: Vec<u8>,
    open: &UnclosedConnections,
    steps: &str,
) {
    let last = open.last(answer);
    let bench = Bench::new();
    let targets = format!("{{ default: \"http://{}\", next: \"{next}\" }}", last.address);
    bench.write("deployment.yaml", format!("targets: {targets}\nhttp: {{ version: {version} }}\n"));
    bench.write(
        "scenario.yaml",
        format!("title: t\ndeployment: deployment.yaml\nrunner: {{ serial: {{ times: 2 }} }}\n{steps}"),
    );
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let workload = bench.results()["workloads"][0].clone();
    assert_eq!(workload["iterations"]["ok"], 2, "{name}: {}", workload["errors"]);
}

const LAST_THEN_NEXT: &str =
    "iteration: [ { action: a, get: /last }, { action: b, get: /next, target: next, timeout: 30s } ]";

#[test]
fn a_connection_whose_end_is_announced_is_closed_at_once() {
    let open = UnclosedConnections::default();
    let seen = open.clone();
    let next = ScriptedServer::start(move |_, wire| {
        let status = if seen.all_closed() { "200 OK" } else { "500 Not Closed" };
        wire.answer(status, "text/plain", "")
    });
    let close = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok";
    let redirect = format!(
        "HTTP/1.1 302 Found\r\nLocation: {}/next\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
        next.url()
    );
    let shared = format!("http: {{ connections: shared }}\n{LAST_THEN_NEXT}");
    let setup = "setup: [ { get: /last } ]\niteration: [ { action: b, get: /next, target: next } ]";
    let follow = "http: { redirects: 3 }\niteration: [ { action: b, get: /last, timeout: 30s } ]";
    for (name, answer, steps) in [
        ("close", close, LAST_THEN_NEXT),
        ("a list", "HTTP/1.1 200 OK\r\nconnection: x-y, Close\r\nContent-Length: 0\r\n\r\n", LAST_THEN_NEXT),
        ("HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", LAST_THEN_NEXT),
        ("a body that ends with it", "HTTP/1.1 200 OK\r\n\r\nok", LAST_THEN_NEXT),
        ("shared", close, &shared),
        ("setup", close, setup),
        ("redirect", &redirect, follow),
    ] {
        closes_at_once(name, "auto", &next.url(), answer.into(), &open, steps);
    }
}

#[test]
fn a_connection_of_http2_that_goes_away_is_closed_at_once() {
    let open = UnclosedConnections::default();
    let seen = open.clone();
    let next = H2Server::start(move |_| {
        let status = if seen.all_closed() { 200 } else { 500 };
        Act::Full(status, Vec::new(), Vec::new())
    });
    let answer = [
        // HEADERS of stream 1 with `:status: 200` and END_STREAM; GOAWAY without an error.
        &b"\0\0\x01\x01\x05\0\0\0\x01\x88"[..],
        b"\0\0\x08\x07\0\0\0\0\0\x7f\xff\xff\xff\0\0\0\0",
    ]
    .concat();
    let shared = format!("http: {{ connections: shared }}\n{LAST_THEN_NEXT}");
    for (name, steps) in [("own", LAST_THEN_NEXT), ("shared", &shared)] {
        closes_at_once(name, "2", &next.url(), answer.clone(), &open, steps);
    }
}

/// Ends a connection that has served a request when the next one arrives, as servers do whose limit of idleness runs out
/// at that moment.
fn ends_when_asked_again() -> Sockets {
    Sockets::start(|mut stream| {
        if read_head(&mut stream) {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
            let _ = stream.peek(&mut [0; 1]);
        }
    })
}

fn load(steps: &str) -> (Value, String) {
    let server = ends_when_asked_again();
    let bench = Bench::new();
    bench.load(
        &format!("http://{}", server.address),
        "",
        &format!("runner: {{ constant: {{ times: 4, concurrency: 1 }} }}\n{steps}"),
    );
    let ended = bench.run(&["run", "scenario.yaml"]).expect_code(0);
    (bench.results()["workloads"][0].clone(), ended.stdout)
}

#[test]
fn a_request_on_a_connection_that_was_idle_is_sent_once_more() {
    let step = |method: &str, pause: &str| {
        format!("iteration: [ {{ action: a, {method}: /x, timeout: 20s }}, {{ think: {pause} }} ]")
    };
    let idle = "600ms";
    for (steps, ok) in [
        (step("get", idle), true),
        (step("put", idle), true),
        (step("delete", idle), true),
        (format!("http: {{ connections: shared }}\n{}", step("get", idle)), true),
        // What may change something twice is not sent twice, and neither what was not idle.
        (step("post", idle), false),
        (step("patch", idle), false),
        (step("get", "1ms"), false),
        (format!("http: {{ resend: never }}\n{}", step("get", idle)), false),
    ] {
        // A busy machine may leave the connection idle for half a second in any case, so that is tried again.
        let tries = if steps.contains("1ms") { 4 } else { 1 };
        let mut loads = (0..tries).map(|_| load(&steps));
        let is_resent = |(_, said): &(Value, String)| said.contains("sent once more");
        let first = loads.next().unwrap();
        let seen = if is_resent(&first) == ok { Some(first) } else { loads.find(|one| is_resent(one) == ok) };
        let (workload, said) = seen.unwrap_or_else(|| panic!("{steps}: sent once more: {}", !ok));
        let (count, errors) = (&workload["iterations"]["ok"], workload["errors"].as_array().unwrap());
        assert_eq!(*count == 4, ok, "{steps}: {errors:?}");
        assert_eq!(
            said.contains("sent once more, because a connection that had been idle"),
            ok,
            "{steps}:\n{said}"
        );
        assert_eq!(workload["iterations"]["resent"].as_u64(), ok.then_some(3), "{steps}");
        assert_eq!(workload["actions"][0]["requests"]["resent"].as_u64(), ok.then_some(3), "{steps}");
        assert!(errors.iter().all(|error| error["class"] == "kept_alive_closed"), "{steps}: {errors:?}");
        assert_eq!(errors.is_empty(), ok, "{steps}");
    }
}

/// How many were sent once more is in every output, and can be bounded.
#[test]
fn what_was_sent_once_more_is_counted_wherever_figures_are() {
    let (server, bench) = (ends_when_asked_again(), Bench::new());
    bench.load(
        &format!("http://{}", server.address),
        "",
        "runner: { serial: { times: 4 } }\niteration: [ { action: a, get: /x, timeout: 20s }, { think: 600ms } ]\n\
         sla:\n  thresholds:\n    - count(resent) == 3\n    - count(resent action \"a\") <= 2\n    - rate(resent) < 50%\n    \
         - rate(errors) == 0%\n",
    );
    let ended = bench.run(&["run", "scenario.yaml", "--junit", "junit.xml"]).expect_code(2);
    assert!(ended.stdout.contains(", 3 resent a request"), "{}", ended.stdout);
    let results = bench.results();
    let outcomes: Vec<&str> = results["verdict"]["criteria"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(outcomes, ["PASS", "FAIL", "INCONCLUSIVE", "PASS"], "{}", results["verdict"]);
    let of = |name: &str| bench.run_directory().join(name);
    let rows = results["iterations"].as_array().unwrap();
    let resent: Vec<u64> =
        rows.iter().filter(|row| row["resent"] == true).map(|row| row["number"].as_u64().unwrap()).collect();
    assert_eq!(resent, [1, 2, 3]);
    assert!(std::fs::read_to_string(of("report.html")).unwrap().contains("3 resent a request"));
    assert!(
        std::fs::read_to_string(bench.path().join("junit.xml"))
            .unwrap()
            .contains("name=\"resent\" value=\"3\"")
    );
    for further in [&[][..], &["--actions"]] {
        let csv = bench.run(&[&["export", "latest", "--csv"], further].concat()).expect_code(0).stdout;
        let at = csv.lines().next().unwrap().split(',').position(|name| name.trim() == "resent").unwrap();
        let resent = |line: &str| line.split(',').nth(at).unwrap().trim().to_owned();
        assert_eq!(
            csv.lines().map(resent).collect::<Vec<_>>(),
            ["resent", "false", "true", "true", "true"],
            "{csv}"
        );
    }
}

/// A service that drops connections while it is used is not made green by sending again.
#[test]
fn a_service_that_closes_every_hundredth_request_fails() {
    let seen = rewind::counter();
    let server = Sockets::start(move |mut stream| {
        while read_head(&mut stream) && seen.fetch_add(1, Ordering::Relaxed) % 100 != 99 {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let bench = Bench::new();
    bench.load(
        &format!("http://{}", server.address),
        "",
        "runner: { serial: { times: 1000 } }\niteration: [ { action: a, get: /x, timeout: 20s } ]\n\
         sla: { failure_rate: { max: 0 } }\n",
    );
    let ended = bench.run(&["run", "scenario.yaml", "--no-probe"]).expect_code(2);
    let workload = bench.results()["workloads"][0].clone();
    let failed = workload["iterations"]["failed"].as_u64().unwrap();
    // On a machine that stops for half a second, a connection counts as idle.
    let resent = workload["iterations"]["resent"].as_u64().unwrap_or(0);
    assert!((10..=11).contains(&(failed + resent)) && failed >= 5, "{failed} failed, {resent} resent");
    for error in workload["errors"].as_array().unwrap() {
        assert!(["kept_alive_closed", "closed"].contains(&error["class"].as_str().unwrap()), "{error}");
    }
    assert!(ended.stdout.contains("FAIL · t"), "{}", ended.stdout);
}
