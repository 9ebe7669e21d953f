//! Reads the answers to gRPC calls. The request that carries a call is sent like any other.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName};
use serde_json::Value;

use base::masking::masked;
use client::Answer;
use client::error::ClientError;
use grpc::answer::{self, CallStatus, MessagesError};
use grpc::frames;
use grpc::message;
use grpc::schema::Method;
use measure::errors::FailureClass;
use measure::observation::SentRequest;
use plan::action::Action;
use plan::call::grpc::GrpcCall;
use text::charset;

use crate::compare::{Fault, Verdict};
use crate::reply::Reply;

/// The status of a service that does not know who calls.
pub(super) const UNAUTHENTICATED: u16 = 16;

/// The status of a call that ran out of time, whether the client or the service noticed.
const DEADLINE_EXCEEDED: u16 = 4;

/// The timers of services are not more exact than this.
const CLOCK_TICK: Duration = Duration::from_millis(10);

/// What a call is without an answer in time: its status is known all the same.
pub(super) fn late(action: &Action, verdict: Verdict) -> (Option<Reply>, Verdict) {
    let verdict = if action.accepts(DEADLINE_EXCEEDED) { Ok(()) } else { verdict };
    (Some(Reply::new(DEADLINE_EXCEEDED)), verdict)
}

/// True if the service ended a call because its time limit was over, which it was.
pub(super) fn is_late(reply: Option<&Reply>, action: &Action, duration: Duration) -> bool {
    let is_told = reply.is_some_and(|reply| reply.outcome == DEADLINE_EXCEEDED);
    is_told && !action.accepts(DEADLINE_EXCEEDED) && duration + CLOCK_TICK >= action.timeout
}

/// What an answer says, as it is checked; without an outcome if it says none.
pub(super) fn reply(
    answer: Answer,
    (action, is_observed): (&Action, bool),
    call: &GrpcCall,
) -> (Option<Reply>, Verdict) {
    if call.opens_dialogue() {
        // Its status comes in the end.
        return (None, Ok(()));
    }
    let Answer { status, headers, body, body_bytes, trailers, .. } = answer;
    let header = |name: &HeaderName| {
        let value = headers.as_ref()?.get(name)?;
        Some(charset::of_field(value.as_bytes()))
    };
    let status = match CallStatus::of(status, header, trailers.as_deref()) {
        Ok(status) => status,
        Err(reason) => return (None, Err((FailureClass::Protocol, not_grpc(&reason)))),
    };
    let encoding = header(&answer::ENCODING).map(Cow::into_owned);
    let limit = call.request.body_bytes_max;
    let read = match status.is_of_http {
        true => Ok((0, None)),
        false => {
            read(call, &body, is_observed || action.needs_body(), (encoding.as_deref(), limit, status.code))
        }
    };
    let headers = if action.needs_headers() || is_observed { with_trailers(headers, trailers) } else { None };
    let mut reply = Reply {
        outcome: status.code,
        headers,
        body: Vec::new(),
        body_bytes,
        messages: None,
        event: None,
        said: (status.code != 0).then(|| masked(&status.words(call.method.as_ref())).into_owned()),
    };
    match read {
        Ok((messages, json)) => {
            reply.messages = Some(messages);
            reply.body = json.map(|json| json.to_string().into_bytes()).unwrap_or_default();
            (Some(reply), Ok(()))
        }
        Err(fault) => (Some(reply), Err(fault)),
    }
}

pub(super) fn not_grpc(reason: &str) -> String {
    format!("not valid gRPC: {reason}")
}

/// The number of messages, and the messages themselves if they are needed.
fn read(
    call: &GrpcCall,
    body: &[u8],
    is_needed: bool,
    (encoding, limit, status): (Option<&str>, u64, u16),
) -> Result<(u64, Option<Value>), Fault> {
    let wrong = |error| match error {
        MessagesError::Broken(reason) => (FailureClass::Protocol, not_grpc(&reason)),
        MessagesError::TooLarge(limit) => {
            let error = ClientError::BodyTooLarge { limit };
            (error.class(), error.to_string())
        }
    };
    let messages = answer::count(body).map_err(wrong)?;
    let Some(method) = &call.method else { return Ok((messages, None)) };
    if status == 0 && messages != 1 && !method.is_server_streaming() {
        let reason = format!("the answer to {} has {messages} messages, not one", method.name());
        return Err((FailureClass::Protocol, not_grpc(&reason)));
    }
    let json = is_needed.then(|| answer::messages_as_json(method, body, encoding, limit));
    Ok((messages, json.transpose().map_err(wrong)?))
}

/// Metadata of the head and of the end together.
fn with_trailers(
    headers: Option<Arc<HeaderMap>>,
    trailers: Option<Arc<HeaderMap>>,
) -> Option<Arc<HeaderMap>> {
    let (mut headers, trailers) = match (headers, trailers) {
        (Some(headers), Some(trailers)) => (headers, trailers),
        (headers, _) => return headers,
    };
    let all = Arc::make_mut(&mut headers);
    for (name, value) in trailers.iter() {
        all.append(name, value.clone());
    }
    Some(headers)
}

/// Shows the messages of a request as JSON.
pub(super) fn show(request: &mut SentRequest, call: &GrpcCall) {
    if let Some(method) = &call.method {
        request.body = messages_as_text(method, &request.body);
    }
}

/// The messages that a body sends, as lines of JSON.
pub(super) fn messages_as_text(method: &Method, body: &[u8]) -> Bytes {
    let texts = frames::split(body).filter_map(|message| {
        let message = message.ok()?;
        let unpacked = message.unpacked(Some("gzip"), u64::MAX).ok()?;
        let content = unpacked.as_deref().unwrap_or(message.content);
        message::decode(method.input(), content).ok().map(|json| json.to_string())
    });
    texts.collect::<Vec<_>>().join("\n").into_bytes().into()
}
