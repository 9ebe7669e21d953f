//! Which operations are profiled, and the start of the sampler.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use thiserror::Error;

use super::directory::Directory;
use super::model::FunctionProfile;
use super::operation::{OperationCandidate, Operations, Pick};
use super::reader::{SampleReader, SampleReaderOutput};
use super::sampler::Sampler;
use crate::signing::Signer;
use base::secret::Secret;

pub use super::reader::FunctionsReport;
pub use super::sampler::{HZ_MAX, PERF_HZ_MAX, SamplerError};

/// How long [`Functions::flush`] waits.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(10);
/// pprof walks its table by recursion.
const STACK_BYTES: usize = 16 << 20;

/// Which operations are profiled and where their functions go. Without any pick, only sessions are profiled.
#[derive(Clone, Debug)]
pub struct Settings {
    hz: u32,
    picks: Picks,
    live_max: usize,
    directory: Option<Directory>,
    carried: bool,
}

#[derive(Clone, Debug, Default)]
struct Picks {
    names: Vec<String>,
    base_ids: Vec<String>,
    signed: bool,
    keys: Vec<Signer>,
}

impl Pick for Picks {
    fn picks(&self, candidate: &OperationCandidate<'_>) -> bool {
        self.names.iter().any(|name| name == candidate.name)
            || self.base_ids.iter().any(|id| id == candidate.base_id)
            || candidate
                .signer
                .is_some_and(|signer| self.signed || self.keys.iter().any(|key| key.is_same(signer)))
    }
}

impl Picks {
    fn is_empty(&self) -> bool {
        self.names.is_empty() && self.base_ids.is_empty() && !self.signed && self.keys.is_empty()
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self { hz: 100, picks: Picks::default(), live_max: 64, directory: None, carried: true }
    }
}

impl Settings {
    /// Nothing is picked; 100 samples a second.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Picks trace points of this name, with everything below them.
    #[must_use]
    pub fn name(mut self, name: &str) -> Self {
        self.picks.names.push(name.to_owned());
        self
    }

    /// Picks what belongs to the trace with this id.
    #[must_use]
    pub fn base_id(mut self, base_id: &str) -> Self {
        self.picks.base_ids.push(base_id.to_owned());
        self
    }

    /// Picks every traced request of a client that holds one of the service's keys.
    #[must_use]
    pub fn signed(mut self) -> Self {
        self.picks.signed = true;
        self
    }

    /// Picks the traced requests of clients that hold this one of the service's keys.
    #[must_use]
    pub fn key(mut self, key: &Secret) -> Self {
        self.picks.keys.extend(Signer::new(key));
        self
    }

    /// Samples per second of processor time (by default 100), at most [`HZ_MAX`]; with the feature `functions-perf`, and in a
    /// program with frame pointers, at most [`PERF_HZ_MAX`]. Over [`HZ_MAX`], [`Settings::start`] must come before there are
    /// other threads.
    #[must_use]
    pub fn hz(self, hz: u32) -> Self {
        Self { hz, ..self }
    }

    /// How many operations are profiled at the same time (by default 64); others are counted.
    #[must_use]
    pub fn live_max(self, live_max: usize) -> Self {
        Self { live_max, ..self }
    }

    /// Writes a file for each operation.
    #[must_use]
    pub fn directory(self, directory: Directory) -> Self {
        Self { directory: Some(directory), ..self }
    }

    /// Does not report functions with the trace.
    #[must_use]
    pub fn without_records(self) -> Self {
        Self { carried: false, ..self }
    }

    /// Starts the sampler's thread. Best at the beginning of `main`; it takes some milliseconds of processor time to
    /// find out whether sampling works here.
    ///
    /// # Errors
    /// Functions cannot be sampled here, or are sampled already; the directory cannot be used.
    pub fn start(self) -> Result<Functions, FunctionsError> {
        let directory = self.directory.map(Directory::open).transpose().map_err(FunctionsError::Directory)?;
        let sampler = Sampler::try_out(self.hz)?;
        let picking = !self.picks.is_empty();
        let operations = Operations::install(Box::new(self.picks), self.live_max, picking);
        let operations = operations.ok_or(SamplerError::Running)?;
        let outcome = Arc::<SampleReaderOutput>::default();
        let reader = SampleReader::new(
            Arc::clone(&operations),
            Arc::clone(&outcome),
            sampler,
            directory,
            self.carried,
        );
        let thread = std::thread::Builder::new().name("functions".to_owned()).stack_size(STACK_BYTES);
        match thread.spawn(move || reader.run()) {
            Ok(thread) => Ok(Functions { operations, outcome, thread: Some(thread) }),
            Err(error) => {
                operations.uninstall();
                operations.release();
                Err(FunctionsError::Thread(error))
            }
        }
    }
}

/// Why functions are not sampled.
#[derive(Debug, Error)]
pub enum FunctionsError {
    /// Sampling does not work here.
    #[error(transparent)]
    Sampler(#[from] SamplerError),
    /// The directory cannot be made or read.
    #[error("open the directory for profiles: {0}; choose one that this process may write to")]
    Directory(#[source] std::io::Error),
    /// No thread.
    #[error("start the sampler's thread: {0}; allow the process one more thread")]
    Thread(#[source] std::io::Error),
    /// There is no sampler.
    #[error("profile functions: no sampler runs; start one with `functions::settings::Settings::start`")]
    NotStarted,
    /// The sampler did not answer.
    #[error("read the functions: the sampler did not answer in time; the machine may be overloaded")]
    TimedOut,
    /// The session is still open.
    #[error("write the functions: the session is not over; call `stop` first")]
    NotStopped,
    /// A file.
    #[error("write {path}: {source}")]
    Write {
        /// Which.
        path: String,
        /// Why not.
        source: std::io::Error,
    },
}

/// The running sampler; dropping this ends it.
pub struct Functions {
    operations: Arc<Operations>,
    outcome: Arc<SampleReaderOutput>,
    thread: Option<JoinHandle<()>>,
}

impl Functions {
    /// Reads what was seen so far and delivers the operations that are over; it blocks for some milliseconds. `false` if the
    /// sampler did not answer in time.
    #[must_use]
    pub fn flush(&self) -> bool {
        self.operations.flush(FLUSH_TIMEOUT)
    }

    /// The outcome of the operations so far.
    #[must_use]
    pub fn report(&self) -> FunctionsReport {
        self.outcome.report()
    }

    /// The functions of the operations that are over, added up by the operation's name.
    #[must_use]
    pub fn totals(&self) -> Vec<FunctionProfile> {
        self.outcome.totals()
    }
}

impl Drop for Functions {
    fn drop(&mut self) {
        self.operations.uninstall();
        if let Some(thread) = self.thread.take() {
            // It does not panic; if it did, there is nothing to be done.
            let _ = thread.join();
        }
        self.operations.release();
    }
}

impl std::fmt::Debug for Functions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Functions({:?})", self.report())
    }
}
