//! The figures of each tag: the samples of all actions that have it, together.

use std::collections::BTreeMap;

use measure::latency::Latency;
use measure::log::WorkloadHeader;

use super::aggregate::ActionStats;
use super::model::Counts;

/// The samples of the actions with a tag and a value.
pub(super) struct TagStats<'h> {
    /// The tag and its value.
    pub(super) tag: (&'h str, &'h str),
    /// How many actions have it.
    pub(super) actions: u64,
    /// How they ended.
    pub(super) requests: Counts,
    /// From send to the last byte.
    pub(super) service: Latency,
    /// The same from when it was due.
    pub(super) response: Latency,
    /// Of each, those that failed.
    pub(super) failed_service: Latency,
    pub(super) failed_response: Latency,
}

/// The sums of every tag, in alphabetical order; one at a time, because a histogram takes much memory.
pub(super) fn each<'h>(
    actions: &'h [ActionStats],
    header: &'h WorkloadHeader,
) -> impl Iterator<Item = TagStats<'h>> {
    let mut members: BTreeMap<(&str, &str), Vec<&ActionStats>> = BTreeMap::new();
    for (action, tags) in actions.iter().zip(&header.tags) {
        for (tag, value) in tags {
            members.entry((tag, value)).or_default().push(action);
        }
    }
    members.into_iter().map(|(tag, members)| sum(tag, &members))
}

fn sum<'h>(tag: (&'h str, &'h str), members: &[&ActionStats]) -> TagStats<'h> {
    let mut sum = TagStats {
        tag,
        actions: members.len() as u64,
        requests: Counts::default(),
        service: Latency::new(),
        response: Latency::new(),
        failed_service: Latency::new(),
        failed_response: Latency::new(),
    };
    for action in members {
        let (all, of) = (&mut sum.requests, action.requests);
        all.total += of.total;
        all.ok += of.ok;
        all.failed += of.failed;
        all.aborted += of.aborted;
        all.dropped += of.dropped;
        all.resent += of.resent;
        sum.service.add(&action.service);
        sum.response.add(&action.response);
        sum.failed_service.add(&action.failed_service);
        sum.failed_response.add(&action.failed_response);
    }
    sum
}
