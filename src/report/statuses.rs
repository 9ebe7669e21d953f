//! How often each status was answered: a table where there is more than one.

use std::collections::BTreeMap;

use results::model::Workload;

use super::document::{Cell, Column, DocumentTable, RowRole};
use super::texts::percent;
use super::words;

/// The table; `None` if there is one status or none.
pub(super) fn table(workload: &Workload) -> Option<DocumentTable> {
    let mut counts: BTreeMap<u16, (u64, Vec<&str>)> = BTreeMap::new();
    for action in &workload.actions {
        for (status, count) in &action.status {
            let (sum, names) = counts.entry(*status).or_default();
            *sum += count;
            names.push(&action.name);
        }
    }
    if counts.len() < 2 {
        return None;
    }
    let all: u64 = counts.values().map(|(count, _)| count).sum();
    let several = workload.actions.len() > 1;
    let mut columns = vec![Column::words("status"), Column::figure("answers"), Column::figure("share")];
    columns.extend(several.then(|| Column::name("actions")));
    let mut table = DocumentTable::new(columns);
    for (status, (count, names)) in counts {
        let share = percent(count as f64 * 100.0 / all.max(1) as f64);
        let mut cells =
            vec![Cell::from(words::status(status)), Cell::from(count.to_string()), Cell::from(share)];
        cells.extend(several.then(|| Cell::from(names.join(", "))));
        table.part(RowRole::Whole, cells);
    }
    Some(table)
}
