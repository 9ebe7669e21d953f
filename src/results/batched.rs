//! The slices of a series, merged into about twenty contiguous batches that all its thresholds share.
//!
//! Thousands of thresholds may use the same samples, and the live gate judges them while load runs. Slices are summed
//! up here once, so that each threshold reads twenty numbers instead of eight hundred.

use super::slice::Slice;
use statistics::binomial::{BinomialCount, batch_numbers, batches};

/// Which samples determine the size of batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchBasis {
    /// Successful samples.
    Ok,
    /// Completed samples, successful or not.
    Completed,
    /// Everything that was due.
    Total,
}

/// A whole series, in batches.
#[derive(Debug, Default)]
pub struct BatchedSeries {
    all: Slice,
    ok: Vec<Slice>,
    completed: Vec<Slice>,
    total: Vec<Slice>,
    /// The number of samples in each batch to which limits apply.
    sizes: Vec<u64>,
    /// How many of these were successful.
    well: Vec<u64>,
    /// For each batch and limit, how many samples are over the limit.
    over: Vec<u64>,
    limits: usize,
}

/// Slices merged into about equally large batches.
#[must_use]
pub fn merged(slices: &[Slice], by: BatchBasis) -> Vec<Slice> {
    let size = |slice: &Slice| match by {
        BatchBasis::Ok => slice.ok,
        BatchBasis::Completed => slice.completed(),
        BatchBasis::Total => slice.total(),
    };
    batches(slices, size, |into: &mut Slice, slice| into.add(slice))
}

impl BatchedSeries {
    /// From slices with these numbers of samples. `cells` has a row for each slice: how many samples are over none, the
    /// first, … all of the `limits`.
    pub(super) fn new(slices: &[Slice], sizes: &[u64], cells: &[u32], limits: usize) -> Self {
        let mut all = Slice::default();
        slices.iter().for_each(|slice| all.add(slice));
        let numbers = batch_numbers(sizes.iter().copied());
        let count = numbers.iter().flatten().max().map_or(0, |last| last + 1);
        let width = limits + 1;
        let (mut over, mut of_batch) = (vec![0_u64; count * limits], vec![0_u64; count]);
        let mut well = vec![0_u64; count];
        let mut row = vec![0_u64; width];
        for batch in 0..count {
            row.fill(0);
            for (slice, _) in numbers.iter().enumerate().filter(|(_, number)| **number == Some(batch)) {
                of_batch[batch] += sizes[slice];
                well[batch] += slices[slice].ok;
                for (sum, cell) in row.iter_mut().zip(&cells[slice * width..(slice + 1) * width]) {
                    *sum += u64::from(*cell);
                }
            }
            let mut sum = 0;
            for limit in (0..limits).rev() {
                sum += row[limit + 1];
                over[batch * limits + limit] = sum;
            }
        }
        Self {
            all,
            ok: merged(slices, BatchBasis::Ok),
            completed: merged(slices, BatchBasis::Completed),
            total: merged(slices, BatchBasis::Total),
            sizes: of_batch,
            well,
            over,
            limits,
        }
    }

    /// Everything together.
    #[must_use]
    pub fn all(&self) -> &Slice {
        &self.all
    }

    #[must_use]
    pub fn by(&self, by: BatchBasis) -> &[Slice] {
        match by {
            BatchBasis::Ok => &self.ok,
            BatchBasis::Completed => &self.completed,
            BatchBasis::Total => &self.total,
        }
    }

    /// For each batch, how many of its samples are over a limit.
    #[must_use]
    pub fn parts(&self, limit: usize) -> Vec<BinomialCount> {
        let part =
            |(batch, n): (usize, &u64)| BinomialCount { k: self.over[batch * self.limits + limit], n: *n };
        self.sizes.iter().enumerate().map(part).collect()
    }

    /// The same, but counting only successful samples as over the limit.
    #[must_use]
    pub fn well_over(&self, limit: usize) -> Vec<BinomialCount> {
        let well =
            |(part, well): (BinomialCount, &u64)| BinomialCount { k: part.k - (part.n - well), n: part.n };
        self.parts(limit).into_iter().zip(&self.well).map(well).collect()
    }
}
