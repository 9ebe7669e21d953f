//! Distributions as results have them.

use base64::Engine as _;

use measure::ids::RunIds;
use measure::latency::Latency;
use statistics::order::rank;

use super::model::{Bucket, Distribution, Percentile, PercentileOfAll, PercentilesOfDue};

/// The percentiles in results.
pub const PERCENTILES: [f64; 12] =
    [10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99, 100.0];

const NS_PER_MS: f64 = 1e6;

/// The distribution of what completed, and the percentiles of everything that thresholds judge: of that, what `failed`, and
/// what has no time because it never started or was cut off.
pub(super) fn judged(latency: &Latency, failed: &Latency, without_time: u64, ids: &RunIds) -> Distribution {
    let is_all = failed.count() == 0 && without_time == 0;
    let of_all = || {
        let count = latency.count() + without_time;
        // Once for all percentiles: it goes through the whole histogram.
        let well = latency.without(failed);
        let value_ms =
            |percentile| rank(count, percentile).and_then(|rank| well.at_rank(rank)).map(milliseconds);
        let at = |&percentile| PercentileOfAll { percentile, value_ms: value_ms(percentile) };
        PercentilesOfDue { count, percentiles: PERCENTILES.iter().map(at).collect() }
    };
    Distribution { of_all: (!is_all).then(of_all), ..distribution(latency, ids) }
}

pub(super) fn distribution(latency: &Latency, ids: &RunIds) -> Distribution {
    if latency.count() == 0 {
        return Distribution::default();
    }
    Distribution {
        count: latency.count(),
        min_ms: milliseconds(latency.min_ns()),
        mean_ms: latency.mean_ns() / NS_PER_MS,
        stddev_ms: latency.stddev_ns() / NS_PER_MS,
        max_ms: milliseconds(latency.max_ns()),
        over_range: latency.over_range(),
        percentiles: PERCENTILES
            .iter()
            .map(|&percentile| Percentile {
                percentile,
                value_ms: milliseconds(latency.percentile_ns(percentile)),
            })
            .collect(),
        of_all: None,
        histogram: base64::engine::general_purpose::STANDARD.encode(latency.v2_deflate().unwrap_or_default()),
        buckets: latency
            .buckets()
            .map(|bucket| Bucket {
                from_ms: bucket.from_ns / NS_PER_MS,
                to_ms: bucket.to_ns / NS_PER_MS,
                count: bucket.count,
                trace_id: ids.trace_id(bucket.exemplar),
            })
            .collect(),
    }
}

pub(super) fn milliseconds(nanos: u64) -> f64 {
    nanos as f64 / NS_PER_MS
}
