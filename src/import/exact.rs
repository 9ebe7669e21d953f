//! What a step sends in other bytes than were recorded, though it means the same: each import says so.

use text::digits;

use super::request::{Body, FORM, RecordedRequest, encoded, essence, form_pairs, is_json, json_body};

/// Notes about a request; `by` is who sent the recorded bytes, such as `curl sends`.
pub(super) fn notes(recorded: &RecordedRequest, by: &str) -> Vec<String> {
    let mut notes = Vec::new();
    // As the client's path and query are written.
    let is_kept = |c: char| c.is_ascii_graphic() && !"\"<>\\^`{|}#".contains(c);
    if let Some(c) = recorded.path.chars().find(|c| !is_kept(*c)) {
        notes.push(format!("`{c}` in a path or a query is sent percent-encoded; {by} it as it is"));
    }
    let Body::Text(text, content_type) = &recorded.body else { return notes };
    let essence = essence(content_type.as_deref().unwrap_or_default());
    if essence == FORM
        && let Some(pairs) = form_pairs(text)
        && encoded(&pairs) != *text
    {
        let differs = encoded(&pairs);
        let at = differs.chars().zip(text.chars()).take_while(|(a, b)| a == b).count();
        let plain = text.chars().nth(at).filter(|c| !c.is_ascii_alphanumeric());
        let seen = plain.map_or_else(String::new, |c| format!(" (first at `{c}`)"));
        notes.push(format!(
            "the form is encoded differently{seen} than {by} it; both mean the same, and `body` keeps the original bytes"
        ));
    }
    if is_json(&essence) && json_body(text).is_some_and(|value| digits::to_text(&value) != *text) {
        notes.push(format!(
            "a JSON body is sent without the blanks and escapes that it does not need; {by} them, which means the same \
             (`body` sends its bytes)"
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_in_other_bytes_is_noted() {
        let (json, form) = ("application/json; charset=utf-8", FORM);
        for (path, body, expected) in [
            ("/a?b=c", None, ""),
            ("/a[1]?b='c'(d)*,:@/?$!~;e", None, ""),
            ("/%7Ba%7d?b=%20+", None, ""),
            ("/{a}", None, "`{` in a path"),
            ("/a?b=c|d", None, "`|` in a path"),
            ("/\u{fc}", None, "`\u{fc}` in a path"),
            ("/", Some(("a=b&c=d%20e", form)), ""),
            ("/", Some(("a=b&c=d+e", form)), "the form is encoded differently (first at `+`)"),
            ("/", Some(("a=b@c", form)), "the form is encoded differently (first at `@`)"),
            ("/", Some(("a=%c3%a4", form)), "the form"),
            ("/", Some(("{\"a\": 1}", form)), ""),
            ("/", Some(("a=b@c", "text/plain")), ""),
            ("/", Some(("{\"a\":1.50,\"b\":[1,\"c: d\"]}", json)), ""),
            ("/", Some(("{\"a\": 1}", json)), "a JSON body"),
            ("/", Some(("{\"a\":\"\\/\"}", json)), "a JSON body"),
            ("/", Some(("{\"a\":1,\"a\": 2}", json)), ""),
            ("/", Some(("{", json)), ""),
        ] {
            let body =
                body.map(|(text, mime): (&str, &str)| Body::Text(text.to_owned(), Some(mime.to_owned())));
            let body = body.unwrap_or_default();
            let notes = notes(
                &RecordedRequest { path: path.to_owned(), body, ..RecordedRequest::default() },
                "curl sends",
            )
            .join("\n");
            assert!(
                notes.starts_with(expected) && notes.is_empty() == expected.is_empty(),
                "{path}: {notes}"
            );
        }
    }
}
