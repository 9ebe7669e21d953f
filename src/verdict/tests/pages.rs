//! Whole verdicts on a table of runs, kept in `tests/pages`: no figure and no word changes unnoticed.

use std::fmt::Write as _;

use super::*;
use crate::compare::{WeighedRun, failures, ratios};
use crate::paired::{PercentileSeries, Round};
use crate::traces::{SampledIteration, of_figures};
use crate::{functions, history};
use osprofiler::functions::model::{Builder, Function};
use results::functions::Functions;
use results::stored::StoredRun;
use terms::threshold::{Metric, Statistic};

/// An iteration of two actions, every 20 ms, started 0 to 3 ms late.
fn one(number: u64, ms: f64, ended: CompletionStatus) -> IterationSample {
    let (due_ns, ns) = (2_000_000_000 + number * 20_000_000, (ms * 1e6) as u64);
    let action = |action, offset_ns, duration_ns| ActionSample {
        action,
        offset_ns,
        duration_ns,
        outcome: Some(if ended == CompletionStatus::Failed { 500 } else { 200 }),
        ended,
        requests: 1,
        ..ActionSample::default()
    };
    let ran = ended != CompletionStatus::Dropped;
    IterationSample {
        number,
        due_ns,
        start_ns: due_ns + if ran && ms > 0.0 { number * 7 % 4 * 1_000_000 } else { 0 },
        duration_ns: if ran { ns } else { 0 },
        ended,
        actions: if ran && (ended != CompletionStatus::Aborted || ms > 0.0) {
            vec![action(0, 0, ns / 3), action(1, ns / 3, ns - ns / 3)]
        } else {
            Vec::new()
        },
        ..IterationSample::default()
    }
}

fn runs() -> Vec<(&'static str, Vec<IterationSample>)> {
    let times = |n: u64| {
        let ladder: Vec<f64> = (0..n).map(|number| 1.0 + number as f64 * 30.0 / n as f64).collect();
        (0..n).map(move |number| (number, ladder[(number * 7_919 % n) as usize]))
    };
    let all = |n: u64, ended: fn(u64) -> CompletionStatus, slower: fn(u64) -> f64| {
        times(n).map(|(number, ms)| one(number, ms * slower(number), ended(number))).collect()
    };
    vec![
        ("even", all(700, |_| CompletionStatus::Ok, |_| 1.0)),
        ("few", all(12, |_| CompletionStatus::Ok, |_| 1.0)),
        ("one", all(1, |_| CompletionStatus::Ok, |_| 1.0)),
        ("four", all(4, |_| CompletionStatus::Ok, |_| 1.0)),
        ("five", all(5, |_| CompletionStatus::Ok, |_| 1.0)),
        (
            "a tenth fails",
            all(
                600,
                |number| if number % 10 == 3 { CompletionStatus::Failed } else { CompletionStatus::Ok },
                |_| 1.0,
            ),
        ),
        (
            "a fifth is dropped",
            all(
                600,
                |number| {
                    if number.is_multiple_of(5) { CompletionStatus::Dropped } else { CompletionStatus::Ok }
                },
                |_| 1.0,
            ),
        ),
        (
            "the last are cut off",
            all(
                500,
                |number| if number < 490 { CompletionStatus::Ok } else { CompletionStatus::Aborted },
                |number| f64::from(number < 495),
            ),
        ),
        ("at once", all(80, |_| CompletionStatus::Ok, |_| 0.0)),
        ("all fail", all(60, |_| CompletionStatus::Failed, |_| 1.0)),
        ("all are cut off", all(9, |_| CompletionStatus::Aborted, |_| 1.0)),
        ("all are dropped", all(30, |_| CompletionStatus::Dropped, |_| 1.0)),
        ("nothing", Vec::new()),
        (
            "in bursts",
            times(700)
                .map(|(number, ms)| {
                    let at_once = one(number / 100 * 100, 1.0, CompletionStatus::Ok);
                    IterationSample {
                        number,
                        due_ns: at_once.due_ns,
                        start_ns: at_once.start_ns,
                        ..one(number, ms / 40.0, CompletionStatus::Ok)
                    }
                })
                .collect(),
        ),
        (
            "a slow part",
            all(
                1_500,
                |number| if number % 400 == 399 { CompletionStatus::Failed } else { CompletionStatus::Ok },
                |number| if (500..700).contains(&number) { 4.0 } else { 1.0 },
            ),
        ),
    ]
}

/// Every kind of threshold on every kind of run.
#[test]
fn thresholds_on_all_iterations() {
    let mut page = String::new();
    for (name, samples) in runs() {
        for text in [
            "p50 < 18ms",
            "p95 < 25ms",
            "p95 < 31ms",
            "p(99) >= 2ms",
            "p90(service) <= 28ms",
            "p95(lag) < 3ms",
            "p50(action \"first\") < 6ms",
            "p95(service action \"second\") < 9ms",
            "p95(response action \"first\") < 9ms",
            "avg < 17ms",
            "avg(service) >= 1ms",
            "avg > 90ms",
            "min > 1ms",
            "min < 500us",
            "min < 40ms",
            "max > 12ms",
            "max > 90ms",
            "max < 30ms",
            "max <= 40s",
            "rate(errors) < 12%",
            "rate(errors) <= 0%",
            "rate(errors) <= 3%",
            "rate(errors) <= 14%",
            "rate(errors) >= 3%",
            "rate(errors) >= 0%",
            "rate(errors) >= 100%",
            "rate(errors) <= 100%",
            "rate(errors) < 100%",
            "rate(errors) > 0%",
            "rate(errors) == 100%",
            "rate(dropped) < 22%",
            "count(errors) <= 1",
            "count(dropped) == 0",
            "throughput > 40/s",
            "throughput < 49/s",
            "throughput > 80/s",
        ] {
            let windows = Some(2_000_000_000);
            for (window_ns, min_samples) in
                [(None, None), (windows, None), (None, Some(650)), (windows, Some(650))]
            {
                if min_samples.is_some() && text != "p95 < 25ms" {
                    continue;
                }
                let threshold = Threshold { window_ns, min_samples, ..threshold(text) };
                let said = judged(&threshold, &samples);
                let window = window_ns.map_or("", |_| ", windows of 2 s");
                let least = min_samples.map_or("", |_| ", at least 650");
                writeln!(page, "{name}: {text}{window}{least}\n    {said:?}").unwrap();
            }
        }
    }
    text::compare_page!("thresholds", &page);
}

#[test]
fn thresholds_on_traces() {
    let mut page = String::new();
    let id = |number| SampleId { workload: 0, number };
    for (name, n, of) in [
        ("rising", 120, (|number| number as f64 + 1.0) as fn(u64) -> f64),
        ("rising", 40, |number| number as f64 + 1.0),
        ("few", 12, |number| number as f64 + 1.0),
        ("same", 35, |_| 12.0),
        ("rising", 100, |number| number as f64 + 1.0),
        ("rising", 20, |number| number as f64 + 1.0),
        ("same", 15, |_| 12.0),
        ("nearly the same", 150, |number| 12.0 + (number % 7) as f64 / 100.0),
    ] {
        let counts: Vec<(f64, SampleId)> = (0..n).map(|number| (of(number), id(number))).collect();
        let times: Vec<(f64, SampleId)> = counts.iter().map(|(value, id)| (value * 1e6, *id)).collect();
        for text in [
            "p50(trace \"db\") < 70ms",
            "p95(trace \"db\") >= 3ms",
            "p90(trace \"db\") < 2ms",
            "avg(trace \"db\") < 12.5ms",
            "avg(trace \"db\") < 11ms",
            "avg(trace \"db\") > 3ms",
            "avg(trace \"db\") < 900ms",
            "max(trace \"db\") < 60ms",
            "min(trace \"db\") < 60ms",
            "count(trace \"db\") <= 12",
            "count(trace \"db\") < 70",
            "errors(trace) == 0",
            "depth(trace) >= 12",
        ] {
            let threshold = threshold(text);
            let statistic = match &threshold.condition.metric {
                Metric::Trace(statistic, ..) => *statistic,
                _ => Statistic::Mean,
            };
            let figures = if text.contains("ms") { &times } else { &counts };
            for ran in [n, 5_000] {
                let said = of_figures(&threshold, statistic, figures, ran);
                writeln!(page, "{n} {name} of {ran}: {text}\n    {said:?}").unwrap();
            }
        }
    }
    text::compare_page!("traces", &page);
}

#[test]
fn thresholds_on_functions() {
    let mut page = String::new();
    let id = |number| SampleId { workload: 0, number };
    for (n, compile, others) in
        [(50, 4, 16), (50, 0, 20), (19, 4, 16), (20, 4, 16), (50, 20, 0), (3, 1, 5), (0, 1, 1)]
    {
        let one = |number| {
            let mut builder = Builder::new("wsgi", 100);
            for (names, samples) in
                [(["app::main", "regex::compile"], compile), (["app::main", "app::render"], others)]
            {
                let frames: Vec<Function> = names.iter().map(|name| Function::named(name)).collect();
                // One iteration has a profile without samples.
                if samples > 0 && number != 7 {
                    builder.add(None, &frames, samples + number % 3);
                }
            }
            let functions = Functions { profiles: vec![builder.finish()], unreadable: 0 };
            SampledIteration { id: id(number), tree: None, functions: functions.into() }
        };
        let sampled: Vec<SampledIteration> = (0..n).map(one).collect();
        let sampled: Vec<&SampledIteration> = sampled.iter().collect();
        for text in [
            "share(function \"compile\") < 30%",
            "share(function \"compile\") < 5%",
            "share(function \"render\") > 78%",
        ] {
            let threshold = threshold(text);
            let Metric::Share(function) = &threshold.condition.metric else { panic!("{text}") };
            for profiled in [true, false] {
                let said = functions::judge(&threshold, function, &sampled, profiled);
                writeln!(
                    page,
                    "{compile} and {others} samples in {n}, profiled {profiled}: {text}\n    {said:?}"
                )
                .unwrap();
            }
        }
    }
    text::compare_page!("functions", &page);
}

/// The verdict on a run, the comparison of two runs, and a run against past ones.
#[test]
fn whole_verdicts_and_comparisons() {
    let sla = json!({
        "failure_rate_max": 5.0, "failure_rate_min": 0.0, "max_seconds_per_iteration": 0.05, "max_avg_duration": 0.02,
        "max_avg_duration_per_atomic": { "first": 0.006, "second": 0.2 }, "max_degradation": 300.0,
        "outliers": { "max": 3, "min_iterations": 10, "sigmas": 2.0 },
    });
    let mut page = String::new();
    let folder = tempfile::tempdir().unwrap();
    let stored: Vec<(&str, StoredRun)> = runs()
        .into_iter()
        .map(|(name, samples)| {
            let of_run = folder.path().join(name);
            std::fs::create_dir(&of_run).unwrap();
            let run = log_of(&sla, &samples, &of_run.join("run.log"));
            writeln!(page, "{name}\n    {:?}", verdict_of(&run)).unwrap();
            let of = |percentile, action| PercentileSeries {
                workload: 0,
                action,
                phase: None,
                percentile,
                gated: true,
            };
            let series = [of(50.0, None), of(80.0, None), of(90.0, None), of(95.0, Some(1))];
            writeln!(page, "    {:?}", Round::of(&[&run, &run], &series)).unwrap();
            (name, StoredRun::open(&of_run).unwrap())
        })
        .collect();
    let base = WeighedRun::new(&stored[0].1).unwrap();
    for (name, run) in &stored {
        writeln!(page, "{name} beside even: {:?}", failures(&stored[0].1.results, &run.results)).unwrap();
        for row in ratios(&base, &WeighedRun::new(run).unwrap()).unwrap() {
            writeln!(page, "    {row:?}").unwrap();
        }
        if *name == "at once" {
            let itself = WeighedRun::new(run).unwrap();
            writeln!(page, "    beside itself: {:?}", ratios(&itself, &itself).unwrap()[0]).unwrap();
        }
        let past: Vec<&StoredRun> = (0..11).map(|_| &stored[0].1).collect();
        for metrics in [&["p50"][..], &["p95", "p99"]] {
            let metrics: Vec<_> = metrics.iter().map(|metric| metric.parse().unwrap()).collect();
            writeln!(page, "    after even: {:?}", history::judge(&past, run, None, &metrics, 0.1)).unwrap();
        }
        writeln!(page, "    after even: {:?}", history::judge_failures(&past, run, None)).unwrap();
    }
    text::compare_page!("verdicts", &page);
}
