//! Fetches traces by their ids after the load.
//!
//! Nothing here may run while the load runs. A collector that is down, slow or wrong costs a note,
//! never the run and never the ids.

pub mod files;
pub mod profiles;
pub mod publish;
pub mod recent;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use uuid::Uuid;

use base::masking::{mask_json, masked};
use base::secret::Secret;
use osprofiler::driver::{Collector, CollectorTrace, DriverError};
use osprofiler::info::SharedInfo;
use osprofiler::record::{TraceRecord, share_with};
use osprofiler::report::count_points;
use osprofiler::sharing::TextInterner;
use results::fetched::FetchedRecords;

/// The number of traces fetched at the same time.
const PARALLEL_MAX: usize = 8;
const POLL_EVERY: Duration = Duration::from_millis(250);

/// A trace to fetch.
#[derive(Clone, Copy, Debug)]
pub struct FetchTarget {
    /// The trace's id.
    pub id: Uuid,
    /// Whether its iteration ended so recently that points may still be on their way.
    pub recent: bool,
}

/// Checks that the collector answers. Connects as the services of the run do: a SQLite file that they will write to is
/// created.
///
/// # Errors
/// Fails with the reason and the host, without the password.
pub async fn probe(connection: &Secret) -> Result<(), String> {
    let collector = Collector::connect(connection).await.map_err(|error| error.chain())?;
    let answer = collector.probe().await.map_err(|error| error.chain());
    collector.close().await;
    answer
}

/// Fetches traces, several at the same time, and reports their number to `progress`. A trace is settled when it is
/// complete; a recent trace must also have the same number of records in two fetches in a row. After `settle`, traces
/// that have not settled are kept as they are. When `enough` completes, fetching stops and keeps everything so far.
pub async fn fetch(
    connection: &Secret,
    wanted: &[FetchTarget],
    settle: Duration,
    progress: &mut dyn FnMut(usize),
    enough: impl Future<Output = ()>,
) -> FetchedRecords {
    let mut fetched = FetchedRecords::default();
    let (mut rejected, mut connected) = (None, None);
    let work = async {
        match Collector::connect_to_read(connection).await {
            Ok(collector) => {
                let (fetched, rejected) = (&mut fetched, &mut rejected);
                let sharing = TextInterner::default();
                let mut fetcher = Fetcher { settle, fetched, rejected, progress, sharing };
                fetcher.fetch(connected.insert(collector), wanted).await;
            }
            Err(error) => fetched.error = Some(error.chain()),
        }
    };
    tokio::select! {
        () = work => {}
        () = enough => {}
    }
    if let Some(collector) = connected {
        collector.close().await;
    }
    if fetched.records.len() == wanted.len() {
        // Even if every trace was answered, some records may be unreadable.
        fetched.error = rejected;
    }
    fetched
}

/// Fetches all traces repeatedly until each has settled.
struct Fetcher<'a> {
    settle: Duration,
    fetched: &'a mut FetchedRecords,
    /// The last complaint about unreadable records.
    rejected: &'a mut Option<String>,
    progress: &'a mut dyn FnMut(usize),
    /// The infos of all traces so far.
    sharing: TextInterner,
}

impl Fetcher<'_> {
    async fn fetch(&mut self, collector: &Collector, wanted: &[FetchTarget]) {
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
                        // A collector that does not answer would cost the same wait for every other trace.
                        if matches!(error, DriverError::Connect { .. } | DriverError::Timeout { .. }) {
                            unsettled.extend(answers.give_up());
                        }
                        self.fetched.error = Some(error.chain());
                    }
                }
                (self.progress)(self.fetched.records.len());
            }
            // The time to settle begins after the first request for every trace.
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

    /// Keeps the answer. Returns true if the trace has settled.
    fn take(&mut self, wanted: FetchTarget, stored: CollectorTrace) -> bool {
        if let Some(complaint) = stored.complaint(&wanted.id.to_string()) {
            *self.rejected = Some(complaint);
        }
        // Each answer replaces the one before.
        match stored.rejected {
            0 => drop(self.fetched.unreadable.remove(&wanted.id)),
            rejected => drop(self.fetched.unreadable.insert(wanted.id, rejected)),
        }
        match stored.partial {
            Some(why) => drop(self.fetched.partial.insert(wanted.id, why)),
            None => drop(self.fetched.partial.remove(&wanted.id)),
        }
        let mut records = stored.records;
        share_with(&mut records, &mut self.sharing);
        // The parents of services' points are the client's, which are not here.
        let complete = !records.is_empty()
            && count_points(&records, |_| true).incomplete == 0
            && !self.fetched.partial.contains_key(&wanted.id);
        let len = records.len();
        let before = self.fetched.records.insert(wanted.id, records).map(|before| before.len());
        complete && (before == Some(len) || !wanted.recent)
    }
}

/// Hides known secrets in a record, wherever it came from.
pub fn mask_record(record: &mut TraceRecord) {
    if let Cow::Owned(name) = masked(&record.name) {
        record.name = name.into();
    }
    // Without escapes, a secret stands in the text as it is.
    let is_plain = |text: &str| !text.contains('\\') && matches!(masked(text), Cow::Borrowed(_));
    if !record.info.text().is_some_and(is_plain) {
        let mut info = record.info.read().into_owned();
        info.values_mut().for_each(mask_json);
        record.info = SharedInfo::as_text(&info);
    }
}

type Answer = Result<CollectorTrace, DriverError>;

/// Requests in progress, at most [`PARALLEL_MAX`] at the same time.
struct Answers {
    collector: Arc<Collector>,
    waiting: std::vec::IntoIter<FetchTarget>,
    asked: JoinSet<(FetchTarget, Answer)>,
}

impl Answers {
    fn start(collector: &Collector, wanted: Vec<FetchTarget>) -> Self {
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
                let mut answer = collector.stored(&wanted.id.to_string()).await;
                // A service may have recorded a secret that it received.
                answer.iter_mut().flat_map(|stored| &mut stored.records).for_each(mask_record);
                (wanted, answer)
            });
        }
    }

    async fn next(&mut self) -> Option<(FetchTarget, Answer)> {
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

    /// Sends no more requests. Returns the traces that were not requested yet.
    fn give_up(&mut self) -> Vec<FetchTarget> {
        std::mem::replace(&mut self.waiting, Vec::new().into_iter()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A service may record a secret that it received; the stored trace must not contain it.
    #[test]
    fn secrets_in_records_are_hidden() {
        base::masking::hide("c0llected/secret");
        let record = json!({"name": "wsgi c0llected/secret-start", "base_id": "b", "trace_id": "t", "parent_id": "b",
            "timestamp": "2026-11-20T22:52:01.123456", "info": {"host": "h",
            "request": {"query": "key=c0llected%2Fsecret&x=1", "headers": ["c0llected/secret", 1]}}});
        let mut record: TraceRecord = serde_json::from_value(record).unwrap();
        mask_record(&mut record);
        assert_eq!(record.name, "wsgi ***-start");
        let info = json!({"host": "h", "request": {"query": "key=***&x=1", "headers": ["***", 1]}});
        assert_eq!(serde_json::Value::Object((*record.info).clone()), info);
    }
}
