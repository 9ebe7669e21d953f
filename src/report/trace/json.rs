//! A trace as JSON: OSProfiler's tree, in microseconds and with what is missing named.
//!
//! ```json
//! {"base_id": "…", "state": "partial", "first_unix_us": 1763679121123456, "length_us": 812345,
//!  "points": 74, "incomplete": 1, "unreadable": 0, "stats": {"db": {"count": 73, "duration_us": 40112}},
//!  "children": [{"trace_id": "…", "parent_id": "…", "info": {"name": "wsgi", "detail": "GET /v3/users",
//!    "start_us": 0, "duration_us": 43120, "self_us": 3008, "start": {…}, "stop": {…}}, "children": […]}]}
//! ```
//! `unreadable` counts records that are stored and cannot be read. A trace with these is not complete, nor is one with
//! other gaps. Other gaps are counted where there are some: `missing_parents`, `cycles`, `same_ids` and, with the
//! reason that the collector gives, `partial`. A point without a stop (or start) has `"missing": "stop"` and a
//! `duration_us` of null; one that stops before it starts has `"reversed_us"`, by how much. Points nested deeper than
//! [`NESTING_MAX`] are listed beside the roots with their `parent_id`, because JSON readers have limits.
//! [`osprofiler::compat`] writes OSProfiler's own form, in milliseconds.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Map, Value, json};

use osprofiler::report::{Point, TraceTree};
use results::trace::state;

/// Levels of points within points; serde_json reads no more than twice as many arrays and objects.
pub const NESTING_MAX: usize = 50;

/// Writes the trace, one point per line.
///
/// # Errors
/// When `out` cannot be written.
pub fn write(base_id: &str, tree: &TraceTree, out: &mut dyn Write) -> io::Result<()> {
    let mut head = json!({
        "base_id": base_id,
        "state": state(tree),
        "first_unix_us": tree.first_unix_us,
        "length_us": tree.length_us(),
        "points": tree.points.len(),
        "incomplete": tree.incomplete(),
        "unreadable": tree.unreadable,
        "stats": stats(tree),
    });
    let gaps = &tree.gaps;
    let counts = [("missing_parents", gaps.parents()), ("cycles", gaps.cycles), ("same_ids", gaps.same_ids)];
    for (key, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        head[key] = count.into();
    }
    if let Some(why) = &gaps.partial {
        head["partial"] = (&**why).into();
    }
    let head = head.to_string();
    // Without its last brace.
    write!(out, "{},\n\"children\":[", &head[..head.len() - 1])?;
    let mut first = true;
    let ends = ends(tree);
    for root in (0..tree.points.len()).filter(|&index| tree.points[index].depth.is_multiple_of(NESTING_MAX)) {
        if !std::mem::take(&mut first) {
            write!(out, ",")?;
        }
        subtree(tree, root, &ends, out)?;
    }
    writeln!(out, "\n]}}")
}

fn stats(tree: &TraceTree) -> Value {
    let mut stats: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for point in &tree.points {
        let entry = stats.entry(&point.name).or_default();
        entry.0 += 1;
        entry.1 += point.duration_us.unwrap_or(0);
    }
    let row = |(name, (count, us)): (&str, (u64, u64))| {
        (name.to_owned(), json!({"count": count, "duration_us": us}))
    };
    Value::Object(stats.into_iter().map(row).collect())
}

/// Behind the last point below each point: points come depth first.
fn ends(tree: &TraceTree) -> Vec<usize> {
    let mut ends: Vec<usize> = (1..=tree.points.len()).collect();
    for index in (0..ends.len()).rev() {
        if let Some(parent) = tree.points[index].parent {
            ends[parent] = ends[parent].max(ends[index]);
        }
    }
    ends
}

/// A point and its children, without recursion.
fn subtree(tree: &TraceTree, root: usize, ends: &[usize], out: &mut dyn Write) -> io::Result<()> {
    let top = tree.points[root].depth;
    let mut open: Vec<usize> = Vec::new();
    let mut at = root;
    while at < ends[root] {
        let point = &tree.points[at];
        let level = point.depth - top.min(point.depth);
        if level >= NESTING_MAX {
            at = ends[at];
            continue;
        }
        at += 1;
        let mut sibling = false;
        while open.last().is_some_and(|&last| last >= level) {
            open.pop();
            write!(out, "]}}")?;
            sibling = true;
        }
        write!(out, "{}\n{:level$}{}", if sibling { "," } else { "" }, "", head(point))?;
        open.push(level);
    }
    for _ in open {
        write!(out, "]}}")?;
    }
    Ok(())
}

/// A point up to its children.
fn head(point: &Point) -> String {
    let mut info = Map::new();
    let mut add = |key: &str, value: Value| info.insert(key.to_owned(), value);
    add("name", point.name.as_str().into());
    add("detail", point.detail().into());
    add("project", point.project.clone().into());
    add("service", point.service.clone().into());
    add("host", point.host.clone().into());
    add("start_us", point.start_us.into());
    add("duration_us", point.duration_us.into());
    add("self_us", point.self_us.into());
    if let Some(missing) = super::missing(point) {
        add("missing", missing.into());
    }
    if let Some(us) = point.reversed_us {
        add("reversed_us", us.into());
    }
    if let Some(error) = &point.error {
        add("error", json!({"etype": error.etype, "message": error.message}));
    }
    add("start", Value::Object(point.info.read().into_owned()));
    add("stop", Value::Object(point.stop_info.read().into_owned()));
    let ids = json!({"trace_id": point.trace_id, "parent_id": point.parent_id}).to_string();
    format!("{},\"info\":{},\"children\":[", &ids[..ids.len() - 1], Value::Object(info))
}
