//! A list of stored runs and comparisons: time, name, verdict, p99 and cause, as a table and as JSON.

use serde::Serialize;

use super::document::{Badge, Block, Cell, Column, Document, Table};
use super::words::duration;
use crate::results::model::{Outcome, Results};

/// The largest length of a cause, in characters.
const CAUSE_CHARS_MAX: usize = 200;

/// A stored run or comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ListedRun {
    /// What names it on the command line: its directory, or the beginning of that.
    pub name: String,
    /// Its directory.
    pub directory: String,
    /// `run`, or `ab` for a comparison by rounds.
    pub kind: &'static str,
    /// When it began, RFC 3339 in UTC; empty where that is not known.
    pub started_at: String,
    /// The scenario's title; empty where that is not known.
    pub title: String,
    /// Its verdict; absent of one that is damaged or was not reported yet.
    pub verdict: Option<Outcome>,
    /// The p99 of response times, of the workload that takes longest, in milliseconds.
    pub p99_ms: Option<f64>,
    /// Why it failed, or what slow iterations wait for; empty where that is not known.
    pub cause: String,
    /// What is wrong with its files, if anything.
    pub fault: Option<String>,
}

/// The list as a table.
#[must_use]
pub fn document(runs: &[ListedRun]) -> Document {
    let mut table = Table::new(vec![
        Column::words("run"),
        Column::words("verdict"),
        Column::figure("p99"),
        Column::name("scenario").left_out(1),
        Column::name("cause"),
    ]);
    table.rows_shown = runs.len();
    for run in runs {
        let verdict = match (run.verdict, &run.fault) {
            (Some(outcome), _) => Cell::from(Badge::verdict(outcome)),
            (None, _) => "damaged".into(),
        };
        let title = if run.kind == "ab" { format!("ab: {}", run.title) } else { run.title.clone() };
        table.row([
            Cell::code(run.name.as_str()),
            verdict,
            run.p99_ms.map_or_else(String::new, duration).into(),
            Cell::code(title),
            run.fault.as_ref().unwrap_or(&run.cause).as_str().into(),
        ]);
    }
    let mut document = Document::new(2, "");
    document.push(Block::Table(table));
    document
}

/// The p99 of the workload that takes longest.
#[must_use]
pub fn p99_ms(results: &Results) -> Option<f64> {
    let of = |workload: &crate::results::model::Workload| workload.response_time.at(99.0);
    results.workloads.iter().filter_map(of).max_by(f64::total_cmp)
}

/// Why a run failed, or what its slow iterations wait for, in a few words.
#[must_use]
pub fn cause(results: &Results) -> String {
    super::screen::reason(results).headline.chars().take(CAUSE_CHARS_MAX).collect()
}
