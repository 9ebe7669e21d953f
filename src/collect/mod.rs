//! Rank 8: from trace ids to trace trees, after the load.
//!
//! Nothing here may run while the load does. A collector that is down, slow or wrong costs a note,
//! never the run and never the ids.

pub mod files;
pub mod publish;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use uuid::Uuid;

use crate::base::masking::{mask_json, masked};
use crate::base::secret::Secret;
use crate::osprofiler::driver::{Collector, DriverError, Stored};
use crate::osprofiler::record::Record;
use crate::osprofiler::report::TraceTree;

/// Traces asked for at once.
const PARALLEL_MAX: usize = 8;
const POLL_EVERY: Duration = Duration::from_millis(250);

/// What to fetch.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// The trace.
    pub id: Uuid,
    /// Whether its iteration ended so shortly before that points may still be under way.
    pub recent: bool,
}

/// What the collector gave.
#[derive(Debug, Default)]
pub struct Fetched {
    /// The records of each trace that was answered for; of an absent one none.
    pub records: HashMap<Uuid, Vec<Record>>,
    /// How many records of a trace could not be read, where some could not.
    pub unreadable: HashMap<Uuid, u64>,
    /// The collector's last error, if it cost a trace; or which records could not be read.
    pub error: Option<String>,
}

/// Asks the collector whether it answers.
///
/// # Errors
/// Why not, with the host but without its password.
pub async fn probe(connection: &Secret) -> Result<(), String> {
    let collector = Collector::connect(connection).await.map_err(|error| error.chain())?;
    collector.probe().await.map_err(|error| error.chain())
}

/// Fetches traces, some at once; `progress` is told how many are here. A trace is settled when it is complete and, if it is recent, two looks in a row
/// find the same number of records; the others are taken as they are after `settle`. When `enough` ends, what was
/// fetched until then is kept.
pub async fn fetch(
    connection: &Secret,
    wanted: &[Wanted],
    settle: Duration,
    progress: &mut dyn FnMut(usize),
    enough: impl Future<Output = ()>,
) -> Fetched {
    let mut fetched = Fetched::default();
    let mut rejected = None;
    let work = async {
        match Collector::connect(connection).await {
            Ok(collector) => {
                let mut look = Look { settle, fetched: &mut fetched, rejected: &mut rejected, progress };
                look.at(&collector, wanted).await;
            }
            Err(error) => fetched.error = Some(error.chain()),
        }
    };
    tokio::select! {
        () = work => {}
        () = enough => {}
    }
    if fetched.records.len() == wanted.len() {
        // What was kept of a trace may still not be all of it.
        fetched.error = rejected;
    }
    fetched
}

/// A look at all traces, until each has settled.
struct Look<'a> {
    settle: Duration,
    fetched: &'a mut Fetched,
    /// Which records could not be read.
    rejected: &'a mut Option<String>,
    progress: &'a mut dyn FnMut(usize),
}

impl Look<'_> {
    async fn at(&mut self, collector: &Collector, wanted: &[Wanted]) {
        let mut waiting = wanted.to_vec();
        let mut deadline = None;
        while !waiting.is_empty() {
            let mut unsettled = Vec::new();
            let mut answers = Answers::start(collector, waiting);
            while let Some((wanted, answer)) = answers.next().await {
                match answer {
                    Ok(stored) => {
                        if !self.take(wanted, stored) {
                            unsettled.push(wanted);
                        }
                    }
                    Err(error) => {
                        if error.is_transient() {
                            unsettled.push(wanted);
                        }
                        // What does not answer at all would cost the same wait for each of the others.
                        if matches!(error, DriverError::Connect { .. } | DriverError::Timeout { .. }) {
                            unsettled.extend(answers.give_up());
                        }
                        self.fetched.error = Some(error.chain());
                    }
                }
                (self.progress)(self.fetched.records.len());
            }
            // Time to settle begins when all have been asked for once.
            let deadline = *deadline.get_or_insert_with(|| Instant::now() + self.settle);
            if Instant::now() >= deadline {
                return;
            }
            waiting = unsettled;
            if !waiting.is_empty() {
                tokio::time::sleep(POLL_EVERY).await;
            }
        }
    }

    /// Keeps what was answered; true when the trace has settled.
    fn take(&mut self, wanted: Wanted, stored: Stored) -> bool {
        if let Some(complaint) = stored.complaint(&wanted.id.to_string()) {
            *self.rejected = Some(complaint);
        }
        if stored.rejected > 0 {
            self.fetched.unreadable.insert(wanted.id, stored.rejected);
        }
        let mut records = stored.records;
        // A service may have recorded what it was sent.
        for record in &mut records {
            mask_record(record);
        }
        let complete = !records.is_empty() && TraceTree::build(&records).incomplete() == 0;
        let len = records.len();
        let before = self.fetched.records.insert(wanted.id, records).map(|before| before.len());
        complete && (before == Some(len) || !wanted.recent)
    }
}

fn mask_record(record: &mut Record) {
    if let Cow::Owned(name) = masked(&record.name) {
        record.name = name;
    }
    record.info.values_mut().for_each(mask_json);
}

type Answer = Result<Stored, DriverError>;

/// Questions under way, [`PARALLEL_MAX`] at once.
struct Answers {
    collector: Arc<Collector>,
    waiting: std::vec::IntoIter<Wanted>,
    asked: JoinSet<(Wanted, Answer)>,
}

impl Answers {
    fn start(collector: &Collector, wanted: Vec<Wanted>) -> Self {
        let mut answers = Self {
            collector: Arc::new(collector.clone()),
            waiting: wanted.into_iter(),
            asked: JoinSet::new(),
        };
        (0..PARALLEL_MAX).for_each(|_| answers.ask());
        answers
    }

    fn ask(&mut self) {
        if let Some(wanted) = self.waiting.next() {
            let collector = Arc::clone(&self.collector);
            self.asked.spawn(async move {
                let answer = collector.stored(&wanted.id.to_string()).await;
                (wanted, answer)
            });
        }
    }

    async fn next(&mut self) -> Option<(Wanted, Answer)> {
        loop {
            match self.asked.join_next().await? {
                Ok(answered) => {
                    self.ask();
                    return Some(answered);
                }
                // A panic in a driver costs one trace.
                Err(_) => self.ask(),
            }
        }
    }

    /// Asks no more; gives what was not asked yet.
    fn give_up(&mut self) -> Vec<Wanted> {
        std::mem::replace(&mut self.waiting, Vec::new().into_iter()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A service may record what it was sent: a secret does not get into a stored trace that way.
    #[test]
    fn secrets_in_records_are_hidden() {
        crate::base::masking::hide("c0llected/secret");
        let record = json!({"name": "wsgi c0llected/secret-start", "base_id": "b", "trace_id": "t", "parent_id": "b",
            "timestamp": "2026-11-20T22:52:01.123456", "info": {"host": "h",
            "request": {"query": "key=c0llected%2Fsecret&x=1", "headers": ["c0llected/secret", 1]}}});
        let mut record: Record = serde_json::from_value(record).unwrap();
        mask_record(&mut record);
        assert_eq!(record.name, "wsgi ***-start");
        let info = json!({"host": "h", "request": {"query": "key=***&x=1", "headers": ["***", 1]}});
        assert_eq!(serde_json::Value::Object(record.info), info);
    }
}
