//! How to reach a SQLite file, which needs no server: `sqlite://PATH`.
//!
//! All that follows `sqlite://` is the path: `sqlite:///tmp/traces.db` is `/tmp/traces.db`, and so is
//! SQLAlchemy's `sqlite:////tmp/traces.db`; `sqlite://traces.db` is relative. In SQLAlchemy,
//! `sqlite:///traces.db` is relative too, which cannot be told from an absolute path here; written with
//! the library, as in `sqlite+pysqlite:///traces.db`, it is read as SQLAlchemy reads it.
//!
//! One file serves one machine. A missing file is created, a missing directory is not.

use std::path::Path;

use sqlx::Sqlite;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};

use super::super::RESPONSE_TIMEOUT;
use super::dialect::SQLITE;
use super::engine::{self, Opening};

const FORM: &str = "write it as sqlite://PATH, for instance sqlite:///tmp/traces.db";
const MEMORY: &str =
    "an in-memory database is visible only to its own process; name a file, as in sqlite:///tmp/traces.db";

/// Opens what is described by `rest`, which follows the scheme and `://`.
pub(super) fn open(scheme: &str, rest: &str) -> Result<Opening, &'static str> {
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
