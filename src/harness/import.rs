//! Writes a scenario and its deployment from what another program recorded or described.

use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};

use import::{Draft, ImportError, ImportOutput, curl, har, openapi, postman};
use text::files;
use text::shell;

use super::built_in;
use super::error::HarnessError;
use super::event;
use super::files::validate_with;
use super::options::{Environment, YamlFile};

/// What to import.
#[derive(Clone, Debug)]
pub enum Source {
    /// A curl command in a file; `-` is standard input.
    CurlFile(PathBuf),
    /// A curl command as a shell reads it.
    CurlText(String),
    /// The words of a curl command.
    CurlWords(Vec<String>),
    /// An HTTP archive.
    Har(PathBuf, har::Options),
    /// An OpenAPI document, JSON or YAML.
    OpenApi(PathBuf, openapi::Options),
    /// A collection of Postman.
    Postman(PathBuf),
}

/// What to import, and where to.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// What to import.
    pub source: Source,
    /// The scenario's file, or a directory for it (default: a name like the input's, in the current directory). The
    /// deployment is written beside it.
    pub output: Option<PathBuf>,
    /// Replace files that exist.
    pub force: bool,
}

/// The files that were written, and what to say about them.
#[derive(Clone, Debug)]
pub struct ImportedFiles {
    /// The scenario's file.
    pub scenario: PathBuf,
    /// The deployment's file.
    pub deployment: PathBuf,
    /// How many requests an iteration sends.
    pub requests: usize,
    /// The environment variables to set before a run.
    pub environment: Vec<String>,
    /// What was left out, and what needs a look.
    pub notes: Vec<String>,
}

/// What a file has that stands in for one that the input only mentions.
const STAND_IN: &str = "This file stands in for another one. Replace it.\n";

/// Imports a recording or a description.
///
/// # Errors
/// The input cannot be read or understood, or the files exist or cannot be written.
pub fn import(options: &ImportOptions) -> Result<ImportedFiles, HarnessError> {
    let folder = folder_of(options.output.as_deref());
    let file = |path: &str| from_folder(path, &folder);
    let (draft, name) = match &options.source {
        Source::CurlFile(path) => (curl::from_text(&text(path)?, &file), stem(path)),
        Source::CurlText(command) => (curl::from_text(command, &file), None),
        Source::CurlWords(words) => (curl::from_words(words, &file), None),
        Source::Har(path, har) => (har::from_reader(reader(path)?, *har), stem(path)),
        Source::OpenApi(path, chosen) => {
            (openapi::from_reader(reader(path)?, chosen, &|name| beside(path, name)), stem(path))
        }
        Source::Postman(path) => (postman::from_reader(reader(path)?), collection_stem(path)),
    };
    let draft = draft.map_err(refused)?;
    write(&draft, options.output.as_deref(), name.as_deref().unwrap_or("imported"), options.force)
}

/// Writes a draft to files that must not exist yet, unless `force` is set. It is checked before.
pub(super) fn write(
    draft: &Draft,
    output: Option<&Path>,
    name: &str,
    force: bool,
) -> Result<ImportedFiles, HarnessError> {
    let (scenario, deployment) = paths(output, name);
    let written = draft.write(&name_of(&deployment)).map_err(refused)?;
    put(scenario, deployment, written, force)
}

/// Writes the built-in demo, as [`write()`] does with a draft.
pub(super) fn write_demo(output: Option<&Path>, force: bool) -> Result<ImportedFiles, HarnessError> {
    let (scenario, deployment) = paths(output, built_in::NAME);
    let (scenario_text, deployment_text) = built_in::written(&name_of(&deployment));
    let written = ImportOutput {
        scenario: scenario_text,
        deployment: deployment_text,
        requests: built_in::REQUESTS,
        environment: Vec::new(),
        stand_ins: Vec::new(),
        notes: Vec::new(),
    };
    put(scenario, deployment, written, force)
}

/// The files to write: the scenario, and its deployment beside it.
fn paths(output: Option<&Path>, name: &str) -> (PathBuf, PathBuf) {
    let scenario = scenario_path(output, name);
    let name = scenario.file_stem().unwrap_or_default().to_string_lossy();
    let deployment = scenario.with_file_name(format!("{name}-deployment.yaml"));
    (scenario, deployment)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn put(
    scenario: PathBuf,
    deployment: PathBuf,
    mut written: ImportOutput,
    force: bool,
) -> Result<ImportedFiles, HarnessError> {
    for path in [&scenario, &deployment] {
        // A link that leads nowhere is there, too.
        if !force && path.symlink_metadata().is_ok() {
            return Err(HarnessError::usage(format!("{} exists already", path.display()))
                .remedy("name another file with -o, or add --force"));
        }
    }
    written.notes.extend(stand_in(&scenario, &written.stand_ins)?);
    // Paths with `..` need the folder.
    folder_for(&scenario)?;
    check(&scenario, &deployment, &written)?;
    for (path, text) in [(&deployment, &written.deployment), (&scenario, &written.scenario)] {
        files::write_output(path, |output| output.write_all(text.as_bytes()))
            .map_err(HarnessError::cannot(format!("write {}", path.display())))?;
    }
    let ImportOutput { requests, environment, notes, .. } = written;
    Ok(ImportedFiles { scenario, deployment, requests, environment, notes })
}

fn folder_for(path: &Path) -> Result<(), HarnessError> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(()) };
    std::fs::create_dir_all(folder).map_err(HarnessError::cannot(format!("make {}", folder.display())))
}

/// Writes the stand-ins that are not there, and says so. What is there already is used.
fn stand_in(scenario: &Path, paths: &[String]) -> Result<Vec<String>, HarnessError> {
    let mut made = Vec::new();
    for name in paths {
        let path = scenario.with_file_name("").join(name);
        if path.exists() {
            continue;
        }
        if path.symlink_metadata().is_ok() {
            return Err(HarnessError::usage(format!("{} is a link that leads nowhere", path.display()))
                .remedy("remove it"));
        }
        folder_for(&path)?;
        files::write_output(&path, |output| output.write_all(STAND_IN.as_bytes()))
            .map_err(HarnessError::cannot(format!("write {}", path.display())))?;
        made.push(format!("{} stands in for a file that the requests send: replace it", path.display()));
    }
    Ok(made)
}

/// What will be written is checked as `bench validate --offline` does.
fn check(scenario: &Path, deployment: &Path, written: &ImportOutput) -> Result<(), HarnessError> {
    let scenario_text = YamlFile::text(scenario, written.scenario.as_str());
    let deployment_text = YamlFile::text(deployment, written.deployment.as_str());
    let offline = Environment::offline();
    validate_with(&scenario_text, Some(&deployment_text), &offline, &event::silent()).map(drop).map_err(
        |error| {
            HarnessError::input(
                "what was made of this input is not valid, so it was not written: a bug of bench",
            )
            .remedy("report it, with the input if it is not secret")
            .and(error)
        },
    )
}

pub(super) fn refused(error: ImportError) -> HarnessError {
    HarnessError::input(error.what).remedy(error.remedy)
}

fn scenario_path(output: Option<&Path>, name: &str) -> PathBuf {
    let file = format!("{name}.yaml");
    match output {
        None => PathBuf::from(file),
        Some(path) if path.extension().is_some_and(|end| end == "yaml" || end == "yml") && !path.is_dir() => {
            path.into()
        }
        Some(folder) => folder.join(file),
    }
}

/// A name for files, from the input's.
pub(super) fn stem(path: &Path) -> Option<String> {
    let stem = path.file_stem()?.to_str()?;
    let name: String = stem
        .chars()
        .map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' })
        .take(80)
        .collect();
    let name = name.trim_matches(['.', '-']).to_owned();
    (!name.is_empty()).then_some(name)
}

/// The same without what Postman adds.
fn collection_stem(path: &Path) -> Option<String> {
    stem(path)
        .map(|stem| stem.trim_end_matches(".postman_collection").to_owned())
        .filter(|stem| !stem.is_empty())
}

pub(super) fn reader(path: &Path) -> Result<Box<dyn Read>, HarnessError> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(io::stdin()));
    }
    let opened = files::open_named(path).map_err(|error| {
        HarnessError::input(format!("cannot read {}: {error}", path.display())).remedy("check the path")
    })?;
    Ok(Box::new(opened))
}

/// Reads another file of a document. It must be in the document's folder, because documents also come from strangers.
pub(super) fn beside(document: &Path, name: &str) -> Result<Vec<u8>, String> {
    if document.as_os_str() == "-" {
        return Err("a document from standard input has no folder".to_owned());
    }
    let told = |error: io::Error| error.to_string();
    let folder = document.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let folder = folder.canonicalize().map_err(told)?;
    let path = folder.join(name).canonicalize().map_err(told)?;
    if !path.starts_with(&folder) {
        return Err("it is outside the folder of the document".to_owned());
    }
    let mut bytes = Vec::new();
    let file = files::open_regular(&path).map_err(told)?;
    file.take(openapi::BYTES_MAX + 1).read_to_end(&mut bytes).map_err(told)?;
    Ok(bytes)
}

fn text(path: &Path) -> Result<String, HarnessError> {
    bounded(reader(path)?, curl::TEXT_BYTES_MAX as u64).map_err(|error| {
        HarnessError::input(format!("cannot read {}: {error}", path.display())).remedy("check the file")
    })
}

/// The folder of the scenario that will be written.
fn folder_of(output: Option<&Path>) -> PathBuf {
    scenario_path(output, "imported").parent().map(Path::to_path_buf).unwrap_or_default()
}

/// Looks up a file that a command names, and names it as a scenario in `folder` must. Its content is not read.
fn from_folder(path: &str, folder: &Path) -> Result<String, ImportError> {
    if path == "-" {
        return Err(ImportError {
            what: "the command reads its standard input".to_owned(),
            remedy: "save what it reads to a file, and name that one".to_owned(),
        });
    }
    let problem = match files::open_regular(Path::new(path)) {
        Ok(_) => None,
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Some("it is not a file".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    let refuse = |problem: &str| ImportError {
        what: format!("cannot read {path}, which the command names: {problem}"),
        remedy: "check the path; it counts from the current directory".to_owned(),
    };
    if let Some(problem) = problem {
        return Err(refuse(&problem));
    }
    let is_below = folder.components().all(|part| matches!(part, Component::Normal(_)));
    let named = match Path::new(path).is_absolute() || folder.as_os_str().is_empty() {
        true => path.to_owned(),
        false if is_below && !is_linked(folder) => {
            format!("{}{path}", "../".repeat(folder.components().count()))
        }
        false => {
            let whole = std::path::absolute(path).map_err(|error| refuse(&error.to_string()))?;
            whole.to_string_lossy().into_owned()
        }
    };
    if named.contains("{{") { Err(refuse("a scenario cannot name a path with `{{`")) } else { Ok(named) }
}

/// True if a folder of this path is a link: `..` would lead elsewhere.
fn is_linked(folder: &Path) -> bool {
    folder.ancestors().any(|part| std::fs::symlink_metadata(part).is_ok_and(|found| found.is_symlink()))
}

fn bounded(input: impl Read, most: u64) -> io::Result<String> {
    let mut text = String::new();
    input.take(most + 1).read_to_string(&mut text)?;
    if text.len() as u64 > most {
        return Err(io::Error::other(format!("it is larger than {most} bytes")));
    }
    Ok(text)
}

impl ImportedFiles {
    /// What was written, and what to do next: lines for a terminal.
    #[must_use]
    pub fn summary(&self) -> String {
        let (scenario, deployment) = (self.scenario.display(), self.deployment.display());
        let plural = if self.requests == 1 { "" } else { "s" };
        let mut lines = vec![
            format!("scenario    {scenario}: {} request{plural} an iteration", self.requests),
            format!("deployment  {deployment}"),
        ];
        lines.extend(self.notes.iter().map(|note| format!("note        {note}")));
        lines.push(String::new());
        if !self.environment.is_empty() {
            let set: Vec<String> = self.environment.iter().map(|name| format!("{name}=…")).collect();
            lines.push(format!("  export {}", set.join(" ")));
        }
        let word = shell::path(&self.scenario);
        lines.push(format!("  bench validate {word}"));
        lines.push(format!("  bench run {word}"));
        lines.join("\n")
    }
}
