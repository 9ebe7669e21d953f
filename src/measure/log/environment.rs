//! The machine, as the run log has it.

use serde::{Deserialize, Serialize};

/// The machine that made the load.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct LoadEnvironment {
    /// The version of `bench`.
    pub bench_version: String,
    /// Operating system and architecture.
    pub os: String,
    /// Its name; empty where the system does not say, and in logs of earlier builds.
    #[serde(default)]
    pub host: String,
    /// Processors that the harness could use.
    pub cpus: u32,
    /// Threads that made the load.
    pub workers: u32,
}
