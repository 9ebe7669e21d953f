//! The figures of each tag and value of a workload's actions, as a table for every kind of report.

use super::document::{Cell, Column, DocumentTable, RowRole};
use super::words::{self, duration};
use results::model::{Distribution, TaggedRequests, Workload};
use terms::tags;

/// The percentiles of a table.
pub(super) const PERCENTILES: [(&str, f64); 4] = [("p50", 50.0), ("p90", 90.0), ("p95", 95.0), ("p99", 99.0)];

/// The table; `None` if no action has tags.
pub(super) fn table(workload: &Workload) -> Option<DocumentTable> {
    if workload.tags.is_empty() {
        return None;
    }
    let mut columns = vec![Column::name("tag"), Column::figure("count"), Column::figure("failed")];
    columns.extend(PERCENTILES.iter().map(|(title, _)| Column::figure(title)));
    let all = workload.tags.iter().flat_map(|tagged| [&tagged.service_time, &tagged.response_time]);
    columns.push(Column::figure(words::max_title(all)));
    let mut table = DocumentTable::new(columns);
    let waited = words::waited(workload);
    for TaggedRequests { tag, value, requests, service_time, response_time } in &workload.tags {
        let counts = [requests.total, requests.failed].map(|count| Cell::from(count.to_string()));
        let cells = [Cell::from(tags::text(tag, value))].into_iter().chain(counts);
        table.part(RowRole::Whole, cells.chain(times(service_time)).collect());
        if waited {
            let cells = [Cell::from("from due"), Cell::empty(), Cell::empty()];
            table.part(RowRole::Further, cells.into_iter().chain(times(response_time)).collect());
        }
    }
    Some(table)
}

pub(super) fn times(times: &Distribution) -> impl Iterator<Item = Cell> {
    let at = |wanted: f64| words::percentile(times, wanted, "-");
    let longest = if times.count == 0 { "-".to_owned() } else { duration(times.max_ms) };
    PERCENTILES.iter().map(move |(_, wanted)| Cell::from(at(*wanted))).chain([longest.into()])
}
