//! Why a collector could not be used, and whether trying again may help.
//!
//! No message may hold a password: errors name a collector by its redacted URL.

use std::error::Error;
use std::time::Duration;

use thiserror::Error;

use super::Cause;
use crate::base::masking::masked;
use crate::base::visible::on_one_line;
use crate::record::{RecordError, TRACE_RECORDS_MAX};

/// Why a collector could not be used. Complete "failed to …".
#[derive(Debug, Error)]
pub enum DriverError {
    /// No collector of this kind is known here.
    #[error(
        "use a collector with `{scheme}`: supported are elasticsearch://host[:port], file://PATH, \
         jaeger://host[:port], messaging://user:password@host[:port][/vhost], mongodb://host[:port], \
         mysql://user:password@host/database, otlp://host[:port], postgresql://user:password@host/database, \
         redis://[:password@]host[:port][/db], rediss://, redissentinel://, sqlite://PATH and tempo://host[:port]"
    )]
    Unsupported {
        /// What stands before `://`.
        scheme: String,
    },
    /// A kind of collector that this build leaves out.
    #[error(
        "use a collector with `{scheme}`: this program was built without it; build it with the cargo feature \
         `{feature}`, as in `cargo build --release --features {feature}`"
    )]
    NotBuilt {
        /// What stands before `://`, with it.
        scheme: String,
        /// The cargo feature.
        feature: &'static str,
    },
    /// The storage cannot do that.
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
        /// What is wrong and how it is written.
        reason: &'static str,
    },
    /// No file.
    #[error("open the collector {target}; check its path, and that it may be read and written")]
    Open {
        /// The collector, redacted.
        target: String,
        /// The cause.
        #[source]
        source: Cause,
    },
    /// No connection.
    #[error("connect to the collector {target}; check that it runs, is reachable and knows the password")]
    Connect {
        /// The collector, redacted.
        target: String,
        /// The cause.
        #[source]
        source: Cause,
    },
    /// No answer in time.
    #[error("get an answer from the collector {target} within {limit:?}; check its load and the network")]
    Timeout {
        /// The collector, redacted.
        target: String,
        /// The limit.
        limit: Duration,
    },
    /// An answer that is an error.
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
    /// An answer by HTTP that is a refusal.
    #[error("{action} the collector {target}: it answers HTTP {status}{reason}")]
    Status {
        /// `write to` or `read from`.
        action: &'static str,
        /// The collector, redacted.
        target: String,
        /// The HTTP status.
        status: u16,
        /// The beginning of what it says, after a colon; or nothing.
        reason: String,
    },
    /// Spans that a backend does not take; it has the others.
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
    /// Records that a storage does not take; it has the others.
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
         {TRACE_RECORDS_MAX} records or 64 MiB; profile less under one base_id"
    )]
    TooLarge {
        /// The trace.
        base_id: String,
        /// The collector, redacted.
        target: String,
    },
    /// A stored record that is none: see [`super::Stored::first_rejected`].
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
