//! A future that belongs to a trace: its flow is the current one at every poll, on any thread.
//!
//! One type serves scopes, the middleware and tasks that follow their parent. It may not allocate
//! while nothing is traced, and what it wraps must behave as if it were not wrapped: its output is
//! untouched and its panics go on.

use std::borrow::Cow;
use std::fmt::Display;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use super::record::{Info, IntoInfo};
use super::trace::current::{self, Flow, StopInfoReader};
use super::trace::{PointScope, TraceHandle, failure};

pin_project! {
    /// A future in a trace; see [`super::profiler`].
    #[must_use = "futures do nothing unless they are awaited"]
    pub struct TracedFuture<F: Future, I = ()> {
        // Taken out of its place when it is cancelled, so that its destructors run in its trace.
        #[pin]
        work: Option<F>,
        state: TracedFutureState<I>,
        outcome: Option<StopInfoReader<F::Output>>,
    }

    impl<F: Future, I> PinnedDrop for TracedFuture<F, I> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            let TracedFutureState::Running(mut flow) = std::mem::replace(this.state, TracedFutureState::Untraced) else { return };
            flow.was_cancelled();
            current::run(flow, || this.work.set(None), None);
        }
    }
}

enum TracedFutureState<I> {
    /// Not polled yet: a point with this name, below where it was made.
    Point { name: Cow<'static, str>, info: I, made_in: Option<TraceHandle> },
    /// Not polled yet: it has no point.
    Follow(TraceHandle),
    /// Between two polls.
    Running(Box<Flow>),
    /// Nothing to trace, or ended.
    Untraced,
}

impl<F: Future, I: IntoInfo> TracedFuture<F, I> {
    pub(super) fn point(
        work: F,
        name: Cow<'static, str>,
        info: I,
        outcome: Option<StopInfoReader<F::Output>>,
    ) -> Self {
        let state = TracedFutureState::Point { name, info, made_in: current::current() };
        Self { work: Some(work), state, outcome }
    }
}

impl<F: Future> TracedFuture<F> {
    /// Work below `trace` that is not a separate point.
    pub(super) fn follow(work: F, trace: Option<TraceHandle>) -> Self {
        let state = trace.map_or(TracedFutureState::Untraced, TracedFutureState::Follow);
        Self { work: Some(work), state, outcome: None }
    }

    /// Work that is a point which is open already.
    pub(super) fn opened(work: F, scope: PointScope) -> Self {
        Self::running(work, Some(Flow::of_point(scope)), None)
    }

    /// Work whose flow there is already.
    pub(super) fn running(
        work: F,
        flow: Option<Box<Flow>>,
        outcome: Option<StopInfoReader<F::Output>>,
    ) -> Self {
        let state = flow.map_or(TracedFutureState::Untraced, TracedFutureState::Running);
        Self { work: Some(work), state, outcome }
    }
}

impl TraceHandle {
    /// Runs `body` as a point named `name`, with the point's handle for further points below it;
    /// the point is also the current one of what runs in it.
    ///
    /// The point is closed when the work ends, and also when it panics or its future is dropped.
    /// The caller reports errors with [`TraceHandle::fail`].
    pub async fn scope<F, Work>(&self, name: &str, info: Option<Info>, body: F) -> Work::Output
    where
        F: FnOnce(TraceHandle) -> Work,
        Work: Future,
    {
        let scope = self.enter(name, info);
        let trace = scope.trace().clone();
        TracedFuture::opened(body(trace), scope).await
    }
}

impl<F: Future, I: IntoInfo> Future for TracedFuture<F, I> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        let Some(work) = this.work.as_pin_mut() else { return Poll::Pending };
        if matches!(this.state, TracedFutureState::Untraced) {
            return work.poll(context);
        }
        let Some(flow) = flow_of(std::mem::replace(this.state, TracedFutureState::Untraced)) else {
            return work.poll(context);
        };
        let (polled, flow) = current::within(flow, || work.poll(context));
        match &polled {
            Poll::Pending => {
                *this.state = flow.map_or(TracedFutureState::Untraced, TracedFutureState::Running)
            }
            Poll::Ready(output) => {
                let info = this.outcome.and_then(|outcome| outcome(output));
                if let (Some(flow), Some(info)) = (flow, info) {
                    flow.note(info);
                }
            }
        }
        polled
    }
}

/// Opens the point at the first poll: that is when the work starts.
fn flow_of<I: IntoInfo>(state: TracedFutureState<I>) -> Option<Box<Flow>> {
    match state {
        TracedFutureState::Running(flow) => Some(flow),
        TracedFutureState::Follow(trace) => Some(Flow::follow(trace)),
        TracedFutureState::Untraced => None,
        TracedFutureState::Point { name, info, made_in } => {
            let parent = parent(made_in, current::current())?;
            Some(Flow::of_point(parent.enter(&name, Some(info.into_info()))))
        }
    }
}

/// Work belongs to the trace in which it was made, below the point where it is awaited. If it is
/// awaited elsewhere (in a task of its own, or by another trace's), it is below the point where it
/// was made.
fn parent(made_in: Option<TraceHandle>, polled_in: Option<TraceHandle>) -> Option<TraceHandle> {
    match (made_in, polled_in) {
        (Some(made_in), Some(polled_in)) if made_in.is_of_same_trace(&polled_in) => Some(polled_in),
        (made_in, polled_in) => made_in.or(polled_in),
    }
}

/// The stop's info for a result: none for a successful one.
pub(super) fn failed<T, E: Display>(result: &Result<T, E>) -> Option<Info> {
    result.as_ref().err().map(|error| failure(std::any::type_name::<E>(), error))
}
