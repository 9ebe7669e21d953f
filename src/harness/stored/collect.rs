//! Fetches traces of a stored run later: the collector was down, spans came late, or other iterations are of interest.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, UNIX_EPOCH};

use uuid::Uuid;

use crate::error::{HarnessError, HarnessErrorKind};
use crate::event::{Event, Sink, warn};
use crate::interrupt::Interrupt;
use crate::kept::RunSpools;
use crate::options::{Environment, ReportOptions, YamlFile};
use crate::outcome::FinishedRun;
use crate::traces::{TraceSource, profile_notes};
use crate::{housekeeping, read_again};
use base::clock::{Nanos, RunClock, saturating_nanos};
use base::parallel;
use base::secret::Secret;
use collect::profiles::ProfileSource;
use collect::{self, FetchTarget, files as trace_files, mask_record};
use demo::COLLECTOR_FILE;
use measure::log::{LogFile, RunLog};
use osprofiler::record::TraceRecord;
use results::aggregate::Aggregate;
use results::choice::{self, ChosenIteration};
use results::directory::RunDirectory;
use results::fetched::{FetchedRecords, FetchedTrace};
use results::find::{Query, find};
use results::model::TraceState;
use results::trace::{StoredRecords, StoredTrace};
use text::shell;

/// Shorter beginnings of ids match too much.
const PREFIX_CHARS_MIN: usize = 4;

/// Which traces of which run to fetch, and from where.
#[derive(Clone, Debug)]
pub struct CollectOptions {
    /// The run's directory.
    pub run_dir: PathBuf,
    /// Iterations by their trace ids, or the beginnings of these; if there are none, those that the run would choose.
    pub ids: Vec<String>,
    /// Also fetch the traces of this many of the slowest iterations.
    pub slowest: usize,
    /// Files with traces, as `bench receive` and OpenTelemetry's collector write them.
    pub from: Vec<PathBuf>,
    /// The deployment whose collector has the traces, instead of the run's own.
    pub deployment: Option<YamlFile>,
    /// The collector, instead of a deployment's.
    pub connection: Option<Secret>,
    /// How long to wait for traces that are not complete.
    pub wait: Duration,
    /// Also ask for the traces that are stored and complete.
    pub again: bool,
    /// Where services leave profiles of the traces, or of their points: of those that are stored and complete, too.
    pub profiles: Option<ProfileSource>,
    /// What else to write.
    pub report: ReportOptions,
    /// Where the variables of the environment are looked up.
    pub environment: Environment,
}

/// What was collected.
#[derive(Debug)]
pub struct CollectionResult {
    /// The run, judged and reported again.
    pub finished: FinishedRun,
    /// Traces that were wanted.
    pub wanted: usize,
    /// How many of them were complete before.
    pub before: usize,
    /// How many are complete now.
    pub complete: usize,
    /// How many have some spans, but not all.
    pub partial: usize,
}

/// Fetches traces and writes the run's report again.
///
/// # Errors
/// When the run cannot be read, when nothing can be asked, or when the collector does not answer.
pub fn collect(
    options: &CollectOptions,
    interrupt: &Interrupt,
    events: &Sink,
) -> Result<CollectionResult, HarnessError> {
    let directory = RunDirectory::open(&options.run_dir);
    if !directory.log().is_file() {
        return Err(read_again::no_log(&options.run_dir));
    }
    let log = LogFile::at(&directory.log());
    let aggregate = read_again::read(log, directory.stored_traces(), HarnessErrorKind::Input, |log| {
        read_again::tell(log, events);
        Ok(())
    })?;
    if let Some(reason) = &aggregate.header().profiling_off {
        let text = format!("{} has no traces: it was not profiled: {reason}", options.run_dir.display());
        return Err(HarnessError::input(text));
    }
    let wanted = wanted(options, &aggregate)?;
    let ids: Vec<Uuid> = wanted.keys().copied().collect();
    // Their records are read again when they are needed: all of them at once would take much memory.
    let stored = parallel::map(ids, |id| directory.stored_records(id).map(|trace| (id, trace.state())));
    let mut states: BTreeMap<Uuid, TraceState> = stored.into_iter().flatten().collect();
    let complete: HashSet<Uuid> =
        states.iter().filter(|(_, state)| **state == TraceState::Complete).map(|(id, _)| *id).collect();
    let mut missing = wanted.clone();
    missing.retain(|id, _| options.again || !complete.contains(id));
    let mut new = if missing.is_empty() {
        FetchedRecords::default()
    } else {
        options.fetch(&aggregate, &missing, interrupt, events)?
    };
    let answers: Vec<(Uuid, FetchedTrace)> =
        missing.keys().filter_map(|id| Some((*id, new.take(*id)?))).collect();
    let known = |id: Uuid| states.contains_key(&id).then(|| directory.stored_records(id)).flatten();
    let merged = parallel::map(answers, |(id, answer)| {
        let merged = merge(|| known(id), answer, id)?;
        Some((merged.state(), merged))
    });
    let (mut new_states, mut merged): (Vec<(Uuid, TraceState)>, Vec<StoredRecords>) =
        merged.into_iter().flatten().map(|(state, trace)| ((trace.trace_id, state), trace)).unzip();
    if let Some(profiles) = &options.profiles {
        let new: HashSet<Uuid> = new_states.iter().map(|(id, _)| *id).collect();
        let others = states.keys().filter(|id| !new.contains(id)).copied().collect();
        merged.extend(parallel::map(others, known).into_iter().flatten());
        add_profiles(&mut merged, profiles, events)?;
        new_states = merged.iter().map(|trace| (trace.trace_id, trace.state())).collect();
    }
    states.extend(new_states);
    let known = merged.into_iter().map(|trace| (trace.trace_id, trace)).collect();
    let finished = super::report_with(&options.run_dir, known, &options.report, events)?;
    let of = |state| states.values().filter(|other| **other == state).count();
    Ok(CollectionResult {
        finished,
        wanted: wanted.len(),
        before: complete.len(),
        complete: of(TraceState::Complete),
        partial: of(TraceState::Partial),
    })
}

/// Adds the profiles of the services to the traces.
fn add_profiles(
    traces: &mut [StoredRecords],
    profiles: &ProfileSource,
    events: &Sink,
) -> Result<(), HarnessError> {
    for trace in traces.iter_mut() {
        (trace.records, _) = StoredRecords::split(std::mem::take(&mut trace.records));
    }
    let to = traces.iter_mut().map(|trace| (trace.trace_id.to_string(), &mut trace.records));
    let added = housekeeping::runtime()?.block_on(profiles.add_to(to));
    let added = added.map_err(HarnessError::unreachable)?;
    warn(events, &profile_notes(&added, profiles));
    Ok(())
}

/// The traces to have at the end, each with the end of its iteration.
fn wanted(options: &CollectOptions, aggregate: &Aggregate) -> Result<BTreeMap<Uuid, Nanos>, HarnessError> {
    if let Some(short) = options.ids.iter().find(|id| id.len() < PREFIX_CHARS_MIN) {
        return Err(HarnessError::usage(format!("`{short}` is too short for the beginning of an id"))
            .remedy(format!("write at least {PREFIX_CHARS_MIN} characters")));
    }
    let mut wanted = BTreeMap::new();
    if options.ids.is_empty() {
        wanted = chosen(aggregate);
    }
    if !options.ids.is_empty() || options.slowest > 0 {
        let query = Query { ids: options.ids.clone(), slowest: options.slowest };
        let log = RunLog::of(LogFile::at(&RunDirectory::open(&options.run_dir).log()));
        let found = log.and_then(|log| find(&log, &query)).map_err(HarnessError::of_log)?;
        if let Some(missing) = found.missing.first() {
            let text = format!("no profiled iteration of this run has an id that begins with {missing}");
            let help = format!("`bench export {} --csv` lists them", shell::path(&options.run_dir));
            return Err(HarnessError::input(text).remedy(help));
        }
        wanted.extend(found.ended_ns);
    }
    Ok(wanted)
}

/// What was stored and what is new, together; `None` if nothing is new. What was stored is read only if it is needed.
fn merge(
    old: impl FnOnce() -> Option<StoredRecords>,
    new: FetchedTrace,
    trace_id: Uuid,
) -> Option<StoredRecords> {
    if new.services.is_empty() {
        return None;
    }
    let (known, known_after_ns) = old().map_or_else(Default::default, |old| {
        let (services, _) = StoredRecords::split(old.records);
        (services, old.read_after_ns)
    });
    let read_after_ns = known_after_ns.max(new.read_after_ns);
    let mut records = new.services;
    if !known.is_empty() {
        records.splice(..0, known);
    }
    let records = only_once(records);
    Some(StoredRecords {
        trace_id,
        records,
        unreadable: new.unreadable,
        partial: new.partial,
        read_after_ns,
        asynchronous_ms: None,
    })
}

/// Each record once, oldest first.
fn only_once(mut records: Vec<TraceRecord>) -> Vec<TraceRecord> {
    records.sort_by(|one, other| one.timestamp.cmp(&other.timestamp));
    // Equal records have equal times, and few records have the same.
    let mut is_new = Vec::with_capacity(records.len());
    for at_once in records.chunk_by(|one, other| one.timestamp == other.timestamp) {
        let mut seen = HashSet::new();
        is_new.extend(
            at_once.iter().map(|record| at_once.len() == 1 || seen.insert((&record.name, &record.trace_id))),
        );
    }
    let mut is_new = is_new.into_iter();
    records.retain(|_| is_new.next() == Some(true));
    records
}

impl CollectOptions {
    /// The records of these traces, from everywhere.
    fn fetch(
        &self,
        aggregate: &Aggregate,
        missing: &BTreeMap<Uuid, Nanos>,
        interrupt: &Interrupt,
        events: &Sink,
    ) -> Result<FetchedRecords, HarnessError> {
        let mut all = FetchedRecords::default();
        let kept = RunSpools::of(&self.run_dir).map_err(HarnessError::cannot("read the received spans"))?;
        // It ended with the load, or later.
        add_received(&mut all, &kept, (missing, last_end_ns(aggregate)), events);
        for path in &self.from {
            add_file(&mut all, path, (missing, aggregate.header().started_unix_ns), events)?;
        }
        let nothing_else = kept.is_empty() && self.from.is_empty();
        match self.connection(aggregate)? {
            Some(connection) => {
                let missing = (missing, aggregate.header().started_unix_ns);
                self.ask(&mut all, &connection, missing, interrupt, events)?;
            }
            None if nothing_else => {
                let header = aggregate.header();
                let file = &header.deployment.file;
                let what = match &header.collector {
                    Some(_) if self.brings(Path::new(file)) => {
                        format!("the run's deployment {file} lies in its own directory, which is not trusted")
                    }
                    Some(_) => format!("the run's deployment {file} is not here"),
                    None => "the run has no collector, and none is given".to_owned(),
                };
                let help = "give -d DEPLOYMENT, --connection-string URL, or --from FILE";
                return Err(HarnessError::usage(what).remedy(help));
            }
            None => {}
        }
        Ok(all)
    }

    /// The given collector, or the one of the run's own deployment. A run's directory may come from elsewhere: neither a
    /// link in it nor a deployment that it brings chooses what is contacted.
    fn connection(&self, aggregate: &Aggregate) -> Result<Option<Secret>, HarnessError> {
        let header = &aggregate.header().deployment;
        let demo = self.run_dir.join(COLLECTOR_FILE);
        let has_demo = || std::fs::symlink_metadata(&demo).is_ok_and(|found| found.is_file());
        if self.connection.is_none() && self.deployment.is_none() && has_demo() {
            let path =
                std::path::absolute(&demo).map_err(HarnessError::cannot("find the demo's collector"))?;
            return Ok(Some(Secret::new(format!("sqlite://{}", path.display()))));
        }
        let own = Path::new(&header.file);
        let is_own = || aggregate.header().collector.is_some() && own.is_file() && !self.brings(own);
        let own = || is_own().then(|| own.into());
        let source = TraceSource {
            given: Vec::new(),
            deployment: self.deployment.clone().or_else(own),
            connection: self.connection.clone(),
            profiles: None,
            environment: self.environment.clone(),
            events: crate::event::silent(),
        };
        source.connection()
    }

    /// True if this file lies in the run's directory.
    fn brings(&self, file: &Path) -> bool {
        let (file, run_dir) = (std::fs::canonicalize(file), std::fs::canonicalize(&self.run_dir));
        file.is_ok_and(|file| run_dir.is_ok_and(|run_dir| file.starts_with(run_dir)))
    }

    /// Asks the collector.
    fn ask(
        &self,
        all: &mut FetchedRecords,
        connection: &Secret,
        (missing, started_unix_ns): (&BTreeMap<Uuid, Nanos>, u64),
        interrupt: &Interrupt,
        events: &Sink,
    ) -> Result<(), HarnessError> {
        let wanted: Vec<FetchTarget> =
            missing.keys().map(|id| FetchTarget { id: *id, recent: !self.wait.is_zero() }).collect();
        events.event(&Event::FetchingBegan { wanted: wanted.len() });
        let runtime = housekeeping::runtime()?;
        let mut here = |fetched| events.event(&Event::Fetching { fetched, wanted: wanted.len() });
        let fetched = runtime.block_on(collect::fetch(
            connection,
            &wanted,
            self.wait,
            &mut here,
            interrupt.interrupted(),
        ));
        events.event(&Event::FetchingEnded);
        if let Some(error) = &fetched.error {
            if fetched.records.is_empty() && all.records.is_empty() {
                return Err(HarnessError::unreachable(format!("the collector gave no trace: {error}")));
            }
            events.event(&Event::Warning(&format!("the collector: {error}")));
        }
        let now_ns = RunClock::start().wall_anchor_unix_ns().saturating_sub(started_unix_ns);
        for (id, records) in fetched.records {
            add(all, (id, now_ns.saturating_sub(missing[&id])), records);
        }
        all.unreadable.extend(fetched.unreadable);
        all.partial.extend(fetched.partial);
        Ok(())
    }
}

fn add(all: &mut FetchedRecords, (id, read_after_ns): (Uuid, Nanos), records: Vec<TraceRecord>) {
    all.records.entry(id).or_default().extend(records);
    let known = all.read_after_ns.entry(id).or_default();
    *known = read_after_ns.max(*known);
}

/// Adds what the receivers of the run kept, which ended at this time of the run.
fn add_received(
    all: &mut FetchedRecords,
    kept: &RunSpools,
    (missing, end_ns): (&BTreeMap<Uuid, Nanos>, Nanos),
    events: &Sink,
) {
    for (id, ended_ns) in missing.iter().filter(|(id, _)| kept.has(**id)) {
        match kept.records(*id) {
            Ok(records) => add(all, (*id, end_ns.saturating_sub(*ended_ns)), records),
            Err(error) => events.event(&Event::Warning(&format!("trace {id}: {error}"))),
        }
    }
}

/// Stores the traces of the iterations that a merged run would choose, from what the receivers of its shards kept.
/// Returns how many of them have spans, and how many there are; `None` if no shard had a receiver.
///
/// # Errors
/// The run or the spans cannot be read, or the traces cannot be stored.
pub(crate) fn choose_kept(run_dir: &Path, events: &Sink) -> Result<Option<(usize, usize)>, HarnessError> {
    let kept = RunSpools::of(run_dir).map_err(HarnessError::cannot("read the received spans"))?;
    if kept.is_empty() {
        return Ok(None);
    }
    let directory = RunDirectory::open(run_dir);
    let aggregate = read_again::read(
        LogFile::at(&directory.log()),
        HashSet::new(),
        HarnessErrorKind::Failed,
        |_| Ok(()),
    )?;
    let wanted = chosen(&aggregate);
    let mut all = FetchedRecords::default();
    add_received(&mut all, &kept, (&wanted, last_end_ns(&aggregate)), events);
    let merged = wanted.keys().filter_map(|id| merge(|| None, all.take(*id)?, *id));
    let traces: Vec<StoredTrace> = merged.map(StoredTrace::from).collect();
    directory.store_traces(&traces).map_err(HarnessError::cannot("store the traces"))?;
    Ok(Some((traces.len(), wanted.len())))
}

/// When the last iteration ended.
fn last_end_ns(aggregate: &Aggregate) -> Nanos {
    aggregate.workloads.iter().map(|stats| stats.last_end_ns).max().unwrap_or(0)
}

/// The traces that the run would choose, each with the end of its iteration.
fn chosen(aggregate: &Aggregate) -> BTreeMap<Uuid, Nanos> {
    let of = |ChosenIteration { sample, .. }: &ChosenIteration| {
        (aggregate.trace_id(sample), sample.start_ns.saturating_add(sample.duration_ns))
    };
    choice::choose(aggregate).iter().map(of).collect()
}

/// Adds the traces of a file, which has what was there when it was written last.
fn add_file(
    all: &mut FetchedRecords,
    path: &Path,
    (missing, started_unix_ns): (&BTreeMap<Uuid, Nanos>, u64),
    events: &Sink,
) -> Result<(), HarnessError> {
    let cannot = |error: String| {
        let text = format!("{}: cannot {error}", path.display());
        HarnessError::input(text)
            .remedy("give --from a file of `bench receive` or of OpenTelemetry's collector")
    };
    let opened = trace_files::open(path).map_err(|error| cannot(format!("read it: {error}")))?;
    let ids: Vec<String> = missing.keys().map(ToString::to_string).collect();
    let loaded = trace_files::load(opened, &ids).map_err(|error| cannot(error.to_string()))?;
    if let Some(first) = &loaded.first_malformed {
        let (name, malformed) = (path.display(), loaded.malformed);
        let text = format!("{name}: {malformed} lines or records could not be read; the first: {first}");
        warn(events, &[text]);
    }
    let written_ns = written_unix_ns(path).saturating_sub(started_unix_ns);
    for trace in loaded.traces {
        let Some((id, ended_ns)) = trace.base_id.parse().ok().and_then(|id| missing.get_key_value(&id))
        else {
            continue;
        };
        let mut records = trace.records;
        records.iter_mut().for_each(mask_record);
        add(all, (*id, written_ns.saturating_sub(*ended_ns)), records);
        all.unreadable.insert(*id, trace.unreadable);
        all.partial.extend(trace.partial.map(|why| (*id, why)));
    }
    Ok(())
}

/// When a file was written last; 0 where the system does not say.
fn written_unix_ns(path: &Path) -> u64 {
    let written = std::fs::metadata(path).and_then(|about| about.modified()).ok();
    let since = written.and_then(|written| written.duration_since(UNIX_EPOCH).ok());
    since.map_or(0, saturating_nanos)
}
