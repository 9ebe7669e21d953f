//! Thresholds on numbers that actions take from their answers. They are judged like times, but a failed iteration has none:
//! it counts neither as over nor as under a limit.

use std::ops::Range;

use base::units::{format_number, number_beside};
use measure::latency::SampleId;
use measure::numbers::value_of_rank;
use results::counting::Slice;
use results::model::CriterionMeasurement;
use statistics::binomial::BinomialCount;
use statistics::order::{rank, share_above};

use super::threshold::{ALPHA, Judge, unclear};
use super::words::{between, percent};

impl Judge<'_> {
    /// A value of the series: a time in nanoseconds, or the number that stands behind a rank.
    pub(super) fn value(&self, stored: u64) -> f64 {
        match self.threshold.condition.metric.measure() {
            Some(_) => value_of_rank(stored),
            None => stored as f64,
        }
    }

    /// As for times; see [`Judge::of_percentile`].
    pub(super) fn of_number_percentile(
        &self,
        range: Range<usize>,
        at: f64,
    ) -> (String, Option<CriterionMeasurement>, String) {
        let (share, allowed) = (self.share(range), share_above(at));
        let BinomialCount { k, n } = share.whole;
        let limit = self.threshold.condition.limit;
        let word = if self.threshold.condition.operator.bounds_above() { "over" } else { "above" };
        let over =
            format!("{k} of {n} {word} {}, {} allowed", format_number(limit), percent(allowed * 100.0));
        let reason = unclear(&share, allowed);
        if self.threshold.window_ns.is_some() {
            return (over, None, reason);
        }
        let bounds = share.order_bounds(at, ALPHA);
        let number_at = |rank: Option<u64>| self.number_at(rank?, n - k);
        let (low, high) = (number_at(bounds.low), number_at(bounds.high));
        let Some(value) = number_at(rank(n, at)) else { return (over, None, reason) };
        let spread = between(low.map(format_number), high.map(format_number));
        let measured = CriterionMeasurement { unit: String::new(), limit, value, low, high };
        (format!("{}{spread}; {over}", number_beside(value, limit)), Some(measured), reason)
    }

    /// The number of a rank. Its side of the limit is exact: `good` numbers are not over the limit.
    fn number_at(&self, rank: u64, good: u64) -> Option<f64> {
        let limit = self.series.limit_ns(self.limit?);
        let (value, _) = self.series.numbers().at_rank(rank)?;
        let (under, over) = (value_of_rank(limit), value_of_rank(limit.saturating_add(1)));
        Some(if rank <= good { value.min(under) } else { value.max(over) })
    }

    /// Iterations whose numbers are over the limit, the largest first.
    pub(super) fn large_numbers(&self, slices: &[Slice]) -> Vec<SampleId> {
        let condition = &self.threshold.condition;
        let mut largest: Vec<_> = match self.threshold.window_ns {
            None => self.series.longest().to_vec(),
            Some(_) => slices.iter().filter_map(|slice| Some((slice.max_ns, slice.longest?))).collect(),
        };
        largest.sort_by_key(|(rank, _)| std::cmp::Reverse(*rank));
        let breaks = |rank: u64| !condition.operator.holds(value_of_rank(rank), condition.limit);
        largest.into_iter().filter(|(rank, _)| breaks(*rank)).map(|(_, id)| id).collect()
    }
}
