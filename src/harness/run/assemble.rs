//! Before anything is sent: reads files, raises limits, makes the run's directory, starts the demo.

use std::cell::{OnceCell, RefCell};
use std::ops::Range;
use std::sync::Arc;

use uuid::Uuid;

use super::catalog::{self, ReplanInputs};
use super::planned::planned;
use super::{
    CloudState, Listeners, LoadShare, OwnServices, PreparedRun, Round, RunExecution, RunIdentity, probe,
};
use crate::error::HarnessError;
use crate::event::{Event, Sink, warn};
use crate::files::Files;
use crate::housekeeping::runtime;
use crate::options::{RunOptions, WatchOptions};
use crate::push_options::{OTLP_VARIABLES, PushHeader, REMOTE_WRITE_VARIABLE};
use crate::shards::ShardAssignment;
use crate::{demo, files, rally_task, receiving};
use base::clock::RunClock;
use client::url::BaseUrl;
use config::Document;
use config::scenario::Scenario;
use measure::ids::RunIds;
use osprofiler::driver::Collector;
use plan::deployment::{DEFAULT_TARGET, ResolvedDeployment};
use plan::levels::as_level;
use plan::rounds::as_round;
use plan::{Plan, SEED_MAX};
use results::directory::RunDirectory;
use terms::runner::Model;

/// Makes the directory of a run, or of a round of one.
fn directory_of(
    options: &RunOptions,
    round: Option<&Round<'_>>,
    plan: &Plan,
    run_id: Uuid,
    clock: &RunClock,
) -> Result<RunDirectory, HarnessError> {
    let shard = plan.shard.is_part().then_some(plan.shard.index());
    match round {
        None => make_directory(options, &plan.title, run_id, clock, shard),
        Some(round) => RunDirectory::make(round.directory)
            .map_err(HarnessError::cannot(format!("make {}", round.directory.display()))),
    }
}

/// The scenario and its deployment as this run has them.
fn files_of(options: &RunOptions, round: Option<&Round<'_>>) -> Result<Files, HarnessError> {
    rally_task::can_report(&options.report.rally)?;
    let RunOptions { scenario, deployment, load, .. } = options;
    let mut files = files::scenario_and_deployment(scenario, deployment.as_ref(), load)?;
    if let Some(round) = round {
        vary(&mut files.document, &mut files.deployment, round)?;
    }
    options
        .shape
        .apply(&mut files.document.value)
        .map_err(|complaint| HarnessError::usage(complaint.what).remedy(complaint.remedy))?;
    replace_addresses(&mut files.deployment, options)?;
    Ok(files)
}

/// Which part of the load this process makes, if it makes a part.
fn part_of(
    options: &mut RunOptions,
    round: Option<&Round<'_>>,
) -> Result<Option<ShardAssignment>, HarnessError> {
    // A round is compared with others of this process.
    if round.is_some() {
        return Ok(None);
    }
    let part = options.shards.part(options.load.seed, &options.load.environment)?;
    if options.shards.lead && part.as_ref().is_some_and(|part| part.shard.index() > 0) {
        // Its own screen, if it has one, shows its part.
        let viewers = options.watch.viewers.take();
        options.watch = WatchOptions { viewers, ..WatchOptions::default() };
    }
    Ok(part)
}

/// Adds the headers of pushed metrics that the environment gives, ahead of those that the caller gives.
fn add_push_headers(options: &mut RunOptions) -> Result<(), HarnessError> {
    let wrong = |what: String| HarnessError::usage(what).remedy("correct the variable, or unset it");
    let (environment, watch) = (&options.load.environment, &mut options.watch);
    if watch.otlp.is_some() {
        let given = PushHeader::of_environment(environment, &OTLP_VARIABLES).map_err(wrong)?;
        watch.otlp_headers.splice(..0, given);
    }
    if watch.remote_write.is_some() {
        let given = PushHeader::of_environment(environment, &[REMOTE_WRITE_VARIABLE]).map_err(wrong)?;
        watch.remote_write_headers.splice(..0, given);
    }
    // A password in the URL counts more than a token that happens to be there.
    if watch.influx.as_ref().is_some_and(|influx| !influx.has_password()) {
        let given = PushHeader::of_influx(environment).map_err(wrong)?;
        watch.influx_headers.splice(..0, given);
    }
    Ok(())
}

/// What else watching takes: headers of the environment, and a feed for the page.
fn complete_watching(options: &mut RunOptions) -> Result<(), HarnessError> {
    if options.watch.page.is_some() {
        options.watch.viewers.get_or_insert_default();
    }
    add_push_headers(options)
}

/// The trace ids, which all parts of a load share.
fn ids_of(part: Option<&ShardAssignment>, plan: &Plan) -> RunIds {
    match part {
        None => RunIds::random(plan.control),
        Some(part) => RunIds::new(part.id_seed(&plan.sha256), plan.control),
    }
}

fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1))
}

/// The seed of rows and of generated values: the scenario's, that of all shards, or a new one.
fn data_seed_of(part: Option<&ShardAssignment>, plan: &Plan) -> u64 {
    let drawn = || part.map_or_else(|| fastrand::u64(..=SEED_MAX), ShardAssignment::data_seed);
    plan.seed.unwrap_or_else(drawn)
}

fn start_demo(
    deployment: &mut ResolvedDeployment,
    directory: &RunDirectory,
) -> Result<Option<::demo::Demo>, HarnessError> {
    demo::start_if_wanted(deployment, directory.path()).inspect_err(|_| {
        // Nothing ran, and the directory was made just now.
        let _ = std::fs::remove_dir_all(directory.path());
    })
}

pub(super) fn assemble(
    mut options: RunOptions,
    round: Option<&Round<'_>>,
    events: &Sink,
) -> Result<PreparedRun, HarnessError> {
    let Files { document, mut deployment, task } = files_of(&options, round)?;
    let part = part_of(&mut options, round)?;
    complete_watching(&mut options)?;
    let RunOptions { load, watch, .. } = &options;
    let plan_of = |deployment: ResolvedDeployment| {
        let mut plan = planned(&options, &document, deployment, task.as_ref())?;
        part.as_ref().map_or(Ok(()), |part| part.take(&mut plan, options.shards.together.is_some()))?;
        Ok::<Plan, HarnessError>(plan)
    };
    // All faults of the files are found before anything is created or started.
    let mut checked = deployment.clone();
    demo::stand_in(&mut checked);
    let mut plan = plan_of(checked)?;
    if options.publish {
        can_publish(&plan)?;
    }
    let workers = load.workers.unwrap_or_else(cores);
    // The embedded demo has the other end of each connection in this process.
    let ends = if deployment.demo.is_some() { 2 } else { 1 };
    let limits = runner::limits::prepare(&plan, ends, workers).map_err(HarnessError::failed)?;
    let users_max = limits.users_max;
    plan.warnings.extend(limits.warnings.iter().cloned());
    let listeners = Listeners {
        metrics: watch.listen()?,
        page: watch.listen_for_page()?,
        spans: receiving::listen(&plan.deployment.spans.receive)?,
    };
    let (clock, run_id) =
        (RunClock::start(), part.as_ref().map_or_else(Uuid::new_v4, ShardAssignment::run_id));
    let directory = directory_of(&options, round, &plan, run_id, &clock)?;
    let awaiting = catalog::is_needed(&plan).then(|| deployment.clone());
    let demo = start_demo(&mut deployment, &directory)?;
    let mut plan = match &demo {
        Some(_) => {
            let mut plan = plan_of(deployment)?;
            plan.warnings.extend(limits.warnings.iter().cloned());
            plan
        }
        None => plan,
    };
    match round {
        None => warn(events, &plan.warnings),
        Some(round) => round.limit(&mut plan),
    }
    let (data_seed, ids) = (data_seed_of(part.as_ref(), &plan), ids_of(part.as_ref(), &plan));
    plan.draw_arrivals(data_seed);
    events.event(&Event::Started { plan: &plan, directory: directory.path() });
    let awaiting =
        awaiting.map(|deployment| ReplanInputs::new((document, deployment), limits.warnings, round));
    let identity = RunIdentity {
        clock,
        run_id,
        ids,
        probe_ids: probe::ids(),
        data_seed,
        window: round.map_or(0..0, |round| round.window.clone()),
        row: in_a_row(&plan, round),
        names_id: if part.is_some() { Uuid::new_v4() } else { run_id },
    };
    let run = RunExecution {
        options,
        events: Arc::clone(events),
        plan: Arc::new(plan),
        identity,
        share: LoadShare { part, began: OnceCell::new(), workers, users_max },
        directory,
        services: OwnServices { demo, receiving: RefCell::new(None) },
        runtime: runtime()?,
        task,
        cloud: CloudState { awaiting, token: None, contexts: None },
    };
    Ok(PreparedRun { run, listeners })
}

/// How many iterations in a row show what waits, at most, and what share of all.
const ROW_MAX: u64 = 600;
const ROW_SHARE: u64 = 4;
const ROW_MIN: u64 = 200;

/// The iterations in the middle of an open load whose spans are all kept; none where spans are not received, or where the
/// load says nothing about queues: the users of a closed one look like servers.
fn in_a_row(plan: &Plan, round: Option<&Round<'_>>) -> Range<u64> {
    let [workload] = &plan.workloads[..] else { return 0..0 };
    if round.is_some() || plan.shard.is_part() {
        return 0..0;
    }
    let is_open = matches!(workload.runner.model, Model::Open(_));
    let receives = !plan.deployment.spans.receive.is_empty();
    let is_traced = plan.profiling_off.is_none() && plan.control.is_none() && plan.traces.slow > 0;
    let planned = workload.planned().unwrap_or(0);
    let length = (planned / ROW_SHARE).min(ROW_MAX);
    if !(is_open && receives && is_traced) || length < ROW_MIN {
        return 0..0;
    }
    planned / 2..planned / 2 + length
}

impl Round<'_> {
    /// Fetches as many traces as the round wants.
    fn limit(&self, plan: &mut Plan) {
        plan.traces.slow = plan.traces.slow.min(self.traces);
        plan.traces.others = plan.traces.others.max(self.random_traces);
    }
}

/// Adapts a scenario to a round, and makes a target the default.
pub(crate) fn vary(
    document: &mut Document<Scenario>,
    deployment: &mut ResolvedDeployment,
    round: &Round<'_>,
) -> Result<(), HarnessError> {
    match round.level {
        Some(level) => as_level(&mut document.value, level),
        None => as_round(&mut document.value, round.length, round.factor),
    }
    .map_err(|complaint| HarnessError::usage(complaint.what).remedy(complaint.remedy))?;
    choose_target(deployment, round.target)
}

/// Takes over the addresses that the options give.
fn replace_addresses(deployment: &mut ResolvedDeployment, options: &RunOptions) -> Result<(), HarnessError> {
    if let Some(address) = options.receive {
        deployment.spans.receive = vec![address];
    }
    options.target.as_ref().map_or(Ok(()), |url| replace_target(deployment, url))
}

/// Makes a URL the default target.
fn replace_target(deployment: &mut ResolvedDeployment, url: &str) -> Result<(), HarnessError> {
    let url = BaseUrl::parse(url)
        .map_err(|complaint| HarnessError::usage(complaint.what).remedy(complaint.remedy))?;
    deployment.targets.retain(|(known, _)| known != DEFAULT_TARGET);
    deployment.targets.push((DEFAULT_TARGET.to_owned(), url));
    Ok(())
}

/// Makes a target the default for actions that name none.
fn choose_target(deployment: &mut ResolvedDeployment, name: Option<&str>) -> Result<(), HarnessError> {
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

/// Refuses `--publish` before the load if publishing is impossible.
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
    shard: Option<u32>,
) -> Result<RunDirectory, HarnessError> {
    RunDirectory::create(&options.out, title, run_id, clock.wall_anchor_unix_ns(), shard).map_err(|error| {
        let out = options.out.display();
        HarnessError::failed(format!("cannot make the run's directory in {out}: {error}"))
            .remedy("choose another with --out")
    })
}
