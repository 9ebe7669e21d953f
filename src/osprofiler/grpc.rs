//! gRPC calls among HTTP requests: points named `rpc`, as points of messages are.
//!
//! The middleware and the client of tower tell them by their content type, so that a gRPC service (tonic
//! is one of tower) needs the same one line as any other. A failed call has its status in the answer's
//! head when there is no message before it; a status behind messages is not seen.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, Response};
use serde_json::json;

use super::record::{Info, IntoInfo};
use super::trace::failure;
use base::percent;

/// Whether a request's headers are those of a gRPC call.
pub(super) fn is_call(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
}

/// What a start says of a call: its service and method.
pub(super) fn call_info(path: &str) -> Info {
    json!({"function": {"name": path.trim_start_matches('/')}}).into_info()
}

/// Why a call failed, if its answer says so in its head. The message is percent-encoded there (gRPC over HTTP/2).
pub(super) fn failed<R>(response: &Response<R>) -> Option<Info> {
    let text = |name| response.headers().get(name)?.to_str().ok();
    let status = text("grpc-status").filter(|status| *status != "0")?;
    let message = percent::decode(text("grpc-message").unwrap_or_default());
    Some(failure(&format!("grpc-status {status}"), &String::from_utf8_lossy(&message)))
}
