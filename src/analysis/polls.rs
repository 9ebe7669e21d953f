//! Polls of the client, and the work that they wait for.
//!
//! A service may answer a request at once and do the work later: Nova answers before a server boots. A client that then
//! asks again and again until the work is done waits for that work, although no request does. So what goes on beside a
//! poll belongs to it, until the last of its requests was sent: what that one saw was done before. Time of a poll in
//! which no traced service worked is a pause, and only the interval's fault, unless the work is not traced. A poll
//! tells times only as finely as its interval: what takes a little longer may need one more request, and so a whole
//! pause more.

use osprofiler::report::{Point, TraceTree};
use results::client_points::{ACTION, REPORTER};

/// The name of the kind of a poll's time in which no traced service worked.
pub const PAUSE: &str = "pause between polls";

/// Pauses that got longer by no more than this many intervals are one more request, which explains nothing.
const INTERVALS_MIN: f64 = 1.5;

/// A poll that sent several requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Poll {
    /// The index of its point.
    pub index: usize,
    /// When it began, in microseconds from the start of the trace.
    pub start_us: u64,
    /// When a service got its last request.
    pub last_us: u64,
}

/// True for the client's point of an action that sent several requests for which services have points.
#[must_use]
pub fn is_poll(tree: &TraceTree, index: usize) -> bool {
    let Some(point) = tree.points.get(index).filter(|point| is_client(point) && point.name == ACTION) else {
        return false;
    };
    // The client has no points of its own below such an action.
    let is_served = |below: &Point| below.parent == Some(index) && !is_client(below);
    requests(point) > 1 && tree.points.get(index + 1).is_some_and(is_served)
}

/// All polls of a trace, in the order of their starts.
#[must_use]
pub fn polls(tree: &TraceTree) -> Vec<Poll> {
    let mut found: Vec<Poll> = (0..tree.points.len())
        .filter(|&index| is_poll(tree, index))
        .map(|index| Poll {
            index,
            start_us: tree.points[index].start_us,
            last_us: tree.points[index].start_us,
        })
        .collect();
    for point in &tree.points {
        // Few actions poll.
        if let Some(poll) = found.iter_mut().find(|poll| Some(poll.index) == point.parent) {
            poll.last_us = poll.last_us.max(point.start_us);
        }
    }
    found.sort_by_key(|poll| (poll.start_us, poll.index));
    found
}

/// The poll that waited for work of this time, and for which part of it.
#[must_use]
pub fn waiting_for(polls: &[Poll], (start_us, end_us): (u64, u64)) -> Option<(usize, (u64, u64))> {
    let poll = polls.iter().find(|poll| poll.last_us > start_us)?;
    let part = (start_us.max(poll.start_us), end_us.min(poll.last_us));
    (part.0 < part.1).then_some((poll.index, part))
}

/// Whether pauses that got longer by this much on average are no more than one request more. `pauses` are points whose
/// time is a pause, each as its tree and its index there.
#[must_use]
pub fn is_one_request_more<'a>(longer_us: f64, pauses: impl Iterator<Item = (&'a TraceTree, usize)>) -> bool {
    let (mut us, mut intervals) = (0, 0);
    for (tree, index) in pauses {
        let point = &tree.points[index];
        us += point.duration_us.unwrap_or(0);
        intervals += requests(point).saturating_sub(1);
    }
    longer_us * intervals as f64 <= INTERVALS_MIN * us as f64
}

fn requests(point: &Point) -> u64 {
    point.stop_info.value("requests").and_then(|requests| requests.as_u64()).unwrap_or(1)
}

fn is_client(point: &Point) -> bool {
    point.project.as_deref() == Some(REPORTER)
}
