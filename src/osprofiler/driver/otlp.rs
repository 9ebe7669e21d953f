//! OTLP: spans by HTTP in protobuf to `<url>/v1/traces`, for any OpenTelemetry backend.
//!
//! A span needs both records of a point, so a start waits here for its stop, by its ids. Concurrent
//! points never take each other's stops (OSProfiler's own driver has one stack for each process, and
//! its threads swap stops). A start that waited for a minute, or that is one too many, is sent as a
//! span that says `osprofiler.missing: stop`. If its stop comes after all, that is sent likewise, and
//! the readers put both together. OTLP cannot be read: Jaeger's and Tempo's drivers do that.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::time::{Duration, Instant};

use tokio::sync::Mutex;

use super::http::CollectorHttpClient;
use super::{BacklogFuture, CollectorTrace, Driver, DriverAnswer, DriverError, TraceQuery, TraceSummary};
use crate::record::{STOP_SUFFIX, TraceRecord};
use crate::spans::protobuf::{CONTENT_TYPE, decode_answer, encode};
use crate::spans::{TraceSpan, write};

const PATH: &str = "/v1/traces";
const DEFAULT_PORT: u16 = 4318;
/// Spans for each request; receivers refuse bodies of more than some megabytes.
const SPANS_PER_REQUEST: usize = 1_000;
/// Bytes of a request with several spans; receivers allow for 4 MiB or more.
const REQUEST_BYTES_MAX: usize = 1024 * 1024;
/// How often the requests of one call are halved because they are refused.
const SPLITS_MAX: u32 = 100;
/// Points that may be open at once.
const OPEN_MAX: usize = 65_536;
const WAIT_MAX: Duration = Duration::from_secs(60);
const READ_ELSEWHERE: &str = "OTLP only takes spans; read them from the backend that keeps them, with \
    jaeger://host:16686 or tempo://host:3200";

type Key = (String, String);

/// A receiver of OTLP; see [`super::Collector`].
#[derive(Debug)]
pub(super) struct OtlpCollector {
    http: CollectorHttpClient,
    open: Mutex<OpenPoints>,
}

/// Points whose stop has not come.
#[derive(Debug, Default)]
struct OpenPoints {
    starts: HashMap<Key, TraceRecord>,
    /// Oldest first; some of them may have ended.
    order: VecDeque<(Instant, Key)>,
}

impl OtlpCollector {
    /// Whether the connection string can be read.
    pub(super) fn check(url: &str, target: String) -> Result<(), DriverError> {
        Self::http(url, target).map(drop)
    }

    fn http(url: &str, target: String) -> Result<CollectorHttpClient, DriverError> {
        let scheme = if url.starts_with("otlps://") { "https" } else { "http" };
        CollectorHttpClient::new(url, target, scheme, DEFAULT_PORT)
    }

    pub(super) async fn connect(url: &str, target: String) -> Result<Self, DriverError> {
        let collector = Self { http: Self::http(url, target)?, open: Mutex::default() };
        collector.send(encode(&[])).await?;
        Ok(collector)
    }

    async fn write(&self, records: &[TraceRecord]) -> Result<(), DriverError> {
        let mut open = self.open.lock().await;
        let now = Instant::now();
        let (mut added, mut ended) = (Vec::new(), Vec::new());
        let mut out = OutgoingSpans::default();
        for record in records {
            let key = key(record);
            if record.name.ends_with(STOP_SUFFIX) {
                out.add(open.starts.get(&key), Some(record));
                ended.push(key);
            } else if !open.starts.contains_key(&key) {
                open.order.push_back((now, key.clone()));
                open.starts.insert(key.clone(), record.clone());
                added.push(key);
            }
        }
        let overdue = open.overdue(now, &ended);
        for key in &overdue {
            out.add(open.starts.get(key), None);
        }
        let sent = self.send_all(&out).await;
        match &sent {
            Ok(()) | Err(DriverError::Rejected { .. }) => open.forget(ended.iter().chain(&overdue)),
            // These records were not taken; records of earlier calls still wait.
            Err(_) => open.forget(added.iter()),
        }
        sent
    }

    async fn flush(&self) -> Result<(), DriverError> {
        let mut open = self.open.lock().await;
        let mut out = OutgoingSpans::default();
        for start in open.starts.values() {
            out.add(Some(start), None);
        }
        let sent = self.send_all(&out).await;
        if matches!(sent, Ok(()) | Err(DriverError::Rejected { .. })) {
            *open = OpenPoints::default();
        }
        sent
    }

    /// Sends spans in requests that a receiver takes. What it refuses is found by halving, so that a span
    /// costs none of the others.
    async fn send_all(&self, out: &OutgoingSpans) -> Result<(), DriverError> {
        let mut parts: Vec<Range<usize>> = std::iter::once(0..out.spans.len()).collect();
        let mut lost = RejectedSpans::default();
        let mut splits_left = SPLITS_MAX;
        while let Some(part) = parts.pop().filter(|part| !part.is_empty()) {
            let middle = part.start + part.len() / 2;
            let body =
                if part.len() > SPANS_PER_REQUEST { None } else { Some(encode(&out.spans[part.clone()])) };
            let Some(body) = body.filter(|body| body.len() <= REQUEST_BYTES_MAX || part.len() == 1) else {
                parts.extend([middle..part.end, part.start..middle]);
                continue;
            };
            match self.send(body).await {
                Ok(()) => {}
                Err(DriverError::Rejected { spans, reason, .. }) => {
                    lost.add(spans, out.records_in(&part).min(spans.saturating_mul(2)), reason);
                }
                Err(error) if !self.is_about_content(&error).await => return Err(error),
                Err(_) if part.len() > 1 && splits_left > 0 => {
                    splits_left -= 1;
                    parts.extend([middle..part.end, part.start..middle]);
                }
                Err(error) => lost.add(part.len() as u64, out.records_in(&part), error.chain()),
            }
        }
        let target = self.http.target().to_owned();
        let RejectedSpans { spans, records, reason } = lost;
        reason.map_or(Ok(()), |reason| Err(DriverError::Rejected { target, spans, records, reason }))
    }

    /// Whether a refusal is one of these spans, and not of everything.
    async fn is_about_content(&self, error: &DriverError) -> bool {
        error.refuses_content()
            || matches!(error, DriverError::Status { status: 500, .. })
                && self.send(encode(&[])).await.is_ok()
    }

    async fn send(&self, body: Vec<u8>) -> Result<(), DriverError> {
        let answer = self.http.post(PATH, CONTENT_TYPE, body).await?;
        if !(200..300).contains(&answer.status) {
            return Err(self.http.refused("write to", &answer));
        }
        // An answer of another format is a success all the same.
        match decode_answer(&answer.body) {
            Ok(Some((spans, reason))) if answer.content_type.contains("protobuf") => {
                let (target, spans) = (self.http.target().to_owned(), spans.unsigned_abs());
                let reason = reason.chars().take(300).collect();
                Err(DriverError::Rejected { target, spans, records: spans.saturating_mul(2), reason })
            }
            _ => Ok(()),
        }
    }

    fn cannot_read(&self) -> DriverError {
        let target = self.http.target().to_owned();
        DriverError::NotOffered { action: "read from", target, reason: READ_ELSEWHERE }
    }
}

/// Spans on their way.
#[derive(Default)]
struct OutgoingSpans {
    spans: Vec<TraceSpan>,
    /// How many records each of them holds.
    records: Vec<u64>,
}

impl OutgoingSpans {
    fn add(&mut self, start: Option<&TraceRecord>, stop: Option<&TraceRecord>) {
        if let Some(span) = write::span(start, stop) {
            self.spans.push(span);
            self.records.push(u64::from(start.is_some()) + u64::from(stop.is_some()));
        }
    }

    fn records_in(&self, part: &Range<usize>) -> u64 {
        self.records[part.clone()].iter().sum()
    }
}

/// What the receiver does not take.
#[derive(Default)]
struct RejectedSpans {
    spans: u64,
    records: u64,
    reason: Option<String>,
}

impl RejectedSpans {
    fn add(&mut self, spans: u64, records: u64, reason: String) {
        self.spans = self.spans.saturating_add(spans);
        self.records = self.records.saturating_add(records);
        self.reason.get_or_insert(reason);
    }
}

impl OpenPoints {
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

fn key(record: &TraceRecord) -> Key {
    (record.base_id.to_string(), record.trace_id.to_string())
}

impl Driver for OtlpCollector {
    fn write<'a>(&'a self, records: &'a [TraceRecord]) -> DriverAnswer<'a, ()> {
        Box::pin(self.write(records))
    }

    fn records<'a>(&'a self, _base_id: &'a str) -> DriverAnswer<'a, CollectorTrace> {
        Box::pin(async { Err(self.cannot_read()) })
    }

    fn list<'a>(&'a self, _query: &'a TraceQuery) -> DriverAnswer<'a, Vec<TraceSummary>> {
        Box::pin(async { Err(self.cannot_read()) })
    }

    fn probe(&self) -> DriverAnswer<'_, ()> {
        Box::pin(self.send(encode(&[])))
    }

    fn flush(&self) -> DriverAnswer<'_, ()> {
        Box::pin(self.flush())
    }

    fn held(&self) -> BacklogFuture<'_> {
        Box::pin(async { self.open.lock().await.starts.len() as u64 })
    }

    fn target(&self) -> &str {
        self.http.target()
    }
}
