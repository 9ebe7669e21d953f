//! Counts of trace points in the random samples of rounds, and the traces that show a difference.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::run::RoundEnded;
use analysis::statement;
use osprofiler::report::TraceTree;
use report::pairs::{CountedPoint, CountedTrace, PairCount};
use results::model::TraceState;
use results::selection;
use verdict::paired::{CountRow, CountSeries, RoundCounts};

/// More kinds of selected points than this are not told apart.
const KINDS_MAX: usize = 1_000;
/// At most this many kinds are shown for a count.
const KINDS_SHOWN: usize = 5;

/// The selected points of one side, over all pairs that count.
#[derive(Clone, Debug, Default)]
struct SidePoints {
    /// Calls by service and name.
    calls: BTreeMap<(String, String), u64>,
    traces: u64,
    /// Each trace with its count.
    seen: Vec<(u64, CountedTrace)>,
}

/// The selected points of both sides, for each count.
#[derive(Clone, Debug, Default)]
pub(super) struct SelectedPoints {
    sides: Vec<[SidePoints; 2]>,
}

/// The complete traces of the random sample of a workload.
fn sampled(round: &RoundEnded, workload: Option<usize>) -> impl Iterator<Item = (Uuid, &TraceTree)> {
    let of_workload = move |id: &Uuid| {
        round.random.get(id).is_some_and(|of| workload.is_none_or(|wanted| usize::from(*of) == wanted))
    };
    let traces = round.traces.iter().map(|(_, trace)| trace);
    traces
        .filter(move |trace| trace.state == TraceState::Complete && of_workload(&trace.trace_id))
        .map(|trace| (trace.trace_id, &*trace.tree))
}

/// The counts of the rounds of one side of a pair.
pub(super) fn of_rounds(rounds: &[RoundEnded], series: &[CountSeries]) -> Vec<RoundCounts> {
    if series.is_empty() {
        return Vec::new();
    }
    let all: Vec<&TraceTree> =
        rounds.iter().flat_map(|round| sampled(round, None)).map(|(_, tree)| tree).collect();
    let of = |series: &CountSeries| {
        let mut found = RoundCounts {
            unknown: selection::unknown(all.iter().copied(), &series.metric.points),
            ..RoundCounts::default()
        };
        for round in rounds {
            let wanted = round.random.values().filter(|of| usize::from(**of) == series.workload);
            found.sampled += wanted.count() as u64;
            for (_, tree) in sampled(round, Some(series.workload)) {
                let count = selection::figure(tree, &series.metric.points, series.metric.figure);
                found.counts.add(count as f64);
            }
        }
        found
    };
    series.iter().map(of).collect()
}

impl SelectedPoints {
    /// Adds a round that counts.
    pub(super) fn add(&mut self, round: &RoundEnded, directory: &str, is_b: bool, series: &[CountSeries]) {
        self.sides.resize_with(series.len(), Default::default);
        for (series, sides) in series.iter().zip(&mut self.sides) {
            let side = &mut sides[usize::from(is_b)];
            for (trace_id, tree) in sampled(round, Some(series.workload)) {
                side.traces += 1;
                for index in selection::selected(tree, &series.metric.points) {
                    let point = &tree.points[index];
                    let kind = (point.reporter(), statement::name_and_kind(point));
                    if side.calls.len() < KINDS_MAX || side.calls.contains_key(&kind) {
                        *side.calls.entry(kind).or_default() += 1;
                    }
                }
                let count = selection::figure(tree, &series.metric.points, series.metric.figure);
                let file = format!("{directory}/traces/{trace_id}.json");
                side.seen.push((count, CountedTrace { trace_id, file, count }));
            }
        }
    }

    /// The rows with what shows their differences.
    pub(super) fn with(&self, rows: Vec<CountRow>) -> Vec<PairCount> {
        let of = |(index, row): (usize, CountRow)| {
            let none = [SidePoints::default(), SidePoints::default()];
            let [a, b] = self.sides.get(index).unwrap_or(&none);
            PairCount { points: points(a, b), a_trace: a.nearest(row.a), b_trace: b.nearest(row.b), row }
        };
        rows.into_iter().enumerate().map(of).collect()
    }
}

impl SidePoints {
    fn mean(&self, kind: &(String, String)) -> f64 {
        self.calls.get(kind).copied().unwrap_or(0) as f64 / self.traces.max(1) as f64
    }

    /// The trace whose count is nearest to the mean.
    fn nearest(&self, mean: Option<f64>) -> Option<CountedTrace> {
        let distance = |(count, _): &&(u64, CountedTrace)| (*count as f64 - mean.unwrap_or(0.0)).abs();
        let nearest = self.seen.iter().min_by(|one, other| distance(one).total_cmp(&distance(other)));
        nearest.map(|(_, trace)| trace.clone())
    }
}

/// The kinds of points that differ most.
fn points(a: &SidePoints, b: &SidePoints) -> Vec<CountedPoint> {
    let mut kinds: Vec<&(String, String)> = a.calls.keys().chain(b.calls.keys()).collect();
    kinds.sort();
    kinds.dedup();
    let mut points: Vec<CountedPoint> = kinds
        .into_iter()
        .map(|kind| CountedPoint {
            service: kind.0.clone(),
            name: kind.1.clone(),
            a_calls: a.mean(kind),
            b_calls: b.mean(kind),
        })
        .filter(|point| (point.b_calls - point.a_calls).abs() > 0.0)
        .collect();
    let size = |point: &CountedPoint| (point.b_calls - point.a_calls).abs();
    points.sort_by(|one, other| size(other).total_cmp(&size(one)));
    points.truncate(KINDS_SHOWN);
    points
}
