//! Why a WebSocket must be closed: what a server did that [RFC 6455](https://www.rfc-editor.org/rfc/rfc6455) forbids, or that
//! is too much.

use std::fmt;

/// Why a connection must be closed (section 7.1.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Violation {
    /// The frames break a rule.
    Protocol(&'static str),
    /// A text that is none.
    NotUtf8,
    /// A message that cannot be unpacked.
    Damaged,
    /// A message beyond the limit; no rule forbids it.
    TooLarge,
}

impl Violation {
    pub(super) const RESERVED_BIT: Self = Self::Protocol("invalid extension: a reserved bit is set");
    pub(super) const LENGTH: Self = Self::Protocol("invalid payload length");

    /// The code that tells the server (section 7.4.1).
    #[must_use]
    pub fn code(self) -> u16 {
        match self {
            Self::Protocol(_) => 1002,
            Self::NotUtf8 | Self::Damaged => 1007,
            Self::TooLarge => 1009,
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Protocol(reason) => reason,
            Self::NotUtf8 => "invalid utf-8",
            Self::Damaged => "a compressed message is damaged",
            Self::TooLarge => "a message is too large",
        })
    }
}
