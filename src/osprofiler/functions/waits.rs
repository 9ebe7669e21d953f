//! Names where an operation waits: a task that waits has no stack to look at.
//!
//! `reply.waits().await` adds the time between a poll that was not ready and the next one to the line where `waits` is
//! called. Two calls on one line are one.

use std::panic::Location;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use pin_project_lite::pin_project;

use super::operation::Operation;
use crate::trace::current;
use base::clock::saturating_nanos;

pin_project! {
    /// A future whose waits have a place; made by [`WaitExtension::waits`].
    #[must_use = "futures do nothing unless they are awaited"]
    pub struct WaitFuture<F> {
        #[pin]
        work: F,
        place: &'static Location<'static>,
        since: Option<(Instant, Arc<Operation>)>,
    }
}

/// Futures whose waits can be named.
pub trait WaitExtension: Future + Sized {
    /// Notes how long the future waits here, if it belongs to a profiled operation.
    #[track_caller]
    fn waits(self) -> WaitFuture<Self> {
        WaitFuture { work: self, place: Location::caller(), since: None }
    }
}

impl<F: Future> WaitExtension for F {}

impl<F: Future> Future for WaitFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        if let Some((since, operation)) = this.since.take() {
            operation.waited(this.place, saturating_nanos(since.elapsed()));
        }
        let polled = this.work.poll(context);
        if polled.is_pending() {
            *this.since = current::operation().map(|operation| (Instant::now(), operation));
        }
        polled
    }
}
