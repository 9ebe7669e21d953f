//! The collector in a file: Mistral's profile log, which [`crate::profile_log`] knows.
//!
//! One file serves one machine. Lines of several processes may interleave, because each batch is one
//! append; a line that is none is passed over. Project and service are not in the format.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::Mutex;

use super::{
    Answer, Cause, Driver, DriverError, Stored, TRACE_BYTES_MAX, TRACE_RECORDS_MAX, TraceQuery, TraceSummary,
    answer,
};
use crate::profile_log::{Line, LogWriter, each_line};
use crate::record::Record;

/// Traces that one look into a log can tell apart.
const TRACES_MAX: usize = 1_000_000;

/// An open log; see [`super::Collector`].
#[derive(Clone, Debug)]
pub(super) struct FileCollector {
    path: Arc<PathBuf>,
    writer: Arc<Mutex<LogWriter>>,
    target: String,
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
            Ok(()) => Ok(Self { path, writer: Arc::default(), target }),
            Err(source) => Err(DriverError::Open { target, source }),
        }
    }

    async fn write(&self, records: &[Record]) -> Result<(), DriverError> {
        // Starts are forgotten only once their stops are written: a retry must find them again.
        let mut known = self.writer.lock().await;
        let (mut text, mut writer) = (String::new(), known.clone());
        records.iter().for_each(|record| writer.append(record, &mut text));
        let path = Arc::clone(&self.path);
        let append = blocking(move || append(&path, &text));
        answer("write to", &self.target, append).await?;
        *known = writer;
        Ok(())
    }

    async fn records(&self, base_id: &str) -> Result<Vec<Record>, DriverError> {
        let (path, wanted) = (Arc::clone(&self.path), base_id.to_owned());
        let read = blocking(move || find(&path, &wanted));
        match read.await {
            Ok(Some(records)) => Ok(records),
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
        blocking(move || summaries(&path, &query)).await.map_err(|source| DriverError::Request {
            action: "read from",
            target: self.target.clone(),
            source,
        })
    }

    async fn probe(&self) -> Result<(), DriverError> {
        let path = Arc::clone(&self.path);
        answer("read from", &self.target, blocking(move || File::open(&*path).map(drop))).await
    }
}

impl Driver for FileCollector {
    fn write<'a>(&'a self, records: &'a [Record]) -> Answer<'a, ()> {
        Box::pin(self.write(records))
    }

    fn records<'a>(&'a self, base_id: &'a str) -> Answer<'a, Stored> {
        Box::pin(async move { self.records(base_id).await.map(Stored::from) })
    }

    fn list<'a>(&'a self, query: &'a TraceQuery) -> Answer<'a, Vec<TraceSummary>> {
        Box::pin(self.list(query))
    }

    fn probe(&self) -> Answer<'_, ()> {
        Box::pin(self.probe())
    }

    fn target(&self) -> &str {
        &self.target
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
fn find(path: &Path, base_id: &str) -> io::Result<Option<Vec<Record>>> {
    let (mut records, mut bytes) = (Vec::new(), 0);
    each_line(BufReader::new(File::open(path)?), |_, line| {
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
    each_line(BufReader::new(File::open(path)?), |_, line| {
        let Ok(line) = line else { return };
        if traces.len() < TRACES_MAX || traces.contains_key(line.base_id) {
            note(traces.entry(line.base_id.to_owned()).or_insert_with(|| summary(&line)), &line);
        }
    })?;
    let mut traces: Vec<TraceSummary> = traces.into_values().collect();
    traces.retain(|trace| !query.errors_only || trace.failed == Some(true));
    traces.sort_by(|one, other| other.timestamp.cmp(&one.timestamp));
    traces.truncate(query.limit);
    Ok(traces)
}

fn summary(line: &Line<'_>) -> TraceSummary {
    TraceSummary {
        base_id: line.base_id.to_owned(),
        timestamp: line.timestamp.to_owned(),
        records: Some(0),
        name: Some(line.name.to_owned()),
        failed: Some(false),
    }
}

fn note(trace: &mut TraceSummary, line: &Line<'_>) {
    trace.records = trace.records.map(|records| records + 1);
    if line.duration_s.is_some() && line.record().info.contains_key("etype") {
        trace.failed = Some(true);
    }
}
