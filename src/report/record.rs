//! How the iterations of a run add up, in words; after a crash, what is unknown is marked as such.

use results::model::{RecordState, Results, Tally};

/// A line for each workload, unless exactly the planned iterations ran.
#[must_use]
pub fn lines(results: &Results) -> Vec<String> {
    let Some(record) = &results.record else { return Vec::new() };
    let several = results.workloads.len() > 1;
    let incomplete = results.workloads.iter().zip(&record.tallies).filter(|(_, tally)| {
        // An earlier build's log has no terms to tell.
        let earlier = record.state == RecordState::Complete && tally.issued.is_none();
        !earlier && !is_trivial(tally)
    });
    incomplete
        .map(|(workload, tally)| {
            let name = if several { format!("{}: ", workload.name) } else { String::new() };
            format!("{name}{}", sum(tally))
        })
        .collect()
}

fn is_trivial(tally: &Tally) -> bool {
    let none = |term: Option<u64>| term == Some(0);
    none(tally.unrecorded) && none(tally.dropped) && (tally.planned.is_none() || none(tally.not_started))
}

/// `12 issued = 10 ok + 1 failed + 1 cut off + 0 unrecorded; 20 planned = 12 issued + 0 dropped + 8 not started`.
fn sum(tally: &Tally) -> String {
    let known = |term: Option<u64>| term.map_or_else(|| "unknown".to_owned(), |term| term.to_string());
    let (issued, unrecorded) = (known(tally.issued), known(tally.unrecorded));
    let Tally { ok, failed, aborted, .. } = tally;
    let ran =
        format!("{issued} issued = {ok} ok + {failed} failed + {aborted} cut off + {unrecorded} unrecorded");
    let Some(planned) = tally.planned else { return ran };
    let (dropped, not_started) = (known(tally.dropped), known(tally.not_started));
    format!("{ran}; {planned} planned = {issued} issued + {dropped} dropped + {not_started} not started")
}
