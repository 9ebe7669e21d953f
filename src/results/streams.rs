//! The figures of answers that came as streams.

use measure::ids::RunIds;
use measure::latency::{Latency, SampleId};
use measure::streams::StreamSample;

use super::distributions::distribution;
use super::model::StreamedAnswers;

/// The streams that answered an action.
pub struct StreamStats {
    streams: u64,
    without_message: u64,
    messages: u64,
    tokens: u64,
    first: Latency,
    gaps: Latency,
}

impl StreamStats {
    pub(super) fn new() -> Self {
        Self {
            streams: 0,
            without_message: 0,
            messages: 0,
            tokens: 0,
            first: Latency::new(),
            gaps: Latency::new(),
        }
    }

    pub(super) fn add(&mut self, stream: &StreamSample, id: SampleId) {
        self.streams += 1;
        self.messages = self.messages.saturating_add(stream.messages);
        self.tokens = self.tokens.saturating_add(stream.tokens);
        if stream.messages > 0 {
            self.first.record(stream.first_ns, id);
        } else {
            self.without_message += 1;
        }
        for (gap_ns, times) in stream.gaps.iter() {
            self.gaps.record_several(gap_ns, times.into(), id);
        }
    }

    /// `duration_s`: how long the workload took.
    pub(super) fn model(&self, duration_s: f64, ids: &RunIds) -> StreamedAnswers {
        let per_s = |number: u64| if duration_s > 0.0 { number as f64 / duration_s } else { 0.0 };
        StreamedAnswers {
            streams: self.streams,
            without_message: self.without_message,
            messages: self.messages,
            messages_per_s: per_s(self.messages),
            tokens: (self.tokens > 0).then_some(self.tokens),
            tokens_per_s: (self.tokens > 0).then(|| per_s(self.tokens)),
            first: distribution(&self.first, ids),
            gap: distribution(&self.gaps, ids),
        }
    }
}
