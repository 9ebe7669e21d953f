//! Opening a connection: resolve, TCP, TLS, each timed.

use std::cell::Cell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
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

/// Instants at which bytes went through a connection.
#[derive(Default)]
pub(super) struct Marks {
    /// When bytes were written last.
    pub(super) last_write: Cell<Option<Instant>>,
    /// When bytes were read first since this was cleared.
    pub(super) first_read: Cell<Option<Instant>>,
    /// Set while nothing is awaited: a read then asks the socket itself whether the peer is gone.
    pub(super) idle: Cell<bool>,
    /// Set by such a read when there are bytes that the runtime has not heard of.
    pub(super) unheard: Cell<bool>,
}

/// A connection that notes when bytes go through it.
pub(super) struct MarkedStream {
    stream: Stream,
    marks: Rc<Marks>,
}

enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// Opens a connection to `origin`, noting the phases.
pub(super) async fn connect(
    origin: &Origin,
    tls: &Arc<ClientConfig>,
    phases: &mut Phases,
) -> Result<(MarkedStream, Rc<Marks>), ClientError> {
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
    let stream = if origin.tls {
        let stream = handshake(origin, tls, socket).await?;
        phases.tls_ns = saturating_nanos(connected.elapsed());
        Stream::Tls(Box::new(stream))
    } else {
        Stream::Plain(socket)
    };
    let marks = Rc::new(Marks::default());
    Ok((MarkedStream { stream, marks: Rc::clone(&marks) }, marks))
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

impl AsyncRead for MarkedStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let poll = match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Stream::Tls(stream) => Pin::new(stream).poll_read(cx, buffer),
        };
        // The runtime may not have heard yet of an end that the system knows of already. A request
        // that is sent into it fails through no fault of the service.
        if poll.is_pending() && self.marks.idle.get() && self.is_closed_by_peer() {
            return Poll::Ready(Ok(()));
        }
        if buffer.filled().len() > before && self.marks.first_read.get().is_none() {
            self.marks.first_read.set(Some(Instant::now()));
        }
        poll
    }
}

impl AsyncWrite for MarkedStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let poll = match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Stream::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        };
        self.mark_write(&poll);
        poll
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let poll = match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Stream::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        };
        self.mark_write(&poll);
        poll
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Plain(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.stream {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Stream::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

impl MarkedStream {
    /// True when the peer has ended the connection; notes whether there is something to read.
    fn is_closed_by_peer(&self) -> bool {
        let socket = match &self.stream {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.get_ref().0,
        };
        let mut byte = [std::mem::MaybeUninit::uninit()];
        match socket2::SockRef::from(socket).peek(&mut byte) {
            Ok(length) => {
                self.marks.unheard.set(length > 0);
                length == 0
            }
            Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
        }
    }

    fn mark_write(&self, poll: &Poll<io::Result<usize>>) {
        if matches!(poll, Poll::Ready(Ok(written)) if *written > 0) {
            self.marks.last_write.set(Some(Instant::now()));
        }
    }
}
