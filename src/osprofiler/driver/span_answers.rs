//! Answers that hold spans, and their errors.

use super::{CollectorTrace, DriverError};
use crate::spans::{DecodedSpans, SpanError, read};

/// What an answer has of a trace.
pub(super) fn stored(base_id: &str, target: &str, decoded: DecodedSpans) -> CollectorTrace {
    let DecodedSpans { spans, faults, partial } = decoded;
    CollectorTrace {
        records: read::records(base_id, &spans),
        rejected: faults.count,
        first_rejected: faults.first.map(|first| format!("read from {target}: {first}")),
        partial,
    }
}

/// The error of an answer that cannot be decoded.
pub(super) fn failed(target: &str, error: SpanError) -> DriverError {
    let target = target.to_owned();
    match error {
        // The trace is filled in where it is known.
        SpanError::TooMany => DriverError::TooLarge { base_id: String::new(), target },
        error => DriverError::Request { action: "read from", target, source: error.into() },
    }
}

/// Says which trace is too large.
pub(super) fn too_large(error: DriverError, base_id: &str) -> DriverError {
    match error {
        DriverError::TooLarge { target, .. } => DriverError::TooLarge { base_id: base_id.to_owned(), target },
        other => other,
    }
}
