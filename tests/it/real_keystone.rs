//! The shipped scenario against a real Keystone that OSProfiler traces into a real redis.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use bench::base::secret::Secret;
use bench::osprofiler::driver::Collector;
use bench::osprofiler::report::TraceTree;
use serde_json::Value;

use crate::support::{Bench, CommandOutput, redis_to_oneself, service};

/// Iterations of the runs that need not be the shipped one.
const FEW: usize = 4;

/// What `tests/real/up.sh` started.
struct Keystone {
    auth_url: String,
    redis_url: String,
}

impl Keystone {
    fn of_environment() -> Option<Self> {
        let url = service("BENCH_TEST_KEYSTONE_URL", "a Keystone that is traced into redis")?;
        let redis_url = service("BENCH_TEST_REDIS_URL", "the redis that it is traced into")?;
        service("OS_PASSWORD", "the password of Keystone's admin")?;
        service("OSPROFILER_HMAC_KEY", "Keystone's HMAC key")?;
        let auth_url = std::env::var("OS_AUTH_URL").unwrap_or_else(|_| format!("{url}/v3"));
        Some(Self { auth_url, redis_url })
    }

    /// `bench run` of a scenario, with variables of the environment replaced.
    fn run(
        &self,
        bench: &Bench,
        scenario: &Path,
        more: &[&str],
        variables: &[(&str, &str)],
    ) -> CommandOutput {
        let mut command = bench.command(&["run"]);
        command.arg(scenario).args(more);
        if scenario.starts_with(bench.path()) {
            // A copy does not find the deployment that the shipped one names.
            command.arg("-d").arg(repository().join("deployments/keystone.yaml"));
        }
        command.env("OS_AUTH_URL", &self.auth_url);
        command.env("OSPROFILER_CONNECTION_STRING", &self.redis_url);
        command.envs(variables.iter().copied());
        CommandOutput::from(command.output().unwrap())
    }

    fn redis(&self) -> Redis {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let collector = runtime.block_on(Collector::connect(&Secret::new(&self.redis_url))).unwrap();
        let client = redis::Client::open(self.redis_url.as_str()).unwrap();
        Redis { runtime, collector, client }
    }
}

/// What the real redis holds.
struct Redis {
    runtime: tokio::runtime::Runtime,
    collector: Collector,
    client: redis::Client,
}

impl Redis {
    fn tree(&self, trace_id: &str) -> TraceTree {
        TraceTree::build(&self.runtime.block_on(self.collector.records(trace_id)).unwrap())
    }

    fn keys(&self) -> usize {
        self.runtime.block_on(async {
            let mut connection = self.client.get_multiplexed_async_connection().await.unwrap();
            redis::cmd("DBSIZE").query_async(&mut connection).await.unwrap()
        })
    }
}

fn repository() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The shipped scenario with few iterations.
fn short_scenario(bench: &Bench) -> PathBuf {
    let shipped = std::fs::read_to_string(repository().join("scenarios/keystone.yaml")).unwrap();
    let short = shipped.replacen("times: 60,", &format!("times: {FEW},"), 1);
    assert_ne!(short, shipped);
    bench.write("short.yaml", short)
}

fn trace_ids(results: &Value) -> Vec<String> {
    let iterations = results["iterations"].as_array().unwrap();
    iterations.iter().map(|iteration| iteration["trace_id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn real_keystone_has_points_of_every_iteration_and_shares_none() {
    let Some(keystone) = Keystone::of_environment() else { return };
    let _redis = redis_to_oneself();
    let redis = keystone.redis();
    let (bench, before) = (Bench::new(), redis.keys());
    let ended = keystone.run(&bench, &repository().join("scenarios/keystone.yaml"), &[], &[]).expect_code(0);
    let results = bench.results();

    let ids = trace_ids(&results);
    assert_eq!(ids.len(), 60);
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    // The iteration before the load is traced, too.
    let probe = results["probe"]["trace_id"].as_str().unwrap();
    assert!(!redis.tree(probe).points.is_empty(), "{}", results["probe"]);
    assert_eq!(redis.keys(), before + ids.len() + 1, "one list for each iteration, and none besides");
    let mut owners: HashMap<String, &String> = HashMap::new();
    for id in &ids {
        let tree = redis.tree(id);
        let roots: Vec<_> = tree.points.iter().filter(|point| point.depth == 0).collect();
        let details: Vec<_> = roots.iter().map(|root| (root.name.as_str(), root.detail())).collect();
        let wsgi = |detail: &str| ("wsgi", detail.to_owned());
        assert_eq!(details, [wsgi("POST /v3/auth/tokens"), wsgi("GET /v3/auth/tokens")], "{id}");
        let db = tree.points.iter().filter(|point| point.name == "db").count();
        assert!((50..500).contains(&db), "{id} has {db} database points");
        for point in tree.points {
            assert!(point.duration_us.is_some(), "{id}: {} has no end", point.name);
            if let Some(other) = owners.insert(point.trace_id.to_string(), id) {
                panic!("a point is in both {id} and {other}");
            }
        }
    }
    println!("{} iterations, {} points", ids.len(), owners.len());

    let report = std::fs::read_to_string(bench.run_directory().join("report.html")).unwrap();
    let slowest = results["slowest"].as_array().unwrap();
    assert!(!slowest.is_empty());
    for slow in slowest {
        let id = slow["trace_id"].as_str().unwrap();
        assert_eq!(slow["trace"], "complete", "{id}");
        assert!(!slow["culprit"]["name"].as_str().unwrap().is_empty());
        let share = slow["culprit"]["share"].as_f64().unwrap();
        assert!(share > 0.0 && share <= 1.0, "{slow}");
        let service = slow["culprit"]["service"].as_str().unwrap();
        assert!(matches!(service, "keystone/public" | ""), "{slow}");
        assert!(report.contains(id) && ended.stdout.contains(id), "{id} is not reported");
    }
    assert!(ended.stdout.starts_with("\nPASS"), "{}", ended.stdout);
}

#[test]
fn real_keystone_has_no_point_under_a_wrong_key() {
    let Some(keystone) = Keystone::of_environment() else { return };
    let _redis = redis_to_oneself();
    let redis = keystone.redis();
    let (bench, before) = (Bench::new(), redis.keys());
    let wrong = [("OSPROFILER_HMAC_KEY", "wrong")];
    let ended = keystone.run(&bench, &short_scenario(&bench), &[], &wrong).expect_code(0);
    let results = bench.results();
    let ids = trace_ids(&results);
    assert_eq!(ids.len(), FEW);
    assert!(ids.iter().all(|id| redis.tree(id).points.is_empty()));
    assert_eq!(redis.keys(), before);

    let slowest = results["slowest"].as_array().unwrap();
    assert_eq!(slowest.len(), FEW);
    assert!(slowest.iter().all(|slow| slow["trace"] == "absent" && slow["culprit"].is_null()), "{slowest:?}");
    assert_eq!(results["profiling"]["fetched"]["absent"], FEW);
    assert!(ended.stdout.contains("the collector has no point of the trace"), "{}", ended.stdout);
    assert!(ended.stdout.contains("accept this HMAC key"), "{}", ended.stdout);
}

#[test]
fn real_keystone_is_not_traced_without_profiling() {
    let Some(keystone) = Keystone::of_environment() else { return };
    let _redis = redis_to_oneself();
    let redis = keystone.redis();
    let (bench, before) = (Bench::new(), redis.keys());
    keystone.run(&bench, &short_scenario(&bench), &["--no-profile"], &[]).expect_code(0);
    let results = bench.results();
    assert_eq!(results["profiling"]["enabled"], false);
    assert_eq!(trace_ids(&results).len(), FEW);
    assert_eq!(redis.keys(), before);
}

#[test]
fn real_keystone_refuses_a_wrong_password_before_the_load() {
    let Some(keystone) = Keystone::of_environment() else { return };
    // Keystone's own login is unsigned, but a test that counts keys need not rely on that.
    let _redis = redis_to_oneself();
    let bench = Bench::new();
    let wrong = [("OS_PASSWORD", "not-the-password")];
    let ended = keystone.run(&bench, &short_scenario(&bench), &[], &wrong).expect_code(69);
    for part in ["/v3/auth/tokens answered 401: ", "requires authentication", "check user, password"] {
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
    assert!(!ended.stderr.contains("not-the-password"));
    let wrong_url = [("OS_AUTH_URL", &*format!("{}/nowhere/v3", keystone.auth_url))];
    let ended = keystone.run(&bench, &short_scenario(&bench), &[], &wrong_url).expect_code(69);
    assert!(ended.stderr.contains("answered 404: "), "{}", ended.stderr);
    assert!(ended.stderr.contains("check that the `auth_url`"), "{}", ended.stderr);
    assert_eq!(std::fs::read_dir(bench.path().join("runs")).unwrap().count(), 0, "an empty run stays");
}
