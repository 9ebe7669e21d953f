//! The last frame of the run log as written: how it ended. What is said of the first frame's types holds here, too.

use serde::ser::Error as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::Value;

use super::probe::ProbeRecord;
use super::rally::HookRun;
use crate::generator::Generator;

/// How a run ended.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct End {
    /// How it ended.
    pub status: Status,
    /// What went wrong with the run itself.
    pub error: Option<String>,
    /// What a reader must know, seen during the run.
    pub notes: Vec<String>,
    /// The workload and its threshold, by their numbers, that ended the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aborted_by: Option<(usize, usize)>,
    /// How the load generator itself did; absent when no load was made.
    #[serde(default, serialize_with = "as_in_version_4")]
    pub generator: Option<Generator>,
    /// How many iterations the log must hold, which its writer fills in; logs of earlier builds do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// One entry for each workload; none in logs of earlier builds.
    #[serde(default)]
    pub issued: Vec<IterationCounts>,
    /// The iteration before the load; absent without one, and in logs of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<ProbeRecord>,
    /// The programs that the task's hooks started, by their starts; none in logs of earlier builds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<HookRun>,
}

/// How a run ended, in a word.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// All workloads ran to their end.
    #[default]
    Finished,
    /// By a signal.
    Interrupted,
    /// By the scenario's own time limit.
    TimedOut,
    /// By a threshold that says `abort_on_fail`.
    Aborted,
    /// `setup` or the harness failed.
    Failed,
}

/// What became of a workload's iterations, including the warm-up's, by the count of the workers that started them.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct IterationCounts {
    /// How many there were to be; absent where only the clock bounds them.
    pub planned: Option<u64>,
    /// How many were started, or waited for a virtual user when the run ended.
    pub issued: u64,
    /// How many were due and never started because the queue was full.
    pub dropped: u64,
    /// How many of those issued could not be recorded.
    pub unrecorded: u64,
    /// How many of those planned the run did not come to; absent where none were planned.
    pub not_started: Option<u64>,
}

/// Figures of a worker that came after version 4 of the format, which has them only where they are not 0.
const LATER_FIGURES: [&str; 3] = ["kept_s", "kept_max_ms", "delay_ms"];

fn as_in_version_4<S: Serializer>(generator: &Option<Generator>, serializer: S) -> Result<S::Ok, S::Error> {
    let mut written = serde_json::to_value(generator).map_err(S::Error::custom)?;
    let workers = written.get_mut("workers").and_then(Value::as_array_mut).into_iter().flatten();
    for worker in workers.filter_map(Value::as_object_mut) {
        worker.retain(|key, value| !LATER_FIGURES.contains(&key.as_str()) || value.as_f64() != Some(0.0));
    }
    written.serialize(serializer)
}

impl End {
    /// The run itself failed, however it went until then.
    pub fn fail(&mut self, error: String) {
        if self.status != Status::Failed {
            (self.status, self.error) = (Status::Failed, Some(error));
        }
    }
}

impl IterationCounts {
    /// Of a workload that the run did not come to.
    #[must_use]
    pub fn none_of(planned: Option<u64>) -> Self {
        Self { planned, not_started: planned, ..Self::default() }
    }
}
