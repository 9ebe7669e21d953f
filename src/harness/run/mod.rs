//! A run from the files to the report, step by step.

mod after;
mod assemble;
mod catalog;
mod contexts;
mod header;
mod load;
mod planned;
mod prepare;
mod probe;
mod record;

use std::cell::{OnceCell, RefCell};
use std::collections::{HashMap, HashSet};
use std::net::TcpListener;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use uuid::Uuid;

use base::clock::RunClock;
use client::plain::PlainClient;
use demo::Demo;
use measure::ids::RunIds;
use measure::latency::SampleId;
use measure::log::{LogWriter, ShardStart};
use plan::Plan;
use plan::keystone::Token;
use plan::levels::LevelLoad;
use report::metrics::RunFacts;
use results::aggregate::Aggregate;
use results::choice::IterationClass;
use results::directory::RunDirectory;
use results::model::Results;
use results::trace::StoredTrace;
use runner::observers::Observers;
use runner::stop::Stop;

use self::assemble::assemble;
use self::catalog::ReplanInputs;
use self::load::LoadOutcome;
use self::prepare::PreflightResult;
use self::record::ClosedRunLog;
use super::cloud::RunContexts;
use super::error::{HarnessError, HarnessErrorKind};
use super::event::{Event, Sink, of_round};
use super::housekeeping::Housekeeping;
use super::interrupt::Interrupt;
use super::live::Sum;
use super::live_feed::FeedsViewers;
use super::live_gate::LiveGate;
use super::live_page::ServedPage;
use super::options::RunOptions;
use super::outcome::FinishedRun;
use super::progress::AsEvents;
use super::rally_task::{self, TaskFile};
use super::receiving::RunReceiver;
use super::shards::{Exchange, Link, ShardAssignment, ShardAudience, aborting};

pub(super) use self::assemble::vary;

/// Runs a scenario: setup, load, teardown, traces, verdict, files. Blocks until all of that is done; do not call it
/// from an asynchronous task. Raises the limit of this process on open files if the load needs more.
///
/// # Errors
/// When nothing ran. If something ran, [`FinishedRun`] says what went wrong.
pub fn run(options: RunOptions, interrupt: &Interrupt, events: &Sink) -> Result<FinishedRun, HarnessError> {
    PreparedRun::new(options, events)?.run(interrupt)
}

/// A run that has read its files and made its directory, but has not sent anything yet.
pub struct PreparedRun {
    run: RunExecution,
    listeners: Listeners,
}

/// The ports of a run, bound before anything else is created.
struct Listeners {
    metrics: Option<TcpListener>,
    page: Option<TcpListener>,
    spans: Vec<TcpListener>,
}

impl PreparedRun {
    /// Reads the files, makes the directory, and starts the demo if requested.
    ///
    /// # Errors
    /// Every fault of the files, or what cannot be made.
    pub fn new(options: RunOptions, events: &Sink) -> Result<Self, HarnessError> {
        assemble(options, None, events)
    }

    /// Runs it, as [`run()`] does.
    ///
    /// # Errors
    /// When nothing ran.
    pub fn run(self, interrupt: &Interrupt) -> Result<FinishedRun, HarnessError> {
        let (finished, unsaved) = self.run.go(self.listeners, interrupt, RunExecution::finish)?;
        match (finished, unsaved) {
            (finished, None) => finished,
            // The recorded part is still reported, but the run counts as failed.
            (Ok(finished), Some(why)) => {
                Ok(FinishedRun { fault: Some(HarnessError::failed(why)), ..finished })
            }
            (Err(_), Some(why)) => Err(HarnessError::failed(why)),
        }
    }
}

/// The options of a run that is one of several rounds.
pub(super) struct Round<'a> {
    /// The directory of the round, which is made.
    pub(super) directory: &'a Path,
    /// The target that is the default one in this round.
    pub(super) target: Option<&'a str>,
    /// How long it lasts, instead of what the scenario says.
    pub(super) length: Option<Duration>,
    /// How many times as long as that, or as the scenario says.
    pub(super) factor: f64,
    /// How many slow iterations' traces are fetched at most.
    pub(super) traces: u32,
    /// How many random iterations' traces are fetched; 0 for as many as the scenario wants.
    pub(super) random_traces: u32,
    /// The load instead of the scenario's, of a level of a search.
    pub(super) level: Option<&'a LevelLoad>,
    /// The numbers of iterations of the first workload whose traces are fetched, all of them.
    pub(super) window: Range<u64>,
}

/// The result of a round.
pub(super) struct RoundEnded {
    /// True if setup failed.
    pub(super) setup_failed: bool,
    pub(super) aggregate: Aggregate,
    pub(super) results: Results,
    /// The traces that were fetched, with the reason why.
    pub(super) traces: Vec<(IterationClass, StoredTrace)>,
    /// The random sample of successful iterations, with their workloads.
    pub(super) random: HashMap<Uuid, u16>,
    /// The iterations of the window.
    pub(super) window: HashSet<Uuid>,
}

/// Runs a round silently; it writes only the log and the traces.
pub(super) fn round(
    options: RunOptions,
    round: &Round<'_>,
    interrupt: &Interrupt,
    events: &Sink,
) -> Result<RoundEnded, HarnessError> {
    let PreparedRun { run, listeners } = assemble(options, Some(round), &of_round(events))?;
    let (ended, unsaved) = run.go(listeners, interrupt, RunExecution::finish_round)?;
    unsaved.map_or(ended, |why| Err(HarnessError::failed(why)))
}

struct RunExecution {
    options: RunOptions,
    events: Sink,
    plan: Arc<Plan>,
    identity: RunIdentity,
    share: LoadShare,
    directory: RunDirectory,
    services: OwnServices,
    runtime: Runtime,
    /// What else the file says, if it is a task file of Rally.
    task: Option<TaskFile>,
    cloud: CloudState,
}

/// How much of the load this process sends, and with what.
struct LoadShare {
    /// Which part of the load this is; absent for the whole.
    part: Option<ShardAssignment>,
    /// When the load of a part began.
    began: OnceCell<ShardStart>,
    workers: u32,
    users_max: u32,
}

/// The servers that run in this process beside the load.
struct OwnServices {
    demo: Option<Demo>,
    /// The receiver of spans, until it has given its traces.
    receiving: RefCell<Option<RunReceiver>>,
}

/// What tells this run from all others.
struct RunIdentity {
    clock: RunClock,
    run_id: Uuid,
    /// The ids of its iterations.
    ids: RunIds,
    /// The ids of the probe, which half of its iterations leave unprofiled.
    probe_ids: RunIds,
    /// The seed of rows and of generated values.
    data_seed: u64,
    /// The numbers of iterations of the first workload whose traces are all wanted.
    window: Range<u64>,
    /// The same of a run whose spans are received: what waits shows there.
    row: Range<u64>,
    /// The id in the names of what is made in services: each process has its own.
    names_id: Uuid,
}

impl RunIdentity {
    /// The trace ids of the window.
    fn window_ids(&self) -> HashSet<Uuid> {
        let id = |number| self.ids.trace_id(SampleId { workload: 0, number });
        self.window.clone().map(id).collect()
    }
}

/// What is known of the cloud.
struct CloudState {
    /// What is needed to plan again once the cloud's catalog is known, if targets are in it.
    awaiting: Option<Box<ReplanInputs>>,
    /// The token that came with the catalog.
    token: Option<Token>,
    /// What is made in the cloud, once bench has logged in.
    contexts: Option<RunContexts>,
}

impl RunExecution {
    /// Looks up what is in the cloud's catalog, logs in and sends the first requests.
    fn made_ready(&mut self, interrupt: &Interrupt) -> Result<PreflightResult, HarnessError> {
        let looked_up =
            self.cloud.awaiting.take().map(|awaiting| self.unless(interrupt, self.look_up(*awaiting)));
        let looked_up = looked_up.transpose().map(|found| {
            if let Some((plan, token)) = found {
                (self.plan, self.cloud.token) = (Arc::new(plan), token);
            }
        });
        let prepared = looked_up.and_then(|()| self.unless(interrupt, self.prepare()));
        if prepared.is_err() {
            // Nothing ran: an empty directory is useless. One with files stays.
            let _ = std::fs::remove_dir(self.directory.path());
        }
        prepared
    }

    /// Returns what `finish` makes of the run, and why its record could not be kept.
    fn go<T>(
        mut self,
        listeners: Listeners,
        interrupt: &Interrupt,
        finish: impl FnOnce(&Self, ClosedRunLog, &Stop) -> Result<T, HarnessError>,
    ) -> Result<(Result<T, HarnessError>, Option<String>), HarnessError> {
        let prepared = match self.made_ready(interrupt) {
            Ok(prepared) => prepared,
            Err(stopped) => {
                // A resolver that hangs must not hold up the end.
                self.runtime.shutdown_background();
                return Err(stopped);
            }
        };
        self.cloud.contexts = self.contexts(&prepared);
        let watch = &self.options.watch;
        let mut watched =
            watch.start(listeners.metrics, &self.plan, self.facts(), &self.runtime, &self.events)?;
        self.receive_spans(listeners.spans, &prepared.client)?;
        let page = self.show_to_viewers(listeners.page)?;
        let stop = Stop::default();
        let housekeeping = Housekeeping {
            plan: Arc::clone(&self.plan),
            stop: stop.clone(),
            interrupt: interrupt.clone(),
            events: Arc::clone(&self.events),
            credentials: Arc::clone(&prepared.context.credentials),
            client: prepared.client,
            token_valid_for: prepared.token_valid_for,
        };
        let housekeeping = self.runtime.spawn(housekeeping.keep());
        let mut log = self.start_log().map_err(|error| self.log_failed(&error))?;
        self.say_how_profiled();
        let profiled = self.plan.profiling_off.is_none().then_some(self.plan.control);
        let mut shown = AsEvents::new(&self.events, self.identity.ids, profiled);
        let mut metrics = watched.observer();
        let mut receiver = RunReceiver::observer(self.services.receiving.borrow().as_ref());
        let mut views = self.views();
        let gate = LiveGate::new(&self.plan, self.identity.ids, &stop);
        let mut gate = Exchange::new(gate, self.link(watched.sum()));
        let mut hooks = rally_task::hooks(self.task.as_ref(), self.identity.clock, &stop);
        // A workload has ended when its programs have, so its hooks come first.
        let observers =
            Observers::new(vec![&mut hooks, &mut receiver, &mut metrics, &mut views, &mut shown, &mut gate]);
        let credentials = Arc::clone(&prepared.context.credentials);
        let LoadOutcome { mut end, setup_failed, refused } =
            self.load(prepared.context, &stop, &mut log, observers);
        let (hook_runs, hook_notes) = hooks.finish();
        end.hooks = hook_runs;
        end.notes.extend(hook_notes);
        let (aborted_by, gate_notes) = gate.finish(&self.plan);
        end.aborted_by = aborted_by;
        end.notes.extend(gate_notes);
        end.notes.extend(credentials.note());
        if let Some(refused) = refused {
            drop(log);
            housekeeping.abort();
            self.runtime.block_on(watched.finish());
            drop(self.services.receiving.take());
            // Nothing of the load ran, and the directory was made just now.
            if self.cloud.contexts.as_ref().is_none_or(RunContexts::is_clean) {
                let _ = std::fs::remove_dir_all(self.directory.path());
            }
            drop(watched);
            self.runtime.shutdown_background();
            return Err(refused);
        }
        let ended = ClosedRunLog { setup_failed, ..record::close(log, end, &self.directory) };
        self.runtime.block_on(watched.finish());
        let unsaved = ended.unsaved.clone();
        page.load_ended();
        let finished = finish(&self, ended, &stop);
        self.runtime.block_on(page.finish(&self.directory.report()));
        housekeeping.abort();
        drop((watched, page));
        self.runtime.shutdown_background();
        Ok((finished, unsaved))
    }

    /// Waits for what happens before the load, unless it is interrupted.
    fn unless<T>(
        &self,
        interrupt: &Interrupt,
        work: impl Future<Output = Result<T, HarnessError>>,
    ) -> Result<T, HarnessError> {
        self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = interrupt.interrupted() => {
                    Err(HarnessError::new(HarnessErrorKind::Interrupted, "interrupted before the load began: nothing ran"))
                }
                done = work => done,
            }
        })
    }

    /// Starts to receive spans, if there are ports for them.
    fn receive_spans(&self, spans: Vec<TcpListener>, client: &PlainClient) -> Result<(), HarnessError> {
        if !spans.is_empty() {
            let (ids, directory) = ((self.identity.ids, self.identity.probe_ids), self.directory.path());
            let kept = usize::try_from(self.identity.window.end).unwrap_or(usize::MAX);
            let receiving = RunReceiver::start(
                spans,
                ids,
                &self.plan,
                directory,
                client,
                (kept, self.identity.row.clone()),
            )?;
            self.events.event(&Event::Receiving(receiving.addresses()));
            self.services.receiving.replace(Some(receiving));
        }
        Ok(())
    }

    /// Whether what other shards measure is shown here, too.
    fn shows_all_shards(&self) -> bool {
        let leads = self.share.part.as_ref().is_some_and(|part| part.shard.index() == 0);
        leads && self.options.shards.lead && self.options.shards.together.is_some()
    }

    /// An observer for those who look at the load.
    fn views(&self) -> FeedsViewers<'_> {
        let viewers = self.options.watch.viewers.as_deref();
        FeedsViewers::new(viewers, self.identity.clock, &self.plan, self.shows_all_shards())
    }

    /// Tells those who look at the load what will run, and serves the page if it is asked for.
    fn show_to_viewers(&self, listener: Option<TcpListener>) -> Result<ServedPage, HarnessError> {
        let Some(viewers) = &self.options.watch.viewers else { return Ok(ServedPage::default()) };
        viewers.begin(&self.plan, self.identity.ids, self.shows_all_shards());
        if let Some(receiving) = &*self.services.receiving.borrow() {
            viewers.receive(receiving.spool(), self.directory.path(), self.identity.clock);
        }
        let Some(listener) = listener else { return Ok(ServedPage::default()) };
        let names = (self.plan.title.as_str(), self.plan.deployment.name.as_str());
        ServedPage::start(listener, Arc::clone(viewers), names, &self.runtime, &self.events)
    }

    /// What connects the parts of a load that is watched as a whole.
    fn link(&self, sum: Option<Sum>) -> Option<Link<'_>> {
        let (part, shards) = (self.share.part.as_ref()?, &self.options.shards);
        let judges = aborting(&self.plan).is_some();
        if !judges && !shards.lead {
            return None;
        }
        let folder = part.meeting(shards.together.as_ref()?);
        let audience = match shards.lead {
            true => ShardAudience { sum, viewers: self.options.watch.viewers.clone() },
            false => ShardAudience::default(),
        };
        Some(Link {
            folder,
            shard: part.shard,
            clock: self.identity.clock,
            began: &self.share.began,
            judges,
            audience,
        })
    }

    fn say_how_profiled(&self) {
        if let Some(reason) = &self.plan.profiling_off {
            self.events.event(&Event::NotProfiling(reason));
        }
        if let Some(reason) =
            self.plan.propagation.without_osprofiler(self.plan.deployment.hmac_key().is_some())
        {
            self.events.event(&Event::ProfilingWithout(reason));
        }
    }

    /// The labels of this run's metrics.
    fn facts(&self) -> RunFacts {
        RunFacts {
            bench_version: env!("CARGO_PKG_VERSION"),
            run_id: self.identity.run_id,
            scenario: self.plan.title.clone(),
            deployment: self.plan.deployment.name.clone(),
            // The metrics of all shards do not belong to one.
            shard: self
                .share
                .part
                .as_ref()
                .filter(|_| !self.options.shards.lead)
                .map(|part| part.shard.index()),
            ids: self.identity.ids,
            started_unix_ns: self.identity.clock.wall_anchor_unix_ns(),
        }
    }

    fn start_log(&self) -> std::io::Result<LogWriter> {
        let mut log = LogWriter::create(&self.directory.log())?;
        log.header(&self.header())?;
        Ok(log)
    }

    fn log_failed(&self, error: &std::io::Error) -> HarnessError {
        HarnessError::failed(format!("{} cannot be written: {error}", self.directory.log().display()))
    }
}
