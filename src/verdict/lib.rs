//! Whether a run passes.
//!
//! Exact counts and sums judge Rally's criteria. Thresholds get the certainty that their samples allow ([`threshold`]).
//! Percentiles of a random sample judge nothing. A criterion without samples is INVALID and never passes. An arrival
//! that failed, never started or was cut off never makes a figure look better ([`arrivals`]). What is decided by
//! iterations that failed without a fault of the service is INVALID (`limits`). Nothing here prints or exits.

pub mod arrivals;
pub mod asynchronous;
pub mod compare;
mod examples;
mod functions;
pub mod generator;
pub mod history;
mod limits;
pub mod live;
mod numbers;
pub mod paired;
pub mod separation;
pub mod sla;
pub mod standing;
#[cfg(test)]
mod tests;
pub mod threshold;
pub mod traces;
pub mod trend;
mod words;

use uuid::Uuid;

use measure::latency::SampleId;
use measure::log::Status;
use results::aggregate::Aggregate;
use results::counting::WorkloadCounts;
use results::model::{self, Criterion, CriterionMeasurement, ObserverEffect, Outcome, Severity, Verdict};
use results::record;
use terms::threshold::{Metric, Threshold};
use threshold::{ALPHA, Judge, ThresholdResult};
use traces::SampledIteration;
use words::{percent, percent_beside};

/// Two failure rates that differ by at most this count as equal, even when the difference is significant.
pub const FAILS_ALIKE: f64 = 0.001;
/// A failure rate that is higher by this much matters, significant or not. A round in which a larger share of
/// iterations fails counts as affected.
const FAILS_MORE: f64 = 0.01;

/// The data that a run is judged by.
pub struct Evidence<'a> {
    /// The contents of the log, with the criteria in its header.
    pub aggregate: &'a Aggregate,
    /// The workloads' results, for the cost of profiling.
    pub workloads: &'a [model::Workload],
    /// The random sample of iterations with their traces.
    pub sampled: &'a [SampledIteration],
    /// The same sample with its asynchronous work, for each workload that has it.
    pub asynchronous: &'a [Option<asynchronous::AsynchronousTraceSample>],
}

/// Judges every workload by its own criteria; a shard of a load by none.
#[must_use]
pub fn judge(evidence: &Evidence<'_>) -> Verdict {
    let aggregate = evidence.aggregate;
    let mut criteria = Vec::new();
    // A part of a load says nothing of the whole.
    let is_shard = aggregate.header().shard.is_some();
    let parts =
        aggregate.workloads.iter().zip(&aggregate.header().workloads).zip(&aggregate.counted.workloads);
    for (number, ((stats, header), counts)) in parts.enumerate().filter(|_| !is_shard) {
        criteria.extend(sla::judge(aggregate, header, stats, &counts.rally));
        let sampled: Vec<&SampledIteration> =
            evidence.sampled.iter().filter(|one| usize::from(one.id.workload) == number).collect();
        for (index, threshold) in header.sla.thresholds.iter().enumerate() {
            let ended_by = aggregate.end.as_ref().and_then(|end| end.aborted_by);
            let aborted = ended_by == Some((number, index));
            let judged = of_threshold(evidence, number, (threshold, aborted), counts, &sampled);
            criteria.push(criterion(aggregate, &header.name, threshold, judged, aborted));
        }
    }
    let mut invalid = record::faults(aggregate);
    let is_whole = invalid.is_empty();
    let end = aggregate.end.as_ref();
    invalid.extend(
        end.and_then(|end| end.generator.as_ref())
            .map(|seen| generator::faults(seen, |workload| mean_ms(aggregate, workload)))
            .unwrap_or_default(),
    );
    let outcome = match worst(&criteria) {
        _ if !is_whole => Outcome::Invalid,
        // The load generator may have been the cause of every figure.
        Outcome::Pass | Outcome::Fail | Outcome::Inconclusive if !invalid.is_empty() => Outcome::Invalid,
        // A log without an end does not show what ran after its last frame.
        Outcome::Pass if end.is_none() => Outcome::Inconclusive,
        // A failed run cannot pass.
        Outcome::Pass if end.is_some_and(|end| end.status == Status::Failed) => {
            let error = end.and_then(|end| end.error.as_deref()).unwrap_or("see its notes");
            invalid.push(format!("the run itself failed: {error}"));
            Outcome::Invalid
        }
        outcome => outcome,
    };
    Verdict { outcome, invalid, criteria }
}

/// The mean time of a workload's iterations.
fn mean_ms(aggregate: &Aggregate, workload: u16) -> Option<f64> {
    let response = &aggregate.workloads.get(usize::from(workload))?.response;
    (response.count() > 0).then(|| response.mean_ns() / 1e6)
}

fn of_threshold(
    evidence: &Evidence<'_>,
    number: usize,
    (threshold, aborted): (&Threshold, bool),
    counts: &WorkloadCounts,
    sampled: &[&SampledIteration],
) -> ThresholdResult {
    let profiled = evidence.aggregate.header().profiling_off.is_none();
    let metric = &threshold.condition.metric;
    let stats = evidence.aggregate.workloads.get(number);
    let ran = stats.map_or(0, |stats| stats.iterations.ok);
    if let Metric::Asynchronous(statistic) = metric {
        let sample = evidence.asynchronous.get(number).and_then(Option::as_ref);
        return asynchronous::judge(threshold, *statistic, sample, ran, profiled);
    }
    if let Metric::Share(function) = metric {
        return functions::judge(threshold, function, sampled, profiled);
    }
    if metric.needs_traces() {
        return traces::judge(threshold, sampled, ran, profiled);
    }
    if let Metric::Overhead(at) = metric {
        let effect = evidence.workloads.get(number).and_then(|workload| workload.observer_effect.as_ref());
        return overhead(threshold, *at, effect, profiled);
    }
    match counts.of(threshold) {
        Some((series, limit)) => {
            let of_bench = stats.map_or(0, |stats| evidence.aggregate.failed_of_bench(stats));
            Judge { threshold, series, limit, alpha: ALPHA }.judge_without(of_bench, aborted)
        }
        None => ThresholdResult::invalid("no samples", 0, "the run does not have this action"),
    }
}

/// The time that profiling adds, in percent of an unprofiled iteration.
fn overhead(
    threshold: &Threshold,
    at: f64,
    effect: Option<&ObserverEffect>,
    profiled: bool,
) -> ThresholdResult {
    let Some(effect) = effect else {
        let reason = match profiled {
            true => {
                "every iteration was profiled, so there is nothing to compare with; add profile: {control: 10%}, or probe: {pairs: 20} for the median"
            }
            false => "the run was not profiled",
        };
        return ThresholdResult::invalid("nothing to compare", 0, reason);
    };
    let samples = effect.control.min(effect.profiled);
    let found = effect.at(at);
    let Some(found) = found.filter(|found| found.control_ms > 0.0) else {
        let reason = format!("too few iterations, or the overhead at p{at} is not measured");
        return ThresholdResult::invalid("unknown", samples, reason);
    };
    let wanted = threshold.min_samples.unwrap_or(1);
    if samples < wanted {
        let reason = format!(
            "min_samples is {wanted}, and the smaller group has {samples}; run longer, or leave more iterations \
             unprofiled"
        );
        return ThresholdResult::invalid(format!("{samples} samples"), samples, reason);
    }
    let share = |ms: f64| ms / found.control_ms * 100.0;
    let (value, low, high) = (share(found.difference_ms), share(found.low_ms), share(found.high_ms));
    let condition = &threshold.condition;
    let holds = |value| condition.operator.holds(value, condition.limit);
    let outcome = match (holds(low), holds(high)) {
        (true, true) => Outcome::Pass,
        (false, false) => Outcome::Fail,
        _ => Outcome::Inconclusive,
    };
    let reason = "too close to the limit to decide; run longer, or leave more iterations unprofiled";
    ThresholdResult {
        outcome,
        observed: format!(
            "{} ({} to {})",
            percent_beside(value, condition.limit),
            percent(low),
            percent(high)
        ),
        measured: Some(CriterionMeasurement {
            unit: "%".to_owned(),
            limit: condition.limit,
            value,
            low: Some(low),
            high: Some(high),
        }),
        samples,
        reason: (outcome == Outcome::Inconclusive).then(|| reason.to_owned()),
        examples: Vec::new(),
    }
}

fn criterion(
    aggregate: &Aggregate,
    workload: &str,
    threshold: &Threshold,
    judged: ThresholdResult,
    aborted: bool,
) -> Criterion {
    // It may be that faults of bench ended the load.
    let aborted = aborted && judged.outcome != Outcome::Invalid;
    Criterion {
        workload: workload.to_owned(),
        criterion: "thresholds".to_owned(),
        condition: threshold.to_string(),
        trace_ids: trace_ids(aggregate, &judged.examples),
        observed: judged.observed,
        // The result was certain when it ended the load.
        outcome: if aborted { Outcome::Fail } else { judged.outcome },
        severity: if threshold.warn { Severity::Warn } else { Severity::Fail },
        reason: judged.reason.filter(|_| !aborted),
        measured: judged.measured,
        aborted,
        samples: judged.samples,
    }
}

/// The ids of iterations that show something: of those that have a trace, if there are such.
fn trace_ids(aggregate: &Aggregate, examples: &[SampleId]) -> Vec<Uuid> {
    let ids = aggregate.log.ids();
    let is_profiled = |id: &&SampleId| !ids.is_control(**id);
    let any = examples.iter().any(|id| is_profiled(&id));
    examples.iter().filter(|id| !any || is_profiled(id)).map(|id| aggregate.trace_id(*id)).collect()
}

/// The worst outcome of the criteria that can fail the run; `None` without such criteria.
fn worst(criteria: &[Criterion]) -> Outcome {
    let counting = criteria.iter().filter(|criterion| criterion.severity == Severity::Fail);
    // A criterion without a condition does not fail a run.
    Outcome::worst(counting.map(|criterion| match criterion.outcome {
        Outcome::None => Outcome::Pass,
        outcome => outcome,
    }))
}
