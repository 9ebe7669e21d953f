//! Rally's task files: reads one with its arguments and its deployment.

use std::path::{Component, Path};

use serde_json::{Value, json};

use base::visible::on_one_line;
use config::{Document, RejectedFile, scenario::Scenario};
use measure::log::RallyTask;
use plan::deployment::{self, DEFAULT_TARGET, ResolvedDeployment};
use plan::references::Env;
use rally::args::Arguments;
use rally::hooks::Hook;
use rally::template::{RenderedTask, render};
use rally::{self, ArgumentFiles, Task};
use text::diagnostics::{Fault, SourceText};

use crate::error::HarnessError;
use crate::options::{Environment, LoadOptions, TaskArguments, YamlFile};
use crate::reading;

/// What a task file is besides a scenario.
pub(crate) struct TaskFile {
    record: RallyTask,
    pub(super) hooks: Vec<Vec<Hook>>,
    warnings: Vec<String>,
    rendered: RenderedTask,
}

impl TaskFile {
    /// What Rally's reports repeat of the file.
    pub(crate) fn record(&self) -> &RallyTask {
        &self.record
    }

    /// What the user should know.
    pub(crate) fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The programs of hooks, which the load starts on this machine.
    pub(crate) fn programs(&self) -> Vec<String> {
        self.hooks.iter().flatten().map(|hook| on_one_line(&hook.to_string())).collect()
    }

    /// Faults of the document at their places in the file as it was written.
    pub(crate) fn at_home(&self, rejected: RejectedFile) -> RejectedFile {
        self.rendered.at_home(rejected)
    }
}

/// Reads a task file and its deployment: the given one, or one that has only the targets that the task names.
pub(crate) fn read(
    file: &YamlFile,
    source: SourceText,
    given: Option<&YamlFile>,
    load: &LoadOptions,
) -> Result<(Document<Scenario>, ResolvedDeployment, TaskFile), HarnessError> {
    let given = given.map(|given| reading::deployment(given, &load.environment));
    let task = arguments(&load.task_arguments).and_then(|arguments| {
        let include = |name: &str| included(file.path(), name);
        let read = |name: &str| text_beside(file.path(), name);
        let rendered = render(source, &arguments, &include).map_err(HarnessError::faults)?;
        let stem = file.path().file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let find = |name: &str| found(name, &load.environment);
        let named = |name: &str| read(&find(name));
        let files = ArgumentFiles { read: &named, find: &find };
        rally::read(rendered, stem.as_deref().unwrap_or("Task"), &files).map_err(HarnessError::faults)
    });
    let (task, given) = match (task, given) {
        (Ok(task), None) => (task, None),
        (Ok(task), Some(Ok(deployment))) => (task, Some(deployment)),
        (Err(own), Some(Err(broken))) => return Err(own.and(broken)),
        (Err(error), _) | (_, Some(Err(error))) => return Err(error),
    };
    let deployment = match given {
        Some(deployment) => deployment,
        None => {
            refuse_without_cloud(&task)?;
            of_origins(&task, file.path(), &load.environment)?
        }
    };
    let Task { document, record, hooks, warnings, rendered, .. } = task;
    Ok((document, deployment, TaskFile { record, hooks, warnings, rendered }))
}

fn arguments(given: &TaskArguments) -> Result<Arguments, HarnessError> {
    let mut arguments = Arguments::default();
    if let Some(file) = &given.file {
        let source = reading::source(&file.as_path().into())?;
        arguments.add_file(source).map_err(HarnessError::faults)?;
    }
    if let Some(text) = &given.text {
        arguments
            .add_text(text)
            .map_err(|complaint| HarnessError::usage(complaint.what).remedy(complaint.remedy))?;
    }
    Ok(arguments)
}

/// The text of a file that a task includes. As in Rally, it is below the task's folder: a task may come from elsewhere,
/// and what it includes is shown and sent.
fn included(task: &Path, name: &str) -> Result<String, String> {
    let is_below = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if !Path::new(name).components().all(is_below) {
        return Err("a task includes only files below its own folder".to_owned());
    }
    let folder = task.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let real = |path: &Path| path.canonicalize();
    if let (Ok(folder), Ok(path)) = (real(folder), real(&folder.join(name)))
        && !path.starts_with(folder)
    {
        return Err("it is a link that leads out of the task's folder".to_owned());
    }
    text_beside(task, name)
}

/// The text of a file that a task names.
fn text_beside(task: &Path, name: &str) -> Result<String, String> {
    let path = task.parent().unwrap_or(Path::new("")).join(name);
    reading::source(&path.into()).map(|source| source.text).map_err(|error| error.to_string())
}

/// The path of a file that an argument names. As in Rally, `~` is the home directory, and other paths count from the
/// current directory; what is not there is looked for beside the task.
fn found(name: &str, environment: &Environment) -> String {
    let home = || environment.get("HOME").filter(|home| !home.is_empty());
    if let Some((rest, home)) = name.strip_prefix("~/").and_then(|rest| Some((rest, home()?))) {
        return Path::new(&home).join(rest).display().to_string();
    }
    match std::path::absolute(name) {
        Ok(path) if path.is_file() => path.display().to_string(),
        _ => name.to_owned(),
    }
}

/// Refuses scenarios whose requests go to a cloud that is not named.
fn refuse_without_cloud(task: &Task) -> Result<(), HarnessError> {
    let Some(name) = &task.needs_cloud else { return Ok(()) };
    let remedy = "give one with -d FILE: a deployment of Rally, or deployments/openstack.yaml";
    Err(HarnessError::usage(format!("the scenario {name} needs a cloud, and no deployment is named"))
        .remedy(remedy))
}

/// A deployment with the targets that a task names.
fn of_origins(
    task: &Task,
    file: &Path,
    environment: &Environment,
) -> Result<ResolvedDeployment, HarnessError> {
    const NOBODY: &str = "http://127.0.0.1";
    let first = task.origins.first().map_or(NOBODY, String::as_str);
    let mut targets = json!({ DEFAULT_TARGET: first });
    for (number, origin) in (2..).zip(task.origins.iter().skip(1)) {
        targets[format!("target-{number}")] = Value::from(origin.as_str());
    }
    let host = first.split_once("://").map_or(first, |(_, host)| host);
    let name = if task.origins.is_empty() { "no target" } else { host };
    let text = json!({ "name": name, "targets": targets }).to_string();
    let look_up = |name: &str| environment.get(name);
    let env = Env::new(&look_up).leaving_open(environment.is_offline());
    let mut deployment = deployment::load(file, SourceText::new("", text), env).map_err(|rejected| {
        // A URL that is none is a fault of the task.
        let message = rejected.faults.into_iter().next().map_or_else(String::new, |fault| fault.message);
        let source = SourceText::new(file.display().to_string(), "");
        HarnessError::faults(RejectedFile {
            source,
            faults: vec![Fault::file(message).help("correct the URL")],
        })
    })?;
    if task.origins.is_empty() {
        deployment.targets.clear();
    }
    Ok(deployment)
}
