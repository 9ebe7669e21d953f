//! Thresholds against times whose distribution is known exactly, through the log of a run as any other.

use std::path::Path;

use bench::measure::log::{End, Header, LogWriter};
use bench::measure::rows::Rows;
use bench::measure::sample::{CompletionStatus, IterationSample};
use bench::results::aggregate::Aggregate;
use bench::results::model::Outcome;
use bench::terms::sla::Sla;
use bench::terms::threshold::{Threshold, parse};
use bench::verdict::{Evidence, judge};
use serde_json::json;

/// A threshold, the iterations of a run, the mean of times with which its value is the limit itself, and the standard
/// deviation of their logarithm where they are lognormal. Others are exponential: their p-quantile is
/// mean · ln(1/(1 − p)).
const CASES: [(&str, u64, f64, Option<f64>); 6] = [
    ("p(50) < 100ms", 300, 144.269_504_088_896_34, None),
    ("p(95) < 100ms", 1000, 33.380_820_069_533_41, None),
    ("p(99) < 100ms", 1500, 21.714_724_095_162_59, None),
    ("avg < 100ms", 500, 100.0, None),
    ("avg < 100ms", 1000, 100.0, Some(0.5)),
    ("avg < 100ms", 2000, 100.0, Some(1.0)),
];

/// Prints how often each verdict came, of this many runs each; false when one came more often than stated.
pub(crate) fn prove(folder: &Path, runs: u64) -> bool {
    let mut random = fastrand::Rng::with_seed(20_260_101);
    // 5 %, and three standard deviations of chance.
    let wrong_max = runs as f64 * 0.05 + 3.0 * (runs as f64 * 0.05 * 0.95).sqrt();
    let mut good = true;
    for (text, iterations, at_limit_ms, log_deviation) in CASES {
        for (factor, what) in [(0.6, "well below"), (1.0, "exactly at"), (1.6, "well above")] {
            let (mut pass, mut fail) = (0_u64, 0_u64);
            for _ in 0..runs {
                match verdict(folder, text, iterations, (at_limit_ms * factor, log_deviation), &mut random) {
                    Outcome::Pass => pass += 1,
                    Outcome::Fail => fail += 1,
                    Outcome::Inconclusive => {}
                    other => panic!("{text}: {other:?}"),
                }
            }
            let rest = runs - pass - fail;
            let times = log_deviation.map_or("exponential".to_owned(), |sd| format!("lognormal {sd}"));
            println!(
                "{text:<14} {times:<13} {what} the limit: {pass} PASS, {fail} FAIL, {rest} INCONCLUSIVE of {runs}"
            );
            good &= match what {
                "well below" => fail == 0 && pass * 10 >= runs * 9,
                "well above" => pass == 0 && fail * 10 >= runs * 9,
                _ => pass as f64 <= wrong_max && fail as f64 <= wrong_max,
            };
        }
    }
    good
}

/// A time with this mean, and with this standard deviation of its logarithm if it is lognormal.
fn draw_ms((mean_ms, log_deviation): (f64, Option<f64>), random: &mut fastrand::Rng) -> f64 {
    let exponential = -(1.0 - random.f64()).ln();
    let Some(sd) = log_deviation else { return mean_ms * exponential };
    let normal = (2.0 * exponential).sqrt() * (std::f64::consts::TAU * random.f64()).cos();
    mean_ms * (sd * normal - sd * sd / 2.0).exp()
}

/// What one run of such times is judged as.
fn verdict(
    folder: &Path,
    text: &str,
    iterations: u64,
    times: (f64, Option<f64>),
    random: &mut fastrand::Rng,
) -> Outcome {
    let path = folder.join("run.log");
    let threshold = Threshold {
        condition: parse(text).unwrap(),
        window_ns: None,
        min_samples: None,
        abort_after_ns: None,
        warn: false,
    };
    let sla = Sla { thresholds: vec![threshold], ..Sla::default() };
    let nil = uuid::Uuid::nil();
    let mut header: Header = serde_json::from_value(json!({
        "run_id": nil, "id_seed": nil, "started_unix_ns": 0,
        "scenario": { "title": "t", "file": "f", "sha256": "", "set": {} },
        "deployment": { "name": "d", "file": "f", "targets": {}, "tls_verified": true, "auth": "none" },
        "profiling_off": "off", "collector": null,
        "environment": { "bench_version": "0", "os": "", "cpus": 1, "workers": 1 },
        "notes": [],
        "workloads": [{ "name": "w", "runner": {}, "sla": {}, "actions": [] }],
    }))
    .unwrap();
    header.workloads[0].sla = sla;
    let mut rows = Rows::default();
    for number in 0..iterations {
        let duration_ns = (draw_ms(times, random) * 1e6) as u64;
        let start_ns = number * 1_000_000_000;
        rows.push(&IterationSample {
            number,
            due_ns: start_ns,
            start_ns,
            duration_ns,
            ended: CompletionStatus::Ok,
            ..IterationSample::default()
        });
    }
    let _ = std::fs::remove_file(&path);
    let mut log = LogWriter::create(&path).unwrap();
    log.header(&header).unwrap();
    log.samples(&rows).unwrap();
    log.end(&End::default()).unwrap();
    drop(log);
    let aggregate = Aggregate::read(&path).unwrap();
    let evidence = Evidence { aggregate: &aggregate, workloads: &[], sampled: &[], asynchronous: &[] };
    judge(&evidence).outcome
}
