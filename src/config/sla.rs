//! The `sla` section: Rally's criteria by their names, and thresholds.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::reference::DurationText;

/// When a workload counts as good: Rally's criteria by their names (in seconds and percent, as there), and
/// thresholds.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sla {
    /// Failed iterations in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_rate: Option<FailureRate>,
    /// No iteration may take longer, in seconds.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_seconds_per_iteration: Option<f64>,
    /// The mean duration of iterations without fault may not be longer, in seconds.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_avg_duration: Option<f64>,
    /// The same of actions, by their names.
    #[schemars(extend("minProperties" = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_avg_duration_per_atomic: Option<BTreeMap<String, Seconds>>,
    /// How many iterations may take much longer than the mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outliers: Option<Outliers>,
    /// How much longer than the shortest iteration the longest may take.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub performance_degradation: Option<PerformanceDegradation>,
    /// Conditions such as `p(99) < 250ms`, `rate(errors) <= 0.1%`, `p95(action "list users") < 100ms`,
    /// `count(trace "db") <= 12`.
    #[schemars(length(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thresholds: Option<Vec<Threshold>>,
}

/// A number of seconds.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(transparent)]
pub struct Seconds(#[schemars(range(min = 0.0))] pub f64);

/// Failed iterations in percent.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(extend("minProperties" = 1))]
#[serde(deny_unknown_fields)]
pub struct FailureRate {
    /// At least so many (for tests of failures).
    #[schemars(range(min = 0.0, max = 100.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// At most so many.
    #[schemars(range(min = 0.0, max = 100.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

/// Iterations without fault that take longer than the mean by several standard deviations.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Outliers {
    /// At most so many (default 0).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// With fewer iterations there is no verdict (default 3).
    #[schemars(range(min = 3))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_iterations: Option<u32>,
    /// How many standard deviations above the mean an outlier begins (default 3).
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sigmas: Option<f64>,
}

/// The longest iteration without fault against the shortest.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PerformanceDegradation {
    /// It may take longer by so many percent.
    #[schemars(range(min = 0.0))]
    pub max_degradation: f64,
}

/// A threshold: its text, or a map with the text and how it is judged.
#[derive(Clone, Debug, Default)]
pub struct Threshold {
    /// How it was written.
    pub written: ThresholdMap,
    /// True when it was a map.
    pub is_map: bool,
}

/// A threshold with how it is judged.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ThresholdMap {
    /// The condition, such as `p(99) < 250ms`.
    #[schemars(length(min = 1))]
    pub threshold: String,
    /// It must hold in every stretch of this length, not only on the whole.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<DurationText>,
    /// With fewer samples (in the run, or in a window) it is INVALID.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_samples: Option<u64>,
    /// True ends the load once it is certain that it does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abort_on_fail: Option<bool>,
    /// How long the load runs at least before it may be ended (default 10s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<DurationText>,
    /// `fail` (the default), or `warn`: it is shown, and the run does not fail by it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<SeverityText>,
}

/// What a threshold that does not hold means.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SeverityText {
    /// The run fails.
    Fail,
    /// It is shown.
    Warn,
}

impl JsonSchema for SeverityText {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Severity".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "enum": ["fail", "warn"] })
    }
}

impl<'de> Deserialize<'de> for Threshold {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(threshold) => {
                Ok(Self { written: ThresholdMap { threshold, ..ThresholdMap::default() }, is_map: false })
            }
            map => ThresholdMap::deserialize(map)
                .map(|written| Self { written, is_map: true })
                .map_err(serde::de::Error::custom),
        }
    }
}

impl Serialize for Threshold {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.is_map {
            true => self.written.serialize(serializer),
            false => self.written.threshold.serialize(serializer),
        }
    }
}

impl JsonSchema for Threshold {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Threshold".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let map = generator.subschema_for::<ThresholdMap>();
        json_schema!({
            "description": "A condition such as `p(99) < 250ms`, or a map with it and how it is judged.",
            "anyOf": [{ "type": "string", "minLength": 1 }, map]
        })
    }
}

/// A file that `bench check` takes criteria from: a scenario, of which only these keys are read, or a file with
/// nothing else.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SlaFile {
    /// The criteria of every workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sla: Option<Sla>,
    /// The criteria of workloads by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workloads: Option<Vec<SlaOfWorkload>>,
}

/// The criteria of one workload.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SlaOfWorkload {
    /// The workload's name.
    pub name: String,
    /// Its criteria.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sla: Option<Sla>,
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::base::yaml;
    use crate::config::{check, schema};

    /// What Rally 5.1.1 answers to criteria just inside and just outside of its limits, made by
    /// tests/vectors/gate/limits.py.
    #[test]
    fn rallys_limits_are_enforced_as_in_rally() {
        let rows: Vec<Value> =
            serde_json::from_str(include_str!("../../tests/vectors/gate/limits.json")).unwrap();
        assert!(rows.len() > 30);
        let mut refused = 0;
        for row in &rows {
            // JSON is YAML.
            let text = serde_json::json!({ "sla": row["criteria"] }).to_string();
            let source = yaml::source("rally.yaml", text.as_bytes()).unwrap();
            let faults = check::check(&yaml::parse(&source).unwrap(), &schema::SLA, &source.shown);
            assert_eq!(faults.is_empty(), row["accepted"] == true, "{text}: {faults:?}");
            refused += faults.len();
        }
        assert!(refused > 10);
    }
}
