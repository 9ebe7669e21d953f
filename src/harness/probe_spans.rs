//! The spans of the probe's trace, which a receiver takes beside the load's spans.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

use collect::mask_record;
use measure::ids::RunIds;
use osprofiler::record::TraceRecord;
use receive::spool::stored::records_of;

/// No more bytes of the probe's trace are kept.
const BYTES_MAX: usize = 4 << 20;
/// A trace is taken as whole if no span of it came for this long.
const QUIET: Duration = Duration::from_millis(500);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Takes the spans of the probe.
pub(super) struct ProbeSpans {
    ids: RunIds,
    state: Mutex<ProbeSpanBuffer>,
}

#[derive(Default)]
struct ProbeSpanBuffer {
    messages: Vec<(u128, Vec<u8>)>,
    bytes: usize,
    spans: u64,
    is_over: bool,
}

impl ProbeSpans {
    pub(super) fn new(ids: RunIds) -> Self {
        Self { ids, state: Mutex::default() }
    }

    /// Whether a trace is one of the probe's iterations.
    pub(super) fn wants(&self, trace_id: u128) -> bool {
        self.ids.sample_of(trace_id).is_some()
    }

    /// Takes spans of such a trace.
    pub(super) fn take(&self, trace_id: u128, spans: u32, resource_spans: &[u8]) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.spans += u64::from(spans);
        if !state.is_over && state.bytes + resource_spans.len() <= BYTES_MAX {
            state.bytes += resource_spans.len();
            state.messages.push((trace_id, resource_spans.to_vec()));
        }
    }

    /// How many spans came of all of its iterations.
    pub(super) fn spans(&self) -> u64 {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).spans
    }

    /// Waits until spans of a trace have come and no more do; returns its records, oldest first. Takes none from then on.
    pub(super) async fn wait(&self, trace_id: Uuid, longest: Duration) -> Vec<TraceRecord> {
        let (began, mut changed, mut before) = (Instant::now(), Instant::now(), 0);
        while began.elapsed() < longest {
            let now = self.messages(trace_id).len();
            if now != before {
                (changed, before) = (Instant::now(), now);
            }
            if now > 0 && changed.elapsed() >= QUIET {
                break;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        let messages = self.messages(trace_id);
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.is_over, state.messages) = (true, Vec::new());
        drop(state);
        let mut records = records_of(trace_id, &messages).unwrap_or_default();
        records.iter_mut().for_each(mask_record);
        records
    }

    fn messages(&self, trace_id: Uuid) -> Vec<Vec<u8>> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let of_trace = state.messages.iter().filter(|(id, _)| *id == trace_id.as_u128());
        of_trace.map(|(_, bytes)| bytes.clone()).collect()
    }
}
