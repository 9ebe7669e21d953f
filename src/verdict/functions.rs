//! Thresholds on functions: `share(function "regex::compile") < 5%`. A random sample of iterations judges them.
//!
//! The share is the part of all samples of the iterations that is in the function or what it called. Its bounds are a
//! ratio's bounds over iterations: samples of one iteration depend on each other.

use super::threshold::ThresholdResult;
use super::traces::SampledIteration;
use super::words::{between, percent, percent_beside};
use measure::latency::SampleId;
use osprofiler::functions::model::SAMPLES_MIN;
use results::functions::Functions;
use results::largest::EXEMPLARS_MAX;
use results::model::{CriterionMeasurement, Outcome};
use terms::threshold::Threshold;

/// A share gets bounds only with this many iterations.
const ITERATIONS_MIN: usize = 20;
/// Two-sided, 95 %.
const DEVIATIONS: f64 = 1.96;

/// Judges the share of a function.
pub(super) fn judge(
    threshold: &Threshold,
    function: &str,
    sampled: &[&SampledIteration],
    profiled: bool,
) -> ThresholdResult {
    if !profiled {
        return ThresholdResult::invalid("no traces", 0, "the run was not profiled");
    }
    let counted: Vec<(f64, f64, SampleId)> = sampled
        .iter()
        .filter(|one| !one.functions.profiles.is_empty())
        .map(|one| {
            let (part, whole) = samples(&one.functions, function);
            (part, whole, one.id)
        })
        .collect();
    let whole: f64 = counted.iter().map(|(_, whole, _)| whole).sum();
    if whole <= 0.0 {
        let reason = "no iteration of the random sample has functions; services report them with osprofiler's feature \
                      `functions`";
        return ThresholdResult::invalid("no functions", 0, reason);
    }
    let n = counted.len();
    let part: f64 = counted.iter().map(|(part, ..)| part).sum();
    let share = part / whole;
    let (low, high) = bounds(&counted, share, whole);
    let holds = |share: f64| threshold.condition.operator.holds(share * 100.0, threshold.condition.limit);
    let (outcome, reason) = match (holds(low), holds(high)) {
        _ if whole < SAMPLES_MIN as f64 => {
            let reason = format!("{whole:.0} samples are too few: {SAMPLES_MIN} are needed; run longer");
            (Outcome::Inconclusive, reason)
        }
        _ if n < ITERATIONS_MIN => {
            let reason = "at least 20 random iterations with functions are needed; raise trace: {limit}, or run longer";
            (Outcome::Inconclusive, reason.to_owned())
        }
        (true, true) => (Outcome::Pass, String::new()),
        (false, false) => (Outcome::Fail, String::new()),
        _ => {
            let reason = "too close to the limit to decide with this many samples; raise trace: {limit}";
            (Outcome::Inconclusive, reason.to_owned())
        }
    };
    let spread = between(Some(percent(low * 100.0)), Some(percent(high * 100.0)));
    let mut worst: Vec<(f64, SampleId)> = counted
        .iter()
        .filter(|(part, whole, _)| *whole > 0.0 && !holds(part / whole))
        .map(|(part, _, id)| (*part, *id))
        .collect();
    worst.sort_by(|one, other| other.0.total_cmp(&one.0));
    ThresholdResult {
        outcome,
        observed: format!(
            "{}{spread}: {part:.0} of {whole:.0} samples in {n} random iterations",
            percent_beside(share * 100.0, threshold.condition.limit)
        ),
        measured: Some(CriterionMeasurement {
            unit: "%".to_owned(),
            limit: threshold.condition.limit,
            value: share * 100.0,
            low: Some(low * 100.0),
            high: Some(high * 100.0),
        }),
        samples: n as u64,
        reason: (outcome == Outcome::Inconclusive).then_some(reason),
        examples: match outcome {
            Outcome::Fail => worst.iter().take(EXEMPLARS_MAX).map(|(_, id)| *id).collect(),
            _ => Vec::new(),
        },
    }
}

/// Samples in the function or what it called, and all.
fn samples(functions: &Functions, wanted: &str) -> (f64, f64) {
    let (mut part, mut whole) = (0.0, 0.0);
    for profile in &functions.profiles {
        let is_it: Vec<bool> =
            profile.functions.iter().map(|function| is_named(&function.name, wanted)).collect();
        for stack in &profile.stacks {
            let samples = stack.samples as f64;
            whole += samples;
            if stack.frames.iter().any(|frame| is_it.get(*frame as usize) == Some(&true)) {
                part += samples;
            }
        }
        whole += profile.left_out as f64;
    }
    (part, whole)
}

/// Whether this is the function's name, or the end of its path.
fn is_named(name: &str, wanted: &str) -> bool {
    let mut name = name;
    while let Some(outer) = name.strip_suffix("::{{closure}}") {
        name = outer;
    }
    let path = name.strip_suffix(wanted);
    path.is_some_and(|path| path.is_empty() || path.ends_with("::") || path.ends_with('.'))
}

/// The bounds of a ratio; without a single sample in the function, the number of samples gives them.
fn bounds(counted: &[(f64, f64, SampleId)], share: f64, whole: f64) -> (f64, f64) {
    let n = counted.len() as f64;
    let squares: f64 = counted.iter().map(|(part, of, _)| (part - share * of).powi(2)).sum();
    let error = (squares * n / (n - 1.0).max(1.0)).sqrt() / whole;
    // None of n, or all of n: the rule of three.
    let least = if share <= 0.0 || share >= 1.0 { 3.0 / whole } else { 0.0 };
    let off = (DEVIATIONS * error).max(least);
    ((share - off).max(0.0), (share + off).min(1.0))
}

#[cfg(test)]
mod tests {
    use super::super::tests::threshold;
    use super::*;
    use osprofiler::functions::model::{Builder, Function};

    #[test]
    fn samples_whose_stack_was_not_kept_count_as_those_of_others() {
        let mut builder = Builder::new("wsgi", 100);
        builder.add(None, &[Function::named("app::main"), Function::named("regex::compile")], 4);
        builder.add(None, &[Function::named("app::main")], 5);
        builder.leave_out(6);
        let functions = Functions { profiles: vec![builder.finish()], unreadable: 0 };
        assert_eq!(samples(&functions, "compile"), (4.0, 15.0));
    }

    fn sampled(number: u64, stacks: &[(&[&str], u64)]) -> Vec<SampledIteration> {
        let one = |number| {
            let mut builder = Builder::new("wsgi", 100);
            for (names, samples) in stacks {
                let frames: Vec<Function> = names.iter().map(|name| Function::named(name)).collect();
                builder.add(None, &frames, samples + number % 2);
            }
            let functions = Functions { profiles: vec![builder.finish()], unreadable: 0 };
            SampledIteration { id: SampleId { workload: 0, number }, tree: None, functions: functions.into() }
        };
        (0..number).map(one).collect()
    }

    /// Iterations that broke the limit show a FAIL, and no others.
    #[test]
    fn examples_are_iterations_over_the_limit() {
        let mut all = sampled(40, &[(&["app::main"], 100)]);
        let heavy = sampled(40, &[(&["app::main", "regex::compile"], 9_000), (&["app::main"], 1_000)]);
        for (place, one) in heavy.into_iter().enumerate().filter(|(place, _)| [7, 13, 31].contains(place)) {
            all[place] = one;
        }
        let threshold = threshold("share(function \"compile\") < 0.1%");
        let terms::threshold::Metric::Share(function) = &threshold.condition.metric else { panic!() };
        let judged = judge(&threshold, function, &all.iter().collect::<Vec<_>>(), true);
        let mut numbers: Vec<u64> = judged.examples.iter().map(|id| id.number).collect();
        numbers.sort_unstable();
        assert_eq!((judged.outcome, numbers), (Outcome::Fail, vec![7, 13, 31]), "{:?}", judged.observed);
    }

    #[test]
    fn shares_are_judged_with_bounds() {
        let parts: [(&[&str], u64); 2] =
            [(&["app::main", "regex::compile"], 4), (&["app::main", "app::render::{{closure}}"], 16)];
        let all: [(&[&str], u64); 1] = [(&["app::main"], 20)];
        for (text, number, stacks, expected) in [
            ("share(function \"regex::compile\") < 30%", 50, &parts[..], Outcome::Pass),
            ("share(function \"compile\") < 5%", 50, &parts[..], Outcome::Fail),
            ("share(function \"compile\") < 21.4%", 50, &parts[..], Outcome::Inconclusive),
            ("share(function \"pile\") < 5%", 50, &parts[..], Outcome::Pass),
            ("share(function \"render\") > 60%", 50, &parts[..], Outcome::Pass),
            ("share(function \"compile\") < 5%", 50, &all[..], Outcome::Pass),
            ("share(function \"main\") < 99%", 50, &all[..], Outcome::Fail),
            // Too few iterations, too few samples, none.
            ("share(function \"compile\") < 30%", 19, &parts[..], Outcome::Inconclusive),
            ("share(function \"compile\") < 30%", 4, &all[..], Outcome::Inconclusive),
            ("share(function \"compile\") < 30%", 0, &all[..], Outcome::Invalid),
        ] {
            let sampled = sampled(number, stacks);
            let threshold = threshold(text);
            let terms::threshold::Metric::Share(function) = &threshold.condition.metric else {
                panic!("{text}")
            };
            let judged = judge(&threshold, function, &sampled.iter().collect::<Vec<_>>(), true);
            assert_eq!(judged.outcome, expected, "{text} of {number}: {judged:?}");
            assert_eq!(judged.examples.is_empty(), expected != Outcome::Fail, "{text}: {judged:?}");
        }
    }
}
