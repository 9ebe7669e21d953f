//! Secrets that would be copied to other machines in clear: in the files of a bundle, or as arguments.

use std::path::Path;

use crate::error::HarnessError;
use base::masking::{is_known, names_secret};
use import::secrets::{is_secret_name, split_scheme};
use text::diagnostics::SourceText;
use text::named_secrets::named_secrets;
use text::yaml::{self, YamlNode, YamlValue};

use super::LaunchOptions;

/// Below this length, the value of a variable also occurs as an ordinary word.
const COPY_BYTES_MIN: usize = 8;

/// What a file of the bundle has that others must not read.
///
/// # Errors
/// It is the file of a secret, or holds one.
pub(super) fn refuse_file(name: &str, bytes: &[u8], values: &[String]) -> Result<(), HarnessError> {
    let Ok(text) = std::str::from_utf8(bytes) else { return Ok(()) };
    let first = text.lines().next().unwrap_or_default().trim_end();
    let what = if !first.is_empty() && is_known(first) {
        "is the file of a secret".to_owned()
    } else {
        let secret = |value: &&String| {
            value.len() >= COPY_BYTES_MIN && is_known(value) && text.contains(value.as_str())
        };
        let Some(value) = values.iter().find(secret) else { return Ok(()) };
        let line = 1 + text.find(value.as_str()).map_or(0, |at| text[..at].matches('\n').count());
        format!("holds a secret in line {line}")
    };
    Err(HarnessError::input(format!("{name} {what}: everybody who may read these files could read it"))
        .remedy("write it as {env: NAME}; each pod gets the value from the Secret that --secret names"))
}

/// The first text of a scenario that is a secret by its place: its keys, and where it begins.
pub(super) fn in_scenario(text: &str) -> Option<(String, usize)> {
    let (root, _) = yaml::parse_all(&SourceText::new("scenario", text));
    found(root.as_ref()?, &mut Vec::new())
}

fn found(node: &YamlNode, keys: &mut Vec<String>) -> Option<(String, usize)> {
    match &node.kind {
        YamlValue::Map(entries) => entries.iter().find_map(|(key, value)| {
            // The default of a reference stands for the value itself.
            let is_default = key.name == "default" && node.get("env").is_some();
            if !is_default {
                keys.push(key.name.clone());
            }
            let inner = found(value, keys);
            if !is_default {
                keys.pop();
            }
            inner
        }),
        YamlValue::List(items) => items.iter().find_map(|item| found(item, keys)),
        YamlValue::Text { text, .. } if is_secret(keys, text) => Some((keys.join("."), node.span.start)),
        _ => None,
    }
}

fn is_secret(keys: &[String], text: &str) -> bool {
    if text.is_empty() || text.contains("{{") || text.contains("{%") {
        return false;
    }
    if has_password(text) {
        return true;
    }
    match keys {
        // What is sent, and variables of any depth.
        [.., name] if names_secret(name) && of_values(keys) => true,
        [.., key] if TEXTS.contains(&key.as_str()) => !named_secrets(text).is_empty(),
        [.., headers, name] if headers == "headers" => {
            let is_checked = keys.iter().any(|key| key == "expect");
            !is_checked && (is_secret_name(name) || !split_scheme(text).0.is_empty())
        }
        _ => false,
    }
}

/// Keys of a step whose text may have secrets by their names: paths, and a body.
const TEXTS: [&str; 9] = ["get", "head", "post", "put", "patch", "delete", "options", "request", "body"];

/// Whether these keys lead to values that are sent or known to templates.
fn of_values(keys: &[String]) -> bool {
    const VALUES: [&str; 6] = ["variables", "json", "form", "query", "multipart", "set"];
    let is_checked = keys.iter().any(|key| key == "expect" || key == "extract");
    !is_checked && keys[..keys.len() - 1].iter().any(|key| VALUES.contains(&key.as_str()))
}

/// Whether a text is a URL with a password.
fn has_password(text: &str) -> bool {
    let authority = |rest: &str| rest.split(['/', '?', '#']).next().unwrap_or_default().to_owned();
    text.split_once("://")
        .is_some_and(|(_, rest)| authority(rest).rsplit_once('@').is_some_and(|(user, _)| user.contains(':')))
}

/// Arguments are part of what is printed.
///
/// # Errors
/// One has a secret.
pub(super) fn refuse_arguments(launch: &LaunchOptions) -> Result<(), HarnessError> {
    for argument in &launch.arguments {
        let mut rest = argument.as_str();
        let mut is_secret = has_password(rest);
        while let Some((_, value)) = rest.split_once('=') {
            is_secret |= !value.is_empty() && is_known(value);
            rest = value;
        }
        if is_secret {
            let name = argument.split('=').next().unwrap_or_default();
            return Err(HarnessError::usage(format!(
                "after `--`: `{name}` gives a secret, which would stand in what is printed"
            ))
            .remedy("let the scenario read it as {env: NAME}, and set that variable on each machine"));
        }
    }
    Ok(())
}

/// The columns of a CSV file that are named as secrets are.
pub(super) fn secret_columns<'t>(name: &str, bytes: &'t [u8]) -> Vec<&'t str> {
    let is_csv = Path::new(name).extension().is_some_and(|end| end.eq_ignore_ascii_case("csv"));
    let text = if is_csv { std::str::from_utf8(bytes).unwrap_or_default() } else { "" };
    let columns = text.lines().next().unwrap_or_default().split([',', ';', '\t']);
    columns.map(|column| column.trim().trim_matches('"')).filter(|column| is_secret_name(column)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_a_scenario_are_found_by_their_place() {
        for (text, expected) in [
            ("variables: { password: abc }", Some("variables.password")),
            ("variables: { token: { env: T, default: abc } }", Some("variables.token")),
            (
                "iteration: [{ get: /, headers: { Authorization: Bearer abc } }]",
                Some("iteration.headers.Authorization"),
            ),
            ("iteration: [{ get: 'http://u:pw@h/' }]", Some("iteration.get")),
            ("variables: { cfg: { db_password: abc } }", Some("variables.cfg.db_password")),
            ("iteration: [{ post: /, json: { api_key: abc } }]", Some("iteration.json.api_key")),
            ("iteration: [{ get: /, query: { access_token: abc } }]", Some("iteration.query.access_token")),
            ("iteration: [{ post: /, form: { password: abc } }]", Some("iteration.form.password")),
            ("iteration: [{ get: '/z?api_key=abc-4711' }]", Some("iteration.get")),
            ("iteration: [{ post: /, body: '{\"password\": \"abc-4711\"}' }]", Some("iteration.body")),
            ("- { get: /, headers: { X-Api-Key: abc } }", Some("headers.X-Api-Key")),
            ("iteration: [{ get: '/z?api_key={{ key }}&n=5' }]", None),
            ("iteration: [{ get: /, expect: { json: { password: abc } } }]", None),
            ("variables: { token: { env: T }, user: abc, secret: '{{ uuid() }}' }", None),
            ("iteration: [{ get: /, headers: { Authorization: 'Bearer {{ token }}' } }]", None),
            ("iteration: [{ get: /, extract: { token: $.token }, json: { password: '{{ pw }}' } }]", None),
            ("iteration: [{ get: /, expect: { headers: { Set-Cookie: a } } }]", None),
        ] {
            assert_eq!(in_scenario(text).map(|(keys, _)| keys).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn columns_are_told_by_their_names() {
        for (name, text, expected) in [
            ("users.csv", "user,password\na,b\n", &["password"][..]),
            ("users.CSV", "\"api_key\";id\n", &["api_key"]),
            ("users.csv", "id\n", &[]),
            ("users.txt", "password\n", &[]),
        ] {
            assert_eq!(secret_columns(name, text.as_bytes()), expected, "{text}");
        }
    }
}
