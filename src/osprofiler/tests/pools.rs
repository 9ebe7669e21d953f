//! Pools of sqlx whose statements are points, against SQLite.

use std::sync::Arc;

use futures_util::TryStreamExt as _;
use serde_json::{Value, json};
use sqlx::Executor as _;
use sqlx::sqlite::SqlitePoolOptions;

use super::{MemoryNotifier, outline, stop_info, trace};
use crate::profiler::TraceExtension as _;
use crate::record::TraceRecord;
use crate::sqlx::{TracedPool, traced};

async fn pool() -> TracedPool<sqlx::Sqlite> {
    // A database in memory is as long as its only connection.
    let pool = SqlitePoolOptions::new().max_connections(1).connect("sqlite::memory:").await.unwrap();
    let pool = traced(pool);
    sqlx::query("CREATE TABLE servers (id INTEGER PRIMARY KEY, name TEXT)").execute(&pool).await.unwrap();
    sqlx::query("INSERT INTO servers VALUES (1, 'one'), (2, 'two')").execute(&pool).await.unwrap();
    pool
}

/// The records of what `work` does in a trace.
async fn records(work: impl Future<Output = ()>) -> Vec<TraceRecord> {
    let notifier = Arc::new(MemoryNotifier::default());
    work.in_trace(trace(&notifier, None)).await;
    notifier.records()
}

fn statements(records: &[TraceRecord]) -> Vec<&str> {
    let starts = records.iter().filter(|record| record.name == "db-start");
    starts.map(|record| record.info["db"]["statement"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn every_way_to_run_a_statement_is_a_point() {
    let pool = pool().await;
    let work = async {
        let one: (i64,) = sqlx::query_as("SELECT 1").fetch_one(&pool).await.unwrap();
        let all = sqlx::query("SELECT 2 FROM servers WHERE id > ?").bind(0).fetch_all(&pool).await.unwrap();
        let name: Option<String> =
            sqlx::query_scalar("SELECT 'x' WHERE 0").fetch_optional(&pool).await.unwrap();
        let streamed: Vec<_> = sqlx::query("SELECT 4 FROM servers").fetch(&pool).try_collect().await.unwrap();
        let done = sqlx::query("UPDATE servers SET name = ?").bind("n").execute(&pool).await.unwrap();
        pool.execute("SELECT 6; SELECT 7").await.unwrap();
        assert_eq!((one.0, all.len(), name, streamed.len(), done.rows_affected()), (1, 2, None, 2, 2));
    };
    let records = records(work).await;
    assert_eq!(
        statements(&records),
        [
            "SELECT 1",
            "SELECT 2 FROM servers WHERE id > ?",
            "SELECT 'x' WHERE 0",
            "SELECT 4 FROM servers",
            "UPDATE servers SET name = ?",
            "SELECT 6; SELECT 7",
        ]
    );
    assert_eq!(outline(&records), ["db"; 6]);
    let stops = records.iter().filter(|record| record.name == "db-stop");
    let rows: Vec<&Value> = stops.map(|record| &record.info["db"]["rows"]).collect();
    assert_eq!(rows, [1, 2, 0, 2, 0, 2]);
}

#[tokio::test]
async fn transactions_and_connections_are_traced_too() {
    let pool = pool().await;
    let work = async {
        let mut transaction = pool.begin().await.unwrap();
        sqlx::query("DELETE FROM servers WHERE id = 1").execute(&mut transaction).await.unwrap();
        transaction.rollback().await.unwrap();
        let mut transaction = pool.begin().await.unwrap();
        sqlx::query("DELETE FROM servers WHERE id = 2").execute(&mut transaction).await.unwrap();
        transaction.commit().await.unwrap();
        let mut connection = pool.acquire().await.unwrap();
        let left: i64 =
            sqlx::query_scalar("SELECT id FROM servers").fetch_one(&mut connection).await.unwrap();
        assert_eq!(left, 1);
    };
    let expected =
        ["DELETE FROM servers WHERE id = 1", "DELETE FROM servers WHERE id = 2", "SELECT id FROM servers"];
    assert_eq!(statements(&records(work).await), expected);
}

#[tokio::test]
async fn failed_and_abandoned_statements_say_so_and_untraced_ones_nothing() {
    let pool = pool().await;
    let failed = records(async {
        sqlx::query("SELECT nowhere").fetch_all(&pool).await.unwrap_err();
    });
    let failed = stop_info(&failed.await, "db");
    assert_eq!(failed["etype"], "sqlx_core::error::Error");
    assert!(failed["message"].as_str().unwrap().contains("no such column: nowhere"), "{failed}");
    assert_eq!(failed["db"]["original_exception"], failed["message"]);

    let abandoned = records(async {
        let mut rows = sqlx::query("SELECT id FROM servers").fetch(&pool);
        rows.try_next().await.unwrap().unwrap();
    });
    assert_eq!(stop_info(&abandoned.await, "db")["cancelled"], json!(true));

    let untraced = records(async {
        sqlx::query("SELECT 1").fetch_all(pool.untraced()).await.unwrap();
    });
    assert_eq!(untraced.await, []);
    // Nor is there a profiler here.
    sqlx::query("SELECT 1").fetch_all(&pool).await.unwrap();
}
