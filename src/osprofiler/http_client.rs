//! The client's side of HTTP: requests carry the current point, and calls are points.
//!
//! As OSProfiler's integration of Python's `requests` does: the point is named by the URL's scheme,
//! its start tells of the request and its stop of the status. Where no profiler is initialised a
//! request passes untouched. Unlike there, a request that fails closes its point too.

use std::borrow::Cow;
use std::fmt::Display;
use std::task::{Context, Poll};

use http::header::HOST;
use http::{HeaderValue, Request, Response, Uri};
use serde_json::{Value, json};
use tower_layer::Layer;
use tower_service::Service;

use super::current;
use super::record::{Info, IntoInfo};
use super::signing::{X_TRACE_HMAC, X_TRACE_INFO};
use super::trace::{Trace, failure};
use super::traced::Traced;

/// The values of `X-Trace-Info` and `X-Trace-HMAC` of a request sent now, for clients that are not
/// built on tower; `None` if no profiler is initialised here, or if it has no key.
#[must_use]
pub fn headers() -> Option<[(&'static str, String); 2]> {
    let (info, hmac) = current::current()?.signed_headers()?;
    Some([(X_TRACE_INFO, info), (X_TRACE_HMAC, hmac)])
}

/// Adds [`TracingClient`] to a tower stack.
#[derive(Clone, Copy, Debug, Default)]
pub struct TracingClientLayer;

impl<S> Layer<S> for TracingClientLayer {
    type Service = TracingClient<S>;

    fn layer(&self, inner: S) -> Self::Service {
        TracingClient { inner }
    }
}

/// A client whose calls are points; made by [`TracingClientLayer`].
#[derive(Clone, Debug)]
pub struct TracingClient<S> {
    inner: S,
}

impl<S, B, R> Service<Request<B>> for TracingClient<S>
where
    S: Service<Request<B>, Response = Response<R>>,
    S::Error: Display,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Traced<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let Some(parent) = current::current() else {
            return Traced::running(self.inner.call(request), None, None);
        };
        let name = scheme(request.uri());
        let scope = parent.enter(&name, Some(requests_info(&request).into_info()));
        add_headers(&mut request, scope.trace());
        // What the client does at once belongs to the point as well.
        let (call, flow) = current::within(current::Flow::of_point(scope), || self.inner.call(request));
        Traced::running(call, flow, Some(answered))
    }
}

/// Replaces what is there: it names an outer point.
fn add_headers<B>(request: &mut Request<B>, trace: &Trace) {
    let Some((info, hmac)) = trace.signed_headers() else { return };
    // Base64 and hex make header values always.
    for (name, value) in [(X_TRACE_INFO, info), (X_TRACE_HMAC, hmac)] {
        if let (Ok(name), Ok(value)) = (http::HeaderName::try_from(name), HeaderValue::try_from(value)) {
            request.headers_mut().insert(name, value);
        }
    }
}

/// A request without a scheme goes over a connection that somebody opened: most likely plain HTTP.
fn scheme(uri: &Uri) -> Cow<'static, str> {
    uri.scheme_str().map_or(Cow::Borrowed("http"), |scheme| Cow::Owned(scheme.to_owned()))
}

fn requests_info<B>(request: &Request<B>) -> Value {
    let uri = request.uri();
    let from_header = || {
        let host = request.headers().get(HOST)?.to_str().ok()?;
        host.parse::<http::uri::Authority>().ok()
    };
    let authority = uri.authority().cloned().or_else(from_header);
    let scheme = scheme(uri);
    let port = match (authority.as_ref().and_then(http::uri::Authority::port_u16), &*scheme) {
        (Some(port), _) => json!(port),
        (None, "http") => json!(80),
        (None, "https") => json!(443),
        (None, _) => json!(""),
    };
    json!({"requests": {
        "method": request.method().as_str(),
        "query": uri.query().unwrap_or_default(),
        "path": uri.path(),
        // Not the whole authority: that may hold a password.
        "hostname": authority.as_ref().map(http::uri::Authority::host),
        "port": port,
        "scheme": scheme,
    }})
}

fn answered<R, E: Display>(result: &Result<Response<R>, E>) -> Option<Info> {
    Some(match result {
        Ok(response) => json!({"requests": {"status_code": response.status().as_u16()}}).into_info(),
        Err(error) => failure(std::any::type_name::<E>(), error),
    })
}
