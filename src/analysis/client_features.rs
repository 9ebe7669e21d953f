//! What the client knows of an iteration besides its times: new connections, sizes and statuses of answers, how often an
//! action ran. These values take part in the comparison of [`super::differences`] as any service's attribute does.
//!
//! A size is one value for each power of two that it reaches, so that no bound has to be guessed. Nothing here may
//! compare.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::feature::{Feature, POINT_CHARS_MAX};
use crate::osprofiler::report::{Point, TraceTree};
use crate::results::client_points::{ACTION, REPORTER};

/// `new` if the iteration opened a connection.
pub const CONNECTION: &str = "client.connection";
/// The size that an action's answer reached.
pub const ANSWER: &str = "client.answer";
/// The status of an action's answer.
pub const STATUS: &str = "client.status";
/// How many requests an action sent.
pub const REQUESTS: &str = "client.requests";
/// How often an action ran.
pub const TIMES: &str = "client.times";

/// Smaller answers are alike (bytes).
const ANSWER_MIN: u64 = 1 << 10;
/// More actions are not looked at: a loop may run for hours.
const ACTIONS_MAX: usize = 1_000;

/// The values of an iteration, each with the name of its action.
pub(super) fn of_trace(tree: &TraceTree) -> BTreeSet<Feature> {
    let mut found = BTreeSet::new();
    let mut times: BTreeMap<String, u64> = BTreeMap::new();
    for point in tree.points.iter().filter(|point| is_client(point) && point.name == ACTION).take(ACTIONS_MAX)
    {
        let name: String = point.detail().chars().take(POINT_CHARS_MAX).collect();
        let number = |key: &str| point.stop_info.get(key).and_then(Value::as_u64).unwrap_or(0);
        let status = number("status");
        if status > 0 {
            found.insert(feature(STATUS, status.to_string(), &name, 0));
        }
        found.extend(levels(ANSWER, number("body_bytes"), ANSWER_MIN, &name, bytes));
        found.extend(levels(REQUESTS, number("requests"), 2, &name, |count| count.to_string()));
        *times.entry(name).or_default() += 1;
    }
    for (name, count) in times {
        found.extend(levels(TIMES, count, 2, &name, |count| count.to_string()));
    }
    if tree.points.iter().any(|point| is_client(point) && point.name == "connect") {
        found.insert(Feature {
            attribute: CONNECTION.to_owned(),
            value: "new".to_owned(),
            point: None,
            level: 0,
        });
    }
    found
}

fn is_client(point: &Point) -> bool {
    point.project.as_deref() == Some(REPORTER)
}

fn feature(attribute: &str, value: String, action: &str, level: u32) -> Feature {
    Feature { attribute: attribute.to_owned(), value, point: Some(action.to_owned()), level }
}

/// Every power of two from `least` on that a number reaches.
fn levels<'a>(
    attribute: &'a str,
    number: u64,
    least: u64,
    action: &'a str,
    shown: impl Fn(u64) -> String + 'a,
) -> impl Iterator<Item = Feature> + 'a {
    let powers = (0..63).map(|level| (level, 1_u64 << level));
    let reached = powers.filter(move |(_, power)| (least..=number).contains(power));
    reached.map(move |(level, power)| feature(attribute, format!("at least {}", shown(power)), action, level))
}

fn bytes(count: u64) -> String {
    match count {
        count if count >= 1 << 20 => format!("{} MiB", count >> 20),
        count if count >= 1 << 10 => format!("{} KiB", count >> 10),
        count => format!("{count} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::osprofiler::record::{Info, Record};

    #[test]
    fn the_client_knows_connections_statuses_and_sizes() {
        let record = |name: &str, id: &str, parent: &str, second: u32, info: Value| Record {
            name: name.into(),
            base_id: "b".into(),
            trace_id: id.into(),
            parent_id: parent.into(),
            timestamp: format!("2026-11-20T22:52:{second:02}.000000"),
            info: info.as_object().cloned().unwrap_or_else(Info::new),
            project: Some(REPORTER.into()),
            service: Some(REPORTER.into()),
        };
        let action = |id: &str, bytes: u64, requests: u64| {
            let stop = serde_json::json!({"status": 200, "body_bytes": bytes, "requests": requests});
            [
                record("action-start", id, "b", 1, serde_json::json!({"name": "list"})),
                record("action-stop", id, "b", 2, stop),
            ]
        };
        let shown = |records: Vec<Record>| -> Vec<String> {
            let of =
                |one: Feature| format!("{} {} {}", one.attribute, one.value, one.point.unwrap_or_default());
            of_trace(&TraceTree::build(&records)).into_iter().map(of).collect()
        };
        let small = shown(action("1", 100, 1).into());
        assert_eq!(small, ["client.status 200 list"]);
        let mut records: Vec<Record> = [action("1", 5_000, 3), action("2", 5_000, 3)].concat();
        records.push(record("connect-start", "3", "1", 1, Value::Null));
        records.push(record("connect-stop", "3", "1", 1, Value::Null));
        assert_eq!(
            shown(records),
            [
                "client.answer at least 1 KiB list",
                "client.answer at least 2 KiB list",
                "client.answer at least 4 KiB list",
                "client.connection new ",
                "client.requests at least 2 list",
                "client.status 200 list",
                "client.times at least 2 list",
            ]
        );
    }
}
