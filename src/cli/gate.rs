//! Where CI reads the verdict: exit code, JUnit, annotations, badge.

use std::path::{Path, PathBuf};

use crate::base::files::write_output;
use crate::report::{annotations, badge, junit};
use crate::results::directory::{RunDirectory, write_at_once};
use crate::results::model::{Criterion, Outcome, Results, RunStatus};

use super::exit::{Exit, Stopped};
use super::output;

/// How a verdict is told.
#[derive(Debug, Default, clap::Args)]
pub(super) struct GateArguments {
    /// Write the criteria as JUnit XML: one test case each.
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// End with code 4 when the verdict is INCONCLUSIVE, or the run's log has no end (with 0 otherwise).
    #[arg(long)]
    strict: bool,
}

impl GateArguments {
    /// Writes the criteria as JUnit XML, if that was asked for.
    pub(super) fn junit(&self, results: &Results) -> Result<(), Stopped> {
        let Some(path) = &self.junit else { return Ok(()) };
        let xml =
            junit::render(results).map_err(|error| Stopped::new(Exit::Failed, format!("error: {error}")))?;
        write_named(path, &xml)
    }

    /// Prints what GitHub Actions shows beside the code.
    pub(super) fn annotate(&self, results: &Results) {
        if on_actions() {
            output::command(&annotations::render(results));
        }
    }

    /// The exit code, which --strict may change.
    pub(super) fn exit(&self, results: &Results, exit: Exit) -> Exit {
        // What a run without an end did after its log breaks off, nobody knows.
        let inconclusive =
            results.verdict.outcome == Outcome::Inconclusive || results.run.status == RunStatus::Recovered;
        if self.strict && inconclusive && exit == Exit::Ok { Exit::Inconclusive } else { exit }
    }
}

/// Writes the run's badge.
pub(super) fn badge(directory: &RunDirectory, results: &Results) -> Result<(), Stopped> {
    write(&directory.path().join("badge.txt"), &badge::line(results))?;
    write(&directory.path().join("badge.json"), &badge::endpoint(results))
}

/// Writes criteria of something else than a run, such as a comparison, as JUnit XML.
pub(super) fn junit_of_criteria(path: &Path, title: &str, criteria: &[Criterion]) -> Result<(), Stopped> {
    let xml = junit::of_criteria(title, criteria)
        .map_err(|error| Stopped::new(Exit::Failed, format!("error: {error}")))?;
    write_named(path, &xml)
}

/// Prints them as annotations where GitHub Actions reads them.
pub(super) fn annotate_criteria(criteria: &[Criterion]) {
    if on_actions() {
        output::command(&annotations::of_criteria(criteria).join("\n"));
    }
}

fn on_actions() -> bool {
    std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true")
}

fn write_named(path: &Path, text: &str) -> Result<(), Stopped> {
    let written = write_output(path, |output| output.write_all(text.as_bytes()));
    written.map_err(|error| cannot_write(path, &error))
}

fn write(path: &Path, text: &str) -> Result<(), Stopped> {
    let written = write_at_once(path, |output| output.write_all(text.as_bytes()));
    written.map_err(|error| cannot_write(path, &error))
}

fn cannot_write(path: &Path, error: &std::io::Error) -> Stopped {
    Stopped::new(Exit::Failed, format!("error: {} cannot be written: {error}", path.display()))
}
