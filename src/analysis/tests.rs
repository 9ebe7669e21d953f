//! Tests of the ranking, against the output of Mistral's script, and of call statistics.

use serde_json::Value;

use super::call_stats::{CallStats, Calls, Function, SortKey};
use super::ranking::Ranking;
use osprofiler::profile_log::each_line;
use osprofiler::record::TraceRecord;
use osprofiler::report::TraceTree;

/// The name, total, longest and number of each row.
fn ranked(log: &str, all: bool) -> (Vec<(String, String, String, u64)>, Ranking) {
    let mut ranking = Ranking::default();
    each_line(log.as_bytes(), |number, line| ranking.add_line(number, line, all)).unwrap();
    let rows = ranking.rows();
    let row = |row: &&super::ranking::RankingRow| {
        (row.name.clone(), format!("{:.3}", row.total_s), format!("{:.3}", row.max_s), row.occurrences)
    };
    (rows.iter().map(row).collect(), ranking)
}

#[test]
fn lines_that_mistrals_script_leaves_out_are_counted() {
    let log = include_str!("../../tests/vectors/mistral/3-log_to_file.log");
    let (rows, ranking) = ranked(log, false);
    assert_eq!((ranking.too_long, ranking.malformed), (2, 0));
    assert!(rows.iter().any(|(name, _, _, count)| name.is_empty() && *count == 1));
    let (rows, ranking) = ranked(log, true);
    assert_eq!((ranking.too_long, ranking.malformed), (0, 0));
    assert_eq!(rows[0], ("task-run".into(), "1234569993.000".into(), "1234567890.000".into(), 5));
    assert!(rows.iter().any(|(name, ..)| name == "a name with spaces"));
}

#[test]
fn lines_on_which_mistrals_script_crashes_or_errs_are_counted() {
    let vectors: Value =
        serde_json::from_str(include_str!("../../tests/vectors/mistral/degenerate.json")).unwrap();
    let mut seen = Vec::new();
    for run in vectors["runs"].as_array().unwrap() {
        let (rows, ranking) = ranked(run["input"].as_str().unwrap(), false);
        seen.push((run["case"].as_str().unwrap().to_owned(), rows.len(), ranking.malformed));
    }
    let expected = [
        ("empty file", 0, 0),
        ("only spaces", 0, 1),
        ("stop line cut after the duration", 0, 1),
        ("start line cut after base_id", 0, 1),
        ("stop line whose ids are short", 1, 0),
        ("syslog prefix", 0, 1),
        ("duration nan", 0, 1),
        ("duration inf", 0, 1),
        ("name shorter than the 5 cut characters", 0, 1),
        ("CRLF", 1, 0),
        ("name of 120 characters", 1, 0),
        ("ties in total time", 3, 0),
    ];
    assert_eq!(seen, expected.map(|(case, rows, malformed)| (case.to_owned(), rows, malformed)));
}

/// A tree of (id, parent, name, start, end).
fn tree(points: &[(&str, &str, &str, u32, Option<u32>)]) -> TraceTree {
    let record = |name: String, id: &str, parent: &str, us: u32| TraceRecord {
        name: name.into(),
        base_id: "b".into(),
        trace_id: id.into(),
        parent_id: parent.into(),
        timestamp: format!("2026-11-20T22:52:{:02}.{:06}", us / 1_000_000, us % 1_000_000).into(),
        info: serde_json::Map::new().into(),
        project: None,
        service: None,
    };
    let mut records = Vec::new();
    for (id, parent, name, start, end) in points {
        records.push(record(format!("{name}-start"), id, parent, *start));
        records.extend(end.map(|end| record(format!("{name}-stop"), id, parent, end)));
    }
    TraceTree::build(&records)
}

fn by_name(tree: &TraceTree) -> CallStats {
    let mut stats = CallStats::default();
    stats.add(tree, |index| Function { place: "s".into(), name: tree.points[index].name.to_string() });
    stats
}

#[test]
fn calls_within_calls_of_the_same_kind_count_once_in_cumulative_time() {
    // f calls itself, and g twice in parallel.
    let tree = tree(&[
        ("1", "b", "f", 0, Some(100)),
        ("2", "1", "f", 10, Some(60)),
        ("3", "2", "g", 20, Some(40)),
        ("4", "2", "g", 30, Some(50)),
        ("5", "1", "f", 70, Some(80)),
        ("6", "1", "lost", 85, None),
    ]);
    let stats = by_name(&tree);
    let function = |name: &str| Function { place: "s".into(), name: name.into() };
    let calls = |total, primitive, own_us, cumulative_us| Calls { total, primitive, own_us, cumulative_us };
    let f = &stats.functions[&function("f")];
    assert_eq!(f.calls, calls(3, 1, 40 + 20 + 10, 100));
    assert_eq!(f.callers[&function("f")], calls(2, 0, 30, 0));
    let g = &stats.functions[&function("g")];
    assert_eq!(g.calls, calls(2, 2, 40, 40));
    assert_eq!(g.callers[&function("f")], calls(2, 2, 40, 40));
    assert_eq!((stats.incomplete, stats.calls(), stats.own_us()), (1, (5, 3), 110));
    for (by, first) in
        [(SortKey::Cumulative, "f"), (SortKey::Own, "f"), (SortKey::Calls, "f"), (SortKey::Name, "f")]
    {
        assert_eq!(stats.rows(by)[0].0.name, first);
    }
}

#[test]
fn own_times_of_a_real_trace_add_up_to_its_duration() {
    let records: Vec<TraceRecord> = {
        let raw: Value =
            serde_json::from_str(include_str!("../../tests/vectors/traces/placement-get-rps.redis-raw.json"))
                .unwrap();
        let list = raw.as_array().cloned().unwrap_or_else(|| {
            raw.as_object().unwrap().values().find_map(|value| value.as_array().cloned()).unwrap()
        });
        list.into_iter()
            .rev()
            .map(|record| match record {
                Value::String(text) => serde_json::from_str(&text).unwrap(),
                record => serde_json::from_value(record).unwrap(),
            })
            .collect()
    };
    let tree = TraceTree::build(&records);
    let stats = by_name(&tree);
    let (calls, _) = stats.calls();
    assert_eq!(calls as usize, tree.points.len());
    let roots: u64 = tree.points.iter().filter(|p| p.depth == 0).filter_map(|p| p.duration_us).sum();
    // In sequential services the own times are the whole duration, except for clock errors.
    assert!(stats.own_us() <= roots && stats.own_us() * 100 >= roots * 99, "{} {roots}", stats.own_us());
}
