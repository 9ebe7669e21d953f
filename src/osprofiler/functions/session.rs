//! A profile of any piece of a service, as the guide for Nova takes it: `start`, `stop`, `dump_stats`.
//!
//! ```no_run
//! # use osprofiler::functions::{session::ProfileSession, settings::{FunctionsError, Settings}};
//! # async fn select_destinations() {}
//! # async fn example() -> Result<(), FunctionsError> {
//! let _sampler = Settings::new().start()?; // once, in `main`
//! let profile = ProfileSession::start("select_destinations")?;
//! profile.of(select_destinations()).await;
//! profile.stop();
//! profile.dump_stats("/tmp/select_destinations.prof")?;
//! # Ok(())
//! # }
//! ```
//!
//! What is profiled must be named, with [`ProfileSession::of`] for a future and [`ProfileSession::run`] for a closure: between
//! `start` and `stop` a thread of a service also does the work of others.

use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use pin_project_lite::pin_project;

use super::directory::{Format, write_whole};
use super::model::FunctionProfile;
use super::numbers::{Number, within};
use super::operation::{OperationDescription, Operations, ProfiledPoint, current};
use super::settings::FunctionsError;
use base::clock::RunClock;

const TIMEOUT: Duration = Duration::from_secs(10);

/// A session.
pub struct ProfileSession {
    numbered: ProfiledPoint,
    operations: std::sync::Arc<Operations>,
}

impl ProfileSession {
    /// Begins a session of this name.
    ///
    /// # Errors
    /// No sampler runs.
    pub fn start(name: &str) -> Result<Self, FunctionsError> {
        let operations = current().ok_or(FunctionsError::NotStarted)?;
        let about = OperationDescription {
            name: name.to_owned(),
            base_id: String::new(),
            point_id: String::new(),
            reporter: None,
            is_session: true,
        };
        let numbered = operations.begin(about).ok_or(FunctionsError::NotStarted)?;
        Ok(Self { numbered, operations })
    }

    /// A future whose functions belong to the session, wherever it is polled.
    pub fn of<F: Future>(&self, work: F) -> SessionFuture<F> {
        SessionFuture { work, number: self.number() }
    }

    /// Runs a closure whose functions belong to the session.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        within(self.number(), work)
    }

    /// Ends the session.
    pub fn stop(&self) {
        self.numbered.closed(RunClock::start().wall_anchor_unix_ns());
    }

    /// The functions. It blocks for some milliseconds: in a service, take `spawn_blocking`.
    ///
    /// # Errors
    /// The session is not stopped, or the sampler does not answer.
    pub fn functions(&self) -> Result<FunctionProfile, FunctionsError> {
        let operation = self.numbered.operation();
        if operation.ended_unix_ns().is_none() {
            return Err(FunctionsError::NotStopped);
        }
        if operation.delivered().is_none() {
            let _ = self.operations.flush(TIMEOUT);
        }
        operation.delivered().cloned().flatten().ok_or(FunctionsError::TimedOut)
    }

    /// Writes the functions for Python's `pstats`; see [`ProfileSession::functions`].
    ///
    /// # Errors
    /// As there, or the file cannot be written.
    pub fn dump_stats(&self, path: impl AsRef<Path>) -> Result<(), FunctionsError> {
        self.dump(path, Format::Pstats)
    }

    /// The same in another format.
    ///
    /// # Errors
    /// As [`ProfileSession::dump_stats`].
    pub fn dump(&self, path: impl AsRef<Path>, format: Format) -> Result<(), FunctionsError> {
        let functions = self.functions()?;
        let path = path.as_ref();
        let written = format.encode(&functions).and_then(|content| write_whole(path, &content));
        written.map_err(|source| FunctionsError::Write { path: path.display().to_string(), source })
    }

    fn number(&self) -> Number {
        self.numbered.number("")
    }
}

impl Drop for ProfileSession {
    fn drop(&mut self) {
        self.stop();
    }
}

pin_project! {
    /// A future of a session; made by [`ProfileSession::of`].
    #[must_use = "futures do nothing unless they are awaited"]
    pub struct SessionFuture<F> {
        #[pin]
        work: F,
        number: Number,
    }
}

impl<F: Future> Future for SessionFuture<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let this = self.project();
        within(*this.number, || this.work.poll(context))
    }
}
