//! A token by OAuth 2.0's client credentials grant (RFC 6749, section 4.4).

use base64::Engine as _;
use http::HeaderMap;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};

use base::masking;
use base::percent;
use base::secret::Secret;

use super::plain::{PlainClient, PlainError};
use super::tokens::{self, Token};

/// How a client shows who it is (RFC 6749, section 2.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// In the header `Authorization`.
    #[default]
    Basic,
    /// In the body.
    Post,
}

/// What a token is asked for with.
#[derive(Clone)]
pub struct Grant {
    /// The URL of the token endpoint.
    pub token_url: String,
    /// The client's name.
    pub client_id: String,
    /// The client's secret.
    pub client_secret: Secret,
    /// The scopes, separated by blanks.
    pub scope: Option<String>,
    /// The service that the token is for, where the server wants to know.
    pub audience: Option<String>,
    /// How the client shows who it is.
    pub style: Style,
}

/// Asks for a token.
///
/// # Errors
/// No answer, or a refusal, with the server's words and what to check.
pub async fn issue_token(client: &PlainClient, grant: &Grant) -> Result<Token, PlainError> {
    let url = &grant.token_url;
    let (id, secret) = (percent::encode(&grant.client_id), percent::encode(grant.client_secret.expose()));
    let mut fields = vec!["grant_type=client_credentials".to_owned()];
    let optional = [("scope", &grant.scope), ("audience", &grant.audience)];
    for (name, value) in optional.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
        fields.push(format!("{name}={}", percent::encode(value)));
    }
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-www-form-urlencoded"));
    headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
    match grant.style {
        Style::Basic => {
            let pair = base64::engine::general_purpose::STANDARD.encode(format!("{id}:{secret}"));
            masking::hide(&pair);
            let value = HeaderValue::from_str(&format!("Basic {pair}"));
            headers.insert(AUTHORIZATION, value.map_err(|error| PlainError(error.to_string()))?);
        }
        Style::Post => {
            masking::hide(&secret);
            fields.push(format!("client_id={id}"));
            fields.push(format!("client_secret={secret}"));
        }
    }
    let answer = client.post_with(url, headers, fields.join("&").into()).await?;
    let json: serde_json::Value = serde_json::from_slice(&answer.body).unwrap_or_default();
    let word = |name: &str| json.get(name).and_then(serde_json::Value::as_str);
    if answer.status != 200 {
        let said = [word("error"), word("error_description")].into_iter().flatten().collect::<Vec<_>>();
        let said = if said.is_empty() { "no reason".to_owned() } else { said.join(": ") };
        let check = match (answer.status, word("error")) {
            (_, Some("invalid_scope")) => "`scope` under `auth.oauth2`",
            (401, _) | (_, Some("invalid_client")) => {
                "`client_id`, `client_secret` and `style` under `auth.oauth2`"
            }
            (500.., _) => "the service's log",
            _ => {
                "that `token_url` under `auth.oauth2` is the token endpoint, and that the client may use the grant client_credentials"
            }
        };
        let said: String = said.chars().take(300).collect();
        return Err(PlainError(format!("{url} answered {}: {said}; check {check}", answer.status)));
    }
    if word("token_type").is_some_and(|kind| !kind.eq_ignore_ascii_case("bearer")) {
        return Err(PlainError(format!("{url} gave a token that is not a bearer token")));
    }
    let value = word("access_token")
        .filter(|value| !value.trim().is_empty())
        .ok_or_else(|| PlainError(format!("{url} answered 200 without an access_token")))?;
    let token = tokens::of_json_value(value, &json);
    Ok(token)
}
