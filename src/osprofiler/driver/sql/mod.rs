//! Collectors in SQL databases: the table `data` of OSProfiler's SQLAlchemy driver.
//!
//! | connection string | database |
//! |---|---|
//! | `mysql://user:password@host[:port]/database`, `mysql+pymysql://`, `mysql+mysqldb://` | MySQL, MariaDB |
//! | `postgresql://…`, `postgres://…`, `postgresql+psycopg2://` | PostgreSQL |
//! | `sqlite://PATH` | a file ([`sqlite`]) |
//!
//! What follows a `+` names a Python library and is ignored. The options after the `?` are read under
//! the names that MySQL's and PostgreSQL's own clients, SQLAlchemy and sqlx give them ([`mysql`],
//! [`postgres`]). Seen working against MariaDB 10.11 and PostgreSQL 15, to and from the Python driver.
//!
//! The columns are the ids, names and the timestamp as strings, and `data` ([`rows`]). Under
//! SQLAlchemy 2 the Python driver neither commits what it writes nor reads; nothing here depends on it.

mod dialect;
mod engine;
mod list;
#[cfg(feature = "mysql")]
mod mysql;
#[cfg(feature = "postgres")]
mod postgres;
mod rows;
#[cfg(feature = "sqlite")]
mod sqlite;
mod statement;

use std::fmt;
use std::sync::Arc;

use self::dialect::Dialect;
use self::engine::{Engine, EngineFuture};
use self::statement::{Cells, Statement};
use super::forward::driver;
use super::{CONNECT_TIMEOUT, CollectorTrace, DriverError, TRACE_BYTES_MAX, TRACE_RECORDS_MAX, answer};
use crate::compat::ReportStyle;
use crate::record::TraceRecord;

/// Rows for each statement: 9 values each, well below SQLite's limit of 32,766.
const ROWS_PER_INSERT: usize = 500;
/// Bytes of `data` for each statement; MySQL's default limit on one is 16 MiB.
const INSERT_BYTES_MAX: usize = 1024 * 1024;
/// Rows for each answer, so that the time limit does not depend on the size of a trace.
const PAGE_LEN: i64 = 2_000;

/// An open database; see [`super::Collector`].
#[derive(Clone)]
pub(super) struct SqlCollector {
    engine: Arc<dyn Engine>,
    dialect: &'static Dialect,
    target: String,
}

/// `rest` with a host: SQLAlchemy leaves it out where the options name a socket.
#[cfg(any(feature = "mysql", feature = "postgres"))]
fn with_host(rest: &str) -> std::borrow::Cow<'_, str> {
    let (authority, tail) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if authority.ends_with('@') { format!("{authority}localhost{tail}").into() } else { rest.into() }
}

/// A certificate or key that an option names; the databases' libraries say of a missing file only that
/// some file is missing.
#[cfg(any(feature = "mysql", feature = "postgres"))]
fn file(path: &str) -> Result<&str, &'static str> {
    match std::fs::metadata(path) {
        Ok(found) if !found.is_dir() => Ok(path),
        _ => Err("the options for certificates and keys must name readable PEM files"),
    }
}

/// The database that a scheme names, whatever Python library it asks for.
fn read(url: &str) -> Result<(EngineFuture, &'static Dialect), &'static str> {
    let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
    match scheme.split('+').next().unwrap_or_default() {
        #[cfg(feature = "mysql")]
        "mysql" | "mariadb" => Ok((mysql::open(rest)?, &dialect::MYSQL)),
        #[cfg(feature = "postgres")]
        "postgresql" | "postgres" => Ok((postgres::open(rest)?, &dialect::POSTGRES)),
        #[cfg(feature = "sqlite")]
        "sqlite" => Ok((sqlite::open(scheme, rest)?, &dialect::SQLITE)),
        _ => Err("name a database, as in postgresql://"),
    }
}

/// Whether a connection string names a file, which has no accounts that may only read.
#[cfg(feature = "sqlite")]
pub(super) fn is_file(url: &str) -> bool {
    url.split_once("://").is_some_and(|(scheme, _)| scheme.split('+').next() == Some("sqlite"))
}

impl SqlCollector {
    /// Whether a connection string can be read.
    pub(super) fn check(url: &str, target: String) -> Result<(), DriverError> {
        read(url).map(drop).map_err(|reason| DriverError::Invalid { target, reason })
    }

    pub(super) async fn connect(url: &str, target: String) -> Result<Self, DriverError> {
        Self::opened(read(url), target).await
    }

    /// Opens a file of SQLite ([`is_file`]) without a change to it.
    #[cfg(feature = "sqlite")]
    pub(super) async fn connect_to_read(url: &str, target: String) -> Result<Self, DriverError> {
        let (scheme, rest) = url.split_once("://").unwrap_or((url, ""));
        let read = sqlite::open_to_read(scheme, rest).map(|opening| (opening, &dialect::SQLITE));
        Self::opened(read, target).await
    }

    async fn opened(
        read: Result<(EngineFuture, &'static Dialect), &'static str>,
        target: String,
    ) -> Result<Self, DriverError> {
        let (opening, dialect) = match read {
            Ok(read) => read,
            Err(reason) => return Err(DriverError::Invalid { target, reason }),
        };
        let limit = CONNECT_TIMEOUT;
        match tokio::time::timeout(limit, opening).await {
            Ok(Ok(engine)) => Ok(Self { engine: Arc::from(engine), dialect, target }),
            Ok(Err(source)) => Err(DriverError::Connect { target, source }),
            Err(_) => Err(DriverError::Timeout { target, limit }),
        }
    }

    async fn write(&self, records: &[TraceRecord]) -> Result<(), DriverError> {
        let mut statements = Vec::new();
        let (mut rows, mut bytes) = (Vec::new(), 0);
        for record in records {
            let row = rows::encode(record);
            bytes += row.iter().flatten().map(String::len).sum::<usize>();
            if rows.len() == ROWS_PER_INSERT || (bytes > INSERT_BYTES_MAX && !rows.is_empty()) {
                statements.push(self.dialect.insert(std::mem::take(&mut rows)));
                bytes = 0;
            }
            rows.push(row);
        }
        statements.push(self.dialect.insert(rows));
        answer("write to", &self.target, self.engine.run(statements)).await
    }

    async fn records(&self, base_id: &str) -> Result<CollectorTrace, DriverError> {
        let stored_id = rows::stored_id(base_id);
        let measured = self.rows(self.dialect.measure(&stored_id)).await?;
        let (count, bytes) =
            measured.first().map_or((0, 0), |row| (rows::number(row, 0), rows::number(row, 1)));
        let over = |value: i64, limit: usize| usize::try_from(value).map_or(true, |value| value > limit);
        if over(count, TRACE_RECORDS_MAX) || over(bytes, TRACE_BYTES_MAX) {
            let (base_id, target) = (base_id.to_owned(), self.target.clone());
            return Err(DriverError::TooLarge { base_id, target });
        }
        let mut stored = CollectorTrace::default();
        let (mut last_id, mut left) = (i64::MIN, count);
        // Not more than was measured, whatever was written since.
        while left > 0 {
            let page = self.rows(self.dialect.page(&stored_id, last_id, left.min(PAGE_LEN))).await?;
            if page.is_empty() {
                break;
            }
            for row in page {
                left -= 1;
                last_id = rows::number(&row, 0);
                let columns = row.get(1..).unwrap_or_default();
                // MySQL takes ids for equal that differ in case.
                if columns.get(rows::BASE_ID).and_then(Option::as_deref) != Some(&stored_id) {
                    continue;
                }
                stored.add(base_id, &self.target, rows::decode(columns));
            }
        }
        Ok(stored)
    }

    async fn probe(&self) -> Result<(), DriverError> {
        self.rows(self.dialect.probe()).await.map(|_| ())
    }

    async fn rows(&self, statement: Statement) -> Result<Vec<Cells>, DriverError> {
        answer("read from", &self.target, self.engine.rows(statement)).await
    }
}

driver!(SqlCollector {
    fn close(&self) -> super::ShutdownFuture<'_> {
        self.engine.end()
    }

    fn report_style(&self) -> ReportStyle {
        ReportStyle::Rows
    }

    fn target(&self) -> &str {
        &self.target
    }
});

impl fmt::Debug for SqlCollector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "SqlCollector({})", self.target)
    }
}
