//! Trace points of asynchronous services: an immutable handle instead of a shared stack.
//!
//! Every [`Trace`] names one point; a child is a new handle, so concurrent children cannot take
//! each other's place (OSProfiler's OTLP driver, with one stack for each process, does just that).
//! Nothing here may block or fail: a point is observed work, never a reason for it to stop.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use uuid::Uuid;

use super::notifier::Notifier;
use super::record::{Identity, Info, Record, START_SUFFIX, STOP_SUFFIX, timestamp};
use super::signing::Signer;
use super::verifying::TraceContext;
use crate::base::clock::RunClock;

/// A point of a trace, under which further ones can be opened.
#[derive(Clone)]
pub struct Trace {
    shared: Arc<Shared>,
    point: Arc<Point>,
}

struct Shared {
    base_id: String,
    signer: Option<Signer>,
    identity: Arc<Identity>,
    notifier: Arc<dyn Notifier>,
    /// One anchor for each trace: durations are monotonic, and no clock drift can add up.
    clock: RunClock,
}

struct Point {
    id: String,
    stop_info: Mutex<Option<Info>>,
}

impl Trace {
    /// The handle of a request that arrived with `context`; it stands for the client's point.
    #[must_use]
    pub fn new(context: TraceContext, identity: Arc<Identity>, notifier: Arc<dyn Notifier>) -> Self {
        let TraceContext { base_id, parent_id, signer } = context;
        Self::with_signer(base_id, parent_id, Some(signer), identity, notifier)
    }

    /// The handle of a trace that starts here. Without a signer, onward requests are unsigned.
    #[must_use]
    pub fn start(
        base_id: Uuid,
        signer: Option<Signer>,
        identity: Arc<Identity>,
        notifier: Arc<dyn Notifier>,
    ) -> Self {
        Self::with_signer(base_id.to_string(), base_id.to_string(), signer, identity, notifier)
    }

    fn with_signer(
        base_id: String,
        id: String,
        signer: Option<Signer>,
        identity: Arc<Identity>,
        notifier: Arc<dyn Notifier>,
    ) -> Self {
        let shared = Shared { base_id, signer, identity, notifier, clock: RunClock::start() };
        Self { shared: Arc::new(shared), point: Arc::new(Point::new(id)) }
    }

    /// The trace.
    #[must_use]
    pub fn base_id(&self) -> &str {
        &self.shared.base_id
    }

    /// This point: the parent of the points opened through this handle.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.point.id
    }

    /// Runs `body` as a point named `name`, with the point's handle for further points below it.
    ///
    /// The point is closed when the work ends, and also when it panics or its future is dropped.
    /// Errors are the caller's to tell, through [`Trace::fail`].
    pub async fn scope<F, Work>(&self, name: &str, info: Option<Info>, body: F) -> Work::Output
    where
        F: FnOnce(Trace) -> Work,
        Work: Future,
    {
        let scope = self.enter(name, info);
        body(scope.trace().clone()).await
    }

    /// Opens a point that is closed when the guard is dropped.
    #[must_use = "the point is closed when this is dropped"]
    pub fn enter(&self, name: &str, info: Option<Info>) -> Scope {
        let child = Self {
            shared: Arc::clone(&self.shared),
            point: Arc::new(Point::new(Uuid::new_v4().to_string())),
        };
        let scope = Scope { trace: child, parent_id: self.id().to_owned(), name: name.to_owned() };
        scope.notify(START_SUFFIX, info.unwrap_or_default());
        scope
    }

    /// Says that this point failed: its stop record gets `etype` and `message`, as OSProfiler has
    /// them for an exception. The last call counts; it does nothing once the point is closed.
    pub fn fail(&self, etype: &str, message: &str) {
        self.note("etype", Value::String(etype.to_owned()));
        self.note("message", Value::String(message.to_owned()));
    }

    /// Adds a detail to the point's stop record.
    pub fn note(&self, key: &str, value: Value) {
        self.point.stop_info().get_or_insert_default().insert(key.to_owned(), value);
    }

    pub(super) fn signed_headers(&self) -> Option<(String, String)> {
        self.shared.signer.as_ref().map(|signer| signer.sign_text(self.base_id(), self.id()))
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Trace({} in {})", self.id(), self.base_id())
    }
}

impl Point {
    fn new(id: String) -> Self {
        Self { id, stop_info: Mutex::new(None) }
    }

    fn stop_info(&self) -> MutexGuard<'_, Option<Info>> {
        // A panic between two insertions leaves a usable map.
        self.stop_info.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open point; dropping it closes the point.
#[derive(Debug)]
pub struct Scope {
    trace: Trace,
    parent_id: String,
    name: String,
}

impl Scope {
    /// The point's handle, for points below it and for onward requests.
    #[must_use]
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// See [`Trace::fail`].
    pub fn fail(&self, etype: &str, message: &str) {
        self.trace.fail(etype, message);
    }

    fn notify(&self, suffix: &str, info: Info) {
        let shared = &self.trace.shared;
        let record = Record {
            name: format!("{}{suffix}", self.name),
            base_id: shared.base_id.clone(),
            trace_id: self.trace.id().to_owned(),
            parent_id: self.parent_id.clone(),
            timestamp: timestamp(shared.clock.wall_anchor_unix_ns().saturating_add(shared.clock.now_ns())),
            info,
            project: None,
            service: None,
        };
        shared.notifier.notify(record.reported_by(&shared.identity));
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        if std::thread::panicking() && self.trace.point.stop_info().is_none() {
            self.fail("panic", "the work panicked");
        }
        let info = self.trace.point.stop_info().take().unwrap_or_default();
        self.notify(STOP_SUFFIX, info);
    }
}
