//! A single pass over the run log: computes counts, distributions, the slowest iterations, the counts for criteria, and
//! candidates for traces to fetch. Its memory does not grow with the number of iterations.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::net::IpAddr;
use std::path::Path;

use uuid::Uuid;

use measure::errors::{Failure, NumberedFailure};
use measure::ids::RunIds;
use measure::latency::{Latency, SampleId};
use measure::log::{End, Flaws, Header, LogError, RunLog, Visitor, WorkloadHeader};
use measure::phases::Phases;
use measure::protocol::Protocol;
use measure::rows::{IterationHead, Rows, SampleRow};
use measure::sample::{ActionSample, CompletionStatus, IterationSample};
use osprofiler::record::TraceRecord;

use super::candidates::Candidates;
use super::client_points::{self, SampleReferences};
use super::counting::RunCounts;
use super::largest::{EXEMPLARS_MAX, LongestTimes, keep_first, keep_largest, size};
use super::load::LoadBuilder;
use super::model::Counts;
use super::network::RetransmitCounts;
use super::numbers::NumberStats;
use super::series::SeriesBuilder;
use super::streams::StreamStats;

/// The number of slowest iterations of a run that are kept.
pub const SLOWEST_MAX: usize = 10;
/// How many different faults are told apart in a workload.
const ERRORS_MAX: usize = 500;
/// How many service times all workloads together keep of each side, profiled or not.
const TIMES_MAX: usize = 1_000_000;
/// The fewest and the most that a workload keeps.
const TIMES_OF_SIDE: (usize, usize) = (2_000, 100_000);

/// The contents of a run's log, summarised.
pub struct Aggregate {
    /// The log, for further passes.
    pub log: RunLog,
    /// How the run ended; absent if the harness was killed.
    pub end: Option<End>,
    /// The parts of the log that are not whole frames.
    pub flaws: Flaws,
    /// Iterations that were read, including warm-up and dropped arrivals.
    pub rows: u64,
    /// Why the log could not be stored, although it was read.
    pub unsaved: Option<String>,
    /// One entry for each workload of the header.
    pub workloads: Vec<WorkloadStats>,
    /// The slowest iterations by response time, slowest first.
    pub slowest: Vec<IterationSample>,
    /// The faults by their numbers.
    pub failures: HashMap<u32, Failure>,
    /// The addresses of hosts that have several, by their numbers.
    pub addresses: HashMap<u16, IpAddr>,
    /// Counts for the criteria in the header.
    pub counted: RunCounts,
    pub(super) candidates: Candidates,
}

/// Service times of a workload's successful iterations, separately for profiled and unprofiled ones.
#[derive(Clone, Debug, Default)]
pub struct ServiceTimes {
    /// Of profiled iterations.
    pub profiled: DurationReservoir,
    /// Of unprofiled iterations.
    pub control: DurationReservoir,
}

/// Exact durations: all of them, or a uniform sample of a long stream.
#[derive(Clone, Debug, Default)]
pub struct DurationReservoir {
    /// The durations, in no particular order.
    pub kept_ns: Vec<u64>,
    /// The length of the stream.
    pub seen: u64,
    limit: usize,
}

impl DurationReservoir {
    fn new(limit: usize) -> Self {
        Self { kept_ns: Vec::new(), seen: 0, limit }
    }

    fn offer(&mut self, value_ns: u64, random: &mut fastrand::Rng) {
        self.seen += 1;
        if self.kept_ns.len() < self.limit {
            self.kept_ns.push(value_ns);
        } else if let Some(kept_ns) =
            usize::try_from(random.u64(0..self.seen)).ok().and_then(|place| self.kept_ns.get_mut(place))
        {
            *kept_ns = value_ns;
        }
    }
}

/// The figures of a workload.
pub struct WorkloadStats {
    /// How its iterations ended, without the warm-up.
    pub iterations: Counts,
    /// How the iterations of the warm-up ended; no other figure includes them.
    pub warm_up: Counts,
    /// How many of the iterations were left unprofiled for comparison.
    pub unprofiled: u64,
    /// Service times of iterations without fault, profiled and not; empty in a run without unprofiled ones.
    pub sides: ServiceTimes,
    /// From due to start, of all that started.
    pub queue_time: Latency,
    /// From due to end, of iterations that were not cut off.
    pub response: Latency,
    /// Of these, those that failed.
    pub failed_response: Latency,
    /// From start to end, of iterations that were not cut off.
    pub service: Latency,
    /// Of these, those that failed.
    pub failed_service: Latency,
    /// From start to end, of iterations without fault.
    pub ok_service_sum_ns: u128,
    /// When the first iteration started.
    pub first_start_ns: u64,
    /// When the last iteration ended.
    pub last_end_ns: u64,
    /// One entry for each action.
    pub actions: Vec<ActionStats>,
    /// What TCP had to repeat.
    pub repeated: RetransmitCounts,
    /// What its users did before their first iterations, and after their last ones.
    pub users: [Option<Box<WorkloadStats>>; 2],
    /// The numbers from answers, by the numbers of their names.
    pub numbers_taken: Vec<NumberStats>,
    /// Faults by number: how often, and the first iterations.
    pub errors: BTreeMap<u32, (u64, Vec<SampleId>)>,
    /// Response times over time.
    pub series: SeriesBuilder,
    /// The load that was asked for and served.
    pub load: LoadBuilder,
    /// The longest iterations that were not cut off, longest first.
    pub longest: Vec<(u64, SampleId)>,
    /// When the longest iterations without fault began, and how long they took.
    pub longest_times: LongestTimes,
    /// One more than the highest number that was read; of a shard, by its own numbers.
    pub numbers: u64,
    /// How many shards share the numbers.
    shards: u64,
    /// The iteration that had taken longest when it was cut off.
    pub cut_longest: Option<(u64, SampleId)>,
}

/// The figures of an action.
pub struct ActionStats {
    /// How its samples ended: its requests, its polls, or its rounds as a group.
    pub requests: Counts,
    /// In how many iterations it ran.
    pub iterations: u64,
    /// The iteration of its last sample.
    last_iteration: Option<SampleId>,
    /// How many requests were sent: none by a group, and one or more by a poll.
    pub sent: u64,
    /// From send to the last byte, of requests that were not cut off.
    pub service: Latency,
    /// The same from when it was due, so including how late its iteration had started.
    pub response: Latency,
    /// Of these, those that failed.
    pub failed_response: Latency,
    /// Of the service times, those that failed.
    pub failed_service: Latency,
    /// The phases' sums, over requests that were answered.
    pub phases: PhaseSums,
    /// How often each status was answered.
    pub status: BTreeMap<u16, u64>,
    pub body_bytes: u64,
    /// Connections opened.
    pub opened: u64,
    /// Requests that went over HTTP/2.
    pub http2: u64,
    /// What came as streams, if anything did.
    pub streams: Option<Box<StreamStats>>,
    /// Service times over time.
    pub series: SeriesBuilder,
}

/// Sums of phases, in nanoseconds, with the number of requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct PhaseSums {
    /// How many requests.
    pub count: u64,
    /// Resolve, connect, TLS, send, wait, receive, redirect.
    pub sums_ns: [u128; 7],
}

impl PhaseSums {
    fn add(&mut self, phases: &Phases) {
        self.count += 1;
        let values = [
            phases.resolve_ns,
            phases.connect_ns,
            phases.tls_ns,
            phases.send_ns,
            phases.wait_ns,
            phases.receive_ns,
            phases.before_ns,
        ];
        for (sum, value) in self.sums_ns.iter_mut().zip(values) {
            *sum += u128::from(value);
        }
    }
}

impl Aggregate {
    /// How many iterations of a workload failed without a fault of the service; see [`FailureClass::is_of_bench`](measure::errors::FailureClass::is_of_bench).
    #[must_use]
    pub fn failed_of_bench(&self, stats: &WorkloadStats) -> u64 {
        let of_bench =
            |number: &u32| self.failures.get(number).is_some_and(|failure| failure.class.is_of_bench());
        stats.errors.iter().filter(|(number, _)| of_bench(number)).map(|(_, (count, _))| count).sum()
    }

    /// Reads the log of a run.
    ///
    /// # Errors
    /// No log, a file that is not a log, or a log without its header.
    pub fn read(path: &Path) -> Result<Self, LogError> {
        Self::of(RunLog::open(path)?, HashSet::new())
    }

    /// Reads the log of a run; `stored` has the ids of traces that were fetched before, and are chosen again.
    ///
    /// # Errors
    /// The log cannot be read.
    pub fn of(log: RunLog, stored: HashSet<Uuid>) -> Result<Self, LogError> {
        let mut totals = Totals::new(&log);
        let mut counted = RunCounts::new(&log);
        let mut candidates = Candidates::new(&log, stored);
        let ending = log.visit(&mut [&mut totals, &mut counted, &mut candidates])?;
        counted.seal();
        let Totals { rows, workloads, slowest, failures, addresses, .. } = totals;
        Ok(Self {
            log,
            end: ending.end,
            flaws: ending.flaws,
            rows,
            unsaved: None,
            workloads,
            slowest,
            failures,
            addresses,
            counted,
            candidates,
        })
    }

    /// What ran.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.log.header
    }

    /// The trace id of an iteration.
    #[must_use]
    pub fn trace_id(&self, iteration: impl Into<SampleId>) -> Uuid {
        self.log.ids().trace_id(iteration)
    }

    /// The iterations in a row whose traces are wanted, all of them; a reader of the log of a part has fewer.
    #[must_use]
    pub fn in_a_row(&self) -> &[IterationSample] {
        &self.candidates.of_row
    }

    /// The client's own trace points of an iteration.
    #[must_use]
    pub fn client_points(&self, sample: &IterationSample) -> Vec<TraceRecord> {
        let known =
            SampleReferences { failure: self.failures.get(&sample.error), addresses: &self.addresses };
        client_points::records(&self.log, sample, known)
    }

    /// All iterations in the log, without the warm-up.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.workloads.iter().map(|workload| workload.iterations.total).sum()
    }
}

/// The visitor that computes the aggregate.
struct Totals {
    ids: RunIds,
    has_control: bool,
    random: fastrand::Rng,
    rows: u64,
    workloads: Vec<WorkloadStats>,
    /// How many actions the users of each workload have before and after their iterations.
    users: Vec<[usize; 2]>,
    slowest: Vec<IterationSample>,
    failures: HashMap<u32, Failure>,
    addresses: HashMap<u16, IpAddr>,
}

impl Totals {
    fn new(log: &RunLog) -> Self {
        let header = &log.header;
        let kept = (TIMES_MAX / header.workloads.len().max(1)).clamp(TIMES_OF_SIDE.0, TIMES_OF_SIDE.1);
        let shards = header.shard.as_ref().map_or(1, |shard| u64::from(shard.count));
        let workload = |workload: &WorkloadHeader| WorkloadStats::new(workload.actions.len(), kept, shards);
        Self {
            ids: log.ids(),
            has_control: !header.control.is_none(),
            random: fastrand::Rng::with_seed(header.id_seed.as_u64_pair().0),
            rows: 0,
            workloads: header.workloads.iter().map(workload).collect(),
            users: header.workloads.iter().map(|of| [of.user_setup.len(), of.user_teardown.len()]).collect(),
            slowest: Vec::new(),
            failures: HashMap::new(),
            addresses: HashMap::new(),
        }
    }

    fn add(&mut self, row: SampleRow<'_>) {
        let Some(workload) = self.workloads.get_mut(usize::from(row.head.workload)) else { return };
        self.rows += 1;
        workload.add(row);
        if self.has_control && !row.head.warm_up {
            let unprofiled = self.ids.is_control(row.head);
            workload.unprofiled += u64::from(unprofiled);
            if row.head.ended == CompletionStatus::Ok {
                let side =
                    if unprofiled { &mut workload.sides.control } else { &mut workload.sides.profiled };
                side.offer(row.head.duration_ns, &mut self.random);
            }
        }
        if row.head.ended.is_measured() && !row.head.warm_up {
            let of = |sample: &IterationSample| size(sample.response_ns(), sample);
            let own = size(row.head.response_ns(), row.head);
            keep_largest(&mut self.slowest, SLOWEST_MAX, own, of, || row.to_sample());
        }
    }
}

impl Visitor for Totals {
    fn failures(&mut self, failures: &[NumberedFailure]) {
        self.failures.extend(failures.iter().map(|entry| (entry.number, entry.failure.clone())));
    }

    fn addresses(&mut self, addresses: &[(u16, IpAddr)]) {
        self.addresses.extend(addresses.iter().copied());
    }

    fn users(&mut self, rows: &Rows) {
        for row in rows.iter() {
            let of_workload = usize::from(row.head.workload);
            let Some(names) = self.users.get(of_workload) else { continue };
            let phase = (row.head.number % 2) as usize;
            let new = || Box::new(WorkloadStats::new(names[phase], 0, 1));
            let workload = &mut self.workloads[of_workload];
            workload.users[phase].get_or_insert_with(new).add(row);
        }
    }

    fn rows(&mut self, rows: &Rows) -> io::Result<()> {
        rows.iter().for_each(|row| self.add(row));
        Ok(())
    }
}

impl WorkloadStats {
    /// `kept`: how many service times to keep of each side. `shards`: how many share the numbers.
    fn new(actions: usize, kept: usize, shards: u64) -> Self {
        Self {
            iterations: Counts::default(),
            warm_up: Counts::default(),
            unprofiled: 0,
            sides: ServiceTimes {
                profiled: DurationReservoir::new(kept),
                control: DurationReservoir::new(kept),
            },
            queue_time: Latency::new(),
            response: Latency::new(),
            failed_response: Latency::new(),
            service: Latency::new(),
            failed_service: Latency::new(),
            ok_service_sum_ns: 0,
            first_start_ns: u64::MAX,
            last_end_ns: 0,
            actions: (0..actions).map(|_| ActionStats::new()).collect(),
            users: [None, None],
            numbers_taken: Vec::new(),
            errors: BTreeMap::new(),
            repeated: RetransmitCounts::default(),
            series: SeriesBuilder::default(),
            load: LoadBuilder::default(),
            longest: Vec::new(),
            longest_times: LongestTimes::default(),
            numbers: 0,
            shards: shards.max(1),
            cut_longest: None,
        }
    }

    fn add(&mut self, row: SampleRow<'_>) {
        let head = row.head;
        self.numbers = self.numbers.max((head.number / self.shards).saturating_add(1));
        self.load.record(head);
        if head.warm_up {
            count(&mut self.warm_up, head.ended, head.resent);
            return;
        }
        let id = SampleId { workload: head.workload, number: head.number };
        count(&mut self.iterations, head.ended, head.resent);
        if head.ended != CompletionStatus::Dropped {
            self.first_start_ns = self.first_start_ns.min(head.start_ns);
            self.last_end_ns = self.last_end_ns.max(head.start_ns + head.duration_ns);
            self.queue_time.record(head.queue_time_ns(), id);
        }
        if head.ended.is_measured() {
            self.response.record(head.response_ns(), id);
            self.service.record(head.duration_ns, id);
            let end_ns = head.start_ns.saturating_add(head.duration_ns);
            let failed = head.ended == CompletionStatus::Failed;
            if failed {
                self.failed_response.record(head.response_ns(), id);
                self.failed_service.record(head.duration_ns, id);
            }
            self.series.record(end_ns, head.response_ns(), failed);
            let entry = (head.duration_ns, id);
            let of = |(ns, id): &(u64, SampleId)| size(*ns, *id);
            keep_largest(&mut self.longest, EXEMPLARS_MAX, of(&entry), of, || entry);
        }
        let is_longer = |(ns, other)| size(head.duration_ns, id) > size(ns, other);
        if head.ended == CompletionStatus::Aborted && self.cut_longest.is_none_or(is_longer) {
            self.cut_longest = Some((head.duration_ns, id));
        }
        if head.ended == CompletionStatus::Ok {
            self.ok_service_sum_ns += u128::from(head.duration_ns);
            self.longest_times.offer(head.start_ns, head.duration_ns, id);
        }
        self.add_error(head, id);
        NumberStats::add(&mut self.numbers_taken, row.numbers, id);
        for action in row.actions {
            self.repeated.add(action);
            if let Some(stats) = self.actions.get_mut(usize::from(action.action)) {
                stats.add(action, head, id);
                if let Some(stream) = row.stream_of(action).filter(|_| action.ended.is_measured()) {
                    stats.streams.get_or_insert_with(|| Box::new(StreamStats::new())).add(stream, id);
                }
            }
        }
    }

    fn add_error(&mut self, head: &IterationHead, id: SampleId) {
        if head.error != 0 && (self.errors.len() < ERRORS_MAX || self.errors.contains_key(&head.error)) {
            let (count, examples) = self.errors.entry(head.error).or_default();
            *count += 1;
            keep_first(examples, id);
        }
    }
}

impl ActionStats {
    fn new() -> Self {
        Self {
            requests: Counts::default(),
            iterations: 0,
            last_iteration: None,
            sent: 0,
            service: Latency::new(),
            response: Latency::new(),
            failed_response: Latency::new(),
            failed_service: Latency::new(),
            phases: PhaseSums::default(),
            status: BTreeMap::new(),
            body_bytes: 0,
            opened: 0,
            http2: 0,
            streams: None,
            series: SeriesBuilder::default(),
        }
    }

    /// `head` is that of its iteration, whose queue time applies to all its requests.
    fn add(&mut self, action: &ActionSample, head: &IterationHead, id: SampleId) {
        count(&mut self.requests, action.ended, action.phases.resent);
        self.iterations += u64::from(self.last_iteration.replace(id) != Some(id));
        self.sent += u64::from(action.requests);
        self.opened += u64::from(action.phases.opened);
        self.http2 += u64::from(action.protocol.is_http2(action.phases.version));
        self.body_bytes = self.body_bytes.saturating_add(action.body_bytes);
        if action.ended.is_measured() {
            self.service.record(action.duration_ns, id);
            let response_ns = action.duration_ns.saturating_add(head.queue_time_ns());
            self.response.record(response_ns, id);
            let start_ns = head.start_ns.saturating_add(action.offset_ns);
            let failed = action.ended == CompletionStatus::Failed;
            if failed {
                self.failed_response.record(response_ns, id);
                self.failed_service.record(action.duration_ns, id);
            }
            self.series.record(start_ns.saturating_add(action.duration_ns), action.duration_ns, failed);
        }
        // A message has no status.
        let is_message = action.protocol == Protocol::WebSocket && action.ended == CompletionStatus::Ok;
        if action.outcome.is_some() || is_message {
            self.phases.add(&action.phases);
        }
        if let Some(outcome) = action.outcome {
            *self.status.entry(outcome).or_default() += 1;
        }
    }
}

fn count(counts: &mut Counts, ended: CompletionStatus, resent: bool) {
    counts.total += 1;
    counts.resent += u64::from(resent && ended.is_measured());
    match ended {
        CompletionStatus::Ok => counts.ok += 1,
        CompletionStatus::Failed => counts.failed += 1,
        CompletionStatus::Aborted => counts.aborted += 1,
        CompletionStatus::Dropped => counts.dropped += 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean of what is kept is that of the stream, over many drawings.
    #[test]
    fn what_is_kept_of_a_long_stream_is_a_fair_sample() {
        let (mut sum, mut random) = (0, fastrand::Rng::with_seed(7));
        for _ in 0..200 {
            let mut times = DurationReservoir::new(10);
            (0..1_000).for_each(|ns| times.offer(ns, &mut random));
            assert_eq!((times.kept_ns.len(), times.seen), (10, 1_000));
            sum += times.kept_ns.iter().sum::<u64>();
        }
        assert!((450..550).contains(&(sum / 2_000)), "{}", sum / 2_000);
        let mut few = DurationReservoir::new(10);
        (0..10).for_each(|ns| few.offer(ns, &mut random));
        assert_eq!(few.kept_ns, (0..10).collect::<Vec<u64>>());
    }

    /// Neither the warm-up nor what was cut off is among the slowest, however long it took.
    #[test]
    fn the_slowest_are_measured_ones() {
        let mut totals = Totals {
            ids: RunIds::new(Uuid::nil(), terms::control::ControlShare::default()),
            has_control: false,
            random: fastrand::Rng::with_seed(7),
            rows: 0,
            workloads: vec![WorkloadStats::new(0, 10, 1)],
            users: vec![[0, 0]],
            slowest: Vec::new(),
            failures: HashMap::new(),
            addresses: HashMap::new(),
        };
        let mut rows = Rows::default();
        for (number, duration_ns, warm_up, ended) in [
            (0, 900, true, CompletionStatus::Ok),
            (1, 5, false, CompletionStatus::Ok),
            (2, 800, false, CompletionStatus::Aborted),
            (3, 9, false, CompletionStatus::Failed),
        ] {
            rows.push(&IterationSample { number, duration_ns, warm_up, ended, ..IterationSample::default() });
        }
        rows.iter().for_each(|row| totals.add(row));
        assert_eq!(totals.slowest.iter().map(|one| one.number).collect::<Vec<_>>(), [3, 1]);
    }

    #[test]
    fn a_shard_counts_its_own_numbers() {
        for (shards, numbers, expected) in [(1, vec![0, 7, 3], 8), (3, vec![1, 7, 4], 3), (0, vec![5], 6)] {
            let mut stats = WorkloadStats::new(0, 10, shards);
            let mut rows = Rows::default();
            numbers
                .iter()
                .for_each(|&number| rows.push(&IterationSample { number, ..IterationSample::default() }));
            rows.iter().for_each(|row| stats.add(row));
            assert_eq!(stats.numbers, expected, "{shards} shards, {numbers:?}");
        }
    }
}
