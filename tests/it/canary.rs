//! Secrets are never shown: the tests search every output of a run for a word that replaces them.

use std::io::{Read as _, Write as _};
use std::path::Path;

use crate::support::{Bench, CommandOutput};

const CANARY: &str = "c4n4ry-hunter2";

#[track_caller]
fn assert_hidden(what: &str, bytes: &[u8]) {
    let encoded = base64(CANARY.as_bytes());
    for secret in [CANARY.as_bytes(), encoded.as_bytes()] {
        let shown = memchr::memmem::find(bytes, secret).is_some();
        assert!(!shown, "{what} shows a secret:\n{}", String::from_utf8_lossy(bytes));
    }
}

fn base64(bytes: &[u8]) -> String {
    use base64::Engine as _;
    base64::engine::general_purpose::STANDARD_NO_PAD.encode(bytes)
}

#[track_caller]
fn assert_nothing_shown(bench: &Bench, ended: &CommandOutput) {
    assert_hidden("standard output", ended.stdout.as_bytes());
    assert_hidden("standard error", ended.stderr.as_bytes());
    let runs = bench.path().join("runs");
    if runs.exists() {
        search(&runs);
    }
}

/// Searches every file below a folder; gives their number.
fn search(folder: &Path) -> usize {
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            count += search(&path);
        } else {
            assert_hidden(&path.display().to_string(), &std::fs::read(&path).unwrap());
            count += 1;
        }
    }
    count
}

/// The demo with secrets of every kind: inline, by environment and by file; logging in fails with
/// one of them in the body.
const DEPLOYMENT: &str = "name: canary
demo: {}
headers:
  X-Api-Key: { file: secret.txt }
auth:
  basic: { username: u, password: { env: CANARY } }
profiler:
  hmac_key: c4n4ry-hunter2
";

const SCENARIO: &str = r#"title: canary
deployment: d.yaml
variables:
  secret: { env: CANARY }
runner: { constant: { times: 20, concurrency: 2 } }
iteration:
  - action: refused
    post: /v3/auth/tokens
    json:
      auth:
        identity:
          methods: [password]
          password: { user: { name: user-7, domain: { id: default }, password: "{{ secret }}" } }
    expect: { status: 201 }
"#;

#[test]
fn a_run_shows_no_secret_anywhere() {
    let bench = Bench::new();
    bench.write("secret.txt", CANARY);
    bench.write("d.yaml", DEPLOYMENT);
    bench.write("s.yaml", SCENARIO);
    let run = |arguments: &[&str]| {
        let ended = Bench::end(bench.command(arguments).env("CANARY", CANARY));
        assert_nothing_shown(&bench, &ended);
        ended
    };
    run(&["validate", "s.yaml", "d.yaml"]).expect_code(0);
    run(&["run", "s.yaml"]).expect_code(0);
    assert!(search(&bench.run_directory()) >= 3);
    assert_eq!(bench.results()["run"]["status"], "finished");
    let directory = bench.run_directory();
    run(&["report", directory.to_str().unwrap()]).expect_code(0);
    run(&["trace", "headers", "-d", "d.yaml"]).expect_code(0);
}

/// Faults beside secrets show their lines; the secrets in those are hidden.
#[test]
fn faults_show_no_secret() {
    for text in [
        format!("auth: {{ basic: {{ username: u, password: {CANARY}, oops: 1 }} }}\n"),
        format!("auth: {{ basic: {{ username: u, passwort: {CANARY} }} }}\n"),
        format!("auth: {{ bearer: {CANARY} }}\n"),
        format!("auth:\n  bearer:\n    token: [{CANARY}]\n"),
        format!("profiler:\n  hmac_key: \"{CANARY}\n    {CANARY}\n"),
        format!("profiler:\n  hmac_key: |\n    {CANARY}\n  oops: 1\n"),
        format!("profiler:\n  hmac_key: {CANARY}\n  hmac_key: {CANARY}\n"),
        format!("profiler:\n  hmac_keys:\n  - {CANARY}\n  - {{ {CANARY} }}\n"),
        format!("profiler: {CANARY}\n"),
        format!("profiler: {{ hmac_key: {{ env: NOT_SET_ANYWHERE, defalt: {CANARY} }} }}\n"),
        format!("profiler: {{ connection_string: redis://:{CANARY}@host, oops: 1 }}\n"),
        format!("targets: {{ default: http://u:{CANARY}@host }}\n"),
        format!("headers: {{ Authorization: Bearer {CANARY}, 'a b': c }}\n"),
        format!("headers: {{ X-Api-Key: {CANARY}, client_secret: {CANARY}, 'a b': c }}\n"),
        format!("headers:\n  refresh_token: {{ env: NOT_SET_ANYWHERE, defaul: {CANARY} }}\n"),
        format!("refresh_token: {CANARY}\n"),
        format!("# {CANARY}\ntargets: [] # {CANARY}\n"),
        format!("{{\"openstack\": {{\"auth_url\": 5, \"admin\": {{\"password\": \"{CANARY}\"}}}}}}\n"),
        format!("{{\"openstack\":\n{{\"admin\":\n{{\"password\":\n\"{CANARY}\"\n,\"oops\": 1}}}}}}\n"),
        format!("\tpassword: {CANARY}\n"),
        format!("a: b: c password: {CANARY}\n"),
        format!("password={CANARY}\n"),
    ] {
        let bench = Bench::new();
        bench.write("d.yaml", &text);
        let ended = bench.run(&["validate", "d.yaml"]).expect_code(65);
        assert!(!ended.stderr.contains(CANARY), "{text}\n{}", ended.stderr);
    }
}

/// A login that fails is reported in one line, even where the server sends the password back.
#[test]
fn a_refused_login_shows_no_password() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // The thread ends with the test's process.
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.set_read_timeout(Some(std::time::Duration::from_millis(300)));
            let mut request = Vec::new();
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = stream.read(&mut buffer) {
                request.extend_from_slice(&buffer[..length]);
                if request.ends_with(b"}") {
                    break;
                }
            }
            let body = String::from_utf8_lossy(&request).into_owned();
            let _ = write!(
                stream,
                "HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            );
        }
    });
    let bench = Bench::new();
    let text = format!(
        "auth: {{ keystone: {{ auth_url: 'http://{address}/v3', username: u, project_name: p, password: {{ env: CANARY }} }} }}\n"
    );
    bench.write("d.yaml", text);
    bench.write("s.yaml", SCENARIO);
    let ended = Bench::end(bench.command(&["run", "s.yaml"]).env("CANARY", CANARY)).expect_code(69);
    assert_nothing_shown(&bench, &ended);
    assert!(ended.stderr.contains("401"), "{}", ended.stderr);
}
