//! After the load: results from the log, findings from traces, the verdict. Nothing here writes a file.

use std::collections::HashSet;
use std::path::Path;

use uuid::Uuid;

use crate::analysis::causes::{self, Compared};
use crate::analysis::places::Population;
use crate::analysis::{client_comparison, explanation, findings, foreign, observer, observer_pairs};
use crate::collect::Fetched;
use crate::measure::latency::SampleId;
use crate::measure::log::{LogFile, RunLog};
use crate::osprofiler::report::TraceTree;
use crate::report::mixed;
use crate::report::probe::{self, NO_POINTS, NO_SPANS};
use crate::report::screen;
use crate::results::aggregate::Aggregate;
use crate::results::build;
use crate::results::choice::{self, Chosen};
use crate::results::directory::RunDirectory;
use crate::results::functions::{Functions, without};
use crate::results::model::{Results, TraceState, Workload};
use crate::results::rpc::with_queues;
use crate::results::stored::StoredRun;
use crate::results::trace::StoredTrace;
use crate::verdict::traces::Sampled;
use crate::verdict::{self, Evidence};

use super::asynchronous;
use super::error::{HarnessError, Kind};
use super::kept;

/// The result of one pass over a run's log; `kind` is the kind of error if it cannot be read. `change` may replace its
/// criteria; `stored` are the traces that are already stored.
pub(super) fn read(
    log: LogFile,
    stored: HashSet<Uuid>,
    kind: Kind,
    change: impl FnOnce(&mut RunLog) -> Result<(), HarnessError>,
) -> Result<Aggregate, HarnessError> {
    let mut log = RunLog::of(log).map_err(|error| HarnessError::new(kind, error))?;
    change(&mut log)?;
    Aggregate::of(log, stored).map_err(|error| HarnessError::new(kind, error))
}

/// The results of a run, without traces so far.
pub(super) fn results(aggregate: &Aggregate) -> Results {
    let mut results = build::build(aggregate);
    // Before the verdict, which may need it.
    for (workload, stats) in results.workloads.iter_mut().zip(&aggregate.workloads) {
        let probe = aggregate.end.as_ref().and_then(|end| end.probe.as_ref());
        let pairs = probe.filter(|probe| probe.workload == workload.name).map(|probe| &probe.pairs_ns);
        workload.observer_effect = observer::effect(&stats.sides, aggregate.header().control)
            .or_else(|| pairs.and_then(|pairs_ns| observer_pairs::effect(pairs_ns)));
    }
    results
}

/// Judges the run by the criteria of its header; `chosen` and `fetched` hold the random sample of traces.
pub(super) fn judge(aggregate: &Aggregate, results: &mut Results, chosen: &[Chosen], fetched: &Fetched) {
    let sampled: Vec<Sampled> = chosen
        .iter()
        .filter(|chosen| chosen.random)
        .map(|Chosen { sample, .. }| {
            let id = aggregate.trace_id(sample);
            let unreadable = fetched.unreadable.get(&id).copied().unwrap_or(0);
            let records = fetched.records.get(&id).filter(|records| !records.is_empty());
            Sampled {
                id: SampleId::from(sample),
                functions: records.map(|records| Functions::of(records)).unwrap_or_default(),
                tree: records.map(|records| without(TraceTree::build(records).with_unreadable(unreadable))),
            }
        })
        .collect();
    let works = asynchronous::of_sample(aggregate, chosen, fetched);
    for ((workload, stats), sample) in results.workloads.iter_mut().zip(&aggregate.workloads).zip(&works) {
        workload.asynchronous = sample.as_ref().map(|sample| sample.figures(stats.iterations.ok));
    }
    compare_by_client(results, aggregate);
    let workloads = &results.workloads;
    let evidence = Evidence { aggregate, workloads, sampled: &sampled, asynchronous: &works };
    results.verdict = verdict::judge(&evidence);
    results.reason = Some(screen::reason(results));
}

/// Adds the fetched traces to the results: states, culprits, slow against typical. Returns the traces with the client's
/// own points above the services'.
pub(super) fn explain(
    results: &mut Results,
    aggregate: &Aggregate,
    chosen: &[Chosen],
    fetched: &Fetched,
) -> Vec<StoredTrace> {
    let (mut traces, mut compared) = (Vec::new(), Vec::new());
    for Chosen { sample, side, top, .. } in chosen {
        let id = aggregate.trace_id(sample);
        let of = |tree, functions| Compared {
            side: *side,
            top: *top,
            trace_id: id,
            sample: sample.clone(),
            tree,
            functions,
        };
        let Some(services) = fetched.records.get(&id) else {
            *results.profiling.fetched.entry(TraceState::NotFetched).or_default() += 1;
            compared.push(of(None, Functions::default()));
            continue;
        };
        let records = asynchronous::whole(aggregate, sample, services);
        let unreadable = fetched.unreadable.get(&id).copied().unwrap_or(0);
        let tree = with_queues(TraceTree::build(&records).with_unreadable(unreadable));
        let new = StoredTrace::of_tree(id, records, &tree);
        let tree = (!services.is_empty()).then_some(tree);
        let read_after_ns = fetched.read_after_ns.get(&id).copied();
        let asynchronous_ns = tree.as_ref().zip(read_after_ns);
        let asynchronous_ns = asynchronous_ns
            .and_then(|(tree, after_ns)| asynchronous::time_ns(aggregate, sample, tree, after_ns));
        let asynchronous_ms = asynchronous_ns.map(|ns| ns as f64 / 1e6);
        compared.push(of(tree, Functions::of(services)));
        let trace = StoredTrace { read_after_ns, asynchronous_ms, ..new };
        *results.profiling.fetched.entry(trace.state).or_default() += 1;
        if let Some(slow) = results.slowest.iter_mut().find(|slow| slow.iteration.trace_id == id) {
            (slow.trace, slow.asynchronous_ms) = (trace.state, asynchronous_ms);
        }
        traces.push(trace);
    }
    let seed = seed(aggregate);
    for (number, workload) in results.workloads.iter_mut().enumerate() {
        let population = population(aggregate, number, workload);
        let causes = causes::of_workload(&compared, number, &population, seed);
        workload.comparison = causes.comparison;
        results.explanations.extend(causes.explanations);
    }
    for slow in &mut results.slowest {
        let known = results.explanations.iter().find(|known| known.trace_id == slow.iteration.trace_id);
        slow.culprit = known.map(explanation::culprit);
    }
    results.findings = findings::of_slowest(&results.slowest, &results.explanations);
    results.profiling.collector_error.clone_from(&fetched.error);
    let absent = !traces.is_empty() && traces.iter().all(|trace| trace.state == TraceState::Absent);
    // Without a collector there is a receiver, which has its own note.
    let is_told = results.probe.as_ref().is_some_and(|probe| probe.missing.is_some());
    if absent && results.profiling.collector.is_some() && !is_told {
        let headers = &results.profiling.headers;
        let signed = headers.is_empty() || headers.iter().any(|name| name == "osprofiler");
        results.notes.push(if signed { NO_POINTS } else { NO_SPANS }.to_owned());
    }
    let trees: Vec<&TraceTree> = compared.iter().filter_map(|one| one.tree.as_ref()).collect();
    results.notes.extend(foreign::mixed(&trees).map(|mixed| mixed::sentence(&mixed)));
    let came = |trace: &StoredTrace| matches!(trace.state, TraceState::Complete | TraceState::Partial);
    if traces.iter().any(came) {
        for note in &mut results.notes {
            *note = probe::came_later(note).unwrap_or_else(|| std::mem::take(note));
        }
    }
    traces
}

/// Adds what the client alone knows of slow iterations, which needs no trace.
fn compare_by_client(results: &mut Results, aggregate: &Aggregate) {
    let chosen = choice::slow_and_typical(aggregate);
    let compared = |Chosen { sample, side, top, .. }: Chosen| {
        let tree = TraceTree::build(&asynchronous::whole(aggregate, &sample, &[]));
        let trace_id = aggregate.trace_id(&sample);
        Compared { side, top, trace_id, sample, tree: Some(tree), functions: Functions::default() }
    };
    let compared: Vec<Compared> = chosen.into_iter().map(compared).collect();
    let seed = seed(aggregate);
    for (number, workload) in results.workloads.iter_mut().enumerate() {
        let population = population(aggregate, number, workload);
        workload.client_comparison = client_comparison::of_workload(&compared, number, &population, seed);
    }
}

/// The seed of what is drawn in an analysis.
fn seed(aggregate: &Aggregate) -> u64 {
    aggregate.header().id_seed.as_u64_pair().1
}

/// What places in the run are compared with.
fn population<'a>(aggregate: &'a Aggregate, number: usize, workload: &'a Workload) -> Population<'a> {
    let stats = aggregate.workloads.get(number);
    let shards = aggregate.header().shard.as_ref().map_or(1, |shard| u64::from(shard.count.max(1)));
    Population {
        shards,
        total: stats.map_or(0, |stats| stats.numbers.saturating_sub(stats.warm_up.total)),
        warm_up: stats.map_or(0, |stats| stats.warm_up.total),
        series: workload.series.as_ref(),
        slowest: &aggregate.slowest,
    }
}

/// Judges a stored run again; `change` may replace the criteria in its header.
pub(crate) fn read_again(
    run_dir: &Path,
    change: impl FnOnce(&mut RunLog) -> Result<(), HarnessError>,
) -> Result<(RunDirectory, Aggregate, Results, Vec<StoredTrace>), HarnessError> {
    let directory = RunDirectory::open(run_dir);
    if !directory.log().is_file() {
        return Err(no_log(run_dir));
    }
    let log = LogFile::at(&directory.log());
    let aggregate = read(log, directory.stored_traces(), Kind::Input, change)?;
    let mut results = results(&aggregate);
    let chosen = choice::choose(&aggregate);
    let stored = chosen.iter().filter_map(|chosen| {
        let trace = directory.stored_trace(aggregate.trace_id(&chosen.sample))?;
        Some((trace.trace_id, trace.services(), trace.unreadable, trace.read_after_ns))
    });
    let mut fetched = Fetched::default();
    for (id, services, unreadable, read_after_ns) in stored {
        fetched.records.insert(id, services);
        fetched.read_after_ns.extend(read_after_ns.map(|after_ns| (id, after_ns)));
        fetched.unreadable.insert(id, unreadable);
    }
    // The log does not have it.
    let old = StoredRun::results_of(&directory.results()).ok().filter(|old| old.run.id == results.run.id);
    results.profiling.received =
        old.map_or_else(|| kept::received(run_dir, aggregate.header()), |old| old.profiling.received);
    let all = chosen.clone();
    let chosen: Vec<Chosen> = chosen
        .into_iter()
        .filter(|chosen| fetched.records.contains_key(&aggregate.trace_id(&chosen.sample)))
        .collect();
    let traces = explain(&mut results, &aggregate, &chosen, &fetched);
    judge(&aggregate, &mut results, &all, &fetched);
    Ok((directory, aggregate, results, traces))
}

/// The error for a directory that is not a run's.
pub(super) fn no_log(run_dir: &Path) -> HarnessError {
    HarnessError::input(format!("{} holds no run.log", run_dir.display()))
        .remedy("give the directory of a run")
}
