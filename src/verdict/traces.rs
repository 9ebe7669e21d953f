//! Thresholds on trace points. A random sample of iterations judges them, never the slow iterations that are fetched
//! to find causes.

use std::sync::Arc;

use super::threshold::{ALPHA, ThresholdResult, by_share, settled, unclear};
use super::words::{between, milliseconds, number_beside, percent, time, time_beside};
use measure::latency::SampleId;
use osprofiler::report::TraceTree;
use results::functions::Functions;
use results::largest::EXEMPLARS_MAX;
use results::model::{CriterionMeasurement, Outcome, TraceState};
use results::{selection, trace};
use statistics::binomial::{BinomialCount, Share};
use statistics::mean::Mean;
use statistics::order::{at_percentile, at_rank, share_above};
use terms::threshold::{Figure, Metric, Statistic, Threshold, Unit};

/// A mean gets bounds only with this many traces.
const TRACES_MIN: usize = 20;
/// A mean passes an upper limit only with this many traces: fewer may miss rare slow iterations.
const TRACES_OF_SMALL_MEAN: usize = 100;
/// At most this share of the sample may lack a complete trace, because the missing traces are not a random part.
pub const MISSING_MAX: f64 = 0.2;
/// A number of calls that is the same in this many traces can break a limit: rarer iterations than one in four would have
/// shown, with 95 % confidence.
const TRACES_ALIKE: usize = 10;
/// It can hold a limit with this many: rarer iterations than one in ten would have shown.
const TRACES_ALIKE_TO_PASS: usize = 29;

/// A successful iteration of the random sample.
pub struct SampledIteration {
    pub id: SampleId,
    /// Its trace; `None` if the collector had none.
    pub tree: Option<TraceTree>,
    /// The functions that services reported with it.
    pub functions: Arc<Functions>,
}

/// Judges a threshold on trace points by the sampled iterations of its workload. `ran` is the number of all successful
/// iterations.
#[must_use]
pub fn judge(
    threshold: &Threshold,
    sampled: &[&SampledIteration],
    ran: u64,
    profiled: bool,
) -> ThresholdResult {
    let Metric::Trace(statistic, figure, points) = &threshold.condition.metric else {
        return ThresholdResult::invalid("not a trace metric", 0, "it is measured elsewhere");
    };
    if !profiled {
        return ThresholdResult::invalid("no traces", 0, "the run was not profiled");
    }
    if ran == 0 {
        return ThresholdResult::invalid("no samples", 0, "no iteration succeeded");
    }
    if sampled.is_empty() {
        let reason = "no random sample of traces was fetched; run with a collector and this threshold";
        return ThresholdResult::invalid("no traces", 0, reason);
    }
    let complete = |tree: &&TraceTree| trace::state(tree) == TraceState::Complete;
    let trees: Vec<(SampleId, &TraceTree)> =
        sampled.iter().filter_map(|one| Some((one.id, one.tree.as_ref().filter(complete)?))).collect();
    let (have, of) = (trees.len(), sampled.len());
    let missing = 1.0 - have as f64 / of as f64;
    if missing > MISSING_MAX {
        let reason =
            format!("only {have} of {of} sampled iterations have a complete trace; check the collector");
        return ThresholdResult::invalid(format!("{have} of {of} traces"), have as u64, reason);
    }
    let wanted = threshold.min_samples.unwrap_or(1);
    if (have as u64) < wanted {
        let reason =
            format!("min_samples is {wanted}, and {have} traces were sampled; raise trace: {{limit}}");
        return ThresholdResult::invalid(format!("{have} traces"), have as u64, reason);
    }
    if let Some(reason) = selection::unknown(trees.iter().map(|(_, tree)| *tree), points) {
        return ThresholdResult::invalid("no such point", have as u64, reason);
    }
    let scale = if *figure == Figure::Time { 1e3 } else { 1.0 };
    let of = |tree: &TraceTree| selection::figure(tree, points, *figure) as f64 * scale;
    let figures: Vec<(f64, SampleId)> = trees.iter().map(|(id, tree)| (of(tree), *id)).collect();
    of_figures(threshold, *statistic, &figures, ran)
}

/// Judges by these values of a random sample, in nanoseconds if they are times.
pub(super) fn of_figures(
    threshold: &Threshold,
    statistic: Statistic,
    figures: &[(f64, SampleId)],
    ran: u64,
) -> ThresholdResult {
    let condition = &threshold.condition;
    let is_time = condition.metric.unit() == Unit::Time;
    let shown = |value: f64| match is_time {
        true => time(value.max(0.0).round() as u64),
        false => format!("{}", (value * 100.0).round() / 100.0),
    };
    let n = figures.len() as u64;
    let mut ordered: Vec<f64> = figures.iter().map(|(value, _)| *value).collect();
    ordered.sort_by(f64::total_cmp);
    let (value, bounds, outcome, over, reason) = match statistic {
        Statistic::Mean => {
            let inorder: Vec<f64> = figures.iter().map(|(value, _)| *value).collect();
            of_mean(threshold, &inorder, is_time, n >= ran)
        }
        Statistic::Min | Statistic::Max => {
            let end = if statistic == Statistic::Min { ordered.first() } else { ordered.last() };
            let value = end.copied().unwrap_or(0.0);
            let (outcome, reason) = of_end(threshold, statistic, value, n >= ran);
            (value, (None, None), outcome, String::new(), reason)
        }
        Statistic::Percentile(at) => {
            // For lower limits, good samples count as over.
            let over = |value: f64| match condition.operator.bounds_above() {
                true => !condition.operator.holds(value, condition.limit),
                false => condition.operator.holds(value, condition.limit),
            };
            let k = ordered.iter().filter(|value| over(**value)).count() as u64;
            let (share, allowed) = (Share::independent(BinomialCount { k, n }), share_above(at));
            let outcome = by_share(&share, condition.operator, allowed, ALPHA);
            let bounds = share.order_bounds(at, ALPHA);
            let bound = |rank: Option<u64>| at_rank(&ordered, rank?);
            let bounds = (bound(bounds.low), bound(bounds.high));
            let over = format!("; {k} of {n} over the limit, {} allowed", percent(allowed * 100.0));
            (at_percentile(&ordered, at).unwrap_or(0.0), bounds, outcome, over, unclear(&share, allowed))
        }
    };
    let scale = if is_time { milliseconds } else { |value| value };
    let spread = between(bounds.0.map(shown), bounds.1.map(shown));
    let seen = match is_time {
        true => time_beside(value, condition.limit),
        false => number_beside(value, condition.limit),
    };
    let mut worst: Vec<(f64, SampleId)> = figures
        .iter()
        .copied()
        .filter(|(value, _)| !condition.operator.holds(*value, condition.limit))
        .collect();
    worst.sort_by(|a, b| b.0.total_cmp(&a.0));
    ThresholdResult {
        outcome,
        observed: format!("{seen}{spread} in {n} random iterations{over}"),
        measured: Some(CriterionMeasurement {
            unit: unit(&condition.metric).to_owned(),
            limit: scale(condition.limit),
            value: scale(value),
            low: bounds.0.map(scale),
            high: bounds.1.map(scale),
        }),
        samples: n,
        reason: (outcome == Outcome::Inconclusive).then_some(reason),
        examples: match outcome {
            Outcome::Fail => worst.iter().take(EXEMPLARS_MAX).map(|(_, id)| *id).collect(),
            _ => Vec::new(),
        },
    }
}

fn unit(metric: &Metric) -> &'static str {
    match metric {
        Metric::Trace(_, Figure::Calls, _) => "calls",
        Metric::Trace(_, Figure::Errors, _) => "errors",
        Metric::Trace(_, Figure::Depth, _) => "levels",
        _ => "ms",
    }
}

/// Judges the smallest or largest of a sample; `all` when the sample contains every iteration.
fn of_end(threshold: &Threshold, statistic: Statistic, value: f64, all: bool) -> (Outcome, String) {
    let condition = &threshold.condition;
    if !all && !settled(statistic == Statistic::Max, condition.operator, value, condition.limit) {
        let better = if statistic == Statistic::Max { "p(99)" } else { "p(1)" };
        let reason = format!(
            "a sample does not show the {statistic} of all iterations; use {better}, or raise trace: {{limit}} to all \
             iterations"
        );
        return (Outcome::Inconclusive, reason);
    }
    let holds = condition.operator.holds(value, condition.limit);
    (if holds { Outcome::Pass } else { Outcome::Fail }, String::new())
}

type MeanVerdict = (f64, (Option<f64>, Option<f64>), Outcome, String, String);

/// Judges the mean of the sample, with bounds of the mean of all iterations; `all` when the sample contains every
/// iteration. Counts that are the same in every trace are exact where times are not, and need few traces.
fn of_mean(threshold: &Threshold, values: &[f64], is_time: bool, all: bool) -> MeanVerdict {
    let condition = &threshold.condition;
    let same = values.iter().all(|value| value.total_cmp(&values[0]).is_eq());
    if !is_time && (all || same && values.len() >= TRACES_ALIKE) {
        let value = values.iter().sum::<f64>() / values.len() as f64;
        let (outcome, reason) = match condition.operator.holds(value, condition.limit) {
            false => (Outcome::Fail, String::new()),
            true if all || values.len() >= TRACES_ALIKE_TO_PASS => (Outcome::Pass, String::new()),
            true => {
                let needed =
                    format!("{TRACES_ALIKE_TO_PASS} traces are needed to rule out rare iterations with more");
                (Outcome::Inconclusive, format!("{needed}; raise trace: {{limit}}, or run longer"))
            }
        };
        return (value, (None, None), outcome, String::new(), reason);
    }
    let few = "at least 20 traces of random iterations are needed; raise trace: {limit}, or run longer";
    let Some(mean) = Mean::of_values(values).filter(|_| values.len() >= TRACES_MIN) else {
        let value = values.iter().sum::<f64>() / values.len() as f64;
        return (value, (None, None), Outcome::Inconclusive, String::new(), few.to_owned());
    };
    let (low, high) = mean.bounds(ALPHA);
    let holds = |value| condition.operator.holds(value, condition.limit);
    let few = values.len() < TRACES_OF_SMALL_MEAN;
    let (outcome, reason) = match (holds(low), holds(mean.value), holds(high)) {
        (true, true, true) if !few => (Outcome::Pass, String::new()),
        (false, false, false) if !few || condition.operator.bounds_above() => (Outcome::Fail, String::new()),
        (low, _, high) if low == high => {
            let reason = format!(
                "{} traces may miss rare slow iterations: {TRACES_OF_SMALL_MEAN} are needed; raise trace: {{limit}}, \
                 or run longer",
                values.len()
            );
            (Outcome::Inconclusive, reason)
        }
        _ => {
            let reason = "too close to the limit to decide with this many traces; raise trace: {limit}";
            (Outcome::Inconclusive, reason.to_owned())
        }
    };
    let bounds = if mean.error > 0.0 { (Some(low), Some(high)) } else { (None, None) };
    (mean.value, bounds, outcome, String::new(), reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use terms::threshold::parse;

    /// 50 traces that take 1 ms to 50 ms. The ranks are SciPy's. The 95th percentile has too few samples above it for
    /// an upper bound, so it cannot get PASS.
    #[test]
    fn percentiles_of_a_sample_have_bounds_where_there_are_any() {
        let figures: Vec<(f64, SampleId)> =
            (1..=50).map(|number| (number as f64 * 1e6, SampleId { workload: 0, number })).collect();
        for (text, value, low, high, outcome) in [
            ("p50(trace \"db\") < 10s", 25.0, Some(19.0), Some(32.0), Outcome::Pass),
            ("p50(trace \"db\") <= 32ms", 25.0, Some(19.0), Some(32.0), Outcome::Pass),
            ("p50(trace \"db\") < 32ms", 25.0, Some(19.0), Some(32.0), Outcome::Inconclusive),
            ("p50(trace \"db\") < 19ms", 25.0, Some(19.0), Some(32.0), Outcome::Fail),
            ("p95(trace \"db\") < 10s", 48.0, Some(45.0), None, Outcome::Inconclusive),
        ] {
            let condition = parse(text).unwrap();
            let Metric::Trace(statistic, ..) = &condition.metric else { panic!("{text}") };
            let statistic = *statistic;
            let threshold = Threshold {
                condition,
                window_ns: None,
                min_samples: None,
                abort_after_ns: None,
                warn: false,
            };
            let judged = of_figures(&threshold, statistic, &figures, 1_000);
            let seen = judged.measured.clone().unwrap();
            assert_eq!((seen.value, seen.low, seen.high), (value, low, high), "{text}: {judged:?}");
            assert_eq!(judged.outcome, outcome, "{text}: {judged:?}");
        }
    }

    #[test]
    fn a_sample_does_not_show_the_largest_of_all() {
        let figures = |n: u64| -> Vec<(f64, SampleId)> {
            (1..=n).map(|number| (number as f64 * 1e6, SampleId { workload: 0, number })).collect()
        };
        // The sample's times are 1 ms to 50 ms.
        for (text, ran, expected) in [
            ("max(trace \"db\") < 10s", 1000, Outcome::Inconclusive),
            ("max(trace \"db\") < 10s", 50, Outcome::Pass),
            ("max(trace \"db\") < 10ms", 1000, Outcome::Fail),
            ("max(trace \"db\") > 10ms", 1000, Outcome::Pass),
            ("max(trace \"db\") > 10s", 1000, Outcome::Inconclusive),
            ("min(trace \"db\") > 1us", 1000, Outcome::Inconclusive),
            ("min(trace \"db\") > 1us", 50, Outcome::Pass),
            ("min(trace \"db\") > 10ms", 1000, Outcome::Fail),
            ("min(trace \"db\") < 10ms", 1000, Outcome::Pass),
            // 20 traces are enough to fail an upper limit on a mean, not to pass it.
            ("avg(trace \"db\") < 1ms", 1000, Outcome::Fail),
            ("avg(trace \"db\") < 10s", 1000, Outcome::Inconclusive),
        ] {
            let threshold = Threshold {
                condition: parse(text).unwrap(),
                window_ns: None,
                min_samples: None,
                abort_after_ns: None,
                warn: false,
            };
            let Metric::Trace(statistic, ..) = &threshold.condition.metric else { panic!("{text}") };
            let judged = of_figures(&threshold, *statistic, &figures(50), ran);
            assert_eq!(judged.outcome, expected, "{text} of {ran}: {judged:?}");
            assert_eq!(judged.reason.is_some(), expected == Outcome::Inconclusive, "{text}: {judged:?}");
        }
    }

    /// Counts are exact: few traces that agree are enough, and times are not judged so.
    #[test]
    fn counts_that_agree_need_few_traces() {
        let alike = |n: u64, calls: f64| -> Vec<(f64, SampleId)> {
            (0..n).map(|number| (calls, SampleId { workload: 0, number })).collect()
        };
        let mut one_differs = alike(20, 12.0);
        one_differs[7].0 = 13.0;
        for (text, figures, ran, expected) in [
            ("count(trace \"db\") <= 12", alike(29, 12.0), 1_000, Outcome::Pass),
            ("count(trace \"db\") == 12", alike(29, 12.0), 1_000, Outcome::Pass),
            ("count(trace \"db\") <= 12", alike(10, 22.0), 1_000, Outcome::Fail),
            ("count(trace \"db\") >= 13", alike(10, 12.0), 1_000, Outcome::Fail),
            ("count(trace where error) == 0", alike(29, 0.0), 1_000, Outcome::Pass),
            ("errors(trace) == 0", alike(10, 1.0), 1_000, Outcome::Fail),
            ("depth(trace) <= 3", alike(29, 3.0), 1_000, Outcome::Pass),
            ("count(trace \"db\") <= 12", alike(28, 12.0), 1_000, Outcome::Inconclusive),
            ("count(trace \"db\") <= 12", alike(9, 22.0), 1_000, Outcome::Inconclusive),
            ("count(trace \"db\") <= 12", alike(3, 12.0), 3, Outcome::Pass),
            ("count(trace \"db\") <= 12", one_differs.clone(), 1_000, Outcome::Inconclusive),
            ("count(trace \"db\") <= 12", one_differs, 20, Outcome::Fail),
            ("avg(trace \"db\") <= 12ms", alike(10, 12.0), 1_000, Outcome::Inconclusive),
        ] {
            let condition = parse(text).unwrap();
            let Metric::Trace(statistic, ..) = &condition.metric else { panic!("{text}") };
            let statistic = *statistic;
            let threshold = Threshold {
                condition,
                window_ns: None,
                min_samples: None,
                abort_after_ns: None,
                warn: false,
            };
            let judged = of_figures(&threshold, statistic, &figures, ran);
            assert_eq!(judged.outcome, expected, "{text} of {ran}: {judged:?}");
        }
    }
}
