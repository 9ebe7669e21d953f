//! The protobuf of `ExportTraceServiceRequest`, taken apart without decoding it.
//!
//! Of each span, only the ids are read, and the spans of each wanted trace are copied into a message of their own.
//! Spans of other traces cost no more than that, unless they have links: those are read too, because a span with a link
//! to a wanted trace belongs to it ([`Links`]). What is copied is checked to its last byte (field types, lengths,
//! UTF-8, depth), so that it can be decoded later. Nothing is copied before the whole request is known to be
//! well-formed. Memory is bounded: nothing is kept of empty messages, and [`SPANS_MAX`] and [`COPIED_BYTES_MAX`] bound
//! the rest.
//!
//! Source: the wire format of protobuf (protobuf.dev/programming-guides/encoding) and the tables of [`schema`].

use std::ops::Range;

use super::links::{LINKS_OF_A_SPAN_MAX, Links};
use osprofiler::spans::otlp::varint;
use osprofiler::spans::schema::{self, MessageFieldKind, Schema};
use osprofiler::spans::translate::push_varint;

/// The largest number of spans of a request.
pub const SPANS_MAX: usize = 500_000;
/// The largest number of bytes that are copied out of a request: a resource is copied for each trace.
pub const COPIED_BYTES_MAX: u64 = 256 << 20;
/// The largest number of bytes of spans that are copied because of links: such a span may be copied for several traces.
const LINKED_BYTES_MAX: usize = 64 << 20;
/// How often a request is read again at most because a link was found after spans of its trace.
const PASSES_MAX: usize = 4;
/// The field of a span for its links.
const LINKS: u32 = 13;
/// The deepest nesting of messages below a span or a resource.
const DEPTH_MAX: u32 = 64;
/// A resource or a scope may be in several pieces, which together are one message; in practice it is not.
const HEAD_PIECES_MAX: usize = 16;

/// The field of a request for its `ResourceSpans`, with a length.
const RESOURCE_SPANS: u8 = 0x0a;

/// A request with these encoded `ResourceSpans`.
#[must_use]
pub fn request_of(parts: &[impl AsRef<[u8]>]) -> Vec<u8> {
    let mut request = Vec::new();
    for part in parts.iter().map(AsRef::as_ref) {
        request.push(RESOURCE_SPANS);
        prost::encoding::encode_varint(part.len() as u64, &mut request);
        request.extend_from_slice(part);
    }
    request
}

/// Why a request is refused as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// It is not the expected protobuf.
    #[error("the body is not a valid ExportTraceServiceRequest: {0}")]
    Malformed(&'static str),
    /// It has too many spans.
    #[error("the request has over {SPANS_MAX} spans; send smaller batches")]
    TooManySpans,
    /// Its resources, copied for each trace, are too large.
    #[error("the resources of the request are too large for the number of its traces; send smaller batches")]
    TooLarge,
}

/// A request's spans, sorted by whether they are wanted.
#[derive(Debug, Default)]
pub struct WireRequest<'a> {
    /// How many spans are of traces that are not wanted.
    pub foreign: u64,
    /// How many spans are of other traces and are handed over because of links.
    pub linked: u64,
    /// How many spans have no valid ids.
    pub invalid: u64,
    /// The traces that are not wanted, each at least once.
    pub foreign_traces: Vec<u128>,
    /// The wanted ones, in the order of their resources and then traces.
    wanted: Vec<WantedSpan<'a>>,
    /// How many of `wanted` are there because of links.
    copies: u64,
    /// Of resources and scopes with wanted spans: the fields that are not spans, with their keys.
    heads: Vec<Vec<&'a [u8]>>,
}

#[derive(Debug)]
struct WantedSpan<'a> {
    /// The trace that it is handed over for.
    trace_id: u128,
    /// The places of its resource and scope in `heads`.
    resource: u32,
    scope: u32,
    /// The span's field, with its key.
    field: &'a [u8],
}

impl<'a> WireRequest<'a> {
    /// Reads a request. `wants` is asked for the trace of each span, but not twice in a row for the same. Links to
    /// wanted traces are added to `links`.
    ///
    /// # Errors
    /// If the request must be refused as a whole.
    pub fn read(
        body: &'a [u8],
        links: &mut Links,
        mut wants: impl FnMut(u128) -> bool,
    ) -> Result<Self, WireError> {
        for pass in 1.. {
            let mut reading = RequestReading {
                request: Self::default(),
                wants: &mut wants,
                links,
                last: None,
                spans: 0,
                copied: 0,
            };
            reading.all(body)?;
            let mut request = reading.request;
            // Spans are sent in the order of their ends: those below a span with a link came before it.
            if pass < PASSES_MAX && request.foreign_traces.iter().any(|trace| links.knows(*trace)) {
                continue;
            }
            request.wanted.sort_by_key(|wanted| (wanted.resource, wanted.trace_id));
            request.check_size()?;
            return Ok(request);
        }
        Err(WireError::TooLarge)
    }

    /// How many spans are of wanted traces.
    #[must_use]
    pub fn wanted(&self) -> u64 {
        self.wanted.len() as u64 - self.copies
    }

    /// Hands the wanted spans over: for each resource and each of its traces, an encoded `ResourceSpans`. Spans that
    /// are wanted because of links keep the ids of their own traces.
    pub fn deliver(&self, mut take: impl FnMut(u128, u32, &[u8])) {
        let mut message = Vec::new();
        for group in self.groups() {
            let Some(first) = group.first() else { continue };
            message.clear();
            append(&mut message, self.head(first.resource));
            for scoped in group.chunk_by(|one, next| one.scope == next.scope) {
                let (head, fields) = (self.head(scoped[0].scope), scoped.iter().map(|wanted| wanted.field));
                let length = fields.clone().chain(head.iter().copied()).map(<[u8]>::len).sum::<usize>();
                // Field 2 of `ResourceSpans`, a message.
                message.push(0x12);
                push_varint(&mut message, length as u64);
                append(&mut message, head);
                fields.for_each(|field| message.extend_from_slice(field));
            }
            take(first.trace_id, u32::try_from(group.len()).unwrap_or(u32::MAX), &message);
        }
    }

    fn groups(&self) -> impl Iterator<Item = &[WantedSpan<'a>]> {
        self.wanted.chunk_by(|one, next| (one.resource, one.trace_id) == (next.resource, next.trace_id))
    }

    fn head(&self, at: u32) -> &[&'a [u8]] {
        usize::try_from(at).ok().and_then(|at| self.heads.get(at)).map_or(&[], Vec::as_slice)
    }

    fn check_size(&self) -> Result<(), WireError> {
        let length = |at| self.head(at).iter().map(|piece| piece.len() as u64).sum::<u64>();
        let mut copied = self.wanted.iter().map(|wanted| wanted.field.len() as u64).sum::<u64>();
        for group in self.groups() {
            let scopes = group.chunk_by(|one, next| one.scope == next.scope);
            copied += group.first().map_or(0, |first| length(first.resource));
            copied += scopes.map(|scoped| length(scoped[0].scope)).sum::<u64>();
            if copied > COPIED_BYTES_MAX {
                return Err(WireError::TooLarge);
            }
        }
        Ok(())
    }
}

/// The reading of a request.
struct RequestReading<'a, 'l, W> {
    request: WireRequest<'a>,
    wants: &'l mut W,
    links: &'l mut Links,
    /// The last trace, and whose it is.
    last: Option<(u128, TraceOwnership)>,
    spans: usize,
    /// Bytes of spans that are handed over because of links.
    copied: usize,
}

/// Whose a trace is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum TraceOwnership {
    /// It is wanted.
    Own,
    /// It belongs to wanted ones because of links.
    Linked,
    Foreign,
}

impl<'a, W: FnMut(u128) -> bool> RequestReading<'a, '_, W> {
    fn all(&mut self, body: &'a [u8]) -> Result<(), WireError> {
        for field in WireFields(body) {
            let field = field?;
            if field.number == 1 {
                self.resource(field.message()?)?;
            }
        }
        Ok(())
    }

    fn resource(&mut self, message: &'a [u8]) -> Result<(), WireError> {
        let from = self.request.wanted.len();
        let mut head = Vec::new();
        for field in WireFields(message) {
            let field = field?;
            if field.number == 2 {
                self.scope(field.message()?)?;
            } else {
                keep(&mut head, &field, &schema::RESOURCE_SPANS)?;
            }
        }
        let added = from..self.request.wanted.len();
        self.add_head(added, head, |wanted, at| wanted.resource = at)
    }

    fn scope(&mut self, message: &'a [u8]) -> Result<(), WireError> {
        let from = self.request.wanted.len();
        let mut head = Vec::new();
        for field in WireFields(message) {
            let field = field?;
            if field.number == 2 {
                self.span(&field)?;
            } else {
                keep(&mut head, &field, &schema::SCOPE_SPANS)?;
            }
        }
        let added = from..self.request.wanted.len();
        self.add_head(added, head, |wanted, at| wanted.scope = at)
    }

    /// Keeps the head of these spans, if there are any.
    fn add_head(
        &mut self,
        spans: Range<usize>,
        head: Vec<&'a [u8]>,
        set: impl Fn(&mut WantedSpan<'a>, u32),
    ) -> Result<(), WireError> {
        if spans.is_empty() {
            return Ok(());
        }
        let at = u32::try_from(self.request.heads.len()).map_err(|_| WireError::TooManySpans)?;
        self.request.heads.push(head);
        self.request.wanted[spans].iter_mut().for_each(|wanted| set(wanted, at));
        Ok(())
    }

    fn span(&mut self, field: &WireField<'a>) -> Result<(), WireError> {
        self.spans += 1;
        if self.spans > SPANS_MAX {
            return Err(WireError::TooManySpans);
        }
        let message = field.message()?;
        let (mut trace_id, mut span_id, mut parent_id) = (&[][..], &[][..], &[][..]);
        let mut has_links = false;
        for part in WireFields(message) {
            let part = part?;
            match part.number {
                1 => trace_id = part.message()?,
                2 => span_id = part.message()?,
                4 => parent_id = part.message()?,
                LINKS => has_links = true,
                _ => {}
            }
        }
        let are_valid = is_valid_span_id(span_id) && matches!(parent_id.len(), 0 | 8);
        let Some(trace_id) = valid_trace_id(trace_id).filter(|_| are_valid) else {
            self.request.invalid += 1;
            return Ok(());
        };
        let mut whose = match self.last {
            Some((last, whose)) if last == trace_id => whose,
            _ => self.whose(trace_id),
        };
        if has_links && whose != TraceOwnership::Own && self.follow(trace_id, message) {
            whose = TraceOwnership::Linked;
        }
        self.last = Some((trace_id, whose));
        match whose {
            TraceOwnership::Own => {
                check(message, &schema::SPAN, 0)?;
                self.request.wanted.push(WantedSpan { trace_id, resource: 0, scope: 0, field: field.whole });
            }
            TraceOwnership::Linked => self.linked(trace_id, message, field.whole)?,
            TraceOwnership::Foreign => self.request.foreign += 1,
        }
        Ok(())
    }

    fn whose(&mut self, trace_id: u128) -> TraceOwnership {
        if (self.wants)(trace_id) {
            TraceOwnership::Own
        } else if self.links.knows(trace_id) {
            TraceOwnership::Linked
        } else {
            self.request.foreign_traces.push(trace_id);
            TraceOwnership::Foreign
        }
    }

    /// Remembers the links of a span to wanted traces, or to those that belong to them. True if there are any.
    fn follow(&mut self, trace_id: u128, span: &[u8]) -> bool {
        // What is malformed is refused if it is handed over.
        let links = WireFields(span).flatten().filter(|field| field.number == LINKS);
        for (number, link) in links.enumerate() {
            if number == LINKS_OF_A_SPAN_MAX {
                self.links.ignore();
                break;
            }
            let Ok(link) = link.message() else { continue };
            let id = WireFields(link).flatten().find(|field| field.number == 1);
            let id = id.and_then(|id| valid_trace_id(id.message().unwrap_or_default()));
            let Some(id) = id.filter(|id| *id != trace_id) else { continue };
            if (self.wants)(id) {
                self.links.add(trace_id, id);
            } else if self.links.knows(id) {
                self.links.add_as(trace_id, id);
            }
        }
        self.links.knows(trace_id)
    }

    /// Takes a span of another trace for all traces that it belongs to.
    fn linked(&mut self, trace_id: u128, message: &'a [u8], field: &'a [u8]) -> Result<(), WireError> {
        let owners = self.links.owners(trace_id);
        self.copied += owners.len() * field.len();
        if self.copied > LINKED_BYTES_MAX {
            self.links.ignore();
            self.request.foreign += 1;
            return Ok(());
        }
        check(message, &schema::SPAN, 0)?;
        self.request.linked += 1;
        self.request.copies += owners.len() as u64;
        let copies = owners.iter().map(|owner| WantedSpan { trace_id: *owner, resource: 0, scope: 0, field });
        self.request.wanted.extend(copies);
        Ok(())
    }
}

/// An id of zeros is not valid (W3C Trace Context; OTLP).
fn valid_trace_id(bytes: &[u8]) -> Option<u128> {
    <[u8; 16]>::try_from(bytes).ok().map(u128::from_be_bytes).filter(|id| *id != 0)
}

fn is_valid_span_id(bytes: &[u8]) -> bool {
    bytes.len() == 8 && bytes.iter().any(|byte| *byte != 0)
}

/// Keeps a field of a resource or a scope that is not its spans, if it is known.
fn keep<'a>(
    head: &mut Vec<&'a [u8]>,
    field: &WireField<'a>,
    schema: &'static Schema,
) -> Result<(), WireError> {
    if schema.field(field.number).is_none() {
        return Ok(());
    }
    check_field(field, schema, 0)?;
    if head.len() == HEAD_PIECES_MAX {
        return Err(WireError::Malformed("a resource or scope is given too often"));
    }
    head.push(field.whole);
    Ok(())
}

fn append(message: &mut Vec<u8>, pieces: &[&[u8]]) {
    pieces.iter().for_each(|piece| message.extend_from_slice(piece));
}

/// Checks a message and all messages in it.
fn check(message: &[u8], schema: &'static Schema, depth: u32) -> Result<(), WireError> {
    for field in WireFields(message) {
        check_field(&field?, schema, depth)?;
    }
    Ok(())
}

fn check_field(field: &WireField<'_>, schema: &'static Schema, depth: u32) -> Result<(), WireError> {
    let Some(known) = schema.field(field.number) else { return Ok(()) };
    match (known.kind, field.content) {
        (MessageFieldKind::Text, WireValue::Bytes(bytes)) => std::str::from_utf8(bytes)
            .map(|_| ())
            .map_err(|_| WireError::Malformed("a text is not valid UTF-8")),
        (MessageFieldKind::Message(inner), WireValue::Bytes(bytes)) if depth < DEPTH_MAX => {
            check(bytes, inner, depth + 1)
        }
        (MessageFieldKind::Message(_), WireValue::Bytes(_)) => {
            Err(WireError::Malformed("messages are nested too deeply"))
        }
        (MessageFieldKind::Bytes | MessageFieldKind::Id, WireValue::Bytes(_))
        | (
            MessageFieldKind::Bool
            | MessageFieldKind::Int64
            | MessageFieldKind::Uint32
            | MessageFieldKind::Enum(_),
            WireValue::Varint,
        )
        | (MessageFieldKind::Double | MessageFieldKind::Fixed64, WireValue::Fixed64)
        | (MessageFieldKind::Fixed32, WireValue::Fixed32) => Ok(()),
        _ => Err(WireError::Malformed("a field has an unexpected type")),
    }
}

/// A field as it is written.
struct WireField<'a> {
    number: u32,
    content: WireValue<'a>,
    /// With its key.
    whole: &'a [u8],
}

#[derive(Clone, Copy)]
enum WireValue<'a> {
    Varint,
    Fixed64,
    Fixed32,
    Bytes(&'a [u8]),
}

impl<'a> WireField<'a> {
    /// The bytes of a message, text or id.
    fn message(&self) -> Result<&'a [u8], WireError> {
        match self.content {
            WireValue::Bytes(bytes) => Ok(bytes),
            _ => Err(WireError::Malformed("a field has an unexpected type")),
        }
    }
}

/// The fields of a message. After an error, there are none.
struct WireFields<'a>(&'a [u8]);

impl<'a> Iterator for WireFields<'a> {
    type Item = Result<WireField<'a>, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.read().ok_or(WireError::Malformed("a field is damaged or ends after its message"));
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

impl<'a> WireFields<'a> {
    fn read(&mut self) -> Option<WireField<'a>> {
        let all = self.0;
        let key = u32::try_from(varint(&mut self.0)?).ok()?;
        let content = match key & 7 {
            0 => varint(&mut self.0).map(|_| WireValue::Varint)?,
            1 => self.skip(8).map(|_| WireValue::Fixed64)?,
            2 => {
                let length = usize::try_from(varint(&mut self.0)?).ok()?;
                WireValue::Bytes(self.skip(length)?)
            }
            5 => self.skip(4).map(|_| WireValue::Fixed32)?,
            // Groups were removed from protobuf before OTLP existed.
            _ => return None,
        };
        let number = Some(key >> 3).filter(|number| *number > 0)?;
        Some(WireField { number, content, whole: &all[..all.len() - self.0.len()] })
    }

    fn skip(&mut self, length: usize) -> Option<&'a [u8]> {
        let (skipped, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(skipped)
    }
}
