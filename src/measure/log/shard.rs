//! What the log of a shard says beside that of a whole load.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::end::Status;
use super::environment::LoadEnvironment;

/// Which part of a load a run is. Its figures are those of its part, and no criterion judges it.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[schemars(rename = "Shard")]
pub struct ShardHeader {
    /// Its number, from 0.
    pub index: u32,
    /// How many shards there are.
    pub count: u32,
    /// What all shards of the load have in common.
    pub job: String,
    /// Who started it, such as `Slurm`; absent if it was told on the command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub launcher: Option<String>,
}

/// When a shard's load began, and how its clock is to be read.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct ShardStart {
    /// When it began, as an offset of the log.
    pub began_ns: u64,
    /// By how much it began later than it was due; absent if nothing said when that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_ns: Option<u64>,
    /// What must be added to its wall clock to get the clock that all shards share; absent if they share none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_correction_ns: Option<i64>,
}

/// A shard of a merged log.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct MergedShard {
    /// Its number, from 0.
    pub index: u32,
    /// Its run directory.
    pub directory: String,
    /// The machine that made its load.
    pub environment: LoadEnvironment,
    /// When its load began, on the clock of the merged log.
    pub began_ns: u64,
    /// By how much it began later than it was due; absent if nothing said when that was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub late_ns: Option<u64>,
    /// What was added to its clock; absent if its clock was taken as it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_correction_ns: Option<i64>,
    /// Its iterations.
    pub rows: u64,
    /// How it ended; absent if its log does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
}
