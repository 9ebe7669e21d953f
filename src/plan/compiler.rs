//! The state of compiling a scenario's steps. [`super::action`] compiles the steps; [`super::texts`] compiles the texts in
//! them, and has the names known so far and the faults found.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use client::url::BaseUrl;
use config::http;
use text::template::Value;

use super::deployment::ResolvedDeployment;
use super::nesting::Nesting;
use super::references::Env;
use super::texts::TextCompiler;

/// Compiles steps and collects their faults.
pub(super) struct Compiler<'a> {
    /// Compiles what the steps say, and has the names and the faults.
    pub(super) texts: TextCompiler<'a>,
    /// The deployment; `None` if it cannot be read. Then no target is reported as missing.
    pub(super) deployment: Option<&'a ResolvedDeployment>,
    /// The targets that are looked up in the cloud's catalog although the deployment does not list them.
    pub(super) services: BTreeMap<String, BaseUrl>,
    /// How references are resolved.
    pub(super) env: Env<'a>,
    /// The variables that stand in place of references, with their values.
    pub(super) referred: Vec<(Arc<str>, Value)>,
    /// The HTTP options of actions that do not set their own.
    pub(super) http: http::Http,
    /// Where the steps are nested.
    pub(super) nesting: Nesting,
    /// True if an iteration may send nothing.
    pub(super) requests_optional: bool,
    /// The scenario's folder.
    pub(super) folder: PathBuf,
    /// The texts of included files.
    pub(super) included: Vec<String>,
    pub(super) warnings: Vec<String>,
}
