//! Pages of whole outputs, which tests compare with kept ones: no figure and no word changes unnoticed.

/// Where the pages are kept.
pub const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/pages");

/// Fails if a page (`&str`) is not the kept one of this name. `INSTA_UPDATE=always` keeps it.
#[macro_export]
macro_rules! compare_page {
    ($name:expr, $page:expr) => {{
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path($crate::page::FOLDER);
        settings.set_prepend_module_to_snapshot(false);
        settings.set_omit_expression(true);
        settings.bind(|| insta::assert_snapshot!($name, $crate::page::rounded($page)));
    }};
}

/// The text with all decimal fractions rounded to eight significant digits, and tiny ones to 0: the last digits may
/// differ between machines.
#[must_use]
pub fn rounded(text: &str) -> String {
    let mut page = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        page.push_str(&rest[..at]);
        let (number, behind) = rest[at..].split_at(length(&rest[at..]));
        match number.parse::<f64>() {
            Ok(value) if number.contains(['.', '-']) => page.push_str(&shown(value)),
            _ => page.push_str(number),
        }
        rest = behind;
    }
    page + rest
}

/// The length of the number that a text begins with, with its exponent if that is negative and ends a word: ids have
/// letters, too.
fn length(text: &str) -> usize {
    let digits = |text: &str| text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let number = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    let exponent = text[number..].strip_prefix("e-").map_or(0, digits);
    let all = number + 2 + exponent;
    let is_word = |rest: &str| !rest.starts_with(|next: char| next.is_ascii_alphanumeric() || next == '-');
    if exponent > 0 && is_word(&text[all..]) { all } else { number }
}

fn shown(value: f64) -> String {
    if value < 1e-12 {
        return "0".to_owned();
    }
    let digits = 7 - value.log10().floor() as i32;
    let shown = format!("{value:.*}", usize::try_from(digits).unwrap_or(0));
    if shown.contains('.') { shown.trim_end_matches('0').trim_end_matches('.').to_owned() } else { shown }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fractions_are_rounded() {
        for (text, expected) in [
            ("", ""),
            ("p99.9 of 1234567890123", "p99.9 of 1234567890123"),
            ("0.12345678901, -3.00000000001e-7 and 12345678.9", "0.12345679, -0.0000003 and 12345679"),
            ("4.6576469e-16, 1e-300 2e9", "0, 0 2e9"),
            ("a 1.0.2 b 5. c, 7e, 7ed 0a5e-4061-b9e3", "a 1.0.2 b 5 c, 7e, 7ed 0a5e-4061-b9e3"),
        ] {
            assert_eq!(rounded(text), expected, "{text}");
        }
    }
}
