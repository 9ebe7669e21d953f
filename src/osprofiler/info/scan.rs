//! Reading the JSON of an info without making an object of it: whether one can be made, and the text at some keys. Nothing
//! here may keep more than that.

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// An object that can be read.
pub(super) struct CheckedObject {
    pub(super) is_empty: bool,
}

impl<'de> Deserialize<'de> for CheckedObject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = CheckedObject;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<CheckedObject, A::Error> {
                Ok(CheckedObject { is_empty: check_map(map)? == 0 })
            }
        }
        deserializer.deserialize_map(Object)
    }
}

fn check_map<'de, A: MapAccess<'de>>(mut map: A) -> Result<usize, A::Error> {
    let mut len = 0;
    while map.next_key::<ReadableValue>()?.is_some() {
        map.next_value::<ReadableValue>()?;
        len += 1;
    }
    Ok(len)
}

/// Any value that `serde_json::Value` can hold: all numbers and escapes are read, and nothing is kept.
struct ReadableValue;

impl<'de> Deserialize<'de> for ReadableValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ReadableVisitor;
        impl<'de> Visitor<'de> for ReadableVisitor {
            type Value = ReadableValue;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("any JSON value")
            }

            fn visit_bool<E>(self, _: bool) -> Result<ReadableValue, E> {
                Ok(ReadableValue)
            }

            fn visit_i64<E>(self, _: i64) -> Result<ReadableValue, E> {
                Ok(ReadableValue)
            }

            fn visit_u64<E>(self, _: u64) -> Result<ReadableValue, E> {
                Ok(ReadableValue)
            }

            fn visit_f64<E>(self, _: f64) -> Result<ReadableValue, E> {
                Ok(ReadableValue)
            }

            fn visit_str<E>(self, _: &str) -> Result<ReadableValue, E> {
                Ok(ReadableValue)
            }

            fn visit_unit<E>(self) -> Result<ReadableValue, E> {
                Ok(ReadableValue)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<ReadableValue, A::Error> {
                while list.next_element::<ReadableValue>()?.is_some() {}
                Ok(ReadableValue)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ReadableValue, A::Error> {
                check_map(map).map(|_| ReadableValue)
            }
        }
        deserializer.deserialize_any(ReadableVisitor)
    }
}

/// Finds the text at the end of some keys. As always, the last of equal keys counts.
pub(super) struct KeyPath<'k>(pub(super) &'k [&'k str]);

impl<'de> DeserializeSeed<'de> for KeyPath<'_> {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for KeyPath<'_> {
    type Value = Option<String>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON value")
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(self.0.is_empty().then(|| text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut found, (wanted, rest)) = (None, self.0.split_first().unzip());
        while let Some(is_it) = map.next_key_seed(KeyMatcher(wanted.copied()))? {
            match is_it {
                true => found = map.next_value_seed(KeyPath(rest.unwrap_or_default()))?,
                false => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(found)
    }
}

/// Whether a key is the wanted one.
struct KeyMatcher<'k>(Option<&'k str>);

impl<'de> DeserializeSeed<'de> for KeyMatcher<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for KeyMatcher<'_> {
    type Value = bool;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a key")
    }

    fn visit_str<E>(self, key: &str) -> Result<bool, E> {
        Ok(self.0 == Some(key))
    }
}
