//! The scenario's own criteria over the rounds of a comparison.
//!
//! Every round judges them by its own iterations, and a clear outcome of a round is wrong in at most 5 % of rounds. So
//! over many rounds a few are wrong by chance: a side has FAIL, or PASS, only if it has that outcome in more rounds than
//! chance explains (the binomial distribution). Only a FAIL of B counts for the verdict; A's outcome shows whether it is
//! new. Nothing here judges a round.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{ALPHA, Decision};
use results::model::{Criterion, Outcome, Severity};
use statistics::order::binomial_cdf;

/// The probability that a round's clear outcome is wrong.
const WRONG: f64 = 0.05;
/// At most this many traces are named.
const TRACES_MAX: usize = 5;

/// A criterion of the scenario over the rounds of both sides.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SlaRow {
    /// The workload that it judges.
    pub workload: String,
    /// Its name in the scenario.
    pub criterion: String,
    /// The condition in words.
    pub condition: String,
    /// What a FAIL of B means.
    pub severity: Severity,
    /// A's outcome.
    pub a: SlaSide,
    /// B's outcome, which counts if it is FAIL.
    pub b: SlaSide,
}

/// The outcome of a criterion on one side.
#[derive(Clone, Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
pub struct SlaSide {
    /// FAIL or PASS if more rounds have that outcome than chance explains.
    pub outcome: Outcome,
    /// How many rounds were judged.
    pub rounds: u64,
    /// How many of them passed.
    pub passed: u64,
    /// How many of them failed.
    pub failed: u64,
    /// What was observed in the last round that failed, or else in the last one.
    pub observed: String,
    /// Iterations of rounds that failed, which broke the criterion.
    pub trace_ids: Vec<Uuid>,
}

/// Without a round.
impl Default for SlaSide {
    fn default() -> Self {
        Self {
            outcome: Outcome::Invalid,
            rounds: 0,
            passed: 0,
            failed: 0,
            observed: String::new(),
            trace_ids: Vec::new(),
        }
    }
}

/// The criteria over the rounds of each side; `a` and `b` have the criteria of each round, in the scenario's order.
#[must_use]
pub fn sla(a: &[Vec<Criterion>], b: &[Vec<Criterion>]) -> Vec<SlaRow> {
    let first = b.first().or(a.first()).map_or(&[][..], Vec::as_slice);
    let judged = first.iter().enumerate().filter(|(_, criterion)| criterion.outcome != Outcome::None);
    let row = |(index, criterion): (usize, &Criterion)| {
        let of = |rounds: &[Vec<Criterion>]| {
            let same = |other: &&Criterion| {
                other.condition == criterion.condition && other.workload == criterion.workload
            };
            side(rounds.iter().filter_map(|round| round.get(index).filter(same)))
        };
        SlaRow {
            workload: criterion.workload.clone(),
            criterion: criterion.criterion.clone(),
            condition: criterion.condition.clone(),
            severity: criterion.severity,
            a: of(a),
            b: of(b),
        }
    };
    judged.map(row).collect()
}

fn side<'c>(rounds: impl Iterator<Item = &'c Criterion>) -> SlaSide {
    let (mut side, mut invalid, mut failing) = (SlaSide::default(), 0, false);
    for criterion in rounds {
        side.rounds += 1;
        let fails = criterion.outcome == Outcome::Fail;
        match criterion.outcome {
            Outcome::Pass => side.passed += 1,
            Outcome::Fail => side.failed += 1,
            Outcome::Invalid => invalid += 1,
            _ => {}
        }
        if fails || !failing {
            side.observed.clone_from(&criterion.observed);
        }
        if fails {
            failing = true;
            let room = TRACES_MAX.saturating_sub(side.trace_ids.len());
            side.trace_ids.extend(criterion.trace_ids.iter().take(room));
        }
    }
    let beyond_chance = |rounds: u64| {
        // The probability of at least as many.
        let by_chance = 1.0 - binomial_cdf(rounds as f64 - 1.0, side.rounds as f64, WRONG);
        rounds > 0 && by_chance < ALPHA
    };
    side.outcome = if side.rounds == invalid {
        Outcome::Invalid
    } else if beyond_chance(side.failed) {
        Outcome::Fail
    } else if beyond_chance(side.passed) {
        Outcome::Pass
    } else {
        Outcome::Inconclusive
    };
    side
}

/// The decision with the criteria: a FAIL of B's makes it FAIL, unless there is nothing to judge.
#[must_use]
pub fn with_sla(decision: Decision, rows: &[SlaRow]) -> Decision {
    let fails = |row: &SlaRow| row.severity == Severity::Fail && row.b.outcome == Outcome::Fail;
    match decision.outcome {
        Outcome::Invalid => decision,
        _ if rows.iter().any(fails) => Decision { outcome: Outcome::Fail, ..decision },
        _ => decision,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn criterion(outcome: Outcome) -> Criterion {
        Criterion {
            workload: "w".into(),
            criterion: "thresholds".into(),
            condition: "p99 < 250ms".into(),
            observed: format!("{outcome:?}"),
            outcome,
            severity: Severity::Fail,
            reason: None,
            measured: None,
            aborted: false,
            samples: 100,
            trace_ids: vec![Uuid::nil(); 3],
        }
    }

    fn rounds(counts: [(Outcome, usize); 3]) -> Vec<Vec<Criterion>> {
        let of = |(outcome, times): (Outcome, usize)| vec![vec![criterion(outcome)]; times];
        counts.into_iter().flat_map(of).collect()
    }

    #[test]
    fn a_few_rounds_may_fail_by_chance() {
        use Outcome::{Fail, Inconclusive, Invalid, Pass};
        for (counts, expected) in [
            ([(Pass, 10), (Fail, 0), (Inconclusive, 0)], Pass),
            ([(Pass, 9), (Fail, 1), (Inconclusive, 0)], Pass),
            ([(Pass, 7), (Fail, 3), (Inconclusive, 0)], Pass),
            ([(Pass, 6), (Fail, 4), (Inconclusive, 0)], Fail),
            ([(Pass, 0), (Fail, 10), (Inconclusive, 0)], Fail),
            ([(Pass, 3), (Fail, 0), (Inconclusive, 7)], Inconclusive),
            ([(Pass, 4), (Fail, 0), (Inconclusive, 6)], Pass),
            ([(Pass, 0), (Fail, 0), (Inconclusive, 10)], Inconclusive),
            ([(Invalid, 10), (Fail, 0), (Pass, 0)], Invalid),
            ([(Fail, 1), (Pass, 0), (Inconclusive, 0)], Inconclusive),
            ([(Fail, 3), (Pass, 0), (Inconclusive, 0)], Fail),
        ] {
            let rows = sla(&rounds([(Pass, 10), (Fail, 0), (Inconclusive, 0)]), &rounds(counts));
            assert_eq!((rows.len(), rows[0].b.outcome), (1, expected), "{counts:?}: {rows:?}");
            assert_eq!(rows[0].a.outcome, Pass);
            assert!(rows[0].b.trace_ids.len() <= TRACES_MAX);
            for (before, after) in
                [(Pass, expected == Fail), (Inconclusive, expected == Fail), (Invalid, false)]
            {
                let decided = with_sla(Decision { outcome: before, reasons: Vec::new() }, &rows);
                let wanted = if after { Fail } else { before };
                assert_eq!(decided.outcome, wanted, "{counts:?}");
            }
        }
        assert_eq!(sla(&[], &[]), []);
        assert_eq!(sla(&[], &[vec![criterion(Outcome::None)]]), [], "a criterion without a condition");
    }

    #[test]
    fn what_is_shown_is_of_the_last_round_that_failed_or_else_of_the_last() {
        use Outcome::{Fail, Inconclusive, Pass};
        for (outcomes, expected) in [
            (&[Pass, Inconclusive][..], "round 1"),
            (&[Pass, Fail, Pass], "round 1"),
            (&[Fail, Pass, Fail, Inconclusive], "round 2"),
        ] {
            let observed = |(number, outcome): (usize, &Outcome)| {
                vec![Criterion { observed: format!("round {number}"), ..criterion(*outcome) }]
            };
            let rows = sla(&[], &outcomes.iter().enumerate().map(observed).collect::<Vec<_>>());
            assert_eq!(rows[0].b.observed, expected, "{outcomes:?}");
        }
    }

    #[test]
    fn only_rounds_with_the_same_criterion_count() {
        let same = criterion(Outcome::Pass);
        let others = [
            Criterion { workload: "v".into(), ..same.clone() },
            Criterion { condition: "p99 < 100ms".into(), ..same.clone() },
        ];
        let rounds: Vec<_> = [same.clone(), same].into_iter().chain(others).map(|one| vec![one]).collect();
        assert_eq!(sla(&[], &rounds)[0].b.rounds, 2);
    }

    #[test]
    fn a_warning_never_fails() {
        let mut rows = sla(&[], &rounds([(Outcome::Fail, 10), (Outcome::Pass, 0), (Outcome::Pass, 0)]));
        assert_eq!((rows[0].a.outcome, rows[0].b.outcome), (Outcome::Invalid, Outcome::Fail));
        rows[0].severity = Severity::Warn;
        let decided = with_sla(Decision { outcome: Outcome::Pass, reasons: Vec::new() }, &rows);
        assert_eq!(decided.outcome, Outcome::Pass);
    }
}
