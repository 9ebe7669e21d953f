//! Writes the client's points to the collector, so that its other readers (`osprofiler trace show`, Jaeger, Tempo)
//! show the whole tree.
//!
//! This happens after the load and once per run: building a report again must not publish again. A collector that
//! refuses the points costs a warning, never the run.

use std::time::Duration;

use base::secret::Secret;
use osprofiler::driver::Collector;
use osprofiler::notifier::{Notifier as _, QueueNotifier};
use osprofiler::record::TraceRecord;

/// The most records in the queue.
const WAITING_MAX: usize = 16_384;
/// The time that a collector may take for a full queue.
const FLUSH_LIMIT: Duration = Duration::from_secs(10);

/// The result of publishing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PublicationOutcome {
    /// The number of records that the collector accepted.
    pub written: u64,
    /// The number of other records.
    pub unwritten: u64,
    /// Why they were not written.
    pub error: Option<String>,
}

/// Writes the records of several traces. When `enough` completes, publishing stops and keeps everything written so far.
pub async fn publish(
    connection: &Secret,
    traces: Vec<Vec<TraceRecord>>,
    enough: impl Future<Output = ()>,
) -> PublicationOutcome {
    let total: u64 = traces.iter().map(|records| records.len() as u64).sum();
    let collector = match Collector::connect(connection).await {
        Ok(collector) => collector,
        Err(error) => return PublicationOutcome { written: 0, unwritten: total, error: Some(error.chain()) },
    };
    let queue = QueueNotifier::start(collector, WAITING_MAX);
    let write = async {
        let mut waiting = 0;
        for records in traces {
            waiting += records.len();
            if waiting > WAITING_MAX {
                // A collector that did not accept these would not accept the others.
                if !queue.flush(FLUSH_LIMIT).await || queue.dropped() > 0 {
                    return;
                }
                waiting = records.len();
            }
            records.into_iter().for_each(|record| queue.notify(record));
        }
        queue.flush(FLUSH_LIMIT).await;
    };
    tokio::select! {
        () = write => {}
        () = enough => {}
    }
    let report = queue.shutdown().await;
    let unwritten = total.saturating_sub(report.written);
    PublicationOutcome {
        written: report.written,
        unwritten,
        error: report.last_error.filter(|_| unwritten > 0),
    }
}
