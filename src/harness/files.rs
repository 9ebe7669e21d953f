//! Reads scenarios and deployments, and reports all their faults.

use std::path::Path;

use http::HeaderMap;
use http::header::{ACCEPT, HeaderValue, USER_AGENT};

use config::{Document, RejectedFile, scenario::Scenario};
use plan::deployment::ResolvedDeployment;
use plan::references::Env;
use plan::step::actions;
use plan::{self, Plan, include, scenario};
use report::document::terminal::TerminalStyle;
use text::diagnostics::{Fault, SourceText};
use text::files::open_named;
use text::similar::did_you_mean;
use text::yaml;

use super::built_in;
use super::demo;
use super::error::HarnessError;
use super::event::{Sink, warn};
use super::options::{Environment, LoadOptions, YamlFile};
use super::rally_task::{self, TaskFile};
pub use super::reading::deployment;
pub(super) use super::reading::source;
use super::{inline_deployment, whole_urls};

/// A deployment; if it cannot be used, also one with unknown values for what is not set, so that the targets of a
/// scenario can be checked.
fn with_stand_in(
    file: &YamlFile,
    environment: &Environment,
) -> (Result<ResolvedDeployment, HarnessError>, Option<ResolvedDeployment>) {
    let read = deployment(file, environment);
    let stand_in = read.as_ref().err().and_then(|_| deployment(file, &Environment::offline()).ok());
    (read, stand_in)
}

const NO_DEPLOYMENT: &str = "add `deployment: FILE` to the scenario, or give -d FILE; if all its URLs are whole, with http://, it needs none";

/// A scenario with its deployment.
pub(super) struct Files {
    pub(super) document: Document<Scenario>,
    pub(super) deployment: ResolvedDeployment,
    /// What else the file says, if it is a task file of Rally.
    pub(super) task: Option<TaskFile>,
}

/// A scenario with its deployment; all faults of both are shown together. Faults that show only in a scenario without
/// others are found by [`plan()`].
pub(super) fn scenario_and_deployment(
    file: &YamlFile,
    given: Option<&YamlFile>,
    load: &LoadOptions,
) -> Result<Files, HarnessError> {
    if let Some((scenario, deployment)) = built_in::named(file) {
        return scenario_and_deployment(&scenario, given.or(Some(&deployment)), load);
    }
    match source(file) {
        Ok(source) if rally_task::is_task(&source.text) => {
            let (document, deployment, task) = rally_task::read(file, source, given, load)?;
            Ok(Files { document, deployment, task: Some(task) })
        }
        read => with_its_deployment(file, read, given, load),
    }
}

fn with_its_deployment(
    file: &YamlFile,
    read: Result<SourceText, HarnessError>,
    given: Option<&YamlFile>,
    load: &LoadOptions,
) -> Result<Files, HarnessError> {
    let (path, options) = (file.path(), &load.of_plan());
    let look_up = |name: &str| load.environment.get(name);
    let env = Env::new(&look_up).leaving_open(load.environment.is_offline());
    let deployment = |file: &YamlFile| with_stand_in(file, &load.environment);
    let scenario = match read {
        Ok(source) => {
            rally_task::refuse_arguments(load)?;
            scenario::read(source)
        }
        Err(stopped) => {
            let deployment = given.and_then(|given| deployment(given).0.err());
            return Err(deployment.into_iter().fold(stopped, HarnessError::and));
        }
    };
    let root = root_of(&scenario);
    let named = root.as_ref().and_then(|root| scenario::named_deployment(path, root));
    let (mut own_faults, mut deployment_read) = (Vec::new(), None);
    match (given, named) {
        (Some(given), _) => deployment_read = Some(deployment(given)),
        (None, Some((named, span))) => match readable(&named) {
            Ok(()) => deployment_read = Some(deployment(&named.into())),
            Err(error) => {
                let message = format!("cannot read the deployment {}: {error}", named.display());
                let help = "name a file relative to this one, or give another with -d FILE";
                own_faults.push(Fault::error(span, message).help(help));
            }
        },
        (None, None) => {
            let made = root.as_ref().and_then(|root| made_of(path, text_of(&scenario), root));
            deployment_read = made.as_ref().map(deployment);
            if made.is_none() && root.as_ref().is_some_and(|root| root.get("deployment").is_none()) {
                own_faults.push(Fault::file("no deployment is named").help(NO_DEPLOYMENT));
            }
        }
    }
    let (deployment, broken, mut stand_in) = match deployment_read {
        Some((Ok(deployment), _)) => (Some(deployment), None, None),
        Some((Err(stopped), stand_in)) => (None, Some(stopped), stand_in),
        None => (None, None, None),
    };
    stand_in.iter_mut().for_each(demo::stand_in);
    let rejected_scenario = match (scenario, deployment) {
        (Ok(document), Some(deployment)) => return Ok(Files { document, deployment, task: None }),
        (Ok(document), None) => {
            own_faults.extend(scenario::faults_without_deployment(
                path,
                &document,
                stand_in.as_ref(),
                options,
                env,
            ));
            RejectedFile { source: document.source, faults: own_faults }
        }
        (Err(mut faulty), deployment) => {
            let stood_in = deployment.map(|mut deployment| {
                demo::stand_in(&mut deployment);
                deployment
            });
            let stood_in = stood_in.or(stand_in);
            scenario::find_further(path, &mut faulty, stood_in.as_ref(), options, env);
            faulty.faults.extend(own_faults);
            faulty
        }
    };
    let own = (!rejected_scenario.faults.is_empty()).then(|| HarnessError::faults(rejected_scenario));
    Err(match (own, broken) {
        (Some(own), Some(broken)) => own.and(broken),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => HarnessError::input(format!("{} cannot be used", path.display())),
    })
}

/// The deployment that a scenario holds, or that its whole URLs amount to.
fn made_of(path: &Path, text: &str, root: &yaml::YamlNode) -> Option<YamlFile> {
    let is_absent = root.get("deployment").is_none();
    let inline = inline_deployment::deployment(path, text, root);
    inline.or_else(|| whole_urls::deployment(Some(root).filter(|_| is_absent)?))
}

/// The text of a scenario, also if it was rejected.
fn text_of(scenario: &Result<Document<Scenario>, RejectedFile>) -> &str {
    match scenario {
        Ok(document) => &document.source.text,
        Err(rejected) => &rejected.source.text,
    }
}

/// What a scenario has, also if it was rejected.
fn root_of(scenario: &Result<Document<Scenario>, RejectedFile>) -> Option<yaml::YamlNode> {
    match scenario {
        Ok(document) => Some(document.root.clone()),
        Err(rejected) => yaml::parse_all(&rejected.source).0,
    }
}

fn readable(path: &Path) -> std::io::Result<()> {
    open_named(path).map(drop)
}

/// The plan of a scenario, or all its faults.
pub(super) fn plan(
    file: &YamlFile,
    document: &Document<Scenario>,
    deployment: ResolvedDeployment,
    task: Option<&TaskFile>,
    load: &LoadOptions,
) -> Result<Plan, HarnessError> {
    let look_up = |name: &str| load.environment.get(name);
    let env = Env::new(&look_up).leaving_open(load.environment.is_offline());
    let options = scenario::PlanOptions { requests_optional: task.is_some(), ..load.of_plan() };
    let mut plan =
        plan::scenario::build(file.path(), document, deployment, &options, env).map_err(|faults| {
            let rejected = RejectedFile { source: document.source.clone(), faults };
            HarnessError::faults(match task {
                Some(task) => task.at_home(rejected),
                None => rejected,
            })
        })?;
    if let Some(task) = task {
        plan.warnings.extend(task.warnings().iter().cloned());
        let programs = task.programs();
        if !programs.is_empty() {
            let many = if programs.len() == 1 { "a program" } else { "programs" };
            plan.warnings.push(format!("the load starts {many} on this machine: {}", programs.join("; ")));
        }
    }
    Ok(plan)
}

/// The kind of a valid file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckedFile {
    /// A scenario, with its deployment.
    Scenario {
        /// How many workloads it has.
        workloads: usize,
        /// How many actions these have.
        actions: usize,
    },
    /// A task file of Rally.
    Task {
        /// How many workloads it has.
        workloads: usize,
    },
    /// A deployment with this many targets.
    Deployment {
        /// How many.
        targets: usize,
    },
    /// A deployment that is the embedded demo.
    Demo,
    /// A file that scenarios include.
    Steps {
        /// How many steps it has.
        steps: usize,
    },
}

impl std::fmt::Display for CheckedFile {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let counted =
            |count: usize, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
        match *self {
            Self::Scenario { workloads, actions } => {
                let (workloads, actions) = (counted(workloads, "workload"), counted(actions, "action"));
                write!(formatter, "a valid scenario with {workloads} and {actions}")
            }
            Self::Task { workloads } => {
                write!(formatter, "a valid task of Rally with {}", counted(workloads, "workload"))
            }
            Self::Deployment { targets } => {
                write!(formatter, "a valid deployment with {}", counted(targets, "target"))
            }
            Self::Demo => formatter.write_str("a valid deployment: the embedded demo"),
            Self::Steps { steps } => write!(
                formatter,
                "a valid file of {} to include; validate the scenario that includes it to check its variables",
                counted(steps, "step")
            ),
        }
    }
}

/// Checks a scenario together with its deployment, or a deployment; returns which it is.
///
/// # Errors
/// All faults of the file, and of the deployment that it names.
pub fn validate(
    file: &YamlFile,
    given: Option<&YamlFile>,
    events: &Sink,
) -> Result<CheckedFile, HarnessError> {
    validate_with(file, given, &Environment::default(), events)
}

/// Like [`validate`], with another environment than that of the process.
///
/// # Errors
/// All faults of the file, and of the deployment that it names.
pub fn validate_with(
    file: &YamlFile,
    given: Option<&YamlFile>,
    environment: &Environment,
    events: &Sink,
) -> Result<CheckedFile, HarnessError> {
    let load = LoadOptions { environment: environment.clone(), ..LoadOptions::default() };
    validate_load(file, given, &load, events)
}

/// Like [`validate_with`], with the arguments of a task.
///
/// # Errors
/// All faults of the file, and of the deployment that it names.
pub fn validate_load(
    file: &YamlFile,
    given: Option<&YamlFile>,
    load: &LoadOptions,
    events: &Sink,
) -> Result<CheckedFile, HarnessError> {
    if let Some((scenario, deployment)) = built_in::named(file) {
        return validate_load(&scenario, given.or(Some(&deployment)), load, events);
    }
    let text = source(file)?;
    let is_task = rally_task::is_task(&text.text);
    let (root, faults) = yaml::parse_all(&text);
    let is_scenario = root.as_ref().is_some_and(looks_like_a_scenario);
    if root.is_none() && !is_task {
        return Err(HarnessError::faults(RejectedFile { source: text, faults }));
    }
    if root.as_ref().is_some_and(include::is_steps) {
        return include::count(text).map(|steps| CheckedFile::Steps { steps }).map_err(HarnessError::faults);
    }
    if !is_task && !is_scenario {
        let deployment = deployment(file, &load.environment)?;
        warn(events, &deployment.warnings);
        return Ok(match deployment.demo {
            Some(_) => CheckedFile::Demo,
            None => CheckedFile::Deployment { targets: deployment.targets.len() },
        });
    }
    let Files { document, mut deployment, task } = scenario_and_deployment(file, given, load)?;
    demo::stand_in(&mut deployment);
    let plan = plan(file, &document, deployment, task.as_ref(), load)?;
    warn(events, &plan.warnings);
    if task.is_some() {
        return Ok(CheckedFile::Task { workloads: plan.workloads.len() });
    }
    let actions = plan.workloads.iter().map(|workload| actions(&workload.steps).len()).sum();
    Ok(CheckedFile::Scenario { workloads: plan.workloads.len(), actions })
}

/// What a scenario will do, in words for a terminal. Nothing is sent.
///
/// # Errors
/// All faults of the file, and of the deployment that it names.
pub fn explain(
    file: &YamlFile,
    given: Option<&YamlFile>,
    load: &LoadOptions,
    style: TerminalStyle,
) -> Result<String, HarnessError> {
    let Files { document, mut deployment, task } = scenario_and_deployment(file, given, load)?;
    demo::stand_in(&mut deployment);
    let plan = plan(file, &document, deployment, task.as_ref(), load)?;
    let programs = task.map(|task| task.programs()).unwrap_or_default();
    Ok(super::explain::text(&plan, &document, &programs, style))
}

/// True if the file was meant to be a scenario, even with misspelt keys.
fn looks_like_a_scenario(root: &yaml::YamlNode) -> bool {
    const SCENARIO: [&str; 8] =
        ["title", "deployment", "variables", "workloads", "runner", "iteration", "teardown", "sla"];
    const DEPLOYMENT: [&str; 5] = ["targets", "auth", "headers", "profiler", "demo"];
    let like = |known: &[&'static str]| {
        root.entries()
            .iter()
            .filter(|(key, _)| did_you_mean(&key.name, known.iter().copied()).is_some())
            .count()
    };
    like(&SCENARIO) > like(&DEPLOYMENT)
}

/// The harness's own headers and, for its targets, the deployment's.
pub(super) fn default_headers(deployment: Option<&ResolvedDeployment>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("bench/", env!("CARGO_PKG_VERSION"))));
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    let own = deployment.map(|deployment| deployment.headers.as_slice()).unwrap_or_default();
    // All lines of a name, and none of the harness.
    for (name, _) in own {
        headers.remove(name);
    }
    for (name, value) in own {
        headers.append(name, value.clone());
    }
    headers
}
