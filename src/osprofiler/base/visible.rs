//! Characters that deceive, written out so that they can be seen.
//!
//! The one list of such characters. What a collector, a server or a service says may hold any of them.

use std::borrow::Cow;

/// True for characters that change how the text around them looks, or that cannot be seen at all.
#[must_use]
pub fn is_deceptive(c: char) -> bool {
    match c {
        '\n' | '\t' => false,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{feff}' => true,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => c.is_control(),
    }
}

/// Whether a text has printable ASCII only, as most have, which is soon found.
#[must_use]
pub fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Writes such a character so that it can be seen: `‹U+202E›`.
#[must_use]
pub fn code_point(c: char) -> String {
    format!("‹U+{:04X}›", u32::from(c))
}

/// The text with every deceptive character replaced by its code point.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if is_plain(text) || !text.contains(is_deceptive) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_deceptive(c) {
            shown.push_str(&code_point(c));
        } else {
            shown.push(c);
        }
    }
    Cow::Owned(shown)
}

/// The same on one line: line breaks and tabs become spaces.
#[must_use]
pub fn on_one_line(text: &str) -> String {
    if is_plain(text) {
        return text.to_owned();
    }
    visible(text).replace(['\n', '\t'], " ")
}
