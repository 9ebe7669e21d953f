//! What the members of a JSON document's outermost object are, without their values: enough to tell the format of a file,
//! at a fraction of the cost of a tree of values.

use std::collections::HashMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// The members of an object, by their names. Of two with a name, the last one counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Shape(HashMap<String, Member>);

/// A value.
#[derive(Clone, Debug)]
pub(super) enum Member {
    Text,
    List,
    Object(Shape),
    /// A number, a boolean or null.
    Other,
}

impl Shape {
    /// The shape of a document; `None` if it is no object, or no JSON.
    pub(super) fn of(document: &[u8]) -> Option<Self> {
        match serde_json::from_slice(document).ok()? {
            Member::Object(shape) => Some(shape),
            _ => None,
        }
    }

    /// The shape of a value that was read; empty if it is no object.
    pub(super) fn of_value(value: &Value) -> Self {
        let member = |value: &Value| match value {
            Value::String(_) => Member::Text,
            Value::Array(_) => Member::List,
            Value::Object(_) => Member::Object(Self::of_value(value)),
            _ => Member::Other,
        };
        let members = value.as_object().into_iter().flatten();
        Self(members.map(|(name, value)| (name.clone(), member(value))).collect())
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }

    pub(super) fn is_text(&self, key: &str) -> bool {
        matches!(self.0.get(key), Some(Member::Text))
    }

    pub(super) fn is_list(&self, key: &str) -> bool {
        matches!(self.0.get(key), Some(Member::List))
    }

    /// An object within.
    pub(super) fn object(&self, key: &str) -> Option<&Self> {
        match self.0.get(key)? {
            Member::Object(shape) => Some(shape),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Member {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MemberVisitor)
    }
}

struct MemberVisitor;

impl<'de> Visitor<'de> for MemberVisitor {
    type Value = Member;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Member, A::Error> {
        let mut shape = Shape::default();
        while let Some((name, member)) = map.next_entry::<String, Member>()? {
            shape.0.insert(name, member);
        }
        Ok(Member::Object(shape))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Member, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Member::List)
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<Member, E> {
        Ok(Member::Text)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<Member, E> {
        Ok(Member::Other)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<Member, E> {
        Ok(Member::Other)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Member, E> {
        Ok(Member::Other)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<Member, E> {
        Ok(Member::Other)
    }

    fn visit_unit<E: Error>(self) -> Result<Member, E> {
        Ok(Member::Other)
    }
}
