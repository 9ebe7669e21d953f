//! What came of a run.

use std::path::{Path, PathBuf};

use crate::results::model::{Outcome, Results, RunStatus};
use crate::results::trace::StoredTrace;

use super::error::HarnessError;
use super::writing::Written;

/// How a run, a comparison or a check ended, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Conclusion {
    /// It ran, and every criterion holds, or there was none.
    Good,
    /// It did not come to its end.
    Failed,
    /// A criterion does not hold.
    GateFailed,
    /// There is no valid verdict: no samples, or the load generator was the limit.
    NoVerdict,
    /// The data are too few for a verdict, or it is not known how the run ended.
    Inconclusive,
    /// It was interrupted; what ran was reported.
    Interrupted,
}

impl Conclusion {
    /// That of a run with this many iterations.
    pub(super) fn of(results: &Results, iterations: u64) -> Self {
        match results.run.status {
            RunStatus::Interrupted => return Self::Interrupted,
            RunStatus::Failed | RunStatus::TimedOut => return Self::Failed,
            RunStatus::Finished | RunStatus::Aborted | RunStatus::Recovered => {}
        }
        // What a run without an end did after its log breaks off, nobody knows.
        let is_open = results.run.status == RunStatus::Recovered;
        match results.verdict.outcome {
            Outcome::Fail => Self::GateFailed,
            Outcome::Invalid => Self::NoVerdict,
            // Without a single sample there is nothing to be content with.
            _ if iterations == 0 => Self::NoVerdict,
            Outcome::Inconclusive => Self::Inconclusive,
            Outcome::Pass | Outcome::None if is_open => Self::Inconclusive,
            Outcome::Pass | Outcome::None => Self::Good,
        }
    }
}

/// A run that has ended, or one that was judged again.
#[derive(Debug)]
pub struct Finished {
    /// How it ended.
    pub conclusion: Conclusion,
    /// Figures, verdict and findings.
    pub results: Results,
    /// The traces that were fetched, with the client's own points.
    pub traces: Vec<StoredTrace>,
    /// Its directory, with results.json, report.html, report.md, badge, log and traces; `None` if these could not be
    /// written, or are those of an earlier result that knows more.
    pub directory: Option<PathBuf>,
    /// What could not be written, or kept: then the run counts as one that failed.
    pub fault: Option<HarnessError>,
}

impl Finished {
    pub(super) fn new(
        conclusion: Conclusion,
        written: Written,
        traces: Vec<StoredTrace>,
        directory: &Path,
    ) -> Self {
        let Written { results, is_there, fault } = written;
        let directory = is_there.then(|| directory.to_path_buf());
        Self { conclusion, results, traces, directory, fault }
    }

    /// How it ended, or why that counts for nothing.
    ///
    /// # Errors
    /// What could not be written.
    pub fn outcome(self) -> Result<Conclusion, HarnessError> {
        match self.fault {
            None => Ok(self.conclusion),
            Some(fault) => Err(fault),
        }
    }
}
