//! Whether a second run can confirm what a first one shows: another run, and not in the same slow minute.

use crate::base::clock::from_rfc3339;
use crate::results::model::Results;
use crate::results::stored::StoredRun;

/// How long after the first run's end the second begins, unless a run of the base lies between them.
pub const APART_MINUTES: i128 = 10;
const MINUTE_NS: i128 = 60_000_000_000;

/// A second new run.
pub struct Second<'a> {
    /// The run.
    pub run: &'a StoredRun,
    /// How it lies to the first.
    pub apart: Apart,
}

/// How a second run lies to the first.
#[derive(Clone, Debug, PartialEq)]
pub enum Apart {
    /// Long enough after it.
    Later,
    /// These past runs ran between the two.
    Between(Vec<usize>),
    /// It confirms nothing, and why.
    No(String),
}

/// True of the same run, wherever its files are.
#[must_use]
pub fn is_same(one: &Results, other: &Results) -> bool {
    one.run.id == other.run.id || one.run.id_seed == other.run.id_seed
}

/// How two new runs lie to each other, given the past runs.
#[must_use]
pub fn apart(first: &Results, second: &Results, past: &[&Results]) -> Apart {
    if is_same(first, second) {
        let text = "RERUN is the same run as NEW, and a run cannot confirm itself: run again and give both";
        return Apart::No(text.to_owned());
    }
    let spans = || Some((span(first)?, span(second)?));
    let Some((one, other)) = spans() else {
        return Apart::No("when the two new runs ran is not known".to_owned());
    };
    let (earlier, later) = if one.0 <= other.0 { (one, other) } else { (other, one) };
    let gap_ns = later.0 - earlier.1;
    if gap_ns >= APART_MINUTES * MINUTE_NS {
        return Apart::Later;
    }
    let lies_between =
        |run: &&Results| span(run).is_some_and(|(start, end)| start >= earlier.1 && end <= later.0);
    let between: Vec<usize> =
        past.iter().enumerate().filter(|(_, run)| lies_between(run)).map(|(index, _)| index).collect();
    if !between.is_empty() {
        return Apart::Between(between);
    }
    let gap = match gap_ns / MINUTE_NS {
        _ if gap_ns < 0 => "began before the first had ended".to_owned(),
        0 => format!("began {} s after the first had ended", gap_ns / 1_000_000_000),
        minutes => format!("began {minutes} min after the first had ended"),
    };
    Apart::No(format!(
        "the second run {gap}, and what slowed one may have slowed both: run again {APART_MINUTES} minutes or more after \
         the first, or run the base's build between the two"
    ))
}

/// From its start to its end.
fn span(results: &Results) -> Option<(i128, i128)> {
    let start = from_rfc3339(&results.run.started_at)?;
    let ends = results.workloads.iter().map(|workload| workload.start_s + workload.duration_s);
    let lasted_s = ends.fold(results.run.duration_s, f64::max);
    #[expect(clippy::cast_possible_truncation, reason = "saturates")]
    let lasted_ns = (lasted_s.max(0.0) * 1e9) as i128;
    Some((start, start.checked_add(lasted_ns)?))
}
