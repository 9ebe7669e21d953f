//! What an answer says: its status, from trailers or from its head, and the messages in its body.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use http::{HeaderMap, HeaderName, StatusCode};
use prost::Message as _;
use prost_reflect::prost_types::Any;
use serde_json::{Value, json};

use base::percent;
use config::grpc::{STATUSES, status_name, status_number};

use crate::frames::{self, FrameError};
use crate::message;
use crate::schema::Method;

/// Binary metadata may come without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);
/// The fields of an answer, as names that need not be read for each call.
static STATUS: HeaderName = HeaderName::from_static("grpc-status");
static MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
static DETAILS: HeaderName = HeaderName::from_static("grpc-status-details-bin");
/// The compression of an answer's messages.
pub static ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");
/// The most characters of a status's message that are shown.
const MESSAGE_CHARS_MAX: usize = 500;

/// How a call ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CallStatus {
    /// Its number, from 0 to 16.
    pub code: u16,
    /// What the server says of it; empty for nothing.
    pub message: String,
    /// True if it is that of another protocol.
    pub is_of_http: bool,
    /// What it says in detail, as it came.
    details: Option<String>,
}

impl CallStatus {
    /// The status of an answer. `header`: the value of a header of its head; `trailers`: what came behind its body.
    ///
    /// An answer without a status is that of something else than gRPC. Then its HTTP status counts (gRPC, "HTTP to gRPC
    /// Status Code Mapping").
    ///
    /// # Errors
    /// An answer of HTTP status 200 that says no status, or one that does not exist: the call has no outcome.
    pub fn of<'a>(
        http: StatusCode,
        header: impl Fn(&HeaderName) -> Option<Cow<'a, str>>,
        trailers: Option<&HeaderMap>,
    ) -> Result<Self, String> {
        let trailer = |name: &HeaderName| {
            let value = trailers.and_then(|trailers| trailers.get(name));
            value.map(|value| String::from_utf8_lossy(value.as_bytes()))
        };
        let field = |name: &HeaderName| trailer(name).or_else(|| header(name));
        let Some(code) = field(&STATUS) else {
            return match http {
                StatusCode::OK => Err("it ends without `grpc-status`: its trailers are missing".to_owned()),
                other => Ok(Self::of_http(other)),
            };
        };
        let known = code.parse().ok().filter(|code| usize::from(*code) < STATUSES.len());
        let code = known.ok_or_else(|| {
            let last = STATUSES.len() - 1;
            format!("its `grpc-status` is `{}`, which is none: they go from 0 to {last}", short(&code))
        })?;
        if code == 0 {
            return Ok(Self::default());
        }
        let message = field(&MESSAGE).unwrap_or_default();
        let message = String::from_utf8_lossy(&percent::decode(&message)).into_owned();
        let details = field(&DETAILS).map(Cow::into_owned);
        Ok(Self { code, message, is_of_http: false, details })
    }

    /// What an answer of HTTP alone means.
    fn of_http(status: StatusCode) -> Self {
        let code = match status.as_u16() {
            400 => "INTERNAL",
            401 => "UNAUTHENTICATED",
            403 => "PERMISSION_DENIED",
            404 => "UNIMPLEMENTED",
            429 | 502 | 503 | 504 => "UNAVAILABLE",
            _ => "UNKNOWN",
        };
        let code = status_number(code).unwrap_or_default();
        Self {
            code,
            message: format!("the answer is not gRPC: HTTP status {status}"),
            is_of_http: true,
            details: None,
        }
    }

    /// The status and what the server says of it, such as `NOT_FOUND: no such order`.
    #[must_use]
    pub fn words(&self, method: Option<&Method>) -> String {
        let mut words = status_name(self.code).unwrap_or_default().to_owned();
        if !self.message.is_empty() {
            words.push_str(": ");
            words.push_str(&short(&self.message));
        }
        for detail in self.details(method) {
            words.push_str("; ");
            words.push_str(&short(&detail));
        }
        words
    }

    /// The details as JSON, where their type is known.
    fn details(&self, method: Option<&Method>) -> Vec<String> {
        let Some(details) = &self.details else { return Vec::new() };
        let unreadable = || vec!["its details cannot be read".to_owned()];
        let Ok(bytes) = BASE64.decode(details.as_bytes()) else { return unreadable() };
        let Ok(status) = RpcStatus::decode(&bytes[..]) else { return unreadable() };
        status.details.iter().map(|detail| detail_as_json(detail, method)).collect()
    }
}

/// A detail as JSON, or its type if that is not known.
fn detail_as_json(detail: &Any, method: Option<&Method>) -> String {
    let name = detail.type_url.rsplit('/').next().unwrap_or_default();
    let descriptor = method.and_then(|method| method.schema().0.get_message_by_name(name));
    match descriptor.map(|descriptor| message::decode(descriptor, &detail.value)) {
        Some(Ok(json)) => format!("{name} {json}"),
        Some(Err(reason)) => format!("{name} ({reason})"),
        None => format!("{name} ({} bytes)", detail.value.len()),
    }
}

/// `google.rpc.Status`, which `grpc-status-details-bin` holds.
#[derive(Clone, PartialEq, prost::Message)]
struct RpcStatus {
    #[prost(int32, tag = "1")]
    code: i32,
    #[prost(string, tag = "2")]
    message: String,
    #[prost(message, repeated, tag = "3")]
    details: Vec<Any>,
}

fn short(text: &str) -> String {
    text.chars().take(MESSAGE_CHARS_MAX).collect()
}

/// What is wrong with the messages of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessagesError {
    /// They are not what gRPC or the type says.
    Broken(String),
    /// They are larger than this number of bytes when unpacked.
    TooLarge(u64),
}

impl From<FrameError> for MessagesError {
    fn from(error: FrameError) -> Self {
        match error {
            FrameError::Broken(reason) => Self::Broken(reason),
            FrameError::TooLarge(limit) => Self::TooLarge(limit),
        }
    }
}

/// How many messages a body has.
///
/// # Errors
/// A body that is no row of messages.
pub fn count(body: &[u8]) -> Result<u64, MessagesError> {
    let mut count = 0;
    for message in frames::split(body) {
        message?;
        count += 1;
    }
    Ok(count)
}

/// The messages of a body as JSON: the only one of a method that answers with one, or a list. `null` if there should be
/// one and is none, which only a failed call may have.
///
/// # Errors
/// A body that is no row of messages of the method's type, or more than `bytes_max` bytes when unpacked.
pub fn messages_as_json(
    method: &Method,
    body: &[u8],
    encoding: Option<&str>,
    bytes_max: u64,
) -> Result<Value, MessagesError> {
    let mut messages = Vec::new();
    let mut bytes_left = bytes_max;
    for (index, message) in frames::split(body).enumerate() {
        let message = message?;
        let too_large = |error| match error {
            FrameError::TooLarge(_) => MessagesError::TooLarge(bytes_max),
            broken => broken.into(),
        };
        let unpacked = message.unpacked(encoding, bytes_left).map_err(too_large)?;
        let content = unpacked.as_deref().unwrap_or(message.content);
        bytes_left = bytes_left.saturating_sub(content.len() as u64);
        let json = message::decode(method.output(), content);
        messages
            .push(json.map_err(|reason| MessagesError::Broken(format!("message {}: {reason}", index + 1)))?);
    }
    if method.is_server_streaming() {
        return Ok(Value::Array(messages));
    }
    match messages.len() {
        0 => Ok(json!(null)),
        1 => Ok(messages.swap_remove(0)),
        more => Err(MessagesError::Broken(format!(
            "it has {more} messages, and {} answers with one",
            method.name()
        ))),
    }
}
