//! The part of the result model on task files of Rally: what they say of themselves, and the programs that they started.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A task file of Rally.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Task {
    /// Its description; may be empty.
    pub description: String,
    /// Its tags.
    pub tags: Vec<String>,
    /// Its subtasks, in order; their workloads, one after another, are those of the run.
    pub subtasks: Vec<Subtask>,
}

/// A subtask.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Subtask {
    /// Its title.
    pub title: String,
    /// Its description; may be empty.
    pub description: String,
    /// How many workloads it has.
    pub workloads: usize,
}

/// A program that a hook started in the middle of the load.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Hook {
    /// The workload's index.
    pub workload: u16,
    /// The hook's index within the workload.
    pub hook: u16,
    /// `iteration`: when an iteration began; `time`: so long after the workload's start.
    pub event: String,
    /// The number of that iteration, from 1, or the number of seconds.
    pub value: u64,
    /// When it started, in seconds from the run's start.
    pub start_s: f64,
    /// How long it ran.
    pub duration_ms: f64,
    /// Its exit code; absent if it was not started, or did not end by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why there is no exit code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The beginning of its standard output, at most 4000 characters; without secrets.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// The beginning of its standard error, at most 4000 characters; without secrets.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub error_output: String,
}
