//! A series' slices merged into about twenty contiguous batches: once, and then read by all of its thresholds.
//!
//! Thousands of thresholds may ask for the same samples, and the live gate judges them while load runs: what they have
//! in common is added up here, so that each of them reads twenty numbers and not eight hundred.

use super::counting::Slice;
use crate::base::statistics::binomial::{Part, batch_numbers, batches};

/// By what slices are merged into batches of about equal size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// What ended without fault.
    Ok,
    /// What came to its end.
    Completed,
    /// What was due.
    Total,
}

/// The whole of a series.
#[derive(Debug, Default)]
pub struct Batched {
    all: Slice,
    ok: Vec<Slice>,
    completed: Vec<Slice>,
    total: Vec<Slice>,
    /// How many samples each batch has that a limit can be held against.
    sizes: Vec<u64>,
    /// How many of these went well.
    well: Vec<u64>,
    /// For each batch and limit, how many of them are over it.
    over: Vec<u64>,
    limits: usize,
}

/// Slices merged into about equally large batches.
#[must_use]
pub fn merged(slices: &[Slice], by: By) -> Vec<Slice> {
    let size = |slice: &Slice| match by {
        By::Ok => slice.ok,
        By::Completed => slice.completed(),
        By::Total => slice.total(),
    };
    batches(slices, size, |into: &mut Slice, slice| into.add(slice))
}

impl Batched {
    /// Of slices with these numbers of samples, of which `cells` has a row for each slice: how many are over none, the
    /// first, … all of `limits`.
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
            ok: merged(slices, By::Ok),
            completed: merged(slices, By::Completed),
            total: merged(slices, By::Total),
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

    /// The batches.
    #[must_use]
    pub fn by(&self, by: By) -> &[Slice] {
        match by {
            By::Ok => &self.ok,
            By::Completed => &self.completed,
            By::Total => &self.total,
        }
    }

    /// How many samples of each batch are over a limit, of how many.
    #[must_use]
    pub fn parts(&self, limit: usize) -> Vec<Part> {
        let part = |(batch, n): (usize, &u64)| Part { k: self.over[batch * self.limits + limit], n: *n };
        self.sizes.iter().enumerate().map(part).collect()
    }

    /// The same of those that went well only, of all.
    #[must_use]
    pub fn well_over(&self, limit: usize) -> Vec<Part> {
        let well = |(part, well): (Part, &u64)| Part { k: part.k - (part.n - well), n: part.n };
        self.parts(limit).into_iter().zip(&self.well).map(well).collect()
    }
}
