//! The `sla` section: Rally's criteria, under their names in Rally, and thresholds.

use crate::notation::schema;
use std::collections::BTreeMap;

use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use text::digits;

use super::reference::DurationText;

/// Criteria that the results must meet: Rally's criteria, with Rally's names and units (seconds and percent), and
/// thresholds.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Sla {
    /// The allowed share of failed iterations, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_rate: Option<FailureRate>,
    /// No iteration may take longer than this many seconds.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_seconds_per_iteration: Option<f64>,
    /// The mean duration of successful iterations may be at most this many seconds.
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_avg_duration: Option<f64>,
    /// The largest mean duration of individual actions, in seconds, by action name.
    #[schemars(extend("minProperties" = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_avg_duration_per_atomic: Option<BTreeMap<String, Seconds>>,
    /// How many successful iterations may take much longer than the mean.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outliers: Option<Outliers>,
    /// How much longer the longest successful iteration may take than the shortest.
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

/// The allowed share of failed iterations, in percent.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[schemars(extend("minProperties" = 1))]
#[serde(deny_unknown_fields)]
pub struct FailureRate {
    /// The lowest allowed failure rate, in percent (for scenarios that provoke failures).
    #[schemars(range(min = 0.0, max = 100.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min: Option<f64>,
    /// The highest allowed failure rate, in percent.
    #[schemars(range(min = 0.0, max = 100.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<f64>,
}

/// Successful iterations that take several standard deviations longer than the mean.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Outliers {
    /// The largest allowed number of outliers (default 0).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max: Option<u32>,
    /// With fewer successful iterations, the verdict is INVALID (default 3).
    #[schemars(range(min = 3))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_iterations: Option<u32>,
    /// An iteration is an outlier if it takes this many standard deviations longer than the mean (default 3).
    #[schemars(extend("exclusiveMinimum" = 0.0))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sigmas: Option<f64>,
}

/// The longest successful iteration compared with the shortest.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct PerformanceDegradation {
    /// The longest successful iteration may take at most this many percent longer than the shortest.
    #[schemars(range(min = 0.0))]
    pub max_degradation: f64,
}

/// A threshold: a condition, or a map with a condition and options.
#[derive(Clone, Debug, Default)]
pub struct Threshold {
    /// How it was written.
    pub written: ThresholdMap,
    /// True if it was written as a map.
    pub is_map: bool,
}

/// A threshold with options.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct ThresholdMap {
    /// The condition, such as `p(99) < 250ms`.
    #[schemars(length(min = 1))]
    pub threshold: String,
    /// The condition must hold in every window of this length (at least 100ms), not only over the whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<DurationText>,
    /// With fewer samples in the run or in a window, the verdict is INVALID.
    #[schemars(range(min = 1))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_samples: Option<u64>,
    /// `true` ends the load as soon as the threshold has certainly failed (default false).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub abort_on_fail: Option<bool>,
    /// With `abort_on_fail`: how long the load runs before it can be ended (default 10s).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay: Option<DurationText>,
    /// `fail` (the default) or `warn`. With `warn`, a threshold that fails is shown but does not fail the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub severity: Option<SeverityText>,
}

/// The effect of a threshold that fails.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SeverityText {
    /// The run fails.
    Fail,
    /// The threshold is shown, and the run does not fail because of it.
    Warn,
}

schema!(SeverityText, "Severity", |_| json_schema!({ "type": "string", "enum": ["fail", "warn"] }));

impl<'de> Deserialize<'de> for Threshold {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match digits::rounded(deserializer)? {
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

schema!(Threshold, "Threshold", |generator| {
    let map = generator.subschema_for::<ThresholdMap>();
    json_schema!({
        "description": "A condition such as `p(99) < 250ms`, or a map with a condition and options.",
        "anyOf": [{ "type": "string", "minLength": 1 }, map]
    })
});

/// A file from which `bench check` reads criteria: a scenario, of which only these keys are read, or a file with only
/// these keys.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SlaFile {
    /// The criteria of every workload.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sla: Option<Sla>,
    /// Criteria of individual workloads, by name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workloads: Option<Vec<SlaOfWorkload>>,
}

/// The criteria of one workload.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct SlaOfWorkload {
    /// The workload's name.
    pub name: String,
    /// The workload's criteria.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sla: Option<Sla>,
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use crate::{check, schema};
    use text::yaml;

    /// Which criteria Rally 5.1.1 accepts, just inside and just outside its limits. Made by
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
