//! Messages that all signals of OpenTelemetry's protocol have in common, as protobuf (opentelemetry-proto 1: `common`,
//! `resource`), and the number that protobuf is made of.

use prost::Message;

/// `Resource`: who reports.
#[derive(Clone, PartialEq, Message)]
pub struct OtlpResource {
    /// What it is, such as `service.name`.
    #[prost(message, repeated, tag = "1")]
    pub attributes: Vec<KeyValue>,
}

/// `InstrumentationScope`: the library that made the spans or metrics.
#[derive(Clone, PartialEq, Message)]
pub struct OtlpScope {
    /// Its name.
    #[prost(string, tag = "1")]
    pub name: String,
    /// Its version; empty if unknown.
    #[prost(string, tag = "2")]
    pub version: String,
}

/// `KeyValue`: an attribute.
#[derive(Clone, PartialEq, Message)]
pub struct KeyValue {
    /// Its name.
    #[prost(string, tag = "1")]
    pub key: String,
    /// Its value; absent for null.
    #[prost(message, optional, tag = "2")]
    pub value: Option<AnyValue>,
}

impl KeyValue {
    /// An attribute with a text.
    #[must_use]
    pub fn text(key: &str, value: &str) -> Self {
        let value = AnyValue { value: Some(OtlpValue::Text(value.to_owned())) };
        Self { key: key.to_owned(), value: Some(value) }
    }
}

/// `AnyValue`: a value as in JSON, or bytes.
#[derive(Clone, PartialEq, Message)]
pub struct AnyValue {
    /// The value; absent for null.
    #[prost(oneof = "OtlpValue", tags = "1, 2, 3, 4, 5, 6, 7")]
    pub value: Option<OtlpValue>,
}

/// The kinds of values.
#[derive(Clone, PartialEq, prost::Oneof)]
pub enum OtlpValue {
    /// A text.
    #[prost(string, tag = "1")]
    Text(String),
    /// True or false.
    #[prost(bool, tag = "2")]
    Bool(bool),
    /// An integer.
    #[prost(int64, tag = "3")]
    Int(i64),
    /// A number.
    #[prost(double, tag = "4")]
    Double(f64),
    /// `ArrayValue`.
    #[prost(message, tag = "5")]
    List(OtlpList),
    /// `KeyValueList`.
    #[prost(message, tag = "6")]
    Object(OtlpObject),
    /// Bytes.
    #[prost(bytes, tag = "7")]
    Bytes(Vec<u8>),
}

/// `ArrayValue`.
#[derive(Clone, PartialEq, Message)]
pub struct OtlpList {
    /// The values.
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<AnyValue>,
}

/// `KeyValueList`.
#[derive(Clone, PartialEq, Message)]
pub struct OtlpObject {
    /// The entries.
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<KeyValue>,
}

/// `ExportTraceServiceResponse`: what a receiver answers.
#[derive(Clone, PartialEq, Message)]
pub struct ExportAnswer {
    /// What was not taken; absent if all was.
    #[prost(message, optional, tag = "1")]
    pub partial_success: Option<PartialSuccess>,
}

/// `ExportTracePartialSuccess`.
#[derive(Clone, PartialEq, Message)]
pub struct PartialSuccess {
    /// How many spans were rejected.
    #[prost(int64, tag = "1")]
    pub rejected_spans: i64,
    /// Why.
    #[prost(string, tag = "2")]
    pub error_message: String,
}

/// Takes a number of up to 64 bits from the beginning of `bytes`; `None` if there is none.
pub fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for at in 0..10_u32 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        // The tenth byte has a single bit of the 64.
        if at == 9 && *byte > 1 {
            return None;
        }
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::varint;

    #[test]
    fn a_number_has_64_bits_at_most() {
        let nine = [0xff; 9];
        for (bytes, expected) in [
            (vec![0x7f], Some((0x7f, 0))),
            (vec![0x80, 0x01, 0xaa], Some((0x80, 1))),
            ([&nine[..], &[0x01]].concat(), Some((u64::MAX, 0))),
            ([&nine[..], &[0x02]].concat(), None),
            ([&nine[..], &[0x81, 0x00]].concat(), None),
            (vec![0x80], None),
            (vec![], None),
        ] {
            let mut rest = bytes.as_slice();
            let read = varint(&mut rest).map(|number| (number, rest.len()));
            assert_eq!(read, expected, "{bytes:x?}");
        }
    }
}
