//! Streams of real services: sse-starlette with OpenTelemetry, as services of language models use it, and Node's HTTP/2
//! (`tests/real/streams.sh`, `tests/streams`). Each test starts its own, on a free port.

use std::process::Command;

use crate::started::StartedService;
use crate::support::{Bench, free_address, service};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/streams");
const SCENARIO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios/chat-completions.yaml");

fn setting(name: &str) -> Option<String> {
    service(&format!("BENCH_TEST_STREAMS_{name}"), "what tests/real/streams.sh printed")
}

/// The chat in Python, with these options.
fn chat(options: &[&str]) -> Option<StartedService> {
    let mut command = Command::new(setting("PYTHON")?);
    Some(StartedService::start(command.arg(format!("{FOLDER}/chat.py")).args(options)))
}

#[test]
fn the_shipped_scenario_reads_real_chats() {
    let Some(chat) = chat(&[]) else { return };
    let bench = Bench::new();
    let mut command = bench.command(&["run", SCENARIO]);
    let ended = Bench::end(command.env("CHAT_URL", chat.url()).env("CHAT_MODEL", "small"));
    let ended = ended.expect_code(0);
    let results = bench.results();
    let action = &results["workloads"][0]["actions"][0];
    let streams = &action["streams"];
    // A first event without a token, ten tokens, and the usage; `[DONE]` is none.
    let expected = [("streams", 40), ("messages", 480), ("tokens", 400)];
    for (key, number) in expected {
        assert_eq!(streams[key], number, "{key}: {streams:#}");
    }
    assert_eq!((&streams["first"]["count"], &streams["gap"]["count"]), (&40.into(), &440.into()));
    // A busy service may end its answer so long after the last event that the connection is given up.
    let opened = action["connections_opened"].as_u64().unwrap();
    assert!((4..=12).contains(&opened), "{action:#}");
    assert!(
        ended.stdout.contains("chat: first message") && ended.stdout.contains("400 tokens ("),
        "{}",
        ended.stdout
    );
    let mut command = bench.command(&["run", SCENARIO, "--once", "--verbose"]);
    let ended = Bench::end(command.env("CHAT_URL", chat.url()).env("CHAT_MODEL", "none"));
    assert!(ended.stderr.contains("answered 404"), "{}", ended.stderr);
    assert!(ended.stdout.contains("no such model"), "{}", ended.stdout);
}

/// One chat of ten calls a slow tool: its span is named, and the first message is late.
#[test]
fn a_slow_tool_of_a_real_chat_is_named() {
    let receiver = free_address();
    let Some(chat) = chat(&["--spans", &format!("http://{receiver}/v1/traces")]) else { return };
    for (slow_ms, is_planted) in [(300, true), (2, false)] {
        let steps = format!(
            "warm_up: {{ times: 20 }}
runner: {{ constant: {{ times: 300, concurrency: 2 }} }}
iteration:
  - action: chat
    post: /v1/chat/completions
    json:
      model: small
      messages: [{{ role: user, content: 'tool {{{{ {slow_ms} if iteration % 10 == 0 else 2 }}}}' }}]
    stream: {{ as: events, until: '[DONE]', each: {{ $.object: chat.completion.chunk }} }}
    expect: {{ messages: 11 }}"
        );
        let span = ("assistant", "execute_tool search");
        let results = chat.is_cause_named(receiver, &steps, span, is_planted);
        let first = &results["workloads"][0]["actions"][0]["streams"]["first"];
        let late = first["max_ms"].as_f64().unwrap();
        assert!(!is_planted || late >= 300.0, "{first:#}");
    }
}

#[test]
fn real_streams_without_an_end_are_left() {
    let Some(chat) = chat(&[]) else { return };
    for end in ["max: 10", "for: 2s", "until: { event: x }, max: 10"] {
        let bench = Bench::new();
        let steps = format!(
            "runner: {{ constant: {{ times: 20, concurrency: 4 }} }}\niteration:\n  \
             - {{ get: /ticks, stream: {{ as: events, {end} }}, expect: {{ messages: {{ ge: 2 }}, body: {{ matches: '^line one of \\d+\\nline two$' }} }} }}"
        );
        bench.load(&chat.url(), "", &steps);
        bench.run(&["run", "scenario.yaml"]).expect_code(0);
        let workload = &bench.results()["workloads"][0];
        assert_eq!(workload["iterations"]["ok"], 20, "{:#}", workload["errors"]);
    }
}

#[test]
fn real_streams_of_node_come_over_http2_in_each_compression() {
    let Some(node) = setting("NODE") else { return };
    let service = StartedService::start(Command::new(node).arg(format!("{FOLDER}/events.js")));
    for encoding in ["identity", "gzip", "br"] {
        let bench = Bench::new();
        let steps = format!(
            "runner: {{ constant: {{ times: 40, concurrency: 4 }} }}
iteration:
  - {{ action: events, get: /events, headers: {{ accept-encoding: {encoding} }}, stream: events, expect: {{ messages: 8, json: {{ $.n: 8 }} }} }}
  - {{ action: lines, get: /lines, headers: {{ accept-encoding: {encoding} }}, stream: {{ as: lines, until: {{ json: {{ $.n: 5 }} }} }}, expect: {{ messages: 5 }} }}"
        );
        bench.load(&service.url(), "http: { version: 2 }", &steps);
        bench.run(&["run", "scenario.yaml"]).expect_code(0);
        let workload = &bench.results()["workloads"][0];
        assert_eq!(workload["iterations"]["ok"], 40, "{encoding}: {:#}", workload["errors"]);
        for (action, gaps) in workload["actions"].as_array().unwrap().iter().zip([7.0, 4.0]) {
            let mean = |of: &str| action["streams"][of]["mean_ms"].as_f64().unwrap();
            let to_the_last = mean("first") + gaps * mean("gap");
            assert!(to_the_last >= 10.0 * (gaps + 1.0) - 1.0, "{encoding}: {action:#}");
            assert_eq!(action["http2"], 40, "{action:#}");
        }
    }
}
