//! `bench run`: from the files to the report, in the order in which it happens.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::{ACCEPT, HeaderValue, USER_AGENT};
use tokio::runtime::Runtime;
use uuid::Uuid;

use crate::base::clock::RunClock;
use crate::base::ids::IdSpace;
use crate::base::secret::{Secret, redacted_url};
use crate::client::options::Settings;
use crate::client::plain::PlainClient;
use crate::client::pool;
use crate::client::tls;
use crate::collect::{self, Fetched, Wanted};
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
use crate::plan::deployment::Auth;
use crate::plan::scenario::{BUILT_IN, Options};
use crate::plan::{Plan, deployment::Deployment};
use crate::report::metrics::RunFacts;
use crate::results::choice::Chosen;
use crate::results::directory::RunDirectory;
use crate::results::header::{End, Header, WorkloadHeader};
use crate::results::model::{DeploymentInfo, Environment, RunStatus, ScenarioInfo};
use crate::runner::stop::{Stop, StopReason};
use crate::runner::{self, Load, Observer};
use crate::verdict::live::LiveGate;

use super::exit::{Exit, Stopped};
use super::housekeeping::{Housekeeping, Signals};
use super::progress::Shown;
use super::{RunArguments, files, finish};

const PROBE_LIMIT: Duration = Duration::from_secs(5);
/// Points of iterations that ended within this time may still be under way.
const RECENT_NS: u64 = 2_000_000_000;

pub(super) fn run(arguments: &RunArguments) -> Result<Exit, Stopped> {
    let options = Options { set: arguments.set.iter().cloned().collect(), no_profile: arguments.no_profile };
    let (document, mut deployment) =
        files::scenario_and_deployment(&arguments.scenario, arguments.deployment.as_deref(), &options)?;
    // Every fault of the files is known before anything is made or started.
    let mut checked = deployment.clone();
    super::demo::stand_in(&mut checked);
    let mut plan = files::plan(&arguments.scenario, &document, checked, &options)?;
    let cores = || std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1));
    let workers = arguments.workers.unwrap_or_else(cores);
    // The embedded demo has the other end of each connection in this process.
    let ends = if deployment.demo.is_some() { 2 } else { 1 };
    let limits = runner::limits::prepare(&plan, ends, workers)
        .map_err(|error| Stopped::new(Exit::Failed, format!("error: {error}")))?;
    let users_max = limits.users_max;
    plan.warnings.extend(limits.warnings.iter().cloned());
    let listener = arguments.watch.listen()?;
    let (clock, run_id) = (RunClock::start(), Uuid::new_v4());
    let directory = make_directory(arguments, &plan.title, run_id, &clock)?;
    let demo = super::demo::start_if_wanted(&mut deployment, directory.path())?;
    let plan = match &demo {
        Some(_) => {
            let mut plan = files::plan(&arguments.scenario, &document, deployment, &options)?;
            plan.warnings.extend(limits.warnings);
            plan
        }
        None => plan,
    };
    files::warn(&plan.warnings);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
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
    run.go(listener)
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
    fn go(self, listener: Option<std::net::TcpListener>) -> Result<Exit, Stopped> {
        // From here on, a signal is never lost and never ends the process on its own.
        let mut signals = self.runtime.block_on(async { Signals::listen() })?;
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
        if log.lost() > 0 {
            end.notes.push(format!("{} iterations ran that the run log had no room for", log.lost()));
        }
        let ended = serde_json::to_vec(&end).map_err(std::io::Error::other).and_then(|json| log.end(&json));
        drop(log);
        self.runtime.block_on(watched.finish());
        let finished = self.finish(&stop, &shown);
        housekeeping.abort();
        // What the log holds is reported all the same, but such a run did not go well.
        ended.map_err(|error| self.log_failed(&error))?;
        finished
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
        let wants_tls =
            login_over_tls || self.arguments.watch.wants_tls() || origins.iter().any(|origin| origin.tls);
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
            headers: default_headers(Some(deployment)),
            foreign_headers: default_headers(None),
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
        if let Err(failure) = self.setup(&mut context, stop) {
            stop.stop(StopReason::Failed(format!("setup failed: {}", describe(&failure))));
        }
        let context = Arc::new(context);
        if !stop.is_stopping() {
            let (plan, context) = (Arc::clone(&self.plan), Arc::clone(&context));
            let (workers, users_max) = (self.workers, self.users_max);
            let load = Arc::new(Load { plan, context, stop: stop.clone(), workers, users_max });
            match runner::run(&load, log, observer) {
                Ok(seen) => {
                    notes.extend(seen.notes);
                    generator = Some(seen.generator);
                }
                Err(error) => {
                    stop.stop(StopReason::Failed(format!("the run log cannot be written: {error}")))
                }
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
        End { status, error, notes, aborted_by: None, generator }
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

    fn header(&self) -> Header {
        let (plan, deployment) = (&self.plan, &self.plan.deployment);
        let workloads = plan.workloads.iter().map(|workload| WorkloadHeader {
            name: workload.name.clone(),
            runner: workload.runner.to_json(),
            sla: workload.sla.clone(),
            actions: workload
                .actions()
                .map(|action| (action.name.to_string(), action.label.clone()))
                .collect(),
        });
        Header {
            run_id: self.run_id,
            id_seed: self.ids.seed(),
            started_unix_ns: self.clock.wall_anchor_unix_ns(),
            scenario: ScenarioInfo {
                title: plan.title.clone(),
                file: plan.file.display().to_string(),
                sha256: plan.sha256.clone(),
                set: plan.set.clone(),
            },
            deployment: DeploymentInfo {
                name: deployment.name.clone(),
                file: deployment.file.display().to_string(),
                targets: deployment
                    .targets
                    .iter()
                    .map(|(name, url)| (name.clone(), url.to_string()))
                    .collect(),
                tls_verified: deployment.tls.verify,
                auth: deployment.auth.kind().to_owned(),
            },
            profiling_off: plan.profiling_off.clone(),
            collector: deployment
                .connection_string
                .as_ref()
                .map(|connection| redacted_url(connection.expose())),
            environment: Environment {
                bench_version: env!("CARGO_PKG_VERSION").to_owned(),
                os: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
                cpus: std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1)),
                workers: self.workers,
            },
            control: plan.control,
            traces_wanted: (plan.traces.slow, plan.traces.others),
            notes: plan.warnings.clone(),
            workloads: workloads.collect(),
        }
    }

    /// The collector to ask, if anything is profiled and there is one that can be read.
    fn collector(&self) -> Option<&Secret> {
        let connection = self.plan.deployment.connection_string.as_ref();
        connection.filter(|connection| {
            self.plan.profiling_off.is_none() && Collector::reads(connection.expose()).is_ok()
        })
    }

    /// The traces of the chosen iterations. A signal ends it, unless one has ended the load already.
    fn fetch(&self, connection: &Secret, chosen: &[Chosen], stop: &Stop, shown: &Shown) -> Fetched {
        let recent_ns = self.clock.now_ns().saturating_sub(RECENT_NS);
        let wanted = |Chosen { sample, .. }: &Chosen| Wanted {
            id: self.ids.base_id(sample.workload, sample.number),
            recent: sample.start_ns.saturating_add(sample.duration_ns) > recent_ns,
        };
        let wanted: Vec<Wanted> = chosen.iter().map(wanted).collect();
        shown.say(&format!("fetching {} traces: slow, failed and typical iterations", wanted.len()));
        let stopping = stop.is_stopping();
        let enough = async { if stopping { std::future::pending().await } else { stop.stopping().await } };
        self.runtime.block_on(collect::fetch(connection, &wanted, self.plan.traces.settle, enough))
    }

    /// Results, traces, causes, verdict, report.
    fn finish(&self, stop: &Stop, shown: &Shown) -> Result<Exit, Stopped> {
        let (aggregate, mut results) = finish::aggregate(&self.directory)?;
        let (mut traces, mut chosen, mut fetched) = (Vec::new(), Vec::new(), Fetched::default());
        if let (Some(connection), false) =
            (self.collector(), aggregate.slowest.is_empty() || self.plan.traces.slow == 0)
        {
            if let Some(Err(error)) = self.demo.as_ref().map(Demo::flush) {
                results.notes.push(format!("the demo's collector: {error}"));
            }
            chosen = finish::choose(&self.directory, &aggregate)?;
            fetched = self.fetch(connection, &chosen, stop, shown);
            traces = finish::explain(&mut results, &aggregate, &chosen, &fetched);
        }
        finish::judge(&self.directory, &aggregate, &mut results, &chosen, &fetched)?;
        let exit = finish::write(&self.directory, &aggregate, &results, &traces, self.arguments.quiet)?;
        self.arguments.gate.publish(&self.directory, &results, exit)
    }
}

fn all_steps(plan: &Plan) -> impl Iterator<Item = &[Step]> {
    let workloads = plan.workloads.iter().map(|workload| workload.steps.as_slice());
    workloads.chain([plan.setup.as_slice(), plan.teardown.as_slice()])
}

/// The harness's own headers and, for its targets, the deployment's.
fn default_headers(deployment: Option<&Deployment>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("bench/", env!("CARGO_PKG_VERSION"))));
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    headers.extend(deployment.into_iter().flat_map(|deployment| deployment.headers.iter().cloned()));
    headers
}

fn describe(failure: &Failure) -> String {
    match &failure.action {
        Some(action) => format!("{action}: {}", failure.message),
        None => failure.message.clone(),
    }
}
