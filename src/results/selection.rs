//! Which points of a trace a selector selects, and their figures.
//!
//! Only services' points count, never the client's. Attributes have the names that services report: what the reader of
//! spans keeps under another name (`http.request.method`, `db.query.text`) is found by both. Nothing here may judge.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::client_points::REPORTER;
use osprofiler::report::{Point, TraceTree};
use osprofiler::spans::meaning::RESOURCE;
use terms::threshold::Figure;
use terms::threshold::selector::{PointCondition, PointField, Selector, TextTest};
use text::similar::did_you_mean;

/// A message lists at most this many names of points, services or attributes.
const NAMES_SHOWN: usize = 12;
/// A key is split into at most this many nested keys.
const NESTED_MAX: usize = 4;
/// A resource is looked for this many points up.
const ABOVE_MAX: usize = 64;

/// Names of OpenTelemetry's conventions, and where a point's info has them.
const ALIASES: [(&str, &[&str]); 27] = [
    ("db.query.text", &["db.statement"]),
    ("db.system.name", &["db.system"]),
    ("db.operation.name", &["db.operation"]),
    ("db.collection.name", &["db.collection"]),
    ("db.sql.table", &["db.collection"]),
    ("db.mongodb.collection", &["db.collection"]),
    ("db.namespace", &["db.name"]),
    ("http.request.method", &["request.method", "requests.method"]),
    ("http.method", &["request.method", "requests.method"]),
    ("http.response.status_code", &["request.status_code", "requests.status_code"]),
    ("http.status_code", &["request.status_code", "requests.status_code"]),
    ("url.path", &["request.path", "requests.path"]),
    ("http.path", &["request.path", "requests.path"]),
    ("http.target", &["request.path", "requests.path"]),
    ("http.route", &["request.path", "requests.path"]),
    ("url.query", &["request.query", "requests.query"]),
    ("url.scheme", &["request.scheme", "requests.scheme"]),
    ("http.scheme", &["request.scheme", "requests.scheme"]),
    ("server.address", &["request.hostname", "requests.hostname"]),
    ("net.peer.name", &["request.hostname", "requests.hostname"]),
    ("http.host", &["request.hostname", "requests.hostname"]),
    ("server.port", &["request.port", "requests.port"]),
    ("net.peer.port", &["request.port", "requests.port"]),
    ("code.function.name", &["function.name"]),
    ("code.function", &["function.name"]),
    ("error.type", &["etype"]),
    ("exception.type", &["etype"]),
];

/// The points of a trace that services report.
pub fn services(tree: &TraceTree) -> impl Iterator<Item = (usize, &Point)> {
    tree.points.iter().enumerate().filter(|(_, point)| is_of_service(point))
}

fn is_of_service(point: &Point) -> bool {
    point.project.as_deref() != Some(REPORTER)
}

/// A figure of the selected points of a trace: microseconds, calls, errors or a depth.
#[must_use]
pub fn figure(tree: &TraceTree, selector: &Selector, figure: Figure) -> u64 {
    let (mut sum, mut within): (u64, Option<usize>) = (0, None);
    let depths = depths(tree);
    for (index, point) in tree.points.iter().enumerate() {
        if within.is_some_and(|depth| point.depth <= depth) {
            within = None;
        }
        if !selects(tree, &depths, index, selector) {
            continue;
        }
        match figure {
            Figure::Calls => sum += 1,
            Figure::Errors => sum += u64::from(point.error.is_some()),
            Figure::Depth => sum = sum.max(depths[index]),
            // A point within another one adds no time.
            Figure::Time if within.is_none() => {
                sum = sum.saturating_add(point.duration_us.unwrap_or(0));
                within = Some(point.depth);
            }
            Figure::Time => {}
        }
    }
    sum
}

/// The indices of the selected points.
#[must_use]
pub fn selected(tree: &TraceTree, selector: &Selector) -> Vec<usize> {
    let depths = depths(tree);
    (0..tree.points.len()).filter(|index| selects(tree, &depths, *index, selector)).collect()
}

/// What no point of these traces has, as a sentence with what they have instead: a misspelled name must not count as
/// zero calls. `None` if the selector's names, services and attributes all occur.
#[must_use]
pub fn unknown<'t>(
    trees: impl Iterator<Item = &'t TraceTree> + Clone,
    selector: &Selector,
) -> Option<String> {
    let points =
        || trees.clone().flat_map(|tree| services(tree).map(move |(index, point)| (tree, index, point)));
    if let Some(name) = &selector.name
        && !points().any(|(_, _, point)| is_named(point, name))
    {
        let names = points().map(|(_, _, point)| point.name.to_string()).collect();
        return Some(format!("no trace point is named \"{name}\"; the points seen are: {}", listed(&names)));
    }
    if points().next().is_none() {
        return Some("no service reported a trace point".to_owned());
    }
    selector.conditions.iter().find_map(|condition| match condition {
        PointCondition::Text(PointField::Name, TextTest::Is, value)
            if !points().any(|(_, _, point)| point.name == *value) =>
        {
            let seen = points().map(|(_, _, point)| point.name.to_string()).collect();
            Some(format!("no trace point is named \"{value}\"; the points seen are: {}", listed(&seen)))
        }
        PointCondition::Text(PointField::Service, TextTest::Is, value)
            if !points().any(|(_, _, point)| is_service(point, value)) =>
        {
            let seen = points().map(|(_, _, point)| point.reporter()).collect();
            Some(format!(
                "no trace point is of the service \"{value}\"; the services seen are: {}",
                listed(&seen)
            ))
        }
        PointCondition::Text(PointField::Attribute(key), ..)
        | PointCondition::Number(PointField::Attribute(key), ..)
            if !points().any(|(tree, index, _)| attribute(tree, index, key).is_some()) =>
        {
            let mut keys = BTreeSet::new();
            points().for_each(|(_, _, point)| keys_of(point, &mut keys));
            let meant = did_you_mean(key, keys.iter().map(String::as_str));
            let meant = meant.map_or_else(String::new, |known| format!("did you mean \"{known}\"? "));
            Some(format!(
                "no trace point has the attribute \"{key}\"; {meant}The attributes seen are: {}",
                listed(&keys)
            ))
        }
        _ => None,
    })
}

fn listed(names: &BTreeSet<String>) -> String {
    let shown: Vec<&str> = names.iter().map(String::as_str).take(NAMES_SHOWN).collect();
    let more = if names.len() > shown.len() { ", …" } else { "" };
    format!("{}{more}", shown.join(", "))
}

/// How many services' points are around each point, and the point itself.
fn depths(tree: &TraceTree) -> Vec<u64> {
    let mut depths: Vec<u64> = Vec::with_capacity(tree.points.len());
    for point in &tree.points {
        let above = point.parent.and_then(|parent| depths.get(parent)).copied().unwrap_or(0);
        depths.push(above + u64::from(is_of_service(point)));
    }
    depths
}

fn selects(tree: &TraceTree, depths: &[u64], index: usize, selector: &Selector) -> bool {
    let point = &tree.points[index];
    is_of_service(point)
        && selector.name.as_ref().is_none_or(|name| is_named(point, name))
        && selector.conditions.iter().all(|condition| meets(tree, depths[index], index, condition))
}

/// `db` matches every point of that name; `db SELECT` those whose detail begins with `SELECT`.
fn is_named(point: &Point, name: &str) -> bool {
    match name.strip_prefix(point.name.as_str()) {
        Some("") => true,
        Some(rest) => rest.strip_prefix(' ').is_some_and(|detail| point.detail().starts_with(detail)),
        None => false,
    }
}

fn is_service(point: &Point, value: &str) -> bool {
    point.service.as_deref() == Some(value) || point.reporter() == value
}

fn meets(tree: &TraceTree, depth: u64, index: usize, condition: &PointCondition) -> bool {
    let point = &tree.points[index];
    match condition {
        PointCondition::Error => point.error.is_some(),
        PointCondition::Number(PointField::Depth, test, value) => test.holds(depth as f64, *value),
        PointCondition::Number(PointField::Attribute(key), test, value) => attribute(tree, index, key)
            .and_then(|found| found.as_f64().or_else(|| found.as_str()?.trim().parse().ok()))
            .is_some_and(|found| test.holds(found, *value)),
        PointCondition::Number(..) => false,
        PointCondition::Text(PointField::Service, test, value) => match test {
            TextTest::Is => is_service(point, value),
            TextTest::IsNot => point.service.is_some() && !is_service(point, value),
            TextTest::Contains => point.reporter().contains(value.as_str()),
        },
        PointCondition::Text(field, test, value) => {
            let text = match field {
                PointField::Name => Some(point.name.clone()),
                PointField::Detail => Some(point.detail().into()),
                PointField::Host => point.host.clone(),
                PointField::Attribute(key) => attribute(tree, index, key).and_then(text).map(Into::into),
                PointField::Service | PointField::Depth => None,
            };
            text.is_some_and(|text| test.holds(&text, value))
        }
    }
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
        _ => None,
    }
}

/// The value of an attribute of a point: of its start, of its stop, or of the resource that reported it, which only the
/// first point of a service in a trace states.
fn attribute<'t>(tree: &'t TraceTree, index: usize, key: &str) -> Option<&'t Value> {
    let point = &tree.points[index];
    let own = |key: &str| {
        [&point.info, &point.stop_info].into_iter().find_map(|info| {
            let attributes = info.get("attributes").and_then(Value::as_object);
            nested(info, key, 0).or_else(|| nested(attributes?, key, 0))
        })
    };
    let alias = || {
        let (_, places) = ALIASES.iter().find(|(alias, _)| *alias == key)?;
        places.iter().find_map(|place| own(place))
    };
    own(key).or_else(alias).or_else(|| nested(resource(tree, index)?, key, 0))
}

/// The attributes of the resource that reported a point.
fn resource(tree: &TraceTree, index: usize) -> Option<&Map<String, Value>> {
    let place = |point: &Point| (point.service.clone(), point.host.clone());
    let wanted = place(&tree.points[index]);
    let mut at = Some(index);
    for _ in 0..ABOVE_MAX {
        let point = &tree.points[at?];
        if place(point) != wanted {
            return None;
        }
        if let Some(found) = point.info.get(RESOURCE).and_then(Value::as_object) {
            return Some(found);
        }
        at = point.parent;
    }
    None
}

/// The scalar under a key; the parts of `a.b.c` may be keys of nested objects.
fn nested<'v>(map: &'v Map<String, Value>, key: &str, depth: usize) -> Option<&'v Value> {
    if let Some(found) = map.get(key).filter(|value| !value.is_object() && !value.is_null()) {
        return Some(found);
    }
    if depth >= NESTED_MAX {
        return None;
    }
    key.match_indices('.').find_map(|(dot, _)| {
        let inner = map.get(&key[..dot])?.as_object()?;
        nested(inner, &key[dot + 1..], depth + 1)
    })
}

/// The keys of a point's attributes, for a message.
fn keys_of(point: &Point, keys: &mut BTreeSet<String>) {
    const KEYS_MAX: usize = 1_000;
    for info in [point.info.read(), point.stop_info.read()] {
        for (key, value) in info.iter() {
            match value {
                Value::Object(inner) if key == "attributes" || key == RESOURCE => {
                    keys.extend(inner.keys().cloned())
                }
                Value::Object(inner) => keys.extend(inner.keys().map(|below| format!("{key}.{below}"))),
                Value::Array(_) => {}
                _ => {
                    keys.insert(key.clone());
                }
            }
            if keys.len() > KEYS_MAX {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use terms::threshold::{Metric, parse};

    fn point(depth: usize, parent: Option<usize>, [service, name]: [&str; 2], info: &Value) -> Point {
        Point {
            depth,
            parent,
            trace_id: "".into(),
            parent_id: "".into(),
            name: name.into(),
            service: Some(service.into()),
            project: (service == "bench").then(|| REPORTER.into()),
            host: Some(format!("{service}-1").into()),
            start_us: 0,
            starts: true,
            reversed_us: None,
            duration_us: Some(10),
            self_us: Some(10),
            error: None,
            info: info.as_object().cloned().unwrap_or_default().into(),
            stop_info: Map::new().into(),
        }
    }

    /// The client, a shop, two statements (one within the other), and a failed call of a second service.
    fn tree() -> TraceTree {
        let pod =
            json!({"resource": {"k8s.pod.name": "shop-7"}, "request": {"method": "GET", "path": "/orders"}});
        let outer = json!({"db": {"system": "postgresql", "statement": "SELECT 1"},
            "attributes": {"db.rows": 12, "cache": false}});
        let inner = json!({"db": {"system": "redis"}, "attributes": {"db.rows": "100"}});
        let mut points = vec![
            point(0, None, ["bench", "iteration"], &json!({})),
            point(1, Some(0), ["shop", "GET /orders"], &pod),
            point(2, Some(1), ["shop", "db"], &outer),
            point(3, Some(2), ["shop", "db"], &inner),
            point(2, Some(1), ["stock", "GET /stock"], &json!({})),
        ];
        points[4].error =
            Some(osprofiler::report::PointError { etype: "Timeout".into(), message: String::new() }.into());
        points[4].stop_info =
            json!({"etype": "Timeout", "request": {"status_code": 503}}).as_object().unwrap().clone().into();
        TraceTree { points, ..TraceTree::default() }
    }

    fn metric(text: &str) -> (Figure, Selector) {
        match parse(text).unwrap_or_else(|mistake| panic!("{text}: {mistake:?}")).metric {
            Metric::Trace(_, figure, selector) => (figure, selector),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn figures_of_selected_points() {
        for (text, expected) in [
            ("count(trace) == 1", 4),
            ("count(trace \"db\") == 1", 2),
            ("count(trace \"db SELECT\") == 1", 1),
            ("avg(trace \"db\") < 1s", 10),
            ("count(trace where service = \"shop\") == 1", 3),
            ("count(trace where service != \"shop\") == 1", 1),
            ("count(trace where service ~ \"sto\") == 1", 1),
            ("count(trace where host = \"shop-1\" and name = 'db') == 1", 2),
            ("count(trace where detail ~ \"SELECT\") == 1", 1),
            ("count(trace \"db\" where attr(\"db.system\") = \"redis\") == 1", 1),
            ("count(trace \"db\" where attr(\"db.system.name\") != \"redis\") == 1", 1),
            ("count(trace where attr(\"db.rows\") >= 12) == 1", 2),
            ("count(trace where attr(\"db.rows\") > 12) == 1", 1),
            ("count(trace where attr(\"db.rows\") = 12) == 1", 1),
            ("count(trace where attr(\"cache\") = false) == 1", 1),
            ("count(trace where attr(\"cache\") != 'false') == 1", 0),
            ("count(trace where attr(\"k8s.pod.name\") = \"shop-7\") == 1", 3),
            ("count(trace where attr(\"http.request.method\") = \"GET\") == 1", 1),
            ("count(trace where attr(\"http.status_code\") >= 500) == 1", 1),
            ("count(trace where attr(\"error.type\") = \"Timeout\" and error) == 1", 1),
            ("count(trace where error) == 1", 1),
            ("errors(trace) == 1", 1),
            ("errors(trace \"db\") == 1", 0),
            ("depth(trace) == 1", 3),
            ("depth(trace where service = \"stock\") == 1", 2),
            ("count(trace where depth > 2) == 1", 1),
            ("count(trace where depth = 1) == 1", 1),
        ] {
            let (of, selector) = metric(text);
            assert_eq!(figure(&tree(), &selector, of), expected, "{text}");
            assert_eq!(unknown([tree()].iter(), &selector), None, "{text}");
            if of == Figure::Calls {
                assert_eq!(selected(&tree(), &selector).len() as u64, expected, "{text}");
            }
        }
    }

    #[test]
    fn what_no_trace_has_is_said() {
        for (text, expected) in [
            ("count(trace \"dc\") <= 1", "no trace point is named \"dc\"; the points seen are: GET /orders"),
            ("count(trace where service = \"shoq\") <= 1", "the services seen are: shop, stock"),
            ("count(trace where attr(\"db.sistem\") = \"x\") <= 1", "did you mean \"db.system\"?"),
        ] {
            let (_, selector) = metric(text);
            let said = unknown([tree()].iter(), &selector).unwrap_or_default();
            assert!(said.contains(expected), "{text}: {said}");
        }
        // A service that must not occur, and a value that does not: both are zero calls.
        for text in [
            "count(trace where service != \"nobody\") <= 9",
            "count(trace where attr(\"db.system\") = \"oracle\") == 0",
        ] {
            assert_eq!(unknown([tree()].iter(), &metric(text).1), None, "{text}");
        }
        let nothing = TraceTree::default();
        assert!(unknown([nothing].iter(), &Selector::default()).is_some());
    }

    #[test]
    fn hostile_keys_end() {
        let mut info = json!({"a": 1});
        for _ in 0..12 {
            info = json!({"a": info.clone(), "a.a": info["a"].clone()});
        }
        let mut tree = tree();
        tree.points[2].info = info.as_object().unwrap().clone().into();
        let key = ["a"; 400].join(".");
        let (_, selector) = metric(&format!("count(trace where attr(\"{key}\") = 1) == 0"));
        assert_eq!(figure(&tree, &selector, Figure::Calls), 0);
    }
}
