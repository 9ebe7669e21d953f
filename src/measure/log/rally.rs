//! What a run log says of a Rally task file: as much as Rally's own reports repeat.
//!
//! Without secrets: the values of arguments that their names tell to be secret are not written.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A task file of Rally.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct RallyTask {
    pub title: String,
    /// Its description; may be empty.
    pub description: String,
    pub tags: Vec<String>,
    /// Its subtasks, in order. Their workloads, one after another, are the workloads of the run.
    pub subtasks: Vec<RallySubtask>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct RallySubtask {
    pub title: String,
    /// Its description; may be empty.
    pub description: String,
    /// Its workloads, in order.
    pub workloads: Vec<RallyWorkload>,
}

/// A workload, as the file has it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct RallyWorkload {
    /// The scenario's name.
    pub scenario: String,
    /// Its description: the file's, or the scenario's.
    pub description: String,
    /// The scenario's arguments: a map.
    pub args: Value,
    /// The runner's name.
    pub runner_type: String,
    /// The runner's settings: a map.
    pub runner: Value,
    /// The contexts: a map.
    pub contexts: Value,
    /// The criteria: a map.
    pub sla: Value,
    /// The hooks: a list.
    pub hooks: Value,
}

/// A run of a hook: a program that was started in the middle of the load.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct HookRun {
    /// The workload's index.
    pub workload: u16,
    /// The hook's index within the workload.
    pub hook: u16,
    /// What triggered it: `iteration` or `time`.
    pub event: String,
    /// The number of the iteration, from 1, or the second since the workload's start.
    pub value: u64,
    /// When it started, in nanoseconds since the run's start.
    pub start_ns: u64,
    /// How long it ran, in nanoseconds.
    pub duration_ns: u64,
    /// The program's exit code; absent if it was not started, or did not end by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why there is no exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The beginning of what it printed to standard output.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// The beginning of what it printed to standard error.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error_output: String,
}
