//! After the load: results from the log, traces, causes, verdict, files, summary.

use std::collections::HashSet;
use std::path::Path;

use uuid::Uuid;

use crate::analysis::causes::{self, Compared};
use crate::analysis::{culprit, findings, observer};
use crate::base::ids::IdSpace;
use crate::collect::Fetched;
use crate::measure::latency::SampleId;
use crate::osprofiler::report::TraceTree;
use crate::report::{html, markdown, terminal};
use crate::results::aggregate::Aggregate;
use crate::results::choice::{self, Chosen};
use crate::results::counting::Counted;
use crate::results::directory::{RunDirectory, write_at_once};
use crate::results::model::{Outcome, Results, RunStatus, TraceState};
use crate::results::trace::StoredTrace;
use crate::results::{build, client_points, json};
use crate::verdict::traces::Sampled;
use crate::verdict::{self, Evidence};

use super::exit::{Exit, Stopped};
use super::gate::GateArguments;
use super::pages::{self, TracesMode};

/// A wrong key shows nowhere else: services answer as if nothing had been asked.
const NO_POINTS: &str = "no trace reached the collector: check that the services have OSProfiler enabled, \
    accept this HMAC key and report to this collector";

/// Where GitHub Actions wants a step's summary.
const STEP_SUMMARY: &str = "GITHUB_STEP_SUMMARY";

/// Reads the log of a run and makes its results, still without traces.
pub(super) fn aggregate(directory: &RunDirectory) -> Result<(Aggregate, Results), Stopped> {
    let aggregate = Aggregate::read(&directory.log())
        .map_err(|error| Stopped::new(Exit::Input, format!("error: {error}")))?;
    let mut results = build::build(&aggregate);
    // Before the verdict, which may ask for it.
    for (workload, stats) in results.workloads.iter_mut().zip(&aggregate.workloads) {
        workload.observer_effect = observer::effect(&stats.sides, aggregate.header.control);
    }
    Ok((aggregate, results))
}

/// Judges the run by the criteria of its header; `chosen` and `fetched` hold the random sample of traces.
pub(super) fn judge(
    directory: &RunDirectory,
    aggregate: &Aggregate,
    results: &mut Results,
    chosen: &[Chosen],
    fetched: &Fetched,
) -> Result<(), Stopped> {
    let counted = Counted::read(aggregate, &directory.log())
        .map_err(|error| Stopped::new(Exit::Input, format!("error: {error}")))?;
    let ids = IdSpace::from_seed(aggregate.header.id_seed);
    let sampled: Vec<Sampled> = chosen
        .iter()
        .filter(|chosen| chosen.random)
        .map(|Chosen { sample, .. }| {
            let records = fetched.records.get(&ids.base_id(sample.workload, sample.number));
            Sampled {
                id: SampleId { workload: sample.workload, number: sample.number },
                tree: records.filter(|records| !records.is_empty()).map(|records| TraceTree::build(records)),
            }
        })
        .collect();
    let evidence =
        Evidence { aggregate, counted: &counted, workloads: &results.workloads, sampled: &sampled };
    results.verdict = verdict::judge(&evidence);
    Ok(())
}

/// The iterations whose traces tell most: slow, failed and typical ones.
pub(super) fn choose(directory: &RunDirectory, aggregate: &Aggregate) -> Result<Vec<Chosen>, Stopped> {
    choice::choose(aggregate, &directory.log())
        .map_err(|error| Stopped::new(Exit::Input, format!("error: {error}")))
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
        let tree = (!services.is_empty()).then(|| TraceTree::build(&records));
        compared.push(Compared { workload, side: *side, top: *top, trace_id: id, tree });
        let trace = StoredTrace::new(id, records);
        *results.profiling.fetched.entry(trace.state).or_default() += 1;
        if let Some(slow) = results.slowest.iter_mut().find(|slow| slow.iteration.trace_id == id) {
            slow.trace = trace.state;
            let requests_ms = slow.actions.iter().map(|action| action.duration_ms).sum();
            let services = StoredTrace::new(id, services.clone());
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

/// Writes results.json, report.html and report.md, and prints what a person wants to know.
pub(super) fn write(
    directory: &RunDirectory,
    aggregate: &Aggregate,
    results: &Results,
    traces: &[StoredTrace],
    mode: &TracesMode,
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
    let kept: HashSet<Uuid> = traces.iter().map(|trace| trace.trace_id).collect();
    let columns = json::columns(aggregate, &log, &kept)?;
    let shown = pages::write(mode, directory, traces)?;
    let path = directory.report();
    let traces = html::Traces { stored: traces, shown: &shown };
    write_at_once(&path, |output| html::render(results, &columns, traces, output))
        .map_err(|error| failed(&path, error))?;
    write_markdown(directory, results, &failed)?;
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

/// Writes report.md, also into the summary of a step.
fn write_markdown(
    directory: &RunDirectory,
    results: &Results,
    failed: &dyn Fn(&Path, std::io::Error) -> Stopped,
) -> Result<(), Stopped> {
    let path = directory.markdown();
    write_at_once(&path, |output| markdown::render(results, output)).map_err(|error| failed(&path, error))?;
    to_step_summary(&|output| markdown::render(results, output));
    Ok(())
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
    let exit = write(&directory, &aggregate, &results, &traces, mode, quiet)?;
    gate.publish(&directory, &results, exit)
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
    let (mut aggregate, mut results) = aggregate(&directory)?;
    change(&mut aggregate)?;
    let chosen = choose(&directory, &aggregate)?;
    let ids = IdSpace::from_seed(aggregate.header.id_seed);
    let stored = chosen.iter().filter_map(|chosen| {
        let trace = directory.stored_trace(ids.base_id(chosen.sample.workload, chosen.sample.number))?;
        Some((trace.trace_id, trace.services()))
    });
    let fetched = Fetched { records: stored.collect(), error: None };
    let all = chosen.clone();
    let chosen: Vec<Chosen> = chosen
        .into_iter()
        .filter(|chosen| {
            fetched.records.contains_key(&ids.base_id(chosen.sample.workload, chosen.sample.number))
        })
        .collect();
    let traces = explain(&mut results, &aggregate, &chosen, &fetched);
    judge(&directory, &aggregate, &mut results, &all, &fetched)?;
    Ok((directory, aggregate, results, traces))
}
