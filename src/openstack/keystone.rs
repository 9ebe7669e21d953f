//! Logs in to Keystone v3 (Identity API, "Password authentication", "Token authentication" and "Authenticating with an
//! application credential").

use std::sync::Arc;

use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use base::masking;
use base::secret::Secret;
use client::plain::{PlainAnswer, PlainClient, PlainError};
use plan::keystone::{
    Application, Credentials, Domain, Identity, KeystoneReference, PendingToken, Scope, Token, TokenIssuer,
};

use super::catalog::Catalog;

/// Logs in to Keystone over HTTP.
#[derive(Debug)]
pub struct KeystoneIssuer;

impl TokenIssuer for KeystoneIssuer {
    fn issue<'a>(&'a self, client: &'a PlainClient, login: &'a Credentials) -> PendingToken<'a> {
        Box::pin(issue_token(client, login))
    }
}

/// Logs in.
///
/// # Errors
/// No answer, or a refusal, with Keystone's message and what to check.
pub(super) async fn issue_token(
    client: &PlainClient,
    credentials: &Credentials,
) -> Result<Token, PlainError> {
    let url = format!("{}/auth/tokens", credentials.auth_url);
    if let (Identity::Token(token), Scope::Own) = (&credentials.identity, &credentials.scope) {
        return given_token(client, &url, token, credentials).await;
    }
    let answer = client.post_json(&url, &request(credentials)).await.map_err(unanswered)?;
    if answer.status != 201 {
        return Err(refused(&url, &answer, credentials));
    }
    let value = answer.headers.get("x-subject-token").and_then(|value| value.to_str().ok());
    let value = value.map(str::trim).filter(|value| !value.is_empty());
    let value = value.ok_or_else(|| PlainError(format!("{url} answered 201 without X-Subject-Token")))?;
    masking::hide_learned(value);
    Ok(token(Secret::new(value), &answer))
}

/// What Keystone says about a token that the deployment gives.
async fn given_token(
    client: &PlainClient,
    url: &str,
    given: &Secret,
    credentials: &Credentials,
) -> Result<Token, PlainError> {
    let mut value = HeaderValue::from_str(given.expose())
        .map_err(|_| PlainError("the `token` under `auth.keystone` is not a token".to_owned()))?;
    value.set_sensitive(true);
    let mut headers = HeaderMap::new();
    headers.insert("x-auth-token", value.clone());
    headers.insert("x-subject-token", value);
    let answer = client.send(http::Method::GET, url, headers, None).await.map_err(unanswered)?;
    match answer.status {
        200 => Ok(token(given.clone(), &answer)),
        _ => Err(refused(url, &answer, credentials)),
    }
}

fn token(value: Secret, answer: &PlainAnswer) -> Token {
    let json: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let id = |pointer: &str| json.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    let valid_for = valid_for(&json, answer.headers.get(http::header::DATE));
    let (project_id, user_id) = (id("/token/project/id"), id("/token/user/id"));
    Token { value, valid_for, catalog: Arc::new(Catalog::of_token(&json)), project_id, user_id }
}

/// The error of a request that had no answer, with what to check.
fn unanswered(error: PlainError) -> PlainError {
    PlainError(format!("{error}; check that the `auth_url` is Keystone's, and can be reached from here"))
}

fn refused(url: &str, answer: &PlainAnswer, credentials: &Credentials) -> PlainError {
    let json: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let words = json.pointer("/error/message").and_then(|message| message.as_str()).unwrap_or("no message");
    let words: String = words.chars().take(300).collect();
    let check = match answer.status {
        // To the question about a token, 404 means that the token is not valid.
        401 | 403 => check(credentials),
        404 if matches!(credentials.identity, Identity::Token(_)) => check(credentials),
        500.. => "the service's log",
        _ => "that the `auth_url` under `auth.keystone` is Keystone's, such as http://127.0.0.1:5000/v3",
    };
    PlainError(format!("{url} answered {}: {}; check {check}", answer.status, words.trim_end_matches('.')))
}

/// How long the token is valid: from when it was issued, or for an older one from the answer's date, so that clocks need
/// not agree.
fn valid_for(json: &Value, answered: Option<&HeaderValue>) -> std::time::Duration {
    let time = |pointer: &str| json.pointer(pointer)?.as_str()?.parse::<jiff::Timestamp>().ok();
    let answered = answered.and_then(|date| date.to_str().ok());
    let answered = answered.and_then(|date| jiff::fmt::rfc2822::parse(date).ok());
    let issued = time("/token/issued_at");
    let from = issued.into_iter().chain(answered.map(|date| date.timestamp())).max();
    let seconds = match (from, time("/token/expires_at")) {
        (Some(from), Some(expires)) => expires.as_second().saturating_sub(from.as_second()),
        _ => 3600,
    };
    std::time::Duration::from_secs(u64::try_from(seconds).unwrap_or(0))
}

/// The body of the request for a token.
fn request(login: &Credentials) -> Value {
    let identity = match &login.identity {
        Identity::Password { user, password } => {
            let mut user = reference_json(user);
            user["password"] = password.expose().into();
            json!({ "methods": ["password"], "password": { "user": user } })
        }
        Identity::Token(token) => json!({ "methods": ["token"], "token": { "id": token.expose() } }),
        Identity::ApplicationCredential { credential, secret } => {
            let mut credential = match credential {
                Application::Id(id) => json!({ "id": id }),
                Application::Name { name, user } => json!({ "name": name, "user": reference_json(user) }),
            };
            credential["secret"] = secret.expose().into();
            json!({ "methods": ["application_credential"], "application_credential": credential })
        }
    };
    let scope = match &login.scope {
        Scope::Project(project) => json!({ "project": reference_json(project) }),
        Scope::Domain(domain) => json!({ "domain": domain_json(domain) }),
        Scope::System => json!({ "system": { "all": true } }),
        Scope::Own => return json!({ "auth": { "identity": identity } }),
    };
    json!({ "auth": { "identity": identity, "scope": scope } })
}

fn reference_json(reference: &KeystoneReference) -> Value {
    match reference {
        KeystoneReference::Id(id) => json!({ "id": id }),
        KeystoneReference::Name { name, domain } => json!({ "name": name, "domain": domain_json(domain) }),
    }
}

fn domain_json(domain: &Domain) -> Value {
    match domain {
        Domain::Id(id) => json!({ "id": id }),
        Domain::Name(name) => json!({ "name": name }),
    }
}

/// What to check if Keystone refuses.
fn check(login: &Credentials) -> &'static str {
    match &login.identity {
        Identity::Password { .. } => "user, password, project and domains of the deployment",
        Identity::Token(_) => {
            "that the `token` under `auth.keystone` has not expired or been revoked, and that its user may use the project"
        }
        Identity::ApplicationCredential { .. } => {
            "that the application credential exists and has not expired (openstack application credential show), and its secret under `auth.keystone`"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::url::BaseUrl;

    fn named(name: &str) -> KeystoneReference {
        KeystoneReference::Name { name: name.to_owned(), domain: Domain::Name("Default".to_owned()) }
    }

    #[test]
    fn requests_are_those_of_the_identity_api() {
        let password = || Identity::Password { user: named("u"), password: Secret::new("p") };
        let user = json!({ "name": "u", "domain": { "name": "Default" }, "password": "p" });
        let by_password = json!({ "methods": ["password"], "password": { "user": user } });
        let by_token = json!({ "methods": ["token"], "token": { "id": "t" } });
        let secret = || Secret::new("s");
        for (identity, scope, expected) in [
            (
                password(),
                Scope::Project(named("a")),
                json!({ "identity": by_password, "scope": { "project": { "name": "a", "domain": { "name": "Default" } } } }),
            ),
            (
                password(),
                Scope::Domain(Domain::Id("d".to_owned())),
                json!({ "identity": by_password, "scope": { "domain": { "id": "d" } } }),
            ),
            (
                password(),
                Scope::System,
                json!({ "identity": by_password, "scope": { "system": { "all": true } } }),
            ),
            (
                Identity::Password {
                    user: KeystoneReference::Id("7".to_owned()),
                    password: Secret::new("p"),
                },
                Scope::Project(KeystoneReference::Id("9".to_owned())),
                json!({ "identity": { "methods": ["password"], "password": { "user": { "id": "7", "password": "p" } } },
                    "scope": { "project": { "id": "9" } } }),
            ),
            (
                Identity::Token(Secret::new("t")),
                Scope::Project(KeystoneReference::Id("9".to_owned())),
                json!({ "identity": by_token, "scope": { "project": { "id": "9" } } }),
            ),
            (
                Identity::ApplicationCredential {
                    credential: Application::Id("c".to_owned()),
                    secret: secret(),
                },
                Scope::Own,
                json!({ "identity": { "methods": ["application_credential"],
                    "application_credential": { "id": "c", "secret": "s" } } }),
            ),
            (
                Identity::ApplicationCredential {
                    credential: Application::Name { name: "n".to_owned(), user: named("u") },
                    secret: secret(),
                },
                Scope::Own,
                json!({ "identity": { "methods": ["application_credential"], "application_credential":
                    { "name": "n", "user": { "name": "u", "domain": { "name": "Default" } }, "secret": "s" } } }),
            ),
        ] {
            let auth_url = BaseUrl::parse("http://k/v3").unwrap_or_else(|error| panic!("{error}"));
            let request = request(&Credentials { auth_url, identity, scope });
            assert_eq!(request["auth"], expected);
        }
    }

    #[test]
    fn lifetimes_count_from_the_issue_or_the_answer() {
        for (issued, date, expected) in [
            ("2026-11-23T08:54:50.000000Z", None, 3600),
            ("2026-11-23T08:54:50.000000Z", Some("Mon, 23 Nov 2026 08:54:50 GMT"), 3600),
            // Issued half an hour ago.
            ("2026-11-23T08:54:50.000000Z", Some("Mon, 23 Nov 2026 09:24:50 GMT"), 1800),
            ("2026-11-23T08:54:50.000000Z", Some("yesterday"), 3600),
            // It is over.
            ("2026-11-23T08:54:50.000000Z", Some("Mon, 23 Nov 2026 10:00:00 GMT"), 0),
            ("?", None, 3600),
        ] {
            let json =
                json!({ "token": { "issued_at": issued, "expires_at": "2026-11-23T09:54:50.000000Z" } });
            let date = date.map(HeaderValue::from_static);
            assert_eq!(valid_for(&json, date.as_ref()).as_secs(), expected, "{issued} {date:?}");
        }
    }
}
