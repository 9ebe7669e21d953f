//! How the load generator performed: whether it was the bottleneck, and how close it came to its limits.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::measure::log;

/// How the load generator performed during the whole run.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Generator {
    /// Processor time of the whole process during the load, in seconds; includes the embedded demo.
    pub cpu_s: f64,
    /// The time from the start of the first workload to the end of the last, in seconds.
    pub load_s: f64,
    /// The largest number of open descriptors, sampled a few times a second; 0 if the system does not say.
    pub descriptors_max: u64,
    /// The limit of descriptors; absent if there is none.
    pub descriptors_limit: Option<u64>,
    /// How long the machine slept or the process was stopped, in seconds.
    pub suspended_s: f64,
    /// How far the wall clock jumped during the load, in seconds; no duration depends on it.
    pub wall_clock_jump_s: f64,
    /// Iterations that ended and were not recorded because the disk was too slow.
    pub unrecorded: u64,
    /// What the process held over time; absent if the system does not say, in runs that were merged from shards, and in
    /// results that were written before it was known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<ProcessSeries>,
    /// One entry for each load-generating thread, in each workload or group of workloads that ran at
    /// the same time.
    pub workers: Vec<WorkerVitals>,
}

/// What the process held over time: each list has an entry for each interval, with the most that was seen in it. It
/// shows whether a load of hours stays as it is. The embedded demo, if there is one, is part of the process.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ProcessSeries {
    /// Offset of the first interval from the run's start, in seconds.
    pub start_s: f64,
    /// The length of an interval, in seconds.
    pub step_s: f64,
    /// Resident memory.
    pub memory_bytes: Vec<u64>,
    /// Open descriptors.
    pub descriptors: Vec<u64>,
    /// Threads.
    pub threads: Vec<u64>,
}

/// How one worker performed.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct WorkerVitals {
    /// The indexes of the workloads that ran.
    pub workloads: Vec<u16>,
    /// Its number, from 0.
    pub worker: u32,
    /// How long it ran, in seconds.
    pub load_s: f64,
    /// Its processor time, in seconds, without the busy waiting of `pacing: precise`.
    pub cpu_s: f64,
    /// Its largest share of a processor in any half second, 0 to 1.
    pub cpu_share_max: f64,
    /// How long it could have run but had no processor, in seconds; 0 if the system does not say.
    pub run_queue_s: f64,
    /// The longest delay of its event loop.
    pub loop_lag_max_ms: f64,
    /// Arrivals of an open model that it handled.
    pub arrivals: u64,
    /// Half of the arrivals were handled within this time after they were due, whether or not they could start.
    pub late_p50_ms: f64,
    /// 99 % of the arrivals were handled within this time after they were due.
    pub late_p99_ms: f64,
    /// The longest time between an arrival being due and being handled.
    pub late_max_ms: f64,
    /// How long it was saturated (had almost no idle time), in seconds.
    pub saturated_s: f64,
    /// How long it was starved (waited for a processor whenever it did not compute), in seconds.
    pub starved_s: f64,
    /// How long it was behind its schedule through its own fault, in seconds.
    pub behind_s: f64,
}

impl Generator {
    /// Notes for the results that do not make the run invalid.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.wall_clock_jump_s != 0.0 {
            notes.push(format!(
                "the wall clock jumped by {:+.1} s during the load; durations use another clock and are correct",
                self.wall_clock_jump_s
            ));
        }
        notes
    }
}

// The run log has its own types: a field that is renamed here keeps its key there.

impl From<Generator> for log::Generator {
    fn from(seen: Generator) -> Self {
        let Generator {
            cpu_s,
            load_s,
            descriptors_max,
            descriptors_limit,
            suspended_s,
            wall_clock_jump_s,
            unrecorded,
            process,
            workers,
        } = seen;
        Self {
            cpu_s,
            load_s,
            descriptors_max,
            descriptors_limit,
            suspended_s,
            wall_clock_jump_s,
            unrecorded,
            process: process.map(Into::into),
            workers: workers.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<log::Generator> for Generator {
    fn from(seen: log::Generator) -> Self {
        let log::Generator {
            cpu_s,
            load_s,
            descriptors_max,
            descriptors_limit,
            suspended_s,
            wall_clock_jump_s,
            unrecorded,
            process,
            workers,
        } = seen;
        Self {
            cpu_s,
            load_s,
            descriptors_max,
            descriptors_limit,
            suspended_s,
            wall_clock_jump_s,
            unrecorded,
            process: process.map(Into::into),
            workers: workers.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<ProcessSeries> for log::ProcessSeries {
    fn from(seen: ProcessSeries) -> Self {
        let ProcessSeries { start_s, step_s, memory_bytes, descriptors, threads } = seen;
        Self { start_s, step_s, memory_bytes, descriptors, threads }
    }
}

impl From<log::ProcessSeries> for ProcessSeries {
    fn from(seen: log::ProcessSeries) -> Self {
        let log::ProcessSeries { start_s, step_s, memory_bytes, descriptors, threads } = seen;
        Self { start_s, step_s, memory_bytes, descriptors, threads }
    }
}

impl From<WorkerVitals> for log::WorkerVitals {
    fn from(seen: WorkerVitals) -> Self {
        let WorkerVitals {
            workloads,
            worker,
            load_s,
            cpu_s,
            cpu_share_max,
            run_queue_s,
            loop_lag_max_ms,
            arrivals,
            late_p50_ms,
            late_p99_ms,
            late_max_ms,
            saturated_s,
            starved_s,
            behind_s,
        } = seen;
        Self {
            workloads,
            worker,
            load_s,
            cpu_s,
            cpu_share_max,
            run_queue_s,
            loop_lag_max_ms,
            arrivals,
            late_p50_ms,
            late_p99_ms,
            late_max_ms,
            saturated_s,
            starved_s,
            behind_s,
        }
    }
}

impl From<log::WorkerVitals> for WorkerVitals {
    fn from(seen: log::WorkerVitals) -> Self {
        let log::WorkerVitals {
            workloads,
            worker,
            load_s,
            cpu_s,
            cpu_share_max,
            run_queue_s,
            loop_lag_max_ms,
            arrivals,
            late_p50_ms,
            late_p99_ms,
            late_max_ms,
            saturated_s,
            starved_s,
            behind_s,
        } = seen;
        Self {
            workloads,
            worker,
            load_s,
            cpu_s,
            cpu_share_max,
            run_queue_s,
            loop_lag_max_ms,
            arrivals,
            late_p50_ms,
            late_p99_ms,
            late_max_ms,
            saturated_s,
            starved_s,
            behind_s,
        }
    }
}
