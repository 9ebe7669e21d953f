//! Bodies of requests, and lists of parameters, as written.

use crate::notation::{schema, written_as_its_value};
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use text::digits;

/// A string, a number or a boolean.
#[derive(Clone, Debug)]
pub struct Scalar(pub String);

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        match digits::value(deserializer)? {
            Value::String(text) => Ok(Self(text)),
            other => Ok(Self(digits::to_text(&other))),
        }
    }
}

impl Serialize for Scalar {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

schema!(Scalar, "Scalar", |_| json_schema!({ "type": ["string", "number", "boolean"] }));

/// A value of a parameter, or a list of values of the same name.
#[derive(Clone, Debug)]
pub enum Values {
    /// One.
    One(Scalar),
    /// Several, in order.
    Several(Vec<Scalar>),
}

impl Values {
    /// All values.
    #[must_use]
    pub fn all(&self) -> &[Scalar] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Several(values) => values,
        }
    }
}

impl<'de> Deserialize<'de> for Values {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let scalar = |value: Value| Scalar::deserialize(value).map_err(D::Error::custom);
        Ok(match digits::value(deserializer)? {
            Value::Array(values) => Self::Several(values.into_iter().map(scalar).collect::<Result<_, _>>()?),
            value => Self::One(scalar(value)?),
        })
    }
}

written_as_its_value!(Values: One, Several);

schema!(Values, "Values", |_| json_schema!({
    "description": "A string, a number or a boolean, or a list of them for a name that occurs several times.",
    "anyOf": [
        { "type": "string" }, { "type": "number" }, { "type": "boolean" },
        { "type": "array", "minItems": 1, "items": { "type": ["string", "number", "boolean"] } }
    ]
}));

/// A map whose entries keep the order in which they are written: services may sign a query, or look at its first name.
#[derive(Clone, Debug)]
pub struct OrderedMap<T>(pub Vec<(String, T)>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OrderedMap<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = OrderedMap<T>;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a map")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OrderedMap<T>, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    entries.push(entry);
                }
                Ok(OrderedMap(entries))
            }
        }
        deserializer.deserialize_map(Entries(PhantomData))
    }
}

impl<T: Serialize> Serialize for OrderedMap<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

impl<T: JsonSchema> JsonSchema for OrderedMap<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        std::collections::BTreeMap::<String, T>::schema_name()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        std::collections::BTreeMap::<String, T>::json_schema(generator)
    }
}

/// The value of a header, or the values of its lines, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lines<T> {
    /// One.
    One(T),
    /// Several.
    Several(Vec<T>),
}

impl<T> Lines<T> {
    /// All values.
    #[must_use]
    pub fn all(&self) -> &[T] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Several(values) => values,
        }
    }
}

impl<'de, T: serde::de::DeserializeOwned> Deserialize<'de> for Lines<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let one = |value: Value| T::deserialize(value).map_err(D::Error::custom);
        Ok(match Value::deserialize(deserializer)? {
            Value::Array(values) if values.is_empty() => return Err(D::Error::custom("the list is empty")),
            Value::Array(values) => Self::Several(values.into_iter().map(one).collect::<Result<_, _>>()?),
            value => Self::One(one(value)?),
        })
    }
}

impl<T: Serialize> Serialize for Lines<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::One(value) => value.serialize(serializer),
            Self::Several(values) => values.serialize(serializer),
        }
    }
}

impl<T: JsonSchema> JsonSchema for Lines<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        format!("LinesOf{}", T::schema_name()).into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        // The branches themselves, so that a value is checked as the one that it is meant to be.
        let one = T::json_schema(generator).to_value();
        let mut branches = one["anyOf"].as_array().cloned().unwrap_or_else(|| vec![one.clone()]);
        let item = generator.subschema_for::<T>().to_value();
        branches.push(serde_json::json!({ "type": "array", "minItems": 1, "items": item }));
        json_schema!({
            "description": "A value, or a list of them for a header with several lines.",
            "anyOf": branches
        })
    }
}

/// The fields of a multipart body, in the order in which they are written.
#[derive(Clone, Debug)]
pub struct Multipart(pub Vec<(String, Vec<Field>)>);

/// A field of a multipart body.
#[derive(Clone, Debug)]
pub enum Field {
    /// A text.
    Text(Scalar),
    /// A file.
    File(FilePart),
}

/// A file of a multipart body.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct FilePart {
    /// The file's path, relative to the scenario.
    pub file: String,
    /// The name that the service gets (default: the file's own name). It may contain templates.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filename: Option<String>,
    /// The content type (default: by the file's extension).
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    pub content_type: Option<String>,
}

fn field(value: Value) -> Result<Field, serde_json::Error> {
    match value {
        Value::Object(_) if digits::digits(&value).is_none() => FilePart::deserialize(value).map(Field::File),
        value => Scalar::deserialize(value).map(Field::Text),
    }
}

impl<'de> Deserialize<'de> for Multipart {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = Multipart;
            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a map of fields")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Multipart, A::Error> {
                let mut fields = Vec::new();
                while let Some((name, digits::Exact(value))) = map.next_entry()? {
                    let values = match value {
                        Value::Array(values) => values,
                        value => vec![value],
                    };
                    let values = values.into_iter().map(field).collect::<Result<_, _>>();
                    fields.push((name, values.map_err(A::Error::custom)?));
                }
                Ok(Multipart(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

impl Serialize for Multipart {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, fields)| match fields.as_slice() {
            [one] => (name, FieldNotation::One(one)),
            several => (name, FieldNotation::Several(several)),
        }))
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum FieldNotation<'a> {
    One(&'a Field),
    Several(&'a [Field]),
}

written_as_its_value!(Field: Text, File);

schema!(Multipart, "Multipart", |generator| {
    let file = generator.subschema_for::<FilePart>();
    json_schema!({
        "description": "Fields by name: a text, or {file: PATH, filename: NAME, type: TYPE}, or a list of them.",
        "type": "object",
        "minProperties": 1,
        "additionalProperties": { "anyOf": [
            { "type": "string" }, { "type": "number" }, { "type": "boolean" },
            file,
            { "type": "array", "minItems": 1, "items": { "anyOf": [
                { "type": "string" }, { "type": "number" }, { "type": "boolean" }, file ] } }
        ] }
    })
});
