//! OSProfiler's web middleware for tower services.
//!
//! A request with valid headers becomes a point `wsgi` (the name that every OSProfiler service
//! uses), or `rpc` if it is a gRPC call. It is the current point for everything that its handler does
//! ([`super::profiler`]), and the handler finds its [`TraceHandle`] in the request's extensions. All other
//! requests pass unchanged. This module must not change a response or reveal to a client whether it is
//! traced.

use std::fmt::Display;
use std::sync::{Arc, PoisonError, RwLock};
use std::task::{Context, Poll};

use http::{HeaderMap, Request, Response};
use serde_json::json;
use tower_layer::Layer;
use tower_service::Service;

use super::grpc;
use super::notifier::{Notifier, Reporter};
use super::record::{Info, ServiceIdentity};
use super::rpc;
use super::signing::{X_TRACE_HMAC, X_TRACE_INFO};
use super::trace::current::{self, Flow};
use super::trace::{PointScope, TraceHandle};
use super::traced::{TracedFuture, failed};
use super::verifying::{Rejection, ServerKeys, TraceContext};

const POINT_NAME: &str = "wsgi";

/// Adds [`ProfilerService`] to a tower stack.
#[derive(Clone)]
pub struct ProfilerLayer {
    /// `None` if profiling is permanently off.
    settings: Option<Arc<ProfilerSettings>>,
}

#[derive(Clone)]
struct ProfilerSettings {
    enabled: bool,
    keys: ServerKeys,
    switch: Option<Switch>,
    reporter: Reporter,
}

impl ProfilerLayer {
    /// Traces requests that are signed with one of `keys`.
    #[must_use]
    pub fn new(keys: ServerKeys, identity: Arc<ServiceIdentity>, notifier: Arc<dyn Notifier>) -> Self {
        let reporter = Reporter::new(identity, notifier);
        Self { settings: Some(Arc::new(ProfilerSettings { enabled: true, keys, switch: None, reporter })) }
    }

    /// Traces nothing, like OSProfiler's `enabled = false`.
    #[must_use]
    pub fn disabled() -> Self {
        Self { settings: None }
    }

    /// Sets whether requests are traced if no [`Switch`] decides: the `enabled` of OSProfiler's paste
    /// file, whose default is `false`.
    #[must_use]
    pub fn enabled(self, enabled: bool) -> Self {
        self.with(|settings| settings.enabled = enabled)
    }

    /// Obeys `switch`.
    #[must_use]
    pub fn switched_by(self, switch: Switch) -> Self {
        self.with(|settings| settings.switch = Some(switch))
    }

    fn with(self, change: impl FnOnce(&mut ProfilerSettings)) -> Self {
        let settings = self.settings.map(|mut settings| {
            change(Arc::make_mut(&mut settings));
            settings
        });
        Self { settings }
    }
}

/// Turns middleware on and off while it serves: OSProfiler's `web.enable` and `web.disable`, for
/// the layers that were given it rather than for the whole process. Clones are the same switch.
#[derive(Clone, Debug, Default)]
pub struct Switch(Arc<RwLock<Position>>);

#[derive(Debug, Default)]
enum Position {
    /// The layer's own settings apply.
    #[default]
    Untouched,
    On(ServerKeys),
    Off,
}

impl Switch {
    /// Turns tracing on. `keys` replace the layer's own keys, unless there are none.
    pub fn enable(&self, keys: ServerKeys) {
        self.set(Position::On(keys));
    }

    /// Turns tracing off.
    pub fn disable(&self) {
        self.set(Position::Off);
    }

    fn set(&self, position: Position) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = position;
    }
}

impl ProfilerSettings {
    fn trace_context(&self, headers: &HeaderMap) -> Result<TraceContext, Rejection> {
        let position = self.switch.as_ref().map(|switch| switch.0.read());
        let position = position.map(|position| position.unwrap_or_else(PoisonError::into_inner));
        match position.as_deref() {
            Some(Position::Off) => Err(Rejection::NoKeys),
            Some(Position::On(keys)) if !keys.is_empty() => trace_context(keys, headers),
            None | Some(Position::Untouched) if !self.enabled => Err(Rejection::NoKeys),
            _ => trace_context(&self.keys, headers),
        }
    }
}

impl<S> Layer<S> for ProfilerLayer {
    type Service = ProfilerService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ProfilerService { inner, settings: self.settings.clone() }
    }
}

/// The middleware; made by [`ProfilerLayer`].
#[derive(Clone)]
pub struct ProfilerService<S> {
    inner: S,
    settings: Option<Arc<ProfilerSettings>>,
}

impl<S, B, R> Service<Request<B>> for ProfilerService<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Display,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = TracedFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let Some(scope) = self.settings.as_ref().and_then(|settings| open(settings, &request)) else {
            return TracedFuture::running(self.inner.call(request), None, None);
        };
        let outcome = if grpc::is_call(request.headers()) { call_outcome } else { failed };
        request.extensions_mut().insert(scope.trace().clone());
        // A handler may start before its future is polled.
        let (answer, flow) = current::within(Flow::of_point(scope), || self.inner.call(request));
        TracedFuture::running(answer, flow, Some(outcome))
    }
}

/// Reads a request's trace from its headers, for services that are not built on tower.
///
/// # Errors
/// The reason why the request is not traced.
pub fn trace_context(keys: &ServerKeys, headers: &HeaderMap) -> Result<TraceContext, Rejection> {
    // A WSGI server joins repeated headers with a comma, which no signature survives.
    let single = |name: &str| {
        let mut values = headers.get_all(name).iter();
        let value = values.next().ok_or(Rejection::Missing)?;
        if values.next().is_some() { Err(Rejection::WrongSignature) } else { Ok(value.as_bytes()) }
    };
    keys.verify(single(X_TRACE_INFO)?, single(X_TRACE_HMAC)?)
}

/// The values of `X-Trace-Info` and `X-Trace-HMAC` that make a request to another service a child of this
/// point; `None` for a trace that has no key. Signed with the key that the client used.
#[must_use]
pub fn onward_headers(trace: &TraceHandle) -> Option<(String, String)> {
    trace.signed_headers()
}

/// What the stop of a gRPC call says.
fn call_outcome<R, E: Display>(result: &Result<Response<R>, E>) -> Option<Info> {
    result.as_ref().map_or_else(|_| failed(result), grpc::failed)
}

fn open<B>(settings: &ProfilerSettings, request: &Request<B>) -> Option<PointScope> {
    // A rejection is not visible to the client: probing for keys must not reveal anything.
    let context = settings.trace_context(request.headers()).ok()?;
    let trace = TraceHandle::of(context, Some(settings.reporter.clone()));
    let uri = request.uri();
    if grpc::is_call(request.headers()) {
        return Some(trace.enter(rpc::POINT_NAME, Some(grpc::call_info(uri.path()))));
    }
    let mut info = Info::new();
    let details = json!({
        "path": uri.path(),
        "query": uri.query().unwrap_or_default(),
        "method": request.method().as_str(),
        "scheme": uri.scheme_str().unwrap_or("http"),
    });
    info.insert("request".to_owned(), details);
    Some(trace.enter(POINT_NAME, Some(info)))
}
