//! Thresholds on what the log holds, judged by explicit counts and contiguous batches.
//!
//! A percentile is judged by how many samples are over its limit (failed ones are, whatever they took), with exact
//! binomial bounds; a mean by Student's bounds; smallest, largest and counts exactly. FAIL and PASS are said only
//! where an error has a probability of 5 % at most; between them lies INCONCLUSIVE.

use std::ops::Range;

use super::words::{milliseconds, percent, time};
use crate::base::statistics::binomial::{BATCHES, Part, Share, batches, samples_needed};
use crate::base::statistics::mean::{Batch, Mean};
use crate::measure::latency::SampleId;
use crate::plan::threshold::{Event, Metric, Operator, Statistic, Threshold};
use crate::results::aggregate::EXEMPLARS_MAX;
use crate::results::counting::{Series, Slice};
use crate::results::model::{Measured, Outcome};

/// The probability of an error that is accepted.
pub const ALPHA: f64 = 0.05;
/// Fewer batches do not tell how exactly a mean is known.
const BATCHES_MIN: usize = 5;
/// A mean is called small only with so many samples in each of [`BATCHES`] batches: what is long and rare is not among
/// fewer. Of 400, one in a hundred is missed in 2 % of runs.
const BATCH_SAMPLES_MIN: u64 = 20;

/// How a threshold came out.
#[derive(Clone, Debug)]
pub struct Judged {
    /// PASS, FAIL, INCONCLUSIVE or INVALID.
    pub outcome: Outcome,
    /// What was seen, in words.
    pub observed: String,
    /// The same in numbers.
    pub measured: Option<Measured>,
    /// By how many samples.
    pub samples: u64,
    /// Why it is INCONCLUSIVE or INVALID, and what would help.
    pub reason: Option<String>,
    /// Iterations that broke it, worst first.
    pub examples: Vec<SampleId>,
}

impl Judged {
    /// Without a verdict, and why.
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
    /// The threshold.
    pub threshold: &'a Threshold,
    /// Its samples.
    pub series: &'a Series,
    /// Which of the series' limits is its own.
    pub limit: Option<usize>,
    /// The probability of a wrong FAIL that is accepted.
    pub alpha: f64,
}

/// What a stretch of the run says: how it is, and how near to the limit or beyond, for finding the worst.
#[derive(Clone, Copy)]
struct Stretch {
    outcome: Outcome,
    badness: f64,
}

/// What is known of a value.
struct Known {
    value: f64,
    low: f64,
    high: f64,
}

impl Judge<'_> {
    /// Judges it on the whole, or in every window.
    #[must_use]
    pub fn judge(&self) -> Judged {
        let all = 0..self.series.slices().len();
        if self.threshold.window_ns.is_some() {
            return self.windows();
        }
        let stretch = self.stretch(all.clone(), self.alpha);
        self.describe(all, stretch.outcome)
    }

    /// Every position of the window, in steps of a twentieth of it: all must hold. As one of many may be beyond its
    /// limit by chance, a FAIL needs so much more certainty.
    fn windows(&self) -> Judged {
        let slices = self.series.slices().len();
        let samples = self.samples(0..slices);
        if self.series.is_too_long() {
            return Judged::invalid("too many windows", samples, "choose a longer window");
        }
        if slices < BATCHES {
            let lasted = time(self.series.lasted_ns());
            let reason =
                format!("the load took {lasted}, less than one window; run longer, or shorten the window");
            return Judged::invalid("no whole window", samples, reason);
        }
        let positions = slices - BATCHES + 1;
        #[expect(clippy::cast_precision_loss, reason = "a count of windows")]
        let alpha = self.alpha / positions as f64;
        let rank = |outcome| match outcome {
            Outcome::Fail => 3,
            Outcome::Invalid => 2,
            Outcome::Inconclusive => 1,
            _ => 0,
        };
        let mut worst: Option<(usize, Stretch)> = None;
        for start in 0..positions {
            let stretch = self.stretch(start..start + BATCHES, alpha);
            let key = |stretch: &Stretch| (rank(stretch.outcome), stretch.badness);
            if worst.as_ref().is_none_or(|(_, known)| key(&stretch) > key(known)) {
                worst = Some((start, stretch));
            }
        }
        let Some((start, stretch)) = worst else {
            return Judged::invalid("no window", samples, "run longer");
        };
        let mut judged = self.describe(start..start + BATCHES, stretch.outcome);
        let since_ns = self.series.begins_ns(start).saturating_sub(self.series.start_ns());
        judged.observed = format!("worst window, from {}: {}", time(since_ns), judged.observed);
        judged
    }

    /// How many samples the metric has in a stretch.
    fn samples(&self, range: Range<usize>) -> u64 {
        let sum = |of: fn(&Slice) -> u64| self.series.slices()[range.clone()].iter().map(of).sum();
        match &self.threshold.condition.metric {
            Metric::Time(Statistic::Percentile(_), _) => self.parts(range).iter().map(|part| part.n).sum(),
            Metric::Time(Statistic::Mean | Statistic::Min, _) => sum(|slice| slice.ok),
            Metric::Rate(Event::Errors, _) | Metric::Time(..) | Metric::Throughput => sum(Slice::completed),
            _ => sum(Slice::total),
        }
    }

    fn parts(&self, range: Range<usize>) -> Vec<Part> {
        match (&self.threshold.condition.metric, self.limit) {
            (Metric::Time(..), Some(limit)) => range.map(|slice| self.series.over(slice, limit)).collect(),
            (Metric::Rate(event, _), _) => {
                let of = |slice: &Slice| Part {
                    k: counted(*event, slice),
                    n: if *event == Event::Errors { slice.completed() } else { slice.total() },
                };
                self.series.slices()[range].iter().map(of).collect()
            }
            _ => Vec::new(),
        }
    }

    fn share(&self, range: Range<usize>) -> Share {
        let merge = |into: &mut Part, part: &Part| {
            into.k += part.k;
            into.n += part.n;
        };
        Share::of_batches(&batches(&self.parts(range), |part| part.n, merge))
    }

    /// Judges a stretch; a wrong FAIL has the probability `alpha` at most.
    fn stretch(&self, range: Range<usize>, alpha: f64) -> Stretch {
        let samples = self.samples(range.clone());
        if samples < self.threshold.min_samples.unwrap_or(1).max(1) {
            return Stretch { outcome: Outcome::Invalid, badness: -(samples as f64) };
        }
        let condition = &self.threshold.condition;
        let sign = if condition.operator.bounds_above() { 1.0 } else { -1.0 };
        match &condition.metric {
            Metric::Time(Statistic::Percentile(at), _) => {
                let (share, allowed) = (self.share(range), 1.0 - at / 100.0);
                Stretch {
                    outcome: by_share(&share, condition.operator, allowed, alpha),
                    badness: sign * share.seen(),
                }
            }
            Metric::Rate(..) => {
                let share = self.share(range);
                let limit = condition.limit / 100.0;
                Stretch {
                    outcome: by_rate(&share, condition.operator, limit, alpha),
                    badness: sign * share.seen(),
                }
            }
            _ => match self.known(range.clone(), alpha) {
                Some(known) => {
                    let outcome = by_bounds(&known, condition.operator, condition.limit);
                    // Both say that the mean is no larger than what was seen.
                    let small = outcome == Outcome::Pass || !condition.operator.bounds_above();
                    let outcome = match small && self.misses_rare(range) {
                        true => Outcome::Inconclusive,
                        false => outcome,
                    };
                    Stretch { outcome, badness: sign * known.value }
                }
                None => Stretch { outcome: Outcome::Inconclusive, badness: 0.0 },
            },
        }
    }

    /// True of a mean of so few samples that what is long and rare may not be among them.
    fn misses_rare(&self, range: Range<usize>) -> bool {
        if !matches!(self.threshold.condition.metric, Metric::Time(Statistic::Mean, _)) {
            return false;
        }
        let slices = &self.series.slices()[range];
        let merged = batches(slices, |slice| slice.ok, |into: &mut Slice, slice| into.add(slice));
        merged.len() < BATCHES || merged.iter().any(|batch| batch.ok < BATCH_SAMPLES_MIN)
    }

    /// The value of a metric that is no share, with its bounds; `None` when too little is known.
    fn known(&self, range: Range<usize>, alpha: f64) -> Option<Known> {
        let slices = &self.series.slices()[range.clone()];
        let exact = |value: f64| Some(Known { value, low: value, high: value });
        match &self.threshold.condition.metric {
            Metric::Time(Statistic::Mean, _) => {
                let merged = batches(slices, |slice| slice.ok, |into: &mut Slice, slice| into.add(slice));
                let of = |slice: &Slice| Batch { n: slice.ok, sum: slice.ok_sum_ns as f64 };
                of_batches(&merged.iter().map(of).collect::<Vec<_>>(), alpha)
            }
            Metric::Time(Statistic::Min, _) => {
                exact(slices.iter().filter_map(|slice| slice.min_ns).min()? as f64)
            }
            Metric::Time(..) => exact(slices.iter().map(|slice| slice.max_ns).max()? as f64),
            Metric::Count(event, _) => {
                exact(slices.iter().map(|slice| counted(*event, slice)).sum::<u64>() as f64)
            }
            Metric::Throughput => self.throughput(range, alpha),
            _ => None,
        }
    }

    /// Completed iterations a second: what was seen on the whole, with bounds from stretches of equal length.
    fn throughput(&self, range: Range<usize>, alpha: f64) -> Option<Known> {
        let slices = &self.series.slices()[range];
        let slice_s = self.series.slice_ns() as f64 / 1e9;
        let windowed = self.threshold.window_ns.is_some();
        // The load begins and ends within a slice.
        let inner = if windowed || slices.len() < 3 { slices } else { &slices[1..slices.len() - 1] };
        let stretches: Vec<Batch> = inner
            .chunks(inner.len().div_ceil(BATCHES).max(1))
            .map(|chunk| Batch {
                n: chunk.len() as u64,
                sum: chunk.iter().map(Slice::completed).sum::<u64>() as f64,
            })
            .collect();
        let known = of_batches(&stretches, alpha)?;
        let completed = slices.iter().map(Slice::completed).sum::<u64>() as f64;
        let lasted_s =
            if windowed { slices.len() as f64 * slice_s } else { self.series.lasted_ns() as f64 / 1e9 };
        let value = completed / lasted_s;
        let (below, above) = (known.value - known.low, known.high - known.value);
        Some(Known { value, low: value - below / slice_s, high: value + above / slice_s })
    }

    /// The verdict of a stretch in words.
    fn describe(&self, range: Range<usize>, outcome: Outcome) -> Judged {
        let samples = self.samples(range.clone());
        let wanted = self.threshold.min_samples.unwrap_or(1).max(1);
        if samples == 0 {
            return Judged::invalid("no samples", 0, self.nothing(range));
        }
        if samples < wanted {
            let reason = format!("{wanted} samples are asked for, and there are {samples}; run longer");
            return Judged::invalid(format!("{samples} samples"), samples, reason);
        }
        let (observed, measured, reason) = match &self.threshold.condition.metric {
            Metric::Time(Statistic::Percentile(at), _) => self.of_percentile(range.clone(), *at),
            Metric::Rate(..) => self.of_rate(range.clone()),
            _ => self.of_value(range.clone()),
        };
        let reason = match outcome == Outcome::Inconclusive && self.misses_rare(range.clone()) {
            true => format!(
                "what is long and rare may not be among {samples} samples: a mean needs {BATCH_SAMPLES_MIN} in each of \
                 {BATCHES} parts of the run; run longer"
            ),
            false => reason,
        };
        Judged {
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
        let mut all = Slice::default();
        self.series.slices()[range].iter().for_each(|slice| all.add(slice));
        match all {
            Slice { failed: 1.., .. } => format!("all {} failed", all.failed),
            Slice { aborted: 1.., .. } => format!("none came to its end: {} were cut off", all.aborted),
            _ => "nothing ran that it could be judged by".to_owned(),
        }
    }

    fn of_percentile(&self, range: Range<usize>, at: f64) -> (String, Option<Measured>, String) {
        let (share, allowed) = (self.share(range), 1.0 - at / 100.0);
        let Part { k, n } = share.whole;
        let limit_ns = self.threshold.condition.limit as u64;
        let failed: u64 = self.series.slices().iter().map(|slice| slice.failed + slice.dropped).sum();
        // The value at a share of all samples, where failed ones come last; none is known beyond the others.
        let ok: u64 = self.series.slices().iter().map(|slice| slice.ok).sum();
        let all_n = if self.counts_failed() { (ok + failed) as f64 } else { ok as f64 };
        let value = |share: f64| {
            let among_ok = share * all_n / ok as f64;
            if among_ok > 1.0 { None } else { self.series.time_ns(among_ok) }
        };
        let (near, far) = share.bounds_around(allowed, ALPHA);
        let over = format!(
            "{k} of {n} {} {}, {} may",
            if self.threshold.condition.operator.bounds_above() { "over" } else { "above" },
            time(limit_ns),
            percent(allowed * 100.0)
        );
        let whole = self.threshold.window_ns.is_none();
        let seen = value(at / 100.0).filter(|_| whole);
        let measured = seen.map(|seen_ns| Measured {
            unit: "ms".to_owned(),
            limit: milliseconds(self.threshold.condition.limit),
            value: milliseconds(seen_ns as f64),
            low: value(1.0 - far).map(|ns| milliseconds(ns as f64)),
            high: value(1.0 - near).filter(|_| near > 0.0).map(|ns| milliseconds(ns as f64)),
        });
        let observed = match seen {
            Some(seen_ns) => {
                let low = value(1.0 - far).map_or_else(|| "?".to_owned(), time);
                let high = value(1.0 - near).filter(|_| near > 0.0);
                match high {
                    Some(high_ns) => format!("{} ({low} to {}); {over}", time(seen_ns), time(high_ns)),
                    None => format!("{} (at least {low}); {over}", time(seen_ns)),
                }
            }
            None => over,
        };
        let failed = match failed {
            0 => String::new(),
            _ if !self.counts_failed() => String::new(),
            failed => format!(" ({failed} failed, which counts as over)"),
        };
        (observed + &failed, measured, unclear(&share, allowed))
    }

    fn counts_failed(&self) -> bool {
        !matches!(&self.threshold.condition.metric,
            Metric::Time(_, times) if times.clock == crate::plan::threshold::Clock::Lag)
    }

    fn of_rate(&self, range: Range<usize>) -> (String, Option<Measured>, String) {
        let share = self.share(range);
        let (low, high) = share.bounds(ALPHA);
        let Part { k, n } = share.whole;
        let observed = format!(
            "{} ({} to {}): {k} of {n}",
            percent(share.seen() * 100.0),
            percent(low * 100.0),
            percent(high * 100.0)
        );
        let limit = self.threshold.condition.limit;
        let measured = Measured {
            unit: "%".to_owned(),
            limit,
            value: share.seen() * 100.0,
            low: Some(low * 100.0),
            high: Some(high * 100.0),
        };
        (observed, Some(measured), unclear(&share, limit / 100.0))
    }

    fn of_value(&self, range: Range<usize>) -> (String, Option<Measured>, String) {
        let reason = "the value differs too much over the run to tell; run longer".to_owned();
        let Some(Known { value, low, high }) = self.known(range, ALPHA) else {
            let few = "too few samples to tell how exactly the value is known; run longer".to_owned();
            return ("too few samples".to_owned(), None, few);
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
            _ => format!("{value}"),
        };
        let bounds = (low < value || high > value).then_some((low, high));
        let observed = match bounds {
            Some((low, high)) => format!("{} ({} to {})", shown(value), shown(low), shown(high)),
            None => shown(value),
        };
        let measured = Measured {
            unit: unit.to_owned(),
            limit: self.threshold.condition.limit * scale,
            value: value * scale,
            low: bounds.map(|(low, _)| low * scale),
            high: bounds.map(|(_, high)| high * scale),
        };
        (observed, Some(measured), reason)
    }

    fn examples(&self, range: Range<usize>) -> Vec<SampleId> {
        let condition = &self.threshold.condition;
        let whole = self.threshold.window_ns.is_none();
        let slices = &self.series.slices()[range];
        let failed = |examples: &mut Vec<SampleId>| match whole {
            true => examples.extend(self.series.failed()),
            false => examples.extend(slices.iter().filter_map(|slice| slice.failing)),
        };
        let mut examples = Vec::new();
        match &condition.metric {
            Metric::Rate(Event::Errors, _) | Metric::Count(Event::Errors, _) => failed(&mut examples),
            Metric::Time(statistic, _) if condition.operator.bounds_above() => {
                let mut longest: Vec<_> = match whole {
                    true => self.series.longest().to_vec(),
                    false => slices.iter().filter_map(|slice| Some((slice.max_ns, slice.longest?))).collect(),
                };
                longest.sort_by_key(|(ns, _)| std::cmp::Reverse(*ns));
                let over = |ns: u64| ns as f64 >= condition.limit;
                examples.extend(longest.iter().filter(|(ns, _)| over(*ns)).map(|(_, id)| *id));
                if matches!(statistic, Statistic::Percentile(_)) && self.counts_failed() {
                    failed(&mut examples);
                }
            }
            _ => {}
        }
        let mut known = Vec::new();
        examples.retain(|id| {
            !known.contains(id) && {
                known.push(*id);
                true
            }
        });
        examples.truncate(EXEMPLARS_MAX);
        examples
    }
}

fn counted(event: Event, slice: &Slice) -> u64 {
    match event {
        Event::Errors => slice.failed,
        Event::Dropped => slice.dropped,
        Event::Aborted => slice.aborted,
        Event::Completed => slice.completed(),
    }
}

fn of_batches(batches: &[Batch], alpha: f64) -> Option<Known> {
    if batches.iter().filter(|batch| batch.n > 0).count() < BATCHES_MIN {
        return None;
    }
    let mean = Mean::of_batches(batches)?;
    let (low, high) = mean.bounds(alpha);
    Some(Known { value: mean.value, low, high })
}

/// Whether the share over a limit is certainly no more (or, of lower limits, no less) than allowed.
pub(super) fn by_share(share: &Share, operator: Operator, allowed: f64, alpha: f64) -> Outcome {
    let (above, at_most) = (share.surely_above(allowed, alpha), share.surely_at_most(allowed, ALPHA));
    match (operator.bounds_above(), above, at_most) {
        (true, true, _) => Outcome::Fail,
        (true, _, true) => Outcome::Pass,
        (false, _, _) if share.surely_above(allowed, ALPHA) => Outcome::Pass,
        (false, _, _) if share.surely_at_most(allowed, alpha) => Outcome::Fail,
        _ => Outcome::Inconclusive,
    }
}

fn by_rate(share: &Share, operator: Operator, limit: f64, alpha: f64) -> Outcome {
    let Part { k, n } = share.whole;
    let exactly = |holds: bool| if holds { Outcome::Pass } else { Outcome::Fail };
    // No number of samples shows that a share is exactly nothing, or all: these ask for what was seen.
    match operator {
        Operator::Equal => exactly(Operator::Equal.holds(share.seen(), limit)),
        Operator::AtMost if limit <= 0.0 => exactly(k == 0),
        Operator::Above if limit <= 0.0 => exactly(k > 0),
        Operator::AtLeast if limit <= 0.0 => Outcome::Pass,
        Operator::AtLeast if limit >= 1.0 => exactly(k == n),
        Operator::AtMost if limit >= 1.0 => Outcome::Pass,
        Operator::Below if limit >= 1.0 => exactly(k < n),
        operator => by_share(share, operator, limit, alpha),
    }
}

fn by_bounds(known: &Known, operator: Operator, limit: f64) -> Outcome {
    let Known { value, low, high } = *known;
    if low >= value && high <= value {
        return if operator.holds(value, limit) { Outcome::Pass } else { Outcome::Fail };
    }
    match (operator.holds(low, limit), operator.holds(high, limit)) {
        (true, true) => Outcome::Pass,
        (false, false) => Outcome::Fail,
        _ => Outcome::Inconclusive,
    }
}

/// True when more samples cannot change how a value compares that only grows with them (else: only falls).
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

/// Why a share does not tell.
pub(super) fn unclear(share: &Share, allowed: f64) -> String {
    let n = share.whole.n;
    match samples_needed(allowed, ALPHA) {
        Some(needed) if n < needed => {
            format!("{n} samples cannot show it, were all of them good: {needed} are needed; run longer")
        }
        _ => {
            let (low, high) = share.bounds(ALPHA);
            format!(
                "too near to the limit to tell: between {} and {} are over it, {} may; run longer, or move the limit",
                percent(low * 100.0),
                percent(high * 100.0),
                percent(allowed * 100.0)
            )
        }
    }
}
