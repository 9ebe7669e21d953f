//! Tests of the verdicts on pairs.

use std::fmt::Write as _;

use super::simulation::{Build, compare};
use super::*;
use proptest::prelude::*;

fn two_series() -> Vec<PercentileSeries> {
    let of =
        |percentile, gated| PercentileSeries { workload: 0, action: None, phase: None, percentile, gated };
    vec![of(50.0, true), of(95.0, true), of(99.0, false)]
}

fn series() -> Vec<PercentileSeries> {
    vec![PercentileSeries { workload: 0, action: None, phase: None, percentile: 50.0, gated: true }]
}

fn round(value_ms: f64, failed: u64) -> Round {
    Round { ended: vec![(1000 - failed, failed)], values: vec![(value_ms, 1000)], counts: Vec::new() }
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

/// A rank test alone would overlook a few rounds in which nearly every iteration fails.
#[test]
fn ratios_have_a_geometric_mean() {
    for (values, expected) in [(&[][..], 0.0), (&[3.0], 3.0), (&[2.0, 8.0], 4.0), (&[2.0, 0.0], 0.0)] {
        let mean = geometric_mean(values.iter().copied());
        assert!((mean - expected).abs() < 1e-12, "{values:?}: {mean}");
    }
}

#[test]
fn failures_in_few_rounds_do_not_pass() {
    for (pairs, affected, share, in_a, expected) in [
        (10, 2, 900, 0, Some(Outcome::Fail)),
        (10, 3, 900, 0, Some(Outcome::Fail)),
        (10, 4, 900, 0, Some(Outcome::Fail)),
        (10, 5, 900, 0, Some(Outcome::Fail)),
        (20, 3, 900, 0, Some(Outcome::Fail)),
        (20, 4, 900, 0, Some(Outcome::Fail)),
        (20, 5, 900, 0, Some(Outcome::Fail)),
        // A single round may be due to the machine.
        (10, 1, 900, 0, None),
        (20, 1, 900, 0, Some(Outcome::Inconclusive)),
        // A is affected as well.
        (20, 4, 900, 2, Some(Outcome::Inconclusive)),
        (20, 4, 900, 4, Some(Outcome::Pass)),
        (20, 4, 0, 4, Some(Outcome::Pass)),
        // Too few to matter.
        (20, 4, 2, 0, Some(Outcome::Pass)),
        // Few failures, but in six rounds, which is unlikely by chance: p = 1/64.
        (10, 6, 1, 0, None),
        (20, 6, 1, 0, Some(Outcome::Inconclusive)),
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

/// A side of a pair: its p50, which needs 20 samples, and the number of successful iterations.
fn side((ms, samples): (f64, u64)) -> Round {
    Round { ended: vec![(samples, 0)], values: vec![(ms, samples)], counts: Vec::new() }
}

#[test]
fn both_sides_get_longer_rounds_when_either_is_short() {
    let (enough, half, hardly) = ((10.0, 20), (10.0, 10), (10.0, 1));
    for (pairs, a, b, round, may_lengthen, expected) in [
        (0, enough, enough, 1.0, true, "taken"),
        (0, half, enough, 1.0, true, "2.5"),
        (0, enough, half, 1.0, true, "2.5"),
        (5, half, enough, 1.0, true, "2.5"),
        (5, enough, half, 1.0, true, "2.5"),
        (5, enough, half, 2.5, true, "6.3"),
        (5, half, half, 8.0, true, "10"),
        (0, enough, hardly, 1.0, true, "10"),
        (5, enough, hardly, 1.0, true, "10"),
        (5, hardly, enough, 1.0, true, "10"),
        // Even the longest rounds would be too short for A.
        (0, hardly, enough, 1.0, true, "given up"),
        (0, hardly, hardly, 1.0, true, "given up"),
        // In the longest rounds, a lack in A is bad luck, and a lack in B may be B's fault.
        (5, half, enough, 10.0, true, "left out"),
        (5, enough, half, 10.0, true, "taken"),
        (5, enough, hardly, 10.0, true, "taken"),
        // Further samples would show nothing new.
        (0, (10.0, 100), (100.0, 10), 1.0, true, "taken"),
        (0, (10.0, 100), (f64::INFINITY, 10), 1.0, true, "taken"),
        // Slower, but not by so much, or without having fewer samples.
        (0, (10.0, 25), (100.0, 15), 1.0, true, "1.7"),
        (0, (10.0, 100), (11.0, 10), 1.0, true, "2.5"),
        (0, enough, (f64::INFINITY, 0), 1.0, true, "taken"),
        // A round without a success, and one that is short.
        (0, (f64::INFINITY, 0), half, 1.0, true, "taken"),
        (5, half, (f64::INFINITY, 0), 1.0, true, "taken"),
        // The margin counts.
        (0, (10.0, 100), (21.9, 10), 1.0, true, "2.5"),
        (0, (10.0, 100), (22.1, 10), 1.0, true, "taken"),
        // Something ended the round early.
        (0, enough, half, 1.0, false, "taken"),
        (0, half, enough, 1.0, false, "left out"),
    ] {
        let mut trial = trial(pairs, 1.0, 0.01, (0, 0));
        let offered = trial.offer(&side(a), &side(b), RoundLengths { pair: round, round, may_lengthen });
        let seen = match (&offered, trial.decide()) {
            (PairDecision::LeftOut(_), Some(_)) => "given up".to_owned(),
            (PairDecision::LeftOut(_), None) => "left out".to_owned(),
            (PairDecision::Taken, _) => "taken".to_owned(),
            (PairDecision::Longer { factor, why }, _) => {
                assert!(why.starts_with("p50 needs 20 samples in every round, and "), "{why}");
                factor.to_string()
            }
        };
        assert_eq!(seen, expected, "{pairs} pairs, {a:?} {b:?}, {round}, {may_lengthen}: {offered:?}");
        assert_eq!(trial.pairs(), pairs + usize::from(seen == "taken"));
    }
}

/// Rounds of B that are too short for PASS can still lead to FAIL.
#[test]
fn few_samples_of_b_never_pass() {
    for (ratio, expected) in [
        (1.0, Outcome::Inconclusive),
        (0.1, Outcome::Inconclusive),
        (1.5, Outcome::Fail),
        (20.0, Outcome::Fail),
    ] {
        let mut trial = trial(0, 1.0, 0.01, (0, 0));
        for pair in 0..20 {
            let own = if pair % 2 == 0 { 1.01 } else { 0.99 };
            trial.push(side((10.0, 200)), side((10.0 * ratio * own, 9)));
        }
        assert_eq!(trial.decide().unwrap().outcome, expected, "{ratio}");
    }
    // A p50 needs 20 samples, and no more.
    for (samples, expected) in [(19, Outcome::Inconclusive), (20, Outcome::Pass)] {
        let mut trial = trial(0, 1.0, 0.01, (0, 0));
        for pair in 0..20 {
            let own = if pair % 2 == 0 { 1.01 } else { 0.99 };
            trial.push(side((10.0, 200)), side((10.0 * own, samples)));
        }
        assert_eq!(trial.decide().unwrap().outcome, expected, "{samples} samples");
    }
}

#[test]
fn a_that_is_short_again_and_again_ends_it() {
    let mut often = trial(5, 1.0, 0.01, (0, 0));
    for _ in 0..6 {
        let span = RoundLengths { pair: 10.0, round: 10.0, may_lengthen: true };
        assert!(matches!(often.offer(&side((10.0, 19)), &side((10.0, 20)), span), PairDecision::LeftOut(_)));
    }
    assert_eq!(often.decide().unwrap().outcome, Outcome::Invalid);
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

    /// Equal builds with noise on both sides never get FAIL.
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

/// Counts the outcomes of the runs: PASS, FAIL, INCONCLUSIVE, INVALID.
fn outcomes(a: &Build, b: &Build, runs: u64) -> [u64; 4] {
    let mut found = [0; 4];
    for seed in 0..runs {
        found[match compare(a, b, seed) {
            Outcome::Pass => 0,
            Outcome::Fail => 1,
            Outcome::Inconclusive => 2,
            Outcome::Invalid | Outcome::None => 3,
        }] += 1;
    }
    found
}

/// In most of these, rounds are too short for p95 and get longer. `BENCH_SLOW_TESTS=1` has ten times as many runs.
#[test]
fn a_slower_build_fails_and_an_equal_one_does_not() {
    let runs = if std::env::var_os("BENCH_SLOW_TESTS").is_some() { 300 } else { 30 };
    for round_ms in [250.0, 330.0, 500.0] {
        let a = Build { median_ms: 10.0, round_ms, ..Build::default() };
        let [_, fail, _, invalid] = outcomes(&a, &a, runs);
        assert!(
            fail <= runs / 100 && invalid == 0,
            "equal, {round_ms} ms: {fail} of {runs} FAIL, {invalid} INVALID"
        );
        for (b, least) in [
            (Build { median_ms: 13.5, ..a.clone() }, runs * 9 / 10),
            (Build { median_ms: 100.0, ..a.clone() }, runs),
            (Build { median_ms: 2_000.0, ..a.clone() }, runs),
            (Build { hangs: 0.05, ..a.clone() }, runs),
            (Build { hangs: 1.0, ..a.clone() }, runs),
            (Build { fails: 0.2, ..a.clone() }, runs),
            (Build { fails: 1.0, ..a.clone() }, runs),
        ] {
            let [pass, fail, _, invalid] = outcomes(&a, &b, runs.min(60));
            assert!(
                fail >= least.min(60) * 9 / 10 && pass + invalid == 0,
                "{b:?}: {pass} PASS, {fail} FAIL, {invalid} INVALID"
            );
            let [pass, fail, ..] = outcomes(&b, &a, 3);
            assert!(fail == 0, "{b:?} as A: {pass} PASS, {fail} FAIL");
        }
    }
}

/// Whole rows and decisions of a table of trials.
#[test]
fn trials_are_told_with_all_their_figures() {
    let mut page = String::new();
    for (pairs, ratio, noise, failed) in [
        (0, 1.0, 0.02, (0, 0)),
        (1, 1.0, 0.02, (0, 0)),
        (2, 1.2, 0.02, (0, 0)),
        (10, 1.0, 0.02, (0, 0)),
        (10, 1.25, 0.02, (0, 3)),
        (10, 1.09, 0.05, (2, 2)),
        (20, 1.1, 0.02, (0, 0)),
        (20, 0.7, 0.3, (40, 0)),
        (3, 1.0, 0.0, (0, 1000)),
        (3, 1.0, 0.0, (1000, 0)),
        (10, f64::INFINITY, 0.02, (0, 600)),
    ] {
        let trial = trial(pairs, ratio, noise, failed);
        let said = (trial.decide(), trial.failures(), trial.alpha(), trial.pairs());
        writeln!(page, "{pairs} pairs, ratio {ratio}, noise {noise}, failed {failed:?}\n    {said:?}")
            .unwrap();
        for row in trial.rows() {
            writeln!(page, "    {row:?}").unwrap();
        }
    }
    let mut several = Trial::new(Rules { margin: 0.1, looks: [10, 20] }, two_series());
    for pair in 0..10_u32 {
        let slower = 1.0 + f64::from(pair % 3) / 100.0;
        let side = |by: f64| Round {
            ended: vec![(1_000, u64::from(pair % 2))],
            values: vec![(10.0 * by, 1_000), (30.0 * by, 1_000), (90.0 * by, 150)],
            counts: Vec::new(),
        };
        several.push(side(1.0), side(slower));
    }
    writeln!(page, "two gated percentiles: {:?}, {:?}", several.decide(), several.alpha()).unwrap();
    several.rows().iter().for_each(|row| writeln!(page, "    {row:?}").unwrap());
    text::compare_page!("pairs", &page);
}
