//! Builds the result model from an [`Aggregate`].

use std::collections::BTreeMap;

use uuid::Uuid;

use measure::errors::{Failure, FailureEvidence};
use measure::ids::RunIds;
use measure::latency::{Latency, SampleId};
use measure::log::{self, WorkloadHeader};
use measure::rows::IterationHead;
use measure::sample::{CompletionStatus, IterationSample};
use text::times::rfc3339;

use super::aggregate::{ActionStats, Aggregate, PhaseSums, WorkloadStats};
use super::distributions::{distribution, judged, milliseconds};
use super::largest::keep_first;
use super::load::WorkloadFigures;
use super::model::{
    Action, ActionTiming, ErrorClass, FORMAT, IterationOutcome, IterationRow, MergedShard, OfferedLoad,
    Outcome, Phases, Probe, Profiling, Results, Run, RunStatus, Series, SlowIteration, TaggedRequests,
    TraceState, UserActivity, VERSION, Verdict, Workload,
};
use super::network;
use super::numbers::NumberStats;
use super::record;
use super::tags::{self, TagStats};

const NS_PER_MS: f64 = 1e6;
const NS_PER_S: f64 = 1e9;

/// The results of a run, without its traces and its verdict.
#[must_use]
pub fn build(aggregate: &Aggregate) -> Results {
    let header = aggregate.header();
    let ids = &aggregate.log.ids();
    let mut notes = header.notes.clone();
    notes.extend(aggregate.end.iter().flat_map(|end| end.notes.clone()));
    if aggregate.end.is_none() {
        notes.push(
            "the log has no end: bench was killed, or could not write it; the results include everything up to its \
             last whole frame. What ran after it is unknown, and no criterion counts as passed"
                .to_owned(),
        );
    }
    notes.extend(over_range(aggregate));
    let repeated = aggregate.workloads.iter().map(|workload| workload.repeated);
    notes.extend(network::notes(repeated, &aggregate.slowest));
    let start_ns = aggregate.workloads.iter().map(|workload| workload.first_start_ns).min().unwrap_or(0);
    let end_ns = aggregate.workloads.iter().map(|workload| workload.last_end_ns).max().unwrap_or(0);
    Results {
        format: FORMAT.to_owned(),
        version: VERSION,
        verdict: Verdict { outcome: Outcome::None, invalid: Vec::new(), criteria: Vec::new() },
        reason: None,
        run: Run {
            id: header.run_id,
            id_seed: header.id_seed,
            seed: header.data_seed,
            status: aggregate.end.as_ref().map_or(RunStatus::Recovered, |end| RunStatus::from(end.status)),
            started_at: rfc3339(header.started_unix_ns),
            duration_s: seconds(end_ns.saturating_sub(start_ns)),
            error: aggregate.end.as_ref().and_then(|end| end.error.clone()),
        },
        scenario: header.scenario.clone(),
        deployment: header.deployment.clone(),
        profiling: Profiling {
            enabled: header.profiling_off.is_none(),
            headers: header.trace_headers.clone(),
            reason: header.profiling_off.clone(),
            collector: header.collector.clone(),
            received: None,
            fetched: BTreeMap::new(),
            collector_error: None,
            fetch_s: None,
            published: 0,
        },
        environment: header.environment.clone(),
        generator: aggregate.end.as_ref().and_then(|end| end.generator.clone()),
        record: Some(record::of(aggregate)),
        probe: aggregate.end.as_ref().and_then(|end| end.probe.clone()).map(Into::into),
        shard: header.shard.clone(),
        shards: header.shards.iter().cloned().map(Into::into).collect(),
        task: header.rally.as_ref().map(Into::into),
        hooks: aggregate.end.iter().flat_map(|end| &end.hooks).map(Into::into).collect(),
        findings: Vec::new(),
        explanations: Vec::new(),
        notes,
        workloads: aggregate
            .workloads
            .iter()
            .zip(&header.workloads)
            .map(|(stats, names)| workload(aggregate, ids, stats, names))
            .collect(),
        slowest: aggregate.slowest.iter().map(|sample| slow_iteration(aggregate, sample)).collect(),
        stall: None,
    }
}

/// An iteration, as in `results.json`.
#[must_use]
pub fn iteration_row(aggregate: &Aggregate, sample: &IterationHead) -> IterationRow {
    let ids = aggregate.log.ids();
    let error = aggregate.failures.get(&sample.error).map(|failure| failure.class.to_string());
    iteration_row_of(sample, ids.trace_id(sample), !ids.is_control(sample), error)
}

pub(super) fn iteration_row_of(
    sample: &IterationHead,
    trace_id: Uuid,
    profiled: bool,
    error: Option<String>,
) -> IterationRow {
    let of_started = |value: f64| sample.has_started().then_some(value);
    IterationRow {
        trace_id,
        workload: sample.workload,
        number: sample.number,
        warm_up: sample.warm_up,
        profiled,
        due_s: seconds(sample.due_ns),
        start_s: of_started(seconds(sample.start_ns)),
        duration_ms: of_started(milliseconds(sample.duration_ns)),
        outcome: outcome(sample.ended),
        resent: sample.resent && sample.ended.is_measured(),
        error,
    }
}

/// How an iteration or a request ended, as a type of the model.
#[must_use]
pub fn outcome(ended: CompletionStatus) -> IterationOutcome {
    match ended {
        CompletionStatus::Ok => IterationOutcome::Ok,
        CompletionStatus::Failed => IterationOutcome::Failed,
        CompletionStatus::Aborted => IterationOutcome::Aborted,
        CompletionStatus::Dropped => IterationOutcome::Dropped,
    }
}

impl From<log::Status> for RunStatus {
    fn from(status: log::Status) -> Self {
        match status {
            log::Status::Finished => Self::Finished,
            log::Status::Interrupted => Self::Interrupted,
            log::Status::TimedOut => Self::TimedOut,
            log::Status::Aborted => Self::Aborted,
            log::Status::Failed => Self::Failed,
        }
    }
}

impl From<log::ProbeRecord> for Probe {
    fn from(probe: log::ProbeRecord) -> Self {
        let outcome = if probe.ok { IterationOutcome::Ok } else { IterationOutcome::Failed };
        let trace = match probe.points {
            None => TraceState::NotFetched,
            Some(0) => TraceState::Absent,
            Some(_) if probe.is_complete => TraceState::Complete,
            Some(_) => TraceState::Partial,
        };
        Self {
            trace_id: probe.trace_id,
            workload: probe.workload,
            outcome,
            duration_ms: milliseconds(probe.duration_ns),
            failure: probe.failure,
            body: probe.body,
            trace,
            points: probe.points.unwrap_or(0),
            services: probe.services,
            waited_s: seconds(probe.waited_ns),
            missing: probe.missing,
        }
    }
}

impl From<log::MergedShard> for MergedShard {
    fn from(shard: log::MergedShard) -> Self {
        Self {
            index: shard.index,
            directory: shard.directory,
            environment: shard.environment,
            began_s: seconds(shard.began_ns),
            late_s: shard.late_ns.map(seconds),
            clock_correction_s: shard.clock_correction_ns.map(|ns| ns as f64 / NS_PER_S),
            iterations: shard.rows,
            status: shard.status.map_or(RunStatus::Recovered, RunStatus::from),
        }
    }
}

/// The load that was asked for and served.
fn offered(
    aggregate: &Aggregate,
    stats: &WorkloadStats,
    header: &WorkloadHeader,
    rate_per_s: f64,
) -> Option<OfferedLoad> {
    let workers = aggregate.end.iter().flat_map(|end| &end.generator).flat_map(|seen| &seen.workers);
    let late_ms = workers.map(|worker| worker.late_p99_ms).fold(0.0, f64::max);
    let p99_ns = |times: &Latency| if times.count() == 0 { 0 } else { times.percentile_ns(99.0) };
    stats.load.finish(&WorkloadFigures {
        header,
        rate_per_s,
        queue_time_p99_ns: p99_ns(&stats.queue_time),
        response_p99_ns: p99_ns(&stats.response),
        generator_late_ns: (late_ms * NS_PER_MS) as u64,
    })
}

fn workload(aggregate: &Aggregate, ids: &RunIds, stats: &WorkloadStats, names: &WorkloadHeader) -> Workload {
    let start_ns = if stats.first_start_ns == u64::MAX { 0 } else { stats.first_start_ns };
    let duration_s = seconds(stats.last_end_ns.saturating_sub(start_ns));
    let completed = stats.iterations.ok + stats.iterations.failed;
    let (never, cut_off) = (stats.iterations.dropped, stats.iterations.aborted);
    let rate_per_s = if duration_s > 0.0 { count(completed) / duration_s } else { 0.0 };
    Workload {
        comparison: None,
        client_comparison: None,
        queues: Vec::new(),
        without_cause: None,
        observer_effect: None,
        offered: offered(aggregate, stats, names, rate_per_s),
        network: stats.repeated.model(),
        asynchronous: None,
        series: stats.series.clone().finish().map(|series| within(series, &stats.response)),
        name: names.name.clone(),
        runner: names.runner.clone(),
        start_s: seconds(start_ns),
        duration_s,
        iterations: stats.iterations,
        warm_up: stats.warm_up,
        unprofiled: stats.unprofiled,
        rate_per_s,
        response_time: judged(&stats.response, &stats.failed_response, never + cut_off, ids),
        service_time: judged(&stats.service, &stats.failed_service, cut_off, ids),
        queue_time: distribution(&stats.queue_time, ids),
        actions: stats
            .actions
            .iter()
            .zip(&names.actions)
            .map(|(stats, names)| action(stats, names, (never, duration_s), ids))
            .collect(),
        tags: tags::each(&stats.actions, names).map(|stats| tagged(&stats, never, ids)).collect(),
        user_setup: users(aggregate, stats, 0, &names.user_setup, ids),
        user_teardown: users(aggregate, stats, 1, &names.user_teardown, ids),
        measured: NumberStats::models(&stats.numbers_taken, &names.measures, ids),
        errors: errors(aggregate, stats, ids),
    }
}

/// What the users of a workload did before their iterations (0), or after them (1).
fn users(
    aggregate: &Aggregate,
    stats: &WorkloadStats,
    phase: usize,
    names: &[(String, String)],
    ids: &RunIds,
) -> Option<UserActivity> {
    let stats = stats.users[phase].as_deref()?;
    let duration_s = seconds(stats.last_end_ns.saturating_sub(stats.first_start_ns.min(stats.last_end_ns)));
    let actions = stats.actions.iter().zip(names);
    Some(UserActivity {
        users: stats.iterations,
        service_time: judged(&stats.service, &stats.failed_service, stats.iterations.aborted, ids),
        actions: actions.map(|(stats, names)| action(stats, names, (0, duration_s), ids)).collect(),
        errors: errors(aggregate, stats, ids),
    })
}

/// The times in a series are middles of buckets; none of them may exceed the longest sample.
fn within(mut series: Series, times: &Latency) -> Series {
    let longest_ms = milliseconds(times.max_ns());
    series.p50_ms.iter_mut().chain(&mut series.p99_ms).for_each(|ms| *ms = ms.min(longest_ms));
    series
}

/// `never` is the number of its workload's iterations that never started, and `duration_s` how long that took.
fn action(
    stats: &ActionStats,
    (name, request): &(String, String),
    (never, duration_s): (u64, f64),
    ids: &RunIds,
) -> Action {
    let cut_off = stats.requests.aborted;
    Action {
        name: name.clone(),
        request: request.clone(),
        requests: stats.requests,
        iterations: (stats.iterations != stats.requests.total).then_some(stats.iterations),
        sent: (stats.sent != stats.requests.total).then_some(stats.sent),
        service_time: judged(&stats.service, &stats.failed_service, cut_off, ids),
        response_time: judged(&stats.response, &stats.failed_response, never + cut_off, ids),
        phases: phases(&stats.phases),
        status: stats.status.clone(),
        bytes_received: stats.body_bytes,
        connections_opened: stats.opened,
        http2: stats.http2,
        streams: stats.streams.as_ref().map(|streams| streams.model(duration_s, ids)),
        series: stats.series.clone().finish(),
    }
}

fn tagged(stats: &TagStats<'_>, never: u64, ids: &RunIds) -> TaggedRequests {
    let ((tag, value), cut_off) = (stats.tag, stats.requests.aborted);
    // An iteration that never started lacks each of them.
    let never = never * stats.actions;
    TaggedRequests {
        tag: tag.to_owned(),
        value: value.to_owned(),
        requests: stats.requests,
        service_time: judged(&stats.service, &stats.failed_service, cut_off, ids),
        response_time: judged(&stats.response, &stats.failed_response, never + cut_off, ids),
    }
}

fn phases(sums: &PhaseSums) -> Phases {
    let mean = |index: usize| {
        if sums.count == 0 { 0.0 } else { sums.sums_ns[index] as f64 / sums.count as f64 / NS_PER_MS }
    };
    Phases {
        resolve_ms: mean(0),
        connect_ms: mean(1),
        tls_ms: mean(2),
        send_ms: mean(3),
        wait_ms: mean(4),
        receive_ms: mean(5),
        redirect_ms: mean(6),
    }
}

/// A note about values that are too long for percentiles.
fn over_range(aggregate: &Aggregate) -> Option<String> {
    let longer = aggregate.workloads.iter().map(|workload| workload.response.over_range()).sum::<u64>();
    (longer > 0).then(|| {
        format!("{longer} response times were over a day: percentiles treat them as a day, means and maxima do not")
    })
}

fn errors(aggregate: &Aggregate, stats: &WorkloadStats, ids: &RunIds) -> Vec<ErrorClass> {
    // Each worker numbers its own faults, so the same text may have several numbers.
    let mut merged: Vec<(ErrorClass, Vec<SampleId>)> = Vec::new();
    for (number, (count, examples)) in &stats.errors {
        let failure = aggregate.failures.get(number);
        let class = failure.map(|failure| failure.class).unwrap_or_default().as_str();
        let action = failure.and_then(|failure| failure.action.as_deref());
        let message =
            failure.map_or("the message of this fault was not recorded", |failure| &failure.message);
        let known = merged.iter_mut().find(|(other, _)| {
            other.class == class && other.action.as_deref() == action && other.message == message
        });
        if let Some((known, firsts)) = known {
            known.count += count;
            // What was seen is that of the first one.
            if examples.first() < firsts.first() {
                known.see(failure);
            }
            examples.iter().for_each(|example| keep_first(firsts, *example));
        } else {
            let mut new = ErrorClass {
                class: class.to_owned(),
                action: action.map(str::to_owned),
                message: message.to_owned(),
                subject: None,
                expected: None,
                found: None,
                body: None,
                count: *count,
                trace_ids: Vec::new(),
            };
            new.see(failure);
            merged.push((new, examples.clone()));
        }
    }
    merged.sort_by(|(one, one_first), (other, other_first)| {
        other.count.cmp(&one.count).then_with(|| one_first.cmp(other_first))
    });
    let named = merged.into_iter().map(|(error, examples)| {
        let trace_ids = examples.into_iter().map(|example| ids.trace_id(example)).collect();
        ErrorClass { trace_ids, ..error }
    });
    named.collect()
}

impl ErrorClass {
    /// Takes over what was seen in the answer.
    fn see(&mut self, failure: Option<&Failure>) {
        let seen = failure.and_then(|failure| failure.seen.as_deref()).cloned().unwrap_or_default();
        let FailureEvidence { subject, expected, found, body } = seen;
        (self.subject, self.expected, self.found, self.body) = (subject, expected, found, body);
    }
}

fn slow_iteration(aggregate: &Aggregate, sample: &IterationSample) -> SlowIteration {
    let names = aggregate.header().workloads.get(usize::from(sample.workload));
    let timing = |action: &measure::sample::ActionSample| ActionTiming {
        name: names
            .and_then(|names| names.actions.get(usize::from(action.action)))
            .map(|(name, _)| name.clone())
            .unwrap_or_default(),
        start_ms: milliseconds(action.offset_ns),
        duration_ms: milliseconds(action.duration_ns),
        status: action.outcome,
        group: action.requests == 0,
        syns_resent: action.phases.retransmits.syns,
        segments_resent: action.phases.retransmits.segments,
        segments_out_of_order: action.phases.retransmits.out_of_order,
    };
    SlowIteration {
        iteration: iteration_row(aggregate, &sample.head()),
        response_ms: milliseconds(sample.response_ns()),
        asynchronous_ms: None,
        actions: sample.actions.iter().map(timing).collect(),
        trace: TraceState::NotFetched,
        lacks_spans: false,
        cause: None,
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / NS_PER_S
}

fn count(value: u64) -> f64 {
    value as f64
}
