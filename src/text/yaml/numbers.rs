//! Numbers of YAML 1.2's core schema, with their digits, and of YAML 1.1 as PyYAML reads it.

use std::fmt;
use std::sync::LazyLock;

use regex::Regex;

use crate::digits;

/// A number that is not a whole one of 64 bits.
#[derive(Clone, Debug)]
pub struct Real {
    /// What 64 bits make of it.
    pub value: f64,
    /// Its digits as JSON writes them, if 64 bits do not keep them.
    pub digits: Option<Box<str>>,
}

impl Real {
    /// For `serde`: an ordinary number to a reader that wants one, and its digits to [`digits::value`].
    #[must_use]
    pub(super) fn to_value(&self) -> serde_yaml::Value {
        match &self.digits {
            Some(digits) => digits::tagged(digits, self.value),
            None => serde_yaml::Value::Number(self.value.into()),
        }
    }
}

impl fmt::Display for Real {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.digits {
            Some(digits) => formatter.write_str(digits),
            None => self.value.fmt(formatter),
        }
    }
}

pub(super) enum Number {
    /// A whole number.
    Whole(i64),
    /// Any other.
    Real(Real),
}

/// The number that a text without quotes is. A zero in front makes it a text, as in a phone number.
pub(super) fn number(text: &str) -> Option<Number> {
    let (sign, unsigned) = match text.as_bytes().first()? {
        b'-' => ("-", &text[1..]),
        b'+' => ("", &text[1..]),
        _ => ("", text),
    };
    if let Some(of_base) = in_base(text) {
        return Some(of_base);
    }
    match unsigned {
        ".inf" | ".Inf" | ".INF" => {
            return Some(real(if sign == "-" { f64::NEG_INFINITY } else { f64::INFINITY }, None));
        }
        ".nan" | ".NaN" | ".NAN" if unsigned.len() == text.len() => return Some(real(f64::NAN, None)),
        _ => {}
    }
    let leading_zero =
        unsigned.len() > 1 && unsigned.starts_with('0') && !unsigned[1..].starts_with(['.', 'e', 'E']);
    if leading_zero {
        return None;
    }
    if let Some(value) = text.parse::<i64>().ok().filter(|_| text != "-0") {
        return Some(Number::Whole(value));
    }
    // What JSON has no form for: `.5`, `5.` and `5.e3`.
    let zero = if unsigned.starts_with('.') { "0" } else { "" };
    let mut written = format!("{sign}{zero}{unsigned}");
    if let Some(at) = written.find('.')
        && !written[at + 1..].starts_with(|c: char| c.is_ascii_digit())
        && unsigned.len() > 1
    {
        written.remove(at);
    }
    if !digits::is_number(&written) {
        return None;
    }
    let value = written.parse::<f64>().ok()?;
    let value = if value.is_finite() { value } else { f64::MAX.copysign(value) };
    let kept = digits::is_written(value, &written);
    Some(real(value, (!kept).then(|| written.into_boxed_str())))
}

/// The number that a text without quotes is to PyYAML (its `resolver.py`): YAML 1.1, but an exponent needs a point before
/// it and a sign.
pub(super) fn number_of_1_1(text: &str) -> Option<Number> {
    static WHOLE: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r"^([-+]?)(?:0b([01_]+)|0x([0-9a-fA-F_]+)|0([0-7_]+)|(0|[1-9][0-9_]*)|([1-9][0-9_]*(?::[0-5]?[0-9])+))$",
        )
        .ok()
    });
    static REAL: LazyLock<Option<Regex>> = LazyLock::new(|| {
        Regex::new(
            r"^([-+]?)(?:((?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?)|([0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*))$",
        )
        .ok()
    });
    let (whole, of_real) = (WHOLE.as_ref()?, REAL.as_ref()?);
    if let Some(groups) = whole.captures(text) {
        let sign = if &groups[1] == "-" { "-" } else { "" };
        let group = |number: usize| groups.get(number).map(|group| group.as_str().replace('_', ""));
        let in_base = |number, base| group(number).map(|digits| u128::from_str_radix(&digits, base).ok());
        let value = in_base(2, 2).or_else(|| in_base(3, 16)).or_else(|| match group(4)?.as_str() {
            // `0_`
            "" => Some(Some(0)),
            _ => in_base(4, 8),
        });
        let value = value.or_else(|| group(6).map(|parts| sexagesimal(&parts)));
        return match value {
            Some(value) => plain(&format!("{sign}{}", value?)),
            None => plain(&format!("{sign}{}", group(5)?)),
        };
    }
    if let Some(groups) = of_real.captures(text) {
        let sign = if &groups[1] == "-" { "-" } else { "" };
        if let Some(parts) = groups.get(3) {
            let parts = parts.as_str().replace('_', "");
            let (minutes, seconds) = parts.rsplit_once(':')?;
            let seconds = sexagesimal(minutes)?.checked_mul(60)? as f64 + seconds.parse::<f64>().ok()?;
            return Some(real(if sign == "-" { -seconds } else { seconds }, None));
        }
        let digits = groups.get(2)?.as_str().replace('_', "");
        if digits.starts_with('.') && !groups[1].is_empty() {
            return None;
        }
        // JSON has no zero in front, as in `00.5`.
        let start = digits.find(|c| c != '0').map_or(0, |at| {
            at - usize::from(!digits[at..].starts_with(|c: char| c.is_ascii_digit()) && at > 0)
        });
        return number(&format!("{sign}{}", &digits[start..]));
    }
    match text.trim_start_matches(['-', '+']) {
        ".inf" | ".Inf" | ".INF" | ".nan" | ".NaN" | ".NAN" => number(text),
        _ => None,
    }
}

/// A number in digits, of any length.
fn plain(digits: &str) -> Option<Number> {
    if digits == "-0" { Some(Number::Whole(0)) } else { number(digits) }
}

/// `1:30:05`, in seconds.
fn sexagesimal(parts: &str) -> Option<u128> {
    parts.split(':').try_fold(0_u128, |sum, part| sum.checked_mul(60)?.checked_add(part.parse().ok()?))
}

/// `0x1F` or `0o17`.
fn in_base(text: &str) -> Option<Number> {
    let (base, digits) = match text.get(..2)? {
        "0x" => (16, &text[2..]),
        "0o" => (8, &text[2..]),
        _ => return None,
    };
    if digits.is_empty() || !digits.chars().all(|c| c.is_digit(base)) {
        return None;
    }
    if let Ok(value) = i64::from_str_radix(digits, base) {
        return Some(Number::Whole(value));
    }
    let value = u128::from_str_radix(digits, base).ok()?;
    Some(real(value as f64, Some(value.to_string().into_boxed_str())))
}

fn real(value: f64, digits: Option<Box<str>>) -> Number {
    Number::Real(Real { value, digits })
}
