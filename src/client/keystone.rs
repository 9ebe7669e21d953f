//! A token from Keystone v3 (Identity API, "Password authentication", "Token authentication" and "Authenticating with
//! an application credential").

use http::{HeaderMap, HeaderValue};
use serde_json::{Value, json};

use base::masking;
use base::secret::Secret;

use super::catalog::Catalog;
use super::plain::{PlainAnswer, PlainClient, PlainError};
use super::url::BaseUrl;

/// The credentials.
#[derive(Clone)]
pub struct Credentials {
    /// Keystone's v3 URL.
    pub auth_url: BaseUrl,
    /// Who logs in, and with what.
    pub identity: Identity,
    /// What the token is for.
    pub scope: Scope,
}

/// Who logs in, and with what.
#[derive(Clone)]
pub enum Identity {
    /// A user with a password.
    Password {
        /// The user.
        user: KeystoneReference,
        /// The password.
        password: Secret,
    },
    /// A token that was issued before. Without a scope, it is used as it is.
    Token(Secret),
    /// An application credential, which has a scope of its own.
    ApplicationCredential {
        /// Its id, or its name and its user.
        credential: Application,
        /// Its secret.
        secret: Secret,
    },
}

/// An application credential.
#[derive(Clone)]
pub enum Application {
    /// By its id.
    Id(String),
    /// By its name.
    Name {
        /// Its name.
        name: String,
        /// Whose it is.
        user: KeystoneReference,
    },
}

/// A user or project: by id, or by name and domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeystoneReference {
    /// By its id.
    Id(String),
    /// By its name.
    Name {
        /// Its name.
        name: String,
        /// Its domain.
        domain: Domain,
    },
}

/// A domain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Domain {
    /// By its id.
    Id(String),
    /// By its name.
    Name(String),
}

/// What a token is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A project.
    Project(KeystoneReference),
    /// A domain.
    Domain(Domain),
    /// The whole cloud.
    System,
    /// What the credentials themselves say.
    Own,
}

impl Domain {
    fn to_json(&self) -> Value {
        match self {
            Self::Id(id) => json!({ "id": id }),
            Self::Name(name) => json!({ "name": name }),
        }
    }

    /// Its name, if that is known.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        if let Self::Name(name) = self { Some(name) } else { None }
    }
}

impl KeystoneReference {
    fn to_json(&self) -> Value {
        match self {
            Self::Id(id) => json!({ "id": id }),
            Self::Name { name, domain } => json!({ "name": name, "domain": domain.to_json() }),
        }
    }

    /// Its name, if that is known.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        if let Self::Name { name, .. } = self { Some(name) } else { None }
    }

    /// Its id, if that is known.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        if let Self::Id(id) = self { Some(id) } else { None }
    }

    /// Its domain's name, if that is known.
    #[must_use]
    pub fn domain_name(&self) -> Option<&str> {
        if let Self::Name { domain, .. } = self { domain.name() } else { None }
    }
}

impl Credentials {
    /// The user, if it is known.
    #[must_use]
    pub fn user(&self) -> Option<&KeystoneReference> {
        match &self.identity {
            Identity::Password { user, .. } => Some(user),
            Identity::ApplicationCredential { credential: Application::Name { user, .. }, .. } => Some(user),
            Identity::Token(_) | Identity::ApplicationCredential { .. } => None,
        }
    }

    /// True if logging in again gives a token that is valid for longer. A token from a token ends with that.
    #[must_use]
    pub fn can_renew(&self) -> bool {
        !matches!(self.identity, Identity::Token(_))
    }

    /// What the template variable `auth` has: the known texts, by name.
    #[must_use]
    pub fn values(&self) -> Vec<(&'static str, &str)> {
        let user = self.user();
        let mut values = vec![
            ("username", user.and_then(KeystoneReference::name)),
            ("user_domain_name", user.and_then(KeystoneReference::domain_name)),
            ("user_id", user.and_then(KeystoneReference::id)),
        ];
        match &self.identity {
            Identity::Password { password, .. } => values.push(("password", Some(password.expose()))),
            // It is there as `auth.token` anyway.
            Identity::Token(_) => {}
            Identity::ApplicationCredential { credential, secret } => {
                let (key, name) = match credential {
                    Application::Id(id) => ("application_credential_id", id),
                    Application::Name { name, .. } => ("application_credential_name", name),
                };
                values.push((key, Some(name)));
                values.push(("application_credential_secret", Some(secret.expose())));
            }
        }
        if let Scope::Project(project) = &self.scope {
            values.push(("project_name", project.name()));
            values.push(("project_domain_name", project.domain_name()));
            values.push(("project_id", project.id()));
        }
        values.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    fn request(&self) -> Value {
        let identity = match &self.identity {
            Identity::Password { user, password } => {
                let mut user = user.to_json();
                user["password"] = password.expose().into();
                json!({ "methods": ["password"], "password": { "user": user } })
            }
            Identity::Token(token) => json!({ "methods": ["token"], "token": { "id": token.expose() } }),
            Identity::ApplicationCredential { credential, secret } => {
                let mut credential = match credential {
                    Application::Id(id) => json!({ "id": id }),
                    Application::Name { name, user } => json!({ "name": name, "user": user.to_json() }),
                };
                credential["secret"] = secret.expose().into();
                json!({ "methods": ["application_credential"], "application_credential": credential })
            }
        };
        let scope = match &self.scope {
            Scope::Project(project) => json!({ "project": project.to_json() }),
            Scope::Domain(domain) => json!({ "domain": domain.to_json() }),
            Scope::System => json!({ "system": { "all": true } }),
            Scope::Own => return json!({ "auth": { "identity": identity } }),
        };
        json!({ "auth": { "identity": identity, "scope": scope } })
    }

    /// What to check if Keystone refuses.
    fn check(&self) -> &'static str {
        match &self.identity {
            Identity::Password { .. } => "user, password, project and domains of the deployment",
            Identity::Token(_) => {
                "that the `token` under `auth.keystone` has not expired or been revoked, and that its user may use the project"
            }
            Identity::ApplicationCredential { .. } => {
                "that the application credential exists and has not expired (openstack application credential show), and its secret under `auth.keystone`"
            }
        }
    }
}

/// A token.
#[derive(Clone)]
pub struct Token {
    /// The value of `X-Auth-Token`.
    pub value: Secret,
    /// How long it is valid from now.
    pub valid_for: std::time::Duration,
    /// The services that it can be used with.
    pub catalog: Catalog,
    /// The project that it is for, if it is for one.
    pub project_id: Option<String>,
    /// The id of its user.
    pub user_id: Option<String>,
}

/// Logs in.
///
/// # Errors
/// No answer, or a refusal, with Keystone's message and what to check.
pub async fn issue_token(client: &PlainClient, credentials: &Credentials) -> Result<Token, PlainError> {
    let url = format!("{}/auth/tokens", credentials.auth_url);
    if let (Identity::Token(token), Scope::Own) = (&credentials.identity, &credentials.scope) {
        return given_token(client, &url, token, credentials).await;
    }
    let answer = client.post_json(&url, &credentials.request()).await.map_err(unanswered)?;
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
    Token { value, valid_for, catalog: Catalog::of_token(&json), project_id, user_id }
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
        401 | 403 => credentials.check(),
        404 if matches!(credentials.identity, Identity::Token(_)) => credentials.check(),
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

#[cfg(test)]
mod tests {
    use super::*;

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
            let request = Credentials { auth_url, identity, scope }.request();
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
