//! Text for a terminal, wrapped at words.

use unicode_width::UnicodeWidthChar;

/// Lines are not wrapped at less than this: so narrow a terminal does it better.
const COLUMNS_MIN: usize = 40;

/// The text in lines of at most `columns`; further lines begin with `indent` blanks. A word that is longer, such as a
/// path, stays whole. Colours have no width. Without `columns`, as for a file or a pipe, the text is unchanged.
#[must_use]
pub fn wrapped(text: &str, columns: Option<usize>, indent: usize) -> String {
    let Some(columns) = columns.map(|columns| columns.max(COLUMNS_MIN)) else { return text.to_owned() };
    let mut shown = String::with_capacity(text.len() + 16);
    let mut used = 0;
    for (number, word) in words(text).into_iter().enumerate() {
        let width = width(word);
        if number > 0 && used > indent && width > 0 && used + 1 + width > columns {
            // Several blanks in a row end the line.
            shown.truncate(shown.trim_end_matches(' ').len());
            shown.push('\n');
            shown.extend(std::iter::repeat_n(' ', indent));
            used = indent;
        } else if number > 0 {
            shown.push(' ');
            used += 1;
        }
        shown.push_str(word);
        used += width;
    }
    shown
}

/// The words of a text; a number and its unit are one.
fn words(text: &str) -> Vec<&str> {
    let (mut words, mut begin) = (Vec::new(), 0);
    for (at, _) in text.match_indices(' ') {
        let before = text[begin..at].ends_with(|c: char| c.is_ascii_digit());
        let next = text[at + 1..].split(' ').next().unwrap_or_default();
        let unit = next.trim_end_matches(['.', ',', ';', ':', ')', '`']);
        if before && UNITS.contains(&unit) {
            continue;
        }
        words.push(&text[begin..at]);
        begin = at + 1;
    }
    words.push(&text[begin..]);
    words
}

const UNITS: [&str; 12] = ["%", "ns", "µs", "ms", "s", "min", "h", "d", "KiB", "MiB", "GiB", "points"];

/// The columns that a text takes, without its colours.
fn width(text: &str) -> usize {
    let (mut columns, mut chars) = (0, text.chars());
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            // To the letter that ends the sequence.
            let _ = chars.find(char::is_ascii_alphabetic);
        } else {
            columns += c.width().unwrap_or(0);
        }
    }
    columns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_words() {
        let long = "x".repeat(60);
        for (text, columns, indent, expected) in [
            ("a b", Some(80), 2, "a b".to_owned()),
            ("", Some(80), 2, String::new()),
            (
                "The quick brown fox jumps over the lazy dog, twice a day",
                Some(44),
                2,
                "The quick brown fox jumps over the lazy dog,\n  twice a day".to_owned(),
            ),
            ("The quick brown fox jumps over the lazy dog, twice a day", None, 2, String::new()),
            (&format!("see {long} now"), Some(40), 0, format!("see\n{long}\nnow")),
            (
                "it takes so much longer than before: 71.5 %, 812 ms",
                Some(42),
                0,
                "it takes so much longer than before:\n71.5 %, 812 ms".to_owned(),
            ),
            ("pass  \u{1b}[32;1mone\u{1b}[0m", Some(40), 6, "pass  \u{1b}[32;1mone\u{1b}[0m".to_owned()),
            (
                "\u{1b}[32;1mfourteen chars\u{1b}[0m 二二二二二二二二二二 end of the line",
                Some(40),
                2,
                "\u{1b}[32;1mfourteen chars\u{1b}[0m 二二二二二二二二二二 end\n  of the line".to_owned(),
            ),
        ] {
            let expected = if columns.is_none() { text.to_owned() } else { expected };
            assert_eq!(wrapped(text, columns, indent), expected, "{text}");
        }
    }
}
