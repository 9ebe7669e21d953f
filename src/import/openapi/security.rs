//! How an API authenticates, as the deployment says it.

use serde_json::{Map, Value, json};

use crate::Draft;
use crate::request::split_url;

use super::document::OpenApiDocument;

/// What requests need besides what the deployment adds by itself.
pub(super) struct Security {
    /// A key in the query: its parameter and its variable.
    pub(super) query: Option<(String, String)>,
    /// True if operations without a requirement must not send credentials.
    pub(super) has_auth: bool,
    /// True if operations need no credentials unless they say so.
    pub(super) open_by_default: bool,
}

impl Security {
    /// Chooses the first scheme that the document requires and that bench can use, and writes it into the deployment.
    pub(super) fn read(document: &OpenApiDocument, draft: &mut Draft) -> Self {
        let mut security = Self { query: None, has_auth: false, open_by_default: false };
        let schemes = if document.is_swagger() {
            document.at(&["securityDefinitions"])
        } else {
            document.at(&["components", "securitySchemes"])
        };
        let Some(schemes) = schemes.and_then(Value::as_object) else { return security };
        let global = document.at(&["security"]).and_then(Value::as_array);
        security.open_by_default = global.is_none_or(Vec::is_empty);
        let required = global.into_iter().flatten().filter_map(Value::as_object).flat_map(Map::keys);
        let of_operations = document.operations().flat_map(|operation| {
            let list = operation.value.get("security").and_then(Value::as_array);
            list.into_iter().flatten().filter_map(Value::as_object).flat_map(Map::keys)
        });
        let mut names = required.chain(of_operations).take(10_000);
        let scheme = names.find_map(|name| document.resolve(schemes.get(name)?)).or_else(|| {
            let first = schemes.values().next()?;
            document.resolve(first)
        });
        if let Some(scheme) = scheme {
            security.apply(document, scheme, draft);
        }
        if schemes.len() > 1 {
            let names: Vec<&str> = schemes.keys().map(String::as_str).take(10).collect();
            draft
                .notes
                .push(format!("of the document's ways to authenticate ({}), one is used", names.join(", ")));
        }
        security
    }

    fn apply(&mut self, document: &OpenApiDocument, scheme: &Value, draft: &mut Draft) {
        let word = |key: &str| scheme.get(key).and_then(Value::as_str).unwrap_or_default();
        let mut auth = |value: Value, names: &[&str]| {
            draft.deployment.insert("auth".into(), value);
            draft.environment.extend(names.iter().map(|name| (*name).to_owned()));
            true
        };
        let bearer = || json!({ "bearer": { "token": { "env": "API_TOKEN" } } });
        let basic = || json!({ "basic": { "username": { "env": "API_USER" }, "password": { "env": "API_PASSWORD" } } });
        let kind = word("type").to_ascii_lowercase();
        self.has_auth = match (kind.as_str(), word("scheme").to_ascii_lowercase().as_str()) {
            ("http", "basic") | ("basic", _) => auth(basic(), &["API_USER", "API_PASSWORD"]),
            ("http", _) | ("openidconnect", _) => auth(bearer(), &["API_TOKEN"]),
            ("oauth2", _) => match client_credentials(document, scheme) {
                Some(grant) => {
                    let done = auth(grant, &["CLIENT_ID", "CLIENT_SECRET"]);
                    let comment = "The document's client credentials; keep the scopes that the client has.";
                    draft.deployment_comments.insert("/auth".into(), comment.to_owned());
                    done
                }
                None => {
                    let done = auth(bearer(), &["API_TOKEN"]);
                    draft.deployment_comments.insert("/auth".into(), oauth2_comment(scheme));
                    done
                }
            },
            ("apikey", _) => self.api_key(word("name"), word("in"), draft),
            _ => false,
        };
    }

    /// Returns whether the deployment holds the key.
    fn api_key(&mut self, name: &str, place: &str, draft: &mut Draft) -> bool {
        match place {
            "query" => {
                let variable = draft.variables.secret("api_key", "");
                self.query = Some((name.to_owned(), variable));
            }
            "cookie" => {
                draft.environment.push("API_COOKIE".into());
                draft.deployment.insert("headers".into(), json!({ "Cookie": { "env": "API_COOKIE" } }));
                draft
                    .deployment_comments
                    .insert("/headers".into(), "API_COOKIE holds NAME=VALUE.".to_owned());
            }
            _ if http::HeaderName::from_bytes(name.as_bytes()).is_err() => {
                draft.notes.push(format!("the key is left out: {name:?} is no name of a header"));
            }
            _ => {
                draft.environment.push("API_KEY".into());
                draft.deployment.insert("headers".into(), json!({ name: { "env": "API_KEY" } }));
            }
        }
        false
    }
}

/// The grant of client credentials (RFC 6749, section 4.4), if the scheme has it with a URL that bench can use.
fn client_credentials(document: &OpenApiDocument, scheme: &Value) -> Option<Value> {
    const SCOPES_MAX: usize = 50;
    let flow = match scheme.get("flow").and_then(Value::as_str) {
        // Swagger 2 calls it `application`.
        Some("application") => scheme,
        Some(_) => return None,
        None => scheme.get("flows")?.get("clientCredentials")?,
    };
    let written = flow.get("tokenUrl")?.as_str()?;
    let url = match written.starts_with('/') {
        true => {
            let (origin, _) = split_url(&document.base().url)?;
            format!("{origin}{written}")
        }
        false => written.to_owned(),
    };
    let (origin, path) = split_url(&url)?;
    let has_credentials = url.split('/').nth(2).is_none_or(|authority| authority.contains('@'));
    if has_credentials || path.contains(char::is_control) || path.contains("{{") {
        return None;
    }
    let mut grant = json!({
        "token_url": format!("{origin}{path}"),
        "client_id": { "env": "CLIENT_ID" }, "client_secret": { "env": "CLIENT_SECRET" }
    });
    let scopes = flow.get("scopes").and_then(Value::as_object).into_iter().flatten();
    let is_scope = |name: &&str| !name.is_empty() && name.bytes().all(|byte| (b'!'..=b'~').contains(&byte));
    let scopes: Vec<&str> = scopes.map(|(name, _)| name.as_str()).filter(is_scope).take(SCOPES_MAX).collect();
    if !scopes.is_empty() {
        grant["scope"] = scopes.join(" ").into();
    }
    Some(json!({ "oauth2": grant }))
}

/// Where to get a token for an OAuth2 scheme.
fn oauth2_comment(scheme: &Value) -> String {
    let flow = scheme
        .get("flows")
        .and_then(Value::as_object)
        .and_then(|flows| flows.get("clientCredentials").or_else(|| flows.values().next()));
    let url =
        flow.unwrap_or(scheme).get("tokenUrl").and_then(Value::as_str).unwrap_or("the authorization server");
    let url: String = url.chars().filter(|c| !c.is_control()).take(200).collect();
    format!("The document asks for OAuth2: get a token from {url}.")
}
