//! The credentials for requests: the authentication header, renewed before it expires, outside measured time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use base64::Engine as _;
use http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use minijinja::value::{Object, ObjectRepr};

use crate::base::masking;
use crate::base::secret::Secret;
use crate::base::template::Value;
use crate::client::keystone;
use crate::client::plain::{PlainClient, PlainError};
use crate::plan::deployment::Auth;

const X_AUTH_TOKEN: HeaderName = HeaderName::from_static("x-auth-token");
/// A token is renewed when this share of its lifetime is left.
const RENEW_AT_SHARE_LEFT: f64 = 0.2;
/// The wait after a failed renewal, and the shortest time between two logins.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The current credentials.
#[derive(Debug)]
pub struct Credentials {
    current: RwLock<Option<Current>>,
    /// The number of renewals.
    generation: AtomicU64,
}

#[derive(Clone, Debug)]
struct Current {
    header: (HeaderName, HeaderValue),
    token: Option<Secret>,
}

impl Credentials {
    /// Credentials for `auth`, after a login if `auth` needs one, and how long they are valid.
    ///
    /// # Errors
    /// Fails if the login fails, or if a secret is not a valid header value.
    pub async fn establish(
        auth: &Auth,
        client: &PlainClient,
    ) -> Result<(Self, Option<Duration>), PlainError> {
        let (current, valid_for) = match auth {
            Auth::None => (None, None),
            Auth::Basic { username, password } => {
                let pair = format!("{username}:{}", password.expose());
                let pair = base64::engine::general_purpose::STANDARD.encode(pair);
                masking::hide(&pair);
                let value = format!("Basic {pair}");
                (Some(Current { header: sensitive(AUTHORIZATION, &value)?, token: None }), None)
            }
            Auth::Bearer { token } => {
                let header = sensitive(AUTHORIZATION, &format!("Bearer {}", token.expose()))?;
                (Some(Current { header, token: Some(token.clone()) }), None)
            }
            Auth::Keystone(credentials) => {
                let token = keystone::issue_token(client, credentials).await?;
                masking::hide_learned(token.value.expose());
                let header = sensitive(X_AUTH_TOKEN, token.value.expose())?;
                (Some(Current { header, token: Some(token.value) }), Some(token.valid_for))
            }
        };
        Ok((Self { current: RwLock::new(current), generation: AtomicU64::new(0) }, valid_for))
    }

    /// Changes whenever [`Self::header`] does.
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

    /// Renews a Keystone token before it expires, for as long as this future is polled. A failed renewal
    /// is repeated soon: the old token may still be valid.
    pub async fn keep_fresh(&self, auth: &Auth, client: &PlainClient, valid_for: Option<Duration>) {
        let (Auth::Keystone(credentials), Some(valid_for)) = (auth, valid_for) else {
            return std::future::pending().await;
        };
        let mut wait = renew_after(valid_for);
        loop {
            tokio::time::sleep(wait).await;
            let renewed = keystone::issue_token(client, credentials).await;
            if let Ok(token) = &renewed {
                masking::hide_learned(token.value.expose());
            }
            let renewed =
                renewed.and_then(|token| Ok((sensitive(X_AUTH_TOKEN, token.value.expose())?, token)));
            wait = match renewed {
                Ok((header, token)) => {
                    let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
                    *current = Some(Current { header, token: Some(token.value) });
                    drop(current);
                    self.generation.fetch_add(1, Ordering::Release);
                    renew_after(token.valid_for)
                }
                Err(_) => RETRY_AFTER,
            };
        }
    }

    fn token(&self) -> Option<Secret> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.as_ref().and_then(|current| current.token.clone())
    }
}

fn renew_after(valid_for: Duration) -> Duration {
    valid_for.mul_f64(1.0 - RENEW_AT_SHARE_LEFT).max(RETRY_AFTER)
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
    pub credentials: Arc<Credentials>,
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
pub fn auth_variable(fixed: Value, credentials: Arc<Credentials>) -> Value {
    Value::from_object(AuthVariable { fixed, credentials })
}
