//! What a change would bring, by a run's traces.

use std::collections::HashMap;

use analysis::breakdown::Kind;
use analysis::levels::is_all_points;
use analysis::statement::joined;
use base::parallel;
use capacity::ceiling::ceilings;
use capacity::measured::{ChosenFor, LoadedIteration, MeasuredLoad, TracedIteration};
use capacity::program::{StepKinds, of_trace};
use capacity::what_if::{LoadChange, NoPrediction, Prediction, UpperBoundReason, predict};
use measure::log::LogError;
use measure::sample::{CompletionStatus, IterationSample};
use osprofiler::record::TraceRecord;
use osprofiler::report::TraceTree;
use results::aggregate::Aggregate;
use results::choice::{ChosenIteration, IterationClass};
use results::client_points::REPORTER;
use results::due_times;
use results::model::{
    CallPool, CallQueue, ChangeableKind, ComparedKind, Fix, FixPrediction, PredictedTime, Results,
    TraceState, UpperBound, Workload,
};
use results::trace::StoredTrace;
use statistics::order::at_percentile;

use uuid::Uuid;

use crate::seed;

/// At most so many iterations are replayed, with queues and without.
const ITERATIONS_MAX: u64 = 6_000;
const ITERATIONS_ALONE_MAX: u64 = 12_000;
/// With queues, they have at most so many steps in all: each is replayed a hundred times.
const STEPS_MAX: u64 = 120_000;
/// A fix that leaves more than this of p99 is not worth a word.
const LEFT_MAX: f64 = 0.93;
/// Servers are predicted to be so many times as many.
const MORE_SERVERS: u32 = 2;
/// What is said to take no longer than in typical iterations takes at most as long as in this percentage of them.
const TYPICAL_PERCENTILE: f64 = 95.0;

/// An iteration with its trace, which has the client's points.
pub type RowTrace = (IterationSample, TraceTree);

/// A workload's load, ready to be replayed.
pub struct ReplayableLoad {
    load: MeasuredLoad,
    kinds: StepKinds,
    seed: u64,
}

/// What there is of a workload.
pub struct LoadSources<'a> {
    pub aggregate: &'a Aggregate,
    /// The workload's index.
    pub number: usize,
    /// Iterations in a row, with their traces.
    pub row: &'a [RowTrace],
    /// The others that have traces.
    pub chosen: &'a [(&'a ChosenIteration, &'a TraceTree)],
    /// Whether iterations are due however slow others are.
    pub is_open: bool,
    /// So many iterations can be under way.
    pub users_max: u32,
}

impl ReplayableLoad {
    /// Reads the run's log once more.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn of(sources: &LoadSources<'_>) -> Result<Self, LogError> {
        let LoadSources { aggregate, number, row, chosen, is_open, users_max } = *sources;
        let mut pools = match is_open {
            true => ceilings(&row.iter().map(|(_, tree)| tree).collect::<Vec<_>>()),
            false => Vec::new(),
        };
        pools.retain(|pool| pool.servers < users_max);
        let of_workload = |sample: &IterationSample| {
            usize::from(sample.workload) == number && sample.ended == CompletionStatus::Ok
        };
        let mut traces: HashMap<u64, (&IterationSample, &TraceTree, ChosenFor)> = HashMap::new();
        for (one, tree) in chosen.iter().filter(|(one, _)| of_workload(&one.sample)) {
            let because = match (one.random, one.side) {
                (true, _) => ChosenFor::Chance,
                (false, IterationClass::Typical) => ChosenFor::Typical,
                (false, _) => ChosenFor::Slowness,
            };
            traces.insert(one.sample.number, (&one.sample, *tree, because));
        }
        for (sample, tree) in row.iter().filter(|(sample, _)| of_workload(sample)) {
            traces.insert(sample.number, (sample, tree, ChosenFor::Chance));
        }
        let mut kinds = StepKinds::default();
        let mut places: HashMap<u64, usize> = HashMap::new();
        let mut traced = Vec::with_capacity(traces.len());
        let mut traces: Vec<_> = traces.into_iter().collect();
        traces.sort_unstable_by_key(|(number, _)| *number);
        for (number, (sample, tree, chosen)) in traces {
            let Some(program) = of_trace(tree, &pools, &mut kinds) else { continue };
            places.insert(number, traced.len());
            let (due_us, response_us) = (us(sample.due_ns), us(sample.response_ns()));
            traced.push(TracedIteration { due_us, response_us, chosen, program });
        }
        let total = aggregate.workloads.get(number).map_or(0, |stats| stats.numbers);
        let steps: u64 = traced.iter().map(|one: &TracedIteration| one.program.steps.len() as u64).sum();
        let most = match pools.is_empty() {
            true => ITERATIONS_ALONE_MAX,
            false => (STEPS_MAX * traced.len() as u64 / steps.max(1)).min(ITERATIONS_MAX),
        };
        let middle = row.first().map_or(total / 2, |(sample, _)| sample.number + row.len() as u64 / 2);
        let first = middle.saturating_sub(most / 2).min(total.saturating_sub(most));
        let iterations: Vec<LoadedIteration> = due_times::of(&aggregate.log, number, first..first + most)?
            .into_iter()
            .map(|one| LoadedIteration {
                due_us: us(one.due_ns),
                response_us: us(one.response_ns),
                counts: one.counts,
                traced: places.get(&one.number).copied(),
            })
            .collect();
        let slow = chosen.iter().filter(|(one, _)| one.side == IterationClass::Slow);
        let slow_us =
            slow.filter(|(one, _)| of_workload(&one.sample)).map(|(one, _)| us(one.sample.response_ns()));
        let slow_from_us = slow_from_us(slow_us.min(), &iterations);
        let load = MeasuredLoad { iterations, traced, pools, is_open, slow_from_us };
        Ok(Self { load, kinds, seed: seed(aggregate) })
    }

    /// The kinds of services' points, by what they do themselves, most first.
    #[must_use]
    pub fn kinds(&self) -> Vec<ChangeableKind> {
        let typical: Vec<&TracedIteration> =
            self.load.traced.iter().filter(|one| one.chosen != ChosenFor::Slowness).collect();
        let count = typical.len().max(1) as f64;
        let mut by_name: HashMap<(String, String), (u64, i64)> = HashMap::new();
        for (kind, number) in self.kinds.all().iter().zip(0..).filter(|(kind, _)| kind.service != REPORTER) {
            let sums = by_name.entry((kind.service.clone(), name_of(kind))).or_default();
            for one in &typical {
                sums.0 += one.program.count(&[number]) as u64;
                sums.1 += one.program.work_us(&[number]);
            }
        }
        let mut all: Vec<ChangeableKind> = by_name
            .into_iter()
            .map(|((service, name), (calls, own_us))| ChangeableKind {
                service,
                name,
                calls: calls as f64 / count,
                own_ms: own_us as f64 / 1e3 / count,
            })
            .collect();
        let order = |one: &ChangeableKind| (one.service.clone(), one.name.clone());
        all.sort_by(|one, other| {
            other.own_ms.total_cmp(&one.own_ms).then_with(|| order(one).cmp(&order(other)))
        });
        all
    }

    /// The calls that run so many at a time.
    #[must_use]
    pub fn pools(&self) -> Vec<CallPool> {
        let pools = self.load.pools.iter();
        pools.map(|pool| CallPool { name: pool.group.name.clone(), servers: pool.servers }).collect()
    }

    /// The kinds with this name, or if there are none, those whose names contain it. A name is that of the point, or with
    /// what it did, with or without the dot between them.
    #[must_use]
    pub fn named(&self, wanted: &str) -> Vec<usize> {
        let plain = |text: &str| text.replace(" · ", " ").to_lowercase();
        let wanted = plain(wanted.trim());
        let of = |fits: &dyn Fn(&Kind) -> bool| -> Vec<usize> {
            let services = self.kinds.all().iter().zip(0..).filter(|(kind, _)| kind.service != REPORTER);
            services.filter(|(kind, _)| fits(kind)).map(|(_, number)| number).collect()
        };
        let same = of(&|kind| plain(&name_of(kind)) == wanted || plain(&kind.name) == wanted);
        if same.is_empty() { of(&|kind| plain(&name_of(kind)).contains(&wanted)) } else { same }
    }

    /// The names of these kinds, each once.
    #[must_use]
    pub fn names(&self, kinds: &[usize]) -> Vec<String> {
        let mut names: Vec<String> = kinds.iter().map(|kind| name_of(&self.kinds.all()[*kind])).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    /// What the change would bring; `fix` is the change in words.
    ///
    /// # Errors
    /// Why there is no prediction.
    pub fn predict(&self, change: &LoadChange, fix: Fix) -> Result<FixPrediction, NoPrediction> {
        let Prediction { percentiles, at_most, iterations, traced } = predict(&self.load, change, self.seed)?;
        let time = |one: &capacity::what_if::PredictedPercentile| PredictedTime {
            percentile: one.percentile,
            today_ms: one.today_ms,
            then_ms: one.then_ms,
            low_ms: one.low_ms,
            high_ms: one.high_ms,
        };
        Ok(FixPrediction {
            fix,
            percentiles: percentiles.iter().map(time).collect(),
            upper_bound: at_most.map(|reason| match reason {
                UpperBoundReason::ClosedLoad => UpperBound::ClosedLoad,
                UpperBoundReason::Shares { .. } => UpperBound::Sharing,
                UpperBoundReason::OnlySlow => UpperBound::SlowTracesOnly,
            }),
            iterations: iterations as u64,
            traced: traced as u64,
        })
    }

    /// What it would bring if the named cause were gone: if it took no longer than in typical iterations, or if more calls
    /// could run at a time. `None` if that cannot be told, or brings little.
    #[must_use]
    pub fn without_cause(&self, workload: &Workload) -> Option<FixPrediction> {
        let (change, fix) = match workload.queue_of_cause() {
            Some(queue) => self.more_servers(queue)?,
            None => {
                let kinds = &workload.comparison.as_ref()?.kinds;
                self.as_typical(kinds.iter().find(|kind| kind.is_cause)?)?
            }
        };
        let found = self.predict(&change, fix).ok()?;
        let is_much = |p99: &PredictedTime| p99.high_ms.max(p99.then_ms) <= LEFT_MAX * p99.today_ms;
        found.at(99.0).is_some_and(is_much).then_some(found)
    }

    fn more_servers(&self, queue: &CallQueue) -> Option<(LoadChange, Fix)> {
        let pool = self.load.pools.iter().position(|pool| {
            pool.group.name == queue.name
                && pool.group.service == queue.service
                && pool.servers == queue.servers
        })?;
        let then = queue.servers.checked_mul(MORE_SERVERS)?;
        let fix = Fix::Servers { name: queue.name.clone(), today: queue.servers, then };
        Some((LoadChange::Servers { pool, count: then }, fix))
    }

    fn as_typical(&self, cause: &ComparedKind) -> Option<(LoadChange, Fix)> {
        if cause.outside || cause.service == REPORTER || is_all_points(&cause.name) {
            return None;
        }
        let is_it = |kind: &Kind| {
            (&kind.service, &kind.name, &kind.detail) == (&cause.service, &cause.name, &cause.detail)
                && (cause.parent.is_empty() || kind.parent == cause.parent)
        };
        let all = self.kinds.all().iter().zip(0..).filter(|(kind, _)| is_it(kind));
        let kinds: Vec<usize> = all.map(|(_, number)| number).collect();
        let kind = joined(&cause.name, &cause.detail);
        if cause.with_below {
            let at_most = cause.typical_calls.round();
            let has_more = cause.slow_calls - cause.typical_calls >= 0.5;
            let at_most = has_more.then_some(at_most as u32)?;
            let most = usize::try_from(at_most).ok()?;
            return Some((LoadChange::Calls { kinds, most }, Fix::Calls { kind, at_most }));
        }
        let typical = self.load.traced.iter().filter(|one| one.chosen == ChosenFor::Typical);
        let mut typical_us: Vec<i64> = typical.map(|one| one.program.work_us(&kinds)).collect();
        typical_us.sort_unstable();
        let us = at_percentile(&typical_us, TYPICAL_PERCENTILE)?;
        let at_most_ms = us as f64 / 1e3;
        Some((LoadChange::WorkAtMost { kinds, us }, Fix::WorkAtMost { kind, at_most_ms }))
    }
}

/// From which response time on all iterations have traces, or a random sample of the slow ones has. `slow_us`: that of the
/// fastest slow one.
fn slow_from_us(slow_us: Option<i64>, iterations: &[LoadedIteration]) -> i64 {
    let without = iterations.iter().filter(|one| one.counts && one.traced.is_none());
    let untraced_us = without.map(|one| one.response_us).max().unwrap_or(0);
    match slow_us {
        Some(slow_us) if untraced_us >= slow_us => slow_us - 1,
        _ => untraced_us,
    }
}

fn name_of(kind: &Kind) -> String {
    joined(&kind.name, &kind.detail)
}

fn us(ns: u64) -> i64 {
    i64::try_from(ns / 1_000).unwrap_or(i64::MAX)
}

/// Says of each workload of which a cause is named what it would bring without it. A log that cannot be read once more
/// says nothing.
pub fn add(
    results: &mut Results,
    aggregate: &Aggregate,
    row: &[RowTrace],
    (chosen, traces): (&[ChosenIteration], &[StoredTrace]),
    users_max: u32,
) {
    let chosen = &with_trees(aggregate, chosen, traces);
    let predictions = results.workloads.iter().enumerate().map(|(number, workload)| {
        let has_cause = workload.comparison.as_ref().is_some_and(|seen| seen.no_finding.is_none());
        let is_open = workload.offered.as_ref().is_some_and(|offered| offered.asked_per_s.is_some());
        // The iterations in a row are of the first workload.
        let row = if number == 0 { row } else { &[] };
        let sources = LoadSources { aggregate, number, row, chosen, is_open, users_max };
        let load = has_cause.then(|| ReplayableLoad::of(&sources).ok()).flatten();
        load.and_then(|load| load.without_cause(workload))
    });
    let predictions: Vec<Option<FixPrediction>> = predictions.collect();
    for (workload, prediction) in results.workloads.iter_mut().zip(predictions) {
        workload.without_cause = prediction;
    }
}

/// Takes away predictions for causes that are no longer named: other traces may name others.
pub fn forget_others(results: &mut Results) {
    for workload in &mut results.workloads {
        let cause =
            workload.comparison.as_ref().and_then(|seen| seen.kinds.iter().find(|kind| kind.is_cause));
        let cause = cause.map(|kind| joined(&kind.name, &kind.detail));
        let queue = workload.queue_of_cause().map(|queue| (queue.name.clone(), queue.servers));
        let is_its = |found: &FixPrediction| match &found.fix {
            Fix::Servers { name, today, .. } => {
                queue.as_ref().is_some_and(|of| (&of.0, &of.1) == (name, today))
            }
            Fix::Work { kind, .. } | Fix::WorkAtMost { kind, .. } | Fix::Calls { kind, .. } => {
                queue.is_none() && cause.as_ref() == Some(kind)
            }
        };
        workload.without_cause = workload.without_cause.take().filter(is_its);
    }
}

/// The chosen iterations with whole traces.
#[must_use]
pub fn with_trees<'a>(
    aggregate: &Aggregate,
    chosen: &'a [ChosenIteration],
    traces: &'a [StoredTrace],
) -> Vec<(&'a ChosenIteration, &'a TraceTree)> {
    let whole = traces.iter().filter(|trace| trace.state == TraceState::Complete);
    let trees: HashMap<Uuid, &TraceTree> = whole.map(|trace| (trace.trace_id, &*trace.tree)).collect();
    let tree = |one: &'a ChosenIteration| Some((one, *trees.get(&aggregate.trace_id(&one.sample))?));
    chosen.iter().filter_map(tree).collect()
}

/// The traces of iterations in a row that a receiver kept, with the client's points.
pub fn trees(traced: Vec<(IterationSample, Vec<TraceRecord>)>, aggregate: &Aggregate) -> Vec<RowTrace> {
    parallel::map(traced, |(sample, records)| {
        let tree = TraceTree::build(&crate::asynchronous::whole(aggregate, &sample, records, &[]).0);
        (sample, tree)
    })
}
