//! The HTTP options of a run: versions, connections, limits, names. Plain data, fixed before the load.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use http::Method;
use rustls::ClientConfig;

use super::addresses::Addresses;
use super::cookies::CookieMode;
use super::error::ClientError;
use super::guard::Guard;
use super::proxy::Proxies;
use super::url::Origin;

/// The default limit on the size of an answer, in bytes.
pub const BODY_BYTES_MAX: u64 = 64 << 20;
/// The most interim answers (100, 103) before the final answer.
pub(super) const INTERIM_MAX: usize = 10_000;

/// What a worker needs to open connections.
#[derive(Debug)]
pub struct Settings {
    /// TLS settings, with the protocols that ALPN offers.
    tls: Arc<ClientConfig>,
    /// The same where it offers only HTTP/1.1.
    tls_http1: Arc<ClientConfig>,
    /// HTTP options.
    pub(super) options: HttpOptions,
    /// The addresses of hosts that have several.
    pub(super) addresses: Addresses,
    /// True if a server spoke before it was asked when it was looked for.
    pub(super) speaks_first: AtomicBool,
    /// How many requests were sent once more, by why.
    unprocessed: AtomicU64,
    after_idleness: AtomicU64,
}

/// How many requests were sent once more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResendCounts {
    /// Because an HTTP/2 server had said that it did not process them.
    pub unprocessed: u64,
    /// Because a connection that had been idle ended before their answer.
    pub after_idleness: u64,
}

impl Settings {
    /// Settings of a run.
    #[must_use]
    pub fn new(tls: &Arc<ClientConfig>, options: HttpOptions) -> Arc<Self> {
        let offering = |version: Version| {
            let offered: &[&[u8]] = match version {
                Version::Auto => &[b"h2", b"http/1.1"],
                Version::Http1 | Version::Upgrade => &[b"http/1.1"],
                Version::Http2 | Version::Dialogue => &[b"h2"],
            };
            let mut tls = ClientConfig::clone(tls);
            tls.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
            Arc::new(tls)
        };
        Arc::new(Self {
            tls: offering(options.version),
            tls_http1: offering(Version::Http1),
            options,
            addresses: Addresses::default(),
            speaks_first: AtomicBool::new(false),
            unprocessed: AtomicU64::new(0),
            after_idleness: AtomicU64::new(0),
        })
    }

    /// TLS settings for connections of this version.
    pub(super) fn tls_of(&self, version: Version) -> &Arc<ClientConfig> {
        if version == Version::Upgrade { &self.tls_http1 } else { &self.tls }
    }

    /// Which hosts may be reached.
    #[must_use]
    pub fn guard(&self) -> &Guard {
        &self.options.guard
    }

    /// The addresses that were connected to, of hosts that have several.
    #[must_use]
    pub fn addresses(&self) -> &Addresses {
        &self.addresses
    }

    /// Counts a request that is sent once more after this error.
    pub(super) fn count_resent(&self, error: &ClientError) {
        let count = if error.is_unprocessed() { &self.unprocessed } else { &self.after_idleness };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// How many requests were sent once more.
    #[must_use]
    pub fn resent(&self) -> ResendCounts {
        ResendCounts {
            unprocessed: self.unprocessed.load(Ordering::Relaxed),
            after_idleness: self.after_idleness.load(Ordering::Relaxed),
        }
    }

    /// Which requests share cookies.
    #[must_use]
    pub fn cookies(&self) -> CookieMode {
        self.options.cookies
    }
}

/// HTTP options.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpOptions {
    /// Which version.
    pub version: Version,
    /// Which users or iterations share connections.
    pub connections: Connections,
    /// The most shared connections of a worker to an origin.
    pub connections_max: ConnectionsMax,
    /// Which requests are sent once more.
    pub resend: Resend,
    /// Limits on answers.
    pub limits: Limits,
    /// How names are resolved.
    pub dns: DnsOptions,
    /// Which hosts may be reached.
    pub guard: Guard,
    /// Which requests share cookies.
    pub cookies: CookieMode,
    /// The names that servers are asked for in the TLS handshake, and that their certificates must have, where these
    /// are not the hosts' own.
    pub server_names: Vec<(Origin, String)>,
    /// The proxies.
    pub proxies: Proxies,
}

/// The version of HTTP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// What the server chooses by ALPN; HTTP/1.1 in clear.
    #[default]
    Auto,
    /// HTTP/1.1 only.
    Http1,
    /// HTTP/2 only: by ALPN over TLS, by prior knowledge in clear.
    Http2,
    /// HTTP/1.1, to ask for another protocol on the same connection.
    Upgrade,
    /// HTTP/2 only, for a request whose body is sent later: see [`Dialogue`](super::dialogue::Dialogue).
    Dialogue,
}

impl Version {
    /// True if the answer to a request is not awaited, because it opens something.
    #[inline]
    #[must_use]
    pub fn opens(self) -> bool {
        matches!(self, Self::Upgrade | Self::Dialogue)
    }

    /// The version of a request, of which `self` is what it needs itself, and `general` what the run uses.
    pub(super) fn or(self, general: Self) -> Self {
        if self == Self::Auto { general } else { self }
    }
}

/// Which users or iterations share connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connections {
    /// Each virtual user keeps its own.
    #[default]
    User,
    /// Each iteration opens its own.
    Iteration,
    /// The users of a worker share them.
    Shared,
}

/// Which requests are sent once more if their connection ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resend {
    /// A request that an HTTP/2 server says it did not process, and a request with an idempotent method (RFC 9110, section
    /// 9.2.2) on a connection that had been idle, as browsers do.
    #[default]
    Safe,
    /// None.
    Never,
}

impl Resend {
    /// A server whose limit of idleness runs out while a request is under way has not dropped a busy connection.
    const IDLE_MIN: Duration = Duration::from_millis(500);

    /// True if a request of this method may be sent once more after this error. `idle`: how long its connection was idle
    /// before.
    pub(super) fn allows(self, method: &Method, idle: Duration, error: &ClientError) -> bool {
        let is_idempotent = matches!(
            *method,
            Method::GET | Method::HEAD | Method::OPTIONS | Method::TRACE | Method::PUT | Method::DELETE
        );
        let is_safe = is_idempotent && idle >= Self::IDLE_MIN && error.is_of_kept_alive();
        self == Self::Safe && (is_safe || error.is_unprocessed())
    }
}

/// A bound on shared connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionsMax(pub usize);

impl Default for ConnectionsMax {
    fn default() -> Self {
        Self(256)
    }
}

/// Limits on answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest head, in bytes.
    pub head_bytes_max: usize,
    /// The most headers.
    pub headers_max: usize,
    /// The most bytes of trailers.
    pub trailer_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { head_bytes_max: 256 << 10, headers_max: 256, trailer_bytes_max: 64 << 10 }
    }
}

impl Limits {
    /// What to say of a head that is too large.
    pub(super) fn head_exceeded(&self) -> ClientError {
        let bytes = self.head_bytes_max;
        ClientError::Limit(format!("its head is larger than {bytes} bytes; raise `max_head` under `http`"))
    }

    /// What to say of a head with too many fields.
    pub(super) fn headers_exceeded(&self) -> ClientError {
        let most = self.headers_max;
        ClientError::Limit(format!("it has more than {most} headers; raise `max_headers` under `http`"))
    }
}

/// What to say of trailers that are too large.
pub(super) fn trailers_exceeded(bytes_max: usize) -> ClientError {
    let reason = format!("its trailers are larger than {bytes_max} bytes; raise `max_trailers` under `http`");
    ClientError::Limit(reason)
}

/// How names are resolved.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsOptions {
    /// The DNS servers; empty for the system's.
    pub servers: Vec<SocketAddr>,
    /// Names in lower case that are not looked up, with their addresses.
    pub hosts: Vec<(String, Vec<IpAddr>)>,
}

impl DnsOptions {
    /// The addresses that the options themselves give a name.
    pub(super) fn fixed(&self, host: &str) -> Option<&[IpAddr]> {
        let host = host.trim_end_matches('.');
        let known = self.hosts.iter().find(|(name, _)| name.eq_ignore_ascii_case(host));
        known.map(|(_, addresses)| addresses.as_slice())
    }
}
