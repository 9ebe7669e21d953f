//! Rank 3: the valid and resolved plan of a run.
//!
//! After this module, nothing is unresolved: templates are compiled, units are converted, references to
//! secrets are read, every fault of the files has been reported at once with its place. It does no
//! I/O but reading the files that the YAML names; the environment is handed in.

pub mod action;
mod compiler;
pub mod condition;
mod connection;
pub mod control;
pub mod deployment;
pub mod given;
mod headers;
mod http;
mod http_options;
pub mod json;
pub mod references;
pub mod rounds;
pub mod runner;
pub mod scenario;
pub mod shape;
pub mod sla;
pub mod threshold;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::base::template::Value;
use crate::client::options::HttpOptions;
use action::Step;
use deployment::Deployment;
use runner::Runner;
use sla::Sla;

/// All that a run needs to know.
pub struct Plan {
    /// The scenario's title.
    pub title: String,
    /// The scenario's file as it was named.
    pub file: PathBuf,
    /// SHA-256 of the file, hexadecimal.
    pub sha256: String,
    /// What `--set` gave.
    pub set: BTreeMap<String, String>,
    /// Where to run.
    pub deployment: Deployment,
    /// Why iterations are not profiled; `None` when they are.
    pub profiling_off: Option<String>,
    /// The share of iterations that is left unprofiled for comparison; none when nothing is profiled.
    pub control: control::ControlShare,
    /// The variables that all iterations share, without those of `setup`.
    pub variables: Vec<(Arc<str>, Value)>,
    /// How HTTP is spoken.
    pub http: HttpOptions,
    /// Actions before the load.
    pub setup: Vec<Step>,
    /// The loads.
    pub workloads: Vec<Workload>,
    /// True when they run at the same time, false when one after another.
    pub parallel: bool,
    /// Actions after the load.
    pub teardown: Vec<Step>,
    /// Which traces are fetched after the load.
    pub traces: Traces,
    /// The longest that the whole run may take.
    pub timeout: Option<Duration>,
    /// How long running iterations may go on after a stop.
    pub graceful_stop: Duration,
    /// What a reader of the results must know.
    pub warnings: Vec<String>,
}

/// Which traces are fetched after the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Traces {
    /// How many slow iterations of the run; as many typical ones. 0 fetches nothing.
    pub slow: u32,
    /// How many others.
    pub others: u32,
    /// How long services may take to write the last points of a trace.
    pub settle: Duration,
}

/// One load.
pub struct Workload {
    /// Its name.
    pub name: String,
    /// When its iterations start.
    pub runner: Runner,
    /// What an iteration does.
    pub steps: Vec<Step>,
    /// When it counts as good.
    pub sla: Sla,
}

impl Workload {
    /// Its actions, in the order of their numbers.
    pub fn actions(&self) -> impl Iterator<Item = &action::Action> {
        action::actions(&self.steps)
    }
}
