//! A load under way, for programs that watch it: OpenMetrics to be scraped, other formats to be pushed.
//!
//! All formats are made from the same [`Meter`]. Where the format has exemplars, every bucket has one: the trace id of an
//! iteration that fell into it. Names follow Prometheus: base units, `_total` for counters. Nothing here sends anything.

pub mod influx;
pub mod openmetrics;
pub mod otlp;
pub mod remote_write;
pub mod statsd;
pub mod summary;

use std::borrow::Cow;

use uuid::Uuid;

use measure::ids::RunIds;
use measure::meter::{BOUNDS_NS, Buckets, Meter, StreamMeter, WorkloadMeter};

/// The names of a run, and what its ids and times are made from.
#[derive(Clone, Debug)]
pub struct RunFacts {
    /// The version of `bench`.
    pub bench_version: &'static str,
    /// A random id of the run.
    pub run_id: Uuid,
    /// The scenario's title.
    pub scenario: String,
    /// The deployment's name.
    pub deployment: String,
    /// Which shard of the load this process makes; `None` if it makes all.
    pub shard: Option<u32>,
    /// The trace ids.
    pub ids: RunIds,
    /// The zero of every offset, on the wall clock.
    pub started_unix_ns: u64,
}

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MetricKind {
    Counter,
    Gauge,
    /// Of seconds.
    Histogram,
}

/// A value with its labels.
struct LabelledValue<'a> {
    labels: Vec<(&'static str, Cow<'a, str>)>,
    value: Value<'a>,
}

enum Value<'a> {
    Number(u64),
    Fraction(f64),
    Buckets(&'a Buckets),
}

/// A metric, for all formats.
struct Metric<'a> {
    /// Without `_total`, with its unit.
    name: &'static str,
    help: &'static str,
    kind: MetricKind,
    points: Vec<LabelledValue<'a>>,
}

/// The words of `results.json`, in the order of the meter's counts.
const OUTCOMES: [&str; 4] = ["ok", "failed", "aborted", "dropped"];

/// All metrics of a load.
fn metrics(meter: &Meter) -> Vec<Metric<'_>> {
    let mut metrics = counts(meter);
    for (name, help, buckets) in [
        (
            "bench_response_time_seconds",
            "From when an iteration was due to its end, of those that ended; bench_iterations has those that never started.",
            (|workload| &workload.response) as fn(&WorkloadMeter) -> &Buckets,
        ),
        ("bench_service_time_seconds", "From an iteration's start to its end.", |workload| &workload.service),
        ("bench_start_lag_seconds", "From when an iteration was due to its start.", |workload| {
            &workload.queue_time
        }),
    ] {
        let point =
            |workload| LabelledValue { labels: labels(workload), value: Value::Buckets(buckets(workload)) };
        let points = meter.workloads.iter().map(point).collect();
        metrics.push(Metric { name, help, kind: MetricKind::Histogram, points });
    }
    let actions = meter.workloads.iter().flat_map(|workload| {
        workload.actions.iter().map(|(action, buckets)| {
            let mut labels = labels(workload);
            labels.push(("action", Cow::from(action)));
            LabelledValue { labels, value: Value::Buckets(buckets) }
        })
    });
    metrics.push(Metric {
        name: "bench_action_time_seconds",
        help: "From sending an action's request to the last byte of its answer.",
        kind: MetricKind::Histogram,
        points: actions.collect(),
    });
    metrics.extend(of_streams(meter));
    metrics.extend(of_numbers(meter));
    metrics
}

/// The metrics of numbers that actions take from their answers; none without any.
fn of_numbers(meter: &Meter) -> Vec<Metric<'_>> {
    let (mut counts, mut figures) = (Vec::new(), Vec::new());
    for workload in &meter.workloads {
        for (name, numbers) in &workload.numbers {
            let labels = || {
                let mut labels = labels(workload);
                labels.push(("measure", Cow::from(name)));
                labels
            };
            counts.push(LabelledValue { labels: labels(), value: Value::Number(numbers.count()) });
            let at = |percentile| numbers.percentile(percentile).map(|(value, _)| value);
            let largest = numbers.max().map(|(value, _)| value);
            for (statistic, value) in [
                ("mean", numbers.mean()),
                ("p50", at(50.0)),
                ("p95", at(95.0)),
                ("p99", at(99.0)),
                ("max", largest),
            ] {
                let Some(value) = value else { continue };
                let mut labels = labels();
                labels.push(("statistic", Cow::from(statistic)));
                figures.push(LabelledValue { labels, value: Value::Fraction(value) });
            }
        }
    }
    let metrics = [
        Metric {
            name: "bench_measured_numbers",
            help: "Numbers that `measure` took from answers.",
            kind: MetricKind::Counter,
            points: counts,
        },
        Metric {
            name: "bench_measured_number",
            help: "A statistic of the numbers that `measure` took from answers, so far.",
            kind: MetricKind::Gauge,
            points: figures,
        },
    ];
    metrics.into_iter().filter(|metric| !metric.points.is_empty()).collect()
}

/// The metrics of answers that came as streams; none without any.
fn of_streams(meter: &Meter) -> Vec<Metric<'_>> {
    let each = |value: fn(&StreamMeter) -> Value<'_>| -> Vec<LabelledValue<'_>> {
        let points = meter.workloads.iter().flat_map(|workload| {
            workload.streams.iter().filter_map(move |(number, stream)| {
                let (action, _) = workload.actions.get(usize::from(*number))?;
                let mut labels = labels(workload);
                labels.push(("action", Cow::from(action)));
                Some(LabelledValue { labels, value: value(stream) })
            })
        });
        points.collect()
    };
    let metrics = [
        Metric {
            name: "bench_first_message_seconds",
            help: "From sending an action's request to the first message of the stream that answered it.",
            kind: MetricKind::Histogram,
            points: each(|stream| Value::Buckets(&stream.first)),
        },
        Metric {
            name: "bench_messages",
            help: "Messages of streams that answered requests.",
            kind: MetricKind::Counter,
            points: each(|stream| Value::Number(stream.messages)),
        },
    ];
    metrics.into_iter().filter(|metric| !metric.points.is_empty()).collect()
}

fn counts(meter: &Meter) -> Vec<Metric<'_>> {
    let workloads = &meter.workloads;
    let number = |labels, value| LabelledValue { labels, value: Value::Number(value) };
    let outcomes = workloads.iter().flat_map(|workload| {
        OUTCOMES.iter().zip(workload.ended).map(move |(outcome, count)| {
            let mut labels = labels(workload);
            labels.push(("outcome", Cow::from(*outcome)));
            number(labels, count)
        })
    });
    let errors = workloads.iter().flat_map(|workload| {
        workload.errors.iter().map(move |(class, count)| {
            let mut labels = labels(workload);
            labels.push(("class", Cow::from(*class)));
            number(labels, *count)
        })
    });
    let each = |value: fn(&WorkloadMeter) -> u64| {
        workloads.iter().map(|workload| number(labels(workload), value(workload))).collect()
    };
    vec![
        Metric {
            name: "bench_iterations",
            help: "Iterations by outcome, without the warm-up.",
            kind: MetricKind::Counter,
            points: outcomes.collect(),
        },
        Metric {
            name: "bench_warm_up_iterations",
            help: "Iterations of the warm-up.",
            kind: MetricKind::Counter,
            points: each(|workload| workload.warm_up),
        },
        Metric {
            name: "bench_unrecorded_iterations",
            help: "Iterations that were not recorded because the disk was too slow.",
            kind: MetricKind::Counter,
            points: each(|workload| workload.unrecorded),
        },
        Metric {
            name: "bench_errors",
            help: "Iterations that failed, by the class of the fault.",
            kind: MetricKind::Counter,
            points: errors.collect(),
        },
        Metric {
            name: "bench_resent_iterations",
            help: "Iterations that sent a request once more, because its connection had ended before an answer.",
            kind: MetricKind::Counter,
            points: each(|workload| workload.resent),
        },
        Metric {
            name: "bench_iterations_in_flight",
            help: "Iterations under way.",
            kind: MetricKind::Gauge,
            points: each(WorkloadMeter::in_flight_everywhere),
        },
    ]
}

fn labels(workload: &WorkloadMeter) -> Vec<(&'static str, Cow<'_, str>)> {
    vec![("workload", Cow::from(&workload.name))]
}

/// What tells this process from the others of the run.
fn instance(facts: &RunFacts) -> String {
    let run_id = facts.run_id;
    facts.shard.map_or_else(|| run_id.to_string(), |shard| format!("{run_id}-shard-{shard}"))
}

/// The upper bound of a bucket in seconds, as the label `le` has it.
fn bound_text(bucket: usize) -> String {
    let bound = BOUNDS_NS.get(bucket);
    bound.map_or_else(|| "+Inf".to_owned(), |bound| seconds(u128::from(*bound)).to_string())
}

fn seconds(nanos: u128) -> f64 {
    nanos as f64 / 1e9
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use measure::errors::{Failure, FailureClass, NumberedFailure};
    use measure::numbers::MeasuredNumber;
    use measure::recorder::{Batch, Live};
    use measure::rows::Rows;
    use measure::sample::{ActionSample, CompletionStatus, IterationSample};
    use measure::streams::StreamSample;

    pub(in crate::metrics) fn facts() -> RunFacts {
        RunFacts {
            bench_version: "1.2.3",
            run_id: Uuid::from_u128(5),
            scenario: "a \"title\"\\\n".to_owned(),
            deployment: "d".to_owned(),
            shard: None,
            ids: RunIds::new(Uuid::from_u128(7), terms::control::ControlShare::NONE),
            started_unix_ns: 1_700_000_000_000_000_000,
        }
    }

    /// Two iterations without fault, of 3 and 4 ms, one that failed, one of the warm-up.
    pub(in crate::metrics) fn meter() -> Meter {
        let mut meter = Meter::new([("w \"1\"".to_owned(), vec!["log in".to_owned()])]);
        let mut samples = Rows::default();
        for (number, ms, ended, warm_up) in [
            (0, 3, CompletionStatus::Ok, false),
            (1, 4, CompletionStatus::Ok, false),
            (2, 90_000, CompletionStatus::Failed, false),
            (3, 1, CompletionStatus::Ok, true),
        ] {
            let duration_ns = ms * 1_000_000;
            let action = ActionSample { duration_ns, ended, ..ActionSample::default() };
            samples.push(&IterationSample {
                number,
                due_ns: 0,
                start_ns: 40_000,
                duration_ns,
                ended,
                warm_up,
                error: u32::from(ended == CompletionStatus::Failed),
                actions: vec![action],
                ..IterationSample::default()
            });
        }
        let failure =
            Failure { class: FailureClass::Status, action: None, message: String::new(), seen: None };
        let failures = vec![NumberedFailure { number: 1, failure }];
        meter.add(&Batch { workload: 0, failures, samples, users: Rows::default(), live: Live::new() });
        meter.workloads[0].in_flight = 6;
        meter
    }

    /// Every format has the statistics of numbers from answers, also of negative ones.
    #[test]
    fn numbers_from_answers_have_metrics_where_there_are_any() {
        let mut meter = meter().measuring([vec!["cart \"total\"".to_owned(), "never".to_owned()]]);
        let mut samples = Rows::default();
        for (number, value) in (4..).zip([Some(-7.5), Some(2.5), None]) {
            samples.push(&IterationSample {
                number,
                numbers: vec![MeasuredNumber::new(0, 1, value)],
                ..IterationSample::default()
            });
        }
        let (failures, users, live) = (Vec::new(), Rows::default(), Live::new());
        meter.add(&Batch { workload: 0, failures, samples, users, live });
        let told = metrics(&meter);
        let [.., counts, figures] = &told[..] else { panic!("too few metrics") };
        let numbers = counts.points.iter().map(|point| match point.value {
            Value::Number(number) => number,
            _ => panic!("no number"),
        });
        assert_eq!(numbers.collect::<Vec<_>>(), [2, 0]);
        let statistics = figures.points.iter().map(|point| match point.value {
            Value::Fraction(value) => (point.labels[2].1.as_ref(), value),
            _ => panic!("no fraction"),
        });
        let statistics: Vec<(&str, f64)> = statistics.collect();
        assert_eq!(statistics, [("mean", -2.5), ("p50", -7.5), ("p95", 2.5), ("p99", 2.5), ("max", 2.5)]);
        let scraped = openmetrics::render(&meter, &facts());
        let line = "bench_measured_number{workload=\"w \\\"1\\\"\",measure=\"cart \\\"total\\\"\",statistic=\"mean\"} -2.5";
        assert!(scraped.contains(line), "{scraped}");
        let lines = influx::encode(&meter, &facts(), 5, influx::LinePrecision::Nanoseconds);
        assert!(lines.contains("gauge=-2.5 "), "{lines}");
        let sent = statsd::StatsdEncoder::new(true).encode(&meter, &facts());
        let gauges: Vec<&str> = sent.lines().filter(|line| line.contains("statistic:mean")).collect();
        let values: Vec<&str> = gauges.iter().filter_map(|line| line.split(['|', ':']).nth(1)).collect();
        assert_eq!(values, ["0", "-2.5"], "{sent}");
    }

    #[test]
    fn streams_have_metrics_where_there_are_any() {
        let mut meter = meter();
        let names = |meter: &Meter| metrics(meter).iter().map(|metric| metric.name).collect::<Vec<_>>();
        assert!(!names(&meter).contains(&"bench_messages"));
        let mut samples = Rows::default();
        let streams = [(7, 30_000_000), (0, 0)].map(|(messages, first_ns)| StreamSample {
            messages,
            first_ns,
            ..StreamSample::default()
        });
        for (number, stream) in (4..).zip(streams) {
            samples.push(&IterationSample {
                number,
                actions: vec![ActionSample::default()],
                streams: vec![stream],
                ..IterationSample::default()
            });
        }
        meter.add(&Batch {
            workload: 0,
            failures: Vec::new(),
            samples,
            users: Rows::default(),
            live: Live::new(),
        });
        assert_eq!(
            names(&meter)[names(&meter).len() - 2..],
            ["bench_first_message_seconds", "bench_messages"]
        );
        let streams = &meter.workloads[0].streams[&0];
        assert_eq!((streams.messages, streams.first.count(), streams.first.sum_ns), (7, 1, 30_000_000));
        let last = metrics(&meter).pop().unwrap();
        let labels: Vec<_> = last.points[0].labels.iter().map(|(name, _)| *name).collect();
        assert_eq!(labels, ["workload", "action"]);
    }
}
