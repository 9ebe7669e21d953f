//! The figures beside verdicts: values and bounds, equal in every output.

use super::*;
use crate::compare::{self, WeighedRun};
use crate::history;
use crate::paired::{PercentileMetric as Compared, Round, WorkloadNames, series};
use results::build;
use results::stored::StoredRun;

/// Values from 1 ms upwards, each 0.4 % above the one before, so that no two ranks have the same value.
fn ladder(n: u64) -> Vec<u64> {
    (0..n).map(|number| (1e6 * 1.004_f64.powf(number as f64)) as u64).collect()
}

/// The same values in an order in which neighbours differ.
fn mixed(values: &[u64]) -> Vec<u64> {
    let n = values.len() as u64;
    // No n here is a multiple of this prime, so each value appears once.
    (0..n).map(|number| values[(number * 7_919 % n) as usize]).collect()
}

fn near(found_ms: f64, expected_ns: u64) -> bool {
    (found_ms * 1e6 / expected_ns as f64 - 1.0).abs() <= 0.0011
}

/// The shown bounds are SciPy's binomial bounds. With too few samples for a bound, none is shown. No verdict
/// contradicts the bounds.
#[test]
fn bounds_are_shown_where_they_exist_and_agree_with_the_verdict() {
    // n, percentile, ranks of value and bounds at 5 % each: scipy.stats.binom, as in tests/vectors/statistics/make.py.
    for (n, percent, at, low, high) in [
        (1, "50", 1, None, None),
        (2, "95", 2, Some(1), None),
        (10, "50", 5, Some(2), Some(9)),
        (10, "99", 10, Some(9), None),
        (59, "95", 57, Some(53), Some(59)),
        (100, "95", 95, Some(91), Some(99)),
        (100, "99", 99, Some(97), None),
        (299, "99", 297, Some(293), Some(299)),
        (1000, "99.9", 999, Some(997), None),
        (2000, "99.9", 1998, Some(1995), None),
        (2995, "99.9", 2993, Some(2989), Some(2995)),
    ] {
        let values = ladder(n);
        let run = samples(mixed(&values).into_iter(), |_| false);
        // With a limit that every sample keeps, samples count in full.
        let judged = judged(&threshold(&format!("p({percent}) < 20h")), &run);
        let measured = judged.measured.clone().unwrap();
        let value = |rank: u64| values[rank as usize - 1];
        let what = format!("p{percent} of {n}: {judged:?}");
        assert!(near(measured.value, value(at)), "{what}");
        assert_eq!(measured.low.is_some(), low.is_some(), "{what}");
        assert_eq!(measured.high.is_some(), high.is_some(), "{what}");
        assert!(low.is_none_or(|rank| near(measured.low.unwrap(), value(rank))), "{what}");
        assert!(high.is_none_or(|rank| near(measured.high.unwrap(), value(rank))), "{what}");
        let (open, between) = (judged.observed.contains(" (at least "), judged.observed.contains(" to "));
        assert_eq!((open, between), (low.is_some() && high.is_none(), high.is_some()), "{what}");
        assert_eq!(judged.outcome == Outcome::Pass, high.is_some(), "{what}");
    }
}

/// For limits across all values, with dependent samples too: PASS exactly where the upper bound keeps the limit, FAIL
/// exactly where the lower bound does not.
#[test]
fn verdicts_follow_from_their_bounds() {
    let values = ladder(700);
    for (name, run) in [("mixed", mixed(&values)), ("ascending", values.clone())] {
        let run = samples(run.into_iter(), |number| number % 97 == 0);
        for (percent, operator) in [("50", "<"), ("90", "<="), ("95", ">"), ("99", ">="), ("99", "<")] {
            for at in (0..700).step_by(13) {
                let limit_ns = values[at];
                let text = format!("p({percent}) {operator} {limit_ns}ns");
                let judged = judged(&threshold(&text), &run);
                let Some(measured) = judged.measured else { continue };
                let operator = threshold(&text).condition.operator;
                let holds =
                    |ms: Option<f64>| ms.map(|ms| operator.holds((ms * 1e6).round(), limit_ns as f64));
                let (inner, outer) = match operator.bounds_above() {
                    true => (holds(measured.low), holds(measured.high)),
                    false => (holds(measured.high), holds(measured.low)),
                };
                let expected = match (inner, outer) {
                    (_, Some(true)) => Outcome::Pass,
                    (Some(false), _) => Outcome::Fail,
                    // A bound among the failures has no time, and keeps a lower limit.
                    (None, _) if !operator.bounds_above() => continue,
                    _ => Outcome::Inconclusive,
                };
                assert_eq!(judged.outcome, expected, "{name}: {text}: {}", judged.observed);
            }
        }
    }
}

/// Arrivals that never started have no service time. They do not count in its percentiles, bounds or allowed excess. In
/// response time they come last.
#[test]
fn dropped_arrivals_have_no_service_time() {
    let values = ladder(1_000);
    let mut run = samples(mixed(&values).into_iter(), |_| false);
    let ran = run.len() as u64;
    for number in 0..500 {
        let due_ns = 5_000_000_000 + number * 2_000_000;
        run.push(IterationSample {
            number: ran + number,
            due_ns,
            start_ns: due_ns,
            ended: CompletionStatus::Dropped,
            ..IterationSample::default()
        });
    }
    // The median is the 500th of 1,000, and the 750th of 1,500.
    for (text, n, rank) in [
        ("p50(service) < 1h", 1_000, 500),
        ("p95(service) < 1h", 1_000, 950),
        ("p50 < 1h", 1_500, 750),
        ("p60(response) < 1h", 1_500, 900),
    ] {
        let judged = judged(&threshold(text), &run);
        let measured = judged.measured.clone().unwrap();
        assert!(near(measured.value, values[rank - 1]), "{text}: {judged:?}");
        assert_eq!(judged.samples, n, "{text}: {judged:?}");
        assert_eq!(judged.observed.contains("never started"), n == 1_500, "{text}: {judged:?}");
        let (low, high) = (measured.low.unwrap(), measured.high.unwrap());
        assert!(low < measured.value && measured.value < high, "{text}: {judged:?}");
    }
    // A third has no response time, so neither the 67th percentile nor the 70th and its bounds have one.
    for (text, outcome, observed) in [
        (
            "p67 < 1h",
            Outcome::Inconclusive,
            "no time, as it falls among dropped or cut-off iterations (at least ",
        ),
        (
            "p70 < 1h",
            Outcome::Fail,
            "no time, as it falls among dropped or cut-off iterations; 500 of 1500 over ",
        ),
    ] {
        let judged = judged(&threshold(text), &run);
        assert_eq!((judged.outcome, judged.measured), (outcome, None), "{}", judged.observed);
        assert!(judged.observed.starts_with(observed), "{}", judged.observed);
    }
}

/// A percentile is the same sample in every output: results, thresholds, comparisons, pairs and history.
#[test]
fn a_percentile_is_the_same_in_every_output() {
    for n in [299_u64, 1_000, 2_000, 2_995, 3_000] {
        let values = ladder(n);
        let run = samples(mixed(&values).into_iter(), |_| false);
        let folder = tempfile::tempdir().unwrap();
        let aggregate = log_of(&json!({}), &run, &folder.path().join("run.log"));
        let results = build::build(&aggregate);
        let stored = StoredRun::open(folder.path()).unwrap();
        let weighed = WeighedRun::new(&stored).unwrap();
        let ratios = compare::ratios(&weighed, &weighed).unwrap();
        for (percent, parts) in [(50.0, 500), (90.0, 900), (95.0, 950), (99.0, 990), (99.9, 999)] {
            let expected = values[(n * parts).div_ceil(1_000) as usize - 1];
            let metric: Compared = format!("p{percent}").parse().unwrap();
            let names = [WorkloadNames { workload: "w".to_owned(), actions: Vec::new() }];
            let compared = series(&names, std::slice::from_ref(&metric)).unwrap();
            let round = Round::of(&[&aggregate], &compared);
            let place = compared.iter().position(|one| one.gated).unwrap();
            let of_threshold = judged(&threshold(&format!("p({percent}) < 20h")), &run);
            let past = history::judge(&[], &stored, None, &[metric], 0.1).unwrap();
            let ratio = ratios.iter().find(|row| row.percentile == percent && row.action.is_none()).unwrap();
            for (output, found_ms) in [
                ("results", results.workloads[0].response_time.at(percent).unwrap()),
                ("service time", results.workloads[0].service_time.at(percent).unwrap()),
                ("a threshold", of_threshold.measured.unwrap().value),
                ("compare", ratio.new_ms),
                ("pairs", round.values[place].0),
                ("history", past[0].new_ms),
            ] {
                assert!(
                    near(found_ms, expected),
                    "p{percent} of {n} by {output}: {found_ms} ms, not {expected} ns"
                );
            }
        }
    }
}

/// Lognormal and exponential times with a mean exactly at the limit, and the number of samples that a mean needs to
/// pass. At most 5 % of runs get PASS, and at most 5 % FAIL, within the random error of this many runs.
#[test]
fn a_mean_at_its_limit_is_judged_wrongly_as_rarely_as_stated() {
    let normal = |random: &mut fastrand::Rng| {
        (-2.0 * (1.0 - random.f64()).ln()).sqrt() * (std::f64::consts::TAU * random.f64()).cos()
    };
    let runs = if std::env::var_os("BENCH_SLOW_TESTS").is_some() { 10_000 } else { 300 };
    let wrong_max = f64::from(runs) * 0.05 + 3.0 * (f64::from(runs) * 0.05 * 0.95).sqrt();
    for (name, n, sigma) in [("exponential", 400, 0.0), ("lognormal", 400, 1.0), ("lognormal", 1_000, 1.0)] {
        let mut random = fastrand::Rng::with_seed(n + 9);
        let (mut pass, mut fail) = (0, 0);
        for _ in 0..runs {
            let durations: Vec<u64> = (0..n)
                .map(|_| {
                    let drawn = match sigma > 0.0 {
                        true => (sigma * normal(&mut random) - sigma * sigma / 2.0).exp(),
                        false => -(1.0 - random.f64()).ln(),
                    };
                    (drawn * 100e6) as u64
                })
                .collect();
            let mut run = samples(durations.into_iter(), |_| false);
            for sample in &mut run {
                (sample.due_ns, sample.start_ns) =
                    (sample.number * 60_000_000_000, sample.number * 60_000_000_000);
            }
            match judged(&threshold("avg <= 100ms"), &run).outcome {
                Outcome::Pass => pass += 1,
                Outcome::Fail => fail += 1,
                _ => {}
            }
        }
        println!("{name}, n {n}: {pass} PASS, {fail} FAIL of {runs} at the limit");
        assert!(f64::from(pass) <= wrong_max, "{name}, {n}: {pass} PASS of {runs}");
        assert!(f64::from(fail) <= wrong_max, "{name}, {n}: {fail} FAIL of {runs}");
    }
}
