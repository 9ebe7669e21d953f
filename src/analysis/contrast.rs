//! The attributes that slow points of a kind have in common: a host, a parameter, or anything else that they report.
//!
//! For one kind of point, this counts on both sides the traces that have each value of each attribute. It also counts
//! the traces in which the calls with it take most of the kind's time on the critical path. A value is reported if many
//! slow traces have it so and few typical ones: the difference of the two shares must be significant (Newcombe's
//! interval of a difference of proportions, from Wilson's). This also drops values of too few traces, such as ids.
//! Nothing here may name a cause: a contrast shows where the slow points are, not why they are slow.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use osprofiler::report::{Point, TraceTree};
use statistics::order::at_percentile;
use statistics::shares::difference_bounds;

/// Each side needs this many traces with the kind.
const TRACES_MIN: usize = 10;
/// A value's share of slow traces must be larger by this much, with 95 % confidence.
const DIFFERENCE_MIN: f64 = 0.2;
/// Calls with a value are few if they are at most this part of all, and take longer if at least this part of what the kind
/// takes longer is theirs.
const FEW_CALLS: f64 = 0.5;
const LONGER_MIN: f64 = 0.8;
/// At most this many values are reported.
const REPORTED_MAX: usize = 3;
/// The depth to which a point's info is searched for attributes, and the number of attributes per point.
const DEPTH_MAX: usize = 3;
const ATTRIBUTES_MAX: usize = 32;
/// Longer values are free text, not attributes.
const VALUE_CHARS_MAX: usize = 100;

/// An attribute's value that slow traces have more often.
#[derive(Clone, Debug, PartialEq)]
pub struct AttributeContrast {
    /// `host`, or the path of a key in the point's info, such as `db.params.user_id`.
    pub attribute: String,
    /// The value as text.
    pub value: String,
    /// The share of the kind's own time that points with it took in slow traces, 0 to 1.
    pub slow_share: f64,
    /// The same share in typical traces.
    pub typical_share: f64,
}

/// The points of one kind in one trace, each with its exclusive time on the critical path in microseconds.
pub type Points<'a> = Vec<(&'a Point, f64)>;

/// The points of a kind in a trace; `kinds` has the kind of each of the tree's points, `exclusive_us` its exclusive time.
#[must_use]
pub fn points_of<'a>(tree: &'a TraceTree, kinds: &[usize], exclusive_us: &[f32], kind: usize) -> Points<'a> {
    let all = tree.points.iter().zip(kinds).zip(exclusive_us);
    all.filter(|((_, of), _)| **of == kind).map(|((point, _), us)| (point, f64::from(*us))).collect()
}

/// The attributes that distinguish the points of one kind in slow traces from those in typical traces, largest
/// difference first. Traces without such a point count on neither side.
///
/// A value distinguishes them if more slow traces have it, or if its calls alone take longer. It also does if, in more
/// slow traces, its calls take most of the kind's time on the critical path: the slow shard of a fan-out is in every
/// trace.
#[must_use]
pub fn contrast(slow: &[Points<'_>], typical: &[Points<'_>]) -> Vec<AttributeContrast> {
    let (slow, typical) = (Side::of(slow), Side::of(typical));
    if slow.traces < TRACES_MIN || typical.traces < TRACES_MIN {
        return Vec::new();
    }
    let none = ValueOccurrences::default();
    let mut found: Vec<(f64, AttributeContrast)> = slow
        .values
        .iter()
        .filter_map(|(key, seen)| {
            let other = typical.values.get(key).unwrap_or(&none);
            let least = least(((seen, &slow), (other, &typical)))?;
            let (attribute, value) = key.clone();
            let contrast = AttributeContrast {
                attribute,
                value,
                slow_share: share(seen.us, slow.us),
                typical_share: share(other.us, typical.us),
            };
            // A value that is more frequent but takes no time is irrelevant.
            (contrast.slow_share >= DIFFERENCE_MIN).then_some((least, contrast))
        })
        .collect();
    found.sort_by(|one, other| other.0.total_cmp(&one.0));
    found.truncate(REPORTED_MAX);
    found.into_iter().map(|(_, contrast)| contrast).collect()
}

/// A value and the side that it was seen on.
type ValueObservation<'a> = (&'a ValueOccurrences, &'a Side);

/// The largest of the lower bounds by which more slow traces have a value, or have it where the time is; `None` if it does
/// not distinguish them.
fn least(((seen, slow), (other, typical)): (ValueObservation<'_>, ValueObservation<'_>)) -> Option<f64> {
    let bound = |one: usize, two: usize| difference_bounds((one, slow.traces), (two, typical.traces)).0;
    let has = bound(seen.times_us.len(), other.times_us.len());
    let leads = bound(seen.leading, other.leading);
    let takes_longer = match is_few_calls(seen, slow) && is_few_calls(other, typical) {
        true => {
            let usual_us = other.percentile_95(typical.traces);
            let exceeding = |one: &ValueOccurrences| one.times_us.iter().filter(|us| **us > usual_us).count();
            let each = |us: f64, side: &Side| us / side.traces as f64;
            let of_it = each(seen.us, slow) - each(other.us, typical);
            let of_all = each(slow.us, slow) - each(typical.us, typical);
            // What has most of the difference.
            (of_it >= LONGER_MIN * of_all).then(|| bound(exceeding(seen), exceeding(other)))
        }
        false => None,
    };
    let least = has.max(leads).max(takes_longer.unwrap_or(-1.0));
    (least >= DIFFERENCE_MIN).then_some(least)
}

/// Whether a value is that of some of a trace's calls only.
fn is_few_calls(seen: &ValueOccurrences, side: &Side) -> bool {
    seen.calls as f64 <= FEW_CALLS * side.calls as f64
}

#[derive(Clone, Default)]
struct ValueOccurrences {
    /// The time in each trace that has it, in microseconds.
    times_us: Vec<f64>,
    /// The traces in which its calls take most of the kind's time.
    leading: usize,
    calls: usize,
    us: f64,
}

impl ValueOccurrences {
    /// The 95th percentile of its time in this number of traces; traces without it count as 0.
    fn percentile_95(&self, traces: usize) -> f64 {
        let mut all = self.times_us.clone();
        all.resize(traces.max(all.len()), 0.0);
        all.sort_by(f64::total_cmp);
        at_percentile(&all, 95.0).unwrap_or(0.0)
    }
}

#[derive(Default)]
struct Side {
    /// Traces that have a point of the kind.
    traces: usize,
    calls: usize,
    us: f64,
    values: BTreeMap<(String, String), ValueOccurrences>,
}

impl Side {
    fn of(traces: &[Points<'_>]) -> Self {
        let mut side = Self::default();
        for points in traces.iter().filter(|points| !points.is_empty()) {
            side.traces += 1;
            side.calls += points.len();
            let all_us: f64 = points.iter().map(|(_, us)| us).sum();
            side.us += all_us;
            let mut here: BTreeMap<(String, String), f64> = BTreeMap::new();
            for (point, us) in points {
                for key in attributes(point) {
                    side.values.entry(key.clone()).or_default().calls += 1;
                    *here.entry(key).or_default() += us;
                }
            }
            for (key, us) in here {
                let seen = side.values.entry(key).or_default();
                seen.us += us;
                seen.times_us.push(us);
                seen.leading += usize::from(us > all_us / 2.0);
            }
        }
        side
    }
}

/// A point's host and the scalar values of its info, each once: OSProfiler states a host at a point's start and at its
/// stop, and its time must not count twice.
fn attributes(point: &Point) -> BTreeSet<(String, String)> {
    let mut found = Vec::new();
    if let Some(host) = &point.host {
        found.push(("host".to_owned(), host.to_string()));
    }
    for (key, value) in point.info.read().iter().chain(point.stop_info.read().iter()) {
        collect(key, value, 1, &mut found);
    }
    found.into_iter().collect()
}

fn collect(path: &str, value: &Value, depth: usize, found: &mut Vec<(String, String)>) {
    if found.len() >= ATTRIBUTES_MAX {
        return;
    }
    let text = match value {
        Value::Object(map) if depth < DEPTH_MAX => {
            map.iter().for_each(|(key, value)| collect(&format!("{path}.{key}"), value, depth + 1, found));
            return;
        }
        Value::String(text) => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        _ => return,
    };
    // No value, or free text.
    if !text.is_empty() && text.chars().nth(VALUE_CHARS_MAX).is_none() {
        found.push((path.to_owned(), text));
    }
}

fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { (part / whole).min(1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn point(host: &str, info: &Value, own_us: u64) -> Point {
        Point {
            depth: 0,
            parent: None,
            trace_id: "".into(),
            parent_id: "".into(),
            name: "db".into(),
            service: None,
            project: None,
            host: Some(host.into()),
            start_us: 0,
            starts: true,
            reversed_us: None,
            duration_us: Some(own_us),
            self_us: Some(own_us),
            error: None,
            info: info.as_object().cloned().unwrap_or_default().into(),
            stop_info: serde_json::Map::new().into(),
        }
    }

    /// A point whose whole time is on the critical path.
    fn timed(point: &Point) -> (&Point, f64) {
        (point, point.self_us.unwrap_or(0) as f64)
    }

    fn reported(
        slow: &[(&str, Value, usize)],
        typical: &[(&str, Value, usize)],
    ) -> Vec<(String, String, u32)> {
        let points = |rows: &[(&str, Value, usize)], own_us| -> Vec<Point> {
            let rows = rows.iter();
            rows.flat_map(|(host, info, times)| vec![point(host, info, own_us); *times]).collect()
        };
        let (slow, typical) = (points(slow, 900), points(typical, 100));
        let side = |points: &'static [Point]| points.iter().map(|one| vec![timed(one)]).collect::<Vec<_>>();
        let found = contrast(&side(Vec::leak(slow)), &side(Vec::leak(typical)));
        let percent = |share: f64| (share * 100.0).round() as u32;
        found.into_iter().map(|found| (found.attribute, found.value, percent(found.slow_share))).collect()
    }

    #[test]
    fn a_value_that_stands_at_start_and_stop_counts_once() {
        let mut twice = point("one", &json!({"host": "one", "db": {"params": 1}}), 9);
        twice.stop_info = twice.info.clone();
        let slow: Vec<Point> = (0..20).map(|_| twice.clone()).collect();
        let typical: Vec<Point> = (0..20).map(|_| point("two", &json!({}), 9)).collect();
        let sides = [&slow, &typical].map(|side| side.iter().map(|one| vec![timed(one)]).collect::<Vec<_>>());
        let found = contrast(&sides[0], &sides[1]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found.iter().all(|one| one.slow_share == 1.0), "{found:?}");
    }

    #[test]
    fn ten_traces_of_each_side_are_enough() {
        for (slow, typical, enough) in [(10, 10, true), (9, 10, false), (10, 9, false)] {
            let found = reported(&[("b", json!({}), slow)], &[("a", json!({}), typical)]);
            assert_eq!(!found.is_empty(), enough, "{slow} and {typical}: {found:?}");
        }
    }

    #[test]
    fn attributes_that_only_slow_points_share_are_reported() {
        let none = || json!({});
        let bad = ("host".to_owned(), "b".to_owned(), 90);
        let rows = [
            (
                "a bad host",
                vec![("a", none(), 2), ("b", none(), 18)],
                vec![("a", none(), 36), ("b", none(), 4)],
                vec![bad],
            ),
            (
                "the same hosts",
                vec![("a", none(), 10), ("b", none(), 10)],
                vec![("a", none(), 20), ("b", none(), 20)],
                vec![],
            ),
            ("too few", vec![("b", none(), 9)], vec![("a", none(), 40)], vec![]),
            ("nothing to compare with", vec![("b", none(), 20)], vec![], vec![]),
            (
                "a parameter",
                vec![("a", json!({"db": {"params": {"user": 7}}}), 20)],
                vec![
                    ("a", json!({"db": {"params": {"user": 1}}}), 20),
                    ("a", json!({"db": {"params": {"user": 2}}}), 20),
                ],
                vec![("db.params.user".to_owned(), "7".to_owned(), 100)],
            ),
            (
                "unique ids",
                (0..20).map(|id| ("a", json!({"id": id}), 1)).collect(),
                (20..60).map(|id| ("a", json!({"id": id}), 1)).collect(),
                vec![],
            ),
        ];
        for (what, slow, typical, expected) in rows {
            assert_eq!(reported(&slow, &typical), expected, "{what}");
        }
    }

    #[test]
    fn texts_lists_and_depth_are_bounded() {
        let deep = json!({"a": {"b": {"c": {"d": 1}}}, "text": "x".repeat(101), "list": [1], "yes": true, "nil": null, "empty": ""});
        let found = attributes(&point("h", &deep, 1));
        assert_eq!(found, [("host".into(), "h".into()), ("yes".into(), "true".into())].into());
        let many: serde_json::Map<String, Value> = (0..1000).map(|n| (format!("k{n}"), n.into())).collect();
        assert_eq!(attributes(&point("h", &Value::Object(many), 1)).len(), ATTRIBUTES_MAX);
    }

    proptest! {
        #[test]
        fn shares_are_between_0_and_1(
            rows in prop::collection::vec((0..3_usize, 0..4_usize, 0..1_000_u64, 0..4_usize), 40..120),
        ) {
            // Hosts in the info, in the stop's info, and both.
            let points: Vec<Point> = rows
                .iter()
                .map(|(host, info, own_us, stop)| {
                    let named = |number: usize| {
                        let host = ["a", "b", "c", "a"][number];
                        json!({"host": host, "x": {"host": number}})
                    };
                    let mut point = point(["a", "b", "c"][*host], &named(*info), *own_us);
                    point.stop_info = named(*stop).as_object().cloned().unwrap_or_default().into();
                    point
                })
                .collect();
            let sides = points.split_at(points.len() / 2);
            let side = |points: &'static [Point]| points.chunks(2).map(|two| two.iter().map(timed).collect()).collect::<Vec<_>>();
            let [slow, typical] = [sides.0, sides.1].map(|side| &*Vec::leak(side.to_vec()));
            for side in [Side::of(&side(slow)), Side::of(&side(typical))] {
                for seen in side.values.values() {
                    prop_assert!(seen.us <= side.us && seen.times_us.len() <= side.traces && seen.leading <= side.traces);
                }
            }
            for found in contrast(&side(slow), &side(typical)) {
                prop_assert!((0.0..=1.0).contains(&found.slow_share), "{found:?}");
                prop_assert!((0.0..=1.0).contains(&found.typical_share), "{found:?}");
            }
        }
    }
}
