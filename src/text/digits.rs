//! JSON whose numbers keep the digits with which they were written.
//!
//! `serde_json` reads a number into 64 bits: 2733382000000000049.0, 18446744073709551616, 1.50 and 1E400 lose digits,
//! or are refused. Its feature `arbitrary_precision` keeps them, but for every crate in the tree, with an allocation
//! for each number of each answer. It also breaks tagged and flattened types that are read from JSON. So only a number
//! that 64 bits would change is kept as its digits, in a map with a single key. No document can hold this key, because
//! it is made at random when the process starts. All other numbers stay what they are, and cost nothing.

mod apart;
mod decimal;
mod read;

use std::borrow::Cow;
use std::cmp::Ordering;
use std::sync::LazyLock;

use serde::ser::{Error as _, SerializeMap as _};
use serde::{Serialize, Serializer};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

pub use apart::told_apart;
pub use decimal::Decimal;
pub use read::{Exact, assignments, is_out_of_range, list, option, rounded, rounded_map, some, value};
pub(super) use read::{digits_of, is_number, tagged};

/// The key of a map that is a number.
static KEY: LazyLock<String> = LazyLock::new(|| format!("digits-{:032x}", fastrand::u128(..)));

/// A number that is written as `digits`, which JSON allows: an ordinary one where 64 bits keep them.
#[must_use]
pub fn number(digits: &str) -> Value {
    match kept(digits) {
        Some(number) => Value::Number(number),
        None => Value::Object(Map::from_iter([(KEY.clone(), Value::from(digits))])),
    }
}

/// The number, if it is written with these digits again.
fn kept(digits: &str) -> Option<serde_json::Number> {
    let bytes = digits.as_bytes();
    if !bytes.contains(&b'.') && !bytes.contains(&b'e') && !bytes.contains(&b'E') {
        if digits == "-0" {
            return None;
        }
        let whole = digits.parse::<i64>().ok().map(serde_json::Number::from);
        return whole.or_else(|| digits.parse::<u64>().ok().map(serde_json::Number::from));
    }
    let value = digits.parse::<f64>().ok().filter(|value| value.is_finite())?;
    is_written(value, digits).then(|| serde_json::Number::from_f64(value)).flatten()
}

/// Whether both JSON and templates write this value as `digits`.
#[must_use]
pub fn is_written(value: f64, digits: &str) -> bool {
    let json = serde_json::Number::from_f64(value).is_some_and(|number| number.to_string() == digits);
    let plain = value.to_string();
    json && (plain == digits || digits.strip_suffix(".0") == Some(plain.as_str()))
}

/// Whether a double holds the value of this number, and no other whole number becomes the same double.
#[must_use]
pub fn is_held_by_a_double(digits: &str) -> bool {
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    digits.parse::<f64>().is_ok_and(|value| {
        value.abs() < WHOLE_MAX && Decimal::parse(&value.to_string()) == Decimal::parse(digits)
    })
}

/// The digits of a number that 64 bits do not keep.
#[must_use]
pub fn digits(value: &Value) -> Option<&str> {
    match value {
        Value::Object(map) if map.len() == 1 => map.get(KEY.as_str())?.as_str(),
        _ => None,
    }
}

/// The digits of a number of a document that was written by `serde_yaml`.
#[must_use]
pub fn digits_in_yaml(value: &serde_yaml::Mapping) -> Option<&str> {
    if value.len() == 1 { value.get(KEY.as_str())?.as_str() } else { None }
}

/// The digits of any number.
#[must_use]
pub fn of_number(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        other => digits(other).map(Cow::Borrowed),
    }
}

/// The number that a text without a type spells, such as that of a header.
#[must_use]
pub fn spelled(text: &str) -> Option<Value> {
    let text = text.trim();
    Decimal::parse(text)?;
    let (sign, rest) = text.strip_prefix('-').map_or(("", text.trim_start_matches('+')), |rest| ("-", rest));
    let end = rest.find(['.', 'e', 'E']).unwrap_or(rest.len());
    let whole = rest[..end].trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let rest = match &rest[end..] {
        // `5.` and `5.e3`
        fraction if fraction.starts_with('.') && !fraction[1..].starts_with(|c: char| c.is_ascii_digit()) => {
            &fraction[1..]
        }
        fraction => fraction,
    };
    Some(number(&format!("{sign}{whole}{rest}")))
}

/// The order of two numbers; `None` if one is no number.
#[must_use]
pub fn order(a: &Value, b: &Value) -> Option<Ordering> {
    if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64()) {
        return Some(a.cmp(&b));
    }
    let (a, b) = (of_number(a)?, of_number(b)?);
    Some(Decimal::parse(&a)?.cmp(&Decimal::parse(&b)?))
}

/// Whether two values are the same. 1 and 1.0 are the same number.
#[must_use]
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(one), Value::Object(other)) if digits(a).is_none() && digits(b).is_none() => {
            one.len() == other.len() && one.iter().all(|(key, a)| other.get(key).is_some_and(|b| same(a, b)))
        }
        (Value::Number(_) | Value::Object(_), Value::Number(_) | Value::Object(_)) => {
            order(a, b).is_some_and(Ordering::is_eq)
        }
        (a, b) => a == b,
    }
}

/// Reads JSON; its numbers keep their digits.
///
/// # Errors
/// It is not JSON.
pub fn parse(json: &[u8]) -> Result<Value, serde_json::Error> {
    let rounded = rounded_document(json)?;
    if !may_be_rounded(&rounded) {
        return Ok(rounded);
    }
    Ok(exact_document(json)?.unwrap_or(rounded))
}

/// Reads JSON; numbers are what 64 bits make of them. It has the same places as [`exact_document`].
///
/// # Errors
/// It is not JSON.
pub fn rounded_document(json: &[u8]) -> Result<Value, serde_json::Error> {
    serde_json::from_slice(json).or_else(|error| {
        if !is_out_of_range(&error) {
            return Err(error);
        }
        let bounded = read::replaced(json, |digits| {
            let most = if digits.starts_with('-') { f64::MIN } else { f64::MAX };
            let is_held = digits.parse::<f64>().is_ok_and(f64::is_finite);
            (!is_held).then(|| format!("{most:e}"))
        });
        // The error of the original is the one with the right place.
        bounded.map_or(Err(error), |json| serde_json::from_slice(&json))
    })
}

/// Reads JSON that [`rounded_document`] has read; its numbers keep their digits. `None` if all did before.
///
/// # Errors
/// It is not JSON.
pub fn exact_document(json: &[u8]) -> Result<Option<Value>, serde_json::Error> {
    let marked = read::replaced(json, |digits| {
        // Of many digits, serde_json reads a neighbour of the nearest number.
        let is_read =
            |number| serde_json::from_str::<serde_json::Number>(digits).is_ok_and(|read| read == number);
        (!kept(digits).is_some_and(is_read)).then(|| format!("{{\"{}\":\"{digits}\"}}", KEY.as_str()))
    });
    let Some(marked) = marked else { return Ok(None) };
    let mut deserializer = serde_json::Deserializer::from_slice(&marked);
    // The first reading has bounded the depth; numbers are one level deeper now.
    deserializer.disable_recursion_limit();
    let value = serde::Deserialize::deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(Some(value))
}

/// Whether a value that was read into 64 bits has a number whose digits may have been others.
#[must_use]
pub fn may_be_rounded(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(may_be_rounded),
        Value::Object(map) => map.values().any(may_be_rounded),
        _ => false,
    }
}

/// A value as JSON text.
#[must_use]
pub fn to_text(value: &Value) -> String {
    if !is_marked(value) {
        return value.to_string();
    }
    serde_json::to_string(&ExactJson(value)).unwrap_or_default()
}

/// Whether a number in a value is kept as its digits.
#[must_use]
pub fn is_marked(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.iter().any(is_marked),
        Value::Object(map) => digits(value).is_some() || map.values().any(is_marked),
        _ => false,
    }
}

/// A value that writes its digits as numbers of JSON.
#[derive(Clone, Copy, Debug)]
pub struct ExactJson<'v>(pub &'v Value);

impl Serialize for ExactJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            Value::Array(items) => serializer.collect_seq(items.iter().map(ExactJson)),
            Value::Object(map) => match digits(self.0) {
                Some(digits) => raw(digits).map_err(S::Error::custom)?.serialize(serializer),
                None => {
                    let mut written = serializer.serialize_map(Some(map.len()))?;
                    for (key, value) in map {
                        written.serialize_entry(key, &ExactJson(value))?;
                    }
                    written.end()
                }
            },
            other => other.serialize(serializer),
        }
    }
}

/// Digits as a number of JSON text.
///
/// # Errors
/// They are no number of JSON.
pub fn raw(digits: &str) -> Result<Box<RawValue>, serde_json::Error> {
    RawValue::from_string(digits.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn digits_stay_as_they_came() {
        for json in [
            "2733382000000000049",
            "18446744073709551615",
            "18446744073709551616",
            "123456789012345678901234567890",
            "-9223372036854775809",
            "1.50",
            "1.0",
            "1e2",
            "1E400",
            "-0",
            "-0.0",
            "0.1234567890123456789",
            "100000000000000000000.0",
            r#"{"a":[1.50,"1.50",{"b":1E400}],"c":"\ud83d\ude00 -1.50"}"#,
            r#"{"1.50":1.5,"x":"\"1.50","y":[]}"#,
        ] {
            let value = parse(json.as_bytes()).unwrap_or_else(|error| panic!("{json}: {error}"));
            let expected = json.replace(r"\ud83d\ude00", "\u{1F600}");
            assert_eq!(to_text(&value), expected);
        }
        for json in ["01", "1.", ".5", "+1", "0x1F", "1e", "NaN", "[1E400", "1E400 x", "1..0", "--1"] {
            assert!(parse(json.as_bytes()).is_err(), "{json}");
        }
    }

    #[test]
    fn ordinary_numbers_are_ordinary_values() {
        for json in ["0", "-7", "18446744073709551615", "1.5", "1.0", "0.30000000000000004", "-12.25"] {
            let value = parse(json.as_bytes()).unwrap();
            assert!(value.is_number() && !is_marked(&value), "{json}: {value:?}");
        }
    }

    #[test]
    fn no_document_can_hold_a_mark() {
        let text = format!("{{\"digits-{}\":\"5\"}}", "0".repeat(32));
        assert!(!is_marked(&parse(text.as_bytes()).unwrap()));
    }

    #[test]
    fn values_are_the_same_if_their_numbers_are() {
        for (a, b, expected) in [
            ("1", "1.0", true),
            ("[1e2, {\"a\": 0.10}]", "[100, {\"a\": 0.1}]", true),
            ("2733382000000000049", "2733382000000000000", false),
            ("18446744073709551616", "18446744073709551617", false),
            ("0.30000000000000004", "0.3", false),
            ("1E400", "1e400", true),
            ("1E400", "1e401", false),
            ("{\"a\": 1}", "{\"a\": 1, \"b\": 1}", false),
            ("{}", "1.50", false),
            ("\"1\"", "1", false),
        ] {
            let (one, other) = (parse(a.as_bytes()).unwrap(), parse(b.as_bytes()).unwrap());
            assert_eq!(same(&one, &other), expected, "{a} {b}");
            assert_eq!(same(&other, &one), expected, "{b} {a}");
        }
    }

    #[test]
    fn a_text_may_spell_a_number() {
        for (text, expected) in [
            (" 5 ", Some("5")),
            ("+5", Some("5")),
            ("005", Some("5")),
            (".5", Some("0.5")),
            ("-5.", Some("-5")),
            ("5.e3", Some("5e3")),
            ("1.50", Some("1.50")),
            ("18446744073709551616", Some("18446744073709551616")),
            ("inf", None),
            ("0x1F", None),
            ("", None),
        ] {
            assert_eq!(spelled(text).map(|value| to_text(&value)).as_deref(), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_number_of_json_keeps_its_digits(
            digits in "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,40})?([eE][-+]?[0-9]{1,4})?"
        ) {
            let json = format!("{{\"a\":[{digits},\"{digits}\"]}}");
            prop_assert_eq!(to_text(&parse(json.as_bytes()).unwrap()), json);
        }

        #[test]
        fn what_is_not_json_is_refused_as_before(text in "[-+0-9.eE\\[\\]{}\":, ]{0,30}") {
            let before = serde_json::from_str::<Value>(&text);
            let now = parse(text.as_bytes());
            if let Err(error) = &before && !is_out_of_range(error) {
                prop_assert!(now.is_err(), "{}", text);
            } else if before.is_ok() {
                prop_assert!(now.is_ok(), "{}", text);
            }
        }
    }
}
