//! The collector in a file: Mistral's profile log, which [`crate::profile_log`] knows, or a record a line
//! as JSON (`json_lines`) where the file's name ends in `.jsonl`.
//!
//! One file serves one machine. Lines of several processes may interleave, because each batch is one
//! append; a line that is none is passed over. Project and service are not in the profile log.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Mutex;

use super::forward::driver;
use super::json_lines;
use super::regular_file::regular;
use super::{
    Cause, CollectorTrace, DriverError, TRACE_BYTES_MAX, TRACE_RECORDS_MAX, TraceQuery, TraceSummary, answer,
};
use crate::profile_log::{LogWriter, ProfileLogLine, each_line};
use crate::record::TraceRecord;
use crate::summary::TRACES_MAX;

/// An open log; see [`super::Collector`].
#[derive(Clone, Debug)]
pub(super) struct FileCollector {
    path: Arc<PathBuf>,
    format: Format,
    target: String,
}

#[derive(Clone, Debug)]
enum Format {
    ProfileLog(Arc<Mutex<LogWriter>>),
    JsonLines,
}

impl FileCollector {
    /// Whether the connection string names a path.
    pub(super) fn check(url: &str, target: String) -> Result<(), DriverError> {
        let reason = "write it as file://PATH, for instance file:///var/log/profile.log";
        path(url).map(drop).ok_or(DriverError::Invalid { target, reason })
    }

    /// Opens the log; one that is not there is made.
    pub(super) async fn connect(url: &str, target: String) -> Result<Self, DriverError> {
        Self::check(url, target.clone())?;
        let path = Arc::new(PathBuf::from(path(url).unwrap_or_default()));
        let opening = Arc::clone(&path);
        match blocking(move || open(&opening).map(drop)).await {
            Ok(()) => Ok(Self { format: Format::of(&path), path, target }),
            Err(source) => Err(DriverError::Open { target, source }),
        }
    }

    async fn write(&self, records: &[TraceRecord]) -> Result<(), DriverError> {
        let Format::ProfileLog(writer) = &self.format else {
            return self.append(json_lines::lines(records)).await;
        };
        // Starts are forgotten only once their stops are written: a retry must find them again.
        let mut known = writer.lock().await;
        let (mut text, mut writer) = (String::new(), known.clone());
        records.iter().for_each(|record| writer.append(record, &mut text));
        self.append(text).await?;
        *known = writer;
        Ok(())
    }

    async fn append(&self, text: String) -> Result<(), DriverError> {
        let path = Arc::clone(&self.path);
        answer("write to", &self.target, blocking(move || append(&path, &text))).await
    }

    fn is_json(&self) -> bool {
        matches!(self.format, Format::JsonLines)
    }

    async fn records(&self, base_id: &str) -> Result<CollectorTrace, DriverError> {
        let (path, wanted) = (Arc::clone(&self.path), base_id.to_owned());
        let (is_json, target) = (self.is_json(), self.target.clone());
        let read = blocking(move || match is_json {
            true => json_lines::find(&path, &wanted, &target),
            false => find(&path, &wanted).map(|found| found.map(CollectorTrace::from)),
        });
        match read.await {
            Ok(Some(stored)) => Ok(stored),
            Ok(None) => {
                let (base_id, target) = (base_id.to_owned(), self.target.clone());
                Err(DriverError::TooLarge { base_id, target })
            }
            Err(source) => {
                Err(DriverError::Request { action: "read from", target: self.target.clone(), source })
            }
        }
    }

    async fn list(&self, query: &TraceQuery) -> Result<Vec<TraceSummary>, DriverError> {
        let (path, query) = (Arc::clone(&self.path), *query);
        let summaries = if self.is_json() { json_lines::summaries } else { summaries };
        blocking(move || summaries(&path, &query)).await.map_err(|source| DriverError::Request {
            action: "read from",
            target: self.target.clone(),
            source,
        })
    }

    async fn probe(&self) -> Result<(), DriverError> {
        let path = Arc::clone(&self.path);
        answer("read from", &self.target, blocking(move || regular(&path).map(drop))).await
    }
}

driver!(FileCollector {
    fn target(&self) -> &str {
        &self.target
    }
});

impl Format {
    fn of(path: &Path) -> Self {
        match path.extension() {
            Some(extension) if extension == "jsonl" => Self::JsonLines,
            _ => Self::ProfileLog(Arc::default()),
        }
    }
}

/// What follows `file://`.
fn path(url: &str) -> Option<&str> {
    url.split_once("://").map(|(_, path)| path).filter(|path| !path.is_empty())
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, Cause> {
    tokio::task::spawn_blocking(work).await.map_err(Cause::from)?.map_err(Cause::from)
}

fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

/// Appends lines whole, or leaves the log as it was.
fn append(path: &Path, text: &str) -> io::Result<()> {
    let mut log = open(path)?;
    let before = log.metadata()?.len();
    log.write_all(text.as_bytes()).inspect_err(|_| {
        // Half a line would spoil the next. What others wrote meanwhile is not ours to cut.
        if log.metadata().is_ok_and(|now| now.len() < before + text.len() as u64) {
            let _ = log.set_len(before);
        }
    })
}

/// A trace's records in the order of the log; `None` for a trace over the limits.
fn find(path: &Path, base_id: &str) -> io::Result<Option<Vec<TraceRecord>>> {
    let (mut records, mut bytes) = (Vec::new(), 0);
    each_line(BufReader::new(regular(path)?), |_, line| {
        let Some(line) = line.ok().filter(|line| line.base_id == base_id) else { return };
        bytes += line.name.len() + line.info.map_or(0, str::len) + 200;
        if records.len() <= TRACE_RECORDS_MAX && bytes <= TRACE_BYTES_MAX {
            records.push(line.record());
        }
    })?;
    let fits = records.len() <= TRACE_RECORDS_MAX && bytes <= TRACE_BYTES_MAX;
    Ok(fits.then_some(records))
}

fn summaries(path: &Path, query: &TraceQuery) -> io::Result<Vec<TraceSummary>> {
    let mut traces: HashMap<String, TraceSummary> = HashMap::new();
    each_line(BufReader::new(regular(path)?), |_, line| {
        let Ok(line) = line else { return };
        if traces.len() < TRACES_MAX || traces.contains_key(line.base_id) {
            note(traces.entry(line.base_id.to_owned()).or_insert_with(|| summary(&line)), &line);
        }
    })?;
    Ok(query.newest(traces))
}

fn summary(line: &ProfileLogLine<'_>) -> TraceSummary {
    TraceSummary {
        base_id: line.base_id.to_owned(),
        timestamp: line.timestamp.to_owned(),
        records: Some(0),
        name: Some(line.name.to_owned()),
        failed: Some(false),
    }
}

fn note(trace: &mut TraceSummary, line: &ProfileLogLine<'_>) {
    trace.records = trace.records.map(|records| records + 1);
    if line.duration_s.is_some() && line.record().info.contains_key("etype") {
        trace.failed = Some(true);
    }
}
