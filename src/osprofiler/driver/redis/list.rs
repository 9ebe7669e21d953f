//! Which traces a redis holds.
//!
//! redis keeps no order among keys, so the newest traces are found by a walk over all keys and a look
//! at the oldest record of each trace. All of it is bounded: of a redis that holds more than
//! [`TRACES_MAX`] traces, the newest among those that the walk came by are listed. OSProfiler's own
//! `trace list` reads the second newest record and leaves out traces of one record; this one does not.

use std::collections::{BTreeSet, HashMap};

use redis::RedisResult;
use tokio::time::Instant;

use super::super::{DriverError, LIST_TIMEOUT, TraceQuery, TraceSummary};
use super::legacy::{self, LegacyKey};
use super::{ERROR_PREFIX, KEY_PREFIX, MEMORY_USAGE_MAX, RedisCollector, tells_failure};
use crate::record::{TraceRecord, point_name};

/// Traces that are looked at.
const TRACES_MAX: usize = 100_000;
/// Keys for each answer.
const PAGE_LEN: usize = 200;
/// Traces without a mark whose records are searched for failures.
const SEARCHED_MAX: usize = 1_000;
/// Bytes that such a search may read.
const SEARCHED_BYTES_MAX: usize = 256 * 1024 * 1024;
/// Records for each answer of such a search.
const SEARCH_PAGE_LEN: usize = 500;

impl RedisCollector {
    pub(super) async fn list(&self, query: &TraceQuery) -> Result<Vec<TraceSummary>, DriverError> {
        let deadline = Instant::now() + LIST_TIMEOUT;
        let failed = self.marked_traces().await?;
        let mut traces = self.legacy_traces().await?;
        for page in self.keys(KEY_PREFIX).await?.chunks(PAGE_LEN) {
            for found in self.summaries(page).await? {
                merge(&mut traces, found);
            }
            self.in_time(deadline)?;
        }
        let mut traces: Vec<TraceSummary> = traces.into_values().collect();
        traces.sort_by(|a, b| (&b.timestamp, &a.base_id).cmp(&(&a.timestamp, &b.base_id)));
        for trace in &mut traces {
            trace.failed = failed.contains(trace.base_id.as_bytes()).then_some(true);
        }
        if query.errors_only {
            traces = self.failed_ones(traces, query.limit, deadline).await?;
        }
        traces.truncate(query.limit);
        Ok(traces)
    }

    /// The base_ids that `filter_error_trace` marked.
    async fn marked_traces(&self) -> Result<BTreeSet<Vec<u8>>, DriverError> {
        self.keys(ERROR_PREFIX).await.map(|ids| ids.into_iter().collect())
    }

    /// What follows `prefix` in the keys that begin with it, each once.
    async fn keys(&self, prefix: &str) -> Result<Vec<Vec<u8>>, DriverError> {
        let pattern = format!("{prefix}*");
        let mut keys = BTreeSet::new();
        let mut cursor = 0;
        for _ in 0..legacy::STEPS_MAX {
            let (next, found) = self.scan(cursor, &pattern).await?;
            keys.extend(
                found.into_iter().filter_map(|key| Some(key.strip_prefix(prefix.as_bytes())?.to_vec())),
            );
            cursor = next;
            if cursor == 0 || keys.len() >= TRACES_MAX {
                break;
            }
        }
        Ok(keys.into_iter().take(TRACES_MAX).collect())
    }

    async fn legacy_traces(&self) -> Result<HashMap<String, TraceSummary>, DriverError> {
        let mut traces = HashMap::new();
        for rest in self.keys(legacy::PREFIX).await? {
            let key = [legacy::PREFIX.as_bytes(), &rest].concat();
            let Some(key) = LegacyKey::parse(&key) else { continue };
            let found = TraceSummary {
                base_id: key.base_id.to_owned(),
                timestamp: key.timestamp.to_owned(),
                records: Some(1),
                name: None,
                failed: None,
            };
            merge(&mut traces, found);
        }
        Ok(traces)
    }

    /// The traces of these ids; those whose list is none are left out.
    async fn summaries(&self, ids: &[Vec<u8>]) -> Result<Vec<TraceSummary>, DriverError> {
        let keys: Vec<Vec<u8>> = ids.iter().map(|id| [KEY_PREFIX.as_bytes(), id].concat()).collect();
        let mut sizes = redis::pipe();
        sizes.ignore_errors();
        for key in &keys {
            sizes.cmd("LLEN").arg(key).cmd("MEMORY").arg("USAGE").arg(key).arg("SAMPLES").arg(1);
        }
        let sizes: Vec<RedisResult<Option<u64>>> = self.send("read from", &sizes).await?;
        let mut summaries = Vec::with_capacity(ids.len());
        let (mut wanted, mut bytes) = (Vec::new(), 0);
        for ((id, key), size) in ids.iter().zip(&keys).zip(sizes.chunks(2)) {
            // Another type of key, or one that is gone.
            let (Ok(Some(records)), Ok(id)) = (&size[0], std::str::from_utf8(id)) else { continue };
            summaries.push(TraceSummary {
                base_id: id.to_owned(),
                timestamp: String::new(),
                records: Some(*records),
                name: None,
                failed: None,
            });
            // The usage of a list bounds that of its oldest record.
            let usage = size[1].as_ref().map_or(0, |usage| usage.unwrap_or(0));
            if usage > MEMORY_USAGE_MAX {
                continue;
            }
            if bytes + usage > MEMORY_USAGE_MAX {
                self.fill(&mut summaries, &wanted).await?;
                wanted.clear();
                bytes = 0;
            }
            bytes += usage;
            wanted.push((summaries.len() - 1, key));
        }
        self.fill(&mut summaries, &wanted).await?;
        Ok(summaries)
    }

    /// Reads the oldest records of these lists.
    async fn fill(
        &self,
        summaries: &mut [TraceSummary],
        wanted: &[(usize, &Vec<u8>)],
    ) -> Result<(), DriverError> {
        if wanted.is_empty() {
            return Ok(());
        }
        let mut oldest = redis::pipe();
        oldest.ignore_errors();
        for (_, key) in wanted {
            oldest.cmd("LINDEX").arg(*key).arg(-1);
        }
        let oldest: Vec<RedisResult<Option<Vec<u8>>>> = self.send("read from", &oldest).await?;
        for ((index, _), json) in wanted.iter().zip(oldest) {
            let Ok(Some(json)) = json else { continue };
            let Ok(record) = TraceRecord::decode(&json) else { continue };
            summaries[*index].name = Some(point_name(&record.name).to_owned());
            summaries[*index].timestamp = record.timestamp.to_string();
        }
        Ok(())
    }

    /// The newest failed ones: marked, or with a failure in the records of one of the newest traces.
    async fn failed_ones(
        &self,
        traces: Vec<TraceSummary>,
        limit: usize,
        deadline: Instant,
    ) -> Result<Vec<TraceSummary>, DriverError> {
        let mut failed = Vec::new();
        let (mut searched, mut bytes) = (0, 0);
        for mut trace in traces {
            if failed.len() >= limit {
                break;
            }
            if trace.failed.is_none() && searched < SEARCHED_MAX && bytes < SEARCHED_BYTES_MAX {
                searched += 1;
                trace.failed = self.search_failure(&trace, &mut bytes).await?;
                self.in_time(deadline)?;
            }
            if trace.failed == Some(true) {
                failed.push(trace);
            }
        }
        Ok(failed)
    }

    async fn search_failure(
        &self,
        trace: &TraceSummary,
        bytes: &mut usize,
    ) -> Result<Option<bool>, DriverError> {
        if self.memory_usage(&trace.base_id).await? > MEMORY_USAGE_MAX {
            return Ok(None);
        }
        let len = usize::try_from(trace.records.unwrap_or(0)).unwrap_or(usize::MAX);
        let mut first = 0;
        while first < len && *bytes < SEARCHED_BYTES_MAX {
            let mut range = redis::cmd("LRANGE");
            range.arg(format!("{KEY_PREFIX}{}", trace.base_id)).arg(first).arg(first + SEARCH_PAGE_LEN - 1);
            let page: Vec<Vec<u8>> = self.ask(&range).await?;
            *bytes += page.iter().map(Vec::len).sum::<usize>();
            if page.iter().any(|json| tells_failure(json)) {
                return Ok(Some(true));
            }
            if page.is_empty() {
                break;
            }
            first += page.len();
        }
        Ok(Some(false))
    }

    fn in_time(&self, deadline: Instant) -> Result<(), DriverError> {
        if Instant::now() < deadline {
            return Ok(());
        }
        Err(DriverError::Timeout { target: self.target().to_owned(), limit: LIST_TIMEOUT })
    }
}

/// A trace may have records in both formats.
fn merge(traces: &mut HashMap<String, TraceSummary>, found: TraceSummary) {
    let Some(known) = traces.get_mut(&found.base_id) else {
        traces.insert(found.base_id.clone(), found);
        return;
    };
    known.records = Some(known.records.unwrap_or(0) + found.records.unwrap_or(0));
    let older =
        !found.timestamp.is_empty() && (known.timestamp.is_empty() || found.timestamp < known.timestamp);
    if older {
        known.timestamp = found.timestamp;
        known.name = found.name;
    }
}
