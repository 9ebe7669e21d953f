//! What a collector needs from a database: checked connections, texts in and texts out.
//!
//! Every value that is read is cast to text by the statement, so that one reader serves all
//! databases. Nothing here knows what the statements say.

use sqlx::database::HasStatementCache;
use sqlx::pool::PoolOptions;
use sqlx::{
    AssertSqlSafe, ColumnIndex, ConnectOptions, Connection as _, Database, Decode, Encode, Executor,
    IntoArguments, Pool, Row, Type,
};

use super::super::{CONNECT_TIMEOUT, Cause, ShutdownFuture};
use super::dialect::Dialect;
use super::statement::{Cells, Statement, Value};

/// Readers, and the one writer that SQLite allows.
const CONNECTIONS_MAX: u32 = 4;

/// What a database answers, later.
pub(super) type Reply<'a, T> = std::pin::Pin<Box<dyn Future<Output = Result<T, sqlx::Error>> + Send + 'a>>;

/// A database, open later.
pub(super) type EngineFuture =
    std::pin::Pin<Box<dyn Future<Output = Result<Box<dyn Engine>, Cause>> + Send + 'static>>;

/// An open database.
pub(super) trait Engine: Send + Sync {
    /// Runs statements, all of them or none.
    fn run(&self, statements: Vec<Statement>) -> Reply<'_, ()>;
    /// The rows of one statement, which must bound their number.
    fn rows(&self, statement: Statement) -> Reply<'_, Vec<Cells>>;
    /// Ends all connections.
    fn end(&self) -> ShutdownFuture<'_>;
}

impl<DB> Engine for Pool<DB>
where
    DB: Database + HasStatementCache,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
    DB::Arguments: IntoArguments<DB>,
    Option<String>: for<'q> Encode<'q, DB> + for<'r> Decode<'r, DB> + Type<DB>,
    Option<Vec<u8>>: for<'r> Decode<'r, DB>,
    i64: for<'q> Encode<'q, DB> + Type<DB>,
    usize: ColumnIndex<DB::Row>,
{
    fn run(&self, statements: Vec<Statement>) -> Reply<'_, ()> {
        Box::pin(async move {
            let mut transaction = self.begin().await?;
            for statement in statements {
                prepared::<DB>(statement).execute(&mut *transaction).await?;
            }
            transaction.commit().await
        })
    }

    fn rows(&self, statement: Statement) -> Reply<'_, Vec<Cells>> {
        Box::pin(async move {
            let mut connection = self.acquire().await?;
            let rows = prepared::<DB>(statement).fetch_all(&mut *connection).await?;
            Ok(rows.iter().map(cells::<DB>).collect())
        })
    }

    fn end(&self) -> ShutdownFuture<'_> {
        Box::pin(self.close())
    }
}

/// Connects, creates the table if it is missing, and returns a pool that reconnects.
pub(super) fn open<DB>(
    options: <DB::Connection as sqlx::Connection>::Options,
    dialect: &'static Dialect,
) -> EngineFuture
where
    DB: Database,
    Pool<DB>: Engine,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    Box::pin(async move {
        // Not from a pool: that goes on trying a host which refuses, and then does not say so.
        let mut connection = options.connect().await?;
        ensure_table::<DB>(&mut connection, dialect).await?;
        connection.close().await?;
        Ok(Box::new(pool::<DB>(options)) as Box<dyn Engine>)
    })
}

/// Connections that are opened when they are wanted, and again after they broke.
pub(super) fn pool<DB: Database>(options: <DB::Connection as sqlx::Connection>::Options) -> Pool<DB> {
    PoolOptions::<DB>::new()
        .max_connections(CONNECTIONS_MAX)
        .acquire_timeout(CONNECT_TIMEOUT)
        .connect_lazy_with(options)
}

/// An account that may not create tables can use one that is there; and two services that start at
/// once may both try to create it.
async fn ensure_table<DB>(connection: &mut DB::Connection, dialect: &Dialect) -> Result<(), Cause>
where
    DB: Database,
    for<'c> &'c mut DB::Connection: Executor<'c, Database = DB>,
{
    let Err(missing) = connection.execute(dialect.check).await else { return Ok(()) };
    for statement in dialect.create {
        let Err(refused) = connection.execute(*statement).await else { continue };
        if connection.execute(dialect.check).await.is_ok() {
            return Ok(());
        }
        return Err(format!(
            "the table `data` of OSProfiler cannot be read ({missing}) and cannot be created ({refused}); \
             let the account create it, or name another database"
        )
        .into());
    }
    match connection.execute(dialect.check).await {
        Ok(_) => Ok(()),
        Err(error) => Err(unreadable(&error)),
    }
}

/// The table is another one, or may not be read.
pub(super) fn unreadable(error: &sqlx::Error) -> Cause {
    format!(
        "the table `data` cannot be read as OSProfiler's ({error}); let the account read it, or name \
         a database that has no other table of that name"
    )
    .into()
}

fn prepared<DB>(statement: Statement) -> sqlx::query::Query<'static, DB, DB::Arguments>
where
    DB: Database + HasStatementCache,
    Option<String>: for<'q> Encode<'q, DB> + Type<DB>,
    i64: for<'q> Encode<'q, DB> + Type<DB>,
{
    let query = sqlx::query::<DB>(AssertSqlSafe(statement.text));
    let query = statement.values.into_iter().fold(query, |query, value| match value {
        Value::Text(text) => query.bind(text),
        Value::Int(number) => query.bind(number),
    });
    query.persistent(statement.repeated)
}

fn cells<DB>(row: &DB::Row) -> Cells
where
    DB: Database,
    Option<String>: for<'r> Decode<'r, DB> + Type<DB>,
    Option<Vec<u8>>: for<'r> Decode<'r, DB>,
    usize: ColumnIndex<DB::Row>,
{
    let cell = |index: usize| -> Option<String> {
        row.try_get::<Option<String>, _>(index).unwrap_or_else(|_| {
            // Bad UTF-8, which SQLite keeps: a readable record with odd characters beats none.
            let bytes = row.try_get_unchecked::<Option<Vec<u8>>, _>(index).ok().flatten();
            bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        })
    };
    (0..row.len()).map(cell).collect()
}
