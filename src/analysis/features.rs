//! The values that a trace has: every attribute of every point, of its resource and of its events.
//!
//! Of the client's points only what [`super::client_features`] takes counts: the others differ by how long they take,
//! not by what they say. Free text and long
//! values are left out; statements and paths lose their literals and ids, so that they repeat. Nothing here may compare.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::{Map, Value};

use super::client_features;
use super::feature::{Feature, POINT, POINT_CHARS_MAX};
use super::statement;
use osprofiler::info::SharedInfo;
use osprofiler::report::{Point, TraceTree};
use osprofiler::spans::meaning::RESOURCE;
use results::client_points::REPORTER;

/// The depth to which a point's info is searched.
const DEPTH_MAX: usize = 4;
/// The largest number of values of a point, and of a trace.
const OF_POINT_MAX: usize = 128;
const OF_TRACE_MAX: usize = 10_000;
/// Numbers from here on are ids: a quantity as large would not be exact.
const ID_FROM: f64 = 9_007_199_254_740_992.0;
/// The last words of names whose numbers are no quantities.
const IDS: [&str; 10] = ["id", "ids", "pid", "tid", "uid", "port", "timestamp", "seq", "sequence", "nonce"];
/// The largest number of attributes of a trace that are looked at as numbers.
const NUMBERS_MAX: usize = 500;
/// Longer keys and values are left out (bytes).
const KEY_MAX: usize = 120;
const VALUE_MAX: usize = 120;
/// Events of a point that are looked at.
const EVENTS_MAX: usize = 16;
/// What [`POINT`] says better, or what another attribute has.
const LEFT_OUT: [&str; 11] = [
    "db.statement",
    "request.path",
    "request.query",
    "requests.path",
    "requests.query",
    "function.name",
    "name",
    "host",
    "etype",
    // Times are compared elsewhere.
    "busy_us",
    "idle_us",
];

fn is_of_service(point: &&Point) -> bool {
    point.project.as_deref() != Some(REPORTER)
}

/// The values of a trace, without their points.
pub(super) fn of_trace(tree: &TraceTree) -> BTreeSet<Feature> {
    let mut found = client_features::of_trace(tree);
    let mut seen = HashSet::new();
    for point in tree.points.iter().filter(is_of_service) {
        let mut of_it = of_itself(point);
        // Many points of a trace share an info.
        for info in [&point.info, &point.stop_info] {
            if info.address().is_some_and(|address| seen.insert((address, point.error.is_some()))) {
                of_info(info, point.error.is_some(), &mut of_it);
            }
        }
        found.extend(of_it);
        if found.len() >= OF_TRACE_MAX {
            break;
        }
    }
    found
}

/// These values of a trace, each with the points that have it.
pub(super) fn at_points(tree: &TraceTree, wanted: &BTreeSet<Feature>) -> BTreeSet<Feature> {
    let wanted: Vec<&Feature> = wanted.iter().collect();
    // By places, because most points of a trace repeat what another one says.
    let (mut kinds, mut seen) = (HashMap::new(), HashSet::new());
    let mut found = BTreeSet::new();
    for point in tree.points.iter().filter(is_of_service) {
        let kind = point_text(point);
        let number = kinds.len();
        let number = *kinds.entry(kind.clone()).or_insert(number);
        let of_it = of_point(point)
            .into_iter()
            .filter(|feature| wanted.binary_search(&feature).is_ok_and(|place| seen.insert((number, place))));
        found.extend(of_it.map(|feature| Feature { point: Some(kind.clone()), ..feature }));
        if found.len() >= OF_TRACE_MAX {
            break;
        }
    }
    found
}

/// A point's name and kind of call, cut.
fn point_text(point: &Point) -> String {
    statement::name_and_kind(point).chars().take(POINT_CHARS_MAX).collect()
}

/// The value of [`POINT`] of a kind with this name and detail.
pub(super) fn point_value(name: &str, detail: &str) -> String {
    statement::joined(name, detail).chars().take(POINT_CHARS_MAX).collect()
}

/// The values of a point.
pub(super) fn of_point(point: &Point) -> Vec<Feature> {
    let mut found = of_itself(point);
    for info in [&point.info, &point.stop_info] {
        of_info(info, point.error.is_some(), &mut found);
    }
    found
}

/// The numbers among the attributes of a trace's services: the largest of each attribute.
pub(super) fn numbers(tree: &TraceTree) -> BTreeMap<String, f64> {
    let (mut found, mut seen) = (BTreeMap::new(), HashSet::new());
    for point in tree.points.iter().filter(is_of_service) {
        for info in [&point.info, &point.stop_info] {
            if !info.address().is_some_and(|address| seen.insert(address)) {
                continue;
            }
            let mut of_it = Vec::new();
            of_info(info, true, &mut of_it);
            for Feature { attribute, value, .. } in of_it {
                let number = value.parse::<f64>().ok().filter(|number| number.abs() < ID_FROM);
                let number = number.filter(|_| !is_id(&attribute));
                let Some(number) = number else { continue };
                let largest = found.entry(attribute).or_insert(number);
                *largest = number.max(*largest);
            }
        }
        if found.len() >= NUMBERS_MAX {
            break;
        }
    }
    found
}

/// Whether an attribute names something by a number, which is then no quantity.
fn is_id(attribute: &str) -> bool {
    let last = attribute.rsplit(|c: char| !c.is_alphanumeric()).next().unwrap_or(attribute);
    IDS.iter().any(|word| last.eq_ignore_ascii_case(word)) || last.ends_with("Id") || last.ends_with("ID")
}

/// What a point is and who reported it.
fn of_itself(point: &Point) -> Vec<Feature> {
    let mut found = vec![Feature::new(POINT, point_text(point))];
    let own = [
        ("service", (point.service.is_some() || point.project.is_some()).then(|| point.reporter())),
        ("host", point.host.as_deref().map(str::to_owned)),
        ("error", point.error.as_ref().map(|error| error.etype.clone())),
    ];
    let own = own.into_iter().filter_map(|(attribute, value)| Some((attribute, value?)));
    found.extend(
        own.filter(|(_, value)| value.len() <= VALUE_MAX).map(|(key, value)| Feature::new(key, value)),
    );
    found
}

/// Adds the values of an info.
fn of_info(info: &SharedInfo, is_of_error: bool, found: &mut Vec<Feature>) {
    for (key, value) in info.read().iter() {
        match (key.as_str(), value) {
            ("events", Value::Array(events)) => {
                events.iter().take(EVENTS_MAX).for_each(|one| event(one, found))
            }
            ("attributes" | RESOURCE, Value::Object(inner)) => collect_all("", inner, found),
            // The error's text is free.
            ("message", _) if is_of_error => {}
            _ => collect(key, value, 1, found),
        }
    }
}

fn event(event: &Value, found: &mut Vec<Feature>) {
    let Some(name) = event.get("name").and_then(Value::as_str).filter(|name| name.len() <= VALUE_MAX) else {
        return;
    };
    found.push(Feature::new("event", name.to_owned()));
    if let Some(attributes) = event.get("attributes").and_then(Value::as_object) {
        collect_all(&format!("{name}: "), attributes, found);
    }
}

fn collect_all(prefix: &str, attributes: &Map<String, Value>, found: &mut Vec<Feature>) {
    for (key, value) in attributes {
        collect(&format!("{prefix}{key}"), value, 2, found);
    }
}

fn collect(path: &str, value: &Value, depth: usize, found: &mut Vec<Feature>) {
    if found.len() >= OF_POINT_MAX || path.len() > KEY_MAX || LEFT_OUT.contains(&path) {
        return;
    }
    let text = match value {
        Value::Object(map) if depth < DEPTH_MAX => {
            map.iter().for_each(|(key, value)| collect(&format!("{path}.{key}"), value, depth + 1, found));
            return;
        }
        Value::String(text) if text.len() <= VALUE_MAX => text.clone(),
        Value::Number(_) | Value::Bool(_) => value.to_string(),
        _ => return,
    };
    found.push(Feature::new(path, text));
}
