//! Lines within brackets that are not indented more than the key before them: `hosts: [`, some lines, and `]` in the
//! column of `hosts`. YAML 1.2 forbids them, but PyYAML and the parsers of Go, Ruby and PHP read them, and people write
//! them. So where a text is no YAML because of such a line, it is read again with the line joined to the one before.

use std::borrow::Cow;

/// How many bytes are read again at most, in all: a line costs another pass.
const AGAIN_BYTES_MAX: usize = 32 << 20;

/// What `parse` makes of a text. It gets the text, whose bytes keep their places, and returns the byte at which a line is
/// indented too little, if that is why the text is no YAML.
pub(super) fn parsed<T>(text: &str, parse: impl Fn(&str) -> (Option<usize>, T)) -> T {
    let mut joined = Cow::Borrowed(text);
    let (mut failed_at, mut latest) = parse(text);
    for _ in 0..AGAIN_BYTES_MAX / text.len().max(1) {
        let Some(at) = failed_at else { break };
        let Some(with_one_more) = join(&joined, at) else { break };
        let (next, found) = parse(&with_one_more);
        joined = Cow::Owned(with_one_more);
        (failed_at, latest) = (next.filter(|next| *next > at), found);
    }
    latest
}

/// The text with what begins at `at`, the first on its line, on the line before it. Comments in between become blanks.
/// `None` if it is on the first line.
fn join(text: &str, at: usize) -> Option<String> {
    let mut bytes = text.as_bytes().to_vec();
    let mut line_end = at;
    loop {
        let line_start = bytes[..line_end].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let content = content_end(text.get(line_start..line_end)?);
        bytes[line_start + content..line_end].fill(b' ');
        // The line of `at` itself, and lines with comments only, have none.
        if content > 0 {
            break;
        }
        line_end = line_start.checked_sub(1)?;
        bytes[line_end] = b' ';
    }
    String::from_utf8(bytes).ok()
}

/// Where a line's content ends, without blanks and a comment. A text in quotes over several lines is not known here, so
/// its `#` is taken for a comment's: such a text ends before what is joined to it.
fn content_end(line: &str) -> usize {
    let (mut quote, mut before) = (None, ' ');
    let mut end = 0;
    for (place, c) in line.char_indices() {
        match (quote, c) {
            (Some(open), c) if open == c => quote = None,
            (None, '"' | '\'') if !before.is_alphanumeric() => quote = Some(c),
            (None, '#') if before.is_whitespace() => break,
            _ => {}
        }
        if !c.is_whitespace() {
            end = place + c.len_utf8();
        }
        before = c;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_joins_the_one_before_it_and_every_byte_keeps_its_place() {
        for (text, expected) in [
            ("a: [\n1\n]", Some("a: [\n1 ]")),
            ("a: [\r\n1\r\n]", Some("a: [\r\n1  ]")),
            ("a: [ # ä\n\n  # b\n]", Some("a: [             ]")),
            ("a: [\"x # y\" # z\n]", Some("a: [\"x # y\"     ]")),
            ("a: [it's # z\n]", Some("a: [it's     ]")),
            ("a: [x#y\n]", Some("a: [x#y ]")),
            ("]", None),
            ("\n]", None),
        ] {
            let joined = join(text, text.len() - 1);
            assert_eq!(joined.as_deref(), expected, "{text:?}");
            assert!(joined.is_none_or(|joined| joined.len() == text.len()));
        }
    }
}
