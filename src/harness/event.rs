//! What happens while the harness works, for a front end that wants to show it.
//!
//! The harness prints nothing: whoever calls it gives it something that takes events.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use crate::plan::Plan;
use crate::verdict::paired::{Names, Row};

/// Something that happened.
#[non_exhaustive]
pub enum Event<'a> {
    /// The files of a run were read and its directory was made.
    Started {
        /// What will run.
        plan: &'a Plan,
        /// Its directory.
        directory: &'a Path,
    },
    /// Something that its reader should know, although the work goes on.
    Warning(&'a str),
    /// Live metrics are served at this URL.
    MetricsServed(&'a str),
    /// Nothing is profiled, for this reason.
    NotProfiling(&'a str),
    /// A workload begins; several may be under way.
    WorkloadBegan(&'a WorkloadProgress),
    /// How a workload is doing: about ten times a second.
    WorkloadProgress(&'a WorkloadProgress),
    /// A workload has ended.
    WorkloadEnded(&'a WorkloadProgress),
    /// An interrupt stops the load; iterations under way have this long to end.
    Stopping {
        /// How long.
        grace: Duration,
    },
    /// Traces are about to be fetched.
    FetchingBegan {
        /// How many are asked for.
        wanted: usize,
    },
    /// Traces are being fetched.
    Fetching {
        /// How many are here.
        fetched: usize,
        /// How many were asked for.
        wanted: usize,
    },
    /// No more traces are coming.
    FetchingEnded,
    /// A pair of rounds of a comparison has ended.
    PairEnded {
        /// How many pairs count until now.
        pairs: usize,
        /// How many there are at most.
        pairs_max: usize,
        /// The ratios until now.
        rows: &'a [Row],
        /// The workloads that these are of.
        workloads: &'a [Names],
    },
    /// The rounds of a comparison get longer, for this reason.
    RoundsLonger(&'a str),
}

/// What takes events. It is called from several threads, one at a time or not, and must return at once: the load
/// waits for it.
pub trait Events: Send + Sync {
    /// Something happened.
    fn event(&self, event: &Event<'_>);
}

impl<F: Fn(&Event<'_>) + Send + Sync> Events for F {
    fn event(&self, event: &Event<'_>) {
        self(event);
    }
}

/// Where events go.
pub type Sink = Arc<dyn Events>;

/// Drops every event.
#[must_use]
pub fn silent() -> Sink {
    Arc::new(|_: &Event<'_>| {})
}

/// Passes warnings on.
pub(super) fn warn(events: &Sink, warnings: &[String]) {
    for warning in warnings {
        events.event(&Event::Warning(warning));
    }
}

/// The events of one round of many: only that it started, and that it is being stopped.
pub(super) fn of_round(events: &Sink) -> Sink {
    let events = Arc::clone(events);
    Arc::new(move |event: &Event<'_>| {
        if matches!(event, Event::Started { .. } | Event::Stopping { .. }) {
            events.event(event);
        }
    })
}

/// How a workload is doing.
#[derive(Clone, Debug)]
pub struct WorkloadProgress {
    /// Its index in the plan.
    pub workload: usize,
    /// Its name.
    pub name: String,
    /// How many iterations there are to be; absent where only the clock bounds them.
    pub times: Option<u64>,
    /// How long it lasts; absent where only a number of iterations bounds it.
    pub duration: Option<Duration>,
    /// The time since its start.
    pub elapsed: Duration,
    /// Iterations that have ended, with those of the warm-up.
    pub ended: u64,
    /// Those of the warm-up among them.
    pub warm_up: u64,
    /// Iterations that are under way.
    pub under_way: u64,
    /// Arrivals that wait for a virtual user.
    pub queued: u64,
    /// Arrivals that were due and never started.
    pub dropped: u64,
    /// Iterations that failed.
    pub failed: u64,
    /// Iterations that ended in the last seconds, a second; at the end, those of all its time.
    pub rate: f64,
    /// The median response time.
    pub p50_ns: Option<u64>,
    /// The response time that 1 % exceed.
    pub p99_ns: Option<u64>,
    /// By how much 1 % start later than they are due, or more.
    pub start_lag_p99_ns: u64,
    /// The slowest response time, and the trace id of its iteration.
    pub slowest: Option<(u64, Uuid)>,
    /// The share of iterations that is profiled; absent where nothing is.
    pub profiled_percent: Option<f64>,
}
