//! The last frame of the run log as written: how it ended. What is said of the first frame's types holds here, too.

use serde::{Deserialize, Serialize};

use super::probe::Probe;
use super::rally::HookRun;

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
    #[serde(default)]
    pub generator: Option<Generator>,
    /// How many iterations the log must hold, which its writer fills in; logs of earlier builds do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// One entry for each workload; none in logs of earlier builds.
    #[serde(default)]
    pub issued: Vec<Issued>,
    /// The iteration before the load; absent without one, and in logs of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probe>,
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

/// What became of a workload's iterations, those of the warm-up with them, by the count of the workers that started them.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Issued {
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

/// How the load generator itself did, for the whole run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Generator {
    /// Processor time of the whole process during the load, in seconds.
    pub cpu_s: f64,
    /// From the start of the first workload to the end of the last one, in seconds.
    pub load_s: f64,
    /// The most descriptors that were open; 0 where the system does not say.
    pub descriptors_max: u64,
    /// The limit of descriptors; absent when there is none.
    pub descriptors_limit: Option<u64>,
    /// For how long the machine slept or the process was stopped, in seconds.
    pub suspended_s: f64,
    /// By how much the wall clock jumped during the load, in seconds.
    pub wall_clock_jump_s: f64,
    /// Iterations that ended and were not recorded because the disk was too slow.
    pub unrecorded: u64,
    /// What the process held over time; absent in older logs and where the system does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessSeries>,
    /// The quota of processor time that the process had; absent without one, and in older logs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
    /// One entry for each thread that made load, in each workload or group of workloads that ran at the same time.
    pub workers: Vec<WorkerVitals>,
}

/// What the process held over time: each list has an entry for each interval, with the most that was seen in it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct ProcessSeries {
    /// When the first interval begins, from the run's anchor, in seconds.
    pub start_s: f64,
    /// The length of an interval, in seconds.
    pub step_s: f64,
    /// Resident memory, in bytes.
    pub memory_bytes: Vec<u64>,
    /// Open descriptors.
    pub descriptors: Vec<u64>,
    /// Threads.
    pub threads: Vec<u64>,
}

/// A quota of processor time.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Quota {
    /// How many processors the process may use; absent if the system does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpus: Option<f64>,
    /// The periods of the quota during the load.
    pub periods: u64,
    /// The periods in which it was used up.
    pub throttled_periods: u64,
    /// For how long the group was throttled, in seconds, over all its processors.
    pub throttled_s: f64,
}

/// How one worker did.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct WorkerVitals {
    /// The indexes of the workloads that ran.
    pub workloads: Vec<u16>,
    /// Its number, from 0.
    pub worker: u32,
    /// For how long it ran, in seconds.
    pub load_s: f64,
    /// Its processor time, in seconds.
    pub cpu_s: f64,
    /// The largest share of a processor that it had in any half second, 0 to 1.
    pub cpu_share_max: f64,
    /// For how long it could have run but had no processor, in seconds; 0 where the system does not say.
    pub run_queue_s: f64,
    /// The longest time for which its event loop did not come round, in milliseconds.
    pub loop_lag_max_ms: f64,
    /// Arrivals of an open model that it handled.
    pub arrivals: u64,
    /// Half of them were handled within this time of being due, in milliseconds.
    pub late_p50_ms: f64,
    /// 99 of a hundred were.
    pub late_p99_ms: f64,
    /// The longest such time, in milliseconds.
    pub late_max_ms: f64,
    /// For how long it had hardly any time left, in seconds.
    pub saturated_s: f64,
    /// For how long it waited for a processor whenever it did not compute, in seconds.
    pub starved_s: f64,
    /// For how long it was behind its schedule by its own fault, in seconds.
    pub behind_s: f64,
    /// For how long it was kept from running, in seconds; 0 in older logs.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub kept_s: f64,
    /// The longest time for which it was, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub kept_max_ms: f64,
    /// How long an event waited for it on average, in milliseconds.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub delay_ms: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_zero(number: &f64) -> bool {
    *number == 0.0
}

impl End {
    /// The run itself failed, however it went until then.
    pub fn fail(&mut self, error: String) {
        if self.status != Status::Failed {
            (self.status, self.error) = (Status::Failed, Some(error));
        }
    }
}

impl Issued {
    /// Of a workload that the run did not come to.
    #[must_use]
    pub fn none_of(planned: Option<u64>) -> Self {
        Self { planned, not_started: planned, ..Self::default() }
    }
}
