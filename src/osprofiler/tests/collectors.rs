//! Collectors: what is written is read back, and failures are reported without passwords.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use uuid::Uuid;

use super::record;
use crate::driver::{Collector, DriverError, TRACE_RECORDS_MAX};
use crate::notifier::{Notifier, NotifierReport, QueueNotifier};
use crate::record::TraceRecord;
use base::secret::Secret;

const REDIS_VARIABLE: &str = "BENCH_TEST_REDIS_URL";

fn redis_url() -> Option<Secret> {
    let url = std::env::var(REDIS_VARIABLE).ok();
    if url.is_none() {
        println!("skipped: set {REDIS_VARIABLE} to a redis to test its driver");
    }
    url.map(Secret::new)
}

fn sqlite_url(directory: &tempfile::TempDir) -> Secret {
    Secret::new(format!("sqlite://{}", directory.path().join("traces.db").display()))
}

fn records(base_id: &str, count: u32) -> Vec<TraceRecord> {
    (0..count)
        .map(|n| {
            let mut record = record("a-start", &n.to_string(), "é\"'", n);
            record.base_id = base_id.into();
            record.info = json!({"db": {"statement": "x\n'\u{1F600}"}, "host": "vm"})
                .as_object()
                .unwrap()
                .clone()
                .into();
            record.project = (n % 2 == 0).then(|| "demo".to_owned()).map(Into::into);
            record.service = Some("api".into());
            record
        })
        .collect()
}

async fn check_round_trip(collector: Collector) {
    collector.probe().await.unwrap();
    let (one, other) = (Uuid::new_v4().to_string(), Uuid::new_v4().to_string());
    assert_eq!(collector.records(&one).await.unwrap(), []);
    collector.write(&[]).await.unwrap();
    let written = records(&one, 4_001);
    collector.write(&written[..1]).await.unwrap();
    collector.write(&records(&other, 2)).await.unwrap();
    collector.write(&written[1..]).await.unwrap();
    assert!(collector.records(&one).await.unwrap() == written);
    assert_eq!(collector.records(&other).await.unwrap().len(), 2);
    assert_eq!(collector.records("' OR 1=1 --").await.unwrap(), []);
}

#[tokio::test]
async fn sqlite_gives_back_what_was_written_and_takes_a_lot() {
    let directory = tempfile::tempdir().unwrap();
    let collector = Collector::connect(&sqlite_url(&directory)).await.unwrap();
    check_round_trip(collector.clone()).await;
    // A second connection to a file that already has its table.
    check_round_trip(Collector::connect(&sqlite_url(&directory)).await.unwrap()).await;

    let many = records("many", 30_000);
    let start = Instant::now();
    for batch in many.chunks(2_048) {
        collector.write(batch).await.unwrap();
    }
    println!("30000 records written to SQLite in {:?}", start.elapsed());
    let start = Instant::now();
    assert_eq!(collector.records("many").await.unwrap().len(), 30_000);
    println!("and read in {:?}", start.elapsed());
}

#[tokio::test]
async fn rows_of_the_python_driver_are_read_from_sqlite() {
    let vectors: Value =
        serde_json::from_str(include_str!("../../../tests/vectors/sqlalchemy-driver.json")).unwrap();
    let rows = vectors["databases"]["mariadb-10.11"]["rows"].as_array().unwrap();
    let directory = tempfile::tempdir().unwrap();
    let url = sqlite_url(&directory);
    let collector = Collector::connect(&url).await.unwrap();
    let pool = sqlx::SqlitePool::connect(url.expose()).await.unwrap();
    for row in rows {
        let insert = sqlx::query(
            "INSERT INTO data (timestamp, base_id, parent_id, trace_id, project, host, service, name, data) \
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        );
        let keys = [
            "timestamp",
            "base_id",
            "parent_id",
            "trace_id",
            "project",
            "host",
            "service",
            "name",
            "data_as_text",
        ];
        let insert = keys.iter().fold(insert, |insert, key| insert.bind(row[*key].as_str()));
        insert.execute(&pool).await.unwrap();
    }
    let base_id = rows[0]["base_id"].as_str().unwrap();
    let records = collector.records(base_id).await.unwrap();
    let names: Vec<&str> = records.iter().map(|record| record.name.as_str()).collect();
    assert_eq!(names, ["wsgi-start", "db-start", "db-stop", "rpc-start", "rpc-stop", "wsgi-stop"]);
    assert_eq!(records[1].info["db"]["statement"], "SELECT 1");
    assert_eq!(records[4].info["etype"], "ValueError");

    for data in ["no json", "\"no json\"", "3", "{\"info\": 3}", ""] {
        sqlx::query("UPDATE data SET data = ? WHERE base_id = ?")
            .bind(data)
            .bind(base_id)
            .execute(&pool)
            .await
            .unwrap();
        let stored = collector.stored(base_id).await.unwrap();
        assert_eq!(stored.rejected > 0, data.contains("no json"), "{data}: {stored:?}");
    }
    sqlx::query("UPDATE data SET name = NULL WHERE base_id = ?").bind(base_id).execute(&pool).await.unwrap();
    let stored = collector.stored(base_id).await.unwrap();
    assert_eq!((stored.records.len(), stored.rejected), (0, 6));
}

#[tokio::test]
async fn real_redis_gives_back_what_was_written() {
    let Some(url) = redis_url() else { return };
    let collector = Collector::connect(&url).await.unwrap();
    check_round_trip(collector.clone()).await;

    let base_id = Uuid::new_v4().to_string();
    for batch in records(&base_id, TRACE_RECORDS_MAX as u32 + 1).chunks(10_000) {
        collector.write(batch).await.unwrap();
    }
    assert!(matches!(collector.records(&base_id).await, Err(DriverError::TooLarge { .. })));

    let mut huge = records(&Uuid::new_v4().to_string(), 50);
    for record in &mut huge {
        record.info_mut().insert("x".into(), "x".repeat(3 * 1024 * 1024).into());
    }
    for batch in huge.chunks(5) {
        collector.write(batch).await.unwrap();
    }
    assert!(matches!(collector.records(&huge[0].base_id).await, Err(DriverError::TooLarge { .. })));
}

#[tokio::test]
async fn faults_of_connection_strings_are_told_without_passwords() {
    for (url, part) in [
        ("redis://:hunter2@127.0.0.1:1/0", "connect to the collector redis://127.0.0.1:1/0"),
        ("redis://:hunter2@127.0.0.1:x", "write it as redis://"),
        ("rediss://:hunter2@127.0.0.1:1", "connect to the collector rediss://127.0.0.1:1"),
        (
            "redissentinel://:hunter2@127.0.0.1:1,127.0.0.1:2/m",
            "connect to the collector redissentinel://127",
        ),
        ("redissentinel://:hunter2@h:x/m", "write it as redissentinel://"),
        ("mysql://u:hunter2@127.0.0.1:1/d", "connect to the collector mysql://127.0.0.1:1/d"),
        ("mysql+pymysql://u:hunter2@127.0.0.1:1/d?ssl_x=hunter2", "an unsupported TLS option"),
        ("postgresql://u:hunter2@127.0.0.1:1/d", "connect to the collector postgresql://127.0.0.1:1/d"),
        ("postgresql+psycopg2://u:hunter2@h:x/d", "write it as postgresql://"),
        ("memcached://u:hunter2@h/d", "`memcached://`: supported are"),
        ("hunter2", "no scheme"),
        ("sqlite://", "write it as sqlite://PATH"),
        ("sqlite:///no/such/directory/hunter.db", "connect to the collector sqlite:///no/such"),
    ] {
        let error = Collector::connect(&Secret::new(url)).await.unwrap_err();
        let shown = format!("{} {error:?}", error.chain());
        assert!(shown.contains(part), "{url}: {shown}");
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(error.chain().matches("refused").count() < 2, "{shown}");
    }
}

#[tokio::test]
async fn a_silent_redis_is_given_up_within_the_limit() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("redis://{}", listener.local_addr().unwrap());
    let start = Instant::now();
    let error = Collector::connect(&Secret::new(url)).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    assert!(start.elapsed() < Duration::from_secs(8));
}

#[tokio::test]
async fn the_queue_writes_everything_that_fits_and_counts_the_rest() {
    let directory = tempfile::tempdir().unwrap();
    let collector = Collector::connect(&sqlite_url(&directory)).await.unwrap();
    let notifier = Arc::new(QueueNotifier::start(collector.clone(), 5_000));
    for record in records("b", 6_000) {
        // No await: the writer has no turn before the queue is full.
        notifier.notify(record);
    }
    assert_eq!(notifier.dropped(), 1_000);
    tokio::time::sleep(Duration::from_millis(20)).await;
    let report = notifier.shutdown().await;
    assert_eq!(report, NotifierReport { written: 5_000, dropped: 1_000, last_error: None });
    assert_eq!(collector.records("b").await.unwrap().len(), 5_000);
    notifier.notify(record("late-start", "a", "b", 0));
    assert_eq!(notifier.shutdown().await.dropped, 1_001);
}

#[tokio::test]
async fn a_broken_collector_costs_records_but_never_time() {
    let directory = tempfile::tempdir().unwrap();
    let url = sqlite_url(&directory);
    let collector = Collector::connect(&url).await.unwrap();
    let pool = sqlx::SqlitePool::connect(url.expose()).await.unwrap();
    sqlx::query("DROP TABLE data").execute(&pool).await.unwrap();
    let notifier = QueueNotifier::start(collector, 100);
    let start = Instant::now();
    for record in records("b", 300) {
        notifier.notify(record);
    }
    assert!(start.elapsed() < Duration::from_millis(500));
    tokio::time::sleep(Duration::from_millis(100)).await;
    let report = notifier.shutdown().await;
    assert_eq!((report.written, report.dropped), (0, 300));
    assert!(report.last_error.unwrap().contains("no such table"));
}
