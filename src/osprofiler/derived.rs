//! A profiler without records: only a stack of derived ids.
//!
//! It is for clients that start traces very often and record times themselves. It must not allocate,
//! lock, read a clock or read a thread's state; every id is computed from the seed.
//! [`super::profiler`] and [`super::trace`] make records.

use smallvec::SmallVec;
use uuid::Uuid;

use super::signing::{BaseSigner, TraceHeaders, Traceparent, traceparent};
use base::ids::IdSpace;

/// The usual depth of such traces; deeper stacks use the heap.
const DEPTH: usize = 4;

/// A position in a trace.
#[derive(Clone, Debug)]
pub struct DerivedProfiler {
    ids: IdSpace,
    stream: u16,
    number: u64,
    /// The number of the next point; 0 is the base_id.
    next: u32,
    base_id: Uuid,
    /// The numbers of the open points. An id is computed when it is asked for: most points' ids never are.
    open: SmallVec<[u32; DEPTH]>,
}

impl DerivedProfiler {
    /// The profiler of one trace, without an open point; its base_id is `ids.base_id(stream, number)`.
    #[must_use]
    pub fn new(ids: impl Into<IdSpace>, stream: u16, number: u64) -> Self {
        let ids = ids.into();
        let base_id = ids.base_id(stream, number);
        Self { ids, stream, number, next: 1, base_id, open: SmallVec::new() }
    }

    /// Opens a point below the current one and returns its id.
    pub fn start(&mut self) -> Uuid {
        self.start_numbered(self.next)
    }

    /// Opens the point of this number below the current one and returns its id. For a caller that numbers the points of
    /// several branches of one trace: two points of a trace must not have the same number, and 0 is the trace itself.
    #[inline]
    pub fn start_numbered(&mut self, number: u32) -> Uuid {
        self.next = number.saturating_add(1);
        self.open.push(number);
        self.id_of(number)
    }

    #[inline]
    fn id_of(&self, number: u32) -> Uuid {
        self.ids.point_id(self.stream, self.number, number)
    }

    /// Closes the current point; without an open point it does nothing.
    pub fn stop(&mut self) {
        self.open.pop();
    }

    /// The trace.
    #[must_use]
    pub fn base_id(&self) -> Uuid {
        self.base_id
    }

    /// The point around the current one. As in OSProfiler it is base_id while no point is open.
    #[must_use]
    pub fn parent_id(&self) -> Uuid {
        self.open.len().checked_sub(2).map_or(self.base_id, |around| self.id_of(self.open[around]))
    }

    /// The current point: the parent of a request that is sent now.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.open.last().map_or(self.base_id, |number| self.id_of(*number))
    }

    /// W3C's traceparent for a request from the current point.
    #[must_use]
    pub fn traceparent(&self) -> Traceparent {
        traceparent(self.base_id, self.id())
    }

    /// How many points are open.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// The headers for a request from the current point. `signer` must be for this trace.
    #[must_use]
    pub fn headers(&self, signer: &BaseSigner) -> TraceHeaders {
        debug_assert_eq!(signer.base_id(), self.base_id);
        signer.sign(self.id())
    }
}
