//! Causes injected into a real Keystone and Placement: the first screen names the place.
//!
//! Placement asks Keystone about every request's token, so each trace spans both services. A proxy in front of
//! Placement counts requests; at some of them it delays, takes a lock or drops an index.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use serde_json::Value;
use sqlx::{Connection as _, Executor as _, SqliteConnection};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

use crate::support::{Bench, redis_to_oneself, service};

/// Enough for 20 slow iterations of 5 %.
const TIMES: usize = 420;
/// One request in this many is slowed; the slowest 5 % are all of these.
const SLOW_EVERY: usize = 14;
/// More than the services take longer by chance on a busy machine.
const LONG: Duration = Duration::from_millis(1_200);
/// Rows that a statement without an index has to read.
const ROWS: u32 = 1_500_000;

/// What `tests/real/up.sh` started.
struct KeystoneCloud {
    keystone_url: String,
    placement: String,
    keystone_database: PathBuf,
    redis_url: String,
    _alone: Option<MutexGuard<'static, ()>>,
}

impl KeystoneCloud {
    /// The one that `REAL_CLOUD=number` made, so that causes are injected side by side; otherwise the first, alone.
    fn number(number: u32) -> Option<Self> {
        let of_number = |variable: &str| std::env::var(format!("{variable}_{number}")).ok();
        let own = || -> Option<Self> {
            Some(Self {
                keystone_url: of_number("BENCH_TEST_KEYSTONE_URL")?,
                placement: of_number("BENCH_TEST_PLACEMENT_URL")?.trim_start_matches("http://").to_owned(),
                keystone_database: of_number("BENCH_TEST_KEYSTONE_DB")?.into(),
                redis_url: of_number("BENCH_TEST_REDIS_URL")?,
                _alone: None,
            })
        };
        own().or_else(Self::first)
    }

    fn first() -> Option<Self> {
        let keystone_url = service("BENCH_TEST_KEYSTONE_URL", "a Keystone that is traced into redis")?;
        let placement = service("BENCH_TEST_PLACEMENT_URL", "a Placement that asks this Keystone")?;
        let keystone_database = service("BENCH_TEST_KEYSTONE_DB", "the file of Keystone's database")?.into();
        service("OSPROFILER_HMAC_KEY", "the services' HMAC key")?;
        let redis_url = service("BENCH_TEST_REDIS_URL", "a redis")?;
        let placement = placement.trim_start_matches("http://").to_owned();
        Some(Self { keystone_url, placement, keystone_database, redis_url, _alone: Some(redis_to_oneself()) })
    }
}

type Done = Pin<Box<dyn Future<Output = ()> + Send>>;
/// What happens before the request of this number, from 0, goes on.
type UpstreamRequestHook = Arc<dyn Fn(usize) -> Done + Send + Sync>;

fn nothing() -> Done {
    Box::pin(async {})
}

/// Forwards connections to `upstream`; what a client sends in one piece counts as a request.
fn proxy(runtime: &Runtime, upstream: String, before: UpstreamRequestHook) -> String {
    let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    runtime.spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            let (upstream, before, count) = (upstream.clone(), Arc::clone(&before), Arc::clone(&count));
            tokio::spawn(async move {
                let Ok(server) = TcpStream::connect(&upstream).await else { return };
                let (mut from_client, mut to_client) = client.into_split();
                let (mut from_server, mut to_server) = server.into_split();
                let answers =
                    tokio::spawn(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
                let mut piece = vec![0; 64 << 10];
                while let Ok(length @ 1..) = from_client.read(&mut piece).await {
                    before(count.fetch_add(1, Ordering::SeqCst)).await;
                    if to_server.write_all(&piece[..length]).await.is_err() {
                        break;
                    }
                }
                drop(to_server);
                let _ = answers.await;
            });
        }
    });
    url
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

async fn open(database: &std::path::Path) -> SqliteConnection {
    let url = format!("sqlite://{}", database.display());
    let mut connection = SqliteConnection::connect(&url).await.unwrap();
    connection.execute("PRAGMA busy_timeout = 20000").await.unwrap();
    connection
}

/// What a run said: the first kind of its comparison, and what it printed.
struct CauseRunOutput {
    first: Value,
    printed: String,
    report: String,
}

fn run(cloud: &KeystoneCloud, url: &str) -> CauseRunOutput {
    let bench = Bench::new();
    let deployment = format!(
        "auth:\n  keystone:\n    auth_url: {}/v3\n    username: admin\n    password: {{ env: OS_PASSWORD }}\n    \
         project_name: admin\n    user_domain_name: Default\n    project_domain_name: Default\n\
         profiler:\n  hmac_key: {{ env: OSPROFILER_HMAC_KEY }}\n  connection_string: \"{}\"",
        cloud.keystone_url, cloud.redis_url
    );
    let consumer = "00000007-0000-4000-8000-000000000000";
    let scenario = format!(
        "runner: {{ constant: {{ times: {TIMES}, concurrency: 1 }} }}\niteration:\n  - action: read allocations\n    \
         get: /allocations/{consumer}\n    headers: {{ OpenStack-API-Version: placement 1.28 }}\n    \
         expect: {{ status: 200 }}\nsla: {{ failure_rate: {{ max: 0 }} }}"
    );
    bench.load(url, &deployment, &scenario);
    let ended = bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let results = bench.results();
    let report = std::fs::read_to_string(bench.run_directory().join("report.html")).unwrap();
    let first = results["workloads"][0]["comparison"]["kinds"][0].clone();
    println!("{}", ended.stdout.lines().filter(|line| line.contains("explains")).collect::<String>());
    CauseRunOutput { first, printed: ended.stdout, report }
}

impl CauseRunOutput {
    /// That this kind was called the cause, first, in the sentence of the terminal and of the report's first screen.
    #[track_caller]
    fn names(&self, service: &str, name: &str, detail: &str) {
        let first = &self.first;
        let told = || format!("{}\n{}", serde_json::to_string_pretty(first).unwrap(), self.printed);
        let is_it = first["service"] == service && first["name"] == name && first["guilty"] == true;
        let otherwise = if first["guilty"] == true { "wrong" } else { "nothing" };
        // For `tests/perf/otel_causes.py`.
        println!("cause {service}: {}", if is_it { "right" } else { otherwise });
        assert_eq!((&first["service"], &first["name"]), (&service.into(), &name.into()), "{}", told());
        assert!(first["detail"].as_str().unwrap().contains(detail), "{}", told());
        assert_eq!(first["guilty"], true, "{}", told());
        assert!(self.printed.contains("explains"), "{}", told());
        let screen = self.report.split("<nav").next().unwrap();
        assert!(screen.contains("explains"), "{screen}");
    }
}

#[test]
fn real_delay_on_the_way_to_placement_is_found_outside_the_services() {
    let Some(cloud) = KeystoneCloud::first() else { return };
    let runtime = runtime();
    let delay: UpstreamRequestHook = Arc::new(|number| match number % SLOW_EVERY {
        3 => Box::pin(tokio::time::sleep(LONG)),
        _ => nothing(),
    });
    let said = run(&cloud, &proxy(&runtime, cloud.placement.clone(), delay));
    said.names("bench", "action", "read allocations");
    assert_eq!(said.first["outside"], true);
}

#[test]
fn real_lock_in_keystones_database_is_found_in_its_statements() {
    let Some(cloud) = KeystoneCloud::number(2) else { return };
    let runtime = runtime();
    let database = cloud.keystone_database.clone();
    let lock: UpstreamRequestHook = Arc::new(move |number| {
        let database = database.clone();
        if number % SLOW_EVERY != 3 {
            return nothing();
        }
        Box::pin(async move {
            let mut connection = open(&database).await;
            connection.execute("BEGIN EXCLUSIVE").await.unwrap();
            tokio::spawn(async move {
                tokio::time::sleep(LONG).await;
                connection.execute("ROLLBACK").await.unwrap();
            });
        })
    });
    let said = run(&cloud, &proxy(&runtime, cloud.placement.clone(), lock));
    said.names("keystone/public", "db", "SELECT");
    assert_eq!(said.first["parent"], "wsgi GET /v3/auth/tokens");
}

/// Revocations for users that do not exist, as a large cloud has them; removed in the end, and the index restored.
struct Revocations {
    runtime: Runtime,
    database: PathBuf,
}

/// The index by which Keystone finds a user's revocations whenever it checks a token.
const INDEX: &str = "ix_revocation_event_user_id_issued_before";

impl Revocations {
    fn fill(database: PathBuf) -> Self {
        let revocations = Self { runtime: runtime(), database };
        revocations.execute(format!(
            "INSERT INTO revocation_event (user_id, issued_before, revoked_at) \
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS}) \
             SELECT printf('planted-%08x', i), '2099-01-01 00:00:00.000000', '2099-01-01 00:00:00.000000' FROM n"
        ));
        revocations
    }

    fn execute(&self, sql: String) {
        self.runtime.block_on(async {
            let mut connection = open(&self.database).await;
            connection.execute(sqlx::AssertSqlSafe(sql)).await.unwrap();
        });
    }
}

impl Drop for Revocations {
    fn drop(&mut self) {
        self.execute(format!(
            "CREATE INDEX IF NOT EXISTS {INDEX} ON revocation_event (user_id, issued_before)"
        ));
        self.execute("DELETE FROM revocation_event WHERE user_id LIKE 'planted-%'".to_owned());
    }
}

#[test]
fn real_index_that_is_dropped_is_found_in_keystones_statement() {
    let Some(cloud) = KeystoneCloud::number(3) else { return };
    let runtime = runtime();
    let database = cloud.keystone_database.clone();
    let _revocations = Revocations::fill(database.clone());
    let drop_index: UpstreamRequestHook = Arc::new(move |number| {
        let database = database.clone();
        // The last tenth of the requests does without.
        if number != TIMES - TIMES / 10 {
            return nothing();
        }
        Box::pin(async move {
            let mut connection = open(&database).await;
            connection.execute(sqlx::AssertSqlSafe(format!("DROP INDEX {INDEX}"))).await.unwrap();
        })
    });
    let said = run(&cloud, &proxy(&runtime, cloud.placement.clone(), drop_index));
    said.names("keystone/public", "db", "FROM revocation_event");
}
