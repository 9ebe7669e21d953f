//! OTLP metrics, version 1: protobuf messages, only the fields that are used here.
//!
//! Sums and histograms are cumulative. An exemplar carries the iteration's id as trace id and the id
//! of its root point as span id, as OSProfiler's own OTLP driver maps them.

use prost::Message;

use super::{Metric, MetricKind, RunFacts, Value, instance, metrics, seconds};
use base::ids::span_id;
use measure::meter::{BOUNDS_NS, Buckets, Exemplar as Sampled, Meter};
use osprofiler::spans::otlp::{KeyValue, OtlpResource, OtlpScope};

/// The content type of what [`encode`] gives.
pub const CONTENT_TYPE: &str = "application/x-protobuf";

const CUMULATIVE: i32 = 2;

/// `ExportMetricsServiceRequest`.
#[derive(Clone, PartialEq, Message)]
pub struct ExportMetricsRequest {
    /// By resource.
    #[prost(message, repeated, tag = "1")]
    pub resource_metrics: Vec<ResourceMetrics>,
}

/// `ResourceMetrics`.
#[derive(Clone, PartialEq, Message)]
pub struct ResourceMetrics {
    /// Who reports.
    #[prost(message, optional, tag = "1")]
    pub resource: Option<OtlpResource>,
    /// By scope.
    #[prost(message, repeated, tag = "2")]
    pub scope_metrics: Vec<ScopeMetrics>,
}

/// `ScopeMetrics`.
#[derive(Clone, PartialEq, Message)]
pub struct ScopeMetrics {
    /// What measured.
    #[prost(message, optional, tag = "1")]
    pub scope: Option<OtlpScope>,
    #[prost(message, repeated, tag = "2")]
    pub metrics: Vec<OtlpMetric>,
}

#[derive(Clone, PartialEq, Message)]
pub struct OtlpMetric {
    #[prost(string, tag = "1")]
    pub name: String,
    /// What it says.
    #[prost(string, tag = "2")]
    pub description: String,
    /// UCUM.
    #[prost(string, tag = "3")]
    pub unit: String,
    /// Its points.
    #[prost(oneof = "OtlpMetricData", tags = "5, 7, 9")]
    pub data: Option<OtlpMetricData>,
}

/// A metric's points.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum OtlpMetricData {
    /// Goes up and down.
    #[prost(message, tag = "5")]
    Gauge(Gauge),
    /// Only goes up.
    #[prost(message, tag = "7")]
    Sum(Sum),
    /// Buckets.
    #[prost(message, tag = "9")]
    Histogram(Histogram),
}

#[derive(Clone, PartialEq, Message)]
pub struct Gauge {
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<NumberPoint>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Sum {
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<NumberPoint>,
    /// 2 for cumulative.
    #[prost(int32, tag = "2")]
    pub aggregation_temporality: i32,
    /// True for a counter.
    #[prost(bool, tag = "3")]
    pub is_monotonic: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Histogram {
    #[prost(message, repeated, tag = "1")]
    pub data_points: Vec<HistogramPoint>,
    /// 2 for cumulative.
    #[prost(int32, tag = "2")]
    pub aggregation_temporality: i32,
}

/// `NumberDataPoint`.
#[derive(Clone, PartialEq, Message)]
pub struct NumberPoint {
    /// Since when it counts.
    #[prost(fixed64, tag = "2")]
    pub start_time_unix_nano: u64,
    /// When it was read.
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    /// Its value, if that is no integer.
    #[prost(double, optional, tag = "4")]
    pub as_double: Option<f64>,
    /// Its value.
    #[prost(sfixed64, optional, tag = "6")]
    pub as_int: Option<i64>,
    /// Its labels.
    #[prost(message, repeated, tag = "7")]
    pub attributes: Vec<KeyValue>,
}

/// `HistogramDataPoint`.
#[derive(Clone, PartialEq, Message)]
pub struct HistogramPoint {
    /// Since when it counts.
    #[prost(fixed64, tag = "2")]
    pub start_time_unix_nano: u64,
    /// When it was read.
    #[prost(fixed64, tag = "3")]
    pub time_unix_nano: u64,
    /// Samples.
    #[prost(fixed64, tag = "4")]
    pub count: u64,
    #[prost(double, optional, tag = "5")]
    pub sum: Option<f64>,
    /// Samples of each bucket.
    #[prost(fixed64, repeated, tag = "6")]
    pub bucket_counts: Vec<u64>,
    /// Upper bounds, inclusive.
    #[prost(double, repeated, tag = "7")]
    pub explicit_bounds: Vec<f64>,
    /// One for each occupied bucket.
    #[prost(message, repeated, tag = "8")]
    pub exemplars: Vec<Exemplar>,
    /// Its labels.
    #[prost(message, repeated, tag = "9")]
    pub attributes: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Exemplar {
    /// When it was measured.
    #[prost(fixed64, tag = "2")]
    pub time_unix_nano: u64,
    /// Its value.
    #[prost(double, optional, tag = "3")]
    pub as_double: Option<f64>,
    /// Eight bytes.
    #[prost(bytes = "vec", tag = "4")]
    pub span_id: Vec<u8>,
    /// Sixteen bytes.
    #[prost(bytes = "vec", tag = "5")]
    pub trace_id: Vec<u8>,
}

/// A load so far, as read at `now_unix_ns`.
#[must_use]
pub fn encode(meter: &Meter, facts: &RunFacts, now_unix_ns: u64) -> Vec<u8> {
    request(meter, facts, now_unix_ns).encode_to_vec()
}

fn request(meter: &Meter, facts: &RunFacts, now_unix_ns: u64) -> ExportMetricsRequest {
    let resource = OtlpResource {
        attributes: vec![
            KeyValue::text("service.name", "bench"),
            KeyValue::text("service.version", facts.bench_version),
            KeyValue::text("service.instance.id", &instance(facts)),
            KeyValue::text("bench.scenario", &facts.scenario),
            KeyValue::text("bench.deployment", &facts.deployment),
        ],
    };
    let metrics = metrics(meter).iter().map(|one| metric(one, facts, now_unix_ns)).collect();
    let scope = OtlpScope { name: "bench".to_owned(), version: facts.bench_version.to_owned() };
    let scope_metrics = vec![ScopeMetrics { scope: Some(scope), metrics }];
    ExportMetricsRequest {
        resource_metrics: vec![ResourceMetrics { resource: Some(resource), scope_metrics }],
    }
}

fn metric(metric: &Metric<'_>, facts: &RunFacts, now_unix_ns: u64) -> OtlpMetric {
    let (mut numbers, mut histograms) = (Vec::new(), Vec::new());
    for point in &metric.points {
        let attributes = point.labels.iter().map(|(name, value)| KeyValue::text(name, value)).collect();
        let mut add = |as_int, as_double, attributes| {
            let (start_time_unix_nano, time_unix_nano) = (facts.started_unix_ns, now_unix_ns);
            numbers.push(NumberPoint { start_time_unix_nano, time_unix_nano, as_double, as_int, attributes });
        };
        match &point.value {
            Value::Number(number) => add(Some(i64::try_from(*number).unwrap_or(i64::MAX)), None, attributes),
            Value::Fraction(value) => add(None, Some(*value), attributes),
            Value::Buckets(buckets) => {
                histograms.push(histogram(buckets, attributes, facts, now_unix_ns));
            }
        }
    }
    let data = match metric.kind {
        MetricKind::Counter => OtlpMetricData::Sum(Sum {
            data_points: numbers,
            aggregation_temporality: CUMULATIVE,
            is_monotonic: true,
        }),
        MetricKind::Gauge => OtlpMetricData::Gauge(Gauge { data_points: numbers }),
        MetricKind::Histogram => OtlpMetricData::Histogram(Histogram {
            data_points: histograms,
            aggregation_temporality: CUMULATIVE,
        }),
    };
    OtlpMetric {
        // Receivers add the unit and `_total` themselves.
        name: metric.name.trim_end_matches("_seconds").to_owned(),
        description: metric.help.to_owned(),
        unit: if metric.kind == MetricKind::Histogram { "s" } else { "{iteration}" }.to_owned(),
        data: Some(data),
    }
}

fn histogram(
    buckets: &Buckets,
    attributes: Vec<KeyValue>,
    facts: &RunFacts,
    now_unix_ns: u64,
) -> HistogramPoint {
    HistogramPoint {
        start_time_unix_nano: facts.started_unix_ns,
        time_unix_nano: now_unix_ns,
        count: buckets.count(),
        sum: Some(seconds(buckets.sum_ns)),
        bucket_counts: buckets.counts.to_vec(),
        explicit_bounds: BOUNDS_NS.iter().map(|bound| seconds(u128::from(*bound))).collect(),
        exemplars: buckets.exemplars.iter().flatten().map(|sampled| exemplar(sampled, facts)).collect(),
        attributes,
    }
}

fn exemplar(sampled: &Sampled, facts: &RunFacts) -> Exemplar {
    let id = facts.ids.trace_id(sampled.sample);
    Exemplar {
        time_unix_nano: facts.started_unix_ns.saturating_add(sampled.at_ns),
        as_double: Some(seconds(u128::from(sampled.value_ns))),
        span_id: span_id(id).to_be_bytes().to_vec(),
        trace_id: id.into_bytes().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{facts, meter};
    use super::*;

    #[test]
    fn a_load_survives_encoding_and_its_exemplars_carry_trace_ids() {
        let bytes = encode(&meter(), &facts(), 1_700_000_099_000_000_000);
        let read = ExportMetricsRequest::decode(bytes.as_slice()).unwrap();
        let metrics = &read.resource_metrics[0].scope_metrics[0].metrics;
        let named = |name: &str| metrics.iter().find(|metric| metric.name == name).unwrap().data.clone();
        let Some(OtlpMetricData::Sum(sum)) = named("bench_iterations") else { panic!("no sum") };
        assert_eq!(sum.data_points.iter().filter_map(|point| point.as_int).collect::<Vec<_>>(), [2, 1, 0, 0]);
        assert!(sum.is_monotonic && sum.aggregation_temporality == CUMULATIVE);
        let Some(OtlpMetricData::Histogram(histogram)) = named("bench_response_time") else {
            panic!("no histogram")
        };
        let point = &histogram.data_points[0];
        assert_eq!((point.count, point.bucket_counts.len()), (3, point.explicit_bounds.len() + 1));
        let slowest = point.exemplars.last().unwrap();
        assert_eq!(slowest.trace_id, facts().ids.trace_id((0, 2)).as_bytes());
        assert_eq!(slowest.span_id, slowest.trace_id[8..]);
        assert_eq!(slowest.time_unix_nano, 1_700_000_090_000_040_000);
    }
}
