//! Which recorded values are secrets, and the variables that take their place.

use serde_json::{Map, Value, json};

use crate::base::masking::names_secret;
use crate::base::yaml_text::Comments;

/// The variables of a scenario that is being made. Equal secrets share one variable.
#[derive(Debug, Default)]
pub(crate) struct Variables {
    entries: Vec<Entry>,
    /// Names of extracted values.
    reserved: Vec<String>,
}

#[derive(Debug)]
struct Entry {
    name: String,
    /// What the name was made of.
    hint: String,
    value: Value,
    comment: Option<String>,
    /// The secret that it stands for; never written.
    secret: Option<String>,
}

impl Variables {
    /// The variable that stands for a secret. Its value comes from the environment variable of the same name in upper
    /// case.
    pub(crate) fn secret(&mut self, hint: &str, secret: &str) -> String {
        if let Some(known) = self.entries.iter().find(|entry| entry.secret.as_deref() == Some(secret)) {
            return known.name.clone();
        }
        let name = self.free_name(hint);
        let value = json!({ "env": name.to_ascii_uppercase() });
        self.entries.push(Entry {
            name: name.clone(),
            hint: hint.to_owned(),
            value,
            comment: None,
            secret: Some(secret.to_owned()),
        });
        name
    }

    /// The variable that was made of this hint, or a new one with this value.
    pub(super) fn plain(&mut self, hint: &str, value: Value, comment: Option<String>) -> String {
        let known = self.entries.iter().find(|entry| entry.hint == hint && entry.secret.is_none());
        if let Some(known) = known {
            return known.name.clone();
        }
        let name = self.free_name(hint);
        self.entries.push(Entry { name: name.clone(), hint: hint.to_owned(), value, comment, secret: None });
        name
    }

    /// A name for something that is extracted; no other variable gets it.
    pub(super) fn reserve(&mut self, hint: &str) -> String {
        let name = self.free_name(hint);
        self.reserved.push(name.clone());
        name
    }

    fn free_name(&self, hint: &str) -> String {
        let name = variable_name(hint);
        let taken = |name: &str| {
            self.entries.iter().any(|entry| entry.name == name)
                || self.reserved.iter().any(|other| other == name)
        };
        if !taken(&name) {
            return name;
        }
        (2_u32..).map(|n| format!("{name}_{n}")).find(|name| !taken(name)).unwrap_or(name)
    }

    /// The names of the environment variables that must be set, in order.
    pub(crate) fn environment(&self) -> Vec<String> {
        let names = self.entries.iter().filter_map(|entry| entry.value.get("env")?.as_str());
        names.map(str::to_owned).collect()
    }

    /// The value of the key `variables`, and comments on it.
    pub(crate) fn written(&self, comments: &mut Comments) -> Map<String, Value> {
        let mut map = Map::new();
        for entry in &self.entries {
            if let Some(comment) = &entry.comment {
                comments.insert(format!("/variables/{}", entry.name), comment.clone());
            }
            map.insert(entry.name.clone(), entry.value.clone());
        }
        map
    }
}

/// Names that templates use for something else.
const RESERVED: [&str; 29] = [
    "and",
    "auth",
    "cookies",
    "debug",
    "dict",
    "elif",
    "else",
    "false",
    "for",
    "if",
    "in",
    "is",
    "iteration",
    "loop",
    "namespace",
    "none",
    "not",
    "now",
    "or",
    "random_int",
    "range",
    "self",
    "set",
    "trace_id",
    "true",
    "user",
    "users",
    "uuid",
    "workload",
];
const NAME_CHARS_MAX: usize = 40;

/// A name that templates can use: `X-Auth-Token` becomes `x_auth_token`, `orderId` becomes `order_id`.
pub(super) fn variable_name(hint: &str) -> String {
    let mut name = String::new();
    let mut before = ' ';
    for c in hint.chars().take(NAME_CHARS_MAX) {
        if c.is_ascii_alphanumeric() {
            if c.is_ascii_uppercase() && before.is_ascii_lowercase() && !name.is_empty() {
                name.push('_');
            }
            name.push(c.to_ascii_lowercase());
        } else if !name.ends_with('_') && !name.is_empty() {
            name.push('_');
        }
        before = c;
    }
    let name = name.trim_end_matches('_');
    match name {
        "" => "value".to_owned(),
        name if name.starts_with(|c: char| c.is_ascii_digit()) => format!("value_{name}"),
        name if RESERVED.contains(&name) => format!("{name}_value"),
        name => name.to_owned(),
    }
}

/// True if a header, parameter or member of this name probably has a secret as its value.
pub(crate) fn is_secret_name(name: &str) -> bool {
    const WHOLE: [&str; 12] = [
        "pass",
        "pwd",
        "apikey",
        "api_key",
        "key",
        "sig",
        "signature",
        "sessionid",
        "session_id",
        "otp",
        "sid",
        "jsessionid",
    ];
    let plain = variable_name(name);
    WHOLE.contains(&plain.as_str())
        || names_secret(&plain)
        || ["_apikey", "_pwd", "_signature", "accesskey"].iter().any(|end| plain.ends_with(end))
}

/// The scheme of a header such as `Authorization`, with the space after it, and what follows; the scheme is empty if it is
/// none that is known.
pub(crate) fn split_scheme(value: &str) -> (&str, &str) {
    const SCHEMES: [&str; 4] = ["Bearer ", "Basic ", "Token ", "Digest "];
    let scheme = SCHEMES
        .iter()
        .find(|scheme| value.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
    value.split_at(scheme.map_or(0, |scheme| scheme.len()))
}

/// The template for a value that is a secret.
pub(crate) fn secret(variables: &mut Variables, name: &str, value: &str) -> Option<String> {
    if value.is_empty() || !(is_secret_name(name) || is_secret_value(value)) {
        return None;
    }
    let (scheme, rest) = split_scheme(value);
    let hint = if name.eq_ignore_ascii_case("authorization") { "api_token" } else { name };
    Some(format!("{scheme}{{{{ {} }}}}", variables.secret(hint, rest)))
}

/// True if a text is a secret whatever its name: a JSON Web Token, or a key in a form that is widely known.
pub(super) fn is_secret_value(text: &str) -> bool {
    let is_token =
        |text: &str| text.len() >= 16 && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    let jwt = text.starts_with("eyJ") && text.matches('.').count() == 2 && is_token(text);
    jwt || ["ghp_", "gho_", "github_pat_", "xoxb-", "xoxp-", "sk_live_", "sk-", "AKIA"]
        .iter()
        .any(|start| text.starts_with(start) && is_token(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_names_that_templates_can_use() {
        for (hint, expected) in [
            ("X-Auth-Token", "x_auth_token"),
            ("orderId", "order_id"),
            ("URL", "url"),
            ("2fa code", "value_2fa_code"),
            ("iteration", "iteration_value"),
            ("--", "value"),
            ("é", "value"),
        ] {
            assert_eq!(variable_name(hint), expected, "{hint}");
        }
        assert!(variable_name(&"x".repeat(10_000)).len() <= NAME_CHARS_MAX);
    }

    #[test]
    fn secrets_are_told_by_name_or_by_form() {
        for name in
            ["password", "X-Api-Key", "accessToken", "clientSecret", "pwd", "Cookie", "api_key", "apiKey"]
        {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["user", "Accept", "monkey", "page", "Content-Type"] {
            assert!(!is_secret_name(name), "{name}");
        }
        assert!(is_secret_value("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-DEF_123"));
        assert!(!is_secret_value("eyJ is a way to begin a sentence. Yes. No."));
    }

    #[test]
    fn equal_secrets_share_a_variable_and_others_get_names_of_their_own() {
        let mut variables = Variables::default();
        let names = [("token", "a1"), ("Token", "a1"), ("token", "b2")];
        let names = names.map(|(hint, secret)| variables.secret(hint, secret));
        assert_eq!(names, ["token", "token", "token_2"]);
        assert_eq!(variables.environment(), ["TOKEN", "TOKEN_2"]);
        let written = variables.written(&mut Comments::new());
        assert!(!json!(written).to_string().contains("a1"), "{written:?}");
    }
}
