//! Prometheus remote write, version 1.0: protobuf messages in Snappy's block format, with exemplars.
//!
//! Series, buckets and exemplars are those of OpenMetrics. A scraper would add the labels `job` and `instance`; here they
//! are `bench` and the id of the run, as Prometheus makes them of OTLP. So one dashboard shows what was scraped and what
//! was pushed, and runs at the same time keep apart.

use std::collections::BTreeMap;

use prost::Message;

use super::{Metric, MetricKind, RunFacts, Value, bound_text, instance, metrics, seconds};
use measure::meter::{Buckets, Exemplar as Sampled, Meter};

/// The content type of what [`encode`] gives.
pub const CONTENT_TYPE: &str = "application/x-protobuf";
/// Its content encoding.
pub const CONTENT_ENCODING: &str = "snappy";
/// The header that says which version of the protocol it is, and its value.
pub const VERSION: (&str, &str) = ("x-prometheus-remote-write-version", "0.1.0");

const NAME: &str = "__name__";
/// The value that says that a series has ended: a NaN of its own, told from others by its bits.
const STALE: u64 = 0x7ff0_0000_0000_0002;
/// How long after its last value a series ends: what a scraper would need to notice. Any sooner, nobody could ask for the
/// last figures, and no graph would have them.
const ENDS_AFTER_MS: i64 = 5_000;

/// `WriteRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct WriteRequest {
    /// The series, each once.
    #[prost(message, repeated, tag = "1")]
    pub timeseries: Vec<TimeSeries>,
    /// What the series are.
    #[prost(message, repeated, tag = "3")]
    pub metadata: Vec<FamilyMetadata>,
}

/// `TimeSeries`.
#[derive(Clone, PartialEq, Message)]
pub struct TimeSeries {
    /// Sorted by name.
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<SeriesLabel>,
    /// The oldest first.
    #[prost(message, repeated, tag = "2")]
    pub samples: Vec<SeriesSample>,
    /// At most one.
    #[prost(message, repeated, tag = "3")]
    pub exemplars: Vec<SeriesExemplar>,
}

/// `Label`.
#[derive(Clone, PartialEq, Message)]
pub struct SeriesLabel {
    #[prost(string, tag = "1")]
    pub name: String,
    /// Never empty: that would be no label.
    #[prost(string, tag = "2")]
    pub value: String,
}

/// `Sample`.
#[derive(Clone, Copy, PartialEq, Message)]
pub struct SeriesSample {
    #[prost(double, tag = "1")]
    pub value: f64,
    /// In milliseconds of Unix time.
    #[prost(int64, tag = "2")]
    pub timestamp: i64,
}

/// `Exemplar`.
#[derive(Clone, PartialEq, Message)]
pub struct SeriesExemplar {
    /// The trace id in both its forms.
    #[prost(message, repeated, tag = "1")]
    pub labels: Vec<SeriesLabel>,
    /// What the iteration took, in seconds.
    #[prost(double, tag = "2")]
    pub value: f64,
    /// When it ended, in milliseconds of Unix time.
    #[prost(int64, tag = "3")]
    pub timestamp: i64,
}

/// `MetricMetadata`.
#[derive(Clone, PartialEq, Message)]
pub struct FamilyMetadata {
    /// 1 for a counter, 2 for a gauge, 3 for a histogram.
    #[prost(int32, tag = "1")]
    pub kind: i32,
    /// The metric's name.
    #[prost(string, tag = "2")]
    pub family: String,
    /// What it says.
    #[prost(string, tag = "4")]
    pub help: String,
    /// Its unit; empty for numbers of things.
    #[prost(string, tag = "5")]
    pub unit: String,
}

/// A load so far, as read at `now_unix_ns`, compressed. The last time, each series also gets the mark that it ends, five
/// seconds later.
#[must_use]
pub fn encode(meter: &Meter, facts: &RunFacts, now_unix_ns: u64, last: bool) -> Vec<u8> {
    let plain = request(meter, facts, now_unix_ns, last).encode_to_vec();
    // It fails only for more than 4 GiB, which no meter has. The receiver would say that nothing is no request.
    snap::raw::Encoder::new().compress_vec(&plain).unwrap_or_default()
}

fn request(meter: &Meter, facts: &RunFacts, now_unix_ns: u64, last: bool) -> WriteRequest {
    let mut series = SeriesList { facts, now_ms: milliseconds(now_unix_ns), last, all: Vec::new() };
    let run_id = facts.run_id.to_string();
    series.add("bench_build_info", &[("version", facts.bench_version)], 1.0, None);
    let run = [("run_id", run_id.as_str()), ("scenario", &facts.scenario), ("deployment", &facts.deployment)];
    series.add("bench_run_info", &run, 1.0, None);
    let metrics = metrics(meter);
    for metric in &metrics {
        series.add_metric(metric);
    }
    WriteRequest { timeseries: series.all, metadata: metrics.iter().map(metadata).collect() }
}

fn metadata(metric: &Metric<'_>) -> FamilyMetadata {
    let (kind, suffix) = match metric.kind {
        MetricKind::Counter => (1, "_total"),
        MetricKind::Gauge => (2, ""),
        MetricKind::Histogram => (3, ""),
    };
    let unit = if metric.name.ends_with("_seconds") { "seconds" } else { "" };
    FamilyMetadata {
        kind,
        family: format!("{}{suffix}", metric.name),
        help: metric.help.to_owned(),
        unit: unit.to_owned(),
    }
}

/// The series of a request while it is made.
struct SeriesList<'a> {
    facts: &'a RunFacts,
    now_ms: i64,
    last: bool,
    all: Vec<TimeSeries>,
}

impl SeriesList<'_> {
    fn add_metric(&mut self, metric: &Metric<'_>) {
        let suffix = if metric.kind == MetricKind::Counter { "_total" } else { "" };
        for point in &metric.points {
            let labels: Vec<_> = point.labels.iter().map(|(name, value)| (*name, value.as_ref())).collect();
            match &point.value {
                Value::Number(number) => {
                    self.add(&format!("{}{suffix}", metric.name), &labels, *number as f64, None);
                }
                Value::Fraction(value) => {
                    self.add(&format!("{}{suffix}", metric.name), &labels, *value, None)
                }
                Value::Buckets(buckets) => self.add_histogram(metric.name, &labels, buckets),
            }
        }
    }

    fn add_histogram(&mut self, name: &str, labels: &[(&str, &str)], buckets: &Buckets) {
        let bucket = format!("{name}_bucket");
        let mut below = 0;
        for (index, count) in buckets.counts.iter().enumerate() {
            below += count;
            let bound = bound_text(index);
            let labels = [labels, &[("le", bound.as_str())]].concat();
            self.add(&bucket, &labels, below as f64, buckets.exemplars[index].as_ref());
        }
        self.add(&format!("{name}_sum"), labels, seconds(buckets.sum_ns), None);
        self.add(&format!("{name}_count"), labels, below as f64, None);
    }

    fn add(&mut self, name: &str, own: &[(&str, &str)], value: f64, exemplar: Option<&Sampled>) {
        let (instance, shard) = (instance(self.facts), self.facts.shard.map(|shard| shard.to_string()));
        let mut labels = BTreeMap::from([(NAME, name), ("job", "bench"), ("instance", &instance)]);
        labels.extend(shard.as_ref().map(|shard| ("shard", shard.as_str())));
        labels.extend(own.iter().copied());
        let labels = labels.into_iter().filter(|(_, value)| !value.is_empty()).map(label).collect();
        let mut samples = vec![SeriesSample { value, timestamp: self.now_ms }];
        if self.last {
            samples
                .push(SeriesSample { value: f64::from_bits(STALE), timestamp: self.now_ms + ENDS_AFTER_MS });
        }
        let exemplars = exemplar.map(|sampled| self.exemplar(sampled)).into_iter().collect();
        self.all.push(TimeSeries { labels, samples, exemplars });
    }

    fn exemplar(&self, sampled: &Sampled) -> SeriesExemplar {
        let id = self.facts.ids.trace_id(sampled.sample);
        let (own, w3c) = (id.to_string(), id.simple().to_string());
        SeriesExemplar {
            labels: [("trace_id", own.as_str()), ("w3c_trace_id", &w3c)].map(label).into(),
            value: seconds(u128::from(sampled.value_ns)),
            timestamp: milliseconds(self.facts.started_unix_ns.saturating_add(sampled.at_ns)),
        }
    }
}

fn label((name, value): (&str, &str)) -> SeriesLabel {
    SeriesLabel { name: name.to_owned(), value: value.to_owned() }
}

fn milliseconds(nanos: u64) -> i64 {
    i64::try_from(nanos / 1_000_000).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::super::openmetrics;
    use super::super::tests::{facts, meter};
    use super::*;

    const NOW_NS: u64 = 1_700_000_099_000_000_000;

    fn read(last: bool, facts: &RunFacts) -> WriteRequest {
        let bytes = encode(&meter(), facts, NOW_NS, last);
        let plain = snap::raw::Decoder::new().decompress_vec(&bytes).unwrap();
        WriteRequest::decode(plain.as_slice()).unwrap()
    }

    fn value<'a>(series: &'a TimeSeries, name: &str) -> &'a str {
        series.labels.iter().find(|label| label.name == name).map_or("", |label| label.value.as_str())
    }

    /// The receiver refuses a request with labels out of order, or given twice, or empty.
    #[test]
    fn labels_are_sorted_and_series_come_once() {
        for facts in [facts(), RunFacts { shard: Some(2), deployment: String::new(), ..facts() }] {
            let request = read(false, &facts);
            let mut seen = BTreeSet::new();
            assert!(request.timeseries.len() > 100);
            for series in &request.timeseries {
                let names: Vec<_> = series.labels.iter().map(|label| label.name.as_str()).collect();
                assert!(names.is_sorted_by(|a, b| a < b), "{names:?}");
                assert!(series.labels.iter().all(|label| !label.value.is_empty()), "{series:?}");
                let text = format!("{:?}", series.labels);
                assert!(seen.insert(text.clone()), "{text} comes twice");
                assert_eq!(value(series, "shard"), facts.shard.map_or("", |_| "2"));
                let shard = if facts.shard.is_some() { "-shard-2" } else { "" };
                assert_eq!(value(series, "instance"), format!("{}{shard}", facts.run_id));
            }
        }
    }

    /// The same series with the same values as a scrape has: a dashboard works for both.
    #[test]
    fn what_is_pushed_is_what_is_scraped() {
        let scraped = openmetrics::render(&meter(), &facts());
        let scraped: BTreeSet<String> = scraped
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split(" # ").next().unwrap().to_owned())
            .collect();
        let escaped = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        let pushed: BTreeSet<String> = read(false, &facts())
            .timeseries
            .iter()
            .map(|series| {
                // Each line of the text has its own order of labels.
                let line = |order: &[&str]| {
                    let labels = order.iter().filter(|name| !value(series, name).is_empty());
                    let labels = labels.map(|name| format!("{name}=\"{}\"", escaped(value(series, name))));
                    let labels = labels.collect::<Vec<_>>().join(",");
                    format!("{}{{{labels}}} {}", value(series, NAME), series.samples[0].value)
                };
                line(&[
                    "version",
                    "run_id",
                    "scenario",
                    "deployment",
                    "workload",
                    "action",
                    "outcome",
                    "class",
                    "le",
                ])
            })
            .collect();
        assert_eq!(pushed, scraped);
    }

    #[test]
    fn the_slowest_bucket_has_the_trace_id_of_its_iteration() {
        let request = read(false, &facts());
        let slowest = request.timeseries.iter().find(|series| {
            value(series, NAME) == "bench_response_time_seconds_bucket" && value(series, "le") == "+Inf"
        });
        let id = facts().ids.trace_id((0, 2));
        let expected = SeriesExemplar {
            labels: vec![
                label(("trace_id", &id.to_string())),
                label(("w3c_trace_id", &id.simple().to_string())),
            ],
            value: 90.000_04,
            timestamp: 1_700_000_090_000,
        };
        assert_eq!(slowest.unwrap().exemplars, [expected]);
        // Prometheus' limit on the text of an exemplar's labels.
        for exemplar in request.timeseries.iter().flat_map(|series| &series.exemplars) {
            let length: usize =
                exemplar.labels.iter().map(|label| label.name.len() + label.value.len()).sum();
            assert!(length <= 128, "{exemplar:?}");
        }
    }

    #[test]
    fn only_the_last_request_ends_the_series() {
        for last in [false, true] {
            for series in read(last, &facts()).timeseries {
                let own = series.samples[0];
                assert!(own.value.is_finite() && own.timestamp == 1_700_000_099_000, "{own:?}");
                let after: Vec<_> = series.samples[1..]
                    .iter()
                    .map(|sample| (sample.value.to_bits(), sample.timestamp))
                    .collect();
                let expected = if last { vec![(STALE, own.timestamp + 5_000)] } else { Vec::new() };
                assert_eq!(after, expected);
            }
        }
    }

    #[test]
    fn every_metric_says_what_it_is() {
        let request = read(false, &facts());
        let find = |family: &str| {
            let found = request.metadata.iter().find(|one| one.family == family);
            found.map(|one| (one.kind, one.unit.as_str(), one.help.is_empty()))
        };
        assert_eq!(find("bench_iterations_total"), Some((1, "", false)));
        assert_eq!(find("bench_iterations_in_flight"), Some((2, "", false)));
        assert_eq!(find("bench_response_time_seconds"), Some((3, "seconds", false)));
    }
}
