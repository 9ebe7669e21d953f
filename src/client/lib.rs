//! HTTP.
//!
//! The load path ([`pool`], [`connect`], [`http1`], `http2`) times every phase of every request and reports which
//! connections it reuses. It follows redirects only if configured, and sends a request again only where that is safe
//! ([`options::Resend`]). `worker` has what the users of a worker share: resolved names, and connections if configured.
//! Requests that are not load use [`plain`]. This is the only module that uses reqwest; it knows nothing of
//! scenarios.

pub mod addresses;
pub mod body;
mod buffers;
pub mod client_credentials;
pub mod connect;
pub mod cookies;
pub mod decode;
pub mod decode_pieces;
mod dns;
pub mod error;
mod fields;
mod framing;
pub mod guard;
mod handshake;
pub mod headers;
pub mod http1;
mod http2;
pub mod options;
pub mod plain;
pub mod pool;
pub mod proxy;
mod quick_head;
pub mod reading;
mod redirect;
mod resolve;
mod retransmits;
mod shared;
#[cfg(feature = "simulation")]
pub mod simulated;
mod system;
pub mod tls;
pub mod tokens;
mod trust;
pub mod url;
pub mod websocket;
mod whole;
mod worker;

use std::sync::Arc;
use std::time::Instant;

use http::{HeaderMap, Method};

use body::BodyContent;
use cookies::Jar;
use headers::HeaderBlock;
pub use http2::dialogue;
use options::Version;
use reading::BodyReader;
pub use retransmits::take_cut_off;

/// A request of the load path.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The method.
    pub method: &'a Method,
    /// Where it goes.
    pub origin: &'a url::Origin,
    /// Path and query, escaped.
    pub path: &'a str,
    /// Headers that all requests of the action share. `Host` and the body's length are added.
    pub fixed: &'a HeaderBlock,
    /// Headers of this request only; no name is in both.
    pub own: &'a HeaderBlock,
    /// The body; if empty, none is sent.
    pub body: &'a BodyContent,
    /// When the action began; its phases count from then.
    pub started: Instant,
    /// How many redirects to follow; with 0, the redirect itself is the answer.
    pub redirects_max: u32,
    /// The largest body that is read, in bytes.
    pub body_bytes_max: u64,
    /// The cookies to send and to keep, if any.
    pub cookies: Option<&'a Jar>,
    /// Whether to keep the answer's headers.
    pub keep_headers: bool,
    /// Whether to keep the answer's body (its length is always counted).
    pub keep_body: bool,
    /// Whether to keep trailers. An answer over HTTP/2 that ends with its head has its headers kept instead.
    pub keep_trailers: bool,
    /// Who reads the body while it arrives, if anybody does.
    pub reader: Option<&'a dyn BodyReader>,
    /// The version of HTTP that it needs; `Auto` for what the run uses.
    pub version: Version,
    /// True for a status that is a failure: the first [`BEGINNING_BYTES`] of such an answer's body are kept in any case.
    pub is_refused: &'a dyn Fn(http::StatusCode) -> bool,
}

/// How much of the body of a refused answer is kept, to quote it.
pub const BEGINNING_BYTES: usize = 2048;

impl Request<'_> {
    /// How many bytes of the body to keep of an answer with this status.
    fn bytes_kept(&self, status: http::StatusCode) -> usize {
        if self.keep_body {
            usize::MAX
        } else if (self.is_refused)(status) {
            BEGINNING_BYTES
        } else {
            0
        }
    }
}

/// Appends as much of a part of a body as is kept.
#[inline]
fn keep(kept: &mut Vec<u8>, data: &[u8], bytes_max: usize) {
    let room = bytes_max.saturating_sub(kept.len());
    if room > 0 {
        kept.extend_from_slice(&data[..data.len().min(room)]);
    }
}

/// An answer of the load path.
#[derive(Debug)]
pub struct Answer {
    /// The status.
    pub status: http::StatusCode,
    /// The headers, if kept, or if they set cookies.
    pub headers: Option<Arc<HeaderMap>>,
    /// The body or its beginning, if kept.
    pub body: Vec<u8>,
    /// The length of the body.
    pub body_bytes: u64,
    /// The trailers, if kept and over HTTP/2.
    pub trailers: Option<Arc<HeaderMap>>,
    /// When its last byte had arrived.
    pub ended: Instant,
}
