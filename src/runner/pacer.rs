//! Waits until an instant, to some ten microseconds: tokio's own timers have milliseconds.
//!
//! On Linux a timerfd in the worker's event loop; elsewhere tokio's timer with a wait in a loop at its
//! end. Nothing here knows what is waited for.

use std::io;
use std::time::{Duration, Instant};

/// For so long a precise pacer waits in a loop, letting others run; it is about what a timer and the
/// scheduler are late.
const SPIN: Duration = Duration::from_micros(50);
/// A turn of that loop in which nobody else ran takes less than this.
const IDLE_TURN: Duration = Duration::from_micros(5);

/// A pacer of one worker.
pub(super) struct Pacer {
    timer: timer::Timer,
    precise: bool,
}

impl Pacer {
    /// A pacer; must be made in the runtime in which it is used.
    ///
    /// # Errors
    /// No descriptor for the timer.
    pub(super) fn new(precise: bool) -> io::Result<Self> {
        Ok(Self { timer: timer::Timer::new()?, precise })
    }

    /// Ends at `due` or a little later. Gives the time spent in a loop in which nobody else ran: it
    /// is processor time that no work was waiting for.
    pub(super) async fn until(&self, due: Instant) -> Duration {
        let spin = if self.precise { SPIN } else { timer::SPIN };
        loop {
            let wait = due.saturating_duration_since(Instant::now());
            if wait.is_zero() {
                return Duration::ZERO;
            }
            if wait <= spin {
                return turn_until(due).await;
            }
            self.timer.sleep(wait - spin).await;
        }
    }
}

async fn turn_until(due: Instant) -> Duration {
    let (mut before, mut idle) = (Instant::now(), Duration::ZERO);
    while before < due {
        tokio::task::yield_now().await;
        let now = Instant::now();
        if now - before < IDLE_TURN {
            idle += now - before;
        }
        before = now;
    }
    idle
}

#[cfg(target_os = "linux")]
mod timer {
    use std::io;
    use std::os::fd::OwnedFd;
    use std::time::Duration;

    use rustix::time::{
        Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
        timerfd_settime,
    };
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    /// The timer alone is exact enough.
    pub(super) const SPIN: Duration = Duration::ZERO;

    pub(super) struct Timer(AsyncFd<OwnedFd>);

    impl Timer {
        pub(super) fn new() -> io::Result<Self> {
            let timer =
                timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
            #[expect(
                deprecated,
                reason = "its unsound use is a descriptor that is closed meanwhile; an owned one is not"
            )]
            AsyncFd::with_interest(timer, Interest::READABLE).map(Self)
        }

        /// About so long; may end early.
        pub(super) async fn sleep(&self, wait: Duration) {
            let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
            let seconds = i64::try_from(wait.as_secs()).unwrap_or(i64::MAX);
            let value = Timespec { tv_sec: seconds, tv_nsec: wait.subsec_nanos().max(1).into() };
            let setting = Itimerspec { it_interval: zero, it_value: value };
            let set = timerfd_settime(self.0.get_ref(), TimerfdTimerFlags::empty(), &setting);
            let fired = match set {
                Ok(_) => self.0.readable().await,
                Err(error) => Err(error.into()),
            };
            match fired {
                // Setting the timer again takes back that it has expired: it need not be read.
                Ok(mut guard) => guard.clear_ready(),
                // Without the timer, tokio's is the next best.
                Err(_) => tokio::time::sleep(wait).await,
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod timer {
    use std::io;
    use std::time::Duration;

    /// What tokio's timer may be late.
    pub(super) const SPIN: Duration = Duration::from_micros(1_500);

    pub(super) struct Timer;

    impl Timer {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self)
        }

        /// About so long.
        pub(super) async fn sleep(&self, wait: Duration) {
            tokio::time::sleep(wait).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_never_ends_before_the_time() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        for precise in [false, true] {
            runtime.block_on(async {
                let pacer = Pacer::new(precise).unwrap();
                for wait_us in [0, 1, 30, 60, 200, 3_000, 20_000, 5] {
                    let due = Instant::now() + Duration::from_micros(wait_us);
                    let idle = pacer.until(due).await;
                    assert!(Instant::now() >= due, "{wait_us} µs");
                    assert!(idle <= SPIN * 2);
                }
                let past = Instant::now();
                pacer.until(past).await;
            });
        }
    }
}
