//! How long each phase of a request took, and what TCP had to repeat.

use std::time::Duration;

use base::clock::Nanos;

/// A connection that takes this long was asked for again: the kernel does so after 1 s (RFC 6298, section 2).
pub const SLOW_CONNECT: Duration = Duration::from_millis(900);

/// The duration of each phase of a request, in nanoseconds; 0 for a phase that did not happen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Phases {
    /// Resolving the host's name.
    pub resolve_ns: Nanos,
    /// The TCP handshake.
    pub connect_ns: Nanos,
    /// The TLS handshake.
    pub tls_ns: Nanos,
    /// Writing the request.
    pub send_ns: Nanos,
    /// From the request's last byte to the answer's first.
    pub wait_ns: Nanos,
    /// From the answer's first byte to its last.
    pub receive_ns: Nanos,
    /// The time of earlier requests that led to this one, such as HTTP's redirects; not included in the other phases.
    pub before_ns: Nanos,
    /// True if the request opened its connection.
    pub opened: bool,
    /// The version of the protocol, by its number in [`crate::protocol::ProtocolNames::versions`].
    pub version: u8,
    /// True if it, or one that led to it by a redirect, was sent once more.
    pub resent: bool,
    /// The number of the address that it was sent to, if its host has several; 0 otherwise.
    pub address: u16,
    /// What TCP had to repeat, if it was slow.
    pub retransmits: Retransmits,
}

impl Phases {
    /// Adds the connecting of an earlier attempt of the same request.
    pub fn resent_after(&mut self, before: &Self) {
        self.resent = true;
        self.opened |= before.opened;
        self.resolve_ns += before.resolve_ns;
        self.connect_ns += before.connect_ns;
        self.tls_ns += before.tls_ns;
        self.retransmits = self.retransmits.and(before.retransmits);
    }
}

/// What was repeated for a request. Each number ends at 255; 0 on other systems than Linux.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retransmits {
    /// How often the kernel asked for its connection again.
    pub syns: u8,
    /// Segments to the service that were sent again.
    pub segments: u8,
    /// Segments of the answer that came although one before them was missing: lost, or overtaken.
    pub out_of_order: u8,
}

impl Retransmits {
    /// True if no repetition is known.
    #[must_use]
    pub fn is_none(self) -> bool {
        self == Self::default()
    }

    /// The sum of these and the counts of an earlier attempt or redirect.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            syns: self.syns.saturating_add(other.syns),
            segments: self.segments.saturating_add(other.segments),
            out_of_order: self.out_of_order.saturating_add(other.out_of_order),
        }
    }
}
