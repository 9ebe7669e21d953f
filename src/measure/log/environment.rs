//! The machine, as the run log and the results have it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The machine that generated the load.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "Environment")]
pub struct LoadEnvironment {
    /// The version of `bench`.
    pub bench_version: String,
    /// Operating system and architecture.
    pub os: String,
    /// Its name; empty if unknown, and in runs of earlier builds.
    #[serde(default)]
    pub host: String,
    /// Processors that the harness could use.
    pub cpus: u32,
    /// Threads that generated the load.
    pub workers: u32,
}
