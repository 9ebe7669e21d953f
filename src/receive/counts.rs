//! What the receiver has received, refused and passed on.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::rate::{PerSecond, SpanRate};

/// What a receiver has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiverCounts {
    /// Connections that were accepted.
    pub connections: u64,
    /// Connections that were closed while idle, to make room for others.
    pub connections_evicted: u64,
    /// Requests with spans that were accepted.
    pub requests: u64,
    /// Bytes of the bodies of accepted requests, as they were sent.
    pub bytes: u64,
    /// Spans of wanted traces, which were handed over.
    pub spans: u64,
    /// How many of those came a second.
    pub rate: SpanRate,
    /// Spans of other traces that were handed over because of links to wanted ones.
    pub linked_spans: u64,
    /// Links, and spans with links, that were passed over because they were too many.
    pub links_ignored: u64,
    /// Spans of traces that were not wanted.
    pub foreign_spans: u64,
    /// Spans without valid ids.
    pub invalid_spans: u64,
    /// Requests with metrics or logs, which are not kept.
    pub other_signals: u64,
    /// Requests that were refused.
    pub refused: RefusalCounts,
    /// What was passed on.
    pub forward: ForwardCounts,
}

/// Requests that were refused, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusalCounts {
    /// The body was not what it should be.
    pub malformed: u64,
    /// The body was too large, as sent or decompressed, or had too many spans.
    pub too_large: u64,
    /// An unknown path, method, content type or encoding.
    pub unsupported: u64,
    /// There was no memory left; the answer asks the sender to try again.
    pub busy: u64,
    /// The body did not arrive in time, or not at all.
    pub incomplete: u64,
}

impl RefusalCounts {
    /// All of them.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.malformed + self.too_large + self.unsupported + self.busy + self.incomplete
    }
}

/// What was passed on to another backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardCounts {
    /// Requests that the backend accepted.
    pub requests: u64,
    /// The spans in them.
    pub spans: u64,
    /// Requests that were dropped: the queue was full, the backend refused them, or did not answer in time.
    pub dropped_requests: u64,
    /// The spans in them.
    pub dropped_spans: u64,
}

/// The counters behind [`ReceiverCounts`].
#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) connections: AtomicU64,
    pub(super) connections_evicted: AtomicU64,
    pub(super) requests: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) spans: AtomicU64,
    pub(super) per_second: PerSecond,
    /// Why the first request was refused.
    pub(super) first_refusal: OnceLock<String>,
    pub(super) linked_spans: AtomicU64,
    pub(super) links_ignored: AtomicU64,
    pub(super) foreign_spans: AtomicU64,
    pub(super) invalid_spans: AtomicU64,
    pub(super) other_signals: AtomicU64,
    pub(super) malformed: AtomicU64,
    pub(super) too_large: AtomicU64,
    pub(super) unsupported: AtomicU64,
    pub(super) busy: AtomicU64,
    pub(super) incomplete: AtomicU64,
    pub(super) forwarded_requests: AtomicU64,
    pub(super) forwarded_spans: AtomicU64,
    pub(super) dropped_requests: AtomicU64,
    pub(super) dropped_spans: AtomicU64,
}

pub(super) fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Relaxed);
}

impl Counters {
    pub(super) fn counts(&self) -> ReceiverCounts {
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        ReceiverCounts {
            connections: of(&self.connections),
            connections_evicted: of(&self.connections_evicted),
            requests: of(&self.requests),
            bytes: of(&self.bytes),
            spans: of(&self.spans),
            rate: self.per_second.rate(),
            linked_spans: of(&self.linked_spans),
            links_ignored: of(&self.links_ignored),
            foreign_spans: of(&self.foreign_spans),
            invalid_spans: of(&self.invalid_spans),
            other_signals: of(&self.other_signals),
            refused: RefusalCounts {
                malformed: of(&self.malformed),
                too_large: of(&self.too_large),
                unsupported: of(&self.unsupported),
                busy: of(&self.busy),
                incomplete: of(&self.incomplete),
            },
            forward: ForwardCounts {
                requests: of(&self.forwarded_requests),
                spans: of(&self.forwarded_spans),
                dropped_requests: of(&self.dropped_requests),
                dropped_spans: of(&self.dropped_spans),
            },
        }
    }
}
