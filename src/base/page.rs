//! Pages of whole outputs, which tests compare with kept ones: no figure and no word changes unnoticed.

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
            Ok(value) if number.contains(['.', 'e']) => page.push_str(&shown(value)),
            _ => page.push_str(number),
        }
        rest = behind;
    }
    page + rest
}

/// The length of the number that a text begins with.
fn length(text: &str) -> usize {
    let digits = |text: &str| {
        text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len())
    };
    let number = digits(text);
    let behind = &text[number..];
    let sign = if behind.starts_with("e-") { 2 } else { 1 };
    match behind.get(sign..).filter(|_| behind.starts_with('e')).map(digits) {
        Some(exponent @ 1..) => number + sign + exponent,
        _ => number,
    }
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
            ("4.6576469e-16 1e-300 2e9 2.5e10", "0 0 2000000000 25000000000"),
            ("a 1.0.2 b 5. c, 7e, 7ed", "a 1.0.2 b 5 c, 7e, 7ed"),
        ] {
            assert_eq!(rounded(text), expected, "{text}");
        }
    }
}
