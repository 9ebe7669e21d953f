//! Collectors: where records are stored and read back.
//!
//! One file for each storage. It holds both the writer and the reader of its format, and only it
//! names the storage's crate. All of them are listed in `kinds`. Every call has a time limit, every
//! answer a size limit. No message may hold a password: errors name a collector by its redacted URL.

#[cfg(feature = "elasticsearch")]
mod elasticsearch;
mod error;
mod file;
mod forward;
#[cfg(feature = "http-collectors")]
#[cfg_attr(
    not(all(feature = "elasticsearch", feature = "jaeger", feature = "otlp", feature = "tempo")),
    allow(dead_code, reason = "each kind of collector uses a part of it")
)]
mod http;
#[cfg(feature = "jaeger")]
mod jaeger;
mod json_lines;
mod kinds;
#[cfg(feature = "messaging")]
mod messaging;
#[cfg(feature = "mongodb")]
mod mongodb;
mod one_way;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(feature = "redis")]
mod redis;
mod regular_file;
#[cfg(any(feature = "jaeger", feature = "tempo"))]
mod span_answers;
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
mod sql;
mod stored;
#[cfg(feature = "tempo")]
mod tempo;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

pub use self::error::DriverError;
pub use self::kinds::schemes;
pub use self::stored::CollectorTrace;
use super::compat::ReportStyle;
use super::record::TraceRecord;
pub use super::record::{TRACE_BYTES_MAX, TRACE_RECORDS_MAX};
pub use super::summary::{TraceQuery, TraceSummary};
use base::secret::Secret;

/// How long connecting to a collector may take.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long one answer of a collector may take.
pub const RESPONSE_TIMEOUT: Duration = Duration::from_secs(5);
/// How long listing traces may take, which can need many answers.
pub const LIST_TIMEOUT: Duration = Duration::from_secs(20);

type Cause = Box<dyn std::error::Error + Send + Sync>;

/// What a [`Driver`] answers, later.
pub type DriverAnswer<'a, T> = Pin<Box<dyn Future<Output = Result<T, DriverError>> + Send + 'a>>;

/// How many records wait in a [`Driver`], later.
pub type BacklogFuture<'a> = Pin<Box<dyn Future<Output = u64> + Send + 'a>>;

/// The end of a driver's connections.
pub type ShutdownFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// One kind of storage: the writer and the reader of its format.
pub trait Driver: fmt::Debug + Send + Sync {
    /// Stores records. After an error, some of them may be stored.
    fn write<'a>(&'a self, records: &'a [TraceRecord]) -> DriverAnswer<'a, ()>;
    /// All records of a trace as they were stored, oldest first; empty if the trace is unknown. What is
    /// stored among them and is none is counted.
    fn records<'a>(&'a self, base_id: &'a str) -> DriverAnswer<'a, CollectorTrace>;
    /// The traces it holds, newest first.
    fn list<'a>(&'a self, query: &'a TraceQuery) -> DriverAnswer<'a, Vec<TraceSummary>>;
    /// Asks for a sign of life.
    fn probe(&self) -> DriverAnswer<'_, ()>;
    /// Writes what waits inside of the driver, before it ends.
    fn flush(&self) -> DriverAnswer<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
    /// Ends its connections, which otherwise happens some time after the last clone was dropped.
    fn close(&self) -> ShutdownFuture<'_> {
        Box::pin(std::future::ready(()))
    }
    /// How many records it took that wait inside of it for a flush.
    fn held(&self) -> BacklogFuture<'_> {
        Box::pin(std::future::ready(0))
    }
    /// How OSProfiler's own report of such a collector looks.
    fn report_style(&self) -> ReportStyle {
        ReportStyle::Records
    }
    /// The collector's URL without user, password and query.
    fn target(&self) -> &str;
}

/// A connected collector. Clones share the connection, which is opened again when it broke.
#[derive(Clone, Debug)]
pub struct Collector {
    driver: Arc<dyn Driver>,
}

impl Collector {
    /// Connects to the collector of a connection string; a missing SQLite file is created.
    ///
    /// # Errors
    /// The scheme is unknown or left out of this build, the string is malformed, or there is no
    /// connection within [`CONNECT_TIMEOUT`].
    pub async fn connect(connection: &Secret) -> Result<Self, DriverError> {
        Ok(Self { driver: kinds::connect(connection.expose()).await? })
    }

    /// Connects to a collector that is only read: a SQLite file is neither created nor changed, and one without
    /// OSProfiler's table holds no traces. Elsewhere, it is [`Collector::connect`].
    ///
    /// # Errors
    /// As there; also a missing SQLite file.
    pub async fn connect_to_read(connection: &Secret) -> Result<Self, DriverError> {
        Ok(Self { driver: kinds::connect_to_read(connection.expose()).await? })
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
        kinds::check(connection)
    }

    /// Whether this build can read traces from the kind of collector that a connection string names.
    ///
    /// # Errors
    /// Says why not, and what to name instead.
    pub fn reads(connection: &str) -> Result<(), DriverError> {
        kinds::reads(connection)
    }

    /// Whether this build can write traces to the kind of collector that a connection string names.
    ///
    /// # Errors
    /// Says why not, and what to name instead.
    pub fn writes(connection: &str) -> Result<(), DriverError> {
        kinds::writes(connection)
    }

    /// True if the kind of collector that a connection string names stores OpenTelemetry's spans: it can have traces of
    /// services that do not speak OSProfiler.
    #[must_use]
    pub fn stores_spans(connection: &str) -> bool {
        kinds::stores_spans(connection)
    }

    /// Ends its connections, and its clones' connections, within [`CONNECT_TIMEOUT`]. What reads a file next, or
    /// replaces it, must not find it open.
    pub async fn close(&self) {
        // A connection that does not end by then is left alone.
        let _ = tokio::time::timeout(CONNECT_TIMEOUT, self.driver.close()).await;
    }

    /// Stores records. After an error, some of them may be stored.
    ///
    /// # Errors
    /// No connection, no answer in time, or a refusal.
    pub async fn write(&self, records: &[TraceRecord]) -> Result<(), DriverError> {
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
    pub async fn stored(&self, base_id: &str) -> Result<CollectorTrace, DriverError> {
        self.driver.records(base_id).await
    }

    /// The records of [`Collector::stored`], without a word about those that could not be read.
    ///
    /// # Errors
    /// As there.
    pub async fn records(&self, base_id: &str) -> Result<Vec<TraceRecord>, DriverError> {
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

    /// Writes what waits inside of the driver: points whose stop has not come. Call it before the last clone is
    /// dropped; [`super::notifier::QueueNotifier::shutdown`] does.
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

/// The same for the same record: what is written again under it is not stored twice.
#[cfg(any(feature = "elasticsearch", feature = "mongodb"))]
fn digest(record: &TraceRecord) -> [u8; 32] {
    use sha2::Digest as _;
    sha2::Sha256::digest(serde_json::to_vec(record).unwrap_or_default()).into()
}
