//! OTLP's JSON as protobuf, so that spans take the same way whatever they came as. There is one reader for what a
//! receiver is sent, what a backend answers, and what is in a file.
//!
//! Nothing of a span is lost, links and flags included. No tree of values is built: the fields are written while the
//! text is read, and the output is not longer than the input. The depth is bounded by the JSON reader.
//!
//! [`to_protobuf`] is for a receiver: whatever is invalid is an error, so that the sender learns of it. `of_answer` is
//! for answers of backends and for files, from which as much as possible is wanted. A value that cannot be read is left
//! out and counted, ids may be in base64, and the names of Tempo and of older releases are known.
//!
//! Source: the OTLP specification 1.9, "JSON Protobuf Encoding": names in lowerCamelCase, ids in hexadecimal digits,
//! 64-bit numbers as texts or numbers, enums as numbers; unknown names are ignored. Names of enums are read, too, and so are
//! the two halves that JavaScript's protobuf library makes of a number of 64 bits (open-telemetry/opentelemetry-js#4202).

use std::fmt;
use std::ops::Range;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::schema::{self, MessageField, MessageFieldKind, Schema};
use super::{Faults, SpanError, surrogates};
use base::hex;
use base::parallel;

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
    strictly(body).or_else(|error| surrogates::replaced(body).map_or(Err(error), |body| strictly(&body)))
}

fn strictly(body: &[u8]) -> Result<Vec<u8>, serde_json::Error> {
    let mut output = Output { bytes: Vec::new(), faults: None, at_once: false };
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    deserializer.deserialize_map(Message { schema: &schema::REQUEST, output: &mut output })?;
    deserializer.end()?;
    Ok(output.bytes)
}

/// An answer that was translated.
#[derive(Debug, Default)]
pub(super) struct TranslatedRequest {
    /// The request in protobuf.
    pub(super) bytes: Vec<u8>,
    /// Values that cannot be read, which are left out.
    pub(super) faults: Faults,
    /// Why the trace is only a part, if the backend says that it is.
    pub(super) partial: Option<String>,
}

/// A request in JSON, an answer of Tempo, or what Grafana saves.
///
/// # Errors
/// If it is not JSON, or no object.
pub(super) fn of_answer(body: &[u8]) -> Result<TranslatedRequest, SpanError> {
    let at_once = body.len() >= BYTES_AT_ONCE_MIN;
    // An error in a part does not know where in the whole it is.
    of_answer_with(body, at_once)
        .or_else(|error| if at_once { of_answer_with(body, false) } else { Err(error) })
        .or_else(|error| surrogates::replaced(body).map_or(Err(error), |body| of_answer_with(&body, false)))
}

/// The spans of a shorter answer are not worth a thread.
const BYTES_AT_ONCE_MIN: usize = 1 << 20;
const SPANS_OF_THREAD_MIN: usize = 1_000;

fn of_answer_with(body: &[u8], at_once: bool) -> Result<TranslatedRequest, SpanError> {
    let mut output = Output { at_once, ..Output::lenient() };
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    let (mut status, mut message) = (IsPartial(false), None);
    deserializer
        .deserialize_map(TempoAnswerVisitor {
            output: &mut output,
            status: &mut status,
            message: &mut message,
        })
        .and_then(|()| deserializer.end())
        .map_err(SpanError::Json)?;
    let partial = status.0.then(|| message.unwrap_or_default());
    Ok(TranslatedRequest { bytes: output.bytes, faults: output.faults.unwrap_or_default(), partial })
}

/// Protobuf that is being written.
struct Output {
    bytes: Vec<u8>,
    /// Where values that cannot be read are counted; `None` if one is an error.
    faults: Option<Faults>,
    /// Whether spans are read on all processors at once.
    at_once: bool,
}

impl Output {
    fn lenient() -> Self {
        Self { bytes: Vec::new(), faults: Some(Faults::default()), at_once: false }
    }
}

/// The outermost object of an answer: the request, or around it what Tempo says of it.
struct TempoAnswerVisitor<'o> {
    output: &'o mut Output,
    status: &'o mut IsPartial,
    message: &'o mut Option<String>,
}

/// Whether Tempo says that a trace is only a part.
#[derive(Default)]
struct IsPartial(bool);

impl<'de> serde::Deserialize<'de> for IsPartial {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let status = serde_json::Value::deserialize(deserializer)?;
        Ok(Self(status == 1 || status.as_str().is_some_and(|name| name.ends_with("PARTIAL"))))
    }
}

impl<'de> Visitor<'de> for TempoAnswerVisitor<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of OTLP")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let known = Message { schema: &schema::REQUEST, output: self.output };
        while let Some(name) = map.next_key::<std::borrow::Cow<'_, str>>()? {
            let schema = &schema::REQUEST;
            match (&*name, schema.named(&name).or_else(|| schema.named_before(&name))) {
                (_, Some(field)) => {
                    map.next_value_seed(FieldValueSeed {
                        field,
                        in_list: false,
                        output: &mut *known.output,
                    })?;
                }
                ("trace", None) => map.next_value_seed(NestedRequestSeed(&mut *known.output))?,
                ("status", None) => *self.status = map.next_value()?,
                ("message", None) => {
                    let message: serde_json::Value = map.next_value()?;
                    *self.message = message.as_str().map(str::to_owned);
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// The request within an answer, or null for a trace that is not known.
struct NestedRequestSeed<'o>(&'o mut Output);

impl<'de> DeserializeSeed<'de> for NestedRequestSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for NestedRequestSeed<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a trace")
    }

    fn visit_none<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(Message { schema: &schema::REQUEST, output: self.0 })
    }
}

/// An object, written as the fields of a message.
struct Message<'o> {
    schema: &'static Schema,
    output: &'o mut Output,
}

impl<'de> Visitor<'de> for Message<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of OTLP")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let is_lenient = self.output.faults.is_some();
        while let Some(field) = map.next_key_seed(Name { schema: self.schema, is_lenient })? {
            match field {
                Some(field) => {
                    map.next_value_seed(FieldValueSeed { field, in_list: false, output: self.output })?
                }
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// A key of an object: a field of this schema, or unknown.
struct Name {
    schema: &'static Schema,
    /// Whether names of older releases are known.
    is_lenient: bool,
}

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Option<&'static MessageField>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Option<&'static MessageField>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a name")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        let before = || if self.is_lenient { self.schema.named_before(name) } else { None };
        Ok(self.schema.named(name).or_else(before))
    }
}

/// A field's value, or an element of it.
struct FieldValueSeed<'o> {
    field: &'static MessageField,
    in_list: bool,
    output: &'o mut Output,
}

impl<'de> DeserializeSeed<'de> for FieldValueSeed<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FieldValueSeed<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "a value of {}", self.field.name)
    }

    /// In JSON, null is the same as no value.
    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        if self.in_list || !self.field.is_repeated {
            while list.next_element::<IgnoredAny>()?.is_some() {}
            return self.unexpected(&"a list");
        }
        let Self { field, output, .. } = self;
        if output.at_once
            && matches!(field.kind, MessageFieldKind::Message(schema) if std::ptr::eq(schema, &schema::SPAN))
        {
            return at_once(field, output, list);
        }
        while list.next_element_seed(FieldValueSeed { field, in_list: true, output: &mut *output })?.is_some()
        {
        }
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        if matches!(self.field.kind, MessageFieldKind::Fixed64 | MessageFieldKind::Int64) {
            return self.halves(map);
        }
        let schema = match self.field.kind {
            MessageFieldKind::Message(schema) if self.is_in_place() => schema,
            _ => {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                return self.unexpected(&"an object");
            }
        };
        self.key(BYTES);
        let start = self.output.bytes.len();
        Message { schema, output: self.output }.visit_map(map)?;
        let mut length = Vec::with_capacity(10);
        push_varint(&mut length, (self.output.bytes.len() - start) as u64);
        self.output.bytes.splice(start..start, length);
        Ok(())
    }

    fn visit_bool<E: Error>(mut self, value: bool) -> Result<(), E> {
        match self.field.kind {
            MessageFieldKind::Bool => self.varint(u64::from(value)),
            _ => self.unexpected(&value),
        }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<(), E> {
        self.integer(i128::from(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<(), E> {
        self.integer(i128::from(value))
    }

    fn visit_f64<E: Error>(mut self, value: f64) -> Result<(), E> {
        match self.field.kind {
            MessageFieldKind::Double => self.double(value),
            // Every such number is an i128, too.
            _ if value.fract() == 0.0 && value.abs() < 2_f64.powi(65) => self.integer(value as i128),
            _ if value.fract() == 0.0 && self.is_any_integer() => self.beyond_integers(value),
            _ => self.unexpected(&value),
        }
    }

    fn visit_str<E: Error>(mut self, text: &str) -> Result<(), E> {
        match self.field.kind {
            MessageFieldKind::Text => self.bytes(text.as_bytes()),
            MessageFieldKind::Id => match self.id(text) {
                Some(id) => self.bytes(&id),
                None => self.unexpected(&text),
            },
            MessageFieldKind::Bytes => match BASE64.decode(text).or_else(|_| BASE64_OF_URLS.decode(text)) {
                Ok(bytes) => self.bytes(&bytes),
                Err(_) => self.unexpected(&text),
            },
            MessageFieldKind::Enum(names) => match names.iter().position(|name| *name == text) {
                Some(number) => self.varint(number as u64),
                None => self.unexpected(&text),
            },
            MessageFieldKind::Double => match text.parse() {
                Ok(value) => self.double(value),
                Err(_) => self.unexpected(&text),
            },
            MessageFieldKind::Int64
            | MessageFieldKind::Uint32
            | MessageFieldKind::Fixed64
            | MessageFieldKind::Fixed32 => {
                match (text.parse(), text.parse()) {
                    (Ok(number), _) => self.integer(number),
                    // With an exponent.
                    (_, Ok(number)) if f64::fract(number) == 0.0 => self.visit_f64(number),
                    _ => self.unexpected(&text),
                }
            }
            MessageFieldKind::Bool | MessageFieldKind::Message(_) => self.unexpected(&text),
        }
    }
}

/// The elements of a list, each written by itself.
fn at_once<'de, A: SeqAccess<'de>>(
    field: &'static MessageField,
    output: &mut Output,
    mut list: A,
) -> Result<(), A::Error> {
    let mut elements: Vec<&RawValue> = Vec::new();
    while let Some(element) = list.next_element()? {
        elements.push(element);
    }
    let written = |range: Range<usize>| {
        let mut output = Output::lenient();
        for element in &elements[range] {
            let content = FieldValueSeed { field, in_list: true, output: &mut output };
            content.deserialize(&mut serde_json::Deserializer::from_str(element.get()))?;
        }
        Ok::<_, serde_json::Error>(output)
    };
    for part in parallel::map(parallel::ranges(elements.len(), SPANS_OF_THREAD_MIN), written) {
        let part = part.map_err(A::Error::custom)?;
        output.bytes.extend(part.bytes);
        if let (Some(faults), Some(more)) = (&mut output.faults, part.faults) {
            faults.count += more.count;
            faults.first = faults.first.take().or(more.first);
        }
    }
    Ok(())
}

impl FieldValueSeed<'_> {
    fn integer<E: Error>(mut self, number: i128) -> Result<(), E> {
        let signed = i64::try_from(number).ok();
        let unsigned = u64::try_from(number).ok();
        let short = u32::try_from(number).ok();
        match (self.field.kind, signed, unsigned, short) {
            (MessageFieldKind::Int64, Some(number), _, _) => self.varint(number.cast_unsigned()),
            (MessageFieldKind::Enum(_), Some(number), _, _) if i32::try_from(number).is_ok() => {
                self.varint(number.cast_unsigned())
            }
            (MessageFieldKind::Uint32, _, _, Some(number)) => self.varint(u64::from(number)),
            (MessageFieldKind::Double, ..) => self.double(number as f64),
            (MessageFieldKind::Int64, None, ..) if self.is_any_integer() => {
                self.beyond_integers(number as f64)
            }
            (MessageFieldKind::Fixed64, _, Some(number), _) => self.fixed(FIXED64, &number.to_le_bytes()),
            (MessageFieldKind::Fixed32, _, _, Some(number)) => self.fixed(FIXED32, &number.to_le_bytes()),
            _ => self.unexpected(&number),
        }
    }

    /// Whether it is a number of an attribute, for which there is another kind.
    fn is_any_integer(&self) -> bool {
        std::ptr::eq(self.field, schema::any_integer())
    }

    /// A whole number that 64 bits do not hold, as JavaScript's SDK writes it.
    fn beyond_integers<E: Error>(self, value: f64) -> Result<(), E> {
        FieldValueSeed { field: schema::any_double(), ..self }.double(value)
    }

    /// A number of 64 bits as two of 32, which may have a sign, as JavaScript's protobuf library has it.
    fn halves<'de, A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let (mut low, mut high, mut is_known) = (None, None, true);
        while let Some(name) = map.next_key::<std::borrow::Cow<'_, str>>()? {
            let value: serde_json::Value = map.next_value()?;
            match &*name {
                "low" => low = half(&value),
                "high" => high = half(&value),
                "unsigned" => {}
                _ => is_known = false,
            }
        }
        let (Some(low), Some(high), true) = (low, high, is_known) else {
            return self.unexpected(&"an object");
        };
        let number = (u64::from(high) << 32) | u64::from(low);
        match self.field.kind {
            MessageFieldKind::Int64 => self.integer(i128::from(number.cast_signed())),
            _ => self.integer(i128::from(number)),
        }
    }

    /// The bytes of an id. If it is none and that is no error, its text: the reader of the spans then names it.
    fn id(&self, text: &str) -> Option<Vec<u8>> {
        if self.output.faults.is_none() {
            return digits(text);
        }
        let of_base64 = || BASE64.decode(text).ok().filter(|bytes| [8, 16].contains(&bytes.len()));
        let is_valid = |bytes: &Vec<u8>| [0, 8, 16].contains(&bytes.len());
        let known = digits(text).filter(is_valid).or_else(of_base64);
        Some(known.unwrap_or_else(|| text.bytes().take(ID_BYTES_SHOWN).collect()))
    }

    fn varint<E: Error>(mut self, value: u64) -> Result<(), E> {
        if !self.is_in_place() {
            return self.unexpected(&value);
        }
        self.key(VARINT);
        push_varint(&mut self.output.bytes, value);
        Ok(())
    }

    fn double<E: Error>(mut self, value: f64) -> Result<(), E> {
        self.fixed(FIXED64, &value.to_le_bytes())
    }

    fn fixed<E: Error>(&mut self, wire_type: u32, bytes: &[u8]) -> Result<(), E> {
        if !self.is_in_place() {
            return self.unexpected(&"a number");
        }
        self.key(wire_type);
        self.output.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn bytes<E: Error>(mut self, bytes: &[u8]) -> Result<(), E> {
        if !self.is_in_place() {
            return self.unexpected(&"a text");
        }
        self.key(BYTES);
        push_varint(&mut self.output.bytes, bytes.len() as u64);
        self.output.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn key(&mut self, wire_type: u32) {
        push_varint(&mut self.output.bytes, u64::from((self.field.number << 3) | wire_type));
    }

    /// A repeated field is a list, and only that.
    fn is_in_place(&self) -> bool {
        self.in_list == self.field.is_repeated
    }

    /// A value that the field cannot have.
    fn unexpected<E: Error>(&mut self, value: &dyn fmt::Display) -> Result<(), E> {
        let name = self.field.name;
        match &mut self.output.faults {
            None => Err(E::custom(format_args!("{name} has an invalid value"))),
            Some(faults) => {
                faults.add(|| {
                    let value = crate::record::bounded_text(value, VALUE_BYTES_SHOWN);
                    format!("{name} has an invalid value: {value}")
                });
                Ok(())
            }
        }
    }
}

/// This much of a text that is no id, or of another value that cannot be read, is shown.
const ID_BYTES_SHOWN: usize = 40;
const VALUE_BYTES_SHOWN: usize = 60;

fn half(value: &serde_json::Value) -> Option<u32> {
    let number = value.as_i64().or_else(|| {
        let number = value.as_f64().filter(|number| number.fract() == 0.0)?;
        (number.abs() < 2_f64.powi(33)).then_some(number as i64)
    })?;
    u32::try_from(number).ok().or_else(|| i32::try_from(number).ok().map(i32::cast_unsigned))
}

/// Appends a number.
pub fn push_varint(output: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        output.push((value as u8 & 0x7f) | 0x80);
        value >>= 7;
    }
    output.push(value as u8);
}

fn digits(text: &str) -> Option<Vec<u8>> {
    text.as_bytes().chunks(2).map(hex::first_byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Read on all processors at once, an answer is the same to the byte: faults, their order, and errors, too.
    #[test]
    fn a_large_answer_is_read_like_a_small_one() {
        let span = |number: u32| match number % 7 {
            0 => format!(r#"{{"spanId":"{number:016x}","kind":"SPAN_KIND_NONE_{number}"}}"#),
            1 => "null".to_owned(),
            2 => format!(
                r#"{{"name":"a\u00fcb {number}","attributes":[{{"key":"k","value":{{"arrayValue":{{}}}}}}]}}"#
            ),
            3 => format!("[{number}]"),
            _ => format!(
                r#"{{"traceId":"{number:032x}", "spanId":"{number:016x}","endTimeUnixNano": {number}5 }}"#
            ),
        };
        let spans = (0..5_000).map(span).collect::<Vec<_>>().join(",\n");
        for (begin, end) in [
            (r#"{"resourceSpans":[{"scopeSpans":[{"spans":["#, "]}]}]}"),
            (
                r#"{"trace":{"batches":[{"instrumentationLibrarySpans":[{"spans":["#,
                r#"]}]}]},"status":"PARTIAL"}"#,
            ),
            (r#"{"resourceSpans":[{"scopeSpans":[{"spans":["#, r#",{"name":"\u12"}]}]}]}"#),
            (r#"{"resourceSpans":[{"scopeSpans":[{"spans":["#, ",{}"),
        ] {
            let body = format!("{begin}{spans}{end}");
            let read = |at_once| {
                let read = of_answer_with(body.as_bytes(), at_once);
                let read = read.map(|read| (read.bytes, read.faults, read.partial));
                read.map_err(|error| std::error::Error::source(&error).map(ToString::to_string))
            };
            assert!(read(true).is_ok() == read(false).is_ok());
            let whole = of_answer(body.as_bytes()).map(|read| (read.bytes, read.faults, read.partial));
            let whole = whole.map_err(|error| std::error::Error::source(&error).map(ToString::to_string));
            assert!(whole == read(false), "{end}");
            if let (Ok(at_once), Ok(one_by_one)) = (read(true), read(false)) {
                assert!(at_once == one_by_one && !at_once.0.is_empty(), "{end}");
                assert!(at_once.1.count > 1_000, "{:?}", at_once.1);
            }
        }
    }
}
