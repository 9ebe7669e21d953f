//! Paths of the demo that show kinds of requests: a session with a cookie, uploads, and a method of its own.
//!
//! They are not Keystone's, need no token and have no trace points of their own.

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_ENCODING, CONTENT_TYPE, COOKIE, SET_COOKIE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use serde_json::{Value, json};

/// Longer uploads (bytes) are refused.
const UPLOAD_BYTES_MAX: u64 = 16 << 20;
const SESSION: &str = "demo_session=";

/// The answer of these paths; gives the request back if it is for another path.
pub(super) async fn answer(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Request<Incoming>> {
    let method = request.method().as_str();
    let allowed = match (request.uri().path(), method) {
        ("/session", "POST") => return Ok(log_in()),
        ("/session", "GET") => return Ok(session(request.headers())),
        ("/upload", "POST" | "PUT") => return Ok(upload(request).await),
        ("/cache", "PURGE") => return Ok(json_answer(StatusCode::OK, &json!({ "purged": true }))),
        ("/session", _) => "GET, POST",
        ("/upload", _) => "POST, PUT",
        ("/cache", _) => "PURGE",
        _ => return Err(request),
    };
    let mut answer = refusal(StatusCode::METHOD_NOT_ALLOWED, "this path does not support the method");
    answer.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    Ok(answer)
}

fn log_in() -> Response<Full<Bytes>> {
    let id = uuid::Uuid::new_v4().simple().to_string();
    let mut answer = json_answer(StatusCode::CREATED, &json!({ "session": "begun" }));
    let cookie = format!("{SESSION}{id}; Path=/; HttpOnly; Max-Age=600");
    if let Ok(cookie) = HeaderValue::from_str(&cookie) {
        answer.headers_mut().insert(SET_COOKIE, cookie);
    }
    answer
}

fn session(headers: &HeaderMap) -> Response<Full<Bytes>> {
    let cookies = headers.get(COOKIE).and_then(|cookies| cookies.to_str().ok()).unwrap_or_default();
    if cookies.split("; ").any(|cookie| cookie.starts_with(SESSION)) {
        return json_answer(StatusCode::OK, &json!({ "session": "known" }));
    }
    refusal(StatusCode::FORBIDDEN, "there is no session: POST to this path first")
}

async fn upload(request: Request<Incoming>) -> Response<Full<Bytes>> {
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let (kind, encoding) = (header(CONTENT_TYPE), header(CONTENT_ENCODING));
    let created = request.method() == Method::POST;
    let (mut body, mut bytes) = (request.into_body(), 0_u64);
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return refusal(StatusCode::BAD_REQUEST, "the body ended early") };
        bytes += frame.data_ref().map_or(0, |data| data.len() as u64);
        if bytes > UPLOAD_BYTES_MAX {
            return refusal(StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than 16 MiB");
        }
    }
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    json_answer(status, &json!({ "bytes": bytes, "content_type": kind, "content_encoding": encoding }))
}

pub(super) fn refusal(status: StatusCode, message: &str) -> Response<Full<Bytes>> {
    let title = status.canonical_reason().unwrap_or_default();
    let error = json!({ "code": status.as_u16(), "title": title, "message": message });
    json_answer(status, &json!({ "error": error }))
}

pub(super) fn json_answer(status: StatusCode, body: &Value) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(Bytes::from(body.to_string())));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    answer
}
