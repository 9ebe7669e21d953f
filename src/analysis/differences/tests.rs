//! What is found in planted traces, that nothing is found in equal ones, and that hostile ones are bounded.

use super::*;
use osprofiler::report::Point;
use serde_json::{Map, Value, json};

fn point(name: &str, info: Value) -> Point {
    let Value::Object(info) = info else { panic!("{info}") };
    Point {
        depth: 0,
        parent: None,
        trace_id: "".into(),
        parent_id: "".into(),
        name: name.into(),
        service: Some("shop".into()),
        project: None,
        host: None,
        start_us: 0,
        starts: true,
        reversed_us: None,
        duration_us: Some(1),
        self_us: Some(1),
        error: None,
        info: info.into(),
        stop_info: Map::new().into(),
    }
}

fn tree(points: Vec<Point>) -> TraceTree {
    TraceTree { points, ..TraceTree::default() }
}

fn found(slow: &[TraceTree], typical: &[TraceTree], known: &ReportedValues) -> Differences {
    differences(&slow.iter().collect::<Vec<_>>(), &typical.iter().collect::<Vec<_>>(), known).unwrap()
}

/// The values found, as text.
fn texts(differences: &Differences) -> Vec<String> {
    let text = |value: &AttributeValue| {
        let at = value.point.as_ref().map(|point| format!(" at {point}")).unwrap_or_default();
        format!("{}={}{at}", value.attribute, value.value)
    };
    let of = |one: &AttributeDifference| {
        let all: Vec<String> = std::iter::once(&one.value).chain(&one.same).map(text).collect();
        all.join(" & ")
    };
    differences.found.iter().map(of).collect()
}

/// A trace with 60 attributes of 2 to 4 values, many of which follow a hidden state of the trace.
fn noisy(random: &mut fastrand::Rng, also: Vec<(&str, Value)>) -> TraceTree {
    let state = random.usize(0..3);
    let mut points: Vec<Map<String, Value>> = vec![Map::new(); 3];
    for number in 0..60 {
        let own = random.usize(0..2 + number % 3);
        let value = if random.usize(0..10) < 6 { state.min(1 + number % 3) } else { own };
        points[number % 3].insert(format!("a{number}"), json!(value));
    }
    points[0].extend(also.into_iter().map(|(key, value)| (key.to_owned(), value)));
    let point = |(number, attributes): (usize, Map<String, Value>)| {
        point(&format!("op{number}"), json!({"attributes": attributes, "id": random.u64(..).to_string()}))
    };
    tree(points.into_iter().enumerate().map(point).collect())
}

#[test]
fn equal_traces_rarely_differ() {
    // With 1,000 runs, one is wrong.
    const RUNS: u64 = 200;
    let mut wrong: u64 = 0;
    for seed in 0..RUNS {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut side = |count: usize| (0..count).map(|_| noisy(&mut random, Vec::new())).collect::<Vec<_>>();
        let (slow, typical) = (side(20), side(40));
        let seen = found(&slow, &typical, &ReportedValues::new());
        assert!(seen.tested > 50, "{seen:?}");
        wrong += u64::from(!seen.found.is_empty());
    }
    println!("{RUNS} comparisons of equal traces: {wrong} found a difference");
    assert!(wrong * 20 <= RUNS, "{wrong} of {RUNS}");
}

#[test]
fn planted_values_are_found_with_what_goes_with_them() {
    let (mut named, mut others) = (0, 0);
    for seed in 0..100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut side = |count: usize, share: f64| -> Vec<TraceTree> {
            let pod = |random: &mut fastrand::Rng| {
                let pod = if random.f64() < share { 7 } else { random.u32(0..6) };
                vec![
                    ("k8s.pod.name", json!(format!("api-{pod}"))),
                    ("k8s.node.name", json!(format!("n{pod}"))),
                ]
            };
            let mut trees = Vec::new();
            for _ in 0..count {
                let also = pod(&mut random);
                trees.push(noisy(&mut random, also));
            }
            trees
        };
        let (slow, typical) = (side(20, 0.92), side(40, 0.08));
        let seen = found(&slow, &typical, &ReportedValues::new());
        let texts = texts(&seen);
        let first = "k8s.node.name=n7 & k8s.pod.name=api-7".to_owned();
        named += usize::from(texts.first() == Some(&first));
        others += usize::from(texts.len() > 1);
        if let Some(difference) = seen.found.first() {
            assert!(difference.low >= DIFFERENCE_MIN && difference.chance <= RATE, "{difference:?}");
            assert!(
                difference.slow_share > difference.typical_share && difference.high <= 1.0,
                "{difference:?}"
            );
        }
    }
    assert!(named >= 99, "{named} of 100");
    assert!(others <= 5, "{others} of 100");
}

#[test]
fn every_place_of_a_trace_is_compared() {
    let plain = || point("GET /orders", json!({"resource": {"k8s.pod.name": "api-1"}}));
    let rows: [(&str, Point, &[&str]); 7] = [
        ("an attribute", point("GET /orders", json!({"attributes": {"tier": "gold"}})), &["tier=gold"]),
        ("a resource", point("GET /orders", json!({"resource": {"zone": "b"}})), &["zone=b"]),
        (
            "an event",
            point("GET /orders", json!({"events": [{"name": "retry", "attributes": {"reason": "reset"}}]})),
            &["event=retry & retry: reason=reset"],
        ),
        ("a nested key", point("GET /orders", json!({"db": {"params": {"user": 7}}})), &["db.params.user=7"]),
        (
            "a point",
            point("db", json!({"db": {"statement": "SELECT a FROM b WHERE c = 7"}})),
            &["point=db SELECT a FROM b WHERE c = ?"],
        ),
        ("a service", Point { service: Some("tax".into()), ..plain() }, &["service=tax"]),
        ("a host", Point { host: Some("node-9".into()), ..plain() }, &["host=node-9"]),
    ];
    for (name, extra, expected) in rows {
        let slow: Vec<TraceTree> = (0..20).map(|_| tree(vec![plain(), extra.clone()])).collect();
        let typical: Vec<TraceTree> = (0..40).map(|_| tree(vec![plain()])).collect();
        assert_eq!(texts(&found(&slow, &typical, &ReportedValues::new())), expected, "{name}");
        // Typical ones have it, not the slow ones.
        assert_eq!(texts(&found(&typical, &slow, &ReportedValues::new())), Vec::<String>::new(), "{name}");
        let known = |text: &&str| text.split_once('=').map(|(key, value)| (key.to_owned(), value.to_owned()));
        if expected[0].matches('=').count() == 1 {
            let known: ReportedValues = expected.iter().filter_map(known).collect();
            assert_eq!(texts(&found(&slow, &typical, &known)), Vec::<String>::new(), "{name}");
        }
    }
}

#[test]
fn a_value_that_is_everywhere_is_compared_at_each_point() {
    let cache = |name: &str, cache: &str| point(name, json!({"cache": cache}));
    let slow: Vec<TraceTree> =
        (0..20).map(|_| tree(vec![cache("roles", "miss"), cache("users", "miss")])).collect();
    let typical: Vec<TraceTree> =
        (0..40).map(|_| tree(vec![cache("roles", "miss"), cache("users", "hit")])).collect();
    assert_eq!(texts(&found(&slow, &typical, &ReportedValues::new())), ["cache=miss at users"]);
}

#[test]
fn several_rows_and_addresses_are_listed_and_of_several_bounds_one() {
    let client = |name: &str, info: Value, stop: Value| {
        let Value::Object(stop_info) = stop else { panic!("{stop}") };
        Point { project: Some("bench".into()), stop_info: stop_info.into(), ..point(name, info) }
    };
    let trace = |row: usize, address: String, bytes: u64| {
        let stop = json!({"status": 200, "address": address, "body_bytes": bytes});
        tree(vec![
            client("iteration", json!({"rows": {"users": row}}), json!({})),
            client("action", json!({"name": "list"}), stop),
        ])
    };
    let slow: Vec<TraceTree> =
        (0..30).map(|n| trace(3 + n % 2, format!("10.0.0.{}", 3 + n / 15), 20_000)).collect();
    let typical: Vec<TraceTree> = (0..60).map(|n| trace(100 + n % 9, "10.0.0.1".into(), 300)).collect();
    let mut texts = texts(&found(&slow, &typical, &ReportedValues::new()));
    texts.sort_unstable();
    let expected = [
        "client.address=10.0.0.3",
        "client.address=10.0.0.4",
        "client.answer=at least 16 KiB at list",
        "client.row=3 at users",
        "client.row=4 at users",
    ];
    assert_eq!(texts, expected);
}

#[test]
fn ids_and_the_client_say_nothing() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut side = |count: usize, client: &str| -> Vec<TraceTree> {
        let points = |random: &mut fastrand::Rng| {
            let own = Point { project: Some("bench".into()), ..point("action", json!({"name": client})) };
            vec![own, point("op", json!({"id": random.u64(..), "text": client.repeat(200)}))]
        };
        (0..count).map(|_| tree(points(&mut random))).collect()
    };
    let (slow, typical) = (side(20, "a"), side(40, "b"));
    let seen = found(&slow, &typical, &ReportedValues::new());
    assert_eq!((seen.found.len(), seen.tested), (0, 0), "{seen:?}");
    assert_eq!(differences(&[], &typical.iter().collect::<Vec<_>>(), &ReportedValues::new()), None);
}

#[test]
fn hostile_traces_stay_bounded() {
    // 90,000 values that occur once, and one that tells the slow ones apart.
    let side = |count: usize, from: usize, pod: &str| -> Vec<TraceTree> {
        let points = |trace: usize| -> Vec<Point> {
            let id = |number: usize| json!({"attributes": {"pod": pod, "id": from + trace * 3_000 + number}});
            (0..3_000).map(|number| point("op", id(number))).collect()
        };
        (0..count).map(|trace| tree(points(trace))).collect()
    };
    let (slow, typical) = (side(12, 0, "bad"), side(18, 1_000_000, "good"));
    assert_eq!(texts(&found(&slow, &typical, &ReportedValues::new())), ["pod=bad"]);

    let feature = |attribute: &str, value: usize| Feature {
        attribute: attribute.to_owned(),
        value: value.to_string(),
        point: None,
        level: 0,
    };
    let mut table = Table { limit: 100, ..Table::default() };
    for trace in 0..50 {
        // One id for each trace, a value of few, and an attribute whose values all repeat.
        let mut features: BTreeSet<Feature> =
            (0..5).map(|number| feature("id", trace * 5 + number)).collect();
        features.extend((0..90).map(|number| feature("many", number)));
        features.insert(feature("pod", trace % 3));
        table.add(trace, features);
        assert!(table.values.len() <= 200, "{}", table.values.len());
    }
    assert!(table.left_out.contains("many") && !table.left_out.contains("pod"), "{:?}", table.left_out);
    // It went once, when a single trace had it.
    assert_eq!(table.values[&feature("pod", 0)].count(), 16);
}

#[test]
fn sets_of_traces_count() {
    let mut traces = Traces::default();
    [0, 3, 63, 64, 130].iter().for_each(|trace| traces.insert(*trace));
    for (end, count) in
        [(0, 0), (1, 1), (3, 1), (4, 2), (63, 2), (64, 3), (65, 4), (130, 4), (131, 5), (500, 5)]
    {
        assert_eq!(traces.below(end), count, "{end}");
    }
    assert_eq!((traces.count(), traces.alike(&traces)), (5, 1.0));
    assert_eq!(traces.alike(&Traces::default()), 0.0);
}

/// A number that differs in every trace has no value that repeats, and is told by a bound with its rank correlation.
#[test]
fn numbers_of_which_all_differ_are_told_by_bounds() {
    let side = |numbers: std::ops::Range<usize>, key: &str| -> Vec<TraceTree> {
        let value = |number: usize| json!({"attributes": {key: 1_000 * number + number * number % 997}});
        let of = |number: usize| Point { duration_us: Some(number as u64), ..point("op", value(number)) };
        numbers.map(|number| tree(vec![of(number)])).collect()
    };
    for (key, expected) in [("http.server.active_requests", true), ("order.id", false), ("customerId", false)]
    {
        let (slow, typical) = (side(60..90, key), side(10..60, key));
        let seen = found(&slow, &typical, &ReportedValues::new());
        assert_eq!(!seen.found.is_empty(), expected, "{key}: {seen:?}");
        for difference in seen.found {
            let (word, bound) = difference.value.value.split_at("at least ".len());
            let bound: f64 = bound.parse().unwrap();
            // The shares are of traces that keep the bound.
            let share = |numbers: std::ops::Range<usize>| {
                let of = |number: usize| (1_000 * number + number * number % 997) as f64;
                numbers.clone().filter(|number| of(*number) >= bound).count() as f64 / numbers.len() as f64
            };
            assert_eq!((word, difference.value.attribute.as_str()), ("at least ", key));
            assert_eq!((difference.slow_share, difference.typical_share), (share(60..90), share(10..60)));
            assert!(difference.correlation.is_some() || seen.slow + seen.typical < 20);
        }
    }
}
