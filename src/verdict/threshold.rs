//! Thresholds on the data in the log, judged by explicit counts and contiguous batches.
//!
//! A percentile is judged by the number of samples over its limit, with exact binomial bounds; failed samples always
//! count as over. A mean is judged by Student's bounds, corrected for skew. The smallest, the largest and counts are
//! exact. A wrong PASS or FAIL has a probability of at most 5 %; everything else is INCONCLUSIVE. The report shows the
//! bounds of the same test: a percentile passes exactly when its upper bound keeps the limit, and fails exactly when
//! its lower bound does not.

use std::borrow::Cow;
use std::ops::Range;

use super::words::{between, milliseconds, percent, percent_beside, time, time_beside, unmeasured};
use base::units::{beside_limit, format_number, number_beside};
use measure::latency::SampleId;
use results::batched::{BatchBasis, merged};
use results::counting::{Series, Slice};
use results::model::{CriterionMeasurement, Outcome};
use statistics::binomial::{BATCHES, BinomialCount, Share, batches, samples_needed};
use statistics::mean::{Batch, Mean, Powers};
use statistics::order::{rank, share_above};
use terms::threshold::{CountedOutcome, Metric, Operator, Statistic, Threshold};

/// The accepted probability of an error.
pub const ALPHA: f64 = 0.05;
/// A mean gets bounds only with this many batches.
const BATCHES_MIN: usize = 5;
/// A mean passes an upper limit only with this many samples in each of [`BATCHES`] batches. Fewer may miss rare slow
/// iterations: 400 samples miss an event of probability 1 % in 2 % of runs.
const BATCH_SAMPLES_MIN: u64 = 20;

/// The result of a threshold.
#[derive(Clone, Debug)]
pub struct ThresholdResult {
    /// PASS, FAIL, INCONCLUSIVE or INVALID.
    pub outcome: Outcome,
    /// The observation as text.
    pub observed: String,
    /// The same in numbers.
    pub measured: Option<CriterionMeasurement>,
    /// The number of samples behind it.
    pub samples: u64,
    /// Why it is INCONCLUSIVE or INVALID, and what would help.
    pub reason: Option<String>,
    /// Iterations that broke it, worst first.
    pub examples: Vec<SampleId>,
}

impl ThresholdResult {
    /// INVALID, with the reason.
    #[must_use]
    pub fn invalid(observed: impl Into<String>, samples: u64, reason: impl Into<String>) -> Self {
        Self {
            outcome: Outcome::Invalid,
            observed: observed.into(),
            measured: None,
            samples,
            reason: Some(reason.into()),
            examples: Vec::new(),
        }
    }
}

/// A threshold with its samples.
pub struct Judge<'a> {
    pub threshold: &'a Threshold,
    /// Its samples.
    pub series: &'a Series,
    /// The index of the threshold's limit in the series.
    pub limit: Option<usize>,
    /// The accepted probability of a wrong FAIL.
    pub alpha: f64,
}

/// The verdict on a range of slices.
#[derive(Clone, Copy)]
pub(super) struct RangeOutcome {
    pub(super) outcome: Outcome,
    /// How close to the limit, or how far beyond it. Orders the windows.
    badness: f64,
    /// The observation: a share, or a value in the limit's unit.
    pub(super) value: f64,
}

#[cfg(test)]
impl RangeOutcome {
    /// A FAIL of this value.
    pub(super) fn failed(value: f64) -> Self {
        Self { outcome: Outcome::Fail, badness: 0.0, value }
    }
}

/// A value with its bounds.
struct BoundedValue {
    value: f64,
    low: f64,
    high: f64,
}

impl Judge<'_> {
    /// Judges the whole run, or every window.
    #[must_use]
    pub fn judge(&self) -> ThresholdResult {
        let all = 0..self.series.slices().len();
        if self.threshold.window_ns.is_some() {
            return self.windows();
        }
        let found = self.judge_range(all.clone(), self.alpha);
        self.describe(all, found.outcome)
    }

    /// The outcome alone, as the live gate needs it. With windows: the worst window that has changed since the series
    /// was last sealed, or the worst of all windows if `all`. `None` without a whole window.
    pub(super) fn outcome(&self, all: bool) -> Option<RangeOutcome> {
        let slices = self.series.slices().len();
        if self.threshold.window_ns.is_none() {
            return Some(self.judge_range(0..slices, self.alpha));
        }
        let from = if all { 0 } else { self.series.fresh().saturating_sub(BATCHES - 1) };
        self.worst_window(from).filter(|_| !self.series.is_too_long()).map(|(_, found)| found)
    }

    /// Every position of the window must hold. The window moves in steps of a twentieth of its length.
    fn windows(&self) -> ThresholdResult {
        let slices = self.series.slices().len();
        let samples = self.samples(0..slices);
        if self.series.is_too_long() {
            return ThresholdResult::invalid("too many windows", samples, "choose a longer window");
        }
        let Some((start, found)) = self.worst_window(0) else {
            let lasted = time(self.series.lasted_ns());
            let reason =
                format!("the load lasted {lasted}, less than one window; run longer, or shorten the window");
            return ThresholdResult::invalid("no whole window", samples, reason);
        };
        let mut judged = self.describe(start..start + BATCHES, found.outcome);
        let since_ns = self.series.begins_ns(start).saturating_sub(self.series.start_ns());
        judged.observed = format!("worst window, from {}: {}", time(since_ns), judged.observed);
        judged
    }

    /// The worst window that begins in this slice or later, with its first slice. One of many windows may exceed its
    /// limit by chance, so the accepted error is divided by the number of windows.
    fn worst_window(&self, from: usize) -> Option<(usize, RangeOutcome)> {
        let positions = from..(self.series.slices().len() + 1).saturating_sub(BATCHES);
        let alpha = self.alpha / positions.len() as f64;
        // A window that has nothing to judge weighs as little as one that holds.
        let weight = |outcome: Outcome| outcome.weight().max(Outcome::Pass.weight());
        let mut worst: Option<(usize, RangeOutcome)> = None;
        for start in positions {
            let found = self.judge_range(start..start + BATCHES, alpha);
            let key = |found: &RangeOutcome| (weight(found.outcome), found.badness);
            if worst.as_ref().is_none_or(|(_, seen)| key(&found) > key(seen)) {
                worst = Some((start, found));
            }
        }
        worst
    }

    /// The slices of a range in about twenty batches. A threshold without windows has only one range: the whole run.
    fn batched(&self, range: Range<usize>, by: BatchBasis) -> Cow<'_, [Slice]> {
        match self.threshold.window_ns {
            None => Cow::Borrowed(self.series.batched().by(by)),
            Some(_) => Cow::Owned(merged(&self.series.slices()[range], by)),
        }
    }

    /// A range as one slice.
    pub(super) fn all(&self, range: Range<usize>) -> Slice {
        if self.threshold.window_ns.is_none() {
            return *self.series.batched().all();
        }
        let mut all = Slice::default();
        self.series.slices()[range].iter().for_each(|slice| all.add(slice));
        all
    }

    /// How many samples the metric has in a range.
    fn samples(&self, range: Range<usize>) -> u64 {
        match &self.threshold.condition.metric {
            Metric::Time(Statistic::Percentile(_), _) | Metric::Number(Statistic::Percentile(_), _) => {
                self.share(range).whole.n
            }
            _ => self.decided(&self.all(range)),
        }
    }

    pub(super) fn share(&self, range: Range<usize>) -> Share {
        let mut parts = self.parts(range.clone());
        parts.extend(self.cut_off(&self.all(range)).filter(|cut| cut.k > 0));
        Share::of_batches(&parts)
    }

    /// The iterations that were cut off, and how many of them are certainly over a percentile's limit: all or none.
    fn cut_off(&self, all: &Slice) -> Option<BinomialCount> {
        let condition = &self.threshold.condition;
        let (first_ns, _) = all.cut_ns?;
        if !matches!(condition.metric, Metric::Time(Statistic::Percentile(_), _)) {
            return None;
        }
        let over = match condition.operator.bounds_above() {
            true => !condition.operator.holds(first_ns as f64, condition.limit),
            false => condition.operator.holds(first_ns as f64, condition.limit),
        };
        Some(BinomialCount { k: if over { all.aborted } else { 0 }, n: all.aborted })
    }

    fn parts(&self, range: Range<usize>) -> Vec<BinomialCount> {
        let merge = |into: &mut BinomialCount, part: &BinomialCount| {
            into.k += part.k;
            into.n += part.n;
        };
        // Failed iterations never help to keep a lower limit.
        let above = self.bounds_above();
        match (&self.threshold.condition.metric, self.limit) {
            (Metric::Time(..) | Metric::Number(..), Some(limit)) if self.threshold.window_ns.is_none() => {
                match above {
                    true => self.series.batched().parts(limit),
                    false => self.series.batched().well_over(limit),
                }
            }
            (Metric::Time(..) | Metric::Number(..), Some(limit)) => {
                let of = |slice: usize| {
                    let (part, well) = (self.series.over(slice, limit), self.series.slices()[slice].ok);
                    if above { part } else { BinomialCount { k: part.k - (part.n - well), n: part.n } }
                };
                let parts: Vec<BinomialCount> = range.map(of).collect();
                batches(&parts, |part| part.n, merge)
            }
            (Metric::Rate(event, _), _) => {
                let by = if event.is_of_ended() { BatchBasis::Completed } else { BatchBasis::Total };
                let of = |slice: &Slice| BinomialCount {
                    k: self.counted(*event, slice),
                    n: if by == BatchBasis::Completed { slice.completed() } else { slice.total() },
                };
                self.batched(range, by).iter().map(of).collect()
            }
            _ => Vec::new(),
        }
    }

    /// A percentile gets PASS or FAIL only if the iterations that were cut off cannot change it.
    fn by_percentile(&self, range: Range<usize>, at: f64, alpha: f64) -> Outcome {
        let (operator, all) = (self.threshold.condition.operator, self.all(range.clone()));
        let judge = |share: &Share| by_share(share, operator, share_above(at), alpha);
        let seen = judge(&self.share(range.clone()));
        match self.cut_off(&all) {
            Some(cut) if cut.k == 0 => {
                let with = |k: u64| {
                    let mut parts = self.parts(range.clone());
                    parts.push(BinomialCount { k, ..cut });
                    judge(&Share::of_batches(&parts))
                };
                if with(0) == seen && with(cut.n) == seen { seen } else { Outcome::Inconclusive }
            }
            _ => seen,
        }
    }

    /// Judges a range. The probability of a wrong FAIL is at most `alpha`.
    fn judge_range(&self, range: Range<usize>, alpha: f64) -> RangeOutcome {
        let condition = &self.threshold.condition;
        let wanted = self.threshold.min_samples.unwrap_or(1).max(1);
        let invalid =
            |samples: u64| RangeOutcome { outcome: Outcome::Invalid, badness: -(samples as f64), value: 0.0 };
        let of_share = |limit: f64, judged: &dyn Fn(&Share) -> Outcome| {
            let share = self.share(range.clone());
            let value = share.seen();
            match share.whole.n < wanted {
                true => invalid(share.whole.n),
                false => RangeOutcome { outcome: judged(&share), badness: self.badness(value, limit), value },
            }
        };
        match &condition.metric {
            Metric::Time(Statistic::Percentile(at), _) | Metric::Number(Statistic::Percentile(at), _) => {
                of_share(share_above(*at), &|_| self.by_percentile(range.clone(), *at, alpha))
            }
            Metric::Rate(..) => {
                let limit = condition.limit / 100.0;
                of_share(limit, &|share| by_rate(share, condition.operator, limit, alpha))
            }
            _ => {
                let samples = self.samples(range.clone());
                if samples < wanted { invalid(samples) } else { self.judge_bounded(range, alpha) }
            }
        }
    }

    /// How bad a value is beside others: the largest is the worst under an upper limit, the smallest over a lower one, and
    /// that which is farthest from what it must equal.
    fn badness(&self, value: f64, limit: f64) -> f64 {
        match self.threshold.condition.operator {
            Operator::Equal => (value - limit).abs(),
            operator if operator.bounds_above() => value,
            _ => -value,
        }
    }

    fn judge_bounded(&self, range: Range<usize>, alpha: f64) -> RangeOutcome {
        let condition = &self.threshold.condition;
        let all = self.all(range.clone());
        let seen = self.bounded(range.clone(), alpha);
        let is_extreme = matches!(
            condition.metric,
            Metric::Time(Statistic::Min | Statistic::Max, _)
                | Metric::Number(Statistic::Min | Statistic::Max, _)
        );
        if is_extreme {
            let value = seen.as_ref().map_or(0.0, |seen| seen.value);
            let badness = seen.map_or(f64::INFINITY, |_| self.badness(value, condition.limit));
            return RangeOutcome { outcome: self.extreme(&all), badness, value };
        }
        if self.is_broken_by_faults(&all) {
            let value = seen.map_or(0.0, |seen| seen.value);
            return RangeOutcome { outcome: Outcome::Fail, badness: f64::INFINITY, value };
        }
        let Some(seen) = seen else {
            return RangeOutcome { outcome: Outcome::Inconclusive, badness: 0.0, value: 0.0 };
        };
        let outcome = by_bounds(&seen, condition.operator, condition.limit);
        // Both claim that the mean is not larger than observed.
        let small = outcome == Outcome::Pass || !condition.operator.bounds_above();
        let is_mean = matches!(condition.metric, Metric::Time(..));
        let long = is_mean && all.aborted > 0 || self.misses_rare(range);
        let outcome = if small && long { Outcome::Inconclusive } else { outcome };
        RangeOutcome { outcome, badness: self.badness(seen.value, condition.limit), value: seen.value }
    }

    /// True for a mean of too few samples to contain rare slow iterations.
    fn misses_rare(&self, range: Range<usize>) -> bool {
        let metric = &self.threshold.condition.metric;
        if !matches!(metric, Metric::Time(Statistic::Mean, _) | Metric::Number(Statistic::Mean, _)) {
            return false;
        }
        let merged = self.batched(range, BatchBasis::Ok);
        merged.len() < BATCHES || merged.iter().any(|batch| batch.ok < BATCH_SAMPLES_MIN)
    }

    /// The value of a metric other than a share, with its bounds; `None` with too little data.
    fn bounded(&self, range: Range<usize>, alpha: f64) -> Option<BoundedValue> {
        let exact = |value: f64| Some(BoundedValue { value, low: value, high: value });
        match &self.threshold.condition.metric {
            metric @ (Metric::Time(Statistic::Mean, _) | Metric::Number(Statistic::Mean, _)) => {
                let merged = self.batched(range, BatchBasis::Ok);
                let mut powers = Powers::default();
                merged.iter().for_each(|slice| powers.merge(&slice.ok_powers));
                let is_number = metric.measure().is_some();
                let sum = |slice: &Slice| if is_number { slice.ok_sum } else { slice.ok_sum_ns as f64 };
                let of = |slice: &Slice| Batch { n: slice.ok, sum: sum(slice) };
                of_batches(&merged.iter().map(of).collect::<Vec<_>>(), Some(&powers), alpha)
            }
            Metric::Time(Statistic::Min, _) | Metric::Number(Statistic::Min, _) => {
                exact(self.value(self.all(range).min_ns?))
            }
            Metric::Time(..) | Metric::Number(..) => exact(self.value(self.all(range).ok_max_ns?)),
            Metric::Count(event, _) => exact(self.counted(*event, &self.all(range)) as f64),
            Metric::Throughput => self.throughput(range, alpha),
            _ => None,
        }
    }

    fn counted(&self, event: CountedOutcome, slice: &Slice) -> u64 {
        match event {
            CountedOutcome::Errors => slice.failed,
            CountedOutcome::Dropped => slice.dropped,
            CountedOutcome::Aborted => slice.aborted,
            CountedOutcome::Resent => slice.resent,
            CountedOutcome::Completed => self.done(slice),
        }
    }

    /// Completed iterations per second: the observed rate of the whole, with bounds from chunks of equal length.
    fn throughput(&self, range: Range<usize>, alpha: f64) -> Option<BoundedValue> {
        let slices = &self.series.slices()[range];
        let slice_s = self.series.slice_ns() as f64 / 1e9;
        let windowed = self.threshold.window_ns.is_some();
        // The load begins and ends within a slice.
        let inner = if windowed || slices.len() < 3 { slices } else { &slices[1..slices.len() - 1] };
        let chunks: Vec<Batch> = inner
            .chunks(inner.len().div_ceil(BATCHES).max(1))
            .map(|chunk| Batch {
                n: chunk.len() as u64,
                sum: chunk.iter().map(|slice| self.done(slice)).sum::<u64>() as f64,
            })
            .collect();
        let seen = of_batches(&chunks, None, alpha)?;
        let done = slices.iter().map(|slice| self.done(slice)).sum::<u64>() as f64;
        let lasted_s =
            if windowed { slices.len() as f64 * slice_s } else { self.series.lasted_ns() as f64 / 1e9 };
        let value = done / lasted_s;
        let (below, above) = (seen.value - seen.low, seen.high - seen.value);
        Some(BoundedValue { value, low: value - below / slice_s, high: value + above / slice_s })
    }

    /// The verdict on a range as text.
    fn describe(&self, range: Range<usize>, outcome: Outcome) -> ThresholdResult {
        let samples = self.samples(range.clone());
        let wanted = self.threshold.min_samples.unwrap_or(1).max(1);
        if samples == 0 {
            return ThresholdResult::invalid("no samples", 0, self.nothing(range));
        }
        if samples < wanted {
            let reason = match self.threshold.window_ns {
                None => format!("min_samples is {wanted}, and the run has {samples}; run longer"),
                Some(_) => {
                    format!("min_samples is {wanted}, and this window has {samples}; use longer windows")
                }
            };
            return ThresholdResult::invalid(format!("{samples} samples"), samples, reason);
        }
        let (observed, measured, reason) = match &self.threshold.condition.metric {
            Metric::Time(Statistic::Percentile(at), _) => self.of_percentile(range.clone(), *at),
            Metric::Number(Statistic::Percentile(at), _) => self.of_number_percentile(range.clone(), *at),
            Metric::Rate(..) => self.of_rate(range.clone()),
            _ => self.of_value(range.clone()),
        };
        let cut = self.all(range.clone()).aborted;
        let is_time = matches!(self.threshold.condition.metric, Metric::Time(..));
        let reason = match is_time && cut > 0 {
            true => {
                format!("{cut} were cut off, and their full times are unknown; let the run finish")
            }
            false => reason,
        };
        let reason = match outcome == Outcome::Inconclusive && self.misses_rare(range.clone()) {
            true => format!(
                "so few samples ({samples}) may miss rare slow iterations: a mean needs {BATCH_SAMPLES_MIN} samples in each of \
                 {BATCHES} parts of the run; run longer"
            ),
            false => reason,
        };
        ThresholdResult {
            outcome,
            observed,
            measured,
            samples,
            reason: (outcome == Outcome::Inconclusive).then_some(reason),
            examples: if outcome == Outcome::Fail { self.examples(range) } else { Vec::new() },
        }
    }

    /// Why there are no samples.
    fn nothing(&self, range: Range<usize>) -> String {
        let all = self.all(range);
        match all {
            Slice { failed: 1.., .. } => format!("all {} failed", all.failed),
            Slice { aborted: 1.., .. } => format!("none finished: {} were cut off", all.aborted),
            _ => unmeasured(&self.threshold.condition.metric).to_owned(),
        }
    }

    /// The percentile is the sample of its rank. Its bounds are samples too, by the test that judged it. Iterations
    /// that failed or never started rank after all others and have no time.
    fn of_percentile(&self, range: Range<usize>, at: f64) -> (String, Option<CriterionMeasurement>, String) {
        let (share, allowed) = (self.share(range.clone()), share_above(at));
        let BinomialCount { k, n } = share.whole;
        let limit = self.threshold.condition.limit;
        let over = format!(
            "{k} of {n} {} {}, {} allowed{}",
            if self.threshold.condition.operator.bounds_above() { "over" } else { "above" },
            time(limit as u64),
            percent(allowed * 100.0),
            self.others(&self.all(range.clone()))
        );
        let bounds = share.order_bounds(at, ALPHA);
        let time_at = |rank: Option<u64>| self.time_at(rank?, n - k);
        let (seen, low, high) = (time_at(rank(n, at)), time_at(bounds.low), time_at(bounds.high));
        let reason = unclear(&share, allowed);
        if self.threshold.window_ns.is_some() {
            return (over, None, reason);
        }
        let spread = between(low.map(time), high.map(time));
        let Some(seen_ns) = seen else {
            // Those without a time rank last.
            let which = if self.all(range).failed > 0 { "failed" } else { "dropped or cut-off" };
            return (format!("no time, as it falls among {which} iterations{spread}; {over}"), None, reason);
        };
        let measured = CriterionMeasurement {
            unit: "ms".to_owned(),
            limit: milliseconds(limit),
            value: milliseconds(seen_ns as f64),
            low: low.map(|ns| milliseconds(ns as f64)),
            high: high.map(|ns| milliseconds(ns as f64)),
        };
        (format!("{}{spread}; {over}", time_beside(seen_ns as f64, limit)), Some(measured), reason)
    }

    /// The time of a rank, to a thousandth. Its side of the limit is exact: `good` samples are not over the limit.
    fn time_at(&self, rank: u64, good: u64) -> Option<u64> {
        let limit_ns = self.series.limit_ns(self.limit?);
        let time_ns = self.series.time_ns(rank)?;
        Some(if rank <= good { time_ns.min(limit_ns) } else { time_ns.max(limit_ns.saturating_add(1)) })
    }

    fn of_rate(&self, range: Range<usize>) -> (String, Option<CriterionMeasurement>, String) {
        let share = self.share(range);
        let (low, high) = share.bounds(ALPHA);
        let BinomialCount { k, n } = share.whole;
        let observed = format!(
            "{} ({} to {}): {k} of {n}",
            percent_beside(share.seen() * 100.0, self.threshold.condition.limit),
            percent(low * 100.0),
            percent(high * 100.0)
        );
        let limit = self.threshold.condition.limit;
        let measured = CriterionMeasurement {
            unit: "%".to_owned(),
            limit,
            value: share.seen() * 100.0,
            low: Some(low * 100.0),
            high: Some(high * 100.0),
        };
        (observed, Some(measured), unclear(&share, limit / 100.0))
    }

    fn of_value(&self, range: Range<usize>) -> (String, Option<CriterionMeasurement>, String) {
        let reason = "the value varies too much during the run to decide; run longer".to_owned();
        let all = self.all(range.clone());
        let others = self.others(&all);
        let Some(BoundedValue { value, low, high }) = self.bounded(range, ALPHA) else {
            let few = "too few samples for bounds of the value; run longer".to_owned();
            let observed = if all.ok == 0 { "none succeeded" } else { "too few samples" };
            return (observed.to_owned() + &others, None, few);
        };
        let metric = &self.threshold.condition.metric;
        let (unit, scale) = match metric {
            Metric::Time(..) => ("ms", 1e-6),
            Metric::Throughput => ("1/s", 1.0),
            _ => ("", 1.0),
        };
        let shown = |value: f64| match metric {
            Metric::Time(..) => time(value.max(0.0).round() as u64),
            Metric::Throughput => format!("{value:.1}/s"),
            Metric::Number(..) => format_number(value),
            _ => format!("{value}"),
        };
        let bounds = (low < high).then_some((low, high));
        let limit = self.threshold.condition.limit;
        let seen = match metric {
            Metric::Time(..) => time_beside(value, limit),
            Metric::Throughput => beside_limit(value, limit, |value, more| format!("{value:.*}/s", 1 + more)),
            Metric::Number(..) => number_beside(value, limit),
            _ => shown(value),
        };
        let observed = match bounds {
            Some((low, high)) => format!("{seen} ({} to {})", shown(low), shown(high)),
            None => seen,
        };
        let measured = CriterionMeasurement {
            unit: unit.to_owned(),
            limit: self.threshold.condition.limit * scale,
            value: value * scale,
            low: bounds.map(|(low, _)| low * scale),
            high: bounds.map(|(_, high)| high * scale),
        };
        // The figure is of successful iterations; others broke the limit.
        let measured = (!self.is_broken_by_faults(&all)).then_some(measured);
        (observed + &others, measured, reason)
    }
}

fn of_batches(batches: &[Batch], powers: Option<&Powers>, alpha: f64) -> Option<BoundedValue> {
    if batches.iter().filter(|batch| batch.n > 0).count() < BATCHES_MIN {
        return None;
    }
    let mean = Mean::of_batches(batches)?;
    let mean = powers.map_or(mean, |powers| mean.shaped(powers));
    let (low, high) = mean.bounds(alpha);
    Some(BoundedValue { value: mean.value, low, high })
}

/// Whether the share over a limit is certainly at most what is allowed (for lower limits: at least).
pub(super) fn by_share(share: &Share, operator: Operator, allowed: f64, alpha: f64) -> Outcome {
    match operator.bounds_above() {
        true if share.surely_above(allowed, alpha) => Outcome::Fail,
        true if share.surely_at_most(allowed, ALPHA) => Outcome::Pass,
        false if share.surely_above(allowed, ALPHA) => Outcome::Pass,
        false if share.surely_at_most(allowed, alpha) => Outcome::Fail,
        _ => Outcome::Inconclusive,
    }
}

fn by_rate(share: &Share, operator: Operator, limit: f64, alpha: f64) -> Outcome {
    let BinomialCount { k, n } = share.whole;
    let exactly = |holds: bool| if holds { Outcome::Pass } else { Outcome::Fail };
    // No number of samples proves a share of exactly 0 or 1, so these conditions judge the observed share.
    match operator {
        Operator::Equal => exactly(Operator::Equal.holds(share.seen(), limit)),
        Operator::AtMost if limit <= 0.0 => exactly(k == 0),
        Operator::Above if limit <= 0.0 => exactly(k > 0),
        Operator::AtLeast if limit <= 0.0 => Outcome::Pass,
        Operator::AtLeast if limit >= 1.0 => exactly(k == n),
        Operator::Below if limit >= 1.0 => exactly(k < n),
        operator => by_share(share, operator, limit, alpha),
    }
}

fn by_bounds(seen: &BoundedValue, operator: Operator, limit: f64) -> Outcome {
    match (operator.holds(seen.low, limit), operator.holds(seen.high, limit)) {
        (true, true) => Outcome::Pass,
        (false, false) => Outcome::Fail,
        _ => Outcome::Inconclusive,
    }
}

/// True when more samples cannot change the comparison. They only raise the value if `grows`, else they only lower it.
pub(super) fn settled(grows: bool, operator: Operator, value: f64, limit: f64) -> bool {
    match operator {
        Operator::Equal => {
            if grows {
                value > limit
            } else {
                value < limit
            }
        }
        _ => operator.holds(value, limit) != (grows == operator.bounds_above()),
    }
}

/// Why a share is inconclusive.
pub(super) fn unclear(share: &Share, allowed: f64) -> String {
    let n = share.whole.n;
    match samples_needed(allowed, ALPHA) {
        Some(needed) if n < needed => {
            let few = if n == 1 { "1 sample is".to_owned() } else { format!("{n} samples are") };
            format!("{few} too few even if all of them are good: {needed} are needed; run longer")
        }
        _ => {
            let (low, high) = share.bounds(ALPHA);
            format!(
                "too close to the limit to decide: between {} and {} are over it, {} allowed; run longer, or move the \
                 limit",
                percent(low * 100.0),
                percent(high * 100.0),
                percent(allowed * 100.0)
            )
        }
    }
}
