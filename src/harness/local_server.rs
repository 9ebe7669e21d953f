//! A small server for people and programs who watch a load: read-only, for this machine's own names, with few connections.
//!
//! A web page of another origin can neither read it by its own name for this machine, nor through a browser's request.

use std::collections::VecDeque;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HOST, ORIGIN, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::task::{AbortHandle, JoinSet};

use super::error::HarnessError;

/// The largest number of clients served at once.
const CONNECTIONS_MAX: usize = 32;
/// How long a client may stay connected, and how long its request may take: an idle one must not keep
/// others out.
const CONNECTION_LIMIT: Duration = Duration::from_secs(300);
const REQUEST_LIMIT: Duration = Duration::from_secs(5);
const PLAIN: &str = "text/plain; charset=utf-8";

/// The body of an answer.
pub(super) type SiteBody = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// What is served.
pub(super) trait LocalSite: Send + Sync + 'static {
    /// The answer to a GET. It may not wait.
    fn answer(self: Arc<Self>, request: &Request<Incoming>) -> Response<SiteBody>;

    /// This machine's name; empty when it is not known.
    fn machine(&self) -> &str;
}

/// This machine's name; empty when it is not known.
pub(super) fn machine() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// Binds a port.
pub(super) fn bind(address: SocketAddr, what: &str) -> Result<TcpListener, HarnessError> {
    let failed = |error| {
        HarnessError::failed(format!("cannot serve {what} at {address}: {error}"))
            .remedy("choose another port")
    };
    let listener = TcpListener::bind(address).map_err(failed)?;
    listener.set_nonblocking(true).map_err(failed)?;
    Ok(listener)
}

/// An answer with a text.
pub(super) fn answer(kind: &'static str, text: impl Into<Bytes>) -> Response<SiteBody> {
    with_body(StatusCode::OK, kind, Full::new(text.into()).boxed_unsync())
}

/// An answer with this body.
pub(super) fn with_body(status: StatusCode, kind: &'static str, body: SiteBody) -> Response<SiteBody> {
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// A refusal with its reason.
pub(super) fn refusal(status: StatusCode, text: &str) -> Response<SiteBody> {
    with_body(status, PLAIN, Full::new(Bytes::from(text.to_owned())).boxed_unsync())
}

/// Serves a site until the task is aborted.
pub(super) async fn serve(listener: tokio::net::TcpListener, site: Arc<dyn LocalSite>) {
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
                    // A client that never ends its request must not keep another out: the oldest of these makes room.
                    if open.len() >= CONNECTIONS_MAX {
                        let at = open.iter().position(|(_, answered)| !answered.load(Ordering::Relaxed));
                        if let Some((oldest, _)) = open.remove(at.unwrap_or(0)) {
                            oldest.abort();
                        }
                    }
                    let answered = Arc::new(AtomicBool::new(false));
                    let serving = connection(stream, Arc::clone(&site), Arc::clone(&answered));
                    open.push_back((connections.spawn(serving), answered));
                }
                // No descriptor left, for a while.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            },
        }
    }
}

async fn connection(stream: TcpStream, site: Arc<dyn LocalSite>, answered: Arc<AtomicBool>) {
    let service = service_fn(move |request: Request<Incoming>| {
        answered.store(true, Ordering::Relaxed);
        let mut response = match refused(&request, site.machine()) {
            Some((status, text)) => refusal(status, text),
            None => Arc::clone(&site).answer(&request),
        };
        protect(response.headers_mut());
        async move { Ok::<_, std::convert::Infallible>(response) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(REQUEST_LIMIT);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    // The client notices faults itself.
    let _ = tokio::time::timeout(CONNECTION_LIMIT, connection).await;
}

/// Why a request gets nothing, whatever it asks for.
fn refused<B>(request: &Request<B>, machine: &str) -> Option<(StatusCode, &'static str)> {
    let host = request.headers().get(HOST).map_or(Some(""), |host| host.to_str().ok());
    if !host.is_some_and(|host| is_own(host, machine)) {
        let text = "use an IP address, localhost or this machine's name\n";
        return Some((StatusCode::MISDIRECTED_REQUEST, text));
    }
    let origin = request.headers().get(ORIGIN).map(|origin| origin.to_str().unwrap_or_default());
    let is_own_origin = |origin: &str| origin.split_once("://").map(|(_, name)| name) == host;
    if origin.is_some_and(|origin| !is_own_origin(origin)) {
        return Some((StatusCode::FORBIDDEN, "pages of other origins get nothing\n"));
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Some((StatusCode::METHOD_NOT_ALLOWED, "only GET is supported\n"));
    }
    None
}

/// What tells a browser to keep an answer from pages of other origins, and to take it as what it is.
fn protect(headers: &mut HeaderMap) {
    for (name, value) in [
        (ALLOW, "GET, HEAD"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (CACHE_CONTROL, "no-store"),
        (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
        (HeaderName::from_static("x-frame-options"), "DENY"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

/// True for host names that requests may use: none, an address, `localhost`, the machine's name. A web page
/// whose own name resolves to this machine must not read anything.
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

    #[test]
    fn pages_of_other_origins_and_writers_get_nothing() {
        for (method, host, origin, expected) in [
            ("GET", Some("127.0.0.1:9100"), None, None),
            ("HEAD", Some("localhost:9100"), None, None),
            ("GET", None, None, None),
            ("GET", Some("127.0.0.1:9100"), Some("http://127.0.0.1:9100"), None),
            ("GET", Some("127.0.0.1:9100"), Some("http://127.0.0.1:9101"), Some(403)),
            ("GET", Some("127.0.0.1:9100"), Some("https://evil.example"), Some(403)),
            ("GET", Some("127.0.0.1:9100"), Some("null"), Some(403)),
            ("GET", Some("evil.example:9100"), Some("http://evil.example:9100"), Some(421)),
            ("POST", Some("127.0.0.1:9100"), None, Some(405)),
            ("OPTIONS", Some("127.0.0.1:9100"), None, Some(405)),
        ] {
            let mut request = Request::builder().method(method).uri("/events");
            for (name, value) in [(HOST, host), (ORIGIN, origin)] {
                if let Some(value) = value {
                    request = request.header(name, value);
                }
            }
            let found = refused(&request.body(()).unwrap(), "box").map(|(status, _)| status.as_u16());
            assert_eq!(found, expected, "{method} {host:?} {origin:?}");
        }
    }
}
