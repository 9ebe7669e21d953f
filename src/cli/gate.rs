//! Prints the result of a run: the terminal, GitHub's annotations, the exit code.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::PathBuf;

use harness::options::{FigureFiles, RallyReports, ReportOptions, TracesMode};
use harness::{Conclusion, FinishedRun, HarnessError};
use report::{annotations, terminal};
use results::model::{Criterion, Results};

use super::exit::Exit;
use super::output;

/// The variable with the file for a step's summary in GitHub Actions.
const STEP_SUMMARY: &str = "GITHUB_STEP_SUMMARY";

/// The options for reporting a verdict.
#[derive(Debug, clap::Args)]
pub(super) struct GateArguments {
    /// Write the criteria as JUnit XML: one test case each.
    #[arg(long, value_name = "FILE")]
    pub(super) junit: Option<PathBuf>,
    /// Exit with 4 instead of 0 when the verdict is INCONCLUSIVE or the run's log has no end. Exit with 69 before the
    /// load when the probe fails or its trace does not arrive; the probe then runs before a load of few iterations too.
    #[arg(long)]
    pub(super) strict: bool,
    #[command(flatten)]
    figures: FigureArguments,
    #[command(flatten)]
    rally: RallyArguments,
}

/// Files with figures for the pages of CI systems.
#[derive(Debug, clap::Args)]
struct FigureArguments {
    /// Write what GitLab's merge requests show of a load test: `artifacts: { reports: { load_performance: FILE } }`.
    #[arg(long, value_name = "FILE")]
    gitlab_performance: Option<PathBuf>,
    /// Write counts and percentiles as OpenMetrics text, for GitLab's `artifacts: { reports: { metrics: FILE } }`.
    #[arg(long, value_name = "FILE")]
    metrics_file: Option<PathBuf>,
}

/// Files in the formats of Rally's reports.
#[derive(Debug, clap::Args)]
struct RallyArguments {
    /// Write the run as Rally's JSON report: every iteration with its atomic actions and its trace id.
    #[arg(long, value_name = "FILE")]
    rally_json: Option<PathBuf>,
    /// Write the run as Rally's JUnit report: a test case for each workload.
    #[arg(long, value_name = "FILE")]
    rally_junit: Option<PathBuf>,
}

/// The option for showing traces.
#[derive(Debug, clap::Args)]
pub(super) struct TracesArgument {
    /// How report.html shows the stored traces: `text` (ids only), `embed` (waterfalls in the report), or a directory
    /// for one HTML page per trace, linked from the report.
    #[arg(long, value_name = "text|embed|DIR", default_value = "embed", value_parser = clap::builder::OsStringValueParser::new())]
    traces: std::ffi::OsString,
}

impl TracesArgument {
    /// Write a directory that has the name of a mode as `./text`.
    fn mode(&self) -> TracesMode {
        match self.traces.as_os_str() {
            mode if mode == OsStr::new("text") => TracesMode::Text,
            mode if mode == OsStr::new("embed") || mode.is_empty() => TracesMode::Embed,
            folder => TracesMode::Pages(PathBuf::from(folder)),
        }
    }
}

impl GateArguments {
    /// What to write in addition to the run's own files.
    pub(super) fn report(&self, traces: &TracesArgument) -> ReportOptions {
        let rally =
            RallyReports { json: self.rally.rally_json.clone(), junit: self.rally.rally_junit.clone() };
        let (traces, junit, step_summary) = (traces.mode(), self.junit.clone(), step_summary());
        ReportOptions { traces, junit, figures: self.figures(), rally, step_summary }
    }

    /// Where to write figures for the pages of CI systems.
    pub(super) fn figures(&self) -> FigureFiles {
        let FigureArguments { gitlab_performance, metrics_file } = &self.figures;
        FigureFiles { gitlab_performance: gitlab_performance.clone(), metrics: metrics_file.clone() }
    }

    /// Prints the result of a run, after its files were written.
    pub(super) fn print(&self, finished: FinishedRun, quiet: bool) -> Result<Exit, HarnessError> {
        let (results, path) = (&finished.results, finished.directory.as_deref());
        let style = output::style();
        if quiet {
            let path = path.map(|path| format!("\n{}", path.display())).unwrap_or_default();
            output::print(&format!("{}{path}", terminal::verdict_line(results, style)));
        } else {
            let summary = words(|text| terminal::summary(results, path, &finished.heard, style, text));
            output::print(&summary);
            // What comes first has left a small terminal.
            let rows = output::size().map_or(usize::MAX, |(_, rows)| usize::from(rows));
            if output::is_interactive() && summary.lines().count() >= rows {
                output::print(&format!("\n{}", terminal::verdict_line(results, style)));
            }
        }
        self.end(finished)
    }

    /// Prints the criteria of a run that was judged again.
    pub(super) fn tell_criteria(&self, finished: FinishedRun, quiet: bool) -> Result<Exit, HarnessError> {
        let (results, style) = (&finished.results, output::style());
        if quiet {
            output::print(&terminal::verdict_line(results, style));
        } else {
            output::print(&words(|text| terminal::gate(results, style, text)));
        }
        self.end(finished)
    }

    /// Prints the run's results.json, and nothing else on standard output.
    pub(super) fn print_document(&self, finished: FinishedRun) -> Result<Exit, HarnessError> {
        if let Some(directory) = &finished.directory {
            output::deliver_file(&directory.join("results.json"))?;
        }
        finished.outcome().map(|conclusion| told(conclusion, self.strict))
    }

    /// The same of a run that was judged again, which has no such file: its results without the list of iterations.
    pub(super) fn print_judged(&self, finished: FinishedRun) -> Result<Exit, HarnessError> {
        output::deliver_json(&results::json::without_iterations(&finished.results))?;
        finished.outcome().map(|conclusion| told(conclusion, self.strict))
    }

    fn end(&self, finished: FinishedRun) -> Result<Exit, HarnessError> {
        annotate(&finished.results);
        finished.outcome().map(|conclusion| told(conclusion, self.strict))
    }
}

/// The exit code. That an undecided gate passes is said, because a job that goes on looks like one that is well.
pub(super) fn told(conclusion: Conclusion, strict: bool) -> Exit {
    if conclusion == Conclusion::Inconclusive && !strict {
        output::complain("undecided, and the exit code is 0: with --strict, it would be 4");
    }
    Exit::of(conclusion, strict)
}

/// The file of this step's summary, where GitHub Actions asks for one.
pub(super) fn step_summary() -> Option<PathBuf> {
    std::env::var_os(STEP_SUMMARY).filter(|path| !path.is_empty()).map(PathBuf::from)
}

fn annotate(results: &Results) {
    if on_actions() {
        output::command(&annotations::render(results));
    }
}

/// Prints criteria as annotations where GitHub Actions reads them.
pub(super) fn annotate_criteria(criteria: &[Criterion]) {
    if on_actions() {
        output::command(&annotations::of_criteria(criteria).join("\n"));
    }
}

fn on_actions() -> bool {
    std::env::var_os("GITHUB_ACTIONS").is_some_and(|value| value == "true")
}

/// The output of a writer, as text.
fn words(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> String {
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    let _ = write(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}
