//! The sampler's thread: it reads what was seen about once a second, finds whose it is, and delivers what is over.
//!
//! The timer runs while an operation lives, up to the next reading. Names are looked up here, not in the
//! request. A number is free again after two readings: what is seen while the first is made may still be of its operation.

use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use super::carried;
use super::directory::Directory;
use super::model::{Builder, FunctionProfile};
use super::numbers::{DigitAddresses, Number};
use super::operation::{Operation, OperationBatch, Operations, Owner, ReaderAction};
use super::sampler::{RawStacks, Sampler, is_cut};
use super::symbols::{Symbols, are_missing};
use crate::notifier::Reporter;
use crate::record::{Info, START_SUFFIX, STOP_SUFFIX, Timestamp, TraceRecord};

/// How long the timer runs between two readings.
const READ_EVERY: Duration = Duration::from_secs(1);
/// Operations of further names are not added up.
const NAMES_MAX: usize = 500;

/// What became of the operations.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FunctionsReport {
    /// Operations that are over.
    pub operations: u64,
    /// Of those, the ones that no sample was seen of: they were shorter than the time between two samples.
    pub without_samples: u64,
    /// Operations that were picked but not profiled, because too many lived at the same time.
    pub refused: u64,
    /// Samples of operations.
    pub samples: u64,
    /// Samples of other work.
    pub others: u64,
    /// Samples whose stack was too deep to say whose they are.
    pub too_deep: u64,
    /// Samples of an operation's tasks that came after it was delivered.
    pub late: u64,
    /// How often the sampler was read.
    pub readings: u64,
    /// Files that were not written, because the directory is full.
    pub files_left_out: u64,
    /// The last failure: of starting the sampler, or of writing a file.
    pub last_error: Option<String>,
}

/// What the thread shares with the service.
#[derive(Default)]
pub(super) struct SampleReaderOutput {
    state: Mutex<SampleReaderState>,
}

#[derive(Default)]
struct SampleReaderState {
    report: FunctionsReport,
    totals: BTreeMap<String, Builder>,
}

impl SampleReaderOutput {
    pub(super) fn report(&self) -> FunctionsReport {
        self.state().report.clone()
    }

    pub(super) fn totals(&self) -> Vec<FunctionProfile> {
        let totals = self.state().totals.clone();
        totals.into_values().map(Builder::finish).collect()
    }

    fn note(&self, error: String) {
        self.state().report.last_error = Some(error);
    }

    fn state(&self) -> MutexGuard<'_, SampleReaderState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Samples of an operation that is not over.
struct OperationSamples {
    builder: Builder,
    samples: u64,
    too_deep: u64,
}

/// What the thread has.
pub(super) struct SampleReader {
    pub(super) operations: Arc<Operations>,
    pub(super) outcome: Arc<SampleReaderOutput>,
    pub(super) sampler: Sampler,
    pub(super) directory: Option<Directory>,
    pub(super) carried: bool,
    symbols: Symbols,
    growing: HashMap<u64, OperationSamples>,
    nameless: bool,
}

impl SampleReader {
    pub(super) fn new(
        operations: Arc<Operations>,
        outcome: Arc<SampleReaderOutput>,
        sampler: Sampler,
        directory: Option<Directory>,
        carried: bool,
    ) -> Self {
        let (symbols, growing) = (Symbols::default(), HashMap::new());
        Self { operations, outcome, sampler, directory, carried, symbols, growing, nameless: are_missing() }
    }

    /// Reads until the sampler is stopped.
    pub(super) fn run(mut self) {
        loop {
            let next = self.operations.wait_for_work();
            // What lives at the end is not delivered, but what is over is.
            let started = if next == ReaderAction::Sample { self.sampler.start() } else { Ok(()) };
            let pause =
                if started.is_ok() && next == ReaderAction::Sample { READ_EVERY } else { Duration::ZERO };
            if let Err(error) = started {
                self.outcome.note(error.to_string());
                // Without a sampler, operations are over without samples.
                std::thread::sleep(Duration::from_millis(100));
            }
            let tickets = self.operations.wait_for(pause);
            self.read();
            self.operations.serve(tickets);
            if next == ReaderAction::Stop {
                return;
            }
        }
    }

    fn read(&mut self) {
        let stacks = self.sampler.read();
        let OperationBatch { owners, over, any_lives } = self.operations.take_owners();
        if !any_lives {
            self.sampler.stop();
        }
        self.distribute(&stacks, &owners);
        for operation in over {
            self.deliver(&operation);
        }
        let mut state = self.outcome.state();
        state.report.readings += 1;
        state.report.refused = self.operations.refused.load(std::sync::atomic::Ordering::Relaxed);
    }

    fn distribute(&mut self, stacks: &RawStacks, owners: &HashMap<Number, Owner>) {
        let (mut owned, mut others, mut too_deep, mut late) = (0, 0, 0, 0);
        for (frames, samples) in stacks {
            let mut found_any = false;
            for (owner, len, point) in owners_of(frames, owners) {
                found_any = true;
                if owner.operation.delivered().is_some() {
                    late += samples;
                    continue;
                }
                owned += samples;
                let functions = self.symbols.stack(&frames[..len]);
                let hz = self.sampler.hz();
                let growing = growing(&mut self.growing, &owner.operation, hz);
                growing.builder.add(point, &functions, *samples);
                growing.samples += samples;
            }
            if !found_any {
                *(if is_cut(frames) { &mut too_deep } else { &mut others }) += samples;
            }
        }
        for growing in self.growing.values_mut() {
            growing.too_deep += too_deep;
        }
        let report = &mut self.outcome.state().report;
        report.samples += owned;
        report.others += others;
        report.too_deep += too_deep;
        report.late += late;
    }

    fn deliver(&mut self, operation: &Arc<Operation>) {
        let grown = self.growing.remove(&operation.id);
        let samples = grown.as_ref().map_or(0, |grown| grown.samples);
        let hz = self.sampler.hz();
        let mut builder =
            grown.as_ref().map_or_else(|| Builder::new(&operation.about.name, hz), |g| g.builder.clone());
        builder.set_operations(1);
        builder.set_nameless(self.nameless);
        builder.set_too_deep(grown.map_or(0, |grown| grown.too_deep));
        operation.waits().into_iter().for_each(|wait| builder.add_wait(wait));
        let profile = builder.finish();
        self.count(&profile, samples);
        if operation.about.is_session {
            operation.deliver(Some(profile));
            return;
        }
        operation.deliver(None);
        if samples == 0 {
            return;
        }
        if let Some(directory) = &mut self.directory {
            let written = directory.write(&operation.about.base_id, &operation.about.point_id, &profile);
            let mut state = self.outcome.state();
            match written {
                Ok(true) => {}
                Ok(false) => state.report.files_left_out += 1,
                Err(error) => state.report.last_error = Some(error.to_string()),
            }
        }
        if let Some(reporter) = operation.about.reporter.as_ref().filter(|_| self.carried) {
            send(operation, reporter, &profile);
        }
    }

    fn count(&self, profile: &FunctionProfile, samples: u64) {
        let mut state = self.outcome.state();
        state.report.operations += 1;
        state.report.without_samples += u64::from(samples == 0);
        let known = state.totals.len();
        if known < NAMES_MAX || state.totals.contains_key(&profile.operation) {
            let total = state
                .totals
                .entry(profile.operation.clone())
                .or_insert_with(|| Builder::new(&profile.operation, profile.hz));
            total.merge(profile, false);
        }
    }
}

fn growing<'g>(
    all: &'g mut HashMap<u64, OperationSamples>,
    operation: &Operation,
    hz: u32,
) -> &'g mut OperationSamples {
    all.entry(operation.id).or_insert_with(|| OperationSamples {
        builder: Builder::new(&operation.about.name, hz),
        samples: 0,
        too_deep: 0,
    })
}

/// Whose a stack is: the innermost operation of a trace, with the point, and every session that is put around it.
/// With each goes how many of the frames are in its work.
fn owners_of<'o>(
    frames: &[usize],
    owners: &'o HashMap<Number, Owner>,
) -> Vec<(&'o Owner, usize, Option<&'o str>)> {
    let mut found: Vec<(&Owner, usize, Option<&str>)> = Vec::new();
    for (number, len) in DigitAddresses::get().find(frames) {
        let Some(owner) = owners.get(&number) else { continue };
        let is_session = owner.operation.about.is_session;
        let same = found.iter().position(|(known, ..)| known.operation.id == owner.operation.id);
        let is_innermost = || found.iter().all(|(known, ..)| known.operation.about.is_session);
        match same {
            // Further out, in the same operation's work.
            Some(at) => found[at].1 = len,
            None if is_session => found.push((owner, len, None)),
            None if is_innermost() => found.push((owner, len, Some(&*owner.point_id))),
            None => {}
        }
    }
    found
}

/// Reports the functions as a point of no length below the operation's.
fn send(operation: &Operation, reporter: &Reporter, profile: &FunctionProfile) {
    let at = Timestamp::from_unix_ns(operation.ended_unix_ns().unwrap_or_default());
    let trace_id = Uuid::new_v4().to_string();
    let record = |suffix: &str, info: Info| TraceRecord {
        name: format!("{}{suffix}", carried::POINT_NAME).into(),
        base_id: operation.about.base_id.as_str().into(),
        trace_id: trace_id.as_str().into(),
        parent_id: operation.about.point_id.as_str().into(),
        timestamp: at.clone(),
        info: info.into(),
        project: None,
        service: None,
    };
    let records = [record(START_SUFFIX, Info::new()), record(STOP_SUFFIX, carried::encode(profile))];
    for record in records {
        let record = record.reported_by(&reporter.identity);
        // A notifier that panics costs its own record.
        let _ = catch_unwind(AssertUnwindSafe(|| reporter.notifier.notify(record)));
    }
}
