//! The cause so far: what the report would say of slow iterations if the load ended now, by the spans that have come.
//!
//! Nothing is computed unless somebody looks, and then on a thread of its own that gives way to the load. It reads the run's
//! log and the kept spans as the report does, and takes at most a small share of the time.

use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::clock::{Nanos, RunClock, saturating_nanos};
use collect::mask_record;
use live::snapshot::CauseSnapshot;
use measure::latency::SampleId;
use measure::log::{LogFile, RunLog};
use receive::spool::Spool;
use receive::spool::stored::records_of;
use report::screen;
use results::choice;
use results::directory::RunDirectory;
use results::fetched::FetchedRecords;
use results::model::{ReasonKind, ReceivedSpans};

use super::error::{HarnessError, HarnessErrorKind};
use super::read_again;
use super::receiving::EXPORTS_WITHIN;

/// The first look comes after this time, and a further one no sooner than this after the last.
const EVERY: Duration = Duration::from_secs(5);
/// After a look, there is none for this many times as long as it took.
const REST: u32 = 200;
/// With fewer iterations, there is nothing to compare.
const ITERATIONS_MIN: u64 = 100;

/// Where the log and the spans of a load are.
#[derive(Clone)]
pub(super) struct CauseSource {
    pub(super) spool: Arc<Spool>,
    pub(super) run_directory: PathBuf,
    /// The clock of the log.
    pub(super) clock: RunClock,
}

/// Looks for the cause of slow iterations while the load runs.
pub(super) struct CauseWatch {
    source: CauseSource,
    shared: Arc<Mutex<CauseState>>,
}

#[derive(Default)]
struct CauseState {
    found: Option<CauseSnapshot>,
    is_looking: bool,
    /// No look before this time.
    rests_until: Option<Instant>,
}

impl CauseWatch {
    pub(super) fn new(source: CauseSource) -> Self {
        Self { source, shared: Arc::default() }
    }

    /// What was found last. Looks again if it is time, which does not wait. `elapsed_ns`: since the load began.
    pub(super) fn look(&self, elapsed_ns: Nanos) -> Option<CauseSnapshot> {
        let mut state = locked(&self.shared);
        let has_rested = state.rests_until.is_none_or(|until| Instant::now() >= until);
        if has_rested && elapsed_ns >= saturating_nanos(EVERY) && !state.is_looking {
            let (source, shared) = (self.source.clone(), Arc::clone(&self.shared));
            let look = move || {
                give_way();
                let looked = Instant::now();
                let found = source.find(elapsed_ns);
                let mut state = locked(&shared);
                state.rests_until = Some(Instant::now() + EVERY.max(looked.elapsed() * REST));
                state.is_looking = false;
                // What cannot be read now may be read later.
                if let Ok(found) = found {
                    state.found = found;
                }
            };
            let spawned = std::thread::Builder::new().name("cause".to_owned()).spawn(look);
            state.is_looking = spawned.is_ok();
        }
        state.found.clone()
    }
}

fn locked(state: &Mutex<CauseState>) -> MutexGuard<'_, CauseState> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lets this thread, and those that it starts, run when the load does not.
fn give_way() {
    // Elsewhere, this would be the priority of the whole process.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(19);
}

impl CauseSource {
    /// What the log and the spans say now; `None` while there is too little.
    fn find(&self, elapsed_ns: Nanos) -> Result<Option<CauseSnapshot>, HarnessError> {
        let log = LogFile::at(&RunDirectory::open(&self.run_directory).log());
        // Services may still hold back spans of what ended later.
        let until_ns = self.clock.now_ns().saturating_sub(saturating_nanos(EXPORTS_WITHIN));
        let bound = |log: &mut RunLog| {
            log.leave_out_after(until_ns);
            Ok(())
        };
        let aggregate = read_again::read(log, HashSet::new(), HarnessErrorKind::Failed, bound)?;
        let mut results = judging::results(&aggregate);
        let iterations = results.workloads.iter().map(|workload| workload.iterations.total).sum();
        if iterations < ITERATIONS_MIN {
            return Ok(None);
        }
        let chosen = choice::choose(&aggregate);
        let mut fetched = FetchedRecords::default();
        for one in &chosen {
            let id = aggregate.trace_id(&one.sample);
            let written = self.spool.written(SampleId::from(&one.sample), id.as_u128(), &self.run_directory);
            let messages = written.ok().flatten().filter(|messages| !messages.is_empty());
            let records = messages.and_then(|messages| records_of(id, &messages).ok());
            if let Some(mut records) = records {
                records.iter_mut().for_each(mask_record);
                fetched.records.insert(id, records);
            }
        }
        let traces = fetched.records.len() as u64;
        results.profiling.received = Some(ReceivedSpans::default());
        judging::explain(&mut results, &aggregate, &chosen, &mut fetched, None);
        let found = screen::slow(&results).reason;
        let is_named = found.kind == ReasonKind::Slow;
        Ok(Some(CauseSnapshot {
            headline: live::figures::shown(&found.headline),
            sentence: live::figures::shown(&found.sentence),
            is_named,
            iterations,
            traces,
            at_ns: elapsed_ns,
        }))
    }
}
