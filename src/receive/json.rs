//! OTLP's JSON as protobuf, so that spans take the same way whatever they came as.
//!
//! Nothing of a span is lost, links and flags included. No tree of values is built: the fields are written while the
//! text is read, and the output is not longer than the input. The depth is bounded by the JSON reader.
//!
//! Source: the OTLP specification 1.9, "JSON Protobuf Encoding": names in lowerCamelCase, ids in hexadecimal digits,
//! 64-bit numbers as texts or numbers, enums as numbers; unknown names are ignored. Names of enums are read, too.

use std::fmt;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::schema::{self, Field, Kind, Schema};
use super::wire::push_varint;
use crate::base::hex;

const ANY_PADDING: GeneralPurposeConfig =
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
const BASE64: GeneralPurpose = GeneralPurpose::new(&alphabet::STANDARD, ANY_PADDING);
const BASE64_OF_URLS: GeneralPurpose = GeneralPurpose::new(&alphabet::URL_SAFE, ANY_PADDING);

const VARINT: u32 = 0;
const FIXED64: u32 = 1;
const BYTES: u32 = 2;
const FIXED32: u32 = 5;

/// An `ExportTraceServiceRequest` in JSON, as protobuf. Ids may have any length.
///
/// # Errors
/// If it is not JSON of that structure.
pub fn to_protobuf(body: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let mut output = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    deserializer.deserialize_map(Message { schema: &schema::REQUEST, output: &mut output })?;
    deserializer.end()?;
    Ok(output)
}

/// An object, written as the fields of a message.
struct Message<'o> {
    schema: &'static Schema,
    output: &'o mut Vec<u8>,
}

impl<'de> Visitor<'de> for Message<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of OTLP")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(field) = map.next_key_seed(Name(self.schema))? {
            match field {
                Some(field) => map.next_value_seed(Content { field, in_list: false, output: self.output })?,
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// A key of an object: a field of this schema, or unknown.
struct Name(&'static Schema);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Option<&'static Field>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Option<&'static Field>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        Ok(self.0.named(name))
    }
}

/// A field's value, or an element of it.
struct Content<'o> {
    field: &'static Field,
    in_list: bool,
    output: &'o mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Content<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Content<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a value of {}", self.field.name)
    }

    /// In JSON, null is the same as no value.
    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        if self.in_list || !self.field.is_repeated {
            return Err(self.unexpected());
        }
        let Self { field, output, .. } = self;
        while list.next_element_seed(Content { field, in_list: true, output: &mut *output })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, map: A) -> Result<(), A::Error> {
        let Kind::Message(schema) = self.field.kind else { return Err(self.unexpected()) };
        self.check_place()?;
        self.key(BYTES);
        let start = self.output.len();
        Message { schema, output: self.output }.visit_map(map)?;
        let mut length = Vec::with_capacity(10);
        push_varint(&mut length, (self.output.len() - start) as u64);
        self.output.splice(start..start, length);
        Ok(())
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<(), E> {
        match self.field.kind {
            Kind::Bool => self.varint(u64::from(value)),
            _ => Err(self.unexpected()),
        }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.integer(i128::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.integer(i128::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<(), E> {
        match self.field.kind {
            Kind::Double => self.double(value),
            // Every such number is an i128, too.
            _ if value.fract() == 0.0 && value.abs() < 2_f64.powi(65) => self.integer(value as i128),
            _ => Err(self.unexpected()),
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        match self.field.kind {
            Kind::Text => self.bytes(text.as_bytes()),
            Kind::Id => match digits(text) {
                Some(id) => self.bytes(&id),
                None => Err(self.unexpected()),
            },
            Kind::Bytes => match BASE64.decode(text).or_else(|_| BASE64_OF_URLS.decode(text)) {
                Ok(bytes) => self.bytes(&bytes),
                Err(_) => Err(self.unexpected()),
            },
            Kind::Enum(names) => match names.iter().position(|name| *name == text) {
                Some(number) => self.varint(number as u64),
                None => Err(self.unexpected()),
            },
            Kind::Double => match text.parse() {
                Ok(value) => self.double(value),
                Err(_) => Err(self.unexpected()),
            },
            Kind::Int64 | Kind::Uint32 | Kind::Fixed64 | Kind::Fixed32 => match text.parse() {
                Ok(number) => self.integer(number),
                Err(_) => Err(self.unexpected()),
            },
            Kind::Bool | Kind::Message(_) => Err(self.unexpected()),
        }
    }
}

impl Content<'_> {
    fn integer<E: Error>(mut self, number: i128) -> Result<(), E> {
        let signed = i64::try_from(number).ok();
        let unsigned = u64::try_from(number).ok();
        let short = u32::try_from(number).ok();
        match (self.field.kind, signed, unsigned, short) {
            (Kind::Int64, Some(number), _, _) => self.varint(number.cast_unsigned()),
            (Kind::Enum(_), Some(number), _, _) if i32::try_from(number).is_ok() => {
                self.varint(number.cast_unsigned())
            }
            (Kind::Uint32, _, _, Some(number)) => self.varint(u64::from(number)),
            (Kind::Double, ..) => self.double(number as f64),
            (Kind::Fixed64, _, Some(number), _) => self.fixed(FIXED64, &number.to_le_bytes()),
            (Kind::Fixed32, _, _, Some(number)) => self.fixed(FIXED32, &number.to_le_bytes()),
            _ => Err(self.unexpected()),
        }
    }

    fn varint<E: Error>(mut self, value: u64) -> Result<(), E> {
        self.check_place()?;
        self.key(VARINT);
        push_varint(self.output, value);
        Ok(())
    }

    fn double<E: Error>(mut self, value: f64) -> Result<(), E> {
        self.fixed(FIXED64, &value.to_le_bytes())
    }

    fn fixed<E: Error>(&mut self, wire_type: u32, bytes: &[u8]) -> Result<(), E> {
        self.check_place()?;
        self.key(wire_type);
        self.output.extend_from_slice(bytes);
        Ok(())
    }

    fn bytes<E: Error>(mut self, bytes: &[u8]) -> Result<(), E> {
        self.check_place()?;
        self.key(BYTES);
        push_varint(self.output, bytes.len() as u64);
        self.output.extend_from_slice(bytes);
        Ok(())
    }

    fn key(&mut self, wire_type: u32) {
        push_varint(self.output, u64::from((self.field.number << 3) | wire_type));
    }

    /// A repeated field is a list, and only that.
    fn check_place<E: Error>(&self) -> Result<(), E> {
        if self.in_list == self.field.is_repeated { Ok(()) } else { Err(self.unexpected()) }
    }

    fn unexpected<E: Error>(&self) -> E {
        E::custom(format_args!("{} has an invalid value", self.field.name))
    }
}

fn digits(text: &str) -> Option<Vec<u8>> {
    text.as_bytes().chunks(2).map(hex::first_byte).collect()
}
