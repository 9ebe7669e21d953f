//! The example service of `tests/service`, called by a client whose trace continues in it: both are in one tree.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use bench::base::secret::Secret;
use bench::osprofiler::compat::compat_report;
use bench::osprofiler::driver::Collector;
use bench::osprofiler::http_client;
use bench::osprofiler::instrument::InstrumentLayer;
use bench::osprofiler::notifier::{Notifier, QueueNotifier};
use bench::osprofiler::record::TraceRecord;
use bench::osprofiler::report::TraceTree;
use bench::osprofiler::trace::TraceHandle;
use bench::osprofiler::verifying::ServerKeys;
use serde_json::{Value, json};
use traced_service::ComputeService;
use tracing_subscriber::layer::SubscriberExt as _;

use crate::real_osprofiler::Peer;
use crate::support::{redis_to_oneself, service};

/// What every request of a server makes below its `wsgi`, with the reporting services.
const SERVER: [&str; 12] = [
    "wsgi api",
    "  authorize api",
    "  find api",
    "    db api",
    "  describe api",
    "    http api",
    "      wsgi api",
    "        image api",
    "          checksum api",
    "    rpc api",
    "      rpc worker",
    "        state worker",
];

/// Held while the service runs: what its messages report to is the process's.
static ALONE: Mutex<()> = Mutex::new(());

/// Runs `client`, which gets the service's URL, beside the running service, and then `read` with
/// what it returned, once all records are stored.
fn with_service<T: Send + 'static>(
    connection: &str,
    client: impl FnOnce(String) -> T + Send + 'static,
    read: impl AsyncFnOnce(T, Collector),
) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let subscriber = tracing_subscriber::registry().with(InstrumentLayer::new());
    let _subscriber = tracing::subscriber::set_default(subscriber);
    // All tasks on this thread, which has the subscriber.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let collector = Collector::connect(&Secret::new(connection)).await.unwrap();
        let notifier = Arc::new(QueueNotifier::start(collector.clone(), 10_000));
        let keys = ServerKeys::parse("other, KEY");
        let service = ComputeService::start(keys, Arc::clone(&notifier) as Arc<dyn Notifier>).await.unwrap();
        let url = format!("http://127.0.0.1:{}", service.port());
        let returned = tokio::task::spawn_blocking(|| client(url)).await.unwrap();
        service.stop().await;
        let report = notifier.shutdown().await;
        assert_eq!((report.dropped, report.last_error), (0, None));
        read(returned, collector).await;
    });
}

/// Points with their reporters, indented.
fn outline(records: &[TraceRecord]) -> Vec<String> {
    let points = TraceTree::build(records).points;
    let line = |point: &bench::osprofiler::report::Point| {
        let service = point.service.as_deref().unwrap_or_default();
        format!("{}{} {service}", "  ".repeat(point.depth), point.name)
    };
    points.iter().map(line).collect()
}

fn below(levels: usize, lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| format!("{}{line}", "  ".repeat(levels))).collect()
}

/// A GET with these headers: status and body.
fn get(url: &str, headers: &[(&str, String)]) -> (u16, String) {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    let headers: String = headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    write!(stream, "GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n{headers}\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
}

#[test]
fn one_request_is_one_tree_over_services_in_all_three_ways() {
    let folder = tempfile::tempdir().unwrap();
    let connection = format!("sqlite://{}", folder.path().join("traces.db").display());
    let client = |url: String| {
        let caller = |path: &str, key: &str| {
            let trace = TraceHandle::init(&Secret::new(key), None, None);
            let headers = trace.run(http_client::headers).unwrap();
            (trace.base_id().to_owned(), get(&format!("{url}{path}"), &headers))
        };
        let bad = |path| caller(path, "KEY");
        let untraced = get(&format!("{url}/servers/1"), &[]);
        (
            caller("/servers/2", "KEY"),
            bad("/servers/13"),
            bad("/servers/99"),
            caller("/servers/1", "no"),
            untraced,
        )
    };
    with_service(&connection, client, async |(good, failed, unknown, rejected, untraced), collector| {
        let records = async |base_id: &str| collector.records(base_id).await.unwrap();
        assert_eq!(good.1, (200, "two image-2 ACTIVE".to_owned()));
        assert_eq!(outline(&records(&good.0).await), SERVER);

        assert_eq!(failed.1, (404, "the worker knows no server 13".to_owned()));
        let failed = records(&failed.0).await;
        let errors = errors(&failed);
        assert_eq!(errors.len(), 3, "{errors:?}");
        assert!(errors.iter().all(|(_, message)| message == "the worker knows no server 13"));
        assert_eq!(
            errors.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
            ["describe", "rpc", "rpc"]
        );

        assert_eq!(unknown.1.0, 404);
        let unknown = records(&unknown.0).await;
        assert_eq!(outline(&unknown), SERVER[..4]);
        assert_eq!(self::errors(&unknown).iter().map(|(name, _)| name).collect::<Vec<_>>(), ["find", "db"]);
        let says_busy =
            |record: &TraceRecord| record.info.contains_key("busy_us") == record.name.ends_with("-stop");
        assert!(unknown.iter().chain(&failed).all(says_busy));

        assert_eq!((rejected.1.0, records(&rejected.0).await.len()), (200, 0));
        assert_eq!(untraced, (200, "one image-1 PAUSED".to_owned()));
    });
}

fn errors(records: &[TraceRecord]) -> Vec<(String, String)> {
    let points = TraceTree::build(records).points;
    points.into_iter().filter_map(|point| Some((point.name.into(), point.error?.message))).collect()
}

#[test]
fn real_clients_points_are_above_the_services() {
    let Some(python) = service("BENCH_TEST_PYTHON", "a Python that has OSProfiler") else { return };
    let Some(redis) = service("BENCH_TEST_REDIS_URL", "a redis") else { return };
    let _redis = redis_to_oneself();
    let mut peer = Peer::run(&python, "osprofiler_peer.py");
    let connection = redis.clone();
    let client = move |url: String| {
        let answer = peer.ask(&json!({
            "op": "call", "connection_string": connection, "hmac_key": "KEY", "url": format!("{url}/servers/2?a=1"),
            "project": "python", "service": "client", "host": "vm",
        }));
        (answer, peer)
    };
    with_service(&redis, client, async |(answer, mut peer): (Value, Peer), collector| {
        assert_eq!((&answer["status"], &answer["body"]), (&json!(200), &json!("two image-2 ACTIVE")));
        let base_id = answer["base_id"].as_str().unwrap();
        let records = collector.records(base_id).await.unwrap();
        let mut expected = vec!["client client".to_owned(), "  http client".to_owned()];
        expected.extend(below(2, &SERVER));
        assert_eq!(outline(&records), expected);

        let ours = compat_report(&records);
        assert_eq!(ours["children"].as_array().unwrap().len(), 1, "one tree");
        let theirs = peer.ask(&json!({"op": "report", "connection_string": redis, "base_id": base_id}));
        assert_eq!(ours.to_string(), theirs.to_string());
        let command = Path::new(&python).with_file_name("osprofiler");
        let shown = Command::new(command)
            .args(["trace", "show", "--json", "--connection-string", &redis, base_id])
            .output()
            .unwrap();
        let shown: Value = serde_json::from_slice(&shown.stdout).unwrap();
        assert_eq!(ours.to_string(), shown.to_string());
        // Their client's point and ours are shown alike.
        let start = |service: &str| {
            let is_it = |record: &&TraceRecord| {
                record.name == "http-start" && record.service.as_deref() == Some(service)
            };
            records.iter().find(is_it).unwrap().info["requests"].clone()
        };
        let (theirs, ours) = (start("client"), start("api"));
        let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!(keys(&theirs), keys(&ours));
        assert_eq!((&theirs["port"], &theirs["hostname"]), (&ours["port"], &ours["hostname"]));
    });
}
