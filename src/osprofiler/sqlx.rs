//! Every statement of a `sqlx` pool as a point: `let pool = traced(pool);`, and nothing else.
//!
//! As OSProfiler's `sqlalchemy.add_tracing(engine)`: the point is named `db`, its start has the
//! statement, its stop how many rows came back, or the error. Parameters are in no record, and nothing
//! is asked for while no profiler is initialised. What a statement waits for a connection counts.
//!
//! | instead of | |
//! |---|---|
//! | `query.fetch_all(&pool)`, and all other calls with `&pool` | stay as they are |
//! | `&mut *transaction` of `pool.begin()` | `&mut transaction`, and the feature `mysql`, `postgres` or `sqlite` |
//! | `&mut *connection` of `pool.acquire()` | `&mut connection`, and the same |
//!
//! Preparing, describing and `COMMIT` are not points. A program that uses the macro `query!` or its kind needs the
//! feature `sqlx-macros`.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::future::BoxFuture;
use futures_util::stream::BoxStream;
#[cfg(feature = "sqlx-macros")]
use sqlx::Describe;
use sqlx::error::BoxDynError;
use sqlx::pool::PoolConnection;
use sqlx::{Database, Either, Error, Execute, Executor, Pool, SqlStr, Transaction};

use super::db::{POINT_NAME, Statement, error_info, rows_info, statement_info};
use super::record::Info;
use super::trace::current::{self, Flow};

/// Makes every statement that is run on `pool` a point.
#[must_use]
pub fn traced<DB: Database>(pool: Pool<DB>) -> TracedPool<DB> {
    TracedPool { pool }
}

/// A pool whose statements are points; made by [`traced`]. Clones share the pool.
pub struct TracedPool<DB: Database> {
    pool: Pool<DB>,
}

impl<DB: Database> TracedPool<DB> {
    /// The wrapped pool. Its statements do not become points.
    #[must_use]
    pub fn untraced(&self) -> &Pool<DB> {
        &self.pool
    }

    /// As [`Pool::begin`].
    ///
    /// # Errors
    /// As there.
    pub async fn begin(&self) -> Result<TracedTransaction<DB>, Error> {
        Ok(TracedConnection { connection: self.pool.begin().await? })
    }

    /// As [`Pool::acquire`].
    ///
    /// # Errors
    /// As there.
    pub async fn acquire(&self) -> Result<TracedConnection<PoolConnection<DB>>, Error> {
        Ok(TracedConnection { connection: self.pool.acquire().await? })
    }

    /// As [`Pool::close`].
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

impl<DB: Database> Clone for TracedPool<DB> {
    fn clone(&self) -> Self {
        Self { pool: self.pool.clone() }
    }
}

impl<DB: Database> fmt::Debug for TracedPool<DB> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.pool, formatter)
    }
}

/// A transaction whose statements are points.
pub type TracedTransaction<DB> = TracedConnection<Transaction<'static, DB>>;

/// A connection whose statements are points.
pub struct TracedConnection<C> {
    connection: C,
}

impl<DB: Database> TracedTransaction<DB> {
    /// As [`Transaction::commit`].
    ///
    /// # Errors
    /// As there.
    pub async fn commit(self) -> Result<(), Error> {
        self.connection.commit().await
    }

    /// As [`Transaction::rollback`].
    ///
    /// # Errors
    /// As there.
    pub async fn rollback(self) -> Result<(), Error> {
        self.connection.rollback().await
    }
}

impl<C> fmt::Debug for TracedConnection<C> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("TracedConnection")
    }
}

impl<'p, DB: Database> Executor<'p> for &'_ TracedPool<DB>
where
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    type Database = DB;

    fn fetch_many<'e, 'q: 'e, E>(
        self,
        query: E,
    ) -> BoxStream<'e, Result<Either<DB::QueryResult, DB::Row>, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, DB>,
    {
        let call = QueryParts::<DB>::of(query);
        Point::stream(call.sql.clone(), self.pool.fetch_many(call))
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<DB::Row>, Error>>
    where
        'p: 'e,
        E: 'q + Execute<'q, DB>,
    {
        let call = QueryParts::<DB>::of(query);
        let statement = Statement::new(call.sql.as_str().to_owned());
        Box::pin(statement.run_counted(self.pool.fetch_optional(call)))
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [DB::TypeInfo],
    ) -> BoxFuture<'e, Result<DB::Statement, Error>>
    where
        'p: 'e,
    {
        self.pool.prepare_with(sql, parameters)
    }

    #[cfg(feature = "sqlx-macros")]
    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, Result<Describe<DB>, Error>>
    where
        'p: 'e,
    {
        self.pool.describe(sql)
    }
}

/// For each database by itself: of a generic one, the compiler could not tell the connection.
#[cfg(any(feature = "mysql", feature = "postgres", feature = "sqlite"))]
macro_rules! traced_connection {
    ($database:ty, $($connection:ty),+) => {
        $(impl<'c> Executor<'c> for &'c mut TracedConnection<$connection> {
            type Database = $database;

            fn fetch_many<'e, 'q: 'e, E>(
                self,
                query: E,
            ) -> BoxStream<'e, Result<Either<<$database as Database>::QueryResult, <$database as Database>::Row>, Error>>
            where
                'c: 'e,
                E: 'q + Execute<'q, $database>,
            {
                let call = QueryParts::<$database>::of(query);
                let sql = call.sql.clone();
                let connection: &'c mut <$database as Database>::Connection = &mut self.connection;
                Point::stream(sql, connection.fetch_many(call))
            }

            fn fetch_optional<'e, 'q: 'e, E>(
                self,
                query: E,
            ) -> BoxFuture<'e, Result<Option<<$database as Database>::Row>, Error>>
            where
                'c: 'e,
                E: 'q + Execute<'q, $database>,
            {
                let call = QueryParts::<$database>::of(query);
                let statement = Statement::new(call.sql.as_str().to_owned());
                let connection: &'c mut <$database as Database>::Connection = &mut self.connection;
                Box::pin(statement.run_counted(connection.fetch_optional(call)))
            }

            fn prepare_with<'e>(
                self,
                sql: SqlStr,
                parameters: &'e [<$database as Database>::TypeInfo],
            ) -> BoxFuture<'e, Result<<$database as Database>::Statement, Error>>
            where
                'c: 'e,
            {
                let connection: &'c mut <$database as Database>::Connection = &mut self.connection;
                connection.prepare_with(sql, parameters)
            }

            #[cfg(feature = "sqlx-macros")]
            fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, Result<Describe<$database>, Error>>
            where
                'c: 'e,
            {
                let connection: &'c mut <$database as Database>::Connection = &mut self.connection;
                connection.describe(sql)
            }
        })+
    };
}

#[cfg(feature = "mysql")]
traced_connection!(sqlx::MySql, PoolConnection<sqlx::MySql>, Transaction<'static, sqlx::MySql>);
#[cfg(feature = "postgres")]
traced_connection!(sqlx::Postgres, PoolConnection<sqlx::Postgres>, Transaction<'static, sqlx::Postgres>);
#[cfg(feature = "sqlite")]
traced_connection!(sqlx::Sqlite, PoolConnection<sqlx::Sqlite>, Transaction<'static, sqlx::Sqlite>);

/// The parts of a query. Asking a query for its text consumes it, so the parts are kept.
struct QueryParts<DB: Database> {
    sql: SqlStr,
    statement: Option<DB::Statement>,
    arguments: Option<Result<Option<DB::Arguments>, BoxDynError>>,
    persistent: bool,
}

impl<DB: Database> QueryParts<DB> {
    fn of<'q>(mut query: impl Execute<'q, DB>) -> Self {
        let arguments = Some(query.take_arguments());
        let (statement, persistent) = (query.statement().cloned(), query.persistent());
        Self { sql: query.sql(), statement, arguments, persistent }
    }
}

impl<DB: Database> Execute<'_, DB> for QueryParts<DB> {
    fn sql(self) -> SqlStr {
        self.sql
    }

    fn statement(&self) -> Option<&DB::Statement> {
        self.statement.as_ref()
    }

    fn take_arguments(&mut self) -> Result<Option<DB::Arguments>, BoxDynError> {
        self.arguments.take().unwrap_or(Ok(None))
    }

    fn persistent(&self) -> bool {
        self.persistent
    }
}

/// A statement's answers, in the point that begins when the first is waited for.
struct Point<S> {
    answers: Option<S>,
    state: StatementState,
    rows: u64,
}

enum StatementState {
    New(SqlStr),
    Running(Box<Flow>),
    /// Nothing to trace, or ended.
    Untraced,
}

impl<S> Point<S> {
    fn stream<'e, T: 'e, R: 'e>(sql: SqlStr, answers: S) -> BoxStream<'e, Result<Either<T, R>, Error>>
    where
        S: Stream<Item = Result<Either<T, R>, Error>> + Send + Unpin + 'e,
    {
        Box::pin(Self { answers: Some(answers), state: StatementState::New(sql), rows: 0 })
    }

    fn end(&mut self, info: Info) {
        if let StatementState::Running(flow) = std::mem::replace(&mut self.state, StatementState::Untraced) {
            flow.note(info);
        }
    }
}

impl<S, T, R> Stream for Point<S>
where
    S: Stream<Item = Result<Either<T, R>, Error>> + Unpin,
{
    type Item = Result<Either<T, R>, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let Some(answers) = &mut this.answers else { return Poll::Ready(None) };
        let next = || Pin::new(answers).poll_next(context);
        let flow = match std::mem::replace(&mut this.state, StatementState::Untraced) {
            StatementState::Untraced => return next(),
            StatementState::Running(flow) => Some(flow),
            StatementState::New(sql) => current::current()
                .map(|parent| Flow::of_point(parent.enter(POINT_NAME, Some(statement_info(sql.as_str()))))),
        };
        let Some(flow) = flow else { return next() };
        let (answer, flow) = current::within(flow, next);
        this.state = flow.map_or(StatementState::Untraced, StatementState::Running);
        match &answer {
            Poll::Ready(Some(Ok(Either::Right(_)))) => this.rows += 1,
            Poll::Ready(Some(Err(error))) => this.end(error_info(error)),
            Poll::Ready(None) => this.end(rows_info(this.rows)),
            _ => {}
        }
        answer
    }
}

impl<S> Drop for Point<S> {
    fn drop(&mut self) {
        let StatementState::Running(mut flow) = std::mem::replace(&mut self.state, StatementState::Untraced)
        else {
            return;
        };
        flow.was_cancelled();
        current::run(flow, || self.answers = None, None);
    }
}
