//! The life of a run: from the files to the report, in the order in which it happens.

mod after;
mod header;
mod record;

use std::net::TcpListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::base::clock::RunClock;
use crate::base::ids::IdSpace;
use crate::base::masking;
use crate::client::options::Settings;
use crate::client::plain::PlainClient;
use crate::client::pool;
use crate::client::tls;
use crate::collect;
use crate::config::Document;
use crate::config::rounds::as_round;
use crate::config::scenario::Scenario;
use crate::demo::Demo;
use crate::iteration::Context;
use crate::iteration::credentials::{Credentials, auth_variable};
use crate::iteration::fixed::Shelf;
use crate::iteration::user::{ONCE, VirtualUser};
use crate::measure::errors::Failure;
use crate::measure::log::{End, Generator, Issued, LogWriter, Status};
use crate::osprofiler::driver::Collector;
use crate::osprofiler::signing::Signer;
use crate::plan::action::{Step, actions};
use crate::plan::deployment::{Auth, DEFAULT_TARGET};
use crate::plan::scenario::BUILT_IN;
use crate::plan::{Plan, deployment::Deployment};
use crate::report::metrics::RunFacts;
use crate::results::aggregate::Aggregate;
use crate::results::choice::Side;
use crate::results::directory::RunDirectory;
use crate::results::model::Results;
use crate::results::trace::StoredTrace;
use crate::runner::stop::{Stop, StopReason};
use crate::runner::{self, Load, Observer};
use crate::verdict::live::LiveGate;

use self::record::Ended;
use super::error::{HarnessError, Kind};
use super::event::{Event, Sink, of_round, warn};
use super::housekeeping::{Housekeeping, runtime};
use super::interrupt::Interrupt;
use super::options::RunOptions;
use super::outcome::Finished;
use super::progress::AsEvents;
use super::{demo, files};

/// How the error of a run begins whose setup failed.
pub(super) const SETUP_FAILED: &str = "setup failed";
const PROBE_LIMIT: Duration = Duration::from_secs(5);

/// Runs a scenario: setup, load, teardown, traces, verdict, files. Blocks until all of it is done; not to be called
/// from an asynchronous task.
///
/// # Errors
/// Why nothing ran. Of a run that ran, [`Finished`] says what went wrong.
pub fn run(options: RunOptions, interrupt: &Interrupt, events: &Sink) -> Result<Finished, HarnessError> {
    PreparedRun::new(options, events)?.run(interrupt)
}

/// A run whose files were read and whose directory was made, and that has sent nothing yet.
pub struct PreparedRun {
    run: Run,
    listener: Option<TcpListener>,
}

impl PreparedRun {
    /// Reads the files, makes the directory, starts the demo if it is wanted.
    ///
    /// # Errors
    /// Every fault of the files, or what cannot be made.
    pub fn new(options: RunOptions, events: &Sink) -> Result<Self, HarnessError> {
        assemble(options, None, events)
    }

    /// Runs it, as [`run()`] does.
    ///
    /// # Errors
    /// Why nothing ran.
    pub fn run(self, interrupt: &Interrupt) -> Result<Finished, HarnessError> {
        let (finished, unsaved) = self.run.go(self.listener, interrupt, Run::finish)?;
        match (finished, unsaved) {
            (finished, None) => finished,
            // What was recorded is reported all the same, but such a run did not go well.
            (Ok(finished), Some(why)) => Ok(Finished { fault: Some(HarnessError::failed(why)), ..finished }),
            (Err(_), Some(why)) => Err(HarnessError::failed(why)),
        }
    }
}

/// What makes a run one round of several.
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
}

/// What a round came to.
pub(super) struct RoundEnded {
    pub(super) aggregate: Aggregate,
    pub(super) results: Results,
    /// The traces that were fetched, with the reason why.
    pub(super) traces: Vec<(Side, StoredTrace)>,
}

/// Runs a round without a word; of a run's files it leaves the log and the traces.
pub(super) fn round(
    options: RunOptions,
    round: &Round<'_>,
    interrupt: &Interrupt,
    events: &Sink,
) -> Result<RoundEnded, HarnessError> {
    let PreparedRun { run, listener } = assemble(options, Some(round), &of_round(events))?;
    let (ended, unsaved) = run.go(listener, interrupt, Run::finish_round)?;
    unsaved.map_or(ended, |why| Err(HarnessError::failed(why)))
}

fn assemble(
    options: RunOptions,
    round: Option<&Round<'_>>,
    events: &Sink,
) -> Result<PreparedRun, HarnessError> {
    let RunOptions { scenario, deployment, load, watch, .. } = &options;
    let (mut document, mut deployment) = files::scenario_and_deployment(scenario, deployment.as_ref(), load)?;
    if let Some(round) = round {
        vary(&mut document, &mut deployment, round)?;
    }
    // Every fault of the files is known before anything is made or started.
    let mut checked = deployment.clone();
    demo::stand_in(&mut checked);
    let mut plan = files::plan(scenario, &document, checked, load)?;
    if options.publish {
        can_publish(&plan)?;
    }
    let cores = || std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1));
    let workers = load.workers.unwrap_or_else(cores);
    // The embedded demo has the other end of each connection in this process.
    let ends = if deployment.demo.is_some() { 2 } else { 1 };
    let limits = runner::limits::prepare(&plan, ends, workers).map_err(HarnessError::failed)?;
    let users_max = limits.users_max;
    plan.warnings.extend(limits.warnings.iter().cloned());
    let listener = watch.listen()?;
    let (clock, run_id) = (RunClock::start(), Uuid::new_v4());
    let directory = match round {
        None => make_directory(&options, &plan.title, run_id, &clock)?,
        Some(round) => RunDirectory::make(round.directory)
            .map_err(HarnessError::cannot(format!("make {}", round.directory.display())))?,
    };
    let demo = demo::start_if_wanted(&mut deployment, directory.path()).inspect_err(|_| {
        // Nothing ran, and the directory was made just now.
        let _ = std::fs::remove_dir_all(directory.path());
    })?;
    let mut plan = match &demo {
        Some(_) => {
            let mut plan = files::plan(scenario, &document, deployment, load)?;
            plan.warnings.extend(limits.warnings);
            plan
        }
        None => plan,
    };
    match round {
        None => warn(events, &plan.warnings),
        Some(round) => plan.traces.slow = plan.traces.slow.min(round.traces),
    }
    events.event(&Event::Started { plan: &plan, directory: directory.path() });
    let run = Run {
        plan: Arc::new(plan),
        clock,
        ids: IdSpace::random(),
        run_id,
        workers,
        users_max,
        directory,
        demo,
        runtime: runtime()?,
        events: Arc::clone(events),
        options,
    };
    Ok(PreparedRun { run, listener })
}

/// Makes a scenario one of a round, and a target the default one.
pub(super) fn vary(
    document: &mut Document<Scenario>,
    deployment: &mut Deployment,
    round: &Round<'_>,
) -> Result<(), HarnessError> {
    as_round(&mut document.value, round.length, round.factor).map_err(HarnessError::usage)?;
    choose_target(deployment, round.target)
}

/// Makes a target the one that actions use which name none.
fn choose_target(deployment: &mut Deployment, name: Option<&str>) -> Result<(), HarnessError> {
    let Some(name) = name else { return Ok(()) };
    let named = deployment.targets.iter().find(|(known, _)| known == name).map(|(_, url)| url.clone());
    let Some(url) = named else {
        let known: Vec<&str> = deployment.targets.iter().map(|(name, _)| name.as_str()).collect();
        let (file, known) = (deployment.file.display(), known.join(", "));
        return Err(
            HarnessError::usage(format!("{file} has no target `{name}`")).remedy(format!("it has {known}"))
        );
    };
    deployment.targets.retain(|(known, _)| known != DEFAULT_TARGET);
    deployment.targets.push((DEFAULT_TARGET.to_owned(), url));
    Ok(())
}

/// Says before the load that nothing could be published after it.
fn can_publish(plan: &Plan) -> Result<(), HarnessError> {
    let wrong = |why: String| Err(HarnessError::usage(format!("cannot --publish: {why}")));
    if let Some(reason) = &plan.profiling_off {
        return wrong(format!("nothing is profiled: {reason}"));
    }
    if plan.traces.slow == 0 {
        return wrong("the scenario says that no trace is kept (trace: {fetch: none})".to_owned());
    }
    match plan.deployment.connection_string.as_ref().map(|connection| Collector::writes(connection.expose()))
    {
        None => wrong("the deployment names no collector (profiler.connection_string)".to_owned()),
        Some(Err(error)) => wrong(format!("failed to {}", error.chain())),
        Some(Ok(())) => Ok(()),
    }
}

fn make_directory(
    options: &RunOptions,
    title: &str,
    run_id: Uuid,
    clock: &RunClock,
) -> Result<RunDirectory, HarnessError> {
    RunDirectory::create(&options.out, title, run_id, clock.wall_anchor_unix_ns()).map_err(|error| {
        let out = options.out.display();
        HarnessError::failed(format!("cannot make the run's directory in {out}: {error}"))
            .remedy("choose another with --out")
    })
}

struct Run {
    options: RunOptions,
    events: Sink,
    plan: Arc<Plan>,
    clock: RunClock,
    ids: IdSpace,
    run_id: Uuid,
    workers: u32,
    users_max: u32,
    directory: RunDirectory,
    demo: Option<Demo>,
    runtime: Runtime,
}

/// What the load needs, once everything has answered.
struct Prepared {
    context: Context,
    client: PlainClient,
    token_valid_for: Option<Duration>,
}

impl Run {
    /// Gives what `finish` makes of the run, and why its record could not be kept.
    fn go<T>(
        self,
        listener: Option<TcpListener>,
        interrupt: &Interrupt,
        finish: impl FnOnce(&Self, Ended, &Stop) -> Result<T, HarnessError>,
    ) -> Result<(Result<T, HarnessError>, Option<String>), HarnessError> {
        let prepared = self.runtime.block_on(async {
            tokio::select! {
                biased;
                () = interrupt.interrupted() => {
                    Err(HarnessError::new(Kind::Interrupted, "interrupted before the load began: nothing ran"))
                }
                prepared = self.prepare() => prepared,
            }
        });
        let prepared = match prepared {
            Ok(prepared) => prepared,
            Err(stopped) => {
                // Nothing ran: an empty directory would only be in the way. One with files stays.
                let _ = std::fs::remove_dir(self.directory.path());
                // A resolver that hangs must not hold up the end.
                self.runtime.shutdown_background();
                return Err(stopped);
            }
        };
        let watch = &self.options.watch;
        let (client, facts) = (&prepared.client, self.facts());
        let mut watched = watch.start(listener, &self.plan, facts, client, &self.runtime, &self.events)?;
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
        if let Some(reason) = &self.plan.profiling_off {
            self.events.event(&Event::NotProfiling(reason));
        }
        let profiled = self.plan.profiling_off.is_none().then_some(self.plan.control);
        let mut shown = AsEvents::new(&self.events, self.ids, profiled);
        let mut observer = watched.observer(&mut shown);
        let mut gate = LiveGate::new(&self.plan, self.ids, &stop, &mut observer);
        let mut end = self.load(prepared.context, &stop, &mut log, &mut gate);
        end.aborted_by = gate.broken();
        end.notes.extend(gate.note(&self.plan));
        let ended = record::close(log, end, &self.directory);
        self.runtime.block_on(watched.finish());
        let unsaved = ended.unsaved.clone();
        let finished = finish(&self, ended, &stop);
        housekeeping.abort();
        drop(watched);
        self.runtime.shutdown_background();
        Ok((finished, unsaved))
    }

    /// What metrics say of this run.
    fn facts(&self) -> RunFacts {
        RunFacts {
            bench_version: env!("CARGO_PKG_VERSION"),
            run_id: self.run_id,
            scenario: self.plan.title.clone(),
            deployment: self.plan.deployment.name.clone(),
            ids: self.ids,
            started_unix_ns: self.clock.wall_anchor_unix_ns(),
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

    /// Everything that must answer before the load may start.
    async fn prepare(&self) -> Result<Prepared, HarnessError> {
        let deployment = &self.plan.deployment;
        let mut origins = Vec::new();
        for action in all_steps(&self.plan).flat_map(actions) {
            if !origins.contains(&&action.base.origin) {
                origins.push(&action.base.origin);
            }
        }
        let login_over_tls = matches!(&deployment.auth, Auth::Keystone(login) if login.auth_url.origin.tls);
        let wants_tls = login_over_tls
            || self.options.watch.wants_tls()
            || origins.iter().any(|origin| origin.tls)
            || self.plan.http.guard.allows_others();
        let tls = tls::config(&deployment.tls, wants_tls).map_err(HarnessError::input)?;
        let http = Settings::new(&tls, self.plan.http.clone());
        for origin in origins {
            pool::probe(origin, &http, PROBE_LIMIT).await.map_err(HarnessError::unreachable)?;
        }
        if let Some(connection) = self.collector() {
            collect::probe(connection).await.map_err(|error| {
                HarnessError::unreachable(format!(
                    "the collector does not answer: {error}\nTraced services fail without it: start it, or run with --no-profile."
                ))
            })?;
        }
        let client = PlainClient::new(&tls, &self.plan.http.dns).map_err(HarnessError::unreachable)?;
        let (credentials, token_valid_for) =
            Credentials::establish(&deployment.auth, &client).await.map_err(HarnessError::unreachable)?;
        let context = self.context(http, Arc::new(credentials));
        Ok(Prepared { context, client, token_valid_for })
    }

    fn context(&self, http: Arc<Settings>, credentials: Arc<Credentials>) -> Context {
        let deployment = &self.plan.deployment;
        let mut variables = self.plan.variables.clone();
        for (_, value) in variables.iter_mut().filter(|(name, _)| &**name == "auth") {
            *value = auth_variable(value.clone(), Arc::clone(&credentials));
        }
        let profiled = self.plan.profiling_off.is_none();
        Context {
            clock: self.clock,
            ids: self.ids,
            signer: deployment.hmac_key.as_ref().filter(|_| profiled).and_then(Signer::new),
            control: self.plan.control,
            headers: files::default_headers(Some(deployment)),
            foreign_headers: files::default_headers(None),
            credentials,
            http,
            variables: Arc::new(variables),
            shelf: Shelf::default(),
        }
    }

    /// Setup, load, teardown.
    fn load(
        &self,
        mut context: Context,
        stop: &Stop,
        log: &mut LogWriter,
        observer: &mut dyn Observer,
    ) -> End {
        let (mut notes, mut generator) = (Vec::new(), None);
        let planned = self.plan.workloads.iter().map(|workload| workload.runner.planned());
        let mut issued: Vec<Issued> = planned.map(Issued::none_of).collect();
        if let Err(failure) = self.setup(&mut context, stop) {
            stop.stop(StopReason::Failed(format!("{SETUP_FAILED}: {}", describe(&failure))));
        }
        let context = Arc::new(context);
        if !stop.is_stopping() {
            let (plan, context) = (Arc::clone(&self.plan), Arc::clone(&context));
            let (workers, users_max) = (self.workers, self.users_max);
            let load = Arc::new(Load { plan, context, stop: stop.clone(), workers, users_max });
            let seen = runner::run(&load, log, observer);
            notes.extend(seen.notes);
            generator = Some(Generator::from(seen.generator));
            issued = seen.issued;
            if let Some(error) = seen.failed {
                stop.stop(StopReason::Failed(format!("the run log cannot be written: {error}")));
            }
        }
        // Whatever happened, what was set up is taken down; a stop does not stop this.
        let failures = self.teardown(&context);
        notes.extend(failures.iter().map(|failure| format!("teardown failed: {}", describe(failure))));
        let (status, error) = match stop.reason() {
            None => (Status::Finished, None),
            Some(StopReason::Interrupted) => (Status::Interrupted, None),
            Some(StopReason::Threshold) => (Status::Aborted, None),
            Some(StopReason::TimedOut) => (Status::TimedOut, None),
            Some(StopReason::Failed(error)) => (Status::Failed, Some(error)),
        };
        End { status, error, notes, aborted_by: None, generator, rows: None, issued }
    }

    /// Runs setup to its end, to its first failure or until the run is stopped. What it extracted
    /// until then is visible to all iterations and to teardown.
    fn setup(&self, context: &mut Context, stop: &Stop) -> Result<(), Failure> {
        let name = Arc::from("setup");
        let mut variables = context.variables(&name, 0, context.ids.base_id(ONCE, 0));
        let mut user = VirtualUser::new(context);
        let ended = self.runtime.block_on(async {
            tokio::select! {
                ended = user.once(context, &self.plan.setup, &name, &mut variables) => ended,
                () = stop.stopping() => Ok(()),
            }
        });
        let mut shared = (*context.variables).clone();
        for secret in variables.secrets() {
            masking::hide_learned(&secret);
        }
        for (name, value) in variables.own().iter().filter(|(name, _)| !BUILT_IN.contains(&&**name)) {
            match shared.iter_mut().find(|(other, _)| other == name) {
                Some((_, declared)) => declared.clone_from(value),
                None => shared.push((Arc::clone(name), value.clone())),
            }
        }
        context.variables = Arc::new(shared);
        ended
    }

    /// Runs every step of teardown, also after one that failed; gives the failures.
    fn teardown(&self, context: &Context) -> Vec<Failure> {
        let name = Arc::from("teardown");
        let mut variables = context.variables(&name, 0, context.ids.base_id(ONCE, 0));
        let mut user = VirtualUser::new(context);
        let steps = self.plan.teardown.iter();
        steps
            .filter_map(|step| {
                let step = std::slice::from_ref(step);
                self.runtime.block_on(user.once(context, step, &name, &mut variables)).err()
            })
            .collect()
    }
}

fn all_steps(plan: &Plan) -> impl Iterator<Item = &[Step]> {
    let workloads = plan.workloads.iter().map(|workload| workload.steps.as_slice());
    workloads.chain([plan.setup.as_slice(), plan.teardown.as_slice()])
}

fn describe(failure: &Failure) -> String {
    match &failure.action {
        Some(action) => format!("{action}: {}", failure.message),
        None => failure.message.clone(),
    }
}
