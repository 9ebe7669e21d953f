//! What is done with a request's body, whichever protocol it came by: read, decompressed, taken apart, handed over.
//!
//! Bodies that have not arrived completely count against [`Limits::bodies_bytes_max`] with the bytes that have; a
//! sender that pauses for too long loses its place. Decompression and all after it happens at once on the
//! receiver's only thread, so a single decompressed body is in memory at a time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_ENCODING;
use http::{HeaderMap, HeaderValue};
use http_body_util::BodyExt as _;
use hyper::body::{Body as _, Incoming};
use tokio::time::Instant;

use super::Taker;
use super::answer::{ExportRefusal, limit_text};
use super::counts::{Counters, add};
use super::forward::{ForwardRequest, Queue};
use super::links::{Links, RecentRequests};
use super::wire::WireRequest;
use client::decode::decoded;
use client::error::ClientError;
use osprofiler::spans::translate;

/// This much of the reason for a refusal is kept.
const REASON_CHARS_MAX: usize = 200;

/// Bounds of what is received.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The largest number of connections. Beyond it, the one that has been idle for the longest time is closed.
    pub connections_max: usize,
    /// The largest body, in bytes as it is sent.
    pub body_bytes_max: u64,
    /// The largest body, in bytes after decompression.
    pub decompressed_bytes_max: u64,
    /// The largest number of bytes of all bodies that are in memory at a time, as they were sent.
    pub bodies_bytes_max: u64,
    /// The longest pause within a body.
    pub pause_max: Duration,
    /// How long a body may take to arrive.
    pub body_time_max: Duration,
    /// How long a connection may be open without a request.
    pub idle_max: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections_max: 1_024,
            body_bytes_max: 16 << 20,
            decompressed_bytes_max: 64 << 20,
            bodies_bytes_max: 64 << 20,
            pause_max: Duration::from_secs(5),
            body_time_max: Duration::from_secs(30),
            // Exporters send every few seconds.
            idle_max: Duration::from_secs(75),
        }
    }
}

/// What a request reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Signal {
    Traces,
    /// Accepted, so that the service logs no errors, and not kept.
    Metrics,
    Logs,
}

/// What a body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyFormat {
    Protobuf,
    Json,
}

/// A body that has arrived, with its place in memory.
pub(super) struct ArrivedBody<'i> {
    pub(super) bytes: Bytes,
    _held: BodyMemoryGuard<'i>,
}

/// A request of any protocol.
pub(super) struct Export<'a> {
    pub(super) signal: Signal,
    pub(super) format: BodyFormat,
    pub(super) is_gzip: bool,
    pub(super) headers: &'a HeaderMap,
    pub(super) body: Bytes,
}

/// What all requests share.
pub(super) struct Intake {
    pub(super) taker: Arc<dyn Taker>,
    pub(super) counters: Arc<Counters>,
    pub(super) forward: Option<Queue>,
    pub(super) limits: Limits,
    /// Bytes of bodies in memory.
    pub(super) held: AtomicU64,
    /// What is known of links to wanted traces.
    pub(super) linked: Mutex<LinkState>,
}

/// Traces that belong to wanted ones because of links, and requests in which more of their spans may be.
pub(super) struct LinkState {
    links: Links,
    recent: RecentRequests,
}

impl Default for LinkState {
    fn default() -> Self {
        Self { links: Links::new(), recent: RecentRequests::default() }
    }
}

/// Bytes of a body in memory.
struct BodyMemoryGuard<'i> {
    held: &'i AtomicU64,
    bytes: u64,
}

impl Drop for BodyMemoryGuard<'_> {
    fn drop(&mut self) {
        self.held.fetch_sub(self.bytes, Relaxed);
    }
}

/// A body that is arriving; counted if it never does, even if its connection is gone.
struct ArrivalGuard<'i> {
    counters: &'i Counters,
    is_over: bool,
}

impl Drop for ArrivalGuard<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            add(&self.counters.incomplete, 1);
        }
    }
}

impl Signal {
    /// The path of OTLP/HTTP, without its leading slash.
    pub(super) fn path(self) -> &'static str {
        match self {
            Self::Traces => "v1/traces",
            Self::Metrics => "v1/metrics",
            Self::Logs => "v1/logs",
        }
    }
}

impl BodyFormat {
    pub(super) fn content_type(self) -> &'static str {
        match self {
            Self::Protobuf => "application/x-protobuf",
            Self::Json => "application/json",
        }
    }
}

impl Intake {
    pub(super) fn new(
        taker: Arc<dyn Taker>,
        counters: Arc<Counters>,
        forward: Option<Queue>,
        limits: Limits,
    ) -> Self {
        Self { taker, counters, forward, limits, held: AtomicU64::new(0), linked: Mutex::default() }
    }

    pub(super) async fn read(&self, body: &mut Incoming) -> Result<ArrivedBody<'_>, ExportRefusal> {
        let mut arriving = ArrivalGuard { counters: &self.counters, is_over: false };
        let mut held = BodyMemoryGuard { held: &self.held, bytes: 0 };
        let end = Instant::now() + self.limits.body_time_max;
        let mut bytes = Vec::new();
        if body.size_hint().lower() > self.limits.body_bytes_max {
            arriving.is_over = true;
            return Err(self.too_large());
        }
        while let Some(data) = self.piece(body, end).await? {
            let length = data.len() as u64;
            held.bytes += length;
            let all = self.held.fetch_add(length, Relaxed) + length;
            if held.bytes > self.limits.body_bytes_max || all > self.limits.bodies_bytes_max {
                arriving.is_over = true;
                let is_own = held.bytes > self.limits.body_bytes_max;
                return Err(if is_own { self.too_large() } else { ExportRefusal::Busy });
            }
            bytes.extend_from_slice(&data);
        }
        arriving.is_over = true;
        Ok(ArrivedBody { bytes: Bytes::from(bytes), _held: held })
    }

    fn too_large(&self) -> ExportRefusal {
        let limit = limit_text(self.limits.body_bytes_max);
        ExportRefusal::TooLarge(format!("the body is larger than {limit}; send smaller batches"))
    }

    /// The next piece of a body; `None` at its end.
    async fn piece(&self, body: &mut Incoming, end: Instant) -> Result<Option<Bytes>, ExportRefusal> {
        loop {
            let limit = end.min(Instant::now() + self.limits.pause_max);
            match tokio::time::timeout_at(limit, body.frame()).await {
                Ok(Some(Ok(frame))) => {
                    // Trailers say nothing here.
                    if let Ok(data) = frame.into_data() {
                        return Ok(Some(data));
                    }
                }
                Ok(None) => return Ok(None),
                Ok(Some(Err(_))) | Err(_) => return Err(ExportRefusal::Incomplete),
            }
        }
    }

    /// Reads what is left of a refused request's body, within limits. A client that is still sending would not see the answer.
    pub(super) async fn discard(&self, mut body: Incoming) {
        let end = Instant::now() + self.limits.body_time_max;
        let mut left = self.limits.body_bytes_max.saturating_mul(4);
        while let Ok(Some(data)) = self.piece(&mut body, end).await {
            left = left.saturating_sub(data.len() as u64);
            if left == 0 {
                return;
            }
        }
    }

    /// Takes what a request brings. Returns how many of its spans have no valid ids.
    pub(super) fn accept(&self, export: Export<'_>) -> Result<u64, ExportRefusal> {
        if self.forward.as_ref().is_some_and(|forward| forward.is_own(export.headers)) {
            return Err(ExportRefusal::Loop);
        }
        let counters = &self.counters;
        let (mut spans, mut invalid) = (0, 0);
        if export.signal == Signal::Traces {
            (spans, invalid) = self.traces(&export)?;
            add(&counters.requests, 1);
            add(&counters.bytes, export.body.len() as u64);
        } else {
            add(&counters.other_signals, 1);
        }
        if let Some(forward) = &self.forward {
            forward.push(ForwardRequest {
                path: export.signal.path(),
                content_type: export.format.content_type(),
                is_gzip: export.is_gzip,
                headers: export.headers.clone(),
                body: export.body,
                spans,
            });
        }
        Ok(invalid)
    }

    /// Hands the spans of a body over. Returns how many there are, and how many of them have no valid ids.
    fn traces(&self, export: &Export<'_>) -> Result<(u64, u64), ExportRefusal> {
        let unpacked = self.unpacked(export)?.map(Bytes::from);
        let body = unpacked.unwrap_or_else(|| export.body.clone());
        let body = match export.format {
            BodyFormat::Protobuf => body,
            BodyFormat::Json => {
                let malformed =
                    |error| ExportRefusal::Malformed(format!("the body is not OTLP's JSON: {error}"));
                Bytes::from(translate::to_protobuf(&body).map_err(malformed)?)
            }
        };
        let mut linked = self.linked.lock().unwrap_or_else(PoisonError::into_inner);
        let request = WireRequest::read(&body, &mut linked.links, |trace_id| self.taker.wants(trace_id));
        let added = linked.links.take_added();
        add(&self.counters.links_ignored, linked.links.take_ignored());
        let mut request = request?;
        request.deliver(|trace_id, spans, message| self.taker.take(trace_id, spans, message));
        add(&self.counters.spans, request.wanted());
        self.counters.per_second.add(request.wanted());
        add(&self.counters.linked_spans, request.linked);
        add(&self.counters.foreign_spans, request.foreign);
        add(&self.counters.invalid_spans, request.invalid);
        let spans = request.wanted() + request.linked + request.foreign + request.invalid;
        let (invalid, foreign) = (request.invalid, std::mem::take(&mut request.foreign_traces));
        if !added.is_empty() {
            self.earlier(&linked.recent, &added);
        }
        if !foreign.is_empty() {
            linked.recent.push(body, foreign);
        }
        Ok((spans, invalid))
    }

    /// Hands over what came in earlier requests of traces that, as is known now, belong to wanted ones.
    fn earlier(&self, recent: &RecentRequests, added: &[(u128, u128)]) {
        let mut links = Links::only(added);
        let bodies: Vec<&Bytes> = recent.with(&links).collect();
        for body in bodies {
            // Spans that were not wanted were not checked when they came.
            let Ok(request) = WireRequest::read(body, &mut links, |_| false) else {
                add(&self.counters.links_ignored, 1);
                continue;
            };
            request.deliver(|trace_id, spans, message| self.taker.take(trace_id, spans, message));
            add(&self.counters.linked_spans, request.linked);
            self.counters.foreign_spans.fetch_sub(request.linked, Relaxed);
        }
        add(&self.counters.links_ignored, links.take_ignored());
    }

    /// The body decompressed, if it was compressed.
    fn unpacked(&self, export: &Export<'_>) -> Result<Option<Vec<u8>>, ExportRefusal> {
        if !export.is_gzip {
            return Ok(None);
        }
        let coding = HeaderMap::from_iter([(CONTENT_ENCODING, HeaderValue::from_static("gzip"))]);
        let limit = self.limits.decompressed_bytes_max;
        decoded(Some(&coding), &export.body, limit).map_err(|error| match error {
            ClientError::BodyTooLarge { .. } => ExportRefusal::TooLarge(format!(
                "the body is larger than {} when decompressed; send smaller batches",
                limit_text(limit)
            )),
            _ => ExportRefusal::Malformed("the body is not valid gzip".to_owned()),
        })
    }

    /// Counts a refused request.
    pub(super) fn count(&self, refusal: &ExportRefusal) {
        let counters = &self.counters;
        counters.first_refusal.get_or_init(|| refusal.to_string().chars().take(REASON_CHARS_MAX).collect());
        match refusal {
            ExportRefusal::Malformed(_) | ExportRefusal::Loop => add(&counters.malformed, 1),
            ExportRefusal::TooLarge(_) => add(&counters.too_large, 1),
            ExportRefusal::Busy => add(&counters.busy, 1),
            ExportRefusal::Unsupported(..) => add(&counters.unsupported, 1),
            // Counted by the body that did not arrive.
            ExportRefusal::Incomplete => {}
        }
    }
}
