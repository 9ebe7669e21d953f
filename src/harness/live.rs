//! Metrics of a load under way: served for scrapers, and pushed by `push` to each receiver.
//!
//! The coordinator feeds it from the batches that it receives anyway; workers do not know of it. A
//! fault here never fails the run: it is a warning.

use std::net::TcpListener;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use base::clock::saturating_nanos;
use client::plain::PlainClient;
use client::tls;
use measure::meter::{Meter, ShardMeasurements};
use measure::recorder::Batch;
use plan::{Plan, step};
use report::metrics::statsd::StatsdEncoder;
use report::metrics::{RunFacts, influx, openmetrics, otlp, remote_write};
use runner::Progress;
use runner::observers::Observer;

use super::error::HarnessError;
use super::event::{Event, Sink};
use super::local_server::{LocalSite, SiteBody, answer, bind, machine, refusal, serve};
use super::options::{PushHeader, WatchOptions};
use super::push::{PushPace, PushTask, Pusher};
use super::push_datagrams::DatagramRoute;
use super::push_http::{HttpRoute, PushProtocol};

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
        self.metrics.map(|address| bind(address, "metrics")).transpose()
    }

    /// Binds the port of the live page, likewise.
    pub(super) fn listen_for_page(&self) -> Result<Option<TcpListener>, HarnessError> {
        self.page.map(|address| bind(address, "the live page")).transpose()
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
        let measures = plan.workloads.iter().map(|workload| step::names(&workload.named()).measures);
        let mut meter = Meter::new(workloads).measuring(measures);
        if self.statsd.is_some() {
            meter.keep_recent();
        }
        let shared = Arc::new(LiveMetrics { meter: Mutex::new(meter), facts, machine: machine() });
        let _guard = runtime.enter();
        let server = match listener {
            Some(listener) => {
                let failed = |error: std::io::Error| HarnessError::cannot("serve metrics")(error);
                let at = listener.local_addr().map_err(failed)?;
                events.event(&Event::MetricsServed(&format!("http://{at}{PATH}")));
                let listener = tokio::net::TcpListener::from_std(listener).map_err(failed)?;
                Some(runtime.spawn(serve(listener, shared.clone())))
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

impl LocalSite for LiveMetrics {
    fn answer(self: Arc<Self>, request: &Request<Incoming>) -> Response<SiteBody> {
        if request.uri().path() != PATH {
            return refusal(StatusCode::NOT_FOUND, &format!("metrics are at {PATH}\n"));
        }
        let text = openmetrics::render(&self.copy(), &self.facts);
        answer(openmetrics::CONTENT_TYPE, text)
    }

    fn machine(&self) -> &str {
        &self.machine
    }
}
