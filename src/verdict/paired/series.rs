//! What is compared in every round, and what a round came to.

use schemars::JsonSchema;
use serde::Serialize;

use super::metric::Metric;
use crate::base::statistics::order::{same_percentile, samples_for};
use crate::config::check::did_you_mean;
use crate::measure::latency::Latency;
use crate::results::aggregate::Aggregate;

/// How many samples must lie beyond a percentile in every round.
const BEYOND_MIN: u64 = 10;
/// Percentiles of iterations that are shown, gated or not.
const ITERATION_PERCENTILES: [f64; 4] = [50.0, 90.0, 95.0, 99.0];
/// Percentiles of actions.
const ACTION_PERCENTILES: [f64; 2] = [50.0, 95.0];

/// What is compared in every round.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Series {
    /// The workload's index.
    pub workload: usize,
    /// The action's index within it; absent for iterations.
    pub action: Option<usize>,
    /// Such as 95.
    pub percentile: f64,
    /// Whether the verdict looks at it.
    pub gated: bool,
}

impl Series {
    /// How many samples a round needs.
    #[must_use]
    pub fn samples_min(&self) -> u64 {
        samples_for(BEYOND_MIN, self.percentile)
    }

    /// The percentile in milliseconds of all rounds of a side, where what failed, never started or was cut off took
    /// longer than all else: infinite when it falls among that, or when there is nothing else. With the number of
    /// samples.
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 ns, 104 days")]
    fn value(&self, rounds: &[&Aggregate]) -> Option<(f64, u64)> {
        let (mut all, mut failed, mut never) = (Latency::new(), Latency::new(), 0);
        for aggregate in rounds {
            let workload = aggregate.workloads.get(self.workload)?;
            let (of_all, of_failed, cut_off) = match self.action {
                None => (&workload.response, &workload.failed_response, workload.iterations.aborted),
                Some(action) => {
                    let action = workload.actions.get(action)?;
                    (&action.response, &action.failed_response, action.requests.aborted)
                }
            };
            all.add(of_all);
            failed.add(of_failed);
            never += workload.iterations.dropped + cut_off;
        }
        let value_ns = all.percentile_failures_last_ns(&failed, never, self.percentile);
        let value_ns = value_ns.filter(|_| all.count() > 0);
        Some((value_ns.map_or(f64::INFINITY, |ns| ns as f64 / 1e6), all.count()))
    }
}

/// A workload's names.
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Names {
    /// Its own.
    pub workload: String,
    /// Its actions', in their order.
    pub actions: Vec<String>,
}

/// Refuses the name of an action that there is not, with those that there are.
///
/// # Errors
/// What is said of it.
pub fn is_known(action: &str, known: &[&str]) -> Result<(), String> {
    if known.contains(&action) {
        return Ok(());
    }
    let meant = did_you_mean(action, known.iter().copied());
    let meant = meant.map_or_else(String::new, |known| format!("; did you mean `{known}`?"));
    let mut names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    names.dedup();
    Err(format!("no action is called `{action}`; there are {}{meant}", names.join(", ")))
}

/// All that is compared of these workloads: the gated metrics, and what is shown beside them.
///
/// # Errors
/// A metric of an action that no workload has, with the names that there are.
pub fn series(workloads: &[Names], metrics: &[Metric]) -> Result<Vec<Series>, String> {
    for action in metrics.iter().filter_map(|metric| metric.action.as_deref()) {
        let known = workloads.iter().flat_map(|workload| &workload.actions).map(String::as_str);
        is_known(action, &known.collect::<Vec<_>>())?;
    }
    let mut all = Vec::new();
    for (workload, names) in workloads.iter().enumerate() {
        let subjects = std::iter::once(None).chain((0..names.actions.len()).map(Some));
        for action in subjects {
            let name = action.map(|index| &names.actions[index]);
            let of_it = |metric: &&Metric| metric.action.as_ref() == name;
            let gated: Vec<f64> = metrics.iter().filter(of_it).map(|metric| metric.percentile).collect();
            let shown: &[f64] = if action.is_some() { &ACTION_PERCENTILES } else { &ITERATION_PERCENTILES };
            let mut percentiles: Vec<f64> = shown.iter().chain(&gated).copied().collect();
            percentiles.sort_by(f64::total_cmp);
            percentiles.dedup_by(|one, other| same_percentile(*one, *other));
            all.extend(percentiles.into_iter().map(|percentile| Series {
                workload,
                action,
                percentile,
                gated: gated.contains(&percentile),
            }));
        }
    }
    Ok(all)
}

/// What the rounds of one side of a pair came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round {
    /// For each workload: iterations that went well, and those that failed, never started or were cut off.
    pub ended: Vec<(u64, u64)>,
    /// For each series: the percentile in milliseconds, infinite where what failed is within it, and of how many
    /// samples.
    pub values: Vec<(f64, u64)>,
}

impl Round {
    /// The figures of these runs together.
    #[must_use]
    pub fn of(rounds: &[&Aggregate], series: &[Series]) -> Self {
        let workloads = rounds.first().map_or(0, |aggregate| aggregate.workloads.len());
        let ended = (0..workloads).map(|workload| {
            let counts = rounds.iter().filter_map(|aggregate| aggregate.workloads.get(workload));
            counts.fold((0, 0), |(ok, others), stats| {
                let counts = stats.iterations;
                (ok + counts.ok, others + counts.failed + counts.dropped + counts.aborted)
            })
        });
        let values = series.iter().map(|series| series.value(rounds).unwrap_or((f64::INFINITY, 0)));
        Self { ended: ended.collect(), values: values.collect() }
    }

    /// Of a build that did not run at all.
    #[must_use]
    pub fn nothing_ran(workloads: usize, series: &[Series]) -> Self {
        Self { ended: vec![(0, 1); workloads], values: vec![(f64::INFINITY, 0); series.len()] }
    }

    pub(super) fn broken(&self) -> bool {
        self.ended.iter().map(|(ok, _)| ok).sum::<u64>() == 0
    }
}
