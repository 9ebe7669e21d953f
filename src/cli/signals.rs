//! Signals: the first one interrupts what is under way, the second one ends the process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use tokio_util::sync::CancellationToken;

use harness::{HarnessError, Interrupt};

use super::exit::Exit;

/// Set once signals no longer end the process on their own.
static LISTENED_TO: AtomicBool = AtomicBool::new(false);

/// Signals that interrupt some work, until this is dropped.
pub(super) struct SignalListener {
    over: CancellationToken,
    thread: Option<JoinHandle<()>>,
}

impl Drop for SignalListener {
    fn drop(&mut self) {
        self.over.cancel();
        // The thread only has to notice that.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Listens from here on: a signal is never lost and no longer ends the process on its own. The second one
/// calls `last_words` and ends it at once.
pub(super) fn interrupt_by_signals(
    interrupt: &Interrupt,
    last_words: impl Fn() + Send + 'static,
) -> Result<SignalListener, HarnessError> {
    let Wait { runtime, mut signals } = Wait::listen()?;
    let (over, interrupt) = (CancellationToken::new(), interrupt.clone());
    let until = over.clone();
    let listen = async move {
        // Whoever interrupted otherwise needs only one signal more.
        tokio::select! {
            () = signals.next() => interrupt.interrupt(),
            () = interrupt.interrupted() => {}
        }
        text::files::interrupt();
        signals.next().await;
        last_words();
        std::process::exit(i32::from(Exit::Interrupted as u8));
    };
    let thread = std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(until.run_until_cancelled_owned(listen));
    });
    Ok(SignalListener { over, thread: Some(thread.map_err(HarnessError::cannot("listen to signals"))?) })
}

/// A wait for a signal.
pub(super) struct Wait {
    runtime: tokio::runtime::Runtime,
    signals: Signals,
}

impl Wait {
    /// Listens from here on: a signal that comes before the wait is not lost.
    pub(super) fn listen() -> Result<Self, HarnessError> {
        let cannot = || HarnessError::cannot("listen to signals");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(cannot())?;
        let signals = runtime.block_on(async { Signals::listen() }).map_err(cannot())?;
        Ok(Self { runtime, signals })
    }

    /// Waits for the first signal.
    pub(super) fn wait(mut self) {
        self.runtime.block_on(self.signals.next());
    }
}

/// The signals that request an end. A signal between two waits is kept for the next wait.
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
        // A program started with nohup outlives its terminal.
        let nohup = !Self::are_listened_to() && is_ignored(SignalKind::hangup());
        NOHUP.fetch_or(nohup, Ordering::AcqRel);
        let hangup = if NOHUP.load(Ordering::Acquire) { None } else { Some(signal(SignalKind::hangup())?) };
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        LISTENED_TO.store(true, Ordering::Release);
        Ok(Self { interrupt, terminate, hangup })
    }

    /// Completes at the next signal.
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

/// Whether the process was started with this signal ignored; false where the system does not tell.
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

/// Ctrl-C.
#[cfg(not(unix))]
pub(super) struct Signals;

#[cfg(not(unix))]
impl Signals {
    /// Needs no preparation.
    pub(super) fn listen() -> std::io::Result<Self> {
        Ok(Self)
    }

    /// Completes at the next Ctrl-C.
    pub(super) async fn next(&mut self) {
        LISTENED_TO.store(true, Ordering::Release);
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending().await
        }
    }
}
