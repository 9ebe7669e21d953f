//! Trace points as OpenTelemetry spans: the mapping of OSProfiler's own OTLP driver, both ways.
//!
//! [`mod@write`] makes a span of a point's two records, [`read`] makes two records of any span, so that
//! what Jaeger or Tempo keeps becomes the same tree as what redis keeps. [`meaning`] knows what
//! attributes say; [`protobuf`], [`json`] and [`jaeger`] are the formats, [`translate`] makes protobuf of
//! OTLP's JSON by the tables of [`schema`]. Nothing here does I/O.
//!
//! Ids, names, kinds and attributes are those of the Python driver (observed on 4.4.0), with these
//! differences on purpose. A name loses the suffix `-start`, not any of its characters. A base_id
//! that is no UUID gives one stable trace id instead of a random one for each span. A point that
//! failed has the status ERROR too, where other programs look. What the Python driver drops is kept
//! under `osprofiler.…`, so that a record read back equals the record written.

pub mod jaeger;
pub mod json;
pub mod meaning;
pub mod otlp;
pub mod protobuf;
pub mod read;
pub mod schema;
mod surrogates;
pub mod translate;
pub mod write;

use std::sync::Arc;

use serde::Deserialize;
use sha2::{Digest, Sha256};
use thiserror::Error;
use uuid::Uuid;

use super::record::Info;

/// More spans than this in one answer are refused: each is two records.
pub const SPANS_MAX: usize = super::record::TRACE_RECORDS_MAX / 2;
/// More attributes and events than this, in all, are refused.
pub const PARTS_MAX: usize = 2_000_000;

/// What kind of work a span is, with OTLP's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SpanKind {
    /// Not specified.
    #[default]
    Unspecified = 0,
    /// Within a service.
    Internal = 1,
    /// Answers a request.
    Server = 2,
    /// Sends a request.
    Client = 3,
    /// Sends a message.
    Producer = 4,
    /// Receives a message.
    Consumer = 5,
}

/// A span, whatever format it came in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TraceSpan {
    /// The trace.
    pub trace_id: u128,
    /// The span.
    pub span_id: u64,
    /// The enclosing span, which may be outside the trace.
    pub parent_id: Option<u64>,
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: SpanKind,
    /// Nanoseconds since the Unix epoch; 0 if it is not known, as in OTLP.
    pub start_ns: u64,
    /// Nanoseconds since the Unix epoch; 0 if it is not known. It comes from outside and may be before the start.
    pub end_ns: u64,
    /// What it says about itself.
    pub attributes: Info,
    /// What happened in it.
    pub events: Vec<SpanEvent>,
    /// Spans that it is about without being below them, such as the one that sent a message; they may be in other
    /// traces.
    pub links: Vec<SpanLink>,
    /// The message of its status, if the status is ERROR.
    pub error: Option<String>,
    /// Who reports: shared by many spans.
    pub resource: Arc<Info>,
    /// The name of the instrumentation, if specified.
    pub scope: Arc<str>,
}

/// A link to a span.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpanLink {
    /// Its trace.
    pub trace_id: u128,
    /// The span.
    pub span_id: u64,
}

/// Something that happened in a span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SpanEvent {
    /// Its name.
    pub name: String,
    /// Nanoseconds since the Unix epoch.
    pub time_ns: u64,
    /// What it says.
    pub attributes: Info,
}

/// What an answer or a file holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DecodedSpans {
    /// Its spans.
    pub spans: Vec<TraceSpan>,
    /// What of it cannot be read.
    pub faults: Faults,
    /// That it is only a part of the trace, and why, if the backend says so.
    pub partial: Option<String>,
}

/// Parts of an answer or a file that cannot be read: values, which are left out, or whole spans.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// How many.
    pub count: u64,
    /// What is wrong with the first.
    pub first: Option<String>,
}

impl Faults {
    /// Adds one.
    pub fn add(&mut self, what: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.is_none() {
            self.first = Some(what());
        }
    }
}

/// Why an answer of a backend holds no spans.
#[derive(Debug, Error)]
pub enum SpanError {
    /// Over [`SPANS_MAX`] or [`PARTS_MAX`].
    #[error("the trace has over {SPANS_MAX} spans or {PARTS_MAX} attributes")]
    TooMany,
    /// Not JSON with the expected structure.
    #[error("the answer is not the expected JSON")]
    Json(#[source] serde_json::Error),
    /// Not protobuf with the expected structure.
    #[error("the answer is not the expected protobuf")]
    Protobuf(#[source] prost::DecodeError),
    /// An invalid id.
    #[error("the id of a trace or span has an invalid value: {0:?}")]
    Id(String),
}

impl SpanKind {
    /// The kind of OTLP's number.
    #[must_use]
    pub fn from_number(number: i64) -> Self {
        match number {
            1 => Self::Internal,
            2 => Self::Server,
            3 => Self::Client,
            4 => Self::Producer,
            5 => Self::Consumer,
            _ => Self::Unspecified,
        }
    }

    /// The kind of a name such as `server` or `SPAN_KIND_SERVER`.
    #[must_use]
    pub fn from_name(name: &str) -> Self {
        match name.strip_prefix("SPAN_KIND_").unwrap_or(name).to_ascii_lowercase().as_str() {
            "internal" => Self::Internal,
            "server" => Self::Server,
            "client" => Self::Client,
            "producer" => Self::Producer,
            "consumer" => Self::Consumer,
            _ => Self::Unspecified,
        }
    }
}

/// The 128-bit trace id of a base_id: its UUID; of any other text, a hash.
#[must_use]
pub fn trace_id(base_id: &str) -> u128 {
    match Uuid::parse_str(base_id) {
        Ok(id) if !id.is_nil() => id.as_u128(),
        _ => hash(base_id),
    }
}

/// The 64-bit span id of a point: the low half of its UUID; of any other text, a hash.
#[must_use]
pub fn span_id(point_id: &str) -> u64 {
    match Uuid::parse_str(point_id).map(|id| id.as_u64_pair().1) {
        Ok(low) if low != 0 => low,
        _ => (hash(point_id) as u64).max(1),
    }
}

/// A span id as a record's `trace_id`, used as a fallback: 16 hexadecimal digits.
#[must_use]
pub fn span_id_text(span_id: u64) -> String {
    format!("{span_id:016x}")
}

/// The result is never zero, which is not a valid id in OTLP.
fn hash(text: &str) -> u128 {
    let digest = Sha256::digest(text.as_bytes());
    let half = digest.iter().take(16).fold(0, |id, byte| (id << 8) | u128::from(*byte));
    half.max(1)
}

/// A list in JSON of at most `N` elements, so that a short text cannot become a lot of memory.
#[derive(Debug)]
pub(crate) struct BoundedList<T, const N: usize>(pub(crate) Vec<T>);

impl<T, const N: usize> Default for BoundedList<T, N> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for BoundedList<T, N> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor<T, const N: usize>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const N: usize> serde::de::Visitor<'de> for Visitor<T, N> {
            type Value = BoundedList<T, N>;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(formatter, "a list of at most {N} elements")
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut elements = Vec::new();
                while let Some(element) = list.next_element()? {
                    if elements.len() == N {
                        return Err(serde::de::Error::invalid_length(N + 1, &self));
                    }
                    elements.push(element);
                }
                Ok(BoundedList(elements))
            }

            // Go programs write an empty list as null.
            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(BoundedList::default())
            }
        }
        deserializer.deserialize_any(Visitor(std::marker::PhantomData))
    }
}

/// A list in JSON that keeps its first `N` elements and skips the others, for what may be shown in
/// part.
#[derive(Debug)]
pub(crate) struct TruncatedList<T, const N: usize> {
    pub(crate) elements: Vec<T>,
    /// Whether there were others.
    pub(crate) is_cut: bool,
}

impl<T, const N: usize> Default for TruncatedList<T, N> {
    fn default() -> Self {
        Self { elements: Vec::new(), is_cut: false }
    }
}

impl<'de, T: Deserialize<'de>, const N: usize> Deserialize<'de> for TruncatedList<T, N> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TruncatedListVisitor<T, const N: usize>(std::marker::PhantomData<T>);
        impl<'de, T: Deserialize<'de>, const N: usize> serde::de::Visitor<'de> for TruncatedListVisitor<T, N> {
            type Value = TruncatedList<T, N>;

            fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                formatter.write_str("a list")
            }

            fn visit_seq<A: serde::de::SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut first = TruncatedList::default();
                while first.elements.len() < N {
                    let Some(element) = list.next_element()? else { return Ok(first) };
                    first.elements.push(element);
                }
                while list.next_element::<serde::de::IgnoredAny>()?.is_some() {
                    first.is_cut = true;
                }
                Ok(first)
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(TruncatedList::default())
            }
        }
        deserializer.deserialize_any(TruncatedListVisitor(std::marker::PhantomData))
    }
}
