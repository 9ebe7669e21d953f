//! Points by their kind of call: what they did, without the values that differ from call to call.

pub use crate::osprofiler::statement::{path, sql};

use crate::osprofiler::report::Point;

/// The kind of call: its detail with literals and ids replaced; empty for a point without details.
#[must_use]
pub fn kind(point: &Point) -> &str {
    point.info.call()
}

/// A point's name and its kind of call.
#[must_use]
pub fn name_and_kind(point: &Point) -> String {
    let (name, kind) = (point.name.as_str(), kind(point));
    if kind.is_empty() { name.trim_end().to_owned() } else { format!("{name} {kind}").trim_end().to_owned() }
}
