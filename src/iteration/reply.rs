//! What came back for a call, whatever its protocol: checks and extractions read nothing else.

use std::borrow::Cow;
use std::sync::Arc;

use http::HeaderMap;
use http::header::AsHeaderName;

use client::Answer;
use text::charset;

/// An answer.
pub(super) struct Reply {
    /// The number with which it says how it went; see [`measure::protocol`].
    pub(super) outcome: u16,
    /// Its headers, if kept.
    pub(super) headers: Option<Arc<HeaderMap>>,
    /// Its body or the beginning of it, if kept.
    pub(super) body: Vec<u8>,
    /// The length of the body.
    pub(super) body_bytes: u64,
    /// How many messages it has, if its protocol has messages.
    pub(super) messages: Option<u64>,
    /// The number of the event that is its body, if it is an event of a stream.
    pub(super) event: Option<u64>,
    /// How it says that it went, if it says more than the outcome.
    pub(super) said: Option<String>,
}

impl Reply {
    /// Without headers and body.
    pub(super) fn new(outcome: u16) -> Self {
        Self {
            outcome,
            headers: None,
            body: Vec::new(),
            body_bytes: 0,
            messages: None,
            event: None,
            said: None,
        }
    }

    /// The value of a header, if there is one and headers were kept. Lines of the same name are one list (RFC 9110,
    /// section 5.3): `Vary: a` and `Vary: b` mean `Vary: a, b`.
    pub(super) fn header(&self, name: impl AsHeaderName) -> Option<Cow<'_, str>> {
        let mut lines = self.headers.as_ref()?.get_all(name).iter();
        let first = charset::of_field(lines.next()?.as_bytes());
        Some(lines.fold(first, |mut all, line| {
            all.to_mut().extend([", ", &charset::of_field(line.as_bytes())]);
            all
        }))
    }
}

impl From<Answer> for Reply {
    fn from(Answer { status, headers, body, body_bytes, .. }: Answer) -> Self {
        Self { headers, body, body_bytes, ..Self::new(status.as_u16()) }
    }
}
