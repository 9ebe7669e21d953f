//! One trace, or the calls of several: text, JSON and DOT for `bench trace`, and Python's profile format.
//!
//! The HTML page is beside the run's report ([`super::html::trace`]), with which it shares its waterfall. Text
//! from traces is hostile: terminals get it with every control and deceptive character written out.

pub mod diff;
pub mod dot;
pub mod fetched;
pub mod functions;
pub mod json;
pub mod list;
pub mod pstats;
pub mod ranking;
pub mod stats;
pub mod text;

use osprofiler::report::{Point, TraceTree};
use results::rpc::QUEUE;

/// What a point lacks: `start`, `stop`, or nothing.
#[must_use]
pub fn missing(point: &Point) -> Option<&'static str> {
    match (point.duration_us, point.reversed_us) {
        (Some(_), _) | (_, Some(_)) => None,
        _ if point.starts => Some("stop"),
        _ => Some("start"),
    }
}

/// Why it is not known how long a point took; `None` where it is.
#[must_use]
pub fn incomplete(point: &Point) -> Option<&'static str> {
    match missing(point) {
        Some("start") => Some("no start"),
        Some(_) => Some("no stop"),
        None => point.reversed_us.map(|_| "ends before it starts"),
    }
}

/// How many points services reported: those for the time that messages waited are made of others.
#[must_use]
pub fn reported(tree: &TraceTree) -> usize {
    tree.points.iter().filter(|point| point.name != QUEUE).count()
}
