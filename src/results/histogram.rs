//! The histogram of a distribution as results hold it, read back. Such a text may come from anywhere.

use std::io::Read as _;

use base64::Engine as _;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use super::model::Distribution;

/// A histogram's text is no longer than this.
const HISTOGRAM_CHARS_MAX: usize = 16 << 20;
/// Nor are its bytes.
const HISTOGRAM_BYTES_MAX: u64 = 64 << 20;

/// The histogram of a distribution, in nanoseconds.
///
/// # Errors
/// What is wrong with it.
pub fn histogram(distribution: &Distribution) -> Result<Histogram<u64>, String> {
    if distribution.count == 0 {
        return Histogram::new(3).map_err(|error| error.to_string());
    }
    if distribution.histogram.len() > HISTOGRAM_CHARS_MAX {
        return Err("its histogram is too long".to_owned());
    }
    let wrong = |error: &dyn std::fmt::Display| format!("its histogram cannot be read: {error}");
    let bytes = base64::engine::general_purpose::STANDARD
        .decode(&distribution.histogram)
        .map_err(|error| wrong(&error))?;
    // Cookie and length, then zlib: unpacked here, within bounds.
    let packed = bytes.get(8..).ok_or_else(|| wrong(&"it is cut short"))?;
    let mut plain = Vec::new();
    let unpacked = flate2::read::ZlibDecoder::new(packed).take(HISTOGRAM_BYTES_MAX).read_to_end(&mut plain);
    unpacked.map_err(|error| wrong(&error))?;
    let length = plain.get(4..8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes);
    if u64::from(length) > plain.len() as u64 {
        return Err(wrong(&"it is cut short"));
    }
    let histogram: Histogram<u64> =
        Deserializer::new().deserialize(&mut plain.as_slice()).map_err(|error| wrong(&error))?;
    if histogram.len() == distribution.count {
        Ok(histogram)
    } else {
        Err(format!("it states {} samples, but its histogram has {}", distribution.count, histogram.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn histograms_are_believed_only_if_they_fit() {
        let mut latency = measure::latency::Latency::new();
        let id = measure::latency::SampleId { workload: 0, number: 0 };
        (1..=1000).for_each(|value| latency.record(value * 1_000_000, id));
        let text = base64::engine::general_purpose::STANDARD.encode(latency.v2_deflate().unwrap());
        let with = |count, histogram: &str| Distribution {
            count,
            histogram: histogram.to_owned(),
            ..Distribution::default()
        };
        let read = histogram(&with(1000, &text)).unwrap();
        let median_ns = measure::latency::value_at_rank(&read, 500).unwrap();
        assert_eq!(median_ns / 1_000_000, 500);
        assert!(histogram(&with(999, &text)).unwrap_err().contains("states 999 samples"));
        for text in
            ["", "AAAA", "%%%", &text[..text.len() / 2], "HISTFAAAAAB42pNpmSzMwMDAxwABzFCaCUoz2X+AsQA="]
        {
            assert!(histogram(&with(5, text)).is_err(), "{text}");
        }
    }
}
