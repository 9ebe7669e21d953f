//! How exactly a mean is known: Student's bounds from contiguous batches.

use super::paired::student_upper;

/// Samples that belong together, as their number and sum.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Batch {
    /// How many.
    pub n: u64,
    /// Their sum.
    pub sum: f64,
}

/// A mean with what it may be off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mean {
    /// The mean.
    pub value: f64,
    /// Its standard error.
    pub error: f64,
    /// Degrees of freedom of the error.
    pub freedom: f64,
}

impl Mean {
    /// Of samples in contiguous batches, which need not be equally large: how batches differ tells how exactly the
    /// mean is known, dependence included. `None` of fewer than two batches with samples.
    #[must_use]
    pub fn of_batches(batches: &[Batch]) -> Option<Self> {
        let filled = batches.iter().filter(|batch| batch.n > 0).count();
        let n = as_f64(batches.iter().map(|batch| batch.n).sum());
        let value = batches.iter().map(|batch| batch.sum).sum::<f64>() / n;
        if filled < 2 || !value.is_finite() {
            return None;
        }
        let squares: f64 = batches.iter().map(|batch| (batch.sum - value * as_f64(batch.n)).powi(2)).sum();
        let filled = as_f64(filled as u64);
        let error = (squares * filled / (filled - 1.0)).sqrt() / n;
        Some(Self { value, error, freedom: filled - 1.0 })
    }

    /// The mean is at least the first and at most the second, each but for an error of probability `alpha`.
    #[must_use]
    pub fn bounds(&self, alpha: f64) -> (f64, f64) {
        let reach = if self.error > 0.0 { student_upper(alpha, self.freedom) * self.error } else { 0.0 };
        (self.value - reach, self.value + reach)
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts below 2^53")]
fn as_f64(count: u64) -> f64 {
    count as f64
}
