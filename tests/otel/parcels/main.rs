//! The last service of the shop: packs what was ordered. axum, traced as the documentation of `tracing-opentelemetry`
//! has it; `OTEL_EXPORTER_OTLP_ENDPOINT` and `OTEL_SERVICE_NAME` say where to and as whom.
//!
//! `otel-parcels 127.0.0.1:PORT` serves until it is killed. With the header `shop-cause: cpu`, it is slow for one tenant.

#![expect(clippy::print_stderr, reason = "it is a program that prints")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::Router;
use axum::extract::{MatchedPath, Path, Request};
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use axum::routing::get;
use opentelemetry::baggage::BaggageExt as _;
use opentelemetry::propagation::TextMapCompositePropagator;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::HeaderExtractor;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::propagation::{BaggagePropagator, TraceContextPropagator};
use opentelemetry_sdk::trace::SdkTracerProvider;
use tracing::{Instrument as _, field::Empty};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::layer::SubscriberExt as _;

/// What a tenant with huge orders costs.
const LONG: Duration = Duration::from_millis(250);
const USUAL: Duration = Duration::from_micros(500);
/// How long a depot may take to answer.
const DEPOT_TIMEOUT: Duration = Duration::from_millis(100);
const TENANT: &str = "tenant-3";

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let address = std::env::args().nth(1).context("usage: otel-parcels ADDRESS:PORT")?;
    opentelemetry::global::set_text_map_propagator(TextMapCompositePropagator::new(vec![
        Box::new(TraceContextPropagator::new()),
        Box::new(BaggagePropagator::new()),
    ]));
    // Its HTTP client may not be made where tasks run.
    let exporter = tokio::task::spawn_blocking(|| SpanExporter::builder().with_http().build()).await??;
    let provider = SdkTracerProvider::builder().with_batch_exporter(exporter).build();
    let layer = tracing_opentelemetry::layer().with_tracer(provider.tracer("otel-parcels"));
    tracing::subscriber::set_global_default(tracing_subscriber::registry().with(layer))?;
    let app = Router::new().route("/pack/{items}", get(pack)).route_layer(from_fn(trace));
    let listener = tokio::net::TcpListener::bind(&address).await?;
    eprintln!("listening at {address}");
    axum::serve(listener, app).await?;
    Ok(())
}

/// A span for each request, below the caller's.
async fn trace(request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("", MatchedPath::as_str).to_owned();
    let context = opentelemetry::global::get_text_map_propagator(|propagator| {
        propagator.extract(&HeaderExtractor(request.headers()))
    });
    let tenant = context.baggage().get("tenant").map(ToString::to_string);
    let span = tracing::info_span!(
        "request", otel.name = format!("{} {route}", request.method()), otel.kind = "server",
        http.request.method = %request.method(), http.route = route, url.path = request.uri().path(),
        url.query = request.uri().query(), http.response.status_code = Empty, otel.status_code = Empty, tenant
    );
    // Without a parent it is a trace of its own.
    let _ = span.set_parent(context);
    let response = next.run(request).instrument(span.clone()).await;
    span.record("http.response.status_code", response.status().as_u16());
    if response.status().is_server_error() {
        span.record("otel.status_code", "ERROR");
    }
    response
}

/// Packs items from a depot. One that does not answer in time is asked again by the caller.
async fn pack(Path(items): Path<u32>, request: Request) -> Result<String, StatusCode> {
    let query = request.uri().query().unwrap_or_default();
    if query.contains("depot=far") && !query.contains("attempt=3") {
        tokio::time::sleep(DEPOT_TIMEOUT).await;
        return Err(StatusCode::SERVICE_UNAVAILABLE);
    }
    let is_planted = request.headers().get("shop-cause").is_some_and(|cause| cause == "cpu");
    let span = tracing::Span::current();
    let tenant = span.context().baggage().get("tenant").map(ToString::to_string).unwrap_or_default();
    let takes = if is_planted && tenant == TENANT { LONG } else { USUAL };
    let boxes = tokio::task::spawn_blocking(move || span.in_scope(|| fill_boxes(items, &tenant, takes)));
    let boxes = boxes.await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(format!("{{\"boxes\": {boxes}}}"))
}

/// The number of boxes, by a search that takes long where there is much to order.
#[tracing::instrument(skip(takes))]
fn fill_boxes(items: u32, tenant: &str, takes: Duration) -> u32 {
    let began = Instant::now();
    let mut boxes = items;
    while began.elapsed() < takes {
        boxes = black_box(boxes.wrapping_mul(31) % 97);
    }
    items.div_ceil(5)
}
