//! Reads numbers with their digits: from JSON text, and from documents that `serde` reads.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{
    DeserializeSeed, EnumAccess, Error as _, IgnoredAny, MapAccess, SeqAccess, VariantAccess as _, Visitor,
};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Number, Value};

/// What the name of a tag begins with that carries the digits of a number.
const TAG: &str = "digits ";

/// A number of YAML with its digits. A reader that wants an ordinary number gets `value`, and [`Exact`] gets the
/// digits.
#[must_use]
pub(crate) fn tagged(digits: &str, value: f64) -> serde_yaml::Value {
    serde_yaml::Value::Tagged(Box::new(serde_yaml::value::TaggedValue {
        tag: serde_yaml::value::Tag::new(format!("{TAG}{digits}")),
        value: serde_yaml::Value::Number(value.into()),
    }))
}

/// The digits of such a number.
#[must_use]
pub(crate) fn digits_of(tagged: &serde_yaml::value::TaggedValue) -> Option<String> {
    let name = tagged.tag.to_string();
    name.strip_prefix('!')?.strip_prefix(TAG).map(str::to_owned)
}

/// A value whose numbers keep their digits.
#[derive(Clone, Debug, PartialEq)]
pub struct Exact(pub Value);

impl<'de> Deserialize<'de> for Exact {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        value(deserializer).map(Self)
    }
}

/// Reads a value whose numbers keep their digits.
///
/// # Errors
/// It is not a value of JSON.
pub fn value<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    JsonValueSeed { exact: true }.deserialize(deserializer)
}

/// Reads a value whose numbers are what 64 bits make of them.
///
/// # Errors
/// It is not a value of JSON.
pub fn rounded<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    JsonValueSeed { exact: false }.deserialize(deserializer)
}

/// [`value`], where a key that is there has a value, even if it is null.
///
/// # Errors
/// It is not a value of JSON.
pub fn option<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    value(deserializer).map(Some)
}

/// [`value`], where null is the same as no value.
///
/// # Errors
/// It is not a value of JSON.
pub fn some<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Value>, D::Error> {
    Ok(Option::<Exact>::deserialize(deserializer)?.map(|read| read.0))
}

/// A list of values.
///
/// # Errors
/// It is not a list.
pub fn list<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Value>>, D::Error> {
    let read = Option::<Vec<Exact>>::deserialize(deserializer)?;
    Ok(read.map(|items| items.into_iter().map(|item| item.0).collect()))
}

/// Values by name.
///
/// # Errors
/// It is not a map.
pub fn assignments<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<BTreeMap<String, Value>>, D::Error> {
    let read = Option::<BTreeMap<String, Exact>>::deserialize(deserializer)?;
    Ok(read.map(|map| map.into_iter().map(|(name, value)| (name, value.0)).collect()))
}

/// Ordinary values by name.
///
/// # Errors
/// It is not a map.
pub fn rounded_map<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Map<String, Value>>, D::Error> {
    match rounded(deserializer)? {
        Value::Null => Ok(None),
        Value::Object(map) => Ok(Some(map)),
        _ => Err(D::Error::custom("expected a map")),
    }
}

#[derive(Clone, Copy)]
struct JsonValueSeed {
    exact: bool,
}

impl JsonValueSeed {
    fn number(self, digits: &str) -> Value {
        if self.exact {
            return super::number(digits);
        }
        let number = digits.parse::<f64>().ok().and_then(Number::from_f64);
        number.map_or(Value::Null, Value::Number)
    }
}

impl<'de> DeserializeSeed<'de> for JsonValueSeed {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for JsonValueSeed {
    type Value = Value;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any valid JSON value")
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }
    fn visit_i128<E>(self, value: i128) -> Result<Value, E> {
        Ok(self.number(&value.to_string()))
    }
    fn visit_u128<E>(self, value: u128) -> Result<Value, E> {
        Ok(self.number(&value.to_string()))
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }
    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }
    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }
    fn visit_newtype_struct<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.deserialize(deserializer)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut read = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            read.push(item);
        }
        Ok(Value::Array(read))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut read = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            read.insert(key, entries.next_value_seed(self)?);
        }
        let read = Value::Object(read);
        Ok(match super::digits(&read) {
            Some(digits) if !self.exact => self.number(digits),
            _ => read,
        })
    }
    /// A number of YAML with its digits.
    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<Value, A::Error> {
        let (name, content) = data.variant::<String>()?;
        let value = content.newtype_variant::<IgnoredAny>();
        match name.strip_prefix(TAG) {
            Some(digits) => value.map(|_| self.number(digits)),
            None => Err(A::Error::custom("invalid type: a tag")),
        }
    }
}

/// Whether JSON is refused only because a number in it is too large for 64 bits.
#[must_use]
pub fn is_out_of_range(error: &serde_json::Error) -> bool {
    error.to_string().starts_with("number out of range")
}

/// JSON with other text for the numbers for which `replace` gives some; `None` if it gives none.
pub(super) fn replaced(json: &[u8], replace: impl Fn(&str) -> Option<String>) -> Option<Vec<u8>> {
    let mut output = Vec::new();
    let (mut at, mut copied) = (0, 0);
    while at < json.len() {
        match json[at] {
            b'"' => at = end_of_text(json, at + 1),
            b'-' | b'0'..=b'9' => {
                let rest = &json[at..];
                let end = rest.iter().position(|byte| !is_of_number(*byte)).unwrap_or(rest.len());
                let digits = std::str::from_utf8(&rest[..end]).unwrap_or_default();
                if is_number(digits)
                    && let Some(other) = replace(digits)
                {
                    output.extend_from_slice(&json[copied..at]);
                    output.extend_from_slice(other.as_bytes());
                    copied = at + end;
                }
                at += end;
            }
            _ => at += 1,
        }
    }
    if copied == 0 {
        return None;
    }
    output.extend_from_slice(&json[copied..]);
    Some(output)
}

/// Where a text ends that begins before `at`.
fn end_of_text(json: &[u8], mut at: usize) -> usize {
    while let Some(found) = json.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if json[at] == b'"' {
            return at + 1;
        }
        at += 2;
    }
    json.len()
}

fn is_of_number(byte: u8) -> bool {
    byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E')
}

/// Whether a text is a number of JSON (RFC 8259, section 6).
#[must_use]
pub(crate) fn is_number(text: &str) -> bool {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(at) => (&unsigned[..at], Some(&unsigned[at + 1..])),
        None => (unsigned, None),
    };
    let (whole, fraction) = match mantissa.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (mantissa, None),
    };
    digits(whole)
        && (whole == "0" || !whole.starts_with('0'))
        && fraction.is_none_or(digits)
        && exponent.is_none_or(|text| digits(text.strip_prefix(['-', '+']).unwrap_or(text)))
}
