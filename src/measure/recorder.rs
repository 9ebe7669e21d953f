//! A worker's recorder: it stores samples as rows of fixed size and sends them to the coordinator in batches.
//!
//! For each sample, a worker only copies it. The coordinator's thread packs, writes, and counts by bucket.

use std::collections::VecDeque;
use std::sync::mpsc::{SyncSender, TrySendError};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use base::clock::{Nanos, now};

use super::errors::{Failure, FailureTable, NumberedFailure};
use super::latency::{SampleId, VALUE_NS_MAX};
use super::rows::Rows;
use super::sample::{CompletionStatus, IterationSample};

/// A batch is sent when it is this old, so that the log is at most a second behind.
pub const FLUSH_EVERY: Duration = Duration::from_millis(200);
/// Large enough that the cost of a batch is negligible per sample.
const BATCH_BYTES: usize = 256 * 1024;
/// How much a worker buffers while the disk is slow; further samples are only counted.
const BUFFER_BYTES_MAX: usize = 12 << 20;

/// What a worker sends at a time.
pub struct Batch {
    /// The workload's index.
    pub workload: u16,
    /// New faults that these samples refer to.
    pub failures: Vec<NumberedFailure>,
    pub samples: Rows,
    /// What virtual users did around their iterations.
    pub users: Rows,
    /// Counts of the same samples, for the live view.
    pub live: Live,
}

/// The figures of a batch for the live view.
#[derive(Clone)]
pub struct Live {
    /// Iterations without fault.
    pub ok: u64,
    /// Iterations with a fault.
    pub failed: u64,
    /// Iterations cut off.
    pub aborted: u64,
    /// Iterations that were due and never started.
    pub dropped: u64,
    /// Iterations that were started and not recorded because the disk was too slow.
    pub unrecorded: u64,
    /// Iterations of the warm-up; no other figure includes them.
    pub warm_up: u64,
    /// Response times of iterations without fault, in nanoseconds, with two significant digits.
    pub response_ns: Histogram<u32>,
    /// From due to start, in the same form.
    pub lag_ns: Histogram<u32>,
    /// The slowest iteration with its response time.
    pub slowest: Option<(Nanos, SampleId)>,
}

impl Live {
    /// No samples yet.
    ///
    /// # Panics
    /// Never: the bounds are constants that the library accepts.
    #[must_use]
    pub fn new() -> Self {
        #[expect(clippy::unwrap_used, reason = "constant bounds, covered by tests")]
        let times: Histogram<u32> = Histogram::new_with_bounds(1_000, VALUE_NS_MAX, 2).unwrap();
        Self {
            ok: 0,
            failed: 0,
            aborted: 0,
            dropped: 0,
            unrecorded: 0,
            warm_up: 0,
            response_ns: times.clone(),
            lag_ns: times,
            slowest: None,
        }
    }

    /// Adds the figures of another worker or batch.
    pub fn add(&mut self, other: &Self) {
        self.ok += other.ok;
        self.failed += other.failed;
        self.aborted += other.aborted;
        self.dropped += other.dropped;
        self.unrecorded += other.unrecorded;
        self.warm_up += other.warm_up;
        // The bounds are equal, so adding cannot fail.
        let _ = self.response_ns.add(&other.response_ns);
        let _ = self.lag_ns.add(&other.lag_ns);
        self.slowest = [self.slowest, other.slowest].into_iter().flatten().max_by_key(|(ns, _)| *ns);
    }

    /// The response time at a percentile of all that were due until now: those that failed, were cut off or never started
    /// count as longer than every success, and have no time.
    #[must_use]
    pub fn percentile_ns(&self, percentile: f64) -> Option<Nanos> {
        let rank = statistics::order::rank(self.ended() + self.dropped, percentile)?;
        super::latency::value_at_rank(&self.response_ns, rank)
    }

    /// All iterations that ended.
    #[must_use]
    pub fn ended(&self) -> u64 {
        self.ok + self.failed + self.aborted
    }

    /// All iterations of a batch, including warm-up and dropped arrivals.
    fn all(&self) -> u64 {
        self.ended() + self.dropped + self.warm_up
    }

    #[inline]
    fn count(&mut self, sample: &IterationSample) {
        if sample.warm_up {
            self.warm_up += 1;
            return;
        }
        match sample.ended {
            CompletionStatus::Ok => self.ok += 1,
            CompletionStatus::Failed => self.failed += 1,
            CompletionStatus::Aborted => {
                self.aborted += 1;
                return;
            }
            CompletionStatus::Dropped => {
                self.dropped += 1;
                return;
            }
        }
        let response_ns = sample.response_ns();
        if sample.ended == CompletionStatus::Ok {
            self.response_ns.saturating_record(response_ns.clamp(1, VALUE_NS_MAX));
        }
        self.lag_ns.saturating_record(sample.queue_time_ns().clamp(1, VALUE_NS_MAX));
        if self.slowest.is_none_or(|(slowest, _)| response_ns > slowest) {
            self.slowest = Some((response_ns, SampleId { workload: sample.workload, number: sample.number }));
        }
    }

    fn clear(&mut self) {
        (self.ok, self.failed, self.aborted, self.dropped) = (0, 0, 0, 0);
        (self.unrecorded, self.warm_up, self.slowest) = (0, 0, None);
        self.response_ns.reset();
        self.lag_ns.reset();
    }
}

impl Default for Live {
    fn default() -> Self {
        Self::new()
    }
}

/// The recorder of a worker.
pub struct Recorder {
    workload: u16,
    failures: FailureTable,
    samples: Rows,
    users: Rows,
    live: Live,
    sender: SyncSender<Batch>,
    flushed: Instant,
    /// Batches that the coordinator could not accept yet.
    backlog: VecDeque<Batch>,
    backlog_bytes: usize,
}

impl Recorder {
    /// The recorder of worker number `worker` of `workers` in workload number `workload`.
    #[must_use]
    pub fn new(workload: u16, worker: u32, workers: u32, sender: SyncSender<Batch>) -> Self {
        Self {
            workload,
            failures: FailureTable::new(workload, worker, workers),
            samples: Rows::default(),
            users: Rows::default(),
            live: Live::new(),
            sender,
            flushed: now(),
            backlog: VecDeque::new(),
            backlog_bytes: 0,
        }
    }

    /// The number by which a sample refers to a fault.
    pub fn failure(&mut self, failure: Failure) -> u32 {
        self.failures.number(failure)
    }

    #[inline]
    pub fn record(&mut self, sample: &IterationSample) {
        self.live.count(sample);
        if self.backlog_bytes + self.samples.bytes() < BUFFER_BYTES_MAX {
            self.samples.push(sample);
        } else if sample.ended != CompletionStatus::Dropped {
            // The runner counts dropped arrivals.
            self.live.unrecorded += 1;
        }
        if self.samples.bytes() >= BATCH_BYTES {
            self.flush(false);
        }
    }

    /// Records what a virtual user did around its iterations; not beyond the bound for samples.
    pub fn record_user(&mut self, sample: &IterationSample) {
        if self.backlog_bytes + self.users.bytes() < BUFFER_BYTES_MAX {
            self.users.push(sample);
        }
        if self.users.fill_a_block() {
            self.flush(false);
        }
    }

    /// Sends a batch if the last batch is old; called regularly while nothing is recorded.
    pub fn tick(&mut self) {
        if now() - self.flushed >= FLUSH_EVERY {
            self.flush(false);
        }
    }

    /// Sends all batches; with `wait`, waits for a busy coordinator.
    ///
    /// While the disk is slow, the load continues, and batches are kept here.
    pub fn flush(&mut self, wait: bool) {
        self.flushed = now();
        self.send_backlog(wait);
        let has_to_wait = !self.backlog.is_empty() && self.samples.bytes() < BATCH_BYTES;
        if has_to_wait || self.live.all() == 0 && self.users.is_empty() {
            return;
        }
        let room = Rows::as_large_as(&self.samples);
        self.backlog_bytes += self.samples.bytes();
        self.backlog.push_back(Batch {
            workload: self.workload,
            failures: self.failures.take_fresh(),
            samples: std::mem::replace(&mut self.samples, room),
            users: std::mem::take(&mut self.users),
            live: self.live.clone(),
        });
        self.live.clear();
        self.send_backlog(wait);
    }

    /// True if everything recorded was sent.
    #[must_use]
    pub fn has_sent_all(&self) -> bool {
        self.backlog.is_empty() && self.live.all() == 0 && self.users.is_empty()
    }

    fn send_backlog(&mut self, wait: bool) {
        while let Some(batch) = self.backlog.pop_front() {
            let bytes = batch.samples.bytes();
            let refused = if wait {
                self.sender.send(batch).err().map(|error| error.0)
            } else {
                match self.sender.try_send(batch) {
                    Ok(()) => None,
                    Err(TrySendError::Full(batch) | TrySendError::Disconnected(batch)) => Some(batch),
                }
            };
            if let Some(batch) = refused {
                self.backlog.push_front(batch);
                return;
            }
            self.backlog_bytes -= bytes;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::rows::IterationHead;
    use super::super::sample::ActionSample;
    use super::*;

    fn sample(number: u64, ended: CompletionStatus) -> IterationSample {
        IterationSample { number, duration_ns: 1_000_000 * (number + 1), ended, ..Default::default() }
    }

    #[test]
    fn batches_hold_every_sample_even_when_the_coordinator_is_busy() {
        let (sender, receiver) = std::sync::mpsc::sync_channel(2);
        let mut recorder = Recorder::new(0, 0, 1, sender);
        let mut numbers = Vec::new();
        let mut live = Live::new();
        for number in 0..100 {
            let ended = if number % 10 == 0 { CompletionStatus::Failed } else { CompletionStatus::Ok };
            recorder.record(&sample(number, ended));
            recorder.flush(false);
            if number % 7 == 0 {
                take(&receiver, &mut numbers, &mut live);
            }
        }
        take(&receiver, &mut numbers, &mut live);
        recorder.flush(true);
        take(&receiver, &mut numbers, &mut live);
        assert_eq!(numbers, (0..100).collect::<Vec<_>>());
        assert_eq!(recorder.backlog_bytes, 0);
        assert_eq!((live.ok, live.failed, live.unrecorded), (90, 10, 0));
        assert_eq!(live.slowest.unwrap().1.number, 99);
        assert_eq!(live.response_ns.len(), 90, "those that failed have no time");
        let at = |percentile| live.percentile_ns(percentile).is_some();
        assert_eq!((at(50.0), at(90.0), at(91.0)), (true, true, false));
    }

    /// While load is made, samples are sent in batches of a size, not one by one.
    #[test]
    fn a_batch_is_sent_when_it_is_full() {
        let (sender, receiver) = std::sync::mpsc::sync_channel(8);
        let mut recorder = Recorder::new(0, 0, 1, sender);
        let mut recorded = 0;
        let batch = loop {
            recorder.record(&sample(recorded, CompletionStatus::Ok));
            recorded += 1;
            if let Ok(batch) = receiver.try_recv() {
                break batch;
            }
            assert!(recorder.samples.bytes() < BATCH_BYTES, "{recorded}");
        };
        assert_eq!(batch.samples.iter().count() as u64, recorded);
        assert!(recorded > 100 && batch.samples.bytes() >= BATCH_BYTES, "{recorded}");
    }

    #[test]
    fn all_counts_are_added() {
        let live = |from: u64, at| Live {
            ok: from,
            failed: from + 1,
            aborted: from + 2,
            dropped: from + 3,
            unrecorded: from + 4,
            warm_up: from + 5,
            slowest: Some((from, SampleId { workload: 0, number: at })),
            ..Live::new()
        };
        let mut sum = live(10, 1);
        sum.add(&live(100, 2));
        assert_eq!((sum.ok, sum.failed, sum.aborted), (110, 112, 114));
        assert_eq!((sum.dropped, sum.unrecorded, sum.warm_up), (116, 118, 120));
        assert_eq!(sum.slowest.unwrap().1.number, 2);
        assert_eq!((sum.ended(), sum.all()), (110 + 112 + 114, 110 + 112 + 114 + 116 + 120));
    }

    #[test]
    fn of_equally_slow_iterations_the_first_is_kept() {
        let mut live = Live::new();
        for (number, duration_ns) in [(4, 10), (5, 30), (6, 30), (7, 20)] {
            live.count(&IterationSample { number, duration_ns, ..Default::default() });
        }
        assert_eq!(live.slowest.map(|(ns, id)| (ns, id.number)), Some((30, 5)));
        assert_eq!((live.ended(), live.all()), (4, 4));
    }

    #[test]
    fn the_memory_of_samples_is_that_of_iterations_and_requests() {
        let mut rows = Rows::default();
        for number in 0..2 {
            let actions = vec![ActionSample::default(); 3];
            rows.push(&IterationSample { number, actions, ..Default::default() });
        }
        assert_eq!(rows.bytes(), 2 * size_of::<IterationHead>() + 6 * size_of::<ActionSample>());
    }

    fn take(receiver: &std::sync::mpsc::Receiver<Batch>, numbers: &mut Vec<u64>, live: &mut Live) {
        while let Ok(batch) = receiver.try_recv() {
            numbers.extend(batch.samples.iter().map(|row| row.head.number));
            live.add(&batch.live);
        }
    }

    #[test]
    fn beyond_its_bound_samples_are_dropped_and_counted() {
        let (sender, _receiver) = std::sync::mpsc::sync_channel(0);
        let mut recorder = Recorder::new(0, 0, 1, sender);
        for number in 0..2_000_000 {
            recorder.record(&sample(number, CompletionStatus::Ok));
            if recorder.live.unrecorded > 0 {
                assert!(recorder.backlog_bytes + recorder.samples.bytes() >= BUFFER_BYTES_MAX);
                assert!(recorder.backlog.iter().all(|batch| batch.samples.bytes() < 2 * BATCH_BYTES));
                return;
            }
        }
        panic!("nothing was dropped");
    }
}
