//! Asynchronous work of a run's iterations, from their traces.

use std::collections::HashMap;

use uuid::Uuid;

use crate::analysis::asynchronous;
use crate::base::clock::Nanos;
use crate::collect::Fetched;
use crate::measure::latency::SampleId;
use crate::measure::sample::IterationSample;
use crate::osprofiler::record::Record;
use crate::osprofiler::report::TraceTree;
use crate::results::aggregate::Aggregate;
use crate::results::choice::Chosen;
use crate::results::client_points;
use crate::results::trace::StoredTrace;
use crate::verdict::asynchronous::{Sample, Work};

/// A clock that is ahead by less is not moved because of what ended when traces were read.
const CLOCKS_APART_NS: Nanos = 1_000_000_000;

/// The deadline of an iteration's workload; `None` if its iterations end with their responses.
fn deadline_ns(aggregate: &Aggregate, workload: u16) -> Option<Nanos> {
    aggregate.header().workloads.get(usize::from(workload))?.asynchronous_deadline_ns
}

/// The records of an iteration's trace, those of the services below the client's own; and whether these are `client`, and
/// the services' as they were.
pub(super) fn whole(
    aggregate: &Aggregate,
    sample: &IterationSample,
    mut services: Vec<Record>,
    client: &[Record],
) -> (Vec<Record>, bool) {
    let mut records = aggregate.client_points(sample);
    let is_linked = client_points::link(&mut services, &records);
    let is_same = !is_linked && records == client;
    records.append(&mut services);
    (records, is_same)
}

/// When the deadlines of all workloads with asynchronous work are over, since the run's start; `None` without such.
pub(super) fn deadline_at_ns(aggregate: &Aggregate) -> Option<Nanos> {
    let workloads = aggregate.workloads.iter().zip(0_u16..);
    workloads
        .filter_map(|(stats, number)| Some(stats.last_end_ns.saturating_add(deadline_ns(aggregate, number)?)))
        .max()
}

/// Notes how long after the responses of their iterations traces were read, which was at this time.
pub(super) fn note_read(aggregate: &Aggregate, chosen: &[Chosen], fetched: &mut Fetched, now_ns: Nanos) {
    for Chosen { sample, .. } in chosen {
        let ended_ns = sample.start_ns.saturating_add(sample.duration_ns);
        fetched.read_after_ns.insert(aggregate.trace_id(sample), now_ns.saturating_sub(ended_ns));
    }
}

/// From an iteration's start to the end of its last span, for an iteration whose trace, with the client's points, was
/// read this long after its response; `None` without `end: asynchronous` or without a span of a service.
pub(super) fn time_ns(
    aggregate: &Aggregate,
    sample: &IterationSample,
    tree: &TraceTree,
    read_after_ns: Nanos,
) -> Option<Nanos> {
    deadline_ns(aggregate, sample.workload)?;
    let latest_us =
        sample.response_ns().saturating_add(read_after_ns).saturating_add(CLOCKS_APART_NS) / 1_000;
    let end_ns = asynchronous::end_us(tree, latest_us)?.saturating_mul(1_000);
    Some(end_ns.saturating_sub(sample.lag_ns()).max(sample.duration_ns))
}

/// The random sample of each workload; `None` for workloads without `end: asynchronous`.
pub(super) fn of_sample(
    aggregate: &Aggregate,
    chosen: &[Chosen],
    traces: &HashMap<Uuid, &StoredTrace>,
) -> Vec<Option<Sample>> {
    let workloads = 0..aggregate.workloads.len();
    workloads.map(|workload| of_workload(aggregate, workload, chosen, traces)).collect()
}

fn of_workload(
    aggregate: &Aggregate,
    workload: usize,
    chosen: &[Chosen],
    traces: &HashMap<Uuid, &StoredTrace>,
) -> Option<Sample> {
    let deadline_ns = deadline_ns(aggregate, u16::try_from(workload).ok()?)?;
    let is_of = |one: &&Chosen| one.random && usize::from(one.sample.workload) == workload;
    let sampled: Vec<&Chosen> = chosen.iter().filter(is_of).collect();
    let read: Vec<(&IterationSample, TraceTree, Nanos)> = sampled
        .iter()
        .filter_map(|Chosen { sample, .. }| {
            let id = aggregate.trace_id(sample);
            let trace = traces.get(&id).filter(|trace| trace.services().next().is_some())?;
            let read_after_ns = trace.read_after_ns?;
            // Without its deadline, or with a damaged record, nobody knows how long it took.
            let is_usable = read_after_ns >= deadline_ns && trace.tree.unreadable == 0;
            is_usable.then(|| (sample, TraceTree::build(&trace.records), read_after_ns))
        })
        .collect();
    let running = asynchronous::running(&read.iter().map(|(_, tree, _)| tree).collect::<Vec<_>>());
    let work =
        |((sample, tree, read_after_ns), is_running): (&(&IterationSample, TraceTree, Nanos), bool)| {
            let ns = time_ns(aggregate, sample, tree, *read_after_ns)?;
            // It ended after the deadline, or not at all.
            let at_least_ns = sample.duration_ns.saturating_add(deadline_ns).saturating_add(1);
            Some(Work {
                id: SampleId::from(*sample),
                ns: if is_running { ns.max(at_least_ns) } else { ns },
                is_running,
                is_linked: tree.points.iter().any(asynchronous::is_linked),
            })
        };
    let works = read.iter().zip(running).filter_map(work).collect();
    Some(Sample { deadline_ns, of: sampled.len() as u64, works })
}
