//! OSProfiler's profiler: a stack of ids that `start` and `stop` push and pop.
//!
//! For sequential code, above all for the load generator, which makes a fresh one for each
//! iteration. It may not be shared between tasks (concurrent points need [`super::trace::Trace`]),
//! may not allocate for points nobody records, and knows nothing about collectors: where ids come
//! from and where records go is up to [`Points`].

use std::sync::Arc;

use smallvec::SmallVec;
use uuid::Uuid;

use super::notifier::Notifier;
use super::record::{Identity, Info, Record, START_SUFFIX, STOP_SUFFIX, timestamp};
use super::signing::{BaseSigner, TraceHeaders};
use crate::base::clock::RunClock;
use crate::base::ids::IdSpace;

/// How deep load scenarios nest; deeper stacks go to the heap.
const DEPTH: usize = 3;

/// Where a profiler's ids come from and where its records go.
pub trait Points {
    /// The id of the next point; no two calls may ever return the same one.
    fn next_id(&mut self) -> Uuid;
    /// Takes a record without who reports it; must not block.
    fn notify(&mut self, record: Record);
    /// Whether [`Points::notify`] is of any use.
    fn wants_records(&self) -> bool;
}

/// One flow's position in a trace.
#[derive(Debug)]
pub struct Profiler<P: Points> {
    points: P,
    base_id: Uuid,
    parent_id: Uuid,
    open: SmallVec<[OpenPoint; DEPTH]>,
    clock: Option<RunClock>,
}

#[derive(Debug)]
struct OpenPoint {
    id: Uuid,
    /// Empty, and so without an allocation, when nobody records.
    name: String,
}

impl<P: Points> Profiler<P> {
    /// A profiler without an open point. OSProfiler takes base_id where no parent_id is given.
    #[must_use]
    pub fn init(base_id: Uuid, parent_id: Option<Uuid>, points: P) -> Self {
        let clock = points.wants_records().then(RunClock::start);
        Self { points, base_id, parent_id: parent_id.unwrap_or(base_id), open: SmallVec::new(), clock }
    }

    /// Opens a point below the current one and returns its id.
    pub fn start(&mut self, name: &str, info: Option<Info>) -> Uuid {
        let id = self.points.next_id();
        let name = if self.points.wants_records() { name.to_owned() } else { String::new() };
        self.open.push(OpenPoint { id, name });
        self.notify(START_SUFFIX, info);
        id
    }

    /// Closes the current point; without an open point it does nothing.
    pub fn stop(&mut self, info: Option<Info>) {
        if !self.open.is_empty() {
            self.notify(STOP_SUFFIX, info);
            self.open.pop();
        }
    }

    /// The trace.
    #[must_use]
    pub fn base_id(&self) -> Uuid {
        self.base_id
    }

    /// The point around the current one. As in OSProfiler it is base_id while no point is open.
    #[must_use]
    pub fn parent_id(&self) -> Uuid {
        match self.open.len() {
            0 => self.base_id,
            1 => self.parent_id,
            open => self.open[open - 2].id,
        }
    }

    /// The current point: what a request that is sent now has for a parent.
    #[must_use]
    pub fn id(&self) -> Uuid {
        self.open.last().map_or(self.parent_id, |point| point.id)
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

    fn notify(&mut self, suffix: &str, info: Option<Info>) {
        let (true, Some(clock), Some(point)) = (self.points.wants_records(), self.clock, self.open.last())
        else {
            return;
        };
        let record = Record {
            name: format!("{}{suffix}", point.name),
            base_id: self.base_id.to_string(),
            trace_id: point.id.to_string(),
            parent_id: self.parent_id().to_string(),
            timestamp: timestamp(clock.wall_anchor_unix_ns().saturating_add(clock.now_ns())),
            info: info.unwrap_or_default(),
            project: None,
            service: None,
        };
        self.points.notify(record);
    }
}

/// A load generator's points: derived ids, no records.
#[derive(Clone, Debug)]
pub struct DerivedPoints {
    ids: IdSpace,
    workload: u16,
    iteration: u64,
    next: u32,
}

impl DerivedPoints {
    /// The points of one iteration, numbered from 1; its base_id is `ids.base_id(workload,
    /// iteration)`.
    #[must_use]
    pub fn new(ids: IdSpace, workload: u16, iteration: u64) -> Self {
        Self { ids, workload, iteration, next: 1 }
    }
}

impl Points for DerivedPoints {
    fn next_id(&mut self) -> Uuid {
        let id = self.ids.point_id(self.workload, self.iteration, self.next);
        self.next = self.next.saturating_add(1);
        id
    }

    fn notify(&mut self, _record: Record) {}

    fn wants_records(&self) -> bool {
        false
    }
}

/// A service's points: random ids, records for a notifier.
#[derive(Clone)]
pub struct RecordedPoints {
    identity: Arc<Identity>,
    notifier: Arc<dyn Notifier>,
}

impl RecordedPoints {
    /// Points that `identity` reports to `notifier`.
    #[must_use]
    pub fn new(identity: Arc<Identity>, notifier: Arc<dyn Notifier>) -> Self {
        Self { identity, notifier }
    }
}

impl Points for RecordedPoints {
    fn next_id(&mut self) -> Uuid {
        Uuid::new_v4()
    }

    fn notify(&mut self, record: Record) {
        self.notifier.notify(record.reported_by(&self.identity));
    }

    fn wants_records(&self) -> bool {
        true
    }
}
