//! The handle of a point. Everything else in this crate is built on it.
//!
//! A [`TraceHandle`] names a point and never changes; a child is a new handle. So points that are open
//! at the same time cannot take each other's place. In OSProfiler's OTLP driver, with one stack for
//! each process, they do. A [`PointScope`] is an open point. To avoid passing handles, use
//! [`super::profiler`], which keeps the current one for each task and thread.
//!
//! Nothing here may block, fail or panic: a point must never stop the work that it observes.

pub(crate) mod current;

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::Value;
use uuid::Uuid;

#[cfg(feature = "functions")]
use super::functions::numbers::Number;
#[cfg(feature = "functions")]
use super::functions::operation::{OperationCandidate, ProfiledPoint};
use super::notifier::{self, Notifier, Reporter};
use super::record::{Info, START_SUFFIX, STOP_SUFFIX, ServiceIdentity, Timestamp, TraceRecord, bounded_text};
use super::signing::Signer;
use super::verifying::TraceContext;
use base::clock::{Nanos, RunClock, saturating_nanos};
use base::secret::Secret;

/// The key of a stop's info for how long the point was at work (microseconds): on the processor, or
/// blocking its thread. Points below it on the same task count too, as in the `cumtime` of Python's
/// profilers.
pub const BUSY_US: &str = "busy_us";
/// The key of a stop's info for how long the point waited to be polled again (microseconds):
/// its duration without [`BUSY_US`].
pub const IDLE_US: &str = "idle_us";
/// The key of a stop's info that is `true` when the work was dropped before its end.
pub const CANCELLED: &str = "cancelled";
/// The key of a stop's info that is `true` if `stop` was not called: the point was closed when the
/// work that had started it ended.
pub const UNSTOPPED: &str = "unstopped";
/// Error messages are cut to this many bytes.
pub const MESSAGE_LEN_MAX: usize = 8 * 1024;

/// A point of a trace, under which further ones can be opened. Cloning it is cheap.
#[derive(Clone)]
pub struct TraceHandle {
    point: Arc<TracePoint>,
}

struct TracePoint {
    shared: Arc<TraceCore>,
    id: String,
    stop_info: Mutex<Option<Info>>,
    /// Its part in an operation whose functions are profiled.
    #[cfg(feature = "functions")]
    numbered: Option<ProfiledPoint>,
}

struct TraceCore {
    base_id: String,
    signer: Option<Signer>,
    /// Without a reporter, the trace is only passed on.
    reporter: Option<Reporter>,
    /// One anchor for each trace: durations are monotonic, and no clock drift can add up.
    clock: RunClock,
}

impl TraceHandle {
    /// The handle of a request that arrived with `context`; it represents the client's point.
    #[must_use]
    pub fn new(context: TraceContext, identity: Arc<ServiceIdentity>, notifier: Arc<dyn Notifier>) -> Self {
        Self::of(context, Some(Reporter::new(identity, notifier)))
    }

    /// The handle of a trace that starts here. Without a signer, onward requests are unsigned.
    #[must_use]
    pub fn start(
        base_id: Uuid,
        signer: Option<Signer>,
        identity: Arc<ServiceIdentity>,
        notifier: Arc<dyn Notifier>,
    ) -> Self {
        let reporter = Some(Reporter::new(identity, notifier));
        Self::build(base_id.to_string(), base_id.to_string(), signer, reporter)
    }

    /// OSProfiler's `init`, but the profiler does not become current. It reports to the reporter that
    /// [`notifier::set`] was given. An absent or empty base_id becomes a random one, an absent or
    /// empty parent_id the base_id; with an empty key onward requests are unsigned.
    #[must_use]
    pub fn init(hmac_key: &Secret, base_id: Option<&str>, parent_id: Option<&str>) -> Self {
        let given = |id: Option<&str>| id.filter(|id| !id.is_empty()).map(str::to_owned);
        let base_id = given(base_id).unwrap_or_else(|| Uuid::new_v4().to_string());
        let parent_id = given(parent_id).unwrap_or_else(|| base_id.clone());
        Self::build(base_id, parent_id, Signer::new(hmac_key), notifier::get())
    }

    pub(super) fn of(context: TraceContext, reporter: Option<Reporter>) -> Self {
        let TraceContext { base_id, parent_id, signer } = context;
        Self::build(base_id, parent_id, Some(signer), reporter)
    }

    fn build(base_id: String, id: String, signer: Option<Signer>, reporter: Option<Reporter>) -> Self {
        let shared = Arc::new(TraceCore { base_id, signer, reporter, clock: RunClock::start() });
        let point = TracePoint {
            shared,
            id,
            stop_info: Mutex::new(None),
            #[cfg(feature = "functions")]
            numbered: None,
        };
        Self { point: Arc::new(point) }
    }

    /// The trace.
    #[must_use]
    pub fn base_id(&self) -> &str {
        &self.point.shared.base_id
    }

    /// This point: the parent of the points opened through this handle.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.point.id
    }

    /// Opens a point that is closed when the guard is dropped. It does not become the current one:
    /// for that there are [`super::profiler::start`] and [`super::profiler::trace`].
    #[must_use = "the point is closed when this is dropped"]
    pub fn enter(&self, name: &str, info: Option<Info>) -> PointScope {
        let shared = Arc::clone(&self.point.shared);
        let id = Uuid::new_v4().to_string();
        let point = TracePoint {
            shared,
            stop_info: Mutex::new(None),
            #[cfg(feature = "functions")]
            numbered: self.numbered_child(name, &id),
            id,
        };
        let scope = PointScope {
            trace: Self { point: Arc::new(point) },
            parent: self.clone(),
            name: name.to_owned(),
            started_ns: self.point.shared.clock.now_ns(),
            ended_ns: None,
            busy_ns: None,
            // A panic that is under way already is not this point's.
            may_panic: !std::thread::panicking(),
        };
        scope.notify(START_SUFFIX, scope.started_ns, || info.unwrap_or_default());
        scope
    }

    #[cfg(feature = "functions")]
    fn numbered_child(&self, name: &str, id: &str) -> Option<ProfiledPoint> {
        let TraceCore { base_id, signer, reporter, .. } = &*self.point.shared;
        let candidate = OperationCandidate { name, base_id, signer: signer.as_ref() };
        ProfiledPoint::of_point(self.point.numbered.as_ref(), &candidate, id, reporter.as_ref())
    }

    /// The number to write into the stack of this point's work, if its functions are profiled.
    #[cfg(feature = "functions")]
    fn number(&self) -> Option<Number> {
        self.point.numbered.as_ref().map(|numbered| numbered.number(self.id()))
    }

    /// Runs `work` with this as its current point, for instance on another thread.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        current::run(current::Flow::follow(self.clone()), work, None)
    }

    /// Marks this point as failed: its stop record gets `etype` and `message`, as in OSProfiler for an
    /// exception. The last call counts; it does nothing once the point is closed.
    pub fn fail(&self, etype: &str, message: &str) {
        self.add(failure(etype, &message));
    }

    /// Adds a detail to the point's stop record.
    pub fn note(&self, key: &str, value: Value) {
        self.point.stop_info().get_or_insert_default().insert(key.to_owned(), value);
    }

    /// Adds details to the point's stop record.
    pub(super) fn add(&self, info: Info) {
        self.point.stop_info().get_or_insert_default().extend(info);
    }

    #[cfg(feature = "tracing")]
    /// As [`TraceHandle::add`], but keeps what an object such as `function` or `db` has already.
    pub(super) fn merge(&self, key: &str, details: Info) {
        let mut stop_info = self.point.stop_info();
        let info = stop_info.get_or_insert_default();
        match info.get_mut(key) {
            Some(Value::Object(known)) => known.extend(details),
            _ => {
                info.insert(key.to_owned(), Value::Object(details));
            }
        }
    }

    pub(super) fn is_of_same_trace(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.point.shared, &other.point.shared)
    }

    pub(super) fn signer(&self) -> Option<&Signer> {
        self.point.shared.signer.as_ref()
    }

    #[cfg(feature = "tower")]
    pub(super) fn signed_headers(&self) -> Option<(String, String)> {
        self.signer().map(|signer| signer.sign_text(self.base_id(), self.id()))
    }
}

impl fmt::Debug for TraceHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Trace({} in {})", self.id(), self.base_id())
    }
}

impl TracePoint {
    fn stop_info(&self) -> MutexGuard<'_, Option<Info>> {
        // A panic between two insertions leaves a usable map.
        self.stop_info.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open point; dropping it closes the point.
#[derive(Debug)]
pub struct PointScope {
    trace: TraceHandle,
    parent: TraceHandle,
    name: String,
    started_ns: Nanos,
    /// When it ended, if that is not when this is dropped.
    ended_ns: Option<Nanos>,
    busy_ns: Option<Nanos>,
    may_panic: bool,
}

impl PointScope {
    /// The point's handle, for points below it and for onward requests.
    #[must_use]
    pub fn trace(&self) -> &TraceHandle {
        &self.trace
    }

    /// See [`TraceHandle::fail`].
    pub fn fail(&self, etype: &str, message: &str) {
        self.trace.fail(etype, message);
    }

    /// Records how long the point was at work.
    pub(super) fn was_busy(&mut self, busy_ns: Nanos) {
        self.busy_ns = Some(busy_ns);
    }

    #[cfg(feature = "tracing")]
    /// Sets the stop to an earlier time.
    pub(super) fn ended_at(&mut self, instant: Instant) {
        self.ended_ns = Some(self.trace.point.shared.clock.offset_ns(instant).max(self.started_ns));
    }

    /// Notes that the work did not end with a panic of this point itself.
    pub(super) fn did_not_panic(&mut self) {
        self.may_panic = false;
    }

    fn notify(&self, suffix: &str, at_ns: Nanos, info: impl FnOnce() -> Info) {
        let shared = &*self.trace.point.shared;
        let Some(reporter) = &shared.reporter else { return };
        let record = TraceRecord {
            name: format!("{}{suffix}", self.name).into(),
            base_id: shared.base_id.as_str().into(),
            trace_id: self.trace.id().into(),
            parent_id: self.parent.id().into(),
            timestamp: Timestamp::from_unix_ns(shared.clock.wall_anchor_unix_ns().saturating_add(at_ns)),
            info: info().into(),
            project: None,
            service: None,
        };
        let record = record.reported_by(&reporter.identity);
        // A notifier that is itself instrumented must not report on its reporting, and one that
        // panics must not take the observed work with it.
        let notify = AssertUnwindSafe(|| current::untraced(|| reporter.notifier.notify(record)));
        let _ = catch_unwind(notify);
    }

    fn stop_info(&self, ended_ns: Nanos) -> Info {
        let mut info = self.trace.point.stop_info().take().unwrap_or_default();
        if self.may_panic && std::thread::panicking() && !info.contains_key("etype") {
            info.extend(failure("panic", &"the work panicked"));
        }
        if let Some(busy_ns) = self.busy_ns {
            let duration_ns = ended_ns.saturating_sub(self.started_ns);
            let busy_ns = busy_ns.min(duration_ns);
            info.insert(BUSY_US.to_owned(), (busy_ns / 1000).into());
            info.insert(IDLE_US.to_owned(), ((duration_ns - busy_ns) / 1000).into());
        }
        info
    }
}

impl Drop for PointScope {
    fn drop(&mut self) {
        let ended_ns = self.ended_ns.unwrap_or_else(|| self.trace.point.shared.clock.now_ns());
        self.notify(STOP_SUFFIX, ended_ns, || self.stop_info(ended_ns));
        #[cfg(feature = "functions")]
        if let Some(numbered) = &self.trace.point.numbered {
            let wall_anchor_unix_ns = self.trace.point.shared.clock.wall_anchor_unix_ns();
            numbered.closed(wall_anchor_unix_ns.saturating_add(ended_ns));
        }
    }
}

/// A stop's info of a point that failed.
pub(super) fn failure(etype: &str, message: &dyn fmt::Display) -> Info {
    let mut info = Info::new();
    info.insert("etype".to_owned(), Value::String(etype.to_owned()));
    info.insert("message".to_owned(), Value::String(bounded_text(message, MESSAGE_LEN_MAX)));
    info
}

/// How long ago `instant` was, in nanoseconds.
pub(super) fn elapsed_ns(instant: Instant) -> Nanos {
    saturating_nanos(instant.elapsed())
}
