//! The part of the result model on loads that several processes made together.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use measure::log::LoadEnvironment;

use super::RunStatus;

/// A shard of a merged run.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
pub struct MergedShard {
    /// Its number, from 0.
    pub index: u32,
    /// Its run directory, as it was named.
    pub directory: String,
    /// The machine that made its load.
    pub environment: LoadEnvironment,
    /// When its load began, in seconds from the run's start, by the clock that all shards share.
    pub began_s: f64,
    /// By how much it began later than it was due, in seconds; absent if nothing said when that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_s: Option<f64>,
    /// What was added to its machine's clock, in seconds; absent if that was taken as it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_correction_s: Option<f64>,
    /// Its iterations, with those of the warm-up.
    pub iterations: u64,
    /// How it ended: `recovered` if its log does not say.
    pub status: RunStatus,
}
