//! Rank 5: one pass through a scenario.
//!
//! A [`user::VirtualUser`] runs one iteration after another, each with a fresh profiler, and gives a
//! sample for each. It never decides when an iteration starts; that is `runner`'s business.

pub mod credentials;
mod deadline;
pub mod fixed;
pub mod judge;
pub mod request;
pub mod user;

use std::sync::Arc;

use http::HeaderMap;

use crate::base::clock::RunClock;
use crate::base::ids::{ControlShare, IdSpace};
use crate::base::template::{Pass, Value, Variables};
use crate::client::options::Settings;
use crate::osprofiler::signing::Signer;
use credentials::Credentials;

/// What all iterations of a run share. Nothing in it changes while the load runs but the
/// credentials, which are renewed.
pub struct Context {
    /// The run's clock.
    pub clock: RunClock,
    /// Where ids come from.
    pub ids: IdSpace,
    /// Signs trace headers; `None` when nothing is profiled.
    pub signer: Option<Signer>,
    /// The share of iterations that sends no trace headers at all, for comparison.
    pub control: ControlShare,
    /// Headers of every request to a target of the deployment.
    pub headers: HeaderMap,
    /// Headers of every request to another host: nothing of the deployment's, which may be secret.
    pub foreign_headers: HeaderMap,
    /// Who makes the requests.
    pub credentials: Arc<Credentials>,
    /// How to speak HTTP and TLS.
    pub http: Arc<Settings>,
    /// The scenario's variables and what `setup` extracted.
    pub variables: Arc<Vec<(Arc<str>, Value)>>,
    /// What requests have in common, made when first needed.
    pub shelf: fixed::Shelf,
}

impl Context {
    /// The variables with which iteration `number` of `workload` begins.
    #[must_use]
    pub fn variables(&self, workload: &Arc<str>, number: u64, trace_id: uuid::Uuid) -> Variables {
        let pass = Pass { workload: Arc::clone(workload), iteration: number, trace_id };
        Variables::of_pass(Arc::clone(&self.variables), pass)
    }
}
