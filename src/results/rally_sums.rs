//! What Rally's criteria are judged by, exact: sums over iterations without fault, and how many are outliers.

use crate::base::clock::Nanos;
use crate::measure::latency::SampleId;
use crate::measure::rows::{IterationHead, Row};
use crate::measure::sample::Ended;
use crate::plan::sla::{Outliers, Sla};

use super::aggregate::EXEMPLARS_MAX;

/// Sums over the iterations without fault of a workload.
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
    /// How many iterations are outliers.
    pub outlying: u64,
    /// The longest of them, longest first.
    pub outlying_longest: Vec<(Nanos, SampleId)>,
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

    pub(super) fn wants_outliers(&self) -> bool {
        self.outliers.is_some()
    }

    pub(super) fn add(&mut self, row: Row<'_>) {
        if !self.wanted || row.head.ended != Ended::Ok {
            return;
        }
        let duration_ns = row.head.duration_ns;
        let id = SampleId { workload: row.head.workload, number: row.head.number };
        self.ok += 1;
        self.sum_ns += u128::from(duration_ns);
        self.squares_ns2 = self.squares_ns2.saturating_add(u128::from(duration_ns) * u128::from(duration_ns));
        self.shortest_ns = Some(self.shortest_ns.map_or(duration_ns, |least| least.min(duration_ns)));
        if self.longest.is_none_or(|(longest_ns, _)| duration_ns > longest_ns) {
            self.longest = Some((duration_ns, id));
        }
        for request in row.actions {
            if let Some((count, sum_ns)) = self.actions.get_mut(usize::from(request.action)) {
                *count += 1;
                *sum_ns += u128::from(request.duration_ns);
            }
        }
    }

    /// From which duration on an iteration is an outlier: the mean and so many standard deviations (of a sample);
    /// `None` of fewer than two iterations.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "the difference of the sums is taken before")]
    pub fn outliers_above_ns(&self) -> Option<f64> {
        let outliers = self.outliers?;
        let n = u128::from(self.ok);
        if n < 2 {
            return None;
        }
        let mean_ns = self.sum_ns as f64 / n as f64;
        // n·Σx² − (Σx)² in whole numbers where they fit: a difference of nearly equal numbers.
        let exact = self.squares_ns2.checked_mul(n).zip(self.sum_ns.checked_mul(self.sum_ns));
        let spread = match exact {
            Some((squares, square)) => squares.saturating_sub(square) as f64,
            None => (self.squares_ns2 as f64 * n as f64 - (self.sum_ns as f64).powi(2)).max(0.0),
        };
        let deviation_ns = (spread / (n as f64 * (n as f64 - 1.0))).sqrt();
        Some(mean_ns + outliers.sigmas * deviation_ns)
    }

    #[expect(clippy::cast_precision_loss, reason = "exact up to 2^53 ns, 104 days")]
    pub(super) fn count_outlier(&mut self, head: &IterationHead) {
        if head.warm_up || head.ended != Ended::Ok {
            return;
        }
        let Some(above_ns) = self.outliers_above_ns() else { return };
        if head.duration_ns as f64 > above_ns {
            self.outlying += 1;
            let at = self.outlying_longest.partition_point(|(ns, _)| *ns >= head.duration_ns);
            if at < EXEMPLARS_MAX {
                let id = SampleId { workload: head.workload, number: head.number };
                self.outlying_longest.insert(at, (head.duration_ns, id));
                self.outlying_longest.truncate(EXEMPLARS_MAX);
            }
        }
    }
}
