//! Iterations that failed at a limit of `bench` or of its machine: a criterion that they decide is INVALID, neither FAIL
//! nor PASS.
//!
//! They decide a criterion if it would end otherwise without them. A percentile is then judged by its observed share,
//! without bounds: that is enough to tell a service that is slow anyway from one that is not.

use super::threshold::{Judge, ThresholdResult};
use results::model::Outcome;
use statistics::order::share_above;
use terms::threshold::{CountedOutcome, Metric, Statistic};

/// What to say of a criterion that such iterations decide.
pub(super) fn reason(of_bench: u64) -> String {
    format!(
        "{of_bench} iterations failed at a limit of bench or of this machine, which says nothing of the service, and \
         without them it would end otherwise: see their errors (class `client`, `body_limit` or `bench`)"
    )
}

impl Judge<'_> {
    /// The verdict, which is INVALID if iterations decide it that failed without a fault of the service. `aborted`: it
    /// has ended the load.
    pub(super) fn judge_without(&self, of_bench: u64, aborted: bool) -> ThresholdResult {
        let judged = self.judge();
        if of_bench == 0 || !self.decides(&judged, of_bench, aborted) {
            return judged;
        }
        ThresholdResult {
            outcome: Outcome::Invalid,
            reason: Some(reason(of_bench)),
            examples: Vec::new(),
            ..judged
        }
    }

    fn decides(&self, judged: &ThresholdResult, of_bench: u64, aborted: bool) -> bool {
        let (condition, range) = (&self.threshold.condition, 0..self.series.slices().len());
        let all = self.all(range.clone());
        // Of an action, others may have failed.
        let of_bench = of_bench.min(all.failed);
        if of_bench == 0 {
            return false;
        }
        let holds = |value: f64| condition.operator.holds(value, condition.limit);
        let failed = all.failed - of_bench;
        let completed = (all.completed() - of_bench).max(1);
        let holds_without = match &condition.metric {
            Metric::Rate(CountedOutcome::Errors, _) => Some(holds(failed as f64 * 100.0 / completed as f64)),
            Metric::Count(CountedOutcome::Errors, _) => Some(holds(failed as f64)),
            _ => None,
        };
        match (judged.outcome, holds_without) {
            (Outcome::Pass, Some(holds)) => return !holds,
            (Outcome::Fail | Outcome::Inconclusive, Some(holds)) => return holds,
            (Outcome::Fail, None) => {}
            _ => return aborted,
        }
        if self.threshold.window_ns.is_some() {
            return true;
        }
        match &condition.metric {
            Metric::Time(Statistic::Percentile(at), _) => {
                let share = self.share(range).whole;
                let above = self.bounds_above();
                let k = if above { share.k.saturating_sub(of_bench) } else { share.k };
                let seen = k as f64 / share.n.saturating_sub(of_bench).max(1) as f64;
                if above { seen <= share_above(*at) } else { seen >= share_above(*at) }
            }
            // A single arrival that failed breaks these.
            Metric::Time(..) if self.series.faulty(&all) > of_bench => false,
            Metric::Time(statistic, _) => {
                let seen = match statistic {
                    Statistic::Min => all.min_ns.map(|ns| ns as f64),
                    Statistic::Max => all.ok_max_ns.map(|ns| ns as f64),
                    _ => (all.ok > 0).then(|| all.ok_sum_ns as f64 / all.ok as f64),
                };
                seen.is_none_or(holds)
            }
            Metric::Count(CountedOutcome::Completed, _) => {
                let done = self.done(&all);
                holds((done + of_bench) as f64) || holds(done.saturating_sub(of_bench) as f64)
            }
            Metric::Throughput => {
                let lasted_s = self.series.lasted_ns() as f64 / 1e9;
                holds((self.done(&all) + of_bench) as f64 / lasted_s)
            }
            _ => false,
        }
    }
}
