//! Conditions on a value, as written: the value itself, or a map of comparisons.

use crate::notation::{schema, written_as_its_value};
use schemars::{JsonSchema, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use text::digits;

/// A condition on a value: the value that it must have, or comparisons.
#[derive(Clone, Debug)]
pub enum Condition {
    /// Anything but a map.
    Value(Value),
    /// A map.
    Comparisons(Box<Comparisons>),
}

/// A condition on a text. Text alone means `equals` for a header and `contains` for a body.
#[derive(Clone, Debug)]
pub struct TextCondition(pub Condition);

/// Comparisons with a value. If there are several, all must hold.
///
/// A value that is not there meets none of them but `exists: false` and `not`. Strings in them may contain templates,
/// except in `matches`.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
#[schemars(extend("minProperties" = 1, "literal" = "equals"))]
pub struct Comparisons {
    /// It equals this. For numbers, 1 equals 1.0. Maps that are meant literally are written here.
    #[serde(default, deserialize_with = "digits::option", skip_serializing_if = "Option::is_none")]
    pub equals: Option<Value>,
    /// The same as `equals`.
    #[serde(default, deserialize_with = "digits::option", skip_serializing_if = "Option::is_none")]
    pub eq: Option<Value>,
    /// It does not equal this.
    #[serde(default, deserialize_with = "digits::option", skip_serializing_if = "Option::is_none")]
    pub ne: Option<Value>,
    /// It is a number above this. A text that is a number, such as that of a header, counts as a number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gt: Option<Bound>,
    /// It is a number of at least this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ge: Option<Bound>,
    /// It is a number below this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lt: Option<Bound>,
    /// It is a number of at most this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub le: Option<Bound>,
    /// It does not meet this condition. A value that is not there does not meet it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub not: Option<Condition>,
    /// The number of characters of a text, items of a list or keys of a map is this, or meets this condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub length: Option<Length>,
    /// It has this type, or one of these types. Whole numbers such as 2.0 are of type `integer`, too.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub kind: Option<Types>,
    /// This is a part of a text, an item of a list, or a key of a map.
    #[serde(default, deserialize_with = "digits::option", skip_serializing_if = "Option::is_none")]
    pub contains: Option<Value>,
    /// This regular expression matches somewhere in the text.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub matches: Option<String>,
    /// It equals one of these.
    #[schemars(length(min = 1))]
    #[serde(default, deserialize_with = "digits::list", skip_serializing_if = "Option::is_none")]
    pub one_of: Option<Vec<Value>>,
    /// `true`: there is a value, whatever it is. `false`: there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exists: Option<bool>,
}

/// A number, or a text with templates that becomes one.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Bound(#[serde(deserialize_with = "digits::value")] pub Value);

/// A length, or a condition on it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Length(pub Condition);

/// A type of JSON values, or a list of them.
#[derive(Clone, Debug)]
pub struct Types(pub Vec<JsonType>);

/// A type of JSON values.
#[derive(Clone, Copy, Debug, Deserialize, Eq, JsonSchema, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub enum JsonType {
    /// A text.
    String,
    /// A number.
    Number,
    /// A number without a fraction.
    Integer,
    /// `true` or `false`.
    Boolean,
    /// A list.
    Array,
    /// A map.
    Object,
    /// `null`.
    Null,
}

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match digits::value(deserializer)? {
            map @ Value::Object(_) if digits::digits(&map).is_none() => {
                serde_json::from_value(map).map(Self::Comparisons).map_err(serde::de::Error::custom)
            }
            value => Ok(Self::Value(value)),
        }
    }
}

written_as_its_value!(Condition: Value, Comparisons);

schema!(Condition, "Condition", |generator| {
    let comparisons = generator.subschema_for::<Comparisons>();
    json_schema!({
        "description": "A value that it must equal, or comparisons such as {gt: 3}. If there are several, all must hold.",
        "anyOf": [comparisons, { "not": { "type": "object" } }]
    })
});

impl<'de> Deserialize<'de> for TextCondition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Condition::deserialize(deserializer).map(Self)
    }
}

impl Serialize for TextCondition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

schema!(TextCondition, "TextCondition", |generator| {
    let comparisons = generator.subschema_for::<Comparisons>();
    json_schema!({
        "description": "Text, or comparisons such as {contains: TEXT}, {matches: REGEX} or {gt: 3}. Text alone means \
            `equals` for a header and `contains` for a body.",
        "anyOf": [{ "type": "string" }, comparisons]
    })
});

schema!(Bound, "Bound", inline, |_| json_schema!({ "type": ["number", "string"] }));

schema!(Length, "Length", inline, |generator| {
    let comparisons = generator.subschema_for::<Comparisons>();
    json_schema!({ "anyOf": [{ "type": "integer", "minimum": 0 }, comparisons, { "type": "string" }] })
});

impl<'de> Deserialize<'de> for Types {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = digits::rounded(deserializer)?;
        let list = if let Value::Array(_) = value { value } else { Value::Array(vec![value]) };
        serde_json::from_value(list).map(Self).map_err(serde::de::Error::custom)
    }
}

impl Serialize for Types {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [one] => one.serialize(serializer),
            several => several.serialize(serializer),
        }
    }
}

schema!(Types, "Types", inline, |_| {
    let names = ["string", "number", "integer", "boolean", "array", "object", "null"];
    let one = json_schema!({ "type": "string", "enum": names });
    json_schema!({ "anyOf": [one, { "type": "array", "minItems": 1, "items": one }] })
});
