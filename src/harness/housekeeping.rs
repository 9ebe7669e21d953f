//! Tasks that run beside the load: interrupts, time limits, tokens that expire.

use std::sync::Arc;

use client::plain::PlainClient;
use iteration::credentials::CurrentCredentials;
use plan::Plan;
use runner::stop::{Stop, StopReason};

use super::error::HarnessError;
use super::event::{Event, Sink};
use super::interrupt::Interrupt;

/// Everything that it watches.
pub(super) struct Housekeeping {
    pub(super) plan: Arc<Plan>,
    pub(super) stop: Stop,
    pub(super) interrupt: Interrupt,
    pub(super) events: Sink,
    pub(super) credentials: Arc<CurrentCredentials>,
    pub(super) client: PlainClient,
    pub(super) token_valid_for: Option<std::time::Duration>,
}

impl Housekeeping {
    /// Runs until it is aborted.
    pub(super) async fn keep(self) {
        let tokens =
            self.credentials.keep_fresh(&self.plan.deployment.auth, &self.client, self.token_valid_for);
        tokio::join!(self.interrupts(), self.time_limit(), self.grace(), tokens);
    }

    /// An interrupt stops the run gracefully.
    async fn interrupts(&self) {
        self.interrupt.interrupted().await;
        self.stop.stop(StopReason::Interrupted);
        self.events.event(&Event::Stopping { grace: self.plan.graceful_stop });
    }

    async fn time_limit(&self) {
        if let Some(limit) = self.plan.timeout {
            tokio::time::sleep(limit).await;
            self.stop.stop(StopReason::TimedOut);
        }
    }

    /// When the run is stopped, iterations that are under way get some time to end.
    async fn grace(&self) {
        self.stop.stopping().await;
        tokio::time::sleep(self.plan.graceful_stop).await;
        self.stop.cut_off();
    }
}

/// A runtime beside the threads that make load.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, HarnessError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.map_err(HarnessError::cannot("start a thread for connections and timers"))
}
