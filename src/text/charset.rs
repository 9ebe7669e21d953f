//! Texts whose bytes may be in another character set than UTF-8: bodies and header fields of answers, documents.
//!
//! A byte order mark counts most, then the `charset` of `Content-Type` (WHATWG Encoding, "decode"), then UTF-8. This is the
//! only file that uses encoding_rs.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// The text of a body. What is no character in its set becomes U+FFFD.
#[must_use]
pub fn text<'a>(body: &'a [u8], content_type: Option<&str>) -> Cow<'a, str> {
    declared(content_type).unwrap_or(UTF_8).decode(body).0
}

/// The text of a body of JSON if it is not UTF-8 without a mark; `None` if it is. JSON is UTF-8 (RFC 8259, section 8.1),
/// so another set counts only for what is none.
#[must_use]
pub fn json_text<'a>(body: &'a [u8], content_type: Option<&str>) -> Option<Cow<'a, str>> {
    if has_mark(body) {
        return Some(UTF_8.decode(body).0);
    }
    let other = declared(content_type).filter(|declared| *declared != UTF_8)?;
    // UTF-16 of plain letters is valid UTF-8, with zeros between them.
    let is_none = std::str::from_utf8(body).is_err() || body.contains(&0);
    is_none.then(|| other.decode(body).0)
}

/// True if a body begins with a byte order mark, or may do so.
#[must_use]
pub fn has_mark(body: &[u8]) -> bool {
    Encoding::for_bom(body).is_some()
}

/// The text of a header's value or a cookie's: UTF-8, or else Latin-1, which fields were in first (RFC 9110, section 5.5).
#[must_use]
pub fn of_field(value: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(value) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => WINDOWS_1252.decode_without_bom_handling(value).0,
    }
}

/// The character set that a content type states, if there is such a set.
fn declared(content_type: Option<&str>) -> Option<&'static Encoding> {
    let parameters = content_type?.split(';').skip(1);
    let charset = parameters.filter_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        name.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches(['"', '\'']))
    });
    charset.filter_map(|label| Encoding::for_label(label.as_bytes())).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_read_in_its_set() {
        for (body, content_type, expected) in [
            (&b"caf\xc3\xa9"[..], None, "café"),
            (b"caf\xc3\xa9", Some("text/plain; charset=utf-8"), "café"),
            (b"caf\xe9", Some("text/plain; charset=iso-8859-1"), "café"),
            (b"caf\xe9", Some("text/html;level=1; CHARSET=\"Windows-1252\""), "café"),
            (b"\x93\xfa\x96\x7b", Some("text/html; charset=Shift_JIS"), "日本"),
            (b"\xff\xfec\0a\0f\0\xe9\0", Some("text/plain; charset=utf-16"), "café"),
            (b"\xfe\xff\0c\0a\0f\0\xe9", Some("text/plain; charset=utf-16"), "café"),
            (b"c\0a\0f\0\xe9\0", Some("text/plain; charset=utf-16le"), "café"),
            // A mark counts more than what is stated, and is no part of the text.
            (b"\xef\xbb\xbfcaf\xc3\xa9", Some("text/plain; charset=iso-8859-1"), "café"),
            (b"caf\xe9", None, "caf\u{fffd}"),
            (b"caf\xe9", Some("text/plain; charset=no-such"), "caf\u{fffd}"),
            (b"caf\xe9", Some("text/plain; charset"), "caf\u{fffd}"),
            (b"", Some("charset=utf-16"), ""),
        ] {
            assert_eq!(text(body, content_type), expected, "{body:?} {content_type:?}");
        }
    }

    #[test]
    fn json_is_utf_8_unless_it_cannot_be() {
        let latin = Some("application/json; charset=ISO-8859-1");
        for (body, content_type, expected) in [
            (&b"[\"caf\xc3\xa9\"]"[..], None, None),
            // Many services state a set that their JSON is not in.
            (b"[\"caf\xc3\xa9\"]", latin, None),
            (b"[\"caf\xe9\"]", latin, Some("[\"café\"]")),
            (b"[\"caf\xe9\"]", None, None),
            (b"\xef\xbb\xbf[1]", None, Some("[1]")),
            (b"\xff\xfe[\x001\0]\0", None, Some("[1]")),
            (b"[\x001\0]\0", Some("application/json; charset=utf-16le"), Some("[1]")),
        ] {
            assert_eq!(json_text(body, content_type).as_deref(), expected, "{body:?} {content_type:?}");
        }
    }

    #[test]
    fn fields_are_utf_8_or_latin_1() {
        for (value, expected) in [(&b"a"[..], "a"), (b"\xc3\xa9", "é"), (b"\xe9", "é"), (b"", "")] {
            assert_eq!(of_field(value), expected);
        }
    }
}
