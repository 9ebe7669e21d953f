//! What profiling costs, in one sentence: the same in the terminal, in HTML and in Markdown.
//!
//! A cost is stated only if its bounds exclude zero. Nothing here computes a statistic.

use super::words::{duration, signed};
use results::model::{EffectAt, ObserverEffect, Results};

/// The percentiles in the sentence.
const PERCENTILES: [f64; 2] = [50.0, 99.0];

/// `Profiling costs 1.20 ms at p50 (900 µs to 1.50 ms, 12 %); no cost can be shown at p99: between −1.00 ms and
/// +3.00 ms.`
#[must_use]
pub fn sentence(effect: &ObserverEffect) -> String {
    if let Some(pairs) = effect.pairs {
        return of_pairs(effect, pairs);
    }
    let at = |wanted| effect.at(wanted);
    let counts = format!("{} unprofiled, {} profiled", effect.control, effect.profiled);
    let clauses: Vec<String> = PERCENTILES.iter().filter_map(|wanted| at(*wanted)).map(clause).collect();
    if clauses.is_empty() {
        return format!("Too few iterations to say what profiling costs ({counts}).");
    }
    let missing = match at(PERCENTILES[1]) {
        None => format!("; too few iterations to say the same of p{} ({counts})", PERCENTILES[1]),
        Some(_) => String::new(),
    };
    let text = format!("{}{missing}", clauses.join("; "));
    let mut chars = text.chars();
    chars.next().map_or_else(String::new, |first| format!("{}{}.", first.to_uppercase(), chars.as_str()))
}

/// `Before the load, profiling costs 1.20 ms at the median (900 µs to 1.50 ms, 12 %), from 20 pairs.`
fn of_pairs(effect: &ObserverEffect, pairs: u64) -> String {
    let noun = if pairs == 1 { "pair" } else { "pairs" };
    match effect.at(PERCENTILES[0]) {
        Some(at) => {
            let clause = clause(at).replacen("at p50", "at the median", 1);
            format!("Before the load, {clause}, from {pairs} {noun} of iterations.")
        }
        None => format!("Too few pairs of iterations to say what profiling costs ({pairs})."),
    }
}

/// The keys that measure what profiling costs, for a profiled run that has no measure of it.
#[must_use]
pub fn unmeasured(results: &Results) -> Option<&'static str> {
    let measured = results.workloads.iter().any(|workload| workload.observer_effect.is_some());
    let ran = results.workloads.iter().any(|workload| workload.iterations.total > 0);
    (results.profiling.enabled && ran && !measured).then_some(
        "what profiling costs is not measured: add `profile: {control: 5%}` or `probe: {pairs: 20}`",
    )
}

fn clause(at: &EffectAt) -> String {
    let EffectAt { percentile, difference_ms, low_ms, high_ms, .. } = *at;
    let share = difference_ms.abs() / at.control_ms * 100.0;
    let share = match share.is_finite() {
        true if share < 9.95 => format!(", {share:.1} %"),
        true => format!(", {share:.0} %"),
        false => String::new(),
    };
    if low_ms > 0.0 {
        let (cost, low, high) = (duration(difference_ms), duration(low_ms), duration(high_ms));
        return format!("profiling costs {cost} at p{percentile} ({low} to {high}{share})");
    }
    if high_ms < 0.0 {
        let (gain, low, high) = (duration(-difference_ms), duration(-high_ms), duration(-low_ms));
        return format!("profiled iterations took {gain} less at p{percentile} ({low} to {high}{share})");
    }
    format!("no cost can be shown at p{percentile}: between {} and {}", signed(low_ms), signed(high_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(percentile: f64, difference_ms: f64, low_ms: f64, high_ms: f64) -> EffectAt {
        EffectAt {
            percentile,
            profiled_ms: 10.0 + difference_ms,
            control_ms: 10.0,
            difference_ms,
            low_ms,
            high_ms,
        }
    }

    #[test]
    fn the_cost_is_a_sentence() {
        let counts = "(200 unprofiled, 1800 profiled)";
        for (percentiles, expected) in [
            (vec![], format!("Too few iterations to say what profiling costs {counts}.")),
            (
                vec![at(50.0, 1.2, 0.9, 1.5), at(99.0, 3.0, 1.0, 20.0)],
                "Profiling costs 1.20 ms at p50 (900 µs to 1.50 ms, 12 %); profiling costs 3.00 ms at p99 (1.00 ms \
                 to 20.0 ms, 30 %)."
                    .to_owned(),
            ),
            (
                vec![at(50.0, 0.05, -0.2, 0.3), at(90.0, 1.0, 0.5, 1.5)],
                format!(
                    "No cost can be shown at p50: between −200 µs and +300 µs; too few iterations to say the same of p99 \
                     {counts}."
                ),
            ),
            (
                vec![at(50.0, -0.3, -0.5, -0.1), at(99.0, 0.0, 0.0, 0.0)],
                "Profiled iterations took 300 µs less at p50 (100 µs to 500 µs, 3.0 %); no cost can be shown at p99: \
                 between 0 ms and 0 ms."
                    .to_owned(),
            ),
        ] {
            let effect = ObserverEffect { control_percent: 10.0, profiled: 1_800, control: 200, pairs: None, percentiles };
            assert_eq!(sentence(&effect), expected);
        }
        for (percentiles, expected) in [
            (vec![], "Too few pairs of iterations to say what profiling costs (20)."),
            (
                vec![at(50.0, 1.2, 0.9, 1.5)],
                "Before the load, profiling costs 1.20 ms at the median (900 µs to 1.50 ms, 12 %), from 20 pairs of \
                 iterations.",
            ),
            (
                vec![at(50.0, 0.1, -0.2, 0.3)],
                "Before the load, no cost can be shown at the median: between −200 µs and +300 µs, from 20 pairs of \
                 iterations.",
            ),
        ] {
            let effect = ObserverEffect {
                control_percent: 0.0,
                profiled: 20,
                control: 20,
                pairs: Some(20),
                percentiles,
            };
            assert_eq!(sentence(&effect), expected);
        }
    }
}
