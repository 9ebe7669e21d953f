//! Its names in samples and logs.

use super::{Protocol, ProtocolNames};

/// The names of the echo's figures.
pub(super) static ECHO: ProtocolNames = ProtocolNames {
    protocol: Protocol::Echo,
    before: "",
    versions: &["echo"],
    is_good: |outcome| outcome == SAME,
    outcome: |outcome| (if outcome == SAME { "the same" } else { "another text" }).to_owned(),
    written: |outcome| outcome.to_string(),
};

/// The outcome of an answer that is what was sent.
pub const SAME: u16 = 0;
/// The outcome of another answer.
pub const ANOTHER: u16 = 1;
