//! One pass through a scenario.
//!
//! A [`user::VirtualUser`] runs one iteration after another, each with a fresh profiler, and returns a
//! sample for each. It never decides when an iteration starts; `runner` does.

pub mod call;
mod compare;
pub mod credentials;
pub mod crowd;
mod deadline;
mod excerpt;
mod flow;
pub mod judge;
mod lane;
pub mod observe;
mod pass;
mod poll;
pub mod refusal;
mod reply;
pub mod user;
mod user_state;

use std::sync::Arc;

use http::HeaderMap;

use base::clock::RunClock;
use base::ids::mix;
use client::options::Settings;
use credentials::CurrentCredentials;
use crowd::Crowds;
use measure::ids::RunIds;
use osprofiler::signing::Signer;
use plan::propagation::Propagation;
use text::template::{ComputedValue, Value, Variables};

/// Setup and teardown are not workloads; there are fewer of those than this.
pub const ONCE: u16 = u16::MAX;

/// What all iterations of a run share. Nothing in it changes while the load runs but the
/// credentials, which are renewed.
pub struct Context {
    /// The run's clock.
    pub clock: RunClock,
    /// Where ids come from.
    pub ids: RunIds,
    /// The headers that carry the trace; none if nothing is profiled.
    pub propagation: Propagation,
    /// Signs OSProfiler's headers; `None` if they are not sent.
    pub signer: Option<Signer>,
    /// Headers of every request to a target of the deployment.
    pub headers: HeaderMap,
    /// Headers of every request to another host. They contain none of the deployment's, which may be secret.
    pub foreign_headers: HeaderMap,
    /// The deployment's credentials.
    pub credentials: Arc<CurrentCredentials>,
    /// The users that iterations are, if some were made.
    pub crowds: Crowds,
    /// The settings of HTTP and TLS.
    pub http: Arc<Settings>,
    /// The seed of rows and of generated values. It is not that of `ids`: runs never share trace ids.
    pub data_seed: u64,
    /// The scenario's variables and the variables that `setup` extracted.
    pub variables: Arc<Vec<(Arc<str>, Value)>>,
    /// Prints a text of the scenario's `log` steps. It must not wait: the load does.
    pub log: Box<dyn Fn(&str) + Send + Sync>,
    /// Where to record what happens, if a single iteration is observed; `None` in a load.
    pub observed: Option<Arc<observe::ObservationLog>>,
    /// The fixed parts of requests, built on first use.
    pub fixed_parts: call::http::fixed::FixedPartsCache,
}

impl Context {
    /// The initial variables of iteration `number` of `workload`.
    #[must_use]
    pub fn variables(
        &self,
        (index, workload): (u16, &Arc<str>),
        number: u64,
        trace_id: uuid::Uuid,
    ) -> Variables {
        self.variables_over(&self.variables, (index, workload), number, trace_id)
    }

    /// The same, with a virtual user's variables beneath them.
    #[must_use]
    pub(crate) fn variables_over(
        &self,
        beneath: &Arc<Vec<(Arc<str>, Value)>>,
        (index, workload): (u16, &Arc<str>),
        number: u64,
        trace_id: uuid::Uuid,
    ) -> Variables {
        let computed = vec![
            ("workload", ComputedValue::Text(Arc::clone(workload))),
            ("iteration", ComputedValue::Number(number)),
            ("trace_id", ComputedValue::Id(trace_id)),
        ];
        let mut variables = Variables::with_computed(Arc::clone(beneath), computed);
        variables.draw_from(self.data_seed, index.into(), number);
        variables
    }

    /// A random number for an iteration, from the seed of its data: what decides between its steps.
    #[inline]
    fn data_draw(&self, workload: u16, number: u64) -> u64 {
        mix(mix(mix(self.data_seed.wrapping_add(1)) ^ u64::from(workload)) ^ number)
    }

    /// The same for the next iteration of a virtual user, without allocating.
    #[inline]
    fn renew(
        &self,
        variables: &mut Variables,
        (index, workload): (u16, &Arc<str>),
        number: u64,
        trace_id: uuid::Uuid,
    ) {
        variables.draw_from(self.data_seed, index.into(), number);
        for (_, computed) in variables.renew() {
            match computed {
                // The name's counter of references is shared by all threads.
                ComputedValue::Text(name) if Arc::ptr_eq(name, workload) => {}
                ComputedValue::Text(name) => *name = Arc::clone(workload),
                ComputedValue::Number(iteration) => *iteration = number,
                ComputedValue::Id(id) => *id = trace_id,
            }
        }
    }
}
