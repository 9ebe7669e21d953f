//! Answers that come as streams: what is measured, when reading ends, and the errors for streams that are not as expected.
//! Each case runs over HTTP/1.1 and HTTP/2.

use std::io::Write as _;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::Value;

use crate::h2_server::{Act, H2Server};
use crate::server::{After, ScriptedServer};
use crate::support::{Bench, CommandOutput};

/// What a server sends after the head: pieces, each after a pause, and whether the last is sent again and again.
#[derive(Clone)]
struct StreamScript {
    status: u16,
    headers: Vec<(&'static str, String)>,
    pieces: Vec<(Duration, Vec<u8>)>,
    is_endless: bool,
}

fn script(content_type: &str, pieces: &[(u64, &str)]) -> StreamScript {
    let pieces = pieces.iter().map(|(ms, text)| (Duration::from_millis(*ms), text.as_bytes().to_vec()));
    StreamScript {
        status: 200,
        headers: vec![("content-type", content_type.to_owned())],
        pieces: pieces.collect(),
        is_endless: false,
    }
}

fn events(pieces: &[(u64, &str)]) -> StreamScript {
    script("text/event-stream; charset=utf-8", pieces)
}

fn endless(piece: (u64, &str)) -> StreamScript {
    StreamScript { is_endless: true, ..events(&[piece]) }
}

/// A server of a version of HTTP.
enum StreamServer {
    Http1(ScriptedServer),
    Http2(H2Server),
}

impl StreamServer {
    fn http1(script: StreamScript) -> Self {
        Self::Http1(ScriptedServer::start(move |_, wire| {
            let headers = script.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n"));
            let headers = headers.collect::<String>();
            wire.send(format!("HTTP/1.1 {} X\r\ntransfer-encoding: chunked\r\n{headers}\r\n", script.status));
            let mut number = 0;
            while let Some((pause, piece)) = script.pieces.get(number) {
                let chunk = [format!("{:x}\r\n", piece.len()).as_bytes(), piece, b"\r\n"].concat();
                if !wire.pause(*pause) || !wire.send(chunk) {
                    return After::Close;
                }
                number += usize::from(!script.is_endless);
            }
            wire.send("0\r\n\r\n");
            After::Keep
        }))
    }

    fn http2(script: StreamScript) -> Self {
        Self::Http2(H2Server::start(move |_| {
            Act::Pieces(script.status, script.headers.clone(), script.pieces.clone(), script.is_endless)
        }))
    }

    fn url(&self) -> String {
        match self {
            Self::Http1(server) => server.url(),
            Self::Http2(server) => server.url(),
        }
    }
}

/// Runs a load of one action over each version of HTTP, and shows the results to `check`.
fn each_version(script: &StreamScript, load: &str, check: impl Fn(&CommandOutput, &Value)) {
    for (server, deployment) in [
        (StreamServer::http1(script.clone()), "http: { version: 1.1 }"),
        (StreamServer::http2(script.clone()), "http: { version: 2 }"),
    ] {
        let bench = Bench::new();
        bench.load(&server.url(), deployment, load);
        let ended = bench.run(&["run", "scenario.yaml"]);
        check(&ended, &bench.results());
    }
}

fn load(step: &str) -> String {
    format!(
        "runner: {{ serial: {{ times: 3 }} }}\niteration: [ {{ action: a, get: /, timeout: 5s, {step} }} ]"
    )
}

/// The results of three iterations that all succeed.
fn all_succeed(script: &StreamScript, step: &str, check: impl Fn(&Value)) {
    each_version(script, &load(step), |ended, results| {
        let workload = &results["workloads"][0];
        assert_eq!(workload["iterations"]["ok"], 3, "{step}: {:#}\n{}", workload["errors"], ended.stderr);
        check(&workload["actions"][0]);
    });
}

/// Three iterations fail, with this message.
fn all_fail(script: &StreamScript, step: &str, class: &str, message: &str) {
    each_version(script, &load(step), |_, results| {
        let errors = &results["workloads"][0]["errors"];
        let error = &errors[0];
        assert_eq!((&error["count"], &error["class"]), (&3.into(), &class.into()), "{step}: {errors:#}");
        assert!(error["message"].as_str().unwrap().contains(message), "{step}: {error:#}");
    });
}

/// From sending to the last event, by the means of a stream with this number of gaps. A single gap may be shorter than the
/// server's pause, because the client was late for the event before.
fn to_the_last_event_ms(action: &Value, gaps: f64) -> f64 {
    let mean = |of: &str| action["streams"][of]["mean_ms"].as_f64().unwrap();
    mean("first") + gaps * mean("gap")
}

const CHAT: [(u64, &str); 5] = [
    (30, "data: {\"n\": 1}\n\n"),
    (30, "data: {\"n\": 2}\n\n"),
    (90, "data: {\"n\": 3, \"usage\": {\"tokens\": 7}}\n\n"),
    (0, "data: [DONE]\n\n"),
    (0, ": bye\n\n"),
];

#[test]
fn the_first_event_and_the_gaps_are_measured() {
    let step = "stream: { as: events, until: '[DONE]', tokens: $.usage.tokens }, expect: { messages: 3 }";
    all_succeed(&events(&CHAT), step, |action| {
        let streams = &action["streams"];
        let numbers = ["streams", "messages", "tokens"].map(|key| streams[key].as_u64().unwrap());
        assert_eq!(numbers, [3, 9, 21], "{streams:#}");
        assert!(streams["first"]["min_ms"].as_f64() >= Some(29.0), "{streams:#}");
        assert!(to_the_last_event_ms(action, 2.0) >= 149.0, "{streams:#}");
        assert_eq!((&streams["first"]["count"], &streams["gap"]["count"]), (&3.into(), &6.into()));
        assert!(action["service_time"]["min_ms"].as_f64() >= Some(149.0), "{action:#}");
        // The end of the answer is read, so that its connection can be used again.
        assert_eq!(action["connections_opened"], 1, "{action:#}");
    });
}

#[test]
fn checks_and_extractions_read_the_last_event() {
    let step = "stream: { as: events, until: '[DONE]', each: { $.n: { gt: 0 } } }, expect: { json: { $.n: 3 } }, \
                extract: { tokens: { json: $.usage.tokens } }";
    let step =
        format!("{step} }}, {{ action: b, get: /, stream: events, expect: {{ variables: {{ tokens: 7 }} }}");
    all_succeed(&events(&CHAT), &step, |action| assert_eq!(action["streams"]["messages"], 9));
}

#[test]
fn a_stream_ends_where_the_scenario_says() {
    let typed = events(&[(0, "data: 1\n\ndata: 2\n\n"), (5, "event: end\ndata: 3\n\ndata: 4\n\n")]);
    for (stream, messages) in [
        ("{ as: events, until: { event: end } }", 6),
        ("{ as: events, until: { json: { $: { gt: 1 } } } }", 6),
        ("{ as: events, max: 3 }", 9),
        ("{ as: events, until: '4' }", 9),
        ("events", 12),
        ("{ as: lines, max: 5 }", 15),
    ] {
        all_succeed(&typed, &format!("stream: {stream}"), |action| {
            assert_eq!(action["streams"]["messages"], messages, "{stream}: {action:#}");
        });
    }
}

#[test]
fn a_stream_without_an_end_is_left() {
    let ticking = endless((5, "data: tick\n\n"));
    for stream in ["{ as: events, max: 4 }", "{ as: events, for: 60ms }", "{ as: chunks, max: 2 }"] {
        all_succeed(&ticking, &format!("stream: {stream}, expect: {{ messages: {{ ge: 2 }} }}"), |action| {
            assert!(action["service_time"]["max_ms"].as_f64() < Some(4000.0), "{action:#}");
        });
    }
    each_version(&ticking, &load("stream: events").replace("5s", "80ms"), |_, results| {
        let error = &results["workloads"][0]["errors"][0];
        assert_eq!(error["message"], "timed out after 80.0 ms before the end of the stream");
    });
}

#[test]
fn lines_and_chunks_are_read_as_they_come() {
    let lines = script("application/x-ndjson", &[(0, "{\"n\":1}\n{\"n\""), (5, ":2}\n\n{\"n\":3}")]);
    let step = "stream: { as: lines, each: { $.n: { ge: 1 } } }, expect: { messages: 3, json: { $.n: 3 } }";
    all_succeed(&lines, step, |action| assert_eq!(action["streams"]["gap"]["count"], 6));
    let chunks = script("text/plain", &[(0, "a"), (30, "b"), (30, "c")]);
    all_succeed(&chunks, "stream: chunks, expect: { messages: 3, body: { equals: c } }", |action| {
        assert!(to_the_last_event_ms(action, 2.0) >= 59.0, "{action:#}");
    });
}

#[test]
fn compressed_events_are_read_when_they_come() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let mut compressed = events(&[]);
    compressed.headers.push(("content-encoding", "gzip".to_owned()));
    for (pause, text) in &CHAT {
        encoder.write_all(text.as_bytes()).unwrap();
        encoder.flush().unwrap();
        compressed.pieces.push((Duration::from_millis(*pause), std::mem::take(encoder.get_mut())));
    }
    all_succeed(&compressed, "stream: { as: events, until: '[DONE]' }", |action| {
        assert_eq!(action["streams"]["messages"], 9);
        assert!(to_the_last_event_ms(action, 2.0) >= 149.0, "{action:#}");
    });
    compressed.headers[1].1 = "zstd".to_owned();
    all_fail(
        &compressed,
        "stream: events",
        "protocol",
        "content encoding `zstd`, which is not read while it arrives",
    );
}

#[test]
fn streams_that_are_not_as_expected_fail() {
    let chat = events(&CHAT);
    for (step, class, message) in [
        ("stream: { as: events, until: END }", "check", "the stream ended before \"END\""),
        ("stream: { as: events, until: { event: x } }", "check", "the stream ended before the event \"x\""),
        (
            "stream: { as: events, each: { $.n: { lt: 3 } } }",
            "check",
            "in an event of the stream: the value at $.n is not less than `3`",
        ),
        (
            "stream: { as: events, each: { $.n: { exists: true } } }",
            "check",
            "in an event of the stream: the event is not JSON: expected value",
        ),
        (
            "stream: { as: events, until: '[DONE]' }, expect: { messages: 4 }",
            "check",
            "the number of messages is not `4`",
        ),
        (
            "stream: { as: events, until: '[DONE]' }, expect: { json: { $.n: 1 } }",
            "check",
            "the value at $.n is not `1`",
        ),
        (
            "stream: { as: events, max_event: 10B }",
            "client",
            "an event of the stream is larger than 10 bytes; raise its `max_event`",
        ),
    ] {
        all_fail(&chat, step, class, message);
    }
    let step = "stream: { as: events, until: '[DONE]' }";
    all_fail(&events(&[]), step, "check", "the stream ended before \"[DONE]\" without any event");
    let json = script("application/json", &[(0, "{\"error\": \"no model\"}")]);
    let unfit =
        "the answer is no stream of events: its content type is `application/json`, not `text/event-stream`";
    all_fail(&json, step, "check", unfit);
    each_version(&json, &load(step), |_, results| {
        let error = &results["workloads"][0]["errors"][0];
        assert!(error["body"].to_string().contains("no model"), "{error:#}");
    });
    let tokens = "stream: { as: events, until: '[DONE]', tokens: $.usage.tokns }";
    all_fail(&chat, tokens, "check", "no event has a whole number where `tokens` looks for it");
    let refused = StreamScript { status: 429, ..json };
    all_fail(&refused, step, "status", "answered 429");
    all_succeed(&refused, &format!("{step}, expect: {{ status: [200, 429] }}"), |action| {
        assert!(action["streams"].is_null(), "{action:#}");
    });
}

#[test]
fn an_event_larger_than_the_limit_is_not_kept() {
    let large = "x".repeat(5 << 20);
    let script = events(&[(0, "data: "), (0, &large), (0, "\n\n")]);
    all_fail(&script, "stream: events", "client", "larger than 4194304 bytes; raise its `max_event`");
    all_succeed(&script, "stream: { as: events, max_event: 6MiB }", |action| {
        assert_eq!(action["streams"]["messages"], 3);
    });
}

#[test]
fn a_gate_judges_first_events_and_gaps() {
    let slow = events(&[(60, "data: 1\n\n"), (0, "data: 2\n\n"), (120, "data: 3\n\n")]);
    let load = |thresholds: &str| {
        format!(
            "runner: {{ constant: {{ times: 80, concurrency: 40 }} }}\n\
             iteration: [ {{ action: a, get: /, stream: events }}, {{ action: b, get: /, stream: events }} ]\n\
             sla: {{ thresholds: [ {thresholds} ] }}"
        )
    };
    let passing = "p90(first) < 4s, 'p90(action \"b\" gap) < 4s', p50(gap) < 4s";
    each_version(&slow, &load(passing), |ended, results| {
        assert_eq!(ended.code, Some(0), "{:#}", results["verdict"]);
    });
    for failing in ["p50(first) < 20ms", "p90(gap) < 60ms", "'p10(action \"a\" first) < 20ms'"] {
        each_version(&slow, &load(failing), |ended, results| {
            assert_eq!(ended.code, Some(2), "{failing}: {:#}", results["verdict"]);
        });
    }
}

/// A request that fails before its first event must not make the times of the others look good.
#[test]
fn failures_count_as_late_first_events() {
    let refused = StreamScript { status: 503, ..events(&[]) };
    let load = "runner: { constant: { times: 100, concurrency: 2 } }\n\
                iteration: [ { action: a, get: /, stream: events } ]\nsla: { thresholds: [ p95(first) < 10s ] }";
    each_version(&refused, load, |ended, results| {
        assert_eq!(ended.code, Some(2), "{:#}", results["verdict"]);
    });
}

#[test]
fn times_of_streams_need_a_stream() {
    let bench = Bench::new();
    for (step, threshold) in [
        ("get: /", "p95(first) < 1s"),
        ("get: /, stream: events }, { action: b, get: /", "'p95(action \"b\" gap) < 1s'"),
    ] {
        let load = format!(
            "runner: {{ serial: {{ times: 1 }} }}\niteration: [ {{ action: a, {step} }} ]\nsla: {{ thresholds: [ {threshold} ] }}"
        );
        bench.load("http://127.0.0.1:9", "", &load);
        let ended = bench.run(&["validate", "scenario.yaml"]).expect_code(65);
        assert!(ended.stderr.contains("is about is answered by a stream"), "{}", ended.stderr);
    }
}

/// Several users share a connection. Each gets its own events in time, whichever of them reads the socket.
#[test]
fn streams_share_a_connection() {
    let server = StreamServer::http2(events(&CHAT));
    let StreamServer::Http2(counted) = &server else { unreachable!() };
    let bench = Bench::new();
    let load = "runner: { constant: { times: 60, concurrency: 20 } }\n\
                iteration: [ { action: a, get: /, stream: { as: events, until: '[DONE]' } } ]";
    bench.load(&server.url(), "http: { version: 2 }", &format!("http: {{ connections: shared }}\n{load}"));
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let results = bench.results();
    let action = &results["workloads"][0]["actions"][0];
    assert_eq!(action["streams"]["messages"], 180, "{:#}", results["workloads"][0]["errors"]);
    assert!(counted.connections() < 20, "{}", counted.connections());
    assert!(to_the_last_event_ms(action, 2.0) >= 149.0, "{action:#}");
}

/// More than a server may send ahead of its reader.
#[test]
fn a_long_stream_is_read_to_its_end() {
    let large = format!("data: {}\n\n", "x".repeat(100_000)).repeat(30);
    let script = events(&[(0, &large)]);
    all_succeed(&script, "stream: events, expect: { messages: 30 }", |action| {
        assert_eq!(action["bytes_received"], 3 * large.len());
    });
}

/// What did not come in time must not make the times of the rest look good.
#[test]
fn silence_counts_against_a_gate() {
    let silent = events(&[(400, "data: late\n\n")]);
    let stalling = events(&[(0, "data: 1\n\n"), (0, "data: 2\n\n"), (900, "data: 3\n\n")]);
    let load = |threshold: &str| {
        format!(
            "runner: {{ constant: {{ times: 60, concurrency: 30 }} }}\n\
             iteration: [ {{ action: a, get: /, stream: {{ as: events, for: 150ms }} }} ]\n\
             sla: {{ thresholds: [ {threshold} ] }}"
        )
    };
    for (script, threshold) in
        [(&silent, "p90(first) < 10s"), (&stalling, "max(gap) < 60ms"), (&silent, "p50(receive) < 20ms")]
    {
        each_version(script, &load(threshold), |ended, results| {
            assert_eq!(ended.code, Some(2), "{threshold}: {:#}", results["verdict"]);
        });
    }
    each_version(&silent, &load("p90(wait) < 60s"), |ended, results| {
        let workload = &results["workloads"][0];
        let streams = &workload["actions"][0]["streams"];
        // On a busy machine, an answer may not even begin in time: that is no stream.
        let begun = workload["iterations"]["ok"].as_u64().unwrap();
        assert!(begun >= 40, "{:#}", workload["errors"]);
        assert_eq!((&streams["without_message"], &streams["first"]["count"]), (&begun.into(), &0.into()));
        let said = format!(" in {begun} streams, {begun} without any");
        assert!(ended.stdout.contains(&said), "{said}: {}", ended.stdout);
    });
}

#[test]
fn a_stream_that_is_late_keeps_what_came() {
    let step = load("stream: events").replace("5s", "300ms");
    each_version(&endless((20, "data: tick\n\n")), &step, |_, results| {
        let action = &results["workloads"][0]["actions"][0];
        assert!(action["streams"]["messages"].as_u64() >= Some(3), "{action:#}");
        assert_eq!(action["streams"]["first"]["count"], 3, "{action:#}");
    });
}

#[test]
fn streams_that_cannot_work_are_faults() {
    let bench = Bench::new();
    for (step, message) in [
        ("get: /, stream: { as: events, for: 60s }", "`for` is not shorter than the action's time limit"),
        ("get: /, timeout: 1s, stream: { as: events, for: 1s }", "`for` is not shorter"),
        ("get: /, stream: { as: events, for: 0s }", "`for` is zero"),
        ("head: /, stream: events", "the answer to HEAD has no body"),
        ("get: /, stream: events, poll: {}", "`stream` together with `poll`"),
        ("get: /, stream: { as: events, max_event: 0B }", "`max_event` is zero"),
        ("get: /, stream: { as: events, until: '' }", "`until` names nothing"),
        ("get: /, stream: { as: events, until: { json: {} } }", "`until` names nothing"),
        ("get: /, stream: { as: events, until: '{{ iteration }}' }", "this text of `until` has no templates"),
        ("get: /, stream: { as: lines, until: { event: x } }", "only server-sent events have a type"),
        ("get: /, stream: { as: chunks, tokens: $.n }", "`tokens` reads whole events, not chunks"),
    ] {
        let load = format!("runner: {{ serial: {{ times: 1 }} }}\niteration: [ {{ action: a, {step} }} ]");
        bench.load("http://127.0.0.1:9", "", &load);
        let ended = bench.run(&["validate", "scenario.yaml"]).expect_code(65);
        assert!(ended.stderr.contains(message), "{step}: {}", ended.stderr);
    }
    bench.load("http://127.0.0.1:9", "", "runner: { serial: { times: 1 } }\niteration: [ get: / ]");
    let scenario = ["ab", "scenario.yaml", "-d", "deployment.yaml", "--metric", "p95(first)"];
    let ended = bench.run(&[&scenario[..], &["--target-a", "default", "--target-b", "default"]].concat());
    assert!(ended.stderr.contains("that `p95(first)` is about is answered by a stream"), "{}", ended.stderr);
}
