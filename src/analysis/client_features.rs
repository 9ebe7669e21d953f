//! What the client knows of an iteration besides its times: new connections, addresses of hosts that have several, sizes
//! and statuses of answers, how often an action ran, rows of data. These values take part in the comparison of [`super::differences`] as any service's attribute does.
//!
//! A size is one value for each power of two that it reaches, so that no bound has to be guessed. Nothing here may
//! compare.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::feature::{AT_LEAST, Feature, POINT_CHARS_MAX};
use osprofiler::report::{Point, TraceTree};
use results::client_points::{
    self, ACTION, CONNECT, ITERATION, OUT_OF_ORDER, REPORTER, SEGMENTS_RESENT, SYNS_RESENT,
};

/// `new` if the iteration opened a connection.
pub const CONNECTION: &str = "client.connection";
/// What TCP had to repeat: `connection`, `request` or `answer`.
pub const RESENT: &str = "client.resent";
/// The address that answered, of a host that has several.
pub const ADDRESS: &str = "client.address";
/// The number of a row of data, from 1; its point is the data's name.
pub const ROW: &str = "client.row";
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
/// The longest IP address as text.
const ADDRESS_MAX: usize = 45;
/// Rows of more data are not looked at.
const DATA_MAX: usize = 100;

/// The values of an iteration, each with the name of its action.
pub(super) fn of_trace(tree: &TraceTree) -> BTreeSet<Feature> {
    let mut found: BTreeSet<Feature> = rows(tree).collect();
    let mut times: BTreeMap<String, u64> = BTreeMap::new();
    for point in tree.points.iter().filter(|point| is_client(point) && point.name == ACTION).take(ACTIONS_MAX)
    {
        let name: String = point.detail().chars().take(POINT_CHARS_MAX).collect();
        let stop = point.stop_info.read();
        let number = |key: &str| stop.get(key).and_then(Value::as_u64).unwrap_or(0);
        let status = number("status");
        if status > 0 {
            found.insert(feature(STATUS, status.to_string(), &name, 0));
        }
        for (key, what) in [(SEGMENTS_RESENT, "request"), (OUT_OF_ORDER, "answer")] {
            found.extend((number(key) > 0).then(|| Feature::new(RESENT, what.to_owned())));
        }
        let address = stop.get(client_points::ADDRESS).and_then(Value::as_str);
        let address = address.filter(|text| is_address(text));
        found.extend(address.map(|address| Feature::new(ADDRESS, address.to_owned())));
        found.extend(levels(ANSWER, number("body_bytes"), ANSWER_MIN, &name, bytes));
        found.extend(levels(REQUESTS, number("requests"), 2, &name, |count| count.to_string()));
        *times.entry(name).or_default() += 1;
    }
    for (name, count) in times {
        found.extend(levels(TIMES, count, 2, &name, |count| count.to_string()));
    }
    for point in tree.points.iter().filter(|point| is_client(point) && point.name == CONNECT) {
        found.insert(Feature::new(CONNECTION, "new".to_owned()));
        if point.stop_info.contains_key(SYNS_RESENT) {
            found.insert(Feature::new(RESENT, "connection".to_owned()));
        }
    }
    found
}

/// The rows of data that the iteration used.
fn rows(tree: &TraceTree) -> impl Iterator<Item = Feature> {
    let iteration = tree.points.iter().find(|point| is_client(point) && point.name == ITERATION);
    let rows = iteration.and_then(|point| point.info.get(client_points::ROWS)?.as_object());
    let of = |(data, row): (&String, &Value)| {
        let data: String = data.chars().take(POINT_CHARS_MAX).collect();
        Some(feature(ROW, row.as_u64()?.to_string(), &data, 0))
    };
    rows.into_iter().flatten().take(DATA_MAX).filter_map(of)
}

/// Whether a text looks like an IP address: a service may claim to be the client.
fn is_address(text: &str) -> bool {
    let is_part = |c: char| c.is_ascii_hexdigit() || matches!(c, '.' | ':');
    text.len() <= ADDRESS_MAX && text.contains(['.', ':']) && text.chars().all(is_part)
}

fn is_client(point: &Point) -> bool {
    point.project.as_deref() == Some(REPORTER)
}

fn feature(attribute: &str, value: String, point: &str, level: u32) -> Feature {
    Feature { attribute: attribute.to_owned(), value, point: Some(point.to_owned()), level }
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
    reached
        .map(move |(level, power)| feature(attribute, format!("{AT_LEAST}{}", shown(power)), action, level))
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
    use osprofiler::record::{Info, TraceRecord};

    #[test]
    fn the_client_knows_connections_addresses_rows_statuses_and_sizes() {
        let record = |name: &str, id: &str, parent: &str, second: u32, info: Value| TraceRecord {
            name: name.into(),
            base_id: "b".into(),
            trace_id: id.into(),
            parent_id: parent.into(),
            timestamp: format!("2026-11-20T22:52:{second:02}.000000").into(),
            info: info.as_object().cloned().unwrap_or_else(Info::new).into(),
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
        let shown = |records: Vec<TraceRecord>| -> Vec<String> {
            let of =
                |one: Feature| format!("{} {} {}", one.attribute, one.value, one.point.unwrap_or_default());
            of_trace(&TraceTree::build(&records)).into_iter().map(of).collect()
        };
        let small = shown(action("1", 100, 1).into());
        assert_eq!(small, ["client.status 200 list"]);
        let mut records: Vec<TraceRecord> = [action("1", 5_000, 3), action("2", 5_000, 3)].concat();
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
        let mut records: Vec<TraceRecord> = action("1", 100, 1).into();
        records[1].info_mut().insert(SEGMENTS_RESENT.into(), 2.into());
        records[1].info_mut().insert(OUT_OF_ORDER.into(), 1.into());
        records.push(record("connect-start", "3", "1", 1, Value::Null));
        records.push(record("connect-stop", "3", "1", 2, serde_json::json!({SYNS_RESENT: 1})));
        assert_eq!(
            shown(records),
            [
                "client.connection new ",
                "client.resent answer ",
                "client.resent connection ",
                "client.resent request ",
                "client.status 200 list",
            ]
        );
        let mut records: Vec<TraceRecord> = action("1", 100, 1).into();
        records[1].info_mut().insert("address".into(), "10.0.0.3".into());
        let rows = serde_json::json!({"name": "t", "rows": {"users": 17, "teams": "not a number"}});
        records.insert(0, record("iteration-start", "0", "b", 1, rows));
        records.push(record("iteration-stop", "0", "b", 2, Value::Null));
        assert_eq!(
            shown(records.clone()),
            ["client.address 10.0.0.3 ", "client.row 17 users", "client.status 200 list"]
        );
        for no_address in [Value::from("<script>"), Value::from(7), Value::Null] {
            records[2].info_mut().insert("address".into(), no_address);
            assert_eq!(shown(records.clone()), ["client.row 17 users", "client.status 200 list"]);
        }
    }
}
