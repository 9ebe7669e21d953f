//! Decimal numbers of any length, compared exactly.

use std::cmp::Ordering;

/// A decimal number: `0.` and the digits, times ten to the power of the exponent.
#[derive(Clone, Copy, Debug)]
pub struct Decimal<'t> {
    negative: bool,
    /// The digits of the whole part and of the fraction, without zeros at their outer ends.
    whole: &'t str,
    fraction: &'t str,
    exponent: i64,
}

/// An exponent of more digits than this is not looked at: no two such numbers can be told apart.
const EXPONENT_DIGITS_MAX: usize = 17;

impl<'t> Decimal<'t> {
    /// Reads a number as JSON, or as people write it: `+5`, `.5` and `5.` are numbers, too.
    #[must_use]
    pub fn parse(text: &'t str) -> Option<Self> {
        let (negative, unsigned) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
            Some(at) => (&unsigned[..at], exponent(&unsigned[at + 1..])?),
            None => (unsigned, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !all_digits(whole) || !all_digits(fraction) {
            return None;
        }
        Some(Self::normal(negative, whole, fraction, exponent))
    }

    fn normal(negative: bool, whole: &'t str, fraction: &'t str, exponent: i64) -> Self {
        let whole = whole.trim_start_matches('0');
        let fraction = fraction.trim_end_matches('0');
        let exponent = exponent.saturating_add(whole.len() as i64);
        if whole.is_empty() {
            let shorter = fraction.trim_start_matches('0');
            let zeros = (fraction.len() - shorter.len()) as i64;
            let exponent = if shorter.is_empty() { 0 } else { exponent.saturating_sub(zeros) };
            return Self { negative: negative && !shorter.is_empty(), whole, fraction: shorter, exponent };
        }
        let whole = if fraction.is_empty() { whole.trim_end_matches('0') } else { whole };
        Self { negative, whole, fraction, exponent }
    }

    fn digits(&self) -> impl Iterator<Item = u8> + '_ {
        self.whole.bytes().chain(self.fraction.bytes())
    }

    fn length(&self) -> i64 {
        (self.whole.len() + self.fraction.len()) as i64
    }

    /// True for a number without a fraction: `2`, `2.0` and `2e3`.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.length() <= self.exponent.max(0)
    }

    /// True for 0.
    #[must_use]
    pub fn is_zero(&self) -> bool {
        self.length() == 0
    }
}

fn exponent(text: &str) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let digits = digits.trim_start_matches('0');
    let size = match digits.len() {
        0 => 0,
        length if length > EXPONENT_DIGITS_MAX => 10_i64.pow(EXPONENT_DIGITS_MAX as u32),
        _ => digits.parse().ok()?,
    };
    Some(if negative { -size } else { size })
}

impl PartialEq for Decimal<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Decimal<'_> {}

impl PartialOrd for Decimal<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Decimal<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = |number: &Self| match (number.is_zero(), number.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        let size = || self.exponent.cmp(&other.exponent).then_with(|| self.digits().cmp(other.digits()));
        match sign(self).cmp(&sign(other)) {
            Ordering::Equal if self.is_zero() => Ordering::Equal,
            Ordering::Equal if self.negative => size().reverse(),
            Ordering::Equal => size(),
            unequal => unequal,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_compared_digit_by_digit() {
        let big = "123456789012345678901234567890";
        for (a, b, expected) in [
            ("1", "1.0", Ordering::Equal),
            ("1e2", "100", Ordering::Equal),
            ("100e-2", "1", Ordering::Equal),
            ("0.10", "1E-1", Ordering::Equal),
            ("-0", "0.0e7", Ordering::Equal),
            ("+.5", "5.e-1", Ordering::Equal),
            ("0.30000000000000004", "0.3", Ordering::Greater),
            ("9007199254740993", "9007199254740992", Ordering::Greater),
            (big, "123456789012345678901234567891", Ordering::Less),
            ("-9223372036854775809", "-9223372036854775808", Ordering::Less),
            ("1E400", "1e399", Ordering::Greater),
            ("1e-400", "0", Ordering::Greater),
            ("-1e400", big, Ordering::Less),
            ("1e999999999999999999999", "2e5", Ordering::Greater),
            ("12", "112", Ordering::Less),
            ("0.012", "0.1", Ordering::Less),
        ] {
            let read = |text| Decimal::parse(text).unwrap();
            assert_eq!(read(a).cmp(&read(b)), expected, "{a} {b}");
            assert_eq!(read(b).cmp(&read(a)), expected.reverse(), "{b} {a}");
        }
        for text in ["", "-", ".", "1e", "e5", "1e+", "inf", "NaN", "0x1F", "1_000", "1.2.3", " 1", "--1"] {
            assert!(Decimal::parse(text).is_none(), "{text}");
        }
        for (text, whole) in
            [("2", true), ("2.0", true), ("2e3", true), ("2.5e1", true), ("2.5", false), ("1e-1", false)]
        {
            assert_eq!(Decimal::parse(text).unwrap().is_whole(), whole, "{text}");
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_whole_numbers(a: i64, b: i64, zeros in 0_u32..4) {
            let (one, other) = (format!("{a}.{}", "0".repeat(zeros as usize)), format!("{b}e0"));
            prop_assert_eq!(Decimal::parse(&one).unwrap().cmp(&Decimal::parse(&other).unwrap()), a.cmp(&b));
        }
    }
}
