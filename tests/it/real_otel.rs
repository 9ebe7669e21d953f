//! Causes planted in a real shop that speaks OpenTelemetry: Flask with SQLAlchemy, Express and axum, each traced as its
//! users do it (`tests/real/otel.sh`, `tests/otel`). The services know nothing of `bench` but where to send their spans.
//!
//! Each test prints what `bench` said of its cause in one word, for `tests/perf/otel_causes.py`.

use std::sync::{Mutex, PoisonError};

use serde_json::Value;

use crate::support::{Bench, CommandOutput, service};

/// Enough for 20 slow iterations of 5 %; about one in ten is slow.
const TIMES: u32 = 420;
/// Spans of a request where nothing is planted.
const SERVICES: [&str; 3] = ["delivery", "parcels", "shop"];

/// What a healthy service and a planted cause must look like.
struct PlantedShopCause {
    /// What the services call it; also the end of the test's name.
    name: &'static str,
    /// Which of the two shops: `GRPC` or `HTTP`, as their spans are sent.
    shop: &'static str,
    /// Service, name and a part of the statement or path of the first kind.
    signature: CauseSignature,
    /// Or its caller, which waits for this service to begin.
    or_waiting_for: Option<&'static str>,
    /// Whether it is called more often in slow iterations.
    is_called_more: bool,
    /// The attribute that tells the slow ones apart.
    attribute: Option<(&'static str, &'static str)>,
    /// What is asked for besides: nothing or [`PICKUP`].
    query: &'static str,
}

/// A pickup, which the shop books by gRPC: Python calls Node.
const PICKUP: &str = "?pickup=true";

/// Requests that find no cache, see `tests/otel/shop.py`.
const COLD: u64 = 8;

type CauseSignature = (&'static str, &'static str, &'static str);

const TENANT: Option<(&str, &str)> = Some(("attributes.tenant", "tenant-3"));

/// The receiver has one port, which the services know: one load at a time.
static RECEIVER: Mutex<()> = Mutex::new(());

fn setting(name: &str) -> Option<String> {
    service(&format!("BENCH_TEST_OTEL_{name}"), "what tests/real/otel.sh printed")
}

/// What one run with a planted cause gave.
struct ShopRun {
    bench: Bench,
    results: Value,
    ended: CommandOutput,
}

fn run(cause: &str, shop: &str, query: &str) -> Option<ShopRun> {
    let (url, receiver) = (setting(&format!("{shop}_URL"))?, setting("RECEIVER")?);
    let _alone = RECEIVER.lock().unwrap_or_else(PoisonError::into_inner);
    let bench = Bench::new();
    bench.load(
        &url,
        &format!("profiler: {{ receive: \"{receiver}\" }}"),
        &format!(
            "warm_up: {{ times: 30 }}\nrunner: {{ constant: {{ times: {TIMES}, concurrency: 3 }} }}\n\
             iteration:\n  - action: order\n    get: /orders/{{{{ iteration }}}}{query}\n    headers:\n      \
             baggage: tenant=tenant-{{{{ iteration % 10 }}}}\n      shop-cause: {cause}\n    expect: {{ status: 200 }}\n\
             sla: {{ failure_rate: {{ max: 0 }} }}"
        ),
    );
    let ended = bench.run(&["run", "scenario.yaml"]).expect_code(0);
    let run = ShopRun { results: bench.results(), ended, bench };
    run.is_complete();
    run.has_grpc_calls(usize::from(query == PICKUP));
    Some(run)
}

impl ShopRun {
    fn comparison(&self) -> &Value {
        &self.results["workloads"][0]["comparison"]
    }

    /// The comparison and the output. The kinds that explain most come first, a line each, because CI shows only the
    /// first lines.
    fn told(&self) -> String {
        let mut shown = self.comparison().clone();
        (shown["tree"], shown["differences"]) = (Value::Null, Value::Null);
        let kinds: Vec<Value> = shown["kinds"].as_array_mut().map(std::mem::take).unwrap_or_default();
        let kinds: String = kinds.iter().take(6).map(|kind| format!("{kind}\n")).collect();
        format!("{kinds}{shown}\n{}", self.ended.stdout)
    }

    /// That every trace that was chosen is complete and of all three services, and nothing was lost or of others.
    #[track_caller]
    fn is_complete(&self) {
        let profiling = &self.results["profiling"];
        let (fetched, received) = (profiling["fetched"].as_object().unwrap(), &profiling["received"]);
        assert_eq!(fetched.keys().collect::<Vec<_>>(), ["complete"], "{profiling}");
        for none in ["lost_spans", "invalid_spans", "refused_requests"] {
            assert_eq!(received[none], 0, "{received}");
        }
        assert_eq!(self.comparison()["left_out"], 0, "{}", self.told());
        let tree = self.comparison()["tree"].as_array().unwrap();
        for service in SERVICES {
            // Of the first point of each service, which every request has once: in slow iterations and in others.
            let first = tree.iter().find(|node| node["service"] == service);
            let first = first.unwrap_or_else(|| panic!("no point of {service}: {}", self.told()));
            for side in ["slow_calls", "typical_calls"] {
                assert!(first[side].as_f64().unwrap() >= 1.0 - 1e-9, "{service}: {first}");
            }
        }
    }

    /// That each trace has so many gRPC calls, each a client's span in Python with the server's span in Node below it.
    #[track_caller]
    fn has_grpc_calls(&self, calls: usize) {
        for entry in std::fs::read_dir(self.bench.run_directory().join("traces")).unwrap() {
            let trace: Value =
                serde_json::from_slice(&std::fs::read(entry.unwrap().path()).unwrap()).unwrap();
            let records = trace["records"].as_array().unwrap();
            let spans = |service: &str, name: &str, id: &str| -> Vec<String> {
                let of_it = records.iter().filter(|one| one["service"] == service && one["name"] == name);
                of_it.map(|one| one[id].as_str().unwrap().to_owned()).collect()
            };
            let clients = spans("shop", "/shop.v1.Pickups/Book-start", "trace_id");
            let parents = spans("delivery", "grpc.shop.v1.Pickups/Book-start", "parent_id");
            assert_eq!((clients.len(), &parents), (calls, &clients), "{trace:#}");
        }
    }

    fn cause(&self) -> Option<&Value> {
        self.comparison()["kinds"].as_array()?.iter().find(|kind| kind["guilty"] == true)
    }
}

#[track_caller]
fn is_named(cause: &PlantedShopCause) {
    let Some(run) = run(cause.name, cause.shop, cause.query) else { return };
    let Some(named) = run.cause() else {
        println!("cause {}: nothing", cause.name);
        panic!("nothing is named: {}", run.told());
    };
    let text = |key: &str| named[key].as_str().unwrap_or_default();
    let (service, name, detail) = cause.signature;
    let is_it =
        text("service") == service && text("name").starts_with(name) && text("detail").contains(detail);
    // A service that stands still delays all of its points, so that none of them may stand out on a busy machine.
    let whole = |service| text("service") == service && text("name").starts_with("all trace points");
    let right = is_it
        || cause.or_waiting_for.is_some_and(|service| text("called_service") == service || whole(service));
    println!("cause {}: {}", cause.name, if right { "right" } else { "wrong" });
    assert!(right, "{}: {}", cause.name, run.told());
    let (slow, typical) = (named["slow_calls"].as_f64().unwrap(), named["typical_calls"].as_f64().unwrap());
    assert_eq!(slow > 2.0 * typical, cause.is_called_more, "{}", run.told());
    if let Some((attribute, value)) = cause.attribute {
        let contrasts = named["contrasts"].as_array().cloned().unwrap_or_default();
        let is_named = |one: &Value| one["attribute"] == attribute && one["value"] == value;
        assert!(contrasts.iter().any(is_named), "{attribute}: {}", run.told());
    }
    assert!(run.ended.stdout.contains("explains"), "{}", run.ended.stdout);
}

const fn cause(name: &'static str, shop: &'static str, signature: CauseSignature) -> PlantedShopCause {
    PlantedShopCause {
        name,
        shop,
        signature,
        or_waiting_for: None,
        is_called_more: false,
        attribute: None,
        query: "",
    }
}

#[test]
fn real_statement_of_an_orm_for_each_row() {
    let signature = ("shop", "SELECT", "FROM product WHERE product.id = ?");
    is_named(&PlantedShopCause { is_called_more: true, ..cause("n_plus_one", "HTTP", signature) });
}

#[test]
fn real_index_that_one_partition_lacks() {
    let signature = ("shop", "SELECT", "FROM customer WHERE customer.tenant = ? AND customer.email = ?");
    is_named(&PlantedShopCause { attribute: TENANT, ..cause("index", "GRPC", signature) });
}

#[test]
fn real_pool_that_is_too_small() {
    is_named(&cause("pool", "HTTP", ("shop", "connect", "")));
}

#[test]
fn real_lock_of_a_row() {
    is_named(&cause(
        "lock",
        "GRPC",
        ("shop", "SELECT", "FROM invoices WHERE invoices.tenant = ? FOR UPDATE"),
    ));
}

#[test]
fn real_slow_service_behind_another() {
    let signature = ("delivery", "request handler - /quote", "");
    is_named(&PlantedShopCause { attribute: TENANT, ..cause("downstream", "HTTP", signature) });
}

#[test]
fn real_slow_service_behind_a_grpc_call() {
    let signature = ("delivery", "grpc.shop.v1.Pickups/Book", "");
    is_named(&PlantedShopCause { attribute: TENANT, query: PICKUP, ..cause("pickup", "GRPC", signature) });
}

#[test]
fn real_event_loop_that_is_blocked() {
    // Requests that block it are slow, and so are those that come meanwhile: their caller waits for the service.
    let signature = ("delivery", "request handler - /quote", "");
    is_named(&PlantedShopCause {
        or_waiting_for: Some("delivery"),
        ..cause("event_loop", "GRPC", signature)
    });
}

#[test]
fn real_call_that_fails_and_is_repeated() {
    let signature = ("parcels", "GET /pack/{items}", "GET /pack/{id}");
    let attribute = Some(("etype", "ERROR"));
    is_named(&PlantedShopCause { is_called_more: true, attribute, ..cause("retry", "HTTP", signature) });
}

#[test]
fn real_processor_time_of_a_function() {
    is_named(&PlantedShopCause { attribute: TENANT, ..cause("cpu", "GRPC", ("parcels", "fill_boxes", "")) });
}

#[test]
fn real_first_requests_that_find_no_cache() {
    let Some(run) = run("cold", "GRPC", "") else { return };
    let first = &run.comparison()["places"]["first"];
    // Without the warm-up, whose requests the planted ones come after.
    let right = first["slow"].as_u64().is_some_and(|slow| (COLD / 2..=2 * COLD).contains(&slow));
    println!("cause cold: {}", if right { "right" } else { "nothing" });
    assert!(right, "{}", run.told());
}

#[test]
fn real_answers_that_are_large() {
    let Some(run) = run("large", "HTTP", "") else { return };
    let found = run.comparison()["differences"]["found"].as_array().cloned().unwrap_or_default();
    let right = found.iter().any(|one| one["attribute"] == "client.answer");
    println!("cause large: {}", if right { "right" } else { "nothing" });
    assert!(right, "{}", run.told());
}

#[test]
fn real_healthy_shop_accuses_nobody() {
    accuses_nobody("");
}

#[test]
fn real_healthy_grpc_calls_accuse_nobody() {
    accuses_nobody(PICKUP);
}

#[track_caller]
fn accuses_nobody(query: &str) {
    let Some(run) = run("healthy", "HTTP", query) else { return };
    println!("cause healthy: {}", if run.cause().is_some() { "wrong" } else { "right" });
    assert!(run.cause().is_none(), "{}", run.told());
    // "Nothing explains it by itself" is said of single iterations.
    assert!(run.ended.stdout.contains("nothing stands out"), "{}", run.ended.stdout);
}
