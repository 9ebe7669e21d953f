//! One pass over the run log: counts, distributions, the slowest, in memory that does not grow with
//! the number of iterations.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use uuid::Uuid;

use crate::base::ids::IdSpace;
use crate::client::Phases;
use crate::measure::errors::Failure;
use crate::measure::latency::{Latency, SampleId};
use crate::measure::log::{Frame, LogError, LogReader};
use crate::measure::sample::{ActionSample, Ended, IterationSample};

use super::header::{End, Header};
use super::model::Counts;

/// How many of the slowest iterations of a run are kept.
pub const SLOWEST_MAX: usize = 10;
/// How many trace ids stand beside an error or a criterion.
pub const EXEMPLARS_MAX: usize = 5;
/// How many different faults are told apart in a workload.
const ERRORS_MAX: usize = 500;

/// What the log of a run says.
pub struct Aggregate {
    /// What ran.
    pub header: Header,
    /// How it ended; absent when the harness was killed.
    pub end: Option<End>,
    /// True when the log ends in a damaged frame.
    pub damaged: bool,
    /// One entry for each workload of the header.
    pub workloads: Vec<WorkloadStats>,
    /// The slowest iterations by response time, slowest first.
    pub slowest: Vec<IterationSample>,
    /// The faults by their numbers.
    pub failures: HashMap<u32, Failure>,
}

/// Why a log gives no results.
#[derive(Debug, thiserror::Error)]
pub enum AggregateError {
    /// It cannot be read.
    #[error(transparent)]
    Log(#[from] LogError),
    /// It does not say what ran.
    #[error("{0} has no header: the run ended before it began, and there is nothing to report")]
    NoHeader(String),
}

/// One workload's figures.
pub struct WorkloadStats {
    /// How its iterations ended.
    pub iterations: Counts,
    /// From due to end, of iterations that were not cut off.
    pub response: Latency,
    /// From start to end, of iterations that were not cut off.
    pub service: Latency,
    /// From start to end, of iterations without fault.
    pub ok_service_sum_ns: u128,
    /// When the first iteration started.
    pub first_start_ns: u64,
    /// When the last iteration ended.
    pub last_end_ns: u64,
    /// One entry for each action.
    pub actions: Vec<ActionStats>,
    /// Faults by number: how often, and the first iterations.
    pub errors: BTreeMap<u32, (u64, Vec<SampleId>)>,
    /// The longest iterations that were not cut off, longest first.
    pub longest: Vec<(u64, SampleId)>,
}

/// One action's figures.
pub struct ActionStats {
    /// How its requests ended.
    pub requests: Counts,
    /// From send to the last byte, of requests that were not cut off.
    pub service: Latency,
    /// The phases' sums, over requests that were answered.
    pub phases: PhaseSums,
    /// How often each status was answered.
    pub status: BTreeMap<u16, u64>,
    /// Bytes of bodies.
    pub body_bytes: u64,
    /// Connections opened.
    pub opened: u64,
}

/// Sums of phases, in nanoseconds, with the number of requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct PhaseSums {
    /// How many requests.
    pub count: u64,
    /// Resolve, connect, TLS, send, wait, receive.
    pub sums_ns: [u128; 6],
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
        ];
        for (sum, value) in self.sums_ns.iter_mut().zip(values) {
            *sum += u128::from(value);
        }
    }
}

impl Aggregate {
    /// Reads the log of a run.
    ///
    /// # Errors
    /// No log, a foreign one, or one without its header.
    pub fn read(path: &Path) -> Result<Self, AggregateError> {
        let mut reader = LogReader::open(path)?;
        let header = match reader.next() {
            Some(Frame::Header(json)) => serde_json::from_slice::<Header>(&json).ok(),
            _ => None,
        };
        let header = header.ok_or_else(|| AggregateError::NoHeader(path.display().to_string()))?;
        let workloads =
            header.workloads.iter().map(|workload| WorkloadStats::new(workload.actions.len())).collect();
        let mut aggregate = Self {
            header,
            end: None,
            damaged: false,
            workloads,
            slowest: Vec::new(),
            failures: HashMap::new(),
        };
        for frame in &mut reader {
            match frame {
                Frame::Samples(samples) => samples.into_iter().for_each(|sample| aggregate.add(sample)),
                Frame::Failures(failures) => {
                    aggregate
                        .failures
                        .extend(failures.into_iter().map(|entry| (entry.number, entry.failure)));
                }
                Frame::End(json) => aggregate.end = serde_json::from_slice(&json).ok(),
                Frame::Header(_) => {}
            }
        }
        aggregate.damaged = reader.is_damaged();
        Ok(aggregate)
    }

    /// The trace id of an iteration.
    #[must_use]
    pub fn trace_id(&self, sample: SampleId) -> Uuid {
        IdSpace::from_seed(self.header.id_seed).base_id(sample.workload, sample.number)
    }

    /// All iterations that the log holds.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.workloads.iter().map(|workload| workload.iterations.total).sum()
    }

    fn add(&mut self, sample: IterationSample) {
        let Some(workload) = self.workloads.get_mut(usize::from(sample.workload)) else { return };
        workload.add(&sample);
        if sample.ended.is_measured() {
            let response_ns = sample.response_ns();
            let at = self.slowest.partition_point(|other| other.response_ns() >= response_ns);
            if at < SLOWEST_MAX {
                self.slowest.insert(at, sample);
                self.slowest.truncate(SLOWEST_MAX);
            }
        }
    }
}

impl WorkloadStats {
    fn new(actions: usize) -> Self {
        Self {
            iterations: Counts::default(),
            response: Latency::new(),
            service: Latency::new(),
            ok_service_sum_ns: 0,
            first_start_ns: u64::MAX,
            last_end_ns: 0,
            actions: (0..actions).map(|_| ActionStats::new()).collect(),
            errors: BTreeMap::new(),
            longest: Vec::new(),
        }
    }

    fn add(&mut self, sample: &IterationSample) {
        let id = SampleId { workload: sample.workload, number: sample.number };
        count(&mut self.iterations, sample.ended);
        self.first_start_ns = self.first_start_ns.min(sample.start_ns);
        self.last_end_ns = self.last_end_ns.max(sample.start_ns + sample.duration_ns);
        if sample.ended.is_measured() {
            self.response.record(sample.response_ns(), id);
            self.service.record(sample.duration_ns, id);
            let at = self.longest.partition_point(|(ns, _)| *ns >= sample.duration_ns);
            if at < EXEMPLARS_MAX {
                self.longest.insert(at, (sample.duration_ns, id));
                self.longest.truncate(EXEMPLARS_MAX);
            }
        }
        if sample.ended == Ended::Ok {
            self.ok_service_sum_ns += u128::from(sample.duration_ns);
        }
        if sample.error != 0 && (self.errors.len() < ERRORS_MAX || self.errors.contains_key(&sample.error)) {
            let (count, examples) = self.errors.entry(sample.error).or_default();
            *count += 1;
            if examples.len() < EXEMPLARS_MAX {
                examples.push(id);
            }
        }
        for action in &sample.actions {
            if let Some(stats) = self.actions.get_mut(usize::from(action.action)) {
                stats.add(action, id);
            }
        }
    }
}

impl ActionStats {
    fn new() -> Self {
        Self {
            requests: Counts::default(),
            service: Latency::new(),
            phases: PhaseSums::default(),
            status: BTreeMap::new(),
            body_bytes: 0,
            opened: 0,
        }
    }

    fn add(&mut self, action: &ActionSample, id: SampleId) {
        count(&mut self.requests, action.ended);
        self.opened += u64::from(action.phases.opened);
        self.body_bytes += action.body_bytes;
        if action.ended.is_measured() {
            self.service.record(action.duration_ns, id);
        }
        if action.status != 0 {
            self.phases.add(&action.phases);
            *self.status.entry(action.status).or_default() += 1;
        }
    }
}

fn count(counts: &mut Counts, ended: Ended) {
    counts.total += 1;
    match ended {
        Ended::Ok => counts.ok += 1,
        Ended::Failed => counts.failed += 1,
        Ended::Aborted => counts.aborted += 1,
        Ended::Dropped => counts.dropped += 1,
    }
}
