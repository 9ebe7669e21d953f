//! Stored runs: their traces collected later, reported and judged again, compared, exported; what a
//! change would have brought; what changed over time.

mod check;
mod collect;
mod compare;
mod export;
mod render;
mod trend;
mod what_if;

use std::collections::HashMap;
use std::path::Path;

use uuid::Uuid;

pub use check::{CheckOptions, check};
pub(super) use collect::choose_kept;
pub use collect::{CollectOptions, CollectionResult, collect};
pub use compare::{CompareOptions, RunComparison, compare};
pub use export::{ExportOptions, export_file, export_to};
pub use render::Form;
pub use trend::trend;
pub use what_if::{WantedChange, WhatIfOptions, what_if};

use super::error::HarnessError;
use super::event::Sink;
use super::options::ReportOptions;
use super::outcome::{Conclusion, FinishedRun};
use super::{read_again, writing};
use results::trace::StoredRecords;

/// Writes the files of a run again from its log and its stored traces, also after a crash.
///
/// # Errors
/// When something cannot be read.
pub fn report(run_dir: &Path, options: &ReportOptions, events: &Sink) -> Result<FinishedRun, HarnessError> {
    report_with(run_dir, HashMap::new(), options, events)
}

/// As [`report()`], with traces that are at hand: the ones in `known`, as their files have them.
fn report_with(
    run_dir: &Path,
    known: HashMap<Uuid, StoredRecords>,
    options: &ReportOptions,
    events: &Sink,
) -> Result<FinishedRun, HarnessError> {
    let (directory, aggregate, results, traces) = read_again::read_with(run_dir, known, |log| {
        read_again::tell(log, events);
        Ok(())
    })?;
    let conclusion = Conclusion::of(&results, aggregate.total());
    let written = writing::write(&directory, &aggregate, results, &traces, options, events);
    Ok(FinishedRun::new(conclusion, written, traces, directory.path()))
}
