//! One trace, or the calls of several: text, JSON and DOT for `bench trace`, and Python's profile format.
//!
//! The HTML page is beside the run's report ([`super::html::trace`]), with which it shares its waterfall. Text
//! from traces is hostile: terminals get it with every control and deceptive character written out.

pub mod dot;
pub mod json;
pub mod pstats;
pub mod ranking;
pub mod stats;
pub mod text;

use crate::osprofiler::report::Point;

/// `keystone/public`: who reported a point; empty if it does not say.
#[must_use]
pub fn reporter(point: &Point) -> String {
    match (point.project.as_deref().unwrap_or_default(), point.service.as_deref().unwrap_or_default()) {
        (project, "") => project.to_owned(),
        ("", service) => service.to_owned(),
        (project, service) if project == service => service.to_owned(),
        (project, service) => format!("{project}/{service}"),
    }
}

/// What a point lacks: `start`, `stop`, or nothing.
#[must_use]
pub fn missing(point: &Point) -> Option<&'static str> {
    match point.duration_us {
        Some(_) => None,
        None if point.starts => Some("stop"),
        None => Some("start"),
    }
}
