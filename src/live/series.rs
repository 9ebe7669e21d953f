//! A load over time, in columns of equal length: when it gets too long, two columns become one.

use base::clock::Nanos;

use super::counts::LogCounts;
use super::snapshot::{ColumnSnapshot, SeriesSnapshot};

/// The most columns.
const COLUMNS_MAX: usize = 240;
/// The length of the first columns.
const COLUMN_NS: Nanos = 250_000_000;

/// What happened in some time.
#[derive(Clone, Debug, Default)]
pub(super) struct SeriesColumn {
    /// Iterations asked for per second, by the plan; of a closed model, none.
    pub(super) asked_per_s: Option<f64>,
    /// What ended, including the warm-up and what was dropped.
    pub(super) ended: u64,
    pub(super) failed: u64,
    /// The most at any time.
    pub(super) under_way: u64,
    pub(super) queued: u64,
    /// Samples that have no time: they failed, were cut off or never started.
    pub(super) timeless: u64,
    /// The times of those without fault.
    pub(super) times: LogCounts,
    pub(super) warm_up: bool,
}

impl SeriesColumn {
    fn merge(&mut self, other: &Self) {
        self.asked_per_s = match (self.asked_per_s, other.asked_per_s) {
            (Some(first), Some(second)) => Some(f64::midpoint(first, second)),
            (first, second) => first.or(second),
        };
        self.ended += other.ended;
        self.failed += other.failed;
        self.under_way = self.under_way.max(other.under_way);
        self.queued = self.queued.max(other.queued);
        self.timeless += other.timeless;
        self.times.merge(&other.times);
        self.warm_up |= other.warm_up;
    }
}

/// Columns of equal length.
#[derive(Clone, Debug)]
pub(super) struct LoadSeries {
    column_ns: Nanos,
    columns: Vec<SeriesColumn>,
}

impl Default for LoadSeries {
    fn default() -> Self {
        Self { column_ns: COLUMN_NS, columns: Vec::new() }
    }
}

impl LoadSeries {
    /// The column of this time since the start.
    pub(super) fn at(&mut self, at_ns: Nanos) -> &mut SeriesColumn {
        while at_ns / self.column_ns >= COLUMNS_MAX as u64 {
            self.halve();
        }
        let at = (at_ns / self.column_ns) as usize;
        if at >= self.columns.len() {
            self.columns.resize_with(at + 1, SeriesColumn::default);
        }
        &mut self.columns[at]
    }

    fn halve(&mut self) {
        self.column_ns = self.column_ns.saturating_mul(2);
        let halved = self.columns.chunks(2).map(|pair| {
            let mut merged = pair[0].clone();
            pair[1..].iter().for_each(|other| merged.merge(other));
            merged
        });
        self.columns = halved.collect();
    }

    /// The columns that were over at this time.
    pub(super) fn snapshot(&self, until_ns: Nanos) -> SeriesSnapshot {
        let seconds = self.column_ns as f64 / 1e9;
        let over = usize::try_from(until_ns / self.column_ns).unwrap_or(usize::MAX);
        let columns = self.columns.iter().take(over).map(|column| ColumnSnapshot {
            asked_per_s: column.asked_per_s,
            served_per_s: column.ended as f64 / seconds,
            failed_per_s: column.failed as f64 / seconds,
            under_way: column.under_way,
            queued: column.queued,
            p50_ns: column.times.percentile_ns(50.0, column.timeless),
            p95_ns: column.times.percentile_ns(95.0, column.timeless),
            p99_ns: column.times.percentile_ns(99.0, column.timeless),
            rows: column.times.rows(),
            warm_up: column.warm_up,
        });
        SeriesSnapshot { column_ns: self.column_ns, columns: columns.collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two hours take as many columns as a minute, and nothing is lost.
    #[test]
    fn a_long_load_takes_no_more_columns() {
        let mut series = LoadSeries::default();
        for second in 0..7_200_u64 {
            let column = series.at(second * 1_000_000_000);
            column.ended += 10;
            column.times.add(5_000_000);
            column.asked_per_s = Some(10.0);
            column.under_way = second;
        }
        let shown = series.snapshot(7_200_000_000_000);
        assert!((120..=240).contains(&shown.columns.len()), "{}", shown.columns.len());
        let seconds = shown.column_ns as f64 / 1e9;
        for column in &shown.columns[..shown.columns.len() - 1] {
            assert_eq!((column.served_per_s, column.asked_per_s), (10.0, Some(10.0)));
        }
        let ended: f64 = shown.columns.iter().map(|column| column.served_per_s * seconds).sum();
        assert!((ended - 72_000.0).abs() < 10.0 * seconds, "{ended}");
        assert_eq!(series.columns.iter().map(|column| column.ended).sum::<u64>(), 72_000);
        assert_eq!(series.columns.last().map(|column| column.under_way), Some(7_199));
        // A time from nowhere takes no memory.
        series.at(Nanos::MAX).ended += 1;
        assert!(series.columns.len() <= COLUMNS_MAX);
    }

    #[test]
    fn a_column_is_shown_when_it_is_over() {
        let mut series = LoadSeries::default();
        series.at(0).ended = 5;
        series.at(300_000_000).ended = 1;
        for (until_ns, expected) in
            [(0, 0), (249_999_999, 0), (250_000_000, 1), (499_000_000, 1), (500_000_000, 2)]
        {
            assert_eq!(series.snapshot(until_ns).columns.len(), expected, "{until_ns}");
        }
        assert_eq!(series.snapshot(500_000_000).columns[0].served_per_s, 20.0);
    }
}
