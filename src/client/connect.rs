//! Opening a connection: resolve, TCP, TLS, each timed.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use base::clock::{now, saturating_nanos};

use super::error::ClientError;
use super::options::{Settings, Version};
use super::proxy::Proxy;
use super::resolve::{ResolvedAddresses, Resolver};
use super::retransmits::{self, Ends};
use super::url::Origin;
use measure::phases::Phases;

/// How long an address may be silent before the next one is tried, too.
const NEXT_ATTEMPT: Duration = Duration::from_millis(250);

/// An open connection, encrypted or not.
pub(super) enum Stream {
    /// TCP alone.
    Plain(TcpStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
    /// A Unix socket.
    #[cfg(unix)]
    Unix(tokio::net::UnixStream),
    /// To a peer within this thread.
    #[cfg(feature = "simulation")]
    Simulated(super::simulated::Line),
}

/// What was opened.
pub(super) struct OpenedConnection {
    pub(super) stream: Stream,
    /// True when HTTP/2 is to be spoken on it.
    pub(super) http2: bool,
    /// The number of its address, if the host has several; 0 otherwise, and through proxies.
    pub(super) address: u16,
    /// How often the kernel asked for it again.
    pub(super) syns: u8,
    /// For requests in clear through a proxy: what their first line and their headers have in addition.
    pub(super) proxied: Option<Box<ProxyRoute>>,
}

/// How requests in clear are sent through a proxy.
pub(super) struct ProxyRoute {
    /// Stands before the path.
    pub(super) prefix: String,
    /// A header line with its end, or nothing.
    pub(super) header: String,
    /// Whom the proxy is asked to reach, and the proxy.
    pub(super) addresses: [String; 2],
}

/// What opens connections: for one thread, with the names that it has resolved.
pub(super) struct Connector {
    pub(super) settings: Arc<Settings>,
    resolver: Resolver,
}

impl Connector {
    pub(super) fn new(settings: &Arc<Settings>) -> Self {
        Self { settings: Arc::clone(settings), resolver: Resolver::new(&settings.options.dns) }
    }

    /// Opens a connection to `origin`, noting the phases.
    pub(super) async fn connect(
        &self,
        origin: &Origin,
        version: Version,
        phases: &mut Phases,
    ) -> Result<OpenedConnection, ClientError> {
        let version = version.or(self.settings.options.version);
        let guard = &self.settings.options.guard;
        guard.admit(origin)?;
        phases.opened = true;
        #[cfg(feature = "simulation")]
        if let Some(opened) = self.connect_simulated(origin, version, phases).await {
            return opened;
        }
        if origin.socket().is_some() {
            return Box::pin(self.connect_socket(origin, version, phases)).await;
        }
        if let Some(proxy) = self.settings.options.proxies.of(origin) {
            return Box::pin(self.connect_through(proxy, (origin, version), phases)).await;
        }
        let started = now();
        let ResolvedAddresses { addresses, are_several } =
            self.resolver.addresses(&origin.host, origin.port).await?;
        guard.admit_addresses(origin, &addresses)?;
        let resolved = now();
        phases.resolve_ns = saturating_nanos(resolved - started);
        let (socket, reached) = connect_any(origin, &addresses).await?;
        let connected = now();
        phases.connect_ns = saturating_nanos(connected - resolved);
        let syns = retransmits::syns(|| ends_of(&socket), connected - resolved);
        phases.retransmits.syns = phases.retransmits.syns.saturating_add(syns);
        let address = if are_several { self.settings.addresses.number(reached.ip()) } else { 0 };
        if origin.tls {
            // A separate future: thousands of connections in clear may be opened at a time, and need no memory for it.
            let opened = Box::pin(self.encrypt((origin, version), socket, connected, phases)).await?;
            return Ok(OpenedConnection { address, syns, ..opened });
        }
        let http2 = version == Version::Http2;
        Ok(OpenedConnection { stream: Stream::Plain(socket), http2, address, syns, proxied: None })
    }

    /// The TLS handshake.
    async fn encrypt(
        &self,
        (origin, version): (&Origin, Version),
        socket: TcpStream,
        connected: Instant,
        phases: &mut Phases,
    ) -> Result<OpenedConnection, ClientError> {
        let names = &self.settings.options.server_names;
        let name = names.iter().find(|(of, _)| of == origin).map_or(&origin.host, |(_, name)| name);
        let stream = handshake(origin, name, self.settings.tls_of(version), socket).await?;
        phases.tls_ns = saturating_nanos(now() - connected);
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        if version == Version::Http2 && !http2 {
            return Err(ClientError::Tls {
                address: origin.authority.clone(),
                reason: "the server does not offer HTTP/2; use `http: { version: auto }`".to_owned(),
            });
        }
        Ok(OpenedConnection {
            stream: Stream::Tls(Box::new(stream)),
            http2,
            address: 0,
            syns: 0,
            proxied: None,
        })
    }

    /// Connects to a proxy, which the phases take for the server; the phase connect includes the tunnel for TLS. The
    /// proxy resolves the server's name.
    async fn connect_through(
        &self,
        proxy: &Proxy,
        (origin, version): (&Origin, Version),
        phases: &mut Phases,
    ) -> Result<OpenedConnection, ClientError> {
        let started = now();
        let ResolvedAddresses { addresses, .. } =
            self.resolver.addresses(&proxy.origin.host, proxy.origin.port).await?;
        let resolved = now();
        phases.resolve_ns = saturating_nanos(resolved - started);
        let (mut socket, _) = connect_any(&proxy.origin, &addresses).await.map_err(|error| match error {
            ClientError::Connect { address, reason } => {
                ClientError::Connect { address: format!("the proxy {address}"), reason }
            }
            other => other,
        })?;
        let syns = retransmits::syns(|| ends_of(&socket), now() - resolved);
        phases.retransmits.syns = phases.retransmits.syns.saturating_add(syns);
        if origin.tls || version == Version::Upgrade {
            // A proxy would not pass on the request to change the protocol.
            proxy.tunnel(&mut socket, origin).await?;
            let connected = now();
            phases.connect_ns = saturating_nanos(connected - resolved);
            if !origin.tls {
                let stream = Stream::Plain(socket);
                return Ok(OpenedConnection { stream, http2: false, address: 0, syns, proxied: None });
            }
            let opened = self.encrypt((origin, version), socket, connected, phases).await?;
            return Ok(OpenedConnection { syns, ..opened });
        }
        phases.connect_ns = saturating_nanos(now() - resolved);
        if version == Version::Http2 {
            let reason = "HTTP/2 without TLS cannot be sent through a proxy; use `http: { version: auto }`";
            return Err(ClientError::Request(reason.to_owned()));
        }
        let proxied = ProxyRoute {
            prefix: format!("http://{}", origin.authority),
            header: proxy.authorization_line(),
            addresses: [origin, &proxy.origin].map(|one| one.authority.clone()),
        };
        Ok(OpenedConnection {
            stream: Stream::Plain(socket),
            http2: false,
            address: 0,
            syns,
            proxied: Some(Box::new(proxied)),
        })
    }

    /// Opens a connection in the network of a simulation, if this thread is in one.
    #[cfg(feature = "simulation")]
    async fn connect_simulated(
        &self,
        origin: &Origin,
        version: Version,
        phases: &mut Phases,
    ) -> Option<Result<OpenedConnection, ClientError>> {
        let started = now();
        let line = super::simulated::connect(&origin.authority).await?;
        phases.connect_ns = saturating_nanos(now() - started);
        let http2 = version == Version::Http2;
        let opened = |line| OpenedConnection {
            stream: Stream::Simulated(line),
            http2,
            address: 0,
            syns: 0,
            proxied: None,
        };
        Some(line.map(opened).map_err(|error| ClientError::connecting(&origin.authority, &error)))
    }

    #[cfg(unix)]
    async fn connect_socket(
        &self,
        origin: &Origin,
        version: Version,
        phases: &mut Phases,
    ) -> Result<OpenedConnection, ClientError> {
        let started = now();
        let connected = tokio::net::UnixStream::connect(&origin.host).await;
        let socket = connected.map_err(|error| ClientError::connecting(&origin.shown(), &error))?;
        phases.connect_ns = saturating_nanos(now() - started);
        let http2 = version == Version::Http2;
        Ok(OpenedConnection { stream: Stream::Unix(socket), http2, address: 0, syns: 0, proxied: None })
    }

    #[cfg(not(unix))]
    async fn connect_socket(
        &self,
        origin: &Origin,
        _: Version,
        _: &mut Phases,
    ) -> Result<OpenedConnection, ClientError> {
        let reason = "this system has no Unix sockets".to_owned();
        Err(ClientError::Connect { address: origin.shown(), reason })
    }
}

/// Both ends of a connection by TCP.
fn ends_of(socket: &TcpStream) -> Option<Ends> {
    Some((socket.local_addr().ok()?, socket.peer_addr().ok()?))
}

/// Connects to the first of these addresses that accepts. One that refuses is left at once; beside one that is silent, the
/// next is tried after [`NEXT_ATTEMPT`].
async fn connect_any(
    origin: &Origin,
    addresses: &[SocketAddr],
) -> Result<(TcpStream, SocketAddr), ClientError> {
    let connected = match addresses {
        [address] => connect_to(*address).await,
        // A separate future: a single address is the rule, and thousands of connections may be opened at a time.
        several => Box::pin(connect_staggered(several)).await,
    };
    connected.map_err(|error| ClientError::connecting(&origin.authority, &error))
}

async fn connect_to(address: SocketAddr) -> io::Result<(TcpStream, SocketAddr)> {
    let socket = TcpStream::connect(address).await?;
    // Small requests must leave at once; a socket that refuses the option works all the same.
    let _ = socket.set_nodelay(true);
    Ok((socket, address))
}

/// Attempts that begin one after another, the first that succeeds (RFC 8305, section 5). If none does, the error is that
/// of the first that failed.
async fn connect_staggered(addresses: &[SocketAddr]) -> io::Result<(TcpStream, SocketAddr)> {
    let (mut waiting, mut attempts) = (addresses.iter(), FuturesUnordered::new());
    let mut first = None;
    loop {
        if let Some(address) = waiting.next() {
            attempts.push(connect_to(*address));
        } else if attempts.is_empty() {
            return Err(first.unwrap_or_else(|| io::Error::other("no address")));
        }
        let pause = if waiting.len() > 0 { NEXT_ATTEMPT } else { Duration::MAX };
        match tokio::time::timeout(pause, attempts.next()).await {
            Ok(Some(Ok(connected))) => return Ok(connected),
            Ok(Some(Err(error))) => first = first.or(Some(error)),
            // Silent, or all have failed: the next one.
            Ok(None) | Err(_) => {}
        }
    }
}

async fn handshake(
    origin: &Origin,
    name: &str,
    tls: &Arc<ClientConfig>,
    socket: TcpStream,
) -> Result<TlsStream<TcpStream>, ClientError> {
    let failed = |reason: String| ClientError::Tls { address: origin.authority.clone(), reason };
    let name = ServerName::try_from(name.to_owned()).map_err(|error| failed(error.to_string()))?;
    let connector = tokio_rustls::TlsConnector::from(Arc::clone(tls));
    let connected = connector.connect(name, socket).await;
    connected.map_err(|error| ClientError::handshaking(&origin.authority, &error))
}

impl Stream {
    /// Both ends, if it goes by TCP.
    pub(super) fn ends(&self) -> Option<Ends> {
        match self {
            Self::Plain(stream) => ends_of(stream),
            Self::Tls(stream) => ends_of(stream.get_ref().0),
            #[cfg(unix)]
            Self::Unix(_) => None,
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => None,
        }
    }

    /// Writes as much as the socket accepts at once, without waiting; the caller writes the rest.
    #[inline]
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        debug_assert!(!bytes.is_empty(), "a system call for nothing");
        match self {
            Self::Plain(stream) => without_waiting(stream.try_write(bytes)),
            #[cfg(unix)]
            Self::Unix(stream) => without_waiting(stream.try_write(bytes)),
            Self::Tls(_) => Ok(0),
            #[cfg(feature = "simulation")]
            Self::Simulated(_) => Ok(0),
        }
    }

    /// The state of the socket itself, which may be newer than the runtime's: closed, quiet, or with unexpected bytes.
    pub(super) fn look(&self) -> PoolCheck {
        let socket = match self {
            Self::Plain(stream) => socket2::SockRef::from(stream),
            Self::Tls(stream) => socket2::SockRef::from(stream.get_ref().0),
            #[cfg(unix)]
            Self::Unix(stream) => socket2::SockRef::from(stream),
            #[cfg(feature = "simulation")]
            Self::Simulated(line) => {
                return match line.arrived() {
                    Some(super::simulated::PeerEvent::Bytes(_)) => PoolCheck::Bytes,
                    Some(_) => PoolCheck::Closed,
                    None => PoolCheck::Quiet,
                };
            }
        };
        let mut byte = [std::mem::MaybeUninit::uninit()];
        match socket.peek(&mut byte) {
            Ok(0) => PoolCheck::Closed,
            Ok(_) => PoolCheck::Bytes,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                PoolCheck::Quiet
            }
            Err(_) => PoolCheck::Closed,
        }
    }
}

#[inline]
fn without_waiting(written: io::Result<usize>) -> io::Result<usize> {
    match written {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        written => written,
    }
}

/// The state of an idle socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PoolCheck {
    /// Nothing to read.
    Quiet,
    /// Something to read.
    Bytes,
    /// The peer has ended the connection.
    Closed,
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream).poll_read(cx, buffer),
            #[cfg(feature = "simulation")]
            Self::Simulated(line) => Pin::new(line).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream).poll_write(cx, bytes),
            #[cfg(feature = "simulation")]
            Self::Simulated(line) => Pin::new(line).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream).poll_flush(cx),
            #[cfg(feature = "simulation")]
            Self::Simulated(line) => Pin::new(line).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            #[cfg(unix)]
            Self::Unix(stream) => Pin::new(stream).poll_shutdown(cx),
            #[cfg(feature = "simulation")]
            Self::Simulated(line) => Pin::new(line).poll_shutdown(cx),
        }
    }
}
