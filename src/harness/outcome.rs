//! The result of a run.

use std::path::{Path, PathBuf};

use results::model::{Outcome, Results, RunStatus};
use results::trace::StoredTrace;

use super::error::HarnessError;
use super::writing::WriteOutcome;

/// How a run, a comparison or a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// It ran, and every criterion holds, or there are none.
    Good,
    /// It did not finish.
    Failed,
    /// A criterion does not hold.
    GateFailed,
    /// There is no valid verdict: no samples, or the load generator was the limit.
    NoVerdict,
    /// There is too little data for a verdict, or it is unknown how the run ended.
    Inconclusive,
    /// It was interrupted; what ran was reported.
    Interrupted,
}

impl Conclusion {
    /// The conclusion for a run with this many iterations.
    pub(super) fn of(results: &Results, iterations: u64) -> Self {
        match results.run.status {
            RunStatus::Interrupted => return Self::Interrupted,
            RunStatus::Failed | RunStatus::TimedOut => return Self::Failed,
            RunStatus::Finished | RunStatus::Aborted | RunStatus::Recovered => {}
        }
        // It is unknown what a run without an end did after its log stops.
        let is_open = results.run.status == RunStatus::Recovered;
        match results.verdict.outcome {
            Outcome::Fail => Self::GateFailed,
            Outcome::Invalid => Self::NoVerdict,
            // Without samples a run cannot be good.
            _ if iterations == 0 => Self::NoVerdict,
            Outcome::Inconclusive => Self::Inconclusive,
            Outcome::Pass | Outcome::None if is_open => Self::Inconclusive,
            Outcome::Pass | Outcome::None => Self::Good,
        }
    }
}

/// A run that has ended, or that was judged again.
#[derive(Debug)]
pub struct FinishedRun {
    /// How it ended.
    pub conclusion: Conclusion,
    /// Figures, verdict and findings.
    pub results: Results,
    /// The traces that were fetched, with the client's own points.
    pub traces: Vec<StoredTrace>,
    /// Its directory, with results.json, report.html, report.md, badge, log and traces; `None` if these could not be
    /// written, or are from an earlier result that knows more.
    pub directory: Option<PathBuf>,
    /// The notes of the results that were said as warnings before the load.
    pub heard: Vec<String>,
    /// What could not be written or kept; then the run counts as failed.
    pub fault: Option<HarnessError>,
}

impl FinishedRun {
    pub(super) fn new(
        conclusion: Conclusion,
        written: WriteOutcome,
        traces: Vec<StoredTrace>,
        directory: &Path,
    ) -> Self {
        let WriteOutcome { results, is_there, fault } = written;
        let directory = is_there.then(|| directory.to_path_buf());
        Self { conclusion, results, traces, directory, heard: Vec::new(), fault }
    }

    /// How it ended, or the error that makes that worthless.
    ///
    /// # Errors
    /// When something could not be written.
    pub fn outcome(self) -> Result<Conclusion, HarnessError> {
        match self.fault {
            None => Ok(self.conclusion),
            Some(fault) => Err(fault),
        }
    }
}
