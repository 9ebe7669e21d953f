//! How an API authenticates, as the deployment says it.

use serde_json::{Map, Value, json};

use crate::import::Draft;

use super::document::Document;

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
    pub(super) fn read(document: &Document, draft: &mut Draft) -> Self {
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
            security.apply(scheme, draft);
        }
        if schemes.len() > 1 {
            let names: Vec<&str> = schemes.keys().map(String::as_str).take(10).collect();
            draft
                .notes
                .push(format!("of the document's ways to authenticate ({}), one is used", names.join(", ")));
        }
        security
    }

    fn apply(&mut self, scheme: &Value, draft: &mut Draft) {
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
            ("oauth2", _) => {
                let done = auth(bearer(), &["API_TOKEN"]);
                draft.deployment_comments.insert("/auth".into(), oauth2_comment(scheme));
                done
            }
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
            _ => {
                draft.environment.push("API_KEY".into());
                draft.deployment.insert("headers".into(), json!({ name: { "env": "API_KEY" } }));
            }
        }
        false
    }
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
