//! `bench run`: from the files to the report, in the order in which it happens.

mod after;
mod header;
mod record;

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
use crate::measure::log::LogWriter;
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
use crate::results::header::End;
use crate::results::model::{Results, RunStatus};
use crate::results::trace::StoredTrace;
use crate::runner::stop::{Stop, StopReason};
use crate::runner::{self, Issued, Load, Observer};
use crate::verdict::live::LiveGate;

use self::record::Ended;
use super::exit::{Exit, Stopped};
use super::housekeeping::{Housekeeping, Signals};
use super::progress::Shown;
use super::{RunArguments, files};

/// How the error of a run begins whose setup failed.
pub(super) const SETUP_FAILED: &str = "setup failed";
const PROBE_LIMIT: Duration = Duration::from_secs(5);

pub(super) fn run(arguments: &RunArguments) -> Result<Exit, Stopped> {
    let (run, listener) = assemble(arguments, None)?;
    run.go(listener, Run::finish)
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
pub(super) fn round(arguments: &RunArguments, round: &Round<'_>) -> Result<RoundEnded, Stopped> {
    let (run, listener) = assemble(arguments, Some(round))?;
    run.go(listener, Run::finish_round)
}

/// Reads the files, makes the directory, starts the demo if it is wanted.
fn assemble<'a>(
    arguments: &'a RunArguments,
    round: Option<&Round<'_>>,
) -> Result<(Run<'a>, Option<std::net::TcpListener>), Stopped> {
    let options = arguments.load.options();
    let (mut document, mut deployment) =
        files::scenario_and_deployment(&arguments.scenario, arguments.deployment.as_deref(), &options)?;
    if let Some(round) = round {
        vary(&mut document, &mut deployment, round)?;
    }
    // Every fault of the files is known before anything is made or started.
    let mut checked = deployment.clone();
    super::demo::stand_in(&mut checked);
    let mut plan = files::plan(&arguments.scenario, &document, checked, &options)?;
    if arguments.publish {
        can_publish(&plan)?;
    }
    let cores = || std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1));
    let workers = arguments.load.workers.unwrap_or_else(cores);
    // The embedded demo has the other end of each connection in this process.
    let ends = if deployment.demo.is_some() { 2 } else { 1 };
    let limits = runner::limits::prepare(&plan, ends, workers)
        .map_err(|error| Stopped::new(Exit::Failed, format!("error: {error}")))?;
    let users_max = limits.users_max;
    plan.warnings.extend(limits.warnings.iter().cloned());
    let listener = arguments.watch.listen()?;
    let (clock, run_id) = (RunClock::start(), Uuid::new_v4());
    let directory = match round {
        None => make_directory(arguments, &plan.title, run_id, &clock)?,
        Some(round) => RunDirectory::make(round.directory)
            .map_err(Stopped::cannot(format!("make {}", round.directory.display())))?,
    };
    let demo = super::demo::start_if_wanted(&mut deployment, directory.path()).inspect_err(|_| {
        // Nothing ran, and the directory was made just now.
        let _ = std::fs::remove_dir_all(directory.path());
    })?;
    let mut plan = match &demo {
        Some(_) => {
            let mut plan = files::plan(&arguments.scenario, &document, deployment, &options)?;
            plan.warnings.extend(limits.warnings);
            plan
        }
        None => plan,
    };
    match round {
        None => files::warn(&plan.warnings),
        Some(round) => plan.traces.slow = plan.traces.slow.min(round.traces),
    }
    let runtime = super::housekeeping::runtime()?;
    let run = Run {
        arguments,
        plan: Arc::new(plan),
        clock,
        ids: IdSpace::random(),
        run_id,
        workers,
        users_max,
        directory,
        demo,
        runtime,
    };
    Ok((run, listener))
}

fn usage(error: String) -> Stopped {
    Stopped::new(Exit::Usage, format!("error: {error}"))
}

/// Makes a scenario one of a round, and a target the default one.
pub(super) fn vary(
    document: &mut Document<Scenario>,
    deployment: &mut Deployment,
    round: &Round<'_>,
) -> Result<(), Stopped> {
    as_round(&mut document.value, round.length, round.factor).map_err(usage)?;
    choose_target(deployment, round.target)
}

/// Makes a target the one that actions use which name none.
fn choose_target(deployment: &mut Deployment, name: Option<&str>) -> Result<(), Stopped> {
    let Some(name) = name else { return Ok(()) };
    let named = deployment.targets.iter().find(|(known, _)| known == name).map(|(_, url)| url.clone());
    let Some(url) = named else {
        let known: Vec<&str> = deployment.targets.iter().map(|(name, _)| name.as_str()).collect();
        let (file, known) = (deployment.file.display(), known.join(", "));
        return Err(usage(format!("{file} has no target `{name}`; it has {known}")));
    };
    deployment.targets.retain(|(known, _)| known != DEFAULT_TARGET);
    deployment.targets.push((DEFAULT_TARGET.to_owned(), url));
    Ok(())
}

/// Says before the load that nothing could be published after it.
fn can_publish(plan: &Plan) -> Result<(), Stopped> {
    let wrong = |why: String| Err(Stopped::new(Exit::Usage, format!("error: cannot --publish: {why}")));
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
    arguments: &RunArguments,
    title: &str,
    run_id: Uuid,
    clock: &RunClock,
) -> Result<RunDirectory, Stopped> {
    RunDirectory::create(&arguments.out, title, run_id, clock.wall_anchor_unix_ns()).map_err(|error| {
        let out = arguments.out.display();
        let text =
            format!("error: cannot make the run's directory in {out}: {error}; choose another with --out");
        Stopped::new(Exit::Failed, text)
    })
}

struct Run<'a> {
    arguments: &'a RunArguments,
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

impl Run<'_> {
    fn go<T>(
        self,
        listener: Option<std::net::TcpListener>,
        finish: impl FnOnce(&Self, Ended, &Stop, &Shown) -> Result<T, Stopped>,
    ) -> Result<T, Stopped> {
        // From here on, a signal is never lost and never ends the process on its own.
        let signals = self.runtime.block_on(async { Signals::listen() });
        let mut signals = signals.map_err(Stopped::cannot("listen to signals"))?;
        let prepared = self.runtime.block_on(async {
            tokio::select! {
                prepared = self.prepare() => prepared,
                () = signals.next() => {
                    Err(Stopped::new(Exit::Interrupted, "interrupted before the load began: nothing ran"))
                }
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
        let watch = &self.arguments.watch;
        let mut watched = watch.start(listener, &self.plan, self.facts(), &prepared.client, &self.runtime)?;
        let stop = Stop::default();
        let housekeeping = Housekeeping {
            plan: Arc::clone(&self.plan),
            stop: stop.clone(),
            credentials: Arc::clone(&prepared.context.credentials),
            client: prepared.client,
            token_valid_for: prepared.token_valid_for,
            directory: self.directory.path().to_path_buf(),
        };
        let housekeeping = self.runtime.spawn(housekeeping.keep(signals));
        let mut log = self.start_log().map_err(|error| self.log_failed(&error))?;
        let profiled = self.plan.profiling_off.is_none().then_some(self.plan.control);
        let mut shown = Shown::new(self.ids, self.arguments.quiet, profiled);
        if let Some(reason) = &self.plan.profiling_off {
            shown.say(&format!("not profiling: {reason}"));
        }
        let mut observer = watched.observer(&mut shown);
        let mut gate = LiveGate::new(&self.plan, self.ids, &stop, &mut observer);
        let mut end = self.load(prepared.context, &stop, &mut log, &mut gate);
        end.aborted_by = gate.broken();
        end.notes.extend(gate.note(&self.plan));
        let ended = record::close(log, end, &self.directory);
        self.runtime.block_on(watched.finish());
        let unsaved = ended.unsaved.clone();
        let finished = finish(&self, ended, &stop, &shown);
        housekeeping.abort();
        // What was recorded is reported all the same, but such a run did not go well.
        unsaved.map_or(finished, |why| Err(Stopped::new(Exit::Failed, format!("error: {why}"))))
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
        log.header(&serde_json::to_vec(&self.header()).map_err(std::io::Error::other)?)?;
        Ok(log)
    }

    fn log_failed(&self, error: &std::io::Error) -> Stopped {
        let text = format!("error: {} cannot be written: {error}", self.directory.log().display());
        Stopped::new(Exit::Failed, text)
    }

    /// Everything that must answer before the load may start.
    async fn prepare(&self) -> Result<Prepared, Stopped> {
        let unreachable = |text: String| Stopped::new(Exit::Unreachable, format!("error: {text}"));
        let deployment = &self.plan.deployment;
        let mut origins = Vec::new();
        for action in all_steps(&self.plan).flat_map(actions) {
            if !origins.contains(&&action.base.origin) {
                origins.push(&action.base.origin);
            }
        }
        let login_over_tls = matches!(&deployment.auth, Auth::Keystone(login) if login.auth_url.origin.tls);
        let wants_tls = login_over_tls
            || self.arguments.watch.wants_tls()
            || origins.iter().any(|origin| origin.tls)
            || self.plan.http.guard.allows_others();
        let tls = tls::config(&deployment.tls, wants_tls)
            .map_err(|error| Stopped::new(Exit::Input, format!("error: {error}")))?;
        let http = Settings::new(&tls, self.plan.http.clone());
        for origin in origins {
            pool::probe(origin, &http, PROBE_LIMIT).await.map_err(|error| unreachable(error.to_string()))?;
        }
        if let Some(connection) = self.collector() {
            collect::probe(connection).await.map_err(|error| {
                unreachable(format!(
                    "the collector does not answer: {error}\nTraced services fail without it: start it, or run with --no-profile."
                ))
            })?;
        }
        let client =
            PlainClient::new(&tls, &self.plan.http.dns).map_err(|error| unreachable(error.to_string()))?;
        let (credentials, token_valid_for) = Credentials::establish(&deployment.auth, &client)
            .await
            .map_err(|error| unreachable(error.to_string()))?;
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
            generator = Some(seen.generator);
            issued = seen.issued;
            if let Some(error) = seen.failed {
                stop.stop(StopReason::Failed(format!("the run log cannot be written: {error}")));
            }
        }
        // Whatever happened, what was set up is taken down; a stop does not stop this.
        let failures = self.teardown(&context);
        notes.extend(failures.iter().map(|failure| format!("teardown failed: {}", describe(failure))));
        let (status, error) = match stop.reason() {
            None => (RunStatus::Finished, None),
            Some(StopReason::Interrupted) => (RunStatus::Interrupted, None),
            Some(StopReason::Threshold) => (RunStatus::Aborted, None),
            Some(StopReason::TimedOut) => (RunStatus::TimedOut, None),
            Some(StopReason::Failed(error)) => (RunStatus::Failed, Some(error)),
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
