//! Asynchronous work of a run's iterations, from their traces.

use std::collections::HashMap;
use std::sync::Arc;

use uuid::Uuid;

use analysis::asynchronous;
use analysis::late_causes::{self, EndedWork};
use analysis::late_work;
use analysis::places::Population;
use base::clock::Nanos;
use base::parallel;
use measure::latency::SampleId;
use measure::sample::IterationSample;
use osprofiler::record::TraceRecord;
use osprofiler::report::TraceTree;
use results::aggregate::Aggregate;
use results::choice::ChosenIteration;
use results::client_points;
use results::fetched::FetchedRecords;
use results::functions::without;
use results::model::LateWork;
use results::trace::StoredTrace;
use verdict::asynchronous::{AsynchronousIteration, AsynchronousTraceSample};

/// A clock that is ahead by less is not moved because of what ended when traces were read.
const CLOCKS_APART_NS: Nanos = 1_000_000_000;

/// The deadline of an iteration's workload; `None` if its iterations end with their responses.
fn deadline_ns(aggregate: &Aggregate, workload: u16) -> Option<Nanos> {
    aggregate.header().workloads.get(usize::from(workload))?.asynchronous_deadline_ns
}

/// The records of an iteration's trace, the services' below the client's own. Also whether the client's are equal to
/// `client`, and the services' are unchanged.
pub fn whole(
    aggregate: &Aggregate,
    sample: &IterationSample,
    mut services: Vec<TraceRecord>,
    client: &[TraceRecord],
) -> (Vec<TraceRecord>, bool) {
    let mut records = aggregate.client_points(sample);
    let is_linked = client_points::link(&mut services, &records);
    let is_same = !is_linked && records == client;
    records.append(&mut services);
    (records, is_same)
}

/// When the deadlines of all workloads with asynchronous work are over, since the run's start; `None` without such.
pub fn deadline_at_ns(aggregate: &Aggregate) -> Option<Nanos> {
    let workloads = aggregate.workloads.iter().zip(0_u16..);
    workloads
        .filter_map(|(stats, number)| Some(stats.last_end_ns.saturating_add(deadline_ns(aggregate, number)?)))
        .max()
}

/// Notes how long after the responses of their iterations these traces were read, which was at `now_ns`.
pub fn note_read(
    aggregate: &Aggregate,
    chosen: &[ChosenIteration],
    fetched: &mut FetchedRecords,
    now_ns: Nanos,
) {
    for ChosenIteration { sample, .. } in chosen {
        let ended_ns = sample.start_ns.saturating_add(sample.duration_ns);
        fetched.read_after_ns.insert(aggregate.trace_id(sample), now_ns.saturating_sub(ended_ns));
    }
}

/// From an iteration's start to the end of its last span. Its trace, with the client's points, was read this long after
/// its response. `None` without `end: asynchronous` or without a span of a service.
pub fn time_ns(
    aggregate: &Aggregate,
    sample: &IterationSample,
    tree: &TraceTree,
    read_after_ns: Nanos,
) -> Option<Nanos> {
    deadline_ns(aggregate, sample.workload)?;
    let end_ns = late_work::end_us(tree, latest_us(sample, read_after_ns))?.saturating_mul(1_000);
    Some(end_ns.saturating_sub(sample.queue_time_ns()).max(sample.duration_ns))
}

/// Nothing of an iteration ended later than this, in microseconds from when it was due.
fn latest_us(sample: &IterationSample, read_after_ns: Nanos) -> u64 {
    sample.response_ns().saturating_add(read_after_ns).saturating_add(CLOCKS_APART_NS) / 1_000
}

/// The random sample of a workload, and why its work ended late; `None` without `end: asynchronous`.
pub fn of_workload(
    aggregate: &Aggregate,
    workload: usize,
    (chosen, traces): (&[ChosenIteration], &HashMap<Uuid, &StoredTrace>),
    population: &Population<'_>,
    seed: u64,
) -> Option<(AsynchronousTraceSample, Option<LateWork>)> {
    let deadline_ns = deadline_ns(aggregate, u16::try_from(workload).ok()?)?;
    let is_of = |one: &&ChosenIteration| one.random && usize::from(one.sample.workload) == workload;
    let sampled: Vec<&ChosenIteration> = chosen.iter().filter(is_of).collect();
    let read = |ChosenIteration { sample, .. }: &&ChosenIteration| {
        let trace = *traces.get(&aggregate.trace_id(sample))?;
        let read_after_ns = trace.read_after_ns?;
        // A trace that was read too early, or has a damaged record, does not tell how long the work took.
        let is_usable = read_after_ns >= deadline_ns && trace.tree.unreadable == 0;
        (is_usable && trace.services().next().is_some()).then_some((trace, read_after_ns))
    };
    let read =
        sampled.iter().filter_map(|one| read(one).map(|(trace, after_ns)| (&one.sample, trace, after_ns)));
    let read: Vec<(&IterationSample, &StoredTrace, Nanos)> = read.collect();
    let trees = parallel::map(read.iter().map(|(_, trace, _)| *trace).collect(), |trace: &StoredTrace| {
        // What most traces lack is known of all of them together.
        TraceTree { gaps: trace.tree.gaps.clone(), ..without(TraceTree::build(&trace.records)) }
    });
    let running = asynchronous::running(&trees.iter().collect::<Vec<_>>());
    let (mut works, mut ended) = (Vec::new(), Vec::new());
    for (((sample, trace, read_after_ns), tree), is_running) in read.into_iter().zip(trees).zip(running) {
        let Some(ns) = time_ns(aggregate, sample, &tree, read_after_ns) else { continue };
        // It ended after the deadline, or not at all.
        let at_least_ns = sample.duration_ns.saturating_add(deadline_ns).saturating_add(1);
        works.push(AsynchronousIteration {
            id: SampleId::from(sample),
            ns: if is_running { ns.max(at_least_ns) } else { ns },
            is_running,
            is_linked: tree.points.iter().any(asynchronous::is_linked),
        });
        if !is_running {
            let (trace_id, functions) = (trace.trace_id, Arc::clone(&trace.functions));
            let latest_us = latest_us(sample, read_after_ns);
            ended.push(EndedWork { trace_id, sample, tree, functions, latest_us, ns });
        }
    }
    let late = late_causes::of_sample(ended, workload, population, seed);
    Some((AsynchronousTraceSample { deadline_ns, of: sampled.len() as u64, works }, late))
}
