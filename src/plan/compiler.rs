//! The state of compiling a scenario's steps: the names known so far, and the faults found. [`super::action`] compiles
//! the steps, and [`super::condition`] compiles their checks and extractions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use client::url::BaseUrl;
use config::http;
use text::diagnostics::Fault;
use text::template::{Engine, Value};
use text::yaml::YamlNode;

use super::deployment::ResolvedDeployment;
use super::nesting::Nesting;
use super::references::Env;

/// Built-in variables that every template can use.
pub const BUILT_IN: [&str; 4] = ["auth", "iteration", "trace_id", "workload"];

/// The name of the run, which templates can use unless the scenario has a variable of this name. What a scenario makes
/// in a service is named after the run, so that it can be found again.
pub const RUN: &str = "run";

/// Compiles steps and collects their faults.
pub(super) struct Compiler<'a> {
    pub(super) engine: Engine,
    /// The deployment; `None` if it cannot be read. Then no target is reported as missing.
    pub(super) deployment: Option<&'a ResolvedDeployment>,
    /// The whole document and its words, if only a part of it could be read. A name that occurs in the other part must
    /// not be reported as missing.
    pub(super) whole: Option<(&'a YamlNode, BTreeSet<String>)>,
    /// Variables that can be used at this place.
    pub(super) known: BTreeSet<String>,
    /// How references are resolved.
    pub(super) env: Env<'a>,
    /// The variables that stand in place of references, with their values.
    pub(super) referred: Vec<(Arc<str>, Value)>,
    /// The names of the scenario's data.
    pub(super) data_names: BTreeSet<String>,
    /// The columns of those whose rows are maps.
    pub(super) data_columns: BTreeMap<String, BTreeSet<String>>,
    /// The names among these that were used since the workload began.
    pub(super) data_used: BTreeSet<String>,
    /// True once a text draws random numbers, or rows are taken in random order.
    pub(super) uses_seed: bool,
    /// True if an iteration may send nothing.
    pub(super) requests_optional: bool,
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<String>,
    /// The HTTP options of actions that do not set their own.
    pub(super) http: http::Http,
    /// Where the steps are nested.
    pub(super) nesting: Nesting,
    /// The scenario's folder.
    pub(super) folder: PathBuf,
    /// The texts of included files.
    pub(super) included: Vec<String>,
    /// The targets that are looked up in the cloud's catalog although the deployment does not list them.
    pub(super) services: BTreeMap<String, BaseUrl>,
    /// Further names that no variable may have.
    pub(super) reserved: &'static [&'static str],
}
