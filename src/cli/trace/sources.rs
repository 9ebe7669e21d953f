//! Where `bench trace` gets its traces: a collector, run directories, files.

use std::path::{Path, PathBuf};

use tokio::runtime::Runtime;

use crate::base::secret::Secret;
use crate::cli::exit::{Exit, Stopped};
use crate::cli::{files, say};
use crate::collect::files::{self as trace_files, Kind, Loaded, Opened, TraceRecords};
use crate::osprofiler::driver::{Collector, DriverError};
use crate::results::directory::RunDirectory;

/// The variable that OSProfiler's own command reads.
const VARIABLE: &str = "OSPROFILER_CONNECTION_STRING";

/// Which collector to ask for ids.
#[derive(Debug, clap::Args)]
pub(super) struct CollectorArguments {
    /// The deployment whose collector has the traces.
    #[arg(short, long, value_name = "FILE")]
    deployment: Option<PathBuf>,
    /// The collector (default: $OSPROFILER_CONNECTION_STRING, which keeps a password out of the list of
    /// processes).
    #[arg(long, value_name = "URL", conflicts_with = "deployment")]
    connection_string: Option<String>,
}

/// The traces that a command is about.
#[derive(Debug, clap::Args)]
pub(super) struct SourceArguments {
    /// Ids of traces in the collector; run directories; files: a run's `traces/ID.json`, a profile log of
    /// Mistral's, the JSON of `trace show`, records. Ids beside directories or files, or the beginnings of
    /// ids, choose among the traces in them.
    #[arg(value_name = "ID|DIR|FILE")]
    traces: Vec<String>,
    #[command(flatten)]
    collector: CollectorArguments,
}

impl CollectorArguments {
    /// The collector's connection string, if one is given.
    fn connection(&self) -> Result<Option<Secret>, Stopped> {
        if let Some(given) = &self.connection_string {
            return Ok(Some(Secret::new(given)));
        }
        if let Some(path) = &self.deployment {
            let deployment = files::deployment(path)?;
            return match deployment.connection_string {
                Some(connection) => Ok(Some(connection)),
                None => {
                    let help = "add it under `profiler.connection_string`";
                    let text = format!("error: {} names no collector; {help}", path.display());
                    Err(Stopped::new(Exit::Input, text))
                }
            };
        }
        Ok(files::env(VARIABLE).filter(|url| !url.is_empty()).map(Secret::new))
    }

    /// Connects; to have no collector is an error.
    pub(super) fn connect(&self) -> Result<(Runtime, Collector), Stopped> {
        let Some(connection) = self.connection()? else {
            let help = format!("give -d DEPLOYMENT, --connection-string URL, or set {VARIABLE}");
            return Err(Stopped::new(Exit::Usage, format!("error: no collector is named; {help}")));
        };
        must_exist(connection.expose())?;
        let runtime = crate::cli::housekeeping::runtime()?;
        let collector = runtime.block_on(Collector::connect(&connection)).map_err(|error| failed(&error))?;
        Ok((runtime, collector))
    }
}

/// Who writes makes a file that is not there; who reads has mistaken its path.
fn must_exist(connection: &str) -> Result<(), Stopped> {
    let Some(("file" | "sqlite", path)) = connection.split_once("://") else { return Ok(()) };
    let path = path.split('?').next().unwrap_or_default();
    if path.is_empty() || Path::new(path).exists() {
        return Ok(());
    }
    Err(Stopped::new(Exit::Input, format!("error: there is no file {path}; check the connection string")))
}

/// What a driver's error means for the command.
pub(super) fn failed(error: &DriverError) -> Stopped {
    let exit = match error {
        DriverError::Connect { .. } | DriverError::Timeout { .. } => Exit::Unreachable,
        DriverError::Unsupported { .. } | DriverError::Invalid { .. } => Exit::Usage,
        _ => Exit::Failed,
    };
    Stopped::new(exit, format!("error: failed to {}", error.chain()))
}

/// What the arguments name, sorted.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// Run directories.
    pub(super) runs: Vec<PathBuf>,
    /// Files.
    pub(super) files: Vec<PathBuf>,
    /// Ids, or their beginnings.
    pub(super) ids: Vec<String>,
}

impl SourceArguments {
    /// Sorts the arguments.
    pub(super) fn named(&self) -> Result<Named, Stopped> {
        let mut named = Named::default();
        for given in &self.traces {
            let path = Path::new(given);
            if path.is_dir() {
                if !path.join("traces").is_dir() && !RunDirectory::open(path).log().is_file() {
                    let text =
                        format!("error: {given} is no run's directory: it has neither traces nor a run.log");
                    return Err(Stopped::new(Exit::Input, text));
                }
                named.runs.push(path.to_path_buf());
            } else if path.exists() {
                named.files.push(path.to_path_buf());
            } else if given.contains(['/', '\\']) || path.extension().is_some() {
                let text = format!("error: there is no file {given}; check the path");
                return Err(Stopped::new(Exit::Input, text));
            } else {
                named.ids.push(given.clone());
            }
        }
        Ok(named)
    }

    /// All traces that the arguments name, each with at least one record; at least one.
    pub(super) fn load(&self) -> Result<Vec<TraceRecords>, Stopped> {
        let named = self.named()?;
        if named.runs.is_empty() && named.files.is_empty() {
            return self.fetch(&named.ids);
        }
        let (mut traces, mut others) = (Vec::new(), Vec::new());
        for run in &named.runs {
            let loaded = stored(run, &named.ids)?;
            traces.extend(loaded.traces);
            others.extend(loaded.others);
        }
        for file in &named.files {
            let loaded = read(file, open(file)?, &named.ids)?;
            traces.extend(loaded.traces);
            others.extend(loaded.others);
        }
        let found = |id: &&String| traces.iter().any(|trace| trace.base_id.starts_with(id.as_str()));
        let missing: Vec<String> = named.ids.iter().filter(|id| !found(id)).cloned().collect();
        if !missing.is_empty() {
            // An iteration of the run whose trace was not fetched.
            if self.collector.connection()?.is_none() {
                return Err(nothing_begins_with(&missing[0], &others));
            }
            traces.extend(self.fetch(&missing)?);
        }
        if traces.is_empty() {
            let text = "error: there is no trace in what was given";
            return Err(Stopped::new(Exit::Input, text));
        }
        Ok(traces)
    }

    /// Connects to the collector that the arguments name.
    pub(super) fn connect(&self) -> Result<(Runtime, Collector), Stopped> {
        self.collector.connect()
    }

    fn fetch(&self, ids: &[String]) -> Result<Vec<TraceRecords>, Stopped> {
        if ids.is_empty() {
            let text = "error: no trace is named; give an id, a run's directory or a file";
            return Err(Stopped::new(Exit::Usage, text));
        }
        let (runtime, collector) = self.connect()?;
        let mut traces = Vec::new();
        for id in ids {
            let stored = runtime.block_on(collector.stored(id)).map_err(|error| failed(&error))?;
            if let Some(complaint) = stored.complaint(id) {
                if stored.records.is_empty() {
                    let text = format!("error: {}: {complaint}", collector.target());
                    return Err(Stopped::new(Exit::Failed, text));
                }
                say(&format!("warning: {complaint}"));
            }
            let (records, unreadable) = (stored.records, stored.rejected);
            if records.is_empty() {
                let reasons = "check the id, that the request was signed with a key of the services, and that \
                               they report to this collector";
                let text = format!("error: {} has no trace {id}; {reasons}", collector.target());
                return Err(Stopped::new(Exit::Failed, text));
            }
            let style = collector.report_style();
            traces.push(TraceRecords { base_id: id.clone(), records, unreadable, style });
        }
        Ok(traces)
    }
}

/// The traces that a run stored, in the order of their names.
fn stored(run: &Path, ids: &[String]) -> Result<Loaded, Stopped> {
    let directory = run.join("traces");
    let mut paths: Vec<PathBuf> = match std::fs::read_dir(&directory) {
        Ok(entries) => entries.filter_map(Result::ok).map(|entry| entry.path()).collect(),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(unreadable(&directory, error)),
    };
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    paths.sort();
    if paths.is_empty() && ids.is_empty() {
        let help = "its collector had none, or none was named; fetch one by its id with -d DEPLOYMENT";
        let text = format!("error: {} holds no traces: {help}", run.display());
        return Err(Stopped::new(Exit::Input, text));
    }
    let mut all = Loaded::default();
    for path in paths {
        let loaded = read(&path, open(&path)?, ids)?;
        all.traces.extend(loaded.traces);
        all.others.extend(loaded.others);
    }
    Ok(all)
}

/// Opens a file.
pub(super) fn open(path: &Path) -> Result<Opened, Stopped> {
    trace_files::open(path).map_err(|error| unreadable(path, error))
}

/// A file's traces, of `ids` if there are any; what could not be read in it is told.
pub(super) fn read(path: &Path, opened: Opened, ids: &[String]) -> Result<Loaded, Stopped> {
    let noun = if opened.kind == Kind::Log { "lines" } else { "records" };
    let loaded = trace_files::load(opened, ids).map_err(|error| unreadable(path, error))?;
    let shown = path.display();
    if let Some(first) = &loaded.first_malformed {
        say(&format!("warning: {shown}: {} {noun} could not be read; the first: {first}", loaded.malformed));
    }
    if loaded.left_out > 0 {
        say(&format!(
            "warning: {shown}: {} records are over the limit of a trace and left out",
            loaded.left_out
        ));
    }
    Ok(loaded)
}

fn unreadable(path: &Path, error: impl std::fmt::Display) -> Stopped {
    let error = error.to_string();
    let what = if error.starts_with("read") || error.starts_with("find") { "" } else { "read it: " };
    Stopped::new(Exit::Input, format!("error: {}: cannot {what}{error}", path.display()))
}

fn nothing_begins_with(id: &str, others: &[String]) -> Stopped {
    let shown: Vec<String> = others.iter().take(IDS_SHOWN).map(|id| format!("  {id}")).collect();
    let help = "ask the collector for it with -d DEPLOYMENT";
    let there = if shown.is_empty() { String::new() } else { format!("; there are:\n{}", shown.join("\n")) };
    Stopped::new(Exit::Input, format!("error: no trace begins with {id}, {help}{there}"))
}

const IDS_SHOWN: usize = 20;

/// The ids, a line each, cut when there are many.
pub(super) fn ids_of(traces: &[TraceRecords]) -> String {
    let mut lines: Vec<String> =
        traces.iter().take(IDS_SHOWN).map(|trace| format!("  {}", trace.base_id)).collect();
    if traces.len() > IDS_SHOWN {
        lines.push(format!("  and {} more", traces.len() - IDS_SHOWN));
    }
    lines.join("\n")
}
