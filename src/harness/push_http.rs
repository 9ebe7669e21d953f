//! Pushes of metrics over HTTP: OTLP, Prometheus remote write and InfluxDB's line protocol differ in their headers and in
//! which answers mean that the same figures may be taken later.

use std::time::Duration;

use bytes::Bytes;
use http::header::{
    CONTENT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER, USER_AGENT,
};

use client::plain::{PlainAnswer, PlainClient};
use report::metrics::{influx, otlp, remote_write};

use super::push::{FailureKind, PushFailure, PushRoute};
use super::push_options::PushHeader;

/// How long a push may take.
const PUSH_LIMIT: Duration = Duration::from_secs(10);
/// The longest wait that is looked at, in seconds; longer ones are as good as never.
const WAIT_S_MAX: u64 = 86_400;
/// How much of an answer is shown.
const SHOWN_CHARS_MAX: usize = 200;

/// What is spoken over HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PushProtocol {
    Otlp,
    RemoteWrite,
    Influx,
}

impl PushProtocol {
    fn headers(self) -> Vec<(HeaderName, HeaderValue)> {
        let agent = concat!("bench/", env!("CARGO_PKG_VERSION"));
        let own = match self {
            Self::Otlp => vec![(CONTENT_TYPE, otlp::CONTENT_TYPE)],
            Self::RemoteWrite => vec![
                (CONTENT_TYPE, remote_write::CONTENT_TYPE),
                (CONTENT_ENCODING, remote_write::CONTENT_ENCODING),
                (HeaderName::from_static(remote_write::VERSION.0), remote_write::VERSION.1),
            ],
            Self::Influx => vec![(CONTENT_TYPE, influx::CONTENT_TYPE)],
        };
        let all = own.into_iter().chain([(USER_AGENT, agent)]);
        all.map(|(name, value)| (name, HeaderValue::from_static(value))).collect()
    }

    /// Whether an answer means that the same figures may be taken later, as the protocol says.
    fn is_busy(self, status: u16) -> bool {
        match self {
            Self::Otlp => matches!(status, 429 | 502 | 503 | 504),
            Self::RemoteWrite | Self::Influx => matches!(status, 429 | 500..600),
        }
    }

    /// Where it takes a key from.
    fn key(self) -> &'static str {
        match self {
            Self::Otlp => "give its key with --otlp-header NAME=@FILE",
            Self::RemoteWrite => "give its key with --remote-write-header NAME=@FILE",
            Self::Influx => "set INFLUX_TOKEN, or write user:password@ before its host",
        }
    }
}

/// A receiver that is reached over HTTP.
pub(super) struct HttpRoute {
    protocol: PushProtocol,
    url: String,
    headers: HeaderMap,
    client: PlainClient,
}

impl HttpRoute {
    pub(super) fn new(
        protocol: PushProtocol,
        url: String,
        given: &[PushHeader],
        client: PlainClient,
    ) -> Self {
        let mut headers = HeaderMap::new();
        for (name, value) in given.iter().map(PushHeader::pair).chain(protocol.headers()) {
            // The last one of a name counts, and what the protocol asks for is not for users to change.
            headers.insert(name, value);
        }
        Self { protocol, url, headers, client }
    }

    fn failure(&self, answer: &PlainAnswer) -> PushFailure {
        let status = answer.status;
        let said = first_line(&answer.body).map_or(String::new(), |line| format!(": {line}"));
        let why = format!("{} answered {status}{said}", self.url);
        match status {
            _ if self.protocol.is_busy(status) => {
                let seconds = answer
                    .headers
                    .get(RETRY_AFTER)
                    .and_then(|value| value.to_str().ok()?.trim().parse().ok());
                // A receiver may ask for any number.
                let asked = seconds.map(|seconds: u64| Duration::from_secs(seconds.min(WAIT_S_MAX)));
                PushFailure { why, kind: FailureKind::Busy(asked) }
            }
            401 | 403 => {
                let why = format!("{} answered {status}: {}", self.url, self.protocol.key());
                PushFailure { why, kind: FailureKind::Refused }
            }
            _ => PushFailure { why, kind: FailureKind::Refused },
        }
    }
}

impl PushRoute for HttpRoute {
    async fn send(&mut self, figures: Bytes) -> Result<(), PushFailure> {
        let away = |why: String| PushFailure { why, kind: FailureKind::Away };
        let sending = self.client.post_with(&self.url, self.headers.clone(), figures);
        let answer = match tokio::time::timeout(PUSH_LIMIT, sending).await {
            Ok(answer) => answer.map_err(|error| away(error.to_string()))?,
            Err(_) => {
                return Err(away(format!("{} did not answer within {} s", self.url, PUSH_LIMIT.as_secs())));
            }
        };
        if (200..300).contains(&answer.status) { Ok(()) } else { Err(self.failure(&answer)) }
    }
}

/// What a receiver says of its fault, if that is a text.
fn first_line(body: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(body).ok()?;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let is_text = line.chars().all(|sign| !sign.is_control());
    is_text.then(|| line.chars().take(SHOWN_CHARS_MAX).collect())
}
