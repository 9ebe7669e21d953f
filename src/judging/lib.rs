//! What a run's log and its traces amount to: results, explanations, the verdict.
//!
//! The traces of the slow iterations are written as soon as they are built, because they take memory; nothing else here
//! touches a file.

pub mod asynchronous;
pub mod queues;
pub mod what_if;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use uuid::Uuid;

use analysis::asynchronous::is_linked;
use analysis::causes::{self, ComparedIteration};
use analysis::places::Population;
use analysis::{
    client_comparison, explanation, findings, foreign, observer, observer_pairs, stall, statement,
};
use base::parallel;
use measure::latency::SampleId;
use osprofiler::report::{Point, TraceTree};
use report::lost::{self, SpanLoss};
use report::mixed;
use report::probe::{self, NO_POINTS, NO_SPANS};
use report::screen;
use results::aggregate::Aggregate;
use results::build;
use results::choice::{self, ChosenIteration, IterationClass};
use results::client_points::REPORTER;
use results::directory::RunDirectory;
use results::fetched::{FetchedRecords, FetchedTrace};
use results::functions::without;
use results::model::{Asynchronous, Results, SlowIteration, TraceState, Workload};
use results::trace::{StoredTrace, TraceFileState, excuse_usual};
use statistics::order::at_percentile;
use verdict::traces::SampledIteration;
use verdict::{self, Evidence};

/// The results of a run, without traces so far.
#[must_use]
pub fn results(aggregate: &Aggregate) -> Results {
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

/// Judges the run by the criteria of its header; `chosen` and `traces` hold the random sample of traces.
pub fn judge(
    aggregate: &Aggregate,
    results: &mut Results,
    chosen: &[ChosenIteration],
    traces: &[StoredTrace],
) {
    let traces: HashMap<Uuid, &StoredTrace> = traces.iter().map(|trace| (trace.trace_id, trace)).collect();
    let sampled: Vec<SampledIteration> = chosen
        .iter()
        .filter(|chosen| chosen.random)
        .map(|ChosenIteration { sample, .. }| {
            let id = aggregate.trace_id(sample);
            let trace = traces.get(&id).filter(|trace| trace.services().next().is_some());
            let tree = |trace: &&StoredTrace| {
                let tree = without(TraceTree::build(trace.services()).with_unreadable(trace.unreadable));
                // Whose parents are missing is known with the client's points.
                TraceTree { gaps: trace.tree.gaps.clone(), ..tree }
            };
            SampledIteration {
                id: SampleId::from(sample),
                functions: trace.map(|trace| trace.functions.clone()).unwrap_or_default(),
                tree: trace.map(tree),
            }
        })
        .collect();
    let mut works = Vec::with_capacity(results.workloads.len());
    for (number, stats) in aggregate.workloads.iter().enumerate() {
        let population = population(aggregate, number, &results.workloads[number]);
        let traces = (chosen, &traces);
        let found = asynchronous::of_workload(aggregate, number, traces, &population, seed(aggregate));
        results.workloads[number].asynchronous = found.as_ref().map(|(sample, late)| Asynchronous {
            late: late.clone().map(Box::new),
            ..sample.figures(stats.iterations.ok)
        });
        works.push(found.map(|(sample, _)| sample));
    }
    compare_by_client(results, aggregate);
    let ended = results.workloads.iter().map(|workload| workload.start_s + workload.duration_s);
    let began = results.workloads.iter().map(|workload| workload.start_s);
    let lasted_s = ended.fold(0.0, f64::max) - began.fold(f64::INFINITY, f64::min);
    results.stall = stall::of_slowest(&results.slowest, lasted_s);
    let workloads = &results.workloads;
    let evidence = Evidence { aggregate, workloads, sampled: &sampled, asynchronous: &works };
    results.verdict = verdict::judge(&evidence);
    results.reason = Some(screen::reason(results));
}

/// A chosen iteration with its trace, if its collector answered.
type IterationTrace = (ComparedIteration, Option<StoredTrace>);

/// Builds the trace of a chosen iteration from its records, with the client's own points above the services'.
fn traced(
    aggregate: &Aggregate,
    chosen: &ChosenIteration,
    answer: Option<FetchedTrace>,
    to: Option<&RunDirectory>,
) -> IterationTrace {
    let ChosenIteration { sample, side, top, .. } = chosen;
    let id = aggregate.trace_id(sample);
    let compared = ComparedIteration {
        side: *side,
        top: *top,
        trace_id: id,
        sample: sample.clone(),
        tree: None,
        functions: Arc::default(),
    };
    let Some(FetchedTrace { services, unreadable, partial, read_after_ns, stored }) = answer else {
        return (compared, None);
    };
    let has_points = !services.is_empty();
    let is_known = stored.is_some();
    let (client, stored_ms) = stored.unwrap_or_default();
    let (records, is_same) = asynchronous::whole(aggregate, sample, services, &client);
    let trace = StoredTrace::new(id, records, unreadable, partial);
    let tree = has_points.then(|| Arc::clone(&trace.tree));
    // What all comparisons ask for is found on all processors.
    for point in tree.iter().flat_map(|tree| &tree.points) {
        let _ = statement::kind(point);
    }
    let asynchronous_ns = tree.as_ref().zip(read_after_ns);
    let asynchronous_ns =
        asynchronous_ns.and_then(|(tree, after_ns)| asynchronous::time_ns(aggregate, sample, tree, after_ns));
    let asynchronous_ms = asynchronous_ns.map(|ns| ns as f64 / 1e6);
    let is_in_file = is_known && is_same && asynchronous_ms == stored_ms;
    let filed = if is_in_file { TraceFileState::Synced } else { TraceFileState::No };
    let mut trace = StoredTrace { read_after_ns, asynchronous_ms, filed, ..trace };
    // If this fails, writing the run's files tries again and reports it.
    if to.is_some_and(|to| !is_in_file && to.write_trace(&trace).is_ok()) {
        trace.filed = TraceFileState::Written;
    }
    // Of those that are not judged by criteria for trace points, the tree is enough.
    if trace.filed != TraceFileState::No && !chosen.random {
        trace.forget_records();
    }
    (ComparedIteration { tree, functions: trace.functions.clone(), ..compared }, Some(trace))
}

/// Adds the fetched traces to the results: states, causes, slow against typical. Returns the traces with the client's
/// own points above the services'. The records of `fetched` are taken. With `to`, each is written as soon as it is built, and
/// lets go of its records; storing the traces syncs them.
pub fn explain(
    results: &mut Results,
    aggregate: &Aggregate,
    chosen: &[ChosenIteration],
    fetched: &mut FetchedRecords,
    to: Option<&RunDirectory>,
) -> Vec<StoredTrace> {
    let answers = chosen.iter().map(|chosen| (chosen, fetched.take(aggregate.trace_id(&chosen.sample))));
    let mut made = parallel::map(answers.collect(), |(chosen, answer)| traced(aggregate, chosen, answer, to));
    excuse_usual(made.iter_mut().filter_map(|(_, trace)| trace.as_mut()));
    for (compared, trace) in &mut made {
        if let (Some(tree), Some(trace)) = (&mut compared.tree, trace) {
            *tree = Arc::clone(&trace.tree);
        }
    }
    let (mut traces, mut compared) = (Vec::new(), Vec::new());
    for (one, trace) in made {
        let state = trace.as_ref().map_or(TraceState::NotFetched, |trace| trace.state);
        *results.profiling.fetched.entry(state).or_default() += 1;
        if let Some(trace) = trace {
            let is_its = |slow: &&mut SlowIteration| slow.iteration.trace_id == trace.trace_id;
            if let Some(slow) = results.slowest.iter_mut().find(is_its) {
                (slow.trace, slow.asynchronous_ms) = (trace.state, trace.asynchronous_ms);
            }
            traces.push(trace);
        }
        compared.push(one);
    }
    let (seed, mut lacking) = (seed(aggregate), HashSet::new());
    for (number, workload) in results.workloads.iter_mut().enumerate() {
        let population = population(aggregate, number, workload);
        let causes = causes::of_workload(&compared, number, &population, seed);
        workload.comparison = causes.comparison;
        results.explanations.extend(causes.explanations);
        lacking.extend(causes.lacking);
    }
    for slow in &mut results.slowest {
        let known = results.explanations.iter().find(|known| known.trace_id == slow.iteration.trace_id);
        slow.cause = known.map(explanation::cause);
        slow.lacks_spans = lacking.contains(&slow.iteration.trace_id);
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
    results.notes.extend(lost_spans(results, &compared, &traces, &lacking).as_ref().map(lost::sentence));
    let trees: Vec<&TraceTree> = compared.iter().filter_map(|one| one.tree.as_deref()).collect();
    results.notes.extend(foreign::mixed(&trees).map(|mixed| mixed::sentence(&mixed)));
    let came = |trace: &StoredTrace| matches!(trace.state, TraceState::Complete | TraceState::Partial);
    if traces.iter().any(came) {
        for note in &mut results.notes {
            *note = probe::came_later(note).unwrap_or_else(|| std::mem::take(note));
        }
    }
    traces
}

/// What never came of traces, if some came whole.
fn lost_spans(
    results: &Results,
    compared: &[ComparedIteration],
    traces: &[StoredTrace],
    lacking: &HashSet<Uuid>,
) -> Option<SpanLoss> {
    let state_of: HashMap<Uuid, &StoredTrace> = traces.iter().map(|trace| (trace.trace_id, trace)).collect();
    let mut lost = SpanLoss {
        traces: traces.len(),
        absent: 0,
        partial: 0,
        lacking: 0,
        began_s: (f64::MAX, 0.0),
        is_otel: results.profiling.headers.iter().any(|name| name == "w3c"),
        ceiling: None,
    };
    let answered = |one: &ComparedIteration| one.sample.answered_actions();
    let is_whole = |one: &&ComparedIteration| {
        state_of.get(&one.trace_id).is_some_and(|trace| trace.state == TraceState::Complete)
    };
    let whole: BTreeSet<(u16, BTreeSet<u16>)> =
        compared.iter().filter(is_whole).map(|one| (one.sample.workload, answered(one))).collect();
    for one in compared {
        let Some(trace) = state_of.get(&one.trace_id) else { continue };
        // Of what got no answer, no span need come; nor of what no other iteration has whole.
        let actions = answered(one);
        let is_like_others = !actions.is_empty() && whole.contains(&(one.sample.workload, actions));
        match trace.state {
            TraceState::Absent if is_like_others => lost.absent += 1,
            TraceState::Partial if trace.tree.gaps.lost_parents > 0 => lost.partial += 1,
            TraceState::Complete if lacking.contains(&one.trace_id) => lost.lacking += 1,
            _ => continue,
        }
        let began_s = one.sample.start_ns as f64 / 1e9;
        lost.began_s = (lost.began_s.0.min(began_s), lost.began_s.1.max(began_s));
    }
    let received = results.profiling.received.as_ref();
    lost.ceiling =
        received.and_then(|received| lost::ceiling(received, made_per_s(results, compared, &is_whole)));
    (lost.absent + lost.partial + lost.lacking > 0 && !whole.is_empty()).then_some(lost)
}

/// About how many spans the services made a second, by the typical traces that have the most: what others lack may be lost.
/// Workloads may run one after another, so the one that made the most counts.
fn made_per_s(
    results: &Results,
    compared: &[ComparedIteration],
    is_whole: &impl Fn(&&ComparedIteration) -> bool,
) -> f64 {
    let of_workload = |(number, workload): (usize, &Workload)| {
        let is_typical = |one: &&ComparedIteration| {
            one.side == IterationClass::Typical && usize::from(one.sample.workload) == number
        };
        let typical = compared.iter().filter(is_whole).filter(is_typical);
        let mut spans: Vec<usize> = typical.filter_map(|one| Some(own_spans(one.tree.as_ref()?))).collect();
        spans.sort_unstable();
        let spans = at_percentile(&spans, 90.0).unwrap_or(0);
        let profiled = workload.iterations.total.saturating_sub(workload.unprofiled);
        spans as f64 * profiled as f64 / workload.duration_s.max(f64::MIN_POSITIVE)
    };
    results.workloads.iter().enumerate().map(of_workload).fold(0.0, f64::max)
}

/// The spans of services in a trace, without the spans of other traces that are below a link.
fn own_spans(tree: &TraceTree) -> usize {
    let mut is_other: Vec<bool> = Vec::with_capacity(tree.points.len());
    for (index, point) in tree.points.iter().enumerate() {
        let above = point.parent.filter(|&above| above < index).is_some_and(|above| is_other[above]);
        is_other.push(above || is_linked(point));
    }
    let is_service = |point: &Point| point.project.as_deref() != Some(REPORTER);
    tree.points.iter().zip(is_other).filter(|(point, is_other)| is_service(point) && !is_other).count()
}

/// Adds what the client alone knows of slow iterations, which needs no trace.
fn compare_by_client(results: &mut Results, aggregate: &Aggregate) {
    let chosen = choice::slow_and_typical(aggregate);
    let compared = |ChosenIteration { sample, side, top, .. }: ChosenIteration| {
        let tree = TraceTree::build(&aggregate.client_points(&sample));
        let trace_id = aggregate.trace_id(&sample);
        ComparedIteration { side, top, trace_id, sample, tree: Some(tree.into()), functions: Arc::default() }
    };
    let compared: Vec<ComparedIteration> = chosen.into_iter().map(compared).collect();
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
        typical: &[],
        sampled: None,
        is_closed: workload.offered.as_ref().is_some_and(|offered| offered.asked_per_s.is_none()),
        shards,
        total: stats.map_or(0, |stats| stats.numbers.saturating_sub(stats.warm_up.total)),
        warm_up: stats.map_or(0, |stats| stats.warm_up.total),
        series: workload.series.as_ref(),
        slowest: &aggregate.slowest,
        longest: stats.map(|stats| stats.longest_times.times().collect()).unwrap_or_default(),
    }
}
