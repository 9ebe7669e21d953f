//! The client side of HTTP: requests carry the current point, and calls become points.
//!
//! As OSProfiler's integration of Python's `requests` does: the point is named by the URL's scheme,
//! its start describes the request and its stop the status. Without an initialised profiler, a request
//! passes unchanged. Unlike in OSProfiler, a request that fails closes its point, too.

use std::fmt::Display;
use std::task::{Context, Poll};

use http::header::HOST;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use serde_json::json;
use tower_layer::Layer;
use tower_service::Service;

use super::grpc;
use super::record::{Info, IntoInfo};
use super::rpc;
use super::signing::{X_TRACE_HMAC, X_TRACE_INFO};
use super::trace::current;
use super::trace::{TraceHandle, failure};
use super::traced::TracedFuture;

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
    type Future = TracedFuture<S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        let Some(parent) = current::current() else {
            return TracedFuture::running(self.inner.call(request), None, None);
        };
        let RequestStart { name, info } = RequestStart::by(&request);
        let scope = parent.enter(&name, Some(info));
        add_headers(request.headers_mut(), scope.trace());
        // What the client does at once belongs to the point as well.
        let (call, flow) = current::within(current::Flow::of_point(scope), || self.inner.call(request));
        TracedFuture::running(call, flow, Some(answered))
    }
}

/// Replaces existing headers, which name an outer point.
pub(super) fn add_headers(headers: &mut HeaderMap, trace: &TraceHandle) {
    let Some((info, hmac)) = trace.signed_headers() else { return };
    // Base64 and hex make header values always.
    for (name, value) in [(X_TRACE_INFO, info), (X_TRACE_HMAC, hmac)] {
        if let (Ok(name), Ok(value)) = (http::HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
}

/// The start's info for a request.
pub(super) struct RequestStart {
    pub(super) name: String,
    pub(super) info: Info,
}

impl RequestStart {
    fn by<B>(request: &Request<B>) -> Self {
        let uri = request.uri();
        if grpc::is_call(request.headers()) {
            return Self { name: rpc::POINT_NAME.to_owned(), info: grpc::call_info(uri.path()) };
        }
        let from_header = || {
            let host = request.headers().get(HOST)?.to_str().ok()?;
            host.parse::<http::uri::Authority>().ok()
        };
        let authority = uri.authority().cloned().or_else(from_header);
        // A request without a scheme goes over a connection that is open already: most likely plain HTTP.
        let scheme = uri.scheme_str().unwrap_or("http");
        let port = authority.as_ref().and_then(http::uri::Authority::port_u16);
        let port = port.or(match scheme {
            "http" => Some(80),
            "https" => Some(443),
            _ => None,
        });
        // Not the whole authority: that may hold a password.
        let host = authority.as_ref().map(http::uri::Authority::host);
        Self::of(request.method(), scheme, host, port, uri.path(), uri.query())
    }

    pub(super) fn of(
        method: &Method,
        scheme: &str,
        host: Option<&str>,
        port: Option<u16>,
        path: &str,
        query: Option<&str>,
    ) -> Self {
        let info = json!({"requests": {
            "method": method.as_str(),
            "query": query.unwrap_or_default(),
            "path": path,
            "hostname": host,
            "port": port.map_or(json!(""), |port| json!(port)),
            "scheme": scheme,
        }});
        Self { name: scheme.to_owned(), info: info.into_info() }
    }
}

/// The stop's info for a response.
pub(super) fn status(status: StatusCode) -> Info {
    json!({"requests": {"status_code": status.as_u16()}}).into_info()
}

fn answered<R, E: Display>(result: &Result<Response<R>, E>) -> Option<Info> {
    Some(match result {
        Ok(response) => grpc::failed(response).unwrap_or_else(|| status(response.status())),
        Err(error) => failure(std::any::type_name::<E>(), error),
    })
}
