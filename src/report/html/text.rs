//! The formats of durations, counts and shares, and outside text made safe to display.
//!
//! The template escapes HTML and `island` escapes JSON: no markup is made here.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::LazyLock;

use regex::Regex;

pub(super) use crate::words::{code_point, duration, is_deceptive, visible};

/// A number, perhaps negative, and its unit.
static FIGURES: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(-?)\b(\d[\d.,]*) (%|(?:ns|µs|ms|s|min|h|B|kB|MB|GB|TB)\b)").ok());

/// The text with a space that does not break between each figure and its unit, and with minus signs for hyphens.
pub(super) fn typeset(text: &str) -> Cow<'_, str> {
    let Some(figures) = FIGURES.as_ref() else { return Cow::Borrowed(text) };
    figures.replace_all(text, |found: &regex::Captures<'_>| {
        let at = found.get(0).map_or(0, |whole| whole.start());
        // The hyphen of a range or of a word is none.
        let begins = text[..at].chars().next_back().is_none_or(|c| c.is_whitespace() || c == '(');
        let sign = if &found[1] == "-" && begins { "−" } else { &found[1] };
        format!("{sign}{}\u{a0}{}", &found[2], &found[3])
    })
}

/// The first `chars_max` characters of a text, with `…` where more would follow.
pub(super) fn shortened(text: &str, chars_max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(chars_max) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
    }
}

/// A count with its thousands apart: `1,234,567`.
pub(super) fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// `1 iteration`, `2 iterations`.
pub(super) fn counted(number: u64, noun: &str) -> String {
    let mut shown = count(number);
    let _ = write!(shown, " {noun}{}", if number == 1 { "" } else { "s" });
    shown
}

/// A share of 0 to 1 as `87 %`, `1.2 %`, `0.03 %`.
pub(super) fn percent(share: f64) -> String {
    let value = share * 100.0;
    let decimals = match value {
        v if v == 0.0 || v >= 9.95 => 0,
        v if v >= 0.995 => 1,
        _ => 2,
    };
    format!("{value:.decimals$} %")
}

/// Events a second, in about three digits.
pub(super) fn rate(per_s: f64) -> String {
    if per_s >= 999.5 {
        return count(per_s.round() as u64);
    }
    let decimals = match per_s {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{per_s:.decimals$}")
}

/// A plain number in about three digits.
pub(super) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 999.5 => {
            let sign = if value < 0.0 { "-" } else { "" };
            format!("{sign}{}", count(size.round() as u64))
        }
        size if size >= 99.95 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 9.995 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Bytes in decimal units.
pub(super) fn bytes(number: u64) -> String {
    let mut value = number as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 999.5 {
            return if unit == "B" { format!("{number} B") } else { format!("{} {unit}", rate(value)) };
        }
        value /= 1e3;
    }
    format!("{} TB", rate(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_in_three_digits() {
        for (ms, expected) in [(0.0, "0 ms"), (f64::NAN, "0 ms"), (0.25, "250 µs"), (1234.0, "1.23 s")] {
            assert_eq!(duration(ms), expected);
        }
        for (number, expected) in [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(count(number), expected);
        }
        for (share, expected) in [(0.0, "0 %"), (0.872, "87 %"), (0.0123, "1.2 %"), (0.0003, "0.03 %")] {
            assert_eq!(percent(share), expected);
        }
        for (number, expected) in [(0, "0 B"), (999, "999 B"), (1_000, "1.00 kB"), (12_345_678, "12.3 MB")] {
            assert_eq!(bytes(number), expected);
        }
        assert_eq!(counted(1, "call"), "1 call");
        assert_eq!(rate(1234.4), "1,234");
    }

    #[test]
    fn long_text_is_shortened_between_characters() {
        for (text, chars_max, expected) in
            [("", 0, ""), ("äöü", 3, "äöü"), ("äöü", 2, "äö…"), ("äöü", 0, "…")]
        {
            assert_eq!(shortened(text, chars_max), expected);
        }
    }

    #[test]
    fn figures_stay_with_their_units() {
        for (text, expected) in [
            ("between -5.26 ms and +3 %", "between −5.26\u{a0}ms and +3\u{a0}%"),
            ("(-1 s to 2 s)", "(−1\u{a0}s to 2\u{a0}s)"),
            ("2 slow ones of 5 services", "2 slow ones of 5 services"),
            ("node-5 ms, 10-20 ms", "node-5\u{a0}ms, 10-20\u{a0}ms"),
            ("p99 is 1,234 s", "p99 is 1,234\u{a0}s"),
        ] {
            assert_eq!(typeset(text), expected);
        }
    }

    #[test]
    fn what_deceives_the_eye_is_written_out() {
        assert_eq!(visible("a\u{202e}b\0\u{200b}"), "a‹U+202E›b‹U+0000›‹U+200B›");
        assert_eq!(visible("שלום\nzwölf"), "שלום\nzwölf");
    }
}
