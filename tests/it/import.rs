//! `bench import`: what it writes validates and runs.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::server::ScriptedServer;
use crate::support::{Bench, CommandOutput};

fn vector(name: &str) -> String {
    let folder: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors/import");
    folder.join(name).display().to_string()
}

/// Recorded with a real browser; see tests/vectors/import/README.md.
#[test]
fn a_recording_of_a_browser_runs_against_the_service_that_it_was_made_of() {
    let bench = Bench::new();
    let said = bench.run(&["import", "har", &vector("demo.har")]).expect_code(0).stdout;
    for part in [
        "scenario    demo.yaml: 4 requests an iteration",
        "1 request was left out: 1 static files (--all keeps them)",
        "1 value is extracted from a response",
        "export PASSWORD=…",
        "bench run demo.yaml",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let scenario = std::fs::read_to_string(bench.path().join("demo.yaml")).unwrap();
    assert!(scenario.contains("X-Auth-Token: '{{ x_subject_token }}'"), "{scenario}");
    assert!(!scenario.contains("password: demo"), "{scenario}");
    bench.write("demo-now.yaml", "demo: {}\n");
    let run = ["run", "demo.yaml", "-d", "demo-now.yaml", "-n", "3"];
    Bench::end(bench.command(&run).env("PASSWORD", "demo")).expect_code(0);
    let results = bench.results();
    let actions = results["workloads"][0]["actions"].as_array().unwrap();
    let names: Vec<_> = actions.iter().map(|action| action["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["GET /", "POST /v3/auth/tokens", "GET /v3/users/user-7", "GET /v3/users/user-7 (2)"]);
    assert_eq!(results["workloads"][0]["iterations"]["failed"], 0);
}

/// Collections that others exported from Postman; see tests/vectors/import/README.md.
#[test]
fn a_collection_of_postman_runs() {
    let server = ScriptedServer::start(|seen, wire| {
        let status = match seen.path.as_str() {
            "/users/active" => "202 Accepted",
            "/users" if seen.method == "POST" => "201 Created",
            _ => "200 OK",
        };
        wire.answer(status, "application/json", "{}")
    });
    let bench = Bench::new();
    let file = vector("public.postman_collection.json");
    let said = bench.run(&["import", "postman", &file]).expect_code(0).stdout;
    assert!(said.contains("scenario    public.yaml:") && said.contains("export TOKEN=…"), "{said}");
    let scenario = std::fs::read_to_string(bench.path().join("public.yaml")).unwrap();
    for part in [
        "folders / Users / Admin / Get user roles",
        "get: /dev/user/{{ user_id }}/desc/{{ desc_id }}",
        "status: 202",
    ] {
        assert!(scenario.contains(part), "{part}: {scenario}");
    }
    assert!(!scenario.contains("YUIHUILOIJOJOJ"), "{scenario}");
    bench.write("now.yaml", format!("targets: {{ default: {} }}\n", server.url()));
    let run = ["run", "public.yaml", "-d", "now.yaml", "--set", "user_id=7", "--set", "desc_id=8"];
    Bench::end(bench.command(&run).env("TOKEN", "t-1")).expect_code(0);
    assert!(server.count("/dev/user/7/desc/8") == 1, "{:?}", server.seen());
    let is_sent = |seen: &crate::server::ScriptedRequest| {
        seen.headers.get("authorization").is_some_and(|value| value == "Bearer t-1")
    };
    assert_eq!(server.seen().iter().filter(|seen| is_sent(seen)).count(), 2);
}

#[test]
fn a_curl_command_sends_the_same_request_again() {
    let (server, bench) =
        (ScriptedServer::start(|_, wire| wire.answer("200 OK", "text/plain", "ok")), Bench::new());
    let url = format!("{}/orders?x=1", server.url());
    let words = [
        "import",
        "curl",
        "-o",
        "sub/one.yaml",
        "--",
        "curl",
        &url,
        "-H",
        "X-Tenant: blue",
        "--json",
        "{\"a\":\"{{b}}\"}",
    ];
    bench.run(&words).expect_code(0);
    bench.run(&["run", "sub/one.yaml"]).expect_code(0);
    let seen = &server.seen()[0];
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", "/orders?x=1"));
    assert_eq!(seen.headers["x-tenant"], "blue");
    assert_eq!(String::from_utf8_lossy(&seen.body), "{\"a\":\"{{b}}\"}");
    // Nothing is overwritten, unless that is wanted.
    let again = bench.run(&words).expect_code(64);
    assert!(
        again.stderr.contains("exists already; name another file with -o, or add --force"),
        "{}",
        again.stderr
    );
    bench.run(&[&words[..2], &["--force"], &words[2..]].concat()).expect_code(0);
}

fn piped(bench: &Bench, words: &[&str], input: &str) -> CommandOutput {
    let mut command = bench.command(words);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    CommandOutput::from(child.wait_with_output().unwrap())
}

#[test]
fn multipart_forms_and_standard_input_work() {
    let (server, bench) =
        (ScriptedServer::start(|_, wire| wire.answer("200 OK", "text/plain", "ok")), Bench::new());
    let command =
        format!("curl '{}/upload' \\\n  -F 'name=a b' -F 'text=@note.pem;type=text/plain'", server.url());
    bench.write("note.pem", "PRIVATE\n");
    // The scenario is in another folder than the file.
    piped(&bench, &["import", "curl", "-", "-o", "sub/one.yaml"], &command).expect_code(0);
    for name in ["sub/one.yaml", "sub/one-deployment.yaml"] {
        assert!(!std::fs::read_to_string(bench.path().join(name)).unwrap().contains("PRIVATE"), "{name}");
    }
    bench.run(&["run", "sub/one.yaml"]).expect_code(0);
    let body = String::from_utf8_lossy(&server.seen()[0].body).into_owned();
    for part in
        ["name=\"name\"\r\n\r\na b\r\n", "filename=\"note.pem\"\r\nContent-Type: text/plain\r\n\r\nPRIVATE\n"]
    {
        assert!(body.contains(part), "{part}: {body}");
    }
}

#[test]
fn what_commands_upload_is_sent_from_their_files() {
    let (server, bench) =
        (ScriptedServer::start(|_, wire| wire.answer("200 OK", "text/plain", "ok")), Bench::new());
    bench.write("a.bin", "a\nb\n");
    let url = server.url();
    for (number, (words, method, path)) in [
        (&["--data-binary", "@a.bin"][..], "POST", "/x"),
        (&["-d", "@a.bin"], "POST", "/x"),
        (&["-T", "a.bin"], "PUT", "/x"),
        (&["-X", "PURGE", "--data-binary", "@a.bin"], "PURGE", "/x"),
    ]
    .into_iter()
    .enumerate()
    {
        let (file, url) = (format!("{number}.yaml"), format!("{url}/x"));
        let words = [&["import", "curl", "-o", &file, "--", "curl", &url][..], words].concat();
        bench.run(&words).expect_code(0);
        bench.run(&["run", &file]).expect_code(0);
        let seen = server.seen();
        let seen = seen.last().unwrap();
        assert_eq!(
            (seen.method.as_str(), seen.path.as_str(), &seen.body[..]),
            (method, path, &b"a\nb\n"[..])
        );
    }
}

#[test]
fn files_that_are_only_mentioned_get_stand_ins_so_that_the_scenario_is_valid() {
    let bench = Bench::new();
    let document = r#"{"openapi":"3.0.0","paths":{"/up":{"post":{"requestBody":{"content":{"multipart/form-data":{"schema":
        {"properties":{"photo":{"type":"string","format":"binary"}}}}}}}}},"components":{"securitySchemes":{"a":{"type":"oauth2",
        "flows":{"clientCredentials":{"tokenUrl":"https://h/t","scopes":{"x":""}}}}}}}"#;
    bench.write("api.json", document);
    let said = bench.run(&["import", "openapi", "api.json", "--unsafe", "-o", "sub/"]).expect_code(0).stdout;
    assert!(said.contains("photo.bin stands in for a file") && said.contains("CLIENT_SECRET=…"), "{said}");
    bench.run(&["validate", "--offline", "sub/api.yaml"]).expect_code(0);
    // A file that is there stays.
    bench.write("sub/files/photo.bin", "mine");
    let said =
        bench.run(&["import", "openapi", "api.json", "--unsafe", "-o", "sub/", "--force"]).expect_code(0);
    assert!(!said.stdout.contains("stands in"), "{}", said.stdout);
    assert_eq!(std::fs::read_to_string(bench.path().join("sub/files/photo.bin")).unwrap(), "mine");
}

/// Each option, with what it makes of the deployment, passes the check of all files.
#[test]
fn options_about_the_connection_make_valid_deployments() {
    let bench = Bench::new();
    bench.write("ca.pem", "");
    for (number, words) in [
        &["--unix-socket", "/run/app.sock"][..],
        &["-x", "me:secret@proxy.example"],
        &["-x", "proxy.example", "--noproxy", "a.example,10.0.0.0/8"],
        &["--resolve", "h:443:10.0.0.1,::1"],
        &["--cacert", "ca.pem", "-E", "ca.pem", "-k", "--http2"],
        &["-b", "jar", "-H", "@headers", "https://other/"],
    ]
    .iter()
    .enumerate()
    {
        let file = format!("sub/{number}.yaml");
        bench
            .run(&[&["import", "curl", "-o", &file, "--", "curl", "https://h/x"][..], words].concat())
            .expect_code(0);
        bench.run(&["validate", "--offline", &file]).expect_code(0);
    }
}

#[test]
fn an_openapi_document_runs_against_a_service_that_keeps_it() {
    let server = ScriptedServer::start(|seen, wire| match (seen.method.as_str(), seen.path.as_str()) {
        ("POST", "/v1/pets") => wire.answer("201 Created", "application/json", "{}"),
        ("GET", "/v1/pets") => wire.answer("200 OK", "application/json", "[]"),
        ("GET", "/v1/pets/text") => wire.answer("200 OK", "application/json", "{\"id\":1}"),
        _ => wire.answer("404 Not Found", "application/json", "{}"),
    });
    let bench = Bench::new();
    bench.run(&["import", "openapi", &vector("petstore-v3.yaml"), "--unsafe"]).expect_code(0);
    let path = bench.path().join("petstore-v3-deployment.yaml");
    let deployment = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, deployment.replace("http://petstore.swagger.io", &server.url())).unwrap();
    bench.run(&["run", "petstore-v3.yaml", "-n", "2"]).expect_code(0);
    assert_eq!(server.seen().len(), 6);
}

#[test]
fn what_cannot_be_imported_is_refused_with_a_remedy() {
    let bench = Bench::new();
    bench.write("empty.har", r#"{"log":{"entries":[]}}"#);
    bench.write("not.json", "curl");
    std::fs::create_dir(bench.path().join("dir")).unwrap();
    for (words, code, part) in [
        (&["import", "har", "none.har"][..], 65, "cannot read none.har: No such file"),
        (&["import", "har", "dir"], 65, "cannot read dir: is a directory"),
        (&["import", "har", "empty.har"], 65, "there is no request to import"),
        (&["import", "har", "not.json"], 65, "not an HTTP archive that can be read"),
        (&["import", "openapi", "empty.har"], 65, "not an OpenAPI document"),
        (&["import", "curl", "empty.har"], 65, "not a curl command"),
        (
            &["import", "curl", "--", "curl", "http://h", "-d", "@none"],
            65,
            "cannot read none, which the command names",
        ),
        (&["import", "curl", "--", "curl", "http://h", "-d", "@-"], 65, "reads its standard input"),
        (&["import", "curl", "--", "curl", "http://h", "-F", "f=@dir"], 65, "it is not a file"),
        (&["import", "curl", "--", "curl", "http://h", "-X", "CONNECT"], 65, "it opens a tunnel"),
        (&["import", "curl"], 64, "required"),
        (&["import", "har", "x", "--think", "maybe"], 64, "write yes or no"),
    ] {
        let ended = bench.run(words).expect_code(code);
        assert!(ended.stderr.contains(part), "{words:?}: {}", ended.stderr);
    }
}

#[test]
fn init_writes_files_that_run_for_the_demo_a_url_and_a_document() {
    let (server, bench) =
        (ScriptedServer::start(|_, wire| wire.answer("200 OK", "application/json", "{}")), Bench::new());
    let said = bench.run(&["init"]).expect_code(0).stdout;
    assert!(said.contains("bench run demo.yaml"), "{said}");
    bench.run(&["run", "demo.yaml", "-n", "60"]).expect_code(0);
    bench.run(&["init"]).expect_code(64);
    let url = format!("{}/orders?x=1", server.url());
    bench.run(&["init", &url, "-o", "mine.yaml"]).expect_code(0);
    bench.run(&["run", "mine.yaml"]).expect_code(0);
    assert_eq!(server.seen().iter().filter(|seen| seen.path == "/orders?x=1").count(), 200);
    bench.run(&["init", &vector("petstore-v3.yaml"), "-o", "api/"]).expect_code(0);
    bench.run(&["validate", "api/petstore-v3.yaml"]).expect_code(0);
    let refused = bench.run(&["init", "http://u:p@h/"]).expect_code(65);
    assert!(refused.stderr.contains("a URL with credentials would be readable"), "{}", refused.stderr);
    let refused = bench.run(&["init", "none.json"]).expect_code(65);
    assert!(refused.stderr.contains("cannot read none.json"), "{}", refused.stderr);
}

/// The comments at the end of a new scenario are keys that work.
#[test]
fn the_ideas_of_init_are_valid() {
    let bench = Bench::new();
    bench.write("d.yaml", "targets: { default: http://127.0.0.1:1 }\n");
    for (number, (title, keys)) in bench::import::starter::IDEAS.iter().enumerate() {
        let mut text = format!("title: t\ndeployment: d.yaml\n{keys}");
        if !keys.contains("runner:") {
            text.push_str("runner: { constant: { times: 1 } }\n");
        }
        if !keys.contains("iteration:") {
            text.push_str("iteration: [{ get: / }]\n");
        }
        let name = format!("{number}.yaml");
        bench.write(&name, text);
        let ended = Bench::end(bench.command(&["validate", &name]).env("PASSWORD", "x"));
        assert_eq!(ended.code, Some(0), "{title}: {}", ended.stderr);
    }
}

/// What might be a secret and is written is listed, and a link that leads nowhere is not written through.
#[cfg(unix)]
#[test]
fn what_is_kept_in_clear_is_listed_and_a_link_is_not_followed_to_a_new_file() {
    let bench = Bench::new();
    let words = [
        "import",
        "curl",
        "-o",
        "one.yaml",
        "--",
        "curl",
        "http://127.0.0.1:9/orders/o-1234567",
        "-H",
        "X-Tenant: blue-12345",
    ];
    std::os::unix::fs::symlink("elsewhere.yaml", bench.path().join("one.yaml")).unwrap();
    let refused = bench.run(&words).expect_code(64);
    assert!(refused.stderr.contains("one.yaml exists already"), "{}", refused.stderr);
    assert!(!bench.path().join("elsewhere.yaml").exists());
    std::fs::remove_file(bench.path().join("one.yaml")).unwrap();
    let said = bench.run(&words).expect_code(0).stdout;
    assert!(said.contains("written as they are: X-Tenant, a part of a path"), "{said}");
}
