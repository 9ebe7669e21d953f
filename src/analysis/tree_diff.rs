//! Two traces, aligned by the path of kinds of points: calls, time and own time of each, and the attributes that differ.
//!
//! Points of one kind under the same path are one row, so that twenty calls of a statement stand against two. Traces are
//! hostile: rows, paths and values are bounded, and what is left out is counted. Nothing here may fetch or print.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::Serialize;

use super::feature::POINT;
use super::features;
use super::statement;
use osprofiler::report::{Point, TraceTree};
use results::rpc::QUEUE;

/// At most this many rows; points of others are counted.
const ROWS_MAX: usize = 5_000;
/// The longest path in the output, from the outermost point.
const PATH_MAX: usize = 48;
/// At most this many attributes of a row, and values of an attribute on each side.
const ATTRIBUTES_MAX: usize = 64;
const VALUES_MAX: usize = 8;

/// The difference of two traces.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TreeDiff {
    /// The first trace.
    pub a: DiffedTrace,
    /// The second one.
    pub b: DiffedTrace,
    /// The kinds of points, largest difference of own time first.
    pub points: Vec<PointDiff>,
    /// How many points are left out because there are too many kinds.
    pub left_out: u64,
}

/// One of the traces.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DiffedTrace {
    pub base_id: String,
    /// From its first record to its last, in microseconds.
    pub length_us: u64,
    /// How many points it has.
    pub points: u64,
    /// How many of them lack their start or stop.
    pub incomplete: u64,
    /// What else is missing of it, or impossible.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub gaps: Vec<String>,
}

/// A kind of point under a path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PointDiff {
    /// Its name and its statement or path, without literals and ids.
    pub name: String,
    /// The project and service that reported it.
    pub service: String,
    /// The names of the kinds above it, outermost first.
    pub path: Vec<String>,
    /// Its figures in the first trace.
    pub a: PointSums,
    /// Its figures in the second trace.
    pub b: PointSums,
    /// The second's own time minus the first's, in microseconds; absent if one has a point whose time is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub self_difference_us: Option<i64>,
    /// Attributes whose values differ, if both traces have such points.
    pub attributes: Vec<AttributeDiff>,
}

/// Sums over the points of a row in one trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct PointSums {
    /// How many points.
    pub calls: u64,
    /// How many of them have no known time, because they lack their start or their stop. The sums are without them.
    #[serde(skip_serializing_if = "is_zero")]
    pub untimed: u64,
    /// The sum of their durations, in microseconds.
    pub duration_us: u64,
    /// The sum of their own times, without their children's, in microseconds.
    pub self_us: u64,
    /// How many failed.
    pub errors: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// The values of an attribute on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AttributeDiff {
    pub attribute: String,
    /// The values that only the first trace has.
    pub a: Vec<String>,
    /// The values that only the second trace has.
    pub b: Vec<String>,
}

struct TreeRow {
    parent: Option<usize>,
    depth: usize,
    service: String,
    name: String,
    sums: [PointSums; 2],
    values: BTreeMap<String, [BTreeSet<String>; 2]>,
}

/// The difference of two traces; each with its id.
#[must_use]
pub fn tree_diff((a_id, a): (&str, &TraceTree), (b_id, b): (&str, &TraceTree)) -> TreeDiff {
    let (mut rows, mut left_out) = (Vec::new(), 0);
    let mut known = HashMap::new();
    for (side, tree) in [a, b].into_iter().enumerate() {
        // The row of each point; `None` for points that are left out.
        let mut places: Vec<Option<usize>> = Vec::with_capacity(tree.points.len());
        for point in &tree.points {
            let parent = point.parent.map(|parent| places.get(parent).copied().flatten());
            let place = if parent == Some(None) {
                None
            } else {
                place(&mut rows, &mut known, parent.flatten(), point)
            };
            match place {
                Some(place) => rows[place].add(side, point),
                None => left_out += 1,
            }
            places.push(place);
        }
    }
    let mut points: Vec<PointDiff> = (0..rows.len()).map(|index| point(&rows, index)).collect();
    // What is not known may be the largest.
    points.sort_by_key(|row| {
        let difference_us = row.self_difference_us.map_or(u64::MAX, i64::unsigned_abs);
        std::cmp::Reverse((difference_us, row.attributes.len()))
    });
    let trace = |base_id: &str, tree: &TraceTree| DiffedTrace {
        base_id: base_id.to_owned(),
        length_us: tree.length_us(),
        // Those for the time that messages waited are made of others.
        points: tree.points.iter().filter(|point| point.name != QUEUE).count() as u64,
        incomplete: tree.incomplete() as u64,
        gaps: tree.unreadable_text().into_iter().chain(tree.gaps.texts()).collect(),
    };
    TreeDiff { a: trace(a_id, a), b: trace(b_id, b), points, left_out }
}

type DiffRowIndex = HashMap<(Option<usize>, String, String), usize>;

/// The row of a point below this row.
fn place(
    rows: &mut Vec<TreeRow>,
    known: &mut DiffRowIndex,
    parent: Option<usize>,
    point: &Point,
) -> Option<usize> {
    let (service, name) = (point.reporter(), statement::name_and_kind(point));
    let key = (parent, service.clone(), name.clone());
    if let Some(place) = known.get(&key) {
        return Some(*place);
    }
    if rows.len() >= ROWS_MAX {
        return None;
    }
    let depth = parent.map_or(0, |parent| rows[parent].depth + 1);
    known.insert(key, rows.len());
    rows.push(TreeRow { parent, depth, service, name, sums: Default::default(), values: BTreeMap::new() });
    Some(rows.len() - 1)
}

impl TreeRow {
    fn add(&mut self, side: usize, point: &Point) {
        let sums = &mut self.sums[side];
        sums.calls += 1;
        sums.untimed += u64::from(point.duration_us.is_none());
        sums.duration_us = sums.duration_us.saturating_add(point.duration_us.unwrap_or(0));
        sums.self_us = sums.self_us.saturating_add(point.self_us.unwrap_or(0));
        sums.errors += u64::from(point.error.is_some());
        for feature in features::of_point(point) {
            if matches!(feature.attribute.as_str(), POINT | "service") {
                continue;
            }
            if self.values.len() >= ATTRIBUTES_MAX && !self.values.contains_key(&feature.attribute) {
                continue;
            }
            let values = &mut self.values.entry(feature.attribute).or_default()[side];
            if values.len() < VALUES_MAX {
                values.insert(feature.value);
            }
        }
    }
}

fn point(rows: &[TreeRow], index: usize) -> PointDiff {
    let row = &rows[index];
    let above = std::iter::successors(row.parent, |above| rows[*above].parent);
    let mut path: Vec<String> =
        above.skip(row.depth.saturating_sub(PATH_MAX)).map(|above| rows[above].name.clone()).collect();
    path.reverse();
    let [a, b] = row.sums;
    let signed = |us: u64| i64::try_from(us).unwrap_or(i64::MAX);
    let both = a.calls > 0 && b.calls > 0;
    PointDiff {
        name: row.name.clone(),
        service: row.service.clone(),
        path,
        a,
        b,
        self_difference_us: (a.untimed + b.untimed == 0).then(|| signed(b.self_us) - signed(a.self_us)),
        attributes: if both { row.values.iter().filter_map(attribute).collect() } else { Vec::new() },
    }
}

fn attribute((attribute, [a, b]): (&String, &[BTreeSet<String>; 2])) -> Option<AttributeDiff> {
    let only = |one: &BTreeSet<String>, other: &BTreeSet<String>| one.difference(other).cloned().collect();
    let (only_a, only_b): (Vec<String>, Vec<String>) = (only(a, b), only(b, a));
    let same = only_a.is_empty() && only_b.is_empty();
    (!same).then(|| AttributeDiff { attribute: attribute.clone(), a: only_a, b: only_b })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn point(parent: Option<usize>, name: &str, self_us: u64, info: &Value) -> Point {
        Point {
            depth: usize::from(parent.is_some()),
            parent,
            trace_id: "".into(),
            parent_id: "".into(),
            name: name.into(),
            service: Some("shop".into()),
            project: None,
            host: None,
            start_us: 0,
            starts: true,
            reversed_us: None,
            duration_us: Some(self_us * 2),
            self_us: Some(self_us),
            error: None,
            info: info.as_object().cloned().unwrap_or_default().into(),
            stop_info: serde_json::Map::new().into(),
        }
    }

    fn tree(points: Vec<Point>) -> TraceTree {
        TraceTree { points, ..TraceTree::default() }
    }

    fn statement(id: usize) -> Value {
        json!({"db": {"statement": format!("SELECT a FROM t WHERE id = {id}"), "system": "pg"}})
    }

    #[test]
    fn points_stand_against_each_other_by_their_paths() {
        let root = |pod: &str| point(None, "GET /orders", 100, &json!({"resource": {"pod": pod}}));
        let mut many = vec![root("b"), point(Some(0), "cache", 5, &json!({}))];
        many.extend((0..20).map(|id| point(Some(0), "db", 30, &statement(id))));
        let few = tree(vec![
            root("a"),
            point(Some(0), "db", 30, &statement(7)),
            point(Some(0), "lock", 7, &json!({})),
        ]);
        let found = tree_diff(("A", &few), ("B", &tree(many)));
        let rows: Vec<_> = found
            .points
            .iter()
            .map(|row| (row.name.as_str(), row.path.len(), row.a.calls, row.b.calls, row.self_difference_us))
            .collect();
        assert_eq!(
            rows,
            [
                ("db SELECT a FROM t WHERE id = ?", 1, 1, 20, Some(570)),
                ("lock", 1, 1, 0, Some(-7)),
                ("cache", 1, 0, 1, Some(5)),
                ("GET /orders", 0, 1, 1, Some(0)),
            ]
        );
        let pod = AttributeDiff { attribute: "pod".into(), a: vec!["a".into()], b: vec!["b".into()] };
        assert_eq!(found.points[3].attributes, [pod]);
        assert!(found.points[..3].iter().all(|row| row.attributes.is_empty()), "{found:?}");
        assert_eq!((found.a.points, found.b.points, found.left_out), (3, 22, 0));
    }

    #[test]
    fn a_time_that_is_not_known_is_no_zero() {
        let open = || Point { duration_us: None, self_us: None, ..point(Some(0), "db", 0, &json!({})) };
        let root = || point(None, "GET", 10, &json!({}));
        let (one, other) =
            (tree(vec![root(), point(Some(0), "db", 7, &json!({})), open()]), tree(vec![root(), open()]));
        let found = tree_diff(("A", &one), ("B", &other));
        let db = &found.points[0];
        assert_eq!((db.name.as_str(), db.self_difference_us), ("db", None));
        assert_eq!((db.a.calls, db.a.untimed, db.a.self_us), (2, 1, 7));
        assert_eq!((db.b.calls, db.b.untimed), (1, 1));
    }

    #[test]
    fn hostile_traces_are_bounded() {
        let wide = (0..20_000).map(|number| point(None, &format!("op-{number}x"), 1, &json!({"k": number})));
        let deep: Vec<Point> = (0..4_000_usize)
            .map(|number| point(number.checked_sub(1), "op", 1, &json!({"k": number})))
            .collect();
        let found = tree_diff(("A", &tree(wide.collect())), ("B", &tree(deep)));
        assert_eq!(found.points.len(), ROWS_MAX);
        assert_eq!(found.left_out, 20_000 - ROWS_MAX as u64 + 4_000);
        let deep =
            tree((0..4_000_usize).map(|number| point(number.checked_sub(1), "op", 1, &json!({}))).collect());
        let found = tree_diff(("A", &deep), ("B", &deep));
        assert!(
            found.points.iter().all(|row| row.path.len() <= PATH_MAX && row.self_difference_us == Some(0))
        );
    }
}
