//! What a terminal gets of a command's product, such as JSON or CSV: whole lines, without what it would obey.
//!
//! Services choose many of the texts in a product. A file or a pipe gets them as they are; a terminal would run control
//! characters and turn directions. In JSON such a character is written as an escape sequence, which means the same;
//! elsewhere it is written out.

use std::fmt::Write as _;

use base::visible::{for_terminal, is_deceptive};

/// Whether a text is JSON of bench's own: an object, or one for each line.
#[must_use]
pub fn is_json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// Gathers a product's bytes until a line ends, so that no character is cut.
#[derive(Debug, Default)]
pub struct LineBuffer {
    begun: Vec<u8>,
    is_json: Option<bool>,
}

impl LineBuffer {
    /// The lines that end with these bytes, as they may be shown.
    pub fn ended_by(&mut self, bytes: &[u8]) -> String {
        let before = self.begun.len();
        self.begun.extend_from_slice(bytes);
        let Some(last) = bytes.iter().rposition(|byte| *byte == b'\n') else { return String::new() };
        let ended: Vec<u8> = self.begun.drain(..=before + last).collect();
        self.shown(&ended)
    }

    /// The last line, which nothing ended.
    pub fn rest(&mut self) -> String {
        let rest = std::mem::take(&mut self.begun);
        self.shown(&rest)
    }

    fn shown(&mut self, bytes: &[u8]) -> String {
        let text = String::from_utf8_lossy(bytes);
        let is_json = *self.is_json.get_or_insert_with(|| is_json(&text));
        if is_json { escaped(&text) } else { for_terminal(&text, false) }
    }
}

/// JSON with the same meaning: such characters can be only within its strings.
fn escaped(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        if !is_deceptive(c) {
            shown.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            // Writing to a text cannot fail.
            let _ = write!(shown, "\\u{unit:04x}");
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is shown of a product that comes in pieces of this size.
    fn shown(product: &str, size: usize) -> String {
        let mut lines = LineBuffer::default();
        let mut shown: String = product.as_bytes().chunks(size).map(|piece| lines.ended_by(piece)).collect();
        shown.push_str(&lines.rest());
        shown
    }

    #[test]
    fn a_terminal_gets_nothing_that_it_obeys() {
        for (product, expected) in [
            ("{\"a\":\"\u{9b}31m\u{202e}ä\"}\n", "{\"a\":\"\\u009b31m\\u202eä\"}\n"),
            ("{\"a\":\n\"\u{7f}\u{e0041}\"}", "{\"a\":\n\"\\u007f\\udb40\\udc41\"}"),
            ("{\"a\":1}\n{\"a\":\"\u{200b}::error::\"}\n", "{\"a\":1}\n{\"a\":\"\\u200b::error::\"}\n"),
            ("a,b\n\u{1b}[2J,ö\n::error::x\n", "a,b\n‹U+001B›[2J,ö\n: :error::x\n"),
            ("<p>\u{9b}x", "<p>‹U+009B›x"),
            ("", ""),
        ] {
            for size in [1, 2, 3, 7, 1000] {
                assert_eq!(shown(product, size), expected, "{product:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn escaped_json_means_the_same() {
        let text: String = (0..0x3000).chain(0xe0000..0xe0080).filter_map(char::from_u32).collect();
        let json = serde_json::json!({ "a": text }).to_string();
        let shown = shown(&json, 64);
        assert!(!shown.contains(is_deceptive));
        let read: serde_json::Value = serde_json::from_str(&shown).unwrap();
        assert_eq!(read["a"], text);
    }
}
