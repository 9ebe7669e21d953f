//! How the calls of a kind share what the kind takes longer: all alike, or a few of them.
//!
//! A mean over all calls hides the one that matters: if one of twenty calls takes 112 ms longer, each takes 5.6 ms
//! longer on average, and none does. So calls are compared by rank: the longest of a slow trace with the longest of a
//! typical one, and so on. Which ranks matter is told by exclusive times on the critical path; how much longer a call
//! takes is told by its own time, as in the trace. Nothing here may name a cause.

use super::contrast::Points;
use results::model::CallSpread;
use statistics::order::at_percentile;

/// The calls that matter make at least this share of the difference.
const MATTERS: f64 = 0.8;
/// Calls are alike if each takes at least this share of the mean difference longer, and at most the inverse.
const ALIKE_MIN: f64 = 0.5;
/// More ranks are not looked at: the rest of them counts together.
const RANKS_MAX: usize = 10_000;

/// Of one side, for each rank: the mean over all traces of the exclusive time, and the mean own time of those that have it.
#[derive(Default)]
struct Ranks {
    exclusive_us: Vec<f64>,
    own_us: Vec<f64>,
    /// The mean number of calls.
    calls: f64,
}

impl Ranks {
    fn of(traces: &[Points<'_>]) -> Self {
        let number = traces.len().max(1) as f64;
        let mut ranks = Self::default();
        let mut seen: Vec<f64> = Vec::new();
        for points in traces {
            let own_us = |place: usize| points[place].0.self_us.unwrap_or(0) as f64;
            let mut order: Vec<usize> = (0..points.len()).collect();
            order.sort_by(|&one, &other| {
                let key = |place: usize| (points[place].1, own_us(place));
                let ((exclusive, own), (other_exclusive, other_own)) = (key(one), key(other));
                other_exclusive.total_cmp(&exclusive).then(other_own.total_cmp(&own))
            });
            ranks.calls += points.len() as f64 / number;
            for (rank, &place) in order.iter().take(RANKS_MAX).enumerate() {
                if rank == seen.len() {
                    seen.push(0.0);
                    ranks.exclusive_us.push(0.0);
                    ranks.own_us.push(0.0);
                }
                seen[rank] += 1.0;
                ranks.exclusive_us[rank] += points[place].1 / number;
                ranks.own_us[rank] += own_us(place);
            }
        }
        for (sum, traces) in ranks.own_us.iter_mut().zip(seen) {
            *sum /= traces;
        }
        ranks
    }
}

/// How the calls share the difference; `None` for a kind with one call, or that does not take longer.
#[must_use]
pub fn spread(slow: &[Points<'_>], typical: &[Points<'_>]) -> Option<CallSpread> {
    let (slow, typical) = (Ranks::of(slow), Ranks::of(typical));
    // Calls that one side lacks are more calls, and not slower ones.
    let both = slow.calls.min(typical.calls).round() as usize;
    let ranks = both.max(1).min(slow.exclusive_us.len());
    if slow.calls <= 1.0 || ranks == 0 {
        return None;
    }
    let of = |side: &[f64], rank: usize| side.get(rank).copied().unwrap_or(0.0);
    let differences = |slow: &[f64], typical: &[f64]| -> Vec<f64> {
        (0..ranks).map(|rank| of(slow, rank) - of(typical, rank)).collect()
    };
    let exclusive_us = differences(&slow.exclusive_us, &typical.exclusive_us);
    let own_us = differences(&slow.own_us, &typical.own_us);
    let all_us: f64 = exclusive_us.iter().sum();
    let mean_us = mean(&own_us);
    if all_us <= 0.0 || mean_us <= 0.0 {
        return None;
    }
    let is_alike = |us: &f64| (ALIKE_MIN * mean_us..=mean_us / ALIKE_MIN).contains(us);
    let longest = match own_us.iter().all(is_alike) {
        true => ranks,
        false => {
            let mut sum_us = 0.0;
            let is_enough = |us: &f64| {
                sum_us += us;
                sum_us >= MATTERS * all_us
            };
            exclusive_us.iter().position(is_enough).map_or(ranks, |rank| rank + 1)
        }
    };
    let (first, others) = own_us.split_at(longest);
    Some(CallSpread {
        of: slow.calls,
        longest: longest as u64,
        each_alike: longest == ranks && own_us.iter().all(is_alike),
        longer_ms: mean(first) / 1e3,
        most_longer_ms: first.first().copied().unwrap_or(0.0) / 1e3,
        others_longer_ms: median(others).map(|us| us / 1e3),
    })
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    at_percentile(&sorted, 50.0)
}
