//! The table of OSProfiler in a file: what others wrote into it, and what it lists.

use std::path::Path;

use serde_json::json;
use sqlx::SqlitePool;

use super::record;
use crate::driver::{Collector, DriverError, TraceQuery, TraceSummary};
use crate::record::{TRACE_BYTES_MAX, TraceRecord};
use base::secret::Secret;

const ALL: TraceQuery = TraceQuery { errors_only: false, limit: 100 };

async fn open(directory: &Path) -> (Collector, SqlitePool) {
    let url = format!("sqlite://{}", directory.join("traces.db").display());
    let collector = Collector::connect(&Secret::new(&url)).await.unwrap();
    (collector, SqlitePool::connect(&url).await.unwrap())
}

async fn run(pool: &SqlitePool, sql: &'static str) {
    sqlx::query(sql).execute(pool).await.unwrap();
}

fn trace(base_id: &str, from_us: u32, etype: Option<&str>) -> Vec<TraceRecord> {
    let mut records = vec![
        record("wsgi-start", "a", base_id, from_us),
        record("db-start", "b", "a", from_us + 1),
        record("db-stop", "b", "a", from_us + 2),
        record("wsgi-stop", "a", base_id, from_us + 3),
    ];
    for record in &mut records {
        record.base_id = base_id.into();
        record.info_mut().insert("note".to_owned(), json!("says \"etype\": not"));
    }
    records[2].info_mut().extend(etype.map(|etype| ("etype".to_owned(), json!(etype))));
    records
}

#[tokio::test]
async fn traces_are_listed_newest_first() {
    let directory = tempfile::tempdir().unwrap();
    let (collector, pool) = open(directory.path()).await;
    assert_eq!(collector.list(&ALL).await.unwrap(), []);
    let failed = Some("IntegrityError");
    for (base_id, from_us, etype) in [("one", 100, None), ("two", 300, failed), ("three", 200, None)] {
        collector.write(&trace(base_id, from_us, etype)).await.unwrap();
    }
    collector.write(&trace("alone", 900, None)[..1]).await.unwrap();
    run(&pool, "INSERT INTO data (base_id, data) VALUES (NULL, NULL), ('empty', NULL)").await;
    let summary = |base_id: &str, us: u32, records, name: Option<&str>, failed| TraceSummary {
        base_id: base_id.to_owned(),
        timestamp: if us == 0 { String::new() } else { record("", "", "", us).timestamp.to_string() },
        records: Some(records),
        name: name.map(str::to_owned),
        failed: Some(failed),
    };
    let two = summary("two", 300, 4, Some("wsgi"), true);
    let expected = [
        summary("alone", 900, 1, Some("wsgi"), false),
        two.clone(),
        summary("three", 200, 4, Some("wsgi"), false),
        summary("one", 100, 4, Some("wsgi"), false),
        summary("empty", 0, 1, None, false),
    ];
    assert_eq!(collector.list(&ALL).await.unwrap(), expected);
    let failed = collector.list(&TraceQuery { errors_only: true, limit: 100 }).await.unwrap();
    assert_eq!(failed, std::slice::from_ref(&two));
    // The one that was written to last is in the list, however short that is.
    assert_eq!(collector.list(&TraceQuery { errors_only: false, limit: 1 }).await.unwrap().len(), 1);
    assert_eq!(collector.list(&TraceQuery { errors_only: true, limit: 0 }).await.unwrap(), []);
    // Encoded once, by a writer that is not OSProfiler's.
    run(
        &pool,
        "INSERT INTO data (base_id, timestamp, name, data) VALUES ('once', 'T', 'a-stop', '{\"info\": {\"etype\":\"E\"}}')",
    )
    .await;
    let failed = collector.list(&TraceQuery { errors_only: true, limit: 100 }).await.unwrap();
    assert_eq!(failed.iter().map(|trace| trace.base_id.as_str()).collect::<Vec<_>>(), ["once", "two"]);
}

#[tokio::test]
async fn rows_that_are_no_records_are_told_by_their_place() {
    let directory = tempfile::tempdir().unwrap();
    let (collector, pool) = open(directory.path()).await;
    for (change, part) in [
        ("UPDATE data SET name = NULL WHERE id % 4 = 2", "record 1 of trace b"),
        ("UPDATE data SET trace_id = 7 WHERE id % 4 = 3", ""),
        ("UPDATE data SET timestamp = 'yesterday' WHERE id % 4 = 1", "record 0 of trace b"),
        ("UPDATE data SET timestamp = 1.5", "record 0 of trace b"),
        ("UPDATE data SET data = x'ff00' WHERE id % 4 = 0", "record 3 of trace b"),
        ("UPDATE data SET data = '\"[[[\"'", "record 0 of trace b"),
        ("UPDATE data SET data = 3", ""),
        ("UPDATE data SET data = NULL, project = NULL, host = NULL, service = NULL", ""),
        ("UPDATE data SET name = CAST(x'61ff2d7374617274' AS TEXT)", ""),
        ("UPDATE data SET trace_id = parent_id, name = 'db-start'", ""),
    ] {
        run(&pool, "DELETE FROM data").await;
        collector.write(&trace("b", 100, None)).await.unwrap();
        run(&pool, change).await;
        let stored = collector.stored("b").await.unwrap();
        assert_eq!(
            (stored.records.len() as u64 + stored.rejected, stored.rejected > 0),
            (4, !part.is_empty())
        );
        let first = stored.first_rejected.clone().unwrap_or_default();
        assert!(first.contains(part), "{change}: {first}");
        if change.contains('%') && !part.is_empty() {
            assert_eq!(stored.rejected, 1, "{change}: the others are read");
            let complaint = stored.complaint("b").unwrap();
            assert!(
                complaint.starts_with("1 record of trace b could not be read; the first: "),
                "{complaint}"
            );
        }
    }
    let odd = collector.records("b").await.unwrap();
    assert_eq!(odd[0].name, "db-start");
}

#[tokio::test]
async fn huge_payloads_and_long_names_are_bounded() {
    let directory = tempfile::tempdir().unwrap();
    let (collector, pool) = open(directory.path()).await;
    let mut records = trace("long", 100, None);
    records[0].name = format!("{}-start", "n".repeat(400)).into();
    records[0].project = Some("p".repeat(400).into());
    collector.write(&records).await.unwrap();
    let read = collector.records("long").await.unwrap();
    assert!(read[0].name.len() == 255 && read[0].name.ends_with("-start"));
    assert_eq!(read[0].project.as_deref().map(str::len), Some(255));

    let long_id = "x".repeat(300);
    collector.write(&trace(&long_id, 100, None)).await.unwrap();
    assert_eq!(collector.records(&long_id).await.unwrap().len(), 4);

    run(&pool, "UPDATE data SET data = CAST(zeroblob(5000000) AS TEXT) WHERE id = 1").await;
    let stored = collector.stored("long").await.unwrap();
    assert_eq!((stored.records.len(), stored.rejected), (3, 1));
    assert!(stored.first_rejected.unwrap().contains("the limit is"));
    const { assert!(TRACE_BYTES_MAX < 135_000_000) };
    run(&pool, "INSERT INTO data (base_id, data) VALUES ('huge', zeroblob(135000000))").await;
    assert!(matches!(collector.records("huge").await, Err(DriverError::TooLarge { .. })));
}

#[tokio::test]
async fn who_only_reads_creates_and_changes_nothing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("traces.db");
    let url = Secret::new(format!("sqlite://{}", path.display()));
    let error = Collector::connect_to_read(&url).await.unwrap_err();
    assert!(matches!(error, DriverError::Connect { .. }), "{error:?}");
    assert!(!path.exists());

    // A file of something else, which a link or a mistake named.
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path).create_if_missing(true);
    let pool = SqlitePool::connect_with(options).await.unwrap();
    run(&pool, "CREATE TABLE secrets (id INTEGER)").await;
    pool.close().await;
    let before = std::fs::read(&path).unwrap();
    let reader = Collector::connect_to_read(&url).await.unwrap();
    reader.probe().await.unwrap();
    assert_eq!(reader.list(&ALL).await.unwrap(), []);
    assert_eq!(reader.records("one").await.unwrap(), []);
    assert!(reader.write(&trace("one", 100, None)).await.is_err());
    reader.close().await;
    assert!(std::fs::read(&path).unwrap() == before);

    // A reader that is there before the table sees what is written later.
    let reader = Collector::connect_to_read(&url).await.unwrap();
    let writer = Collector::connect(&url).await.unwrap();
    writer.write(&trace("one", 100, None)).await.unwrap();
    assert_eq!(reader.records("one").await.unwrap().len(), 4);
    reader.close().await;
    writer.close().await;

    let before = std::fs::read(&path).unwrap();
    let reader = Collector::connect_to_read(&url).await.unwrap();
    assert_eq!(reader.list(&ALL).await.unwrap().len(), 1);
    let error = reader.write(&trace("two", 100, None)).await.unwrap_err();
    assert!(error.chain().contains("readonly database"), "{}", error.chain());
    reader.close().await;
    assert!(std::fs::read(&path).unwrap() == before);
    let names: Vec<_> =
        std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["traces.db"]);
}

#[tokio::test]
async fn files_that_are_no_such_table_are_refused_with_words() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("traces.db");
    let url = Secret::new(format!("sqlite://{}", path.display()));
    std::fs::write(&path, "this is not a database, but it is long enough to be looked at".repeat(99))
        .unwrap();
    let error = Collector::connect(&url).await.unwrap_err();
    assert!(error.chain().contains("not a database"), "{}", error.chain());

    std::fs::remove_file(&path).unwrap();
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path).create_if_missing(true);
    let pool = SqlitePool::connect_with(options).await.unwrap();
    run(&pool, "CREATE TABLE data (id INTEGER, temperature REAL)").await;
    for error in
        [Collector::connect(&url).await.unwrap_err(), Collector::connect_to_read(&url).await.unwrap_err()]
    {
        assert!(error.chain().contains("table `data`"), "{}", error.chain());
    }

    // A relative path as SQLAlchemy has it, and one without a file.
    for url in ["sqlite+pysqlite://traces.db", "sqlite://:memory:"] {
        let error = Collector::connect(&Secret::new(url)).await.unwrap_err();
        assert!(matches!(error, DriverError::Invalid { .. }), "{error:?}");
    }
}
