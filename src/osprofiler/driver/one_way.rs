//! Kinds of collectors that are only read: why, and what to name instead.
//!
//! Apart from the table of kinds, which names the collectors: they say the same when they refuse.

/// Why traces cannot be written to Jaeger.
pub(super) const JAEGER_NOT_WRITTEN: &str = "Jaeger takes spans by OTLP; write to otlp://host:4318";
/// Why traces cannot be written to Tempo.
pub(super) const TEMPO_NOT_WRITTEN: &str = "Tempo takes spans by OTLP; write to otlp://host:4318";

/// The error of a write to a collector that is only read.
#[cfg(any(feature = "jaeger", feature = "tempo"))]
pub(super) fn not_written(target: &str, reason: &'static str) -> super::DriverError {
    super::DriverError::NotOffered { action: "write to", target: target.to_owned(), reason }
}
