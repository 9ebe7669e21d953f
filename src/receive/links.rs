//! Links from other traces to wanted ones, and the requests that came before them.
//!
//! A consumer of messages often begins a trace of its own, and its first span has a link to the span that sent the
//! message. That span and all others of its trace belong to the wanted trace. [`Links`] remembers such traces: a
//! bounded number, the oldest are forgotten. Spans are sent when they end, so spans below the linking span come before
//! it, often in a request of their own. [`RecentRequests`] has the last requests with foreign spans, to look there
//! again.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, BuildHasherDefault, Hasher, RandomState};

use bytes::Bytes;

use base::ids::mix;

/// More links of a span are not read. OpenTelemetry's SDKs keep 128.
pub const LINKS_OF_A_SPAN_MAX: usize = 1_024;
/// A trace belongs to no more wanted ones than this: the traces of the messages that are consumed together.
const OWNERS_MAX: usize = 128;
/// This many linked traces are remembered at least, and twice as many at most.
const TRACES_MAX: usize = 1 << 15;
/// This many of their owners are remembered, roughly.
const OWNERS_IN_ALL_MAX: usize = 1 << 17;
/// Bytes of the requests in [`RecentRequests`].
const RECENT_BYTES_MAX: usize = 16 << 20;
const RECENT_MAX: usize = 1_024;

/// A hasher for numbers that are mixed with a secret one already.
#[derive(Default)]
struct MixedIdHasher(u64);

impl Hasher for MixedIdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0 ^ number);
    }

    fn write_u128(&mut self, number: u128) {
        self.write_u64((number >> 64) as u64);
        self.write_u64(number as u64);
    }
}

/// Trace ids come from outside: without the key, a sender could make them collide.
type TraceOwners = HashMap<(u64, u128), Vec<u128>, BuildHasherDefault<MixedIdHasher>>;

/// Which other traces belong to wanted ones.
#[derive(Default)]
pub struct Links {
    key: u64,
    young: TraceOwners,
    old: TraceOwners,
    /// Owners of the young ones.
    owners: usize,
    added: Vec<(u128, u128)>,
    /// Nothing can be added.
    is_fixed: bool,
    ignored: u64,
}

impl Links {
    /// None so far.
    #[must_use]
    pub fn new() -> Self {
        Self { key: RandomState::new().hash_one(0), ..Self::default() }
    }

    /// Only these: pairs of a trace and the wanted one that it belongs to.
    #[must_use]
    pub fn only(pairs: &[(u128, u128)]) -> Self {
        let mut links = Self::new();
        for (trace, owner) in pairs {
            links.add(*trace, *owner);
        }
        Self { is_fixed: true, ..links }
    }

    /// Whether a trace belongs to a wanted one.
    #[inline]
    #[must_use]
    pub fn knows(&self, trace: u128) -> bool {
        let key = (self.key, trace);
        !(self.young.is_empty() && self.old.is_empty())
            && (self.young.contains_key(&key) || self.old.contains_key(&key))
    }

    /// The wanted traces that a trace belongs to.
    #[must_use]
    pub fn owners(&self, trace: u128) -> &[u128] {
        let key = (self.key, trace);
        self.young.get(&key).or_else(|| self.old.get(&key)).map_or(&[], Vec::as_slice)
    }

    /// Adds that a trace belongs to a wanted one; false if that is known, or cannot be remembered.
    pub fn add(&mut self, trace: u128, owner: u128) -> bool {
        if self.is_fixed {
            return false;
        }
        let key = (self.key, trace);
        if self.young.len() >= TRACES_MAX || self.owners >= OWNERS_IN_ALL_MAX {
            self.old = std::mem::take(&mut self.young);
            self.owners = 0;
        }
        if let Some(known) = self.old.remove(&key) {
            self.owners += known.len();
            self.young.insert(key, known);
        }
        let owners = self.young.entry(key).or_default();
        if owners.contains(&owner) {
            return false;
        }
        if owners.len() == OWNERS_MAX {
            self.ignored += 1;
            return false;
        }
        owners.push(owner);
        self.owners += 1;
        self.added.push((trace, owner));
        true
    }

    /// Adds that a trace belongs to all that another one belongs to; false if nothing of that is new.
    pub fn add_as(&mut self, trace: u128, other: u128) -> bool {
        let owners = self.owners(other).to_vec();
        let mut is_new = false;
        for owner in owners {
            is_new |= self.add(trace, owner);
        }
        is_new
    }

    /// Counts a link, or a span for want of room for it, that is passed over.
    pub fn ignore(&mut self) {
        self.ignored += 1;
    }

    /// What was added since the last call: pairs of a trace and the wanted one that it belongs to.
    pub fn take_added(&mut self) -> Vec<(u128, u128)> {
        std::mem::take(&mut self.added)
    }

    /// How many were passed over since the last call.
    pub fn take_ignored(&mut self) -> u64 {
        std::mem::take(&mut self.ignored)
    }
}

/// A request with foreign spans.
struct ForeignRequest {
    body: Bytes,
    traces: Vec<u128>,
}

impl ForeignRequest {
    fn bytes(&self) -> usize {
        self.body.len() + self.traces.len() * size_of::<u128>()
    }
}

/// The last requests that had spans of foreign traces, in protobuf, within a bound of bytes.
#[derive(Default)]
pub struct RecentRequests {
    requests: VecDeque<ForeignRequest>,
    bytes: usize,
}

impl RecentRequests {
    /// Adds a request, and lets go of the oldest ones where needed. `traces`: its foreign ones, in any order.
    pub fn push(&mut self, body: Bytes, traces: Vec<u128>) {
        let request = ForeignRequest { body, traces };
        if request.bytes() > RECENT_BYTES_MAX {
            return;
        }
        self.bytes += request.bytes();
        self.requests.push_back(request);
        while self.bytes > RECENT_BYTES_MAX || self.requests.len() > RECENT_MAX {
            let Some(oldest) = self.requests.pop_front() else { return };
            self.bytes -= oldest.bytes();
        }
    }

    /// The requests with spans of the traces that `links` knows.
    pub fn with(&self, links: &Links) -> impl Iterator<Item = &Bytes> {
        let has = |request: &&ForeignRequest| request.traces.iter().any(|trace| links.knows(*trace));
        self.requests.iter().filter(has).map(|request| &request.body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_remembered_within_bounds() {
        let mut links = Links::new();
        assert!(!links.knows(1) && links.owners(1).is_empty());
        assert!(links.add(1, 10) && !links.add(1, 10) && links.add(1, 11));
        assert!(links.add_as(2, 1) && !links.add_as(2, 1) && !links.add_as(3, 99));
        assert_eq!((links.owners(1), links.owners(2)), (&[10, 11][..], &[10, 11][..]));
        assert_eq!(links.take_added(), [(1, 10), (1, 11), (2, 10), (2, 11)]);
        // What is used stays, what is not is forgotten.
        for trace in 0..5 * TRACES_MAX as u128 {
            links.add(1_000 + trace, 12);
            links.add(1, 10);
        }
        assert_eq!((links.owners(1), links.knows(2)), (&[10, 11][..], false));
        assert!(links.young.len() <= TRACES_MAX && links.old.len() <= TRACES_MAX);
        for owner in 0..2 * OWNERS_MAX as u128 {
            links.add(7, owner);
        }
        assert_eq!((links.owners(7).len(), links.take_ignored()), (OWNERS_MAX, OWNERS_MAX as u64));
        let mut only = Links::only(&[(1, 10)]);
        assert!(only.knows(1) && !only.add(2, 10) && !only.knows(2));
    }

    #[test]
    fn recent_requests_are_found_by_their_traces() {
        let mut recent = RecentRequests::default();
        for number in 0..2 * RECENT_MAX as u128 {
            recent.push(Bytes::from(vec![number as u8; 3]), vec![number, 5]);
        }
        let found = |pairs: &[(u128, u128)]| recent.with(&Links::only(pairs)).count();
        let last = 2 * RECENT_MAX as u128 - 1;
        assert_eq!((found(&[(0, 1)]), found(&[(last, 1)]), found(&[(5, 1)])), (0, 1, RECENT_MAX));
        let mut large = RecentRequests::default();
        for _ in 0..40 {
            large.push(Bytes::from(vec![0; 1 << 20]), vec![1]);
        }
        large.push(Bytes::from(vec![0; RECENT_BYTES_MAX]), vec![1]);
        assert!(large.bytes <= RECENT_BYTES_MAX && large.requests.len() == 15, "{}", large.requests.len());
    }
}
