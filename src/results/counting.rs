//! Counts of samples for criteria: a counter for each limit, in contiguous slices of time.
//!
//! Unlike a histogram, counters are exact: a sample is over a limit or it is not. Each series of samples (iterations or
//! an action's requests, by response or service time) is read once, however many limits it has. Memory depends on
//! slices and limits, not on samples. A sample is counted in the slice in which it ended. Nothing here judges.

use std::io;

use hdrhistogram::Histogram;

use base::clock::Nanos;
use measure::ids::RunIds;
use measure::latency::{SampleId, VALUE_NS_MAX, value_at_rank};
use measure::log::{RunLog, Visitor, WorkloadHeader};
use measure::numbers::{MeasuredNumber, NumberDistribution, rank_of};
use measure::rows::{Rows, SampleRow};
use measure::sample::CompletionStatus;
use statistics::binomial::{BATCHES, BinomialCount};
use terms::sla::Sla;
use terms::tags::ActionNames;
use terms::threshold::{Clock, Metric, MetricSubject, Operator, Statistic, Threshold};

use super::batched::BatchedSeries;
use super::largest::{EXEMPLARS_MAX, keep_first, keep_largest, size};
use super::phase_times::each_phase_ns;
use super::rally_sums::RallySums;

pub use super::slice::Slice;

/// The whole of a run is cut into at most this number of slices.
const SLICES_MAX: usize = 800;
/// The initial length of slices; it doubles until the run fits.
const SLICE_NS_MIN: Nanos = 1 << 16;
/// How many counters the windows of a series may need.
const CELLS_MAX: usize = 8 << 20;
/// The cost of reading a slice, in counters.
const SLICE_COST: u64 = 64;

/// The counts of a run, one entry for each workload.
pub struct RunCounts {
    /// In the order of the header.
    pub workloads: Vec<WorkloadCounts>,
    ids: RunIds,
}

/// The counts of one workload.
pub struct WorkloadCounts {
    names: ActionNames,
    series: Vec<Series>,
    /// What Rally's criteria need.
    pub rally: RallySums,
}

/// The samples of a series.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SeriesKey {
    /// The numbers of the actions, for requests; absent for iterations.
    actions: Option<Vec<u16>>,
    /// The number of the name of numbers from answers, which are then the samples.
    measure: Option<u16>,
    clock: Clock,
    unprofiled: bool,
    window_ns: Option<Nanos>,
}

impl SeriesKey {
    fn has(&self, action: u16) -> bool {
        self.actions.as_ref().is_some_and(|actions| actions.binary_search(&action).is_ok())
    }
}

/// Samples of one kind in slices of time.
pub struct Series {
    key: SeriesKey,
    /// Ascending; a sample is over a limit if it is longer.
    limits_ns: Vec<Nanos>,
    slice_ns: Nanos,
    /// The number of the first slice, counted from the run's anchor.
    first: u64,
    slices: Vec<Slice>,
    /// For each slice: how many samples are over how many of the limits.
    cells: Vec<u32>,
    /// Sums of the same for series with windows: for each slice and limit, how many samples are over it. Computed by
    /// [`Series::seal`].
    over: Vec<u32>,
    /// The same for series without windows, in batches.
    batched: BatchedSeries,
    /// The first slice that has changed since the series was sealed.
    changed: usize,
    /// The first slice that had changed when the series was last sealed.
    fresh: usize,
    /// The reference from which distances of successful times are computed.
    pivot: Option<f64>,
    /// The numbers, in a series of numbers.
    numbers: NumberDistribution,
    /// Times of samples without fault.
    times: Histogram<u64>,
    /// The longest of them.
    longest_ok_ns: Nanos,
    longest: Vec<(Nanos, SampleId)>,
    failed: Vec<SampleId>,
    start_ns: Nanos,
    end_ns: Nanos,
    too_long: bool,
}

impl RunCounts {
    /// Counters for the criteria in the header of a log.
    #[must_use]
    pub fn new(log: &RunLog) -> Self {
        let counts =
            |workload: &WorkloadHeader| WorkloadCounts::new(&workload.sla, workload.names(), |_| true);
        Self { workloads: log.header.workloads.iter().map(counts).collect(), ids: log.ids() }
    }

    /// Computes the sums that readers use.
    pub(super) fn seal(&mut self) {
        self.workloads.iter_mut().for_each(WorkloadCounts::seal);
    }
}

impl Visitor for RunCounts {
    fn rows(&mut self, rows: &Rows) -> io::Result<()> {
        if self.workloads.iter().all(WorkloadCounts::is_empty) {
            return Ok(());
        }
        for row in rows.iter() {
            if let Some(counts) = self.workloads.get_mut(usize::from(row.head.workload)) {
                counts.add(row, self.ids.is_control(row.head));
            }
        }
        Ok(())
    }
}

impl WorkloadCounts {
    /// Counters for the criteria of a workload; only for `wanted` thresholds.
    #[must_use]
    pub fn new(sla: &Sla, names: ActionNames, wanted: impl Fn(&Threshold) -> bool) -> Self {
        let mut counts = Self { rally: RallySums::new(sla, names.actions.len()), names, series: Vec::new() };
        for threshold in sla.thresholds.iter().filter(|threshold| wanted(threshold)) {
            let Some(key) = counts.key(threshold) else { continue };
            let known = counts.series.iter().position(|series| series.key == key);
            let at = known.unwrap_or_else(|| {
                counts.series.push(Series::new(key));
                counts.series.len() - 1
            });
            counts.series[at].limits_ns.extend(limit_ns(threshold));
        }
        for series in &mut counts.series {
            series.limits_ns.sort_unstable();
            series.limits_ns.dedup();
        }
        counts
    }

    /// True if nothing is counted.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.series.is_empty() && self.rally.is_empty()
    }

    /// Counts an iteration, unless it is part of the warm-up.
    pub fn add(&mut self, row: SampleRow<'_>, unprofiled: bool) {
        if row.head.warm_up {
            return;
        }
        self.rally.add(row);
        for series in &mut self.series {
            if !series.key.unprofiled || unprofiled {
                series.add(row);
            }
        }
    }

    /// Computes the sums that readers use; call it again after more samples were added.
    pub fn seal(&mut self) {
        self.series.iter_mut().for_each(Series::seal);
        self.rally.seal();
    }

    /// The same, only for series with windows, or only for those without.
    pub fn seal_only(&mut self, windows: bool) {
        self.series.iter_mut().filter(|one| one.key.window_ns.is_some() == windows).for_each(Series::seal);
    }

    /// How many counters that would read, as a measure of its cost.
    #[must_use]
    pub fn seal_cost(&self, windows: bool) -> u64 {
        let those = self.series.iter().filter(|one| one.key.window_ns.is_some() == windows);
        those.map(Series::seal_cost).sum()
    }

    /// The samples of a threshold and, where it is a percentile's, the number of its limit; `None` when it is not
    /// measured in the log.
    #[must_use]
    pub fn of(&self, threshold: &Threshold) -> Option<(&Series, Option<usize>)> {
        let key = self.key(threshold)?;
        let series = self.series.iter().find(|series| series.key == key)?;
        let limit = limit_ns(threshold).and_then(|limit_ns| series.limits_ns.binary_search(&limit_ns).ok());
        Some((series, limit))
    }

    fn key(&self, threshold: &Threshold) -> Option<SeriesKey> {
        let window_ns = threshold.window_ns;
        let iterations =
            SeriesKey { actions: None, measure: None, clock: Clock::Response, unprofiled: false, window_ns };
        let of_requests = |subject: &Option<MetricSubject>, key: SeriesKey| match subject {
            Some(subject) => {
                let actions = self.names.members(subject);
                (!actions.is_empty()).then_some(SeriesKey { actions: Some(actions), ..key })
            }
            None => Some(key),
        };
        match &threshold.condition.metric {
            Metric::Time(_, times) => {
                let key = SeriesKey { clock: times.clock, unprofiled: times.unprofiled, ..iterations };
                match times.clock {
                    Clock::Phase(phase) if phase.is_of_streams() => {
                        let actions = self.names.streaming_members(times.subject.as_ref());
                        (!actions.is_empty()).then_some(SeriesKey { actions: Some(actions), ..key })
                    }
                    Clock::Phase(_) if times.subject.is_none() => {
                        let all =
                            (0..self.names.actions.len()).filter_map(|number| u16::try_from(number).ok());
                        Some(SeriesKey { actions: Some(all.collect()), ..key })
                    }
                    _ => of_requests(&times.subject, key),
                }
            }
            Metric::Number(_, name) => {
                let number = self.names.measures.iter().position(|known| known == name)?;
                Some(SeriesKey { measure: u16::try_from(number).ok(), ..iterations })
            }
            Metric::Rate(_, subject @ Some(_)) | Metric::Count(_, subject @ Some(_)) => {
                of_requests(subject, SeriesKey { clock: Clock::Service, ..iterations })
            }
            Metric::Rate(..) | Metric::Count(..) | Metric::Throughput => Some(iterations),
            Metric::Trace(..) | Metric::Asynchronous(_) | Metric::Overhead(_) | Metric::Share(_) => None,
        }
    }
}

/// A percentile's limit, adjusted so that a sample is over it if it is longer.
fn limit_ns(threshold: &Threshold) -> Option<Nanos> {
    let condition = &threshold.condition;
    let limit_ns = match condition.metric {
        Metric::Time(Statistic::Percentile(_), _) => condition.limit as Nanos,
        Metric::Number(Statistic::Percentile(_), _) => rank_of(condition.limit),
        _ => return None,
    };
    Some(match condition.operator {
        Operator::Below | Operator::AtLeast => limit_ns.saturating_sub(1),
        Operator::AtMost | Operator::Above | Operator::Equal => limit_ns,
    })
}

impl Series {
    fn new(key: SeriesKey) -> Self {
        #[expect(clippy::unwrap_used, reason = "a constant that tests exercise")]
        let times = Histogram::new(3).unwrap();
        Self {
            limits_ns: Vec::new(),
            slice_ns: key.window_ns.map_or(SLICE_NS_MIN, |window_ns| (window_ns / BATCHES as u64).max(1)),
            key,
            first: 0,
            slices: Vec::new(),
            cells: Vec::new(),
            over: Vec::new(),
            batched: BatchedSeries::default(),
            changed: 0,
            fresh: 0,
            pivot: None,
            numbers: NumberDistribution::default(),
            times,
            longest_ok_ns: 0,
            longest: Vec::new(),
            failed: Vec::new(),
            start_ns: Nanos::MAX,
            end_ns: 0,
            too_long: false,
        }
    }

    fn add(&mut self, row: SampleRow<'_>) {
        let head = row.head;
        let id = SampleId { workload: head.workload, number: head.number };
        if let Some(measure) = self.key.measure {
            let at = (head.start_ns, head.start_ns.saturating_add(head.duration_ns));
            let own = row.numbers.iter().filter(|number| number.measure == measure);
            for value in own.filter_map(MeasuredNumber::value) {
                self.number(at, value, id);
            }
            return;
        }
        let unstarted = !head.has_started();
        if let (Some(actions), true) = (&self.key.actions, unstarted) {
            // Its requests were due when the iteration was due.
            let requests = if self.key.clock == Clock::Response { actions.len() } else { 0 };
            for _ in 0..requests {
                self.sample((head.due_ns, head.due_ns), head.response_ns(), (head.ended, false), id);
            }
            return;
        }
        if self.key.actions.is_none() {
            let end_ns = head.start_ns.saturating_add(head.duration_ns);
            let value_ns = match self.key.clock {
                Clock::Response => head.response_ns(),
                Clock::Service => head.duration_ns,
                Clock::QueueTime => head.queue_time_ns(),
                // Iterations have none.
                Clock::Phase(_) => return,
            };
            let at_ns = if head.ended == CompletionStatus::Dropped { head.due_ns } else { end_ns };
            let from_ns = if head.ended == CompletionStatus::Dropped { head.due_ns } else { head.start_ns };
            // An iteration that was cut off after its start has a queue time.
            let ended = match head.ended {
                CompletionStatus::Aborted if self.key.clock == Clock::QueueTime && !unstarted => {
                    CompletionStatus::Ok
                }
                ended => ended,
            };
            return self.sample((from_ns, at_ns), value_ns, (ended, head.resent), id);
        }
        for request in row.actions {
            if !self.key.has(request.action) {
                continue;
            }
            let start_ns = head.start_ns.saturating_add(request.offset_ns);
            let end_ns = start_ns.saturating_add(request.duration_ns);
            let (at, ended) = ((start_ns, end_ns), (request.ended, request.phases.resent));
            match self.key.clock {
                Clock::Response => {
                    let value_ns = request.duration_ns.saturating_add(head.queue_time_ns());
                    self.sample(at, value_ns, ended, id);
                }
                Clock::Phase(phase) => {
                    let resent = request.phases.resent;
                    let mut sample = |value_ns, ended| self.sample(at, value_ns, (ended, resent), id);
                    each_phase_ns(&row, request, phase, &mut sample);
                }
                Clock::Service | Clock::QueueTime => self.sample(at, request.duration_ns, ended, id),
            }
        }
    }

    /// A number counts like the time of a successful sample; its rank stands for it.
    fn number(&mut self, (start_ns, end_ns): (Nanos, Nanos), value: f64, id: SampleId) {
        let Some(slot) = self.slot(end_ns) else { return };
        (self.start_ns, self.end_ns) = (self.start_ns.min(start_ns), self.end_ns.max(end_ns));
        self.changed = self.changed.min(slot);
        let rank = rank_of(value);
        let (width, over) = (self.limits_ns.len() + 1, self.limits_ns.partition_point(|limit| *limit < rank));
        self.cells[slot * width + over] += 1;
        let slice = &mut self.slices[slot];
        slice.ok += 1;
        slice.ok_sum += value;
        slice.ok_powers.add(value - *self.pivot.get_or_insert(value));
        slice.min_ns = Some(slice.min_ns.map_or(rank, |least| least.min(rank)));
        slice.ok_max_ns = slice.ok_max_ns.max(Some(rank));
        let own = size(rank, id);
        if slice.longest.is_none_or(|other| own > size(slice.max_ns, other)) {
            (slice.max_ns, slice.longest) = (rank, Some(id));
        }
        keep_largest(&mut self.longest, EXEMPLARS_MAX, own, |(rank, id)| size(*rank, *id), || (rank, id));
        self.numbers.record(value, id);
    }

    fn sample(
        &mut self,
        (start_ns, end_ns): (Nanos, Nanos),
        value_ns: Nanos,
        (ended, resent): (CompletionStatus, bool),
        id: SampleId,
    ) {
        let Some(slot) = self.slot(end_ns) else { return };
        (self.start_ns, self.end_ns) = (self.start_ns.min(start_ns), self.end_ns.max(end_ns));
        let width = self.limits_ns.len() + 1;
        let counts_dropped = self.counts_dropped();
        self.changed = self.changed.min(slot);
        let slice = &mut self.slices[slot];
        // A late start counts, however the iteration ended.
        let ended = if self.key.clock == Clock::QueueTime && ended == CompletionStatus::Failed {
            CompletionStatus::Ok
        } else {
            ended
        };
        let over = match ended {
            CompletionStatus::Ok => self.limits_ns.partition_point(|limit_ns| *limit_ns < value_ns),
            // Failed samples, and samples that never started, did not complete in time.
            CompletionStatus::Failed | CompletionStatus::Dropped => width - 1,
            CompletionStatus::Aborted => 0,
        };
        match ended {
            CompletionStatus::Ok => {
                slice.ok += 1;
                slice.ok_sum_ns += u128::from(value_ns);
                let pivot = *self.pivot.get_or_insert(value_ns as f64);
                slice.ok_powers.add(value_ns as f64 - pivot);
                slice.min_ns = Some(slice.min_ns.map_or(value_ns, |least| least.min(value_ns)));
                slice.ok_max_ns = slice.ok_max_ns.max(Some(value_ns));
                let _ = self.times.record(value_ns.clamp(1, VALUE_NS_MAX));
                self.longest_ok_ns = self.longest_ok_ns.max(value_ns);
            }
            CompletionStatus::Failed => {
                slice.failed += 1;
                slice.failing.get_or_insert(id);
                keep_first(&mut self.failed, id);
            }
            CompletionStatus::Aborted => {
                slice.aborted += 1;
                let (low, high) = slice.cut_ns.unwrap_or((value_ns, value_ns));
                slice.cut_ns = Some((low.min(value_ns), high.max(value_ns)));
            }
            CompletionStatus::Dropped => slice.dropped += 1,
        }
        if ended.is_measured() || ended == CompletionStatus::Dropped && counts_dropped {
            self.cells[slot * width + over] += 1;
        }
        if ended.is_measured() {
            slice.resent += u64::from(resent);
            let own = size(value_ns, id);
            if slice.longest.is_none_or(|other| own > size(slice.max_ns, other)) {
                (slice.max_ns, slice.longest) = (value_ns, Some(id));
            }
            let of = |(ns, id): &(u64, SampleId)| size(*ns, *id);
            keep_largest(&mut self.longest, EXEMPLARS_MAX, own, of, || (value_ns, id));
        }
    }

    /// True if the time counts from when an iteration was due: then an iteration that never started counts as endless.
    /// In service times, it does not count.
    #[must_use]
    pub fn counts_dropped(&self) -> bool {
        self.key.measure.is_none() && matches!(self.key.clock, Clock::Response | Clock::QueueTime)
    }

    /// How many samples count as over every limit: failed ones, and those that never started if they count.
    #[must_use]
    pub fn faulty(&self, slice: &Slice) -> u64 {
        slice.failed + if self.counts_dropped() { slice.dropped } else { 0 }
    }

    /// The slice of a time; creates it if necessary.
    fn slot(&mut self, at_ns: Nanos) -> Option<usize> {
        loop {
            let number = at_ns / self.slice_ns;
            if self.slices.is_empty() {
                self.first = number;
            }
            let length = self.slices.len() as u64;
            let (first, end) = (self.first.min(number), (self.first + length).max(number + 1));
            let slices = usize::try_from(end - first).unwrap_or(usize::MAX);
            let width = self.limits_ns.len() + 1;
            if self.key.window_ns.is_none() && slices > SLICES_MAX {
                self.double();
                continue;
            }
            if slices.saturating_mul(width) > CELLS_MAX {
                self.too_long = true;
                return None;
            }
            let before = (self.first - first) as usize;
            if before > 0 {
                self.slices.splice(0..0, std::iter::repeat_n(Slice::default(), before));
                self.cells.splice(0..0, std::iter::repeat_n(0, before * width));
                self.first = first;
                self.changed = 0;
            }
            self.slices.resize(slices, Slice::default());
            self.cells.resize(slices * width, 0);
            return Some((number - first) as usize);
        }
    }

    /// Doubles the length of every slice.
    fn double(&mut self) {
        let width = self.limits_ns.len() + 1;
        let first = self.first / 2;
        let length = self.slices.len();
        let last = (self.first + (length.max(1) as u64) - 1) / 2;
        let merged = (last - first) as usize + usize::from(length > 0);
        let mut slices = vec![Slice::default(); merged];
        let mut cells = vec![0; merged * width];
        for (number, slice) in (self.first..).zip(&self.slices) {
            let (to, from) = ((number / 2 - first) as usize, (number - self.first) as usize);
            slices[to].add(slice);
            for (to, from) in
                cells[to * width..].iter_mut().zip(&self.cells[from * width..(from + 1) * width])
            {
                *to += from;
            }
        }
        (self.first, self.slices, self.cells) = (first, slices, cells);
        self.slice_ns = self.slice_ns.saturating_mul(2);
    }

    fn seal(&mut self) {
        let (width, slices) = (self.limits_ns.len() + 1, self.slices.len());
        if self.key.window_ns.is_none() {
            let sizes: Vec<u64> = self.slices.iter().map(|slice| self.held(slice)).collect();
            self.batched = BatchedSeries::new(&self.slices, &sizes, &self.cells, width - 1);
        } else if width > 1 {
            self.over.resize(slices * (width - 1), 0);
            let changed = self.changed();
            let cells = self.cells[changed * width..].chunks(width);
            for (cells, over) in cells.zip(self.over[changed * (width - 1)..].chunks_mut(width - 1)) {
                let mut sum = 0;
                for limit in (0..width - 1).rev() {
                    sum += cells[limit + 1];
                    over[limit] = sum;
                }
            }
        }
        (self.fresh, self.changed) = (self.changed(), slices);
    }

    /// How many counters [`Self::seal`] would read.
    fn seal_cost(&self) -> u64 {
        let changed = if self.key.window_ns.is_none() { 0 } else { self.changed() };
        let slices = (self.slices.len() - changed) as u64;
        slices * (self.limits_ns.len() as u64 + SLICE_COST)
    }

    /// The slices, in order of time.
    #[must_use]
    pub fn slices(&self) -> &[Slice] {
        &self.slices
    }

    /// The length of a slice.
    #[must_use]
    pub fn slice_ns(&self) -> Nanos {
        self.slice_ns
    }

    /// The start of a slice on the run's clock.
    #[must_use]
    pub fn begins_ns(&self, slice: usize) -> Nanos {
        (self.first + slice as u64).saturating_mul(self.slice_ns)
    }

    /// How many samples of a slice are over a limit, and how many there are; for series with windows.
    #[must_use]
    pub fn over(&self, slice: usize, limit: usize) -> BinomialCount {
        let k = self.over.get(slice * self.limits_ns.len() + limit).copied().unwrap_or(0);
        BinomialCount { k: u64::from(k), n: self.held(&self.slices[slice]) }
    }

    /// The number of samples of a slice to which limits apply.
    fn held(&self, slice: &Slice) -> u64 {
        slice.completed() + if self.counts_dropped() { slice.dropped } else { 0 }
    }

    /// All slices in batches; for series without windows.
    #[must_use]
    pub fn batched(&self) -> &BatchedSeries {
        &self.batched
    }

    /// The first slice that has changed since the series was sealed.
    #[must_use]
    pub fn changed(&self) -> usize {
        self.changed.min(self.slices.len())
    }

    /// The first slice that had changed when the series was last sealed.
    #[must_use]
    pub fn fresh(&self) -> usize {
        self.fresh
    }

    /// A limit by its number; samples are over it if they take longer.
    #[must_use]
    pub fn limit_ns(&self, limit: usize) -> Nanos {
        self.limits_ns[limit]
    }

    /// The time of a rank, from 1, among successful samples, which come before all others; `None` after them.
    #[must_use]
    pub fn time_ns(&self, rank: u64) -> Option<Nanos> {
        value_at_rank(&self.times, rank).map(|time_ns| time_ns.min(self.longest_ok_ns))
    }

    /// Its numbers, if it is a series of numbers.
    #[must_use]
    pub fn numbers(&self) -> &NumberDistribution {
        &self.numbers
    }

    /// From the first start to the last end.
    #[must_use]
    pub fn lasted_ns(&self) -> Nanos {
        self.end_ns.saturating_sub(self.start_ns.min(self.end_ns))
    }

    /// When the first sample started, on the run's clock.
    #[must_use]
    pub fn start_ns(&self) -> Nanos {
        self.start_ns
    }

    /// The longest completed samples, longest first.
    #[must_use]
    pub fn longest(&self) -> &[(Nanos, SampleId)] {
        &self.longest
    }

    /// Some samples with a fault.
    #[must_use]
    pub fn failed(&self) -> &[SampleId] {
        &self.failed
    }

    /// True if there would be too many windows to judge.
    #[must_use]
    pub fn is_too_long(&self) -> bool {
        self.too_long
    }
}

#[cfg(test)]
mod tests;
