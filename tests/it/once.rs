//! `bench run --once`: one iteration, to look at.

use std::process::Command;

use crate::server::{ScriptedRequest, ScriptedServer};
use crate::support::{Bench, CommandOutput};

const SCENARIO: &str = "variables: { password: { env: THE_KEY } }
runner: { rps: { rps: 50, times: 1000 } }
warm_up: { times: 10 }
setup:
  - { action: log in, post: /login, json: { user: alice, password: '{{ password }}' }, extract: { token: { header: X-Subject-Token } } }
iteration:
  - action: create
    post: /orders
    headers: { X-Auth-Token: '{{ token }}', Accept: \"it's 5 % \\\\ \\\"off\\\"\" }
    json: { number: '{{ iteration }}', note: \"two\\nlines\" }
    expect: { status: 201, headers: { Content-Type: { contains: json } }, json: { $.id: { gt: 5 }, $.state: new } }
    extract: { order: { json: $.id } }
  - think: 1ms
  - { action: moved, get: '/moved/{{ order }}', redirects: 3 }
  - repeat: 2
    steps: [ { action: again, get: '/orders/{{ order }}' } ]
teardown: [ { action: bye, delete: '/orders/{{ token }}' } ]
sla: { failure_rate: { max: 0 } }";

fn shop() -> ScriptedServer {
    ScriptedServer::start(|seen, wire| match seen.path.as_str() {
        "/login" => {
            let body = "{\"session\": {\"refresh_token\": \"r3fr3sh\"}}";
            wire.send(format!(
                "HTTP/1.1 200 OK\r\nX-Subject-Token: t0k3n-of-alice\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ));
            crate::server::After::Keep
        }
        "/orders" => wire.answer("201 Created", "application/json", "{\"id\": 7, \"state\": \"new\"}"),
        "/moved/7" => {
            wire.send("HTTP/1.1 302 Found\r\nLocation: /orders/7\r\nContent-Length: 0\r\n\r\n");
            crate::server::After::Keep
        }
        "/denied" => wire.answer("401 Unauthorized", "application/json", "{\"error\": \"who are you\"}"),
        _ => wire.answer("200 OK", "text/plain", "\u{1b}[31mfine\u{202e}"),
    })
}

fn once(bench: &Bench, more: &[&str]) -> CommandOutput {
    let mut command = bench.command(&[&["run", "scenario.yaml", "--once"], more].concat());
    Bench::end(command.env("THE_KEY", "v3ry-s3cr3t"))
}

#[test]
fn a_single_iteration_is_shown_step_by_step_without_secrets() {
    let (server, bench) = (shop(), Bench::new());
    bench.load(&server.url(), "", SCENARIO);
    let brief = once(&bench, &[]).expect_code(0).stdout;
    let lines: Vec<&str> = brief.lines().map(str::trim).collect();
    for (number, begins) in [
        "setup",
        "ok      log in  POST http://127.0.0.1:",
        "",
        "t",
        "ok      create  POST http://127.0.0.1:",
        "ok      moved  GET http://127.0.0.1:",
        "ok      again  GET http://127.0.0.1:",
        "ok      again  GET http://127.0.0.1:",
        "",
        "teardown",
        "ok      bye  DELETE http://127.0.0.1:",
    ]
    .iter()
    .enumerate()
    {
        assert!(lines[number].starts_with(begins), "{number}: {begins}\n{brief}");
    }
    assert_eq!(server.count("/orders"), 1, "one iteration, whatever the runner says");
    assert!(!bench.path().join("runs").exists(), "no run directory stays");
    let full = once(&bench, &["--verbose"]).expect_code(0).stdout;
    for part in [
        "> POST http://127.0.0.1:",
        "> content-type: application/json",
        "> {\"user\":\"alice\",\"password\":\"***\"}",
        "< 200 OK HTTP/1.1",
        "< x-subject-token: ***",
        "< {\"session\": {\"refresh_token\": \"***\"}}",
        "token = ***",
        "order = 7",
        "> x-auth-token: ***",
        "> accept: it's 5 % \\ \"off\"",
        "ok      the status is 201: 201",
        "ok      the header content-type contains `json`: `application/json`",
        "ok      the value at $.id is more than `5`: `7`",
        "ok      the value at $.state is `\"new\"`: `\"new\"`",
        "think 1.00 ms",
        "< 302 Found, redirected to GET http://127.0.0.1:",
        "repeat",
        "round 2 of 2",
        "wait ",
        "‹U+001B›[31mfine‹U+202E›",
    ] {
        assert!(full.contains(part), "{part} is not in:\n{full}");
    }
    let (again, think) = (full.find("    again\n").unwrap(), full.find("  think").unwrap());
    assert!(think < again, "nested steps are indented, in their order: {full}");
    for output in [&brief, &full] {
        for secret in ["v3ry", "t0k3n", "r3fr3sh", "\u{1b}", "\u{202e}"] {
            assert!(!output.contains(secret), "{secret:?}: {output}");
        }
    }
}

#[test]
fn what_fails_is_shown_with_how_far_it_got_and_ends_with_1() {
    let server = shop();
    let closed = ScriptedServer::start(|_, wire| {
        wire.send("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab");
        crate::server::After::Close
    });
    for (url, steps, parts) in [
        (
            server.url(),
            "iteration: [ { action: a, get: /denied, expect: { status: 200, headers: { Content-Type: { matches: xml } } } } ]",
            &[
                "FAILED  the status is 200: 401",
                "FAILED  the header content-type matches `xml`: `application/json`",
                "< {\"error\": \"who are you\"}",
                "status: answered 401, expected 200",
            ][..],
        ),
        (
            closed.url(),
            "iteration: [ { action: a, get: /x } ]",
            &["< no answer; how far it got: ", "wait ", "closed: "],
        ),
        (
            server.url(),
            "iteration: [ { action: a, get: '/{{ variables_that }}' } ]\nvariables: { variables_that: '{{ 1 }}' }",
            &["> GET "],
        ),
        (
            server.url(),
            "iteration: [ { action: a, get: /x, extract: { n: { json: $.n } } }, { action: b, get: /never } ]",
            &["extract: cannot extract n: the body is not JSON"],
        ),
    ] {
        let bench = Bench::new();
        bench.load(&url, "", &format!("runner: {{ constant: {{ times: 500, concurrency: 50 }} }}\n{steps}"));
        let fails = !steps.contains("variables:");
        let ended = once(&bench, &["--verbose"]).expect_code(i32::from(fails));
        for part in parts {
            assert!(ended.stdout.contains(part), "{part} is not in:\n{}", ended.stdout);
        }
        assert_eq!(ended.stderr.contains("the iteration failed: "), fails, "{}", ended.stderr);
        let brief = once(&bench, &[]).expect_code(i32::from(fails)).stdout;
        assert_eq!(brief.contains("FAILED  a  GET"), fails, "{brief}");
    }
    assert_eq!(server.count("/never"), 0);
    // Criteria are not judged.
    let bench = Bench::new();
    let strict = "runner: { serial: { times: 9 } }\niteration: [ { get: /x } ]\nsla: { max_seconds_per_iteration: 0.0000001 }";
    bench.load(&server.url(), "", strict);
    once(&bench, &[]).expect_code(0);
}

#[test]
fn wrong_combinations_are_refused() {
    let server = shop();
    let bench = Bench::new();
    bench.load(&server.url(), "", SCENARIO);
    for (arguments, said) in [
        (&["run", "scenario.yaml", "--verbose"][..], "--once"),
        (&["run", "scenario.yaml", "--curl"], "--once"),
        (&["run", "scenario.yaml", "--once", "-n", "5"], "--times"),
        (&["run", "scenario.yaml", "--once", "--curl=all"], "reveal"),
        (&["run", "scenario.yaml", "--once", "--curl=reveal"], "standard output is not a terminal"),
    ] {
        let ended = bench.run(arguments).expect_code(64);
        assert!(ended.stderr.contains(said), "{arguments:?}: {}", ended.stderr);
    }
    assert!(server.seen().is_empty(), "nothing was sent");
    // A URL needs no file.
    let url = format!("{}/orders", server.url());
    let ended = bench.run(&["run", &url, "--once", "-m", "POST", "--data", "x"]).expect_code(0);
    assert!(ended.stdout.contains("ok      POST /orders  POST http"), "{}", ended.stdout);
}

/// What a request is to a server. The order of headers does not matter.
fn received(seen: &ScriptedRequest) -> (String, String, Vec<(String, String)>, Vec<u8>) {
    let mut headers: Vec<_> =
        seen.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    headers.sort();
    (seen.method.clone(), seen.path.clone(), headers, seen.body.clone())
}

/// The name of a host may be a secret, wherever a command has it.
#[test]
fn commands_for_curl_hide_a_host_that_is_a_secret() {
    let (server, bench) = (shop(), Bench::new());
    let (host, port) = ("the-name-of-the-host", server.address().port());
    bench.load(
        &format!("http://{host}:{port}"),
        &format!("profiler: {{ hmac_key: {host} }}\ndns: {{ hosts: {{ {host}: 127.0.0.1 }} }}"),
        "runner: { serial: { times: 1 } }\niteration: [ { action: get, get: /get } ]",
    );
    let script = once(&bench, &["--curl"]).expect_code(0).stdout;
    assert!(script.contains("--resolve \"$") && !script.contains(host), "{script}");
}

#[test]
fn commands_for_curl_send_the_same_bytes_through_a_shell() {
    if Command::new("curl").arg("--version").output().is_err() {
        println!("skipped: curl is not installed");
        return;
    }
    let scenario = "variables: { password: { env: THE_KEY } }
runner: { serial: { times: 1 } }
setup: [ { action: log in, post: /login, json: { password: '{{ password }}' }, extract: { token: { header: X-Subject-Token } } } ]
iteration:
  - { action: quotes, post: '/o?a=[1]{2}&b=$HOME', body: \"it's \\\"quoted\\\" $HOME `id` \\\\n %s !\\n\\nend\\n\" }
  - { action: at, put: /at, body: '@/etc/hostname' }
  - { action: dash, put: /dash, body: '-n x' }
  - { action: empty, post: /empty, headers: { X-Empty: '', Content-Type: text/plain } }
  - { action: unseen, post: /unseen, body: \"a\\u202eb\\e[31m\\r\\n\\ttab\" }
  - { action: nul, post: /null, body: \"a\\0%d\\\\-'{{ token }}'\\0\" }
  - { action: long, post: /long, body: '{{ \"%-\" * 50000 }}' }
  - { action: form, post: /form, form: { user: alice, pin: 'a&b=c' } }
  - { action: head, head: /head }
  - { action: delete, delete: '/d/{{ token }}/x', headers: { Authorization: 'Bearer {{ token }}', Accept: \"'; echo no #\" } }
  - { action: get, get: /get, json: { with: body } }";
    let (server, bench) = (shop(), Bench::new());
    bench.load(&server.url(), "profiler: { hmac_key: the-signing-key-of-the-run }", scenario);
    let script = once(&bench, &["--curl"]).expect_code(0).stdout;
    for secret in ["v3ry-s3cr3t", "t0k3n-of-alice", "the-signing-key", "\u{202e}", "\u{1b}"] {
        assert!(!script.contains(secret), "{secret:?}: {script}");
    }
    assert!(script.starts_with("# Set these variables of the shell first:\n#   PASSWORD"), "{script}");
    assert!(
        script.contains("#   TOKEN: the variable token") && script.contains("x-trace-hmac: "),
        "{script}"
    );
    let sent: Vec<_> = server.seen().iter().map(received).collect();
    assert_eq!(sent.len(), 12);
    bench.write("again.sh", &script);
    let mut shell = Command::new("sh");
    shell.args(["-eu", "again.sh"]).current_dir(bench.path());
    let ended = shell.env("PASSWORD", "v3ry-s3cr3t").env("TOKEN", "t0k3n-of-alice").output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
    let again: Vec<_> = server.seen().iter().skip(sent.len()).map(received).collect();
    assert_eq!(again.len(), sent.len(), "{script}");
    for (one, other) in sent.iter().zip(&again) {
        assert_eq!(one, other, "{script}");
    }
}
