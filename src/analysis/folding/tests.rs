//! Tests of folding: what folds, what never disappears, and that every point is in exactly one place.

use proptest::prelude::*;
use serde_json::json;

use super::{FoldedTrace, RowKind, cut_name, fold, unfolded};
use crate::statement;
use osprofiler::record::TraceRecord;
use osprofiler::report::TraceTree;

/// A point: id, parent (0 for none), name, service, start and end in microseconds, and whether it failed.
#[derive(Clone, Debug)]
struct FoldingPoint(u64, u64, &'static str, &'static str, (u64, u64), bool);

fn at(id: u64, parent: u64, name: &'static str, service: &'static str, time: (u64, u64)) -> FoldingPoint {
    FoldingPoint(id, parent, name, service, time, false)
}

fn tree(points: &[FoldingPoint]) -> TraceTree {
    let time = |us: u64| {
        format!("2026-11-20T22:{:02}:{:02}.{:06}", us / 60_000_000, us / 1_000_000 % 60, us % 1_000_000)
    };
    let record = |point: &FoldingPoint, edge: &str, us: u64, info: serde_json::Value| {
        serde_json::from_value::<TraceRecord>(json!({
            "name": format!("{}-{edge}", point.2), "base_id": "0", "trace_id": point.0.to_string(),
            "parent_id": point.1.to_string(), "timestamp": time(us), "project": point.3, "info": info,
        }))
        .unwrap()
    };
    let both = |point: &FoldingPoint| {
        let stop = if point.5 { json!({"etype": "ValueError", "message": "no"}) } else { json!({}) };
        [record(point, "start", point.4.0, json!({"host": point.3})), record(point, "stop", point.4.1, stop)]
    };
    TraceTree::build(&points.iter().flat_map(both).collect::<Vec<_>>())
}

/// `db ×3`, indented by depth.
fn shown(tree: &TraceTree, folded: &FoldedTrace) -> Vec<String> {
    let row = |row: &super::FoldedRow| {
        let name = &tree.points[row.longest].name;
        let many = row.members.len();
        let what = match row.kind {
            RowKind::Point => name.to_string(),
            RowKind::Alike => format!("{name} ×{many}"),
            RowKind::Nested => format!("{name} nested {many}"),
            RowKind::Small { kinds } => format!("{many} small of {kinds}"),
            RowKind::Repeated { row } => format!("{name} ×{many} as {row}"),
        };
        let later = if row.afterwards { "later " } else { "" };
        format!("{}{later}{what}", " ".repeat(row.depth))
    };
    folded.rows.iter().map(row).collect()
}

/// A root whose children begin one after the other; `children` has their durations in microseconds.
fn root_with(children: &[(&'static str, u64)]) -> Vec<FoldingPoint> {
    let mut points = vec![at(1, 0, "wsgi", "api", (0, 1_000_000))];
    let mut start = 10;
    for (id, (name, took)) in (2..).zip(children) {
        points.push(at(id, 1, name, "api", (start, start + took)));
        start += took;
    }
    points
}

/// A chain of calls of this depth; something else is below the innermost and below another one.
fn chain(calls: u64, other: u64) -> Vec<FoldingPoint> {
    let mut points = vec![at(1, 0, "wsgi", "api", (0, 1_000_000))];
    for id in 2..calls + 2 {
        points.push(at(id, id - 1, "call", "api", (id * 1_000, 900_000 - id * 1_000)));
    }
    for (id, above) in [(100, other), (101, calls)].into_iter().skip(usize::from(other == calls)) {
        points.push(at(id, above + 1, "db", "api", (300_000, 500_000)));
    }
    points
}

/// A request with two steps in different services, which do the same.
fn repeated() -> Vec<FoldingPoint> {
    let mut points = vec![at(1, 0, "wsgi", "api", (0, 1_000_000))];
    for (id, service) in [(10, "a"), (20, "b")] {
        points.push(at(id, 1, "step", service, (id * 1_000, id * 1_000 + 400_000)));
        points.push(at(id + 1, id, "tokens", "keystone", (id * 1_000, id * 1_000 + 300_000)));
        for (next, name) in (2..).zip(["x", "y", "z", "y"]) {
            let start = id * 1_000 + next * 50_000;
            points.push(at(id + next, id + 1, name, "keystone", (start, start + 40_000)));
        }
    }
    points
}

#[test]
fn what_a_cast_leads_to_is_not_hidden_with_it() {
    let mut points = vec![at(1, 0, "wsgi", "api", (0, 100_000))];
    points.extend((100..150).map(|id| at(id, 1, "db", "api", (id * 10, id * 10 + 5))));
    points.push(at(2, 1, "task", "api", (150_000, 170_000)));
    points.push(at(3, 2, "cast", "api", (160_000, 161_000)));
    points.push(at(4, 3, "work", "executor", (165_000, 1_000_000)));
    let tree = tree(&points);
    let expected = ["wsgi", " db ×50", "later task", " later cast", "  later work"];
    assert_eq!(shown(&tree, &fold(&tree, &[])), expected);
}

#[test]
fn what_is_alike_folds_and_what_a_reader_looks_for_does_not() {
    let many = |number: usize, one: (&'static str, u64)| vec![one; number];
    let mut failed = root_with(&many(60, ("db", 10_000)));
    failed[7].5 = true;
    let mut in_groups = root_with(&[("call", 30_000); 8]);
    for id in 100..140 {
        let above = 2 + id % 8;
        let start = in_groups[above as usize - 1].4.0;
        in_groups.push(at(id, above, if id < 120 { "db" } else { "cache" }, "api", (start, start + 20_000)));
    }
    let cast = vec![
        at(1, 0, "wsgi", "api", (0, 100_000)),
        at(2, 1, "db", "api", (1_000, 90_000)),
        at(3, 1, "build", "compute", (95_000, 5_000_000)),
        at(4, 3, "db", "compute", (96_000, 4_000_000)),
    ];
    for (what, points, expected) in [
        ("two of a kind", root_with(&many(2, ("db", 10_000))), vec!["wsgi", " db", " db"]),
        ("three", root_with(&many(3, ("db", 10_000))), vec!["wsgi", " db ×3"]),
        ("one of them failed", failed, vec!["wsgi", " db ×59", " db"]),
        (
            "one of them took most of the time",
            root_with(&[("db", 9_000), ("db", 700_000), ("db", 9_000), ("db", 9_000)]),
            vec!["wsgi", " db ×3", " db"],
        ),
        (
            "others between them",
            root_with(&[("db", 90_000), ("io", 90_000), ("db", 90_000), ("db", 90_000)]),
            vec!["wsgi", " db ×3", " io"],
        ),
        (
            "small ones of a large trace",
            root_with(&[many(50, ("db", 10_000)), vec![("a", 10), ("b", 10), ("c", 90_000)]].concat()),
            vec!["wsgi", " db ×50", " 2 small of 2", " c"],
        ),
        (
            "small ones of a trace that fits a screen",
            root_with(&[("a", 10), ("b", 10)]),
            vec!["wsgi", " a", " b"],
        ),
        ("points below those of a group", in_groups, vec!["wsgi", " call ×8", "  db ×20", "  cache ×20"]),
        (
            "a subtree like an earlier one",
            repeated(),
            vec!["wsgi", " step", "  tokens", "   x", "   y", "   z", "   y", " step", "  tokens ×1 as 2"],
        ),
        ("a chain of one kind", chain(5, 5), vec!["wsgi", " call nested 5", "  db"]),
        ("a chain of two", chain(2, 2), vec!["wsgi", " call", "  call", "   db"]),
        ("a chain of which one calls something else", chain(6, 3), {
            vec!["wsgi", " call nested 3", "  call nested 3", "   db", "  db"]
        }),
        ("a cast", cast, vec!["wsgi", " db", "later build", "later  db"]),
    ] {
        let tree = tree(&points);
        let folded = fold(&tree, &[]);
        let expected: Vec<String> = expected
            .iter()
            .map(|row| match row.strip_prefix("later ") {
                Some(row) => {
                    format!("{}later {}", &row[..row.len() - row.trim_start().len()], row.trim_start())
                }
                None => (*row).to_owned(),
            })
            .collect();
        assert_eq!(shown(&tree, &folded), expected, "{what}");
        assert_eq!(folded.points, points.len());
        let all = unfolded(&tree);
        assert!(!all.folded && all.rows.len() == points.len(), "{what}");
    }
}

#[test]
fn a_point_that_the_caller_names_has_a_row_of_its_own_with_all_around_it() {
    let mut points = root_with(&[("call", 30_000); 8]);
    for id in 100..140 {
        let start = points[(1 + id % 8) as usize].4.0;
        points.push(at(id, 2 + id % 8, "db", "api", (start, start + 100)));
    }
    let tree = tree(&points);
    let cause = tree.points.iter().position(|point| point.trace_id == "125").unwrap();
    let folded = fold(&tree, &[cause]);
    let row = folded.rows.iter().find(|row| row.members == [cause]).unwrap();
    assert_eq!(row.kind, RowKind::Point);
    let above = &folded.rows[row.parent.unwrap()];
    assert_eq!((above.members.len(), above.kind), (1, RowKind::Point));
    assert!(folded.rows.len() < 12);
}

#[test]
fn long_names_are_cut_with_their_size() {
    for (name, chars, expected) in [
        ("wsgi".to_owned(), 10, "wsgi".to_owned()),
        ("wsgi and more".to_owned(), 8, "wsgi an…".to_owned()),
        ("x".repeat(2_048), 20, format!("{}… (2 KiB)", "x".repeat(11))),
        ("é".repeat(1 << 19), 20, format!("{}… (1.0 MiB)", "é".repeat(9))),
        ("x".repeat(1 << 20), 0, "… (1.0 MiB)".to_owned()),
    ] {
        assert_eq!(cut_name(&name, chars), expected);
    }
}

/// A chain and a wide level, both of 20,000 points.
#[test]
fn traces_of_any_shape_fold_without_recursion() {
    for is_deep in [true, false] {
        let points: Vec<FoldingPoint> = (1..=20_000)
            .map(|id| at(id, if is_deep { id - 1 } else { id.min(2) - 1 }, "db", "x", (id, 50_000)))
            .collect();
        let tree = tree(&points);
        let folded = fold(&tree, &[19_999]);
        assert_eq!(folded.points, 20_000);
        held(&tree, &folded);
    }
}

/// Every point is in exactly one row, or below the members of exactly one.
fn held(tree: &TraceTree, folded: &FoldedTrace) {
    let members: usize = folded.rows.iter().map(|row| row.members.len()).sum();
    let below: usize = folded.rows.iter().map(|row| row.below).sum();
    assert_eq!(members + below, tree.points.len());
    let mut seen = vec![false; tree.points.len()];
    for (at, row) in folded.rows.iter().enumerate() {
        assert!(row.parent.is_none_or(|parent| parent < at && folded.rows[parent].depth + 1 == row.depth));
        assert!(row.members.contains(&row.longest) && row.start_us <= row.end_us);
        row.members.iter().for_each(|&member| assert!(!std::mem::replace(&mut seen[member], true)));
        if let RowKind::Repeated { row: earlier } = row.kind {
            assert!(earlier < at && folded.rows[earlier].kind != row.kind);
            let kind = |row: &super::FoldedRow| statement::name_and_kind(&tree.points[row.longest]);
            assert_eq!(kind(row), kind(&folded.rows[earlier]));
        }
    }
    for (index, point) in tree.points.iter().enumerate() {
        assert!(point.error.is_none() || seen[index], "point {index} failed and is not shown");
    }
}

proptest! {
    #[test]
    fn no_point_is_lost_and_none_is_shown_twice(
        seeds in proptest::collection::vec((any::<u64>(), 0..4usize, 0..2usize, 0..2_000u64, 1..3_000u64), 1..150),
        keep in 0..150usize,
    ) {
        let points: Vec<FoldingPoint> = (1..)
            .zip(&seeds)
            .map(|(id, &(parent, name, service, start, length))| {
                let names = ["db", "wsgi", "rpc", "io"];
                let failed = parent % 23 == 0;
                FoldingPoint(id, parent % id, names[name], ["a", "b"][service], (start, start + length * length), failed)
            })
            .collect();
        let tree = tree(&points);
        held(&tree, &fold(&tree, &[keep]));
        held(&tree, &unfolded(&tree));
    }
}
