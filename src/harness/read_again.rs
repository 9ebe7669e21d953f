//! A stored run, read and judged again. Nothing here writes a file but traces that were fetched now.

use std::collections::{HashMap, HashSet};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use uuid::Uuid;

use base::parallel;
use judging::what_if;
use measure::log::{LogError, LogFile, RunLog};
use results::aggregate::Aggregate;
use results::choice;
use results::directory::RunDirectory;
use results::fetched::FetchedRecords;
use results::head;
use results::model::{Results, Workload};
use results::trace::{StoredRecords, StoredTrace};

use super::error::{HarnessError, HarnessErrorKind};
use super::event::{Event, Sink};
use super::kept;

/// The result of one pass over a run's log; `kind` is the kind of error if it cannot be read. `change` may replace its
/// criteria; `stored` are the traces that are already stored.
pub(super) fn read(
    log: LogFile,
    stored: HashSet<Uuid>,
    kind: HarnessErrorKind,
    change: impl FnOnce(&mut RunLog) -> Result<(), HarnessError>,
) -> Result<Aggregate, HarnessError> {
    let failed = |error: LogError| match kind {
        HarnessErrorKind::Input => HarnessError::of_log(error),
        kind => HarnessError::new(kind, error),
    };
    let mut log = RunLog::of(log).map_err(failed)?;
    change(&mut log)?;
    Aggregate::of(log, stored).map_err(failed)
}

/// A log of this many bytes takes a second or more.
const LONG_BYTES: u64 = 32 << 20;
/// How often the progress is told.
const TOLD_EVERY: Duration = Duration::from_millis(100);

/// Shows how far the reading of a long log is.
pub(super) fn tell(log: &mut RunLog, events: &Sink) {
    let (events, last) = (Arc::clone(events), Mutex::new(Instant::now()));
    log.tell(move |read, of| {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if of >= LONG_BYTES && (read == of || last.elapsed() >= TOLD_EVERY) {
            *last = Instant::now();
            events.event(&Event::Reading { read, of });
        }
    });
}

/// Judges a stored run again; `change` may replace the criteria in its header.
pub(super) fn read_again(
    run_dir: &Path,
    change: impl FnOnce(&mut RunLog) -> Result<(), HarnessError>,
) -> Result<(RunDirectory, Aggregate, Results, Vec<StoredTrace>), HarnessError> {
    read_with(run_dir, HashMap::new(), change)
}

/// As [`read_again()`], with the traces in `known`, which were fetched now and have no files yet, or older ones. They
/// are stored.
pub(super) fn read_with(
    run_dir: &Path,
    mut known: HashMap<Uuid, StoredRecords>,
    change: impl FnOnce(&mut RunLog) -> Result<(), HarnessError>,
) -> Result<(RunDirectory, Aggregate, Results, Vec<StoredTrace>), HarnessError> {
    let directory = RunDirectory::open(run_dir);
    if !directory.log().is_file() {
        return Err(no_log(run_dir));
    }
    let log = LogFile::at(&directory.log());
    let to = (!known.is_empty()).then_some(&directory);
    let stored = directory.stored_traces().into_iter().chain(known.keys().copied());
    let aggregate = read(log, stored.collect(), HarnessErrorKind::Input, change)?;
    let mut results = judging::results(&aggregate);
    let all = choice::choose(&aggregate);
    let ids = all.iter().map(|chosen| aggregate.trace_id(&chosen.sample));
    let ids: Vec<(Uuid, Option<StoredRecords>)> = ids.map(|id| (id, known.remove(&id))).collect();
    let others: Vec<StoredTrace> = known.into_values().map(StoredTrace::from).collect();
    directory.store_traces(&others).map_err(HarnessError::cannot("store the traces"))?;
    let stored = parallel::map(ids, |(id, known)| {
        // A file of that name may have been put there with another trace.
        known.or_else(|| directory.stored_records(id).filter(|stored| stored.trace_id == id))
    });
    let mut fetched = FetchedRecords::default();
    let mut chosen = Vec::new();
    for (one, stored) in all.iter().zip(stored) {
        if let Some(stored) = stored {
            let is_here = directory.has_trace(stored.trace_id);
            fetched.add_stored(stored, is_here);
            chosen.push(one.clone());
        }
    }
    // The log does not have it.
    let old = head::read(&directory.results()).ok().filter(|old| old.run.id == results.run.id);
    let old = old.map(|old| {
        let of_row = |workload: Workload| (workload.name, (workload.queues, workload.without_cause));
        (old.profiling.received, old.workloads.into_iter().map(of_row).collect::<HashMap<_, _>>())
    });
    let (received, mut of_rows) =
        old.unwrap_or_else(|| (kept::received(run_dir, aggregate.header()), HashMap::new()));
    results.profiling.received = received;
    for workload in &mut results.workloads {
        (workload.queues, workload.without_cause) = of_rows.remove(&workload.name).unwrap_or_default();
    }
    let traces = judging::explain(&mut results, &aggregate, &chosen, &mut fetched, to);
    match results.profiling.received {
        // The spans of iterations in a row are kept elsewhere, or no longer: what was predicted by them stays.
        Some(_) => what_if::forget_others(&mut results),
        None => what_if::add(&mut results, &aggregate, &[], (&chosen, &traces), u32::MAX),
    }
    judging::judge(&aggregate, &mut results, &all, &traces);
    Ok((directory, aggregate, results, traces))
}

/// The error for a directory that is not a run's.
pub(super) fn no_log(run_dir: &Path) -> HarnessError {
    HarnessError::input(format!("{} holds no run.log", run_dir.display()))
        .remedy("give the directory of a run")
}
