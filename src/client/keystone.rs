//! A token from Keystone v3 (Identity API, "Password authentication with scoped authorization").

use serde_json::json;

use crate::base::secret::Secret;

use super::plain::{PlainClient, PlainError};
use super::url::BaseUrl;

/// The credentials.
#[derive(Clone)]
pub struct Credentials {
    /// Keystone's v3 URL.
    pub auth_url: BaseUrl,
    /// The user.
    pub username: String,
    /// The password.
    pub password: Secret,
    /// The project to scope the token to.
    pub project_name: String,
    /// The user's domain.
    pub user_domain_name: String,
    /// The project's domain.
    pub project_domain_name: String,
}

/// A token.
#[derive(Clone)]
pub struct Token {
    /// The value of `X-Auth-Token`.
    pub value: Secret,
    /// How long it is valid from now.
    pub valid_for: std::time::Duration,
}

/// Logs in.
///
/// # Errors
/// No answer, or a refusal, with Keystone's message and what to check.
pub async fn issue_token(client: &PlainClient, credentials: &Credentials) -> Result<Token, PlainError> {
    let url = format!("{}/auth/tokens", credentials.auth_url);
    let body = json!({ "auth": {
        "identity": { "methods": ["password"], "password": { "user": {
            "name": credentials.username,
            "domain": { "name": credentials.user_domain_name },
            "password": credentials.password.expose() } } },
        "scope": { "project": {
            "name": credentials.project_name,
            "domain": { "name": credentials.project_domain_name } } } } });
    let answer = client.post_json(&url, &body).await?;
    let json: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    if answer.status != 201 {
        let words =
            json.pointer("/error/message").and_then(|message| message.as_str()).unwrap_or("no message");
        let check = match answer.status {
            401 | 403 => "user, password, project and domains under `auth.keystone`",
            500.. => "the service's log",
            _ => "that the `auth_url` under `auth.keystone` is Keystone's, such as http://127.0.0.1:5000/v3",
        };
        return Err(PlainError(format!(
            "{url} answered {}: {}; check {check}",
            answer.status,
            words.trim_end_matches('.')
        )));
    }
    let value = answer.headers.get("x-subject-token").and_then(|value| value.to_str().ok());
    let value = value.ok_or_else(|| PlainError(format!("{url} answered 201 without X-Subject-Token")))?;
    Ok(Token { value: Secret::new(value), valid_for: valid_for(&json) })
}

/// The token's lifetime as the difference of two times from Keystone, so that clocks need not agree.
fn valid_for(json: &serde_json::Value) -> std::time::Duration {
    let time = |pointer: &str| json.pointer(pointer)?.as_str()?.parse::<jiff::Timestamp>().ok();
    let seconds = match (time("/token/issued_at"), time("/token/expires_at")) {
        (Some(issued), Some(expires)) => expires.as_second().saturating_sub(issued.as_second()),
        _ => 3600,
    };
    std::time::Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}
