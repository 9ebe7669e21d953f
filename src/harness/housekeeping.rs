//! What every kind of run needs beside its load: a runtime, a directory, and tasks for interrupts, time limits and tokens
//! that expire.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use uuid::Uuid;

use base::clock::RunClock;
use client::plain::PlainClient;
use iteration::credentials::CurrentCredentials;
use plan::Plan;
use results::directory::RunDirectory;
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

/// Makes the directory of something that has a directory for each of its rounds, in `out`.
pub(super) fn directory_of_rounds(out: &Path, title: &str) -> Result<PathBuf, HarnessError> {
    let started = RunClock::start().wall_anchor_unix_ns();
    let made = RunDirectory::create(out, title, Uuid::new_v4(), started, None);
    made.map(|made| made.path().to_path_buf()).map_err(|error| {
        HarnessError::failed(format!("cannot make a directory in {}: {error}", out.display()))
            .remedy("choose another with --out")
    })
}

/// A runtime beside the threads that make load.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, HarnessError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.map_err(HarnessError::cannot("start a thread for connections and timers"))
}
