//! Why an iteration failed, in a few words and in a clause: where, what was found, what was expected.

use super::document::StyledLine;
use super::texts::capitalised;
use results::model::ErrorClass;

/// The most words of an action's name.
const ACTION_WORDS_MAX: usize = 3;

/// `log in answered 401`, `$.server.status is "BUILD"`.
pub(super) fn in_short(error: &ErrorClass) -> StyledLine {
    let mut line = StyledLine::default();
    if let Some(subject) = &error.subject {
        line.code(subject);
        return match &error.found {
            Some(found) => line.text(" is ").code(unquoted(found)).done(),
            None => line.text(if is_missing(error) { " is missing" } else { " is wrong" }).done(),
        };
    }
    if let Some(action) = &error.action {
        line.text(format!("{} ", first_words(action)));
    }
    let short = match error.class.as_str() {
        "status" => error.message.split(',').next().unwrap_or_default(),
        "timeout" => "timed out",
        "connect" => "could not connect",
        "resolve" => "found no such host",
        "tls" => "failed in TLS",
        "closed" if is_refused(error) => "was refused by the server",
        "closed" if error.message.starts_with("the server ended the request") => "was ended by the server",
        "closed" => "lost its connection",
        "kept_alive_closed" => "lost a connection that was kept alive",
        "protocol" => "got an answer that is not valid HTTP",
        "client" if error.message.starts_with("this machine") => "met a limit of this machine",
        "client" => "met a limit of bench",
        "body_limit" => "got too large a body",
        "redirect" => "could not follow a redirect",
        "target" => "named a host that is no target",
        "request" => "could not be sent",
        "file" => "could not read its file",
        "latency" => error.message.as_str(),
        "extract" => "lacks a value to extract",
        "template" => "could not be rendered",
        "data" => "has no row of data",
        "check" => "failed a check",
        class => class,
    };
    let bare = error.action.is_none();
    line.text(if bare && short == error.class { error.message.as_str() } else { short }).done()
}

/// True if the server refused to process the request: its connection stays.
fn is_refused(error: &ErrorClass) -> bool {
    error.message.starts_with("the server ended the request") && error.message.contains("REFUSED_STREAM")
}

/// The first words of a name, so that what happened has room beside it.
fn first_words(name: &str) -> String {
    let mut words = name.split_whitespace();
    let first: Vec<&str> = words.by_ref().take(ACTION_WORDS_MAX).collect();
    format!("{}{}", first.join(" "), if words.next().is_some() { "…" } else { "" })
}

fn is_missing(error: &ErrorClass) -> bool {
    ["there is no", "the answer has no"].iter().any(|begin| error.message.starts_with(begin))
}

/// ``In `boot`, `$.server.status` is `"BUILD"`, expected `"ACTIVE"` ``; `` `log in` answered 401, expected 200``.
pub(super) fn clause(error: &ErrorClass) -> StyledLine {
    let mut line = StyledLine::default();
    match (&error.subject, &error.action) {
        (Some(subject), action) => {
            if let Some(action) = action {
                line.text("In ").code(action).text(", ");
            }
            line.code(subject);
            match (&error.found, &error.expected) {
                (Some(found), _) => line.text(" is ").code(unquoted(found)),
                (None, _) if is_missing(error) => line.text(" is missing"),
                (None, _) => line.text(" does not hold"),
            };
            if let Some(expected) = &error.expected {
                match expected.strip_prefix("is ") {
                    Some(value) => line.text(", expected ").line(quoted(value)),
                    None => line.text(", expected: it ").line(quoted(expected)),
                };
            }
        }
        (None, Some(action)) => {
            // Most messages follow the name of the action as its verb; others stand for themselves.
            let verb =
                ["answered", "timed out", "slower than"].iter().any(|begin| error.message.starts_with(begin));
            // A service's own words may end as a sentence.
            let message = error.message.trim_end_matches('.');
            line.code(action).text(if verb { " " } else { ": " }).text(message);
            line.text(usual(error));
        }
        (None, None) => {
            line.text(capitalised(&error.message));
        }
    }
    line
}

/// A value as it was quoted, and a JSON string without its quotes if no other kind of value looks like that.
fn unquoted(text: &str) -> &str {
    let text = text.strip_prefix('`').and_then(|text| text.strip_suffix('`')).unwrap_or(text);
    let inner = text.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    let is_clear = |inner: &&str| {
        let other = serde_json::from_str::<serde_json::Value>(inner).is_ok();
        !inner.is_empty() && !inner.contains(['"', '\\']) && !other
    };
    inner.filter(is_clear).unwrap_or(text)
}

/// What is expected of a status if the scenario says nothing.
fn usual(error: &ErrorClass) -> &'static str {
    let is_silent = error.class == "status" && !error.message.contains(", expected ");
    if is_silent { ", expected a status below 400" } else { "" }
}

/// Text with pieces in backquotes as a line with code.
fn quoted(text: &str) -> StyledLine {
    let mut line = StyledLine::default();
    for (number, piece) in text.split('`').enumerate().filter(|(_, piece)| !piece.is_empty()) {
        if number % 2 == 1 {
            line.code(unquoted(piece))
        } else {
            line.text(piece)
        };
    }
    line
}

/// What was found, and what was expected, without markup.
pub(super) fn found_and_expected(error: &ErrorClass) -> (Option<String>, Option<String>) {
    let bare = |text: &str| unquoted(&text.replace('`', "")).to_owned();
    if error.class == "status" {
        // `answered 401, expected 200`, by the check of the status.
        let (answered, expected) = error.message.split_once(", expected ").unzip();
        let found = answered.unwrap_or(&error.message).strip_prefix("answered ").map(str::to_owned);
        return (found, Some(expected.unwrap_or("below 400").to_owned()));
    }
    let expected = error.expected.as_deref().map(|text| bare(text.strip_prefix("is ").unwrap_or(text)));
    (error.found.as_deref().map(bare), expected)
}
