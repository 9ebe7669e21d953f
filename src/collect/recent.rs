//! The newest trace of a collector, to tell why one trace is missing.

use base::secret::Secret;
use osprofiler::driver::Collector;
use osprofiler::summary::TraceQuery;

/// The time of the newest trace, in the format of records (UTC); `None` if the collector holds none.
///
/// # Errors
/// It does not answer, or cannot list traces.
pub async fn newest(connection: &Secret) -> Result<Option<String>, String> {
    let collector = Collector::connect_to_read(connection).await.map_err(|error| error.chain())?;
    let query = TraceQuery { errors_only: false, limit: 1 };
    let listed = collector.list(&query).await.map_err(|error| error.chain())?;
    Ok(listed.into_iter().next().map(|trace| trace.timestamp))
}
