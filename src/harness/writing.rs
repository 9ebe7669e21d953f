//! Writes the files of a run, all of them before its result is reported.

use std::collections::HashSet;
use std::path::Path;

use uuid::Uuid;

use report::metrics::summary;
use report::{badge, gitlab, html, junit, markdown};
use results::aggregate::Aggregate;
use results::directory::{RunDirectory, write_at_once};
use results::head;
use results::model::{Criterion, Outcome, RecordState, Results, RunStatus, TraceState};
use results::request_figures::RequestFigures;
use results::trace::StoredTrace;
use results::{IterationColumns, json, record};
use text::shell;

use super::error::{HarnessError, remedy_for};
use super::event::{Event, Sink};
use super::named_output::{cannot_write, write_named};
use super::options::{FigureFiles, ReportOptions, TracesMode};
use super::{pages, rally_task};

const UNWRITTEN: &str = "the run's files cannot be written";

/// How writing a run's files went.
pub(super) struct WriteOutcome {
    /// The results to report: a run counts as good only if its files are written.
    pub(super) results: Results,
    /// Whether the directory contains this result.
    pub(super) is_there: bool,
    /// What could not be written.
    pub(super) fault: Option<HarnessError>,
}

/// Writes all files; one that cannot be written does not prevent the others.
pub(super) fn write(
    directory: &RunDirectory,
    aggregate: &Aggregate,
    results: Results,
    traces: &[StoredTrace],
    options: &ReportOptions,
    events: &Sink,
) -> WriteOutcome {
    let keeps = keeps(directory, aggregate, &results, events);
    let run = if keeps { write_run(directory, aggregate, &results, traces, &options.traces) } else { Ok(()) };
    let is_there = keeps && run.is_ok();
    let badge = if is_there { badge(directory, &results) } else { Ok(()) };
    // No other output may say that such a run went well.
    let results = if run.is_err() { without_files(results) } else { results };
    let junit = options.junit.as_deref().map_or(Ok(()), |path| junit_of(path, &results));
    if let Some(path) = &options.step_summary {
        add_to(path, &|output| markdown::render(&results, output), events);
    }
    let figures = figures_of(&options.figures, aggregate, &results);
    let rally = rally_task::reports(&options.rally, directory, &results);
    let faults = [run, badge, junit, figures, rally].into_iter().filter_map(Result::err);
    let fault = faults.reduce(HarnessError::and);
    WriteOutcome { results, is_there, fault }
}

/// The results of a run whose files cannot be written, for all other outputs: it failed, whatever its verdict. The
/// figures remain, because the log is complete.
fn without_files(mut results: Results) -> Results {
    if results.run.status == RunStatus::Finished {
        results.run.status = RunStatus::Failed;
        results.run.error = Some(UNWRITTEN.to_owned());
    }
    if results.verdict.outcome == Outcome::Pass {
        results.verdict.outcome = Outcome::Invalid;
        results.verdict.invalid.push(UNWRITTEN.to_owned());
    }
    results
}

/// Whether traces of a run came.
fn had_traces(results: &Results) -> bool {
    let fetched = &results.profiling.fetched;
    [TraceState::Complete, TraceState::Partial].iter().any(|state| fetched.contains_key(state))
}

/// Whether files may be written: the directory must exist, and existing results must not contain more than the log.
fn keeps(directory: &RunDirectory, aggregate: &Aggregate, results: &Results, events: &Sink) -> bool {
    if !directory.path().is_dir() {
        return false;
    }
    let old = head::read(&directory.results()).ok();
    // Causes that were found in traces must not be lost with these.
    if old.as_ref().is_some_and(|old| old.run.id == results.run.id && had_traces(old) && !had_traces(results))
    {
        events.event(&Event::Warning(&format!(
            "{} explains slow iterations by traces that are no longer stored; it is kept, and nothing was written to {}",
            directory.results().display(),
            directory.path().display()
        )));
        return false;
    }
    let whole = results.record.as_ref().is_some_and(|record| record.state == RecordState::Complete);
    if whole && aggregate.unsaved.is_none() {
        return true;
    }
    // An unreadable file contains nothing worth keeping.
    let Some(more) = old.and_then(|old| record::knows_more(&old, results)) else { return true };
    events.event(&Event::Warning(&format!(
        "{} contains more than the log: {more}; it is kept, and nothing was written to {}",
        directory.results().display(),
        directory.path().display()
    )));
    false
}

/// Writes the traces, results.json, report.html and report.md.
fn write_run(
    directory: &RunDirectory,
    aggregate: &Aggregate,
    results: &Results,
    traces: &[StoredTrace],
    mode: &TracesMode,
) -> Result<(), HarnessError> {
    let failed = |path: &Path, error: std::io::Error| {
        let text = format!("{} cannot be written: {error}; nothing recorded is lost", path.display());
        let (remedy, run) = (remedy_for(&error), shell::path(directory.path()));
        HarnessError::failed(text).remedy(format!("{remedy}, then `bench report {run}`"))
    };
    directory.store_traces(traces).map_err(|error| failed(&directory.path().join("traces"), error))?;
    let path = directory.results();
    let kept: HashSet<Uuid> = traces.iter().map(|trace| trace.trace_id).collect();
    let mut columns = IterationColumns::default();
    let written = write_at_once(&path, |output| {
        columns = json::write(results, aggregate, &kept, output)?;
        Ok(())
    });
    written.map_err(|error| failed(&path, error))?;
    let shown = pages::write(mode, directory, results, traces)?;
    let path = directory.report();
    let traces = html::ReportTraces { stored: traces, shown: &shown };
    write_at_once(&path, |output| html::render(results, &columns, traces, output))
        .map_err(|error| failed(&path, error))?;
    let path = directory.markdown();
    write_at_once(&path, |output| markdown::render(results, output)).map_err(|error| failed(&path, error))
}

/// Writes the run's badge.
fn badge(directory: &RunDirectory, results: &Results) -> Result<(), HarnessError> {
    for (name, text) in [("badge.txt", badge::line(results)), ("badge.json", badge::endpoint(results))] {
        let path = directory.path().join(name);
        let written = write_at_once(&path, |output| output.write_all(text.as_bytes()));
        written.map_err(|error| cannot_write(&path, &error))?;
    }
    Ok(())
}

/// Writes a run's criteria as JUnit XML.
pub(super) fn junit_of(path: &Path, results: &Results) -> Result<(), HarnessError> {
    write_named(path, &junit::render(results).map_err(HarnessError::failed)?)
}

/// Writes the figures that CI systems compare with those of another branch.
pub(super) fn figures_of(
    files: &FigureFiles,
    aggregate: &Aggregate,
    results: &Results,
) -> Result<(), HarnessError> {
    if let Some(path) = &files.gitlab_performance {
        let figures = RequestFigures::read(aggregate).map_err(HarnessError::of_log)?;
        write_named(path, &gitlab::load_performance(&figures))?;
    }
    files.metrics.as_deref().map_or(Ok(()), |path| write_named(path, &summary::render(results)))
}

/// Writes criteria of something other than a run, such as a comparison, as JUnit XML.
pub(super) fn junit_of_criteria(
    path: &Path,
    title: &str,
    criteria: &[Criterion],
    time: (&str, f64),
) -> Result<(), HarnessError> {
    write_named(path, &junit::of_criteria(title, criteria, time).map_err(HarnessError::failed)?)
}

/// Appends Markdown to the file of a step's summary. A failure is only a warning, and so is anything but a file: a pipe
/// without a reader would never open.
pub(super) fn add_to(
    path: &Path,
    render: &dyn Fn(&mut dyn std::io::Write) -> std::io::Result<()>,
    events: &Sink,
) {
    let is_other = std::fs::metadata(path).is_ok_and(|found| !found.is_file());
    let file = match is_other {
        true => Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, "it is not a regular file")),
        false => std::fs::File::options().append(true).create(true).open(path),
    };
    if let Err(error) = file.and_then(|mut output| render(&mut output)) {
        events.event(&Event::Warning(&format!(
            "cannot write to the file that $GITHUB_STEP_SUMMARY names: {error}"
        )));
    }
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    #[test]
    fn a_pipe_for_the_summary_is_a_warning_and_no_wait() {
        use super::*;
        use std::sync::Arc;
        use std::sync::atomic::{AtomicUsize, Ordering};
        let folder = tempfile::tempdir().unwrap();
        let (pipe, file) = (folder.path().join("pipe"), folder.path().join("summary.md"));
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let warnings = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&warnings);
        let sink: Sink = Arc::new(move |event: &Event<'_>| {
            assert!(matches!(event, Event::Warning(text) if text.contains("not a regular file")));
            counted.fetch_add(1, Ordering::Relaxed);
        });
        for path in [&pipe, &file, &file] {
            add_to(path, &|output| output.write_all(b"text\n"), &sink);
        }
        assert_eq!(warnings.load(Ordering::Relaxed), 1);
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "text\ntext\n");
    }
}
