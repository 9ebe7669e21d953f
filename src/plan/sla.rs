//! A workload's criteria, resolved: Rally's names and meanings.

use serde::{Deserialize, Serialize};

use crate::config::scenario;

/// When a workload counts as good. Rates are percent, durations seconds, as in Rally.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Sla {
    /// The least share of failed iterations, in percent.
    pub failure_rate_min: Option<f64>,
    /// The largest share of failed iterations, in percent.
    pub failure_rate_max: Option<f64>,
    /// The longest that any iteration may take, in seconds.
    pub max_seconds_per_iteration: Option<f64>,
    /// The longest mean duration, in seconds.
    pub max_avg_duration: Option<f64>,
}

impl Sla {
    /// True when nothing is asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The criteria that a scenario asks for; none when it has no `sla`.
    ///
    /// # Errors
    /// Criteria that nothing could meet.
    pub fn from_config(config: Option<&scenario::Sla>) -> Result<Self, String> {
        let Some(config) = config else { return Ok(Self::default()) };
        let rate = config.failure_rate;
        let (min, max) = (rate.and_then(|rate| rate.min), rate.and_then(|rate| rate.max));
        if let (Some(min), Some(max)) = (min, max)
            && min > max
        {
            return Err(format!(
                "failure_rate asks for at least {min} % and at most {max} %, which nothing can meet; make min the smaller one, or remove it"
            ));
        }
        Ok(Self {
            failure_rate_min: min,
            failure_rate_max: max,
            max_seconds_per_iteration: config.max_seconds_per_iteration,
            max_avg_duration: config.max_avg_duration,
        })
    }
}
