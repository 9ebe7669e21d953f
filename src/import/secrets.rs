//! Which recorded values are secrets, and the variables that take their place.

use serde_json::{Map, Value, json};

use base::masking::names_secret;
use text::yaml_text::Comments;

/// The variables of a scenario that is being made. Equal secrets share one variable.
#[derive(Debug, Default)]
pub struct Variables {
    entries: Vec<VariableEntry>,
    /// Names of extracted values.
    reserved: Vec<String>,
    /// The names of values that are written as they are, although they might be secrets.
    kept: std::collections::BTreeSet<String>,
}

#[derive(Debug)]
struct VariableEntry {
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
    pub fn secret(&mut self, hint: &str, secret: &str) -> String {
        if let Some(known) = self.entries.iter().find(|entry| entry.secret.as_deref() == Some(secret)) {
            return known.name.clone();
        }
        let name = self.free_name(hint);
        let value = json!({ "env": name.to_ascii_uppercase() });
        self.entries.push(VariableEntry {
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
        self.entries.push(VariableEntry {
            name: name.clone(),
            hint: hint.to_owned(),
            value,
            comment,
            secret: None,
        });
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

    /// Remembers a value that is written as it is, if it might be a secret all the same.
    fn keep(&mut self, name: &str, value: &str) {
        const BYTES_MIN: usize = 8;
        let has = |kind: fn(&char) -> bool| value.chars().any(|c| kind(&c));
        let might_be = value.len() >= BYTES_MIN
            && !has(|c| c.is_whitespace())
            && has(char::is_ascii_digit)
            && has(char::is_ascii_alphabetic);
        if might_be {
            self.kept.insert(if name.is_empty() { "a part of a path" } else { name }.to_owned());
        }
    }

    /// What was written as it is, in a sentence; `shown` hides what is secret in a name.
    pub(super) fn note(&self, shown: fn(&str) -> String) -> Option<String> {
        const NAMED_MAX: usize = 12;
        let named: Vec<String> = self.kept.iter().take(NAMED_MAX).map(|name| shown(name)).collect();
        let more = match self.kept.len().saturating_sub(NAMED_MAX) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        (!named.is_empty()).then(|| {
            format!(
                "these values do not look like secrets and are written as they are: {}{more}; write {{env: NAME}} for one \
                 that is",
                named.join(", ")
            )
        })
    }

    /// The names of the environment variables that must be set, in order.
    pub fn environment(&self) -> Vec<String> {
        let names = self.entries.iter().filter_map(|entry| entry.value.get("env")?.as_str());
        names.map(str::to_owned).collect()
    }

    /// The value of the key `variables`, and comments on it.
    pub fn written(&self, comments: &mut Comments) -> Map<String, Value> {
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
/// How much of a name is looked at.
const NAME_CHARS_READ: usize = 200;

/// A name that templates can use: `X-Auth-Token` becomes `x_auth_token`, `orderId` becomes `order_id`.
pub(super) fn variable_name(hint: &str) -> String {
    let name = snake(hint, NAME_CHARS_MAX);
    match name.as_str() {
        "" => "value".to_owned(),
        name if name.starts_with(|c: char| c.is_ascii_digit()) => format!("value_{name}"),
        name if RESERVED.contains(&name) => format!("{name}_value"),
        _ => name,
    }
}

/// The words of the first characters of a text, in lower case with underscores between them.
fn snake(hint: &str, chars_max: usize) -> String {
    let mut name = String::new();
    let mut before = ' ';
    for c in hint.chars().take(chars_max) {
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
    name.truncate(name.trim_end_matches('_').len());
    name
}

/// True if a header, parameter or member of this name probably has a secret as its value.
pub fn is_secret_name(name: &str) -> bool {
    const WHOLE: [&str; 27] = [
        // SQL: `CREATE USER u IDENTIFIED BY '…'`.
        "identified_by",
        "encrypted_by",
        "pass",
        "pwd",
        "passcode",
        "pin",
        "apikey",
        "api_key",
        "key",
        "sig",
        "signature",
        "session",
        "sessionid",
        "session_id",
        "otp",
        "totp",
        "mfa",
        "sid",
        "jsessionid",
        "assertion",
        "samlresponse",
        "saml_response",
        "code_verifier",
        "authorization_code",
        "auth_code",
        "device_code",
        "user_code",
    ];
    const ENDS: [&str; 16] = [
        "_apikey",
        "_pwd",
        "_pass",
        "_passcode",
        "_signature",
        "accesskey",
        "_session",
        "_sessionid",
        "_session_id",
        "_sid",
        "_otp",
        "_assertion",
        "sessid",
        "verification_code",
        "security_code",
        "_jwt",
    ];
    /// Before `key`, as in `Ocp-Apim-Subscription-Key`.
    const OF_KEYS: [&str; 15] = [
        "api",
        "access",
        "subscription",
        "secret",
        "private",
        "session",
        "account",
        "storage",
        "shared",
        "master",
        "encryption",
        "signing",
        "auth",
        "consumer",
        "functions",
    ];
    let plain = snake(name, NAME_CHARS_READ);
    let of_key = plain.strip_suffix("_key").and_then(|before| before.rsplit('_').next());
    WHOLE.contains(&plain.as_str())
        || names_secret(&plain)
        || ENDS.iter().any(|end| plain.ends_with(end))
        || of_key.is_some_and(|kind| OF_KEYS.contains(&kind))
}

/// True if the value at a place of this name is a secret, by the name or by its form.
pub(super) fn is_secret(name: &str, value: &str) -> bool {
    // `key` may also name what stands beside it.
    if value.is_empty() || name.eq_ignore_ascii_case("key") && is_secret_name(value) {
        return false;
    }
    // A code is one of a login, or of a country.
    let is_code = || {
        const BYTES_MIN: usize = 6;
        let has = |kind: fn(&char) -> bool| value.chars().any(|c| kind(&c));
        let mixed =
            has(char::is_ascii_digit) || has(char::is_ascii_lowercase) && has(char::is_ascii_uppercase);
        name.eq_ignore_ascii_case("code") && value.len() >= BYTES_MIN && mixed && !has(|c| c.is_whitespace())
    };
    is_secret_name(name) || is_secret_value(value) || is_code() || has_credentials(value)
}

/// True for a value that begins with the name of a scheme, whatever the header.
fn has_credentials(value: &str) -> bool {
    const BYTES_MIN: usize = 12;
    let (scheme, rest) = split_scheme(value);
    !scheme.is_empty() && rest.len() >= BYTES_MIN && !rest.contains(char::is_whitespace)
}

/// The scheme of a header such as `Authorization`, with the space after it, and what follows; the scheme is empty if it is
/// none that is known.
pub fn split_scheme(value: &str) -> (&str, &str) {
    const SCHEMES: [&str; 4] = ["Bearer ", "Basic ", "Token ", "Digest "];
    let scheme = SCHEMES
        .iter()
        .find(|scheme| value.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
    value.split_at(scheme.map_or(0, |scheme| scheme.len()))
}

/// The template for a value that is a secret.
pub fn secret(variables: &mut Variables, name: &str, value: &str) -> Option<String> {
    if !is_secret(name, value) {
        variables.keep(name, value);
        return None;
    }
    let (scheme, rest) = split_scheme(value);
    let hint = if name.eq_ignore_ascii_case("authorization") { "api_token" } else { name };
    Some(format!("{scheme}{{{{ {} }}}}", variables.secret(hint, rest)))
}

/// True if a text is a secret whatever its name: a JSON Web Token, a key in a form that is widely known, or one that looks
/// random.
pub(super) fn is_secret_value(text: &str) -> bool {
    const STARTS: [&str; 16] = [
        "ghp_",
        "gho_",
        "ghs_",
        "github_pat_",
        "glpat-",
        "xoxb-",
        "xoxp-",
        "xapp-",
        "sk_live_",
        "sk_test_",
        "rk_live_",
        "sk-",
        "AKIA",
        "ASIA",
        "AIza",
        "SG.",
    ];
    let is_token =
        |text: &str| text.len() >= 16 && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    let jwt = text.starts_with("eyJ") && text.matches('.').count() == 2 && is_token(text);
    jwt || STARTS.iter().any(|start| text.starts_with(start) && is_token(text))
        || text.starts_with("-----BEGIN ") && text.contains("PRIVATE KEY-----")
        || looks_random(text)
}

/// True for a text in which letters in both cases and digits alternate as in no word, number, date or path. Ids that are
/// widely used are none: UUIDs, and up to 31 hexadecimal digits.
fn looks_random(text: &str) -> bool {
    const CHARS_MIN: usize = 20;
    const HEX_MIN: usize = 32;
    let is_part = |c: char| c.is_ascii_alphanumeric() || "-_.~+/=:".contains(c);
    if text.len() < CHARS_MIN || text.len() > 4096 || !text.chars().all(is_part) || is_uuid(text) {
        return false;
    }
    let inner: Vec<char> = text.chars().filter(char::is_ascii_alphanumeric).collect();
    let kind = |c: char| u8::from(c.is_ascii_digit()) + 2 * u8::from(c.is_ascii_uppercase());
    let changes = inner.windows(2).filter(|pair| kind(pair[0]) != kind(pair[1])).count();
    let share = changes as f64 / inner.len().max(1) as f64;
    let has = |which: fn(&char) -> bool| inner.iter().any(which);
    let (lower, upper) = (has(char::is_ascii_lowercase), has(char::is_ascii_uppercase));
    let digits = inner.iter().filter(|c| c.is_ascii_digit()).count();
    if inner.iter().all(char::is_ascii_hexdigit) && !(lower && upper) {
        return inner.len() >= HEX_MIN && share >= 0.25;
    }
    match lower && upper {
        true => inner.len() >= CHARS_MIN && share >= 0.42,
        false => inner.len() >= CHARS_MIN && digits >= 3 && share >= 0.25,
    }
}

/// True for a UUID.
pub(super) fn is_uuid(text: &str) -> bool {
    text.len() == 36 && uuid::Uuid::try_parse(text).is_ok()
}

/// Headers whose values look random and are none of their sender's secrets.
pub(super) fn is_public_header(name: &str) -> bool {
    const PUBLIC: [&str; 18] = [
        "if-none-match",
        "if-match",
        "traceparent",
        "tracestate",
        "b3",
        "baggage",
        "sentry-trace",
        "x-request-id",
        "x-correlation-id",
        "x-amzn-trace-id",
        "x-cloud-trace-context",
        "x-amz-content-sha256",
        "content-md5",
        "content-type",
        "idempotency-key",
        "user-agent",
        "accept",
        "accept-language",
    ];
    let lower = name.to_ascii_lowercase();
    PUBLIC.contains(&lower.as_str())
        || ["x-b3-", "sec-", "x-datadog-"].iter().any(|start| lower.starts_with(start))
        || lower.ends_with("digest")
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
        for name in [
            "password",
            "X-Api-Key",
            "accessToken",
            "clientSecret",
            "pwd",
            "Cookie",
            "api_key",
            "apiKey",
            "client_assertion",
            "X-Session",
            "X-Session-Id",
            "Ocp-Apim-Subscription-Key",
            "PHPSESSID",
            "ASP.NET_SessionId",
            "x-functions-key",
            &format!("{}_password", "x".repeat(60)),
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["user", "Accept", "monkey", "page", "Content-Type"] {
            assert!(!is_secret_name(name), "{name}");
        }
        assert!(is_secret_value("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc-DEF_123"));
        assert!(!is_secret_value("eyJ is a way to begin a sentence. Yes. No."));
        for text in [
            "SplxlOBeZQQYbYS6WxSb",
            "dXNlcjpwYXNzd29yZA9k2Lx0Qz",
            "9f86d081884c7d659a2feaa0c55ad015",
            "123456789:AAF-k2Lx0QzPq81ZbVnTyUe4rWs7dCx5v",
            "k3j4h5k2j3h4k5j2h3k4j5h2",
            "-----BEGIN PRIVATE KEY-----\nx",
        ] {
            assert!(is_secret_value(text), "{text}");
        }
        for text in [
            "550e8400-e29b-41d4-a716-446655440000",
            "2024-11-26T10:00:00.000+01:00",
            "a-long-title-of-a-page-2024",
            "507f1f77bcf86cd799439011",
            "getUserAccountSettingsById",
            "application/vnd.example.v2+json",
            "http://schemas.xmlsoap.org/soap/envelope/",
            "12345678901234567890",
            "Order-2024-Report-Q3-Final",
            "api/v1/Users/2024/Q3/Reports",
            "product12345678901234567",
        ] {
            assert!(!is_secret_value(text), "{text}");
        }
        for (name, value, expected) in [
            ("code", "4/0AX4XfWhabc", true),
            ("code", "123456", true),
            ("code", "DE", false),
            ("code", "EUR", false),
            ("code", "a phrase of words", false),
            ("X-Forwarded-Auth", "Bearer abcdef-12345", true),
            ("plan", "Basic plan", false),
        ] {
            assert_eq!(is_secret(name, value), expected, "{name} {value}");
        }
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
