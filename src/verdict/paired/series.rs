//! What is compared in every round, and what a round came to.

use schemars::JsonSchema;
use serde::Serialize;

use super::metric::Metric;
use crate::results::aggregate::Aggregate;

/// So many samples must lie beyond a percentile in every round.
const BEYOND_MIN: f64 = 10.0;
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
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 10")]
        let least = (BEYOND_MIN * 100.0 / (100.0 - self.percentile) - 1e-6).ceil() as u64;
        least
    }

    /// The percentile in milliseconds, where what failed or never started took longer than all else: infinite when
    /// it falls among that. With the number of samples.
    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 ns, 104 days")]
    fn value(&self, aggregate: &Aggregate) -> Option<(f64, u64)> {
        let workload = aggregate.workloads.get(self.workload)?;
        let (all, failed, never) = match self.action {
            None => (&workload.response, &workload.failed_response, workload.iterations.dropped),
            Some(action) => {
                let action = workload.actions.get(action)?;
                (&action.response, &action.failed_response, 0)
            }
        };
        let value_ns = all.percentile_failures_last_ns(failed, never, self.percentile);
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

/// All that is compared of these workloads: the gated metrics, and what is shown beside them.
///
/// # Errors
/// A metric of an action that no workload has, with the names that there are.
pub fn series(workloads: &[Names], metrics: &[Metric]) -> Result<Vec<Series>, String> {
    for action in metrics.iter().filter_map(|metric| metric.action.as_ref()) {
        let mut known = workloads.iter().flat_map(|workload| &workload.actions);
        if !known.clone().any(|name| name == action) {
            let known: Vec<String> = known.by_ref().map(|name| format!("`{name}`")).collect();
            return Err(format!("no action is called `{action}`; there are {}", known.join(", ")));
        }
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
            percentiles.dedup();
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

/// What one round of one side came to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round {
    /// For each workload: iterations that went well, and those that failed or were dropped.
    pub ended: Vec<(u64, u64)>,
    /// For each series: the percentile in milliseconds, infinite where what failed is within it, and of how many
    /// samples.
    pub values: Vec<(f64, u64)>,
}

impl Round {
    /// The figures of a run.
    #[must_use]
    pub fn of(aggregate: &Aggregate, series: &[Series]) -> Self {
        let ended = aggregate.workloads.iter().map(|workload| {
            let counts = workload.iterations;
            (counts.ok, counts.failed + counts.dropped)
        });
        let values = series.iter().map(|series| series.value(aggregate).unwrap_or_default());
        Self { ended: ended.collect(), values: values.collect() }
    }

    pub(super) fn broken(&self) -> bool {
        self.ended.iter().map(|(ok, _)| ok).sum::<u64>() == 0
    }
}
