//! OTLP: spans by HTTP in protobuf to `<url>/v1/traces`, for any OpenTelemetry backend.
//!
//! A span needs both records of a point, so a start waits here for its stop, by its ids: concurrent
//! points never take each other's (OSProfiler's own driver has one stack for each process, and its
//! threads swap stops). A start that waited for a minute, or that is one too many, is sent as a span
//! that says `osprofiler.missing: stop`; if its stop comes after all, that is sent likewise, and the
//! readers put both together. OTLP cannot be read: Jaeger's and Tempo's drivers do that.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::http::Http;
use super::{Answer, Driver, DriverError, Stored, TraceQuery, TraceSummary};
use crate::osprofiler::record::{Record, STOP_SUFFIX};
use crate::osprofiler::spans::protobuf::{CONTENT_TYPE, decode_answer, encode};
use crate::osprofiler::spans::{Span, write};

const PATH: &str = "/v1/traces";
const DEFAULT_PORT: u16 = 4318;
/// Spans for each request; receivers refuse bodies of more than some megabytes.
const SPANS_PER_REQUEST: usize = 1_000;
/// Points that may be open at once.
const OPEN_MAX: usize = 65_536;
const WAIT_MAX: Duration = Duration::from_secs(60);
const READ_ELSEWHERE: &str = "OTLP only takes spans; read them from the backend that keeps them, with \
    jaeger://host:16686 or tempo://host:3200";

type Key = (String, String);

/// A receiver of OTLP; see [`super::Collector`].
#[derive(Debug)]
pub(super) struct OtlpCollector {
    http: Http,
    open: Mutex<Open>,
}

/// Points whose stop has not come.
#[derive(Debug, Default)]
struct Open {
    starts: HashMap<Key, Record>,
    /// Oldest first; some of them may have ended.
    order: VecDeque<(Instant, Key)>,
}

impl OtlpCollector {
    pub(super) async fn connect(url: &str, target: String) -> Result<Self, DriverError> {
        let scheme = if url.starts_with("otlps://") { "https" } else { "http" };
        let collector = Self { http: Http::new(url, target, scheme, DEFAULT_PORT)?, open: Mutex::default() };
        collector.send(&[]).await?;
        Ok(collector)
    }

    async fn write(&self, records: &[Record]) -> Result<(), DriverError> {
        let mut open = self.open.lock().await;
        let now = Instant::now();
        let mut ended = Vec::new();
        let mut spans = Vec::new();
        for record in records {
            let key = key(record);
            if record.name.ends_with(STOP_SUFFIX) {
                spans.extend(write::span(open.starts.get(&key), Some(record)));
                ended.push(key);
            } else if !open.starts.contains_key(&key) {
                open.order.push_back((now, key.clone()));
                open.starts.insert(key, record.clone());
            }
        }
        let overdue = open.overdue(now, &ended);
        spans.extend(overdue.iter().filter_map(|key| write::span(open.starts.get(key), None)));
        let sent = self.send_all(&spans).await;
        // The same records come again after a failure that may pass.
        if sent.as_ref().map_or_else(|error| !error.is_transient(), |()| true) {
            open.forget(ended.iter().chain(&overdue));
        }
        sent
    }

    async fn flush(&self) -> Result<(), DriverError> {
        let mut open = self.open.lock().await;
        let spans: Vec<Span> =
            open.starts.values().filter_map(|start| write::span(Some(start), None)).collect();
        self.send_all(&spans).await?;
        *open = Open::default();
        Ok(())
    }

    async fn send_all(&self, spans: &[Span]) -> Result<(), DriverError> {
        for spans in spans.chunks(SPANS_PER_REQUEST) {
            self.send(spans).await?;
        }
        Ok(())
    }

    async fn send(&self, spans: &[Span]) -> Result<(), DriverError> {
        let answer = self.http.post(PATH, CONTENT_TYPE, encode(spans)).await?;
        if !(200..300).contains(&answer.status) {
            return Err(self.http.refused("write to", &answer));
        }
        // An answer of another format is a success all the same.
        match decode_answer(&answer.body) {
            Ok(Some((spans, reason))) if answer.content_type.contains("protobuf") => {
                let (target, spans) = (self.http.target().to_owned(), spans.unsigned_abs());
                Err(DriverError::Rejected { target, spans, reason: reason.chars().take(300).collect() })
            }
            _ => Ok(()),
        }
    }

    fn cannot_read(&self) -> DriverError {
        let target = self.http.target().to_owned();
        DriverError::NotOffered { action: "read from", target, reason: READ_ELSEWHERE }
    }
}

impl Open {
    /// The points that wait for too long, or are too many, other than those that ended.
    fn overdue(&self, now: Instant, ended: &[Key]) -> Vec<Key> {
        let ended: std::collections::HashSet<&Key> = ended.iter().collect();
        let mut waiting = self.starts.len();
        let mut overdue = Vec::new();
        for (since, key) in &self.order {
            if waiting <= OPEN_MAX && now.duration_since(*since) < WAIT_MAX {
                break;
            }
            if self.starts.contains_key(key) && !ended.contains(key) {
                overdue.push(key.clone());
            }
            waiting = waiting.saturating_sub(1);
        }
        overdue
    }

    fn forget<'a>(&mut self, keys: impl Iterator<Item = &'a Key>) {
        for key in keys {
            self.starts.remove(key);
        }
        while self.order.front().is_some_and(|(_, key)| !self.starts.contains_key(key)) {
            self.order.pop_front();
        }
        // One long point at the front must not keep the ended ones behind it.
        if self.order.len() > 2 * self.starts.len() + 1_024 {
            self.order.retain(|(_, key)| self.starts.contains_key(key));
        }
    }
}

fn key(record: &Record) -> Key {
    (record.base_id.clone(), record.trace_id.clone())
}

impl Driver for OtlpCollector {
    fn write<'a>(&'a self, records: &'a [Record]) -> Answer<'a, ()> {
        Box::pin(self.write(records))
    }

    fn records<'a>(&'a self, _base_id: &'a str) -> Answer<'a, Stored> {
        Box::pin(async { Err(self.cannot_read()) })
    }

    fn list<'a>(&'a self, _query: &'a TraceQuery) -> Answer<'a, Vec<TraceSummary>> {
        Box::pin(async { Err(self.cannot_read()) })
    }

    fn probe(&self) -> Answer<'_, ()> {
        Box::pin(self.send(&[]))
    }

    fn flush(&self) -> Answer<'_, ()> {
        Box::pin(self.flush())
    }

    fn target(&self) -> &str {
        self.http.target()
    }
}
