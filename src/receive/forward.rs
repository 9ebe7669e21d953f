//! Passes what was received on to the backend that the service had before, by OTLP/HTTP.
//!
//! Bodies go on as they came, with their content type, encoding and headers; bodies of gRPC go on as protobuf. The
//! queue is bounded in requests and bytes. A request that the backend cannot take now (429, 502, 503, 504, no
//! connection) is tried again with growing pauses; what is dropped is counted, in requests and spans.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use bytes::Bytes;
use http::header::{
    ACCEPT, ACCEPT_ENCODING, CONNECTION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, HOST,
    PROXY_AUTHENTICATE, PROXY_AUTHORIZATION, RETRY_AFTER, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, VIA,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use url::Url;

use super::counts::{Counters, add};
use client::plain::{PlainAnswer, PlainClient};
use osprofiler::spans::protobuf;

/// Where to pass everything on to.
#[derive(Clone)]
pub struct ForwardTarget {
    url: Url,
    client: PlainClient,
}

/// Bounds of what waits.
#[derive(Clone, Copy, Debug)]
pub struct ForwardLimits {
    /// The largest number of requests that wait.
    pub requests_max: usize,
    /// The largest number of bytes that wait.
    pub bytes_max: u64,
    /// The first pause before a request is tried again. It doubles each time.
    pub first_pause: Duration,
    /// The longest pause.
    pub pause_max: Duration,
    /// How often a request is tried.
    pub attempts_max: u32,
    /// How long what waits at the end has until it is dropped.
    pub flush: Duration,
}

impl Default for ForwardLimits {
    fn default() -> Self {
        Self {
            requests_max: 4_096,
            bytes_max: 64 << 20,
            first_pause: Duration::from_millis(250),
            pause_max: Duration::from_secs(10),
            attempts_max: 8,
            flush: Duration::from_secs(5),
        }
    }
}

impl ForwardTarget {
    /// A backend by its base URL, such as `http://127.0.0.1:4318`: `/v1/traces` is added. The client must not be used
    /// elsewhere: its connections live as long as the receiver.
    ///
    /// # Errors
    /// Why the URL is not valid, with an example.
    pub fn new(url: &str, client: PlainClient) -> Result<Self, String> {
        let mut url = Url::parse(url).map_err(|error| format!("{error}; write http://127.0.0.1:4318"))?;
        if !matches!(url.scheme(), "http" | "https") || url.host().is_none() {
            return Err("only http:// and https:// are known; write http://127.0.0.1:4318".to_owned());
        }
        let path = url.path().trim_end_matches('/');
        let path = path.strip_suffix("/v1/traces").unwrap_or(path).to_owned();
        url.set_path(&path);
        url.set_fragment(None);
        Ok(Self { url, client })
    }

    /// The URL for a path such as `v1/traces`.
    fn url(&self, path: &str) -> Url {
        let mut url = self.url.clone();
        url.set_path(&format!("{}/{path}", self.url.path().trim_end_matches('/')));
        url
    }
}

/// A request to pass on.
pub(super) struct ForwardRequest {
    /// Such as `v1/traces`.
    pub(super) path: &'static str,
    pub(super) content_type: &'static str,
    pub(super) is_gzip: bool,
    /// The headers that it came with.
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
    pub(super) spans: u64,
}

/// The tasks that empty the queue.
pub(super) struct Forward {
    queue: Queue,
    ending: CancellationToken,
    tasks: JoinSet<()>,
}

/// The end of the queue where requests are put.
#[derive(Clone)]
pub(super) struct Queue {
    sender: mpsc::Sender<QueuedRequest>,
    shared: Arc<ForwardState>,
}

struct ForwardState {
    target: ForwardTarget,
    limits: ForwardLimits,
    counters: Arc<Counters>,
    /// What waits.
    bytes: AtomicU64,
    /// How this receiver is named in `Via`, so that it notices requests that it sent itself.
    name: String,
}

/// A request in the queue. However it ends, it is counted once.
struct QueuedRequest {
    passed: ForwardRequest,
    bytes: u64,
    shared: Arc<ForwardState>,
    /// How many of its spans the backend rejected, once it has accepted the request.
    rejected: Option<u64>,
}

impl Drop for QueuedRequest {
    fn drop(&mut self) {
        let counters = &self.shared.counters;
        self.shared.bytes.fetch_sub(self.bytes, Relaxed);
        match self.rejected {
            Some(rejected) => {
                let rejected = rejected.min(self.passed.spans);
                add(&counters.forwarded_requests, 1);
                add(&counters.forwarded_spans, self.passed.spans - rejected);
                add(&counters.dropped_spans, rejected);
            }
            None => {
                add(&counters.dropped_requests, 1);
                add(&counters.dropped_spans, self.passed.spans);
            }
        }
    }
}

impl Queue {
    /// Puts a request into the queue, or drops it if there is no room.
    pub(super) fn push(&self, mut passed: ForwardRequest) {
        passed.headers = self.shared.passed_on(&passed.headers);
        let head: usize = passed.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        let bytes = (passed.body.len() + head) as u64;
        let before = self.shared.bytes.fetch_add(bytes, Relaxed);
        let waiting = QueuedRequest { passed, bytes, shared: Arc::clone(&self.shared), rejected: None };
        if before + bytes <= self.shared.limits.bytes_max {
            // A full queue gives it back, and that drops it.
            drop(self.sender.try_send(waiting));
        }
    }

    /// Whether a request with these headers was sent by this receiver.
    pub(super) fn is_own(&self, headers: &HeaderMap) -> bool {
        let mut via = headers.get_all(VIA).iter();
        via.any(|value| value.to_str().is_ok_and(|value| value.contains(&self.shared.name)))
    }
}

impl ForwardState {
    /// The headers that go on with a request: all but headers of the connection and of the body's form.
    fn passed_on(&self, headers: &HeaderMap) -> HeaderMap {
        let named: Vec<String> = headers
            .get_all(CONNECTION)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(',').map(|name| name.trim().to_ascii_lowercase()))
            .collect();
        let mut passed = HeaderMap::new();
        for (name, value) in headers {
            let text = name.as_str();
            let own = NOT_PASSED.contains(name) || text == "keep-alive" || text.starts_with("grpc-");
            if !own && !named.iter().any(|named| named == text) {
                passed.append(name.clone(), value.clone());
            }
        }
        if let Ok(via) = HeaderValue::from_str(&format!("1.1 {}", self.name)) {
            passed.append(VIA, via);
        }
        passed
    }
}

/// Headers of a connection or of a body's form (RFC 9110, 7.6.1).
const NOT_PASSED: [HeaderName; 14] = [
    ACCEPT,
    ACCEPT_ENCODING,
    CONNECTION,
    CONTENT_ENCODING,
    CONTENT_LENGTH,
    CONTENT_TYPE,
    EXPECT,
    HOST,
    PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION,
    TE,
    TRAILER,
    TRANSFER_ENCODING,
    UPGRADE,
];

/// Requests that are sent at the same time.
const SENDERS: usize = 4;

impl Forward {
    /// Starts the tasks, on the current runtime.
    pub(super) fn start(target: ForwardTarget, limits: ForwardLimits, counters: Arc<Counters>) -> Self {
        let name = format!("bench-receiver-{:016x}", fastrand::u64(..));
        let shared = Arc::new(ForwardState { target, limits, counters, bytes: AtomicU64::new(0), name });
        let (sender, receiver) = mpsc::channel(limits.requests_max.max(1));
        let (receiver, ending) = (Arc::new(Mutex::new(receiver)), CancellationToken::new());
        let mut tasks = JoinSet::new();
        for _ in 0..SENDERS {
            tasks.spawn(empty(Arc::clone(&receiver), ending.clone()));
        }
        Self { queue: Queue { sender, shared }, ending, tasks }
    }

    pub(super) fn queue(&self) -> Queue {
        self.queue.clone()
    }

    /// Ends the queue: what waits has a last chance.
    pub(super) async fn finish(mut self) {
        self.ending.cancel();
        let flush = self.queue.shared.limits.flush;
        let all = async { while self.tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(flush, all).await.is_err() {
            self.tasks.shutdown().await;
        }
    }
}

async fn empty(receiver: Arc<Mutex<mpsc::Receiver<QueuedRequest>>>, ending: CancellationToken) {
    loop {
        let next = {
            let mut receiver = receiver.lock().await;
            tokio::select! {
                biased;
                next = receiver.recv() => next,
                () = ending.cancelled() => {
                    receiver.close();
                    receiver.recv().await
                }
            }
        };
        let Some(mut waiting) = next else { return };
        waiting.send().await;
    }
}

/// What the backend said to a request.
enum BackendReply {
    /// Taken, but for this number of spans.
    Accepted(u64),
    /// Not now; in this time, if it says when.
    Later(Option<Duration>),
    Never,
}

impl QueuedRequest {
    async fn send(&mut self) {
        let limits = self.shared.limits;
        let mut pause = limits.first_pause;
        for attempt in 1..=limits.attempts_max {
            match self.attempt().await {
                BackendReply::Accepted(rejected) => {
                    self.rejected = Some(rejected);
                    return;
                }
                BackendReply::Later(_) if attempt == limits.attempts_max => return,
                BackendReply::Later(asked) => {
                    // Not all at the same moment.
                    let spread = pause.mul_f64(0.5 + fastrand::f64());
                    tokio::time::sleep(asked.unwrap_or(spread).min(limits.pause_max)).await;
                    pause = (pause * 2).min(limits.pause_max);
                }
                BackendReply::Never => return,
            }
        }
    }

    async fn attempt(&self) -> BackendReply {
        let passed = &self.passed;
        let mut headers = passed.headers.clone();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(passed.content_type));
        if passed.is_gzip {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        let target = &self.shared.target;
        let url = target.url(passed.path);
        match target.client.post_with(url.as_str(), headers, passed.body.clone()).await {
            Ok(answer) => said(&answer),
            // No connection, or it ended before the answer.
            Err(_) => BackendReply::Later(None),
        }
    }
}

/// Which answers mean what: the OTLP specification, "Failures" of OTLP/HTTP.
fn said(answer: &PlainAnswer) -> BackendReply {
    match answer.status {
        200..300 => {
            // Of an answer that cannot be read, all counts as accepted.
            let rejected = protobuf::decode_answer(&answer.body).ok().flatten();
            BackendReply::Accepted(rejected.map_or(0, |(spans, _)| u64::try_from(spans).unwrap_or(0)))
        }
        429 | 502 | 503 | 504 => {
            let seconds = answer.headers.get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
            BackendReply::Later(seconds.map(Duration::from_secs))
        }
        _ => BackendReply::Never,
    }
}
