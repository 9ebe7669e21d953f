//! How a run is stopped: first gracefully, then at once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio_util::sync::CancellationToken;

/// Why a run is stopped before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// SIGINT, SIGTERM or SIGHUP.
    Interrupted,
    /// The scenario's own time limit.
    TimedOut,
    /// An `abort_on_fail` threshold is certain to fail.
    Threshold,
    /// The harness cannot go on.
    Failed(String),
}

/// A handle to stop a run; clones stop the same run.
#[derive(Clone, Debug, Default)]
pub struct Stop {
    graceful: CancellationToken,
    /// The same as a plain flag: every iteration reads it, and a token has a lock.
    stopping: Arc<AtomicBool>,
    cut_off: CancellationToken,
    reason: Arc<Mutex<Option<StopReason>>>,
}

impl Stop {
    /// Lets no further iteration start. The first reason counts.
    pub fn stop(&self, reason: StopReason) {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(reason);
        self.stopping.store(true, Ordering::Release);
        self.graceful.cancel();
    }

    /// Cuts off the iterations in progress.
    pub fn cut_off(&self) {
        self.cut_off.cancel();
    }

    /// True once no further iteration may start.
    #[inline]
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Completes when no further iteration may start.
    pub async fn stopping(&self) {
        self.graceful.cancelled().await;
    }

    /// Cancelled when iterations in progress must end.
    #[must_use]
    pub fn cut_off_token(&self) -> &CancellationToken {
        &self.cut_off
    }

    /// Why the run was stopped, if it was.
    #[must_use]
    pub fn reason(&self) -> Option<StopReason> {
        self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
