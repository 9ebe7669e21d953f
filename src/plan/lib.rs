//! The valid and resolved plan of a run.
//!
//! After this module, everything is resolved: templates are compiled, units are converted, references to secrets are
//! read, and all faults of the files have been reported at once, with their places. The only I/O is reading the files
//! that the YAML names. The environment is passed in.

pub mod action;
pub mod body;
pub mod call;
pub mod catalog;
pub mod cidr;
pub mod compare;
mod compiler;
pub mod condition;
mod connection;
pub mod contexts;
pub mod data;
pub mod deployment;
pub mod end;
pub mod explain;
mod flow_steps;
pub mod given;
mod headers;
pub mod http;
mod http_options;
pub mod include;
pub mod json;
pub mod keystone;
mod known_targets;
pub mod levels;
pub mod measures;
pub mod messages;
mod nesting;
pub mod overrides;
pub mod probe;
pub mod propagation;
pub mod references;
mod referred;
pub mod rounds;
pub mod scenario;
mod schemas;
pub mod service_types;
pub mod shard;
pub mod step;
mod steps;
mod tag_steps;
mod texts;
mod user_steps;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::ids::mix;
use client::options::HttpOptions;
use client::url::Origin;
use deployment::ResolvedDeployment;
use step::PlanStep;
use terms::control::ControlShare;
use terms::runner::Runner;
use terms::sla::Sla;
use text::template::Value;

/// The largest seed: larger numbers are not exact in every reader of JSON.
pub const SEED_MAX: u64 = (1 << 53) - 1;

/// Everything that a run needs.
pub struct Plan {
    /// The scenario's title.
    pub title: String,
    /// The path of the scenario file, as given.
    pub file: PathBuf,
    /// SHA-256 of the file, hexadecimal.
    pub sha256: String,
    /// The text of the file without the secrets in it, bounded.
    pub text: String,
    /// The values from `--set`.
    pub set: BTreeMap<String, String>,
    /// The deployment to test.
    pub deployment: ResolvedDeployment,
    /// Why iterations are not profiled; `None` when they are.
    pub profiling_off: Option<String>,
    /// The headers that carry the trace; none if nothing is profiled.
    pub propagation: propagation::Propagation,
    /// What runs before the load; `None` if it is switched off.
    pub probe: Option<probe::ProbePlan>,
    /// The share of iterations left unprofiled for comparison; zero if nothing is profiled.
    pub control: terms::control::ControlShare,
    /// The seed of rows and of generated values, if the scenario or the caller sets it.
    pub seed: Option<u64>,
    /// Whether requests depend on that seed.
    pub uses_seed: bool,
    /// The variables that all iterations share, except those of `setup`.
    pub variables: Vec<(Arc<str>, Value)>,
    /// How requests use HTTP.
    pub http: HttpOptions,
    /// Actions before the load.
    pub setup: Vec<PlanStep>,
    pub workloads: Vec<WorkloadPlan>,
    /// True if the workloads run at the same time, false if one after another.
    pub parallel: bool,
    /// Actions after the load.
    pub teardown: Vec<PlanStep>,
    /// Which traces are fetched after the load.
    pub traces: TraceFetchPlan,
    /// The time limit of the whole run.
    pub timeout: Option<Duration>,
    /// How long running iterations may continue after a stop.
    pub graceful_stop: Duration,
    /// The part of the load that this process makes.
    pub shard: shard::Shard,
    /// Warnings for readers of the results.
    pub warnings: Vec<String>,
}

impl Plan {
    /// True if it has anything made in a cloud.
    #[must_use]
    pub fn wants_contexts(&self) -> bool {
        self.workloads.iter().any(|workload| workload.contexts.is_some())
    }

    /// The gRPC services whose messages are not known yet, and where they are.
    #[must_use]
    pub fn services_awaited(&self) -> Vec<(&Origin, &str)> {
        let lists = self.workloads.iter().flat_map(WorkloadPlan::lists).chain([&self.setup, &self.teardown]);
        let actions = lists.flat_map(|steps| step::actions(steps));
        let mut awaited: Vec<_> = actions.filter_map(|action| action.call.awaited_service()).collect();
        awaited.sort_by_key(|(_, service)| *service);
        awaited.dedup();
        awaited
    }

    /// Makes each workload a single profiled iteration without criteria, one after another.
    pub fn run_once(&mut self) {
        for workload in &mut self.workloads {
            workload.runner = Runner::once(workload.runner.timeout);
            workload.sla = Sla::default();
        }
        self.parallel = false;
        self.control = ControlShare::NONE;
        self.probe = None;
        self.traces.slow = self.traces.slow.max(1);
        self.traces.others = 0;
    }

    /// Draws the arrivals of workloads with `random: poisson`. They depend only on this seed and the workload.
    pub fn draw_arrivals(&mut self, seed: u64) {
        for (number, workload) in (1_u64..).zip(&mut self.workloads) {
            workload.runner.at_random(mix(mix(seed) ^ number));
        }
    }
}

/// Which traces are fetched after the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceFetchPlan {
    /// The largest number of slow iterations of the run, and also of typical ones. 0 fetches no traces.
    pub slow: u32,
    /// The largest number of other iterations.
    pub others: u32,
    /// How long to wait for the last points of a trace.
    pub settle: Duration,
}

pub struct WorkloadPlan {
    /// The workload's name.
    pub name: String,
    /// When its iterations start.
    pub runner: Runner,
    /// How long after the workload before it ended, or with parallel workloads after the load began, it starts.
    pub start_after: Duration,
    /// What an iteration does.
    pub steps: Vec<PlanStep>,
    /// What a virtual user does before its first iteration.
    pub user_setup: Vec<PlanStep>,
    /// What it does after its last one.
    pub user_teardown: Vec<PlanStep>,
    /// The data that its templates use.
    pub data: Vec<Arc<data::Feeder>>,
    /// The criteria that its results must meet.
    pub sla: Sla,
    /// How long after the last response to wait for asynchronous work; `None` if iterations end with their responses.
    pub asynchronous: Option<Duration>,
    /// What is made in a cloud for it; the same for several workloads if it is the scenario's.
    pub contexts: Option<Arc<contexts::Contexts>>,
}

impl WorkloadPlan {
    /// Its lists of steps: that of an iteration, and those of a virtual user around its iterations.
    pub fn lists(&self) -> impl Iterator<Item = &Vec<PlanStep>> {
        [&self.steps, &self.user_setup, &self.user_teardown].into_iter()
    }

    /// The workload's actions and groups, in the order of their numbers.
    #[must_use]
    pub fn named(&self) -> Vec<step::NamedStep> {
        step::named(&self.steps)
    }

    /// How many iterations there are rows for, with the name of the data; `None` if no data ends the workload.
    #[must_use]
    pub fn rows_max(&self) -> Option<(u64, &str)> {
        let ending = self.data.iter().filter_map(|data| Some((data.iterations_max()?, &**data.name())));
        ending.min()
    }

    /// The planned number of iterations, including the warm-up; `None` if only the clock bounds them.
    #[must_use]
    pub fn planned(&self) -> Option<u64> {
        let rows = self.rows_max().map_or(u64::MAX, |(rows, _)| rows);
        self.runner.planned().map(|planned| planned.min(rows))
    }
}
