//! Pages of whole outputs, which tests compare with kept ones: no figure and no word changes unnoticed.

/// The text with all decimal fractions rounded to eight significant digits: the last ones may differ between machines.
#[must_use]
pub fn rounded(text: &str) -> String {
    let mut page = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(|letter: char| letter.is_ascii_digit()) {
        page.push_str(&rest[..at]);
        rest = &rest[at..];
        let length =
            rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(rest.len());
        let (number, behind) = rest.split_at(length);
        match number.parse::<f64>() {
            Ok(value) if number.contains('.') && !number.ends_with('.') => {
                let digits = 8 - value.abs().max(1e-9).log10().floor() as i32 - 1;
                let shown = format!("{value:.*}", usize::try_from(digits).unwrap_or(0));
                let shown = if shown.contains('.') {
                    shown.trim_end_matches('0').trim_end_matches('.')
                } else {
                    &shown
                };
                page.push_str(shown);
            }
            _ => page.push_str(number),
        }
        rest = behind;
    }
    page + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_fractions_are_rounded() {
        for (text, expected) in [
            ("", ""),
            ("p99.9 of 1234567890123", "p99.9 of 1234567890123"),
            ("0.12345678901, -3.00000000001e-7 and 12345678.9", "0.12345679, -3e-7 and 12345679"),
            ("a 1.0.2 b 5. c", "a 1.0.2 b 5. c"),
        ] {
            assert_eq!(rounded(text), expected, "{text}");
        }
    }
}
