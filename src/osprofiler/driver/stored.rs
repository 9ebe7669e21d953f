//! What a collector gives for a trace: its records, and a count of what was stored there and is none.
//!
//! Any program may write to a collector, so one bad record must not hide the good ones beside it.

use super::DriverError;
use crate::record::{RecordError, TraceRecord};

/// A trace as it was stored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CollectorTrace {
    /// Its records, oldest first; none if the trace is unknown.
    pub records: Vec<TraceRecord>,
    /// How many records could not be read.
    pub rejected: u64,
    /// Why the first of those could not: an error's chain, which completes "failed to …".
    pub first_rejected: Option<String>,
    /// That this is only a part of the trace, and why, if the collector says so.
    pub partial: Option<String>,
}

impl CollectorTrace {
    /// Keeps a record, or counts what is none.
    pub fn add(&mut self, base_id: &str, target: &str, decoded: Result<TraceRecord, RecordError>) {
        match decoded {
            Ok(record) => self.records.push(record),
            Err(source) => {
                if self.first_rejected.is_none() {
                    let (base_id, target, index) = (base_id.to_owned(), target.to_owned(), self.seen());
                    let error = DriverError::Record { base_id, index, target, source };
                    self.first_rejected = Some(error.chain());
                }
                self.rejected += 1;
            }
        }
    }

    /// How many records were looked at.
    #[must_use]
    pub fn seen(&self) -> usize {
        self.records.len().saturating_add(usize::try_from(self.rejected).unwrap_or(usize::MAX))
    }

    /// What a user should know of what is missing or could not be read; `None` if that is nothing.
    #[must_use]
    pub fn complaint(&self, base_id: &str) -> Option<String> {
        let part = self.partial.as_ref().map(|why| {
            let why = if why.is_empty() { String::new() } else { format!(": {why}") };
            format!("the collector gave only a part of trace {base_id}{why}")
        });
        let rejected = self.first_rejected.as_ref().map(|first| {
            let noun = if self.rejected == 1 { "record" } else { "records" };
            format!("{} {noun} of trace {base_id} could not be read; the first: {first}", self.rejected)
        });
        let both: Vec<String> = part.into_iter().chain(rejected).collect();
        (!both.is_empty()).then(|| both.join("; "))
    }
}

impl From<Vec<TraceRecord>> for CollectorTrace {
    fn from(records: Vec<TraceRecord>) -> Self {
        Self { records, ..Self::default() }
    }
}
