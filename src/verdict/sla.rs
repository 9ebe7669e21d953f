//! Rally's criteria under Rally's names (rally/plugins/task/sla.py): rates in percent, durations in
//! seconds, of iterations from start to end. Iterations that were cut off do not count. Without data
//! these criteria are INVALID, where Rally passes.

use super::limits;
use base::units::beside_limit;
use measure::latency::SampleId;
use measure::log::WorkloadHeader;
use results::RallySums;
use results::aggregate::{Aggregate, WorkloadStats};
use results::largest::EXEMPLARS_MAX;
use results::model::{Criterion, Outcome, Severity};
use terms::sla::Outliers;

/// Judges one workload.
#[must_use]
pub fn judge(
    aggregate: &Aggregate,
    workload: &WorkloadHeader,
    stats: &WorkloadStats,
    sums: &RallySums,
) -> Vec<Criterion> {
    let sla = &workload.sla;
    let judge = Judge { aggregate, workload: &workload.name, stats };
    let mut criteria = Vec::new();
    if sla.failure_rate_max.is_some() || sla.failure_rate_min.is_some() {
        criteria.push(judge.failure_rate(sla.failure_rate_min, sla.failure_rate_max));
    }
    if let Some(limit_s) = sla.max_seconds_per_iteration {
        criteria.push(judge.max_seconds(limit_s));
    }
    if let Some(limit_s) = sla.max_avg_duration {
        criteria.push(judge.max_average(limit_s));
    }
    for (action, limit_s) in &sla.max_avg_duration_per_atomic {
        let number = workload.actions.iter().position(|(name, _)| name == action);
        let (count, sum_ns) = number.and_then(|number| sums.actions.get(number)).copied().unwrap_or_default();
        criteria.push(judge.max_average_of(action, *limit_s, count, sum_ns));
    }
    if let Some(outliers) = &sla.outliers {
        criteria.push(judge.outliers(*outliers, sums));
    }
    if let Some(limit) = sla.max_degradation {
        criteria.push(judge.degradation(limit, sums));
    }
    criteria
}

struct Judge<'a> {
    aggregate: &'a Aggregate,
    workload: &'a str,
    stats: &'a WorkloadStats,
}

impl Judge<'_> {
    /// Why there are no samples.
    fn nothing(&self) -> String {
        let counts = self.stats.iterations;
        match (counts.failed, counts.aborted) {
            (0, 0) => "no iteration ran".to_owned(),
            (0, aborted) => format!("no iteration finished: {aborted} were cut off"),
            (failed, _) => format!("no iteration succeeded: {failed} failed"),
        }
    }

    fn failure_rate(&self, min: Option<f64>, max: Option<f64>) -> Criterion {
        let failed = self.stats.iterations.failed;
        let samples = self.stats.iterations.ok + failed;
        let percent = failed as f64 * 100.0 / samples as f64;
        let condition = match (min, max) {
            (Some(min), Some(max)) => format!("failure rate from {min} % to {max} %"),
            (Some(min), None) => format!("failure rate at least {min} %"),
            (_, max) => format!("failure rate at most {} %", max.unwrap_or(0.0)),
        };
        let keeps =
            |percent: f64| min.is_none_or(|min| percent >= min) && max.is_none_or(|max| percent <= max);
        let holds = keeps(percent);
        let observed = format!("{percent:.3} % ({failed} of {samples})");
        let examples = self.stats.errors.values().flat_map(|(_, examples)| examples.iter().copied());
        let mut criterion = self.criterion("failure_rate", condition, observed, holds, samples, examples);
        let of_bench = self.aggregate.failed_of_bench(self.stats).min(failed);
        let rest = samples.saturating_sub(of_bench);
        if of_bench > 0 && holds != keeps((failed - of_bench) as f64 * 100.0 / rest.max(1) as f64) {
            criterion.outcome = Outcome::Invalid;
            criterion.trace_ids.clear();
            criterion.reason = Some(limits::reason(of_bench));
        }
        criterion
    }

    /// As in Rally, failed iterations count by their time. An iteration that was cut off counts only if it had already
    /// taken longer. Without a successful iteration nothing passes.
    fn max_seconds(&self, limit_s: f64) -> Criterion {
        let cut = self.stats.cut_longest.filter(|(ns, _)| seconds(*ns) > limit_s);
        let longest_s = seconds(self.stats.service.max_ns().max(cut.map_or(0, |(ns, _)| ns)));
        let broke = self.stats.longest.iter().chain(&cut).filter(|(ns, _)| seconds(*ns) > limit_s);
        let holds = longest_s <= limit_s;
        let samples = if self.stats.iterations.ok > 0 || !holds {
            self.stats.service.count() + u64::from(cut.is_some())
        } else {
            0
        };
        self.criterion(
            "max_seconds_per_iteration",
            format!("no iteration longer than {limit_s} s"),
            format!("longest {}", seconds_beside(longest_s, limit_s)),
            holds,
            samples,
            broke.map(|(_, id)| *id),
        )
    }

    fn max_average(&self, limit_s: f64) -> Criterion {
        // As in Rally, the mean is over successful iterations.
        let samples = self.stats.iterations.ok;
        let mean_s = self.stats.ok_service_sum_ns as f64 / samples as f64 / 1e9;
        let longest = self.stats.longest.iter().map(|(_, id)| *id);
        self.criterion(
            "max_avg_duration",
            format!("mean duration at most {limit_s} s"),
            format!("mean {}", seconds_beside(mean_s, limit_s)),
            mean_s <= limit_s,
            samples,
            longest,
        )
    }

    /// As in Rally, of actions in successful iterations.
    fn max_average_of(&self, action: &str, limit_s: f64, count: u64, sum_ns: u128) -> Criterion {
        let mean_s = sum_ns as f64 / count as f64 / 1e9;
        self.criterion(
            "max_avg_duration_per_atomic",
            format!("mean duration of {action} at most {limit_s} s"),
            format!("mean {}", seconds_beside(mean_s, limit_s)),
            mean_s <= limit_s,
            count,
            self.stats.longest.iter().map(|(_, id)| *id),
        )
    }

    /// Exact where Rally approximates: compares every iteration with the mean and deviation of all.
    fn outliers(&self, asked: Outliers, sums: &RallySums) -> Criterion {
        let Outliers { max, min_iterations, sigmas } = asked;
        let above_s = sums.outliers_above_ns().unwrap_or(0.0) / 1e9;
        let mut criterion = self.criterion(
            "outliers",
            format!("at most {max} iterations over the mean by {sigmas} standard deviations"),
            format!(
                "{}{} over {above_s:.3} s",
                if sums.outlying_more { "more than " } else { "" },
                sums.outlying
            ),
            sums.outlying <= u64::from(max),
            sums.ok,
            sums.outlying_longest.iter().map(|(_, id)| *id),
        );
        if sums.outlying_more && criterion.outcome == Outcome::Pass {
            criterion.outcome = Outcome::Inconclusive;
            criterion.reason = Some(format!("only the {} longest iterations are counted", sums.outlying));
        }
        if sums.ok > 0 && sums.ok < u64::from(min_iterations) {
            criterion.outcome = Outcome::Invalid;
            criterion.trace_ids.clear();
            criterion.reason = Some(format!(
                "{min_iterations} successful iterations are required, and there were {}; run longer",
                sums.ok
            ));
        }
        criterion
    }

    fn degradation(&self, limit: f64, sums: &RallySums) -> Criterion {
        let (longest_ns, id) = sums.longest.unzip();
        let (longest_s, shortest_s) =
            (seconds(longest_ns.unwrap_or(0)), seconds(sums.shortest_ns.unwrap_or(0)));
        let percent = (longest_s / shortest_s - 1.0) * 100.0;
        let shown = beside_limit(percent, limit, |percent, more| format!("{percent:.*} %", 1 + more));
        self.criterion(
            "performance_degradation",
            format!("longest iteration at most {limit} % longer than the shortest"),
            format!("{shown} (shortest {shortest_s:.3} s, longest {longest_s:.3} s)"),
            percent <= limit,
            sums.ok,
            id.into_iter(),
        )
    }

    fn criterion(
        &self,
        name: &str,
        condition: String,
        observed: String,
        holds: bool,
        samples: u64,
        examples: impl Iterator<Item = SampleId>,
    ) -> Criterion {
        let outcome = match (samples, holds) {
            (0, _) => Outcome::Invalid,
            (_, true) => Outcome::Pass,
            (_, false) => Outcome::Fail,
        };
        let examples = examples.take(if outcome == Outcome::Fail { EXEMPLARS_MAX } else { 0 });
        Criterion {
            workload: self.workload.to_owned(),
            criterion: name.to_owned(),
            condition,
            observed: if samples == 0 { "no samples".to_owned() } else { observed },
            outcome,
            severity: Severity::Fail,
            reason: (samples == 0).then(|| self.nothing()),
            measured: None,
            aborted: false,
            samples,
            trace_ids: super::trace_ids(self.aggregate, &examples.collect::<Vec<_>>()),
        }
    }
}

/// A time in milliseconds, or finer if it takes that to tell it from the limit.
fn seconds_beside(value_s: f64, limit_s: f64) -> String {
    beside_limit(value_s, limit_s, |value_s, more| format!("{value_s:.*} s", 3 + more))
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::seconds_beside;

    #[test]
    fn a_time_differs_from_its_limit_where_it_does() {
        for (value_s, limit_s, expected) in [
            (0.0087117, 0.008714, "0.008712 s"),
            (0.0133488, 0.013347, "0.013349 s"),
            (1.5, 4.0, "1.500 s"),
            (4.0, 4.0, "4.000 s"),
            (4.0001, 4.0, "4.0001 s"),
        ] {
            assert_eq!(seconds_beside(value_s, limit_s), expected, "{value_s} of {limit_s}");
        }
    }
}
