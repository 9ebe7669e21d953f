//! The state of compiling a scenario's steps. [`super::action`] compiles the steps; [`super::texts`] compiles the texts in
//! them, and has the names known so far and the faults found.

use std::time::Duration;

use config::http;

use super::known_targets::KnownTargets;
use super::nesting::{Nesting, StepFiles};
use super::referred::ReferredVariables;
use super::schemas::KnownSchemas;
use super::texts::TextCompiler;

/// The time limit of a request whose action has no `timeout`.
pub(super) const ACTION_TIMEOUT: Duration = Duration::from_secs(30);

/// Compiles steps and collects their faults.
pub(super) struct Compiler<'a> {
    /// Compiles what the steps say, and has the names and the faults.
    pub(super) texts: TextCompiler<'a>,
    /// The targets that they may name.
    pub(super) targets: KnownTargets<'a>,
    /// The variables that stand in place of references.
    pub(super) referred: ReferredVariables<'a>,
    /// The HTTP options of actions that do not set their own.
    pub(super) http: http::Http,
    /// What is known of the gRPC messages.
    pub(super) schemas: KnownSchemas,
    /// Where the steps are nested.
    pub(super) nesting: Nesting,
    /// The files that they are in.
    pub(super) files: StepFiles,
    /// True if an iteration may send nothing.
    pub(super) requests_optional: bool,
    pub(super) warnings: Vec<String>,
}
