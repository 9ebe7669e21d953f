//! Collectors: where records are stored and read back.
//!
//! One file for each storage, which holds both the writer and the reader of its format and is the
//! only one that names the storage's crate. Every call has a time limit, every answer a size
//! limit. No message may hold a password: errors name a collector by its redacted URL.

mod redis;
mod sqlite;

use std::error::Error;
use std::time::Duration;

use thiserror::Error;

use self::redis::RedisCollector;
use self::sqlite::SqliteCollector;
use super::record::{Record, RecordError};
use crate::base::secret::{Secret, redacted_url};

/// How long connecting to a collector may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one answer of a collector may take.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// Longer traces are refused.
pub const TRACE_RECORDS_MAX: usize = 100_000;
/// Larger traces (bytes of JSON) are refused.
pub const TRACE_BYTES_MAX: usize = 64 * 1024 * 1024;

type Cause = Box<dyn Error + Send + Sync>;

/// A connected collector. Clones share the connection, which is opened again when it broke.
#[derive(Clone, Debug)]
pub enum Collector {
    /// `redis://[user:password@]host[:port][/db]`, the format of OSProfiler's redis driver.
    Redis(RedisCollector),
    /// `sqlite://PATH`, the table of OSProfiler's SQLAlchemy driver in a file.
    Sqlite(SqliteCollector),
}

/// Why a collector could not be used. Complete "failed to …".
#[derive(Debug, Error)]
pub enum DriverError {
    /// No collector of this kind is known here.
    #[error(
        "use a collector with `{scheme}`: supported are redis://[:password@]host[:port][/db] and \
         sqlite://PATH"
    )]
    Unsupported {
        /// What stands before `://`.
        scheme: String,
    },
    /// The connection string cannot be read.
    #[error("read the connection string of the collector {target}: {reason}")]
    Invalid {
        /// The collector, redacted.
        target: String,
        /// What is wrong and how it is written.
        reason: &'static str,
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
    /// A stored record that is none.
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

impl Collector {
    /// Connects to the collector of a connection string; a missing SQLite file is created.
    ///
    /// # Errors
    /// The scheme is unknown, the string is malformed, or there is no connection within
    /// [`CONNECT_TIMEOUT`].
    pub async fn connect(connection: &Secret) -> Result<Self, DriverError> {
        let url = connection.expose();
        let target = redacted_url(url);
        match url.split_once("://") {
            Some(("redis", _)) => RedisCollector::connect(url, target).await.map(Self::Redis),
            Some(("sqlite", path)) => SqliteCollector::connect(path, target).await.map(Self::Sqlite),
            Some((scheme, _)) => Err(DriverError::Unsupported { scheme: format!("{scheme}://") }),
            None => Err(DriverError::Unsupported { scheme: "no scheme://".to_owned() }),
        }
    }

    /// True when [`Collector::connect`] knows the kind of collector.
    #[must_use]
    pub fn supports(connection: &str) -> bool {
        matches!(connection.split_once("://"), Some(("redis" | "sqlite", _)))
    }

    /// Stores records. After an error, some of them may be stored.
    ///
    /// # Errors
    /// No connection, no answer in time, or a refusal.
    pub async fn write(&self, records: &[Record]) -> Result<(), DriverError> {
        if records.is_empty() {
            return Ok(());
        }
        match self {
            Self::Redis(collector) => collector.write(records).await,
            Self::Sqlite(collector) => collector.write(records).await,
        }
    }

    /// All records of a trace as they were stored, oldest first; empty if the trace is unknown.
    ///
    /// # Errors
    /// As [`Collector::write`]; also a trace over the limits, or a record that is none.
    pub async fn records(&self, base_id: &str) -> Result<Vec<Record>, DriverError> {
        match self {
            Self::Redis(collector) => collector.records(base_id).await,
            Self::Sqlite(collector) => collector.records(base_id).await,
        }
    }

    /// Asks for a sign of life.
    ///
    /// # Errors
    /// No connection, or no answer in time.
    pub async fn probe(&self) -> Result<(), DriverError> {
        match self {
            Self::Redis(collector) => collector.probe().await,
            Self::Sqlite(collector) => collector.probe().await,
        }
    }

    /// The collector's URL without user, password and query.
    #[must_use]
    pub fn target(&self) -> &str {
        match self {
            Self::Redis(collector) => collector.target(),
            Self::Sqlite(collector) => collector.target(),
        }
    }
}

impl DriverError {
    /// Whether the same call may succeed later.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Connect { .. } | Self::Timeout { .. } | Self::Request { .. })
    }

    /// The error and its causes on one line, each once.
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
        text
    }
}

/// Applies [`RESPONSE_TIMEOUT`] and says which collector failed at what.
async fn answer<T, E: Into<Cause>>(
    action: &'static str,
    target: &str,
    request: impl Future<Output = Result<T, E>>,
) -> Result<T, DriverError> {
    match tokio::time::timeout(RESPONSE_TIMEOUT, request).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => {
            Err(DriverError::Request { action, target: target.to_owned(), source: error.into() })
        }
        Err(_) => Err(DriverError::Timeout { target: target.to_owned(), limit: RESPONSE_TIMEOUT }),
    }
}
