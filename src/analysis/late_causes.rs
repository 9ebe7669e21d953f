//! Why the work of some iterations ended late: the random sample, compared by when its work ended.
//!
//! The iterations that end last are compared with typical ones as slow responses are ([`super::causes`]), with each trace
//! as the path to its end ([`super::late_work`]). Only a random sample can tell which iterations are late: the others were
//! chosen by their responses. Nothing here may fetch or print.

use std::sync::Arc;

use uuid::Uuid;

use super::causes;
use super::compared::ComparedIteration;
use super::late_work::{from_the_start, to_the_end};
use super::places::Population;
use base::clock::Nanos;
use measure::sample::IterationSample;
use osprofiler::report::TraceTree;
use results::choice::IterationClass;
use results::functions::Functions;
use results::model::{LateIteration, LateWork, NoCauseReason};

/// Late iterations that are shown.
const LATEST_MAX: usize = 10;
/// Work that ends no later than this after the response, on average, is not asynchronous.
const AFTER_RESPONSE_MIN_NS: Nanos = 5_000_000;
/// Nor is work that ends no later than this part of the response time.
const AFTER_RESPONSE_PART: Nanos = 10;

/// An iteration of the sample whose work has ended.
pub struct EndedWork<'a> {
    pub trace_id: Uuid,
    /// What the client measured.
    pub sample: &'a IterationSample,
    /// Its trace, with the client's points, and without points for messages of RPCs.
    pub tree: TraceTree,
    /// What its services' functions took.
    pub functions: Arc<Functions>,
    /// When its trace was read, in microseconds from when it was due.
    pub latest_us: u64,
    /// From its start to the end of its last span.
    pub ns: Nanos,
}

/// Why the work of these iterations of a workload ended late; `None` if late ones ended with their responses.
#[must_use]
pub fn of_sample(
    mut all: Vec<EndedWork<'_>>,
    workload: usize,
    population: &Population<'_>,
    seed: u64,
) -> Option<LateWork> {
    // The latest first; numbers keep the order the same for the same run.
    all.sort_by_key(|one| (std::cmp::Reverse(one.ns), one.sample.number));
    let late = all.len().div_ceil(20);
    if !is_after_responses(&all[..late]) {
        return None;
    }
    let top = all.len().div_ceil(100);
    let typical = all.len() / 2..all.len() - all.len() / 10;
    let compared: Vec<ComparedIteration> = all
        .iter()
        .enumerate()
        .map(|(rank, one)| {
            let side = match rank {
                rank if rank < late => IterationClass::Slow,
                rank if typical.contains(&rank) => IterationClass::Typical,
                _ => IterationClass::Other,
            };
            ComparedIteration {
                side,
                top: rank < top,
                trace_id: one.trace_id,
                // Work is timed from the start, as in all other figures.
                sample: IterationSample {
                    due_ns: one.sample.start_ns,
                    duration_ns: one.ns,
                    ..one.sample.clone()
                },
                tree: to_the_end(&one.tree, one.latest_us)
                    .map(|tree| Arc::new(from_the_start(tree, one.sample.queue_time_ns() / 1_000))),
                functions: Arc::clone(&one.functions),
            }
        })
        .collect();
    let latest: Vec<IterationSample> =
        compared.iter().take(LATEST_MAX).map(|one| one.sample.clone()).collect();
    let population = Population {
        sampled: Some(all.len() as u64),
        series: None,
        slowest: &latest,
        longest: Vec::new(),
        ..population.clone()
    };
    let found = causes::of_workload(&compared, workload, &population, seed);
    let explained = found.explanations.into_iter().take(LATEST_MAX);
    let latest = explained.filter_map(|explanation| {
        let one = all.iter().find(|one| one.trace_id == explanation.trace_id)?;
        Some(LateIteration { response_ms: one.sample.response_ns() as f64 / 1e6, explanation })
    });
    let comparison = found.comparison.filter(|seen| seen.no_finding != Some(NoCauseReason::NoGap))?;
    Some(LateWork { comparison, latest: latest.collect() })
}

/// Whether the work of these went on after their responses, on average.
fn is_after_responses(late: &[EndedWork<'_>]) -> bool {
    let after_ns: Nanos = late.iter().map(|one| one.ns.saturating_sub(one.sample.duration_ns)).sum();
    let response_ns: Nanos = late.iter().map(|one| one.sample.duration_ns).sum();
    let number = late.len() as u64;
    after_ns > (number * AFTER_RESPONSE_MIN_NS).max(response_ns / AFTER_RESPONSE_PART)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_work_that_goes_on_after_the_response_is_late() {
        const MS: Nanos = 1_000_000;
        for (what, ended_and_responses_ms, expected) in [
            ("with the responses", vec![(100, 100), (90, 90)], false),
            ("a little later than fast responses", vec![(9, 5), (10, 4)], false),
            ("later than fast responses", vec![(12, 5), (13, 4)], true),
            ("a little later than slow responses", vec![(1_050, 1_000), (1_090, 1_000)], false),
            ("later than slow responses", vec![(1_150, 1_000), (1_190, 1_000)], true),
            ("one of many", vec![(100, 100), (100, 100), (100, 100), (170, 100)], true),
            ("before their responses", vec![(50, 100), (60, 100)], false),
        ] {
            let samples: Vec<IterationSample> = ended_and_responses_ms
                .iter()
                .map(|(_, ms)| IterationSample { duration_ns: ms * MS, ..IterationSample::default() })
                .collect();
            let late: Vec<EndedWork<'_>> = (samples.iter().zip(&ended_and_responses_ms))
                .map(|(sample, (ended_ms, _))| EndedWork {
                    trace_id: Uuid::nil(),
                    sample,
                    tree: TraceTree::default(),
                    functions: Arc::default(),
                    latest_us: 0,
                    ns: ended_ms * MS,
                })
                .collect();
            assert_eq!(is_after_responses(&late), expected, "{what}");
        }
    }
}
