//! Secrets in text that was sent or answered: those that are known, and those that only their names tell.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use base::masking::{masked_with, names_secret};

/// Text may be quoted within a quotation: this many times at most.
const ESCAPED_MAX: usize = 3;

/// `"name": "value"` or `name=value`; the end of the value may be missing. Without Unicode's classes, it compiles quickly.
static MEMBERS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(r#""([A-Za-z0-9_.-]+)"[ \t\r\n]*:[ \t\r\n]*"((?:[^"\\]|\\.)*)|([A-Za-z0-9_.-]+)=([^& \t\r\n"'<>;,]+)"#).ok()
});

/// A text that was sent or answered, without secrets: those that are known, and those that their names tell.
#[must_use]
pub fn without_secrets(text: &str, secrets: &[String]) -> String {
    without_named_secrets(&masked_at_every_level(text, secrets))
}

/// Masks secrets also in text that was quoted within a quotation: JSON in JSON, or a program's notation of a text.
fn masked_at_every_level(text: &str, secrets: &[String]) -> String {
    let mut shown = masked_with(text, secrets).into_owned();
    let mut within = unescaped(&shown);
    for _ in 0..ESCAPED_MAX {
        if !within.contains('\\') {
            break;
        }
        let masked = masked_with(&within, secrets).into_owned();
        if masked != within {
            shown.clone_from(&masked);
        }
        within = unescaped(&masked);
    }
    shown
}

/// Without one level of backslashes before quotes and backslashes.
fn unescaped(text: &str) -> String {
    let (mut plain, mut rest) = (String::with_capacity(text.len()), text.chars().peekable());
    while let Some(c) = rest.next() {
        match rest.peek() {
            Some('"' | '\\' | '\'' | '/') if c == '\\' => plain.extend(rest.next()),
            _ => plain.push(c),
        }
    }
    plain
}

/// Hides values whose names are like names of secrets, even if nothing else tells that they are secrets.
#[must_use]
pub fn without_named_secrets(text: &str) -> String {
    let (mut shown, mut at) = (String::with_capacity(text.len()), 0);
    for (span, _) in named_secrets(text) {
        shown.push_str(&text[at..span.start]);
        shown.push_str("***");
        at = span.end;
    }
    shown.push_str(&text[at..]);
    shown
}

/// The places of values whose names are like names of secrets, with these names; in order.
#[must_use]
pub fn named_secrets(text: &str) -> Vec<(Range<usize>, String)> {
    let member = |found: Captures<'_>| {
        let (name, value) = found.get(1).zip(found.get(2)).or(found.get(3).zip(found.get(4)))?;
        // A template only refers to its value.
        let is_secret = names_secret(name.as_str()) && !value.is_empty() && !value.as_str().starts_with("{{");
        is_secret.then(|| (value.range(), name.as_str().to_owned()))
    };
    MEMBERS.iter().flat_map(|members| members.captures_iter(text)).filter_map(member).collect()
}
