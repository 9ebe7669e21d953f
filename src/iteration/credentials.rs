//! The credentials for requests: the authentication header, renewed before it expires, outside measured time.
//!
//! If services refuse a token that should still be valid, it is renewed at once; `refusals` counts that and says what it
//! means.

mod refusals;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use base64::Engine as _;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use minijinja::value::{Object, ObjectRepr};

use base::masking;
use base::secret::Secret;
use client::plain::{PlainClient, PlainError};
use client::{client_credentials, tokens};
use plan::deployment::{Auth, TokenCommand};
use plan::keystone::{self, TokenIssuer};
use text::programs;
use text::template::Value;

use refusals::Refusals;

const X_AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
/// A token is renewed when this share of its lifetime is left.
const RENEW_AT_SHARE_LEFT: f64 = 0.2;
/// How long a token of unknown lifetime is used.
const LIFETIME_UNKNOWN: Duration = Duration::from_secs(300);
/// The wait after a failed renewal.
const RETRY_AFTER: Duration = Duration::from_secs(5);
/// The longest wait after a renewal because services refused the token.
const PATIENCE_MAX: Duration = Duration::from_secs(60);
/// The shortest time between two logins, however short a token lives.
const RENEW_AFTER_MIN: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct CurrentCredentials {
    current: RwLock<Option<CurrentToken>>,
    /// The number of renewals.
    generation: AtomicU64,
    refusals: Refusals,
    issuer: &'static dyn TokenIssuer,
}

#[derive(Clone, Debug)]
struct CurrentToken {
    header: (HeaderName, HeaderValue),
    token: Option<Secret>,
}

impl CurrentCredentials {
    /// Credentials for `auth`, after a login if `auth` needs one, and how long they are valid; `None` if they are not
    /// renewed. `issuer` logs in to Keystone; `token` is Keystone's if bench has logged in before.
    ///
    /// # Errors
    /// Fails if the login fails, or if a secret is not a valid header value.
    pub async fn establish(
        auth: &Auth,
        client: &PlainClient,
        issuer: &'static dyn TokenIssuer,
        token: Option<keystone::Token>,
    ) -> Result<(Self, Option<Duration>), PlainError> {
        let (current, valid_for) = match auth {
            Auth::None => (None, None),
            Auth::Basic { username, password } => {
                let pair = format!("{username}:{}", password.expose());
                let pair = base64::engine::general_purpose::STANDARD.encode(pair);
                masking::hide(&pair);
                let value = format!("Basic {pair}");
                (Some(CurrentToken { header: sensitive(AUTHORIZATION, &value)?, token: None }), None)
            }
            Auth::Bearer { token } => (Some(bearer(token.clone())?), None),
            Auth::Keystone(login) => {
                let token = match token {
                    Some(token) => token,
                    None => issuer.issue(client, login).await?,
                };
                let valid_for = login.can_renew().then_some(token.valid_for);
                (Some(of_keystone(token)?), valid_for)
            }
            Auth::OAuth2(_) | Auth::Command(_) => {
                let (current, valid_for) = issued(auth, client, issuer).await?;
                (Some(current), Some(valid_for))
            }
        };
        let (current, generation) = (RwLock::new(current), AtomicU64::new(0));
        Ok((Self { current, generation, refusals: Refusals::default(), issuer }, valid_for))
    }

    /// No credentials: requests carry none.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        let (current, generation) = (RwLock::new(None), AtomicU64::new(0));
        Self { current, generation, refusals: Refusals::default(), issuer: &keystone::NoIssuer }
    }

    /// Changes whenever [`Self::header`] does.
    #[inline]
    #[must_use]
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The header to send, if any.
    #[must_use]
    pub fn header(&self) -> Option<(HeaderName, HeaderValue)> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().map(|current| current.header.clone())
    }

    /// Renews a token before it expires, for as long as this future is polled. A failed renewal is repeated soon: the
    /// old token may still be valid.
    pub async fn keep_fresh(&self, auth: &Auth, client: &PlainClient, valid_for: Option<Duration>) {
        let Some(valid_for) = valid_for else {
            return std::future::pending().await;
        };
        let mut wait = renew_after(valid_for);
        let mut patience = RETRY_AFTER;
        loop {
            let refused = tokio::select! {
                () = tokio::time::sleep(wait) => false,
                () = self.refusals.of_generation(self.generation()) => true,
            };
            wait = match issued(auth, client, self.issuer).await {
                Ok((renewed, valid_for)) => {
                    let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
                    *current = Some(renewed);
                    drop(current);
                    self.generation.fetch_add(1, Ordering::Release);
                    self.refusals.renewed(refused);
                    renew_after(valid_for)
                }
                Err(error) => {
                    self.refusals.not_renewed(&error);
                    RETRY_AFTER
                }
            };
            if refused {
                // A service that refuses every token must not make a storm of logins.
                tokio::time::sleep(patience).await;
                patience = (patience * 2).min(PATIENCE_MAX);
                wait = wait.saturating_sub(patience);
            }
        }
    }

    /// Notes that a service answered 401 to the token of this generation.
    pub(super) fn refused(&self, generation: u64) {
        self.refusals.count(generation);
    }

    /// What to say about the token after the load, if services refused it or it could not be renewed.
    #[must_use]
    pub fn note(&self) -> Option<String> {
        let is_token = self.token().is_some();
        self.refusals.note(if is_token { "the deployment's token" } else { "the deployment's credentials" })
    }

    /// The same for a user that was made for the run.
    #[must_use]
    pub fn note_of_user(&self) -> Option<String> {
        self.refusals.note("a user's token")
    }

    fn token(&self) -> Option<Secret> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().and_then(|current| current.token.clone())
    }
}

/// Asks for a token. Gives its header, and how long it is valid.
async fn issued(
    auth: &Auth,
    client: &PlainClient,
    issuer: &dyn TokenIssuer,
) -> Result<(CurrentToken, Duration), PlainError> {
    match auth {
        Auth::Keystone(credentials) => {
            let token = issuer.issue(client, credentials).await?;
            let valid_for = token.valid_for;
            Ok((of_keystone(token)?, valid_for))
        }
        Auth::OAuth2(grant) => {
            let token = client_credentials::issue_token(client, grant).await?;
            Ok((bearer(token.value)?, token.valid_for.unwrap_or(LIFETIME_UNKNOWN)))
        }
        Auth::Command(command) => printed(command).await,
        Auth::None | Auth::Basic { .. } | Auth::Bearer { .. } => {
            Err(PlainError("these credentials are not renewed".to_owned()))
        }
    }
}

/// Runs the program that prints a token, on a thread of its own.
async fn printed(command: &TokenCommand) -> Result<(CurrentToken, Duration), PlainError> {
    let (program, limit) = (command.program.clone(), command.limit);
    // Its arguments may hold secrets.
    let name = command.program.first().map(String::as_str).unwrap_or_default();
    let failed = |error: String| PlainError(format!("the program of `auth.command`, {name}: {error}"));
    let cancelled = CancellationGuard(Arc::default());
    let flag = Arc::clone(&cancelled.0);
    let output = tokio::task::spawn_blocking(move || programs::output(&program, limit, &flag)).await;
    let output = output.map_err(|error| failed(error.to_string()))?.map_err(failed)?;
    let token = tokens::printed(&output, command.pointer.as_deref()).map_err(failed)?;
    let valid_for = command.lifetime.or(token.valid_for).unwrap_or(LIFETIME_UNKNOWN);
    let current = match &command.header {
        None => bearer(token.value)?,
        Some(name) => {
            CurrentToken { header: sensitive(name.clone(), token.value.expose())?, token: Some(token.value) }
        }
    };
    Ok((current, valid_for))
}

/// Ends a program when no caller waits for it any more.
struct CancellationGuard(Arc<AtomicBool>);

impl Drop for CancellationGuard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn of_keystone(token: keystone::Token) -> Result<CurrentToken, PlainError> {
    masking::hide_learned(token.value.expose());
    let header = sensitive(X_AUTH_TOKEN, token.value.expose())?;
    Ok(CurrentToken { header, token: Some(token.value) })
}

fn bearer(token: Secret) -> Result<CurrentToken, PlainError> {
    let header = sensitive(AUTHORIZATION, &format!("Bearer {}", token.expose()))?;
    Ok(CurrentToken { header, token: Some(token) })
}

fn renew_after(valid_for: Duration) -> Duration {
    valid_for.mul_f64(1.0 - RENEW_AT_SHARE_LEFT).max(RENEW_AFTER_MIN)
}

fn sensitive(name: HeaderName, value: &str) -> Result<(HeaderName, HeaderValue), PlainError> {
    let mut value = HeaderValue::from_str(value).map_err(|_| {
        PlainError(format!(
            "the secret for the header {name} contains characters that are not allowed in a header"
        ))
    })?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// The template variable `auth`: the deployment's values and the current `auth.token`.
#[derive(Debug)]
pub struct AuthVariable {
    /// The deployment's values.
    pub fixed: Value,
    /// The source of the token.
    pub credentials: Arc<CurrentCredentials>,
}

impl Object for AuthVariable {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Map
    }

    fn get_value(self: &Arc<Self>, key: &Value) -> Option<Value> {
        if key.as_str() == Some("token")
            && let Some(token) = self.credentials.token()
        {
            return Some(Value::from(token.expose()));
        }
        self.fixed.get_item(key).ok().filter(|value| !value.is_undefined())
    }
}

/// The value of the template variable `auth`.
#[must_use]
pub fn auth_variable(fixed: Value, credentials: Arc<CurrentCredentials>) -> Value {
    Value::from_object(AuthVariable { fixed, credentials })
}
