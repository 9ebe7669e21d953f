//! Opening a connection: resolve, TCP, TLS, each timed.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use crate::base::clock::saturating_nanos;

use super::Phases;
use super::error::ClientError;
use super::options::{Settings, Version};
use super::resolve::Resolver;
use super::url::Origin;

/// An open connection, encrypted or not.
pub(super) enum Stream {
    /// TCP alone.
    Plain(TcpStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
}

/// What was opened.
pub(super) struct Opened {
    pub(super) stream: Stream,
    /// True when HTTP/2 is to be spoken on it.
    pub(super) http2: bool,
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
    pub(super) async fn connect(&self, origin: &Origin, phases: &mut Phases) -> Result<Opened, ClientError> {
        let guard = &self.settings.options.guard;
        guard.admit(origin)?;
        phases.opened = true;
        let started = Instant::now();
        let addresses = self.resolver.addresses(&origin.host, origin.port).await?;
        guard.admit_addresses(origin, &addresses)?;
        let resolved = Instant::now();
        phases.resolve_ns = saturating_nanos(resolved - started);
        let socket = connect_any(origin, &addresses).await?;
        let connected = Instant::now();
        phases.connect_ns = saturating_nanos(connected - resolved);
        // Small requests must leave at once; a socket that refuses the option works all the same.
        let _ = socket.set_nodelay(true);
        let version = self.settings.options.version;
        if !origin.tls {
            return Ok(Opened { stream: Stream::Plain(socket), http2: version == Version::Http2 });
        }
        let stream = handshake(origin, &self.settings.tls, socket).await?;
        phases.tls_ns = saturating_nanos(connected.elapsed());
        let http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        if version == Version::Http2 && !http2 {
            return Err(ClientError::Tls {
                address: origin.authority.clone(),
                reason: "the server does not offer HTTP/2; use `http: { version: auto }`".to_owned(),
            });
        }
        Ok(Opened { stream: Stream::Tls(Box::new(stream)), http2 })
    }
}

async fn connect_any(origin: &Origin, addresses: &[SocketAddr]) -> Result<TcpStream, ClientError> {
    let mut last = None;
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(socket) => return Ok(socket),
            Err(error) => last = Some(error),
        }
    }
    let error = last.unwrap_or_else(|| io::Error::other("no address"));
    Err(ClientError::connecting(&origin.authority, &error))
}

async fn handshake(
    origin: &Origin,
    tls: &Arc<ClientConfig>,
    socket: TcpStream,
) -> Result<TlsStream<TcpStream>, ClientError> {
    let failed = |reason: String| ClientError::Tls { address: origin.authority.clone(), reason };
    let name = ServerName::try_from(origin.host.clone()).map_err(|error| failed(error.to_string()))?;
    let connector = tokio_rustls::TlsConnector::from(Arc::clone(tls));
    let connected = connector.connect(name, socket).await;
    connected.map_err(|error| ClientError::handshaking(&origin.authority, &error))
}

impl Stream {
    /// Writes as much as the socket accepts at once, without waiting; the caller writes the rest.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => match stream.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
                written => written,
            },
            Self::Tls(_) => Ok(0),
        }
    }

    /// The state of the socket itself, which may be newer than the runtime's: closed, quiet, or with unexpected bytes.
    pub(super) fn look(&self) -> PoolCheck {
        let socket = match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        };
        let mut byte = [std::mem::MaybeUninit::uninit()];
        match socket2::SockRef::from(socket).peek(&mut byte) {
            Ok(0) => PoolCheck::Closed,
            Ok(_) => PoolCheck::Bytes,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                PoolCheck::Quiet
            }
            Err(_) => PoolCheck::Closed,
        }
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
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
