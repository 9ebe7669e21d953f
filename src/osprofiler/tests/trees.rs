//! Reports: OSProfiler's own from its own records, and trees of malformed records.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::record;
use crate::compat::compat_report;
use crate::record::{Timestamp, TraceRecord};
use crate::report::{DETAIL_LEN_MAX, TraceTree};

/// Records as the list in redis has them, newest first, in the order that this crate reads.
fn decode(raw: &Value) -> Vec<TraceRecord> {
    let raw = raw.as_array().unwrap();
    raw.iter().rev().map(|json| TraceRecord::decode(json.as_str().unwrap().as_bytes()).unwrap()).collect()
}

fn check(name: &str, raw: &Value, expected: &Value) {
    let records = decode(raw);
    let report = compat_report(&records);
    assert_eq!(&report, expected, "{name}");
    // The key order too.
    assert_eq!(report.to_string(), expected.to_string(), "{name}");
    for (record, json) in records.iter().rev().zip(raw.as_array().unwrap()) {
        let parsed: Value = serde_json::from_str(json.as_str().unwrap()).unwrap();
        assert_eq!(serde_json::to_value(record).unwrap().to_string(), parsed.to_string(), "{name}");
        let nanos = u64::try_from(record.timestamp_us().unwrap()).unwrap() * 1000 + 999;
        assert_eq!(Timestamp::from_unix_ns(nanos), record.timestamp, "{name}");
    }
}

macro_rules! trace {
    ($name:literal) => {
        (
            $name,
            include_str!(concat!("../../../tests/vectors/traces/", $name, ".redis-raw.json")),
            include_str!(concat!("../../../tests/vectors/traces/", $name, ".report.json")),
        )
    };
}

const REAL: [(&str, &str, &str); 4] = [
    trace!("get-v3"),
    trace!("post-tokens"),
    trace!("post-project-409-dberror"),
    trace!("placement-get-rps"),
];

#[test]
fn reports_of_real_services_are_those_of_osprofiler() {
    for (name, raw, report) in REAL {
        check(name, &serde_json::from_str(raw).unwrap(), &serde_json::from_str(report).unwrap());
    }
}

#[test]
fn reports_of_odd_traces_are_those_of_osprofiler() {
    let vectors: Value =
        serde_json::from_str(include_str!("../../../tests/vectors/traces/redis-traces.json")).unwrap();
    let traces = vectors["traces"].as_array().unwrap();
    assert_eq!(traces.len(), 3);
    for trace in traces {
        check(trace["name"].as_str().unwrap(), &trace["records"], &trace["report"]);
    }
}

#[test]
fn trees_of_real_services_have_every_point_once_in_microseconds() {
    let index: Value =
        serde_json::from_str(include_str!("../../../tests/vectors/traces/index.json")).unwrap();
    for (case, (name, raw, _)) in index.as_array().unwrap().iter().zip([REAL[0], REAL[1], REAL[2], REAL[3]]) {
        assert_eq!(case["case"], name);
        let tree = TraceTree::build(&decode(&serde_json::from_str(raw).unwrap()));
        let counts: u64 = case["points"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum();
        assert_eq!(tree.points.len() as u64, counts, "{name}");
        let depth = tree.points.iter().map(|point| point.depth + 1).max();
        assert_eq!(depth.map(Value::from), Some(case["depth"].clone()), "{name}");
        let errors = tree.points.iter().filter_map(|point| point.error.as_ref());
        let mut exceptions = json!({});
        for point in tree.points.iter().filter(|point| point.error.is_some()) {
            let key = format!("{}/{}", point.name, point.error.as_ref().unwrap().etype);
            exceptions[&key] = (exceptions[&key].as_u64().unwrap_or(0) + 1).into();
        }
        assert_eq!(exceptions, case["exceptions"], "{name}: {:?}", errors.collect::<Vec<_>>());
        check_invariants(&tree);
        // A request and its database points do not overlap, so that own times sum to the whole.
        let root = &tree.points[0];
        let sum: u64 = tree.points.iter().filter_map(|point| point.self_us).sum();
        assert_eq!(Some(sum), root.duration_us, "{name}");
    }
}

#[test]
fn details_say_what_a_point_did() {
    let tree = TraceTree::build(&decode(&serde_json::from_str(REAL[3].1).unwrap()));
    let detail = |name: &str| tree.points.iter().find(|point| point.name == name).unwrap().detail();
    assert_eq!(detail("wsgi"), "GET /resource_providers");
    assert!(tree.points.iter().all(|point| point.detail().chars().count() <= DETAIL_LEN_MAX));
    assert!(tree.points.iter().filter(|point| point.name == "db").all(|point| !point.detail().is_empty()));

    for (info, expected) in [
        (json!({"db": {"statement": "SELECT\n  1\u{1b}[31m\t;"}}), "SELECT 1 [31m ;".to_owned()),
        (json!({"request": {"method": "GET", "path": "/a", "query": "b=c"}}), "GET /a?b=c".to_owned()),
        (
            json!({"requests": {"method": "PUT", "path": "/a", "hostname": "h", "query": ""}}),
            "PUT h/a".to_owned(),
        ),
        (json!({"function": {"name": "a.b"}}), "a.b".to_owned()),
        (json!({"function": 1, "db": [], "request": {"path": 3}}), String::new()),
        (json!({"db": {"statement": "é".repeat(500)}}), "é".repeat(199) + "…"),
        (json!({"db": {"statement": "é".repeat(200)}}), "é".repeat(200)),
    ] {
        let mut start = record("x-start", "a", "base", 0);
        start.info = info.as_object().unwrap().clone().into();
        assert_eq!(TraceTree::build(&[start]).points[0].detail(), expected);
    }
}

#[test]
fn a_tree_keeps_names_gaps_and_overlaps() {
    let mut failed = record("my-op-stop", "a", "base", 100);
    failed.info =
        json!({"etype": "ValueError", "message": {"not": "text"}}).as_object().unwrap().clone().into();
    let tree = TraceTree::build(&[
        record("my-op-start", "a", "base", 0),
        record("db-start", "c", "a", 30),
        record("db-start", "b", "a", 10),
        record("db-stop", "b", "a", 40),
        record("db-stop", "c", "a", 60),
        record("lost-start", "d", "a", 70),
        record("in-start", "g", "d", 75),
        record("in-stop", "g", "d", 85),
        record("late-start", "e", "a", 90),
        failed,
        record("late-stop", "e", "a", 150),
        record("orphan-stop", "f", "nobody", 95),
    ]);
    let seen: Vec<_> = tree
        .points
        .iter()
        .map(|p| (p.name.as_str(), p.depth, p.parent, p.start_us, p.duration_us, p.self_us))
        .collect();
    assert_eq!(
        seen,
        [
            ("my-op", 0, None, 0, Some(100), Some(30)),
            ("db", 1, Some(0), 10, Some(30), Some(30)),
            ("db", 1, Some(0), 30, Some(30), Some(30)),
            ("lost", 1, Some(0), 70, None, None),
            // Without the time of `lost`, that below it is none of my-op's own.
            ("in", 2, Some(3), 75, Some(10), Some(10)),
            ("late", 1, Some(0), 90, Some(60), Some(60)),
            ("orphan", 0, None, 95, None, None),
        ]
    );
    let error = tree.points[0].error.as_ref().unwrap();
    assert_eq!((error.etype.as_str(), error.message.as_str()), ("ValueError", r#"{"not":"text"}"#));
}

#[test]
fn cycles_duplicates_and_great_depths_are_laid_out() {
    let tree = TraceTree::build(&[
        record("b-start", "b", "c", 20),
        record("a-start", "a", "b", 10),
        record("c-start", "c", "a", 30),
        record("self-start", "s", "s", 5),
        record("self-start", "s", "s", 6),
    ]);
    let seen: Vec<_> = tree.points.iter().map(|point| (point.trace_id.as_str(), point.depth)).collect();
    assert_eq!(seen, [("s", 0), ("a", 0), ("c", 1), ("b", 2)]);

    let deep: Vec<TraceRecord> = (0..10_000)
        .flat_map(|n| {
            let (id, parent) = (format!("{n}"), format!("{}", n as i64 - 1));
            [record("x-start", &id, &parent, n), record("x-stop", &id, &parent, 50_000 - n)]
        })
        .collect();
    let tree = TraceTree::build(&deep);
    assert_eq!(tree.points.last().unwrap().depth, 9_999);
    check_invariants(&tree);
    let report = compat_report(&deep);
    assert_eq!(report["stats"]["x"]["count"], 10_000);
    assert!(report.to_string().len() > 1_000_000);

    let wide: Vec<TraceRecord> = (0..100_000).map(|n| record("x-start", &format!("{n}"), "0", n)).collect();
    assert_eq!(TraceTree::build(&wide).points.len(), 100_000);
}

#[test]
fn no_records_make_an_empty_report() {
    assert_eq!(TraceTree::build(&[]), TraceTree::default());
    let expected = json!({
        "info": {"name": "total", "started": 0, "finished": null, "last_trace_started": null},
        "children": [], "stats": {},
    });
    assert_eq!(compat_report(&[]), expected);
}

#[test]
fn broken_records_are_refused() {
    let good = r#"{"name": "a-start", "base_id": "b", "trace_id": "t", "parent_id": "p", "timestamp": "2026-11-20T22:52:01.123456"}"#;
    assert_eq!(TraceRecord::decode(good.as_bytes()).unwrap().timestamp_us(), Some(1_795_215_121_123_456));
    for (from, to) in [
        ("\"name\"", "\"nome\""),
        ("\"b\"", "1"),
        ("\"t\"", "null"),
        ("2026-11-20T22:52:01.123456", "yesterday"),
        ("2026-11-20T22:52:01.123456", "2026-11-20T22:52:01.12Z"),
        ("2026-11-20T22:52:01.123456", "2026-11-20"),
        ("{", "["),
        ("}", ", \"info\": []}"),
    ] {
        assert!(TraceRecord::decode(good.replacen(from, to, 1).as_bytes()).is_err(), "{from} -> {to}");
    }
    assert!(TraceRecord::decode("[".repeat(100_000).as_bytes()).is_err());
    assert!(TraceRecord::decode(&vec![b' '; 5 * 1024 * 1024]).is_err());
}

fn check_invariants(tree: &TraceTree) {
    for (index, point) in tree.points.iter().enumerate() {
        match point.parent {
            None => assert_eq!(point.depth, 0),
            Some(parent) => {
                assert!(parent < index);
                assert_eq!(tree.points[parent].depth + 1, point.depth);
            }
        }
        assert_eq!(point.self_us.is_some(), point.duration_us.is_some());
        assert!(point.self_us <= point.duration_us);
    }
}

proptest! {
    #[test]
    fn any_records_make_a_tree_with_every_point_once(
        records in prop::collection::vec(
            (0_u8..12, 0_u8..12, 0_u32..1000, "[a-]{0,3}(-start|-stop|)"), 0..60,
        )
    ) {
        let records: Vec<TraceRecord> = records
            .into_iter()
            .map(|(id, parent, us, name)| record(&name, &id.to_string(), &parent.to_string(), us))
            .collect();
        let tree = TraceTree::build(&records);
        check_invariants(&tree);
        let mut ids: Vec<&str> = records.iter().map(|record| record.trace_id.as_str()).collect();
        ids.sort_unstable();
        ids.dedup();
        let mut seen: Vec<&str> = tree.points.iter().map(|point| point.trace_id.as_str()).collect();
        seen.sort_unstable();
        prop_assert_eq!(seen, ids);
        let _ = compat_report(&records);
    }

    #[test]
    fn decoding_a_record_never_panics(bytes: Vec<u8>, timestamp in "[0-9T:. Z+-]{0,30}") {
        let _ = TraceRecord::decode(&bytes);
        let mut odd = record("a-start", "t", "p", 0);
        odd.timestamp = timestamp.into();
        let _ = (odd.timestamp_us(), TraceTree::build(std::slice::from_ref(&odd)), compat_report(&[odd]));
    }
}
