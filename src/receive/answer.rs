//! The answers of OTLP/HTTP and OTLP/gRPC, and why a request is refused.
//!
//! Source: the OTLP specification 1.9, "OTLP/gRPC Response" and "OTLP/HTTP Response"; `google/rpc/status.proto`,
//! `error_details.proto`.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use hyper::body::{Body, Frame, SizeHint};
use osprofiler::spans::otlp::{ExportAnswer, PartialSuccess};
use prost::Message;
use serde_json::json;

use super::wire::WireError;

/// When a sender may try again.
pub(super) const RETRY_SECONDS: u32 = 1;
/// The largest number of characters of a message: a part of it may be the sender's.
const MESSAGE_CHARS_MAX: usize = 300;

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum ExportRefusal {
    #[error("{0}")]
    Malformed(String),
    #[error("{0}")]
    TooLarge(String),
    /// No memory for another body.
    #[error("the receiver is busy; try again")]
    Busy,
    #[error("the body did not arrive in time")]
    Incomplete,
    #[error("{1}")]
    Unsupported(StatusCode, String),
    #[error("the receiver forwards to itself; give it another URL to forward to")]
    Loop,
}

/// The codes of gRPC that are used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Unavailable = 14,
}

impl From<WireError> for ExportRefusal {
    fn from(error: WireError) -> Self {
        match error {
            WireError::Malformed(_) => Self::Malformed(error.to_string()),
            WireError::TooManySpans | WireError::TooLarge => Self::TooLarge(error.to_string()),
        }
    }
}

impl ExportRefusal {
    pub(super) fn status(&self) -> StatusCode {
        match self {
            Self::Malformed(_) => StatusCode::BAD_REQUEST,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Incomplete => StatusCode::REQUEST_TIMEOUT,
            Self::Unsupported(status, _) => *status,
            Self::Loop => StatusCode::LOOP_DETECTED,
        }
    }

    pub(super) fn code(&self) -> Code {
        match self {
            Self::Malformed(_) | Self::Loop => Code::InvalidArgument,
            Self::TooLarge(_) => Code::ResourceExhausted,
            Self::Busy => Code::Unavailable,
            Self::Incomplete => Code::DeadlineExceeded,
            Self::Unsupported(..) => Code::Unimplemented,
        }
    }

    pub(super) fn message(&self) -> String {
        self.to_string().chars().take(MESSAGE_CHARS_MAX).collect()
    }

    /// `google.rpc.Status` in protobuf.
    pub(super) fn protobuf(&self) -> Vec<u8> {
        let mut status = RpcStatus { code: self.code() as i32, message: self.message(), details: Vec::new() };
        if matches!(self, Self::Busy) {
            let delay = Duration { seconds: i64::from(RETRY_SECONDS) };
            status.details.push(StatusDetail {
                type_url: "type.googleapis.com/google.rpc.RetryInfo".to_owned(),
                value: RetryInfo { retry_delay: Some(delay) }.encode_to_vec(),
            });
        }
        status.encode_to_vec()
    }

    /// `google.rpc.Status` in JSON, for senders of JSON and for people.
    pub(super) fn json(&self) -> Vec<u8> {
        json!({"code": self.code() as i32, "message": self.message()}).to_string().into_bytes()
    }
}

/// `ExportTraceServiceResponse` in protobuf, which is also an empty answer for metrics and logs.
pub(super) fn accepted_protobuf(invalid_spans: u64) -> Vec<u8> {
    let partial_success = (invalid_spans > 0).then(|| PartialSuccess {
        rejected_spans: i64::try_from(invalid_spans).unwrap_or(i64::MAX),
        error_message: invalid_ids(invalid_spans),
    });
    ExportAnswer { partial_success }.encode_to_vec()
}

/// As [`accepted_protobuf`], in JSON. 64-bit numbers are texts there.
pub(super) fn accepted_json(invalid_spans: u64) -> Vec<u8> {
    if invalid_spans == 0 {
        return b"{}".to_vec();
    }
    let message = invalid_ids(invalid_spans);
    let partial = json!({"rejectedSpans": invalid_spans.to_string(), "errorMessage": message});
    json!({"partialSuccess": partial}).to_string().into_bytes()
}

fn invalid_ids(spans: u64) -> String {
    format!(
        "{spans} of the spans have no valid ids: a trace id has 16 bytes, a span id 8, not all of them zero"
    )
}

/// A limit in a message: whole MiB where it is that.
pub(super) fn limit_text(bytes: u64) -> String {
    if bytes.is_multiple_of(1 << 20) { format!("{} MiB", bytes >> 20) } else { format!("{bytes} bytes") }
}

/// A body of an answer: at most one piece, and trailers if there are any.
pub(super) struct AnswerBody {
    data: Option<Bytes>,
    trailers: Option<HeaderMap>,
}

impl AnswerBody {
    pub(super) fn new(data: Vec<u8>, trailers: Option<HeaderMap>) -> Self {
        Self { data: Some(Bytes::from(data)).filter(|data| !data.is_empty()), trailers }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = self.data.take().map(Frame::data);
        Poll::Ready(data.or_else(|| self.trailers.take().map(Frame::trailers)).map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.data.as_ref().map_or(0, Bytes::len) as u64)
    }
}

#[derive(Clone, PartialEq, Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<StatusDetail>,
}

#[derive(Clone, PartialEq, Message)]
struct StatusDetail {
    #[prost(string, tag = "1")]
    type_url: String,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct RetryInfo {
    #[prost(message, optional, tag = "1")]
    retry_delay: Option<Duration>,
}

#[derive(Clone, PartialEq, Message)]
struct Duration {
    #[prost(int64, tag = "1")]
    seconds: i64,
}
