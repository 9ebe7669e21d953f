//! Stores that go away during a run and come back, or are replaced: the driver continues without being reopened.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use bench::osprofiler::driver::Collector;
use bench::osprofiler::record::TraceRecord;
use uuid::Uuid;

use crate::real_servers::{Process, installed, start};
use crate::real_stores::{connect, store, written_by_us};
use crate::support::free_address;

/// How long a store may take to be there again.
const BACK_WITHIN: Duration = Duration::from_secs(40);

async fn record(collector: &Collector) -> TraceRecord {
    let base_id = written_by_us(collector, false).await;
    collector.records(&base_id).await.unwrap().remove(0)
}

/// Writes until that works again.
async fn write_again(collector: &Collector, record: &TraceRecord) -> String {
    let record = TraceRecord { base_id: Uuid::new_v4().to_string().into(), ..record.clone() };
    let start = Instant::now();
    while let Err(error) = collector.write(std::slice::from_ref(&record)).await {
        assert!(error.is_transient(), "{}", error.chain());
        assert!(start.elapsed() < BACK_WITHIN, "{}", error.chain());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    record.base_id.to_string()
}

fn redis(program: &Path, folder: &Path, port: u16, further: &[&str]) -> Process {
    let folder = folder.join(port.to_string());
    std::fs::create_dir_all(&folder).unwrap();
    let mut command = Command::new(program);
    command.args(further).args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
    start("redis-server", &mut command, &folder, ([127, 0, 0, 1], port).into())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_redis_that_restarts_is_found_again() {
    let Some(program) = installed(&["redis-server"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let port = free_address().port();
    let before = redis(&program, folder.path(), port, &[]);
    let collector = connect(&format!("redis://127.0.0.1:{port}/2")).await;
    let record = record(&collector).await;
    drop(before);
    let error = collector.write(std::slice::from_ref(&record)).await.unwrap_err();
    assert!(error.is_transient(), "{}", error.chain());
    let _after = redis(&program, folder.path(), port, &[]);
    let base_id = write_again(&collector, &record).await;
    assert_eq!(collector.records(&base_id).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_sentinel_leads_to_the_next_master() {
    let Some(program) = installed(&["redis-server"]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let ports = [(); 3].map(|()| free_address().port());
    let [master, replica, sentinel] = ports;
    let first = redis(&program, folder.path(), master, &["--repl-diskless-sync-delay", "0"]);
    let of = format!("127.0.0.1 {master}");
    let _second = redis(&program, folder.path(), replica, &["--replicaof", &of]);
    let configuration = folder.path().join("sentinel.conf");
    let settings = format!(
        "sentinel monitor m 127.0.0.1 {master} 1\nsentinel down-after-milliseconds m 500\n\
         sentinel failover-timeout m 5000\n"
    );
    std::fs::write(&configuration, settings).unwrap();
    let mut command = Command::new(&program);
    command.arg(&configuration).args(["--sentinel", "--bind", "127.0.0.1", "--port", &sentinel.to_string()]);
    let watch = folder.path().join("watch");
    std::fs::create_dir(&watch).unwrap();
    let _third = start("redis-server", &mut command, &watch, ([127, 0, 0, 1], sentinel).into());

    let collector = connect(&format!("redissentinel://127.0.0.1:{sentinel}/m")).await;
    let record = record(&collector).await;
    // The sentinel must have found the replica, and the replica the records.
    let client = redis::Client::open(format!("redis://127.0.0.1:{sentinel}")).unwrap();
    let mut asking = client.get_multiplexed_async_connection().await.unwrap();
    let begin = Instant::now();
    loop {
        let known: Vec<redis::Value> =
            redis::cmd("SENTINEL").arg("REPLICAS").arg("m").query_async(&mut asking).await.unwrap();
        let copy = connect(&format!("redis://127.0.0.1:{replica}")).await;
        let copied = copy.records(&record.base_id).await.unwrap().len() == 8;
        if copied && format!("{known:?}").contains("slave-repl-offset") {
            break;
        }
        assert!(begin.elapsed() < BACK_WITHIN, "the sentinel finds no replica");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    drop(first);
    let base_id = write_again(&collector, &record).await;
    assert_eq!(collector.records(&base_id).await.unwrap().len(), 1);
    assert_eq!(collector.records(&record.base_id).await.unwrap().len(), 8);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn real_databases_that_cut_their_connections_are_used_again() {
    let (Some(postgres), Some(mysql)) = (store("BENCH_TEST_POSTGRES_URL"), store("BENCH_TEST_MYSQL_URL"))
    else {
        return;
    };
    let collector = connect(&format!("{postgres}?application_name=bench-cut")).await;
    let one = record(&collector).await;
    let pool = sqlx::PgPool::connect(&postgres.replace("postgresql+psycopg2", "postgresql")).await.unwrap();
    sqlx::query(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'bench-cut'",
    )
    .execute(&pool)
    .await
    .unwrap();
    let base_id = write_again(&collector, &one).await;
    assert_eq!(collector.records(&base_id).await.unwrap().len(), 1);

    // A separate database, so that no other test loses its connection.
    let admin = sqlx::MySqlPool::connect(&mysql.replace("mysql+pymysql", "mysql")).await.unwrap();
    sqlx::query("CREATE DATABASE IF NOT EXISTS cut").execute(&admin).await.unwrap();
    let collector = connect(&mysql.replace("/osprofiler", "/cut")).await;
    let one = record(&collector).await;
    let ids: Vec<(u64,)> =
        sqlx::query_as("SELECT CAST(id AS UNSIGNED) FROM information_schema.processlist WHERE db = 'cut'")
            .fetch_all(&admin)
            .await
            .unwrap();
    assert!(!ids.is_empty());
    for (id,) in ids {
        sqlx::raw_sql(sqlx::AssertSqlSafe(format!("KILL {id}"))).execute(&admin).await.unwrap();
    }
    let base_id = write_again(&collector, &one).await;
    assert_eq!(collector.records(&base_id).await.unwrap().len(), 1);
    // The table goes, and with it the writing; an error says so.
    sqlx::query("DROP TABLE cut.data").execute(&admin).await.unwrap();
    let error = collector.write(std::slice::from_ref(&one)).await.unwrap_err();
    assert!(error.chain().contains("doesn't exist"), "{}", error.chain());
    assert_eq!(connect(&mysql.replace("/osprofiler", "/cut")).await.records("b").await.unwrap(), []);
    sqlx::query("DROP DATABASE cut").execute(&admin).await.unwrap();
}
