//! The list of runs and comparisons. What is damaged is listed as such. Reading every log would take long, so what a
//! run's results.json says is not compared with its log; that is for `check` and `report`.

use std::path::Path;

use super::find::{DirectoryKind, RunCandidate, comparison_of, find, names};
use crate::error::HarnessError;
use measure::log::RunLog;
use report::runs::{self, ListedRun};
use results::directory::RunDirectory;
use results::head;
use results::model::Time;
use text::times::rfc3339;

/// The newest runs and comparisons of a directory, and how many more there are.
///
/// # Errors
/// The directory cannot be read.
pub fn list(directory: &Path, limit: usize) -> Result<(Vec<ListedRun>, usize), HarnessError> {
    let all = find(directory)?;
    let more = all.len().saturating_sub(limit);
    let named = all.iter().zip(names(directory, &all)).take(limit);
    Ok((named.map(|(found, name)| listed(found, name)).collect(), more))
}

fn listed(found: &RunCandidate, name: String) -> ListedRun {
    let blank = ListedRun {
        name,
        directory: found.path.display().to_string(),
        kind: if found.kind == DirectoryKind::Run { "run" } else { "ab" },
        started_at: found.began.clone(),
        title: String::new(),
        verdict: None,
        p99_ms: None,
        p99_has_no_time: false,
        cause: String::new(),
        fault: None,
    };
    match found.kind {
        DirectoryKind::Run => listed_run(&found.path, blank),
        DirectoryKind::Comparison => listed_comparison(&found.path, blank),
    }
}

fn listed_run(path: &Path, blank: ListedRun) -> ListedRun {
    let directory = RunDirectory::open(path);
    match head::read(&directory.results()) {
        Ok(results) => ListedRun {
            started_at: results.run.started_at.clone(),
            title: results.scenario.title.clone(),
            verdict: Some(results.verdict.outcome),
            p99_ms: match runs::p99(&results) {
                Some(Time::Ms(ms)) => Some(ms),
                _ => None,
            },
            p99_has_no_time: runs::p99(&results) == Some(Time::None),
            cause: runs::cause(&results),
            ..blank
        },
        Err(reason) => {
            let log = RunLog::open(&directory.log());
            let fault = match (&log, directory.results().exists()) {
                (Ok(_), false) => "no results yet: it is under way, or `bench report` makes them".to_owned(),
                (Ok(_), true) => format!("results.json: {reason}; `bench report` makes it again"),
                (Err(error), false) => error.to_string(),
                (Err(_), true) => format!("results.json: {reason}"),
            };
            let header = log.ok().map(|log| log.header);
            let title = header.as_ref().map_or_else(String::new, |header| header.scenario.title.clone());
            let started = header.map_or(blank.started_at, |header| rfc3339(header.started_unix_ns));
            ListedRun { title, started_at: started, fault: Some(fault), ..blank }
        }
    }
}

fn listed_comparison(path: &Path, blank: ListedRun) -> ListedRun {
    match comparison_of(path) {
        Ok((title, verdict, cause)) => ListedRun { title, verdict: Some(verdict), cause, ..blank },
        Err(reason) => ListedRun { fault: Some(format!("ab.json: {reason}")), ..blank },
    }
}
