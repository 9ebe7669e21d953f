//! Live metrics of a load: counts and buckets with exemplars, computed from the batches that workers send
//! anyway, on the thread that receives them.
//!
//! Buckets are coarse and fixed, so that two scrapes can be subtracted. Results are made from the log,
//! never from here.

use std::collections::{BTreeMap, HashMap};

use base::clock::Nanos;

use super::errors::{FailureClass, NumberedFailure};
use super::latency::SampleId;
use super::numbers::NumberDistribution;
use super::recorder::Batch;
use super::rows::{Rows, SampleRow};
use super::sample::CompletionStatus;

/// The upper bounds of the buckets, inclusive; a further bucket has all longer samples.
pub const BOUNDS_NS: [Nanos; 21] = [
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    30_000_000_000,
    60_000_000_000,
];

/// The most durations of a kind that are kept one by one.
pub const RECENT_MAX: usize = 500;

/// An example of the samples of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exemplar {
    pub value_ns: Nanos,
    /// Its iteration.
    pub sample: SampleId,
    /// When the iteration ended, from the run's anchor.
    pub at_ns: Nanos,
}

/// Durations by bucket.
#[derive(Clone, Debug, Default)]
pub struct Buckets {
    /// The samples of each bucket, not cumulative.
    pub counts: [u64; BOUNDS_NS.len() + 1],
    /// The sum of all samples.
    pub sum_ns: u128,
    /// The latest sample of each bucket.
    pub exemplars: [Option<Exemplar>; BOUNDS_NS.len() + 1],
    /// Single durations, if they are kept.
    pub recent: Option<RecentTimes>,
}

/// A fair sample of the durations since [`Meter::forget_recent`].
#[derive(Clone, Debug, Default)]
pub struct RecentTimes {
    /// How many there were.
    pub seen: u64,
    /// At most [`RECENT_MAX`] of them, each with the same chance.
    pub kept_ns: Vec<Nanos>,
}

impl RecentTimes {
    fn add(&mut self, value_ns: Nanos) {
        self.seen += 1;
        if self.kept_ns.len() < RECENT_MAX {
            self.kept_ns.push(value_ns);
            return;
        }
        let drawn = usize::try_from(fastrand::u64(..self.seen)).unwrap_or(usize::MAX);
        if let Some(replaced) = self.kept_ns.get_mut(drawn) {
            *replaced = value_ns;
        }
    }
}

impl Buckets {
    fn add(&mut self, exemplar: Exemplar) {
        if let Some(recent) = &mut self.recent {
            recent.add(exemplar.value_ns);
        }
        let bucket = BOUNDS_NS.partition_point(|bound| *bound < exemplar.value_ns);
        self.counts[bucket] += 1;
        self.sum_ns += u128::from(exemplar.value_ns);
        // The latest, so that every scrape gets a recent one.
        if self.exemplars[bucket].is_none_or(|other| other.at_ns <= exemplar.at_ns) {
            self.exemplars[bucket] = Some(exemplar);
        }
    }

    /// The number of samples.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// The streams that answered an action so far.
#[derive(Clone, Debug, Default)]
pub struct StreamMeter {
    /// From sending to the first message.
    pub first: Buckets,
    /// How many messages came.
    pub messages: u64,
}

/// A workload so far.
#[derive(Clone, Debug, Default)]
pub struct WorkloadMeter {
    pub name: String,
    /// Iterations by how they ended, in the order of [`CompletionStatus`]'s numbers, without warm-up.
    pub ended: [u64; 4],
    /// Iterations of the warm-up.
    pub warm_up: u64,
    /// Iterations that were not recorded because the disk was too slow.
    pub unrecorded: u64,
    /// Iterations that sent a request once more, of those that came to their end.
    pub resent: u64,
    /// Iterations in flight, when last checked.
    pub in_flight: u64,
    /// The same in other shards, by their numbers.
    pub in_flight_elsewhere: BTreeMap<u32, u64>,
    /// From due to end.
    pub response: Buckets,
    /// From start to end.
    pub service: Buckets,
    /// From due to start.
    pub queue_time: Buckets,
    /// Name and service time of each action.
    pub actions: Vec<(String, Buckets)>,
    /// What came as streams, by the numbers of the actions.
    pub streams: BTreeMap<u16, StreamMeter>,
    /// Numbers that actions take from their answers, with their names.
    pub numbers: Vec<(String, NumberDistribution)>,
    /// Iterations that failed, by the name of the fault's class.
    pub errors: BTreeMap<&'static str, u64>,
}

/// A load so far.
#[derive(Clone, Debug, Default)]
pub struct Meter {
    /// One entry for each workload.
    pub workloads: Vec<WorkloadMeter>,
    classes: HashMap<u32, FailureClass>,
}

/// What another shard has measured.
pub struct ShardMeasurements<'a> {
    /// The samples, on the clock of this process.
    pub rows: &'a Rows,
    /// The classes of faults, by the numbers that the samples have.
    pub classes: &'a HashMap<u32, FailureClass>,
    /// How many iterations of each workload are under way.
    pub in_flight: Vec<u64>,
    /// How many of each workload were not recorded since.
    pub unrecorded: Vec<u64>,
}

impl Meter {
    /// An empty meter of workloads with these names and actions.
    #[must_use]
    pub fn new(workloads: impl IntoIterator<Item = (String, Vec<String>)>) -> Self {
        let workloads = workloads.into_iter().map(|(name, actions)| WorkloadMeter {
            name,
            actions: actions.into_iter().map(|action| (action, Buckets::default())).collect(),
            ..WorkloadMeter::default()
        });
        Self { workloads: workloads.collect(), classes: HashMap::new() }
    }

    /// Names the numbers that the actions of each workload take from their answers.
    #[must_use]
    pub fn measuring(mut self, names: impl IntoIterator<Item = Vec<String>>) -> Self {
        for (meter, names) in self.workloads.iter_mut().zip(names) {
            meter.numbers = names.into_iter().map(|name| (name, NumberDistribution::default())).collect();
        }
        self
    }

    /// From now on, keeps a sample of single durations, for what cannot take buckets.
    pub fn keep_recent(&mut self) {
        for meter in &mut self.workloads {
            meter.durations().for_each(|buckets| buckets.recent = Some(RecentTimes::default()));
        }
    }

    /// Forgets the single durations, which somebody has taken.
    pub fn forget_recent(&mut self) {
        let durations = self.workloads.iter_mut().flat_map(WorkloadMeter::durations);
        for recent in durations.filter_map(|buckets| buckets.recent.as_mut()) {
            recent.seen = 0;
            recent.kept_ns.clear();
        }
    }

    /// Adds a batch of a worker.
    pub fn add(&mut self, batch: &Batch) {
        for NumberedFailure { number, failure } in &batch.failures {
            self.classes.insert(*number, failure.class);
        }
        if let Some(meter) = self.workloads.get_mut(usize::from(batch.workload)) {
            meter.unrecorded += batch.live.unrecorded;
        }
        for row in batch.samples.iter() {
            let class = self.classes.get(&row.head.error).copied();
            if let Some(meter) = self.workloads.get_mut(usize::from(row.head.workload)) {
                meter.add(row, class);
            }
        }
    }

    /// Adds what another shard has measured.
    pub fn add_shard(&mut self, shard: u32, told: &ShardMeasurements<'_>) {
        for row in told.rows.iter() {
            if let Some(meter) = self.workloads.get_mut(usize::from(row.head.workload)) {
                meter.add(row, told.classes.get(&row.head.error).copied());
            }
        }
        for (meter, unrecorded) in self.workloads.iter_mut().zip(&told.unrecorded) {
            meter.unrecorded += unrecorded;
        }
        for (meter, in_flight) in self.workloads.iter_mut().zip(&told.in_flight) {
            meter.in_flight_elsewhere.insert(shard, *in_flight);
        }
    }
}

impl WorkloadMeter {
    /// Iterations in flight, in all shards that were heard.
    #[must_use]
    pub fn in_flight_everywhere(&self) -> u64 {
        self.in_flight + self.in_flight_elsewhere.values().sum::<u64>()
    }

    fn durations(&mut self) -> impl Iterator<Item = &mut Buckets> {
        let actions = self.actions.iter_mut().map(|(_, buckets)| buckets);
        let streams = self.streams.values_mut().map(|stream| &mut stream.first);
        [&mut self.response, &mut self.service, &mut self.queue_time]
            .into_iter()
            .chain(actions)
            .chain(streams)
    }

    fn add(&mut self, row: SampleRow<'_>, class: Option<FailureClass>) {
        let head = row.head;
        if head.warm_up {
            self.warm_up += 1;
            return;
        }
        self.ended[head.ended as usize] += 1;
        if head.error != 0 {
            *self.errors.entry(class.unwrap_or_default().as_str()).or_default() += 1;
        }
        let sample = SampleId { workload: head.workload, number: head.number };
        let at_ns = head.start_ns.saturating_add(head.duration_ns);
        let exemplar = |value_ns| Exemplar { value_ns, sample, at_ns };
        if head.ended.is_measured() {
            self.resent += u64::from(head.resent);
            self.response.add(exemplar(head.response_ns()));
            self.service.add(exemplar(head.duration_ns));
        }
        // A dropped arrival never started; one that was cut off did.
        if head.ended != CompletionStatus::Dropped {
            self.queue_time.add(exemplar(head.queue_time_ns()));
        }
        for number in row.numbers {
            let known = self.numbers.get_mut(usize::from(number.measure));
            if let (Some((_, numbers)), Some(value)) = (known, number.value()) {
                numbers.record(value, sample);
            }
        }
        for action in row.actions.iter().filter(|action| action.ended.is_measured()) {
            if let Some((_, buckets)) = self.actions.get_mut(usize::from(action.action)) {
                buckets.add(exemplar(action.duration_ns));
            }
            if let Some(stream) = row.stream_of(action) {
                let recent = self.response.recent.as_ref().map(|_| RecentTimes::default());
                let meter = self.streams.entry(action.action).or_insert_with(|| {
                    let first = Buckets { recent, ..Buckets::default() };
                    StreamMeter { first, ..StreamMeter::default() }
                });
                meter.messages += stream.messages;
                if stream.messages > 0 {
                    meter.first.add(exemplar(stream.first_ns));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::errors::Failure;
    use super::super::recorder::Live;
    use super::super::sample::{ActionSample, IterationSample};
    use super::super::streams::StreamSample;
    use super::*;

    /// Each bucket has what took at most its bound, which is exact, and more than the one before.
    #[test]
    fn a_bucket_includes_its_bound() {
        let mut buckets = Buckets::default();
        let sample = SampleId { workload: 0, number: 0 };
        for (at_ns, value_ns) in
            [(1, BOUNDS_NS[3] - 1), (2, BOUNDS_NS[3]), (4, BOUNDS_NS[3] + 1), (3, BOUNDS_NS[3] + 1)]
        {
            buckets.add(Exemplar { value_ns, at_ns, sample });
        }
        assert_eq!(buckets.counts[2..6], [0, 2, 2, 0]);
        assert_eq!(buckets.exemplars[3].map(|seen| seen.at_ns), Some(2));
        assert_eq!(buckets.exemplars[4].map(|seen| seen.at_ns), Some(4));
    }

    /// A sample says how many durations there were, and is as good for the first as for the last of them.
    #[test]
    fn a_sample_of_durations_is_fair_and_bounded() {
        let mut recent = RecentTimes::default();
        for value_ns in 0..10_000 {
            recent.add(value_ns);
        }
        assert_eq!((recent.seen, recent.kept_ns.len()), (10_000, RECENT_MAX));
        // 250 are expected, and 100 or 400 would be more than ten standard deviations away.
        let first = recent.kept_ns.iter().filter(|value_ns| **value_ns < 5_000).count();
        assert!((100..400).contains(&first), "{first} of the first half");
    }

    #[test]
    fn durations_are_kept_where_somebody_takes_them() {
        let row = IterationSample {
            duration_ns: 4_000_000,
            actions: vec![ActionSample::default()],
            streams: vec![StreamSample { messages: 1, first_ns: 9, ..StreamSample::default() }],
            ..IterationSample::default()
        };
        let mut samples = Rows::default();
        samples.push(&row);
        let batch =
            Batch { workload: 0, failures: Vec::new(), samples, users: Rows::default(), live: Live::new() };
        let mut meter = Meter::new([("w".to_owned(), vec!["a".to_owned()])]);
        let kept = |meter: &mut Meter| {
            let durations = meter.workloads[0].durations();
            durations
                .map(|one| one.recent.as_ref().map(|recent| (recent.seen, recent.kept_ns.len())))
                .collect::<Vec<_>>()
        };
        meter.add(&batch);
        assert_eq!(kept(&mut meter), [None; 5]);
        let mut meter = Meter::new([("w".to_owned(), vec!["a".to_owned()])]);
        meter.keep_recent();
        meter.add(&batch);
        assert_eq!(kept(&mut meter), [Some((1, 1)); 5]);
        meter.forget_recent();
        assert_eq!(kept(&mut meter), [Some((0, 0)); 5]);
    }

    #[test]
    fn a_batch_is_counted_by_outcome_bucket_and_class() {
        let mut samples = Rows::default();
        for (number, ended, error) in [
            (0, CompletionStatus::Ok, 0),
            (1, CompletionStatus::Failed, 3),
            (2, CompletionStatus::Aborted, 0),
            (3, CompletionStatus::Dropped, 0),
        ] {
            let actions = vec![ActionSample { duration_ns: 2_000_000, ended, ..ActionSample::default() }];
            samples.push(&IterationSample {
                number,
                due_ns: 1_000,
                start_ns: 21_000,
                duration_ns: 4_000_000,
                ended,
                error,
                actions,
                ..IterationSample::default()
            });
        }
        samples.push(&IterationSample { warm_up: true, ..IterationSample::default() });
        let failure =
            Failure { class: FailureClass::Timeout, action: None, message: String::new(), seen: None };
        let failures = vec![NumberedFailure { number: 3, failure }];
        let mut meter = Meter::new([("w".to_owned(), vec!["a".to_owned()])]);
        meter.add(&Batch {
            workload: 0,
            failures,
            samples,
            users: Rows::default(),
            live: Live { unrecorded: 5, ..Live::new() },
        });
        let workload = &meter.workloads[0];
        assert_eq!(workload.unrecorded, 5);
        assert_eq!((workload.ended, workload.warm_up), ([1, 1, 1, 1], 1));
        assert_eq!((workload.response.count(), workload.queue_time.count()), (2, 3));
        assert_eq!(
            workload.errors.iter().map(|(class, count)| (*class, *count)).next(),
            Some(("timeout", 1))
        );
        let exemplar = workload.response.exemplars[8].unwrap();
        assert_eq!((exemplar.value_ns, exemplar.sample.number), (4_020_000, 1));
        assert_eq!(workload.queue_time.counts[1], 3, "20 µs");
        assert_eq!(workload.actions[0].1.counts[7], 2);
    }

    #[test]
    fn what_another_shard_measured_is_added() {
        let mut meter = Meter::new([("v".to_owned(), Vec::new()), ("w".to_owned(), Vec::new())]);
        let mut rows = Rows::default();
        for number in 0..3 {
            let error = u32::from(number == 2);
            rows.push(&IterationSample {
                number,
                workload: 1,
                error,
                duration_ns: 7,
                ..IterationSample::default()
            });
        }
        let classes = HashMap::from([(1, FailureClass::Timeout)]);
        meter.workloads[1].in_flight = 2;
        for in_flight in [9, 4] {
            let told = ShardMeasurements {
                rows: &rows,
                classes: &classes,
                in_flight: vec![0, in_flight],
                unrecorded: vec![5],
            };
            meter.add_shard(3, &told);
        }
        let (first, second) = (&meter.workloads[0], &meter.workloads[1]);
        assert_eq!((first.unrecorded, first.response.count(), first.in_flight_everywhere()), (10, 0, 0));
        assert_eq!((second.ended[0], second.response.count(), second.in_flight_everywhere()), (6, 6, 6));
        assert_eq!(second.errors.get("timeout"), Some(&2));
    }
}
