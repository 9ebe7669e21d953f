//! HTTP/2 for the load path, on the h2 crate: connections of a single virtual user, or shared by the
//! users of a worker.
//!
//! The request itself drives a connection of a single user, which saves two task switches per request; a
//! shared connection has its own task. Frames that arrive on an idle connection (a ping, GOAWAY) are read
//! before the next request. Nothing is sent again here; see [`super::pool`] for requests that the server did not process.
//! A stream ends with its request.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::{Connection, SendRequest};
use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderValue, SET_COOKIE, TE, TRANSFER_ENCODING, UPGRADE,
};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderName, Method, Uri};

use base::clock::{now, saturating_nanos};

use super::body::{BodyContent, Source};
use super::connect::{OpenedConnection, Stream};
use super::error::{ClientError, chain, when};
use super::frames::{self, FrameObservation, Frames};
use super::framing::KeepHeaders;
use super::headers::HeaderBlock;
use super::options::Limits;
use super::retransmits::{Ends, Span, Wire};
use super::{Answer, Request};
use measure::phases::Phases;
use measure::protocol::HTTP2;

/// How much a server may send before it is read: for a single answer, and for all.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 4 << 20;
/// A connection that was idle for longer is checked before reuse, as in HTTP/1.1.
const LOOK_AFTER_IDLE: Duration = Duration::from_micros(50);
/// Values up to this length may enter the header compression table. Longer values are tokens or trace headers; they
/// often change and would only evict others.
const INDEXED_BYTES_MAX: usize = 64;
/// Headers of HTTP/1.1's connections, which HTTP/2 forbids (RFC 9113, section 8.2.2).
const FORBIDDEN: [HeaderName; 6] = [
    CONNECTION,
    TRANSFER_ENCODING,
    UPGRADE,
    TE,
    HeaderName::from_static("keep-alive"),
    HeaderName::from_static("proxy-connection"),
];

/// A connection of a single user.
pub(super) struct Http2 {
    sender: SendRequest<Bytes>,
    /// `None` once it has ended.
    driver: Option<Pin<Box<Connection<Frames, Bytes>>>>,
    /// Why it ended, if the server gave a reason.
    farewell: Option<h2::Reason>,
    seen: Arc<FrameObservation>,
    limits: Limits,
    /// The number of its address, if the host has several.
    address: u16,
    requests: u64,
    idle_since: Instant,
    wire: (Wire, Option<Ends>),
}

/// A connection that several users share.
pub(super) struct SharedHttp2 {
    sender: SendRequest<Bytes>,
    driver: tokio::task::JoinHandle<()>,
    farewell: Arc<OnceLock<h2::Reason>>,
    seen: Arc<FrameObservation>,
    limits: Limits,
    /// The number of its address, if the host has several.
    address: u16,
    requests: Cell<u64>,
    /// Requests in flight.
    pub(super) in_flight: Cell<usize>,
    /// When the last one ended.
    idle_since: Cell<Instant>,
    wire: (Wire, Option<Ends>),
}

async fn handshake(
    stream: Stream,
    limits: &Limits,
    seen: &Arc<FrameObservation>,
) -> Result<(SendRequest<Bytes>, Connection<Frames, Bytes>), ClientError> {
    let list_bytes = u32::try_from(limits.head_bytes_max).unwrap_or(u32::MAX);
    h2::client::Builder::new()
        .enable_push(false)
        .initial_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_header_list_size(list_bytes)
        .handshake(Frames::new(stream, seen))
        .await
        .map_err(|error| fault(&error, (false, false, false), seen, limits))
}

impl Http2 {
    pub(super) async fn new(opened: OpenedConnection, limits: Limits) -> Result<Self, ClientError> {
        let OpenedConnection { stream, address, syns, .. } = opened;
        let wire = (Wire::new(syns, None), stream.ends());
        let seen = Arc::default();
        let (sender, connection) = handshake(stream, &limits, &seen).await?;
        let driver = Some(Box::pin(connection));
        Ok(Self {
            sender,
            driver,
            farewell: None,
            seen,
            limits,
            address,
            requests: 0,
            idle_since: now(),
            wire,
        })
    }

    /// True if another request can be sent without a check, because the last answer was very recent.
    pub(super) fn was_just_used(&self, now: Instant) -> bool {
        self.driver.is_some() && now.saturating_duration_since(self.idle_since) < LOOK_AFTER_IDLE
    }

    /// Since when it has been idle.
    pub(super) fn idle_since(&self) -> Instant {
        self.idle_since
    }

    /// True if another request can be sent; reads what the server sent in the meantime.
    pub(super) async fn is_usable(&mut self) -> bool {
        poll_fn(|cx| {
            let Some(driver) = &mut self.driver else { return Poll::Ready(false) };
            if driver.as_mut().poll(cx).is_ready() {
                self.driver = None;
                return Poll::Ready(false);
            }
            // After GOAWAY, the connection may stay open, but takes no new requests.
            Poll::Ready(!matches!(self.sender.poll_ready(cx), Poll::Ready(Err(_))))
        })
        .await
    }

    /// Sends a request and reads its answer; records the phases send, wait and receive. Afterwards,
    /// [`Self::is_open`] tells whether the connection can be reused.
    pub(super) async fn exchange(
        &mut self,
        request: &Request<'_>,
        phases: &mut Phases,
    ) -> Result<Answer, ClientError> {
        let reused = self.requests > 0;
        self.requests += 1;
        phases.address = self.address;
        let mut times = StreamTimes::start(request, phases);
        let Self { sender, driver, farewell, limits, wire, .. } = self;
        let asked = PendingRequest::new(wire, request);
        let outcome = {
            let written = Cell::new(None);
            let mut talk = pin!(talk(sender, request, limits, &mut times));
            let outcome = poll_fn(|cx| {
                // Before the request exists, there is nothing to drive. Later, received frames are read first,
                // so that the answer is seen at once.
                if written.get().is_some() {
                    drive(driver, farewell, cx);
                }
                let outcome = talk.as_mut().poll(cx);
                if outcome.is_pending() && written.get().is_none() {
                    drive(driver, farewell, cx);
                    written.set(Some(now()));
                }
                outcome
            })
            .await;
            (outcome, written.get())
        };
        let (outcome, written) = outcome;
        times.sent = times.sent.max(written);
        self.idle_since = times.note(phases);
        asked.ended(&times, self.idle_since, &outcome, phases);
        outcome.map_err(|error| error.explained(&times, reused, self.farewell, (&self.seen, &self.limits)))
    }

    /// False once the connection has ended, or its server has said that it will: it takes no more requests.
    pub(super) fn is_open(&self) -> bool {
        self.driver.is_some() && !self.seen.is_going_away()
    }
}

/// Drives the connection: writes and reads.
fn drive(
    driver: &mut Option<Pin<Box<Connection<Frames, Bytes>>>>,
    farewell: &mut Option<h2::Reason>,
    cx: &mut Context<'_>,
) {
    let Some(driving) = driver else { return };
    // The request gets the error too.
    if let Poll::Ready(ended) = driving.as_mut().poll(cx) {
        *farewell = ended.err().and_then(|error| remote_reason(&error));
        *driver = None;
    }
}

/// The reason that the server gave with GOAWAY.
fn remote_reason(error: &h2::Error) -> Option<h2::Reason> {
    error.reason().filter(|_| error.is_remote() && error.is_go_away())
}

impl SharedHttp2 {
    pub(super) async fn new(opened: OpenedConnection, limits: Limits) -> Result<Self, ClientError> {
        let OpenedConnection { stream, address, syns, .. } = opened;
        let wire = (Wire::new(syns, Some(now())), stream.ends());
        let seen = Arc::default();
        let (sender, mut connection) = handshake(stream, &limits, &seen).await?;
        let ping_pong = connection.ping_pong();
        let farewell = Arc::new(OnceLock::new());
        let heard = Arc::clone(&farewell);
        let driver = tokio::spawn(async move {
            // The requests get the error too.
            if let Some(reason) = connection.await.err().and_then(|error| remote_reason(&error)) {
                let _ = heard.set(reason);
            }
        });
        let (requests, in_flight, idle_since) = (Cell::new(0), Cell::new(0), Cell::new(now()));
        let shared =
            Self { sender, driver, farewell, seen, limits, address, requests, in_flight, idle_since, wire };
        if let Some(mut ping_pong) = ping_pong {
            // The server's settings arrive before its pong; only then is the number of concurrent requests
            // known. If the server ends the connection instead, the request gets that error.
            let _ = ping_pong.ping(h2::Ping::opaque()).await;
        }
        Ok(shared)
    }

    /// False if the connection has ended, or takes no more requests.
    pub(super) async fn is_open(&self) -> bool {
        let mut sender = self.sender.clone();
        let refused = poll_fn(|cx| Poll::Ready(matches!(sender.poll_ready(cx), Poll::Ready(Err(_))))).await;
        !refused && !self.driver.is_finished()
    }

    /// Since when it has been idle: `now` while it serves requests.
    pub(super) fn idle_since(&self, now: Instant) -> Instant {
        match self.in_flight.get() {
            0 => self.idle_since.get(),
            _ => now,
        }
    }

    /// True while the server accepts a further concurrent request.
    pub(super) fn has_room(&self) -> bool {
        self.in_flight.get() < self.sender.current_max_send_streams()
    }

    /// Sends a request and reads its answer; records the phases send, wait and receive.
    pub(super) async fn exchange(
        &self,
        request: &Request<'_>,
        phases: &mut Phases,
    ) -> Result<Answer, ClientError> {
        let reused = self.requests.replace(self.requests.get() + 1) > 0;
        phases.address = self.address;
        self.in_flight.set(self.in_flight.get() + 1);
        let _under_way = InFlightGuard(&self.in_flight);
        let asked = PendingRequest::new(&self.wire, request);
        let mut times = StreamTimes::start(request, phases);
        let mut sender = self.sender.clone();
        let outcome = talk(&mut sender, request, &self.limits, &mut times).await;
        let ended = times.note(phases);
        self.idle_since.set(ended);
        asked.ended(&times, ended, &outcome, phases);
        let farewell = self.farewell.get().copied();
        outcome.map_err(|error| error.explained(&times, reused, farewell, (&self.seen, &self.limits)))
    }
}

impl Drop for SharedHttp2 {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// A request in flight, or cut off.
struct InFlightGuard<'a>(&'a Cell<usize>);

impl Drop for InFlightGuard<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A request that waits for its answer: what TCP repeats meanwhile is noted in the end, also if it is given up.
struct PendingRequest<'a> {
    wire: Option<&'a (Wire, Option<Ends>)>,
    started: Instant,
}

impl<'a> PendingRequest<'a> {
    fn new(wire: &'a (Wire, Option<Ends>), request: &Request<'_>) -> Self {
        Self { wire: Some(wire), started: request.started }
    }

    fn ended<E>(
        mut self,
        times: &StreamTimes,
        ended: Instant,
        outcome: &Result<Answer, E>,
        phases: &mut Phases,
    ) {
        if let Some((wire, ends)) = self.wire.take() {
            let written = times.sent.unwrap_or(times.started);
            let span = Span { started: self.started, written, ended };
            let bytes = outcome.as_ref().map_or(0, |answer| answer.body_bytes);
            wire.note(|| *ends, span, bytes, &mut phases.retransmits);
        }
    }
}

impl Drop for PendingRequest<'_> {
    fn drop(&mut self) {
        if let Some((wire, ends)) = self.wire {
            wire.cut_off(|| *ends, self.started, self.started);
        }
    }
}

/// The times of a request.
struct StreamTimes {
    started: Instant,
    sent: Option<Instant>,
    first: Option<Instant>,
    /// The number of its stream, once it has one.
    stream: Option<u32>,
}

impl StreamTimes {
    fn start(request: &Request<'_>, phases: &mut Phases) -> Self {
        phases.version = HTTP2;
        let started = if phases.opened { now() } else { request.started };
        Self { started, sent: None, first: None, stream: None }
    }

    /// Records the phases; returns the time at which the answer ended.
    fn note(&self, phases: &mut Phases) -> Instant {
        let ended = now();
        let first = self.first.unwrap_or(ended);
        // An answer may begin before the whole request is sent.
        let sent = self.sent.unwrap_or(ended).min(first);
        phases.send_ns = saturating_nanos(sent.saturating_duration_since(self.started));
        phases.wait_ns = saturating_nanos(first.saturating_duration_since(sent));
        phases.receive_ns = saturating_nanos(ended - first);
        ended
    }
}

/// Why there is no answer.
enum Http2Failure {
    Connection(h2::Error),
    Answer(ClientError),
}

impl Http2Failure {
    fn explained(
        self,
        times: &StreamTimes,
        reused: bool,
        farewell: Option<h2::Reason>,
        (seen, limits): (&FrameObservation, &Limits),
    ) -> ClientError {
        let answered = times.first.is_some();
        // A request that was not sent was not processed.
        let left_out = !answered && times.stream.is_none_or(|stream| seen.left_out(stream));
        match self {
            // The server had announced the end of the connection.
            Self::Connection(error) => match farewell.filter(|_| error.is_io()) {
                Some(reason) => ClientError::going_away(reason, answered, reused, left_out),
                None => fault(&error, (answered, reused, left_out), seen, limits),
            },
            Self::Answer(error) => error,
        }
    }
}

/// An error of HTTP/2. The flags: the answer had begun, the connection had served a request before, the server has left
/// the request out.
fn fault(
    error: &h2::Error,
    (answered, reused, left_out): (bool, bool, bool),
    seen: &FrameObservation,
    limits: &Limits,
) -> ClientError {
    if let Some(error) = error.get_io() {
        return match error.to_string() {
            text if text == frames::FLOOD => ClientError::Limit(text),
            text if text == frames::STATUS_BEHIND => ClientError::Protocol(text),
            _ => ClientError::closed(error, answered, reused),
        };
    }
    let reason = || match error.reason() {
        // `Debug` gives the name that RFC 9113 uses.
        Some(reason) => format!("{reason:?}"),
        None => error.to_string(),
    };
    if error.is_remote() && error.is_go_away() {
        let reason = error.reason().unwrap_or(h2::Reason::NO_ERROR);
        return ClientError::going_away(reason, answered, reused, left_out);
    }
    if error.is_remote() {
        let unprocessed = error.reason() == Some(h2::Reason::REFUSED_STREAM) && !answered;
        return ClientError::Reset { when: when(answered, reused), reason: reason(), unprocessed };
    }
    match error.reason() {
        // The crate's own limits against floods.
        Some(h2::Reason::ENHANCE_YOUR_CALM) => ClientError::Limit(format!("HTTP/2: {}", chain(error))),
        // Text that is read as a frame has an absurd length.
        Some(h2::Reason::FRAME_SIZE_ERROR) if !answered && !reused => {
            ClientError::Protocol("it is not HTTP/2; does the server support HTTP/2?".to_owned())
        }
        Some(h2::Reason::PROTOCOL_ERROR) => seen.explain(limits),
        _ => ClientError::Protocol(format!("HTTP/2: {} ({})", chain(error), reason())),
    }
}

impl From<h2::Error> for Http2Failure {
    fn from(error: h2::Error) -> Self {
        Self::Connection(error)
    }
}

async fn talk(
    sender: &mut SendRequest<Bytes>,
    request: &Request<'_>,
    limits: &Limits,
    times: &mut StreamTimes,
) -> Result<Answer, Http2Failure> {
    let head = head(request).map_err(Http2Failure::Answer)?;
    poll_fn(|cx| sender.poll_ready(cx)).await?;
    let body = match request.body {
        BodyContent::Bytes(bytes) => Source::of(bytes),
        // A separate future, because it is rare and needs memory.
        parts => Box::pin(parts.open()).await.map_err(Http2Failure::Answer)?,
    };
    let (response, mut stream) = sender.send_request(head, request.body.is_empty())?;
    times.stream = Some(response.stream_id().into());
    let mut response = pin!(response);
    let mut sending = pin!(send_body(&mut stream, body));
    let mut unsent = !request.body.is_empty();
    let sent = &mut times.sent;
    let response = poll_fn(|cx| {
        // A server may answer before it has read the whole request; the answer counts. An error of sending
        // that matters ends the answer too.
        if unsent && let Poll::Ready(sent) = sending.as_mut().poll(cx) {
            unsent = false;
            if let Err(Http2Failure::Answer(error)) = sent {
                return Poll::Ready(Err(Http2Failure::Answer(error)));
            }
        }
        if !unsent && sent.is_none() {
            *sent = Some(now());
        }
        response.as_mut().poll(cx).map_err(Http2Failure::Connection)
    })
    .await?;
    times.first = Some(now());
    let (head, mut body) = response.into_parts();
    if head.headers.len() > limits.headers_max {
        return Err(Http2Failure::Answer(limits.headers_exceeded()));
    }
    let (mut kept, bytes_kept) = (Vec::new(), request.bytes_kept(head.status));
    let mut length = 0_u64;
    while let Some(data) = poll_fn(|cx| body.poll_data(cx)).await {
        let data = data?;
        length += data.len() as u64;
        if length > request.body_bytes_max {
            return Err(Http2Failure::Answer(ClientError::BodyTooLarge { limit: request.body_bytes_max }));
        }
        body.flow_control().release_capacity(data.len())?;
        super::keep(&mut kept, &data, bytes_kept);
    }
    let keep = KeepHeaders::of(request).wants(head.headers.contains_key(SET_COOKIE));
    let headers = keep.then(|| Box::new(head.headers));
    Ok(Answer { status: head.status, headers, body: kept, body_bytes: length, ended: now() })
}

/// Sends the body, as flow control allows.
async fn send_body(stream: &mut h2::SendStream<Bytes>, mut body: Source) -> Result<(), Http2Failure> {
    while !body.is_at_end() {
        let mut chunk = match body.next().await {
            Ok(chunk) => chunk,
            Err(error) => {
                // The server must not take what it has for the whole.
                stream.send_reset(h2::Reason::CANCEL);
                return Err(Http2Failure::Answer(error));
            }
        };
        while !chunk.is_empty() {
            stream.reserve_capacity(chunk.len());
            let room = match poll_fn(|cx| stream.poll_capacity(cx)).await {
                Some(room) => room?,
                // The server does not want the rest.
                None => return Ok(()),
            };
            let part = chunk.split_to(room.min(chunk.len()));
            stream.send_data(part, chunk.is_empty() && body.is_at_end())?;
        }
    }
    Ok(())
}

/// The head of a request, without the connection headers of HTTP/1.1.
fn head(request: &Request<'_>) -> Result<http::Request<()>, ClientError> {
    let refused = |what: &str| ClientError::Request(format!("{what} cannot be sent over HTTP/2"));
    let host = [request.fixed, request.own].into_iter().find_map(|block| host(block));
    let authority = match host {
        Some(host) => Authority::try_from(host),
        None => Authority::try_from(request.origin.authority.as_str()),
    };
    let mut uri = http::uri::Parts::default();
    uri.authority = Some(authority.map_err(|_| refused("the host"))?);
    uri.scheme = Some(if request.origin.tls { Scheme::HTTPS } else { Scheme::HTTP });
    uri.path_and_query = Some(PathAndQuery::try_from(request.path).map_err(|_| refused("the path"))?);
    let mut head = http::Request::new(());
    *head.method_mut() = request.method.clone();
    *head.uri_mut() = Uri::from_parts(uri).map_err(|_| refused("the address"))?;
    let headers = head.headers_mut();
    headers.reserve(16);
    for (block, changing) in [(request.fixed, false), (request.own, true)] {
        for (name, value) in block.iter().filter(|(name, _)| *name != HOST && !FORBIDDEN.contains(name)) {
            let mut value = HeaderValue::from_bytes(value).map_err(|_| refused(name.as_str()))?;
            value.set_sensitive(changing || value.len() > INDEXED_BYTES_MAX);
            headers.append(name, value);
        }
    }
    // As in HTTP/1.1.
    let may_have_body = matches!(*request.method, Method::POST | Method::PUT | Method::PATCH);
    if may_have_body || !request.body.is_empty() {
        headers.insert(CONTENT_LENGTH, HeaderValue::from(request.body.len()));
    }
    Ok(head)
}

fn host(block: &HeaderBlock) -> Option<&[u8]> {
    if !block.has_host() {
        return None;
    }
    block.iter().find(|(name, _)| *name == HOST).map(|(_, value)| value)
}
