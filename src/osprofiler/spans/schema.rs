//! The messages of OTLP traces, version 1, as tables: what a receiver checks and [`super::translate`] translates by.
//!
//! Source: `opentelemetry/proto/trace/v1/trace.proto`, `common/v1/common.proto` and `resource/v1/resource.proto` of
//! OpenTelemetry's protocol, release 1.9. A field that is not here is skipped, as the OTLP specification says.

/// A message: its fields, in the order of their numbers.
#[derive(Debug)]
pub struct Schema(&'static [MessageField]);

/// A field of a message.
#[derive(Debug)]
pub struct MessageField {
    /// Its number.
    pub number: u32,
    /// The name in JSON.
    pub name: &'static str,
    /// What it holds.
    pub kind: MessageFieldKind,
    /// Whether it is a list.
    pub is_repeated: bool,
}

/// What a field holds.
#[derive(Clone, Copy, Debug)]
pub enum MessageFieldKind {
    /// Text in UTF-8.
    Text,
    /// Bytes, in base64 in JSON.
    Bytes,
    /// An id, in hexadecimal digits in JSON.
    Id,
    /// True or false.
    Bool,
    /// A whole number in a varint.
    Int64,
    /// A whole number without a sign in a varint.
    Uint32,
    /// A number with names; in JSON, each name has this prefix.
    Enum(&'static [&'static str]),
    /// A number with a fraction.
    Double,
    /// A whole number in eight bytes.
    Fixed64,
    /// A whole number in four bytes.
    Fixed32,
    /// A message of this schema.
    Message(&'static Schema),
}

impl Schema {
    /// The field of a number.
    #[must_use]
    pub fn field(&self, number: u32) -> Option<&'static MessageField> {
        // Few fields have a number beyond their place.
        let place = usize::try_from(number).ok()?.checked_sub(1)?;
        let at_its_place = self.0.get(place).filter(|field| field.number == number);
        at_its_place.or_else(|| self.0.iter().find(|field| field.number == number))
    }

    /// The field of a name.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&'static MessageField> {
        self.0.iter().find(|field| field.name == name)
    }

    /// The field that had this name in older releases, or has it in Tempo.
    pub(super) fn named_before(&self, name: &str) -> Option<&'static MessageField> {
        self.named(match name {
            "batches" => "resourceSpans",
            "instrumentationLibrarySpans" => "scopeSpans",
            "instrumentationLibrary" => "scope",
            _ => return None,
        })
    }
}

const fn one(number: u32, name: &'static str, kind: MessageFieldKind) -> MessageField {
    MessageField { number, name, kind, is_repeated: false }
}

const fn many(number: u32, name: &'static str, kind: MessageFieldKind) -> MessageField {
    MessageField { number, name, kind, is_repeated: true }
}

/// `ExportTraceServiceRequest`.
pub static REQUEST: Schema = Schema(&[many(1, "resourceSpans", MessageFieldKind::Message(&RESOURCE_SPANS))]);

/// `ResourceSpans`.
pub static RESOURCE_SPANS: Schema = Schema(&[
    one(1, "resource", MessageFieldKind::Message(&RESOURCE)),
    many(2, "scopeSpans", MessageFieldKind::Message(&SCOPE_SPANS)),
    one(3, "schemaUrl", MessageFieldKind::Text),
]);

/// `ScopeSpans`.
pub static SCOPE_SPANS: Schema = Schema(&[
    one(1, "scope", MessageFieldKind::Message(&SCOPE)),
    many(2, "spans", MessageFieldKind::Message(&SPAN)),
    one(3, "schemaUrl", MessageFieldKind::Text),
]);

/// `Span`.
pub static SPAN: Schema = Schema(&[
    one(1, "traceId", MessageFieldKind::Id),
    one(2, "spanId", MessageFieldKind::Id),
    one(3, "traceState", MessageFieldKind::Text),
    one(4, "parentSpanId", MessageFieldKind::Id),
    one(5, "name", MessageFieldKind::Text),
    one(6, "kind", MessageFieldKind::Enum(SPAN_KINDS)),
    one(7, "startTimeUnixNano", MessageFieldKind::Fixed64),
    one(8, "endTimeUnixNano", MessageFieldKind::Fixed64),
    many(9, "attributes", MessageFieldKind::Message(&KEY_VALUE)),
    one(10, "droppedAttributesCount", MessageFieldKind::Uint32),
    many(11, "events", MessageFieldKind::Message(&EVENT)),
    one(12, "droppedEventsCount", MessageFieldKind::Uint32),
    many(13, "links", MessageFieldKind::Message(&LINK)),
    one(14, "droppedLinksCount", MessageFieldKind::Uint32),
    one(15, "status", MessageFieldKind::Message(&STATUS)),
    one(16, "flags", MessageFieldKind::Fixed32),
]);

const SPAN_KINDS: &[&str] = &[
    "SPAN_KIND_UNSPECIFIED",
    "SPAN_KIND_INTERNAL",
    "SPAN_KIND_SERVER",
    "SPAN_KIND_CLIENT",
    "SPAN_KIND_PRODUCER",
    "SPAN_KIND_CONSUMER",
];
const STATUS_CODES: &[&str] = &["STATUS_CODE_UNSET", "STATUS_CODE_OK", "STATUS_CODE_ERROR"];

static RESOURCE: Schema = Schema(&[
    many(1, "attributes", MessageFieldKind::Message(&KEY_VALUE)),
    one(2, "droppedAttributesCount", MessageFieldKind::Uint32),
    many(3, "entityRefs", MessageFieldKind::Message(&ENTITY_REF)),
]);

static ENTITY_REF: Schema = Schema(&[
    one(1, "schemaUrl", MessageFieldKind::Text),
    one(2, "type", MessageFieldKind::Text),
    many(3, "idKeys", MessageFieldKind::Text),
    many(4, "descriptionKeys", MessageFieldKind::Text),
]);

static SCOPE: Schema = Schema(&[
    one(1, "name", MessageFieldKind::Text),
    one(2, "version", MessageFieldKind::Text),
    many(3, "attributes", MessageFieldKind::Message(&KEY_VALUE)),
    one(4, "droppedAttributesCount", MessageFieldKind::Uint32),
]);

static EVENT: Schema = Schema(&[
    one(1, "timeUnixNano", MessageFieldKind::Fixed64),
    one(2, "name", MessageFieldKind::Text),
    many(3, "attributes", MessageFieldKind::Message(&KEY_VALUE)),
    one(4, "droppedAttributesCount", MessageFieldKind::Uint32),
]);

static LINK: Schema = Schema(&[
    one(1, "traceId", MessageFieldKind::Id),
    one(2, "spanId", MessageFieldKind::Id),
    one(3, "traceState", MessageFieldKind::Text),
    many(4, "attributes", MessageFieldKind::Message(&KEY_VALUE)),
    one(5, "droppedAttributesCount", MessageFieldKind::Uint32),
    one(6, "flags", MessageFieldKind::Fixed32),
]);

static STATUS: Schema = Schema(&[
    one(2, "message", MessageFieldKind::Text),
    one(3, "code", MessageFieldKind::Enum(STATUS_CODES)),
]);

static KEY_VALUE: Schema =
    Schema(&[one(1, "key", MessageFieldKind::Text), one(2, "value", MessageFieldKind::Message(&ANY_VALUE))]);

static ANY_VALUE: Schema = Schema(&[
    one(1, "stringValue", MessageFieldKind::Text),
    one(2, "boolValue", MessageFieldKind::Bool),
    one(3, "intValue", MessageFieldKind::Int64),
    one(4, "doubleValue", MessageFieldKind::Double),
    one(5, "arrayValue", MessageFieldKind::Message(&ARRAY_VALUE)),
    one(6, "kvlistValue", MessageFieldKind::Message(&KEY_VALUE_LIST)),
    one(7, "bytesValue", MessageFieldKind::Bytes),
]);

static ARRAY_VALUE: Schema = Schema(&[many(1, "values", MessageFieldKind::Message(&ANY_VALUE))]);

static KEY_VALUE_LIST: Schema = Schema(&[many(1, "values", MessageFieldKind::Message(&KEY_VALUE))]);

/// The field of an attribute's value that is a whole number of 64 bits.
pub(super) fn any_integer() -> &'static MessageField {
    &ANY_VALUE.0[2]
}

/// The same of any other number.
pub(super) fn any_double() -> &'static MessageField {
    &ANY_VALUE.0[3]
}
