//! Two runs side by side: ratios of percentiles with intervals, and whether the runs are comparable at all.
//!
//! One run on each side cannot separate a slower build from a slower hour: the intervals describe only these two runs,
//! so there is no verdict here. A verdict needs alternating pairs ([`super::paired`]) or many runs
//! ([`super::history`]).

use hdrhistogram::Histogram;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::FAILS_ALIKE;
use measure::errors::FailureClass;
use measure::latency::value_at_rank;
use measure::log::LogError;
use results::aggregate::Aggregate;
use results::histogram::histogram;
use results::model::{Counts, Distribution, Results, RunStatus, Workload};
use results::nullable;
use results::stored::{FailuresLast, Limit, StoredRun, design_effects};
use statistics::binomial::{BinomialCount, Share};
use statistics::order::rank;

/// The probability that a bound of a run's percentile is wrong.
const ALPHA: f64 = 0.025;
/// The percentiles of iterations and of actions that are compared.
pub const PERCENTILES: [f64; 5] = [50.0, 90.0, 95.0, 99.0, 99.9];

/// A percentile of both runs.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct RatioRow {
    /// The workload's name.
    pub workload: String,
    /// The action's name; absent for iterations.
    pub action: Option<String>,
    /// Such as 99.
    pub percentile: f64,
    /// The base's value; infinite (null in JSON) if the percentile falls among those that failed, never started or were
    /// cut off: they count as longer than all others.
    #[schemars(with = "Option<f64>")]
    #[serde(deserialize_with = "nullable::infinite")]
    pub base_ms: f64,
    /// The new run's value, in the same way.
    #[schemars(with = "Option<f64>")]
    #[serde(deserialize_with = "nullable::infinite")]
    pub new_ms: f64,
    /// The new run's value divided by the base's; absent if one of them has no time, or the base's is 0.
    pub ratio: Option<f64>,
    /// The ratio of these two runs is at least this, with an error probability of 2.5 %; absent with too few samples.
    pub low: Option<f64>,
    /// The ratio is at most this.
    pub high: Option<f64>,
    /// Samples of the base, and the equivalent number of independent samples.
    pub base_samples: (u64, f64),
    /// The same for the new run.
    pub new_samples: (u64, f64),
}

/// Iteration counts of a workload in both runs.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct FailuresRow {
    /// The workload's name.
    pub workload: String,
    /// The base's counts.
    pub base: Counts,
    /// The new run's counts.
    pub new: Counts,
}

impl FailuresRow {
    /// The share of iterations that failed or never started, 0 to 1.
    #[must_use]
    pub fn share(counts: &Counts) -> f64 {
        let without = counts.failed.saturating_add(counts.dropped);
        without as f64 / without.saturating_add(counts.ok).max(1) as f64
    }

    /// True if the shares of these two runs differ by more than chance explains: their bounds do not meet.
    #[must_use]
    pub fn differ(&self) -> bool {
        let bounds = |counts: &Counts| {
            let k = counts.failed.saturating_add(counts.dropped);
            Share::independent(BinomialCount { k, n: k.saturating_add(counts.ok) }).bounds(ALPHA)
        };
        let (base, new) = (bounds(&self.base), bounds(&self.new));
        new.0 > base.1 + FAILS_ALIKE || base.0 > new.1 + FAILS_ALIKE
    }
}

/// Why two runs are not comparable, one sentence each.
#[must_use]
pub fn differences(base: &Results, new: &Results) -> Vec<String> {
    let mut found = Vec::new();
    let mut differ = |what: &str, base: String, new: String| {
        if base != new {
            found.push(format!("{what}: {base} and {new}"));
        }
    };
    let short = |sha256: &str| sha256.chars().take(12).collect::<String>();
    differ("scenario", format!("`{}`", base.scenario.title), format!("`{}`", new.scenario.title));
    differ("the scenario file's text (SHA-256)", short(&base.scenario.sha256), short(&new.scenario.sha256));
    differ("variables set", format!("{:?}", base.scenario.set), format!("{:?}", new.scenario.set));
    let runners = |results: &Results| {
        let each = |workload: &Workload| serde_json::Value::from(workload.runner.clone()).to_string();
        results.workloads.iter().map(each).collect::<Vec<_>>().join(", ")
    };
    differ("load", runners(base), runners(new));
    match (&base.deployment.demo, &new.deployment.demo) {
        // The demo's port changes each time.
        (Some(base), Some(new)) => differ("demo", base.clone(), new.clone()),
        _ => {
            let targets = |results: &Results| format!("{:?}", results.deployment.targets);
            differ("targets", targets(base), targets(new));
        }
    }
    differ("TLS verified", base.deployment.tls_verified.to_string(), new.deployment.tls_verified.to_string());
    differ("authentication", base.deployment.auth.clone(), new.deployment.auth.clone());
    let profiled =
        |results: &Results| if results.profiling.enabled { "profiled" } else { "not profiled" }.to_owned();
    differ("profiling", profiled(base), profiled(new));
    differ("machine", base.environment.os.clone(), new.environment.os.clone());
    differ("host", base.environment.host.clone(), new.environment.host.clone());
    differ("processors", base.environment.cpus.to_string(), new.environment.cpus.to_string());
    differ("workers", base.environment.workers.to_string(), new.environment.workers.to_string());
    found.extend(unfit(base).map(|reason| format!("the base {reason}")));
    found.extend(unfit(new).map(|reason| format!("the new run {reason}")));
    found
}

/// Why a run is not fit for any comparison. Completes "the run …".
#[must_use]
pub fn unfit(results: &Results) -> Option<String> {
    if let Some(reason) = results.verdict.invalid.first() {
        return Some(format!("is INVALID: {reason}"));
    }
    if let Some((count, share)) = failed_of_bench(results).filter(|(_, share)| *share > FAILS_ALIKE) {
        let percent = super::words::percent(share * 100.0);
        return Some(format!(
            "had {count} iterations ({percent}) that failed at a limit of bench or of its machine, and not by the service"
        ));
    }
    match results.run.status {
        RunStatus::Finished => None,
        RunStatus::Interrupted => Some("was interrupted".to_owned()),
        RunStatus::TimedOut => Some("was stopped by its time limit".to_owned()),
        RunStatus::Aborted => Some("was stopped by a threshold".to_owned()),
        RunStatus::Failed => Some("failed".to_owned()),
        RunStatus::Recovered => Some("is incomplete: it was killed".to_owned()),
    }
}

/// How many iterations failed without a fault of the service, and their share; `None` without iterations.
fn failed_of_bench(results: &Results) -> Option<(u64, f64)> {
    let errors = results.workloads.iter().flat_map(|workload| &workload.errors);
    let of_bench = errors.filter(|error| FailureClass::named(&error.class).is_of_bench());
    let count: u64 = of_bench.map(|error| error.count).sum();
    let of = |workload: &Workload| workload.iterations.ok + workload.iterations.failed;
    let ended: u64 = results.workloads.iter().map(of).sum();
    (ended > 0).then(|| (count, count as f64 / ended as f64))
}

/// Why a run has nothing to compare, or `None`.
#[must_use]
pub fn no_data(results: &Results) -> Option<String> {
    let samples = results.workloads.iter().map(|workload| workload.response_time.count).max().unwrap_or(0);
    match samples {
        0 => Some("it has no samples".to_owned()),
        1 => Some("it has only one sample, too few for percentiles".to_owned()),
        _ => None,
    }
}

/// Why a run has nothing that another could be compared with, or `None`.
#[must_use]
pub fn no_base(results: &Results) -> Option<String> {
    let well: u64 = results.workloads.iter().map(|workload| workload.iterations.ok).sum();
    let none = || "none of its iterations succeeded, and the latency of failures means nothing".to_owned();
    no_data(results).or_else(|| (well == 0).then(none))
}

/// A run with the statistical weight of its samples.
pub struct WeighedRun<'a> {
    run: &'a StoredRun,
    /// In the order of [`WeighedRun::subjects`], one for each percentile.
    effects: Vec<f64>,
}

impl<'a> WeighedRun<'a> {
    /// Weighs a run's samples by its log. Without a log each sample counts in full.
    ///
    /// # Errors
    /// Fails if the log cannot be read again.
    pub fn new(run: &'a StoredRun) -> Result<Self, LogError> {
        let effects = match &run.aggregate {
            Some(aggregate) => design_effects(aggregate, &limits(aggregate))?,
            None => Vec::new(),
        };
        Ok(Self { run, effects })
    }

    /// A distribution's percentile (by its index in [`PERCENTILES`]) with its bounds.
    fn quantile(&self, place: usize, times: &RankedTimes, at: usize) -> Quantile {
        let effect = self.effects.get(place * PERCENTILES.len() + at).copied().unwrap_or(1.0);
        let count = times.count();
        let bounds = Share::weighed(count, effect).order_bounds(PERCENTILES[at], ALPHA);
        let value = |rank| times.at_rank_ms(rank);
        Quantile {
            ms: rank(count, PERCENTILES[at]).and_then(value).unwrap_or(0.0),
            low_ms: bounds.low.and_then(value),
            high_ms: bounds.high.and_then(value),
            samples: (count, count as f64 / effect),
        }
    }

    /// The times of a distribution by rank.
    fn ranked(
        &self,
        workload: &str,
        action: Option<&str>,
        distribution: &Distribution,
    ) -> Result<RankedTimes, String> {
        match self.run.failures_last(workload, action) {
            Some(times) => Ok(RankedTimes::FailuresLast(times)),
            None => histogram(distribution).map(RankedTimes::AsTheyAre),
        }
    }

    /// Every distribution of the run: by workload and action, in order.
    fn subjects(&self) -> impl Iterator<Item = (usize, &'a Workload, Option<&'a str>, &'a Distribution)> {
        let all = self.run.results.workloads.iter().flat_map(|workload| {
            let own = std::iter::once((workload, None, &workload.response_time));
            let actions = workload.actions.iter();
            own.chain(
                actions.map(move |action| (workload, Some(action.name.as_str()), &action.response_time)),
            )
        });
        all.enumerate()
            .map(|(place, (workload, action, distribution))| (place, workload, action, distribution))
    }
}

/// Times by rank.
enum RankedTimes {
    FailuresLast(FailuresLast),
    /// Of a file that does not tell failures from others.
    AsTheyAre(Histogram<u64>),
}

impl RankedTimes {
    fn count(&self) -> u64 {
        match self {
            Self::FailuresLast(times) => times.count,
            Self::AsTheyAre(histogram) => histogram.len(),
        }
    }

    fn at_rank_ms(&self, rank: u64) -> Option<f64> {
        match self {
            Self::FailuresLast(times) => times.at_rank_ms(rank),
            Self::AsTheyAre(histogram) => value_at_rank(histogram, rank).map(|nanos| nanos as f64 / 1e6),
        }
    }
}

struct Quantile {
    ms: f64,
    low_ms: Option<f64>,
    high_ms: Option<f64>,
    samples: (u64, f64),
}

/// The percentiles of every distribution, in the order of [`WeighedRun::subjects`].
fn limits(aggregate: &Aggregate) -> Vec<Limit> {
    let mut limits = Vec::new();
    for (workload, stats) in aggregate.workloads.iter().enumerate() {
        let actions = stats.actions.iter().enumerate().map(|(index, action)| (Some(index), &action.response));
        for (action, latency) in std::iter::once((None, &stats.response)).chain(actions) {
            limits.extend(PERCENTILES.iter().map(|percentile| Limit {
                workload,
                action,
                above_ns: latency.percentile_ns(*percentile),
            }));
        }
    }
    limits
}

/// Ratios of all percentiles of the workloads and actions that both runs have. Names match them.
///
/// # Errors
/// Fails if a histogram cannot be read.
pub fn ratios(base: &WeighedRun<'_>, new: &WeighedRun<'_>) -> Result<Vec<RatioRow>, String> {
    let mut rows = Vec::new();
    for (place, workload, action, distribution) in new.subjects() {
        let same = base.subjects().find(|(_, other, name, _)| other.name == workload.name && *name == action);
        let Some((base_place, _, _, base_distribution)) = same else { continue };
        let base_times = base.ranked(&workload.name, action, base_distribution)?;
        let new_times = new.ranked(&workload.name, action, distribution)?;
        if base_times.count() == 0 || new_times.count() == 0 {
            continue;
        }
        rows.extend((0..PERCENTILES.len()).map(|at| {
            let base = base.quantile(base_place, &base_times, at);
            let new = new.quantile(place, &new_times, at);
            let (low, high) = mover(&base, &new);
            RatioRow {
                workload: workload.name.clone(),
                action: action.map(str::to_owned),
                percentile: PERCENTILES[at],
                base_ms: base.ms,
                new_ms: new.ms,
                ratio: (base.ms > 0.0)
                    .then(|| new.ms / base.ms)
                    .filter(|ratio| ratio.is_finite() && base.ms.is_finite()),
                low,
                high,
                base_samples: base.samples,
                new_samples: new.samples,
            }
        }));
    }
    Ok(rows)
}

/// Bounds of a ratio from the bounds of both parts, on logarithms: the method of variance estimates recovery (Donner
/// and Zou, Statistics in Medicine 2012).
fn mover(base: &Quantile, new: &Quantile) -> (Option<f64>, Option<f64>) {
    let ln = |value: Option<f64>| value.filter(|value| *value > 0.0 && value.is_finite()).map(f64::ln);
    let parts = (|| {
        let (base_low, base_high) = (ln(base.low_ms)?, ln(base.high_ms)?);
        Some((ln(Some(base.ms))?, base_low, base_high, ln(Some(new.ms))?, ln(new.low_ms)?, ln(new.high_ms)?))
    })();
    let Some((b, b_low, b_high, n, n_low, n_high)) = parts else { return (None, None) };
    let difference = n - b;
    let low = difference - (n - n_low).hypot(b_high - b);
    let high = difference + (n_high - n).hypot(b - b_low);
    (Some(low.exp()), Some(high.exp()))
}

/// Iteration counts of both runs by workload.
#[must_use]
pub fn failures(base: &Results, new: &Results) -> Vec<FailuresRow> {
    let of = |workload: &Workload| {
        let base = base.workloads.iter().find(|other| other.name == workload.name)?;
        Some(FailuresRow { workload: workload.name.clone(), base: base.iterations, new: workload.iterations })
    };
    new.workloads.iter().filter_map(of).collect()
}
