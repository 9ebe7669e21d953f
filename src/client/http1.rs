//! An HTTP/1.1 connection of the load path: writes a request at once, and reads the answer into a
//! reused buffer.
//!
//! Supports what a load test meets: interim answers, chunks and trailers, HEAD, 204 and 304, bodies that
//! end with the connection, keep-alive rules, bounded heads and bodies. After unexpected bytes behind an
//! answer, the connection is not reused. Nothing is retried.

use std::io;
use std::pin::{Pin, pin};
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use http::{Method, StatusCode};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, ReadBuf};
use tokio_util::io::poll_read_buf;

use base::clock::{now, saturating_nanos};

use super::body::{BodyContent, Source};
use super::buffers::{self, BUFFER_BYTES};
use super::connect::{OpenedConnection, PoolCheck, ProxyRoute, Stream};
use super::error::ClientError;
use super::framing::{Chunks, Framing, Head, KeepHeaders, head};
use super::options::{INTERIM_MAX, Limits, Settings, Version};
use super::proxy::unauthorized;
use super::reading::{END_WAIT, Reading};
use super::retransmits::{Span, Wire};
use super::{Answer, Request};
use measure::phases::Phases;

/// Bodies up to this size are sent in the same write as the head.
const BODY_BYTES_INLINE: usize = 64 * 1024;
/// How long to wait for bytes that are on their way to a connection where they should not be.
const UNASKED_WAIT: Duration = Duration::from_millis(1);
/// How long the check before the load listens whether the server speaks before it is asked.
const LISTEN: Duration = Duration::from_millis(40);
/// How long a new connection to such a server waits for that. It need not be short: no answer from there counts.
const SPEAKS_FIRST_WAIT: Duration = Duration::from_millis(500);
/// A connection that was idle for longer is checked before reuse, because the server may have closed it. If it closes
/// sooner, the next request gets an error of class `kept_alive_closed`; checking every time would cost each request a system call.
const LOOK_AFTER_IDLE: Duration = Duration::from_micros(50);

/// An open connection.
pub(super) struct Http1 {
    stream: Stream,
    output: Vec<u8>,
    input: Vec<u8>,
    /// Where in `input` what was not used yet begins: moving it to the front for every answer would take longer than to
    /// read the answer's head.
    at: usize,
    limits: Limits,
    /// For requests in clear through a proxy.
    proxied: Option<Box<ProxyRoute>>,
    /// The number of its address, if the host has several.
    address: u16,
    requests: u64,
    /// When bytes, or the end, were last read: between answers, the start of the idle time.
    read_at: Instant,
    /// False once the connection must not be used again.
    usable: bool,
    /// True if the server was heard to speak before it was asked.
    speaks_first: bool,
    wire: Wire,
    /// When the request that waits for its answer started, and when it was written.
    asked_at: Option<(Instant, Instant)>,
}

impl Drop for Http1 {
    fn drop(&mut self) {
        if let Some((started, written)) = self.asked_at {
            self.wire.cut_off(|| self.stream.ends(), started, written);
        }
    }
}

impl Http1 {
    pub(super) fn new(opened: OpenedConnection, settings: &Settings) -> Self {
        let OpenedConnection { stream, proxied, address, syns, .. } = opened;
        Self {
            stream,
            proxied,
            address,
            output: Vec::new(),
            input: Vec::new(),
            at: 0,
            limits: settings.options.limits,
            speaks_first: settings.speaks_first.load(Ordering::Relaxed),
            requests: 0,
            read_at: now(),
            usable: true,
            wire: Wire::new(syns, None),
            asked_at: None,
        }
    }

    /// True if another request can be sent without a check, because the last answer was very recent.
    #[inline]
    pub(super) fn was_just_used(&self, now: Instant) -> bool {
        self.usable && now.saturating_duration_since(self.read_at) < LOOK_AFTER_IDLE
    }

    /// False after an answer that ends the connection, or one that was not read to its end. It must be closed at once
    /// (RFC 9112, section 9.6): until then, some servers answer no other client.
    pub(super) fn is_open(&self) -> bool {
        self.usable
    }

    /// Since when it has been idle.
    #[inline]
    pub(super) fn idle_since(&self) -> Instant {
        self.read_at
    }

    /// True if another request can be sent, false if the server closed the connection.
    ///
    /// # Errors
    /// The server sent bytes that no request asked for.
    pub(super) async fn is_usable(&mut self) -> Result<bool, ClientError> {
        match self.usable.then(|| self.stream.look()) {
            Some(PoolCheck::Quiet) => Ok(true),
            // A separate future, because it is rare.
            Some(PoolCheck::Bytes) => Box::pin(self.is_quiet(Some(UNASKED_WAIT))).await,
            _ => Ok(false),
        }
    }

    /// True if nothing arrives in time, false at the end of the connection. TLS has its own records, such as session
    /// tickets: only decrypted bytes count.
    ///
    /// # Errors
    /// Bytes arrived that no request asked for.
    async fn is_quiet(&mut self, wait: Option<Duration>) -> Result<bool, ClientError> {
        let mut bytes = [0; 64];
        let mut reading = pin!(self.stream.read(&mut bytes));
        let heard = match wait {
            // The runtime may learn of bytes in the socket a moment later.
            Some(wait) => tokio::time::timeout(wait, reading).await.ok(),
            None => {
                let once = |cx: &mut Context<'_>| match reading.as_mut().poll(cx) {
                    Poll::Ready(heard) => Poll::Ready(Some(heard)),
                    Poll::Pending => Poll::Ready(None),
                };
                std::future::poll_fn(once).await
            }
        };
        match heard {
            None => Ok(true),
            Some(Err(_) | Ok(0)) => Ok(false),
            // That is how servers end a connection that was idle for long (RFC 9110, section 15.5.9).
            Some(Ok(_)) if self.requests > 0 && bytes.get(9..12) == Some(b"408") => Ok(false),
            Some(Ok(read)) => Err(ClientError::unasked(&bytes[..read], self.requests > 0)),
        }
    }

    /// True if the server speaks before it is asked, which no server of HTTP/1.1 does.
    ///
    /// # Errors
    /// The alert of a TLS server that refuses the client.
    pub(super) async fn speaks_first(mut self) -> Result<bool, rustls::AlertDescription> {
        let mut byte = [0; 1];
        match tokio::time::timeout(LISTEN, self.stream.read(&mut byte)).await {
            Ok(Ok(read)) => Ok(read > 0),
            Ok(Err(error)) => ClientError::alert(&error).map_or(Ok(false), Err),
            Err(_) => Ok(false),
        }
    }

    /// Refuses a new connection on which the server has spoken first: its words would be taken for the answer to the
    /// first request.
    async fn first_words(&mut self) -> Result<(), ClientError> {
        let wait = match &self.stream {
            _ if self.speaks_first => Some(SPEAKS_FIRST_WAIT),
            // Mostly session tickets, which come with the handshake; a wait would delay every new connection.
            Stream::Tls(_) => None,
            _ => Some(UNASKED_WAIT),
        };
        // The end of the connection is seen when the request is sent.
        self.is_quiet(wait).await.map(|_| ())
    }

    /// Sends a request and reads its answer; records the phases send, wait and receive.
    pub(super) async fn exchange(
        &mut self,
        request: &Request<'_>,
        phases: &mut Phases,
    ) -> Result<Answer, ClientError> {
        let reused = self.requests > 0;
        phases.address = self.address;
        // The connection must not be used again until the answer is read completely.
        self.usable = false;
        if !reused && (self.speaks_first || self.stream.look() == PoolCheck::Bytes) {
            // A separate future, because it is rare.
            Box::pin(self.first_words()).await?;
        }
        self.requests += 1;
        self.asked_at = Some((request.started, request.started));
        // A file that cannot be read must not leave half a request behind.
        let body = match request.body {
            BodyContent::Bytes(body) if body.len() <= BODY_BYTES_INLINE => None,
            large => Some(Box::pin(large.open()).await?),
        };
        self.write_head(request);
        self.input.clear();
        self.at = 0;
        let mut first_at = None;
        let started = if phases.opened { now() } else { request.started };
        let written = match (body, request.body) {
            (None, BodyContent::Bytes(small)) => {
                self.send(small).await.map(|()| true).map_err(Http1Failure::from)
            }
            (None, BodyContent::Parts(_) | BodyContent::Later) => Ok(true),
            // A separate future, because it is rare and needs memory.
            (Some(large), _) => Box::pin(self.stream(large, &mut first_at)).await,
        };
        buffers::give(&mut self.output);
        let sent_at = now();
        self.asked_at = Some((request.started, sent_at));
        phases.send_ns = saturating_nanos(sent_at - started);
        // A server may answer and close before it has read the whole request; the answer counts.
        let written = match written {
            Err(Http1Failure::Answer(error)) => return Err(error),
            Err(Http1Failure::Connection(error)) => Err(error),
            Ok(whole) => Ok(whole),
        };
        let answer = self.read_answer(request, &mut first_at).await;
        let ended_at = answer.as_ref().map_or_else(|_| now(), |(answer, _)| answer.ended);
        phases.wait_ns = saturating_nanos(first_at.unwrap_or(ended_at) - sent_at);
        phases.receive_ns = first_at.map_or(0, |first_at| saturating_nanos(ended_at - first_at));
        self.asked_at = None;
        let bytes = answer.as_ref().map_or(0, |(answer, _)| answer.body_bytes);
        let span = Span { started: request.started, written: sent_at, ended: ended_at };
        self.wire.note(|| self.stream.ends(), span, bytes, &mut phases.retransmits);
        match answer {
            Ok((answer, keep_alive)) => {
                if let Some(ProxyRoute { addresses: [to, proxy], .. }) = self.proxied.as_deref()
                    && answer.status == StatusCode::PROXY_AUTHENTICATION_REQUIRED
                {
                    return Err(unauthorized(to, proxy));
                }
                // Bytes after the answer do not belong to any request, unless another protocol follows.
                self.usable = keep_alive && matches!(written, Ok(true)) && self.unused().is_empty();
                if answer.status != StatusCode::SWITCHING_PROTOCOLS {
                    buffers::give(&mut self.input);
                }
                Ok(answer)
            }
            Err(Http1Failure::Answer(error)) => Err(error),
            Err(Http1Failure::Connection(error)) => {
                let error = written.err().unwrap_or(error);
                Err(ClientError::closed(&error, first_at.is_some(), reused))
            }
        }
    }

    #[inline]
    fn write_head(&mut self, request: &Request<'_>) {
        self.output = buffers::take();
        let output = &mut self.output;
        output.extend_from_slice(request.method.as_str().as_bytes());
        output.push(b' ');
        if let Some(proxied) = &self.proxied {
            output.extend_from_slice(proxied.prefix.as_bytes());
        }
        output.extend_from_slice(request.path.as_bytes());
        output.extend_from_slice(b" HTTP/1.1\r\n");
        if !request.fixed.has_host() && !request.own.has_host() {
            output.extend_from_slice(b"host: ");
            output.extend_from_slice(request.origin.authority.as_bytes());
            output.extend_from_slice(b"\r\n");
        }
        if let Some(proxied) = &self.proxied {
            output.extend_from_slice(proxied.header.as_bytes());
        }
        output.extend_from_slice(request.fixed.http1());
        output.extend_from_slice(request.own.http1());
        // A request that may have a body states its length, even if it is 0.
        let may_have_body = matches!(*request.method, Method::POST | Method::PUT | Method::PATCH);
        if may_have_body || !request.body.is_empty() {
            // Writing to a vector cannot fail.
            let _ =
                std::io::Write::write_fmt(output, format_args!("content-length: {}\r\n", request.body.len()));
        }
        output.extend_from_slice(b"\r\n");
    }

    async fn send(&mut self, body: &[u8]) -> io::Result<()> {
        self.output.extend_from_slice(body);
        let written = self.stream.try_write(&self.output)?;
        if written < self.output.len() {
            self.stream.write_all(&self.output[written..]).await?;
        }
        self.stream.flush().await
    }

    /// Sends the head and a large body. False if the server refused the request before the end of its body: the rest is
    /// not sent.
    async fn stream(
        &mut self,
        mut body: Source,
        first_at: &mut Option<Instant>,
    ) -> Result<bool, Http1Failure> {
        self.stream.write_all(&self.output).await?;
        while !body.is_at_end() {
            let chunk = body.next().await?;
            if !self.send_chunk(&chunk, first_at).await? {
                return Ok(false);
            }
        }
        self.stream.flush().await?;
        Ok(true)
    }

    /// Sends a part of a body, and hears what the server answers in the meantime. False if it refuses the request.
    async fn send_chunk(&mut self, mut chunk: &[u8], first_at: &mut Option<Instant>) -> io::Result<bool> {
        while !chunk.is_empty() {
            let (stream, input) = (&mut self.stream, &mut self.input);
            let step = std::future::poll_fn(|cx| {
                // The runtime knows when there is nothing to read, so that this costs no system call.
                if input.len() < BODY_BYTES_INLINE {
                    input.reserve(BUFFER_BYTES / 2);
                    match poll_read_buf(Pin::new(&mut *stream), cx, input) {
                        Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                        Poll::Ready(heard) => return Poll::Ready(heard.map(|_| Step::Heard)),
                        Poll::Pending => {}
                    }
                }
                Pin::new(&mut *stream).poll_write(cx, chunk).map_ok(Step::Sent)
            });
            match step.await? {
                Step::Sent(0) => return Err(io::ErrorKind::WriteZero.into()),
                Step::Sent(sent) => chunk = &chunk[sent..],
                Step::Heard => {
                    self.read_at = now();
                    first_at.get_or_insert(self.read_at);
                    if is_refusal(&self.input) {
                        return Ok(false);
                    }
                }
            }
        }
        Ok(true)
    }

    async fn read_answer(
        &mut self,
        request: &Request<'_>,
        first_at: &mut Option<Instant>,
    ) -> Result<(Answer, bool), Http1Failure> {
        let head = self.read_head(request, first_at).await?;
        let reading = Reading::begin(request.reader, head.status, head.headers.as_deref())?;
        let mut body = Body {
            kept: Vec::new(),
            length: 0,
            keep: reading.map_or_else(|| request.bytes_kept(head.status), |reading| reading.kept_bytes_max()),
            limit: match &reading {
                Some(reading) if reading.kept_bytes_max() == 0 => u64::MAX,
                _ => request.body_bytes_max,
            },
            reading,
        };
        let is_whole = match head.framing {
            Framing::None => true,
            Framing::Length(length) => self.read_length(length, &mut body).await?,
            Framing::Chunked => self.read_chunks(&mut body).await?,
            Framing::Close => self.read_to_end(&mut body).await?,
        };
        let answer = Answer {
            status: head.status,
            headers: head.headers,
            ended: body.enough_at().unwrap_or(self.read_at),
            body: body.kept,
            body_bytes: body.length,
            trailers: None,
        };
        Ok((answer, head.keep_alive && is_whole))
    }

    /// The final head; interim answers are skipped.
    async fn read_head(
        &mut self,
        request: &Request<'_>,
        first_at: &mut Option<Instant>,
    ) -> Result<Head, Http1Failure> {
        let to_head = *request.method == Method::HEAD;
        let mut interim = 0;
        loop {
            if !self.unused().is_empty()
                && let Some(head) = head(self.unused(), to_head, KeepHeaders::of(request), &self.limits)?
            {
                self.at += head.length;
                let switches = head.status == StatusCode::SWITCHING_PROTOCOLS;
                if !head.status.is_informational() || switches && request.version == Version::Upgrade {
                    return Ok(head);
                }
                interim += 1;
                if switches {
                    let reason = "an unexpected answer 101".to_owned();
                    return Err(Http1Failure::Answer(ClientError::Protocol(reason)));
                }
                if interim > INTERIM_MAX {
                    let reason = format!("more than {INTERIM_MAX} interim answers came before the answer");
                    return Err(Http1Failure::Answer(ClientError::Limit(reason)));
                }
                continue;
            }
            self.read().await?;
            first_at.get_or_insert(self.read_at);
        }
    }

    /// These read a body: to its end, or until its reader has enough and no end comes, which they tell by `false`.
    async fn read_length(&mut self, length: u64, body: &mut Body<'_>) -> Result<bool, Http1Failure> {
        if length > body.limit {
            return Err(Http1Failure::Answer(ClientError::BodyTooLarge { limit: body.limit }));
        }
        let mut left = length;
        loop {
            let here = usize::try_from(left).unwrap_or(usize::MAX).min(self.unused().len());
            body.take(&self.unused()[..here], self.read_at)?;
            self.at += here;
            left -= here as u64;
            if left == 0 {
                return Ok(true);
            }
            if !self.read_for(body).await? {
                return Ok(false);
            }
        }
    }

    async fn read_chunks(&mut self, body: &mut Body<'_>) -> Result<bool, Http1Failure> {
        let mut chunks = Chunks::new(self.limits.trailer_bytes_max);
        loop {
            let at = self.read_at;
            let taken = chunks.take(self.unused(), |data| body.take(data, at))?;
            self.at += taken;
            if chunks.is_done() {
                return Ok(true);
            }
            if !self.read_for(body).await? {
                return Ok(false);
            }
        }
    }

    async fn read_to_end(&mut self, body: &mut Body<'_>) -> Result<bool, Http1Failure> {
        loop {
            body.take(self.unused(), self.read_at)?;
            self.at = self.input.len();
            // The connection ends with the answer in any case.
            if body.enough_at().is_some() {
                return Ok(false);
            }
            // TLS without its own end is an error: the answer may have been cut off (RFC 9112, section 9.8).
            if self.read_some().await? == 0 {
                return Ok(true);
            }
        }
    }

    /// Reads more of a body; false if its reader has enough, and nothing more comes in time.
    #[inline]
    async fn read_for(&mut self, body: &Body<'_>) -> io::Result<bool> {
        let Some(enough_at) = body.enough_at() else { return self.read().await.map(|()| true) };
        // A separate future, because it is rare.
        let left = END_WAIT.saturating_sub(now().saturating_duration_since(enough_at));
        let end = Box::pin(tokio::time::timeout(left, self.read())).await;
        Ok(matches!(end, Ok(Ok(()))))
    }

    /// What was read and not used yet.
    #[inline]
    fn unused(&self) -> &[u8] {
        self.input.get(self.at..).unwrap_or_default()
    }

    /// Reads more bytes into the buffer; the end of the connection is an error.
    async fn read(&mut self) -> io::Result<()> {
        match self.read_some().await? {
            0 => Err(io::ErrorKind::UnexpectedEof.into()),
            _ => Ok(()),
        }
    }

    /// Reads more bytes into the buffer; 0 at the end of the connection.
    async fn read_some(&mut self) -> io::Result<usize> {
        self.input.drain(..self.at.min(self.input.len()));
        self.at = 0;
        let (stream, input) = (&mut self.stream, &mut self.input);
        let read = std::future::poll_fn(|cx| {
            if input.capacity() == 0 {
                *input = buffers::take();
            }
            input.reserve(BUFFER_BYTES / 2);
            let read = poll_read_buf(Pin::new(&mut *stream), cx, input);
            // No buffer is needed while waiting for bytes.
            if read.is_pending() && input.is_empty() {
                buffers::give(input);
            }
            read
        });
        let read = read.await;
        self.read_at = now();
        read
    }
}

/// A connection on which another protocol follows. It begins with what came behind the answer.
pub(super) struct UpgradedConnection(Box<Http1>);

impl UpgradedConnection {
    pub(super) fn new(connection: Box<Http1>) -> Self {
        Self(connection)
    }
}

impl AsyncRead for UpgradedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let connection = &mut *self.0;
        let before = connection.unused();
        if before.is_empty() {
            return Pin::new(&mut connection.stream).poll_read(cx, buffer);
        }
        let here = before.len().min(buffer.remaining());
        buffer.put_slice(&before[..here]);
        connection.at += here;
        if connection.unused().is_empty() {
            buffers::give(&mut connection.input);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for UpgradedConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0.stream).poll_shutdown(cx)
    }
}

/// What happened to a body that is being sent.
enum Step {
    Sent(usize),
    Heard,
}

/// True if the bytes begin the final answer, and it is not a success: the server does not want the rest of the body.
fn is_refusal(mut input: &[u8]) -> bool {
    while let Some(status) = input.get(9..12).filter(|_| input.starts_with(b"HTTP/1.")) {
        if status[0] != b'1' {
            return status[0] > b'2';
        }
        let Some(end) = memchr::memmem::find(input, b"\r\n\r\n") else { return false };
        input = &input[end + 4..];
    }
    false
}

/// Why there is no answer.
enum Http1Failure {
    /// The connection ended or failed.
    Connection(io::Error),
    /// The answer is faulty.
    Answer(ClientError),
}

impl From<io::Error> for Http1Failure {
    fn from(error: io::Error) -> Self {
        Self::Connection(error)
    }
}

impl From<ClientError> for Http1Failure {
    fn from(error: ClientError) -> Self {
        Self::Answer(error)
    }
}

/// A body while it is received.
struct Body<'a> {
    kept: Vec<u8>,
    length: u64,
    /// How many bytes to keep.
    keep: usize,
    limit: u64,
    reading: Option<Reading<'a>>,
}

impl Body<'_> {
    /// When its reader had enough.
    fn enough_at(&self) -> Option<Instant> {
        self.reading.as_ref()?.enough_at
    }

    /// Takes a piece that arrived `at`.
    #[inline]
    fn take(&mut self, data: &[u8], at: Instant) -> Result<(), ClientError> {
        self.length += data.len() as u64;
        if self.length > self.limit {
            return Err(ClientError::BodyTooLarge { limit: self.limit });
        }
        super::keep(&mut self.kept, data, self.keep);
        match &mut self.reading {
            Some(reading) => reading.take(data, at),
            None => Ok(()),
        }
    }
}
