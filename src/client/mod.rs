//! Rank 1: HTTP.
//!
//! The load path ([`pool`], [`connect`], [`http1`], `http2`) times every phase of every request, reuses
//! connections visibly, follows redirects only when told to, and retries nothing in silence. What the
//! users of a worker share (names, connections if they are told to share them) is in `worker`. Whatever
//! is not load goes through [`plain`]. This is the only room that names reqwest and h2; it knows nothing
//! of scenarios.

mod buffers;
pub mod connect;
pub mod decode;
mod dns;
pub mod error;
mod framing;
pub mod guard;
pub mod headers;
pub mod http1;
mod http2;
pub mod keystone;
pub mod options;
pub mod plain;
pub mod pool;
mod quick_head;
mod redirect;
mod resolve;
mod shared;
mod system;
pub mod tls;
pub mod url;
mod worker;

use std::time::Instant;

use bytes::Bytes;
use http::header::AsHeaderName;
use http::{HeaderMap, HeaderValue, Method};

use crate::base::clock::Nanos;
use headers::HeaderBlock;

/// A request of the load path.
pub struct Request<'a> {
    /// The method.
    pub method: &'a Method,
    /// Where it goes.
    pub origin: &'a url::Origin,
    /// Path and query, escaped.
    pub path: &'a str,
    /// Headers that all requests of its kind share. `Host` and the body's length are added.
    pub fixed: &'a HeaderBlock,
    /// Headers of its own; no name stands in both.
    pub own: &'a HeaderBlock,
    /// The body; empty sends none.
    pub body: &'a Bytes,
    /// When the action began: what its phases count from.
    pub started: Instant,
    /// How many redirects are followed; 0 gives the redirect itself as the answer.
    pub redirects_max: u32,
    /// The largest body that is read, in bytes.
    pub body_bytes_max: u64,
    /// Whether the answer's headers must be kept.
    pub keep_headers: bool,
    /// Whether the answer's body must be kept (it is counted in any case).
    pub keep_body: bool,
}

/// An answer of the load path.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: http::StatusCode,
    /// The headers, if they were to be kept.
    pub headers: Option<Box<HeaderMap>>,
    /// The body, if it was to be kept.
    pub body: Vec<u8>,
    /// The length of the body.
    pub body_bytes: u64,
    /// When its last byte had come.
    pub ended: Instant,
}

impl Answer {
    /// The value of a header, if headers were kept and it is there.
    #[must_use]
    pub fn header(&self, name: impl AsHeaderName) -> Option<&HeaderValue> {
        self.headers.as_ref()?.get(name)
    }
}

/// How long each phase of a request took, in nanoseconds; 0 for a phase that did not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Resolving the host's name.
    pub resolve_ns: Nanos,
    /// The TCP handshake.
    pub connect_ns: Nanos,
    /// The TLS handshake.
    pub tls_ns: Nanos,
    /// Writing the request.
    pub send_ns: Nanos,
    /// From the request's last byte to the answer's first.
    pub wait_ns: Nanos,
    /// From the answer's first byte to its last.
    pub receive_ns: Nanos,
    /// All that redirects before the last request took; no part of the other phases.
    pub redirect_ns: Nanos,
    /// True when the request opened its connection.
    pub opened: bool,
    /// True when the request went over HTTP/2.
    pub http2: bool,
}
