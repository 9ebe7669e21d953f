//! Characters that deceive, written out so that they can be seen, and text made safe to print.
//!
//! The one list of such characters. What a collector, a server or a service says may hold any of them. Reports write them
//! out ([`visible`]). In addition, [`for_terminal`] cleans all output to a terminal or a CI log.

use std::borrow::Cow;

use crate::parallel;

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

/// Text that is safe for a terminal or a CI log: without control characters, and without lines that a CI system reads
/// as commands. With `colours`, bench's own colours stay.
#[must_use]
pub fn for_terminal(text: &str, colours: bool) -> String {
    let ranges = parallel::lines(text, BYTES_OF_THREAD_MIN);
    let parts = parallel::map(ranges, |range| lines_for_terminal(&text[range], colours));
    parts.concat()
}

/// Less text than this is not worth a thread.
const BYTES_OF_THREAD_MIN: usize = 1 << 20;

fn lines_for_terminal(text: &str, colours: bool) -> String {
    let mut shown = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        // Lines in a file may end in CR LF.
        let line = line.strip_suffix('\r').unwrap_or(line);
        push_line(line, colours, &mut shown);
        shown.push_str(end);
    }
    shown
}

fn push_line(line: &str, colours: bool, shown: &mut String) {
    let begin = shown.len();
    // What needs no change is copied in one piece.
    let mut copied = 0;
    let mut skipped = 0;
    for (at, c) in line.char_indices() {
        if at < skipped || matches!(c, ' '..='~') || !is_deceptive(c) {
            continue;
        }
        if let Some(length) = if colours && c == '\u{1b}' { colour_len(&line[at..]) } else { None } {
            skipped = at + length;
            continue;
        }
        shown.push_str(&line[copied..at]);
        shown.push_str(&code_point(c));
        copied = at + c.len_utf8();
    }
    shown.push_str(&line[copied..]);
    defuse(begin, shown);
}

/// Breaks up commands of GitHub (`::error::`, `##[error]`) and Azure (`##vso[…]`) in the line that begins at `begin`.
fn defuse(begin: usize, shown: &mut String) {
    let line = &shown[begin..];
    let words = line.trim_start();
    if words.starts_with("::") {
        let colon = begin + (line.len() - words.len()) + 1;
        shown.insert(colon, ' ');
    }
    while let Some(at) = command_at(&shown[begin..]) {
        shown.insert(begin + at + 2, ' ');
    }
}

fn command_at(line: &str) -> Option<usize> {
    ["##[", "##vso["].iter().filter_map(|command| line.find(command)).min()
}

/// The length of a colour sequence at the beginning of `text`, if bench itself uses it: no hidden or inverted text, no
/// background.
fn colour_len(text: &str) -> Option<usize> {
    let after = text.strip_prefix("\u{1b}[")?;
    let end = after.find('m').filter(|end| *end <= 12)?;
    let harmless = |number: &str| {
        matches!(number, "" | "0" | "1" | "2" | "3" | "4" | "22" | "39")
            || number.len() == 2 && number.starts_with(['3', '9']) && number.ends_with(|c: char| c < '8')
    };
    let parameters = &after[..end];
    let indexed = parameters.strip_prefix("38;5;").is_some_and(|colour| colour.parse::<u8>().is_ok());
    (indexed || parameters.split(';').all(harmless)).then_some("\u{1b}[".len() + end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        for (text, expected) in [
            ("plain ä\ttab\nline", "plain ä\ttab\nline"),
            ("a\u{1b}[2Jb", "a‹U+001B›[2Jb"),
            ("\u{1b}]52;c;eA==\u{7}", "‹U+001B›]52;c;eA==‹U+0007›"),
            ("\u{9b}31m \u{202e}x \0", "‹U+009B›31m ‹U+202E›x ‹U+0000›"),
            ("a\rb\r\n", "a‹U+000D›b\n"),
            ("::error::x", ": :error::x"),
            ("  \t::set-output name=a::b", "  \t: :set-output name=a::b"),
            ("a ::error::x", "a ::error::x"),
            ("x\n::stop-commands::y", "x\n: :stop-commands::y"),
            ("a ##[error]x ##vso[task.x]y ###[z]", "a ## [error]x ## vso[task.x]y ### [z]"),
            ("\u{1b}[31mred\u{1b}[0m", "‹U+001B›[31mred‹U+001B›[0m"),
        ] {
            assert_eq!(for_terminal(text, false), expected, "{text:?}");
        }
    }

    #[test]
    fn only_colours_that_bench_uses_stay() {
        for (text, stays) in [
            ("\u{1b}[1m\u{1b}[91mx\u{1b}[0m", true),
            ("\u{1b}[38;5;9mx\u{1b}[39m", true),
            ("\u{1b}[1;32mx\u{1b}[m", true),
            ("\u{1b}[8mhidden", false),
            ("\u{1b}[7minverse", false),
            ("\u{1b}[41mground", false),
            ("\u{1b}[2Jclear", false),
            ("\u{1b}[999999999999999999999m", false),
            ("\u{1b}", false),
        ] {
            assert_eq!(for_terminal(text, true) == text, stays, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn nothing_that_a_terminal_or_ci_obeys_gets_through(text in "(::|##|\\[|vso|\r|\n|\u{1b}|\u{9b}|\u{202e}| |[a-z]|\\PC){0,40}", colours: bool) {
            let shown = for_terminal(&text, colours);
            let obeyed = |c: char| matches!(c, '\r' | '\u{9b}' | '\u{202e}') || c == '\u{1b}' && !colours;
            let commands = shown.contains("##[") || shown.contains("##vso[");
            let first = shown.lines().any(|line| line.trim_start().starts_with("::"));
            prop_assert!(!shown.contains(obeyed) && !commands && !first, "{:?}", shown);
        }
    }
}
