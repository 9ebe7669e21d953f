//! The headline of a comparison: the verdict with the figure that decided it, in a few words.
//!
//! Nothing here may judge or compute a statistic.

use crate::compare::{AgainstHistory, TwoRuns};
use crate::html::text::shortened;
use crate::pairs::{PairDocument, counts, text as pairs_text};
use results::model::Outcome;
use verdict::compare::{FailuresRow, RatioRow};

/// The most characters of a metric's or a workload's name.
const NAME_CHARS_MAX: usize = 40;
/// The most percentiles of two runs that differ.
const DIFFERENCES_MAX: usize = 2;

/// The verdict of paired rounds.
pub(super) fn of_pairs(paired: &PairDocument) -> String {
    let words = match paired.decision.outcome {
        _ if !paired.finished => "The comparison was interrupted.",
        Outcome::Pass => "B is not slower than A.",
        Outcome::Fail => return failing(paired),
        Outcome::Inconclusive => "It is not clear whether B is slower.",
        Outcome::Invalid | Outcome::None => "There is no data to judge.",
    };
    words.to_owned()
}

fn failing(paired: &PairDocument) -> String {
    let slower = paired.rows.iter().filter(|row| row.series.gated && row.outcome == Outcome::Fail);
    let most = |row: &&verdict::paired::PercentileSeriesRow| row.ratio.unwrap_or(0.0);
    if let Some(row) = slower.max_by(|one, other| most(one).total_cmp(&most(other))) {
        let subject = pairs_text::subject(&row.series, &paired.workloads);
        return match row.ratio.filter(|ratio| *ratio > 1.0) {
            Some(ratio) => {
                let subject = shortened(&subject, NAME_CHARS_MAX);
                format!("B is slower than A: {subject} takes {} longer.", percent(ratio - 1.0))
            }
            None => "B is slower than A.".to_owned(),
        };
    }
    if let Some(counted) = paired.counts.iter().find(|counted| counted.row.outcome == Outcome::Fail) {
        return match counted.row.a.zip(counted.row.b) {
            Some((a, b)) => {
                let metric = shortened(&counted.row.metric, NAME_CHARS_MAX);
                format!(
                    "B does more than A: {metric} is {} instead of {}.",
                    counts::figure(b),
                    counts::figure(a)
                )
            }
            None => "B does more than A.".to_owned(),
        };
    }
    if paired.sla.iter().any(|row| row.b.outcome == Outcome::Fail) {
        return "B fails the scenario's criteria.".to_owned();
    }
    "B fails more often than A.".to_owned()
}

/// What differs between two runs by more than their bounds, which is no verdict.
pub(super) fn of_two_runs(compared: &TwoRuns) -> String {
    let several = compared.failures.len() > 1;
    let different = |row: &RatioRow| {
        let (ratio, low, high) = (row.ratio?, row.low?, row.high?);
        let workload = shortened(&row.workload, NAME_CHARS_MAX);
        let workload = if several { format!("{workload} ") } else { String::new() };
        let by = match () {
            () if low > 1.0 => format!("{} higher", percent(ratio - 1.0)),
            () if high < 1.0 => format!("{} lower", percent(1.0 - ratio)),
            () => return None,
        };
        Some(format!("{workload}p{} {by}", row.percentile))
    };
    // What fails takes no time: that comes first.
    let failing = compared.failures.iter().filter(|row| row.differ());
    let failing = failing.map(|row| {
        let workload = shortened(&row.workload, NAME_CHARS_MAX);
        let workload = if several { format!("{workload} ") } else { String::new() };
        let [base, new] = [&row.base, &row.new].map(|counts| match FailuresRow::share(counts) {
            0.0 => "none".to_owned(),
            share => percent(share),
        });
        format!("{workload}{new} of the iterations failed, instead of {base}")
    });
    let iterations = compared.rows.iter().filter(|row| row.action.is_none());
    let found: Vec<String> = failing.chain(iterations.filter_map(different)).take(DIFFERENCES_MAX).collect();
    match found.as_slice() {
        [] => "No clear difference between these two runs.".to_owned(),
        found => format!("In the new run: {}.", found.join(", ")),
    }
}

/// The verdict on a run against those before it.
pub(super) fn of_history(judged: &AgainstHistory) -> &'static str {
    match judged.outcome {
        Outcome::Pass => "Not slower than the runs before it.",
        Outcome::Fail => "Slower, or failing more, than the runs before it.",
        _ if judged.failures.iter().any(|row| row.outcome != Outcome::Pass) => {
            "It is not clear whether it fails more often, or is slower."
        }
        _ => "It is not clear whether it is slower.",
    }
}

/// `19 %`, `1.9 %`.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    if percent < 9.95 { format!("{percent:.1} %") } else { format!("{percent:.0} %") }
}
