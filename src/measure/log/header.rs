//! The first and the last frame of the run log as written: what ran, and how it ended.
//!
//! These types are the format. No other room's type may be part of them: a field that is renamed elsewhere must not rename
//! a key here. A key keeps its meaning for as long as the version stays; keys may be added, with a default for the logs
//! that lack them; a reader passes over keys that it does not know.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::probe::Probe;
use super::rally::{HookRun, RallyTask};
use super::shard::{MergedShard, ShardHeader};
use super::{criteria, data};
use crate::plan::control::ControlShare;
use crate::plan::data::Allocation;
use crate::plan::sla::Sla;
use crate::plan::tags::Names;

/// What ran: enough to read the samples without the scenario.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Header {
    /// A random id of the run.
    pub run_id: Uuid,
    /// The seed of all trace ids.
    pub id_seed: Uuid,
    /// The seed of rows and of generated values in requests; absent if nothing depended on it, and in logs of earlier
    /// builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_seed: Option<u64>,
    /// The zero of every offset, on the wall clock.
    pub started_unix_ns: u64,
    /// What was run.
    pub scenario: Scenario,
    /// Where it was run.
    pub deployment: Deployment,
    /// Why nothing was profiled; absent when it was.
    pub profiling_off: Option<String>,
    /// The headers that carried the trace, as the deployment names them; logs of earlier builds have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace_headers: Vec<String>,
    /// The collector without user, password and query.
    pub collector: Option<String>,
    /// The machine that made the load.
    pub environment: Environment,
    /// The share of iterations that was left unprofiled, in percent; logs of earlier builds have none.
    #[serde(default, with = "percent")]
    pub control: ControlShare,
    /// How many slow iterations' traces were to be fetched, and how many others'.
    #[serde(default)]
    pub traces_wanted: (u32, u32),
    /// What a reader must know.
    pub notes: Vec<String>,
    /// The workloads, in the scenario's order.
    pub workloads: Vec<WorkloadHeader>,
    /// The task file of Rally that was run; absent for a scenario, and in logs of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rally: Option<RallyTask>,
    /// Which part of a load this is; absent for a whole one, and in logs of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shard: Option<ShardHeader>,
    /// The shards that were merged; none in any other log.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shards: Vec<MergedShard>,
}

/// The scenario of a run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Scenario {
    /// Its title.
    pub title: String,
    /// The file as it was named.
    pub file: String,
    /// SHA-256 of the file's bytes, hexadecimal.
    pub sha256: String,
    /// The variables given with `--set`.
    pub set: BTreeMap<String, String>,
    /// The text of the file without the secrets in it, bounded; absent in logs of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// The deployment of a run.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Deployment {
    /// Its name.
    pub name: String,
    /// The file as it was named.
    pub file: String,
    /// Base URLs by name, without user info.
    pub targets: BTreeMap<String, String>,
    /// False when certificates were not verified.
    pub tls_verified: bool,
    /// The kind of its authentication.
    pub auth: String,
    /// The embedded demo's settings, when it was the deployment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demo: Option<String>,
}

/// The machine that made the load.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Environment {
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

/// A workload's names.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct WorkloadHeader {
    /// Its name.
    pub name: String,
    /// Its runner, as in results.
    pub runner: Map<String, Value>,
    /// Its criteria.
    #[serde(with = "criteria")]
    pub sla: Sla,
    /// How many iterations there were to be, those of the warm-up with them; absent where none were planned, and in
    /// logs of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<u64>,
    /// How long after the last response asynchronous work was waited for, in nanoseconds; absent where iterations end
    /// with their responses, and in logs of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asynchronous_deadline_ns: Option<u64>,
    /// Name and request of each action.
    pub actions: Vec<(String, String)>,
    /// The tags of each action, by their names; absent if no action has any, and in logs of earlier builds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<BTreeMap<String, String>>,
    /// Who got which row of its data; absent without data, and in logs of earlier builds.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "data")]
    pub data: Vec<Allocation>,
}

impl WorkloadHeader {
    /// What criteria may name.
    #[must_use]
    pub fn names(&self) -> Names {
        let actions = self.actions.iter().map(|(name, _)| name.clone()).collect();
        Names { actions, tags: self.tags.clone() }
    }
}

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
    /// One entry for each thread that made load, in each workload or group of workloads that ran at the same time.
    pub workers: Vec<WorkerVitals>,
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

/// A share as a number of percent.
mod percent {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::plan::control::ControlShare;

    pub(super) fn serialize<S: Serializer>(share: &ControlShare, serializer: S) -> Result<S::Ok, S::Error> {
        share.percent().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ControlShare, D::Error> {
        f64::deserialize(deserializer).map(ControlShare::from_percent)
    }
}
