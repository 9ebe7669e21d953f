//! Events of the harness, for a front end that shows them.
//!
//! The harness prints nothing: its caller passes a receiver of events.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use plan::Plan;
use report::capacity::LevelInfo;
use verdict::paired::{CountRow, PercentileSeriesRow, WorkloadNames};

/// Something that happened.
pub enum Event<'a> {
    /// The files of a run were read and its directory was made.
    Started {
        /// What will run.
        plan: &'a Plan,
        /// Its directory.
        directory: &'a Path,
    },
    /// Something that the user should know, although the work continues.
    Warning(&'a str),
    /// A text of a `log` step of the scenario.
    Logged(&'a str),
    /// Live metrics are served at this URL.
    MetricsServed(&'a str),
    /// The live page is served at this URL.
    PageServed(&'a str),
    /// Spans are received at these addresses.
    Receiving(&'a [SocketAddr]),
    /// A receiver that stands alone has received its first spans.
    FirstSpans,
    /// Profiling is off, for this reason.
    NotProfiling(&'a str),
    /// Iterations are profiled with W3C's headers and not with OSProfiler's, for this reason.
    ProfilingWithout(&'a str),
    /// An iteration has run before the load, and its trace is waited for.
    Probing {
        /// For how long at most.
        longest: Duration,
    },
    /// How the probe went, in a line.
    Probed(&'a str),
    /// What is wrong with the probe: it failed, or its trace does not arrive.
    ProbeWarning(&'a str),
    /// What is being made or deleted in a cloud.
    Contexts(&'a str),
    /// What of that could not be deleted, or what to do about it.
    ContextsLeft(&'a str),
    /// The load begins later, for this reason.
    Awaiting(&'a str),
    /// A workload begins; several may be under way.
    WorkloadBegan(&'a WorkloadProgress),
    /// The progress of a workload, about ten times a second.
    WorkloadProgress(&'a WorkloadProgress),
    /// A workload has ended.
    WorkloadEnded(&'a WorkloadProgress),
    /// An interrupt stops the load; iterations under way have this long to end.
    Stopping {
        /// How long.
        grace: Duration,
    },
    /// The load has ended, and asynchronous work is waited for, until an interrupt.
    AwaitingWork {
        /// For how long at most.
        longest: Duration,
    },
    /// Traces are about to be fetched.
    FetchingBegan {
        /// How many are requested.
        wanted: usize,
    },
    /// Traces are being fetched.
    Fetching {
        /// How many have arrived.
        fetched: usize,
        /// How many were requested.
        wanted: usize,
    },
    /// No more traces are coming.
    FetchingEnded,
    /// A long log of a run is being read.
    Reading {
        /// How many bytes were read.
        read: u64,
        /// How many there are.
        of: u64,
    },
    /// Logs of shards are being merged.
    Merging {
        /// How many iterations are written.
        rows: u64,
        /// How many there are.
        wanted: u64,
    },
    /// A pair of rounds of a comparison has ended.
    PairEnded {
        /// How many pairs count so far.
        pairs: usize,
        /// How many there are at most.
        pairs_max: usize,
        /// The ratios so far.
        rows: &'a [PercentileSeriesRow],
        /// The counts of trace points so far.
        counts: &'a [CountRow],
        /// The workloads of the ratios.
        workloads: &'a [WorkloadNames],
    },
    /// A level of a search for capacity has ended.
    LevelEnded(&'a LevelInfo),
    /// The rounds of a comparison get longer, for this reason.
    RoundsLonger(&'a str),
    /// How long a comparison takes, where that is known.
    ComparisonLength(&'a str),
}

/// A receiver of events. Several threads call it, possibly at the same time. It must return at once: the load waits for
/// it.
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
        let passed = matches!(
            event,
            Event::Started { .. } | Event::Stopping { .. } | Event::ProbeWarning(_) | Event::ContextsLeft(_)
        );
        if passed {
            events.event(event);
        }
    })
}

/// The progress of a workload.
#[derive(Clone, Debug)]
pub struct WorkloadProgress {
    /// Its index in the plan.
    pub workload: usize,
    /// Its name.
    pub name: String,
    /// The planned number of iterations; absent if only a duration bounds them.
    pub times: Option<u64>,
    /// Its planned duration; absent if only a number of iterations bounds it.
    pub duration: Option<Duration>,
    /// How long an iteration may take.
    pub timeout: Option<Duration>,
    /// The time since its start.
    pub elapsed: Duration,
    /// Iterations that have ended, including the warm-up.
    pub ended: u64,
    /// How many of them belong to the warm-up.
    pub warm_up: u64,
    /// Iterations that are under way.
    pub under_way: u64,
    /// Arrivals that wait for a virtual user.
    pub queued: u64,
    /// Arrivals that were due and never started.
    pub dropped: u64,
    /// Iterations that failed.
    pub failed: u64,
    /// Ended iterations per second, over the last seconds; at the end, over the whole load.
    pub rate: f64,
    /// The median response time of all that were due; absent if it falls among those without a valid time.
    pub p50_ns: Option<u64>,
    /// The response time that 1 % exceed.
    pub p99_ns: Option<u64>,
    /// The queue time that 1 % of iterations exceed.
    pub queue_time_p99_ns: u64,
    /// The slowest response time, and the trace id of its iteration.
    pub slowest: Option<(u64, Uuid)>,
    /// The share of iterations that is profiled; absent if none is.
    pub profiled_percent: Option<f64>,
}
