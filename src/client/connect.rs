//! Opening a connection: resolve, TCP, TLS, each timed.

use std::io;
use std::net::{IpAddr, SocketAddr};
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
use super::url::Origin;

/// An open connection, encrypted or not.
pub(super) enum Stream {
    /// TCP alone.
    Plain(TcpStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
}

/// Opens a connection to `origin`, noting the phases.
pub(super) async fn connect(
    origin: &Origin,
    tls: &Arc<ClientConfig>,
    phases: &mut Phases,
) -> Result<Stream, ClientError> {
    phases.opened = true;
    let started = Instant::now();
    let addresses = resolve(origin).await?;
    let resolved = Instant::now();
    phases.resolve_ns = saturating_nanos(resolved - started);
    let socket = connect_any(origin, &addresses).await?;
    let connected = Instant::now();
    phases.connect_ns = saturating_nanos(connected - resolved);
    // Small requests must leave at once; a socket that refuses the option works all the same.
    let _ = socket.set_nodelay(true);
    if origin.tls {
        let stream = handshake(origin, tls, socket).await?;
        phases.tls_ns = saturating_nanos(connected.elapsed());
        Ok(Stream::Tls(Box::new(stream)))
    } else {
        Ok(Stream::Plain(socket))
    }
}

async fn resolve(origin: &Origin) -> Result<Vec<SocketAddr>, ClientError> {
    if let Ok(address) = origin.host.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(address, origin.port)]);
    }
    let failed = |reason: String| ClientError::Resolve { host: origin.host.clone(), reason };
    let found = tokio::net::lookup_host((origin.host.as_str(), origin.port)).await;
    let addresses: Vec<SocketAddr> = found.map_err(|error| failed(error.to_string()))?.collect();
    if addresses.is_empty() { Err(failed("no address".to_owned())) } else { Ok(addresses) }
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
    /// Writes what the socket takes at once, without a task's ceremony; what is left is not lost.
    pub(super) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(stream) => match stream.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
                written => written,
            },
            Self::Tls(_) => Ok(0),
        }
    }

    /// What the socket itself says, which may know more than the runtime: closed, quiet, or bytes that
    /// nobody asked for.
    pub(super) fn look(&self) -> Look {
        let socket = match self {
            Self::Plain(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
        };
        let mut byte = [std::mem::MaybeUninit::uninit()];
        match socket2::SockRef::from(socket).peek(&mut byte) {
            Ok(0) => Look::Closed,
            Ok(_) => Look::Bytes,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
                Look::Quiet
            }
            Err(_) => Look::Closed,
        }
    }
}

/// What an idle socket says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
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
