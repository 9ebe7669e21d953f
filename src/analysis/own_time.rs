//! The kind of point with the most own time in one iteration: its explanation when nothing can be compared.
//!
//! Own time is the part of a point's duration that the response waited for, without the union of its children's. Points
//! of one kind count together, so forty short queries can be the largest part as well as a single long one. Queue time
//! before the start and request time outside all points of services take part. Pauses between requests do not count. An
//! incomplete trace has a largest part too: the points below one without a stop count instead of it.

use std::collections::HashMap;

use super::asynchronous;
use super::breakdown::{Kind, kind};
use measure::sample::IterationSample;
use osprofiler::report::{Point, TraceTree};
use results::client_points::{ACTION, QUEUE_TIME_POINT, REPORTER};

/// The largest part of an iteration.
#[derive(Clone, Debug, PartialEq)]
pub struct LargestPart {
    pub kind: Kind,
    /// The time of its points, in microseconds.
    pub own_us: u64,
    /// How many points.
    pub calls: u64,
    /// The index of the longest of them; `None` for time outside of several requests.
    pub longest: Option<usize>,
}

/// The largest part of an iteration; `None` for a trace without times. `tree` has the client's points.
#[must_use]
pub fn largest(tree: &TraceTree, sample: &IterationSample) -> Option<LargestPart> {
    let awaited = asynchronous::awaited(tree);
    let own_us = asynchronous::own_us(tree, &awaited);
    let mut groups: HashMap<Kind, LargestPart> = HashMap::new();
    for (index, point) in tree.points.iter().enumerate().filter(|(_, point)| !is_client(point)) {
        let kind = kind(tree, index);
        let group = groups.entry(kind).or_insert_with_key(|kind| LargestPart {
            kind: kind.clone(),
            own_us: 0,
            calls: 0,
            longest: Some(index),
        });
        group.calls += 1;
        group.own_us += if point.duration_us.is_some() { own_us[index] } else { 0 };
        if group.longest.is_some_and(|longest| own_us[index] > own_us[longest]) {
            group.longest = Some(index);
        }
    }
    let worst = groups.into_values().max_by_key(|group| (group.own_us, std::cmp::Reverse(group.longest)))?;
    let others = [queue_time(tree, sample), outside(tree, sample, &awaited)];
    others.into_iter().chain([worst]).max_by_key(|one| one.own_us).filter(|one| one.own_us > 0)
}

fn is_client(point: &Point) -> bool {
    point.project.as_deref() == Some(REPORTER)
}

fn of_client(tree: &TraceTree, name: &str) -> Vec<usize> {
    let is_it = |point: &Point| is_client(point) && point.name == name;
    (0..tree.points.len()).filter(|&index| is_it(&tree.points[index])).collect()
}

fn queue_time(tree: &TraceTree, sample: &IterationSample) -> LargestPart {
    let longest = of_client(tree, QUEUE_TIME_POINT).first().copied();
    let kind = longest.map_or_else(Kind::default, |index| kind(tree, index));
    LargestPart { kind, own_us: sample.queue_time_ns() / 1_000, calls: 1, longest }
}

/// The time of requests during which no service had a point open.
fn outside(tree: &TraceTree, sample: &IterationSample, awaited: &[Option<(u64, u64)>]) -> LargestPart {
    let requests = sample.actions.iter().filter(|action| action.requests > 0);
    let span = |from_ns: u64, ns: u64| (from_ns / 1_000, from_ns.saturating_add(ns) / 1_000);
    let requests_us = covered(requests.map(|action| span(action.offset_ns, action.duration_ns)).collect());
    let own_us = requests_us.saturating_sub(covered(of_services(tree, awaited)));
    let actions = of_client(tree, ACTION);
    let longest = actions.iter().copied().max_by_key(|&index| tree.points[index].self_us);
    let kind = longest.map_or_else(Kind::default, |index| kind(tree, index));
    // Several requests have one sum, which no point shows.
    LargestPart { kind, own_us, calls: 1, longest: longest.filter(|_| actions.len() == 1) }
}

/// The intervals of all points of services; what a poll waited for goes on when the request that began it has ended.
fn of_services(tree: &TraceTree, awaited: &[Option<(u64, u64)>]) -> Vec<(u64, u64)> {
    let points = tree.points.iter().zip(awaited);
    points
        .filter(|(point, _)| !is_client(point) && point.duration_us.is_some())
        .filter_map(|(_, part)| *part)
        .collect()
}

/// The time during which at least one interval was open.
fn covered(mut open: Vec<(u64, u64)>) -> u64 {
    open.sort_unstable();
    let (mut covered, mut until) = (0_u64, 0);
    for (start, end) in open {
        let start = start.max(until);
        if end > start {
            covered = covered.saturating_add(end - start);
            until = end;
        }
    }
    covered
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::sample::ActionSample;
    use osprofiler::record::{Info, TraceRecord};

    /// An iteration of a client whose request takes this long after this queue time, with a service's points as (id,
    /// parent, name, start, end) in milliseconds.
    fn of(
        points: &[(&str, &str, &str, u64, Option<u64>)],
        (queue_ms, pause_ms, request_ms): (u64, u64, u64),
    ) -> Option<(String, u64, u64)> {
        let (tree, sample) = built(points, (queue_ms, pause_ms, request_ms));
        let found = largest(&tree, &sample)?;
        Some((found.kind.name, found.calls, found.own_us / 1_000))
    }

    fn built(
        points: &[(&str, &str, &str, u64, Option<u64>)],
        (queue_ms, pause_ms, request_ms): (u64, u64, u64),
    ) -> (TraceTree, IterationSample) {
        let record = |name: String, id: &str, parent: &str, ms: u64, project: &str| TraceRecord {
            name: name.into(),
            base_id: "b".into(),
            trace_id: id.into(),
            parent_id: parent.into(),
            timestamp: format!("2026-11-20T22:52:{:02}.{:03}000", ms / 1000, ms % 1000).into(),
            info: Info::new().into(),
            project: Some(project.into()),
            service: Some(project.into()),
        };
        let start_ms = queue_ms + pause_ms;
        let client = [
            ("i", "b", "iteration", 0, Some(start_ms + request_ms)),
            ("q", "i", "scheduling delay", 0, Some(queue_ms)),
            ("a", "i", "action", start_ms, Some(start_ms + request_ms)),
        ];
        let mut records = Vec::new();
        let all = client.iter().map(|one| (one, "bench")).chain(points.iter().map(|one| (one, "shop")));
        for ((id, parent, name, start, end), project) in all {
            let from = if project == "bench" { 0 } else { start_ms };
            records.push(record(format!("{name}-start"), id, parent, from + start, project));
            records.extend(end.map(|end| record(format!("{name}-stop"), id, parent, from + end, project)));
        }
        let ns = |ms: u64| ms * 1_000_000;
        let action = ActionSample {
            offset_ns: ns(pause_ms),
            duration_ns: ns(request_ms),
            requests: 1,
            ..ActionSample::default()
        };
        let sample = IterationSample {
            start_ns: ns(queue_ms),
            duration_ns: ns(pause_ms + request_ms),
            actions: vec![action],
            ..IterationSample::default()
        };
        (TraceTree::build(&records), sample)
    }

    /// Of the calls of a kind, the longest is shown; of equally long ones, the first.
    #[test]
    fn the_longest_call_of_the_kind_is_shown() {
        for (lengths_ms, expected_ms) in
            [([20, 30, 10], 20), ([30, 20, 10], 0), ([10, 20, 30], 30), ([20, 20, 20], 0)]
        {
            let mut at_ms = 0;
            let calls = lengths_ms.map(|ms| {
                at_ms += ms;
                (at_ms - ms, at_ms)
            });
            let points: Vec<_> = ["1", "2", "3"]
                .into_iter()
                .zip(calls)
                .map(|(id, (from, to))| (id, "a", "db", from, Some(to)))
                .collect();
            let (tree, sample) = built(&points, (0, 0, 60));
            let found = largest(&tree, &sample).unwrap();
            assert_eq!((found.kind.name.as_str(), found.calls), ("db", 3));
            let shown = &tree.points[found.longest.unwrap()];
            let first_us = tree
                .points
                .iter()
                .filter(|point| point.name == "db")
                .map(|point| point.start_us)
                .min()
                .unwrap();
            assert_eq!((shown.start_us - first_us) / 1_000, expected_ms, "{lengths_ms:?}");
        }
    }

    #[test]
    fn the_kind_with_the_most_own_time_is_found() {
        let rows: [(&str, &[_], _, _); 7] = [
            (
                "a slow query",
                &[("1", "a", "wsgi", 0, Some(95)), ("2", "1", "db", 1, Some(91))],
                (0, 0, 100),
                ("db", 1, 90),
            ),
            (
                "many short queries",
                &[
                    ("1", "a", "wsgi", 0, Some(90)),
                    ("2", "1", "db", 0, Some(25)),
                    ("3", "1", "db", 30, Some(55)),
                ],
                (0, 0, 100),
                ("db", 2, 50),
            ),
            (
                "a lock in the parent",
                &[("1", "a", "wsgi", 0, Some(90)), ("2", "1", "db", 0, Some(5))],
                (0, 0, 100),
                ("wsgi", 1, 85),
            ),
            ("the network", &[("1", "a", "wsgi", 0, Some(10))], (0, 0, 100), ("action", 1, 90)),
            (
                "two at once",
                &[("1", "a", "one", 0, Some(10)), ("2", "a", "two", 5, Some(14))],
                (0, 0, 20),
                ("one", 1, 10),
            ),
            ("the queue", &[("1", "a", "wsgi", 0, Some(95))], (150, 0, 100), ("scheduling delay", 1, 150)),
            (
                "neither a pause nor a lost stop",
                &[("1", "a", "wsgi", 0, None), ("2", "1", "rpc", 0, Some(60)), ("3", "2", "db", 0, Some(10))],
                (0, 1_000, 80),
                ("rpc", 1, 50),
            ),
        ];
        for (what, points, times, (name, calls, own_ms)) in rows {
            assert_eq!(of(points, times), Some((name.to_owned(), calls, own_ms)), "{what}");
        }
        assert_eq!(of(&[], (5, 0, 9)), None);
        // Nothing took any time.
        assert_eq!(of(&[("1", "a", "wsgi", 0, Some(0))], (0, 0, 0)), None);
        // After a pause, which does not count.
        let wsgi = [("1", "a", "wsgi", 0, Some(10))];
        assert_eq!(of(&wsgi, (0, 1_000, 100)), Some(("action".to_owned(), 1, 90)));
    }

    /// Several requests have one sum, which no point shows.
    #[test]
    fn time_outside_is_shown_by_the_point_of_the_only_request() {
        let (mut tree, mut sample) = built(&[("1", "a", "wsgi", 0, Some(10))], (0, 0, 100));
        let found = outside(&tree, &sample, &asynchronous::awaited(&tree));
        assert_eq!(found.longest.map(|index| tree.points[index].name.as_str()), Some(ACTION));
        // A step without a request does not count, however long it was.
        sample.actions.push(ActionSample {
            duration_ns: 900_000_000,
            requests: 0,
            ..ActionSample::default()
        });
        assert_eq!(outside(&tree, &sample, &asynchronous::awaited(&tree)).own_us, found.own_us);
        tree.points.push(tree.points[found.longest.unwrap()].clone());
        sample.actions.push(sample.actions[0]);
        assert_eq!(outside(&tree, &sample, &asynchronous::awaited(&tree)).longest, None);
    }

    #[test]
    fn what_is_open_twice_is_covered_once() {
        for (open, expected) in [
            (vec![], 0),
            (vec![(5, 10)], 5),
            (vec![(7, 12), (5, 10)], 7),
            (vec![(5, 20), (7, 9), (9, 12)], 15),
            (vec![(5, 10), (20, 25)], 10),
            (vec![(9, 3)], 0),
        ] {
            assert_eq!(covered(open.clone()), expected, "{open:?}");
        }
    }
}
