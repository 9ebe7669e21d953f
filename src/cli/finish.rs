//! After the load: results from the log, traces, causes, verdict, files, summary.

use std::path::Path;

use uuid::Uuid;

use crate::analysis::{culprit, findings};
use crate::collect::Fetched;
use crate::report::{html, terminal};
use crate::results::aggregate::Aggregate;
use crate::results::directory::{RunDirectory, write_at_once};
use crate::results::model::{Outcome, Results, RunStatus, TraceState};
use crate::results::trace::StoredTrace;
use crate::results::{build, json};
use crate::verdict;

use super::exit::{Exit, Stopped};

/// A wrong key shows nowhere else: services answer as if nothing had been asked.
const NO_POINTS: &str = "no trace reached the collector: check that the services have OSProfiler enabled, \
    accept this HMAC key and report to this collector";

/// Reads the log of a run and makes its results, still without traces.
pub(super) fn aggregate(directory: &RunDirectory) -> Result<(Aggregate, Results), Stopped> {
    let aggregate = Aggregate::read(&directory.log())
        .map_err(|error| Stopped::new(Exit::Input, format!("error: {error}")))?;
    let mut results = build::build(&aggregate);
    results.verdict = verdict::judge(&aggregate);
    Ok((aggregate, results))
}

/// The trace ids of the slowest iterations.
pub(super) fn slowest_ids(results: &Results) -> Vec<Uuid> {
    results.slowest.iter().map(|slow| slow.iteration.trace_id).collect()
}

/// Puts fetched traces into the results: their states, and the guilty points.
pub(super) fn explain(results: &mut Results, fetched: &Fetched) {
    for slow in &mut results.slowest {
        let trace = fetched.traces.iter().find(|trace| trace.trace_id == slow.iteration.trace_id);
        let Some(trace) = trace else { continue };
        slow.trace = trace.state;
        let requests_ms = slow.actions.iter().map(|action| action.duration_ms).sum();
        slow.culprit = culprit::find(trace, slow.iteration.duration_ms, requests_ms);
        *results.profiling.fetched.entry(trace.state).or_default() += 1;
    }
    results.findings = findings::of_slowest(&results.slowest);
    results.profiling.collector_error.clone_from(&fetched.error);
    if !fetched.traces.is_empty() && fetched.traces.iter().all(|trace| trace.state == TraceState::Absent) {
        results.notes.push(NO_POINTS.to_owned());
    }
}

/// Writes results.json and report.html, and prints what a person wants to know.
pub(super) fn write(
    directory: &RunDirectory,
    aggregate: &Aggregate,
    results: &Results,
    traces: &[StoredTrace],
    quiet: bool,
) -> Result<Exit, Stopped> {
    let log = directory.log();
    let failed = |path: &Path, error: std::io::Error| {
        let text = format!(
            "error: {} cannot be written: {error}; nothing recorded is lost: make room, then `bench report {}`",
            path.display(),
            directory.path().display()
        );
        Stopped::new(Exit::Failed, text)
    };
    directory.store_traces(traces).map_err(|error| failed(&directory.path().join("traces"), error))?;
    let path = directory.results();
    write_at_once(&path, |output| json::write(results, aggregate, &log, output))
        .map_err(|error| failed(&path, error))?;
    let columns = json::columns(aggregate, &log)?;
    let shown: Vec<StoredTrace> =
        traces.iter().filter(|trace| trace.state != TraceState::Absent).cloned().collect();
    let path = directory.report();
    write_at_once(&path, |output| html::render(results, &columns, &shown, output))
        .map_err(|error| failed(&path, error))?;
    let stdout = std::io::stdout();
    let colour = super::colours(&stdout);
    if quiet {
        super::print(&format!(
            "{}\n{}",
            terminal::verdict_line(results, colour),
            directory.path().display()
        ))?;
    } else {
        terminal::summary(results, directory.path(), colour, &mut stdout.lock())?;
    }
    Ok(exit(aggregate, results))
}

fn exit(aggregate: &Aggregate, results: &Results) -> Exit {
    match results.run.status {
        RunStatus::Interrupted => return Exit::Interrupted,
        RunStatus::Failed | RunStatus::TimedOut => return Exit::Failed,
        RunStatus::Finished | RunStatus::Recovered => {}
    }
    match results.verdict.outcome {
        Outcome::Fail => Exit::Gate,
        Outcome::Invalid => Exit::Invalid,
        // Without a single sample there is nothing to be content with.
        _ if aggregate.total() == 0 => Exit::Invalid,
        Outcome::Pass | Outcome::None => Exit::Ok,
    }
}

/// Renders a run again from its directory.
pub(super) fn report(run_dir: &Path, quiet: bool) -> Result<Exit, Stopped> {
    let directory = RunDirectory::open(run_dir);
    if !directory.log().is_file() {
        let text = format!("error: {} holds no run.log; give the directory of a run", run_dir.display());
        return Err(Stopped::new(Exit::Input, text));
    }
    let (aggregate, mut results) = aggregate(&directory)?;
    let traces = slowest_ids(&results).into_iter().filter_map(|id| directory.stored_trace(id)).collect();
    let fetched = Fetched { traces, error: None };
    explain(&mut results, &fetched);
    write(&directory, &aggregate, &results, &fetched.traces, quiet)
}
