//! HTTP/2 in bench's client: what servers may do, and what they must not do.

use std::io::{Read as _, Write as _};
use std::sync::atomic::Ordering;

use h2::Reason;
use serde_json::Value;

use crate::h2_server::{Act, H2Server, H2ServerOptions, H2ServerRequest};
use crate::http_faults::Sockets;
use crate::rewind;
use crate::server::ScriptedServer;
use crate::support::{Bench, CommandOutput};

const PRIOR_KNOWLEDGE: &str = "http: { version: 2 }";
const GET: &str = "iteration: [ { action: a, get: /x, timeout: 5s } ]";

/// A load against `url`: the results.
#[track_caller]
fn load(url: &str, deployment: &str, scenario: &str) -> Value {
    let bench = Bench::new();
    bench.load(url, deployment, scenario);
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    bench.results()
}

fn serial(times: u32) -> String {
    format!("runner: {{ serial: {{ times: {times} }} }}\n{GET}")
}

fn action(results: &Value, index: usize) -> &Value {
    &results["workloads"][0]["actions"][index]
}

#[test]
fn requests_are_made_as_http2_says() {
    let server = H2Server::start(|_| Act::Answer(3));
    let scenario = "runner: { serial: { times: 3 } }
iteration:
  - { action: a, get: '/x?q=1', headers: { Connection: close, Cookie: c=1, TE: gzip, X-A: b } }
  - { action: b, post: /y, json: { a: 1 }, headers: { Host: other.example } }
  - { action: c, head: /z }
  - { action: d, post: /empty }";
    let results = load(&server.url(), PRIOR_KNOWLEDGE, scenario);
    assert_eq!(results["workloads"][0]["iterations"]["ok"], 3, "{}", results["workloads"][0]["errors"]);
    assert_eq!(action(&results, 0)["connections_opened"], 1);
    assert_eq!(server.connections(), 1);
    let seen = server.seen();
    assert_eq!(seen.len(), 12);
    let (get, post, head, empty) = (&seen[0], &seen[1], &seen[2], &seen[3]);
    assert_eq!((get.method.as_str(), get.uri.as_str()), ("GET", format!("{}/x?q=1", server.url()).as_str()));
    assert_eq!(
        (&get.headers["cookie"], &get.headers["x-a"]),
        (&"c=1".parse().unwrap(), &"b".parse().unwrap())
    );
    for name in ["connection", "te", "host", "content-length"] {
        assert!(!get.headers.contains_key(name), "{name}: {:?}", get.headers);
    }
    assert_eq!((post.uri.as_str(), post.body_bytes), ("http://other.example/y", 7));
    assert_eq!(
        (&post.headers["content-length"], &post.headers["content-type"]),
        (&"7".parse().unwrap(), &"application/json".parse().unwrap())
    );
    assert_eq!((head.method.as_str(), empty.body_bytes), ("HEAD", 0));
    assert_eq!(empty.headers["content-length"], "0");
}

#[test]
fn tls_chooses_by_alpn() {
    let bench = Bench::new();
    let ca = bench.path().join("ca.pem");
    let tls =
        |protocols| H2ServerOptions { tls: Some((ca.clone(), protocols)), ..H2ServerOptions::default() };
    let insecure = |version: &str| format!("tls: {{ verify: false }}\nhttp: {{ version: {version} }}");
    for (offered, version) in [(&["h2", "http/1.1"][..], "auto"), (&["h2"], "2"), (&["h2"], "auto")] {
        let server = H2Server::with(tls(offered), |_| Act::Answer(3));
        let results = load(&server.url(), &insecure(version), &serial(3));
        assert_eq!(results["workloads"][0]["iterations"]["ok"], 3, "{version}");
        assert_eq!((server.connections(), server.seen().len()), (1, 3));
        assert!(action(&results, 0)["phases"]["tls_ms"].as_f64().unwrap() > 0.0);
    }
    // A server that speaks only HTTP/1.1.
    let server = ScriptedServer::tls(&ca, |_, wire| wire.answer("200 OK", "text/plain", "ok"));
    for version in ["auto", "1.1"] {
        let results = load(&server.url(), &insecure(version), &serial(3));
        assert_eq!(results["workloads"][0]["iterations"]["ok"], 3, "{version}");
    }
    bench.load(&server.url(), &insecure("2"), &serial(3));
    let ended = bench.run(&["run", "scenario.yaml"]).expect_code(69);
    assert!(
        ended.stderr.contains("does not offer HTTP/2") || ended.stderr.contains("ApplicationProtocol"),
        "{}",
        ended.stderr
    );
    // HTTP/1.1 alone is not offered to a server that has only HTTP/2.
    let server = H2Server::with(tls(&["h2"]), |_| Act::Answer(3));
    bench.load(&server.url(), &insecure("1.1"), &serial(3));
    bench.run(&["run", "scenario.yaml"]).expect_code(69);
}

#[test]
fn valid_answers_pass() {
    let many: Vec<_> = (0..100).map(|_| ("x-same", "v".repeat(100))).collect();
    for (name, act) in [
        ("no body", Act::Answer(0)),
        ("a large body", Act::Answer(20 << 20)),
        ("interim", Act::Interim),
        ("trailers", Act::Full(200, many, b"{}".to_vec())),
        ("an empty body with trailers", Act::Full(204, Vec::new(), Vec::new())),
        ("ping", Act::Ping),
        ("the connection ends behind it", Act::AnswerAndGoAway),
    ] {
        let ends = matches!(act, Act::AnswerAndGoAway);
        let body = if let Act::Answer(length) = act { Some(length) } else { None };
        let server = H2Server::start(move |_| act.clone());
        let results = load(
            &server.url(),
            PRIOR_KNOWLEDGE,
            "runner: { serial: { times: 3 } }\niteration: [ { action: a, get: /x, timeout: 20s }, { think: 20ms } ]",
        );
        let workload = &results["workloads"][0];
        assert_eq!(workload["iterations"]["ok"], 3, "{name}: {}", workload["errors"]);
        let opened = action(&results, 0)["connections_opened"].as_u64().unwrap();
        // On a busy machine, the next request may go out before the end of the connection was read.
        let expected = if ends { 2..=3 } else { 1..=1 };
        assert!(expected.contains(&opened), "{name}: {opened}");
        if let Some(length) = body {
            assert_eq!(action(&results, 0)["bytes_received"], 3 * length, "{name}");
        }
    }
}

#[test]
fn faults_have_their_class_and_only_what_was_refused_is_sent_twice() {
    let huge = vec![("x-huge", "v".repeat(300 << 10))];
    let many: Vec<_> = (0..300).map(|_| ("x-many", "v".to_owned())).collect();
    // The server says that it has not processed these.
    let refused = |_: &H2ServerRequest| Act::Reset(Reason::REFUSED_STREAM);
    let server = H2Server::start(refused);
    let results =
        load(&server.url(), PRIOR_KNOWLEDGE, &format!("runner: {{ serial: {{ times: 2 }} }}\n{GET}"));
    let error = &results["workloads"][0]["errors"][0];
    assert_eq!((&error["class"], &error["count"]), (&"closed".into(), &2.into()), "{error}");
    assert!(error["message"].as_str().unwrap().contains("REFUSED_STREAM"), "{error}");
    assert_eq!((server.seen().len(), &action(&results, 0)["connections_opened"]), (4, &1.into()));
    assert!(results["notes"].to_string().contains("2 requests were sent once more"), "{}", results["notes"]);
    let headline = results["reason"]["headline"].as_str().unwrap();
    assert!(headline.contains("was refused by the server"), "{headline}");
    for (name, act, class, part, opened) in [
        ("internal error", Act::Reset(Reason::INTERNAL_ERROR), "closed", "INTERNAL_ERROR", 1),
        (
            "reset in the body",
            Act::ResetInBody(Reason::CANCEL),
            "closed",
            "in the middle of the answer, with the HTTP/2 error CANCEL",
            1,
        ),
        ("closed in the body", Act::CloseInBody, "closed", "in the middle of the answer", 2),
        ("closed", Act::Close, "closed", "before the answer", 2),
        ("go away", Act::GoAway(Reason::ENHANCE_YOUR_CALM), "closed", "GOAWAY: ENHANCE_YOUR_CALM", 2),
        ("go away without an error", Act::GoAway(Reason::NO_ERROR), "closed", "before the answer", 2),
        ("nothing", Act::Hang, "timeout", "timed out", 2),
        ("too large", Act::Answer(65 << 20), "body_limit", "larger than 67108864 bytes", 2),
        (
            "a huge header",
            Act::Full(200, huge, b"x".to_vec()),
            "client",
            "head is larger than 262144 bytes",
            2,
        ),
        ("many headers", Act::Full(200, many, b"x".to_vec()), "client", "more than 256 headers", 2),
    ] {
        let server = H2Server::start(move |_| act.clone());
        let scenario = "runner: { serial: { times: 2 } }\niteration: [ { action: a, get: /x, timeout: 3s } ]";
        let results = load(&server.url(), PRIOR_KNOWLEDGE, scenario);
        let workload = &results["workloads"][0];
        let error = &workload["errors"][0];
        assert_eq!(workload["iterations"]["failed"], 2, "{name}: {error}");
        assert_eq!(error["class"], class, "{name}: {error}");
        assert!(error["message"].as_str().unwrap().contains(part), "{name}: {error}");
        assert_eq!(server.seen().len(), 2, "{name}");
        assert_eq!(action(&results, 0)["connections_opened"], opened, "{name}");
    }
}

/// Once, whatever the method, and with its body.
#[test]
fn what_the_server_did_not_process_is_sent_once_more() {
    for (http, step) in [
        ("", "get: /x"),
        ("", "post: /x, body: hello"),
        ("http: { connections: shared }\n", "post: /x, body: hello"),
        ("http: { connections: iteration }\n", "get: /x"),
    ] {
        let times = std::sync::atomic::AtomicUsize::new(0);
        let server = H2Server::start(move |_: &H2ServerRequest| {
            let time = times.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
            if time % 5 == 2 { Act::Reset(Reason::REFUSED_STREAM) } else { Act::Answer(2) }
        });
        let scenario = format!(
            "{http}runner: {{ serial: {{ times: 8 }} }}\niteration: [ {{ action: a, {step}, timeout: 20s }} ]"
        );
        let results = load(&server.url(), PRIOR_KNOWLEDGE, &scenario);
        let workload = &results["workloads"][0];
        assert_eq!(workload["iterations"]["ok"], 8, "{http}{step}: {}", workload["errors"]);
        assert_eq!(server.seen().len(), 10, "{http}{step}");
        assert!(
            server.seen().iter().all(|seen| seen.method == "GET" || seen.body_bytes == 5),
            "{http}{step}"
        );
        assert!(
            results["notes"].to_string().contains("2 requests were sent once more"),
            "{}",
            results["notes"]
        );
    }
}

/// GOAWAY names the last stream that may have been processed: what comes behind it is sent once more, and nothing else.
#[test]
fn goaway_tells_what_was_not_processed() {
    for (last, failed) in [(0_u32, 0), (1, 2)] {
        let goaway = frame(7, 0, 0, &[&last.to_be_bytes()[..], &[0; 4]].concat());
        let ok = [frame(1, 4, 1, &[0x88]), frame(0, 1, 1, b"ok")].concat();
        let settings = frame(4, 0, 0, &[]);
        let (url, _server) = scripted(vec![
            [settings.clone(), goaway.clone()].concat(),
            [settings.clone(), if failed == 0 { ok.clone() } else { goaway }].concat(),
        ]);
        let results = load(&url, PRIOR_KNOWLEDGE, &serial(if failed == 0 { 1 } else { 2 }));
        let workload = &results["workloads"][0];
        assert_eq!(workload["iterations"]["failed"], failed, "{last}: {}", workload["errors"]);
    }
}

/// Servers pass on empty pieces as empty frames: as many as there are, they are no fault.
#[test]
fn empty_data_frames_are_no_fault() {
    let empty = frame(0, 0, 1, b"");
    let answer = [
        frame(4, 0, 0, &[]),
        frame(1, 4, 1, &[0x88]),
        frame(0, 0, 1, b"o"),
        empty.repeat(1000),
        frame(0, 1, 1, b"k"),
    ];
    let (url, _server) = raw(answer.concat());
    let results = load(
        &url,
        PRIOR_KNOWLEDGE,
        "http: { connections: iteration }\nrunner: { serial: { times: 1 } }\n\
         iteration: [ { action: a, get: /x, expect: { body: ok } } ]",
    );
    assert_eq!(results["workloads"][0]["iterations"]["ok"], 1, "{}", results["workloads"][0]["errors"]);
}

/// What is wrong with an answer that HTTP/2 forbids.
#[test]
fn a_forbidden_answer_is_explained() {
    let settings = frame(4, 0, 0, &[]);
    let body = frame(0, 1, 1, b"hello");
    for (name, frames, part) in [
        (
            "capitals",
            [frame(1, 4, 1, b"\x88\x00\x07X-Upper\x011"), body.clone()].concat(),
            "`X-Upper` has capital letters",
        ),
        (
            "of a connection",
            [frame(1, 4, 1, b"\x88\x00\x0aconnection\x05close"), body.clone()].concat(),
            "`connection`",
        ),
        ("no status", [frame(1, 4, 1, b"\x00\x01a\x01b"), body.clone()].concat(), "no `:status`"),
        (
            "another length",
            [frame(1, 4, 1, b"\x88\x0f\x0d\x019"), body].concat(),
            "another length than its `content-length`",
        ),
        (
            "a status behind the body",
            [frame(1, 4, 1, b"\x88"), frame(0, 0, 1, b"hello"), frame(1, 5, 1, b"\x88")].concat(),
            "pseudo-header fields",
        ),
    ] {
        let (url, _server) = raw([settings.clone(), frames].concat());
        let results =
            load(&url, PRIOR_KNOWLEDGE, &format!("http: {{ connections: iteration }}\n{}", serial(2)));
        let error = &results["workloads"][0]["errors"][0];
        assert_eq!((&error["class"], &error["count"]), (&"protocol".into(), &2.into()), "{name}: {error}");
        let message = error["message"].as_str().unwrap();
        assert!(message.contains(part) && !message.contains("unspecific"), "{name}: {message}");
        let headline = results["reason"]["headline"].as_str().unwrap();
        assert!(!headline.ends_with("protocol"), "{headline}");
    }
}

#[test]
fn request_bodies_flow_as_the_server_makes_room() {
    let body = "variables: { x: 1 }\niteration: [ { action: a, post: /x, body: \"{% for i in range(3000) %}{{ 'x' * 1000 }}{% endfor %}\", timeout: 20s } ]";
    let scenario = format!("runner: {{ serial: {{ times: 2 }} }}\n{body}");
    let small_window = H2ServerOptions { window_bytes: 1000, ..H2ServerOptions::default() };
    for server in [H2Server::start(|_| Act::Answer(2)), H2Server::with(small_window, |_| Act::Answer(2))] {
        let results = load(&server.url(), PRIOR_KNOWLEDGE, &scenario);
        assert_eq!(results["workloads"][0]["iterations"]["ok"], 2, "{}", results["workloads"][0]["errors"]);
        assert!(server.seen().iter().all(|seen| seen.body_bytes == 3_000_000), "{:?}", server.seen());
    }
    // An answer counts although the server wanted no more of the request.
    let server = H2Server::start(|_| Act::Early);
    let results = load(&server.url(), PRIOR_KNOWLEDGE, &scenario);
    assert_eq!(results["workloads"][0]["errors"][0]["message"], "answered 413");
}

#[test]
fn a_graceful_end_is_noticed_before_the_next_request() {
    let server =
        H2Server::start(
            |seen: &H2ServerRequest| {
                if seen.nth_of_connection == 1 { Act::AnswerAndGoAway } else { Act::Answer(1) }
            },
        );
    let scenario = "runner: { constant: { times: 12, concurrency: 2 } }\niteration: [ { action: a, get: /x }, { think: 30ms } ]";
    let results = load(&server.url(), PRIOR_KNOWLEDGE, scenario);
    assert_eq!(results["workloads"][0]["iterations"]["ok"], 12, "{}", results["workloads"][0]["errors"]);
    let opened = action(&results, 0)["connections_opened"].as_u64().unwrap();
    assert!((4..=8).contains(&opened), "{opened}");
}

#[test]
fn users_share_connections_within_the_servers_limit() {
    for (limit, shared) in [(None, true), (Some(3), true), (None, false)] {
        let options = H2ServerOptions { max_concurrent_streams: limit, ..H2ServerOptions::default() };
        let server = H2Server::with(options, |_| Act::Answer(100));
        let connections = if shared { "shared" } else { "user" };
        let scenario = format!(
            "http: {{ connections: {connections} }}\nrunner: {{ constant: {{ times: 400, concurrency: 20 }} }}\n{GET}"
        );
        let results = load(&server.url(), PRIOR_KNOWLEDGE, &scenario);
        assert_eq!(results["workloads"][0]["iterations"]["ok"], 400, "{}", results["workloads"][0]["errors"]);
        let workers = std::thread::available_parallelism().unwrap().get();
        match (limit, shared) {
            (None, true) => assert!(server.connections() <= workers, "{}", server.connections()),
            (Some(_), true) => assert!(server.connections() < 20 + workers, "{}", server.connections()),
            _ => assert_eq!(server.connections(), 20),
        }
        let opened = action(&results, 0)["connections_opened"].as_u64().unwrap();
        assert_eq!(opened as usize, server.connections());
        // Any of them: a busy machine may let one user run once only.
        let seen = server.seen();
        let reused = seen.iter().filter(|seen| seen.nth_of_connection > 0).map(|seen| seen.connection);
        assert!(reused.max().is_some_and(|connection| connection < server.connections()));
    }
}

#[test]
fn a_shared_connection_survives_what_single_requests_do() {
    let server = H2Server::start(|seen: &H2ServerRequest| match seen.uri.rsplit('/').next() {
        Some("reset") => Act::Reset(Reason::REFUSED_STREAM),
        Some("hang") => Act::Hang,
        _ => Act::Answer(10),
    });
    let scenario = "http: { connections: shared }\nworkloads:
  - { name: w, runner: { constant: { times: 40, concurrency: 8 } }, iteration: [ { action: a, get: /ok }, { action: b, get: /reset, expect: { status: 200 } } ] }
  - { name: v, runner: { constant: { times: 8, concurrency: 8 } }, iteration: [ { action: a, get: /hang, timeout: 200ms } ] }";
    let results = load(&server.url(), PRIOR_KNOWLEDGE, scenario);
    let workload = &results["workloads"][0];
    assert_eq!(workload["errors"][0]["class"], "closed");
    assert_eq!(
        (&workload["actions"][0]["requests"]["ok"], &workload["errors"][0]["count"]),
        (&40.into(), &40.into())
    );
    assert_eq!(results["workloads"][1]["errors"][0]["class"], "timeout");
    let workers = std::thread::available_parallelism().unwrap().get();
    assert!(server.connections() <= 2 * workers, "{}", server.connections());
}

/// Requests that share a connection read for one another, and wait for room: none is forgotten, however others end.
#[test]
fn no_request_on_a_shared_connection_is_forgotten() {
    let options = H2ServerOptions { max_concurrent_streams: Some(3), ..H2ServerOptions::default() };
    let server = H2Server::with(options, |seen: &H2ServerRequest| match seen.uri.rsplit('/').next() {
        Some("reset") => Act::Reset(Reason::INTERNAL_ERROR),
        Some("hang") => Act::Hang,
        _ => Act::Answer(3000),
    });
    let scenario = "http: { connections: shared, max_connections: 1 }\nworkloads:
  - { name: w, runner: { constant: { times: 600, concurrency: 12 } }, iteration: [ { action: a, get: /ok, timeout: 60s } ] }
  - { name: v, runner: { constant: { times: 60, concurrency: 6 } }, iteration: [ { action: a, get: /hang, timeout: 30ms } ] }
  - { name: x, runner: { constant: { times: 60, concurrency: 2 } }, iteration: [ { action: a, get: /reset, timeout: 60s } ] }";
    let results = load(&server.url(), PRIOR_KNOWLEDGE, scenario);
    let workloads = &results["workloads"];
    assert_eq!(workloads[0]["iterations"]["ok"], 600, "{}", workloads[0]["errors"]);
    for (index, class) in [(1, "timeout"), (2, "closed")] {
        let errors = workloads[index]["errors"].as_array().unwrap();
        let count: u64 = errors.iter().filter_map(|error| error["count"].as_u64()).sum();
        assert!(count == 60 && errors.iter().all(|error| error["class"] == class), "{errors:?}");
    }
    let workers = std::thread::available_parallelism().unwrap().get();
    // Workloads share no connections.
    assert!(server.connections() <= 3 * workers, "{}", server.connections());
}

/// A server that reads the client's preface and then sends these bytes.
fn raw(bytes: Vec<u8>) -> (String, Sockets) {
    scripted(vec![bytes])
}

/// The same, with other bytes for each connection of a load.
fn scripted(scripts: Vec<Vec<u8>>) -> (String, Sockets) {
    let connections = rewind::counter();
    let server = Sockets::start(move |mut stream| {
        let (mut seen, mut buffer) = (0, [0; 4096]);
        // Until the headers of the first request are there.
        while seen < 100 {
            match stream.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(read) => seen += read,
            }
        }
        let connection = connections.fetch_add(1, Ordering::SeqCst);
        let _ = stream.write_all(&scripts[connection % scripts.len()]);
        // Until the client has had enough of it.
        while stream.read(&mut buffer).is_ok_and(|read| read > 0) {}
    });
    (format!("http://{}", server.address), server)
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

#[test]
fn what_is_no_http2_is_a_protocol_fault() {
    let settings = frame(4, 0, 0, &[]);
    let with = |frame: Vec<u8>| [settings.clone(), frame].concat();
    for (name, bytes, part) in [
        (
            "HTTP/1.1",
            b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_vec(),
            "does the server support HTTP/2?",
        ),
        ("another protocol", b"SSH-2.0-OpenSSH_9.6\r\n".to_vec(), "HTTP/2"),
        ("settings of a wrong length", frame(4, 0, 0, &[1, 2, 3]), "HTTP/2"),
        ("data of no stream", with(frame(0, 0, 0, b"x")), "HTTP/2"),
        ("data before a head", with(frame(0, 0, 1, b"x")), "HTTP/2"),
        ("a head that cannot be unpacked", with(frame(1, 4, 1, &[0xff; 20])), "HTTP/2"),
        ("a head without a status", with(frame(1, 4, 1, &[0x00, 1, b'a', 1, b'b'])), "HTTP/2"),
        ("a continuation of nothing", with(frame(9, 4, 1, b"x")), "HTTP/2"),
        ("a push that was declined", with(frame(5, 4, 1, &[0, 0, 0, 2, 0x88])), "HTTP/2"),
        ("a frame above the largest size", with(frame(0, 0, 1, &vec![0; 20_000])), "HTTP/2"),
        (
            "a window that overflows",
            with(
                [frame(8, 0, 0, &[0x7f, 0xff, 0xff, 0xff]), frame(8, 0, 0, &[0x7f, 0xff, 0xff, 0xff])]
                    .concat(),
            ),
            "HTTP/2",
        ),
        (
            "less than was announced",
            with([frame(1, 4, 1, &[0x88, 0x0f, 0x0d, 1, b'9']), frame(0, 1, 1, b"abc")].concat()),
            "HTTP/2",
        ),
    ] {
        let (url, _server) = raw(bytes);
        let bench = Bench::new();
        bench.load(&url, PRIOR_KNOWLEDGE, &serial(2));
        let ended: CommandOutput = bench.run(&["run", "scenario.yaml"]).expect_code(0);
        let error = &bench.results()["workloads"][0]["errors"][0];
        assert_eq!(
            (&error["class"], &error["count"]),
            (&"protocol".into(), &2.into()),
            "{name}: {error} {}",
            ended.stderr
        );
        assert!(error["message"].as_str().unwrap().contains(part), "{name}: {error}");
    }
}
