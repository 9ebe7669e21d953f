//! Which kind of trace point makes slow iterations slower than typical ones.
//!
//! Every trace is broken down into exclusive times on its critical path, by kind of point; a kind that a trace
//! lacks counts as 0. Then `Δ_k = mean_slow(E_k) - mean_fast(E_k)`. The parts of each trace add up to its
//! duration, so the `Δ_k` add up to the gap: `share_k = Δ_k / ΔT` (the mean's analogue of VProfiler's variance
//! tree). A kind is a cause only if the bootstrap bounds, the effect size and own times without clocks agree;
//! otherwise it is a candidate. Shares explain a difference; they do not prove a cause.

use results::model::OwnTime;
use statistics::order::at_percentile;

/// A cause needs this many slow traces.
pub const SLOW_MIN: usize = 20;
/// A cause needs this many fast traces.
pub const FAST_MIN: usize = 40;
/// At most this share of traces may be left out because they are incomplete.
pub const INCOMPLETE_MAX: f64 = 0.2;
const RESAMPLES: usize = 2_000;
const SCORE_MIN: f64 = 0.2;
const EFFECT_MIN: f64 = 0.33;
const EXCEED_MIN: f64 = 0.3;
/// A place has the time if at least this share of it lies there.
const LIES_MIN: f64 = 0.8;
/// This many kinds get bounds; all others explain less.
const CAUSES_MAX: usize = 12;

/// A trace, broken down.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Breakdown {
    /// Its parts, at most one for each kind; their exclusive times add up to the whole.
    pub parts: Vec<Part>,
}

/// The times and calls of one kind of point in a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Part {
    /// The kind's number, from 0.
    pub kind: usize,
    /// Its exclusive time on the critical path.
    pub exclusive_us: f64,
    /// Its durations without its children's, on and off the critical path.
    pub self_us: f64,
    /// The number of points.
    pub calls: f64,
    /// Where its exclusive time lies.
    pub lies: OwnTimeSplit,
}

/// Where exclusive time lies in its points, or by how much the parts of it differ; what lies in points without children is
/// the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct OwnTimeSplit {
    /// Before the first child, in microseconds.
    pub before_us: f64,
    /// Between children.
    pub between_us: f64,
    /// After the last one.
    pub after_us: f64,
}

impl OwnTimeSplit {
    /// The place that has nearly all of this time.
    #[must_use]
    pub fn place(&self, us: f64) -> OwnTime {
        let alone_us = us - self.before_us - self.between_us - self.after_us;
        let parts = [
            (OwnTime::Alone, alone_us),
            (OwnTime::Before, self.before_us),
            (OwnTime::Between, self.between_us),
            (OwnTime::After, self.after_us),
        ];
        let has_it = parts.into_iter().find(|(_, part_us)| *part_us >= LIES_MIN * us);
        has_it.map_or(OwnTime::Around, |(place, _)| place)
    }

    /// Adds another one `times` times.
    pub fn add(&mut self, other: &Self, times: f64) {
        self.before_us += times * other.before_us;
        self.between_us += times * other.between_us;
        self.after_us += times * other.after_us;
    }
}

/// The comparison of slow with fast traces.
#[derive(Clone, Debug, PartialEq)]
pub struct Attribution {
    /// The mean of the slow traces.
    pub slow_us: f64,
    /// The mean of the fast traces.
    pub fast_us: f64,
    /// The number of slow traces.
    pub slow: usize,
    /// The number of fast traces.
    pub fast: usize,
    /// Why no kind can be the cause, if so.
    pub unsupported: Option<AttributionObstacle>,
    /// The kinds that explain most, largest share first.
    pub causes: Vec<KindContribution>,
}

/// The reason why there can be no finding.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AttributionObstacle {
    /// Fewer complete traces than [`SLOW_MIN`] or [`FAST_MIN`].
    FewTraces,
    /// More than [`INCOMPLETE_MAX`] of a side's traces lacked stops; the others may not be representative.
    Incomplete,
    /// The slow traces are not slower.
    NoGap,
}

/// A kind of point and the part of the gap that it explains.
#[derive(Clone, Debug, PartialEq)]
pub struct KindContribution {
    /// The kind's number.
    pub kind: usize,
    /// How much longer it took in slow traces (means).
    pub delta_us: f64,
    /// `delta_us` as a share of the gap.
    pub share: f64,
    /// The share is at least this with 95 % confidence.
    pub share_low: f64,
    /// The share is at most this with 95 % confidence.
    pub share_high: f64,
    /// The mean number of calls in a slow trace.
    pub slow_calls: f64,
    /// The mean number of calls in a fast trace.
    pub fast_calls: f64,
    /// The part of the difference that more calls explain.
    pub more_calls_us: f64,
    /// The part that slower calls explain.
    pub slower_calls_us: f64,
    /// Cliff's delta of its time, slow over fast: -1 to 1.
    pub effect: f64,
    /// The share of slow traces in which it took longer than in 95 % of the fast traces.
    pub exceeding: f64,
    /// Whether all conditions for a finding hold.
    pub is_cause: bool,
    /// Where what it took longer lies in its points.
    pub lies: OwnTimeSplit,
    /// The slow trace in which it took longest.
    pub worst: usize,
}

impl KindContribution {
    /// Whether it explains enough of the difference, and in enough slow traces, to be a possible cause.
    #[must_use]
    pub fn is_large(&self) -> bool {
        self.share_low >= SCORE_MIN && self.effect >= EFFECT_MIN && self.exceeding >= EXCEED_MIN
    }
}

/// Compares slow with fast traces. `kinds` is the number of kinds; `incomplete` is the share of traces left out, of the
/// side that lost more. The same `seed` gives the same bounds.
#[must_use]
pub fn compare(
    slow: &[Breakdown],
    fast: &[Breakdown],
    kinds: usize,
    incomplete: f64,
    seed: u64,
) -> Attribution {
    let (slow_table, fast_table) = (Table::new(slow, kinds), Table::new(fast, kinds));
    let (slow_us, fast_us) = (mean(&slow_table.totals), mean(&fast_table.totals));
    let unsupported = match () {
        () if incomplete > INCOMPLETE_MAX => Some(AttributionObstacle::Incomplete),
        () if slow.len() < SLOW_MIN || fast.len() < FAST_MIN => Some(AttributionObstacle::FewTraces),
        () if slow_us <= fast_us => Some(AttributionObstacle::NoGap),
        () => None,
    };
    let mut causes = Vec::new();
    if !slow.is_empty() && !fast.is_empty() && slow_us > fast_us {
        let delta = |kind: usize| mean(&slow_table.exclusive[kind]) - mean(&fast_table.exclusive[kind]);
        let mut order: Vec<(usize, f64)> = (0..kinds).map(|kind| (kind, delta(kind))).collect();
        order.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        let largest: Vec<usize> =
            order.iter().take(CAUSES_MAX).filter(|(_, us)| *us > 0.0).map(|(k, _)| *k).collect();
        let bounds = shares(&slow_table, &fast_table, &largest, seed);
        let agreed = (0..kinds)
            .map(|kind| (kind, mean(&slow_table.own[kind]) - mean(&fast_table.own[kind])))
            .max_by(|one, other| one.1.total_cmp(&other.1).then(other.0.cmp(&one.0)))
            .map(|(kind, _)| kind);
        for (&kind, (share_low, share_high)) in largest.iter().zip(bounds) {
            let mut cause = cause(&slow_table, &fast_table, kind, slow_us - fast_us);
            (cause.share_low, cause.share_high) = (share_low, share_high);
            cause.is_cause = unsupported.is_none()
                && cause.is_large()
                // Own times, which do not depend on clocks, must agree on the first cause.
                && (agreed == Some(kind) || causes.iter().any(|known: &KindContribution| known.is_cause));
            causes.push(cause);
        }
    }
    Attribution { slow_us, fast_us, slow: slow.len(), fast: fast.len(), unsupported, causes }
}

/// A column for each trace and a row for each kind; 0 if a trace lacks the kind.
pub(super) struct Table {
    pub(super) exclusive: Vec<Vec<f64>>,
    pub(super) own: Vec<Vec<f64>>,
    pub(super) calls: Vec<Vec<f64>>,
    /// The mean of each kind.
    lies: Vec<OwnTimeSplit>,
    pub(super) totals: Vec<f64>,
}

impl Table {
    pub(super) fn new(traces: &[Breakdown], kinds: usize) -> Self {
        let zeros = || vec![vec![0.0; traces.len()]; kinds];
        let (lies, totals) = (vec![OwnTimeSplit::default(); kinds], vec![0.0; traces.len()]);
        let mut table = Self { exclusive: zeros(), own: zeros(), calls: zeros(), lies, totals };
        for (number, trace) in traces.iter().enumerate() {
            for part in trace.parts.iter().filter(|part| part.kind < kinds) {
                table.exclusive[part.kind][number] += part.exclusive_us;
                table.own[part.kind][number] += part.self_us;
                table.calls[part.kind][number] += part.calls;
                table.lies[part.kind].add(&part.lies, 1.0 / count(traces.len()));
                table.totals[number] += part.exclusive_us;
            }
        }
        table
    }
}

/// What one kind explains of the gap, without bounds.
pub(super) fn cause(slow: &Table, fast: &Table, kind: usize, gap_us: f64) -> KindContribution {
    let (slow_us, fast_us) = (&slow.exclusive[kind], &fast.exclusive[kind]);
    let (slow_calls, fast_calls) = (mean(&slow.calls[kind]), mean(&fast.calls[kind]));
    let more_calls_us = more_calls_us((mean(slow_us), slow_calls), (mean(fast_us), fast_calls));
    let delta_us = mean(slow_us) - mean(fast_us);
    let typical = percentile(fast_us, 95.0);
    let exceeding = slow_us.iter().filter(|us| **us > typical).count();
    let mut lies = slow.lies[kind];
    lies.add(&fast.lies[kind], -1.0);
    let worst = (0..slow_us.len()).max_by(|&one, &other| slow_us[one].total_cmp(&slow_us[other]));
    KindContribution {
        kind,
        delta_us,
        share: delta_us / gap_us,
        share_low: 0.0,
        share_high: 0.0,
        slow_calls,
        fast_calls,
        more_calls_us,
        slower_calls_us: delta_us - more_calls_us,
        effect: cliffs_delta(slow_us, fast_us),
        exceeding: ratio(exceeding, slow_us.len()),
        is_cause: false,
        lies,
        worst: worst.unwrap_or(0),
    }
}

/// The part of the difference between two sides, each as (time, calls), that is due to more calls.
///
/// An additional call is priced at the mean of both sides' calls (Shapley's value of two factors). With the price of
/// fast calls alone, a machine on which every call takes longer would hide that there are many more of them.
fn more_calls_us((slow_us, slow_calls): (f64, f64), (fast_us, fast_calls): (f64, f64)) -> f64 {
    let each = |us: f64, calls: f64| (calls > 0.0).then(|| us / calls);
    let priced = match (each(slow_us, slow_calls), each(fast_us, fast_calls)) {
        (Some(slow), Some(fast)) => f64::midpoint(slow, fast),
        // If one side never calls it, every call is an additional one.
        (slow, fast) => slow.or(fast).unwrap_or(0.0),
    };
    (slow_calls - fast_calls) * priced
}

/// The 5th and 95th percentile of each kind's share over resampled traces.
pub(super) fn shares(slow: &Table, fast: &Table, kinds: &[usize], seed: u64) -> Vec<(f64, f64)> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut seen: Vec<Vec<f64>> = vec![Vec::with_capacity(RESAMPLES); kinds.len()];
    for _ in 0..RESAMPLES {
        let slow_rows: Vec<usize> = slow.totals.iter().map(|_| random.usize(0..slow.totals.len())).collect();
        let fast_rows: Vec<usize> = fast.totals.iter().map(|_| random.usize(0..fast.totals.len())).collect();
        let difference = |slow: &[f64], fast: &[f64]| mean_of(slow, &slow_rows) - mean_of(fast, &fast_rows);
        let gap_us = difference(&slow.totals, &fast.totals);
        for (seen, &kind) in seen.iter_mut().zip(kinds) {
            let delta_us = difference(&slow.exclusive[kind], &fast.exclusive[kind]);
            // A resample without a gap explains nothing.
            seen.push(if gap_us > 0.0 { delta_us / gap_us } else { 0.0 });
        }
    }
    seen.iter().map(|shares| (percentile(shares, 5.0), percentile(shares, 95.0))).collect()
}

/// How much more often the first values are larger than smaller: -1 to 1.
#[must_use]
pub fn cliffs_delta(one: &[f64], other: &[f64]) -> f64 {
    let mut sorted = other.to_vec();
    sorted.sort_by(f64::total_cmp);
    let balance: f64 = one
        .iter()
        .map(|value| {
            let below = sorted.partition_point(|known| known < value);
            let not_above = sorted.partition_point(|known| known <= value);
            count(below) - count(sorted.len() - not_above)
        })
        .sum();
    if one.is_empty() || other.is_empty() { 0.0 } else { balance / (count(one.len()) * count(other.len())) }
}

fn count(number: usize) -> f64 {
    number as f64
}

fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 { 0.0 } else { count(part) / count(whole) }
}

pub(super) fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / count(values.len()) }
}

pub(super) fn mean_of(values: &[f64], rows: &[usize]) -> f64 {
    if rows.is_empty() { 0.0 } else { rows.iter().map(|&row| values[row]).sum::<f64>() / count(rows.len()) }
}

/// The sample at the percentile's rank; 0 without samples.
pub(super) fn percentile(values: &[f64], percent: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    at_percentile(&sorted, percent).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A trace of (exclusive time, calls) for each kind.
    fn trace(parts: &[(f64, f64)]) -> Breakdown {
        let part = |(kind, &(us, calls)): (usize, &(f64, f64))| Part {
            kind,
            exclusive_us: us,
            self_us: us,
            calls,
            ..Part::default()
        };
        Breakdown { parts: parts.iter().enumerate().map(part).collect() }
    }

    /// Traces with noise: `parts` are the means.
    fn traces(number: usize, seed: u64, parts: &[(f64, f64)]) -> Vec<Breakdown> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut noisy = |us: f64| us * (0.5 + random.f64());
        (0..number)
            .map(|_| trace(&parts.iter().map(|&(us, calls)| (noisy(us), calls)).collect::<Vec<_>>()))
            .collect()
    }

    #[test]
    fn the_planted_kind_is_found_and_split() {
        let fast = traces(80, 1, &[(100.0, 1.0), (50.0, 2.0), (20.0, 1.0)]);
        for (what, slow, kind, more_calls) in [
            ("a slower call", traces(40, 2, &[(100.0, 1.0), (50.0, 2.0), (900.0, 1.0)]), 2, false),
            ("more calls", traces(40, 3, &[(100.0, 1.0), (1000.0, 40.0), (20.0, 1.0)]), 1, true),
            // As on a busy machine: twenty times as many calls, and each takes 2.4 times as long.
            ("more and slower calls", traces(40, 4, &[(100.0, 1.0), (2400.0, 40.0), (20.0, 1.0)]), 1, true),
            ("a few more, much slower", traces(40, 5, &[(100.0, 1.0), (2400.0, 4.0), (20.0, 1.0)]), 1, false),
        ] {
            let found = compare(&slow, &fast, 3, 0.0, 7);
            let first = &found.causes[0];
            assert!(first.is_cause && first.kind == kind && first.share_low > 0.8, "{what}: {first:?}");
            assert_eq!(first.more_calls_us > first.slower_calls_us.abs(), more_calls, "{what}: {first:?}");
            assert!(found.causes[1..].iter().all(|cause| !cause.is_cause), "{what}");
        }
    }

    #[test]
    fn nothing_on_a_side_and_kinds_beyond_the_known_have_no_cause() {
        let some = traces(50, 1, &[(100.0, 1.0), (20.0, 1.0)]);
        for (slow, fast) in [(&[][..], &some[..]), (&some[..], &[][..]), (&[][..], &[][..])] {
            let found = compare(slow, fast, 2, 0.0, 7);
            assert!(found.causes.is_empty() && found.unsupported.is_some(), "{found:?}");
        }
        // Just as much as may be missing is not too much.
        let slow = traces(40, 2, &[(100.0, 1.0), (900.0, 1.0)]);
        assert_eq!(compare(&slow, &some, 2, INCOMPLETE_MAX, 7).unsupported, None);
        let found = compare(&slow, &some, 1, 0.0, 7);
        assert!(found.causes.iter().all(|cause| cause.kind == 0), "{found:?}");
    }

    #[test]
    fn without_support_there_are_candidates_only() {
        let fast = traces(80, 1, &[(100.0, 1.0), (20.0, 1.0)]);
        let slow = traces(40, 2, &[(100.0, 1.0), (900.0, 1.0)]);
        for (slow, fast, incomplete, expected) in [
            (&slow[..19], &fast[..], 0.0, AttributionObstacle::FewTraces),
            (&slow[..], &fast[..39], 0.0, AttributionObstacle::FewTraces),
            (&slow[..], &fast[..], 0.21, AttributionObstacle::Incomplete),
            (&fast[..40], &slow[..], 0.0, AttributionObstacle::FewTraces),
        ] {
            let found = compare(slow, fast, 2, incomplete, 7);
            assert!(found.unsupported.is_some() && found.causes.iter().all(|cause| !cause.is_cause));
            if expected != AttributionObstacle::FewTraces {
                assert_eq!(found.unsupported, Some(expected));
            }
        }
        assert_eq!(compare(&[], &[], 0, 0.0, 7).causes, []);
    }

    #[test]
    fn noise_alone_is_never_a_cause() {
        for seed in 0..15 {
            // The slow traces are the slowest of a single population, as in a run without a cause.
            let mut all = traces(400, seed, &[(100.0, 1.0); 8]);
            let total = |trace: &Breakdown| trace.parts.iter().map(|part| part.exclusive_us).sum::<f64>();
            all.sort_by(|one, other| total(other).total_cmp(&total(one)));
            let found = compare(&all[..40], &all[200..300], 8, 0.0, seed);
            assert!(found.causes.iter().all(|cause| !cause.is_cause), "{seed}: {:?}", found.causes[0]);
        }
    }

    #[test]
    fn a_kind_that_own_times_do_not_confirm_is_a_candidate() {
        let fast = traces(80, 1, &[(100.0, 1.0), (20.0, 1.0)]);
        let mut slow = traces(40, 2, &[(100.0, 1.0), (900.0, 1.0)]);
        for trace in &mut slow {
            // Wrong clocks gave kind 1 the time of kind 0.
            (trace.parts[0].self_us, trace.parts[1].self_us) = (900.0, 20.0);
        }
        let found = compare(&slow, &fast, 2, 0.0, 7);
        assert!(found.causes[0].kind == 1 && !found.causes[0].is_cause, "{:?}", found.causes[0]);
    }

    #[test]
    fn effect_sizes_match_manual_calculation() {
        assert_eq!(cliffs_delta(&[1.0, 2.0, 3.0], &[1.0, 2.0, 3.0]), 0.0);
        assert_eq!(cliffs_delta(&[4.0, 5.0], &[1.0, 2.0, 3.0]), 1.0);
        assert!((cliffs_delta(&[2.0], &[1.0, 2.0, 3.0, 0.0]) - 0.25).abs() < 1e-12);
        assert_eq!(cliffs_delta(&[], &[1.0]), 0.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn shares_add_up_to_the_gap(
            slow in prop::collection::vec(prop::collection::vec((0.0..1e6, 0.0..9.0), 4), 1..30),
            fast in prop::collection::vec(prop::collection::vec((0.0..1e6, 0.0..9.0), 4), 1..30),
        ) {
            let breakdown = |rows: &[Vec<(f64, f64)>]| rows.iter().map(|parts| trace(parts)).collect::<Vec<_>>();
            let found = compare(&breakdown(&slow), &breakdown(&fast), 4, 0.0, 1);
            if found.slow_us > found.fast_us {
                let positive: f64 = found.causes.iter().map(|cause| cause.delta_us).sum();
                prop_assert!(positive >= (found.slow_us - found.fast_us) * (1.0 - 1e-9));
                for cause in &found.causes {
                    prop_assert!((cause.more_calls_us + cause.slower_calls_us - cause.delta_us).abs() < 1e-3);
                }
            }
        }
    }
}
