//! Functions beside the Python OSProfiler: its command shows a trace that carries them, with one point more; and a WSGI
//! service that it traces samples its functions, with threads and with greenlets.

use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bench::base::secret::Secret;
use bench::osprofiler::compat::compat_report;
use bench::osprofiler::driver::Collector;
use bench::osprofiler::functions::carried;
use bench::osprofiler::functions::model::{Builder, Function};
use bench::osprofiler::record::TraceRecord;
use serde_json::{Map, Value, json};

use crate::support::{Bench, redis_to_oneself, service};

fn records(base_id: &str) -> Vec<TraceRecord> {
    let record = |name: &str, id: &str, parent: &str, us: u32, info: Map<String, Value>| TraceRecord {
        name: name.into(),
        base_id: base_id.into(),
        trace_id: format!("{id}0000000-0000-4000-8000-000000000000").into(),
        parent_id: if parent.is_empty() {
            base_id.into()
        } else {
            format!("{parent}0000000-0000-4000-8000-000000000000").into()
        },
        timestamp: format!("2026-11-20T22:52:01.{us:06}").into(),
        info: Map::from_iter(info.into_iter().chain([("host".to_owned(), "vm".into())])).into(),
        project: Some("example".into()),
        service: Some("api".into()),
    };
    let mut builder = Builder::new("wsgi", 100);
    let function = |name: &str| Function { name: name.into(), file: "src/reply.rs".into(), line: 7 };
    let point = "10000000-0000-4000-8000-000000000000";
    builder.add(Some(point), &[function("service::render"), function("service::escape_cells")], 61);
    builder.add(Some(point), &[function("service::render")], 39);
    let none = Map::new;
    let request = json!({"method": "GET", "path": "/reply"}); // `--dot` looks for it
    vec![
        record("wsgi-start", "1", "", 0, Map::from_iter([("request".to_owned(), request)])),
        record("db-start", "2", "1", 100, none()),
        record("db-stop", "2", "1", 400, none()),
        record("wsgi-stop", "1", "", 900, none()),
        record("functions-start", "3", "1", 900, none()),
        record("functions-stop", "3", "1", 900, carried::encode(&builder.finish())),
    ]
}

#[test]
fn real_osprofilers_command_reads_a_trace_with_functions() {
    let Some(python) = service("BENCH_TEST_PYTHON", "a Python that has OSProfiler") else { return };
    let Some(redis) = service("BENCH_TEST_REDIS_URL", "a redis") else { return };
    let _redis = redis_to_oneself();
    let base_id = uuid::Uuid::new_v4().to_string();
    let records = records(&base_id);
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let collector = Collector::connect(&Secret::new(redis.clone())).await.unwrap();
        collector.write(&records).await.unwrap();
    });
    let command = Path::new(&python).with_file_name("osprofiler");
    let shown = |form: &str| {
        let arguments = ["trace", "show", form, "--connection-string", &redis, &base_id];
        let output = Command::new(&command).args(arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}"); // this command complains on standard output
        String::from_utf8(output.stdout).unwrap()
    };
    let json: Value = serde_json::from_str(&shown("--json")).unwrap();
    assert_eq!(json.to_string(), compat_report(&records).to_string());
    let names = |tree: &Value| -> Vec<String> {
        let children = tree["children"].as_array().unwrap().iter();
        let mut names: Vec<String> =
            children.map(|child| child["info"]["name"].as_str().unwrap().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!(names(&json["children"][0]), ["db", "functions"]);
    assert!(shown("--html").contains("functions"));
    assert!(shown("--dot").contains("functions"));

    // And bench has them under the point, as a table, and not as a point.
    let bench = Bench::new();
    let run = |arguments: &[&str]| {
        let output = bench.command(arguments).args(["--connection-string", &redis]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = run(&["trace", "show", &base_id]);
    assert!(text.contains("ƒ 61 % src/reply.rs:7(service::escape_cells), 61 of 100 samples"), "{text}");
    assert!(text.contains("2 points over"), "{text}");
    let table = run(&["trace", "stats", "--functions", &base_id]);
    assert!(table.contains("src/reply.rs:7(service::render)") && table.contains("not calls"), "{table}");
}

/// The example service in Python; it ends with this.
struct Wsgi(Child, u16);

impl Drop for Wsgi {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Wsgi {
    fn start(python: &str, mode: &str, redis: &str, profiles: &Path) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/examples/profiled_wsgi.py");
        let mut command = Command::new(python);
        command.arg(script).args([mode, &port.to_string(), "KEY", redis]).arg(profiles);
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let (mut service, began) = (Self(child, port), Instant::now());
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(service.0.try_wait().unwrap().is_none(), "the service ended");
            assert!(began.elapsed() < Duration::from_secs(60), "the service does not come up");
            std::thread::sleep(Duration::from_millis(50));
        }
        service
    }
}

#[test]
fn real_wsgi_services_have_the_functions_of_each_request() {
    let Some(python) = service("BENCH_TEST_PYTHON", "a Python that has OSProfiler") else { return };
    let Some(redis) = service("BENCH_TEST_REDIS_URL", "a redis") else { return };
    let _redis = redis_to_oneself();
    for mode in ["threads", "eventlet"] {
        let bench = Bench::new();
        let profiles = bench.path().join("profiles");
        std::fs::create_dir(&profiles).unwrap();
        let wsgi = Wsgi::start(&python, mode, &redis, &profiles);
        let profiler = format!("profiler: {{ hmac_key: KEY, connection_string: \"{redis}\" }}");
        bench.load(
            &format!("http://127.0.0.1:{}", wsgi.1),
            &profiler,
            "runner: { constant: { times: 16, concurrency: 4 } }\n\
             iteration: [ { get: \"/{{ 'busy' if iteration % 2 == 0 else 'idle' }}\" } ]",
        );
        bench.run(&["run", "scenario.yaml", "--no-probe", "--profiles", "profiles"]).expect_code(0);
        let run = bench.run_directory();
        let (mut busy, mut idle) = (0, 0);
        for iteration in bench.results()["iterations"].as_array().unwrap() {
            let id = iteration["trace_id"].as_str().unwrap();
            let shown = bench
                .run(&["trace", "show", id, "--connection-string", &redis, "--profiles", "profiles"])
                .expect_code(0)
                .stdout;
            // The samples of a request are its own, although four take turns.
            let has = |function: &str| shown.contains(&format!("__main__.{function}"));
            if shown.contains("GET /busy") {
                assert!(has("busy") && !has("idle"), "{mode}: {shown}");
                busy += 1;
            } else {
                assert!(shown.contains("GET /idle") && !has("busy"), "{mode}: {shown}");
                idle += 1;
            }
        }
        assert_eq!((busy, idle), (8, 8), "{mode}");
        // And the run has them already.
        let table =
            bench.run(&["trace", "stats", "--functions", run.to_str().unwrap()]).expect_code(0).stdout;
        // The little that an idle request does may be seen, too, but far below.
        let place = |function: &str| table.find(function).unwrap_or(usize::MAX);
        let busy = place("__main__.busy");
        assert!(busy < usize::MAX && busy < place("__main__.idle"), "{mode}: {table}");
    }
}
