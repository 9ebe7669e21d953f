//! Requests as services need them: cookies, other methods, servers with certificates of their own.

use std::path::Path;
use std::process::Command;

use bench::client::options::DnsOptions;
use bench::client::plain::PlainClient;
use bench::client::tls::{self, TlsOptions};
use serde_json::Value;

use crate::rewind;
use crate::server::{After, ScriptedRequest, ScriptedServer, Wire};
use crate::support::Bench;

/// Runs a scenario and gives its first workload's results.
#[track_caller]
fn load(bench: &Bench, url: &str, deployment: &str, scenario: &str) -> Value {
    bench.load(url, deployment, scenario);
    bench.run(&["run", "scenario.yaml"]).expect_code(0);
    bench.results()["workloads"][0].clone()
}

#[track_caller]
fn all_ok(workload: &Value, iterations: u64) {
    assert_eq!(workload["iterations"]["ok"], iterations, "{}", workload["errors"]);
}

/// A certificate and a key as `openssl req -x509` makes them; `None` without openssl.
fn made_by_openssl(folder: &Path, subject: &str) -> Option<(std::path::PathBuf, std::path::PathBuf)> {
    let (certificate, key) = (folder.join("own.pem"), folder.join("own.key"));
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=localhost", "-addext", subject])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output();
    match made {
        Ok(made) if made.status.success() => Some((certificate, key)),
        _ => {
            println!("skipped: openssl is not installed");
            None
        }
    }
}

#[test]
fn a_self_signed_certificate_given_as_ca_is_trusted_as_itself() {
    let bench = Bench::new();
    let Some((certificate, key)) = made_by_openssl(bench.path(), "subjectAltName=IP:127.0.0.1") else {
        return;
    };
    let server =
        ScriptedServer::tls_with(&certificate, &key, |_, wire| wire.answer("200 OK", "text/plain", "ok"));
    let scenario = "runner: { serial: { times: 2 } }\niteration: [ { get: / } ]";
    let workload = load(&bench, &server.url(), "tls: { ca: own.pem }", scenario);
    all_ok(&workload, 2);
    // The client for logging in and for collectors.
    let options = TlsOptions { verify: true, ca: Some(certificate), identity: None };
    let client = PlainClient::new(&tls::config(&options, true).unwrap(), &DnsOptions::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    assert_eq!(runtime.block_on(client.get(&server.url())).unwrap().body, b"ok");
}

#[test]
fn a_certificate_for_another_name_or_of_somebody_else_is_refused() {
    let bench = Bench::new();
    let Some((certificate, key)) = made_by_openssl(bench.path(), "subjectAltName=DNS:other.example") else {
        return;
    };
    let server =
        ScriptedServer::tls_with(&certificate, &key, |_, wire| wire.answer("200 OK", "text/plain", "ok"));
    let scenario = "runner: { serial: { times: 1 } }\niteration: [ { get: / } ]";
    for (deployment, part) in
        [("tls: { ca: own.pem }", "not valid for"), ("", "or the certificate itself, under `tls.ca`")]
    {
        bench.load(&server.url(), deployment, scenario);
        let ended = bench.run(&["run", "scenario.yaml"]);
        let said =
            format!("{}{}", ended.stdout, ended.stderr).split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(part), "{deployment}: {said}");
    }
    assert!(server.seen().is_empty());
}

/// A service with sessions: `/login` sets one, `/who` wants it, `/away` redirects and sets another cookie.
fn sessions(seen: &ScriptedRequest, wire: &mut Wire<'_>) -> After {
    let cookie = seen.headers.get("cookie").cloned().unwrap_or_default();
    match seen.path.as_str() {
        "/login" => {
            let head = format!(
                "HTTP/1.1 204 No Content\r\nset-cookie: session=s{}-Qx7; Path=/; HttpOnly\r\nSet-Cookie: gone=1; Max-Age=0\r\n\r\n",
                seen.nth
            );
            wire.send(head);
        }
        "/away" => {
            wire.send(
                "HTTP/1.1 302 Found\r\nLocation: /who\r\nSet-Cookie: hop=1\r\nContent-Length: 0\r\n\r\n",
            );
        }
        _ => {
            let status = if cookie.contains("session=") { "200 OK" } else { "403 Forbidden" };
            return wire.answer(status, "text/plain", cookie);
        }
    }
    After::Keep
}

const LOG_IN: &str = "{ action: log in, post: /login, expect: { status: 204 } }";

#[test]
fn cookies_live_as_long_as_the_scenario_says() {
    for (http, action, accepted, first_without) in [
        // Each iteration begins without cookies.
        ("", "", 3, true),
        ("http: { cookies: iteration }", "", 3, true),
        // The log-in of the second iteration gets the first one's session.
        ("http: { cookies: user }", "", 3, false),
        ("http: { cookies: off }", "", 0, true),
        ("", ", cookies: false", 0, true),
        ("http: { cookies: user, connections: shared }", "", 3, false),
    ] {
        let server = ScriptedServer::start(sessions);
        let bench = Bench::new();
        let scenario = format!(
            "{http}\nrunner: {{ serial: {{ times: 3 }} }}\niteration: [ {LOG_IN}, {{ action: who, get: /who{action} }} ]"
        );
        let workload = load(&bench, &server.url(), "", &scenario);
        assert_eq!(workload["iterations"]["ok"], accepted, "{http}{action}: {}", workload["errors"]);
        let seen = server.seen();
        let log_ins = seen.iter().filter(|seen| seen.path == "/login" && seen.headers.contains_key("cookie"));
        assert_eq!(log_ins.count(), if first_without { 0 } else { 2 }, "{http}{action}");
    }
}

#[test]
fn redirects_set_and_send_cookies_and_a_header_of_the_action_replaces_them() {
    let server = ScriptedServer::start(sessions);
    let bench = Bench::new();
    let scenario = format!(
        "runner: {{ serial: {{ times: 1 }} }}\niteration:\n  - {LOG_IN}\n  - {{ action: away, get: /away, redirects: 1, expect: {{ status: 200, body: \"session=s0-Qx7; hop=1\" }} }}\n  - {{ action: own, get: /who, headers: {{ cookie: session=mine }}, expect: {{ body: {{ equals: session=mine }} }} }}\n  - {{ action: extract, get: /who, extract: {{ sid: {{ cookie: session }} }} }}\n  - {{ action: use, get: \"/echo/{{{{ sid }}}}\" }}"
    );
    all_ok(&load(&bench, &server.url(), "", &scenario), 1);
    assert_eq!(server.count("/echo/s0-Qx7"), 1);
}

#[test]
fn values_of_cookies_are_masked_in_messages() {
    let server = ScriptedServer::start(sessions);
    let bench = Bench::new();
    let scenario = format!(
        "runner: {{ serial: {{ times: 1 }} }}\niteration: [ {LOG_IN}, {{ action: who, get: /who, expect: {{ json: {{ $.a: 1 }} }} }}, {{ action: x, get: /x }} ]"
    );
    let workload = load(&bench, &server.url(), "", &scenario);
    assert_eq!(workload["iterations"]["failed"], 1);
    assert!(!workload.to_string().contains("Qx7"), "{}", workload["errors"]);
}

#[test]
fn any_method_can_be_sent() {
    let server = ScriptedServer::start(|_, wire| wire.answer("200 OK", "text/plain", "ok"));
    let bench = Bench::new();
    let scenario = "runner: { serial: { times: 1 } }\niteration: [ { request: PURGE /cache?a=b }, { request: \"PROPFIND /dav\", body: x } ]";
    let workload = load(&bench, &server.url(), "", scenario);
    all_ok(&workload, 1);
    assert_eq!(workload["actions"][0]["name"], "PURGE /cache?a=b");
    bench.run(&["run", &format!("{}/url", server.url()), "-m", "purge", "-n", "1", "-c", "1"]).expect_code(0);
    let seen: Vec<String> =
        server.seen().iter().map(|seen| format!("{} {}", seen.method, seen.path)).collect();
    assert_eq!(seen, ["PURGE /cache?a=b", "PROPFIND /dav", "PURGE /url"]);
}

/// Bytes of every kind, more than one read of a file.
fn binary(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 253) as u8).collect()
}

#[test]
fn files_are_sent_as_they_are() {
    for (length, deployment) in [(3, ""), (100_000, ""), (900_000, "")] {
        let server = ScriptedServer::start(|_, wire| wire.answer("200 OK", "text/plain", "ok"));
        let bench = Bench::new();
        bench.write("photo.PNG", binary(length));
        let scenario = "runner: { serial: { times: 2 } }\niteration: [ { post: /up, file: photo.PNG } ]";
        all_ok(&load(&bench, &server.url(), deployment, scenario), 2);
        for seen in server.seen() {
            assert_eq!(seen.headers["content-type"], "image/png");
            assert_eq!(seen.headers["content-length"], length.to_string());
            assert!(seen.body == binary(length), "{length} bytes");
        }
        assert_eq!(server.connections(), 1, "the connection is used again");
    }
}

#[test]
fn a_file_that_changes_during_the_run_is_an_error_of_its_own_class() {
    let bench = Bench::new();
    let path = bench.write("f.bin", binary(300_000));
    rewind::file(path.clone());
    let server = ScriptedServer::start(move |seen, wire| {
        if seen.path == "/change" {
            std::fs::write(&path, binary(200_000)).unwrap();
        }
        wire.answer("200 OK", "text/plain", "ok")
    });
    let scenario = "runner: { serial: { times: 1 } }\niteration: [ { action: before, put: /up, file: f.bin }, { get: /change }, { action: after, put: /up, file: f.bin } ]";
    let workload = load(&bench, &server.url(), "", scenario);
    let error = &workload["errors"][0];
    assert_eq!((&error["class"], &error["action"]), (&"file".into(), &"after".into()), "{error}");
    assert!(error["message"].as_str().unwrap().contains("200000 bytes, but had 300000"), "{error}");
    assert_eq!(server.count("/up"), 1, "nothing was sent the second time");
}

/// The fields of a multipart body as Python's parser for mail reads them: (name, filename, type, content in hex).
fn parsed_by_python(content_type: &str, body: &[u8]) -> Option<String> {
    use std::io::Write as _;
    const READ: &str = "import sys,email,email.policy\n\
        m=email.message_from_bytes(sys.stdin.buffer.read(),policy=email.policy.HTTP)\n\
        for p in m.iter_parts(): print(p.get_param('name',header='content-disposition'),p.get_filename(),p.get_content_type(),p.get_payload(decode=True).hex())";
    let mut python = Command::new("python3")
        .args(["-c", READ])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .ok()?;
    let mut message = format!("Content-Type: {content_type}\r\n\r\n").into_bytes();
    message.extend_from_slice(body);
    python.stdin.take()?.write_all(&message).ok()?;
    Some(String::from_utf8(python.wait_with_output().ok()?.stdout).unwrap())
}

#[test]
fn multipart_bodies_are_read_by_another_parser() {
    let server = ScriptedServer::start(|_, wire| wire.answer("200 OK", "text/plain", "ok"));
    let bench = Bench::new();
    bench.write("small.txt", "small\n");
    bench.write("large.bin", vec![7; 100_000]);
    let scenario = "runner: { serial: { times: 2 } }\niteration:\n  - post: /up\n    multipart:\n      title: \"number {{ iteration }}\"\n      tag: [ a, 2 ]\n      large: { file: large.bin, filename: \"n{{ iteration }}.png\", type: image/png }\n      small: { file: small.txt }\n  - post: /fixed\n    multipart: { b: 1, a: { file: small.txt } }";
    all_ok(&load(&bench, &server.url(), "", scenario), 2);
    for seen in server.seen() {
        assert_eq!(seen.headers["content-length"], seen.body.len().to_string());
        let Some(fields) = parsed_by_python(&seen.headers["content-type"], &seen.body) else {
            println!("skipped: python3 is not installed");
            return;
        };
        let number = seen.nth / 2;
        let expected = if seen.path == "/fixed" {
            "b None text/plain 31\na small.txt text/plain 736d616c6c0a\n".to_owned()
        } else {
            let title: String =
                format!("number {number}").bytes().map(|byte| format!("{byte:02x}")).collect();
            format!(
                "title None text/plain {title}\ntag None text/plain 61\ntag None text/plain 32\nlarge n{number}.png image/png {}\nsmall small.txt text/plain 736d616c6c0a\n",
                "07".repeat(100_000)
            )
        };
        assert!(fields == expected, "{}: {}", seen.path, fields.chars().take(300).collect::<String>());
    }
}

#[test]
fn bodies_are_compressed_with_gzip() {
    use std::io::Read as _;
    let server = ScriptedServer::start(|_, wire| wire.answer("200 OK", "text/plain", "ok"));
    let bench = Bench::new();
    bench.write("large.bin", vec![7; 200_000]);
    let scenario = "runner: { serial: { times: 1 } }\niteration:\n  - { action: fixed, post: /1, json: { a: 1 }, gzip: true }\n  - { action: template, post: /2, body: \"{{ iteration }}!\", gzip: true }\n  - { action: file, post: /3, file: large.bin, gzip: true }\n  - { action: plain, post: /4, json: { a: 1 }, gzip: false }";
    all_ok(&load(&bench, &server.url(), "", scenario), 1);
    let expected = [br#"{"a":1}"#.to_vec(), b"0!".to_vec(), vec![7; 200_000], br#"{"a":1}"#.to_vec()];
    for (seen, expected) in server.seen().iter().zip(expected) {
        let mut body = Vec::new();
        if seen.path == "/4" {
            assert!(!seen.headers.contains_key("content-encoding"));
            body.clone_from(&seen.body);
        } else {
            assert_eq!(seen.headers["content-encoding"], "gzip");
            flate2::read::GzDecoder::new(seen.body.as_slice()).read_to_end(&mut body).unwrap();
        }
        assert!(body == expected, "{}", seen.path);
    }
}

#[test]
fn a_server_that_refuses_a_large_body_is_heard_before_its_end() {
    // It never reads the body and keeps the connection open: whoever sends on waits for ever.
    let server = ScriptedServer::deaf(|_, wire| {
        wire.send("HTTP/1.1 100 Continue\r\n\r\n");
        wire.answer("413 Payload Too Large", "text/plain", "no");
        After::Hang
    });
    let bench = Bench::new();
    bench.write("large.bin", vec![7; 40_000_000]);
    let scenario = "runner: { serial: { times: 1 } }\niteration: [ { post: /up, file: large.bin, timeout: 60s, expect: { status: 413, body: no } } ]";
    all_ok(&load(&bench, &server.url(), "", scenario), 1);
}

#[test]
fn a_name_with_several_values_is_sent_several_times() {
    let server = ScriptedServer::start(|_, wire| wire.answer("200 OK", "text/plain", "ok"));
    let bench = Bench::new();
    let scenario = "runner: { serial: { times: 1 } }\niteration: [ { post: /q, query: { tag: [ b, a, \"{{ iteration }}\" ], x: 1 }, form: { f: [ true, 2 ] } } ]";
    all_ok(&load(&bench, &server.url(), "", scenario), 1);
    let seen = &server.seen()[0];
    assert_eq!((seen.path.as_str(), seen.body.as_slice()), ("/q?tag=b&tag=a&tag=0&x=1", &b"f=true&f=2"[..]));
}

#[test]
fn files_are_sent_over_http2_and_a_changed_one_resets_only_its_request() {
    use crate::h2_server::{Act, H2Server};
    let bench = Bench::new();
    let path = bench.write("f.bin", binary(400_000));
    rewind::file(path.clone());
    let server = H2Server::start(move |seen| {
        if seen.uri.ends_with("/change") {
            std::fs::write(&path, binary(100_000)).unwrap();
        }
        Act::Answer(1)
    });
    let scenario = "runner: { serial: { times: 1 } }\niteration: [ { put: /up, file: f.bin }, { get: /change }, { action: after, put: /again, file: f.bin } ]";
    let workload = load(&bench, &server.url(), "http: { version: 2 }", scenario);
    assert_eq!(workload["errors"][0]["class"], "file", "{}", workload["errors"]);
    let seen: Vec<usize> = server.seen().iter().map(|seen| seen.body_bytes).collect();
    assert_eq!(seen, [400_000, 0]);
}
