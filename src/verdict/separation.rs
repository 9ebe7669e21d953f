//! Whether a second run can confirm the first. It must be another run, and must not be in the same slow minute.

use results::model::Results;
use results::stored::StoredRun;
use text::times::from_rfc3339;

/// The second run starts this long after the end of the first, unless a run of the base build ran between them.
pub const SEPARATION_MINUTES: i128 = 10;
const MINUTE_NS: i128 = 60_000_000_000;

/// A second new run, which is to confirm the first.
pub struct ConfirmingRun<'a> {
    pub run: &'a StoredRun,
    /// How far it is from the first in time.
    pub separation: Separation,
}

/// Whether a second run is far enough from the first in time.
#[derive(Clone, Debug, PartialEq)]
pub enum Separation {
    /// Long enough after it.
    Later,
    /// These past runs ran between the two.
    Between(Vec<usize>),
    /// It confirms nothing, for this reason.
    TooClose(String),
}

/// True for the same run, wherever its files are.
#[must_use]
pub fn is_same(one: &Results, other: &Results) -> bool {
    one.run.id == other.run.id || one.run.id_seed == other.run.id_seed
}

/// How far two new runs are apart in time, given the past runs.
#[must_use]
pub fn separation(first: &Results, second: &Results, past: &[&Results]) -> Separation {
    if is_same(first, second) {
        let text = "RERUN is the same run as NEW, and a run cannot confirm itself: run again and give both";
        return Separation::TooClose(text.to_owned());
    }
    let spans = || Some((span(first)?, span(second)?));
    let Some((one, other)) = spans() else {
        return Separation::TooClose("the times of the two new runs are unknown".to_owned());
    };
    let (earlier, later) = if one.0 <= other.0 { (one, other) } else { (other, one) };
    let gap_ns = later.0 - earlier.1;
    if gap_ns >= SEPARATION_MINUTES * MINUTE_NS {
        return Separation::Later;
    }
    let ran_between =
        |run: &&Results| span(run).is_some_and(|(start, end)| start >= earlier.1 && end <= later.0);
    let between: Vec<usize> =
        past.iter().enumerate().filter(|(_, run)| ran_between(run)).map(|(index, _)| index).collect();
    if !between.is_empty() {
        return Separation::Between(between);
    }
    let gap = match gap_ns / MINUTE_NS {
        _ if gap_ns < 0 => "started before the first ended".to_owned(),
        0 => format!("started {} s after the first ended", gap_ns / 1_000_000_000),
        minutes => format!("started {minutes} min after the first ended"),
    };
    Separation::TooClose(format!(
        "the second run {gap}, so the same disturbance may have slowed both: run again {SEPARATION_MINUTES} minutes or \
         more after the first, or run the base build between the two"
    ))
}

/// A run's start and end.
fn span(results: &Results) -> Option<(i128, i128)> {
    let start = from_rfc3339(&results.run.started_at)?;
    let ends = results.workloads.iter().map(|workload| workload.start_s + workload.duration_s);
    let lasted_s = ends.fold(results.run.duration_s, f64::max);
    let lasted_ns = (lasted_s.max(0.0) * 1e9) as i128;
    Some((start, start.checked_add(lasted_ns)?))
}
