//! Whether a kind of point grew beyond its share of a typical trace.
//!
//! Where everything is slower, the kind that takes most of a typical trace takes most of the gap too, and is healthy.
//! The same holds of a stop of the whole process: it falls into whatever runs at that moment. So a kind that is slower,
//! rather than called more often, must have grown clearly more than the rest of its service, and of all services. And
//! if slow iterations come at the same moments, it must be unlikely that stops which fall anywhere happened to fall
//! into it. If a kind takes much of each trace, the slowest iterations are the ones in which it happened to take
//! longest. So it must have grown by more than its usual spread explains. Nothing here may fetch or print.

use super::attribution::{Attribution, Breakdown, KindContribution, mean_of, percentile};
use super::breakdown::Kind;
use super::late_work::{WAITING_IN_QUEUE, WAITING_TO_BEGIN, is_waiting};
use results::client_points::REPORTER;
use results::rpc::QUEUE;

/// The rest grew by at most this part of what the kind grew by, each relative to its time in typical traces.
const REST_GROWTH_MAX: f64 = 0.35;
/// A rest that takes less than this share of typical traces tells nothing.
const REST_MIN: f64 = 0.03;
/// The same where several kinds are compared with the rest together.
const REST_OF_SEVERAL_MIN: f64 = 0.1;
/// Work that waits to begin explains at least this share, at its lower bound: nothing else tells it from a busy machine.
const WAITS_MIN: f64 = 0.5;
/// The probability that stops fall into the kind as often by chance.
const CHANCE_MAX: f64 = 0.005;
const RESAMPLES: usize = 400;
/// Kinds that take less of typical traces are not what makes the slowest ones by their usual spread.
const SPREAD_FROM: f64 = 0.25;
/// The variance of what lies between the 10th and 50th percentile of a normal distribution, as a part of the whole:
/// typical traces lie there.
const VARIANCE_LEFT: f64 = 0.13;
/// By how many standard deviations the slowest percents are above typical traces on average, with some room for heavier
/// tails.
const ABOVE: f64 = 4.0;
/// A ratio of two variances may be this many times as large as it seems.
const RATIO_ROOM: f64 = 1.5;

/// Acquits kinds that only grew as much as all others. `together` says whether slow iterations come at the same moments.
pub(super) fn acquit(
    found: &mut Attribution,
    kinds: &[Kind],
    (slow, typical): (&[Breakdown], &[Breakdown]),
    together: bool,
    seed: u64,
) {
    let is_slower = |one: &KindContribution| one.is_cause && one.more_calls_us < one.slower_calls_us;
    let is_tested = |one: &KindContribution| is_slower(one) && is_of_service(&kinds[one.kind]);
    let suspects: Vec<usize> = found.causes.iter().filter(|one| is_tested(one)).map(|one| one.kind).collect();
    let grew = |kind: usize| {
        let one = [slow, typical].map(|traces| -> Vec<Split> {
            let split = |trace| Split::of(trace, |_| true, |other| other == kind);
            traces.iter().map(split).collect()
        });
        let [slow_rows, typical_rows] = one;
        if (Sides { slow: slow_rows, typical: typical_rows }).is_usual_spread() {
            return false;
        }
        let own = |other: usize| kinds[other].service == kinds[kind].service && is_of_service(&kinds[other]);
        let all = |other: usize| is_of_service(&kinds[other]);
        let scopes: [&dyn Fn(usize) -> bool; 2] = [&own, &all];
        scopes.iter().all(|is_in| {
            let alone = |other: usize| other == kind;
            let with_others = |other: usize| suspects.contains(&other);
            let groups: [(&dyn Fn(usize) -> bool, f64); 2] =
                [(&alone, REST_MIN), (&with_others, REST_OF_SEVERAL_MIN)];
            groups.iter().enumerate().any(|(number, (is_named, rest_min))| {
                let rows = |traces: &[Breakdown]| -> Vec<Split> {
                    traces.iter().map(|trace| Split::of(trace, is_in, is_named)).collect()
                };
                let sides = Sides { slow: rows(slow), typical: rows(typical) };
                match sides.rest_share() < *rest_min {
                    // With nothing to compare it with, the kind stays; all kinds together are everything.
                    true => number == 0,
                    false => sides.grew_alone(seed) && !(together && sides.is_by_chance()),
                }
            })
        })
    };
    let acquitted: Vec<usize> = suspects.iter().copied().filter(|&kind| !grew(kind)).collect();
    // A busy machine lets messages wait, too, but not only them.
    let is_short_wait = |one: &KindContribution| {
        [WAITING_IN_QUEUE, WAITING_TO_BEGIN].contains(&kinds[one.kind].name.as_str())
            && is_slower(one)
            && one.share_low < WAITS_MIN
    };
    found.causes.iter_mut().filter(|one| is_short_wait(one)).for_each(|one| one.is_cause = false);
    found.causes.iter_mut().filter(|one| acquitted.contains(&one.kind)).for_each(|one| one.is_cause = false);
}

/// Whether a kind is work of a service, rather than of the client or of a queue between services.
pub(super) fn is_of_service(kind: &Kind) -> bool {
    kind.service != REPORTER && kind.name != QUEUE && !is_waiting(&kind.name)
}

/// The time of a trace in the kinds in question, and in the rest.
#[derive(Clone, Copy, Debug, Default)]
struct Split {
    named_us: f64,
    rest_us: f64,
}

impl Split {
    fn of(trace: &Breakdown, is_in: impl Fn(usize) -> bool, is_named: impl Fn(usize) -> bool) -> Self {
        let mut split = Self::default();
        for part in trace.parts.iter().filter(|part| is_in(part.kind)) {
            let sum = if is_named(part.kind) { &mut split.named_us } else { &mut split.rest_us };
            *sum += part.exclusive_us;
        }
        split
    }
}

struct Sides {
    slow: Vec<Split>,
    typical: Vec<Split>,
}

impl Sides {
    fn typical_means(&self) -> (f64, f64) {
        means(&self.typical, &(0..self.typical.len()).collect::<Vec<_>>())
    }

    /// The rest's share of typical traces.
    fn rest_share(&self) -> f64 {
        let (named, rest) = self.typical_means();
        if named + rest > 0.0 { rest / (named + rest) } else { 0.0 }
    }

    /// Whether the rest certainly grew by less than the named kinds did.
    fn grew_alone(&self, seed: u64) -> bool {
        let mut random = fastrand::Rng::with_seed(seed);
        let ratios: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                let mut rows = |of: &[Split]| -> (f64, f64) {
                    let rows: Vec<usize> = of.iter().map(|_| random.usize(0..of.len())).collect();
                    means(of, &rows)
                };
                let (slow, typical) = (rows(&self.slow), rows(&self.typical));
                let growth = |slow: f64, typical: f64| (slow - typical) / typical.max(f64::MIN_POSITIVE);
                let (named, rest) = (growth(slow.0, typical.0), growth(slow.1, typical.1));
                if named > 0.0 { rest / named } else { f64::MAX }
            })
            .collect();
        percentile(&ratios, 95.0) <= REST_GROWTH_MAX
    }

    /// Whether the named kind, which takes much of each trace, takes longer in the slowest ones only because it always
    /// varies so much: the traces in which it took longest are the slowest.
    fn is_usual_spread(&self) -> bool {
        let (named, _) = self.typical_means();
        // A trace without the kind says nothing of how long it takes.
        let with_it = || self.typical.iter().filter(|one| one.named_us > 0.0);
        if 1.0 - self.rest_share() < SPREAD_FROM || named <= 0.0 {
            return false;
        }
        let of = |value: fn(&Split) -> f64| -> Vec<f64> { with_it().map(value).collect() };
        // The part of the variance of whole traces that is due to the kind; typical traces are alike as a whole, so that what
        // one part takes longer there, the other takes shorter.
        let (of_named, of_rest) =
            (RATIO_ROOM * variance(&of(|one| one.named_us)), variance(&of(|one| one.rest_us)));
        let left = |part: f64| 1.0 - (1.0 - VARIANCE_LEFT) * part;
        let seen = |part: f64| part * left(part) * of_rest < (1.0 - part) * left(1.0 - part) * of_named;
        let (mut low, mut high) = (0.0_f64, 1.0_f64);
        for _ in 0..40 {
            let middle = f64::midpoint(low, high);
            if seen(middle) { low = middle } else { high = middle }
        }
        let logs = of(|one| one.named_us.max(1.0).ln());
        let spread = variance(&logs).sqrt() / left(low).max(VARIANCE_LEFT).sqrt();
        let slow = means(&self.slow, &(0..self.slow.len()).collect::<Vec<_>>()).0;
        (slow / named).ln() <= ABOVE * low.sqrt() * spread
    }

    /// Whether stops that fall anywhere in a trace would often enough fall into the rest as seldom as here.
    fn is_by_chance(&self) -> bool {
        let (named, rest) = self.typical_means();
        let in_rest = |one: &&Split| one.rest_us - rest > (one.named_us - named).max(0.0);
        let seen = self.slow.iter().filter(in_rest).count();
        at_most(seen, self.slow.len(), self.rest_share()) > CHANCE_MAX
    }
}

fn means(of: &[Split], rows: &[usize]) -> (f64, f64) {
    let all = |value: fn(&Split) -> f64| mean_of(&of.iter().map(value).collect::<Vec<_>>(), rows);
    (all(|one| one.named_us), all(|one| one.rest_us))
}

fn variance(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len().max(2) - 1) as f64
}

/// The probability of at most `seen` of `n` where each has this probability.
fn at_most(seen: usize, n: usize, probability: f64) -> f64 {
    let (mut term, mut sum) = ((1.0 - probability).powi(i32::try_from(n).unwrap_or(i32::MAX)), 0.0);
    for number in 0..=seen.min(n) {
        sum += term;
        let left = (n - number) as f64 / (number + 1) as f64;
        term *= left * probability / (1.0 - probability).max(f64::MIN_POSITIVE);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kind_that_a_typical_trace_lacks_has_no_larger_spread_for_it() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut rows = |number: usize, ms: f64| -> Vec<Split> {
            let mut noisy = |us: f64| us * (0.9 + 0.2 * random.f64());
            (0..number).map(|_| Split { named_us: noisy(1e3 * ms), rest_us: noisy(10e3) }).collect()
        };
        let mut sides = Sides { slow: rows(20, 150.0), typical: rows(160, 20.0) };
        assert!(!sides.is_usual_spread());
        sides.typical[0].named_us = 0.0;
        assert!(!sides.is_usual_spread());
        // Of this, the slowest are what its spread makes of it.
        sides.slow = rows(20, 24.0);
        assert!(sides.is_usual_spread());
    }

    #[test]
    fn chances_are_those_of_the_binomial_distribution() {
        // scipy.stats.binom.cdf(k, n, p)
        for (seen, n, probability, expected) in
            [(0, 20, 0.21, 0.008_965), (2, 30, 0.21, 0.033_709), (5, 20, 0.1, 0.988_747), (3, 3, 0.5, 1.0)]
        {
            let found = at_most(seen, n, probability);
            assert!((found - expected).abs() < 1e-5, "{seen} of {n}: {found}");
        }
    }
}
