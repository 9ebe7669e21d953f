//! Where a percentile of comparable runs changed its level.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use statistics::change_points::{change_points, values_min};
use statistics::order::at_percentile;

/// A group of comparable runs without a change gets one with this probability.
pub const ALPHA: f64 = 0.01;
/// A smaller change is none for anybody.
const RATIO_MIN: f64 = 1.02;

/// A change of the level. Runs are named by their places among those of their group, the oldest first.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct LevelChange {
    /// The first run of the new level.
    pub at: usize,
    /// The new level may begin as early as with this run,
    pub earliest: usize,
    /// and as late as with this one, with 95 % confidence.
    pub latest: usize,
    /// The geometric mean before it, from the change before that on.
    pub before_ms: f64,
    /// The geometric mean from it on, up to the next change.
    pub after_ms: f64,
    /// `after_ms / before_ms`.
    pub ratio: f64,
    /// The ratio is at least this,
    pub low: f64,
    /// and at most this, each with an error probability of 2.5 %.
    pub high: f64,
    /// How likely so large a change is in a series without any.
    pub p: f64,
}

/// The changes of a percentile's values in milliseconds, one for each run; runs without a value are passed over. `series`: how
/// many series the group has, which share the error.
#[must_use]
pub fn level_changes(values_ms: &[Option<f64>], series: usize, seed: u64) -> Vec<LevelChange> {
    let known: Vec<(usize, f64)> = values_ms
        .iter()
        .enumerate()
        .filter_map(|(run, ms)| Some((run, ms.filter(|ms| *ms > 0.0)?.ln())))
        .collect();
    let logs: Vec<f64> = known.iter().map(|(_, log)| *log).collect();
    let found = change_points(&logs, ALPHA / series.max(1) as f64, seed);
    let mean = |part: &[f64]| (part.iter().sum::<f64>() / part.len().max(1) as f64).exp();
    let described = found.iter().enumerate().map(|(number, change)| {
        let from = if number == 0 { 0 } else { found[number - 1].at };
        let to = found.get(number + 1).map_or(logs.len(), |next| next.at);
        LevelChange {
            at: known[change.at].0,
            earliest: known[change.earliest].0,
            latest: known[change.latest].0,
            before_ms: mean(&logs[from..change.at]),
            after_ms: mean(&logs[change.at..to]),
            ratio: change.difference.exp(),
            low: change.low.exp(),
            high: change.high.exp(),
            p: change.p,
        }
    });
    described.filter(|change| change.ratio.max(1.0 / change.ratio) >= RATIO_MIN).collect()
}

/// In fewer runs of a group with so many series no change can be found.
#[must_use]
pub fn runs_min(series: usize) -> usize {
    values_min(ALPHA / series.max(1) as f64)
}

/// The median of the values that are known.
#[must_use]
pub fn median(values_ms: &[Option<f64>]) -> Option<f64> {
    let mut known: Vec<f64> = values_ms.iter().flatten().copied().collect();
    known.sort_by(f64::total_cmp);
    at_percentile(&known, 50.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_by_its_runs() {
        // Runs 3 and 25 have no value.
        let values: Vec<Option<f64>> = (0..30)
            .map(|run| match run {
                3 | 25 => None,
                run if run < 18 => Some(100.0 + f64::from(run % 4)),
                run => Some(130.0 + f64::from(run % 4)),
            })
            .collect();
        let changes = level_changes(&values, 3, 5);
        let [change] = changes[..] else { panic!("{changes:?}") };
        assert_eq!((change.at, change.earliest, change.latest), (18, 18, 18));
        assert!(
            (change.ratio - 1.3).abs() < 0.01 && change.low <= change.ratio && change.ratio <= change.high
        );
        assert!(
            (change.before_ms - 101.5).abs() < 0.5 && (change.after_ms - 131.5).abs() < 0.5,
            "{change:?}"
        );
    }

    #[test]
    fn a_change_that_nobody_minds_is_none() {
        let values: Vec<Option<f64>> = (0..30)
            .map(|run| Some(if run < 15 { 100.0 } else { 101.0 } + f64::from(run % 2) * 0.01))
            .collect();
        assert!(level_changes(&values, 1, 5).is_empty());
    }
}
