//! The text of a scenario as a run keeps it for the readers of its results: without the secrets that are written in it.
//!
//! What may be secret is decided by the schema ([`super::shown`]) and by names together: a body may hold a secret, and
//! the member of it that is called `password` does. Templates and names of environment variables only refer to values,
//! and stay. What this process knows to be secret is masked once more where the text is stored.

use std::ops::Range;

use base::masking::{MASK, names_secret};
use text::diagnostics::SourceText;
use text::yaml::{self, YamlNode, YamlValue};

/// Bytes of a text that are kept.
pub const BYTES_MAX: usize = 64 << 10;
/// From this length on, a value of letters and digits at random may be a key, whatever its name is.
const KEY_CHARS_MIN: usize = 20;
/// What tells whose secret it is: Keystone's `password` holds the user with it.
const NAMES_OF_WHOSE: [&str; 6] = ["user", "name", "id", "domain", "project", "username"];
/// Headers that hold no secret.
const PUBLIC_HEADERS: [&str; 11] = [
    "accept",
    "accept-encoding",
    "accept-language",
    "cache-control",
    "connection",
    "content-type",
    "host",
    "origin",
    "prefer",
    "sec-websocket-extensions",
    "user-agent",
];

/// The text of a scenario that was read without faults, with `***` for each secret, and at most [`BYTES_MAX`] of it.
#[must_use]
pub fn without_secrets(source: &SourceText) -> String {
    let Some(root) = yaml::parse_all(source).0 else { return String::new() };
    let mut walk = Walk { source, hidden: Vec::new(), texts: Vec::new() };
    walk.node(&root, false, false);
    let Walk { mut hidden, texts, .. } = walk;
    hidden.extend(comments(&source.text, &texts));
    hidden.sort_by_key(|span| (span.start, span.end));
    bounded(&replaced(&source.text, &hidden))
}

struct Walk<'s> {
    source: &'s SourceText,
    hidden: Vec<Range<usize>>,
    /// Where keys and values are; a `#` in one is no comment.
    texts: Vec<Range<usize>>,
}

impl Walk<'_> {
    /// `named`: a name above says that it is secret. `headers`: it is a map of headers or cookies.
    fn node(&mut self, node: &YamlNode, named: bool, headers: bool) {
        match &node.kind {
            YamlValue::Map(entries) => {
                for (key, value) in entries {
                    self.texts.push(key.span.clone());
                    let any_of = |names: &[&str]| names.iter().any(|one| key.name.eq_ignore_ascii_case(one));
                    // The default of a reference to a secret is one.
                    let default = key.name == "default" && node.get("env").is_some();
                    let secret = named && !any_of(&NAMES_OF_WHOSE)
                        || names_secret(&key.name)
                        || headers && !any_of(&PUBLIC_HEADERS)
                        || default;
                    let below = ["headers", "cookies"].contains(&key.name.as_str());
                    self.node(value, secret, below);
                }
            }
            YamlValue::List(items) => items.iter().for_each(|item| self.node(item, named, headers)),
            YamlValue::Text { text, .. } => {
                self.texts.push(node.span.clone());
                if named || looks_like_a_key(text) {
                    self.hide(&node.span);
                }
            }
            YamlValue::Int(_) | YamlValue::Float(_) if named => self.hide(&node.span),
            _ => self.texts.push(node.span.clone()),
        }
    }

    /// Hides the parts of a value that the schema allows to be secret.
    fn hide(&mut self, value: &Range<usize>) {
        let text = &self.source.text;
        // The parser counts the blanks behind a value.
        let written = text[value.clone()].trim_end();
        let quotes = usize::from(written.len() > 1 && written.starts_with(['"', '\'']));
        let value = value.start + quotes..value.start + written.len() - quotes;
        let parts = self.source.shown.secret.iter().map(|secret| {
            let (start, end) = (secret.start.max(value.start), secret.end.min(value.end));
            start..end.max(start)
        });
        let tells = |part: &Range<usize>| {
            let part = text[part.clone()].trim();
            !part.is_empty() && !["Bearer", "Basic", "Token"].contains(&part)
        };
        self.hidden.extend(parts.filter(tells));
    }
}

/// Comments can contain anything: what follows a name like that of a secret is hidden to the end of the line.
fn comments(text: &str, texts: &[Range<usize>]) -> Vec<Range<usize>> {
    let mut hidden = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let is_comment = |at: &usize| {
            let blank = line[..*at].chars().next_back().is_none_or(char::is_whitespace);
            blank && !texts.iter().any(|span| span.contains(&(start + at)))
        };
        let comment = line.match_indices('#').map(|(at, _)| at).find(is_comment);
        if let Some(comment) = comment {
            let words = line[comment..].match_indices([':', '=', ' ']);
            let secret = words.map(|(at, _)| comment + at).find(|at| {
                let name = line[comment..*at].rsplit([' ', '#', '"', '\'', '{', ',', '&', '?']).next();
                let rest = line[at + 1..].trim();
                let scheme = |name: &str| ["Bearer", "Basic"].contains(&name);
                let assigned = !line[*at..].starts_with(' ');
                !rest.is_empty()
                    && name.is_some_and(|name| assigned && names_secret(name) || !assigned && scheme(name))
            });
            hidden.extend(secret.map(|at| start + at + 1..start + line.trim_end().len()));
        }
        start += line.len();
    }
    hidden
}

/// A long text of small and capital letters and digits, without blanks: a key or a token. Ids are none.
fn looks_like_a_key(text: &str) -> bool {
    let any = |class: fn(&char) -> bool| text.chars().any(|c| class(&c));
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+=".contains(c);
    text.len() >= KEY_CHARS_MIN
        && text.chars().all(plain)
        && any(char::is_ascii_digit)
        && any(char::is_ascii_lowercase)
        && any(char::is_ascii_uppercase)
}

/// The text with [`MASK`] for the spans, which are in order and may overlap.
fn replaced(text: &str, hidden: &[Range<usize>]) -> String {
    let (mut kept, mut at) = (String::with_capacity(text.len()), 0);
    for span in hidden {
        if span.end <= at {
            continue;
        }
        // What touches the span before is hidden by the same asterisks.
        if span.start > at || at == 0 {
            kept.push_str(&text[at..span.start]);
            let (before, after) = (text[..span.start].trim_end(), &text[span.end..]);
            // A plain value that begins with an asterisk would be an alias.
            let whole =
                before.ends_with([':', '-', '[', ',']) && after.trim_start_matches(' ').starts_with(ENDS);
            if whole && text[..span.start].ends_with([' ', '[', ',']) {
                kept.extend(["\"", MASK, "\""]);
            } else {
                kept.push_str(MASK);
            }
        }
        at = span.end;
    }
    kept.push_str(&text[at..]);
    kept
}

/// What may follow a value.
const ENDS: [char; 6] = ['\n', '\r', ',', '}', ']', '#'];

/// The first lines, if there is too much.
fn bounded(text: &str) -> String {
    if text.len() <= BYTES_MAX {
        return text.to_owned();
    }
    let end = text[..text.floor_char_boundary(BYTES_MAX)].rfind('\n').map_or(0, |line| line + 1);
    format!("{}# … {} more bytes are not kept\n", &text[..end], text.len() - end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;
    use crate::schema;

    fn kept(text: &str) -> String {
        let source = SourceText::new("s.yaml", text);
        let document = crate::read::<Scenario>(source, &schema::SCENARIO);
        let document = document.unwrap_or_else(|rejected| panic!("{:?}", rejected.faults));
        without_secrets(&document.source)
    }

    fn step(lines: &str) -> String {
        format!(
            "title: t\nrunner: {{ constant: {{ times: 1, concurrency: 1 }} }}\niteration:\n  - get: /\n{lines}"
        )
    }

    #[test]
    fn literal_secrets_are_hidden_and_all_else_stays() {
        for (written, expected) in [
            ("    headers: { X-Auth-Token: hunter2-hunter2 }\n", "    headers: { X-Auth-Token: \"***\" }\n"),
            ("    headers:\n      X-Tenant: abc # why\n", "    headers:\n      X-Tenant: \"***\" # why\n"),
            ("    headers: { accept: text/html }\n", "    headers: { accept: text/html }\n"),
            (
                "    headers: { authorization: \"Bearer {{ auth.token }}\" }\n",
                "    headers: { authorization: \"Bearer {{ auth.token }}\" }\n",
            ),
            (
                "    headers: { authorization: \"Bearer s3cr3t\" }\n",
                "    headers: { authorization: \"***\" }\n",
            ),
            (
                "    headers: { X-Key: \"{{ 'quoted' | upper }}\" }\n",
                "    headers: { X-Key: \"{{ '***' | upper }}\" }\n",
            ),
            (
                "    json: { user: me, password: hunter2, pin: 12, inner: { api_key: [a, b], n: 5 } }\n",
                "    json: { user: me, password: \"***\", pin: 12, inner: { api_key: [\"***\", \"***\"], n: 5 } }\n",
            ),
            (
                "    json: { password: { user: { name: ann, domain: { id: default }, password: demo }, x: y } }\n",
                "    json: { password: { user: { name: ann, domain: { id: default }, password: \"***\" }, x: \"***\" } }\n",
            ),
            ("    json: { password: 12345 }\n", "    json: { password: \"***\" }\n"),
            ("    json: { p: \"{{ password }}\" }\n", "    json: { p: \"{{ password }}\" }\n"),
            ("    json: { blob: Zm9vYmFyQmF6cXV4MTIzNDU2 }\n", "    json: { blob: \"***\" }\n"),
            (
                "    extract: { token: { json: $.access.token } }\n",
                "    extract: { token: { json: $.access.token } }\n",
            ),
            ("    # password: hunter2\n", "    #  password:***\n"),
            ("    # Authorization: Bearer abc\n", ""),
            ("    # curl -H 'X: y' # Bearer abc\n", ""),
            ("    # the password is in the vault\n", "    # the password is in the vault\n"),
            ("    form: { a: \"x # password: y\" }\n", "    form: { a: \"x # password: y\" }\n"),
        ] {
            let shown = kept(&step(written));
            let (text, expected) = (step(written), step(expected));
            if written.starts_with("    # ") && text != expected {
                assert!(!shown.contains("hunter2") && !shown.contains("abc"), "{shown}");
                continue;
            }
            assert_eq!(shown, expected);
            assert!(yaml::parse_all(&SourceText::new("again", shown.as_str())).1.is_empty(), "{shown}");
        }
    }

    #[test]
    fn variables_and_rows_keep_what_is_no_secret() {
        let text = step("")
            + "variables:\n  limit: 50\n  db_password: hunter2\n  given: { env: NAME, default: hunter2 }\n"
            + "data:\n  users: { rows: [{ name: ann, password: hunter2 }] }\n";
        let shown = kept(&text);
        assert!(!shown.contains("hunter2"), "{shown}");
        for part in ["limit: 50", "env: NAME", "name: ann", "db_password: \"***\""] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
    }

    #[test]
    fn a_long_text_is_cut_between_lines() {
        let text = step(&"# a comment of some length\n".repeat(5_000));
        let shown = kept(&text);
        assert!(shown.len() <= BYTES_MAX + 60, "{}", shown.len());
        assert!(shown.ends_with(" more bytes are not kept\n"), "{}", &shown[shown.len() - 80..]);
    }
}
