//! What goes on beside the load: signals, time limits, tokens that expire.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::base::clock::saturating_nanos;
use crate::base::units::format_ns;
use crate::client::plain::PlainClient;
use crate::iteration::credentials::Credentials;
use crate::plan::Plan;
use crate::runner::stop::{Stop, StopReason};

use super::exit::{Exit, Stopped};

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
        super::output::last_words(&format!(
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

/// A runtime beside the threads that make load.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, Stopped> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    runtime.map_err(Stopped::cannot("start a thread for connections and signals"))
}

/// Set once signals no longer end the process on their own.
static LISTENED_TO: AtomicBool = AtomicBool::new(false);

/// The signals that ask for an end. One that arrives while nobody waits is kept for the next wait.
#[cfg(unix)]
pub(super) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: Option<tokio::signal::unix::Signal>,
}

#[cfg(unix)]
impl Signals {
    /// Listens to SIGINT, SIGTERM and SIGHUP, which no longer end the process on their own.
    pub(super) fn listen() -> std::io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        // What nohup started outlives its terminal.
        let nohup = !Self::are_listened_to() && is_ignored(SignalKind::hangup());
        NOHUP.fetch_or(nohup, Ordering::AcqRel);
        let hangup = if NOHUP.load(Ordering::Acquire) { None } else { Some(signal(SignalKind::hangup())?) };
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        LISTENED_TO.store(true, Ordering::Release);
        Ok(Self { interrupt, terminate, hangup })
    }

    /// Ends with the next signal.
    pub(super) async fn next(&mut self) {
        let hangup = async {
            match &mut self.hangup {
                Some(hangup) => hangup.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
            _ = hangup => {}
        }
    }
}

/// Set when SIGHUP was ignored from the start.
#[cfg(unix)]
static NOHUP: AtomicBool = AtomicBool::new(false);

/// Whether the process was started with this signal ignored, as far as the system tells.
#[cfg(unix)]
fn is_ignored(signal: tokio::signal::unix::SignalKind) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or_default();
    mask >> (signal.as_raw_value() - 1) & 1 == 1
}

impl Signals {
    /// Whether signals no longer end the process on their own.
    pub(super) fn are_listened_to() -> bool {
        LISTENED_TO.load(Ordering::Acquire)
    }
}

/// Has a file that grows over the limit on its size (`ulimit -f`) answer with an error, as a full disk does, instead of
/// ending the process.
#[cfg(unix)]
pub(super) fn survive_file_size_limit() {
    use tokio::signal::unix::{SignalKind, signal};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build();
    if let Ok(runtime) = runtime {
        let _entered = runtime.enter();
        // The handler stays when the listener is gone. Without it, such a file ends the process, as before.
        let _ = signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw()));
    }
}

/// There is no such limit.
#[cfg(not(unix))]
pub(super) fn survive_file_size_limit() {}

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
        LISTENED_TO.store(true, Ordering::Release);
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}
