//! The redis collector: a list `osprofiler_opt:<base_id>` of JSON records, newest first.
//!
//! The format of OSProfiler 2.8.0 and later (observed on 4.4.0). Keys of older releases are not
//! read: finding them means walking the whole keyspace for every trace.

use std::fmt;
use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, Client};
use tokio::sync::Mutex;

use super::{
    Answer, CONNECT_TIMEOUT, Cause, Driver, DriverError, RESPONSE_TIMEOUT, TRACE_BYTES_MAX,
    TRACE_RECORDS_MAX, TraceQuery, TraceSummary, answer,
};
use crate::osprofiler::record::Record;

const KEY_PREFIX: &str = "osprofiler_opt:";
/// Records for each answer, so that a huge trace is refused before it is in memory.
const PAGE_LEN: usize = 2_000;

/// Few huge records would fill the memory before a page can be measured. Twice the limit, because
/// redis counts its own overhead too.
const MEMORY_USAGE_MAX: u64 = 2 * TRACE_BYTES_MAX as u64;

/// A connection to redis; see [`super::Collector`].
#[derive(Clone)]
pub(super) struct RedisCollector {
    shared: Arc<Shared>,
}

struct Shared {
    client: Client,
    target: String,
    /// `None` after a failure: the next call connects again.
    connection: Mutex<Option<MultiplexedConnection>>,
}

impl RedisCollector {
    pub(super) async fn connect(url: &str, target: String) -> Result<Self, DriverError> {
        let Ok(client) = Client::open(url) else {
            // The cause may quote the string, password and all.
            let reason = "write it as redis://[:password@]host[:port][/db], special characters as %XX";
            return Err(DriverError::Invalid { target, reason });
        };
        let collector = Self { shared: Arc::new(Shared { client, target, connection: Mutex::new(None) }) };
        collector.connection().await?;
        Ok(collector)
    }

    fn target(&self) -> &str {
        &self.shared.target
    }

    async fn write(&self, records: &[Record]) -> Result<(), DriverError> {
        let mut pipeline = redis::pipe();
        for record in records {
            let json = serde_json::to_vec(record).map_err(|error| self.failed("write to", error.into()))?;
            pipeline.cmd("LPUSH").arg(format!("{KEY_PREFIX}{}", record.base_id)).arg(json).ignore();
        }
        let mut connection = self.connection().await?;
        let result = answer("write to", self.target(), pipeline.query_async::<()>(&mut connection)).await;
        self.keep_or_forget(result).await
    }

    async fn records(&self, base_id: &str) -> Result<Vec<Record>, DriverError> {
        let too_large =
            || DriverError::TooLarge { base_id: base_id.to_owned(), target: self.target().to_owned() };
        if self.memory_usage(base_id).await? > MEMORY_USAGE_MAX {
            return Err(too_large());
        }
        let mut records = Vec::new();
        let mut bytes = 0;
        loop {
            let page = self.page(base_id, records.len()).await?;
            let page_len = page.len();
            bytes += page.iter().map(Vec::len).sum::<usize>();
            if records.len() + page_len > TRACE_RECORDS_MAX || bytes > TRACE_BYTES_MAX {
                return Err(too_large());
            }
            for json in page.iter().rev() {
                let record = Record::decode(json).map_err(|source| DriverError::Record {
                    base_id: base_id.to_owned(),
                    index: records.len(),
                    target: self.target().to_owned(),
                    source,
                })?;
                records.push(record);
            }
            if page_len < PAGE_LEN {
                return Ok(records);
            }
        }
    }

    async fn list(&self, _query: &TraceQuery) -> Result<Vec<TraceSummary>, DriverError> {
        let target = self.target().to_owned();
        Err(DriverError::NotOffered { action: "read from", target, reason: "listing comes next" })
    }

    async fn probe(&self) -> Result<(), DriverError> {
        let mut connection = self.connection().await?;
        let ping = redis::cmd("PING");
        let result = answer("read from", self.target(), ping.query_async::<String>(&mut connection)).await;
        self.keep_or_forget(result.map(|_| ())).await
    }

    /// The bytes a trace takes in redis; 0 if it is unknown or if redis does not tell.
    async fn memory_usage(&self, base_id: &str) -> Result<u64, DriverError> {
        let mut usage = redis::cmd("MEMORY");
        usage.arg("USAGE").arg(format!("{KEY_PREFIX}{base_id}")).arg("SAMPLES").arg(0);
        let mut connection = self.connection().await?;
        match answer("read from", self.target(), usage.query_async::<Option<u64>>(&mut connection)).await {
            Ok(bytes) => Ok(bytes.unwrap_or(0)),
            // Not every account may ask; a broken connection shows at the next call.
            Err(DriverError::Request { .. }) => self.keep_or_forget(Err(())).await.or(Ok(0)),
            Err(error) => self.keep_or_forget(Err(error)).await,
        }
    }

    /// The `PAGE_LEN` records after the `skip` oldest ones, newest first. Counting from the list's
    /// end is stable while services push to its head.
    async fn page(&self, base_id: &str, skip: usize) -> Result<Vec<Vec<u8>>, DriverError> {
        let mut range = redis::cmd("LRANGE");
        let (first, last) = (skip.saturating_add(PAGE_LEN), skip.saturating_add(1));
        range.arg(format!("{KEY_PREFIX}{base_id}")).arg(format!("-{first}")).arg(format!("-{last}"));
        let mut connection = self.connection().await?;
        let result = answer("read from", self.target(), range.query_async(&mut connection)).await;
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
        let attempt = self.shared.client.get_multiplexed_async_connection_with_config(&config);
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

    /// A connection that failed once may be broken for good; a new one costs little.
    async fn keep_or_forget<T, E>(&self, result: Result<T, E>) -> Result<T, E> {
        if result.is_err() {
            *self.shared.connection.lock().await = None;
        }
        result
    }

    fn failed(&self, action: &'static str, source: Cause) -> DriverError {
        DriverError::Request { action, target: self.target().to_owned(), source }
    }
}

impl Driver for RedisCollector {
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

impl fmt::Debug for RedisCollector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "RedisCollector({})", self.target())
    }
}
