//! The first and the last frame of the run log: what ran, and how it ended.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use uuid::Uuid;

use crate::base::ids::ControlShare;
use crate::plan::sla::Sla;

use crate::runner::Issued;
use crate::runner::generator::Generator;

use super::model::{DeploymentInfo, Environment, RunStatus, ScenarioInfo};

/// What ran: enough to read the samples without the scenario.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Header {
    /// A random id of the run.
    pub run_id: Uuid,
    /// The seed of all trace ids.
    pub id_seed: Uuid,
    /// The zero of every offset, on the wall clock.
    pub started_unix_ns: u64,
    /// What was run.
    pub scenario: ScenarioInfo,
    /// Where it was run.
    pub deployment: DeploymentInfo,
    /// Why nothing was profiled; absent when it was.
    pub profiling_off: Option<String>,
    /// The collector without user, password and query.
    pub collector: Option<String>,
    /// The machine that made the load.
    pub environment: Environment,
    /// The share of iterations that was left unprofiled, in percent; logs of earlier builds have none.
    #[serde(default)]
    pub control: ControlShare,
    /// How many slow iterations' traces were to be fetched, and how many others'.
    #[serde(default)]
    pub traces_wanted: (u32, u32),
    /// What a reader must know.
    pub notes: Vec<String>,
    /// The workloads, in the scenario's order.
    pub workloads: Vec<WorkloadHeader>,
}

/// A workload's names.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct WorkloadHeader {
    /// Its name.
    pub name: String,
    /// Its runner, as in results.
    pub runner: Map<String, Value>,
    /// Its criteria.
    pub sla: Sla,
    /// How many iterations there were to be, those of the warm-up with them; absent where none were planned, and in
    /// logs of earlier builds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub planned: Option<u64>,
    /// Name and request of each action.
    pub actions: Vec<(String, String)>,
}

/// How a run ended.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct End {
    /// How it ended.
    pub status: RunStatus,
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
    /// How many iterations the log must hold, which its writer adds; logs of earlier builds do not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u64>,
    /// One entry for each workload; none in logs of earlier builds.
    #[serde(default)]
    pub issued: Vec<Issued>,
}

impl End {
    /// The run itself failed, however it went until then.
    pub fn fail(&mut self, error: String) {
        if self.status != RunStatus::Failed {
            (self.status, self.error) = (RunStatus::Failed, Some(error));
        }
    }
}
