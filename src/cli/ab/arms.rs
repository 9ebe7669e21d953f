//! The two sides of a comparison: which they are, and how one is started.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use tokio::runtime::Runtime;

use crate::client::plain::PlainClient;
use crate::client::tls;
use crate::client::url::{BaseUrl, Origin};
use crate::plan::Plan;
use crate::plan::deployment::DEFAULT_TARGET;
use crate::report::pairs::Side;
use crate::verdict::paired::Names;

use super::AbArguments;
use super::service::{Ready, Service, is_taken};
use crate::cli::exit::{Exit, Stopped};
use crate::cli::{demo, files};

/// One side.
pub(super) struct Arm {
    /// Its deployment's file, if one is given.
    pub(super) deployment: Option<PathBuf>,
    /// The target that is the default one.
    pub(super) target: Option<String>,
    command: Option<String>,
    name: String,
    file: String,
    /// Where it listens.
    origin: Option<Origin>,
}

/// What is compared.
pub(super) struct Job {
    pub(super) title: String,
    pub(super) names: Vec<Names>,
    pub(super) a: Arm,
    pub(super) b: Arm,
    ready: Option<(String, PlainClient)>,
}

/// Reads all files of both sides, so that every fault is known before anything starts.
pub(super) fn prepare(arguments: &AbArguments) -> Result<Job, Stopped> {
    let usage = |text: &str| Stopped::new(Exit::Usage, format!("error: {text}"));
    let given = &arguments.deployment;
    let sides = arguments.target_a.is_some() || arguments.base_cmd.is_some();
    let (a, b) = match (given.as_slice(), sides) {
        ([a, b], false) => (Some(a), Some(b)),
        ([one], true) => (Some(one), Some(one)),
        ([], true) => (None, None),
        ([_, _], true) => {
            return Err(usage(
                "two deployments, and targets or commands: what is A, what is B? give one deployment",
            ));
        }
        ([_, _, ..], _) => return Err(usage("more than two deployments: give A's and B's")),
        _ => {
            return Err(usage(
                "what is A, what is B? give two deployments (-d A.yaml -d B.yaml), two targets (--target-a, --target-b) or two commands (--base-cmd, --new-cmd)",
            ));
        }
    };
    let (plan_a, a) = arm(arguments, a, &arguments.target_a, &arguments.base_cmd)?;
    let (plan_b, b) = arm(arguments, b, &arguments.target_b, &arguments.new_cmd)?;
    if plan_a.profiling_off.is_some() != plan_b.profiling_off.is_some() {
        let text = "one side is profiled and the other is not, which alone makes a difference: give both a key, or add --no-profile";
        return Err(Stopped::new(Exit::Input, format!("error: {text}")));
    }
    files::warn(&plan_a.warnings);
    files::warn(
        &plan_b.warnings.iter().filter(|text| !plan_a.warnings.contains(text)).cloned().collect::<Vec<_>>(),
    );
    let ready = match &arguments.ready {
        None => None,
        Some(url) => Some((url.clone(), client(url, &plan_a)?)),
    };
    Ok(Job { title: plan_a.title.clone(), names: super::names(&plan_a), a, b, ready })
}

fn arm(
    arguments: &AbArguments,
    file: Option<&PathBuf>,
    target: &Option<String>,
    command: &Option<String>,
) -> Result<(Plan, Arm), Stopped> {
    let options = arguments.load.options();
    let path = &arguments.scenario;
    let (mut document, mut deployment) =
        files::scenario_and_deployment(path, file.map(PathBuf::as_path), &options)?;
    let round = super::run::Round {
        directory: &arguments.out,
        target: target.as_deref(),
        length: arguments.round,
        factor: 1.0,
        traces: 0,
    };
    super::run::vary(&mut document, &mut deployment, &round)?;
    demo::stand_in(&mut deployment);
    let plan = files::plan(path, &document, deployment, &options)?;
    let deployment = &plan.deployment;
    let target_url = deployment.targets.iter().find(|(name, _)| name == DEFAULT_TARGET);
    let origin = target_url.map(|(_, url)| url.origin.clone());
    let name = command.as_ref().or(target.as_ref()).unwrap_or(&deployment.name).clone();
    let name = match deployment.demo.filter(|demo| demo.slowdown > 0.0) {
        Some(demo) => format!("{name}, slowed down by {}%", demo.slowdown * 100.0),
        None => name,
    };
    let arm = Arm {
        deployment: file.cloned(),
        target: target.clone(),
        command: command.clone(),
        name,
        file: deployment.file.display().to_string(),
        origin,
    };
    Ok((plan, arm))
}

fn client(url: &str, plan: &Plan) -> Result<PlainClient, Stopped> {
    let wrong = |error: String| Stopped::new(Exit::Usage, format!("error: --ready {url}: {error}"));
    let base = BaseUrl::parse(url).map_err(wrong)?;
    let tls = tls::config(&plan.deployment.tls, base.origin.tls).map_err(|error| wrong(error.to_string()))?;
    PlainClient::new(&tls, &plan.http.dns).map_err(|error| wrong(error.to_string()))
}

impl Arm {
    /// What reports say of it.
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
        interrupted: &AtomicBool,
    ) -> Result<Option<Service>, Stopped> {
        let Some(command) = &self.command else { return Ok(None) };
        let unreachable =
            |text: String| Stopped::new(Exit::Unreachable, format!("error: {}: {text}", self.name));
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
        let mut service = Service::start(command, &directory.join(side))
            .map_err(|error| unreachable(format!("it cannot be started: {error}")))?;
        service.wait(&ready, runtime, interrupted).map_err(unreachable)?;
        Ok(Some(service))
    }
}
