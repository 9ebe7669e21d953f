//! Messages as JSON, and JSON as messages, by [protobuf's JSON mapping], with one difference: integers of 64 bits are
//! numbers with all their digits, not texts, so that checks can compare them. Both are read.
//!
//! [protobuf's JSON mapping]: https://protobuf.dev/programming-guides/json/

use std::fmt;

use prost::Message as _;
use prost_reflect::{DeserializeOptions, DynamicMessage, Kind, MessageDescriptor, SerializeOptions};
use serde_json::{Map, Value};
use serde_path_to_error::{Deserializer, Path, Segment, Track};

/// Why JSON is no message of a type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MisfitError {
    /// The name of the type.
    message: String,
    /// Where in the JSON.
    pub place: Vec<PlacePart>,
    /// What is wrong there.
    reason: String,
}

/// A part of a place in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlacePart {
    /// A key of an object.
    Key(String),
    /// The number of an item in a list, from 0.
    Item(usize),
}

/// In words, such as `the message is no shop.v1.Order: $.items[0].amount is no int32: invalid digit found in string`.
impl fmt::Display for MisfitError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the message is no {}: $", self.message)?;
        for part in &self.place {
            match part {
                PlacePart::Key(key) => write!(formatter, ".{key}")?,
                PlacePart::Item(number) => write!(formatter, "[{number}]")?,
            }
        }
        formatter.write_str(&self.reason)
    }
}

/// The bytes of a message that is given as JSON.
///
/// # Errors
/// What does not fit, with its place and the type that belongs there.
pub fn encode(descriptor: MessageDescriptor, json: &str) -> Result<Vec<u8>, MisfitError> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let mut track = Track::new();
    let tracked = Deserializer::new(&mut deserializer, &mut track);
    let options = DeserializeOptions::new();
    let message = DynamicMessage::deserialize_with_options(descriptor.clone(), tracked, &options);
    let message = message.map_err(|error| misfit(&descriptor, &track.path(), &error))?;
    Ok(message.encode_to_vec())
}

fn misfit(descriptor: &MessageDescriptor, path: &Path, error: &serde_json::Error) -> MisfitError {
    let parts = path.iter().filter_map(|segment| match segment {
        Segment::Map { key } => Some(PlacePart::Key(key.clone())),
        Segment::Seq { index } => Some(PlacePart::Item(*index)),
        Segment::Enum { variant } => Some(PlacePart::Key(variant.clone())),
        Segment::Unknown => None,
    });
    let place: Vec<PlacePart> = parts.collect();
    let text = error.to_string();
    let said = without_position(&text);
    let reason = match kind_at(descriptor, &place) {
        Some(kind) => format!(" is no {}: {said}", name_of(&kind)),
        None => format!(": {said}"),
    };
    MisfitError { message: descriptor.full_name().to_owned(), place, reason }
}

/// The type of the value at a place; `None` for the message itself and for what its type does not have.
fn kind_at(descriptor: &MessageDescriptor, place: &[PlacePart]) -> Option<Kind> {
    let mut kind = Kind::Message(descriptor.clone());
    for part in place {
        let (Kind::Message(message), PlacePart::Key(key)) = (&kind, part) else { continue };
        let field = if message.is_map_entry() {
            message.map_entry_value_field()
        } else {
            message.get_field_by_json_name(key).or_else(|| message.get_field_by_name(key))?
        };
        kind = field.kind();
    }
    (!place.is_empty()).then_some(kind)
}

/// True if a text belongs at this place of a message.
#[must_use]
pub fn is_text(descriptor: &MessageDescriptor, place: &[PlacePart]) -> bool {
    matches!(kind_at(descriptor, place), Some(Kind::String))
}

/// The name of a type as `.proto` files have it.
fn name_of(kind: &Kind) -> String {
    match kind {
        Kind::Message(message) => message.full_name().to_owned(),
        Kind::Enum(of) => {
            let names: Vec<String> = of.values().map(|value| value.name().to_owned()).collect();
            format!("{} ({})", of.full_name(), names.join(", "))
        }
        scalar => format!("{scalar:?}").to_lowercase(),
    }
}

/// How deep messages within messages are shown in examples.
const EXAMPLE_DEPTH_MAX: usize = 3;

/// A message of a type with a value for each of its fields, as JSON, to be changed.
#[must_use]
pub fn example(descriptor: &MessageDescriptor) -> Value {
    example_at(descriptor, 0)
}

fn example_at(descriptor: &MessageDescriptor, depth: usize) -> Value {
    let mut message = Map::new();
    if depth >= EXAMPLE_DEPTH_MAX || descriptor.package_name() == "google.protobuf" {
        return well_known(descriptor.full_name());
    }
    let mut choices = Vec::new();
    for field in descriptor.fields() {
        // Of a `oneof`, only one field may be there.
        if let Some(oneof) = field.containing_oneof() {
            if choices.contains(&oneof) {
                continue;
            }
            choices.push(oneof);
        }
        let one = match field.kind() {
            _ if field.is_map() => Value::Object(Map::new()),
            Kind::Message(of) => example_at(&of, depth + 1),
            Kind::Enum(of) => of
                .values()
                .nth(1)
                .or_else(|| of.values().next())
                .map_or(Value::Null, |value| value.name().into()),
            Kind::Bool => false.into(),
            Kind::String | Kind::Bytes => "".into(),
            _ => 0.into(),
        };
        message.insert(
            field.json_name().to_owned(),
            if field.is_list() { Value::Array(vec![one]) } else { one },
        );
    }
    Value::Object(message)
}

/// A value of a well-known type, in its own notation.
fn well_known(name: &str) -> Value {
    match name {
        "google.protobuf.Timestamp" => "2026-01-01T00:00:00Z".into(),
        "google.protobuf.Duration" => "1s".into(),
        "google.protobuf.FieldMask" | "google.protobuf.StringValue" | "google.protobuf.BytesValue" => {
            "".into()
        }
        "google.protobuf.BoolValue" => false.into(),
        "google.protobuf.Value" => Value::Null,
        "google.protobuf.ListValue" => Value::Array(Vec::new()),
        _ if name.ends_with("Value") && name.starts_with("google.protobuf.") => 0.into(),
        _ => Value::Object(Map::new()),
    }
}

/// Removes line and column from an error: they count in the rendered text, which the user did not write.
fn without_position(error: &str) -> &str {
    error.split_once(" at line ").map_or(error, |(text, _)| text)
}

/// A message as JSON.
///
/// # Errors
/// Bytes that are no message of this type.
pub fn decode(descriptor: MessageDescriptor, bytes: &[u8]) -> Result<Value, String> {
    let name = descriptor.full_name().to_owned();
    let wrong = |reason: String| format!("it is no {name}: {reason}");
    let message = DynamicMessage::decode(descriptor, bytes).map_err(|error| wrong(error.to_string()))?;
    let options = SerializeOptions::new().stringify_64_bit_integers(false);
    let json = message.serialize_with_options(serde_json::value::Serializer, &options);
    json.map_err(|error| wrong(error.to_string()))
}
