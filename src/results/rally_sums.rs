//! Exact figures for Rally's criteria: sums over successful iterations, and the number of outliers.
//!
//! Outliers depend on the mean and the deviation of all iterations, which are known only at the end. To read the log
//! only once, the longest durations are kept until then: more than a run usually has outliers.

use base::clock::Nanos;
use measure::latency::SampleId;
use measure::rows::SampleRow;
use measure::sample::CompletionStatus;
use terms::sla::{Outliers, Sla};

use super::largest::{EXEMPLARS_MAX, keep_largest, size};

/// How many of the longest durations are kept.
const KEPT: usize = 1 << 20;

/// Sums over the successful iterations of a workload.
#[derive(Clone, Debug, Default)]
pub struct RallySums {
    wanted: bool,
    outliers: Option<Outliers>,
    /// How many.
    pub ok: u64,
    sum_ns: u128,
    squares_ns2: u128,
    /// The shortest and the longest.
    pub shortest_ns: Option<Nanos>,
    /// The longest with its iteration.
    pub longest: Option<(Nanos, SampleId)>,
    /// Of each action, how many requests and their time together.
    pub actions: Vec<(u64, u128)>,
    /// The number of outliers; computed by `RallySums::seal`.
    pub outlying: u64,
    /// There are more outliers than were kept.
    pub outlying_more: bool,
    /// The longest of them, longest first.
    pub outlying_longest: Vec<(Nanos, SampleId)>,
    kept: LongestDurations,
}

#[derive(Clone, Debug, Default)]
struct LongestDurations {
    durations_ns: Vec<Nanos>,
    /// All durations longer than this are kept.
    left_out_ns: Nanos,
}

impl LongestDurations {
    fn add(&mut self, duration_ns: Nanos, max: usize) {
        if duration_ns <= self.left_out_ns {
            return;
        }
        self.durations_ns.push(duration_ns);
        if self.durations_ns.len() >= 2 * max {
            let by_length = |one: &Nanos, other: &Nanos| other.cmp(one);
            let (_, longest_left_out, _) = self.durations_ns.select_nth_unstable_by(max, by_length);
            self.left_out_ns = *longest_left_out;
            self.durations_ns.truncate(max);
        }
    }

    /// How many durations are longer, and whether there may be more that were not kept.
    fn above(&self, above_ns: f64) -> (u64, bool) {
        let longer = self.durations_ns.iter().filter(|duration_ns| **duration_ns as f64 > above_ns);
        (longer.count() as u64, self.left_out_ns as f64 > above_ns)
    }
}

impl RallySums {
    pub(super) fn new(sla: &Sla, actions: usize) -> Self {
        let wanted = sla.outliers.is_some()
            || sla.max_degradation.is_some()
            || !sla.max_avg_duration_per_atomic.is_empty();
        Self { wanted, outliers: sla.outliers, actions: vec![(0, 0); actions], ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.wanted
    }

    pub(super) fn add(&mut self, row: SampleRow<'_>) {
        if !self.wanted || row.head.ended != CompletionStatus::Ok {
            return;
        }
        let duration_ns = row.head.duration_ns;
        let id = SampleId { workload: row.head.workload, number: row.head.number };
        self.ok += 1;
        if self.outliers.is_some() {
            self.kept.add(duration_ns, KEPT);
            let entry = (duration_ns, id);
            let of = |(ns, id): &(u64, SampleId)| size(*ns, *id);
            keep_largest(&mut self.outlying_longest, EXEMPLARS_MAX, of(&entry), of, || entry);
        }
        self.sum_ns += u128::from(duration_ns);
        self.squares_ns2 = self.squares_ns2.saturating_add(u128::from(duration_ns) * u128::from(duration_ns));
        self.shortest_ns = Some(self.shortest_ns.map_or(duration_ns, |least| least.min(duration_ns)));
        if self.longest.is_none_or(|(longest_ns, other)| size(duration_ns, id) > size(longest_ns, other)) {
            self.longest = Some((duration_ns, id));
        }
        for request in row.actions {
            if let Some((count, sum_ns)) = self.actions.get_mut(usize::from(request.action)) {
                *count += 1;
                *sum_ns += u128::from(request.duration_ns);
            }
        }
    }

    /// The duration from which an iteration is an outlier: the mean plus this many (sample) standard deviations; `None`
    /// with fewer than two iterations.
    #[must_use]
    pub fn outliers_above_ns(&self) -> Option<f64> {
        let outliers = self.outliers?;
        let n = u128::from(self.ok);
        if n < 2 {
            return None;
        }
        let mean_ns = self.sum_ns as f64 / n as f64;
        // n·Σx² − (Σx)² is a difference of nearly equal numbers: use integers if they fit.
        let exact = self.squares_ns2.checked_mul(n).zip(self.sum_ns.checked_mul(self.sum_ns));
        let spread = match exact {
            Some((squares, square)) => squares.saturating_sub(square) as f64,
            None => (self.squares_ns2 as f64 * n as f64 - (self.sum_ns as f64).powi(2)).max(0.0),
        };
        let deviation_ns = (spread / (n as f64 * (n as f64 - 1.0))).sqrt();
        Some(mean_ns + outliers.sigmas * deviation_ns)
    }

    /// Counts the outliers, after all iterations were added.
    pub(super) fn seal(&mut self) {
        let above_ns = self.outliers_above_ns().unwrap_or(f64::INFINITY);
        (self.outlying, self.outlying_more) = self.kept.above(above_ns);
        self.outlying_longest.retain(|(ns, _)| *ns as f64 > above_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_are_counted_exactly_and_more_than_were_kept_is_known() {
        let durations: Vec<Nanos> = (0..1000).map(|number| number * 7919 % 1000).collect();
        let mut kept = LongestDurations::default();
        durations.iter().for_each(|duration_ns| kept.add(*duration_ns, 50));
        for above_ns in 0..1000_u64 {
            let longer = durations.iter().filter(|duration_ns| **duration_ns > above_ns).count() as u64;
            let (found, more) = kept.above(above_ns as f64);
            assert_eq!(found + u64::from(more), if more { found + 1 } else { longer }, "{above_ns}");
            assert!(found <= longer && (found >= 50 || !more), "{above_ns}: {found} of {longer}");
            assert!(!more || longer > 50, "{above_ns}");
        }
        assert!(kept.durations_ns.len() < 100);
    }
}
