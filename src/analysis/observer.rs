//! The overhead of profiling: profiled iterations against the unprofiled ones of the same run.
//!
//! Each iteration is left unprofiled at random, independently of the others. So everything that changes during a run
//! (a cache that warms up, load from neighbours, a burst) affects both groups equally. The number of times in a group
//! below a value has at most the variance of a binomial, even if iterations depend on each other. This is inference
//! from the assignment, not from a model of the times (Neyman 1923). So the bounds of order statistics hold here under
//! drift, while they would not hold for two separate runs. The method of variance estimates recovery (Zou and Donner
//! 2008) turns the bounds of both groups into bounds of their difference; it does not need symmetry.
//!
//! Limit: slowdown that profiled iterations cause in their neighbours affects both groups and is not measured. Nothing
//! here may guess from too few samples.

use results::aggregate::ServiceTimes;
use results::model::{EffectAt, ObserverEffect};
use statistics::binomial::Share;
use statistics::order::{at_rank, rank};
use terms::control::ControlShare;

/// The percentiles that are compared if both groups have enough samples.
const PERCENTILES: [f64; 4] = [50.0, 90.0, 95.0, 99.0];
/// Each group needs this many iterations. Higher percentiles need more, so that their bounds exist (about 370 for the
/// 99th).
pub const SAMPLES_MIN: usize = 50;
/// The error probability of each bound of a group.
const TAIL: f64 = 0.025;
const NS_PER_MS: f64 = 1e6;

/// The overhead of profiling; `None` for a run without unprofiled iterations.
#[must_use]
pub fn effect(sides: &ServiceTimes, share: ControlShare) -> Option<ObserverEffect> {
    if share.is_none() {
        return None;
    }
    let profiled = sorted(&sides.profiled.kept_ns);
    let control = sorted(&sides.control.kept_ns);
    let at = |percentile| {
        let (with, without) = (quantile(&profiled, percentile)?, quantile(&control, percentile)?);
        Some(difference(percentile, with, without))
    };
    Some(ObserverEffect {
        control_percent: share.percent(),
        profiled: sides.profiled.seen,
        control: sides.control.seen,
        pairs: None,
        percentiles: PERCENTILES.into_iter().filter_map(at).collect(),
    })
}

/// A quantile with its bounds.
#[derive(Clone, Copy)]
struct Quantile {
    value: f64,
    low: f64,
    high: f64,
}

fn sorted(times_ns: &[u64]) -> Vec<u64> {
    let mut sorted = times_ns.to_vec();
    sorted.sort_unstable();
    sorted
}

/// The percentile with two order statistics as its bounds; `None` with too few samples.
fn quantile(sorted_ns: &[u64], percentile: f64) -> Option<Quantile> {
    let (low, value, high) = ranks(sorted_ns.len(), percentile)?;
    let at = |rank: u64| at_rank(sorted_ns, rank).map(|ns| ns as f64 / NS_PER_MS);
    Some(Quantile { value: at(value)?, low: at(low)?, high: at(high)? })
}

/// The ranks, from 1, of a quantile's lower bound, of the quantile and of its upper bound among `count` samples. The
/// number of samples below the quantile is binomial, and each bound is wrong with a probability of at most [`TAIL`].
fn ranks(count: usize, percentile: f64) -> Option<(u64, u64, u64)> {
    if count < SAMPLES_MIN {
        return None;
    }
    let count = count as u64;
    let bounds = Share::weighed(count, 1.0).order_bounds(percentile, TAIL);
    Some((bounds.low?, rank(count, percentile)?, bounds.high?))
}

fn difference(percentile: f64, with: Quantile, without: Quantile) -> EffectAt {
    let difference_ms = with.value - without.value;
    EffectAt {
        percentile,
        profiled_ms: with.value,
        control_ms: without.value,
        difference_ms,
        low_ms: difference_ms - (with.value - with.low).hypot(without.high - without.value),
        high_ms: difference_ms + (with.high - with.value).hypot(without.value - without.low),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use measure::ids::RunIds;
    use statistics::order::binomial_cdf;
    use uuid::Uuid;

    fn share(percent: f64) -> ControlShare {
        ControlShare::from_percent(percent)
    }

    /// The ranks in tables of nonparametric confidence intervals (the median of 50 and 100 samples), and the number of
    /// samples that the bounds of each percentile need.
    #[test]
    fn ranks_match_published_tables() {
        assert_eq!(ranks(50, 50.0), Some((18, 25, 33)));
        assert_eq!(ranks(100, 50.0), Some((40, 50, 61)));
        for (percentile, least) in [(50.0, 50), (90.0, 50), (95.0, 72), (99.0, 368)] {
            assert_eq!(ranks(least - 1, percentile), None, "{percentile}");
            assert!(ranks(least, percentile).is_some(), "{percentile}");
        }
        for count in [50, 51, 99, 1000, 100_000] {
            let (low, value, high) = ranks(count, 50.0).unwrap();
            assert!(1 <= low && low < value && value < high && high <= count as u64);
            assert!(binomial_cdf((low - 1) as f64, count as f64, 0.5) <= TAIL, "{count}");
            assert!(1.0 - binomial_cdf((high - 1) as f64, count as f64, 0.5) <= TAIL, "{count}");
        }
    }

    /// Times without profiling: the level drifts, bursts last, and tails are long.
    fn times_ns(random: &mut fastrand::Rng, count: usize, drift: f64) -> Vec<u64> {
        let mut burst = 0.0;
        (0..count)
            .map(|index| {
                burst = if random.f64() < 0.01 { 20.0 * random.f64() } else { burst * 0.95 };
                let level = 10.0 + drift * (index as f64 / count as f64);
                let tail = -2.0 * (1.0 - random.f64()).ln();
                ((level + burst + tail) * NS_PER_MS) as u64
            })
            .collect()
    }

    /// The time of an iteration with profiling, which costs more for some than for others.
    fn profiled_ns(ns: u64, index: usize) -> u64 {
        ns + 500_000 + (index as u64 * 7919) % 300_000 + ns / 50
    }

    /// In 95 of 100 runs the bounds contain the true overhead, with drift and bursts too. The true overhead is known
    /// here, because both times of every iteration are known.
    #[test]
    fn bounds_contain_the_known_cost() {
        const RUNS: usize = 300;
        for (drift, percent, count) in
            [(0.0, 10.0, 2_000), (30.0, 10.0, 2_000), (30.0, 50.0, 2_000), (10.0, 10.0, 6_000)]
        {
            let mut random = fastrand::Rng::with_seed(7);
            let mut held = [0; PERCENTILES.len()];
            let mut bounded = [0; PERCENTILES.len()];
            for run in 0..RUNS {
                let without = times_ns(&mut random, count, drift);
                let with: Vec<u64> = (0..).zip(&without).map(|(index, ns)| profiled_ns(*ns, index)).collect();
                let ids = RunIds::new(Uuid::from_u128(run as u128), share(percent));
                let mut sides = ServiceTimes::default();
                for index in 0..count {
                    let (side, time) = match ids.is_control((0, index as u64)) {
                        true => (&mut sides.control, without[index]),
                        false => (&mut sides.profiled, with[index]),
                    };
                    side.kept_ns.push(time);
                    side.seen += 1;
                }
                let (with, without) = (sorted(&with), sorted(&without));
                for seen in effect(&sides, share(percent)).unwrap().percentiles {
                    let place = PERCENTILES.iter().position(|known| *known == seen.percentile).unwrap();
                    let place_of_rank = rank(count as u64, seen.percentile).unwrap() as usize - 1;
                    let truth_ms = (with[place_of_rank] as f64 - without[place_of_rank] as f64) / NS_PER_MS;
                    bounded[place] += 1;
                    held[place] += usize::from((seen.low_ms..=seen.high_ms).contains(&truth_ms));
                }
            }
            for (place, percentile) in
                PERCENTILES.iter().enumerate().filter(|(place, _)| bounded[*place] > 50)
            {
                let coverage = held[place] as f64 / bounded[place] as f64;
                // Three standard deviations below 95 in 100.
                assert!(coverage >= 0.915, "drift {drift}, {percent} %, p{percentile}: {coverage}");
            }
        }
    }

    /// If profiling costs nothing, at most 5 % of runs claim a cost.
    #[test]
    fn no_cost_is_claimed_without_a_cost() {
        const RUNS: usize = 300;
        let mut random = fastrand::Rng::with_seed(11);
        let mut claimed = [0; PERCENTILES.len()];
        for run in 0..RUNS {
            let ids = RunIds::new(Uuid::from_u128(run as u128), share(20.0));
            let mut sides = ServiceTimes::default();
            for (number, ns) in (0..).zip(times_ns(&mut random, 4_000, 20.0)) {
                let side = match ids.is_control((0, number)) {
                    true => &mut sides.control,
                    false => &mut sides.profiled,
                };
                side.kept_ns.push(ns);
                side.seen += 1;
            }
            for (claimed, seen) in claimed.iter_mut().zip(effect(&sides, share(20.0)).unwrap().percentiles) {
                *claimed += usize::from(seen.low_ms > 0.0 || seen.high_ms < 0.0);
            }
        }
        assert!(claimed.iter().all(|claimed| *claimed <= RUNS / 11), "{claimed:?}");
    }

    #[test]
    fn too_few_samples_give_no_percentiles() {
        let mut sides = ServiceTimes::default();
        assert_eq!(effect(&sides, ControlShare::NONE), None);
        sides.profiled.kept_ns = vec![1_000_000; 1_000];
        sides.control.kept_ns = vec![1_000_000; SAMPLES_MIN - 1];
        assert!(effect(&sides, share(10.0)).unwrap().percentiles.is_empty());
        sides.control.kept_ns = vec![1_000_000; 100];
        let seen = effect(&sides, share(10.0)).unwrap();
        let percentiles: Vec<f64> = seen.percentiles.iter().map(|at| at.percentile).collect();
        assert_eq!(percentiles, [50.0, 90.0, 95.0]);
        assert!(seen.percentiles.iter().all(|at| (at.low_ms, at.high_ms) == (0.0, 0.0)), "ties only");
    }
}
