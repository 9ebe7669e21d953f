//! Which traces a table holds: those that were written to last, with what their rows tell.

use std::collections::HashMap;

use tokio::time::Instant;

use super::super::{DriverError, LIST_TIMEOUT, TraceQuery, TraceSummary};
use super::{SqlCollector, rows};
use crate::record::point_name;

/// Traces that are looked at for failed ones.
const SEARCHED_MAX: usize = 10_000;
/// Traces for each answer.
const PAGE_LEN: usize = 25;

impl SqlCollector {
    pub(super) async fn list(&self, query: &TraceQuery) -> Result<Vec<TraceSummary>, DriverError> {
        let deadline = Instant::now() + LIST_TIMEOUT;
        let wanted = if query.errors_only { SEARCHED_MAX } else { query.limit.min(SEARCHED_MAX) };
        let newest = self.dialect.newest(i64::try_from(wanted).unwrap_or(i64::MAX));
        let base_ids: Vec<String> =
            self.rows(newest).await?.into_iter().filter_map(|mut row| row.first_mut()?.take()).collect();
        let mut traces = Vec::new();
        for page in base_ids.chunks(PAGE_LEN) {
            let found = self.summaries(page).await?;
            traces.extend(found.into_iter().filter(|trace| !query.errors_only || trace.failed == Some(true)));
            if traces.len() >= query.limit {
                break;
            }
            if Instant::now() >= deadline {
                return Err(DriverError::Timeout { target: self.target.clone(), limit: LIST_TIMEOUT });
            }
        }
        traces.sort_by(|a, b| (&b.timestamp, &a.base_id).cmp(&(&a.timestamp, &b.base_id)));
        traces.truncate(query.limit);
        Ok(traces)
    }

    async fn summaries(&self, base_ids: &[String]) -> Result<Vec<TraceSummary>, DriverError> {
        let found = self.rows(self.dialect.summaries(base_ids)).await?;
        let first_ids: Vec<i64> = found.iter().map(|row| rows::number(row, 4)).collect();
        let names: HashMap<i64, String> = self
            .rows(self.dialect.names(&first_ids))
            .await?
            .into_iter()
            .filter_map(|mut row| Some((rows::number(&row, 0), row.get_mut(1)?.take()?)))
            .collect();
        let summaries = found.into_iter().zip(first_ids).filter_map(|(mut row, first_id)| {
            Some(TraceSummary {
                base_id: row.first_mut()?.take()?,
                timestamp: row.get_mut(1)?.take().unwrap_or_default(),
                records: u64::try_from(rows::number(&row, 2)).ok(),
                name: names.get(&first_id).map(|name| point_name(name).to_owned()),
                failed: Some(rows::number(&row, 3) > 0),
            })
        });
        Ok(summaries.collect())
    }
}
