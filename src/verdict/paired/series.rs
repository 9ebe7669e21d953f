//! The percentiles that every round is compared by, and the result of a round.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::counts::RoundCounts;
use super::metric::PercentileMetric;
use measure::latency::Latency;
use results::aggregate::Aggregate;
use results::phase_times::PhaseTimes;
use statistics::order::{same_percentile, samples_for};
use terms::threshold::RequestPhase;
use text::similar::did_you_mean;

/// Every round needs this many samples above a percentile.
const BEYOND_MIN: u64 = 10;
/// The percentiles of iterations that are always shown.
const ITERATION_PERCENTILES: [f64; 4] = [50.0, 90.0, 95.0, 99.0];
/// The percentiles of actions that are always shown.
const ACTION_PERCENTILES: [f64; 2] = [50.0, 95.0];

/// A percentile of a workload or an action that every round is compared by.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "Series")]
pub struct PercentileSeries {
    /// The workload's index.
    pub workload: usize,
    /// The action's index within it; absent for iterations, or for the requests of all actions.
    pub action: Option<usize>,
    /// The phase of requests; absent for whole iterations or requests.
    #[schemars(with = "Option<String>")]
    #[serde(
        default,
        serialize_with = "phase_word",
        deserialize_with = "phase_named",
        skip_serializing_if = "Option::is_none"
    )]
    pub phase: Option<RequestPhase>,
    /// Such as 95.
    pub percentile: f64,
    /// Whether it counts for the verdict.
    pub gated: bool,
}

impl PercentileSeries {
    /// How many samples a round needs.
    #[must_use]
    pub fn samples_min(&self) -> u64 {
        samples_for(BEYOND_MIN, self.percentile)
    }

    /// The percentile in milliseconds over all rounds of a side, and the number of samples. Iterations that failed,
    /// never started or were cut off count as slower than all others; a percentile among them is infinite.
    fn value(&self, rounds: &[&Aggregate]) -> Option<(f64, u64)> {
        let (mut all, mut failed, mut never) = (Latency::new(), Latency::new(), 0);
        for aggregate in rounds {
            let workload = aggregate.workloads.get(self.workload)?;
            if let Some(phase) = self.phase {
                let times = PhaseTimes::read(&aggregate.log, self.workload, self.action, phase).ok()?;
                all.add(&times.all);
                failed.add(&times.failed);
                never += times.aborted;
                continue;
            }
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

fn phase_word<S: Serializer>(phase: &Option<RequestPhase>, serializer: S) -> Result<S::Ok, S::Error> {
    phase.map(RequestPhase::word).serialize(serializer)
}

fn phase_named<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<RequestPhase>, D::Error> {
    let word = Option::<String>::deserialize(deserializer)?;
    let named = |word: String| {
        let unknown = || serde::de::Error::custom(format!("`{word}` is no phase of a request"));
        RequestPhase::named(&word).ok_or_else(unknown)
    };
    word.map(named).transpose()
}

/// A workload's names.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "Names")]
pub struct WorkloadNames {
    /// The workload's name.
    pub workload: String,
    /// Its actions' names, in order.
    pub actions: Vec<String>,
}

/// Checks that an action exists.
///
/// # Errors
/// Fails for an unknown action; the message lists the known ones.
pub fn check_action(action: &str, known: &[&str]) -> Result<(), String> {
    if known.contains(&action) {
        return Ok(());
    }
    let meant = did_you_mean(action, known.iter().copied());
    let meant = meant.map_or_else(String::new, |known| format!("; did you mean `{known}`?"));
    let mut names: Vec<String> = known.iter().map(|name| format!("`{name}`")).collect();
    names.dedup();
    Err(format!("no action is named `{action}`; the actions are {}{meant}", names.join(", ")))
}

/// All series of these workloads: the gated metrics' series, and the series that are only shown.
///
/// # Errors
/// Fails for a metric of an action that no workload has; the message lists the known actions.
pub fn series(
    workloads: &[WorkloadNames],
    metrics: &[PercentileMetric],
) -> Result<Vec<PercentileSeries>, String> {
    for action in metrics.iter().filter_map(|metric| metric.action.as_deref()) {
        let known = workloads.iter().flat_map(|workload| &workload.actions).map(String::as_str);
        check_action(action, &known.collect::<Vec<_>>())?;
    }
    let mut all = Vec::new();
    for (workload, names) in workloads.iter().enumerate() {
        let subjects = std::iter::once(None).chain((0..names.actions.len()).map(Some));
        for action in subjects {
            let name = action.map(|index| &names.actions[index]);
            let of_it = |metric: &&PercentileMetric| metric.action.as_ref() == name && metric.phase.is_none();
            let gated: Vec<f64> = metrics.iter().filter(of_it).map(|metric| metric.percentile).collect();
            let shown: &[f64] = if action.is_some() { &ACTION_PERCENTILES } else { &ITERATION_PERCENTILES };
            let mut percentiles: Vec<f64> = shown.iter().chain(&gated).copied().collect();
            percentiles.sort_by(f64::total_cmp);
            percentiles.dedup_by(|one, other| same_percentile(*one, *other));
            all.extend(percentiles.into_iter().map(|percentile| PercentileSeries {
                workload,
                action,
                phase: None,
                percentile,
                gated: gated.iter().any(|gated| same_percentile(*gated, percentile)),
            }));
            let of_phases = metrics.iter().filter(|metric| metric.phase.is_some());
            all.extend(of_phases.filter(|metric| metric.action.as_ref() == name).map(|metric| {
                PercentileSeries {
                    workload,
                    action,
                    phase: metric.phase,
                    percentile: metric.percentile,
                    gated: true,
                }
            }));
        }
    }
    Ok(all)
}

/// The result of the rounds of one side of a pair.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Round {
    /// For each workload: successful iterations, and those that failed, never started or were cut off.
    pub ended: Vec<(u64, u64)>,
    /// For each series: the percentile in milliseconds (infinite if it falls among failures) and the number of samples.
    pub values: Vec<(f64, u64)>,
    /// For each count: the random sample's.
    pub counts: Vec<RoundCounts>,
}

impl Round {
    /// The figures of several runs together.
    #[must_use]
    pub fn of(rounds: &[&Aggregate], series: &[PercentileSeries]) -> Self {
        let workloads = rounds.first().map_or(0, |aggregate| aggregate.workloads.len());
        let ended = (0..workloads).map(|workload| {
            let counts = rounds.iter().filter_map(|aggregate| aggregate.workloads.get(workload));
            counts.fold((0, 0), |(ok, others), stats| {
                let counts = stats.iterations;
                (ok + counts.ok, others + counts.failed + counts.dropped + counts.aborted)
            })
        });
        let values = series.iter().map(|series| series.value(rounds).unwrap_or((f64::INFINITY, 0)));
        Self { ended: ended.collect(), values: values.collect(), counts: Vec::new() }
    }

    /// The result of a build that did not run at all.
    #[must_use]
    pub fn nothing_ran(workloads: usize, series: &[PercentileSeries]) -> Self {
        Self {
            ended: vec![(0, 1); workloads],
            values: vec![(f64::INFINITY, 0); series.len()],
            counts: Vec::new(),
        }
    }

    pub(super) fn broken(&self) -> bool {
        self.ended.iter().map(|(ok, _)| ok).sum::<u64>() == 0
    }
}
