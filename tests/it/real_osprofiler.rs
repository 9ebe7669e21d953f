//! Against the OSProfiler library itself: each side accepts the headers and traces of the other.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use bench::base::secret::Secret;
use bench::osprofiler::compat::compat_report;
use bench::osprofiler::driver::Collector;
use bench::osprofiler::notifier::{Notifier, QueueNotifier};
use bench::osprofiler::record::ServiceIdentity;
use bench::osprofiler::report::TraceTree;
use bench::osprofiler::signing::{Signer, X_TRACE_HMAC, X_TRACE_INFO};
use bench::osprofiler::trace::TraceHandle;
use bench::osprofiler::verifying::ServerKeys;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::support::{Bench, redis_to_oneself, service};

/// Keys that somebody could configure, though not all of them should.
const KEYS: [&str; 10] = [
    "SECRET_KEY",
    "k",
    "one,two",
    " blank before and after ",
    "\"quoted\" and \\escaped\\",
    "ключ",
    "鍵😀",
    "é\u{301}",
    "tab\tand\nline",
    "longer than a block of SHA-1, which is sixty-four bytes: such a key is hashed before it is used",
];

/// A Python process with the library; see `tests/real/osprofiler_peer.py`.
pub(crate) struct Peer {
    process: Child,
    requests: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Peer {
    fn start() -> Option<Self> {
        Some(Self::of(&service("BENCH_TEST_PYTHON", "a Python that has OSProfiler")?))
    }

    pub(crate) fn of(python: &str) -> Self {
        Self::run(python, "osprofiler_peer.py")
    }

    /// Runs a script of `tests/real` that talks as `osprofiler_peer.py` does.
    pub(crate) fn run(python: &str, script: &str) -> Self {
        let mut process = Command::new(python)
            .arg(format!("{}/tests/real/{script}", env!("CARGO_MANIFEST_DIR")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{python} cannot be started: {error}"));
        let requests = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().unwrap());
        Self { process, requests, answers }
    }

    #[track_caller]
    pub(crate) fn ask(&mut self, request: &Value) -> Value {
        let mut line = String::new();
        writeln!(self.requests.as_mut().unwrap(), "{request}").unwrap();
        self.answers.read_line(&mut line).unwrap();
        let answer: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{request}: {line:?}"));
        assert!(answer.get("error").is_none() || answer.get("accepted").is_some(), "{request}: {answer}");
        answer
    }

    fn sign(&mut self, key: &str, base_id: &str, parent_id: &str) -> Value {
        self.ask(&json!({"op": "sign", "hmac_key": key, "base_id": base_id, "parent_id": parent_id}))
    }

    fn verify(&mut self, keys: &str, headers: &Value) -> Value {
        self.ask(&json!({"op": "verify", "hmac_keys": keys, "headers": headers}))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The end of its input ends it.
        drop(self.requests.take());
        let _ = self.process.wait();
    }
}

fn text<'a>(headers: &'a Value, name: &str) -> &'a str {
    headers[name].as_str().unwrap_or_else(|| panic!("no {name} in {headers}"))
}

/// Runs a check that writes to redis, unless there is none.
fn with_redis<Check: Future<Output = ()>>(check: impl FnOnce(Peer, String) -> Check) {
    let Some(peer) = Peer::start() else { return };
    let Some(url) = service("BENCH_TEST_REDIS_URL", "a redis") else { return };
    let _redis = redis_to_oneself();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(check(peer, url));
}

#[test]
fn real_headers_equal_the_librarys_byte_by_byte() {
    let Some(mut peer) = Peer::start() else { return };
    for key in KEYS {
        let signer = Signer::new(&Secret::new(key)).unwrap();
        for _ in 0..40 {
            let (base_id, parent_id) = (Uuid::new_v4(), Uuid::new_v4());
            let theirs = peer.sign(key, &base_id.to_string(), &parent_id.to_string());
            let ours = signer.for_base(base_id).sign(parent_id);
            assert_eq!(ours.trace_info(), text(&theirs, X_TRACE_INFO), "{key}");
            assert_eq!(ours.hmac(), text(&theirs, X_TRACE_HMAC), "{key}");
        }
        for (base_id, parent_id) in [("x", "y"), ("é漢😀", "\"\\/\u{7f}\u{1}"), ("0", &"long ".repeat(99))]
        {
            let theirs = peer.sign(key, base_id, parent_id);
            let (info, hmac) = signer.sign_text(base_id, parent_id);
            assert_eq!((&*info, &*hmac), (text(&theirs, X_TRACE_INFO), text(&theirs, X_TRACE_HMAC)), "{key}");
        }
    }
    // What an iteration's first request sends: the library takes base_id for a missing parent_id.
    let base_id = Uuid::new_v4();
    let theirs = peer.ask(&json!({"op": "sign", "hmac_key": "k", "base_id": base_id}));
    let ours = Signer::new(&Secret::new("k")).unwrap().for_base(base_id).sign(base_id);
    assert_eq!(ours.trace_info(), text(&theirs, X_TRACE_INFO));
    assert_eq!(peer.sign("", "a", "b"), json!({}));
    assert!(Signer::new(&Secret::new("")).is_none());
}

#[test]
fn real_middleware_accepts_our_headers_and_rejects_tampered_ones() {
    let Some(mut peer) = Peer::start() else { return };
    let bench = Bench::new();
    bench.write(
        "deployment.yaml",
        "targets: { default: http://127.0.0.1:9 }\nprofiler: { hmac_key: right }\n",
    );
    let (base_id, parent_id) = (Uuid::new_v4().to_string(), Uuid::new_v4().to_string());
    let mut arguments = vec!["trace", "headers", "-d", "deployment.yaml", "--format", "json"];
    arguments.extend(["--base-id", &base_id, "--parent-id", &parent_id]);
    let printed = bench.run(&arguments).expect_code(0).stdout;
    let headers: Value = serde_json::from_str(&printed).unwrap();

    let accepted = json!({"accepted": true, "base_id": base_id, "parent_id": parent_id});
    for keys in ["right", "other,right", " other , right "] {
        assert_eq!(peer.verify(keys, &headers), accepted, "{keys}");
    }
    let rejected = json!({"accepted": false});
    for keys in ["wrong", "Right", "righ,t"] {
        assert_eq!(peer.verify(keys, &headers), rejected, "{keys}");
    }
    let (info, hmac) = (text(&headers, X_TRACE_INFO), text(&headers, X_TRACE_HMAC));
    let other = Signer::new(&Secret::new("right")).unwrap().sign_text(&parent_id, &base_id);
    let first = if info.starts_with('e') { "f" } else { "e" };
    for (what, info, hmac) in [
        ("a changed first character", format!("{first}{}", &info[1..]), hmac.to_owned()),
        ("another trace's info", other.0, hmac.to_owned()),
        ("another trace's HMAC", info.to_owned(), other.1),
        ("half an HMAC", info.to_owned(), hmac[..20].to_owned()),
        ("an HMAC in capitals", info.to_owned(), hmac.to_uppercase()),
        ("no HMAC", info.to_owned(), String::new()),
        ("no info", String::new(), hmac.to_owned()),
    ] {
        let headers = json!({X_TRACE_INFO: info, X_TRACE_HMAC: hmac});
        assert_eq!(peer.verify("right", &headers), rejected, "{what}");
        assert!(ServerKeys::parse("right").verify(info.as_bytes(), hmac.as_bytes()).is_err(), "{what}");
    }
}

#[test]
fn real_headers_of_the_library_are_accepted_here() {
    let Some(mut peer) = Peer::start() else { return };
    // A service's keys are split and stripped, so only these can be somebody's.
    for key in KEYS.iter().filter(|key| !key.contains(',') && key.trim() == **key) {
        let keys = ServerKeys::parse(&format!("other, {key} ,third"));
        let wrong = ServerKeys::parse("other,third");
        let mut ids: Vec<_> =
            (0..20).map(|_| (Uuid::new_v4().to_string(), Uuid::new_v4().to_string())).collect();
        ids.push(("é漢😀 \"".to_owned(), "\\ \n".to_owned()));
        for (base_id, parent_id) in ids {
            let headers = peer.sign(key, &base_id, &parent_id);
            let (info, hmac) = (text(&headers, X_TRACE_INFO), text(&headers, X_TRACE_HMAC));
            let context = keys.verify(info.as_bytes(), hmac.as_bytes()).unwrap();
            assert_eq!((&context.base_id, &context.parent_id), (&base_id, &parent_id));
            assert!(wrong.verify(info.as_bytes(), hmac.as_bytes()).is_err());
        }
    }
}

#[test]
fn real_traces_of_the_library_are_read_from_redis() {
    with_redis(check_traces_of_the_library);
}

async fn check_traces_of_the_library(mut peer: Peer, url: String) {
    let collector = Collector::connect(&Secret::new(&url)).await.unwrap();
    let mut write = json!({
        "op": "write", "connection_string": url, "hmac_key": "k",
        "project": "keystone", "service": "public", "host": "vm",
        "points": [
            {"name": "wsgi", "info": {"request": {"method": "GET", "path": "/é", "query": "a=1"}}, "children": [
                {"name": "db", "info": {"db": {"statement": "SELECT 1"}}, "sleep_ms": 4},
                {"name": "db", "info": {"db": {"statement": "SELECT 2"}}, "sleep_ms": 3,
                 "stop_info": {"etype": "IntegrityError", "message": "twice"}},
                {"name": "my-op", "children": [{"name": "rpc", "open": true}]}]},
            {"name": "wsgi", "sleep_ms": 2}],
    });
    let written = peer.ask(&write);
    let base_id = text(&written, "base_id").to_owned();
    let records = collector.records(&base_id).await.unwrap();
    let tree = TraceTree::build(&records);
    let shape: Vec<_> = tree.points.iter().map(|p| (p.depth, p.name.as_str(), p.detail())).collect();
    let none = String::new;
    let expected = [
        (0, "wsgi", "GET /é?a=1".to_owned()),
        (1, "db", "SELECT 1".to_owned()),
        (1, "db", "SELECT 2".to_owned()),
        (1, "my-op", none()),
        (2, "rpc", none()),
        (0, "wsgi", none()),
    ];
    assert_eq!(shape, expected);
    let durations: Vec<_> = tree.points.iter().map(|point| point.duration_us).collect();
    assert!(durations[1] >= Some(4_000) && durations[2] >= Some(3_000) && durations[5] >= Some(2_000));
    assert!(durations[0] >= Some(7_000) && durations[4].is_none(), "{durations:?}");
    assert_eq!(tree.points[2].error.as_ref().unwrap().etype, "IntegrityError");
    let origin = |point: &bench::osprofiler::report::Point| {
        (point.project.clone().unwrap(), point.service.clone().unwrap(), point.host.clone().unwrap())
    };
    let expected = ("keystone".into(), "public".into(), "vm".into());
    assert!(tree.points.iter().all(|point| origin(point) == expected));
    assert_same_report(&mut peer, &url, &base_id, &compat_report(&records));

    // A wide one, and another request of the same trace: all roots are shown.
    write["base_id"] = base_id.clone().into();
    write["points"] = json!([{"name": "wsgi", "children": vec![json!({"name": "db"}); 150]}]);
    peer.ask(&write);
    let records = collector.records(&base_id).await.unwrap();
    assert_eq!(TraceTree::build(&records).points.len(), 6 + 151);
    assert_same_report(&mut peer, &url, &base_id, &compat_report(&records));
}

#[test]
fn real_library_reads_what_we_wrote_to_redis() {
    with_redis(check_our_traces);
}

async fn check_our_traces(mut peer: Peer, url: String) {
    let collector = Collector::connect(&Secret::new(&url)).await.unwrap();
    let notifier = Arc::new(QueueNotifier::start(collector.clone(), 1_000));
    let identity = ServiceIdentity { project: "demo".into(), service: "api".into(), host: "vm".into() };
    let sink: Arc<dyn Notifier> = Arc::clone(&notifier) as Arc<dyn Notifier>;
    let trace = TraceHandle::start(Uuid::new_v4(), None, Arc::new(identity), sink);
    let info = json!({"request": {"method": "GET", "path": "/漢"}}).as_object().cloned();
    {
        let root = trace.enter("wsgi", info);
        let op = root.trace().enter("my-op", None);
        for statement in ["SELECT 1", "SELECT 2"] {
            let info = json!({"db": {"statement": statement}}).as_object().cloned();
            let db = op.trace().enter("db", info);
            tokio::time::sleep(std::time::Duration::from_millis(3)).await;
            if statement == "SELECT 2" {
                db.fail("IntegrityError", "twice");
            }
        }
        // Concurrent points: closed in another order than a stack would.
        let (first, second) = (root.trace().enter("first", None), root.trace().enter("second", None));
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        drop(first);
        drop(second);
    }
    let written = notifier.shutdown().await;
    assert_eq!((written.written, written.dropped, written.last_error), (12, 0, None));

    let theirs = peer.ask(&json!({"op": "report", "connection_string": url, "base_id": trace.base_id()}));
    let wsgi = &theirs["children"][0];
    let names = |point: &Value| -> Vec<String> {
        let children = point["children"].as_array().unwrap();
        children.iter().map(|child| child["info"]["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&theirs), ["wsgi"]);
    // The library cuts a name at its first hyphen, and shows what starts together newest first.
    let mut below = names(wsgi);
    below[1..].sort();
    assert_eq!(below, ["my", "first", "second"]);
    assert_eq!(names(&wsgi["children"][0]), ["db", "db"]);
    assert_eq!(wsgi["children"][0]["children"][1]["info"]["exception"], "IntegrityError");
    assert_eq!(wsgi["info"]["host"], "vm");
    assert_eq!(theirs["stats"]["db"]["count"], 2);
    let records = collector.records(trace.base_id()).await.unwrap();
    assert_same_report(&mut peer, &url, trace.base_id(), &compat_report(&records));
}

/// That `ours` is the library's report of the same trace, order of keys included.
#[track_caller]
fn assert_same_report(peer: &mut Peer, url: &str, base_id: &str, ours: &Value) {
    let theirs = peer.ask(&json!({"op": "report", "connection_string": url, "base_id": base_id}));
    assert!(theirs["children"].as_array().is_some_and(|children| !children.is_empty()), "{theirs}");
    assert_eq!(ours.to_string(), theirs.to_string());
}
