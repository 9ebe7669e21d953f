//! The client's own points into the collector, so that its other readers see the whole tree: `osprofiler trace show`,
//! Jaeger, Tempo.
//!
//! After the load, and once a run: a report that is made again must not publish again. A collector that refuses costs a
//! warning, never the run.

use std::time::Duration;

use crate::base::secret::Secret;
use crate::osprofiler::driver::Collector;
use crate::osprofiler::notifier::{Notifier as _, QueueNotifier};
use crate::osprofiler::record::Record;

/// Records that wait at once.
const WAITING_MAX: usize = 16_384;
/// How long a collector may take for those.
const FLUSH_LIMIT: Duration = Duration::from_secs(10);

/// What became of the records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// How many the collector took.
    pub written: u64,
    /// How many it did not.
    pub left: u64,
    /// Why not.
    pub error: Option<String>,
}

/// Writes the records of some traces. When `enough` ends, what was written until then stays.
pub async fn publish(
    connection: &Secret,
    traces: Vec<Vec<Record>>,
    enough: impl Future<Output = ()>,
) -> Published {
    let total: u64 = traces.iter().map(|records| records.len() as u64).sum();
    let collector = match Collector::connect(connection).await {
        Ok(collector) => collector,
        Err(error) => return Published { written: 0, left: total, error: Some(error.chain()) },
    };
    let queue = QueueNotifier::start(collector, WAITING_MAX);
    let write = async {
        let mut waiting = 0;
        for records in traces {
            waiting += records.len();
            if waiting > WAITING_MAX {
                // One that does not take these would not take the others.
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
    let left = total.saturating_sub(report.written);
    Published { written: report.written, left, error: report.last_error.filter(|_| left > 0) }
}
