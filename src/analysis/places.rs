//! Where in the run the slow iterations are: at its beginning, at regular intervals, or anywhere.
//!
//! Only the client's own figures are used, so this holds without a single trace. Slow iterations often come in groups,
//! because one stall holds up all that are under way; a group must not count as many separate observations:
//! - The beginning is compared with every other place in the run: it is special if hardly any place has as many slow
//!   iterations in a row. This needs no assumption about groups.
//! - For intervals of time, slow iterations that start together are one event; the chance is that of so many events in
//!   one part of the interval, over all intervals that are tried.
//!
//! Nothing here may name a cause.

mod beginning;
mod rhythm;

use std::collections::BTreeSet;

use crate::measure::sample::IterationSample;
use crate::results::model::{Series, SlowPlaces};

/// The workload that the slow iterations are from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Population<'a> {
    /// How many iterations it had, without the warm-up.
    pub total: u64,
    /// The iterations of the warm-up, whose numbers come first.
    pub warm_up: u64,
    /// When iterations ended; a rhythm of the load is none of the service.
    pub series: Option<&'a Series>,
    /// The slowest of the run.
    pub slowest: &'a [IterationSample],
}

/// Where these slow iterations are; `None` if that says nothing.
#[must_use]
pub fn places(slow: &[&IterationSample], population: &Population<'_>) -> Option<SlowPlaces> {
    let workload = slow.first()?.workload;
    let slowest: Vec<&IterationSample> =
        population.slowest.iter().filter(|one| one.workload == workload && !one.warm_up).collect();
    let first = [slow, &slowest].iter().find_map(|some| beginning::first_ones(some, population));
    let rhythm = rhythm::by_number(slow, population).or_else(|| rhythm::by_time(slow, population));
    (first.is_some() || rhythm.is_some()).then_some(SlowPlaces { first, rhythm })
}

/// Numbers from 0 without the warm-up.
fn numbers(slow: &[&IterationSample], population: &Population<'_>) -> BTreeSet<u64> {
    let all = slow.iter().map(|one| one.number.saturating_sub(population.warm_up));
    all.filter(|number| *number < population.total).collect()
}
