//! Errors of answers that hold spans.

use super::DriverError;
use crate::spans::SpanError;

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
