//! Hostile text in everything that bench reads, through every error of every command: nothing that a terminal or a CI
//! system would interpret reaches the output.
#![cfg(unix)]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::process::Command;

use bench::base::visible::is_deceptive;
use serde_json::json;

use crate::server::{After, ScriptedServer};
use crate::support::{Bench, CommandOutput};

/// Clears the screen, sets the clipboard, makes a link, rings, colours by C1, overprints, turns the direction, and
/// gives commands to GitHub and Azure. Without a slash, so that it can be a file's name.
const HOSTILE: &str = "\u{1b}[2J\u{1b}]52;c;eA==\u{7}\u{1b}]8;;x\u{7}\u{9b}31m\rover\u{202e}txt\u{200b}\n::error::pwned\n  ::set-output name=a::b\n##[error]c ##vso[task]d";

/// The same for a place that takes one line.
const HOSTILE_LINE: &str =
    "::error::x ##[error]y \u{1b}[2J\u{1b}]52;c;eA==\u{7}\u{9b}31m\u{202e}txt\u{200b} ##vso[task]d";

#[track_caller]
fn assert_harmless(what: &str, ended: &CommandOutput) {
    for (stream, text) in [("standard output", &ended.stdout), ("standard error", &ended.stderr)] {
        if let Some(c) = text.chars().find(|c| is_deceptive(*c)) {
            panic!("{what}: {c:?} on {stream}: {text:?}");
        }
        let command = text.lines().find(|line| line.trim_start().starts_with("::"));
        assert_eq!(command, None, "{what}: a command on {stream}: {text:?}");
        assert!(!text.contains("##[") && !text.contains("##vso["), "{what}: a command on {stream}: {text:?}");
    }
}

/// Runs a command that must fail, unless `code` is none, and looks at what it says.
#[track_caller]
fn says(what: &str, command: &mut Command, code: Option<i32>) -> CommandOutput {
    let ended = Bench::end(command);
    assert_harmless(what, &ended);
    if code.is_some() {
        assert_eq!(ended.code, code, "{what}: {} {}", ended.stdout, ended.stderr);
    }
    ended
}

const LOAD: &str = "runner: { serial: { times: 3 } }";

#[test]
fn arguments_and_file_names() {
    let bench = Bench::new();
    bench.write("d.yaml", "demo: {}\n");
    bench.write("s.yaml", format!("title: t\ndeployment: d.yaml\n{LOAD}\niteration: [ {{ get: / }} ]\n"));
    let h = HOSTILE;
    let collector = format!("redis://{HOSTILE}");
    for (arguments, code) in [
        (&["run", h][..], 65),
        (&["run", "s.yaml", "-d", h], 65),
        (&["run", "s.yaml", "--set", h], 64),
        (&["run", "s.yaml", "--set", &format!("{h}=x")], 65),
        (&["run", "s.yaml", "--metrics", h], 64),
        (&["run", "s.yaml", "--otlp", h], 64),
        (&["run", "s.yaml", "--remote-write", h], 64),
        (&["run", "s.yaml", "--influx", h], 64),
        (&["run", "s.yaml", "--statsd", h], 64),
        (&["run", "s.yaml", "--workers", h], 64),
        (&["run", "s.yaml", "--out", &format!("s.yaml/{h}")], 1),
        (&["run", "s.yaml", h], 64),
        (&["validate", h], 65),
        (&["validate", "s.yaml", "-d", h], 65),
        (&["report", h], 65),
        (&["check", h], 65),
        (&["export", "--csv", h], 65),
        (&["compare", h, h], 65),
        (&["ab", "-d", h, "-d", h, "s.yaml"], 65),
        (&["ab", "-d", "d.yaml", "-d", "d.yaml", "s.yaml", "--metric", h], 64),
        (&["schema", h], 64),
        (&["completions", h], 64),
        (&["man", &format!("s.yaml/{h}")], 1),
        (&["demo", "--dir", &format!("s.yaml/{h}")], 1),
        (&["trace", "headers", "-d", h], 65),
        (&["trace", "verify", "-d", h], 65),
        (&["trace", "list", h], 65),
        (&["trace", "show", h], 64),
        (&["trace", "show", h, h], 65),
        (&["trace", "rank", h], 65),
        (&["trace", "stats", h], 65),
        (&["trace", "list", "--connection-string", h], 64),
        (&["trace", "list", "--connection-string", &collector], 64),
        (&[h], 64),
        (&["trace", h], 64),
    ] {
        let ended = says(&format!("{arguments:?}"), &mut bench.command(arguments), None);
        // Which code it is belongs to other tests; that it fails, here.
        assert!(
            ended.code.is_some_and(|found| found == code || [1, 64, 65, 69].contains(&found)),
            "{ended:?}"
        );
    }
    bench.write(h, "demo: {}\n");
    says("a valid file", &mut bench.command(&["validate", h]), Some(0));
    for content in ["oops: 1\n", "\u{0}", "a: [", "title: x\noops: y\n", "{\"records\": []}"] {
        bench.write(h, content);
        for command in [&["validate", h][..], &["run", h], &["trace", "list", h], &["trace", "show", h, "x"]]
        {
            let ended = says(&format!("{content:?} {command:?}"), &mut bench.command(command), None);
            assert_ne!(ended.code, Some(0), "{ended:?}");
        }
    }
}

#[test]
fn contents_of_files_and_of_the_environment() {
    let text = json!(HOSTILE).to_string();
    for content in [
        format!("{text}: 1\n"),
        format!("title: {text}\n"),
        format!("title: x\nrunner: {text}\n"),
        format!("title: x\niteration: [ {{ get: {text} }} ]\n{LOAD}\n"),
        format!("title: x\niteration: [ {{ get: /, target: {text} }} ]\n{LOAD}\n"),
        format!("title: x\niteration: [ {{ get: /, headers: {{ {text}: x }} }} ]\n{LOAD}\n"),
        format!("title: x\niteration: [ {{ get: /, expect: {{ json: {{ {text}: x }} }} }} ]\n{LOAD}\n"),
        format!(
            "title: x\niteration: [ {{ get: /, expect: {{ body: {{ matches: {} }} }} }} ]\n{LOAD}\n",
            json!(format!("({HOSTILE}"))
        ),
        format!(
            "title: x\niteration: [ {{ get: {} }} ]\n{LOAD}\n",
            json!(format!("/{{{{ x | y{HOSTILE} }}}}"))
        ),
        format!("title: x\nsla: {{ thresholds: [ {text} ] }}\niteration: [ {{ get: / }} ]\n{LOAD}\n"),
        format!("title: x\ndeployment: {text}\niteration: [ {{ get: / }} ]\n{LOAD}\n"),
        format!(
            "title: x\nvariables: {{ {text}: x, y: {{ env: {text} }}, z: {{ file: {text} }} }}\niteration: [ {{ get: / }} ]\n{LOAD}\n"
        ),
        format!("targets: {{ default: {text} }}\n"),
        format!("targets: {{ default: {{ env: {text} }} }}\n"),
        "targets: { default: { env: H } }\n".to_owned(),
        format!("targets: {{ default: http://h }}\nheaders: {{ a: {{ env: H }}, {text}: x }}\n"),
        format!("targets: {{ default: http://h }}\ntls: {{ ca: {text} }}\n"),
        format!("targets: {{ default: http://h }}\ndns: {{ servers: [ {text} ] }}\n"),
        format!("targets: {{ default: http://h }}\nprofiler: {{ connection_string: {text} }}\n"),
        format!(
            "targets: {{ default: http://h }}\nprofiler: {{ connection_string: {} }}\n",
            json!(format!("{HOSTILE}://h"))
        ),
        format!("# {HOSTILE}\noops: 1\n"),
        "oops: 1 # \u{9b}31m\u{202e}\u{200b}\u{2028}\n".to_owned(),
        "\u{0}\u{1b}[2J".to_owned(),
    ] {
        let bench = Bench::new();
        bench.write("f.yaml", &content);
        bench.write("d.yaml", "targets: { default: http://127.0.0.1:1 }\n");
        for command in [&["validate", "f.yaml"][..], &["run", "f.yaml", "-d", "d.yaml"]] {
            let ended = says(&content, bench.command(command).env("H", HOSTILE), None);
            assert_ne!(ended.code, Some(0), "{content}: {ended:?}");
        }
    }
    let bench = Bench::new();
    bench.write("d.yaml", "demo: {}\n");
    bench.write("s.yaml", format!("title: t\ndeployment: d.yaml\n{LOAD}\niteration: [ {{ get: / }} ]\n"));
    let mut command = bench.command(&["run", "s.yaml"]);
    says("the step's summary", command.env("GITHUB_STEP_SUMMARY", format!("s.yaml/{HOSTILE}")), None);
    for name in ["OSPROFILER_CONNECTION_STRING", "COLUMNS", "TERM", "GITHUB_ACTIONS"] {
        for command in [&["trace", "list"][..], &["trace", "show", "x"], &["validate", "s.yaml"]] {
            says(name, bench.command(command).env(name, HOSTILE), None);
        }
    }
}

/// What a scenario calls its parts, and what its service answers, in a run and in all that is made of it.
#[test]
fn names_and_answers() {
    let line = HOSTILE_LINE;
    let service = ScriptedServer::start(move |seen, wire| {
        let (head, rest): (String, &str) = match seen.path.as_str() {
            "/reason" => (format!("500 {line}"), ""),
            "/type" => ("200 OK".to_owned(), "no JSON"),
            "/location" => (format!("302 x\r\nLocation: ftp://{line}"), ""),
            "/garbage" => {
                wire.send(format!("{line}\r\n\r\n"));
                return After::Close;
            }
            _ => ("200 OK".to_owned(), "{}"),
        };
        let length = rest.len();
        wire.send(format!(
            "HTTP/1.1 {head}\r\nContent-Type: {line}\r\nContent-Length: {length}\r\n\r\n{rest}"
        ));
        After::Keep
    });
    let name = |nth: usize| format!("{nth}{HOSTILE}");
    let steps = [
        json!({"action": name(1), "get": "/reason"}),
        json!({"action": name(2), "get": "/type", "expect": {"json": {"$.a": HOSTILE}}}),
        json!({"action": name(3), "get": "/location", "redirects": 2}),
        json!({"action": name(4), "get": "/garbage"}),
        json!({"action": name(5), "get": "/", "expect": {"body": {"equals": HOSTILE}}}),
        json!({"action": name(6), "get": "/", "expect": {"json": {format!("$[{}]", json!(HOSTILE)): HOSTILE}}}),
        json!({"action": name(7), "get": "/", "extract": {"x": {"regex": HOSTILE}}}),
    ];
    let workloads: Vec<_> = steps
        .iter()
        .enumerate()
        .map(|(nth, step)| {
            json!({"name": format!("{HOSTILE_LINE}{nth}"), "runner": {"serial": {"times": 2}}, "iteration": [step],
                "sla": {"failure_rate": {"max": 0}}})
        })
        .collect();
    let bench = Bench::new();
    let scenario = json!({"title": HOSTILE_LINE, "deployment": "d.yaml", "workloads": workloads});
    bench.write("s.yaml", scenario.to_string());
    bench.write("d.yaml", json!({"name": HOSTILE, "targets": {"default": service.url()}}).to_string());
    bench.write(
        "one.yaml",
        json!({"title": HOSTILE_LINE, "deployment": "d.yaml", "runner": {"serial": {"times": 2}},
        "iteration": [{"action": HOSTILE, "get": "/"}]})
        .to_string(),
    );
    says("run", &mut bench.command(&["run", "s.yaml"]), Some(2));
    let run = bench.run_directory();
    let run = run.to_str().unwrap();
    assert!(
        bench.results()["workloads"].as_array().unwrap().iter().all(|of| of["iterations"]["failed"] == 2)
    );
    says("report", &mut bench.command(&["report", run]), Some(2));
    says("check", &mut bench.command(&["check", run]), None);
    says("compare", &mut bench.command(&["compare", run, run]), None);
    says("quiet", &mut bench.command(&["report", run, "--quiet"]), Some(2));
    // A comparison in Markdown: names are text in it, and nothing else.
    let ended = bench.run(&["compare", run, run, "--markdown"]);
    assert!(!ended.stdout.contains(|c: char| is_deceptive(c)), "{}", ended.stdout);
    bench.run(&["run", "one.yaml", "--out", "other"]).expect_code(0);
}

#[test]
fn a_login_that_is_refused_and_a_collector_that_complains() {
    let keystone = ScriptedServer::start(|_, wire| {
        let body = json!({"error": {"message": HOSTILE}}).to_string();
        wire.answer("401 no", "application/json", body)
    });
    let bench = Bench::new();
    let auth = format!(
        "auth: {{ keystone: {{ auth_url: '{}', username: u, password: p4ssw0rd, project_name: p }} }}",
        keystone.url()
    );
    bench.load(&keystone.url(), &auth, &format!("{LOAD}\niteration: [ {{ get: / }} ]"));
    let ended = says("login", &mut bench.command(&["run", "scenario.yaml"]), Some(69));
    assert!(ended.stderr.contains("401"), "{}", ended.stderr);

    let http = ScriptedServer::start(|_, wire| wire.answer("400 no", "text/plain", HOSTILE));
    let redis = complaining_redis();
    for connection in [
        format!("jaeger://{}", http.address()),
        format!("tempo://{}", http.address()),
        format!("elasticsearch://{}", http.address()),
        format!("otlp://{}", http.address()),
        format!("redis://{redis}"),
    ] {
        let bench = Bench::new();
        let profiler = format!("profiler: {{ hmac_key: k, connection_string: '{connection}' }}");
        let service = ScriptedServer::answering_after(std::time::Duration::ZERO);
        bench.load(&service.url(), &profiler, &format!("{LOAD}\niteration: [ {{ get: / }} ]"));
        says(&connection, &mut bench.command(&["run", "scenario.yaml", "--publish"]), None);
        for command in [&["trace", "list"][..], &["trace", "show", "5e2b6c6a-0d0a-4c1d-8a2b-1b1a1a1a1a1a"]] {
            let command = [command, &["--connection-string", &connection]].concat();
            let ended = says(&connection, &mut bench.command(&command), None);
            assert_ne!(ended.code, Some(0), "{ended:?}");
        }
    }
}

/// A redis that answers everything with an error in hostile words; it ends with the process.
fn complaining_redis() -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(1..) = stream.read(&mut buffer) {
                    let _ = write!(stream, "-ERR {HOSTILE_LINE}\r\n");
                }
            });
        }
    });
    address
}

/// A trace whose every text is hostile, as a file: in every way to look at it.
#[test]
fn traces() {
    let id = "5e2b6c6a-0d0a-4c1d-8a2b-1b1a1a1a1a1a";
    let record = |suffix: &str, second: u32| {
        json!({"name": format!("{HOSTILE}-{suffix}"), "base_id": id, "trace_id": "6e2b6c6a-0d0a-4c1d-8a2b-1b1a1a1a1a1a",
            "parent_id": id, "timestamp": format!("2026-11-20T22:52:0{second}.123456"), "project": HOSTILE,
            "service": HOSTILE, "info": {"host": HOSTILE, "name": HOSTILE, "etype": HOSTILE, "message": HOSTILE,
            "request": {"path": HOSTILE, "method": HOSTILE}, "db": {"statement": HOSTILE}}})
    };
    let bench = Bench::new();
    bench.write(
        "t.json",
        json!({"trace_id": id, "records": [record("start", 1), record("stop", 2)]}).to_string(),
    );
    for arguments in [
        &["trace", "list", "t.json"][..],
        &["trace", "show", "t.json"],
        &["trace", "show", "t.json", id],
        &["trace", "show", "t.json", HOSTILE],
        &["trace", "stats", "t.json"],
        &["trace", "stats", "t.json", "--by", "detail"],
        &["trace", "rank", "t.json"],
    ] {
        says(&format!("{arguments:?}"), &mut bench.command(arguments), None);
    }
    // A title, a rule and a row: a name's line breaks make no further rows, in a file either.
    let ranked = bench.run(&["trace", "rank", "t.json"]).expect_code(0).stdout;
    assert_eq!(ranked.lines().count(), 3, "{ranked}");
    bench.run(&["trace", "rank", "t.json", "-o", "ranked.txt"]).expect_code(0);
    let written = std::fs::read_to_string(bench.path().join("ranked.txt")).unwrap();
    assert!(written.lines().count() == 3 && !written.contains(is_deceptive), "{written:?}");
}

/// On a terminal there are colours of bench's own; what a name brings along is written out all the same.
#[test]
fn colours_that_a_name_brings_along_are_no_colours() {
    use bench::base::visible::for_terminal;
    for hostile in [HOSTILE, HOSTILE_LINE] {
        let shown = for_terminal(hostile, true);
        let escapes = shown.match_indices('\u{1b}').map(|(at, _)| &shown[at..]);
        assert!(
            escapes.clone().all(|escape| escape.starts_with("\u{1b}[") && escape.contains('m')),
            "{shown:?}"
        );
        assert!(!shown.contains("]52;") || shown.contains("‹U+001B›]52;"), "{shown:?}");
    }
}
