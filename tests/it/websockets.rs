//! WebSocket against a server that sends the bytes that a test wants: what is measured, and the errors for what is not valid.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress};
use serde_json::Value;
use sha1::{Digest as _, Sha1};

use crate::server::{After, ScriptedRequest, ScriptedServer, Wire};
use crate::support::{Bench, free_address};

const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;
const LAST_PONG: u8 = LAST | PONG;
/// The last frame of a message.
const LAST: u8 = 0x80;
/// The first frame of a compressed message.
const COMPRESSED: u8 = 0x40;

/// The headers of an answer 101 to this request.
fn agreed(request: &ScriptedRequest) -> Vec<(&'static str, String)> {
    let key = &request.headers["sec-websocket-key"];
    let hash = Sha1::new().chain_update(key).chain_update("258EAFA5-E914-47DA-95CA-C5AB0DC85B11").finalize();
    vec![
        ("upgrade", "WebSocket".to_owned()),
        ("connection", "keep-alive, Upgrade".to_owned()),
        ("sec-websocket-accept", BASE64_STANDARD.encode(hash)),
    ]
}

/// An answer 101 with these headers.
fn head(headers: &[(&'static str, String)]) -> Vec<u8> {
    let lines: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!("HTTP/1.1 101 Switching Protocols\r\n{lines}\r\n").into_bytes()
}

/// A frame as a server sends it.
fn frame(first: u8, content: &[u8]) -> Vec<u8> {
    let mut frame = vec![first];
    match content.len() {
        length @ ..126 => frame.push(u8::try_from(length).unwrap()),
        length @ 126..65536 => {
            frame.push(126);
            frame.extend(u16::try_from(length).unwrap().to_be_bytes());
        }
        length => {
            frame.push(127);
            frame.extend((length as u64).to_be_bytes());
        }
    }
    frame.extend(content);
    frame
}

fn text(content: &str) -> Vec<u8> {
    frame(LAST | TEXT, content.as_bytes())
}

fn close(code: u16, reason: &str) -> Vec<u8> {
    frame(LAST | CLOSE, &[&code.to_be_bytes(), reason.as_bytes()].concat())
}

/// The next frame of the client: its first byte and its content. It must be masked.
fn read_frame(wire: &mut Wire<'_>) -> Option<(u8, Vec<u8>)> {
    let mut start = [0; 2];
    wire.read(&mut start).then_some(())?;
    assert_eq!(start[1] & 0x80, 0x80, "clients mask their frames");
    let mut long = [0; 2];
    let length = match start[1] & 0x7f {
        126 => wire.read(&mut long).then(|| u16::from_be_bytes(long).into())?,
        127 => panic!("a test sends short messages"),
        short => usize::from(short),
    };
    let (mut mask, mut content) = ([0; 4], vec![0; length]);
    (wire.read(&mut mask) && wire.read(&mut content)).then_some(())?;
    content.iter_mut().zip(mask.iter().cycle()).for_each(|(byte, mask)| *byte ^= mask);
    Some((start[0], content))
}

/// Agrees to each handshake, answers each message by these bytes, and a closing frame by the same.
fn answering(answer: impl Fn(&[u8]) -> Vec<u8> + Send + Sync + 'static) -> ScriptedServer {
    ScriptedServer::start(move |request, wire| {
        wire.send(head(&agreed(request)));
        while let Some((first, content)) = read_frame(wire) {
            if first == LAST | CLOSE {
                wire.send(frame(first, &content));
                return After::Close;
            }
            wire.send(answer(&content));
        }
        After::Close
    })
}

/// Agrees to a handshake, sends the first message back, and closes with the same words.
pub(crate) fn echo_once(request: &ScriptedRequest, wire: &mut Wire<'_>) -> After {
    wire.send(head(&agreed(request)));
    if let Some((_, content)) = read_frame(wire) {
        wire.send(frame(LAST | TEXT, &content));
        wire.send(close(1011, &String::from_utf8_lossy(&content).chars().take(30).collect::<String>()));
    }
    After::Close
}

fn load(steps: &str) -> String {
    format!(
        "runner: {{ serial: {{ times: 3 }} }}\niteration:\n  - action: open\n    websocket: /chat\n    max_body: 100KiB\n    \
         steps: [ {steps} ]"
    )
}

/// The results of three iterations of a load, and what the run said.
fn run(server: &ScriptedServer, load: &str) -> (Value, String) {
    let bench = Bench::new();
    bench.load(&server.url(), "", load);
    let ended = bench.run(&["run", "scenario.yaml"]);
    (bench.results(), format!("{}{}", ended.stdout, ended.stderr))
}

fn all_succeed(server: &ScriptedServer, steps: &str) -> Value {
    let (results, said) = run(server, &load(steps));
    let workload = &results["workloads"][0];
    assert_eq!(workload["iterations"]["ok"], 3, "{steps}: {:#}\n{said}", workload["errors"]);
    results
}

fn all_fail(server: &ScriptedServer, load: &str, class: &str, message: &str) {
    let (results, said) = run(server, load);
    let errors = &results["workloads"][0]["errors"];
    let error = &errors[0];
    assert_eq!((&error["count"], &error["class"]), (&3.into(), &class.into()), "{load}: {errors:#}\n{said}");
    assert!(error["message"].as_str().unwrap().contains(message), "{load}: {error:#}");
}

const ASK: &str = "{ action: ask, send: hello, receive: { text: yes }, timeout: 5s }";

#[test]
fn valid_messages_are_taken_however_they_come() {
    let mut fragments = frame(TEXT, b"y");
    fragments.extend(frame(LAST | PING, b"there?"));
    fragments.extend(frame(0, b""));
    fragments.extend(frame(LAST, b"es"));
    let long = "yes".repeat(30_000);
    for (what, answer) in [
        ("in one frame", text("yes")),
        ("in fragments with a ping between", fragments),
        ("after others", [text("no"), text(""), frame(LAST | BINARY, &[255; 200]), text("yes")].concat()),
        ("after a pong without a ping", [frame(LAST | PONG, b"x"), text("yes")].concat()),
        ("with 16 bits of length", text(&long[..60_000])),
        ("with 64 bits of length", text(&long)),
        ("as bytes", frame(LAST | BINARY, b"yes")),
    ] {
        let length = answer.len();
        let server = answering(move |content| if content == b"hello" { answer.clone() } else { Vec::new() });
        let results = all_succeed(&server, ASK);
        let action = &results["workloads"][0]["actions"][1];
        assert_eq!(
            (&action["name"], &action["requests"]["ok"]),
            (&"ask".into(), &3.into()),
            "{what}: {action:#}"
        );
        assert!(action["bytes_received"].as_u64() <= Some(3 * length as u64), "{what}: {action:#}");
        assert_eq!(action["status"], serde_json::json!({}), "{what}: {action:#}");
        assert!(action["phases"]["wait_ms"].as_f64() > Some(0.0), "{what}: {action:#}");
    }
}

#[test]
fn what_comes_with_the_answer_to_the_handshake_is_not_lost() {
    let server = ScriptedServer::start(|request, wire| {
        wire.send([head(&agreed(request)), text("welcome"), text("yes")].concat());
        while let Some((first, content)) = read_frame(wire) {
            wire.send(frame(first, &content));
        }
        After::Close
    });
    all_succeed(
        &server,
        "{ receive: { text: { equals: welcome } } }, { action: b, receive: true, expect: { body: yes } }",
    );
}

#[test]
fn pings_are_answered_while_the_scenario_thinks_and_messages_are_kept() {
    let server = ScriptedServer::start(|request, wire| {
        wire.send(head(&agreed(request)));
        for number in 0..5 {
            wire.pause(Duration::from_millis(10));
            let ping = format!("{number}");
            wire.send([text(&ping), frame(LAST | PING, ping.as_bytes())].concat());
            // Without its pong, nothing goes on.
            let Some((first, content)) = read_frame(wire) else { return After::Close };
            assert_eq!((first, content), (LAST | PONG, ping.into_bytes()));
        }
        wire.send(text("last"));
        while let Some((first, content)) = read_frame(wire) {
            wire.send(frame(first, &content));
        }
        After::Close
    });
    all_succeed(&server, "{ think: 300ms }, { receive: { text: last } }");
    all_succeed(&server, "{ think: 300ms }, { receive: { count: 6 }, expect: { messages: 6, body: last } }");
}

#[test]
fn several_messages_are_measured_as_a_stream() {
    let server = ScriptedServer::start(|request, wire| {
        wire.send(head(&agreed(request)));
        while let Some((first, content)) = read_frame(wire) {
            if first == LAST | CLOSE {
                wire.send(frame(first, &content));
                return After::Close;
            }
            for number in 0..4 {
                wire.pause(Duration::from_millis(20));
                wire.send([text("tick"), text(&format!("{{\"n\": {number}}}"))].concat());
            }
        }
        After::Close
    });
    for (receive, most) in [("{ json: { $.n: { ge: 0 } }, count: 4 }", 12), ("{ text: n, for: 400ms }", 12)] {
        let steps = format!(
            "{{ action: ask, send: go, receive: {receive}, expect: {{ messages: 4, json: {{ $.n: 3 }} }} }}"
        );
        let results = all_succeed(&server, &steps);
        let streams = &results["workloads"][0]["actions"][1]["streams"];
        assert_eq!((&streams["streams"], &streams["messages"]), (&3.into(), &most.into()), "{streams:#}");
        assert!(streams["first"]["min_ms"].as_f64() >= Some(19.0), "{streams:#}");
        // Time that passes after the last message is a gap, too, if reading ends before the stream.
        assert!(streams["gap"]["count"].as_u64() >= Some(9), "{streams:#}");
    }
}

#[test]
fn pings_and_closing_are_actions() {
    let server = answering(|content| match content {
        b"bench" => [text("between"), frame(LAST | PONG, b"another"), frame(LAST | PONG, b"bench")].concat(),
        _ => Vec::new(),
    });
    let steps = "{ ping: true }, { receive: true, expect: { body: between } }, { close: { code: 4001, reason: bye }, expect: { body: bye } }";
    let results = all_succeed(&server, steps);
    let actions = &results["workloads"][0]["actions"];
    let names: Vec<&str> =
        actions.as_array().unwrap().iter().map(|action| action["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["open", "ping", "receive", "close"]);
    assert_eq!(actions[3]["status"], serde_json::json!({"4001": 3}));
    assert_eq!(actions[0]["status"], serde_json::json!({"101": 3}));
    // Nothing can be sent over what is closed.
    let closed = load("{ close: 1000 }, { send: hello }");
    all_fail(&server, &closed, "request", "the WebSocket is closed: remove this step");
}

#[test]
fn the_end_by_the_service_can_be_waited_for() {
    let server = answering(|_| [text("one"), close(4001, "not you")].concat());
    let step = "{ action: end, send: hello, receive: { close: CODE }, expect: { body: not you } }";
    let results = all_succeed(&server, &step.replace("CODE", "4001"));
    assert_eq!(results["workloads"][0]["actions"][1]["status"], serde_json::json!({"4001": 3}));
    all_fail(&server, &load(&step.replace("CODE", "4002")), "status", "answered 4001, expected 4002");
    let silent = answering(|_| text("one"));
    let step =
        step.replace("CODE", "4001, timeout: 100ms").replace(", timeout: 100ms }", " }, timeout: 100ms");
    all_fail(&silent, &load(&step), "timeout", "before the service had closed the WebSocket");
}

/// A service that ends a WebSocket too early is a failure, whatever the scenario does at that moment.
#[test]
fn an_early_end_by_the_service_is_a_failure_of_whatever_comes_next() {
    let after = |end: Option<Vec<u8>>| {
        ScriptedServer::start(move |request, wire| {
            wire.send([head(&agreed(request)), text("welcome")].concat());
            wire.send(end.clone().unwrap_or_default());
            match end {
                // Until the client closes, too.
                Some(_) => drop(read_frame(wire)),
                None => return After::Reset,
            }
            After::Close
        })
    };
    let out_of_memory = "the service closed the WebSocket: 1011 internal error: oom";
    for (end, message) in [
        (Some(close(1011, "oom")), out_of_memory),
        (Some(close(1001, "")), "the service closed the WebSocket: 1001 going away"),
        (None, "the connection was closed"),
    ] {
        let server = after(end);
        for steps in [
            "{ think: 100ms }",
            "{ think: 100ms }, { send: a }",
            "{ think: 100ms }, { send: a, receive: true }",
            "{ think: 100ms }, { ping: true }",
            "{ receive: true }, { think: 50ms }",
            "{ think: 50ms }, { receive: true }, { action: b, receive: true }",
        ] {
            all_fail(&server, &load(steps), "closed", message);
        }
    }
    // A close step tells its code, at whatever moment it comes.
    let server = after(Some(close(4001, "bye")));
    for steps in ["{ think: 100ms }, { close: 1000 }", "{ close: 1000 }"] {
        all_fail(&server, &load(steps), "status", "answered 4001, expected 1000 or 1005");
    }
    let server = after(Some(close(1000, "")));
    for steps in [
        "{ think: 50ms }",
        "{ close: 1000 }",
        "{ think: 50ms }, { close: 1000 }",
        "{ receive: { for: 4s }, expect: { messages: 1, latency: 3s } }",
    ] {
        all_succeed(&server, steps);
    }
}

/// Steps that wait for nothing make no other's wait look shorter.
#[test]
fn only_steps_that_wait_count_as_waiting() {
    let server = answering(|content| {
        if content == b"ask" {
            std::thread::sleep(Duration::from_millis(60));
            return text("yes");
        }
        Vec::new()
    });
    let steps = "{ repeat: 30, steps: [ { send: tell } ] }, { action: ask, send: ask, receive: true }";
    let gate = format!("{}\nsla: {{ thresholds: [ 'p95(wait) < 50ms', 'p50(send) < 50s' ] }}", load(steps));
    let bench = Bench::new();
    bench.load(&server.url(), "", &gate);
    let ended = bench.run(&["run", "scenario.yaml"]);
    let verdict = &bench.results()["verdict"]["criteria"];
    let outcomes: Vec<&str> =
        verdict.as_array().unwrap().iter().map(|one| one["outcome"].as_str().unwrap()).collect();
    assert_eq!(outcomes, ["FAIL", "PASS"], "{}", ended.stdout);
}

#[test]
fn what_came_before_a_question_is_no_answer() {
    // Each answer comes twice. The second one answers no question.
    let server = ScriptedServer::start(|request, wire| {
        wire.send([head(&agreed(request)), text("yes, welcome")].concat());
        while let Some((first, content)) = read_frame(wire) {
            if first == LAST | CLOSE {
                wire.send(frame(first, &content));
                return After::Close;
            }
            wire.pause(Duration::from_millis(40));
            wire.send(text("yes"));
            wire.pause(Duration::from_millis(20));
            wire.send(text("yes"));
        }
        After::Close
    });
    let steps = format!("{{ think: 50ms }}, {{ repeat: 3, steps: [ {ASK}, {{ think: 60ms }} ] }}");
    let results = all_succeed(&server, &steps);
    let action = &results["workloads"][0]["actions"][1];
    assert!(action["service_time"]["min_ms"].as_f64() >= Some(39.0), "{action:#}");
    // A message that was kept is as old as it is.
    let steps = "{ send: a }, { think: 200ms }, { receive: { text: yes, count: 3 } }";
    let gaps = &all_succeed(&server, steps)["workloads"][0]["actions"][2]["streams"]["gap"];
    assert!(gaps["max_ms"].as_f64() >= Some(35.0) && gaps["min_ms"].as_f64() >= Some(15.0), "{gaps:#}");
}

/// Whatever an iteration does over other connections, its WebSocket lives on.
#[test]
fn pings_are_answered_while_other_steps_run() {
    let server = ScriptedServer::start(|request, wire| {
        if request.path != "/chat" {
            wire.pause(Duration::from_millis(150));
            let done = format!("{{\"done\": {}}}", request.nth_of_connection > 0);
            return wire.answer("200 OK", "application/json", done);
        }
        wire.send(head(&agreed(request)));
        for _ in 0..3 {
            wire.pause(Duration::from_millis(20));
            wire.send(frame(LAST | PING, b"there?"));
            // The next ping comes only after the pong.
            let Some((LAST_PONG, _)) = read_frame(wire) else { return After::Close };
        }
        wire.send(text("alive"));
        while let Some((first, content)) = read_frame(wire) {
            wire.send(frame(first, &content));
        }
        After::Close
    });
    for step in [
        "{ get: /slow }",
        "{ get: /slow, poll: { interval: 300ms, until: '{{ done }}' }, extract: { done: { json: $.done } } }",
        "{ together: both, steps: [ { think: 200ms }, { get: /slow } ] }",
        "{ pace: 200ms }",
    ] {
        let steps = format!("{step}, {{ receive: {{ text: alive }}, timeout: 1ms }}");
        all_succeed(&server, &steps);
    }
}

#[test]
fn what_the_standard_forbids_is_refused() {
    let masked = || [&[LAST | TEXT, 0x83, 0, 0, 0, 0][..], b"yes"].concat();
    let rows: Vec<(&str, Vec<u8>, &str, &str)> = vec![
        ("a masked frame", masked(), "protocol", "not valid WebSocket: unexpected masked frame"),
        ("a reserved bit", frame(LAST | 0x40 | TEXT, b"yes"), "protocol", "invalid extension"),
        ("an unknown kind", frame(LAST | 3, b"yes"), "protocol", "invalid opcode"),
        ("a ping in fragments", frame(PING, b"yes"), "protocol", "fragmented control frame"),
        ("a long ping", frame(LAST | PING, &[b'y'; 126]), "protocol", "invalid payload length"),
        ("a text that is not UTF-8", frame(LAST | TEXT, b"yes\xff"), "protocol", "invalid utf-8"),
        ("a rest without a beginning", frame(LAST, b"yes"), "protocol", "not valid WebSocket"),
        ("a code that nobody may send", close(1006, ""), "protocol", "invalid close code"),
        (
            "a length that no memory has",
            [&[LAST | TEXT, 127][..], &(1_u64 << 62).to_be_bytes()].concat(),
            "body_limit",
            "raise `max_body`",
        ),
        ("a message beyond the limit", text(&"yes".repeat(50_000)), "body_limit", "raise `max_body`"),
        (
            "the end",
            close(1011, "out of rooms"),
            "closed",
            "the service closed the WebSocket: 1011 internal error: out of rooms",
        ),
        ("the end without a code", frame(LAST | CLOSE, b""), "closed", "1005 no code"),
    ];
    for (what, answer, class, message) in rows {
        let server = answering(move |_| answer.clone());
        for action in [ASK, "{ action: ask, send: hello, receive: true }"] {
            let (results, said) = run(&server, &load(action));
            let error = &results["workloads"][0]["errors"][0];
            assert_eq!(
                (&error["count"], &error["class"]),
                (&3.into(), &class.into()),
                "{what}: {error:#}\n{said}"
            );
            assert!(error["message"].as_str().unwrap().contains(message), "{what}: {error:#}");
        }
    }
}

/// The service gets a closing frame at once: its own code back, or the code of what it did wrong.
#[test]
fn an_end_is_answered_and_a_broken_rule_is_named() {
    let masked = [&[LAST | TEXT, 0x83, 0, 0, 0, 0][..], b"yes"].concat();
    let codes: [(&str, Vec<u8>, Option<u16>); 8] = [
        ("a code", close(4001, "bye"), Some(4001)),
        ("the usual one", close(1000, ""), Some(1000)),
        ("no code", frame(LAST | CLOSE, b""), None),
        ("a masked frame", masked, Some(1002)),
        ("a wrong code", close(1006, ""), Some(1002)),
        ("a text that is not UTF-8", frame(LAST | TEXT, b"yes\xff"), Some(1007)),
        ("the same while more comes", [frame(TEXT, b"\xff"), vec![0; 1000]].concat(), Some(1007)),
        ("a long message", text(&"yes".repeat(50_000)), Some(1009)),
    ];
    for (what, answer, expected) in codes {
        let told = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&told);
        let server = ScriptedServer::start(move |request, wire| {
            wire.send(head(&agreed(request)));
            let _ = read_frame(wire);
            wire.send(&answer);
            while let Some((first, content)) = read_frame(wire) {
                seen.lock().unwrap().push((first, content));
            }
            After::Close
        });
        for steps in [ASK, "{ send: hello }, { think: 50ms }"] {
            run(&server, &load(steps));
            let expected = expected.map(|code| code.to_be_bytes().to_vec()).unwrap_or_default();
            let began = std::time::Instant::now();
            while told.lock().unwrap().len() < 3 && began.elapsed() < Duration::from_secs(5) {
                std::thread::sleep(Duration::from_millis(5));
            }
            let told = std::mem::take(&mut *told.lock().unwrap());
            assert_eq!(told, vec![(LAST | CLOSE, expected); 3], "{what}: {steps}");
        }
    }
}

#[test]
fn messages_are_compressed_if_both_sides_agree() {
    let deflate = |content: &[u8]| {
        let mut packed = Vec::with_capacity(content.len() + 100);
        Compress::new(Compression::best(), false)
            .compress_vec(content, &mut packed, FlushCompress::Sync)
            .unwrap();
        packed.truncate(packed.len() - 4);
        packed
    };
    let inflate = |packed: &[u8]| {
        let mut content = Vec::with_capacity(10_000);
        let packed = [packed, &[0, 0, 0xff, 0xff]].concat();
        Decompress::new(false).decompress_vec(&packed, &mut content, FlushDecompress::Sync).unwrap();
        content
    };
    let offers = "permessage-deflate; server_no_context_takeover";
    for is_accepted in [true, false] {
        let server = ScriptedServer::start(move |request, wire| {
            let mut headers = agreed(request);
            assert_eq!(request.headers["sec-websocket-extensions"], offers);
            if is_accepted {
                headers.push(("Sec-WebSocket-Extensions", offers.to_owned()));
            }
            wire.send(head(&headers));
            while let Some((first, content)) = read_frame(wire) {
                if first == LAST | CLOSE {
                    wire.send(frame(first, &content));
                    return After::Close;
                }
                let is_long = content.len() > 5;
                assert_eq!(first & COMPRESSED != 0, is_accepted && is_long, "{first:x}");
                if first & COMPRESSED == 0 {
                    wire.send(frame(first, &content));
                    continue;
                }
                // 9,000 bytes of a word.
                assert!(content.len() < 100, "{}", content.len());
                let packed = deflate(&inflate(&content));
                wire.send(frame(first & !LAST, &packed[..5]));
                wire.send([frame(LAST | PING, b"there?"), frame(LAST, &packed[5..])].concat());
                assert_eq!(read_frame(wire), Some((LAST | PONG, b"there?".to_vec())));
            }
            After::Close
        });
        let long = "bench ".repeat(1500);
        let steps = format!(
            "{{ repeat: 2, steps: [ {{ send: '{long}', receive: true, expect: {{ body: {{ equals: '{long}' }} }} }}, \
             {{ action: short, send: cup, receive: true, expect: {{ body: cup }} }} ] }}"
        );
        let steps = load(&steps).replace(
            "max_body: 100KiB",
            &format!("max_body: 100KiB\n    headers: {{ Sec-WebSocket-Extensions: '{offers}' }}"),
        );
        let (results, said) = run(&server, &steps);
        let workload = &results["workloads"][0];
        assert_eq!(workload["iterations"]["ok"], 3, "{is_accepted}: {:#}\n{said}", workload["errors"]);
        // Bytes count as the scenario sees them.
        assert_eq!(workload["actions"][1]["bytes_received"], 6 * 9000, "{:#}", workload["actions"][1]);
    }
}

#[test]
fn compression_that_does_not_fit_is_refused() {
    let zeros = {
        let mut packed = Vec::with_capacity(100_000);
        let mut compress = Compress::new(Compression::best(), false);
        compress.compress_vec(&vec![0; 10 << 20], &mut packed, FlushCompress::Sync).unwrap();
        packed
    };
    for (answer, content, class, message) in [
        (
            "permessage-deflate; client_max_window_bits=10",
            text("yes"),
            "protocol",
            "other parameters than those",
        ),
        ("permessage-deflate; level=9", text("yes"), "protocol", "`level` is none of its parameters"),
        ("permessage-bzip2", text("yes"), "protocol", "an extension that was not offered"),
        ("permessage-deflate", frame(LAST | COMPRESSED | TEXT, &[0xff; 9]), "protocol", "message is damaged"),
        ("permessage-deflate", frame(LAST | COMPRESSED | BINARY, &zeros), "body_limit", "raise `max_body`"),
        ("permessage-deflate", frame(LAST | COMPRESSED | PING, b""), "protocol", "invalid extension"),
    ] {
        let server = ScriptedServer::start(move |request, wire| {
            let mut headers = agreed(request);
            headers.push(("Sec-WebSocket-Extensions", answer.to_owned()));
            wire.send([head(&headers), content.clone()].concat());
            while read_frame(wire).is_some() {}
            After::Close
        });
        let offer = "max_body: 100KiB\n    headers: { Sec-WebSocket-Extensions: permessage-deflate }";
        let asking = load("{ receive: true }").replace("max_body: 100KiB", offer);
        all_fail(&server, &asking, class, message);
    }
}

#[test]
fn connections_that_end_and_silence_are_told_apart() {
    for (what, answer, after, class, message) in [
        ("the end of the connection", Vec::new(), After::Close, "closed", "the connection was closed"),
        ("half a frame", text("yes")[..3].to_vec(), After::Close, "closed", "the connection was closed"),
        ("a reset", Vec::new(), After::Reset, "closed", "the connection was closed"),
        ("silence", Vec::new(), After::Hang, "timeout", "timed out after 200 ms before a message came"),
        (
            "others",
            text("no"),
            After::Hang,
            "timeout",
            "timed out after 200 ms while other messages came, but none that `receive` describes",
        ),
    ] {
        let server = ScriptedServer::start(move |request, wire| {
            wire.send(head(&agreed(request)));
            let _ = read_frame(wire);
            wire.send(&answer);
            after
        });
        let (results, said) = run(&server, &load(&ASK.replace("5s", "200ms")));
        let error = &results["workloads"][0]["errors"][0];
        assert_eq!(
            (&error["count"], &error["class"]),
            (&3.into(), &class.into()),
            "{what}: {error:#}\n{said}"
        );
        assert!(error["message"].as_str().unwrap().contains(message), "{what}: {error:#}");
    }
}

/// What never ends takes no other user's time and no memory: the action ends at its time limit, and so does the run.
#[test]
fn what_never_ends_is_left_in_time() {
    for (what, endless) in [
        ("messages", text("no")),
        ("pings", frame(LAST | PING, b"there?")),
        ("pongs", frame(LAST | PONG, b"")),
        ("a message of empty fragments", frame(0, b"")),
    ] {
        let server = ScriptedServer::start(move |request, wire| {
            wire.send([head(&agreed(request)), frame(TEXT, b"n")].concat());
            if endless[0] & 0x0f != 0 {
                wire.send(frame(LAST, b"o"));
            }
            let many = endless.repeat(1000);
            while wire.send(&many) {}
            After::Close
        });
        let (results, said) = run(&server, &load(&ASK.replace("5s", "200ms")));
        let error = &results["workloads"][0]["errors"][0];
        assert_eq!(
            (&error["count"], &error["class"]),
            (&3.into(), &"timeout".into()),
            "{what}: {error:#}\n{said}"
        );
        // A run that thinks meanwhile, and closes then, ends, too.
        run(&server, &load("{ think: 100ms }").replace("times: 3", "times: 1"));
    }
}

/// An action without its messages counts as late where the first of them is judged.
#[test]
fn silence_of_a_subscription_counts_against_a_gate() {
    let server = answering(|_| text("no"));
    let receive = "{ action: ask, send: hello, receive: { text: yes, count: 2 }, timeout: 200ms }";
    let silent = format!("{}\nsla: {{ thresholds: [ 'p95(first) < 100s' ] }}", load(receive));
    let bench = Bench::new();
    bench.load(&server.url(), "", &silent);
    let ended = bench.run(&["run", "scenario.yaml"]);
    assert!(ended.stdout.contains("FAIL  p95(first) < 100s"), "{}", ended.stdout);
}

#[test]
fn handshakes_that_do_not_fit_are_refused() {
    type Change = fn(&mut Vec<(&'static str, String)>);
    let rows: [(Change, &str); 6] = [
        (|headers| headers[0].1 = "h2c".to_owned(), "does not change to WebSocket"),
        (|headers| drop(headers.remove(0)), "does not change to WebSocket"),
        (|headers| headers[1].1 = "close".to_owned(), "has no `Connection: Upgrade`"),
        (|headers| headers[2].1 = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=".to_owned(), "does not fit the request"),
        (
            |headers| headers.push(("sec-websocket-extensions", "permessage-deflate".to_owned())),
            "an extension that was not offered",
        ),
        (
            |headers| headers.push(("sec-websocket-protocol", "chat.v2".to_owned())),
            "a subprotocol that was not offered",
        ),
    ];
    for (change, message) in rows {
        let server = ScriptedServer::start(move |request, wire| {
            let mut headers = agreed(request);
            change(&mut headers);
            wire.send(head(&headers));
            After::Hang
        });
        all_fail(&server, &load(ASK), "protocol", message);
    }
    let server = ScriptedServer::start(|_, wire| wire.answer("403 Forbidden", "text/plain", "members only"));
    all_fail(&server, &load(ASK), "status", "answered 403, expected 101");
    // Who expects to be refused has no WebSocket to use.
    let refused = load(ASK).replace("max_body: 100KiB", "expect: { status: 403, body: members }");
    let (results, said) = run(&server, &refused);
    assert_eq!(results["workloads"][0]["iterations"]["ok"], 3, "{said}");
    let server = ScriptedServer::start(|_, wire| wire.answer("200 OK", "text/plain", "hello"));
    all_fail(&server, &load(ASK), "status", "answered 200, expected 101");
}

#[test]
fn a_handshake_says_whose_trace_it_belongs_to_and_what_it_offers() {
    let server = answering(|content| frame(LAST | TEXT, content));
    let bench = Bench::new();
    let steps = load("{ send: { json: { trace: '{{ traceparent }}', one: 1 } }, receive: { json: { $.one: 1 } }, extract: { trace: { json: $.trace } } }, { log: 'in {{ trace }}' }")
        .replace("max_body: 100KiB", "subprotocols: [chat.v1, chat.v2], headers: { x-room: a }".replace(", headers", "\n    headers").as_str());
    bench.load(&server.url(), &format!("profiler: {{ receive: \"{}\" }}", free_address()), &steps);
    let ended = bench.run(&["run", "scenario.yaml"]);
    let seen = server.seen();
    let handshakes: Vec<&ScriptedRequest> = seen.iter().filter(|request| request.path == "/chat").collect();
    let first = handshakes.first().unwrap_or_else(|| panic!("{}{}", ended.stdout, ended.stderr));
    for (name, value) in [
        ("upgrade", "websocket"),
        ("connection", "Upgrade"),
        ("sec-websocket-version", "13"),
        ("sec-websocket-protocol", "chat.v1, chat.v2"),
        ("x-room", "a"),
    ] {
        assert_eq!(first.headers[name], value, "{:?}", first.headers);
    }
    let key = |request: &ScriptedRequest| request.headers["sec-websocket-key"].clone();
    assert!(handshakes.iter().skip(1).all(|other| key(other) != key(first)));
    let trace = first.headers.get("traceparent").unwrap_or_else(|| panic!("{:?}", first.headers)).clone();
    // The same trace, and another point.
    let said = format!("{}{}", ended.stdout, ended.stderr);
    let trace_id = trace.split('-').nth(1).unwrap();
    assert!(said.contains(&format!("in 00-{trace_id}-")) && !said.contains(&trace), "{trace}: {said}");
}

#[test]
fn faults_of_scenarios_are_told_with_their_place() {
    let bench = Bench::new();
    let rows = [
        ("- send: hello", "`send` outside of a WebSocket"),
        ("- { websocket: /a, steps: [ { websocket: /b } ] }", "a WebSocket within another one"),
        (
            "- { websocket: /a, steps: [ { together: t, steps: [ { send: a } ] } ] }",
            "steps within `together` have none open",
        ),
        ("- { websocket: /a, json: {} }", "`json` does not belong to the opening of a WebSocket"),
        ("- { websocket: /a, headers: { Upgrade: x } }", "`Upgrade` is written by bench itself"),
        (
            "- { websocket: /a, headers: { Sec-WebSocket-Extensions: x-webkit-deflate-frame } }",
            "`x-webkit-deflate-frame` is an extension of WebSocket that bench does not have",
        ),
        (
            "- { websocket: /a, headers: { sec-websocket-extensions: permessage-deflate; client_max_window_bits=7 } }",
            "`client_max_window_bits` has no value from 8 to 15",
        ),
        ("- { websocket: /a, headers: { sec-websocket-extensions: permessage-deflate } }", ""),
        ("- { websocket: /a, subprotocols: ['a b'] }", "`a b` is not a subprotocol"),
        ("- { get: /a, subprotocols: [a] }", "`subprotocols` belongs to a WebSocket"),
        ("- { get: /a, steps: [] }", "`steps` does not belong beside `get`"),
        ("- { get: /a, websocket: /b }", "a step with two requests, `get` and `websocket`"),
        (
            "- { websocket: /a, steps: [ { receive: { close: 4001, count: 2 } } ] }",
            "`count` together with `close`",
        ),
        (
            "- { websocket: /a, steps: [ { send: a, headers: { a: b } } ] }",
            "`headers` does not belong to a message",
        ),
        ("- { websocket: /a, steps: [ { send: a, ping: true } ] }", "a step with both `send` and `ping`"),
        ("- { websocket: /a, steps: [ { ping: false } ] }", "`ping: false` does nothing"),
        (
            "- { websocket: /a, steps: [ { receive: {}, send: { json: 1, text: a } } ] }",
            "takes only one key, but has 2",
        ),
        ("- { websocket: /a, steps: [ { send: { binary: '?' } } ] }", "`binary` is not base64"),
        ("- { websocket: /a, steps: [ { receive: { for: 30s } } ] }", "`for` is not shorter"),
        ("- { websocket: /a, steps: [ { receive: { count: 0 } } ] }", "`count` must be at least 1"),
        ("- { websocket: /a, steps: [ { close: 1001 } ] }", "a client does not close with 1001"),
        ("- { websocket: /a, steps: [ { close: { reason: a } }, { send: '{{ traceparent }}' } ] }", ""),
        ("- { websocket: /a, steps: [ { send: a, expect: { status: 200 } } ] }", "has no status"),
        (
            "- { websocket: /a, steps: [ { send: a, expect: { headers: { a: b } } } ] }",
            "`headers` belongs to the step",
        ),
        ("- { get: '/{{ traceparent }}' }", "unknown variable `traceparent`"),
    ];
    for (steps, message) in rows {
        bench.load(
            "http://127.0.0.1:1",
            "",
            &format!("runner: {{ serial: {{ times: 1 }} }}\niteration:\n  {steps}"),
        );
        let ended = bench.run(&["validate", "scenario.yaml"]);
        let expected = if message.is_empty() { "a valid scenario" } else { message };
        let said = format!("{}{}", ended.stdout, ended.stderr);
        assert!(said.contains(expected), "{steps}: {said}");
        assert!(message.is_empty() || said.contains("help:"), "{steps}: {said}");
    }
}
