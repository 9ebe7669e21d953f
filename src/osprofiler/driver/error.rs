//! Why a collector could not be used, and whether trying again may help.
//!
//! No message may contain a password: errors name a collector with its redacted URL.

use std::error::Error;
use std::time::Duration;

use thiserror::Error;

use super::Cause;
use crate::record::{RecordError, TRACE_MIB_MAX, TRACE_RECORDS_MAX};
use base::masking::masked;
use base::visible::on_one_line;

/// Why a collector could not be used. Each message completes "failed to …".
#[derive(Debug, Error)]
pub enum DriverError {
    /// The kind of collector is unknown.
    #[error(
        "use a collector with `{scheme}`: supported are elasticsearch://host[:port], file://PATH, \
         jaeger://host[:port], messaging://user:password@host[:port][/vhost], mongodb://host[:port], \
         mysql://user:password@host/database, otlp://host[:port], postgresql://user:password@host/database, \
         redis://[:password@]host[:port][/db], rediss://, redissentinel://, sqlite://PATH and tempo://host[:port]"
    )]
    Unsupported {
        /// The part before `://`.
        scheme: String,
    },
    /// This build does not include this kind of collector.
    #[error(
        "use a collector with `{scheme}`: this program was built without it; build it with the cargo feature \
         `{feature}`, as in `cargo build --release --features {feature}`"
    )]
    NotBuilt {
        /// The part up to and including `://`.
        scheme: String,
        /// The cargo feature.
        feature: &'static str,
    },
    /// The storage does not support the operation.
    #[error("{action} the collector {target}: {reason}")]
    NotOffered {
        /// `write to` or `read from`.
        action: &'static str,
        /// The collector, redacted.
        target: String,
        /// Why, and what to use instead.
        reason: &'static str,
    },
    /// The connection string cannot be read.
    #[error("read the connection string of the collector {target}: {reason}")]
    Invalid {
        /// The collector, redacted.
        target: String,
        /// What is wrong, and how to write it.
        reason: &'static str,
    },
    /// The file cannot be opened.
    #[error("open the collector {target}; check its path, and that it may be read and written")]
    Open {
        /// The collector, redacted.
        target: String,
        /// The cause.
        #[source]
        source: Cause,
    },
    /// The connection failed.
    #[error("connect to the collector {target}; check that it runs, is reachable and knows the password")]
    Connect {
        /// The collector, redacted.
        target: String,
        /// The cause.
        #[source]
        source: Cause,
    },
    /// The collector did not answer in time.
    #[error("get an answer from the collector {target} within {limit:?}; check its load and the network")]
    Timeout {
        /// The collector, redacted.
        target: String,
        /// The limit.
        limit: Duration,
    },
    /// The collector answered with an error.
    #[error("{action} the collector {target}")]
    Request {
        /// `write to` or `read from`.
        action: &'static str,
        /// The collector, redacted.
        target: String,
        /// The cause.
        #[source]
        source: Cause,
    },
    /// The collector answered with an HTTP error status.
    #[error("{action} the collector {target}: it answers HTTP {status}{reason}")]
    Status {
        /// `write to` or `read from`.
        action: &'static str,
        /// The collector, redacted.
        target: String,
        /// The HTTP status.
        status: u16,
        /// The beginning of the response body, after a colon, or nothing.
        reason: String,
    },
    /// The backend rejected some spans and stored the others.
    #[error("write to the collector {target}: it rejects {spans} spans: {reason}")]
    Rejected {
        /// The collector, redacted.
        target: String,
        /// How many.
        spans: u64,
        /// How many records were in them; some may be of earlier writes.
        records: u64,
        /// Why, in its words.
        reason: String,
    },
    /// The storage rejected some records and stored the others.
    #[error("write to the collector {target}")]
    Partial {
        /// The collector, redacted.
        target: String,
        /// Where those that are not stored are among the records of the call, ascending.
        left: Vec<usize>,
        /// Whether they may be taken later.
        transient: bool,
        /// The cause.
        #[source]
        source: Cause,
    },
    /// A trace over the limits.
    #[error(
        "read trace {base_id} from the collector {target}: it is over the limit of \
         {TRACE_RECORDS_MAX} records or {TRACE_MIB_MAX} MiB; profile less under one base_id"
    )]
    TooLarge {
        /// The trace.
        base_id: String,
        /// The collector, redacted.
        target: String,
    },
    /// A stored record that is none: see [`super::CollectorTrace::first_rejected`].
    #[error("read record {index} of trace {base_id} from the collector {target}")]
    Record {
        /// The trace.
        base_id: String,
        /// Which one, from 0, the oldest.
        index: usize,
        /// The collector, redacted.
        target: String,
        /// What is wrong with it.
        #[source]
        source: RecordError,
    },
}

impl DriverError {
    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Timeout { .. } | Self::Request { .. } => true,
            Self::Status { status, .. } => is_transient_status(*status),
            Self::Partial { transient, .. } => *transient,
            _ => false,
        }
    }

    /// Whether it is about what is in the request: a part of it may be taken.
    #[must_use]
    pub fn refuses_content(&self) -> bool {
        matches!(self, Self::Status { status: 400 | 413 | 422, .. })
    }

    /// Whether it may be about what is in the request, if the collector works otherwise.
    #[must_use]
    pub fn may_refuse_content(&self) -> bool {
        self.refuses_content() || matches!(self, Self::Request { .. } | Self::Status { status: 500, .. })
    }

    /// The error and its causes on one line, each once, without secrets.
    #[must_use]
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            let words = error.to_string();
            if !text.contains(&words) {
                text.push_str(": ");
                text.push_str(&words);
            }
            cause = error.source();
        }
        on_one_line(&masked(&text))
    }
}

/// Whether an HTTP status is one that passes.
pub(super) fn is_transient_status(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..)
}
