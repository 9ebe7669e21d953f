//! What waits for its turn, by the traces of iterations in a row.

use std::collections::HashSet;

use capacity::waits::{CallWait, waits};

use measure::sample::IterationSample;
use results::aggregate::Aggregate;
use results::choice::ChosenIteration;
use results::fetched::FetchedRecords;
use results::model::CallQueue;
use uuid::Uuid;

use crate::what_if::{self, RowTrace};

/// This share of the iterations in a row must have their traces.
const TRACED_MIN: f64 = 0.98;
/// At most so many are said.
const QUEUES_MAX: usize = 3;

/// The calls that wait in these iterations in a row, and their traces; neither, if some are missing. Of the records, those
/// of iterations that are not `chosen` for another reason are taken away. `users_max`: so many iterations can be under way,
/// which looks like servers.
pub fn of_row(
    aggregate: &Aggregate,
    row: &[IterationSample],
    chosen: &[ChosenIteration],
    fetched: &mut FetchedRecords,
    users_max: u32,
) -> (Vec<CallQueue>, Vec<RowTrace>) {
    let others: HashSet<Uuid> = chosen.iter().map(|one| aggregate.trace_id(&one.sample)).collect();
    let mut traced = Vec::with_capacity(row.len());
    for sample in row {
        let id = aggregate.trace_id(sample);
        let records = match others.contains(&id) {
            true => fetched.records.get(&id).cloned(),
            false => fetched.records.remove(&id),
        };
        let records = records.filter(|records| !records.is_empty());
        traced.extend(records.map(|records| (sample.clone(), records)));
    }
    if row.is_empty() || (traced.len() as f64) < TRACED_MIN * row.len() as f64 {
        return (Vec::new(), Vec::new());
    }
    let traces = what_if::trees(traced, aggregate);
    let iterations = traces.len() as u64;
    let found = waits(&traces.iter().map(|(_, tree)| tree).collect::<Vec<_>>());
    let is_of_users = |one: &CallWait| one.servers.count >= users_max;
    let found = found.into_iter().filter(|one| !is_of_users(one)).take(QUEUES_MAX);
    let queue = |CallWait { group, servers, each_ms, share }| CallQueue {
        service: group.service,
        caller: group.caller,
        name: group.name,
        enters: group.enters,
        servers: servers.count,
        busy: servers.busy,
        waits_ms: each_ms,
        works_ms: servers.works_ms,
        share,
        iterations,
    };
    (found.map(queue).collect(), traces)
}
