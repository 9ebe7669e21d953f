//! What virtual users do around their iterations: a table and a sentence for every kind of report.

use super::document::{Cell, Column, DocumentTable, RowRole};
use super::tags::{PERCENTILES, times};
use super::words;
use results::model::{UserActivity, Workload};

fn parts(workload: &Workload) -> impl Iterator<Item = (&'static str, &UserActivity)> {
    let named = [("user_setup", &workload.user_setup), ("user_teardown", &workload.user_teardown)];
    named.into_iter().filter_map(|(name, part)| Some((name, part.as_ref()?)))
}

/// The table; `None` if users do nothing around their iterations.
pub(super) fn table(workload: &Workload) -> Option<DocumentTable> {
    parts(workload).next()?;
    let mut columns = vec![Column::name("each user"), Column::figure("count"), Column::figure("failed")];
    columns.extend(PERCENTILES.iter().map(|(title, _)| Column::figure(title)));
    let actions = |part: &'_ UserActivity| {
        part.actions.iter().map(|action| action.service_time.clone()).collect::<Vec<_>>()
    };
    let all: Vec<_> = parts(workload)
        .flat_map(|(_, part)| std::iter::once(part.service_time.clone()).chain(actions(part)))
        .collect();
    columns.push(Column::figure(words::max_title(all.iter())));
    let mut table = DocumentTable::new(columns);
    for (name, part) in parts(workload) {
        let counts =
            |counts: results::model::Counts| [counts.total, counts.failed].map(|n| Cell::from(n.to_string()));
        let cells = [Cell::from(name)].into_iter().chain(counts(part.users));
        table.part(RowRole::Whole, cells.chain(times(&part.service_time)).collect());
        for action in &part.actions {
            let cells = [Cell::from(action.name.as_str())].into_iter().chain(counts(action.requests));
            table.part(RowRole::Step, cells.chain(times(&action.service_time)).collect());
        }
    }
    Some(table)
}

/// What failed after the iterations; what failed before them is among the iterations' faults.
pub(super) fn sentence(workload: &Workload) -> Option<String> {
    let part = workload.user_teardown.as_ref().filter(|part| part.users.failed > 0)?;
    let first = part.errors.first().map(|error| {
        let action = error.action.as_ref().map_or_else(String::new, |action| format!("{action}: "));
        format!(": {action}{}", error.message)
    });
    let (failed, total) = (part.users.failed, part.users.total);
    Some(format!("user_teardown failed for {failed} of {total} users{}", first.unwrap_or_default()))
}
