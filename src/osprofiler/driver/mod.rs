//! Collectors: where records are stored and read back.
//!
//! One file for each storage, which holds both the writer and the reader of its format and is the
//! only one that names the storage's crate. Every call has a time limit, every answer a size
//! limit. No message may hold a password: errors name a collector by its redacted URL.

mod elasticsearch;
mod file;
mod http;
mod jaeger;
#[cfg(feature = "messaging")]
mod messaging;
#[cfg(feature = "mongodb")]
mod mongodb;
mod otlp;
mod redis;
mod sql;
mod stored;
mod tempo;

use std::error::Error;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use thiserror::Error;

use self::elasticsearch::ElasticsearchCollector;
use self::file::FileCollector;
use self::jaeger::JaegerCollector;
#[cfg(feature = "messaging")]
use self::messaging::MessagingCollector;
#[cfg(feature = "mongodb")]
use self::mongodb::MongoCollector;
use self::otlp::OtlpCollector;
use self::redis::RedisCollector;
use self::sql::SqlCollector;
pub use self::stored::Stored;
use self::tempo::TempoCollector;
use super::compat::ReportStyle;
use super::record::{Record, RecordError, START_SUFFIX, STOP_SUFFIX};
use crate::base::masking::masked;
use crate::base::secret::{Secret, redacted_url};
use crate::base::visible::on_one_line;

/// How long connecting to a collector may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one answer of a collector may take.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long listing traces may take, which can need many answers.
pub const LIST_TIMEOUT: Duration = Duration::from_secs(20);
/// Longer traces are refused.
pub const TRACE_RECORDS_MAX: usize = 100_000;
/// Larger traces (bytes of JSON) are refused.
pub const TRACE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The schemes of connection strings; those of SQL databases may name a Python library after a `+`.
pub const SCHEMES: [&str; 21] = [
    "elasticsearch",
    "elasticsearch+http",
    "elasticsearch+https",
    "file",
    "jaeger",
    "jaeger+https",
    "mariadb",
    "messaging",
    "messaging+amqps",
    "mongodb",
    "mysql",
    "otlp",
    "otlps",
    "postgres",
    "postgresql",
    "redis",
    "rediss",
    "redissentinel",
    "sqlite",
    "tempo",
    "tempo+https",
];

type Cause = Box<dyn Error + Send + Sync>;

/// What a [`Driver`] answers, later.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, DriverError>> + Send + 'a>>;

/// How many records wait in a [`Driver`], later.
pub type Held<'a> = Pin<Box<dyn Future<Output = u64> + Send + 'a>>;

/// One kind of storage: the writer and the reader of its format.
pub trait Driver: fmt::Debug + Send + Sync {
    /// Stores records. After an error, some of them may be stored.
    fn write<'a>(&'a self, records: &'a [Record]) -> Answer<'a, ()>;
    /// All records of a trace as they were stored, oldest first; empty if the trace is unknown. What is
    /// stored among them and is none is counted.
    fn records<'a>(&'a self, base_id: &'a str) -> Answer<'a, Stored>;
    /// The traces it holds, newest first.
    fn list<'a>(&'a self, query: &'a TraceQuery) -> Answer<'a, Vec<TraceSummary>>;
    /// Asks for a sign of life.
    fn probe(&self) -> Answer<'_, ()>;
    /// Writes what waits inside of the driver, before it ends.
    fn flush(&self) -> Answer<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
    /// How many records it took that wait inside of it for a flush.
    fn held(&self) -> Held<'_> {
        Box::pin(std::future::ready(0))
    }
    /// How OSProfiler's own report of such a collector looks.
    fn report_style(&self) -> ReportStyle {
        ReportStyle::Records
    }
    /// The collector's URL without user, password and query.
    fn target(&self) -> &str;
}

/// Which traces to list.
#[derive(Clone, Copy, Debug)]
pub struct TraceQuery {
    /// Only those with a point that failed.
    pub errors_only: bool,
    /// Not more than this.
    pub limit: usize,
}

/// A trace that a collector holds. What a storage does not tell cheaply is `None`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TraceSummary {
    /// The trace.
    pub base_id: String,
    /// UTC time of its oldest known record, as records hold it.
    pub timestamp: String,
    /// How many records it has.
    pub records: Option<u64>,
    /// The name of its oldest known point.
    pub name: Option<String>,
    /// Whether one of its points failed.
    pub failed: Option<bool>,
}

/// A connected collector. Clones share the connection, which is opened again when it broke.
#[derive(Clone, Debug)]
pub struct Collector {
    driver: Arc<dyn Driver>,
}

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
        "use a collector with `{scheme}`: this bench was built without it; build one with \
         `cargo build --release --features {feature}`"
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
    /// A stored record that is none: see [`Stored::first_rejected`].
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
        let driver: Arc<dyn Driver> = match url.split_once("://") {
            Some((scheme, _)) if ElasticsearchCollector::handles(scheme) => {
                Arc::new(ElasticsearchCollector::connect(url, target).await?)
            }
            Some(("file", path)) => Arc::new(FileCollector::connect(path, target).await?),
            Some(("jaeger" | "jaeger+https", _)) => Arc::new(JaegerCollector::connect(url, target).await?),
            #[cfg(feature = "messaging")]
            Some(("messaging" | "messaging+amqps", _)) => {
                Arc::new(MessagingCollector::connect(url, target).await?)
            }
            #[cfg(feature = "mongodb")]
            Some(("mongodb" | "mongodb+srv", _)) => Arc::new(MongoCollector::connect(url, target).await?),
            Some(("otlp" | "otlps", _)) => Arc::new(OtlpCollector::connect(url, target).await?),
            Some((scheme, _)) if RedisCollector::handles(scheme) => {
                Arc::new(RedisCollector::connect(url, target).await?)
            }
            Some((scheme, _)) if SqlCollector::handles(scheme) => {
                Arc::new(SqlCollector::connect(url, target).await?)
            }
            Some(("tempo" | "tempo+https", _)) => Arc::new(TempoCollector::connect(url, target).await?),
            #[cfg(not(feature = "messaging"))]
            Some((scheme @ ("messaging" | "messaging+amqps"), _)) => {
                return Err(not_built(scheme, "messaging"));
            }
            #[cfg(not(feature = "mongodb"))]
            Some((scheme @ ("mongodb" | "mongodb+srv"), _)) => return Err(not_built(scheme, "mongodb")),
            _ => return Err(unsupported(url)),
        };
        Ok(Self { driver })
    }

    /// A collector of another kind than those known here.
    #[must_use]
    pub fn of(driver: Arc<dyn Driver>) -> Self {
        Self { driver }
    }

    /// Whether a connection string can be read, without connecting.
    ///
    /// # Errors
    /// Its scheme is unknown or left out of this build, or what follows is not as the scheme has it.
    pub fn check(connection: &str) -> Result<(), DriverError> {
        let target = || redacted_url(connection);
        let invalid = |reason| DriverError::Invalid { target: target(), reason };
        let Some((scheme, rest)) = connection.split_once("://") else { return Err(unsupported(connection)) };
        if !matches!(scheme, "file") && !scheme.starts_with("sqlite") && !ports_are_numbers(rest) {
            return Err(invalid("the port of a host is a number from 0 to 65535, as in redis://host:6379"));
        }
        match scheme {
            "file" => FileCollector::check(rest).map_err(invalid),
            "jaeger" | "jaeger+https" => JaegerCollector::http(connection, target()).map(drop),
            "otlp" | "otlps" => OtlpCollector::http(connection, target()).map(drop),
            "tempo" | "tempo+https" => TempoCollector::http(connection, target()).map(drop),
            #[cfg(feature = "messaging")]
            "messaging" | "messaging+amqps" => MessagingCollector::check(connection).map_err(invalid),
            #[cfg(feature = "mongodb")]
            "mongodb" | "mongodb+srv" => MongoCollector::check(connection).map_err(invalid),
            #[cfg(not(feature = "messaging"))]
            "messaging" | "messaging+amqps" => Err(not_built(scheme, "messaging")),
            #[cfg(not(feature = "mongodb"))]
            "mongodb" | "mongodb+srv" => Err(not_built(scheme, "mongodb")),
            _ if ElasticsearchCollector::handles(scheme) => {
                ElasticsearchCollector::settings(connection, target()).map(drop)
            }
            _ if RedisCollector::handles(scheme) => RedisCollector::check(connection).map_err(invalid),
            _ if SqlCollector::handles(scheme) => SqlCollector::check(connection).map_err(invalid),
            _ => Err(unsupported(connection)),
        }
    }

    /// Whether this build can read traces from the kind of collector that a connection string names.
    ///
    /// # Errors
    /// Says why not.
    pub fn reads(connection: &str) -> Result<(), DriverError> {
        let Some((scheme, _)) = connection.split_once("://") else {
            return Err(unsupported(connection));
        };
        match scheme {
            #[cfg(not(feature = "messaging"))]
            "messaging" | "messaging+amqps" => Err(not_built(scheme, "messaging")),
            #[cfg(not(feature = "mongodb"))]
            "mongodb" | "mongodb+srv" => Err(not_built(scheme, "mongodb")),
            "otlp" | "otlps" => Err(DriverError::NotOffered {
                action: "read from",
                target: redacted_url(connection),
                reason: "OTLP only takes spans in; name the query API of what stores them: jaeger://HOST or tempo://HOST",
            }),
            #[cfg(feature = "messaging")]
            "messaging" | "messaging+amqps" => Ok(()),
            #[cfg(feature = "mongodb")]
            "mongodb" | "mongodb+srv" => Ok(()),
            "file" | "jaeger" | "jaeger+https" | "tempo" | "tempo+https" => Ok(()),
            scheme
                if ElasticsearchCollector::handles(scheme)
                    || RedisCollector::handles(scheme)
                    || SqlCollector::handles(scheme) =>
            {
                Ok(())
            }
            _ => Err(unsupported(connection)),
        }
    }

    /// Whether this build can write traces to the kind of collector that a connection string names.
    ///
    /// # Errors
    /// Says why not, and what to name instead.
    pub fn writes(connection: &str) -> Result<(), DriverError> {
        let reason = match connection.split_once("://") {
            Some(("otlp" | "otlps", _)) => return Ok(()),
            Some(("jaeger" | "jaeger+https", _)) => jaeger::WRITE_ELSEWHERE,
            Some(("tempo" | "tempo+https", _)) => tempo::WRITE_ELSEWHERE,
            _ => return Self::reads(connection),
        };
        Err(DriverError::NotOffered { action: "write to", target: redacted_url(connection), reason })
    }

    /// Stores records. After an error, some of them may be stored.
    ///
    /// # Errors
    /// No connection, no answer in time, or a refusal.
    pub async fn write(&self, records: &[Record]) -> Result<(), DriverError> {
        if records.is_empty() {
            return Ok(());
        }
        self.driver.write(records).await
    }

    /// All records of a trace as they were stored, oldest first; empty if the trace is unknown; and how many
    /// could not be read.
    ///
    /// # Errors
    /// As [`Collector::write`]; also a trace over the limits.
    pub async fn stored(&self, base_id: &str) -> Result<Stored, DriverError> {
        self.driver.records(base_id).await
    }

    /// The records of [`Collector::stored`], without a word about those that could not be read.
    ///
    /// # Errors
    /// As there.
    pub async fn records(&self, base_id: &str) -> Result<Vec<Record>, DriverError> {
        Ok(self.stored(base_id).await?.records)
    }

    /// The traces it holds, newest first.
    ///
    /// # Errors
    /// As [`Collector::write`]; also a storage that cannot list.
    pub async fn list(&self, query: &TraceQuery) -> Result<Vec<TraceSummary>, DriverError> {
        self.driver.list(query).await
    }

    /// Asks for a sign of life.
    ///
    /// # Errors
    /// No connection, or no answer in time.
    pub async fn probe(&self) -> Result<(), DriverError> {
        self.driver.probe().await
    }

    /// Writes what waits inside of the driver: points of which only the start came. Call it before the
    /// last clone is dropped; [`super::notifier::QueueNotifier::shutdown`] does.
    ///
    /// # Errors
    /// As [`Collector::write`].
    pub async fn flush(&self) -> Result<(), DriverError> {
        self.driver.flush().await
    }

    /// How many records were taken that wait inside of the driver: they are lost unless a
    /// [`Collector::flush`] succeeds.
    pub async fn held(&self) -> u64 {
        self.driver.held().await
    }

    /// How OSProfiler's own report of such a collector looks.
    #[must_use]
    pub fn report_style(&self) -> ReportStyle {
        self.driver.report_style()
    }

    /// The collector's URL without user, password and query.
    #[must_use]
    pub fn target(&self) -> &str {
        self.driver.target()
    }
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

/// Whether what follows the host's colon is a port, for each of several hosts.
fn ports_are_numbers(rest: &str) -> bool {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let hosts = authority.rsplit('@').next().unwrap_or_default();
    hosts.split(',').all(|host| {
        // The colons of an IPv6 address stand in brackets.
        let after = host.rsplit(']').next().unwrap_or_default();
        after.split_once(':').is_none_or(|(_, port)| port.is_empty() || port.parse::<u16>().is_ok())
    })
}

/// Names the scheme, if what stands there can be one: it may be a misplaced password.
fn unsupported(connection: &str) -> DriverError {
    let shown = redacted_url(connection);
    let scheme =
        shown.split_once("://").map_or("no scheme://".to_owned(), |(scheme, _)| format!("{scheme}://"));
    DriverError::Unsupported { scheme }
}

#[cfg(not(all(feature = "messaging", feature = "mongodb")))]
fn not_built(scheme: &str, feature: &'static str) -> DriverError {
    DriverError::NotBuilt { scheme: format!("{scheme}://"), feature }
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

/// Whether an HTTP status is one that passes.
fn is_transient_status(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..)
}

/// The same for the same record: what is written again under it is not stored twice.
fn digest(record: &Record) -> [u8; 32] {
    Sha256::digest(serde_json::to_vec(record).unwrap_or_default()).into()
}

/// The name of the point whose record has this name.
fn point_name(name: &str) -> &str {
    name.strip_suffix(START_SUFFIX).or_else(|| name.strip_suffix(STOP_SUFFIX)).unwrap_or(name)
}
