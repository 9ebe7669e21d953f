//! Reading the files that the command line names, and showing their faults.

use std::path::{Path, PathBuf};

use http::HeaderMap;
use http::header::{ACCEPT, HeaderValue, USER_AGENT};

use crate::base::diagnostics::{Fault, Source, render};
use crate::base::yaml;
use crate::config::{Document, Rejected, check::did_you_mean, scenario::Scenario};
use crate::plan::deployment::{self, Deployment};
use crate::plan::{self, Plan, scenario};

use super::exit::{Exit, Stopped};
use super::output::{self, Stream};

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
    yaml::source(&name, &bytes).map_err(|faulty| {
        let (source, fault) = *faulty;
        rejected(&Rejected { source, faults: vec![fault] })
    })
}

/// All faults of a file, rendered.
pub(super) fn rejected(rejected: &Rejected) -> Stopped {
    let text = render(&rejected.source, &rejected.faults, output::colours(Stream::Error));
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

/// A scenario with its deployment; all faults of both are shown together. Those that only a
/// scenario without any other has are found by [`plan()`].
pub(super) fn scenario_and_deployment(
    path: &Path,
    given: Option<&Path>,
    options: &scenario::Options,
) -> Result<(Document<Scenario>, Deployment), Stopped> {
    let scenario = match source(path) {
        Ok(source) => scenario::read(source),
        Err(stopped) => {
            let deployment = given.and_then(|given| deployment(given).err());
            return Err(together(Some(stopped), deployment));
        }
    };
    let root = match &scenario {
        Ok(document) => Some(document.root.clone()),
        Err(rejected) => yaml::parse_all(&rejected.source).0,
    };
    let named = root.as_ref().and_then(|root| scenario::named_deployment(path, root));
    let (mut own_faults, mut deployment_read) = (Vec::new(), None);
    match (given, named) {
        (Some(given), _) => deployment_read = Some(deployment(given)),
        (None, Some((named, span))) => match readable(&named) {
            Ok(()) => deployment_read = Some(deployment(&named)),
            Err(error) => {
                let message = format!("cannot read the deployment {}: {error}", named.display());
                let help = "name a file relative to this one, or give another with -d FILE";
                own_faults.push(Fault::error(span, message).help(help));
            }
        },
        (None, None) if root.as_ref().is_some_and(|root| root.get("deployment").is_none()) => own_faults
            .push(
                Fault::file("no deployment is named")
                    .help("add `deployment: FILE` to the scenario, or give -d FILE"),
            ),
        (None, None) => {}
    }
    let (deployment, broken) = match deployment_read {
        Some(Ok(deployment)) => (Some(deployment), None),
        Some(Err(stopped)) => (None, Some(stopped)),
        None => (None, None),
    };
    let rejected_scenario = match (scenario, deployment) {
        (Ok(document), Some(deployment)) => return Ok((document, deployment)),
        (Ok(document), None) => {
            own_faults.extend(scenario::faults_without_deployment(path, &document, options, &env));
            Rejected { source: document.source, faults: own_faults }
        }
        (Err(mut faulty), deployment) => {
            let stood_in = deployment.map(|mut deployment| {
                super::demo::stand_in(&mut deployment);
                deployment
            });
            scenario::find_further(path, &mut faulty, stood_in.as_ref(), options, &env);
            faulty.faults.extend(own_faults);
            faulty
        }
    };
    let own = (!rejected_scenario.faults.is_empty()).then(|| rejected(&rejected_scenario));
    Err(together(own, broken))
}

fn readable(path: &Path) -> std::io::Result<()> {
    match std::fs::File::open(path)?.metadata()?.is_dir() {
        true => Err(std::io::ErrorKind::IsADirectory.into()),
        false => Ok(()),
    }
}

/// The faults of several files.
fn together(first: Option<Stopped>, second: Option<Stopped>) -> Stopped {
    let texts: Vec<String> = [first, second].into_iter().flatten().map(|stopped| stopped.text).collect();
    Stopped::new(Exit::Input, texts.join("\n\n"))
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

/// Checks files one by one; a scenario together with its deployment.
pub(super) fn validate(files: &[PathBuf], given: Option<&Path>) -> Result<Exit, Stopped> {
    let mut exit = Exit::Ok;
    for file in files {
        match validate_one(file, given) {
            Ok(what) => output::print(&format!("{}: {what}", file.display())),
            Err(stopped) => {
                output::complain(&stopped.text);
                exit = Exit::Input;
            }
        }
    }
    Ok(exit)
}

fn validate_one(file: &Path, given: Option<&Path>) -> Result<String, Stopped> {
    let text = source(file)?;
    let (root, faults) = yaml::parse_all(&text);
    let Some(root) = root else { return Err(rejected(&Rejected { source: text, faults })) };
    if !looks_like_a_scenario(&root) {
        let deployment = deployment(file)?;
        warn(&deployment.warnings);
        return Ok(match deployment.demo {
            Some(_) => "a valid deployment: the embedded demo".to_owned(),
            None => format!("a valid deployment with {}", counted(deployment.targets.len(), "target")),
        });
    }
    let options = scenario::Options::default();
    let (document, mut deployment) = scenario_and_deployment(file, given, &options)?;
    super::demo::stand_in(&mut deployment);
    let plan = plan(file, &document, deployment, &options)?;
    warn(&plan.warnings);
    let actions = plan.workloads.iter().map(|workload| workload.actions().count()).sum();
    Ok(format!(
        "a valid scenario with {} and {}",
        counted(plan.workloads.len(), "workload"),
        counted(actions, "action")
    ))
}

/// Whether the author had a scenario in mind, be the keys misspelt.
fn looks_like_a_scenario(root: &yaml::Node) -> bool {
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

fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Shows warnings.
pub(super) fn warn(warnings: &[String]) {
    for warning in warnings {
        super::say(&format!("warning: {warning}"));
    }
}

/// The harness's own headers and, for its targets, the deployment's.
pub(super) fn default_headers(deployment: Option<&Deployment>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(USER_AGENT, HeaderValue::from_static(concat!("bench/", env!("CARGO_PKG_VERSION"))));
    headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
    headers.extend(deployment.into_iter().flat_map(|deployment| deployment.headers.iter().cloned()));
    headers
}
