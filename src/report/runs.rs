//! A list of stored runs and comparisons: time, name, verdict, p99 and cause, as a table and as JSON.

use serde::Serialize;

use super::document::{Badge, Block, Cell, Column, DocumentTable, ReportDocument};
use super::words::{NO_TIME, duration, not_served};
use results::model::{Outcome, Results, Time};

/// The largest length of a cause, in characters.
const CAUSE_CHARS_MAX: usize = 200;

/// A stored run or comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ListedRun {
    /// What names it on the command line: its directory, or the beginning of that.
    pub name: String,
    pub directory: String,
    /// `run`, or `ab` for a comparison by rounds.
    pub kind: &'static str,
    /// When it began, RFC 3339 in UTC; empty where that is not known.
    pub started_at: String,
    /// The scenario's title; empty where that is not known.
    pub title: String,
    /// Its verdict; absent of one that is damaged or was not reported yet.
    pub verdict: Option<Outcome>,
    /// The p99 of response times, of the workload that takes longest, in milliseconds; of all iterations that were due.
    pub p99_ms: Option<f64>,
    /// True if it falls among iterations that failed, never started or were cut off.
    pub p99_has_no_time: bool,
    /// Why it failed, or what slow iterations wait for; empty where that is not known.
    pub cause: String,
    /// What is wrong with its files, if anything.
    pub fault: Option<String>,
}

/// The list as a table.
#[must_use]
pub fn document(runs: &[ListedRun]) -> ReportDocument {
    let mut table = DocumentTable::new(vec![
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
            match run.p99_has_no_time {
                true => NO_TIME.into(),
                false => run.p99_ms.map_or_else(String::new, duration).into(),
            },
            Cell::code(title),
            run.fault.as_ref().unwrap_or(&run.cause).as_str().into(),
        ]);
    }
    let mut document = ReportDocument::new(2, "");
    document.push(Block::Table(table));
    document
}

/// The p99 of the workload that takes longest, of all iterations that were due.
#[must_use]
pub fn p99(results: &Results) -> Option<Time> {
    let all = results.workloads.iter().filter_map(|workload| workload.response_time.of_all_at(99.0));
    let ms = |time: &Time| match time {
        Time::Ms(ms) => *ms,
        Time::None => f64::INFINITY,
    };
    all.max_by(|a, b| ms(a).total_cmp(&ms(b)))
}

/// Why a run failed, or what its slow iterations wait for, in a few words.
#[must_use]
pub fn cause(results: &Results) -> String {
    let headline = super::screen::reason(results).headline;
    let cause = match not_served(&results.workloads) {
        Some(not_served) => format!("{not_served}; {headline}"),
        None => headline,
    };
    cause.chars().take(CAUSE_CHARS_MAX).collect()
}
