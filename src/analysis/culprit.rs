//! The trace point with the most self time in one iteration.
//!
//! Self time is a point's duration without the union of its children's. Points of the same service,
//! name and detail count together, so forty short queries can be the culprit as well as a single long
//! one. Request time outside all trace points competes too: the culprit can be the network, a queue
//! before the service, or this machine. Pauses between requests do not count.

use std::collections::HashMap;

use super::asynchronous;
use crate::osprofiler::report::{TraceTree, reporter};
use crate::results::model::Culprit;
use crate::results::trace::{StoredPoint, StoredTrace};

/// The name for time outside all trace points.
pub const OUTSIDE: &str = "outside the traced services";

/// The culprit of an iteration that took `iteration_ms`, including `requests_ms` for its requests;
/// `None` for an empty trace.
#[must_use]
pub fn find(trace: &StoredTrace, iteration_ms: f64, requests_ms: f64) -> Option<Culprit> {
    let mut groups: HashMap<(&str, &str, &str), Group> = HashMap::new();
    for (index, point) in trace.points.iter().enumerate() {
        let key = (point.service.as_str(), point.name.as_str(), point.detail.as_str());
        let group = groups.entry(key).or_insert(Group { calls: 0, self_us: 0, longest: index });
        group.calls += 1;
        group.self_us += point.self_us;
        if point.self_us > trace.points[group.longest].self_us {
            group.longest = index;
        }
    }
    let worst = groups.into_values().max_by_key(|group| (group.self_us, std::cmp::Reverse(group.longest)))?;
    let outside_ms = requests_ms - milliseconds(covered_us(&trace.points));
    let self_ms = milliseconds(worst.self_us);
    if outside_ms > self_ms {
        return Some(Culprit {
            name: OUTSIDE.to_owned(),
            detail: "(network, a queue before the service, or this machine)".to_owned(),
            service: String::new(),
            host: String::new(),
            calls: 1,
            self_ms: outside_ms,
            share: share(outside_ms, iteration_ms),
            path: Vec::new(),
        });
    }
    let point = &trace.points[worst.longest];
    Some(Culprit {
        name: point.name.clone(),
        detail: point.detail.clone(),
        service: reporter(&point.project, &point.service),
        host: point.host.clone(),
        calls: worst.calls,
        self_ms,
        share: share(self_ms, iteration_ms),
        path: path(&trace.points, worst.longest),
    })
}

/// The points of services with only the part that the response waited for. `tree` is that of the same trace with the
/// client's points.
#[must_use]
pub fn awaited(mut services: StoredTrace, tree: &TraceTree) -> StoredTrace {
    let parts = asynchronous::awaited(tree);
    let own_us = asynchronous::own_us(tree, &parts);
    let whole_us = parts.into_iter().map(|part| part.map_or(0, |(start_us, end_us)| end_us - start_us));
    let known = tree.points.iter().zip(whole_us.zip(own_us));
    let known: HashMap<&str, (u64, u64)> =
        known.map(|(point, times)| (point.trace_id.as_str(), times)).collect();
    for point in &mut services.points {
        let Some((awaited_us, own_us)) = known.get(point.trace_id.as_str()) else { continue };
        point.duration_us = point.duration_us.map(|whole_us| whole_us.min(*awaited_us));
        point.self_us = *own_us;
    }
    services
}

struct Group {
    calls: u64,
    self_us: u64,
    /// The index of the point with the most self time.
    longest: usize,
}

/// The time during which at least one root was open. The points below a root without a stop count
/// instead of it.
fn covered_us(points: &[StoredPoint]) -> u64 {
    let mut open: Vec<(i64, i64)> = Vec::new();
    let mut counted_depth = u32::MAX;
    for point in points {
        if point.depth > counted_depth {
            continue;
        }
        counted_depth = u32::MAX;
        if let Some(duration) = point.duration_us {
            counted_depth = point.depth;
            let end = point.start_us.saturating_add_unsigned(duration);
            open.push((point.start_us, end));
        }
    }
    open.sort_unstable();
    let (mut covered, mut until) = (0, i64::MIN);
    for (start, end) in open {
        let start = start.max(until);
        if end > start {
            covered += end.abs_diff(start);
            until = end;
        }
    }
    covered
}

/// The names above a point, outermost first. The points are in depth-first order.
fn path(points: &[StoredPoint], index: usize) -> Vec<String> {
    let mut depth = points[index].depth;
    let mut names = Vec::new();
    for point in points[..index].iter().rev() {
        if point.depth < depth {
            depth = point.depth;
            names.push(if point.detail.is_empty() {
                point.name.clone()
            } else {
                format!("{} {}", point.name, point.detail)
            });
        }
    }
    names.reverse();
    names
}

fn milliseconds(micros: u64) -> f64 {
    micros as f64 / 1e3
}

fn share(part_ms: f64, whole_ms: f64) -> f64 {
    if whole_ms > 0.0 { (part_ms / whole_ms).clamp(0.0, 1.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::model::TraceState;

    /// Points as (depth, name, start, duration, self time).
    fn trace(points: &[(u32, &str, i64, u64, u64)]) -> StoredTrace {
        let point =
            |&(depth, name, start_us, duration_us, self_us): &(u32, &str, i64, u64, u64)| StoredPoint {
                depth,
                trace_id: String::new(),
                parent_id: String::new(),
                name: name.into(),
                detail: String::new(),
                service: "s".into(),
                project: String::new(),
                host: String::new(),
                start_us,
                duration_us: Some(duration_us),
                self_us,
                error: None,
                info: serde_json::Value::Null,
                stop_info: serde_json::Value::Null,
            };
        StoredTrace {
            trace_id: uuid::Uuid::nil(),
            state: TraceState::Complete,
            records: Vec::new(),
            unreadable: 0,
            read_after_ns: None,
            asynchronous_ms: None,
            points: points.iter().map(point).collect(),
        }
    }

    #[test]
    fn the_point_with_the_most_self_time_is_the_culprit() {
        for (what, iteration_ms, points, expected) in [
            (
                "one slow query",
                100.0,
                &[(0, "wsgi", 0, 95_000, 5_000), (1, "db", 1_000, 90_000, 90_000)][..],
                ("db", 1, 0.9),
            ),
            (
                "many short queries",
                100.0,
                &[
                    (0, "wsgi", 0, 90_000, 40_000),
                    (1, "db", 0, 25_000, 25_000),
                    (1, "db", 30_000, 25_000, 25_000),
                ],
                ("db", 2, 0.5),
            ),
            (
                "a lock in the parent",
                100.0,
                &[(0, "wsgi", 0, 90_000, 85_000), (1, "db", 0, 5_000, 5_000)],
                ("wsgi", 1, 0.85),
            ),
            ("the network", 100.0, &[(0, "wsgi", 0, 10_000, 10_000)], (OUTSIDE, 1, 0.9)),
            (
                "two roots at once",
                20.0,
                &[(0, "a", 0, 10_000, 10_000), (0, "b", 5_000, 10_000, 9_000)],
                ("a", 1, 0.5),
            ),
        ] {
            let culprit = find(&trace(points), iteration_ms, iteration_ms).unwrap();
            assert_eq!((culprit.name.as_str(), culprit.calls), (expected.0, expected.1), "{what}");
            assert!((culprit.share - expected.2).abs() < 1e-9, "{what}: {}", culprit.share);
        }
        assert!(find(&trace(&[]), 10.0, 10.0).is_none());
    }

    #[test]
    fn neither_pauses_nor_a_lost_stop_are_time_outside() {
        let mut trace =
            trace(&[(0, "wsgi", 0, 0, 0), (1, "rpc", 0, 60_000, 50_000), (2, "db", 0, 10_000, 10_000)]);
        trace.points[0].duration_us = None;
        let culprit = find(&trace, 1_000.0, 80.0).unwrap();
        assert_eq!((culprit.name.as_str(), culprit.share), ("rpc", 0.05));
    }

    #[test]
    fn a_service_is_named_with_its_project() {
        let mut trace = trace(&[(0, "wsgi", 0, 9, 9)]);
        for (project, service, expected) in
            [("keystone", "public", "keystone/public"), ("", "api", "api"), ("p", "", "p"), ("p", "p", "p")]
        {
            (trace.points[0].project, trace.points[0].service) = (project.into(), service.into());
            assert_eq!(find(&trace, 0.009, 0.009).unwrap().service, expected);
        }
    }

    #[test]
    fn its_path_names_the_points_above_it() {
        let points = &[(0, "wsgi", 0, 9, 0), (1, "rpc", 0, 3, 0), (1, "rpc2", 3, 6, 0), (2, "db", 3, 6, 6)];
        assert_eq!(find(&trace(points), 0.009, 0.009).unwrap().path, ["wsgi", "rpc2"]);
    }
}
