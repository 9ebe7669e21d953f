//! Values between JSON and templates: numbers keep their digits, and what a text says of a value is what JSON says.
//!
//! minijinja has whole numbers of 128 bits, and else numbers of 64 bits with a fraction. A number that these change,
//! such as 1.50 or 1E400, is an object here that shows its digits. Operators get an ordinary number for it
//! ([`operand`]) if it has the same value, and are an error otherwise.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt::{self, Write as _};
use std::sync::Arc;

use minijinja::value::{DynObject, Object, ObjectRepr, ValueKind};
use minijinja::{Error, Value};
use serde::ser::{Error as _, SerializeMap as _};
use serde::{Serialize, Serializer};
use serde_json::Value as Json;

use crate::digits::{self, Decimal};

use super::TemplateError;
use super::allowance::invalid;

/// The most digits of a number that a message shows.
const SHOWN_DIGITS_MAX: usize = 40;

/// A number that minijinja has no type for.
#[derive(Debug)]
struct Digits(Box<str>);

impl Object for Digits {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        ObjectRepr::Plain
    }

    fn is_true(self: &Arc<Self>) -> bool {
        Decimal::parse(&self.0).is_none_or(|number| !number.is_zero())
    }

    fn custom_cmp(self: &Arc<Self>, other: &DynObject) -> Option<Ordering> {
        let other = other.downcast_ref::<Self>()?;
        Some(Decimal::parse(&self.0)?.cmp(&Decimal::parse(&other.0)?))
    }

    fn render(self: &Arc<Self>, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// The digits of a number that minijinja has no type for.
pub(super) fn digits_of(value: &Value) -> Option<&str> {
    if value.kind() != ValueKind::Plain {
        return None;
    }
    value.downcast_object_ref::<Digits>().map(|number| &*number.0)
}

/// A value of JSON for templates.
#[must_use]
pub fn from_json(value: &Json) -> Value {
    match value {
        Json::Null => Value::from(()),
        Json::Bool(value) => Value::from(*value),
        Json::String(text) => Value::from(text.as_str()),
        Json::Number(_) => Value::from_serialize(value),
        _ => match digits::digits(value) {
            Some(digits) => number(digits),
            None if !digits::is_marked(value) => Value::from_serialize(value),
            None => match value {
                Json::Array(items) => Value::from(items.iter().map(from_json).collect::<Vec<_>>()),
                Json::Object(map) => {
                    map.iter().map(|(key, value)| (Value::from(key.as_str()), from_json(value))).collect()
                }
                other => Value::from_serialize(other),
            },
        },
    }
}

/// The number that is written with these digits.
pub(super) fn number(digits: &str) -> Value {
    let whole = digits.parse::<i128>().ok().filter(|whole| whole.to_string() == digits);
    match whole {
        Some(whole) => Value::from(whole),
        None => Value::from_object(Digits(digits.into())),
    }
}

/// A value of a template as JSON.
///
/// # Errors
/// JSON has no such value.
pub fn to_json(value: &Value) -> Result<Json, TemplateError> {
    if let Some(text) = value.as_str() {
        return Ok(Json::from(text));
    }
    match value.kind() {
        ValueKind::Bool => Ok(Json::Bool(value.is_true())),
        ValueKind::None | ValueKind::Undefined => Ok(Json::Null),
        ValueKind::Number if value.as_i64().is_some() => Ok(Json::from(value.as_i64())),
        _ => digits::parse(json_text(value)?.as_bytes()).map_err(|error| TemplateError(error.to_string())),
    }
}

/// A value of a template as JSON text.
///
/// # Errors
/// JSON has no such value.
pub fn json_text(value: &Value) -> Result<String, TemplateError> {
    serde_json::to_string(&AsJson(value)).map_err(|error| TemplateError(error.to_string()))
}

/// A value as its JSON.
#[derive(Clone, Copy)]
pub(super) struct AsJson<'v>(pub(super) &'v Value);

struct OwnedJson(Value);

impl Serialize for OwnedJson {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        AsJson(&self.0).serialize(serializer)
    }
}

impl Serialize for AsJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = self.0;
        match value.kind() {
            ValueKind::Plain => match digits_of(value) {
                Some(digits) => digits::raw(digits).map_err(S::Error::custom)?.serialize(serializer),
                None => value.serialize(serializer),
            },
            ValueKind::Number => {
                let is_real = || f64::try_from(value.clone()).is_ok_and(f64::is_finite);
                if !value.is_integer() && !is_real() {
                    return Err(S::Error::custom(format!("{value} is no number that JSON has")));
                }
                value.serialize(serializer)
            }
            ValueKind::Seq | ValueKind::Iterable => {
                serializer.collect_seq(value.try_iter().map_err(S::Error::custom)?.map(OwnedJson))
            }
            ValueKind::Map => {
                let mut written = serializer.serialize_map(None)?;
                for key in value.try_iter().map_err(S::Error::custom)? {
                    let item = value.get_item(&key).map_err(S::Error::custom)?;
                    // Keys of JSON are texts.
                    let name = text_of(&key).map_err(|error| S::Error::custom(error.0))?;
                    written.serialize_entry(&name, &AsJson(&item))?;
                }
                written.end()
            }
            _ => value.serialize(serializer),
        }
    }
}

/// What a text says of a value: what JSON says, except that a text stands for itself.
///
/// # Errors
/// A list or a map has a value that JSON does not have.
pub fn text_of(value: &Value) -> Result<Cow<'_, str>, TemplateError> {
    if let Some(text) = value.as_str() {
        return Ok(Cow::Borrowed(text));
    }
    Ok(match value.kind() {
        ValueKind::Bool => Cow::Borrowed(if value.is_true() { "true" } else { "false" }),
        ValueKind::None => Cow::Borrowed("null"),
        ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => Cow::Owned(json_text(value)?),
        _ => Cow::Owned(value.to_string()),
    })
}

/// Appends [`text_of`] a value.
pub(super) fn push_text(value: &Value, output: &mut String) -> Result<(), TemplateError> {
    match value.kind() {
        ValueKind::Number | ValueKind::Plain => {
            write!(output, "{value}").map_err(|error| TemplateError(error.to_string()))
        }
        _ => {
            output.push_str(&text_of(value)?);
            Ok(())
        }
    }
}

/// The value as a text, if it would not show as JSON has it.
pub(super) fn shown(value: &Value) -> Result<Option<Value>, Error> {
    match value.kind() {
        ValueKind::Bool | ValueKind::None | ValueKind::Seq | ValueKind::Iterable | ValueKind::Map => {
            Ok(Some(Value::from(text_of(value).map_err(|error| invalid(error.0))?.into_owned())))
        }
        _ => Ok(None),
    }
}

/// How a truth value, nothing, a list or a map shows in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TextNotation {
    /// As JSON has it: `true`, `null`, `["a"]`.
    Json,
    /// As Python prints it: `True`, `None`.
    Python,
}

impl TextNotation {
    pub(super) fn shown(self, value: &Value) -> Result<Option<Value>, Error> {
        match self {
            Self::Json => shown(value),
            Self::Python => Ok(None),
        }
    }
}

/// The value with ordinary numbers wherever these have the same value.
pub(super) fn same_value(value: Value) -> Value {
    match value.kind() {
        ValueKind::Plain => match digits_of(&value) {
            Some(digits) => ordinary(digits).unwrap_or(value),
            None => value,
        },
        ValueKind::Seq | ValueKind::Map if has_digits(&value) => match value.try_iter() {
            Err(_) => value,
            Ok(items) if value.kind() == ValueKind::Seq => {
                Value::from(items.map(same_value).collect::<Vec<_>>())
            }
            Ok(keys) => {
                keys.map(|key| (key.clone(), same_value(value.get_item(&key).unwrap_or_default()))).collect()
            }
        },
        _ => value,
    }
}

fn has_digits(value: &Value) -> bool {
    match value.kind() {
        ValueKind::Plain => digits_of(value).is_some(),
        ValueKind::Seq | ValueKind::Iterable => {
            value.try_iter().is_ok_and(|mut items| items.any(|item| has_digits(&item)))
        }
        ValueKind::Map => value
            .try_iter()
            .is_ok_and(|mut keys| keys.any(|key| value.get_item(&key).is_ok_and(|item| has_digits(&item)))),
        _ => false,
    }
}

/// The value with every number as its digits, if it has one that minijinja has no type for: it cannot put one of these
/// before or after an ordinary one.
pub(super) fn comparable(value: &Value) -> Result<Option<Value>, Error> {
    if has_digits(value) { as_digits(value).map(Some) } else { Ok(None) }
}

/// Both values with every number as its digits, if one has a number that minijinja has no type for.
pub(super) fn comparable_pair(one: &Value, other: &Value) -> Result<Option<(Value, Value)>, Error> {
    if has_digits(one) || has_digits(other) {
        Ok(Some((as_digits(one)?, as_digits(other)?)))
    } else {
        Ok(None)
    }
}

fn as_digits(value: &Value) -> Result<Value, Error> {
    Ok(match value.kind() {
        ValueKind::Number => match Decimal::parse(&value.to_string()) {
            Some(_) => Value::from_object(Digits(value.to_string().into())),
            None => value.clone(),
        },
        ValueKind::Seq | ValueKind::Iterable => {
            value.try_iter()?.map(|item| as_digits(&item)).collect::<Result<Vec<_>, _>>()?.into()
        }
        ValueKind::Map => {
            let pair = |key: Value| Ok((key.clone(), as_digits(&value.get_item(&key)?)?));
            value.try_iter()?.map(pair).collect::<Result<Value, Error>>()?
        }
        _ => value.clone(),
    })
}

/// A value to calculate with.
pub(super) fn operand(value: Value) -> Result<Value, Error> {
    match digits_of(&value) {
        None => Ok(value),
        Some(digits) => ordinary(digits).ok_or_else(|| would_change(digits)),
    }
}

/// The number of 64 bits that is nearest to a number.
pub(super) fn nearest(value: Value) -> Result<f64, Error> {
    match digits_of(&value).and_then(|digits| digits.parse().ok()) {
        Some(real) => Ok(real),
        None => f64::try_from(value),
    }
}

/// The error of a calculation that would not be with this number, but with another one near it.
pub(super) fn would_change(digits: &str) -> Error {
    let few = digits.chars().take(SHOWN_DIGITS_MAX + 1).count() <= SHOWN_DIGITS_MAX;
    let shown: String = digits.chars().take(SHOWN_DIGITS_MAX).collect();
    let more = if few { "" } else { "…" };
    invalid(format!("templates cannot calculate with {shown}{more}: they would change its digits"))
}

/// The number of minijinja that has exactly this value.
pub(super) fn ordinary(digits: &str) -> Option<Value> {
    if let Ok(whole) = digits.parse::<i128>() {
        return Some(Value::from(whole));
    }
    let real = digits.parse::<f64>().ok().filter(|real| real.is_finite())?;
    let written = real.to_string();
    (Decimal::parse(&written)? == Decimal::parse(digits)?).then(|| Value::from(real))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(json: &str) -> Value {
        from_json(&digits::parse(json.as_bytes()).unwrap())
    }

    #[test]
    fn values_go_through_templates_as_they_came() {
        for json in [
            "true",
            "null",
            "\"a \\\"b\\\"\"",
            "[true,null,\"a\",1.50,{\"b\":18446744073709551616}]",
            "{\"a\":[],\"z\":1E400}",
            "-9223372036854775809",
            "170141183460469231731687303715884105728",
            "1e2",
            "-0",
        ] {
            let value = read(json);
            assert_eq!(json_text(&value).unwrap(), json);
            assert_eq!(digits::to_text(&to_json(&value).unwrap()), json);
            if !json.starts_with('"') {
                assert_eq!(text_of(&value).unwrap(), json);
            }
        }
        for value in [f64::NAN, f64::INFINITY] {
            assert!(json_text(&Value::from(vec![value])).is_err());
        }
    }

    #[test]
    fn numbers_of_the_same_value_are_ordinary_ones() {
        for (digits, expected) in [
            ("1.50", Some("1.5")),
            ("1e2", Some("100.0")),
            ("-0", Some("0")),
            ("100000000000000000000.0", Some("100000000000000000000.0")),
            ("0.30000000000000004", Some("0.30000000000000004")),
            ("9007199254740993.0", None),
            ("0.1234567890123456789", None),
            ("1E400", None),
            ("123456789012345678901234567890", Some("123456789012345678901234567890")),
            ("123456789012345678901234567890123456789012345", None),
        ] {
            assert_eq!(ordinary(digits).map(|value| value.to_string()).as_deref(), expected, "{digits}");
        }
    }

    proptest! {
        #[test]
        fn any_number_keeps_its_digits(
            digits in "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,40})?([eE][-+]?[0-9]{1,4})?"
        ) {
            let value = read(&digits);
            prop_assert_eq!(&*text_of(&value).unwrap(), digits.as_str());
            prop_assert_eq!(json_text(&value).unwrap(), digits.as_str());
            if let Some(same) = ordinary(&digits) {
                let same = same.to_string();
                prop_assert!(Decimal::parse(&same).unwrap() == Decimal::parse(&digits).unwrap(), "{} {}", digits, same);
            }
        }
    }
}
