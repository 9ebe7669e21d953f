//! The current point of the running task or thread.
//!
//! Each thread has a stack of frames. A frame is pushed when a future is polled, a span entered or a
//! closure run. It is taken off again before its owner lets go of the thread. So a frame is never
//! seen by work that it does not belong to: a task's own part, its [`Flow`], travels with the task.
//! Frames of another task that happen to lie below (a `LocalSet` polled within a traced future) are
//! told apart by tokio's task id.
//!
//! The thread's stack may not be borrowed while foreign code runs, which may well come back here:
//! notifiers, info closures and destructors of handles run outside.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
#[cfg(feature = "functions")]
use std::sync::Arc;
use std::time::Instant;

use super::{CANCELLED, PointScope, TraceHandle, UNSTOPPED, elapsed_ns, failure};
use crate::record::{Info, IntoInfo};
use base::clock::Nanos;

/// Further points of one flow that are started but not stopped are not opened, so that a program
/// that forgets to stop cannot fill the memory.
pub(crate) const OPEN_MAX: usize = 1_000;

thread_local! {
    static STACK: RefCell<Stack> = const { RefCell::new(Stack { frames: Vec::new(), next_token: 0 }) };
}

struct Stack {
    frames: Vec<Frame>,
    next_token: u64,
}

struct Frame {
    token: FrameToken,
    #[cfg_attr(not(feature = "tracing"), expect(dead_code, reason = "only spans are looked for"))]
    span: Option<u64>,
    task: Option<tokio::task::Id>,
    /// Without one nothing is traced.
    flow: Option<Box<Flow>>,
}

/// Names a frame of this thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameToken(u64);

/// The state that a piece of work carries with it: its stack of points, and how long it was at work.
pub(crate) struct Flow {
    /// The point that others are opened under; `None` once the profiler was cleaned.
    trace: Option<TraceHandle>,
    /// Closed when the flow ends.
    point: Option<PointScope>,
    started: Vec<StartedPoint>,
    /// How many points were not opened because of [`OPEN_MAX`].
    unopened: u64,
    busy_ns: Nanos,
    /// Since when this thread is at work on it.
    since: Option<Instant>,
    /// It is not polled: it is at work from its start to its end.
    never_waits: bool,
    #[cfg(feature = "tracing")]
    /// Stands in for a span's flow, which is on another thread or further down on this one.
    stands_in: bool,
}

/// A point opened by [`start`].
struct StartedPoint {
    scope: PointScope,
    busy_before_ns: Nanos,
}

impl Flow {
    /// Work that belongs to `trace` but is not a separate point.
    pub(crate) fn follow(trace: TraceHandle) -> Box<Self> {
        Box::new(Self {
            trace: Some(trace),
            point: None,
            started: Vec::new(),
            unopened: 0,
            busy_ns: 0,
            since: None,
            never_waits: false,
            #[cfg(feature = "tracing")]
            stands_in: false,
        })
    }

    /// A closure that is a point.
    pub(crate) fn of_sync_point(scope: PointScope) -> Box<Self> {
        let mut flow = Self::of_point(scope);
        flow.never_waits = true;
        flow
    }

    #[cfg(feature = "tracing")]
    /// As [`Flow::follow`], for a span whose own flow is in use.
    pub(crate) fn stand_in(trace: TraceHandle) -> Box<Self> {
        let mut flow = Self::follow(trace);
        flow.stands_in = true;
        flow
    }

    #[cfg(feature = "tracing")]
    pub(crate) fn stands_in(&self) -> bool {
        self.stands_in
    }

    /// Work that is a point.
    pub(crate) fn of_point(scope: PointScope) -> Box<Self> {
        let mut flow = Self::follow(scope.trace().clone());
        flow.point = Some(scope);
        flow
    }

    /// Adds to what the point's stop will say.
    pub(crate) fn note(&self, info: Info) {
        if let Some(point) = &self.point {
            point.trace().add(info);
        }
    }

    /// The work ended because its future was dropped.
    pub(crate) fn was_cancelled(&mut self) {
        if let Some(point) = &mut self.point {
            point.did_not_panic();
            point.trace().note(CANCELLED, true.into());
        }
    }

    /// How long threads were at work on it so far.
    pub(crate) fn busy_ns(&self) -> Nanos {
        self.busy_ns + self.since.map_or(0, elapsed_ns)
    }

    fn current(&self) -> Option<&TraceHandle> {
        self.started.last().map(|started| started.scope.trace()).or(self.trace.as_ref())
    }
}

impl Drop for Flow {
    /// Closes what is open, innermost first.
    fn drop(&mut self) {
        let busy_ns = self.busy_ns();
        while let Some(StartedPoint { mut scope, busy_before_ns }) = self.started.pop() {
            scope.was_busy(busy_ns.saturating_sub(busy_before_ns));
            scope.did_not_panic();
            scope.trace().note(UNSTOPPED, true.into());
        }
        if let Some(point) = &mut self.point {
            // More than its duration is cut to that.
            point.was_busy(if self.never_waits { Nanos::MAX } else { busy_ns });
        }
    }
}

/// The point that is current here.
pub(crate) fn current() -> Option<TraceHandle> {
    with_flow(|flow| flow.current().cloned()).flatten()
}

/// The profiled operation that is current here.
#[cfg(feature = "functions")]
pub(crate) fn operation() -> Option<Arc<crate::functions::operation::Operation>> {
    with_flow(|flow| flow.current()?.point.numbered.as_ref().map(|numbered| Arc::clone(numbered.operation())))
        .flatten()
}

#[cfg(feature = "tracing")]
/// Whether there is a current point: [`current`] without a handle.
pub(crate) fn is_traced() -> bool {
    with_flow(|flow| flow.current().is_some()) == Some(true)
}

/// Opens a point below the current one, which becomes the current one. `info` is asked only then.
pub(crate) fn start(name: &str, info: impl IntoInfo) {
    let Some(parent) = current() else { return };
    if with_flow(Flow::is_full) == Some(true) {
        return;
    }
    let mut scope = Some(parent.enter(name, Some(info.into_info())));
    with_flow(|flow| {
        let busy_before_ns = flow.busy_ns();
        flow.started.extend(scope.take().map(|scope| StartedPoint { scope, busy_before_ns }));
    });
}

/// Closes what [`start`] opened last in this flow, if anything.
pub(crate) fn stop(info: impl IntoInfo) {
    let Some(StartedPoint { mut scope, busy_before_ns }) = with_flow(Flow::pop).flatten() else { return };
    let busy_ns = with_flow(|flow| flow.busy_ns()).unwrap_or(busy_before_ns);
    scope.was_busy(busy_ns.saturating_sub(busy_before_ns));
    scope.trace().add(info.into_info());
}

impl Flow {
    /// Counts a start that finds no room, so that its stop finds that again.
    fn is_full(&mut self) -> bool {
        let full = self.started.len() >= OPEN_MAX;
        self.unopened += u64::from(full);
        full
    }

    fn pop(&mut self) -> Option<StartedPoint> {
        if self.unopened > 0 {
            self.unopened -= 1;
            return None;
        }
        self.started.pop()
    }
}

/// Forgets the current profiler and closes what was started there.
pub(crate) fn clean() {
    let forgotten = with_flow(|flow| {
        flow.unopened = 0;
        (flow.trace.take(), std::mem::take(&mut flow.started))
    });
    for StartedPoint { scope, .. } in forgotten.into_iter().flat_map(|(_, started)| started).rev() {
        scope.trace().note(UNSTOPPED, true.into());
    }
}

/// Makes a flow the current one. If the thread is ending (`None`) it is closed instead.
pub(crate) fn install(flow: Box<Flow>, span: Option<u64>) -> Option<FrameToken> {
    push(span, &mut Some(flow))
}

/// Removes a flow; `None` if it has already been removed.
///
/// What lies above it was entered while the flow was current and not left in time (a span's guard
/// held over an await). That is taken off too, so that no other task finds it here.
pub(crate) fn uninstall(token: FrameToken) -> Option<Box<Flow>> {
    remove(|frame| frame.token == token)
}

#[cfg(feature = "tracing")]
/// As [`uninstall`], for the innermost frame of a span. Frames above it stay.
pub(crate) fn uninstall_span(span: u64) -> Option<Box<Flow>> {
    let frame = STACK.try_with(|stack| {
        let mut stack = stack.try_borrow_mut().ok()?;
        let at = stack.frames.iter().rposition(|frame| frame.span == Some(span))?;
        Some(stack.frames.remove(at))
    });
    paused(frame.ok().flatten()?.flow)
}

/// Runs `work` without tracing.
pub(crate) fn untraced<T>(work: impl FnOnce() -> T) -> T {
    let token = push(None, &mut None);
    let result = catch_unwind(AssertUnwindSafe(work));
    if let Some(token) = token {
        uninstall(token);
    }
    result.unwrap_or_else(|panic| resume_unwind(panic))
}

/// Reads from what the work returned what its point's stop has to say.
pub(crate) type StopInfoReader<T> = fn(&T) -> Option<Info>;

/// Runs `work` as the flow, which ends with it; a panic is noted and goes on.
pub(crate) fn run<T>(flow: Box<Flow>, work: impl FnOnce() -> T, outcome: Option<StopInfoReader<T>>) -> T {
    let (result, flow) = within(flow, work);
    if let (Some(flow), Some(info)) = (&flow, outcome.and_then(|outcome| outcome(&result))) {
        flow.note(info);
    }
    result
}

/// As [`run`], for a flow that goes on; it is gone if the thread is ending.
pub(crate) fn within<T>(flow: Box<Flow>, work: impl FnOnce() -> T) -> (T, Option<Box<Flow>>) {
    #[cfg(feature = "functions")]
    let number = flow.trace.as_ref().and_then(TraceHandle::number);
    #[cfg(feature = "functions")]
    let work = || match number {
        Some(number) => crate::functions::numbers::within(number, work),
        None => work(),
    };
    let Some(token) = install(flow, None) else { return (work(), None) };
    let result = catch_unwind(AssertUnwindSafe(work));
    let flow = uninstall(token);
    match result {
        Ok(result) => (result, flow),
        Err(panic) => {
            if let Some(flow) = flow {
                flow.note(panic_info(&*panic));
            }
            resume_unwind(panic)
        }
    }
}

/// The stop's info for a panic.
fn panic_info(panic: &(dyn Any + Send)) -> Info {
    let message = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("the work panicked");
    failure("panic", &message)
}

fn with_flow<T>(read: impl FnOnce(&mut Flow) -> T) -> Option<T> {
    let seen = STACK.try_with(|stack| {
        let mut stack = stack.try_borrow_mut().ok()?;
        let frame = stack.frames.last_mut()?;
        let flow = frame.flow.as_deref_mut()?;
        (frame.task == tokio::task::try_id()).then(|| read(flow))
    });
    seen.ok().flatten()
}

fn push(span: Option<u64>, flow: &mut Option<Box<Flow>>) -> Option<FrameToken> {
    let pushed = STACK.try_with(|stack| {
        let mut stack = stack.try_borrow_mut().ok()?;
        let token = FrameToken(stack.next_token);
        stack.next_token += 1;
        let mut flow = flow.take();
        if let Some(flow) = &mut flow {
            flow.since = Some(Instant::now());
        }
        stack.frames.push(Frame { token, span, task: tokio::task::try_id(), flow });
        Some(token)
    });
    pushed.ok().flatten()
}

fn remove(is_it: impl Fn(&Frame) -> bool) -> Option<Box<Flow>> {
    let removed = STACK.try_with(|stack| {
        let mut stack = stack.try_borrow_mut().ok()?;
        let at = stack.frames.iter().rposition(is_it)?;
        let above = if at + 1 == stack.frames.len() { Vec::new() } else { stack.frames.split_off(at + 1) };
        Some((stack.frames.pop(), above))
    });
    let (frame, above) = removed.ok().flatten()?;
    // Innermost first: their points are closed here, outside the borrow.
    above.into_iter().rev().for_each(drop);
    paused(frame?.flow)
}

fn paused(flow: Option<Box<Flow>>) -> Option<Box<Flow>> {
    let mut flow = flow?;
    flow.busy_ns = flow.busy_ns();
    flow.since = None;
    Some(flow)
}
