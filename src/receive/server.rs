//! The receiver's thread, its listeners and connections.
//!
//! HTTP/1.1 and HTTP/2 (with prior knowledge, as gRPC has it) are told apart by a connection's first bytes. The number
//! of connections is bounded: when all are taken, the one that has been idle for the longest time is closed for the
//! next. A sender's fault ends only its connection.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::{http1, http2};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Taker;
use super::answer::AnswerBody;
use super::counts::{Counters, ReceiverCounts, add};
use super::forward::{Forward, ForwardLimits, ForwardTarget};
use super::intake::Intake;
use super::{grpc, http as otlp_http};

pub use super::intake::Limits;

/// How long open requests have after the call to stop.
const GRACE: Duration = Duration::from_secs(1);
/// The wait when there is no descriptor or no connection to close, and for an idle connection to end.
const RETRY: Duration = Duration::from_millis(50);
/// What a client of HTTP/2 sends first (RFC 9113, 3.4) starts with this, and no method of HTTP/1.1 does.
const HTTP2_FIRST: &[u8; 3] = b"PRI";
const HEADERS_BYTES_MAX: u32 = 16 << 10;
const BUFFER_BYTES_MAX: usize = 64 << 10;
const STREAMS_MAX: u32 = 32;
const STREAM_WINDOW_BYTES: u32 = 256 << 10;
const CONNECTION_WINDOW_BYTES: u32 = 1 << 20;

/// What a receiver does beyond receiving, and its bounds.
#[derive(Clone, Default)]
pub struct ReceiverOptions {
    /// Where everything is passed on to.
    pub forward: Option<ForwardTarget>,
    /// Bounds of what is received.
    pub limits: Limits,
    /// Bounds of what is passed on.
    pub forward_limits: ForwardLimits,
}

/// A receiver on a thread of its own. Dropping it ends the thread.
#[derive(Debug)]
pub struct Receiver {
    addresses: Vec<SocketAddr>,
    counters: Arc<Counters>,
    stop: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Receiver {
    /// Receives at these listeners, which [`super::listen::bind`] makes.
    ///
    /// # Errors
    /// If the system refuses a thread or what it needs.
    pub fn start(
        listeners: Vec<std::net::TcpListener>,
        taker: Arc<dyn Taker>,
        options: ReceiverOptions,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let guard = runtime.enter();
        let addresses = listeners.iter().map(std::net::TcpListener::local_addr).collect::<Result<_, _>>()?;
        let listeners = listeners.into_iter().map(|listener| {
            listener.set_nonblocking(true)?;
            TcpListener::from_std(listener)
        });
        let listeners = listeners.collect::<Result<Vec<_>, _>>()?;
        drop(guard);
        let (counters, stop) = (Arc::new(Counters::default()), CancellationToken::new());
        let work = Work { listeners, taker, options, counters: Arc::clone(&counters), stop: stop.clone() };
        let thread =
            std::thread::Builder::new().name("receiver".to_owned()).spawn(move || work.run(&runtime))?;
        Ok(Self { addresses, counters, stop, thread: Some(thread) })
    }

    /// Where it receives, with the ports that port 0 became.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What it has done so far.
    #[must_use]
    pub fn counts(&self) -> ReceiverCounts {
        self.counters.counts()
    }

    /// Why the first request was refused, if any was.
    #[must_use]
    pub fn first_refusal(&self) -> Option<String> {
        self.counters.first_refusal.get().cloned()
    }

    /// Ends the thread: open requests and what waits to be passed on have a short time. Returns the final counts.
    pub fn stop(mut self) -> ReceiverCounts {
        self.end();
        self.counts()
    }

    fn end(&mut self) {
        self.stop.cancel();
        if let Some(thread) = self.thread.take() {
            // A panic has been reported by the thread.
            let _ = thread.join();
        }
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.end();
    }
}

/// The thread's input.
struct Work {
    listeners: Vec<TcpListener>,
    taker: Arc<dyn Taker>,
    options: ReceiverOptions,
    counters: Arc<Counters>,
    stop: CancellationToken,
}

impl Work {
    fn run(self, runtime: &Runtime) {
        runtime.block_on(async {
            let ReceiverOptions { forward, limits, forward_limits } = self.options;
            let forward =
                forward.map(|target| Forward::start(target, forward_limits, Arc::clone(&self.counters)));
            let queue = forward.as_ref().map(Forward::queue);
            let intake = Intake::new(self.taker, self.counters, queue, limits);
            let shared = Arc::new(ReceiverState {
                intake,
                seats: Mutex::default(),
                free: Arc::new(Semaphore::new(limits.connections_max.max(1))),
                started: Instant::now(),
                stop: self.stop.clone(),
            });
            let acceptors: Vec<_> = self
                .listeners
                .into_iter()
                .map(|listener| tokio::spawn(accept(listener, Arc::clone(&shared))))
                .collect();
            self.stop.cancelled().await;
            acceptors.iter().for_each(tokio::task::JoinHandle::abort);
            let all = u32::try_from(limits.connections_max.max(1)).unwrap_or(u32::MAX);
            // Those that are left end with the runtime.
            let _ = tokio::time::timeout(GRACE, shared.free.acquire_many(all)).await;
            if let Some(forward) = forward {
                forward.finish().await;
            }
        });
    }
}

/// What all connections share.
struct ReceiverState {
    intake: Intake,
    seats: Mutex<Seats>,
    free: Arc<Semaphore>,
    started: Instant,
    stop: CancellationToken,
}

#[derive(Default)]
struct Seats {
    next: u64,
    taken: HashMap<u64, Arc<Seat>>,
}

/// A connection's place.
struct Seat {
    /// Milliseconds from the receiver's start to the end of the last request.
    active_ms: AtomicU64,
    /// Requests under way.
    requests: AtomicU64,
    /// Cancelled if another connection needs the place.
    evicted: CancellationToken,
}

impl ReceiverState {
    fn seats(&self) -> MutexGuard<'_, Seats> {
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// A place for another connection, which ends one that is idle if there is none left.
    async fn seat(self: &Arc<Self>) -> Option<SeatGuard> {
        let permit = loop {
            if let Ok(permit) = Arc::clone(&self.free).try_acquire_owned() {
                break permit;
            }
            self.evict();
            let waiting = Arc::clone(&self.free).acquire_owned();
            if let Ok(permit) = tokio::time::timeout(RETRY, waiting).await {
                break permit.ok()?;
            }
        };
        let seat = Arc::new(Seat {
            active_ms: AtomicU64::new(self.now_ms()),
            requests: AtomicU64::new(0),
            evicted: CancellationToken::new(),
        });
        let mut seats = self.seats();
        let number = seats.next;
        seats.next += 1;
        seats.taken.insert(number, Arc::clone(&seat));
        drop(seats);
        Some(SeatGuard { number, seat, shared: Arc::clone(self), _permit: permit })
    }

    fn evict(&self) {
        let seats = self.seats();
        // One after the other: that one ends soon.
        if seats.taken.values().any(|seat| seat.evicted.is_cancelled()) {
            return;
        }
        let idle = seats.taken.values().filter(|seat| seat.requests.load(Relaxed) == 0);
        if let Some(seat) = idle.min_by_key(|seat| seat.active_ms.load(Relaxed)) {
            seat.evicted.cancel();
            add(&self.intake.counters.connections_evicted, 1);
        }
    }
}

/// A place that is given back when it is dropped.
struct SeatGuard {
    number: u64,
    seat: Arc<Seat>,
    shared: Arc<ReceiverState>,
    _permit: tokio::sync::OwnedSemaphorePermit,
}

impl Drop for SeatGuard {
    fn drop(&mut self) {
        self.shared.seats().taken.remove(&self.number);
    }
}

/// A request under way.
struct RequestGuard<'a>(&'a Seat, &'a ReceiverState);

impl<'a> RequestGuard<'a> {
    fn new(seat: &'a Seat, shared: &'a ReceiverState) -> Self {
        seat.requests.fetch_add(1, Relaxed);
        Self(seat, shared)
    }
}

impl Drop for RequestGuard<'_> {
    fn drop(&mut self) {
        self.0.active_ms.store(self.1.now_ms(), Relaxed);
        self.0.requests.fetch_sub(1, Relaxed);
    }
}

async fn accept(listener: TcpListener, shared: Arc<ReceiverState>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                add(&shared.intake.counters.connections, 1);
                let Some(taken) = shared.seat().await else { return };
                tokio::spawn(connection(stream, taken));
            }
            // No descriptor left, for a while.
            Err(_) => tokio::time::sleep(RETRY).await,
        }
    }
}

async fn connection(stream: TcpStream, taken: SeatGuard) {
    let (shared, seat) = (&taken.shared, &taken.seat);
    // Without this, answers may wait for the client's acknowledgement. An error costs no more than that.
    let _ = stream.set_nodelay(true);
    let is_http2 = tokio::select! {
        is_http2 = is_http2(&stream) => is_http2,
        () = must_end(shared, seat) => return,
    };
    let (shared, seat) = (Arc::clone(shared), Arc::clone(seat));
    let service = service_fn(move |request| answer(request, Arc::clone(&shared), Arc::clone(&seat)));
    let (io, idle_max) = (TokioIo::new(stream), taken.shared.intake.limits.idle_max);
    match is_http2 {
        Ok(false) => {
            let mut builder = http1::Builder::new();
            // The pause between two requests counts, too.
            builder.timer(TokioTimer::new()).header_read_timeout(idle_max).max_buf_size(BUFFER_BYTES_MAX);
            drive(builder.serve_connection(io, service), |it| it.graceful_shutdown(), &taken).await;
        }
        Ok(true) => {
            let mut builder = http2::Builder::new(TokioExecutor::new());
            builder
                .timer(TokioTimer::new())
                .max_concurrent_streams(STREAMS_MAX)
                .max_header_list_size(HEADERS_BYTES_MAX)
                .initial_stream_window_size(STREAM_WINDOW_BYTES)
                .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
            drive(builder.serve_connection(io, service), |it| it.graceful_shutdown(), &taken).await;
        }
        // It ended before its first request.
        Err(_) => {}
    }
}

/// Serves a connection until it ends, or must end.
async fn drive<C: Future>(connection: C, finish: impl FnOnce(Pin<&mut C>), taken: &SeatGuard) {
    let mut connection = std::pin::pin!(connection);
    tokio::select! {
        // The sender notices an error itself.
        _ = connection.as_mut() => return,
        () = must_end(&taken.shared, &taken.seat) => {}
    }
    finish(connection.as_mut());
    let grace = if taken.seat.requests.load(Relaxed) == 0 { RETRY } else { GRACE };
    let _ = tokio::time::timeout(grace, connection).await;
}

/// Returns when a connection must end: it has been idle for too long, its place is needed, or the receiver stops.
async fn must_end(shared: &ReceiverState, seat: &Seat) {
    let idle_max = shared.intake.limits.idle_max;
    let idle = async {
        loop {
            let idle = Duration::from_millis(shared.now_ms().saturating_sub(seat.active_ms.load(Relaxed)));
            let left = idle_max.saturating_sub(idle);
            if seat.requests.load(Relaxed) > 0 {
                tokio::time::sleep(idle_max).await;
            } else if left.is_zero() {
                return;
            } else {
                tokio::time::sleep(left).await;
            }
        }
    };
    tokio::select! {
        () = idle => {}
        () = seat.evicted.cancelled() => {}
        () = shared.stop.cancelled() => {}
    }
}

async fn is_http2(stream: &TcpStream) -> io::Result<bool> {
    let mut first = [0; HTTP2_FIRST.len()];
    loop {
        let read = stream.peek(&mut first).await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if !HTTP2_FIRST.starts_with(&first[..read]) {
            return Ok(false);
        }
        if read == first.len() {
            return Ok(true);
        }
        tokio::time::sleep(RETRY).await;
    }
}

async fn answer(
    request: Request<Incoming>,
    shared: Arc<ReceiverState>,
    seat: Arc<Seat>,
) -> Result<Response<AnswerBody>, Infallible> {
    let _under_way = RequestGuard::new(&seat, &shared);
    let (parts, body) = request.into_parts();
    // A web page's call is refused in words of HTTP, which a browser shows.
    Ok(if grpc::is_call(&parts.headers) && !otlp_http::is_of_page(&parts.headers) {
        grpc::answer(parts, body, &shared.intake).await
    } else {
        otlp_http::answer(parts, body, &shared.intake).await
    })
}
