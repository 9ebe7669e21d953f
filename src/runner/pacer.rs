//! Waits until an instant with a precision of about ten microseconds; tokio's timers have milliseconds.
//!
//! On Linux it uses a timerfd in the worker's event loop; elsewhere, tokio's timer followed by a busy wait.
//! Nothing here knows what happens after the wait.

use std::io;
use std::time::{Duration, Instant};

use base::clock::now;

/// A precise pacer waits in a loop for this long at the end, and yields to other tasks. This is about the
/// lateness of a timer and the scheduler.
const SPIN: Duration = Duration::from_micros(50);
/// A turn of that loop takes less than this if no other task ran.
const IDLE_TURN: Duration = Duration::from_micros(5);

/// A pacer of one worker.
pub(super) struct Pacer {
    timer: timer::PrecisionTimer,
    precise: bool,
}

impl Pacer {
    /// A pacer. It must be created in the runtime that uses it.
    ///
    /// # Errors
    /// Fails without a descriptor for the timer.
    pub(super) fn new(precise: bool) -> io::Result<Self> {
        Ok(Self { timer: timer::PrecisionTimer::new()?, precise })
    }

    /// Ends at `due` or slightly later. Returns the time in the loop during which no other task ran:
    /// processor time that no work needed.
    pub(super) async fn until(&self, due: Instant) -> Duration {
        let spin = if self.precise { SPIN } else { timer::SPIN };
        loop {
            let wait = due.saturating_duration_since(now());
            if wait.is_zero() {
                return Duration::ZERO;
            }
            #[cfg(feature = "simulation")]
            if base::clock::simulation::is_set() {
                tokio::time::sleep(wait).await;
                continue;
            }
            if wait <= spin {
                return turn_until(due).await;
            }
            self.timer.sleep(wait - spin).await;
        }
    }
}

async fn turn_until(due: Instant) -> Duration {
    let (mut before, mut idle) = (now(), Duration::ZERO);
    while before < due {
        tokio::task::yield_now().await;
        let now = now();
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

    pub(super) struct PrecisionTimer(AsyncFd<OwnedFd>);

    impl PrecisionTimer {
        pub(super) fn new() -> io::Result<Self> {
            let timer =
                timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC)?;
            #[expect(
                deprecated,
                reason = "its unsound use is a descriptor that is closed meanwhile; an owned one is not"
            )]
            AsyncFd::with_interest(timer, Interest::READABLE).map(Self)
        }

        /// Sleeps for about this time; may end early.
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
                // Setting the timer again clears its expiry, so there is no need to read it.
                Ok(mut guard) => guard.clear_ready(),
                // Fall back to tokio's timer.
                Err(_) => tokio::time::sleep(wait).await,
            }
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod timer {
    use std::io;
    use std::time::Duration;

    /// The largest lateness of tokio's timer.
    pub(super) const SPIN: Duration = Duration::from_micros(1_500);

    pub(super) struct PrecisionTimer;

    impl PrecisionTimer {
        pub(super) fn new() -> io::Result<Self> {
            Ok(Self)
        }

        /// Sleeps for about this time.
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
