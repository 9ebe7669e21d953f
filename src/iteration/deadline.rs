//! Cheap time limits: one timer for all requests of a virtual user.
//!
//! The timer is set again only when it fires too early, not for every request.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;
use std::time::Instant;

use tokio::task::coop;
use tokio::time::Sleep;

/// A virtual user's timer.
#[derive(Default)]
pub(super) struct Deadline {
    timer: Option<Pin<Box<Sleep>>>,
}

impl Deadline {
    /// Runs `future` to its end. Returns `None` at the time `at`.
    /// The caller pins the future, because moving it would cost more than polling it.
    pub(super) async fn limit<F: Future>(
        &mut self,
        at: Instant,
        mut future: Pin<&mut F>,
    ) -> Option<F::Output> {
        let at = tokio::time::Instant::from_std(at);
        poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            // A future that has used up the task's budget, because a server never lets go, leaves nothing for the timer,
            // which then would never fire.
            if !coop::has_budget_remaining() && tokio::time::Instant::now() >= at {
                return Poll::Ready(None);
            }
            let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(at)));
            if timer.deadline() > at {
                timer.as_mut().reset(at);
            }
            while timer.as_mut().poll(cx).is_ready() {
                if tokio::time::Instant::now() >= at {
                    return Poll::Ready(None);
                }
                timer.as_mut().reset(at);
            }
            Poll::Pending
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::time::Duration;

    #[test]
    fn a_future_that_takes_the_whole_budget_ends_in_time() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        runtime.unwrap().block_on(async {
            let greedy = poll_fn(|cx| {
                while coop::has_budget_remaining() {
                    let _ = pin!(coop::consume_budget()).poll(cx);
                }
                cx.waker().wake_by_ref();
                Poll::<()>::Pending
            });
            let at = Instant::now() + Duration::from_millis(20);
            assert_eq!(Deadline::default().limit(at, pin!(greedy)).await, None);
        });
    }

    #[test]
    fn limits_earlier_and_later_than_the_timer_hold() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(async {
            let start = tokio::time::Instant::now();
            let mut deadline = Deadline::default();
            // (limit, duration of the future, whether it ends in time), in seconds, one after another.
            for (limit, takes, ended) in
                [(10, 1, true), (100, 50, true), (5, 60, false), (1, 2, false), (30, 29, true), (7, 8, false)]
            {
                let at = tokio::time::Instant::now();
                let future = pin!(tokio::time::sleep(Duration::from_secs(takes)));
                let output = deadline.limit((at + Duration::from_secs(limit)).into_std(), future).await;
                assert_eq!((output.is_some(), at.elapsed().as_secs()), (ended, takes.min(limit)));
            }
            assert_eq!(start.elapsed().as_secs(), 1 + 50 + 5 + 1 + 29 + 7);
        });
    }
}
