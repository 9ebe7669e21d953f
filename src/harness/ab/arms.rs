//! The two sides of a comparison, and how to start one.

use std::path::Path;
use std::time::Duration;

use tokio::runtime::Runtime;

use crate::error::HarnessError;
use crate::event::{Sink, warn};
use crate::interrupt::Interrupt;
use crate::options::YamlFile;
use crate::{demo, files, run};
use client::plain::PlainClient;
use client::tls;
use client::url::{BaseUrl, Origin};
use plan::deployment::DEFAULT_TARGET;
use plan::{Plan, SEED_MAX};
use report::pairs::Side;
use terms::threshold::{MetricSubject, RequestPhase};
use verdict::paired::{AbMetric, PercentileMetric, WorkloadNames};

use super::service::{BuildProcess, Ready, is_taken};
use super::{AbOptions, SideOptions, length};

/// One side.
pub(super) struct Arm {
    /// Its deployment's file, if one is given.
    pub(super) deployment: Option<YamlFile>,
    /// The target that is the default one.
    pub(super) target: Option<String>,
    command: Option<String>,
    name: String,
    file: String,
    /// Where it listens.
    origin: Option<Origin>,
}

/// The comparison.
pub(super) struct Job {
    pub(super) title: String,
    pub(super) names: Vec<WorkloadNames>,
    /// What was said before the first round.
    pub(super) warnings: Vec<String>,
    pub(super) a: Arm,
    pub(super) b: Arm,
    ready: Option<(String, PlainClient)>,
    /// The seed from which each pair has its own.
    pub(super) seed: u64,
    /// Whether requests depend on the seed.
    pub(super) uses_seed: bool,
    /// For how long the load of a round lasts, if only the clock bounds it.
    pub(super) round: Option<Duration>,
}

/// Refuses a time of streams where no action is answered by one.
fn can_time(metric: &PercentileMetric, side: &str, plan: &Plan) -> Result<(), HarnessError> {
    if !metric.phase.is_some_and(RequestPhase::is_of_streams) {
        return Ok(());
    }
    let subject = metric.action.clone().map(MetricSubject::Action);
    let mut workloads = plan.workloads.iter().map(|workload| plan::step::names(&workload.named()));
    if workloads.any(|names| !names.streaming_members(subject.as_ref()).is_empty()) {
        return Ok(());
    }
    let text = format!("no action of {side} that `{metric}` is about is answered by a stream");
    Err(HarnessError::input(text).remedy("name an action with `stream: events`, `lines` or `chunks`, or with a `receive` that has `count` or `for`"))
}

/// Reads all files of both sides, to find every fault before anything starts.
pub(super) fn prepare(options: &AbOptions, events: &Sink) -> Result<Job, HarnessError> {
    let (plan_a, a) = arm(options, &options.a)?;
    let (plan_b, b) = arm(options, &options.b)?;
    if plan_a.profiling_off.is_some() != plan_b.profiling_off.is_some() {
        let text = "one side is profiled and the other is not, which alone makes a difference";
        return Err(HarnessError::input(text).remedy("give both a key, or add --no-profile"));
    }
    if options.metrics.iter().any(|metric| matches!(metric, AbMetric::Count(_))) {
        [("A", &plan_a), ("B", &plan_b)].into_iter().try_for_each(|(side, plan)| can_count(side, plan))?;
    }
    for metric in &options.metrics {
        let AbMetric::Percentile(metric) = metric else { continue };
        [("A", &plan_a), ("B", &plan_b)]
            .into_iter()
            .try_for_each(|(side, plan)| can_time(metric, side, plan))?;
    }
    let mut warnings = plan_a.warnings.clone();
    warnings.extend(plan_b.warnings.iter().filter(|text| !plan_a.warnings.contains(text)).cloned());
    warn(events, &warnings);
    let ready = match &options.ready {
        None => None,
        Some(url) => Some((url.clone(), client(url, &plan_a)?)),
    };
    let seed = plan_a.seed.unwrap_or_else(|| fastrand::u64(..=SEED_MAX));
    Ok(Job {
        title: plan_a.title.clone(),
        names: super::names(&plan_a),
        warnings,
        a,
        b,
        ready,
        seed,
        uses_seed: plan_a.uses_seed,
        round: length::of_round(&plan_a),
    })
}

/// Refuses to count trace points if there will be no traces.
fn can_count(side: &str, plan: &Plan) -> Result<(), HarnessError> {
    let deployment = &plan.deployment;
    let (what, remedy) = if let Some(reason) = &plan.profiling_off {
        (format!("nothing of {side} is profiled: {reason}"), "profile it, or judge only percentiles")
    } else if plan.traces.slow == 0 {
        let text = "the scenario says that no trace is kept (trace: {fetch: none})".to_owned();
        (text, "remove `fetch: none`")
    } else if deployment.connection_string.is_none() && deployment.spans.receive.is_empty() {
        let text = format!("the deployment of {side} names neither a collector nor a receiver");
        (text, "add profiler.connection_string or profiler.receive")
    } else {
        return Ok(());
    };
    Err(HarnessError::input(format!("cannot count trace points: {what}")).remedy(remedy))
}

fn arm(options: &AbOptions, side: &SideOptions) -> Result<(Plan, Arm), HarnessError> {
    let (scenario, load) = (&options.scenario, &options.load);
    let SideOptions { deployment: file, target, command } = side;
    let files::Files { mut document, mut deployment, task } =
        files::scenario_and_deployment(scenario, file.as_ref(), load)?;
    let round = run::Round {
        directory: &options.out,
        target: target.as_deref(),
        length: options.round,
        factor: 1.0,
        traces: 0,
        random_traces: 0,
        level: None,
        window: 0..0,
    };
    run::vary(&mut document, &mut deployment, &round)?;
    demo::stand_in(&mut deployment);
    let plan = files::plan(scenario, &document, deployment, task.as_ref(), load)?;
    let deployment = &plan.deployment;
    let target_url = deployment.targets.iter().find(|(name, _)| name == DEFAULT_TARGET);
    let origin = target_url.map(|(_, url)| url.origin.clone());
    let name = command.as_ref().or(target.as_ref()).unwrap_or(&deployment.name).clone();
    let name = match deployment.demo.filter(|demo| demo.slowdown > 0.0) {
        Some(demo) => format!("{name}, slowed down by {}%", demo.slowdown * 100.0),
        None => name,
    };
    let arm = Arm {
        deployment: file.clone(),
        target: target.clone(),
        command: command.clone(),
        name,
        file: deployment.file.display().to_string(),
        origin,
    };
    Ok((plan, arm))
}

fn client(url: &str, plan: &Plan) -> Result<PlainClient, HarnessError> {
    let wrong = |error: String| HarnessError::usage(format!("--ready {url}: {error}"));
    let base = BaseUrl::parse(url).map_err(|complaint| wrong(complaint.to_string()))?;
    let tls = tls::config(&plan.deployment.tls, base.origin.tls).map_err(|error| wrong(error.to_string()))?;
    PlainClient::new(&tls, &plan.http.dns).map_err(|error| wrong(error.to_string()))
}

impl Arm {
    /// How reports describe it.
    pub(super) fn side(&self) -> Side {
        Side {
            name: self.name.clone(),
            deployment: self.file.clone(),
            target: self.target.clone(),
            command: self.command.clone(),
        }
    }

    /// Starts its command, if it has one, and waits until it answers.
    pub(super) fn start(
        &self,
        job: &Job,
        directory: &Path,
        runtime: &Runtime,
        interrupt: &Interrupt,
    ) -> Result<Option<BuildProcess>, HarnessError> {
        let Some(command) = &self.command else { return Ok(None) };
        let unreachable = |text: String| HarnessError::unreachable(format!("{}: {text}", self.name));
        let ready = match (&job.ready, &self.origin) {
            (Some((url, client)), _) => Ready::Url(url.clone(), client.clone()),
            (None, Some(origin)) => Ready::Port(origin.clone()),
            (None, None) => {
                return Err(unreachable("no target `default` to wait for; give --ready URL".to_owned()));
            }
        };
        if is_taken(&ready, runtime) {
            let text = format!(
                "{ready} answers before the command was started: end what runs there, so that it is not measured"
            );
            return Err(unreachable(text));
        }
        let side = if std::ptr::eq(self, &job.b) { "b.log" } else { "a.log" };
        let mut service = BuildProcess::start(command, &directory.join(side))
            .map_err(|error| unreachable(format!("it cannot be started: {error}")))?;
        service.wait(&ready, runtime, interrupt).map_err(unreachable)?;
        Ok(Some(service))
    }
}
