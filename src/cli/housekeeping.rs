//! What goes on beside the load: signals, time limits, tokens that expire.

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
}

impl Housekeeping {
    /// Runs until it is aborted.
    pub(super) async fn keep(self) {
        let tokens =
            self.credentials.keep_fresh(&self.plan.deployment.auth, &self.client, self.token_valid_for);
        tokio::join!(self.signals(), self.time_limit(), self.grace(), tokens);
    }

    /// The first signal stops the run gracefully, the second ends the process at once; the run log
    /// keeps what was recorded until then.
    async fn signals(&self) {
        if interrupted().await.is_err() {
            return;
        }
        self.stop.stop(StopReason::Interrupted);
        let grace = format_ns(saturating_nanos(self.plan.graceful_stop));
        super::say(&format!(
            "\nstopping: iterations under way have {grace}; press Ctrl-C again to end at once"
        ));
        if interrupted().await.is_ok() {
            super::say("ended at once; `bench report RUN_DIR` shows what was recorded");
            std::process::exit(i32::from(Exit::Interrupted as u8));
        }
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

/// Ends with the next SIGINT or SIGTERM.
#[cfg(unix)]
pub(super) async fn interrupted() -> std::io::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        interrupt = tokio::signal::ctrl_c() => interrupt,
        _ = terminate.recv() => Ok(()),
    }
}

/// Ends with the next Ctrl-C.
#[cfg(not(unix))]
pub(super) async fn interrupted() -> std::io::Result<()> {
    tokio::signal::ctrl_c().await
}
