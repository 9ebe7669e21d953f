//! One HTTP/1.1 connection, on hyper's connection-level client.
//!
//! The connection is driven by the task that waits for the answer, not by a task of its own: no
//! wake-up between tasks, and a connection that is dropped is gone.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Instant;

use bytes::Bytes;
use http_body::Body as _;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{Connection, SendRequest};
use hyper_util::rt::TokioIo;

use crate::base::clock::saturating_nanos;

use super::connect::{MarkedStream, Marks};
use super::error::ClientError;
use super::{Answer, Phases, Request};

const HEADERS_MAX: usize = 256;
/// How often what came unasked is read before the connection is given up.
const IDLE_READS_MAX: usize = 3;

/// An open connection.
pub(super) struct Http1 {
    sender: SendRequest<Full<Bytes>>,
    driver: Pin<Box<Connection<TokioIo<MarkedStream>, Full<Bytes>>>>,
    marks: Rc<Marks>,
    ended: bool,
    requests: u64,
}

impl Http1 {
    pub(super) async fn new(stream: MarkedStream, marks: Rc<Marks>) -> Result<Self, ClientError> {
        let mut builder = hyper::client::conn::http1::Builder::new();
        builder.max_headers(HEADERS_MAX);
        let opened = builder.handshake(TokioIo::new(stream)).await;
        let (sender, driver) = opened.map_err(|error| ClientError::exchanging(&error, false, false))?;
        Ok(Self { sender, driver: Box::pin(driver), marks, ended: false, requests: 0 })
    }

    /// True when another request can be sent; notices a connection that the server has closed.
    pub(super) async fn is_usable(&mut self) -> bool {
        for _ in 0..IDLE_READS_MAX {
            self.marks.unheard.set(false);
            self.marks.idle.set(true);
            let Self { sender, driver, ended, .. } = self;
            let usable = poll_fn(|cx| {
                if !*ended && driver.as_mut().poll(cx).is_ready() {
                    *ended = true;
                }
                Poll::Ready(!*ended && sender.is_ready())
            });
            let usable = usable.await;
            self.marks.idle.set(false);
            if !usable || !self.marks.unheard.get() {
                return usable;
            }
            // A farewell, or a TLS record that means nothing: once the runtime has looked at its
            // sockets, it can be read.
            tokio::task::yield_now().await;
        }
        false
    }

    /// Sends a request and reads its answer, noting send, wait and receive.
    pub(super) async fn exchange(
        &mut self,
        request: Request<'_>,
        body_bytes_max: u64,
        phases: &mut Phases,
    ) -> Result<Answer, ClientError> {
        let reused = self.requests > 0;
        self.requests += 1;
        let keep_body = request.keep_body;
        let message = message(request)?;
        let started = Instant::now();
        self.marks.first_read.set(None);
        self.marks.last_write.set(None);
        let sent = self.sender.send_request(message);
        let answer = drive(&mut self.driver, &mut self.ended, sent).await;
        let sent_at = self.marks.last_write.get().unwrap_or(started);
        let first_at = self.marks.first_read.get().unwrap_or_else(Instant::now).max(sent_at);
        phases.send_ns = saturating_nanos(sent_at.saturating_duration_since(started));
        phases.wait_ns = saturating_nanos(first_at - sent_at);
        let begun = self.marks.first_read.get().is_some();
        let answer = answer.map_err(|error| ClientError::exchanging(&error, begun, reused))?;
        let (head, incoming) = answer.into_parts();
        let body = self.read_body(incoming, body_bytes_max, keep_body).await;
        phases.receive_ns = saturating_nanos(first_at.elapsed());
        let (body, body_bytes) = body?;
        Ok(Answer { status: head.status, headers: head.headers, body, body_bytes })
    }

    async fn read_body(
        &mut self,
        mut incoming: Incoming,
        limit: u64,
        keep: bool,
    ) -> Result<(Vec<u8>, u64), ClientError> {
        let mut body = Vec::new();
        let mut length = 0;
        if incoming.is_end_stream() {
            return Ok((body, length));
        }
        if incoming.size_hint().lower() > limit {
            return Err(ClientError::BodyTooLarge { limit });
        }
        loop {
            let frame = drive(
                &mut self.driver,
                &mut self.ended,
                poll_fn(|cx| Pin::new(&mut incoming).poll_frame(cx)),
            );
            match frame.await {
                None => return Ok((body, length)),
                Some(Err(error)) => return Err(ClientError::exchanging(&error, true, false)),
                Some(Ok(frame)) => {
                    let Ok(data) = frame.into_data() else { continue };
                    length += data.len() as u64;
                    if length > limit {
                        return Err(ClientError::BodyTooLarge { limit });
                    }
                    if keep {
                        body.extend_from_slice(&data);
                    }
                }
            }
        }
    }
}

/// Polls the connection together with what waits for it.
async fn drive<T>(
    driver: &mut Pin<Box<Connection<TokioIo<MarkedStream>, Full<Bytes>>>>,
    ended: &mut bool,
    waiting: impl Future<Output = T>,
) -> T {
    let mut waiting = std::pin::pin!(waiting);
    poll_fn(|cx| {
        if let Poll::Ready(value) = waiting.as_mut().poll(cx) {
            return Poll::Ready(value);
        }
        if *ended {
            return Poll::Pending;
        }
        // An error of the connection reaches the waiting side as its own.
        *ended = driver.as_mut().poll(cx).is_ready();
        // What the connection has just brought must not wait for another wake-up.
        waiting.as_mut().poll(cx)
    })
    .await
}

fn message(request: Request<'_>) -> Result<http::Request<Full<Bytes>>, ClientError> {
    let mut headers = request.headers;
    // A scenario may name a virtual host of its own.
    if !headers.contains_key(http::header::HOST) {
        let authority = http::HeaderValue::from_str(&request.origin.authority);
        let authority = authority.map_err(|error| ClientError::Request(error.to_string()))?;
        headers.insert(http::header::HOST, authority);
    }
    let uri = request
        .path
        .parse::<http::Uri>()
        .map_err(|error| ClientError::Request(format!("{}: {error}", request.path)))?;
    let mut message = http::Request::new(Full::new(request.body));
    *message.method_mut() = request.method.clone();
    *message.uri_mut() = uri;
    *message.headers_mut() = headers;
    Ok(message)
}
