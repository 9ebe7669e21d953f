//! Reading the files that the command line names, and showing their faults.

use std::path::{Path, PathBuf};

use crate::base::diagnostics::{Fault, Source, render};
use crate::base::yaml;
use crate::config::{Document, Rejected, scenario::Scenario};
use crate::plan::deployment::{self, Deployment};
use crate::plan::{self, Plan, scenario};

use super::exit::{Exit, Stopped};

/// Reads a file as YAML source.
pub(super) fn source(path: &Path) -> Result<Source, Stopped> {
    let name = path.display().to_string();
    // One byte more than the limit tells that a file is over it without reading all of it.
    let limit = yaml::BYTES_MAX as u64 + 1;
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path)
        .and_then(|file| std::io::Read::read_to_end(&mut std::io::Read::take(file, limit), &mut bytes));
    if let Err(error) = read {
        return Err(Stopped::new(Exit::Input, format!("error: cannot read {name}: {error}; check the path")));
    }
    yaml::source(&name, &bytes).map_err(|(source, fault)| rejected(&Rejected { source, faults: vec![fault] }))
}

/// All faults of a file, rendered.
pub(super) fn rejected(rejected: &Rejected) -> Stopped {
    let text = render(&rejected.source, &rejected.faults, super::colours(&std::io::stderr()));
    let count = rejected.faults.len();
    let noun = if count == 1 { "fault" } else { "faults" };
    Stopped::new(Exit::Input, format!("{text}{}: {count} {noun}", rejected.source.name))
}

/// The environment, for references in files.
pub(super) fn env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// A deployment, resolved.
pub(super) fn deployment(path: &Path) -> Result<Deployment, Stopped> {
    deployment::load(path, source(path)?, &env).map_err(|faults| rejected(&faults))
}

/// A scenario with its deployment; faults of both are shown together.
pub(super) fn scenario_and_deployment(
    path: &Path,
    given: Option<&Path>,
) -> Result<(Document<Scenario>, Deployment), Stopped> {
    let document = source(path).and_then(|source| scenario::read(source).map_err(|faults| rejected(&faults)));
    let named = document.as_ref().ok().and_then(|document| scenario::deployment_path(path, document));
    let deployment = given.map(Path::to_path_buf).or(named).map(|path| deployment(&path));
    match (document, deployment) {
        (Ok(document), Some(Ok(deployment))) => Ok((document, deployment)),
        (Ok(document), None) => {
            let fault = Fault::file("no deployment is named")
                .help("add `deployment: FILE` to the scenario, or give -d FILE");
            Err(rejected(&Rejected { source: document.source, faults: vec![fault] }))
        }
        (Err(first), Some(Err(second))) => {
            Err(Stopped::new(Exit::Input, format!("{}\n\n{}", first.text, second.text)))
        }
        (Err(stopped), _) | (_, Some(Err(stopped))) => Err(stopped),
    }
}

/// The plan of a scenario, or all its faults.
pub(super) fn plan(
    path: &Path,
    document: &Document<Scenario>,
    deployment: Deployment,
    options: &scenario::Options,
) -> Result<Plan, Stopped> {
    plan::scenario::build(path, document, deployment, options, &env)
        .map_err(|faults| rejected(&Rejected { source: document.source.clone(), faults }))
}

/// Checks files one by one; a scenario together with the deployment that it names.
pub(super) fn validate(files: &[PathBuf]) -> Result<Exit, Stopped> {
    let mut exit = Exit::Ok;
    for file in files {
        match validate_one(file) {
            Ok(what) => super::print(&format!("{}: {what}", file.display()))?,
            Err(stopped) => {
                super::say(&format!("{}\n", stopped.text));
                exit = Exit::Input;
            }
        }
    }
    Ok(exit)
}

fn validate_one(file: &Path) -> Result<String, Stopped> {
    let text = source(file)?;
    let is_scenario = yaml::parse(&text).is_ok_and(|root| {
        ["title", "runner", "iteration", "workloads"].iter().any(|key| root.get(key).is_some())
    });
    if !is_scenario {
        let deployment = deployment(file)?;
        warn(&deployment.warnings);
        return Ok(format!("a valid deployment with {}", counted(deployment.targets.len(), "target")));
    }
    let (document, mut deployment) = scenario_and_deployment(file, None)?;
    super::demo::stand_in(&mut deployment);
    let plan = plan(file, &document, deployment, &scenario::Options::default())?;
    warn(&plan.warnings);
    let actions = plan.workloads.iter().map(|workload| workload.actions().count()).sum();
    Ok(format!(
        "a valid scenario with {} and {}",
        counted(plan.workloads.len(), "workload"),
        counted(actions, "action")
    ))
}

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Shows warnings.
pub(super) fn warn(warnings: &[String]) {
    for warning in warnings {
        super::say(&format!("warning: {warning}"));
    }
}
