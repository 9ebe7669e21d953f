//! OSProfiler's `profiler` module: the current profiler of a task or thread, and its trace points.
//!
//! Three ways to make a point, as in OSProfiler:
//!
//! 1. [`start`] and [`stop`], an explicit stack;
//! 2. the attribute: `#[tracing::instrument]` with [`super::instrument::InstrumentLayer`];
//! 3. the scope: [`trace`] and [`try_trace`] around a future, [`trace_sync`] and
//!    [`try_trace_sync`] around a closure. It closes its point on early return, on error, on
//!    cancellation and on panic, and says which in the stop's info.
//!
//! A profiler becomes current with [`super::web::ProfilerLayer`] (a service's requests),
//! [`super::rpc::serve`] (its messages), [`init`] (this thread) or [`TraceExtension::in_trace`] (a task).
//! It follows its work across await points and threads. Without a profiler, the functions here do
//! nothing and do not compute info.
//!
//! | need | type |
//! |---|---|
//! | a load generator's ids, no records | [`super::derived::DerivedProfiler`] |
//! | one point, passed along by hand or to another thread | [`super::trace::TraceHandle`] |
//! | "the current point", as in OSProfiler | this module: a stack of the above for each flow |
//!
//! # Flows
//!
//! A stack belongs to one flow: the request of a middleware, a scope, an instrumented span, or a
//! future made by [`TraceExtension`]. `stop` never closes a point that another flow started. Futures that run side
//! by side *in one task* (`join!`, `select!`) share its flow: wrap each in a scope or
//! [`TraceExtension::in_current_trace`] if they use `start` and `stop`. A spawned task has no profiler
//! unless it is given one: `tokio::spawn(work.in_current_trace())`, or
//! `spawn_blocking(inherited(work))`.

use std::borrow::Cow;
use std::fmt::Display;
use std::marker::PhantomData;

use super::record::IntoInfo;
use super::trace::TraceHandle;
use super::trace::current::{self, Flow, FrameToken, StopInfoReader};
use super::traced::{TracedFuture, failed};
use base::secret::Secret;

/// Makes a profiler the current one of this thread until the guard is dropped, as OSProfiler's
/// `init` does; see [`TraceHandle::init`] for the arguments. If there is one already, that one stays.
///
/// The guard cannot go to another thread. In code that may, use
/// `work.in_trace(TraceHandle::init(…))`; other tasks that this thread polls meanwhile do not see it.
#[must_use = "the profiler is forgotten when this is dropped"]
pub fn init(hmac_key: &Secret, base_id: Option<&str>, parent_id: Option<&str>) -> ThreadProfilerGuard {
    if let Some(trace) = current::current() {
        return ThreadProfilerGuard { trace, token: None, this_thread: PhantomData };
    }
    let trace = TraceHandle::init(hmac_key, base_id, parent_id);
    let token = current::install(Flow::follow(trace.clone()), None);
    ThreadProfilerGuard { trace, token, this_thread: PhantomData }
}

/// Keeps a thread's profiler; made by [`init`].
#[derive(Debug)]
pub struct ThreadProfilerGuard {
    trace: TraceHandle,
    token: Option<FrameToken>,
    this_thread: PhantomData<*const ()>,
}

impl ThreadProfilerGuard {
    /// The point that the profiler started with.
    #[must_use]
    pub fn trace(&self) -> &TraceHandle {
        &self.trace
    }
}

impl Drop for ThreadProfilerGuard {
    fn drop(&mut self) {
        if let Some(token) = self.token {
            drop(current::uninstall(token));
        }
    }
}

/// The current point; `None` if no profiler is initialised here.
#[must_use]
pub fn get() -> Option<TraceHandle> {
    current::current()
}

/// Forgets the current profiler: later code in this flow is not traced. Points that were started
/// and not stopped are closed.
pub fn clean() {
    current::clean();
}

/// Opens a point below the current one. `info` may be `()`, a JSON object, or a closure that
/// returns one, which is called only if a profiler is initialised.
pub fn start(name: &str, info: impl IntoInfo) {
    current::start(name, info);
}

/// Closes the point that [`start`] opened last in this flow; without an open point, it does nothing.
pub fn stop(info: impl IntoInfo) {
    current::stop(info);
}

/// Runs a future as a point. It opens when the future is first polled.
pub fn trace<F: Future, I: IntoInfo>(
    name: impl Into<Cow<'static, str>>,
    info: I,
    work: F,
) -> TracedFuture<F, I> {
    TracedFuture::point(work, name.into(), info, None)
}

/// As [`trace`]; an error becomes `etype` (the name of its type) and `message` of the stop.
pub fn try_trace<F, I, T, E>(name: impl Into<Cow<'static, str>>, info: I, work: F) -> TracedFuture<F, I>
where
    F: Future<Output = Result<T, E>>,
    I: IntoInfo,
    E: Display,
{
    TracedFuture::point(work, name.into(), info, Some(failed))
}

/// Runs a closure as a point.
pub fn trace_sync<T>(name: &str, info: impl IntoInfo, work: impl FnOnce() -> T) -> T {
    point_sync(name, info, work, None)
}

/// As [`trace_sync`]; an error becomes `etype` (the name of its type) and `message` of the stop.
///
/// # Errors
/// What the closure returns.
pub fn try_trace_sync<T, E: Display>(
    name: &str,
    info: impl IntoInfo,
    work: impl FnOnce() -> Result<T, E>,
) -> Result<T, E> {
    point_sync(name, info, work, Some(failed))
}

fn point_sync<T>(
    name: &str,
    info: impl IntoInfo,
    work: impl FnOnce() -> T,
    outcome: Option<StopInfoReader<T>>,
) -> T {
    match current::current() {
        None => work(),
        Some(parent) => {
            let scope = parent.enter(name, Some(info.into_info()));
            current::run(Flow::of_sync_point(scope), work, outcome)
        }
    }
}

/// Runs `work` without tracing.
pub fn untraced<T>(work: impl FnOnce() -> T) -> T {
    current::untraced(work)
}

/// A closure that has the current point wherever it runs: for `spawn_blocking` and threads.
pub fn inherited<T>(work: impl FnOnce() -> T) -> impl FnOnce() -> T {
    let trace = current::current();
    move || match trace {
        Some(trace) => trace.run(work),
        None => work(),
    }
}

/// Futures that belong to a trace wherever they are polled.
pub trait TraceExtension: Future + Sized {
    /// Runs the future below the point that is current now, with a separate stack.
    fn in_current_trace(self) -> TracedFuture<Self> {
        TracedFuture::follow(self, current::current())
    }

    /// Runs the future with `trace` as its current point.
    fn in_trace(self, trace: TraceHandle) -> TracedFuture<Self> {
        TracedFuture::follow(self, Some(trace))
    }
}

impl<F: Future> TraceExtension for F {}
