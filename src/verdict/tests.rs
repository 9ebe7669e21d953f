//! Error rates of verdicts, and agreement with Rally.

mod figures;
mod pages;

use serde_json::{Value, json};

use super::*;
use measure::generator::{Generator, WorkerVitals};
use measure::log::{End, Header, LogWriter};
use measure::rows::Rows;
use measure::sample::{ActionSample, CompletionStatus, IterationSample};
use terms::sla::Sla;
use terms::tags::ActionNames;
use terms::threshold::parse;

/// The runs of a simulation, and how many of them may get a wrong verdict: 5 % plus three standard deviations.
/// `cargo bench --bench gates` has thousands.
const RUNS: u64 = 300;
const WRONG_MAX: u64 = 15 + 12;

pub(super) fn threshold(text: &str) -> Threshold {
    let condition = parse(text).unwrap();
    Threshold { condition, window_ns: None, min_samples: None, abort_after_ns: None, warn: false }
}

pub(super) fn judged(threshold: &Threshold, samples: &[IterationSample]) -> ThresholdResult {
    let sla = Sla { thresholds: vec![threshold.clone()], ..Sla::default() };
    let mut counts = WorkloadCounts::new(&sla, ActionNames::untagged(&["first", "second"]), |_| true);
    let mut rows = Rows::default();
    samples.iter().for_each(|sample| rows.push(sample));
    rows.iter().for_each(|row| counts.add(row, false));
    counts.seal();
    let (series, limit) = counts.of(threshold).unwrap();
    Judge { threshold, series, limit, alpha: ALPHA }.judge()
}

/// Iterations one after another, a millisecond apart.
fn samples(durations_ns: impl Iterator<Item = u64>, failing: impl Fn(u64) -> bool) -> Vec<IterationSample> {
    (0..)
        .zip(durations_ns)
        .map(|(number, duration_ns)| IterationSample {
            number,
            due_ns: 5_000_000_000 + number * 1_000_000,
            start_ns: 5_000_000_000 + number * 1_000_000,
            duration_ns,
            ended: if failing(number) { CompletionStatus::Failed } else { CompletionStatus::Ok },
            ..IterationSample::default()
        })
        .collect()
}

/// Counts PASS, FAIL and INCONCLUSIVE over runs with exponential times.
fn outcomes(text: &str, runs: u64, n: u64, mean_ms: f64, seed: u64) -> [u64; 3] {
    let threshold = threshold(text);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut found = [0; 3];
    for _ in 0..runs {
        let mut draw = || (-mean_ms * 1e6 * (1.0 - random.f64()).ln()) as u64;
        let mut samples = samples((0..n).map(|_| draw()), |_| false);
        for sample in &mut samples {
            (sample.due_ns, sample.start_ns) = (sample.number * 1_000_000_000, sample.number * 1_000_000_000);
        }
        match judged(&threshold, &samples).outcome {
            Outcome::Pass => found[0] += 1,
            Outcome::Fail => found[1] += 1,
            Outcome::Inconclusive => found[2] += 1,
            other => panic!("{other:?}"),
        }
    }
    found
}

/// For a known distribution: exactly at the limit, each verdict appears in at most 5 % of runs. Well below and above
/// the limit, nearly every run gets the right verdict.
#[test]
fn wrong_verdicts_are_as_rare_as_stated() {
    // The p-quantile of exponential times is mean · ln(1/(1 − p)).
    for (text, n, at_limit_ms, seed) in [
        ("p95 < 100ms", 1000, 100.0 / 20_f64.ln(), 1),
        ("p99 <= 100ms", 1500, 100.0 / 100_f64.ln(), 2),
        ("p50 < 100ms", 300, 100.0 / 2_f64.ln(), 3),
        ("avg < 100ms", 500, 100.0, 4),
    ] {
        let [pass, fail, _] = outcomes(text, RUNS, n, at_limit_ms, seed);
        assert!(pass <= WRONG_MAX && fail <= WRONG_MAX, "{text} at the limit: {pass} passed, {fail} failed");
        let [pass, fail, _] = outcomes(text, 100, n, at_limit_ms * 0.6, seed);
        assert!(pass > 90 && fail == 0, "{text} well below: {pass} passed, {fail} failed");
        let [pass, fail, _] = outcomes(text, 100, n, at_limit_ms * 1.6, seed);
        assert!(fail > 90 && pass == 0, "{text} well above: {pass} passed, {fail} failed");
    }
}

/// One iteration in a hundred is slow enough to break the limit alone. 60 samples often miss it; the number of samples
/// that a PASS needs rarely does.
#[test]
fn a_mean_of_few_samples_does_not_pass() {
    let threshold = threshold("avg < 100ms");
    let mut random = fastrand::Rng::with_seed(7);
    for (n, passed_max) in [(20, 0), (60, 0), (380, 0), (440, WRONG_MAX)] {
        let mut passed = 0;
        for _ in 0..RUNS {
            let draw = |_| if random.u32(0..100) == 0 { 20_000_000_000 } else { 1_000_000 };
            let durations: Vec<u64> = (0..n).map(draw).collect();
            let mut samples = samples(durations.into_iter(), |_| false);
            for sample in &mut samples {
                (sample.due_ns, sample.start_ns) =
                    (sample.number * 60_000_000_000, sample.number * 60_000_000_000);
            }
            passed += u64::from(judged(&threshold, &samples).outcome == Outcome::Pass);
        }
        assert!(passed <= passed_max, "{passed} of {RUNS} passed with {n} samples");
    }
}

#[test]
fn tiny_tied_and_failed_samples_get_the_right_verdict() {
    let ms = |ms: u64| ms * 1_000_000;
    let rows: Vec<(&str, Vec<IterationSample>, Outcome)> = vec![
        ("p95 < 10ms", vec![], Outcome::Invalid),
        ("p95 < 10ms", samples([ms(1)].into_iter(), |_| false), Outcome::Inconclusive),
        ("p95 < 10ms", samples((0..58).map(|_| ms(1)), |_| false), Outcome::Inconclusive),
        ("p95 < 10ms", samples((0..59).map(|_| ms(1)), |_| false), Outcome::Pass),
        ("p95 < 10ms", samples((0..59).map(|_| ms(10)), |_| false), Outcome::Fail),
        ("p95 <= 10ms", samples((0..59).map(|_| ms(10)), |_| false), Outcome::Pass),
        ("p95 >= 10ms", samples((0..59).map(|_| ms(10)), |_| false), Outcome::Pass),
        ("p95 > 10ms", samples((0..59).map(|_| ms(10)), |_| false), Outcome::Fail),
        ("p95 < 10ms", samples((0..500).map(|_| ms(1)), |_| true), Outcome::Fail),
        ("p50 < 10ms", samples((0..500).map(|_| ms(1)), |number| number % 5 == 0), Outcome::Pass),
        ("avg < 10ms", samples((0..500).map(|_| ms(1)), |_| true), Outcome::Fail),
        ("avg > 0ms", samples((0..500).map(|_| ms(1)), |_| true), Outcome::Fail),
        ("avg < 10ms", samples((0..3).map(|_| ms(1)), |_| false), Outcome::Inconclusive),
        ("avg <= 10ms", samples((0..100).map(|_| ms(10)), |_| false), Outcome::Inconclusive),
        ("avg <= 10ms", samples((0..800).map(|_| ms(10)), |_| false), Outcome::Pass),
        ("avg < 5ms", samples((0..100).map(|_| ms(10)), |_| false), Outcome::Fail),
        ("avg > 5ms", samples((0..800).map(|_| ms(10)), |_| false), Outcome::Pass),
        ("avg > 20ms", samples((0..100).map(|_| ms(10)), |_| false), Outcome::Inconclusive),
        ("max < 10ms", samples([ms(1), ms(11)].into_iter(), |_| false), Outcome::Fail),
        ("min > 1ms", samples([ms(2), ms(11)].into_iter(), |_| false), Outcome::Pass),
        ("rate(errors) == 0", samples((0..9).map(|_| ms(1)), |_| false), Outcome::Pass),
        ("rate(errors) <= 0%", samples((0..9).map(|_| ms(1)), |number| number == 3), Outcome::Fail),
        ("rate(errors) < 1%", samples((0..100).map(|_| ms(1)), |_| false), Outcome::Inconclusive),
        ("rate(errors) < 1%", samples((0..400).map(|_| ms(1)), |_| false), Outcome::Pass),
        ("rate(errors) < 1%", samples((0..400).map(|_| ms(1)), |number| number % 10 == 0), Outcome::Fail),
        ("count(errors) <= 1", samples((0..9).map(|_| ms(1)), |number| number == 3), Outcome::Pass),
        ("count(errors) == 0", samples((0..9).map(|_| ms(1)), |number| number == 3), Outcome::Fail),
        ("throughput > 900/s", samples((0..5000).map(|_| ms(1)), |_| false), Outcome::Pass),
        ("throughput > 1100/s", samples((0..5000).map(|_| ms(1)), |_| false), Outcome::Fail),
        ("p99(lag) < 1ms", samples((0..400).map(|_| ms(50)), |_| true), Outcome::Pass),
    ];
    for (text, samples, expected) in rows {
        let judged = judged(&threshold(text), &samples);
        assert_eq!(judged.outcome, expected, "{text} of {}: {judged:?}", samples.len());
        let explained = matches!(expected, Outcome::Invalid | Outcome::Inconclusive);
        assert_eq!(judged.reason.is_some(), explained, "{text}: {judged:?}");
    }
}

/// Arrivals that never started do not count as quick answers.
#[test]
fn dropped_iterations_are_over_every_limit() {
    let mut samples = samples((0..400).map(|_| 1_000_000), |_| false);
    samples
        .iter_mut()
        .step_by(4)
        .for_each(|sample| (sample.ended, sample.duration_ns) = (CompletionStatus::Dropped, 0));
    assert_eq!(judged(&threshold("p95 < 10ms"), &samples).outcome, Outcome::Fail);
    assert_eq!(judged(&threshold("p95(service) < 10ms"), &samples).outcome, Outcome::Pass);
    assert_eq!(judged(&threshold("rate(dropped) < 5%"), &samples).outcome, Outcome::Fail);
}

/// Errors in a tenth of the run are few in the whole run, but many in their windows.
#[test]
fn every_window_must_hold() {
    let burst = samples((0..20_000).map(|_| 1_000_000), |number| {
        (9_000..11_000).contains(&number) && number % 2 == 0
    });
    let whole = threshold("rate(errors) < 25%");
    let window = |seconds: u64| Threshold { window_ns: Some(seconds * 1_000_000_000), ..whole.clone() };
    assert_eq!(judged(&whole, &burst).outcome, Outcome::Pass);
    let failed = judged(&window(2), &burst);
    assert_eq!(failed.outcome, Outcome::Fail, "{failed:?}");
    assert!(failed.observed.starts_with("worst window, from "), "{failed:?}");
    let even = samples((0..20_000).map(|_| 1_000_000), |number| number % 50 == 0);
    assert_eq!(judged(&window(2), &even).outcome, Outcome::Pass);
    assert_eq!(judged(&window(60), &even).outcome, Outcome::Invalid);
    let asked = Threshold { min_samples: Some(5_000), ..window(2) };
    assert_eq!(judged(&asked, &even).outcome, Outcome::Invalid);
}

/// One pass judges a run with thousands of thresholds.
#[test]
fn thousands_of_thresholds_work() {
    let thresholds: Vec<Threshold> =
        (1..=5000).map(|number| threshold(&format!("p{} < {number}us", number % 99 + 1))).collect();
    let sla = Sla { thresholds, ..Sla::default() };
    let mut counts = WorkloadCounts::new(&sla, ActionNames::default(), |_| true);
    let mut rows = Rows::default();
    samples((0..2000).map(|number| number * 1_000), |_| false).iter().for_each(|sample| rows.push(sample));
    rows.iter().for_each(|row| counts.add(row, false));
    counts.seal();
    for threshold in &sla.thresholds {
        let (series, limit) = counts.of(threshold).unwrap();
        let judged = Judge { threshold, series, limit, alpha: ALPHA }.judge();
        assert_ne!(judged.outcome, Outcome::Invalid);
    }
}

/// Writes the log of a run with these iterations and criteria, and reads it back.
fn log_of(sla: &Value, samples: &[IterationSample], path: &std::path::Path) -> Aggregate {
    log_with(|_| {}, sla, samples, path)
}

/// A log whose header was changed.
fn log_with(
    change: impl Fn(&mut Value),
    sla: &Value,
    samples: &[IterationSample],
    path: &std::path::Path,
) -> Aggregate {
    let nil = uuid::Uuid::nil();
    let mut header = json!({
        "run_id": nil, "id_seed": nil, "started_unix_ns": 0,
        "scenario": { "title": "t", "file": "f", "sha256": "", "set": {} },
        "deployment": { "name": "d", "file": "f", "targets": {}, "tls_verified": true, "auth": "none" },
        "profiling_off": "off", "collector": null,
        "environment": { "bench_version": "0", "os": "", "cpus": 1, "workers": 1 },
        "notes": [],
        "workloads": [{ "name": "w", "runner": {}, "sla": sla, "actions": [["first", "GET /"], ["second", "GET /"]] }],
    });
    change(&mut header);
    let header: Header = serde_json::from_value(header).unwrap();
    let mut log = LogWriter::create(path).unwrap();
    log.header(&header).unwrap();
    let mut rows = Rows::default();
    samples.iter().for_each(|sample| rows.push(sample));
    log.samples(&rows).unwrap();
    log.end(&End::default()).unwrap();
    drop(log);
    Aggregate::read(path).unwrap()
}

/// Judges a run with these iterations and criteria.
pub(super) fn judged_run(sla: &Value, samples: &[IterationSample]) -> Verdict {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.log");
    verdict_of(&log_of(sla, samples, &path))
}

fn verdict_of(aggregate: &Aggregate) -> Verdict {
    judge(&Evidence { aggregate, workloads: &[], sampled: &[], asynchronous: &[] })
}

fn iteration(number: u64, first_ms: u64, second_ms: u64, failed: bool) -> IterationSample {
    let action = |action, offset_ms: u64, ms: u64| ActionSample {
        action,
        offset_ns: offset_ms * 1_000_000,
        duration_ns: ms * 1_000_000,
        outcome: Some(200),
        ..ActionSample::default()
    };
    IterationSample {
        number,
        start_ns: number * 1_000_000_000,
        due_ns: number * 1_000_000_000,
        duration_ns: (first_ms + second_ms) * 1_000_000,
        ended: if failed { CompletionStatus::Failed } else { CompletionStatus::Ok },
        actions: vec![action(0, 0, first_ms), action(1, first_ms, second_ms)],
        ..IterationSample::default()
    }
}

/// Criteria that Rally judges exactly have the same outcome as in Rally 5.1.1.
#[test]
fn rallys_criteria_have_the_same_outcome_as_in_rally() {
    let runs: Value = serde_json::from_str(include_str!("../../tests/vectors/gate/rally.json")).unwrap();
    let runs = runs.as_array().unwrap();
    assert!(runs.len() > 40);
    for run in runs {
        let samples: Vec<IterationSample> = (0..)
            .zip(run["iterations_ms"].as_array().unwrap())
            .map(|(number, row)| {
                let ms = |at: usize| row[at].as_u64().unwrap();
                iteration(number, ms(0), ms(1), row[2].as_bool().unwrap())
            })
            .collect();
        let asked = &run["criteria"];
        let sla = json!({
            "failure_rate_min": asked["failure_rate"]["min"], "failure_rate_max": asked["failure_rate"]["max"],
            "max_seconds_per_iteration": asked["max_seconds_per_iteration"],
            "max_avg_duration": asked["max_avg_duration"],
            "max_avg_duration_per_atomic": asked["max_avg_duration_per_atomic"],
            "max_degradation": asked["performance_degradation"]["max_degradation"],
        });
        let verdict = judged_run(&sla, &samples);
        for (name, passed) in run["passed"].as_object().unwrap() {
            let rows: Vec<&Criterion> =
                verdict.criteria.iter().filter(|row| row.criterion == *name).collect();
            assert!(!rows.is_empty(), "{name}");
            let holds = rows.iter().all(|row| row.outcome == Outcome::Pass);
            assert_eq!(Value::from(holds), *passed, "{name}: {rows:?} of {run}");
        }
    }
}

/// Of the thresholds, only the one that ended the load says so.
#[test]
fn the_threshold_that_ended_the_load_is_marked() {
    let folder = tempfile::tempdir().unwrap();
    let samples: Vec<IterationSample> = (0..40).map(|number| iteration(number, 3, 5, false)).collect();
    let sla = json!({ "thresholds": [{ "condition": "max < 9s" }, { "condition": "max < 4ms" }, { "condition": "p99 < 9s" }] });
    let mut run = log_of(&sla, &samples, &folder.path().join("run.log"));
    let end = run.end.take().unwrap();
    for (aborted_by, expected) in
        [(None, [false; 3]), (Some((0, 1)), [false, true, false]), (Some((1, 1)), [false; 3])]
    {
        run.end = Some(End { aborted_by, ..end.clone() });
        let criteria = verdict_of(&run).criteria;
        let marked: Vec<bool> = criteria.iter().map(|one| one.aborted).collect();
        assert_eq!(marked, expected, "{aborted_by:?}");
    }
    // What made the load end has failed, and needs no more samples to say so.
    run.end = Some(End { aborted_by: Some((0, 2)), ..end });
    let criterion = &verdict_of(&run).criteria[2];
    assert_eq!((criterion.outcome, &criterion.reason), (Outcome::Fail, &None));
    run.end = Some(End::default());
    let criterion = &verdict_of(&run).criteria[2];
    assert_eq!(criterion.outcome, Outcome::Inconclusive);
    assert!(criterion.reason.is_some());
}

/// Examples without a trace are named only where there are no others.
#[test]
fn examples_are_those_that_have_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let control = |header: &mut Value| header["control"] = json!(50.0);
    let sla = json!({ "thresholds": [{ "condition": "rate(errors) <= 0%" }] });
    let ids = log_with(control, &sla, &[], &folder.path().join("ids.log")).log.ids();
    let (without, with): (Vec<u64>, Vec<u64>) = (0..40).partition(|&number| ids.is_control((0, number)));
    for (failing, expected) in
        [(vec![without[0], with[0], with[1]], vec![with[0], with[1]]), (vec![without[2]], vec![without[2]])]
    {
        let samples: Vec<IterationSample> =
            (0..40).map(|number| iteration(number, 3, 5, failing.contains(&number))).collect();
        let run = log_with(control, &sla, &samples, &folder.path().join(format!("{}.log", failing.len())));
        let mut shown = verdict_of(&run).criteria[0].trace_ids.clone();
        let mut expected: Vec<_> = expected.iter().map(|&number| run.trace_id((0, number))).collect();
        shown.sort_unstable();
        expected.sort_unstable();
        assert_eq!(shown, expected, "{failing:?}");
    }
}

/// Each workload is judged by its own sample of traces.
#[test]
fn traces_of_another_workload_say_nothing() {
    use osprofiler::functions::model::{Builder, Function};
    let folder = tempfile::tempdir().unwrap();
    let sla = json!({ "thresholds": [{ "condition": "share(function \"compile\") < 30%" }] });
    let both = |header: &mut Value| {
        header["profiling_off"] = Value::Null;
        let other = header["workloads"][0].clone();
        header["workloads"].as_array_mut().unwrap().push(other);
    };
    let of = |workload: u16, number: u64| {
        let mut profile = Builder::new("wsgi", 100);
        let name = if workload == 0 { "app::render" } else { "regex::compile" };
        profile.add(None, &[Function::named(name)], 20);
        let functions = results::functions::Functions { profiles: vec![profile.finish()], unreadable: 0 };
        SampledIteration { id: SampleId { workload, number }, tree: None, functions: functions.into() }
    };
    let run = log_with(both, &sla, &[iteration(0, 3, 5, false)], &folder.path().join("run.log"));
    let sampled: Vec<SampledIteration> =
        (0..100).map(|number| of((number % 4 == 0).into(), number)).collect();
    let verdict = judge(&Evidence { aggregate: &run, workloads: &[], sampled: &sampled, asynchronous: &[] });
    let seen: Vec<(Outcome, &str)> =
        verdict.criteria.iter().map(|one| (one.outcome, one.observed.as_str())).collect();
    assert_eq!(seen.len(), 2);
    assert!(
        seen[0].0 == Outcome::Pass && seen[0].1.ends_with("0 of 1500 samples in 75 random iterations"),
        "{seen:?}"
    );
    assert!(
        seen[1].0 == Outcome::Fail && seen[1].1.ends_with("500 of 500 samples in 25 random iterations"),
        "{seen:?}"
    );
}

/// A record with gaps is no run, even if nothing judges it.
#[test]
fn a_record_with_gaps_is_invalid_without_criteria() {
    let folder = tempfile::tempdir().unwrap();
    let samples: Vec<IterationSample> = (0..40).map(|number| iteration(number, 3, 5, false)).collect();
    let mut run = log_of(&json!({}), &samples, &folder.path().join("run.log"));
    for (issued, outcome) in [(40, Outcome::None), (41, Outcome::Invalid)] {
        let issued = vec![measure::log::IterationCounts { issued, ..Default::default() }];
        run.end = Some(End { issued, ..End::default() });
        assert_eq!(verdict_of(&run).outcome, outcome);
    }
}

/// Of several iterations that were cut off, the longest decides, whichever came first.
#[test]
fn the_longest_that_was_cut_off_counts() {
    let cut =
        |number, ms| IterationSample { ended: CompletionStatus::Aborted, ..iteration(number, ms, 0, false) };
    for (first_ms, second_ms, expected) in [
        (9_000, 2_000, Outcome::Fail),
        (2_000, 9_000, Outcome::Fail),
        (2_000, 3_000, Outcome::Pass),
        (2_000, 5_000, Outcome::Pass),
    ] {
        let mut samples: Vec<IterationSample> =
            (0..40).map(|number| iteration(number, 3, 5, false)).collect();
        samples.extend([cut(40, first_ms), cut(41, second_ms)]);
        let verdict = judged_run(&json!({ "max_seconds_per_iteration": 5.0 }), &samples);
        assert_eq!(
            verdict.criteria[0].outcome, expected,
            "{first_ms} and {second_ms}: {:?}",
            verdict.criteria
        );
    }
}

/// A value exactly at its limit keeps it.
#[test]
fn a_value_at_its_limit_keeps_it() {
    let samples: Vec<IterationSample> = (0..40).map(|number| iteration(number, 3, 5, false)).collect();
    for (sla, expected) in [
        (json!({ "max_avg_duration_per_atomic": { "first": 0.003, "second": 0.005 } }), Outcome::Pass),
        (json!({ "max_avg_duration_per_atomic": { "first": 0.002_999 } }), Outcome::Fail),
        (json!({ "max_degradation": 0.0 }), Outcome::Pass),
        (json!({ "max_avg_duration": 0.008 }), Outcome::Pass),
        (json!({ "max_avg_duration": 0.007_999 }), Outcome::Fail),
        (json!({ "max_seconds_per_iteration": 0.008 }), Outcome::Pass),
        (json!({ "max_seconds_per_iteration": 0.007_999 }), Outcome::Fail),
        (json!({ "failure_rate_max": 0.0 }), Outcome::Pass),
    ] {
        let verdict = judged_run(&sla, &samples);
        assert_eq!(verdict.outcome, expected, "{sla}: {:?}", verdict.criteria);
    }
}

/// Rally approximates outliers and passes without data; `bench` does neither.
#[test]
fn outliers_are_exact_and_nothing_passes_without_data() {
    let outcome = |sla: Value, samples: &[IterationSample]| {
        let verdict = judged_run(&sla, samples);
        let rows: Vec<_> = verdict.criteria.iter().map(|row| row.observed.clone()).collect();
        (verdict.outcome, rows.join("; "))
    };
    let outliers = |max: u32| json!({ "outliers": { "max": max, "min_iterations": 10, "sigmas": 3.0 } });
    // The first iteration is the outlier: Rally never looks back at it.
    let early: Vec<IterationSample> =
        (0..50).map(|number| iteration(number, if number == 0 { 900 } else { 10 }, 1, false)).collect();
    assert_eq!(outcome(outliers(0), &early).0, Outcome::Fail);
    assert_eq!(outcome(outliers(1), &early).0, Outcome::Pass);
    assert_eq!(outcome(outliers(0), &early[..5]).0, Outcome::Invalid);
    // As many as are required are enough.
    assert_ne!(outcome(outliers(0), &early[..10]).0, Outcome::Invalid);
    assert_eq!(outcome(outliers(0), &early[..9]).0, Outcome::Invalid);
    let failed: Vec<IterationSample> = (0..9).map(|number| iteration(number, 1, 1, true)).collect();
    for sla in [
        outliers(0),
        json!({ "max_avg_duration": 5.0 }),
        json!({ "max_degradation": 5.0 }),
        json!({ "max_avg_duration_per_atomic": { "first": 5.0 } }),
    ] {
        assert_eq!(outcome(sla.clone(), &failed).0, Outcome::Invalid, "{sla}");
        assert_eq!(outcome(sla.clone(), &[]).0, Outcome::Invalid, "{sla}");
    }
}

#[test]
fn a_run_that_failed_or_has_no_end_never_passes() {
    let folder = tempfile::tempdir().unwrap();
    let samples: Vec<IterationSample> = (0..300).map(|number| iteration(number, 3, 5, false)).collect();
    let mut run = log_of(&json!({ "failure_rate_max": 0.0 }), &samples, &folder.path().join("run.log"));
    assert_eq!(verdict_of(&run).outcome, Outcome::Pass);
    let end = run.end.take();
    assert_ne!(verdict_of(&run).outcome, Outcome::Pass);
    // A load generator that could not keep up may have been the cause of every figure.
    let busy = WorkerVitals { load_s: 10.0, saturated_s: 9.0, ..WorkerVitals::default() };
    let generator = Some(Generator { workers: vec![busy], ..Generator::default() });
    run.end = end.clone().map(|end| End { generator, ..end });
    assert_eq!(verdict_of(&run).outcome, Outcome::Invalid);
    let failed = End { status: Status::Failed, error: Some("teardown failed".to_owned()), ..end.unwrap() };
    run.end = Some(failed);
    let verdict = verdict_of(&run);
    assert_eq!(verdict.outcome, Outcome::Invalid);
    assert!(verdict.invalid.iter().any(|why| why.contains("teardown failed")), "{:?}", verdict.invalid);
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(150))]

    /// After any flipped bits, moved bytes or a cut, a PASS still means that every iteration was read as written.
    #[test]
    fn a_damaged_log_never_passes(
        flips in proptest::collection::vec((0..4_000_usize, 0..8_u8), 0..4),
        moved in proptest::option::of((0..4_000_usize, 0..4_000_usize, 1..900_usize)),
        cut in proptest::option::of(0..200_usize),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.log");
        let samples: Vec<IterationSample> = (0..300).map(|number| iteration(number, 3, 5, false)).collect();
        let whole = log_of(&json!({ "failure_rate_max": 0.0 }), &samples, &path);
        proptest::prop_assert_eq!(verdict_of(&whole).outcome, Outcome::Pass);
        let mut bytes = std::fs::read(&path).unwrap();
        let before = bytes.clone();
        let length = bytes.len();
        flips.iter().for_each(|(at, bit)| bytes[at % length] ^= 1 << bit);
        if let Some((from, to, some)) = moved {
            let from = from % length;
            let piece = bytes[from..(from + some).min(length)].to_vec();
            bytes.splice(to % length..to % length, piece);
        }
        bytes.truncate(bytes.len() - cut.unwrap_or(0).min(bytes.len()));
        std::fs::write(&path, &bytes).unwrap();
        let Ok(aggregate) = Aggregate::read(&path) else { return Ok(()) };
        let verdict = verdict_of(&aggregate);
        proptest::prop_assert!(aggregate.rows <= 300 || verdict.outcome == Outcome::Invalid);
        if verdict.outcome == Outcome::Pass {
            proptest::prop_assert_eq!((aggregate.rows, aggregate.total()), (300, 300));
            proptest::prop_assert!(verdict.invalid.is_empty() && bytes == before);
        }
    }
}
