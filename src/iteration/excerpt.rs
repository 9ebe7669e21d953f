//! The beginning of an answer's body, fit to be stored beside a failure and shown.

use base::masking::masked_with;
use base::visible::on_one_line;
use client::BEGINNING_BYTES;
use text::named_secrets::without_secrets;
use text::template::Variables;

/// A quote has at most this many characters.
const CHARS_MAX: usize = 200;
/// At the end of a beginning, a secret may be cut, so that it is not recognised. This many characters are not shown.
const CUT_CHARS: usize = 512;

/// A message quotes at most this many characters.
const QUOTE_CHARS: usize = 80;

/// Quotes a rendered text without its secrets. Masks before cutting.
pub(super) fn quote(text: &str, variables: &Variables) -> String {
    // The quotes let masking find a short secret that is the whole text.
    let quoted = format!("`{text}`");
    let shown = masked_with(&quoted, &variables.secrets());
    short(&shown[1..shown.len() - 1])
}

pub(super) fn short(text: &str) -> String {
    let short: String = text.chars().take(QUOTE_CHARS).collect();
    if short.len() < text.len() { format!("`{short}…`") } else { format!("`{short}`") }
}

/// The beginning of a body, without secrets, on one line. `body` may be a beginning itself; `bytes` is the length of the
/// whole.
pub(super) fn excerpt(body: &[u8], bytes: u64, secrets: &[String]) -> Option<String> {
    if body.is_empty() {
        return None;
    }
    let part = &body[..body.len().min(BEGINNING_BYTES)];
    let is_cut = (part.len() as u64) < bytes;
    let valid = match std::str::from_utf8(part) {
        Ok(text) => text,
        // The cut may be within a character.
        Err(error) if is_cut && part.len() - error.valid_up_to() < 4 => {
            std::str::from_utf8(&part[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return Some(format!("({bytes} bytes that are no text)")),
    };
    if valid.contains('\0') {
        return Some(format!("({bytes} bytes that are no text)"));
    }
    let mut masked = without_secrets(valid, secrets);
    if is_cut {
        let kept = masked.chars().count().saturating_sub(CUT_CHARS);
        masked = masked.chars().take(kept).collect();
    }
    let words: Vec<&str> = masked.split_whitespace().collect();
    let line = on_one_line(&words.join(" "));
    let short: String = line.chars().take(CHARS_MAX).collect();
    Some(if is_cut || short.len() < line.len() { format!("{short}…") } else { short })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_a_body_is_shown_without_secrets_and_on_one_line() {
        let (long, short) = ("ab ".repeat(100), format!("{}ab…", "ab ".repeat(66)));
        let secrets = ["s3cr3t-of-mine".to_owned(), r#"a s3cr3t "twice" quoted"#.to_owned()];
        for (body, expected) in [
            ("{\n  \"error\": \"who are you\"\n}", "{ \"error\": \"who are you\" }"),
            ("you sent s3cr3t-of-mine.", "you sent ***."),
            (r#"{"e": "Some(\"a s3cr3t \\\"twice\\\" quoted\")"}"#, r#"{"e": "Some("***")"}"#),
            (r#"{"access_token": "abc\"def", "n": "1"}"#, r#"{"access_token": "***", "n": "1"}"#),
            (r#"{"token": "cut of"#, r#"{"token": "***"#),
            ("user=a&password=hunter2&x=1", "user=a&password=***&x=1"),
            ("/items?token={{ token }}&token=x", "/items?token={{ token }}&token=***"),
            ("a\u{202e}b\u{1b}[0m", "a‹U+202E›b‹U+001B›[0m"),
            ("a\0b", "(3 bytes that are no text)"),
            (&long, &short),
        ] {
            let shown = excerpt(body.as_bytes(), body.len() as u64, &secrets).unwrap();
            assert_eq!(shown, expected, "{body}");
        }
        assert_eq!(excerpt(b"", 0, &secrets), None);
        assert_eq!(excerpt(b"\xff\xfe", 2, &[]).unwrap(), "(2 bytes that are no text)");
    }

    #[test]
    fn a_secret_of_a_row_is_hidden_in_base64_and_hexadecimal() {
        let mut variables = Variables::new(std::sync::Arc::default());
        variables.hide(vec![text::template::Value::from("hunter-two-and-three")]);
        for text in [
            "x hunter-two-and-three",
            "x aHVudGVyLXR3by1hbmQtdGhyZWU=",
            "x 68756e7465722d74776f2d616e642d7468726565",
        ] {
            let shown = quote(text, &variables);
            assert!(shown.starts_with("`x ***"), "{text}: {shown}");
        }
    }

    #[test]
    fn a_secret_at_the_cut_is_not_shown() {
        let secret = "k".repeat(300);
        let body = format!("{} {secret}", "x".repeat(BEGINNING_BYTES - 100));
        let shown = excerpt(&body.as_bytes()[..BEGINNING_BYTES], body.len() as u64, &[secret]).unwrap();
        assert!(!shown.contains('k') && shown.ends_with('…'), "{shown}");
        let umlauts = "ü".repeat(BEGINNING_BYTES);
        let shown = excerpt(&umlauts.as_bytes()[..BEGINNING_BYTES - 1], umlauts.len() as u64, &[]).unwrap();
        assert_eq!(shown.chars().count(), CHARS_MAX + 1);
    }
}
