//! Secrets in texts whose form is not stated: bodies without a content type, XML, queries as they were sent.
//!
//! A pair of a name and a value is looked for in the ways in which JSON, XML, forms and lists of settings write one.
//! What looks like a key or a token is taken for one wherever it is.

use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use base::percent;

use super::replace::{Replace, escaped};
use super::secrets::{is_secret, is_secret_value};

/// Longer texts are searched in their beginning only.
const BYTES_MAX: usize = 1 << 20;

/// How a text writes a pair. The first group is the name, a further one the value.
const PAIRS: [&str; 12] = [
    // Lists of settings in JSON.
    r#""(?:name|key|id)"\s*:\s*"([^"]{1,200})"\s*,\s*"value"\s*:\s*"((?:[^"\\]|\\.)+)""#,
    r#""([^"\\]{1,200})"\s*:\s*"((?:[^"\\]|\\.)+)""#,
    r#""([^"\\]{1,200})"\s*:\s*(\d{4,40})\b"#,
    r#"\b([A-Za-z_][\w-]{0,200})\\?"?\s*:\s*\\?"((?:[^"\\]|\\[^"])+)\\?""#,
    r#"\b([A-Za-z_][\w-]{0,200})\s*:\s*'([^'\\]+)'"#,
    // As JavaScript and Python write it.
    r#"'([^'\\]{1,200})'\s*:\s*'((?:[^'\\]|\\.)+)'"#,
    // SQL.
    r#"(?i)\b(password|(?:identified|encrypted) by)\s+'([^']+)'"#,
    // Elements that are named by an attribute.
    r#"\b(?:name|key|id)\s*=\s*["']([^"'<>]{1,200})["'][^<>]*?\bvalue\s*=\s*["']([^"'<>]+)["']"#,
    r#"\b(?:name|key|id)\s*=\s*["']([^"'<>]{1,200})["'][^<>]*>(?:<!\[CDATA\[)?\s*([^<>\]\s][^<>\]]*)"#,
    r#"<(?:[\w.-]+:)?([\w.-]{1,200})(?:\s[^<>]*)?>(?:<!\[CDATA\[)?\s*([^<>\]\s][^<>\]]*)"#,
    r#"\b([\w.:-]{1,200})\s*=\s*(?:"([^"<>]+)"|'([^'<>]+)')"#,
    // A line of settings.
    r#"(?m)^[ \t]*([\w.-]{1,200})[ \t]*:[ \t]+([^\s"'{\[|>][^\r\n]*)"#,
];

/// A pair of a form or a query.
const FORM: &str = r#"(?:^|[?&;\s])([^=&?;\s"'<>]{1,200})=([^&;\s"'<>]+)"#;

/// What is a secret without a name.
const ALONE: [&str; 3] = [
    r"(-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----)",
    r"://[^/\s:@]*:([^/\s@]+)@",
    r"([A-Za-z0-9_./+=-]{16,})",
];

struct Patterns {
    pairs: Vec<Regex>,
    alone: Vec<Regex>,
}

static PATTERNS: LazyLock<Patterns> = LazyLock::new(|| {
    let compiled = |patterns: &[&str]| patterns.iter().filter_map(|one| Regex::new(one).ok()).collect();
    let pairs: Vec<&str> = PAIRS.into_iter().chain([FORM]).collect();
    Patterns { pairs: compiled(&pairs), alone: compiled(&ALONE) }
});

/// A secret in a text: its place and a name for it.
struct SecretMatch {
    place: Range<usize>,
    name: String,
    /// The value as the program that wrote it meant it, if it is percent-encoded.
    decoded: Option<String>,
}

/// The text with templates for its secrets; the rest means itself.
pub(super) fn replaced(text: &str, replace: &mut dyn Replace) -> String {
    let (mut output, mut at) = (String::new(), 0);
    for SecretMatch { place, name, decoded } in secrets(text) {
        let value = decoded.as_deref().unwrap_or(&text[place.clone()]);
        let Some(mut template) = replace.whole(&name, value) else { continue };
        if decoded.is_some() {
            template = template.replace(" }}", " | urlencode }}");
        }
        let mut before = escaped(&text[at..place.start]);
        if before.ends_with('{') {
            before.truncate(before.len() - 1);
            before.push_str("{{ '{' }}");
        }
        output.push_str(&before);
        output.push_str(&template);
        at = place.end;
    }
    output + &escaped(&text[at..])
}

/// The text as it may be shown.
pub(super) fn shown(text: &str) -> String {
    let (mut output, mut at) = (String::new(), 0);
    for SecretMatch { place, .. } in secrets(text) {
        output.push_str(&text[at..place.start]);
        output.push('…');
        at = place.end;
    }
    output + &text[at..]
}

/// In order, without overlaps.
fn secrets(text: &str) -> Vec<SecretMatch> {
    const ALONE_BYTES_MIN: usize = 16;
    if text.len() < ALONE_BYTES_MIN && !text.contains([':', '=', '>']) {
        return Vec::new();
    }
    let end = (0..=BYTES_MAX.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let text = &text[..end];
    let mut all: Vec<SecretMatch> = Vec::new();
    let mut add = |found: SecretMatch| {
        if all
            .iter()
            .all(|known| known.place.end <= found.place.start || found.place.end <= known.place.start)
        {
            all.push(found);
        }
    };
    let last = PATTERNS.pairs.len().saturating_sub(1);
    for (number, pattern) in PATTERNS.pairs.iter().enumerate() {
        let mut from = 0;
        while let Some(groups) = pattern.captures_at(text, from) {
            let value = (2..groups.len()).find_map(|group| groups.get(group));
            let (Some(name), Some(value)) = (groups.get(1), value) else { break };
            // The value may be the name of a pair inside.
            from = name.end();
            let trimmed = value.as_str().trim_end();
            let place = value.start()..value.start() + trimmed.len();
            let plain = |text: &str| String::from_utf8(percent::decode(&text.replace('+', " "))).ok();
            let decoded = plain(trimmed).filter(|decoded| number == last && decoded != trimmed);
            let name = plain(name.as_str()).unwrap_or_default();
            let name =
                name.rsplit(['.', ':', '[']).next().unwrap_or_default().trim_end_matches(']').to_owned();
            if is_secret(&name, decoded.as_deref().unwrap_or(trimmed)) {
                add(SecretMatch { place, name, decoded });
            }
        }
    }
    for (number, pattern) in PATTERNS.alone.iter().enumerate() {
        for groups in pattern.captures_iter(text) {
            let Some(value) = groups.get(1) else { continue };
            let name = ["private_key", "password", "secret"][number.min(2)];
            if number < 2 || is_secret_value(value.as_str()) {
                add(SecretMatch { place: value.range(), name: name.to_owned(), decoded: None });
            }
        }
    }
    all.sort_by_key(|found| found.place.start);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::SecretsOnly;
    use crate::secrets::Variables;

    #[test]
    fn secrets_are_found_however_they_are_written() {
        for (text, expected) in [
            (r#"{"user":"u","password":"hunter-2"}"#, r#"{"user":"u","password":"{{ password }}"}"#),
            (r#"{"password": "a\"b", "n": 1}"#, r#"{"password": "{{ password }}", "n": 1}"#),
            (r#"{"pin":12345,"page":12345}"#, r#"{"pin":{{ pin }},"page":12345}"#),
            (
                r#"[{"name":"password","value":"hunter-2"}]"#,
                r#"[{"name":"password","value":"{{ password }}"}]"#,
            ),
            ("{\"a\":1}\n{\"token\":\"abc\"}", "{\"a\":1}\n{\"token\":\"{{ token }}\"}"),
            (
                r#"mutation { login(user: "u", password: "hunter-2") }"#,
                r#"mutation { login(user: "u", password: "{{ password }}") }"#,
            ),
            (
                "<user>u</user><ns:Password Type=\"text\">hunter-2</ns:Password>",
                "<user>u</user><ns:Password Type=\"text\">{{ password }}</ns:Password>",
            ),
            (
                "<p><![CDATA[x]]></p><secret><![CDATA[hunter-2]]></secret>",
                "<p><![CDATA[x]]></p><secret><![CDATA[{{ secret }}]]></secret>",
            ),
            ("<login user='u' password='hunter-2'/>", "<login user='u' password='{{ password }}'/>"),
            (
                "<add key=\"password\" value=\"hunter-2\"/>",
                "<add key=\"password\" value=\"{{ password }}\"/>",
            ),
            ("<param name=\"password\">hunter-2</param>", "<param name=\"password\">{{ password }}</param>"),
            ("user=u&password=hunter-2&x", "user=u&password={{ password }}&x"),
            ("a=1&user[password]=p%40ss+word", "a=1&user[password]={{ password | urlencode }}"),
            ("{'user': 'u', 'password': 'hunter-2'}", "{'user': 'u', 'password': '{{ password }}'}"),
            ("CREATE USER u IDENTIFIED BY 'hunter-2'", "CREATE USER u IDENTIFIED BY '{{ identified_by }}'"),
            ("ALTER ROLE u WITH PASSWORD 'hunter-2';", "ALTER ROLE u WITH PASSWORD '{{ password }}';"),
            ("UPDATE t SET password = 'hunter-2'", "UPDATE t SET password = '{{ password }}'"),
            ("user: u\npassword: hunter-2\n", "user: u\npassword: {{ password }}\n"),
            ("https://h/x?access_token=abc-def", "https://h/x?access_token={{ access_token }}"),
            ("postgres://u:hunter-2@h/d", "postgres://u:{{ password }}@h/d"),
            ("key ghp_0123456789abcdef0123 here", "key {{ secret }} here"),
            ("{ghp_0123456789abcdef0123}", "{{ '{' }}{{ secret }}}"),
            (
                "grant_type=authorization_code&code=SplxlOBeZQQYbYS6WxSb",
                "grant_type=authorization_code&code={{ code }}",
            ),
            ("country code: DE, {\"code\":\"DE\"}", "country code: DE, {\"code\":\"DE\"}"),
            ("<a href='x'>The password is not here</a>", "<a href='x'>The password is not here</a>"),
            ("a {{ b }} c", "a {{ '{{' }} b }} c"),
        ] {
            let mut variables = Variables::default();
            assert_eq!(replaced(text, &mut SecretsOnly(&mut variables)), expected, "{text}");
        }
        assert_eq!(shown("GET /x?token=abc"), "GET /x?token=…");
    }
}
