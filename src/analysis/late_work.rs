//! When work of an iteration that nothing waited for ended, and the path to that end.
//!
//! A trace may go on after the response: a message is sent, waits in a queue, a worker takes it, fails, and does it
//! again. [`end_us`] says when its last point ended. [`to_the_end`] makes the tree of what that end waited for, so that
//! late work is explained as slow responses are. From the point that ended last, the path goes back to what started it.
//! What started work and did not wait for it counts until then. From then on, the path is the time that the work waited
//! to begin, which gets a point of its own, and the work itself. What goes on beside the path takes no time.
//!
//! The end of a point is a time on its host's clock. A host's clock is moved only where it contradicts something
//! certain. A service that was called by the client, or by another service that waits for the answer, began during the
//! call. Nothing begins before what began it, and nothing ended after traces were read. Smaller differences between
//! clocks are part of the result. Nothing here may compare.

use serde_json::json;

use super::asynchronous::{
    answers, clock, is_client, is_consumer, is_linked, is_producer, is_sent, outlives,
};
use super::polls::{polls, waiting_for};
use super::statement;
use osprofiler::report::{Point, TraceTree};
use osprofiler::spans::read::LINK;
use results::client_points::{ITERATION, QUEUE_TIME_POINT};
use results::rpc::{QUEUE, caller_of};

/// The name of a point for the time that a message waited until its work began.
pub const WAITING_IN_QUEUE: &str = "waiting in the queue";
/// The same before another attempt at the same message or job.
pub const WAITING_AGAIN: &str = "waiting to run again";
/// The same of work that began without a message, such as a task in the background.
pub const WAITING_TO_BEGIN: &str = "waiting to begin";

/// Whether a kind of point of this name is time in which work waited to begin.
#[must_use]
pub fn is_waiting(name: &str) -> bool {
    [WAITING_IN_QUEUE, WAITING_AGAIN, WAITING_TO_BEGIN].contains(&name)
}

/// How far into its iteration the last point of a trace ended, in microseconds from when the iteration was due; `None`
/// without a service's point. `latest_us` from there, traces were read, so nothing ended later. The tree must have the
/// client's points.
#[must_use]
pub fn end_us(tree: &TraceTree, latest_us: u64) -> Option<u64> {
    let timed = TraceTimeline::of(tree, latest_us)?;
    let last_us = timed.times[timed.last()].1;
    tree.points.iter().any(|point| !is_client(point)).then(|| last_us.saturating_sub(timed.due_us()))
}

/// The tree of what the end of a trace's last point waited for, on the client's clock: its iteration takes as long as
/// [`end_us`] says. `None` for a tree without the client's points.
#[must_use]
pub fn to_the_end(tree: &TraceTree, latest_us: u64) -> Option<TraceTree> {
    let timed = TraceTimeline::of(tree, latest_us)?;
    let last = timed.last();
    match is_client(&tree.points[last]) {
        // The response came last.
        true => Some(tree.clone()),
        false => Some(Path::of(&timed, last).tree(&timed)),
    }
}

/// The same without the time before the iteration started, which is the client's, not the work's.
#[must_use]
pub fn from_the_start(mut tree: TraceTree, lag_us: u64) -> TraceTree {
    let is_iteration = |point: &Point| is_client(point) && point.name == ITERATION;
    let Some(iteration) = tree.points.iter().position(is_iteration) else { return tree };
    let start_us = tree.points[iteration].start_us.saturating_add(lag_us);
    for point in &mut tree.points {
        if is_iteration(point) {
            point.duration_us = point.duration_us.map(|us| us.saturating_sub(lag_us));
            point.start_us = start_us;
        } else if is_client(point) && point.name == QUEUE_TIME_POINT {
            (point.start_us, point.duration_us) = (start_us, point.duration_us.map(|_| 0));
        }
    }
    tree
}

/// A trace on the client's clock.
struct TraceTimeline<'a> {
    tree: &'a TraceTree,
    /// The client's point of the iteration.
    iteration: usize,
    /// The start and end of each point, in microseconds from the start of the trace.
    times: Vec<(u64, u64)>,
}

impl<'a> TraceTimeline<'a> {
    fn of(tree: &'a TraceTree, latest_us: u64) -> Option<Self> {
        let iteration = tree.points.iter().position(|point| is_client(point) && point.name == ITERATION)?;
        let span = |point: &Point| {
            let start_us = signed(point.start_us);
            (start_us, point.end_us().map_or(start_us, signed))
        };
        let (due_us, response_us) = span(&tree.points[iteration]);
        let latest_us = due_us.saturating_add(signed(latest_us));
        let mut moved_us: Vec<i64> = Vec::with_capacity(tree.points.len());
        let mut times = Vec::with_capacity(tree.points.len());
        for (index, point) in tree.points.iter().enumerate() {
            let above = point.parent.filter(|&above| above < index);
            let parent = above.unwrap_or(iteration);
            let by_us = if is_client(point) {
                0
            } else {
                let on = above.map_or(0, |above| moved_us[above]);
                let is_same = above.is_some_and(|above| clock(&tree.points[above]) == clock(point));
                let around = span(&tree.points[parent]);
                let around = (around.0.saturating_add(on), around.1.saturating_add(on));
                let is_called = is_client(&tree.points[parent]) || answers(&tree.points[parent], point);
                if is_same { on } else { moved(span(point), on, around, is_called, latest_us) }
            };
            moved_us.push(by_us);
            let (start_us, end_us) = span(point);
            let end_us = end_us.saturating_add(by_us);
            // One that claims to end later than its trace was read is wrong.
            let end_us = if is_client(point) { end_us } else { end_us.min(latest_us.max(response_us)) };
            let from_us = |us: i64| us.max(0).unsigned_abs();
            let start_us = from_us(start_us.saturating_add(by_us));
            times.push((start_us, from_us(end_us).max(start_us)));
        }
        Some(Self { tree, iteration, times })
    }

    fn due_us(&self) -> u64 {
        self.times[self.iteration].0
    }

    /// The point that ends last; of several, the outermost. The time that a message of an RPC waited is on two clocks.
    fn last(&self) -> usize {
        let mut last = self.iteration;
        for (index, times) in self.times.iter().enumerate() {
            if times.1 > self.times[last].1 && self.tree.points[index].name != QUEUE {
                last = index;
            }
        }
        last
    }

    /// The point around another one. What has none is the iteration's.
    fn above(&self, index: usize) -> Option<usize> {
        let above = self.tree.points[index].parent.filter(|&above| above < index);
        above.or_else(|| (index != self.iteration).then_some(self.iteration))
    }

    /// Whether a point does not wait for one below it.
    fn is_handed_off(&self, above: usize, index: usize) -> bool {
        let (parent, point) = (&self.tree.points[above], &self.tree.points[index]);
        let (around, own) = (self.times[above], self.times[index]);
        if is_client(point) {
            return false;
        }
        let waits = is_client(parent) || answers(parent, point);
        is_linked(point)
            || own.0 >= around.1 && own.1 > around.1
            || !waits && outlives(own, around)
            || caller_of(self.tree, index).is_some() && is_sent(around, own)
    }
}

/// The path to the end of a trace.
struct Path {
    /// Whether each point is on the path.
    is_on: Vec<bool>,
    /// Until when the points beside the path count that are below each point on it.
    until_us: Vec<u64>,
    /// Before which points on the path, and before which earlier runs of their work, it waited, since when.
    waited: Vec<Option<u64>>,
    /// Runs of the same work, for the same message, before that on the path.
    is_earlier_run: Vec<bool>,
    end_us: u64,
}

impl Path {
    fn of(timed: &TraceTimeline<'_>, last: usize) -> Self {
        let number = timed.times.len();
        let mut path = Self {
            is_on: vec![false; number],
            until_us: vec![u64::MAX; number],
            waited: vec![None; number],
            is_earlier_run: vec![false; number],
            end_us: timed.times[last].1,
        };
        let (mut index, mut until_us) = (last, u64::MAX);
        path.is_on[last] = true;
        while let Some(above) = timed.above(index) {
            path.is_on[above] = true;
            if timed.is_handed_off(above, index) {
                let (begun_us, done_us) = (timed.times[index].0, timed.times[above].1);
                path.until_us[above] = begun_us;
                until_us = done_us.min(begun_us);
                let mut since_us = done_us;
                let earlier = earlier_runs(timed, above, index);
                for &run in earlier.iter().chain([&index]) {
                    until_us = until_us.min(timed.times[run].0);
                    path.waited[run] = (since_us < timed.times[run].0).then_some(since_us);
                    since_us = since_us.max(timed.times[run].1);
                }
                earlier.into_iter().for_each(|run| path.is_earlier_run[run] = true);
            } else {
                path.until_us[above] = until_us;
            }
            index = above;
        }
        path
    }

    fn tree(&self, timed: &TraceTimeline<'_>) -> TraceTree {
        let old = &timed.tree.points;
        let mut points: Vec<Point> = Vec::with_capacity(old.len());
        let mut place_of: Vec<Option<usize>> = vec![None; old.len()];
        let (mut until_us, polls) = (self.until_us.clone(), polls(timed.tree));
        // What has no parent there may come before the iteration.
        let others = (0..old.len()).filter(|index| *index != timed.iteration);
        for index in std::iter::once(timed.iteration).chain(others) {
            let (start_us, end_us) = timed.times[index];
            let above = timed.above(index);
            let parent = above.and_then(|above| place_of[above]);
            let end_us = match above {
                _ if self.is_on[index] => self.end_us,
                Some(above) => {
                    let until = until_us[above];
                    let is_beside = timed.is_handed_off(above, index)
                        && !self.is_earlier_run[index]
                        && waiting_for(&polls, timed.times[index]).is_none();
                    if parent.is_none() || start_us >= until || is_beside {
                        continue;
                    }
                    until_us[index] = until;
                    end_us.min(until)
                }
                None => continue,
            };
            points.extend(self.wait(timed, index, parent));
            place_of[index] = Some(points.len());
            let mut point = Point { parent, start_us, ..old[index].clone() };
            point.duration_us = point.duration_us.map(|_| end_us.saturating_sub(start_us));
            if is_linked(&point) {
                point.info_mut().remove(LINK);
            }
            points.push(point);
        }
        let TraceTree { first_unix_us, unreadable, ref gaps, .. } = *timed.tree;
        TraceTree { first_unix_us, points, unreadable, gaps: gaps.clone() }
    }

    /// The point for the time that the work of a point on the path waited, if it did.
    fn wait(&self, timed: &TraceTimeline<'_>, index: usize, parent: Option<usize>) -> Option<Point> {
        let (from_us, to_us) = (self.waited[index]?, timed.times[index].0);
        let above = timed.above(index)?;
        let (sender, point) = (&timed.tree.points[above], &timed.tree.points[index]);
        let is_again = from_us > timed.times[above].1 || has_run(timed, index);
        let is_rpc = caller_of(timed.tree, index).is_some();
        let by_message = is_rpc || is_producer(sender) || is_consumer(point) || is_linked(point);
        let name = match () {
            () if is_again => WAITING_AGAIN,
            () if by_message => WAITING_IN_QUEUE,
            () => WAITING_TO_BEGIN,
        };
        let mut info = json!({ "name": statement::name_and_kind(point) });
        if let Some(attributes) = point.info.get("attributes") {
            info["attributes"] = attributes.clone();
        }
        Some(Point {
            depth: point.depth,
            parent,
            trace_id: format!("{}-wait", point.trace_id).into(),
            parent_id: sender.trace_id.clone(),
            name: name.into(),
            service: point.service.clone(),
            project: point.project.clone(),
            host: point.host.clone(),
            start_us: from_us,
            starts: true,
            reversed_us: None,
            duration_us: Some(to_us - from_us),
            self_us: Some(to_us - from_us),
            error: None,
            info: info.as_object().cloned().unwrap_or_default().into(),
            stop_info: serde_json::Map::new().into(),
        })
    }
}

/// What tells one message or job from another, by OpenTelemetry's conventions, Celery and BullMQ.
const MESSAGE_IDS: [&str; 4] =
    ["messaging.message.id", "messaging.message_id", "celery.task_id", "bullmq.job.id"];

/// Whether two points are the same work on the same message, such as a task and its second attempt. A worker may do the
/// same work for several messages, and a task may send itself the next one.
fn is_same_work(one: &Point, other: &Point) -> bool {
    let id = |point: &Point, key: &str| point.info.text_at(&["attributes", key]).map(|id| id.into_owned());
    let has_same_id = || {
        let mut ids = MESSAGE_IDS.iter().filter_map(|key| id(one, key).zip(id(other, key)));
        ids.next().is_some_and(|(one, other)| one == other)
    };
    one.name == other.name && one.has_reporter_of(other) && (one.error.is_some() || has_same_id())
}

/// Work that is further above was no attempt at the same message: a trace may be as deep as it likes.
const ABOVE_MAX: usize = 1_000;

/// Whether the same work is above a point already.
fn has_run(timed: &TraceTimeline<'_>, index: usize) -> bool {
    let points = &timed.tree.points;
    std::iter::successors(timed.above(index), |&above| timed.above(above))
        .take(ABOVE_MAX)
        .any(|above| is_same_work(&points[above], &points[index]))
}

/// The runs of a point's work for the same message before it, first run first.
fn earlier_runs(timed: &TraceTimeline<'_>, above: usize, index: usize) -> Vec<usize> {
    let (points, begun_us) = (&timed.tree.points, timed.times[index].0);
    if !is_producer(&points[above]) {
        return Vec::new();
    }
    let is_earlier = |&run: &usize| {
        points[run].parent == Some(above)
            && is_same_work(&points[run], &points[index])
            && timed.times[run].1 <= begun_us
    };
    let mut runs: Vec<usize> = (above + 1..index).filter(is_earlier).collect();
    runs.sort_by_key(|&run| timed.times[run]);
    runs
}

/// By how much to move the clock of a point, if it may agree with the clock that is moved `by_us`. `around` is the point
/// above it, moved already.
fn moved(point: (i64, i64), by_us: i64, around: (i64, i64), is_called: bool, latest_us: i64) -> i64 {
    let start_us = point.0.saturating_add(by_us);
    let is_too_late = is_called && start_us > around.1 || point.1.saturating_add(by_us) > latest_us;
    match start_us < around.0 || is_too_late {
        true => around.0.saturating_sub(point.0),
        false => by_us,
    }
}

fn signed(us: u64) -> i64 {
    i64::try_from(us).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::breakdown::break_down;
    use crate::sample_trees::{SamplePoint, at, iteration, linked, with};

    #[test]
    fn the_end_of_the_last_point_counts_on_the_clients_clock() {
        let hour = 3_600_000;
        for (what, services, expected) in [
            ("nothing of a service", vec![], None),
            ("a response", vec![at(3, 2, "GET", "shop", (5_005, 5_095))], Some(100)),
            (
                "a consumer",
                vec![at(3, 2, "GET", "shop", (5_005, 5_095)), at(4, 3, "work", "worker", (5_200, 5_900))],
                Some(900),
            ),
            (
                "a service whose clock is an hour ahead",
                vec![
                    at(3, 2, "GET", "shop", (hour + 5_005, hour + 5_095)),
                    at(4, 3, "work", "shop", (hour + 5_200, hour + 5_900)),
                ],
                Some(896),
            ),
            (
                "a service whose clock is behind, and a consumer whose clock is right",
                vec![at(3, 2, "GET", "shop", (4_005, 4_095)), at(4, 3, "work", "worker", (5_200, 5_900))],
                Some(900 + 996),
            ),
            (
                "a consumer whose clock is ahead",
                vec![
                    at(3, 2, "GET", "shop", (5_005, 5_095)),
                    at(4, 3, "work", "worker", (hour + 5_200, hour + 5_900)),
                ],
                Some(705),
            ),
            (
                "a consumer whose clock is behind",
                vec![at(3, 2, "GET", "shop", (5_005, 5_095)), at(4, 3, "work", "worker", (200, 900))],
                Some(705),
            ),
        ] {
            let end_us = end_us(&iteration(services), 60_000_000);
            assert_eq!(end_us.map(|us| us / 1_000), expected, "{what}");
        }
        assert_eq!(end_us(&TraceTree::default(), 1), None);
    }

    #[test]
    fn a_server_begins_before_its_client_ends() {
        for (what, services, expected) in [
            (
                "a server whose clock is half a second ahead",
                vec![
                    at(3, 2, "GET", "shop", (5_005, 5_095)),
                    with(at(4, 3, "call", "shop", (5_010, 5_090)), json!({"kind": "client"})),
                    with(at(5, 4, "GET", "stock", (5_515, 5_585)), json!({"kind": "server"})),
                    at(6, 5, "db", "stock", (5_520, 5_580)),
                ],
                Some(100),
            ),
            (
                "the same by OSProfiler",
                vec![
                    at(3, 2, "GET", "shop", (5_005, 5_095)),
                    with(at(4, 3, "call", "shop", (5_010, 5_090)), json!({"requests": {"path": "/"}})),
                    with(at(5, 4, "GET", "stock", (5_515, 5_585)), json!({"request": {"path": "/"}})),
                ],
                Some(100),
            ),
            (
                "work on another host that nobody waits for",
                vec![
                    at(3, 2, "GET", "shop", (5_005, 5_095)),
                    with(at(4, 3, "call", "shop", (5_010, 5_090)), json!({"kind": "client"})),
                    at(5, 4, "work", "stock", (5_515, 5_585)),
                ],
                Some(585),
            ),
            (
                "a span that claims hours",
                vec![at(3, 2, "GET", "shop", (5_005, 5_095)), at(4, 3, "job", "shop", (5_010, 9_000_000))],
                Some(60_000),
            ),
        ] {
            let end_us = end_us(&iteration(services), 60_000_000);
            assert_eq!(end_us.map(|us| us / 1_000), expected, "{what}");
        }
    }

    fn kind(point: SamplePoint, kind: &str) -> SamplePoint {
        with(point, json!({ "kind": kind }))
    }

    /// A shop that answers 95 ms after it was asked, and sends a message at 10 ms.
    fn queued() -> Vec<SamplePoint> {
        let send = kind(at(4, 3, "send", "shop", (5_010, 5_012)), "producer");
        vec![at(3, 2, "GET", "shop", (5_005, 5_095)), at(9, 3, "db", "shop", (5_006, 5_009)), send]
    }

    /// Each point with its start and end in milliseconds.
    fn shown(path: &TraceTree) -> String {
        let ms = |us: u64| us / 1_000;
        let points = path
            .points
            .iter()
            .map(|point| format!("{} {} {}", point.name, ms(point.start_us), ms(point.end_us().unwrap())));
        points.collect::<Vec<_>>().join(", ")
    }

    #[test]
    fn a_poll_waits_for_the_work_beside_it() {
        let send = |id, parent, ms| kind(at(id, parent, "send", "shop", ms), "producer");
        let work = |id, parent, ms| kind(at(id, parent, "work", "worker", ms), "consumer");
        let mut tree = iteration(vec![
            at(3, 2, "GET", "shop", (5_005, 5_010)),
            send(4, 3, (5_006, 5_007)),
            work(5, 4, (5_020, 5_060)),
            at(6, 2, "GET", "shop", (5_090, 5_095)),
            send(7, 6, (5_091, 5_092)),
            work(8, 7, (5_150, 5_300)),
        ]);
        let all = |first: &str| {
            format!(
                "iteration 0 300, action 1 300, GET 5 10, send 6 7, {first}GET 90 300, send 91 300, \
                 waiting in the queue 92 150, work 150 300"
            )
        };
        assert_eq!(shown(&to_the_end(&tree, 60_000_000).unwrap()), all(""), "two requests, and no poll");
        tree.points[1].stop_info.to_mut().insert("requests".to_owned(), 2.into());
        assert_eq!(shown(&to_the_end(&tree, 60_000_000).unwrap()), all("work 20 60, "));
    }

    #[test]
    #[expect(clippy::too_many_lines, reason = "a table of traces")]
    fn the_path_leads_to_the_point_that_ends_last() {
        let consumer = |id, parent, ms| kind(at(id, parent, "work", "worker", ms), "consumer");
        let all = |more: Vec<SamplePoint>| queued().into_iter().chain(more).collect::<Vec<SamplePoint>>();
        let of_message = |id, parent, ms, message: &str| {
            let info = json!({ "kind": "consumer", "attributes": { "messaging.message.id": message } });
            with(at(id, parent, "work", "worker", ms), info)
        };
        for (what, services, expected) in [
            ("a response that comes last", all(vec![consumer(5, 4, (5_030, 5_090))]), "as it was"),
            (
                "a queue",
                all(vec![
                    consumer(5, 4, (5_150, 5_300)),
                    at(6, 5, "db", "worker", (5_160, 5_200)),
                    at(7, 3, "render", "shop", (5_020, 5_090)),
                ]),
                "iteration 0 300, action 1 300, GET 5 300, db 6 9, send 10 300, waiting in the queue 12 150, work 150 300, \
                 db 160 200",
            ),
            (
                "a task that is tried again",
                all(vec![
                    of_message(5, 4, (5_020, 5_040), "m"),
                    kind(at(6, 5, "send", "worker", (5_030, 5_035)), "producer"),
                    of_message(7, 6, (5_135, 5_155), "m"),
                ]),
                "iteration 0 155, action 1 155, GET 5 155, db 6 9, send 10 155, waiting in the queue 12 20, work 20 155, \
                 send 30 155, waiting to run again 35 135, work 135 155",
            ),
            (
                "the same where each attempt is below the message",
                all(vec![
                    of_message(5, 4, (5_020, 5_040), "m"),
                    at(6, 5, "db", "worker", (5_025, 5_030)),
                    of_message(7, 4, (5_140, 5_160), "m"),
                ]),
                "iteration 0 160, action 1 160, GET 5 160, db 6 9, send 10 160, waiting in the queue 12 20, work 20 40, \
                 db 25 30, waiting to run again 40 140, work 140 160",
            ),
            (
                "attempts that overlap",
                all(vec![
                    of_message(5, 4, (5_020, 5_130), "m"),
                    of_message(6, 4, (5_025, 5_030), "m"),
                    of_message(7, 4, (5_140, 5_160), "m"),
                ]),
                "iteration 0 160, action 1 160, GET 5 160, db 6 9, send 10 160, waiting in the queue 12 20, work 20 130, \
                 work 25 30, waiting to run again 130 140, work 140 160",
            ),
            (
                "a batch of messages, and another kind of work",
                all(vec![
                    of_message(5, 4, (5_020, 5_040), "m"),
                    of_message(7, 4, (5_140, 5_160), "n"),
                    kind(at(8, 4, "other", "worker", (5_050, 5_060)), "consumer"),
                ]),
                "iteration 0 160, action 1 160, GET 5 160, db 6 9, send 10 160, waiting in the queue 12 140, work 140 160",
            ),
            (
                "a task that sends the next one",
                all(vec![
                    of_message(5, 4, (5_020, 5_040), "m"),
                    kind(at(6, 5, "send", "worker", (5_030, 5_035)), "producer"),
                    of_message(7, 6, (5_135, 5_155), "n"),
                ]),
                "iteration 0 155, action 1 155, GET 5 155, db 6 9, send 10 155, waiting in the queue 12 20, work 20 155, \
                 send 30 155, waiting in the queue 35 135, work 135 155",
            ),
            (
                "two tasks, of which one is late",
                all(vec![
                    consumer(5, 4, (5_020, 5_140)),
                    kind(at(6, 3, "send", "shop", (5_014, 5_015)), "producer"),
                    consumer(7, 6, (5_020, 5_200)),
                ]),
                "iteration 0 200, action 1 200, GET 5 200, db 6 9, send 10 12, send 14 200, waiting in the queue 15 20, \
                 work 20 200",
            ),
            (
                "a task in the background, from within the request",
                all(vec![at(5, 3, "task", "shop", (5_050, 5_400)), at(6, 5, "db", "shop", (5_100, 5_390))]),
                "iteration 0 400, action 1 400, GET 5 400, db 6 9, send 10 12, task 50 400, db 100 390",
            ),
            (
                "a task in the background, after the response",
                all(vec![at(5, 3, "task", "shop", (5_100, 5_400))]),
                "iteration 0 400, action 1 400, GET 5 400, db 6 9, send 10 12, waiting to begin 95 100, task 100 400",
            ),
            (
                "work behind a link",
                all(vec![with(at(5, 4, "work", "worker", (5_150, 5_300)), linked())]),
                "iteration 0 300, action 1 300, GET 5 300, db 6 9, send 10 300, waiting in the queue 12 150, work 150 300",
            ),
        ] {
            let tree = iteration(services);
            let path = to_the_end(&tree, 60_000_000).unwrap();
            if expected == "as it was" {
                assert_eq!(path, tree, "{what}");
                continue;
            }
            assert_eq!(shown(&path), expected, "{what}");
            // All of it adds up to the time until the end.
            let parts = &break_down(std::slice::from_ref(&path), 1).traces[0].as_ref().unwrap().parts.clone();
            let sum_us: f64 = parts.iter().map(|part| part.exclusive_us).sum();
            assert_eq!(sum_us, end_us(&tree, 60_000_000).unwrap() as f64, "{what}");
        }
    }
}
