//! What a dialogue goes over: a WebSocket, or a gRPC call. Both send messages, and keep what comes before anybody asks for it.

use std::convert::Infallible;
use std::time::Instant;

use client::websocket::{SocketMessage, WebSocket, WireMessage};
use grpc::schema::Method;
use measure::protocol::Protocol;

use super::end::{DialogueEnd, NORMAL, fault};
use super::grpc::GrpcMessages;
use crate::compare::{Fault, Verdict};

/// An open WebSocket or gRPC call, in a box: most lanes have none.
pub(crate) enum OpenDialogue {
    WebSocket(Box<WebSocket>),
    Grpc(Box<GrpcMessages>),
}

impl OpenDialogue {
    pub(super) fn protocol(&self) -> Protocol {
        match self {
            Self::WebSocket(_) => Protocol::WebSocket,
            Self::Grpc(_) => Protocol::Grpc,
        }
    }

    /// The gRPC method, if it is one whose types are known.
    pub(super) fn method(&self) -> Option<&Method> {
        match self {
            Self::WebSocket(_) => None,
            Self::Grpc(messages) => messages.method(),
        }
    }

    /// Keeps what has come by now for later, and tells how the service has ended the dialogue, if it has.
    pub(super) async fn look(&mut self) -> Result<Option<DialogueEnd>, Fault> {
        match self {
            Self::WebSocket(socket) => socket.look().map_err(fault),
            Self::Grpc(messages) => messages.look().await,
        }
    }

    /// Drops the messages that were kept; gives the last of them, and how many bytes they had.
    pub(super) fn skip_kept(&mut self) -> (Option<SocketMessage>, u64) {
        match self {
            Self::WebSocket(socket) => socket.skip_kept(),
            Self::Grpc(messages) => messages.skip_kept(),
        }
    }

    pub(super) async fn send(&mut self, message: WireMessage) -> Verdict {
        match self {
            Self::WebSocket(socket) => socket.send(message).await.map_err(fault),
            Self::Grpc(messages) => messages.send(message).await,
        }
    }

    /// The next message or the end, when it came, and how many bytes it had.
    pub(super) async fn next(&mut self) -> Result<(Instant, SocketMessage, u64), Fault> {
        match self {
            Self::WebSocket(socket) => {
                let (at, message) = socket.next().await.map_err(fault)?;
                let bytes = message.content().len() as u64;
                Ok((at, message, bytes))
            }
            Self::Grpc(messages) => messages.next().await,
        }
    }

    /// How the service ends the dialogue; what comes before is dropped.
    pub(super) async fn end(&mut self) -> Result<DialogueEnd, Fault> {
        loop {
            if let (_, SocketMessage::Close(code, reason), _) = self.next().await? {
                return Ok((code, reason));
            }
        }
    }

    /// The pong with this content, or how the service ends the dialogue before. A gRPC call has no pings.
    pub(super) async fn pong(&mut self, content: &[u8]) -> Result<Option<DialogueEnd>, Fault> {
        match self {
            Self::WebSocket(socket) => socket.pong(content).await.map_err(fault),
            Self::Grpc(_) => Ok(None),
        }
    }

    /// Keeps it alive, until it is dropped.
    pub(super) async fn idle(&mut self) -> Infallible {
        match self {
            Self::WebSocket(socket) => socket.idle().await,
            Self::Grpc(messages) => messages.idle().await,
        }
    }

    /// Keeps the end of a gRPC call, which a later step may ask for.
    pub(super) fn keep_end(&mut self, end: DialogueEnd) {
        if let Self::Grpc(messages) = self {
            messages.keep_end(end);
        }
    }

    /// What ends it.
    pub(super) fn farewell(&self) -> WireMessage {
        WireMessage::Close(NORMAL, String::new())
    }
}
