//! OSProfiler's web middleware for tower services.
//!
//! A request with valid headers becomes a point `wsgi` (the name that every OSProfiler service
//! uses), and its handler finds the point's [`Trace`] in the request's extensions. Every other
//! request passes untouched: nothing here may change an answer or tell a client whether it is
//! traced.

use std::fmt::Display;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{HeaderMap, Request};
use serde_json::json;
use tower_layer::Layer;
use tower_service::Service;

use super::notifier::Notifier;
use super::record::{Identity, Info};
use super::signing::{X_TRACE_HMAC, X_TRACE_INFO};
use super::trace::{Scope, Trace};
use super::verifying::{Rejection, ServerKeys, TraceContext};

const POINT_NAME: &str = "wsgi";

/// Adds [`ProfilerService`] to a tower stack.
#[derive(Clone)]
pub struct ProfilerLayer {
    /// `None` when profiling is off.
    settings: Option<Arc<Settings>>,
}

struct Settings {
    keys: ServerKeys,
    identity: Arc<Identity>,
    notifier: Arc<dyn Notifier>,
}

impl ProfilerLayer {
    /// Traces requests that are signed with one of `keys`.
    #[must_use]
    pub fn new(keys: ServerKeys, identity: Arc<Identity>, notifier: Arc<dyn Notifier>) -> Self {
        Self { settings: Some(Arc::new(Settings { keys, identity, notifier })) }
    }

    /// Traces nothing, like OSProfiler's `enabled = false`.
    #[must_use]
    pub fn disabled() -> Self {
        Self { settings: None }
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
    settings: Option<Arc<Settings>>,
}

impl<S, B> Service<Request<B>> for ProfilerService<S>
where
    S: Service<Request<B>>,
    S::Error: Display,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = TracedFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let scope = self.settings.as_ref().and_then(|settings| open(settings, &request));
        if let Some(scope) = &scope {
            request.extensions_mut().insert(scope.trace().clone());
        }
        TracedFuture { inner: Box::pin(self.inner.call(request)), scope }
    }
}

/// The inner service's future with the request's point, which closes when this ends or is dropped.
pub struct TracedFuture<F> {
    inner: Pin<Box<F>>,
    scope: Option<Scope>,
}

impl<F, R, E> Future for TracedFuture<F>
where
    F: Future<Output = Result<R, E>>,
    E: Display,
{
    type Output = Result<R, E>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Poll::Ready(result) = self.inner.as_mut().poll(context) else {
            return Poll::Pending;
        };
        if let (Some(scope), Err(error)) = (self.scope.take(), &result) {
            scope.fail(std::any::type_name::<E>(), &error.to_string());
        }
        Poll::Ready(result)
    }
}

/// What a request's headers say about its trace, for services that are not built on tower.
///
/// # Errors
/// Says why the request is not traced.
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
pub fn onward_headers(trace: &Trace) -> Option<(String, String)> {
    trace.signed_headers()
}

fn open<B>(settings: &Settings, request: &Request<B>) -> Option<Scope> {
    // A rejection shows nowhere: whoever probes for keys must not learn anything.
    let context = trace_context(&settings.keys, request.headers()).ok()?;
    let trace = Trace::new(context, Arc::clone(&settings.identity), Arc::clone(&settings.notifier));
    let uri = request.uri();
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
