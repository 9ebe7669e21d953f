//! Where CI reads the verdict: exit code, JUnit, annotations, badge.

use std::path::{Path, PathBuf};

use crate::report::{annotations, badge, junit};
use crate::results::directory::{RunDirectory, write_at_once};
use crate::results::model::{Criterion, Outcome, Results, RunStatus};

use super::exit::{Exit, Stopped};

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
    /// Writes what was asked for and the run's badge; gives the exit code.
    pub(super) fn publish(
        &self,
        directory: &RunDirectory,
        results: &Results,
        exit: Exit,
    ) -> Result<Exit, Stopped> {
        let path = directory.path().join("badge.txt");
        write(&path, &badge::line(results))?;
        write(&directory.path().join("badge.json"), &badge::endpoint(results))?;
        self.tell(results, exit)
    }

    /// The same without a word to the run's directory.
    pub(super) fn tell(&self, results: &Results, exit: Exit) -> Result<Exit, Stopped> {
        if let Some(path) = &self.junit {
            let xml = junit::render(results)
                .map_err(|error| Stopped::new(Exit::Failed, format!("error: {error}")))?;
            write(path, &xml)?;
        }
        if on_actions() {
            let text = annotations::render(results);
            if !text.is_empty() {
                super::print(&text)?;
            }
        }
        // What a run without an end did after its log breaks off, nobody knows.
        let inconclusive =
            results.verdict.outcome == Outcome::Inconclusive || results.run.status == RunStatus::Recovered;
        Ok(if self.strict && inconclusive && exit == Exit::Ok { Exit::Inconclusive } else { exit })
    }
}

/// Tells criteria of something else than a run, such as a comparison: as JUnit XML, and as annotations.
pub(super) fn tell_criteria(
    junit: Option<&Path>,
    title: &str,
    criteria: &[Criterion],
) -> Result<(), Stopped> {
    if let Some(path) = junit {
        let xml = junit::of_criteria(title, criteria)
            .map_err(|error| Stopped::new(Exit::Failed, format!("error: {error}")))?;
        write(path, &xml)?;
    }
    let lines = annotations::of_criteria(criteria);
    if on_actions() && !lines.is_empty() {
        super::print(&lines.join("\n"))?;
    }
    Ok(())
}

fn on_actions() -> bool {
    std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true")
}

fn write(path: &Path, text: &str) -> Result<(), Stopped> {
    write_at_once(path, |output| output.write_all(text.as_bytes())).map_err(|error| {
        Stopped::new(Exit::Failed, format!("error: {} cannot be written: {error}", path.display()))
    })
}
