//! The first frame of the run log as written: what ran.
//!
//! These types are the format. No other room's type may be part of them: a field that is renamed elsewhere must not
//! rename a key here. A key keeps its meaning for as long as the version stays. Keys may be added, with a default for
//! the logs that lack them. A reader passes over keys that it does not know.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use super::environment::LoadEnvironment;
use super::rally::RallyTask;
use super::shard::{MergedShard, ShardHeader};
use super::{criteria, data};
use terms::allocation::Allocation;
use terms::control::ControlShare;
use terms::sla::Sla;
use terms::tags::ActionNames;

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
    pub scenario: ScenarioInfo,
    /// Where it was run.
    pub deployment: DeploymentInfo,
    /// Why nothing was profiled; absent when it was.
    pub profiling_off: Option<String>,
    /// The headers that carried the trace, as the deployment names them; logs of earlier builds have none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub trace_headers: Vec<String>,
    /// The collector without user, password and query.
    pub collector: Option<String>,
    /// The machine that made the load.
    pub environment: LoadEnvironment,
    /// The share of iterations that was left unprofiled, in percent; logs of earlier builds have none.
    #[serde(default, with = "percent")]
    pub control: ControlShare,
    /// How many slow iterations' traces were to be fetched, and how many others'.
    #[serde(default)]
    pub traces_wanted: (u32, u32),
    /// The numbers of iterations in a row of the first workload whose traces are wanted, all of them: from the first up to and
    /// without the last; logs of earlier builds have none.
    #[serde(default, skip_serializing_if = "is_no_row")]
    pub in_a_row: (u64, u64),
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

/// What was run.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct ScenarioInfo {
    /// Its title.
    pub title: String,
    /// The file's path, as given.
    pub file: String,
    /// SHA-256 of the file's bytes, hexadecimal.
    pub sha256: String,
    /// The variables given with `--set`.
    pub set: BTreeMap<String, String>,
    /// The other options that changed its load, as words of a command: `--times`, `100`. Empty in runs of earlier builds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<String>,
    /// The text of the file, at most 64 KiB of it, with `***` for secrets that are written in it; not that of included
    /// files. Absent in runs of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

/// Where it was run.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct DeploymentInfo {
    /// Its name.
    pub name: String,
    /// The file's path, as given.
    pub file: String,
    /// Base URLs by name, without user info.
    pub targets: BTreeMap<String, String>,
    /// False when certificates were not verified.
    pub tls_verified: bool,
    /// `none`, `basic`, `bearer` or `keystone`.
    pub auth: String,
    /// The settings of the embedded demo, if it was the deployment; its address is different in each run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub demo: Option<String>,
}

/// A workload's names.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct WorkloadHeader {
    pub name: String,
    /// Its runner, as in results.
    pub runner: Map<String, Value>,
    /// Its criteria.
    #[serde(with = "criteria")]
    pub sla: Sla,
    /// How many iterations there were to be, including the warm-up's; absent where none were planned, and in logs of
    /// earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<u64>,
    /// How long after the last response asynchronous work was waited for, in nanoseconds; absent where iterations end
    /// with their responses, and in logs of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asynchronous_deadline_ns: Option<u64>,
    /// Name and request of each action.
    pub actions: Vec<(String, String)>,
    /// Name and request of each action before a virtual user's first iteration; absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user_setup: Vec<(String, String)>,
    /// The same after its last iteration.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub user_teardown: Vec<(String, String)>,
    /// The tags of each action, by their names; absent if no action has any, and in logs of earlier builds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<BTreeMap<String, String>>,
    /// The numbers of the actions that are answered by a stream, ascending; absent if none is.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub streams: Vec<u16>,
    /// The names of the numbers that it takes from answers; absent if it takes none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub measures: Vec<String>,
    /// Who got which row of its data; absent without data, and in logs of earlier builds.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "data")]
    pub data: Vec<Allocation>,
}

impl WorkloadHeader {
    /// What criteria may name.
    #[must_use]
    pub fn names(&self) -> ActionNames {
        let actions = self.actions.iter().map(|(name, _)| name.clone()).collect();
        ActionNames {
            actions,
            tags: self.tags.clone(),
            streams: self.streams.clone(),
            measures: self.measures.clone(),
        }
    }
}

/// A share as a number of percent.
mod percent {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use terms::control::ControlShare;

    pub(super) fn serialize<S: Serializer>(share: &ControlShare, serializer: S) -> Result<S::Ok, S::Error> {
        share.percent().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ControlShare, D::Error> {
        f64::deserialize(deserializer).map(ControlShare::from_percent)
    }
}

fn is_no_row(row: &(u64, u64)) -> bool {
    row.0 >= row.1
}
