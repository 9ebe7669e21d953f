//! What people see who watch a load: its figures, kept while somebody may look, and given when somebody does.
//!
//! The coordinator feeds it from the batches that it receives anyway; workers do not know of it. Whoever looks holds a
//! [`LiveFeed`], which is empty until the load begins.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use uuid::Uuid;

use base::clock::{RunClock, saturating_nanos};
use collect::mask_record;
use live::figures::{LoadBounds, LoadFigures, LoadProgress, ShardLoad, WatchedPart, shown};
use live::snapshot::{AskedLoad, LiveSnapshot, ReceptionSnapshot};
use measure::errors::NumberedFailure;
use measure::ids::RunIds;
use measure::recorder::Batch;
use measure::rows::Rows;
use osprofiler::report::TraceTree;
use plan::shard::Shard;
use plan::{Plan, step};
use receive::spool::Spool;
use receive::spool::stored::records_of;
use report::document::terminal::TerminalStyle;
use report::trace::text;
use results::functions::Functions;
use runner::Progress;
use runner::observers::Observer;
use terms::runner::Model;
use verdict::standing::Standings;

use super::live_cause::{CauseSource, CauseWatch};

/// A load to look at, while it runs.
#[derive(Default)]
pub struct LiveFeed(Mutex<Option<WatchedLoad>>);

/// A load with viewers.
struct WatchedLoad {
    title: String,
    deployment: String,
    part: String,
    figures: LoadFigures,
    standings: Standings,
    /// How long each workload has run.
    elapsed_ns: Vec<u64>,
    /// The ids of its iterations.
    ids: RunIds,
    spans: Option<WatchedSpans>,
    cause: Option<CauseWatch>,
}

/// Where the spans of a load are, while they come.
#[derive(Clone)]
struct WatchedSpans {
    spool: Arc<Spool>,
    run_directory: PathBuf,
}

impl fmt::Debug for LiveFeed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("LiveFeed")
    }
}

impl LiveFeed {
    fn load(&self) -> MutexGuard<'_, Option<WatchedLoad>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The load now, or at its end; `None` before it begins. It is made for this call, from what is looked at.
    pub fn snapshot(&self, part: WatchedPart) -> Option<LiveSnapshot> {
        let mut load = self.load();
        let load = load.as_mut()?;
        let mut snapshot = load.figures.snapshot(part);
        snapshot.title.clone_from(&load.title);
        snapshot.deployment.clone_from(&load.deployment);
        snapshot.part.clone_from(&load.part);
        for (number, one) in snapshot.loads.iter_mut().enumerate() {
            if !is_looked_at(part, number) {
                continue;
            }
            let elapsed_ns = load.elapsed_ns.get(number).copied().unwrap_or_default();
            one.criteria = load.standings.look(number, elapsed_ns).to_vec();
            for criterion in &mut one.criteria {
                criterion.condition = shown(&criterion.condition);
            }
            if let Some(spans) = &load.spans {
                for (slow, sample) in one.slowest.iter_mut().zip(load.figures.slowest(number)) {
                    slow.spans = spans.spool.kept(sample).map(|kept| kept.spans);
                }
            }
        }
        let elapsed_ns = load.elapsed_ns.iter().copied().max().unwrap_or_default();
        snapshot.cause = load.cause.as_ref().and_then(|cause| cause.look(elapsed_ns));
        snapshot.receiving = load.spans.as_ref().map(|spans| {
            let counts = spans.spool.counts();
            ReceptionSnapshot { kept_traces: counts.kept_traces, kept_spans: counts.kept_spans }
        });
        Some(snapshot)
    }

    /// A trace as text in this many columns, from the spans that have come; or why it cannot be shown yet.
    #[must_use]
    pub fn trace(&self, trace_id: Uuid, columns: usize) -> String {
        let (ids, spans) = match &*self.load() {
            Some(load) => (load.ids, load.spans.clone()),
            None => return String::new(),
        };
        let Some(spans) = spans else {
            return format!(
                "This trace can be read after the load, when the traces of slow iterations are fetched:\n\n    \
                 bench trace show latest {trace_id}\n\n\
                 With --receive, traces are shown while the load runs."
            );
        };
        let seen = spans.text(ids, trace_id, columns);
        seen.unwrap_or_else(|why| {
            format!("{why}\n\nAfter the load, `bench trace show latest {trace_id}` shows what came.")
        })
    }

    /// A run begins.
    pub(super) fn begin(&self, plan: &Plan, ids: RunIds, shows_all: bool) {
        let names =
            |one: &plan::WorkloadPlan| one.named().into_iter().map(|row| row.name.to_string()).collect();
        let workloads = plan.workloads.iter().map(|one| (one.name.clone(), names(one)));
        let criteria = plan.workloads.iter().map(|one| (&one.sla, step::names(&one.named())));
        let mut figures = LoadFigures::new(workloads, ids);
        if shows_all {
            figures.expect_others();
        }
        *self.load() = Some(WatchedLoad {
            title: shown(&plan.title),
            deployment: shown(&plan.deployment.name),
            part: part_shown(plan.shard, shows_all),
            figures,
            standings: Standings::new(criteria, ids),
            elapsed_ns: vec![0; plan.workloads.len()],
            ids,
            spans: None,
            cause: None,
        });
    }

    /// Another shard has told what it has measured, on the clock of this process.
    pub(super) fn add_shard(&self, index: u32, rows: &Rows, failures: &[NumberedFailure], now: &[ShardLoad]) {
        if let Some(load) = &mut *self.load() {
            load.figures.add_shard(index, rows, failures, now);
            load.standings.count(rows);
        }
    }

    /// Spans are received, too.
    pub(super) fn receive(&self, spool: Arc<Spool>, run_directory: &Path, clock: RunClock) {
        if let Some(load) = &mut *self.load() {
            let run_directory = run_directory.to_path_buf();
            // Of a part of a load, the traces are compared when all parts are merged.
            load.cause = load.part.is_empty().then(|| {
                let source =
                    CauseSource { spool: Arc::clone(&spool), run_directory: run_directory.clone(), clock };
                CauseWatch::new(source)
            });
            load.spans = Some(WatchedSpans { spool, run_directory });
        }
    }
}

/// Which part of a load is shown; empty for one that a single process makes.
fn part_shown(shard: Shard, shows_all: bool) -> String {
    match (shard.is_part(), shows_all) {
        (false, _) => String::new(),
        (true, true) => format!("all {} shards", shard.count()),
        (true, false) => format!("shard {shard} alone"),
    }
}

fn is_looked_at(part: WatchedPart, number: usize) -> bool {
    match part {
        WatchedPart::Every => true,
        WatchedPart::One { load, .. } => load == number,
    }
}

impl WatchedSpans {
    fn text(&self, ids: RunIds, trace_id: Uuid, columns: usize) -> Result<String, String> {
        let sample = ids.sample_of(trace_id.as_u128()).ok_or("This is no trace of this load.")?;
        let messages = self
            .spool
            .written(sample, trace_id.as_u128(), &self.run_directory)
            .map_err(|error| format!("Its spans cannot be read: {error}."))?
            .filter(|messages| !messages.is_empty())
            .ok_or("No spans of it have come yet: services send them every few seconds.")?;
        let mut records =
            records_of(trace_id, &messages).map_err(|error| format!("Its spans cannot be read: {error}."))?;
        records.iter_mut().for_each(mask_record);
        let tree = TraceTree::build(&records);
        let style = TerminalStyle { columns: Some(columns), colour: false };
        let mut page = Vec::new();
        // Writing to memory cannot fail.
        let _ = text::write(
            &trace_id.to_string(),
            &tree,
            false,
            None,
            &Functions::of(&records),
            style,
            &mut page,
        );
        Ok(String::from_utf8_lossy(&page).into_owned())
    }
}

/// Feeds the figures of a load, if it has viewers.
pub(super) struct FeedsViewers<'a> {
    feed: Option<&'a LiveFeed>,
    clock: RunClock,
    plan: &'a Plan,
    /// The part of the plan that is shown.
    shard: Shard,
}

impl<'a> FeedsViewers<'a> {
    pub(super) fn new(feed: Option<&'a LiveFeed>, clock: RunClock, plan: &'a Plan, shows_all: bool) -> Self {
        let shard = if shows_all { Shard::WHOLE } else { plan.shard };
        Self { feed, clock, plan, shard }
    }

    fn with(&self, change: impl FnOnce(&mut WatchedLoad)) {
        if let Some(load) = self.feed.map(LiveFeed::load).as_deref_mut().and_then(Option::as_mut) {
            change(load);
        }
    }

    fn progress_of(&self, progress: &Progress<'_>) -> LoadProgress {
        LoadProgress {
            elapsed_ns: saturating_nanos(progress.elapsed),
            ended: progress.ended,
            warm_up: progress.warm_up,
            under_way: progress.under_way,
            queued: progress.queued,
            dropped: progress.dropped,
            asked: self.asked(progress.workload, progress.elapsed),
        }
    }

    /// What the plan asks for, of the part that is shown.
    fn asked(&self, workload: usize, elapsed: Duration) -> AskedLoad {
        match self.plan.workloads.get(workload).map(|workload| &workload.runner.model) {
            Some(Model::Open(open)) => {
                let rate_per_s = open.arrivals.rate_per_s(elapsed);
                AskedLoad::PerSecond(rate_per_s / f64::from(self.shard.count().max(1)))
            }
            Some(Model::Closed(closed)) => {
                AskedLoad::Users(self.shard.part_of_users(closed.users.users(elapsed)))
            }
            None => AskedLoad::Nothing,
        }
    }
}

impl Observer for FeedsViewers<'_> {
    fn begin(&mut self, plan: &Plan, workload: usize) {
        let runner = &plan.workloads[workload].runner;
        let bounds = LoadBounds {
            origin_ns: self.clock.now_ns(),
            times: runner.times().map(|times| self.shard.part_of(times)),
            duration_ns: runner.duration().map(saturating_nanos),
        };
        self.with(|load| load.figures.begin(workload, bounds));
    }

    fn batch(&mut self, batch: &Batch) {
        self.with(|load| {
            load.figures.add(batch);
            load.standings.count(&batch.samples);
        });
    }

    fn progress(&mut self, progress: &Progress<'_>) {
        let now = self.progress_of(progress);
        self.with(|load| {
            load.figures.progress(progress.workload, now);
            if let Some(elapsed_ns) = load.elapsed_ns.get_mut(progress.workload) {
                *elapsed_ns = now.elapsed_ns;
            }
        });
    }

    fn end(&mut self, progress: &Progress<'_>) {
        let now = self.progress_of(progress);
        self.with(|load| load.figures.end(progress.workload, now));
    }
}
