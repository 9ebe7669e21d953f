//! Faults of servers, networks and this machine during a load, and how the run reports them.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::rewind;
use crate::server::{After, ScriptedServer};
use crate::support::{Bench, CommandOutput};

const GET: &str = "iteration: [ { action: a, get: /x, timeout: 5s } ]";

fn ok() -> ScriptedServer {
    ScriptedServer::start(|_, wire| wire.answer("200 OK", "text/plain", "ok"))
}

/// A server on threads that lets the first connection be (it only looks whether somebody is there) and
/// does this to every other one.
pub(crate) struct Sockets {
    pub(crate) address: SocketAddr,
    stopping: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Sockets {
    pub(crate) fn start(act: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        Self::after(1, act)
    }

    /// The same, but it ignores the first `first` connections of a load.
    pub(crate) fn after(first: usize, act: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let stopping = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stopping);
        let connections = rewind::counter();
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let number = connections.fetch_add(1, Ordering::SeqCst);
                if let (true, Ok(stream)) = (number >= first, stream) {
                    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
                    act(stream);
                }
            }
        });
        Self { address, stopping, thread: Some(thread) }
    }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::SeqCst);
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.thread.take() {
            assert!(thread.join().is_ok() || std::thread::panicking());
        }
    }
}

/// Reads the head of a request.
pub(crate) fn read_head(stream: &mut TcpStream) {
    let (mut seen, mut buffer) = (Vec::new(), [0; 1024]);
    while memchr::memmem::find(&seen, b"\r\n\r\n").is_none() {
        match stream.read(&mut buffer) {
            Ok(read) if read > 0 => seen.extend_from_slice(&buffer[..read]),
            _ => return,
        }
    }
}

#[track_caller]
pub(crate) fn errors_of(url: &str, deployment: &str, scenario: &str) -> Vec<Value> {
    let bench = Bench::new();
    bench.load(url, deployment, scenario);
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let errors = bench.results()["workloads"][0]["errors"].clone();
    errors.as_array().unwrap().clone()
}

/// Every cut of an answer is an error of the same class, and never an answer.
#[test]
fn an_answer_cut_at_any_byte_is_a_closed_connection() {
    let answer: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n";
    let nth = rewind::counter();
    let server = Sockets::start(move |mut stream| {
        read_head(&mut stream);
        let cut = nth.fetch_add(1, Ordering::SeqCst);
        let _ = stream.write_all(&answer[..cut.min(answer.len())]);
    });
    let times = answer.len();
    let errors = errors_of(
        &format!("http://{}", server.address),
        "",
        &format!("runner: {{ serial: {{ times: {times} }} }}\n{GET}"),
    );
    let count: u64 = errors.iter().map(|error| error["count"].as_u64().unwrap()).sum();
    assert_eq!(count, times as u64, "{errors:?}");
    assert!(errors.iter().all(|error| error["class"] == "closed"), "{errors:?}");
}

#[test]
fn a_half_closed_connection_and_answers_in_pieces() {
    for (name, script, class) in [
        // The server has closed its side for good; nothing more can come.
        ("half closed before the answer", b"".as_slice(), Some("closed")),
        ("half closed in the head", b"HTTP/1.1 200 OK\r\n", Some("closed")),
        ("half closed in the body", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", Some("closed")),
        // That is how a body without a length ends.
        ("half closed behind the body", b"HTTP/1.1 200 OK\r\n\r\nabc", None),
    ] {
        let server = Sockets::start(move |mut stream| {
            read_head(&mut stream);
            for byte in script {
                let _ = stream.write_all(&[*byte]);
                std::thread::sleep(Duration::from_micros(300));
            }
            let _ = stream.shutdown(std::net::Shutdown::Write);
            // Open on this side until the client closes.
            let _ = stream.read(&mut [0; 10]);
        });
        let scenario = format!("runner: {{ serial: {{ times: 3 }} }}\n{GET}");
        let errors = errors_of(&format!("http://{}", server.address), "", &scenario);
        match class {
            Some(class) => assert_eq!(
                (&errors[0]["class"], &errors[0]["count"]),
                (&class.into(), &3.into()),
                "{name}: {errors:?}"
            ),
            None => assert!(errors.is_empty(), "{name}: {errors:?}"),
        }
    }
}

#[test]
fn what_stands_behind_an_answer_belongs_to_nobody() {
    // The surplus is a whole answer, which must not become that of the next request.
    let surplus = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    for (name, behind) in [
        ("an answer", format!("{surplus}HTTP/1.1 500 Bad\r\nContent-Length: 0\r\n\r\n")),
        ("garbage", format!("{surplus}\r\n\0\x01junk")),
    ] {
        let server = ScriptedServer::start(move |_, wire| {
            wire.send(&behind);
            After::Keep
        });
        for pause in ["", ", { think: 20ms }"] {
            let scenario = format!(
                "runner: {{ serial: {{ times: 4 }} }}\niteration: [ {{ action: a, get: /x }}{pause} ]"
            );
            let bench = Bench::new();
            bench.load(&server.url(), "", &scenario);
            bench.run(&["run", "scenario.yaml"]).expect_code(0);
            let workload = &bench.results()["workloads"][0];
            assert_eq!(workload["iterations"]["ok"], 4, "{name}: {}", workload["errors"]);
            assert_eq!(workload["actions"][0]["connections_opened"], 4, "{name}");
        }
    }
}

const EARLY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const REFUSAL: &[u8] = b"HTTP/1.1 500 Bad\r\nContent-Length: 0\r\n\r\n";

/// A service that answers 500, and has sent 200 before it was asked.
#[test]
fn what_a_server_says_before_it_is_asked_is_no_answer() {
    for http in ["", "connections: iteration", "connections: shared"] {
        let server = Sockets::after(0, |mut stream| {
            let _ = stream.write_all(EARLY);
            read_head(&mut stream);
            let _ = stream.write_all(REFUSAL);
        });
        let bench = Bench::new();
        let scenario = format!(
            "http: {{ {http} }}\nrunner: {{ serial: {{ times: 6 }} }}\n{GET}\nsla: {{ failure_rate: {{ max: 0 }} }}"
        );
        bench.load(&format!("http://{}", server.address), "", &scenario);
        bench.run(&["run", "scenario.yaml", "--no-probe"]).expect_code(2);
        let errors = &bench.results()["workloads"][0]["errors"];
        assert_eq!(
            (&errors[0]["class"], &errors[0]["count"]),
            (&"protocol".into(), &6.into()),
            "{http}: {errors}"
        );
        let message = errors[0]["message"].as_str().unwrap();
        assert!(message.contains("no request asked for, on a new connection"), "{message}");
        assert!(message.contains("HTTP/1.1 200 OK"), "{message}");
    }
}

/// What comes on a kept connection between two requests is no answer to the next one either. A 408 is how servers say
/// goodbye to an idle client.
#[test]
fn what_a_server_says_between_two_requests_is_a_fault() {
    for (said, faults) in
        [(REFUSAL, 2), (EARLY, 2), (b"\r\n", 2), (b"HTTP/1.1 408 Request Timeout\r\n\r\n", 0)]
    {
        let server = Sockets::start(move |mut stream| {
            read_head(&mut stream);
            let _ = stream.write_all(EARLY);
            std::thread::sleep(Duration::from_millis(30));
            let _ = stream.write_all(said);
            let _ = stream.read(&mut [0; 10]);
        });
        let scenario = "runner: { serial: { times: 4 } }\n\
             iteration: [ { action: a, get: /x, timeout: 5s }, { think: 300ms } ]";
        let errors = errors_of(&format!("http://{}", server.address), "", scenario);
        let count: u64 = errors.iter().map(|error| error["count"].as_u64().unwrap()).sum();
        assert_eq!(count, faults, "{said:?}: {errors:?}");
        for error in errors {
            assert_eq!(error["class"], "protocol", "{error}");
            assert!(
                error["message"].as_str().unwrap().contains("a connection that was kept alive"),
                "{error}"
            );
        }
    }
}

/// What a client must take, each with a check that only the right reading keeps.
#[test]
fn answers_that_clients_must_accept() {
    let length = "Content-Length: 2\r\n\r\nok";
    let hints = "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n".repeat(200);
    for (name, answer, expect) in [
        ("a fold", format!("HTTP/1.1 200 OK\r\nX-A: one\r\n two\r\n{length}"), "headers: { X-A: one two }"),
        (
            "a fold of tabs",
            format!("HTTP/1.1 200 OK\r\nX-A: one\r\n\t\ttwo\r\n{length}"),
            "headers: { X-A: one two }",
        ),
        ("a fold, not looked at", format!("HTTP/1.1 200 OK\r\nX-A: one\r\n two\r\n{length}"), "status: 200"),
        ("200 interim answers", format!("{hints}HTTP/1.1 200 OK\r\n{length}"), "body: ok"),
        (
            "a list in two lines",
            format!("HTTP/1.1 200 OK\r\nVary: A\r\nVary: B\r\n{length}"),
            "headers: { Vary: { equals: 'A, B' } }",
        ),
        (
            "the second of two lines",
            format!("HTTP/1.1 200 OK\r\nVary: A\r\nX: y\r\nvary: B\r\n{length}"),
            "headers: { Vary: { contains: B, not: { contains: C } } }",
        ),
    ] {
        let server = ScriptedServer::start(move |_, wire| {
            wire.send(&answer);
            After::Keep
        });
        let bench = Bench::new();
        let steps = format!("{{ action: a, get: /x, expect: {{ {expect} }} }}, {{ action: b, get: /x }}");
        bench.load(
            &server.url(),
            "",
            &format!("runner: {{ serial: {{ times: 2 }} }}\niteration: [ {steps} ]"),
        );
        bench.run(&["run", "scenario.yaml"]).expect_code(0);
        let workload = &bench.results()["workloads"][0];
        assert_eq!(workload["iterations"]["ok"], 2, "{name}: {}", workload["errors"]);
        assert_eq!(workload["actions"][0]["connections_opened"], 1, "{name}");
    }
    // The check for the absence of what only the second line has.
    let server = ScriptedServer::start(|_, wire| {
        wire.send("HTTP/1.1 200 OK\r\nCache-Control: private\r\nCache-Control: no-store\r\nContent-Length: 0\r\n\r\n");
        After::Keep
    });
    let scenario = "runner: { serial: { times: 2 } }\niteration: [ { action: a, get: /x, \
                    expect: { headers: { Cache-Control: { not: { contains: no-store } } } } } ]";
    let errors = errors_of(&server.url(), "", scenario);
    assert_eq!((&errors[0]["class"], &errors[0]["count"]), (&"check".into(), &2.into()), "{errors:?}");
}

/// Only an end of TLS ends a body that lasts until the end: otherwise somebody may have cut it off.
#[test]
fn a_body_that_tls_does_not_end_is_cut_off() {
    for (name, head, after, faults) in [
        ("its end is TLS's", "HTTP/1.1 200 OK\r\n\r\n", After::Close, 0),
        ("cut off", "HTTP/1.1 200 OK\r\n\r\n", After::Cut, 2),
        ("HTTP/1.0, cut off", "HTTP/1.0 200 OK\r\n\r\n", After::Cut, 2),
        ("another coding, cut off", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n", After::Cut, 2),
        // The connection is not used again, which the server ends at some moment.
        (
            "a length says its end",
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 4\r\n\r\n",
            After::Cut,
            0,
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let ca = folder.path().join("ca.pem");
        let server = ScriptedServer::tls(&ca, move |_, wire| {
            wire.send(head);
            wire.send("part");
            after
        });
        let deployment = format!("http: {{ version: 1.1 }}\ntls: {{ ca: \"{}\" }}", ca.display());
        let scenario = format!("runner: {{ serial: {{ times: 2 }} }}\n{GET}");
        let errors = errors_of(&server.url(), &deployment, &scenario);
        let count: u64 = errors.iter().map(|error| error["count"].as_u64().unwrap()).sum();
        assert_eq!(count, faults, "{name}: {errors:?}");
        assert!(errors.iter().all(|error| error["class"] == "closed"), "{name}: {errors:?}");
    }
}

/// What is beyond a limit of bench is no fault of the service: neither FAIL nor PASS rests on it.
#[test]
fn a_verdict_never_rests_on_a_limit_of_bench() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let many: String = (0..300).map(|n| format!("H{n}: v\r\n")).collect();
    let answer = |headers: &str, body: &str| {
        format!("HTTP/1.1 200 OK\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len())
    };
    let failing = |every: usize, odd: String| {
        let usual = answer("", "[1]");
        ScriptedServer::start(move |seen, wire| {
            wire.send(if seen.nth % every == 0 { &odd } else { &usual });
            After::Keep
        })
    };
    let slow = || {
        let odd = answer("", &"x".repeat(50));
        ScriptedServer::start(move |seen, wire| {
            wire.pause(Duration::from_millis(20));
            wire.send(if seen.nth % 10 == 0 {
                odd.as_str()
            } else {
                "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n[1]"
            });
            After::Keep
        })
    };
    let json = "expect: { json: { '$[0]': { exists: true } } }";
    for (name, server, step, sla, code) in [
        ("deep JSON", failing(1, answer("", &deep)), json, "failure_rate: { max: 0 }", 3),
        ("some deep JSON", failing(10, answer("", &deep)), json, "failure_rate: { max: 0 }", 3),
        ("some deep JSON", failing(10, answer("", &deep)), json, "failure_rate: { max: 20 }", 0),
        ("some deep JSON", failing(10, answer("", &deep)), json, "failure_rate: { min: 5 }", 3),
        ("some deep JSON", failing(10, answer("", &deep)), json, "thresholds: [ rate(errors) == 0 ]", 3),
        ("some deep JSON", failing(10, answer("", &deep)), json, "thresholds: [ p99 < 60s ]", 3),
        ("some deep JSON", failing(10, answer("", &deep)), json, "thresholds: [ max < 60s ]", 3),
        ("slow anyway", slow(), "max_body: 40B", "thresholds: [ p50 < 1ms ]", 2),
        ("too many headers", failing(1, answer(&many, "")), "timeout: 9s", "failure_rate: { max: 0 }", 3),
        (
            "too large a body",
            failing(5, answer("", &"x".repeat(50))),
            "max_body: 40B",
            "failure_rate: { max: 0 }",
            3,
        ),
        ("a wrong body", failing(5, answer("", "[]")), json, "failure_rate: { max: 0 }", 2),
    ] {
        let bench = Bench::new();
        let scenario = format!(
            "runner: {{ constant: {{ times: 60, concurrency: 1 }} }}\niteration: [ {{ action: a, get: /x, {step} }} ]\nsla: {{ {sla} }}"
        );
        bench.load(&server.url(), "", &scenario);
        let ended = bench.run(&["run", "scenario.yaml"]).expect_code(code);
        let results = bench.results();
        let criterion = &results["verdict"]["criteria"][0];
        if code == 3 {
            assert_eq!(criterion["outcome"], "INVALID", "{name}: {criterion}");
            assert!(ended.stdout.contains("a limit of bench"), "{name}: {}", ended.stdout);
        }
    }
}

#[test]
fn keep_alive_is_as_the_server_says() {
    for (name, head, opened) in [
        ("HTTP/1.1", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 1),
        ("HTTP/1.1, chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", 1),
        ("HTTP/1.1 closing", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", 4),
        ("HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 4),
        ("HTTP/1.0 keeping", "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok", 1),
        ("no content", "HTTP/1.1 204 No Content\r\n\r\n", 1),
        ("not modified", "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", 1),
        (
            "continue, hints",
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
            1,
        ),
    ] {
        let server = ScriptedServer::start(move |_, wire| {
            wire.send(head);
            After::Keep
        });
        let scenario = format!("runner: {{ serial: {{ times: 4 }} }}\n{GET}");
        let bench = Bench::new();
        bench.load(&server.url(), "", &scenario);
        bench.run(&["run", "scenario.yaml"]).expect_code(0);
        let workload = &bench.results()["workloads"][0];
        assert_eq!(workload["iterations"]["ok"], 4, "{name}: {}", workload["errors"]);
        assert_eq!(workload["actions"][0]["connections_opened"], opened, "{name}");
    }
}

#[test]
fn tls_that_fails_in_the_middle_of_a_load() {
    let fatal_alert = vec![21, 3, 3, 0, 2, 2, 40];
    let version_alert = vec![21, 3, 3, 0, 2, 2, 70];
    let mut random: Vec<u8> = (0..200_u8).map(|n| n.wrapping_mul(167)).collect();
    random[0] = 22;
    for (name, bytes, part) in [
        ("an alert", fatal_alert, "HandshakeFailure"),
        ("another alert", version_alert, "ProtocolVersion"),
        ("garbage", random, "TLS with"),
        ("HTTP", b"HTTP/1.1 400 Bad Request\r\n\r\n".to_vec(), "does that port speak TLS?"),
        ("an end", Vec::new(), "TLS with"),
    ] {
        let bench = Bench::new();
        let front = TlsFront::start(&bench.path().join("ca.pem"), bytes);
        bench.load(
            &format!("https://{}", front.sockets.address),
            "tls: { ca: ca.pem }",
            &format!("runner: {{ serial: {{ times: 3 }} }}\n{GET}"),
        );
        bench.run(&["run", "scenario.yaml"]).expect_code(0);
        let error = &bench.results()["workloads"][0]["errors"][0];
        assert_eq!((&error["class"], &error["count"]), (&"tls".into(), &3.into()), "{name}: {error}");
        assert!(error["message"].as_str().unwrap().contains(part), "{name}: {error}");
    }
}

/// The first two connections reach a good server, or so it seems to the check before the load.
struct TlsFront {
    sockets: Sockets,
}

impl TlsFront {
    fn start(ca: &std::path::Path, bytes: Vec<u8>) -> Self {
        let good = ScriptedServer::tls(ca, |_, wire| wire.answer("200 OK", "text/plain", "ok"));
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let stopping = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&stopping);
        let connections = rewind::counter();
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming() {
                let number = connections.fetch_add(1, Ordering::SeqCst);
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let mut stream = stream.unwrap();
                if number == 0 {
                    relay(stream, TcpStream::connect(good.address()).unwrap());
                } else {
                    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
                    let _ = stream.read(&mut [0; 2000]);
                    let _ = stream.write_all(&bytes);
                }
            }
        });
        Self { sockets: Sockets { address, stopping, thread: Some(thread) } }
    }
}

/// Both ways, until the client closes.
fn relay(client: TcpStream, server: TcpStream) {
    let (mut up, mut down) = ((client.try_clone().unwrap(), server.try_clone().unwrap()), (server, client));
    let upwards = std::thread::spawn(move || {
        let _ = std::io::copy(&mut up.0, &mut up.1);
        let _ = up.1.shutdown(std::net::Shutdown::Both);
    });
    let _ = std::io::copy(&mut down.0, &mut down.1);
    upwards.join().unwrap();
}

/// Runs `bench` until it ends, and gives the most memory that it held, in kB.
fn watch_memory(mut child: Child) -> (CommandOutput, u64) {
    let status = format!("/proc/{}/status", child.id());
    let mut most = 0;
    loop {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let peak = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        most = peak.and_then(|kb| kb.trim().trim_end_matches(" kB").parse().ok()).unwrap_or(0).max(most);
        if child.try_wait().unwrap().is_some() {
            return (CommandOutput::from(child.wait_with_output().unwrap()), most);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The peak of memory of a run against a server that sends a body of this many bytes.
fn memory_for(bytes: u64) -> u64 {
    let server = ScriptedServer::start(move |_, wire| {
        wire.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {bytes}\r\n\r\n"));
        let block = vec![b'x'; 1 << 20];
        for _ in 0..bytes >> 20 {
            if !wire.send(&block) {
                break;
            }
        }
        After::Keep
    });
    let bench = Bench::new();
    let scenario = "http: { max_body: 3GiB }\nrunner: { serial: { times: 1 } }\niteration: [ { action: a, get: /x, timeout: 5m } ]";
    bench.load(&server.url(), "", scenario);
    let mut command = bench.command(&["run", "scenario.yaml"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (ended, peak) = watch_memory(child);
    ended.expect_code(0);
    let workload = &bench.results()["workloads"][0];
    assert_eq!(workload["iterations"]["ok"], 1, "{}", workload["errors"]);
    assert_eq!(workload["actions"][0]["bytes_received"], bytes);
    peak
}

#[test]
fn a_body_of_two_gibibytes_is_counted_and_not_kept() {
    let (small, large) = (memory_for(1 << 20), memory_for(2 << 30));
    // A mebibyte for the connection, and what other things vary by.
    assert!(large < small + 4096, "{small} kB and {large} kB");
}

#[test]
fn a_target_that_restarts_is_an_error_while_it_is_gone_and_no_longer() {
    let server = ok();
    let address = server.address();
    let bench = Bench::new();
    let scenario = "runner: { constant_for_duration: { duration: 20, concurrency: 4 } }\niteration: [ { action: a, get: /x }, { think: 5ms } ]";
    bench.load(&server.url(), "", scenario);
    let child = bench
        .command(&["run", "scenario.yaml"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    server.wait_for(50);
    drop(server);
    // Long enough that the users notice that the peer is gone.
    std::thread::sleep(Duration::from_millis(500));
    let again = ScriptedServer::start_at(address, |_, wire| wire.answer("200 OK", "text/plain", "ok"));
    again.wait_for(50);
    signal(&child, "INT");
    CommandOutput::from(child.wait_with_output().unwrap()).expect_code(105);
    let results = bench.results();
    let workload = &results["workloads"][0];
    let errors = workload["errors"].as_array().unwrap();
    assert!(!errors.is_empty());
    for error in errors {
        let known = ["closed", "kept_alive_closed", "connect"];
        assert!(known.contains(&error["class"].as_str().unwrap()), "{error}");
    }
    assert!(errors.iter().any(|error| error["class"] == "connect"), "{errors:?}");
    assert!(workload["iterations"]["ok"].as_u64().unwrap() >= 80, "{}", workload["iterations"]);
    assert!(again.connections() <= 8, "{} connections", again.connections());
}

fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    assert!(std::process::Command::new("kill").args(["-s", name, &id]).status().unwrap().success());
}

/// In a separate network namespace with few ports.
#[test]
fn a_machine_out_of_ports_is_not_the_services_fault() {
    let works = std::process::Command::new("unshare")
        .args([
            "-rn",
            "sh",
            "-c",
            "ip link set lo up && echo 40000 40020 > /proc/sys/net/ipv4/ip_local_port_range",
        ])
        .output();
    if !works.is_ok_and(|output| output.status.success()) {
        println!("skipped: no network namespace can be made here (unshare -rn)");
        return;
    }
    let bench = Bench::new();
    bench.write("deployment.yaml", "demo: {}\n");
    bench.write(
        "scenario.yaml",
        "title: t\ndeployment: deployment.yaml\nprofile: false\nrunner: { rps: { rps: 1000, times: 60, max_concurrency: 60 } }\niteration: [ { action: a, get: /, expect: { status: [2xx, 4xx] } }, { think: 500ms } ]\n",
    );
    let script = format!(
        "ip link set lo up && echo 40000 40020 > /proc/sys/net/ipv4/ip_local_port_range && exec '{}' run scenario.yaml",
        env!("CARGO_BIN_EXE_bench")
    );
    let mut command = std::process::Command::new("unshare");
    command.current_dir(bench.path()).args(["-rn", "sh", "-c", &script]).env("NO_COLOR", "1");
    CommandOutput::from(command.output().unwrap()).expect_code(0);
    let workload = &bench.results()["workloads"][0];
    let error = &workload["errors"][0];
    assert_eq!(error["class"], "client", "{error}");
    assert!(error["message"].as_str().unwrap().contains("ip_local_port_range"), "{error}");
    assert!(workload["iterations"]["ok"].as_u64().unwrap() > 0, "{workload}");
}

/// A server that takes no connection any more: neither a refusal nor an answer.
#[test]
fn a_server_that_no_longer_accepts_times_out() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let address = socket.local_addr().unwrap().as_socket().unwrap();
    // Fills the queue of connections that are never accepted.
    let queued: Vec<_> =
        (0..2).map(|_| TcpStream::connect_timeout(&address, Duration::from_millis(200))).collect();
    let bench = Bench::new();
    bench.load(&format!("http://{address}"), "", &format!("runner: {{ serial: {{ times: 1 }} }}\n{GET}"));
    let started = Instant::now();
    let ended = bench.run(&["run", "scenario.yaml"]);
    drop(queued);
    assert!(started.elapsed() < Duration::from_secs(60));
    if ended.code == Some(69) {
        assert!(ended.stderr.contains("no answer within 5 s"), "{}", ended.stderr);
    } else {
        // Some kernels take one more into the queue: then the request has no answer.
        assert_eq!(bench.results()["workloads"][0]["errors"][0]["class"], "timeout", "{ended:?}");
    }
}
