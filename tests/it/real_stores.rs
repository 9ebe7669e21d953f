//! Against real MariaDB, PostgreSQL, SQLite, and redis with TLS and a sentinel: bench reads what OSProfiler's own
//! drivers wrote, they read what bench writes, and the reports are the same point by point. `tests/real/stores.sh`
//! starts the servers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bench::base::secret::Secret;
use bench::osprofiler::compat::{ReportStyle, compat_report_as};
use bench::osprofiler::driver::{Collector, DriverError, TRACE_RECORDS_MAX, TraceQuery, TraceSummary};
use bench::osprofiler::notifier::{Notifier, QueueNotifier};
use bench::osprofiler::record::{ServiceIdentity, TraceRecord};
use bench::osprofiler::report::TraceTree;
use bench::osprofiler::trace::TraceHandle;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::real_osprofiler::Peer;
use crate::support::service;

/// The password that `tests/real/stores.sh` gives, as written and as in a URL.
const PASSWORD: [&str; 2] = ["p@s:s/w%d", "p%40s%3As%2Fw%25d"];
const ALL: TraceQuery = TraceQuery { errors_only: false, limit: 10_000 };
const FAILED: TraceQuery = TraceQuery { errors_only: true, limit: 10_000 };

pub(crate) fn store(variable: &str) -> Option<String> {
    service(variable, "what tests/real/stores.sh gives it")
}

fn peer() -> Option<Peer> {
    Some(Peer::run(&store("BENCH_TEST_STORES_PYTHON")?, "stores_peer.py"))
}

pub(crate) async fn connect(url: &str) -> Collector {
    Collector::connect(&Secret::new(url)).await.unwrap_or_else(|error| panic!("{}", error.chain()))
}

/// What Python's drivers fill into every record.
fn hostname() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned()
}

fn written_by_python(peer: &mut Peer, url: &str, further: &Value) -> String {
    let mut write = json!({
        "op": "write", "connection_string": url, "hmac_key": "k",
        "project": "keystone", "service": "public", "host": hostname(),
        "points": [
            {"name": "wsgi", "info": {"request": {"method": "GET", "path": "/é漢😀", "query": "a='1'"}}, "children": [
                {"name": "db", "info": {"db": {"statement": "SELECT \"1\" \\ 'x'\n"}}, "sleep_ms": 3},
                {"name": "db", "info": {"db": {"statement": "SELECT 2"}}, "sleep_ms": 2,
                 "stop_info": {"etype": "IntegrityError", "message": "twice"}},
                {"name": "my-op", "children": [{"name": "rpc", "open": true}]}]},
            {"name": "wsgi", "sleep_ms": 1}],
    });
    for (key, value) in further.as_object().unwrap() {
        write[key] = value.clone();
    }
    peer.ask(&write)["base_id"].as_str().unwrap().to_owned()
}

/// Writes a trace as a service would.
pub(crate) async fn written_by_us(collector: &Collector, failing: bool) -> String {
    let notifier = Arc::new(QueueNotifier::start(collector.clone(), 1_000));
    let identity = ServiceIdentity { project: "demo".into(), service: "api".into(), host: hostname() };
    let sink: Arc<dyn Notifier> = Arc::clone(&notifier) as Arc<dyn Notifier>;
    let trace = TraceHandle::start(Uuid::new_v4(), None, Arc::new(identity), sink);
    {
        let info = json!({"request": {"method": "GET", "path": "/漢'\"\\"}}).as_object().cloned();
        let root = trace.enter("wsgi", info);
        for statement in ["SELECT 1", "SELECT 2"] {
            let info = json!({"db": {"statement": statement, "params": []}}).as_object().cloned();
            let db = root.trace().enter("db", info);
            tokio::time::sleep(Duration::from_millis(2)).await;
            if failing && statement == "SELECT 2" {
                db.fail("IntegrityError", "twice");
            }
        }
        drop(root.trace().enter("my-op", None));
    }
    let written = notifier.shutdown().await;
    assert_eq!((written.written, written.dropped, written.last_error), (8, 0, None));
    trace.base_id().to_owned()
}

/// A report without what depends on the store: how a record is kept (`raw_payload` is all of it in
/// redis, only its info in a table), and in which order what began in the same millisecond comes.
fn comparable(report: &Value) -> Value {
    match report {
        Value::Object(object) => {
            let entries = object.iter().map(|(key, value)| {
                let value = match key.as_str() {
                    key if key.starts_with("meta.raw_payload.") => json!({"info": value["info"]}),
                    "children" => {
                        let mut children: Vec<Value> =
                            value.as_array().unwrap().iter().map(comparable).collect();
                        children.sort_by_key(|child| child["trace_id"].as_str().unwrap().to_owned());
                        children.into()
                    }
                    _ => comparable(value),
                };
                (key.clone(), value)
            });
            Value::Object(entries.collect())
        }
        other => other.clone(),
    }
}

#[track_caller]
fn assert_same_report(peer: &mut Peer, url: &str, base_id: &str, records: &[TraceRecord], exactly: bool) {
    let style = if url.starts_with("redis") { ReportStyle::Records } else { ReportStyle::Rows };
    let ours = compat_report_as(records, style);
    let theirs = peer.ask(&json!({"op": "report", "connection_string": url, "base_id": base_id}));
    assert!(theirs["children"].as_array().is_some_and(|children| !children.is_empty()), "{theirs}");
    assert_eq!(comparable(&ours), comparable(&theirs), "{url}");
    if exactly {
        assert_eq!(ours.to_string(), theirs.to_string(), "{url}");
    }
}

fn listed<'a>(traces: &'a [TraceSummary], base_id: &str) -> &'a TraceSummary {
    traces.iter().find(|trace| trace.base_id == base_id).unwrap_or_else(|| panic!("{base_id} is not listed"))
}

fn is_listed(traces: &[TraceSummary], base_id: &str) -> bool {
    traces.iter().any(|trace| trace.base_id == base_id)
}

/// Both ways, and both lists. `theirs` is the same store's address for Python's driver.
async fn check_store(peer: &mut Peer, url: &str, theirs: &str, exactly: bool) {
    // Python goes first: it creates the table where there is none.
    let from_python = written_by_python(peer, theirs, &json!({}));
    let collector = connect(url).await;
    let records = collector.records(&from_python).await.unwrap();
    assert_eq!(records.len(), 11);
    let tree = TraceTree::build(&records);
    let shape: Vec<_> = tree.points.iter().map(|point| (point.depth, point.name.as_str())).collect();
    assert_eq!(shape, [(0, "wsgi"), (1, "db"), (1, "db"), (1, "my-op"), (2, "rpc"), (0, "wsgi")]);
    assert_eq!(tree.points[0].detail(), "GET /é漢😀?a='1'");
    assert_eq!(tree.points[1].info["db"]["statement"], "SELECT \"1\" \\ 'x'\n");
    assert_eq!(tree.points[2].error.as_ref().unwrap().etype, "IntegrityError");
    assert!(tree.points[4].duration_us.is_none());
    assert_same_report(peer, theirs, &from_python, &records, exactly);

    let (good, failed) = (written_by_us(&collector, false).await, written_by_us(&collector, true).await);
    for base_id in [&good, &failed] {
        let records = collector.records(base_id).await.unwrap();
        assert_eq!(records.len(), 8);
        assert_same_report(peer, theirs, base_id, &records, exactly);
    }
    // One record only, which OSProfiler's own list of a redis leaves out.
    let alone = TraceRecord {
        base_id: Uuid::new_v4().to_string().into(),
        ..collector.records(&good).await.unwrap()[0].clone()
    };
    collector.write(std::slice::from_ref(&alone)).await.unwrap();

    let traces = collector.list(&ALL).await.unwrap();
    assert!(traces.is_sorted_by(|a, b| a.timestamp >= b.timestamp));
    for (base_id, records) in [(&from_python, 11), (&good, 8), (&failed, 8), (&alone.base_id.to_string(), 1)]
    {
        let trace = listed(&traces, base_id);
        assert_eq!((trace.records, trace.name.as_deref()), (Some(records), Some("wsgi")), "{trace:?}");
        assert!(trace.timestamp.starts_with("20"), "{trace:?}");
    }
    let failures = collector.list(&FAILED).await.unwrap();
    assert!(failures.iter().all(|trace| trace.failed == Some(true)));
    assert!(is_listed(&failures, &from_python) && is_listed(&failures, &failed));
    assert!(!is_listed(&failures, &good) && !is_listed(&failures, &alone.base_id));
    let in_python = peer.ask(&json!({"op": "list", "connection_string": theirs}));
    let in_python = in_python["traces"].as_array().unwrap();
    for base_id in [&from_python, &good, &failed] {
        assert!(in_python.iter().any(|trace| trace["base_id"] == **base_id), "{base_id} in {url}");
    }
    assert_eq!(collector.records("no such trace").await.unwrap(), []);
    collector.probe().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_mariadb_holds_the_same_traces_for_python_and_rust() {
    let (Some(url), Some(mut peer)) = (store("BENCH_TEST_MYSQL_URL"), peer()) else { return };
    check_store(&mut peer, &url, &url, true).await;
    for scheme in ["mysql://", "mysql+mysqldb://", "mariadb://"] {
        connect(&url.replace("mysql+pymysql://", scheme)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_postgresql_holds_the_same_traces_for_python_and_rust() {
    let (Some(url), Some(mut peer)) = (store("BENCH_TEST_POSTGRES_URL"), peer()) else { return };
    // Python's driver asks for no order, and PostgreSQL returns rows as it finds them on its pages.
    check_store(&mut peer, &url, &url, false).await;
    for scheme in ["postgresql://", "postgres://", "postgresql+asyncpg://"] {
        connect(&url.replace("postgresql+psycopg2://", scheme)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_sqlalchemy_reads_and_writes_our_sqlite() {
    let Some(mut peer) = peer() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("traces.db");
    let path = path.to_str().unwrap();
    check_store(&mut peer, &format!("sqlite://{path}"), &format!("sqlite:///{path}"), true).await;
    // The form with four slashes is the same file.
    let traces = connect(&format!("sqlite:///{path}")).await.list(&ALL).await.unwrap();
    assert_eq!(traces.len(), 4);
    assert_eq!(connect(&format!("sqlite+pysqlite:///{path}")).await.list(&ALL).await.unwrap(), traces);
    // A table that we create, Python uses.
    let ours = directory.path().join("ours.db");
    let ours = ours.to_str().unwrap();
    let collector = connect(&format!("sqlite://{ours}")).await;
    let base_id = written_by_us(&collector, true).await;
    let records = collector.records(&base_id).await.unwrap();
    assert_same_report(&mut peer, &format!("sqlite:///{ours}"), &base_id, &records, true);
    let added = written_by_python(&mut peer, &format!("sqlite:///{ours}"), &json!({}));
    assert_eq!(collector.records(&added).await.unwrap().len(), 11);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_with_tls_holds_the_same_traces_for_python_and_rust() {
    let (Some(url), Some(mut peer)) = (store("BENCH_TEST_REDIS_TLS_URL"), peer()) else { return };
    check_store(&mut peer, &url, &url, true).await;

    let without_ca = url.split('?').next().unwrap().to_owned();
    let error = Collector::connect(&Secret::new(&without_ca)).await.unwrap_err();
    assert!(error.chain().contains("certificate"), "{}", error.chain());
    for options in ["?ssl_cert_reqs=none", "#insecure"] {
        connect(&format!("{without_ca}{options}")).await.probe().await.unwrap();
    }
    let plain = without_ca.replace("rediss://", "redis://");
    assert!(Collector::connect(&Secret::new(plain)).await.is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_sentinels_lead_to_the_redis() {
    let (Some(url), Some(mut peer)) = (store("BENCH_TEST_SENTINEL_URL"), peer()) else { return };
    let Some(tls) = store("BENCH_TEST_REDIS_TLS_URL") else { return };
    // Python's own driver cannot be told of a sentinel; the redis behind it is the same.
    check_store(&mut peer, &url, &tls, true).await;

    // The first sentinel is down.
    let (before, after) = url.rsplit_once('@').unwrap();
    connect(&format!("{before}@127.0.0.1:1,{after}")).await.probe().await.unwrap();
    let other = connect(&format!("{url}?db=3")).await;
    let base_id = written_by_us(&other, false).await;
    assert_eq!(connect(&url).await.records(&base_id).await.unwrap(), []);
    for wrong in [url.replace("/osprofiler", "/nobody"), url.replace("/osprofiler", "")] {
        let error = Collector::connect(&Secret::new(wrong)).await.unwrap_err();
        assert!(!error.chain().contains("p@s"), "{}", error.chain());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_failed_traces_are_marked_as_python_marks_them() {
    let (Some(url), Some(mut peer)) = (store("BENCH_TEST_REDIS_TLS_URL"), peer()) else { return };
    let marked_by_python = written_by_python(&mut peer, &url, &json!({"filter_error_trace": true}));
    let (plain, marking) = (connect(&url).await, connect(&format!("{url}&filter_error_trace=true")).await);
    let unmarked = written_by_us(&plain, true).await;
    let marked = written_by_us(&marking, true).await;
    let good = written_by_us(&marking, false).await;

    let theirs = peer.ask(&json!({"op": "list", "connection_string": url, "errors": true}));
    let theirs: Vec<&str> =
        theirs["traces"].as_array().unwrap().iter().map(|trace| trace["base_id"].as_str().unwrap()).collect();
    for (base_id, expected) in
        [(&marked_by_python, true), (&marked, true), (&unmarked, false), (&good, false)]
    {
        assert_eq!(theirs.contains(&base_id.as_str()), expected, "{base_id}");
    }
    let failures = plain.list(&FAILED).await.unwrap();
    for (base_id, expected) in [(&marked_by_python, true), (&marked, true), (&unmarked, true), (&good, false)]
    {
        assert_eq!(is_listed(&failures, base_id), expected, "{base_id}");
    }
    assert_eq!(listed(&plain.list(&ALL).await.unwrap(), &marked).failed, Some(true));
}

/// A connection to a separate database in the redis with TLS, for formats that no driver writes any more.
async fn raw_redis(url: &str) -> redis::aio::MultiplexedConnection {
    let path = url.split("ssl_ca_certs=").nth(1).unwrap();
    let ca = std::fs::read(path).unwrap();
    let bare = url.split('?').next().unwrap();
    let certificates = redis::TlsCertificates { client_tls: None, root_cert: Some(ca) };
    let client = redis::Client::build_with_tls(bare, certificates).unwrap();
    let patient = redis::AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(30)));
    client.get_multiplexed_async_connection_with_config(&patient).await.unwrap()
}

async fn command(connection: &mut redis::aio::MultiplexedConnection, words: &[&[u8]]) {
    let mut command = redis::cmd(std::str::from_utf8(words[0]).unwrap());
    for word in &words[1..] {
        command.arg(*word);
    }
    command.exec_async(connection).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_keys_of_old_releases_are_read() {
    let (Some(url), Some(mut peer)) = (store("BENCH_TEST_REDIS_TLS_URL"), peer()) else { return };
    let url = url.replace("/0?", "/9?");
    let mut raw = raw_redis(&url).await;
    command(&mut raw, &[b"FLUSHDB"]).await;
    let collector = connect(&url).await;
    // No glob: these ids are patterns that would fit everything.
    for base_id in ["*", "[a-z]*", "?", "\\"] {
        assert_eq!(collector.records(base_id).await.unwrap(), [], "{base_id}");
    }
    let source = written_by_us(&collector, true).await;
    let records = collector.records(&source).await.unwrap();
    let other = Uuid::new_v4().to_string();
    for base_id in [&source, &other] {
        for record in records.iter().rev() {
            let record = TraceRecord { base_id: base_id.as_str().into(), ..record.clone() };
            let key = format!("osprofiler:{}_{}_{}", record.base_id, record.trace_id, record.timestamp);
            let json = serde_json::to_vec(&record).unwrap();
            command(&mut raw, &[b"SET", key.as_bytes(), &json]).await;
        }
    }
    for key in ["osprofiler:", "osprofiler:x_y_z", "osprofiler:neither_T"] {
        command(&mut raw, &[b"SADD", key.as_bytes(), b"member"]).await;
    }
    // A fresh one has not yet found out that there are none.
    let collector = connect(&url).await;
    let found = collector.records(&other).await.unwrap();
    let times = |records: &[TraceRecord]| -> Vec<String> {
        records.iter().map(|record| record.timestamp.to_string()).collect()
    };
    assert_eq!(times(&found), times(&records));
    // Both formats hold the other trace; the list alone is read unless told otherwise.
    assert_eq!(collector.records(&source).await.unwrap(), records);
    let both = connect(&format!("{url}&legacy=true")).await;
    assert_eq!(both.records(&source).await.unwrap().len(), 16);
    assert_eq!(times(&both.records(&other).await.unwrap()), times(&records));
    let traces = collector.list(&ALL).await.unwrap();
    assert_eq!((listed(&traces, &other).records, listed(&traces, &source).records), (Some(8), Some(16)));
    for key in ["osprofiler:", "osprofiler:x_y_z", "osprofiler:neither_T"] {
        command(&mut raw, &[b"DEL", key.as_bytes()]).await;
    }
    assert_same_report(&mut peer, &url, &other, &found, false);
    command(&mut raw, &[b"FLUSHDB"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_keys_that_are_no_traces_are_told() {
    let Some(url) = store("BENCH_TEST_REDIS_TLS_URL") else { return };
    let url = url.replace("/0?", "/8?");
    let mut raw = raw_redis(&url).await;
    command(&mut raw, &[b"FLUSHDB"]).await;
    let collector = connect(&url).await;
    let good = written_by_us(&collector, false).await;
    command(&mut raw, &[b"SET", b"osprofiler_opt:string", b"x"]).await;
    command(&mut raw, &[b"LPUSH", b"osprofiler_opt:utf8", b"{\"name\": \"\xff\"}"]).await;
    command(&mut raw, &[b"LPUSH", b"osprofiler_opt:words", b"no json"]).await;
    command(&mut raw, &[b"LPUSH", b"osprofiler_opt:null", b"{\"name\": null}"]).await;
    command(&mut raw, &[b"LPUSH", b"osprofiler_opt:deep", "[".repeat(100_000).as_bytes()]).await;
    command(&mut raw, &[b"LPUSH", b"osprofiler_opt:\xff\xfe", b"x"]).await;
    command(&mut raw, &[b"LPUSH", b"osprofiler_error:string", b"x"]).await;
    command(&mut raw, &[b"SET", b"osprofiler:a_b_2099-11-21T00:00:00.000000", b"no json"]).await;
    for (base_id, part) in [
        ("string", "WRONGTYPE"),
        ("utf8", "record 0 of trace utf8"),
        ("words", "record 0 of trace words"),
        ("null", "record 0 of trace null"),
        ("deep", "record 0 of trace deep"),
        ("a", "record 0 of trace a"),
    ] {
        let told = match collector.stored(base_id).await {
            Ok(stored) => stored.first_rejected.unwrap_or_default(),
            Err(error) => format!("{} {error:?}", error.chain()),
        };
        assert!(told.contains(part), "{base_id}: {told}");
        assert!(!PASSWORD.iter().any(|password| told.contains(password)), "{told}");
    }
    let traces = collector.list(&ALL).await.unwrap();
    assert_eq!(traces[0].base_id, "a");
    assert_eq!(listed(&traces, &good).records, Some(8));
    assert!(listed(&traces, "utf8").timestamp.is_empty() && !is_listed(&traces, "string"));
    assert!(collector.list(&FAILED).await.is_ok());
    command(&mut raw, &[b"FLUSHDB"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_refusals_are_told_in_time_and_without_passwords() {
    let [Some(mysql), Some(postgres), Some(redis), Some(sentinel)] =
        ["MYSQL", "POSTGRES", "REDIS_TLS", "SENTINEL"].map(|name| store(&format!("BENCH_TEST_{name}_URL")))
    else {
        return;
    };
    let wrong = |url: &str| url.replace(PASSWORD[1], "hunter2");
    let guest = |url: &str| url.replace(&format!("bench:{}", PASSWORD[1]), "guest:guest");
    let elsewhere = |url: &str| url.replace("/osprofiler", "/nowhere");
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let silent = silent.local_addr().unwrap();
    for (url, part) in [
        (wrong(&mysql), "Access denied"),
        (wrong(&postgres), "authentication failed"),
        (wrong(&redis), "check that it runs, is reachable and knows the password"),
        (wrong(&sentinel), "connect to the collector"),
        (elsewhere(&mysql), "Unknown database"),
        (elsewhere(&postgres), "does not exist"),
        (guest(&mysql), "Access denied"),
        (guest(&postgres), "permission denied"),
        ("mysql://u:hunter2@no-such-host.invalid/d".to_owned(), "connect to the collector"),
        ("postgresql://u:hunter2@no-such-host.invalid/d".to_owned(), "connect to the collector"),
        (format!("mysql://u:hunter2@{silent}/d"), "within 5s"),
        (format!("postgresql://u:hunter2@{silent}/d"), "within 5s"),
        (format!("rediss://u:hunter2@{silent}/0"), ""),
        (format!("redissentinel://u:hunter2@{silent}/m"), ""),
    ] {
        let start = Instant::now();
        let error = Collector::connect(&Secret::new(&url)).await.unwrap_err();
        assert!(start.elapsed() < Duration::from_secs(12), "{:?} for {}", start.elapsed(), error.chain());
        assert!(error.chain().contains(part), "no {part:?} in {}", error.chain());
        for password in [PASSWORD[0], PASSWORD[1], "hunter2"] {
            assert!(!format!("{} {error:?}", error.chain()).contains(password), "{error:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_databases_are_reached_by_tls() {
    let [Some(mysql), Some(postgres), Some(redis)] =
        ["MYSQL", "POSTGRES", "REDIS_TLS"].map(|name| store(&format!("BENCH_TEST_{name}_URL")))
    else {
        return;
    };
    let ca = redis.split("ssl_ca_certs=").nth(1).unwrap();
    let other = tempfile::NamedTempFile::new().unwrap();
    let made = rcgen::generate_simple_self_signed(["other".to_owned()]).unwrap();
    std::fs::write(other.path(), made.cert.pem()).unwrap();
    let other = other.path().display();
    for (url, works) in [
        (format!("{mysql}?ssl-mode=VERIFY_IDENTITY&ssl-ca={ca}"), true),
        (format!("{mysql}?ssl_ca={ca}"), true),
        (format!("{mysql}?ssl-mode=REQUIRED"), true),
        (format!("{mysql}?ssl_ca={other}"), false),
        (format!("{postgres}?sslmode=verify-full&sslrootcert={ca}"), true),
        (format!("{postgres}?sslmode=require"), true),
        (format!("{postgres}?sslrootcert={other}"), false),
        (redis.replace(ca, &other.to_string()), false),
    ] {
        let connected = Collector::connect(&Secret::new(&url)).await;
        assert_eq!(connected.is_ok(), works, "{url}: {connected:?}");
        if let Ok(collector) = connected {
            collector.probe().await.unwrap();
        }
    }
}

/// Twice the rows of the trace `$1`.
const DOUBLE: &str = "INSERT INTO data \
    (timestamp, base_id, parent_id, trace_id, project, host, service, name, data) \
    SELECT timestamp, base_id, parent_id, trace_id, project, host, service, name, data FROM data \
    WHERE base_id = '$1'";

#[tokio::test]
async fn real_mariadb_is_read_within_bounds() {
    let Some(url) = store("BENCH_TEST_MYSQL_URL") else { return };
    let pool = sqlx::MySqlPool::connect(&url.replace("mysql+pymysql://", "mysql://")).await.unwrap();
    check_bounds(&url, async |base_id| {
        let double = sqlx::AssertSqlSafe(DOUBLE.replace("$1", base_id));
        sqlx::query(double).execute(&pool).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn real_postgresql_is_read_within_bounds() {
    let Some(url) = store("BENCH_TEST_POSTGRES_URL") else { return };
    let pool = sqlx::PgPool::connect(&url.replace("postgresql+psycopg2://", "postgresql://")).await.unwrap();
    check_bounds(&url, async |base_id| {
        let double = sqlx::AssertSqlSafe(DOUBLE.replace("$1", base_id));
        sqlx::query(double).execute(&pool).await.unwrap();
    })
    .await;
}

#[tokio::test]
async fn real_redis_is_read_within_bounds() {
    let Some(url) = store("BENCH_TEST_REDIS_TLS_URL") else { return };
    let raw = raw_redis(&url).await;
    check_bounds(&url, async |base_id| {
        let key = format!("osprofiler_opt:{base_id}");
        let mut raw = raw.clone();
        let all: Vec<Vec<u8>> =
            redis::cmd("LRANGE").arg(&key).arg(0).arg(-1).query_async(&mut raw).await.unwrap();
        for page in all.rchunks(1_000) {
            let mut push = redis::cmd("LPUSH");
            push.arg(&key);
            page.iter().rev().for_each(|record| {
                push.arg(record);
            });
            push.exec_async(&mut raw).await.unwrap();
        }
    })
    .await;
}

/// `double` makes the store itself write the records of a trace once more.
async fn check_bounds(url: &str, double: impl AsyncFn(&str)) {
    let variable = url.split(':').next().unwrap();
    let collector = connect(url).await;
    let model = {
        let base_id = written_by_us(&collector, false).await;
        collector.records(&base_id).await.unwrap().remove(0)
    };
    let base_id = Uuid::new_v4().to_string();
    // An eighth is written from here; the store's own doubling is quicker.
    let written = TRACE_RECORDS_MAX / 8;
    let start = Instant::now();
    for first in (0..written).step_by(2_500) {
        let batch: Vec<TraceRecord> = (first..first + 2_500)
            .map(|n| TraceRecord {
                base_id: base_id.as_str().into(),
                trace_id: n.to_string().into(),
                ..model.clone()
            })
            .collect();
        collector.write(&batch).await.unwrap();
    }
    println!("{variable}: {written} records written in {:?}", start.elapsed());
    for _ in 0..3 {
        double(&base_id).await;
    }
    let start = Instant::now();
    let records = collector.records(&base_id).await.unwrap();
    println!("{variable}: {} records read in {:?}", records.len(), start.elapsed());
    assert_eq!(records.len(), TRACE_RECORDS_MAX);
    assert!(records.iter().take(written).enumerate().all(|(n, record)| record.trace_id == n.to_string()));
    let start = Instant::now();
    assert_eq!(
        listed(&collector.list(&ALL).await.unwrap(), &base_id).records,
        Some(TRACE_RECORDS_MAX as u64)
    );
    println!("{variable}: listed in {:?}", start.elapsed());
    let one_more = TraceRecord { base_id: base_id.as_str().into(), ..model.clone() };
    collector.write(std::slice::from_ref(&one_more)).await.unwrap();
    assert!(matches!(collector.records(&base_id).await, Err(DriverError::TooLarge { .. })));

    // Names that the columns do not hold as they are, and NUL, which PostgreSQL refuses.
    let mut odd = TraceRecord { base_id: Uuid::new_v4().to_string().into(), ..model };
    odd.name = format!("{}\0-start", "鍵".repeat(300)).into();
    odd.project = Some("é".repeat(300).into());
    odd.info_mut().insert("large".to_owned(), "\0x".repeat(500_000).into());
    collector.write(std::slice::from_ref(&odd)).await.unwrap();
    let read = collector.records(&odd.base_id).await.unwrap();
    assert_eq!(read[0].info, odd.info);
    assert!(read[0].name.ends_with("-start"), "{}", read[0].name);
}
