//! What goes on beside the load: signals, time limits, tokens that expire.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::base::clock::saturating_nanos;
use crate::base::units::format_ns;
use crate::client::plain::PlainClient;
use crate::iteration::credentials::Credentials;
use crate::plan::Plan;
use crate::runner::stop::{Stop, StopReason};

use super::exit::Exit;

/// All that it watches.
pub(super) struct Housekeeping {
    pub(super) plan: Arc<Plan>,
    pub(super) stop: Stop,
    pub(super) credentials: Arc<Credentials>,
    pub(super) client: PlainClient,
    pub(super) token_valid_for: Option<Duration>,
    /// The run's directory.
    pub(super) directory: PathBuf,
}

impl Housekeeping {
    /// Runs until it is aborted.
    pub(super) async fn keep(self, mut signals: Signals) {
        let tokens =
            self.credentials.keep_fresh(&self.plan.deployment.auth, &self.client, self.token_valid_for);
        tokio::join!(self.signals(&mut signals), self.time_limit(), self.grace(), tokens);
    }

    /// The first signal stops the run gracefully, the second ends the process at once; the run log
    /// keeps what was recorded until then.
    async fn signals(&self, signals: &mut Signals) {
        signals.next().await;
        self.stop.stop(StopReason::Interrupted);
        let grace = format_ns(saturating_nanos(self.plan.graceful_stop));
        super::say(&format!(
            "stopping: iterations under way have {grace}; press Ctrl-C again to end at once"
        ));
        signals.next().await;
        super::say(&format!(
            "ended at once; `bench report {}` shows what was recorded",
            self.directory.display()
        ));
        std::process::exit(i32::from(Exit::Interrupted as u8));
    }

    async fn time_limit(&self) {
        if let Some(limit) = self.plan.timeout {
            tokio::time::sleep(limit).await;
            self.stop.stop(StopReason::TimedOut);
        }
    }

    /// Iterations that are under way when the run is stopped have a while to end.
    async fn grace(&self) {
        self.stop.stopping().await;
        tokio::time::sleep(self.plan.graceful_stop).await;
        self.stop.cut_off();
    }
}

/// The signals that ask for an end. One that arrives while nobody waits is kept for who waits next.
#[cfg(unix)]
pub(super) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// Listens to SIGINT and SIGTERM, which no longer end the process on their own.
    pub(super) fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Ends with the next signal.
    pub(super) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Ctrl-C.
#[cfg(not(unix))]
pub(super) struct Signals;

#[cfg(not(unix))]
impl Signals {
    /// Nothing has to be prepared.
    pub(super) fn listen() -> std::io::Result<Self> {
        Ok(Self)
    }

    /// Ends with the next Ctrl-C.
    pub(super) async fn next(&mut self) {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}

/// Ends with the next SIGINT or SIGTERM.
pub(super) async fn interrupted() -> std::io::Result<()> {
    Signals::listen()?.next().await;
    Ok(())
}
