//! The demo's HTTP: paths, statuses and bodies as in Keystone v3, with limits.
//!
//! Input is bounded before it is read. An answer never depends on whether the request is traced.
//! Nothing here may reveal why a signature was refused.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use serde_json::{Value, json};
use tower_service::Service;

use super::flow::Flow;
use super::identity::Identity;
use super::requests::{json_answer, refusal};
use osprofiler::signing::{X_TRACE_HMAC, X_TRACE_INFO};
use osprofiler::trace::TraceHandle;

/// Longer bodies (bytes) are refused.
pub(super) const BODY_LEN_MAX: usize = 64 * 1024;
/// The longest time for a body to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);

const X_AUTH_TOKEN: &str = "x-auth-token";
const X_SUBJECT_TOKEN: HeaderName = HeaderName::from_static("x-subject-token");

/// Counts of requests so far.
#[derive(Default)]
pub(super) struct Counters {
    pub(super) requests: AtomicU64,
    pub(super) traced: AtomicU64,
    pub(super) rejected: AtomicU64,
}

/// The state that all requests share.
pub(super) struct DemoState {
    pub(super) identity: Identity,
    pub(super) base_url: String,
    pub(super) counters: Counters,
}

/// Answers requests. The middleware around it adds their trace.
#[derive(Clone)]
pub(super) struct Handler(pub(super) Arc<DemoState>);

type DemoResponse = Response<Full<Bytes>>;

impl Service<Request<Incoming>> for Handler {
    type Response = DemoResponse;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<DemoResponse, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Incoming>) -> Self::Future {
        let shared = Arc::clone(&self.0);
        Box::pin(async move { Ok(shared.answer(request).await) })
    }
}

impl DemoState {
    async fn answer(&self, mut request: Request<Incoming>) -> DemoResponse {
        let flow = Flow::new(request.extensions_mut().remove::<TraceHandle>());
        self.count(&flow, request.headers());
        let request = match super::requests::answer(request).await {
            Ok(answer) => return answer,
            Err(request) => request,
        };
        let path = request.uri().path().to_owned();
        let expected = match path.as_str() {
            "/" => {
                if request.method() == Method::GET {
                    return self.version();
                }
                "GET"
            }
            "/v3/auth/tokens" => {
                if request.method() == Method::POST {
                    return self.issue_token(&flow, request.into_body()).await;
                }
                "POST"
            }
            path => {
                let Some(id) = user_path(path) else { return refusal(StatusCode::NOT_FOUND, "no such path") };
                if request.method() == Method::GET {
                    return self.users(&flow, request.headers(), id).await;
                }
                "GET"
            }
        };
        let mut answer = refusal(StatusCode::METHOD_NOT_ALLOWED, "this path does not support the method");
        answer.headers_mut().insert(ALLOW, HeaderValue::from_static(expected));
        answer
    }

    fn count(&self, flow: &Flow, headers: &HeaderMap) {
        let Counters { requests, traced, rejected } = &self.counters;
        requests.fetch_add(1, Ordering::Relaxed);
        if flow.is_traced() {
            traced.fetch_add(1, Ordering::Relaxed);
        } else if headers.contains_key(X_TRACE_INFO) || headers.contains_key(X_TRACE_HMAC) {
            rejected.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn version(&self) -> DemoResponse {
        let link = json!({ "rel": "self", "href": format!("{}/v3/", self.base_url) });
        let version = json!({ "id": "v3.14", "status": "stable", "links": [link] });
        json_answer(StatusCode::OK, &json!({ "versions": { "values": [version] } }))
    }

    async fn issue_token(&self, flow: &Flow, body: Incoming) -> DemoResponse {
        let body = match read(body).await {
            Ok(body) => body,
            Err(answer) => return answer,
        };
        let Ok(json) = serde_json::from_slice::<Value>(&body) else {
            return refusal(StatusCode::BAD_REQUEST, "the body is not JSON");
        };
        let user = json.pointer("/auth/identity/password/user");
        let text = |key: &str| user.and_then(|user| user.get(key)).and_then(Value::as_str);
        let (Some(name), Some(password)) = (text("name").or_else(|| text("id")), text("password")) else {
            let message = "auth.identity.password.user needs a name and a password";
            return refusal(StatusCode::BAD_REQUEST, message);
        };
        let Some(issued) = self.identity.authenticate(flow, name, password).await else {
            return unauthorized();
        };
        let mut answer = json_answer(StatusCode::CREATED, &issued.body);
        if let Ok(token) = HeaderValue::from_str(&issued.token) {
            answer.headers_mut().insert(X_SUBJECT_TOKEN, token);
        }
        answer
    }

    async fn users(&self, flow: &Flow, headers: &HeaderMap, id: Option<&str>) -> DemoResponse {
        let token = headers.get(X_AUTH_TOKEN).and_then(|token| token.to_str().ok()).unwrap_or_default();
        if !self.identity.validate_token(flow, token).await {
            return unauthorized();
        }
        let Some(id) = id else {
            return json_answer(StatusCode::OK, &self.identity.list_users(flow, &self.base_url).await);
        };
        match self.identity.show_user(flow, id, &self.base_url).await {
            Some(user) => json_answer(StatusCode::OK, &user),
            None => refusal(StatusCode::NOT_FOUND, "no such user"),
        }
    }
}

/// `Some(None)` for the list, `Some(Some(id))` for one user.
fn user_path(path: &str) -> Option<Option<&str>> {
    let rest = path.strip_prefix("/v3/users")?;
    match rest.strip_prefix('/') {
        Some("") => Some(None),
        Some(id) if !id.contains('/') => Some(Some(id)),
        None if rest.is_empty() => Some(None),
        _ => None,
    }
}

async fn read(body: Incoming) -> Result<Bytes, DemoResponse> {
    let collect = Limited::new(body, BODY_LEN_MAX).collect();
    match tokio::time::timeout(BODY_TIMEOUT, collect).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            Err(refusal(StatusCode::PAYLOAD_TOO_LARGE, "the body is longer than 64 KiB"))
        }
        Ok(Err(_)) => Err(refusal(StatusCode::BAD_REQUEST, "the body ends too early")),
        Err(_) => Err(refusal(StatusCode::REQUEST_TIMEOUT, "the body did not arrive within 10 s")),
    }
}

fn unauthorized() -> DemoResponse {
    let mut answer = refusal(StatusCode::UNAUTHORIZED, "log in first, with the right password");
    answer.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Keystone"));
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_users_are_parsed() {
        for (path, expected) in [
            ("/v3/users", Some(None)),
            ("/v3/users/", Some(None)),
            ("/v3/users/user-1", Some(Some("user-1"))),
            ("/v3/users/a/b", None),
            ("/v3/usersx", None),
            ("/v2.0", None),
        ] {
            assert_eq!(user_path(path), expected, "{path}");
        }
    }
}
