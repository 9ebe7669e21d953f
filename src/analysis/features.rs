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
    let wanted: Vec<&Feature> = wanted.iter().filter(|one| one.can_be_at_points()).collect();
    let place_of = |attribute: &str, value: &str| {
        wanted
            .binary_search_by(|one| (one.attribute.as_str(), one.value.as_str()).cmp(&(attribute, value)))
            .ok()
    };
    // By places, because most points of a trace repeat what another one says.
    let (mut kinds, mut seen) = (HashMap::new(), HashSet::new());
    let mut found = BTreeSet::new();
    for point in tree.points.iter().filter(is_of_service) {
        let mut places = Vec::new();
        let mut values = InfoValues::new(|attribute, value| places.extend(place_of(attribute, value)));
        for info in [&point.info, &point.stop_info] {
            values.of_info(info, point.error.is_some());
        }
        if places.is_empty() {
            continue;
        }
        let kind = point_text(point);
        let number = kinds.len();
        let number = *kinds.entry(kind.clone()).or_insert(number);
        let new = places.into_iter().filter(|place| seen.insert((number, *place)));
        found.extend(new.map(|place| Feature { point: Some(kind.clone()), ..wanted[place].clone() }));
        if found.len() >= OF_TRACE_MAX {
            break;
        }
    }
    found
}

/// A point's name and kind of call, cut.
fn point_text(point: &Point) -> String {
    cut(statement::name_and_kind(point))
}

/// A text of at most [`POINT_CHARS_MAX`] characters.
fn cut(mut text: String) -> String {
    if text.len() > POINT_CHARS_MAX
        && let Some((end, _)) = text.char_indices().nth(POINT_CHARS_MAX)
    {
        text.truncate(end);
    }
    text
}

/// The value of [`POINT`] of a kind with this name and detail.
pub(super) fn point_value(name: &str, detail: &str) -> String {
    cut(statement::joined(name, detail))
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
    let left = OF_POINT_MAX.saturating_sub(found.len());
    let mut values =
        InfoValues::new(|attribute, value| found.push(Feature::new(attribute, value.to_owned())));
    values.left = left;
    values.of_info(info, is_of_error);
}

/// Calls `take` for each value of an info, with the path of its keys.
struct InfoValues<F> {
    /// How many values are still taken.
    left: usize,
    path: String,
    take: F,
}

impl<F: FnMut(&str, &str)> InfoValues<F> {
    fn new(take: F) -> Self {
        Self { left: OF_POINT_MAX, path: String::new(), take }
    }

    fn of_info(&mut self, info: &SharedInfo, is_of_error: bool) {
        for (key, value) in info.read().iter() {
            match (key.as_str(), value) {
                ("events", Value::Array(events)) => {
                    events.iter().take(EVENTS_MAX).for_each(|one| self.of_event(one));
                }
                ("attributes" | RESOURCE, Value::Object(inner)) => self.of_all(inner, 2),
                // The error's text is free.
                ("message", _) if is_of_error => {}
                _ => self.of_key(key, value, 1),
            }
        }
    }

    fn of_event(&mut self, event: &Value) {
        let name = event.get("name").and_then(Value::as_str);
        let Some(name) = name.filter(|name| name.len() <= VALUE_MAX) else { return };
        self.left = self.left.saturating_sub(1);
        (self.take)("event", name);
        if let Some(attributes) = event.get("attributes").and_then(Value::as_object) {
            self.path.push_str(name);
            self.path.push_str(": ");
            self.of_all(attributes, 2);
            self.path.clear();
        }
    }

    fn of_all(&mut self, attributes: &Map<String, Value>, depth: usize) {
        for (key, value) in attributes {
            self.of_key(key, value, depth);
        }
    }

    /// The values of a key below the path.
    fn of_key(&mut self, key: &str, value: &Value, depth: usize) {
        let above = self.path.len();
        self.path.push_str(key);
        if self.left > 0 && self.path.len() <= KEY_MAX && !LEFT_OUT.contains(&self.path.as_str()) {
            self.of_value(value, depth);
        }
        self.path.truncate(above);
    }

    fn of_value(&mut self, value: &Value, depth: usize) {
        match value {
            Value::Object(map) if depth < DEPTH_MAX => {
                self.path.push('.');
                self.of_all(map, depth + 1);
            }
            Value::String(text) if text.len() <= VALUE_MAX => self.take_here(text),
            Value::Number(_) | Value::Bool(_) => self.take_here(&value.to_string()),
            _ => {}
        }
    }

    fn take_here(&mut self, value: &str) {
        self.left = self.left.saturating_sub(1);
        (self.take)(&self.path, value);
    }
}
