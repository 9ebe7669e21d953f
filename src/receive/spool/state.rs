//! What becomes of the spans of each iteration: the state that the spool's threads share.
//!
//! Nothing here does I/O: every call is short.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::counts::{DiscardCounts, SpoolCounts};
use super::decisions::{Decision, Decisions, IterationKey, NUMBER_MAX};
use super::kept::{KeptTraces, SpoolRefusal};
use super::limits::SpoolLimits;
use super::sampling::{IterationSampler, SamplingQuota};
use super::waiting::{TraceBuffer, WaitingTraces};
use measure::ids::RunIds;
use measure::latency::SampleId;
use measure::rows::IterationHead;

/// The most pages of decisions, of 4 KiB each.
const PAGES_MAX: usize = 2_048;

pub(super) struct SharedSpool {
    pub(super) state: Mutex<SpoolState>,
    pub(super) work: Condvar,
    ids: RunIds,
    workloads: u16,
}

pub(super) struct SpoolState {
    sampler: IterationSampler,
    decisions: Decisions,
    waiting: WaitingTraces,
    pub(super) kept: KeptTraces,
    ids: RunIds,
    limits: SpoolLimits,
    spans: u64,
    iterations: u64,
    let_go: DiscardCounts,
    gone: Vec<u64>,
    memory_peak: usize,
    /// Memory of the writer.
    pub(super) cleaning_bytes: usize,
    pub(super) write_errors: u64,
    pub(super) is_closing: bool,
}

impl SharedSpool {
    pub(super) fn new(ids: RunIds, workloads: u16, wanted: SamplingQuota, limits: SpoolLimits) -> Self {
        let state = Mutex::new(SpoolState::new(ids, workloads, wanted, limits));
        Self { state, work: Condvar::new(), ids, workloads }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, SpoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// True for an iteration that is not profiled.
    pub(super) fn is_control(&self, iteration: impl Into<SampleId>) -> bool {
        self.ids.is_control(iteration)
    }

    /// The profiled iteration of this run that a trace is of.
    pub(super) fn place_of(&self, trace_id: u128) -> Option<IterationKey> {
        let sample = self.ids.sample_of(trace_id)?;
        let is_possible = sample.workload < self.workloads && sample.number <= NUMBER_MAX;
        (is_possible && !self.ids.is_control(sample)).then(|| IterationKey::of(sample)).flatten()
    }
}

impl SpoolState {
    pub(super) fn new(ids: RunIds, workloads: u16, wanted: SamplingQuota, limits: SpoolLimits) -> Self {
        Self {
            sampler: IterationSampler::new(wanted, usize::from(workloads)),
            decisions: Decisions::new(usize::from(workloads), PAGES_MAX),
            waiting: WaitingTraces::default(),
            kept: KeptTraces::new(limits),
            ids,
            limits,
            spans: 0,
            iterations: 0,
            let_go: DiscardCounts::default(),
            gone: Vec::new(),
            memory_peak: 0,
            cleaning_bytes: 0,
            write_errors: 0,
            is_closing: false,
        }
    }

    fn decision(&self, place: IterationKey) -> Decision {
        self.decisions.get(place).unwrap_or_else(|| match self.kept.traces.contains_key(&place) {
            true => Decision::Kept,
            false => Decision::Dropped,
        })
    }

    pub(super) fn take(&mut self, place: IterationKey, trace_id: u128, spans: u32, bytes: &[u8]) {
        self.spans += u64::from(spans);
        if self.is_closing {
            self.let_go.undecided += u64::from(spans);
            return;
        }
        match self.decision(place) {
            Decision::Undecided => self.wait(place, spans, bytes),
            Decision::Kept => self.keep(place, trace_id, spans, bytes),
            Decision::Dropped => self.let_go.not_chosen += u64::from(spans),
            Decision::LetGo => self.let_go.memory += u64::from(spans),
        }
    }

    fn keep(&mut self, place: IterationKey, trace_id: u128, spans: u32, bytes: &[u8]) {
        match self.kept.add(place, trace_id, spans, bytes) {
            Ok(()) => {}
            Err(SpoolRefusal::TraceTooLarge) => self.let_go.trace_too_large += u64::from(spans),
            Err(SpoolRefusal::NoRoom) => self.let_go.disk += u64::from(spans),
        }
    }

    fn wait(&mut self, place: IterationKey, spans: u32, bytes: &[u8]) {
        let max = (self.limits.trace_spans, self.limits.trace_bytes);
        if !self.waiting.push(place, spans, bytes, max) {
            self.let_go.trace_too_large += u64::from(spans);
        }
        while self.waiting.bytes() > self.limits.waiting_bytes {
            self.note_memory();
            let Some((place, trace)) = self.waiting.pop_oldest() else { break };
            if self.kept.begin_early(place, trace.bytes(), trace.count()) {
                self.decisions.set(place, Decision::Kept);
                self.keep_all(place, &trace);
            } else {
                self.decisions.set(place, Decision::LetGo);
                self.let_go.memory += u64::from(trace.spans);
            }
        }
    }

    fn keep_all(&mut self, place: IterationKey, trace: &TraceBuffer) {
        let trace_id = self.ids.trace_id(place.sample()).as_u128();
        for (spans, bytes) in trace.chunks() {
            self.keep(place, trace_id, spans, bytes);
        }
        if let Some(entry) = self.kept.traces.get_mut(&place) {
            entry.lost = entry.lost.saturating_add(trace.lost);
        }
    }

    pub(super) fn ended(&mut self, head: &IterationHead) {
        let Some(place) = IterationKey::of(head.into()) else { return };
        self.iterations += 1;
        let draw = self.ids.draw(head);
        let samples = self.sampler.offer(head, draw, &mut self.gone);
        if samples > 0 {
            self.begin_to_keep(place, samples);
        }
        self.drop_gone(head.workload);
        let waiting = self.waiting.remove(place);
        if samples > 0 && self.kept.traces.contains_key(&place) {
            if let Some(trace) = waiting {
                self.keep_all(place, &trace);
            }
            return;
        }
        self.decisions.set(place, Decision::Dropped);
        if samples == 0 {
            self.let_go.not_chosen += u64::from(self.kept.drop_trace(place));
        }
        self.let_go.not_chosen += waiting.map_or(0, |trace| u64::from(trace.spans));
    }

    fn begin_to_keep(&mut self, place: IterationKey, samples: u8) {
        let was_let_go = self.decisions.get(place) == Some(Decision::LetGo);
        let entry = self.kept.decide(place, samples);
        // At least one is missing; how many is counted for all traces together only.
        entry.lost += u32::from(was_let_go);
        self.decisions.set(place, Decision::Kept);
    }

    /// Drops the traces that are no longer in any sample.
    fn drop_gone(&mut self, workload: u16) {
        for at in 0..self.gone.len() {
            let Some(place) = IterationKey::of(SampleId { workload, number: self.gone[at] }) else {
                continue;
            };
            let Some(entry) = self.kept.traces.get_mut(&place) else { continue };
            entry.samples -= 1;
            if entry.samples == 0 {
                self.let_go.not_chosen += u64::from(self.kept.drop_trace(place));
                self.decisions.set(place, Decision::Dropped);
            }
        }
        self.gone.clear();
    }

    /// Makes samples smaller until what is kept fits on the disk.
    pub(super) fn relieve(&mut self) {
        while self.kept.is_too_much() {
            let Some(workload) = self.sampler.halve(&mut self.gone) else { return };
            self.drop_gone(workload);
        }
    }

    /// Lets go of what is not decided, and takes nothing from here on.
    pub(super) fn close(&mut self) {
        self.is_closing = true;
        while let Some((_, trace)) = self.waiting.pop_oldest() {
            self.let_go.undecided += u64::from(trace.spans);
        }
        for place in self.kept.early_traces() {
            self.let_go.undecided += u64::from(self.kept.drop_trace(place));
            self.decisions.set(place, Decision::Undecided);
        }
    }

    pub(super) fn note_memory(&mut self) {
        self.memory_peak = self.memory_peak.max(self.memory_bytes());
    }

    fn memory_bytes(&self) -> usize {
        self.waiting.bytes() + self.decisions.bytes() + self.kept.memory_bytes() + self.cleaning_bytes
    }

    pub(super) fn counts(&self) -> SpoolCounts {
        let with_spans = self.kept.traces.values().filter(|entry| entry.spans > 0 && !entry.is_early);
        SpoolCounts {
            spans: self.spans,
            iterations: self.iterations,
            kept_traces: with_spans.clone().count() as u64,
            partial_traces: with_spans.filter(|entry| entry.lost > 0).count() as u64,
            kept_spans: self.kept.spans,
            waiting_traces: self.waiting.traces() as u64,
            waiting_spans: self.waiting.spans(),
            let_go: self.let_go,
            halved: self.sampler.halved(),
            memory_bytes: self.memory_bytes() as u64,
            memory_peak_bytes: self.memory_peak.max(self.memory_bytes()) as u64,
            queued_bytes: self.kept.queued_bytes() as u64,
            disk_bytes: self.kept.disk_bytes(),
            disk_peak_bytes: self.kept.disk_peak,
            write_errors: self.write_errors,
        }
    }
}
