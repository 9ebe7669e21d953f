//! The messages of a gRPC call that steps send and receive, as JSON.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::time::Instant;

use bytes::Bytes;
use http::HeaderName;

use base::clock::now;
use client::Answer;
use client::dialogue::{Arrival, Dialogue};
use client::error::ClientError;
use client::websocket::{SocketMessage, WireMessage};
use grpc::answer::{CallStatus, ENCODING, MessagesError};
use grpc::frames::{self, HEAD_BYTES};
use grpc::message;
use grpc::schema::Method;
use measure::errors::FailureClass;
use text::charset;

use super::end::{DialogueEnd, fault};
use crate::call::grpc::not_grpc;
use crate::compare::{Fault, Verdict};

/// If messages of this many bytes wait for a step, no more are read.
const KEPT_BYTES_MAX: u64 = 4 << 20;

/// An open gRPC call.
pub(crate) struct GrpcMessages {
    dialogue: Box<Dialogue>,
    /// What is called; `None` if its types are not known.
    method: Option<Method>,
    /// The largest message that is read, in bytes.
    bytes_max: u64,
    /// The beginning of a message whose rest has not come.
    unfinished: Vec<u8>,
    /// What came before anybody asked for it, when, and how many bytes it had with its frame.
    kept: VecDeque<(Instant, SocketMessage, u64)>,
    kept_bytes: u64,
    /// Whether no more messages are sent.
    has_sent_all: bool,
}

impl GrpcMessages {
    pub(crate) fn new(dialogue: Box<Dialogue>, method: Option<Method>, bytes_max: u64) -> Self {
        Self {
            dialogue,
            method,
            bytes_max,
            unfinished: Vec::new(),
            kept: VecDeque::new(),
            kept_bytes: 0,
            has_sent_all: false,
        }
    }

    pub(super) fn method(&self) -> Option<&Method> {
        self.method.as_ref()
    }

    /// Sends a message in its frame, or ends the messages. Where the method takes one, it is the last.
    pub(super) async fn send(&mut self, message: WireMessage) -> Verdict {
        let takes_one = self.method.as_ref().filter(|method| !method.is_client_streaming());
        match (message, takes_one) {
            (WireMessage::Binary(_), Some(method)) if self.has_sent_all => {
                let message = format!("{} takes one message: remove this step", method.name());
                return Err((FailureClass::Request, message));
            }
            (WireMessage::Binary(framed), _) => {
                self.has_sent_all = takes_one.is_some();
                self.dialogue.send(&framed, self.has_sent_all).await;
            }
            _ if self.has_sent_all => {}
            _ => {
                self.has_sent_all = true;
                self.dialogue.send(&[], true).await;
            }
        }
        Ok(())
    }

    pub(super) async fn next(&mut self) -> Result<(Instant, SocketMessage, u64), Fault> {
        loop {
            if let Some(kept) = self.kept.pop_front() {
                self.kept_bytes -= kept.2;
                return Ok(kept);
            }
            let arrival = self.dialogue.next().await.map_err(fault)?;
            self.take(arrival)?;
        }
    }

    pub(super) async fn look(&mut self) -> Result<Option<DialogueEnd>, Fault> {
        let is_end = |kept: &(Instant, SocketMessage, u64)| matches!(kept.1, SocketMessage::Close(..));
        while !self.kept.back().is_some_and(is_end) {
            // A service that sends without end has to wait.
            if self.kept_bytes >= KEPT_BYTES_MAX {
                return Ok(None);
            }
            let Some(arrival) = self.dialogue.look().await.map_err(fault)? else { return Ok(None) };
            self.take(arrival)?;
        }
        Ok(self.kept.pop_back().and_then(|(_, end, _)| match end {
            SocketMessage::Close(code, reason) => Some((code, reason)),
            _ => None,
        }))
    }

    pub(super) fn skip_kept(&mut self) -> (Option<SocketMessage>, u64) {
        let bytes = std::mem::take(&mut self.kept_bytes);
        (self.kept.drain(..).next_back().map(|(_, message, _)| message), bytes)
    }

    pub(super) fn keep_end(&mut self, (code, words): DialogueEnd) {
        self.kept.push_back((now(), SocketMessage::Close(code, words), 0));
    }

    pub(super) async fn idle(&mut self) -> Infallible {
        self.dialogue.idle().await
    }

    fn take(&mut self, arrival: Arrival) -> Result<(), Fault> {
        match arrival {
            Arrival::Piece(at, piece) => {
                self.unfinished.extend_from_slice(&piece);
                self.split(at)
            }
            Arrival::End(answer) => {
                let end = self.end(&answer)?;
                self.kept.push_back((answer.ended, end, 0));
                Ok(())
            }
        }
    }

    /// Takes the messages that are whole from the bytes that have come.
    fn split(&mut self, at: Instant) -> Result<(), Fault> {
        let mut begin = 0;
        while let Some(length) = self.length_of_first(begin)? {
            let framed = &self.unfinished[begin..begin + length];
            let json = self.json(framed).map_err(|error| match error {
                MessagesError::Broken(reason) => (FailureClass::Protocol, not_grpc(&reason)),
                MessagesError::TooLarge(limit) => fault(ClientError::BodyTooLarge { limit }),
            })?;
            self.kept.push_back((at, SocketMessage::Text(json), length as u64));
            self.kept_bytes += length as u64;
            begin += length;
        }
        self.unfinished.drain(..begin);
        Ok(())
    }

    /// The length of the message that begins there, with its frame, if it is whole.
    fn length_of_first(&self, begin: usize) -> Result<Option<usize>, Fault> {
        let bytes = &self.unfinished[begin..];
        let Some([_, length @ ..]) = bytes.first_chunk::<HEAD_BYTES>() else { return Ok(None) };
        let length = u32::from_be_bytes(*length);
        if u64::from(length) > self.bytes_max {
            return Err(fault(ClientError::BodyTooLarge { limit: self.bytes_max }));
        }
        let length = usize::try_from(length).unwrap_or(usize::MAX).saturating_add(HEAD_BYTES);
        Ok((bytes.len() >= length).then_some(length))
    }

    fn json(&self, framed: &[u8]) -> Result<Bytes, MessagesError> {
        let Some(message) = frames::split(framed).next() else { return Ok(Bytes::new()) };
        let message = message?;
        let headers = self.dialogue.headers();
        let encoding = headers.as_ref().and_then(|headers| headers.get(&ENCODING));
        let encoding = encoding.map(|value| charset::of_field(value.as_bytes()));
        let unpacked = message.unpacked(encoding.as_deref(), self.bytes_max)?;
        let content = unpacked.as_deref().unwrap_or(message.content);
        let Some(method) = &self.method else { return Ok(Bytes::copy_from_slice(content)) };
        let json = message::decode(method.output(), content).map_err(MessagesError::Broken)?;
        Ok(json.to_string().into())
    }

    fn end(&self, answer: &Answer) -> Result<SocketMessage, Fault> {
        let broken = |reason: &str| (FailureClass::Protocol, not_grpc(reason));
        let header = |name: &HeaderName| {
            let value = answer.headers.as_ref()?.get(name)?;
            Some(charset::of_field(value.as_bytes()))
        };
        let status = CallStatus::of(answer.status, header, answer.trailers.as_deref());
        let status = status.map_err(|reason| broken(&reason))?;
        if status.code == 0 && !self.unfinished.is_empty() {
            return Err(broken("it ends within a message"));
        }
        Ok(SocketMessage::Close(status.code, status.words(self.method.as_ref())))
    }
}
