//! After the load: results from the log, traces, causes, verdict, files, summary.

use std::collections::HashSet;
use std::path::Path;

use uuid::Uuid;

use crate::analysis::causes::{self, Compared};
use crate::analysis::{culprit, findings, observer};
use crate::base::ids::IdSpace;
use crate::collect::Fetched;
use crate::measure::latency::SampleId;
use crate::measure::log::LogFile;
use crate::osprofiler::report::TraceTree;
use crate::report::{html, markdown, terminal};
use crate::results::aggregate::Aggregate;
use crate::results::choice::{self, Chosen};
use crate::results::counting::Counted;
use crate::results::directory::{RunDirectory, write_at_once};
use crate::results::model::{Outcome, RecordState, Results, RunStatus, TraceState};
use crate::results::stored::StoredRun;
use crate::results::trace::StoredTrace;
use crate::results::{build, client_points, json, record};
use crate::verdict::traces::Sampled;
use crate::verdict::{self, Evidence};

use super::exit::{Exit, Stopped};
use super::gate::GateArguments;
use super::output::{self, Stream};
use super::pages::{self, TracesMode};

/// A wrong key shows nowhere else: services answer as if nothing had been asked.
const NO_POINTS: &str = "no trace reached the collector: check that the services have OSProfiler enabled, \
    accept this HMAC key and report to this collector";

const UNWRITTEN: &str = "the run's files cannot be written";

/// Where GitHub Actions wants a step's summary.
const STEP_SUMMARY: &str = "GITHUB_STEP_SUMMARY";

/// Reads the log of a run; `exit` for one that cannot be read.
pub(super) fn read(log: LogFile, exit: Exit) -> Result<Aggregate, Stopped> {
    Aggregate::of(log).map_err(|error| Stopped::new(exit, format!("error: {error}")))
}

/// The results of a run, still without traces.
pub(super) fn results(aggregate: &Aggregate) -> Results {
    let mut results = build::build(aggregate);
    // Before the verdict, which may ask for it.
    for (workload, stats) in results.workloads.iter_mut().zip(&aggregate.workloads) {
        workload.observer_effect = observer::effect(&stats.sides, aggregate.header.control);
    }
    results
}

/// Judges the run by the criteria of its header; `chosen` and `fetched` hold the random sample of traces.
pub(super) fn judge(
    aggregate: &Aggregate,
    results: &mut Results,
    chosen: &[Chosen],
    fetched: &Fetched,
) -> Result<(), Stopped> {
    let counted =
        Counted::read(aggregate).map_err(|error| Stopped::new(Exit::Input, format!("error: {error}")))?;
    let ids = IdSpace::from_seed(aggregate.header.id_seed);
    let sampled: Vec<Sampled> = chosen
        .iter()
        .filter(|chosen| chosen.random)
        .map(|Chosen { sample, .. }| {
            let id = ids.base_id(sample.workload, sample.number);
            let unreadable = fetched.unreadable.get(&id).copied().unwrap_or(0);
            let records = fetched.records.get(&id).filter(|records| !records.is_empty());
            Sampled {
                id: SampleId { workload: sample.workload, number: sample.number },
                tree: records.map(|records| TraceTree::build(records).with_unreadable(unreadable)),
            }
        })
        .collect();
    let evidence =
        Evidence { aggregate, counted: &counted, workloads: &results.workloads, sampled: &sampled };
    results.verdict = verdict::judge(&evidence);
    Ok(())
}

/// The iterations whose traces tell most: slow, failed and typical ones.
pub(super) fn choose(aggregate: &Aggregate) -> Result<Vec<Chosen>, Stopped> {
    choice::choose(aggregate).map_err(|error| Stopped::new(Exit::Input, format!("error: {error}")))
}

/// Puts what was fetched into the results: states, guilty points, slow against typical. Gives the traces with the client's
/// own points above the services'.
pub(super) fn explain(
    results: &mut Results,
    aggregate: &Aggregate,
    chosen: &[Chosen],
    fetched: &Fetched,
) -> Vec<StoredTrace> {
    let ids = IdSpace::from_seed(aggregate.header.id_seed);
    let (mut traces, mut compared) = (Vec::new(), Vec::new());
    for Chosen { sample, side, top, .. } in chosen {
        let id = ids.base_id(sample.workload, sample.number);
        let workload = usize::from(sample.workload);
        let Some(services) = fetched.records.get(&id) else {
            *results.profiling.fetched.entry(TraceState::NotFetched).or_default() += 1;
            compared.push(Compared { workload, side: *side, top: *top, trace_id: id, tree: None });
            continue;
        };
        let failure = aggregate.failures.get(&sample.error);
        let mut records = client_points::records(&aggregate.header, sample, failure);
        let mut linked = services.clone();
        client_points::link(&mut linked, &records);
        records.extend(linked);
        let unreadable = fetched.unreadable.get(&id).copied().unwrap_or(0);
        let tree = (!services.is_empty()).then(|| TraceTree::build(&records).with_unreadable(unreadable));
        compared.push(Compared { workload, side: *side, top: *top, trace_id: id, tree });
        let trace = StoredTrace::new(id, records, unreadable);
        *results.profiling.fetched.entry(trace.state).or_default() += 1;
        if let Some(slow) = results.slowest.iter_mut().find(|slow| slow.iteration.trace_id == id) {
            slow.trace = trace.state;
            let requests_ms = slow.actions.iter().map(|action| action.duration_ms).sum();
            let services = StoredTrace::new(id, services.clone(), unreadable);
            slow.culprit = culprit::find(&services, slow.iteration.duration_ms, requests_ms);
        }
        traces.push(trace);
    }
    let seed = aggregate.header.id_seed.as_u64_pair().1;
    for (number, workload) in results.workloads.iter_mut().enumerate() {
        workload.comparison = causes::of_workload(&compared, number, seed);
    }
    results.findings = findings::of_slowest(&results.slowest);
    results.profiling.collector_error.clone_from(&fetched.error);
    if !traces.is_empty() && traces.iter().all(|trace| trace.state == TraceState::Absent) {
        results.notes.push(NO_POINTS.to_owned());
    }
    traces
}

/// How the outcome of a run is told.
pub(super) struct Told<'a> {
    /// How the report shows traces.
    pub(super) mode: &'a TracesMode,
    /// What CI reads.
    pub(super) gate: &'a GateArguments,
    /// Print the verdict and the directory only.
    pub(super) quiet: bool,
}

/// Writes everything that is to be written, then prints what a person wants to know: nobody has to read that for a file
/// to be there. Gives the exit code.
pub(super) fn write(
    directory: &RunDirectory,
    aggregate: &Aggregate,
    results: &Results,
    traces: &[StoredTrace],
    told: &Told<'_>,
) -> Result<Exit, Stopped> {
    // One that cannot be written keeps none of the others from it.
    let keeps = keeps(directory, aggregate, results);
    let run = if keeps { write_run(directory, aggregate, results, traces, told.mode) } else { Ok(()) };
    let is_there = keeps && run.is_ok();
    let badge = if is_there { super::gate::badge(directory, results) } else { Ok(()) };
    // What is written elsewhere or printed must not say that such a run went well.
    let unwritten = run.is_err().then(|| without_files(results));
    let results = unwritten.as_ref().unwrap_or(results);
    let written = all([run, badge, told.gate.junit(results)]);
    to_step_summary(&|output| markdown::render(results, output));
    let colour = output::colours(Stream::Output);
    let path = Some(directory.path()).filter(|_| is_there);
    if told.quiet {
        let path = path.map(|path| format!("\n{}", path.display())).unwrap_or_default();
        output::print(&format!("{}{path}", terminal::verdict_line(results, colour)));
    } else {
        output::print(&words(|text| terminal::summary(results, path, colour, text)));
    }
    told.gate.annotate(results);
    written?;
    Ok(told.gate.exit(results, exit(aggregate, results)))
}

/// The results of a run whose files cannot be written, for everything else that tells of it: it did not go well, whatever
/// its verdict. The log has it all, so the figures stay.
fn without_files(results: &Results) -> Results {
    let mut results = results.clone();
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

/// Whether files may be written: into a directory that is there, and over nothing that knows more than the log gives.
fn keeps(directory: &RunDirectory, aggregate: &Aggregate, results: &Results) -> bool {
    if !directory.path().is_dir() {
        return false;
    }
    let whole = results.record.as_ref().is_some_and(|record| record.state == RecordState::Complete);
    if whole && aggregate.unsaved.is_none() {
        return true;
    }
    // A file that cannot be read knows nothing.
    let old = StoredRun::results_of(&directory.results()).ok();
    let Some(more) = old.and_then(|old| record::knows_more(&old, results)) else { return true };
    super::say(&format!(
        "warning: {} knows more than the log: {more}; it stays as it is, and nothing was written to {}",
        directory.results().display(),
        directory.path().display()
    ));
    false
}

/// What something writes, as text.
pub(super) fn words(write: impl FnOnce(&mut dyn std::io::Write) -> std::io::Result<()>) -> String {
    let mut text = Vec::new();
    // Memory takes everything.
    let _ = write(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

/// Several results as one, with the words of all that failed.
fn all<const N: usize>(written: [Result<(), Stopped>; N]) -> Result<(), Stopped> {
    let failures = written.into_iter().filter_map(Result::err);
    let one = failures.reduce(|one, other| Stopped::new(one.exit, format!("{}\n{}", one.text, other.text)));
    one.map_or(Ok(()), Err)
}

/// Writes the traces, results.json, report.html and report.md.
fn write_run(
    directory: &RunDirectory,
    aggregate: &Aggregate,
    results: &Results,
    traces: &[StoredTrace],
    mode: &TracesMode,
) -> Result<(), Stopped> {
    let failed = |path: &Path, error: std::io::Error| {
        let text = format!(
            "error: {} cannot be written: {error}; nothing recorded is lost: {}, then `bench report {}`",
            path.display(),
            Stopped::remedy(&error),
            directory.path().display()
        );
        Stopped::new(Exit::Failed, text)
    };
    directory.store_traces(traces).map_err(|error| failed(&directory.path().join("traces"), error))?;
    let path = directory.results();
    write_at_once(&path, |output| json::write(results, aggregate, output))
        .map_err(|error| failed(&path, error))?;
    let kept: HashSet<Uuid> = traces.iter().map(|trace| trace.trace_id).collect();
    let columns = json::columns(aggregate, &kept)
        .map_err(Stopped::cannot(format!("read {} again", aggregate.log().path().display())))?;
    let shown = pages::write(mode, directory, traces)?;
    let path = directory.report();
    let traces = html::Traces { stored: traces, shown: &shown };
    write_at_once(&path, |output| html::render(results, &columns, traces, output))
        .map_err(|error| failed(&path, error))?;
    let path = directory.markdown();
    write_at_once(&path, |output| markdown::render(results, output)).map_err(|error| failed(&path, error))
}

/// Adds Markdown to the summary of the step where GitHub Actions asks for one.
pub(super) fn to_step_summary(render: &dyn Fn(&mut dyn std::io::Write) -> std::io::Result<()>) {
    let Some(summary) = std::env::var_os(STEP_SUMMARY).filter(|path| !path.is_empty()) else { return };
    let added = std::fs::File::options()
        .append(true)
        .create(true)
        .open(&summary)
        .and_then(|mut output| render(&mut output));
    if let Err(error) = added {
        super::say(&format!("warning: cannot write to the file that ${STEP_SUMMARY} names: {error}"));
    }
}

/// The exit code of a run that was judged.
pub(super) fn exit(aggregate: &Aggregate, results: &Results) -> Exit {
    match results.run.status {
        RunStatus::Interrupted => return Exit::Interrupted,
        RunStatus::Failed | RunStatus::TimedOut => return Exit::Failed,
        RunStatus::Finished | RunStatus::Aborted | RunStatus::Recovered => {}
    }
    match results.verdict.outcome {
        Outcome::Fail => Exit::Gate,
        Outcome::Invalid => Exit::Invalid,
        // Without a single sample there is nothing to be content with.
        _ if aggregate.total() == 0 => Exit::Invalid,
        Outcome::Pass | Outcome::Inconclusive | Outcome::None => Exit::Ok,
    }
}

/// Renders a run again from its directory.
pub(super) fn report(
    run_dir: &Path,
    quiet: bool,
    gate: &GateArguments,
    mode: &TracesMode,
) -> Result<Exit, Stopped> {
    let (directory, aggregate, results, traces) = read_again(run_dir, |_| Ok(()))?;
    write(&directory, &aggregate, &results, &traces, &Told { mode, gate, quiet })
}

/// A run from its directory, judged again; `change` may give its header other criteria.
pub(super) fn read_again(
    run_dir: &Path,
    change: impl FnOnce(&mut Aggregate) -> Result<(), Stopped>,
) -> Result<(RunDirectory, Aggregate, Results, Vec<StoredTrace>), Stopped> {
    let directory = RunDirectory::open(run_dir);
    if !directory.log().is_file() {
        let text = format!("error: {} holds no run.log; give the directory of a run", run_dir.display());
        return Err(Stopped::new(Exit::Input, text));
    }
    let mut aggregate = read(LogFile::at(&directory.log()), Exit::Input)?;
    let mut results = results(&aggregate);
    change(&mut aggregate)?;
    let chosen = choose(&aggregate)?;
    let ids = IdSpace::from_seed(aggregate.header.id_seed);
    let stored = chosen.iter().filter_map(|chosen| {
        let trace = directory.stored_trace(ids.base_id(chosen.sample.workload, chosen.sample.number))?;
        Some((trace.trace_id, trace.services(), trace.unreadable))
    });
    let mut fetched = Fetched::default();
    for (id, services, unreadable) in stored {
        fetched.records.insert(id, services);
        fetched.unreadable.insert(id, unreadable);
    }
    let all = chosen.clone();
    let chosen: Vec<Chosen> = chosen
        .into_iter()
        .filter(|chosen| {
            fetched.records.contains_key(&ids.base_id(chosen.sample.workload, chosen.sample.number))
        })
        .collect();
    let traces = explain(&mut results, &aggregate, &chosen, &fetched);
    judge(&aggregate, &mut results, &all, &fetched)?;
    Ok((directory, aggregate, results, traces))
}
