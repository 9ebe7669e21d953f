//! The functions that services report with their traces (`osprofiler::functions`), and the points that carry them.
//!
//! A profile travels as the info of a point that lasts no time. Who looks at trace points must not see that point, and who
//! looks at functions needs only it. Nothing here may judge.

use osprofiler::functions::carried::{self, KEY, POINT_NAME};
use osprofiler::functions::model::{Builder, FunctionProfile};
use osprofiler::record::TraceRecord;
use osprofiler::report::{Point, TraceTree};

/// Profiles of more operations of a trace are not read.
const PROFILES_MAX: usize = 1_000;

/// The functions of one or several traces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Functions {
    /// One for each operation.
    pub profiles: Vec<FunctionProfile>,
    /// Profiles that could not be read.
    pub unreadable: u64,
}

impl Functions {
    /// Those that these records carry.
    #[must_use]
    pub fn of(records: &[TraceRecord]) -> Self {
        let mut found = Self::default();
        let carrying = records.iter().filter(|record| record.info.contains_key(KEY));
        for record in carrying.take(PROFILES_MAX) {
            match carried::decode(&record.info.read()) {
                Ok(profile) => found.profiles.extend(profile),
                Err(_) => found.unreadable += 1,
            }
        }
        found
    }

    /// True without any.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.profiles.is_empty() && self.unreadable == 0
    }

    /// All of them as one. With `points`, each stack keeps its point.
    #[must_use]
    pub fn sum(&self, points: bool) -> FunctionProfile {
        let mut names: Vec<&str> = self.profiles.iter().map(|profile| profile.operation.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        let hz = self.profiles.first().map_or(0, |profile| profile.hz);
        let mut sum = Builder::new(&names.join(", "), hz);
        self.profiles.iter().for_each(|profile| sum.merge(profile, points));
        sum.finish()
    }
}

/// The tree without the points that only carry functions.
#[must_use]
pub fn without(mut tree: TraceTree) -> TraceTree {
    let carries = |point: &Point| {
        let has_stacks = || point.stop_info.value(KEY).is_some_and(|carried| carried.get("stacks").is_some());
        point.name == POINT_NAME && has_stacks()
    };
    if !tree.points.iter().any(carries) {
        return tree;
    }
    let mut kept = 0;
    let place = tree.points.iter().map(|point| {
        let is_kept = !carries(point);
        kept += usize::from(is_kept);
        is_kept.then(|| kept - 1)
    });
    let place: Vec<Option<usize>> = place.collect();
    tree.points.retain(|point| !carries(point));
    for point in &mut tree.points {
        point.parent = point.parent.and_then(|parent| place.get(parent).copied().flatten());
    }
    tree
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(name: &str, id: &str, parent: &str, us: u32, info: serde_json::Value) -> TraceRecord {
        TraceRecord {
            name: name.into(),
            base_id: "base".into(),
            trace_id: id.into(),
            parent_id: parent.into(),
            timestamp: format!("2026-11-20T22:52:01.{us:06}").into(),
            info: info.as_object().cloned().unwrap_or_default().into(),
            project: None,
            service: None,
        }
    }

    #[test]
    fn points_that_carry_functions_are_left_out_and_read_apart() {
        let mut builder = Builder::new("wsgi", 100);
        builder.add(Some("a"), &[osprofiler::functions::model::Function::named("render")], 7);
        let info = serde_json::Value::Object(carried::encode(&builder.finish()));
        let records = [
            record("wsgi-start", "a", "base", 0, json!({})),
            record("functions-start", "f", "a", 900, json!({})),
            record("functions-stop", "f", "a", 900, info),
            // A service's own point of that name.
            record("functions-start", "own", "a", 10, json!({})),
            record("db-start", "b", "own", 20, json!({})),
            record("db-stop", "b", "own", 30, json!({})),
            record("functions-stop", "own", "a", 40, json!({KEY: 7})),
            record("functions-stop", "bad", "a", 50, json!({KEY: {"stacks": "x"}})),
            record("wsgi-stop", "a", "base", 900, json!({})),
        ];
        let tree = without(TraceTree::build(&records[..7]));
        let seen: Vec<_> = tree.points.iter().map(|point| (point.name.as_str(), point.parent)).collect();
        assert_eq!(seen, [("wsgi", None), ("functions", Some(0)), ("db", Some(1))]);
        let found = Functions::of(&records);
        assert_eq!((found.profiles.len(), found.unreadable), (1, 1));
        assert_eq!(found.sum(true).points, ["a"]);
    }
}
