//! WebSocket ([RFC 6455](https://www.rfc-editor.org/rfc/rfc6455)): messages over a connection that a request of HTTP/1.1
//! opened.
//!
//! Pings are answered when they are read. A server that closes the connection gets a closing frame with the same code, and one
//! that breaks a rule gets a code that says which. Nothing waits until that frame is sent. Messages are compressed if the
//! scenario offers it (permessage-deflate, [RFC 7692](https://www.rfc-editor.org/rfc/rfc7692)).

mod deflate;
pub mod extension;
mod frames;
mod message;
pub mod reader;
#[cfg(test)]
mod tests;
pub mod violation;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker, ready};
use std::time::Instant;

use tokio::io::AsyncWrite as _;
use tokio::task::coop::{poll_proceed, unconstrained};
use tokio_util::io::poll_read_buf;

use base::clock::now;

use super::buffers;
use super::error::{ClientError, chain};
use super::http1::UpgradedConnection;
use super::pool::Pool;
use deflate::COMPRESSED_FROM;
use extension::MessageCompression;
use frames::{BINARY, CLOSE, COMPRESSED, FIN, NO_CODE, PING, PONG, TEXT, push_frame};
pub use message::{CONTROL_BYTES_MAX, SocketMessage, WireMessage};
use reader::{FrameArrival, MessageReader};
use violation::Violation;

/// The most bytes of messages that are kept for later; beyond them, the server has to wait.
const WAITING_BYTES_MAX: usize = 4 << 20;
/// The most messages that are kept for later.
const WAITING_MAX: usize = 10_000;
/// If more bytes than this wait to be sent, only the last ping is answered (section 5.5.3).
const PONG_OUTPUT_BYTES_MAX: usize = 16 << 10;

/// An open WebSocket.
pub struct WebSocket {
    connection: UpgradedConnection,
    reader: MessageReader,
    /// What was read, and where in it the reader goes on.
    input: Vec<u8>,
    at: usize,
    /// Whole frames, and how much of them is written.
    output: Vec<u8>,
    written: usize,
    /// Whether what was written may still be in the buffers of TLS.
    is_unflushed: bool,
    /// The ping to answer when there is room for it.
    owed_pong: Option<Box<[u8]>>,
    compression: Option<MessageCompression>,
    /// Whether our closing frame is written or on its way.
    has_closed: bool,
    /// Whether nothing more comes.
    has_ended: bool,
    /// What came before anybody asked for it, and when.
    waiting: VecDeque<(Instant, Result<SocketMessage, ClientError>)>,
    waiting_bytes: usize,
    bytes_max: u64,
}

impl WebSocket {
    /// Takes the connection that a request of this user has just opened, if it did. `bytes_max`: the largest message that is
    /// read.
    #[must_use]
    pub fn take(pool: &mut Pool, bytes_max: u64) -> Option<Self> {
        let (connection, compression) = pool.upgraded.take()?;
        Some(Self {
            connection,
            reader: MessageReader::new(bytes_max, compression),
            input: Vec::new(),
            at: 0,
            output: Vec::new(),
            written: 0,
            is_unflushed: false,
            owed_pong: None,
            compression,
            has_closed: false,
            has_ended: false,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            bytes_max,
        })
    }

    /// Sends a message. What comes meanwhile is kept for later: a server that is writing might read nothing before.
    ///
    /// # Errors
    /// The connection has ended.
    pub async fn send(&mut self, message: WireMessage) -> Result<(), ClientError> {
        if self.has_ended || self.has_closed {
            return Err(closed("before this step"));
        }
        match message {
            WireMessage::Text(text) => self.write_message(TEXT, text.as_bytes()),
            WireMessage::Binary(content) => self.write_message(BINARY, &content),
            WireMessage::Ping(content) => self.write(FIN | PING, &content),
            WireMessage::Close(code, reason) => self.write_close(code, &reason),
        }
        poll_fn(|cx| {
            loop {
                match self.poll_output(cx) {
                    Poll::Ready(sent) => return Poll::Ready(sent.map_err(|error| broken(&error))),
                    Poll::Pending if self.is_over() || !self.has_room() => return Poll::Pending,
                    Poll::Pending => {}
                }
                let message = ready!(self.poll_message(cx));
                self.keep(message);
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
            && let Poll::Ready(message) = self.poll_message(&mut cx)
        {
            self.keep(message);
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
        poll_fn(|cx| self.poll_message(cx)).await
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

    /// The next message. Each takes from the budget of the task: a server that sends without end must not keep the others
    /// of this thread waiting.
    fn poll_message(&mut self, cx: &mut Context<'_>) -> Poll<Result<SocketMessage, ClientError>> {
        if self.has_ended {
            return Poll::Ready(Err(closed("before this step")));
        }
        let budget = ready!(poll_proceed(cx));
        let message = loop {
            let mut unread = &self.input[self.at..];
            let taken = self.reader.take(&mut unread);
            self.at = self.input.len() - unread.len();
            match taken {
                Ok(Some(FrameArrival::Ping)) => self.write_pong(),
                Ok(Some(FrameArrival::Message(message))) => break Ok(message),
                Ok(None) => {
                    // A failure to write shows when reading, and what came before it is read.
                    let _ = self.poll_output(cx);
                    match ready!(self.poll_read(cx)) {
                        Ok(Ok(0)) => {
                            break Err(SocketEnd::Connection(closed(
                                "without the closing frame of WebSocket",
                            )));
                        }
                        Ok(Ok(_)) => {}
                        Ok(Err(violation)) => break Err(SocketEnd::Violation(violation)),
                        Err(error) => break Err(SocketEnd::Connection(broken(&error))),
                    }
                }
                Err(violation) => break Err(SocketEnd::Violation(violation)),
            }
        };
        budget.made_progress();
        match &message {
            Ok(SocketMessage::Close(code, _)) => self.end_with(*code),
            Ok(_) => {}
            Err(SocketEnd::Violation(violation)) => self.end_with(violation.code()),
            Err(SocketEnd::Connection(_)) => self.has_ended = true,
        }
        // Without waiting: what cannot be written now may be lost. The budget must not hold up the last frame.
        let _ = pin!(unconstrained(poll_fn(|cx| self.poll_output(cx)))).poll(cx);
        Poll::Ready(message.map_err(|ended| match ended {
            SocketEnd::Violation(Violation::TooLarge) => ClientError::BodyTooLarge { limit: self.bytes_max },
            SocketEnd::Violation(violation) => ClientError::WebSocket(violation.to_string()),
            SocketEnd::Connection(error) => error,
        }))
    }

    /// Reads more. All that was read before is used.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Result<usize, Violation>>> {
        let connection = Pin::new(&mut self.connection);
        if let Some(mut room) = self.reader.room() {
            buffers::give(&mut self.input);
            self.at = 0;
            let bytes = ready!(poll_read_buf(connection, cx, &mut room))?;
            return Poll::Ready(Ok(self.reader.filled(bytes).map(|()| bytes)));
        }
        if self.input.capacity() == 0 {
            self.input = buffers::take();
        }
        self.input.clear();
        self.at = 0;
        let read = poll_read_buf(connection, cx, &mut self.input);
        // No buffer is needed while waiting for bytes.
        if read.is_pending() {
            buffers::give(&mut self.input);
        }
        read.map_ok(Ok)
    }

    /// Writes what is to be sent.
    fn poll_output(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            while self.written < self.output.len() {
                let connection = Pin::new(&mut self.connection);
                match ready!(connection.poll_write(cx, &self.output[self.written..])) {
                    Ok(0) => return Poll::Ready(self.give_up(io::ErrorKind::WriteZero.into())),
                    Ok(written) => self.written += written,
                    Err(error) => return Poll::Ready(self.give_up(error)),
                }
                self.is_unflushed = true;
            }
            buffers::give(&mut self.output);
            self.written = 0;
            match self.owed_pong.take() {
                Some(content) => self.write(FIN | PONG, &content),
                None => break,
            }
        }
        if self.is_unflushed {
            ready!(Pin::new(&mut self.connection).poll_flush(cx))?;
            self.is_unflushed = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Nothing more can be written.
    fn give_up(&mut self, error: io::Error) -> io::Result<()> {
        (self.output, self.written, self.is_unflushed) = (Vec::new(), 0, false);
        Err(error)
    }

    /// Appends a frame to what is to be sent.
    fn write(&mut self, first: u8, payload: &[u8]) {
        if self.output.capacity() == 0 {
            self.output = buffers::take();
        }
        push_frame(&mut self.output, first, payload);
    }

    /// One frame for each message, as most clients do.
    fn write_message(&mut self, opcode: u8, content: &[u8]) {
        if let Some(agreed) = self.compression
            && content.len() >= COMPRESSED_FROM
            && deflate::compressed(content, agreed.client_window_bits, |compressed| {
                self.write(FIN | COMPRESSED | opcode, compressed);
            })
        {
            return;
        }
        self.write(FIN | opcode, content);
    }

    fn write_pong(&mut self) {
        // Nothing follows our closing frame.
        if self.has_closed {
            return;
        }
        if self.output.len() - self.written > PONG_OUTPUT_BYTES_MAX {
            self.owed_pong = Some(self.reader.control().into());
            return;
        }
        if self.output.capacity() == 0 {
            self.output = buffers::take();
        }
        push_frame(&mut self.output, FIN | PONG, self.reader.control());
    }

    fn write_close(&mut self, code: u16, reason: &str) {
        self.has_closed = true;
        if code == NO_CODE {
            return self.write(FIN | CLOSE, &[]);
        }
        self.write(FIN | CLOSE, &[&code.to_be_bytes(), reason.as_bytes()].concat());
    }

    /// Reads no more, and answers with a closing frame: with the server's own code, or with the code of the rule that it broke
    /// (sections 5.5.1 and 7.1.7).
    fn end_with(&mut self, code: u16) {
        self.has_ended = true;
        if !self.has_closed {
            self.write_close(code, "");
        }
    }
}

/// Why nothing more comes.
enum SocketEnd {
    Violation(Violation),
    Connection(ClientError),
}

fn closed(when: &str) -> ClientError {
    ClientError::Closed { when: when.to_owned(), unprocessed: false, kept_alive: false }
}

fn broken(error: &io::Error) -> ClientError {
    closed(&format!("({})", chain(error)))
}
