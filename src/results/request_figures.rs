//! The requests of a whole run in a few figures, as other load tools sum them up.

use measure::latency::{Latency, Percentiles};
use measure::log::LogError;
use terms::threshold::RequestPhase;

use super::aggregate::{ActionStats, Aggregate};
use super::phase_times::PhaseTimes;

/// The percentiles of [`RequestFigures`].
pub const PERCENTILES: [f64; 4] = [50.0, 90.0, 95.0, 99.0];

/// The requests of all workloads, without the warm-up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestFigures {
    /// How many were sent.
    pub sent: u64,
    /// How many were sent in a second.
    pub rate_per_s: f64,
    /// How many had no fault, and how many had one; a poll counts once.
    pub ok: u64,
    /// See `ok`.
    pub failed: u64,
    /// How many iterations ended without a fault or with one.
    pub iterations: u64,
    /// How many of these ended in a second.
    pub iterations_per_s: f64,
    /// From send to the last byte, of requests without fault, in milliseconds at [`PERCENTILES`]; absent without any.
    pub duration_ms: Option<[f64; 4]>,
    /// From the request's last byte to the answer's first, in the same way.
    pub waiting_ms: Option<[f64; 4]>,
}

impl RequestFigures {
    /// The figures of a run.
    ///
    /// # Errors
    /// The log cannot be read again.
    pub fn read(aggregate: &Aggregate) -> Result<Self, LogError> {
        let mut figures = Self::default();
        let (mut service, mut failed_service) = (Latency::new(), Latency::new());
        let (mut wait, mut failed_wait) = (Latency::new(), Latency::new());
        let (mut first_ns, mut last_ns) = (u64::MAX, 0);
        for (number, workload) in aggregate.workloads.iter().enumerate() {
            figures.iterations += workload.iterations.ok + workload.iterations.failed;
            if workload.iterations.total > 0 {
                first_ns = first_ns.min(workload.first_start_ns);
                last_ns = last_ns.max(workload.last_end_ns);
            }
            for action in workload.actions.iter().filter(|action| action.sent > 0) {
                figures.sent += action.sent;
                figures.ok += action.requests.ok;
                figures.failed += action.requests.failed;
                service.add(&action.service);
                failed_service.add(&action.failed_service);
            }
            for action in requesting(&workload.actions) {
                let times = PhaseTimes::read(&aggregate.log, number, action, RequestPhase::Wait)?;
                wait.add(&times.all);
                failed_wait.add(&times.failed);
            }
        }
        let seconds = last_ns.saturating_sub(first_ns) as f64 / 1e9;
        if seconds > 0.0 {
            figures.rate_per_s = figures.sent as f64 / seconds;
            figures.iterations_per_s = figures.iterations as f64 / seconds;
        }
        figures.duration_ms = at_percentiles(&service.without(&failed_service));
        figures.waiting_ms = at_percentiles(&wait.without(&failed_wait));
        Ok(figures)
    }
}

/// The actions whose waits are read: all at once, unless some are groups, which send nothing themselves.
fn requesting(actions: &[ActionStats]) -> Vec<Option<usize>> {
    let is_group = |action: &ActionStats| action.sent == 0 && action.requests.total > 0;
    if !actions.iter().any(is_group) {
        return vec![None];
    }
    (0..actions.len()).filter(|at| actions[*at].sent > 0).map(Some).collect()
}

fn at_percentiles(times: &Percentiles) -> Option<[f64; 4]> {
    (times.count() > 0).then(|| PERCENTILES.map(|wanted| times.percentile_ns(wanted) as f64 / 1e6))
}
