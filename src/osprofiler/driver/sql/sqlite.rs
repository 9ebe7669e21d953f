//! How to reach a SQLite file, which needs no server: `sqlite://PATH`.
//!
//! All that follows `sqlite://` is the path: `sqlite:///tmp/traces.db` is `/tmp/traces.db`, and so is
//! SQLAlchemy's `sqlite:////tmp/traces.db`; `sqlite://traces.db` is relative. In SQLAlchemy,
//! `sqlite:///traces.db` is relative too, which cannot be told from an absolute path here; written with
//! the library, as in `sqlite+pysqlite:///traces.db`, it is read as SQLAlchemy reads it.
//!
//! One file serves one machine. A missing file is created, a missing directory is not. A reader creates
//! nothing: the file may be any of the user's, because a link or a run from elsewhere names it.

use std::path::Path;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions as _, Connection as _, Executor as _, Sqlite};

use super::super::{RESPONSE_TIMEOUT, ShutdownFuture};
use super::dialect::SQLITE;
use super::engine::{self, Engine, EngineFuture, Reply};
use super::statement::{Cells, Statement};

const FORM: &str = "write it as sqlite://PATH, for instance sqlite:///tmp/traces.db";
const MEMORY: &str =
    "an in-memory database is visible only to its own process; name a file, as in sqlite:///tmp/traces.db";

/// Opens what is described by `rest`, which follows the scheme and `://`.
pub(super) fn open(scheme: &str, rest: &str) -> Result<EngineFuture, &'static str> {
    let path = path(scheme, rest)?;
    let options = SqliteConnectOptions::new()
        .filename(Path::new(path))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        // In WAL mode a power cut can lose the last records, never the database.
        .synchronous(SqliteSynchronous::Normal)
        .busy_timeout(RESPONSE_TIMEOUT);
    Ok(engine::open::<Sqlite>(options, &SQLITE))
}

/// Opens it to read only.
pub(super) fn open_to_read(scheme: &str, rest: &str) -> Result<EngineFuture, &'static str> {
    let path = path(scheme, rest)?;
    let options = SqliteConnectOptions::new()
        .filename(Path::new(path))
        .create_if_missing(false)
        // Instead of SQLite's flag: with that, a file in WAL mode would get two others beside it, which stay.
        .pragma("query_only", "ON")
        .busy_timeout(RESPONSE_TIMEOUT);
    Ok(Box::pin(async move {
        let mut connection = options.connect().await?;
        let checked = connection.execute(SQLITE.check).await;
        connection.close().await?;
        match checked {
            Err(error) if !lacks_table(&error) => Err(engine::unreadable(&error)),
            _ => Ok(Box::new(ReadOnly(Box::new(engine::pool::<Sqlite>(options)))) as Box<dyn Engine>),
        }
    }))
}

/// A file that is only read. Until something is written to it, it has no table, and so no traces.
struct ReadOnly(Box<dyn Engine>);

impl Engine for ReadOnly {
    /// SQLite refuses them.
    fn run(&self, statements: Vec<Statement>) -> Reply<'_, ()> {
        self.0.run(statements)
    }

    fn rows(&self, statement: Statement) -> Reply<'_, Vec<Cells>> {
        Box::pin(async move {
            match self.0.rows(statement).await {
                Err(error) if lacks_table(&error) => Ok(Vec::new()),
                answered => answered,
            }
        })
    }

    fn end(&self) -> ShutdownFuture<'_> {
        self.0.end()
    }
}

fn lacks_table(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|error| error.message() == "no such table: data")
}

fn path<'a>(scheme: &str, rest: &'a str) -> Result<&'a str, &'static str> {
    let path = if scheme.contains('+') {
        rest.strip_prefix('/').ok_or(FORM)?.split('?').next().unwrap_or_default()
    } else {
        rest
    };
    match path {
        "" => Err(FORM),
        path if path.contains(":memory:") => Err(MEMORY),
        path => Ok(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read() {
        for (scheme, rest, expected) in [
            ("sqlite", "/tmp/x.db", Ok("/tmp/x.db")),
            ("sqlite", "//tmp/x.db", Ok("//tmp/x.db")),
            ("sqlite", "x y?%20.db", Ok("x y?%20.db")),
            ("sqlite+pysqlite", "/x.db?timeout=3", Ok("x.db")),
            ("sqlite+pysqlite", "//tmp/x.db", Ok("/tmp/x.db")),
            ("sqlite+pysqlite", "x.db", Err(FORM)),
            ("sqlite", "", Err(FORM)),
            ("sqlite", ":memory:", Err(MEMORY)),
        ] {
            assert_eq!(path(scheme, rest), expected, "{scheme}://{rest}");
        }
    }
}
