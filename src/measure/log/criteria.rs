//! Criteria as written in the header of the run log; the condition of a threshold is its text.

use std::collections::BTreeMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use terms::sla::{Outliers, Sla};
use terms::threshold::{self, Threshold};

#[derive(Deserialize, Serialize)]
struct StoredSla {
    failure_rate_min: Option<f64>,
    failure_rate_max: Option<f64>,
    max_seconds_per_iteration: Option<f64>,
    max_avg_duration: Option<f64>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    max_avg_duration_per_atomic: BTreeMap<String, f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    outliers: Option<StoredOutliers>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_degradation: Option<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    thresholds: Vec<StoredThreshold>,
}

#[derive(Deserialize, Serialize)]
struct StoredOutliers {
    max: u32,
    min_iterations: u32,
    sigmas: f64,
}

#[derive(Deserialize, Serialize)]
struct StoredThreshold {
    condition: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    window_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min_samples: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    abort_after_ns: Option<u64>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    warn: bool,
}

pub(super) fn serialize<S: Serializer>(sla: &Sla, serializer: S) -> Result<S::Ok, S::Error> {
    let Sla {
        failure_rate_min,
        failure_rate_max,
        max_seconds_per_iteration,
        max_avg_duration,
        max_avg_duration_per_atomic,
        outliers,
        max_degradation,
        thresholds,
    } = sla.clone();
    let stored = StoredSla {
        failure_rate_min,
        failure_rate_max,
        max_seconds_per_iteration,
        max_avg_duration,
        max_avg_duration_per_atomic,
        outliers: outliers.map(|Outliers { max, min_iterations, sigmas }| StoredOutliers {
            max,
            min_iterations,
            sigmas,
        }),
        max_degradation,
        thresholds: thresholds.into_iter().map(StoredThreshold::from).collect(),
    };
    stored.serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Sla, D::Error> {
    let stored = StoredSla::deserialize(deserializer)?;
    let thresholds: Result<Vec<Threshold>, String> =
        stored.thresholds.into_iter().map(Threshold::try_from).collect();
    Ok(Sla {
        failure_rate_min: stored.failure_rate_min,
        failure_rate_max: stored.failure_rate_max,
        max_seconds_per_iteration: stored.max_seconds_per_iteration,
        max_avg_duration: stored.max_avg_duration,
        max_avg_duration_per_atomic: stored.max_avg_duration_per_atomic,
        outliers: stored.outliers.map(|StoredOutliers { max, min_iterations, sigmas }| Outliers {
            max,
            min_iterations,
            sigmas,
        }),
        max_degradation: stored.max_degradation,
        thresholds: thresholds.map_err(D::Error::custom)?,
    })
}

impl From<Threshold> for StoredThreshold {
    fn from(threshold: Threshold) -> Self {
        let Threshold { condition, window_ns, min_samples, abort_after_ns, warn } = threshold;
        Self { condition: condition.to_string(), window_ns, min_samples, abort_after_ns, warn }
    }
}

impl TryFrom<StoredThreshold> for Threshold {
    type Error = String;

    fn try_from(stored: StoredThreshold) -> Result<Self, String> {
        let StoredThreshold { condition, window_ns, min_samples, abort_after_ns, warn } = stored;
        let condition = threshold::parse(&condition)
            .map_err(|mistake| format!("the threshold `{condition}` cannot be read: {}", mistake.message))?;
        Ok(Self { condition, window_ns, min_samples, abort_after_ns, warn })
    }
}
