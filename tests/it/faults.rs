//! Faults of services, networks and files during a load, and how the run reports them.

use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::server::{After, ScriptedRequest, ScriptedServer, Wire};
use crate::support::{Bench, CommandOutput};

/// Longer than any of these runs may take, on a busy machine too.
const PATIENCE: Duration = Duration::from_secs(60);

const GET: &str = "iteration: [ { action: a, get: /x, timeout: 20s } ]";

/// What is expected of a run of two iterations.
enum RunExpectation {
    /// Both pass.
    Pass,
    /// Both fail with this class and this text in the message.
    Fail(&'static str, &'static str),
}
use RunExpectation::{Fail, Pass};

/// Runs two iterations one after another against `server`, and gives the results.
#[track_caller]
fn check(name: &str, server: &ScriptedServer, iteration: &str, expected: &RunExpectation) -> Value {
    let bench = Bench::new();
    bench.load(&server.url(), "", &format!("runner: {{ serial: {{ times: 2 }} }}\n{iteration}"));
    let ended = timed_run(&bench, &["run", "scenario.yaml"]).expect_code(0);
    let results = bench.results();
    let workload = &results["workloads"][0];
    let shown = format!("{name}: {}\n{}", workload["errors"], ended.stderr);
    match expected {
        Pass => {
            assert_eq!(workload["iterations"]["ok"], 2, "{shown}");
            assert_eq!(workload["errors"], serde_json::json!([]), "{shown}");
        }
        Fail(class, fragment) => {
            assert_eq!(workload["iterations"]["failed"], 2, "{shown}");
            assert_eq!(workload["errors"][0]["class"], *class, "{shown}");
            assert_eq!(workload["errors"][0]["action"], "a", "{shown}");
            let message = workload["errors"][0]["message"].as_str().unwrap();
            assert!(message.contains(fragment), "{shown}");
            for row in results["iterations"].as_array().unwrap() {
                assert_eq!((&row["outcome"], &row["error"]), (&"failed".into(), &(*class).into()), "{shown}");
            }
        }
    }
    assert_eq!(workload["iterations"]["total"], 2, "{shown}");
    assert_eq!(workload["actions"][0]["requests"]["total"], 2, "{shown}");
    results
}

#[track_caller]
fn timed_run(bench: &Bench, arguments: &[&str]) -> CommandOutput {
    let started = Instant::now();
    let ended = bench.run(arguments);
    assert!(started.elapsed() < PATIENCE, "took {:?}", started.elapsed());
    ended
}

/// A script that sends these bytes and does that with the connection.
fn raw(bytes: impl Into<Vec<u8>>, after: After) -> ScriptedServer {
    let bytes = bytes.into();
    ScriptedServer::start(move |_, wire| {
        wire.send(&bytes);
        after
    })
}

#[test]
fn what_ends_a_connection_is_told_apart() {
    let whole = "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n12345";
    let chunks = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";
    for (name, server, expected) in [
        ("closed at once", raw("", After::Close), Fail("closed", "before the answer")),
        ("reset at once", raw("", After::Reset), Fail("closed", "before the answer")),
        (
            "closed in the status line",
            raw("HTTP/1.1 20", After::Close),
            Fail("closed", "in the middle of the answer"),
        ),
        (
            "closed in the headers",
            raw("HTTP/1.1 200 OK\r\nA: b", After::Close),
            Fail("closed", "in the middle of the answer"),
        ),
        ("closed in the body", raw(whole, After::Close), Fail("closed", "in the middle of the answer")),
        ("closed in the chunks", raw(chunks, After::Close), Fail("closed", "in the middle of the answer")),
        ("reset in the chunks", slow_reset(), Fail("closed", "in the middle of the answer")),
    ] {
        check(name, &server, GET, &expected);
    }
}

/// Resets the connection when the client has had time to read the beginning of the answer.
fn slow_reset() -> ScriptedServer {
    ScriptedServer::start(|_, wire| {
        wire.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
        wire.pause(Duration::from_millis(200));
        After::Reset
    })
}

#[test]
fn what_is_not_http_is_a_protocol_fault() {
    let many_headers: String = (0..300).map(|n| format!("H{n}: v\r\n")).collect();
    for (name, server) in [
        ("garbage", raw("\0\x01\x02 hello\r\n\r\n", After::Close)),
        ("another protocol", raw("SSH-2.0-OpenSSH_9.6\r\n", After::Close)),
        ("an odd version", raw("HTTP/9.9 200 OK\r\n\r\n", After::Close)),
        ("a status of letters", raw("HTTP/1.1 abc OK\r\n\r\n", After::Close)),
        (
            "two lengths",
            raw("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", After::Close),
        ),
        ("a length of letters", raw("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", After::Close)),
        (
            "a bad chunk size",
            raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n", After::Close),
        ),
        (
            "a chunk without its end",
            raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhello\r\n0\r\n\r\n", After::Close),
        ),
    ] {
        check(name, &server, GET, &Fail("protocol", "not valid HTTP"));
    }
    for (name, server) in [
        ("300 headers", raw(format!("HTTP/1.1 200 OK\r\n{many_headers}\r\n"), After::Close)),
        ("endless headers", endless(b"HTTP/1.1 200 OK\r\n", b"X-Header: value value value value\r\n")),
        ("an endless header", endless(b"HTTP/1.1 200 OK\r\nX-Header: ", b"value value value value ")),
    ] {
        check(name, &server, GET, &Fail("client", "a limit of bench"));
    }
}

/// Sends `start`, then `again` for ever.
fn endless(start: &'static [u8], again: &'static [u8]) -> ScriptedServer {
    ScriptedServer::start(move |_, wire| {
        wire.send(start);
        let block = again.repeat(1000);
        while wire.send(&block) {}
        After::Close
    })
}

#[test]
fn unusual_but_valid_answers_pass() {
    let trailers =
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: T\r\n\r\n2\r\n{}\r\n0\r\nT: v\r\n\r\n";
    let provisional = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}";
    let head = "iteration: [ { action: a, head: /x } ]";
    let post = "iteration: [ { action: a, post: /x, json: { a: [1, \"ü\"] } } ]";
    for (name, server, iteration) in [
        ("no content", raw("HTTP/1.1 204 No Content\r\n\r\n", After::Keep), GET),
        (
            "not modified, with a length",
            raw("HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n", After::Keep),
            GET,
        ),
        (
            "head, with a length above the limit",
            raw("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", After::Keep),
            head,
        ),
        ("trailers", raw(trailers, After::Keep), GET),
        ("provisional answers", raw(provisional, After::Keep), GET),
        ("a body until the end", raw("HTTP/1.1 200 OK\r\n\r\n{}", After::Close), GET),
        ("HTTP/1.0", raw("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", After::Close), GET),
        ("an empty reason", raw("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n", After::Keep), GET),
        ("a post", raw("HTTP/1.1 201 Created\r\nContent-Length: 0\r\n\r\n", After::Keep), post),
        ("byte by byte", trickling(), GET),
        (
            "a large header",
            raw(
                format!("HTTP/1.1 200 OK\r\nX: {}\r\nContent-Length: 0\r\n\r\n", "v".repeat(100_000)),
                After::Keep,
            ),
            GET,
        ),
        (
            "a header that is not UTF-8",
            raw(b"HTTP/1.1 200 \xff\xfe\r\nX: \xff\r\nContent-Length: 0\r\n\r\n".to_vec(), After::Keep),
            GET,
        ),
    ] {
        check(name, &server, iteration, &Pass);
    }
}

fn trickling() -> ScriptedServer {
    ScriptedServer::start(|_, wire| {
        for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello" {
            wire.send([*byte]);
            wire.pause(Duration::from_millis(1));
        }
        After::Keep
    })
}

/// Answers 200 with this content type and body.
fn answering(content_type: &'static str, body: &'static [u8]) -> ScriptedServer {
    ScriptedServer::start(move |_: &ScriptedRequest, wire: &mut Wire<'_>| {
        wire.answer("200 OK", content_type, body)
    })
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn answers_that_are_not_what_the_scenario_expects() {
    let extract = "iteration: [ { action: a, get: /x, extract: { id: { json: $.id } } } ]";
    let expect = |what: &str| format!("iteration: [ {{ action: a, get: /x, expect: {what} }} ]");
    let json = || answering("application/json", br#"{"id": 1, "name": "n"}"#);
    for (name, server, iteration, expected) in [
        (
            "HTML for JSON",
            answering("text/html", b"<html>"),
            extract.to_owned(),
            Fail("extract", "not JSON (content type: text/html)"),
        ),
        (
            "nothing for JSON",
            answering("application/json", b""),
            extract.to_owned(),
            Fail("extract", "not JSON"),
        ),
        (
            "half a document",
            answering("application/json", b"{\"id\":"),
            extract.to_owned(),
            Fail("extract", "not JSON"),
        ),
        (
            "no UTF-8 for JSON",
            answering("application/json", b"{\"id\": \"\xff\xfe\"}"),
            extract.to_owned(),
            Fail("extract", "not JSON"),
        ),
        (
            "JSON with nothing to extract",
            answering("application/json", b"{}"),
            extract.to_owned(),
            Fail("extract", "cannot extract id: nothing at $.id"),
        ),
        (
            "deep JSON",
            ScriptedServer::start(|_, wire| wire.answer("200 OK", "application/json", "[".repeat(1_000_000))),
            extract.to_owned(),
            Fail("client", "the JSON has more than 127 levels"),
        ),
        (
            "gzip that nobody asked for",
            ScriptedServer::start(|_, wire| {
                wire.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\x00");
                After::Keep
            }),
            extract.to_owned(),
            Fail("protocol", "content encoding: gzip"),
        ),
        (
            "JSON under another content type",
            answering("text/plain", b"{\"id\": 1}"),
            extract.to_owned(),
            Pass,
        ),
        (
            "no UTF-8, looked for text",
            answering("text/plain", b"caf\xe9 ok"),
            expect("{ body: { contains: ok } }"),
            Pass,
        ),
        (
            "no UTF-8, looked for absent text",
            answering("text/plain", b"caf\xe9"),
            expect("{ body: { contains: ok } }"),
            Fail("check", "the body does not contain `ok`"),
        ),
        (
            "a header that is absent",
            json(),
            "iteration: [ { action: a, get: /x, extract: { t: { header: X-T } } } ]".to_owned(),
            Fail("extract", "nothing at the header x-t"),
        ),
        (
            "a regex that finds nothing",
            json(),
            "iteration: [ { action: a, get: /x, extract: { t: { regex: 'z(.)' } } } ]".to_owned(),
            Fail("extract", "nothing at a match of"),
        ),
        (
            "a default for what is absent",
            answering("text/html", b"<html>"),
            "iteration: [ { action: a, get: /x, extract: { t: { json: $.t, default: 5 } } } ]".to_owned(),
            Pass,
        ),
        ("another status", json(), expect("{ status: 201 }"), Fail("status", "answered 200, expected 201")),
        (
            "a value that differs",
            json(),
            expect("{ json: { $.name: m } }"),
            Fail("check", "$.name is not `\"m\"`"),
        ),
        (
            "an answer that is too slow",
            ScriptedServer::answering_after(Duration::from_millis(100)),
            expect("{ latency: 10ms }"),
            Fail("latency", "slower than 10.0 ms"),
        ),
        (
            "a fault of the service",
            ScriptedServer::start(|_, wire| wire.answer("503 Busy", "text/plain", "later")),
            GET.to_owned(),
            Fail("status", "answered 503"),
        ),
    ] {
        check(name, &server, &iteration, &expected);
    }
}

#[test]
fn a_template_that_cannot_be_filled_in_fails_its_iteration_and_sends_nothing() {
    let (server, bench) = (answering("application/json", b"{}"), Bench::new());
    let iteration = "iteration: [ { action: a, get: '/x?n={{ 1 // 0 }}' } ]";
    bench.load(&server.url(), "", &format!("runner: {{ serial: {{ times: 2 }} }}\n{iteration}"));
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let results = bench.results();
    assert_eq!(results["workloads"][0]["errors"][0]["class"], "template");
    assert_eq!(results["workloads"][0]["iterations"]["failed"], 2);
    assert_eq!(results["workloads"][0]["actions"][0]["requests"]["total"], 0);
    assert!(server.seen().is_empty());
}

#[test]
fn a_body_over_the_limit_is_cut_off_without_being_read() {
    let sent = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let counter = std::sync::Arc::clone(&sent);
    let announced = ScriptedServer::start(move |_, wire| {
        wire.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", 3_u64 << 30));
        let block = [b'x'; 1 << 16];
        while wire.send(block) {
            counter.fetch_add(1 << 16, std::sync::atomic::Ordering::Relaxed);
        }
        After::Close
    });
    check("announced", &announced, GET, &Fail("body_limit", "larger than 67108864 bytes"));
    // Two requests, and what the kernel's buffers took.
    assert!(sent.load(std::sync::atomic::Ordering::Relaxed) < 64 << 20);
    let chunked = endless_chunks();
    let results = check("chunked", &chunked, GET, &Fail("body_limit", "larger than 67108864 bytes"));
    assert_eq!(results["workloads"][0]["actions"][0]["connections_opened"], 2);
}

fn endless_chunks() -> ScriptedServer {
    ScriptedServer::start(|_, wire| {
        wire.send("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let block = [b"10000\r\n".as_slice(), &[b'x'; 0x10000], b"\r\n"].concat();
        while wire.send(&block) {}
        After::Close
    })
}

#[test]
fn servers_that_answer_before_they_have_read_the_request() {
    // 8 MB fit into no socket buffer of a default size.
    let iteration = "variables: { big: 1 }\niteration: [ { action: a, post: /x, body: \"{{ 'xxxxxxxx' * 1 }}{% for i in range(8000) %}{{ 'x' * 1000 }}{% endfor %}\", timeout: 5s } ]";
    let early = ScriptedServer::deaf(|_, wire| {
        wire.answer("413 Too Large", "text/plain", "no");
        wire.pause(Duration::from_millis(300));
        After::Close
    });
    check("answers, then closes", &early, iteration, &Fail("status", "answered 413"));
    let resets = ScriptedServer::deaf(|_, _| After::Reset);
    check("resets", &resets, iteration, &Fail("closed", "before the answer"));
}

#[test]
fn timeouts_of_action_iteration_and_run() {
    let silent = raw("", After::Hang);
    let action = "iteration: [ { action: a, get: /x, timeout: 200ms } ]";
    let results = check("action", &silent, action, &Fail("timeout", "timed out after 200 ms"));
    let slowest = results["workloads"][0]["actions"][0]["service_time"]["min_ms"].as_f64().unwrap();
    assert!(slowest >= 199.0, "a request that times out counts with the time it took: {slowest}");
    check(
        "half an answer",
        &raw("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", After::Hang),
        action,
        &Fail("timeout", "timed out"),
    );
    check("an endless answer", &dripping(), action, &Fail("timeout", "timed out"));

    let bench = Bench::new();
    bench.load(
        &silent.url(),
        "",
        &format!("runner: {{ constant: {{ times: 4, concurrency: 2, timeout: 0.2 }} }}\n{GET}"),
    );
    timed_run(&bench, &["run", "scenario.yaml"]).expect_code(0);
    let results = bench.results();
    let workload = &results["workloads"][0];
    assert_eq!(
        workload["iterations"],
        serde_json::json!({"total": 4, "ok": 0, "failed": 4, "aborted": 0, "dropped": 0 })
    );
    assert_eq!(workload["actions"][0]["requests"], workload["iterations"]);
    assert_eq!(workload["actions"][0]["connections_opened"], 4);
    assert_eq!(workload["errors"][0]["class"], "timeout");
    assert_eq!(workload["errors"][0]["action"], "a");
    assert_eq!(workload["errors"][0]["message"], "the iteration took longer than 200 ms");

    let bench = Bench::new();
    let limits = "timeout: 300ms\ngraceful_stop: 200ms";
    bench.load(&silent.url(), "", &format!("{limits}\nrunner: {{ constant: {{ times: 100, concurrency: 3 }} }}\n{GET}\nteardown: [ {{ action: t, get: /t, timeout: 100ms }} ]"));
    timed_run(&bench, &["run", "scenario.yaml"]).expect_code(1);
    let results = bench.results();
    assert_eq!(results["run"]["status"], "timed_out");
    let workload = &results["workloads"][0];
    assert_eq!(
        workload["iterations"],
        serde_json::json!({"total": 3, "ok": 0, "failed": 0, "aborted": 3, "dropped": 0 })
    );
    assert_eq!(workload["actions"][0]["requests"], workload["iterations"]);
    assert_eq!(silent.count("/t"), 1, "teardown runs after the time limit too");
}

/// Sends a byte of an endless body now and then.
fn dripping() -> ScriptedServer {
    ScriptedServer::start(|_, wire| {
        wire.send("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n");
        while wire.pause(Duration::from_millis(20)) && wire.send("x") {}
        After::Close
    })
}

#[test]
fn a_connection_that_the_server_closes_between_requests_is_opened_again() {
    // Closed after each answer without a word, while the user thinks.
    let server = ScriptedServer::start(|_, wire| {
        wire.answer("200 OK", "text/plain", "ok");
        After::Close
    });
    let steps = "iteration: [ { action: a, get: /a }, { think: 50ms }, { action: b, get: /b } ]";
    let bench = Bench::new();
    bench.load(
        &server.url(),
        "",
        &format!("runner: {{ constant: {{ times: 20, concurrency: 4 }} }}\n{steps}"),
    );
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let results = bench.results();
    let workload = &results["workloads"][0];
    assert_eq!(
        workload["errors"].as_array().unwrap().iter().filter(|error| error["action"] == "b").count(),
        0
    );
    assert_eq!(workload["actions"][1]["connections_opened"], workload["actions"][1]["requests"]["total"]);

    // Closed after the second request has arrived: a fault of that request, and it says why.
    let server = ScriptedServer::start(|seen, wire| {
        if seen.path == "/b" && seen.nth_of_connection == 1 {
            return After::Close;
        }
        wire.answer("200 OK", "text/plain", "ok")
    });
    let bench = Bench::new();
    // A busy machine may leave the connection idle for long, and then the request would be sent once more.
    let never = "http: { resend: never }";
    bench.load(&server.url(), "", &format!("{never}\nrunner: {{ serial: {{ times: 2 }} }}\n{steps}"));
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let results = bench.results();
    let error = &results["workloads"][0]["errors"][0];
    assert_eq!(
        (&error["class"], &error["action"], &error["count"]),
        (&"kept_alive_closed".into(), &"b".into(), &2.into())
    );
    assert!(error["message"].as_str().unwrap().contains("on a connection that was kept alive"), "{error}");
    assert_eq!(server.count("/b"), 2, "nothing is sent twice");
}

#[test]
fn connections_are_reused_and_counted() {
    let server = answering("text/plain", b"ok");
    let bench = Bench::new();
    bench.load(&server.url(), "", &format!("runner: {{ constant: {{ times: 30, concurrency: 3 }} }}\n{GET}"));
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let results = bench.results();
    assert_eq!(results["workloads"][0]["iterations"]["ok"], 30);
    // One for each virtual user; on a busy machine the others may be done before the last one begins.
    let opened = server.connections();
    assert!((1..=3).contains(&opened), "{opened}");
    assert_eq!(results["workloads"][0]["actions"][0]["connections_opened"], opened);
}

#[test]
fn hosts_that_do_not_answer_end_the_run_before_the_load() {
    let nobody = {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        format!("http://{}", listener.local_addr().unwrap())
    };
    for (url, fragment) in [
        (nobody.as_str(), "connection refused; is the service running there?"),
        ("http://host.invalid:80", "cannot resolve host.invalid"),
    ] {
        let bench = Bench::new();
        bench.load(url, "", &format!("runner: {{ serial: {{ times: 2 }} }}\n{GET}"));
        let ended = timed_run(&bench, &["run", "scenario.yaml"]).expect_code(69);
        assert!(ended.stderr.contains(fragment), "{}", ended.stderr);
        assert_eq!(std::fs::read_dir(bench.path().join("runs")).unwrap().count(), 0, "nothing ran");
    }
}

#[test]
fn tls_is_verified_unless_told_otherwise() {
    let bench = Bench::new();
    let server = ScriptedServer::tls(&bench.path().join("ca.pem"), |_, wire| {
        wire.answer("200 OK", "text/plain", "ok")
    });
    let scenario = format!("runner: {{ serial: {{ times: 2 }} }}\n{GET}");
    bench.write("other.pem", stranger());
    for (tls, fragment) in
        [("tls: { ca: other.pem }", "TLS with 127.0.0.1"), ("tls: { ca: absent.pem }", "absent.pem")]
    {
        bench.load(&server.url(), tls, &scenario);
        let ended = timed_run(&bench, &["run", "scenario.yaml"]);
        assert!(matches!(ended.code, Some(65 | 69)), "{ended:?}");
        assert!(ended.stderr.contains(fragment), "{}", ended.stderr);
    }
    for (tls, verified) in [("tls: { ca: ca.pem }", true), ("tls: { verify: false }", false)] {
        let _ = std::fs::remove_dir_all(bench.path().join("runs"));
        bench.load(&server.url(), tls, &scenario);
        timed_run(&bench, &["run", "scenario.yaml"]).expect_code(0);
        let results = bench.results();
        assert_eq!(results["workloads"][0]["iterations"]["ok"], 2);
        assert_eq!(results["deployment"]["tls_verified"], verified);
        assert_eq!(results["workloads"][0]["actions"][0]["connections_opened"], 1, "TLS is kept alive too");
        assert!(results["workloads"][0]["actions"][0]["phases"]["tls_ms"].as_f64().unwrap() > 0.0);
    }
}

#[test]
fn a_server_that_wants_a_certificate_and_keys_that_do_not_fit_are_told() {
    for version in [&rustls::version::TLS13, &rustls::version::TLS12] {
        let bench = Bench::new();
        let (server, certificate, key) =
            ScriptedServer::tls_that_asks(bench.path(), &[version], |_, wire| {
                wire.answer("200 OK", "text/plain", "ok")
            });
        let other = rcgen::KeyPair::generate().unwrap().serialize_pem();
        bench.write("client.pem", certificate);
        bench.write("client.key", &key);
        bench.write("other.key", other);
        bench.write("locked.key", key.replace("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"));
        bench.write("empty.key", "");
        let scenario = format!("runner: {{ serial: {{ times: 2 }} }}\n{GET}");
        let identity = |key: &str| format!("tls: {{ ca: ca.pem, cert: client.pem, key: {key} }}");
        for (tls, code, parts) in [
            (identity("client.key"), 0, &[][..]),
            // Before the load.
            ("tls: { ca: ca.pem }".to_owned(), 69, &["client certificate", "`tls: { cert, key }`"]),
            (identity("other.key"), 65, &["other.key", "is not that of the first certificate of"]),
            (identity("locked.key"), 65, &["locked.key", "the key is encrypted", "openssl pkey -in FILE"]),
            (identity("empty.key"), 65, &["empty.key", "it is empty"]),
        ] {
            bench.load(&server.url(), &tls, &scenario);
            let ended = timed_run(&bench, &["run", "scenario.yaml"]).expect_code(code);
            for part in parts {
                assert!(ended.stderr.contains(part), "{version:?} {tls}: {part}: {}", ended.stderr);
            }
        }
    }
}

#[test]
fn tls_that_fails_names_the_remedy() {
    let bench = Bench::new();
    let server = ScriptedServer::tls(&bench.path().join("ca.pem"), |_, wire| {
        wire.answer("200 OK", "text/plain", "ok")
    });
    bench.write("other.pem", stranger());
    bench.load(
        &server.url(),
        "tls: { ca: other.pem }",
        &format!("runner: {{ serial: {{ times: 2 }} }}\n{GET}"),
    );
    let ended = timed_run(&bench, &["run", "scenario.yaml"]).expect_code(69);
    assert!(ended.stderr.contains("tls.ca"), "{}", ended.stderr);
    // And a server that does not speak TLS at all.
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let plain = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        std::io::Write::write_all(&mut stream, b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    bench.load(&url, "tls: { verify: false }", &format!("runner: {{ serial: {{ times: 2 }} }}\n{GET}"));
    let ended = timed_run(&bench, &["run", "scenario.yaml"]).expect_code(69);
    plain.join().unwrap();
    assert!(ended.stderr.contains("does that port speak TLS?"), "{}", ended.stderr);
}

#[test]
fn setup_that_fails_ends_the_run_and_what_was_made_is_taken_down() {
    let server = ScriptedServer::start(|seen, wire| match seen.path.as_str() {
        "/make/2" => wire.answer("500 Oops", "text/plain", "no"),
        _ => wire.answer("200 OK", "application/json", "{\"id\": 7}"),
    });
    let bench = Bench::new();
    let scenario = "runner: { serial: { times: 2 } }
setup:
  - { action: one, post: /make/1, extract: { one: { json: $.id } } }
  - { action: two, post: /make/2, extract: { two: { json: $.id } } }
iteration: [ { action: a, get: '/x/{{ one }}' } ]
teardown:
  - { action: undo two, delete: '/made/{{ two }}' }
  - { action: undo one, delete: '/made/{{ one }}' }";
    bench.load(&server.url(), "", scenario);
    bench.run(&["run", "scenario.yaml"]).expect_code(1);
    let results = bench.results();
    assert_eq!(results["run"]["status"], "failed");
    assert_eq!(results["run"]["error"], "setup failed: two: answered 500; the body: no");
    assert_eq!(results["workloads"][0]["iterations"]["total"], 0);
    assert_eq!(server.count("/made/7"), 1, "the first is taken down though the second was never made");
    assert!(results["notes"].to_string().contains("teardown failed: undo two"), "{}", results["notes"]);
}

#[test]
fn a_run_without_samples_has_no_valid_verdict() {
    let server = answering("text/plain", b"ok");
    let bench = Bench::new();
    let scenario = format!(
        "runner: {{ constant_for_duration: {{ duration: 0.001, concurrency: 1 }} }}\n{GET}\nsla: {{ failure_rate: {{ max: 0 }} }}"
    );
    bench.load(&server.url(), "", &scenario);
    let ended = bench.run(&["run", "scenario.yaml"]);
    assert!(matches!(ended.code, Some(0 | 3)), "{ended:?}");
    let total = &bench.results()["workloads"][0]["iterations"]["total"];
    assert_eq!(ended.code == Some(3), total == 0, "{ended:?}");
}

#[test]
fn a_machine_out_of_descriptors_is_not_the_services_fault() {
    let server = ScriptedServer::answering_after(Duration::from_millis(300));
    let bench = Bench::new();
    bench.load(
        &server.url(),
        "",
        // A concurrency of 200 would be refused; this one may need fewer, and finds out.
        &format!("runner: {{ rps: {{ rps: 10000, times: 200, max_concurrency: 200 }} }}\n{GET}"),
    );
    let binary = env!("CARGO_BIN_EXE_bench");
    let mut limited = std::process::Command::new("sh");
    limited
        .current_dir(bench.path())
        .arg("-c")
        .arg(format!("ulimit -n 64; exec '{binary}' run scenario.yaml"));
    CommandOutput::from(limited.output().unwrap()).expect_code(0);
    let results = bench.results();
    let error = &results["workloads"][0]["errors"][0];
    assert_eq!(error["class"], "client", "{error}");
    assert!(error["message"].as_str().unwrap().contains("ulimit -n"), "{error}");
    assert_eq!(results["workloads"][0]["iterations"]["total"], 200);
}

/// The client asks the system, not only its own runtime, which may not have heard yet.
#[test]
fn an_end_that_only_the_system_knows_of_is_noticed_before_anything_is_sent() {
    use bench::client::guard::Guard;
    use bench::client::options::{BODY_BYTES_MAX, HttpOptions, Settings, Version};
    use bench::client::pool::Pool;
    use bench::client::{Request, headers::HeaderBlock, tls, url::BaseUrl};
    use bench::measure::phases::Phases;

    let folder = tempfile::tempdir().unwrap();
    let closes = |farewell: &'static str| {
        move |_: &ScriptedRequest, wire: &mut Wire<'_>| {
            wire.answer("200 OK", "text/plain", "ok");
            wire.send(farewell);
            After::Close
        }
    };
    let ca = folder.path().join("ca.pem");
    for server in [
        ScriptedServer::start(closes("")),
        ScriptedServer::start(closes("HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")),
        ScriptedServer::tls(&ca, closes("")),
    ] {
        let options = tls::TlsOptions { verify: false, ca: None, identity: None };
        let mut pool = Pool::new(&Settings::new(
            &tls::config(&options, false).unwrap(),
            HttpOptions { guard: Guard::unrestricted(), ..HttpOptions::default() },
        ));
        let base = BaseUrl::parse(&server.url()).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            for path in ["/1", "/2", "/3"] {
                let mut phases = Phases::default();
                let request = Request {
                    method: &http::Method::GET,
                    origin: &base.origin,
                    path,
                    fixed: &HeaderBlock::default(),
                    own: &HeaderBlock::default(),
                    body: &bench::client::body::BodyContent::EMPTY,
                    started: std::time::Instant::now(),
                    redirects_max: 0,
                    body_bytes_max: BODY_BYTES_MAX,
                    cookies: None,
                    keep_headers: false,
                    keep_body: true,
                    keep_trailers: false,
                    reader: None,
                    version: Version::Auto,
                    is_refused: &|_| false,
                };
                let answer = pool.send(&request, &mut phases).await.unwrap();
                assert_eq!(answer.body, b"ok");
                assert!(phases.opened, "{path} needs its own connection");
                // Keeps the runtime from hearing of the end.
                std::thread::sleep(Duration::from_millis(100));
            }
        });
        assert_eq!(server.seen().len(), 3);
    }
}

/// A limit on the size of files replaces a full disk.
#[test]
fn a_log_that_cannot_be_written_ends_the_run_and_leaves_no_half_a_file() {
    let server = answering("application/json", b"{}");
    let bench = Bench::new();
    let runner = "runner: { constant: { times: 1000000, concurrency: 4 } }";
    bench.load(&server.url(), "", &format!("{runner}\n{GET}\nteardown: [ {{ action: t, get: /t }} ]"));
    let binary = env!("CARGO_BIN_EXE_bench");
    let mut limited = std::process::Command::new("sh");
    let script = format!("ulimit -f 1024; exec '{binary}' run scenario.yaml");
    limited.current_dir(bench.path()).arg("-c").arg(script);
    let ended = CommandOutput::from(limited.output().unwrap()).expect_code(1);
    assert!(ended.stderr.contains("cannot be written"), "{}", ended.stderr);
    assert_eq!(server.count("/t"), 1, "teardown ran");
    let run = bench.run_directory();
    for name in ["results.json", "results.json.part", "report.html", "report.html.part"] {
        assert!(!run.join(name).exists() || name == "results.json", "{name} is there");
    }
    // It ends as the run did: by a fault. If not even the end fits, the log has none, which is never a PASS.
    let ended = bench.run(&["report", "--strict", run.to_str().unwrap()]);
    let without_end = ended.stdout.contains("recovered from the log");
    let expected = if without_end { 4 } else { 1 };
    let ended = ended.expect_code(expected);
    assert!(
        without_end || ended.stdout.contains("iterations could not be written to the run log"),
        "what was lost is counted: {}",
        ended.stdout
    );
    let results = bench.results();
    let recovered = results["workloads"][0]["iterations"]["total"].as_u64().unwrap();
    assert!(recovered > 100, "what was written before is there: {recovered}");
}

#[test]
fn exit_codes_tell_gates_usage_and_bad_files_apart() {
    let server = answering("application/json", b"{}");
    let bench = Bench::new();
    let scenario = |sla: &str| format!("runner: {{ serial: {{ times: 3 }} }}\n{GET}\n{sla}");
    for (sla, code) in [
        ("sla: { failure_rate: { max: 0 } }", 0),
        ("sla: { max_seconds_per_iteration: 0.0000001 }", 2),
        ("sla: { failure_rate: { min: 50 } }", 2),
        ("sla: { failure_rate: { max: many } }", 65),
    ] {
        bench.load(&server.url(), "", &scenario(sla));
        bench.run(&["run", "scenario.yaml"]).expect_code(code);
    }
    bench.run(&["run", "absent.yaml"]).expect_code(65);
    bench.run(&["run", "scenario.yaml", "--no-such-flag"]).expect_code(64);
    bench.run(&["report", "absent"]).expect_code(65);
}

/// The certificate of somebody else.
fn stranger() -> String {
    let mut made = rcgen::CertificateParams::new(vec!["other.example".to_owned()]).unwrap();
    made.distinguished_name.push(rcgen::DnType::CommonName, "somebody else");
    made.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().pem()
}

#[test]
fn the_faults_of_several_workloads_stay_with_their_actions() {
    let server = ScriptedServer::start(|seen, wire| {
        let status = if seen.path == "/a" { "500 Internal Server Error" } else { "404 Not Found" };
        wire.answer(status, "text/plain", b"no")
    });
    let bench = Bench::new();
    bench.load(
        &server.url(),
        "",
        "workloads:\n  - { name: a, runner: { constant: { times: 6, concurrency: 3 } }, iteration: [ { action: aa, get: /a } ] }\n  - { name: b, runner: { serial: { times: 2 } }, iteration: [ { action: bb, get: /b } ] }",
    );
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let results = bench.results();
    for (workload, action, message, count) in [(0, "aa", "answered 500", 6), (1, "bb", "answered 404", 2)] {
        let errors = results["workloads"][workload]["errors"].as_array().unwrap();
        assert_eq!(errors.len(), 1, "{errors:?}");
        assert_eq!(
            (&errors[0]["action"], &errors[0]["message"], &errors[0]["count"]),
            (&action.into(), &message.into(), &count.into())
        );
    }
}
