//! Planted causes are found through the real path: service, collector, fetch, comparison, sentence.

use serde_json::Value;

use crate::planted_service::{COLD, EVERY, KEY, Plant, Shop};
use crate::read_again::what_is_said_is_true;
use crate::support::{Bench, CommandOutput};

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
struct PlantExpectation {
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

fn expected(
    plant: Plant,
    service: &'static str,
    name: &'static str,
    detail: &'static str,
) -> PlantExpectation {
    PlantExpectation { plant, runner: CLOSED, service, name, detail, more_calls: false, contrast: None }
}

const IMAGE: &str = "SELECT file FROM image WHERE id = ?";

#[test]
fn a_slow_statement_is_named() {
    is_named(&expected(Plant::SlowStatement, "shop/api", "db", "SELECT price FROM item WHERE cart = ?"));
}

#[test]
fn a_statement_that_is_run_many_times_is_named() {
    let statement = "SELECT stock FROM item WHERE id = ?";
    is_named(&PlantExpectation {
        more_calls: true,
        ..expected(Plant::ManyStatements, "shop/api", "db", statement)
    });
}

#[test]
fn a_wait_for_a_lock_is_named() {
    is_named(&expected(Plant::LockWait, "shop/api", "update_cart", ""));
}

#[test]
fn a_slow_host_is_named() {
    let statement = "SELECT name FROM customer WHERE id = ?";
    let contrast = Some(("host", "node-2"));
    is_named(&PlantExpectation { contrast, ..expected(Plant::BadHost, "shop/api", "db", statement) });
}

#[test]
fn a_slow_service_behind_another_is_named() {
    is_named(&expected(Plant::SlowUpstream, "shop/images", "wsgi", "GET /images/{id}"));
}

#[test]
fn a_retry_is_named() {
    is_named(&PlantExpectation { more_calls: true, ..expected(Plant::Retry, "shop/images", "db", IMAGE) });
}

#[test]
fn a_slow_network_is_named() {
    is_named(&expected(Plant::Network, "bench", "action", "buy"));
}

#[test]
fn a_queue_before_the_load_is_named() {
    is_named(&PlantExpectation { runner: BURST, ..expected(Plant::None, "bench", "scheduling delay", "") });
}

#[test]
fn larger_answers_are_named() {
    let (_, comparison) = run(Plant::LargeAnswer, CLOSED);
    let found = comparison["differences"]["found"].as_array().cloned().unwrap_or_default();
    let is_it = |one: &Value| one["attribute"] == "client.answer" && one["point"] == "buy";
    tell("LargeAnswer", if found.iter().any(is_it) { "right" } else { "nothing" });
    assert!(found.iter().any(is_it), "{comparison:#}");
}

#[test]
fn a_cold_start_is_named() {
    let (ended, comparison) = run(Plant::ColdStart, CLOSED);
    let first = &comparison["places"]["first"];
    // The iteration ahead of the load may have met the cold cache, too.
    let right = first["slow"].as_u64().is_some_and(|slow| (COLD / 2..=2 * COLD).contains(&slow));
    tell("ColdStart", if right { "right" } else { "nothing" });
    assert!(right && ended.stdout.contains("`warm_up: {"), "{comparison:#}\n{}", ended.stdout);
}

#[test]
fn a_rhythm_is_named() {
    let (_, comparison) = run(Plant::Periodic, "runner: { rps: { rps: 50, duration: 24s } }");
    let seen = comparison["places"]["rhythm"]["every_s"].as_f64();
    let right = seen.is_some_and(|seen| (seen / EVERY.as_secs_f64() - 1.0).abs() < 0.1);
    let said = if right { "right" } else { "wrong" };
    tell("Periodic", if seen.is_none() { "nothing" } else { said });
    assert!(right, "{comparison:#}");
}

#[test]
fn a_healthy_shop_accuses_nobody() {
    let (ended, comparison) = run(Plant::None, CLOSED);
    let kinds = comparison["kinds"].as_array().cloned().unwrap_or_default();
    let is_accused = kinds.iter().any(|kind| kind["guilty"] == true);
    tell("none", if is_accused { "wrong" } else { "right" });
    // On a busy machine even timers are late, for a reason that is none of the shop's.
    let is_of_shop = |kind: &Value| kind["guilty"] == true && kind["service"] != "bench";
    assert!(!kinds.iter().any(is_of_shop), "{}", ended.stdout);
}

/// For `tests/perf/otel_causes.py`.
fn tell(plant: &str, said: &str) {
    println!("cause {plant}: {said}");
}

#[track_caller]
fn is_named(row: &PlantExpectation) {
    if let Err(difference) = differs(row) {
        panic!("{difference}");
    }
}

/// Runs a load on the shop; gives what it printed and its comparison.
fn run(plant: Plant, runner: &str) -> (CommandOutput, Value) {
    let bench = Bench::new();
    let collector = format!("sqlite://{}", bench.path().join("traces.db").display());
    let shop = Shop::start(plant, &collector);
    let profiler = format!("profiler: {{ hmac_key: {KEY}, connection_string: \"{collector}\" }}");
    bench.load(&shop.url, &profiler, &format!("{runner}\niteration: [{{ action: buy, get: /cart }}]"));
    let ended = bench.run(&["run", "scenario.yaml"]).expect_code(0);
    what_is_said_is_true(&bench, &ended.stdout);
    let comparison = bench.results()["workloads"][0]["comparison"].clone();
    (ended, comparison)
}

/// Says what is not as expected.
fn differs(row: &PlantExpectation) -> Result<(), String> {
    let (ended, comparison) = run(row.plant, row.runner);
    let first = &comparison["kinds"][0];
    let text = |key: &str| first[key].as_str().unwrap_or_default().to_owned();
    let seen = (text("service"), text("name"), text("detail"));
    let is_it = seen == (row.service.to_owned(), row.name.to_owned(), row.detail.to_owned());
    let kinds = comparison["kinds"].as_array();
    let any_cause = kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["guilty"] == true));
    let said = match (is_it && first["guilty"] == true, any_cause) {
        (true, _) => "right",
        (false, true) => "wrong",
        (false, false) => "nothing",
    };
    tell(&format!("{:?}", row.plant), said);
    let more_calls = first["more_calls_ms"].as_f64() > first["slower_calls_ms"].as_f64();
    let contrast = first["contrasts"].as_array().and_then(|list| list.first());
    let contrast = contrast.map(|one| (as_text(&one["attribute"]), as_text(&one["value"])));
    let wanted = row.contrast.map(|(attribute, value)| (attribute.to_owned(), value.to_owned()));
    // A host that the comparison found stands in the sentence.
    let host = row.contrast.is_none_or(|(_, value)| ended.stdout.contains(&format!("`{value}`")));
    let right = said == "right"
        && more_calls == row.more_calls
        && (wanted.is_none() || contrast == wanted)
        && host
        && ended.stdout.contains("explains");
    let told = || format!("{:?}:\n{comparison:#}\n{}", row.plant, ended.stdout);
    if right { Ok(()) } else { Err(told()) }
}

fn as_text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
