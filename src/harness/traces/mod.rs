//! Traces from a collector, run directories or files: listing, ranking, counting; signed headers for manual requests;
//! and a single request with its trace.

pub mod fetched;
pub mod headers;
pub mod request;
mod tables;

use std::path::{Path, PathBuf};

use tokio::runtime::Runtime;

use base::secret::Secret;
use collect::files::{self as trace_files, OpenTraceFile, TraceFileContents, TraceFileKind, TraceRecords};
use collect::profiles::{AddedProfiles, ProfileSource};
use demo::COLLECTOR_FILE;
use osprofiler::compat::ReportStyle;
use osprofiler::driver::{Collector, DriverError};
use results::directory::RunDirectory;

use super::error::{self, HarnessError};
use super::event::{Event, Sink, warn};
use super::kept::RunSpools;
use super::options::{Environment, YamlFile};
use super::{files, housekeeping, runs};

pub use tables::{Grouping, StatsProfiles};

/// The variable that OSProfiler's own command reads.
const VARIABLE: &str = "OSPROFILER_CONNECTION_STRING";

/// Which traces to read, and from where.
#[derive(Clone)]
pub struct TraceSource {
    /// Ids of traces in the collector; run directories; files. Ids beside directories or files, or the beginnings of
    /// ids, choose among the traces in them.
    pub given: Vec<String>,
    /// The deployment whose collector has the traces.
    pub deployment: Option<YamlFile>,
    /// The collector; that of the variable OSPROFILER_CONNECTION_STRING if neither is given.
    pub connection: Option<Secret>,
    /// Where services leave profiles of the traces, or of their points.
    pub profiles: Option<ProfileSource>,
    /// Where to look up that variable.
    pub environment: Environment,
    /// Where warnings go.
    pub events: Sink,
}

impl TraceSource {
    /// The collector's connection string, if one is given.
    pub(crate) fn connection(&self) -> Result<Option<Secret>, HarnessError> {
        if let Some(given) = &self.connection {
            return Ok(Some(given.clone()));
        }
        if let Some(file) = &self.deployment {
            let deployment = files::deployment(file, &self.environment)?;
            return match deployment.connection_string {
                Some(connection) => Ok(Some(connection)),
                None => {
                    let text = format!("{} names no collector", file.path().display());
                    Err(HarnessError::input(text).remedy("add it under `profiler.connection_string`"))
                }
            };
        }
        Ok(self.environment.get(VARIABLE).filter(|url| !url.is_empty()).map(Secret::new))
    }

    /// Connects; it is an error if no collector is given.
    fn connect(&self) -> Result<(Runtime, Collector), HarnessError> {
        let Some(connection) = self.connection()? else {
            let help = format!("give -d DEPLOYMENT, --connection-string URL, or set {VARIABLE}");
            return Err(HarnessError::usage("no collector is given").remedy(help));
        };
        must_exist(connection.expose())?;
        let runtime = housekeeping::runtime()?;
        let collector =
            runtime.block_on(Collector::connect_to_read(&connection)).map_err(|error| failed(&error))?;
        Ok((runtime, collector))
    }
}

/// A writer creates a missing file; for a reader, a missing file means a wrong path.
fn must_exist(connection: &str) -> Result<(), HarnessError> {
    let Some(("file" | "sqlite", path)) = connection.split_once("://") else { return Ok(()) };
    let path = path.split('?').next().unwrap_or_default();
    if path.is_empty() || Path::new(path).exists() {
        return Ok(());
    }
    Err(HarnessError::input(format!("there is no file {path}")).remedy("check the connection string"))
}

/// A driver's error as an error of the harness.
fn failed(error: &DriverError) -> HarnessError {
    let kind = match error {
        DriverError::Connect { .. } | DriverError::Timeout { .. } => error::HarnessErrorKind::Unreachable,
        DriverError::Unsupported { .. } | DriverError::Invalid { .. } => error::HarnessErrorKind::Usage,
        _ => error::HarnessErrorKind::Failed,
    };
    HarnessError::new(kind, format!("failed to {}", error.chain()))
}

/// The arguments, sorted by kind.
#[derive(Debug, Default)]
struct TraceArguments {
    /// Run directories.
    runs: Vec<PathBuf>,
    /// Files.
    files: Vec<PathBuf>,
    /// Ids, or their beginnings.
    ids: Vec<String>,
}

/// What names the trace of the iteration before the load, beside a run's directory.
const PROBE: &str = "probe";

impl TraceArguments {
    /// Puts the id of the probe in the place of its name.
    fn name_probe(&mut self) -> Result<(), HarnessError> {
        let Some(at) = self.ids.iter().position(|id| id == PROBE).filter(|_| !self.runs.is_empty()) else {
            return Ok(());
        };
        self.ids.remove(at);
        for run in &self.runs {
            let Some(trace) = RunDirectory::open(run).stored_probe() else {
                let text = format!("{} holds no trace of its probe", run.display());
                return Err(HarnessError::input(text).remedy("results.json says why, under `probe`"));
            };
            self.ids.push(trace.trace_id.to_string());
        }
        Ok(())
    }
}

impl TraceSource {
    /// Sorts the arguments.
    fn named(&self) -> Result<TraceArguments, HarnessError> {
        let mut named = TraceArguments::default();
        for given in &self.given {
            let path = &runs::named(Path::new(given))?;
            if path.is_dir() {
                if !path.join("traces").is_dir() && !RunDirectory::open(path).log().is_file() {
                    let text =
                        format!("{given} is not a run's directory: it has neither traces nor a run.log");
                    return Err(HarnessError::input(text));
                }
                named.runs.push(path.to_path_buf());
            } else if path.exists() {
                named.files.push(path.to_path_buf());
            } else if given.contains(['/', '\\']) || path.extension().is_some() {
                return Err(HarnessError::input(format!("there is no file {given}")).remedy("check the path"));
            } else {
                named.ids.push(with_dashes(given));
            }
        }
        named.name_probe()?;
        Ok(named)
    }

    /// All requested traces, each with at least one record, and with the profiles that services left; at least one trace.
    ///
    /// # Errors
    /// When something cannot be found or read.
    pub fn load(&self) -> Result<Vec<TraceRecords>, HarnessError> {
        let mut traces = self.reported()?;
        let Some(profiles) = &self.profiles else { return Ok(traces) };
        let parts = traces.iter_mut().map(|trace| (trace.base_id.clone(), &mut trace.records));
        let added = housekeeping::runtime()?.block_on(profiles.add_to(parts)).map_err(HarnessError::input)?;
        warn(&self.events, &profile_notes(&added, profiles));
        Ok(traces)
    }

    fn reported(&self) -> Result<Vec<TraceRecords>, HarnessError> {
        let named = self.named()?;
        if named.runs.is_empty() && named.files.is_empty() {
            return self.fetch(&named.ids);
        }
        let (mut traces, mut others) = (Vec::new(), Vec::new());
        for run in &named.runs {
            let loaded = self.stored(run, &named.ids)?;
            traces.extend(loaded.traces);
            others.extend(loaded.others);
        }
        for file in &named.files {
            let loaded = self.read(file, open(file)?, &named.ids)?;
            traces.extend(loaded.traces);
            others.extend(loaded.others);
        }
        let found = |id: &&String| traces.iter().any(|trace| trace.base_id.starts_with(id.as_str()));
        let missing: Vec<String> = named.ids.iter().filter(|id| !found(id)).cloned().collect();
        if !missing.is_empty() {
            // An iteration of the run whose trace was not fetched.
            if self.connection()?.is_none() {
                return Err(nothing_begins_with(&missing[0], &others));
            }
            traces.extend(self.fetch(&missing)?);
        }
        if traces.is_empty() {
            return Err(HarnessError::input("the given directories and files contain no traces"));
        }
        Ok(traces)
    }

    fn fetch(&self, ids: &[String]) -> Result<Vec<TraceRecords>, HarnessError> {
        if ids.is_empty() {
            let help = "give an id, a run's directory or a file";
            return Err(HarnessError::usage("no trace is given").remedy(help));
        }
        let (runtime, collector) = self.connect()?;
        let mut traces = Vec::new();
        for id in ids {
            let stored = runtime.block_on(collector.stored(id)).map_err(|error| failed(&error))?;
            if let Some(complaint) = stored.complaint(id) {
                if stored.records.is_empty() {
                    let text = format!("{}: {complaint}", collector.target());
                    return Err(HarnessError::failed(text));
                }
                self.events.event(&Event::Warning(&complaint));
            }
            let (records, unreadable, partial) = (stored.records, stored.rejected, stored.partial);
            if records.is_empty() {
                let text = format!("{} has no trace {id}", collector.target());
                let reasons = if text.contains(COLLECTOR_FILE) {
                    "check the id; a long run of the demo keeps only the traces that it fetched"
                } else {
                    "check the id, that the request was signed with a key of the services, and that they report to \
                     this collector"
                };
                return Err(HarnessError::failed(text).remedy(reasons));
            }
            let style = collector.report_style();
            traces.push(TraceRecords { base_id: id.clone(), records, unreadable, partial, style });
        }
        Ok(traces)
    }
}

/// The beginning of an id as OpenTelemetry writes it, without dashes, or in capital letters, as a UUID is written here.
fn with_dashes(id: &str) -> String {
    let is_plain = id.len() > 8 && id.len() <= 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_dashed = id.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'-');
    if !is_plain {
        return if is_dashed { id.to_ascii_lowercase() } else { id.to_owned() };
    }
    let mut text = String::new();
    for (at, character) in id.to_ascii_lowercase().chars().enumerate() {
        if [8, 12, 16, 20].contains(&at) {
            text.push('-');
        }
        text.push(character);
    }
    text
}

/// Opens a file that the user names.
fn open(path: &Path) -> Result<OpenTraceFile, HarnessError> {
    trace_files::open(path).map_err(|error| unreadable(path, error))
}

/// Opens a file of a run's directory.
fn open_stored(path: &Path) -> Result<OpenTraceFile, HarnessError> {
    trace_files::open_stored(path).map_err(|error| unreadable(path, error))
}

impl TraceSource {
    /// The stored traces of a run, sorted by file name.
    fn stored(&self, run: &Path, ids: &[String]) -> Result<TraceFileContents, HarnessError> {
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
            let text = format!("{} holds no traces: {help}", run.display());
            return Err(HarnessError::input(text));
        }
        let mut all = TraceFileContents::default();
        for path in paths {
            let loaded = self.read(&path, open_stored(&path)?, ids)?;
            all.traces.extend(loaded.traces);
            all.others.extend(loaded.others);
        }
        let is_here = |id: &&String| all.traces.iter().any(|trace| trace.base_id.starts_with(id.as_str()));
        let missing: Vec<&String> = ids.iter().filter(|id| !is_here(id)).collect();
        if !missing.is_empty() {
            all.traces.extend(self.probe_of(run, ids)?);
            all.traces.extend(received(run, &missing)?);
        }
        Ok(all)
    }

    /// The trace of the iteration before the load, if it came and has one of these ids.
    fn probe_of(&self, run: &Path, ids: &[String]) -> Result<Vec<TraceRecords>, HarnessError> {
        let path = RunDirectory::open(run).probe_trace();
        if !path.is_file() {
            return Ok(Vec::new());
        }
        Ok(self.read(&path, open_stored(&path)?, ids)?.traces)
    }

    /// A file's traces, only `ids` if any are given; warns about what could not be read.
    fn read(
        &self,
        path: &Path,
        opened: OpenTraceFile,
        ids: &[String],
    ) -> Result<TraceFileContents, HarnessError> {
        let noun = if opened.kind == TraceFileKind::Log { "lines" } else { "records" };
        let loaded = trace_files::load(opened, ids).map_err(|error| unreadable(path, error))?;
        let (shown, mut warnings) = (path.display(), Vec::new());
        if let Some(first) = &loaded.first_malformed {
            warnings
                .push(format!("{shown}: {} {noun} could not be read; the first: {first}", loaded.malformed));
        }
        if loaded.left_out > 0 {
            let left_out = loaded.left_out;
            warnings.push(format!("{shown}: {left_out} records are over the limit and left out"));
        }
        warn(&self.events, &warnings);
        Ok(loaded)
    }
}

/// The traces that a run's receivers kept and that were not chosen.
fn received(run: &Path, ids: &[&String]) -> Result<Vec<TraceRecords>, HarnessError> {
    let spans = || run.join("spans");
    let kept = RunSpools::of(run).map_err(|error| unreadable(&spans(), error))?;
    let wanted = kept.trace_ids().filter(|id| {
        let text = id.to_string();
        ids.iter().any(|wanted| text.starts_with(wanted.as_str()))
    });
    let mut traces = Vec::new();
    for id in wanted {
        let records = kept.records(id).map_err(|error| unreadable(&spans(), error))?;
        traces.push(TraceRecords {
            base_id: id.to_string(),
            records,
            unreadable: 0,
            partial: None,
            style: ReportStyle::Records,
        });
    }
    Ok(traces)
}

fn unreadable(path: &Path, error: impl std::fmt::Display) -> HarnessError {
    let error = error.to_string();
    let what = if error.starts_with("read") || error.starts_with("find") { "" } else { "read it: " };
    HarnessError::input(format!("{}: cannot {what}{error}", path.display()))
}

fn nothing_begins_with(id: &str, others: &[String]) -> HarnessError {
    let mut shown: Vec<String> = others.iter().take(IDS_SHOWN).map(|id| format!("  {id}")).collect();
    let more = others.len().saturating_sub(IDS_SHOWN);
    if more > 0 {
        shown.push(format!("  and {more} more"));
    }
    let help = "ask the collector for it with -d DEPLOYMENT";
    let there = if shown.is_empty() { String::new() } else { format!("; there are:\n{}", shown.join("\n")) };
    HarnessError::input(format!("no trace begins with {id}, {help}{there}"))
}

const IDS_SHOWN: usize = 20;

/// The ids, a line each, cut when there are many.
fn ids_of(traces: &[TraceRecords]) -> String {
    let mut lines: Vec<String> =
        traces.iter().take(IDS_SHOWN).map(|trace| format!("  {}", trace.base_id)).collect();
    if traces.len() > IDS_SHOWN {
        lines.push(format!("  and {} more", traces.len() - IDS_SHOWN));
    }
    lines.join("\n")
}

impl TraceSource {
    /// The single trace that is requested.
    ///
    /// # Errors
    /// When it cannot be found or read, or when there are several.
    pub fn one(&self) -> Result<TraceRecords, HarnessError> {
        let mut traces = self.load()?;
        if traces.len() == 1 {
            return Ok(traces.remove(0));
        }
        let ids = ids_of(&traces);
        let text = format!("only one trace can be shown, and there are {}", traces.len());
        Err(HarnessError::usage(text).remedy(format!("name one:\n{ids}")))
    }
}

/// What to say of what came of looking for profiles.
pub(crate) fn profile_notes(added: &AddedProfiles, source: &ProfileSource) -> Vec<String> {
    let unreadable =
        (added.unreadable > 0).then(|| format!("{} profiles in {source} cannot be read", added.unreadable));
    let none = (added.traces == 0).then(|| format!("there is no profile of these traces in {source}"));
    unreadable.into_iter().chain(none).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_may_be_written_as_opentelemetry_writes_them() {
        for (given, expected) in [
            ("2324db754343617019bff1256354a546", "2324db75-4343-6170-19bf-f1256354a546"),
            ("2324DB7543", "2324db75-43"),
            ("2324DB75", "2324db75"),
            ("2324db75-4343", "2324db75-4343"),
            ("base", "base"),
            ("Request-7", "Request-7"),
        ] {
            assert_eq!(with_dashes(given), expected);
        }
    }
}
