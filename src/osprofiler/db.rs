//! Trace points for database calls, in the format of OSProfiler's SQLAlchemy integration.
//!
//! They work with any future that returns a `Result`, including the futures of sqlx:
//!
//! ```text
//! Statement::new("SELECT * FROM users WHERE id = ?").run(query.fetch_all(&pool)).await
//! ```
//!
//! Parameters and results are recorded only on request, because they may be secrets. Long statements
//! are cut. This module must not depend on a database's crate.

use std::borrow::Cow;
use std::error::Error;

use serde_json::{Map, Value};

use super::record::{Info, IntoInfo, bounded_text};
use super::trace::current::StopInfoReader;
use super::trace::{MESSAGE_LEN_MAX, failure};
use super::traced::TracedFuture;

/// The name that OpenStack's services give to these points.
pub const POINT_NAME: &str = "db";
/// Longer statements (bytes) are cut.
pub const STATEMENT_LEN_MAX: usize = 16 * 1024;

/// A statement about to be run.
#[derive(Clone, Debug)]
pub struct Statement<P = ()> {
    name: Cow<'static, str>,
    sql: Cow<'static, str>,
    params: P,
}

/// Makes a statement's parameters visible.
pub trait Params {
    /// The JSON to show; `None` hides them.
    fn into_params(self) -> Option<Value>;
}

impl Params for () {
    fn into_params(self) -> Option<Value> {
        None
    }
}

impl<F: FnOnce() -> Value> Params for F {
    fn into_params(self) -> Option<Value> {
        Some(self())
    }
}

impl Statement {
    /// A statement with hidden parameters.
    #[must_use]
    pub fn new(sql: impl Into<Cow<'static, str>>) -> Self {
        Self { name: Cow::Borrowed(POINT_NAME), sql: sql.into(), params: () }
    }
}

impl<P: Params> Statement<P> {
    /// Gives the point another name than [`POINT_NAME`], as OSProfiler's `add_tracing` can.
    #[must_use]
    pub fn named(mut self, name: impl Into<Cow<'static, str>>) -> Self {
        self.name = name.into();
        self
    }

    /// Shows parameters, which are computed only if a profiler is initialised.
    #[must_use]
    pub fn show_params<F: FnOnce() -> Value>(self, params: F) -> Statement<F> {
        Statement { name: self.name, sql: self.sql, params }
    }

    /// Runs the statement as a point.
    pub fn run<F, T, E>(self, call: F) -> TracedFuture<F, impl IntoInfo>
    where
        F: Future<Output = Result<T, E>>,
        E: Error,
    {
        self.point(call, |result| result.as_ref().err().map(error_info))
    }

    /// As [`Statement::run`]; the stop's info also contains the number of rows.
    pub fn run_counted<F, T, E>(self, call: F) -> TracedFuture<F, impl IntoInfo>
    where
        F: Future<Output = Result<T, E>>,
        T: Rows,
        E: Error,
    {
        self.point(call, |result| match result {
            Ok(rows) => Some(rows_info(rows.rows())),
            Err(error) => Some(error_info(error)),
        })
    }

    fn point<F: Future>(self, call: F, outcome: StopInfoReader<F::Output>) -> TracedFuture<F, impl IntoInfo> {
        let Self { name, sql, params } = self;
        let info = move || {
            let params = params.into_params().map(|params| ("params".to_owned(), params));
            db_info([statement(&sql)].into_iter().chain(params))
        };
        TracedFuture::point(call, name, info, Some(outcome))
    }
}

/// Results that have rows.
pub trait Rows {
    /// How many.
    fn rows(&self) -> u64;
}

impl<Row> Rows for Vec<Row> {
    fn rows(&self) -> u64 {
        self.len() as u64
    }
}

impl<Row> Rows for Option<Row> {
    fn rows(&self) -> u64 {
        u64::from(self.is_some())
    }
}

/// How many rows a statement changed.
impl Rows for u64 {
    fn rows(&self) -> u64 {
        *self
    }
}

/// The start's info for a statement, without parameters.
#[cfg(feature = "sqlx")]
pub(super) fn statement_info(sql: &str) -> Info {
    db_info([statement(sql)])
}

fn statement(sql: &str) -> (String, Value) {
    ("statement".to_owned(), Value::String(bounded_text(&sql, STATEMENT_LEN_MAX)))
}

/// The stop's info for a statement's rows.
pub(super) fn rows_info(rows: u64) -> Info {
    db_info([("rows".to_owned(), rows.into())])
}

fn db_info(details: impl IntoIterator<Item = (String, Value)>) -> Info {
    let details: Map<String, Value> = details.into_iter().collect();
    Info::from_iter([("db".to_owned(), Value::Object(details))])
}

/// As OSProfiler tells of an error that SQLAlchemy handled.
pub(super) fn error_info<E: Error>(error: &E) -> Info {
    let mut info = failure(std::any::type_name::<E>(), error);
    let chained = error.source().map(|cause| bounded_text(&cause, MESSAGE_LEN_MAX));
    let original = info.get("message").cloned().unwrap_or_default();
    info.extend(db_info([
        ("original_exception".to_owned(), original),
        ("chained_exception".to_owned(), Value::String(chained.unwrap_or_default())),
    ]));
    info
}
