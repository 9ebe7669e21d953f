//! Rank 8: whether a run counts as good.
//!
//! Criteria are judged by exact counts and sums, never by percentiles of a drawn sample. Without data
//! nothing passes: a criterion without samples is INVALID. Nothing here prints or exits.

pub mod compare;
pub mod generator;
pub mod history;
pub mod paired;
pub mod sla;

use crate::results::aggregate::Aggregate;
use crate::results::model::{Criterion, Outcome, Verdict};

/// Judges every workload by its own criteria.
#[must_use]
pub fn judge(aggregate: &Aggregate) -> Verdict {
    let mut criteria = Vec::new();
    for (stats, names) in aggregate.workloads.iter().zip(&aggregate.header.workloads) {
        criteria.extend(sla::judge(aggregate, &names.name, &names.sla, stats));
    }
    let seen = aggregate.end.as_ref().and_then(|end| end.generator.as_ref());
    let invalid = seen.map(|seen| generator::faults(seen, aggregate.total())).unwrap_or_default();
    let outcome = match worst(&criteria) {
        // Whatever was measured, it may have been the generator.
        Outcome::Pass | Outcome::Fail if !invalid.is_empty() => Outcome::Invalid,
        outcome => outcome,
    };
    Verdict { outcome, invalid, criteria }
}

/// The outcome of all: FAIL before INVALID before PASS; none without criteria.
fn worst(criteria: &[Criterion]) -> Outcome {
    let any = |outcome: Outcome| criteria.iter().any(|criterion| criterion.outcome == outcome);
    if any(Outcome::Fail) {
        Outcome::Fail
    } else if any(Outcome::Invalid) {
        Outcome::Invalid
    } else if criteria.is_empty() {
        Outcome::None
    } else {
        Outcome::Pass
    }
}
