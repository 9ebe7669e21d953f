//! Planted causes are found through the real path: service, collector, fetch, comparison, sentence.

use serde_json::Value;

use crate::planted_service::{KEY, Plant, Shop};
use crate::support::Bench;

/// A closed load; enough for 20 slow and 40 typical iterations.
const CLOSED: &str = "runner: { constant: { times: 600, concurrency: 4 } }";
/// A burst that one virtual user cannot serve in time.
const BURST: &str = "runner:
  ramping:
    start: 20
    stepped: true
    max_concurrency: 1
    stages: [{ duration: 8s, rps: 20 }, { duration: 250ms, rps: 400 }, { duration: 8s, rps: 20 }]";

/// What the first kind must be.
struct Expected {
    plant: Plant,
    runner: &'static str,
    service: &'static str,
    name: &'static str,
    detail: &'static str,
    /// Whether more calls explain most of it, rather than slower ones.
    more_calls: bool,
    /// Host or attribute that tells the slow ones apart.
    contrast: Option<(&'static str, &'static str)>,
}

fn expected(plant: Plant, service: &'static str, name: &'static str, detail: &'static str) -> Expected {
    Expected { plant, runner: CLOSED, service, name, detail, more_calls: false, contrast: None }
}

const IMAGE: &str = "SELECT file FROM image WHERE id = ?";

#[test]
fn a_slow_statement_is_named() {
    is_named(&expected(Plant::SlowStatement, "shop/api", "db", "SELECT price FROM item WHERE cart = ?"));
}

#[test]
fn a_statement_that_is_run_many_times_is_named() {
    let statement = "SELECT stock FROM item WHERE id = ?";
    is_named(&Expected { more_calls: true, ..expected(Plant::ManyStatements, "shop/api", "db", statement) });
}

#[test]
fn a_wait_for_a_lock_is_named() {
    is_named(&expected(Plant::LockWait, "shop/api", "update_cart", ""));
}

#[test]
fn a_slow_host_is_named() {
    let statement = "SELECT name FROM customer WHERE id = ?";
    let contrast = Some(("host", "node-2"));
    is_named(&Expected { contrast, ..expected(Plant::BadHost, "shop/api", "db", statement) });
}

#[test]
fn a_slow_service_behind_another_is_named() {
    is_named(&expected(Plant::SlowUpstream, "shop/images", "wsgi", "GET /images/{id}"));
}

#[test]
fn a_retry_is_named() {
    is_named(&Expected { more_calls: true, ..expected(Plant::Retry, "shop/images", "db", IMAGE) });
}

#[test]
fn a_slow_network_is_named() {
    is_named(&expected(Plant::Network, "bench", "action", "buy"));
}

#[test]
fn a_queue_before_the_load_is_named() {
    is_named(&Expected { runner: BURST, ..expected(Plant::None, "bench", "scheduling delay", "") });
}

#[track_caller]
fn is_named(row: &Expected) {
    if let Err(difference) = differs(row) {
        panic!("{difference}");
    }
}

/// Runs a load on the shop; says what is not as expected.
fn differs(row: &Expected) -> Result<(), String> {
    let bench = Bench::new();
    let collector = format!("sqlite://{}", bench.path().join("traces.db").display());
    let shop = Shop::start(row.plant, &collector);
    let profiler = format!("profiler: {{ hmac_key: {KEY}, connection_string: \"{collector}\" }}");
    bench.load(&shop.url, &profiler, &format!("{}\niteration: [{{ action: buy, get: /cart }}]", row.runner));
    let ended = bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let comparison = &bench.results()["workloads"][0]["comparison"];
    let first = &comparison["kinds"][0];
    let text = |key: &str| first[key].as_str().unwrap_or_default().to_owned();
    let seen = (text("service"), text("name"), text("detail"));
    let more_calls = first["more_calls_ms"].as_f64() > first["slower_calls_ms"].as_f64();
    let contrast = first["contrasts"].as_array().and_then(|list| list.first());
    let contrast = contrast.map(|one| (as_text(&one["attribute"]), as_text(&one["value"])));
    let wanted = row.contrast.map(|(attribute, value)| (attribute.to_owned(), value.to_owned()));
    let right = seen == (row.service.to_owned(), row.name.to_owned(), row.detail.to_owned())
        && first["guilty"] == true
        && more_calls == row.more_calls
        && (wanted.is_none() || contrast == wanted)
        && ended.stdout.contains("explains");
    let told = || {
        format!("{:?}:\n{}\n{}", row.plant, serde_json::to_string_pretty(comparison).unwrap(), ended.stdout)
    };
    if right { Ok(()) } else { Err(told()) }
}

fn as_text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
