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

use crate::osprofiler::report::Point;

/// What a point lacks: `start`, `stop`, or nothing.
#[must_use]
pub fn missing(point: &Point) -> Option<&'static str> {
    match point.duration_us {
        Some(_) => None,
        None if point.starts => Some("stop"),
        None => Some("start"),
    }
}
