//! What compiling the steps of a scenario knows at each place, and what it finds. The steps are compiled in
//! [`super::action`], what they expect and extract in [`super::condition`].

use std::collections::BTreeSet;

use crate::base::diagnostics::Fault;
use crate::base::template::Engine;
use crate::base::yaml::Node;
use crate::config::scenario;

use super::deployment::Deployment;

/// Variables that every template can use.
pub const BUILT_IN: [&str; 4] = ["auth", "iteration", "trace_id", "workload"];

/// Compiles steps and collects their faults.
pub(super) struct Compiler<'a> {
    pub(super) engine: Engine,
    /// Where to run; `None` when that cannot be read, and no target is a fault then.
    pub(super) deployment: Option<&'a Deployment>,
    /// The whole document and its words, when only a part of it could be read: what it declares in
    /// the other part is not known to be missing.
    pub(super) whole: Option<(&'a Node, BTreeSet<String>)>,
    /// Variables that are known at this place.
    pub(super) known: BTreeSet<String>,
    pub(super) faults: Vec<Fault>,
    pub(super) warnings: Vec<String>,
    /// What counts for actions that say nothing else.
    pub(super) http: scenario::Http,
}
