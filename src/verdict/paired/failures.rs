//! Whether B fails more often than A.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::series::Round;
use super::{ALPHA, RESOLUTION};
use crate::{FAILS_ALIKE, FAILS_MORE};
use results::model::Outcome;
use statistics::paired::{Estimate, signed_rank};

/// With a p-value between [`ALPHA`] and this, more failures in B are INCONCLUSIVE.
const SUSPICIOUS: f64 = 0.05;
/// Bursts of failures are attributed to B if they affect this many of its rounds, and none of A's.
const AFFECTED_MIN: usize = 2;

/// Failures of a workload on both sides.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct Failures {
    /// The workload's index.
    pub workload: usize,
    /// A's iterations that failed, never started or were cut off.
    pub a: u64,
    /// Their share of all iterations, 0 to 1.
    pub a_share: f64,
    /// B's iterations that failed, never started or were cut off.
    pub b: u64,
    /// Their share of all iterations, 0 to 1.
    pub b_share: f64,
    /// The p-value of B's excess over A: Wilcoxon's test, one-sided.
    pub p_greater: Option<f64>,
    /// FAIL when B's failure rate is significantly higher, PASS only when the difference is shown not to matter.
    pub outcome: Outcome,
}

/// Judges the failures of a workload from the rounds of A and B.
pub(super) fn of(pairs: &[(Round, Round)], workload: usize) -> Failures {
    let of = |round: &Round| round.ended.get(workload).copied().unwrap_or_default();
    let share = |(ok, failed): (u64, u64)| failed as f64 / (ok + failed).max(1) as f64;
    let sum = |side: fn(&(Round, Round)) -> &Round| {
        pairs.iter().map(side).map(of).fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1))
    };
    let (a, b) = (sum(|pair| &pair.0), sum(|pair| &pair.1));
    let differences: Vec<f64> = pairs.iter().map(|(a, b)| share(of(b)) - share(of(a))).collect();
    let p_greater = signed_rank(&differences).map(|test| test.p_greater);
    // The test ignores rounds that fail equally, so a few rounds with many failures never reach a small p-value.
    let affected = |side: fn(&(Round, Round)) -> &Round| {
        pairs.iter().map(side).filter(|round| share(of(round)) > FAILS_MORE).count()
    };
    let excess = share(b) - share(a);
    let bursts =
        excess > FAILS_MORE && affected(|pair| &pair.1) >= AFFECTED_MIN && affected(|pair| &pair.0) == 0;
    let at_most = Estimate::of(&differences, RESOLUTION).map(|seen| seen.mean + seen.reach(ALPHA));
    let outcome = match p_greater {
        Some(p) if p < ALPHA => Outcome::Fail,
        _ if bursts => Outcome::Fail,
        Some(p) if p < SUSPICIOUS => Outcome::Inconclusive,
        _ if excess <= FAILS_ALIKE || at_most.is_some_and(|most| most < FAILS_MORE) => Outcome::Pass,
        _ => Outcome::Inconclusive,
    };
    Failures { workload, a: a.1, a_share: share(a), b: b.1, b_share: share(b), p_greater, outcome }
}
