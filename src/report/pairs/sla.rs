//! The scenario's own criteria in a comparison by paired rounds.

use super::PairDocument;
use crate::document::{Badge, Column, DocumentTable, StyledLine};
use results::model::{Criterion, Outcome, Severity};
use verdict::paired::{SlaRow, SlaSide};

/// What the table means.
pub(crate) const HINT: &str = "Each round is judged alone; FAIL and PASS need more rounds than chance explains; only a FAIL of B counts";

/// Sentences on the criteria that B fails.
pub(super) fn explanation(paired: &PairDocument) -> Vec<StyledLine> {
    let failing = paired.sla.iter().filter(|row| row.b.outcome == Outcome::Fail);
    failing
        .map(|row| {
            StyledLine::default().code(row.condition.as_str()).text(format!(": {}.", words(row))).done()
        })
        .collect()
}

fn words(row: &SlaRow) -> String {
    let SlaSide { rounds, failed, observed, .. } = &row.b;
    let new = match row.a.outcome {
        Outcome::Fail => "and so does A",
        Outcome::Pass => "and A passes",
        _ => "and A is not clear",
    };
    format!(
        "B fails the scenario's criterion in {failed} of {rounds} rounds ({observed}), {new} ({} of {} rounds fail){}",
        row.a.failed,
        row.a.rounds,
        if row.severity == Severity::Warn { "; it only warns" } else { "" }
    )
}

/// One outcome for each criterion.
pub(super) fn criteria(paired: &PairDocument) -> Vec<Criterion> {
    let of = |row: &SlaRow| Criterion {
        workload: row.workload.clone(),
        criterion: row.criterion.clone(),
        condition: format!("B: {}", row.condition),
        observed: match row.b.outcome {
            Outcome::Fail => words(row),
            _ => format!("{} of {} rounds pass, {} fail", row.b.passed, row.b.rounds, row.b.failed),
        },
        outcome: row.b.outcome,
        severity: row.severity,
        reason: None,
        measured: None,
        aborted: false,
        samples: row.b.rounds,
        trace_ids: row.b.trace_ids.clone(),
    };
    // Only a FAIL counts.
    paired.sla.iter().filter(|row| matches!(row.b.outcome, Outcome::Fail | Outcome::Pass)).map(of).collect()
}

/// The outcome of a side: what only warns is no FAIL.
fn side(side: &SlaSide, severity: Severity) -> Badge {
    match severity {
        Severity::Fail => Badge::verdict(side.outcome),
        Severity::Warn => Badge::judged(side.outcome, severity),
    }
}

/// One row for each criterion.
pub(crate) fn table(paired: &PairDocument) -> DocumentTable {
    let mut table = DocumentTable::new(vec![
        Column::name(""),
        Column::figure("A fails"),
        Column::words("A"),
        Column::figure("B fails"),
        Column::words("B"),
    ]);
    for row in &paired.sla {
        let of = |side: &SlaSide| format!("{} of {}", side.failed, side.rounds);
        let workload = if paired.workloads.len() > 1 { format!("{} ", row.workload) } else { String::new() };
        table.row([
            format!("{workload}{}", row.condition).into(),
            of(&row.a).into(),
            side(&row.a, row.severity).into(),
            of(&row.b).into(),
            side(&row.b, row.severity).into(),
        ]);
    }
    table
}
