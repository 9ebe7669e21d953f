//! Collectors that store spans, over HTTP: spans written with OTLP come back from Jaeger and Tempo.

use std::sync::Arc;

use bench::base::secret::Secret;
use bench::osprofiler::driver::{Collector, DriverError, TraceQuery};
use bench::osprofiler::notifier::{Notifier, QueueNotifier};
use bench::osprofiler::record::{ServiceIdentity, TraceRecord};
use bench::osprofiler::report::TraceTree;
use bench::osprofiler::trace::TraceHandle;
use serde_json::json;
use uuid::Uuid;

use crate::backend::Backend;
use crate::server::ScriptedServer;

const READERS: [&str; 5] = [
    "jaeger://{}/jaeger",
    "tempo://{}/tempo",
    "tempo://{}/tempo-json",
    "tempo://{}/tempo-old/",
    "tempo://{}/tempo-old-protobuf",
];

async fn connect(url: &str, backend: &Backend) -> Collector {
    Collector::connect(&Secret::new(url.replace("{}", &backend.address))).await.unwrap()
}

/// Keeps what goes through.
struct Both {
    kept: std::sync::Mutex<Vec<TraceRecord>>,
    queue: Arc<QueueNotifier>,
}

impl Notifier for Both {
    fn notify(&self, record: TraceRecord) {
        self.kept.lock().unwrap().push(record.clone());
        self.queue.notify(record);
    }
}

fn sorted(mut records: Vec<TraceRecord>) -> Vec<TraceRecord> {
    records.sort_by(|one, other| {
        (&one.timestamp, &one.trace_id, &one.name).cmp(&(&other.timestamp, &other.trace_id, &other.name))
    });
    records
}

#[tokio::test]
async fn what_is_written_by_otlp_is_the_same_tree_from_jaeger_and_tempo() {
    let backend = Backend::start();
    let queue = Arc::new(QueueNotifier::start(connect("otlp://{}", &backend).await, 1_000));
    let both = Arc::new(Both { kept: Default::default(), queue: Arc::clone(&queue) });
    let identity =
        Arc::new(ServiceIdentity { project: "demo".into(), service: "my-api".into(), host: "vm".into() });
    let trace = TraceHandle::start(Uuid::new_v4(), None, identity, Arc::clone(&both) as Arc<dyn Notifier>);
    let open;
    {
        let info = json!({"request": {"method": "GET", "path": "/é", "query": "a=1", "scheme": "http"}});
        let root = trace.enter("wsgi", info.as_object().cloned());
        let info =
            json!({"db": {"statement": "SELECT 1", "params": {"a": [1, "é"]}}, "more": [1, {"x": null}]});
        // Concurrent points of one name end in another order than a stack would have it.
        let (first, second) =
            (root.trace().enter("db", info.as_object().cloned()), root.trace().enter("restart", None));
        tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        drop(first);
        second.fail("KeyError", "no\nsuch");
        drop(second);
        open = root.trace().enter("hangs", None);
    }
    let report = queue.shutdown().await;
    assert_eq!((report.written, report.dropped, report.last_error), (7, 0, None));
    drop(open);

    let mut written = both.kept.lock().unwrap().clone();
    written.retain(|record| record.name != "hangs-stop");
    let tree = TraceTree::build(&written);
    assert_eq!(tree.points.len(), 4);
    assert_eq!(tree.points.iter().filter(|point| point.duration_us.is_none()).count(), 1);
    for reader in READERS {
        let collector = connect(reader, &backend).await;
        collector.probe().await.unwrap();
        let records = collector.records(trace.base_id()).await.unwrap();
        assert_eq!(sorted(records.clone()), sorted(written.clone()), "{reader}");
        assert_eq!(TraceTree::build(&records), tree, "{reader}");
        for unknown in [Uuid::new_v4().to_string(), "../../admin?x=#".to_owned()] {
            assert_eq!(collector.records(&unknown).await.unwrap(), [], "{reader}");
        }
        let error = collector.write(&written).await.unwrap_err();
        assert!(error.chain().contains("write to otlp://") && !error.is_transient(), "{error}");
    }
}

/// What Keystone and Placement once stored in redis, record by record.
#[tokio::test]
async fn traces_of_real_services_come_back_whole() {
    let backend = Backend::start();
    let otlp = connect("otlp://{}", &backend).await;
    for stored in [
        include_str!("../vectors/traces/post-tokens.redis-raw.json"),
        include_str!("../vectors/traces/placement-get-rps.redis-raw.json"),
        include_str!("../vectors/traces/post-project-409-dberror.redis-raw.json"),
    ] {
        let stored: Vec<String> = serde_json::from_str(stored).unwrap();
        let written: Vec<TraceRecord> =
            stored.iter().rev().map(|record| TraceRecord::decode(record.as_bytes()).unwrap()).collect();
        for batch in written.chunks(37) {
            otlp.write(batch).await.unwrap();
        }
        otlp.flush().await.unwrap();
        for reader in READERS {
            let records = connect(reader, &backend).await.records(&written[0].base_id).await.unwrap();
            assert_eq!(sorted(records.clone()), sorted(written.clone()), "{reader}");
            assert_eq!(TraceTree::build(&records).points.len(), TraceTree::build(&written).points.len());
        }
    }
}

#[tokio::test]
async fn a_base_id_that_is_no_uuid_is_one_trace() {
    let backend = Backend::start();
    let otlp = connect("otlp://{}/", &backend).await;
    let record = |name: &str, trace_id: &str, parent_id: &str, second: u32| TraceRecord {
        name: name.into(),
        base_id: "run 7 é".into(),
        trace_id: trace_id.into(),
        parent_id: parent_id.into(),
        timestamp: format!("2026-11-20T22:52:{second:02}.000001").into(),
        info: serde_json::Map::new().into(),
        project: None,
        service: None,
    };
    let written = [
        record("a-start", "one", "run 7 é", 1),
        record("b-start", "two", "one", 2),
        record("b-stop", "two", "one", 3),
        record("a-stop", "one", "run 7 é", 4),
    ];
    // Starts and stops in different requests.
    for record in &written {
        otlp.write(std::slice::from_ref(record)).await.unwrap();
    }
    for reader in READERS {
        let collector = connect(reader, &backend).await;
        assert_eq!(collector.records("run 7 é").await.unwrap(), written, "{reader}");
        assert_eq!(collector.records("run 8").await.unwrap(), []);
    }
    let jaeger = connect(READERS[0], &backend).await;
    let traces = jaeger.list(&TraceQuery { errors_only: false, limit: 5 }).await.unwrap();
    let shown = (&*traces[0].base_id, traces[0].records, traces[0].name.as_deref(), traces[0].failed);
    assert_eq!(shown, ("run 7 é", Some(4), Some("a"), Some(false)));
}

#[tokio::test]
async fn traces_are_listed_newest_first_and_those_with_errors_alone() {
    let backend = Backend::start();
    let otlp = connect("otlp://{}", &backend).await;
    let ids: Vec<String> = (0..4).map(|_| Uuid::new_v4().to_string()).collect();
    for (n, base_id) in ids.iter().enumerate() {
        let half = |name: &str, info: serde_json::Value| TraceRecord {
            name: name.into(),
            base_id: base_id.as_str().into(),
            trace_id: Uuid::new_v4().to_string().into(),
            parent_id: base_id.as_str().into(),
            timestamp: format!("2026-11-20T22:52:{n:02}.000000").into(),
            info: info.as_object().cloned().unwrap().into(),
            project: Some(format!("p{}", n % 2).into()),
            service: Some("s".into()),
        };
        let start = half("rpc-start", json!({}));
        let info = if n == 1 { json!({"etype": "E", "message": "m"}) } else { json!({}) };
        let stop = TraceRecord { trace_id: start.trace_id.clone(), ..half("rpc-stop", info) };
        otlp.write(&[start, stop]).await.unwrap();
    }
    for reader in &READERS[..2] {
        let collector = connect(reader, &backend).await;
        let listed = async |errors_only, limit| {
            let traces = collector.list(&TraceQuery { errors_only, limit }).await.unwrap();
            traces
                .into_iter()
                .map(|trace| (trace.base_id, trace.timestamp, trace.name, trace.failed))
                .collect::<Vec<_>>()
        };
        let all = listed(false, 3).await;
        let newest: Vec<&String> = all.iter().map(|(id, ..)| id).collect();
        assert_eq!(newest, [&ids[3], &ids[2], &ids[1]], "{reader}");
        assert_eq!((&*all[0].1, all[0].2.as_deref()), ("2026-11-20T22:52:03.000000", Some("rpc")));
        let failed = listed(true, 3).await;
        assert_eq!(failed.len(), 1);
        assert_eq!((&failed[0].0, failed[0].3), (&ids[1], Some(true)));
    }
}

#[tokio::test]
async fn jaeger_lists_more_traces_than_one_answer_holds() {
    let backend = Backend::start();
    let otlp = connect("otlp://{}", &backend).await;
    let mut records = Vec::new();
    for n in 0..250_u64 {
        let (base_id, trace_id) = (Uuid::new_v4().to_string(), Uuid::new_v4().to_string());
        for name in ["rpc-start", "rpc-stop"] {
            records.push(TraceRecord {
                name: name.into(),
                base_id: base_id.as_str().into(),
                trace_id: trace_id.as_str().into(),
                parent_id: base_id.as_str().into(),
                timestamp: format!("2026-11-20T22:52:01.{n:06}").into(),
                info: serde_json::Map::new().into(),
                project: None,
                service: Some(format!("s{}", n % 2).into()),
            });
        }
    }
    otlp.write(&records).await.unwrap();
    let jaeger = connect(READERS[0], &backend).await;
    for (limit, expected) in [(1_000, 250), (240, 240), (30, 30), (1, 1)] {
        let listed = jaeger.list(&TraceQuery { errors_only: false, limit }).await.unwrap();
        assert_eq!(listed.len(), expected);
        let newest = records.iter().rev().step_by(2).take(expected).map(|record| &record.base_id);
        assert!(listed.iter().map(|trace| &trace.base_id).eq(newest), "{limit}");
    }
}

#[tokio::test]
async fn user_and_tenant_are_sent_and_never_shown() {
    let backend = Backend::start();
    for scheme in ["otlp://", "jaeger://", "tempo://"] {
        let path = if scheme == "otlp://" { "" } else { &scheme[..scheme.len() - 3] };
        let url = format!("{scheme}us%40er:pass%3Aword@{}/{path}?tenant=team%201", backend.address);
        let collector = Collector::connect(&Secret::new(&url)).await.unwrap();
        assert_eq!(collector.target(), format!("{scheme}{}/{path}", backend.address));
        let request = backend.requests().pop().unwrap();
        // us@er:pass:word
        assert_eq!(request.header("authorization"), Some("Basic dXNAZXI6cGFzczp3b3Jk"), "{scheme}");
        assert_eq!(request.header("x-scope-orgid"), Some("team 1"));
        assert!(!format!("{collector:?}").contains("pass"), "{collector:?}");
    }
    for (url, part) in [
        ("otlp://u:hunter2@127.0.0.1:1", "connect to the collector otlp://127.0.0.1:1"),
        ("otlps://u:hunter2@127.0.0.1:1/x", "connect to the collector otlps://127.0.0.1:1/x"),
        ("jaeger+https://u:hunter2@127.0.0.1:1", "connect to the collector"),
        ("tempo://u:hunter2@127.0.0.1:x", "write it as scheme://"),
        ("tempo://", "write it as scheme://"),
        ("jaeger://127.0.0.1:1?tenant=%0ahunter2", "write it as scheme://"),
    ] {
        let error = Collector::connect(&Secret::new(url)).await.unwrap_err();
        let shown = format!("{} {error:?}", error.chain());
        assert!(shown.contains(part) && !shown.contains("hunter2"), "{url}: {shown}");
    }
}

#[tokio::test]
async fn a_private_authority_is_trusted_if_its_certificate_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let [ca, other, words] = ["own ca.pem", "other.pem", "words.pem"].map(|name| dir.path().join(name));
    let server = ScriptedServer::tls(&ca, |seen, wire| match &*seen.path {
        "/" => wire.answer("200 OK", "application/json", r#"{"version": {"number": "8.1.0"}}"#),
        "/v1/traces" => wire.answer("200 OK", "application/x-protobuf", ""),
        _ => wire.answer("200 OK", "application/json", r#"{"data": []}"#),
    });
    let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
    std::fs::write(&other, made.cert.pem()).unwrap();
    std::fs::write(&words, "no certificate").unwrap();
    let text = |path: &std::path::Path| path.display().to_string().replace(' ', "%20");
    for scheme in ["otlps", "elasticsearch+https", "jaeger+https", "tempo+https"] {
        let connect = async |option: String| {
            let url = format!("{scheme}://u:hunter2@{}?tenant=t{option}", server.address());
            match Collector::connect(&Secret::new(url)).await {
                Ok(collector) => collector.probe().await.map_err(|error| error.chain()),
                Err(error) => Err(error.chain()),
            }
        };
        assert_eq!(connect(format!("&ssl_ca_certs={}", text(&ca))).await, Ok(()), "{scheme}");
        for (option, part) in [
            (String::new(), "connect to the collector"),
            (format!("&ssl_ca_certs={}", text(&other)), "connect to the collector"),
            (format!("&ssl_ca_certs={}", text(&words)), "must name a readable PEM file"),
            ("&ssl_ca_certs=/nowhere/hunter2".into(), "must name a readable PEM file"),
            ("&ssl_cert_reqs=none".into(), "only ssl_ca_certs is supported"),
        ] {
            let error = connect(option.clone()).await.unwrap_err();
            assert!(error.contains(part) && !error.contains("hunter2"), "{scheme} {option}: {error}");
        }
    }
    assert!(server.seen().iter().all(|seen| !seen.path.contains("ssl_")));
    for scheme in ["otlp", "jaeger"] {
        let url = format!("{scheme}://{}?ssl_ca_certs={}", server.address(), text(&ca));
        let error = Collector::connect(&Secret::new(url)).await.unwrap_err();
        assert!(error.to_string().contains("needs TLS"), "{error}");
    }
}

#[tokio::test]
async fn refusals_are_told_and_only_passing_ones_tried_again() {
    let backend = Backend::start();
    let otlp = connect("otlp://{}", &backend).await;
    let id = Uuid::new_v4().to_string();
    let record = |name: &str| TraceRecord {
        name: name.into(),
        base_id: id.as_str().into(),
        trace_id: Uuid::from_u128(5).to_string().into(),
        parent_id: id.as_str().into(),
        timestamp: "2026-11-20T22:52:01.000000".into(),
        info: serde_json::Map::new().into(),
        project: None,
        service: None,
    };
    let point = [record("a-start"), record("a-stop")];
    for (status, transient) in
        [(503, true), (429, true), (400, false), (401, false), (413, false), (302, false)]
    {
        backend.refuse(&[status], b"too\nmuch\x1b[31m");
        let error = otlp.write(&point).await.unwrap_err();
        assert_eq!(error.is_transient(), transient, "{error:?}");
        assert!(
            error.to_string().contains(&status.to_string()) && !error.to_string().contains('\n'),
            "{error}"
        );
    }
    // ExportTraceServiceResponse: two spans rejected, "no".
    backend.refuse(&[200], b"\x0a\x06\x08\x02\x12\x02no");
    let error = otlp.write(&point).await.unwrap_err();
    assert!(matches!(error, DriverError::Rejected { spans: 2, .. }) && !error.is_transient(), "{error:?}");
    assert!(backend.spans().is_empty());

    // A notifier sends what was refused for the moment again: one span, not two halves.
    backend.refuse(&[503, 503], b"");
    let notifier = QueueNotifier::start(otlp.clone(), 10);
    point.into_iter().for_each(|record| notifier.notify(record));
    while backend.spans().is_empty() {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let report = notifier.shutdown().await;
    assert_eq!((report.written, report.dropped), (2, 0));
    assert_eq!(backend.spans().len(), 1);
    for error in
        [otlp.records(&id).await.err(), otlp.list(&TraceQuery { errors_only: false, limit: 1 }).await.err()]
    {
        assert!(error.unwrap().to_string().contains("jaeger://host:16686"));
    }
}

#[tokio::test]
async fn more_open_points_than_are_held_are_sent_unfinished() {
    let backend = Backend::start();
    let otlp = connect("otlp://{}", &backend).await;
    let base_id = Uuid::new_v4().to_string();
    let record = |name: &str, n: u32| TraceRecord {
        name: name.into(),
        base_id: base_id.as_str().into(),
        trace_id: Uuid::from_u128(u128::from(n) + 1).to_string().into(),
        parent_id: base_id.as_str().into(),
        timestamp: "2026-11-20T22:52:01.000000".into(),
        info: serde_json::Map::new().into(),
        project: None,
        service: None,
    };
    let starts: Vec<TraceRecord> = (0..65_540).map(|n| record("a-start", n)).collect();
    for batch in starts.chunks(20_000) {
        otlp.write(batch).await.unwrap();
    }
    assert_eq!(backend.spans().len(), 4);
    // A stop after all, of one that was sent, and of one that was not.
    otlp.write(&[record("a-stop", 0), record("a-stop", 100)]).await.unwrap();
    assert_eq!(backend.spans().len(), 6);
    let records = connect(READERS[0], &backend).await.records(&base_id).await.unwrap();
    let tree = TraceTree::build(&records);
    assert_eq!(tree.points.len(), 5);
    assert_eq!(tree.points.iter().filter(|point| point.duration_us.is_some()).count(), 2);
    otlp.flush().await.unwrap();
    assert_eq!(backend.spans().len(), 65_541);
}

#[cfg(not(feature = "messaging"))]
#[tokio::test]
async fn what_this_build_leaves_out_says_how_to_get_it() {
    for (url, command) in [
        ("messaging://u:hunter2@h", "cargo build --release --features messaging"),
        #[cfg(not(feature = "mongodb"))]
        ("mongodb://u:hunter2@h", "cargo build --release --features mongodb"),
    ] {
        let error = Collector::connect(&Secret::new(url)).await.unwrap_err();
        assert!(error.to_string().contains(command) && !error.is_transient(), "{error}");
        assert!(!format!("{error:?}").contains("hunter2"));
        assert!(Collector::reads(url).unwrap_err().to_string().contains(command));
    }
}
