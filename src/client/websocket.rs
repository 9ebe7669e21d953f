//! WebSocket ([RFC 6455](https://www.rfc-editor.org/rfc/rfc6455)): messages over a connection that a request of HTTP/1.1
//! opened.
//!
//! The crate `tokio-websockets` does the frames. It refuses what the standard forbids: masked frames, fragments of control
//! frames, text that is not UTF-8. No extension is offered, so nothing is compressed.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use tokio_websockets::{ClientBuilder, CloseCode, Config, Error, Limits, Message, Payload, WebSocketStream};

use base::clock::now;

use super::error::{ClientError, chain};
use super::http1::UpgradedConnection;
use super::pool::Pool;

/// The most bytes of messages that are kept for later; beyond them, the server has to wait.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// The most messages that are kept for later.
const WAITING_MAX: usize = 10_000;
/// The largest payload of a control frame.
pub const CONTROL_BYTES_MAX: usize = 125;

/// An open WebSocket.
pub struct WebSocket {
    stream: WebSocketStream<UpgradedConnection>,
    /// What came before anybody asked for it, and when.
    waiting: VecDeque<(Instant, Result<SocketMessage, ClientError>)>,
    waiting_bytes: usize,
    bytes_max: u64,
}

/// What came from the server. Pings are answered at once and are not among them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocketMessage {
    Text(Bytes),
    Binary(Bytes),
    Pong(Bytes),
    /// The end: its code, and why in the server's words. Without a code, it is 1005 (section 7.4.1).
    Close(u16, String),
}

impl SocketMessage {
    /// Its content.
    #[must_use]
    pub fn content(&self) -> &[u8] {
        match self {
            Self::Text(content) | Self::Binary(content) | Self::Pong(content) => content,
            Self::Close(_, reason) => reason.as_bytes(),
        }
    }
}

/// What is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireMessage {
    Text(String),
    Binary(Vec<u8>),
    Ping(Vec<u8>),
    /// A code and a reason. The reason has at most 123 bytes.
    Close(u16, String),
}

impl WebSocket {
    /// Takes the connection that a request of this user has just opened, if it did. `bytes_max`: the largest message that is
    /// read.
    #[must_use]
    pub fn take(pool: &mut Pool, bytes_max: u64) -> Option<Self> {
        let upgraded = pool.upgraded.take()?;
        let most = usize::try_from(bytes_max).unwrap_or(usize::MAX);
        // One frame for each message, as most clients do.
        let config = Config::default().frame_size(usize::MAX);
        let builder =
            ClientBuilder::new().config(config).limits(Limits::default().max_payload_len(Some(most)));
        let stream = builder.take_over(upgraded);
        Some(Self { stream, waiting: VecDeque::new(), waiting_bytes: 0, bytes_max })
    }

    /// Sends a message. What comes meanwhile is kept for later: a server that is writing might read nothing before.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn send(&mut self, message: WireMessage) -> Result<(), ClientError> {
        let message = match message {
            WireMessage::Text(text) => Message::text(text),
            WireMessage::Binary(content) => Message::binary(Payload::from(Bytes::from(content))),
            WireMessage::Ping(content) => Message::ping(Payload::from(Bytes::from(content))),
            WireMessage::Close(code, reason) => Message::close(CloseCode::try_from(code).ok(), &reason),
        };
        let fed = self.stream.feed(message).await;
        fed.map_err(|error| self.failed(&error))?;
        std::future::poll_fn(|cx| {
            loop {
                match self.stream.poll_flush_unpin(cx) {
                    Poll::Ready(flushed) => return Poll::Ready(flushed.map_err(|error| self.failed(&error))),
                    Poll::Pending if self.is_over() || !self.has_room() => return Poll::Pending,
                    Poll::Pending => {}
                }
                let Poll::Ready(came) = self.stream.poll_next_unpin(cx) else { return Poll::Pending };
                if let Some(message) = self.understood(came) {
                    self.keep(message);
                }
            }
        })
        .await
    }

    /// Keeps what has come by now for later, and tells how the server has ended the connection, if it has.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn look(&mut self) -> Result<Option<(u16, String)>, ClientError> {
        let mut cx = Context::from_waker(Waker::noop());
        while !self.is_over()
            && self.has_room()
            && let Poll::Ready(came) = self.stream.poll_next_unpin(&mut cx)
        {
            if let Some(message) = self.understood(came) {
                self.keep(message);
            }
        }
        if !self.is_over() {
            return Ok(None);
        }
        match self.waiting.pop_back() {
            Some((_, Ok(SocketMessage::Close(code, reason)))) => Ok(Some((code, reason))),
            Some((_, Err(error))) => Err(error),
            _ => Ok(None),
        }
    }

    /// Drops the messages that were kept; gives the last of them, and how many bytes they had.
    pub fn skip_kept(&mut self) -> (Option<SocketMessage>, u64) {
        let bytes = std::mem::take(&mut self.waiting_bytes) as u64;
        (self.waiting.drain(..).next_back().and_then(|(_, message)| message.ok()), bytes)
    }

    /// The next message, and when it came. Dropping the future loses nothing.
    ///
    /// # Errors
    /// The connection ended without a closing frame, or the server broke a rule.
    pub async fn next(&mut self) -> Result<(Instant, SocketMessage), ClientError> {
        let Some((at, message)) = self.waiting.pop_front() else {
            let message = self.read().await?;
            return Ok((now(), message));
        };
        self.waiting_bytes -= message.as_ref().map_or(0, |message| message.content().len());
        Ok((at, message?))
    }

    async fn read(&mut self) -> Result<SocketMessage, ClientError> {
        loop {
            let came = self.stream.next().await;
            match self.understood(came) {
                Some(message) => return message,
                // A ping: without its pong, the server may close the connection.
                None => self.stream.flush().await.map_err(|error| self.failed(&error))?,
            }
        }
    }

    /// What the crate has read; `None` for a ping.
    fn understood(&self, came: Option<Result<Message, Error>>) -> Option<Result<SocketMessage, ClientError>> {
        let message = match came {
            Some(Ok(message)) => message,
            Some(Err(error)) => return Some(Err(self.failed(&error))),
            None => {
                let when = "without the closing frame of WebSocket".to_owned();
                return Some(Err(ClientError::Closed { when, unprocessed: false, kept_alive: false }));
            }
        };
        if let Some((code, reason)) = message.as_close() {
            return Some(Ok(SocketMessage::Close(code.into(), reason.to_owned())));
        }
        let (is_text, is_binary, is_pong) = (message.is_text(), message.is_binary(), message.is_pong());
        let content = Bytes::from(message.into_payload());
        match () {
            () if is_text => Some(Ok(SocketMessage::Text(content))),
            () if is_binary => Some(Ok(SocketMessage::Binary(content))),
            () if is_pong => Some(Ok(SocketMessage::Pong(content))),
            () => None,
        }
    }

    /// The pong with this content; messages that come before are kept for later.
    ///
    /// # Errors
    /// As [`Self::next`], or too many messages came before it. If the server closes the connection, its code and reason are
    /// given.
    pub async fn pong(&mut self, content: &[u8]) -> Result<Option<(u16, String)>, ClientError> {
        loop {
            match self.read().await? {
                SocketMessage::Pong(pong) if *pong == *content => return Ok(None),
                SocketMessage::Pong(_) => {}
                SocketMessage::Close(code, reason) => return Ok(Some((code, reason))),
                message if self.has_room() => self.keep(Ok(message)),
                _ => {
                    let reason = "more messages than bench keeps came before the pong; receive them first";
                    return Err(ClientError::Limit(reason.to_owned()));
                }
            }
        }
    }

    /// The code and the reason with which the server closes the connection; what comes before is dropped.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub async fn end(&mut self) -> Result<(u16, String), ClientError> {
        loop {
            if let (_, SocketMessage::Close(code, reason)) = self.next().await? {
                return Ok((code, reason));
            }
        }
    }

    /// Answers pings and keeps messages for later, until it is dropped. Many servers close a connection whose pings get no
    /// answer.
    pub async fn idle(&mut self) -> Infallible {
        while self.has_room() && !self.is_over() {
            let message = self.read().await;
            self.keep(message);
        }
        std::future::pending().await
    }

    fn has_room(&self) -> bool {
        self.waiting.len() < WAITING_MAX && self.waiting_bytes < WAITING_BYTES_MAX
    }

    /// Whether the end is among what is kept: nothing comes behind it.
    fn is_over(&self) -> bool {
        matches!(self.waiting.back(), Some((_, Ok(SocketMessage::Close(..)) | Err(_))))
    }

    fn keep(&mut self, message: Result<SocketMessage, ClientError>) {
        self.waiting_bytes += message.as_ref().map_or(0, |message| message.content().len());
        self.waiting.push_back((now(), message));
    }

    fn failed(&self, error: &Error) -> ClientError {
        let closed =
            |when: &str| ClientError::Closed { when: when.to_owned(), unprocessed: false, kept_alive: false };
        match error {
            Error::AlreadyClosed => closed("before this step"),
            Error::Io(error) => closed(&format!("({})", chain(error))),
            Error::PayloadTooLong { .. } => ClientError::BodyTooLarge { limit: self.bytes_max },
            other => ClientError::WebSocket(other.to_string()),
        }
    }
}
