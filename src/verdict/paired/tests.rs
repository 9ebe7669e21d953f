//! What verdicts the pairs come to.

use super::*;
use proptest::prelude::*;

fn series() -> Vec<Series> {
    vec![Series { workload: 0, action: None, percentile: 50.0, gated: true }]
}

fn round(value_ms: f64, failed: u64) -> Round {
    Round { ended: vec![(1000 - failed, failed)], values: vec![(value_ms, 1000)] }
}

fn trial(pairs: usize, ratio: f64, noise: f64, failed: (u64, u64)) -> Trial {
    let mut trial = Trial::new(Rules { margin: 0.1, looks: [10, 20] }, series());
    for pair in 0..pairs {
        let shared = 1.0 + 0.3 * (pair % 3) as f64;
        let own = if pair % 2 == 0 { noise } else { -noise };
        trial.push(round(10.0 * shared, failed.0), round(10.0 * shared * ratio * (1.0 + own), failed.1));
    }
    trial
}

#[test]
fn pairs_are_judged_by_their_bounds() {
    let outcome = |trial: Trial| trial.decide().map(|decision| decision.outcome);
    for (pairs, ratio, noise, failed, expected) in [
        (9, 1.5, 0.02, (0, 0), None),
        (10, 1.0, 0.02, (0, 0), Some(Outcome::Pass)),
        (10, 1.25, 0.02, (0, 0), Some(Outcome::Fail)),
        (10, 1.1, 0.02, (0, 0), None),
        (19, 1.1, 0.02, (0, 0), None),
        (20, 1.1, 0.02, (0, 0), Some(Outcome::Inconclusive)),
        (10, 1.0, 0.3, (0, 0), None),
        (10, 0.5, 0.02, (0, 0), Some(Outcome::Pass)),
        // B fails more in every pair.
        (10, 1.0, 0.02, (0, 3), Some(Outcome::Fail)),
        (10, 1.0, 0.02, (3, 0), Some(Outcome::Pass)),
        (3, 0.01, 0.02, (0, 1000), Some(Outcome::Fail)),
        (1, 1.0, 0.02, (1000, 0), Some(Outcome::Invalid)),
    ] {
        let seen = outcome(trial(pairs, ratio, noise, failed));
        assert_eq!(seen, expected, "{pairs} pairs, ratio {ratio}, noise {noise}, failures {failed:?}");
    }
}

/// Few rounds in which nearly all fails are as good as none to a test by ranks.
#[test]
fn failures_in_few_rounds_do_not_pass() {
    for (pairs, affected, share, in_a, expected) in [
        (10, 3, 900, 0, Some(Outcome::Fail)),
        (10, 4, 900, 0, Some(Outcome::Fail)),
        (10, 5, 900, 0, Some(Outcome::Fail)),
        (20, 3, 900, 0, Some(Outcome::Fail)),
        (20, 4, 900, 0, Some(Outcome::Fail)),
        (20, 5, 900, 0, Some(Outcome::Fail)),
        // Once may be the machine.
        (10, 1, 900, 0, None),
        (20, 1, 900, 0, Some(Outcome::Inconclusive)),
        // A is affected as well.
        (20, 4, 900, 2, Some(Outcome::Inconclusive)),
        (20, 4, 900, 4, Some(Outcome::Pass)),
        (20, 4, 0, 4, Some(Outcome::Pass)),
        // Too few to matter.
        (20, 4, 2, 0, Some(Outcome::Pass)),
    ] {
        let mut trial = Trial::new(Rules { margin: 0.1, looks: [10, 20] }, series());
        for pair in 0..pairs {
            let failed = |rounds| if pair < rounds { 900 } else { 0 };
            let own = if pair % 2 == 0 { 1.01 } else { 0.99 };
            trial.push(round(10.0, failed(in_a)), round(10.0 * own, failed(affected).min(share)));
        }
        let seen = trial.decide().map(|decision| decision.outcome);
        assert_eq!(seen, expected, "{pairs} pairs, {affected} rounds, {share} ‰, {in_a} of A");
    }
}

#[test]
fn a_round_without_enough_samples_is_told_at_once() {
    let mut trial = Trial::new(
        Rules { margin: 0.1, looks: [10, 20] },
        vec![Series { percentile: 99.0, ..series()[0].clone() }],
    );
    trial.push(round(1.0, 0), round(1.0, 0));
    assert_eq!(trial.decide(), None, "1,000 are enough for p99");
    trial.push(round(1.0, 0), Round { values: vec![(1.0, 999)], ..round(1.0, 0) });
    let decision = trial.decide().unwrap();
    assert_eq!(decision.outcome, Outcome::Invalid);
    assert!(decision.reasons[0].contains("p99 needs 1000 samples"), "{decision:?}");
    assert_eq!(trial.rows()[0].ratio, None);
}

#[test]
fn a_later_pair_is_left_out_when_a_is_short() {
    let short = |failed| Round { values: vec![(10.0, 19)], ..round(10.0, failed) };
    let outcome = |trial: &Trial| trial.decide().map(|decision| decision.outcome);
    let mut first = trial(0, 1.0, 0.01, (0, 0));
    assert_eq!(first.push(short(0), round(10.0, 0)), None);
    assert_eq!(outcome(&first), Some(Outcome::Invalid), "rounds are too short altogether");
    for (a, b, left_out, expected) in [
        (short(0), round(10.0, 0), true, None),
        (short(0), short(0), true, None),
        (round(10.0, 0), short(0), false, Some(Outcome::Invalid)),
        (short(0), round(10.0, 1000), false, Some(Outcome::Invalid)),
        (short(1000), round(10.0, 0), false, Some(Outcome::Invalid)),
    ] {
        let mut trial = trial(5, 1.0, 0.01, (0, 0));
        assert_eq!(trial.push(a.clone(), b.clone()).is_some(), left_out, "{a:?} {b:?}");
        assert_eq!((trial.pairs(), outcome(&trial)), (6 - usize::from(left_out), expected), "{a:?} {b:?}");
    }
    let mut often = trial(5, 1.0, 0.01, (0, 0));
    for _ in 0..6 {
        assert!(often.push(short(0), round(10.0, 0)).is_some());
    }
    assert_eq!(outcome(&often), Some(Outcome::Invalid));
}

#[test]
fn pairs_that_the_generator_spoilt_end_it_when_they_are_many() {
    let mut trial = trial(5, 1.0, 0.01, (0, 0));
    (0..5).for_each(|_| trial.discard());
    assert_eq!(trial.decide(), None);
    trial.discard();
    assert_eq!(trial.decide().unwrap().outcome, Outcome::Invalid);
}

proptest! {
    #[test]
    fn any_rounds_are_survived(rounds in proptest::collection::vec((any::<f64>(), any::<f64>(), 0..3_u64), 0..25)) {
        let mut trial = Trial::new(Rules { margin: 0.1, looks: [10, 20] }, series());
        for (a, b, failed) in rounds {
            trial.push(round(a, failed), round(b, 0));
        }
        let _ = (trial.decide(), trial.rows(), trial.failures());
        for row in trial.rows() {
            prop_assert!(row.low.is_none_or(|low| low.is_finite() || low.is_infinite()));
            prop_assert!(row.outcome != Outcome::Pass || row.high.unwrap() < 1.1);
        }
    }

    /// The same machine twice: with noise on both sides no verdict calls B slower.
    #[test]
    fn equal_builds_do_not_fail(seed: u64) {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut noise = |size: f64| size * (0..12).map(|_| random.f64() - 0.5).sum::<f64>();
        let mut trial = Trial::new(Rules { margin: 0.1, looks: [10, 20] }, series());
        while trial.decide().is_none() {
            let shared = noise(0.1);
            trial.push(round((shared + noise(0.05)).exp(), 0), round((shared + noise(0.05)).exp(), 0));
        }
        prop_assert!(trial.decide().unwrap().outcome != Outcome::Fail);
    }
}
