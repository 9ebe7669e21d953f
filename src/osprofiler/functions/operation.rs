//! What a trace point does when it may belong to a profiled operation, and the numbers of points.
//!
//! A point whose operation is picked gets a number of its own while there are some; then its polls write the number
//! into the stack. While nothing is picked, a point pays one load. Nothing here waits for the reader's work: the lock is
//! held for a few instructions.

use std::collections::HashMap;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::model::{FunctionProfile, Wait};
use super::numbers::{NUMBERS, Number};
use crate::notifier::Reporter;

/// Further points of an operation share the number of the point above them.
const NUMBERS_PER_OPERATION_MAX: usize = 500;
/// When this many wait to be free again, the next reading is earlier.
const RETURNED_MAX: usize = NUMBERS / 4;
/// Further places where an operation waits are not kept.
const PLACES_MAX: usize = 200;
/// How long an ended operation waits for tasks that it left behind.
const LEFT_BEHIND_TIMEOUT: Duration = Duration::from_secs(5);

static PICKING: AtomicBool = AtomicBool::new(false);
/// The numbers that no sampler has; at first all. Work of a sampler that has ended may still write the numbers that it
/// had, so those are never given to the next one.
static UNUSED: Mutex<Option<Vec<Number>>> = Mutex::new(None);
static CURRENT: RwLock<Option<Arc<Operations>>> = RwLock::new(None);

/// Which operations are profiled.
pub(crate) trait Pick: Send + Sync {
    /// Whether a point begins an operation.
    fn picks(&self, candidate: &OperationCandidate<'_>) -> bool;
}

/// A point that could begin an operation.
pub(crate) struct OperationCandidate<'a> {
    pub(crate) name: &'a str,
    pub(crate) base_id: &'a str,
    pub(crate) signer: Option<&'a crate::signing::Signer>,
}

/// What an operation is.
pub(crate) struct OperationDescription {
    pub(crate) name: String,
    pub(crate) base_id: String,
    pub(crate) point_id: String,
    /// To whom its functions are reported; `None` for a session, which is asked.
    pub(crate) reporter: Option<Reporter>,
    pub(crate) is_session: bool,
}

/// A piece of work whose functions are wanted.
pub(crate) struct Operation {
    pub(crate) about: OperationDescription,
    pub(crate) id: u64,
    ended: Mutex<Option<OperationEnd>>,
    leases: AtomicUsize,
    numbered: AtomicUsize,
    waits: Mutex<HashMap<&'static Location<'static>, (u64, u64)>>,
    /// Set by the reader once it is over: for a session, its functions.
    delivered: OnceLock<Option<FunctionProfile>>,
}

#[derive(Clone, Copy)]
struct OperationEnd {
    at: Instant,
    unix_ns: u64,
}

/// All operations of this process.
pub(crate) struct Operations {
    pick: Box<dyn Pick>,
    live_max: usize,
    table: Mutex<OperationTable>,
    /// The reader waits for the first operation.
    began: Condvar,
    next_id: AtomicU64,
    pub(crate) refused: AtomicU64,
}

struct OperationTable {
    free: Vec<Number>,
    /// Their points are gone, but they may be in stacks that are not read yet.
    returned: Vec<Number>,
    /// The same, returned before the last reading.
    resting: Vec<Number>,
    owners: HashMap<Number, Owner>,
    /// Ended ones wait here for the next reading.
    live: Vec<Arc<Operation>>,
    /// How many have not ended.
    open: usize,
    /// Each caller that wants the next reading now gets a ticket.
    tickets: u64,
    served: u64,
    stop: bool,
}

impl OperationTable {
    fn is_urgent(&self) -> bool {
        self.served < self.tickets || self.stop || self.returned.len() >= RETURNED_MAX
    }
}

/// Whose a number is.
#[derive(Clone)]
pub(crate) struct Owner {
    pub(crate) operation: Arc<Operation>,
    pub(crate) point_id: Arc<str>,
}

/// A number in use; it is returned when this is dropped.
struct Lease {
    number: Number,
    operation: Arc<Operation>,
    operations: Arc<Operations>,
}

/// A point's part in a profiled operation.
pub(crate) struct ProfiledPoint {
    /// That of the point above, or its own if it is the first.
    above: Arc<Lease>,
    /// Only a point that is polled needs a number.
    own: OnceLock<Arc<Lease>>,
    is_root: bool,
}

impl ProfiledPoint {
    /// The number of a point that is opened: below `parent`'s, or as the first one of an operation that is picked.
    pub(crate) fn of_point(
        parent: Option<&Self>,
        candidate: &OperationCandidate<'_>,
        point_id: &str,
        reporter: Option<&Reporter>,
    ) -> Option<Self> {
        if let Some(parent) = parent {
            return Some(parent.child());
        }
        if !PICKING.load(Ordering::Relaxed) {
            return None;
        }
        let operations = CURRENT.read().unwrap_or_else(PoisonError::into_inner).clone()?;
        if !operations.pick.picks(candidate) {
            return None;
        }
        operations.begin(OperationDescription {
            name: candidate.name.to_owned(),
            base_id: candidate.base_id.to_owned(),
            point_id: point_id.to_owned(),
            reporter: reporter.cloned(),
            is_session: false,
        })
    }

    /// The number to write into the stack of this point's work.
    pub(crate) fn number(&self, point_id: &str) -> Number {
        let Lease { operation, operations, .. } = &*self.above;
        let own = self
            .own
            .get_or_init(|| operations.lease(operation, point_id).unwrap_or_else(|| Arc::clone(&self.above)));
        own.number
    }

    pub(crate) fn operation(&self) -> &Arc<Operation> {
        &self.above.operation
    }

    /// The point is closed: if it is the operation's first one, that has ended.
    pub(crate) fn closed(&self, unix_ns: u64) {
        if self.is_root && self.operation().end(unix_ns) {
            self.above.operations.table().open -= 1;
        }
    }

    fn child(&self) -> Self {
        let above = Arc::clone(self.own.get().unwrap_or(&self.above));
        Self { above, own: OnceLock::new(), is_root: false }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.operation.leases.fetch_sub(1, Ordering::Relaxed);
        let mut table = self.operations.table();
        table.returned.push(self.number);
        if table.returned.len() == RETURNED_MAX {
            drop(table);
            self.operations.began.notify_all();
        }
    }
}

impl Operation {
    /// Ends it; `false` if it had ended before.
    fn end(&self, unix_ns: u64) -> bool {
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let first = ended.is_none();
        ended.get_or_insert(OperationEnd { at: Instant::now(), unix_ns });
        first
    }

    /// When it ended, in nanoseconds since the Unix epoch.
    pub(crate) fn ended_unix_ns(&self) -> Option<u64> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner).map(|ended| ended.unix_ns)
    }

    /// Adds time between a poll that had to wait and the next.
    pub(crate) fn waited(&self, place: &'static Location<'static>, waited_ns: u64) {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        if waits.len() < PLACES_MAX || waits.contains_key(place) {
            let (count, sum_ns) = waits.entry(place).or_default();
            *count += 1;
            *sum_ns = sum_ns.saturating_add(waited_ns);
        }
    }

    /// Where it waited.
    pub(crate) fn waits(&self) -> Vec<Wait> {
        let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        let wait = |(place, (count, waited_ns)): (&&Location<'_>, &(u64, u64))| Wait {
            file: place.file().to_owned(),
            line: place.line(),
            count: *count,
            waited_ns: *waited_ns,
        };
        waits.iter().map(wait).collect()
    }

    /// Notes that no more samples are added; a session keeps its functions here.
    pub(crate) fn deliver(&self, profile: Option<FunctionProfile>) {
        // It is delivered once.
        let _ = self.delivered.set(profile);
    }

    /// What was delivered, if it was.
    pub(crate) fn delivered(&self) -> Option<&Option<FunctionProfile>> {
        self.delivered.get()
    }

    /// Whether nothing of it can be at work any more, or it was waited for long enough.
    fn is_over(&self) -> bool {
        let ended = *self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(ended) = ended else { return false };
        // Only its own `stop` ends a session.
        self.about.is_session
            || self.leases.load(Ordering::Relaxed) == 0
            || ended.at.elapsed() > LEFT_BEHIND_TIMEOUT
    }
}

/// What the reader does next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ReaderAction {
    /// Something lives.
    Sample,
    /// Nothing lives, and what is over is wanted.
    Deliver,
    /// It is time to end.
    Stop,
}

/// What the reader takes after a reading.
pub(crate) struct OperationBatch {
    /// Whose numbers are in the stacks.
    pub(crate) owners: HashMap<Number, Owner>,
    /// The operations that are over.
    pub(crate) over: Vec<Arc<Operation>>,
    /// Whether others live.
    pub(crate) any_lives: bool,
}

impl Operations {
    /// Makes these the process's operations; `None` if there are some already.
    pub(crate) fn install(pick: Box<dyn Pick>, live_max: usize, picking: bool) -> Option<Arc<Self>> {
        let mut current = CURRENT.write().unwrap_or_else(PoisonError::into_inner);
        if current.is_some() {
            return None;
        }
        let table = OperationTable {
            free: unused().replace(Vec::new()).unwrap_or_else(|| Number::all().rev().collect()),
            returned: Vec::new(),
            resting: Vec::new(),
            owners: HashMap::new(),
            live: Vec::new(),
            open: 0,
            tickets: 0,
            served: 0,
            stop: false,
        };
        let operations = Arc::new(Self {
            pick,
            live_max,
            table: Mutex::new(table),
            began: Condvar::new(),
            next_id: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        });
        *current = Some(Arc::clone(&operations));
        PICKING.store(picking, Ordering::Relaxed);
        Some(operations)
    }

    /// No operation is picked any more, and the reader ends after what it is at.
    pub(crate) fn uninstall(&self) {
        PICKING.store(false, Ordering::Relaxed);
        drop(CURRENT.write().unwrap_or_else(PoisonError::into_inner).take());
        self.table().stop = true;
        self.began.notify_all();
    }

    /// After the last reading: numbers that no point holds are for the next sampler.
    pub(crate) fn release(&self) {
        let mut table = self.table();
        let mut free = std::mem::take(&mut table.free);
        free.append(&mut table.returned);
        free.append(&mut table.resting);
        unused().get_or_insert_default().extend(free);
    }

    /// Begins an operation; `None` if too many live.
    pub(crate) fn begin(self: &Arc<Self>, about: OperationDescription) -> Option<ProfiledPoint> {
        let operation = Arc::new(Operation {
            id: self.next_id.fetch_add(1, Ordering::Relaxed),
            ended: Mutex::new(None),
            leases: AtomicUsize::new(0),
            numbered: AtomicUsize::new(0),
            waits: Mutex::default(),
            delivered: OnceLock::new(),
            about,
        });
        let mut table = self.table();
        let lease = if table.open < self.live_max {
            self.lease_in(&mut table, &operation, &operation.about.point_id)
        } else {
            None
        };
        let Some(lease) = lease else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        table.live.push(operation);
        table.open += 1;
        let wakes = table.live.len() == 1;
        drop(table);
        if wakes {
            self.began.notify_all();
        }
        let own = OnceLock::from(Arc::clone(&lease));
        Some(ProfiledPoint { above: lease, own, is_root: true })
    }

    /// Waits until an operation lives, a reading is urgent, or it is time to stop.
    pub(crate) fn wait_for_work(&self) -> ReaderAction {
        let idle = |table: &mut OperationTable| table.live.is_empty() && !table.is_urgent();
        let table = self.began.wait_while(self.table(), idle).unwrap_or_else(PoisonError::into_inner);
        match () {
            () if table.stop => ReaderAction::Stop,
            () if table.live.is_empty() => ReaderAction::Deliver,
            () => ReaderAction::Sample,
        }
    }

    /// Waits for `pause`, unless a reading is urgent. The number is for [`Operations::serve`].
    pub(crate) fn wait_for(&self, pause: Duration) -> u64 {
        let waited = self.began.wait_timeout_while(self.table(), pause, |table| !table.is_urgent());
        waited.unwrap_or_else(PoisonError::into_inner).0.tickets
    }

    /// Notes that a reading is complete that was begun with these tickets given.
    pub(crate) fn serve(&self, tickets: u64) {
        self.table().served = tickets;
        self.began.notify_all();
    }

    /// Has everything read that was seen before now; `false` if that took longer than `limit`.
    pub(crate) fn flush(&self, limit: Duration) -> bool {
        let mut table = self.table();
        table.tickets += 1;
        let mine = table.tickets;
        self.began.notify_all();
        let waiting = |table: &mut OperationTable| table.served < mine && !table.stop;
        let waited = self.began.wait_timeout_while(table, limit, waiting);
        waited.unwrap_or_else(PoisonError::into_inner).0.served >= mine
    }

    /// What the reader needs once it has the stacks. Numbers returned before the last time are free after that: stacks
    /// that are seen meanwhile, and read next time, may have those that were returned since.
    pub(crate) fn take_owners(&self) -> OperationBatch {
        let mut table = self.table();
        let owners = table.owners.clone();
        for number in std::mem::take(&mut table.resting) {
            table.owners.remove(&number);
            table.free.push(number);
        }
        table.resting = std::mem::take(&mut table.returned);
        let (over, live): (Vec<_>, Vec<_>) =
            std::mem::take(&mut table.live).into_iter().partition(|live| live.is_over());
        let any_lives = !live.is_empty();
        table.live = live;
        OperationBatch { owners, over, any_lives }
    }

    fn lease(self: &Arc<Self>, operation: &Arc<Operation>, point_id: &str) -> Option<Arc<Lease>> {
        self.lease_in(&mut self.table(), operation, point_id)
    }

    fn lease_in(
        self: &Arc<Self>,
        table: &mut OperationTable,
        operation: &Arc<Operation>,
        point_id: &str,
    ) -> Option<Arc<Lease>> {
        if operation.numbered.load(Ordering::Relaxed) >= NUMBERS_PER_OPERATION_MAX {
            return None;
        }
        let number = table.free.pop()?;
        operation.numbered.fetch_add(1, Ordering::Relaxed);
        operation.leases.fetch_add(1, Ordering::Relaxed);
        let owner = Owner { operation: Arc::clone(operation), point_id: Arc::from(point_id) };
        table.owners.insert(number, owner);
        Some(Arc::new(Lease { number, operation: Arc::clone(operation), operations: Arc::clone(self) }))
    }

    fn table(&self) -> MutexGuard<'_, OperationTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn unused() -> MutexGuard<'static, Option<Vec<Number>>> {
    UNUSED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The operations of this process, if functions are sampled.
pub(crate) fn current() -> Option<Arc<Operations>> {
    CURRENT.read().unwrap_or_else(PoisonError::into_inner).clone()
}
