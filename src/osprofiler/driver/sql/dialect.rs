//! The statements of each database, and nothing else: the only place with SQL text.
//!
//! The table is the one that OSProfiler's SQLAlchemy driver creates (observed on 4.4.0 with
//! SQLAlchemy 1.4, MariaDB 10.11 and PostgreSQL 15). Values never become part of a text.

use super::statement::{Statement, Value};

/// Columns that are written, in this order.
pub(super) const COLUMNS: [&str; 9] =
    ["timestamp", "base_id", "parent_id", "trace_id", "project", "host", "service", "name", "data"];

/// A failed point, in `data` encoded twice (a backslash before the quote) or once.
const ETYPE_PATTERNS: [&str; 2] = ["%\"etype_\":%", "%\"etype\":%"];
/// Only the record of a stop can tell of a failure, and `data` is long.
const STOP_PATTERN: &str = "%stop";

/// How one database says it.
pub(super) struct Dialect {
    /// Fails unless the table is there with its columns and may be read.
    pub(super) check: &'static str,
    /// Creates the table, if it is missing.
    pub(super) create: &'static [&'static str],
    insert: &'static str,
    /// The placeholder of the value with this number, from 1.
    placeholder: fn(usize) -> String,
    /// What turns a placeholder for text into a value for `data`.
    data_value: fn(&str) -> String,
    /// The type of texts in a `CAST`.
    text: &'static str,
    /// The length of `data` in bytes.
    data_bytes: &'static str,
}

const CHECK: &str = "SELECT id, timestamp, base_id, parent_id, trace_id, project, host, service, name, data \
    FROM data WHERE 1 = 0";

/// MySQL and MariaDB. `IGNORE`: a name that is too long or not of the table's character set is
/// stored as well as it can be, where an error would cost a whole batch.
#[cfg(feature = "mysql")]
pub(super) const MYSQL: Dialect = Dialect {
    check: CHECK,
    create: &["CREATE TABLE IF NOT EXISTS data (
        id INTEGER NOT NULL AUTO_INCREMENT,
        timestamp VARCHAR(26), base_id VARCHAR(255), parent_id VARCHAR(255), trace_id VARCHAR(255),
        project VARCHAR(255), host VARCHAR(255), service VARCHAR(255), name VARCHAR(255), data JSON,
        PRIMARY KEY (id),
        KEY ix_data_timestamp (timestamp), KEY ix_data_base_id (base_id),
        KEY ix_data_parent_id (parent_id), KEY ix_data_trace_id (trace_id),
        KEY ix_data_project (project), KEY ix_data_host (host),
        KEY ix_data_service (service), KEY ix_data_name (name)
        ) DEFAULT CHARSET=utf8mb4"],
    insert: "INSERT IGNORE INTO data",
    placeholder: |_| "?".to_owned(),
    data_value: str::to_owned,
    text: "CHAR",
    data_bytes: "length(data)",
};

/// PostgreSQL.
#[cfg(feature = "postgres")]
pub(super) const POSTGRES: Dialect = Dialect {
    check: CHECK,
    create: &[
        "CREATE TABLE IF NOT EXISTS data (
        id SERIAL NOT NULL PRIMARY KEY,
        timestamp VARCHAR(26), base_id VARCHAR(255), parent_id VARCHAR(255), trace_id VARCHAR(255),
        project VARCHAR(255), host VARCHAR(255), service VARCHAR(255), name VARCHAR(255), data JSON)",
        "CREATE INDEX IF NOT EXISTS ix_data_timestamp ON data (timestamp)",
        "CREATE INDEX IF NOT EXISTS ix_data_base_id ON data (base_id)",
        "CREATE INDEX IF NOT EXISTS ix_data_parent_id ON data (parent_id)",
        "CREATE INDEX IF NOT EXISTS ix_data_trace_id ON data (trace_id)",
        "CREATE INDEX IF NOT EXISTS ix_data_project ON data (project)",
        "CREATE INDEX IF NOT EXISTS ix_data_host ON data (host)",
        "CREATE INDEX IF NOT EXISTS ix_data_service ON data (service)",
        "CREATE INDEX IF NOT EXISTS ix_data_name ON data (name)",
    ],
    insert: "INSERT INTO data",
    placeholder: |number| format!("${number}"),
    data_value: |placeholder| format!("CAST({placeholder} AS json)"),
    text: "text",
    data_bytes: "octet_length(CAST(data AS text))",
};

/// SQLite. The one index that is read by; each further one would cost every write.
#[cfg(feature = "sqlite")]
pub(super) const SQLITE: Dialect = Dialect {
    check: CHECK,
    create: &[
        "CREATE TABLE IF NOT EXISTS data (
        id INTEGER NOT NULL PRIMARY KEY,
        timestamp VARCHAR(26), base_id VARCHAR(255), parent_id VARCHAR(255), trace_id VARCHAR(255),
        project VARCHAR(255), host VARCHAR(255), service VARCHAR(255), name VARCHAR(255), data JSON)",
        "CREATE INDEX IF NOT EXISTS ix_data_base_id ON data (base_id)",
    ],
    insert: "INSERT INTO data",
    placeholder: |_| "?".to_owned(),
    data_value: str::to_owned,
    text: "TEXT",
    data_bytes: "length(CAST(data AS BLOB))",
};

impl Dialect {
    /// Stores rows, each with a value for every one of [`COLUMNS`].
    pub(super) fn insert(&self, rows: Vec<Vec<Option<String>>>) -> Statement {
        let mut text = format!("{} ({}) VALUES ", self.insert, COLUMNS.join(", "));
        let mut values = Vec::with_capacity(rows.len() * COLUMNS.len());
        for (index, row) in rows.into_iter().enumerate() {
            text.push_str(if index == 0 { "(" } else { ", (" });
            for (column, value) in row.into_iter().enumerate() {
                values.push(Value::Text(value));
                let placeholder = (self.placeholder)(values.len());
                text.push_str(if column == 0 { "" } else { ", " });
                if COLUMNS[column] == "data" {
                    text.push_str(&(self.data_value)(&placeholder));
                } else {
                    text.push_str(&placeholder);
                }
            }
            text.push(')');
        }
        Statement { text, values, repeated: false }
    }

    /// How many records a trace has, and the bytes of their `data`.
    pub(super) fn measure(&self, base_id: &str) -> Statement {
        let text = format!(
            "SELECT {}, {} FROM data WHERE base_id = {}",
            self.as_text("count(*)"),
            self.as_text(&format!("coalesce(sum({}), 0)", self.data_bytes)),
            (self.placeholder)(1),
        );
        Statement { text, values: vec![base_id.into()], repeated: true }
    }

    /// The id and [`COLUMNS`] of a trace's records after the one with the id `after`, in the order of
    /// writing.
    pub(super) fn page(&self, base_id: &str, after: i64, limit: i64) -> Statement {
        let (first, last) = (self.as_text("id"), self.as_text("data"));
        let (columns, _) = COLUMNS.split_at(COLUMNS.len() - 1);
        let text = format!(
            // Qualified: in PostgreSQL, the first column, a text, is named `id` as well.
            "SELECT {first}, {}, {last} FROM data WHERE base_id = {} AND data.id > {} ORDER BY data.id LIMIT {}",
            columns.join(", "),
            (self.placeholder)(1),
            (self.placeholder)(2),
            (self.placeholder)(3),
        );
        Statement { text, values: vec![base_id.into(), Value::Int(after), Value::Int(limit)], repeated: true }
    }

    /// The traces that were written to last, newest first.
    pub(super) fn newest(&self, limit: i64) -> Statement {
        let text = format!(
            "SELECT base_id FROM data WHERE base_id IS NOT NULL GROUP BY base_id \
             ORDER BY max(id) DESC LIMIT {}",
            (self.placeholder)(1),
        );
        Statement { text, values: vec![Value::Int(limit)], repeated: true }
    }

    /// For each of these traces: base_id, first timestamp, number of records, whether one failed (0 or
    /// 1), id of its first record.
    pub(super) fn summaries(&self, base_ids: &[String]) -> Statement {
        let mut values: Vec<Value> =
            [STOP_PATTERN, ETYPE_PATTERNS[0], ETYPE_PATTERNS[1]].map(Value::from).to_vec();
        values.extend(base_ids.iter().map(|id| id.as_str().into()));
        let data = self.as_text("data");
        let text = format!(
            "SELECT base_id, min(timestamp), {}, {}, {} FROM data WHERE base_id IN ({}) GROUP BY base_id",
            self.as_text("count(*)"),
            self.as_text(&format!(
                "max(CASE WHEN name LIKE {} AND ({data} LIKE {} OR {data} LIKE {}) THEN 1 ELSE 0 END)",
                (self.placeholder)(1),
                (self.placeholder)(2),
                (self.placeholder)(3),
            )),
            self.as_text("min(id)"),
            self.placeholders(4, base_ids.len()),
        );
        Statement { text, values, repeated: false }
    }

    /// The id and name of each of these records.
    pub(super) fn names(&self, ids: &[i64]) -> Statement {
        let text = format!(
            "SELECT {}, name FROM data WHERE id IN ({})",
            self.as_text("id"),
            self.placeholders(1, ids.len()),
        );
        Statement { text, values: ids.iter().copied().map(Value::Int).collect(), repeated: false }
    }

    /// A sign of life, of the table too.
    pub(super) fn probe(&self) -> Statement {
        Statement { text: self.check.to_owned(), values: Vec::new(), repeated: true }
    }

    fn as_text(&self, expression: &str) -> String {
        format!("CAST({expression} AS {})", self.text)
    }

    fn placeholders(&self, first: usize, count: usize) -> String {
        (first..first + count).map(self.placeholder).collect::<Vec<_>>().join(", ")
    }
}
