//! The request settings of a scenario: connections, redirects, compression, limits.

use std::io::Write as _;

use serde_json::Value;

use crate::server::{After, ScriptedRequest, ScriptedServer, Wire};
use crate::support::Bench;

fn workers() -> usize {
    std::thread::available_parallelism().unwrap().get()
}

/// Runs a scenario and gives the results.
#[track_caller]
fn load(url: &str, deployment: &str, scenario: &str) -> Value {
    let bench = Bench::new();
    bench.load(url, deployment, scenario);
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    bench.results()
}

/// Runs one action twice: the first workload's results.
#[track_caller]
fn twice(url: &str, http: &str, action: &str) -> Value {
    let scenario = format!(
        "http: {{ {http} }}\nrunner: {{ serial: {{ times: 2 }} }}\niteration: [ {{ action: a, {action} }} ]"
    );
    load(url, "", &scenario)["workloads"][0].clone()
}

#[track_caller]
fn expect(workload: &Value, name: &str, expected: Result<(), (&str, &str)>) {
    let errors = &workload["errors"];
    match expected {
        Ok(()) => assert_eq!(workload["iterations"]["ok"], 2, "{name}: {errors}"),
        Err((class, part)) => {
            assert_eq!(workload["iterations"]["failed"], 2, "{name}: {errors}");
            assert_eq!(errors[0]["class"], class, "{name}: {errors}");
            assert!(errors[0]["message"].as_str().unwrap().contains(part), "{name}: {errors}");
        }
    }
}

#[test]
fn connections_are_whose_the_scenario_says() {
    for (connections, servers_see) in [
        ("user", 5..=5),
        ("iteration", 50..=50),
        // As many as were needed at a time, at most as many as there are users.
        ("shared", 1..=5),
        ("shared, max_connections: 1", 1..=workers()),
    ] {
        let server = ScriptedServer::start(|_, wire| {
            wire.pause(std::time::Duration::from_millis(2));
            wire.answer("200 OK", "text/plain", "ok")
        });
        let scenario = format!(
            "http: {{ connections: {connections} }}\nrunner: {{ constant: {{ times: 50, concurrency: 5 }} }}\niteration: [ {{ action: a, get: /a }}, {{ action: b, get: /b }} ]"
        );
        let results = load(&server.url(), "", &scenario);
        let workload = &results["workloads"][0];
        assert_eq!(workload["iterations"]["ok"], 50, "{connections}: {}", workload["errors"]);
        let seen = server.connections();
        assert!(servers_see.contains(&seen), "{connections}: {seen} connections");
        let opened =
            |index: usize| workload["actions"][index]["connections_opened"].as_u64().unwrap() as usize;
        assert_eq!(opened(0) + opened(1), seen, "{connections}");
        if !connections.starts_with("shared") {
            assert_eq!(opened(1), 0, "{connections}: kept within the iteration");
        }
    }
}

#[test]
fn a_shared_connection_that_the_server_closed_is_not_used_again() {
    let server = ScriptedServer::start(|_, wire| {
        wire.answer("200 OK", "text/plain", "ok");
        After::Close
    });
    let scenario = "http: { connections: shared }\nrunner: { constant: { times: 20, concurrency: 2 } }\niteration: [ { action: a, get: /a }, { think: 20ms } ]";
    let results = load(&server.url(), "", scenario);
    assert_eq!(results["workloads"][0]["iterations"]["ok"], 20, "{}", results["workloads"][0]["errors"]);
    assert_eq!(server.connections(), 20);
}

/// Answers with a redirect to this place.
fn to(wire: &mut Wire<'_>, status: u16, location: &str) -> After {
    wire.send(format!("HTTP/1.1 {status} Go\r\nLocation: {location}\r\nContent-Length: 4\r\n\r\nmore"));
    After::Keep
}

fn redirecting() -> ScriptedServer {
    let has_session =
        |seen: &ScriptedRequest| seen.headers.get("cookie").is_some_and(|cookie| cookie == "session=1");
    ScriptedServer::start(move |seen: &ScriptedRequest, wire: &mut Wire<'_>| {
        let path = seen.path.as_str();
        match path.split_once("?n=").map(|(_, n)| n.parse::<u32>().unwrap()) {
            Some(0) => wire.answer("200 OK", "application/json", "{\"end\": true}"),
            Some(n) => to(wire, 302, &format!("/chain?n={}", n - 1)),
            None => {
                match path {
                    "/found" => to(wire, 302, "end"),
                    "/see-other" => to(wire, 303, "/end"),
                    "/temporary" => to(wire, 307, "/end"),
                    "/slow" => {
                        wire.pause(std::time::Duration::from_millis(300));
                        to(wire, 302, "/end")
                    }
                    "/circle" => to(wire, 302, "/circle/"),
                    "/circle/" => to(wire, 302, "/circle"),
                    // Who has no session gets one, and is sent back.
                    "/self" | "/login" if !has_session(seen) => {
                        let back = if path == "/self" { "/self" } else { "/app" };
                        wire.send(format!(
                            "HTTP/1.1 302 Go\r\nLocation: {back}\r\nSet-Cookie: session=1; Path=/\r\nContent-Length: 0\r\n\r\n"
                        ));
                        After::Keep
                    }
                    "/app" if !has_session(seen) => to(wire, 302, "/login"),
                    // The same request again and again; every fourth is answered.
                    "/until-done" if seen.nth_of_connection % 4 < 3 => to(wire, 302, "/until-done"),
                    "/elsewhere" => to(wire, 302, "gopher://h/"),
                    "/nowhere" => {
                        wire.send("HTTP/1.1 302 Go\r\nContent-Length: 0\r\n\r\n");
                        After::Keep
                    }
                    "/closing" => {
                        wire.send("HTTP/1.1 302 Go\r\nLocation: /end\r\nConnection: close\r\nContent-Length: 0\r\n\r\n");
                        After::Close
                    }
                    "/cut" => {
                        wire.send("HTTP/1.1 302 Go\r\nLocation: /end\r\nContent-Length: 10\r\n\r\n");
                        After::Close
                    }
                    _ => wire.answer("200 OK", "application/json", "{\"end\": true}"),
                }
            }
        }
    })
}

#[test]
fn redirects_are_followed_as_far_as_the_scenario_says() {
    let server = redirecting();
    let end = "expect: { json: { $.end: true } }";
    for (name, http, action, expected) in [
        ("none unless asked for", "", "get: /found, expect: { status: 302 }".to_owned(), Ok(())),
        ("a redirect", "redirects: 1", format!("get: /found, {end}"), Ok(())),
        ("of the action", "", format!("get: /found, redirects: 1, {end}"), Ok(())),
        (
            "the action wins",
            "redirects: 5",
            "get: /found, redirects: 0, expect: { status: 302 }".to_owned(),
            Ok(()),
        ),
        ("a chain", "redirects: 5", format!("get: '/chain?n=5', {end}"), Ok(())),
        ("a closed connection", "redirects: 5", format!("get: /closing, {end}"), Ok(())),
        ("no address", "redirects: 5", "get: /nowhere, expect: { status: 302 }".to_owned(), Ok(())),
        (
            "too long a chain",
            "redirects: 5",
            "get: '/chain?n=6'".to_owned(),
            Err(("redirect", "more than 5 redirects")),
        ),
        ("a circle", "redirects: 5", "get: /circle".to_owned(), Err(("redirect", "forms a loop: after 5"))),
        ("back to itself with a cookie", "redirects: 1", format!("get: /self, {end}"), Ok(())),
        ("a log-in on the way", "redirects: 5", format!("get: /app, {end}"), Ok(())),
        ("until it is done", "redirects: 4", format!("get: /until-done, {end}"), Ok(())),
        (
            "another scheme",
            "redirects: 5",
            "get: /elsewhere".to_owned(),
            Err(("redirect", "the scheme `gopher` is not supported")),
        ),
        ("cut off", "redirects: 5", "get: /cut".to_owned(), Err(("closed", "in the middle of the answer"))),
    ] {
        expect(&twice(&server.url(), http, &action), name, expected);
    }
}

#[test]
fn the_method_changes_as_in_browsers_and_the_body_with_it() {
    for (path, method, body) in
        [("/found", "GET", ""), ("/see-other", "GET", ""), ("/temporary", "POST", "{\"a\":1}")]
    {
        let server = redirecting();
        expect(
            &twice(&server.url(), "redirects: 1", &format!("post: {path}, json: {{ a: 1 }}")),
            path,
            Ok(()),
        );
        let last = server.seen().pop().unwrap();
        assert_eq!((last.path.as_str(), last.method.as_str()), ("/end", method), "{path}");
        assert_eq!(String::from_utf8_lossy(&last.body), body, "{path}");
        assert_eq!(last.headers.contains_key("content-type"), !body.is_empty(), "{path}");
    }
}

#[test]
fn what_redirects_take_is_no_service_time() {
    let server = redirecting();
    let results = load(
        &server.url(),
        "",
        "http: { redirects: 1 }\nrunner: { serial: { times: 3 } }\niteration: [ { action: a, get: /slow } ]",
    );
    let workload = &results["workloads"][0];
    assert_eq!(workload["iterations"]["ok"], 3);
    assert_eq!(workload["actions"][0]["requests"]["total"], 3);
    for row in results["iterations"].as_array().unwrap() {
        assert!(row["duration_ms"].as_f64().unwrap() >= 300.0, "{row}");
    }
    let iteration = results["iterations"][0]["duration_ms"].as_f64().unwrap();
    let service = workload["actions"][0]["service_time"]["min_ms"].as_f64().unwrap();
    assert!(service + 250.0 < iteration, "{service} of {iteration}");
}

#[test]
fn secrets_and_trace_headers_stay_with_their_origin() {
    let other = ScriptedServer::start(|_, wire| wire.answer("200 OK", "text/plain", "ok"));
    let away = other.url();
    let server = ScriptedServer::start(move |seen, wire| match seen.path.as_str() {
        "/here" => to(wire, 307, "/still-here"),
        "/still-here" => to(wire, 307, &format!("{away}/away")),
        _ => wire.answer("200 OK", "text/plain", "ok"),
    });
    let deployment = "targets_allowed: [127.0.0.1]\nheaders: { X-Api-Key: hunter2, User-Agent: ua }\nauth: { bearer: { token: hunter3 } }\nprofiler: { hmac_key: KEY }";
    let scenario = "http: { redirects: 3 }\nrunner: { serial: { times: 2 } }\niteration: [ { action: a, get: /here, headers: { Cookie: c } } ]";
    load(&server.url(), deployment, scenario);
    let (here, there) = (server.seen(), other.seen());
    assert_eq!((here.len(), there.len()), (4, 2));
    for seen in &here {
        for name in [
            "authorization",
            "x-api-key",
            "cookie",
            "x-trace-info",
            "x-trace-hmac",
            "traceparent",
            "user-agent",
        ] {
            assert!(seen.headers.contains_key(name), "{name}: {seen:?}");
        }
    }
    for seen in &there {
        let mut names: Vec<&str> = seen.headers.keys().map(String::as_str).collect();
        names.sort_unstable();
        assert_eq!(names, ["accept", "host", "user-agent"], "{seen:?}");
    }
}

#[test]
fn a_redirect_from_one_target_to_another_takes_the_body_along() {
    let second = ScriptedServer::start(|_, wire| wire.answer("200 OK", "text/plain", "ok"));
    let (away, second_url) = (format!("{}/away", second.url()), second.url());
    let first = ScriptedServer::start(move |_, wire| to(wire, 308, &away));
    let bench = Bench::new();
    bench.load(
        &first.url(),
        "",
        "http: { redirects: 1 }\nrunner: { serial: { times: 2 } }\niteration: [ { action: a, post: /, json: { a: 1 } } ]",
    );
    let targets = format!("targets: {{ default: \"{}\", second: \"{second_url}\" }}\n", first.url());
    bench.write("deployment.yaml", targets);
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    expect(&bench.results()["workloads"][0], "from target to target", Ok(()));
    let seen = second.seen();
    assert_eq!(seen.len(), 2);
    assert!(seen.iter().all(|seen| seen.body == b"{\"a\":1}"), "{seen:?}");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Sends this body with this content encoding, and what it was asked to accept in a header.
fn encoded(coding: &'static str, body: Vec<u8>) -> ScriptedServer {
    ScriptedServer::start(move |seen, wire| {
        let accepted = seen.headers.get("accept-encoding").cloned().unwrap_or_default();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nX-Accepted: \"{accepted}\"\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        wire.send([head.as_bytes(), &body].concat());
        After::Keep
    })
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn compressed_answers_are_decompressed_for_whoever_looks_at_them() {
    let json = br#"{"id": 7}"#;
    let looks = "get: /, extract: { id: { json: $.id } }";
    let accepts = |what: &str| format!("get: /, expect: {{ headers: {{ X-Accepted: '\"{what}\"' }} }}");
    let bomb = gzip(&vec![b' '; 100 << 20]);
    let small = gzip(json);
    for (name, server, http, action, expected) in [
        ("nobody asks", encoded("gzip", small.clone()), "", accepts(""), Ok(())),
        (
            "asked for",
            encoded("gzip", small.clone()),
            "decompress: true",
            accepts("gzip, deflate, br, zstd"),
            Ok(()),
        ),
        (
            "its own header",
            encoded("gzip", small.clone()),
            "decompress: true",
            format!("headers: {{ Accept-Encoding: gzip }}, {}", accepts("gzip")),
            Ok(()),
        ),
        ("looked at", encoded("gzip", small.clone()), "", looks.to_owned(), Ok(())),
        (
            "looked at, asked for",
            encoded("gzip", small.clone()),
            "decompress: true",
            looks.to_owned(),
            Ok(()),
        ),
        (
            "left as it is",
            encoded("gzip", small.clone()),
            "decompress: false",
            looks.to_owned(),
            Err(("extract", "content encoding: gzip")),
        ),
        (
            "not looked at",
            encoded("gzip", b"damaged".to_vec()),
            "decompress: true",
            "get: /".to_owned(),
            Ok(()),
        ),
        (
            "damaged",
            encoded("gzip", b"damaged".to_vec()),
            "decompress: true",
            looks.to_owned(),
            Err(("protocol", "cannot be decoded (content encoding: gzip)")),
        ),
        (
            "unknown",
            encoded("compress", small),
            "",
            looks.to_owned(),
            Err(("protocol", "unknown content encoding `compress`")),
        ),
        (
            "a bomb",
            encoded("gzip", bomb.clone()),
            "",
            looks.to_owned(),
            Err(("body_limit", "larger than 67108864 bytes")),
        ),
        (
            "a bomb below the limit",
            encoded("gzip", bomb),
            "max_body: 200MiB",
            "get: /, expect: { body: { contains: ' ' } }".to_owned(),
            Ok(()),
        ),
        (
            "over its own limit",
            encoded("gzip", gzip(&vec![b' '; 2000])),
            "",
            format!("{looks}, max_body: 1000"),
            Err(("body_limit", "larger than 1000 bytes")),
        ),
    ] {
        expect(&twice(&server.url(), http, &action), name, expected);
    }
}

#[test]
fn limits_are_as_large_as_the_scenario_says() {
    let answering = |head: String, body: &'static str| {
        ScriptedServer::start(move |_, wire| {
            wire.send(format!("HTTP/1.1 200 OK\r\nConnection: close\r\n{head}\r\n{body}"));
            After::Close
        })
    };
    let many = |count: usize| (0..count).map(|n| format!("H{n}: v\r\n")).collect::<String>();
    let length = "Content-Length: 10\r\n".to_owned();
    let chunked = "Transfer-Encoding: chunked\r\n".to_owned();
    let body = "0123456789";
    let trailers = "0\r\nA: 0123456789\r\nB: 0123456789\r\n\r\n";
    for (name, server, http, expected) in [
        ("a body of the limit", answering(length.clone(), body), "max_body: 10", Ok(())),
        (
            "a body above it",
            answering(length.clone(), body),
            "max_body: 9",
            Err(("body_limit", "larger than 9 bytes")),
        ),
        (
            "a body until the end",
            answering(String::new(), body),
            "max_body: 9",
            Err(("body_limit", "larger than 9 bytes")),
        ),
        (
            "a chunked body",
            answering(chunked.clone(), "A\r\n0123456789\r\n0\r\n\r\n"),
            "max_body: 9",
            Err(("body_limit", "larger than 9 bytes")),
        ),
        ("many headers", answering(many(199) + &length, body), "max_headers: 201", Ok(())),
        (
            "too many headers",
            answering(many(200) + &length, body),
            "max_headers: 200",
            Err(("client", "more than 200 headers")),
        ),
        ("very many headers", answering(many(5000) + &length, body), "max_headers: 6000", Ok(())),
        (
            "a large head",
            answering(format!("X: {}\r\n{length}", "v".repeat(400_000)), body),
            "max_head: 1MiB",
            Ok(()),
        ),
        (
            "too large a head",
            answering(format!("X: {}\r\n{length}", "v".repeat(2000)), body),
            "max_head: 1KiB",
            Err(("client", "larger than 1024 bytes")),
        ),
        ("trailers", answering(chunked.clone(), trailers), "max_trailers: 100", Ok(())),
        (
            "too many trailers",
            answering(chunked, trailers),
            "max_trailers: 20",
            Err(("client", "trailers are larger than 20 bytes; raise `max_trailers`")),
        ),
    ] {
        expect(&twice(&server.url(), http, "get: /"), name, expected);
    }
}

#[test]
fn keys_of_http_are_checked() {
    for (http, part) in [
        ("connections: own", "`connections` cannot be `own`"),
        ("redirects: 51", "at most 50"),
        ("max_body: 5 bananas", "`bananas` is not a unit of size"),
        ("max_body: -1", "at least 0"),
        ("max_headers: 0", "at least 1"),
        ("version: 2", "unknown key `version`"),
    ] {
        let bench = Bench::new();
        let scenario =
            format!("http: {{ {http} }}\nrunner: {{ serial: {{ times: 1 }} }}\niteration: [ {{ get: / }} ]");
        bench.load("http://127.0.0.1:1", "", &scenario);
        let ended = bench.run(&["validate", "scenario.yaml"]).expect_code(65);
        assert!(ended.stderr.contains(part), "{http}: {}", ended.stderr);
    }
}

/// Runs a scenario of 50 users; gives the results and the most memory that the program had, in KiB.
fn memory_of_50_users(server: &ScriptedServer) -> (Value, u64) {
    let bench = Bench::new();
    let action = "{ action: a, get: /, expect: { body: { contains: x } } }";
    let scenario = format!(
        "http: {{ max_body: 16MiB }}\nrunner: {{ constant: {{ times: 50, concurrency: 50 }} }}\niteration: [ {action} ]"
    );
    bench.load(&server.url(), "", &scenario);
    let silent = std::process::Stdio::null;
    let mut command = bench.command(&["run", "scenario.yaml"]);
    let peak = peak_memory(command.stdout(silent()).stderr(silent()).spawn().unwrap());
    (bench.results()["workloads"][0].clone(), peak)
}

fn peak_memory(mut child: std::process::Child) -> u64 {
    let (status, mut peak) = (format!("/proc/{}/status", child.id()), 0);
    while matches!(child.try_wait(), Ok(None)) {
        let status = std::fs::read_to_string(&status).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse().ok());
        peak = peak.max(kib.unwrap_or(0));
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(child.wait().unwrap().success());
    peak
}

#[test]
fn a_bomb_takes_no_more_than_a_mebibyte_a_connection() {
    let bomb = gzip(&vec![0; 64 << 20]);
    let (usual, usual_kib) = memory_of_50_users(&encoded("gzip", gzip(b"xyz")));
    assert_eq!(usual["iterations"]["ok"], 50, "{}", usual["errors"]);
    let (bombed, bombed_kib) = memory_of_50_users(&encoded("gzip", bomb));
    assert_eq!(bombed["iterations"]["failed"], 50);
    // A busy machine may let some time out.
    let refused = bombed["errors"].as_array().unwrap().iter().any(|error| error["class"] == "body_limit");
    assert!(refused, "{}", bombed["errors"]);
    // The compressed body is kept until it is decoded.
    assert!(bombed_kib < usual_kib + 50 * 1024, "{bombed_kib} KiB, usually {usual_kib} KiB");
}
