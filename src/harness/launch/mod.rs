//! Files for launchers: what starts the shards of a load somewhere else, and merges them.
//!
//! They are printed, and never submitted: what runs on a cluster is for its users to say.

mod bundle;
mod clear;
mod kubernetes;
mod slurm;

use std::path::PathBuf;

use base::complaint::Complaint;
use plan::Plan;
use plan::shard::Shard;

use super::built_in;
use super::error::HarnessError;
use super::files::{self, Files};
use super::options::{LoadOptions, YamlFile};
use super::shards::ShardAssignment;

pub use kubernetes::KubernetesOptions;
pub use slurm::SlurmOptions;

/// A load that a launcher is to make in shards.
#[derive(Clone, Debug)]
pub struct LaunchOptions {
    /// The scenario.
    pub scenario: PathBuf,
    /// The deployment, instead of the one that the scenario names.
    pub deployment: Option<PathBuf>,
    /// How many shards make it.
    pub shards: u32,
    /// For how long a shard waits for the others before the load, as it is written.
    pub wait: String,
    /// Further arguments of `bench run`, as they are written.
    pub arguments: Vec<String>,
    /// What these change in the load.
    pub load: LoadOptions,
}

impl LaunchOptions {
    /// Reads the files as each shard will.
    ///
    /// # Errors
    /// All faults of the files, or the load cannot be made in this number of shards.
    fn check(&self) -> Result<Plan, HarnessError> {
        let usage = |complaint: Complaint| HarnessError::usage(complaint.what).remedy(complaint.remedy);
        let given: Option<YamlFile> = self.deployment.as_ref().map(Into::into);
        let file = (&self.scenario).into();
        if built_in::named(&file).is_some() {
            return Err(HarnessError::usage("the built-in demo has no files for other machines")
                .remedy("write them with `bench init demo`, and launch demo.yaml"));
        }
        let Files { document, mut deployment, task } =
            files::scenario_and_deployment(&file, given.as_ref(), &self.load)?;
        super::demo::stand_in(&mut deployment);
        let mut plan = files::plan(&file, &document, deployment, task.as_ref(), &self.load)?;
        clear::refuse_arguments(self)?;
        let shard = Shard::new(0, u64::from(self.shards)).map_err(usage)?;
        ShardAssignment { shard, job: String::new(), launcher: None }.take(&mut plan, true)?;
        if shard.is_part() {
            return Ok(plan);
        }
        Err(HarnessError::usage("one shard is the whole load".to_owned())
            .remedy("ask for more with --shards, or start `bench run` itself"))
    }
}
