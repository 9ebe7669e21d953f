//! Ends the load when an `abort_on_fail` threshold is certain to fail ([`verdict::live`]).

use base::clock::saturating_nanos;
use measure::ids::RunIds;
use measure::recorder::Batch;
use measure::rows::Rows;
use plan::{Plan, step};
use runner::Progress;
use runner::observers::Observer;
use runner::stop::{Stop, StopReason};
use verdict::live::LiveThresholds;

/// Watches a load, on the coordinator's thread.
pub(super) struct LiveGate {
    thresholds: LiveThresholds,
    stop: Stop,
    broken: Option<(usize, usize)>,
    /// Counts only what [`LiveGate::count`] is given.
    of_all_shards: bool,
}

impl LiveGate {
    /// Watches the thresholds of a plan.
    pub(super) fn new(plan: &Plan, ids: RunIds, stop: &Stop) -> Self {
        let workloads = plan.workloads.iter().map(|one| (&one.sla, step::names(&one.named())));
        let thresholds = LiveThresholds::new(workloads, ids);
        Self { thresholds, stop: stop.clone(), broken: None, of_all_shards: false }
    }

    /// Makes it count only what [`Self::count`] is given, and not the batches of this process.
    #[must_use]
    pub(super) fn of_all_shards(self) -> Self {
        Self { of_all_shards: true, ..self }
    }

    /// Counts these iterations.
    pub(super) fn count(&mut self, rows: &Rows) {
        if self.broken.is_none() {
            self.thresholds.count(rows);
        }
    }

    /// Ends the load because of this threshold.
    pub(super) fn end_by(&mut self, threshold: (usize, usize)) {
        self.broken = Some(threshold);
        self.stop.stop(StopReason::Threshold);
    }

    /// The numbers of the workload and the threshold that ended the load.
    pub(super) fn broken(&self) -> Option<(usize, usize)> {
        self.broken
    }

    /// A note for the results: which threshold ended the load.
    pub(super) fn note(&self, plan: &Plan) -> Option<String> {
        let (workload, threshold) = self.broken?;
        let workload = plan.workloads.get(workload)?;
        let threshold = workload.sla.thresholds.get(threshold)?;
        Some(format!("the load was ended by the threshold `{threshold}` of {}", workload.name))
    }
}

impl Observer for LiveGate {
    fn batch(&mut self, batch: &Batch) {
        if !self.of_all_shards {
            self.count(&batch.samples);
        }
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        if self.broken.is_some() || self.stop.is_stopping() {
            return;
        }
        let elapsed_ns = saturating_nanos(progress.elapsed);
        if let Some(threshold) = self.thresholds.broken(progress.workload, elapsed_ns) {
            self.end_by((progress.workload, threshold));
        }
    }
}
