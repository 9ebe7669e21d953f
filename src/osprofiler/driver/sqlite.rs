//! The SQLite collector: the table `data` of OSProfiler's SQLAlchemy driver, in a file.
//!
//! Its columns (observed on 4.4.0): the ids, names and the timestamp as strings, and `data`, a JSON
//! column that holds a JSON *string* of `{"info": {…}}`, so that it is decoded twice. One file
//! serves one machine; it needs no server, which is what it is here for.

use std::path::Path;
use std::time::Duration;

use serde_json::{Map, Value};
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePool, SqlitePoolOptions, SqliteSynchronous,
};
use sqlx::{QueryBuilder, Row, Sqlite};

use super::{
    Answer, CONNECT_TIMEOUT, Driver, DriverError, RESPONSE_TIMEOUT, TRACE_BYTES_MAX, TRACE_RECORDS_MAX,
    TraceQuery, TraceSummary, answer,
};
use crate::osprofiler::record::{Info, RECORD_LEN_MAX, Record, RecordError};

/// Rows for each statement: 9 values each, well below SQLite's limit of 32,766.
const ROWS_PER_INSERT: usize = 500;
/// Both readers and the one writer that SQLite allows.
const CONNECTIONS_MAX: u32 = 4;

const CREATE_TABLE: &str = "CREATE TABLE IF NOT EXISTS data (
    id INTEGER NOT NULL PRIMARY KEY,
    timestamp VARCHAR(26), base_id VARCHAR(255), parent_id VARCHAR(255), trace_id VARCHAR(255),
    project VARCHAR(255), host VARCHAR(255), service VARCHAR(255), name VARCHAR(255), data JSON)";
const CREATE_INDEX: &str = "CREATE INDEX IF NOT EXISTS ix_data_base_id ON data (base_id)";
const INSERT: &str = "INSERT INTO data \
    (timestamp, base_id, parent_id, trace_id, project, host, service, name, data) ";
const MEASURE: &str = "SELECT count(*), coalesce(sum(length(CAST(data AS BLOB))), 0) FROM data \
    WHERE base_id = ?";
const SELECT: &str = "SELECT id, name, base_id, trace_id, parent_id, timestamp, project, service, host, data \
    FROM data WHERE base_id = ? AND id > ? ORDER BY id LIMIT ?";
/// What a record has at its top, in the order of `SELECT`, from its second column.
const RECORD_COLUMNS: [&str; 7] =
    ["name", "base_id", "trace_id", "parent_id", "timestamp", "project", "service"];
const HOST_COLUMN: usize = 8;
const DATA_COLUMN: usize = 9;
/// Rows for each answer, so that the time limit does not depend on the size of a trace.
const PAGE_LEN: i64 = 2_000;

/// An open database; see [`super::Collector`].
#[derive(Clone, Debug)]
pub(super) struct SqliteCollector {
    pool: SqlitePool,
    target: String,
}

impl SqliteCollector {
    pub(super) async fn connect(path: &str, target: String) -> Result<Self, DriverError> {
        if path.is_empty() {
            let reason = "write it as sqlite://PATH, for instance sqlite:///tmp/traces.db";
            return Err(DriverError::Invalid { target, reason });
        }
        let options = SqliteConnectOptions::new()
            .filename(Path::new(path))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            // In WAL mode a power cut can lose the last records, never the database.
            .synchronous(SqliteSynchronous::Normal)
            .busy_timeout(RESPONSE_TIMEOUT);
        let connect = async {
            let pool = SqlitePoolOptions::new()
                .max_connections(CONNECTIONS_MAX)
                .acquire_timeout(CONNECT_TIMEOUT)
                .connect_with(options)
                .await?;
            sqlx::query(CREATE_TABLE).execute(&pool).await?;
            sqlx::query(CREATE_INDEX).execute(&pool).await?;
            Ok::<_, sqlx::Error>(pool)
        };
        let limit: Duration = CONNECT_TIMEOUT;
        match tokio::time::timeout(limit, connect).await {
            Ok(Ok(pool)) => Ok(Self { pool, target }),
            Ok(Err(error)) => Err(DriverError::Connect { target, source: error.into() }),
            Err(_) => Err(DriverError::Timeout { target, limit }),
        }
    }

    fn target(&self) -> &str {
        &self.target
    }

    async fn write(&self, records: &[Record]) -> Result<(), DriverError> {
        let write = async {
            let mut transaction = self.pool.begin().await?;
            for rows in records.chunks(ROWS_PER_INSERT) {
                let mut insert = QueryBuilder::<Sqlite>::new(INSERT);
                insert.push_values(rows, |mut row, record| {
                    row.push_bind(record.timestamp.as_str());
                    row.push_bind(record.base_id.as_str());
                    row.push_bind(record.parent_id.as_str());
                    row.push_bind(record.trace_id.as_str());
                    row.push_bind(record.project.as_deref());
                    row.push_bind(record.host());
                    row.push_bind(record.service.as_deref());
                    row.push_bind(record.name.as_str());
                    row.push_bind(encode_data(&record.info));
                });
                insert.build().execute(&mut *transaction).await?;
            }
            transaction.commit().await
        };
        answer("write to", &self.target, write).await
    }

    async fn records(&self, base_id: &str) -> Result<Vec<Record>, DriverError> {
        let measure = sqlx::query_as::<_, (i64, i64)>(MEASURE).bind(base_id).fetch_one(&self.pool);
        let (records, bytes) = answer("read from", &self.target, measure).await?;
        let over = |value: i64, limit: usize| usize::try_from(value).map_or(true, |value| value > limit);
        if over(records, TRACE_RECORDS_MAX) || over(bytes, TRACE_BYTES_MAX) {
            let (base_id, target) = (base_id.to_owned(), self.target.clone());
            return Err(DriverError::TooLarge { base_id, target });
        }
        let mut decoded = Vec::with_capacity(usize::try_from(records).unwrap_or_default());
        let mut last_id = i64::MIN;
        loop {
            // Not more than was measured, whatever was written since.
            let page_len = (records - decoded.len() as i64).min(PAGE_LEN);
            let select = sqlx::query(SELECT).bind(base_id).bind(last_id).bind(page_len).fetch_all(&self.pool);
            let rows = answer("read from", &self.target, select).await?;
            for row in &rows {
                last_id = row.try_get(0).unwrap_or(i64::MAX);
                let record = decode_row(row).map_err(|source| DriverError::Record {
                    base_id: base_id.to_owned(),
                    index: decoded.len(),
                    target: self.target.clone(),
                    source,
                })?;
                decoded.push(record);
            }
            if rows.is_empty() {
                return Ok(decoded);
            }
        }
    }

    async fn list(&self, _query: &TraceQuery) -> Result<Vec<TraceSummary>, DriverError> {
        let target = self.target().to_owned();
        Err(DriverError::NotOffered { action: "read from", target, reason: "listing comes next" })
    }

    async fn probe(&self) -> Result<(), DriverError> {
        let select = sqlx::query("SELECT 1 FROM data LIMIT 1").fetch_optional(&self.pool);
        answer("read from", &self.target, select).await.map(|_| ())
    }
}

impl Driver for SqliteCollector {
    fn write<'a>(&'a self, records: &'a [Record]) -> Answer<'a, ()> {
        Box::pin(self.write(records))
    }

    fn records<'a>(&'a self, base_id: &'a str) -> Answer<'a, Vec<Record>> {
        Box::pin(self.records(base_id))
    }

    fn list<'a>(&'a self, query: &'a TraceQuery) -> Answer<'a, Vec<TraceSummary>> {
        Box::pin(self.list(query))
    }

    fn probe(&self) -> Answer<'_, ()> {
        Box::pin(self.probe())
    }

    fn target(&self) -> &str {
        self.target()
    }
}

fn decode_row(row: &sqlx::sqlite::SqliteRow) -> Result<Record, RecordError> {
    // A column of another type (SQLite checks none) is taken as absent.
    let column = |index: usize| row.try_get::<Option<String>, _>(index).ok().flatten();
    let mut record = Map::new();
    for (index, name) in (1..).zip(RECORD_COLUMNS) {
        record.insert(name.to_owned(), column(index).map_or(Value::Null, Value::String));
    }
    let mut info = decode_data(&column(DATA_COLUMN).unwrap_or_default())?;
    if let (false, Some(host)) = (info.contains_key("host"), column(HOST_COLUMN)) {
        info.insert("host".to_owned(), Value::String(host));
    }
    record.insert("info".to_owned(), Value::Object(info));
    let record: Record = serde_json::from_value(Value::Object(record)).map_err(RecordError::Malformed)?;
    record.timestamp_us().map(|_| record).ok_or(RecordError::Timestamp)
}

/// Twice, as the Python driver does: it gives JSON text to a column that encodes it again.
fn encode_data(info: &Info) -> String {
    let mut data = Map::new();
    data.insert("info".to_owned(), Value::Object(info.clone()));
    Value::String(Value::Object(data).to_string()).to_string()
}

/// Reads `data` encoded twice, or once as other writers might; an empty column has no info.
fn decode_data(text: &str) -> Result<Info, RecordError> {
    if text.len() > RECORD_LEN_MAX {
        return Err(RecordError::TooLong { len: text.len() });
    }
    if text.is_empty() {
        return Ok(Info::new());
    }
    let mut data: Value = serde_json::from_str(text).map_err(RecordError::Malformed)?;
    if let Value::String(inner) = &data {
        data = serde_json::from_str(inner).map_err(RecordError::Malformed)?;
    }
    match data.get_mut("info").map(Value::take) {
        Some(Value::Object(info)) => Ok(info),
        _ => Ok(Info::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn data_written_by_the_python_driver_is_read() {
        let vectors: Value =
            serde_json::from_str(include_str!("../../../tests/vectors/sqlalchemy-driver.json")).unwrap();
        let rows = vectors["databases"]["postgresql-15"]["rows"].as_array().unwrap();
        assert!(!rows.is_empty());
        for row in rows {
            let text = row["data_as_text"].as_str().unwrap();
            let info = decode_data(text).unwrap();
            assert_eq!(info["host"], "vm", "{text}");
            assert_eq!(decode_data(&encode_data(&info)).unwrap(), info);
        }
    }

    proptest! {
        #[test]
        fn decoding_data_never_panics(text: String, inner in "[\\[{\"a:1}\\]]{0,12}") {
            let _ = decode_data(&text);
            let _ = decode_data(&Value::String(inner).to_string());
        }
    }
}
