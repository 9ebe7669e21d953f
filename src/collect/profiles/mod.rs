//! Profiles that services leave elsewhere than in their traces: in a directory, or in a Pyroscope server.
//!
//! They are added to the records of a trace, as its services could have reported them, so that everything after that
//! finds functions in one place only. Nothing here may draw conclusions.

mod directory;
mod pyroscope;

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use futures_util::StreamExt as _;
use futures_util::stream;
use uuid::Uuid;

use self::directory::Directory;
use self::pyroscope::Server;
use super::PARALLEL_MAX;
use base::ids::span_id;
use osprofiler::functions::carried;
use osprofiler::functions::model::{Builder, FunctionProfile};
use osprofiler::record::{Info, START_SUFFIX, STOP_SUFFIX, TraceRecord};
use osprofiler::text::Text;

/// Between the id of a point and a number, in the id of the point that carries its functions.
const ADDED: &str = "-functions-";

/// Where services leave profiles.
#[derive(Clone, Debug, PartialEq)]
pub enum ProfileSource {
    /// In files.
    Directory(PathBuf),
    Pyroscope(Server),
}

impl FromStr for ProfileSource {
    type Err = String;

    /// A URL is that of a server; all else is a directory.
    fn from_str(text: &str) -> Result<Self, String> {
        match text.starts_with("http://") || text.starts_with("https://") {
            true => text.parse().map(Self::Pyroscope),
            false => Ok(Self::Directory(PathBuf::from(text))),
        }
    }
}

impl fmt::Display for ProfileSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path) => path.display().fmt(f),
            Self::Pyroscope(server) => server.fmt(f),
        }
    }
}

/// What came of looking for profiles.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddedProfiles {
    /// Traces that have functions now.
    pub traces: usize,
    /// Files that cannot be read.
    pub unreadable: u64,
}

impl ProfileSource {
    /// Adds the profiles of traces to their records; each trace comes with its id. What was added before is replaced.
    ///
    /// # Errors
    /// The directory cannot be read, or the server refuses or does not answer. Some traces may have their profiles then.
    pub async fn add_to<'a>(
        &self,
        traces: impl Iterator<Item = (String, &'a mut Vec<TraceRecord>)>,
    ) -> Result<AddedProfiles, String> {
        let mut added = AddedProfiles::default();
        let cannot = |why: &dyn fmt::Display| format!("cannot read profiles from {self}: {why}");
        match self {
            Self::Directory(path) => {
                let directory = Directory::open(path).map_err(|error| cannot(&error))?;
                for (base_id, records) in traces {
                    forget(records);
                    let (found, unreadable) = directory.of(&base_id, records);
                    // A file that is not of one trace alone is tried with each.
                    added.unreadable = added.unreadable.max(unreadable);
                    added.traces += usize::from(found.carry(&base_id, records));
                }
            }
            Self::Pyroscope(server) => {
                let client = server.connect().map_err(|error| cannot(&error))?;
                let mut traces: Vec<_> = traces.collect();
                traces.iter_mut().for_each(|(_, records)| forget(records));
                let asked = traces.iter().map(|(base_id, records)| client.of(base_id, records));
                let found: Vec<Result<PointProfiles, String>> =
                    stream::iter(asked).buffered(PARALLEL_MAX).collect().await;
                for ((base_id, records), found) in traces.into_iter().zip(found) {
                    let found = found.map_err(|error| cannot(&error))?;
                    added.traces += usize::from(found.carry(&base_id, records));
                }
            }
        }
        Ok(added)
    }
}

/// Drops what was added to these records before.
fn forget(records: &mut Vec<TraceRecord>) {
    records.retain(|record| !record.trace_id.contains(ADDED));
}

/// The profiles of a trace, by point.
#[derive(Default)]
struct PointProfiles {
    of_point: HashMap<String, Builder>,
}

impl PointProfiles {
    /// Adds a profile whose stacks belong to a point; `name` is that of an operation which the profile does not name.
    fn add(&mut self, point: &str, name: &str, profile: &FunctionProfile) {
        let operation = Some(profile.operation.as_str()).filter(|name| !name.is_empty()).unwrap_or(name);
        let sum =
            self.of_point.entry(point.to_owned()).or_insert_with(|| Builder::new(operation, profile.hz));
        sum.set_operations(1);
        sum.leave_out(profile.left_out);
        for stack in &profile.stacks {
            let frames = stack.frames.iter().filter_map(|frame| profile.functions.get(*frame as usize));
            let frames: Vec<_> = frames.cloned().collect();
            sum.add(Some(point), &frames, stack.samples);
        }
    }

    /// Adds points that carry them to the records of the trace. Returns whether there are any.
    fn carry(self, base_id: &str, records: &mut Vec<TraceRecord>) -> bool {
        let mut found: Vec<(String, Builder)> = self.of_point.into_iter().collect();
        found.sort_by(|one, other| one.0.cmp(&other.0));
        let is_any = !found.is_empty();
        for (number, (point, sum)) in found.into_iter().enumerate() {
            records.extend(carrying(records, base_id, &point, number, &sum.finish()));
        }
        is_any
    }
}

/// The points of a trace by every spelling of their ids.
struct PointIdIndex {
    /// Of the whole trace, with its first point.
    trace: Vec<(String, Text)>,
    points: HashMap<Text, Text>,
}

impl PointIdIndex {
    fn of(base_id: &str, records: &[TraceRecord]) -> Self {
        let mut points = HashMap::new();
        for record in records {
            let id = &record.trace_id;
            points.insert(id.clone(), id.clone());
            if let Ok(uuid) = id.parse::<Uuid>() {
                points.insert(format!("{:016x}", span_id(uuid)).into(), id.clone());
            }
        }
        let is_outermost =
            |record: &&TraceRecord| !records.iter().any(|one| one.trace_id == record.parent_id);
        let first =
            records.iter().filter(is_outermost).min_by(|one, other| one.timestamp.cmp(&other.timestamp));
        let first = first.map(|record| record.trace_id.clone());
        let plain = base_id.parse::<Uuid>().ok().map(|uuid| uuid.simple().to_string());
        let spellings = std::iter::once(base_id.to_owned()).chain(plain);
        let trace = first.map(|first| spellings.map(|id| (id, first.clone())).collect()).unwrap_or_default();
        Self { trace, points }
    }

    /// The point that a file belongs to by its name.
    fn named_by(&self, name: &str) -> Option<Text> {
        let of_trace = self.trace.iter().find(|(id, _)| name.starts_with(id.as_str()));
        if let Some((_, first)) = of_trace {
            return Some(first.clone());
        }
        let end = |c: char| !(c.is_ascii_alphanumeric() || c == '-');
        self.known(name.split(end).next().unwrap_or_default())
    }

    fn known(&self, id: &str) -> Option<Text> {
        self.points.get(id).cloned()
    }
}

/// The records of a point that carries a profile.
fn carrying(
    records: &[TraceRecord],
    base_id: &str,
    point: &str,
    number: usize,
    profile: &FunctionProfile,
) -> [TraceRecord; 2] {
    let of_point = records.iter().filter(|record| record.trace_id == point);
    let last = of_point.max_by(|one, other| one.timestamp.cmp(&other.timestamp));
    let record = |suffix: &str, info: Info| TraceRecord {
        name: format!("{}{suffix}", carried::POINT_NAME).into(),
        base_id: base_id.into(),
        trace_id: format!("{point}{ADDED}{number}").into(),
        parent_id: point.into(),
        timestamp: last.map(|record| record.timestamp.clone()).unwrap_or_default(),
        info: info.into(),
        project: last.and_then(|record| record.project.clone()),
        service: last.and_then(|record| record.service.clone()),
    };
    [record(START_SUFFIX, Info::new()), record(STOP_SUFFIX, carried::encode(profile))]
}
