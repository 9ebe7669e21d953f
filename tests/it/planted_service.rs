//! A traced shop that is slow for a known reason: the target in tests of causes.
//!
//! Two HTTP services in this process, `shop/api` on two hosts and `shop/images`, report to a collector in a file.
//! Timers replace the work; trace points, signatures and headers are those of a real service.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bench::base::secret::Secret;
use bench::osprofiler::db::Statement;
use bench::osprofiler::driver::Collector;
use bench::osprofiler::http_client;
use bench::osprofiler::notifier::QueueNotifier;
use bench::osprofiler::profiler;
use bench::osprofiler::record::ServiceIdentity;
use bench::osprofiler::verifying::ServerKeys;
use bench::osprofiler::web::{ProfilerLayer, ProfilerService};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Empty, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;
use tower_layer::Layer as _;

pub(crate) const KEY: &str = "PLANTED";
/// One request in this many is slow.
const SLOW_EVERY: u64 = 12;
/// The header that asks for more of an image; no trace point tells of it.
const LARGE: &str = "x-large";
/// This many requests find no cache.
pub(crate) const COLD: u64 = 8;
/// The row of the slow requests of [`Plant::SlowRow`].
pub(crate) const SLOW_ROW: &str = "slow";
/// From one stop of everything to the next, and for how long requests run into it.
pub(crate) const EVERY: Duration = Duration::from_millis(2_000);
const STOPPED: Duration = Duration::from_millis(160);
const LARGE_BYTES: usize = 300_000;
/// More than a busy machine makes requests late.
const LONG: Duration = Duration::from_millis(600);
const SHORT: Duration = Duration::from_millis(2);
/// How long the other service takes where it is asked again and again, and how often.
const ASKED: Duration = Duration::from_millis(80);
const TRIES: usize = 8;

/// Why some requests are slow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Plant {
    /// Nothing: it is the client that waits.
    None,
    /// A statement takes long.
    SlowStatement,
    /// A statement runs once for each row of another's answer.
    ManyStatements,
    /// A function waits for a lock before it asks its database.
    LockWait,
    /// One of two hosts has a slow disk.
    BadHost,
    /// The other service takes long.
    SlowUpstream,
    /// The other service is asked again and again.
    Retry,
    /// The network to the service is slow: no point is open.
    Network,
    /// The first requests find no cache.
    ColdStart,
    /// Everything stops for a moment at regular intervals, as for garbage collection.
    Periodic,
    /// Some answers are large, and are put together first.
    LargeAnswer,
    /// A statement takes long for the request with [`SLOW_ROW`].
    SlowRow,
}

/// The shop; it ends when this is dropped.
pub(crate) struct Shop {
    pub(crate) url: String,
    _runtime: tokio::runtime::Runtime,
}

impl Shop {
    pub(crate) fn start(plant: Plant, collector: &str) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let url = runtime.block_on(async {
            let collector = Collector::connect(&Secret::new(collector)).await.unwrap();
            let notifier: Arc<QueueNotifier> = Arc::new(QueueNotifier::start(collector, 1 << 16));
            let node = |service: &str, host: &str, app: App| {
                let (project, service, host) = ("shop".to_owned(), service.to_owned(), host.to_owned());
                let identity = Arc::new(ServiceIdentity { project, service, host });
                ProfilerLayer::new(ServerKeys::parse(KEY), identity, notifier.clone()).layer(app)
            };
            let images = listen(vec![node("images", "node-9", App::Images(plant))], plant).await;
            let api =
                |host, slow_disk| node("api", host, App::Api { plant, slow_disk, images: images.clone() });
            listen(vec![api("node-1", false), api("node-2", plant == Plant::BadHost)], plant).await
        });
        Self { url: format!("http://{url}"), _runtime: runtime }
    }
}

/// Serves on a free port; of several nodes, the second gets one request in [`SLOW_EVERY`].
async fn listen(nodes: Vec<ProfilerService<App>>, plant: Plant) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        let front = Front { nodes, plant, count: Arc::default(), began: Instant::now() };
        while let Ok((stream, _)) = listener.accept().await {
            let service = TowerToHyperService::new(front.clone());
            tokio::spawn(async move {
                let http = hyper::server::conn::http1::Builder::new();
                let _ = http.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    address
}

/// What comes before the nodes.
#[derive(Clone)]
struct Front {
    nodes: Vec<ProfilerService<App>>,
    plant: Plant,
    count: Arc<AtomicU64>,
    began: Instant,
}

type ShopAnswer = Result<Response<Full<Bytes>>, Infallible>;
type AnswerFuture = Pin<Box<dyn Future<Output = ShopAnswer> + Send>>;

impl tower_service::Service<Request<Incoming>> for Front {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = AnswerFuture;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Incoming>) -> AnswerFuture {
        let number = self.count.fetch_add(1, Ordering::Relaxed);
        let phase_ns = self.began.elapsed().as_nanos() % EVERY.as_nanos();
        let slow = match self.plant {
            Plant::ColdStart => number < COLD,
            Plant::SlowRow => request.uri().query().is_some_and(|query| query.ends_with(SLOW_ROW)),
            // Not at the beginning, which may be slow anyway.
            Plant::Periodic => (EVERY - STOPPED).as_nanos() <= phase_ns,
            _ => number % SLOW_EVERY == 3,
        };
        let mut node = self.nodes[usize::from(slow).min(self.nodes.len() - 1)].clone();
        let delayed = slow && self.plant == Plant::Network && self.nodes.len() > 1;
        request.extensions_mut().insert(Slow(slow));
        Box::pin(async move {
            if delayed {
                sleep(LONG).await;
            }
            node.call(request).await
        })
    }
}

/// Whether a request is one of the slow ones.
#[derive(Clone, Copy)]
struct Slow(bool);

#[derive(Clone)]
enum App {
    Api { plant: Plant, slow_disk: bool, images: String },
    Images(Plant),
}

impl tower_service::Service<Request<Incoming>> for App {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = AnswerFuture;

    fn poll_ready(&mut self, _: &mut std::task::Context<'_>) -> std::task::Poll<Result<(), Infallible>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> AnswerFuture {
        let app = self.clone();
        let slow = request.extensions().get::<Slow>().is_some_and(|slow| slow.0);
        let (Self::Api { plant, .. } | Self::Images(plant)) = self;
        let plant = *plant;
        Box::pin(async move {
            match app {
                Self::Api { plant, slow_disk, images } => {
                    cart(plant, slow && plant != Plant::BadHost || slow_disk, &images).await;
                }
                Self::Images(plant) => {
                    if request.headers().contains_key(LARGE) && plant == Plant::SlowUpstream {
                        sleep(LONG).await;
                    }
                    let takes = if plant == Plant::Retry { ASKED } else { 5 * SHORT };
                    statement("SELECT file FROM image WHERE id = ?", 7, takes).await;
                }
            }
            let answer = match plant {
                Plant::LargeAnswer if slow => Bytes::from(vec![b' '; LARGE_BYTES]),
                _ => Bytes::from_static(b"{}"),
            };
            Ok(Response::new(Full::new(answer)))
        })
    }
}

/// What every request does, and the slow ones longer.
async fn cart(plant: Plant, slow: bool, images: &str) {
    let long = |of: Plant, usual| if slow && plant == of { LONG } else { usual };
    statement("SELECT name FROM customer WHERE id = ?", 3, long(Plant::BadHost, SHORT)).await;
    let kept = [Plant::ColdStart, Plant::Periodic, Plant::LargeAnswer].contains(&plant) && slow;
    let takes = match (kept, plant) {
        (false, _) => Duration::ZERO,
        // What comes at random on a busy machine is shorter.
        (true, Plant::ColdStart | Plant::Periodic) => 2 * LONG,
        (true, _) => LONG,
    };
    profiler::trace("render", || json!({}), sleep(takes)).await;
    let update = profiler::trace("update_cart", || json!({"cart": 5}), async {
        sleep(long(Plant::LockWait, Duration::ZERO)).await;
        statement("UPDATE cart SET total = ? WHERE id = ?", 5, SHORT).await;
        let priced = if plant == Plant::SlowRow { plant } else { Plant::SlowStatement };
        statement("SELECT price FROM item WHERE cart = ?", 5, long(priced, SHORT)).await;
        let rows = if slow && plant == Plant::ManyStatements { 60 } else { 1 };
        for row in 0..rows {
            statement("SELECT stock FROM item WHERE id = ?", row, SHORT).await;
        }
    });
    update.await;
    let tries = if slow && plant == Plant::Retry { TRIES } else { 1 };
    for _ in 0..tries {
        fetch(images, slow).await;
    }
}

async fn statement(sql: &'static str, id: u64, takes: Duration) {
    let work = async {
        sleep(takes).await;
        Ok::<(), Infallible>(())
    };
    let _ = Statement::new(sql).show_params(|| json!([id])).run(work).await;
}

/// Asks the other service, with this trace's headers.
async fn fetch(address: &str, large: bool) {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::get("/images/7").header("host", address);
    if large {
        request = request.header(LARGE, "1");
    }
    for (name, value) in http_client::headers().into_iter().flatten() {
        request = request.header(name, value);
    }
    let answer = sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()).await.unwrap();
    answer.into_body().collect().await.unwrap();
}
