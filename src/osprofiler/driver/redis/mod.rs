//! The redis collector: a list `osprofiler_opt:<base_id>` of JSON records, newest first.
//!
//! The format of OSProfiler 2.8.0 and later (observed on 4.4.0); releases before kept every record
//! under a separate key, which [`legacy`] reads. With `?filter_error_trace=true` the key
//! `osprofiler_error:<base_id>` marks a failed trace, as the Python driver's option of that name does
//! (off there too unless set). Reached directly, by TLS, or through sentinels ([`url`]).
//!
//! The Python driver looks at every key of the database for every trace that it reads. Nothing here
//! may do that: a trace is read from its own list, and walks of the keyspace are bounded and few. With
//! `?legacy=true` every trace is looked for under old keys too, not only one without a list.

mod legacy;
mod list;
mod url;

use std::fmt;
use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Cmd, FromRedisValue, Pipeline, RedisError};
use serde_json::Value;
use tokio::sync::Mutex;

use self::legacy::Knowledge;
use self::url::{ConnectionSource, Target};
use super::forward::driver;
use super::{
    CONNECT_TIMEOUT, Cause, CollectorTrace, DriverError, RESPONSE_TIMEOUT, TRACE_BYTES_MAX,
    TRACE_RECORDS_MAX, answer,
};
use crate::record::TraceRecord;

const KEY_PREFIX: &str = "osprofiler_opt:";
const ERROR_PREFIX: &str = "osprofiler_error:";
/// Records for each answer, so that a huge trace is refused before it is in memory.
const PAGE_LEN: usize = 2_000;
/// Bytes for each batch of writes, so that the time limit does not depend on the size of records.
const WRITE_BYTES_MAX: usize = 4 * 1024 * 1024;
/// Few huge records would fill the memory before a page can be measured. Twice the limit, because
/// redis counts its own overhead too.
const MEMORY_USAGE_MAX: u64 = 2 * TRACE_BYTES_MAX as u64;
/// Keys that redis looks at for each step of a walk, which keeps it busy for about a millisecond.
const SCAN_COUNT: usize = 1_000;

/// Refusals that pass: redis is full, starts, or is not the master.
const TRANSIENT_CODES: [&str; 10] = [
    "BUSY",
    "CLUSTERDOWN",
    "LOADING",
    "MASTERDOWN",
    "MISCONF",
    "NOREPLICAS",
    "OOM",
    "READONLY",
    "TRYAGAIN",
    "UNKILLABLE",
];

/// A connection to redis; see [`super::Collector`].
#[derive(Clone)]
pub(super) struct RedisCollector {
    shared: Arc<RedisState>,
}

struct RedisState {
    source: ConnectionSource,
    target: String,
    filter_error_trace: bool,
    /// Look for old keys of a trace that has a list.
    legacy_wanted: bool,
    /// `None` after a failure: the next call connects again.
    connection: Mutex<Option<MultiplexedConnection>>,
    legacy: Mutex<Knowledge>,
}

impl RedisCollector {
    /// Whether a connection string can be read.
    pub(super) fn check(url: &str, target: String) -> Result<(), DriverError> {
        url::parse(url).map(drop).map_err(|reason| DriverError::Invalid { target, reason })
    }

    pub(super) async fn connect(url: &str, target: String) -> Result<Self, DriverError> {
        // The cause may quote the string, password and all.
        let parsed = match url::parse(url) {
            Ok(parsed) => parsed,
            Err(reason) => return Err(DriverError::Invalid { target, reason }),
        };
        let collector = Self::new(parsed, target);
        collector.connection().await?;
        Ok(collector)
    }

    /// Without a connection, which the first call opens.
    fn new(parsed: Target, target: String) -> Self {
        let shared = RedisState {
            source: parsed.source,
            target,
            filter_error_trace: parsed.filter_error_trace,
            legacy_wanted: parsed.legacy,
            connection: Mutex::new(None),
            legacy: Mutex::default(),
        };
        Self { shared: Arc::new(shared) }
    }

    fn target(&self) -> &str {
        &self.shared.target
    }

    async fn write(&self, records: &[TraceRecord]) -> Result<(), DriverError> {
        let mut refused = RefusedRecords::default();
        let mut first = 0;
        while first < records.len() {
            let (pipeline, len) = self.pipeline(&records[first..])?;
            match self.send::<Vec<Result<redis::Value, RedisError>>>("write to", &pipeline).await {
                Ok(answers) => refused.note(first, answers),
                Err(error) if first == 0 => return Err(error),
                // What is stored must not come again.
                Err(error) => {
                    refused.records.extend(first..records.len());
                    refused.transient |= error.is_transient();
                    refused.reason.get_or_insert(error.into());
                    break;
                }
            }
            first += len;
        }
        let (target, left, transient, reason) =
            (self.target().to_owned(), refused.records, refused.transient, refused.reason);
        reason.map_or(Ok(()), |source| Err(DriverError::Partial { target, left, transient, source }))
    }

    /// The commands that store some of the first records, and how many.
    fn pipeline(&self, records: &[TraceRecord]) -> Result<(Pipeline, usize), DriverError> {
        let mut pipeline = redis::pipe();
        // A refused command leaves the others valid: each has its own answer.
        pipeline.ignore_errors();
        let (mut bytes, mut len) = (0, 0);
        for record in records {
            let json = serde_json::to_vec(record).map_err(|error| self.failed("write to", error.into()))?;
            bytes += json.len();
            pipeline.cmd("LPUSH").arg(format!("{KEY_PREFIX}{}", record.base_id)).arg(json);
            if self.shared.filter_error_trace && record.info.has("etype") {
                let mark = serde_json::json!({"base_id": record.base_id, "timestamp": record.timestamp});
                pipeline
                    .cmd("SET")
                    .arg(format!("{ERROR_PREFIX}{}", record.base_id))
                    .arg(mark.to_string())
                    .ignore();
            }
            len += 1;
            if bytes > WRITE_BYTES_MAX {
                break;
            }
        }
        Ok((pipeline, len))
    }

    /// The records of old keys first, then the list's records in the order of writing.
    async fn records(&self, base_id: &str) -> Result<CollectorTrace, DriverError> {
        if self.memory_usage(base_id).await? > MEMORY_USAGE_MAX {
            return Err(self.too_large(base_id));
        }
        let mut kept = BoundedRecords::new(base_id);
        let mut page = self.page(base_id, 0).await?;
        if page.is_empty() || self.shared.legacy_wanted {
            for json in self.legacy_records(base_id, !page.is_empty()).await? {
                kept.add(self, &json)?;
            }
        }
        let mut skip = 0;
        loop {
            for json in page.iter().rev() {
                kept.add(self, json)?;
            }
            if page.len() < PAGE_LEN {
                return Ok(kept.stored);
            }
            skip += page.len();
            page = self.page(base_id, skip).await?;
        }
    }

    async fn probe(&self) -> Result<(), DriverError> {
        self.ask::<String>(&redis::cmd("PING")).await.map(|_| ())
    }

    /// The bytes a trace takes in redis; 0 if it is unknown or if redis does not tell.
    async fn memory_usage(&self, base_id: &str) -> Result<u64, DriverError> {
        let mut usage = redis::cmd("MEMORY");
        usage.arg("USAGE").arg(format!("{KEY_PREFIX}{base_id}")).arg("SAMPLES").arg(0);
        match self.ask::<Option<u64>>(&usage).await {
            Ok(bytes) => Ok(bytes.unwrap_or(0)),
            // Not every account may ask; a broken connection shows at the next call.
            Err(DriverError::Request { .. }) => Ok(0),
            Err(error) => Err(error),
        }
    }

    /// The `PAGE_LEN` records after the `skip` oldest ones, newest first. Counting from the list's
    /// end is stable while services push to its head.
    async fn page(&self, base_id: &str, skip: usize) -> Result<Vec<Vec<u8>>, DriverError> {
        let mut range = redis::cmd("LRANGE");
        let (first, last) = (skip.saturating_add(PAGE_LEN), skip.saturating_add(1));
        range.arg(format!("{KEY_PREFIX}{base_id}")).arg(format!("-{first}")).arg(format!("-{last}"));
        self.ask(&range).await
    }

    /// One step of a walk over the keys that fit `pattern`: where to go on (0: at the end), and keys.
    async fn scan(&self, cursor: u64, pattern: &str) -> Result<(u64, Vec<Vec<u8>>), DriverError> {
        let mut scan = redis::cmd("SCAN");
        scan.arg(cursor).arg("MATCH").arg(pattern).arg("COUNT").arg(SCAN_COUNT);
        self.ask(&scan).await
    }

    async fn ask<T: FromRedisValue>(&self, command: &Cmd) -> Result<T, DriverError> {
        let mut connection = self.connection().await?;
        let result = answer("read from", self.target(), command.query_async(&mut connection)).await;
        self.keep_or_forget(result).await
    }

    async fn send<T: FromRedisValue>(
        &self,
        action: &'static str,
        pipeline: &Pipeline,
    ) -> Result<T, DriverError> {
        let mut connection = self.connection().await?;
        let result = answer(action, self.target(), pipeline.query_async(&mut connection)).await;
        self.keep_or_forget(result).await
    }

    async fn connection(&self) -> Result<MultiplexedConnection, DriverError> {
        let mut connection = self.shared.connection.lock().await;
        if let Some(open) = connection.as_ref() {
            return Ok(open.clone());
        }
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(CONNECT_TIMEOUT))
            .set_response_timeout(Some(RESPONSE_TIMEOUT));
        let attempt = async {
            match &self.shared.source {
                ConnectionSource::Direct(client) => {
                    client.get_multiplexed_async_connection_with_config(&config).await
                }
                // Asked every time: after a failover another redis is the master.
                ConnectionSource::Sentinel(client) => {
                    client.lock().await.get_async_connection_with_config(&config).await
                }
            }
        };
        // A server that accepts and then says nothing is not covered by the two limits above.
        let opened = match tokio::time::timeout(CONNECT_TIMEOUT, attempt).await {
            Ok(Ok(opened)) => opened,
            Ok(Err(error)) => {
                let target = self.target().to_owned();
                return Err(DriverError::Connect { target, source: error.into() });
            }
            Err(_) => {
                let target = self.target().to_owned();
                return Err(DriverError::Timeout { target, limit: CONNECT_TIMEOUT });
            }
        };
        *connection = Some(opened.clone());
        Ok(opened)
    }

    /// A connection that failed once may be broken for good, or lead to a redis that is no longer
    /// the master; a new one costs little.
    async fn keep_or_forget<T, E>(&self, result: Result<T, E>) -> Result<T, E> {
        if result.is_err() {
            *self.shared.connection.lock().await = None;
        }
        result
    }

    fn failed(&self, action: &'static str, source: Cause) -> DriverError {
        DriverError::Request { action, target: self.target().to_owned(), source }
    }

    fn too_large(&self, base_id: &str) -> DriverError {
        DriverError::TooLarge { base_id: base_id.to_owned(), target: self.target().to_owned() }
    }
}

/// What was not stored.
#[derive(Default)]
struct RefusedRecords {
    records: Vec<usize>,
    transient: bool,
    reason: Option<Cause>,
}

impl RefusedRecords {
    /// Notes the refusals among the answers for the records from `first` on.
    fn note(&mut self, first: usize, answers: Vec<Result<redis::Value, RedisError>>) {
        for (index, answer) in answers.into_iter().enumerate() {
            if let Err(error) = answer {
                self.records.push(first + index);
                self.transient |= error.code().is_some_and(|code| TRANSIENT_CODES.contains(&code));
                self.reason.get_or_insert(error.into());
            }
        }
    }
}

/// The records of a trace so far, within the limits.
struct BoundedRecords<'a> {
    base_id: &'a str,
    stored: CollectorTrace,
    /// What was under the keys of the trace, of whatever trace it is.
    seen: usize,
    bytes: usize,
}

impl<'a> BoundedRecords<'a> {
    fn new(base_id: &'a str) -> Self {
        Self { base_id, stored: CollectorTrace::default(), seen: 0, bytes: 0 }
    }

    /// Keeps a record of the trace. Any program can write another trace's record under its key; that is left out.
    fn add(&mut self, collector: &RedisCollector, json: &[u8]) -> Result<(), DriverError> {
        self.bytes += json.len();
        if self.seen == TRACE_RECORDS_MAX || self.bytes > TRACE_BYTES_MAX {
            return Err(collector.too_large(self.base_id));
        }
        self.seen += 1;
        let decoded = TraceRecord::decode(json);
        if decoded.as_ref().map_or(true, |record| record.base_id == self.base_id) {
            self.stored.add(self.base_id, collector.target(), decoded);
        }
        Ok(())
    }
}

/// Whether a record, as stored, tells of a failure.
fn tells_failure(json: &[u8]) -> bool {
    // Most records do not even hold the word, and decoding costs much more.
    memchr::memmem::find(json, b"\"etype\"").is_some()
        && serde_json::from_slice::<Value>(json)
            .is_ok_and(|record| record.pointer("/info/etype").is_some_and(|etype| !etype.is_null()))
}

driver!(RedisCollector {
    fn target(&self) -> &str {
        self.target()
    }
});

impl fmt::Debug for RedisCollector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RedisCollector({})", self.target())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::info::SharedInfo;

    /// A collector that nothing connects to.
    fn idle() -> RedisCollector {
        let target = "redis://127.0.0.1:1".to_owned();
        let parsed = super::url::parse(&target).unwrap();
        RedisCollector::new(parsed, target)
    }

    #[test]
    fn records_of_another_trace_under_the_key_of_this_one_are_left_out() {
        let record = |base_id: &str, name: &str| {
            let record = TraceRecord {
                name: name.into(),
                base_id: base_id.into(),
                trace_id: "t".into(),
                parent_id: base_id.into(),
                timestamp: "2026-11-20T22:52:01.123456".into(),
                info: SharedInfo::default(),
                project: None,
                service: None,
            };
            serde_json::to_vec(&record).unwrap()
        };
        let collector = idle();
        let mut kept = BoundedRecords::new("one");
        let written = [record("one", "a-start"), record("two", "b-start"), record("ONE", "c-start")];
        for json in &written {
            kept.add(&collector, json).unwrap();
        }
        kept.add(&collector, b"none").unwrap();
        let names: Vec<&str> = kept.stored.records.iter().map(|record| record.name.as_str()).collect();
        assert_eq!((names, kept.stored.rejected), (vec!["a-start"], 1));
        // They count for the limits all the same, or a list of them would never end.
        kept.seen = TRACE_RECORDS_MAX;
        let full = kept.add(&collector, &record("two", "b-stop"));
        assert!(matches!(full, Err(DriverError::TooLarge { .. })), "{full:?}");
    }
}
