//! Metrics of a load under way: served for scrapers, and pushed by `push` to each receiver.
//!
//! The coordinator feeds it from the batches that it receives anyway; workers do not know of it. A
//! fault here never fails the run: it is a warning.

use std::collections::VecDeque;
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, HOST};
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

use base::clock::saturating_nanos;
use client::plain::PlainClient;
use client::tls;
use measure::meter::{Meter, ShardMeasurements};
use measure::recorder::Batch;
use plan::Plan;
use report::metrics::statsd::StatsdEncoder;
use report::metrics::{RunFacts, influx, openmetrics, otlp, remote_write};
use runner::Progress;
use runner::observers::Observer;

use super::error::HarnessError;
use super::event::{Event, Sink};
use super::options::{PushHeader, WatchOptions};
use super::push::{PushPace, PushTask, Pusher};
use super::push_datagrams::DatagramRoute;
use super::push_http::{HttpRoute, PushProtocol};

/// The largest number of scrapers served at once.
const CONNECTIONS_MAX: usize = 32;
/// How long a scraper may stay connected, and how long its request may take: an idle one must not keep
/// others out.
const CONNECTION_LIMIT: Duration = Duration::from_secs(300);
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
const PATH: &str = "/metrics";

impl WatchOptions {
    /// True when something has to be sent over TLS.
    pub(super) fn wants_tls(&self) -> bool {
        let influx = self.influx.as_ref().map(|influx| &influx.url);
        [self.otlp.as_ref(), self.remote_write.as_ref(), influx]
            .into_iter()
            .flatten()
            .any(|url| url.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https:")))
    }

    /// Binds the port, before anything else is created.
    pub(super) fn listen(&self) -> Result<Option<TcpListener>, HarnessError> {
        let Some(address) = self.metrics else { return Ok(None) };
        let failed = |error| {
            HarnessError::failed(format!("cannot serve metrics at {address}: {error}"))
                .remedy("choose another port")
        };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        Ok(Some(listener))
    }

    /// Starts to serve and to push, if requested.
    pub(super) fn start(
        &self,
        listener: Option<TcpListener>,
        plan: &Plan,
        facts: RunFacts,
        runtime: &Runtime,
        events: &Sink,
    ) -> Result<MetricsExporter, HarnessError> {
        if listener.is_none() && self.pushes().is_empty() && self.statsd.is_none() {
            return Ok(MetricsExporter { shared: None, server: None, pushers: Vec::new() });
        }
        let workloads = plan.workloads.iter().map(|workload| {
            (workload.name.clone(), workload.named().into_iter().map(|row| row.name.to_string()).collect())
        });
        let mut meter = Meter::new(workloads);
        if self.statsd.is_some() {
            meter.keep_recent();
        }
        let shared = Arc::new(LiveMetrics {
            meter: Mutex::new(meter),
            facts,
            machine: std::fs::read_to_string("/proc/sys/kernel/hostname")
                .unwrap_or_default()
                .trim()
                .to_owned(),
        });
        let _guard = runtime.enter();
        let server = match listener {
            Some(listener) => {
                let failed = |error: std::io::Error| HarnessError::cannot("serve metrics")(error);
                let at = listener.local_addr().map_err(failed)?;
                events.event(&Event::MetricsServed(&format!("http://{at}{PATH}")));
                let listener = tokio::net::TcpListener::from_std(listener).map_err(failed)?;
                Some(runtime.spawn(serve(listener, Arc::clone(&shared))))
            }
            None => None,
        };
        let pushers = self.start_pushers(&shared, plan, runtime, events)?;
        Ok(MetricsExporter { shared: Some(shared), server, pushers })
    }

    fn start_pushers(
        &self,
        shared: &Arc<LiveMetrics>,
        plan: &Plan,
        runtime: &Runtime,
        events: &Sink,
    ) -> Result<Vec<PushTask>, HarnessError> {
        let mut pushers = Vec::new();
        for push in self.pushes() {
            let route = HttpRoute::new(push.protocol, push.url.to_owned(), push.headers, self.direct(plan)?);
            let (told, encode) = (Arc::clone(shared), push.encode);
            let pusher = Pusher::new(route, move |last| encode(&told, last), events, PushPace::default());
            pushers.push(pusher.start(runtime));
        }
        if let Some(address) = self.statsd.clone() {
            let (told, mut encoder) = (Arc::clone(shared), StatsdEncoder::new(address.tagged));
            let encode = move |_| {
                let mut meter = told.meter();
                let taken = meter.clone();
                meter.forget_recent();
                drop(meter);
                encoder.encode(&taken, &told.facts).into_bytes()
            };
            let route = DatagramRoute::new(address);
            pushers.push(Pusher::new(route, encode, events, PushPace::default()).start(runtime));
        }
        Ok(pushers)
    }

    /// What is to be pushed.
    fn pushes(&self) -> Vec<RequestedPush<'_>> {
        let otlp = self.otlp.as_ref().map(|url| RequestedPush {
            protocol: PushProtocol::Otlp,
            url,
            headers: &self.otlp_headers,
            encode: Box::new(|told, _| otlp::encode(&told.copy(), &told.facts, unix_ns())),
        });
        let remote_write = self.remote_write.as_ref().map(|url| RequestedPush {
            protocol: PushProtocol::RemoteWrite,
            url,
            headers: &self.remote_write_headers,
            encode: Box::new(|told, last| remote_write::encode(&told.copy(), &told.facts, unix_ns(), last)),
        });
        let influx = self.influx.as_ref().map(|influx| {
            let precision = influx.precision;
            RequestedPush {
                protocol: PushProtocol::Influx,
                url: &influx.url,
                headers: &self.influx_headers,
                encode: Box::new(move |told, _| {
                    influx::encode(&told.copy(), &told.facts, unix_ns(), precision).into_bytes()
                }),
            }
        });
        [otlp, remote_write, influx].into_iter().flatten().collect()
    }

    /// A client that uses no proxy: the load's may be one that only the environment names, and the receiver's
    /// credentials are none of its business.
    fn direct(&self, plan: &Plan) -> Result<PlainClient, HarnessError> {
        let tls = tls::config(&plan.deployment.tls, self.wants_tls()).map_err(HarnessError::input)?;
        PlainClient::new(&tls, &plan.http.dns).map_err(HarnessError::unreachable)
    }
}

/// The metrics and the run that they describe.
struct LiveMetrics {
    meter: Mutex<Meter>,
    facts: RunFacts,
    /// This machine's name; empty when it is not known.
    machine: String,
}

impl LiveMetrics {
    fn meter(&self) -> MutexGuard<'_, Meter> {
        self.meter.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A copy, so that the load does not wait while it is encoded.
    fn copy(&self) -> Meter {
        self.meter().clone()
    }
}

type MetricsEncoder = dyn Fn(&LiveMetrics, bool) -> Vec<u8> + Send + Sync;

/// A push over HTTP that the options ask for.
struct RequestedPush<'a> {
    protocol: PushProtocol,
    url: &'a str,
    headers: &'a [PushHeader],
    /// The metrics as they are now, and whether these are the last ones.
    encode: Box<MetricsEncoder>,
}

fn unix_ns() -> u64 {
    saturating_nanos(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

/// The watching of a load, if there is any.
pub(super) struct MetricsExporter {
    shared: Option<Arc<LiveMetrics>>,
    server: Option<JoinHandle<()>>,
    pushers: Vec<PushTask>,
}

impl MetricsExporter {
    /// These metrics, for what other shards measure.
    pub(super) fn sum(&self) -> Option<Sum> {
        self.shared.clone().map(Sum)
    }

    /// An observer that adds what is measured to these metrics.
    pub(super) fn observer(&self) -> AddsToMetrics<'_> {
        AddsToMetrics(self.shared.as_deref())
    }

    /// Pushes a last time, once the load is over and its log written.
    pub(super) async fn finish(&mut self) {
        let pushers = std::mem::take(&mut self.pushers);
        pushers.iter().for_each(PushTask::stop);
        for pusher in pushers {
            pusher.end().await;
        }
    }
}

impl Drop for MetricsExporter {
    fn drop(&mut self) {
        if let Some(server) = &self.server {
            server.abort();
        }
    }
}

/// Metrics to which other shards' are added.
#[derive(Clone)]
pub(super) struct Sum(Arc<LiveMetrics>);

impl Sum {
    /// Adds what another shard has measured.
    pub(super) fn add(&self, shard: u32, told: &ShardMeasurements<'_>) {
        self.0.meter().add_shard(shard, told);
    }
}

/// Adds what is measured to the metrics, if there are any.
pub(super) struct AddsToMetrics<'a>(Option<&'a LiveMetrics>);

impl AddsToMetrics<'_> {
    fn in_flight(&self, workload: usize, count: u64) {
        if let Some(shared) = self.0
            && let Some(meter) = shared.meter().workloads.get_mut(workload)
        {
            meter.in_flight = count;
        }
    }
}

impl Observer for AddsToMetrics<'_> {
    fn batch(&mut self, batch: &Batch) {
        if let Some(shared) = self.0 {
            shared.meter().add(batch);
        }
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        self.in_flight(progress.workload, progress.under_way);
    }

    fn end(&mut self, progress: &Progress<'_>) {
        self.in_flight(progress.workload, 0);
    }
}

async fn serve(listener: tokio::net::TcpListener, shared: Arc<LiveMetrics>) {
    let mut connections = JoinSet::new();
    // In the order in which they came, and whether they had an answer.
    let mut open: VecDeque<(AbortHandle, Arc<AtomicBool>)> = VecDeque::new();
    loop {
        tokio::select! {
            Some(_) = connections.join_next(), if !connections.is_empty() => {
                open.retain(|(connection, _)| !connection.is_finished());
            }
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    // A client that never ends its request must not keep a scraper out: the oldest of these makes room.
                    if open.len() >= CONNECTIONS_MAX {
                        let at = open.iter().position(|(_, answered)| !answered.load(Ordering::Relaxed));
                        if let Some((oldest, _)) = open.remove(at.unwrap_or(0)) {
                            oldest.abort();
                        }
                    }
                    let answered = Arc::new(AtomicBool::new(false));
                    let serving = connection(stream, Arc::clone(&shared), Arc::clone(&answered));
                    open.push_back((connections.spawn(serving), answered));
                }
                // No descriptor left, for a while.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
        }
    }
}

async fn connection(stream: TcpStream, shared: Arc<LiveMetrics>, answered: Arc<AtomicBool>) {
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        answered.store(true, Ordering::Relaxed);
        let host = request.headers().get(HOST).map_or(Some(""), |host| host.to_str().ok());
        let answer = if host.is_some_and(|host| is_own(host, &shared.machine)) {
            answer(request.method(), request.uri().path(), &shared)
        } else {
            misdirected()
        };
        async move { Ok::<_, std::convert::Infallible>(answer) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(REQUEST_LIMIT);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    // The scraper notices faults itself.
    let _ = tokio::time::timeout(CONNECTION_LIMIT, connection).await;
}

/// True for host names that requests may use: none, an address, `localhost`, the machine's name. A web page
/// whose own name resolves to this machine must not read the metrics.
fn is_own(host: &str, machine: &str) -> bool {
    let Ok(authority) = host.parse::<http::uri::Authority>() else { return host.is_empty() };
    let name = authority.host().trim_end_matches('.').to_ascii_lowercase();
    let machine = machine.to_ascii_lowercase();
    let address = name.trim_start_matches('[').trim_end_matches(']');
    address.parse::<std::net::IpAddr>().is_ok()
        || name == "localhost"
        || name.ends_with(".localhost")
        || (!machine.is_empty()
            && name.strip_prefix(&machine).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')))
}

fn misdirected() -> Response<Full<Bytes>> {
    let text = "use an IP address, localhost or this machine's name\n";
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = StatusCode::MISDIRECTED_REQUEST;
    response
}

fn answer(method: &Method, path: &str, shared: &LiveMetrics) -> Response<Full<Bytes>> {
    let (status, kind, body) = if path != PATH {
        (StatusCode::NOT_FOUND, "text/plain; charset=utf-8", format!("metrics are at {PATH}\n"))
    } else if !matches!(*method, Method::GET | Method::HEAD) {
        (StatusCode::METHOD_NOT_ALLOWED, "text/plain; charset=utf-8", "only GET is supported\n".to_owned())
    } else {
        let meter = shared.copy();
        (StatusCode::OK, openmetrics::CONTENT_TYPE, openmetrics::render(&meter, &shared.facts))
    };
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, http::HeaderValue::from_static(kind));
    response.headers_mut().insert(ALLOW, http::HeaderValue::from_static("GET, HEAD"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_names_are_answered() {
        for (host, expected) in [
            ("", true),
            ("127.0.0.1:9464", true),
            ("[::1]:9464", true),
            ("10.1.2.3", true),
            ("localhost:9464", true),
            ("LocalHost.", true),
            ("a.localhost:1", true),
            ("Box:9464", true),
            ("box.corp.example:9464", true),
            ("boxer", false),
            ("evil.example", false),
            ("localhost.evil.example", false),
            ("127.0.0.1.evil.example", false),
            ("evil.example:9464", false),
            ("a b", false),
        ] {
            assert_eq!(is_own(host, "box"), expected, "{host}");
        }
        assert!(!is_own("evil.example", ""));
    }
}
