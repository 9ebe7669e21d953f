//! The messages of a WebSocket, as they come and as they are sent.

use bytes::Bytes;

/// The largest payload of a control frame ([RFC 6455](https://www.rfc-editor.org/rfc/rfc6455), section 5.5).
pub const CONTROL_BYTES_MAX: usize = 125;

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
